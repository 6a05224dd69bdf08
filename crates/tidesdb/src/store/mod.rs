//! State shared by reads and commits: the log, the memtables, the live tables, the commit order, snapshots,
//! families.
//!
//! A [`Store`] has no threads and no locks on keys of its own. [`crate::txn::Transactions`] add locks,
//! prepared transactions and commits; [`crate::db`] adds dictionary changes, flushes and compactions.

pub(crate) mod ascending_gets;
mod cache_growth;
pub mod catalog;
pub mod commit_batch;
pub(crate) mod compaction_rate;
pub(crate) mod counter;
pub(crate) mod deleted_range_cache;

pub mod family;
pub(crate) mod heap_trim;
pub mod memory;
pub mod memtables;
pub(crate) mod no_space_backoff;
pub(crate) mod pace;
pub mod pipeline;
pub mod pressure;
#[cfg(test)]
mod pressure_model;
pub(crate) mod sealed_runs;
mod separate;
pub mod snapshot;
pub mod stats;
pub mod super_version;
pub(crate) mod ttl;
pub(crate) mod ttl_clock;
mod visible_seq;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

use crate::cache::BlockCache;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::format::cluster_position::ClusterPosition;
use crate::io::DirectoryLock;
use crate::memtable::ArenaPool;
use crate::mutant::{self, Mutant};
use crate::options::live::LiveValues;
use crate::options::{FamilyOptions, FormatVersion, LogLevel, Options};
use crate::store::catalog::Catalog;
use crate::store::heap_trim::HeapTrim;
use crate::store::memory::MemoryBound;
use crate::store::memtables::Memtables;
use crate::store::pipeline::Pipeline;
use crate::store::pressure::Gauges;
use crate::store::snapshot::{SnapshotSlot, Snapshots};
use crate::store::stats::Stats;
use crate::store::super_version::{Flushable, SuperVersion};
use crate::store::ttl_clock::{ClockReading, TtlClock};
use crate::sync::{stage, Mutex};
use crate::types::{Entry, FamilyId, MemtableId, RowCount, Seq, DICTIONARY};
use crate::version::{Edit, VersionSet};
use crate::wal::Wal;

/// Age in microseconds after which the free space is queried again.
const FREE_SPACE_AGE_US: u64 = 1_000_000;

/// The file in a store's directory whose lock is held by the store's user.
pub(crate) const LOCK: &str = "LOCK";

/// Number of snapshots open at a time: two for each of 16,384 transactions.
const SNAPSHOTS: u32 = 32 * 1024;

/// Everything of an open store; shared by its threads.
pub struct Store {
    /// The options at the opening; `live` has the changeable ones.
    pub(crate) options: Options,
    pub(crate) live: LiveValues,
    /// Held while `live` changes.
    pub(crate) live_change: Mutex<()>,
    /// Held while the log's sync interval is chosen, so the last choice follows the newest options.
    pub(crate) sync_choice: Mutex<()>,
    pub(crate) dir: PathBuf,
    pub(crate) env: Env,
    pub(crate) wal: Wal,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) snapshots: Snapshots,
    pub(crate) ttl_clock: TtlClock,
    /// The last report was one of a lagging wall clock.
    lag_reported: AtomicBool,
    pub(crate) catalog: Catalog,
    pub(crate) versions: Arc<VersionSet>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) super_version: ArcSwap<SuperVersion>,
    /// Held while the super version is replaced.
    view_swap: Mutex<()>,
    /// Held while an edit is installed, so super version and version change together.
    pub(crate) install_lock: Mutex<()>,
    pub(crate) memtables: Memtables,
    pub(crate) arenas: ArenaPool,
    next_memtable_id: AtomicU64,
    pub(crate) next_transaction: AtomicU64,
    pub(crate) pressure: Gauges,
    pub(crate) heap_trim: HeapTrim,
    pub(crate) memory_bound: MemoryBound,
    pub(crate) stats: Stats,
    /// According to the manifest, puts may be unmarked (`docs/protocols.md` 3.5).
    pub(crate) proves_inserts: AtomicBool,
    /// Nobody knows which id the manifest has: the edit with a new one failed, and may be on the disk all the same.
    pub(crate) id_is_uncertain: AtomicBool,
    /// Bytes of the last value without room on the disk.
    pub(crate) refused_value: AtomicU64,
    /// See [`crate::iter::LiveSnapshots`].
    unproven_upto: AtomicU64,
    /// Bytes free on the store's file system, and the time of that answer in microseconds of the clock.
    free_space: AtomicU64,
    free_space_at: AtomicU64,
    /// Sequence number of the newest commit found by recovery.
    opened_at: Seq,
    /// Sequence number of the newest commit answered without a sync: its coordinator's log decides it.
    answered_unsynced: AtomicU64,
    /// [`crate::db::Db::close`] has ended the work: remaining handles return an error.
    closed: AtomicBool,
    lock: Arc<dyn DirectoryLock>,
}

