//! The deterministic scheduler of the simulation: threads of the engine and of its clients are coroutines on one thread
//! of the system, and a seed decides which one goes on. (After FoundationDB's simulation and `shuttle`.)
//!
//! A coroutine goes on until it waits: at a held lock, at a condition variable, in a sleep, or at a call of [`switch`].
//! Time stands still while any coroutine can go on; then it jumps to the earliest end of a wait. If nothing can go on
//! and no wait has an end, the run fails and names each waiting coroutine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use generator::{Generator, Gn};

use crate::splitmix::splitmix64;

/// Bytes of a coroutine's stack, in words.
const STACK: usize = (256 << 10) / size_of::<usize>();

/// Most steps of a run: one with more is taken for an endless loop.
const MOST_STEPS: u64 = 20_000_000;

/// One call of [`stage`] in so many stands still.
const STAND_STILL_ONE_IN: u64 = 8;

/// Longest standstill, in microseconds: some calls to the disk, with their waiters.
const LONGEST_STANDSTILL_US: u64 = 4_000;

/// Microseconds passed at once if every runnable coroutine only looks again.
const LOOK_AGAIN_US: u64 = 100;

/// A coroutine of the run.
pub type TaskId = usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    /// It polls for the work of another.
    Yielded,
    /// Until it is woken at the address, or the clock reaches the end.
    Blocked {
        on: usize,
        until: Option<u64>,
    },
    Done,
}

struct Task {
    name: String,
    state: State,
    /// Its wait ended with the time.
    timed_out: bool,
    /// Somebody unparked it while it ran.
    unparked: bool,
    /// Place of its last ordered commit.
    place: Option<u64>,
    /// `None` while it runs, and once it is done.
    coroutine: Option<Generator<'static, (), ()>>,
}

#[derive(Default)]
struct Run {
    random: u64,
    now_us: u64,
    tasks: Vec<Task>,
    current: Option<TaskId>,
    steps: u64,
    /// Coroutines that stand still in the midst of a long call.
    halfway: usize,
    /// One call of [`switch`] in so many changes the coroutine; 0: none does.
    switch_one_in: u64,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
    /// Ended coroutines. New ones get their stacks: mapping and clearing one takes longer than most live.
    static STACKS: RefCell<Vec<Generator<'static, (), ()>>> = const { RefCell::new(Vec::new()) };
}

fn with<T>(use_it: impl FnOnce(&mut Run) -> T) -> Option<T> {
    RUN.with(|run| run.borrow_mut().as_mut().map(use_it))
}

impl Run {
    fn random(&mut self) -> u64 {
        splitmix64(&mut self.random)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.random() % n.max(1) as u64) as usize
    }

    fn count(&self, of: impl Fn(&State) -> bool) -> usize {
        self.tasks.iter().filter(|task| of(&task.state)).count()
    }

    /// One of those in such a state, whichever the seed says.
    fn any(&mut self, of: impl Fn(&State) -> bool) -> Option<TaskId> {
        let count = self.count(&of);
        let which = if count > 0 { self.below(count) } else { return None };
        (0..self.tasks.len()).filter(|&task| of(&self.tasks[task].state)).nth(which)
    }

    /// The next coroutine to run; `Err`: none can.
    fn next(&mut self) -> Result<TaskId, String> {
        loop {
            if let Some(ready) = self.any(|state| *state == State::Ready) {
                return Ok(ready);
            }
            let yielded = self.count(|state| *state == State::Yielded);
            let ends = self.tasks.iter().filter_map(|task| match task.state {
                State::Blocked { until, .. } => until,
                _ => None,
            });
            let Some(end) = ends.min().or((yielded > 0).then_some(u64::MAX)) else {
                return Err(self.stuck());
            };
            // Those that look again see what others did meanwhile, or what the time did.
            self.now_us = match yielded {
                0 => end.max(self.now_us),
                _ => end.min(self.now_us + LOOK_AGAIN_US),
            };
            let now = self.now_us;
            for task in &mut self.tasks {
                match task.state {
                    State::Blocked { until: Some(until), .. } if until <= now => {
                        (task.state, task.timed_out) = (State::Ready, true);
                    }
                    State::Yielded => task.state = State::Ready,
                    _ => {}
                }
            }
        }
    }

    fn stuck(&self) -> String {
        let blocked = self.tasks.iter().filter(|task| task.state != State::Done);
        let names: Vec<&str> = blocked.map(|task| task.name.as_str()).collect();
        format!("nobody wakes any of: {}", names.join(", "))
    }
}

