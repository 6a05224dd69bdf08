//! The set of tables of a store, as immutable [`Version`]s. [`VersionSet`] applies an [`Edit`] to make the
//! next version and keeps the manifest; [`LevelIterator`] reads a level as one run. The design is LevelDB's.
//!
//! Guarantees: a version never changes. A file named by a version, or by a table handle cloned from it, is
//! unlinked only after both are dropped. Taking a version takes no lock.
//!
//! Data flow: flush and compaction make edits; reads hold versions.

mod edit;
mod family_shards;
mod level_iterator;
pub mod manifest;
pub(crate) mod mirror;
pub mod quarantine;
pub mod reservations;
pub(crate) mod restoring;
mod row_counts;
mod set;
mod table_handle_iterator;
pub(crate) mod table_output;

pub use edit::{Edit, NewFile, NewTable};
pub use level_iterator::{LevelIterator, LevelVersionIterator};
pub(crate) use set::next_format;
pub use set::{FileUse, OpenFor, StoreState, VersionSet};

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::host::HashSet;
use crate::table::{SsTable, SsTableMeta};
use crate::types::{FamilyId, FileNo, MemtableId, RowCount};
use crate::value_holds::ValueFile;

use family_shards::{empty_shards, shard_of};
use row_counts::RowCounts;
use set::obsolete::ObsoleteFiles;

/// A file with tables of some version. Once it is obsolete and the last handle to a table in it is dropped,
/// its number is queued for [`VersionSet::delete_obsolete`].
pub struct LiveFile {
    number: FileNo,
    len: u64,
    obsolete: AtomicBool,
    queue: Arc<ObsoleteFiles>,
}

impl LiveFile {
    fn new(number: FileNo, len: u64, queue: &Arc<ObsoleteFiles>) -> Arc<LiveFile> {
        Arc::new(LiveFile { number, len, obsolete: AtomicBool::new(false), queue: Arc::clone(queue) })
    }

    /// The file's number.
    pub fn number(&self) -> FileNo {
        self.number
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn set_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    fn clear_obsolete(&self) {
        self.obsolete.store(false, Ordering::Release);
    }
}

impl fmt::Debug for LiveFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.number)
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            self.queue.push_table(self.number);
        }
    }
}

/// A handle of a live table: the table, its file, kept alive by the handle, and its place in level 0.
#[derive(Clone, Debug)]
pub struct TableHandle {
    /// The table.
    pub table: Arc<SsTable>,
    /// The file of the table.
    pub file: Arc<LiveFile>,
    /// The file of its second copy, if it has one.
    pub mirror: Option<Arc<LiveFile>>,
    /// The newest memtable in the table, for level 0; 0 below.
    pub generation: MemtableId,
    /// Holds on the value files of its entries.
    pub values: Arc<[Arc<ValueFile>]>,
}

impl TableHandle {
    /// Numbers of the table's file and of its second copy.
    pub fn files(&self) -> impl Iterator<Item = FileNo> {
        std::iter::once(self.file.number).chain(self.mirror.as_ref().map(|mirror| mirror.number))
    }
}

impl Deref for TableHandle {
    type Target = Arc<SsTable>;

    fn deref(&self) -> &Arc<SsTable> {
        &self.table
    }
}

impl fmt::Display for TableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = self.meta();
        write!(f, "#{}", self.file.number)?;
        if self.generation > 0 {
            write!(f, " g{}", self.generation)?;
        }
        let (min, max) = (meta.min_key.escape_ascii(), meta.max_key.escape_ascii());
        write!(f, " [{min}..{max}] {}e", meta.entries)?;
        if meta.tombstones > 0 {
            write!(f, " {}t", meta.tombstones)?;
        }
        Ok(())
    }
}

/// Sums over tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes on disk.
    pub bytes: u64,
    /// Entries: every version counts.
    pub entries: u64,
    /// Tombstones among the entries.
    pub tombstones: u64,
    /// Keys; a key counts once for each table with it.
    pub keys: u64,
    /// Bytes of keys and values before compression.
    pub raw_bytes: u64,
    /// Bytes of the values in value files, as stored.
    pub value_bytes: u64,
}

