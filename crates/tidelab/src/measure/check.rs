//! The check of an engine's tables after a load: the number of rows, the same rows through the primary key
//! and through the secondary index, and the server's CHECK TABLE. A fault fails the runs before.

use tidelab_server::error::Result;
use tidelab_server::server::client::Client;
use tidelab_server::server::engine::Engine;

/// The permitted number of rows in an engine's tables, all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The least.
    pub min: i64,
    /// The most.
    pub max: i64,
}

impl Expected {
    /// Exactly this many.
    pub fn exactly(rows: u64) -> Expected {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        Expected { min: rows, max: rows }
    }

    /// After a change by at least and at most so many.
    pub fn after(self, change: (i64, i64)) -> Expected {
        Expected { min: self.min.saturating_add(change.0), max: self.max.saturating_add(change.1) }
    }

    /// The complaint about this number of rows; none if it is right.
    pub fn complaint(self, rows: i64) -> Option<String> {
        if (self.min..=self.max).contains(&rows) {
            return None;
        }
        let expected =
            if self.min == self.max { self.min.to_string() } else { format!("{} to {}", self.min, self.max) };
        Some(format!("{rows} rows, expected {expected}"))
    }
}

/// The result of a check of an engine's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCheck {
    /// Rows of all tables.
    pub rows: i64,
    /// The faults, one line each.
    pub complaints: Vec<String>,
}

/// Looks at all tables of an engine. `expected` is not known after a failed run.
pub fn tables(
    client: &Client,
    engine: Engine,
    tables: u32,
    expected: Option<Expected>,
) -> Result<TableCheck> {
    tables_by(&mut |statement| client.query(statement), engine, tables, expected)
}

/// The same through whatever runs a statement and returns its rows.
pub fn tables_by(
    query: &mut dyn FnMut(&str) -> Result<Vec<Vec<String>>>,
    engine: Engine,
    tables: u32,
    expected: Option<Expected>,
) -> Result<TableCheck> {
    let mut found = TableCheck::default();
    for number in 1..=tables {
        let table = format!("{}.sbtest{number}", engine.database());
        // Count and checksum of (id, k): once along the rows, once along the index.
        let sum = format!("SELECT COUNT(*), COALESCE(BIT_XOR(CRC32(CONCAT(id, ':', k))), 0) FROM {table}");
        let by_rows = query(&format!("{sum} IGNORE INDEX (k_{number})"))?;
        // The condition holds for every row; with it the forced index is really read.
        let by_index = query(&format!("{sum} FORCE INDEX (k_{number}) WHERE k > -2147483648"))?;
        let rows = by_rows.first().and_then(|r| r.first()).and_then(|n| n.parse::<i64>().ok()).unwrap_or(-1);
        found.rows += rows;
        if by_rows != by_index {
            found.complaints.push(format!(
                "{table}: (rows, checksum) by primary key {}, by index k_{number} {}",
                picture(&by_rows),
                picture(&by_index)
            ));
        }
        for row in query(&format!("CHECK TABLE {table}"))? {
            if let Some(complaint) = check_table_complaint(&row) {
                found.complaints.push(format!("CHECK TABLE {table}: {complaint}"));
            }
        }
    }
    if let Some(complaint) = expected.and_then(|e| e.complaint(found.rows)) {
        found.complaints.push(complaint);
    }
    Ok(found)
}

fn picture(rows: &[Vec<String>]) -> String {
    let columns: Vec<&str> = rows.iter().flatten().map(String::as_str).collect();
    format!("({})", columns.join(", "))
}

/// A row of CHECK TABLE is (table, op, type, text); all but `status OK` and notes complain.
fn check_table_complaint(row: &[String]) -> Option<String> {
    match (row.get(2).map(String::as_str), row.get(3).map(String::as_str)) {
        (Some("status"), Some("OK")) | (Some("note"), _) => None,
        (Some(kind), Some(text)) => Some(format!("{kind} {text}")),
        _ => Some("no answer".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_add_up() {
        let expected = Expected::exactly(1000).after((50, 50)).after((-3, 0));
        assert_eq!(expected, Expected { min: 1047, max: 1050 });
        assert_eq!(expected.complaint(1047), None);
        assert_eq!(expected.complaint(1050), None);
        assert_eq!(expected.complaint(1046).unwrap(), "1046 rows, expected 1047 to 1050");
        assert_eq!(Expected::exactly(5).complaint(6).unwrap(), "6 rows, expected 5");
    }

    #[test]
    fn check_table_must_say_ok() {
        let row = |kind: &str, text: &str| {
            check_table_complaint(&[
                "d.t".to_string(),
                "check".to_string(),
                kind.to_string(),
                text.to_string(),
            ])
        };
        assert_eq!(row("status", "OK"), None);
        assert_eq!(row("note", "The storage engine for the table doesn't support check"), None);
        assert_eq!(row("error", "Corrupt").unwrap(), "error Corrupt");
        assert_eq!(row("status", "Operation failed").unwrap(), "status Operation failed");
        assert!(check_table_complaint(&[]).is_some());
    }
}
