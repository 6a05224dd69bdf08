//! `history`: clients run random transactions over a few lists and registers, at every isolation level
//! and in both lock modes, and record them. [`crate::history`] judges whether the level's promise was
//! kept. InnoDB's record stands alongside on request.

use std::collections::{BTreeMap, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{self, setting, Setting};
use tidelab_server::server::Server;

use super::session::{Failure, Session};
use super::{conclude, connect, progress, set_up, Check, Lab, Verdict};
use crate::history::anomaly::Rung;
use crate::history::generate::{Generator, Plan, Step};
use crate::history::judge::{judge, Promise};
use crate::history::moments::Gaps;
use crate::history::record::{Access, Element, History, Key, Kind, Outcome, Seen, Statement, Transaction};

const CLIENTS: u32 = 12;
/// At least this share of the transactions must come through.
const FLOOR_PERCENT: usize = 10;

/// An isolation level, as the session or the table asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    /// REPEATABLE READ with the table option.
    Snapshot,
    Serializable,
}

impl Level {
    const ALL: [Level; 5] = [
        Level::ReadUncommitted,
        Level::ReadCommitted,
        Level::RepeatableRead,
        Level::Snapshot,
        Level::Serializable,
    ];

    fn name(self) -> &'static str {
        match self {
            Level::ReadUncommitted => "READ UNCOMMITTED",
            Level::ReadCommitted => "READ COMMITTED",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Snapshot => "SNAPSHOT",
            Level::Serializable => "SERIALIZABLE",
        }
    }

    fn of_session(self) -> &'static str {
        match self {
            Level::Snapshot => Level::RepeatableRead.name(),
            other => other.name(),
        }
    }
}

/// One part of the check.
#[derive(Clone, Copy, Debug)]
struct Part {
    engine: Engine,
    level: Level,
    optimistic: bool,
}

impl Part {
    fn name(self) -> String {
        let mode = match self.engine {
            Engine::TidesDb if self.optimistic => ", optimistic",
            Engine::TidesDb => ", pessimistic",
            _ => "",
        };
        format!("{} {}{mode}", self.engine, self.level.name())
    }

    /// The promise of `docs/manual/locks.md`.
    fn promise(self) -> Promise {
        let dirty = self.engine != Engine::TidesDb;
        let (rung, gaps) = match self.level {
            Level::ReadUncommitted if dirty => (Rung::Writes, Gaps::Open),
            Level::ReadCommitted if dirty => (Rung::Statements, Gaps::Open),
            // A locking read keeps nothing of a row that is not there.
            Level::ReadUncommitted => (Rung::Rows, Gaps::Open),
            Level::ReadCommitted => (Rung::Statements, Gaps::Open),
            Level::RepeatableRead | Level::Snapshot if self.optimistic => (Rung::Snapshot, Gaps::Keys),
            Level::RepeatableRead | Level::Snapshot => (Rung::Snapshot, Gaps::Ranges),
            Level::Serializable => (Rung::Serial, Gaps::Ranges),
        };
        Promise { rung, gaps }
    }

    /// All parts with an engine.
    fn of(engine: Engine) -> Vec<Part> {
        let mut all = Vec::new();
        for level in Level::ALL {
            for optimistic in [false, true] {
                if engine == Engine::TidesDb || !(optimistic || level == Level::Snapshot) {
                    all.push(Part { engine, level, optimistic });
                }
            }
        }
        all
    }
}

