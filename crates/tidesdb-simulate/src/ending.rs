//! The ends of a client's transaction: in one phase and in two, undone, and left to others.

use tidesdb_simulated::internal::txn::transaction::Transaction;
use tidesdb_simulated::SyncMode;

use crate::branches::Stage;
use crate::client::Client;
use crate::events::hit;
use crate::model::Commit;
use crate::program::Leaning;
use crate::world::sleep_below;

/// The way to an end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    RollBack,
    OnePhase,
    /// Prepared for a coordinator that decides at once.
    TwoPhase,
    /// Prepared for a user, who decides some time later.
    Xa,
}

impl Client<'_> {
    /// Ends a transaction with these changes.
    pub(crate) fn end(&mut self, mut txn: Transaction, commit: Commit) -> Result<(), String> {
        let ways = match self.world.program.leaning {
            Leaning::Undone => [Way::TwoPhase; 6],
            _ => [Way::RollBack, Way::OnePhase, Way::OnePhase, Way::OnePhase, Way::TwoPhase, Way::Xa],
        };
        self.world.program.brute_force.leave(txn.owner());
        if txn.is_spilled() {
            hit("spilled transaction");
        }
        let asked = self.random.one_in(6).then_some(SyncMode::Full);
        txn.set_sync(asked);
        match self.random.pick(&ways) {
            Way::RollBack => self.rollback(&mut txn),
            Way::OnePhase => match self.world.commit(&mut txn, commit) {
                Ok(Some(seq)) => {
                    if asked.is_some() {
                        self.world.answered(seq, true);
                    }
                    Ok(())
                }
                Ok(None) => Ok(()),
                // Once it is ordered, a restart shows what became of it.
                Err(error) => {
                    self.world.met(&error)?;
                    self.rollback(&mut txn)
                }
            },
            Way::TwoPhase => self.in_two_phases(txn, commit, false),
            Way::Xa => self.in_two_phases(txn, commit, true),
        }
    }

    fn in_two_phases(&mut self, mut txn: Transaction, mut commit: Commit, xa: bool) -> Result<(), String> {
        let world = self.world;
        let xid = format!("x{}.{}", self.number, self.written).into_bytes();
        self.written += 1;
        let writes = txn.has_writes();
        let in_cluster = !xa && self.random.one_in(3);
        if writes {
            world.history.branches(|all| all.begin(&xid, &commit.writes, !in_cluster));
        }
        let before = world.mode.now();
        let early = self.written % 2 == 0;
        if early {
            world.give_position(&mut txn, &mut commit).map_err(|error| format!("position: {error}"))?;
        }
        let prepared = match (xa, in_cluster) {
            (true, _) => txn.prepare_xa(&xid),
            (false, true) => txn.prepare_written(&xid),
            (false, false) => txn.prepare(Some(&xid)),
        };
        if let Err(error) = prepared {
            world.met(&error)?;
            return self.rollback(&mut txn);
        }
        let durable = before == world.mode.now() && before.is_full();
        world.history.branches(|all| all.reach(&xid, Stage::Prepared));
        if xa {
            hit("prepared for later");
            sleep_below(&mut self.random, 10_000);
        }
        if world.program.detached && writes && self.random.one_in(3) {
            // Its connection is gone.
            hit("left to others");
            return Ok(());
        }
        let is_undone =
            self.random.one_in(4) || (world.program.leaning == Leaning::Undone && !self.random.one_in(10));
        if is_undone {
            hit("rollback of a prepared transaction");
            return self.undo_prepared(txn, &xid);
        }
        world.history.branches(|all| all.reach(&xid, Stage::Committing));
        if let Err(error) = txn.resume() {
            world.met(&error)?;
            return self.undo_prepared(txn, &xid);
        }
        if !early {
            world.give_position(&mut txn, &mut commit).map_err(|error| format!("position: {error}"))?;
        }
        txn.order();
        let Some(seq) = txn.ordered_seq() else {
            return txn.finish(false).map_err(|error| format!("commit of nothing: {error}"));
        };
        commit.seq = seq;
        commit.kind.push_str(if xa { ", xa" } else { ", in two phases" });
        world.history.ordered(commit);
        world.history.branches(|all| all.ordered(&xid, seq));
        if let Err(error) = txn.finish(false) {
            // A restart shows what became of it.
            return world.met(&error).map_err(|what| format!("commit of a prepared transaction: {what}"));
        }
        world.history.branches(|all| all.reach(&xid, Stage::Committed));
        // A user's decision is durable in every mode.
        world.answered(seq, xa || durable || world.mode.now().is_full());
        hit("commit");
        hit(match (xa, in_cluster) {
            (true, _) => "commit by its user",
            (false, true) => "commit in two phases, for a cluster",
            (false, false) => "commit in two phases",
        });
        Ok(())
    }

    /// If it fails, the transaction is prepared as before, and others decide it.
    fn undo_prepared(&self, mut txn: Transaction, xid: &[u8]) -> Result<(), String> {
        let history = &self.world.history;
        history.branches(|all| all.reach(xid, Stage::RollingBack));
        match txn.rollback() {
            Ok(()) => history.branches(|all| all.reach(xid, Stage::RolledBack)),
            Err(error) => {
                self.world
                    .met(&error)
                    .map_err(|what| format!("rollback of a prepared transaction: {what}"))?;
            }
        }
        Ok(())
    }
}
