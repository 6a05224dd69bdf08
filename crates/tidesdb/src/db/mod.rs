//! The open store: recovery, dictionary changes, flushes and compactions, statistics, close. [`Db`] is its
//! handle.

pub mod background;
mod collector;
pub mod compactor;
mod count_rows;
pub mod counters;
pub mod ddl;
pub mod dictionary;
pub mod identity;
pub mod introspection;
mod live;
mod loops;
pub(crate) mod maintenance;
pub(crate) mod recovery;
pub(crate) mod report;
mod signals;
pub mod stats;

use std::path::Path;
use std::sync::Arc;

use crate::db::background::Background;
use crate::db::ddl::Ddl;
use crate::db::maintenance::Maintenance;
use crate::error::{Error, Result};
use crate::format::cluster_position::ClusterPosition;
use crate::iter::KeyRange;
use crate::lock::{LockOwner, TableMode};
use crate::options::{FamilyOptions, FormatVersion, LogLevel, Options};
use crate::store::family::Family;
use crate::store::Store;
pub(crate) use crate::store::LOCK;
use crate::txn::cursor::Cursor;
use crate::txn::detached_xa::DetachedXa;
use crate::txn::ingest::{Ingest, IngestOptions};
use crate::txn::transaction::Transaction;
use crate::txn::Transactions;

/// An open store. Clones are handles to the same one; it is closed by [`Db::close`] or when the last
/// handle and the last transaction are gone.
#[derive(Clone, Debug)]
pub struct Db {
    store: Arc<Store>,
    transactions: Arc<Transactions>,
    pub(crate) maintenance: Arc<Maintenance>,
    background: Arc<Background>,
}