impl Totals {
    /// Adds other sums.
    pub fn add(&mut self, other: &Totals) {
        self.bytes += other.bytes;
        self.entries += other.entries;
        self.tombstones += other.tombstones;
        self.keys += other.keys;
        self.raw_bytes += other.raw_bytes;
        self.value_bytes += other.value_bytes;
    }

    /// The sums for one table.
    pub fn of(meta: &SsTableMeta) -> Totals {
        let &SsTableMeta { len, entries, tombstones, keys, raw_bytes, .. } = meta;
        Totals { bytes: len, entries, tombstones, keys, raw_bytes, value_bytes: meta.value_bytes() }
    }
}

/// The tables of one level below 0, in ascending order, with disjoint key ranges.
#[derive(Debug, Default)]
pub struct Level {
    tables: Vec<TableHandle>,
    /// Computed once, because every statement reads them.
    totals: Totals,
    /// Common prefix of all greatest keys. `heads` are the 8 bytes after it, big-endian, zero-padded.
    prefix: Vec<u8>,
    heads: Vec<u64>,
}

impl Level {
    fn new(mut tables: Vec<TableHandle>) -> Result<Level, String> {
        tables.sort_by(|a, b| a.meta().min_key.cmp(&b.meta().min_key));
        for pair in tables.windows(2) {
            if pair[0].meta().max_key >= pair[1].meta().min_key {
                return Err(format!("{} overlaps {}", pair[0], pair[1]));
            }
        }
        let prefix = match (tables.first(), tables.last()) {
            (Some(first), Some(last)) => {
                let (a, b) = (&first.meta().max_key, &last.meta().max_key);
                a[..a.iter().zip(b).take_while(|(x, y)| x == y).count()].to_vec()
            }
            _ => Vec::new(),
        };
        let heads = tables.iter().map(|table| head(&table.meta().max_key[prefix.len()..])).collect();
        let mut totals = Totals::default();
        tables.iter().for_each(|table| totals.add(&Totals::of(table.meta())));
        Ok(Level { tables, totals, prefix, heads })
    }

    /// The tables, ascending by key.
    pub fn tables(&self) -> &[TableHandle] {
        &self.tables
    }

    /// Bytes of the tables on disk.
    pub fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    /// Sums over the tables.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Index of the first table with a greatest key at or after `key`, or the number of tables.
    pub fn first_reaching(&self, key: &[u8]) -> usize {
        let shared = key.len().min(self.prefix.len());
        match key[..shared].cmp(&self.prefix[..shared]) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return self.tables.len(),
            std::cmp::Ordering::Equal if key.len() < self.prefix.len() => return 0,
            std::cmp::Ordering::Equal => {}
        }
        let wanted = head(&key[shared..]);
        let mut at = self.heads.partition_point(|&head| head < wanted);
        while self.heads.get(at) == Some(&wanted) && self.tables[at].meta().max_key.as_slice() < key {
            at += 1;
        }
        at
    }

    /// The only table in which `key` may be.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&TableHandle> {
        let table = self.tables.get(self.first_reaching(key))?;
        (table.meta().min_key.as_slice() <= key).then_some(table)
    }

    /// The tables with keys from `min` to `max`, both included.
    pub fn overlapping(&self, min: &[u8], max: &[u8]) -> &[TableHandle] {
        let from = self.first_reaching(min);
        let len = self.tables[from..].partition_point(|table| table.meta().min_key.as_slice() <= max);
        &self.tables[from..from + len]
    }
}

/// The first eight bytes as a big-endian number, zero-padded.
fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = bytes.len().min(8);
    head[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(head)
}

/// The tables of one family. Reads search `l0` and then `levels`, each from its first element on.
#[derive(Clone, Debug, Default)]
pub struct FamilyLevels {
    /// Level 0: tables with possible overlap, newest generation first.
    pub l0: Vec<TableHandle>,
    /// Levels 1 and below. `levels[i]` is level i + 1; the last one is not empty.
    pub levels: Vec<Arc<Level>>,
    /// Compaction cursors, ascending by level: the next compaction of a level begins after its key.
    pub cursors: Vec<(u8, Vec<u8>)>,
}

