//! `tidelab iibench`: a queue on a running server, or on one of the laboratory's own.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::session::{Address, Session};
use tidelab_server::server::{Data, Server, Wanted};
use tidelab_server::telemetry::machine;
use tidelab_server::workload::iibench::dsn::{Dsn, Endpoint};
use tidelab_server::workload::iibench::queue::{self, Changes, Task};
use tidelab_server::workload::iibench::{clock, runner, settings};

use crate::experiment::iibench::{cells, session};
use crate::run::{Folder, Run};

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The queue: a TOML file with [defaults] and [[task]] tables.
    #[arg(value_name = "QUEUE.toml")]
    queue: PathBuf,
    /// Another server for all tasks: user:password@unix(/path)/database, user@tcp(host:port)/database.
    #[arg(long, value_name = "DSN", value_parser = Dsn::parse, conflicts_with = "prefix")]
    dsn: Option<Dsn>,
    /// Divide numbers of rows and durations by this; rates stay.
    #[arg(long, value_name = "N")]
    scale: Option<f64>,
    /// Only these tasks, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// The directory that gets the run's folder.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// After each task, so long at most until the server is idle, as 30s; its CPU time in that while is
    /// recorded.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = clock::duration)]
    settle: Duration,
    /// Start a server of an installed MariaDB (make -s prefix) for all tasks.
    #[arg(long, value_name = "DIR", value_parser = super::absolute)]
    prefix: Option<PathBuf>,
    /// The TidesDB plugin of that server.
    #[arg(long, value_name = "FILE", default_value = "build/ha_tidesdb.so", value_parser = super::absolute)]
    plugin: PathBuf,
    /// The directory of that server; emptied at its start.
    #[arg(long, value_name = "DIR", default_value = "build/iibench", value_parser = super::absolute)]
    data: PathBuf,
    /// Megabytes of each engine's cache in that server.
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(8..=1_048_576))]
    cache: u64,
    /// Keep that server's data directory and log.
    #[arg(long, requires = "prefix")]
    keep: bool,
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let changes = Changes { dsn: options.dsn.clone(), scale: options.scale, only: options.only.clone() };
    let mut tasks = queue::read(&options.queue, &changes)?;
    let interrupt = Interrupt::on_signals()?;
    let name = options.queue.file_stem().map_or("iibench".into(), |stem| stem.to_string_lossy());
    let mut run = Run::new(&name, &format!("iibench: {name}"), "iibench");
    run.machine = Some(machine::describe(options.prefix.as_ref().map_or(&options.out, |_| &options.data)));
    let server = match &options.prefix {
        Some(prefix) => Some(start(options, prefix, &mut tasks, &mut run, &interrupt)?),
        None => None,
    };
    run.design = serde_json::to_value(&tasks).unwrap_or_default();
    run.axes = cells::axes::<String>(&[], &["load", "mixed", "query", "delete"]);
    run.metrics = cells::metrics();
    let process = match &server {
        Some(server) => Some(server.pid()),
        None => look(&tasks, &mut run)?,
    };
    let mut folder = Folder::create(&options.out, &run)?;
    let result = session::run(&tasks, &mut run, &mut folder, process, options.settle, &interrupt);
    eprintln!("Written: {}", folder.path().display());
    if let Some(server) = server {
        let directory = server.directory().to_path_buf();
        // The files of a run that failed stay for a look at them.
        let keep = options.keep || matches!(result, Ok(false));
        server.stop(keep)?;
        if keep {
            eprintln!("The server's files are in {}", directory.display());
        }
    }
    result
}

