//! Behaviour of writer and reader together, on the faulty disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::files::LogFiles;
use super::record::tests::{one_of_each, put};
use super::segment::{log_dir, MIN_SEGMENT};
use super::*;
use crate::error::{Error, Result};
use crate::io::faulty::{Crash, Failure, Fault, FaultyDisk, Op};
use crate::io::{Disk, RealDisk};
use crate::options::SyncMode;
use crate::types::{Lsn, Seq};

mod blocked_disk;
mod crashes;
mod damage;
mod epochs;
mod large;
mod room;
mod threads;

const PATIENT: Duration = Duration::from_secs(60);

fn store() -> PathBuf {
    PathBuf::from("/db")
}

fn options(segment_size: u32) -> WalOptions {
    WalOptions { segment_size, background: false, ..WalOptions::default() }
}

fn create(disk: &FaultyDisk, segment_size: u32) -> Wal {
    Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options(segment_size)).unwrap()
}

fn payload_len(record: &Record) -> usize {
    record.borrow().encoded_len()
}

fn append(wal: &Wal, record: Record) -> Result<Ticket> {
    let room = wal.reserve(payload_len(&record), Purpose::Ordinary, &WaitLimit::of(PATIENT))?;
    Ok(wal.enqueue(room, record))
}

/// A commit with content derived from its number.
fn commit(seq: Seq, len: usize) -> Record {
    Record::Commit { seq, position: None, batch: put(&seq.to_be_bytes()[4..], len) }
}

/// Everything recovery finds in a log of one epoch, as text.
fn texts(disk: &FaultyDisk, first: u32) -> Result<(Vec<String>, RecoveredSummary)> {
    let mut found = Vec::new();
    let summary = recover(&disk.shared(), &store(), first, &[], Lsn::ZERO, &mut |_, record| {
        found.push(format!("{record:?}"));
        Ok(())
    })?;
    assert_eq!(summary.records, found.len() as u64);
    Ok((found, summary))
}

fn seqs(
    disk: &FaultyDisk,
    first: u32,
    boundaries: &[EpochBoundary],
    durable: Lsn,
) -> Result<(Vec<Seq>, RecoveredSummary)> {
    let mut found = Vec::new();
    let summary = recover(&disk.shared(), &store(), first, boundaries, durable, &mut |_, record| {
        found.extend(record.seq());
        Ok(())
    })?;
    Ok((found, summary))
}

fn dense(n: u64) -> Vec<Seq> {
    (1..=n).collect()
}

#[test]
fn every_kind_of_record_comes_back_from_any_size_of_segment() {
    for size in [MIN_SEGMENT, 300, 1000, 4096, 32 << 10, 64 << 10] {
        let disk = FaultyDisk::new(1);
        let wal = create(&disk, size);
        let mut expected = Vec::new();
        for _ in 0..20 {
            for record in one_of_each() {
                if !matches!(record, Record::DurableMark) {
                    expected.push(format!("{record:?}"));
                    append(&wal, record).unwrap();
                }
            }
            wal.wait_written(wal.last_ticket()).unwrap();
        }
        let (found, summary) = texts(&disk, 1).unwrap();
        assert_eq!(found, expected, "segments of {size}");
        assert_eq!((summary.end, summary.epoch, summary.discarded), (wal.written_lsn(), 1, 0));
    }
}

#[test]
fn records_of_any_length_span_frames_and_segments() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let size = [MIN_SEGMENT, 777, 32 << 10, 64 << 10, 96 << 10][seed as usize % 5];
        let disk = FaultyDisk::new(seed);
        let wal = create(&disk, size);
        for seq in 1..=60 {
            let most = [30, 300, 3 * size][rng.gen_range(0..3)];
            append(&wal, commit(seq, rng.gen_range(0..most) as usize)).unwrap();
            if rng.gen_bool(0.3) {
                wal.wait_written(seq).unwrap();
            }
        }
        wal.sync_all().unwrap();
        let (found, summary) = seqs(&disk.crash(Crash::Drop), 1, &[], wal.durable_lsn()).unwrap();
        assert_eq!(found, dense(60), "seed {seed}");
        assert_eq!((summary.end, wal.durable_lsn()), (wal.written_lsn(), wal.written_lsn()), "seed {seed}");
        assert_eq!(summary.max_seq_seen, 60);
    }
}

#[test]
fn every_end_of_a_frame_is_met() {
    // One record after another grows by a byte, so that records start and end at every distance from
    // the ends of frames.
    let disk = FaultyDisk::new(3);
    let wal = create(&disk, 512);
    for seq in 1..=600 {
        append(&wal, commit(seq, seq as usize)).unwrap();
        wal.wait_written(seq).unwrap();
    }
    assert_eq!(seqs(&disk, 1, &[], Lsn::ZERO).unwrap().0, dense(600));
}

