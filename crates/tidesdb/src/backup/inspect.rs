//! Reads the files of a store for `tidesdb-admin dump`. It reads the log record by record, the names of the
//! families, and the manifest's list of one file's tables. Changes nothing. Memory holds the manifest, the
//! dictionary and one record, however large the store is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::verify::open_versions;
use crate::db::dictionary::{self, FamilyEntry};
use crate::db::recovery::damaged_dictionary::certain_entries;
use crate::db::LOCK;
use crate::error::{Error, Result};
use crate::io::{DirectoryLock, Disk};
use crate::memtable::{ArenaPool, Memtable};
use crate::store::super_version::SuperVersion;
use crate::table::SsTableMeta;
use crate::types::{FamilyId, FileNo, Lsn, DICTIONARY};
use crate::version::OpenFor;
use crate::wal::{self, BatchReader, RecordRef, SegmentFacts};

/// Receives each record of a log with its position, and its segment if the manifest lists one.
pub type RecordVisitor<'a> = dyn FnMut(Option<&SegmentFacts>, Lsn, RecordRef<'_>) -> Result<()> + 'a;

/// The outcome of reading a log.
#[derive(Debug)]
pub struct LogRead {
    /// End of the last record, where no valid one follows, and why. `None`: damage, or the visitor, ended the
    /// reading.
    pub end: Option<(Lsn, Lsn, String)>,
    /// The bytes after the end are no record: an interrupted write, or the file's former content.
    pub is_torn: bool,
    /// Valid records after the end; recovery discards them.
    pub discarded: u64,
    /// The damage found.
    pub damage: Vec<Error>,
}

/// Keeps writers from opening the store in `dir`, as every reader does.
///
/// # Errors
/// `Busy` with path and process while a writer has it open.
pub fn lock_for_reading(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Box<dyn DirectoryLock>> {
    disk.lock_shared(&dir.join(LOCK))
}

/// Visits the records of the log in the order in which recovery reads them. `Interrupted` from `visit` ends
/// the reading without an error.
///
/// # Errors
/// Of the manifest and `CURRENT`, I/O, the visitor's.
pub fn read_log(disk: &Arc<dyn Disk>, dir: &Path, visit: &mut RecordVisitor<'_>) -> Result<LogRead> {
    let state = open_versions(disk, dir, OpenFor::Read)?.state();
    let first = state.first_live_segment.max(1);
    let mut read = LogRead { end: None, is_torn: false, discarded: 0, damage: Vec::new() };
    if let Err(error) = wal::check_listed(disk, dir, state.log_segments.values()) {
        note(&mut read, error)?;
    }
    // Recovery reads the same headers, and has the error.
    let formats = wal::segment_formats(disk, dir).unwrap_or_default();
    let facts = |id: u32| {
        let segment = *state.log_segments.get(&id)?;
        Some(SegmentFacts { segment, format: formats.get(&id).copied() })
    };
    let found = wal::recover(disk, dir, first, &state.boundaries, state.durable_upto, &mut |at, record| {
        visit(facts(at.segment()).as_ref(), at, record)
    });
    match found {
        Ok(summary) => {
            read.is_torn = wal::has_torn_tail(disk, dir, &summary)?;
            read.discarded = summary.discarded;
            read.end = Some((summary.end, summary.stop.0, summary.stop.1));
        }
        Err(Error::Interrupted) => {}
        Err(error) => note(&mut read, error)?,
    }
    Ok(read)
}

/// Damage becomes a part of the result; other errors are returned.
fn note(read: &mut LogRead, error: Error) -> Result<()> {
    match error.is_damage() {
        true => read.damage.push(error),
        false => return Err(error),
    }
    Ok(())
}

/// The families' names from dictionary and log. Damage of either hides names, and is no error here.
///
/// # Errors
/// Of the manifest and `CURRENT`; I/O.
pub(super) fn family_names(disk: &Arc<dyn Disk>, dir: &Path) -> Result<BTreeMap<FamilyId, Vec<u8>>> {
    let families = family_records(disk, dir)?;
    Ok(families.into_iter().map(|(id, (name, _))| (id, name)).collect())
}

/// A family's name, and the record that its owner wrote.
pub type NameAndRecord = (Vec<u8>, Vec<u8>);

/// The same with the families' records.
///
/// # Errors
/// Of the manifest and `CURRENT`; I/O.
pub fn family_records(disk: &Arc<dyn Disk>, dir: &Path) -> Result<BTreeMap<FamilyId, NameAndRecord>> {
    let versions = open_versions(disk, dir, OpenFor::Read)?;
    let active = Arc::new(Memtable::new(0, ArenaPool::new(0)));
    let (mut entries, _) =
        certain_entries(&SuperVersion { active, sealed: Vec::new(), version: versions.current() })?;
    read_log(disk, dir, &mut |_, _, record| {
        let (RecordRef::Commit { seq, batch, .. } | RecordRef::Ddl { seq, batch, .. }) = record else {
            return Ok(());
        };
        let Ok(reader) = BatchReader::new(batch) else { return Ok(()) };
        for entry in reader.map_while(std::result::Result::ok).filter(|entry| entry.family == DICTIONARY) {
            // The log may begin before the newest table.
            if entries.get(entry.key).is_none_or(|(known, ..)| *known <= seq) {
                entries.insert(entry.key.to_vec(), (seq, entry.kind, entry.value.to_vec()));
            }
        }
        Ok(())
    })?;
    let mut families = BTreeMap::new();
    for (key, (_, kind, value)) in &entries {
        let name = dictionary::family_name(key).filter(|_| !kind.is_tombstone());
        if let Some((name, Ok(entry))) = name.map(|name| (name, FamilyEntry::decode(value))) {
            families.insert(entry.id, (name.to_vec(), entry.record));
        }
    }
    Ok(families)
}

/// The tables in the file `number` according to the manifest, with their levels, by place. A second copy of a
/// file is read like the first.
pub fn tables_of_file(disk: &Arc<dyn Disk>, dir: &Path, number: FileNo) -> Result<Vec<(u8, SsTableMeta)>> {
    let versions = open_versions(disk, dir, OpenFor::Read)?;
    let version = versions.current();
    let mut tables = Vec::new();
    for (level, table) in version.families().flat_map(|(_, levels)| levels.tables()) {
        let meta = SsTableMeta { mirror: 0, ..table.meta().clone() };
        if table.file.number() == number {
            tables.push((level, meta));
        } else if table.meta().mirror == number {
            tables.push((level, SsTableMeta { offset: 0, ..meta }));
        }
    }
    tables.sort_by_key(|(_, meta)| meta.offset);
    Ok(tables)
}