/// Starts a server with the engines of the queue and its database, and turns the tasks to it.
fn start(
    options: &Options,
    prefix: &std::path::Path,
    tasks: &mut [Task],
    run: &mut Run,
    interrupt: &Interrupt,
) -> Result<Server> {
    let engines = queue::engines(tasks)?;
    let clients = tasks.iter().map(|task| task.writers.threads + task.queries.threads).max().unwrap_or(0);
    let settings = settings::of_server(&engines, options.cache, clients + 20);
    let wanted = Wanted {
        environment: &[],
        allocator: None,
        groups: &[],
        prefix,
        engines: &engines,
        plugin: engines.contains(&Engine::TidesDb).then_some(options.plugin.as_path()),
        directory: &options.data,
        data: Data::Empty,
        settings: &settings,
    };
    let server = Server::start(&wanted, interrupt)?;
    let facts = ServerFacts::new(&prefix.to_string_lossy(), &settings, server.variables());
    for engine in &engines {
        run.servers.insert(engine.name().to_string(), facts.clone());
    }
    let failed = |statement: &str, failure: &dyn std::fmt::Display| Error::Statement {
        statement: statement.to_string(),
        message: failure.to_string(),
    };
    let mut session = Session::connect(&Address::root(server.socket()), Duration::from_secs(60))
        .map_err(|failure| failed("connect", &failure))?;
    for task in tasks {
        let statement = format!("CREATE DATABASE IF NOT EXISTS `{}`", task.dsn.database.replace('`', "``"));
        session.run(&statement).map_err(|failure| failed(&statement, &failure))?;
        task.dsn = task.dsn.on_socket(server.socket());
    }
    Ok(server)
}

/// Notes the facts of a running server. Returns its process if it is on this machine. Errors: a server of the
/// queue is missing.
fn look(tasks: &[Task], run: &mut Run) -> Result<Option<u32>> {
    let mut seen: Vec<&Dsn> = Vec::new();
    for task in tasks {
        if !seen.contains(&&task.dsn) {
            runner::reach(task)?;
            seen.push(&task.dsn);
        }
    }
    let Some(task) = tasks.first() else { return Ok(None) };
    let dsn = &task.dsn;
    let statement = "SHOW GLOBAL VARIABLES";
    let rows = runner::reach(task)?.rows(statement).map_err(|failure| Error::Statement {
        statement: statement.to_string(),
        message: failure.to_string(),
    })?;
    let variables = rows
        .into_iter()
        .filter_map(|row| <[String; 2]>::try_from(row).ok())
        .map(|[name, value]| (name, value))
        .collect();
    run.servers.insert("server".to_string(), ServerFacts::new("", &[], &variables));
    let here = matches!(dsn.endpoint, Endpoint::Unix(_));
    let same = tasks.iter().all(|task| task.dsn.endpoint == dsn.endpoint);
    Ok(if here && same { super::hammerdb::process(&variables) } else { None })
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;
    use super::*;

    fn options(words: &str) -> Options {
        match parse(words).unwrap().command {
            Some(Command::Iibench(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_queue_is_all_that_it_needs() {
        let options = options("tidelab iibench queue.toml");
        assert_eq!((options.dsn, options.scale, options.prefix), (None, None, None));
        assert!(options.only.is_empty() && options.settle.is_zero());
    }

    #[test]
    fn every_option_counts() {
        let options = options(
            "tidelab iibench q.toml --scale 60 --only a,b --prefix /p --cache 128 --settle 30s --out r --keep",
        );
        assert_eq!((options.scale, options.only), (Some(60.0), vec!["a".to_string(), "b".to_string()]));
        assert_eq!((options.cache, options.settle), (128, Duration::from_secs(30)));
    }

    #[test]
    fn without_a_server_nothing_is_begun() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("q.toml");
        let text = "[[task]]\nname = \"a\"\ndsn = \"u@unix(/nowhere/s)/d\"\nwriter_threads = 1\nmax_rows_total = 1\n";
        std::fs::write(&queue, text).unwrap();
        let out = folder.path().join("runs");
        let options = options(&format!("tidelab iibench {} --out {}", queue.display(), out.display()));
        let error = run(&options).unwrap_err().to_string();
        assert!(
            error.contains("no connection to u@unix(/nowhere/s)/d") && error.contains("--prefix"),
            "{error}"
        );
        assert!(!out.exists());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |words: &str| parse(words).unwrap_err().to_string();
        assert!(refused("tidelab iibench q.toml --dsn u@pipe(x)/d").contains("pipe"));
        assert!(refused("tidelab iibench q.toml --dsn u@/d --prefix /p").contains("--prefix"));
        assert!(refused("tidelab iibench q.toml --settle 30").contains("30"));
    }
}
