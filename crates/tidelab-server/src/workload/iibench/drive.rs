//! One task's load: its clients, from the first operation to the last, and the counts of each second.
//!
//! All clients are connected and have their statements prepared before the first one begins. Writers make
//! a batch before its slot comes, so that making it is no part of its latency. A batch that fails is
//! counted by its error and not tried again; its writer goes on with the next. A client that gets no
//! answer ends the load: the fate of its rows is unknown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use mysql::Statement;

use super::clock;
use super::connection::{Connection, LOST};
use super::contents::{Contents, Deleted};
use super::counts::{Counts, Desk, Group, Kind, Window};
use super::pace::Pace;
use super::queries::{Query, Range};
use super::queue::Task;
use super::rows::{Random, Rows};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::server::session::Failure;
use crate::telemetry::process::{now, process_use, Moment};

/// A writer that is late catches up at most this much: as the published benchmark, whose limit
/// held within each second.
pub const WRITES_CATCH_UP: Duration = Duration::from_secs(1);
/// Queries do not catch up: the published benchmark's did not either.
pub const QUERIES_CATCH_UP: Duration = Duration::ZERO;
/// Inserts may be so many statements ahead of the deletes that follow them.
const DELETES_BEHIND: usize = 16;
/// A client whose operations all fail ends the load after so many.
const FAILURES_IN_A_ROW: u32 = 100;
/// The interval at which waiting threads look for the end.
const LOOK: Duration = Duration::from_millis(20);
/// Clients past the last writer's number get other random numbers than any writer.
const QUERY_CLIENTS: u64 = 1 << 32;

/// A task on a table whose contents are known.
#[derive(Debug)]
pub struct Drive<'a> {
    /// The task.
    pub task: &'a Task,
    /// The table's contents.
    pub before: &'a Contents,
    /// The time of its first row, in microseconds since 1970.
    pub from_us: u64,
    /// Added to the numbers of clients: tasks of one seed on one table do not repeat each other.
    pub turn: u64,
    /// The server's process; none where it runs elsewhere.
    pub server: Option<u32>,
    /// Asks to end.
    pub interrupt: &'a Interrupt,
}

/// The counts of a second.
#[derive(Clone, Debug)]
pub struct Second {
    /// Its end, since the start.
    pub at: Duration,
    /// Its length: the last one may be shorter.
    pub length: Duration,
    /// The operations that ended in it.
    pub window: Window,
    /// By group, how long an operation that had not ended then had taken.
    pub waits: BTreeMap<Group, Duration>,
    /// The server then.
    pub moment: Moment,
}

impl Second {
    /// The longest that an operation of a group took, ended or not; none: there was none.
    pub fn worst(&self, group: Group) -> Option<Duration> {
        let counts = self.window.group(group);
        let ended = (counts.latencies.count() > 0)
            .then(|| Duration::from_secs_f64(counts.latencies.figures().max_ms / 1e3));
        ended.max(self.waits.get(&group).copied())
    }
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the first operation's begin to the last one's end.
    pub seconds: f64,
    /// All that was counted.
    pub total: Window,
    /// The contents that the table must have now.
    pub contents: Contents,
    /// The server at the start.
    pub begin: Moment,
    /// And at the end.
    pub end: Moment,
    /// CPU time of this process in between, in seconds.
    pub client_cpu_s: f64,
    /// The largest resident size of the server, in bytes.
    pub resident_bytes: u64,
    /// The faults, one line each.
    pub complaints: Vec<String>,
}

/// The state that all clients share.
struct Shared {
    start: Instant,
    end: Option<Duration>,
    stop: AtomicBool,
    /// Clients whose end ends the load.
    working: AtomicU32,
    claimed: AtomicU64,
    most: u64,
    rows: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
}

impl Shared {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.end.is_some_and(|end| self.now() >= end)
    }

    /// Rows for the next statement; 0 when there are enough.
    fn claim(&self, rows: u32) -> u32 {
        let wanted = u64::from(rows);
        let before = self.claimed.fetch_add(wanted, Ordering::Relaxed);
        self.most.saturating_sub(before).min(wanted) as u32
    }

    /// Waits for a time since the start. False: all is over.
    fn wait_until(&self, at: Duration) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            let now = self.now();
            if now >= at {
                return true;
            }
            thread::sleep((at - now).min(LOOK));
        }
    }
}

