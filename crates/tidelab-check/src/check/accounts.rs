//! Writers with an exact model of their rows, for checks that kill a server under load.
//!
//! Each writer owns a range of ids. Its model, kept outside of the server, takes over a transaction when its
//! COMMIT is answered. Every transaction also writes a row with its token and counts one up in a row shared
//! by all writers. A COMMIT sent and not answered is in doubt. The token row decides it, and the writer's
//! rows must then be exactly those before or those after it.
//!
//! Words of a row's filler name it: statements find some rows by MATCH, and after a restart all of them are found so.
//!
//! With InnoDB, every second transaction writes its token into one of its tables, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::RngExt;
use tidelab_server::error::Result;
use tidelab_server::server::agreement::{self, Index};
use tidelab_server::server::Server;

use super::session::{Address, Failure, Session};
use super::{connect, must, set_up};

/// Writers of a check.
pub(super) const WRITERS: i64 = 8;
/// Ids of each writer.
const IDS: i64 = 300;
/// Unique names of each writer: more than its rows, few enough to be used again.
const NAMES: i64 = 400;
/// Counter rows shared by all writers.
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
    /// The filler: its length and letters follow from the token, so a row of two transactions shows. Before
    /// them stand words of its writer: one of the row, one of the transaction.
    fn pad(&self) -> String {
        let letter = char::from(b'a' + u8::try_from(self.token % 26).unwrap_or(0));
        let letters = String::from(letter).repeat(usize::try_from(self.token % 1500).unwrap_or(0));
        format!("{} token{} {letters}", word_of(self.token / TOKENS, self.name), self.token)
    }

    /// The condition on the row with this id: some rows are found by their words.
    fn place(&self, id: i64, token: i64) -> String {
        if (id + token) % 4 != 0 {
            return format!("id = {id}");
        }
        let word = word_of(self.token / TOKENS, self.name);
        // (The key itself would be a better way.)
        format!("MATCH (pad) AGAINST ('+{word} +token{}' IN BOOLEAN MODE) AND id + 0 = {id}", self.token)
    }
}

/// The word of a writer's row with this name.
fn word_of(writer: i64, name: i64) -> String {
    format!("w{writer}n{name}")
}

type Rows = BTreeMap<i64, Account>;

/// The behaviour of writers.
#[derive(Clone, Copy)]
pub(super) struct Conduct<'a> {
    /// When it is true, they end after their transaction.
    pub(super) stop: &'a AtomicBool,
    /// Errors are part of the check: they are noted, and the writer goes on.
    pub(super) faults: bool,
    /// InnoDB takes part.
    pub(super) innodb: bool,
    /// No answer takes longer.
    pub(super) limit: Duration,
}

/// A writer's memory across the rounds.
#[derive(Default)]
pub(super) struct Writer {
    number: i64,
    /// The next transaction's number.
    next: i64,
    /// Its rows after all acknowledged transactions.
    rows: Rows,
    /// Tokens of those.
    pub(super) acknowledged: BTreeSet<i64>,
    /// A transaction whose COMMIT was sent and not answered: its token, the rows after it.
    in_doubt: Option<(i64, Rows)>,
    pub(super) refused: u64,
    /// Answers to failed transactions, by token.
    pub(super) failed: BTreeMap<i64, String>,
    pub(super) complaints: Vec<String>,
}

/// Parts of answers that leave a COMMIT's outcome open: the store's after a failure of its log, and the
/// server's when its binary log failed, also at a rotation after the commit ("Can't sync file
/// './binlog.000025'").
const OUTCOME_UNKNOWN: [&str; 2] = ["known only after a restart", "binlog"];

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

/// Makes the tables of the writers.
pub(super) fn make_tables(server: &Server) -> Result<()> {
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            "CREATE DATABASE torture",
            "CREATE TABLE torture.account (id BIGINT PRIMARY KEY, grp INT, name VARCHAR(40) NOT NULL,
               token BIGINT NOT NULL, pad TEXT NOT NULL, KEY by_grp (grp), UNIQUE KEY by_name (name),
               KEY by_token (token, grp), FULLTEXT KEY by_word (pad)) ENGINE=TidesDB",
            "CREATE TABLE torture.token (token BIGINT PRIMARY KEY, writer INT NOT NULL, KEY by_writer (writer))
               ENGINE=TidesDB",
            "CREATE TABLE torture.elsewhere (token BIGINT PRIMARY KEY, writer INT NOT NULL, pad TEXT NOT NULL,
               KEY by_writer (writer)) ENGINE=InnoDB",
            "CREATE TABLE torture.shared (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=TidesDB",
            &format!("INSERT INTO torture.shared SELECT seq, 0 FROM torture.seq_0_to_{}", SHARED - 1),
        ],
    )
}

