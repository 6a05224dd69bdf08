//! One run of a program: a store on a faulty disk, clients, other workers alongside them, and a crash. The disk of the
//! crash is opened after the life has gone on alongside.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::io::faulty::{Crash, Op};
use tidesdb_simulated::internal::io::FaultyDisk;
use tidesdb_simulated::internal::lock::WaitObserver;
use tidesdb_simulated::{simulation, Error, FormatVersion, Options, SyncMode};

use crate::appliers::BruteForce;
use crate::area::Area;
use crate::backups::Keeper;
use crate::branches::Branches;
use crate::client::Client;
use crate::closing::{close, settle, Promises};
use crate::coordinator::{check_locks, decide_some};
use crate::cut::Part;
use crate::ddl::{change, Changer};
use crate::disk::{SwitchingDisk, DIR};
use crate::events::{self, hit};
use crate::faults::{Faults, Mood, Occasion};
use crate::formats::{self, Formats};
use crate::history::{History, Owed};
use crate::load::Loader;
use crate::owner::{self, Memory};
use crate::positions::{self, Positions};
use crate::program::{Leaning, Program};
use crate::random::Random;
use crate::work::{Amount, Work};
use crate::world::{content_of, sleep_below, CertainMode, Views, World};
use crate::{appliers, clocks, coordinator, host, options, recovery, watcher};

/// The first failure.
type Wrong = Arc<Mutex<Option<String>>>;

/// The disk after a crash, and the content owed on it.
struct Crashed {
    disk: FaultyDisk,
    owed: Owed,
    /// The prepared transactions a moment later: some had begun meanwhile.
    begun: Branches,
    /// The knowledge of the store's owner.
    memory: Memory,
    crash: Crash,
    /// A sync had no effect: a power cut takes anything.
    lied: bool,
}

fn note(wrong: &Wrong, done: Result<(), String>) {
    if let Err(what) = done {
        wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }
}

/// The coroutines of a life, alongside each other.
struct Crew {
    world: Arc<World>,
    wrong: Wrong,
    tasks: Vec<simulation::TaskId>,
}

impl Crew {
    fn add(&mut self, name: &str, work: impl FnOnce(&World) -> Result<(), String> + Send + 'static) {
        let (world, wrong) = (Arc::clone(&self.world), Arc::clone(&self.wrong));
        self.tasks.push(simulation::spawn(name, move || note(&wrong, work(&world))));
    }
}

