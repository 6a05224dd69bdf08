//! `indexreads`: four writers and four readers. Readers know the contents of every snapshot, and every read
//! through an index must show exactly these.
//!
//! Table `swapped`: the values 0..ROWS of `k` and of the unique `u` stand in one row each, and a writer
//! exchanges those of two rows. `v` follows from id and k, so an index entry for another version of its row
//! shows. Rows above them come and go in pairs. Table `balance`: transfers, the sum never changes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;
use tidelab_server::server::agreement::{self, Index};
use tidelab_server::server::settings;

use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

/// Permanent rows of `swapped`; their ids, `k` and `u` are 0..ROWS.
const ROWS: i64 = 2000;
/// Values of `k` above them, for the temporary rows.
const PAIRS: i64 = 200;
const ACCOUNTS: i64 = 100;
const MONEY: i64 = 1000;
const WRITERS: u64 = 4;
const READERS: u64 = 4;
/// Unlike any other number of a row, so v tells its id and k.
const FACTOR: i64 = 100_003;
/// A reader stops after so many complaints: the first ones tell.
const COMPLAINTS_EACH: usize = 5;

type Answer<T> = std::result::Result<T, Failure>;

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let seconds = lab.seconds.unwrap_or(if lab.short { 5 } else { 20 });
    let server = lab.start(&settings::checks(false))?;
    let mut session = connect(&server)?;
    make_tables(&mut session)?;
    let stop = AtomicBool::new(false);
    let (writes, refused, reads) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let (mut pessimistic, mut wrong) = (true, Vec::new());
    let mut complaints: Vec<String> = thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..WRITERS + READERS {
            let random = StdRng::seed_from_u64(lab.seed.wrapping_add(number));
            let (stop, writes, refused, reads) = (&stop, &writes, &refused, &reads);
            let socket = server.socket();
            clients.push(scope.spawn(move || {
                let mut complaints = Vec::new();
                let work = || -> Answer<()> {
                    let mut session = Session::open(socket)?;
                    if number < WRITERS {
                        write(&mut session, stop, number, random, writes, refused)
                    } else {
                        read(&mut session, stop, random, reads, &mut complaints)
                    }
                };
                if let Err(failure) = work() {
                    let client = if number < WRITERS { "a writer" } else { "a reader" };
                    complaints.push(format!("{client} got {failure}"));
                }
                complaints
            }));
        }
        while start.elapsed() < Duration::from_secs(seconds) && lab.interrupt.check().is_ok() {
            // Both lock modes in turn, also side by side: a transaction keeps its own.
            pessimistic = !pessimistic;
            let toggle = format!("SET GLOBAL tidesdb_pessimistic_locking = {}", i32::from(pessimistic));
            if let Err(failure) = session.run(&toggle) {
                wrong.push(format!("{toggle}: {failure}"));
            }
            thread::sleep(Duration::from_millis(300));
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|c| c.join().expect("a client does not panic")).collect()
    });
    complaints.append(&mut wrong);
    lab.interrupt.check()?;
    let (writes, reads) = (writes.into_inner(), reads.into_inner());
    let line = format!(
        "{reads} reads alongside {writes} transactions ({} refused) in {seconds} s",
        refused.into_inner()
    );
    progress(Check::IndexReads, &line);
    if writes == 0 || reads == 0 {
        complaints.push(format!("nothing was checked: {line}"));
    }
    let found = must(
        "compare indexes",
        agreement::complaints(
            &mut session,
            "torture.swapped",
            "id, k, u, v",
            &[Index { name: "by_k", all_rows: "k > -1" }, Index { name: "by_u", all_rows: "u > -1" }],
        ),
    )?;
    complaints.extend(found);
    conclude(server, line, complaints)
}

fn make_tables(session: &mut Session) -> Result<()> {
    set_up(
        session,
        &[
            "CREATE DATABASE torture",
            "CREATE TABLE torture.swapped (id BIGINT PRIMARY KEY, k INT NOT NULL, u INT NOT NULL,
               v BIGINT NOT NULL, pad VARCHAR(200) NOT NULL, KEY by_k (k), UNIQUE KEY by_u (u)) ENGINE=TidesDB",
            "CREATE TABLE torture.balance (id INT PRIMARY KEY, money INT NOT NULL, KEY by_money (money)) ENGINE=TidesDB",
            &format!(
                "INSERT INTO torture.swapped SELECT seq, seq, seq, seq * {FACTOR} + seq, REPEAT('x', 60) FROM torture.seq_0_to_{}",
                ROWS - 1
            ),
            &format!("INSERT INTO torture.balance SELECT seq, {MONEY} FROM torture.seq_0_to_{}", ACCOUNTS - 1),
        ],
    )
}

