//! The design of the kind `engine`, as data: engines, operations, settings, and the figures of its cells.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidelab_server::server::facts::ServerFacts;

use crate::run::{Axis, Better, CellId, Metric, Role, Run};

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Engine {
    /// `crates/tidesdb`.
    #[serde(rename = "TidesDB")]
    TidesDb,
    /// RocksDB, where the program is built with it (feature `rocksdb`).
    #[serde(rename = "RocksDB")]
    RocksDb,
    /// LMDB.
    #[serde(rename = "LMDB")]
    Lmdb,
}

impl Engine {
    /// All of them, also those missing in a build.
    pub const ALL: [Engine; 3] = [Engine::TidesDb, Engine::RocksDb, Engine::Lmdb];

    /// The name in tables, records and on the command line (there in any case).
    pub fn name(self) -> &'static str {
        match self {
            Engine::TidesDb => "TidesDB",
            Engine::RocksDb => "RocksDB",
            Engine::Lmdb => "LMDB",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Engine, String> {
        Engine::ALL
            .into_iter()
            .find(|engine| engine.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("no engine '{text}': TidesDB, RocksDB, LMDB"))
    }
}

/// The moment at which a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// For nothing: the operating system writes when it likes.
    None,
    /// For the disk.
    Commit,
}

/// Compression of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Blocks as they are.
    None,
    /// LZ4 on every level; LMDB has no compression.
    Lz4,
}

/// The settings of every engine, as far as it has such a setting. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The moment at which a commit is answered.
    pub sync: Sync,
    /// Compression of blocks.
    pub compression: Compression,
    /// Cache of blocks, index and filters. LMDB reads through the operating system's.
    pub cache_bytes: u64,
    /// One memtable; two may be in memory.
    pub write_buffer_bytes: u64,
    /// The first level below level 0.
    pub base_level_bytes: u64,
    /// One table file.
    pub file_bytes: u64,
    /// A block before compression.
    pub block_bytes: u32,
    /// Bits of a filter for each key; 0: no filters.
    pub filter_bits: u32,
    /// Threads for flushes.
    pub flush_threads: u32,
    /// Threads for compactions.
    pub compaction_threads: u32,
    /// Open table files.
    pub open_files: u32,
    /// Address space of LMDB's map; the file grows only as far as it is used.
    pub map_bytes: u64,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Every row once in the order of keys, into an empty store.
    FillSequential,
    /// Every row once in random order, into an empty store.
    FillRandom,
    /// Point reads of existing rows.
    ReadRandom,
    /// Point reads of missing keys, between existing ones.
    ReadMissing,
    /// Reads of several existing rows by one call.
    ReadBatch,
    /// The whole store, forward, again and again.
    ScanForward,
    /// The whole store, backward.
    ScanBack,
    /// From a random key some rows forward.
    Range,
    /// Random rows written anew.
    Overwrite,
    /// The whole store forward, right after random rows were written anew: nothing is waited for.
    ScanAfterOverwrite,
    /// Point reads and overwrites by turns.
    Mixed,
    /// Transactions with reads and writes of several rows.
    Transactions,
    /// Half of the rows deleted, in random order.
    Delete,
}

use Operation::{
    Delete, FillRandom, FillSequential, Mixed, Overwrite, Range, ReadBatch, ReadMissing, ReadRandom,
    ScanAfterOverwrite, ScanBack, ScanForward, Transactions,
};

