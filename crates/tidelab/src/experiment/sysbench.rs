//! The kind `sysbench`: sysbench's workloads on the engines of one server, rounds interleaved.

use serde::Deserialize;
use tidelab_server::error::{Error, Result};
use tidelab_server::server::analyze::Analyzed;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{self, Setting};
use tidelab_server::server::{Data, Server};
use tidelab_server::workload::sysbench::{Load, Workload};

use super::confined::{self, settings_for, Confined, Wants};
use crate::measure::plan::turns;
use crate::measure::sysbench::{Design, Experiment};
use crate::report::progress::sysbench::Progress;
use crate::run::bound::{Driven, Unbounded};
use crate::run::server_files::{note_server, note_status};
use crate::run::{self, Axis, Cell, CellId, Folder, Group, Measured, Paths, Role, Run};

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
    /// Seconds of updates right before each read-only workload.
    update_s: u32,
    settle_s: u32,
    cache_mb: u64,
    /// Limits of memory: with one, every engine has a server and a group of its own.
    #[serde(default)]
    memory_limits_mb: Vec<u64>,
    /// The size of the steady disk; not there: the data directory's own disk.
    steady_disk_mb: Option<u64>,
}

/// Measures.
pub struct Conductor<'a> {
    design: Design,
    cache_mb: u64,
    wants: Wants,
    settings: Vec<Setting>,
    paths: Paths<'a>,
    // The server goes before the disk that it is on.
    server: Option<Server>,
    confined: Option<Confined>,
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
        let wants = Wants { limits_mb: options.memory_limits_mb, disk_mb: options.steady_disk_mb };
        wants.check(&run.name)?;
        design.describe(run);
        if !wants.limits_mb.is_empty() {
            run.axes.push(Axis::new(LIMIT, "Memory limit, MB", Role::Number, &wants.limits_mb));
        }
        let cache_mb = options.cache_mb;
        let settings = settings::comparison(&design.engines, cache_mb, design.load.threads + 20);
        Ok(Conductor { design, cache_mb, wants, settings, paths, server: None, confined: None })
    }

    /// The cell of an engine and a workload.
    fn id(&self, engine: Engine, workload: Workload, limit_mb: Option<u64>, round: u32) -> CellId {
        let limit = limit_mb.map(|mb| (LIMIT, mb.to_string()));
        let labels = [("engine", engine.to_string()), ("workload", workload.to_string())];
        CellId::new(labels.into_iter().chain(limit), round)
    }

    /// The cells of some engines, workload by workload.
    fn cells(&self, engines: &[Engine], limit_mb: Option<u64>, round: u32) -> Vec<CellId> {
        let workloads = self.design.workloads.iter();
        let pairs = workloads.flat_map(|w| engines.iter().map(move |e| (e, w)));
        pairs.map(|(e, w)| self.id(*e, *w, limit_mb, round)).collect()
    }

    /// One engine's part of a round, on a server of its own.
    fn measure_confined(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let confined = match self.confined.take() {
            Some(confined) => confined,
            None => Confined::make(&self.wants, self.paths, run)?,
        };
        let confined = self.confined.insert(confined);
        let engine: Engine = first.label("engine").parse()?;
        let limit_mb: Option<u64> = first.label(LIMIT).parse().ok();
        confined.ready(limit_mb)?;
        let data = confined.data(self.paths);
        let paths = Paths { data: &data, ..self.paths };
        let settings = settings_for(engine, self.cache_mb, self.design.load.threads, limit_mb.is_some());
        let before = confined.kills();
        let mut server = paths.start_in(&[engine], &settings, Data::Empty, &confined.groups())?;
        run.servers.insert(engine.to_string(), paths.facts(&settings, &server));
        note_server(run, folder.path(), engine.name(), &server)?;
        let design = Design { engines: vec![engine], ..self.design.clone() };
        let measured = round(&design, first.round, &mut server, paths, run);
        let killed = confined.kills() > before;
        if killed {
            // The server is gone: no status of it can be kept, and its cells say why.
            let why = format!("the kernel killed the server at its limit of {} MB", first.label(LIMIT));
            for id in &group.cells {
                folder.finish(run::conduct::failed(id, &why))?;
            }
            return Ok(());
        }
        for measured in measured? {
            let workload: Workload = measured.cell.id.label("workload").parse()?;
            let id = self.id(engine, workload, limit_mb, first.round);
            let cell = kept(&measured, &id, &server, run, folder)?;
            folder.finish(cell)?;
        }
        server.stop(false)
    }
}

