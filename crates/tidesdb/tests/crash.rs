//! Crashes of the whole engine on the faulty disk. Short programs crash at every call to the disk, in
//! every way, and again inside recovery; random programs crash at random calls, life after life.
//!
//! After each crash: the store opens. Its content is a prefix of the commit order with every promised commit:
//! after a killed process, all answered ones; after a power cut, all answered in FULL. No transaction is
//! there by half. Answered and undecided prepared transactions wait for their decision. No counter hands a
//! value out twice. State shown by one recovery stays. No unused file is left.
//!
//! `CRASH_SEEDS` runs more random programs, `CRASH_SEED` repeats one, `CRASH_STRIDE` (1: every call) thins
//! out the enumeration.

mod sim;

#[path = "crash/backups.rs"]
mod backups;
#[path = "crash/failing.rs"]
mod failing;
#[path = "crash/programs.rs"]
mod programs;
#[path = "crash/random.rs"]
mod random;
#[path = "crash/recovery.rs"]
mod recovery;
#[path = "crash/state.rs"]
mod state;
#[path = "crash/world.rs"]
mod world;

use failing::run_with_failure;
use programs::short_programs;
use random::random_lives;
use recovery::{crash_inside_recovery, goes_on, observe, recover};
use sim::{env, open, seeds};
use state::{Expect, State};
use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::io::FaultyDisk;
use tidesdb::{FamilyOptions, FormatVersion, Options, SyncMode};
use world::World;

fn constants(tiny: bool, mode: SyncMode) -> (Options, FamilyOptions) {
    let (mut options, family) = match tiny {
        true => (sim::tiny(mode), sim::tiny_family()),
        false => (
            Options { write_buffer_size: 4 << 20, wal_segment_size: 256 << 10, ..sim::tiny(mode) },
            FamilyOptions { block_size: 4096, ..sim::tiny_family() },
        ),
    };
    options.compaction_threads = 0;
    (options, family)
}

/// Those of a short program.
fn constants_of(name: &str, tiny: bool, mode: SyncMode) -> (Options, FamilyOptions) {
    let (mut options, family) = constants(tiny, mode);
    if name.contains("position") {
        options.least_format = FormatVersion::Two;
    }
    (options, family)
}

/// Every value goes to a value file.
fn separate_values(options: &mut Options, family: &mut FamilyOptions) {
    options.least_format = FormatVersion::Two;
    family.value_threshold = 1;
}

fn attempt<T>(what: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(panic) => {
            println!("FAILED: {}", what());
            std::panic::resume_unwind(panic);
        }
    }
}

/// Number of calls of opening a new store: a crash among them leaves almost nothing, and is tried in one
/// program only.
fn calls_of_opening(options: &Options) -> u64 {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, options).expect("opens");
    let calls = disk.calls();
    drop(db);
    calls
}

#[test]
fn a_crash_at_every_call_of_short_programs_without_sync() {
    crash_at_every_call(SyncMode::None);
}

#[test]
fn a_crash_at_every_call_of_short_programs_with_sync() {
    crash_at_every_call(SyncMode::Full);
}

fn crash_at_every_call(mode: SyncMode) {
    let stride = env("CRASH_STRIDE", 1).max(1);
    let only = std::env::var("CRASH_PROGRAM").ok();
    let (mut points, mut crashes, mut inner) = (0u64, 0u64, 0u64);
    let (mut recycled, mut spilled) = (false, 0);
    for (ordinal, (name, tiny, steps)) in short_programs().into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let (mut options, mut family) = constants_of(name, tiny, mode);
        if (ordinal + mode as usize) % 3 == 0 {
            separate_values(&mut options, &mut family);
        }
        let seed = ordinal as u64 * 2 + mode as u64;
        let mut world = World::new(FaultyDisk::new(seed), options.clone(), family.clone()).expect("opens");
        world.run(&steps).unwrap_or_else(|e| panic!("{name} without a crash: {e}"));
        recycled |= world.db().stats().wal_segment > 6;
        spilled += world.db().stats().spilled_runs;
        let calls = world.disk.calls();
        drop(world.die());
        let first = if ordinal == 0 { 1 } else { calls_of_opening(&options) + 1 };
        // The long ones are thinned out, each mode in its own way, so that they stay affordable.
        let step = stride * (calls / 250 + 1);
        let mut n = first + seed % step;
        while n <= calls + 1 {
            points += 1;
            let disk = FaultyDisk::new(seed);
            disk.crash_at(n);
            let (dead, expect) = match World::new(disk.clone(), options.clone(), family.clone()) {
                Ok(mut world) => {
                    // An error is the crash; what was answered before it counts.
                    let _ = world.run(&steps);
                    world.die()
                }
                Err(_) => (disk, Expect { history: vec![State::default()], ..Expect::default() }),
            };
            for (which, crash) in Crash::ALL.into_iter().enumerate() {
                crashes += 1;
                let what = || format!("{name}, {mode:?}, call {n} of {calls}, {crash:?}");
                attempt(what, || {
                    let found = dead.crash(crash);
                    if which as u64 == n % 6 && (n / 6) % 17 == 0 {
                        inner += crash_inside_recovery(&found, &options, &expect, crash, n);
                    }
                    let recovered = recover(&found, &options, &expect, crash);
                    if which as u64 == (n / 3) % 6 {
                        goes_on(&found, &options, &expect, recovered, n);
                    } else {
                        found.crash_at(0);
                    }
                });
            }
            n += step;
        }
    }
    println!("{points} crash points, {crashes} crashes, {inner} crashes inside recovery");
    println!("{spilled} runs of spilled transactions without a crash");
    assert!(only.is_some() || recycled, "a segment of the log was used again");
    assert!(only.is_some() || spilled > 5, "transactions spilled");
}

