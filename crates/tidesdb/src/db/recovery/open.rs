//! Opening a store: manifest, log, dictionary, in the order of `docs/protocols.md` 1.3.
//!
//! What the log holds beyond the files is replayed into memtables, those are flushed to new files, and one
//! manifest edit names the files, the next sequence number and the new epoch's first log segment. A crash
//! before that edit leaves the old epoch's log as it was; after it the old log is not needed. PreparedTransactions
//! prepared batches are written into the new epoch, durably, before the edit. On a disk without room for the
//! files the flush is left to the background (`db/recovery/full_disk.rs`).
//!
//! A read-only opening does the same over an [`OverlayDisk`]: files, edit and log of the new epoch are in memory, and
//! the directory keeps every byte. So it needs no clean close before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::cache::{BlockCache, FileCache};
use crate::compaction::history::History;
use crate::db::background::{Background, WorkSignal};
use crate::db::catalog::Catalog;
use crate::db::compactor::CompactionBackoff;
use crate::db::counters::CounterRefill;
use crate::db::dictionary::{self, FamilyEntry};
use crate::db::family::Family;
use crate::db::identity;
use crate::db::memtables::Memtables;
use crate::db::pressure::Gauges;
use crate::db::recovery::flush::flush_replayed;
use crate::db::recovery::full_disk;
use crate::db::recovery::replay::{self, Replay};
use crate::db::stats::Stats;
use crate::db::trim::HeapTrim;
use crate::db::view::{Flushable, ReadView};
use crate::db::{Db, Store};
use crate::error::{Error, Result};
use crate::io::{Disk, OverlayDisk};
use crate::iter::merge::MergingIterator;
use crate::iter::InternalIterator;
use crate::lock::{LockManager, LockOptions, WaitObserver};
use crate::memtable::{ArenaPool, Memtable};
use crate::options::{LogLevel, Options};
use crate::txn::pipeline::Pipeline;
use crate::txn::prepared::{prepare_bytes, BatchRoom, PreparedTransactions};
use crate::txn::snapshot::Snapshots;
use crate::txn::ttl_clock::TtlClock;
use crate::types::{DICTIONARY, MAX_SEQ};
use crate::version::reservations::CompactionReservations;
use crate::version::restoring::check_restored;
use crate::version::{OpenFor, StoreState, VersionSet};
use crate::wal::{self, Purpose, Record, WaitLimit, Wal, WalOptions};

/// Snapshots that can be open at a time: two for each of 16,384 transactions.
const SNAPSHOTS: u32 = 32 * 1024;

/// Longest wait for room for prepared batches in the new epoch's log.
const RELOG_WAIT: Duration = Duration::from_secs(60);

