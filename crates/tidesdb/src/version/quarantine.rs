//! Quarantine: tables, families and sparse files that merges skip for a while after a failed read. One
//! damaged file therefore stops neither the merges of its family nor those of others, nor their flushes
//! (`docs/protocols.md` 7.3).
//!
//! A flush or merge notes the failure. The picker treats a table in quarantine like a table held by a job: it
//! merges runs on one side of it only, and drops tombstones by the whole version as usual.

use std::sync::Arc;
use std::time::Duration;

use crate::host::{Clock, HashMap, HashSet, Instant};
use crate::sync::Mutex;
use crate::types::{FamilyId, FileNo};
use crate::version::Version;

/// First and longest pause before the next try; each failure doubles the pause.
const PAUSES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// A thing in quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// All merges of a family, after a failure without a known input.
    Family(FamilyId),
    /// One table.
    Table(FamilyId, FileNo),
    /// The rewrite of a sparse file.
    File(FileNo),
}

#[derive(Debug)]
struct Failed {
    until: Instant,
    pause: Duration,
}

/// The parts in quarantine. An entry outlives its pause until a merge succeeds; until then its family
/// counts as failed.
#[derive(Debug)]
pub struct Quarantine {
    clock: Arc<dyn Clock>,
    parts: Mutex<HashMap<Part, Failed>>,
    pauses: Mutex<(Duration, Duration)>,
}

impl Quarantine {
    /// Nothing is in quarantine. Pauses pass by `clock`.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Quarantine {
        Quarantine { clock, parts: Mutex::default(), pauses: Mutex::new(PAUSES) }
    }

    /// Notes a failed merge of the family.
    pub fn note_family(&self, family: FamilyId) {
        self.note(Part::Family(family));
    }

    /// Notes a failed read of a family's table in a file.
    pub fn note_table(&self, family: FamilyId, file: FileNo) {
        self.note(Part::Table(family, file));
    }

    /// Notes a failed rewrite of a sparse file.
    pub fn note_file(&self, file: FileNo) {
        self.note(Part::File(file));
    }

    fn note(&self, part: Part) {
        let (first, longest) = *self.pauses.lock();
        let mut parts = self.parts.lock();
        let pause = parts.get(&part).map_or(first, |failed| (failed.pause * 2).min(longest));
        parts.insert(part, Failed { until: self.clock.now() + pause, pause });
    }

    fn holds(&self, part: Part) -> bool {
        self.parts.lock().get(&part).is_some_and(|failed| failed.until > self.clock.now())
    }

    /// True while no part of the family may be merged.
    pub fn holds_family(&self, family: FamilyId) -> bool {
        self.holds(Part::Family(family))
    }

    /// True while the family's table in a file is skipped.
    pub fn holds_table(&self, family: FamilyId, file: FileNo) -> bool {
        self.holds(Part::Table(family, file))
    }

    /// True while a file is not rewritten.
    pub fn holds_file(&self, file: FileNo) -> bool {
        self.holds(Part::File(file))
    }

    /// Families with a part whose last merge failed, even after its pause. Their runs may pile up, and a stop
    /// of writers would not end.
    pub fn failed_families(&self) -> HashSet<FamilyId> {
        let family = |part: &Part| match *part {
            Part::Family(family) | Part::Table(family, _) => Some(family),
            Part::File(_) => None,
        };
        self.parts.lock().keys().filter_map(family).collect()
    }

    /// Forgets the family's failures after a merge that read all of `files`.
    pub fn merged(&self, family: FamilyId, files: &[FileNo]) {
        self.parts.lock().retain(|part, _| match part {
            Part::Family(other) => *other != family,
            Part::Table(other, file) => *other != family || !files.contains(file),
            Part::File(_) => true,
        });
    }

    /// Keeps only tables and families in `version`, and files accepted by `files`.
    pub fn retain(&self, version: &Version, files: &dyn Fn(FileNo) -> bool) {
        self.parts.lock().retain(|part, _| match *part {
            Part::Family(family) => version.family(family).is_some(),
            Part::Table(family, file) => version
                .family(family)
                .is_some_and(|levels| levels.tables().any(|(_, table)| table.file.number() == file)),
            Part::File(file) => files(file),
        });
    }

    /// Sets other pauses, for tests.
    #[cfg(test)]
    pub(crate) fn set_pauses(&self, first: Duration, longest: Duration) {
        *self.pauses.lock() = (first, longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SystemClock;

    #[test]
    fn a_pause_doubles_up_to_the_longest_and_the_failure_outlives_it() {
        let quarantine = Quarantine::new(Arc::new(SystemClock));
        let ms = Duration::from_millis;
        quarantine.set_pauses(ms(2), ms(5));
        let pause = |quarantine: &Quarantine| quarantine.parts.lock()[&Part::Table(7, 9)].pause;
        for expected in [2, 4, 5, 5] {
            quarantine.note_table(7, 9);
            assert_eq!(pause(&quarantine), ms(expected));
        }
        assert!(!quarantine.holds_table(8, 9), "another family's table in the same file");
        std::thread::sleep(ms(6));
        assert!(!quarantine.holds_table(7, 9), "it may be tried again");
        assert_eq!(quarantine.failed_families(), HashSet::from_iter([7]));
        quarantine.note_family(7);
        quarantine.merged(7, &[8]);
        assert_eq!(
            quarantine.failed_families(),
            HashSet::from_iter([7]),
            "the damaged one was not among the inputs"
        );
        quarantine.merged(7, &[8, 9]);
        assert!(quarantine.failed_families().is_empty());
    }
}