/// The settings of the checks, but commits do not wait for the disk: more of them meet.
pub(super) fn settings() -> Vec<Setting> {
    let mut all = settings::checks(false);
    for setting in &mut all {
        if setting.value == "FULL" {
            setting.value = "NONE".to_string();
        }
    }
    all.push(setting("innodb_flush_log_at_trx_commit", "0"));
    all.extend(settings::snapshot_isolation());
    all
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let time = match lab.seconds {
        Some(seconds) => Duration::from_secs(seconds),
        None if lab.short => Duration::from_millis(600),
        None => Duration::from_secs(10),
    };
    let both = [Engine::TidesDb, Engine::InnoDb];
    let engines = match lab.engines {
        [] if lab.short => &both[..1],
        [] => &both[..],
        engines => engines,
    };
    let server = lab.start(&settings())?;
    let mut complaints = Vec::new();
    let (mut transactions, mut parts) = (0, 0);
    for part in engines.iter().flat_map(|engine| Part::of(*engine)) {
        lab.interrupt.check()?;
        let clients = lab.clients.unwrap_or(CLIENTS);
        let run = under_load(&server, part, clients, time, lab.seed)?;
        let count = run.history.transactions.len();
        let committed = run.history.transactions.iter().filter(|t| t.outcome == Outcome::Committed).count();
        let report = judge(&run.history, part.promise());
        let line = format!(
            "{}: {committed} of {count} transactions committed, refused {:?}, {report}",
            part.name(),
            run.refused
        );
        progress(Check::History, &line);
        let mut wrong = run.complaints;
        wrong.extend(report.broken.iter().map(|anomaly| format!("{anomaly}")));
        if committed * 100 < count * FLOOR_PERCENT || count == 0 {
            wrong.push(format!("{committed} of {count} committed, below the floor of {FLOOR_PERCENT} %"));
        }
        for text in wrong {
            if part.engine == Engine::TidesDb {
                complaints.push(format!("{}: {text}", part.name()));
            } else {
                // InnoDB stands alongside for comparison and is not under test.
                progress(Check::History, &format!("{}: {text}", part.name()));
            }
        }
        transactions += count;
        parts += 1;
    }
    conclude(server, format!("{transactions} transactions in {parts} parts judged"), complaints)
}

/// The result of one part.
#[derive(Default)]
struct Run {
    history: History,
    /// The number of each conflict error.
    refused: BTreeMap<u16, u64>,
    complaints: Vec<String>,
}

fn under_load(server: &Server, part: Part, clients: u32, time: Duration, seed: u64) -> Result<Run> {
    let mut session = connect(server)?;
    let option = if part.level == Level::Snapshot { " ISOLATION_LEVEL='SNAPSHOT'" } else { "" };
    let table = |name: &str| {
        format!(
            "CREATE TABLE torture.{name} (id INT PRIMARY KEY, g INT NOT NULL,
               v VARCHAR(6000) CHARACTER SET ascii NOT NULL, KEY by_g (g)) ENGINE={}{option}",
            part.engine
        )
    };
    set_up(
        &mut session,
        &[
            &format!("SET GLOBAL tidesdb_pessimistic_locking = {}", i32::from(!part.optimistic)),
            "CREATE DATABASE IF NOT EXISTS torture",
            "DROP TABLE IF EXISTS torture.lists, torture.registers",
            &table("lists"),
            &table("registers"),
        ],
    )?;
    let generator = Generator::default();
    let start = Instant::now();
    let runs: Vec<Run> = thread::scope(|scope| {
        let generator = &generator;
        let clients: Vec<_> = (0..clients)
            .map(|number| {
                scope.spawn(move || {
                    let random = StdRng::seed_from_u64(seed.wrapping_add(u64::from(number)));
                    let mut client = Client { part, number, random, start, run: Run::default() };
                    if let Err(failure) = client.work(server, generator, time) {
                        client.run.complaints.push(format!("client {number}: {failure}"));
                    }
                    client.run
                })
            })
            .collect();
        clients.into_iter().map(|c| c.join().expect("a client does not panic")).collect()
    });
    let mut all = Run::default();
    for run in runs {
        all.history.transactions.extend(run.history.transactions);
        all.complaints.extend(run.complaints);
        for (code, times) in run.refused {
            *all.refused.entry(code).or_default() += times;
        }
    }
    let mut last =
        Client { part, number: clients, random: StdRng::seed_from_u64(seed), start, run: Run::default() };
    if let Err(failure) = last.read_all(&mut session, &generator) {
        all.complaints.push(format!("reading all keys at the end: {failure}"));
    }
    all.history.transactions.extend(last.run.history.transactions);
    Ok(all)
}

type Answer<T> = std::result::Result<T, Failure>;

struct Client {
    part: Part,
    number: u32,
    random: StdRng,
    start: Instant,
    run: Run,
}

/// A transaction's own knowledge.
#[derive(Default)]
struct Known {
    statements: Vec<Statement>,
    /// The value of a key read, and true if no other transaction can change it before the end.
    values: HashMap<Key, (Vec<Element>, bool)>,
}

