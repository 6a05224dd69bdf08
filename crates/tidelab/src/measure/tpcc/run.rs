//! One TPC-C load on a running server: the tables filled, the load driven, the conditions checked.

use std::path::Path;
use std::time::{Duration, Instant};

use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::analyze::{self, Analyzed};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::{Address, Session};
use tidelab_server::telemetry::disk::Space;
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::telemetry::recorder::Recorder;
use tidelab_server::workload::tpcc::drive::{Drive, Outcomes};
use tidelab_server::workload::tpcc::loader::Load;
use tidelab_server::workload::tpcc::readout;

use super::design::{Design, Watcher, RUNNING};
use super::figures::{figures, seconds};
use crate::run::Measured;

/// A running server, and the database in it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its address.
    pub address: &'a Address,
    /// Its process; none if unknown.
    pub process: Option<u32>,
    /// The engine of the tables.
    pub engine: Engine,
    /// The database.
    pub database: &'a str,
    /// The directory of the server's files, for a recording of machine and server alongside the load;
    /// none for no recording.
    pub recorded: Option<&'a Path>,
}

/// Filled tables.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// Rows of all tables.
    pub rows: u64,
    /// Seconds for filling them.
    pub seconds: f64,
    /// Their statistics afterwards.
    pub analyzed: Analyzed,
}

/// No ANALYZE of a table takes longer than this.
const ANALYZE_LIMIT: Duration = Duration::from_secs(3600);

/// Fills the existing, empty tables, and gives the optimizer statistics of them.
pub fn load(
    target: &Target<'_>,
    design: &Design,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
) -> Result<Filled> {
    let engine = target.engine;
    let start = Instant::now();
    let of = design.scale.rows();
    let load = Load {
        address: target.address,
        database: target.database,
        scale: design.scale,
        users: design.build_users,
        seed: design.seed,
        session: &[],
        interrupt,
    };
    let rows = load.run(|rows, seconds| watcher.loading(engine, rows, of, seconds))?;
    let seconds = start.elapsed().as_secs_f64();
    watcher.begins(0, engine, "ANALYZE TABLE");
    let mut session =
        Session::connect(target.address, ANALYZE_LIMIT).map_err(|failure| Error::Statement {
            statement: format!("connecting to analyze the tables of {}", target.database),
            message: failure.to_string(),
        })?;
    let analyzed = analyze::through_session(&mut session, target.database)?;
    Ok(Filled { rows, seconds, analyzed })
}

/// One run on filled tables, with its checks. The cell gets its figures and failures. Errors: the run did not
/// come to its end. `space` gives the size of the engine's files.
pub fn run_on(
    target: &Target<'_>,
    design: &Design,
    measured: &mut Measured,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
    space: impl FnOnce() -> Space,
) -> Result<()> {
    let settle = || {
        let limit = Duration::from_secs(u64::from(design.settle_s));
        target.process.map_or(Ok(()), |process| idle::wait(process, limit, interrupt))
    };
    let cpu = || target.process.map_or(0.0, |process| process_use(process).cpu_s);
    let (engine, round, seed) = (target.engine, measured.cell.id.round, measured.cell.seed);
    settle()?;
    watcher.begins(round, engine, RUNNING);
    let drive = Drive {
        address: target.address,
        server: target.process,
        database: target.database,
        scale: design.scale,
        users: design.users,
        ramp_up: design.ramp_up(),
        duration: Duration::from_secs(u64::from(design.duration_s)),
        seed,
        interrupt,
    };
    let start = |directory| Recorder::of_server(target.process, directory, target.address);
    let recorder = target.recorded.map(start).transpose()?;
    let outcomes = drive.run(|second| watcher.second(second));
    measured.telemetry = recorder.map(|recorder| recorder.stop().series);
    let outcomes = outcomes?;
    measured.warm_up = outcomes.ramp_up;
    measured.cell.failures.extend(outcomes.errors.iter().cloned());
    watcher.begins(round, engine, "waiting until the server is idle");
    let before = cpu();
    settle()?;
    let after = cpu() - before;
    measured.seconds.rows = seconds(&outcomes);
    let figures = figures(&outcomes, after, space());
    watcher.begins(round, engine, "checking the conditions");
    let start = Instant::now();
    let found = readout::check(target.address, target.database, design.scale, design.users.min(READERS))?;
    let check_s = start.elapsed().as_secs_f64();
    measured.cell.failures.extend(found.complaints());
    measured.cell.failures.extend(compare(&outcomes, found.new_orders));
    measured.cell.add(figures);
    measured.cell.figure(CHECK, check_s);
    if measured.cell.figures.get("nopm").is_none_or(|nopm| *nopm <= 0.0) {
        measured.cell.failures.push("not one new order came to its end".to_string());
    }
    Ok(())
}

/// The figure for the seconds of the check of the conditions.
pub const CHECK: &str = "check_s";
/// Parallel connections of the check for reading the tables.
const READERS: u32 = 4;

/// Compares the order numbers given out with the orders reported to clients.
pub fn compare(outcomes: &Outcomes, in_tables: i64) -> Option<String> {
    if i64::try_from(outcomes.orders_in_all) == Ok(in_tables) || !outcomes.errors.is_empty() {
        return None;
    }
    Some(format!(
        "clients were told of {} new orders, the districts gave out {in_tables} numbers",
        outcomes.orders_in_all
    ))
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::outcomes;
    use super::*;

    #[test]
    fn orders_in_the_tables_must_be_those_of_the_clients() {
        let mut outcomes = outcomes();
        assert_eq!(compare(&outcomes, 120), None);
        assert!(compare(&outcomes, 119).unwrap().contains("119"));
        // A client that ended early may have an order in doubt.
        outcomes.errors.push("x".to_string());
        assert_eq!(compare(&outcomes, 121), None);
    }
}
