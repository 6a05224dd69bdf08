//! A disk without room for the log: commits wait, others are refused, nothing is lost, and writes go on.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::options::{LogLevel, LogSink};

const FULL: [Failure; 2] = [Failure::Enospc, Failure::Edquot];

/// Writes of the log after the next `skip` find no room, `times` of them.
fn fill(disk: &FaultyDisk, skip: u64, times: u64, failure: Failure) {
    disk.fail(Fault { op: Some(Op::Write), path: ".wal".into(), skip, times, failure });
}

fn in_every_crash(disk: &FaultyDisk, wal: &Wal, written: Seq, durable: Seq, enqueued: Seq, context: &str) {
    for mode in Crash::ALL {
        let (found, _) = seqs(&disk.crash(mode), 1, &[], wal.durable_lsn())
            .unwrap_or_else(|error| panic!("{context}, {mode:?}: {error}"));
        let n = found.len() as u64;
        let promised = if mode == Crash::Kill { written } else { durable };
        assert!(found == dense(n) && (promised..=enqueued).contains(&n), "{context}, {mode:?}: {found:?}");
    }
}

#[test]
fn a_record_without_room_stays_and_nothing_is_let_in_until_there_is_some() {
    for failure in FULL {
        let disk = FaultyDisk::new(1);
        let wal = create(&disk, 4096);
        append(&wal, commit(1, 10)).unwrap();
        wal.wait_durable(1).unwrap();
        append(&wal, commit(2, 1000)).unwrap();
        fill(&disk, 0, u64::MAX, failure);
        assert!(matches!(wal.wait_written_unless_full(2), Err(Error::DiskFull(_))));
        assert!(matches!(wal.wait_durable_unless_full(2), Err(Error::DiskFull(_))));
        assert!(matches!(wal.sync_all(), Err(Error::DiskFull(_))));
        for purpose in [Purpose::Ordinary, Purpose::Urgent] {
            let refused = wal.reserve(10, purpose, &WaitLimit::of(PATIENT)).unwrap_err();
            assert!(matches!(&refused, Error::DiskFull(what) if what.contains(".wal")), "{refused}");
        }
        wal.tick();
        assert_eq!((wal.full(), wal.failed(), wal.written_ticket()), ((true, 1), None, 1));
        in_every_crash(&disk, &wal, 1, 1, 2, "full");
        disk.heal();
        // The first that comes by writes for all.
        append(&wal, commit(3, 10)).unwrap();
        assert_eq!((wal.full(), wal.written_ticket()), ((false, 1), 2));
        wal.wait_durable(3).unwrap();
        in_every_crash(&disk, &wal, 3, 3, 3, "room");
    }
}

#[test]
fn a_sync_covers_what_is_written_before_a_record_without_room() {
    let disk = FaultyDisk::new(1);
    let wal = create(&disk, 4096);
    append(&wal, commit(1, 10)).unwrap();
    wal.wait_written(1).unwrap();
    append(&wal, commit(2, 10)).unwrap();
    fill(&disk, 0, u64::MAX, Failure::Enospc);
    assert!(matches!(wal.wait_written_unless_full(2), Err(Error::DiskFull(_))));
    wal.wait_durable(1).unwrap();
    assert_eq!(wal.durable_ticket(), 1);
}

#[test]
fn a_callback_is_answered_when_there_is_room_again() {
    let disk = FaultyDisk::new(1);
    let wal = create(&disk, 4096);
    fill(&disk, 0, u64::MAX, Failure::Enospc);
    append(&wal, commit(1, 10)).unwrap();
    let (tx, rx) = std::sync::mpsc::channel();
    wal.when_durable(1, move |result| tx.send(result.is_ok()).unwrap());
    for _ in 0..3 {
        wal.tick();
    }
    assert!(rx.try_recv().is_err());
    disk.heal();
    wal.tick();
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [true]);
}

