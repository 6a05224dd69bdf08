//! Carries tasks out one after the other: the conditions before a task, its load, and the check for all
//! acknowledged rows in the table afterwards.
//!
//! A table is examined after the last task on it, not between tasks: reading all of it would change the
//! caches for the next task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::contents::{self, Contents};
use super::counts::Group;
use super::drive::{Drive, Outcome, Second};
use super::lines::{counted, Lines};
use super::queue::{Dialect, Task};
use super::windows::{rate_by_window, worst_by_window};
use super::{clock, connection, schema};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::series::Series;
use crate::server::analyze::{self, Analyzed};
use crate::server::session::{Address, Failure, Session};
use crate::telemetry::idle;
use crate::telemetry::process::process_use;
use crate::telemetry::recorder::Recorder;

/// The server's number for a missing database.
const NO_DATABASE: u16 = 1049;

/// The state of a table.
#[derive(Clone, Debug)]
struct Known {
    contents: Contents,
    /// The time of its first row, in microseconds since 1970.
    from_us: u64,
    /// The number of writing tasks on it.
    turn: u64,
}

/// Runs tasks.
#[derive(Debug)]
pub struct Runner<'a> {
    /// Asks to end.
    pub interrupt: &'a Interrupt,
    /// The server's process; none where it runs elsewhere.
    pub server: Option<u32>,
    /// After a task, so long at most until the server is idle; zero: it is not waited for.
    pub settle: Duration,
    /// The server's directory and address, for a recording alongside each load; none for no recording.
    recorded: Option<(PathBuf, Address)>,
    tables: BTreeMap<(String, String), Known>,
}

/// A finished task.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The engine of its table, as the server spells it.
    pub engine: String,
    /// Rows in the table before.
    pub rows_before: u64,
    /// The counts.
    pub outcome: Outcome,
    /// The server's CPU time afterwards until it was idle, in seconds; none: without a wait for it.
    pub after_cpu_s: Option<f64>,
    /// The statistics of a table made by this task and used by a later one.
    pub analyzed: Option<Analyzed>,
    /// Each second.
    pub series: Series,
    /// The recording of machine and server in each second; none without a recording.
    pub telemetry: Option<Series>,
    /// Worst latencies by ten seconds, of inserts, queries and deletes: end and milliseconds.
    pub windows: BTreeMap<Group, Vec<(f64, f64)>>,
    /// Rates of whole ten seconds: end and rows or queries a second.
    pub rates: BTreeMap<Group, Vec<(f64, f64)>>,
    /// Why it does not count; empty when it does.
    pub failures: Vec<String>,
}

/// The columns of the series of each second, after `at_s`.
pub const SECONDS: [&str; 14] = [
    "inserts_per_s",
    "insert_p50_ms",
    "insert_p99_ms",
    "insert_worst_ms",
    "queries_per_s",
    "query_p50_ms",
    "query_p99_ms",
    "query_worst_ms",
    "deletes_per_s",
    "delete_p50_ms",
    "delete_p99_ms",
    "delete_worst_ms",
    "server_cpus",
    "resident_bytes",
];

impl<'a> Runner<'a> {
    /// A runner without a known table.
    pub fn new(interrupt: &'a Interrupt, server: Option<u32>, settle: Duration) -> Runner<'a> {
        Runner { interrupt, server, settle, recorded: None, tables: BTreeMap::new() }
    }

    /// Records machine and server alongside each load; the server's files are in `directory`.
    pub fn with_telemetry(self, directory: &Path, address: &Address) -> Runner<'a> {
        Runner { recorded: Some((directory.to_path_buf(), address.clone())), ..self }
    }