impl Db {
    /// Opens or makes the store in `dir` on a given disk.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: impl AsRef<Path>,
        options: Options,
        observer: Option<Arc<dyn WaitObserver>>,
    ) -> Result<Db> {
        options.validate()?;
        let (disk, options) = if options.read_only { overlaid(disk, options) } else { (disk, options) };
        let dir = dir.as_ref();
        if options.create_if_missing {
            disk.create_dir_all(dir)?;
        } else if !disk.exists(dir)? {
            return Err(Error::InvalidArgument(format!("there is no store in {}", dir.display())));
        }
        // An overlay takes it as a reader.
        let lock = disk.lock(&dir.join("LOCK"))?;
        check_restored(&*disk, dir)?;
        identity::check(&*disk, dir, options.identity.as_ref())?;
        let tables = FileCache::new(disk.clone(), dir, options.max_open_files);
        let cache = BlockCache::new(options.block_cache_size);
        let purpose = if options.create_if_missing { OpenFor::WriteOrCreate } else { OpenFor::Write };
        let versions = VersionSet::open(disk.clone(), dir, tables, cache.clone(), purpose)?;
        let state = versions.state();

        let arenas = ArenaPool::new(options.write_buffer_size * 2);
        let mut replay =
            Replay::new(arenas.clone(), options.write_buffer_size, state.last_seq, state.last_generation + 1);
        let cuts = cuts_of(&state);
        let summary = wal::recover(
            &disk,
            dir,
            state.first_live_segment.max(1),
            &cuts,
            state.durable_upto,
            &mut |_, record| replay.record(record),
        )?;
        let replayed = replay.finish(&versions)?;
        let newest = replayed.newest.max(summary.max_seq_seen).max(full_disk::newest_of_cuts(&state.cuts));
        // What the log does not name either takes up space that the flush may need.
        versions.remove_unknown_files(&replayed.run_files)?;

        // Everything that was replayed goes to files at once: the old epoch's log is not needed any more then.
        let reservations = CompactionReservations::new();
        let flushed = match flush_replayed(&versions, &reservations, &options, &replayed.flushables, newest) {
            Err(Error::DiskFull(what)) => {
                tracing::warn!(%what, "the disk is full: what the log holds stays there and in memory");
                None
            }
            done => Some(done?),
        };

        let wal_options = WalOptions {
            segment_size: options.wal_segment_size,
            sync_mode: options.sync_mode,
            sync_interval: Duration::from_micros(options.sync_interval_us),
            max_outstanding: (options.write_buffer_size as u64 * 2).max(1 << 20),
            ..WalOptions::default()
        };
        let first_segment = summary.next_segment;
        let wal = Wal::create(
            disk.clone(),
            dir.to_path_buf(),
            state.epoch,
            first_segment,
            summary.files.clone(),
            wal_options,
        )?;
        let logged = match flushed {
            None => None,
            Some(flushed) => match relog(&wal, &replayed.prepared) {
                // The copies that are there harm nobody: a later one of a batch counts as the same.
                Err(Error::DiskFull(what)) => {
                    tracing::warn!(%what, "the disk is full: prepared transactions stay in the log as it is");
                    flushed.give_up(&versions);
                    None
                }
                done => done.map(|()| Some(flushed))?,
            },
        };
        wal.sync_all()?;
        let installed = match logged {
            None => false,
            Some(mut flushed) => {
                let mut edit = std::mem::take(&mut flushed.edit);
                edit.last_seq = Some(newest);
                edit.last_generation = replayed.flushables.last().map(Flushable::id);
                edit.first_live_segment = Some(first_segment);
                edit.cuts_removed = state.cuts.iter().map(|cut| cut.at.segment()).collect();
                match versions.apply(edit) {
                    Err(Error::DiskFull(what)) => {
                        tracing::warn!(%what, "the disk is full: what the log holds stays there and in memory");
                        false
                    }
                    done => done.map(|_| true)?,
                }
            }
        };

        let memtables = Memtables::default();
        let mut sealed = Vec::new();
        // Where the old epoch's log stays, the batches of prepared transactions stay in it.
        let held_from = if installed { first_segment } else { state.first_live_segment.max(1) };
        if installed {
            wal.release_before(first_segment);
        } else {
            full_disk::cut_log(&*disk, dir, &versions, &summary, newest)?;
            sealed = full_disk::seal(&replayed.flushables, held_from, &memtables);
        }
        drop(replayed.flushables);

        let active = Arc::new(Memtable::new(replayed.next_memtable_id, arenas.clone()));
        let view = ReadView { active: active.clone(), sealed, version: versions.current() };
        memtables.state.lock().log_from.insert(active.id(), first_segment);
        let lock_options = LockOptions { max_total: options.lock_bound(), ..LockOptions::default() };
        let store = Arc::new(Store {
            locks: LockManager::with_options(observer, Arc::new(disk.clone()), lock_options),
            pipeline: Arc::new(Pipeline::new(newest + 1, active.clone())),
            snapshots: Snapshots::new(SNAPSHOTS),
            ttl_clock: TtlClock::new(state.expiry_clock),
            catalog: Catalog::default(),
            view: ArcSwap::from_pointee(view),
            view_swap: Mutex::new(()),
            install_lock: Mutex::new(()),
            memtables,
            arenas,
            ddl_lock: Arc::new(Mutex::new(())),
            next_family: AtomicU32::new(DICTIONARY + 1),
            next_memtable_id: AtomicU64::new(active.id() + 1),
            // Ids of an epoch begin with its epoch, so that none is used twice.
            next_transaction: AtomicU64::new(state.epoch << 32),
            next_owner: AtomicU64::new(1),
            prepared: PreparedTransactions::default(),
            held_log: Mutex::new(BTreeMap::new()),
            reservations,
            history: History::default(),
            transaction_list: Arc::default(),
            work_signal: WorkSignal::default(),
            backoff: CompactionBackoff::default(),
            counter_refill: CounterRefill::default(),
            pressure: Gauges::default(),
            heap_trim: HeapTrim::new(),
            recovered: Mutex::new(HashMap::new()),
            stats: Stats::default(),
            closing: AtomicBool::new(false),
            backup_runs: AtomicBool::new(false),
            free_space: AtomicU64::new(u64::MAX),
            free_space_at: AtomicU64::new(0),
            opened_at: newest,
            _lock: lock,
            dir: dir.to_path_buf(),
            options,
            wal,
            versions,
            cache,
        });
        store.snapshots.refresh_oldest_snapshot(newest);
        store.load_dictionary()?;
        store.count_from_now_on()?;
        store.choose_sync_interval();
        store.adopt_recovered(replayed.prepared, held_from)?;
        store.shape_changed();
        let background = Background::start(&store)?;
        Ok(Db { store, background: Arc::new(background) })
    }
}

