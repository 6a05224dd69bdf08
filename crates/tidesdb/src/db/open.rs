//! Opening a store: manifest, log, dictionary, in the order of `protocols.md` 1.3.
//!
//! What the log holds beyond the files is replayed into memtables, those are flushed to new files, and one
//! manifest edit names the files, the next sequence number and the new life's first log segment. A crash
//! before that edit leaves the old life's log as it was; after it the old log is not needed. Undecided
//! prepared batches are written into the new life, durably, before the edit. On a disk without room for the
//! files the flush is left to the background (`db/postponed.rs`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::cache::{BlockCache, FileCache};
use crate::compaction::claims::Claims;
use crate::db::background::{Attention, Background, FlushedMemtable};
use crate::db::catalog::Catalog;
use crate::db::counters::LowCounters;
use crate::db::dictionary::{self, FamilyEntry};
use crate::db::family::Family;
use crate::db::memtables::Memtables;
use crate::db::owner;
use crate::db::postponed;
use crate::db::pressure::Gauges;
use crate::db::stats::Stats;
use crate::db::view::ReadView;
use crate::db::{Db, Store};
use crate::error::{Error, Result};
use crate::flush::{self, FlushInput, FlushSource, Flushed};
use crate::io::Disk;
use crate::iter::merge::Merge;
use crate::iter::{LiveSnapshots, Source};
use crate::lock::{LockManager, LockOptions, WaitObserver};
use crate::memtable::{ArenaPool, Generation};
use crate::options::{LogLevel, Options};
use crate::txn::commit_batch::CommitBatch;
use crate::txn::pipeline::Pipeline;
use crate::txn::snapshot::Snapshots;
use crate::txn::undecided::{prepare_bytes, Undecided};
use crate::types::{GenerationId, Seq, DICTIONARY, MAX_SEQ};
use crate::version::{OpenFor, VersionSet};
use crate::wal::{self, BatchReader, Patience, PreparedHead, Purpose, Record, RecordRef, Wal, WalOptions};

/// Snapshots that can be open at a time: two for each of 16,384 transactions.
const SNAPSHOTS: u32 = 32 * 1024;

/// Longest wait for room for prepared batches in the new life's log.
const RELOG_PATIENCE: Duration = Duration::from_secs(60);

/// A batch in the log that no record has decided yet.
struct Pending {
    /// `None`: a large one-phase batch, dropped when no marker follows.
    xid: Option<Vec<u8>>,
    locks: Vec<u8>,
    body: Vec<u8>,
}

/// How a transaction whose batch is in the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Committed; its batch was met before.
    Committed,
    /// Committed with this number; its batch was not met before.
    Missing(Seq),
    /// Rolled back.
    RolledBack,
}

/// What replay collects.
struct Replay {
    arenas: ArenaPool,
    write_buffer: usize,
    /// Commits up to here are in files.
    flushed: Seq,
    newest: Seq,
    next_generation: GenerationId,
    /// Oldest first; the last takes the next records.
    generations: Vec<Arc<Generation>>,
    pending: BTreeMap<u64, Pending>,
    /// One decision counts for every copy of a batch, before or behind it.
    decided: HashMap<u64, Decision>,
}

impl Replay {
    fn apply(&mut self, seq: Seq, body: &[u8]) -> Result<()> {
        self.newest = self.newest.max(seq);
        if seq <= self.flushed {
            return Ok(());
        }
        if self.generations.last().is_none_or(|last| last.bytes() > self.write_buffer) {
            let fresh = Generation::new(self.next_generation, self.arenas.clone());
            self.next_generation += 1;
            self.generations.push(Arc::new(fresh));
        }
        let Some(generation) = self.generations.last() else { return Ok(()) };
        let open = AtomicBool::new(false);
        for entry in BatchReader::new(body).map_err(malformed)? {
            let entry = entry.map_err(malformed)?;
            // Nobody reads yet: only the newest version of a key counts.
            generation.insert(entry.family, entry.key, seq, entry.kind, entry.value, &open, seq);
        }
        Ok(())
    }

