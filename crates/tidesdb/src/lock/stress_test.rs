//! Random transactions on many threads over few keys, with a shadow of all holders, and random steps on one
//! queue. The seed decides the steps of every thread; the order of the threads is the machine's.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{rngs::StdRng, Rng, SeedableRng};

use super::implicit_test::Keys;
use super::mode::Mask;
use super::queue::{Attempt, GivenBack, Queue, Request};
use super::shard::FamilyLocks;
use super::*;
use crate::error::Error;
use crate::host::SystemClock;

/// The holders of a key or a table, as the threads themselves report them.
#[derive(Default)]
struct Shadow {
    shared: AtomicI64,
    exclusive: AtomicI64,
}

impl Shadow {
    fn enter(&self, mode: Mode) {
        match mode {
            Mode::Shared => self.shared.fetch_add(1, SeqCst),
            Mode::Exclusive => self.exclusive.fetch_add(1, SeqCst),
        };
    }

    fn leave(&self, mode: Mode) {
        match mode {
            Mode::Shared => self.shared.fetch_sub(1, SeqCst),
            Mode::Exclusive => self.exclusive.fetch_sub(1, SeqCst),
        };
    }

    /// `mine` are the caller's own entries.
    fn check(&self, mode: Mode, mine: (i64, i64), what: &str) {
        assert_eq!(self.exclusive.load(SeqCst), mine.1, "{what}: another owner has it exclusively");
        if mode == Mode::Exclusive {
            assert_eq!(self.shared.load(SeqCst), mine.0, "{what}: another owner shares it");
        }
    }
}

/// Checks that reports name only transactions in progress. Kills those in the way of an owner with priority,
/// unless they have it as well.
struct Live {
    live: Vec<AtomicBool>,
    owners: Vec<Arc<LockOwner>>,
    /// Reports after the beginnings of waits.
    went_on: AtomicU64,
}

impl Live {
    fn check(&self, waiter: &LockOwner, holders: &[u64]) {
        assert!(!holders.is_empty(), "a wait for nobody");
        for round in 0..3 {
            for &holder in holders {
                assert_ne!(holder, waiter.cookie());
                assert!(self.live[holder as usize].load(SeqCst), "a report names an ended transaction");
            }
            if round < 2 {
                std::thread::yield_now();
            }
        }
        if waiter.has_priority() {
            let owners = holders.iter().map(|&holder| &self.owners[holder as usize - 1]);
            owners.filter(|owner| !owner.has_priority()).for_each(|owner| owner.wait_cell.kill());
        }
    }
}

impl WaitObserver for Live {
    fn wait_begins(&self, waiter: &LockOwner, holders: &[u64]) {
        self.check(waiter, holders);
    }
    fn wait_goes_on(&self, waiter: &LockOwner, holders: &[u64]) {
        assert!(waiter.has_priority());
        self.went_on.fetch_add(1, SeqCst);
        self.check(waiter, holders);
    }
    fn wait_ends(&self, _: &LockOwner) {}
}

struct Run {
    seed: u64,
    threads: u64,
    keys: u64,
    transactions: u64,
    options: LockOptions,
    table_locks: bool,
    kills: bool,
    /// Point locks become implicit now and then.
    stores: bool,
    /// Number of threads whose transactions have priority. They lock keys in their order, so that they are in no
    /// deadlock among themselves, and each ends well.
    with_priority: u64,
}

