//! The language of the lock manager's tests: scripts with their output.
//!
//! A line is `tN COMMAND ...`, or a command without a transaction. Transactions lock by `lock KEY S|X
//! [POLICY]`, `advisory KEY S|X [POLICY]`, `table IS|IX|S|X [POLICY]`, `intent KEY [POLICY]`, `range FROM TO
//! [POLICY]` and `gap KEY FROM TO` (`.` for an open end). They have `unlock KEY S|X`, `unlock_all`, `kill`,
//! `clear_kill`, `written N`, `prefer N`, `applier` and `priority`. `restore FROM TO` publishes a gap lock
//! without a look at others. They ask by `advises` (for advisory locks), `holds` and `locked
//! KEY S|X`. `store KEY...` locks these keys, and those stored before, without entries, and releases the
//! entries. `announce KEY...` announces this, and `confirm KEY...` waits for it.
//!
//! Commands without a transaction are `advance MILLISECONDS` (the clock), `show` (the table), `stats`,
//! `heard [tN]` (reports of waits), and `deadlocks` (as reported). POLICY is `wait` (the default),
//! `wait=MILLISECONDS`, `nowait` or `skip`. Keys are in family 1 unless written `FAMILY/KEY`; a table is
//! `FAMILY:MODE` or a mode of family 1. A waiting call prints `waits`. Its result is printed under the line
//! that ended the wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use expect_test::Expect;

use super::implicit_test::Keys;
use super::*;
use crate::error::Error;
use crate::host::{Clock, Instant};
use crate::sync::Mutex;
use crate::types::FamilyId;

#[derive(Debug, Default)]
struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(SeqCst) * 1000)
    }

    fn unix_seconds(&self) -> u64 {
        0
    }

    fn sleep(&self, _time: Duration) {}
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>, Mutex<Vec<String>>);

impl WaitObserver for Heard {
    fn wait_begins(&self, waiter: &LockOwner, holders: &[u64]) {
        self.0.lock().push(format!("t{} for {holders:?}", waiter.id()));
    }
    fn wait_goes_on(&self, waiter: &LockOwner, holders: &[u64]) {
        self.0.lock().push(format!("t{} goes on for {holders:?}", waiter.id()));
    }
    fn wait_ends(&self, waiter: &LockOwner) {
        self.0.lock().push(format!("t{} ended", waiter.id()));
    }
    fn deadlock(&self, deadlock: &Deadlock) {
        let shown = |lock: &DumpedLock| {
            let key = lock.key.as_ref().map_or("table".into(), |key| key.bytes.escape_ascii().to_string());
            let to =
                lock.range_to.as_ref().map(|to| to.as_ref().map(|to| to.bytes.escape_ascii().to_string()));
            let to = to.map_or(String::new(), |to| format!("..{}", to.unwrap_or_default()));
            let waits = if lock.waiting { "waits" } else { "has" };
            format!("t{} {waits} {} {}/{key}{to}", lock.owner.id, lock.mode, lock.family)
        };
        let waits = deadlock.waits.iter().map(|wait| {
            assert_eq!(wait.wants.blocker, Some(wait.in_the_way.owner));
            let (wants, in_the_way) = (shown(&wait.wants), shown(&wait.in_the_way));
            format!("[{wants} for {} us, {in_the_way}]", wait.waited_us)
        });
        let waits: Vec<String> = waits.collect();
        let victim = deadlock.waits[deadlock.victim].wants.owner.id;
        self.1.lock().push(format!("{}: t{victim}, {:?}", waits.join(", "), deadlock.reason));
    }
    /// Appliers with odd numbers are of one group.
    fn gaps_conflict(&self, a: &LockOwner, b: &LockOwner) -> bool {
        (a.id() | b.id()) % 2 == 0
    }
}

struct Pending {
    answer: mpsc::Receiver<String>,
    deadline: Option<u64>,
}

