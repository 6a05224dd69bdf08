//! Compaction: merges runs, so that reads meet few of them and dead versions disappear. [`picker`] decides on
//! a merge (pure), [`sparse`] on rewrites of shared files (pure), and [`job`] runs both. [`write_controller`]
//! delays writers while compaction lags (pure). [`reservations`](crate::version::reservations) keeps running
//! jobs apart.
//!
//! Stands next to flush, above versions and tables. The caller provides the threads.

pub mod history;
pub mod job;
pub mod picker;
#[cfg(test)]
mod picker_tests;
pub mod sparse;
#[cfg(test)]
pub(crate) mod test_store;
#[cfg(test)]
mod tests;
pub mod write_controller;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::options::{FamilyOptions, Options};
use crate::types::{FamilyId, Seq};
use crate::version::{FamilyLevels, Version, VersionSet};

use crate::version::reservations::{CompactionReservation, CompactionReservations};
use picker::{Bounds, FamilyShape, Task};

/// A reserved compaction, ready to run.
#[derive(Debug)]
pub struct Picked {
    /// Its family.
    pub family: FamilyId,
    /// The family's options.
    pub options: FamilyOptions,
    /// The task to run.
    pub task: Task,
    /// The family's tables, inputs included. It keeps no file of another family alive.
    pub levels: Arc<FamilyLevels>,
    /// The reservation to hold until the edit was applied.
    #[allow(dead_code, reason = "held and not read: the reservation ends when it is dropped")]
    pub reservation: CompactionReservation,
}

/// Picks and reserves the most urgent compaction of a store, or of the families `among`. `family` gives a
/// family's options, or `None` for a family that is dropped or must be left alone. `oldest_snapshot` is the
/// oldest readable sequence number. `expired_at` is the second at which entries have expired for every
/// reader.
pub fn pick(
    reservations: &Arc<CompactionReservations>,
    versions: &VersionSet,
    store: &Options,
    among: Option<&BTreeSet<FamilyId>>,
    family: &dyn Fn(FamilyId) -> Option<FamilyOptions>,
    (oldest_snapshot, expired_at): (Seq, u64),
) -> Option<Picked> {
    reservations.with(versions, |version, view| {
        let mut best: Option<(FamilyId, FamilyOptions, Task)> = None;
        let families: Vec<_> = match among {
            None => version.families().collect(),
            Some(among) => among.iter().filter_map(|&id| Some((id, version.family(id)?))).collect(),
        };
        for (id, levels) in families {
            let Some(options) = family(id) else { continue };
            let shape = FamilyShape::new(levels, view.held(id), &|file| view.is_quarantined(id, file));
            let Some(task) =
                picker::pick(&shape, &Bounds { expired_at, ..Bounds::new(store, &options, oldest_snapshot) })
            else {
                continue;
            };
            // Among equals the lowest number, so that the choice does not depend on the order of a map.
            let better = |(other, _, best): &(FamilyId, FamilyOptions, Task)| {
                (task.score, std::cmp::Reverse(id)) > (best.score, std::cmp::Reverse(*other))
            };
            if best.as_ref().is_none_or(better) {
                best = Some((id, options, task));
            }
        }
        let (family, options, task) = best?;
        let levels = Arc::clone(version.family(family)?);
        let reservation = view.reserve(family, task.held());
        Some(Picked { family, options, task, levels, reservation })
    })
}

/// Bytes still to compact in the whole store.
pub fn debt(
    version: &Version,
    store: &Options,
    family: &dyn Fn(FamilyId) -> Option<FamilyOptions>,
    oldest_snapshot: Seq,
) -> u64 {
    let of = |(id, levels): (FamilyId, &Arc<FamilyLevels>)| {
        let bounds = Bounds::new(store, &family(id)?, oldest_snapshot);
        Some(picker::debt(&FamilyShape::new(levels, std::iter::empty(), &|_| false), &bounds))
    };
    version.families().filter_map(of).sum()
}
