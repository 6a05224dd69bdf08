//! Backups of the running store: each is restored and opened alongside it, and holds what the store held after one commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb_simulated::internal::backup::{restore, verify, BackupOptions, Watch};
use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::io::{Disk, FaultyDisk};
use tidesdb_simulated::{Error, Options};

use crate::disk::SwitchingDisk;
use crate::events::hit;
use crate::host;
use crate::random::Random;
use crate::world::{content_of, sleep_below, World};

/// One who takes backups.
pub struct Keeper<'a> {
    world: &'a World,
    faulty: FaultyDisk,
    disk: Arc<dyn Disk>,
    options: Options,
    random: Random,
    /// The last complete one.
    last: Option<PathBuf>,
}

impl<'a> Keeper<'a> {
    /// By a seed.
    pub fn new(world: &'a World, disk: &FaultyDisk, options: &Options, seed: u64) -> Keeper<'a> {
        Keeper {
            world,
            faulty: disk.clone(),
            disk: SwitchingDisk::over(disk, &world.faults),
            options: Options { compaction_threads: 0, ..options.clone() },
            random: Random::new(seed, 500),
            last: None,
        }
    }

    /// So many backups.
    pub fn work(&mut self, backups: u64) -> Result<(), String> {
        for number in 0..backups {
            sleep_below(&mut self.random, 20_000);
            self.backup(number).map_err(|what| format!("backup {number}: {what}"))?;
        }
        Ok(())
    }

    fn backup(&mut self, number: u64) -> Result<(), String> {
        let (world, to) = (self.world, PathBuf::from(format!("/backup{number}")));
        let told = |error: Error| error.to_string();
        let options = BackupOptions { links: self.random.one_in(3) };
        let mut backup = world.db.begin_backup(&to, options).map_err(told)?;
        if let Some(base) = self.last.clone().filter(|_| self.random.one_in(2)) {
            backup.set_base(&base).map_err(told)?;
            hit("backup that shares files with another");
        }
        sleep_below(&mut self.random, 3_000);
        let (least, before) = (world.history.last_answered(), world.history.owed(true).branches);
        let seq = match backup.take_point(Watch::NONE) {
            Err(error @ Error::BackpressureTimeout) => return self.world.met(&error),
            taken => taken.map_err(told)?,
        };
        let after = world.history.owed(true).branches;
        if seq < least {
            return Err(format!("its point is at {seq}, and {least} was answered before"));
        }
        sleep_below(&mut self.random, 8_000);
        if self.random.one_in(6) {
            let stopped = backup.finish(Watch { stop: &|| true, ..Watch::NONE });
            return match stopped {
                Err(Error::Interrupted) => self.is_gone(&to),
                other => Err(format!("it was stopped and says {other:?}")),
            };
        }
        let info = backup.finish(Watch::NONE).map_err(told)?;
        if info.seq != seq {
            return Err(format!("its point was at {seq}, and it says {}", info.seq));
        }
        hit("backup");
        self.last = Some(to.clone());
        let store = PathBuf::from(format!("/restored{number}"));
        verify(&self.disk, &to, Watch::NONE).map_err(told)?;
        restore(&self.disk, &to, &store, None, Watch::NONE).map_err(told)?;
        let db = Db::open_on(host::world(Arc::clone(&self.disk)), &store, self.options.clone(), None);
        let db = db.map_err(|error| format!("it does not open: {error}"))?;
        let listed = db.prepared();
        // What became of them is known at the run's end.
        world.history.listed_in_copy(seq, listed.clone(), before, after);
        let mut committed = Vec::new();
        for xid in listed {
            let commits = self.random.one_in(2);
            let decided = if commits { db.commit_by_xid(&xid) } else { db.rollback_by_xid(&xid) };
            match decided {
                Ok(true) if commits => committed.push(xid),
                Ok(true) => {}
                other => return Err(format!("a decision in it: {other:?}")),
            }
            hit("decision in a backup");
        }
        world.history.copied(seq, content_of(&db)?, committed);
        db.close().map_err(|error| format!("close: {error}"))?;
        hit("backup opened beside its store");
        Ok(())
    }

    /// What did not become whole leaves nothing.
    fn is_gone(&self, to: &Path) -> Result<(), String> {
        hit("backup stopped");
        match self.faulty.files().into_iter().find(|file| file.starts_with(to)) {
            None => Ok(()),
            Some(file) => Err(format!("it was stopped and left {}", file.display())),
        }
    }
}