/// How a run came to its end.
#[derive(Debug)]
pub struct Ended {
    /// The failure: a panic, or a wait without an end.
    pub failure: Option<String>,
    /// Steps of coroutines.
    pub steps: u64,
    /// Microseconds of the run's time.
    pub micros: u64,
}

/// Runs `main` and all its coroutines, by `seed`; coroutines left at the end of `main` are a failure.
pub fn run(seed: u64, switch_one_in: u64, main: impl FnOnce() + Send + 'static) -> Ended {
    RUN.with(|run| {
        *run.borrow_mut() = Some(Run { random: seed, switch_one_in, now_us: 1_000_000, ..Run::default() })
    });
    spawn("main", main);
    let mut failure = None;
    loop {
        let next = with(|run| {
            run.steps += 1;
            if run.steps > MOST_STEPS {
                return Err(format!("{MOST_STEPS} steps and no end"));
            }
            run.next().map(|task| {
                run.current = Some(task);
                (task, run.tasks[task].coroutine.take())
            })
        });
        let (task, mut coroutine) = match next {
            Some(Ok((task, Some(coroutine)))) => (task, coroutine),
            Some(Err(why)) => {
                failure = Some(why);
                break;
            }
            _ => unreachable!("a coroutine that can go on is there"),
        };
        let went = catch_unwind(AssertUnwindSafe(|| coroutine.resume()));
        let done = coroutine.is_done();
        with(|run| {
            run.current = None;
            if done {
                run.tasks[task].state = State::Done;
                wake_in(run, join_address(task));
                if went.is_ok() {
                    STACKS.with(|stacks| stacks.borrow_mut().push(coroutine));
                }
            } else {
                run.tasks[task].coroutine = Some(coroutine);
            }
        });
        if let Err(panic) = went {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            failure = with(|run| format!("{}: {text}", run.tasks[task].name));
            break;
        }
        if task == 0 && done {
            let left = with(|run| run.count(|state| *state != State::Done)).unwrap_or(0);
            if left > 0 {
                failure = with(|run| format!("left when all was closed: {}", run.stuck()));
            }
            break;
        }
    }
    let run = RUN.with(|run| run.borrow_mut().take()).expect("it began above");
    let (steps, micros) = (run.steps, run.now_us - 1_000_000);
    // What is in the middle of something cannot be unwound: its locks and waits are this run's.
    run.tasks.into_iter().for_each(|mut task| std::mem::forget(task.coroutine.take()));
    Ended { failure, steps, micros }
}

/// True if the caller is a coroutine of a run.
pub fn is_running() -> bool {
    with(|run| run.current.is_some()).unwrap_or(false)
}

/// Adds a coroutine.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> TaskId {
    let body = move || {
        work();
        generator::done()
    };
    let coroutine = match STACKS.with(|stacks| stacks.borrow_mut().pop()) {
        Some(mut coroutine) => {
            coroutine.init_code(body);
            coroutine
        }
        None => Gn::new_opt(STACK, body),
    };
    with(|run| {
        run.tasks.push(Task {
            name: name.to_string(),
            state: State::Ready,
            timed_out: false,
            unparked: false,
            place: None,
            coroutine: Some(coroutine),
        });
        run.tasks.len() - 1
    })
    .expect("a run is under way")
}

fn join_address(task: TaskId) -> usize {
    // No object lies there.
    usize::MAX - task
}

/// Whether a coroutine has ended.
pub fn is_done(task: TaskId) -> bool {
    with(|run| run.tasks[task].state == State::Done).unwrap_or(true)
}

/// Waits for the end of a coroutine.
pub fn join(task: TaskId) {
    while with(|run| run.tasks[task].state != State::Done).unwrap_or(false) {
        block(join_address(task), None);
    }
}

fn leave(state: State) {
    let inside = with(|run| {
        let task = run.current?;
        run.tasks[task].state = state;
        run.tasks[task].timed_out = false;
        Some(task)
    });
    match inside.flatten() {
        // Its successor hands a scope to the coroutine's own function, and waits stand deep inside of the engine.
        #[allow(deprecated)]
        Some(_) => generator::yield_with(()),
        None => assert_eq!(state, State::Ready, "a wait outside of a run"),
    }
}