impl Client {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn work(&mut self, server: &Server, generator: &Generator, time: Duration) -> Answer<()> {
        let mut session = Session::open(server.socket())?;
        session.run("SET innodb_lock_wait_timeout = 10, lock_wait_timeout = 10")?;
        let level = self.part.level.of_session();
        session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"))?;
        while self.start.elapsed() < time {
            let plan = generator.plan(&mut self.random);
            let began = self.now();
            let mut known = Known::default();
            let result = self.transaction(&mut session, &plan, &mut known);
            let (outcome, lost) = match result {
                Ok(outcome) => (outcome, None),
                // The connection is gone; whether a COMMIT that it carried was done is not known.
                Err(failure) => (Outcome::Unknown, Some(failure)),
            };
            let ended = self.now();
            let statements = known.statements;
            self.run.history.transactions.push(Transaction {
                client: self.number,
                began,
                ended,
                outcome,
                statements,
            });
            if let Some(failure) = lost {
                return Err(failure);
            }
        }
        Ok(())
    }

    fn transaction(&mut self, session: &mut Session, plan: &Plan, known: &mut Known) -> Answer<Outcome> {
        match self.statements(session, plan, known) {
            Ok(()) => Ok(if plan.gives_up { Outcome::Aborted } else { Outcome::Committed }),
            Err(Failure::Sql { code, message }) => {
                let failure = Failure::Sql { code, message };
                if failure.is_conflict() {
                    *self.run.refused.entry(code).or_default() += 1;
                } else {
                    self.run.complaints.push(format!("client {}: {failure}", self.number));
                }
                // 1205 ends the statement only.
                session.run("ROLLBACK")?;
                Ok(Outcome::Aborted)
            }
            Err(lost) => Err(lost),
        }
    }

