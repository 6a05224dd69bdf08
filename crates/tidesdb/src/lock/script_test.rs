//! Behaviour of the lock manager, as scripts with what they print.
//!
//! A line is `tN COMMAND ...`: `lock KEY S|X [POLICY]`, `table IS|IX|S|X [POLICY]`, `intent KEY
//! [POLICY]`, `range FROM TO [POLICY]` and `gap KEY FROM TO` (`.` for an open end), `unlock KEY S|X`, `unlock_all`, `kill`, `clear_kill`, `written N`, `prefer N`, `holds`,
//! `locked KEY S|X`, `store KEY...` (locks these keys, and those stored before, without entries, and gives the
//! entries back), `claim KEY...` (says that they will be) and `confirm KEY...` (waits for them); or `advance MILLISECONDS` (the clock), `show` (the table), `stats`. POLICY is
//! `wait` (the default), `wait=MILLISECONDS`, `nowait` or `skip`. Keys are in family 1 unless written
//! `FAMILY/KEY`; a table is `FAMILY:MODE` or a mode of family 1. A call that waits prints `waits`; what
//! it comes to is printed under the line that ended it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use expect_test::{expect, Expect};
use parking_lot::Mutex;

use super::stored_test::Keys;
use super::*;
use crate::error::Error;
use crate::types::FamilyId;

#[derive(Default)]
struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now_micros(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl WaitObserver for Heard {
    fn wait_begins(&self, waiter: &Owner, holders: &[u64]) {
        self.0.lock().push(format!("t{} for {holders:?}", waiter.id()));
    }
    fn wait_ends(&self, waiter: &Owner) {
        self.0.lock().push(format!("t{} ended", waiter.id()));
    }
    /// Appliers with odd numbers are of one group.
    fn gaps_conflict(&self, a: &Owner, b: &Owner) -> bool {
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
    owners: BTreeMap<u64, Arc<Owner>>,
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
            ["show"] => say = format!("\n{}", picture(&self.locks.dump())).trim_end().into(),
            ["stats"] => {
                let s = self.locks.stats();
                say = format!(
                    "waits {} deadlocks {} timeouts {} kills {} escalations {} chain {} held {}",
                    s.waits, s.deadlocks, s.timeouts, s.kills, s.escalations, s.chain_max, s.held
                );
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

    fn command(&mut self, who: u64, command: &[&str]) -> String {
        assert!(
            !self.pending.contains_key(&who) || command[0] == "kill",
            "t{who} waits and cannot {command:?}"
        );
        let owner = self
            .owners
            .entry(who)
            .or_insert_with(|| {
                let owner = Owner::new(who);
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
            ["intent", k, p @ ..] => {
                let ((family, key), policy) = (key(k), policy(p.first()));
                self.call(who, policy, move || match locks.put_intent(&owner, family, &key, policy) {
                    Ok(Some(Intent { granted, waited: true })) => answer(Ok(Some(granted))) + " after a wait",
                    other => answer(other.map(|i| i.map(|i| i.granted))),
                })
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
                locks.store_locks(&owner, 1, Arc::new(Keys(stored.clone())));
                locks.release_stored(&owner, &mut |family, key| family == 1 && stored.contains(key));
                String::new()
            }
            ["claim", ref keys @ ..] => {
                let stored = self.stored.entry(who).or_default();
                stored.extend(keys.iter().map(|k| key(k).1));
                locks.claim(&owner, 1, Arc::new(Keys(stored.clone())));
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
                // The check takes the wait latch: a search for deadlocks is over behind it.
                self.locks.check();
                if owner.waits_at.lock().is_some() {
                    return None;
                }
            }
        }
        panic!("t{who} neither answered nor waits");
    }

    /// Prints what waits came to that the last line ended.
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
        self.locks.check();
    }
}

pub(super) fn check(script: &str, expected: Expect) {
    check_with(LockOptions { shards: 2, ..LockOptions::default() }, script, expected);
}

pub(super) fn check_with(options: LockOptions, script: &str, expected: Expect) {
    Script::new(options).run(script, expected);
}

#[test]
fn shared_locks_share_and_exclusive_ones_wait() {
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock a X
         t1 lock b X
         show
         t1 unlock_all
         t2 unlock_all
         show
         heard",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock a X: waits
            t1 lock b X: new
            show
            1/table  t1:IX t2:IS t3:IX
            1/a      t1:S t2:S | t3:X
            1/b      t1:X
            t1 unlock_all
            t2 unlock_all
                t3: new
            show
            1/table  t3:IX
            1/a      t3:X
            heard: ["t3 for [100, 200]", "t3 ended"]
        "#]],
    );
}

#[test]
fn a_reader_does_not_overtake_a_writer_that_waits() {
    check(
        "t1 lock a S
         t2 lock a X
         t3 lock a S
         t4 lock a S
         t5 lock a X
         show
         t6 locked a S
         t6 locked a X
         t1 unlock_all
         t2 unlock_all
         show
         t4 unlock_all
         t3 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock a X: waits
            t3 lock a S: waits
            t4 lock a S: waits
            t5 lock a X: waits
            show
            1/table  t1:IS t2:IX t3:IS t4:IS t5:IX
            1/a      t1:S | t2:X t3:S t4:S t5:X
            t6 locked a S: false
            t6 locked a X: true
            t1 unlock_all
                t2: new
            t2 unlock_all
                t3: new
                t4: new
            show
            1/table  t5:IX t4:IS t3:IS
            1/a      t3:S t4:S | t5:X
            t4 unlock_all
            t3 unlock_all
                t5: new
        "#]],
    );
}

#[test]
fn an_upgrade_goes_before_all_that_wait() {
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock a X
         t1 lock a X
         show
         t2 unlock_all
         show
         t1 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock a X: waits
            t1 lock a X: waits
            show
            1/table  t1:IX t2:IS t3:IX
            1/a      t1:S t2:S | t1:X t3:X
            t2 unlock_all
                t1: new
            show
            1/table  t1:IX t3:IX
            1/a      t1:X | t3:X
            t1 unlock_all
                t3: new
        "#]],
    );
}

#[test]
fn two_upgrades_are_a_deadlock() {
    check(
        "t1 lock a S
         t2 lock a S
         t1 lock a X
         t2 lock a X
         t2 unlock_all
         show
         stats",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t1 lock a X: waits
            t2 lock a X: DEADLOCK
            t2 unlock_all
                t1: new
            show
            1/table  t1:IX
            1/a      t1:X
            stats: waits 2 deadlocks 1 timeouts 0 kills 0 escalations 0 chain 2 held 2
        "#]],
    );
}

#[test]
fn two_upgrades_and_the_first_waiter_is_the_victim() {
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock a S
         t2 written 5
         t1 lock a X
         t2 lock a X
         show
         t1 unlock_all
         t3 unlock_all
         show",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock a S: new
            t2 written 5
            t1 lock a X: waits
            t2 lock a X: waits
                t1: DEADLOCK
            show
            1/table  t1:IX t2:IX t3:IS
            1/a      t1:S t2:S t3:S | t2:X
            t1 unlock_all
            t3 unlock_all
                t2: new
            show
            1/table  t2:IX
            1/a      t2:X
        "#]],
    );
}

