//! `newest`: REPEATABLE READ with `tidesdb_snapshot_conflicts=OFF`, where locking statements take the newest version.
//!
//! First random programs of one transaction over rows changed since its snapshot, on InnoDB and on TidesDB:
//! every answer is compared, and each plain read with the same one by every index. Then clients count in rows
//! read before: no update is lost, and none is refused. Last, clients exchange keys while others read ranges
//! of them FOR UPDATE.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;
use tidelab_server::server::settings;
use tidelab_server::server::Server;

use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

const IDS: i64 = 40;
const COUNTERS: i64 = 8;
const CLIENTS: u64 = 8;
const MOVING: i64 = 300;
/// Unlike any other number of a row, so v tells its id and k.
const FACTOR: i64 = 100_003;
/// Complaints of one part: the first ones tell.
const COMPLAINTS_EACH: usize = 5;
const ENGINES: [&str; 2] = ["InnoDB", "TidesDB"];
const OFF: &str = "SET SESSION tidesdb_snapshot_conflicts = OFF, innodb_snapshot_isolation = OFF";
/// All rows, by the primary key.
const ALL: &str = "SELECT id, k, u, v, LENGTH(pad) FROM {t} IGNORE INDEX (k, u)";

type Answer<T> = std::result::Result<T, Failure>;

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let seconds = lab.seconds.unwrap_or(if lab.short { 2 } else { 20 });
    let server = lab.start(&settings::checks(false))?;
    let mut session = connect(&server)?;
    set_up(&mut session, &["CREATE DATABASE newest"])?;
    let mut complaints = Vec::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut programs, mut statements, mut newer) = (0, 0, 0);
    while Instant::now() < end && complaints.len() < COMPLAINTS_EACH {
        lab.interrupt.check()?;
        let seed = lab.seed.wrapping_add(programs);
        let mut program = must("begin a program", Program::begin(&server, seed))?;
        let wrong = must("run a program", program.run())?;
        complaints
            .extend(wrong.map(|wrong| format!("program {seed}: {wrong}\n{}", program.script.join(";\n"))));
        statements += program.script.len();
        newer += u64::from(program.newer);
        programs += 1;
    }
    let first = format!("{programs} programs of {statements} statements as InnoDB, {newer} over newer rows");
    progress(Check::Newest, &first);
    if newer == 0 {
        complaints.push(format!("nothing was checked: {first}"));
    }
    let (counted, wrong) = count(lab, &server, seconds)?;
    complaints.extend(wrong);
    let second = format!("{counted} transactions counted in {COUNTERS} rows");
    progress(Check::Newest, &second);
    let (moves, reads, wrong) = move_keys(lab, &server, seconds)?;
    complaints.extend(wrong);
    let third = format!("{moves} exchanges of keys alongside {reads} ranges FOR UPDATE");
    progress(Check::Newest, &third);
    if counted == 0 || moves == 0 || reads == 0 {
        complaints.push(format!("nothing was checked: {second}; {third}"));
    }
    conclude(server, format!("{first}; {second}; {third}"), complaints)
}

/* --- one transaction on two engines --- */

/// A random program: its sessions, and its statements so far.
struct Program {
    random: StdRng,
    /// Of each engine: the transaction, and the others.
    sessions: Vec<(Session, Session)>,
    script: Vec<String>,
    /// The transaction met a row newer than its snapshot.
    newer: bool,
}