impl Db {
    /// Opens or makes the store in `dir` on the operating system's disk.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_on(Arc::new(crate::io::RealDisk), dir, options, None)
    }

    /// A new transaction object.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.transactions.clone())
    }

    /// Begins a load of empty families.
    pub fn ingest(&self, options: IngestOptions) -> Result<Ingest> {
        Ingest::begin(&self.transactions, options)
    }

    /// Begins a group of dictionary changes.
    pub fn ddl(&self) -> Result<Ddl> {
        self.maintenance.ddl()
    }

    /// Makes a column family.
    pub fn create_family(&self, name: &[u8], options: FamilyOptions) -> Result<Arc<Family>> {
        let mut ddl = self.ddl()?;
        ddl.create(name, options, &[])?;
        ddl.commit()?;
        self.family(name)
    }

    /// The column family with this name. `Corruption` if a damaged dictionary may have hidden it.
    pub fn family(&self, name: &[u8]) -> Result<Arc<Family>> {
        let found = self.store.catalog.find(name);
        found.map_or_else(
            || {
                self.store.catalog.check_complete()?;
                Err(Error::NoSuchFamily(String::from_utf8_lossy(name).into_owned()))
            },
            Ok,
        )
    }

    /// Names of families with this prefix, in order.
    pub fn family_names(&self, prefix: &[u8]) -> Vec<Arc<[u8]>> {
        self.store.catalog.names(prefix)
    }

    /// Puts locks on keys of `index` under the table lock of `table`. Must be called before the first lock in
    /// `index`.
    ///
    /// # Errors
    /// `InvalidArgument` if `index` is in use or attached elsewhere: its locks stay under one of its own.
    pub fn attach(&self, index: &Family, table: &Family) -> Result<()> {
        self.transactions.locks.attach_family(index.id(), table.id())
    }

    /// A cursor on a family.
    pub fn cursor(&self, family: &Arc<Family>) -> Cursor {
        Cursor::new(family.clone())
    }

    /// Takes `count` values of a counter, `increment` apart, each with remainder `offset` modulo `increment`.
    /// Returns the first; an error if the last would be above `limit`.
    pub fn counter_take(
        &self,
        family: &Family,
        counter: u32,
        count: u64,
        offset: u64,
        increment: u64,
        limit: u64,
    ) -> Result<u64> {
        self.maintenance.counter_take(family, counter, count, offset, increment, limit)
    }

    /// Raises the counter's next value above `value`.
    pub fn counter_raise(&self, family: &Family, counter: u32, value: u64) -> Result<()> {
        self.maintenance.counter_raise(family, counter, value)
    }

    /// The counter's next value.
    pub fn counter_peek(&self, family: &Family, counter: u32) -> Result<u64> {
        self.maintenance.counter_peek(family, counter)
    }

    /// A key of the family at one of its places, for sampling: evenly spaced places from 0 to 1 represent all
    /// entries. `None` without entries.
    pub fn key_at(&self, family: &Family, share: f64) -> Result<Option<Vec<u8>>> {
        self.store.check_open()?;
        family.check_live()?;
        self.store.super_version.load().key_at(family.id(), share)
    }

    /// Entries in a range, estimated without reading data.
    pub fn estimate(&self, family: &Family, range: &KeyRange) -> Result<u64> {
        self.store.check_open()?;
        family.check_live()?;
        self.store.super_version.load().estimate(family.id(), range)
    }

    /// Seals the active memtable and waits until it is in files.
    pub fn flush(&self) -> Result<()> {
        self.store.flush(&|| false)
    }

    /// Flushes, then merges all runs of the family into its last level.
    pub fn compact(&self, family: &Family) -> Result<()> {
        self.compact_unless(family, &|| false)
    }

    /// As [`Db::compact`]; calls `interrupted` every few milliseconds, and returns `Error::Interrupted` once
    /// it is true. Merges done so far stay.
    pub fn compact_unless(&self, family: &Family, interrupted: &dyn Fn() -> bool) -> Result<()> {
        family.check_live()?;
        self.store.check_writable()?;
        self.store.flush(interrupted)?;
        self.maintenance.compact_family(family, interrupted)
    }

    /// Reads every block of the family: checksums, order, counts.
    pub fn verify(&self, family: &Family) -> Result<()> {
        self.verify_unless(family, &|| false)
    }

    /// As [`Db::verify`]; calls `interrupted` before each block, and returns `Error::Interrupted` once it is
    /// true.
    pub fn verify_unless(&self, family: &Family, interrupted: &dyn Fn() -> bool) -> Result<()> {
        self.store.check_open()?;
        family.check_live()?;
        // The family's tables alone: dropped meanwhile, others are to give their space back.
        let levels = self.store.versions.load().family(family.id()).cloned();
        for (_, table) in levels.iter().flat_map(|levels| levels.tables()) {
            table.verify_unless(interrupted)?;
        }
        Ok(())
    }

    /// Writable bytes on the store's file system, at most a second old; the largest number if unknown.
    pub fn free_space(&self) -> u64 {
        self.store.free_space()
    }

    /// Version of the formats of the store's new files.
    pub fn format(&self) -> FormatVersion {
        self.store.versions.format()
    }

    /// Bytes from which on a value written to the family now goes to a value file; 0: none does.
    pub fn value_threshold(&self, family: &Family) -> u32 {
        match self.format() {
            FormatVersion::One => 0,
            FormatVersion::Two => family.value_threshold(),
        }
    }

    /// Makes every ordered commit durable. Errors: `ReadOnly` with the reason once the log has failed.
    pub fn flush_log(&self) -> Result<()> {
        self.store.check_open()?;
        let synced = self.store.wal.sync_all();
        self.store.wal_alive()?;
        synced
    }

    /// Calls `done` once every commit ordered by now is durable, or with the error if the log fails before.
    /// Errors: the log has failed, and `done` is not called.
    pub fn when_durable(&self, done: Box<dyn FnOnce(Result<()>) + Send>) -> Result<()> {
        self.store.wal_alive()?;
        let last = self.store.wal.last_ticket();
        self.store.wal.when_durable(last, done);
        Ok(())
    }

    /// From now on, commits waiting for room in the log end with its failure; a restart shows whether they
    /// survive. For a server's shutdown; from any thread, without I/O.
    pub fn end_log_waits(&self) {
        self.store.wal.end_waits();
    }

    /// Interrupts a transaction's waits and scans; from any thread, without blocking.
    pub fn kill(&self, owner: &LockOwner) {
        self.transactions.locks.kill(owner);
    }

    /// Clears a kill meant for a finished statement, before the next statement begins. The begin of a
    /// transaction clears it too.
    pub fn clear_kill(&self, owner: &LockOwner) {
        self.transactions.locks.clear_kill(owner);
    }

    /// Xids of detached XA transactions: prepared, and found by recovery or left by their session.
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.transactions.detached.lock().keys().cloned().collect()
    }

    /// True if the detached XA transaction `xid` has changed the family, or locked it or its keys for
    /// a change. False without such a transaction, too.
    pub fn prepared_changes(&self, xid: &[u8], family: &Family) -> bool {
        let owner = self.transactions.detached.lock().get(xid).map(DetachedXa::owner);
        owner.is_some_and(|owner| {
            self.transactions.locks.holds_table(&owner, family.id(), TableMode::IntentExclusive)
        })
    }

    /// True if the store has, or may have had, expiring keys.
    pub fn has_expiring_keys(&self) -> bool {
        self.store.ttl_clock.is_used()
    }

    /// The present second of the expiry clock: seconds since 1970, never going back. It is the wall clock, or
    /// ahead of a set-back wall clock by [`Db::expiry_lag`].
    pub fn expiry_second(&self) -> u64 {
        self.store.expiry_second()
    }

    /// Seconds by which the wall clock is behind the expiry clock. A lifetime counts from the sum of both.
    pub fn expiry_lag(&self) -> u64 {
        self.store.expiry_lag()
    }

    /// Reserves seconds of the expiry clock and reports a lag now; the store does so once a second.
    #[doc(hidden)]
    pub fn maintain_expiry_clock(&self) -> Result<()> {
        self.store.maintain_expiry_clock()
    }

    /// Gives up the value files that nobody needs now, and returns their number; the store does so once a second.
    #[doc(hidden)]
    pub fn end_value_files(&self) -> Result<usize> {
        let ended = self.store.end_value_files()?;
        self.store.unlink_unused();
        Ok(ended)
    }

    /// Gives the space of dead values back now, and returns the bytes; compaction threads do so in time.
    #[doc(hidden)]
    pub fn collect_values(&self) -> Result<u64> {
        self.maintenance.collect_values()
    }

    /// Commits a detached XA transaction, durably; false if none has this xid.
    pub fn commit_by_xid(&self, xid: &[u8]) -> Result<bool> {
        self.transactions.decide(xid, true)
    }

    /// The same; the commit has this position in a cluster's order.
    ///
    /// # Errors
    /// As [`Db::set_position`].
    pub fn commit_by_xid_at(&self, xid: &[u8], position: &ClusterPosition) -> Result<bool> {
        self.transactions.decide_at(xid, true, Some(position))
    }

    /// Rolls back a detached XA transaction, durably; false if none has this xid.
    pub fn rollback_by_xid(&self, xid: &[u8]) -> Result<bool> {
        self.transactions.decide(xid, false)
    }

    /// The cluster's position: that of the newest ordered commit with one, written or not. After an opening, that of
    /// the newest commit found with one. `None`: no commit of the store ever had one.
    pub fn position(&self) -> Option<ClusterPosition> {
        self.store.pipeline.position()
    }

    /// Sets the cluster's position, downwards too, by a commit without changes; as durable as the store's sync mode says.
    /// Waits for room as a transaction's `prepare` does.
    ///
    /// # Errors
    /// `InvalidArgument` in a store of version 1 of the formats; those of a commit.
    pub fn set_position(&self, position: &ClusterPosition) -> Result<()> {
        self.store.check_open()?;
        self.transactions.commit_position(position)
    }

    /// Identifies this store and its opening, for [`Options::remembered`] of later openings; `None` without
    /// an owner's adoption, or if the disk was too full for it.
    pub fn mark(&self) -> Option<String> {
        if self.store.id_is_uncertain.load(std::sync::atomic::Ordering::Acquire) {
            return None;
        }
        identity::Mark::of(&self.store.versions.state()).map(|mark| mark.text())
    }

    /// Adds bytes to the memory of the program's sorts for this store; a negative number subtracts.
    pub fn count_sort_memory(&self, bytes: isize) {
        self.store.memory_bound.sorts.add(bytes);
    }

    /// For tests with their own background work.
    #[cfg(test)]
    pub(crate) fn stop_background(&self) {
        self.background.stop();
    }

    /// The handle's store, for the C interface.
    #[doc(hidden)]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Stops background work, makes everything durable and closes. Transactions should be gone. Remaining
    /// ones are interrupted, and every call on them returns an error at once. A second close does nothing.
    pub fn close(self) -> Result<()> {
        if self.store.check_open().is_err() {
            return Ok(());
        }
        let closed = self.end_work();
        self.store.set_closed();
        self.transactions.interrupt_all();
        closed
    }

    fn end_work(&self) -> Result<()> {
        let dead = self.store.options.read_only || self.store.wal.failed().is_some();
        // Counters are written while memtables are still flushed: there may be no room otherwise.
        let settled = match if dead { Ok(()) } else { self.maintenance.settle_counters() } {
            // The ceilings that are there stay: counters go on after a gap.
            Err(Error::DiskFull(what)) => {
                self.store.log(LogLevel::Warn, &format!("counters will skip values: {what}"));
                Ok(())
            }
            done => done,
        };
        let merged = match self.store.live.get().finish_compactions_on_close && !dead {
            true => self.maintenance.finish_compactions(),
            false => Ok(()),
        };
        if self.store.live.get().flush_on_close && !dead {
            // Commits not in files are in the log: the next opening replays it.
            if let Err(error) = self.store.flush(&|| false) {
                self.store.log(LogLevel::Warn, &format!("closed without a flush: {error}"));
            }
        }
        // Whatever failed so far: this ends the waits of others, and the log's end is synced below.
        self.background.stop();
        if dead {
            // Nothing was made durable where the log failed.
            return self.store.wal_alive();
        }
        if let Err(error) = self.store.settle_expiry_clock() {
            self.store.log(LogLevel::Warn, &format!("rows may expire up to a minute early or late: {error}"));
        }
        let synced = self.store.wal.close();
        settled.and(merged).and(synced)?;
        if let Err(error) = self.maintenance.forget_log() {
            self.store.log(LogLevel::Warn, &format!("the log's files stay listed: {error}"));
        }
        // Of readers that ended since the last flush, and of jobs that were given up.
        self.store.unlink_unused();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;
    use crate::io::FaultyDisk;
    use crate::txn::cursor::Scan;
    use crate::txn::transaction::TransactionOptions;

    fn open(disk: &FaultyDisk) -> Db {
        let options = Options { compaction_threads: 0, ..Options::default() };
        Db::open_on(disk.shared(), "/s", options, None).expect("opens")
    }

    fn tables(disk: &FaultyDisk) -> BTreeSet<PathBuf> {
        disk.files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "sst")).collect()
    }

    /// Another handle closes the store: nobody is left to flush.
    #[test]
    fn a_flush_ends_with_a_close() {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        txn.put(&family, b"a", b"value").expect("puts");
        txn.commit().expect("commits");
        db.stop_background();
        let (told, ends) = std::sync::mpsc::channel();
        let flushing = db.clone();
        std::thread::spawn(move || told.send(flushing.flush()));
        assert!(ends.recv_timeout(std::time::Duration::from_millis(50)).is_err(), "nobody flushes");
        db.store.set_closed();
        let flushed = ends.recv_timeout(std::time::Duration::from_secs(20)).expect("the flush ends");
        assert!(flushed.is_err());
    }

    /// A reader kept a merge's input, and ended after the last flush: nobody but the close unlinks it.
    #[test]
    fn a_close_leaves_no_table_that_nothing_names() {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let mut txn = db.transaction();
        for key in [b"a", b"b"] {
            txn.begin(TransactionOptions::default()).expect("begins");
            txn.put(&family, key, b"value").expect("puts");
            txn.commit().expect("commits");
            db.flush().expect("flushes");
        }
        txn.begin(TransactionOptions::default()).expect("begins");
        let mut cursor = db.cursor(&family);
        assert!(cursor.seek(&mut txn, &Scan::default()).expect("seeks"));
        let read = tables(&disk);
        db.compact(&family).expect("compacts");
        assert!(read.is_subset(&tables(&disk)), "the reader keeps them");
        drop((cursor, txn, family));
        db.close().expect("closes");
        let left = tables(&disk);
        let _db = open(&disk);
        assert_eq!(left.difference(&tables(&disk)).next(), None, "the opening found it useless");
    }
}
