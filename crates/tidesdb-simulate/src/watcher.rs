//! Snapshots and scans held for long, while others change all, families go, clocks jump, and merges drop what nobody else
//! sees.

use std::collections::{BTreeMap, BTreeSet};

use tidesdb_simulated::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb_simulated::{Error, Isolation, TransactionOptions};

use crate::client::key_of;
use crate::events::hit;
use crate::model::{Found, Range, Seen};
use crate::random::Random;
use crate::world::{read_rows, scan_from, sleep_below, World};

/// Looks at the store through one snapshot, so many times.
pub fn work(world: &World, seed: u64, number: u64, looks: u64) -> Result<(), String> {
    let mut random = Random::new(seed, 700 + number);
    let mut txn = world.db.transaction();
    let watched = watch(world, &mut txn, &mut random, (number, looks));
    world.views.set(number, None);
    if let Err(error) = watched {
        world.met(&error).map_err(|what| format!("watcher {number}: {what}"))?;
    }
    hit("snapshot held long");
    txn.rollback().map_err(|error| format!("rollback of a watcher: {error}"))
}

fn watch(
    world: &World,
    txn: &mut Transaction,
    random: &mut Random,
    (number, looks): (u64, u64),
) -> Result<(), Error> {
    let isolation = random.pick(&[Isolation::RepeatableRead, Isolation::Snapshot, Isolation::Serializable]);
    let by = "a watcher";
    sleep_below(random, 10_000);
    txn.begin(TransactionOptions { isolation, ..TransactionOptions::default() })?;
    match random.one_in(2) {
        true => txn.take_snapshot()?,
        false => txn.take_ordered_snapshot()?,
    }
    for _ in 0..looks {
        sleep_below(random, 25_000);
        txn.statement_begin(false, std::time::Duration::ZERO)?;
        let Some(family) = world.some_family(random) else { continue };
        let (life, from) = (family.id(), key_of(random.below(world.program.keys)));
        let looked = match random.one_in(3) {
            true => txn.get(&family, &from, ReadMode::Snapshot).map(|value| {
                let second = world.second(txn, ReadMode::Snapshot);
                let got = Seen { value: value.map(Into::into), second };
                if let Some(seq) = txn.snapshot_seq() {
                    world.history.read(by, seq, (life, from), got);
                }
            }),
            // The scan stands open while all goes on.
            false => {
                let scan = scan_from(&from, ReadMode::Snapshot, 1);
                read_rows(&world.db, txn, &family, &scan, || {
                    if random.one_in(8) {
                        sleep_below(random, 6_000);
                    }
                })
                .map(|rows| {
                    hit("scan held open");
                    let found = Found { rows, second: world.second(txn, ReadMode::Snapshot) };
                    let range = Range { life, from: from.clone(), to: None, found, unknown: BTreeSet::new() };
                    if let Some(seq) = txn.snapshot_seq() {
                        world.history.scanned(by, seq, range, BTreeMap::new());
                    }
                })
            }
        };
        match looked {
            // The family is newer, or gone; the snapshot goes on.
            Err(error @ (Error::SnapshotTooOld | Error::NoSuchFamily(_))) => drop(world.met(&error)),
            looked => looked?,
        }
        if let Some(second) = txn.seen_second(ReadMode::Snapshot) {
            world.views.set(number, Some(second));
        }
        txn.statement_end();
    }
    Ok(())
}
