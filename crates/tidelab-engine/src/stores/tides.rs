//! TidesDB through its Rust interface.
//!
//! Plain writes take no locks, as RocksDB's do: the last commit wins. Point reads are at the newest
//! commit, scans at a snapshot. Transactions are optimistic and fail where others wrote in between.

use std::path::Path;
use std::sync::Arc;

use tidelab_server::error::Result;
use tidesdb::internal::db::Db;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::{Cursor, Start};
use tidesdb::internal::txn::transaction::{
    Change as Write, ChangeKind, OnMissing, PointRead, ReadMode, Transaction,
};
use tidesdb::{FamilyOptions, Isolation, Options, SyncMode, TransactionOptions};

use crate::store::{engine_error, Change, Compression, Debt, Engine, Scan, Session, Settings, Store, Sync};

const FAMILY: &[u8] = b"data";
/// Rows fetched by a scan at once, as the SQL engine does for long ones.
const LONG_SCAN: u32 = 32;

struct Tides {
    db: Db,
    family: Arc<Family>,
}

/// Opens or makes the store.
pub(super) fn open(directory: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
    let options = Options {
        write_buffer_size: settings.write_buffer_bytes as usize,
        block_cache_size: settings.cache_bytes as usize,
        sync_mode: match settings.sync {
            Sync::None => SyncMode::None,
            Sync::Commit => SyncMode::Full,
        },
        compaction_threads: settings.compaction_threads as usize,
        max_open_files: settings.open_files as usize,
        target_file_size: settings.file_bytes,
        base_level_size: settings.base_level_bytes,
        ..Options::default()
    };
    let db = Db::open(directory, options).map_err(|e| error("open", e))?;
    let family = if db.family_names(FAMILY).iter().any(|name| **name == *FAMILY) {
        db.family(FAMILY)
    } else {
        let family = FamilyOptions {
            compression: match settings.compression {
                Compression::None => tidesdb::Compression::None,
                Compression::Lz4 => tidesdb::Compression::Lz4,
            },
            block_size: settings.block_bytes,
            bloom_filter: settings.filter_bits > 0,
            bloom_fpr: false_positives(settings.filter_bits),
            ..FamilyOptions::default()
        };
        db.create_family(FAMILY, family)
    };
    Ok(Box::new(Tides { family: family.map_err(|e| error("family", e))?, db }))
}

/// False positives in 10,000 of a filter with so many bits a key, by RocksDB's documents: 1 % at 10 bits,
/// a factor of 1.6 for each bit.
fn false_positives(bits: u32) -> u32 {
    let share = 100.0 * 0.6185f64.powi(bits as i32 - 10);
    (share.round() as u32).clamp(1, 10_000)
}

/// A read that keeps no lock on a missing key.
fn by_entry(mode: ReadMode) -> PointRead {
    PointRead { on_missing: OnMissing::Forget, ..PointRead::of(mode) }
}

fn error(what: &str, error: tidesdb::Error) -> tidelab_server::error::Error {
    engine_error(Engine::TidesDb, what, error)
}

impl Store for Tides {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let mut reader = self.db.transaction();
        reader
            .begin(TransactionOptions {
                isolation: Isolation::ReadUncommitted,
                ..TransactionOptions::default()
            })
            .map_err(|e| error("begin", e))?;
        Ok(Box::new(TidesSession {
            reader,
            writer: self.db.transaction(),
            point: self.db.cursor(&self.family),
            cursor: self.db.cursor(&self.family),
            family: self.family.clone(),
            value: Vec::new(),
        }))
    }

    fn debt(&self) -> Result<Debt> {
        let stats = self.db.stats();
        let family = self.db.family_stats(&self.family).map_err(|e| error("stats", e))?;
        Ok(Debt {
            unflushed_bytes: stats.memtable_bytes,
            compaction_bytes: stats.compaction_debt_bytes,
            runs: u64::from(family.runs),
        })
    }

    fn flush(&self) -> Result<()> {
        self.db.flush().map_err(|e| error("flush", e))
    }

    fn is_busy(&self) -> Result<bool> {
        let stats = self.db.stats();
        Ok(stats.is_flushing || stats.immutable_memtables > 0 || stats.compaction_queue > 0)
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_string()
    }

    fn counters(&self) -> Result<Vec<(String, u64)>> {
        let s = self.db.stats();
        let counters = [
            ("user_bytes_written", s.user_bytes_written),
            ("wal_bytes_written", s.wal_bytes_written),
            ("flush_bytes_written", s.flush_bytes_written),
            ("compaction_bytes_read", s.compaction_bytes_read),
            ("compaction_bytes_written", s.compaction_bytes_written),
            ("flush_count", s.flush_count),
            ("compaction_count", s.compaction_count),
            ("backpressure_wait_us", s.backpressure_wait_us),
            ("cache_hits", s.cache_hits),
            ("cache_misses", s.cache_misses),
        ];
        Ok(counters.map(|(name, value)| (name.to_string(), value)).to_vec())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Tides { db, family } = *self;
        drop(family);
        db.close().map_err(|e| error("close", e))
    }
}

