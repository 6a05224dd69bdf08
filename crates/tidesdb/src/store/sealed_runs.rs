//! The sealed runs of a spilled transaction, made by `prepare`: their names in the log, and their view for
//! readers from `order` on.
//!
//! The content of a *run names* record (`docs/format/wal.md`):
//!
//! ```text
//! u8 version (2; 3: of a load; 4: with values in value files; 5: of a load, with such values)
//! varint ordinals in versions 3 and 5: the highest of a table
//! varint files    each: varint number, varint length
//! varint tables   each: bytes, a "new table" of the manifest: level 0, generation = ordinal of the run
//!                       varint rows: 0 not known, else 1 more than the zigzag of what comes and goes
//!                       in versions 4 and 5: the value files of its entries, as in the manifest
//! ```
//!
//! All keys in them are locked, before a restart and after it (`txn/spill/locked.rs`). (A prepare of an
//! earlier build lists families locked as a whole, in mode X.)

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::coding::{put_varint, unzigzag, zigzag};
use crate::format::reader::Reader;
use crate::table::{Expiries, SsTableMeta, ValueUse};
use crate::types::{CountEffect, FamilyId, FileNo, Kind, MemtableId, RowCount, Seq};
use crate::version::{Edit, LiveFile, NewFile, NewTable, TableHandle, VersionSet};

/// Most runs of a family added to level 0 by one commit.
pub(crate) const MAX_RUNS: usize = 2;

/// Version of the names' encoding.
const NAMES_VERSION: u8 = 2;

/// The version of a load's names. A family may have any number of tables, with disjoint keys.
const NAMES_OF_LOAD: u8 = 3;

/// The version of the names of runs with entries whose values are in value files.
const NAMES_WITH_VALUES: u8 = 4;

/// The version of a load's names with such entries.
const NAMES_OF_LOAD_WITH_VALUES: u8 = 5;

/// The version without numbers of rows.
const NAMES_WITHOUT_ROWS: u8 = 1;

/// A table of a sealed run.
#[derive(Clone, Debug)]
pub(crate) struct SealedTable {
    pub file: Arc<LiveFile>,
    /// The ordinal of its run: the newest has the highest; 1 is the first.
    pub ordinal: u64,
    pub meta: SsTableMeta,
    /// The run's effect on the number of the family's rows; `None`: an earlier build wrote it.
    pub rows: Option<i64>,
}

/// The changes of a transaction as durable runs, at most [`MAX_RUNS`] a family, each key once in each.
#[derive(Clone, Debug)]
pub(crate) struct SealedRuns {
    pub files: Vec<Arc<LiveFile>>,
    pub tables: Vec<SealedTable>,
    /// Named by the log of a repaired store: the proofs of their puts may be lost
    /// (`docs/design/0020-single-deletes.md`).
    pub unproven: bool,
    /// Finished tables of a load: those of a family have disjoint keys, ascending with their ordinals.
    pub loaded: bool,
}

impl SealedRuns {
    /// Keeps the files from now on, whatever happens: the log is about to name them.
    pub(crate) fn keep(&self, versions: &VersionSet) {
        self.files.iter().for_each(|file| versions.pin_file(file));
    }

    /// The transaction is rolled back, and no record can bring it back.
    pub(crate) fn give_up(&self, versions: &VersionSet) {
        self.files.iter().for_each(|file| versions.unpin_file(file));
    }

    /// The changed families, ascending.
    pub(crate) fn families(&self) -> Vec<FamilyId> {
        let mut families: Vec<FamilyId> = self.tables.iter().map(|table| table.meta.family).collect();
        families.sort_unstable();
        families.dedup();
        families
    }

    /// All tables, opened.
    pub(crate) fn open_all<'a>(&'a self, versions: &'a VersionSet) -> impl Iterator<Item = TableHandle> + 'a {
        self.tables.iter().map(|table| versions.open_table(&table.file, table.meta.clone(), 0))
    }

    /// The tables of a family, opened.
    pub(crate) fn tables_of(&self, versions: &VersionSet, family: FamilyId) -> Vec<TableHandle> {
        let tables = self.tables.iter().filter(|table| table.meta.family == family);
        tables.map(|table| versions.open_table(&table.file, table.meta.clone(), 0)).collect()
    }

