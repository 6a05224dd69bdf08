//! The check's tables and the model of their rows. A row's key and version determine its contents, so a wrong
//! row shows. Each commit has a number: it stands in the journal and is the version of its rows.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::RngExt;

use super::super::session::{Failure, Session};

/// The database of the tables.
pub(super) const DATABASE: &str = "damage";

/// A table of the check.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name.
    pub(super) name: &'static str,
    /// Rows at the beginning.
    rows: i64,
    /// Repetitions of 32 bytes in a row.
    repeats: u32,
}

/// Rows in several levels of files; in small runs; in the log; large ones; those of a prepared transaction.
pub(super) const TABLES: [Table; 6] = [
    Table { name: "big", rows: 20_000, repeats: 3 },
    Table { name: "small", rows: 50, repeats: 3 },
    Table { name: "fresh", rows: 20, repeats: 3 },
    Table { name: "wide", rows: 150, repeats: 250 },
    Table { name: "large", rows: 10, repeats: 250 },
    Table { name: JOURNAL, rows: 1, repeats: 1 },
];
/// The numbers of the commits.
const JOURNAL: &str = "journal";
/// Rows of a prepared transaction, too large for memory.
const PREPARED: i64 = 150;
/// Keys of rows written while a table is damaged begin here, and those of prepared ones.
const NEW: i64 = 1_000_000;
const NEW_PREPARED: i64 = 100_000_000;

impl Table {
    fn index(name: &str) -> usize {
        TABLES.iter().position(|table| table.name == name).unwrap_or_default()
    }

    fn create(&self) -> String {
        let columns =
            "a INT PRIMARY KEY, v INT NOT NULL, b INT NOT NULL, pad VARBINARY(8000) NOT NULL, KEY (b)";
        format!("CREATE TABLE {DATABASE}.{} ({columns}) ENGINE=TidesDB MIN_DISK_SPACE=0", self.name)
    }

    /// The padding of key `a` at version `v`.
    fn pad(&self) -> String {
        format!("REPEAT(MD5(CONCAT('{}', a, ':', v)), {})", self.name, self.repeats)
    }

    fn replace(&self, from: i64, to: i64, version: i64) -> String {
        format!(
            "REPLACE INTO {DATABASE}.{} SELECT a, v, a * 7 + v, {} FROM \
             (SELECT seq AS a, {version} AS v FROM {DATABASE}.seq_{from}_to_{to}) s",
            self.name,
            self.pad()
        )
    }
}

/// Rows of a table: the version of each key.
pub(super) type Rows = BTreeMap<i64, i64>;

/// A change of the rows of a range of keys.
#[derive(Clone, Debug)]
struct Change {
    table: usize,
    from: i64,
    to: i64,
    deletes: bool,
}

impl Change {
    fn statement(&self, version: i64) -> String {
        let (table, from, to) = (&TABLES[self.table], self.from, self.to);
        match self.deletes {
            true => format!("DELETE FROM {DATABASE}.{} WHERE a BETWEEN {from} AND {to}", table.name),
            false => table.replace(from, to, version),
        }
    }

    fn apply(&self, version: i64, state: &mut [Rows]) {
        for a in self.from..=self.to {
            match self.deletes {
                true => state[self.table].remove(&a),
                false => state[self.table].insert(a, version),
            };
        }
    }
}

/// The model.
pub(super) struct Content {
    /// Rows of each table when the last commits began, and these in order.
    base: Vec<Rows>,
    commits: Vec<(i64, Vec<Change>)>,
    /// The number of the newest commit.
    pub(super) last: i64,
    /// The changes of the prepared transaction.
    prepared: Option<Change>,
}

/// The answer of a table.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Every row as it was written, none missing.
    Right,
    /// An error.
    Refused { code: u16, message: String, statement: String },
    /// Other rows.
    Wrong(String),
}

impl Content {
    /// Makes the tables.
    pub(super) fn make(session: &mut Session) -> Result<Content, Failure> {
        session.run(&format!("CREATE DATABASE {DATABASE}"))?;
        let mut content =
            Content { base: vec![Rows::new(); TABLES.len()], commits: Vec::new(), last: 1, prepared: None };
        for (table, made) in TABLES.iter().enumerate() {
            session.run(&made.create())?;
            let change = Change { table, from: 1, to: made.rows, deletes: false };
            session.run(&change.statement(1))?;
            change.apply(1, &mut content.base);
        }
        Ok(content)
    }

    /// The rows of each table after the commit `number`.
    pub(super) fn at(&self, number: i64) -> Vec<Rows> {
        let mut state = self.base.clone();
        for (version, changes) in self.commits.iter().filter(|(version, _)| *version <= number) {
            changes.iter().for_each(|change| change.apply(*version, &mut state));
        }
        state
    }

    /// From now on the commits after `number` never were; those before it always.
    pub(super) fn settle(&mut self, number: i64) {
        self.base = self.at(number);
        self.commits.clear();
    }

    /// Commits changes, and its number in the journal if that can be written; the error if it was refused as a whole.
    fn commit(&mut self, session: &mut Session, changes: &[Change], in_journal: bool) -> Result<(), Failure> {
        let version = self.last + 1;
        let mut changes = changes.to_vec();
        if in_journal {
            changes.push(Change { table: Table::index(JOURNAL), from: version, to: version, deletes: false });
        }
        session.run("BEGIN")?;
        let mut run = || {
            changes.iter().try_for_each(|change| session.run(&change.statement(version)).map(|_| ()))?;
            session.run("COMMIT").map(|_| ())
        };
        if let Err(failure) = run() {
            session.run("ROLLBACK")?;
            return Err(failure);
        }
        self.last = version;
        self.commits.push((version, changes));
        Ok(())
    }

