//! `search`: random texts and queries in full text indexes, against a model that reads all rows.
//!
//! A round has one random table ([`table`]) of random texts ([`vocabulary`]). Each query ([`wording`]) has an answer by the
//! model ([`model`]), over rows that a scan in the same snapshot returned. The model cuts words ([`words`]) and reads
//! the grammar ([`grammar`]) by itself; the server alone says if a collation finds two words equal ([`terms`]).

mod by_match;
mod changes;
mod forms;
mod grammar;
mod load;
mod model;
mod plants;
mod snapshot;
mod table;
mod terms;
mod vocabulary;
mod wording;
mod words;

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use tidelab_server::error::Result;
use tidelab_server::server::settings::{setting, Setting};
use tidelab_server::server::Server;

use self::changes::Changes;
use self::forms::Asked;
use self::load::Shape;
use self::snapshot::{Oracle, Snapshot};
use self::table::{Table, TABLE};
use self::vocabulary::Vocabulary;
use super::session::{Failure, Session};
use super::sql::Dice;
use super::{conclude, connect, must, progress, rounds, set_up, Check, Lab, Verdict};

/// Counts of a whole run.
#[derive(Default)]
struct Counts {
    questions: u64,
    /// Questions outside the grammar.
    refused: u64,
    /// Questions that some row matched, and not all.
    telling: u64,
    /// Questions WITH QUERY EXPANSION.
    expanded: u64,
    changes: u64,
}

impl Counts {
    /// Complaints about an idle check.
    fn too_little(&self) -> Option<String> {
        let idle =
            self.refused == 0 || self.expanded == 0 || self.changes == 0 || self.telling * 3 < self.questions;
        idle.then(|| format!("hardly anything was compared: {}", line(self)))
    }
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let wanted = lab.rounds.unwrap_or(if lab.short { 9 } else { 200 });
    let mut server = lab.start(&server_settings())?;
    let mut oracle = must("open", Oracle::open(connect(&server)?))?;
    let mut counts = Counts::default();
    let done = rounds::run(lab, wanted, |number, seed| {
        let wrong = round(lab, &mut server, &mut oracle, seed, &mut counts)?;
        if number % 10 == 9 {
            progress(Check::Search, &format!("{} rounds, {}", number + 1, line(&counts)));
        }
        Ok(wrong)
    })?;
    let mut complaints = done.complaints;
    if complaints.is_empty() {
        complaints.extend(counts.too_little());
        complaints.extend(plants::complaints(lab, &mut server, &mut oracle)?);
    }
    conclude(server, format!("{} rounds, {}", done.done, line(&counts)), complaints)
}

fn line(counts: &Counts) -> String {
    format!(
        "{} queries ({} refused by the grammar, {} with query expansion, {} with some of the rows), {} changes",
        counts.questions, counts.refused, counts.expanded, counts.telling, counts.changes
    )
}

fn server_settings() -> Vec<Setting> {
    [
        ("performance_schema", "OFF"),
        ("query_cache_type", "OFF"),
        ("tidesdb_unified_memtable_write_buffer_size", "1M"),
        ("tidesdb_block_cache_size", "8M"),
        ("innodb_flush_log_at_trx_commit", "0"),
    ]
    .map(|(name, value)| setting(name, value))
    .to_vec()
}

/// One round's state.
struct Round<'a> {
    oracle: &'a mut Oracle,
    counts: &'a mut Counts,
    changes: &'a Changes<'a>,
    complaints: Vec<String>,
}

