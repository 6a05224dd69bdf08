//! `tidelab tpcc`: its options.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use tidelab_server::error::{io_error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::cnf;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{self, Setting};
use tidelab_server::telemetry::machine;
use tidelab_server::workload::tpcc::Scale;

use super::{distinct, finish, Installed};
use crate::measure::tpcc::{Design, Experiment, Place};
use crate::report::benchmark::tpcc::Tpcc;
use crate::report::progress::tpcc::Progress;
use crate::run::Run;

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    installed: Installed,
    /// The directory of the servers and of the loaded data.
    #[arg(long, value_name = "DIR", default_value = "build/tpcc", value_parser = super::absolute)]
    data: PathBuf,
    /// The directory that gets the results.
    #[arg(long, value_name = "DIR", default_value = "build/results")]
    out: PathBuf,
    /// The name that the files of the results begin with.
    #[arg(long, value_name = "NAME", default_value = "tpcc")]
    name: String,
    /// Print the result as JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Engines to compare, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "TidesDB,InnoDB,ROCKSDB")]
    engines: Vec<Engine>,
    /// Warehouses.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(i64).range(1..=100_000))]
    warehouses: i64,
    /// Users of the measured load.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    users: u32,
    /// Users that fill the tables.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    build_users: u32,
    /// Before the measured time: seconds, or 90s, 2m. The least, where there is a limit.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
    rampup: u32,
    /// At most so long before the measured time, until the rate is steady. 0 for no more than --rampup
    /// [default: 180s, 0 with --short-run].
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    rampup_limit: Option<u32>,
    /// A run as short as that of make demo. The ramp-up is fixed, and the output ends with the line that
    /// it is not a measurement.
    #[arg(long)]
    short_run: bool,
    /// The measured time: seconds, or 90s, 2m.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = seconds)]
    duration: u32,
    /// At most so long to wait until a server is idle, before and after the load.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    settle: u32,
    /// Rounds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// An option file for the servers. Its paths are replaced, its memory is scaled down to that of this
    /// machine [default: tidelab's settings, as in demo].
    #[arg(long, value_name = "FILE")]
    cnf: Option<PathBuf>,
    /// Megabytes of each engine's cache where no option file is named.
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=1_048_576))]
    cache: u64,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the last server's data directory and log.
    #[arg(long)]
    keep: bool,
}

/// The limit of a ramp-up, in seconds, where no other is named.
const RAMP_UP_LIMIT_S: u32 = 180;

impl Options {
    fn rampup_limit(&self) -> u32 {
        self.rampup_limit.unwrap_or(if self.short_run { 0 } else { RAMP_UP_LIMIT_S })
    }
}

/// Seconds, from `90`, `90s`, `2m` or `1h`.
pub(super) fn seconds(text: &str) -> std::result::Result<u32, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - unit.len()];
    let factor = match unit {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(format!("'{text}' is no time: 90s, 2m")),
    };
    let seconds = number.parse::<u32>().ok().and_then(|n| n.checked_mul(factor));
    seconds.filter(|s| *s <= 7 * 86_400).ok_or_else(|| format!("'{text}' is no time: 90s, 2m"))
}

/// The settings of each engine's server, and by how much memory was scaled.
fn all_settings(options: &Options, engines: &[Engine]) -> Result<(BTreeMap<Engine, Vec<Setting>>, f64)> {
    let connections = options.users.max(options.build_users) + 20;
    let Some(path) = &options.cnf else {
        let of = |e: &Engine| (*e, settings::comparison(&[*e], options.cache, connections));
        return Ok((engines.iter().map(of).collect(), 1.0));
    };
    let file = cnf::read(path)?;
    let scale = file.scale_for(machine::describe(Path::new(".")).memory_bytes);
    Ok((engines.iter().map(|e| (*e, file.settings(*e, scale, connections))).collect(), scale))
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let engines = distinct(&options.engines)?;
    let (settings, memory_scale) = all_settings(options, &engines)?;
    let design = Design {
        engines,
        rounds: options.rounds,
        scale: Scale::full(options.warehouses),
        users: options.users,
        build_users: options.build_users,
        ramp_up_s: options.rampup,
        ramp_up_limit_s: options.rampup_limit(),
        duration_s: options.duration.max(1),
        settle_s: options.settle,
        seed: options.seed,
        options: options
            .cnf
            .as_ref()
            .map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()),
        memory_scale,
    };
    let directory = &options.data;
    fs::create_dir_all(directory).map_err(io_error("cannot make", directory))?;
    let mut run = Run::new(&options.name, "TPC-C", "tpcc");
    run.machine = Some(machine::describe(directory));
    let start = Instant::now();
    let interrupt = Interrupt::on_signals()?;
    let mut progress = Progress::new(&design);
    let place = Place {
        prefix: &options.installed.prefix,
        plugin: &options.installed.plugin,
        allocator: None,
        groups: &[],
        directory,
        kept: None,
    };
    let record = Experiment::new(&design, place, &settings, &interrupt, &mut progress).run(options.keep);
    progress.close();
    let mut benchmark = Tpcc::benchmark(run, design, record, start.elapsed().as_secs_f64());
    benchmark.short_run = options.short_run;
    let interrupted = interrupt.check();
    finish(&benchmark, &options.out, options.json, "", interrupted.is_ok())?;
    interrupted?;
    Ok(benchmark.good())
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;
    use super::*;

    fn options(words: &str) -> Options {
        match parse(words).unwrap().command {
            Some(Command::Tpcc(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(["90", "15s", "2m", "1h"].map(|text| seconds(text).unwrap()), [90, 15, 120, 3600]);
        for wrong in ["", "s", "2x", "-1", "99999999999m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_seed_s_run_can_be_asked_for() {
        let options = options("tidelab tpcc --prefix /p --warehouses 40 --users 8 --build-users 8 --rampup 1m --duration 2m --settle 5 --engines innodb");
        assert_eq!((options.warehouses, options.users, options.build_users), (40, 8, 8));
        assert_eq!((options.rampup, options.duration, options.settle), (60, 120, 5));
        assert_eq!(options.engines, [Engine::InnoDb]);
    }

    #[test]
    fn a_short_run_has_a_fixed_ramp_up_and_a_limit_that_is_named_counts() {
        for (words, limit) in [("", 180), (" --short-run", 0), (" --short-run --rampup-limit 90s", 90)] {
            let options = options(&format!("tidelab tpcc --prefix /p --rampup 3s{words}"));
            assert_eq!((options.rampup, options.rampup_limit()), (3, limit), "{words}");
        }
    }

    #[test]
    fn each_engine_gets_its_settings_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.cnf");
        fs::write(&file, "[mysqld]\ninnodb_buffer_pool_size=64M\ntidesdb_block_cache_size=64M\n").unwrap();
        let options = options(&format!("tidelab tpcc --prefix /p --users 300 --cnf {}", file.display()));
        let (settings, scale) = all_settings(&options, &Engine::ALL).unwrap();
        assert_eq!((settings.len(), scale), (3, 1.0));
        let has = |e: Engine, name: &str| settings[&e].iter().any(|s| s.name == name);
        assert!(has(Engine::TidesDb, "tidesdb_block_cache_size"));
        assert!(!has(Engine::InnoDb, "tidesdb_block_cache_size"));
        assert!(settings[&Engine::InnoDb].iter().any(|s| s.name == "max_connections" && s.value == "320"));
    }
}
