//! The writers of the primary: transactions over tables of all kinds, until told to end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread::{self, Scope};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;
use tidelab_server::server::engine::Engine;

use super::super::session::{Failure, Session};
use super::super::set_up;

const WRITERS: u64 = 8;
/// Ids of each writer in `account`.
const IDS: i64 = 200;
/// Counter rows shared by all writers.
const SHARED: i64 = 16;
/// Values of the search column in the table without a key.
const GROUPS: i64 = 40;
/// Rows of `article`, and its words: few, so that most changes meet others.
const ARTICLES: i64 = 120;
const WORDS: [&str; 12] = [
    "amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heath", "islet", "jetty", "knoll",
    "ledge",
];
/// A writer's rest after a transaction: the replica, with half of the machine, must keep up.
const REST: Duration = Duration::from_millis(2);

/// Makes the tables, and the account of the replica.
pub(super) fn make_tables(session: &mut Session, engine: Engine) -> Result<()> {
    let engine = engine.name();
    set_up(
        session,
        &[
            "CREATE USER follower@'127.0.0.1' IDENTIFIED BY 'follows'",
            "GRANT REPLICATION SLAVE ON *.* TO follower@'127.0.0.1'",
            "CREATE DATABASE torture",
            &format!(
                "CREATE TABLE torture.account (id BIGINT PRIMARY KEY, grp INT, name VARCHAR(40) NOT NULL,
                   token BIGINT NOT NULL, pad TEXT NOT NULL, KEY by_grp (grp), UNIQUE KEY by_name (name))
                   ENGINE={engine}"
            ),
            &format!(
                "CREATE TABLE torture.bare (a INT, b BIGINT, c VARCHAR(100), KEY by_a (a)) ENGINE={engine}"
            ),
            &format!(
                "CREATE TABLE torture.journal (n BIGINT AUTO_INCREMENT PRIMARY KEY, writer INT NOT NULL,
                   what BLOB, KEY by_writer (writer)) ENGINE={engine}"
            ),
            &format!(
                "CREATE TABLE torture.article (id BIGINT PRIMARY KEY, body VARCHAR(200) NOT NULL, hits INT NOT NULL,
                   FULLTEXT KEY words (body)) ENGINE={engine}"
            ),
            &format!("CREATE TABLE torture.shared (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE={engine}"),
            "CREATE TABLE torture.twin_tidesdb (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=TidesDB",
            "CREATE TABLE torture.twin_innodb (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB",
            &format!("INSERT INTO torture.shared SELECT seq, 0 FROM torture.seq_0_to_{}", SHARED - 1),
            "INSERT INTO torture.twin_tidesdb SELECT * FROM torture.shared",
            "INSERT INTO torture.twin_innodb SELECT * FROM torture.shared",
        ],
    )
}

/// The writers and their results.
pub(super) struct Load {
    socket: PathBuf,
    seed: u64,
    by_match: bool,
    changed_by_match: AtomicU64,
    stop: AtomicBool,
    commits: AtomicU64,
    refused: AtomicU64,
    complaints: Mutex<Vec<String>>,
}

/// Ends the writers when it goes.
pub(super) struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// `by_match`: statements with MATCH, in all formats of the binary log.
    pub(super) fn new(socket: &Path, seed: u64, by_match: bool) -> Load {
        Load {
            socket: socket.to_path_buf(),
            seed,
            by_match,
            changed_by_match: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            complaints: Mutex::default(),
        }
    }

    /// Puts the writers on the server, until the answer is dropped.
    pub(super) fn start<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) -> Ends<'env> {
        for number in 0..WRITERS {
            scope.spawn(move || {
                let random = StdRng::seed_from_u64(self.seed.wrapping_add(number));
                if let Err(failure) = self.work(number, random) {
                    self.complain(format!("writer {number}: {failure}"));
                }
            });
        }
        Ends(&self.stop)
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Rows that statements with MATCH have changed.
    pub(super) fn changed_by_match(&self) -> u64 {
        self.changed_by_match.load(Ordering::Relaxed)
    }

    /// Complaints about an idle load.
    pub(super) fn idle(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.commits() == 0 {
            complaints.push("no transaction was committed".to_string());
        }
        if self.by_match && self.changed_by_match() == 0 {
            complaints.push("no row was changed by MATCH".to_string());
        }
        complaints
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn complaints(&self) -> Vec<String> {
        self.complaints.lock().map(|complaints| complaints.clone()).unwrap_or_default()
    }

    fn complain(&self, text: String) {
        if let Ok(mut complaints) = self.complaints.lock() {
            complaints.push(text);
        }
    }

    fn work(&self, number: u64, mut random: StdRng) -> std::result::Result<(), Failure> {
        let mut session = Session::open(&self.socket)?;
        let mut token = 0;
        while !self.stop.load(Ordering::Relaxed) {
            token += 1;
            let statements = if random.random_bool(0.05) {
                articles(self.by_match, &mut random)
            } else {
                transaction(number as i64, token, &mut random)
            };
            let mut by_match = 0;
            let done: std::result::Result<(), Failure> = statements.iter().try_for_each(|statement| {
                let rows = session.run(statement)?;
                by_match += if statement.contains("MATCH") { rows } else { 0 };
                Ok(())
            });
            match done {
                Ok(()) => {
                    self.commits.fetch_add(1, Ordering::Relaxed);
                    self.changed_by_match.fetch_add(by_match, Ordering::Relaxed);
                }
                Err(failure) if failure.is_conflict() => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    session.run("ROLLBACK")?;
                    session.run("SET SESSION binlog_format = ROW")?;
                }
                Err(failure) => return Err(failure),
            }
            thread::sleep(REST);
        }
        Ok(())
    }
}

