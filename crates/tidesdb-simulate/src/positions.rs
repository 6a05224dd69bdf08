//! Positions in a cluster's order. A commit in a store of version 2 may have one, and some are set without changes. They are
//! all different, and go up and down: the history knows which commit a found position belongs to.

use std::sync::atomic::{AtomicI64, Ordering};

use tidesdb_simulated::internal::format::{ClusterPosition, Gtid};
use tidesdb_simulated::internal::txn::transaction::Transaction;
use tidesdb_simulated::{simulation, Error, FormatVersion};

use crate::events::hit;
use crate::model::Commit;
use crate::random::Random;
use crate::world::{sleep_below, World};

/// The next position of a run.
#[derive(Debug, Default)]
pub struct Positions(AtomicI64);

impl Positions {
    fn next(&self) -> ClusterPosition {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        let gtid = (n % 3 == 0).then_some(Gtid { domain: 1, server: 2, number: n as u64 });
        ClusterPosition { uuid: *b"a cluster's uuid", number: n ^ 5, gtid }
    }
}

impl World {
    fn has_positions(&self) -> bool {
        self.program.positions && self.db.format() == FormatVersion::Two
    }

    /// Gives the commit of these changes a position, in three of four cases.
    pub fn give_position(&self, txn: &mut Transaction, commit: &mut Commit) -> Result<(), Error> {
        if self.has_positions() && txn.has_writes() {
            let position = self.positions.next();
            if position.number % 4 != 0 {
                txn.set_position(Some(&position))?;
                commit.position = Some(position);
                hit("position of a commit");
            }
        }
        Ok(())
    }
}

/// Sets some without changes.
pub fn work(world: &World, seed: u64, rounds: u64) -> Result<(), String> {
    let mut random = Random::new(seed, 900);
    for _ in 0..rounds {
        sleep_below(&mut random, 20_000);
        if !world.has_positions() {
            continue;
        }
        let position = world.positions.next();
        let before = world.mode.now();
        simulation::take_place();
        let set = world.db.set_position(&position);
        let place = simulation::take_place();
        if let Some(seq) = place {
            let kind = "position without changes".to_string();
            world.history.ordered(Commit { seq, position: Some(position), kind, ..Commit::default() });
        }
        match (set, place) {
            (Ok(()), Some(seq)) => {
                hit("position without changes");
                world.answered(seq, before == world.mode.now() && before.is_full());
            }
            (Ok(()), None) => return Err("a position has no place in the order".into()),
            (Err(error), _) => world.met(&error).map_err(|what| format!("position: {what}"))?,
        }
    }
    Ok(())
}
