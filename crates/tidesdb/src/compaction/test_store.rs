//! A store for tests: versions, flush and compaction together, on a faulty disk, alongside a model with every
//! version of every key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::cache::BlockCache;
use crate::error::Result;
use crate::flush::large_table_bound;
use crate::flush::{flush, FlushInput, FlushSource};
use crate::host::SystemClock;
use crate::io::faulty::FaultyDisk;
use crate::iter::{InternalIterator, LiveSnapshots, VersionIterator};
use crate::options::{FamilyOptions, Options};
use crate::table::{hash_key, TableStore};
use crate::types::{Entry, FamilyId, Kind, MemtableId, RowCount, Seq, MAX_SEQ};
use crate::version::{Edit, LevelIterator, OpenFor, VersionSet};

use super::job::{compact, pick_sparse, rewrite_sparse, JobContext};
use super::sparse::worth_rewriting;
use crate::iter::vec_iterator::{OwnedVersion, VecVersionIterator};
use crate::version::reservations::CompactionReservations;

pub(crate) const DIR: &str = "/db";

/// A memtable in vectors.
#[derive(Clone, Default)]
pub(crate) struct VecMemtable {
    pub id: MemtableId,
    pub families: BTreeMap<FamilyId, Vec<OwnedVersion>>,
}

impl FlushSource for VecMemtable {
    fn id(&self) -> MemtableId {
        self.id
    }
    fn families(&self) -> Vec<FamilyId> {
        self.families.keys().copied().collect()
    }
    fn bytes(&self, family: FamilyId) -> u64 {
        self.families.get(&family).into_iter().flatten().map(|v| (v.0.len() + v.3.len()) as u64).sum()
    }
    fn row_count(&self, _: FamilyId) -> RowCount {
        RowCount::ZERO
    }

    fn version_iter(&self, family: FamilyId) -> Option<Box<dyn VersionIterator + '_>> {
        Some(Box::new(VecVersionIterator::new(self.families.get(&family)?.clone())))
    }
}

/// Every version of every key.
type History = BTreeMap<Vec<u8>, BTreeMap<Seq, Option<Vec<u8>>>>;

pub(crate) struct TestStore {
    pub disk: FaultyDisk,
    pub options: Options,
    pub family_options: FamilyOptions,
    pub versions: VersionSet,
    pub reservations: Arc<CompactionReservations>,
    /// The active memtable and the sealed ones after it, oldest first.
    pub active: VecMemtable,
    pub sealed: Vec<VecMemtable>,
    pub seq: Seq,
    pub live: Vec<Seq>,
    pub dropped: BTreeSet<FamilyId>,
    pub model: BTreeMap<FamilyId, History>,
    pub stop: AtomicBool,
    /// Cancelled pairs of put and delete in compactions.
    pub cancelled: u64,
    /// Bytes written by compactions.
    pub written: u64,
}

pub(crate) fn open(disk: &FaultyDisk, purpose: OpenFor) -> Result<VersionSet> {
    let tables = TableStore::new(disk.shared(), DIR, 8);
    VersionSet::open(disk.shared(), Path::new(DIR), tables, BlockCache::new(1 << 20), purpose)
}

impl TestStore {
    pub fn new(disk: FaultyDisk) -> TestStore {
        let versions = open(&disk, OpenFor::WriteOrCreate).unwrap();
        TestStore::with(disk, versions)
    }

    pub fn with(disk: FaultyDisk, versions: VersionSet) -> TestStore {
        TestStore {
            disk,
            options: Options {
                write_buffer_size: 16 << 10,
                target_file_size: 2 << 10,
                base_level_size: 8 << 10,
                ..Options::default()
            },
            family_options: FamilyOptions {
                block_size: 256,
                level_size_ratio: 3,
                l0_compaction_trigger: 3,
                ..FamilyOptions::default()
            },
            versions,
            reservations: CompactionReservations::new(Arc::new(SystemClock)),
            active: VecMemtable { id: 1, ..VecMemtable::default() },
            sealed: Vec::new(),
            seq: 0,
            live: Vec::new(),
            dropped: BTreeSet::new(),
            model: BTreeMap::new(),
            stop: AtomicBool::new(false),
            cancelled: 0,
            written: 0,
        }
    }

