//! TPC-C on several engines. Each engine has a server of its own and is loaded once; every round starts
//! on the same loaded data. Rounds interleave the engines.
//!
//! The loaded data directory is set aside and copied back before each round; the last round moves it. A copy
//! takes a fraction of a load's time. All rounds begin on the same files, with a server just started.
//!
//! A cell counts only if the conditions hold afterwards and the tables grew as the clients were told. The
//! number of new orders and the number of order numbers given out must be the same.

pub mod design;
pub mod figures;
pub mod run;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidelab_server::error::{io_error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::allocator::Allocator;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::session::Address;
use tidelab_server::server::settings::Setting;
use tidelab_server::server::{Data, Server, Wanted};
use tidelab_server::telemetry::disk;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::workload::tpcc::make_tables;

use super::fatal;
use super::plan::turns;
use crate::run::server_files::{note_server_files, note_status};
use crate::run::{CellId, Measured};
use run::{load, run_on, Filled, Target};

pub use design::{Design, Loaded, Watcher, RUNNING};

/// All records.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The loads.
    pub loads: Vec<Loaded>,
    /// The runs in the order of making.
    pub cells: Vec<Measured>,
    /// The facts of each engine's server.
    pub servers: BTreeMap<Engine, ServerFacts>,
    /// Files put into [`Place::kept`].
    pub files: Vec<String>,
    /// Why it ended before its last step.
    pub ended_early: Option<String>,
}

/// A measurement to be made, without figures.
pub fn measurement(engine: Engine, round: u32, seed: u64) -> Measured {
    Measured::new(CellId::new([("engine", engine.to_string())], round), seed, figures::SECONDS)
}

/// The common parts of all servers.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The installed MariaDB.
    pub prefix: &'a Path,
    /// The TidesDB plugin.
    pub plugin: &'a Path,
    /// The servers' allocator, where it is not the C library's.
    pub allocator: Option<Allocator>,
    /// The groups for servers to join, by their `cgroup.procs`.
    pub groups: &'a [PathBuf],
    /// The directory of servers and loaded data; each server is in `server` below it.
    pub directory: &'a Path,
    /// The folder of the measured cell: gets the server's option file, variables and status. None without a
    /// kept run.
    pub kept: Option<&'a Path>,
}

/// Carries a design out.
pub struct Experiment<'a> {
    design: &'a Design,
    place: Place<'a>,
    settings: &'a BTreeMap<Engine, Vec<Setting>>,
    interrupt: &'a Interrupt,
    watcher: &'a mut dyn Watcher,
    record: Record,
}

