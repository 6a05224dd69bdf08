//! One client of a task's load: a writer, the deleter, or a reader.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use mysql::Statement;

use super::super::clock;
use super::super::connection::{Connection, LOST};
use super::super::contents::{Contents, Deleted};
use super::super::counts::{Counts, Desk, Group, Kind};
use super::super::pace::Pace;
use super::super::queries::{Query, Range};
use super::super::rows::{Random, Rows};
use super::{
    Drive, Ended, Shared, FAILURES_IN_A_ROW, LOOK, QUERIES_CATCH_UP, QUERY_CLIENTS, WRITES_CATCH_UP,
};
use crate::server::session::Failure;

#[derive(Clone, Copy)]
pub(super) enum Role {
    Writer(u32),
    Deleter,
    Reader(u32),
}

impl Role {
    pub(super) fn group(self) -> Group {
        match self {
            Role::Writer(_) => Group::Insert,
            Role::Deleter => Group::Delete,
            Role::Reader(_) => Group::Query,
        }
    }
}

/// A client ready to begin.
pub(super) struct Client {
    pub(super) role: Role,
    pub(super) connection: Connection,
    pub(super) statements: Vec<Statement>,
}

/// Tells the deleter, or is told, when an insert was acknowledged.
pub(super) enum Channel {
    Send(SyncSender<Duration>),
    Receive(Receiver<Duration>),
    None,
}

/// A client at work.
pub(super) struct Work<'a> {
    pub(super) drive: &'a Drive<'a>,
    pub(super) shared: &'a Shared,
    pub(super) desk: &'a Desk,
}

/// Why a client ends before its time.
enum Trouble {
    Lost(String),
    Failing(u16),
    Wrong(String),
}