    /// Runs a task; its lines go to `log`, and to `say` for the terminal. With `examine`, the table must
    /// hold the acknowledged rows afterwards. Errors: the server is missing or another one than named,
    /// the table differs from its description, an interrupt.
    pub fn run(
        &mut self,
        task: &Task,
        log: &Path,
        examine: bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Measured> {
        let mut session = reach(task)?;
        check_dialect(task, &mut session)?;
        let key = (task.dsn.to_string(), task.table.clone());
        let engine = match &task.create {
            Some(options) => {
                self.tables.remove(&key);
                create(task, options, &mut session)?
            }
            None => find(task, &mut session)?,
        };
        let mut known = match self.tables.get(&key) {
            Some(known) => known.clone(),
            None => know(task, &mut session)?,
        };
        known.contents.interleaved = !gives_consecutive_keys(&engine);
        drop(session);

        let mut lines = Lines::create(log, task.report_every)?;
        let mut record = Record::new(self.server.is_some());
        let drive = Drive {
            task,
            before: &known.contents,
            from_us: known.from_us,
            turn: known.turn,
            server: self.server,
            interrupt: self.interrupt,
        };
        let start =
            |(directory, address): &(PathBuf, Address)| Recorder::of_server(self.server, directory, address);
        let recorder = self.recorded.as_ref().map(start).transpose()?;
        let mut last = Duration::ZERO;
        let outcome = drive.run(|second| {
            last = second.at;
            record.second(second);
            if let Some(text) = lines.second(second)? {
                say(&text);
            }
            Ok(())
        })?;
        let telemetry = recorder.map(|recorder| recorder.stop().series);
        if let Some(text) = lines.close(last)? {
            say(&text);
        }
        let after_cpu_s = self.wait_until_idle()?;
        let after = Known { contents: outcome.contents.clone(), turn: known.turn + 1, ..known };
        self.tables.insert(key.clone(), after);
        let mut failures = outcome.complaints.clone();
        let analyzed = match task.create.is_some() && !examine {
            true => Some(self.analyze(task, say)?),
            false => None,
        };
        if examine {
            let begin = Instant::now();
            say("looking whether all that was acknowledged is there, along each index");
            let mut session = reach(task)?;
            let found = contents::examine(&mut session, &task.table, &task.shape, &outcome.contents);
            failures.extend(found.map_err(|failure| says(task, "looking at the table", &failure))?);
            say(&format!(
                "{} rows, {} ({:.0} s)",
                outcome.contents.rows,
                if failures.is_empty() { "as acknowledged" } else { "NOT as acknowledged" },
                begin.elapsed().as_secs_f64()
            ));
        }
        Ok(Measured {
            engine,
            rows_before: known.contents.rows,
            after_cpu_s,
            analyzed,
            windows: record.windows(),
            rates: record.rates(outcome.seconds),
            series: record.series,
            telemetry,
            outcome,
            failures,
        })
    }

    /// Gives the optimizer statistics of a loaded table, for the following tasks.
    fn analyze(&self, task: &Task, say: &mut dyn FnMut(&str)) -> Result<Analyzed> {
        let mut session = reach(task)?;
        let begin = Instant::now();
        analyze::table_through_session(&mut session, &task.dsn.database, &task.table)?;
        let analyzed = Analyzed { tables: 1, seconds: begin.elapsed().as_secs_f64() };
        say(&format!("ANALYZE TABLE {} ({:.1} s)", task.table, analyzed.seconds));
        self.wait_until_idle()?;
        Ok(analyzed)
    }

    fn wait_until_idle(&self) -> Result<Option<f64>> {
        let Some(server) = self.server.filter(|_| !self.settle.is_zero()) else { return Ok(None) };
        let before = process_use(server).cpu_s;
        idle::wait(server, self.settle, self.interrupt)?;
        Ok(Some(process_use(server).cpu_s - before))
    }
}

/// True if a task is the last one of a queue on its table as it is.
pub fn is_last_on_its_table(tasks: &[Task], index: usize) -> bool {
    let task = &tasks[index];
    let same = |other: &&Task| other.table == task.table && other.dsn == task.dsn;
    tasks[index + 1..].iter().find(same).is_none_or(|next| next.create.is_some())
}

/// A session at a task's server. The error has the remedy for a missing server.
pub fn reach(task: &Task) -> Result<Session> {
    connection::session(&task.dsn).map_err(|failure| {
        let remedy = match &failure {
            Failure::Sql { code: NO_DATABASE, .. } => {
                format!("; CREATE DATABASE {} makes it", task.dsn.database)
            }
            Failure::Sql { .. } => String::new(),
            Failure::Lost(_) => {
                "; start it, name another one with --dsn, or let tidelab start one with --prefix".to_string()
            }
        };
        Error::Load {
            what: format!("task {}: no connection to {}", task.name, task.dsn),
            message: format!("{failure}{remedy}"),
        }
    })
}

fn says(task: &Task, what: &str, failure: &Failure) -> Error {
    Error::Load { what: format!("task {}: {what}", task.name), message: failure.to_string() }
}

fn wrong(task: &Task, message: String) -> Error {
    Error::Load { what: format!("task {}", task.name), message }
}

fn check_dialect(task: &Task, session: &mut Session) -> Result<()> {
    let Some(dialect) = task.dialect else { return Ok(()) };
    let rows =
        session.rows("SELECT VERSION()").map_err(|failure| says(task, "SELECT VERSION()", &failure))?;
    let version = rows.into_iter().flatten().next().unwrap_or_default();
    if version.contains("MariaDB") != (dialect == Dialect::MariaDb) {
        return Err(wrong(task, format!("its dialect is {dialect:?}, the server is {version}")));
    }
    Ok(())
}

/// Makes the table anew. Its engine.
fn create(task: &Task, options: &str, session: &mut Session) -> Result<String> {
    let statements = [
        // Else another engine would stand in for one that is not there.
        "SET SESSION sql_mode = CONCAT_WS(',', @@sql_mode, 'NO_ENGINE_SUBSTITUTION')".to_string(),
        format!("DROP TABLE IF EXISTS `{}`", task.table),
        task.shape.create(&task.table, options),
    ];
    for statement in &statements {
        session.run(statement).map_err(|failure| says(task, statement, &failure))?;
    }
    let engine = find(task, session)?;
    match task.engine_name() {
        Some(asked) if !asked.eq_ignore_ascii_case(&engine) => {
            Err(wrong(task, format!("the table was to be made with ENGINE={asked} and has {engine}")))
        }
        _ => Ok(engine),
    }
}

/// The engine of the existing table; it must have the described indexes.
fn find(task: &Task, session: &mut Session) -> Result<String> {
    let found = schema::look(session, &task.table)
        .map_err(|failure| says(task, "looking for the table", &failure))?;
    let Some((engine, found)) = found else {
        return Err(wrong(
            task,
            format!(
                "there is no table {} in {}; a task with create_table = true makes it",
                task.table, task.dsn.database
            ),
        ));
    };
    let mut wanted: Vec<&str> = task.shape.indexes().iter().map(|(name, _, _)| *name).collect();
    wanted.sort_unstable();
    if found != wanted {
        return Err(wrong(
            task,
            format!("the table {} has the indexes {found:?}, the queue says {wanted:?}", task.table),
        ));
    }
    Ok(engine)
}

/// True if the keys of a statement of many rows follow each other, in spite of other inserts.
fn gives_consecutive_keys(engine: &str) -> bool {
    ["InnoDB", "TidesDB"].iter().any(|name| name.eq_ignore_ascii_case(engine))
}

/// The contents of a table before any task has written to it.
fn know(task: &Task, session: &mut Session) -> Result<Known> {
    let failed = |failure: Failure| says(task, "looking at the table", &failure);
    let contents = Contents::read(session, &task.table).map_err(failed)?;
    let from_us = match contents.rows {
        0 => clock::now_us(),
        // The least key's row is the oldest one; in microseconds, as UTC.
        _ => {
            let statement = format!(
                "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', dateandtime) FROM `{}` ORDER BY transactionid LIMIT 1",
                task.table
            );
            u64::try_from(session.number(&statement).map_err(failed)?).unwrap_or(0)
        }
    };
    // A stream of random numbers that no writer of this table has had.
    let turn = contents.keys.map_or(0, |(_, high)| high);
    Ok(Known { contents, from_us, turn })
}

/// Keeps each second.
struct Record {
    series: Series,
    worst: BTreeMap<Group, Vec<(f64, f64, Option<f64>)>>,
    rates: BTreeMap<Group, Vec<(f64, f64, f64)>>,
    cpu_s: Option<f64>,
    has_server: bool,
}

impl Record {
    fn new(has_server: bool) -> Record {
        Record {
            series: Series::new(SECONDS),
            worst: BTreeMap::new(),
            rates: BTreeMap::new(),
            cpu_s: None,
            has_server,
        }
    }

