//! Names: the anomalies of a history, and the promises of a level.

use std::fmt;

/// The promises of a store, each with everything above it. Each line names edges between moments; they may
/// form no cycle (see [`super::moments`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Writes of two transactions are in one order on all keys, in agreement with the time.
    Writes,
    /// A reader comes after the writer of its value. Only committed values are read, and of a transaction
    /// only its last write to a key.
    Reads,
    /// The changer of a value comes after those who read it with a lock.
    Locks,
    /// Each row read is the newest at some moment of the transaction.
    Rows,
    /// All rows read by a plain statement are the newest at one moment, and the moments of a transaction's
    /// statements follow each other.
    Statements,
    /// All rows read by a transaction are the newest at one moment, and no written one was changed since.
    Snapshot,
    /// Transactions are as if one ran after the other, in the order of their commits.
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
    /// A read returned a value written by no transaction, or to another key.
    Garbage,
    /// A list holds an element twice.
    Duplicate,
    /// Two reads of a list disagree about its order.
    Orders,
    /// A committed write is not there afterwards.
    LostWrite,
    /// A transaction does not see its own writes.
    Internal,
    /// A read of a rolled back value.
    G1a,
    /// A read of an intermediate value: its writer replaced it before the commit.
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
    /// A cycle with adjacent read-write edges over existing rows: a write skew.
    G2Item,
    /// The same over rows not there yet.
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

/// One anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name.
    pub class: Class,
    /// The weakest promise broken.
    pub rung: Rung,
    /// Visible only with the times of transactions' beginnings and ends.
    pub by_time: bool,
    /// The events, over several lines.
    pub text: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.class, if self.by_time { ", by time" } else { "" }, self.text)
    }
}
