//! `kill`: a server in FULL is killed with SIGKILL under eight writers and started again, several times
//! on the same data. The first rounds run without a binary log, the others with one.
//!
//! Each writer owns a range of ids and knows exactly its expected rows. It keeps a model here, outside of
//! the server, that takes over a transaction when its COMMIT is answered. Every transaction also writes a
//! row with its token and counts one up in a row shared by all writers. A COMMIT that was sent and not
//! answered is in doubt. The token row decides it, and the writer's rows must then be exactly those
//! before or those after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::agreement::{self, Index};
use tidelab_server::server::settings::{self, BINARY_LOG};
use tidelab_server::server::{program, Server};

use super::killing::{load_until_killed, Killed};
use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

const WRITERS: i64 = 8;
/// Ids of each writer.
const IDS: i64 = 300;
/// Unique names of each writer: more than its rows, few enough that they are used again.
const NAMES: i64 = 400;
/// Rows that all writers count in.
const SHARED: i64 = 16;
/// Tokens of writer w lie above w times this.
const TOKENS: i64 = 1_000_000_000;

/// A row but its id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    grp: Option<i64>,
    name: i64,
    token: i64,
}

impl Account {
    /// The filler: its length and letters follow from the token, so that a row of two
    /// transactions shows.
    fn pad(&self) -> String {
        let letter = char::from(b'a' + u8::try_from(self.token % 26).unwrap_or(0));
        String::from(letter).repeat(usize::try_from(self.token % 1500).unwrap_or(0))
    }
}

type Rows = BTreeMap<i64, Account>;

/// A writer's memory across the rounds.
#[derive(Default)]
struct Writer {
    number: i64,
    /// The next transaction's number.
    next: i64,
    /// Its rows after all acknowledged transactions.
    rows: Rows,
    /// Tokens of those.
    acknowledged: BTreeSet<i64>,
    /// A transaction whose COMMIT was sent and not answered: its token, the rows after it.
    in_doubt: Option<(i64, Rows)>,
    refused: u64,
    complaints: Vec<String>,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { 3 } else { 5 });
    // The last rounds have the binary log: two of five.
    let with_log = rounds.div_ceil(3);
    let mut random = StdRng::seed_from_u64(lab.seed);
    let mut server = lab.start(&settings::checks(false))?;
    make_tables(&server)?;
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|number| Writer { number, ..Writer::default() }).collect();
    let mut complaints = Vec::new();
    let (mut in_doubt, mut happened) = (0, 0);
    let mut logged_from: Option<BTreeSet<i64>> = None;
    for round in 1..=rounds {
        lab.interrupt.check()?;
        let binary_log = round > rounds - with_log;
        if binary_log && logged_from.is_none() {
            server.shut_down()?;
            server.restart(&settings::checks(true), lab.interrupt)?;
            logged_from = Some(tokens(&mut connect(&server)?)?);
        }
        let settings = settings::checks(binary_log);
        // Both lock modes in turn, before the writers begin.
        let pessimistic = format!("SET GLOBAL tidesdb_pessimistic_locking = {}", round % 2);
        set_up(&mut connect(&server)?, &[&pessimistic])?;
        let before: usize = writers.iter().map(|w| w.acknowledged.len()).sum();
        let delay = Duration::from_millis(random.random_range(300..2500));
        load(&mut server, &mut writers, delay, &mut random)?;
        if round % 2 == 0 {
            // In the middle of recovery, once more.
            let delay = Duration::from_millis(random.random_range(100..700));
            server.crash_while_starting(&settings, delay)?;
        }
        let took = server.restart(&settings, lab.interrupt)?;
        let mut session = connect(&server)?;
        let there = tokens(&mut session)?;
        in_doubt += writers.iter().filter(|w| w.in_doubt.is_some()).count();
        let mut wrong = Vec::new();
        for writer in &mut writers {
            happened += u32::from(writer.in_doubt.as_ref().is_some_and(|(token, _)| there.contains(token)));
            writer.settle(&there, &mut session)?;
            wrong.append(&mut writer.complaints);
        }
        wrong.extend(strangers(&writers, &there));
        let counted = must("sum", session.number("SELECT SUM(n) FROM torture.shared"))?;
        if usize::try_from(counted) != Ok(there.len()) {
            wrong.push(format!("the shared rows count {counted}, there are {} tokens", there.len()));
        }
        for (table, columns, indexes) in TABLES {
            wrong.extend(must("agree", agreement::complaints(&mut session, table, columns, indexes))?);
        }
        if let Some(earlier) = &logged_from {
            wrong.extend(compare_binary_log(lab, &server, there.difference(earlier).copied().collect())?);
        }
        let acknowledged: usize = writers.iter().map(|w| w.acknowledged.len()).sum();
        progress(
            Check::Kill,
            &format!(
                "round {round} of {rounds}{}: {} transactions, killed after {} ms, up again in {:.1} s, {} wrong",
                if binary_log { " (binary log)" } else { "" },
                acknowledged - before,
                delay.as_millis(),
                took.as_secs_f64(),
                wrong.len()
            ),
        );
        complaints.extend(wrong.into_iter().map(|complaint| format!("round {round}: {complaint}")));
        if !complaints.is_empty() {
            // The rest would fail for the same reason, and the evidence is fresh.
            break;
        }
    }
    let acknowledged: usize = writers.iter().map(|w| w.acknowledged.len()).sum();
    let refused: u64 = writers.iter().map(|w| w.refused).sum();
    if acknowledged == 0 {
        complaints.push("no transaction was acknowledged".to_string());
    }
    let summary = format!(
        "{rounds} kills, {acknowledged} acknowledged transactions, {refused} refused, {in_doubt} in doubt of which {happened} happened"
    );
    conclude(server, summary, complaints)
}