fn write(
    session: &mut Session,
    stop: &AtomicBool,
    number: u64,
    mut random: StdRng,
    done: &AtomicU64,
    refused: &AtomicU64,
) -> Answer<()> {
    // Pairs of this writer that are there.
    let mut pairs: BTreeSet<i64> = BTreeSet::new();
    while !stop.load(Ordering::Relaxed) {
        let roll_back = random.random_bool(0.1);
        let mut changed = pairs.clone();
        let result = match random.random_range(0..4) {
            0 => swap(session, &mut random, false),
            1 => swap(session, &mut random, true),
            2 => transfer(session, &mut random),
            _ => pair(session, &mut random, number, &mut changed),
        };
        match result {
            Ok(()) if roll_back => {
                session.run("ROLLBACK")?;
            }
            Ok(()) => {
                session.run("COMMIT")?;
                pairs = changed;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(failure) if failure.is_conflict() => {
                refused.fetch_add(1, Ordering::Relaxed);
                session.run("ROLLBACK")?;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Two different numbers below `bound`, in order: locking in order never deadlocks.
fn two(random: &mut StdRng, bound: i64) -> (i64, i64) {
    let a = random.random_range(0..bound - 1);
    (a, random.random_range(a + 1..bound))
}

/// Exchanges k, or the unique u, of two rows.
fn swap(session: &mut Session, random: &mut StdRng, unique: bool) -> Answer<()> {
    let (a, b) = two(random, ROWS);
    session.run("BEGIN")?;
    let of = |id| format!("SELECT k, u FROM torture.swapped WHERE id = {id} FOR UPDATE");
    let (row_a, row_b) = (session.numbers(&of(a))?, session.numbers(&of(b))?);
    let (Some(row_a), Some(row_b)) = (row_a.first(), row_b.first()) else {
        return Err(Failure::Sql { code: 0, message: format!("row {a} or {b} is not there") });
    };
    if unique {
        session.run(&format!("UPDATE torture.swapped SET u = -1 - {} WHERE id = {a}", row_a[1]))?;
        session.run(&format!("UPDATE torture.swapped SET u = {} WHERE id = {b}", row_a[1]))?;
        session.run(&format!("UPDATE torture.swapped SET u = {} WHERE id = {a}", row_b[1]))?;
    } else {
        for (id, k) in [(a, row_b[0]), (b, row_a[0])] {
            let v = id * FACTOR + k;
            session.run(&format!("UPDATE torture.swapped SET k = {k}, v = {v} WHERE id = {id}"))?;
        }
    }
    Ok(())
}

fn transfer(session: &mut Session, random: &mut StdRng) -> Answer<()> {
    let (a, b) = two(random, ACCOUNTS);
    let amount = random.random_range(-20..=20);
    session.run("BEGIN")?;
    session.run(&format!("UPDATE torture.balance SET money = money - {amount} WHERE id = {a}"))?;
    session.run(&format!("UPDATE torture.balance SET money = money + {amount} WHERE id = {b}"))?;
    Ok(())
}

/// Makes the two rows of a pair with one k, or deletes them.
fn pair(session: &mut Session, random: &mut StdRng, writer: u64, pairs: &mut BTreeSet<i64>) -> Answer<()> {
    let writer = i64::try_from(writer).unwrap_or(0);
    let number = random.random_range(0..PAIRS);
    let k = ROWS + number;
    let first = 1_000_000 * (writer + 1) + 2 * number;
    session.run("BEGIN")?;
    if pairs.remove(&number) {
        session.run(&format!("DELETE FROM torture.swapped WHERE id IN ({first}, {})", first + 1))?;
        return Ok(());
    }
    pairs.insert(number);
    for id in [first, first + 1] {
        let v = id * FACTOR + k;
        session
            .run(&format!("INSERT INTO torture.swapped VALUES ({id}, {k}, {id}, {v}, REPEAT('y', 150))"))?;
    }
    Ok(())
}

fn read(
    session: &mut Session,
    stop: &AtomicBool,
    mut random: StdRng,
    done: &AtomicU64,
    complaints: &mut Vec<String>,
) -> Answer<()> {
    while !stop.load(Ordering::Relaxed) && complaints.len() < COMPLAINTS_EACH {
        let level = if random.random_bool(0.5) { "READ COMMITTED" } else { "REPEATABLE READ" };
        session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"))?;
        let complaint = match random.random_range(0..6) {
            0 => range(session, &mut random, "by_k", "k")?,
            1 => range(session, &mut random, "by_u", "u")?,
            2 => point(session, &mut random)?,
            3 => whole_pairs(session, &mut random)?,
            4 => sums(session)?,
            _ => same_in_one_snapshot(session)?,
        };
        complaints.extend(complaint.map(|complaint| format!("{level}: {complaint}")));
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// A range through an index, up or down, covered by it or not: each value once, each row right.
fn range(session: &mut Session, random: &mut StdRng, index: &str, column: &str) -> Answer<Option<String>> {
    let length = if random.random_bool(0.1) { ROWS } else { random.random_range(1..100) };
    let low = random.random_range(0..=ROWS - length);
    let down = random.random_bool(0.5);
    let covered = random.random_bool(0.3);
    let columns = if covered { format!("id, {column}") } else { "id, k, u, v".to_string() };
    let select = format!(
        "SELECT {columns} FROM torture.swapped FORCE INDEX ({index}) WHERE {column} BETWEEN {low} AND {} ORDER BY {column}{}",
        low + length - 1,
        if down { " DESC" } else { "" }
    );
    let rows = session.numbers(&select)?;
    let at = if covered || column == "k" { 1 } else { 2 };
    let mut found: Vec<i64> = rows.iter().map(|row| row[at]).collect();
    if down {
        found.reverse();
    }
    if !found.iter().copied().eq(low..low + length) {
        let missing: Vec<i64> = (low..low + length).filter(|v| !found.contains(v)).collect();
        return Ok(Some(format!("{select}: {} rows of {length}, missing {missing:?}", found.len())));
    }
    if let Some(row) = rows.iter().find(|row| !covered && row[3] != row[0] * FACTOR + row[1]) {
        return Ok(Some(format!("{select}: the row {row:?} is of two versions")));
    }
    Ok(None)
}

fn point(session: &mut Session, random: &mut StdRng) -> Answer<Option<String>> {
    let value = random.random_range(0..ROWS);
    let (column, at) = if random.random_bool(0.5) { ("k", 1) } else { ("u", 2) };
    let select = format!("SELECT id, k, u, v FROM torture.swapped WHERE {column} = {value}");
    let rows = session.numbers(&select)?;
    let right = rows.len() == 1 && rows[0][at] == value && rows[0][3] == rows[0][0] * FACTOR + rows[0][1];
    Ok((!right).then(|| format!("{select}: {rows:?}")))
}

/// Both rows of a pair are there, or none.
fn whole_pairs(session: &mut Session, random: &mut StdRng) -> Answer<Option<String>> {
    let low = ROWS + random.random_range(0..PAIRS - 20);
    let select = format!(
        "SELECT id, k FROM torture.swapped FORCE INDEX (by_k) WHERE k BETWEEN {low} AND {}",
        low + 19
    );
    let rows = session.numbers(&select)?;
    let ids: BTreeSet<i64> = rows.iter().map(|row| row[0]).collect();
    // A pair's first id is even, the other one follows it.
    let alone: Vec<i64> = ids.iter().copied().filter(|id| !ids.contains(&(id ^ 1))).collect();
    let strange = ids.len() != rows.len()
        || rows
            .iter()
            .any(|row| !(low..low + 20).contains(&row[1]) || (row[0] % 1_000_000) / 2 + ROWS != row[1]);
    Ok((strange || !alone.is_empty())
        .then(|| format!("{select}: {rows:?}, without the other half {alone:?}")))
}

/// The sum of all money, by rows and by index, twice in a transaction.
fn sums(session: &mut Session) -> Answer<Option<String>> {
    session.run("BEGIN")?;
    let mut found = Vec::new();
    for index in ["PRIMARY", "by_money", "PRIMARY"] {
        let condition = if index == "PRIMARY" { "id > -1" } else { "money > -1000000" };
        let select = format!(
            "SELECT COUNT(*), SUM(money) FROM torture.balance FORCE INDEX ({index}) WHERE {condition}"
        );
        found.extend(session.numbers(&select)?);
    }
    session.run("COMMIT")?;
    let right = found.iter().all(|row| row == &[ACCOUNTS, ACCOUNTS * MONEY]);
    Ok((!right).then(|| format!("(accounts, money) by rows, by index, by rows: {found:?}")))
}

/// In one snapshot, the rows by primary key and by each index are the same.
fn same_in_one_snapshot(session: &mut Session) -> Answer<Option<String>> {
    session.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
    session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    let mut found = Vec::new();
    for (index, condition) in
        [("PRIMARY", "id > -1"), ("by_k", "k > -1"), ("by_u", "u > -1"), ("PRIMARY", "id > -1")]
    {
        let select = format!(
            "SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS(':', id, k, u, v))) FROM torture.swapped FORCE INDEX ({index}) WHERE {condition}"
        );
        found.extend(session.numbers(&select)?);
    }
    session.run("COMMIT")?;
    let same = found.windows(2).all(|two| two[0] == two[1]);
    Ok((!same).then(|| format!("one snapshot by PRIMARY, by_k, by_u, PRIMARY: {found:?}")))
}