    fn second(&mut self, second: &Second) {
        let (at_s, length_s) = (second.at.as_secs_f64(), second.length.as_secs_f64().max(1e-3));
        let mut row = vec![at_s];
        for group in Group::ALL {
            let counts = second.window.group(group);
            let worst_ms = second.worst(group).map(|worst| worst.as_secs_f64() * 1e3);
            self.worst.entry(group).or_default().push((at_s, length_s, worst_ms));
            let some = counts.latencies.count() > 0;
            let quantile = |share| if some { counts.latencies.within_ms(share) } else { f64::NAN };
            let rate = counted(group, &counts) as f64 / length_s;
            self.rates.entry(group).or_default().push((at_s, length_s, rate));
            row.extend([rate, quantile(0.5), quantile(0.99), worst_ms.unwrap_or(f64::NAN)]);
        }
        let cpu_s = second.moment.server.cpu_s;
        let cpus = self.cpu_s.replace(cpu_s).map_or(f64::NAN, |before| (cpu_s - before) / length_s);
        let resident = second.moment.server.resident_bytes as f64;
        row.extend(if self.has_server { [cpus, resident] } else { [f64::NAN; 2] });
        self.series.rows.push(row);
    }

    fn rates(&self, lasted_s: f64) -> BTreeMap<Group, Vec<(f64, f64)>> {
        self.rates.iter().map(|(group, seconds)| (*group, rate_by_window(seconds, lasted_s))).collect()
    }