impl Work<'_> {
    /// Works until the end of the load, or until a fault.
    pub(super) fn run(self, client: Client, acknowledged: Channel) -> Ended {
        // Sleeps end when they ought to, not 50 microseconds later; where that is refused, later.
        let _ = nix::sys::prctl::set_timerslack(1);
        let (mut inserted, mut deleted) = (self.drive.before.nothing_more(), Deleted::default());
        let Client { role, connection, statements } = client;
        let counts_for_the_end = matches!(role, Role::Writer(_)) || self.drive.task.writers.threads == 0;
        let result = match (role, acknowledged) {
            (Role::Writer(number), Channel::Send(send)) => {
                self.write(connection, statements, number, Some(&send), &mut inserted)
            }
            (Role::Writer(number), _) => self.write(connection, statements, number, None, &mut inserted),
            (Role::Deleter, Channel::Receive(receive)) => {
                self.delete(connection, &statements, &receive, &mut deleted)
            }
            (Role::Deleter, _) => Ok(()),
            (Role::Reader(number), _) => self.read(connection, &statements, number),
        };
        self.desk.end();
        if counts_for_the_end && self.shared.working.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        let name = self.desk.group().name();
        let complaint = result.err().map(|trouble| {
            self.shared.stop.store(true, Ordering::Relaxed);
            match trouble {
                Trouble::Lost(what) => format!("a client of the kind {name} got no answer: {what}"),
                Trouble::Failing(code) => {
                    format!("a client of the kind {name} gave up after error {code}, {FAILURES_IN_A_ROW} in a row")
                }
                Trouble::Wrong(what) => what,
            }
        });
        Ended { inserted, deleted, complaint }
    }

    /// Waits for the due beginning of an operation and returns it; none: all is over.
    fn slot(&self, pace: &mut Option<Pace>, kind: Kind) -> Option<Duration> {
        let Some(pace) = pace else {
            return (!self.shared.is_over()).then(|| self.shared.now());
        };
        let give_up = |wait| {
            self.desk.count(kind, |counts| {
                counts.given_up += 1;
                counts.latencies.record(wait);
            });
        };
        let now = self.shared.now();
        let over = |now: Duration| self.shared.end.filter(|end| now >= *end);
        let slot = if over(now).is_none() { Some(pace.slot(now, give_up)) } else { None };
        if let Some(slot) = slot.filter(|slot| self.shared.wait_until(*slot)) {
            return Some(slot);
        }
        let now = self.shared.now();
        if let Some(end) = over(now) {
            pace.leave(slot, end, now, give_up);
        }
        None
    }

    /// Runs an operation and counts it. `rows` says how many rows it was, given its result.
    fn timed<T>(
        &self,
        kind: Kind,
        slot: Duration,
        in_a_row: &mut u32,
        operation: impl FnOnce() -> std::result::Result<T, Failure>,
        rows: impl FnOnce(&T) -> u64,
    ) -> std::result::Result<Option<T>, Trouble> {
        self.desk.begin(slot);
        let begin = self.shared.now();
        let result = operation();
        let end = self.shared.now();
        self.desk.end();
        let code = match result {
            Ok(value) => {
                *in_a_row = 0;
                self.desk.count(kind, |counts| {
                    counts.done += 1;
                    counts.rows += rows(&value);
                    counts.latencies.record(end.saturating_sub(slot));
                    counts.service.record(end - begin);
                });
                return Ok(Some(value));
            }
            Err(Failure::Sql { code, .. }) => code,
            Err(Failure::Lost(what)) => {
                self.fails(kind, LOST);
                return Err(Trouble::Lost(what));
            }
        };
        self.fails(kind, code);
        *in_a_row += 1;
        if *in_a_row >= FAILURES_IN_A_ROW {
            return Err(Trouble::Failing(code));
        }
        Ok(None)
    }

    fn fails(&self, kind: Kind, code: u16) {
        self.desk.count(kind, |counts: &mut Counts| *counts.errors.entry(code).or_default() += 1);
    }

    fn write(
        &self,
        mut connection: Connection,
        mut statements: Vec<Statement>,
        number: u32,
        deletes: Option<&SyncSender<Duration>>,
        contents: &mut Contents,
    ) -> std::result::Result<(), Trouble> {
        let (task, writers) = (self.drive.task, &self.drive.task.writers);
        let client = self.drive.turn * u64::from(writers.threads) + u64::from(number);
        let mut rows = Rows::new(task.seed, client, task.shape);
        let mut pace = writers.rows_per_second.map(|rate| {
            let per_second = rate as f64 / f64::from(writers.rows_per_insert);
            Pace::new(per_second, writers.threads, number, Duration::ZERO, WRITES_CATCH_UP)
        });
        let mut in_a_row = 0;
        loop {
            let count = self.shared.claim(writers.rows_per_insert);
            if count == 0 {
                return Ok(());
            }
            if count < writers.rows_per_insert {
                // The last rows are fewer than a statement has.
                let text = task.shape.insert(&task.table, count);
                let last =
                    connection.prepare(&text).map_err(|failure| Trouble::Wrong(failure.to_string()))?;
                statements = vec![last];
            }
            let batch = rows.batch(count, clock::now_us());
            let Some(slot) = self.slot(&mut pace, Kind::Insert) else { return Ok(()) };
            let rows = u64::from(count);
            let done = self.timed(
                Kind::Insert,
                slot,
                &mut in_a_row,
                || connection.run(&statements[0], batch.values),
                |_| rows,
            );
            let told = match done {
                Ok(told) => told,
                Err(trouble) => {
                    if matches!(trouble, Trouble::Lost(_)) {
                        contents.uncertain += rows;
                    }
                    return Err(trouble);
                }
            };
            let Some((changed, first)) = told else { continue };
            if changed != rows || first == 0 {
                return Err(Trouble::Wrong(format!(
                    "an insert of {rows} rows was acknowledged as {changed}, with {first} as the first key"
                )));
            }
            contents.inserted(first, rows, batch.sum);
            self.shared.rows.fetch_add(rows, Ordering::Relaxed);
            self.shared.high.fetch_max(first + rows - 1, Ordering::Relaxed);
            if let Some(deletes) = deletes {
                self.let_delete(deletes);
            }
        }
    }

    /// Lets the deleter take as many rows. Waits while the deleter lags too far.
    fn let_delete(&self, deletes: &SyncSender<Duration>) {
        let mut acknowledged = self.shared.now();
        while let Err(TrySendError::Full(back)) = deletes.try_send(acknowledged) {
            if self.shared.is_over() {
                return;
            }
            acknowledged = back;
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn delete(
        &self,
        mut connection: Connection,
        statements: &[Statement],
        acknowledged: &Receiver<Duration>,
        deleted: &mut Deleted,
    ) -> std::result::Result<(), Trouble> {
        let [find, delete] = statements else { return Ok(()) };
        let writers = &self.drive.task.writers;
        let rows = u64::from(writers.rows_per_insert);
        let mut in_a_row = 0;
        while !self.shared.is_over() {
            let at = match acknowledged.recv_timeout(LOOK) {
                Ok(at) => at,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            // At a rate, a delete ought to begin when the insert that it follows is there.
            let slot = if writers.rows_per_second.is_some() { at } else { self.shared.now() };
            let mut from = None;
            let done = self.timed(
                Kind::Delete,
                slot,
                &mut in_a_row,
                || {
                    let least = connection.rows(find, Vec::new())?;
                    let Some(low) = least.first().and_then(|row| row.get::<u64, _>(0)) else {
                        return Ok(0);
                    };
                    from = Some(low);
                    connection.run(delete, vec![low.into(), (low + rows).into()]).map(|(changed, _)| changed)
                },
                |changed| *changed,
            );
            match (done, from) {
                (Ok(Some(changed)), Some(low)) => {
                    if changed > rows {
                        return Err(Trouble::Wrong(format!(
                            "a delete of {rows} keys changed {changed} rows"
                        )));
                    }
                    deleted.range(low, low + rows, changed);
                    self.shared.low.store(low + rows, Ordering::Relaxed);
                    self.shared.rows.fetch_sub(changed, Ordering::Relaxed);
                }
                (Ok(_), _) => {}
                (Err(trouble), _) => {
                    if matches!(trouble, Trouble::Lost(_)) {
                        deleted.uncertain += rows;
                    }
                    return Err(trouble);
                }
            }
        }
        Ok(())
    }

    fn read(
        &self,
        mut connection: Connection,
        statements: &[Statement],
        number: u32,
    ) -> std::result::Result<(), Trouble> {
        let (task, queries) = (self.drive.task, &self.drive.task.queries);
        while self.shared.rows.load(Ordering::Relaxed) < queries.start_at_rows {
            if !self.shared.wait_until(self.shared.now() + LOOK) {
                return Ok(());
            }
        }
        let mut random = Random::new(task.seed, QUERY_CLIENTS + u64::from(number));
        let first = self.shared.now();
        let mut pace =
            queries.per_second.map(|rate| Pace::new(rate, queries.threads, number, first, QUERIES_CATCH_UP));
        let kinds = Query::possible(&task.shape);
        let mut in_a_row = 0;
        for turn in number as usize.. {
            let which = turn % kinds.len();
            let (query, kind) = (kinds[which], Kind::Query(kinds[which]));
            let Some(slot) = self.slot(&mut pace, kind) else { break };
            let range = Range {
                low: self.shared.low.load(Ordering::Relaxed),
                high: self.shared.high.load(Ordering::Relaxed),
                from_us: self.drive.from_us,
                to_us: clock::now_us(),
            };
            let place = query.place(&mut random, &range);
            let values = query.values(&place);
            let rows = self.timed(
                kind,
                slot,
                &mut in_a_row,
                || connection.rows(&statements[which], values),
                |rows| rows.len() as u64,
            )?;
            for row in rows.iter().flatten() {
                if !query.is_behind(&place, row) {
                    return Err(Trouble::Wrong(format!(
                        "query {} from {place:?} on returned {row:?}",
                        query.name()
                    )));
                }
            }
        }
        Ok(())
    }
}
