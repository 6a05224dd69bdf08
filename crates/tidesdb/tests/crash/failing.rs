//! Programs on a disk with a failing call: they go on if they can.

use tidesdb::Error;

use super::recovery::observe;
use super::sim::open;
use super::state::Step;
use super::world::World;

/// True if a step is possible in this state: an earlier one may have failed.
fn is_possible(step: &Step, world: &World) -> bool {
    let state = world.expect.now();
    let has = |name: &&str| state.names.contains_key(*name);
    match step {
        Step::Commit(_, writes) | Step::Load(writes) | Step::Prepare(_, writes) => {
            writes.iter().all(|(name, _, _)| has(name))
        }
        Step::Decide(xid, _) => state.undecided.contains(*xid),
        Step::Create(name) => !has(name),
        Step::Rename(from, to) => has(from) && !has(to),
        Step::Exchange(a, b) => has(a) && has(b),
        Step::Drop(name)
        | Step::Truncate(name)
        | Step::Record(name, _)
        | Step::Take(name, _)
        | Step::Raise(name, _)
        | Step::Compact(name) => has(name),
        Step::Flush | Step::SyncLog | Step::Position(_) | Step::Reopen => true,
    }
}

/// Runs the steps on a disk with a failing call; goes on after errors, unless the log has failed.
pub(super) fn run_with_failure(world: &mut World, steps: &[Step]) {
    for step in steps {
        if world.db.is_none() {
            // The opening failed, and nothing fails any more.
            world.db = Some(open(&world.disk, &world.options).expect("opens after a failed opening"));
        }
        if !is_possible(step, world) {
            continue;
        }
        let (events, xids) = (world.expect.history.len(), world.live.len());
        let Err(error) = world.step(step) else { continue };
        assert!(
            !matches!(error, Error::InvalidArgument(_) | Error::Conflict | Error::Duplicate),
            "{step:?}: {error}"
        );
        if matches!(error, Error::OutcomeUnknown) {
            // It may be there, and nothing follows.
            return;
        }
        // It was refused: it may not be there. (A clean restart takes what was answered with it.)
        if !matches!(step, Step::Reopen) {
            world.expect.history.truncate(events);
        }
        if let (Step::Prepare(xid, _), true) = (step, world.live.len() > xids) {
            world.live.remove(*xid);
        }
        if matches!(error, Error::ReadOnly(_)) || world.db.as_ref().is_some_and(|db| db.flush_log().is_err())
        {
            return;
        }
    }
    if let Some(db) = &world.db {
        let mut now = world.expect.now().clone();
        // Prepared transactions of this life are not among the recovered ones.
        now.undecided = db.prepared().iter().map(|xid| String::from_utf8_lossy(xid).into_owned()).collect();
        // The failure may hit this very reading, once.
        let (like, ids) = (std::slice::from_ref(&now), &world.expect.ids);
        let seen = observe(db, like, ids).or_else(|_| observe(db, like, ids)).expect("reads");
        assert_eq!(seen, now, "before the crash");
    }
}