/// The end of a client: the changes that were acknowledged to it, and its faults.
struct Ended {
    inserted: Contents,
    deleted: Deleted,
    complaint: Option<String>,
}

impl Drive<'_> {
    /// Runs the load; `each` sees every second as it ends. Errors: clients cannot connect or
    /// prepare, an interrupt, what `each` returns.
    pub fn run(&self, mut each: impl FnMut(&Second) -> Result<()>) -> Result<Outcome> {
        let clients = self.connect()?;
        let desks: Vec<Desk> = clients.iter().map(|client| Desk::new(client.role.group())).collect();
        let server = self.server.unwrap_or(0);
        let (low, high) = self.before.keys.unwrap_or((1, 1));
        let writers = self.task.writers.threads;
        let client_cpu = process_use(std::process::id()).cpu_s;
        let begin = now(server);
        let shared = Shared {
            start: Instant::now(),
            end: self.task.duration,
            stop: AtomicBool::new(false),
            working: AtomicU32::new(if writers > 0 { writers } else { self.task.queries.threads }),
            claimed: AtomicU64::new(0),
            most: self.task.writers.max_rows.unwrap_or(u64::MAX),
            rows: AtomicU64::new(self.before.rows),
            low: AtomicU64::new(low),
            high: AtomicU64::new(high),
        };
        let (send, receive) = sync_channel(DELETES_BEHIND);
        let mut reporter =
            Reporter { desks: &desks, last: Duration::ZERO, total: Window::default(), resident: 0, server };
        let mut contents = self.before.clone();
        let mut deleted = Deleted::default();
        let mut complaints = Vec::new();
        let mut seen = Ok(());
        thread::scope(|scope| {
            let shared = &shared;
            let mut threads = Vec::new();
            let mut receive = Some(receive);
            for (client, desk) in clients.into_iter().zip(&desks) {
                let acknowledged = match client.role {
                    Role::Writer(_) if self.task.writers.delete => Channel::Send(send.clone()),
                    Role::Deleter => receive.take().map_or(Channel::None, Channel::Receive),
                    _ => Channel::None,
                };
                let work = Work { drive: self, shared, desk };
                threads.push(scope.spawn(move || work.run(client, acknowledged)));
            }
            drop(send);
            seen = reporter.watch(shared, self.interrupt, &mut each);
            shared.stop.store(true, Ordering::Relaxed);
            for thread in threads {
                match thread.join() {
                    Ok(ended) => {
                        contents.add(&ended.inserted);
                        deleted.add(&ended.deleted);
                        complaints.extend(ended.complaint);
                    }
                    Err(_) => complaints.push("a client of the laboratory panicked".to_string()),
                }
            }
            if seen.is_ok() {
                seen = reporter.second(shared.now(), &mut each);
            }
        });
        seen?;
        contents.without(&deleted);
        self.interrupt.check()?;
        let seconds = shared.now().as_secs_f64();
        complaints.extend(errors_that_may_not_be(&reporter.total));
        Ok(Outcome {
            seconds,
            total: reporter.total,
            contents,
            begin,
            end: now(server),
            client_cpu_s: process_use(std::process::id()).cpu_s - client_cpu,
            resident_bytes: reporter.resident,
            complaints,
        })
    }

    fn connect(&self) -> Result<Vec<Client>> {
        let task = self.task;
        let mut clients = Vec::new();
        let mut add = |role: Role, statements: Vec<String>| -> Result<()> {
            let refused = |failure: Failure| self.cannot("connect", &failure);
            let mut connection = Connection::open(&task.dsn).map_err(refused)?;
            let statements: std::result::Result<Vec<Statement>, Failure> =
                statements.iter().map(|text| connection.prepare(text)).collect();
            let statements = statements.map_err(|failure| self.cannot("prepare a statement", &failure))?;
            clients.push(Client { role, connection, statements });
            Ok(())
        };
        for number in 0..task.writers.threads {
            let insert = task.shape.insert(&task.table, task.writers.rows_per_insert);
            add(Role::Writer(number), vec![insert])?;
        }
        if task.writers.delete && task.writers.threads > 0 {
            let statements = [
                format!("SELECT transactionid FROM `{}` ORDER BY transactionid LIMIT 1", task.table),
                format!("DELETE FROM `{}` WHERE transactionid >= ? AND transactionid < ?", task.table),
            ];
            add(Role::Deleter, statements.to_vec())?;
        }
        for number in 0..task.queries.threads {
            let queries = Query::possible(&task.shape);
            let statements = queries.iter().map(|q| q.statement(&task.table, task.queries.limit));
            add(Role::Reader(number), statements.collect())?;
        }
        Ok(clients)
    }

    fn cannot(&self, what: &str, failure: &Failure) -> Error {
        Error::Load {
            what: format!("task {}: a client cannot {what} at {}", self.task.name, self.task.dsn),
            message: failure.to_string(),
        }
    }
}