    /// Rows for every place: files of several levels, small runs, and the log alone.
    pub(super) fn fill(&mut self, session: &mut Session, random: &mut StdRng) -> Result<(), Failure> {
        let table = Table::index;
        let range = |random: &mut StdRng, name: &str, length: i64| {
            let from = random.random_range(1..=TABLES[table(name)].rows - length);
            Change { table: table(name), from, to: from + length, deletes: false }
        };
        for round in 0..4 {
            // A write buffer has 1 MB: each of these is flushed soon.
            let mut changes = vec![range(random, "big", 1500), range(random, "wide", 70)];
            changes.push(range(random, "small", 10));
            changes.push(Change { deletes: true, ..range(random, "small", 3) });
            if round == 3 {
                changes.push(range(random, "big", 50));
            }
            self.commit(session, &changes, true)?;
        }
        for _ in 0..8 {
            let changes = [range(random, "fresh", 3), range(random, "small", 2), range(random, "big", 5)];
            self.commit(session, &changes, true)?;
        }
        Ok(())
    }

    /// Writes to each table, in a transaction of its own: `Err` of the refused ones.
    pub(super) fn write_to_each(
        &mut self,
        session: &mut Session,
        is_sick: impl Fn(&str) -> bool,
    ) -> Result<Vec<(&'static str, Failure)>, Failure> {
        let mut refused = Vec::new();
        let in_journal = !is_sick(JOURNAL);
        for (table, made) in TABLES.iter().enumerate().filter(|(_, made)| made.name != JOURNAL) {
            let from = NEW + 10 * self.last;
            let changes = [Change { table, from, to: from + 3, deletes: false }];
            match self.commit(session, &changes, in_journal) {
                Ok(()) => {}
                Err(failure @ Failure::Sql { .. }) => refused.push((made.name, failure)),
                Err(lost) => return Err(lost),
            }
        }
        Ok(refused)
    }

    /// Prepares a transaction larger than memory.
    pub(super) fn prepare(&mut self, session: &mut Session) -> Result<(), Failure> {
        let (table, from) = (Table::index("large"), NEW_PREPARED + 1000 * self.last);
        let change = Change { table, from, to: from + PREPARED - 1, deletes: false };
        for statement in ["XA START 'large'", &change.statement(0), "XA END 'large'", "XA PREPARE 'large'"] {
            session.run(statement)?;
        }
        self.prepared = Some(change);
        Ok(())
    }

    /// Decides it.
    pub(super) fn decide(&mut self, session: &mut Session, commits: bool) -> Result<(), Failure> {
        session.run(if commits { "XA COMMIT 'large'" } else { "XA ROLLBACK 'large'" })?;
        if let Some(change) = self.prepared.take().filter(|_| commits) {
            self.settle(self.last);
            change.apply(0, &mut self.base);
        }
        Ok(())
    }

    /// True while a transaction is prepared.
    pub(super) fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// The number of the newest stored commit.
    pub(super) fn newest_there(session: &mut Session) -> Result<i64, Failure> {
        session.number(&format!("SELECT MAX(a) FROM {DATABASE}.{JOURNAL}"))
    }
}

/// Reads a table in several ways and compares it with `expected`: by its rows, by its index, backwards, by points.
pub(super) fn look(
    session: &mut Session,
    table: usize,
    expected: &Rows,
    random: &mut StdRng,
) -> Result<Vec<Answer>, Failure> {
    let made = &TABLES[table];
    let from = format!("FROM {DATABASE}.{}", made.name);
    let columns = format!("a, v, b = a * 7 + v AND pad = {}", made.pad());
    let whole: Vec<Vec<i64>> = expected.iter().map(|(a, v)| vec![*a, *v, 1]).collect();
    let mut queries = vec![
        (format!("SELECT {columns} {from} FORCE INDEX (PRIMARY)"), whole.clone()),
        (
            format!("SELECT {columns} {from} FORCE INDEX (PRIMARY) WHERE a > 0 ORDER BY a DESC"),
            whole.into_iter().rev().collect(),
        ),
    ];
    let mut by_index: Vec<Vec<i64>> = expected.iter().map(|(a, v)| vec![a * 7 + v, *a]).collect();
    by_index.sort_unstable();
    queries.push((format!("SELECT b, a {from} FORCE INDEX (b) WHERE b > 0 ORDER BY b, a"), by_index));
    for _ in 0..4 {
        let a = random.random_range(1..=made.rows);
        let row = expected.get(&a).map(|v| vec![a, *v, 1]);
        queries.push((format!("SELECT {columns} {from} WHERE a = {a}"), row.into_iter().collect()));
    }
    let mut answers = Vec::new();
    for (statement, expected) in queries {
        answers.push(match session.numbers(&statement) {
            Ok(rows) if rows == expected => Answer::Right,
            Ok(rows) => Answer::Wrong(format!("{statement}: {}", difference(&rows, &expected))),
            Err(Failure::Sql { code, message }) => Answer::Refused { code, message, statement },
            Err(lost) => return Err(lost),
        });
    }
    Ok(answers)
}

fn difference(rows: &[Vec<i64>], expected: &[Vec<i64>]) -> String {
    let first = rows.iter().zip(expected).find(|(row, expected)| row != expected);
    format!("{} rows, must be {}; the first that differ: {first:?}", rows.len(), expected.len())
}
