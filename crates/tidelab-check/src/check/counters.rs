//! `counters`: 64 clients run `UPDATE t SET c = c + 1 WHERE id = 1` in autocommit, at READ
//! COMMITTED and REPEATABLE READ, in both lock modes, with and without a binary log. They wait
//! for each other; none ever gets an error, and the sum is the number of answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::Result;
use tidelab_server::server::settings;
use tidelab_server::server::Server;

use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

const CLIENTS: usize = 64;
const UPDATE: &str = "UPDATE torture.counter SET c = c + 1 WHERE id = 1";

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let seconds = lab.seconds.unwrap_or(if lab.short { 1 } else { 4 });
    let mut complaints = Vec::new();
    let mut total = 0;
    let mut server = lab.start(&settings::checks(false))?;
    for binary_log in [false, true] {
        if binary_log {
            server.shut_down()?;
            server.restart(&settings::checks(true), lab.interrupt)?;
        }
        for pessimistic in [true, false] {
            for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
                lab.interrupt.check()?;
                let (done, wrong) = combination(&server, pessimistic, isolation, seconds)?;
                let name = format!(
                    "{} locks, {isolation}, binary log {}",
                    if pessimistic { "pessimistic" } else { "optimistic" },
                    if binary_log { "on" } else { "off" }
                );
                progress(Check::Counters, &format!("{name}: {} updates/s", done / seconds));
                complaints.extend(wrong.into_iter().map(|complaint| format!("{name}: {complaint}")));
                total += done;
            }
        }
    }
    conclude(server, format!("{total} updates of one row by {CLIENTS} clients in 8 combinations"), complaints)
}

fn combination(
    server: &Server,
    pessimistic: bool,
    isolation: &str,
    seconds: u64,
) -> Result<(u64, Vec<String>)> {
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            &format!("SET GLOBAL tidesdb_pessimistic_locking = {}", i32::from(pessimistic)),
            "CREATE DATABASE IF NOT EXISTS torture",
            "DROP TABLE IF EXISTS torture.counter",
            "CREATE TABLE torture.counter (id INT PRIMARY KEY, c BIGINT NOT NULL) ENGINE=TidesDB",
            "INSERT INTO torture.counter VALUES (1, 0)",
        ],
    )?;
    let stop = AtomicBool::new(false);
    let client = || -> (u64, Option<Failure>) {
        let mut done = 0;
        let mut work = || -> std::result::Result<(), Failure> {
            let mut session = Session::open(server.socket())?;
            session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"))?;
            while !stop.load(Ordering::Relaxed) {
                session.run(UPDATE)?;
                done += 1;
            }
            Ok(())
        };
        let failure = work().err();
        (done, failure)
    };
    let start = Instant::now();
    let results: Vec<(u64, Option<Failure>)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        while start.elapsed() < Duration::from_secs(seconds) {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|c| c.join().expect("a client does not panic")).collect()
    });
    let done: u64 = results.iter().map(|(done, _)| done).sum();
    let mut complaints: Vec<String> =
        results.into_iter().filter_map(|(_, failure)| failure.map(|f| format!("a client got {f}"))).collect();
    let c = must("read the counter", session.number("SELECT c FROM torture.counter WHERE id = 1"))?;
    if u64::try_from(c) != Ok(done) {
        complaints.push(format!("{done} updates were answered, the row counts {c}"));
    }
    if done == 0 {
        complaints.push("no update came through".to_string());
    }
    Ok((done, complaints))
}
