//! The runs of a running transaction.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::flush::large_table_bound;
use crate::flush::table_files::TableFiles;
use crate::io::File;
use crate::iter::version_merge::MergingVersionIterator;
use crate::iter::{InternalIterator, VersionIterator};
use crate::lock::LockOwner;
use crate::mutant::{self, Mutant};
use crate::options::FamilyOptions;
use crate::store::Store;
use crate::sync::note;
use crate::table::{hash_key, Hit, SsTableMeta, SsTableOptions};
use crate::types::{CountEffect, Entry, FamilyId, FileNo, Seq};
use crate::version::{LiveFile, NewFile, TableHandle};

/// Number of neighbouring runs of one size to merge into one. It bounds the runs per read, at the price of
/// one more write for each such factor in a transaction's size.
pub(crate) const FAN_IN: usize = if cfg!(simulation) { 3 } else { 12 };

/// Entries between two checks of the kill flag.
pub(crate) const KILL_STEPS: u64 = 1024;

/// The sequence number of a change in a run before its commit: the ordinal, and a flag. The flag says
/// whether the key existed before the first change of it spilled to the same run. Ascends with ordinals.
pub(crate) fn ordinal_seq(ordinal: u64, was_live: bool) -> Seq {
    ordinal << 1 | u64::from(was_live)
}

/// The highest such number of the changes up to `ordinal`.
fn last_ordinal_seq(ordinal: u64) -> Seq {
    ordinal_seq(ordinal, true)
}

/// True if the key existed, according to such a number.
pub(super) fn was_live(seq: Seq) -> bool {
    seq & 1 != 0
}

/// The effect of a table's entries on the number of rows, if each key is in it once.
pub(super) fn rows_of(entry: Entry<'_>) -> i64 {
    CountEffect::of(entry.kind, was_live(entry.seq)).row_count(entry.kind).rows
}

/// The source of a run: changes in memory with their ordinals, those hidden by later changes of a key
/// included.
pub(crate) trait RunSource {
    /// True if there is none.
    fn is_empty(&self) -> bool;
    /// True if no key was changed twice.
    fn is_plain(&self) -> bool;
    /// Families with changes, ascending, and the bytes of their keys and values.
    fn families(&self) -> BTreeMap<FamilyId, u64>;
    /// The ordinals before the first change and of the last.
    fn ordinals(&self) -> (u64, u64);
    /// The changes of a family by key, the latest of a key first; ordinals stand for sequence numbers
    /// ([`ordinal_seq`]).
    fn version_iter(&self, family: FamilyId) -> Box<dyn VersionIterator + '_>;
}

/// One run: the transaction's changes in an interval of ordinals.
pub(super) struct SpilledRun {
    /// Its files, with the open handles for a sync.
    files: Vec<(Arc<LiveFile>, Arc<dyn File>)>,
    /// Ascending by family.
    pub(super) tables: Vec<TableHandle>,
    /// For each table [`rows_of`] its entries.
    pub(super) rows: Vec<i64>,
    /// Its changes are those after this ordinal ...
    pub(super) after: u64,
    /// ... up to this one. Later changes, up to `written`, are cut away.
    pub(super) limit: u64,
    pub(super) written: u64,
    /// Number of merges its content went through.
    tier: u32,
    /// A sync of a file or of its name failed. Another would prove nothing: its pages count as clean
    /// (`docs/protocols.md` 1.3).
    sync_failed: AtomicBool,
}

impl std::fmt::Debug for SpilledRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Vec<_> = self.files().collect();
        write!(f, "{files:?} ({}..={} of {}) tier {}", self.after, self.limit, self.written, self.tier)
    }
}

