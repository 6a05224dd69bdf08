//! RocksDB through the C interface of `librocksdb-sys`.
//!
//! The bindings are made from the header of the linked library, any version from 7.8 to 10. The crate
//! `rocksdb` above them asks for one version's functions, and Debian 12 and 13 have different ones.
//!
//! The settings are those of the others: one cache for blocks, index and filters, and Bloom filters on every
//! level. Levels have dynamic sizes, by the advice of RocksDB's authors and the default of its later
//! versions. The rest are defaults.

use std::path::{Path, PathBuf};

use tidelab_server::error::{io_error, Result};

use crate::store::{
    engine_error, Change, Compression, Debt, Engine, Scan, Session, Settings, Store, Sync, Use,
};

mod handle;

use handle::{Configuration, Handle, Iteration, Pinned};

struct Rocks {
    handle: Handle,
    directory: PathBuf,
}

/// Levels of RocksDB's default shape.
const LEVELS: u32 = 7;

/// Retries of a transaction refused by RocksDB without a possible conflict. No two threads write the same
/// keys, but its check needs a memtable old enough.
const TRIES: u32 = 1000;

/// Opens or makes the store.
pub(super) fn open(directory: &Path, settings: &Settings, purpose: Use) -> Result<Box<dyn Store>> {
    std::fs::create_dir_all(directory).map_err(io_error("cannot make", directory))?;
    let configuration = Configuration {
        sync: settings.sync == Sync::Commit,
        lz4: settings.compression == Compression::Lz4,
        cache_bytes: settings.cache_bytes as usize,
        write_buffer_bytes: settings.write_buffer_bytes as usize,
        base_level_bytes: settings.base_level_bytes,
        file_bytes: settings.file_bytes,
        block_bytes: settings.block_bytes as usize,
        filter_bits: settings.filter_bits,
        flush_threads: settings.flush_threads as i32,
        compaction_threads: settings.compaction_threads as i32,
        open_files: settings.open_files as i32,
        optimistic: purpose == Use::Transactions,
    };
    let handle = Handle::open(directory, &configuration).map_err(|e| error("open", e))?;
    Ok(Box::new(Rocks { handle, directory: directory.to_path_buf() }))
}

fn error(what: &str, message: String) -> tidelab_server::error::Error {
    engine_error(Engine::RocksDb, what, message)
}

impl Rocks {
    fn number(&self, property: &str) -> Result<u64> {
        self.handle.number(property).ok_or_else(|| error(property, "no such property".to_string()))
    }

    fn files_at(&self, level: u32) -> Result<u64> {
        let property = format!("rocksdb.num-files-at-level{level}");
        let text = self.handle.text(&property);
        text.and_then(|t| t.trim().parse().ok())
            .ok_or_else(|| error(&property, "no such property".to_string()))
    }
}

impl Store for Rocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RocksSession { handle: &self.handle, value: Vec::new() }))
    }

    fn debt(&self) -> Result<Debt> {
        let mut runs = 1 + self.number("rocksdb.num-immutable-mem-table")? + self.files_at(0)?;
        for level in 1..LEVELS {
            runs += u64::from(self.files_at(level)? > 0);
        }
        Ok(Debt {
            unflushed_bytes: self.number("rocksdb.cur-size-all-mem-tables")?,
            compaction_bytes: self.number("rocksdb.estimate-pending-compaction-bytes")?,
            runs,
        })
    }

    fn flush(&self) -> Result<()> {
        self.handle.flush().map_err(|e| error("flush", e))
    }

    fn is_busy(&self) -> Result<bool> {
        for property in [
            "rocksdb.num-running-flushes",
            "rocksdb.num-running-compactions",
            "rocksdb.mem-table-flush-pending",
            "rocksdb.compaction-pending",
        ] {
            if self.number(property)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn version(&self) -> String {
        // The C interface does not tell; the log does in one of its first lines.
        let log = std::fs::read_to_string(self.directory.join("LOG")).unwrap_or_default();
        let found = log.lines().find_map(|line| line.split_once("RocksDB version: "));
        found.map_or("unknown", |(_, version)| version.trim()).to_string()
    }

    fn counters(&self) -> Result<Vec<(String, u64)>> {
        let mut counters = Vec::new();
        for property in [
            "rocksdb.estimate-num-keys",
            "rocksdb.total-sst-files-size",
            "rocksdb.live-sst-files-size",
            "rocksdb.block-cache-usage",
            "rocksdb.size-all-mem-tables",
            "rocksdb.actual-delayed-write-rate",
            "rocksdb.is-write-stopped",
        ] {
            counters.push((property.to_string(), self.number(property)?));
        }
        for level in 0..LEVELS {
            counters.push((format!("rocksdb.num-files-at-level{level}"), self.files_at(level)?));
        }
        Ok(counters)
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.handle);
        Ok(())
    }
}