struct Script {
    locks: Arc<LockManager>,
    clock: Arc<TestClock>,
    heard: Arc<Heard>,
    owners: BTreeMap<u64, Arc<LockOwner>>,
    pending: BTreeMap<u64, Pending>,
    stored: BTreeMap<u64, BTreeSet<Vec<u8>>>,
    out: String,
}

fn answer(result: Result<Option<Granted>, Error>) -> String {
    match result {
        Ok(Some(Granted::New)) => "new".into(),
        Ok(Some(Granted::AlreadyHeld | Granted::ByTable)) => "held".into(),
        Ok(None) => "skipped".into(),
        Err(Error::Deadlock) => "DEADLOCK".into(),
        Err(Error::LockTimeout) => "TIMEOUT".into(),
        Err(Error::Interrupted) => "KILLED".into(),
        Err(e) => e.to_string(),
    }
}

fn mode(word: &str) -> Mode {
    match word {
        "S" => Mode::Shared,
        "X" => Mode::Exclusive,
        other => panic!("{other} is no mode"),
    }
}

fn key(word: &str) -> (FamilyId, Vec<u8>) {
    match word.split_once('/') {
        Some((family, key)) => (family.parse().unwrap(), key.into()),
        None => (1, word.into()),
    }
}

impl Script {
    fn new(options: LockOptions) -> Script {
        let clock = Arc::new(TestClock::default());
        let heard = Arc::new(Heard::default());
        Script {
            locks: Arc::new(LockManager::with_options(Some(heard.clone()), clock.clone(), options)),
            clock,
            heard,
            owners: BTreeMap::new(),
            pending: BTreeMap::new(),
            stored: BTreeMap::new(),
            out: String::new(),
        }
    }