    /// Numbers of the files.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileNo> + '_ {
        self.files.iter().map(|file| file.number())
    }

    /// The files.
    pub(crate) fn live_files(&self) -> &[Arc<LiveFile>] {
        &self.files
    }

    /// Reads every block, as [`SsTable::verify_unless`](crate::table::SsTable::verify_unless).
    pub(crate) fn verify(&self, versions: &VersionSet, interrupted: &dyn Fn() -> bool) -> Result<()> {
        for table in self.open_all(versions) {
            table.verify_unless(interrupted)?;
        }
        Ok(())
    }

    /// Bytes of keys and values.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta.raw_bytes).sum()
    }

    /// The content of the run names record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let has_values = self.tables.iter().any(|table| !table.meta.values.is_empty());
        let mut out = match (self.loaded, has_values) {
            (true, true) => vec![NAMES_OF_LOAD_WITH_VALUES],
            (true, false) => vec![NAMES_OF_LOAD],
            (false, true) => vec![NAMES_WITH_VALUES],
            (false, false) => vec![NAMES_VERSION],
        };
        if self.loaded {
            put_varint(&mut out, self.generations());
        }
        put_varint(&mut out, self.files.len() as u64);
        for file in &self.files {
            put_varint(&mut out, file.number());
            put_varint(&mut out, file.len());
        }
        put_varint(&mut out, self.tables.len() as u64);
        for table in &self.tables {
            let (file, generation, meta) = (table.file.number(), table.ordinal, table.meta.clone());
            NewTable { file, level: 0, generation, meta }.put(&mut out);
            put_varint(&mut out, table.rows.map_or(0, |rows| zigzag(rows) + 1));
            if has_values {
                put_varint(&mut out, table.meta.values.len() as u64);
                ValueUse::put_all(&table.meta.values, &mut out);
            }
        }
        out
    }

    /// The files of a run names record.
    pub(crate) fn named_files(names: &[u8]) -> Result<impl Iterator<Item = FileNo>> {
        let (_, files) = read_files(&mut Reader { rest: names })?;
        Ok(files.into_iter().map(|(number, _)| number))
    }

    /// Number of generations to give to a commit with these names.
    pub(crate) fn named_generations(names: &[u8]) -> Result<u64> {
        match names.first() {
            Some(&version) if is_of_load(version) => Ok(read_head(&mut Reader { rest: names })?.1),
            _ => Ok(MAX_RUNS as u64),
        }
    }

    /// Reads a run names record; the files are kept as named by the log.
    pub(crate) fn decode(versions: &VersionSet, names: &[u8]) -> Result<SealedRuns> {
        let mut cursor = Reader { rest: names };
        let ((version, generations), files) = read_files(&mut cursor)?;
        let files = files.into_iter().map(|(number, len)| versions.private_file(number, len)).collect();
        let unproven = versions.state().unproven_upto != 0;
        let loaded = is_of_load(version);
        let mut sealed = SealedRuns { files, tables: Vec::new(), unproven, loaded };
        // Until all is read nothing of it may be unlinked.
        sealed.keep(versions);
        for _ in 0..cursor.varint().map_err(damage)? {
            let new = NewTable::take(cursor.bytes().map_err(damage)?).map_err(|e| damage(&e.what))?;
            let file = sealed.files.iter().find(|file| file.number() == new.file);
            let file = Arc::clone(file.ok_or_else(|| damage("a table in a file that is not named"))?);
            // A reader of the log gives so many generations to a commit.
            let known = (1..=generations).contains(&new.generation);
            if new.meta.entries != new.meta.keys || !known {
                return Err(damage("a table that is not one of a run"));
            }
            let rows = match version {
                NAMES_WITHOUT_ROWS => 0,
                _ => cursor.varint().map_err(damage)?,
            };
            let rows = rows.checked_sub(1).map(unzigzag);
            let mut meta = new.meta;
            if matches!(version, NAMES_WITH_VALUES | NAMES_OF_LOAD_WITH_VALUES) {
                for _ in 0..cursor.varint().map_err(damage)? {
                    meta.values.push(ValueUse::take(|| cursor.varint().map_err(damage))?);
                }
            }
            sealed.tables.push(SealedTable { file, ordinal: new.generation, meta, rows });
        }
        cursor.end().map_err(damage)?;
        Ok(sealed)
    }

    /// Reads the expiries of the tables; the names do not have them. The number of entries with an expiry is
    /// unknown: it counts as all of them, so a merge comes for the first to expire. Unreadable tables are
    /// skipped; a reader will report them.
    pub(crate) fn find_expiries(&mut self, versions: &VersionSet) {
        for table in &mut self.tables {
            let opened = versions.open_table(&table.file, table.meta.clone(), 0);
            let found = opened.properties().ok().and_then(|properties| properties.expiry);
            let entries = table.meta.entries;
            table.meta.expiry = found.map(|(oldest, newest)| Expiries { oldest, newest, entries });
        }
    }

    /// Number of generations for a commit.
    pub(crate) fn generations(&self) -> u64 {
        self.tables.iter().map(|table| table.ordinal).max().unwrap_or(0)
    }

    /// The runs of a commit at `seq`; they get the generations from `first` on.
    pub(crate) fn commit(&self, versions: &VersionSet, seq: Seq, first: MemtableId) -> CommittedRuns {
        let open = |table: &SealedTable| {
            versions.open_table(&table.file, table.meta.committed_at(seq), first + table.ordinal - 1)
        };
        let mut runs: Vec<TableHandle> = self.tables.iter().map(open).collect();
        runs.sort_by_key(|run| (run.meta().family, std::cmp::Reverse(run.generation)));
        let mut row_counts: BTreeMap<FamilyId, RowCount> = BTreeMap::new();
        for table in &self.tables {
            let row_count = match table.rows {
                Some(rows) => RowCount { rows, uncounted: 0 },
                None => CountEffect::Unknown.row_count(Kind::PUT),
            };
            *row_counts.entry(table.meta.family).or_default() += row_count;
        }
        let id = first + self.generations().max(1) - 1;
        let (unproven, loaded) = (self.unproven, self.loaded);
        CommittedRuns { id, seq, files: self.files.clone(), runs, row_counts, unproven, loaded }
    }
}

