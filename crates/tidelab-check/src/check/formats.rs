//! `formats`: a dictionary record, a layout of rows or a single row of a later version of the plugin is
//! refused by table and version, never misread, and the rest goes on. With today's bytes put back, every
//! row is there. A record of the first version is read like today's.
//!
//! Tables with foreign keys have, on both sides of a key, a version unknown to builds without foreign keys.
//! Such a build refuses them as this one refuses the later version: no row of either side changes, and no
//! column.
//!
//! The engine itself changes the bytes while the server is down, so the checksums are right.

use std::fs;

use tidelab_server::error::{io_error, Result};
use tidelab_server::server::settings;
use tidesdb::internal::db::Db;
use tidesdb::internal::txn::transaction::ReadMode;
use tidesdb::TransactionOptions;

use super::session::{Failure, Session};
use super::{change_store, conclude, connect, must, set_up, Check, Lab, Verdict};
use crate::check::progress;

/// The place of the layout's version in a table's record (`docs/format/table-record.md`).
const ROW_LAYOUT_AT: usize = 18;
/// The row of the integer key 2 (`docs/format/rows.md`).
const KEY_2: [u8; 4] = [0x80, 0, 0, 2];
/// Today's version of a record without foreign keys, and of rows of a table without an instant ALTER.
const TODAY: Versions = Versions { record: 2, layout: 1, linked: 3 };
/// Future versions.
const LATER: Versions = Versions { record: 7, layout: 3, linked: 7 };
/// Tables of the check.
const TABLES: [&str; 5] = ["record", "layout", "one_row", "fine", "first"];
/// Both sides of a foreign key, and a former parent.
const LINKED: [&str; 3] = ["child", "parent", "was_parent"];

/// A change of the store.
#[derive(Clone, Copy)]
struct Versions {
    record: u8,
    layout: u8,
    /// Of the records of tables with foreign keys.
    linked: u8,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let settings = settings::checks(false);
    let mut server = lab.start(&settings)?;
    let mut session = connect(&server)?;
    set_up(&mut session, &["CREATE DATABASE formats", "USE formats"])?;
    for table in TABLES {
        set_up(
            &mut session,
            &[
                &format!("CREATE TABLE {table} (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=TidesDB"),
                &format!("INSERT INTO {table} VALUES (1, 10), (2, 20), (3, 30)"),
            ],
        )?;
    }
    set_up(&mut session, &LINKED_STATEMENTS)?;
    drop(session);
    let store = server.directory().join("tidesdb_data");
    server.shut_down()?;
    let mut found = Vec::new();
    change_store(&store, |db| {
        found = record_versions(db)?;
        write_versions(db, LATER).and_then(|()| write_first_record(db))
    })?;
    server.restart(&settings, lab.interrupt)?;
    let mut session = connect(&server)?;
    let mut complaints = wrong_versions(&found);
    complaints.extend(refusals(&mut session));
    let log = server.directory().join("error.log");
    let text = fs::read_to_string(&log).map_err(io_error("cannot read", &log))?;
    for line in [
        "'formats/record' cannot be used: its dictionary record has format version 7, this build knows versions up to 6",
        "'formats/layout' cannot be used: its rows have layout version 3, its dictionary record explains versions up to 1",
        "table 'formats/one_row': a row has layout 3, and this release of TidesDB knows layouts 1 to 1",
    ] {
        if !text.contains(line) {
            complaints.push(format!("the error log does not say: {line}"));
        }
    }
    progress(Check::Formats, &format!("with later versions: {} wrong", complaints.len()));
    drop(session);
    server.shut_down()?;
    change_store(&store, |db| write_versions(db, TODAY))?;
    server.restart(&settings, lab.interrupt)?;
    let mut session = connect(&server)?;
    for table in TABLES {
        let rows = must(table, session.numbers(&format!("SELECT * FROM formats.{table} ORDER BY a")))?;
        let b = if table == "fine" { 31 } else { 30 };
        if rows != [[1, 10], [2, 20], [3, b]] {
            complaints.push(format!("{table} has the rows {rows:?} when today's bytes are back"));
        }
        let check = must(table, session.rows(&format!("CHECK TABLE formats.{table}")))?;
        if check.concat().last().map(String::as_str) != Some("OK") {
            complaints.push(format!("CHECK TABLE {table}: {}", check.concat().join(" ")));
        }
    }
    for (statement, code) in [
        ("INSERT INTO formats.child VALUES (9, 9)", 1452),
        ("DELETE FROM formats.parent WHERE a = 1", 1451),
        ("DROP TABLE formats.parent", 1451),
    ] {
        match session.rows(statement) {
            Err(Failure::Sql { code: got, .. }) if got == code => {}
            other => complaints
                .push(format!("{statement}: {other:?}, not error {code} when today's bytes are back")),
        }
    }
    let summary = "a record, a layout, a row and a foreign key's two tables of a later version refused by name, the rest \
                   read"
        .to_string();
    conclude(server, summary, complaints)
}

