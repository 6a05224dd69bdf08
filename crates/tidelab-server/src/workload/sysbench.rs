//! Debian's sysbench 1.0 as the load: its scripts, the effect of each on the number of rows, and the way
//! to run and watch one.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{de, Deserialize, Deserializer, Serialize, Serializer};

use super::sysbench_report::{Event, Reader, Report, Second};
use crate::error::{io_error, Error, Result};
use crate::interrupt::Interrupt;
use crate::server::engine::Engine;
use crate::telemetry::process::{now, process_use, ResourceSample};

/// Time limit of a run's end after its time: finds a server without an answer.
const GRACE: Duration = Duration::from_secs(60);

/// One of sysbench's OLTP scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Workload {
    /// One row by primary key.
    PointSelect,
    /// Ten rows by key and four ranges of a hundred, in a transaction.
    ReadOnly,
    /// The same, two updates, a delete and an insert.
    ReadWrite,
    /// The four changes alone.
    WriteOnly,
    /// One update of an indexed column by primary key.
    UpdateIndex,
    /// One update of a column without index.
    UpdateNonIndex,
    /// One row, key by AUTO_INCREMENT.
    Insert,
    /// One row by primary key.
    Delete,
}

impl Workload {
    /// All, in running order: reads first, those with inserts or deletes last.
    pub const ALL: [Workload; 8] = [
        Workload::PointSelect,
        Workload::ReadOnly,
        Workload::ReadWrite,
        Workload::WriteOnly,
        Workload::UpdateIndex,
        Workload::UpdateNonIndex,
        Workload::Insert,
        Workload::Delete,
    ];

    /// The name in options and results; sysbench's script is `oltp_` and this.
    pub fn name(self) -> &'static str {
        match self {
            Workload::PointSelect => "point_select",
            Workload::ReadOnly => "read_only",
            Workload::ReadWrite => "read_write",
            Workload::WriteOnly => "write_only",
            Workload::UpdateIndex => "update_index",
            Workload::UpdateNonIndex => "update_non_index",
            Workload::Insert => "insert",
            Workload::Delete => "delete",
        }
    }

    /// It changes nothing.
    pub fn only_reads(self) -> bool {
        matches!(self, Workload::PointSelect | Workload::ReadOnly)
    }

    /// The number of rows is another one afterwards, so it gets tables of its own.
    pub fn changes_row_count(self) -> bool {
        matches!(self, Workload::Insert | Workload::Delete)
    }

    /// The change of the number of rows by a run: least and most.
    ///
    /// sysbench counts a change without a matching row as `other`, so inserts and deletes are exact. In
    /// read_write and write_only a delete and an insert of one row belong together. Where the server rolls
    /// back only the statement (1205), sysbench's next BEGIN commits the delete alone.
    pub fn row_change(self, writes: u64, retried_errors: u64) -> (i64, i64) {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        match self {
            Workload::Insert => (signed(writes), signed(writes)),
            Workload::Delete => (-signed(writes), -signed(writes)),
            Workload::ReadWrite | Workload::WriteOnly => (-signed(retried_errors), 0),
            _ => (0, 0),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Workload> {
        Workload::ALL.into_iter().find(|w| w.name() == name.trim_start_matches("oltp_")).ok_or_else(|| {
            let known: Vec<&str> = Workload::ALL.iter().map(|w| w.name()).collect();
            Error::Usage(format!("there is no workload '{name}': {}", known.join(", ")))
        })
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Workload, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The size of the tables and of the load; the same for every engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Tables for each engine.
    pub tables: u32,
    /// Rows of each table.
    pub rows: u64,
    /// Clients.
    pub threads: u32,
    /// Seconds before the measured time.
    pub warm_up_s: u32,
    /// Measured seconds.
    pub time_s: u32,
}

/// A measured run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The counters of sysbench.
    pub report: Report,
    /// Each second of it.
    pub seconds: Vec<(Second, ResourceSample)>,
    /// The server and the machine when the measured part began.
    pub begin: ResourceSample,
    /// And when it ended.
    pub end: ResourceSample,
    /// CPU time of sysbench itself in the measured part, in seconds.
    pub client_cpu_s: f64,
}

/// Runs sysbench against one server.
#[derive(Clone, Copy, Debug)]
pub struct Sysbench<'a> {
    /// The server's socket.
    pub socket: &'a Path,
    /// The server's process.
    pub server: u32,
    /// The size of tables and load.
    pub load: Load,
    /// Asks to end.
    pub interrupt: &'a Interrupt,
}

