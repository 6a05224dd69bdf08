//! `large`: changes of every row of a large table with three secondary indexes. They are INSERT ... SELECT,
//! UPDATE, a DELETE rolled back, an UPDATE killed with the server, LOAD DATA, CREATE ... SELECT, DELETE.
//!
//! Each is all or nothing; memory stays within its bound; others go on meanwhile; the rest of a killed
//! statement is gone after the restart.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::{io_error, Result};
use tidelab_server::latency::Latencies;
use tidelab_server::server::agreement::{self, Index};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{self, Setting};
use tidelab_server::server::Server;
use tidelab_server::telemetry::disk;
use tidelab_server::telemetry::process::process_use;

use super::session::{Address, Failure, Session};
use super::{connect, must, progress, set_up, Check, Lab, Verdict};

const MEGABYTE: u64 = 1 << 20;
/// Time limit of one statement.
const STATEMENT_LIMIT: Duration = Duration::from_secs(3600);
/// Resident memory of the server, with a cache and a write buffer of 64 MB.
const MEMORY_LIMIT: u64 = 450 * MEGABYTE;
/// Time limit for a rollback of everything.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(20);
/// Others' p99 alongside a large statement, as a multiple of their p99 alone. The long form reports it,
/// where there are enough of them.
const SLOWER: f64 = 3.0;
/// A p99 below this is no complaint, in any relation to the p99 alone.
const UNFELT_MS: f64 = 5.0;
/// Bytes of a row's filling.
const FILLING: usize = 400;

const INDEXES: [(&str, Index); 3] = [
    ("id, a", Index { name: "by_a", all_rows: "a >= 0" }),
    ("id, b", Index { name: "by_b", all_rows: "b >= 0" }),
    ("id, c", Index { name: "by_c", all_rows: "c > ''" }),
];

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let engines = if lab.engines.is_empty() { &[Engine::TidesDb][..] } else { lab.engines };
    let mut verdict = Verdict::default();
    for &engine in engines {
        let one = Trial::run(lab, engine)?;
        if !verdict.summary.is_empty() {
            verdict.summary.push_str("; ");
        }
        verdict.summary.push_str(&one.summary);
        verdict.complaints.extend(one.complaints);
    }
    Ok(verdict)
}

/// One engine's turn.
struct Trial<'a> {
    lab: &'a Lab<'a>,
    engine: Engine,
    settings: Vec<Setting>,
    server: Server,
    rows: u64,
    /// The latencies of others while no large statement ran.
    alone_ms: f64,
    most_resident: u64,
    complaints: Vec<String>,
    told: Vec<String>,
}

/// The result of a large statement.
struct Done {
    answer: std::result::Result<u64, Failure>,
    took: Duration,
    p99_ms: f64,
}

