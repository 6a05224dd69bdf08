//! One run of a seed: a store on a faulty disk, clients, upkeep, and crashes whose disks are opened alongside.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::io::faulty::Crash;
use tidesdb_simulated::internal::io::FaultyDisk;
use tidesdb_simulated::internal::store::family::Family;
use tidesdb_simulated::simulation;
use tidesdb_simulated::{Compression, FamilyOptions, Options, SyncMode, TransactionOptions};

use crate::client::{read_rows, Client, World};
use crate::disk::SwitchingDisk;
use crate::events::{hit, hit_times};
use crate::history::{History, Owed};
use crate::host::world;
use crate::random::Random;

const DIR: &str = "/store";

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// What a seed decides before anything runs.
#[derive(Clone, Debug)]
pub struct Program {
    seed: u64,
    options: Options,
    family_options: FamilyOptions,
    families: usize,
    clients: usize,
    /// Of each client.
    transactions: u64,
    keys: u64,
    longest: u64,
    /// One switch in so many is taken.
    switch_one_in: u64,
    /// Clients sleep in transactions.
    sleepy: bool,
    crash: Option<Crash>,
}

impl Program {
    /// The program of a seed.
    pub fn new(seed: u64) -> Program {
        let mut random = Random::new(seed, 1);
        let sync_mode = random.pick(&[SyncMode::Full, SyncMode::Full, SyncMode::Interval, SyncMode::None]);
        let tiny = !random.one_in(4);
        let options = Options {
            write_buffer_size: if tiny { 16 << 10 } else { 256 << 10 },
            block_cache_size: random.pick(&[4 << 10, 64 << 10]),
            wal_segment_size: if tiny { 64 << 10 } else { 1 << 20 },
            target_file_size: random.pick(&[4 << 10, 64 << 10]),
            base_level_size: 16 << 10,
            max_open_files: random.pick(&[8, 64]),
            compaction_threads: random.pick(&[1, 2]),
            sync_mode,
            ..Options::default()
        };
        let family_options = FamilyOptions {
            compression: random.pick(&[Compression::None, Compression::Lz4]),
            block_size: random.pick(&[256, 4096]),
            l0_compaction_trigger: 2,
            l0_stall_threshold: random.pick(&[4, 64]),
            level_size_ratio: random.pick(&[2, 10]),
            ..FamilyOptions::default()
        };
        let crashes = [Crash::Kill, Crash::Drop, Crash::Keep, Crash::Tear, Crash::Reorder, Crash::Prefix];
        Program {
            seed,
            options,
            family_options,
            families: 1 + random.below(3) as usize,
            clients: 1 + random.below(4) as usize,
            transactions: 4 + random.below(12),
            keys: random.pick(&[4, 30, 300]),
            longest: random.pick(&[100, 2000, 20_000]),
            switch_one_in: random.pick(&[0, 2, 10, 50]),
            sleepy: random.one_in(10),
            crash: (!random.one_in(4)).then(|| random.pick(&crashes)),
        }
    }

    /// Runs it; what went wrong, and the steps that it took.
    pub fn run(&self) -> (Result<(), String>, u64) {
        let (program, wrong) = (self.clone(), Arc::new(Mutex::new(None)));
        let told = Arc::clone(&wrong);
        let ended = simulation::run(self.seed, self.switch_one_in, move || {
            if let Err(what) = program.life() {
                *told.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(what);
            }
        });
        let wrong = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        (wrong.or(ended.failure).map_or(Ok(()), Err), ended.steps)
    }

    fn open(&self, disk: &FaultyDisk) -> Result<Arc<Db>, String> {
        let world = world(SwitchingDisk::over(disk.shared()));
        Db::open_on(world, DIR, self.options.clone(), None)
            .map(Arc::new)
            .map_err(|error| format!("the store does not open: {error}"))
    }

    fn family(&self, db: &Db, number: usize) -> Result<Arc<Family>, String> {
        db.family(format!("f{number}").as_bytes()).map_err(|error| format!("family {number}: {error}"))
    }

