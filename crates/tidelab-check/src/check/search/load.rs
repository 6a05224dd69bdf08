//! Load of a round: writers and a client with definitions on the table, and a reader whose answers must be those of its
//! snapshot.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::session::{Failure, Session};
use super::super::sql::Dice;
use super::changes::Changes;
use super::forms::Asked;
use super::table::{Key, TABLE};
use super::{run_one, Asking, Done, Round};

/// Writers of a round.
const WRITERS: usize = 3;
/// Errors that clients in each other's way get: conflicts, duplicates, a column without NULL, a changed table.
const EXPECTED: [u16; 6] = [1020, 1205, 1213, 1062, 1048, 1412];

/// What the clients of a load share.
struct Scene<'a> {
    socket: &'a Path,
    changes: &'a Changes<'a>,
    stop: AtomicBool,
    /// True from just before a kill on.
    killed: AtomicBool,
    done: AtomicU64,
}

impl Scene<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// A client's end, if nothing explains it.
    fn unexplained(&self, client: &str, done: Done<()>) -> Option<String> {
        let failed = done.err()?;
        let lost = matches!(failed.failure, Failure::Lost(_));
        (!(lost && self.killed.load(Ordering::SeqCst)))
            .then(|| format!("{client}: {}: {}", failed.statement, failed.failure))
    }

    fn connect(&self) -> Done<Session> {
        let failed = |failure| Asked { statement: "connect".to_string(), failure };
        let mut session = Session::open(self.socket).map_err(failed)?;
        run_one(
            &mut session,
            "SET NAMES utf8mb4, lock_wait_timeout = 20, tidesdb_lock_wait_timeout_ms = 500",
        )?;
        run_one(&mut session, "USE search")?;
        Ok(session)
    }
}

/// The load's shape.
pub(super) struct Shape {
    pub(super) time: Duration,
    /// True for changes of definitions meanwhile.
    pub(super) defines: bool,
    /// True if locking reads show the rows as they stay.
    pub(super) locks: bool,
}

/// True if the statement came through, false for an error of clients in each other's way.
fn tolerated(done: Done<u64>) -> Done<bool> {
    match done {
        Ok(_) => Ok(true),
        Err(Asked { failure: Failure::Sql { code, .. }, .. }) if EXPECTED.contains(&code) => Ok(false),
        Err(failed) => Err(failed),
    }
}

/// Runs all clients for the load's time; `end` ends it, and may kill the server.
pub(super) fn load(
    round: &mut Round<'_>,
    dice: &mut Dice,
    socket: &Path,
    shape: &Shape,
    kills: bool,
    end: impl FnOnce() + Send,
) -> Vec<String> {
    let scene = Scene {
        socket,
        changes: round.changes,
        stop: AtomicBool::new(false),
        killed: AtomicBool::new(false),
        done: AtomicU64::new(0),
    };
    let mut complaints: Vec<String> = thread::scope(|scope| {
        let scene = &scene;
        let mut clients = Vec::new();
        for _ in 0..WRITERS {
            let mut dice = fork(dice);
            clients.push(scope.spawn(move || scene.unexplained("a writer", write(scene, &mut dice))));
        }
        if shape.defines {
            let mut dice = fork(dice);
            clients.push(scope.spawn(move || scene.unexplained("definitions", define(scene, &mut dice))));
        }
        let ending = scope.spawn(move || {
            thread::sleep(shape.time);
            // Clients end by themselves when the server is gone.
            (if kills { &scene.killed } else { &scene.stop }).store(true, Ordering::SeqCst);
            end();
            scene.stop.store(true, Ordering::SeqCst);
        });
        let read = read(round, scene, dice, shape);
        let mut all: Vec<String> = scene.unexplained("the reader", read).into_iter().collect();
        ending.join().expect("a client does not panic");
        all.extend(clients.into_iter().filter_map(|client| client.join().expect("a client does not panic")));
        all
    });
    round.counts.changes += scene.done.load(Ordering::Relaxed);
    complaints.append(&mut round.complaints);
    complaints
}

/// Choices of its own for a client.
fn fork(dice: &mut Dice) -> Dice {
    Dice::new(dice.number(0, i64::MAX) as u64)
}