const TABLES: [(&str, &str, &[Index]); 2] = [
    (
        "torture.account",
        "id, COALESCE(grp, 'NULL'), name, token",
        &[
            Index { name: "by_grp", all_rows: "(grp IS NULL OR grp > -1)" },
            Index { name: "by_name", all_rows: "name > ''" },
            Index { name: "by_token", all_rows: "token > -1" },
        ],
    ),
    ("torture.token", "token, writer", &[Index { name: "by_writer", all_rows: "writer > -1" }]),
];

fn make_tables(server: &Server) -> Result<()> {
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            "CREATE DATABASE torture",
            "CREATE TABLE torture.account (id BIGINT PRIMARY KEY, grp INT, name VARCHAR(40) NOT NULL,
               token BIGINT NOT NULL, pad TEXT NOT NULL, KEY by_grp (grp), UNIQUE KEY by_name (name),
               KEY by_token (token, grp)) ENGINE=TidesDB",
            "CREATE TABLE torture.token (token BIGINT PRIMARY KEY, writer INT NOT NULL, KEY by_writer (writer))
               ENGINE=TidesDB",
            "CREATE TABLE torture.shared (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=TidesDB",
            &format!("INSERT INTO torture.shared SELECT seq, 0 FROM torture.seq_0_to_{}", SHARED - 1),
        ],
    )
}

fn tokens(session: &mut Session) -> Result<BTreeSet<i64>> {
    let rows = must("read the tokens", session.numbers("SELECT token FROM torture.token"))?;
    Ok(rows.into_iter().flatten().collect())
}

/// Puts all writers on the server and kills it after a while.
fn load(server: &mut Server, writers: &mut [Writer], delay: Duration, random: &mut StdRng) -> Result<()> {
    let socket = server.socket().to_path_buf();
    let clients = writers.iter_mut().map(|writer| {
        let (socket, random) = (&socket, StdRng::seed_from_u64(random.random()));
        move |killed: &Killed| {
            if let Some(failure) = killed.unexplained(writer.work(socket, random)) {
                writer.complaints.push(format!("writer {}: {failure}", writer.number));
            }
        }
    });
    load_until_killed(server, delay, clients)
}

