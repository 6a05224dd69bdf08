//! The kind `sqlbench`: the experiment of a published shell script around sysbench
//! (`docs/experiments/sqlbench.md`).
//!
//! It measures table sizes x threads x engines x sysbench's workloads x iterations.
//! [`Options::from_variables`] understands the script's variables by their own names.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{bytes, setting, Setting};
use tidelab_server::server::Server;
use tidelab_server::workload::sysbench::{Load, Workload};

use super::sysbench::{kept, round};
use crate::measure::reference;
use crate::measure::sysbench::figures::metrics;
use crate::measure::sysbench::Design;
use crate::run::bound::{Driven, Unbounded};
use crate::run::{self, Axis, CellId, Folder, Group, Metric, Paths, Role, Run};

/// The options of the experiment. A missing size or mode is the server's own default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// ENGINES.
    pub engines: Vec<Engine>,
    /// WORKLOADS.
    pub workloads: Vec<Workload>,
    /// TABLE_SIZES: rows of each table.
    pub table_sizes: Vec<u64>,
    /// TABLES.
    pub tables: u32,
    /// THREAD_COUNTS.
    pub thread_counts: Vec<u32>,
    /// TIME: measured seconds.
    pub time_s: u32,
    /// WARMUP: seconds before them.
    pub warmup_s: u32,
    /// ITERATIONS: rounds; the engines take turns in each.
    pub iterations: u32,
    /// TIDESDB_SYNC_MODE: 0 or NONE, 1 or INTERVAL, 2 or FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tidesdb_sync_mode: Option<String>,
    /// TIDESDB_COMPRESSION: NONE, SNAPPY, LZ4, ZSTD or LZ4_FAST.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tidesdb_compression: Option<String>,
    /// TIDESDB_BLOCK_CACHE: a size as 256M.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tidesdb_block_cache: Option<String>,
    /// INNODB_FLUSH: innodb_flush_log_at_trx_commit, 0 to 2. MyRocks takes it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub innodb_flush: Option<String>,
    /// INNODB_BUFFER_POOL: a size. MyRocks takes it for its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub innodb_buffer_pool: Option<String>,
    /// INNODB_COMPRESSION: NONE, or ZLIB for compressed pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub innodb_compression: Option<String>,
    /// Seconds of updates before each read-only workload is measured once more, as `point_select after
    /// updates`; 0 for not.
    #[serde(default)]
    pub update_s: u32,
    /// Seconds at most to wait until the server is idle after each measurement.
    #[serde(default = "five")]
    pub settle_s: u32,
}

fn five() -> u32 {
    5
}

impl Default for Options {
    /// The published call, with the workloads in its results, in three rounds.
    fn default() -> Options {
        Options {
            engines: vec![Engine::TidesDb, Engine::InnoDb],
            workloads: Workload::ALL.to_vec(),
            table_sizes: vec![100_000],
            tables: 1,
            thread_counts: vec![8],
            time_s: 60,
            warmup_s: 10,
            iterations: 3,
            tidesdb_sync_mode: None,
            tidesdb_compression: None,
            tidesdb_block_cache: None,
            innodb_flush: None,
            innodb_buffer_pool: None,
            innodb_compression: None,
            update_s: 0,
            settle_s: five(),
        }
    }
}

/// The words of a variable, apart by spaces or commas.
fn list<T: FromStr>(name: &str, value: &str) -> Result<Vec<T>> {
    let words = value.split([' ', ',', '\t', '\n']).filter(|w| !w.is_empty());
    let all: Vec<T> = words
        .map(|word| word.parse().map_err(|_| refused(name, word, "it is not understood")))
        .collect::<Result<_>>()?;
    if all.is_empty() {
        return Err(refused(name, value, "it names nothing"));
    }
    Ok(all)
}

fn number(name: &str, value: &str) -> Result<u32> {
    value.trim().parse().map_err(|_| refused(name, value, "it is no number"))
}

fn refused(name: &str, value: &str, why: &str) -> Error {
    Error::Usage(format!("{name}={value}: {why}"))
}

