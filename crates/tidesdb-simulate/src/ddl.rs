//! Changes of the dictionary beside transactions, open scans and merges: families are made, dropped, renamed, truncated,
//! replaced, and get other options.

use std::time::Duration;

use tidesdb_simulated::internal::db::ddl::Ddl;
use tidesdb_simulated::internal::lock::TableMode;
use tidesdb_simulated::internal::txn::transaction::Transaction;
use tidesdb_simulated::{simulation, Error, FamilyOptions, TransactionOptions};

use crate::events::hit;
use crate::options::family_options;
use crate::random::Random;
use crate::world::{sleep_below, World};

/// Longest wait for the lock on a table.
const TABLE_WAIT: Duration = Duration::from_secs(1);

/// A group of changes; its place in the order. `None`: it was refused, as others had changed the names.
pub fn change(world: &World, plan: impl FnOnce(&mut Ddl) -> Result<(), Error>) -> Result<Option<u64>, Error> {
    let mut ddl = world.db.ddl()?;
    match plan(&mut ddl) {
        Ok(()) => {}
        Err(Error::FamilyExists(_) | Error::NoSuchFamily(_)) => {
            hit("change of the dictionary refused");
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    // Nobody else changes the names before the group ends.
    let mut names = world.names();
    for (name, life) in ddl.changes() {
        match life {
            Some(life) => drop(names.insert(name, life)),
            None => drop(names.remove(&name)),
        }
    }
    simulation::take_place();
    let done = ddl.commit();
    let place = simulation::take_place();
    if let Some(seq) = place {
        world.history.renamed(seq, names, done.is_ok());
    }
    done.map(|()| place)
}

/// One who changes the dictionary.
pub struct Changer<'a> {
    world: &'a World,
    random: Random,
}

impl<'a> Changer<'a> {
    /// By a seed.
    pub fn new(world: &'a World, seed: u64, number: u64) -> Changer<'a> {
        Changer { world, random: Random::new(seed, 200 + number) }
    }

    /// So many changes.
    pub fn work(&mut self, changes: u64) -> Result<(), String> {
        for _ in 0..changes {
            sleep_below(&mut self.random, 12_000);
            match self.random.one_in(3) {
                true => self.under_lock()?,
                false => self.change()?,
            }
        }
        Ok(())
    }

    /// As a server does: the table's lock first, so that no transaction is in it.
    fn under_lock(&mut self) -> Result<(), String> {
        let Some(family) = self.world.some_family(&mut self.random) else { return Ok(()) };
        let mut txn = self.world.db.transaction();
        let locked = lock_table(&mut txn, |txn| txn.lock_table(&family, TableMode::Exclusive));
        match locked {
            Ok(()) => {
                hit("table locked for a change");
                self.change()?;
            }
            Err(error) => self.world.met(&error)?,
        }
        txn.rollback().map_err(|error| format!("rollback of a table's lock: {error}"))
    }

    fn name(&mut self) -> Vec<u8> {
        format!("f{}", self.random.below(self.world.program.families() + 2)).into_bytes()
    }

    fn options(&mut self) -> FamilyOptions {
        family_options(&mut self.random, self.world.program.family_modes)
    }

    fn change(&mut self) -> Result<(), String> {
        let (name, other, options) = (self.name(), self.name(), self.options());
        let kind = self.random.below(8);
        let many = self.world.db.family_names(b"f").len() > 1;
        let (what, done) = match kind {
            0 => ("family made", change(self.world, |ddl| ddl.create(&name, options, b"record"))),
            1 if many => ("family dropped", change(self.world, |ddl| ddl.drop_family(&name))),
            2 => ("family renamed", change(self.world, |ddl| ddl.rename(&name, &other))),
            3 | 4 => ("family truncated", change(self.world, |ddl| ddl.truncate(&name))),
            5 if name != other && many => {
                let replaced = change(self.world, |ddl| {
                    ddl.drop_family(&name)?;
                    ddl.rename(&other, &name)
                });
                ("family replaced", replaced)
            }
            6 => ("family dropped and made", {
                change(self.world, |ddl| {
                    ddl.drop_family(&name)?;
                    ddl.create(&name, options, b"another")
                })
            }),
            _ => ("family altered", {
                change(self.world, |ddl| {
                    ddl.set_record(&name, b"other")?;
                    ddl.set_options(&name, options)
                })
            }),
        };
        match done {
            Ok(Some(_)) => hit(what),
            Ok(None) => {}
            Err(error) => self.world.met(&error).map_err(|error| format!("{what}: {error}"))?,
        }
        Ok(())
    }
}

/// Begins a transaction and takes a lock on a table.
pub fn lock_table(
    txn: &mut Transaction,
    lock: impl FnOnce(&mut Transaction) -> Result<(), Error>,
) -> Result<(), Error> {
    txn.begin(TransactionOptions::default())?;
    txn.set_lock_timeout(Some(TABLE_WAIT));
    lock(txn)
}
