//! Families whose last merge found the disk full. A merge without enough space would be picked again at once
//! and fill the disk again while writers meet errors. It would also keep away smaller merges, which free
//! space.

use std::sync::Arc;
use std::time::Duration;

use crate::host::{Clock, HashMap, Instant};
use crate::sync::Mutex;
use crate::types::FamilyId;

/// Time after which a merge is tried again without more space: it may be another one.
const PAUSE: Duration = Duration::from_secs(60);

/// Merges without enough space.
#[derive(Debug)]
pub(crate) struct NoSpaceBackoff {
    clock: Arc<dyn Clock>,
    families: Mutex<HashMap<FamilyId, Failed>>,
}

#[derive(Debug)]
struct Failed {
    /// The call without space.
    call: String,
    /// Free bytes for an attempt before its time; `None` for a merge that had room, which is not held back.
    needed: Option<u64>,
    until: Instant,
}

impl Failed {
    fn lasts(&self, now: Instant, free: u64) -> bool {
        now < self.until && self.needed.is_none_or(|needed| free < needed)
    }
}

impl NoSpaceBackoff {
    /// No merge found the disk full. Pauses pass by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> NoSpaceBackoff {
        NoSpaceBackoff { clock, families: Mutex::default() }
    }

    /// A merge of `bytes` bytes found the disk full in `call`; `free` bytes were free at its begin. A merge
    /// with room failed for other reasons: a quota, or the file system's own.
    pub fn note(&self, family: FamilyId, bytes: u64, free: u64, call: &str) {
        let more = (free / 8).max(bytes / 8).max(1);
        let needed = (free / 2 < bytes).then(|| free.saturating_add(more));
        let failed = Failed { call: call.to_string(), needed, until: self.clock.now() + PAUSE };
        self.families.lock().insert(family, failed);
    }

    /// A merge of the family came to its end.
    pub fn forget(&self, family: FamilyId) {
        self.families.lock().remove(&family);
    }

    /// Forgets dropped families, and those whose merges fit into the present space.
    pub fn look_again(&self, lives: impl Fn(FamilyId) -> bool, free: impl FnOnce() -> u64) {
        let mut families = self.families.lock();
        if !families.is_empty() {
            let (now, free) = (self.clock.now(), free());
            families.retain(|&family, failed| lives(family) && failed.lasts(now, free));
        }
    }

    /// The call without space, while a merge waits for some: as of the last check.
    pub fn lacks_space(&self) -> Option<String> {
        self.families.lock().values().next().map(|failed| failed.call.clone())
    }

    /// True if merges of the family wait for space: an eighth more than was too little, or than their length.
    pub fn holds(&self, family: FamilyId, free: impl FnOnce() -> u64) -> bool {
        let families = self.families.lock();
        families
            .get(&family)
            .is_some_and(|failed| failed.needed.is_some() && failed.lasts(self.clock.now(), free()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SystemClock;

    #[test]
    fn a_family_waits_for_more_space() {
        let backoff = NoSpaceBackoff::new(Arc::new(SystemClock));
        backoff.note(1, 800, 1000, "write of '1'");
        backoff.note(2, 100, 1000, "write of '2'");
        assert!(backoff.holds(1, || 1000) && backoff.holds(1, || 1100));
        assert!(!backoff.holds(1, || 1200));
        assert!(!backoff.holds(2, || unreachable!("it had room")));
        assert!(!backoff.holds(3, || unreachable!("nobody asks for a family that fitted")));
        backoff.note(4, 800, 0, "write of '4'");
        assert!(backoff.holds(4, || 0) && backoff.holds(4, || 99) && !backoff.holds(4, || 100));
        backoff.look_again(|_| true, || 0);
        assert!(backoff.holds(4, || 0), "the disk has no byte");
        backoff.forget(4);
        assert!(backoff.lacks_space().is_some());
        backoff.forget(1);
        assert_eq!(backoff.lacks_space().as_deref(), Some("write of '2'"));
        backoff.forget(2);
        assert_eq!(backoff.lacks_space(), None);
        assert!(!backoff.holds(1, || 0));
    }

    #[test]
    fn nothing_waits_in_a_family_that_is_gone_or_once_there_is_space() {
        let backoff = NoSpaceBackoff::new(Arc::new(SystemClock));
        let waits = |lives: &dyn Fn(FamilyId) -> bool, free| {
            backoff.look_again(lives, || free);
            backoff.lacks_space().is_some()
        };
        backoff.note(1, 800, 1000, "write");
        assert!(waits(&|_| true, 1000));
        assert!(!waits(&|family| family != 1, 1000), "it was dropped");
        backoff.note(1, 800, 1000, "write");
        assert!(!waits(&|_| true, 2000), "there is space");
        backoff.note(2, 1, 1000, "write");
        assert!(waits(&|_| true, 2000), "its next merge tells");
        backoff.forget(2);
        backoff.look_again(|_| false, || unreachable!("nothing waits"));
    }
}
