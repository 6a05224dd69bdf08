//! The open store: recovery, dictionary changes, flushes and compactions, statistics, close. [`Db`] is its handle.

pub mod background;
pub mod compactor;
mod count_rows;
pub mod counters;
pub mod ddl;
pub mod dictionary;
pub mod identity;
pub mod introspection;
mod live;
pub(crate) mod maintenance;
pub(crate) mod recovery;
pub(crate) mod report;
pub mod stats;

use std::path::Path;
use std::sync::Arc;

use crate::db::background::Background;
use crate::db::ddl::Ddl;
use crate::db::maintenance::Maintenance;
use crate::error::{Error, Result};
use crate::iter::KeyRange;
use crate::lock::{LockOwner, TableMode};
use crate::options::{FamilyOptions, LogLevel, Options};
use crate::store::family::Family;
use crate::store::Store;
pub(crate) use crate::store::LOCK;
use crate::txn::cursor::Cursor;
use crate::txn::recovered::Recovered;
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

    /// The column family of a name. `Corruption` where a damaged dictionary may have hidden it.
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

    /// Names of families that start with `prefix`, in order.
    pub fn family_names(&self, prefix: &[u8]) -> Vec<Arc<[u8]>> {
        self.store.catalog.names(prefix)
    }

    /// Says that locks on keys of `index` come under the table lock of `table`. To be called before the
    /// first lock in `index`.
    ///
    /// # Errors
    /// `InvalidArgument` when `index` is in use or attached elsewhere: its locks stay under one of its own.
    pub fn attach(&self, index: &Family, table: &Family) -> Result<()> {
        self.transactions.locks.attach_family(index.id(), table.id())
    }

    /// A cursor on a family.
    pub fn cursor(&self, family: &Arc<Family>) -> Cursor {
        Cursor::new(family.clone())
    }

    /// Takes `count` values of a counter: the first of them, `increment` apart, each `offset` modulo
    /// `increment`; an error when the last would be above `limit`.
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

    /// Makes the counter's next value one above `value`, if it is not so already.
    pub fn counter_raise(&self, family: &Family, counter: u32, value: u64) -> Result<()> {
        self.maintenance.counter_raise(family, counter, value)
    }

    /// The counter's next value.
    pub fn counter_peek(&self, family: &Family, counter: u32) -> Result<u64> {
        self.maintenance.counter_peek(family, counter)
    }

    /// A key of the family at one of its places, for sampling: all places together that are evenly apart from 0 to 1
    /// stand for all entries. None where there is none.
    pub fn key_at(&self, family: &Family, share: f64) -> Result<Option<Vec<u8>>> {
        self.store.check_open()?;
        family.check_live()?;
        self.store.view.load().key_at(family.id(), share)
    }

    /// Entries in a range, estimated without reading data.
    pub fn estimate(&self, family: &Family, range: &KeyRange) -> Result<u64> {
        self.store.check_open()?;
        family.check_live()?;
        self.store.view.load().estimate(family.id(), range)
    }

    /// Seals the active memtable and waits until it is in files.
    pub fn flush(&self) -> Result<()> {
        self.store.flush(&|| false)
    }

    /// Flushes, then merges all runs of the family into its last level.
    pub fn compact(&self, family: &Family) -> Result<()> {
        self.compact_unless(family, &|| false)
    }

    /// As [`Db::compact`], until `interrupted` answers true, which it is asked every few milliseconds:
    /// `Error::Interrupted`, and what was merged so far stays merged.
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

    /// As [`Db::verify`], until `interrupted` answers true, which it is asked before each block:
    /// `Error::Interrupted`.
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

    /// Bytes that can still be written where the store lies, as of at most a second ago; the largest number
    /// when that cannot be told.
    pub fn free_space(&self) -> u64 {
        self.store.free_space()
    }

    /// Makes everything that is ordered now durable. Errors: `ReadOnly` with the reason once the log has failed.
    pub fn flush_log(&self) -> Result<()> {
        self.store.check_open()?;
        let synced = self.store.wal.sync_all();
        self.store.wal_alive()?;
        synced
    }

    /// Calls `done` once everything that is ordered now is durable, or with the error when the log fails
    /// before. An error: the log has failed, and `done` is not called.
    pub fn when_durable(&self, done: Box<dyn FnOnce(Result<()>) + Send>) -> Result<()> {
        self.store.wal_alive()?;
        let last = self.store.wal.last_ticket();
        self.store.wal.when_durable(last, done);
        Ok(())
    }

    /// Commits that wait for room in the log end with its failure, now and from now on: whether they survive is
    /// known after a restart. For a server that shuts down; from any thread, without I/O.
    pub fn end_log_waits(&self) {
        self.store.wal.end_waits();
    }

    /// Interrupts a transaction's waits and scans; from any thread, without blocking.
    pub fn kill(&self, owner: &LockOwner) {
        self.transactions.locks.kill(owner);
    }

    /// Ends the effect of a kill that was meant for a statement which is over; the next one does so by itself.
    pub fn clear_kill(&self, owner: &LockOwner) {
        self.transactions.locks.clear_kill(owner);
    }

    /// Xids of prepared transactions that have no owner: recovery found them, or their owner went away.
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.transactions.recovered.lock().keys().cloned().collect()
    }

    /// Whether the prepared transaction without an owner that has this xid has changed the family, or locked it or
    /// keys of it for a change. False also when there is none.
    pub fn prepared_changes(&self, xid: &[u8], family: &Family) -> bool {
        let owner = self.transactions.recovered.lock().get(xid).map(Recovered::owner);
        owner.is_some_and(|owner| {
            self.transactions.locks.holds_table(&owner, family.id(), TableMode::IntentExclusive)
        })
    }

    /// Whether the store has, or may have had, keys that expire.
    pub fn has_expiring_keys(&self) -> bool {
        self.store.ttl_clock.is_used()
    }

    /// The present second of the clock by which keys expire: seconds since 1970, never going back. It is the wall clock,
    /// or ahead of a wall clock that was set back, by [`Db::expiry_lag`].
    pub fn expiry_second(&self) -> u64 {
        self.store.expiry_second()
    }

    /// Seconds by which the wall clock is behind the clock by which keys expire. A lifetime counts from the sum.
    pub fn expiry_lag(&self) -> u64 {
        self.store.expiry_lag()
    }

    /// Reserves seconds of the expiry clock now and reports a lag, as the store does once a second.
    #[doc(hidden)]
    pub fn tend_expiry_clock(&self) -> Result<()> {
        self.store.tend_expiry_clock()
    }

    /// Commits a prepared transaction without an owner, durably; false when there is none of this xid.
    pub fn commit_by_xid(&self, xid: &[u8]) -> Result<bool> {
        self.transactions.decide(xid, true)
    }

    /// Rolls back a prepared transaction without an owner, durably; false when there is none of this xid.
    pub fn rollback_by_xid(&self, xid: &[u8]) -> Result<bool> {
        self.transactions.decide(xid, false)
    }

    /// Which store this is, and its opening, for [`Options::remembered`] of later ones; `None` for one that no owner took
    /// on.
    pub fn mark(&self) -> Option<String> {
        identity::Mark::of(&self.store.versions.state()).map(|mark| mark.text())
    }

    /// For tests that do its work themselves.
    #[cfg(test)]
    pub(crate) fn stop_background(&self) {
        self.background.stop();
    }

    /// The handle's store, for the C interface.
    #[doc(hidden)]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Stops background work, makes everything durable and closes. Transactions should be gone: those that are left are
    /// interrupted, and every call on what is left answers an error at once. A second close does nothing.
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
        if self.store.live.get().finish_compactions_on_close && !dead {
            self.maintenance.finish_compactions()?;
        }
        if self.store.live.get().flush_on_close && !dead {
            // Commits not in files are in the log: the next opening replays it.
            if let Err(error) = self.store.flush(&|| false) {
                self.store.log(LogLevel::Warn, &format!("closed without a flush: {error}"));
            }
        }
        self.background.stop();
        settled?;
        if dead {
            // Nothing was made durable where the log failed.
            return self.store.wal_alive();
        }
        if let Err(error) = self.store.settle_expiry_clock() {
            self.store.log(LogLevel::Warn, &format!("rows may expire up to a minute early or late: {error}"));
        }
        self.store.wal.close()?;
        if let Err(error) = self.maintenance.forget_log() {
            tracing::warn!(%error, "the log's files stay listed");
        }
        Ok(())
    }
}