/// Errors under contention are part of a load; others are not.
fn errors_that_may_not_be(total: &Window) -> Vec<String> {
    let mut complaints = Vec::new();
    for group in Group::ALL {
        for (code, count) in &total.group(group).errors {
            let failure = Failure::Sql { code: *code, message: String::new() };
            if !failure.is_conflict() {
                complaints.push(format!("{count} operations of the kind {} got error {code}", group.name()));
            }
        }
    }
    complaints
}

#[derive(Clone, Copy)]
enum Role {
    Writer(u32),
    Deleter,
    Reader(u32),
}

impl Role {
    fn group(self) -> Group {
        match self {
            Role::Writer(_) => Group::Insert,
            Role::Deleter => Group::Delete,
            Role::Reader(_) => Group::Query,
        }
    }
}

/// A client that is ready to begin.
struct Client {
    role: Role,
    connection: Connection,
    statements: Vec<Statement>,
}

/// Tells the deleter, or is told, when an insert was acknowledged.
enum Channel {
    Send(SyncSender<Duration>),
    Receive(Receiver<Duration>),
    None,
}

/// A client at work.
struct Work<'a> {
    drive: &'a Drive<'a>,
    shared: &'a Shared,
    desk: &'a Desk,
}

/// Why a client ends before its time.
enum Trouble {
    Lost(String),
    Failing(u16),
    Wrong(String),
}

impl Work<'_> {
    fn run(self, client: Client, acknowledged: Channel) -> Ended {
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

    /// The moment at which an operation ought to begin, waited for; none: all is over.
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

/// Takes each second's counts together.
struct Reporter<'a> {
    desks: &'a [Desk],
    last: Duration,
    total: Window,
    resident: u64,
    server: u32,
}

impl Reporter<'_> {
    fn watch(
        &mut self,
        shared: &Shared,
        interrupt: &Interrupt,
        each: &mut impl FnMut(&Second) -> Result<()>,
    ) -> Result<()> {
        while !shared.is_over() {
            interrupt.check()?;
            let next = Duration::from_secs(self.last.as_secs() + 1);
            let now = shared.now();
            if now >= next {
                self.second(now, each)?;
            } else {
                thread::sleep((next - now).min(LOOK));
            }
        }
        Ok(())
    }

    fn second(&mut self, at: Duration, each: &mut impl FnMut(&Second) -> Result<()>) -> Result<()> {
        let mut window = Window::default();
        let mut waits: BTreeMap<Group, Duration> = BTreeMap::new();
        for desk in self.desks {
            window.add(&desk.take());
            if let Some(wait) = desk.waits(at) {
                let longest = waits.entry(desk.group()).or_default();
                *longest = wait.max(*longest);
            }
        }
        self.total.add(&window);
        let moment = now(self.server);
        self.resident = self.resident.max(moment.server.resident_bytes);
        let length = at.saturating_sub(self.last);
        self.last = at;
        each(&Second { at, length, window, waits, moment })
    }
}