impl Writer {
    /// Runs transactions until the server is gone.
    fn work(&mut self, socket: &std::path::Path, mut random: StdRng) -> std::result::Result<(), Failure> {
        let mut session = Session::open(socket)?;
        loop {
            self.next += 1;
            let token = self.number * TOKENS + self.next;
            let (statements, after) = self.transaction(token, &mut random);
            match execute(&mut session, &statements) {
                Ok(()) => {}
                Err(failure) if failure.is_conflict() => {
                    self.refused += 1;
                    session.run("ROLLBACK")?;
                    continue;
                }
                Err(failure) => return Err(failure),
            }
            if random.random_bool(0.05) {
                session.run("ROLLBACK")?;
                continue;
            }
            self.in_doubt = Some((token, after));
            session.run("COMMIT")?;
            if let Some((token, rows)) = self.in_doubt.take() {
                self.acknowledged.insert(token);
                self.rows = rows;
            }
        }
    }

    /// The statements of a transaction but COMMIT, and this writer's rows after it.
    fn transaction(&self, token: i64, random: &mut StdRng) -> (Vec<String>, Rows) {
        let mut rows = self.rows.clone();
        let mut statements = vec![
            "BEGIN".to_string(),
            // First, while no lock is held: to wait here is never a deadlock.
            format!("UPDATE torture.shared SET n = n + 1 WHERE id = {}", random.random_range(0..SHARED)),
        ];
        let insert_token = format!("INSERT INTO torture.token VALUES ({token}, {})", self.number);
        let changes = random.random_range(1..=6);
        let token_at = random.random_range(0..changes);
        for change in 0..changes {
            if change == token_at {
                statements.push(insert_token.clone());
            }
            let id = self.number * TOKENS + random.random_range(0..IDS);
            let grp = random.random_bool(0.9).then(|| random.random_range(0..50));
            let mut name = random.random_range(0..NAMES);
            while rows.iter().any(|(other, row)| *other != id && row.name == name) {
                name = (name + 1) % NAMES;
            }
            let account = Account { grp, name, token };
            if rows.get(&id) == Some(&account) {
                // The same row twice by chance: an UPDATE that changes nothing is answered with 0 rows.
                continue;
            }
            let grp_text = grp.map_or("NULL".to_string(), |g| g.to_string());
            let name_text = format!("w{}-{name}", self.number);
            let pad = account.pad();
            let there = rows.contains_key(&id);
            if there && random.random_bool(0.3) {
                statements.push(format!("DELETE FROM torture.account WHERE id = {id}"));
                rows.remove(&id);
                continue;
            }
            statements.push(if there {
                format!(
                    "UPDATE torture.account SET grp = {grp_text}, name = '{name_text}', token = {token}, pad = '{pad}' WHERE id = {id}"
                )
            } else {
                format!("INSERT INTO torture.account VALUES ({id}, {grp_text}, '{name_text}', {token}, '{pad}')")
            });
            rows.insert(id, account);
        }
        (statements, rows)
    }

    /// After a restart: compares with the real rows, and goes on from them.
    fn settle(&mut self, there: &BTreeSet<i64>, session: &mut Session) -> Result<()> {
        let lost: Vec<i64> = self.acknowledged.difference(there).copied().collect();
        if !lost.is_empty() {
            self.complaints.push(format!(
                "writer {}: {} acknowledged transactions are lost, the first {}, the last {} of {}",
                self.number,
                lost.len(),
                lost[0] - self.number * TOKENS,
                lost[lost.len() - 1] - self.number * TOKENS,
                self.next
            ));
        }
        if let Some((token, rows)) = self.in_doubt.take() {
            if there.contains(&token) {
                self.acknowledged.insert(token);
                self.rows = rows;
            }
        }
        let low = self.number * TOKENS;
        let select = format!(
            "SELECT id, grp, name, token, pad FROM torture.account WHERE id BETWEEN {low} AND {}",
            low + TOKENS - 1
        );
        let mut found = must(&select, session.rows(&select))?;
        let expected: BTreeMap<String, [String; 4]> = self
            .rows
            .iter()
            .map(|(id, row)| {
                let grp = row.grp.map_or("NULL".to_string(), |g| g.to_string());
                let name = format!("w{}-{}", self.number, row.name);
                (id.to_string(), [grp, name, row.token.to_string(), row.pad()])
            })
            .collect();
        if found.len() != expected.len() {
            self.complaints.push(format!(
                "writer {}: {} rows are there, {} must be",
                self.number,
                found.len(),
                expected.len()
            ));
        }
        for row in &mut found {
            let id = row.remove(0);
            let must_be = expected.get(&id);
            if must_be.is_none_or(|must_be| row.as_slice() != must_be) {
                self.complaints.push(format!(
                    "writer {}: row {id} is {}, must be {}",
                    self.number,
                    picture(row),
                    must_be.map_or("none".to_string(), |columns| picture(columns))
                ));
            }
        }
        Ok(())
    }
}

