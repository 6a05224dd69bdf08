//! Which tables running jobs rewrite, so that no two touch the same. A job reserves its inputs, and the key
//! range of a level where its output goes, before it reads; the reservation is released when it is dropped, after
//! the job's edit was applied.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sync::Mutex;
use crate::types::{FamilyId, FileNo};
use crate::version::set_aside::SetAside;
use crate::version::{Version, VersionSet};

/// Where a job will put tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The level.
    pub level: u8,
    /// Least key.
    pub min_key: Vec<u8>,
    /// Greatest key.
    pub max_key: Vec<u8>,
}

/// What one job holds of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The tables that it reads and removes.
    pub files: Vec<FileNo>,
    /// Where its output goes; `None` for level 0.
    pub output: Option<Output>,
}

/// The reservations of a store.
#[derive(Debug, Default)]
pub struct CompactionReservations {
    table: Mutex<Table>,
    set_aside: SetAside,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    held: HashMap<FamilyId, Vec<(u64, Held)>>,
}

/// A reservation; dropping it releases it.
#[derive(Debug)]
pub struct CompactionReservation {
    reservations: Arc<CompactionReservations>,
    family: FamilyId,
    id: u64,
}

/// The reservations, locked: what is held does not change, and no job ends, while one looks.
pub struct ReservationsView<'a> {
    reservations: &'a Arc<CompactionReservations>,
    table: crate::sync::MutexGuard<'a, Table>,
}

impl CompactionReservations {
    /// No reservations.
    pub fn new() -> Arc<CompactionReservations> {
        Arc::default()
    }

    /// Locks the reservations, then takes the current version: every job that is not among the reservations has its
    /// edit in that version. `look` decides and reserves under the lock; it must be short.
    pub fn with<R>(
        self: &Arc<Self>,
        versions: &VersionSet,
        look: impl FnOnce(&Arc<Version>, &mut ReservationsView<'_>) -> R,
    ) -> R {
        let mut view = ReservationsView { reservations: self, table: self.table.lock() };
        let version = versions.current();
        look(&version, &mut view)
    }

    /// What flushes and merges pass over for a while.
    pub fn set_aside(&self) -> &SetAside {
        &self.set_aside
    }

    /// Number of reservations.
    pub fn len(&self) -> usize {
        self.table.lock().held.values().map(Vec::len).sum()
    }

    /// Whether nothing is reserved.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ReservationsView<'_> {
    /// What running jobs hold of a family.
    pub fn held(&self, family: FamilyId) -> impl Iterator<Item = &Held> {
        self.table.held.get(&family).into_iter().flatten().map(|(_, held)| held)
    }

    /// Whether a running job holds a family's table in a file.
    fn is_held(&self, family: FamilyId, file: FileNo) -> bool {
        self.held(family).any(|held| held.files.contains(&file))
    }

    /// Whether a family's table in a file is set aside for now.
    pub fn is_set_aside(&self, family: FamilyId, file: FileNo) -> bool {
        self.reservations.set_aside.holds_table(family, file)
    }

    /// Whether a family's table in a file is held by a running job, or set aside.
    pub fn holds(&self, family: FamilyId, file: FileNo) -> bool {
        self.is_held(family, file) || self.is_set_aside(family, file)
    }

    /// Reserves. The caller looked that nothing of it is held.
    pub fn reserve(&mut self, family: FamilyId, held: Held) -> CompactionReservation {
        debug_assert!(held.files.iter().all(|file| !self.is_held(family, *file)));
        let id = self.table.next_id;
        self.table.next_id += 1;
        self.table.held.entry(family).or_default().push((id, held));
        CompactionReservation { reservations: Arc::clone(self.reservations), family, id }
    }
}

impl Drop for CompactionReservation {
    fn drop(&mut self) {
        let mut table = self.reservations.table.lock();
        if let Some(held) = table.held.get_mut(&self.family) {
            held.retain(|(id, _)| *id != self.id);
            if held.is_empty() {
                table.held.remove(&self.family);
            }
        }
    }
}
