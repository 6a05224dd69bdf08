//! The store: what ties log, memtables, files, locks and families together, and its life from open to
//! close. The public face is [`Db`].

pub mod background;
pub mod catalog;
pub mod compactor;
mod count;
pub mod counters;
pub mod dictionary;
pub mod family;
pub mod identity;
pub mod introspection;
pub mod memtables;
pub mod pressure;
pub(crate) mod recovery;
pub mod stats;
mod trim;
mod ttl;
pub mod view;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::cache::BlockCache;
use crate::compaction::history::History;
use crate::db::background::{Background, WorkSignal};
use crate::db::catalog::{Catalog, Ddl};
use crate::db::compactor::CompactionBackoff;
use crate::db::counters::CounterRefill;
use crate::db::family::Family;
use crate::db::memtables::Memtables;
use crate::db::pressure::Gauges;
use crate::db::stats::Stats;
use crate::db::trim::HeapTrim;
use crate::db::view::ReadView;
use crate::error::{Error, Result};
use crate::io::DirectoryLock;
use crate::iter::KeyRange;
use crate::lock::{LockManager, LockOwner, TableMode};
use crate::memtable::ArenaPool;
use crate::options::{FamilyOptions, LogLevel, Options, SyncMode};
use crate::txn::cursor::Cursor;
use crate::txn::pipeline::Pipeline;
use crate::txn::prepared::PreparedTransactions;
use crate::txn::recovered::Recovered;
use crate::txn::snapshot::{SnapshotSlot, Snapshots};
use crate::txn::transaction::Transaction;
use crate::txn::transaction_list::TransactionList;
use crate::txn::ttl_clock::TtlClock;
use crate::types::{FamilyId, Kind, MemtableId, Seq};
use crate::version::reservations::CompactionReservations;
use crate::version::{Edit, VersionSet};
use crate::wal::Wal;

/// Age in microseconds from which the free space is asked for again.
const FREE_SPACE_AGE_US: u64 = 1_000_000;