impl Program {
    fn begin(server: &Server, seed: u64) -> Answer<Program> {
        let mut sessions = Vec::new();
        for engine in ENGINES {
            let (mut one, mut others) = (Session::open(server.socket())?, Session::open(server.socket())?);
            one.run(OFF)?;
            one.run("SET SESSION innodb_lock_wait_timeout = 5")?;
            others.run("SET SESSION innodb_lock_wait_timeout = 5")?;
            others.run(&format!(
                "CREATE OR REPLACE TABLE newest.{engine} (id INT PRIMARY KEY, k INT NOT NULL, u INT, v INT NOT NULL DEFAULT 0,
                   pad LONGTEXT, KEY k (k), UNIQUE KEY u (u)) ENGINE={engine}"
            ))?;
            sessions.push((one, others));
        }
        let random = StdRng::seed_from_u64(seed);
        let mut program = Program { random, sessions, script: Vec::new(), newer: false };
        for id in 1..=IDS {
            if program.random.random_bool(0.7) {
                let (k, u) = (program.random.random_range(0..50_i64), id * 2);
                program.both(false, &format!("INSERT INTO {{t}} (id, k, u) VALUES ({id}, {k}, {u})"))?;
            }
        }
        Ok(program)
    }

    /// Runs a statement on both engines, in the transaction or in the others' session. The difference, if there is one.
    fn both(&mut self, inside: bool, statement: &str) -> Answer<Option<String>> {
        self.script.push(format!("{}{statement}", if inside { "" } else { "/* others */ " }));
        let mut answers = Vec::new();
        for (engine, (one, others)) in ENGINES.into_iter().zip(&mut self.sessions) {
            let session = if inside { one } else { others };
            let statement = statement.replace("{t}", &format!("newest.{engine}"));
            answers.push(match session.ask(&statement) {
                Ok(reply) => {
                    let text = |column: Option<Vec<u8>>| {
                        column
                            .map_or("NULL".to_string(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
                    };
                    let mut rows: Vec<Vec<String>> =
                        reply.rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect();
                    rows.sort();
                    Ok((reply.affected, rows))
                }
                Err(Failure::Sql { code, .. }) => Err(code),
                Err(failure) => return Err(failure),
            });
        }
        Ok((answers[0] != answers[1])
            .then(|| format!("{statement}: InnoDB {:?}, TidesDB {:?}", answers[0], answers[1])))
    }

    fn run(&mut self) -> Answer<Option<String>> {
        let how = *self.pick(&["BEGIN", "START TRANSACTION WITH CONSISTENT SNAPSHOT"]);
        self.both(true, how)?;
        self.both(true, "SELECT COUNT(*) FROM {t}")?;
        for _ in 0..self.random.random_range(3..30) {
            let statement = self.change();
            if let Some(wrong) = self.both(false, &statement)? {
                return Ok(Some(wrong));
            }
        }
        let all = ALL.replace("{t}", &format!("newest.{}", ENGINES[1]));
        let (one, others) = &mut self.sessions[1];
        self.newer = one.rows(&all)? != others.rows(&all)?;
        let mut savepoint = false;
        for _ in 0..self.random.random_range(2..15) {
            let statement = match self.random.random_range(0..12) {
                0 => {
                    savepoint = true;
                    "SAVEPOINT s".to_string()
                }
                1 if savepoint => "ROLLBACK TO s".to_string(),
                // More than fits in memory.
                2 if self.random.random_bool(0.3) => "UPDATE {t} SET pad = REPEAT('x', 30000)".to_string(),
                3 => {
                    let low = self.random.random_range(0..50_i64);
                    let lock = *self.pick(&["FOR UPDATE", "LOCK IN SHARE MODE"]);
                    format!(
                        "SELECT id, k, u, v FROM {{t}} FORCE INDEX (k) WHERE k BETWEEN {low} AND {} {lock}",
                        low + 9
                    )
                }
                _ => self.change(),
            };
            let wrong = self.both(true, &statement)?;
            if let Some(wrong) = wrong.or(self.reads_agree()?) {
                return Ok(Some(wrong));
            }
        }
        let end = *self.pick(&["COMMIT", "COMMIT", "ROLLBACK"]);
        self.both(true, end)?;
        if let Some(wrong) = self.reads_agree()? {
            return Ok(Some(wrong));
        }
        let table = format!("newest.{}", ENGINES[1]);
        let checked = self.sessions[1].1.rows(&format!("CHECK TABLE {table} EXTENDED"))?;
        Ok((checked.last().and_then(|row| row.last()).map(String::as_str) != Some("OK"))
            .then(|| format!("CHECK TABLE: {checked:?}")))
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.random_range(0..of.len())]
    }

    /// A random change.
    fn change(&mut self) -> String {
        let random = &mut self.random;
        let (id, k) = (random.random_range(1..=IDS), random.random_range(0..50_i64));
        let (low, length) = (random.random_range(0..50_i64), random.random_range(0..8_i64));
        let u = if random.random_bool(0.1) {
            "NULL".to_string()
        } else {
            random.random_range(1..90_i64).to_string()
        };
        match random.random_range(0..14) {
            0 | 1 => format!("UPDATE {{t}} SET v = v + 1 WHERE id = {id}"),
            2 => format!("UPDATE {{t}} SET k = {k} WHERE id = {id}"),
            3 | 4 => format!("UPDATE {{t}} SET u = {u} WHERE id = {id}"),
            5 | 6 => format!("DELETE FROM {{t}} WHERE id = {id}"),
            7 => format!("INSERT INTO {{t}} (id, k, u) VALUES ({id}, {k}, {u})"),
            8 => format!(
                "INSERT INTO {{t}} (id, k, u) VALUES ({id}, {k}, {u}) ON DUPLICATE KEY UPDATE v = v + 1, k = {k}"
            ),
            9 => format!("REPLACE INTO {{t}} (id, k, u, v) VALUES ({id}, {k}, {u}, 1)"),
            10 => format!(
                "UPDATE {{t}} FORCE INDEX (k) SET v = v + 1, k = k + 1 WHERE k BETWEEN {low} AND {}",
                low + length
            ),
            11 => format!("UPDATE {{t}} FORCE INDEX (u) SET k = k + 1 WHERE u BETWEEN {low} AND {}", low + length),
            12 => format!("DELETE FROM {{t}} WHERE u BETWEEN {low} AND {}", low + length / 4),
            _ => format!("UPDATE {{t}} SET id = {} WHERE id = {id}", random.random_range(1..=IDS)),
        }
    }

    /// The transaction's plain reads: both engines have the same rows, and TidesDB by every index.
    fn reads_agree(&mut self) -> Answer<Option<String>> {
        if let Some(wrong) = self.both(true, ALL)? {
            return Ok(Some(wrong));
        }
        self.script.pop();
        let low = self.random.random_range(0..90_i64);
        let session = &mut self.sessions[1].0;
        for columns in ["id, k", "id, k, u, v", "id, u"] {
            for (index, condition) in [
                ("k", "k > -1".to_string()),
                ("k", format!("k BETWEEN {} AND {}", low / 2, low / 2 + 5)),
                ("u", "u > -1".to_string()),
                ("u", "u IS NULL".to_string()),
                ("u", format!("u BETWEEN {low} AND {}", low + 5)),
                ("u", format!("u > {low} ORDER BY u DESC")),
            ] {
                let of = |hint: &str| {
                    format!("SELECT {columns} FROM newest.{} {hint} WHERE {condition}", ENGINES[1])
                };
                let by_index = of(&format!("FORCE INDEX ({index})"));
                let mut found = session.rows(&by_index)?;
                let mut rows = session.rows(&of("IGNORE INDEX (k, u)"))?;
                found.sort();
                rows.sort();
                if found != rows {
                    return Ok(Some(format!("{by_index}: {found:?}, without the index {rows:?}")));
                }
            }
        }
        Ok(None)
    }
}