impl Options {
    /// From the script's variables, as found by `lookup`; a variable not found keeps its default. Errors name
    /// variable and value.
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Options> {
        let mut options = Options::default();
        let given = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        if let Some(value) = given("ENGINES") {
            options.engines = list("ENGINES", &value)?;
        }
        if let Some(value) = given("WORKLOADS") {
            options.workloads = list("WORKLOADS", &value)?;
        }
        if let Some(value) = given("TABLE_SIZES") {
            options.table_sizes = list("TABLE_SIZES", &value)?;
        }
        if let Some(value) = given("THREAD_COUNTS") {
            options.thread_counts = list("THREAD_COUNTS", &value)?;
        }
        for (name, field) in [
            ("TABLES", &mut options.tables),
            ("TIME", &mut options.time_s),
            ("WARMUP", &mut options.warmup_s),
            ("ITERATIONS", &mut options.iterations),
        ] {
            if let Some(value) = given(name) {
                *field = number(name, &value)?;
            }
        }
        for (name, field) in [
            ("TIDESDB_SYNC_MODE", &mut options.tidesdb_sync_mode),
            ("TIDESDB_COMPRESSION", &mut options.tidesdb_compression),
            ("TIDESDB_BLOCK_CACHE", &mut options.tidesdb_block_cache),
            ("INNODB_FLUSH", &mut options.innodb_flush),
            ("INNODB_BUFFER_POOL", &mut options.innodb_buffer_pool),
            ("INNODB_COMPRESSION", &mut options.innodb_compression),
        ] {
            *field = given(name).map(|value| value.trim().to_string());
        }
        options.check()?;
        Ok(options)
    }

    /// Errors name the senseless variable.
    fn check(&self) -> Result<()> {
        let none = |name: &str| Err(refused(name, "", "it names nothing"));
        if self.engines.is_empty() {
            return none("ENGINES");
        }
        if self.workloads.is_empty() {
            return none("WORKLOADS");
        }
        for (name, is_zero) in [
            ("TABLE_SIZES", self.table_sizes.is_empty() || self.table_sizes.contains(&0)),
            ("THREAD_COUNTS", self.thread_counts.is_empty() || self.thread_counts.contains(&0)),
            ("TABLES", self.tables == 0),
            ("TIME", self.time_s == 0),
            ("ITERATIONS", self.iterations == 0),
        ] {
            if is_zero {
                return Err(refused(name, "0", "it must be more than 0"));
            }
        }
        self.settings().map(|_| ())
    }

    /// The server's settings for the variables.
    pub fn settings(&self) -> Result<Vec<Setting>> {
        let threads = self.thread_counts.iter().max().copied().unwrap_or(1);
        let has = |engine| self.engines.contains(&engine);
        let mut all = vec![
            setting("performance_schema", "OFF"),
            setting("log_bin", "OFF"),
            setting("query_cache_type", "OFF"),
            setting("tx_isolation", "REPEATABLE-READ"),
            setting("max_connections", (threads + 20).max(151).to_string()),
        ];
        let size = |name: &str, value: &str| match bytes(value) {
            Some(_) => Ok(value.to_string()),
            None => Err(refused(name, value, "it is no size as 256M")),
        };
        if let Some(value) = &self.tidesdb_sync_mode {
            let mode = match value.to_ascii_uppercase().as_str() {
                "0" | "NONE" => "NONE",
                "1" | "INTERVAL" => "INTERVAL",
                "2" | "FULL" => "FULL",
                _ => {
                    return Err(refused(
                        "TIDESDB_SYNC_MODE",
                        value,
                        "0 (NONE), 1 (INTERVAL) and 2 (FULL) are known",
                    ))
                }
            };
            if has(Engine::TidesDb) {
                all.push(setting("tidesdb_unified_memtable_sync_mode", mode));
                all.push(setting("tidesdb_default_sync_mode", mode));
            }
        }
        if let Some(value) = &self.tidesdb_compression {
            let name = value.to_ascii_uppercase();
            if !["NONE", "SNAPPY", "LZ4", "ZSTD", "LZ4_FAST"].contains(&name.as_str()) {
                return Err(refused(
                    "TIDESDB_COMPRESSION",
                    value,
                    "NONE, SNAPPY, LZ4, ZSTD and LZ4_FAST are known",
                ));
            }
            if has(Engine::TidesDb) {
                all.push(setting("tidesdb_default_compression", name));
            }
        }
        if let Some(value) = &self.tidesdb_block_cache {
            let value = size("TIDESDB_BLOCK_CACHE", value)?;
            if has(Engine::TidesDb) {
                all.push(setting("tidesdb_block_cache_size", value));
            }
        }
        if let Some(value) = &self.innodb_flush {
            if !["0", "1", "2"].contains(&value.as_str()) {
                return Err(refused("INNODB_FLUSH", value, "0, 1 and 2 are known"));
            }
            all.push(setting("innodb_flush_log_at_trx_commit", value.clone()));
            if has(Engine::RocksDb) {
                all.push(setting("rocksdb_flush_log_at_trx_commit", value.clone()));
            }
        }
        if let Some(value) = &self.innodb_buffer_pool {
            let value = size("INNODB_BUFFER_POOL", value)?;
            all.push(setting("innodb_buffer_pool_size", value.clone()));
            if has(Engine::RocksDb) {
                all.push(setting("rocksdb_block_cache_size", value));
            }
        }
        match self.innodb_compression.as_ref().map(|v| v.to_ascii_uppercase()).as_deref() {
            None => {}
            Some("NONE" | "OFF" | "0") => all.push(setting("innodb_compression_default", "OFF")),
            Some("ZLIB" | "ON" | "1") => {
                all.push(setting("innodb_compression_default", "ON"));
                all.push(setting("innodb_compression_algorithm", "zlib"));
            }
            Some(value) => {
                let why = "NONE and ZLIB are known; the server has others only with a provider's plugin";
                return Err(refused("INNODB_COMPRESSION", value, why));
            }
        }
        Ok(all)
    }