/// A row's columns, the filler as its length.
fn picture(columns: &[String]) -> String {
    match columns {
        [columns @ .., pad] => format!("({}, {} bytes)", columns.join(", "), pad.len()),
        [] => "()".to_string(),
    }
}

fn execute(session: &mut Session, statements: &[String]) -> std::result::Result<(), Failure> {
    for statement in statements {
        let changed = session.run(statement)?;
        if statement != "BEGIN" && changed != 1 {
            return Err(Failure::Sql { code: 0, message: format!("{statement}: changed {changed} rows") });
        }
    }
    Ok(())
}

/// Tokens of no committed transaction.
fn strangers(writers: &[Writer], there: &BTreeSet<i64>) -> Vec<String> {
    let known = |token: &i64| writers.iter().any(|w| w.acknowledged.contains(token));
    there
        .iter()
        .filter(|token| !known(token))
        .map(|token| format!("token {token} is there, its COMMIT was never sent"))
        .collect()
}

/// The tokens that the binary log has against those that came into the table since it began.
fn compare_binary_log(lab: &Lab<'_>, server: &Server, table: BTreeSet<i64>) -> Result<Vec<String>> {
    let data = server.directory().join("data");
    let mut files: Vec<_> = fs::read_dir(&data)
        .map_err(io_error("cannot read", &data))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_stem().is_some_and(|stem| stem == BINARY_LOG)
                && path.extension().is_some_and(|number| number.to_string_lossy().parse::<u32>().is_ok())
        })
        .collect();
    files.sort();
    let reader = program(lab.prefix, "mariadb-binlog")?;
    let mut log = BTreeSet::new();
    // One by one: a group that a kill cut off at the end of a file has the GTID of the next file's first.
    for file in &files {
        let output = Command::new(&reader)
            .args(["--no-defaults", "--base64-output=decode-rows", "--verbose"])
            .arg(file)
            .stdin(Stdio::null())
            .output()
            .map_err(io_error("cannot run", &reader))?;
        if !output.status.success() {
            return Err(Error::Load {
                what: format!("mariadb-binlog on {}", file.display()),
                message: String::from_utf8_lossy(&output.stderr).trim().to_string(),
            });
        }
        log.extend(tokens_of_binary_log(&String::from_utf8_lossy(&output.stdout)));
    }
    let mut complaints = Vec::new();
    for (what, tokens) in [
        ("in the binary log and not in the table", log.difference(&table).collect::<Vec<_>>()),
        ("in the table and not in the binary log", table.difference(&log).collect()),
    ] {
        if let Some(first) = tokens.first() {
            complaints.push(format!("{} transactions are {what}, the first {first}", tokens.len()));
        }
    }
    Ok(complaints)
}

