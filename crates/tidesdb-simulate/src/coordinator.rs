//! A coordinator of transactions prepared and left by others: it decides by xid, in a running store and after a restart.

use std::collections::BTreeSet;
use std::time::Duration;

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::txn::transaction::Transaction;
use tidesdb_simulated::{simulation, Error, TransactionOptions};

use crate::branches::Stage;
use crate::events::hit;
use crate::history::History;
use crate::model::{shown, Commit};
use crate::random::Random;
use crate::world::{sleep_below, World};

/// Decides for a while.
pub fn work(world: &World, seed: u64, rounds: u64) -> Result<(), String> {
    let mut random = Random::new(seed, 600);
    for _ in 0..rounds {
        sleep_below(&mut random, 15_000);
        let mut listed = world.db.prepared();
        listed.sort();
        if listed.is_empty() {
            continue;
        }
        let xid = listed.swap_remove(random.below(listed.len() as u64) as usize);
        decide(&world.db, &world.history, &xid, random.one_in(2))?;
    }
    Ok(())
}

/// Decides one not taken by others.
pub fn decide(db: &Db, history: &History, xid: &[u8], commit: bool) -> Result<(), String> {
    let begun = if commit { Stage::Committing } else { Stage::RollingBack };
    history.branches(|all| all.reach(xid, begun));
    let writes = history.branches(|all| all.writes(xid).cloned()).unwrap_or_default();
    simulation::take_place();
    let decided = if commit { db.commit_by_xid(xid) } else { db.rollback_by_xid(xid) };
    let place = simulation::take_place();
    match decided {
        Ok(true) => {}
        // It waits on.
        Err(Error::BackpressureTimeout) if place.is_none() => {
            hit("held back for too long");
            history.branches(|all| all.reach(xid, Stage::Prepared));
            return Ok(());
        }
        other => return Err(format!("decision of {}: {other:?}", shown(xid))),
    }
    if !commit {
        history.branches(|all| all.reach(xid, Stage::RolledBack));
        hit("rollback by xid");
        return Ok(());
    }
    let seq = place.ok_or_else(|| format!("the commit of {} has no place", shown(xid)))?;
    history.branches(|all| {
        all.ordered(xid, seq);
        all.reach(xid, Stage::Committed);
    });
    history.ordered(Commit { seq, writes, kind: format!("decision of {}", shown(xid)), ..Commit::default() });
    // It is durable in every mode.
    history.answered(seq, true);
    hit("commit by xid");
    Ok(())
}

/// Listed transactions hold the locks on their changed keys.
pub fn check_locks(db: &Db, history: &History) -> Result<(), String> {
    for xid in db.prepared() {
        let writes = history.branches(|all| all.writes(&xid).cloned()).unwrap_or_default();
        for (life, key) in writes.keys().take(3) {
            let families = db.families().into_iter().map(|info| info.family);
            let Some(family) = families.into_iter().find(|family| family.id() == *life) else { continue };
            let mut txn: Transaction = db.transaction();
            let wrote = txn.begin(TransactionOptions::default()).and_then(|()| {
                txn.set_lock_timeout(Some(Duration::ZERO));
                txn.put(&family, key, b"another's")
            });
            match wrote {
                Err(Error::LockTimeout) => hit("lock of a prepared transaction"),
                other => return Err(format!("a change of what {} has changed: {other:?}", shown(&xid))),
            }
            txn.rollback().map_err(|error| format!("rollback: {error}"))?;
        }
    }
    Ok(())
}

/// Decides a share of the listed ones; returns the rest.
pub fn decide_some(
    db: &Db,
    history: &History,
    random: &mut Random,
    one_in: u64,
) -> Result<BTreeSet<Vec<u8>>, String> {
    let mut left = BTreeSet::new();
    let mut listed = db.prepared();
    listed.sort();
    for xid in listed {
        match random.one_in(one_in) {
            true => decide(db, history, &xid, random.one_in(2))?,
            false => drop(left.insert(xid)),
        }
    }
    Ok(left)
}