#[test]
fn a_cycle_of_two_takes_the_one_with_fewer_keys_written() {
    check(
        "t1 lock a X
         t2 lock b X
         t1 written 1
         t2 written 9
         t1 lock b X
         t2 lock a X
         show
         t1 unlock_all
         show",
        expect![[r#"
            t1 lock a X: new
            t2 lock b X: new
            t1 written 1
            t2 written 9
            t1 lock b X: waits
            t2 lock a X: waits
                t1: DEADLOCK
            show
            1/table  t1:IX t2:IX
            1/a      t1:X | t2:X
            1/b      t2:X
            t1 unlock_all
                t2: new
            show
            1/table  t2:IX
            1/a      t2:X
            1/b      t2:X
        "#]],
    );
}

#[test]
fn a_cycle_of_three_takes_the_youngest_of_equals() {
    check(
        "t1 lock a X
         t2 lock b X
         t3 lock c X
         t2 lock c X
         t3 lock a X
         t1 lock b X
         t3 unlock_all
         t2 unlock_all
         stats",
        expect![[r#"
            t1 lock a X: new
            t2 lock b X: new
            t3 lock c X: new
            t2 lock c X: waits
            t3 lock a X: waits
            t1 lock b X: waits
                t3: DEADLOCK
            t3 unlock_all
                t2: new
            t2 unlock_all
                t1: new
            stats: waits 3 deadlocks 1 timeouts 0 kills 0 escalations 0 chain 3 held 3
        "#]],
    );
}

#[test]
fn a_cycle_of_five_takes_whom_the_server_prefers() {
    check(
        "t1 lock a X
         t2 lock b X
         t3 lock c X
         t4 lock d X
         t5 lock e X
         t3 prefer 1
         t3 written 1000
         t1 lock b X
         t2 lock c X
         t3 lock d S
         t4 lock e S
         t5 lock a X
         show
         stats
         t3 unlock_all
         t2 unlock_all
         t1 unlock_all
         t5 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t2 lock b X: new
            t3 lock c X: new
            t4 lock d X: new
            t5 lock e X: new
            t3 prefer 1
            t3 written 1000
            t1 lock b X: waits
            t2 lock c X: waits
            t3 lock d S: waits
            t4 lock e S: waits
            t5 lock a X: waits
                t3: DEADLOCK
            show
            1/table  t1:IX t2:IX t3:IX t4:IX t5:IX
            1/a      t1:X | t5:X
            1/b      t2:X | t1:X
            1/c      t3:X | t2:X
            1/d      t4:X
            1/e      t5:X | t4:S
            stats: waits 5 deadlocks 1 timeouts 0 kills 0 escalations 0 chain 5 held 10
            t3 unlock_all
                t2: new
            t2 unlock_all
                t1: new
            t1 unlock_all
                t5: new
            t5 unlock_all
                t4: new
        "#]],
    );
}

#[test]
fn one_wait_can_close_two_cycles() {
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock b X
         t1 lock b X
         t2 lock b X
         t3 written 9
         t3 lock a X
         stats
         t1 unlock_all
         t2 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock b X: new
            t1 lock b X: waits
            t2 lock b X: waits
            t3 written 9
            t3 lock a X: waits
                t1: DEADLOCK
                t2: DEADLOCK
            stats: waits 3 deadlocks 2 timeouts 0 kills 0 escalations 0 chain 2 held 6
            t1 unlock_all
            t2 unlock_all
                t3: new
        "#]],
    );
}

#[test]
fn a_cycle_through_a_place_in_a_queue_is_found() {
    check(
        "t1 lock a S
         t2 lock b X
         t2 lock a X
         t3 lock b S wait=50
         t4 lock c X
         t4 lock a S
         t1 lock c S
         show
         t4 unlock_all
         advance 60
         t1 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock b X: new
            t2 lock a X: waits
            t3 lock b S wait=50: waits
            t4 lock c X: new
            t4 lock a S: waits
            t1 lock c S: waits
                t4: DEADLOCK
            show
            1/table  t1:IS t2:IX t3:IS t4:IX
            1/a      t1:S | t2:X
            1/b      t2:X | t3:S
            1/c      t4:X | t1:S
            t4 unlock_all
                t1: new
            advance 60
                t3: TIMEOUT
            t1 unlock_all
                t2: new
        "#]],
    );
}

#[test]
fn a_cycle_through_an_upgrade_before_the_last_waiter_is_found() {
    // The search starts at an exclusive conversion; what stands before it waits for its shared lock.
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock a S
         t1 written 3
         t2 written 2
         t3 written 1
         t2 lock a X
         t1 lock a X
         t3 unlock_all
         t2 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock a S: new
            t1 written 3
            t2 written 2
            t3 written 1
            t2 lock a X: waits
            t1 lock a X: waits
                t2: DEADLOCK
            t3 unlock_all
            t2 unlock_all
                t1: new
        "#]],
    );
}

#[test]
fn timeouts_nowait_and_skip() {
    check(
        "t1 lock a X
         t2 lock a X nowait
         t2 lock a S skip
         t2 lock a X wait=0
         t2 lock a X wait=100
         t3 lock a X wait=50
         t4 lock a S
         advance 49
         advance 1
         advance 49
         show
         advance 1
         show
         t1 unlock_all
         stats",
        expect![[r#"
            t1 lock a X: new
            t2 lock a X nowait: TIMEOUT
            t2 lock a S skip: skipped
            t2 lock a X wait=0: TIMEOUT
            t2 lock a X wait=100: waits
            t3 lock a X wait=50: waits
            t4 lock a S: waits
            advance 49
            advance 1
                t3: TIMEOUT
            advance 49
            show
            1/table  t1:IX t2:IX t3:IX t4:IS
            1/a      t1:X | t2:X t4:S
            advance 1
                t2: TIMEOUT
            show
            1/table  t1:IX t2:IX t3:IX t4:IS
            1/a      t1:X | t4:S
            t1 unlock_all
                t4: new
            stats: waits 3 deadlocks 0 timeouts 2 kills 0 escalations 0 chain 2 held 4
        "#]],
    );
}

#[test]
fn a_waiter_that_goes_lets_compatible_ones_pass() {
    check(
        "t1 lock a S
         t2 lock a X wait=50
         t3 lock a S
         advance 50
         show",
        expect![[r#"
            t1 lock a S: new
            t2 lock a X wait=50: waits
            t3 lock a S: waits
            advance 50
                t2: TIMEOUT
                t3: new
            show
            1/table  t1:IS t2:IX t3:IS
            1/a      t1:S t3:S
        "#]],
    );
}

#[test]
fn kill_ends_a_wait_and_stays() {
    check(
        "t1 lock a X
         t2 lock a X
         t2 kill
         t2 lock a X
         t2 lock b X
         t2 clear_kill
         t2 lock a X wait=10
         advance 10
         heard
         stats",
        expect![[r#"
            t1 lock a X: new
            t2 lock a X: waits
            t2 kill
                t2: KILLED
            t2 lock a X: KILLED
            t2 lock b X: new
            t2 clear_kill
            t2 lock a X wait=10: waits
            advance 10
                t2: TIMEOUT
            heard: ["t2 for [100]", "t2 ended", "t2 for [100]", "t2 ended"]
            stats: waits 2 deadlocks 0 timeouts 1 kills 1 escalations 0 chain 0 held 4
        "#]],
    );
}

#[test]
fn table_locks_and_row_locks_meet() {
    check(
        "t1 lock a X
         show
         t2 table S
         t3 table IS
         t4 table IX
         t5 table X wait=10
         t1 table S nowait
         show
         advance 10
         t1 unlock_all
         t2 lock z S
         t2 lock z X wait=10
         advance 10
         t2 unlock_all
         show",
        expect![[r#"
            t1 lock a X: new
            show
            1/table  t1:IX
            1/a      t1:X
            t2 table S: waits
            t3 table IS: new
            t4 table IX: waits
            t5 table X wait=10: waits
            t1 table S nowait: new
            show
            1/table  t1:SIX t3:IS | t2:S t4:IX t5:X
            1/a      t1:X
            advance 10
                t5: TIMEOUT
            t1 unlock_all
                t2: new
            t2 lock z S: held
            t2 lock z X wait=10: new
            advance 10
            t2 unlock_all
                t4: new
            show
            1/table  t3:IS t4:IX
        "#]],
    );
}

#[test]
fn an_exclusive_table_lock_makes_row_locks_needless() {
    check(
        "t1 table X
         t1 lock a X
         t1 unlock a X
         t2 lock a S skip
         t2 lock a S nowait
         t2 locked a S
         t1 unlock_all
         t2 lock a S",
        expect![[r#"
            t1 table X: new
            t1 lock a X: held
            t1 unlock a X
            t2 lock a S skip: skipped
            t2 lock a S nowait: TIMEOUT
            t2 locked a S: true
            t1 unlock_all
            t2 lock a S: new
        "#]],
    );
}

#[test]
fn a_table_lock_and_a_row_lock_can_deadlock() {
    check(
        "t1 lock a X
         t2 table 2:X
         t2 table 1:X
         t1 lock 2/q S
         t2 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t2 table 2:X: new
            t2 table 1:X: waits
            t1 lock 2/q S: waits
                t2: DEADLOCK
            t2 unlock_all
                t1: new
        "#]],
    );
}

#[test]
fn locks_are_counted() {
    check(
        "t1 lock a S
         t1 lock a X
         show
         t2 lock a S
         t1 unlock a X
         show
         t1 unlock a S
         show
         t1 lock b X
         t1 lock b S
         t1 unlock b X
         show
         t1 unlock b S
         t1 unlock b S
         t1 lock c X
         t1 lock c X
         t1 unlock c X
         show",
        expect![[r#"
            t1 lock a S: new
            t1 lock a X: new
            show
            1/table  t1:IX
            1/a      t1:X
            t2 lock a S: waits
            t1 unlock a X
                t2: new
            show
            1/table  t1:IX t2:IS
            1/a      t1:S t2:S
            t1 unlock a S
            show
            1/table  t1:IX t2:IS
            1/a      t2:S
            t1 lock b X: new
            t1 lock b S: held
            t1 unlock b X
            show
            1/table  t1:IX t2:IS
            1/a      t2:S
            1/b      t1:S
            t1 unlock b S
            t1 unlock b S
            t1 lock c X: new
            t1 lock c X: held
            t1 unlock c X
            show
            1/table  t1:IX t2:IS
            1/a      t2:S
            1/c      t1:X
        "#]],
    );
}

#[test]
fn intents_wait_only_for_owners_without_anything() {
    check(
        "t1 intent a
         t2 intent a
         t3 intent b
         t3 holds
         t3 intent a
         t3 unlock_all
         t4 table IX
         t4 holds
         t4 intent a skip
         t5 lock a X
         show
         t1 unlock_all
         t2 unlock_all
         t2 holds
         t1 intent a wait=5
         advance 5",
        expect![[r#"
            t1 intent a: new
            t2 intent a: waits
            t3 intent b: new
            t3 holds: true
            t3 intent a: DEADLOCK
            t3 unlock_all
            t4 table IX: new
            t4 holds: false
            t4 intent a skip: skipped
            t5 lock a X: waits
            show
            1/table  t1:IX t2:IX t4:IX t5:IX
            1/a      t1:X* | t2:X* t5:X
            t1 unlock_all
                t2: new after a wait
            t2 unlock_all
                t5: new
            t2 holds: false
            t1 intent a wait=5: waits
            advance 5
                t1: TIMEOUT
        "#]],
    );
}

#[test]
fn locks_of_an_index_come_under_the_lock_of_its_table() {
    check(
        "attach 2 1
         attach 2 1
         attach 3 2
         t1 lock 2/i X
         show
         t2 table 1:S nowait
         t2 table 2:X nowait
         attach 1 5
         attach 9 9",
        expect![[r#"
            attach 2 1: Ok(())
            attach 2 1: Ok(())
            attach 3 2: Err(InvalidArgument("family 2 cannot be the table of family 3"))
            t1 lock 2/i X: new
            show
            1/table  t1:IX
            2/i      t1:X
            t2 table 1:S nowait: TIMEOUT
            t2 table 2:X nowait: TIMEOUT
            attach 1 5: Err(InvalidArgument("family 1 is in use and cannot be attached to 5"))
            attach 9 9: Err(InvalidArgument("family 9 cannot be the table of family 9"))
        "#]],
    );
}

#[test]
fn row_locks_escalate_to_a_table_lock() {
    Script::new(LockOptions { max_locks: 3, max_total: 0, escalate: true, shards: 2 }).run(
        "attach 2 1
         t1 lock a X
         t1 lock 2/b S
         t1 lock 3/c S
         show
         t2 lock z S
         t1 lock d X
         show
         t2 unlock_all
         show
         t1 lock d X
         t1 lock 3/e S
         t1 lock 3/f S
         t2 lock 3/e S
         t1 lock 3/g S
         show
         stats",
        expect![[r#"
            attach 2 1: Ok(())
            t1 lock a X: new
            t1 lock 2/b S: new
            t1 lock 3/c S: new
            show
            1/table  t1:IX
            1/a      t1:X
            2/b      t1:S
            3/table  t1:IS
            3/c      t1:S
            t2 lock z S: new
            t1 lock d X: waits
            show
            1/table  t1:IX t2:IS | t1:X
            1/a      t1:X
            1/z      t2:S
            2/b      t1:S
            3/table  t1:IS
            3/c      t1:S
            t2 unlock_all
                t1: held
            show
            1/table  t1:X
            3/table  t1:IS
            3/c      t1:S
            t1 lock d X: held
            t1 lock 3/e S: new
            t1 lock 3/f S: new
            t2 lock 3/e S: new
            t1 lock 3/g S: held
            show
            1/table  t1:X
            3/table  t1:S t2:IS
            3/e      t2:S
            stats: waits 1 deadlocks 0 timeouts 0 kills 0 escalations 2 chain 0 held 4
        "#]],
    );
    Script::new(LockOptions { max_locks: 2, max_total: 0, escalate: true, shards: 2 }).run(
        "t1 lock a S
         t1 lock b S
         t2 lock x X
         t1 lock c S nowait
         t1 lock c S wait=10
         advance 10
         show",
        expect![[r#"
            t1 lock a S: new
            t1 lock b S: new
            t2 lock x X: new
            t1 lock c S nowait: more than the 2 row locks that there may be, and others use the table
            t1 lock c S wait=10: waits
            advance 10
                t1: more than the 2 row locks that there may be, and others use the table
            show
            1/table  t1:IS t2:IX
            1/a      t1:S
            1/b      t1:S
            1/x      t2:X
        "#]],
    );
    Script::new(LockOptions { max_locks: 2, max_total: 0, escalate: false, shards: 2 }).run(
        "t1 lock a S
         t1 lock b X
         t1 lock b X
         t1 lock c S
         t1 unlock a S
         t1 lock c S",
        expect![[r#"
            t1 lock a S: new
            t1 lock b X: new
            t1 lock b X: held
            t1 lock c S: more than the 2 row locks that there may be, and others use the table
            t1 unlock a S
            t1 lock c S: new
        "#]],
    );
}