/// The tables of a foreign key, and a former parent.
const LINKED_STATEMENTS: [&str; 7] = [
    "CREATE TABLE parent (a INT PRIMARY KEY) ENGINE=TidesDB",
    "CREATE TABLE child (a INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES parent (a)) ENGINE=TidesDB",
    "INSERT INTO parent VALUES (1), (2)",
    "INSERT INTO child VALUES (1, 1)",
    "CREATE TABLE was_parent LIKE parent",
    "CREATE TABLE was_child (a INT PRIMARY KEY, CONSTRAINT gone FOREIGN KEY (a) REFERENCES was_parent (a)) ENGINE=TidesDB",
    "ALTER TABLE was_child DROP FOREIGN KEY gone",
];

/// The versions of all tables' records.
fn record_versions(db: &Db) -> tidesdb::Result<Vec<(&'static str, u8)>> {
    let mut found = Vec::new();
    for table in TABLES.into_iter().chain(LINKED).chain(["was_child"]) {
        let family = db.family(format!("formats/{table}\0p").as_bytes())?;
        found.push((table, family.record().first().copied().unwrap_or_default()));
    }
    Ok(found)
}

/// Tables whose record has another version than builds without foreign keys go by.
fn wrong_versions(found: &[(&str, u8)]) -> Vec<String> {
    let expected = |table| if LINKED.contains(&table) { TODAY.linked } else { TODAY.record };
    let wrong = found.iter().filter(|(table, version)| *version != expected(table));
    wrong
        .map(|(table, version)| {
            format!("the record of {table} has version {version}, not {}", expected(table))
        })
        .collect()
}