impl Run {
    fn go(self) -> LockStats {
        let owners: Vec<_> = (1..=self.threads).map(LockOwner::new).collect();
        let live = Arc::new(Live {
            live: (0..=self.threads).map(|_| AtomicBool::new(false)).collect(),
            owners: owners.clone(),
            went_on: AtomicU64::new(0),
        });
        let locks =
            Arc::new(LockManager::with_options(Some(live.clone()), Arc::new(SystemClock), self.options));
        let shadows: Arc<Vec<Shadow>> = Arc::new((0..self.keys).map(|_| Shadow::default()).collect());
        let ids = AtomicU64::new(self.threads);
        let (done, commits) = (AtomicU64::new(0), AtomicU64::new(0));
        let run = &self;
        std::thread::scope(|scope| {
            for (n, owner) in owners.iter().enumerate() {
                owner.set_cookie(n as u64 + 1);
                let (locks, shadows, live, ids) = (&locks, &shadows, &live, &ids);
                let (done, commits) = (&done, &commits);
                scope.spawn(move || {
                    // A panic here must not leave the others waiting for this thread's locks.
                    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let mut rng = StdRng::seed_from_u64(run.seed * 1000 + n as u64);
                        for _ in 0..run.transactions {
                            owner.restart(ids.fetch_add(1, SeqCst));
                            live.live[n + 1].store(true, SeqCst);
                            let mut mine = HashMap::new();
                            let ended = if (n as u64) < run.with_priority {
                                owner.set_priority(true);
                                let done = run.with_priority(locks, owner, shadows, &mut mine, &mut rng);
                                done.expect("no deadlock, no kill, no bound");
                                Ok(())
                            } else {
                                run.transaction(locks, owner, shadows, &mut mine, &mut rng)
                            };
                            for (&key, &(s, x)) in &mine {
                                (0..s).for_each(|_| shadows[key as usize].leave(Mode::Shared));
                                (0..x).for_each(|_| shadows[key as usize].leave(Mode::Exclusive));
                            }
                            locks.unlock_all(owner);
                            live.live[n + 1].store(false, SeqCst);
                            commits.fetch_add(u64::from(ended.is_ok()), SeqCst);
                        }
                    }));
                    if ended.is_err() {
                        eprintln!("seed {}\n{}", run.seed, listing(&locks.list()));
                        std::process::abort();
                    }
                    done.fetch_add(1, SeqCst);
                });
            }
            let mut rng = StdRng::seed_from_u64(run.seed);
            let mut last = (0, Instant::now());
            while done.load(SeqCst) < run.threads {
                locks.check();
                if run.kills && rng.gen_bool(0.3) {
                    locks.kill(&owners[rng.gen_range(run.with_priority as usize..owners.len())]);
                }
                let now = ids.load(SeqCst);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > Duration::from_secs(60) {
                    eprintln!("seed {}: nothing moves\n{}", run.seed, listing(&locks.list()));
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_micros(rng.gen_range(0..300)));
            }
        });
        let stats = locks.stats();
        assert_eq!((stats.held, stats.entries, stats.waiting), (0, 0, 0), "seed {}", self.seed);
        let all = self.threads * self.transactions;
        let least = if self.with_priority > 0 { self.with_priority * self.transactions } else { all / 4 };
        assert!(commits.load(SeqCst) > least, "seed {}: {commits:?} of {all} ended well", self.seed);
        assert!(stats.waits > 0, "seed {}: nobody waited", self.seed);
        stats
    }

    /// The locks of an owner with priority, in the order of the keys.
    fn with_priority(
        &self,
        locks: &LockManager,
        owner: &Arc<LockOwner>,
        shadows: &[Shadow],
        mine: &mut HashMap<u64, (i64, i64)>,
        rng: &mut StdRng,
    ) -> Result<(), Error> {
        let mut keys: Vec<u64> = (0..rng.gen_range(1..8)).map(|_| rng.gen_range(0..self.keys)).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let wait = Policy::Wait(None);
            let mode = if rng.gen_bool(0.3) { Mode::Shared } else { Mode::Exclusive };
            locks.lock_point(owner, (key % 3) as u32, &key_bytes(key), mode, wait)?;
            shadows[key as usize].enter(mode);
            let own = mine.entry(key).or_default();
            match mode {
                Mode::Shared => own.0 += 1,
                Mode::Exclusive => own.1 += 1,
            }
            shadows[key as usize].check(mode, *own, "key with priority");
        }
        Ok(())
    }

    /// Locks at random; `mine` counts the entries in the shadows, by key.
    fn transaction(
        &self,
        locks: &LockManager,
        owner: &Arc<LockOwner>,
        shadows: &[Shadow],
        mine: &mut HashMap<u64, (i64, i64)>,
        rng: &mut StdRng,
    ) -> Result<(), Error> {
        let policy = |rng: &mut StdRng| match rng.gen_range(0..10) {
            0 => Policy::NoWait,
            1 => Policy::Skip,
            2 => Policy::Wait(Some(Duration::from_micros(rng.gen_range(0..2000)))),
            _ => Policy::Wait(None),
        };
        let mut stored: [BTreeSet<Vec<u8>>; 3] = Default::default();
        for step in 0..rng.gen_range(1..8) {
            owner.set_written(step);
            if self.stores && rng.gen_bool(0.3) {
                for (&key, _) in mine.iter().filter(|(_, &(_, exclusive))| exclusive > 0) {
                    stored[(key % 3) as usize].insert(key_bytes(key));
                }
                for (family, keys) in stored.iter().enumerate().filter(|(_, keys)| !keys.is_empty()) {
                    locks.lock_implicitly(owner, family as u32, Arc::new(Keys(keys.clone())));
                }
                locks.release_to_implicit(owner, &mut |family, key, _| stored[family as usize].contains(key));
            }
            let key = rng.gen_range(0..self.keys);
            let bytes = key_bytes(key);
            let family = (key % 3) as u32;
            let mode = if rng.gen_bool(0.5) { Mode::Shared } else { Mode::Exclusive };
            if self.table_locks && rng.gen_bool(0.05) {
                let strong = if rng.gen_bool(0.5) { TableMode::Shared } else { TableMode::Exclusive };
                match locks.lock_table(owner, family, strong, policy(rng)) {
                    // What the table lock promises, seen from the keys below.
                    Ok(_) => {
                        for below in (0..self.keys).filter(|k| k % 3 == u64::from(family)) {
                            let own = mine.get(&below).copied().unwrap_or_default();
                            let mode = match strong {
                                TableMode::Exclusive => Mode::Exclusive,
                                _ => Mode::Shared,
                            };
                            shadows[below as usize].check(mode, own, "table");
                        }
                    }
                    Err(Error::LockTimeout) => {}
                    Err(e) => return Err(e),
                }
            }
            let taken = if rng.gen_bool(0.1) {
                match locks.put_intent(owner, family, &bytes, policy(rng)) {
                    Ok(intent) => Ok(intent.map(|i| (i, Mode::Exclusive))),
                    Err(e) => Err(e),
                }
            } else {
                locks.lock_point(owner, family, &bytes, mode, policy(rng)).map(|g| g.map(|g| (g, mode)))
            };
            let (granted, mode) = match taken {
                Ok(Some(taken)) => taken,
                Ok(None) | Err(Error::LockTimeout) => continue,
                Err(e) => return Err(e),
            };
            let shadow = &shadows[key as usize];
            shadow.enter(mode);
            let own = mine.entry(key).or_default();
            match mode {
                Mode::Shared => own.0 += 1,
                Mode::Exclusive => own.1 += 1,
            }
            shadow.check(mode, *own, "key");
            if rng.gen_bool(0.3) {
                std::thread::yield_now();
            }
            shadow.check(mode, *own, "key, later");
            // What is stored stays locked.
            let kept = stored[(key % 3) as usize].contains(&bytes);
            if granted == Granted::New && !kept && rng.gen_bool(0.2) {
                match mode {
                    Mode::Shared => own.0 -= 1,
                    Mode::Exclusive => own.1 -= 1,
                }
                shadow.leave(mode);
                locks.unlock_point(owner, family, &bytes, mode);
            }
        }
        Ok(())
    }
}

