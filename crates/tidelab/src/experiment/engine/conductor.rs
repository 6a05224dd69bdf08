//! All engines in interleaved rounds: a process for each engine and round, so that memory, caches and
//! counters of one are nothing to the next, and one that breaks takes only its own cells with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::interrupt::Interrupt;

use super::design::{cell_id, facts, Design, Engine, ENGINE, SERIES};
use crate::run::{conduct, Cell, Conductor, Folder, Group, Run};

/// The program that measures; it lies beside this one.
pub const PROGRAM: &str = "tidelab-engine";

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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// The engine's version.
    pub version: String,
    /// The engine's own counters.
    pub counters: Vec<(String, u64)>,
    /// Of the operations so far; the series of each lies beside, by its folder's name with `.csv`.
    pub cells: Vec<Cell>,
    /// Why it ended before its last operation.
    pub error: Option<String>,
}

const ORDER: &str = "order.json";
/// Its file, in the order's `out`.
pub const FOUND: &str = "found.json";

/// The program beside this one, which may be this one.
fn program() -> Result<PathBuf> {
    let this = std::env::current_exe().map_err(io_error("cannot find", "this program"))?;
    let program = this.with_file_name(PROGRAM);
    if program.exists() {
        return Ok(program);
    }
    Err(Error::Missing {
        what: program.display().to_string(),
        remedy: "make bench-engine builds it with RocksDB".to_string(),
    })
}

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
        let program = program()?;
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
                folder.finish(conduct::failed(id, why))?;
                continue;
            };
            let mut cell = cell.clone();
            let place = folder.begin(id)?.join(SERIES);
            let made = self.work.join("found").join(format!("{}.csv", id.folder()));
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
                cells: cells.iter().map(|operation| cell_id(engine, *operation, round)).collect(),
            }
        };
        (1..=self.design.rounds)
            .flat_map(|round| (0..engines.len()).map(move |place| (round, place)))
            .map(|(round, place)| of(round, place))
            .collect()
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let engine: Engine = first.label(ENGINE).parse().map_err(Error::Usage)?;
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
        let facts = facts(&found.version, &self.design.settings, &found.counters);
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

fn write_json<T: Serialize>(path: &Path, what: &T) -> Result<()> {
    let text =
        serde_json::to_string(what).map_err(|error| Error::Usage(format!("{}: {error}", path.display())))?;
    let new = path.with_extension("new");
    fs::write(&new, text).map_err(io_error("cannot write", &new))?;
    fs::rename(&new, path).map_err(io_error("cannot move", &new))
}
