//! `tidelab server`: the servers to measure, their download, and their settings by the rules.

use clap::{Args, Subcommand};

use tidelab_server::error::{Error, Result};
use tidelab_server::server::alignment::{Alignment, Situation, Sync};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::bytes;
use tidelab_server::server::source::Source;
use tidelab_server::server::{catalogue, release};

/// The command.
#[derive(Debug, Subcommand)]
pub(super) enum Options {
    /// The servers of Debian's suites, and which of them are here.
    List,
    /// Bring servers into the cache [default: all].
    Fetch {
        /// Their names.
        names: Vec<String>,
    },
    /// Print the settings that the alignment's rules give a server, with reasons.
    Config(Config),
}

/// The situation that the rules are asked about.
#[derive(Args, Debug)]
pub(super) struct Config {
    /// The server: a name from the list, prefix:PATH or socket:PATH.
    source: Source,
    /// The engine that is measured.
    #[arg(long, default_value = "InnoDB")]
    engine: Engine,
    /// Its cache.
    #[arg(long, default_value = "2G")]
    tier: String,
    /// Bytes of redo log.
    #[arg(long, default_value = "4G")]
    redo: String,
    /// Commits are answered before they are on the disk.
    #[arg(long)]
    no_sync: bool,
    /// No binary log is written.
    #[arg(long)]
    no_binary_log: bool,
    /// Clients.
    #[arg(long, default_value_t = 512)]
    threads: u32,
    /// Tables.
    #[arg(long, default_value_t = 20)]
    tables: u32,
}

/// Does it. True: done.
pub(super) fn run(options: &Options) -> Result<bool> {
    match options {
        Options::List => list(),
        Options::Fetch { names } => catalogue::fetch(names).map(|()| true),
        Options::Config(config) => show(config),
    }
}

fn list() -> Result<bool> {
    let cache = catalogue::cache();
    let mut text = String::new();
    for entry in catalogue::entries() {
        let found = entry.prefix(&cache).map(|prefix| release::Installation::at(&prefix));
        let here = match found {
            None => format!("not here: tidelab server fetch {}", entry.name),
            Some(Ok(installation)) => {
                format!("{} in {}", installation.release, installation.prefix.display())
            }
            Some(Err(error)) => error.to_string(),
        };
        text += &format!("{:<16} Debian {:<10} {here}\n", entry.name, entry.suite);
    }
    super::put(&text);
    Ok(true)
}

fn show(config: &Config) -> Result<bool> {
    let release = config.source.find(&catalogue::cache())?.release();
    let size =
        |text: &str| bytes(text).ok_or_else(|| Error::Usage(format!("'{text}' is no size: 2G would be")));
    let threads = u64::from(config.threads);
    let aligned = Alignment::shipped()?.apply(&Situation {
        release,
        engine: config.engine,
        memory: size(&config.tier)?,
        redo: size(&config.redo)?,
        sync: if config.no_sync { Sync::Off } else { Sync::Full },
        binary_log: !config.no_binary_log,
        connections: (threads + 20).max(151),
        open_tables: threads * u64::from(config.tables) + 400,
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
    })?;
    let mut text = format!("# {release}, {}, {} of cache\n", config.engine, config.tier);
    for line in &aligned.applied {
        text += &format!("# {line}\n");
    }
    for setting in &aligned.settings {
        text += &format!("{} = {}\n", setting.name, setting.value);
    }
    super::put(&text);
    Ok(true)
}
