//! The loaded data directories: one for each engine and family, below `loaded` in the data directory.
//!
//! A load runs without limit and on the data directory's own disk: it is not measured, and the servers of
//! all limits start on copies of the same files.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tidelab_server::error::{io_error, Result};
use tidelab_server::server::analyze::{self, Analyzed};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::Address;
use tidelab_server::server::{Data, Server};
use tidelab_server::telemetry::idle;
use tidelab_server::workload::sysbench::{Extra, Load, Sysbench, Target};
use tidelab_server::workload::tpcc::make_tables;

use super::measures::value_option;
use super::{connections, within_a_limit, Conductor, Family};
use crate::measure::tpcc::run::{load, Target as TpccTarget};
use crate::report::progress::tpcc::Progress;
use crate::report::sparks::Sparks;
use crate::run::Run;

/// The cache of a server for loading only, in megabytes.
const LOADING_CACHE_MB: u64 = 1024;
/// The longest wait until a loaded server is idle: its deferred work belongs to the load.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

impl Conductor<'_> {
    /// The loaded data of a family, made unless they are there; none where the family loads by itself.
    pub(super) fn image(&self, family: Family, engine: Engine, run: &mut Run) -> Result<Option<PathBuf>> {
        if family == Family::Iibench {
            return Ok(None);
        }
        let folder = self.paths.data.join("loaded");
        fs::create_dir_all(&folder).map_err(io_error("cannot make", &folder))?;
        let image = folder.join(format!("{}-{}", engine.database(), family.name()));
        let made = image.with_extension("made");
        let recipe = self.recipe(family, engine);
        if fs::read_to_string(&made).is_ok_and(|found| found == recipe) {
            return Ok(Some(image));
        }
        eprintln!("  loading {} into {engine}", family.name());
        // From here on, until it is written again, nothing there is whole.
        let _ = fs::remove_file(&made);
        let settings = within_a_limit(engine, Some(LOADING_CACHE_MB), connections(self.clients(family)));
        let server = self.paths.start(&[engine], &settings, Data::Empty)?;
        self.fill(family, engine, &server)?;
        run.note(Analyzed::note(engine.name()));
        idle::wait(server.pid(), IDLE_LIMIT, self.paths.interrupt)?;
        server.freeze(&image)?;
        fs::write(&made, recipe).map_err(io_error("cannot write", &made))?;
        Ok(Some(image))
    }

    /// The making of the data; those of another recipe, left by an earlier run, are made anew.
    fn recipe(&self, family: Family, engine: Engine) -> String {
        let options = &self.options;
        let size = match family {
            Family::Oltp => format!("{} tables of {} rows", options.oltp.tables, options.oltp.rows),
            Family::Keys => format!("{:?}", options.keys.as_ref().map(|k| (k.rows, k.value_bytes))),
            Family::Values => format!("{:?}", options.values.as_ref().map(|k| (k.rows, k.value_bytes))),
            Family::Tpcc => format!("{:?}", options.tpcc.as_ref().map(|t| t.warehouses)),
            Family::Iibench => String::new(),
        };
        let settings = within_a_limit(engine, Some(LOADING_CACHE_MB), connections(self.clients(family)));
        let plugin = fs::metadata(self.paths.plugin).and_then(|m| m.modified()).ok();
        format!(
            "{size}, seed {}, analyzed\n{}\n{} {plugin:?}\n{settings:?}\n",
            options.seed,
            self.paths.prefix.display(),
            self.paths.plugin.display()
        )
    }

    fn fill(&self, family: Family, engine: Engine, server: &Server) -> Result<()> {
        let database = engine.database();
        if family == Family::Tpcc {
            let Some(design) = self.tpcc_design(engine) else { return Ok(()) };
            let address = Address::root(server.socket());
            make_tables(&address, database, engine, design.scale, false)?;
            let target = TpccTarget {
                address: &address,
                process: Some(server.pid()),
                engine,
                database,
                recorded: None,
            };
            let mut progress = Progress::of_one(&design, engine.name(), Sparks::default());
            let filled = load(&target, &design, self.paths.interrupt, &mut progress);
            progress.close();
            return filled.map(|_| ());
        }
        server.client().query(&format!("CREATE DATABASE {database}"))?;
        let options = &self.options;
        let load = |tables, rows| Load { tables, rows, threads: options.threads, warm_up_s: 0, time_s: 1 };
        let sysbench = |load| Sysbench {
            socket: server.socket(),
            server: server.pid(),
            load,
            interrupt: self.paths.interrupt,
        };
        let seed = options.seed as u32;
        let keys = match family {
            Family::Keys => &options.keys,
            Family::Values => &options.values,
            _ => &None,
        };
        match keys {
            None => sysbench(load(options.oltp.tables, options.oltp.rows)).prepare(engine, seed)?,
            Some(keys) => {
                let script = self.script()?;
                let target = Target { script: &script.to_string_lossy(), database, engine: engine.name() };
                let more = [value_option(keys)];
                let extra = Extra { options: &more, log: None };
                sysbench(load(1, keys.rows)).prepare_with(target, seed, extra)?;
            }
        }
        analyze::through_client(server.client(), database).map(|_| ())
    }
}
