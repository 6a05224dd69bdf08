//! `definitions`: clients run CREATE, DROP, RENAME, TRUNCATE, ALTER by copy, without a copy and to
//! another engine under a binary log. Each has tables of its own, some of them partitioned. The server is
//! killed with SIGKILL.
//!
//! After the restart each client's tables are those of its answered statements, or those with the one
//! whose answer did not come. Each table is whole, and the store has the column families of these tables
//! and no others.
//!
//! Further clients ([`linker`]) change tables with foreign keys ([`linked`], [`changes`]). After the restart both sides of
//! each key are known alike by SHOW CREATE TABLE and information_schema, and act so ([`conduct`]).

mod changes;
mod conduct;
mod linked;
mod linker;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{io_error, Result};
use tidelab_server::server::settings;
use tidelab_server::server::Server;

use self::linker::{Done, Linker};
use super::killing::{load_until_killed, Killed};
use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

const CLIENTS: usize = 3;
/// Clients with linked tables.
const LINKERS: usize = 2;
/// Names shared in turn by a client's tables.
const NAMES: usize = 4;

/// The statements of the clients: each must have been answered at least once.
const KINDS: [&str; 12] = [
    "CREATE",
    "DROP",
    "RENAME",
    "TRUNCATE",
    "ENGINE",
    "COPY",
    "ADD INDEX",
    "DROP INDEX",
    "ADD COLUMN",
    "DROP COLUMN",
    "ADD BOTH",
    "OPTION",
];

/// A table as a client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    tidesdb: bool,
    /// Indexes in addition to the primary key.
    indexes: usize,
    /// Columns in addition to the first two.
    columns: usize,
    /// Rows: 1 to so many.
    rows: i64,
    /// 0: not partitioned.
    partitions: usize,
}

impl Table {
    /// Column families in the store.
    fn families(&self) -> usize {
        if self.tidesdb {
            (1 + self.indexes) * self.partitions.max(1)
        } else {
            0
        }
    }
}

type Tables = BTreeMap<String, Table>;

/// The model of a client, across the rounds.
#[derive(Default)]
struct Client {
    number: usize,
    tables: Tables,
    /// A statement sent and not answered, and the tables after it.
    in_doubt: Option<(String, Tables)>,
    done: BTreeMap<&'static str, u64>,
    complaint: Option<String>,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { 6 } else { 40 });
    let settings = settings::checks(true);
    let mut random = StdRng::seed_from_u64(lab.seed);
    let mut server = lab.start(&settings)?;
    set_up(
        &mut connect(&server)?,
        &[
            "CREATE DATABASE ddl",
            "CREATE DATABASE source",
            "USE source",
            // Not the sequence itself: the first use of one takes the partitions off a CREATE ... SELECT (the server's).
            "CREATE TABLE numbers (PRIMARY KEY (seq)) ENGINE=InnoDB SELECT seq FROM seq_1_to_40",
        ],
    )?;
    let mut crowd = Crowd::new(&server)?;
    let mut complaints = Vec::new();
    for round in 1..=rounds {
        lab.interrupt.check()?;
        let delay = Duration::from_millis(random.random_range(100..700));
        load(&mut server, &mut crowd.clients, &mut crowd.linkers, delay, &mut random)?;
        let took = server.restart(&settings, lab.interrupt)?;
        let mut session = connect(&server)?;
        let there = tables(&mut session)?;
        let wrong = crowd.settle(&mut session, &server, &there)?;
        progress(
            Check::Definitions,
            &format!(
                "round {round} of {rounds}: killed after {} ms, up again in {:.1} s, {} tables, {} wrong",
                delay.as_millis(),
                took.as_secs_f64(),
                there.len(),
                wrong.len()
            ),
        );
        complaints.extend(wrong.into_iter().map(|complaint| format!("round {round}: {complaint}")));
        if !complaints.is_empty() {
            // The rest would fail for the same reason, and the evidence is fresh.
            break;
        }
    }
    if complaints.is_empty() {
        complaints = crowd.unanswered(lab.short);
    }
    let summary = format!("{rounds} kills, {}", crowd.told());
    conclude(server, summary, complaints)
}

/// The clients of all rounds.
struct Crowd {
    clients: Vec<Client>,
    linkers: Vec<Linker>,
    /// Statements of clients without an answer, and those of them that happened.
    in_doubt: u32,
    happened: u32,
}