/// Waits at an address until somebody wakes it, or for `limit`; true: the time was over.
pub fn block(on: usize, limit: Option<Duration>) -> bool {
    let until =
        limit.and_then(|limit| with(|run| run.now_us.saturating_add(limit.as_micros().max(1) as u64)));
    leave(State::Blocked { on, until });
    with(|run| run.current.is_some_and(|task| run.tasks[task].timed_out)).unwrap_or(false)
}

fn wake_in(run: &mut Run, on: usize) {
    for task in &mut run.tasks {
        if matches!(task.state, State::Blocked { on: at, .. } if at == on) {
            task.state = State::Ready;
        }
    }
}

/// Wakes all coroutines waiting at an address.
pub fn wake_all(on: usize) {
    with(|run| wake_in(run, on));
}

/// Wakes one coroutine waiting at an address, chosen by the seed.
pub fn wake_one(on: usize) {
    with(|run| {
        let waits = run.any(|state| matches!(state, State::Blocked { on: at, .. } if *at == on));
        if let Some(task) = waits {
            run.tasks[task].state = State::Ready;
        }
    });
}

/// A place where another may go on; the seed decides.
pub fn switch() {
    if with(|run| run.switch_one_in > 0 && run.random() % run.switch_one_in == 0).unwrap_or(false) {
        leave(State::Ready);
    }
}

/// A place inside a long call, counted by its name. In a run with changes of coroutines the caller may stand still here:
/// others come far while it is halfway.
pub fn stage(name: &'static str) {
    note(name);
    let standstill = with(|run| {
        let stands = run.switch_one_in > 0 && run.random() % STAND_STILL_ONE_IN == 0;
        stands.then(|| {
            run.halfway += 1;
            Duration::from_micros(1 + run.random() % LONGEST_STANDSTILL_US)
        })
    });
    match standstill.flatten() {
        Some(time) => {
            sleep(time);
            with(|run| run.halfway -= 1);
        }
        None => switch(),
    }
}

/// Whether a coroutine stands still at a [`stage`].
pub fn is_any_halfway() -> bool {
    with(|run| run.halfway > 0).unwrap_or(false)
}

/// Lets others go on first: the caller polls for the work of one of them.
pub fn yield_now() {
    if is_running() {
        leave(State::Yielded);
    }
}

/// Sleeps by the run's clock.
pub fn sleep(time: Duration) {
    block(usize::MAX / 2, Some(time));
}

/// The calling coroutine.
pub fn current() -> TaskId {
    with(|run| run.current.unwrap_or(0)).unwrap_or(0)
}

fn park_address(task: TaskId) -> usize {
    usize::MAX / 2 + 1 + task
}

/// Waits until it is unparked, or for `limit`.
pub fn park(limit: Duration) {
    let task = current();
    if !with(|run| std::mem::take(&mut run.tasks[task].unparked)).unwrap_or(false) {
        block(park_address(task), Some(limit));
        with(|run| run.tasks[task].unparked = false);
    }
}

/// Ends the coroutine's park, or its next one.
pub fn unpark(task: TaskId) {
    with(|run| {
        run.tasks[task].unparked = true;
        wake_in(run, park_address(task));
    });
}

/// The run's clock, in microseconds.
pub fn now_micros() -> u64 {
    with(|run| run.now_us).unwrap_or(1_000_000)
}

thread_local! {
    static NOTES: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Counts a place of this kind, reached by the engine.
pub fn note(kind: &'static str) {
    NOTES.with(|notes| *notes.borrow_mut().entry(kind).or_default() += 1);
}

/// The kinds of places reached since the last call, with their counts.
pub fn take_notes() -> BTreeMap<&'static str, u64> {
    NOTES.with(|notes| std::mem::take(&mut *notes.borrow_mut()))
}

/// Time passes at once, as for a suspended machine.
pub fn leap(time: Duration) {
    with(|run| run.now_us = run.now_us.saturating_add(time.as_micros() as u64));
}

/// The coroutine has ordered a commit at this place.
pub fn note_place(seq: u64) {
    with(|run| {
        if let Some(task) = run.current {
            run.tasks[task].place = Some(seq);
        }
    });
}

/// The place of the coroutine's last ordered commit since its last call.
pub fn take_place() -> Option<u64> {
    with(|run| run.current.and_then(|task| run.tasks[task].place.take())).flatten()
}

/// A number by the run's seed.
pub fn random() -> u64 {
    with(Run::random).unwrap_or(0)
}
