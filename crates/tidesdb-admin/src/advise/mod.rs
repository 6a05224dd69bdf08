//! Advice to a running server: its tables fit for TidesDB, the obstacles of the others and their remedies,
//! and the statements in a safe order. Nothing on the server changes.
//!
//! - `server`: reads information_schema
//! - `table`: a table as it was read, and the judgement
//! - `family`: tables linked by foreign keys
//! - `summary`: the report in a few lines
//! - `report`: text, JSON and SQL
//! - `recipe`: a script for a move by dump

mod facts;
mod family;
mod recipe;
mod report;
mod server;
mod summary;
mod table;

use crate::cli::Advise;
use crate::output::{Failure, Out};
use crate::DONE;

use facts::Facts;
use report::Report;
use server::Server;

/// Reads the server and prints the advice.
pub fn run(options: &Advise, out: &mut Out<'_>) -> Result<u8, Failure> {
    let mut server = Server::connect(options)?;
    let mut facts = server.facts()?;
    let mut tables = server.tables(&facts, &options.database)?;
    if facts.has_engine {
        facts.unread_keys = server.read_dropped_keys(&mut tables).err();
    }
    facts.unread_sizes = server.read_sizes(&mut tables).err();
    let by_dump = family::judged(tables.clone(), &Facts { by_dump: true, ..facts.clone() });
    if options.dump {
        recipe::print(options, &by_dump, out)?;
        return Ok(DONE);
    }
    let report = Report::new(facts, tables, options.rate);
    match options.sql {
        Some(direction) => report.sql(direction, out)?,
        None => report.print((!options.full).then_some(&by_dump), out)?,
    }
    Ok(DONE)
}