fn round(
    lab: &Lab<'_>,
    server: &mut Server,
    oracle: &mut Oracle,
    seed: u64,
    counts: &mut Counts,
) -> Result<Vec<String>> {
    let mut dice = Dice::new(seed);
    let mut session = connect(server)?;
    let pessimistic = dice.one_in(2);
    let mode = format!("SET GLOBAL tidesdb_pessimistic_locking = {}", i32::from(pessimistic));
    set_up(&mut session, &[&mode])?;
    // (A session begins with the mode.)
    let mut session = connect(server)?;
    set_up(&mut session, &["SET NAMES utf8mb4", "CREATE OR REPLACE DATABASE search", "USE search"])?;
    let table = Table::draw(&mut dice);
    let vocabulary = Vocabulary::draw(&mut dice, table.is_unicode(), &table.rules.blend);
    let changes =
        Changes { table: &table, vocabulary: &vocabulary, long: dice.one_in(5), next_tag: AtomicI64::new(1) };
    let definition = table.definition();
    set_up(&mut session, &definition.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut round = Round { oracle, counts, changes: &changes, complaints: Vec::new() };
    let mut done = round.at_rest(&mut dice, &mut session);
    drop(session);
    if done.is_ok() && round.complaints.is_empty() {
        done = round.under_load(lab, server, &mut dice, pessimistic)?;
    }
    let mut complaints = round.complaints;
    complaints.extend(done.err().map(|failed| format!("{}: {}", failed.statement, failed.failure)));
    if !complaints.is_empty() {
        complaints.push(definition[1..].join("; "));
    }
    Ok(complaints)
}

/// How the rows are read before questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// Nobody else is at work, and nothing is uncommitted: scores are known.
    AtRest,
    /// Nobody else is at work.
    Alone,
    /// In a snapshot, alongside others.
    InSnapshot,
    /// With locks on all rows, alongside others.
    Locking,
}

type Done<T> = std::result::Result<T, Asked>;

/// Runs a statement.
fn run_one(session: &mut Session, statement: &str) -> Done<u64> {
    session.run(statement).map_err(|failure| Asked { statement: statement.to_string(), failure })
}

