//! `backup`: a primary with the binary log on, under writers, XA transactions and definitions, is backed
//! up with `tidesdb_backup_dir` and `tidesdb_checkpoint_dir`, several times.
//!
//! Each backup is verified and restored into another server. Its contents must be consistent in themselves.
//! Every transaction answered before must be there whole. The binary log, replayed from the position in the
//! backup, must give the primary's final state exactly. If the position were too early, a transaction would
//! come twice: a duplicate key, or an XA transaction already there. If it were too late, one would be
//! missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings;
use tidelab_server::server::Server;
use tidesdb::internal::backup::{restore, BackupInfo, Watch};
use tidesdb::internal::io::RealDisk;

use super::session::{Failure, Session};
use super::{connect, must, progress, replay, set_up, Check, Lab, Verdict};

const WRITERS: u64 = 6;
const ACCOUNTS: u64 = 300;
/// The writer number of XA transactions in the journal.
const XA: u64 = 100;

const TABLES: [&str; 5] = [
    "CREATE DATABASE torture",
    "CREATE TABLE torture.account (id INT PRIMARY KEY, balance BIGINT NOT NULL, KEY (balance)) ENGINE=TidesDB
     PARTITION BY HASH (id) PARTITIONS 3",
    "CREATE TABLE torture.journal (n BIGINT AUTO_INCREMENT PRIMARY KEY, writer INT NOT NULL, k BIGINT NOT NULL,
     a INT NOT NULL, b INT NOT NULL, amount BIGINT NOT NULL, pad VARCHAR(4000), UNIQUE (writer, k)) ENGINE=TidesDB",
    "CREATE VIEW torture.transfers AS SELECT writer, COUNT(*) AS c FROM torture.journal GROUP BY writer",
    "CREATE TRIGGER torture.counted BEFORE INSERT ON torture.journal FOR EACH ROW SET NEW.pad = COALESCE(NEW.pad, 'x')",
];

/// The invariants of every moment: queries that answer 0.
const CONSISTENT: [(&str, &str); 4] = [
    ("the sum of all balances", "SELECT SUM(balance) FROM torture.account"),
    (
        "accounts whose balance is not what the journal says",
        "SELECT COUNT(*) FROM torture.account LEFT JOIN (SELECT id, SUM(amount) AS s FROM (
           SELECT a AS id, -amount AS amount FROM torture.journal UNION ALL
           SELECT b, amount FROM torture.journal) m GROUP BY id) j USING (id)
         WHERE balance <> COALESCE(s, 0)",
    ),
    (
        "transactions of a writer that are missing before one that is there",
        "SELECT COALESCE(SUM(m - c), 0) FROM (SELECT MAX(k) AS m, COUNT(*) AS c FROM torture.journal
         WHERE writer < 100 GROUP BY writer) w",
    ),
    (
        "rows that the table has and the index has not",
        "SELECT (SELECT COUNT(*) FROM torture.journal FORCE INDEX (PRIMARY))
              - (SELECT COUNT(*) FROM torture.journal FORCE INDEX (writer) WHERE writer > -1)",
    ),
];

/// The counts of the clients.
struct Load<'a> {
    server: &'a Server,
    stop: AtomicBool,
    /// Answered transactions of each writer.
    answered: Vec<AtomicU64>,
    /// The longest commit, in microseconds.
    longest_us: AtomicU64,
}