    fn statements(&mut self, session: &mut Session, plan: &Plan, known: &mut Known) -> Answer<()> {
        if !plan.autocommit {
            session.run("BEGIN")?;
        }
        for step in &plan.steps {
            // Others get a chance to come between.
            if self.random.random_bool(0.05) {
                thread::sleep(Duration::from_micros(self.random.random_range(50..500)));
            }
            match *step {
                Step::Read { key, access } => self.read(session, known, &[key], access, false)?,
                Step::Range { first, count, access } => {
                    let keys: Vec<Key> = (0..count).map(|i| Key { id: first.id + i, ..first }).collect();
                    self.read(session, known, &keys, access, true)?;
                }
                Step::Write { key, element } => self.write(session, known, key, element)?,
            }
        }
        if !plan.autocommit {
            session.run(if plan.gives_up { "ROLLBACK" } else { "COMMIT" })?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        session: &mut Session,
        known: &mut Known,
        keys: &[Key],
        access: Access,
        range: bool,
    ) -> Answer<()> {
        let (first, last) = (keys[0], keys[keys.len() - 1].id);
        let by_index = self.random.random_bool(0.3);
        let (hint, column) = if by_index { (" FORCE INDEX (by_g)", "g") } else { ("", "id") };
        let condition = if range {
            format!("{column} BETWEEN {} AND {last}", first.id)
        } else {
            format!("{column} = {}", first.id)
        };
        let order = if range && self.random.random_bool(0.2) { " ORDER BY 1 DESC" } else { "" };
        let lock = match access {
            Access::Plain => "",
            Access::Shared => " LOCK IN SHARE MODE",
            Access::Exclusive => " FOR UPDATE",
        };
        let table = table(first.kind);
        let rows = session
            .rows(&format!("SELECT id, v FROM torture.{table}{hint} WHERE {condition}{order}{lock}"))?;
        let seen = self.seen(keys, &rows);
        for (key, elements) in &seen {
            let holds = access.locks() || self.part.promise().rung >= Rung::Snapshot;
            known.values.insert(*key, (elements.clone(), holds));
        }
        // An index entry that is not there is a gap, also when one is asked for.
        known.statements.push(Statement::Read { access, range: range || by_index, seen });
        Ok(())
    }

    /// Each key's value; complains about rows not asked for.
    fn seen(&mut self, keys: &[Key], rows: &[Vec<String>]) -> Seen {
        let mut values: HashMap<u32, Vec<Element>> = HashMap::new();
        for row in rows {
            let id = row.first().and_then(|id| id.parse().ok());
            let elements: Option<Vec<Element>> =
                row.get(1).and_then(|v| v.split(' ').map(|element| element.parse().ok()).collect());
            match (id, elements) {
                (Some(id), Some(elements)) if keys.iter().any(|key| key.id == id) => {
                    if values.insert(id, elements).is_some() {
                        self.run.complaints.push(format!("row {id} came twice in one statement: {rows:?}"));
                    }
                }
                _ => self.run.complaints.push(format!("{row:?} was read, {keys:?} were asked for")),
            }
        }
        keys.iter().map(|key| (*key, values.remove(&key.id).unwrap_or_default())).collect()
    }

    fn write(&mut self, session: &mut Session, known: &mut Known, key: Key, element: Element) -> Answer<()> {
        let Key { kind, id } = key;
        let table = table(kind);
        let changed = match kind {
            Kind::List => format!("CONCAT(v, ' {element}')"),
            Kind::Register => format!("'{element}'"),
        };
        let value = known.values.get(&key);
        let exists = value.is_some_and(|(elements, _)| !elements.is_empty());
        let insert = format!(
            "INSERT INTO torture.{table} VALUES ({id}, {id}, '{element}') ON DUPLICATE KEY UPDATE v = {changed}"
        );
        match (self.random.random_range(0..5), kind) {
            (0, _) if exists => {
                only(session, &format!("UPDATE torture.{table} SET v = {changed} WHERE id = {id}"))?
            }
            (1, _) if exists => only(
                session,
                &format!("UPDATE torture.{table} FORCE INDEX (by_g) SET v = {changed} WHERE g = {id}"),
            )?,
            // Computed here: a change of the list since the read would be overwritten.
            (2, Kind::List) if exists => match value {
                Some((elements, true)) => {
                    let all: Vec<String> =
                        elements.iter().chain([&element]).map(Element::to_string).collect();
                    let all = all.join(" ");
                    only(session, &format!("UPDATE torture.{table} SET v = '{all}' WHERE id = {id}"))?;
                }
                _ => {
                    session.run(&insert)?;
                }
            },
            (2, Kind::Register) => {
                session.run(&format!("REPLACE INTO torture.{table} VALUES ({id}, {id}, '{element}')"))?;
            }
            (3, Kind::Register) if exists => {
                // One write: only this transaction misses the key, and for an instant.
                only(session, &format!("DELETE FROM torture.{table} WHERE id = {id}"))?;
                session.run(&format!("INSERT INTO torture.{table} VALUES ({id}, {id}, '{element}')"))?;
            }
            _ => {
                session.run(&insert)?;
            }
        }
        // Its value is known only after the next read.
        known.values.remove(&key);
        known.statements.push(Statement::Write { key, element });
        Ok(())
    }

    /// A last transaction: reads everything, by rows and by index.
    fn read_all(&mut self, session: &mut Session, generator: &Generator) -> Answer<()> {
        let began = self.now();
        let mut statements = Vec::new();
        session.run("BEGIN")?;
        for kind in [Kind::List, Kind::Register] {
            let keys: Vec<Key> = generator.keys().filter(|key| key.kind == kind).collect();
            for hint in ["", " FORCE INDEX (by_g)"] {
                let rows =
                    session.rows(&format!("SELECT id, v FROM torture.{}{hint} WHERE g >= 0", table(kind)))?;
                let seen = self.seen(&keys, &rows);
                statements.push(Statement::Read { access: Access::Plain, range: true, seen });
            }
        }
        session.run("COMMIT")?;
        let ended = self.now();
        self.run.history.transactions.push(Transaction {
            client: self.number,
            began,
            ended,
            outcome: Outcome::Committed,
            statements,
        });
        Ok(())
    }
}

fn table(kind: Kind) -> &'static str {
    match kind {
        Kind::List => "lists",
        Kind::Register => "registers",
    }
}

/// A change of an existing row.
fn only(session: &mut Session, statement: &str) -> Answer<()> {
    match session.run(statement)? {
        1 => Ok(()),
        changed => {
            let message = format!("{statement}: changed {changed} rows");
            Err(Failure::Sql { code: 0, message })
        }
    }
}
