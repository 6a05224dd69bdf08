//! `jobs`: 8 workers take the first open job of a table with `SELECT ... ORDER BY id LIMIT 1 FOR UPDATE`
//! and do it with `DELETE` or `UPDATE`, while a producer puts more. They run with `SKIP LOCKED` and
//! without, at READ COMMITTED and REPEATABLE READ, in both lock modes. Each job goes to one worker, and
//! no worker meets a deadlock: all take the rows in one order.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::Result;
use tidelab_server::server::settings;
use tidelab_server::server::Server;

use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

const WORKERS: u32 = 8;
/// One in so many jobs is there before the workers come.
const THERE_BEFORE: u64 = 10;

/// The method of the workers.
#[derive(Clone, Copy, Debug)]
struct Way {
    pessimistic: bool,
    isolation: &'static str,
    skips: bool,
    deletes: bool,
}

impl Way {
    fn all() -> impl Iterator<Item = Way> {
        (0..16).map(|n| Way {
            pessimistic: n & 8 == 0,
            isolation: if n & 4 == 0 { "READ COMMITTED" } else { "REPEATABLE READ" },
            skips: n & 2 != 0,
            deletes: n & 1 != 0,
        })
    }

    fn take(self) -> String {
        format!(
            "SELECT id FROM torture.jobs {} ORDER BY id LIMIT 1 FOR UPDATE{}",
            // Of a table that is nearly empty the optimizer would sort all rows, and so lock them all.
            if self.deletes { "FORCE INDEX (PRIMARY)" } else { "WHERE done = 0" },
            if self.skips { " SKIP LOCKED" } else { "" }
        )
    }

    fn finish(self, job: i64, worker: u32) -> String {
        match self.deletes {
            true => format!("DELETE FROM torture.jobs WHERE id = {job}"),
            false => format!("UPDATE torture.jobs SET done = 1, taken_by = {worker} WHERE id = {job}"),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} locks, {}, {}{}",
            if self.pessimistic { "pessimistic" } else { "optimistic" },
            self.isolation,
            if self.deletes { "DELETE" } else { "UPDATE" },
            if self.skips { ", SKIP LOCKED" } else { "" }
        )
    }
}

/// The results of one worker.
#[derive(Debug, Default)]
struct WorkerResult {
    jobs: Vec<i64>,
    /// The number of each conflict error.
    refused: BTreeMap<u16, u64>,
    complaint: Option<String>,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let jobs = if lab.short { 200 } else { 2000 };
    let workers = lab.clients.unwrap_or(WORKERS);
    let server = lab.start(&settings::checks(false))?;
    let (mut complaints, mut ways) = (Vec::new(), 0);
    for way in Way::all() {
        lab.interrupt.check()?;
        let start = Instant::now();
        let wrong = queue(&server, way, jobs, workers)?;
        let rate = jobs as f64 / start.elapsed().as_secs_f64();
        progress(Check::Jobs, &format!("{way}: {rate:.0} jobs/s"));
        complaints.extend(wrong.into_iter().map(|complaint| format!("{way}: {complaint}")));
        ways += 1;
    }
    conclude(server, format!("{jobs} jobs for {workers} workers in {ways} ways, each done once"), complaints)
}

fn queue(server: &Server, way: Way, jobs: u64, workers: u32) -> Result<Vec<String>> {
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            &format!("SET GLOBAL tidesdb_pessimistic_locking = {}", i32::from(way.pessimistic)),
            "CREATE DATABASE IF NOT EXISTS torture",
            "DROP TABLE IF EXISTS torture.jobs",
            "CREATE TABLE torture.jobs (id INT AUTO_INCREMENT PRIMARY KEY, done INT NOT NULL, taken_by INT, \
             KEY (done, id)) ENGINE=TidesDB",
            &format!(
                "INSERT INTO torture.jobs (done) SELECT 0 FROM torture.seq_1_to_{}",
                jobs / THERE_BEFORE
            ),
        ],
    )?;
    let (all_put, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (tallies, produced) = thread::scope(|scope| {
        let (all_put, done) = (&all_put, &done);
        let workers: Vec<_> = (0..workers)
            .map(|number| {
                scope.spawn(move || {
                    let mut tally = WorkerResult::default();
                    let over = || all_put.load(Ordering::SeqCst) && done.load(Ordering::SeqCst) >= jobs;
                    if let Err(failure) = work(server, way, number, &over, done, &mut tally) {
                        tally.complaint = Some(format!("worker {number}: {failure}"));
                    }
                    tally
                })
            })
            .collect();
        let produced = produce(server, way, jobs - jobs / THERE_BEFORE);
        all_put.store(true, Ordering::SeqCst);
        if produced.is_err() {
            done.store(jobs, Ordering::SeqCst);
        }
        let tallies: Vec<WorkerResult> =
            workers.into_iter().map(|w| w.join().expect("a worker does not panic")).collect();
        (tallies, produced)
    });
    let mut complaints = Vec::new();
    if let Err(failure) = produced {
        complaints.push(format!("the producer: {failure}"));
    }
    judge(&mut session, way, jobs, &tallies, &mut complaints)?;
    Ok(complaints)
}