impl Round<'_> {
    /// One connection alone.
    fn at_rest(&mut self, dice: &mut Dice, session: &mut Session) -> Done<()> {
        for _ in 0..dice.count(1, 8) {
            let rows = dice.count(1, 30);
            run_one(session, &self.changes.insert(dice, "REPLACE", rows))?;
        }
        self.questions(dice, session, 25, Asking::AtRest)?;
        for _ in 0..dice.count(2, 6) {
            if !self.complaints.is_empty() {
                return Ok(());
            }
            run_one(session, "BEGIN")?;
            for _ in 0..dice.count(1, 6) {
                self.change(dice, session)?;
            }
            self.questions(dice, session, 6, Asking::Alone)?;
            self.changes_by_match(dice, session)?;
            run_one(session, dice.word(&["COMMIT", "COMMIT", "ROLLBACK"]))?;
            self.questions(dice, session, 4, Asking::AtRest)?;
        }
        self.look(session)
    }

    /// All clients at once, and a kill of the server sometimes; then one alone.
    fn under_load(
        &mut self,
        lab: &Lab<'_>,
        server: &mut Server,
        dice: &mut Dice,
        pessimistic: bool,
    ) -> Result<Done<()>> {
        let shape = Shape {
            time: Duration::from_millis(if lab.short { 500 } else { dice.number(300, 1_500) as u64 }),
            defines: dice.one_in(2),
            locks: pessimistic,
        };
        let kills = dice.one_in(6);
        let socket = server.socket().to_path_buf();
        let mut crashed = Ok(());
        let complaints = load::load(self, dice, &socket, &shape, kills, || {
            if kills {
                crashed = server.check_alive().and_then(|()| server.crash());
            }
        });
        self.complaints.extend(complaints);
        crashed?;
        if kills {
            server.restart(&server_settings(), lab.interrupt)?;
            // Its words may be lost.
            *self.oracle = must("open", Oracle::open(connect(server)?))?;
        } else {
            server.check_alive()?;
        }
        let mut session = connect(server)?;
        set_up(&mut session, &["SET NAMES utf8mb4", "USE search"])?;
        if !self.complaints.is_empty() {
            return Ok(Ok(()));
        }
        Ok(self.look(&mut session).and_then(|()| self.questions(dice, &mut session, 10, Asking::AtRest)))
    }

    /// A change of some rows, which may be refused for a duplicate.
    fn change(&mut self, dice: &mut Dice, session: &mut Session) -> Done<()> {
        let statement = self.changes.change(dice);
        self.counts.changes += 1;
        match run_one(session, &statement) {
            // A duplicate; a column without NULL.
            Err(Asked { failure: Failure::Sql { code: 1062 | 1048, .. }, .. }) | Ok(_) => Ok(()),
            Err(failed) => Err(failed),
        }
    }

    /// Changes of the rows that match, in the open transaction, undone again.
    fn changes_by_match(&mut self, dice: &mut Dice, session: &mut Session) -> Done<()> {
        let table = self.changes.table;
        let statement = table.read_all();
        let failed = |failure| Asked { statement: statement.clone(), failure };
        let snapshot = Snapshot::read(session, self.oracle, table, &statement).map_err(failed)?;
        for _ in 0..2 {
            let question =
                snapshot.question(dice, self.oracle, table, self.changes.vocabulary).map_err(failed)?;
            run_one(session, "SAVEPOINT by_match")?;
            let found = by_match::change(dice, session, &snapshot, &question)?;
            self.complaints.extend(found);
            run_one(session, "ROLLBACK TO by_match")?;
            self.counts.changes += 1;
        }
        Ok(())
    }

    /// Asks random questions over the rows as they are now.
    fn questions(
        &mut self,
        dice: &mut Dice,
        session: &mut Session,
        count: usize,
        asking: Asking,
    ) -> Done<()> {
        let table = self.changes.table;
        let statement =
            format!("{}{}", table.read_all(), if asking == Asking::Locking { " FOR UPDATE" } else { "" });
        let failed = |failure| Asked { statement: statement.clone(), failure };
        let mut snapshot = Snapshot::read(session, self.oracle, table, &statement).map_err(failed)?;
        if asking == Asking::AtRest {
            snapshot.read_figures(session, table).map_err(failed)?;
        }
        for _ in 0..count {
            let mut one = || snapshot.question(dice, self.oracle, table, self.changes.vocabulary);
            let questions = [one().map_err(failed)?, one().map_err(failed)?];
            self.counts.questions += 1;
            self.counts.expanded += u64::from(questions[0].expands);
            match &questions[0].answer {
                None => self.counts.refused += 1,
                Some(answer) => {
                    let matching = answer.iter().filter(|outcome| outcome.matches).count();
                    self.counts.telling += u64::from(matching > 0 && matching < answer.len());
                }
            }
            let lock = match asking {
                Asking::AtRest | Asking::Alone => {
                    dice.word(&["", "", "", " FOR UPDATE", " LOCK IN SHARE MODE"])
                }
                Asking::InSnapshot => "",
                Asking::Locking => dice.word(&[" FOR UPDATE", " LOCK IN SHARE MODE"]),
            };
            let form = if asking == Asking::Locking {
                *dice.pick(&forms::LOCKING)
            } else {
                dice.count(0, forms::FORMS - 1)
            };
            let sorts = table.partitions == 0;
            match forms::ask(dice, session, form, &snapshot, &questions, lock, sorts) {
                Ok(None) => {}
                Ok(Some(complaint)) => self.complaints.push(complaint),
                Err(Asked { statement, failure: failure @ Failure::Sql { .. } })
                    if !matches!(asking, Asking::InSnapshot | Asking::Locking) || !failure.is_conflict() =>
                {
                    self.complaints.push(format!("{statement}: {failure}"));
                }
                Err(failed) => return Err(failed),
            }
        }
        Ok(())
    }

    /// CHECK TABLE finds nothing.
    fn look(&mut self, session: &mut Session) -> Done<()> {
        let statement = format!("CHECK TABLE {TABLE} EXTENDED");
        let rows =
            session.rows(&statement).map_err(|failure| Asked { statement: statement.clone(), failure })?;
        let wrong = rows.iter().filter(|row| row.get(3).map(String::as_str) != Some("OK"));
        self.complaints.extend(wrong.map(|row| format!("{statement}: {}", row.join(" "))));
        Ok(())
    }
}
