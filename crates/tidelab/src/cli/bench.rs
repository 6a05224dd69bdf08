//! `tidelab demo` and `tidelab bench`: sysbench's workloads on the engines of one server.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::{settings, Data, Server, Wanted};
use tidelab_server::telemetry::machine;
use tidelab_server::workload::sysbench::{self, Load, Workload};

use super::{distinct, finish, Places};
use crate::doctor::ceiling::Ceilings;
use crate::measure::sysbench::{Design, Experiment};
use crate::report::benchmark::sysbench::Sysbench;
use crate::report::benchmark::Benchmark;
use crate::report::progress::sysbench::Progress;
use crate::run::Run;

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    places: Places,
    /// The directory that gets the results.
    #[arg(long, value_name = "DIR", default_value = "build/results")]
    out: PathBuf,
    /// Print the result as JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Engines to compare, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "TidesDB,InnoDB,ROCKSDB")]
    engines: Vec<Engine>,
    /// Workloads, separated by commas [default: those of the command].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Rounds [default: 3 in demo, 5 in bench].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Clients.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Tables for each engine.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tables: u32,
    /// Rows of each table.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    size: u64,
    /// Measured seconds of each run.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    time: u32,
    /// Seconds of each run before them; the least, where there is a limit.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    warm_up: u32,
    /// Seconds at most to warm up until the rates are steady. 0 for no more than --warm-up [default: 0 in
    /// demo, 30 in bench].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    warm_up_limit: Option<u32>,
    /// Seconds of updates right before each workload that only reads [default: 0 in demo, 10 in bench].
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    update_phase: Option<u32>,
    /// Seconds at most to wait until the server is idle between runs.
    #[arg(long, default_value_t = 5)]
    settle: u32,
    /// Megabytes of each engine's cache.
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=1_048_576))]
    cache: u64,
    /// Keep the server's data directory and log.
    #[arg(long)]
    keep: bool,
}

/// The differences between the two commands.
pub(super) struct Kind {
    name: &'static str,
    workloads: Vec<Workload>,
    rounds: u32,
    update_s: u32,
    warm_up_limit_s: u32,
    /// Too short to be a measurement.
    short_run: bool,
}

impl Kind {
    pub(super) fn demo() -> Kind {
        let workloads =
            vec![Workload::PointSelect, Workload::ReadWrite, Workload::UpdateIndex, Workload::Insert];
        // A short run warms every engine up for the same few seconds: the rule would need more of them.
        Kind { name: "demo", workloads, rounds: 3, update_s: 0, warm_up_limit_s: 0, short_run: true }
    }

    pub(super) fn bench() -> Kind {
        let workloads = Workload::ALL.to_vec();
        Kind { name: "bench", workloads, rounds: 5, update_s: 10, warm_up_limit_s: 30, short_run: false }
    }
}

fn design(options: &Options, kind: &Kind) -> Result<Design> {
    let engines = distinct(&options.engines)?;
    let asked = if options.workloads.is_empty() { &kind.workloads } else { &options.workloads };
    // Always in this order: reads before the workloads that change the number of rows.
    let workloads: Vec<Workload> = Workload::ALL.into_iter().filter(|w| asked.contains(w)).collect();
    Ok(Design {
        engines,
        workloads,
        rounds: options.rounds.unwrap_or(kind.rounds),
        load: Load {
            tables: options.tables,
            rows: options.size,
            threads: options.threads,
            warm_up_s: options.warm_up,
            time_s: options.time,
        },
        warm_up_limit_s: options.warm_up_limit.unwrap_or(kind.warm_up_limit_s),
        update_s: options.update_phase.unwrap_or(kind.update_s),
        settle_s: options.settle,
    })
}

/// Measures, writes the files, prints the table. False: a measurement failed.
pub(super) fn run(options: &Options, kind: &Kind) -> Result<bool> {
    let design = design(options, kind)?;
    let prefix = options.places.prefix()?;
    let program = sysbench::version()?;
    let interrupt = Interrupt::on_signals()?;
    let mut run = Run::new(kind.name, "sysbench's workloads", "sysbench");
    run.machine = Some(machine::describe(&options.places.data));
    run.design = serde_json::to_value(&design).map_err(|error| Error::Usage(error.to_string()))?;
    design.describe(&mut run);
    let start = Instant::now();

    let settings = settings::comparison(&design.engines, options.cache, design.load.threads + 20);
    let wanted = Wanted {
        environment: &[],
        allocator: None,
        groups: &[],
        prefix,
        engines: &design.engines,
        plugin: Some(&options.places.plugin),
        directory: &options.places.data,
        data: Data::Empty,
        settings: &settings,
    };
    let mut server = Server::start(&wanted, &interrupt)?;
    let facts = ServerFacts::new(&prefix.to_string_lossy(), &settings, server.variables());
    eprintln!(
        "MariaDB {} runs (process {}, {}); {} settings read back as asked",
        facts.version,
        server.pid(),
        server.directory().display(),
        settings.len()
    );
    run.servers.insert("server".to_string(), facts);

    let mut progress = Progress::new(&design);
    let record = Experiment::new(&design, &mut server, &interrupt, &mut progress).run();
    progress.close();

    run.ended_early = record.ended_early;
    let load = Sysbench { program, design, at_end: record.at_end, analyses: record.analyses };
    let benchmark = Benchmark {
        run,
        cells: record.cells,
        short_run: kind.short_run,
        took_s: start.elapsed().as_secs_f64(),
        load: Box::new(load),
    };
    let ceilings = ceilings(&benchmark, options.threads, &options.out);
    let interrupted = interrupt.check();
    finish(&benchmark, &options.out, options.json, &ceilings, interrupted.is_ok())?;
    // A failed server's files stay for a look at them.
    let keep = options.keep || (!benchmark.good() && interrupted.is_ok());
    let directory = server.directory().to_path_buf();
    server.stop(keep)?;
    if keep {
        eprintln!("The server's files are in {}", directory.display());
    }
    interrupted?;
    Ok(benchmark.good())
}

