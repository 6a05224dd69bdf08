//! One operation on an open store: several threads do their share of it, each call is timed, each answer
//! checked.
//!
//! Every nanosecond of a thread belongs to some call: a call's latency runs from the end of the one before
//! to its own end, so that no stop falls between two measurements. What making keys and checking answers
//! costs is in it, the same for all engines.
//!
//! Rows are written by one thread each (row number modulo threads), so that what a row must hold is known
//! at any moment. A read must find at least the version that was committed when it began.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::latency::Nanoseconds;
use crate::store::Store;
use crate::worker::Worker;

/// Rows of a scan that are timed together.
pub const SCAN_SAMPLE: u64 = 100;
/// Width of a step of the series by time.
pub const STEP: Duration = Duration::from_millis(100);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    /// Every row once in the order of keys, into an empty store.
    FillSequential,
    /// Every row once in random order, into an empty store.
    FillRandom,
    /// Point reads of rows that are there.
    ReadRandom,
    /// Point reads of keys that are not there, between those that are.
    ReadMissing,
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
    /// Transactions that read and write several rows.
    Transactions,
    /// Half of the rows deleted, in random order.
    Delete,
}

use Operation::*;

impl Operation {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Operation; 12] = [
        FillSequential,
        FillRandom,
        ReadRandom,
        ReadMissing,
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

    /// What is counted: the unit of its rate.
    pub fn unit(self) -> &'static str {
        match self {
            ScanForward | ScanBack | ScanAfterOverwrite => "rows",
            Range => "ranges",
            Transactions => "transactions",
            _ => "calls",
        }
    }

    /// Whether it changes the store.
    pub fn writes(self) -> bool {
        matches!(self, FillSequential | FillRandom | Overwrite | Mixed | Transactions | Delete)
    }

    /// Whether it reads the whole store from one end to the other.
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

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Threads.
    pub threads: u32,
    /// Calls of each operation but fills, scans and deletions, over all threads.
    pub calls: u64,
    /// Seconds after which an operation ends instead; fills and deletions end with their last row.
    pub seconds: Option<f64>,
    /// Rows of one commit in fills, overwrites and deletions.
    pub batch: u32,
    /// Passes of each thread over the whole store in a scan.
    pub passes: u32,
    /// Rows of one range.
    pub range_rows: u64,
    /// Share of reads in the mixed operation, from 0 to 1.
    pub read_share: f64,
    /// Rows that a transaction reads and writes.
    pub transaction_rows: u32,
}

/// What an operation came to.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Rows, reads, ranges or transactions that were done.
    pub count: u64,
    /// From the first thread's start to the last one's end.
    pub seconds: f64,
    /// Latencies of the calls; of scans those of [`SCAN_SAMPLE`] rows.
    pub latency: Nanoseconds,
    /// Bytes of keys and values that it committed.
    pub user_bytes: u64,
    /// How many ended in each [`STEP`] since the start.
    pub steps: Vec<u64>,
    /// Wrong answers and errors, the first ones of each thread in words.
    pub failures: Vec<String>,
}

/// Runs an operation. The turn tells repetitions of one operation on one store apart.
pub fn run(store: &dyn Store, data: &Data, operation: Operation, load: &Load, turn: u64) -> Measured {
    let order = match operation {
        FillRandom => data.shuffled(turn),
        Delete => {
            let mut rows = data.shuffled(turn);
            rows.truncate(rows.len() / 2);
            rows
        }
        _ => Vec::new(),
    };
    let start = Instant::now();
    let parts = std::thread::scope(|scope| {
        let order = &order;
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| {
                scope
                    .spawn(move || Worker::new(data, load, operation, thread, turn, start).work(store, order))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| Measured {
                    failures: vec!["a thread of the load ended with a panic".to_string()],
                    ..Measured::default()
                })
            })
            .collect::<Vec<_>>()
    });
    let mut all = Measured { seconds: start.elapsed().as_secs_f64(), ..Measured::default() };
    for part in parts {
        all.count += part.count;
        all.latency.merge(&part.latency);
        all.user_bytes += part.user_bytes;
        all.steps.resize(all.steps.len().max(part.steps.len()), 0);
        for (sum, steps) in all.steps.iter_mut().zip(&part.steps) {
            *sum += steps;
        }
        all.failures.extend(part.failures);
    }
    all
}
