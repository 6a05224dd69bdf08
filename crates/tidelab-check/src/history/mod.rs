//! A checker of transaction histories: judges the order in which clients saw each other's changes.
//!
//! Clients run transactions over a few keys and record every statement with its result, the begin and end
//! of each transaction, and whether it committed ([`record`]).
//!
//! The reads give the order of each key's versions ([`versions`]). A list key says it in every read,
//! because its value is all that was ever appended to it. A register says it where a transaction read it
//! before it wrote.
//!
//! That gives edges between the moments at which transactions read and those at which they committed
//! ([`moments`]). The edges are the order of writers, of a writer and its readers, of a reader and the
//! next writer, and of transactions that followed each other in time.
//!
//! An isolation level is a promise that these edges have no cycle ([`judge`]). A cycle is shown as the
//! shortest one, with its name in the literature ([`cycle`]). [`generate`] makes the random transactions.
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
