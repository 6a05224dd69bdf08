//! Opening a store: manifest, log, dictionary, in the order of `docs/protocols.md` 1.3.
//!
//! What the log holds beyond the files is replayed into memtables, those are flushed to new files, and one
//! manifest edit names the files, the next sequence number and the new epoch's first log segment. A crash
//! before that edit leaves the old epoch's log as it was; after it the old log is not needed. PreparedTransactions
//! prepared batches are written into the new epoch, durably, before the edit. On a disk without room for the
//! files the flush is left to the background (`db/recovery/full_disk.rs`).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{BlockCache, FileCache};
use crate::db::background::Background;
use crate::db::dictionary::{self, FamilyEntry};
use crate::db::identity;
use crate::db::maintenance::Maintenance;
use crate::db::recovery::flush::flush_replayed;
use crate::db::recovery::full_disk;
use crate::db::recovery::replay::{self, Replay};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::iter::merge::MergingIterator;
use crate::iter::InternalIterator;
use crate::lock::{LockManager, LockOptions, WaitObserver};
use crate::memtable::{ArenaPool, Memtable};
use crate::options::{LogLevel, Options};
use crate::store::family::Family;
use crate::store::memtables::Memtables;
use crate::store::view::{Flushable, ReadView};
use crate::store::{Store, StoreParts};
use crate::txn::prepared::{prepare_bytes, BatchRoom};
use crate::txn::Transactions;
use crate::types::{DICTIONARY, MAX_SEQ};
use crate::version::reservations::CompactionReservations;
use crate::version::restoring::check_restored;
use crate::version::{OpenFor, StoreState, VersionSet};
use crate::wal::{self, Purpose, Record, WaitLimit, Wal, WalOptions};

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
        if options.read_only {
            return Err(Error::InvalidArgument("opening a store read-only is not supported yet".into()));
        }
        let dir = dir.as_ref();
        if options.create_if_missing {
            disk.create_dir_all(dir)?;
        } else if !disk.exists(dir)? {
            return Err(Error::InvalidArgument(format!("there is no store in {}", dir.display())));
        }
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
        let locks = LockManager::with_options(observer, Arc::new(disk.clone()), lock_options);
        let parts = StoreParts {
            options,
            dir: dir.to_path_buf(),
            lock,
            wal,
            versions,
            cache,
            arenas,
            view,
            memtables,
            newest,
        };
        let store = Arc::new(Store::new(parts));
        let transactions = Arc::new(Transactions::new(store.clone(), locks));
        let maintenance = Arc::new(Maintenance::new(transactions.clone(), reservations));
        maintenance.load_dictionary()?;
        maintenance.count_from_now_on()?;
        store.choose_sync_interval();
        transactions.adopt_recovered(replayed.prepared, held_from)?;
        maintenance.shape_changed();
        let background = Arc::new(Background::start(&maintenance)?);
        Ok(Db { store, transactions, maintenance, background })
    }
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

impl Maintenance {
    /// In a store that builds before the first that counts have written: families that are made from now on are
    /// counted, older ones when [`Db::count_rows`] has counted them.
    fn count_from_now_on(&self) -> Result<()> {
        if self.store.versions.current().counted_from().is_some() {
            return Ok(());
        }
        let counted_from = Some(self.next_family.load(Ordering::Acquire));
        match self.store.install(crate::version::Edit { counted_from, ..Default::default() }) {
            // The next opening says so.
            Err(error @ Error::DiskFull(_)) => {
                self.store
                    .log(LogLevel::Warn, &format!("rows are not counted until the next opening: {error}"));
                Ok(())
            }
            done => done,
        }
    }

    /// Reads the dictionary into the catalog and drops families without an entry.
    fn load_dictionary(&self) -> Result<()> {
        let mut merge = MergingIterator::new(self.store.view().iterators(DICTIONARY, MAX_SEQ, &[])?);
        let mut next_family = DICTIONARY + 1;
        merge.seek_to_first()?;
        while merge.valid() {
            let entry = merge.entry();
            if !entry.kind.is_tombstone() {
                if let Some(name) = dictionary::family_name(merge.key()) {
                    let family = FamilyEntry::decode(entry.value)?;
                    next_family = next_family.max(family.id + 1);
                    self.store.catalog.insert(Family::new(
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
            .store
            .versions
            .current()
            .families()
            .map(|(id, _)| id)
            .chain(self.store.versions.current().row_counts().map(|(id, _)| id))
            .filter(|&id| !self.store.catalog.is_live(id))
            .collect::<BTreeSet<u32>>()
            .into_iter()
            .collect();
        if !gone.is_empty() {
            match self.store.install(crate::version::Edit { dropped_families: gone, ..Default::default() }) {
                // They have no name; the next opening drops them.
                Err(error @ Error::DiskFull(_)) => {
                    self.store.log(LogLevel::Warn, &format!("space of dropped families stays: {error}"));
                }
                done => done?,
            }
        }
        Ok(())
    }
}
