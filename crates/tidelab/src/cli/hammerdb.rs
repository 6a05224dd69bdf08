//! `tidelab hammerdb`: the options of the published benchmark's runner, as a front to TPC-C on a running
//! server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::session::{Address, Failure, Session};
use tidelab_server::telemetry::disk::Space;
use tidelab_server::telemetry::machine;
use tidelab_server::workload::tpcc::schema::TABLES;
use tidelab_server::workload::tpcc::{make_tables, Scale};

use super::finish;
use crate::measure::tpcc::run::{load, run_on, Filled, Target};
use crate::measure::tpcc::{measurement, Design, Loaded, Record, Watcher};
use crate::report::benchmark::tpcc::Tpcc;
use crate::report::progress::tpcc::Progress;
use crate::run::Run;

/// HammerDB's name for it.
const DATABASE: &str = "tpcc";

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The benchmark: tpcc.
    #[arg(short = 'b', value_name = "NAME", value_parser = ["tpcc"])]
    benchmark: String,
    /// Warehouses.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(i64).range(1..=100_000))]
    warehouses: i64,
    /// Users of the measured load.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    tpcc_vu: u32,
    /// Users that fill the tables.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    tpcc_build_vu: u32,
    /// Minutes before the measured time.
    #[arg(long, value_name = "MINUTES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1440))]
    rampup: u32,
    /// Minutes that are measured.
    #[arg(long, value_name = "MINUTES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1440))]
    duration: u32,
    /// Seconds at most to wait until the server is idle, before and after.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    settle: u32,
    /// The engine.
    #[arg(short = 'e', value_name = "ENGINE")]
    engine: Engine,
    /// The user to connect as.
    #[arg(short = 'u', value_name = "USER", default_value = "root")]
    user: String,
    /// Its password.
    #[arg(long = "pass", value_name = "PASSWORD")]
    password: Option<String>,
    /// The socket of the server.
    #[arg(short = 'S', value_name = "SOCKET")]
    socket: PathBuf,
    /// The directory that gets the results.
    #[arg(long, value_name = "DIR", default_value = "build/results")]
    out: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let address = Address {
        socket: options.socket.clone(),
        user: options.user.clone(),
        password: options.password.clone(),
    };
    let interrupt = Interrupt::on_signals()?;
    let variables = look(&address).map_err(|failure| Error::Load {
        what: format!("the server on {}", options.socket.display()),
        message: failure.to_string(),
    })?;
    let (process, facts) = (process(&variables), ServerFacts::new("", &[], &variables));
    refuse_strangers(&address)?;
    let design = Design {
        engines: vec![options.engine],
        rounds: 1,
        scale: Scale::full(options.warehouses),
        users: options.tpcc_vu,
        build_users: options.tpcc_build_vu,
        ramp_up_s: options.rampup * 60,
        ramp_up_limit_s: 0,
        duration_s: options.duration * 60,
        settle_s: options.settle,
        seed: 1,
        options: Some("those of the running server".to_string()),
        memory_scale: 1.0,
    };
    let mut run = Run::new("hammerdb", "TPC-C on a running server", "tpcc");
    run.machine = Some(machine::describe(&options.out));
    let start = Instant::now();
    let mut progress = Progress::new(&design);
    let engine = options.engine;
    let target = Target { address: &address, process, engine, database: DATABASE, recorded: None };
    let mut record = Record { servers: BTreeMap::from([(engine, facts)]), ..Record::default() };
    let result = measure(&target, &design, &interrupt, &mut progress, &mut record);
    record.ended_early = result.err().map(|error| error.to_string());
    progress.close();
    interrupt.check()?;
    let benchmark = Tpcc::benchmark(run, design, record, start.elapsed().as_secs_f64());
    let reached = |figure: &str| benchmark.cells.first()?.cell.figures.get(figure).copied();
    let result = match (reached("nopm"), reached("tpm")) {
        (Some(nopm), Some(tpm)) if benchmark.good() => {
            format!("\nTEST RESULT : System achieved {nopm:.0} NOPM from {tpm:.0} MariaDB TPM\n")
        }
        _ => String::new(),
    };
    finish(&benchmark, &options.out, false, &result, true)?;
    Ok(benchmark.good())
}

fn measure(
    target: &Target<'_>,
    design: &Design,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
    record: &mut Record,
) -> Result<()> {
    let engine = target.engine;
    make_tables(target.address, target.database, engine, design.scale, false)?;
    let Filled { rows, seconds, analyzed } = load(target, design, interrupt, watcher)?;
    let loaded = Loaded { engine, rows, seconds, analyzed, server_cpu_s: 0.0, space: Space::default() };
    watcher.loaded(&loaded);
    record.loads.push(loaded);
    let mut measured = measurement(engine, 1, design.seed + 1);
    if let Err(error) = run_on(target, design, &mut measured, interrupt, watcher, Space::default) {
        measured.cell.failures.push(error.to_string());
    }
    watcher.measured(&measured);
    record.cells.push(measured);
    Ok(())
}

fn look(address: &Address) -> std::result::Result<BTreeMap<String, String>, Failure> {
    let mut session = Session::connect(address, Duration::from_secs(30))?;
    let rows = session.rows("SHOW GLOBAL VARIABLES")?;
    Ok(rows.into_iter().filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone()))).collect())
}

/// The server's process, from its pid file, if it runs here and the file can be read.
pub(super) fn process(variables: &BTreeMap<String, String>) -> Option<u32> {
    let (data, file) = (variables.get("datadir")?, variables.get("pid_file")?);
    std::fs::read_to_string(PathBuf::from(data).join(file)).ok()?.trim().parse().ok()
}

/// The database is made anew. A database with other tables than TPC-C's belongs to a user of the server.
fn refuse_strangers(address: &Address) -> Result<()> {
    let names: Vec<String> = TABLES.iter().map(|t| format!("'{}'", t.name)).collect();
    let query = format!(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{DATABASE}' AND TABLE_NAME NOT IN ({})",
        names.join(", ")
    );
    let count = Session::connect(address, Duration::from_secs(30)).and_then(|mut s| s.number(&query));
    match count {
        Ok(0) => Ok(()),
        Ok(_) => Err(Error::Usage(format!(
            "the database {DATABASE} holds tables that are not TPC-C's; it would be dropped"
        ))),
        Err(failure) => Err(Error::Statement { statement: query, message: failure.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;

    #[test]
    fn the_published_command_line_is_understood() {
        let words =
            "tidelab hammerdb -b tpcc --warehouses 40 --tpcc-vu 8 --tpcc-build-vu 8 --rampup 1 --duration 2 \
                     --settle 5 -e tidesdb -u hammerdb --pass hammerdb123 -S /tmp/mariadb.sock";
        let words: Vec<&str> = words.split_whitespace().collect();
        match parse(&words.join(" ")).unwrap().command {
            Some(Command::Hammerdb(o)) => {
                assert_eq!((o.warehouses, o.tpcc_vu, o.rampup, o.duration, o.settle), (40, 8, 1, 2, 5));
                assert_eq!((o.user.as_str(), o.password.as_deref()), ("hammerdb", Some("hammerdb123")));
            }
            other => panic!("{other:?}"),
        }
        assert!(parse("tidelab hammerdb -b tpch -e innodb -S /s").is_err());
    }
}
