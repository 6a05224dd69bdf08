//! Recovery of versions: crashes at every I/O call, failures, files in use.

use std::path::{Path, PathBuf};

use super::*;
use crate::compaction::test_store::{open, TestStore, DIR};
use crate::error::Error;
use crate::io::faulty::{Crash, Failure, Fault, FaultyDisk, Op};
use crate::io::OpenMode;
use crate::iter::VersionIterator;
use crate::options::FormatVersion;
use crate::types::MAX_SEQ;

/// A store's contents as text, to compare states: option "step" and the contents of family 1.
fn printed(versions: &VersionSet) -> String {
    try_printed(versions).unwrap()
}

fn try_printed(versions: &VersionSet) -> Result<String, Error> {
    let mut printed = format!("{:?}\n{}", versions.state().options, versions.current());
    for (_, levels) in versions.current().families() {
        for (_, table) in levels.tables() {
            let mut iter = table.version_iter();
            let mut entries = 0;
            iter.seek(&[])?;
            while iter.valid() {
                entries += 1;
                iter.next()?;
            }
            printed += &format!("{entries} entries\n");
        }
    }
    Ok(printed)
}

/// A program of edits, flushes and compactions. After each acknowledged step it pushes the printed version.
fn program(disk: &FaultyDisk, seen: &mut Vec<String>) -> Result<(), Error> {
    let tables = crate::table::TableStore::new(disk.shared(), DIR, 4);
    let cache = crate::cache::BlockCache::new(1 << 16);
    // The first opening may fail; a test store opens again.
    drop(VersionSet::open(disk.shared(), Path::new(DIR), tables, cache, OpenFor::WriteOrCreate)?);
    let versions = open(disk, OpenFor::Write)?;
    let mut store = TestStore::with(disk.clone(), versions);
    seen.push(try_printed(&store.versions)?);
    for step in 0..6 {
        for i in 0..40 {
            store.write(1 + i % 2, format!("k{}", (i * 7 + step) % 50).as_bytes(), Some(&[b'x'; 40]));
        }
        store.seal();
        store.flush(1)?;
        seen.push(try_printed(&store.versions)?);
        if store.compact()?.is_some() {
            seen.push(try_printed(&store.versions)?);
        }
        let options = vec![("step".into(), step.to_string())];
        store.versions.apply(Edit { options, ..Edit::default() })?;
        seen.push(try_printed(&store.versions)?);
        store.versions.delete_obsolete()?;
        if step % 2 == 1 {
            store.versions = open(disk, OpenFor::Write)?;
        }
    }
    Ok(())
}

#[test]
fn a_crash_at_every_call_leaves_every_acknowledged_edit_and_whole_files() {
    let mut all = Vec::new();
    let disk = FaultyDisk::new(0);
    program(&disk, &mut all).unwrap();
    let calls = disk.calls();
    let history = disk.history();
    let mut reopened = 0;
    for call in 1..=calls {
        if !history[call as usize - 1].changes() {
            continue;
        }
        for (number, mode) in Crash::ALL.into_iter().enumerate() {
            let disk = FaultyDisk::new(call * 10 + number as u64);
            disk.crash_at(call);
            let mut seen = Vec::new();
            program(&disk, &mut seen).unwrap_err();
            let after = disk.crash(mode);
            // A second crash, inside of recovery, changes nothing either.
            let recovery = after.crash(mode);
            recovery.crash_at(1 + call % 25);
            drop(open(&recovery, OpenFor::WriteOrCreate));
            for disk in [after, recovery.crash(mode)] {
                let versions = match open(&disk, OpenFor::WriteOrCreate) {
                    Ok(versions) => versions,
                    Err(error) => panic!("call {call} {mode:?}: {error}"),
                };
                assert_eq!(versions.remove_unknown_files(&Default::default()), Vec::<String>::new());
                let found = printed(&versions);
                let possible = &all[seen.len().saturating_sub(1)..all.len().min(seen.len() + 1)];
                assert!(
                    possible.contains(&found) || seen.is_empty(),
                    "call {call} {mode:?}: after {} steps found\n{found}",
                    seen.len()
                );
                reopened += 1;
            }
        }
    }
    assert!(reopened > 500, "{reopened} crashes");
}

