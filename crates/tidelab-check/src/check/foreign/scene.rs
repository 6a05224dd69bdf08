//! Shared state of the clients of the check `foreign` during a round, and their return after a killed
//! connection.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::session::{Address, Failure, Session};
use super::definitions::{DATABASE, KEYS};

/// No statement takes this long: a longer wait is a hang.
const ANSWER_LIMIT: Duration = Duration::from_secs(45);
/// A killed connection is gone within this time.
const GONE_LIMIT: Duration = Duration::from_secs(45);
/// The longest time without new connections when nobody was killed.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The number of kept notes.
const NOTES: usize = 24;

/// The part of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Phase {
    Running,
    /// Prepared transactions may stay.
    Ending,
    Over,
    /// The server is killed.
    Killed,
}

pub(super) struct Scene {
    pub(super) socket: PathBuf,
    phase: AtomicU8,
    /// The steps of each foreign key, changed by the definer alone.
    missing: [AtomicU64; KEYS.len()],
    pub(super) notes: Arc<Notes>,
}

/// The last definitions and kills: possible causes of a fault.
pub(super) struct Notes {
    start: Instant,
    last: Mutex<VecDeque<(Duration, String)>>,
}

/// The note of a KILL.
pub(super) fn kill_note(what: &str, connection: i64) -> String {
    format!("KILL {what} {connection}")
}

impl Notes {
    pub(super) fn new() -> Notes {
        Notes { start: Instant::now(), last: Mutex::default() }
    }

    pub(super) fn add(&self, what: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == NOTES {
            last.pop_front();
        }
        last.push_back((self.now(), what.to_string()));
    }

    /// The time now, on the notes' clock.
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// True if a connection's statement was killed at `since` or later. A note comes after its KILL.
    pub(super) fn has_kill(&self, connection: i64, since: Duration) -> bool {
        thread::sleep(Duration::from_millis(50));
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().any(|(at, what)| *at >= since && *what == kill_note("QUERY", connection))
    }

    /// The last ones before now.
    pub(super) fn show(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<String> =
            last.iter().map(|(at, what)| format!("{:.4} {what}", at.as_secs_f64())).collect();
        format!("at {:.4} s after {}", self.now().as_secs_f64(), all.join(" / "))
    }
}

impl Scene {
    pub(super) fn new(socket: &Path, notes: Arc<Notes>) -> Scene {
        Scene {
            socket: socket.to_path_buf(),
            phase: AtomicU8::new(Phase::Running as u8),
            missing: Default::default(),
            notes,
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    pub(super) fn goes_on(&self) -> bool {
        self.phase.load(Ordering::SeqCst) <= Phase::Ending as u8
    }

    pub(super) fn is_ending(&self) -> bool {
        self.phase.load(Ordering::SeqCst) >= Phase::Ending as u8
    }

    fn is_killed(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == Phase::Killed as u8
    }

    /// A client's error, if the kill does not explain it.
    pub(super) fn unexplained(&self, done: Result<(), Failure>) -> Option<Failure> {
        done.err().filter(|failure| !(self.is_killed() && matches!(failure, Failure::Lost(_))))
    }

    /// Before a foreign key is dropped, and when it is there again.
    pub(super) fn may_miss(&self, key: usize, missing: bool) {
        if (self.steps(key) % 2 == 1) != missing {
            self.missing[key].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Odd while the foreign key may be missing; it grows.
    pub(super) fn steps(&self, key: usize) -> u64 {
        self.missing[key].load(Ordering::SeqCst)
    }

    /// Pauses, at most until the round is over.
    pub(super) fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while self.goes_on() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5).min(end.saturating_duration_since(Instant::now())));
        }
    }
}

/// A client's connection.
pub(super) struct Line {
    pub(super) session: Session,
    pub(super) id: i64,
}

impl Line {
    /// Connects when the client's connection before, `old`, is gone with all of its work. An error when the server is.
    pub(super) fn open(scene: &Scene, old: Option<i64>) -> Result<Line, Failure> {
        let start = Instant::now();
        loop {
            match Line::attempt(scene, old) {
                Err(Failure::Lost(what)) if scene.is_killed() || start.elapsed() > CONNECT_LIMIT => {
                    return Err(Failure::Lost(what));
                }
                // It was killed as well.
                Err(Failure::Lost(_) | Failure::Sql { code: 1317, .. }) => {
                    thread::sleep(Duration::from_millis(20));
                }
                done => return done,
            }
        }
    }

    fn attempt(scene: &Scene, old: Option<i64>) -> Result<Line, Failure> {
        let mut session = Session::connect(&Address::root(&scene.socket), ANSWER_LIMIT)?;
        prepare(&mut session)?;
        let id = session.number("SELECT CONNECTION_ID()")?;
        // As InnoDB has it, for every third connection.
        session.run(&format!("SET SESSION tidesdb_snapshot_conflicts = {}", i32::from(id % 3 != 0)))?;
        if let Some(old) = old {
            await_none(
                &mut session,
                &format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {old}"),
            )?;
        }
        Ok(Line { session, id })
    }
}

/// The settings of every client: nobody waits long for a lock, and definitions of tables with history change.
pub(super) fn prepare(session: &mut Session) -> Result<(), Failure> {
    session.run(&format!("USE {DATABASE}"))?;
    session
        .run(
            "SET SESSION lock_wait_timeout = 3, tidesdb_lock_wait_timeout_ms = 400, \
             system_versioning_alter_history = KEEP",
        )
        .map(|_| ())
}

/// Waits until a query counts nothing.
pub(super) fn await_none(session: &mut Session, query: &str) -> Result<(), Failure> {
    let start = Instant::now();
    while session.number(query)? > 0 {
        if start.elapsed() > GONE_LIMIT {
            // Not a lost connection: no kill explains it.
            let message = format!("{query}: not 0 for {} s", GONE_LIMIT.as_secs());
            return Err(Failure::Sql { code: 0, message });
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Counts of the clients' work.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientCounts {
    pub(super) statements: u64,
    pub(super) commits: u64,
    /// Transactions undone on purpose.
    pub(super) rollbacks: u64,
    /// Transactions left prepared at a round's end.
    pub(super) left: u64,
    /// Killed connections.
    pub(super) lost: u64,
    /// Errors by number.
    pub(super) errors: BTreeMap<u16, u64>,
    /// Answered statements by kind.
    pub(super) kinds: BTreeMap<&'static str, u64>,
}

impl ClientCounts {
    pub(super) fn error(&mut self, code: u16) {
        *self.errors.entry(code).or_default() += 1;
    }

    pub(super) fn done(&mut self, kind: &'static str) {
        *self.kinds.entry(kind).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &ClientCounts) {
        self.statements += other.statements;
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.left += other.left;
        self.lost += other.lost;
        other.errors.iter().for_each(|(code, times)| *self.errors.entry(*code).or_default() += times);
        other.kinds.iter().for_each(|(kind, times)| *self.kinds.entry(kind).or_default() += times);
    }
}
