//! Names: the anomalies of a history, and the promises of a level.

use std::fmt;

/// The promises of a store, each with everything above it. Each line says which edges between moments may
/// have no cycle (see [`super::moments`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Writes of two transactions are in one order on all keys, which agrees with the time.
    Writes,
    /// A reader comes after the writer of its value. Only committed values are read, and of a transaction
    /// only its last write to a key.
    Reads,
    /// A transaction that changes a value comes after those that read it with a lock.
    Locks,
    /// Each row that is read is the newest at some moment of the transaction.
    Rows,
    /// All rows that a plain statement reads are the newest at one moment, and the moments of a
    /// transaction's statements follow each other.
    Statements,
    /// All rows that a transaction reads are the newest at one moment, and none that it writes was
    /// changed since.
    Snapshot,
    /// Transactions are as if one ran after the other, in the order in which they committed.
    Serial,
}

impl Rung {
    /// All, from the weakest.
    pub const ALL: [Rung; 7] =
        [Rung::Writes, Rung::Reads, Rung::Locks, Rung::Rows, Rung::Statements, Rung::Snapshot, Rung::Serial];
}

/// An anomaly, by its name in the literature where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A read returned a value that no transaction wrote, or one that was written to another key.
    Garbage,
    /// A list holds an element twice.
    Duplicate,
    /// Two reads of a list disagree about its order.
    Orders,
    /// A committed write is not there afterwards.
    LostWrite,
    /// A transaction does not see its own writes.
    Internal,
    /// A read of a value that was rolled back.
    G1a,
    /// A read of a value that its writer replaced before it committed.
    G1b,
    /// A cycle of write-write edges.
    G0,
    /// A cycle of write-write and write-read edges.
    G1c,
    /// Two transactions wrote a key after both had read the same version of it.
    LostUpdate,
    /// A cycle with one read-write edge: a read skew.
    GSingle,
    /// A cycle with several read-write edges, no two of them adjacent.
    GNonadjacent,
    /// A cycle with adjacent read-write edges over rows that existed: a write skew.
    G2Item,
    /// The same over rows that were not there yet.
    G2,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Class::Garbage => "a value that no transaction wrote",
            Class::Duplicate => "an element twice",
            Class::Orders => "incompatible orders",
            Class::LostWrite => "lost write",
            Class::Internal => "own writes not seen",
            Class::G1a => "G1a (aborted read)",
            Class::G1b => "G1b (intermediate read)",
            Class::G0 => "G0 (dirty write)",
            Class::G1c => "G1c (circular information flow)",
            Class::LostUpdate => "P4 (lost update)",
            Class::GSingle => "G-single (read skew)",
            Class::GNonadjacent => "G-nonadjacent",
            Class::G2Item => "G2-item (write skew)",
            Class::G2 => "G2 (write skew with a phantom)",
        })
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name.
    pub class: Class,
    /// The weakest promise that it breaks.
    pub rung: Rung,
    /// It needs the time at which transactions began and ended to be seen.
    pub by_time: bool,
    /// The events, over several lines.
    pub text: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.class, if self.by_time { ", by time" } else { "" }, self.text)
    }
}