impl<'a> Experiment<'a> {
    /// With the settings of each engine's server.
    pub fn new(
        design: &'a Design,
        place: Place<'a>,
        settings: &'a BTreeMap<Engine, Vec<Setting>>,
        interrupt: &'a Interrupt,
        watcher: &'a mut dyn Watcher,
    ) -> Experiment<'a> {
        Experiment { design, place, settings, interrupt, watcher, record: Record::default() }
    }

    /// Carries it out. With `keep`, the last server's files stay.
    pub fn run(mut self, keep: bool) -> Record {
        if let Err(error) = self.all(keep) {
            self.record.ended_early = Some(error.to_string());
        }
        // Loaded data can be loaded again, and no later run asks for them.
        let _ = fs::remove_dir_all(self.place.directory.join("loaded"));
        self.record
    }

    /// One round on one engine. Loads the engine's tables first, unless an earlier call did. The loaded data
    /// stay for the following rounds; after the design's last round they are gone. Errors: nothing more can
    /// be measured.
    pub fn one(mut self, engine: Engine, round: u32) -> Result<Record> {
        let made = fs::read_to_string(self.made(engine)).unwrap_or_default();
        if made != self.recipe(engine) {
            self.load(engine)?;
        }
        self.cell(engine, round, false)?;
        Ok(self.record)
    }

    fn all(&mut self, keep: bool) -> Result<()> {
        for engine in self.design.engines.clone() {
            self.load(engine)?;
        }
        for round in 1..=self.design.rounds {
            for engine in turns(&self.design.engines, round - 1) {
                self.cell(engine, round, keep)?;
            }
        }
        Ok(())
    }

    fn frozen(&self, engine: Engine) -> PathBuf {
        self.place.directory.join("loaded").join(engine.database())
    }

    /// The file with the recipe of the loaded data; it exists only while they are whole.
    fn made(&self, engine: Engine) -> PathBuf {
        self.frozen(engine).with_extension("made")
    }

    /// The recipe of an engine's data. Data of another recipe, left by an earlier run, are made anew.
    fn recipe(&self, engine: Engine) -> String {
        let (design, place) = (self.design, self.place);
        let settings: BTreeMap<&str, &str> = self
            .settings
            .get(&engine)
            .into_iter()
            .flatten()
            .map(|s| (s.name.as_ref(), s.value.as_str()))
            .collect();
        format!(
            "{:?} seed {} build users {}, analyzed\n{}\n{}\n{settings:?}\n",
            design.scale,
            design.seed,
            design.build_users,
            place.prefix.display(),
            place.plugin.display()
        )
    }

    fn start(&self, engine: Engine, data: Data<'_>) -> Result<Server> {
        let directory = self.place.directory.join("server");
        let none = Vec::new();
        let wanted = Wanted {
            environment: &[],
            prefix: self.place.prefix,
            engines: &[engine],
            plugin: Some(self.place.plugin),
            directory: &directory,
            data,
            settings: self.settings.get(&engine).unwrap_or(&none),
            allocator: self.place.allocator,
            groups: self.place.groups,
        };
        Server::start(&wanted, self.interrupt)
    }

    fn load(&mut self, engine: Engine) -> Result<()> {
        let scale = self.design.scale;
        let server = self.start(engine, Data::Empty)?;
        let none = Vec::new();
        let asked = self.settings.get(&engine).unwrap_or(&none);
        let facts = ServerFacts::new(&self.place.prefix.to_string_lossy(), asked, server.variables());
        self.record.servers.insert(engine, facts);
        let address = Address::root(server.socket());
        let before = process_use(server.pid()).cpu_s;
        make_tables(&address, engine.database(), engine, scale, false)?;
        let (process, database) = (Some(server.pid()), engine.database());
        let target = Target { address: &address, process, engine, database, recorded: None };
        let Filled { rows, seconds, analyzed } = load(&target, self.design, self.interrupt, self.watcher)?;
        let server_cpu_s = process_use(server.pid()).cpu_s - before;
        self.watcher.begins(0, engine, "setting the loaded data aside");
        let (frozen, made) = (self.frozen(engine), self.made(engine));
        // From here on, until it is written again, nothing there is whole.
        let _ = fs::remove_file(&made);
        server.freeze(&frozen)?;
        fs::write(&made, self.recipe(engine)).map_err(io_error("cannot write", &made))?;
        let space = disk::of_engine(&frozen, engine);
        let loaded = Loaded { engine, rows, seconds, analyzed, server_cpu_s, space };
        self.watcher.loaded(&loaded);
        self.record.loads.push(loaded);
        Ok(())
    }

    /// Fails only when nothing more can be measured.
    fn cell(&mut self, engine: Engine, round: u32, keep: bool) -> Result<()> {
        let frozen = self.frozen(engine);
        let last = round == self.design.rounds;
        self.watcher.begins(round, engine, "starting on the loaded data");
        if last {
            let made = self.made(engine);
            fs::remove_file(&made).map_err(io_error("cannot remove", &made))?;
        }
        let data = if last { Data::Move(&frozen) } else { Data::Copy(&frozen) };
        let mut server = self.start(engine, data)?;
        let seed = self.design.seed + u64::from(round);
        let mut measured = measurement(engine, round, seed);
        let address = Address::root(server.socket());
        let directory = server.directory().to_path_buf();
        let recorded = self.place.kept.map(|_| directory.as_path());
        let (process, database) = (Some(server.pid()), engine.database());
        let target = Target { address: &address, process, engine, database, recorded };
        let space = || disk::of_engine(&directory, engine);
        let ended = run_on(&target, self.design, &mut measured, self.interrupt, self.watcher, space)
            .and_then(|()| server.check_alive());
        if let Err(error) = ended {
            measured.cell.failures.push(error.to_string());
            let alive = server.check_alive();
            self.keep(measured);
            // The files of one that is gone stay: they are what shows why.
            alive?;
            fatal(error)?;
            return server.stop(false);
        }
        let good = measured.counts();
        self.keep(measured);
        if let Some(folder) = self.place.kept {
            self.record.files = note_server_files(&server, folder)?;
            self.record.files.extend(note_status(&server, engine, folder)?);
        }
        let last = last && turns(&self.design.engines, round - 1).last() == Some(&engine);
        server.stop(!good || (keep && last))?;
        if !good {
            self.preserve(engine, round)?;
        }
        Ok(())
    }

    /// The files of a run with failed checks stay, under a name of their own.
    fn preserve(&self, engine: Engine, round: u32) -> Result<()> {
        let from = self.place.directory.join("server");
        let to = self.place.directory.join(format!("failed-{}-{round}", engine.database()));
        let _ = fs::remove_dir_all(&to);
        fs::rename(&from, &to).map_err(io_error("cannot move", &from))
    }

    fn keep(&mut self, measured: Measured) {
        self.watcher.measured(&measured);
        self.record.cells.push(measured);
    }
}