/// The version of the installed sysbench; an error with the remedy if there is none or another one than 1.0.
pub fn version() -> Result<String> {
    let output = Command::new("sysbench").arg("--version").stdin(Stdio::null()).output();
    let text = match output {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_string(),
        Err(_) => String::new(),
    };
    if text.starts_with("sysbench 1.0") {
        return Ok(text);
    }
    let what = if text.is_empty() { "sysbench".to_string() } else { format!("sysbench 1.0 (found: {text})") };
    Err(Error::Missing { what, remedy: "make setup installs it (package sysbench)".to_string() })
}

/// Further options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// Further options of sysbench's. A host or a user among them takes the place of the socket or of root.
    pub options: &'a [String],
    /// The file for sysbench's whole output.
    pub log: Option<&'a Path>,
}

impl Extra<'_> {
    fn keep(&self, text: &str) -> Result<()> {
        match self.log {
            Some(path) => std::fs::write(path, text).map_err(io_error("cannot write", path)),
            None => Ok(()),
        }
    }
}

/// The target of sysbench, for engines other than competitors and scripts other than workloads.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The script, as `oltp_insert`, or the path of one.
    pub script: &'a str,
    /// The database.
    pub database: &'a str,
    /// The engine, as the server names it.
    pub engine: &'a str,
}

