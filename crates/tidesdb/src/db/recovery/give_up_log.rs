//! Gives up a log with lost files, so the store opens without their commits (`tidesdb-admin log give-up`).
//!
//! The log is kept up to the first missing segment: after it nothing can be read in order. Files after it are
//! renamed, not removed. One manifest edit records the end of the log. A crash before the edit leaves the
//! store refused as before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::BlockCache;
use crate::db::{Db, LOCK};
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::table::TableStore;
use crate::types::LogSegment;
use crate::version::{Edit, OpenFor, VersionSet};
use crate::wal;

/// Files open at a time, and bytes of the block cache: no table is read.
const OPEN_FILES: usize = 16;
const CACHE: usize = 1 << 20;

/// The part of a log given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostLog {
    /// Listed segments whose files are missing, oldest first.
    pub missing: Vec<LogSegment>,
    /// The last segment of the remaining log; `None`: nothing is left of it.
    pub kept_upto: Option<u32>,
    /// Present but unread files, under their new names.
    pub set_aside: Vec<PathBuf>,
}

impl Db {
    /// Gives up the log of the closed store in `dir` from its first missing segment on. Commits without a
    /// table are lost.
    ///
    /// # Errors
    /// `InvalidArgument` if no listed file is missing: nothing is changed. `Busy`, `Corruption`, `Io`,
    /// `DiskFull`.
    pub fn give_up_log(disk: Arc<dyn Disk>, dir: &Path) -> Result<LostLog> {
        if !disk.exists(dir)? {
            return Err(Error::InvalidArgument(format!("there is no store in {}", dir.display())));
        }
        let _lock = disk.lock(&dir.join(LOCK))?;
        let (tables, cache) = (TableStore::new(disk.clone(), dir, OPEN_FILES), BlockCache::new(CACHE));
        let state =
            VersionSet::open(disk.clone(), dir, tables.clone(), cache.clone(), OpenFor::Read)?.state();
        let missing = wal::missing(&disk, dir, state.log_segments.values())?;
        let Some(first) = missing.first().map(|segment| segment.id) else {
            let what = format!("the log of {} has all the files that its manifest lists", dir.display());
            return Err(Error::InvalidArgument(what));
        };
        let versions = VersionSet::open(disk.clone(), dir, tables, cache, OpenFor::Write)?;
        // Where the log is proven beyond the gap, or joined there, its start alone is no log to read.
        let readable = state.first_live_segment < first
            && state.durable_upto.segment() < first
            && state.boundaries.is_empty();
        let (edit, kept_upto, set_aside) = match readable {
            true => {
                let set_aside = wal::set_aside(&disk, dir, first, &missing)?;
                (Edit { log_forgotten_above: Some(first - 1), ..Edit::default() }, Some(first - 1), set_aside)
            }
            false => {
                let listed = state.log_segments.last_key_value().map_or(0, |(id, _)| *id);
                let last = listed.max(wal::last_segment(&disk, dir)?);
                let next =
                    last.checked_add(1).ok_or_else(|| Error::ReadOnly("segment ids are used up".into()))?;
                let edit = Edit {
                    first_live_segment: Some(next),
                    boundaries_removed: state
                        .boundaries
                        .iter()
                        .map(|boundary| boundary.at.segment())
                        .collect(),
                    ..Edit::default()
                };
                (edit, None, Vec::new())
            }
        };
        versions.apply(edit)?;
        Ok(LostLog { missing, kept_upto, set_aside })
    }
}