#[cfg(test)]
mod tests {
    use tidelab_server::workload::tpcc::drive::Second;
    use tidelab_server::workload::tpcc::Scale;

    use super::*;

    struct Unwatched;

    impl Watcher for Unwatched {
        fn loading(&mut self, _: Engine, _: u64, _: u64, _: f64) {}
        fn loaded(&mut self, _: &Loaded) {}
        fn begins(&mut self, _: u32, _: Engine, _: &str) {}
        fn second(&mut self, _: &Second) {}
        fn measured(&mut self, _: &Measured) {}
    }

    #[test]
    fn what_an_earlier_run_loaded_otherwise_or_half_is_loaded_anew() {
        let folder = tempfile::tempdir().unwrap();
        let loads = |design: &Design| {
            // Without a MariaDB, loading fails first.
            let place = Place {
                prefix: folder.path(),
                plugin: folder.path(),
                allocator: None,
                groups: &[],
                directory: folder.path(),
                kept: None,
            };
            let interrupt = Interrupt::default();
            let settings = BTreeMap::new();
            let mut unwatched = Unwatched;
            let experiment = Experiment::new(design, place, &settings, &interrupt, &mut unwatched);
            let made = (experiment.made(Engine::TidesDb), experiment.recipe(Engine::TidesDb));
            assert!(experiment.one(Engine::TidesDb, 1).is_err(), "there is no server");
            made
        };
        let mut design = Design {
            engines: vec![Engine::TidesDb],
            rounds: 1,
            scale: Scale::full(1),
            users: 1,
            build_users: 1,
            ramp_up_s: 0,
            ramp_up_limit_s: 0,
            duration_s: 1,
            settle_s: 0,
            seed: 1,
            options: None,
            memory_scale: 1.0,
        };
        let (made, recipe) = loads(&design);
        fs::create_dir_all(made.parent().unwrap()).unwrap();
        // As the data of an earlier run's last round leave it: a folder, and no word of how it was made.
        fs::create_dir_all(made.with_extension("")).unwrap();
        loads(&design);
        fs::write(&made, &recipe).unwrap();
        // It is whole: the run begins on it, and from then on it is not.
        loads(&design);
        assert!(!made.exists());
        fs::write(&made, &recipe).unwrap();
        design.scale = Scale::full(2);
        let (_, other) = loads(&design);
        assert!(made.exists() && other != recipe, "another size is not begun on");
    }
}
