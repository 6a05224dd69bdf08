//! Verifies a backup. Every file is there with its length and checksum, and every block of every table is
//! valid. The manifest and the log read to their ends, and the log ends at the end noted by the backup.

use std::path::Path;
use std::sync::Arc;

use super::info::STORE;
use super::{copy, BackupInfo, Watch};
use crate::cache::BlockCache;
use crate::db::recovery::replay::Replay;
use crate::db::recovery::value_tail::ValueTail;
use crate::error::{Error, Result};
use crate::io::{Disk, OpenMode};
use crate::iter::VersionIterator;
use crate::memtable::ArenaPool;
use crate::store::super_version::Flushable;
use crate::table::{SsTable, TableStore};
use crate::types::Lsn;
use crate::values::ValueFiles;
use crate::version::{OpenFor, StoreState, TableHandle, VersionSet};
use crate::wal::{self, RecordRef};

/// Table files open at a time, bytes of cache, bytes of a memtable.
pub(super) const OPEN_FILES: usize = 64;
const CACHE: usize = 1 << 20;
const MEMTABLE: usize = 16 << 20;

/// Reads the whole backup in `from` and checks it. Changes nothing.
///
/// # Errors
/// `InvalidArgument` for an unfinished backup; `Corruption` with file and offset; `Interrupted`; I/O.
pub fn verify(disk: &Arc<dyn Disk>, from: &Path, watch: Watch<'_>) -> Result<BackupInfo> {
    let info = BackupInfo::read(&**disk, from)?;
    let (mut done, total) = (0, info.bytes());
    for file in &info.files {
        let path = from.join(&file.name);
        if !disk.exists(&path)? {
            return Err(Error::corruption(path, 0, "the file is missing, and the backup lists it"));
        }
        let (len, crc) = match file.crc {
            Some(_) => copy::sum(&**disk, &path, watch).map(|(len, crc)| (len, Some(crc)))?,
            None => (disk.open(&path, OpenMode::Read)?.len()?, None),
        };
        if len != file.len {
            let what = format!("the file has {len} bytes, and had {} in the backup", file.len);
            return Err(Error::corruption(path, len.min(file.len), what));
        }
        if crc != file.crc {
            return Err(Error::corruption(path, 0, "the sum of the file is not that of the backup"));
        }
        done += len;
        (watch.progress)(done, total);
    }
    verify_store(disk, &from.join(STORE), &info, watch)?;
    Ok(info)
}

/// Reads the log of the store in `home` to its end, and compares it with the backup's end of the log.
pub(super) fn check_log(
    disk: &Arc<dyn Disk>,
    home: &Path,
    info: &BackupInfo,
    watch: Watch<'_>,
) -> Result<()> {
    let state = open_versions(disk, home, OpenFor::Read)?.state();
    read_log(disk, home, &state, info, &mut |_, _| watch.check())
}

/// Calls `visit` for each record.
fn read_log(
    disk: &Arc<dyn Disk>,
    home: &Path,
    state: &StoreState,
    info: &BackupInfo,
    visit: &mut dyn FnMut(Lsn, RecordRef<'_>) -> Result<()>,
) -> Result<()> {
    let first = state.first_live_segment.max(1);
    wal::check_listed(disk, home, state.log_segments.values())?;
    let found = wal::recover(disk, home, first, &state.boundaries, state.durable_upto, visit)?;
    match found.end == info.log_end {
        true => Ok(()),
        false => {
            let what =
                format!("the log ends at {:?}, and ended at {:?} in the backup", found.end, info.log_end);
            Err(Error::corruption(wal::log_dir(home), 0, what))
        }
    }
}

/// The tables of a store not open in any server.
pub(super) fn open_versions(disk: &Arc<dyn Disk>, dir: &Path, purpose: OpenFor) -> Result<VersionSet> {
    let (tables, cache) = (TableStore::new(disk.clone(), dir, OPEN_FILES), BlockCache::new(CACHE));
    VersionSet::open(disk.clone(), dir, tables, cache, purpose)
}

/// Reads the values of a table in value files. `damage` gets the key and the error of each that cannot be read.
pub(super) fn read_values(
    values: &ValueFiles,
    table: &Arc<SsTable>,
    watch: Watch<'_>,
    damage: &mut dyn FnMut(&[u8], Error) -> Result<()>,
) -> Result<()> {
    if table.meta().values.is_empty() {
        return Ok(());
    }
    let mut iter = table.version_iter();
    iter.seek(b"")?;
    while iter.valid() {
        watch.check()?;
        if let Err(error) = values.verify_entry(&iter.entry()) {
            damage(iter.key(), error)?;
        }
        iter.next()?;
    }
    Ok(())
}

fn verify_store(disk: &Arc<dyn Disk>, home: &Path, info: &BackupInfo, watch: Watch<'_>) -> Result<()> {
    let versions = open_versions(disk, home, OpenFor::Read)?;
    let version = versions.current();
    let left_out = info.left_out_files();
    let values = versions.values();
    let is_there = |table: &&TableHandle| !left_out.contains(&table.file.number());
    for table in version.families().flat_map(|(_, levels)| levels.tables()).map(|(_, table)| table) {
        if is_there(&table) {
            table.verify_unless(watch.stop)?;
            read_values(values, table, watch, &mut |_, error| match values
                .store()
                .file_of(&error)
                .is_some_and(|file| left_out.contains(&file))
            {
                true => Ok(()),
                false => Err(error),
            })?;
        }
    }
    let state = versions.state();
    let mut replay =
        Replay::new(ArenaPool::new(MEMTABLE), MEMTABLE, state.last_seq, state.last_generation + 1)
            .with_values(versions.values());
    let mut tail = ValueTail::new(state.last_seq);
    read_log(disk, home, &state, info, &mut |at, record| {
        watch.check()?;
        tail.note(at, &record);
        replay.record(record)
    })?;
    if let Some(at) = tail.first_torn(values, Lsn::ZERO)? {
        let what = format!("the value of a record at {at:?} is not whole");
        return Err(Error::corruption(wal::log_dir(home), 0, what));
    }
    let replayed = replay.finish(&versions)?;
    if replayed.newest > info.seq {
        let what = format!("the log has commit {}, and {} is the newest", replayed.newest, info.seq);
        return Err(Error::corruption(wal::log_dir(home), 0, what));
    }
    for flushable in &replayed.flushables {
        if let Flushable::Runs(runs) = flushable {
            let there = runs.all().iter().filter(is_there);
            there.map(|table| table.verify_unless(watch.stop)).try_for_each(|done| done.map(|_| ()))?;
        }
    }
    for (_, _, batch) in &replayed.prepared {
        if let Some(runs) = batch.runs() {
            runs.verify(&versions, watch.stop)?;
        }
    }
    Ok(())
}