/// The ceilings alongside the best rate of each workload, where tidelab doctor measured them on this
/// machine with as many clients; else empty.
fn ceilings(benchmark: &Benchmark, threads: u32, results: &Path) -> String {
    let ceilings = match Ceilings::load(results) {
        Ok(ceilings) => ceilings,
        Err(error) => return format!("\n{error}\n"),
    };
    let Some(machine) = &benchmark.run.machine else { return String::new() };
    let fits = |c: &Ceilings| c.fits(&machine.cpu, machine.cpus, threads);
    let Some(ceilings) = ceilings.filter(fits) else { return String::new() };
    let summary = benchmark.summary();
    let mut best: Vec<(&str, f64)> = Vec::new();
    for line in benchmark.lines(&summary) {
        let Some(rate) = line.spread("transactions_per_s").map(|rate| rate.median) else { continue };
        let workload = line.label("workload");
        match best.iter_mut().find(|(known, _)| *known == workload) {
            Some((_, known)) => *known = known.max(rate),
            None => best.push((workload, rate)),
        }
    }
    match ceilings.shares(&best) {
        text if text.is_empty() => text,
        text => format!("\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;
    use super::*;

    fn options(words: &str) -> Options {
        match parse(words).unwrap().command {
            Some(Command::Demo(options) | Command::Bench(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    fn kind() -> Kind {
        Kind {
            name: "demo",
            workloads: vec![Workload::Insert, Workload::ReadWrite],
            rounds: 3,
            update_s: 4,
            warm_up_limit_s: 20,
            short_run: true,
        }
    }

    #[test]
    fn the_call_of_the_makefile_is_understood() {
        let options = options("tidelab demo --prefix /p --plugin build/ha_tidesdb.so --out build/results");
        let design = design(&options, &kind()).unwrap();
        assert_eq!(design.engines, Engine::ALL);
        assert_eq!(design.workloads, [Workload::ReadWrite, Workload::Insert], "reads first");
        assert_eq!((design.rounds, design.update_s), (3, 4));
        assert_eq!((design.load.threads, design.load.tables, design.load.rows), (8, 1, 100_000));
        assert_eq!((design.load.time_s, design.load.warm_up_s, design.warm_up_limit_s), (10, 2, 20));
    }

    #[test]
    fn the_demo_warms_up_alike_for_all_and_is_no_measurement_and_bench_waits_until_it_is_steady() {
        let options = options("tidelab demo --prefix /p --time 6 --warm-up 1");
        let demo = design(&options, &Kind::demo()).unwrap();
        assert!(Kind::demo().short_run && !Kind::bench().short_run);
        assert!(demo.workloads.iter().all(|w| demo.warm_up(*w).is_fixed()));
        let bench = design(&options, &Kind::bench()).unwrap();
        assert!(!bench.warm_up(Workload::PointSelect).is_fixed());
    }

    #[test]
    fn every_option_counts() {
        let words = "tidelab bench --prefix /p --engines innodb,RocksDB,InnoDB --workloads delete,point_select \
                     --rounds 7 --threads 3 --tables 2 --size 50 --time 4 --warm-up 1 --warm-up-limit 7 --update-phase 0 --settle 9";
        let words: Vec<&str> = words.split_whitespace().collect();
        let design = design(&options(&words.join(" ")), &kind()).unwrap();
        assert_eq!(design.engines, [Engine::InnoDb, Engine::RocksDb]);
        assert_eq!(design.workloads, [Workload::PointSelect, Workload::Delete]);
        assert_eq!((design.rounds, design.update_s, design.settle_s), (7, 0, 9));
        assert_eq!(design.warm_up_limit_s, 7);
        assert_eq!(design.load, Load { tables: 2, rows: 50, threads: 3, warm_up_s: 1, time_s: 4 });
    }
}