#[test]
fn places_are_told_before_the_answer() {
    #[derive(Default)]
    struct Placed {
        bytes: Vec<u8>,
        at: crate::sync::Mutex<Option<(Lsn, Lsn)>>,
    }
    impl WalBytes for Placed {
        fn bytes(&self) -> &[u8] {
            &self.bytes
        }
        fn placed(&self, start: Lsn, end: Lsn) {
            assert!(self.at.lock().replace((start, end)).is_none());
        }
    }
    let disk = FaultyDisk::new(1);
    let wal = create(&disk, 512);
    let mut placed = Vec::new();
    for seq in 1..50 {
        let batch = Arc::new(Placed { bytes: put(b"k", 100).bytes().to_vec(), ..Placed::default() });
        let floor = wal.written_lsn();
        let ticket = append(&wal, Record::Commit { seq, position: None, batch: batch.clone() }).unwrap();
        wal.wait_written(ticket).unwrap();
        let (start, end) = batch.at.lock().unwrap();
        assert!(floor <= start && start < end && end == wal.written_lsn());
        placed.push(start);
    }
    let mut found = Vec::new();
    recover(&disk.shared(), &store(), 1, &[], Lsn::ZERO, &mut |lsn, _| {
        found.push(lsn);
        Ok(())
    })
    .unwrap();
    assert_eq!(found, placed);
}

#[test]
fn a_group_is_one_write_and_a_sync_covers_it() {
    let disk = FaultyDisk::new(1);
    let wal = create(&disk, 64 << 10);
    let before = disk.history().len();
    for seq in 1..=50 {
        append(&wal, commit(seq, 100)).unwrap();
    }
    assert_eq!(disk.history().len(), before, "nothing is written before somebody waits");
    wal.wait_written(1).unwrap();
    assert_eq!(wal.written_ticket(), 50, "the leader takes all");
    wal.wait_durable(50).unwrap();
    wal.wait_durable(7).unwrap();
    assert_eq!(disk.history()[before..], [Op::Write, Op::Sync]);
    assert_eq!((wal.durable_ticket(), wal.written_seq(), wal.durable_seq()), (50, 50, 50));
}

#[test]
fn an_idle_log_gets_one_mark_that_needs_no_sync() {
    let disk = FaultyDisk::new(1);
    let wal = create(&disk, 64 << 10);
    append(&wal, commit(1, 10)).unwrap();
    wal.sync_all().unwrap();
    let durable = wal.durable_lsn();
    let before = disk.history().len();
    for _ in 0..5 {
        wal.tick();
        wal.sync_all().unwrap();
    }
    assert_eq!(disk.history()[before..], [Op::Write]);
    assert_eq!((wal.durable_lsn(), wal.last_ticket()), (durable, 1));
    let (found, summary) = seqs(&disk, 1, &[], Lsn::ZERO).unwrap();
    assert_eq!((found, summary.max_durable_seen, summary.records), (vec![1], durable, 1));
    // The mark tells of damage that nothing else would.
    let path = disk.files()[0].clone();
    disk.flip_bit(&path, 80, 0);
    assert!(matches!(seqs(&disk, 1, &[], Lsn::ZERO), Err(Error::Corruption { .. })));
}

#[test]
fn a_mark_in_a_segment_of_its_own_is_synced_before_what_follows() {
    // Small segments, so that marks fall on every place; a power cut that drops everything unsynced
    // must never leave a hole under a durable position.
    let disk = FaultyDisk::new(1);
    let wal = create(&disk, MIN_SEGMENT);
    for seq in 1..=200 {
        append(&wal, commit(seq, seq as usize % 90)).unwrap();
        wal.sync_all().unwrap();
        wal.tick();
        wal.tick();
        let (found, summary) = seqs(&disk.crash(Crash::Drop), 1, &[], wal.durable_lsn()).unwrap();
        assert_eq!(found, dense(seq));
        assert!(summary.end >= wal.durable_lsn());
    }
}

#[test]
fn interval_mode_syncs_when_the_interval_is_over_and_only_then() {
    let disk = FaultyDisk::new(1);
    let options = WalOptions { sync_mode: SyncMode::Interval, ..options(64 << 10) };
    let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
    append(&wal, commit(1, 10)).unwrap();
    wal.wait_written(1).unwrap();
    wal.tick();
    assert_eq!(wal.durable_ticket(), 0);
    disk.advance_clock(128_000);
    wal.tick();
    assert_eq!(wal.durable_ticket(), 1);
    append(&wal, commit(2, 10)).unwrap();
    wal.tick();
    assert_eq!((wal.written_ticket(), wal.durable_ticket()), (1, 1));
    disk.advance_clock(128_000);
    wal.tick();
    assert_eq!(wal.durable_ticket(), 2);
}

