//! Checks that linked tables obey their foreign keys: 1452 for a child without its parent, 1451 for a parent
//! with children, actions, and nothing without a foreign key. All of it is rolled back.

use super::super::session::{Failure, Session};
use super::changes::TO_PARENT;
use super::linked::{Linked, KEYS, TO_SELF};

/// A value in no row, and that of the column `code`.
const ID: i64 = 900;
/// A row of the child owned by no client.
const CHILD: i64 = 1000;

struct Trial<'a> {
    session: &'a mut Session,
    wrong: Vec<String>,
}

impl Trial<'_> {
    /// Runs a statement and expects this error; none: success.
    fn expect(&mut self, statement: &str, error: Option<u16>) -> Result<(), Failure> {
        let answer = match self.session.run(statement) {
            Ok(_) => None,
            Err(Failure::Sql { code, .. }) => Some(code),
            Err(lost) => return Err(lost),
        };
        if answer != error {
            self.wrong.push(format!("{statement}: {answer:?}, must be {error:?}"));
        }
        Ok(())
    }

    fn expect_rows(&mut self, select: &str, expected: &[&[&str]]) -> Result<(), Failure> {
        let rows = self.session.rows(select)?;
        if rows != expected {
            self.wrong.push(format!("{select}: {rows:?}, must be {expected:?}"));
        }
        Ok(())
    }
}

/// Faults of the tables.
pub(super) fn faults(session: &mut Session, tables: &Linked) -> Result<Vec<String>, Failure> {
    let mut trial = Trial { session, wrong: Vec::new() };
    trial.session.run("SET SESSION foreign_key_checks = 1")?;
    for table in tables.parent.iter().chain(&tables.child) {
        let check = format!("CHECK TABLE {} EXTENDED", table.name);
        for row in trial.session.rows(&check)? {
            // Orphans, which statements without checks leave.
            if row.get(2).map(String::as_str) != Some("warning")
                && row.get(3).map(String::as_str) != Some("OK")
            {
                trial.wrong.push(row.join(" "));
            }
        }
    }
    for key in KEYS {
        for event in ["DELETE", "UPDATE"] {
            trial.session.run("BEGIN")?;
            let tried = one(&mut trial, tables, key, event);
            trial.session.run("ROLLBACK")?;
            tried?;
        }
    }
    if let (Some(parent), true) = (&tables.parent, tables.is_referenced()) {
        trial.expect(&format!("DROP TABLE {}", parent.name), Some(1451))?;
        trial.expect(&format!("TRUNCATE TABLE {}", parent.name), Some(1701))?;
    }
    Ok(trial.wrong)
}

/// One event at one foreign key, or where it is not.
fn one(trial: &mut Trial<'_>, tables: &Linked, key: &str, event: &str) -> Result<(), Failure> {
    let Some(child) = tables.child.as_ref().map(|child| &child.name) else { return Ok(()) };
    let (column, parent, referred, _) = tables.key(key);
    let (actions, value) = (tables.keys.get(key), if referred == "code" { 10 * ID } else { ID });
    let id = tables.parent.as_ref().map_or("id", |parent| parent.column);
    let refer = format!("INSERT INTO {child} (id, {column}) VALUES ({CHILD}, {value})");
    trial.expect(&refer, actions.map(|_| 1452))?;
    if TO_PARENT.contains(&key) && tables.parent.is_none() {
        return Ok(());
    }
    // Again, with a parent.
    trial.expect(&format!("DELETE FROM {child} WHERE id = {CHILD}"), None)?;
    let made = match key {
        TO_SELF => format!("INSERT INTO {parent} (id) VALUES ({value})"),
        _ => format!("INSERT INTO {parent} ({id}, code) VALUES ({ID}, {})", 10 * ID),
    };
    trial.expect(&made, None)?;
    trial.expect(&refer, None)?;
    let (action, statement) = match event {
        "DELETE" => (actions.map(|a| a.delete), format!("DELETE FROM {parent} WHERE {referred} = {value}")),
        _ => (
            actions.map(|a| a.update),
            format!("UPDATE {parent} SET {referred} = {value} + 5 WHERE {referred} = {value}"),
        ),
    };
    let is_refused = matches!(action, Some("RESTRICT" | "NO ACTION"));
    trial.expect(&statement, is_refused.then_some(1451))?;
    let (same, changed) = (value.to_string(), (value + 5).to_string());
    let row: &[&[&str]] = match (action, event) {
        (Some("CASCADE"), "DELETE") => &[],
        (Some("CASCADE"), _) => &[&[&changed]],
        (Some("SET NULL"), _) => &[&["NULL"]],
        _ => &[&[&same]],
    };
    trial.expect_rows(&format!("SELECT COALESCE({column}, 'NULL') FROM {child} WHERE id = {CHILD}"), row)
}
