//! Whether the indexes of a table agree with its rows: CHECK TABLE, and the same rows counted
//! and summed along the primary key and along each other index.

use super::session::{Failure, Session};

/// An index and a condition on its first column that every row meets: with it the forced
/// index is really read.
pub struct Index {
    /// Its name.
    pub name: &'static str,
    /// The condition.
    pub all_rows: &'static str,
}

/// Looks at one table, whose rows `columns` (an expression list) identify. One line for each
/// thing that is wrong.
pub fn complaints(
    session: &mut Session,
    table: &str,
    columns: &str,
    indexes: &[Index],
) -> Result<Vec<String>, Failure> {
    let mut complaints = Vec::new();
    let sum = format!("SELECT COUNT(*), COALESCE(BIT_XOR(CRC32(CONCAT_WS(':', {columns}))), 0) FROM {table}");
    for index in indexes {
        let by_rows = session.rows(&format!("{sum} FORCE INDEX (PRIMARY) WHERE {}", index.all_rows))?;
        let by_index =
            session.rows(&format!("{sum} FORCE INDEX ({}) WHERE {}", index.name, index.all_rows))?;
        if by_rows != by_index {
            complaints.push(format!(
                "{table}: (rows, checksum) by primary key {:?}, by {} {:?}",
                by_rows.concat(),
                index.name,
                by_index.concat()
            ));
        }
    }
    for row in session.rows(&format!("CHECK TABLE {table} EXTENDED"))? {
        if row.get(2).map(String::as_str) != Some("status") || row.get(3).map(String::as_str) != Some("OK") {
            complaints.push(format!("CHECK TABLE {table}: {}", row.join(" ")));
        }
    }
    Ok(complaints)
}