#[test]
fn every_sync_is_needed() {
    // A sync that persists nothing must be noticed by some crash; otherwise it is not needed, or not tested.
    for (op, path) in [(Op::Sync, "MANIFEST"), (Op::Sync, "CURRENT"), (Op::Sync, ".sst"), (Op::SyncDir, "")] {
        let lying = |seed| {
            let disk = FaultyDisk::new(seed);
            let path = path.to_string();
            disk.fail(Fault { op: Some(op), path, skip: 0, times: u64::MAX, failure: Failure::Lie });
            disk
        };
        let disk = lying(0);
        let mut all = Vec::new();
        program(&disk, &mut all).unwrap();
        let noticed = (1..=disk.calls()).any(|call| {
            let disk = lying(call);
            disk.crash_at(call);
            let mut seen = Vec::new();
            let _ = program(&disk, &mut seen);
            let after = disk.crash(Crash::Drop);
            let found = open(&after, OpenFor::Write).and_then(|versions| try_printed(&versions));
            let possible = &all[seen.len().saturating_sub(1)..all.len().min(seen.len() + 1)];
            !seen.is_empty() && !found.is_ok_and(|found| possible.contains(&found))
        });
        assert!(noticed, "no crash notices that {op:?} of '{path}' does nothing");
    }
}