impl Operation {
    /// All of them, in measuring order.
    pub const ALL: [Operation; 13] = [
        FillSequential,
        FillRandom,
        ReadRandom,
        ReadMissing,
        ReadBatch,
        ScanForward,
        ScanBack,
        Range,
        Overwrite,
        ScanAfterOverwrite,
        Mixed,
        Transactions,
        Delete,
    ];

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            FillSequential => "fill-sequential",
            FillRandom => "fill-random",
            ReadRandom => "read-random",
            ReadMissing => "read-missing",
            ReadBatch => "read-batch",
            ScanForward => "scan-forward",
            ScanBack => "scan-back",
            Range => "range",
            Overwrite => "overwrite",
            ScanAfterOverwrite => "scan-after-overwrite",
            Mixed => "mixed",
            Transactions => "transactions",
            Delete => "delete",
        }
    }

    /// The unit of its rate.
    pub fn unit(self) -> &'static str {
        match self {
            ScanForward | ScanBack | ScanAfterOverwrite | ReadBatch => "rows",
            Range => "ranges",
            Transactions => "transactions",
            _ => "calls",
        }
    }

    /// True if it changes the store.
    pub fn writes(self) -> bool {
        matches!(self, FillSequential | FillRandom | Overwrite | Mixed | Transactions | Delete)
    }

    /// True if it reads the whole store from one end to the other.
    pub fn is_scan(self) -> bool {
        matches!(self, ScanForward | ScanBack | ScanAfterOverwrite)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Operation, String> {
        Operation::ALL.into_iter().find(|operation| operation.name() == text).ok_or_else(|| {
            let all: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
            format!("no operation '{text}': {}", all.join(", "))
        })
    }
}

/// The amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Threads.
    pub threads: u32,
    /// Calls of each operation but fills, scans and deletions, over all threads; in transactions the rows of all.
    pub calls: u64,
    /// Seconds until an operation ends instead; fills and deletions end with their last row.
    pub seconds: Option<f64>,
    /// Rows of one commit in fills, overwrites and deletions.
    pub batch: u32,
    /// Passes of each thread over the whole store in a scan.
    pub passes: u32,
    /// Rows of one range.
    pub range_rows: u64,
    /// Rows read by one call of `read-batch`; 0 in records from before it.
    #[serde(default)]
    pub read_batch: u32,
    /// Share of reads in the mixed operation, from 0 to 1.
    pub read_share: f64,
    /// Rows read and written by a transaction.
    pub transaction_rows: u32,
}

/// The label of the competitor.
pub const ENGINE: &str = "engine";
/// The label of the operation.
pub const OPERATION: &str = "operation";
/// The file of a cell's series by time.
pub const SERIES: &str = "seconds.csv";

/// The design of a run: part of its record, and of the task of each measuring process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The engines, in the order of the first round.
    pub engines: Vec<Engine>,
    /// The operations, in the order of [`Operation::ALL`].
    pub operations: Vec<Operation>,
    /// Rounds.
    pub rounds: u32,
    /// Rows of the store.
    pub rows: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Compressible share of a value.
    pub compressible: f64,
    /// The seed of all random choices. Each round derives its own from it, the same for all engines.
    pub seed: u64,
    /// The work of each operation.
    pub load: Load,
    /// The settings of the engines.
    pub settings: Settings,
    /// Seconds at most for an engine to finish its deferred work.
    pub quiet_limit_s: u32,
}