fn key_bytes(key: u64) -> Vec<u8> {
    let mut bytes = vec![7; if key % 2 == 0 { 20 } else { 0 }];
    bytes.extend_from_slice(&key.to_be_bytes());
    bytes
}

/// Seeds to run: the one in `LOCK_SEED`, or the given ones.
fn seeds(range: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("LOCK_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => vec![seed],
        None => range.collect(),
    }
}

#[test]
fn owners_that_conflict_never_meet_and_every_wait_ends() {
    for seed in seeds(0..6) {
        let stats = Run {
            seed,
            threads: 3 + seed * 2,
            keys: 2 + seed,
            transactions: 300,
            options: LockOptions { shards: 1 << (seed % 3), ..LockOptions::default() },
            table_locks: seed % 2 == 1,
            kills: false,
            stores: seed % 3 != 0,
            with_priority: 0,
        }
        .go();
        assert!(stats.deadlocks > 0, "seed {seed}: {stats:?}");
    }
}

#[test]
fn kills_and_escalations_among_random_transactions() {
    for seed in seeds(10..14) {
        let stats = Run {
            seed,
            threads: 6,
            keys: 12,
            transactions: 300,
            options: LockOptions {
                max_locks: 4,
                max_total: 0,
                max_advisory: 0,
                escalate: seed % 2 == 0,
                shards: 2,
            },
            table_locks: false,
            kills: true,
            stores: seed >= 12,
            with_priority: 0,
        }
        .go();
        assert!(stats.kills > 0, "seed {seed}: {stats:?}");
        assert_eq!(stats.escalations > 0, seed % 2 == 0, "seed {seed}: {stats:?}");
    }
}

