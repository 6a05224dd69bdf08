//! What merges pass over for a while because reading it failed: tables with damage, whole families, sparse files. So
//! one damaged file costs neither its family nor others their merges and flushes (`docs/protocols.md` 7.3).
//!
//! A flush or merge notes what failed; the picker takes a table that is set aside for one that a job holds. So runs are
//! merged on one side of it only, and tombstones go by the whole version as ever.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::sync::Mutex;
use crate::types::{FamilyId, FileNo};
use crate::version::Version;

/// First and longest pause before another try; it doubles with each failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// What was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Every merge of a family, for a failure that names no input.
    Family(FamilyId),
    /// One table.
    Table(FamilyId, FileNo),
    /// The rewrite of a sparse file.
    File(FileNo),
}

#[derive(Debug)]
struct Aside {
    until: Instant,
    pause: Duration,
}

/// See the module's comment. An entry outlives its pause until a merge succeeds: its family is *suspect*.
#[derive(Debug)]
pub struct SetAside {
    parts: Mutex<HashMap<Part, Aside>>,
    pauses: Mutex<(Duration, Duration)>,
}

impl Default for SetAside {
    fn default() -> SetAside {
        SetAside { parts: Mutex::default(), pauses: Mutex::new(PAUSES) }
    }
}

impl SetAside {
    /// A merge of the family failed.
    pub fn note_family(&self, family: FamilyId) {
        self.note(Part::Family(family));
    }

    /// Reading a family's table in a file failed.
    pub fn note_table(&self, family: FamilyId, file: FileNo) {
        self.note(Part::Table(family, file));
    }

    /// The rewrite of a sparse file failed.
    pub fn note_file(&self, file: FileNo) {
        self.note(Part::File(file));
    }

    fn note(&self, part: Part) {
        let (first, longest) = *self.pauses.lock();
        let mut parts = self.parts.lock();
        let pause = parts.get(&part).map_or(first, |aside| (aside.pause * 2).min(longest));
        parts.insert(part, Aside { until: Instant::now() + pause, pause });
    }

    fn holds(&self, part: Part) -> bool {
        self.parts.lock().get(&part).is_some_and(|aside| aside.until > Instant::now())
    }

    /// Whether nothing of the family is merged for now.
    pub fn holds_family(&self, family: FamilyId) -> bool {
        self.holds(Part::Family(family))
    }

    /// Whether the family's table in a file is left alone for now.
    pub fn holds_table(&self, family: FamilyId, file: FileNo) -> bool {
        self.holds(Part::Table(family, file))
    }

    /// Whether a file is not rewritten for now.
    pub fn holds_file(&self, file: FileNo) -> bool {
        self.holds(Part::File(file))
    }

    /// Families with something whose last merge failed, whether its pause has ended or not: their runs may pile up, and
    /// nobody would end a stop of writers.
    pub fn suspects(&self) -> HashSet<FamilyId> {
        let family = |part: &Part| match *part {
            Part::Family(family) | Part::Table(family, _) => Some(family),
            Part::File(_) => None,
        };
        self.parts.lock().keys().filter_map(family).collect()
    }

    /// A merge of the family read all of `files`.
    pub fn merged(&self, family: FamilyId, files: &[FileNo]) {
        self.parts.lock().retain(|part, _| match part {
            Part::Family(other) => *other != family,
            Part::Table(other, file) => *other != family || !files.contains(file),
            Part::File(_) => true,
        });
    }

    /// Forgets tables and families that are not in `version`, and files that are not among `files`.
    pub fn retain(&self, version: &Version, files: &dyn Fn(FileNo) -> bool) {
        self.parts.lock().retain(|part, _| match *part {
            Part::Family(family) => version.family(family).is_some(),
            Part::Table(family, file) => version
                .family(family)
                .is_some_and(|levels| levels.tables().any(|(_, table)| table.file.number() == file)),
            Part::File(file) => files(file),
        });
    }

    /// Other pauses, for tests.
    #[cfg(test)]
    pub(crate) fn set_pauses(&self, first: Duration, longest: Duration) {
        *self.pauses.lock() = (first, longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_the_longest_and_suspicion_outlives_it() {
        let aside = SetAside::default();
        let ms = Duration::from_millis;
        aside.set_pauses(ms(2), ms(5));
        let pause = |aside: &SetAside| aside.parts.lock()[&Part::Table(7, 9)].pause;
        for expected in [2, 4, 5, 5] {
            aside.note_table(7, 9);
            assert_eq!(pause(&aside), ms(expected));
        }
        assert!(!aside.holds_table(8, 9), "another family's table in the same file");
        std::thread::sleep(ms(6));
        assert!(!aside.holds_table(7, 9), "it may be tried again");
        assert_eq!(aside.suspects(), HashSet::from([7]));
        aside.note_family(7);
        aside.merged(7, &[8]);
        assert_eq!(aside.suspects(), HashSet::from([7]), "the damaged one was not among the inputs");
        aside.merged(7, &[8, 9]);
        assert!(aside.suspects().is_empty());
    }
}
