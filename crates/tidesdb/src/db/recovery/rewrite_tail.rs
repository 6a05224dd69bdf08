//! Makes the log read by recovery durable in place. A record above the highest `durable_upto` may be readable
//! only from the page cache. A sync now may succeed although the write-back failed before
//! (`docs/protocols.md` 1.3 b). With room, the records are written anew elsewhere. On a full disk their own
//! bytes are written again in place and synced: the segments have their blocks already.
//!
//! Stands between [`crate::wal::recover`] and an epoch boundary at the end it found. A crash at any point
//! leaves equal bytes, or bytes never proven.

use std::path::Path;

use crate::error::Result;
use crate::io::{Disk, OpenMode};
use crate::wal::{segment_path, RecoveredSummary};

/// Bytes read and written at once; whole pages.
const CHUNK: u64 = 1 << 20;

/// Alignment of the rewrite's start: tearing within a page is harmless, and so is writing more than needed.
const PAGE: u64 = 4096;

/// Rewrites and syncs the log of the store in `store` from its proven position to the end found by recovery.
/// Takes no new blocks.
pub(super) fn rewrite_tail(disk: &dyn Disk, store: &Path, found: &RecoveredSummary) -> Result<()> {
    let from = found.max_durable_seen;
    let mut buffer = Vec::new();
    let segments = from.segment()..=found.end.segment();
    for &(id, number) in found.files.old.iter().filter(|(id, _)| segments.contains(id)) {
        let file = disk.open(&segment_path(store, number), OpenMode::ReadWrite)?;
        let begin = if id == from.segment() { u64::from(from.offset()) / PAGE * PAGE } else { 0 };
        let end = if id == found.end.segment() { u64::from(found.end.offset()) } else { file.len()? };
        let mut at = begin;
        while at < end {
            buffer.resize((end - at).min(CHUNK) as usize, 0);
            file.read_exact_at(&mut buffer, at)?;
            file.write_at(&buffer, at)?;
            at += buffer.len() as u64;
        }
        file.sync_data()?;
    }
    Ok(())
}
