//! The command line, and what each command does.

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, CommandFactory, Parser, Subcommand};
use tidelab_check::check::replica::Pair;
use tidelab_check::check::{self, Check, Lab};
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::{settings, Data, Server, Wanted};
use tidelab_server::telemetry::machine;
use tidelab_server::workload::sysbench::{self, Load, Workload};

use crate::doctor::ceiling::Ceilings;
use crate::measure::experiment::{Design, Experiment};
use crate::measure::summary;
use crate::report::progress::Progress;
use crate::report::result::{RunResult, SCHEMA_VERSION};
use crate::report::{files, table};

mod compare;
mod described;
mod doctor;
mod engine;
mod hammerdb;
mod iibench;
mod import;
mod matrix;
mod publish;
mod report;
mod server;
mod sqlbench;
mod sweep;
mod tpcc;

const ABOUT: &str =
    "The laboratory: compares TidesDB, InnoDB and MyRocks in one MariaDB server, under one client.";

const EXPLANATION: &str = "\
tidelab demo      sysbench point_select, read_write, update_index and insert on the three
                  engines, three rounds interleaved: about seven minutes, a table at the end
tidelab bench     all eight sysbench workloads, five rounds, with updates before the reads
tidelab tpcc      TPC-C the way HammerDB runs it, its consistency conditions checked
tidelab hammerdb  the same on a server that runs, called as the published runner is
tidelab run       described experiments, those of experiments/ among them
tidelab iibench   the insert benchmark: a queue of tasks in TOML
tidelab engine    the bare engine beside RocksDB and LMDB (make bench-engine builds what it runs)
tidelab sqlbench  the second document's script, by its variables in the environment
tidelab sweep     one variable over a list of values: time and peak memory
tidelab import    results of sysbench, HammerDB, iibench, Percona's data set as runs
tidelab matrix    servers of many versions by engines, caches, clients and scenarios
tidelab server    the servers for that: list, fetch, and what rules ask them to use
tidelab check     a server under kills, lost-update, index-read, replica and memory checks
tidelab report    a page of kept runs, with charts, that needs no network
tidelab publish   a kept run as a small folder for a repository
tidelab compare   two kept runs, what became worse first
tidelab doctor    what this machine lacks for that, what the drivers cost, and the ceilings

make demo, make bench and make bench-tpcc call it with all it needs. tidelab COMMAND --help lists options,
docs/tidelab.md says how it measures and what is in its files.";

/// Servers and statements get these paths, and are not where this process is.
fn absolute(path: &str) -> std::io::Result<PathBuf> {
    std::path::absolute(path)
}

/// The laboratory.
#[derive(Debug, Parser)]
#[command(name = "tidelab", version, about = ABOUT, after_help = EXPLANATION, args_override_self = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare the engines, short: four workloads, three rounds.
    Demo(Common),
    /// Compare the engines, long: eight workloads, five rounds, updates before the reads.
    Bench(Common),
    /// TPC-C on each engine: loaded once, rounds interleaved, conditions checked after each run.
    Tpcc(tpcc::Options),
    /// TPC-C on a server that runs, called as the published benchmark's runner is.
    Hammerdb(hammerdb::Options),
    /// Make described experiments: each writes a folder that a report can be made of.
    Run(described::Options),
    /// The insert benchmark: a queue of tasks in TOML, load, mixed, delete.
    Iibench(iibench::Options),
    /// The bare engine beside RocksDB and LMDB: runs tidelab-engine, with its options.
    #[command(disable_help_flag = true)]
    Engine(engine::Options),
    /// The second document's script, called with its variables in the environment.
    Sqlbench(sqlbench::Options),
    /// One variable over a list of values: time and peak memory.
    Sweep(sweep::Options),
    /// Make a run of somebody else's results: percona, sysbench, hammerdb, iibench.
    Import(import::Options),
    /// Servers and engines by tiers of memory, numbers of clients and scenarios.
    Matrix(Box<matrix::Options>),
    /// The servers that can be measured: list, fetch, config.
    #[command(subcommand)]
    Server(server::Options),
    /// Check a server from outside: kills, lost updates, index reads, replicas, memory.
    Check(Checks),
    /// Make the page of kept runs, and their CSV and JSON.
    Report(report::Options),
    /// Put a kept run into docs/results: figures, charts, and the run as an archive.
    Publish(publish::Options),
    /// Compare two kept runs; fails where the second is worse.
    Compare(compare::Options),
    /// Say what this machine lacks, and measure what the drivers cost.
    Doctor(doctor::Options),
}