struct TidesSession {
    /// Active as long as the session; holds no snapshot and no lock.
    reader: Transaction,
    /// Idle between calls.
    writer: Transaction,
    /// Of point reads: they and scans do not take each other's buffers.
    point: Cursor,
    cursor: Cursor,
    family: Arc<Family>,
    value: Vec<u8>,
}

impl TidesSession {
    fn commit(&mut self, changes: &[Write<'_>]) -> Result<()> {
        let options = TransactionOptions { unlocked: true, ..TransactionOptions::default() };
        self.writer.begin(options).map_err(|e| error("begin", e))?;
        if let Err((_, failed)) = self.writer.write(changes) {
            return Err(self.undo("write", failed));
        }
        self.writer.commit().map_err(|e| error("commit", e))
    }

    /// Ends the transaction after an error, for the session to go on.
    fn undo(&mut self, what: &str, failed: tidesdb::Error) -> tidelab_server::error::Error {
        match self.writer.rollback() {
            Ok(()) => error(what, failed),
            Err(second) => error("rollback", second),
        }
    }

    fn change(&mut self, keys: &[&[u8]], change: &mut Change<'_>) -> tidesdb::Result<()> {
        for (place, key) in keys.iter().enumerate() {
            let TidesSession { point, writer, value, .. } = self;
            let old = point.get(writer, key, by_entry(ReadMode::Exclusive))?;
            value.clear();
            change(place, old, value);
            writer.put(&self.family, key, &self.value)?;
        }
        Ok(())
    }
}

impl Session for TidesSession {
    fn put(&mut self, rows: &[(&[u8], &[u8])]) -> Result<()> {
        let family = self.family.clone();
        let change = |(key, value)| Write {
            family: &family,
            key,
            kind: ChangeKind::Put(value),
            lock: false,
            count_unchanged: false,
            expiry: 0,
        };
        match rows {
            [row] => self.commit(&[change(*row)]),
            rows => self.commit(&rows.iter().map(|row| change(*row)).collect::<Vec<_>>()),
        }
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Result<()> {
        let family = self.family.clone();
        let change = |key| Write {
            family: &family,
            key,
            kind: ChangeKind::Delete,
            lock: false,
            count_unchanged: false,
            expiry: 0,
        };
        match keys {
            [key] => self.commit(&[change(*key)]),
            keys => self.commit(&keys.iter().map(|key| change(*key)).collect::<Vec<_>>()),
        }
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.point.get(&mut self.reader, key, by_entry(ReadMode::Latest));
        let value = value.map_err(|e| error("get", e))?;
        Ok(value.map(found).is_some())
    }

    fn get_many(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let done = self.reader.get_many(&self.family, keys, ReadMode::Latest, found);
        done.map_err(|e| error("get of several", e))
    }

    fn scan(&mut self, scan: &Scan<'_>, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let start = match (scan.from.is_some(), scan.forward) {
            (true, true) => Start::AtOrAfter,
            (true, false) => Start::AtOrBefore,
            (false, true) => Start::First,
            (false, false) => Start::Last,
        };
        let asked = tidesdb::internal::txn::cursor::Scan {
            start,
            key: scan.from.unwrap_or_default(),
            expect: u32::try_from(scan.limit).unwrap_or(LONG_SCAN).min(LONG_SCAN),
            ..tidesdb::internal::txn::cursor::Scan::default()
        };
        self.writer.begin(TransactionOptions::default()).map_err(|e| error("begin", e))?;
        let mut rows = 0;
        let mut more = self.cursor.seek(&mut self.writer, &asked);
        while let Ok(true) = more {
            let batch = self.cursor.len().min(usize::try_from(scan.limit - rows).unwrap_or(usize::MAX));
            for index in 0..batch {
                let (key, value) = self.cursor.row(index);
                row(key, value);
            }
            rows += batch as u64;
            if rows == scan.limit {
                break;
            }
            more = self.cursor.fetch(&mut self.writer, batch - 1, scan.forward);
        }
        self.cursor.reset();
        match more {
            Err(failed) => Err(self.undo("scan", failed)),
            Ok(_) => self.writer.rollback().map_err(|e| error("end of a scan", e)).map(|()| rows),
        }
    }

    fn transact(&mut self, keys: &[&[u8]], change: &mut Change<'_>) -> Result<()> {
        let options = TransactionOptions {
            isolation: Isolation::ReadCommitted,
            optimistic: true,
            ..TransactionOptions::default()
        };
        self.writer.begin(options).map_err(|e| error("begin", e))?;
        if let Err(failed) = self.change(keys, change) {
            return Err(self.undo("transaction", failed));
        }
        self.writer.commit().map_err(|e| error("commit", e))
    }
}
