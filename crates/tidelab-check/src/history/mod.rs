//! A checker of transaction histories: judges the order of changes as seen by clients.
//!
//! Clients run transactions over a few keys and record every statement with its result, the begin and end
//! of each transaction, and whether it committed ([`record`]).
//!
//! The reads give the order of each key's versions ([`versions`]). A list key gives it in every read: its
//! value is all elements ever appended. A register gives it where a transaction reads it before writing.
//!
//! This gives edges between the moments of reads and of commits ([`moments`]). The edges are the order of
//! writers, of a writer and its readers, of a reader and the next writer, and of transactions one after the
//! other in time.
//!
//! An isolation level promises no cycle of these edges ([`judge`]). A cycle is shown as the shortest one,
//! with its name in the literature ([`cycle`]). [`generate`] makes the random transactions.
//!
//! After Kingsbury and Alvaro, Elle: Inferring Isolation Anomalies from Experimental Observations (VLDB
//! 2020), and Adya, Weak Consistency (1999), whose start-ordered graph the moments are.
//!
//! Nothing here knows a server: the check `history` runs the statements.

pub mod anomaly;
pub mod cycle;
pub mod generate;
pub mod judge;
pub mod moments;
pub mod record;
pub mod versions;

#[cfg(test)]
mod planted_test;
#[cfg(test)]
mod simulator;
