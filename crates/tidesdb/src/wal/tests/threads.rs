//! Many threads at one log.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that reserve, enqueue in the order of sequence numbers and wait; returns their results.
fn run(wal: &Wal, threads: u64, each: u64, seed: u64, done: &AtomicU64) {
    let order = crate::sync::Mutex::new(0);
    std::thread::scope(|scope| {
        for t in 0..threads {
            let order = &order;
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed << 8 | t);
                for _ in 0..each {
                    let len = if rng.gen_bool(0.02) { 70_000 } else { rng.gen_range(0..400) };
                    let wait_limit = WaitLimit::of(PATIENT);
                    let room = match wal.reserve(len + 64, Purpose::Ordinary, &wait_limit) {
                        Ok(room) => room,
                        Err(_) => return,
                    };
                    if rng.gen_bool(0.1) {
                        drop(room);
                        continue;
                    }
                    let ticket = {
                        let mut seq = order.lock();
                        *seq += 1;
                        wal.enqueue(room, commit(*seq, len))
                    };
                    let waited = match rng.gen_range(0..10) {
                        0..=5 => wal.wait_written(ticket).map(|()| assert!(wal.written_ticket() >= ticket)),
                        6 | 7 => wal.wait_durable(ticket).map(|()| assert!(wal.durable_ticket() >= ticket)),
                        8 => Ok(()),
                        _ => wal.sync_all(),
                    };
                    match waited {
                        Ok(()) => done.fetch_max(wal.written_ticket(), Ordering::SeqCst),
                        Err(_) => return,
                    };
                }
            });
        }
    });
}

#[test]
fn many_committers_lose_nothing_and_keep_their_order() {
    for (seed, background) in [(1, false), (2, true)] {
        let disk = FaultyDisk::new(seed);
        let options = WalOptions {
            segment_size: 64 << 10,
            sync_mode: SyncMode::Interval,
            sync_interval: Duration::from_millis(1),
            max_outstanding: 200_000,
            write_at: 1 << 20,
            background,
            format: crate::options::FormatVersion::One,
            log: None,
            alongside: None,
        };
        let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
        let done = AtomicU64::new(0);
        run(&wal, 8, 300, seed, &done);
        wal.close().unwrap();
        let last = wal.last_ticket();
        assert_eq!((wal.durable_ticket(), wal.outstanding()), (last, 0));
        let (found, _) = seqs(&disk.crash(Crash::Drop), 1, &[], wal.durable_lsn()).unwrap();
        assert_eq!(found, dense(last), "seed {seed}");
    }
}

#[test]
fn many_committers_all_hear_of_a_failure() {
    for seed in 0..10 {
        let disk = FaultyDisk::new(seed);
        let wal = create(&disk, 64 << 10);
        let op = if seed % 2 == 0 { Op::Write } else { Op::Sync };
        disk.fail(Fault {
            op: Some(op),
            path: String::new(),
            skip: 40,
            times: u64::MAX,
            failure: Failure::Eio,
        });
        let done = AtomicU64::new(0);
        run(&wal, 8, 400, seed, &done);
        // A new segment's header is synced as well: all may have been refused there, with a whole log.
        let refused = wal.reserve(70_000, Purpose::Ordinary, &WaitLimit::of(PATIENT)).is_err();
        assert!(wal.failed().is_some() || refused, "seed {seed}");
        let (found, _) = seqs(&disk.crash(Crash::Kill), 1, &[], wal.durable_lsn()).unwrap();
        assert_eq!(found, dense(found.len() as u64));
        assert!(found.len() as u64 >= done.load(Ordering::SeqCst), "seed {seed}");
        let (found, _) = seqs(&disk.crash(Crash::Drop), 1, &[], wal.durable_lsn()).unwrap();
        assert!(found.len() as u64 >= wal.durable_ticket(), "seed {seed}");
    }
}