    fn windows(&self) -> BTreeMap<Group, Vec<(f64, f64)>> {
        self.worst.iter().map(|(group, seconds)| (*group, worst_by_window(seconds))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{parse, Changes};
    use super::*;

    const PUBLISHED: &str = include_str!("testdata/published-queue.toml");

    #[test]
    fn a_table_is_examined_after_its_last_task() {
        let tasks = parse(PUBLISHED, &Changes::default()).unwrap();
        let last: Vec<bool> = (0..tasks.len()).map(|n| is_last_on_its_table(&tasks, n)).collect();
        assert_eq!(last, [false, true, false, true, false, true]);
        // A table that is made anew is examined before.
        let again: Vec<Task> = [0, 1, 0].map(|n| tasks[n].clone()).to_vec();
        let last: Vec<bool> = (0..3).map(|n| is_last_on_its_table(&again, n)).collect();
        assert_eq!(last, [false, true, true]);
    }

    #[test]
    fn without_a_server_the_error_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[[task]]\nname = \"a\"\ndsn = \"u:secret@unix({}/none.sock)/d\"\nwriter_threads = 1\nmax_rows_total = 1",
            folder.path().display()
        );
        let tasks = parse(&text, &Changes::default()).unwrap();
        let interrupt = Interrupt::default();
        let mut runner = Runner::new(&interrupt, None, Duration::ZERO);
        let log = folder.path().join("a.tsv");
        let error = runner.run(&tasks[0], &log, true, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("task a: no connection to u:***@unix("), "{error}");
        assert!(
            error.contains("--dsn") && error.contains("--prefix") && !error.contains("secret"),
            "{error}"
        );
        assert!(!log.exists());
    }
}