/// A finished backup.
struct FinishedBackup {
    directory: PathBuf,
    /// Transactions of each writer answered before the backup was asked for.
    least: Vec<u64>,
    info: BackupInfo,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { 1 } else { 4 });
    let primary = lab.start_in(&lab.directory.join("primary"), Engine::TidesDb, &settings::checks(true))?;
    let mut session = connect(&primary)?;
    set_up(&mut session, &TABLES)?;
    let fill = format!("INSERT INTO torture.account SELECT seq, 0 FROM torture.seq_1_to_{ACCOUNTS}");
    set_up(&mut session, &[&fill])?;

    let load = Load {
        server: &primary,
        stop: AtomicBool::new(false),
        answered: (0..WRITERS).map(|_| AtomicU64::new(0)).collect(),
        longest_us: AtomicU64::new(0),
    };
    let (taken, mut complaints) = under_load(lab, &load, rounds)?;
    set_up(&mut session, &["FLUSH BINARY LOGS"])?;
    let expected = sums(&mut session)?;
    let total: u64 = load.answered.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    if total < 20 * u64::from(rounds) {
        complaints.push(format!("only {total} transactions came through"));
    }

    let mut restored =
        lab.start_in(&lab.directory.join("restored"), Engine::TidesDb, &settings::checks(false))?;
    for one in &taken {
        if !complaints.is_empty() {
            break; // the evidence is fresh
        }
        lab.interrupt.check()?;
        let name = one.directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        bring(lab, &mut restored, &one.directory)?;
        let wrong = compare(lab, &primary, &restored, one, &one.info, &expected)?;
        complaints.extend(wrong.into_iter().map(|complaint| format!("{name}: {complaint}")));
    }
    if let (true, [first, .., last], false) = (complaints.is_empty(), &taken[..], lab.short) {
        // From the position of a later moment transactions are missing, from that of an earlier one they come twice.
        for (one, other) in [(first, last), (last, first)] {
            bring(lab, &mut restored, &one.directory)?;
            if compare(lab, &primary, &restored, one, &other.info, &expected)?.is_empty() {
                complaints.push("the position of another backup was planted and not found".to_string());
            }
        }
    }
    let held: Vec<String> =
        taken.iter().filter_map(|t| t.info.find_note("commits_held_us")).map(String::from).collect();
    let summary = format!(
        "{} backups under {total} transactions, restored and continued from the binary log; commits held for {} us, \
         the longest transaction took {} ms",
        taken.len(),
        held.join(", "),
        load.longest_us.load(Ordering::Relaxed) / 1000
    );
    drop(load);
    let keep = !complaints.is_empty();
    restored.stop(keep)?;
    primary.stop(keep)?;
    Ok(Verdict { summary, complaints })
}

/// Takes backups and checkpoints in turn while all clients work.
fn under_load(lab: &Lab<'_>, load: &Load<'_>, rounds: u32) -> Result<(Vec<FinishedBackup>, Vec<String>)> {
    let places = load.server.directory().to_path_buf();
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for writer in 0..WRITERS {
            let random = StdRng::seed_from_u64(lab.seed * 1000 + writer);
            clients.push((format!("writer {writer}"), scope.spawn(move || load.transfer(writer, random))));
        }
        let random = StdRng::seed_from_u64(lab.seed * 1000 + XA);
        clients.push(("the XA client".into(), scope.spawn(move || load.two_phases(random))));
        clients.push(("the client that defines tables".into(), scope.spawn(|| load.define())));
        let taken = take(lab, load, rounds, &places);
        thread::sleep(Duration::from_millis(300));
        load.stop.store(true, Ordering::Relaxed);
        let mut complaints = Vec::new();
        for (name, client) in clients {
            if let Err(failure) = client.join().expect("a client does not panic") {
                complaints.push(format!("{name} got {failure}"));
            }
        }
        taken.map(|taken| (taken, complaints))
    })
}

fn take(lab: &Lab<'_>, load: &Load<'_>, rounds: u32, places: &Path) -> Result<Vec<FinishedBackup>> {
    let mut session = connect(load.server)?;
    let mut taken = Vec::new();
    for round in 1..=rounds {
        for variable in ["tidesdb_backup_dir", "tidesdb_checkpoint_dir"] {
            lab.interrupt.check()?;
            thread::sleep(Duration::from_millis(if lab.short { 500 } else { 1500 }));
            let directory = places.join(format!("{variable}{round}"));
            let least = load.answered.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            let begun = Instant::now();
            let set = format!("SET GLOBAL {variable} = '{}'", directory.display());
            must(&set, session.run(&set))?;
            let took = begun.elapsed();
            let info = BackupInfo::read(&RealDisk, &directory).map_err(of_engine(&directory))?;
            let at = |name: &str| info.find_note(name).unwrap_or("?").to_string();
            progress(
                Check::Backup,
                &format!(
                    "{variable}: {} bytes in {} ms, {} at {}, commits held for {} us",
                    info.bytes(),
                    took.as_millis(),
                    at("binlog_file"),
                    at("binlog_position"),
                    at("commits_held_us")
                ),
            );
            taken.push(FinishedBackup { directory, least, info });
        }
    }
    Ok(taken)
}

