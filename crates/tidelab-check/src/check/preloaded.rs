//! A server with the preloaded library in it ([`crate::preload`]), under the writers of [`super::accounts`] and a client
//! with chores, and the judgement of its tables after a restart: for `faults` and `powercut`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::settings::{checks, hint, setting, Setting};
use tidelab_server::server::Server;

use super::accounts::{self, Conduct, Writer};
use super::session::{Address, Failure, Session};
use super::{binary_log, connect, must, set_up, Lab};
use crate::preload::{self, Control, Loss, PowerCut, Roots, TakenBack};

/// No answer takes longer, and no shutdown, on a busy machine either: a longer wait is a hang.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Flush and compaction try again every five seconds; writes go on within this time after a fault.
const GOES_ON_WITHIN: Duration = Duration::from_secs(60);
/// Rows of a table larger than the cache: reads of it reach the files.
const LARGE: u64 = 12_000;

/// Rounds with the binary log off, then as many with it on.
const TURN: u64 = 5;

/// True if this seed's round has the binary log.
pub(super) fn binary_log_of(seed: u64) -> bool {
    seed / TURN % 2 == 1
}

/// A server's state after a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// Writes go on.
    Works,
    /// It asks for a restart.
    WantsRestart,
    /// Neither, within the time.
    Wrong(String),
}

/// The library in a server.
pub(super) struct Library {
    pub(super) control: Control,
    side: PathBuf,
    roots: Roots,
}

impl Library {
    /// The server has it from its next start on. A sync takes 0.2 ms and does nothing else.
    pub(super) fn attach(server: &mut Server, record: bool) -> Result<Library> {
        let directory = server.directory().to_path_buf();
        let side = directory.join("side");
        let roots = Roots { store: directory.join("tidesdb_data"), data: directory.join("data") };
        let control = Control::create(&side, record, Some(Duration::from_micros(200)))?;
        let library = preload::build(&directory)?;
        server.add_environment(preload::environment(&library, &side, &roots));
        Ok(Library { control, side, roots })
    }

    /// Takes unsynced changes back. The server was killed.
    pub(super) fn cut_power(&self, loss: Loss, random: &mut StdRng) -> Result<TakenBack> {
        PowerCut { side: &self.side, roots: &self.roots, loss }.make(random)
    }
}

/// Settings to let the library see every call: no native AIO, no mappings. Without the engine the server
/// shall not start.
pub(super) fn settings() -> Vec<Setting> {
    vec![
        setting("innodb_use_native_aio", "OFF"),
        setting("innodb_flush_method", "fsync"),
        // Else the redo log is mapped for a recovery.
        setting("innodb_log_file_mmap", "OFF"),
        hint("tidesdb", "FORCE"),
        hint("stack-trace", "OFF"),
    ]
}

/// See the module's comment.
pub(super) struct Bench<'a> {
    lab: &'a Lab<'a>,
    pub(super) server: Server,
    pub(super) library: Library,
    pub(super) writers: Vec<Writer>,
    pub(super) binary_log: bool,
    /// Tokens before the binary log's file with this number.
    logged_from: (u32, BTreeSet<i64>),
    /// Transactions permitted in one engine alone: without a binary log, the unanswered ones, and those with
    /// InnoDB's part lost ([decision 5](../../../../docs/design/0005-prepared-transactions.md)).
    halves: BTreeSet<i64>,
    /// The error log's length when the round began.
    log_from: u64,
    chores: u64,
    /// Errors met by the chores in the last load.
    pub(super) answers: Vec<String>,
}

