//! Gap locks under random scans and insertions on many threads, with a model of each scan's result.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use rand::{rngs::StdRng, Rng, SeedableRng};

use super::implicit_test::Keys;
use super::*;
use crate::error::Error;
use crate::host::SystemClock;
use crate::sync::Mutex;

/// Committed keys, under one mutex, as a current read of a store would return them. And a log of recent
/// steps.
#[derive(Default)]
struct Committed(Mutex<BTreeSet<u8>>, Mutex<VecDeque<String>>);

impl Committed {
    fn note(&self, owner: &LockOwner, what: std::fmt::Arguments<'_>) {
        let mut notes = self.1.lock();
        if notes.len() == 300 {
            notes.pop_front();
        }
        notes.push_back(format!("t{} {what}", owner.id()));
    }

    fn notes(&self) -> String {
        self.1.lock().iter().map(|note| format!("{note}\n")).collect()
    }

    fn within(&self, from: u8, to: u8) -> Vec<u8> {
        self.0.lock().range(from..to).copied().collect()
    }
}

const KEYS: u8 = 40;

/// One random transaction: scans under gap locks, each read twice, and insertions and deletions under point
/// locks. Returns an error after a rollback.
fn transaction(
    locks: &LockManager,
    owner: &Arc<LockOwner>,
    committed: &Committed,
    rng: &mut StdRng,
) -> Result<(), Error> {
    let policy = |rng: &mut StdRng| match rng.gen_range(0..8) {
        0 => Policy::Wait(Some(Duration::from_micros(rng.gen_range(0..2000)))),
        _ => Policy::Wait(None),
    };
    let mut seen: Vec<(u8, u8, Vec<u8>)> = Vec::new();
    let mut changes: Vec<(u8, bool)> = Vec::new();
    let mut stored: BTreeSet<Vec<u8>> = BTreeSet::new();
    for step in 0..rng.gen_range(1..6) {
        owner.set_written(step);
        if rng.gen_bool(0.5) {
            let from = rng.gen_range(0..KEYS);
            let to = rng.gen_range(from..=KEYS);
            // As a scan: interval by interval, in one direction or the other.
            let mut at = from;
            while at < to {
                let next = rng.gen_range(at + 1..=to);
                let (low, high) = match step % 2 {
                    0 => (at, next),
                    _ => (from + to - next, from + to - at),
                };
                let end = (high < KEYS).then_some([high]);
                locks.lock_range(owner, 1, &[low], end.as_ref().map(|e| &e[..]), policy(rng))?;
                committed.note(owner, format_args!("has {low}..{high}"));
                at = next;
            }
            seen.push((from, to, committed.within(from, to)));
        } else {
            let key = rng.gen_range(0..KEYS);
            let got = locks.lock_point(owner, 1, &[key], Mode::Exclusive, policy(rng))?;
            committed.note(owner, format_args!("locked {key}: {got:?}"));
            changes.push((key, rng.gen_bool(0.5)));
        }
        // As a transaction that spills: all that it has changed, with keys that it has not locked.
        if !changes.is_empty() && rng.gen_bool(0.2) {
            stored.extend(changes.iter().map(|(key, _)| vec![*key]));
            if rng.gen_bool(0.5) {
                let fresh: Vec<Vec<u8>> = (0..3).map(|_| vec![rng.gen_range(0..KEYS)]).collect();
                stored.extend(fresh.iter().cloned());
                locks.announce_implicit(owner, 1, Arc::new(Keys(stored.clone())));
                committed.note(owner, format_args!("announced {stored:?}, fresh {fresh:?}"));
                locks.confirm(owner, 1, || fresh.iter().map(Vec::as_slice), policy(rng))?;
                committed.note(owner, format_args!("confirmed"));
                changes.extend(fresh.iter().map(|key| (key[0], rng.gen_bool(0.5))));
            } else {
                locks.lock_implicitly(owner, 1, Arc::new(Keys(stored.clone())));
                committed.note(owner, format_args!("stored {stored:?}"));
            }
            locks.release_to_implicit(owner, &mut |_, key, _| stored.contains(key));
        }
        if rng.gen_bool(0.3) {
            std::thread::yield_now();
        }
        for (from, to, was) in &seen {
            assert_eq!(*was, committed.within(*from, *to), "t{}: a phantom in {from}..{to}", owner.id());
        }
    }
    let mut store = committed.0.lock();
    committed.note(owner, format_args!("commits {changes:?}"));
    for (key, insert) in changes {
        if insert {
            store.insert(key);
        } else {
            store.remove(&key);
        }
    }
    Ok(())
}