    fn run(mut self, script: &str, expected: Expect) {
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            self.line(line);
        }
        for owner in self.owners.values() {
            assert!(!self.pending.contains_key(&owner.id()), "t{} waits at the end", owner.id());
            self.locks.unlock_all(owner);
        }
        let stats = self.locks.stats();
        assert_eq!((stats.held, stats.entries, stats.ranges, stats.waiting), (0, 0, 0, 0));
        expected.assert_eq(&self.out);
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut say = String::new();
        match words[..] {
            ["show"] => say = format!("\n{}", listing(&self.locks.list())).trim_end().into(),
            ["stats"] => {
                let s = self.locks.stats();
                say = format!(
                    "waits {} deadlocks {} timeouts {} kills {} escalations {} chain {} held {}",
                    s.waits, s.deadlocks, s.timeouts, s.kills, s.escalations, s.chain_max, s.held
                );
            }
            ["deadlocks"] => say = std::mem::take(&mut *self.heard.1.lock()).join("; "),
            ["heard", who] => {
                let prefix = format!("{who} ");
                let (own, others) = std::mem::take(&mut *self.heard.0.lock())
                    .into_iter()
                    .partition::<Vec<_>, _>(|report| report.starts_with(&prefix));
                *self.heard.0.lock() = others;
                say = format!("{own:?}");
            }
            ["heard"] => say = format!("{:?}", std::mem::take(&mut *self.heard.0.lock())),
            ["advance", ms] => {
                let ms: u64 = ms.parse().unwrap();
                self.clock.0.fetch_add(ms * 1000, SeqCst);
            }
            ["attach", family, table] => {
                let done = self.locks.attach_family(family.parse().unwrap(), table.parse().unwrap());
                say = format!("{done:?}");
            }
            [who, ref command @ ..] => say = self.command(who[1..].parse().unwrap(), command),
            [] => {}
        }
        self.out +=
            &format!("{line}{}{say}\n", if say.is_empty() || say.starts_with('\n') { "" } else { ": " });
        self.settle(line);
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each command of a script")]
    fn command(&mut self, who: u64, command: &[&str]) -> String {
        assert!(
            !self.pending.contains_key(&who) || command[0] == "kill",
            "t{who} waits and cannot {command:?}"
        );
        let owner = self
            .owners
            .entry(who)
            .or_insert_with(|| {
                let owner = LockOwner::new(who);
                owner.set_cookie(who * 100);
                owner
            })
            .clone();
        let locks = self.locks.clone();
        let policy = |word: Option<&&str>| match word {
            None | Some(&"wait") => Policy::Wait(None),
            Some(&"nowait") => Policy::NoWait,
            Some(&"skip") => Policy::Skip,
            Some(word) => Policy::Wait(Some(Duration::from_millis(
                word.strip_prefix("wait=").expect("a policy").parse().unwrap(),
            ))),
        };
        match command {
            ["lock", k, m, p @ ..] => {
                let ((family, key), mode, policy) = (key(k), mode(m), policy(p.first()));
                self.call(who, policy, move || answer(locks.lock_point(&owner, family, &key, mode, policy)))
            }
            ["advisory", k, m, p @ ..] => {
                let ((family, key), mode, policy) = (key(k), mode(m), policy(p.first()));
                self.call(who, policy, move || {
                    let done = locks.lock_advisory(&owner, family, &key, mode, policy);
                    done.map_or_else(|e| answer(Err(e)), |()| "locked".into())
                })
            }
            ["advises"] => {
                let one = |lock: AdvisoryLock| {
                    let mode = if lock.mode == Mode::Shared { "S" } else { "X" };
                    format!("{}/{}:{mode}", lock.family, lock.key.escape_ascii())
                };
                locks.advisory_locks(&owner).into_iter().map(one).collect::<Vec<_>>().join(" ")
            }
            ["intent", k, p @ ..] => {
                let ((family, key), policy) = (key(k), policy(p.first()));
                self.call(who, policy, move || answer(locks.put_intent(&owner, family, &key, policy)))
            }
            ["table", m, p @ ..] => {
                let (family, m) = m.split_once(':').unwrap_or(("1", m));
                let family: FamilyId = family.parse().unwrap();
                let policy = policy(p.first());
                let mode = match m {
                    "IS" => TableMode::IntentShared,
                    "IX" => TableMode::IntentExclusive,
                    "S" => TableMode::Shared,
                    "X" => TableMode::Exclusive,
                    other => panic!("{other} is no table mode"),
                };
                self.call(who, policy, move || {
                    answer(locks.lock_table(&owner, family, mode, policy).map(Some))
                })
            }
            ["range", from, to, p @ ..] => {
                let ((family, from), policy) = (key(from), policy(p.first()));
                let to = (*to != ".").then(|| to.as_bytes().to_vec());
                let from = if from == b"." { Vec::new() } else { from };
                self.call(who, policy, move || {
                    let done = locks.lock_range(&owner, family, &from, to.as_deref(), policy);
                    match done {
                        Ok(()) => "free".into(),
                        Err(e) => answer(Err(e)),
                    }
                })
            }
            ["gap", k, from, to] => {
                let (family, k) = key(k);
                let from = if *from == "." { "" } else { from };
                let to = (*to != ".").then_some(to.as_bytes());
                let done = locks.lock_gap(&owner, family, &k, from.as_bytes(), to, Policy::NoWait);
                done.map_or_else(|e| e.to_string(), |()| String::new())
            }
            ["applier"] => {
                owner.set_applier(true);
                String::new()
            }
            ["priority"] => {
                owner.set_priority(true);
                String::new()
            }
            ["restore", from, to] => {
                let (family, from) = key(from);
                let to = (*to != ".").then(|| to.as_bytes().to_vec());
                let done = locks.restore_range(&owner, &Range { family, from, to });
                done.map_or_else(|e| e.to_string(), |()| String::new())
            }
            ["unlock", k, m] => {
                let (family, key) = key(k);
                locks.unlock_point(&owner, family, &key, mode(m));
                String::new()
            }
            ["unlock_all"] => {
                self.stored.remove(&who);
                locks.unlock_all(&owner);
                String::new()
            }
            ["kill"] => {
                locks.kill(&owner);
                String::new()
            }
            ["clear_kill"] => {
                locks.clear_kill(&owner);
                String::new()
            }
            ["written", n] => {
                owner.set_written(n.parse().unwrap());
                String::new()
            }
            ["prefer", n] => {
                owner.set_preference(n.parse().unwrap());
                String::new()
            }
            ["store", ref keys @ ..] => {
                let stored = self.stored.entry(who).or_default();
                stored.extend(keys.iter().map(|k| key(k).1));
                locks.lock_implicitly(&owner, 1, Arc::new(Keys(stored.clone())));
                locks.release_to_implicit(&owner, &mut |family, key, _| family == 1 && stored.contains(key));
                String::new()
            }
            ["announce", ref keys @ ..] => {
                let stored = self.stored.entry(who).or_default();
                stored.extend(keys.iter().map(|k| key(k).1));
                locks.announce_implicit(&owner, 1, Arc::new(Keys(stored.clone())));
                String::new()
            }
            ["confirm", ref keys @ ..] => {
                let keys: Vec<Vec<u8>> = keys.iter().map(|k| key(k).1).collect();
                self.call(who, Policy::Wait(None), move || {
                    let fresh = || keys.iter().map(Vec::as_slice);
                    match locks.confirm(&owner, 1, fresh, Policy::Wait(None)) {
                        Ok(()) => "confirmed".into(),
                        Err(e) => answer(Err(e)),
                    }
                })
            }
            ["holds"] => locks.holds_anything(&owner).to_string(),
            ["locked", k, m] => {
                let (family, key) = key(k);
                locks.is_locked_by_other(&owner, family, &key, mode(m)).to_string()
            }
            other => panic!("{other:?} is no command"),
        }
    }