/// Everything of an open store; shared by its threads.
pub struct Store {
    pub(crate) options: Options,
    pub(crate) dir: PathBuf,
    pub(crate) wal: Wal,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) snapshots: Snapshots,
    pub(crate) ttl_clock: TtlClock,
    pub(crate) locks: LockManager,
    pub(crate) catalog: Catalog,
    pub(crate) versions: VersionSet,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) view: ArcSwap<ReadView>,
    /// Held while the view is replaced.
    view_swap: Mutex<()>,
    /// Held while an edit is installed, so that view and version change together.
    pub(crate) install_lock: Mutex<()>,
    pub(crate) memtables: Memtables,
    pub(crate) arenas: ArenaPool,
    pub(crate) ddl_lock: Arc<Mutex<()>>,
    pub(crate) next_family: AtomicU32,
    next_memtable_id: AtomicU64,
    next_transaction: AtomicU64,
    next_owner: AtomicU64,
    /// Transactions whose batch is in the log and not decided.
    pub(crate) prepared: PreparedTransactions,
    /// First segments needed by memtables beyond their own time: batches prepared before it.
    pub(crate) held_log: Mutex<BTreeMap<MemtableId, u32>>,
    /// Prepared transactions without an owner, by xid.
    pub(crate) recovered: Mutex<HashMap<Vec<u8>, Recovered>>,
    pub(crate) reservations: Arc<CompactionReservations>,
    pub(crate) history: History,
    pub(crate) transaction_list: Arc<TransactionList>,
    pub(crate) work_signal: WorkSignal,
    pub(crate) backoff: CompactionBackoff,
    pub(crate) counter_refill: CounterRefill,
    pub(crate) pressure: Gauges,
    pub(crate) heap_trim: HeapTrim,
    pub(crate) stats: Stats,
    pub(crate) closing: AtomicBool,
    /// A backup is being taken.
    pub(crate) backup_runs: AtomicBool,
    /// Bytes free where the store lies, and when that was asked for, in microseconds of the disk's clock.
    free_space: AtomicU64,
    free_space_at: AtomicU64,
    /// Sequence of the newest commit that recovery found.
    opened_at: Seq,
    _lock: Box<dyn DirectoryLock>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// The present view. Cheap; not for holding long.
    pub(crate) fn view(&self) -> Arc<ReadView> {
        self.view.load_full()
    }

    /// Whether a view is the present one.
    pub(crate) fn is_current(&self, view: &Arc<ReadView>) -> bool {
        Arc::ptr_eq(&self.view.load(), view)
    }

    /// Replaces the view by one made from it.
    pub(crate) fn swap_view(&self, make: impl Fn(&ReadView) -> ReadView) {
        let _one = self.view_swap.lock();
        self.view.store(Arc::new(make(&self.view.load())));
    }

    /// Installs a manifest edit and shows its version to readers.
    pub(crate) fn install(&self, edit: Edit) -> Result<()> {
        self.install_with(edit, |_| true)
    }

    /// As [`Store::install`]; sealed memtables for which `keep` is false leave the view in the same step.
    pub(crate) fn install_with(&self, edit: Edit, keep: impl Fn(MemtableId) -> bool) -> Result<()> {
        let _one = self.install_lock.lock();
        let version = self.versions.apply(edit)?;
        self.swap_view(|view| ReadView {
            active: view.active.clone(),
            sealed: view.sealed.iter().filter(|sealed| keep(sealed.id())).cloned().collect(),
            version: version.clone(),
        });
        Ok(())
    }

    /// The newest version of a key at or below `snapshot`, its value appended to `out`.
    pub(crate) fn newest(
        &self,
        family: FamilyId,
        key: &[u8],
        snapshot: Seq,
        out: Option<&mut Vec<u8>>,
    ) -> Result<Option<(Seq, Kind)>> {
        self.view.load().newest(family, key, snapshot, out)
    }

    /// Takes a snapshot at the visible sequence; after a failure of the log at what is known to be in it
    /// (`docs/protocols.md` 1.8).
    pub(crate) fn take_snapshot(&self) -> Result<SnapshotSlot> {
        let slot = match self.wal.failed() {
            None => self.snapshots.take(|| self.pipeline.visible_seq()),
            Some(_) => self.snapshots.take_at(self.logged_seq()),
        };
        slot.ok_or_else(too_many_snapshots)
    }

    /// Takes a snapshot behind everything that is ordered, in a memtable already or not: before the first read
    /// [`Store::reach`] brings it there.
    pub(crate) fn take_ordered_snapshot(&self) -> Result<SnapshotSlot> {
        let slot = match self.wal.failed() {
            // What scanners announce is at or below the visible sequence, which is at or below this.
            None => self.snapshots.take(|| self.pipeline.last_ordered()),
            Some(_) => self.snapshots.take_at(self.logged_seq()),
        };
        slot.ok_or_else(too_many_snapshots)
    }

    /// Returns when everything at or below `seq` is in a memtable, helping the commits whose owners sleep.
    pub(crate) fn reach(&self, seq: Seq) {
        self.pipeline.help_until(seq, self.snapshots.oldest_snapshot());
    }

    /// The newest commit that will survive a failure of the log now.
    fn logged_seq(&self) -> Seq {
        let logged = match self.options.sync_mode {
            SyncMode::Full => self.wal.durable_seq(),
            _ => self.wal.written_seq(),
        };
        logged.max(self.opened_at).min(self.pipeline.visible_seq())
    }

    /// Recomputes the oldest snapshot. What the log could still lose hides no older version.
    pub(crate) fn refresh_oldest_snapshot(&self) -> Seq {
        self.snapshots.refresh_oldest_snapshot(self.logged_seq())
    }

    pub(crate) fn new_memtable_id(&self) -> MemtableId {
        self.next_memtable_id.fetch_add(1, Ordering::Relaxed)
    }

    /// A transaction id that no other transaction in the life of the store has.
    pub(crate) fn new_transaction_id(&self) -> u64 {
        self.next_transaction.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn new_owner_id(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    fn free_space(&self) -> u64 {
        let disk = self.versions.disk();
        let (now, asked) = (disk.now_micros(), self.free_space_at.load(Ordering::Relaxed));
        let old = asked == 0 || now.saturating_sub(asked) >= FREE_SPACE_AGE_US;
        // One thread asks, the others go by what is known.
        let mine = |at: &AtomicU64| {
            at.compare_exchange(asked, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if old && mine(&self.free_space_at) {
            let free = disk.free_space(&self.dir).unwrap_or(u64::MAX);
            self.free_space.store(free, Ordering::Relaxed);
        }
        self.free_space.load(Ordering::Relaxed)
    }

    /// Error in a store that is open for reading.
    #[inline]
    pub(crate) fn check_mode(&self) -> Result<()> {
        match self.options.read_only {
            true => Err(Error::ReadOnly("it was opened with the option read_only".into())),
            false => Ok(()),
        }
    }

    /// Error in a store that is open for reading, and after a failure of the log.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_mode()?;
        self.wal_alive()
    }

    /// Writes a line of the engine's log.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        if let Some(sink) = &self.options.log {
            sink.write(level, message);
        }
    }

    pub(crate) fn wal_alive(&self) -> Result<()> {
        match self.wal.failed() {
            Some(why) => Err(Error::ReadOnly(format!("the log failed: {why}; restart to recover"))),
            None => Ok(()),
        }
    }
}

