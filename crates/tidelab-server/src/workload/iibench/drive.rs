//! One task's load: its clients, from the first operation to the last, and the counts of each second.
//!
//! All clients are connected and have their statements prepared before the first one begins. Writers make a
//! batch before its slot comes: its making is no part of its latency. A failed batch is counted by its error
//! and not tried again; its writer goes on with the next. A client without an answer ends the load: the fate
//! of its rows is unknown.

mod client;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use mysql::Statement;

use super::connection::Connection;
use super::contents::{Contents, Deleted};
use super::counts::{Desk, Group, Window};
use super::queries::Query;
use super::queue::Task;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::server::session::Failure;
use crate::telemetry::process::{now, process_use, ResourceSample};
use client::{Channel, Client, Role, Work};

/// A late writer catches up at most this much: as in the published benchmark, with its limit within each
/// second.
pub const WRITES_CATCH_UP: Duration = Duration::from_secs(1);
/// Queries do not catch up: the published benchmark's did not either.
pub const QUERIES_CATCH_UP: Duration = Duration::ZERO;
/// Inserts may be so many statements ahead of the deletes after them.
const DELETES_BEHIND: usize = 16;
/// A client whose operations all fail ends the load after so many.
const FAILURES_IN_A_ROW: u32 = 100;
/// The interval of waiting threads' looks for the end.
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
    /// The operations ended in it.
    pub window: Window,
    /// By group, the time so far of an operation unfinished then.
    pub waits: BTreeMap<Group, Duration>,
    /// The server then.
    pub moment: ResourceSample,
}

impl Second {
    /// The longest operation of a group, ended or not; none: there was none.
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
    /// All counts.
    pub total: Window,
    /// The expected contents of the table now.
    pub contents: Contents,
    /// The server at the start.
    pub begin: ResourceSample,
    /// And at the end.
    pub end: ResourceSample,
    /// CPU time of this process in between, in seconds.
    pub client_cpu_s: f64,
    /// The largest resident size of the server, in bytes.
    pub resident_bytes: u64,
    /// The faults, one line each.
    pub complaints: Vec<String>,
}

/// The shared state of all clients.
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

/// The end of a client: its acknowledged changes, and its faults.
struct Ended {
    inserted: Contents,
    deleted: Deleted,
    complaint: Option<String>,
}

impl Drive<'_> {
    /// Runs the load; `each` sees every second as it ends. Errors: clients cannot connect or prepare, an
    /// interrupt, an error of `each`.
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
