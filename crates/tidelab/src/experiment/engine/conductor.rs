//! All engines in interleaved rounds, with a process for each engine and round.
//!
//! Memory, caches and counters of one process are nothing to the next. A broken process takes only its own
//! cells with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::interrupt::Interrupt;

use super::design::{cell_id, facts, Design, Engine, ENGINE, SERIES};
use crate::run::folder::write_json;
use crate::run::{conduct, Cell, Conductor, Folder, Group, Run};

/// The measuring program, in the folder of this one.
pub const PROGRAM: &str = "tidelab-engine";

/// Name of the hidden command to measure one engine in one round.
pub const ROUND_COMMAND: &str = "round";

/// The task of a process: one engine in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoundOrder {
    /// The design.
    pub design: Design,
    /// The engine.
    pub engine: Engine,
    /// The round, from 1.
    pub round: u32,
    /// The directory of its store; emptied.
    pub store: PathBuf,
    /// The folder for its result.
    pub out: PathBuf,
}

/// The result of such a process, written anew after each operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoundResult {
    /// The engine's version.
    pub version: String,
    /// The engine's own counters.
    pub counters: Vec<(String, u64)>,
    /// The operations so far. The series of each is a file of its own, named after its folder.
    pub cells: Vec<Cell>,
    /// Why it ended before its last operation.
    pub error: Option<String>,
}

const ORDER: &str = "order.json";
/// The result's file in [`RoundOrder::out`].
pub const ROUND_RESULT: &str = "found.json";

/// The program in the folder of this one, or this one itself.
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

    /// Measures a group in a process of its own. Returns its result, if any, and its exit status.
    fn spawn(&self, engine: Engine, round: u32) -> Result<(Option<RoundResult>, ExitStatus)> {
        let out = self.work.join("found");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out).map_err(io_error("cannot make", &out))?;
        let store = self.work.join("store");
        let order = RoundOrder { design: self.design.clone(), engine, round, store, out: out.clone() };
        let file = out.join(ORDER);
        write_json(&file, &order)?;
        let program = program()?;
        let mut child = Command::new(&program)
            .arg(ROUND_COMMAND)
            .arg(&file)
            .spawn()
            .map_err(io_error("cannot start", &program))?;
        let status = self.wait(&mut child)?;
        let result =
            fs::read_to_string(out.join(ROUND_RESULT)).ok().and_then(|text| serde_json::from_str(&text).ok());
        Ok((result, status))
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

    fn keep(&self, result: &RoundResult, group: &Group, why: &str, folder: &mut Folder) -> Result<()> {
        for id in &group.cells {
            let Some(cell) = result.cells.iter().find(|cell| cell.id == *id) else {
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
        let (result, status) = self.spawn(engine, first.round)?;
        let Some(result) = result else {
            return group.cells.iter().try_for_each(|id| {
                folder.finish(conduct::failed(id, format!("the process of {engine} ended: {status}")))
            });
        };
        let why = match &result.error {
            Some(error) => error.clone(),
            None => format!("the process of {engine} ended before: {status}"),
        };
        self.keep(&result, group, &why, folder)?;
        let facts = facts(&result.version, &self.design.settings, &result.counters);
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
