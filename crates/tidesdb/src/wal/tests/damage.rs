//! Damaged logs: for any damage to the bytes, recovery gives a prefix or a named error.

use super::*;
use crate::options::FormatVersion;

/// A short log of three small segments, some of it durable, and how many records are.
fn short_log() -> (FaultyDisk, u64) {
    let disk = FaultyDisk::new(5);
    let wal = create(&disk, 512);
    for seq in 1..=9 {
        append(&wal, commit(seq, 60 + 10 * seq as usize)).unwrap();
        wal.wait_written(seq).unwrap();
        if seq == 4 {
            wal.sync_all().unwrap();
        }
    }
    assert!(wal.written_lsn().segment() >= 3);
    (disk, 4)
}

fn is_named(error: &Error) -> bool {
    matches!(error, Error::Corruption { path, .. } if path.starts_with(log_dir(&store())))
}

#[test]
fn every_bit_flip_gives_a_prefix_with_all_that_is_known_durable_or_a_named_error() {
    let (disk, durable) = short_log();
    let (mut prefixes, mut errors) = (0, 0);
    for path in disk.files() {
        let len = disk.contents(&path).unwrap().len() as u64;
        for bit in 0..len * 8 {
            assert!(disk.flip_bit(&path, bit / 8, (bit % 8) as u8));
            match seqs(&disk, 1, &[], Lsn::ZERO) {
                Ok((found, summary)) => {
                    assert_eq!(found, dense(found.len() as u64));
                    assert!(found.len() as u64 >= durable, "{} bit {bit}", path.display());
                    assert!(found.len() == 9 || summary.max_seq_seen <= 9);
                    prefixes += 1;
                }
                Err(error) => {
                    assert!(is_named(&error), "{error}");
                    errors += 1;
                }
            }
            disk.flip_bit(&path, bit / 8, (bit % 8) as u8);
        }
    }
    assert!(prefixes > 1000 && errors > 1000, "{prefixes} prefixes, {errors} errors");
    assert_eq!(seqs(&disk, 1, &[], Lsn::ZERO).unwrap().0, dense(9));
}

#[test]
fn every_truncation_and_every_zeroed_tail_gives_a_prefix_or_a_named_error() {
    for zero in [false, true] {
        let (disk, durable) = short_log();
        let paths = disk.files();
        for (n, path) in paths.iter().enumerate() {
            let whole = disk.contents(path).unwrap();
            for end in 0..whole.len() {
                if zero {
                    disk.overwrite(path, end as u64, &vec![0; whole.len() - end]);
                } else {
                    let file = disk.open(path, crate::io::OpenMode::ReadWrite).unwrap();
                    file.set_len(end as u64).unwrap();
                }
                match seqs(&disk, 1, &[], Lsn::ZERO) {
                    Ok((found, _)) => {
                        assert_eq!(found, dense(found.len() as u64));
                        // The records after tell what is durable, unless they are cut off as well.
                        assert!(found.len() as u64 >= durable || n == paths.len() - 1);
                    }
                    Err(error) => assert!(is_named(&error), "{error}"),
                }
                disk.overwrite(path, 0, &whole);
            }
        }
    }
}