    fn record(&mut self, record: RecordRef<'_>) -> Result<()> {
        match record {
            RecordRef::Commit { seq, batch } | RecordRef::Ddl { seq, batch, .. } => self.apply(seq, batch)?,
            RecordRef::Prepared { txn, xid, locks, batch }
            | RecordRef::Relogged { txn, xid, locks, batch } => {
                let pending =
                    Pending { xid: Some(xid.to_vec()), locks: locks.to_vec(), body: batch.to_vec() };
                self.copy(txn, pending)?;
            }
            RecordRef::Ownerless { txn, batch } => {
                let pending = Pending { xid: None, locks: Vec::new(), body: batch.to_vec() };
                self.copy(txn, pending)?;
            }
            RecordRef::Marker { txn, seq } => {
                self.newest = self.newest.max(seq);
                let decision = match self.pending.remove(&txn) {
                    Some(pending) => {
                        self.apply(seq, &pending.body)?;
                        Decision::Committed
                    }
                    // Its batch stood in a segment that was released, because the commit is in files.
                    None if seq <= self.flushed => Decision::Committed,
                    None => Decision::Missing(seq),
                };
                self.decided.insert(txn, decision);
            }
            RecordRef::Rollback { txn } => {
                self.pending.remove(&txn);
                self.decided.insert(txn, Decision::RolledBack);
            }
            RecordRef::DurableMark | RecordRef::Cut(_) => {}
            RecordRef::Ceiling { .. } | RecordRef::RunNames { .. } => {
                return Err(Error::corruption(
                    "wal",
                    0,
                    format!("the log holds a record that this build does not write: {record:?}"),
                ));
            }
        }
        Ok(())
    }
}

impl Replay {
    /// A batch, or another copy of one.
    fn copy(&mut self, txn: u64, pending: Pending) -> Result<()> {
        match self.decided.get(&txn) {
            None => {
                self.pending.insert(txn, pending);
            }
            Some(Decision::Missing(seq)) => {
                let seq = *seq;
                self.apply(seq, &pending.body)?;
                self.decided.insert(txn, Decision::Committed);
            }
            Some(Decision::Committed | Decision::RolledBack) => {}
        }
        Ok(())
    }

    /// Error when a commit was met whose batch was not.
    fn check_complete(&self) -> Result<()> {
        for (txn, decision) in &self.decided {
            if let Decision::Missing(seq) = decision {
                let what = format!("commit {seq} of transaction {txn} has no batch");
                return Err(Error::corruption("wal", 0, what));
            }
        }
        Ok(())
    }
}