/// The expected refusals of statements on the tables while later versions stand in them.
fn refusals(session: &mut Session) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut refused = |statement: &str, code: u16, part: &str| match session.rows(statement) {
        Err(Failure::Sql { code: got, message }) if got == code && message.contains(part) => {}
        other => complaints.push(format!("{statement}: {other:?}, not error {code} with '{part}'")),
    };
    for (table, part) in [("record", "format version 7"), ("layout", "layout version 3")] {
        let named = format!("'formats/{table}' cannot be used");
        for statement in ["SELECT * FROM formats.", "INSERT INTO formats.", "DELETE FROM formats."] {
            let rest = if statement.starts_with("INSERT") { " VALUES (4, 40)" } else { "" };
            refused(&format!("{statement}{table}{rest}"), 1105, part);
            refused(&format!("{statement}{table}{rest}"), 1105, &named);
        }
    }
    for table in LINKED {
        let named = format!("'formats/{table}' cannot be used");
        for statement in [
            format!("SELECT * FROM formats.{table}"),
            format!("INSERT INTO formats.{table} (a) VALUES (4)"),
            format!("DELETE FROM formats.{table}"),
            format!("TRUNCATE TABLE formats.{table}"),
            format!("ALTER TABLE formats.{table} FORCE"),
            format!("ALTER TABLE formats.{table} ADD COLUMN c INT, ALGORITHM=INSTANT"),
        ] {
            refused(&statement, 1105, &named);
        }
    }
    for statement in [
        "SELECT b FROM formats.one_row WHERE a = 2",
        "SELECT SUM(b) FROM formats.one_row IGNORE INDEX (b)",
        "SELECT * FROM formats.one_row FORCE INDEX (b) WHERE b > 0 FOR UPDATE",
        "UPDATE formats.one_row SET b = b + 1 WHERE a = 2",
        "DELETE FROM formats.one_row WHERE a = 2",
    ] {
        refused(statement, 1296, "a row has layout 3");
    }
    let mut answers = |statement: &str, expected: &[&str]| match session.rows(statement) {
        Ok(rows) if rows.concat() == expected => {}
        other => complaints.push(format!("{statement}: {other:?}, must be {expected:?}")),
    };
    answers("SELECT b FROM formats.one_row WHERE a = 3", &["30"]);
    answers("SELECT a + b FROM formats.first ORDER BY a", &["11", "22", "33"]);
    answers("SELECT a FROM formats.first FORCE INDEX (b) WHERE b = 20", &["2"]);
    answers("UPDATE formats.fine SET b = 31 WHERE a = 3", &[]);
    answers("SELECT SUM(b) FROM formats.fine IGNORE INDEX (b)", &["61"]);
    let check = "CHECK TABLE formats.one_row";
    match session.rows(check) {
        // Not "Corrupt": the table is whole, and REPAIR would do harm.
        Ok(rows)
            if rows.concat().last().map(String::as_str) == Some("Operation failed")
                && rows.concat().iter().any(|text| text.contains("a row has layout 3")) => {}
        other => complaints.push(format!("{check}: {other:?}")),
    }
    complaints
}

/// Writes versions into a record, into the layout named by another record, and into one row.
fn write_versions(db: &Db, versions: Versions) -> tidesdb::Result<()> {
    let mut ddl = db.ddl()?;
    let linked = LINKED.map(|table| (table, 0, versions.linked));
    for (table, at, version) in
        linked.into_iter().chain([("record", 0, versions.record), ("layout", ROW_LAYOUT_AT, versions.layout)])
    {
        let name = format!("formats/{table}\0p").into_bytes();
        let mut record = db.family(&name)?.record().to_vec();
        record[at] = version;
        ddl.set_record(&name, &record)?;
    }
    ddl.commit()?;
    let family = db.family(b"formats/one_row\0p")?;
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default())?;
    let mut row = txn.get(&family, &KEY_2, ReadMode::Snapshot)?.unwrap_or_default();
    match row.first_mut() {
        Some(first) => *first = versions.layout,
        None => return Err(tidesdb::Error::InvalidArgument("there is no row 2".to_string())),
    }
    txn.put(&family, &KEY_2, &row)?;
    txn.commit().map(drop)
}

/// Gives a table's record the form of the first version (`docs/format/table-record.md`).
fn write_first_record(db: &Db) -> tidesdb::Result<()> {
    let name = b"formats/first\0p";
    let record = db.family(name)?.record().to_vec();
    let mut ddl = db.ddl()?;
    ddl.set_record(name, &first_record(&record).unwrap_or_default())?;
    ddl.commit()
}

/// Leaves out of a record of the second version the fields unknown to the first; `None`: it is no such
/// record.
fn first_record(record: &[u8]) -> Option<Vec<u8>> {
    let number = |at: usize| Some(usize::from(u16::from_le_bytes(record.get(at..at + 2)?.try_into().ok()?)));
    let mut first = vec![1];
    first.extend_from_slice(record.get(1..38)?);
    // The identity of the definition, and the next number of a column.
    let mut at = 38 + 2 + number(38)? + 4;
    let columns = number(at)?;
    first.extend_from_slice(record.get(at..at + 2)?);
    at += 2;
    for _ in 0..columns {
        let end = at + 12 + number(at + 10)?;
        first.extend_from_slice(record.get(at + 4..end)?);
        at = end;
    }
    // No older layouts and no values of columns.
    first.extend_from_slice(record.get(at..record.len().checked_sub(4)?)?);
    Some(first)
}