#[derive(Args, Clone, Debug)]
struct Places {
    /// The installed MariaDB: the directory whose bin/ has mariadbd (make -s prefix).
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    prefix: Option<PathBuf>,
    /// The TidesDB plugin.
    #[arg(long, value_name = "FILE", default_value = "build/ha_tidesdb.so", value_parser = absolute)]
    plugin: PathBuf,
    /// Where the server works; emptied at each start.
    #[arg(long, value_name = "DIR", default_value = "build/tidelab", value_parser = absolute)]
    data: PathBuf,
}

#[derive(Args, Clone, Debug)]
struct Common {
    #[command(flatten)]
    places: Places,
    /// Where the results go.
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
    /// Seconds at most to warm up until the rates are steady; 0 for no more than --warm-up
    /// [default: 0 in demo, 30 in bench].
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

#[derive(Args, Clone, Debug)]
struct Checks {
    /// Which: kill, crash, literal, counters, jobs, indexreads, replica, backup, history, commits, large,
    /// definitions, killed, disk, formats, entries, iibench, sql, bound, memory, sensitivity [default: all but
    /// commits, large and sensitivity; in the short form all but bound, memory and sensitivity].
    #[arg(value_name = "NAME")]
    names: Vec<Check>,
    /// The installed MariaDB: the directory whose bin/ has mariadbd (make -s prefix).
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    prefix: PathBuf,
    /// The TidesDB plugin.
    #[arg(long, value_name = "FILE", default_value = "build/ha_tidesdb.so", value_parser = absolute)]
    plugin: PathBuf,
    /// Where the servers work, each check in a directory of its own; emptied at each start.
    #[arg(long, value_name = "DIR", default_value = "build/check", value_parser = absolute)]
    data: PathBuf,
    /// The form of `make test`: about two minutes in all.
    #[arg(long)]
    short: bool,
    /// Kills of `kill`, `crash`, `replica` [default: 5; in the short form 3, 2 and 2] and `definitions` [default: 40,
    /// 6], of each kind of statement in `killed` [default: 15, 5].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Seconds of load in each part of the other checks.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Clients of `history`, `commits` and `jobs` [default: 12, 32, 8].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=250))]
    clients: Option<u32>,
    /// Commits of `commits` on each engine [default: ten million, 20,000 in the short form].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    commits: Option<u64>,
    /// Rows of `large` [default: ten million, 100,000 in the short form] and of `killed` [default: a million, 100,000].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    rows: Option<u64>,
    /// Statements of `sql` [default: 20,000, 1,500 in the short form].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    statements: Option<u64>,
    /// Engines of `history` and `commits` [default: TidesDB,InnoDB; TidesDB in the short form], and of
    /// `large` [default: TidesDB].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    engines: Vec<Engine>,
    /// Engines of `replica`, the primary's first, as tidesdb:innodb [default: all three pairs with
    /// TidesDB, in the short form TidesDB on both sides].
    #[arg(long, value_name = "ENGINE:ENGINE")]
    pair: Option<Pair>,
    /// Where all random choices come from [default: the clock; it is printed].
    #[arg(long)]
    seed: Option<u64>,
}

/// What the two commands differ in.
struct Kind {
    name: &'static str,
    workloads: Vec<Workload>,
    rounds: u32,
    update_s: u32,
    warm_up_limit_s: u32,
    /// Too short to be a measurement.
    short_run: bool,
}

impl Kind {
    fn demo() -> Kind {
        let workloads =
            vec![Workload::PointSelect, Workload::ReadWrite, Workload::UpdateIndex, Workload::Insert];
        // A short run warms every engine up for the same few seconds: the rule would need more of them.
        Kind { name: "demo", workloads, rounds: 3, update_s: 0, warm_up_limit_s: 0, short_run: true }
    }