    /// Writes one commit.
    pub fn write(&mut self, family: FamilyId, key: &[u8], value: Option<&[u8]>) {
        self.seq += 1;
        let old = self.model.entry(family).or_default().entry(key.to_vec()).or_default();
        let mut newest = old.values().rev().map(Option::is_some);
        let (live, before) = (newest.next().unwrap_or(false), newest.next().unwrap_or(false));
        // As a transaction proves them; of the deletions that may be single every other one is.
        let kind = match value {
            None if live && !before && self.seq % 2 == 0 => Kind::SINGLE_DELETE,
            None => Kind::DELETE,
            Some(_) if live => Kind::PUT.marked_may_overwrite(),
            Some(_) => Kind::PUT,
        };
        old.insert(self.seq, value.map(<[u8]>::to_vec));
        let entry = (key.to_vec(), self.seq, kind, value.unwrap_or_default().to_vec());
        self.active.families.entry(family).or_default().push(entry);
    }

    pub fn snapshots(&self) -> LiveSnapshots {
        let mut held = self.live.clone();
        held.sort_unstable();
        held.dedup();
        LiveSnapshots { scan_bound: self.seq, held, ..LiveSnapshots::default() }
    }

    pub fn seal(&mut self) {
        let next = VecMemtable { id: self.active.id + 1, ..VecMemtable::default() };
        self.sealed.push(std::mem::replace(&mut self.active, next));
    }