/* --- clients that count --- */

/// Counts the successful transactions; also returns the complaints.
fn count(lab: &Lab<'_>, server: &Server, seconds: u64) -> Result<(u64, Vec<String>)> {
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            "CREATE TABLE newest.counter (id INT PRIMARY KEY, c BIGINT NOT NULL, KEY (c)) ENGINE=TidesDB",
            &format!("INSERT INTO newest.counter SELECT seq, 0 FROM newest.seq_1_to_{COUNTERS}"),
        ],
    )?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut complaints = clients(lab, server, seconds, &stop, |session, _, random| {
        let a = random.random_range(1..COUNTERS);
        let b = random.random_range(a + 1..=COUNTERS);
        session.run("BEGIN")?;
        session.rows("SELECT * FROM newest.counter")?;
        session.run(&format!("UPDATE newest.counter SET c = c + 1 WHERE id = {a}"))?;
        session.run(&format!("UPDATE newest.counter SET c = c + 1 WHERE id = {b}"))?;
        let mine = format!("FROM newest.counter FORCE INDEX (c) WHERE c > -1 AND id IN ({a}, {b})");
        let locked = session
            .numbers(&format!("SELECT id, c FROM newest.counter WHERE id IN ({a}, {b}) FOR UPDATE"))?;
        let mut seen = session.numbers(&format!("SELECT id, c {mine}"))?;
        seen.sort_unstable();
        session.run("COMMIT")?;
        done.fetch_add(1, Ordering::Relaxed);
        Ok((seen != locked).then(|| format!("own rows by index {seen:?}, locked {locked:?}")))
    })?;
    let done = done.into_inner();
    let sum = must("read the sum", session.number("SELECT SUM(c) FROM newest.counter"))?;
    if u64::try_from(sum) != Ok(2 * done) {
        complaints.push(format!("{done} transactions of two updates were answered, the rows count {sum}"));
    }
    Ok((done, complaints))
}

/// Runs `work` on clients of the setting OFF for some time. A conflict is a complaint unless `work` answers it.
fn clients(
    lab: &Lab<'_>,
    server: &Server,
    seconds: u64,
    stop: &AtomicBool,
    work: impl Fn(&mut Session, u64, &mut StdRng) -> Answer<Option<String>> + Sync,
) -> Result<Vec<String>> {
    let (start, seed) = (Instant::now(), lab.seed);
    let complaints = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let work = &work;
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
                    let mut complaints = Vec::new();
                    let mut run = || -> Answer<()> {
                        let mut session = Session::open(server.socket())?;
                        session.run(OFF)?;
                        while !stop.load(Ordering::Relaxed) && complaints.len() < COMPLAINTS_EACH {
                            complaints.extend(work(&mut session, number, &mut random)?);
                        }
                        Ok(())
                    };
                    if let Err(failure) = run() {
                        complaints.push(format!("a client got {failure}"));
                    }
                    complaints
                })
            })
            .collect();
        while start.elapsed() < Duration::from_secs(seconds) && lab.interrupt.check().is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|c| c.join().expect("a client does not panic")).collect()
    });
    lab.interrupt.check()?;
    Ok(complaints)
}

