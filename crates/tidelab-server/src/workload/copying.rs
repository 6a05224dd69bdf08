//! Large copying statements: INSERT ... SELECT into a table with three secondary indexes, and ALTER TABLE ...
//! ADD INDEX three times, on a table of this shape:
//!
//! ```sql
//! CREATE TABLE source (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(32), pad CHAR(60))
//! ```
//!
//! The client may cut the copy into ranges of the key, each a statement and a transaction of its own.

use std::path::Path;

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::server::client::Client;
use crate::server::engine::Engine;
use crate::server::session::{Address, Session};

/// No statement takes longer than this.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(3600);
/// Rows of one filling statement of the source.
const FILL: u64 = 20_000;
/// The indexed columns.
const COLUMNS: [&str; 3] = ["a", "b", "c"];

/// The measured statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// INSERT ... SELECT from `source` into `target`, with three indexes.
    InsertSelect,
    /// Three times ALTER TABLE `source` ADD INDEX.
    AddIndex,
}

impl Copying {
    /// The table to check afterwards.
    fn result(self) -> &'static str {
        match self {
            Copying::InsertSelect => "target",
            Copying::AddIndex => "source",
        }
    }
}

/// Makes `source` with so many rows, the same ones each time.
pub fn fill(client: &Client, engine: Engine, rows: u64, interrupt: &Interrupt) -> Result<()> {
    let database = engine.database();
    client.query(&format!(
        "CREATE DATABASE {database}; CREATE TABLE {database}.source (id INT NOT NULL PRIMARY KEY, a INT NOT NULL, \
         b INT NOT NULL, c VARCHAR(32) NOT NULL, pad CHAR(60) NOT NULL) ENGINE={}",
        engine.name()
    ))?;
    for (from, to) in ranges(rows, FILL) {
        interrupt.check()?;
        // Tables of numbers (`seq_1_to_9`) are found only where a database is chosen. Multiplied by
        // primes, so that neighbours in the table are far apart in the indexes.
        client.query(&format!(
            "USE {database}; INSERT INTO source SELECT seq, (seq * 7919) % 1000003, (seq * 104729) % 999983, \
             LPAD(HEX((seq * 15485863) % 4294967291), 16, '0'), REPEAT(CHAR(97 + seq % 26), 60) \
             FROM seq_{from}_to_{to}"
        ))?;
    }
    Ok(())
}

/// Prepares the measured part.
pub fn prepare(client: &Client, work: Copying, engine: Engine) -> Result<()> {
    if work == Copying::InsertSelect {
        let database = engine.database();
        let keys: Vec<String> = COLUMNS.iter().map(|c| format!("ADD KEY k_{c} ({c})")).collect();
        client.query(&format!(
            "CREATE TABLE {database}.target LIKE {database}.source; ALTER TABLE {database}.target {}",
            keys.join(", ")
        ))?;
    }
    Ok(())
}

/// The measured part. `progress` sees how many rows are there after each statement.
pub fn run(
    socket: &Path,
    work: Copying,
    engine: Engine,
    rows: u64,
    rows_per_transaction: u64,
    interrupt: &Interrupt,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let failed =
        |statement: &str, message: String| Error::Statement { statement: statement.to_string(), message };
    let mut session = Session::connect(&Address::root(socket), LIMIT)
        .map_err(|failure| failed("a connection", failure.to_string()))?;
    let use_it = format!("USE {}", engine.database());
    let mut say =
        |statement: &str| session.run(statement).map_err(|failure| failed(statement, failure.to_string()));
    say(&use_it)?;
    match work {
        Copying::InsertSelect => {
            for (from, to) in ranges(rows, rows_per_transaction) {
                interrupt.check()?;
                let statement =
                    format!("INSERT INTO target SELECT * FROM source WHERE id BETWEEN {from} AND {to}");
                let copied = say(&statement)?;
                if copied != to - from + 1 {
                    return Err(failed(&statement, format!("it copied {copied} rows")));
                }
                progress(to);
            }
        }
        Copying::AddIndex => {
            for (at, column) in COLUMNS.iter().enumerate() {
                interrupt.check()?;
                say(&format!("ALTER TABLE source ADD INDEX k_{column} ({column})"))?;
                progress((at as u64 + 1) * rows);
            }
        }
    }
    Ok(())
}

/// The faults of the result: its rows, the same along each index, CHECK TABLE.
pub fn check(client: &Client, work: Copying, engine: Engine, rows: u64) -> Result<Vec<String>> {
    let table = format!("{}.{}", engine.database(), work.result());
    let mut wrong = Vec::new();
    for column in COLUMNS {
        let sum =
            format!("SELECT COUNT(*), COALESCE(BIT_XOR(CRC32(CONCAT(id, ':', {column}))), 0) FROM {table}");
        // Both read (id, column) only: the second along the index, which holds the key too.
        let source = format!("{}.source", engine.database());
        let of_source = sum.replace(&table, &format!("{source} IGNORE INDEX (PRIMARY)"));
        let of_source = match work {
            Copying::InsertSelect => of_source,
            Copying::AddIndex => sum.replace(&table, &format!("{source} IGNORE INDEX (k_a, k_b, k_c)")),
        };
        let expected = client.query(&of_source)?;
        let least = if column == "c" { "''" } else { "-2147483648" };
        let found = client.query(&format!("{sum} FORCE INDEX (k_{column}) WHERE {column} >= {least}"))?;
        let counted = found.first().and_then(|r| r.first()).and_then(|n| n.parse::<u64>().ok());
        if counted != Some(rows) {
            wrong.push(format!("{table} has {counted:?} rows along k_{column}, expected {rows}"));
        } else if found != expected {
            wrong.push(format!(
                "{table}: (rows, checksum) along k_{column} {found:?}, in the source {expected:?}"
            ));
        }
    }
    for row in client.query(&format!("CHECK TABLE {table}"))? {
        let good = matches!(
            (row.get(2).map(String::as_str), row.get(3).map(String::as_str)),
            (Some("status"), Some("OK")) | (Some("note"), _)
        );
        if !good {
            wrong.push(format!("CHECK TABLE {table}: {}", row.join(" ")));
        }
    }
    Ok(wrong)
}

/// Ranges of keys from 1 on, both ends in them.
fn ranges(rows: u64, each: u64) -> impl Iterator<Item = (u64, u64)> {
    let each = each.max(1);
    (0..rows.div_ceil(each)).map(move |n| (n * each + 1, rows.min((n + 1) * each)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_every_key_once() {
        assert_eq!(ranges(10, 4).collect::<Vec<_>>(), [(1, 4), (5, 8), (9, 10)]);
        assert_eq!(ranges(8, 4).collect::<Vec<_>>(), [(1, 4), (5, 8)]);
        assert_eq!(ranges(3, 5_000_000).collect::<Vec<_>>(), [(1, 3)]);
        assert_eq!(ranges(3, 0).count(), 3);
    }
}