#[test]
fn a_hole_is_reported_where_it_is() {
    let (disk, _) = short_log();
    let path = disk.files()[0].clone();
    assert!(disk.flip_bit(&path, 70, 1));
    match seqs(&disk, 1, &[], Lsn::ZERO) {
        Err(Error::Corruption { path: at, offset: 64, what }) => {
            assert_eq!(at, path);
            assert!(what.contains("checksum") && what.contains("durable up to"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_missing_segment_is_a_hole_if_it_was_durable_and_the_end_if_not() {
    for synced in [false, true] {
        let disk = FaultyDisk::new(2);
        let wal = create(&disk, 512);
        for seq in 1..=12 {
            append(&wal, commit(seq, 100)).unwrap();
            wal.wait_written(seq).unwrap();
        }
        if synced {
            wal.sync_all().unwrap();
        }
        append(&wal, commit(13, 100)).unwrap();
        wal.wait_written(13).unwrap();
        let second = disk.files()[1].clone();
        disk.remove(&second).unwrap();
        match seqs(&disk, 1, &[], Lsn::ZERO) {
            Err(error) => assert!(synced && is_named(&error), "{error}"),
            Ok((found, summary)) => {
                assert!(!synced);
                assert_eq!(found, dense(found.len() as u64));
                assert!(found.len() < 12 && summary.max_seq_seen == 13 && summary.discarded > 0);
                // Only the files of the first segment and of discarded content are kept.
                assert!(summary.files.old.iter().any(|(id, _)| *id == 1));
            }
        }
    }
}

#[test]
fn a_lost_header_of_a_durable_segment_is_damage() {
    let disk = FaultyDisk::new(2);
    let wal = create(&disk, 4096);
    append(&wal, commit(1, 100)).unwrap();
    wal.sync_all().unwrap();
    append(&wal, commit(2, 100)).unwrap();
    wal.sync_all().unwrap();
    disk.flip_bit(&disk.files()[0], 20, 0);
    let error = seqs(&disk, 1, &[], Lsn::ZERO).unwrap_err();
    assert!(is_named(&error) && error.to_string().contains("header of segment 1"), "{error}");
}

#[test]
fn the_manifest_knows_of_holes_that_the_log_does_not() {
    let disk = FaultyDisk::new(2);
    let wal = create(&disk, 4096);
    append(&wal, commit(1, 100)).unwrap();
    wal.sync_all().unwrap();
    disk.flip_bit(&disk.files()[0], 100, 0);
    assert_eq!(seqs(&disk, 1, &[], Lsn::ZERO).unwrap().0, []);
    assert!(is_named(&seqs(&disk, 1, &[], wal.durable_lsn()).unwrap_err()));
}

#[test]
fn two_files_with_one_segment_are_damage() {
    let (disk, _) = short_log();
    let bytes = disk.contents(&disk.files()[0]).unwrap();
    let copy = log_dir(&store()).join("000099.wal");
    disk.open(&copy, crate::io::OpenMode::Create).unwrap().write_at(&bytes, 0).unwrap();
    assert!(is_named(&seqs(&disk, 1, &[], Lsn::ZERO).unwrap_err()));
}

/// The header of a free file was half replaced, its id given to another file, and a power cut brought it back.
#[test]
fn a_free_file_with_the_segment_of_a_later_epoch_is_free() {
    use super::super::segment::SegmentHeader;
    let disk = FaultyDisk::new(5);
    let store = store();
    let file = |number: u64, header: SegmentHeader| {
        let path = log_dir(&store).join(format!("{number:06}.wal"));
        let file = disk.open(&path, crate::io::OpenMode::Create).unwrap();
        file.allocate(512).unwrap();
        file.write_at(&header.encode(), 0).unwrap();
    };
    disk.create_dir_all(&log_dir(&store)).unwrap();
    for (older, later) in [(1, 2), (2, 1)] {
        file(older, SegmentHeader { version: FormatVersion::One, id: 5, epoch: 3, size: 512, first: 5 });
        file(later, SegmentHeader { version: FormatVersion::Two, id: 5, epoch: 4, size: 512, first: 5 });
        let (found, summary) = seqs(&disk, 5, &[], Lsn::ZERO).unwrap();
        assert_eq!((found, summary.next_segment), (vec![], 6));
        assert!(summary.files.free.contains(&older), "{:?}", summary.files);
    }
}

#[test]
fn what_a_later_version_wrote_is_refused() {
    use super::super::segment::{Part, Seal};
    let disk = FaultyDisk::new(2);
    let wal = create(&disk, 4096);
    append(&wal, commit(1, 100)).unwrap();
    wal.sync_all().unwrap();
    let path = disk.files()[0].clone();
    // A record of an unknown kind, valid otherwise.
    let mut payload = [0u8; 30];
    payload[0] = 99;
    let at = wal.written_lsn().offset();
    let header = Seal::new(1, 1).header(at, Part::Full, &payload);
    disk.overwrite(&path, at.into(), &[&header[..], &payload].concat());
    match seqs(&disk, 1, &[], Lsn::ZERO) {
        Err(error @ Error::LaterVersion { .. }) => {
            let message = error.to_string();
            for part in
                [&*path.to_string_lossy(), "made by a later version", &format!("{at}"), "unknown kind"]
            {
                assert!(message.contains(part), "{message}");
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn short_reads_change_nothing_and_failed_reads_are_errors() {
    let (disk, _) = short_log();
    let rule = |times, failure| Fault { op: Some(Op::Read), path: String::new(), skip: 0, times, failure };
    disk.fail(rule(u64::MAX, Failure::ShortRead));
    assert_eq!(seqs(&disk, 1, &[], Lsn::ZERO).unwrap().0, dense(9));
    disk.heal();
    let calls = {
        let before = disk.calls();
        seqs(&disk, 1, &[], Lsn::ZERO).unwrap();
        disk.calls() - before
    };
    for n in 1..=calls {
        disk.heal();
        disk.fail_call(disk.calls() + n, Failure::Eio);
        assert!(matches!(seqs(&disk, 1, &[], Lsn::ZERO), Err(Error::Io { .. })), "call {n}");
    }
}