impl SpilledRun {
    pub(super) fn table(&self, family: FamilyId) -> Option<&TableHandle> {
        let at = self.tables.binary_search_by_key(&family, |run| run.meta().family).ok()?;
        self.tables.get(at)
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = &Arc<LiveFile>> {
        self.files.iter().map(|(file, _)| file)
    }

    /// Bytes of the files.
    pub(super) fn len(&self) -> u64 {
        self.files().map(|file| file.len()).sum()
    }

    /// True if its tables can become ones of level 0 as they are: nothing cut away, each key once, no sync
    /// failed.
    pub(super) fn is_plain(&self) -> bool {
        self.limit == self.written
            && self.tables.iter().all(|run| run.meta().entries == run.meta().keys)
            && !self.sync_failed.load(Relaxed)
    }

    /// Makes the files' bytes durable. After an error their content must be written anew.
    pub(super) fn sync(&self) -> Result<()> {
        if mutant::is(Mutant::RunUnsynced) {
            return Ok(());
        }
        let synced = self.files.iter().try_for_each(|(_, handle)| handle.sync_data());
        synced.inspect_err(|_| self.set_unsynced())
    }

    /// A sync failed.
    pub(super) fn set_unsynced(&self) {
        self.sync_failed.store(true, Relaxed);
    }
}

/// The runs of a transaction, oldest first: ascending intervals of ordinals.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(super) list: Vec<SpilledRun>,
    /// Runs with undone changes: their keys stay locked.
    cut: Vec<SpilledRun>,
    /// Runs with undone changes whose other changes went into a merged run. Their keys stay locked too,
    /// whatever became of the merging statement.
    merged: Vec<SpilledRun>,
    /// Families ever in a run.
    touched: Vec<FamilyId>,
    changes: u64,
}

impl Runs {
    /// True if nothing was spilled.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True if there are files, those of undone changes included.
    pub(crate) fn has_files(&self) -> bool {
        !(self.list.is_empty() && self.cut.is_empty() && self.merged.is_empty())
    }