impl Sysbench<'_> {
    /// Makes and fills an engine's tables in its existing, empty database.
    pub fn prepare(&self, engine: Engine, seed: u32) -> Result<()> {
        let (database, engine) = (engine.database(), engine.name());
        self.prepare_on(Target { script: "oltp_read_write", database, engine }, seed)
    }

    /// The same in any database and with any engine.
    pub fn prepare_on(&self, target: Target<'_>, seed: u32) -> Result<()> {
        self.prepare_with(target, seed, Extra::default())
    }

    /// The same with options beyond the usual.
    pub fn prepare_with(&self, target: Target<'_>, seed: u32, extra: Extra<'_>) -> Result<()> {
        let engine = target.engine;
        let mut command = self.command(target, seed, extra.options);
        command.arg(format!("--threads={}", self.load.tables.min(self.load.threads))).arg("prepare");
        let limit = Duration::from_secs(120 + self.load.rows * u64::from(self.load.tables) / 1000);
        let what = format!("sysbench prepare on {engine}");
        let output = self.watch(&what, command, limit, |_, _| {})?;
        extra.keep(&output.text)?;
        // Its exit status is 0 even when a statement failed.
        if !output.success || output.text.contains("FATAL") {
            return Err(Error::Load { what, message: output.complaint() });
        }
        Ok(())
    }

    /// Runs a workload; `progress` sees each second.
    pub fn run(
        &self,
        engine: Engine,
        workload: Workload,
        seed: u32,
        progress: impl FnMut(&Second),
    ) -> Result<Run> {
        let script = format!("oltp_{workload}");
        let target = Target { script: &script, database: engine.database(), engine: engine.name() };
        self.run_on(target, &format!("sysbench {workload} on {engine}"), seed, progress)
    }

    /// Runs any script; `what` names the run in an error.
    pub fn run_on(
        &self,
        target: Target<'_>,
        what: &str,
        seed: u32,
        progress: impl FnMut(&Second),
    ) -> Result<Run> {
        self.run_with(target, what, seed, Extra::default(), progress)
    }

    /// The same with options beyond the usual.
    pub fn run_with(
        &self,
        target: Target<'_>,
        what: &str,
        seed: u32,
        extra: Extra<'_>,
        mut progress: impl FnMut(&Second),
    ) -> Result<Run> {
        let Load { warm_up_s, time_s, threads, .. } = self.load;
        let mut command = self.command(target, seed, extra.options);
        command.arg(format!("--threads={threads}")).arg(format!("--time={}", warm_up_s + time_s)).args([
            "--report-interval=1",
            "--percentile=95",
            "--histogram=on",
        ]);
        if warm_up_s > 0 {
            command.arg(format!("--report-checkpoints={warm_up_s}"));
        }
        command.arg("run");

        let mut reader = Reader::default();
        let mut begin = now(self.server);
        let mut end = None;
        let mut seconds = Vec::new();
        let (mut client_before, mut client_after) = (0.0, 0.0);
        let limit = Duration::from_secs(u64::from(warm_up_s + time_s)) + GRACE;
        let output = self.watch(what, command, limit, |line, client| match reader.line(line) {
            Some(Event::Checkpoint) => {
                begin = now(self.server);
                client_before = process_use(client).cpu_s;
            }
            Some(Event::Second(second)) => {
                seconds.push((second, now(self.server)));
                client_after = process_use(client).cpu_s.max(client_after);
                progress(&second);
            }
            Some(Event::End) => {
                end = Some(now(self.server));
                client_after = process_use(client).cpu_s.max(client_after);
            }
            None => {}
        })?;
        extra.keep(&output.text)?;
        let report = reader
            .finish()
            .map_err(|_| Error::Load { what: what.to_string(), message: output.complaint() })?;
        if !output.success || !report.fatal.is_empty() {
            return Err(Error::Load { what: what.to_string(), message: output.complaint() });
        }
        let end = end.unwrap_or_else(|| now(self.server));
        Ok(Run { report, seconds, begin, end, client_cpu_s: (client_after - client_before).max(0.0) })
    }

    fn command(&self, target: Target<'_>, seed: u32, options: &[String]) -> Command {
        let named = |option: &str| options.iter().any(|o| o.starts_with(option));
        let mut command = Command::new("sysbench");
        command.arg(target.script).arg("--db-driver=mysql");
        if !named("--mysql-user=") {
            command.arg("--mysql-user=root");
        }
        if !named("--mysql-host=") {
            command.arg(format!("--mysql-socket={}", self.socket.display()));
        }
        command
            .arg(format!("--mysql-db={}", target.database))
            .arg(format!("--mysql-storage-engine={}", target.engine))
            .arg(format!("--tables={}", self.load.tables))
            .arg(format!("--table-size={}", self.load.rows))
            .arg(format!("--rand-seed={seed}"))
            .args(options);
        command
    }

    /// Runs a command to its end, line by line; an interrupt or the limit ends it.
    fn watch(
        &self,
        what: &str,
        mut command: Command,
        limit: Duration,
        mut on_line: impl FnMut(&str, u32),
    ) -> Result<Output> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The terminal's Ctrl-C is for the laboratory, which ends this in order.
            .process_group(0)
            .spawn()
            .map_err(io_error("cannot run", "sysbench"))?;
        let (sender, lines) = channel::<String>();
        let mut readers = Vec::new();
        let out = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let err = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        for pipe in [out, err].into_iter().flatten() {
            let sender = sender.clone();
            readers.push(thread::spawn(move || {
                for line in BufReader::new(pipe).split(b'\n').map_while(|line| line.ok()) {
                    if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        break;
                    }
                }
            }));
        }
        drop(sender);

        let start = Instant::now();
        let mut text = String::new();
        let ended = loop {
            match lines.recv_timeout(Duration::from_millis(200)) {
                Ok(line) => {
                    on_line(&line, child.id());
                    text.push_str(&line);
                    text.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(interrupted) = self.interrupt.check() {
                break Err(interrupted);
            }
            if start.elapsed() > limit {
                let message = format!("no end after {} s; it was killed", limit.as_secs());
                break Err(Error::Load { what: what.to_string(), message });
            }
        };
        if let Err(error) = ended {
            end(&mut child);
            return Err(error);
        }
        let status = child.wait().map_err(io_error("cannot wait for", "sysbench"))?;
        for reader in readers {
            // They end with the pipes, and a panic in one would have lost lines only.
            let _ = reader.join();
        }
        Ok(Output { success: status.success(), text })
    }
}

/// Ends a load at once: it has nothing to put in order.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The output of a command.
struct Output {
    success: bool,
    text: String,
}

impl Output {
    /// The lines with errors, or the last ones; of each its beginning, since a statement may bring a value of
    /// kilobytes. Equal lines of several threads stand only once.
    fn complaint(&self) -> String {
        const LINES: usize = 6;
        const CHARACTERS: usize = 200;
        let beginning = |line: &'_ str| match line.char_indices().nth(CHARACTERS) {
            Some((end, _)) => format!("{}...", &line[..end]),
            None => line.to_string(),
        };
        let mut fatal: Vec<String> = Vec::new();
        for line in self.text.lines().filter(|l| l.contains("FATAL") || l.contains("rror")) {
            let line = beginning(line);
            if !fatal.contains(&line) && !line.contains("ignored errors") {
                fatal.push(line);
            }
        }
        if fatal.is_empty() {
            let lines: Vec<String> =
                self.text.lines().filter(|l| !l.trim().is_empty()).map(beginning).collect();
            fatal = lines[lines.len().saturating_sub(LINES)..].to_vec();
        }
        fatal.truncate(LINES);
        fatal.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_has_the_beginning_of_each_line_once() {
        let line = |value: &str| format!("FATAL: mysql error 2013 in 'INSERT INTO t VALUES ({value})'\n");
        let text = line(&"ü".repeat(16_000)) + &line("1") + &line("1");
        let complaint = Output { success: false, text }.complaint();
        assert_eq!(complaint.matches("FATAL").count(), 2, "{complaint}");
        assert!(complaint.chars().count() < 300 && complaint.contains("ü..."), "{complaint}");
    }

