//! `entries`: CHECK TABLE finds an index out of step with its table and names the index and the row; ALTER
//! TABLE ... FORCE puts it right. A table without a fault passes.
//!
//! The engine itself takes entries away, adds and changes them while the server is down, one fault a
//! table.
//!
//! An index over a virtual column loses its settings, as in an earlier build, and one entry: it is made anew
//! at the next start.

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

/// A table with an index over a virtual column.
const EARLIER: [&str; 3] = [
    "SET time_zone = '+00:00'",
    "CREATE TABLE earlier (a INT PRIMARY KEY, ts TIMESTAMP NULL, d DATE AS (DATE(ts)) VIRTUAL, KEY k (d)) ENGINE=TidesDB",
    "INSERT INTO earlier (a, ts) SELECT seq, '2020-01-01 22:00:00' + INTERVAL seq HOUR FROM seq_1_to_500",
];
/// The first bytes of its index settings in the table's record, after their number and the index's id.
const ZONE: &[u8] = b"\x06\x00+00:00";

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
    set_up(&mut session, &EARLIER)?;
    drop(session);
    let store = server.directory().join("tidesdb_data");
    server.shut_down()?;
    change_store(&store, |db| plant(db).and_then(|()| forget_settings(db)))?;
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
    complaints.extend(rebuilt(&mut session)?);
    let summary =
        "entries that are missing, surplus, moved and redirected were found and put right".to_string();
    conclude(server, summary, complaints)
}

/// The texts of a CHECK TABLE.
fn said(session: &mut Session, statement: &str) -> Result<Vec<String>> {
    let rows = must(statement, session.rows(statement))?;
    Ok(rows.into_iter().filter_map(|mut row| row.pop()).collect())
}

/// Faults of an earlier build's table, in a session with another time zone and in one with that of the first
/// opening statement.
fn rebuilt(session: &mut Session) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    let mut expect = |statement: &str, expected: &str| -> Result<()> {
        let said = must(statement, session.rows(statement))?.concat();
        if said.last().map(String::as_str) != Some(expected) {
            complaints.push(format!("{statement}: {said:?}, must be {expected}"));
        }
        Ok(())
    };
    expect("SELECT @@time_zone FROM (SELECT 1) AS one", "SYSTEM")?;
    let by_index = "SELECT COUNT(*) FROM entries.earlier FORCE INDEX (k) WHERE d >= '2020-01-01'";
    expect(by_index, "500")?;
    expect("CHECK TABLE entries.earlier EXTENDED", "OK")?;
    expect("SELECT COUNT(*) FROM entries.earlier FORCE INDEX (k) WHERE d = '2020-01-10'", "24")?;
    Ok(complaints)
}

/// Gives the record of a table the form of the version before settings (`docs/format/table-record.md`).
fn forget_settings(db: &Db) -> tidesdb::Result<()> {
    let name = b"entries/earlier\0p";
    let mut record = db.family(name)?.record().to_vec();
    let at = record.windows(ZONE.len()).position(|bytes| bytes == ZONE);
    let at = at.ok_or_else(|| tidesdb::Error::InvalidArgument("no settings in the record".to_string()))?;
    record.truncate(at - 6);
    record[0] = 3;
    let mut ddl = db.ddl()?;
    ddl.set_record(name, &record)?;
    ddl.commit()
}

/// Puts the faults into the indexes.
fn plant(db: &Db) -> tidesdb::Result<()> {
    for table in FAULTS.map(|(table, _, _)| table).into_iter().chain(["earlier"]) {
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
            "missing" | "earlier" => txn.delete(family, key)?,
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
