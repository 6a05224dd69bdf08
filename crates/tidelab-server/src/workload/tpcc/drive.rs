//! Puts users on a server: ramp-up, measured time, end. Users have no think time, as with HammerDB.
//!
//! The ramp-up has a fixed length, or ends when the rate is steady ([`Rule`]). The measured time then
//! begins a moment later, at the same instant for all users.
//!
//! A transaction counts when it ends within the measured time. A deadlock, a timeout or a conflict (1213,
//! 1205, 1020) rolls it back and counts it as failed. The user goes on with the next of the mix, as
//! HammerDB does. Any other error ends the run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Outcome, User};
use super::{Scale, Transaction};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::latency::Latencies;
use crate::server::session::{Address, Failure};
use crate::telemetry::process::{now, process_use, ResourceSample};
use crate::workload::steady::{Rule, State, WarmUp};

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
    /// When the measured time begins: after a fixed ramp-up, or when the rate is steady.
    pub ramp_up: Rule,
    /// The measured time.
    pub duration: Duration,
    /// The seed of all random values.
    pub seed: u64,
    /// Asks to end.
    pub interrupt: &'a Interrupt,
}

/// The counts of one kind of transaction in the measured time.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// From the call to the last result, of those without an error.
    pub latencies: Latencies,
    /// Of those, new orders rolled back because of an unused item.
    pub rolled_back: u64,
    /// Failed ones, by the error's number.
    pub failed: BTreeMap<u16, u64>,
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// By kind, in the order of [`Transaction::ALL`].
    pub counted: [Counted; 5],
    /// New orders committed from the first to the last second, ramp-up included.
    pub orders_in_all: u64,
    /// Failed transactions of all kinds in the measured time.
    pub failed_in_all: u64,
    /// Each second: its end since the start, new orders, all transactions, and the server.
    pub seconds: Vec<Second>,
    /// The result of the ramp-up.
    pub ramp_up: WarmUp,
    /// When the measured time began.
    pub begin: ResourceSample,
    /// And when it ended.
    pub end: ResourceSample,
    /// CPU time of this process in between, in seconds.
    pub client_cpu_s: f64,
    /// Errors not permitted.
    pub errors: Vec<String>,
}

/// The counts of a second.
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
    pub moment: ResourceSample,
}

/// The measured time: its begin and end, in microseconds since the start of the load. Both lie in the
/// far future until the ramp-up has ended.
struct Schedule {
    start: Instant,
    duration: Duration,
    from_us: AtomicU64,
    to_us: AtomicU64,
}

/// The measured time begins so much after the end of the ramp-up was decided: every user knows of it by
/// then.
const NOTICE: Duration = Duration::from_millis(50);

impl Schedule {
    /// For a fixed ramp-up the measured time is known at the start.
    fn new(start: Instant, ramp_up: Rule, duration: Duration) -> Schedule {
        let far = AtomicU64::new(u64::MAX);
        let schedule = Schedule { start, duration, from_us: far, to_us: AtomicU64::new(u64::MAX) };
        if ramp_up.is_fixed() {
            schedule.begin_at(Duration::from_secs(u64::from(ramp_up.at_least_s)));
        }
        schedule
    }

    /// The measured time begins so long after the start.
    fn begin_at(&self, from: Duration) {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        // The end first: a user that sees the begin must see the end.
        self.to_us.store(micros(from + self.duration), Ordering::Release);
        self.from_us.store(micros(from), Ordering::Release);
    }

    /// The beginning of the measured time; none while unknown.
    fn from(&self) -> Option<Instant> {
        self.at(&self.from_us)
    }

    /// When it ends.
    fn to(&self) -> Option<Instant> {
        self.at(&self.to_us)
    }

    fn at(&self, micros: &AtomicU64) -> Option<Instant> {
        match micros.load(Ordering::Acquire) {
            u64::MAX => None,
            micros => Some(self.start + Duration::from_micros(micros)),
        }
    }

    /// The load has reached its end.
    fn is_over(&self, now: Instant) -> bool {
        self.to().is_some_and(|to| now >= to)
    }

    /// This moment is within the measured time.
    fn is_within(&self, at: Instant) -> bool {
        self.from().is_some_and(|from| at >= from) && self.to().is_some_and(|to| at < to)
    }
}