    fn sysbench<'a>(interrupt: &'a Interrupt) -> Sysbench<'a> {
        let load = Load { tables: 2, rows: 500, threads: 8, warm_up_s: 2, time_s: 10 };
        Sysbench { socket: Path::new("/d/s"), server: std::process::id(), load, interrupt }
    }

    #[test]
    fn names_are_those_of_the_scripts() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse::<Workload>().unwrap(), workload);
            assert_eq!(format!("oltp_{workload}").parse::<Workload>().unwrap(), workload);
        }
        assert!("tpcc".parse::<Workload>().unwrap_err().to_string().contains("point_select"));
    }

    #[test]
    fn each_workload_knows_its_rows() {
        assert_eq!(Workload::Insert.row_change(10, 3), (10, 10));
        assert_eq!(Workload::Delete.row_change(10, 3), (-10, -10));
        assert_eq!(Workload::ReadWrite.row_change(40, 3), (-3, 0));
        assert_eq!(Workload::WriteOnly.row_change(40, 0), (0, 0));
        assert_eq!(Workload::UpdateIndex.row_change(40, 3), (0, 0));
        assert_eq!(Workload::PointSelect.row_change(0, 0), (0, 0));
    }

    #[test]
    fn the_command_names_engine_database_and_size() {
        let interrupt = Interrupt::default();
        let engine = Engine::RocksDb;
        let target =
            Target { script: "oltp_update_index", database: engine.database(), engine: engine.name() };
        let command = sysbench(&interrupt).command(target, 7, &[]);
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(
            arguments,
            [
                "oltp_update_index",
                "--db-driver=mysql",
                "--mysql-user=root",
                "--mysql-socket=/d/s",
                "--mysql-db=lab_rocksdb",
                "--mysql-storage-engine=ROCKSDB",
                "--tables=2",
                "--table-size=500",
                "--rand-seed=7",
            ]
        );
    }

    #[test]
    fn a_host_takes_the_place_of_the_socket_and_a_user_that_of_root() {
        let interrupt = Interrupt::default();
        let options = ["--mysql-host=127.0.0.1", "--mysql-user=lab"].map(str::to_string);
        let target = Target { script: "oltp_read_only", database: "d", engine: "InnoDB" };
        let command = sysbench(&interrupt).command(target, 7, &options);
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert!(!arguments.iter().any(|a| a.contains("socket") || a == "--mysql-user=root"), "{arguments:?}");
        assert!(options.iter().all(|o| arguments.contains(o)), "{arguments:?}");
    }

    #[test]
    fn output_of_both_pipes_and_status_come_back() {
        let interrupt = Interrupt::default();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo FATAL: two >&2; exit 3"]);
        let mut seen = Vec::new();
        let output = sysbench(&interrupt)
            .watch("a test", command, Duration::from_secs(20), |line, _| seen.push(line.to_string()))
            .unwrap();
        seen.sort();
        assert_eq!(seen, ["FATAL: two", "one"]);
        assert!(!output.success);
        assert_eq!(output.complaint(), "FATAL: two");
    }

    #[test]
    fn a_run_that_does_not_end_is_killed() {
        let interrupt = Interrupt::default();
        let mut command = Command::new("sleep");
        command.arg("60");
        let start = Instant::now();
        let error =
            sysbench(&interrupt).watch("a test", command, Duration::from_millis(300), |_, _| {}).err();
        assert!(error.unwrap().to_string().contains("killed"));
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn complaints_are_short() {
        let text = "FATAL: a\nFATAL: a\n(last message repeated 1 times)\nFATAL: b\n".to_string();
        assert_eq!(Output { success: false, text }.complaint(), "FATAL: a; FATAL: b");
        let text = "x\n\ny\n".to_string();
        assert_eq!(Output { success: false, text }.complaint(), "x; y");
    }
}