/// The first column of each row that the decoded log inserts into the table of tokens, for transactions
/// that are complete. A group that the kill cut off has rows and no end: recovery rolls it back, replicas
/// never apply it.
fn tokens_of_binary_log(text: &str) -> BTreeSet<i64> {
    let mut of_token = false;
    let mut of_group = Vec::new();
    let mut tokens = BTreeSet::new();
    for line in text.lines() {
        let Some(line) = line.strip_prefix("### ") else {
            if line.starts_with("COMMIT") {
                tokens.extend(of_group.drain(..));
            } else if line.starts_with("START TRANSACTION") || line.starts_with("BEGIN") {
                of_group.clear();
            }
            continue;
        };
        if !line.starts_with(' ') && line != "SET" {
            of_token = line == "INSERT INTO `torture`.`token`";
        } else if let Some(value) = line.trim_start().strip_prefix("@1=").filter(|_| of_token) {
            of_group.extend(value.split(' ').next().and_then(|v| v.parse::<i64>().ok()));
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id of a statement's row, and the row afterwards; none for a DELETE.
    fn written(statement: &str) -> Option<(String, String)> {
        if let Some(values) = statement.strip_prefix("INSERT INTO torture.account VALUES (") {
            let (id, columns) = values.strip_suffix(')')?.split_once(", ")?;
            return Some((id.to_string(), columns.to_string()));
        }
        let (change, id) = statement.split_once(" WHERE id = ")?;
        let columns = change.strip_prefix("UPDATE torture.account SET ").unwrap_or_default();
        let columns: Vec<&str> =
            columns.split(", ").filter_map(|set| Some(set.split_once(" = ")?.1)).collect();
        (!change.contains("shared")).then(|| (id.to_string(), columns.join(", ")))
    }

    #[test]
    fn every_statement_changes_a_row() {
        // In this order of choices the 250th transaction draws the same values for a row twice.
        let mut random = StdRng::seed_from_u64(1_795_396_039);
        let _ = random.random_range(300..2500_u64);
        let seeds: Vec<u64> = (0..4).map(|_| random.random()).collect();
        let mut random = StdRng::seed_from_u64(seeds[3]);
        let mut writer = Writer { number: 3, ..Writer::default() };
        for token in 3 * TOKENS + 1..3 * TOKENS + 2_000 {
            let (statements, after) = writer.transaction(token, &mut random);
            let mut there = BTreeMap::new();
            for (id, columns) in statements.iter().filter_map(|statement| written(statement)) {
                let before = there.insert(id, columns.clone());
                assert_ne!(before, Some(columns), "{statements:?}");
            }
            if !random.random_bool(0.05) {
                writer.rows = after;
            }
        }
    }

    #[test]
    fn tokens_are_read_from_a_decoded_log() {
        let text =
            "START TRANSACTION\n### UPDATE `torture`.`shared`\n### WHERE\n###   @1=3\n### SET\n###   @1=3\n\
                    ### INSERT INTO `torture`.`token`\n### SET\n###   @1=2000000017\n###   @2=2\n\
                    ### INSERT INTO `torture`.`account`\n### SET\n###   @1=5\n\
                    #700101  0:00:00 server id 1  end_log_pos 7221 \tXid = 9\nCOMMIT/*!*/;\n";
        assert_eq!(tokens_of_binary_log(text), BTreeSet::from([2_000_000_017]));
    }

    #[test]
    fn a_group_without_its_end_was_not_committed() {
        let rows = |token| {
            format!(
                "START TRANSACTION\n/*!*/;\n### INSERT INTO `torture`.`token`\n### SET\n###   @1={token}\n"
            )
        };
        // As at a kill: cut off; the next file goes on with another transaction.
        let text = format!(
            "{}DELIMITER ;\n{}COMMIT/*!*/;\n{}ROLLBACK /* added by mysqlbinlog */;\n",
            rows(1),
            rows(2),
            rows(3)
        );
        assert_eq!(tokens_of_binary_log(&text), BTreeSet::from([2]));
    }

    #[test]
    fn a_transaction_never_uses_a_name_twice() {
        let mut random = StdRng::seed_from_u64(1);
        let mut writer = Writer { number: 1, ..Writer::default() };
        for token in 1..500 {
            let (statements, rows) = writer.transaction(token, &mut random);
            let names: BTreeSet<i64> = rows.values().map(|row| row.name).collect();
            assert_eq!(names.len(), rows.len());
            assert!(statements.iter().any(|s| s.contains("torture.token")));
            writer.rows = rows;
        }
        assert!(writer.rows.len() > 100);
    }
}