impl FamilyLevels {
    /// True without tables.
    pub fn is_empty(&self) -> bool {
        self.l0.is_empty() && self.levels.is_empty()
    }

    /// A level below 0, if it has tables.
    pub fn level(&self, level: u8) -> Option<&Arc<Level>> {
        self.levels.get((level as usize).checked_sub(1)?).filter(|level| !level.tables.is_empty())
    }

    /// All tables, each with its level.
    pub fn tables(&self) -> impl Iterator<Item = (u8, &TableHandle)> {
        let deeper = self.levels.iter().zip(1u8..);
        self.l0
            .iter()
            .map(|table| (0, table))
            .chain(deeper.flat_map(|(l, n)| l.tables.iter().map(move |r| (n, r))))
    }

    /// Bytes of the tables on disk.
    pub fn bytes(&self) -> u64 {
        self.l0.iter().map(|table| table.meta().len).sum::<u64>()
            + self.levels.iter().map(|level| level.bytes()).sum::<u64>()
    }

    /// The compaction cursor of `level`: its next compaction begins after this key.
    pub fn cursor(&self, level: u8) -> &[u8] {
        self.cursors.iter().find(|(l, _)| *l == level).map_or(&[], |(_, key)| key)
    }

    /// The levels after a change. The error names the rule that the change breaks.
    fn edited(&self, change: Change) -> Result<FamilyLevels, String> {
        let mut next = if change.dropped { FamilyLevels::default() } else { self.clone() };
        let mut removed: HashSet<FileNo> = change.removed.iter().copied().collect();
        if removed.len() != change.removed.len() {
            return Err("a table is removed twice".into());
        }
        next.l0.retain(|table| !removed.remove(&table.file.number));
        for level in &mut next.levels {
            if removed.is_empty() {
                break;
            }
            if level.tables.iter().any(|table| removed.contains(&table.file.number)) {
                let left = level
                    .tables
                    .iter()
                    .filter(|table| !removed.remove(&table.file.number))
                    .cloned()
                    .collect();
                *level = Arc::new(Level::new(left)?);
            }
        }
        if let Some(file) = removed.iter().next() {
            return Err(format!("the removed table in file {file} is not there"));
        }
        let mut added = HashSet::default();
        let twice = change.added.iter().find(|(_, table)| !added.insert(table.file.number));
        let known = next.tables().find(|(_, table)| added.contains(&table.file.number));
        if let Some(table) = twice.map(|(_, table)| table).or(known.map(|(_, table)| table)) {
            return Err(format!("two tables in file {}", table.file.number));
        }
        let mut by_level: BTreeMap<u8, Vec<TableHandle>> = BTreeMap::new();
        for (level, table) in change.added {
            by_level.entry(level).or_default().push(table);
        }
        for (level, tables) in by_level {
            let Some(index) = (level as usize).checked_sub(1) else {
                next.l0.extend(tables);
                next.l0.sort_by_key(|table| std::cmp::Reverse(table.generation));
                if let Some(pair) = next.l0.windows(2).find(|pair| pair[0].generation == pair[1].generation) {
                    return Err(format!("level 0 would have generation {} twice", pair[0].generation));
                }
                continue;
            };
            if next.levels.len() <= index {
                next.levels.resize_with(index + 1, Default::default);
            }
            let mut all = next.levels[index].tables.clone();
            all.extend(tables);
            next.levels[index] = Arc::new(Level::new(all).map_err(|e| format!("in level {level} {e}"))?);
        }
        while next.levels.last().is_some_and(|level| level.tables.is_empty()) {
            next.levels.pop();
        }
        for (level, key) in change.cursors {
            next.cursors.retain(|(l, _)| *l != level);
            if !key.is_empty() {
                next.cursors.push((level, key));
                next.cursors.sort();
            }
        }
        Ok(next)
    }
}

