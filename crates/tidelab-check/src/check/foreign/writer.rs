//! Writers of the check `foreign`: random transactions on the shared tables and on rows of their own.

use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::RngExt;

use super::super::session::{Failure, Session};
use super::kept::{self, Kept};
use super::scene::{ClientCounts, Line, Scene};
use super::statements;

const LEVELS: [&str; 4] = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// A writer, across the rounds.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) number: i64,
    /// Its own rows, as committed.
    kept: Kept,
    /// Its own rows after a commit whose outcome it does not know.
    in_doubt: Option<Kept>,
    /// The last XA transaction.
    xid: Option<String>,
    /// The XA transaction was answered as prepared and is not decided.
    left: bool,
    /// Number of the last transaction, and the last value of `v`.
    next: i64,
    value: i64,
    old: Option<i64>,
    pub(super) tally: ClientCounts,
    pub(super) complaints: Vec<String>,
    /// Statements of the transaction.
    statements: Vec<String>,
}

/// A permitted end of a statement.
enum Answer {
    Done(u64),
    /// Only the statement is undone.
    Refused,
    /// The transaction is to be undone.
    Conflict,
    /// It may or may not have happened.
    Killed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Autocommit,
    Begin,
    Xa,
}

/// The outcome of a transaction.
#[derive(PartialEq, Eq)]
enum Outcome {
    Ended,
    /// The connection is to be given up: the server's state of it, or of the rows, is not known.
    GivenUp,
    /// It stays prepared, and the writer's work is over.
    Left,
}

impl Writer {
    pub(super) fn new(number: i64) -> Writer {
        Writer { number, ..Writer::default() }
    }

    /// Runs transactions until the round is over or the server is gone.
    pub(super) fn work(&mut self, scene: &Scene, mut random: StdRng) -> Result<(), Failure> {
        let mut line: Option<Line> = None;
        self.old = None;
        while scene.goes_on() {
            let mut now = match line.take() {
                Some(line) => line,
                None => {
                    let mut line = Line::open(scene, self.old)?;
                    self.old = Some(line.id);
                    match self.settle(&mut line.session, "kept", &mut random) {
                        Ok(()) => line,
                        Err(Failure::Lost(_)) => continue,
                        // Killed, waited too long, or the table has another name.
                        Err(Failure::Sql { code: 1317 | 1205 | 1213 | 1146 | 1412, .. }) => continue,
                        Err(failure) => return Err(failure),
                    }
                }
            };
            self.statements.clear();
            match self.transaction(&mut now.session, scene, &mut random) {
                Ok(Outcome::Ended) => line = Some(now),
                Ok(Outcome::GivenUp) => {}
                Ok(Outcome::Left) => return Ok(()),
                Err(Failure::Lost(_)) => self.tally.lost += 1,
                Err(Failure::Sql { code, message }) => {
                    let message = format!("{message}: {}", self.statements.join("; "));
                    return Err(Failure::Sql { code, message });
                }
            }
        }
        Ok(())
    }

