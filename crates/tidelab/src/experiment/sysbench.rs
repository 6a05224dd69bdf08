//! The kind `sysbench`: sysbench's workloads on the engines of one server, rounds interleaved.

use serde::Deserialize;
use tidelab_server::error::{Error, Result};
use tidelab_server::server::analyze::Analyzed;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{self, Setting};
use tidelab_server::server::Server;
use tidelab_server::workload::sysbench::{Load, Workload};

use crate::measure::sysbench::{Design, Experiment};
use crate::report::progress::sysbench::Progress;
use crate::run::bound::{Driven, Unbounded};
use crate::run::server_files::note_status;
use crate::run::{self, Cell, CellId, Folder, Group, Measured, Paths, Run};

/// The options of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    engines: Vec<Engine>,
    workloads: Vec<Workload>,
    rounds: u32,
    threads: u32,
    tables: u32,
    rows: u64,
    warm_up_s: u32,
    /// Seconds at most until the rates are steady; not there: the warm-up is fixed.
    #[serde(default)]
    warm_up_limit_s: u32,
    time_s: u32,
    /// Seconds of updates right before each workload that only reads.
    update_s: u32,
    settle_s: u32,
    cache_mb: u64,
}

/// Measures.
pub struct Conductor<'a> {
    design: Design,
    settings: Vec<Setting>,
    paths: Paths<'a>,
    server: Option<Server>,
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        if options.engines.is_empty()
            || options.workloads.is_empty()
            || options.rounds == 0
            || options.threads == 0
        {
            return Err(Error::Usage(format!(
                "{}: engines, workloads, rounds and threads must be there and more than 0",
                run.name
            )));
        }
        let design = Design {
            // Always in this order: reads before the workloads that change the number of rows.
            workloads: Workload::ALL.into_iter().filter(|w| options.workloads.contains(w)).collect(),
            engines: options.engines,
            rounds: options.rounds,
            load: Load {
                tables: options.tables,
                rows: options.rows,
                threads: options.threads,
                warm_up_s: options.warm_up_s,
                time_s: options.time_s,
            },
            warm_up_limit_s: options.warm_up_limit_s,
            update_s: options.update_s,
            settle_s: options.settle_s,
        };
        design.describe(run);
        let settings = settings::comparison(&design.engines, options.cache_mb, design.load.threads + 20);
        Ok(Conductor { design, settings, paths, server: None })
    }
}

fn id(engine: Engine, workload: Workload, round: u32) -> CellId {
    CellId::new([("engine", engine.to_string()), ("workload", workload.to_string())], round)
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let each = |round| {
            let pairs =
                self.design.workloads.iter().flat_map(|w| self.design.engines.iter().map(move |e| (e, w)));
            pairs.map(move |(e, w)| id(*e, *w, round)).collect()
        };
        (1..=self.design.rounds)
            .map(|round| Group { title: format!("round {round}"), cells: each(round) })
            .collect()
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(round_number) = group.cells.first().map(|id| id.round) else { return Ok(()) };
        let mut server = match self.server.take() {
            Some(server) => server,
            None => {
                let engines = &self.design.engines;
                self.paths.start_noted("server", engines, &self.settings, run, folder)?
            }
        };
        for measured in round(&self.design, round_number, &mut server, self.paths, run)? {
            let cell = kept(&measured, &measured.cell.id, &server, run, folder)?;
            folder.finish(cell)?;
        }
        self.server = Some(server);
        Ok(())
    }

    fn rules(&self) -> Vec<(String, String)> {
        vec![("comparison.toml".to_string(), settings::COMPARISON.to_string())]
    }

    fn unbounded(&self) -> Vec<Unbounded> {
        let of = |w: &Workload| {
            Unbounded::new([("workload", w.to_string())], Driven::Sysbench(*w), self.design.load.threads)
        };
        self.design.workloads.iter().map(of).collect()
    }

    fn close(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(false))
    }
}

/// Measures one round of a design on a running server. The run gets notes of ANALYZE and of warm-ups
/// that did not become steady. Errors: the round ended early.
pub(super) fn round(
    design: &Design,
    round: u32,
    server: &mut Server,
    paths: Paths<'_>,
    run: &mut Run,
) -> Result<Vec<Measured>> {
    let mut progress = Progress::of_round(design, round);
    let experiment = Experiment::new(design, server, paths.interrupt, &mut progress);
    let record = experiment.with_telemetry().rounds(round..=round);
    progress.close();
    if let Some(why) = record.ended_early {
        paths.interrupt.check()?;
        return Err(Error::Load { what: format!("round {round}"), message: why });
    }
    for made in &record.analyses {
        run.note(Analyzed::note(made.engine.name()));
    }
    for Measured { cell, warm_up, .. } in record.cells.iter().filter(|m| m.warm_up.is_unsteady()) {
        let (workload, engine) = (cell.id.label("workload"), cell.id.label("engine"));
        run.note(format!(
            "{workload} on {engine}, round {round}: not steady after {:.0} s of warm-up",
            warm_up.seconds
        ));
    }
    Ok(record.cells)
}

/// A measurement as a cell of a run, with the server's status in its folder. The folder still has to
/// finish it.
pub(super) fn kept(
    measured: &Measured,
    id: &CellId,
    server: &Server,
    run: &Run,
    folder: &Folder,
) -> Result<Cell> {
    let making = folder.begin(id)?;
    let mut cell = measured.kept(id, &run.metrics, &making)?;
    cell.files = note_status(server, measured.cell.id.label("engine"), &making)?;
    Ok(cell)
}
