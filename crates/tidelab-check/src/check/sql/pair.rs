//! One server, two connections: the same statements on InnoDB's tables and on TidesDB's, the answers
//! compared.
//!
//! InnoDB's answer to a query, by its optimizer's plan, must be the answer of all of TidesDB's plans: its own
//! one, without pushdown and multi-range read, with all of them, and by every key. Where one differs, InnoDB
//! runs the same plan. If InnoDB then answers as TidesDB did, the mistake counts as the server's.

use std::collections::{BTreeMap, HashSet};

use tidelab_server::server::Server;

use super::super::session::{Failure, Session};
use super::answer::{ask, difference, only_in, same_rows, Answer};
use super::known;
use super::marks::Piece;
use super::program::{Program, Sort, Step};

const DATABASES: [(&str, &str); 2] = [("sql_innodb", "InnoDB"), ("sql_tidesdb", "TidesDB")];

/// Ways to run a query: the optimizer's permissions.
const WAYS: [&str; 4] = [
    "optimizer_switch=default, join_cache_level=default, join_buffer_size=default, mrr_buffer_size=default",
    "optimizer_switch='index_condition_pushdown=off,mrr=off,rowid_filter=off,index_merge=off', join_cache_level=0",
    "optimizer_switch='mrr=on,mrr_sort_keys=on,mrr_cost_based=off,rowid_filter=on,index_merge_sort_intersection=on,\
     index_condition_pushdown=on,index_merge=on,optimize_join_buffer_size=off', join_cache_level=8, \
     join_buffer_size=262144, mrr_buffer_size=8192",
    "optimizer_switch='mrr=on,mrr_sort_keys=off,mrr_cost_based=off,rowid_filter=on,index_condition_pushdown=on,\
     index_merge=on,optimize_join_buffer_size=off', join_cache_level=6, join_buffer_size=262144",
];

/// Two different answers.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    /// The statement's number in the program.
    pub(super) step: usize,
    /// The difference.
    pub(super) what: String,
    /// The statement before it to force a plan: a SET, or nothing.
    pub(super) way: String,
    /// As TidesDB got it.
    pub(super) statement: String,
    pub(super) innodb: String,
    pub(super) tidesdb: String,
}

/// The counts over all programs.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Queries run in another way.
    pub(super) other_ways: u64,
    /// Of those, answers given by InnoDB as well in this way, other than its own.
    pub(super) server_mistakes: u64,
    /// The first of them.
    pub(super) first_mistake: Option<String>,
    /// Differences with a reason, and how often each came.
    pub(super) known: BTreeMap<&'static str, u64>,
    /// Statements refused by both.
    pub(super) refused: u64,
}

struct Side {
    session: Session,
    way: usize,
}

impl Side {
    fn go(&mut self, way: usize) -> Result<(), Failure> {
        if self.way != way {
            self.session.run(&format!("SET {}", WAYS[way]))?;
            self.way = way;
        }
        Ok(())
    }
}

/// The two connections, for one program.
pub(super) struct Pair {
    innodb: Side,
    tidesdb: Side,
    step: usize,
    ended: bool,
}

/// True if a statement was accepted, or the difference.
pub(super) type Outcome = Result<bool, Box<Difference>>;

impl Pair {
    /// Connects, with empty databases.
    pub(super) fn open(server: &Server) -> Result<Pair, Failure> {
        let open = |(database, engine): (&str, &str)| -> Result<Side, Failure> {
            let mut session = Session::open(server.socket())?;
            for statement in opening(database, engine) {
                session.run(&statement)?;
            }
            Ok(Side { session, way: 0 })
        };
        Ok(Pair { innodb: open(DATABASES[0])?, tidesdb: open(DATABASES[1])?, step: 0, ended: false })
    }

    /// A difference with a reason left two unequal tables: the program ends here.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Runs a statement of a program on both sides. True when InnoDB accepted it.
    pub(super) fn run(
        &mut self,
        step: &Step,
        text: impl Fn(&str) -> Option<String>,
        counts: &mut Counts,
    ) -> Outcome {
        let number = self.step;
        self.step += 1;
        let Some(statement) = text("") else { return Ok(false) };
        self.compare(step, number, &statement, text, counts).unwrap_or_else(|lost| {
            Err(Box::new(Difference {
                step: number,
                what: "the connection".to_string(),
                way: String::new(),
                statement,
                innodb: String::new(),
                tidesdb: lost.to_string(),
            }))
        })
    }