    fn family(&self) -> impl Fn(FamilyId) -> Option<FamilyOptions> + '_ {
        |id| (!self.dropped.contains(&id)).then(|| self.family_options.clone())
    }

    /// Flushes the `count` oldest sealed memtables.
    pub fn flush(&mut self, count: usize) -> Result<()> {
        let memtables: Vec<&dyn FlushSource> =
            self.sealed[..count].iter().map(|g| g as &dyn FlushSource).collect();
        let live = self.snapshots();
        let flushed = flush(&FlushInput {
            versions: &self.versions,
            reservations: &self.reservations,
            memtables: &memtables,
            oldest: true,
            options: &self.options,
            live: &live,
            family: &self.family(),
            stop: &self.stop,
        })?;
        self.versions.apply(flushed.edit)?;
        self.sealed.drain(..count);
        Ok(())
    }

    /// Runs a job as the store would.
    fn job<T>(&self, run: impl FnOnce(&JobContext<'_>) -> T) -> T {
        run(&JobContext {
            versions: &self.versions,
            live: &self.snapshots(),
            stop: &|| self.stop.load(Ordering::Relaxed),
            pace: &|_| (),
            large_table: large_table_bound(&self.options),
            new_value_files: None,
        })
    }

    /// Picks and runs one compaction; returns its description.
    pub fn compact(&mut self) -> Result<Option<String>> {
        let live = self.snapshots();
        let picked = super::pick(
            &self.reservations,
            &self.versions,
            &self.options,
            None,
            &self.family(),
            (live.oldest_snapshot(), 0),
        );
        let Some(picked) = picked else { return Ok(None) };
        let done = self.job(|context| {
            let (levels, options) = (&picked.levels, &picked.options);
            compact(context, levels, picked.family, options, self.options.target_file_size, &picked.task)
        })?;
        self.cancelled += done.counts.cancelled;
        self.written += done.bytes_written;
        self.versions.apply(done.edit)?;
        Ok(Some(format!("family {}: {}", picked.family, picked.task)))
    }

    /// Rewrites one sparse file; false if there was none.
    pub fn rewrite_sparse(&mut self, settled: bool) -> Result<bool> {
        let sparse = worth_rewriting(self.versions.file_uses(), settled, u64::MAX);
        let Some(task) = pick_sparse(&self.reservations, &self.versions, &sparse) else {
            return Ok(false);
        };
        let done = self.job(|context| rewrite_sparse(context, &task, &self.family()))?;
        self.versions.apply(done.edit)?;
        Ok(true)
    }

    pub fn drop_family(&mut self, family: FamilyId) -> Result<()> {
        self.dropped.insert(family);
        self.model.remove(&family);
        self.versions.apply(Edit { dropped_families: vec![family], ..Edit::default() })?;
        Ok(())
    }

    /// The model's view of a family at a snapshot.
    pub fn expected(&self, family: FamilyId, snapshot: Seq) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let Some(history) = self.model.get(&family) else { return BTreeMap::new() };
        let newest = |versions: &BTreeMap<Seq, Option<Vec<u8>>>| {
            versions.range(..=snapshot).next_back().and_then(|(_, value)| value.clone())
        };
        history.iter().filter_map(|(key, versions)| Some((key.clone(), newest(versions)?))).collect()
    }

    /// A snapshot's view of a family, from a scan of every run, backwards or forwards.
    pub fn scan(&self, family: FamilyId, snapshot: Seq, backwards: bool) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut seen: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        let mut meet = |key: &[u8], entry: Entry<'_>| {
            let value = (!entry.kind.is_tombstone()).then(|| entry.stored().to_vec());
            seen.entry(key.to_vec()).or_insert(value);
        };
        for memtable in std::iter::once(&self.active).chain(self.sealed.iter().rev()) {
            let mut entries = memtable.families.get(&family).cloned().unwrap_or_default();
            entries.sort_by(|a, b| (&a.0, b.1).cmp(&(&b.0, a.1)));
            for (key, seq, kind, value) in entries.iter().filter(|e| e.1 <= snapshot) {
                meet(key, Entry::new(*seq, *kind, value));
            }
        }
        let version = self.versions.current();
        if let Some(levels) = version.family(family) {
            let mut iterators: Vec<Box<dyn InternalIterator>> = Vec::new();
            iterators.extend(
                levels.l0.iter().map(|run| Box::new(run.iter(snapshot)) as Box<dyn InternalIterator>),
            );
            for level in &levels.levels {
                iterators.push(Box::new(LevelIterator::new(Arc::clone(level), snapshot, Arc::default())));
            }
            for iter in &mut iterators {
                let mut last: Option<Vec<u8>> = None;
                if backwards { iter.seek_to_last() } else { iter.seek_to_first() }.unwrap();
                while iter.valid() {
                    if let Some(last) = &last {
                        assert!(if backwards { iter.key() < &last[..] } else { iter.key() > &last[..] });
                    }
                    last = Some(iter.key().to_vec());
                    meet(iter.key(), iter.entry());
                    if backwards { iter.prev() } else { iter.next() }.unwrap();
                }
            }
        }
        seen.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// A snapshot's view of one key, from tables alone.
    pub fn get(&self, family: FamilyId, key: &[u8], snapshot: Seq) -> Option<Vec<u8>> {
        let version = self.versions.current();
        let levels = version.family(family)?;
        let hash = hash_key(key);
        let deeper = levels.levels.iter().filter_map(|level| level.find(key));
        for run in levels.l0.iter().chain(deeper) {
            if let Some(hit) = run.get(key, hash, snapshot).unwrap() {
                return (!hit.entry().kind.is_tombstone()).then(|| hit.stored().to_vec());
            }
        }
        None
    }

    /// Compares every live snapshot, and the newest state, with the model.
    pub fn check(&self, what: &str) {
        let families: Vec<FamilyId> = self.model.keys().copied().collect();
        for family in families {
            for snapshot in self.live.iter().copied().chain([self.seq, MAX_SEQ]) {
                let expected = self.expected(family, snapshot);
                for backwards in [false, true] {
                    let found = self.scan(family, snapshot, backwards);
                    let keys = expected.keys().chain(found.keys());
                    let wrong = keys.into_iter().find(|key| found.get(*key) != expected.get(*key));
                    assert_eq!(
                        wrong.map(|key| key.escape_ascii().to_string()),
                        None,
                        "{what}: at {snapshot}"
                    );
                }
            }
        }
    }
}
