//! Random statements on a table and its copy.

use std::path::{Path, PathBuf};

use super::super::session::{Failure, Session};
use super::super::sql::Dice;
use super::table::{Form, Stored, Table, Virtual, STORED};
use super::{settings, HINT, NAME};

/// The use of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// On both; the copy's may be another text.
    Definition,
    /// On both: errors and changed rows must be the same.
    Change,
    /// On both: rows must be the same.
    Look,
    /// Once: settings, transactions.
    Session,
    /// CHECK TABLE of both: OK.
    Check,
    /// On the table with indexes: they are made anew.
    OnlyIndexed,
}

/// A statement.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) kind: Kind,
    /// With [`NAME`] for the table, and [`HINT`] where an index may be named.
    pub(super) text: String,
    /// Of the copy, where it is another one.
    pub(super) plain: Option<String>,
    /// The index to be used.
    pub(super) hint: String,
    /// Run before it.
    pub(super) before: Vec<String>,
    /// True if EXPLAIN is asked about the index.
    pub(super) explained: bool,
}

impl Step {
    fn new(kind: Kind, text: impl Into<String>) -> Step {
        Step {
            kind,
            text: text.into(),
            plain: None,
            hint: String::new(),
            before: Vec::new(),
            explained: false,
        }
    }

    pub(super) fn definition((indexed, plain): (String, String)) -> Step {
        Step { plain: Some(plain), ..Step::new(Kind::Definition, indexed) }
    }

    /// As the table with indexes gets it.
    pub(super) fn indexed(&self) -> String {
        self.text.replace(NAME, "t").replace(HINT, &self.hint)
    }

    /// As the copy gets it.
    pub(super) fn copied(&self) -> String {
        self.plain.as_ref().unwrap_or(&self.text).replace(NAME, "c").replace(HINT, "")
    }

    /// After an ALTER of the table with indexes: that of the copy. The server may write all expressions anew, and a
    /// collation that the session has by default is in them from then on; a key made anew as it was changes nothing.
    pub(super) fn rewritten_copy(&self) -> Option<String> {
        let plain = self.plain.as_ref().filter(|_| self.kind == Kind::OnlyIndexed);
        plain.map(|text| format!("SET STATEMENT sql_mode = '' FOR {text}"))
    }

    /// The statements in their order.
    pub(super) fn script(&self) -> Vec<String> {
        let mut all = self.before.clone();
        all.push(self.indexed());
        match self.kind {
            Kind::Definition | Kind::Change | Kind::Look => all.push(self.copied()),
            Kind::OnlyIndexed => {
                all.extend(self.rewritten_copy().into_iter().chain(["FLUSH TABLES".to_string()]));
            }
            Kind::Session | Kind::Check => {}
        }
        all
    }
}

/// Writes the statements of a program.
pub(super) struct Writer<'a> {
    table: &'a Table,
    files: Vec<PathBuf>,
    /// The second of the next change.
    clock: u64,
}

/// A helper of statements over two tables, the same for both.
const HELPER: &str =
    "(SELECT 1 AS id, 11 AS n UNION SELECT 2, 12 UNION SELECT 3, NULL UNION SELECT 5, 15 UNION SELECT 8, 18 \
     UNION SELECT 13, 19 UNION SELECT 21, 0)";
const IDS: i64 = 40;

/// An ALTER writes constants into the new definition as the open table has them: a TIMESTAMP in the zone of
/// the opening session.
fn reopened() -> Vec<String> {
    vec!["FLUSH TABLES".to_string()]
}