impl Program {
    /// Runs it; returns the failure and the number of steps.
    pub fn run(&self) -> (Result<(), String>, u64) {
        host::right_wall();
        let (memory, brute_force) = (Memory::default(), Arc::<BruteForce>::default());
        let (program, wrong) = (Program { memory, brute_force, ..self.clone() }, Wrong::default());
        let told = Arc::clone(&wrong);
        let switches = if self.cut.has(Part::Switches) { 0 } else { self.switch_one_in };
        let ended = simulation::run(self.seed, switches, move || note(&told, program.life()));
        for (kind, times) in simulation::take_notes() {
            match events::NEVER.contains(&kind) {
                true => note(&wrong, Err(format!("the engine tells of \"{kind}\", {times} times"))),
                false => events::told(kind, times),
            }
        }
        let wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner).take();
        (wrong.or(ended.failure).map_or(Ok(()), Err), ended.steps)
    }

    fn open_with(
        &self,
        disk: &FaultyDisk,
        faults: &Arc<Faults>,
        least_format: FormatVersion,
    ) -> Result<Arc<Db>, Error> {
        let world = host::world(SwitchingDisk::over(disk, faults));
        let options = Options { least_format, ..self.options.clone() };
        let observer = self.is_forced().then(|| Arc::clone(&self.brute_force) as Arc<dyn WaitObserver>);
        let options = if self.owned { self.memory.given_to(options) } else { options };
        let db = Arc::new(Db::open_on(world, DIR, options, observer)?);
        if self.owned {
            self.memory.note(&db);
        }
        self.brute_force.serves(&db);
        Ok(db)
    }

    /// Not the first opening.
    fn open(&self, disk: &FaultyDisk) -> Result<Arc<Db>, String> {
        let asked = formats::asks_for_two(disk, Path::new(DIR))?;
        let opened = self.open_with(disk, &Arc::new(Faults::none()), self.formats().later());
        let db = opened.map_err(|error| format!("the store does not open: {error}"))?;
        self.check_formats(disk)?;
        match asked && db.format() != FormatVersion::Two {
            true => Err("the store has asked for version 2 of its formats, and is not in it".into()),
            false => Ok(db),
        }
    }

    /// The store is in the version asked for by its openings, or by a family with a threshold, and stays in it.
    fn check_formats(&self, disk: &FaultyDisk) -> Result<(), String> {
        let (found, expected) = (formats::check(disk, Path::new(DIR))?, self.formats().reached().number());
        if found == expected || (found == 2 && formats::asks_for_two(disk, Path::new(DIR))?) {
            return Ok(());
        }
        Err(format!("the store's formats have version {found}, must have {expected}"))
    }

    fn life(&self) -> Result<(), String> {
        let disk = FaultyDisk::new(self.seed);
        let mut of_disk = Random::new(self.seed, 500);
        if of_disk.one_in(5) {
            hit("disk without direct reads");
            disk.refuse_direct(true);
        } else if of_disk.one_in(2) {
            hit("disk with large sectors");
            disk.set_sector(4096);
        }
        let faults = Arc::new(Faults::new(self.mood, self.seed));
        let opened = self.open_with(&disk, &faults, self.formats().first());
        let db = opened.map_err(|error| format!("a new store does not open: {error}"))?;
        let mut world = self.world(db, &faults, Arc::default());
        for (number, options) in self.family_options.iter().enumerate() {
            let name = format!("f{number}").into_bytes();
            let made = change(&world, |ddl| ddl.create(&name, options.clone(), &[]));
            made.map_err(|error| format!("create: {error}"))?;
        }
        self.allow(&faults);
        let crashed = self.plan_crash(&disk, &world);
        if self.formats() == Formats::Two {
            hit("format 2 from the begin");
        }
        let moves = self.formats() == Formats::Move;
        let until = if moves { self.before_move } else { self.transactions };
        if until > 0 {
            self.work(&world, &disk, 0..until)?;
        }
        if until < self.transactions {
            world = self.move_formats(world, &disk)?;
            self.work(&world, &disk, until..self.transactions)?;
        }
        faults.end_now();
        let crashed = crashed.lock().unwrap_or_else(PoisonError::into_inner).take();
        disk.heal();
        let World { db, history, .. } = Arc::try_unwrap(world).map_err(|_| "somebody has the world")?;
        history.check()?;
        match faults.were_told() && db.flush_log().is_err() {
            true => self.after_failure(db, &disk, &history)?,
            false => self.end(db, &disk, &history)?,
        }
        crashed.map_or(Ok(()), |crashed| self.after_crash(crashed, &history))
    }

    fn world(&self, db: Arc<Db>, faults: &Arc<Faults>, history: Arc<History>) -> Arc<World> {
        Arc::new(World {
            db,
            history,
            mode: CertainMode::new(self.options.sync_mode),
            program: self.clone(),
            in_vain: self.waits_in_vain(),
            faults: Arc::clone(faults),
            views: Views::default(),
            positions: Positions::default(),
        })
    }

    fn allow(&self, faults: &Faults) {
        faults.allow(if self.cut.has(Part::Faults) { 0 } else { self.most_faults });
    }

    /// Closes the store and opens it in version 2 of its formats. After a fault the store may not close: it stays.
    fn move_formats(&self, world: Arc<World>, disk: &FaultyDisk) -> Result<Arc<World>, String> {
        if world.faults.were_told() {
            return Ok(world);
        }
        let World { db, history, faults, .. } =
            Arc::try_unwrap(world).map_err(|_| "somebody has the world")?;
        faults.allow(0);
        Arc::into_inner(db).map_or(Ok(()), Db::close).map_err(|error| format!("close: {error}"))?;
        let opened = self.open_with(disk, &faults, FormatVersion::Two);
        let db = opened.map_err(|error| format!("the store does not move: {error}"))?;
        self.check_formats(disk)?;
        hit("move between transactions");
        self.allow(&faults);
        Ok(self.world(db, &faults, history))
    }

    /// The clients' transactions with these numbers and, alongside the first, all other work; to the end.
    fn work(&self, world: &Arc<World>, disk: &FaultyDisk, numbers: Range<u64>) -> Result<(), String> {
        let mut crew = Crew { world: Arc::clone(world), wrong: Wrong::default(), tasks: Vec::new() };
        let (seed, upkeep, begins) = (self.seed, self.upkeep, numbers.start == 0);
        for number in (0..self.clients).filter(|number| !self.cut.has(Part::Client(*number as u64))) {
            let numbers = numbers.clone();
            crew.add(&format!("client {number}"), move |world| {
                Client::new(world, number, seed).work(numbers)
            });
        }
        if !self.cut.has(Part::Upkeep) {
            crew.add("upkeep", move |world| maintain(world, seed, upkeep));
        }
        if begins && matches!(self.mood, Mood::Full(None)) && !self.cut.has(Part::Faults) {
            let disk = disk.clone();
            crew.add("filler", move |world| fill(&disk, &world.faults, seed));
        }
        if self.positions && self.formats() != Formats::One && !self.cut.has(Part::Upkeep) {
            crew.add("positions", move |world| positions::work(world, seed, 1 + seed % 4));
        }
        for work in Work::ALL.into_iter().filter(|_| begins) {
            let Amount { workers, rounds } = self.amount(work);
            for number in 0..workers {
                let (disk, options) = (disk.clone(), self.options.clone());
                crew.add(work.name(), move |world| match work {
                    Work::Changes => Changer::new(world, seed, number).work(rounds),
                    Work::Loads => Loader::new(world, seed).work(rounds),
                    Work::Backups => Keeper::new(world, &disk, &options, seed).work(rounds),
                    Work::Watchers => watcher::work(world, seed, number, rounds),
                    Work::Settings => options::set(world, seed, rounds),
                    Work::Clocks => clocks::work(world, seed, rounds),
                    Work::Decisions => coordinator::work(world, seed, rounds),
                    Work::Appliers => appliers::work(world, seed, number, rounds),
                });
            }
        }
        crew.tasks.into_iter().for_each(simulation::join);
        let wrong = crew.wrong.lock().unwrap_or_else(PoisonError::into_inner).take();
        wrong.map_or(Ok(()), Err)
    }

    /// Before some call to the disk, or after an answer: the disk after a crash there, and the content owed on it. The
    /// life goes on alongside.
    fn plan_crash(&self, disk: &FaultyDisk, world: &Arc<World>) -> Arc<Mutex<Option<Crashed>>> {
        let crashed = Arc::new(Mutex::new(None));
        let Some(crash) = self.crash.filter(|_| !self.cut.has(Part::Crash)) else { return crashed };
        let mut random = Random::new(self.seed, 2);
        let (occasion, most) = match random.below(7) {
            // The shortest time between an answer and the loss of what it rests on.
            0 | 1 => (Occasion::Answer, 1 << random.below(7)),
            // Before or amid what makes an edit count.
            2 => {
                (Occasion::CallOf(random.pick(&[Op::Write, Op::Sync]), Area::Manifest), 1 << random.below(6))
            }
            3 => (Occasion::Halfway, 1 << random.below(8)),
            _ => (Occasion::Call, 1 << (2 + random.below(11))),
        };
        let (disk, told, left) = (disk.clone(), Arc::clone(&world.faults), Arc::clone(&crashed));
        let (history, memory) = (Arc::clone(&world.history), self.memory.clone());
        world.faults.after(occasion, random.below(most), move || {
            hit(name_of(crash));
            let (owed, memory) = (history.owed(crash == Crash::Kill), memory.of_copy());
            let disk = disk.crash(crash);
            // Others may have gone on between the two.
            let begun = history.owed(true).branches;
            disk.set_capacity(None);
            let crashed = Crashed { disk, owed, begun, memory, crash, lied: told.lied() };
            *left.lock().unwrap_or_else(PoisonError::into_inner) = Some(crashed);
        });
        crashed
    }

    /// The log failed: the store shows all answered commits, and the next one in its place has everything shown.
    fn after_failure(&self, db: Arc<Db>, disk: &FaultyDisk, history: &History) -> Result<(), String> {
        hit("log failed");
        let owed = history.owed(true);
        let told = |what: String| format!("after a failure of the log: {what}");
        let told_open = |what: String| format!("while the store is open after a failure of the log: {what}");
        let (shown, _) = history.place_of_shown(&content_of(&db)?, &owed).map_err(told_open)?;
        // It says that it was none.
        drop(Arc::into_inner(db).map(Db::close));
        let crash = self.crash_after_failure();
        let db = self.open(&disk.crash(crash)).map_err(told)?;
        let listed = db.prepared();
        let places = history.place_of(&content_of(&db)?, &owed).map_err(told)?;
        if places.1 < shown {
            let (last, how) = (places.1, name_of(crash));
            return Err(told(format!(
                "it showed commit {shown}, and after {how} those up to {last} are there"
            )));
        }
        history.branches(|all| all.check(&listed, places, &owed.branches, &owed.branches)).map_err(told)?;
        for xid in listed {
            db.rollback_by_xid(&xid).map_err(|error| told(format!("decision: {error}")))?;
        }
        history.place_of(&content_of(&db)?, &owed).map_err(told)?;
        Arc::into_inner(db).map_or(Ok(()), Db::close).map_err(|error| told(format!("close: {error}")))
    }

    /// The content shown after a failure of the log is durable in FULL; in other modes it is written.
    fn crash_after_failure(&self) -> Crash {
        let is_full = self.options.sync_mode == SyncMode::Full && self.amount(Work::Settings).workers == 0;
        let mut random = Random::new(self.seed, 10);
        if !is_full || random.one_in(4) {
            return Crash::Kill;
        }
        hit("power cut after a failure of the log");
        random.pick(&[Crash::Drop, Crash::Keep, Crash::Tear, Crash::Reorder, Crash::Prefix])
    }

    /// The end of a life; the remaining prepared transactions are decided in the next, after a restart.
    fn end(&self, db: Arc<Db>, disk: &FaultyDisk, history: &History) -> Result<(), String> {
        let mut random = Random::new(self.seed, 4);
        // After faults: what keeps the flushes back is over.
        db.flush().map_err(|error| format!("flush at the end of all work: {error}"))?;
        check_listed(&db, history)?;
        let one_in = random.pick(&[1, 1, 2]);
        let left = decide_some(&db, history, &mut random, one_in)?;
        settle(&db, history, self.promises(self.mood == Mood::Sound))?;
        if self.expiring && !self.cut.has(Part::Beside(Work::Clocks)) {
            clocks::lag(&db, self.seed);
        }
        let second = history.has_expiring().then(|| db.expiry_second());
        close(db, disk, DIR, left.is_empty(), self.mood == Mood::Sound)?;
        if random.one_in(6) {
            self.read_only(disk, history).map_err(|what| format!("opened for reading only: {what}"))?;
        }
        let db = self.open(disk)?;
        if second.is_some_and(|second| db.expiry_second() < second) {
            return Err(format!("after a clean end it is {}, and was {second:?}", db.expiry_second()));
        }
        let compared = content_of(&db).and_then(|content| history.compare(&content));
        compared.map_err(|what| format!("after a clean end: {what}"))?;
        self.restarted(db, disk, history, &mut random)?;
        self.check_formats(disk)?;
        if formats::damage(disk, &mut Random::new(self.seed, 8))? {
            hit("flipped bit");
        }
        Ok(())
    }

    /// A copy from before the last opening belongs to nobody any more.
    fn check_refused(&self, disk: &FaultyDisk) -> Result<(), String> {
        let open = |program: &Program| {
            let opened =
                program.open_with(&disk.crash(Crash::Kill), &Arc::new(Faults::none()), FormatVersion::One);
            opened.map(drop)
        };
        let to_another = Program { options: owner::another(&self.options), owned: false, ..self.clone() };
        for (program, event) in [(self, "older copy refused"), (&to_another, "another's store refused")] {
            match open(program) {
                Err(Error::Busy(_)) => hit(event),
                other => return Err(format!("{event}: {other:?}")),
            }
        }
        Ok(())
    }

    fn promises(&self, sound: bool) -> Promises {
        Promises { counted: self.counted, expiring: self.expiring, sound }
    }

    /// The store opened for reading alone.
    fn read_only(&self, disk: &FaultyDisk, history: &History) -> Result<(), String> {
        hit("opened for reading only");
        let options = Options { read_only: true, ..self.options.clone() };
        let options = if self.owned { self.memory.given_to(options) } else { options };
        let world = host::world(SwitchingDisk::over(disk, &Arc::new(Faults::none())));
        let db = Db::open_on(world, DIR, options, None).map_err(|error| error.to_string())?;
        check_listed(&db, history)?;
        history.compare(&content_of(&db)?)?;
        db.close().map_err(|error| error.to_string())
    }

    /// A reopened store: the prepared transactions are unchanged, hold their locks, and can be decided.
    fn restarted(
        &self,
        db: Arc<Db>,
        disk: &FaultyDisk,
        history: &History,
        random: &mut Random,
    ) -> Result<(), String> {
        check_listed(&db, history)?;
        check_locks(&db, history)?;
        decide_some(&db, history, random, 1)?;
        let compared = content_of(&db).and_then(|content| history.compare(&content));
        compared.map_err(|what| format!("after a restart and decisions: {what}"))?;
        close(db, disk, DIR, true, true)
    }

    fn after_crash(&self, crashed: Crashed, history: &History) -> Result<(), String> {
        let told = |what: String| format!("after {}: {what}", name_of(crashed.crash));
        // What a lie left is no store for sure.
        if self.owned && !crashed.lied {
            self.check_refused(&crashed.disk).map_err(told)?;
        }
        let of_copy = Program { memory: crashed.memory.clone(), ..self.clone() };
        match crashed.lied && crashed.crash != Crash::Kill {
            true => of_copy.after_lie(&crashed.disk, history).map_err(told),
            false => of_copy.go_on(crashed, history),
        }
    }

    /// The program on a copy of the store: the owner does not remember its work there.
    fn of_copy(&self) -> Program {
        Program { memory: self.memory.of_copy(), ..self.clone() }
    }

    /// The store goes on from the disk of a crash.
    fn go_on(&self, crashed: Crashed, history: &History) -> Result<(), String> {
        let Crashed { disk, owed, begun, crash, lied, .. } = crashed;
        let told = |what: String| format!("after {}: {what}", name_of(crash));
        let mut random = Random::new(self.seed, 5);
        if self.owned && random.one_in(4) {
            self.memory.forget();
        }
        let least = self.formats().later();
        let open = |disk: &FaultyDisk, faults: &Arc<Faults>| self.open_with(disk, faults, least);
        let open_copy =
            |disk: &FaultyDisk, faults: &Arc<Faults>| self.of_copy().open_with(disk, faults, least);
        let (disk, db) = recovery::open(crash, disk, &mut random, &open, &open_copy).map_err(told)?;
        self.check_formats(&disk).map_err(told)?;
        for info in db.families() {
            db.verify(&info.family).map_err(|error| told(format!("verification: {error}")))?;
        }
        let listed = db.prepared();
        listed.iter().for_each(|_| hit("prepared after a crash"));
        let places = history.place_of(&content_of(&db)?, &owed).map_err(told)?;
        history.branches(|all| all.check(&listed, places, &owed.branches, &begun)).map_err(told)?;
        history.cut(places.0);
        history.branches(|all| all.keep(&listed));
        if !lied && random.one_in(2) {
            // What an opening has found is durable.
            let again = self.of_copy().open(&disk.crash(Crash::Drop)).map_err(told)?;
            let compared = check_listed(&again, history)
                .and_then(|()| content_of(&again))
                .and_then(|content| history.compare(&content));
            compared.map_err(|what| told(format!("after a power cut after the opening: {what}")))?;
            Arc::into_inner(again)
                .map_or(Ok(()), Db::close)
                .map_err(|error| told(format!("close: {error}")))?;
        }
        if listed.is_empty() && !random.one_in(3) {
            return close(db, &disk, DIR, false, true).map_err(told);
        }
        let left = decide_some(&db, history, &mut random, 2).map_err(told)?;
        check_locks(&db, history).map_err(told)?;
        if left.is_empty() || random.one_in(2) {
            settle(&db, history, self.promises(true)).map_err(told)?;
        }
        close(db, &disk, DIR, left.is_empty(), true).map_err(told)?;
        let db = self.open(&disk).map_err(told)?;
        self.restarted(db, &disk, history, &mut random).map_err(told)
    }

    /// A sync without effect and a power cut: the store has the state after some commit, or names its damage.
    fn after_lie(&self, disk: &FaultyDisk, history: &History) -> Result<(), String> {
        let noticed = |_: String| hit("lie noticed");
        let Ok(db) = self.open(disk).map_err(noticed) else { return Ok(()) };
        // A damaged dictionary says so of a family that it does not have.
        let content = match db.family(b"none") {
            Err(error @ Error::Corruption { .. }) => Err(error.to_string()),
            _ => {
                let decided = db.prepared().iter().try_for_each(|xid| db.rollback_by_xid(xid).map(drop));
                decided.map_err(|error| error.to_string()).and_then(|()| content_of(&db))
            }
        };
        let content = content.map_err(noticed);
        if let Ok(content) = content {
            history.place_of(&content, &Owed::default()).map_err(|what| format!("a sync lied: {what}"))?;
            hit("lie without consequence");
        }
        drop(Arc::into_inner(db).map(Db::close));
        Ok(())
    }
}