impl Trial<'_> {
    fn run(lab: &Lab<'_>, engine: Engine) -> Result<Verdict> {
        let rows = lab.rows.unwrap_or(if lab.short { 100_000 } else { 10_000_000 });
        // In the short form the write buffer is small, so that everything spills all the same.
        let cache_mb = if lab.short { 16 } else { 64 };
        let settings = settings::comparison(&[engine], cache_mb, 50);
        let server = lab.start_in(&lab.directory, engine, &settings)?;
        let mut trial = Trial {
            lab,
            engine,
            settings,
            server,
            rows,
            alone_ms: 0.0,
            most_resident: 0,
            complaints: Vec::new(),
            told: Vec::new(),
        };
        trial.statements()?;
        let memory = trial.most_resident / MEGABYTE;
        if engine == Engine::TidesDb && trial.most_resident > MEMORY_LIMIT {
            trial.complaints.push(format!("{memory} MB resident"));
        }
        trial.server.stop(!trial.complaints.is_empty())?;
        let summary = format!("{engine}, {rows} rows: {}; {memory} MB at most", trial.told.join(", "));
        Ok(Verdict { summary, complaints: trial.complaints })
    }

    fn statements(&mut self) -> Result<()> {
        let mut session = connect(&self.server)?;
        let table = format!(
            "(id INT PRIMARY KEY, a INT NOT NULL, b BIGINT NOT NULL, c VARCHAR(40) NOT NULL, pad VARCHAR(500) NOT NULL,
              KEY by_a (a), KEY by_b (b), KEY by_c (c)) ENGINE={} CHARACTER SET latin1",
            self.engine
        );
        set_up(
            &mut session,
            &[
                "CREATE DATABASE large",
                &format!("CREATE TABLE large.t {table}"),
                &format!("CREATE TABLE large.loaded {table}"),
                &format!("CREATE TABLE large.small (id INT PRIMARY KEY, n INT) ENGINE={}", self.engine),
                "INSERT INTO large.small SELECT seq, 0 FROM large.seq_0_to_999",
            ],
        )?;
        let alone = self.alongside(|_| {
            thread::sleep(Duration::from_secs(if self.lab.short { 1 } else { 10 }));
            Ok(0)
        })?;
        self.alone_ms = alone.p99_ms;

        let n = self.rows;
        let rows =
            format!("SELECT seq, seq % 1000, CRC32(seq), MD5(seq), REPEAT('x', 60) FROM large.seq_1_to_{n}");
        self.whole("INSERT ... SELECT", &format!("INSERT INTO large.t {rows}"))?;
        self.expect("after INSERT", "SELECT COUNT(*), SUM(a) FROM large.t", &[n, sum_of_a(n, 0)])?;
        self.agree("large.t")?;

        self.whole("UPDATE", "UPDATE large.t SET a = a + 1, b = b + 7, c = REVERSE(c)")?;
        self.expect("after UPDATE", "SELECT COUNT(*), SUM(a) FROM large.t", &[n, sum_of_a(n, 1)])?;
        self.agree("large.t")?;

        self.roll_back()?;
        self.killed()?;
        self.load()?;

        self.whole("CREATE ... SELECT", &format!("CREATE TABLE large.made {table} SELECT * FROM large.t"))?;
        self.expect(
            "after CREATE ... SELECT",
            "SELECT COUNT(*), SUM(a) FROM large.made",
            &[n, sum_of_a(n, 1)],
        )?;
        self.agree("large.made")?;

        self.whole("DELETE", "DELETE FROM large.t")?;
        self.expect("after DELETE", "SELECT COUNT(*) FROM large.t", &[0])?;
        self.agree("large.t")
    }

    /// Deletes everything and takes it back.
    fn roll_back(&mut self) -> Result<()> {
        let mut back = Duration::ZERO;
        let done = self.alongside(|session| {
            session.run("BEGIN")?;
            session.run("DELETE FROM large.t")?;
            let start = Instant::now();
            let answer = session.run("ROLLBACK");
            back = start.elapsed();
            answer
        })?;
        must("ROLLBACK of a DELETE", done.answer)?;
        self.tell(&format!("ROLLBACK {:.1} s", back.as_secs_f64()));
        if back > ROLLBACK_LIMIT && self.engine == Engine::TidesDb {
            self.complaints.push(format!(
                "a rollback of {} rows took {:.1} s",
                self.rows,
                back.as_secs_f64()
            ));
        }
        let counted = [self.rows, sum_of_a(self.rows, 1)];
        self.expect("after ROLLBACK", "SELECT COUNT(*), SUM(a) FROM large.t", &counted)
    }

    /// Kills the server in the middle of an UPDATE of everything.
    fn killed(&mut self) -> Result<()> {
        let before = self.data_bytes();
        let socket = self.server.socket().to_owned();
        let statement = thread::spawn(move || -> std::result::Result<u64, Failure> {
            patient(&socket)?.run("UPDATE large.t SET a = a + 1, b = b - 7, c = REVERSE(c)")
        });
        // Until it has written for a while, so that the kill does not come before anything happened.
        let start = Instant::now();
        let grown = (self.rows * 30).min(400 * MEGABYTE);
        while self.data_bytes() < before + grown
            && !statement.is_finished()
            && start.elapsed() < STATEMENT_LIMIT
        {
            self.lab.interrupt.check()?;
            thread::sleep(Duration::from_millis(50));
        }
        let spilled = self.data_bytes().saturating_sub(before);
        self.server.crash()?;
        let finished = statement.join().expect("a client does not panic").is_ok();
        let recovery = self.server.restart(&self.settings, self.lab.interrupt)?;
        let after = self.data_bytes();
        self.tell(&format!(
            "killed in the middle with {} MB written: recovered in {:.1} s",
            spilled / MEGABYTE,
            recovery.as_secs_f64()
        ));
        let added = u64::from(finished) + 1;
        let counted = [self.rows, sum_of_a(self.rows, added)];
        self.expect("after the kill", "SELECT COUNT(*), SUM(a) FROM large.t", &counted)?;
        self.agree("large.t")?;
        if finished {
            // Too late for a kill: back to the table that the others expect.
            self.whole("UPDATE back", "UPDATE large.t SET a = a - 1, b = b + 7, c = REVERSE(c)")?;
        } else if self.engine == Engine::TidesDb && after > before + before / 4 + 64 * MEGABYTE {
            self.complaints.push(format!(
                "{} MB of data before an UPDATE that was killed, {} MB after the restart",
                before / MEGABYTE,
                after / MEGABYTE
            ));
        }
        Ok(())
    }

    fn load(&mut self) -> Result<()> {
        let path = self.lab.directory.join("rows.txt");
        let bytes = write_rows(&path, self.rows, self.lab)?;
        let statement = format!("LOAD DATA INFILE '{}' INTO TABLE large.loaded", path.display());
        self.whole(&format!("LOAD DATA of {} MB", bytes / MEGABYTE), &statement)?;
        std::fs::remove_file(&path).map_err(io_error("cannot remove", &path))?;
        let counted = [self.rows, sum_of_a(self.rows, 0)];
        self.expect("after LOAD DATA", "SELECT COUNT(*), SUM(a) FROM large.loaded", &counted)?;
        self.agree("large.loaded")
    }

    /// Runs a statement over all rows, expecting success.
    fn whole(&mut self, what: &str, statement: &str) -> Result<()> {
        let done = self.alongside(|session| session.run(statement))?;
        let affected = must(what, done.answer)?;
        let seconds = done.took.as_secs_f64();
        self.tell(&format!("{what} {seconds:.1} s (others' p99 {:.2} ms)", done.p99_ms));
        if affected != self.rows {
            self.complaints.push(format!("{what}: {affected} of {} rows", self.rows));
        }
        let slow = done.p99_ms > UNFELT_MS && done.p99_ms > self.alone_ms * SLOWER;
        if slow && !self.lab.short && self.engine == Engine::TidesDb {
            let alone = self.alone_ms;
            self.complaints.push(format!("{what}: others' p99 {:.2} ms, alone {alone:.2} ms", done.p99_ms));
        }
        Ok(())
    }

    /// Does `work` on a connection while another client updates and reads single rows.
    fn alongside(
        &mut self,
        work: impl FnOnce(&mut Session) -> std::result::Result<u64, Failure> + Send,
    ) -> Result<Done> {
        let mut session = must("connect", patient(self.server.socket()))?;
        let (stop, most) = (AtomicBool::new(false), AtomicU64::new(0));
        let (socket, pid) = (self.server.socket(), self.server.pid());
        let start = Instant::now();
        let (answer, took, others) = thread::scope(|scope| {
            let client = scope.spawn(|| small_statements(socket, &stop));
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    most.fetch_max(process_use(pid).resident_bytes, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(100));
                }
            });
            let answer = work(&mut session);
            let took = start.elapsed();
            stop.store(true, Ordering::Relaxed);
            (answer, took, client.join().expect("a client does not panic"))
        });
        self.lab.interrupt.check()?;
        self.most_resident = self.most_resident.max(most.into_inner());
        let others = must("a small statement alongside a large one", others)?;
        Ok(Done { answer, took, p99_ms: others.figures().p99_ms })
    }

    fn tell(&mut self, text: &str) {
        progress(Check::Large, &format!("{}: {text}", self.engine));
        self.told.push(text.to_string());
    }

    fn expect(&mut self, when: &str, question: &str, answer: &[u64]) -> Result<()> {
        let mut session = must("connect", patient(self.server.socket()))?;
        let found = must(question, session.rows(question))?.concat();
        let expected: Vec<String> = answer.iter().map(u64::to_string).collect();
        if found != expected {
            self.complaints.push(format!("{when}: {found:?} and not {expected:?}"));
        }
        Ok(())
    }

    fn agree(&mut self, table: &str) -> Result<()> {
        let mut session = must("connect", patient(self.server.socket()))?;
        let found = must("compare indexes", agreement::complaints_of_large(&mut session, table, &INDEXES))?;
        self.complaints.extend(found);
        Ok(())
    }

    fn data_bytes(&self) -> u64 {
        disk::of_engine(self.server.directory(), self.engine).data_bytes
    }
}