impl Crowd {
    fn new(server: &Server) -> Result<Crowd> {
        let clients = (0..CLIENTS).map(|number| Client { number, ..Client::default() }).collect();
        let linkers: Vec<Linker> = (0..LINKERS).map(Linker::new).collect();
        for linker in &linkers {
            set_up(&mut connect(server)?, &linker.databases().each_ref().map(String::as_str))?;
        }
        Ok(Crowd { clients, linkers, in_doubt: 0, happened: 0 })
    }

    /// After a restart: compares the tables that are there with each client's, and returns the differences.
    fn settle(&mut self, session: &mut Session, server: &Server, there: &Tables) -> Result<Vec<String>> {
        let mut wrong: Vec<String> = self.clients.iter_mut().filter_map(|c| c.complaint.take()).collect();
        for client in &mut self.clients {
            self.in_doubt += u32::from(client.in_doubt.is_some());
            self.happened += u32::from(client.settle(there, &mut wrong));
        }
        for (name, table) in there {
            wrong.extend(whole(session, name, table)?);
        }
        for linker in &mut self.linkers {
            wrong.extend(linker.complaint.take());
            let shown = must("look at linked tables", linked::read(session, linker.number))?;
            linker.settle(&shown, &mut wrong);
        }
        wrong.extend(left_behind(session, server, there, &self.linkers)?);
        if wrong.is_empty() {
            for linker in &self.linkers {
                wrong.extend(must("linked tables", conduct::faults(session, &linker.now))?);
            }
        }
        Ok(wrong)
    }

    /// Answered statements by kind.
    fn done(&self) -> BTreeMap<&'static str, u64> {
        let mut done = BTreeMap::new();
        for (kind, count) in self.clients.iter().flat_map(|client| &client.done) {
            *done.entry(*kind).or_default() += count;
        }
        done
    }

    /// A complaint about the first kind of statement without an answer.
    fn unanswered(&self, short: bool) -> Vec<String> {
        let (done, linked) = (self.done(), linked_done(&self.linkers));
        let mut missing = KINDS.iter().filter(|kind| !done.contains_key(*kind));
        let mut linked_missing = changes::KINDS.iter().filter(|kind| !short && !linked.contains_key(*kind));
        let first = missing.next().or_else(|| linked_missing.next());
        first.map(|kind| format!("no {kind} was answered")).into_iter().collect()
    }

    /// The figures of the run; those of linked tables by kind go to the progress.
    fn told(&self) -> String {
        let linked = linked_done(&self.linkers);
        let told: Vec<String> = linked
            .iter()
            .map(|(kind, done)| {
                format!("{} {kind} ({} killed, {} happened)", done.answered, done.killed, done.happened)
            })
            .collect();
        progress(Check::Definitions, &format!("linked tables: {}", told.join(", ")));
        let sum = |of: fn(&Done) -> u64| linked.values().map(of).sum::<u64>();
        let done: Vec<String> = self.done().iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        format!(
            "{}; {} in doubt of which {} happened; of linked tables {} changes, {} in doubt of which {} happened",
            done.join(", "),
            self.in_doubt,
            self.happened,
            sum(|done| done.answered),
            sum(|done| done.killed),
            sum(|done| done.happened)
        )
    }
}

/// The CREATE of a random table.
fn create(name: &str, after: &mut Tables, random: &mut StdRng) -> String {
    let rows = random.random_range(1..40);
    let tidesdb = random.random_bool(0.8);
    let partitioned = tidesdb && random.random_bool(0.4);
    let partitions = if partitioned { random.random_range(1..5) } else { 0 };
    after.insert(name.to_string(), Table { tidesdb, indexes: 1, columns: 0, rows, partitions });
    let engine = engine(tidesdb);
    let by = match partitions {
        0 => String::new(),
        partitions => format!("PARTITION BY HASH (a) PARTITIONS {partitions}"),
    };
    format!(
        "CREATE TABLE {name} (a INT PRIMARY KEY, b INT NOT NULL, KEY (b)) ENGINE={engine} {by} SELECT seq AS a, seq % 7 AS b FROM source.numbers WHERE seq <= {rows}"
    )
}

fn linked_done(linkers: &[Linker]) -> BTreeMap<&'static str, Done> {
    let mut all: BTreeMap<&str, Done> = BTreeMap::new();
    for (kind, done) in linkers.iter().flat_map(|linker| &linker.done) {
        let sum = all.entry(kind).or_default();
        sum.answered += done.answered;
        sum.killed += done.killed;
        sum.happened += done.happened;
    }
    all
}