    /// Counts changes of the list; earlier reads of it are out of date after one.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The transaction's newest change of a key in its runs.
    pub(crate) fn get(&self, family: FamilyId, key: &[u8]) -> Result<Option<Hit>> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let hash = hash_key(key);
        for run in self.list.iter().rev().skip(usize::from(mutant::is(Mutant::NewestRunUnread))) {
            let Some(table) = run.table(family) else { continue };
            if let Some(hit) = table.get(key, hash, last_ordinal_seq(run.limit))? {
                return Ok(Some(hit));
            }
        }
        Ok(None)
    }

    /// A family's changes, run by run, newest first; omits runs without keys with `prefix`.
    pub(crate) fn iterators(
        &self,
        family: FamilyId,
        prefix: &[u8],
    ) -> Result<Vec<Box<dyn InternalIterator>>> {
        let mut iterators: Vec<Box<dyn InternalIterator>> = Vec::new();
        for run in self.list.iter().rev() {
            let Some(table) = run.table(family) else { continue };
            if prefix.is_empty() || table.may_contain_prefix(prefix)? {
                iterators.push(Box::new(table.iter(last_ordinal_seq(run.limit))));
            }
        }
        Ok(iterators)
    }

    /// Every change of a family that was not undone, newest run first.
    pub(crate) fn version_iters(&self, family: FamilyId) -> Vec<Box<dyn VersionIterator + '_>> {
        version_iters(&self.list, family)
    }

    /// Bytes of a family's tables.
    pub(super) fn bytes(&self, family: FamilyId) -> u64 {
        self.list.iter().filter_map(|run| run.table(family)).map(|table| table.meta().len).sum()
    }

    /// Families with changes in a run, ascending.
    pub(crate) fn families(&self) -> Vec<FamilyId> {
        let mut families: Vec<FamilyId> =
            self.list.iter().flat_map(|run| &run.tables).map(|table| table.meta().family).collect();
        families.sort_unstable();
        families.dedup();
        families
    }

    /// Undoes every change after `ordinal`.
    pub(crate) fn cut_back(&mut self, ordinal: u64) {
        let Some(last) = self.list.last() else { return };
        if last.limit <= ordinal || mutant::is(Mutant::RollbackKeepsRuns) {
            return;
        }
        self.changes += 1;
        let kept = self.list.partition_point(|run| run.after < ordinal);
        self.cut.extend(self.list.drain(kept..));
        if let Some(last) = self.list.last_mut() {
            last.limit = last.limit.min(ordinal);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.changes += u64::from(!self.list.is_empty());
        self.list.clear();
        self.cut.clear();
        self.merged.clear();
        self.touched.clear();
    }

    /// Number of cut away runs; their keys are locked.
    pub(crate) fn cut_away(&self) -> usize {
        self.cut.len()
    }

    /// Forgets cut away runs after the first `kept`, and the locks of their keys. Returns whether there was
    /// any.
    pub(crate) fn forget_cut(&mut self, kept: usize) -> bool {
        let had = self.cut.len() > kept;
        self.cut.truncate(kept);
        had
    }

    /// Forgets the newest run; its changes are still in memory.
    pub(crate) fn take_back(&mut self) {
        self.changes += 1;
        self.list.pop();
    }

    /// The tables of each family ever in a run, those with undone changes included.
    pub(super) fn locked(&self) -> impl Iterator<Item = (FamilyId, Vec<TableHandle>)> + '_ {
        self.touched.iter().map(|&family| {
            let runs = self.list.iter().chain(&self.cut).chain(&self.merged);
            let tables = runs.filter_map(|run| run.table(family));
            (family, tables.cloned().collect())
        })
    }

    /// Families ever in a run.
    pub(super) fn touched(&self) -> &[FamilyId] {
        &self.touched
    }

    /// A family's tables with undone changes.
    pub(super) fn cut_tables(&self, family: FamilyId) -> impl Iterator<Item = TableHandle> + '_ {
        let limited = self.list.iter().filter(|run| run.limit < run.written);
        let runs = limited.chain(&self.cut).chain(&self.merged);
        runs.filter_map(move |run| run.table(family)).cloned()
    }

    /// Makes a run of the changes in memory; the caller forgets them then. Nothing changes on an error: I/O,
    /// disk full, `Interrupted`.
    pub(crate) fn add(&mut self, store: &Store, owner: &LockOwner, memory: &dyn RunSource) -> Result<()> {
        let mut files = TableFiles::new(&store.versions, large_table_bound(&store.options_now()));
        let mut tables = Vec::new();
        for (family, bytes) in memory.families() {
            let options = table_options(store, family);
            let mut rows = 0;
            let mut number = counted(owner, |_, entry| {
                rows += rows_of(entry);
                Some(entry.seq)
            });
            let table =
                files.copy(family, (&options, bytes), &mut *memory.version_iter(family), &mut number)?;
            drop(number);
            tables.extend(table.map(|table| (table, rows)));
        }
        let (after, last) = memory.ordinals();
        note("run of a transaction");
        store.stats.spilled_runs.fetch_add(1, Relaxed);
        self.push(store, files.finish_unsynced(), tables, (after, last), 0);
        Ok(())
    }

    fn push(
        &mut self,
        store: &Store,
        files: Vec<(NewFile, Arc<dyn File>)>,
        tables: Vec<((FileNo, SsTableMeta), i64)>,
        (after, last): (u64, u64),
        tier: u32,
    ) {
        if files.is_empty() {
            return;
        }
        let private =
            |(new, handle): (NewFile, _)| (store.versions.private_file(new.number, new.len), handle);
        let files: Vec<_> = files.into_iter().map(private).collect();
        let by_number: BTreeMap<FileNo, &Arc<LiveFile>> =
            files.iter().map(|(file, _)| (file.number(), file)).collect();
        let (tables, rows): (Vec<_>, Vec<_>) = tables.into_iter().unzip();
        let open = |(number, meta)| store.versions.open_table(by_number[&number], meta, 0);
        let tables: Vec<TableHandle> = tables.into_iter().map(open).collect();
        for family in tables.iter().map(|table| table.meta().family) {
            if !self.touched.contains(&family) {
                self.touched.push(family);
            }
        }
        self.list.push(SpilledRun {
            files,
            tables,
            rows,
            after,
            limit: last,
            written: last,
            tier,
            sync_failed: AtomicBool::new(false),
        });
        self.changes += 1;
    }

    /// Merges the newest runs when they are many and alike. On an error the runs are as before or merged in
    /// part.
    pub(crate) fn merge_alike(&mut self, store: &Store, owner: &LockOwner) -> Result<()> {
        loop {
            let Some(tier) = self.list.last().map(|run| run.tier) else { return Ok(()) };
            let alike = self.list.iter().rev().take_while(|run| run.tier == tier).count();
            if alike < FAN_IN {
                return Ok(());
            }
            note("runs of a transaction merged");
            let from = self.list.len() - alike;
            let merged = &self.list[from..];
            let (after, last) = (merged[0].after, merged[alike - 1].limit);
            let mut families: BTreeMap<FamilyId, u64> = BTreeMap::new();
            for table in merged.iter().flat_map(|run| &run.tables) {
                *families.entry(table.meta().family).or_default() += table.meta().len;
            }
            let mut files = TableFiles::new(&store.versions, large_table_bound(&store.options_now()));
            let mut tables = Vec::new();
            for (family, bytes) in families {
                let mut iter = MergingVersionIterator::new(version_iters(merged, family));
                let mut rows = 0;
                let mut number = counted(owner, |_, entry| {
                    rows += rows_of(entry);
                    Some(entry.seq)
                });
                let options = table_options(store, family);
                let table = files.copy(family, (&options, bytes), &mut iter, &mut number)?;
                drop(number);
                tables.extend(table.map(|table| (table, rows)));
            }
            let merged = self.list.split_off(from);
            self.merged.extend(merged.into_iter().filter(|run| run.limit < run.written));
            self.push(store, files.finish_unsynced(), tables, (after, last), tier + 1);
        }
    }
}

