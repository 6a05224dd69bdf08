//! Parts left out of a program, and the search for as many of them as a failure allows.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::work::Work;

/// Longest search.
const LONGEST: Duration = Duration::from_secs(60);

/// One part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The crash and all work after it.
    Crash,
    /// Flushes and merges from time to time.
    Upkeep,
    /// Faults of the disk.
    Faults,
    /// Version 2 of the formats.
    Formats,
    /// Sleeps of clients in transactions.
    Sleep,
    /// Changes of coroutines where nobody waits.
    Switches,
    /// Work of a kind alongside the clients.
    Beside(Work),
    /// A client.
    Client(u64),
    /// A client's transaction.
    Transaction(u64, u64),
    /// A statement of one.
    Statement(u64, u64, u64),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Crash => write!(f, "crash"),
            Part::Upkeep => write!(f, "upkeep"),
            Part::Faults => write!(f, "faults"),
            Part::Formats => write!(f, "formats"),
            Part::Sleep => write!(f, "sleep"),
            Part::Switches => write!(f, "switches"),
            Part::Beside(work) => f.write_str(work.name()),
            Part::Client(client) => write!(f, "{client}"),
            Part::Transaction(client, transaction) => write!(f, "{client}.{transaction}"),
            Part::Statement(client, transaction, statement) => {
                write!(f, "{client}.{transaction}.{statement}")
            }
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let numbers: Result<Vec<u64>, _> = text.split('.').map(str::parse).collect();
        Ok(match (text, numbers.as_deref()) {
            ("crash", _) => Part::Crash,
            ("upkeep", _) => Part::Upkeep,
            ("faults", _) => Part::Faults,
            ("formats", _) => Part::Formats,
            ("sleep", _) => Part::Sleep,
            ("switches", _) => Part::Switches,
            (name, Err(_)) if Work::by_name(name).is_some() => {
                Part::Beside(Work::by_name(name).ok_or("no work")?)
            }
            (_, Ok([client])) => Part::Client(*client),
            (_, Ok([client, transaction])) => Part::Transaction(*client, *transaction),
            (_, Ok([client, transaction, statement])) => Part::Statement(*client, *transaction, *statement),
            _ => return Err(format!("'{text}' is no part of a program")),
        })
    }
}

/// The parts left out.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Cut(BTreeSet<Part>);

impl Cut {
    /// Whether this part is left out by itself.
    pub fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Also without these. Their own parts are not listed any more.
    fn without(&self, parts: &[Part]) -> Cut {
        let mut left = self.0.clone();
        left.extend(parts);
        let is_inside = |part: &Part| match *part {
            Part::Transaction(client, _) => left.contains(&Part::Client(client)),
            Part::Statement(client, transaction, _) => {
                left.contains(&Part::Client(client)) || left.contains(&Part::Transaction(client, transaction))
            }
            _ => false,
        };
        Cut(left.iter().filter(|part| !is_inside(part)).copied().collect())
    }

    /// Whether this part, or one around it, is left out.
    fn drops(&self, part: Part) -> bool {
        self.without(&[part]) == *self
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(Part::to_string).collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Cut, String> {
        let parts = text.split([',', ' ']).filter(|part| !part.is_empty()).map(str::parse);
        Ok(Cut(parts.collect::<Result<_, _>>()?))
    }
}

/// A failure without the names and numbers in it.
fn kind_of(what: &str) -> String {
    what.chars().filter(|c| c.is_alphabetic() || *c == ' ').take(40).collect()
}

/// The largest removable part of a failing program, with the failure. `fails` runs it without the parts.
pub fn shrink(
    (clients, transactions, statements): (u64, u64, u64),
    what: String,
    mut fails: impl FnMut(&Cut) -> Option<String>,
) -> (Cut, String) {
    let begun = Instant::now();
    let (kind, mut cut, mut what) = (kind_of(&what), Cut::default(), what);
    let mut attempt = |parts: &[Part]| {
        if begun.elapsed() > LONGEST || parts.iter().all(|part| cut.drops(*part)) {
            return false;
        }
        let smaller = cut.without(parts);
        match fails(&smaller).filter(|now| kind_of(now) == kind) {
            Some(now) => {
                (cut, what) = (smaller, now);
                true
            }
            None => false,
        }
    };
    loop {
        let mut changed = false;
        let parts = [Part::Faults, Part::Crash, Part::Upkeep, Part::Sleep, Part::Switches, Part::Formats];
        for part in parts {
            changed |= attempt(&[part]);
        }
        for work in Work::ALL {
            changed |= attempt(&[Part::Beside(work)]);
        }
        for client in 0..clients {
            changed |= attempt(&[Part::Client(client)]);
        }
        for client in 0..clients {
            let mut length = transactions;
            while length > 0 {
                for first in (0..transactions).step_by(length as usize) {
                    let of = |transaction| Part::Transaction(client, transaction);
                    let parts: Vec<Part> = (first..(first + length).min(transactions)).map(of).collect();
                    changed |= attempt(&parts);
                }
                length /= 2;
            }
        }
        for client in 0..clients {
            for transaction in 0..transactions {
                for statement in 0..statements {
                    changed |= attempt(&[Part::Statement(client, transaction, statement)]);
                }
            }
        }
        if !changed {
            return (cut, what);
        }
    }
}
