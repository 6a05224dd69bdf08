//! Puts users on a server: ramp-up, measured time, end. Without think time, as HammerDB does.
//!
//! A transaction counts when it ends within the measured time. One that meets a deadlock, a
//! timeout or a conflict (1213, 1205, 1020) is rolled back and counted as failed, and the user
//! goes on with the next of the mix: HammerDB does not try it again either. Any other error
//! ends the run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Outcome, User};
use super::{Scale, Transaction};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::measure::latency::Latencies;
use crate::server::session::{Address, Failure};
use crate::telemetry::process::{now, process_use, Moment};

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Drive<'a> {
    /// The server.
    pub address: &'a Address,
    /// Its process; none where it runs elsewhere.
    pub server: Option<u32>,
    /// The database.
    pub database: &'a str,
    /// The size of its tables.
    pub scale: Scale,
    /// Users.
    pub users: u32,
    /// Before the measured time.
    pub ramp_up: Duration,
    /// The measured time.
    pub duration: Duration,
    /// Where all random values come from.
    pub seed: u64,
    /// Asks to end.
    pub interrupt: &'a Interrupt,
}

/// What was counted of one kind of transaction in the measured time.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// From the call to the last result, of those that met no error.
    pub latencies: Latencies,
    /// Of those, new orders that were rolled back because of an unused item.
    pub rolled_back: u64,
    /// Those that failed, by the error's number.
    pub failed: BTreeMap<u16, u64>,
}

/// What came of a load.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// By kind, in the order of [`Transaction::ALL`].
    pub counted: [Counted; 5],
    /// New orders committed from the first to the last second, ramp-up included.
    pub orders_in_all: u64,
    /// Failed transactions of all kinds in that time.
    pub failed_in_all: u64,
    /// Each second: its end since the start, new orders, all transactions, and the server.
    pub seconds: Vec<Second>,
    /// When the measured time began.
    pub begin: Moment,
    /// And when it ended.
    pub end: Moment,
    /// CPU time of this process in between, in seconds.
    pub client_cpu_s: f64,
    /// Errors that may not be.
    pub errors: Vec<String>,
}

/// What happened in a second.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// Seconds since the start, ramp-up included.
    pub at_s: f64,
    /// Committed new orders a second.
    pub new_orders_per_s: f64,
    /// Transactions a second, rolled back ones included.
    pub transactions_per_s: f64,
    /// Failed ones a second.
    pub failed_per_s: f64,
    /// The server then.
    pub moment: Moment,
}

/// What all users count in.
#[derive(Default)]
struct Totals {
    orders: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    stop: AtomicBool,
}

impl Drive<'_> {
    /// Runs the load; `progress` sees each second.
    pub fn run(&self, mut progress: impl FnMut(&Second)) -> Result<Outcomes> {
        let totals = Totals::default();
        let mut users = Vec::new();
        for number in 0..self.users {
            let user = User::connect(self.address, self.database, self.scale, self.seed, number + 1);
            users.push(user.map_err(|failure| self.failed("connecting a user", &failure.to_string()))?);
        }
        let start = Instant::now();
        let (from, to) = (start + self.ramp_up, start + self.ramp_up + self.duration);
        let mut watch = Watch::new(self.server, start);
        let results: Vec<(BTreeMap<Transaction, Counted>, Option<String>)> = thread::scope(|scope| {
            let totals = &totals;
            let threads: Vec<_> =
                users.into_iter().map(|user| scope.spawn(move || work(user, from, to, totals))).collect();
            while Instant::now() < to && !totals.stop.load(Ordering::Relaxed) {
                watch.look(totals, from, &mut progress);
                let next =
                    [watch.next_second(), to].into_iter().chain((Instant::now() < from).then_some(from));
                let pause =
                    next.min().map_or(Duration::ZERO, |n| n.saturating_duration_since(Instant::now()));
                thread::sleep(pause.min(Duration::from_millis(50)));
                if self.interrupt.check().is_err() {
                    totals.stop.store(true, Ordering::Relaxed);
                }
            }
            watch.end();
            totals.stop.store(true, Ordering::Relaxed);
            threads.into_iter().map(|t| t.join().expect("a user does not panic")).collect()
        });
        self.interrupt.check()?;
        let mut counted: [Counted; 5] = Default::default();
        let mut errors = Vec::new();
        for (of_user, error) in results {
            for (transaction, its) in of_user {
                let sum = &mut counted[transaction.index()];
                sum.latencies.merge(&its.latencies);
                sum.rolled_back += its.rolled_back;
                for (code, count) in its.failed {
                    *sum.failed.entry(code).or_default() += count;
                }
            }
            errors.extend(error);
        }
        Ok(Outcomes {
            counted,
            orders_in_all: totals.orders.into_inner(),
            failed_in_all: totals.failed.into_inner(),
            seconds: watch.seconds,
            begin: watch.begin.unwrap_or(watch.first),
            end: watch.end.unwrap_or(watch.first),
            client_cpu_s: watch.client_cpu_s,
            errors,
        })
    }

    fn failed(&self, what: &str, message: &str) -> Error {
        Error::Load { what: format!("TPC-C on {}: {what}", self.database), message: message.to_string() }
    }
}