/// Every change of a family in `runs` that was not undone, newest run first.
pub(super) fn version_iters<'a>(
    runs: &'a [SpilledRun],
    family: FamilyId,
) -> Vec<Box<dyn VersionIterator + 'a>> {
    let iter = |run: &'a SpilledRun| {
        let iter = run.table(family)?.version_iter();
        Some(Box::new(Limited { iter, limit: last_ordinal_seq(run.limit) }) as Box<dyn VersionIterator>)
    };
    runs.iter().rev().filter_map(iter).collect()
}

/// The options of a run's table: those of level 0, its possible destination, and a filter in any case. Other transactions look
/// for the key of each of their entries in it, to find who locks it.
pub(super) fn table_options(store: &Store, family: FamilyId) -> SsTableOptions {
    let options = store.family_options(family).unwrap_or_default();
    SsTableOptions::of_family(&FamilyOptions { bloom_filter: true, ..options }, false)
}

/// Numbers entries for [`TableFiles::copy`] by `number`, and checks the kill flag now and then.
pub(super) fn counted<'a>(
    owner: &'a LockOwner,
    mut number: impl FnMut(&[u8], Entry<'_>) -> Option<u64> + 'a,
) -> impl FnMut(&[u8], Entry<'_>) -> Result<Option<u64>> + 'a {
    let mut steps = 0u64;
    move |key, entry| {
        steps += 1;
        if steps % KILL_STEPS == 0 && owner.is_killed() {
            return Err(Error::Interrupted);
        }
        Ok(number(key, entry))
    }
}

/// An iterator without entries after a limit.
struct Limited<S> {
    iter: S,
    limit: u64,
}

impl<S: VersionIterator> Limited<S> {
    fn settle(&mut self) -> Result<()> {
        while self.iter.valid() && self.iter.entry().seq > self.limit {
            self.iter.next()?;
        }
        Ok(())
    }
}

impl<S: VersionIterator> VersionIterator for Limited<S> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.iter.seek(key)?;
        self.settle()
    }

    fn next(&mut self) -> Result<()> {
        self.iter.next()?;
        self.settle()
    }

    fn valid(&self) -> bool {
        self.iter.valid()
    }

    fn key(&self) -> &[u8] {
        self.iter.key()
    }

    fn entry(&self) -> Entry<'_> {
        self.iter.entry()
    }
}
