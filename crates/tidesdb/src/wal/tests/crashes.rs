//! A crash at every I/O call of short programs, in each way; failing writes and syncs.

use super::*;

/// A program's knowledge when its machine dies.
#[derive(Default)]
struct Known {
    written: Seq,
    durable: Seq,
    durable_lsn: Lsn,
    enqueued: Seq,
}

/// Appends, waits, syncs, marks and releases at random, until it is done or the disk fails.
fn program(disk: &FaultyDisk, seed: u64, size: u32) -> Known {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut known = Known::default();
    let made = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options(size));
    let Ok(wal) = made else { return known };
    let mut run = || -> Result<()> {
        for seq in 1..=14 {
            let most = [40, 200, 2 * size][rng.gen_range(0..3)];
            append(&wal, commit(seq, rng.gen_range(0..most) as usize))?;
            known.enqueued = seq;
            match rng.gen_range(0..6) {
                0 | 1 => {
                    wal.wait_written(seq)?;
                    known.written = seq;
                }
                2 | 3 => {
                    wal.wait_durable(seq)?;
                    (known.written, known.durable) = (seq, seq);
                }
                4 => {
                    wal.tick();
                    wal.tick();
                }
                _ => {}
            }
            known.durable_lsn = wal.durable_lsn();
        }
        wal.sync_all()?;
        (known.written, known.durable) = (14, 14);
        wal.close()
    };
    let _ = run();
    known.written = known.written.max(wal.written_ticket());
    known.durable = known.durable.max(wal.durable_ticket());
    known.durable_lsn = wal.durable_lsn();
    known
}

/// Recovers and checks; the number of records found.
fn check(after: &FaultyDisk, known: &Known, mode: Crash, context: &str) -> u64 {
    let (found, summary) =
        seqs(after, 1, &[], known.durable_lsn).unwrap_or_else(|error| panic!("{context}, {mode:?}: {error}"));
    let n = found.len() as u64;
    assert_eq!(found, dense(n), "{context}, {mode:?}: a prefix");
    let promised = if mode == Crash::Kill { known.written } else { known.durable };
    assert!(n >= promised, "{context}, {mode:?}: {n} found, {promised} promised");
    assert!(n <= known.enqueued, "{context}, {mode:?}");
    assert!(summary.end >= known.durable_lsn, "{context}, {mode:?}");
    n
}

#[test]
fn a_crash_at_every_call_keeps_what_was_promised_and_a_prefix() {
    let (mut cases, mut lost, mut torn) = (0, 0, 0);
    for seed in 0..30 {
        let size = [MIN_SEGMENT, 512, 4096, 32 << 10, 64 << 10][seed as usize % 5];
        let disk = FaultyDisk::new(seed);
        let all = program(&disk, seed, size);
        assert_eq!(all.durable, 14);
        let history = disk.history();
        for n in 1..=history.len() as u64 + 1 {
            if history.get(n as usize - 1).is_some_and(|op| !op.changes()) {
                continue;
            }
            let disk = FaultyDisk::new(seed);
            disk.crash_at(n);
            let known = program(&disk, seed, size);
            for mode in Crash::ALL {
                let repeats =
                    if matches!(mode, Crash::Tear | Crash::Reorder | Crash::Prefix) { 4 } else { 1 };
                for _ in 0..repeats {
                    let after = disk.crash(mode);
                    let context = format!("seed {seed}, call {n}");
                    let found = check(&after, &known, mode, &context);
                    cases += 1;
                    lost += u64::from(found < known.written);
                    torn += u64::from(found > known.durable && found < known.written);
                    // Recovering changes nothing, and a second epoch keeps the first one's records.
                    second_life(&after, found, &known, &context);
                }
            }
        }
    }
    assert!(cases > 5000 && lost > 500 && torn > 20, "{cases} cases, {lost} lost, {torn} torn");
}

