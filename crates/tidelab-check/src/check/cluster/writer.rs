//! A writer: transactions on one node, one after the other, until the round is over. A node out of reach is asked again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::RngExt;

use super::super::session::{Address, Failure, Session};
use super::ledger::{Answer, Attempt, Ledger};
use super::transaction::{Step, Transaction, TOKENS};

/// Longest time for an answer: a longer wait is a hang.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// A writer's longest rest after a transaction, in milliseconds, at a disturbance; it grows by as much in so many seconds.
/// A node that comes back, with one applier and a sync for each commit, must be able to catch up with the others.
const REST: u64 = 40;
const GROWS_EVERY: u64 = 3;
/// The pause before another request to a refusing node.
const AGAIN: Duration = Duration::from_millis(30);

/// What the clients of a round share.
pub(super) struct Scene {
    /// The nodes' sockets.
    pub(super) sockets: Vec<PathBuf>,
    is_over: AtomicBool,
    definitions: Mutex<()>,
    /// The last disturbance.
    disturbed: Mutex<Instant>,
}

/// Ends the clients when it goes.
pub(super) struct Ends<'a>(&'a Scene);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

impl Scene {
    pub(super) fn new(sockets: Vec<PathBuf>) -> Scene {
        Scene {
            sockets,
            is_over: AtomicBool::new(false),
            definitions: Mutex::new(()),
            disturbed: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn ends(&self) -> Ends<'_> {
        Ends(self)
    }

    /// While it is held, no definition is sent.
    pub(super) fn no_definitions(&self) -> MutexGuard<'_, ()> {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A disturbance begins.
    pub(super) fn note_disturbance(&self) {
        *self.disturbed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn longest_rest(&self) -> u64 {
        let since = self.disturbed.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        REST * (1 + since.as_secs() / GROWS_EVERY)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// A session waiting for its node; none once the round is over.
pub(super) fn session_of(socket: &Path, scene: &Scene) -> Option<Session> {
    while !scene.is_over() {
        match Session::connect(&Address::root(socket), ANSWER_LIMIT) {
            Ok(session) => return Some(session),
            // The node is down, or not in the cluster: at the round's end all of them are.
            Err(_) => sleep(AGAIN),
        }
    }
    None
}

/// True for the answer of a node that is not in the cluster.
pub(super) fn is_detached(failure: &Failure) -> bool {
    matches!(failure, Failure::Sql { code: 1047, .. })
}

/// A client of a node.
pub(super) struct Writer {
    /// Its node, from 0.
    pub(super) node: usize,
    pub(super) number: i64,
    next: i64,
    pub(super) ledger: Ledger,
    /// Refused statements and commits by error number.
    pub(super) errors: BTreeMap<u16, u64>,
    pub(super) complaints: Vec<String>,
}

impl Writer {
    pub(super) fn new(node: usize, number: i64) -> Writer {
        Writer {
            node,
            number,
            next: 0,
            ledger: Ledger::default(),
            errors: BTreeMap::new(),
            complaints: Vec::new(),
        }
    }

    /// Works until the round is over.
    pub(super) fn work(&mut self, scene: &Scene, mut random: StdRng) {
        let socket = &scene.sockets[self.node];
        while let Some(mut session) = session_of(socket, scene) {
            match self.transactions(&mut session, scene, &mut random) {
                Ok(()) => return,
                Err(Failure::Lost(_)) => {}
                Err(failure) => {
                    self.complain(&failure.to_string());
                    return;
                }
            }
        }
    }

    fn complain(&mut self, what: &str) {
        self.complaints.push(format!("writer {} on node {}: {what}", self.number, self.node + 1));
    }

    fn transactions(
        &mut self,
        session: &mut Session,
        scene: &Scene,
        random: &mut StdRng,
    ) -> Result<(), Failure> {
        while !scene.is_over() {
            self.next += 1;
            let drawn = Transaction::draw(self.number * TOKENS + self.next, self.number, random);
            let start = Instant::now();
            let done = self.transaction(session, &drawn);
            if start.elapsed() >= ANSWER_LIMIT {
                self.complain(&format!("no answer for {} s: {drawn:?}", start.elapsed().as_secs()));
            }
            done?;
            rest(scene, random, scene.longest_rest());
        }
        Ok(())
    }

    /// Runs one; an error that a cluster answers with under load is none here.
    fn transaction(&mut self, session: &mut Session, drawn: &Transaction) -> Result<(), Failure> {
        if let Err(failure) = begin(session, drawn) {
            self.expect(&failure, drawn, false)?;
            return self.roll_back(session);
        }
        for step in if drawn.autocommit { &[][..] } else { &drawn.steps[..] } {
            if let Err(failure) = run(session, step) {
                self.expect(&failure, drawn, takes_a_number(step))?;
                return self.roll_back(session);
            }
        }
        if drawn.rolls_back {
            return self.roll_back(session);
        }
        let last = match (&drawn.steps[..], drawn.autocommit) {
            ([Step::Run(statement)], true) => statement,
            _ => "COMMIT",
        };
        let mut attempt =
            Attempt { token: drawn.token, answer: Answer::None, effects: drawn.effects.clone() };
        let answered = session.run(last);
        attempt.answer = match &answered {
            Ok(_) => Answer::Acknowledged,
            Err(Failure::Lost(_)) => Answer::None,
            Err(failure) => Answer::Refused(failure.to_string()),
        };
        self.ledger.note(attempt);
        match answered {
            Ok(_) => Ok(()),
            Err(failure) => {
                self.expect(&failure, drawn, drawn.autocommit)?;
                self.roll_back(session)
            }
        }
    }

    /// Counts an error of a conflict, and of a node without the others; any other one is a fault. While the nodes' number
    /// changes, two of them may take the same number for a row.
    fn expect(
        &mut self,
        failure: &Failure,
        drawn: &Transaction,
        takes_a_number: bool,
    ) -> Result<(), Failure> {
        match failure {
            Failure::Sql { code: 1062, .. } if takes_a_number => {
                *self.errors.entry(1062).or_default() += 1;
                Ok(())
            }
            Failure::Lost(_) => Err(failure.clone()),
            // The parent went after it was read.
            Failure::Sql { code: 1452, .. } if drawn.has_guest() => {
                *self.errors.entry(1452).or_default() += 1;
                Ok(())
            }
            // 1180: an error at the commit. 1412: a definition came in between.
            Failure::Sql { code: code @ (1020 | 1047 | 1180 | 1205 | 1213 | 1412), .. } => {
                *self.errors.entry(*code).or_default() += 1;
                if is_detached(failure) {
                    sleep(AGAIN);
                }
                Ok(())
            }
            Failure::Sql { code, message } => {
                Err(Failure::Sql { code: *code, message: format!("{message}, in {drawn:?}") })
            }
        }
    }

    fn roll_back(&self, session: &mut Session) -> Result<(), Failure> {
        match session.run("ROLLBACK") {
            Err(failure @ Failure::Lost(_)) => Err(failure),
            // A detached node refuses this, too: the transaction ends with its session.
            Err(failure) => Err(Failure::Lost(failure.to_string())),
            Ok(_) => Ok(()),
        }
    }
}

/// True for an INSERT into a table whose key is AUTO_INCREMENT.
fn takes_a_number(step: &Step) -> bool {
    matches!(step, Step::Run(statement) if statement.contains(" (token, hot, amount) ") || statement.contains(" (parent, token) "))
}

fn begin(session: &mut Session, drawn: &Transaction) -> Result<(), Failure> {
    if drawn.autocommit {
        return Ok(());
    }
    session.run(&format!("SET TRANSACTION ISOLATION LEVEL {}", drawn.level))?;
    session.run("BEGIN").map(drop)
}

fn run(session: &mut Session, step: &Step) -> Result<(), Failure> {
    match step {
        Step::Run(statement) => session.run(statement).map(drop),
        Step::AddLiteral { table, id, amount } => {
            let n = session.number(&format!("SELECT n FROM {table} WHERE id = {id} FOR UPDATE"))?;
            session.run(&format!("UPDATE {table} SET n = {} WHERE id = {id}", n + amount)).map(drop)
        }
    }
}

/// A pause, cut short by the end of the round.
pub(super) fn rest(scene: &Scene, random: &mut StdRng, most: u64) {
    let until = Instant::now() + Duration::from_millis(random.random_range(0..=most));
    while !scene.is_over() && Instant::now() < until {
        sleep(Duration::from_millis(5));
    }
}
