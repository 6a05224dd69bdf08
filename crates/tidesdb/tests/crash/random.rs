//! Random programs: steps possible in the store's state, and lives with crashes at random calls.

use std::collections::BTreeMap;

use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::{Error, FormatVersion, SyncMode};

use super::constants;
use super::recovery::{goes_on, ids, recover};
use super::sim::{open, Rng};
use super::state::{Expect, Step, Write};
use super::world::World;

const NAMES: [&str; 3] = ["a", "b", "c"];
const XIDS: [&str; 12] = ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11"];

/// The next step of a random program, possible in the world's state.
fn random_step(rng: &mut Rng, world: &World, life: u64) -> Step {
    let state = world.expect.now();
    let names: Vec<&'static str> = NAMES.into_iter().filter(|name| state.names.contains_key(*name)).collect();
    let free: Vec<&'static str> = NAMES.into_iter().filter(|name| !state.names.contains_key(*name)).collect();
    if names.is_empty() {
        return Step::Create(rng.pick::<&'static str>(&free));
    }
    let name = *rng.pick(&names);
    // Keys of prepared transactions are theirs alone: nothing waits in these programs.
    let writes = |rng: &mut Rng, base: u32| -> Vec<Write> {
        let count = if rng.one_in(8) { 30 } else { 1 + rng.below(4) };
        (0..count)
            .map(|_| {
                let name = *rng.pick(&names);
                let len = if rng.one_in(10) { 400 } else { rng.below(60) as usize };
                let change = (!rng.one_in(4)).then(|| (len, rng.next()));
                (name, base + rng.below(40) as u32, change)
            })
            .collect()
    };
    match rng.below(100) {
        0..=54 => {
            let sync = *rng.pick(&[None, None, Some(SyncMode::None), Some(SyncMode::Full)]);
            Step::Commit(sync, writes(rng, 0))
        }
        55..=62 => {
            let used = |xid: &str| world.expect.prepared.contains_key(xid);
            match XIDS.iter().position(|xid| !used(xid)) {
                Some(at) => Step::Prepare(XIDS[at], writes(rng, 1000 + at as u32 * 100)),
                None => Step::SyncLog,
            }
        }
        63..=70 => match state.undecided.iter().next() {
            Some(xid) => {
                let at = XIDS.iter().position(|known| known == xid).expect("one of ours");
                Step::Decide(XIDS[at], rng.one_in(2))
            }
            None => Step::Take(name, 1 + rng.below(100)),
        },
        71..=73 if !free.is_empty() => Step::Create(rng.pick::<&'static str>(&free)),
        74..=75 => Step::Drop(name),
        76..=77 if !free.is_empty() => Step::Rename(name, rng.pick::<&'static str>(&free)),
        78..=79 => Step::Truncate(name),
        80 if names.len() > 1 => Step::Exchange(names[0], names[1]),
        81 => Step::Record(name, life),
        82..=85 => Step::Take(name, 1 + rng.below(150)),
        86 => Step::Raise(name, rng.below(2000)),
        87..=90 => Step::Flush,
        91..=92 => Step::Compact(name),
        93 => Step::SyncLog,
        94 => Step::Position(rng.below(100) as i64),
        95 if life > 0 => Step::Reopen,
        _ => Step::Commit(None, writes(rng, 0)),
    }
}

/// Three lives of a store, each ended by a crash at a random call.
pub(super) fn random_lives(seed: u64) -> (u64, u64) {
    let mut rng = Rng(seed);
    let mode = *rng.pick(&[SyncMode::None, SyncMode::Interval, SyncMode::Full]);
    let (mut options, mut family) = constants(true, mode);
    options.write_buffer_size = *rng.pick(&[4 << 10, 8 << 10, 64 << 10]);
    options.compaction_threads = rng.below(2) as usize;
    // A third of the stores begins in version 2 of the formats, another moves to it when its first life is over.
    options.least_format = [FormatVersion::One, FormatVersion::Two, FormatVersion::One][(seed % 3) as usize];
    // Once its store is in version 2, a family has longer values in value files.
    family.value_threshold = *rng.pick(&[0, 1, 8, 20]);
    let mut disk = FaultyDisk::new(seed);
    let mut world = World::new(disk.clone(), options.clone(), family.clone()).expect("opens");
    let (mut steps, mut lives) = (0, 0);
    for life in 0..3u64 {
        lives += 1;
        let calls = disk.calls();
        let far = *rng.pick(&[20, 60, 200, 600]);
        disk.crash_at(calls + 1 + rng.below(far));
        let trace = std::env::var("CRASH_TRACE").is_ok();
        for _ in 0..60 {
            let step = random_step(&mut rng, &world, life);
            if trace {
                println!("life {life}, call {}: {step:?}", disk.calls());
            }
            steps += 1;
            if let Err(error) = world.step(&step) {
                if trace {
                    println!("ends: {error}");
                }
                assert!(
                    !matches!(
                        error,
                        Error::Corruption { .. }
                            | Error::InvalidArgument(_)
                            | Error::Conflict
                            | Error::Duplicate
                    ),
                    "{step:?}: {error}"
                );
                break;
            }
        }
        let (dead, expect) = world.die();
        if seed % 3 == 2 {
            options.least_format = FormatVersion::Two;
        }
        let crash = *rng.pick(&Crash::ALL);
        if trace {
            println!("crash {crash:?}");
        }
        let found = dead.crash(crash);
        if rng.one_in(8) {
            let again = found.crash(Crash::Kill);
            again.crash_at(1 + rng.below(80));
            drop(open(&again, &options));
            let second = *rng.pick(&Crash::ALL);
            let worst = if crash == Crash::Kill { second } else { crash };
            let twice = again.crash(second);
            drop(recover(&twice, &options, &expect, worst));
        }
        let (db, seen) = recover(&found, &options, &expect, crash);
        disk = found;
        // What was found is the past from now on; what is gone may not come back.
        let (prepared, ids) = (expect.prepared.clone(), ids(&db, &seen));
        world = World {
            disk: disk.clone(),
            options: options.clone(),
            family: family.clone(),
            db: Some(db),
            live: BTreeMap::new(),
            expect: Expect { history: vec![seen], written: 0, durable: 0, prepared, ids, ..expect },
        };
    }
    let World { db, expect, .. } = world;
    let db = db.expect("open");
    let state = expect.now().clone();
    goes_on(&disk, &options, &expect, (db, state), seed);
    (steps, lives)
}