/// The axis of limits.
const LIMIT: &str = "memory_limit_mb";

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let engines = &self.design.engines;
        let limits: Vec<Option<u64>> = match self.wants.limits_mb.as_slice() {
            [] => vec![None],
            limits => limits.iter().copied().map(Some).collect(),
        };
        let mut groups = Vec::new();
        for round in 1..=self.design.rounds {
            if self.wants.nothing() {
                let cells = self.cells(engines, None, round);
                groups.push(Group { title: format!("round {round}"), cells });
                continue;
            }
            for limit in &limits {
                let within = limit.map_or(String::new(), |mb| format!(" within {mb} MB"));
                for engine in turns(engines, round - 1) {
                    let title = format!("round {round}: {engine}{within}");
                    groups.push(Group { title, cells: self.cells(&[engine], *limit, round) });
                }
            }
        }
        groups
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        if !self.wants.nothing() {
            return self.measure_confined(group, run, folder);
        }
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
        let mut rules = vec![("comparison.toml".to_string(), settings::COMPARISON.to_string())];
        if !self.wants.limits_mb.is_empty() {
            rules.push(("equal-memory.toml".to_string(), confined::RULES.to_string()));
        }
        rules
    }

    fn unbounded(&self) -> Vec<Unbounded> {
        let of = |w: &Workload| {
            Unbounded::new([("workload", w.to_string())], Driven::Sysbench(*w), self.design.load.threads)
        };
        self.design.workloads.iter().map(of).collect()
    }

    fn close(&mut self) -> Result<()> {
        let stopped = self.server.take().map_or(Ok(()), |server| server.stop(false));
        self.confined = None;
        stopped
    }
}

/// Measures one round of a design on a running server. The run gets notes of ANALYZE and of unsteady
/// warm-ups. Errors: the round ended early.
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use tidelab_server::interrupt::Interrupt;

    use super::*;
    use crate::run::Conductor as _;

    fn groups(more: &str) -> std::result::Result<(Vec<Group>, Run), String> {
        let interrupt = Interrupt::default();
        let path = Path::new("/nowhere");
        let paths =
            Paths { prefix: path, plugin: path, data: path, file_folder: path, interrupt: &interrupt };
        let text = format!(
            "engines = ['TidesDB', 'InnoDB']\nworkloads = ['insert', 'read_only']\nrounds = 2\nthreads = 8\ntables = 1\n\
             rows = 10\nwarm_up_s = 1\ntime_s = 1\nupdate_s = 0\nsettle_s = 0\ncache_mb = 64\n{more}"
        );
        let mut run = Run::new("t", "T", "sysbench");
        let options = toml::from_str(&text).map_err(|e| e.to_string())?;
        let conductor = Conductor::open(options, paths, &mut run).map_err(|e| e.to_string())?;
        Ok((conductor.groups(), run))
    }

    #[test]
    fn engines_share_a_server_and_within_limits_each_has_one() {
        let (plain, run) = groups("").unwrap();
        assert_eq!((plain.len(), plain[0].cells.len(), run.axes.len()), (2, 4, 2));
        let (limited, run) = groups("memory_limits_mb = [512, 1024]\nsteady_disk_mb = 2048").unwrap();
        assert_eq!((limited.len(), limited[0].cells.len(), run.axes.len()), (8, 2, 3));
        assert_eq!(limited[4].title, "round 2: InnoDB within 512 MB", "turns rotate");
        let ids: HashSet<String> = limited.iter().flat_map(|g| &g.cells).map(CellId::folder).collect();
        assert_eq!(ids.len(), 16);
        let (steady, run) = groups("steady_disk_mb = 2048").unwrap();
        assert_eq!(
            (steady.len(), run.axes.len()),
            (4, 2),
            "an own server each, as the throttle is a server's"
        );
        assert!(groups("memory_limits_mb = [5]").unwrap_err().contains("memory_limits_mb"));
    }
}