    /// Runs a call on a thread of its own; returns when it answered or waits.
    fn call(&mut self, who: u64, policy: Policy, call: impl FnOnce() -> String + Send + 'static) -> String {
        let (send, answer) = mpsc::channel();
        std::thread::spawn(move || drop(send.send(call())));
        let deadline = match policy {
            Policy::Wait(Some(limit)) => Some(self.clock.now_micros() + limit.as_micros() as u64),
            _ => None,
        };
        match self.answered_or_waits(who, &answer) {
            Some(answer) => answer,
            None => {
                self.pending.insert(who, Pending { answer, deadline });
                "waits".into()
            }
        }
    }

    fn answered_or_waits(&self, who: u64, answer: &mpsc::Receiver<String>) -> Option<String> {
        let owner = &self.owners[&who];
        for _ in 0..200_000 {
            if let Ok(answer) = answer.recv_timeout(Duration::from_micros(50)) {
                return Some(answer);
            }
            if owner.waits_at.lock().is_some() {
                // The check takes the wait latch: a search for deadlocks is over after it.
                self.locks.check();
                if owner.waits_at.lock().is_some() {
                    return None;
                }
            }
        }
        panic!("t{who} neither answered nor waits");
    }

    /// Prints the results of waits ended by the last line.
    fn settle(&mut self, line: &str) {
        let now = self.clock.now_micros();
        loop {
            let mut ended = Vec::new();
            for (&who, pending) in &self.pending {
                let killed = line == format!("t{who} kill");
                let late = pending.deadline.is_some_and(|d| d <= now);
                if killed || late {
                    self.locks.look_at_the_clock(&self.owners[&who]);
                    let answer = pending.answer.recv_timeout(Duration::from_secs(10));
                    ended.push((who, answer.expect("the wait ends")));
                } else if let Some(answer) = self.answered_or_waits(who, &pending.answer) {
                    ended.push((who, answer));
                }
            }
            if ended.is_empty() {
                break;
            }
            for (who, answer) in ended {
                self.pending.remove(&who);
                self.out += &format!("    t{who}: {answer}\n");
            }
        }
        while self.pending.keys().any(|who| self.owners[who].wait_cell.looks()) {
            std::thread::yield_now();
        }
        self.locks.check();
    }
}

pub(super) fn check(script: &str, expected: Expect) {
    check_with(LockOptions { shards: 2, ..LockOptions::default() }, script, expected);
}

pub(super) fn check_with(options: LockOptions, script: &str, expected: Expect) {
    Script::new(options).run(script, expected);
}
