//! Faults of the disk by a seed: failing calls, files without room, syncs without effect; and the answers of a store
//! excused by a fault.

use std::path::Path;
use std::sync::Mutex;

use tidesdb_simulated::internal::io::faulty::{Failure, Op};
use tidesdb_simulated::{simulation, Error};

use crate::area::Area;
use crate::events;
use crate::random::Random;

/// The behaviour of a program's disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    /// Nothing fails.
    Sound,
    /// Calls fail, of one part of the store or of all, and of one kind or of all: the rare ones come only after many others.
    Failing(Option<Area>, Option<Op>),
    /// Calls find no room.
    Full(Option<Area>),
    /// Syncs of one part, or of all, do nothing and report success.
    Lying(Option<Area>),
}

impl Mood {
    /// The mood of a seed.
    pub fn of(random: &mut Random) -> Mood {
        let area = (!random.one_in(4)).then(|| random.pick(&Area::ALL));
        match random.below(12) {
            0 => Mood::Failing(area, None),
            1 => Mood::Failing(area, random.one_in(2).then(|| random.pick(&CALLS))),
            2 | 3 => Mood::Full(area),
            4 | 5 => Mood::Lying(area),
            _ => Mood::Sound,
        }
    }
}

#[derive(Debug)]
struct State {
    mood: Mood,
    random: Random,
    /// One call in so many fails, where calls of its kind can.
    one_in: u64,
    /// Faults to come.
    left: u64,
    hits: u64,
    /// To be done at one of these, after so many.
    moment: Option<(Occasion, u64, Moment)>,
}

/// A place in the course of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occasion {
    /// Before a call of the disk.
    Call,
    /// Before such a call for a part of the store.
    CallOf(Op, Area),
    /// Before a call while others stand still in the midst of a long one.
    Halfway,
    /// After the answer to a commit.
    Answer,
}

/// See [`Faults::after`].
struct Moment(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Moment")
    }
}

/// The faults of one run. Shared by the files of its disk.
#[derive(Debug)]
pub struct Faults(Mutex<State>);

/// Calls able to fail by themselves.
const CALLS: [Op; 12] = [
    Op::Open,
    Op::Create,
    Op::Read,
    Op::Write,
    Op::Sync,
    Op::Remove,
    Op::Remove,
    Op::Rename,
    Op::SyncDir,
    Op::Allocate,
    Op::List,
    Op::Len,
];

/// Calls in need of room on the disk.
fn takes_room(op: Op) -> bool {
    matches!(op, Op::Write | Op::Allocate | Op::Create | Op::SetLen | Op::Rename)
}

impl Faults {
    /// None, until some are allowed.
    pub fn new(mood: Mood, seed: u64) -> Faults {
        let mut random = Random::new(seed, 4);
        let one_in = random.pick(match mood {
            Mood::Failing(_, Some(_)) => &[1, 4, 30],
            _ => &[4, 30, 200],
        });
        Faults(Mutex::new(State { mood, random, one_in, left: 0, hits: 0, moment: None }))
    }

    /// None.
    pub fn none() -> Faults {
        Faults::new(Mood::Sound, 0)
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// How a call is to fail.
    pub fn due(&self, op: Op, path: &Path) -> Option<Failure> {
        let area = Area::of(path);
        let failure = self.with(|state| {
            let (of, failures): (_, &[Failure]) = match state.mood {
                Mood::Failing(_, Some(only)) if only != op => return None,
                Mood::Failing(of, _) if op == Op::Read => (of, &[Failure::Eio, Failure::ShortRead]),
                Mood::Failing(of, _) if op == Op::Open => (of, &[Failure::Eio, Failure::Emfile]),
                Mood::Failing(of, _) => (of, &[Failure::Eio]),
                Mood::Full(of) if takes_room(op) => (of, &[Failure::Enospc, Failure::Edquot]),
                Mood::Lying(of) if matches!(op, Op::Sync | Op::SyncDir) => (of, &[Failure::Lie]),
                _ => return None,
            };
            if state.left == 0 || of.is_some_and(|of| !of.has(area)) || !state.random.one_in(state.one_in) {
                return None;
            }
            state.left -= 1;
            state.hits += 1;
            Some(state.random.pick(failures))
        })?;
        events::fault(failure, op, area);
        Some(failure)
    }

    /// At most so many from now on.
    pub fn allow(&self, most: u64) {
        self.with(|state| state.left = most);
    }

    /// Does something at the occasion after so many others of its kind.
    pub fn after(&self, occasion: Occasion, others: u64, what: impl FnOnce() + Send + 'static) {
        self.with(|state| state.moment = Some((occasion, others, Moment(Box::new(what)))));
    }

    /// A call comes.
    pub fn call(&self, op: Op, path: &Path) {
        if op == Op::Remove && Area::of(path) == Area::Log {
            events::hit("log file removed");
        }
        self.come(|occasion| match occasion {
            Occasion::Call => true,
            Occasion::CallOf(of, area) => of == op && area.has(Area::of(path)),
            Occasion::Halfway => simulation::is_any_halfway(),
            Occasion::Answer => false,
        });
    }

    /// A commit was answered.
    pub fn answered(&self) {
        self.come(|occasion| occasion == Occasion::Answer);
    }

    fn come(&self, is_one: impl FnOnce(Occasion) -> bool) {
        let now = self.with(|state| match &mut state.moment {
            Some((occasion, left, _)) if is_one(*occasion) => match left.checked_sub(1) {
                Some(fewer) => {
                    *left = fewer;
                    None
                }
                None => state.moment.take(),
            },
            _ => None,
        });
        if let Some((_, _, Moment(what))) = now {
            what();
        }
    }

    /// Does the work due at a later call now; no more faults.
    pub fn end_now(&self) {
        let now = self.with(|state| {
            state.left = 0;
            state.moment.take()
        });
        if let Some((_, _, Moment(what))) = now {
            what();
        }
    }

    /// One of no call: the disk is full.
    pub fn note_full(&self) {
        self.with(|state| state.hits += 1);
    }

    /// Whether the store was told of one.
    pub fn were_told(&self) -> bool {
        self.with(|state| state.hits > 0 && !matches!(state.mood, Mood::Lying(_)))
    }

    /// Whether a sync did nothing: a power cut may then take anything.
    pub fn lied(&self) -> bool {
        self.with(|state| state.hits > 0 && matches!(state.mood, Mood::Lying(_)))
    }

    /// Whether a store may give this answer because of a fault. A timeout: a wait for room keeps its locks.
    pub fn excuse(&self, error: &Error) -> bool {
        let excused = matches!(
            error,
            Error::Io { .. }
                | Error::DiskFull(_)
                | Error::ReadOnly(_)
                | Error::OutcomeUnknown
                | Error::BackpressureTimeout
                | Error::LockTimeout
        );
        excused && self.were_told()
    }
}