    fn transaction(
        &mut self,
        session: &mut Session,
        scene: &Scene,
        random: &mut StdRng,
    ) -> Result<Outcome, Failure> {
        let style = match random.random_range(0..100) {
            0..15 => Style::Autocommit,
            15..27 => Style::Xa,
            _ => Style::Begin,
        };
        let level = LEVELS.choose(random).copied().unwrap_or(LEVELS[0]);
        self.next += 1;
        let xid = format!("w{}_{}", self.number, self.next);
        let mut first = vec![format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")];
        match style {
            Style::Autocommit => {}
            Style::Begin => first.push("BEGIN".to_string()),
            Style::Xa => {
                self.xid = Some(xid.clone());
                first.push(format!("XA START '{xid}'"));
            }
        }
        for statement in first {
            if !matches!(self.ask(session, &statement)?, Answer::Done(_)) {
                return Ok(Outcome::GivenUp);
            }
        }
        let Some(after) = self.statements(session, scene, style, random)? else {
            return match style {
                Style::Begin => self.roll_back(session),
                Style::Autocommit if self.in_doubt.is_none() => Ok(Outcome::Ended),
                // Both the server's state of the XA transaction and an answer that may be lost are looked up.
                Style::Autocommit | Style::Xa => Ok(Outcome::GivenUp),
            };
        };
        match style {
            Style::Autocommit => {
                self.tally.commits += 1;
                Ok(Outcome::Ended)
            }
            Style::Begin if random.random_bool(0.12) => {
                self.tally.rollbacks += 1;
                self.roll_back(session)
            }
            Style::Begin => match self.commit(session, after, "COMMIT")? {
                // It is undone.
                Outcome::GivenUp if self.in_doubt.is_none() => self.roll_back(session),
                outcome => Ok(outcome),
            },
            Style::Xa => self.end(session, after, &xid, scene, random),
        }
    }

    /// The statements between the first and the last. The rows after them; none: one of them ended the transaction.
    fn statements(
        &mut self,
        session: &mut Session,
        scene: &Scene,
        style: Style,
        random: &mut StdRng,
    ) -> Result<Option<Kept>, Failure> {
        let mut rows = self.kept.clone();
        let mut savepoints: Vec<Kept> = Vec::new();
        let count = if style == Style::Autocommit { 1 } else { random.random_range(1..=6) };
        for _ in 0..count {
            if style == Style::Begin && random.random_bool(0.15) {
                let back = random.random_bool(0.5).then(|| savepoints.len().checked_sub(1)).flatten();
                let statement = match back {
                    Some(last) => {
                        let to = random.random_range(0..=last);
                        rows = savepoints[to].clone();
                        // Once: of an ALTER by copy alongside, the server (11.8.6, InnoDB too) loses what was done
                        // before the savepoint when a transaction goes back to it twice.
                        savepoints.truncate(to);
                        format!("ROLLBACK TO SAVEPOINT s{to}")
                    }
                    None => {
                        savepoints.push(rows.clone());
                        format!("SAVEPOINT s{}", savepoints.len() - 1)
                    }
                };
                if !matches!(self.ask(session, &statement)?, Answer::Done(_)) {
                    return Ok(None);
                }
                continue;
            }
            if random.random_bool(0.3) {
                self.value += 1;
                let change = kept::draw(self.number, &rows, self.value, random);
                if style == Style::Autocommit {
                    self.in_doubt = Some(change.after.clone());
                }
                let asked = scene.notes.now();
                match self.ask(session, &change.sql)? {
                    Answer::Done(0) if change.optional => {}
                    // MariaDB 11.8.6 answers so where KILL QUERY comes while it chooses an index, for all engines.
                    Answer::Done(0)
                        if change.affects != Some(0)
                            && self.old.is_some_and(|own| scene.notes.has_kill(own, asked)) =>
                    {
                        return Ok(None);
                    }
                    Answer::Done(affected) => {
                        if change.affects.is_some_and(|expected| expected != affected) {
                            self.complaints.push(format!(
                                "writer {}: changed {affected} rows instead of {:?}: {}; then {:?} of {rows:?}, connection {:?} {}",
                                self.number,
                                change.affects,
                                self.statements.join("; "),
                                kept::read(session, "kept", self.number),
                                self.old,
                                scene.notes.show()
                            ));
                        }
                        self.tally.done(change.kind);
                        rows = change.after;
                    }
                    Answer::Refused => {}
                    Answer::Conflict => {
                        self.in_doubt = None;
                        return Ok(None);
                    }
                    Answer::Killed => return Ok(None),
                }
                if style == Style::Autocommit {
                    self.in_doubt = None;
                    self.kept = rows.clone();
                }
            } else {
                let (kind, statement) = statements::draw(random);
                match self.ask(session, &statement)? {
                    Answer::Done(_) => self.tally.done(kind),
                    Answer::Refused => {}
                    Answer::Conflict | Answer::Killed => return Ok(None),
                }
            }
        }
        Ok(Some(rows))
    }

    fn commit(&mut self, session: &mut Session, after: Kept, statement: &str) -> Result<Outcome, Failure> {
        self.in_doubt = Some(after);
        match self.ask(session, statement)? {
            Answer::Done(_) => {
                self.tally.commits += 1;
                if let Some(after) = self.in_doubt.take() {
                    self.kept = after;
                }
                Ok(Outcome::Ended)
            }
            Answer::Killed => Ok(Outcome::GivenUp),
            Answer::Refused | Answer::Conflict => {
                self.in_doubt = None;
                Ok(Outcome::GivenUp)
            }
        }
    }

    /// Ends an XA transaction in one of its ways.
    fn end(
        &mut self,
        session: &mut Session,
        after: Kept,
        xid: &str,
        scene: &Scene,
        random: &mut StdRng,
    ) -> Result<Outcome, Failure> {
        if !matches!(self.ask(session, &format!("XA END '{xid}'"))?, Answer::Done(_)) {
            return Ok(Outcome::GivenUp);
        }
        if random.random_bool(0.1) {
            return self.undo_xa(session, xid);
        }
        if random.random_bool(0.15) {
            return self.commit(session, after, &format!("XA COMMIT '{xid}' ONE PHASE"));
        }
        let is_change = after != self.kept;
        self.in_doubt = Some(after);
        if !matches!(self.ask(session, &format!("XA PREPARE '{xid}'"))?, Answer::Done(_)) {
            return Ok(Outcome::GivenUp);
        }
        if scene.is_ending() && random.random_bool(0.5) {
            self.left = is_change;
            self.tally.left += 1;
            return Ok(Outcome::Left);
        }
        if random.random_bool(0.25) {
            return self.undo_xa(session, xid);
        }
        match self.ask(session, &format!("XA COMMIT '{xid}'"))? {
            Answer::Done(_) => {
                self.tally.commits += 1;
                if let Some(after) = self.in_doubt.take() {
                    self.kept = after;
                }
                Ok(Outcome::Ended)
            }
            _ => Ok(Outcome::GivenUp),
        }
    }

    fn undo_xa(&mut self, session: &mut Session, xid: &str) -> Result<Outcome, Failure> {
        match self.ask(session, &format!("XA ROLLBACK '{xid}'"))? {
            Answer::Done(_) => {
                self.in_doubt = None;
                self.tally.rollbacks += 1;
                Ok(Outcome::Ended)
            }
            _ => Ok(Outcome::GivenUp),
        }
    }

    fn roll_back(&mut self, session: &mut Session) -> Result<Outcome, Failure> {
        match self.ask(session, "ROLLBACK")? {
            Answer::Done(_) => Ok(Outcome::Ended),
            _ => Ok(Outcome::GivenUp),
        }
    }

    /// Runs a statement. An error: the connection is lost, or the answer is not a permitted one.
    fn ask(&mut self, session: &mut Session, statement: &str) -> Result<Answer, Failure> {
        self.statements.push(statement.to_string());
        self.tally.statements += 1;
        let answer = match statement.starts_with("SELECT") {
            // An error may come after some rows, which only a reader of them sees.
            true => session.rows(statement).map(|rows| rows.len() as u64),
            false => session.run(statement),
        };
        let failure = match answer {
            Ok(affected) => return Ok(Answer::Done(affected)),
            Err(failure) => failure,
        };
        let Failure::Sql { code, ref message } = failure else { return Err(failure) };
        let answer = match code {
            // Referenced, no parent, duplicate; and a duplicate that a cascade would make.
            1451 | 1452 | 1062 | 1761 | 1762 => Answer::Refused,
            // Too deep a chain of cascades.
            1296 if message.contains("depth") => Answer::Refused,
            1205 | 1213 | 1020 => Answer::Conflict,
            // An XA transaction after a conflict.
            1402 | 1613 | 1614 => Answer::Conflict,
            // The table has another name, or another definition than in the snapshot.
            1146 | 1412 => {
                thread::sleep(Duration::from_millis(2));
                Answer::Conflict
            }
            1317 => Answer::Killed,
            _ => return Err(failure),
        };
        self.tally.error(code);
        if let Some(last) = self.statements.last_mut() {
            last.push_str(&format!(" [{code}]"));
        }
        Ok(answer)
    }

    /// With no work of this writer going on: decides its prepared transaction, and compares its rows with the real ones.
    pub(super) fn settle(
        &mut self,
        session: &mut Session,
        table: &str,
        random: &mut StdRng,
    ) -> Result<(), Failure> {
        let mut decided = None;
        if let Some(xid) = &self.xid {
            let listed = session.rows("XA RECOVER")?.iter().any(|row| row.get(3) == Some(xid));
            if listed {
                // From here on it may be gone: the answer may be lost.
                let must_be_there = std::mem::take(&mut self.left);
                let commits = random.random_bool(0.5);
                let verb = if commits { "COMMIT" } else { "ROLLBACK" };
                decided = match session.run(&format!("XA {verb} '{xid}'")) {
                    // The server's answer where the transaction changed nothing.
                    Err(Failure::Sql { code: 1402, .. }) if !must_be_there => Some(false),
                    answer => answer.map(|_| Some(commits))?,
                };
            } else if self.left {
                self.complaints.push(format!("writer {}: the prepared {xid} is lost", self.number));
            }
            self.left = false;
            self.xid = None;
        }
        let there = kept::read(session, table, self.number)?;
        let happened = self.in_doubt.as_ref().is_some_and(|after| *after == there && decided != Some(false));
        let did_not = self.kept == there && (decided != Some(true) || self.in_doubt.is_none());
        if !happened && !did_not {
            let of = |rows| kept::difference(&there, rows);
            self.complaints.push(format!(
                "writer {}: committed rows differ: {}{} (XA decided: {decided:?}; last: {})",
                self.number,
                of(&self.kept),
                self.in_doubt.as_ref().map_or(String::new(), |after| format!("; or in doubt: {}", of(after))),
                self.statements.join("; ")
            ));
        }
        self.kept = there;
        self.in_doubt = None;
        Ok(())
    }
}