/// A client's work until the server is gone.
type Work<'a> = Box<dyn FnOnce(&Killed) + Send + 'a>;

/// Puts all clients on the server and kills it after a while.
fn load(
    server: &mut Server,
    clients: &mut [Client],
    linkers: &mut [Linker],
    delay: Duration,
    random: &mut StdRng,
) -> Result<()> {
    let socket = server.socket().to_path_buf();
    let socket = &socket;
    let mut all: Vec<Work<'_>> = Vec::new();
    for client in clients {
        let random = StdRng::seed_from_u64(random.random());
        all.push(Box::new(move |killed| client.load(socket, random, killed)));
    }
    for linker in linkers {
        let random = StdRng::seed_from_u64(random.random());
        all.push(Box::new(move |killed| linker.load(socket, random, killed)));
    }
    load_until_killed(server, delay, all.into_iter())
}

impl Client {
    fn load(&mut self, socket: &Path, random: StdRng, killed: &Killed) {
        if let Some(failure) = killed.unexplained(self.work(socket, random)) {
            let statement = self.in_doubt.take().map(|(statement, _)| statement);
            self.complaint = Some(format!("client {}: {failure}: {statement:?}", self.number));
        }
    }

    /// Changes definitions until the server is gone.
    fn work(&mut self, socket: &Path, mut random: StdRng) -> std::result::Result<(), Failure> {
        let mut session = Session::open(socket)?;
        session.run("USE ddl")?;
        loop {
            let (kind, statement, after) = self.draw(&mut random);
            self.in_doubt = Some((statement.clone(), after));
            match session.run(&statement) {
                // InnoDB's own data file of an earlier life is in the way (see `left_behind`): it did not happen.
                Err(Failure::Sql { message, .. }) if message.contains("Tablespace") => {
                    self.in_doubt = None;
                    continue;
                }
                answer => answer?,
            };
            if let Some((_, after)) = self.in_doubt.take() {
                self.tables = after;
            }
            *self.done.entry(kind).or_default() += 1;
        }
    }

    /// A statement, its kind, and the tables after it.
    fn draw(&self, random: &mut StdRng) -> (&'static str, String, Tables) {
        let mut after = self.tables.clone();
        let name = format!("c{}_{}", self.number, random.random_range(0..NAMES));
        let Some(table) = after.get_mut(&name) else {
            let statement = create(&name, &mut after, random);
            return ("CREATE", statement, after);
        };
        // The way of an ALTER, and the name under which it is counted.
        let copies = random.random_bool(0.3);
        let by = |algorithm, kind| if copies { ("COPY", "COPY") } else { (algorithm, kind) };
        match random.random_range(0..16) {
            0 => {
                after.remove(&name);
                ("DROP", format!("DROP TABLE {name}"), after)
            }
            1 | 2 => match self.rename(&name, &mut after) {
                Some(free) => ("RENAME", format!("RENAME TABLE {name} TO {free}"), after),
                // No name is free: one table less.
                None => ("DROP", format!("DROP TABLE {name}"), after),
            },
            // The server empties one partition after the other: killed between two of them, some are empty.
            3 if table.partitions == 0 => {
                table.rows = 0;
                ("TRUNCATE", format!("TRUNCATE TABLE {name}"), after)
            }
            // InnoDB's leftovers of its partitions after such a kill are not under test.
            4 if table.partitions == 0 => {
                table.tidesdb = !table.tidesdb;
                ("ENGINE", format!("ALTER TABLE {name} ENGINE={}", engine(table.tidesdb)), after)
            }
            5 if table.tidesdb => {
                let rate = random.random_range(1..1000);
                ("OPTION", format!("ALTER TABLE {name} BLOOM_FPR={rate}, ALGORITHM=INSTANT"), after)
            }
            6 if table.columns > 0 => {
                let column = table.columns;
                table.columns -= 1;
                ("DROP COLUMN", format!("ALTER TABLE {name} DROP COLUMN c{column}, ALGORITHM=INSTANT"), after)
            }
            7..=10 if table.indexes == 1 => {
                table.indexes = 2;
                let (algorithm, kind) = by("NOCOPY", "ADD INDEX");
                (kind, format!("ALTER TABLE {name} ADD UNIQUE more (b, a), ALGORITHM={algorithm}"), after)
            }
            7..=9 => {
                table.indexes = 1;
                let (algorithm, kind) = by("NOCOPY", "DROP INDEX");
                (kind, format!("ALTER TABLE {name} DROP KEY more, ALGORITHM={algorithm}"), after)
            }
            10 | 11 if table.tidesdb => {
                table.columns += 1;
                let add = format!("ADD COLUMN c{} INT DEFAULT 5", table.columns);
                // The index goes and comes, and the table perhaps gets another name.
                let index = if table.indexes == 2 { "DROP KEY more, " } else { "" };
                table.indexes = 2;
                let table = table.clone();
                let renamed = match random.random_bool(0.5).then(|| self.rename(&name, &mut after)).flatten()
                {
                    Some(free) => format!(", RENAME TO {free}"),
                    None => {
                        after.insert(name.clone(), table);
                        String::new()
                    }
                };
                (
                    "ADD BOTH",
                    format!("ALTER TABLE {name} {index}{add}, ADD UNIQUE more (b, a){renamed}"),
                    after,
                )
            }
            _ => {
                table.columns += 1;
                let column = format!("ADD COLUMN c{} INT DEFAULT 5", table.columns);
                let (algorithm, kind) = by("INSTANT", "ADD COLUMN");
                (kind, format!("ALTER TABLE {name} {column}, ALGORITHM={algorithm}"), after)
            }
        }
    }