/// The disk has room for a little more, and then for nothing, for a while.
fn fill(disk: &FaultyDisk, faults: &Faults, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed, 6);
    sleep_below(&mut random, 20_000);
    hit("disk fills up");
    faults.note_full();
    disk.set_capacity(Some(disk.used() + random.below(20_000)));
    sleep_below(&mut random, 200_000);
    disk.set_capacity(None);
    Ok(())
}

/// The store lists the undecided prepared transactions, and no others.
fn check_listed(db: &Db, history: &History) -> Result<(), String> {
    let listed = db.prepared();
    history.branches(|all| all.check(&listed, (u64::MAX, u64::MAX), all, all))
}

/// Flushes, merges, syncs and counts from time to time.
fn maintain(world: &World, seed: u64, rounds: u64) -> Result<(), String> {
    let mut random = Random::new(seed, 3);
    let piled = world.program.leaning == Leaning::Piled;
    for _ in 0..rounds {
        sleep_below(&mut random, if piled { 4_000 } else { 10_000 });
        let last = world.history.last_answered();
        let family = world.some_family(&mut random);
        let kind = if piled { 5 } else { random.below(6) };
        match (kind, family) {
            (0 | 1, Some(family)) => {
                if world.db.compact(&family).is_ok() {
                    hit("merge by hand");
                }
            }
            // A mistake of the count would be corrected.
            (2, Some(family)) if !world.program.expiring && !world.program.counted => {
                if world.db.count_rows(&family, &|| false).is_ok() {
                    hit("rows counted by a scan");
                }
            }
            (3, _) => {
                match world.db.flush_log() {
                    Ok(()) => world.history.durable_upto(last),
                    Err(error) => world.met(&error).map_err(|what| format!("sync of the log: {what}"))?,
                }
                hit("log synced by hand");
            }
            _ => {
                if world.db.flush().is_ok() {
                    world.history.durable_upto(last);
                    hit("flush by hand");
                }
            }
        }
    }
    Ok(())
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
