//! The runs of a transaction as made by `prepare`: durable, at most [`MAX_RUNS`] a family, each key once in
//! each.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Result;
use crate::flush::large_table_bound;
use crate::flush::table_files::TableFiles;
use crate::iter::version_merge::MergingVersionIterator;
use crate::iter::VersionIterator;
use crate::lock::LockOwner;
use crate::mutant::{self, Mutant};
use crate::store::sealed_runs::{SealedRuns, SealedTable, MAX_RUNS};
use crate::store::Store;
use crate::types::FileNo;
use crate::version::{LiveFile, TableHandle};

use super::runs::{counted, rows_of, table_options, version_iters, was_live, RunSource, Runs, SpilledRun};

/// Runs up to so many times a transaction's memory in total become one. Writing them again costs less than
/// twice as many runs on level 0.
const ONE_RUN_BOUNDS: u64 = if cfg!(simulation) { 1 } else { 4 };

impl SealedRuns {
    /// Writes the missing runs, merges surplus ones, and syncs. The transaction's own runs stay as they are.
    /// Errors: I/O, disk full, `Interrupted`; no file is left then. Runs whose sync failed are written anew
    /// by the next call.
    pub(crate) fn seal(
        store: &Store,
        owner: &LockOwner,
        runs: &Runs,
        memory: &dyn RunSource,
    ) -> Result<SealedRuns> {
        let mut sealed = SealedRuns { files: Vec::new(), tables: Vec::new(), unproven: false, loaded: false };
        let count = runs.list.len() + usize::from(!memory.is_empty());
        let plain = runs.list.iter().all(|run| run.is_plain()) && memory.is_plain();
        let spilled: u64 = runs.list.iter().map(SpilledRun::len).sum();
        let few =
            count == 1 || (count <= MAX_RUNS && spilled > store.live.spill_bound() as u64 * ONE_RUN_BOUNDS);
        let mut files = TableFiles::new(&store.versions, large_table_bound(&store.options_now()));
        let mut written = Vec::new();
        // That of the run with what is written here.
        let mut ordinal = 1;
        if few && plain {
            ordinal += runs.list.len() as u64;
            for (run, ordinal) in runs.list.iter().zip(1..) {
                run.sync()?;
                sealed.files.extend(run.files().cloned());
                let table = |(table, &rows): (&TableHandle, &i64)| SealedTable {
                    file: Arc::clone(&table.file),
                    ordinal,
                    meta: table.meta().clone(),
                    rows: Some(rows),
                };
                sealed.tables.extend(run.tables.iter().zip(&run.rows).map(table));
            }
            for (family, bytes) in memory.families() {
                let mut rows = 0;
                let mut number = counted(owner, |_, entry| {
                    rows += rows_of(entry);
                    Some(entry.seq)
                });
                let options = table_options(store, family);
                let table =
                    files.copy(family, (&options, bytes), &mut *memory.version_iter(family), &mut number)?;
                drop(number);
                written.extend(table.map(|table| (table, rows)));
            }
        } else {
            let mut families = memory.families();
            for family in runs.families() {
                *families.entry(family).or_default() += runs.bytes(family);
            }
            for (family, bytes) in families {
                let mut iterators: Vec<Box<dyn VersionIterator + '_>> = vec![memory.version_iter(family)];
                iterators.extend(version_iters(&runs.list, family));
                let mut last: Option<Vec<u8>> = None;
                // Of a key the newest change says whether it exists now, the oldest whether it did before.
                let (mut now, mut before) = (0, 0);
                let mut of_key = false;
                let mut newest = counted(owner, |key, entry| {
                    let same = last.as_deref() == Some(key);
                    if !same {
                        let last = last.get_or_insert_with(Vec::new);
                        last.clear();
                        last.extend_from_slice(key);
                        before += i64::from(of_key);
                        now += i64::from(!entry.kind.is_tombstone());
                    }
                    of_key = was_live(entry.seq);
                    (!same).then_some(0)
                });
                let options = table_options(store, family);
                let mut iter = MergingVersionIterator::new(iterators);
                let table = files.copy(family, (&options, bytes), &mut iter, &mut newest)?;
                drop(newest);
                let rows = now - before - i64::from(of_key);
                written.extend(table.map(|table| (table, rows)));
            }
        }
        let new = files.finish()?.into_iter();
        let new: BTreeMap<FileNo, Arc<LiveFile>> =
            new.map(|new| (new.number, store.versions.private_file(new.number, new.len))).collect();
        let table = |((file, meta), rows)| {
            let file = Arc::clone(&new[&file]);
            SealedTable { file, ordinal, meta, rows: Some(rows) }
        };
        sealed.tables.extend(written.into_iter().map(table));
        sealed.files.extend(new.values().cloned());
        if mutant::is(Mutant::RunDirUnsynced) {
            return Ok(sealed);
        }
        // As the runs are: recovery reads no value of a run.
        let synced = store.versions.values().sync().and_then(|()| store.versions.table_files().sync());
        synced.inspect_err(|_| runs.list.iter().for_each(SpilledRun::set_unsynced))?;
        Ok(sealed)
    }
}
