use super::inode::PAGE;
use super::*;
use crate::error::Error;
use crate::io::{File, OpenMode};

fn disk() -> (FaultyDisk, PathBuf) {
    let disk = FaultyDisk::new(7);
    let dir = PathBuf::from("/db");
    disk.create_dir_all(&dir).unwrap();
    (disk, dir)
}

fn synced_file(disk: &FaultyDisk, path: &Path, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(path, OpenMode::Create).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(path.parent().unwrap()).unwrap();
    file
}

#[test]
fn a_cut_drops_or_keeps_what_was_not_synced_and_a_kill_leaves_it_unsynced() {
    let (disk, dir) = disk();
    let path = dir.join("a");
    let file = synced_file(&disk, &path, b"old");
    file.write_at(b"new!", 0).unwrap();
    assert_eq!(disk.contents(&path).unwrap(), b"new!");
    assert_eq!(disk.crash(Crash::Drop).contents(&path).unwrap(), b"old");
    assert_eq!(disk.crash(Crash::Keep).contents(&path).unwrap(), b"new!");
    let killed = disk.crash(Crash::Kill);
    assert_eq!(killed.contents(&path).unwrap(), b"new!");
    assert_eq!(killed.crash(Crash::Drop).contents(&path).unwrap(), b"old");
    // The old machine cannot reach the new disk.
    file.write_at(b"zombie", 0).unwrap();
    assert_eq!(killed.contents(&path).unwrap(), b"new!");
}

#[test]
fn writes_tear_at_pages() {
    let (disk, dir) = disk();
    let path = dir.join("a");
    let file = synced_file(&disk, &path, &[1; 4 * PAGE]);
    file.write_at(&[2; 4 * PAGE], 0).unwrap();
    let mut mixed = 0;
    for _ in 0..50 {
        let bytes = disk.crash(Crash::Tear).contents(&path).unwrap();
        for page in bytes.chunks(PAGE) {
            assert!(page.iter().all(|b| *b == page[0]), "a page is never torn");
        }
        mixed += usize::from(bytes.contains(&1) && bytes.contains(&2));
    }
    assert!(mixed > 10, "{mixed}");
}

#[test]
fn a_prefix_keeps_the_order_over_files_and_reordering_does_not() {
    let (disk, dir) = disk();
    let (a, b) = (dir.join("a"), dir.join("b"));
    let (fa, fb) = (synced_file(&disk, &a, b"0"), synced_file(&disk, &b, b"0"));
    fa.write_at(b"1", 0).unwrap();
    fb.write_at(b"1", 0).unwrap();
    fa.write_at(b"2", 0).unwrap();
    let seen = |mode| -> BTreeSet<(Vec<u8>, Vec<u8>)> {
        (0..100)
            .map(|_| {
                let after = disk.crash(mode);
                (after.contents(&a).unwrap(), after.contents(&b).unwrap())
            })
            .collect()
    };
    let pairs = |list: &[(&str, &str)]| {
        list.iter().map(|(x, y)| (x.as_bytes().to_vec(), y.as_bytes().to_vec())).collect::<BTreeSet<_>>()
    };
    assert_eq!(seen(Crash::Prefix), pairs(&[("0", "0"), ("1", "0"), ("1", "1"), ("2", "1")]));
    assert_eq!(
        seen(Crash::Reorder),
        pairs(&[("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"), ("2", "0"), ("2", "1")])
    );
}

#[test]
fn directory_changes_need_their_own_sync() {
    let (disk, dir) = disk();
    let (a, b) = (dir.join("a"), dir.join("b"));
    let file = disk.open(&a, OpenMode::Create).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    assert!(disk.crash(Crash::Drop).files().is_empty());
    disk.sync_dir(&dir).unwrap();
    assert_eq!(disk.crash(Crash::Drop).contents(&a).unwrap(), b"x");

    disk.rename(&a, &b).unwrap();
    assert_eq!(disk.files(), [&*b]);
    assert_eq!(disk.crash(Crash::Drop).files(), [&*a]);
    assert_eq!(disk.crash(Crash::Keep).files(), [&*b]);
    disk.sync_dir(&dir).unwrap();
    disk.remove(&b).unwrap();
    assert!(!disk.exists(&b).unwrap());
    file.write_at(b"still", 0).unwrap();
    assert_eq!(disk.crash(Crash::Drop).contents(&b).unwrap(), b"x");
    disk.sync_dir(&dir).unwrap();
    assert!(disk.crash(Crash::Drop).files().is_empty());
}

