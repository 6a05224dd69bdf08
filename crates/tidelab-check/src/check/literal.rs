//! `literal`: 32 clients on 16 rows read a value, compute in the client, and write the literal, at REPEATABLE
//! READ in both lock modes. Broken snapshots lose updates here that `c = c + 1` would not show; refusing
//! everything fails the floor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;
use tidelab_server::server::settings;
use tidelab_server::server::Server;

use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

const CLIENTS: u64 = 32;
const ROWS: usize = 16;
/// At least this share of the attempts must come through.
const FLOOR_PERCENT: u64 = 30;

/// The results of one client.
#[derive(Default)]
struct ClientResult {
    attempts: u64,
    /// Commits of each row.
    commits: [u64; ROWS],
    /// The number of each conflict error.
    refused: BTreeMap<u16, u64>,
    complaints: Vec<String>,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let seconds = lab.seconds.unwrap_or(if lab.short { 3 } else { 10 });
    let mut settings = settings::checks(false);
    settings.extend(settings::snapshot_isolation());
    let server = lab.start(&settings)?;
    let mut complaints = Vec::new();
    let mut lines = Vec::new();
    for pessimistic in [true, false] {
        lab.interrupt.check()?;
        let mode = if pessimistic { "pessimistic" } else { "optimistic" };
        let tally = mode_under_load(&server, pessimistic, seconds, lab.seed)?;
        let commits: u64 = tally.commits.iter().sum();
        let line = format!(
            "{mode}: {commits} of {} attempts committed ({} %), refused {:?}",
            tally.attempts,
            commits * 100 / tally.attempts.max(1),
            tally.refused
        );
        progress(Check::Literal, &line);
        if commits * 100 < tally.attempts * FLOOR_PERCENT || commits == 0 {
            complaints.push(format!("{line}: below the floor of {FLOOR_PERCENT} %"));
        }
        complaints.extend(tally.complaints.into_iter().map(|complaint| format!("{mode}: {complaint}")));
        lines.push(line);
    }
    conclude(server, lines.join("; "), complaints)
}

fn mode_under_load(server: &Server, pessimistic: bool, seconds: u64, seed: u64) -> Result<ClientResult> {
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            &format!("SET GLOBAL tidesdb_pessimistic_locking = {}", i32::from(pessimistic)),
            "CREATE DATABASE IF NOT EXISTS torture",
            "DROP TABLE IF EXISTS torture.literal",
            "CREATE TABLE torture.literal (id INT PRIMARY KEY, v BIGINT NOT NULL) ENGINE=TidesDB",
            "INSERT INTO torture.literal SELECT seq, 0 FROM torture.seq_0_to_15",
        ],
    )?;
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let tallies: Vec<ClientResult> = thread::scope(|scope| {
        let stop = &stop;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    let mut tally = ClientResult::default();
                    let random = StdRng::seed_from_u64(seed.wrapping_add(number));
                    if let Err(failure) = client(server, stop, random, &mut tally) {
                        tally.complaints.push(format!("client {number}: {failure}"));
                    }
                    tally
                })
            })
            .collect();
        while start.elapsed() < Duration::from_secs(seconds) {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|c| c.join().expect("a client does not panic")).collect()
    });
    let mut all = ClientResult::default();
    for tally in tallies {
        all.attempts += tally.attempts;
        all.complaints.extend(tally.complaints);
        for (sum, commits) in all.commits.iter_mut().zip(tally.commits) {
            *sum += commits;
        }
        for (code, times) in tally.refused {
            *all.refused.entry(code).or_default() += times;
        }
    }
    let found = must("read the rows", session.numbers("SELECT id, v FROM torture.literal ORDER BY id"))?;
    if found.len() != ROWS {
        all.complaints.push(format!("{} rows of {ROWS} are there", found.len()));
    }
    for (row, commits) in found.iter().zip(all.commits) {
        if u64::try_from(row[1]) != Ok(commits) {
            all.complaints.push(format!("row {}: v = {} after {commits} commits", row[0], row[1]));
        }
    }
    Ok(all)
}

/// Works until told to stop; an error other than a conflict, or at COMMIT, ends it.
fn client(
    server: &Server,
    stop: &AtomicBool,
    mut random: StdRng,
    tally: &mut ClientResult,
) -> std::result::Result<(), Failure> {
    let mut session = Session::open(server.socket())?;
    session.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
    while !stop.load(Ordering::Relaxed) {
        let id = random.random_range(0..ROWS);
        tally.attempts += 1;
        match attempt(&mut session, id) {
            Ok(changed) => {
                // Other clients can end statements, never the COMMIT: an error of the COMMIT ends the
                // check.
                session.run("COMMIT")?;
                if changed == 1 {
                    tally.commits[id] += 1;
                } else {
                    tally.complaints.push(format!("an UPDATE of row {id} changed {changed} rows"));
                }
            }
            Err(failure @ Failure::Sql { .. }) if failure.is_conflict() => {
                if let Failure::Sql { code, .. } = failure {
                    *tally.refused.entry(code).or_default() += 1;
                }
                // 1205 ends the statement only.
                session.run("ROLLBACK")?;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Reads and writes, without COMMIT; the number of changed rows.
fn attempt(session: &mut Session, id: usize) -> std::result::Result<u64, Failure> {
    session.run("BEGIN")?;
    let v = session.number(&format!("SELECT v FROM torture.literal WHERE id = {id}"))?;
    session.run(&format!("UPDATE torture.literal SET v = {} WHERE id = {id}", v + 1))
}
