//! The kind `engine`: the bare engine alongside RocksDB and LMDB.
//!
//! The program `tidelab-engine` links the three and measures. Its tasks and the order of its rounds stand
//! here, so this program links none of them.

mod conductor;
mod design;

use serde::Deserialize;

pub use conductor::{Experiment, RoundOrder, RoundResult, PROGRAM, ROUND_COMMAND, ROUND_RESULT};
pub use design::{
    cell_id, describe, head, metrics, reference, Compression, Design, Engine, Load, Operation, Settings,
    Sync, ENGINE, OPERATION, SERIES,
};

use tidelab_server::error::{Error, Result};

use crate::run::Paths;
use crate::run::Run;

/// Least bytes of a key: its number.
pub const MIN_KEY: usize = 8;
/// Most bytes of a key: LMDB's bound.
pub const MAX_KEY: usize = 511;
/// Least bytes of a value: its identification.
pub const MIN_VALUE: usize = 12;

/// The options of the file; the program's options have the same names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Engines.
    pub engines: Vec<Engine>,
    /// Operations, in any order; none: all.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// Rounds.
    pub rounds: u32,
    /// Rows of the store.
    pub rows: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Compressible share of a value, from 0 to 1.
    pub compressible: f64,
    /// Threads.
    pub threads: u32,
    /// Calls of each operation but fills, scans and deletions; none: as many as rows.
    pub calls: Option<u64>,
    /// Seconds of these operations instead.
    pub seconds: Option<f64>,
    /// Rows of one commit.
    pub batch: u32,
    /// Passes of a scan.
    pub passes: u32,
    /// Rows of one range.
    pub range_rows: u64,
    /// Rows read by one call of `read-batch`.
    pub read_batch: u32,
    /// Share of reads in the mixed operation.
    pub read_share: f64,
    /// Rows of a transaction.
    pub transaction_rows: u32,
    /// The moment of a commit's answer.
    pub sync: Sync,
    /// Compression of blocks.
    pub compression: Compression,
    /// Megabytes of the cache.
    pub cache: u64,
    /// Megabytes of a memtable.
    pub write_buffer: u64,
    /// Bits of a filter for each key; 0: no filters.
    pub filter_bits: u32,
    /// Threads for flushes, and threads for compactions.
    pub background_threads: u32,
    /// Seconds at most for an engine to finish its deferred work.
    pub quiet_limit: u32,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Options {
    /// The design of these options. Errors name a senseless option.
    pub fn design(&self) -> Result<Design> {
        let share = |share: f64| (0.0..=1.0).contains(&share);
        let bounds = [
            (!self.engines.is_empty(), "engines names none"),
            (self.rounds > 0, "rounds is 0"),
            (self.rows > 0, "rows is 0"),
            ((MIN_KEY..=MAX_KEY).contains(&self.key_size), "key_size is not from 8 to 511"),
            ((MIN_VALUE..=1 << 24).contains(&self.value_size), "value_size is not from 12 to 16777216"),
            (share(self.compressible), "compressible is not from 0 to 1"),
            (share(self.read_share), "read_share is not from 0 to 1"),
            ((1..=255).contains(&self.threads), "threads is not from 1 to 255"),
            (self.calls != Some(0), "calls is 0"),
            (self.seconds.is_none_or(|s| s.is_finite() && s > 0.0), "seconds is not above 0"),
            (self.batch > 0 && self.passes > 0 && self.range_rows > 0, "batch, passes or range_rows is 0"),
            (self.read_batch > 0, "read_batch is 0"),
            (self.transaction_rows > 0, "transaction_rows is 0"),
            (self.cache > 0 && self.write_buffer > 0, "cache or write_buffer is 0"),
            (self.background_threads > 0, "background_threads is 0"),
        ];
        if let Some((_, wrong)) = bounds.iter().find(|(good, _)| !good) {
            return Err(Error::Usage((*wrong).to_string()));
        }
        let mut engines: Vec<Engine> = Vec::new();
        for engine in &self.engines {
            if !engines.contains(engine) {
                engines.push(*engine);
            }
        }
        let asked = |operation: &Operation| self.operations.is_empty() || self.operations.contains(operation);
        let row_bytes = (self.key_size + self.value_size) as u64;
        Ok(Design {
            engines,
            operations: Operation::ALL.into_iter().filter(asked).collect(),
            rounds: self.rounds,
            rows: self.rows,
            key_bytes: self.key_size,
            value_bytes: self.value_size,
            compressible: self.compressible,
            seed: self.seed,
            load: Load {
                threads: self.threads,
                calls: self.calls.unwrap_or(self.rows),
                seconds: self.seconds,
                batch: self.batch,
                passes: self.passes,
                range_rows: self.range_rows,
                read_batch: self.read_batch,
                read_share: self.read_share,
                transaction_rows: self.transaction_rows,
            },
            settings: Settings {
                sync: self.sync,
                compression: self.compression,
                cache_bytes: self.cache << 20,
                write_buffer_bytes: self.write_buffer << 20,
                base_level_bytes: (self.write_buffer << 20) * 2,
                file_bytes: 32 << 20,
                block_bytes: 4096,
                filter_bits: self.filter_bits,
                flush_threads: self.background_threads,
                compaction_threads: self.background_threads,
                open_files: 1024,
                // Half-full pages, headers, pages that a commit frees only for the next but one.
                map_bytes: (1 << 30) + self.rows * (row_bytes + 64) * 8,
            },
            quiet_limit_s: self.quiet_limit,
        })
    }
}

/// The conductor of these options; the run gets its axes and metrics.
pub fn open(options: &Options, paths: Paths<'_>, run: &mut Run) -> Result<Experiment> {
    let design = options.design().map_err(|error| Error::Usage(format!("{}: {error}", run.name)))?;
    describe(run, &design);
    Ok(Experiment::new(design, &paths.data.join("engine"), paths.interrupt.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_against_rocksdb_where_it_is() {
        assert_eq!(reference(&Engine::ALL), Some(Engine::RocksDb));
        assert_eq!(reference(&[Engine::TidesDb, Engine::Lmdb]), Some(Engine::Lmdb));
        assert_eq!(reference(&[Engine::TidesDb]), None);
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for operation in Operation::ALL {
            assert_eq!(serde_json::to_value(operation).unwrap(), operation.name());
            assert_eq!(operation.name().parse(), Ok(operation));
        }
        for engine in Engine::ALL {
            assert_eq!(serde_json::to_value(engine).unwrap(), engine.name());
            assert_eq!(engine.name().to_lowercase().parse(), Ok(engine));
        }
    }
}