    /// The measurements of one set of tables.
    fn design(&self, rows: u64, threads: u32) -> Design {
        Design {
            // Always in this order: reads before the workloads that change the number of rows.
            workloads: Workload::ALL.into_iter().filter(|w| self.workloads.contains(w)).collect(),
            engines: self.engines.clone(),
            rounds: self.iterations,
            load: Load { tables: self.tables, rows, threads, warm_up_s: self.warmup_s, time_s: self.time_s },
            warm_up_limit_s: 0,
            update_s: 0,
            settle_s: self.settle_s,
        }
    }

    /// The reads once more, after updates; none unless asked for.
    fn after_updates(&self, rows: u64, threads: u32) -> Option<Design> {
        let mut design = self.design(rows, threads);
        design.workloads.retain(|w| w.only_reads());
        design.update_s = self.update_s;
        (self.update_s > 0 && !design.workloads.is_empty()).then_some(design)
    }
}

/// Measures.
pub struct Conductor<'a> {
    options: Options,
    settings: Vec<Setting>,
    paths: Paths<'a>,
    server: Option<Server>,
}

/// The name of a workload in a cell.
fn workload_name(workload: impl Display, after_updates: bool) -> String {
    if after_updates {
        format!("{workload} after updates")
    } else {
        workload.to_string()
    }
}