impl<'a> Bench<'a> {
    /// Starts a server, makes its tables, and starts it again with the library.
    pub(super) fn start(lab: &'a Lab<'a>, record: bool) -> Result<Bench<'a>> {
        let mut server = lab.start(&settings_of(false))?;
        accounts::make_tables(&server)?;
        let large = format!(
            "INSERT INTO torture.large SELECT seq, REPEAT(CHAR(97 + seq % 26), 900) FROM torture.seq_1_to_{LARGE}"
        );
        set_up(
            &mut connect(&server)?,
            &[
                "CREATE TABLE torture.probe (a INT PRIMARY KEY, b INT) ENGINE=TidesDB",
                "CREATE TABLE torture.spilled (a BIGINT PRIMARY KEY, pad TEXT NOT NULL) ENGINE=TidesDB",
                "CREATE TABLE torture.large (a BIGINT PRIMARY KEY, pad TEXT NOT NULL) ENGINE=TidesDB COMPRESSION='NONE'",
                &large,
            ],
        )?;
        server.shut_down()?;
        let library = Library::attach(&mut server, record)?;
        let mut bench = Bench {
            lab,
            server,
            library,
            writers: accounts::writers(),
            binary_log: false,
            logged_from: (0, BTreeSet::new()),
            halves: BTreeSet::new(),
            log_from: 0,
            chores: 0,
            answers: Vec::new(),
        };
        bench.restart()?;
        bench.begin_log()?;
        Ok(bench)
    }

    /// Starts the server and kills it after the delay.
    pub(super) fn crash_while_starting(&mut self, delay: Duration) -> Result<()> {
        self.server.crash_while_starting(&settings_of(self.binary_log), delay)
    }

    pub(super) fn restart(&mut self) -> Result<Duration> {
        self.server.restart(&settings_of(self.binary_log), self.lab.interrupt)
    }

    /// Turns the binary log on or off, over an orderly shutdown.
    pub(super) fn set_binary_log(&mut self, on: bool) -> Result<()> {
        if self.binary_log == on {
            return Ok(());
        }
        if !self.server.shut_down_within(LIMIT) {
            return Err(hang("a shutdown without a fault"));
        }
        self.binary_log = on;
        self.restart()?;
        self.begin_log()
    }

    /// From here on the binary log is compared with the tables: its file begins after every stored
    /// transaction.
    fn begin_log(&mut self) -> Result<()> {
        let there = accounts::tokens(&mut connect(&self.server)?)?;
        let last = binary_log::files(&self.server, 0)?.last().map_or(0, |(number, _)| *number);
        self.logged_from = (last, there);
        Ok(())
    }

    /// From here on [`Bench::error_log`] reads.
    pub(super) fn mark_error_log(&mut self) -> Result<()> {
        let path = self.log_path();
        self.log_from = fs::metadata(&path).map_err(io_error("cannot look at", &path))?.len();
        Ok(())
    }

    fn log_path(&self) -> PathBuf {
        self.server.directory().join("error.log")
    }

    /// The error log since the mark.
    pub(super) fn error_log(&self) -> Result<String> {
        let path = self.log_path();
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(self.log_from))?;
                file.read_to_end(&mut bytes)
            })
            .map_err(io_error("cannot read", &path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Puts writers and chores on the server while `meanwhile` runs; then all are asked to stop. Returns with
    /// its result the failures other than answers: they are in order when the server ended.
    pub(super) fn under_load<T>(
        &mut self,
        random: &mut StdRng,
        meanwhile: impl FnOnce(&mut Server, &Control) -> Result<T>,
    ) -> Result<(T, Vec<String>)> {
        let stop = AtomicBool::new(false);
        let conduct = Conduct { stop: &stop, faults: true, innodb: true, limit: LIMIT };
        let socket = self.server.socket().to_path_buf();
        self.answers.clear();
        let mut chores = Chores {
            number: &mut self.chores,
            answers: &mut self.answers,
            binary_log: self.binary_log,
            aside: self.server.directory().join("checkpoints"),
            random: StdRng::seed_from_u64(random.random()),
        };
        let (server, control) = (&mut self.server, &self.library.control);
        let writers = &mut self.writers;
        thread::scope(|scope| {
            let mut clients = Vec::new();
            for writer in writers.iter_mut() {
                let (socket, random) = (&socket, StdRng::seed_from_u64(random.random()));
                clients.push(scope.spawn(move || writer.work(socket, random, conduct)));
            }
            let (socket, stop) = (&socket, &stop);
            clients.push(scope.spawn(move || chores.work(socket, stop)));
            let result = meanwhile(server, control);
            stop.store(true, Ordering::SeqCst);
            let mut lost = Vec::new();
            for client in clients {
                match client.join() {
                    Ok(done) => lost.extend(done.err().map(|failure| failure.to_string())),
                    Err(_) => lost.push("a client of the laboratory panicked".to_string()),
                }
            }
            result.map(|result| (result, lost))
        })
    }

    /// While the server runs: every acknowledged transaction is seen, and no refused one.
    pub(super) fn look(&self) -> Result<Vec<String>> {
        let mut session =
            Session::connect(&Address::root(self.server.socket()), LIMIT).map_err(|failure| {
                Error::Statement { statement: "connect".to_string(), message: failure.to_string() }
            })?;
        let there = match session.numbers("SELECT token FROM torture.token FORCE INDEX (PRIMARY)") {
            Ok(rows) => rows.into_iter().flatten().collect::<BTreeSet<i64>>(),
            // A read may meet the fault.
            Err(Failure::Sql { .. }) => return Ok(Vec::new()),
            Err(lost) => return Ok(vec![format!("reading the tokens after the fault: {lost}")]),
        };
        let mut wrong = Vec::new();
        for writer in &self.writers {
            if let Some(first) = writer.acknowledged.difference(&there).next() {
                wrong.push(format!("before a restart: the acknowledged transaction {first} is not seen"));
            }
            for (token, answer) in &writer.failed {
                if there.contains(token) && writer.in_doubt() != Some(*token) {
                    wrong.push(format!("before a restart: {token} is seen, its answer was {answer}"));
                }
            }
        }
        Ok(wrong)
    }

    /// The server's state: tries to write a row.
    pub(super) fn health(&self) -> Health {
        let start = Instant::now();
        let mut session = match Session::connect(&Address::root(self.server.socket()), LIMIT) {
            Ok(session) => session,
            Err(failure) => return Health::Wrong(format!("no connection after the fault: {failure}")),
        };
        let mut in_a_row = 0;
        loop {
            match session
                .run(&format!("REPLACE INTO torture.probe VALUES (1, {})", start.elapsed().as_micros()))
            {
                Ok(_) if in_a_row == 2 => return Health::Works,
                Ok(_) => in_a_row += 1,
                Err(Failure::Sql { message, .. })
                    if message.contains("restart to recover")
                        || message.contains("known only after a restart") =>
                {
                    return Health::WantsRestart;
                }
                Err(Failure::Sql { code, message }) if start.elapsed() > GOES_ON_WITHIN => {
                    return Health::Wrong(format!("no writes after the fault: error {code} ({message})"));
                }
                Err(Failure::Sql { .. }) => {
                    in_a_row = 0;
                    thread::sleep(Duration::from_millis(100));
                }
                Err(lost) => return Health::Wrong(format!("no answer to a write after the fault: {lost}")),
            }
        }
    }

    /// After a restart, or while nothing is in doubt: compares rows, indexes, engines and binary log with the
    /// writers' models; these take over the outcomes. A binary log decides, if there is one.
    pub(super) fn judge(&mut self) -> Result<Vec<String>> {
        let mut session = connect(&self.server)?;
        let there = accounts::tokens(&mut session)?;
        if !self.binary_log {
            self.halves.extend(self.writers.iter().filter_map(Writer::in_doubt));
        }
        let mut wrong = Vec::new();
        for writer in &mut self.writers {
            writer.settle(&there, &mut session)?;
            wrong.append(&mut writer.complaints);
        }
        wrong.extend(accounts::strangers(&self.writers, &there));
        if !self.binary_log {
            self.halves.extend(accounts::lost_by_innodb(&mut session, &there)?);
        }
        wrong.extend(accounts::other_halves(&mut session, &there, &self.halves)?);
        wrong.extend(accounts::tables_disagree(&mut session, &there)?);
        wrong.extend(check_tables(&mut session)?);
        if self.binary_log {
            let (from, before) = &self.logged_from;
            let since = there.difference(before).copied().collect();
            let log = binary_log::tokens(self.lab, &self.server, *from)?;
            wrong.extend(binary_log::compare(&log.difference(before).copied().collect(), &since));
        }
        self.writers.iter_mut().for_each(|writer| writer.failed.clear());
        if self.binary_log {
            self.begin_log()?;
        }
        Ok(wrong)
    }
}

/// Work unfinished in time: the check cannot go on.
fn hang(what: &str) -> Error {
    Error::Load { what: what.to_string(), message: format!("did not end within {} s", LIMIT.as_secs()) }
}

/// The tables of the chores.
fn check_tables(session: &mut Session) -> Result<Vec<String>> {
    let statement = "CHECK TABLE torture.large, torture.spilled, torture.probe, torture.elsewhere";
    let rows = must(statement, session.rows(statement))?;
    let sound = |row: &&Vec<String>| {
        row.get(2).is_some_and(|kind| kind != "status") || row.get(3).is_some_and(|m| m == "OK")
    };
    let mut wrong: Vec<String> =
        rows.iter().filter(|row| !sound(row)).map(|row| format!("CHECK TABLE: {}", row.join(" "))).collect();
    let count = must("count", session.number("SELECT COUNT(*) FROM torture.large"))?;
    if u64::try_from(count) != Ok(LARGE) {
        wrong.push(format!("torture.large has {count} rows of {LARGE}"));
    }
    Ok(wrong)
}

/// The settings of the checks and of the library with a small cache, data files written all the time, and
/// rotations of the binary log.
fn settings_of(binary_log: bool) -> Vec<Setting> {
    let mut all = checks(binary_log);
    all.retain(|setting| setting.name != "tidesdb_block_cache_size");
    all.extend(settings());
    all.extend([
        setting("tidesdb_block_cache_size", "1M"),
        setting("innodb_max_dirty_pages_pct", "0"),
        setting("innodb_lock_wait_timeout", "10"),
    ]);
    if binary_log {
        all.push(setting("max_binlog_size", "256K"));
    }
    all
}

/// A client with statements to make the background work, one after the other. Errors are part of the check.
struct Chores<'a> {
    number: &'a mut u64,
    answers: &'a mut Vec<String>,
    binary_log: bool,
    aside: PathBuf,
    random: StdRng,
}

