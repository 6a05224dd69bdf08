//! Compares the indexes of a table with its rows: CHECK TABLE, and the same rows counted and summed along the
//! primary key and along each other index.

use super::session::{Failure, Session};

/// An index and a condition on its first column, met by every row: with it the forced index is really read.
pub struct Index {
    /// Its name.
    pub name: &'static str,
    /// The condition.
    pub all_rows: &'static str,
}

/// The same for a table too large for reading each row along each index. The index's own columns are
/// summed along both ways, and CHECK TABLE compares entries with rows.
pub fn complaints_of_large(
    session: &mut Session,
    table: &str,
    indexes: &[(&str, Index)],
) -> Result<Vec<String>, Failure> {
    let pairs = indexes.iter().map(|(columns, index)| (*columns, index));
    compare(session, table, pairs, &format!("CHECK TABLE {table}"))
}

/// Looks at one table; `columns` (an expression list) identify its rows. One line for each fault.
pub fn complaints(
    session: &mut Session,
    table: &str,
    columns: &str,
    indexes: &[Index],
) -> Result<Vec<String>, Failure> {
    let pairs = indexes.iter().map(|index| (columns, index));
    compare(session, table, pairs, &format!("CHECK TABLE {table} EXTENDED"))
}

/// Sums each pair's columns along its index, and runs the CHECK TABLE.
fn compare<'a>(
    session: &mut Session,
    table: &str,
    pairs: impl Iterator<Item = (&'a str, &'a Index)>,
    check: &str,
) -> Result<Vec<String>, Failure> {
    let mut complaints = Vec::new();
    for (columns, index) in pairs {
        complaints.extend(disagreement(session, table, columns, index)?);
    }
    complaints.extend(check_table(session, check)?);
    Ok(complaints)
}

/// The differences between rows counted and summed along the primary key and along an index.
fn disagreement(
    session: &mut Session,
    table: &str,
    columns: &str,
    index: &Index,
) -> Result<Option<String>, Failure> {
    let mut along = |name: &str| {
        session.rows(&format!(
            "SELECT COUNT(*), COALESCE(BIT_XOR(CRC32(CONCAT_WS(':', {columns}))), 0) FROM {table}
             FORCE INDEX ({name}) WHERE {}",
            index.all_rows
        ))
    };
    let (by_rows, by_index) = (along("PRIMARY")?, along(index.name)?);
    Ok((by_rows != by_index).then(|| {
        format!(
            "{table}: (rows, checksum) by primary key {:?}, by {} {:?}",
            by_rows.concat(),
            index.name,
            by_index.concat()
        )
    }))
}

fn check_table(session: &mut Session, statement: &str) -> Result<Vec<String>, Failure> {
    let rows = session.rows(statement)?;
    let fine = |row: &&Vec<String>| {
        row.get(2).map(String::as_str) == Some("status") && row.get(3).map(String::as_str) == Some("OK")
    };
    Ok(rows.iter().filter(|row| !fine(row)).map(|row| format!("{statement}: {}", row.join(" "))).collect())
}
