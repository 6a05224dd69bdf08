//! `tidelab check`: the checks of servers, by name.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use tidelab_check::check::replica::Pair;
use tidelab_check::check::{self, Check, Lab};
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;

use super::{absolute, Installed};

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The checks: kill, crash, literal, counters, jobs, indexreads, newest, replica, backup, history, commits,
    /// large, definitions, foreign, killed, damage, faults, powercut, cluster, formats, entries, iibench, sql, virtuals, search, memory, sensitivity
    /// [default: all but commits, large and sensitivity; in the short form all but sensitivity].
    #[arg(value_name = "NAME")]
    names: Vec<Check>,
    #[command(flatten)]
    pub(super) installed: Installed,
    /// The directory of the servers, with one of its own for each check; emptied at each start.
    #[arg(long, value_name = "DIR", default_value = "build/check", value_parser = absolute)]
    pub(super) data: PathBuf,
    /// The form of `make test`: some minutes in all.
    #[arg(long)]
    short: bool,
    /// Kills of `kill` and `crash`, stops of `replica` [default: 5; in the short form 3, 2 and 2], of `definitions`
    /// [default: 40, 6], of each kind of statement in `killed` [default: 15, 5]; rounds of `damage` [default: 100, 5], of
    /// `faults` and of `powercut` [default: 100, 8], of `cluster` [default: 40, 5], of `search` [default: 200, 9].
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
    /// Statements of `sql` [default: 20,000, 1,500 in the short form] and of `virtuals` [default: 50,000, 1,500].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    statements: Option<u64>,
    /// Engines of `history` and `commits` [default: TidesDB,InnoDB; TidesDB in the short form], and of
    /// `large` and `memory` [default: TidesDB].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    engines: Vec<Engine>,
    /// Engines of `replica`, the primary's first, as tidesdb:innodb [default: all three pairs with
    /// TidesDB, in the short form TidesDB on both sides].
    #[arg(long, value_name = "ENGINE:ENGINE")]
    pair: Option<Pair>,
    /// Parts of `memory` that have this in their name; the one disturbance of `cluster`, as killall [default: all].
    #[arg(long, value_name = "TEXT")]
    part: Option<String>,
    /// The seed of all random choices [default: the clock; it is printed]. A round of `damage`, `faults`, `powercut`,
    /// `cluster` and `search` has the seed plus its number, from 0: a later seed goes on from there. Their short forms have a fixed one.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the checks. False: one of them failed.
pub(super) fn run(asked: &Options) -> Result<bool> {
    let names: Vec<Check> = match asked.names.as_slice() {
        // Ten million commits or rows take most of an hour.
        [] => {
            // `foreign` waits for an answer: once in 25 rounds a statement that is killed says that it changed nothing.
            let left_out: &[Check] =
                if asked.short { &[Check::Foreign] } else { &[Check::Commits, Check::Large] };
            // This check measures the laboratory itself, and takes minutes on a busy machine.
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
        prefix: &asked.installed.prefix,
        plugin: &asked.installed.plugin,
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
        part: asked.part.as_deref(),
        seed: asked.seed.unwrap_or_else(clock),
        seed_named: asked.seed.is_some(),
    };
    check::run(&names, &asked.data, lab)
}
