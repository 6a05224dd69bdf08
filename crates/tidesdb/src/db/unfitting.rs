//! Families whose last merge did not fit on the disk. It would be picked again at once, fill the disk again while writers
//! meet errors, and keep smaller merges away that give space back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::types::FamilyId;

/// Time after which a merge is tried again although there is no more space: it may be another one.
const PAUSE: Duration = Duration::from_secs(60);

/// What did not fit.
#[derive(Debug, Default)]
pub(crate) struct Unfitting {
    families: Mutex<HashMap<FamilyId, Failed>>,
}

#[derive(Debug)]
struct Failed {
    /// Bytes free when the merge began.
    free: u64,
    until: Instant,
}

impl Unfitting {
    /// A merge of `bytes` found the disk full; `free` bytes were there when it began. One that had room failed for other
    /// reasons, a quota or a file system's own.
    pub fn note(&self, family: FamilyId, bytes: u64, free: u64) {
        if free / 2 < bytes {
            self.families.lock().insert(family, Failed { free, until: Instant::now() + PAUSE });
        }
    }

    /// A merge of the family came to its end.
    pub fn forget(&self, family: FamilyId) {
        self.families.lock().remove(&family);
    }

    /// Whether a merge that did not fit waits. (Of a family that was dropped none does, after a while.)
    pub fn any(&self) -> bool {
        let now = Instant::now();
        self.families.lock().values().any(|failed| now < failed.until)
    }

    /// Whether merges of the family wait for space, of which `free` is there now: an eighth more than was too little.
    pub fn holds(&self, family: FamilyId, free: impl FnOnce() -> u64) -> bool {
        let families = self.families.lock();
        families.get(&family).is_some_and(|failed| {
            Instant::now() < failed.until && free() < failed.free.saturating_add(failed.free / 8)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_waits_for_more_space() {
        let unfitting = Unfitting::default();
        unfitting.note(1, 800, 1000);
        unfitting.note(2, 100, 1000);
        assert!(unfitting.holds(1, || 1000) && unfitting.holds(1, || 1100));
        assert!(!unfitting.holds(1, || 1200));
        assert!(!unfitting.holds(2, || 0), "it had room");
        assert!(!unfitting.holds(3, || unreachable!("nobody asks for a family that fitted")));
        assert!(unfitting.any());
        unfitting.forget(1);
        assert!(!unfitting.any());
        assert!(!unfitting.holds(1, || 0));
    }
}