    /// Gives a table a free name in `after`; `None`: there is no free name, and the table is gone from `after`.
    fn rename(&self, name: &str, after: &mut Tables) -> Option<String> {
        let table = after.remove(name)?;
        let free = (0..NAMES)
            .map(|n| format!("c{}_{n}", self.number))
            .find(|name| !self.tables.contains_key(name))?;
        after.insert(free.clone(), table);
        Some(free)
    }

    /// After a restart: compares with the real tables and goes on from them. True: the statement in doubt
    /// happened.
    fn settle(&mut self, there: &Tables, wrong: &mut Vec<String>) -> bool {
        let prefix = format!("c{}_", self.number);
        let mine: Tables = there
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix))
            .map(|(name, table)| (name.clone(), table.clone()))
            .collect();
        let (statement, after) = match self.in_doubt.take() {
            Some((statement, after)) => (Some(statement), after),
            None => (None, self.tables.clone()),
        };
        let happened = mine == after && mine != self.tables;
        if mine != self.tables && mine != after {
            wrong.push(format!(
                "client {}: there is {mine:?}, answered was {:?}, in doubt is {statement:?}",
                self.number, self.tables
            ));
        }
        self.tables = mine;
        happened
    }
}

fn engine(tidesdb: bool) -> &'static str {
    if tidesdb {
        "TidesDB"
    } else {
        "InnoDB"
    }
}

/// The tables known to the server, each opened.
fn tables(session: &mut Session) -> Result<Tables> {
    let select = "SELECT table_name, engine,
        (SELECT COUNT(DISTINCT index_name) FROM information_schema.statistics AS s
         WHERE s.table_schema = t.table_schema AND s.table_name = t.table_name AND index_name <> 'PRIMARY'),
        (SELECT COUNT(*) FROM information_schema.columns AS c
         WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name),
        (SELECT COUNT(partition_name) FROM information_schema.partitions AS p
         WHERE p.table_schema = t.table_schema AND p.table_name = t.table_name)
        FROM information_schema.tables AS t WHERE table_schema = 'ddl'";
    let mut tables = Tables::new();
    for row in must(select, session.rows(select))? {
        let number = |at: usize| row.get(at).and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        let name = row.first().cloned().unwrap_or_default();
        let rows = session.number(&format!("SELECT COUNT(*) FROM ddl.`{name}`")).unwrap_or(-1);
        let tidesdb = row.get(1).is_some_and(|engine| engine == "TidesDB");
        let (indexes, columns, partitions) = (number(2), number(3).saturating_sub(2), number(4));
        let table = Table { tidesdb, indexes, columns, rows, partitions };
        tables.insert(name, table);
    }
    Ok(tables)
}

