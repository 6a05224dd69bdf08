//! Names: what can be wrong in a history, and what a level can promise.

use std::fmt;

/// What a store can promise, each with everything above it. Each line says which edges between
/// moments may have no cycle (see [`super::moments`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Writes of two transactions are in one order on all keys, which agrees with the time.
    Writes,
    /// Who reads from another comes after it; only what was committed is read, and all of a
    /// transaction's writes to the key.
    Reads,
    /// Who changes what another read with a lock comes after it.
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

/// What is wrong, by the name that the literature has for it where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A read returned what nobody wrote, or what was written to another key.
    Garbage,
    /// A list holds an element twice.
    Duplicate,
    /// Two reads of a list disagree about its order.
    Orders,
    /// A committed write is not there afterwards.
    LostWrite,
    /// A transaction does not see its own writes.
    Internal,
    /// A read of what was rolled back.
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
    /// A cycle with several read-write edges, no two of them beside each other.
    GNonadjacent,
    /// A cycle with read-write edges beside each other, over rows that were there: a write skew.
    G2Item,
    /// The same over rows that were not there yet.
    G2,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Class::Garbage => "a value that nobody wrote",
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
    /// What happened, over several lines.
    pub text: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.class, if self.by_time { ", by time" } else { "" }, self.text)
    }
}