/// Recovery's parts for a [`Store`].
pub(crate) struct StoreParts {
    pub options: Options,
    pub dir: PathBuf,
    pub env: Env,
    pub lock: Arc<dyn DirectoryLock>,
    pub wal: Wal,
    pub versions: Arc<VersionSet>,
    pub cache: Arc<BlockCache>,
    pub arenas: ArenaPool,
    pub super_version: SuperVersion,
    pub memtables: Memtables,
    /// Sequence number of the newest commit found by recovery.
    pub newest: Seq,
    /// The cluster's position as of that commit.
    pub position: Option<ClusterPosition>,
    /// The highest transaction id found by recovery in the log.
    pub newest_transaction: u64,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// The shared state of a store after recovery.
    pub(crate) fn new(parts: StoreParts) -> Store {
        let state = parts.versions.state();
        let active = parts.super_version.active.clone();
        let reading = ClockReading::of(&*parts.env.clock);
        let second = state
            .expiry_clock
            .map(|reached| ttl_clock::second_at_opening(reached, state.expiry_reserved, reading.wall));
        // Runs of a full disk, which no edit names yet.
        let unproven_upto = parts.super_version.sealed.iter().filter_map(Flushable::unproven_upto).max();
        let unproven_upto = state.unproven_upto.max(unproven_upto.unwrap_or(0));
        let store = Store {
            pipeline: Arc::new(Pipeline::new(parts.newest + 1, active.clone(), parts.position)),
            snapshots: Snapshots::new(SNAPSHOTS),
            ttl_clock: TtlClock::new(second, reading.micros),
            lag_reported: AtomicBool::new(false),
            catalog: Catalog::default(),
            super_version: ArcSwap::from_pointee(parts.super_version),
            view_swap: Mutex::new(()),
            install_lock: Mutex::new(()),
            memtables: parts.memtables,
            arenas: parts.arenas,
            next_memtable_id: AtomicU64::new(active.id() + 1),
            // Ids of an epoch begin with its epoch, or after those that an earlier one gave out beyond its share, so that
            // none is used twice.
            next_transaction: AtomicU64::new((state.epoch << 32).max(parts.newest_transaction + 1)),
            pressure: Gauges::new(parts.env.clock.clone()),
            heap_trim: HeapTrim::default(),
            memory_bound: MemoryBound::default(),
            stats: Stats::default(),
            proves_inserts: AtomicBool::new(false),
            id_is_uncertain: AtomicBool::new(false),
            refused_value: AtomicU64::new(0),
            unproven_upto: AtomicU64::new(unproven_upto),
            free_space: AtomicU64::new(u64::MAX),
            free_space_at: AtomicU64::new(0),
            opened_at: parts.newest,
            answered_unsynced: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            lock: parts.lock,
            dir: parts.dir,
            env: parts.env,
            live: LiveValues::new(&parts.options),
            live_change: Mutex::new(()),
            sync_choice: Mutex::new(()),
            options: parts.options,
            wal: parts.wal,
            versions: parts.versions,
            cache: parts.cache,
        };
        store.snapshots.refresh_oldest_snapshot(|| parts.newest);
        store
    }

    /// The present super version. Cheap; not to be held for long.
    pub(crate) fn super_version(&self) -> Arc<SuperVersion> {
        self.super_version.load_full()
    }