/// The runs of an ordered transaction until the manifest names them: a flushable of the super version between
/// two memtables.
pub(crate) struct CommittedRuns {
    id: MemtableId,
    seq: Seq,
    files: Vec<Arc<LiveFile>>,
    /// By family; of one family the newest first.
    runs: Vec<TableHandle>,
    row_counts: BTreeMap<FamilyId, RowCount>,
    unproven: bool,
    /// See [`SealedRuns::loaded`].
    loaded: bool,
}

impl fmt::Debug for CommittedRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommittedRuns({} at {}, {:?})", self.id, self.seq, self.files)
    }
}

impl CommittedRuns {
    /// The highest generation of its runs.
    pub(crate) fn id(&self) -> MemtableId {
        self.id
    }

    /// The commit, if it makes puts up to it prove nothing.
    pub(crate) fn unproven_upto(&self) -> Option<Seq> {
        self.unproven.then_some(self.seq)
    }

    /// The runs of a family, newest first.
    pub(crate) fn of(&self, family: FamilyId) -> &[TableHandle] {
        let from = self.runs.partition_point(|run| run.meta().family < family);
        let len = self.runs[from..].partition_point(|run| run.meta().family == family);
        &self.runs[from..from + len]
    }

    /// The commit's effect on the number of a family's rows.
    pub(crate) fn row_count(&self, family: FamilyId) -> RowCount {
        self.row_counts.get(&family).copied().unwrap_or_default()
    }

    /// The files.
    pub(crate) fn live_files(&self) -> &[Arc<LiveFile>] {
        &self.files
    }

    /// All runs.
    pub(crate) fn all(&self) -> &[TableHandle] {
        &self.runs
    }

    /// The edit for the manifest, without families that are not `live`. Everything older is in the manifest, or
    /// in the same edit before it.
    ///
    /// `deepest` is the last level of a family that has no table yet. A load's tables go there at once: nothing
    /// of the family is older, and their keys are disjoint. In a family with tables they are runs of level 0.
    pub(crate) fn edit(
        &self,
        live: &dyn Fn(FamilyId) -> bool,
        deepest: &dyn Fn(FamilyId) -> Option<u8>,
    ) -> Edit {
        let mut edit = Edit {
            last_seq: Some(self.seq),
            last_generation: Some(self.id),
            unproven_upto: self.unproven_upto(),
            ..Edit::default()
        };
        for file in &self.files {
            edit.new_files.push(NewFile { number: file.number(), len: file.len() });
        }
        let row_counts = self.row_counts.iter().map(|(&family, &row_count)| (family, row_count));
        edit.row_counts =
            row_counts.filter(|&(family, row_count)| live(family) && row_count != RowCount::ZERO).collect();
        for run in self.runs.iter().filter(|run| live(run.meta().family)) {
            let level = self.loaded.then(|| deepest(run.meta().family)).flatten().unwrap_or(0);
            let generation = if level == 0 { run.generation } else { 0 };
            edit.new_tables.push(NewTable {
                file: run.file.number(),
                level,
                generation,
                meta: run.meta().clone(),
            });
        }
        edit
    }
}

fn damage(what: &str) -> Error {
    Error::corruption("wal", 0, format!("a record of run names: {what}"))
}

/// Version and highest possible ordinal.
type Head = (u8, u64);

/// True for names of a load.
fn is_of_load(version: u8) -> bool {
    matches!(version, NAMES_OF_LOAD | NAMES_OF_LOAD_WITH_VALUES)
}

/// The begin of a run names record.
fn read_head(cursor: &mut Reader<'_>) -> Result<Head> {
    match cursor.u8().map_err(damage)? {
        version @ (NAMES_WITHOUT_ROWS | NAMES_VERSION | NAMES_WITH_VALUES) => Ok((version, MAX_RUNS as u64)),
        version if is_of_load(version) => Ok((version, cursor.varint().map_err(damage)?)),
        _ => Err(Error::later_version("wal", "a record of run names")),
    }
}

/// Head, and numbers and lengths of files, at the begin of a run names record.
fn read_files(cursor: &mut Reader<'_>) -> Result<(Head, Vec<(FileNo, u64)>)> {
    let head = read_head(cursor)?;
    let mut files = Vec::new();
    for _ in 0..cursor.varint().map_err(damage)? {
        files.push((cursor.varint().map_err(damage)?, cursor.varint().map_err(damage)?));
    }
    Ok((head, files))
}
