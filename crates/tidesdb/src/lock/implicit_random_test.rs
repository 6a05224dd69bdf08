//! Unconfirmed implicit locks under random locks and gap locks on many threads: the owner of a key has it
//! alone.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use rand::{rngs::StdRng, Rng, SeedableRng};

use super::implicit_test::Keys;
use super::*;
use crate::error::{Error, Result};
use crate::host::SystemClock;
use crate::sync::Mutex;

const KEYS: u8 = 6;

/// Slow keys, similar to keys in files: other threads run during a search.
struct Slow(Keys);

impl LockedKeys for Slow {
    fn contains(&self, key: &[u8]) -> Result<bool> {
        std::thread::yield_now();
        let found = self.0.contains(key);
        std::thread::yield_now();
        found
    }

    fn first_in(&self, from: &[u8], to: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        std::thread::yield_now();
        self.0.first_in(from, to)
    }
}

/// The holders of a key, as the threads themselves report them: shared, exclusive, under a gap lock.
#[derive(Default)]
struct Shadow([AtomicI64; 3]);

/// The reports of one transaction.
#[derive(Default)]
struct Told([[i64; 3]; KEYS as usize]);

impl Told {
    fn tell(&mut self, shadows: &[Shadow], key: u8, what: usize) {
        self.0[key as usize][what] += 1;
        shadows[key as usize].0[what].fetch_add(1, SeqCst);
    }

    /// Checks for conflicts with `what`: an exclusive lock excludes everything but the owner's own gap lock.
    fn check(&self, shadows: &[Shadow], key: u8, what: usize, name: &str) {
        let against: &[usize] = [&[1][..], &[0, 1, 2], &[1]][what];
        for &other in against {
            let (all, own) = (shadows[key as usize].0[other].load(SeqCst), self.0[key as usize][other]);
            assert_eq!(all, own, "{name} of key {key} beside another's {}", ["S", "X", "range"][other]);
        }
    }

    fn leave(&self, shadows: &[Shadow]) {
        for (shadow, told) in shadows.iter().zip(&self.0) {
            for (all, own) in shadow.0.iter().zip(told) {
                all.fetch_sub(*own, SeqCst);
            }
        }
    }
}

/// The latest events.
#[derive(Default)]
struct Notes(Mutex<VecDeque<String>>);

impl Notes {
    fn note(&self, owner: &LockOwner, what: std::fmt::Arguments<'_>) {
        let mut notes = self.0.lock();
        if notes.len() == 200 {
            notes.pop_front();
        }
        notes.push_back(format!("t{} {what}", owner.id()));
    }
}

fn transaction(
    notes: &Notes,
    locks: &LockManager,
    owner: &Arc<LockOwner>,
    shadows: &[Shadow],
    told: &mut Told,
    rng: &mut StdRng,
) -> Result<(), Error> {
    let policy = |rng: &mut StdRng| match rng.gen_range(0..8) {
        0 => Policy::Wait(Some(Duration::from_micros(rng.gen_range(0..2000)))),
        1 => Policy::NoWait,
        _ => Policy::Wait(None),
    };
    let mut stored: BTreeSet<Vec<u8>> = BTreeSet::new();
    locks.lock_table(owner, 1, TableMode::IntentExclusive, Policy::Wait(None))?;
    for step in 0..rng.gen_range(1..5) {
        owner.set_written(step);
        let key = rng.gen_range(0..KEYS);
        match rng.gen_range(0..10) {
            0..=2 => {
                let got = locks.lock_point(owner, 1, &[key], Mode::Shared, policy(rng));
                notes.note(owner, format_args!("S {key}: {got:?}"));
                got?;
                told.tell(shadows, key, 0);
                told.check(shadows, key, 0, "S");
            }
            3..=5 => {
                let got = locks.lock_point(owner, 1, &[key], Mode::Exclusive, policy(rng));
                notes.note(owner, format_args!("X {key}: {got:?}"));
                got?;
                told.tell(shadows, key, 1);
                told.check(shadows, key, 1, "X");
            }
            6 => {
                let to = rng.gen_range(key + 1..=KEYS);
                let got = locks.lock_range(owner, 1, &[key], Some(&[to]), policy(rng));
                notes.note(owner, format_args!("range {key}..{to}: {got:?}"));
                got?;
                for key in key..to {
                    told.tell(shadows, key, 2);
                    told.check(shadows, key, 2, "range");
                }
            }
            _ => {
                let fresh: BTreeSet<Vec<u8>> =
                    (0..rng.gen_range(1..4)).map(|_| vec![rng.gen_range(0..KEYS)]).collect();
                stored.extend(fresh.iter().cloned());
                notes.note(owner, format_args!("announces {fresh:?} of {stored:?}"));
                locks.announce_implicit(owner, 1, Arc::new(Slow(Keys(stored.clone()))));
                let done = locks.confirm(owner, 1, || fresh.iter().map(Vec::as_slice), policy(rng));
                notes.note(owner, format_args!("confirms {fresh:?}: {done:?}"));
                done?;
                locks.release_to_implicit(owner, &mut |_, key, _| stored.contains(key));
                for key in &fresh {
                    told.tell(shadows, key[0], 1);
                    told.check(shadows, key[0], 1, "implicit");
                }
            }
        }
        std::thread::yield_now();
    }
    Ok(())
}

#[test]
fn who_has_locked_a_key_implicitly_has_it_alone() {
    let seeds = match std::env::var("LOCK_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..6u64).collect(),
    };
    let rounds = std::env::var("LOCK_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(300u64);
    for seed in seeds {
        let threads = 3 + seed;
        let options = LockOptions { shards: 1 << (seed % 3), ..LockOptions::default() };
        let locks = LockManager::with_options(None, Arc::new(SystemClock), options);
        let shadows: Vec<Shadow> = (0..KEYS).map(|_| Shadow::default()).collect();
        let notes = &Notes::default();
        let (ids, commits) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for n in 0..threads {
                let (locks, shadows, ids, commits) = (&locks, &shadows, &ids, &commits);
                scope.spawn(move || {
                    // A panic here must not leave the others waiting for this thread's locks.
                    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let mut rng = StdRng::seed_from_u64(seed * 1000 + n);
                        let owner = LockOwner::new(0);
                        for _ in 0..rounds {
                            owner.restart(ids.fetch_add(1, SeqCst));
                            owner.set_priority(seed % 2 == 1 && rng.gen_bool(0.2));
                            let mut told = Told::default();
                            let ended = transaction(notes, locks, &owner, shadows, &mut told, &mut rng);
                            commits.fetch_add(u64::from(ended.is_ok()), SeqCst);
                            notes.note(&owner, format_args!("ends: {ended:?}"));
                            told.leave(shadows);
                            locks.unlock_all(&owner);
                        }
                    }));
                    if ended.is_err() {
                        let last: Vec<String> = notes.0.lock().iter().cloned().collect();
                        eprintln!("seed {seed}\n{}\n{}", last.join("\n"), listing(&locks.list()));
                        std::process::abort();
                    }
                });
            }
        });
        let stats = locks.stats();
        assert_eq!((stats.held, stats.entries, stats.ranges, stats.waiting), (0, 0, 0, 0), "seed {seed}");
        assert!(commits.load(SeqCst) * 5 > threads * rounds, "seed {seed}: {commits:?} committed");
    }
}