/// The lock table itself checks that no grant makes a wait with priority longer (`Queue::check_priority`).
#[test]
fn priority_among_random_transactions_always_ends_well() {
    let mut kills = 0;
    for seed in seeds(20..26) {
        let stats = Run {
            seed,
            threads: 6,
            keys: 3 + seed % 5,
            transactions: 300,
            options: LockOptions {
                max_locks: if seed % 2 == 0 { 3 } else { 0 },
                max_total: 0,
                max_advisory: 0,
                escalate: seed % 4 == 0,
                shards: 2,
            },
            table_locks: seed % 3 == 0,
            kills: false,
            stores: seed % 3 != 0,
            with_priority: 1 + seed % 2,
        }
        .go();
        kills += stats.kills;
    }
    assert!(kills > 0, "nobody was in the way");
}

/// A gap lock that comes into the way of a wait stays until its owner is killed, which the report of it does.
#[test]
fn a_wait_with_priority_gets_through_ranges_that_stay() {
    let owners: Vec<_> = (1..=4).map(LockOwner::new).collect();
    let live = Arc::new(Live {
        live: (0..=4).map(|_| AtomicBool::new(true)).collect(),
        owners: owners.clone(),
        went_on: AtomicU64::new(0),
    });
    let locks = LockManager::new(Some(live.clone()), Arc::new(SystemClock));
    let (stop, ids) = (AtomicBool::new(false), AtomicU64::new(5));
    std::thread::scope(|scope| {
        for (n, owner) in owners.iter().enumerate() {
            owner.set_cookie(n as u64 + 1);
        }
        for owner in &owners[1..] {
            let (locks, stop, ids) = (&locks, &stop, &ids);
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    owner.restart(ids.fetch_add(1, SeqCst));
                    let restored = Range { family: 1, from: vec![b'k'], to: None };
                    match ids.load(SeqCst) % 3 {
                        0 => locks.restore_range(owner, &restored),
                        _ => locks.lock_range(owner, 1, b"", None, Policy::Wait(None)),
                    }
                    .ok();
                    while !owner.is_killed() && !stop.load(SeqCst) {
                        std::thread::yield_now();
                    }
                    // Others come into the way before this one leaves.
                    std::thread::sleep(Duration::from_micros(100 * u64::from(owner.cookie() == 2)));
                    locks.unlock_all(owner);
                }
            });
        }
        let began = Instant::now();
        while live.went_on.load(SeqCst) < 20 && began.elapsed() < Duration::from_secs(60) {
            // Ranges come in between.
            std::thread::sleep(Duration::from_micros(50));
            owners[0].restart(ids.fetch_add(1, SeqCst));
            owners[0].set_priority(true);
            let patience = Policy::Wait(Some(Duration::from_secs(30)));
            let got = locks.lock_point(&owners[0], 1, b"k", Mode::Exclusive, patience);
            if got.is_err() {
                eprintln!("{got:?}\n{}", listing(&locks.list()));
                std::process::abort();
            }
            locks.unlock_all(&owners[0]);
        }
        stop.store(true, SeqCst);
    });
    assert!(live.went_on.load(SeqCst) >= 20, "few ranges came late: {:?}", live.went_on);
}