impl Design {
    /// The seed of a round.
    pub fn seed_of(&self, round: u32) -> u64 {
        self.seed.wrapping_add(u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Names a cell.
pub fn cell_id(engine: Engine, operation: Operation, round: u32) -> CellId {
    CellId::new([(ENGINE, engine.name().to_string()), (OPERATION, operation.name().to_string())], round)
}

/// The figures of cells, the most important one first.
pub fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main("rate_per_s", "Rate", "1/s", Higher),
        Metric::main("settled_rate_per_s", "Rate with the work that was put off", "1/s", Higher),
        Metric::main("p50_us", "Latency, median", "us", Lower),
        Metric::main("p99_us", "Latency, 99 %", "us", Lower),
        Metric::detail("mean_us", "Latency, mean", "us", Lower),
        Metric::detail("p95_us", "Latency, 95 %", "us", Lower),
        Metric::detail("p999_us", "Latency, 99.9 %", "us", Lower),
        Metric::detail("max_us", "Latency, longest", "us", Lower),
        Metric::main("cpu_us", "CPU time of a call, all threads of the process", "us", Lower),
        Metric::main("write_amplification", "Bytes written for a byte committed, at the end", "B/B", Lower),
        Metric::main(
            "settled_write_amplification",
            "Bytes written for a byte committed, when quiet",
            "B/B",
            Lower,
        ),
        Metric::main("space_amplification", "Bytes on disk for a byte of rows, when quiet", "B/B", Lower),
        Metric::main("unflushed_bytes", "In memory at the end, to be written to files", "B", Lower),
        Metric::main("compaction_debt_bytes", "To be compacted at the end", "B", Lower),
        Metric::detail("runs", "Sorted runs that a scan merges, at the end", "1", Lower),
        Metric::main("quiet_s", "Time until the work that was put off is done", "s", Lower),
        Metric::detail("quiet_written_bytes", "Written meanwhile", "B", Lower),
        Metric::detail("quiet_cpu_s", "CPU time meanwhile", "s", Lower),
        Metric::detail("written_bytes", "Given to write calls during the operation", "B", Lower),
        Metric::detail("device_bytes", "Of pages made dirty during the operation", "B", Lower),
        Metric::detail("space_bytes", "On disk when quiet", "B", Lower),
        Metric::detail("log_bytes", "Of it logs", "B", Lower),
        Metric::detail("resident_bytes", "Memory of the process", "B", Lower),
        Metric::detail("reopened_s", "Closing the store and opening it again before", "s", Lower),
        Metric::detail("count", "Calls, rows, ranges or transactions", "1", Neither),
        Metric::detail("user_bytes", "Keys and values committed", "B", Neither),
        Metric::detail("seconds", "Duration", "s", Neither),
    ]
}

/// Fills in the head of a run before anything is measured.
pub fn head(name: &str, design: &Design) -> Run {
    let mut run = Run::new(name, "The bare engine alongside RocksDB and LMDB", "engine");
    run.design = serde_json::to_value(design).unwrap_or_default();
    run.about = "One mix of operations on each engine through one interface, in a process of its own for \
        each engine and round. After every operation that writes, the engine finishes what it has put off, \
        and that is measured too."
        .to_string();
    describe(&mut run, design);
    run
}

/// Adds axes, figures and notes to the head of a run.
pub fn describe(run: &mut Run, design: &Design) {
    run.axes = vec![
        Axis::new(ENGINE, "Engine", Role::Competitor, &design.engines),
        Axis::new(OPERATION, "Operation", Role::Category, &design.operations),
    ];
    run.metrics = metrics();
    run.reference = reference(&design.engines).map(|engine| engine.name().to_string());
    run.notes = notes(design);
}

/// The reference engine of ratios: RocksDB, or without it the first other than TidesDB.
pub fn reference(engines: &[Engine]) -> Option<Engine> {
    let other = || engines.iter().copied().find(|engine| *engine != Engine::TidesDb);
    engines.iter().copied().find(|engine| *engine == Engine::RocksDb).or_else(other)
}

/// Facts of the compared engines for a reader.
fn notes(design: &Design) -> Vec<String> {
    let mut notes = vec![
        "Bytes written are those of all write calls of the process, logs included; latencies of scans are \
         those of 100 rows; a call's latency includes making its key and checking its answer."
            .to_string(),
    ];
    if design.engines.contains(&Engine::Lmdb) {
        notes.push(
            "LMDB has no compression, no cache of its own and no log: it reads through the operating \
             system's cache, whatever the cache's size here, and without sync a crash of the machine may \
             leave it unreadable, where the others lose the last commits."
                .to_string(),
        );
    }
    if !design.engines.contains(&Engine::RocksDb) {
        notes.push(
            "RocksDB was not measured: it was not asked for, or the build does not link it.".to_string(),
        );
    }
    notes
}

/// The facts of an engine: version, settings, and its own counters at its end.
pub fn facts(version: &str, settings: &Settings, counters: &[(String, u64)]) -> ServerFacts {
    let asked: BTreeMap<String, String> = match serde_json::to_value(settings) {
        Ok(serde_json::Value::Object(fields)) => fields
            .into_iter()
            .map(|(name, value)| match value {
                serde_json::Value::String(text) => (name, text),
                other => (name, other.to_string()),
            })
            .collect(),
        _ => BTreeMap::new(),
    };
    ServerFacts {
        version: version.to_string(),
        prefix: String::new(),
        settings: asked,
        read_back: BTreeMap::new(),
        variables: counters.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
    }
}
