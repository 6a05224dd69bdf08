//! The trait of an engine under measurement, and the common settings of all.
//!
//! A [`Store`] is an open store in a directory of its own; each thread works through a [`Session`] of its
//! own. Both hide no cost: one call is one call of the engine's own interface.

use std::fmt;

use serde::{Deserialize, Serialize};
pub use tidelab::experiment::engine::{Compression, Engine, Settings, Sync};
use tidelab_server::error::{Error, Result};

/// The purpose of opening a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Single reads and writes without locks.
    Plain,
    /// Transactions with detection of conflicts (RocksDB opens another kind of store for them).
    Transactions,
}

/// An engine's deferred work, and its effect on a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    /// Bytes in memtables, to be written to files still.
    pub unflushed_bytes: u64,
    /// Bytes still to be read by compaction, by the engine's own estimate; level 0 below its trigger counts
    /// nothing in any of them.
    pub compaction_bytes: u64,
    /// Sorted runs merged by a scan: memtables, files of level 0, levels below.
    pub runs: u64,
}

/// The rows of a scan.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// First key, or the next one in the scan's direction; `None`: from the end of the store.
    pub from: Option<&'a [u8]>,
    /// Towards larger keys.
    pub forward: bool,
    /// The most rows of it.
    pub limit: u64,
}

/// Makes a transaction's new value: place of the key, the old value, the value to fill in.
pub type Change<'a> = dyn FnMut(usize, Option<&[u8]>, &mut Vec<u8>) + 'a;

/// An open store. Used by any number of threads, each through a session of its own.
pub trait Store: std::marker::Sync {
    /// A session for the calling thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;
    /// The work put off now.
    fn debt(&self) -> Result<Debt>;
    /// Writes the memory's contents to files, and waits for it.
    fn flush(&self) -> Result<()>;
    /// True if background work runs or is due.
    fn is_busy(&self) -> Result<bool>;
    /// The engine's version.
    fn version(&self) -> String;
    /// The engine's own counters, as it names them, for the record.
    fn counters(&self) -> Result<Vec<(String, u64)>>;
    /// Closes it; nothing of it runs afterwards.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's work with a store.
pub trait Session {
    /// Writes some keys in one commit.
    fn put(&mut self, rows: &[(&[u8], &[u8])]) -> Result<()>;
    /// Deletes some keys in one commit.
    fn delete(&mut self, keys: &[&[u8]]) -> Result<()>;
    /// Reads the newest committed value of a key; false where there is none.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;
    /// Reads the newest committed values of several keys by one call. Calls `found` once for each, in any order, with its
    /// place; `None` where there is none.
    fn get_many(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()>;
    /// Visits rows in order, at one moment of the store; gives their number.
    fn scan(&mut self, scan: &Scan<'_>, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64>;
    /// Reads some keys, writes a new value to each, and commits all or nothing. No other transaction
    /// changes them in between.
    fn transact(&mut self, keys: &[&[u8]], change: &mut Change<'_>) -> Result<()>;
}

/// An error of an engine, with the attempt.
pub fn engine_error(engine: Engine, what: &str, message: impl fmt::Display) -> Error {
    Error::Load { what: format!("{engine}: {what}"), message: message.to_string() }
}