    fn compare(
        &mut self,
        step: &Step,
        number: usize,
        statement: &str,
        text: impl Fn(&str) -> Option<String>,
        counts: &mut Counts,
    ) -> Result<Outcome, Failure> {
        for side in [&mut self.innodb, &mut self.tidesdb] {
            side.go(0)?;
            if matches!(step.sort, Sort::Change | Sort::Definition) {
                // Rows of one statement have one moment, those of the next a later one.
                side.session.run(&format!("SET timestamp = {}", 1_700_000_000 + number))?;
            }
        }
        let there = ask(&mut self.innodb.session, &format!("{statement}{}", step.innodb), step.sort)?;
        let here = ask(&mut self.tidesdb.session, statement, step.sort)?;
        if let Some(what) = difference(step, &there, &here) {
            if step.sort == Sort::Query
                && (self.has_broken_plan(step, statement, &there)?
                    || self.innodb_contradicts_itself(step, statement, &text, &here)?)
            {
                counts.server_mistakes += 1;
                counts.first_mistake.get_or_insert_with(|| statement.to_string());
                return Ok(Ok(there.error.is_none()));
            }
            let Some(reason) = known::reason(step, statement, &there, &here) else {
                return Ok(Err(told(number, what, "", statement, &there, &here)));
            };
            *counts.known.entry(reason.text).or_default() += 1;
            self.ended |= reason.ends;
        }
        counts.refused += u64::from(there.error.is_some() && here.error.is_some());
        if step.sort == Sort::Query && !step.looks && there.error.is_none() {
            if let Some(different) = self.other_ways(step, number, text, &there, counts)? {
                return Ok(Err(different));
            }
        }
        Ok(Ok(there.error.is_none()))
    }

    /// Without any key InnoDB answers as TidesDB does: its own answer was the mistake.
    fn innodb_contradicts_itself(
        &mut self,
        step: &Step,
        statement: &str,
        text: impl Fn(&str) -> Option<String>,
        here: &Answer,
    ) -> Result<bool, Failure> {
        if step.keys.is_empty() {
            return Ok(false);
        }
        // A key that a look is forced to stands in its text. Without that key another one may have the same mistake.
        const FORCE: &str = " FORCE INDEX (";
        let none = format!(" IGNORE INDEX ({})", step.keys.join(", "));
        let forced = statement.split_once(FORCE).filter(|_| step.looks);
        let ignoring = match forced.and_then(|(before, rest)| Some((before, rest.split_once(')')?.1))) {
            Some((before, after)) => Some(format!("{before}{none}{after}")),
            None => text(&none),
        };
        let Some(statement) = ignoring else { return Ok(false) };
        self.innodb.go(1)?;
        let there = ask(&mut self.innodb.session, &statement, step.sort)?;
        Ok(there.error.is_none() && same(step, &there, here))
    }

    /// True if the server executes TidesDB's plan wrongly with every engine (docs/optimizer.md):
    ///
    /// - A join by batches without enough memory for them: the condition moved to the index is lost.
    /// - LooseScan, for rows in the order of their key, over rows put in another order by multi-range read.
    /// - A loose index scan for several ranges, one of them on a later column, finds nothing.
    /// - A join by hashes compares texts of `..._bin` with their trailing spaces: right without hashes.
    fn has_broken_plan(&mut self, step: &Step, statement: &str, wanted: &Answer) -> Result<bool, Failure> {
        let plan = ask(&mut self.tidesdb.session, &format!("EXPLAIN {statement}"), Sort::Look)?;
        let extras: Vec<String> = plan
            .rows
            .iter()
            .map(|row| {
                String::from_utf8_lossy(row.last().and_then(Option::as_deref).unwrap_or_default())
                    .into_owned()
            })
            .collect();
        let is_broken = |extra: &String| {
            let says = |what: &str| extra.contains(what);
            says("(BKA)") && !says("join buffer")
                || says("LooseScan") && says("ordered scan")
                || says("Using index for group-by") && statement.contains(" OR ")
        };
        if extras.iter().any(is_broken) {
            return Ok(true);
        }
        if !extras.iter().any(|extra| extra.contains("BNLH")) {
            return Ok(false);
        }
        self.tidesdb.session.run("SET optimizer_switch='join_cache_hashed=off'")?;
        let here = ask(&mut self.tidesdb.session, statement, step.sort)?;
        self.tidesdb.session.run("SET optimizer_switch='join_cache_hashed=on'")?;
        Ok(same(step, wanted, &here))
    }

    /// The query in all other ways.
    fn other_ways(
        &mut self,
        step: &Step,
        number: usize,
        text: impl Fn(&str) -> Option<String>,
        wanted: &Answer,
        counts: &mut Counts,
    ) -> Result<Option<Box<Difference>>, Failure> {
        let mut ways = vec![(1, String::new()), (2 + number % 2, String::new())];
        for (i, key) in step.keys.iter().enumerate() {
            ways.push(((number + i) % WAYS.len(), format!(" FORCE INDEX ({key})")));
        }
        ways.sort_by_key(|(way, _)| *way);
        for (way, hint) in ways {
            let Some(statement) = text(&hint) else { continue };
            self.tidesdb.go(way)?;
            counts.other_ways += 1;
            let here = ask(&mut self.tidesdb.session, &statement, step.sort)?;
            if same(step, wanted, &here) {
                continue;
            }
            self.innodb.go(way)?;
            let there = ask(&mut self.innodb.session, &statement, step.sort)?;
            if same(step, &there, &here) {
                counts.server_mistakes += 1;
                counts.first_mistake.get_or_insert_with(|| format!("SET {}; {statement}", WAYS[way]));
                continue;
            }
            if self.has_broken_plan(step, &statement, wanted)?
                || self.innodb_contradicts_itself(step, &statement, &text, &here)?
            {
                counts.server_mistakes += 1;
                counts.first_mistake.get_or_insert_with(|| statement.clone());
                return Ok(None);
            }
            if let Some(reason) = known::reason(step, &statement, &there, &here) {
                *counts.known.entry(reason.text).or_default() += 1;
                continue;
            }
            let way = format!("SET {}", WAYS[way]);
            return Ok(Some(told(number, "the rows", &way, &statement, wanted, &here)));
        }
        Ok(None)
    }
}