    fn life(&self) -> Result<(), String> {
        let disk = FaultyDisk::new(self.seed);
        let db = self.open(&disk)?;
        for number in 0..self.families {
            db.create_family(format!("f{number}").as_bytes(), self.family_options.clone())
                .map_err(|error| format!("create: {error}"))?;
        }
        let history = Arc::new(History::default());
        let families = (0..self.families).map(|number| self.family(&db, number)).collect::<Result<_, _>>()?;
        let world = Arc::new(World {
            db: Arc::clone(&db),
            families,
            history: Arc::clone(&history),
            sync_mode: self.options.sync_mode,
            keys: self.keys,
            longest: self.longest,
            sleepy: self.sleepy,
        });
        let wrong = Arc::new(Mutex::new(None));
        let mut tasks = Vec::new();
        for number in 0..self.clients {
            let (world, wrong) = (Arc::clone(&world), Arc::clone(&wrong));
            let (seed, transactions) = (self.seed, self.transactions);
            tasks.push(simulation::spawn(&format!("client {number}"), move || {
                if let Err(what) = Client::new(&world, number, seed).work(transactions) {
                    wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(what);
                }
            }));
        }
        let upkeep = Arc::clone(&world);
        let seed = self.seed;
        tasks.push(simulation::spawn("upkeep", move || maintain(&upkeep, seed)));
        let mut random = Random::new(self.seed, 2);
        // The disk as a crash at some moment leaves it, and what was owed then. The life goes on alongside.
        let crashed = self.crash.map(|crash| {
            simulation::sleep(Duration::from_micros(random.below(40_000)));
            hit(name_of(crash));
            let owed = history.owed(crash == Crash::Kill);
            (disk.crash(crash), owed, crash)
        });
        tasks.into_iter().for_each(simulation::join);
        if let Some(what) = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            return Err(what);
        }
        history.check()?;
        self.compare(&db, &history, "at the end")?;
        for family in &world.families {
            db.compact(family).map_err(|error| format!("compaction at the end: {error}"))?;
            db.verify(family).map_err(|error| format!("verification at the end: {error}"))?;
        }
        self.compare(&db, &history, "after compaction")?;
        let stats = db.stats();
        hit_times("flush", stats.flush_count);
        hit_times("merge", stats.compaction_count);
        drop(world);
        close(db)?;
        let db = self.open(&disk)?;
        self.compare(&db, &history, "after a clean end")?;
        close(db)?;
        match crashed {
            Some((disk, owed, crash)) => self.after_crash(&disk, &owed, crash, &history),
            None => Ok(()),
        }
    }

    /// The rows are those of the history.
    fn compare(&self, db: &Arc<Db>, history: &History, when: &str) -> Result<(), String> {
        let found = self.rows(db)?;
        for (number, (expected, found)) in history.rows(self.families).iter().zip(&found).enumerate() {
            if expected != found {
                let key = expected.iter().zip(found).find(|(a, b)| a != b).map(|(a, b)| (&a.0, &b.0));
                return Err(format!(
                    "{when} family {number} has {} rows, must have {}; the first that differ: {key:?}",
                    found.len(),
                    expected.len()
                ));
            }
        }
        Ok(())
    }

    fn rows(&self, db: &Arc<Db>) -> Result<Vec<Rows>, String> {
        (0..self.families).map(|number| rows_of(db, &self.family(db, number)?)).collect()
    }

    fn after_crash(
        &self,
        disk: &FaultyDisk,
        owed: &Owed,
        crash: Crash,
        history: &History,
    ) -> Result<(), String> {
        let db = self.open(disk).map_err(|what| format!("after {}: {what}", name_of(crash)))?;
        for xid in db.prepared() {
            hit("prepared after a crash");
            // Its coordinator died before the decision: what is acknowledged as committed is decided.
            db.rollback_by_xid(&xid).map_err(|error| format!("decision after a crash: {error}"))?;
        }
        for number in 0..self.families {
            db.verify(&*self.family(&db, number)?)
                .map_err(|error| format!("verification after a crash: {error}"))?;
        }
        let rows = self.rows(&db)?;
        let place = history.place_of(&rows, owed).map_err(|what| format!("{}: {what}", name_of(crash)));
        history.cut(place?);
        close(db)
    }
}

/// Flushes and merges from time to time.
fn maintain(world: &World, seed: u64) {
    let mut random = Random::new(seed, 3);
    for _ in 0..random.below(8) {
        simulation::sleep(Duration::from_micros(random.below(10_000)));
        if random.one_in(3) {
            let family = random.below(world.families.len() as u64) as usize;
            if world.db.compact(&world.families[family]).is_ok() {
                hit("merge by hand");
            }
        } else if world.db.flush().is_ok() {
            hit("flush by hand");
        }
    }
}

fn close(db: Arc<Db>) -> Result<(), String> {
    let db = Arc::try_unwrap(db).map_err(|_| "somebody still has the store".to_string())?;
    db.close().map_err(|error| format!("close: {error}"))
}

fn rows_of(db: &Db, family: &Arc<Family>) -> Result<Rows, String> {
    let read = || {
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default())?;
        txn.statement_begin(false, Duration::ZERO)?;
        let rows = read_rows(db, &mut txn, family, &[])?;
        txn.rollback()?;
        Ok(rows)
    };
    read().map_err(|error: tidesdb_simulated::Error| format!("scan of all: {error}"))
}

fn name_of(crash: Crash) -> &'static str {
    match crash {
        Crash::Kill => "crash: kill",
        Crash::Drop => "crash: drop",
        Crash::Keep => "crash: keep",
        Crash::Tear => "crash: tear",
        Crash::Reorder => "crash: reorder",
        Crash::Prefix => "crash: prefix",
    }
}