struct RocksSession<'a> {
    handle: &'a Handle,
    value: Vec<u8>,
}

/// True if a transaction may be tried again, or RocksDB's own words.
type Outcome = std::result::Result<bool, String>;

impl RocksSession<'_> {
    /// One try of a transaction; true when it may be tried again.
    fn try_transaction(&mut self, keys: &[&[u8]], change: &mut Change<'_>) -> Outcome {
        let transaction = self.handle.begin()?;
        let mut outcome = Ok(());
        for (place, key) in keys.iter().enumerate() {
            let old = transaction.get_for_update(key)?;
            self.value.clear();
            change(place, old.as_ref().map(Pinned::bytes), &mut self.value);
            drop(old);
            outcome = transaction.put(key, &self.value);
            if outcome.is_err() {
                break;
            }
        }
        match outcome.and_then(|()| transaction.commit()) {
            Ok(()) => Ok(false),
            Err(refused) if refused.contains("try again") || refused.contains("Try again") => Ok(true),
            Err(failed) => Err(failed),
        }
    }
}

impl Session for RocksSession<'_> {
    fn put(&mut self, rows: &[(&[u8], &[u8])]) -> Result<()> {
        let done = match rows {
            [(key, value)] => self.handle.put(key, value),
            rows => self.handle.write(|batch| rows.iter().for_each(|(key, value)| batch.put(key, value))),
        };
        done.map_err(|e| error("put", e))
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Result<()> {
        let done = match keys {
            [key] => self.handle.delete(key),
            keys => self.handle.write(|batch| keys.iter().for_each(|key| batch.delete(key))),
        };
        done.map_err(|e| error("delete", e))
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.handle.get(key).map_err(|e| error("get", e))?;
        Ok(value.as_ref().map(Pinned::bytes).map(found).is_some())
    }

    fn get_many(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let values = self.handle.get_many(keys).map_err(|e| error("get of several", e))?;
        values.iter().enumerate().for_each(|(place, value)| found(place, value.as_ref().map(Pinned::bytes)));
        Ok(())
    }

    fn scan(&mut self, scan: &Scan<'_>, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut rows = self.handle.iterate();
        match (scan.from, scan.forward) {
            (None, true) => rows.first(),
            (None, false) => rows.last(),
            (Some(from), true) => rows.at_or_after(from),
            (Some(from), false) => rows.at_or_before(from),
        }
        let mut seen = 0;
        while seen < scan.limit {
            let Some((key, value)) = rows.row() else { break };
            row(key, value);
            seen += 1;
            if scan.forward {
                rows.next();
            } else {
                rows.previous();
            }
        }
        Iteration::end(rows).map_err(|e| error("scan", e))?;
        Ok(seen)
    }

    fn transact(&mut self, keys: &[&[u8]], change: &mut Change<'_>) -> Result<()> {
        for _ in 0..TRIES {
            if !self.try_transaction(keys, change).map_err(|e| error("transaction", e))? {
                return Ok(());
            }
        }
        Err(error("transaction", format!("refused {TRIES} times")))
    }
}
