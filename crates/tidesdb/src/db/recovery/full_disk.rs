//! Opening a store on a full disk (`docs/protocols.md` 7.3). The flush of replayed memtables needs room for a
//! table. Without it, the log of the earlier epoch stays live. Its part read by recovery is made durable in
//! place, and a boundary joins it to the new epoch. The replayed memtables become sealed ones, and the
//! background flush tries them again and again. This takes no new blocks but the manifest's reserve.
//!
//! Guarantees: a crash at any point leaves the state before the opening or, once the boundary is listed, the
//! same content and the new epoch's writes. `docs/design/0002-recovery-by-flush.md` has the steps.

use std::path::Path;

use crate::error::Result;
use crate::io::Disk;
use crate::options::LogLevel;
use crate::store::memtables::{Memtables, Sealed};
use crate::store::super_version::Flushable;
use crate::types::{LogSegment, Seq};
use crate::version::{Edit, VersionSet};
use crate::wal::{EpochBoundary, RecoveredSummary};

use super::replay::{End, Replayed};
use super::rewrite_tail::rewrite_tail;

/// The newest commit possible in an earlier epoch, according to its boundary; discarded records after a
/// boundary are not read again.
pub(crate) fn newest_of_boundaries(boundaries: &[EpochBoundary]) -> Seq {
    boundaries.iter().map(|boundary| boundary.next_seq.saturating_sub(1)).max().unwrap_or(0)
}

/// Proves the log up to the end found by recovery, and joins it there to the new epoch.
pub(crate) fn join_epochs(
    disk: &dyn Disk,
    store: &Path,
    versions: &VersionSet,
    found: &RecoveredSummary,
    newest: Seq,
    listed: &[LogSegment],
) -> Result<()> {
    // The remains of the failed flush are in the way.
    if let Err(error) = versions.delete_obsolete() {
        let what = format!("files of a flush that failed stay for now: {error}");
        versions.table_files().log(LogLevel::Warn, &what);
    }
    rewrite_tail(disk, store, found)?;
    let boundary = found.boundary(newest);
    // An epoch that wrote nothing is left out: the boundary of the one before it leads to this one.
    let edit = Edit {
        boundaries: vec![boundary],
        boundaries_removed: vec![boundary.at.segment()],
        durable_upto: Some(found.end),
        log_segments: listed.to_vec(),
        ..Edit::default()
    };
    versions.apply(edit).map(|_| ())
}

/// Lists replayed flushables, oldest first, as sealed and in need of the log from `first_live` on. Returns
/// them in a super version's order, newest first.
pub(crate) fn seal(replayed: &Replayed, first_live: u32, memtables: &Memtables) -> Vec<Flushable> {
    let mut state = memtables.state.lock();
    for (flushable, &End { last_seq, position }) in replayed.flushables.iter().zip(&replayed.ends) {
        state.min_segment.insert(flushable.id(), first_live);
        state.sealed.push(Sealed { flushable: flushable.clone(), last_seq, position });
    }
    replayed.flushables.iter().rev().cloned().collect()
}