/// The faults of a table: its rows are 1 to their number, its further columns 5, and each index agrees.
fn whole(session: &mut Session, name: &str, table: &Table) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    let mut sums = "COUNT(*), COALESCE(SUM(a), 0), COALESCE(SUM(b), 0)".to_string();
    let mut expected =
        vec![table.rows, (1..=table.rows).sum::<i64>(), (1..=table.rows).map(|a| a % 7).sum::<i64>()];
    for column in 1..=table.columns {
        sums.push_str(&format!(", COALESCE(SUM(c{column}), 0)"));
        expected.push(5 * table.rows);
    }
    let expected = vec![expected];
    for index in ["PRIMARY", "b", "more"].into_iter().take(1 + table.indexes) {
        let select = format!("SELECT {sums} FROM ddl.`{name}` FORCE INDEX ({index}) WHERE a > 0 AND b >= 0");
        match session.numbers(&select) {
            Ok(found) if found == expected => {}
            found => complaints.push(format!("{select}: {found:?}, must be {expected:?}")),
        }
    }
    let check = format!("CHECK TABLE ddl.`{name}`");
    for row in must(&check, session.rows(&check))? {
        if row.get(3).map(String::as_str) != Some("OK") {
            complaints.push(row.join(" "));
        }
    }
    Ok(complaints)
}

/// Leftovers of no table: column families, and definitions in the server's folders.
fn left_behind(
    session: &mut Session,
    server: &Server,
    there: &Tables,
    linkers: &[Linker],
) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    let count = "tidesdb_column_families";
    let families = must(count, session.status(count))?;
    let expected = there.values().map(Table::families).sum::<usize>()
        + linkers.iter().map(|linker| linker.now.families()).sum::<usize>();
    if usize::try_from(families) != Ok(expected) {
        complaints
            .push(format!("the store has {families} column families, the tables {expected}: {there:?}"));
    }
    let is_innodb = |table: &str| there.get(table).is_some_and(|table| !table.tidesdb);
    complaints.extend(strangers(server, "ddl", |table| there.contains_key(table), is_innodb)?);
    for linker in linkers {
        for away in (0..2).filter(|away| linker.now.databases[*away]) {
            let database = linked::database(linker.number, away);
            let known = linker.now.tables_in(&database);
            complaints.extend(strangers(server, &database, |table| known.contains(table), |_| false)?);
        }
    }
    Ok(complaints)
}

/// Files without a table in a database's folder.
fn strangers(
    server: &Server,
    database: &str,
    is_known: impl Fn(&str) -> bool,
    is_innodb: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    let folder = server.directory().join("data").join(database);
    for entry in fs::read_dir(&folder).map_err(io_error("cannot read", &folder))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let table = name.split('.').next().unwrap_or_default();
        // InnoDB's own data files may stay when it is killed while it drops one. A later ALTER to InnoDB
        // that is killed as well would lose its table to that file.
        if name.ends_with(".ibd") {
            if !is_innodb(table) {
                fs::remove_file(entry.path()).map_err(io_error("cannot remove", &entry.path()))?;
            }
            continue;
        }
        // The server forgets .par files when it is killed in RENAME or ALTER of a partitioned table, with
        // any engine; a CREATE writes them anew.
        if name != "db.opt" && !name.ends_with(".par") && !is_known(table) {
            complaints.push(format!("the file {name} of {database} belongs to no table"));
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: i64) -> Table {
        Table { tidesdb: true, indexes: 1, columns: 0, rows, partitions: 0 }
    }

    fn look(there: &[(&str, Table)]) -> (bool, usize) {
        let before = Tables::from([("c1_0".to_string(), table(5))]);
        let after = Tables::from([("c1_1".to_string(), table(5))]);
        let mut client = Client {
            number: 1,
            tables: before,
            in_doubt: Some(("RENAME".to_string(), after)),
            ..Client::default()
        };
        let there = there.iter().map(|(name, table)| (name.to_string(), table.clone())).collect();
        let mut wrong = Vec::new();
        let happened = client.settle(&there, &mut wrong);
        (happened, wrong.len())
    }

    #[test]
    fn what_was_in_doubt_may_or_may_not_have_happened() {
        assert_eq!(look(&[("c1_0", table(5)), ("c2_0", table(1))]), (false, 0));
        assert_eq!(look(&[("c1_1", table(5))]), (true, 0));
    }

    #[test]
    fn halves_and_other_contents_are_found() {
        for there in [
            &[][..],
            &[("c1_0", table(5)), ("c1_1", table(5))],
            &[("c1_0", table(4))],
            &[("c1_1", Table { indexes: 2, ..table(5) })],
        ] {
            assert_eq!(look(there), (false, 1), "{there:?}");
        }
    }
}