/// The statements of a transaction.
fn transaction(writer: i64, token: i64, random: &mut StdRng) -> Vec<String> {
    if random.random_bool(0.2) {
        // Autocommit.
        return vec![change(writer, token, random)];
    }
    let row = random.random_range(0..SHARED);
    let mut statements = vec!["BEGIN".to_string()];
    if random.random_bool(0.5) {
        statements.push(format!("UPDATE torture.shared SET n = n + 1 WHERE id = {row}"));
    }
    for _ in 0..random.random_range(1..=5) {
        statements.push(change(writer, token, random));
    }
    if random.random_bool(0.2) {
        for twin in ["twin_tidesdb", "twin_innodb"] {
            statements.push(format!("UPDATE torture.{twin} SET n = n + {token} WHERE id = {row}"));
        }
    }
    statements.push(if random.random_bool(0.05) { "ROLLBACK" } else { "COMMIT" }.to_string());
    statements
}

/// A transaction over `article`, in a format of the binary log of its own.
fn articles(by_match: bool, random: &mut StdRng) -> Vec<String> {
    let formats = if by_match { &["STATEMENT", "STATEMENT", "MIXED", "ROW"][..] } else { &["ROW"] };
    let format = formats[random.random_range(0..formats.len())];
    let mut statements = vec![format!("SET SESSION binlog_format = {format}"), "BEGIN".to_string()];
    for _ in 0..random.random_range(1..=3) {
        statements.push(article(by_match, random));
    }
    statements.push(if random.random_bool(0.1) { "ROLLBACK" } else { "COMMIT" }.to_string());
    statements.push("SET SESSION binlog_format = ROW".to_string());
    statements
}

fn article(by_match: bool, random: &mut StdRng) -> String {
    let mut word = || WORDS[random.random_range(0..WORDS.len())];
    let (one, two) = (word(), word());
    let body: Vec<&str> = (0..4).map(|_| word()).collect();
    let body = body.join(" ");
    let id = random.random_range(0..ARTICLES);
    let natural = format!("MATCH (body) AGAINST ('{one}')");
    let boolean = format!("MATCH (body) AGAINST ('+{one} -{two}' IN BOOLEAN MODE)");
    match random.random_range(0..10) {
        0 if by_match => format!("UPDATE torture.article SET hits = hits + 1 WHERE {natural}"),
        1 if by_match => format!("UPDATE torture.article SET hits = hits + 1 WHERE {boolean} AND hits < 9"),
        2 if by_match => {
            format!("UPDATE torture.article SET body = CONCAT(LEFT(body, 60), ' {two}') WHERE {boolean} AND id % 5 = 0")
        }
        3 if by_match => format!("DELETE FROM torture.article WHERE {boolean} AND id % 7 = 0"),
        4 if by_match => {
            format!(
                "DELETE FROM torture.article WHERE MATCH (body) AGAINST ('\"{one} {two}\"' IN BOOLEAN MODE)"
            )
        }
        5 => format!("DELETE FROM torture.article WHERE id = {id}"),
        _ => format!("REPLACE INTO torture.article VALUES ({id}, '{body}', 0)"),
    }
}

fn change(writer: i64, token: i64, random: &mut StdRng) -> String {
    let id = writer * IDS + random.random_range(0..IDS);
    let group = random.random_range(0..GROUPS);
    let letter = char::from(b'a' + u8::try_from(token % 26).unwrap_or(0));
    let pad = String::from(letter).repeat(random.random_range(0..600));
    match random.random_range(0..10) {
        0..=3 => format!(
            "REPLACE INTO torture.account VALUES ({id}, {}, 'n{id}-{}', {token}, '{pad}')",
            if group == 0 { "NULL".to_string() } else { group.to_string() },
            token % 3
        ),
        4 => format!("UPDATE torture.account SET grp = {group}, token = token + 1 WHERE id = {id}"),
        5 => format!("DELETE FROM torture.account WHERE id = {id}"),
        6 => format!(
            "INSERT INTO torture.bare VALUES ({group}, {token}, '{writer}'), ({group}, {token}, '{writer}')"
        ),
        7 => format!("UPDATE torture.bare SET b = b + 1 WHERE a = {group} LIMIT 3"),
        8 if token % 2 == 0 => format!("DELETE FROM torture.bare WHERE a = {group} LIMIT 4"),
        _ => {
            format!("INSERT INTO torture.journal (writer, what) VALUES ({writer}, '{pad}'), ({writer}, NULL)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_begins_and_ends_or_is_one_statement() {
        let mut random = StdRng::seed_from_u64(1);
        let mut twins = 0;
        for token in 1..500 {
            let statements = transaction(3, token, &mut random);
            match statements.as_slice() {
                [only] => assert!(only.contains("torture.")),
                [first, .., last] => {
                    assert_eq!(first, "BEGIN");
                    assert!(last == "COMMIT" || last == "ROLLBACK");
                }
                [] => panic!("no statement"),
            }
            let of = |twin: &str| statements.iter().filter(|s| s.contains(twin)).count();
            assert_eq!(of("twin_tidesdb"), of("twin_innodb"));
            twins += of("twin_innodb");
        }
        assert!(twins > 20);
    }
}
