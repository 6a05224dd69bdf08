//! `entries`: CHECK TABLE finds an index that does not agree with its table and names the index and the
//! row; ALTER TABLE ... FORCE puts it right. A table without a fault passes.
//!
//! The engine itself takes entries away, adds and changes them while the server is down, one fault a
//! table.

use tidelab_server::error::Result;
use tidelab_server::server::settings;
use tidesdb::internal::db::Db;
use tidesdb::internal::txn::cursor::{Scan, Start};
use tidesdb::TransactionOptions;

use super::session::Session;
use super::{change_store, conclude, connect, must, progress, set_up, Check, Lab, Verdict};

/// Rows of each table.
const ROWS: u64 = 500;
/// The row whose entry is at fault.
const ROW: usize = 100;

/// A fault of the entry of a row in the table's only index, and CHECK TABLE's report of it.
const FAULTS: [(&str, &str, &str); 5] = [
    ("sound", "KEY k (b)", "OK"),
    ("missing", "KEY k (b)", "index k: no entry for row 100"),
    ("surplus", "KEY k (b)", "index k has 501 entries for 500 rows"),
    ("moved", "KEY k (b)", "index k: no entry for row 100"),
    ("redirected", "UNIQUE KEY k (b)", "index k: another entry for row 100"),
];

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let settings = settings::checks(false);
    let mut server = lab.start(&settings)?;
    let mut session = connect(&server)?;
    set_up(&mut session, &["CREATE DATABASE entries", "USE entries"])?;
    for (table, index, _) in FAULTS {
        set_up(
            &mut session,
            &[
                &format!("CREATE TABLE {table} (a INT PRIMARY KEY, b INT, {index}) ENGINE=TidesDB"),
                &format!("INSERT INTO {table} SELECT seq, seq * 10 FROM seq_1_to_{ROWS}"),
            ],
        )?;
    }
    drop(session);
    let store = server.directory().join("tidesdb_data");
    server.shut_down()?;
    change_store(&store, plant)?;
    server.restart(&settings, lab.interrupt)?;
    let mut session = connect(&server)?;
    let mut complaints = Vec::new();
    for (table, _, expected) in FAULTS {
        for extended in ["", " EXTENDED"] {
            let statement = format!("CHECK TABLE entries.{table}{extended}");
            let said = said(&mut session, &statement)?;
            if said.first().map(String::as_str) != Some(expected) {
                complaints.push(format!("{statement}: {said:?}, must be '{expected}'"));
            }
        }
    }
    progress(Check::Entries, &format!("{} faults planted: {} wrong", FAULTS.len() - 1, complaints.len()));
    for (table, _, _) in FAULTS {
        set_up(&mut session, &[&format!("ALTER TABLE entries.{table} FORCE")])?;
        let statement = format!("CHECK TABLE entries.{table} EXTENDED");
        let said = said(&mut session, &statement)?;
        if said != ["OK"] {
            complaints.push(format!("{statement} after ALTER TABLE ... FORCE: {said:?}"));
        }
    }
    let summary =
        "entries that are missing, surplus, moved and redirected were found and put right".to_string();
    conclude(server, summary, complaints)
}

/// The texts of a CHECK TABLE.
fn said(session: &mut Session, statement: &str) -> Result<Vec<String>> {
    let rows = must(statement, session.rows(statement))?;
    Ok(rows.into_iter().filter_map(|mut row| row.pop()).collect())
}

/// Puts the faults into the indexes.
fn plant(db: &Db) -> tidesdb::Result<()> {
    for (table, _, _) in FAULTS {
        let prefix = format!("entries/{table}\0i").into_bytes();
        let names = db.family_names(&prefix);
        let name = names.first().ok_or_else(|| tidesdb::Error::NoSuchFamily(format!("index of {table}")))?;
        let family = &db.family(name)?;
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default())?;
        let mut cursor = db.cursor(family);
        let mut entries = Vec::new();
        let mut found = cursor.seek(&mut txn, &Scan { start: Start::First, ..Scan::default() })?;
        while found {
            for index in 0..cursor.len() {
                let (key, value) = cursor.row(index);
                entries.push((key.to_vec(), value.to_vec()));
            }
            found = cursor.fetch(&mut txn, cursor.len() - 1, true)?;
        }
        let (key, value) = &entries[ROW - 1];
        // The last byte of a key is of the row's primary key.
        let mut other_row = key.clone();
        if let Some(last) = other_row.last_mut() {
            *last ^= 0x80;
        }
        match table {
            "missing" => txn.delete(family, key)?,
            "surplus" => txn.put(family, &other_row, value)?,
            "moved" => {
                txn.delete(family, key)?;
                txn.put(family, &other_row, value)?;
            }
            "redirected" => txn.put(family, key, &entries[ROW].1)?,
            _ => {}
        }
        txn.commit()?;
    }
    Ok(())
}
