//! LMDB through `heed`.
//!
//! A B+tree in one file, read through the operating system's cache. It has neither compression, nor a cache
//! of its own, nor background work. Without sync it puts off the pages not yet written by the system;
//! [`Store::flush`] waits for them. Each point read has a read transaction of its own, because it sees the
//! newest commit only then. Each commit is one of LMDB's only writer.

use std::ops::Bound::{Included, Unbounded};
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithTls};
use tidelab_server::error::{io_error, Result};

use crate::store::{engine_error, Change, Debt, Engine, Scan, Session, Settings, Store, Sync};

struct Lmdb {
    env: Env<WithTls>,
    rows: Database<Bytes, Bytes>,
}

/// Opens or makes the store.
pub(super) fn open(directory: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
    std::fs::create_dir_all(directory).map_err(io_error("cannot make", directory))?;
    let mut options = EnvOpenOptions::new();
    // The map is whole pages.
    options.map_size((settings.map_bytes as usize).next_multiple_of(1 << 20)).max_readers(1024);
    let flags = match settings.sync {
        Sync::None => EnvFlags::NO_SYNC,
        Sync::Commit => EnvFlags::empty(),
    };
    // SAFETY: NO_SYNC endangers the file only at a crash of the machine, and no run goes on after one. No
    // other process maps or changes the file while it is open.
    let env = unsafe {
        options.flags(flags);
        options.open(directory)
    };
    let env = env.map_err(|e| error("open", e))?;
    let mut txn = env.write_txn().map_err(|e| error("open", e))?;
    let rows = env.create_database(&mut txn, None).map_err(|e| error("open", e))?;
    txn.commit().map_err(|e| error("open", e))?;
    Ok(Box::new(Lmdb { env, rows }))
}

fn error(what: &str, error: heed::Error) -> tidelab_server::error::Error {
    engine_error(Engine::Lmdb, what, error)
}

impl Store for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession { store: self, value: Vec::new() }))
    }

    fn debt(&self) -> Result<Debt> {
        Ok(Debt { unflushed_bytes: 0, compaction_bytes: 0, runs: 1 })
    }

    fn flush(&self) -> Result<()> {
        self.env.force_sync().map_err(|e| error("sync", e))
    }

    fn is_busy(&self) -> Result<bool> {
        Ok(false)
    }

    fn version(&self) -> String {
        let version = heed::lmdb_version();
        format!("{}.{}.{}", version.major, version.minor, version.patch)
    }

    fn counters(&self) -> Result<Vec<(String, u64)>> {
        let txn = self.env.read_txn().map_err(|e| error("counters", e))?;
        let stat = self.rows.stat(&txn).map_err(|e| error("counters", e))?;
        let counters = [
            ("page_bytes", u64::from(stat.page_size)),
            ("depth", u64::from(stat.depth)),
            ("branch_pages", stat.branch_pages as u64),
            ("leaf_pages", stat.leaf_pages as u64),
            ("entries", stat.entries as u64),
        ];
        Ok(counters.map(|(name, value)| (name.to_string(), value)).to_vec())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Lmdb { env, .. } = *self;
        env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbSession<'a> {
    store: &'a Lmdb,
    value: Vec<u8>,
}

impl LmdbSession<'_> {
    /// Visits rows until there are enough.
    fn visit<'t>(
        rows: impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>>,
        limit: u64,
        row: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut seen = 0;
        for found in rows {
            let (key, value) = found.map_err(|e| error("scan", e))?;
            row(key, value);
            seen += 1;
            if seen == limit {
                break;
            }
        }
        Ok(seen)
    }
}

impl Session for LmdbSession<'_> {
    fn put(&mut self, rows: &[(&[u8], &[u8])]) -> Result<()> {
        let mut txn = self.store.env.write_txn().map_err(|e| error("begin", e))?;
        for (key, value) in rows {
            self.store.rows.put(&mut txn, key, value).map_err(|e| error("put", e))?;
        }
        txn.commit().map_err(|e| error("commit", e))
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut txn = self.store.env.write_txn().map_err(|e| error("begin", e))?;
        for key in keys {
            self.store.rows.delete(&mut txn, key).map_err(|e| error("delete", e))?;
        }
        txn.commit().map_err(|e| error("commit", e))
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let txn = self.store.env.read_txn().map_err(|e| error("begin", e))?;
        let value = self.store.rows.get(&txn, key).map_err(|e| error("get", e))?;
        Ok(value.map(found).is_some())
    }

    fn get_many(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let txn = self.store.env.read_txn().map_err(|e| error("begin", e))?;
        for (place, key) in keys.iter().enumerate() {
            found(place, self.store.rows.get(&txn, key).map_err(|e| error("get", e))?);
        }
        Ok(())
    }

    fn scan(&mut self, scan: &Scan<'_>, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let txn = self.store.env.read_txn().map_err(|e| error("begin", e))?;
        let rows = &self.store.rows;
        let failed = |e| error("scan", e);
        match (scan.from, scan.forward) {
            (None, true) => Self::visit(rows.iter(&txn).map_err(failed)?, scan.limit, row),
            (None, false) => Self::visit(rows.rev_iter(&txn).map_err(failed)?, scan.limit, row),
            (Some(from), true) => {
                Self::visit(rows.range(&txn, &(Included(from), Unbounded)).map_err(failed)?, scan.limit, row)
            }
            (Some(from), false) => Self::visit(
                rows.rev_range(&txn, &(Unbounded, Included(from))).map_err(failed)?,
                scan.limit,
                row,
            ),
        }
    }

    fn transact(&mut self, keys: &[&[u8]], change: &mut Change<'_>) -> Result<()> {
        let mut txn = self.store.env.write_txn().map_err(|e| error("begin", e))?;
        for (place, key) in keys.iter().enumerate() {
            self.value.clear();
            let old = self.store.rows.get(&txn, key).map_err(|e| error("get", e))?;
            change(place, old, &mut self.value);
            self.store.rows.put(&mut txn, key, &self.value).map_err(|e| error("put", e))?;
        }
        txn.commit().map_err(|e| error("commit", e))
    }
}