/// Tokens of the stored transactions.
pub(super) fn tokens(session: &mut Session) -> Result<BTreeSet<i64>> {
    let rows = must("read the tokens", session.numbers("SELECT token FROM torture.token"))?;
    Ok(rows.into_iter().flatten().collect())
}

/// The writers of a check.
pub(super) fn writers() -> Vec<Writer> {
    (0..WRITERS).map(|number| Writer { number, ..Writer::default() }).collect()
}

/// Counts of acknowledged and of refused transactions, of all writers.
pub(super) fn done(writers: &[Writer]) -> (usize, u64) {
    (writers.iter().map(|w| w.acknowledged.len()).sum(), writers.iter().map(|w| w.refused).sum())
}

impl Writer {
    /// Runs transactions until it shall stop or the server is gone. With faults it also ends at a COMMIT whose outcome
    /// only a restart knows: its rows are not known before.
    pub(super) fn work(
        &mut self,
        socket: &Path,
        mut random: StdRng,
        conduct: Conduct<'_>,
    ) -> std::result::Result<(), Failure> {
        let mut session = Session::connect(&Address::root(socket), conduct.limit)?;
        while !conduct.stop.load(Ordering::SeqCst) && self.in_doubt.is_none() {
            self.next += 1;
            let token = self.number * TOKENS + self.next;
            let (mut statements, after) = self.transaction(token, &mut random);
            if conduct.innodb && in_innodb(token) {
                let row = format!("({token}, {}, '{}')", self.number, self.pad_of(token));
                let at = random.random_range(1..=statements.len());
                statements.insert(at, format!("INSERT INTO torture.elsewhere VALUES {row}"));
            }
            match execute(&mut session, &statements) {
                Ok(()) => {}
                Err(failure) if failure.is_conflict() => {
                    self.refused += 1;
                    self.roll_back(&mut session, conduct)?;
                    continue;
                }
                Err(failure) => {
                    self.fail(token, failure, conduct)?;
                    self.roll_back(&mut session, conduct)?;
                    continue;
                }
            }
            if random.random_bool(0.05) {
                self.roll_back(&mut session, conduct)?;
                continue;
            }
            self.in_doubt = Some((token, after));
            match session.run("COMMIT") {
                Ok(_) => {
                    if let Some((token, rows)) = self.in_doubt.take() {
                        self.acknowledged.insert(token);
                        self.rows = rows;
                    }
                }
                Err(failure) => {
                    let answer = failure.to_string();
                    let decided = !OUTCOME_UNKNOWN.iter().any(|part| answer.contains(part));
                    self.fail(token, failure, conduct)?;
                    if decided {
                        self.in_doubt = None;
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes an error where errors are part of the check. A wrong number of changed rows is no such error.
    fn fail(
        &mut self,
        token: i64,
        failure: Failure,
        conduct: Conduct<'_>,
    ) -> std::result::Result<(), Failure> {
        match failure {
            Failure::Sql { code, message } if conduct.faults && code != 0 => {
                self.failed.insert(token, format!("error {code} ({message})"));
                // A store that refuses everything shall not be asked all the time.
                thread::sleep(Duration::from_millis(5));
                Ok(())
            }
            failure => Err(failure),
        }
    }

    fn roll_back(&self, session: &mut Session, conduct: Conduct<'_>) -> std::result::Result<(), Failure> {
        match session.run("ROLLBACK") {
            Err(Failure::Sql { .. }) if conduct.faults => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// The token of a COMMIT without a deciding answer.
    pub(super) fn in_doubt(&self) -> Option<i64> {
        self.in_doubt.as_ref().map(|(token, _)| *token)
    }

    /// Notes an unexplained error.
    pub(super) fn complain(&mut self, failure: &Failure) {
        self.complaints.push(format!("writer {}: {failure}", self.number));
    }

    fn pad_of(&self, token: i64) -> String {
        Account { grp: None, name: 0, token }.pad()
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
            let place = rows.get(&id).map(|row| row.place(id, token));
            if let Some(place) = place.as_ref().filter(|_| random.random_bool(0.3)) {
                statements.push(format!("DELETE FROM torture.account WHERE {place}"));
                rows.remove(&id);
                continue;
            }
            statements.push(if let Some(place) = place {
                format!(
                    "UPDATE torture.account SET grp = {grp_text}, name = '{name_text}', token = {token}, pad = '{pad}' WHERE {place}"
                )
            } else {
                format!("INSERT INTO torture.account VALUES ({id}, {grp_text}, '{name_text}', {token}, '{pad}')")
            });
            rows.insert(id, account);
        }
        (statements, rows)
    }

    /// After a restart: compares with the real rows, and goes on from them.
    pub(super) fn settle(&mut self, there: &BTreeSet<i64>, session: &mut Session) -> Result<()> {
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
        self.search(session)
    }

    /// Searches for all words that its rows can have: these are found, once by entries alone, and no others.
    fn search(&mut self, session: &mut Session) -> Result<()> {
        let words: Vec<String> = (0..NAMES).map(|name| word_of(self.number, name)).collect();
        let rows = format!("FROM torture.account WHERE MATCH (pad) AGAINST ('{}')", words.join(" "));
        let count = must("count by words", session.number(&format!("SELECT COUNT(*) {rows}")))?;
        let found = must("search by words", session.numbers(&format!("SELECT id {rows} ORDER BY id")))?;
        let found: Vec<i64> = found.into_iter().flatten().collect();
        if usize::try_from(count) != Ok(found.len()) || !found.iter().eq(self.rows.keys()) {
            self.complaints.push(format!(
                "writer {}: {} rows are found by their words, {count} by entries alone, {} must be",
                self.number,
                found.len(),
                self.rows.len()
            ));
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

/// True if the transaction with this token also changes a table of InnoDB.
fn in_innodb(token: i64) -> bool {
    token % 2 == 0
}

/// Tokens of no committed transaction.
pub(super) fn strangers(writers: &[Writer], there: &BTreeSet<i64>) -> Vec<String> {
    let known = |token: &i64| writers.iter().any(|w| w.acknowledged.contains(token));
    there
        .iter()
        .filter(|token| !known(token))
        .map(|token| match writers.iter().find_map(|w| w.failed.get(token)) {
            Some(answer) => format!("token {token} is there, its transaction was answered with {answer}"),
            None => format!("token {token} is there, its COMMIT was never sent"),
        })
        .collect()
}

/// The transactions whose parts InnoDB has.
fn of_innodb(session: &mut Session) -> Result<BTreeSet<i64>> {
    let select = "SELECT token FROM torture.elsewhere";
    Ok(must(select, session.numbers(select))?.into_iter().flatten().collect())
}

/// Transactions in the store without their part in InnoDB.
pub(super) fn lost_by_innodb(session: &mut Session, there: &BTreeSet<i64>) -> Result<Vec<i64>> {
    let innodb = of_innodb(session)?;
    Ok(there.iter().copied().filter(|token| in_innodb(*token) && !innodb.contains(token)).collect())
}

/// InnoDB's parts of the transactions against those of the store. A transaction in `halves` may have either alone.
pub(super) fn other_halves(
    session: &mut Session,
    there: &BTreeSet<i64>,
    halves: &BTreeSet<i64>,
) -> Result<Vec<String>> {
    let innodb = of_innodb(session)?;
    let of_both: BTreeSet<i64> = there.iter().copied().filter(|token| in_innodb(*token)).collect();
    Ok(of_both
        .symmetric_difference(&innodb)
        .filter(|token| !halves.contains(token))
        .map(|token| {
            let engine = if innodb.contains(token) { "InnoDB" } else { "TidesDB" };
            format!("transaction {token} is there in {engine} alone")
        })
        .collect())
}

/// Compares the shared counter rows, and the tables' indexes.
pub(super) fn tables_disagree(session: &mut Session, there: &BTreeSet<i64>) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let counted = must("sum", session.number("SELECT SUM(n) FROM torture.shared"))?;
    if usize::try_from(counted) != Ok(there.len()) {
        wrong.push(format!("the shared rows count {counted}, there are {} tokens", there.len()));
    }
    for (table, columns, indexes) in TABLES {
        wrong.extend(must("agree", agreement::complaints(session, table, columns, indexes))?);
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// The id of a statement's row, and the row afterwards; none for a DELETE.
    fn written(statement: &str) -> Option<(String, String)> {
        if let Some(values) = statement.strip_prefix("INSERT INTO torture.account VALUES (") {
            let (id, columns) = values.strip_suffix(')')?.split_once(", ")?;
            return Some((id.to_string(), columns.to_string()));
        }
        let (change, condition) = statement.split_once(" WHERE ")?;
        let (_, id) = condition.rsplit_once(" = ")?;
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