    /// True if a super version is the present one.
    pub(crate) fn is_current(&self, super_version: &Weak<SuperVersion>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.super_version.load()), super_version.as_ptr())
    }

    /// Replaces the super version by one made from it.
    pub(crate) fn swap_super_version(&self, make: impl Fn(&SuperVersion) -> SuperVersion) {
        let _one = self.view_swap.lock();
        self.super_version.store(Arc::new(make(&self.super_version.load())));
    }

    /// Installs a manifest edit and shows its version to readers.
    pub(crate) fn install(&self, edit: Edit) -> Result<()> {
        self.install_with(edit, |_| true)
    }

    /// As [`Store::install`]; sealed memtables with `keep` false leave the super version in the same step.
    pub(crate) fn install_with(&self, edit: Edit, keep: impl Fn(MemtableId) -> bool) -> Result<()> {
        let _one = self.install_lock.lock();
        self.check_lock()?;
        let version = self.versions.apply(edit)?;
        stage("stage: edit, not yet shown");
        self.swap_super_version(|super_version| SuperVersion {
            active: super_version.active.clone(),
            sealed: super_version.sealed.iter().filter(|sealed| keep(sealed.id())).cloned().collect(),
            version: version.clone(),
        });
        Ok(())
    }

    /// The newest version of a key at or below `snapshot`, tombstones included, as `read` takes it.
    #[inline]
    pub(crate) fn newest<T>(
        &self,
        family: FamilyId,
        key: &[u8],
        snapshot: Seq,
        read: impl FnOnce(Entry<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.super_version.load().newest(family, key, snapshot)? {
            Some(version) => read(version.entry()).map(Some),
            None => Ok(None),
        }
    }

    /// Takes a snapshot at the visible sequence; after a failure of the log, at its last proven commit
    /// (`docs/protocols.md` 1.8).
    pub(crate) fn take_snapshot(&self) -> Result<SnapshotSlot> {
        let slot = match self.wal.failed() {
            None => self.snapshots.take(|| self.pipeline.visible_seq()),
            Some(_) => self.snapshots.take_at(self.logged_seq()),
        };
        slot.ok_or_else(too_many_snapshots)
    }

    /// Takes a snapshot after every ordered commit, in a memtable or not: [`Store::reach`] brings them there
    /// before the first read.
    pub(crate) fn take_ordered_snapshot(&self) -> Result<SnapshotSlot> {
        let slot = match self.wal.failed() {
            // What scanners announce is at or below the visible sequence, which is at or below this.
            None => self.snapshots.take(|| self.pipeline.last_ordered()),
            Some(_) => self.snapshots.take_at(self.logged_seq()),
        };
        slot.ok_or_else(too_many_snapshots)
    }

    /// A snapshot after every ordered commit, with all of them in memtables, and a family's count there.
    pub(crate) fn take_counted_snapshot(&self, family: FamilyId) -> Result<(SnapshotSlot, RowCount)> {
        self.pipeline.between_commits(|last| {
            self.pipeline.help_until(last, self.snapshots.oldest_snapshot());
            let slot = self.take_snapshot()?;
            if slot.seq() != last {
                // After a failure of the log it is what is known to be written.
                self.snapshots.release(slot);
                self.wal_alive()?;
                return Err(Error::InvalidArgument("the snapshot is not at the last commit".into()));
            }
            Ok((slot, self.super_version().row_count(family)))
        })
    }

    /// Puts up to this sequence number prove nothing; 0 in a store without a repair.
    pub(crate) fn unproven_upto(&self) -> Seq {
        self.unproven_upto.load(Ordering::Acquire)
    }

    /// From now on puts up to `seq` prove nothing. Called before that commit is visible; the edit with its
    /// runs records the same.
    pub(crate) fn distrust_upto(&self, seq: Seq) {
        self.unproven_upto.fetch_max(seq, Ordering::AcqRel);
    }

    /// Returns when everything at or below `seq` is in a memtable, helping commits of sleeping owners.
    pub(crate) fn reach(&self, seq: Seq) {
        self.pipeline.help_until(seq, self.snapshots.oldest_snapshot());
    }

    /// Notes a commit answered once its record is written. Its prepare is durable, and its coordinator's log
    /// decides it after a restart: a failure of the log does not undo it.
    pub(crate) fn answer_unsynced(&self, seq: Seq) {
        self.answered_unsynced.fetch_max(seq, Ordering::SeqCst);
    }

    /// The newest commit sure to survive a failure of the log now. Under a weaker sync mode, perhaps in force
    /// until a moment ago, older versions were given up for commits only written. The result is no older than
    /// these.
    fn logged_seq(&self) -> Seq {
        let logged = match self.live.all_durable() {
            true => self.wal.durable_seq().max(self.answered_unsynced.load(Ordering::SeqCst)),
            false => self.wal.written_seq(),
        };
        logged.max(self.opened_at).max(self.snapshots.oldest_snapshot()).min(self.pipeline.visible_seq())
    }

    /// Recomputes the oldest snapshot. Commits the log could still lose hide no older version.
    pub(crate) fn refresh_oldest_snapshot(&self) -> Seq {
        if mutant::is(Mutant::FloorPastLog) {
            return self.snapshots.refresh_oldest_snapshot(|| self.pipeline.visible_seq());
        }
        self.snapshots.refresh_oldest_snapshot(|| self.logged_seq())
    }

    pub(crate) fn new_memtable_id(&self) -> MemtableId {
        self.next_memtable_id.fetch_add(1, Ordering::Relaxed)
    }

    /// A transaction id, unique in the life of the store.
    pub(crate) fn new_transaction_id(&self) -> u64 {
        self.next_transaction.fetch_add(1, Ordering::Relaxed)
    }

    /// The clock's microseconds.
    pub(crate) fn now_micros(&self) -> u64 {
        self.env.clock.now_micros()
    }

    /// Writable bytes, at most a second old; the largest number if unknown.
    pub(crate) fn free_space(&self) -> u64 {
        let (now, asked) = (self.now_micros(), self.free_space_at.load(Ordering::Relaxed));
        let old = asked == 0 || now.saturating_sub(asked) >= FREE_SPACE_AGE_US;
        // One thread asks, the others go by what is known.
        let mine = |at: &AtomicU64| {
            at.compare_exchange(asked, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if old && mine(&self.free_space_at) {
            self.ask_free_space();
        }
        self.free_space.load(Ordering::Relaxed)
    }

    /// Writable bytes now; the largest number if unknown. What is at most a second old goes by it too.
    pub(crate) fn free_space_now(&self) -> u64 {
        self.free_space_at.store(self.now_micros().max(1), Ordering::Relaxed);
        self.ask_free_space()
    }

    fn ask_free_space(&self) -> u64 {
        let free = self.env.disk.free_space(&self.dir).unwrap_or(u64::MAX);
        self.free_space.store(free, Ordering::Relaxed);
        free
    }

    /// From now on every use of the store is refused, and waits in it end. False: it was so already.
    pub(crate) fn set_closed(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Error once the store is closed: no thread is left to end a call's wait.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::InvalidArgument("the store is closed".into())),
            false => Ok(()),
        }
    }

    /// Error in a closed or read-only store.
    #[inline]
    pub(crate) fn check_mode(&self) -> Result<()> {
        self.check_open()?;
        match self.options.read_only {
            true => Err(Error::ReadOnly("it was opened with the option read_only".into())),
            false => Ok(()),
        }
    }

    /// As [`Store::check_mode`]; also an error after a failure of the log.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_mode()?;
        self.wal_alive()
    }

    /// `InvalidArgument` in a store that cannot have a cluster's position: builds before version 2 of the formats
    /// would refuse its log.
    pub(crate) fn check_positions(&self) -> Result<()> {
        match self.versions.format() {
            FormatVersion::One => Err(Error::InvalidArgument(format!(
                "a cluster's position needs a store of version 2 of the formats, and {} is of version 1: open it with \
                 least_format=2",
                self.dir.display()
            ))),
            FormatVersion::Two => Ok(()),
        }
    }

    /// Checks whether the directory is still this store's alone. If others may have come in, the log ends.
    /// Their changes are not in this store, and the next opening would lose commits acknowledged from now on.
    pub(crate) fn check_lock(&self) -> Result<()> {
        match self.lock.confirm() {
            Ok(true) => Ok(()),
            Ok(false) => {
                let file = self.dir.join(LOCK);
                let what =
                    "was removed or replaced while the store was open; it is made again, and nobody came in";
                self.log(LogLevel::Warn, &format!("{} {what}", file.display()));
                Ok(())
            }
            Err(error) => {
                if matches!(error, Error::ReadOnly(_)) {
                    self.wal.fail(&error);
                }
                Err(error)
            }
        }
    }

    /// The options with the values in force.
    pub(crate) fn options_now(&self) -> Options {
        self.live.get().over(&self.options)
    }

    /// A family, formatted for lines of the log.
    pub(crate) fn label(&self, family: FamilyId) -> String {
        match self.catalog.by_id(family) {
            Some(known) => self.options.label(family, &known.name()),
            None if family == DICTIONARY => "the dictionary".to_string(),
            None => format!("family {family}"),
        }
    }

    /// Writes a line of the engine's log.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        self.options.log(level, message);
    }

    /// Unlinks unused files: the space of a large rollback is free at once.
    pub(crate) fn unlink_unused(&self) {
        self.tell_of_old_files(self.versions.delete_obsolete());
    }

    /// The same, unless another thread does so at the moment: false.
    pub(crate) fn unlink_unused_if_free(&self) -> bool {
        self.versions.delete_obsolete_if_free().map(|unlinked| self.tell_of_old_files(unlinked)).is_some()
    }

    fn tell_of_old_files(&self, unlinked: Result<usize>) {
        if let Err(error) = unlinked {
            self.log(LogLevel::Warn, &format!("an old file stays for now: {error}"));
        }
    }

    /// Options of an existing family; default ones of any other if the dictionary is damaged.
    pub(crate) fn family_options(&self, family: FamilyId) -> Option<FamilyOptions> {
        match family {
            DICTIONARY => Some(FamilyOptions::default()),
            _ => match self.catalog.by_id(family) {
                Some(family) => Some((*family.options()).clone()),
                None => self.catalog.is_incomplete().then(FamilyOptions::default),
            },
        }
    }

    /// Error after a failure of the log, and in a closed store. Threads waiting for background work call it
    /// again and again.
    pub(crate) fn wal_alive(&self) -> Result<()> {
        self.check_open()?;
        match self.wal.failed() {
            Some(why) => Err(Error::ReadOnly(format!("{why}; restart to recover"))),
            None => Ok(()),
        }
    }
}

fn too_many_snapshots() -> Error {
    Error::InvalidArgument("too many snapshots are open; end some transactions".into())
}