#[test]
fn what_a_range_covers_never_changes() {
    let seeds = match std::env::var("LOCK_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..6u64).collect(),
    };
    let (mut waits, mut deadlocks) = (0, 0);
    for seed in seeds {
        let threads = 3 + seed;
        let options = LockOptions {
            max_locks: if seed % 3 == 2 { 5 } else { 0 },
            shards: 1 << (seed % 3),
            ..LockOptions::default()
        };
        let locks = LockManager::with_options(None, Arc::new(SystemClock), options);
        let (committed, ids) = (Committed::default(), AtomicU64::new(0));
        let (done, commits) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for n in 0..threads {
                let (locks, committed, ids, done, commits) = (&locks, &committed, &ids, &done, &commits);
                scope.spawn(move || {
                    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let mut rng = StdRng::seed_from_u64(seed * 1000 + n);
                        let owner = LockOwner::new(0);
                        for _ in 0..300 {
                            owner.restart(ids.fetch_add(1, SeqCst));
                            owner.set_priority(seed % 2 == 1 && rng.gen_bool(0.2));
                            let ended = transaction(locks, &owner, committed, &mut rng);
                            commits.fetch_add(u64::from(ended.is_ok()), SeqCst);
                            if let Err(error) = &ended {
                                committed.note(&owner, format_args!("ends: {error}"));
                            }
                            locks.unlock_all(&owner);
                        }
                    }));
                    if ended.is_err() {
                        eprintln!("seed {seed}\n{}{}", committed.notes(), listing(&locks.list()));
                        std::process::abort();
                    }
                    done.fetch_add(1, SeqCst);
                });
            }
            let (mut last, mut idle) = (0, 0);
            while done.load(SeqCst) < threads {
                let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| locks.check()));
                if checked.is_err() {
                    eprintln!("seed {seed}\n{}{}", committed.notes(), listing(&locks.list()));
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_micros(200));
                let now = ids.load(SeqCst);
                idle = if now == last { idle + 1 } else { 0 };
                last = now;
                if idle > 200_000 {
                    eprintln!("seed {seed}: nothing moves\n{}", listing(&locks.list()));
                    std::process::abort();
                }
            }
        });
        let stats = locks.stats();
        assert_eq!((stats.held, stats.entries, stats.ranges, stats.waiting), (0, 0, 0, 0), "seed {seed}");
        waits += stats.waits;
        deadlocks += stats.deadlocks;
        assert!(commits.load(SeqCst) * 4 > threads * 300, "seed {seed}: {commits:?} committed");
    }
    // Not of each: on a busy machine few threads may run one after the other.
    assert!(waits > 0 && deadlocks > 0, "nothing met: {waits} waits, {deadlocks} deadlocks");
}

/// A stream of short range readers does not keep an insertion out for ever.
#[test]
fn an_insertion_gets_through_a_stream_of_ranges() {
    let locks = LockManager::new(None, Arc::new(SystemClock));
    let (stop, rounds) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (locks, stop, rounds) = (&locks, &stop, &rounds);
            scope.spawn(move || {
                let owner = LockOwner::new(n);
                while stop.load(SeqCst) == 0 {
                    locks.lock_range(&owner, 1, b"", None, Policy::Wait(None)).expect("no deadlock");
                    std::thread::sleep(Duration::from_micros(300));
                    locks.unlock_all(&owner);
                    rounds.fetch_add(1, SeqCst);
                }
            });
        }
        let owner = LockOwner::new(100);
        for _ in 0..20 {
            let began = rounds.load(SeqCst);
            let got = locks.lock_point(&owner, 1, b"k", Mode::Exclusive, Policy::Wait(None));
            assert_eq!(got.expect("no deadlock"), Some(Granted::New));
            let passed = rounds.load(SeqCst) - began;
            assert!(passed < 40, "{passed} readers went before one insertion");
            locks.unlock_all(&owner);
        }
        stop.store(1, SeqCst);
    });
}