/// The disk and the options of a read-only opening: its writes stay in memory, no store is made, nothing is merged.
fn overlaid(disk: Arc<dyn Disk>, options: Options) -> (Arc<dyn Disk>, Options) {
    let options = Options { create_if_missing: false, compaction_threads: 0, ..options };
    (Arc::new(OverlayDisk::new(disk)), options)
}

/// The cuts that the manifest lists, as the log's reader takes them.
pub(crate) fn cuts_of(state: &StoreState) -> Vec<wal::Cut> {
    let cuts = state.cuts.iter().map(|cut| wal::Cut {
        segment: cut.at.segment(),
        offset: cut.at.offset(),
        epoch: cut.epoch,
        next_segment: cut.next_segment,
        next_seq: cut.next_seq,
    });
    cuts.collect()
}

/// Writes the prepared transactions to the new epoch's log. `DiskFull`: some of them may be there; they have left
/// the room for decisions alone.
fn relog(wal: &Wal, prepared: &[replay::ReplayedPrepare]) -> Result<()> {
    for (txn, head, batch) in prepared {
        let record = Record::Relogged { txn: *txn, head: head.clone(), batch: batch.clone() };
        let room = BatchRoom::of(prepare_bytes(head, batch), batch, |bytes| {
            wal.reserve(bytes, Purpose::Ordinary, &WaitLimit::of(RELOG_WAIT))
        })?;
        let ticket = room.queue(*txn, batch, record, |room, record| wal.enqueue(room, record));
        // Nobody else writes the log yet, and what is queued counts against the next reservation.
        wal.wait_written(ticket)?;
    }
    Ok(())
}

impl Store {
    /// In a store that builds before the first that counts have written: families that are made from now on are
    /// counted, older ones when [`Db::count_rows`] has counted them.
    fn count_from_now_on(&self) -> Result<()> {
        if self.versions.current().counted_from().is_some() {
            return Ok(());
        }
        let counted_from = Some(self.next_family.load(Ordering::Acquire));
        match self.install(crate::version::Edit { counted_from, ..Default::default() }) {
            // The next opening says so.
            Err(error @ Error::DiskFull(_)) => {
                self.log(LogLevel::Warn, &format!("rows are not counted until the next opening: {error}"));
                Ok(())
            }
            done => done,
        }
    }

    /// Reads the dictionary into the catalog and drops families without an entry.
    fn load_dictionary(&self) -> Result<()> {
        let mut merge = MergingIterator::new(self.view().iterators(DICTIONARY, MAX_SEQ, &[])?);
        let mut next_family = DICTIONARY + 1;
        merge.seek_to_first()?;
        while merge.valid() {
            let entry = merge.entry();
            if !entry.kind.is_tombstone() {
                if let Some(name) = dictionary::family_name(merge.key()) {
                    let family = FamilyEntry::decode(entry.value)?;
                    next_family = next_family.max(family.id + 1);
                    self.catalog.insert(Family::new(
                        family.id,
                        name,
                        family.options,
                        &family.record,
                        entry.seq,
                    ));
                } else if merge.key() == dictionary::NEXT_FAMILY {
                    let stored = dictionary::number(entry.value).and_then(|n| u32::try_from(n).ok());
                    let stored = stored.ok_or_else(|| {
                        Error::corruption("dictionary", 0, "the next family number is damaged")
                    })?;
                    next_family = next_family.max(stored);
                }
            }
            merge.next()?;
        }
        self.next_family.store(next_family, Ordering::Release);
        let gone: Vec<u32> = self
            .versions
            .current()
            .families()
            .map(|(id, _)| id)
            .chain(self.versions.current().row_counts().map(|(id, _)| id))
            .filter(|&id| !self.catalog.is_live(id))
            .collect::<BTreeSet<u32>>()
            .into_iter()
            .collect();
        if !gone.is_empty() {
            match self.install(crate::version::Edit { dropped_families: gone, ..Default::default() }) {
                // They have no name; the next opening drops them.
                Err(error @ Error::DiskFull(_)) => {
                    self.log(LogLevel::Warn, &format!("space of dropped families stays: {error}"));
                }
                done => done?,
            }
        }
        Ok(())
    }
}