impl fmt::Display for FamilyLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.l0 {
            writeln!(f, "L0 {table}")?;
        }
        for (level, number) in self.levels.iter().zip(1..).filter(|(level, _)| !level.tables.is_empty()) {
            write!(f, "L{number}")?;
            for table in &level.tables {
                write!(f, " {table}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The change of one family by an edit.
#[derive(Default)]
struct Change {
    dropped: bool,
    removed: Vec<FileNo>,
    added: Vec<(u8, TableHandle)>,
    cursors: Vec<(u8, Vec<u8>)>,
}

/// All tables of a store at one moment. Immutable; readers share it through an `Arc`.
#[derive(Clone)]
pub struct Version {
    number: u64,
    families: usize,
    /// See [`shard_of`]. A shard is sorted by family.
    shards: Box<[Arc<Shard>]>,
    row_counts: RowCounts,
}

type Shard = Vec<(FamilyId, Arc<FamilyLevels>)>;

impl Version {
    fn empty() -> Version {
        Version { number: 0, families: 0, shards: empty_shards(), row_counts: RowCounts::new() }
    }

    /// Number of edits since the store was opened.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The tables of a family, if it has any.
    #[inline]
    pub fn family(&self, family: FamilyId) -> Option<&Arc<FamilyLevels>> {
        let shard = &self.shards[shard_of(family)];
        let at = shard.binary_search_by_key(&family, |(id, _)| *id).ok()?;
        Some(&shard[at].1)
    }

    /// Number of families with tables.
    pub fn families_len(&self) -> usize {
        self.families
    }

    /// Families with tables, in no order.
    pub fn families(&self) -> impl Iterator<Item = (FamilyId, &Arc<FamilyLevels>)> {
        self.shards.iter().flat_map(|shard| shard.iter().map(|(id, levels)| (*id, levels)))
    }

    /// A family's row count from the commits in files.
    pub fn row_count(&self, family: FamilyId) -> RowCount {
        self.row_counts.of(family)
    }

    /// Families with a nonzero row count in files, in no order.
    pub fn row_counts(&self) -> impl Iterator<Item = (FamilyId, RowCount)> + '_ {
        self.row_counts.all()
    }

    /// First family from which all have been counted since their creation. `None` if no counting build has
    /// opened the store.
    pub fn counted_from(&self) -> Option<FamilyId> {
        self.row_counts.counted_from()
    }

    /// Bytes of all tables on disk.
    pub fn bytes(&self) -> u64 {
        self.families().map(|(_, levels)| levels.bytes()).sum()
    }

    /// The version after `changes`, with the row counts of `edit`.
    fn edited(&self, changes: BTreeMap<FamilyId, Change>, edit: &Edit) -> Result<Version, String> {
        let mut next = self.clone();
        next.number += 1;
        edit.dropped_families.iter().for_each(|&family| next.row_counts.forget(family));
        edit.row_counts.iter().for_each(|&(family, row_count)| next.row_counts.add(family, row_count));
        edit.counted_from.into_iter().for_each(|family| next.row_counts.count_from(family));
        let none = Arc::default();
        for (family, change) in changes {
            let shard = Arc::make_mut(&mut next.shards[shard_of(family)]);
            let at = shard.binary_search_by_key(&family, |(id, _)| *id);
            let old = at.map_or(&none, |at| &shard[at].1);
            let levels = old.edited(change).map_err(|e| format!("family {family}: {e}"))?;
            match (at, levels.is_empty()) {
                (Ok(at), false) => shard[at].1 = Arc::new(levels),
                (Ok(at), true) => {
                    shard.remove(at);
                    next.families -= 1;
                }
                (Err(at), false) => {
                    shard.insert(at, (family, Arc::new(levels)));
                    next.families += 1;
                }
                (Err(_), true) => {}
            }
        }
        Ok(next)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({}, {} families)", self.number, self.families)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut families: Vec<_> = self.families().collect();
        families.sort_by_key(|(id, _)| *id);
        for (id, levels) in families {
            write!(f, "family {id}\n{levels}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