/// A connection with a timeout for large statements.
fn patient(socket: &Path) -> std::result::Result<Session, Failure> {
    Session::connect(&Address::root(socket), STATEMENT_LIMIT)
}

/// The sum of column `a` of rows 1..=n when `added` was added to each.
fn sum_of_a(n: u64, added: u64) -> u64 {
    (1..=n).map(|row| row % 1000 + added).sum()
}

/// Reads and updates single rows until told to stop.
fn small_statements(socket: &Path, stop: &AtomicBool) -> std::result::Result<Latencies, Failure> {
    let mut session = Session::open(socket)?;
    let mut latencies = Latencies::default();
    let mut row = 0;
    while !stop.load(Ordering::Relaxed) {
        row = (row + 7) % 1000;
        for statement in [
            format!("UPDATE large.small SET n = n + 1 WHERE id = {row}"),
            format!("SELECT n FROM large.small WHERE id = {row}"),
        ] {
            let start = Instant::now();
            session.run(&statement)?;
            latencies.record(start.elapsed());
        }
        // A client with some thought: it shows waits without taking a core.
        thread::sleep(Duration::from_micros(500));
    }
    Ok(latencies)
}

/// Writes the rows of LOAD DATA; returns the file's size.
fn write_rows(path: &Path, rows: u64, lab: &Lab<'_>) -> Result<u64> {
    let failed = || io_error("cannot write", path);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed())?);
    let filling = "y".repeat(FILLING);
    let mut bytes = 0;
    for row in 1..=rows {
        if row % 100_000 == 0 {
            lab.interrupt.check()?;
        }
        // Spread over the key, as hashes are, so that the secondary indexes are not filled in order.
        let b = row.wrapping_mul(2_654_435_761) % (1 << 32);
        let line = format!("{row}\t{}\t{b}\tc{b:x}\t{filling}\n", row % 1000);
        bytes += line.len() as u64;
        file.write_all(line.as_bytes()).map_err(failed())?;
    }
    file.flush().map_err(failed())?;
    Ok(bytes)
}