/* --- clients that exchange keys --- */

/// Exchanges, ranges read, and the complaints.
fn move_keys(lab: &Lab<'_>, server: &Server, seconds: u64) -> Result<(u64, u64, Vec<String>)> {
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            "CREATE TABLE newest.moving (id INT PRIMARY KEY, k INT NOT NULL, u INT NOT NULL, v BIGINT NOT NULL,
               KEY k (k), UNIQUE KEY u (u)) ENGINE=TidesDB",
            &format!(
                "INSERT INTO newest.moving SELECT seq, seq, seq, seq * {FACTOR} + seq FROM newest.seq_0_to_{}",
                MOVING - 1
            ),
        ],
    )?;
    let stop = AtomicBool::new(false);
    let (moves, reads) = (AtomicU64::new(0), AtomicU64::new(0));
    let complaints = clients(lab, server, seconds, &stop, |session, number, random| {
        let worked = if number % 2 == 0 { exchange(session, random) } else { range(session, random) };
        match worked {
            Ok(wrong) => {
                session.run("COMMIT")?;
                let counter = if number % 2 == 0 { &moves } else { &reads };
                counter.fetch_add(1, Ordering::Relaxed);
                Ok(wrong)
            }
            // A range is locked in another order than two rows.
            Err(Failure::Sql { code: 1213, .. }) => session.run("ROLLBACK").map(|_| None),
            Err(failure) => Err(failure),
        }
    })?;
    Ok((moves.into_inner(), reads.into_inner(), complaints))
}

/// Exchanges k or u of two rows, seen before others changed them, and reads its view by every index.
fn exchange(session: &mut Session, random: &mut StdRng) -> Answer<Option<String>> {
    let a = random.random_range(0..MOVING - 1);
    let b = random.random_range(a + 1..MOVING);
    session.run("BEGIN")?;
    session.number("SELECT COUNT(*) FROM newest.moving")?;
    let rows =
        session.numbers(&format!("SELECT k, u FROM newest.moving WHERE id IN ({a}, {b}) FOR UPDATE"))?;
    let [one, two] = rows.as_slice() else { return Ok(Some(format!("row {a} or {b} is not there"))) };
    if random.random_bool(0.5) {
        for (id, k) in [(a, two[0]), (b, one[0])] {
            let v = id * FACTOR + k;
            session.run(&format!("UPDATE newest.moving SET k = {k}, v = {v} WHERE id = {id}"))?;
        }
    } else {
        session.run(&format!("UPDATE newest.moving SET u = -1 - {} WHERE id = {a}", one[1]))?;
        session.run(&format!("UPDATE newest.moving SET u = {} WHERE id = {b}", one[1]))?;
        session.run(&format!("UPDATE newest.moving SET u = {} WHERE id = {a}", two[1]))?;
    }
    let mut found = Vec::new();
    for (index, condition) in [("PRIMARY", "id > -1"), ("k", "k > -1"), ("u", "u > -1000")] {
        found.extend(session.numbers(&format!(
            "SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS(':', id, k, u, v))) FROM newest.moving FORCE INDEX ({index}) WHERE {condition}"
        ))?);
    }
    let same = found.windows(2).all(|two| two[0] == two[1]);
    Ok((!same).then(|| format!("one view by PRIMARY, k, u: {found:?}")))
}

/// A range of keys FOR UPDATE: each once, each with its row.
fn range(session: &mut Session, random: &mut StdRng) -> Answer<Option<String>> {
    let length = random.random_range(1..20);
    let low = random.random_range(0..MOVING - length);
    let (index, at) = if random.random_bool(0.5) { ("k", 1) } else { ("u", 2) };
    session.run("BEGIN")?;
    session.number("SELECT COUNT(*) FROM newest.moving")?;
    let select = format!(
        "SELECT id, k, u, v FROM newest.moving FORCE INDEX ({index}) WHERE {index} BETWEEN {low} AND {} FOR UPDATE",
        low + length - 1
    );
    let rows = session.numbers(&select)?;
    let mut keys: Vec<i64> = rows.iter().map(|row| row[at]).collect();
    keys.sort_unstable();
    let right =
        keys.into_iter().eq(low..low + length) && rows.iter().all(|row| row[3] == row[0] * FACTOR + row[1]);
    Ok((!right).then(|| format!("{select}: {rows:?}")))
}