#[test]
fn a_hot_key_with_many_waiters_serves_them_all() {
    const THREADS: u64 = 40;
    let locks = LockManager::new(None, Arc::new(SystemClock));
    let counter = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for id in 1..=THREADS {
            let (locks, counter) = (&locks, &counter);
            scope.spawn(move || {
                let owner = LockOwner::new(id);
                for _ in 0..50 {
                    let got = locks.lock_point(&owner, 1, b"hot", Mode::Exclusive, Policy::Wait(None));
                    assert_eq!(got.unwrap(), Some(Granted::New));
                    let seen = counter.load(SeqCst);
                    std::thread::yield_now();
                    counter.store(seen + 1, SeqCst);
                    locks.unlock_all(&owner);
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), THREADS as i64 * 50);
    assert_eq!((locks.stats().deadlocks, locks.stats().held), (0, 0));
}

/// Random steps on one queue, with the checks of `Queue::check` after each, and fairness: an immediate grant
/// must not overtake a conflicting wait.
#[test]
fn one_queue_keeps_its_invariants() {
    const MODES: [Mask; 4] = [Mask::IS, Mask::IX, Mask::S, Mask::X];
    for seed in seeds(0..200) {
        let mut rng = StdRng::seed_from_u64(seed);
        let owners: Vec<_> = (0..6).map(LockOwner::new).collect();
        owners[4..].iter().for_each(|owner| owner.set_priority(seed % 3 == 0));
        let modes = if seed % 2 == 0 { &MODES[2..] } else { &MODES[..] };
        let mut queue = Queue::default();
        let locks = FamilyLocks::new(1, 1, None, None);
        let gap_conflict = locks.gap_conflict(b"k");
        let waits = |queue: &Queue, owner: &Arc<LockOwner>| {
            queue.waiting().iter().any(|r| Arc::ptr_eq(&r.owner, owner))
        };
        for _ in 0..400 {
            let owner = &owners[rng.gen_range(0..owners.len())];
            let want = modes[rng.gen_range(0..modes.len())];
            let mut granted = Vec::new();
            if waits(&queue, owner) {
                if rng.gen_bool(0.3) {
                    queue.dequeue(owner);
                }
            } else if rng.gen_bool(0.5) {
                let had = queue.is_held_by(owner);
                let conflicts = |r: &&Request| r.want.conflicts_with(want);
                let passes = queue.waiting().iter().filter(conflicts).any(|r| {
                    (r.priority && !owner.has_priority()) || (!had && r.priority == owner.has_priority())
                });
                match queue.attempt(owner, want, false, &gap_conflict) {
                    Attempt::AlreadyHeld => assert!(had, "seed {seed}"),
                    Attempt::Granted { first } => {
                        assert_eq!(first, !had, "seed {seed}");
                        assert!(!passes, "seed {seed}: a request overtook a wait");
                    }
                    Attempt::Blocked => queue.enqueue(owner, want, false, &gap_conflict),
                }
            } else if rng.gen_bool(0.5) {
                queue.release(owner);
            } else {
                let had = queue.is_held_by(owner);
                let gone = queue.give_back(owner, want) == GivenBack::Gone;
                assert_eq!(had && !queue.is_held_by(owner), gone, "seed {seed}");
            }
            queue.grant_waiters(&gap_conflict, |owner, first| granted.push((owner, first)));
            for (owner, _) in &granted {
                assert!(!waits(&queue, owner) && queue.is_held_by(owner), "seed {seed}");
            }
            queue.check(&gap_conflict);
        }
        for owner in &owners {
            queue.dequeue(owner);
            queue.release(owner);
            queue.grant_waiters(&gap_conflict, |_, _| {});
        }
        assert!(queue.granted().is_empty() && queue.waiting().is_empty(), "seed {seed}");
    }
}