#[test]
fn whoever_waits_for_room_goes_on_when_there_is_some() {
    for (segment_size, len) in [(4096, 300), (64 << 10, 20_000), (256 << 10, 150_000)] {
        let disk = FaultyDisk::new(1);
        let wal = create(&disk, segment_size);
        append(&wal, commit(1, 10)).unwrap();
        wal.wait_durable(1).unwrap();
        let order = crate::sync::Mutex::new(1);
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let tickets: Vec<Ticket> = (0..4)
                .map(|_| {
                    let mut seq = order.lock();
                    *seq += 1;
                    append(&wal, commit(*seq, len)).unwrap()
                })
                .collect();
            fill(&disk, 1, u64::MAX, Failure::Enospc);
            for ticket in tickets {
                let (wal, done) = (&wal, &done);
                scope.spawn(move || {
                    match ticket % 2 {
                        0 => wal.wait_durable(ticket).unwrap(),
                        _ => wal.wait_written(ticket).unwrap(),
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            std::thread::sleep(Duration::from_millis(60));
            disk.heal();
        });
        wal.sync_all().unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 4);
        in_every_crash(&disk, &wal, 5, 5, 5, &format!("records of {len}"));
    }
}

#[test]
fn the_end_of_waits_is_a_failure_of_the_log() {
    let disk = FaultyDisk::new(1);
    let wal = create(&disk, 4096);
    append(&wal, commit(1, 10)).unwrap();
    wal.wait_durable(1).unwrap();
    append(&wal, commit(2, 10)).unwrap();
    fill(&disk, 0, u64::MAX, Failure::Enospc);
    std::thread::scope(|scope| {
        let waits = [true, false].map(|durable| {
            let wal = &wal;
            scope.spawn(move || if durable { wal.wait_durable(2) } else { wal.wait_written(2) })
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(waits.iter().all(|wait| !wait.is_finished()));
        wal.end_waits();
        for wait in waits {
            assert!(matches!(wait.join().unwrap(), Err(Error::OutcomeUnknown)));
        }
    });
    assert!(wal.failed().is_some());
    assert!(matches!(wal.reserve(1, Purpose::Ordinary, &WaitLimit::of(PATIENT)), Err(Error::ReadOnly(_))));
    disk.heal();
    assert!(wal.sync_all().is_err());
    in_every_crash(&disk, &wal, 1, 1, 2, "ended");
}

/// At every write of a program in turn there is no room, for good until the program has seen it.
#[test]
fn no_room_at_any_write_loses_nothing_and_writes_go_on() {
    let mut stopped = 0;
    for seed in 0..24 {
        let size = [MIN_SEGMENT, 512, 4096, 64 << 10][seed as usize % 4];
        let mut skip = 0;
        loop {
            let mut rng = StdRng::seed_from_u64(seed);
            let disk = FaultyDisk::new(seed * 1000 + skip);
            let wal = create(&disk, size);
            fill(&disk, skip, u64::MAX, FULL[skip as usize % 2]);
            let (mut written, mut durable, mut full) = (0, 0, 0);
            for seq in 1..=14 {
                let context = format!("seed {seed}, write {skip}, record {seq}");
                let most = [40, 200, 2 * size][rng.gen_range(0..3)];
                let record = commit(seq, rng.gen_range(0..most) as usize);
                let what = rng.gen_range(0..4);
                let mut seen = |result: Result<()>| match result {
                    Err(Error::DiskFull(_)) => {
                        full += 1;
                        false
                    }
                    done => {
                        done.unwrap_or_else(|error| panic!("{context}: {error}"));
                        true
                    }
                };
                let put = append(&wal, record.clone());
                let refused = !seen(put.map(drop));
                let enqueued = if refused { seq - 1 } else { seq };
                match what {
                    0 if seen(wal.wait_written_unless_full(enqueued)) => written = enqueued,
                    1 if seen(wal.wait_durable_unless_full(enqueued)) => {
                        (written, durable) = (enqueued, enqueued)
                    }
                    2 => (0..2).for_each(|_| wal.tick()),
                    _ => {}
                }
                written = written.max(wal.written_ticket());
                durable = durable.max(wal.durable_ticket());
                in_every_crash(&disk, &wal, written, durable, enqueued, &context);
                if refused {
                    // There is room: what waited is written before it.
                    disk.heal();
                    append(&wal, record).unwrap_or_else(|error| panic!("{context}: {error}"));
                }
            }
            disk.heal();
            wal.sync_all().unwrap();
            in_every_crash(&disk, &wal, 14, 14, 14, &format!("seed {seed}, write {skip}: the end"));
            stopped += wal.full().1;
            // A write that prepares a segment is refused to who needs the segment, and stops nobody.
            if full == 0 && wal.full().1 == 0 {
                break;
            }
            skip += 1;
        }
    }
    assert!(stopped > 100, "{stopped}");
}

#[test]
fn a_spare_segment_that_cannot_be_prepared_is_told_once_and_so_is_the_next_success() {
    for failure in [Failure::Eio, Failure::Enospc, Failure::Edquot] {
        let disk = FaultyDisk::new(1);
        let (lines, log) = told();
        let options = WalOptions { log: Some(log), ..options(4096) };
        let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
        for (round, half) in [2500, 4096].into_iter().enumerate() {
            let seq = round as u64 + 1;
            append(&wal, commit(seq, half)).unwrap();
            wal.wait_durable(seq).unwrap();
            disk.fail(Fault { op: Some(Op::Create), path: ".wal".into(), skip: 0, times: u64::MAX, failure });
            (0..5).for_each(|_| wal.tick());
            let found = std::mem::take(&mut *lines.lock());
            let [(LogLevel::Error, line)] = &found[..] else { panic!("{failure:?}: {found:?}") };
            for part in ["no spare segment", ".wal", "mend the disk or make room"] {
                assert!(line.contains(part), "{line}");
            }
            disk.heal();
            (0..5).for_each(|_| wal.tick());
            let found = std::mem::take(&mut *lines.lock());
            assert!(matches!(&found[..], [(LogLevel::Info, _)]), "{failure:?}: {found:?}");
        }
    }
}

#[test]
fn a_log_that_begins_without_a_spare_segment_says_so() {
    let disk = FaultyDisk::new(1);
    // The first segment stands; the second finds no room.
    disk.fail(Fault {
        op: Some(Op::Create),
        path: ".wal".into(),
        skip: 1,
        times: u64::MAX,
        failure: Failure::Enospc,
    });
    let (lines, log) = told();
    let options = WalOptions { log: Some(log), ..options(4096) };
    let _wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
    assert!(matches!(&lines.lock()[..], [(LogLevel::Error, line)] if line.contains("no spare segment")));
}

#[test]
fn a_log_that_fails_says_so_once() {
    for op in [Op::Write, Op::Sync] {
        let disk = FaultyDisk::new(1);
        let (lines, log) = told();
        let options = WalOptions { log: Some(log), ..options(4096) };
        let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
        disk.fail(Fault {
            op: Some(op),
            path: ".wal".into(),
            skip: 0,
            times: u64::MAX,
            failure: Failure::Eio,
        });
        for seq in 1..=2 {
            // The second may be refused at once.
            if append(&wal, commit(seq, 10)).is_ok() {
                assert!(wal.wait_durable(seq).is_err(), "{op:?}");
            }
        }
        wal.tick();
        let found = lines.lock();
        let [(LogLevel::Error, line)] = &found[..] else { panic!("{op:?}: {found:?}") };
        for part in ["the write-ahead log failed", ".wal", "mend the disk, restart to recover"] {
            assert!(line.contains(part), "{line}");
        }
    }
}

#[test]
fn a_change_that_finds_no_place_is_told_once_and_so_is_the_room_after_it() {
    for failure in FULL {
        let disk = FaultyDisk::new(1);
        let (lines, log) = told();
        let options = WalOptions { log: Some(log), ..options(4096) };
        let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
        disk.fail(Fault { op: Some(Op::Create), path: ".wal".into(), skip: 0, times: u64::MAX, failure });
        let mut seq = 1;
        while append(&wal, commit(seq, 1000)).is_ok() {
            assert!(seq < 100, "the segments that are there end");
            seq += 1;
        }
        assert!(matches!(append(&wal, commit(seq, 1000)), Err(Error::DiskFull(_))));
        let full = |wal: &Wal| (wal.fullness().is_full(), wal.fullness().times());
        assert_eq!((full(&wal), wal.full()), ((true, 1), (false, 0)));
        let found = std::mem::take(&mut *lines.lock());
        let about: Vec<_> = found.iter().filter(|(_, line)| line.contains("the disk is full")).collect();
        let [(LogLevel::Error, line)] = &about[..] else { panic!("{failure:?}: {found:?}") };
        for part in [".wal", "changes are refused, and reads go on", "make room"] {
            assert!(line.contains(part), "{line}");
        }
        // Who looks at once after a refusal does not say that it is over, nor while no segment can be made.
        disk.advance_clock(2_000_000);
        wal.tick();
        assert_eq!(full(&wal), (true, 1));
        disk.heal();
        assert!(append(&wal, commit(seq, 1000)).is_ok());
        wal.tick();
        assert_eq!((full(&wal), disk.advance_clock(2_000_000)), ((false, 1), ()));
        let found = std::mem::take(&mut *lines.lock());
        let about: Vec<_> =
            found.iter().filter(|(_, line)| line.contains("the disk has room again")).collect();
        assert!(matches!(&about[..], [(LogLevel::Warn, _)]), "{failure:?}: {found:?}");
    }
}

#[test]
fn a_slow_sync_is_told_once_a_minute() {
    let disk = FaultyDisk::new(1);
    let (lines, log) = told();
    let options = WalOptions { log: Some(log), ..options(4096) };
    let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
    for (begun_before, pause, expected) in
        [(900_000, 0, 0), (1_500_000, 0, 1), (2_000_000, 30_000_000, 0), (1_000_000, 40_000_000, 1)]
    {
        disk.advance_clock(pause + begun_before);
        wal.tell_slow_sync(disk.now_micros() - begun_before);
        let found = std::mem::take(&mut *lines.lock());
        assert_eq!(found.len(), expected, "{found:?}");
        assert!(found.iter().all(|(level, line)| *level == LogLevel::Warn && line.contains("commits wait")));
    }
}

type Lines = Arc<crate::sync::Mutex<Vec<(LogLevel, String)>>>;

/// A sink, and the lines it got.
fn told() -> (Lines, LogSink) {
    let lines = Lines::default();
    let into = Arc::clone(&lines);
    (lines, LogSink::new(move |level, line| into.lock().push((level, line.to_string()))))
}