    fn bench() -> Kind {
        let workloads = Workload::ALL.to_vec();
        Kind { name: "bench", workloads, rounds: 5, update_s: 10, warm_up_limit_s: 30, short_run: false }
    }
}

/// Does what the command line says. True: everything was measured and is right.
pub fn run(cli: Cli) -> Result<bool> {
    match cli.command {
        None => {
            // What it prints is all that was asked for; a closed pipe is no failure.
            let _ = Cli::command().print_long_help();
            Ok(true)
        }
        Some(Command::Tpcc(options)) => tpcc::run(&options),
        Some(Command::Hammerdb(options)) => hammerdb::run(&options),
        Some(Command::Run(options)) => described::run(&options),
        Some(Command::Iibench(options)) => iibench::run(&options),
        Some(Command::Engine(options)) => engine::run(&options),
        Some(Command::Sqlbench(options)) => sqlbench::run(&options),
        Some(Command::Sweep(options)) => sweep::run(&options),
        Some(Command::Import(options)) => import::run(&options),
        Some(Command::Matrix(options)) => matrix::run(&options),
        Some(Command::Server(options)) => server::run(&options),
        Some(Command::Check(checks)) => check(&checks),
        Some(Command::Publish(options)) => publish::run(&options),
        Some(Command::Report(options)) => report::run(&options),
        Some(Command::Compare(options)) => compare::run(&options),
        Some(Command::Doctor(options)) => doctor::run(&options),
        Some(Command::Demo(common)) => compare(&common, Kind::demo()),
        Some(Command::Bench(common)) => compare(&common, Kind::bench()),
    }
}

fn check(asked: &Checks) -> Result<bool> {
    let names: Vec<Check> = match asked.names.as_slice() {
        // Ten thousand tables take minutes, ten million commits or rows the better part of an hour. What memory a
        // server takes shows after a while only.
        [] => {
            let left_out: &[Check] =
                if asked.short { &[Check::Memory, Check::Bound] } else { &[Check::Commits, Check::Large] };
            // What it measures is the laboratory, and on a busy machine it takes minutes.
            let left_out = |check: &Check| left_out.contains(check) || *check == Check::Sensitivity;
            Check::ALL.into_iter().filter(|check| !left_out(check)).collect()
        }
        names => names.to_vec(),
    };
    if asked.engines.contains(&Engine::RocksDb) {
        return Err(Error::Usage("the checks know TidesDB and InnoDB".to_string()));
    }
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let interrupt = Interrupt::on_signals()?;
    let lab = Lab {
        prefix: &asked.prefix,
        plugin: &asked.plugin,
        directory: asked.data.clone(),
        interrupt: &interrupt,
        short: asked.short,
        rounds: asked.rounds,
        seconds: asked.seconds,
        clients: asked.clients,
        commits: asked.commits,
        rows: asked.rows,
        statements: asked.statements,
        engines: &asked.engines,
        pair: asked.pair,
        seed: asked.seed.unwrap_or_else(clock),
        seed_named: asked.seed.is_some(),
    };
    check::run(&names, &asked.data, lab)
}

/// Each engine once, in the order given.
fn distinct(named: &[Engine]) -> Result<Vec<Engine>> {
    let mut engines: Vec<Engine> = Vec::new();
    for engine in named {
        if !engines.contains(engine) {
            engines.push(*engine);
        }
    }
    if engines.is_empty() {
        return Err(Error::Usage("--engines names none".to_string()));
    }
    Ok(engines)
}

fn design(common: &Common, kind: &Kind) -> Result<Design> {
    let engines = distinct(&common.engines)?;
    let asked = if common.workloads.is_empty() { &kind.workloads } else { &common.workloads };
    // Always in the order that keeps reads before what changes the number of rows.
    let workloads: Vec<Workload> = Workload::ALL.into_iter().filter(|w| asked.contains(w)).collect();
    Ok(Design {
        engines,
        workloads,
        rounds: common.rounds.unwrap_or(kind.rounds),
        load: Load {
            tables: common.tables,
            rows: common.size,
            threads: common.threads,
            warm_up_s: common.warm_up,
            time_s: common.time,
        },
        warm_up_limit_s: common.warm_up_limit.unwrap_or(kind.warm_up_limit_s),
        update_s: common.update_phase.unwrap_or(kind.update_s),
        settle_s: common.settle,
    })
}

fn compare(common: &Common, kind: Kind) -> Result<bool> {
    let design = design(common, &kind)?;
    let prefix =
        common.places.prefix.clone().ok_or_else(|| {
            Error::Usage("no MariaDB was named: --prefix \"$(make -s prefix)\"".to_string())
        })?;
    let sysbench = sysbench::version()?;
    let interrupt = Interrupt::on_signals()?;
    let machine = machine::describe(&common.places.data);
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let start = Instant::now();

    let settings = settings::comparison(&design.engines, common.cache, design.load.threads + 20);
    let wanted = Wanted {
        allocator: None,
        prefix: &prefix,
        engines: &design.engines,
        plugin: Some(&common.places.plugin),
        directory: &common.places.data,
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

    let mut progress = Progress::new(&design);
    let record = Experiment::new(&design, &mut server, &interrupt, &mut progress).run();
    progress.close();

    let run = RunResult {
        schema_version: SCHEMA_VERSION,
        name: kind.name.to_string(),
        short_run: kind.short_run,
        tidelab: env!("CARGO_PKG_VERSION").to_string(),
        sysbench,
        started_unix_s: started,
        took_s: start.elapsed().as_secs_f64(),
        machine,
        server: facts,
        summary: summary::lines(&record.cells, &design.workloads, &design.engines),
        design,
        record,
    };
    let interrupted = interrupt.check();
    // Half of a run must not take the place of a whole one.
    let paths = if interrupted.is_ok() { files::write(&run, &common.out)? } else { Vec::new() };
    show(&run, common.json, &beside_ceilings(&run, &common.out), &paths)?;
    // What is wrong stays to be looked at.
    let keep = common.keep || (!run.good() && interrupted.is_ok());
    let directory = server.directory().to_path_buf();
    server.stop(keep)?;
    if keep {
        eprintln!("The server's files are in {}", directory.display());
    }
    interrupted?;
    Ok(run.good())
}

/// The ceilings beside the best rate of each workload, where tidelab doctor measured them on this
/// machine with as many clients; else nothing.
fn beside_ceilings(run: &RunResult, results: &std::path::Path) -> String {
    let ceilings = match Ceilings::load(results) {
        Ok(ceilings) => ceilings,
        Err(error) => return format!("{error}\n"),
    };
    let fits = |c: &Ceilings| c.fits(&run.machine.cpu, run.machine.cpus, run.design.load.threads);
    let Some(ceilings) = ceilings.filter(fits) else { return String::new() };
    let best = |workload: &Workload| {
        let lines = run.summary.iter().filter(|line| line.workload == *workload);
        let rates = lines.filter_map(|line| line.transactions_per_s.map(|rate| rate.median));
        Some((workload.name(), rates.reduce(f64::max)?))
    };
    ceilings.beside(&run.design.workloads.iter().filter_map(best).collect::<Vec<_>>())
}

fn show(run: &RunResult, as_json: bool, ceilings: &str, paths: &[PathBuf]) -> Result<()> {
    let text = if as_json {
        files::json(run)?
    } else {
        let line = if ceilings.is_empty() { "" } else { "\n" };
        format!("\n{}{line}{ceilings}", table::render(run, std::io::stdout().is_terminal()))
    };
    print(&text, run.took_s, paths);
    Ok(())
}

/// Prints. A reader that went away (`| head`) is no failure.
fn put(text: &str) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn print(text: &str, took_s: f64, paths: &[PathBuf]) {
    put(text);
    let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    let written = if names.is_empty() {
        "Nothing is written".to_string()
    } else {
        format!("Written: {}", names.join(", "))
    };
    eprintln!("\n{took_s:.0} s in all. {written}");
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) fn parse(words: &str) -> std::result::Result<Cli, clap::Error> {
        Cli::try_parse_from(words.split(' '))
    }

    fn common(words: &str) -> Common {
        match parse(words).unwrap().command {
            Some(Command::Demo(common) | Command::Bench(common)) => common,
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
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_an_argument_it_explains_itself() {
        assert!(parse("tidelab").unwrap().command.is_none());
        let text = Cli::command().render_long_help().to_string();
        assert!(text.contains("tidelab demo") && text.contains("docs/tidelab.md"));
    }

    #[test]
    fn the_call_of_the_makefile_is_understood() {
        let common = common("tidelab demo --prefix /p --plugin build/ha_tidesdb.so --out build/results");
        let design = design(&common, &kind()).unwrap();
        assert_eq!(design.engines, Engine::ALL);
        assert_eq!(design.workloads, [Workload::ReadWrite, Workload::Insert], "reads first");
        assert_eq!((design.rounds, design.update_s), (3, 4));
        assert_eq!((design.load.threads, design.load.tables, design.load.rows), (8, 1, 100_000));
        assert_eq!((design.load.time_s, design.load.warm_up_s, design.warm_up_limit_s), (10, 2, 20));
    }

    #[test]
    fn the_demo_warms_up_alike_for_all_and_is_no_measurement_and_bench_waits_until_it_is_steady() {
        let common = common("tidelab demo --prefix /p --time 6 --warm-up 1");
        let demo = design(&common, &Kind::demo()).unwrap();
        assert!(Kind::demo().short_run && !Kind::bench().short_run);
        assert!(demo.workloads.iter().all(|w| demo.warm_up(*w).is_fixed()));
        let bench = design(&common, &Kind::bench()).unwrap();
        assert!(!bench.warm_up(Workload::PointSelect).is_fixed());
    }

    #[test]
    fn places_are_absolute_wherever_they_are_named() {
        let here = std::env::current_dir().unwrap();
        let words = "tidelab check --prefix p --data d/e";
        let Some(Command::Check(checks)) = parse(words).unwrap().command else { panic!("{words}") };
        assert_eq!((checks.prefix, checks.data), (here.join("p"), here.join("d/e")));
        assert_eq!(checks.plugin, here.join("build/ha_tidesdb.so"), "defaults too");
        let Some(Command::Doctor(options)) = parse("tidelab doctor --data /x").unwrap().command else {
            panic!()
        };
        let places = options.places;
        assert_eq!((places.prefix, places.data), (None, PathBuf::from("/x")));
    }

    #[test]
    fn every_option_counts() {
        let words = "tidelab bench --prefix /p --engines innodb,RocksDB,InnoDB --workloads delete,point_select \
                     --rounds 7 --threads 3 --tables 2 --size 50 --time 4 --warm-up 1 --warm-up-limit 7 --update-phase 0 --settle 9";
        let words: Vec<&str> = words.split_whitespace().collect();
        let design = design(&common(&words.join(" ")), &kind()).unwrap();
        assert_eq!(design.engines, [Engine::InnoDb, Engine::RocksDb]);
        assert_eq!(design.workloads, [Workload::PointSelect, Workload::Delete]);
        assert_eq!((design.rounds, design.update_s, design.settle_s), (7, 0, 9));
        assert_eq!(design.warm_up_limit_s, 7);
        assert_eq!(design.load, Load { tables: 2, rows: 50, threads: 3, warm_up_s: 1, time_s: 4 });
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |words: &str| parse(words).unwrap_err().to_string();
        assert!(refused("tidelab demo --engines Falcon").contains("Falcon"));
        assert!(refused("tidelab demo --workloads tpcc").contains("tpcc"));
        assert!(refused("tidelab demo --rounds 0").contains("0"));
        assert!(refused("tidelab fly").contains("fly"));
    }
}