/// Goes on after the crash: a new epoch with the cut, two records, and a power cut.
fn second_life(disk: &FaultyDisk, found: u64, known: &Known, context: &str) {
    let (_, summary) = seqs(disk, 1, &[], known.durable_lsn).unwrap();
    let boundary = summary.boundary(0);
    assert!(boundary.next_seq > found, "{context}");
    let wal =
        Wal::create(disk.shared(), store(), 2, boundary.next_segment, summary.files, options(512)).unwrap();
    // The old epoch must be durable before the boundary is: here by rewriting it.
    for seq in 1..=found {
        append(&wal, commit(seq, 20)).unwrap();
    }
    append(&wal, commit(found + 1, 300)).unwrap();
    wal.sync_all().unwrap();
    let after = disk.crash(Crash::Drop);
    let mut seen = Vec::new();
    recover(&after.shared(), &store(), boundary.next_segment, &[boundary], wal.durable_lsn(), &mut |_, r| {
        seen.extend(r.seq());
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(seen, dense(found + 1), "{context}");
}

#[test]
fn every_sync_of_records_is_needed() {
    // A sync that persists nothing is found out by a power cut right after its answer, whichever of
    // a program's syncs it is, and also when it is one of several for a group over many segments.
    for (size, len) in [(512, 200), (4096, 200), (512, 1500), (32 << 10, 9000)] {
        for n in 1..=12 {
            let disk = FaultyDisk::new(n);
            let wal = create(&disk, size);
            for seq in 1..n {
                append(&wal, commit(seq, len)).unwrap();
                wal.wait_durable(seq).unwrap();
            }
            append(&wal, commit(n, len)).unwrap();
            wal.wait_written(n).unwrap();
            let before = disk.calls();
            let honest = disk.crash(Crash::Kill);
            disk.fail_call(before + 1, Failure::Lie);
            wal.wait_durable(n).unwrap();
            assert!(disk.history()[before as usize..].iter().all(|op| *op == Op::Sync));
            // The manifest may know of the answer, or nothing does.
            let after = disk.crash(Crash::Drop);
            assert!(seqs(&after, 1, &[], wal.durable_lsn()).is_err(), "segments of {size}, sync {n}");
            let found = seqs(&after, 1, &[], Lsn::ZERO).map_or(0, |(found, _)| found.len() as u64);
            assert!(found < n, "segments of {size}, sync {n}");
            assert_eq!(seqs(&honest, 1, &[], wal.durable_lsn()).unwrap().0, dense(n));
        }
    }
}

#[test]
fn an_unsynced_directory_loses_the_log() {
    let disk = FaultyDisk::new(0);
    disk.fail(Fault { op: Some(Op::SyncDir), path: String::new(), skip: 0, times: 2, failure: Failure::Lie });
    let wal = create(&disk, 4096);
    append(&wal, commit(1, 10)).unwrap();
    wal.sync_all().unwrap();
    assert!(seqs(&disk.crash(Crash::Drop), 1, &[], wal.durable_lsn()).is_err());
}

fn fail_next(disk: &FaultyDisk, op: Op) {
    disk.fail(Fault { op: Some(op), path: ".wal".into(), skip: 0, times: 1, failure: Failure::Eio });
}

#[test]
fn a_failed_write_ends_the_log_and_its_group_does_not_know() {
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let wal = create(&disk, 4096);
        append(&wal, commit(1, 10)).unwrap();
        wal.wait_durable(1).unwrap();
        append(&wal, commit(2, 10)).unwrap();
        wal.wait_written(2).unwrap();
        let wait_limit = WaitLimit::of(PATIENT);
        let spare = wal.reserve(100, Purpose::Ordinary, &wait_limit).unwrap();
        append(&wal, commit(3, 1000)).unwrap();
        append(&wal, commit(4, 1000)).unwrap();
        fail_next(&disk, Op::Write);
        assert!(matches!(wal.wait_written(4), Err(Error::OutcomeUnknown)));
        assert!(matches!(wal.wait_written(3), Err(Error::OutcomeUnknown)));
        assert!(wal.failed().is_some_and(|why| why.contains("write")));
        // What was proven stays proven; nothing more is promised.
        assert_eq!((wal.written_ticket(), wal.durable_ticket()), (2, 1));
        wal.wait_written(2).unwrap();
        wal.wait_durable(1).unwrap();
        assert!(matches!(wal.wait_durable(2), Err(Error::OutcomeUnknown)));
        // Who comes later is certainly not in the log.
        let late = wal.enqueue(spare, commit(5, 10));
        assert!(matches!(wal.wait_written(late), Err(Error::ReadOnly(_))));
        assert!(matches!(wal.wait_durable(late), Err(Error::ReadOnly(_))));
        assert!(matches!(wal.reserve(1, Purpose::Urgent, &wait_limit), Err(Error::ReadOnly(_))));
        assert!(wal.sync_all().is_err() && wal.close().is_err());
        wal.tick();
        let n = seqs(&disk.crash(Crash::Kill), 1, &[], wal.durable_lsn()).unwrap().0;
        assert!((2..=4).contains(&n.len()) && n == dense(n.len() as u64), "seed {seed}: {n:?}");
        assert!(!seqs(&disk.crash(Crash::Drop), 1, &[], wal.durable_lsn()).unwrap().0.is_empty());
    }
}

#[test]
fn a_failed_sync_ends_the_log_where_it_was_durable() {
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let wal = create(&disk, 4096);
        append(&wal, commit(1, 10)).unwrap();
        wal.wait_durable(1).unwrap();
        let durable = wal.durable_lsn();
        for seq in 2..=9 {
            append(&wal, commit(seq, 900)).unwrap();
        }
        fail_next(&disk, Op::Sync);
        assert!(matches!(wal.wait_durable(9), Err(Error::OutcomeUnknown)));
        assert!(matches!(wal.wait_durable(2), Err(Error::OutcomeUnknown)));
        wal.wait_written(9).unwrap();
        assert_eq!((wal.durable_ticket(), wal.durable_lsn()), (1, durable));
        assert!(wal.sync_all().is_err(), "a second sync proves nothing and is not tried");
        for mode in Crash::ALL {
            let found = seqs(&disk.crash(mode), 1, &[], durable).unwrap().0;
            assert!(!found.is_empty() && found == dense(found.len() as u64));
        }
    }
}

#[test]
fn any_one_failing_call_gives_errors_and_loses_nothing_promised() {
    for seed in 0..12 {
        let size = [MIN_SEGMENT, 512, 4096][seed as usize % 3];
        let disk = FaultyDisk::new(seed);
        program(&disk, seed, size);
        let calls = disk.calls();
        for failure in [Failure::Eio, Failure::Enospc] {
            for n in 1..=calls {
                let disk = FaultyDisk::new(seed);
                disk.fail_call(n, failure);
                let known = program(&disk, seed, size);
                for mode in Crash::ALL {
                    check(&disk.crash(mode), &known, mode, &format!("seed {seed}, {failure:?} at {n}"));
                }
            }
        }
    }
}