#[test]
fn reservations_bound_what_is_outstanding() {
    let disk = FaultyDisk::new(1);
    let options = WalOptions { max_outstanding: 3000, ..options(64 << 10) };
    let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
    let short = WaitLimit::of(Duration::from_millis(10));
    let huge = wal.reserve(100_000, Purpose::Ordinary, &short).unwrap();
    assert!(matches!(wal.reserve(1, Purpose::Ordinary, &short), Err(Error::BackpressureTimeout)));
    let killed = WaitLimit { timeout: PATIENT, interrupted: &|| true };
    assert!(matches!(wal.reserve(1, Purpose::Ordinary, &killed), Err(Error::Interrupted)));
    drop(huge);
    assert_eq!(wal.outstanding(), 0);
    let first = wal.reserve(1000, Purpose::Ordinary, &short).unwrap();
    let second = wal.reserve(1000, Purpose::Ordinary, &short).unwrap();
    assert!(wal.reserve(1000, Purpose::Ordinary, &short).is_err());
    drop(first);
    wal.enqueue(second, commit(1, 900));
    assert!(wal.outstanding() > 0);
    wal.wait_written(1).unwrap();
    assert_eq!(wal.outstanding(), 0);
}

#[test]
fn on_a_full_disk_the_spare_segment_serves_what_is_urgent() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(Some(3 * 4096));
    let wal = create(&disk, 4096);
    let wait_limit = WaitLimit::of(PATIENT);
    let mut seq = 0;
    let full = loop {
        match append(&wal, commit(seq + 1, 500)) {
            Ok(_) => seq += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::DiskFull(_)) && wal.failed().is_none(), "{full}");
    wal.sync_all().unwrap();
    for _ in 0..10 {
        let room = wal.reserve(16, Purpose::Urgent, &wait_limit).unwrap();
        seq += 1;
        wal.enqueue(room, Record::Marker { txn: 1, seq, position: None });
    }
    wal.sync_all().unwrap();
    assert_eq!(seqs(&disk, 1, &[], wal.durable_lsn()).unwrap().0, dense(seq));
    // Space that comes back is used.
    wal.release_before(3);
    append(&wal, commit(seq + 1, 500)).unwrap();
    wal.sync_all().unwrap();
}

#[test]
fn callbacks_come_when_their_ticket_is_durable() {
    let disk = FaultyDisk::new(1);
    let wal = create(&disk, 64 << 10);
    let (tx, rx) = std::sync::mpsc::channel();
    let call = |n: u64| {
        let tx = tx.clone();
        move |result: Result<()>| tx.send((n, result.is_ok())).unwrap()
    };
    append(&wal, commit(1, 10)).unwrap();
    append(&wal, commit(2, 10)).unwrap();
    wal.when_durable(2, call(2));
    wal.when_durable(0, call(0));
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [(0, true)]);
    wal.tick();
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [(2, true)]);
    wal.when_durable(1, call(1));
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [(1, true)]);
    append(&wal, commit(3, 10)).unwrap();
    wal.when_durable(3, call(3));
    disk.fail(Fault { op: Some(Op::Sync), path: String::new(), skip: 0, times: 1, failure: Failure::Eio });
    wal.tick();
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [(3, false)]);
}

#[test]
fn the_background_thread_syncs_and_the_real_disk_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::shared();
    let options = WalOptions {
        segment_size: 64 << 10,
        sync_mode: SyncMode::Interval,
        sync_interval: Duration::from_millis(2),
        ..WalOptions::default()
    };
    let wal = Wal::create(disk.clone(), dir.path().into(), 1, 1, LogFiles::default(), options).unwrap();
    for seq in 1..=500 {
        let ticket = append(&wal, commit(seq, 700)).unwrap();
        wal.wait_written(ticket).unwrap();
    }
    let mut naps = 0;
    while wal.durable_ticket() < 500 {
        std::thread::sleep(Duration::from_millis(2));
        naps += 1;
        assert!(naps < 5000, "the background thread syncs");
    }
    wal.close().unwrap();
    let mut found = Vec::new();
    let summary = recover(&disk, dir.path(), 1, &[], wal.durable_lsn(), &mut |_, record| {
        found.extend(record.seq());
        Ok(())
    })
    .unwrap();
    assert_eq!(found, dense(500));
    assert!(summary.next_segment > 5);
}

/// Different threads may write the log writes of one record. A sync between them must not report a place
/// inside the record as durable. Recovery would then take the loss of its end for damage.
#[test]
fn a_record_that_is_written_in_part_moves_no_end() {
    let disk = FaultyDisk::new(31);
    let wal = create(&disk, 4096);
    append(&wal, commit(1, 10)).unwrap();
    wal.sync_all().unwrap();
    let end = wal.written_lsn();
    let ticket = append(&wal, commit(2, 20_000)).unwrap();
    // One segment's part is written, the next is not.
    disk.fail_call(disk.calls() + 2, Failure::Eio);
    assert!(wal.wait_written(ticket).is_err());
    assert_eq!((wal.written_lsn(), wal.durable_lsn()), (end, end));
}