impl<'a> Writer<'a> {
    /// `folder`: for the files of LOAD DATA.
    pub(super) fn new(table: &'a Table, folder: &Path) -> Writer<'a> {
        let files = [
            "1\t5\ta\\nb\n2\t6\tAxB\n9\t\\N\t2020-01-01\n",
            "3\t7\t\n4\t86399\t10:11:12.6\n",
            "1\t1\tx\n1\t2\ty\n",
        ];
        let paths: Vec<PathBuf> =
            (0..files.len()).map(|n| folder.join(format!("virtuals-{n}.txt"))).collect();
        for (path, content) in paths.iter().zip(files) {
            // A file that is not there is an error of both statements.
            let _ = std::fs::write(path, content);
        }
        Writer { table, files: paths, clock: 1_600_000_000 }
    }

    /// The next statement.
    pub(super) fn next(&mut self, dice: &mut Dice, session: &mut Session) -> Result<Step, Failure> {
        Ok(match dice.number(0, 99) {
            0..=9 => self.setting(dice),
            10..=13 => {
                let others = if self.table.form == Form::Partitioned { ", x_t, x_c" } else { "" };
                Step::new(Kind::Check, format!("CHECK TABLE t, c{others} EXTENDED"))
            }
            14..=15 => self.rebuild(dice),
            16..=18 => {
                let text = dice.word(&[
                    "BEGIN",
                    "COMMIT",
                    "ROLLBACK",
                    "SAVEPOINT a",
                    "ROLLBACK TO SAVEPOINT a",
                    "COMMIT",
                ]);
                Step::new(Kind::Session, text)
            }
            19 => self.both_definitions(dice),
            20..=59 => {
                self.clock += 1;
                let mut step = Step::new(Kind::Change, self.change(dice, session)?);
                step.before.push(format!("SET timestamp = {}", self.clock));
                step
            }
            _ => self.look(dice, session)?,
        })
    }

    fn setting(&mut self, dice: &mut Dice) -> Step {
        let (text, is_kept) = settings::change(dice);
        if let Some(second) = text.strip_prefix("SET timestamp = ") {
            self.clock = second.parse().unwrap_or(self.clock);
        }
        if text == settings::DEFAULTS {
            self.clock = 1_600_000_000;
        }
        let mut step = Step::new(Kind::Session, text);
        if is_kept && dice.one_in(2) {
            step.before.push("FLUSH TABLES".to_string());
        }
        step
    }

    fn rebuild(&self, dice: &mut Dice) -> Step {
        let number = dice.count(0, self.table.virtuals.len() - 1);
        let key = self.table.keys[number].clone();
        let name = format!("vk{number}");
        let way = dice.word(&["", ", ALGORITHM=INPLACE", ", ALGORITHM=COPY", ", ALGORITHM=NOCOPY"]);
        let (text, plain) = match dice.number(0, 3) {
            0 => ("ANALYZE TABLE t".to_string(), None),
            1 => ("ALTER TABLE t FORCE".to_string(), Some("ALTER TABLE c FORCE".to_string())),
            _ => (
                format!("ALTER TABLE t DROP KEY {name}, ADD {key}{way}"),
                Some(format!("ALTER TABLE c DROP KEY {name}, ADD {key} IGNORED{way}")),
            ),
        };
        Step { before: reopened(), plain, ..Step::new(Kind::OnlyIndexed, text) }
    }

    fn both_definitions(&self, dice: &mut Dice) -> Step {
        // The server writes the expressions anew in each change of partitions, and asks no engine.
        let text = match (self.table.form, dice.number(0, 3)) {
            (Form::Partitioned, 0) => format!("ALTER TABLE {NAME} COALESCE PARTITION 1"),
            (Form::Partitioned, 1) => format!("ALTER TABLE {NAME} ADD PARTITION PARTITIONS 1"),
            (Form::Partitioned, 2) => format!("ALTER TABLE {NAME} REBUILD PARTITION p{}", dice.number(0, 2)),
            (Form::Partitioned, _) => {
                format!("ALTER TABLE {NAME} EXCHANGE PARTITION p{} WITH TABLE x_{NAME}", dice.number(0, 2))
            }
            (Form::ByTime, 0) => format!("ALTER TABLE {NAME} REBUILD PARTITION ALL"),
            (_, 0) => format!("ALTER TABLE {NAME} FORCE"),
            (_, 1) => format!("TRUNCATE TABLE {NAME}"),
            (_, 2) => {
                format!("ALTER TABLE {NAME} ADD COLUMN IF NOT EXISTS more INT DEFAULT 7, ALGORITHM=INSTANT")
            }
            _ => format!("ALTER TABLE {NAME} DROP COLUMN IF EXISTS more, ALGORITHM=INSTANT"),
        };
        Step { before: reopened(), ..Step::new(Kind::Change, text) }
    }

    fn assignment(&self, dice: &mut Dice) -> String {
        let count = dice.count(1, 3);
        let columns = dice.some(&self.table.stored.iter().map(|c| c.name).collect::<Vec<_>>(), count);
        let all: Vec<String> = columns
            .iter()
            .filter_map(|name| self.table.stored.iter().find(|column| column.name == *name))
            .map(|column| format!("{NAME}.{} = {}", column.name, dice.word(column.values)))
            .collect();
        all.join(", ")
    }

    fn rows(&self, dice: &mut Dice) -> String {
        let columns: Vec<&&Stored> = self.table.stored.iter().collect();
        let mut names = vec!["id"];
        names.extend(columns.iter().map(|column| column.name));
        if self.table.form == Form::Period {
            names.extend(["ps", "pe"]);
        }
        let count = dice.count(1, 4);
        let rows: Vec<String> = (0..count)
            .map(|_| {
                let mut values = vec![dice.number(1, IDS).to_string()];
                values.extend(columns.iter().map(|column| dice.word(column.values).to_string()));
                if self.table.form == Form::Period {
                    let month = dice.number(1, 6);
                    values.push(format!("'2020-0{month}-01'"));
                    values.push(format!("'2020-0{}-15'", month + dice.number(0, 3)));
                }
                format!("({})", values.join(", "))
            })
            .collect();
        format!("({}) VALUES {}", names.join(", "), rows.join(", "))
    }

    fn change(&self, dice: &mut Dice, session: &mut Session) -> Result<String, Failure> {
        let ignore = dice.word(&["", "", " IGNORE"]);
        let id = dice.number(1, IDS);
        let several = format!("{NAME}.id IN ({id}, {}, {})", id + 1, dice.number(1, IDS));
        let set = self.assignment(dice);
        let single = set.replace(&format!("{NAME}."), "");
        Ok(match dice.number(0, 13) {
            0..=2 => format!("INSERT{ignore} INTO {NAME} {}", self.rows(dice)),
            3 => format!("INSERT{ignore} INTO {NAME} {} ON DUPLICATE KEY UPDATE {single}", self.rows(dice)),
            4 => format!("REPLACE INTO {NAME} {}", self.rows(dice)),
            5 => format!("UPDATE{ignore} {NAME} SET {single} WHERE {several} ORDER BY id"),
            6 => {
                let condition = self.condition(dice, session)?;
                format!("UPDATE{ignore} {NAME} SET {single} WHERE {condition} ORDER BY id")
            }
            7 | 8 => format!("UPDATE{ignore} {NAME}, {HELPER} AS h SET {set} WHERE {NAME}.id = h.id"),
            9 => format!("DELETE FROM {NAME} WHERE {}", self.condition(dice, session)?),
            10 => format!(
                "DELETE {NAME} FROM {NAME}, {HELPER} AS h WHERE {NAME}.id = h.id AND h.n > {}",
                dice.number(10, 20)
            ),
            11 => {
                let path = dice.pick(&self.files).display();
                let way = dice.word(&["", "REPLACE", "IGNORE"]);
                let period = if self.table.form == Form::Period {
                    " SET ps = '2020-02-02', pe = '2020-05-05'"
                } else {
                    ""
                };
                format!("LOAD DATA INFILE '{path}' {way} INTO TABLE {NAME} (id, i, s){period}")
            }
            12 => self.special(dice, &single),
            _ if self.table.form == Form::Period => {
                format!("UPDATE {NAME} SET id = id + 100 WHERE id = {id}")
            }
            _ => format!("UPDATE {NAME} SET id = {}, {single} WHERE id = {id}", dice.number(1, 2 * IDS)),
        })
    }

    fn special(&self, dice: &mut Dice, set: &str) -> String {
        let from = dice.number(1, 6);
        let portion =
            format!("FOR PORTION OF p FROM '2020-0{from}-05' TO '2020-0{}-20'", from + dice.number(0, 3));
        match self.table.form {
            Form::Period if dice.one_in(2) => format!("UPDATE {NAME} {portion} SET {set}"),
            Form::Period => format!("DELETE FROM {NAME} {portion} WHERE id < {}", dice.number(1, IDS)),
            Form::Versioned | Form::ByTime => format!("DELETE HISTORY FROM {NAME}"),
            Form::Plain | Form::Partitioned => format!(
                "INSERT INTO {NAME} (id, i, s, ts) SELECT h.id + {}, h.n, 'x', '2020-01-01 22:00:00' FROM {HELPER} AS h ORDER BY h.id",
                dice.number(0, IDS)
            ),
        }
    }

    /// A literal: a current value of the copy in this column.
    fn literal(&self, dice: &mut Dice, session: &mut Session, column: &Virtual) -> Result<String, Failure> {
        let name = &column.name;
        let value = match column.kind {
            kind if kind.starts_with("BIT") => format!("{name} + 0"),
            _ => format!("QUOTE({name})"),
        };
        let query = format!("SELECT {value} FROM c ORDER BY id LIMIT 1 OFFSET {}", dice.number(0, 12));
        let row = match session.rows(&query) {
            Ok(rows) => rows.into_iter().next(),
            Err(Failure::Sql { .. }) => None,
            Err(failure) => return Err(failure),
        };
        let text = row.and_then(|row| row.into_iter().next()).unwrap_or_else(|| "NULL".to_string());
        let is_number = ["INT", "BIGINT", "TINYINT", "DOUBLE", "YEAR"].contains(&column.kind)
            || column.kind.starts_with("DECIMAL");
        Ok(if is_number { text.trim_matches('\'').to_string() } else { text })
    }

    fn condition(&self, dice: &mut Dice, session: &mut Session) -> Result<String, Failure> {
        let column = dice.pick(&self.table.virtuals).clone();
        self.condition_on(dice, session, &column, "")
    }

    fn condition_on(
        &self,
        dice: &mut Dice,
        session: &mut Session,
        column: &Virtual,
        alias: &str,
    ) -> Result<String, Failure> {
        let one = self.literal(dice, session, column)?;
        let other = self.literal(dice, session, column)?;
        let name = format!("{alias}{}", column.name);
        Ok(match dice.number(0, 7) {
            0..=2 => format!("{name} = {one}"),
            3 => format!("{name} > {one}"),
            4 => format!("{name} <= {one}"),
            5 => format!("{name} IN ({one}, {other})"),
            6 => format!("{name} <=> {one}"),
            _ => format!("{name} IS NULL"),
        })
    }

    fn look(&self, dice: &mut Dice, session: &mut Session) -> Result<Step, Failure> {
        let number = dice.count(0, self.table.virtuals.len() - 1);
        let column = self.table.virtuals[number].clone();
        let name = &column.name;
        let is_versioned = matches!(self.table.form, Form::Versioned | Form::ByTime);
        let all = if is_versioned && dice.one_in(2) { " FOR SYSTEM_TIME ALL" } else { "" };
        let condition = self.condition_on(dice, session, &column, "a.")?;
        let table = format!("{NAME}{all} AS a{HINT}");
        let is_text = ["VARCHAR", "CHAR", "TEXT", "BLOB", "MEDIUMTEXT", "JSON", "ENUM", "SET"]
            .iter()
            .any(|kind| column.kind.starts_with(kind));
        let text = match dice.number(0, 8) {
            0 | 1 => format!("SELECT a.id, a.{name} FROM {table} WHERE {condition}"),
            2 => {
                let columns: Vec<String> = STORED.iter().map(|stored| format!("a.{}", stored.name)).collect();
                let virtuals: Vec<String> = self.table.virtuals.iter().map(|other| format!("a.{}", other.name)).collect();
                format!("SELECT a.id, {}, {} FROM {table} WHERE {condition}", columns.join(", "), virtuals.join(", "))
            }
            3 => format!("SELECT a.{name} FROM {table} WHERE {condition} ORDER BY a.{name}"),
            4 => format!("SELECT COUNT(*), COUNT(a.{name}), COUNT(DISTINCT a.{name}) FROM {table}"),
            5 if !is_text => format!("SELECT MIN(a.{name}), MAX(a.{name}) FROM {table}"),
            5 | 6 => format!("SELECT COUNT(*) FROM {table} GROUP BY a.{name}"),
            7 => format!("SELECT a.id FROM {table} WHERE {condition} FOR UPDATE"),
            _ => format!(
                "SELECT b.id, a.id FROM {NAME} AS b STRAIGHT_JOIN {table} ON a.{name} = b.{name} WHERE b.id < {}",
                dice.number(1, IDS)
            ),
        };
        let hint = if dice.one_in(4) { String::new() } else { format!(" FORCE INDEX (vk{number})") };
        Ok(Step { hint, explained: dice.one_in(10), ..Step::new(Kind::Look, text) })
    }
}
