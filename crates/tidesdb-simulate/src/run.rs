//! One run of a seed: a store on a faulty disk, clients, upkeep, and crashes whose disks are opened alongside.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::io::faulty::Crash;
use tidesdb_simulated::internal::io::FaultyDisk;
use tidesdb_simulated::internal::store::family::Family;
use tidesdb_simulated::simulation;
use tidesdb_simulated::{
    Compression, Error, FamilyOptions, FormatVersion, Options, SyncMode, TransactionOptions,
};

use crate::client::{read_rows, Client, Rows, World, MOST_STATEMENTS};
use crate::cut::{shrink, Cut, Part};
use crate::disk::SwitchingDisk;
use crate::events::{self, hit, hit_times};
use crate::faults::{Faults, Mood};
use crate::formats::{self, Formats};
use crate::history::{History, Owed};
use crate::host::world;
use crate::random::Random;
use crate::recovery;

/// The store's directory.
pub const DIR: &str = "/store";

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
    formats: Formats,
    /// Transactions of each client before the store is closed and moves to version 2 of its formats.
    before_move: u64,
    /// What the disk does while clients work, and how often.
    mood: Mood,
    most_faults: u64,
    /// Left out.
    cut: Cut,
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
            wal_segment_size: if tiny { random.pick(&[4 << 10, 16 << 10, 64 << 10]) } else { 1 << 20 },
            target_file_size: random.pick(&[4 << 10, 64 << 10]),
            base_level_size: 16 << 10,
            max_open_files: random.pick(&[8, 64]),
            compaction_threads: random.pick(&[1, 2]),
            deleted_run: random.pick(&[2, 8, 100]),
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
        let (families, clients) = (1 + random.below(3) as usize, 1 + random.below(4) as usize);
        let transactions = 4 + random.below(12);
        let mut of_formats = Random::new(seed, 7);
        Program {
            seed,
            formats: Formats::of(&mut of_formats),
            before_move: of_formats.below(transactions + 1),
            options,
            family_options,
            families,
            clients,
            transactions,
            keys: random.pick(&[4, 30, 300]),
            longest: random.pick(&[100, 2000, 20_000]),
            switch_one_in: random.pick(&[0, 2, 10, 50]),
            sleepy: random.one_in(10),
            crash: (!random.one_in(4)).then(|| random.pick(&crashes)),
            mood: Mood::of(&mut random),
            most_faults: random.pick(&[1, 3, 30]),
            cut: Cut::default(),
        }
    }

    /// Without parts of it.
    pub fn without(&self, cut: Cut) -> Program {
        Program { cut, ..self.clone() }
    }

    /// The most of it that can be left out so that it still fails, and what then goes wrong.
    pub fn shrink(&self, what: String) -> (Cut, String) {
        let sizes = (self.clients as u64, self.transactions, MOST_STATEMENTS);
        shrink(sizes, what, |cut| self.without(cut.clone()).run().0.err())
    }

    /// Runs it; what went wrong, and the steps that it took.
    pub fn run(&self) -> (Result<(), String>, u64) {
        let (program, wrong) = (self.clone(), Arc::new(Mutex::new(None)));
        let told = Arc::clone(&wrong);
        let switches = if self.cut.has(Part::Switches) { 0 } else { self.switch_one_in };
        let ended = simulation::run(self.seed, switches, move || {
            if let Err(what) = program.life() {
                *told.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(what);
            }
        });
        simulation::take_notes().into_iter().for_each(|(kind, times)| events::told(kind, times));
        let wrong = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        (wrong.or(ended.failure).map_or(Ok(()), Err), ended.steps)
    }

    fn formats(&self) -> Formats {
        if self.cut.has(Part::Formats) {
            Formats::One
        } else {
            self.formats
        }
    }

    fn open_with(
        &self,
        disk: &FaultyDisk,
        faults: &Arc<Faults>,
        least_format: FormatVersion,
    ) -> Result<Arc<Db>, Error> {
        let world = world(SwitchingDisk::over(disk, faults));
        Db::open_on(world, DIR, Options { least_format, ..self.options.clone() }, None).map(Arc::new)
    }

    /// Not the first opening.
    fn open(&self, disk: &FaultyDisk) -> Result<Arc<Db>, String> {
        let opened = self.open_with(disk, &Arc::new(Faults::none()), self.formats().later());
        let db = opened.map_err(|error| format!("the store does not open: {error}"))?;
        self.check_formats(disk)?;
        Ok(db)
    }

    /// The store is in the version that its openings have asked for, and stays in it.
    fn check_formats(&self, disk: &FaultyDisk) -> Result<(), String> {
        let (found, expected) = (formats::check(disk, Path::new(DIR))?, self.formats().reached().number());
        match found == expected {
            true => Ok(()),
            false => Err(format!("the store's formats have version {found}, must have {expected}")),
        }
    }

    fn family(&self, db: &Db, number: usize) -> Result<Arc<Family>, String> {
        db.family(format!("f{number}").as_bytes()).map_err(|error| format!("family {number}: {error}"))
    }

    fn life(&self) -> Result<(), String> {
        let disk = FaultyDisk::new(self.seed);
        let faults = Arc::new(Faults::new(self.mood, self.seed));
        let opened = self.open_with(&disk, &faults, self.formats().first());
        let db = opened.map_err(|error| format!("a new store does not open: {error}"))?;
        for number in 0..self.families {
            db.create_family(format!("f{number}").as_bytes(), self.family_options.clone())
                .map_err(|error| format!("create: {error}"))?;
        }
        let history = Arc::new(History::default());
        let mut world = self.world(db, &faults, &history)?;
        self.allow(&faults);
        let crashed = self.plan_crash(&disk, &faults, &history);
        let moves = self.formats() == Formats::Move;
        if self.formats() == Formats::Two {
            hit("format 2 from the begin");
        }
        let until = if moves { self.before_move } else { self.transactions };
        if until > 0 {
            self.work(&world, &disk, 0..until)?;
        }
        if until < self.transactions {
            world = self.move_formats(world, &disk, &faults)?;
            self.work(&world, &disk, until..self.transactions)?;
        }
        faults.end_now();
        let crashed = crashed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        disk.heal();
        history.check()?;
        let db = Arc::clone(&world.db);
        if faults.were_told() && db.flush_log().is_err() {
            drop(world);
            self.after_failure(db, &disk, &history)?;
            return crashed.map_or(Ok(()), |crashed| self.after_crash(crashed, &history));
        }
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
        self.check_formats(&disk)?;
        if formats::damage(&disk, &mut Random::new(self.seed, 8))? {
            hit("flipped bit");
        }
        crashed.map_or(Ok(()), |crashed| self.after_crash(crashed, &history))
    }

    fn world(&self, db: Arc<Db>, faults: &Arc<Faults>, history: &Arc<History>) -> Result<Arc<World>, String> {
        let families = (0..self.families).map(|number| self.family(&db, number)).collect::<Result<_, _>>()?;
        Ok(Arc::new(World {
            db,
            families,
            history: Arc::clone(history),
            sync_mode: self.options.sync_mode,
            keys: self.keys,
            longest: self.longest,
            sleepy: self.sleepy,
            faults: Arc::clone(faults),
            cut: self.cut.clone(),
        }))
    }

    fn allow(&self, faults: &Faults) {
        faults.allow(if self.cut.has(Part::Faults) { 0 } else { self.most_faults });
    }

    /// The clients' transactions with these numbers, and upkeep alongside.
    fn work(&self, world: &Arc<World>, disk: &FaultyDisk, transactions: Range<u64>) -> Result<(), String> {
        let wrong = Arc::new(Mutex::new(None));
        let mut tasks = Vec::new();
        for number in (0..self.clients).filter(|number| !self.cut.has(Part::Client(*number as u64))) {
            let (world, wrong) = (Arc::clone(world), Arc::clone(&wrong));
            let (seed, transactions) = (self.seed, transactions.clone());
            tasks.push(simulation::spawn(&format!("client {number}"), move || {
                if let Err(what) = Client::new(&world, number, seed).work(transactions) {
                    wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(what);
                }
            }));
        }
        let seed = self.seed;
        if !self.cut.has(Part::Upkeep) {
            let upkeep = Arc::clone(world);
            tasks.push(simulation::spawn("upkeep", move || maintain(&upkeep, seed)));
        }
        let fills = matches!(self.mood, Mood::Full(None)) && !self.cut.has(Part::Faults);
        if fills && transactions.start == 0 {
            let (disk, faults) = (disk.clone(), Arc::clone(&world.faults));
            tasks.push(simulation::spawn("filler", move || fill(&disk, &faults, seed)));
        }
        tasks.into_iter().for_each(simulation::join);
        let wrong = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        wrong.map_or(Ok(()), Err)
    }

    /// Closes the store and opens it in version 2 of its formats. A store that met a fault may not close: it stays.
    fn move_formats(
        &self,
        world: Arc<World>,
        disk: &FaultyDisk,
        faults: &Arc<Faults>,
    ) -> Result<Arc<World>, String> {
        if faults.were_told() {
            return Ok(world);
        }
        faults.allow(0);
        let world = Arc::try_unwrap(world).map_err(|_| "somebody still has the world".to_string())?;
        let World { db, families, history, .. } = world;
        drop(families);
        close(db)?;
        let opened = self.open_with(disk, faults, FormatVersion::Two);
        let db = opened.map_err(|error| format!("the store does not move: {error}"))?;
        self.check_formats(disk)?;
        hit("move between transactions");
        self.allow(faults);
        self.world(db, faults, &history)
    }

    /// Before some call to the disk: the disk as a crash leaves it, and what is owed then. The life goes on alongside.
    fn plan_crash(
        &self,
        disk: &FaultyDisk,
        faults: &Arc<Faults>,
        history: &Arc<History>,
    ) -> Arc<Mutex<Option<Crashed>>> {
        let crashed = Arc::new(Mutex::new(None));
        let Some(crash) = self.crash.filter(|_| !self.cut.has(Part::Crash)) else { return crashed };
        let mut random = Random::new(self.seed, 2);
        let most = 1 << (2 + random.below(11));
        let (disk, told, history, left) =
            (disk.clone(), Arc::clone(faults), Arc::clone(history), Arc::clone(&crashed));
        faults.after_calls(random.below(most), move || {
            hit(name_of(crash));
            let owed = history.owed(crash == Crash::Kill);
            let disk = disk.crash(crash);
            disk.set_capacity(None);
            let crashed = Crashed { disk, owed, crash, lied: told.lied() };
            *left.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(crashed);
        });
        crashed
    }

    /// The log failed: the store shows all that it answered, and so does the next one in its place.
    fn after_failure(&self, db: Arc<Db>, disk: &FaultyDisk, history: &History) -> Result<(), String> {
        hit("log failed");
        let owed = history.owed(true);
        let told = |what: String| format!("after a failure of the log: {what}");
        history.place_of(&self.rows(&db)?, &owed).map_err(told)?;
        // It says that it was none.
        drop(close(db));
        let db = self.open(&disk.crash(Crash::Kill)).map_err(told)?;
        self.decide(&db)?;
        history.place_of(&self.rows(&db)?, &owed).map_err(told)?;
        close(db)
    }

    /// Coordinators died before they decided: what is acknowledged as committed is decided.
    fn decide(&self, db: &Db) -> Result<(), String> {
        for xid in db.prepared() {
            hit("prepared after a crash");
            db.rollback_by_xid(&xid).map_err(|error| format!("decision after a crash: {error}"))?;
        }
        Ok(())
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

    fn after_crash(&self, crashed: Crashed, history: &History) -> Result<(), String> {
        let Crashed { disk, owed, crash, lied } = crashed;
        let told = |what: String| format!("after {}: {what}", name_of(crash));
        if lied && crash != Crash::Kill {
            return self.after_lie(&disk, history).map_err(told);
        }
        let mut random = Random::new(self.seed, 5);
        let least = self.formats().later();
        let open = |disk: &FaultyDisk, faults: &Arc<Faults>| self.open_with(disk, faults, least);
        let (disk, db) = recovery::open(crash, disk, &mut random, &open).map_err(told)?;
        self.check_formats(&disk).map_err(told)?;
        self.decide(&db).map_err(told)?;
        for number in 0..self.families {
            db.verify(&*self.family(&db, number)?).map_err(|error| told(format!("verification: {error}")))?;
        }
        let rows = self.rows(&db)?;
        let place = history.place_of(&rows, &owed).map_err(told)?;
        if !lied {
            // What an opening has found is durable.
            let again = self.open(&disk.crash(Crash::Drop)).map_err(told)?;
            if self.rows(&again)? != rows {
                return Err(told("a power cut after the opening changed rows".into()));
            }
            close(again)?;
        }
        history.cut(place);
        close(db)
    }

    /// A sync that did nothing and a power cut: the store is what it was after some commit, or says what is wrong.
    fn after_lie(&self, disk: &FaultyDisk, history: &History) -> Result<(), String> {
        let noticed = |_: String| hit("lie noticed");
        let Ok(db) = self.open(disk).map_err(noticed) else { return Ok(()) };
        let rows = self.decide(&db).and_then(|()| self.rows(&db)).map_err(noticed);
        if let Ok(rows) = rows {
            history.place_of(&rows, &Owed::default()).map_err(|what| format!("a sync lied: {what}"))?;
            hit("lie without consequence");
        }
        drop(close(db));
        Ok(())
    }
}

/// A disk as a crash left it, and what is owed on it.
struct Crashed {
    disk: FaultyDisk,
    owed: Owed,
    crash: Crash,
    /// A sync had done nothing: a power cut takes anything.
    lied: bool,
}

/// The disk has room for a little more, and then for nothing, for a while.
fn fill(disk: &FaultyDisk, faults: &Faults, seed: u64) {
    let mut random = Random::new(seed, 6);
    simulation::sleep(Duration::from_micros(random.below(20_000)));
    hit("disk fills up");
    faults.note_full();
    disk.set_capacity(Some(disk.used() + random.below(20_000)));
    simulation::sleep(Duration::from_micros(random.below(200_000)));
    disk.set_capacity(None);
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