fn id(engine: impl Display, workload: &str, rows: u64, threads: u32, round: u32) -> CellId {
    let labels = [
        ("engine", engine.to_string()),
        ("workload", workload.to_string()),
        ("table_size", rows.to_string()),
        ("threads", threads.to_string()),
    ];
    CellId::new(labels, round)
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        options.check().map_err(|error| Error::Usage(format!("{}: {error}", run.name)))?;
        let settings = options.settings()?;
        let design = options.design(0, 1);
        let mut workloads: Vec<String> = design.workloads.iter().map(|w| workload_name(*w, false)).collect();
        let after = options.after_updates(0, 1);
        workloads.extend(after.iter().flat_map(|d| &d.workloads).map(|w| workload_name(*w, true)));
        run.axes = vec![
            Axis::new("engine", "Engine", Role::Competitor, &options.engines),
            Axis::new("workload", "Workload", Role::Category, &workloads),
            Axis::new("table_size", "Rows of a table", Role::Number, &options.table_sizes),
            Axis::new("threads", "Threads", Role::Number, &options.thread_counts),
        ];
        run.reference = reference(&options.engines);
        run.metrics = metrics();
        // The published charts show space by workload.
        let main = ["transactions_per_s", "p95_ms", "p99_ms", "server_cpu_us", "data_bytes"];
        run.metrics.iter_mut().for_each(|m: &mut Metric| m.main = main.contains(&m.name.as_str()));
        if options.tidesdb_block_cache != options.innodb_buffer_pool {
            let shown = |v: &Option<String>| v.clone().unwrap_or("the default".to_string());
            run.notes.push(format!(
                "the engines' caches are not the same: TIDESDB_BLOCK_CACHE {}, INNODB_BUFFER_POOL {}",
                shown(&options.tidesdb_block_cache),
                shown(&options.innodb_buffer_pool)
            ));
        }
        Ok(Conductor { options, settings, paths, server: None })
    }

    /// One round of a design on a running server, into the folder.
    fn round(
        &self,
        design: &Design,
        number: u32,
        after_updates: bool,
        server: &mut Server,
        run: &mut Run,
        folder: &mut Folder,
    ) -> Result<()> {
        let Load { rows, threads, .. } = design.load;
        for measured in round(design, number, server, self.paths, run)? {
            let labels = &measured.cell.id;
            let workload = workload_name(labels.label("workload"), after_updates);
            let id = id(labels.label("engine"), &workload, rows, threads, number);
            let cell = kept(&measured, &id, server, run, folder)?;
            folder.finish(cell)?;
        }
        Ok(())
    }
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for round in 1..=self.options.iterations {
            for rows in &self.options.table_sizes {
                for threads in &self.options.thread_counts {
                    let mut cells = Vec::new();
                    let plain = Some(self.options.design(*rows, *threads));
                    let after = self.options.after_updates(*rows, *threads);
                    for (design, is_after) in [(plain, false), (after, true)] {
                        for workload in design.iter().flat_map(|d| &d.workloads) {
                            let name = workload_name(*workload, is_after);
                            let of = |e: &Engine| id(*e, &name, *rows, *threads, round);
                            cells.extend(self.options.engines.iter().map(of));
                        }
                    }
                    let title = format!("iteration {round}: tables of {rows} rows, {threads} threads");
                    groups.push(Group { title, cells });
                }
            }
        }
        groups
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let of = |axis: &str| first.label(axis).parse::<u64>().unwrap_or(1);
        let (rows, threads) = (of("table_size"), of("threads") as u32);
        let mut server = match self.server.take() {
            Some(server) => server,
            None => {
                let engines = &self.options.engines;
                self.paths.start_noted("server", engines, &self.settings, run, folder)?
            }
        };
        let plain = self.options.design(rows, threads);
        self.round(&plain, first.round, false, &mut server, run, folder)?;
        if let Some(after) = self.options.after_updates(rows, threads) {
            self.round(&after, first.round, true, &mut server, run, folder)?;
        }
        self.server = Some(server);
        Ok(())
    }

    fn unbounded(&self) -> Vec<Unbounded> {
        let mut all = Vec::new();
        for clients in &self.options.thread_counts {
            for (design, is_after) in [
                (Some(self.options.design(1, *clients)), false),
                (self.options.after_updates(1, *clients), true),
            ] {
                all.extend(design.iter().flat_map(|d| &d.workloads).map(|workload| {
                    let name = workload_name(*workload, is_after);
                    let labels = [("workload", name), ("threads", clients.to_string())];
                    Unbounded::new(labels, Driven::Sysbench(*workload), *clients)
                }));
            }
        }
        all
    }

    fn close(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(false))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};
    use std::path::Path;

    use tidelab_server::interrupt::Interrupt;

    use super::*;
    use crate::run::Conductor as _;

    fn of(pairs: &[(&str, &str)]) -> Result<Options> {
        let all: BTreeMap<String, String> =
            pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        Options::from_variables(|name| all.get(name).cloned())
    }

    fn value(settings: &[Setting], name: &str) -> Option<String> {
        settings.iter().find(|s| s.name == name).map(|s| s.value.clone())
    }

    #[test]
    fn the_published_call_is_understood() {
        let options = of(&[
            ("TABLE_SIZES", "100000"),
            ("TABLES", "1"),
            ("THREAD_COUNTS", "8"),
            ("TIME", "60"),
            ("WARMUP", "10"),
            ("ENGINES", "TidesDB InnoDB"),
            ("TIDESDB_SYNC_MODE", "0"),
            ("TIDESDB_COMPRESSION", "LZ4"),
            ("INNODB_FLUSH", "0"),
        ])
        .unwrap();
        assert_eq!((options.time_s, options.warmup_s, options.iterations), (60, 10, 3));
        assert_eq!(options.workloads.len(), 8);
        let settings = options.settings().unwrap();
        for (name, wanted) in [
            ("tidesdb_unified_memtable_sync_mode", "NONE"),
            ("tidesdb_default_sync_mode", "NONE"),
            ("tidesdb_default_compression", "LZ4"),
            ("innodb_flush_log_at_trx_commit", "0"),
            ("tx_isolation", "REPEATABLE-READ"),
        ] {
            assert_eq!(value(&settings, name).as_deref(), Some(wanted), "{name}");
        }
        assert_eq!(value(&settings, "innodb_buffer_pool_size"), None, "its default");
    }

    #[test]
    fn each_variable_has_its_effect() {
        let options = of(&[
            ("ENGINES", "rocksdb,tidesdb"),
            ("WORKLOADS", "oltp_insert read_only"),
            ("TABLE_SIZES", "10 20"),
            ("THREAD_COUNTS", "1, 400"),
            ("TABLES", "3"),
            ("ITERATIONS", "2"),
            ("TIDESDB_SYNC_MODE", "interval"),
            ("TIDESDB_COMPRESSION", "none"),
            ("TIDESDB_BLOCK_CACHE", "64M"),
            ("INNODB_FLUSH", "2"),
            ("INNODB_BUFFER_POOL", "128M"),
            ("INNODB_COMPRESSION", "zlib"),
        ])
        .unwrap();
        let settings = options.settings().unwrap();
        for (name, wanted) in [
            ("max_connections", "420"),
            ("tidesdb_unified_memtable_sync_mode", "INTERVAL"),
            ("tidesdb_default_compression", "NONE"),
            ("tidesdb_block_cache_size", "64M"),
            ("rocksdb_flush_log_at_trx_commit", "2"),
            ("innodb_buffer_pool_size", "128M"),
            ("rocksdb_block_cache_size", "128M"),
            ("innodb_compression_default", "ON"),
            ("innodb_compression_algorithm", "zlib"),
        ] {
            assert_eq!(value(&settings, name).as_deref(), Some(wanted), "{name}");
        }
        let design = options.design(20, 400);
        assert_eq!((design.load.rows, design.load.tables, design.rounds), (20, 3, 2));
        assert_eq!(design.workloads, [Workload::ReadOnly, Workload::Insert], "reads first");
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name_and_value() {
        for (name, wrong) in [
            ("ENGINES", "Falcon"),
            ("WORKLOADS", "tpcc"),
            ("TABLE_SIZES", "1e5"),
            ("TABLE_SIZES", "0"),
            ("THREAD_COUNTS", "many"),
            ("TABLES", "-1"),
            ("TIME", "60s"),
            ("TIME", "0"),
            ("WARMUP", "x"),
            ("ITERATIONS", "0"),
            ("TIDESDB_SYNC_MODE", "3"),
            ("TIDESDB_COMPRESSION", "ROT13"),
            ("TIDESDB_BLOCK_CACHE", "big"),
            ("INNODB_FLUSH", "3"),
            ("INNODB_BUFFER_POOL", "1T5"),
            ("INNODB_COMPRESSION", "LZ4"),
        ] {
            let error = of(&[(name, wrong)]).unwrap_err().to_string();
            assert!(error.contains(&format!("{name}={wrong}:")), "{error}");
        }
        assert_eq!(of(&[("TIME", " ")]).unwrap().time_s, 60, "an empty variable is none");
    }

    #[test]
    fn iterations_sizes_and_threads_are_groups_and_reads_come_twice_after_updates() {
        let interrupt = Interrupt::default();
        let nowhere = Path::new("/nowhere");
        let paths = Paths {
            prefix: nowhere,
            plugin: nowhere,
            data: nowhere,
            file_folder: nowhere,
            interrupt: &interrupt,
        };
        let mut options =
            of(&[("TABLE_SIZES", "10 20"), ("THREAD_COUNTS", "1 8"), ("ITERATIONS", "2")]).unwrap();
        options.update_s = 3;
        let mut run = Run::new("t", "T", "sqlbench");
        let conductor = Conductor::open(options, paths, &mut run).unwrap();
        let groups = conductor.groups();
        assert_eq!(groups.len(), 2 * 2 * 2);
        assert!(groups.iter().all(|g| g.cells.len() == 2 * (8 + 2)));
        let all: HashSet<String> = groups.iter().flat_map(|g| &g.cells).map(CellId::folder).collect();
        assert_eq!(all.len(), 8 * 20);
        assert_eq!(run.reference.as_deref(), Some("InnoDB"));
        assert!(run.axes[1].values.contains(&"read_only after updates".to_string()));
        assert_eq!(run.notes, Vec::<String>::new(), "both caches are defaults");
    }
}