#[test]
fn a_failed_edit_may_be_offered_again_and_its_files_stay_until_the_next_manifest() {
    for op in [Op::Write, Op::Sync] {
        for failure in [Failure::Eio, Failure::Enospc] {
            let mut store = TestStore::new(FaultyDisk::new(3));
            store.write(1, b"a", Some(b"1"));
            store.seal();
            let path = "MANIFEST".to_string();
            store.disk.fail(Fault { op: Some(op), path, skip: 0, times: 1, failure });
            store.flush(1).unwrap_err();
            let tables = |disk: &FaultyDisk| disk.files().iter().filter(|p| is_table(p)).count();
            store.versions.delete_obsolete().unwrap();
            assert_eq!(tables(&store.disk), 1, "the manifest may name it");
            assert_eq!(store.versions.current().families_len(), 0);
            store.flush(1).unwrap();
            assert_eq!(store.get(1, b"a", MAX_SEQ), Some(b"1".to_vec()));
            store.versions.delete_obsolete().unwrap();
            assert_eq!(tables(&store.disk), 1, "the first one is gone");
            store.versions = open(&store.disk.crash(Crash::Drop), OpenFor::Write).unwrap();
            assert_eq!(store.get(1, b"a", MAX_SEQ), Some(b"1".to_vec()));
        }
    }
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

#[test]
fn a_file_is_unlinked_only_after_the_last_version_that_names_it_is_dropped() {
    let mut store = TestStore::new(FaultyDisk::new(4));
    store.write(1, b"a", Some(b"1"));
    store.seal();
    store.flush(1).unwrap();
    let held = store.versions.current();
    let table = held.family(1).unwrap().l0[0].clone();
    store.write(1, b"b", Some(b"2"));
    store.seal();
    store.flush(1).unwrap();
    let l0 = store.versions.current().family(1).unwrap().l0.len();
    assert_eq!(l0, 1, "small runs merge at a flush");
    drop(held);
    assert_eq!(store.versions.delete_obsolete().unwrap(), 0, "the handle holds it");
    let path = table.file.number();
    drop(table);
    let pause = store.versions.pause_deletions();
    assert_eq!(store.versions.delete_obsolete().unwrap(), 0);
    drop(pause);
    assert_eq!(store.versions.delete_obsolete().unwrap(), 1);
    assert!(!store.disk.files().contains(&PathBuf::from(format!("{DIR}/{path:08}.sst"))));
}

/// A prepare refused and tried again keeps a file twice; its first attempt gives the file up later.
#[test]
fn a_file_that_is_kept_twice_stays_until_both_have_given_it_up() {
    let store = TestStore::new(FaultyDisk::new(6));
    for (times, unlinked) in [(1, 0), (2, 1)] {
        let number = store.versions.new_file_number();
        let path = PathBuf::from(format!("{DIR}/{number:08}.sst"));
        drop(store.disk.shared().open(&path, OpenMode::Create).unwrap());
        let file = store.versions.private_file(number, 0);
        (0..2).for_each(|_| store.versions.pin_file(&file));
        (0..times).for_each(|_| store.versions.unpin_file(&file));
        drop(file);
        assert_eq!(store.versions.delete_obsolete().unwrap(), unlinked, "given up {times} times");
        assert_eq!(store.disk.files().contains(&path), unlinked == 0);
    }
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing() {
    let mut store = TestStore::new(FaultyDisk::new(5));
    store.write(1, b"m", Some(b"1"));
    store.seal();
    store.flush(1).unwrap();
    let table = store.versions.current().family(1).unwrap().l0[0].clone();
    let again = NewTable {
        file: table.file.number(),
        level: 0,
        generation: table.generation,
        meta: table.meta().clone(),
    };
    let before = printed(&store.versions);
    let elsewhere = NewTable { file: 999, ..again.clone() };
    for (edit, expected) in [
        (Edit { removed_tables: vec![(1, 77)], ..Edit::default() }, "file 77 is not there"),
        (Edit { removed_tables: vec![(2, table.file.number())], ..Edit::default() }, "family 2"),
        (Edit { new_tables: vec![again.clone()], ..Edit::default() }, "two tables in file"),
        (Edit { new_tables: vec![elsewhere], ..Edit::default() }, "there is no file 999"),
    ] {
        let error = store.versions.apply(edit).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(printed(&store.versions), before);
    }
    let moved = NewTable { level: 6, generation: 0, ..again };
    let removed_tables = vec![(1, table.file.number())];
    store.versions.apply(Edit { removed_tables, new_tables: vec![moved], ..Edit::default() }).unwrap();
    store.versions = open(&store.disk, OpenFor::Write).unwrap();
    assert_eq!(store.versions.current().to_string(), "family 1\nL6 #2 [m..m] 1e\n");
}

#[test]
fn what_a_job_adds_to_a_dropped_family_is_left_out() {
    let mut store = TestStore::new(FaultyDisk::new(6));
    for round in 0..3u8 {
        for i in 0..200u16 {
            store.write(1, format!("{i:03}").as_bytes(), Some(&[round; 50]));
        }
        store.seal();
        store.flush(1).unwrap();
    }
    let live = store.snapshots();
    let options = store.family_options.clone();
    let family = |_| Some(options.clone());
    let picked = crate::compaction::pick(
        &store.reservations,
        &store.versions,
        &store.options,
        None,
        &family,
        (MAX_SEQ, 0),
    )
    .unwrap();
    let context = crate::compaction::job::JobContext {
        versions: &store.versions,
        live: &live,
        stop: &|| false,
        pace: &|_| (),
        large_table: 1 << 20,
        new_value_files: None,
    };
    let done = crate::compaction::job::compact(&context, &picked.levels, 1, &options, 1 << 20, &picked.task)
        .unwrap();
    store.drop_family(1).unwrap();
    store.versions.apply(done.edit).unwrap();
    drop(picked);
    assert_eq!(store.versions.current().families_len(), 0);
    store.versions.delete_obsolete().unwrap();
    assert_eq!(store.disk.files().iter().filter(|p| is_table(p)).count(), 0);
}

#[test]
fn damage_and_absence_are_named() {
    let mut store = TestStore::new(FaultyDisk::new(7));
    store.write(1, b"m", Some(b"1"));
    store.seal();
    store.flush(1).unwrap();
    let options = vec![("a".into(), "b".into())];
    store.versions.apply(Edit { options, ..Edit::default() }).unwrap();
    let manifest = PathBuf::from(format!("{DIR}/MANIFEST-00000001"));
    let open_error = |disk: &FaultyDisk| open(disk, OpenFor::Read).unwrap_err().to_string();
    // Zeros follow the last edit, up to the end of the reserved blocks.
    let end = store.disk.contents(&manifest).unwrap().iter().rposition(|byte| *byte != 0).unwrap() as u64;
    for offset in 0..end - 30 {
        let disk = store.disk.crash(Crash::Keep);
        assert!(disk.flip_bit(&manifest, offset, (offset % 8) as u8));
        assert!(open_error(&disk).contains("MANIFEST-00000001"), "at {offset}");
    }
    let disk = store.disk.crash(Crash::Keep);
    disk.flip_bit(Path::new("/db/CURRENT"), 12, 0);
    assert!(open_error(&disk).contains("CURRENT"));
    let disk = store.disk.crash(Crash::Keep);
    disk.shared().remove(Path::new("/db/00000002.sst")).unwrap();
    let missing = open(&disk, OpenFor::Read).unwrap().missing();
    assert_eq!(missing, [(2, [1].into())].into(), "its tables alone cannot be read");
    let disk = store.disk.crash(Crash::Keep);
    disk.shared().remove(Path::new("/db/CURRENT")).unwrap();
    let error = open(&disk, OpenFor::WriteOrCreate).unwrap_err().to_string();
    assert!(error.contains("CURRENT is missing"), "{error}");
    assert!(open_error(&FaultyDisk::new(1)).contains("no store"));
}

#[test]
fn a_long_manifest_is_written_anew() {
    let store = TestStore::new(FaultyDisk::new(8));
    let first = store.versions.live_files().1;
    for i in 0..40u32 {
        let options = vec![("name".to_string(), format!("{i}{}", "x".repeat(64 << 10)))];
        store.versions.apply(Edit { options, ..Edit::default() }).unwrap();
    }
    assert_ne!(store.versions.live_files().1, first);
    store.versions.delete_obsolete().unwrap();
    let manifests = store.disk.files().iter().filter(|p| p.to_string_lossy().contains("MANIFEST")).count();
    assert_eq!(manifests, 1);
    let again = open(&store.disk.crash(Crash::Drop), OpenFor::Read).unwrap();
    assert!(again.state().options["name"].starts_with("39x"));
}

#[test]
fn key_ranges_find_the_table() {
    use rand::{Rng, SeedableRng};
    for seed in 0..200u64 {
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        let prefix = "p".repeat(rng.gen_range(0..12));
        let mut keys: Vec<Vec<u8>> = (0..rng.gen_range(2..30))
            .map(|_| {
                format!("{prefix}{:0width$}", rng.gen_range(0..500), width = rng.gen_range(1..14)).into()
            })
            .collect();
        keys.sort();
        keys.dedup();
        let tables = crate::table::TableStore::new(FaultyDisk::new(1).shared(), DIR, 1);
        let cache = crate::cache::BlockCache::new(1 << 16);
        let queue = Arc::new(ObsoleteFiles::default());
        let table = |(i, pair): (usize, &[Vec<u8>])| {
            let meta = crate::table::SsTableMeta {
                family: 1,
                offset: 0,
                len: 1,
                min_key: pair[0].clone(),
                max_key: pair[pair.len() - 1].clone(),
                min_seq: 0,
                max_seq: 0,
                entries: 1,
                tombstones: 0,
                keys: 1,
                raw_bytes: 0,
                commit_seq: 0,
                expiry: None,
                mirror: 0,
                values: Vec::new(),
            };
            let table = SsTable::open(tables.clone(), cache.clone(), i as u64, meta);
            TableHandle {
                table,
                file: LiveFile::new(i as u64, 1, &queue),
                mirror: None,
                generation: 0,
                values: Arc::default(),
            }
        };
        let level = Level::new(keys.chunks(2).enumerate().map(table).collect()).unwrap();
        let mut probes = keys.clone();
        probes.extend([b"".to_vec(), b"zzz".to_vec(), b"p".to_vec(), prefix.clone().into_bytes()]);
        probes.extend((0..100).map(|_| format!("{prefix}{}", rng.gen_range(0..5000)).into_bytes()));
        probes.extend(keys.iter().map(|key| [&key[..], b"\0"].concat()));
        for key in &probes {
            let slow = level.tables().iter().position(|table| &table.meta().max_key >= key);
            let slow = slow.unwrap_or(level.tables().len());
            assert_eq!(level.first_reaching(key), slow, "seed {seed} {:?}", key.escape_ascii().to_string());
            for other in probes.iter().filter(|other| *other >= key).take(20) {
                let slow =
                    level.tables().iter().filter(|r| &r.meta().max_key >= key && &r.meta().min_key <= other);
                assert_eq!(level.overlapping(key, other).len(), slow.count());
            }
        }
    }
}

/// A store moves to version 2 of the formats by a new manifest; without room for one it stays, and moves later.
#[test]
fn a_store_moves_to_a_higher_format_by_a_new_manifest_alone() {
    let disk = FaultyDisk::new(3);
    let open = |least, purpose| {
        let tables = crate::table::TableStore::new(disk.shared(), DIR, 4);
        let cache = crate::cache::BlockCache::new(1 << 16);
        let set =
            VersionSet::open_at_least(least, disk.shared(), Path::new(DIR), tables, cache, purpose).unwrap();
        set.delete_obsolete().unwrap();
        set
    };
    let of_manifest = || {
        let number = manifest::read_current(&disk, Path::new(DIR)).unwrap().unwrap();
        manifest::read_manifest(&disk, Path::new(DIR), number).unwrap().0
    };
    let (one, two) = (FormatVersion::One, FormatVersion::Two);
    let set = open(one, OpenFor::WriteOrCreate);
    assert_eq!((set.format(), of_manifest()), (one, one));
    drop(set);
    assert_eq!(open(two, OpenFor::Read).format(), one, "a reader changes nothing");
    disk.set_capacity(Some(0));
    let set = open(two, OpenFor::Write);
    assert_eq!((set.format(), of_manifest()), (one, one));
    let edit = Edit { last_generation: Some(1), ..Edit::default() };
    set.apply(edit).unwrap();
    drop(set);
    disk.set_capacity(None);
    let set = open(two, OpenFor::Write);
    assert_eq!((set.format(), of_manifest()), (two, two));
    drop(set);
    for purpose in [OpenFor::Write, OpenFor::Read] {
        let set = open(one, purpose);
        assert_eq!((set.format(), of_manifest(), set.state().last_generation), (two, two, 1));
    }
}

/// A killed opening moved the store, and the name of its manifest is in the page cache alone. An opening without room for
/// a manifest goes on in the moved store: a power cut does not take the move from below what it writes.
#[test]
fn what_a_full_disk_goes_on_with_stays_in_force() {
    let disk = FaultyDisk::new(3);
    let open = |disk: &FaultyDisk, least| {
        let tables = crate::table::TableStore::new(disk.shared(), DIR, 4);
        let cache = crate::cache::BlockCache::new(1 << 16);
        let purpose = OpenFor::WriteOrCreate;
        VersionSet::open_at_least(least, disk.shared(), Path::new(DIR), tables, cache, purpose)
    };
    drop(open(&disk, FormatVersion::One).unwrap());
    // The directory is synced twice: with the manifest, and with its name.
    disk.fail(Fault { op: Some(Op::SyncDir), path: DIR.into(), skip: 1, times: 1, failure: Failure::Eio });
    open(&disk, FormatVersion::Two).map(drop).unwrap_err();
    let named = |disk: &FaultyDisk| manifest::read_current(disk, Path::new(DIR)).unwrap().unwrap();
    let killed = disk.crash(Crash::Kill);
    assert_ne!(named(&killed), named(&disk.crash(Crash::Drop)), "the name is not durable yet");
    killed.set_capacity(Some(0));
    let set = open(&killed, FormatVersion::Two).unwrap();
    assert_eq!(set.format(), FormatVersion::Two);
    let cut = killed.crash(Crash::Drop);
    assert_eq!(named(&cut), named(&killed));
    assert_eq!(manifest::read_manifest(&cut, Path::new(DIR), named(&cut)).unwrap().0, FormatVersion::Two);
}