/// One user's work until the end. What it counted between `from` and `to`, and the error that
/// ended it early.
fn work(
    mut user: User,
    from: Instant,
    to: Instant,
    totals: &Totals,
) -> (BTreeMap<Transaction, Counted>, Option<String>) {
    let mut counted: BTreeMap<Transaction, Counted> = BTreeMap::new();
    while !totals.stop.load(Ordering::Relaxed) {
        let transaction = user.draw();
        let begin = Instant::now();
        if begin >= to {
            break;
        }
        let result = user.run(transaction);
        let end = Instant::now();
        let within = end >= from && end < to;
        let entry = counted.entry(transaction).or_default();
        match result {
            Ok(outcome) => {
                totals.done.fetch_add(1, Ordering::Relaxed);
                if outcome == Outcome::Committed && transaction == Transaction::NewOrder {
                    totals.orders.fetch_add(1, Ordering::Relaxed);
                }
                if within {
                    entry.latencies.record(end - begin);
                    entry.rolled_back += u64::from(outcome == Outcome::RolledBack);
                }
            }
            Err(failure) => {
                totals.failed.fetch_add(1, Ordering::Relaxed);
                let code = match &failure {
                    Failure::Sql { code, .. } if failure.is_conflict() => *code,
                    _ => {
                        totals.stop.store(true, Ordering::Relaxed);
                        return (counted, Some(format!("{transaction} got {failure}")));
                    }
                };
                if within {
                    *entry.failed.entry(code).or_default() += 1;
                }
                if let Err(failure) = user.roll_back() {
                    totals.stop.store(true, Ordering::Relaxed);
                    return (counted, Some(format!("ROLLBACK after error {code} got {failure}")));
                }
            }
        }
    }
    (counted, None)
}

/// Looks at server and totals each second.
struct Watch {
    server: u32,
    start: Instant,
    first: Moment,
    begin: Option<Moment>,
    end: Option<Moment>,
    client_begin: f64,
    client_cpu_s: f64,
    seconds: Vec<Second>,
    /// What the totals were at the last second.
    before: (Instant, u64, u64, u64),
}

impl Watch {
    fn new(server: Option<u32>, start: Instant) -> Watch {
        // No process has the number 0: its figures are zeros.
        let server = server.unwrap_or(0);
        Watch {
            server,
            start,
            first: now(server),
            begin: None,
            end: None,
            client_begin: 0.0,
            client_cpu_s: 0.0,
            seconds: Vec::new(),
            before: (start, 0, 0, 0),
        }
    }

    fn next_second(&self) -> Instant {
        self.before.0 + Duration::from_secs(1)
    }

    fn look(&mut self, totals: &Totals, from: Instant, progress: &mut impl FnMut(&Second)) {
        if self.begin.is_none() && Instant::now() >= from {
            self.begin = Some(now(self.server));
            self.client_begin = process_use(std::process::id()).cpu_s;
        }
        let at = Instant::now();
        if at < self.next_second() {
            return;
        }
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (orders, done, failed) = (read(&totals.orders), read(&totals.done), read(&totals.failed));
        let (last, orders_before, done_before, failed_before) = self.before;
        let seconds = (at - last).as_secs_f64();
        let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
        let second = Second {
            at_s: (at - self.start).as_secs_f64(),
            new_orders_per_s: rate(orders, orders_before),
            transactions_per_s: rate(done, done_before),
            failed_per_s: rate(failed, failed_before),
            moment: now(self.server),
        };
        self.before = (at, orders, done, failed);
        progress(&second);
        self.seconds.push(second);
    }

    fn end(&mut self) {
        self.end = Some(now(self.server));
        self.client_cpu_s = process_use(std::process::id()).cpu_s - self.client_begin;
    }
}
