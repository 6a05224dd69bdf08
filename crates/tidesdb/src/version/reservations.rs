//! Reservations of tables by running jobs, so that no two jobs rewrite the same table. Before it reads, a job
//! reserves its inputs and the key range of its output in a level. Dropping the reservation, after the job's
//! edit was applied, releases it.

use std::sync::Arc;

use crate::host::{Clock, HashMap};
use crate::sync::Mutex;
use crate::types::{FamilyId, FileNo};
use crate::version::quarantine::Quarantine;
use crate::version::{Version, VersionSet};

/// The place of a job's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The level.
    pub level: u8,
    /// Least key.
    pub min_key: Vec<u8>,
    /// Greatest key.
    pub max_key: Vec<u8>,
}

/// One job's holdings in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Input tables, which the job removes.
    pub files: Vec<FileNo>,
    /// The place of the output; `None` for level 0.
    pub output: Option<Output>,
}

/// The reservations of a store.
#[derive(Debug)]
pub struct CompactionReservations {
    table: Mutex<ReservationTable>,
    quarantine: Quarantine,
}

#[derive(Debug, Default)]
struct ReservationTable {
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

/// The locked reservations. While a view lives, nothing is reserved by others and no job ends.
pub struct ReservationsView<'a> {
    reservations: &'a Arc<CompactionReservations>,
    table: crate::sync::MutexGuard<'a, ReservationTable>,
}

impl CompactionReservations {
    /// No reservations. What is in quarantine leaves it by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<CompactionReservations> {
        Arc::new(CompactionReservations { table: Mutex::default(), quarantine: Quarantine::new(clock) })
    }

    /// Locks the reservations, then takes the current version. A job absent from the reservations thus has
    /// its edit in the version. `look` decides and reserves under the lock; it must be short.
    pub fn with<R>(
        self: &Arc<Self>,
        versions: &VersionSet,
        look: impl FnOnce(&Arc<Version>, &mut ReservationsView<'_>) -> R,
    ) -> R {
        let mut view = ReservationsView { reservations: self, table: self.table.lock() };
        let version = versions.current();
        look(&version, &mut view)
    }

    /// The tables, families and files to skip for a while.
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// Number of reservations.
    pub fn len(&self) -> usize {
        self.table.lock().held.values().map(Vec::len).sum()
    }

    /// True without reservations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ReservationsView<'_> {
    /// The holdings of running jobs in a family.
    pub fn held(&self, family: FamilyId) -> impl Iterator<Item = &Held> {
        self.table.held.get(&family).into_iter().flatten().map(|(_, held)| held)
    }

    /// True if a running job holds a family's table in a file.
    fn is_held(&self, family: FamilyId, file: FileNo) -> bool {
        self.held(family).any(|held| held.files.contains(&file))
    }

    /// True while a family's table in a file is in quarantine.
    pub fn is_quarantined(&self, family: FamilyId, file: FileNo) -> bool {
        self.reservations.quarantine.holds_table(family, file)
    }

    /// True while a family's table in a file is held by a running job, or in quarantine.
    pub fn holds(&self, family: FamilyId, file: FileNo) -> bool {
        self.is_held(family, file) || self.is_quarantined(family, file)
    }

    /// Reserves `held`. The caller has checked that no other job holds a part of it.
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