#[test]
fn random_programs_crash_at_random_calls_life_after_life() {
    let seeds = seeds("CRASH", 2000);
    let (mut steps, mut lives) = (0, 0);
    for &seed in &seeds {
        let (s, l) = attempt(|| format!("CRASH_SEED={seed}"), || random_lives(seed));
        steps += s;
        lives += l;
    }
    println!("{} programs, {steps} steps, {lives} crashes", seeds.len());
}

#[test]
fn a_failing_call_loses_nothing_that_was_answered() {
    let stride = env("CRASH_STRIDE", 1).max(1) * 3;
    let only = std::env::var("CRASH_PROGRAM").ok();
    let mut failures = 0;
    for (ordinal, (name, tiny, steps)) in short_programs().into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let mode = [SyncMode::None, SyncMode::Full][ordinal % 2];
        let (mut options, mut family) = constants_of(name, tiny, mode);
        if ordinal % 3 == 0 {
            separate_values(&mut options, &mut family);
        }
        let seed = ordinal as u64;
        let mut world = World::new(FaultyDisk::new(seed), options.clone(), family.clone()).expect("opens");
        world.run(&steps).unwrap_or_else(|e| panic!("{name} without a failure: {e}"));
        let calls = world.disk.calls();
        drop(world.die());
        let mut n = 1 + seed % stride;
        while n <= calls {
            for failure in [Failure::Eio, Failure::Enospc, Failure::ShortRead] {
                failures += 1;
                let disk = FaultyDisk::new(seed);
                disk.fail_call(n, failure);
                attempt(
                    || format!("{name}, {mode:?}, {failure:?} at call {n} of {calls}"),
                    || {
                        let mut world = match World::new(disk.clone(), options.clone(), family.clone()) {
                            Ok(world) => world,
                            Err(_) => World::new(disk.clone(), options.clone(), family.clone())
                                .expect("opens after a failed opening"),
                        };
                        run_with_failure(&mut world, &steps);
                        let (dead, expect) = world.die();
                        let crash = Crash::ALL[(n % 6) as usize];
                        let found = dead.crash(crash);
                        drop(recover(&found, &options, &expect, crash));
                    },
                );
            }
            n += stride * (calls / 150 + 1);
        }
    }
    println!("{failures} failing calls");
}

/// A test of the tests: on a disk whose syncs of one kind do nothing, they notice the loss.
#[test]
fn every_kind_of_sync_is_missed_when_it_lies() {
    let kinds = [
        ("the log", Op::Sync, ".wal"),
        ("the log's directory", Op::SyncDir, "/wal"),
        ("tables", Op::Sync, ".sst"),
        ("the manifest", Op::Sync, "MANIFEST"),
        ("CURRENT", Op::Sync, "CURRENT"),
        ("the store's directory", Op::SyncDir, "/store"),
        ("value files", Op::Sync, ".val"),
    ];
    for (what, op, path) in kinds {
        let mut noticed = None;
        'programs: for (name, tiny, steps) in short_programs() {
            let (mut options, mut family) = constants_of(name, tiny, SyncMode::Full);
            if path == ".val" {
                separate_values(&mut options, &mut family);
            }
            for crash in [Crash::Drop, Crash::Reorder] {
                let disk = FaultyDisk::new(1);
                let lie = Failure::Lie;
                disk.fail(Fault { op: Some(op), path: path.into(), skip: 0, times: u64::MAX, failure: lie });
                let mut world = World::new(disk, options.clone(), family.clone()).expect("opens");
                world.run(&steps).expect("runs");
                let (dead, expect) = world.die();
                let found = dead.crash(crash);
                let right = expect.right(crash);
                let wrong = match open(&found, &options) {
                    Ok(db) => !observe(&db, right, &expect.ids).is_ok_and(|seen| right.contains(&seen)),
                    Err(_) => true,
                };
                if wrong {
                    noticed = Some((name, crash));
                    break 'programs;
                }
            }
        }
        println!("{what}: {noticed:?}");
        assert!(noticed.is_some(), "a lying sync of {what} is noticed by no program");
    }
}