/// A client with transactions.
fn write(scene: &Scene<'_>, dice: &mut Dice) -> Done<()> {
    let mut session = scene.connect()?;
    while scene.goes_on() {
        match dice.number(0, 39) {
            0 => {
                tolerated(
                    session
                        .rows(&format!("OPTIMIZE TABLE {TABLE}"))
                        .map(|_| 0)
                        .map_err(|failure| Asked { statement: "OPTIMIZE".to_string(), failure }),
                )?;
            }
            1 => {
                run_one(&mut session, "FLUSH LOCAL TABLES search.t")?;
            }
            2..=15 => {
                if tolerated(run_one(&mut session, &scene.changes.change(dice)))? {
                    scene.done.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => transaction(scene, &mut session, dice)?,
        }
    }
    Ok(())
}

fn transaction(scene: &Scene<'_>, session: &mut Session, dice: &mut Dice) -> Done<()> {
    let level = dice.word(&["READ COMMITTED", "REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE"]);
    run_one(session, &format!("SET TRANSACTION ISOLATION LEVEL {level}"))?;
    run_one(session, "BEGIN")?;
    let mut has_savepoint = false;
    for _ in 0..dice.count(1, 6) {
        let statement = match dice.number(0, 9) {
            0 => {
                has_savepoint = true;
                "SAVEPOINT s".to_string()
            }
            1 if has_savepoint => "ROLLBACK TO s".to_string(),
            _ => scene.changes.change(dice),
        };
        match run_one(session, &statement) {
            Err(Asked { failure: Failure::Sql { code: 1213 | 1020 | 1205 | 1412, .. }, .. }) => {
                run_one(session, "ROLLBACK")?;
                return Ok(());
            }
            done => scene.done.fetch_add(u64::from(tolerated(done)?), Ordering::Relaxed),
        };
    }
    let end = if dice.one_in(4) { "ROLLBACK" } else { "COMMIT" };
    if !tolerated(run_one(session, end))? {
        run_one(session, "ROLLBACK")?;
    }
    Ok(())
}

/// A client whose own index comes and goes in place.
fn define(scene: &Scene<'_>, dice: &mut Dice) -> Done<()> {
    let mut session = scene.connect()?;
    let names: Vec<&str> = scene.changes.table.columns.iter().map(|column| column.name.as_str()).collect();
    let mut is_there = false;
    while scene.goes_on() {
        let statement = if is_there {
            format!("ALTER TABLE {TABLE} DROP KEY x, ALGORITHM=INPLACE, LOCK=NONE")
        } else {
            let count = dice.count(1, names.len());
            let columns = dice.some(&names, count).join(", ");
            // The hidden key of a table without one may need the lock.
            let parser = scene.changes.table.parser();
            let lock = if scene.changes.table.key == Key::None { "" } else { ", LOCK=NONE" };
            format!("ALTER TABLE {TABLE} ADD FULLTEXT KEY x ({columns}){parser}, ALGORITHM=INPLACE{lock}")
        };
        if tolerated(run_one(&mut session, &statement))? {
            is_there = !is_there;
        }
        thread::sleep(Duration::from_millis(dice.number(1, 60) as u64));
    }
    Ok(())
}

/// A client whose searches must agree with its snapshot.
fn read(round: &mut Round<'_>, scene: &Scene<'_>, dice: &mut Dice, shape: &Shape) -> Done<()> {
    let mut session = scene.connect()?;
    let start = Instant::now();
    while scene.goes_on() && round.complaints.is_empty() {
        if start.elapsed() > shape.time {
            // (The end is near.)
            thread::sleep(Duration::from_millis(5));
            continue;
        }
        let asking = if shape.locks && dice.one_in(3) { Asking::Locking } else { Asking::InSnapshot };
        let mut one = || -> Done<()> {
            run_one(&mut session, dice.word(&["BEGIN", "START TRANSACTION WITH CONSISTENT SNAPSHOT"]))?;
            if dice.one_in(3) {
                // Own changes meet the others' locks.
                for _ in 0..dice.count(1, 3) {
                    let done = run_one(&mut session, &scene.changes.change(dice));
                    match done {
                        Err(Asked { failure: Failure::Sql { code: 1062 | 1048, .. }, .. }) | Ok(_) => {}
                        Err(failed) => return Err(failed),
                    }
                }
            }
            round.questions(dice, &mut session, 4, asking)?;
            run_one(&mut session, dice.word(&["COMMIT", "ROLLBACK"]))?;
            Ok(())
        };
        match one() {
            Err(Asked { failure: Failure::Sql { code, .. }, .. }) if EXPECTED.contains(&code) => {
                run_one(&mut session, "ROLLBACK")?;
            }
            done => done?,
        }
    }
    Ok(())
}
