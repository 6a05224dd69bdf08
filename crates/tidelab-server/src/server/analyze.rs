//! Gives the optimizer statistics of tables just loaded: ANALYZE TABLE on each of them.
//!
//! An engine without statistics guesses, and each engine guesses in another way. Every workload with a load
//! of tables therefore calls [`tables`] after the load and before anything is measured, for every engine
//! alike.

use std::time::Instant;

use serde::Serialize;

use super::client::Client;
use super::session::Session;
use crate::error::{Error, Result};

/// An ANALYZE of all tables of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Analyzed {
    /// Tables.
    pub tables: u32,
    /// Seconds of all of them.
    pub seconds: f64,
}

impl Analyzed {
    /// A sentence for a run's notes: the competitor's tables have statistics.
    pub fn note(competitor: &str) -> String {
        format!("{competitor}: every table got ANALYZE TABLE after its load, before it was measured")
    }
}

/// Runs a statement and returns its rows.
pub type Query<'a> = dyn FnMut(&str) -> Result<Vec<Vec<String>>> + 'a;

/// Runs ANALYZE TABLE on every table of a database. Errors: a statement fails, an engine refuses,
/// or the database has no table.
pub fn tables(query: &mut Query<'_>, database: &str) -> Result<Analyzed> {
    let start = Instant::now();
    let list = format!(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{database}' AND \
         TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_NAME"
    );
    let names: Vec<String> = query(&list)?.into_iter().filter_map(|row| row.into_iter().next()).collect();
    if names.is_empty() {
        return Err(Error::Statement { statement: list, message: "there is no table".to_string() });
    }
    for name in &names {
        table(query, database, name)?;
    }
    Ok(Analyzed {
        tables: u32::try_from(names.len()).unwrap_or(u32::MAX),
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Runs ANALYZE TABLE on one table. Errors: the statement fails, or the engine refuses.
pub fn table(query: &mut Query<'_>, database: &str, name: &str) -> Result<()> {
    let quoted = |name: &str| name.replace('`', "``");
    let statement = format!("ANALYZE TABLE `{}`.`{}`", quoted(database), quoted(name));
    let answer = query(&statement)?;
    match complaint(&answer) {
        None => Ok(()),
        Some(message) => Err(Error::Statement { statement, message }),
    }
}

/// [`tables`] through the client program.
pub fn through_client(client: &Client, database: &str) -> Result<Analyzed> {
    tables(&mut |statement| client.query(statement), database)
}

/// [`tables`] through a connection.
pub fn through_session(session: &mut Session, database: &str) -> Result<Analyzed> {
    tables(&mut query_on(session), database)
}

/// [`table`] through a connection.
pub fn table_through_session(session: &mut Session, database: &str, name: &str) -> Result<()> {
    table(&mut query_on(session), database, name)
}

fn query_on(session: &mut Session) -> impl FnMut(&str) -> Result<Vec<Vec<String>>> + '_ {
    |statement| {
        session.rows(statement).map_err(|failure| Error::Statement {
            statement: statement.to_string(),
            message: failure.to_string(),
        })
    }
}

/// The reason why an ANALYZE TABLE gave no statistics. Its rows are (table, op, type, text): errors and
/// warnings complain, and so does an answer without a status.
fn complaint(answer: &[Vec<String>]) -> Option<String> {
    let mut has_status = false;
    for row in answer {
        let (kind, text) = (row.get(2).map_or("", String::as_str), row.get(3).map_or("", String::as_str));
        match kind.to_ascii_lowercase().as_str() {
            "note" => {}
            "status" if text != "Operation failed" => has_status = true,
            _ => return Some(format!("{kind} {text}")),
        }
    }
    (!has_status && !is_unsupported(answer)).then(|| "no status came back".to_string())
}

/// An engine without statistics of its own (BLACKHOLE) says so in a note alone.
fn is_unsupported(answer: &[Vec<String>]) -> bool {
    answer.iter().any(|row| row.get(3).is_some_and(|text| text.contains("doesn't support analyze")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, text: &str) -> Vec<String> {
        ["d.t", "analyze", kind, text].map(str::to_string).to_vec()
    }

    #[test]
    fn every_table_of_the_database_is_analyzed_once() {
        let mut asked = Vec::new();
        let mut query = |statement: &str| {
            asked.push(statement.to_string());
            Ok(match statement.starts_with("SELECT") {
                true => vec![vec!["district".to_string()], vec!["stock".to_string()]],
                false => vec![row("status", "Engine-independent statistics collected"), row("status", "OK")],
            })
        };
        let analyzed = tables(&mut query, "lab").unwrap();
        assert_eq!(analyzed.tables, 2);
        assert!(asked[0].contains("TABLE_SCHEMA = 'lab'"), "{asked:?}");
        assert_eq!(asked[1..], ["ANALYZE TABLE `lab`.`district`", "ANALYZE TABLE `lab`.`stock`"]);
    }

    #[test]
    fn a_database_without_tables_is_a_mistake() {
        let error = tables(&mut |_| Ok(Vec::new()), "lab").unwrap_err().to_string();
        assert!(error.contains("there is no table"), "{error}");
    }

    #[test]
    fn a_table_that_gets_no_statistics_ends_the_load() {
        let mut refused =
            |_: &str| Ok(vec![row("Error", "Table is full"), row("status", "Operation failed")]);
        let error = table(&mut refused, "lab", "stock").unwrap_err().to_string();
        assert_eq!(error, "ANALYZE TABLE `lab`.`stock`: Error Table is full");
        for (answer, said) in [
            (vec![row("status", "OK")], None),
            (vec![row("status", "Table is already up to date")], None),
            (vec![row("note", "The storage engine for the table doesn't support analyze")], None),
            (vec![row("status", "Operation failed")], Some("status Operation failed")),
            (vec![row("warning", "timed out"), row("status", "OK")], Some("warning timed out")),
            (Vec::new(), Some("no status came back")),
        ] {
            assert_eq!(complaint(&answer).as_deref(), said, "{answer:?}");
        }
    }
}
