//! Checks that the log's files in the manifest's list exist. A log without its newest segment ends with the
//! segment before, and a log without files is empty. Only the list tells a missing file from one that never
//! existed.
//!
//! A segment is listed, durably, after its file and before its first record. Its entry is removed before its
//! file is used again, so no crash makes a listed file miss (`docs/protocols.md` 1.10).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::{holds_nothing, survey};
use super::segment::{file_path, log_dir};
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::types::LogSegment;

/// Checks that the files of the segments `listed` exist.
///
/// # Errors
/// `Corruption` with the names of the missing files.
pub fn check_listed<'a>(
    disk: &Arc<dyn Disk>,
    store: &Path,
    listed: impl IntoIterator<Item = &'a LogSegment>,
) -> Result<()> {
    let missing = missing(disk, store, listed)?;
    let Some(first) = missing.first() else { return Ok(()) };
    let name = |segment: &LogSegment| format!("{} (segment {})", file_name(segment), segment.id);
    let names: Vec<String> = missing.iter().map(name).collect();
    let what = format!(
        "the log is not whole: {} missing, and with it commits that were answered. Put the files back, or restore a \
         backup; `tidesdb-admin log give-up {}` opens the store without these commits",
        match names.as_slice() {
            [one] => format!("{one} is"),
            all => format!("{} are", all.join(", ")),
        },
        store.display()
    );
    let path = match disk.exists(&log_dir(store))? {
        true => file_path(store, first.file),
        false => log_dir(store),
    };
    Err(Error::corruption(path, 0, what))
}

/// Renames the files of segments from `first` on, and those of `missing` present with other content. The
/// log's reader does not see them any more. Returns their new paths.
pub(crate) fn set_aside(
    disk: &Arc<dyn Disk>,
    store: &Path,
    first: u32,
    missing: &[LogSegment],
) -> Result<Vec<PathBuf>> {
    let dir = log_dir(store);
    let found = survey(disk, store)?;
    let later = found.segments.range(first..).map(|(_, (number, _))| *number);
    let headless =
        found.headless.iter().copied().filter(|n| missing.iter().any(|segment| segment.file == *n));
    let mut paths = Vec::new();
    for number in later.chain(headless) {
        let path = file_path(store, number);
        let aside = path.with_extension("wal.lost");
        disk.rename(&path, &aside)?;
        paths.push(aside);
    }
    if !paths.is_empty() {
        disk.sync_dir(&dir)?;
    }
    Ok(paths)
}

/// The highest segment id in the log's files; 0: none.
pub(crate) fn last_segment(disk: &Arc<dyn Disk>, store: &Path) -> Result<u32> {
    Ok(survey(disk, store)?.segments.last_key_value().map_or(0, |(id, _)| *id))
}

fn file_name(segment: &LogSegment) -> String {
    format!("wal/{:06}.wal", segment.file)
}

/// The segments of `listed` without a file, or with a file of other content, oldest first.
pub(crate) fn missing<'a>(
    disk: &Arc<dyn Disk>,
    store: &Path,
    listed: impl IntoIterator<Item = &'a LogSegment>,
) -> Result<Vec<LogSegment>> {
    let mut listed = listed.into_iter().peekable();
    let mut missing = Vec::new();
    if listed.peek().is_none() {
        return Ok(missing);
    }
    let found = survey(disk, store)?;
    for segment in listed {
        let there = match found.segments.get(&segment.id) {
            Some((_, header)) => header.epoch == segment.epoch,
            // The rest of recovery says more about records after a damaged header.
            None if found.headless.contains(&segment.file) => holds_nothing(&**disk, store, segment)?,
            None => false,
        };
        if !there {
            missing.push(*segment);
        }
    }
    missing.sort_unstable_by_key(|segment| segment.id);
    Ok(missing)
}