/// Errors and rows; warnings of a query depend on how often a condition is looked at.
fn same(step: &Step, one: &Answer, other: &Answer) -> bool {
    one.error.as_ref().map(|e| e.0) == other.error.as_ref().map(|e| e.0)
        && same_rows(step.ordered, &one.rows, &other.rows)
}

fn told(
    step: usize,
    what: &str,
    way: &str,
    statement: &str,
    innodb: &Answer,
    tidesdb: &Answer,
) -> Box<Difference> {
    let side = |mine: &Answer, others: &Answer| {
        let mut text = mine.to_string();
        let only = only_in(&mine.rows, &others.rows);
        if !only.is_empty() && !others.rows.is_empty() {
            text.push_str(&format!(
                "only here: {}\n",
                only.iter().take(5).cloned().collect::<Vec<_>>().join("; ")
            ));
        }
        text
    };
    Box::new(Difference {
        step,
        what: what.to_string(),
        way: way.to_string(),
        statement: statement.to_string(),
        innodb: side(innodb, tidesdb),
        tidesdb: side(tidesdb, innodb),
    })
}

/// The first statements of a connection.
fn opening(database: &str, engine: &str) -> Vec<String> {
    vec![
        "SET NAMES utf8mb4".to_string(),
        // A database goes as a whole with DROP DATABASE alone: here its foreign keys would stand up for their parents.
        "SET foreign_key_checks = 0".to_string(),
        format!("CREATE OR REPLACE DATABASE {database} CHARACTER SET utf8mb4"),
        "SET foreign_key_checks = 1".to_string(),
        format!("USE {database}"),
        format!("SET default_storage_engine = {engine}, max_error_count = 65535, time_zone = '+00:00'"),
    ]
}

/// Runs a program without some of its pieces, from empty databases, up to its first difference.
pub(super) fn replay(
    server: &Server,
    program: &Program,
    removed: &HashSet<Piece>,
) -> Result<Option<Box<Difference>>, Failure> {
    let mut pair = Pair::open(server)?;
    let mut counts = Counts::default();
    for (i, step) in program.steps.iter().enumerate() {
        if let Err(difference) = pair.run(step, |hint| program.text(i, removed, hint), &mut counts) {
            return Ok(Some(difference));
        }
        if pair.has_ended() {
            break;
        }
    }
    Ok(None)
}

/// A script to paste: the statements up to the difference, and both answers.
pub(super) fn script(program: &Program, removed: &HashSet<Piece>, found: &Difference) -> String {
    let mut text =
        String::from("-- With TidesDB; the other answer is that of default_storage_engine = InnoDB.\n");
    for line in opening("sql_difference", "TidesDB") {
        text.push_str(&format!("{line};\n"));
    }
    for (i, step) in program.steps.iter().enumerate().take(found.step) {
        if let Some(statement) = program.text(i, removed, "") {
            let copies = if step.innodb.is_empty() { "" } else { " -- InnoDB: by a copy" };
            text.push_str(&format!("{statement};{copies}\n"));
        }
    }
    if !found.way.is_empty() {
        text.push_str(&format!("{};\n", found.way));
    }
    text.push_str(&format!("{};\n", found.statement));
    let commented = |answer: &str| answer.lines().map(|l| format!("--   {l}\n")).collect::<String>();
    text.push_str(&format!("-- {} differs. InnoDB:\n{}", found.what, commented(&found.innodb)));
    text.push_str(&format!("-- TidesDB:\n{}", commented(&found.tidesdb)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_what_is_left_and_both_answers() {
        let program = Program::new(vec![
            Step::new(Sort::Definition, "CREATE TABLE t (a INT)"),
            Step::new(Sort::Change, "INSERT INTO t VALUES (1)"),
            Step::new(Sort::Query, "SELECT a FROM t"),
        ]);
        let removed = HashSet::from([program.statements()[1]]);
        let found = told(
            2,
            "the rows",
            "SET x=1",
            "SELECT a FROM t",
            &Answer::default(),
            &Answer { rows: vec![vec![None]], ..Answer::default() },
        );
        let text = script(&program, &removed, &found);
        assert!(text.contains("CREATE TABLE t (a INT);\nSET x=1;\nSELECT a FROM t;\n"), "{text}");
        assert!(!text.contains("INSERT"), "{text}");
        assert!(
            text.contains("--   0 rows") && text.contains("--   1 rows") && text.contains("--     NULL"),
            "{text}"
        );
    }
}