fn too_many_snapshots() -> Error {
    Error::InvalidArgument("too many snapshots are open; end some transactions".into())
}

/// An open store. Clones are handles to the same one; it is closed by [`Db::close`] or when the last
/// handle and the last transaction are gone.
#[derive(Clone, Debug)]
pub struct Db {
    store: Arc<Store>,
    background: Arc<Background>,
}

impl Db {
    /// Opens or makes the store in `dir` on the operating system's disk.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_on(Arc::new(crate::io::RealDisk), dir, options, None)
    }

    /// A new transaction object.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.store.clone())
    }

    /// Begins a group of dictionary changes.
    pub fn ddl(&self) -> Result<Ddl> {
        self.store.ddl()
    }

    /// Makes a column family.
    pub fn create_family(&self, name: &[u8], options: FamilyOptions) -> Result<Arc<Family>> {
        let mut ddl = self.ddl()?;
        ddl.create(name, options, &[])?;
        ddl.commit()?;
        self.family(name)
    }

    /// The column family of a name.
    pub fn family(&self, name: &[u8]) -> Result<Arc<Family>> {
        self.store
            .catalog
            .find(name)
            .ok_or_else(|| Error::NoSuchFamily(String::from_utf8_lossy(name).into_owned()))
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
        self.store.locks.attach_family(index.id(), table.id())
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
        self.store.counter_take(family, counter, count, offset, increment, limit)
    }

    /// Makes the counter's next value one above `value`, if it is not so already.
    pub fn counter_raise(&self, family: &Family, counter: u32, value: u64) -> Result<()> {
        self.store.counter_raise(family, counter, value)
    }

    /// The counter's next value.
    pub fn counter_peek(&self, family: &Family, counter: u32) -> Result<u64> {
        self.store.counter_peek(family, counter)
    }

    /// A key of the family at one of its places, for sampling: all places together that are evenly apart from 0 to 1
    /// stand for all entries. None where there is none.
    pub fn key_at(&self, family: &Family, share: f64) -> Result<Option<Vec<u8>>> {
        family.check_live()?;
        self.store.view.load().key_at(family.id(), share)
    }

    /// Entries in a range, estimated without reading data.
    pub fn estimate(&self, family: &Family, range: &KeyRange) -> Result<u64> {
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
        self.store.compact_family(family, interrupted)
    }

    /// Reads every block of the family: checksums, order, counts.
    pub fn verify(&self, family: &Family) -> Result<()> {
        self.verify_unless(family, &|| false)
    }

    /// As [`Db::verify`], until `interrupted` answers true, which it is asked before each block:
    /// `Error::Interrupted`.
    pub fn verify_unless(&self, family: &Family, interrupted: &dyn Fn() -> bool) -> Result<()> {
        family.check_live()?;
        let version = self.store.versions.current();
        for (_, table) in version.family(family.id()).iter().flat_map(|levels| levels.tables()) {
            table.verify_unless(interrupted)?;
        }
        Ok(())
    }

    /// Bytes that can still be written where the store lies, as of at most a second ago; the largest number
    /// when that cannot be told.
    pub fn free_space(&self) -> u64 {
        self.store.free_space()
    }

    /// Makes everything that is ordered now durable.
    pub fn flush_log(&self) -> Result<()> {
        self.store.wal.sync_all()
    }

    /// Calls `done` once everything that is ordered now is durable, or with the error when the log fails
    /// before. An error: the log has failed, and `done` is not called.
    pub fn when_durable(&self, done: Box<dyn FnOnce(Result<()>) + Send>) -> Result<()> {
        self.store.wal_alive()?;
        let last = self.store.wal.last_ticket();
        self.store.wal.when_durable(last, done);
        Ok(())
    }

    /// Interrupts a transaction's waits and scans; from any thread, without blocking.
    pub fn kill(&self, owner: &LockOwner) {
        self.store.locks.kill(owner);
    }

    /// Ends the effect of a kill that was meant for a statement which is over; the next one does so by itself.
    pub fn clear_kill(&self, owner: &LockOwner) {
        self.store.locks.clear_kill(owner);
    }

    /// Xids of prepared transactions that have no owner: recovery found them, or their owner went away.
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.store.recovered.lock().keys().cloned().collect()
    }

    /// Whether the prepared transaction without an owner that has this xid has changed the family, or locked it or
    /// keys of it for a change. False also when there is none.
    pub fn prepared_changes(&self, xid: &[u8], family: &Family) -> bool {
        let owner = self.store.recovered.lock().get(xid).map(Recovered::owner);
        owner.is_some_and(|owner| {
            self.store.locks.holds_table(&owner, family.id(), TableMode::IntentExclusive)
        })
    }

    /// Whether the store has, or may have had, keys that expire.
    pub fn has_expiring_keys(&self) -> bool {
        self.store.ttl_clock.is_used()
    }

    /// Commits a prepared transaction without an owner, durably; false when there is none of this xid.
    pub fn commit_by_xid(&self, xid: &[u8]) -> Result<bool> {
        self.store.decide(xid, true)
    }

    /// Rolls back a prepared transaction without an owner, durably; false when there is none of this xid.
    pub fn rollback_by_xid(&self, xid: &[u8]) -> Result<bool> {
        self.store.decide(xid, false)
    }

    /// The store behind the handle, for the C interface.
    #[doc(hidden)]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Stops background work, makes everything durable and closes. Transactions must be gone.
    pub fn close(self) -> Result<()> {
        let dead = self.store.options.read_only || self.store.wal.failed().is_some();
        // Counters are written while memtables are still flushed: there may be no room otherwise.
        let settled = match if dead { Ok(()) } else { self.store.settle_counters() } {
            // The ceilings that are there stay: counters go on behind a gap.
            Err(Error::DiskFull(what)) => {
                self.store.log(LogLevel::Warn, &format!("counters will skip values: {what}"));
                Ok(())
            }
            done => done,
        };
        if self.store.options.finish_compactions_on_close && !dead {
            self.store.finish_compactions()?;
        }
        if self.store.options.flush_on_close && !dead {
            // What is not in files is in the log: the next opening replays it.
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
        self.store.wal.close()
    }
}
