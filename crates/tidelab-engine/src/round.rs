//! The process of one engine and round: reads its order, writes its result.

use std::fs;
use std::path::Path;

use tidelab::experiment::engine::{RoundOrder, RoundResult, OPERATION, ROUND_RESULT};
use tidelab::run::folder::write_json;
use tidelab::run::{Cell, Series};
use tidelab_server::error::{io_error, Error, Result};

use crate::operation::Operation;
use crate::sequence::{self, Round};
use crate::store::Engine;

/// The process of one engine and round. True: it came to its end.
pub fn run_round(order: &Path) -> Result<bool> {
    let text = fs::read_to_string(order).map_err(io_error("cannot read", order))?;
    let order: RoundOrder =
        serde_json::from_str(&text).map_err(|error| Error::Usage(format!("{}: {error}", order.display())))?;
    let mut result = RoundResult::default();
    let ended = sequence::run(&order.design, order.engine, order.round, &order.store, &mut |round| {
        let Some((cell, series)) = round.cells.last() else { return Ok(()) };
        tell(order.engine, cell);
        series.write(&order.out.join(series_name(cell)))?;
        result = of_round(round);
        write_json(&order.out.join(ROUND_RESULT), &result)
    });
    if let Err(error) = &ended {
        eprintln!("  {error}");
        result.error = Some(error.to_string());
        write_json(&order.out.join(ROUND_RESULT), &result)?;
    }
    Ok(ended.is_ok())
}

fn of_round(round: &Round) -> RoundResult {
    RoundResult {
        version: round.version.clone(),
        counters: round.counters.clone(),
        cells: round.cells.iter().map(|(cell, _): &(Cell, Series)| cell.clone()).collect(),
        error: None,
    }
}

/// One line for a person watching.
fn tell(engine: Engine, cell: &Cell) {
    let operation = cell.id.label(OPERATION);
    let unit = operation.parse::<Operation>().map_or("calls", Operation::unit);
    let of = |name: &str| cell.figures.get(name).copied();
    let quiet = of("quiet_s").map_or(String::new(), |seconds| format!(", quiet after {seconds:.1} s"));
    let rate = of("rate_per_s").unwrap_or_default();
    let failed = if cell.counts() { "" } else { "  FAILED" };
    eprintln!("  {engine:<8} {operation:<21} {rate:>12.0} {unit}/s{quiet}{failed}");
}

fn series_name(cell: &Cell) -> String {
    format!("{}.csv", cell.id.folder())
}