/// The shared counts of all users.
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
        let schedule = Schedule::new(start, self.ramp_up, self.duration);
        let mut watch = Watch::new(self.server, start);
        let results: Vec<(BTreeMap<Transaction, Counted>, Option<String>)> = thread::scope(|scope| {
            let (totals, schedule) = (&totals, &schedule);
            let threads: Vec<_> =
                users.into_iter().map(|user| scope.spawn(move || work(user, schedule, totals))).collect();
            while !schedule.is_over(Instant::now()) && !totals.stop.load(Ordering::Relaxed) {
                watch.look(totals, schedule.from(), &mut progress);
                if schedule.from().is_none() && watch.ends_ramp_up(self.ramp_up) {
                    schedule.begin_at(start.elapsed() + NOTICE);
                }
                let from = schedule.from().filter(|from| Instant::now() < *from);
                let next = [Some(watch.next_second()), schedule.to(), from].into_iter().flatten();
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
            ramp_up: WarmUp {
                seconds: schedule.from().map_or(0.0, |from| (from - start).as_secs_f64()),
                steady: watch.steady,
            },
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

/// One user's work until the end. Returns its counts in the measured time, and the error of an early end.
fn work(
    mut user: User,
    schedule: &Schedule,
    totals: &Totals,
) -> (BTreeMap<Transaction, Counted>, Option<String>) {
    let mut counted: BTreeMap<Transaction, Counted> = BTreeMap::new();
    while !totals.stop.load(Ordering::Relaxed) {
        let transaction = user.draw();
        let begin = Instant::now();
        if schedule.is_over(begin) {
            break;
        }
        let result = user.run(transaction);
        let end = Instant::now();
        let within = schedule.is_within(end);
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
    first: ResourceSample,
    begin: Option<ResourceSample>,
    end: Option<ResourceSample>,
    client_begin: f64,
    client_cpu_s: f64,
    seconds: Vec<Second>,
    /// True if the rate became steady; none while undecided, and for a fixed length.
    steady: Option<bool>,
    /// The totals at the last second.
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
            steady: None,
            before: (start, 0, 0, 0),
        }
    }

    fn next_second(&self) -> Instant {
        self.before.0 + Duration::from_secs(1)
    }

    fn look(&mut self, totals: &Totals, from: Option<Instant>, progress: &mut impl FnMut(&Second)) {
        if self.begin.is_none() && from.is_some_and(|from| Instant::now() >= from) {
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

    /// True if a ramp-up ends with the last second. It is asked until it does.
    fn ends_ramp_up(&mut self, rule: Rule) -> bool {
        let rates: Vec<f64> = self.seconds.iter().map(|second| second.transactions_per_s).collect();
        let state = rule.state(&rates);
        if state != State::Warming {
            self.steady = Some(state == State::Steady);
        }
        state != State::Warming
    }

    fn end(&mut self) {
        self.end = Some(now(self.server));
        self.client_cpu_s = process_use(std::process::id()).cpu_s - self.client_begin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_fixed_ramp_up_ends_at_its_time() {
        let start = Instant::now();
        let schedule = Schedule::new(start, Rule::fixed(3), 10 * SECOND);
        for (at, within, over) in [(2, false, false), (3, true, false), (12, true, false), (13, false, true)]
        {
            let at = start + at * SECOND;
            assert_eq!((schedule.is_within(at), schedule.is_over(at)), (within, over), "{at:?}");
        }
    }

    #[test]
    fn nothing_is_measured_before_the_ramp_up_is_over() {
        let start = Instant::now();
        let rule = Rule { at_least_s: 3, at_most_s: 60, window_s: 1 };
        let schedule = Schedule::new(start, rule, 10 * SECOND);
        assert!(!schedule.is_within(start + 1000 * SECOND) && !schedule.is_over(start + 1000 * SECOND));
        schedule.begin_at(7 * SECOND);
        assert!(!schedule.is_within(start + 6 * SECOND) && schedule.is_within(start + 7 * SECOND));
        assert!(schedule.is_within(start + 16 * SECOND) && schedule.is_over(start + 17 * SECOND));
    }

    #[test]
    fn a_ramp_up_ends_with_the_second_that_is_steady() {
        let start = Instant::now();
        let rule = Rule { at_least_s: 4, at_most_s: 8, window_s: 1 };
        let ends = |rates: &[f64]| {
            let mut watch = Watch::new(None, start);
            let ended = rates.iter().position(|rate| {
                watch.seconds.push(Second {
                    at_s: 0.0,
                    new_orders_per_s: 0.0,
                    transactions_per_s: *rate,
                    failed_per_s: 0.0,
                    moment: now(0),
                });
                watch.ends_ramp_up(rule)
            });
            (ended.map(|place| place + 1), watch.steady)
        };
        assert_eq!(ends(&[50.0, 100.0, 101.0, 100.0, 100.0]), (Some(4), Some(true)));
        assert_eq!(ends(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]), (Some(8), Some(false)));
        assert_eq!(ends(&[10.0, 20.0]), (None, None));
    }
}
