//! Random ALTERs of one connection, alongside writers and readers. The writers move amounts between rows;
//! the readers read the table by each of its keys in one snapshot. Count and sums stay under every
//! definition.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidelab_server::error::Result;
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::Server;

use super::super::session::{Failure, Session};
use super::super::{connect, must, set_up};
use super::dice::Dice;

const ROWS: i64 = 2000;
const WRITERS: u64 = 2;
const READERS: u64 = 2;
/// Each writer and reader stops after so many complaints.
const COMPLAINTS_EACH: usize = 3;

/// The possible changes of the definition; each is taken back by another one.
const ALTERS: [&str; 11] = [
    "ADD KEY b (b, u), ALGORITHM=NOCOPY",
    "DROP KEY b",
    "ADD UNIQUE u (u), ALGORITHM=NOCOPY",
    "DROP KEY u",
    "ADD COLUMN x INT DEFAULT 5, ALGORITHM=INSTANT",
    "DROP COLUMN x, ALGORITHM=INSTANT",
    "ADD KEY un (u, b), ADD COLUMN y VARCHAR(10) DEFAULT 'y' FIRST, ALGORITHM=NOCOPY",
    "DROP KEY un, DROP COLUMN y, ALGORITHM=NOCOPY",
    "ALTER b SET DEFAULT 5",
    "MODIFY pad VARCHAR(200)",
    "FORCE",
];

/// The counts of statements.
#[derive(Debug, Default)]
pub(super) struct Done {
    alters: AtomicU64,
    writes: AtomicU64,
    reads: AtomicU64,
}

/// Runs for so long. Returns a line with its counts, and the complaints.
pub(super) fn run(
    server: &Server,
    seed: u64,
    seconds: u64,
    interrupt: &Interrupt,
) -> Result<(String, Vec<String>)> {
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            "CREATE OR REPLACE DATABASE sql_concurrent",
            "USE sql_concurrent",
            "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL, u INT NOT NULL, pad VARCHAR(100)) ENGINE=TidesDB",
            &format!("INSERT INTO t SELECT seq, 100, seq, REPEAT('x', 80) FROM seq_1_to_{ROWS}"),
        ],
    )?;
    let (stop, done) = (AtomicBool::new(false), Done::default());
    let mut complaints: Vec<String> = thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..WRITERS + READERS + 1 {
            let dice = Dice::new(seed.wrapping_add(number));
            let (stop, done, socket) = (&stop, &done, server.socket());
            clients.push(scope.spawn(move || client(number, dice, socket, stop, done)));
        }
        for _ in 0..seconds * 10 {
            if interrupt.check().is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|c| c.join().expect("a client does not panic")).collect()
    });
    interrupt.check()?;
    let (alters, writes, reads) =
        (done.alters.into_inner(), done.writes.into_inner(), done.reads.into_inner());
    let line = format!("{alters} ALTERs alongside {writes} transfers and {reads} reads in {seconds} s");
    if alters == 0 || writes == 0 || reads == 0 {
        complaints.push(format!("nothing was checked: {line}"));
    }
    let check = "CHECK TABLE t EXTENDED";
    let rows = must(check, session.rows(check))?;
    if rows.iter().any(|row| row.last().map(String::as_str) != Some("OK")) {
        complaints.push(format!("{check}: {rows:?}"));
    }
    set_up(&mut session, &["DROP DATABASE sql_concurrent"])?;
    Ok((line, complaints))
}

fn client(number: u64, mut dice: Dice, socket: &Path, stop: &AtomicBool, done: &Done) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut work = || -> std::result::Result<(), Failure> {
        let mut session = Session::open(socket)?;
        session.run("USE sql_concurrent")?;
        while !stop.load(Ordering::Relaxed) && complaints.len() < COMPLAINTS_EACH {
            if number < WRITERS {
                transfer(&mut session, &mut dice, done)?;
            } else if number < WRITERS + READERS {
                complaints.extend(read(&mut session, &mut dice, done)?);
            } else {
                alter(&mut session, &mut dice, done)?;
            }
        }
        Ok(())
    };
    let result = work();
    if let Err(failure) = result {
        complaints.push(format!("alongside ALTERs, client {number}: {failure}"));
    }
    complaints
}

/// These numbers are right answers of a statement alongside ALTERs.
fn one_of(failure: Failure, codes: &[u16]) -> std::result::Result<(), Failure> {
    match failure {
        Failure::Sql { code, .. } if codes.contains(&code) => Ok(()),
        other => Err(other),
    }
}

fn transfer(session: &mut Session, dice: &mut Dice, done: &Done) -> std::result::Result<(), Failure> {
    let (from, to, amount) = (dice.number(1, ROWS), dice.number(1, ROWS), dice.number(1, 5));
    let statements = [
        "BEGIN".to_string(),
        format!("UPDATE t SET b = b - {amount} WHERE a = {from}"),
        format!("UPDATE t SET b = b + {amount} WHERE a = {to}"),
        "COMMIT".to_string(),
    ];
    match statements.iter().try_for_each(|s| session.run(s).map(drop)) {
        Ok(()) => {
            done.writes.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(failure) => {
            // A deadlock, a timeout, a row or a definition newer than the snapshot.
            one_of(failure, &[1213, 1205, 1020, 1412])?;
            session.run("ROLLBACK").map(drop)
        }
    }
}

/// Count and sums by every key, in one snapshot older than some of the ALTERs.
fn read(session: &mut Session, dice: &mut Dice, done: &Done) -> std::result::Result<Option<String>, Failure> {
    session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    thread::sleep(Duration::from_millis(dice.count(0, 100) as u64));
    let keys = session.rows(
        "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS
         WHERE TABLE_SCHEMA = 'sql_concurrent' AND TABLE_NAME = 't'",
    )?;
    let mut sums = BTreeSet::new();
    for key in keys.concat() {
        let first = match key.as_str() {
            "PRIMARY" => "a",
            "b" => "b",
            _ => "u",
        };
        let select =
            format!("SELECT COUNT(*), SUM(b), SUM(u) FROM t FORCE INDEX ({key}) WHERE {first} > -1000000");
        match session.rows(&select) {
            Ok(rows) => {
                done.reads.fetch_add(1, Ordering::Relaxed);
                sums.insert((rows.concat().join(" "), key));
            }
            // A definition newer than the snapshot; a key that went meanwhile.
            Err(failure) => one_of(failure, &[1412, 1176])?,
        }
    }
    session.run("COMMIT")?;
    let right = format!("{ROWS} {} {}", ROWS * 100, ROWS * (ROWS + 1) / 2);
    let wrong: Vec<_> = sums.into_iter().filter(|(sum, _)| *sum != right).collect();
    Ok((!wrong.is_empty())
        .then(|| format!("(count, sums) and key {wrong:?} in one snapshot, must be {right}")))
}

fn alter(session: &mut Session, dice: &mut Dice, done: &Done) -> std::result::Result<(), Failure> {
    let action = dice.word(&ALTERS);
    match session.run(&format!("ALTER TABLE t {action}")) {
        Ok(_) => {
            done.alters.fetch_add(1, Ordering::Relaxed);
        }
        // There already, or not there; a timeout.
        Err(failure) => one_of(failure, &[1060, 1061, 1072, 1091, 1205])?,
    }
    thread::sleep(Duration::from_millis(dice.count(0, 60) as u64));
    Ok(())
}
