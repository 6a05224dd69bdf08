//! The command line, and the shared parts of its commands.

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Parser, Subcommand};
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;

use crate::report::benchmark::{self, Benchmark};

mod bench;
mod check;
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
tidelab engine    the bare engine alongside RocksDB and LMDB (make bench-engine builds its program)
tidelab sqlbench  a published script's experiment, by its variables in the environment
tidelab sweep     one variable over a list of values: time and peak memory
tidelab import    results of sysbench, HammerDB, iibench, Percona's data set as runs
tidelab matrix    servers of many versions by engines, caches, clients and scenarios
tidelab server    the servers for that: list, fetch, and their settings by the rules
tidelab check     a server under kills, lost-update, index-read, replica and memory checks
tidelab report    a page of kept runs, with charts, that needs no network
tidelab publish   a kept run as a small folder for a repository
tidelab compare   two kept runs, the worst change first
tidelab doctor    missing parts of this machine, the cost of the drivers, the ceilings

make demo, make bench and make bench-tpcc call it with all it needs. tidelab COMMAND --help lists options,
docs/tidelab.md has the options, docs/tidelab-method.md says how it measures.";

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
    Demo(bench::Options),
    /// Compare the engines, long: eight workloads, five rounds, updates before the reads.
    Bench(bench::Options),
    /// TPC-C on each engine: loaded once, rounds interleaved, conditions checked after each run.
    Tpcc(tpcc::Options),
    /// TPC-C on a server that runs, called as the published benchmark's runner is.
    Hammerdb(hammerdb::Options),
    /// Make described experiments: each writes a folder that a report can be made of.
    Run(described::Options),
    /// The insert benchmark: a queue of tasks in TOML, load, mixed, delete.
    Iibench(iibench::Options),
    /// The bare engine alongside RocksDB and LMDB: runs tidelab-engine, with its options.
    #[command(disable_help_flag = true)]
    Engine(engine::Options),
    /// The experiment of a published shell script, called with the script's variables in the environment.
    Sqlbench(sqlbench::Options),
    /// One variable over a list of values: time and peak memory.
    Sweep(sweep::Options),
    /// Make a run of the results of another program: percona, sysbench, hammerdb, iibench.
    Import(import::Options),
    /// Servers and engines by tiers of memory, numbers of clients and scenarios.
    Matrix(Box<matrix::Options>),
    /// The servers that can be measured: list, fetch, config.
    #[command(subcommand)]
    Server(server::Options),
    /// Check a server from outside: kills, lost updates, index reads, replicas, memory.
    Check(check::Options),
    /// Make the page of kept runs, and their CSV and JSON.
    Report(report::Options),
    /// Put a kept run into docs/results: figures, charts, and the run as an archive.
    Publish(publish::Options),
    /// Compare two kept runs; fails where the second is worse.
    Compare(compare::Options),
    /// Say what this machine lacks, and measure what the drivers cost.
    Doctor(doctor::Options),
}

/// The server's programs and the plugin, for commands that start servers.
#[derive(Args, Clone, Debug)]
struct Installed {
    /// The installed MariaDB: the directory whose bin/ has mariadbd (make -s prefix).
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    prefix: PathBuf,
    /// The TidesDB plugin.
    #[arg(long, value_name = "FILE", default_value = "build/ha_tidesdb.so", value_parser = absolute)]
    plugin: PathBuf,
}

/// The same for commands that also do something without a server.
#[derive(Args, Clone, Debug)]
struct Places {
    /// The installed MariaDB: the directory whose bin/ has mariadbd (make -s prefix).
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    prefix: Option<PathBuf>,
    /// The TidesDB plugin.
    #[arg(long, value_name = "FILE", default_value = "build/ha_tidesdb.so", value_parser = absolute)]
    plugin: PathBuf,
    /// The directory of the server; emptied at each start.
    #[arg(long, value_name = "DIR", default_value = "build/tidelab", value_parser = absolute)]
    data: PathBuf,
}

impl Places {
    /// The installed MariaDB. Errors: none was named.
    fn prefix(&self) -> Result<&Path> {
        let error = || Error::Usage("no MariaDB was named: --prefix \"$(make -s prefix)\"".to_string());
        self.prefix.as_deref().ok_or_else(error)
    }
}

/// Runs the command line. True: everything was measured and is right.
pub fn run(cli: Cli) -> Result<bool> {
    match cli.command {
        None => {
            // The help is all that was asked for; a closed pipe is no failure.
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
        Some(Command::Check(checks)) => check::run(&checks),
        Some(Command::Publish(options)) => publish::run(&options),
        Some(Command::Report(options)) => report::run(&options),
        Some(Command::Compare(options)) => compare::run(&options),
        Some(Command::Doctor(options)) => doctor::run(&options),
        Some(Command::Demo(options)) => bench::run(&options, &bench::Kind::demo()),
        Some(Command::Bench(options)) => bench::run(&options, &bench::Kind::bench()),
    }
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

/// Prints. A closed reader (`| head`) is no failure.
fn put(text: &str) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Writes the files of a benchmark, unless it was interrupted, and prints its table or JSON. `below`
/// follows the table.
fn finish(benchmark: &Benchmark, out: &Path, as_json: bool, below: &str, whole: bool) -> Result<()> {
    // Half of a run must not take the place of a whole one.
    let paths = if whole { benchmark::write(benchmark, out)? } else { Vec::new() };
    if as_json {
        put(&benchmark::json(benchmark)?);
    } else {
        put(&format!("\n{}{below}", benchmark::render(benchmark, std::io::stdout().is_terminal())));
    }
    let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    let written = match names.as_slice() {
        [] => "Nothing is written".to_string(),
        names => format!("Written: {}", names.join(", ")),
    };
    eprintln!("\n{:.0} s in all. {written}", benchmark.took_s);
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) fn parse(words: &str) -> std::result::Result<Cli, clap::Error> {
        Cli::try_parse_from(words.split(' '))
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
    fn places_are_absolute_wherever_they_are_named() {
        let here = std::env::current_dir().unwrap();
        let words = "tidelab check --prefix p --data d/e";
        let Some(Command::Check(checks)) = parse(words).unwrap().command else { panic!("{words}") };
        assert_eq!((checks.installed.prefix, checks.data), (here.join("p"), here.join("d/e")));
        assert_eq!(checks.installed.plugin, here.join("build/ha_tidesdb.so"), "defaults too");
        let Some(Command::Doctor(options)) = parse("tidelab doctor --data /x").unwrap().command else {
            panic!()
        };
        let places = options.places;
        assert_eq!((places.prefix, places.data), (None, PathBuf::from("/x")));
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