impl Load<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Moves money and says so in the journal; every twentieth transaction is long, every fiftieth outgrows memory.
    fn transfer(&self, writer: u64, mut random: StdRng) -> std::result::Result<(), Failure> {
        let mut session = Session::open(self.server.socket())?;
        let mut k = 0;
        while self.goes_on() {
            let begun = Instant::now();
            let (a, b) = (random.random_range(1..=ACCOUNTS), random.random_range(1..=ACCOUNTS));
            let amount = random.random_range(1..1000);
            let pad = if k % 50 == 49 { "REPEAT('y', 4000)" } else { "NULL" };
            let rows = if k % 20 == 19 { 30 } else { 1 };
            let mut work = || -> std::result::Result<(), Failure> {
                session.run("BEGIN")?;
                for row in 1..=rows {
                    let n = k + row;
                    session.run(&format!(
                        "UPDATE torture.account SET balance = balance + IF(id = {a}, -{amount}, 0)
                         + IF(id = {b}, {amount}, 0) WHERE id IN ({a}, {b})"
                    ))?;
                    session.run(&format!(
                        "INSERT INTO torture.journal (writer, k, a, b, amount, pad)
                         VALUES ({writer}, {n}, {a}, {b}, {amount}, {pad})"
                    ))?;
                }
                session.run("COMMIT").map(|_| ())
            };
            match work() {
                Ok(()) => {
                    k += rows;
                    self.answered[writer as usize].store(k, Ordering::SeqCst);
                    let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                    self.longest_us.fetch_max(took, Ordering::Relaxed);
                }
                Err(failure) if failure.is_conflict() => {
                    session.run("ROLLBACK")?;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// XA transactions with a pause before their decision.
    fn two_phases(&self, mut random: StdRng) -> std::result::Result<(), Failure> {
        let mut session = Session::open(self.server.socket())?;
        let mut n = 0;
        while self.goes_on() {
            n += 1;
            for statement in [
                format!("XA START 'x{n}'"),
                format!(
                    "INSERT INTO torture.journal (writer, k, a, b, amount) VALUES ({XA}, {n}, 1, 1, 0),
                     ({}, {n}, 1, 1, 0)",
                    XA + 1
                ),
                format!("XA END 'x{n}'"),
                format!("XA PREPARE 'x{n}'"),
            ] {
                session.run(&statement)?;
            }
            thread::sleep(Duration::from_millis(random.random_range(0..60)));
            session.run(&format!("XA {} 'x{n}'", if n % 3 == 0 { "ROLLBACK" } else { "COMMIT" }))?;
        }
        Ok(())
    }

    /// Makes, changes and drops tables.
    fn define(&self) -> std::result::Result<(), Failure> {
        let mut session = Session::open(self.server.socket())?;
        let mut n = 0;
        while self.goes_on() {
            n += 1;
            for statement in [
                format!("CREATE TABLE torture.t{n} (a INT PRIMARY KEY, b INT) ENGINE=TidesDB"),
                format!("INSERT INTO torture.t{n} SELECT seq, seq FROM torture.seq_1_to_50"),
                format!("ALTER TABLE torture.t{n} ADD COLUMN c INT DEFAULT 7"),
                format!("ALTER TABLE torture.t{n} ADD KEY (b), ALGORITHM=INPLACE"),
                format!("ALTER TABLE torture.t{n} MODIFY b BIGINT, ALGORITHM=COPY"),
            ] {
                session.run(&statement)?;
            }
            if n % 3 != 0 {
                session.run(&format!("DROP TABLE torture.t{n}"))?;
            }
        }
        Ok(())
    }
}

/// Replaces the server's data with a backup.
fn bring(lab: &Lab<'_>, server: &mut Server, from: &Path) -> Result<()> {
    server.shut_down()?;
    let (data, store) = (server.directory().join("data"), server.directory().join("tidesdb_data"));
    for folder in [data.join("torture"), store.clone()] {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(io_error("cannot remove", &folder))?;
        }
    }
    let identity = data.join("tidesdb_identity");
    fs::remove_file(&identity).map_err(io_error("cannot remove", &identity))?;
    restore(&RealDisk::shared(), from, &store, Some(&data), Watch::NONE).map_err(of_engine(from))?;
    server.restart(&settings::checks(false), lab.interrupt)?;
    let left = data.join("tidesdb_restored");
    match left.exists() {
        true => Err(Error::Load {
            what: left.display().to_string(),
            message: "the server has not dealt with it".to_string(),
        }),
        false => Ok(()),
    }
}

/// The faults of a restored server, before and after the binary log went on from the position of `from`.
fn compare(
    lab: &Lab<'_>,
    primary: &Server,
    restored: &Server,
    taken: &FinishedBackup,
    from: &BackupInfo,
    expected: &BTreeMap<String, String>,
) -> Result<Vec<String>> {
    let mut session = connect(restored)?;
    let mut wrong = consistent(&mut session)?;
    for (writer, least) in taken.least.iter().enumerate() {
        let select = format!("SELECT COUNT(*) FROM torture.journal WHERE writer = {writer}");
        let there = must(&select, session.number(&select))?;
        if there < i64::try_from(*least).unwrap_or(i64::MAX) {
            wrong.push(format!("writer {writer}: {there} transactions of {least} that were answered before"));
        }
    }
    let halves = "SELECT COUNT(*) FROM (SELECT k FROM torture.journal WHERE writer >= 100 GROUP BY k
                  HAVING COUNT(*) <> 2) h";
    if must(halves, session.number(halves))? != 0 {
        wrong.push("an XA transaction is there by half".to_string());
    }
    for table in tables(&mut session)? {
        let check = format!("CHECK TABLE torture.{table}");
        let said = must(&check, session.rows(&check))?;
        if said.iter().any(|row| row.last().is_none_or(|text| text != "OK")) {
            wrong.push(format!("{check}: {said:?}"));
        }
    }

    let note = |name: &str| from.find_note(name).unwrap_or_default().to_string();
    let first: u32 =
        note("binlog_file").rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let (files, _) = replay::complete_files(primary, first)?;
    let position = format!("--start-position={}", note("binlog_position"));
    if let Err(error) = replay::play(lab, restored, &[position], &files) {
        wrong.push(format!(
            "the binary log from {} {}: {error}",
            note("binlog_file"),
            note("binlog_position")
        ));
        return Ok(wrong);
    }
    wrong.extend(consistent(&mut session)?.into_iter().map(|c| format!("with the binary log: {c}")));
    let undecided = must("XA RECOVER", session.rows("XA RECOVER"))?;
    if !undecided.is_empty() {
        wrong.push(format!("{} XA transactions stay undecided", undecided.len()));
    }
    let found = sums(&mut session)?;
    for (table, sum) in expected {
        if found.get(table) != Some(sum) {
            wrong.push(format!("{table}: {:?}, and {sum} on the primary", found.get(table)));
        }
    }
    wrong.extend(
        found.keys().filter(|t| !expected.contains_key(*t)).map(|t| format!("{t} is not on the primary")),
    );
    Ok(wrong)
}

fn consistent(session: &mut Session) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (what, query) in CONSISTENT {
        let number = must(query, session.number(query))?;
        if number != 0 {
            wrong.push(format!("{what}: {number}"));
        }
    }
    Ok(wrong)
}

fn tables(session: &mut Session) -> Result<Vec<String>> {
    let select = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'torture'
                  AND table_type = 'BASE TABLE' ORDER BY table_name";
    Ok(must(select, session.rows(select))?.into_iter().flatten().collect())
}

/// Rows, columns and a sum of the content of every table.
fn sums(session: &mut Session) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for table in tables(session)? {
        let count = format!("SELECT COUNT(*) FROM torture.{table}");
        let sum = format!("CHECKSUM TABLE torture.{table} EXTENDED");
        let rows = must(&count, session.number(&count))?;
        let sum = must(&sum, session.rows(&sum))?.concat();
        all.insert(table, format!("{rows} rows, sum {}", sum.last().cloned().unwrap_or_default()));
    }
    let view = "SELECT COALESCE(SUM(c), 0) FROM torture.transfers";
    all.insert("the view".to_string(), must(view, session.number(view))?.to_string());
    let trigger = "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = 'torture'";
    all.insert("triggers".to_string(), must(trigger, session.number(trigger))?.to_string());
    Ok(all)
}

fn of_engine(path: &Path) -> impl Fn(tidesdb::Error) -> Error + '_ {
    move |error| Error::Load { what: path.display().to_string(), message: error.to_string() }
}