impl Chores<'_> {
    fn work(&mut self, socket: &Path, stop: &AtomicBool) -> std::result::Result<(), Failure> {
        let mut session = Session::connect(&Address::root(socket), LIMIT)?;
        while !stop.load(Ordering::SeqCst) {
            for statement in self.chore() {
                match session.rows(&statement) {
                    Err(lost @ Failure::Lost(_)) => return Err(lost),
                    Err(refused) => self.answers.push(format!("{statement}: {refused}")),
                    // OPTIMIZE TABLE answers with errors in rows.
                    Ok(rows) => self.answers.extend(rows.into_iter().map(|row| row.join(" "))),
                }
            }
            // What a checkpoint left; there may be none.
            let _ = fs::remove_dir_all(&self.aside);
            thread::sleep(Duration::from_millis(self.random.random_range(5..60)));
        }
        Ok(())
    }

    fn chore(&mut self) -> Vec<String> {
        *self.number += 1;
        let number = *self.number;
        let from = self.random.random_range(1..=LARGE);
        let range = format!("WHERE a BETWEEN {from} AND {}", from + 300);
        match self.random.random_range(0..10) {
            0 if self.binary_log => vec!["FLUSH BINARY LOGS".to_string()],
            1 => vec!["OPTIMIZE TABLE torture.account".to_string()],
            2 => vec!["OPTIMIZE TABLE torture.large".to_string()],
            3 => vec![
                format!("INSERT INTO torture.spilled SELECT seq, REPEAT('s', 400) FROM torture.seq_{number}0000_to_{number}4000"),
                "DELETE FROM torture.spilled".to_string(),
            ],
            4 => vec![
                format!("CREATE TABLE torture.side_{number} (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=TidesDB"),
                format!("INSERT INTO torture.side_{number} VALUES (1, 1), (2, 2)"),
                format!("DROP TABLE torture.side_{number}"),
            ],
            5 => vec![format!("SET GLOBAL tidesdb_checkpoint_dir = '{}'", self.aside.display())],
            6 | 7 => vec![format!("UPDATE torture.large SET pad = REVERSE(pad) {range}")],
            _ => vec![format!("SELECT SUM(LENGTH(pad)) FROM torture.large {range}")],
        }
    }
}
