//! All engines in interleaved rounds: a process for each engine and round, so that memory, caches and
//! counters of one are nothing to the next, and one that breaks takes only its own cells with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelab::error::{io_error, Error, Result};
use tidelab::interrupt::Interrupt;
use tidelab::report::result::ServerFacts;
use tidelab::run::{conduct, Cell, Conductor, Folder, Group, Run, Series};

use crate::operation::Operation;
use crate::record::{self, Design, SERIES};
use crate::sequence::{self, Round};
use crate::store::Engine;

/// Name of the hidden command that measures one engine in one round.
pub const ROUND_COMMAND: &str = "round";

/// What the process of one engine and round is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// What is measured.
    pub design: Design,
    /// Of whom.
    pub engine: Engine,
    /// In which round, from 1.
    pub round: u32,
    /// Where its store lies; emptied.
    pub store: PathBuf,
    /// Where it puts what it found.
    pub out: PathBuf,
}

/// What that process leaves, written anew after each operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Found {
    version: String,
    counters: Vec<(String, u64)>,
    cells: Vec<Cell>,
    /// Why it ended before its last operation.
    error: Option<String>,
}

const ORDER: &str = "order.json";
const FOUND: &str = "found.json";

/// The rounds of a design. Stores and messages lie in a directory of its own.
pub struct Experiment {
    design: Design,
    work: PathBuf,
    interrupt: Interrupt,
}

impl Experiment {
    /// Of this design.
    pub fn new(design: Design, work: &Path, interrupt: Interrupt) -> Experiment {
        Experiment { design, work: work.to_path_buf(), interrupt }
    }

    /// Measures a group in a process of its own. Gives what that left, and how it ended.
    fn spawn(&self, engine: Engine, round: u32) -> Result<(Option<Found>, ExitStatus)> {
        let out = self.work.join("found");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out).map_err(io_error("cannot make", &out))?;
        let store = self.work.join("store");
        let order = Order { design: self.design.clone(), engine, round, store, out: out.clone() };
        let file = out.join(ORDER);
        write_json(&file, &order)?;
        let program = std::env::current_exe().map_err(io_error("cannot find", "this program"))?;
        let mut child = Command::new(&program)
            .arg(ROUND_COMMAND)
            .arg(&file)
            .spawn()
            .map_err(io_error("cannot start", &program))?;
        let status = self.wait(&mut child)?;
        let found =
            fs::read_to_string(out.join(FOUND)).ok().and_then(|text| serde_json::from_str(&text).ok());
        Ok((found, status))
    }

    fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait().map_err(io_error("cannot wait for", "a round"))? {
                self.interrupt.check()?;
                return Ok(status);
            }
            if let Err(interrupted) = self.interrupt.check() {
                // Its store is thrown away.
                let _ = child.kill();
                let _ = child.wait();
                return Err(interrupted);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn keep(&self, found: &Found, group: &Group, why: &str, folder: &mut Folder) -> Result<()> {
        for id in &group.cells {
            let Some(cell) = found.cells.iter().find(|cell| cell.id == *id) else {
                folder.finish(tidelab::run::conduct::failed(id, why))?;
                continue;
            };
            let mut cell = cell.clone();
            let place = folder.begin(id)?.join(SERIES);
            let made = self.work.join("found").join(series_name(&cell));
            if fs::copy(&made, &place).is_ok() {
                cell.series.push(SERIES.to_string());
            }
            folder.finish(cell)?;
        }
        Ok(())
    }
}

impl Conductor for Experiment {
    fn groups(&self) -> Vec<Group> {
        let engines = &self.design.engines;
        let of = |round: u32, place: usize| {
            let engine = engines[(place + round as usize - 1) % engines.len()];
            let cells = &self.design.operations;
            Group {
                title: format!("{engine}, round {round} of {}", self.design.rounds),
                cells: cells.iter().map(|operation| record::cell_id(engine, *operation, round)).collect(),
            }
        };
        (1..=self.design.rounds)
            .flat_map(|round| (0..engines.len()).map(move |place| (round, place)))
            .map(|(round, place)| of(round, place))
            .collect()
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let engine: Engine = first.label(record::ENGINE).parse().map_err(Error::Usage)?;
        let (found, status) = self.spawn(engine, first.round)?;
        let Some(found) = found else {
            return group.cells.iter().try_for_each(|id| {
                folder.finish(conduct::failed(id, format!("the process of {engine} ended: {status}")))
            });
        };
        let why = match &found.error {
            Some(error) => error.clone(),
            None => format!("the process of {engine} ended before: {status}"),
        };
        self.keep(&found, group, &why, folder)?;
        let facts: ServerFacts = record::facts(&found.version, &self.design.settings, &found.counters);
        run.servers.insert(engine.name().to_string(), facts);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        match fs::remove_dir_all(&self.work) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io_error("cannot remove", &self.work)(error))
            }
            _ => Ok(()),
        }
    }
}

/// The process of one engine and round. True: it came to its end.
pub fn run_round(order: &Path) -> Result<bool> {
    let text = fs::read_to_string(order).map_err(io_error("cannot read", order))?;
    let order: Order =
        serde_json::from_str(&text).map_err(|error| Error::Usage(format!("{}: {error}", order.display())))?;
    let mut found = Found { version: String::new(), counters: Vec::new(), cells: Vec::new(), error: None };
    let ended = sequence::run(&order.design, order.engine, order.round, &order.store, &mut |round| {
        let Some((cell, series)) = round.cells.last() else { return Ok(()) };
        tell(order.engine, cell);
        series.write(&order.out.join(series_name(cell)))?;
        found = of_round(round);
        write_json(&order.out.join(FOUND), &found)
    });
    if let Err(error) = &ended {
        eprintln!("  {error}");
        found.error = Some(error.to_string());
        write_json(&order.out.join(FOUND), &found)?;
    }
    Ok(ended.is_ok())
}

fn of_round(round: &Round) -> Found {
    Found {
        version: round.version.clone(),
        counters: round.counters.clone(),
        cells: round.cells.iter().map(|(cell, _): &(Cell, Series)| cell.clone()).collect(),
        error: None,
    }
}

/// One line for who watches.
fn tell(engine: Engine, cell: &Cell) {
    let operation = cell.id.label(record::OPERATION);
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

fn write_json<T: Serialize>(path: &Path, what: &T) -> Result<()> {
    let text =
        serde_json::to_string(what).map_err(|error| Error::Usage(format!("{}: {error}", path.display())))?;
    let new = path.with_extension("new");
    fs::write(&new, text).map_err(io_error("cannot write", &new))?;
    fs::rename(&new, path).map_err(io_error("cannot move", &new))
}