/// Puts jobs one by one; the workers are faster, so they meet an empty queue now and then.
fn produce(server: &Server, way: Way, jobs: u64) -> std::result::Result<(), Failure> {
    let mut session = Session::open(server.socket())?;
    session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", way.isolation))?;
    for _ in 0..jobs {
        session.run("INSERT INTO torture.jobs (done) VALUES (0)")?;
    }
    Ok(())
}

/// Takes jobs until `over`, due within the limit of an answer.
fn work(
    server: &Server,
    way: Way,
    number: u32,
    over: &dyn Fn() -> bool,
    done: &AtomicU64,
    tally: &mut WorkerResult,
) -> std::result::Result<(), Failure> {
    let mut session = Session::open(server.socket())?;
    session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", way.isolation))?;
    let mut idle_since = Instant::now();
    while !over() {
        match attempt(&mut session, way, number) {
            Ok(Some(job)) => {
                tally.jobs.push(job);
                done.fetch_add(1, Ordering::SeqCst);
                idle_since = Instant::now();
            }
            Ok(None) if idle_since.elapsed() > Duration::from_secs(20) => {
                return Err(Failure::Lost("no job for 20 s, and some are not done".to_string()));
            }
            Ok(None) => thread::sleep(Duration::from_millis(1)),
            Err(failure @ Failure::Sql { .. }) if failure.is_conflict() => {
                if let Failure::Sql { code, .. } = failure {
                    *tally.refused.entry(code).or_default() += 1;
                }
                session.run("ROLLBACK")?;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn attempt(session: &mut Session, way: Way, number: u32) -> std::result::Result<Option<i64>, Failure> {
    session.run("BEGIN")?;
    let found = session.numbers(&way.take())?;
    let job = found.first().map(|row| row[0]);
    if let Some(job) = job {
        let changed = session.run(&way.finish(job, number))?;
        if changed != 1 {
            return Err(Failure::Lost(format!("job {job}, locked, and {changed} rows changed")));
        }
    }
    session.run("COMMIT")?;
    Ok(job)
}

fn judge(
    session: &mut Session,
    way: Way,
    jobs: u64,
    tallies: &[WorkerResult],
    complaints: &mut Vec<String>,
) -> Result<()> {
    let mut takers: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    let mut refused: BTreeMap<u16, u64> = BTreeMap::new();
    for (worker, tally) in tallies.iter().enumerate() {
        tally.jobs.iter().for_each(|job| takers.entry(*job).or_default().push(worker));
        tally.refused.iter().for_each(|(code, times)| *refused.entry(*code).or_default() += times);
        complaints.extend(tally.complaint.clone());
    }
    for (job, workers) in takers.iter().filter(|(_, workers)| workers.len() > 1) {
        complaints.push(format!("job {job} went to workers {workers:?}"));
    }
    if takers.len() as u64 != jobs {
        complaints.push(format!("{} of {jobs} jobs were handed out", takers.len()));
    }
    if !refused.is_empty() {
        complaints.push(format!("workers that take rows in one order were refused: {refused:?}"));
    }
    let rows = "SELECT id, done, taken_by FROM torture.jobs";
    let left = must("read the jobs", session.numbers(rows))?;
    let expected = if way.deletes { 0 } else { jobs as usize };
    if left.len() != expected {
        complaints.push(format!("{} rows are there, {expected} should be", left.len()));
    }
    for row in &left {
        let by_its_taker = takers.get(&row[0]).is_some_and(|workers| workers[0] as i64 == row[2]);
        if row[1] != 1 || !by_its_taker {
            complaints.push(format!("row {row:?} is not as its worker left it"));
        }
    }
    Ok(())
}