#[test]
fn lengths_need_a_sync_too() {
    let (disk, dir) = disk();
    let path = dir.join("a");
    let file = synced_file(&disk, &path, &[9; 10]);
    file.allocate(8192).unwrap();
    assert_eq!(disk.crash(Crash::Drop).contents(&path).unwrap().len(), 10);
    file.sync_data().unwrap();
    file.set_len(4).unwrap();
    file.set_len(6).unwrap();
    assert_eq!(disk.contents(&path).unwrap(), [9, 9, 9, 9, 0, 0]);
    assert_eq!(disk.crash(Crash::Keep).contents(&path).unwrap(), [9, 9, 9, 9, 0, 0]);
    assert_eq!(disk.crash(Crash::Drop).contents(&path).unwrap().len(), 8192);
}

#[test]
fn a_failed_sync_leaves_clean_pages() {
    let mut lost = 0;
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let path = PathBuf::from("/a");
        let file = synced_file(&disk, &path, b"old");
        file.write_at(b"new", 0).unwrap();
        disk.fail(Fault { op: Some(Op::Sync), path: "a".into(), skip: 0, times: 1, failure: Failure::Eio });
        assert!(matches!(file.sync_data(), Err(Error::Io { op: "fdatasync", .. })));
        file.sync_data().unwrap();
        assert_eq!(disk.contents(&path).unwrap(), b"new");
        let after = disk.crash(Crash::Keep).contents(&path).unwrap();
        lost += usize::from(after == b"old");
        // Writing the page again brings the lost bytes along.
        file.write_at(b"!", 3).unwrap();
        file.sync_data().unwrap();
        assert_eq!(disk.crash(Crash::Drop).contents(&path).unwrap(), b"new!");
    }
    assert!((1..20).contains(&lost), "{lost}");
}

#[test]
fn calls_are_counted_and_fail_when_told() {
    let (disk, dir) = disk();
    let path = dir.join("a");
    let file = synced_file(&disk, &path, &[1; 3 * PAGE]);
    let n = disk.calls();
    disk.fail_call(n + 2, Failure::Enospc);
    file.write_at(&[2; 10], 0).unwrap();
    assert!(matches!(file.write_at(&[3; 3 * PAGE], 0), Err(Error::DiskFull(_))));
    assert_eq!(disk.calls(), n + 2);
    assert_eq!(disk.history()[n as usize..], [Op::Write, Op::Write]);

    disk.fail(Fault { op: Some(Op::Read), path: String::new(), skip: 1, times: 2, failure: Failure::Eio });
    let mut buf = [0; 100];
    assert!(file.read_at(&mut buf, 0).is_ok());
    assert!(file.read_at(&mut buf, 0).is_err());
    assert!(file.read_at(&mut buf, 0).is_err());
    assert!(file.read_at(&mut buf, 0).is_ok());
    let short =
        Fault { op: Some(Op::Read), path: String::new(), skip: 0, times: 1, failure: Failure::ShortRead };
    disk.fail(short);
    let got = file.read_at(&mut buf, 0).unwrap();
    assert!((1..100).contains(&got));

    disk.crash_at(disk.calls() + 2);
    assert!(file.len().is_ok());
    assert!(file.len().is_err() && disk.exists(&path).is_err() && file.write_at(b"z", 0).is_err());
    let after = disk.crash(Crash::Keep);
    assert_eq!((after.calls(), after.contents(&path).unwrap().len()), (0, 3 * PAGE));
}

#[test]
fn bits_flip_for_good_and_the_disk_fills_up() {
    let (disk, dir) = disk();
    let path = dir.join("a");
    let file = synced_file(&disk, &path, &[0; 100]);
    file.write_at(&[0; 1], 4).unwrap();
    assert!(disk.flip_bit(&path, 5, 3));
    assert!(!disk.flip_bit(&path, 100, 0));
    for mode in Crash::ALL {
        assert_eq!(disk.crash(mode).contents(&path).unwrap()[5], 8, "{mode:?}");
    }
    disk.set_capacity(Some(1000));
    assert_eq!(disk.free_space(&dir).unwrap(), 900);
    assert!(matches!(file.allocate(1001), Err(Error::DiskFull(_))));
    file.allocate(1000).unwrap();
    assert!(matches!(file.write_at(&[1; 2], 999), Err(Error::DiskFull(_))));
    file.write_at(&[1; 1], 999).unwrap();
}

#[test]
fn locks_clock_and_seeds() {
    let (disk, dir) = disk();
    let lock = disk.lock(&dir.join("LOCK")).unwrap();
    assert!(matches!(disk.clone().lock(&dir.join("LOCK")), Err(Error::Busy(_))));
    assert!(disk.crash(Crash::Kill).lock(&dir.join("LOCK")).is_ok(), "a lock dies with its process");
    drop(lock);
    assert!(disk.lock(&dir.join("LOCK")).is_ok());
    let (t, s) = (disk.now_micros(), disk.unix_seconds());
    disk.advance_clock(5_000_000);
    assert_eq!((disk.now_micros(), disk.unix_seconds()), (t + 5_000_000, s + 5));
    let draw = |seed| {
        let d = FaultyDisk::new(seed);
        (d.random().next(), d.random().next())
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}
