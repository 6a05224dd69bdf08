//! The command line of `tidelab-engine`.

use std::path::PathBuf;

use clap::Parser;
use tidelab::experiment::engine::{
    self, Compression, Design, Engine, Experiment, Operation, Sync, MAX_KEY, MIN_KEY, MIN_VALUE,
};
use tidelab::run::{conduct, folder};
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::telemetry::machine;

use crate::{stores, table};

const EXPLANATION: &str = "\
make bench-engine builds it with RocksDB and runs it; ENGINE_ARGS=\"...\" adds options.
docs/experiments/engine.md says what is measured, how, and what differs between the engines.";

/// The bare engine alongside RocksDB and LMDB: the same operations on each, rounds interleaved.
#[derive(Clone, Debug, Parser)]
#[command(name = "tidelab-engine", version, after_help = EXPLANATION, args_override_self = true)]
pub struct Options {
    /// Engines, separated by commas [default: those that this build links].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    engines: Vec<Engine>,
    /// Operations, separated by commas, in any order [default: all]: fill-sequential, fill-random,
    /// read-random, read-missing, read-batch, scan-forward, scan-back, range, overwrite,
    /// scan-after-overwrite, mixed, transactions, delete.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    operations: Vec<Operation>,
    /// Rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Rows of the store.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=2_000_000_000))]
    rows: u64,
    /// Bytes of a key.
    #[arg(long, value_name = "BYTES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(MIN_KEY as u64..=MAX_KEY as u64))]
    key_size: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u64).range(MIN_VALUE as u64..=1 << 24))]
    value_size: u64,
    /// Share of a value that compresses, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    compressible: f64,
    /// Threads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    threads: u32,
    /// Calls of each operation but fills, scans and deletions, in transactions the rows of all of them [default: as
    /// many as rows].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
    /// Seconds of each of these operations instead. Engines then write different amounts, and later
    /// measurements start from different stores.
    #[arg(long, value_parser = positive)]
    seconds: Option<f64>,
    /// Rows of one commit in fills, overwrites and deletions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// Passes of a scan over the whole store.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: u32,
    /// Rows of one range.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    range_rows: u64,
    /// Rows read by one call of read-batch.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    read_batch: u32,
    /// Share of reads in the mixed operation, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    read_share: f64,
    /// Rows that a transaction reads and writes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    transaction_rows: u32,
    /// The moment at which a commit is answered: none, or commit (on disk).
    #[arg(long, value_enum, default_value_t = Sync::None)]
    sync: Sync,
    /// Compression of blocks.
    #[arg(long, value_enum, default_value_t = Compression::Lz4)]
    compression: Compression,
    /// Megabytes of the cache.
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    cache: u64,
    /// Megabytes of a memtable.
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    write_buffer: u64,
    /// Bits of a filter for each key; 0: no filters.
    #[arg(long, value_name = "BITS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=30))]
    filter_bits: u32,
    /// Threads that flush, and threads that compact.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    background_threads: u32,
    /// Seconds at most for an engine to finish what it has put off.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    quiet_limit: u32,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The directory of the stores; a directory of its own below it is emptied and removed.
    #[arg(long, value_name = "DIR", default_value = "build/engine")]
    data: PathBuf,
    /// The directory that gets the run's folder.
    #[arg(long, value_name = "DIR", default_value = "build/runs")]
    out: PathBuf,
    /// The run's name.
    #[arg(long, default_value = "engine")]
    name: String,
    /// Go on with this run.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Print the cells as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err("not between 0 and 1".to_string())
    }
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err("not above 0".to_string())
    }
}

impl Options {
    /// The design of these options. Errors name a senseless option, or a part missing in this build.
    pub fn design(&self) -> Result<Design> {
        let engines = if self.engines.is_empty() { stores::linked() } else { self.engines.clone() };
        if let Some(engine) = engines.iter().find(|engine| !stores::is_linked(**engine)) {
            return Err(Error::Missing {
                what: format!("{engine} in this build"),
                remedy: "make bench-engine builds with it".to_string(),
            });
        }
        let asked = engine::Options {
            engines,
            operations: self.operations.clone(),
            rounds: self.rounds,
            rows: self.rows,
            key_size: self.key_size as usize,
            value_size: self.value_size as usize,
            compressible: self.compressible,
            threads: self.threads,
            calls: self.calls,
            seconds: self.seconds,
            batch: self.batch,
            passes: self.passes,
            range_rows: self.range_rows,
            read_batch: self.read_batch,
            read_share: self.read_share,
            transaction_rows: self.transaction_rows,
            sync: self.sync,
            compression: self.compression,
            cache: self.cache,
            write_buffer: self.write_buffer,
            filter_bits: self.filter_bits,
            background_threads: self.background_threads,
            quiet_limit: self.quiet_limit,
            seed: self.seed,
        };
        asked.design()
    }
}

/// Carries the options out. True: everything was measured and is right.
pub fn run(options: &Options) -> Result<bool> {
    let design = options.design()?;
    let interrupt = Interrupt::on_signals()?;
    let mut run = engine::head(&options.name, &design);
    run.machine = Some(machine::describe(&options.data));
    let mut folder = conduct::folder_for(&mut run, &options.out, options.resume.as_deref())?;
    let work = options.data.join(format!("run-{}", std::process::id()));
    let mut experiment = Experiment::new(design.clone(), &work, interrupt.clone());
    let good = conduct::conduct(&mut experiment, &mut run, &mut folder, &interrupt);
    let (run, cells) = folder::read(folder.path())?;
    if options.json {
        let text = serde_json::to_string_pretty(&cells)
            .map_err(|error| Error::Usage(format!("the cells as JSON: {error}")))?;
        println!("{text}");
    } else if !matches!(good, Err(Error::Interrupted)) {
        println!("\n{}", table::render(&run, &design, &cells));
    }
    eprintln!("The run is in {}", folder.path().display());
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(words: &str) -> Result<Design> {
        let words = std::iter::once("tidelab-engine").chain(words.split_whitespace());
        Options::try_parse_from(words).map_err(|error| Error::Usage(error.to_string()))?.design()
    }

    #[test]
    fn sizes_and_lists_are_understood() {
        let design =
            design("--engines lmdb,tidesdb,LMDB --operations delete,fill-random --cache 8 --sync commit")
                .unwrap();
        assert_eq!(design.engines, [Engine::Lmdb, Engine::TidesDb]);
        assert_eq!(design.operations, [Operation::FillRandom, Operation::Delete]);
        assert_eq!((design.settings.cache_bytes, design.settings.sync), (8 << 20, Sync::Commit));
        assert_eq!((design.rows, design.load.calls), (1_000_000, 1_000_000));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "--key-size 7",
            "--value-size 3",
            "--compressible 1.5",
            "--seconds 0",
            "--engines bdb",
            "--operations x",
        ] {
            assert!(design(words).is_err(), "{words}");
        }
        assert_eq!(design("--engines rocksdb").is_err(), !cfg!(feature = "rocksdb"));
    }
}