fn malformed(what: &str) -> Error {
    Error::corruption("wal", 0, format!("a batch {what}"))
}

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
        owner::check(&*disk, dir, options.owner.as_ref())?;
        let tables = FileCache::new(disk.clone(), dir, options.max_open_files);
        let cache = BlockCache::new(options.block_cache_size);
        let purpose = if options.create_if_missing { OpenFor::WriteOrCreate } else { OpenFor::Write };
        let versions = VersionSet::open(disk.clone(), dir, tables, cache.clone(), purpose)?;
        let state = versions.state();

        let arenas = ArenaPool::new(options.write_buffer_size * 2);
        let mut replay = Replay {
            arenas: arenas.clone(),
            write_buffer: options.write_buffer_size,
            flushed: state.last_seq,
            newest: state.last_seq,
            next_generation: state.last_generation + 1,
            generations: Vec::new(),
            pending: BTreeMap::new(),
            decided: HashMap::new(),
        };
        let cuts: Vec<wal::Cut> = state
            .cuts
            .iter()
            .map(|cut| wal::Cut {
                segment: cut.at.segment(),
                offset: cut.at.offset(),
                epoch: cut.epoch,
                next_segment: cut.next_segment,
                next_seq: cut.next_seq,
            })
            .collect();
        let summary = wal::recover(
            &disk,
            dir,
            state.first_live_segment.max(1),
            &cuts,
            state.durable_upto,
            &mut |_, record| replay.record(record),
        )?;
        replay.check_complete()?;
        let newest = replay.newest.max(summary.max_seq_seen).max(postponed::newest_of_cuts(&state.cuts));
        // What the log does not name either takes up space that the flush may need.
        versions.remove_unknown_files(&HashSet::new())?;

        // Everything that was replayed goes to files at once: the old life's log is not needed any more then.
        let claims = Claims::new();
        let flushed = match flush_replayed(&versions, &claims, &options, &replay.generations, newest) {
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
        // Where the old life's log stays, their batches stay in it.
        let held_from = if flushed.is_some() { first_segment } else { state.first_live_segment.max(1) };
        let mut prepared = Vec::new();
        for (txn, pending) in replay.pending {
            let Some(xid) = pending.xid else { continue };
            let head = Arc::new(PreparedHead { xid, locks: pending.locks });
            let batch = Arc::new(CommitBatch::from_body(pending.body).map_err(malformed)?);
            if flushed.is_some() {
                let bytes = prepare_bytes(&head, &batch);
                let reservation = wal.reserve(bytes, Purpose::Urgent, &Patience::of(RELOG_PATIENCE))?;
                wal.enqueue(reservation, Record::Relogged { txn, head: head.clone(), batch: batch.clone() });
            }
            prepared.push((txn, head, batch));
        }
        wal.sync_all()?;

        let memtables = Memtables::default();
        let mut sealed = Vec::new();
        match flushed {
            Some(done) => {
                let mut edit = done.as_ref().map(|done| done.edit.clone()).unwrap_or_default();
                edit.last_seq = Some(newest);
                edit.last_generation = replay.generations.last().map(|last| last.id());
                edit.first_live_segment = Some(first_segment);
                edit.cuts_removed = state.cuts.iter().map(|cut| cut.at.segment()).collect();
                versions.apply(edit)?;
                wal.release_before(first_segment);
            }
            None => {
                postponed::cut_log(&*disk, dir, &versions, &summary, newest)?;
                sealed = postponed::seal(&replay.generations, held_from, &memtables);
            }
        }
        drop(replay.generations);

        let active = Arc::new(Generation::new(replay.next_generation, arenas.clone()));
        let view = ReadView { active: active.clone(), sealed, version: versions.current() };
        memtables.state.lock().log_from.insert(active.id(), first_segment);
        let lock_options = LockOptions { max_total: options.lock_bound(), ..LockOptions::default() };
        let store = Arc::new(Store {
            locks: LockManager::with_options(observer, Arc::new(disk.clone()), lock_options),
            pipeline: Arc::new(Pipeline::new(newest + 1, active.clone())),
            snapshots: Snapshots::new(SNAPSHOTS),
            catalog: Catalog::default(),
            view: ArcSwap::from_pointee(view),
            view_swap: Mutex::new(()),
            install_lock: Mutex::new(()),
            memtables,
            arenas,
            ddl_lock: Arc::new(Mutex::new(())),
            next_family: AtomicU32::new(DICTIONARY + 1),
            next_generation: AtomicU64::new(active.id() + 1),
            // Ids of a life begin with its epoch, so that none is used twice.
            next_transaction: AtomicU64::new(state.epoch << 32),
            next_owner: AtomicU64::new(1),
            undecided: Undecided::default(),
            held_log: Mutex::new(BTreeMap::new()),
            claims,
            attention: Attention::default(),
            low_counters: LowCounters::default(),
            pressure: Gauges::default(),
            orphans: Mutex::new(HashMap::new()),
            stats: Stats::default(),
            closing: AtomicBool::new(false),
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
        store.snapshots.refresh_floor(newest);
        store.load_dictionary()?;
        store.choose_sync_interval();
        store.adopt_recovered(prepared, held_from)?;
        store.shape_changed();
        let background = Background::start(&store)?;
        Ok(Db { store, background: Arc::new(background) })
    }
}

/// Writes replayed memtables to a file; `None` when there are none. The edit is not applied yet.
fn flush_replayed(
    versions: &VersionSet,
    claims: &Arc<Claims>,
    options: &Options,
    replayed: &[Arc<Generation>],
    newest: Seq,
) -> Result<Option<Flushed>> {
    if replayed.is_empty() {
        return Ok(None);
    }
    let family_options = replayed_options(versions, replayed)?;
    let memtables: Vec<FlushedMemtable<'_>> = replayed.iter().map(FlushedMemtable::new).collect();
    let generations: Vec<&dyn FlushSource> =
        memtables.iter().map(|memtable| memtable as &dyn FlushSource).collect();
    let done = flush::flush(&FlushInput {
        versions,
        claims,
        generations: &generations,
        oldest: true,
        small_runs: flush::small_runs_bound(options),
        live: &LiveSnapshots { claim: newest, held: Vec::new() },
        family: &|family| family_options.get(&family).cloned(),
        stop: &AtomicBool::new(false),
    })?;
    Ok(Some(done))
}

/// Options of the families that replayed memtables touch, as the dictionary, replayed part included, has
/// them; families that it does not know were dropped.
fn replayed_options(
    versions: &VersionSet,
    generations: &[Arc<Generation>],
) -> Result<HashMap<u32, crate::options::FamilyOptions>> {
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for generation in generations.iter().rev() {
        if let Some(source) = generation.source(DICTIONARY, MAX_SEQ) {
            sources.push(Box::new(source));
        }
    }
    let empty = Arc::new(Generation::new(0, ArenaPool::new(0)));
    let view = ReadView { active: empty, sealed: Vec::new(), version: versions.current() };
    sources.extend(view.sources(DICTIONARY, MAX_SEQ, &[])?);
    let mut options = HashMap::new();
    options.insert(DICTIONARY, crate::options::FamilyOptions::default());
    let mut merge = Merge::new(sources);
    merge.seek(b"f")?;
    while merge.valid() && merge.key().starts_with(b"f") {
        if !merge.entry().kind.is_tombstone() {
            let entry = FamilyEntry::decode(merge.entry().value)?;
            options.insert(entry.id, entry.options);
        }
        merge.next()?;
    }
    Ok(options)
}

impl Store {
    /// Reads the dictionary into the catalog and drops families without an entry.
    fn load_dictionary(&self) -> Result<()> {
        let mut merge = Merge::new(self.view().sources(DICTIONARY, MAX_SEQ, &[])?);
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
            .filter(|&id| !self.catalog.is_live(id))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Kind;
    use crate::wal::BatchBuilder;

    fn replay() -> Replay {
        Replay {
            arenas: ArenaPool::new(1 << 20),
            write_buffer: 1 << 20,
            flushed: 4,
            newest: 4,
            next_generation: 1,
            generations: Vec::new(),
            pending: BTreeMap::new(),
            decided: HashMap::new(),
        }
    }

    fn body() -> Vec<u8> {
        let mut body = BatchBuilder::new(Vec::new(), 1);
        body.group(7, 1);
        body.entry(Kind::PUT, b"k", b"v");
        body.finish()
    }

    fn replayed(records: &[RecordRef<'_>]) -> (Replay, Result<()>) {
        let mut replay = replay();
        for record in records {
            replay.record(*record).expect("replays");
        }
        let complete = replay.check_complete();
        (replay, complete)
    }

    #[test]
    fn one_decision_counts_for_every_copy_before_and_behind_it() {
        let body = body();
        let first = RecordRef::Prepared { txn: 1, xid: b"x", locks: b"", batch: &body };
        let copy = RecordRef::Relogged { txn: 1, xid: b"x", locks: b"", batch: &body };
        let (marker, rollback) = (RecordRef::Marker { txn: 1, seq: 5 }, RecordRef::Rollback { txn: 1 });
        for records in [
            vec![first, marker],
            vec![first, copy, marker],
            vec![copy, marker],
            vec![first, marker, copy],
            vec![marker, copy],
            vec![marker, copy, copy],
        ] {
            let (replay, complete) = replayed(&records);
            complete.expect("complete");
            assert!(replay.pending.is_empty(), "{records:?}");
            let entries: u64 = replay.generations.iter().map(|g| g.entries(7)).sum();
            assert_eq!((entries, replay.newest), (1, 5), "{records:?}");
        }
        for records in [vec![first, rollback], vec![first, copy, rollback], vec![rollback, copy]] {
            let (replay, complete) = replayed(&records);
            complete.expect("complete");
            assert!(replay.pending.is_empty() && replay.generations.is_empty(), "{records:?}");
        }
        let (replay, complete) = replayed(&[first, copy]);
        complete.expect("complete");
        assert_eq!(replay.pending.len(), 1, "undecided, once");
        let (_, complete) = replayed(&[marker]);
        assert!(complete.is_err(), "a commit without its batch is damage");
        let (_, complete) = replayed(&[RecordRef::Marker { txn: 1, seq: 4 }]);
        complete.expect("that one is in files");
    }
}
