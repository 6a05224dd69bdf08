//! What clients saw of each other, judged: a checker of transaction histories.
//!
//! Clients run transactions over a few keys and record every statement, what it returned, when
//! the transaction began and ended, and whether it committed ([`record`]). From what was read the
//! order of each key's versions is inferred ([`versions`]): a list key says it in every read,
//! because its value is all that was ever appended to it; a register says it where a transaction
//! read it before it wrote. That gives edges between moments at which transactions read and moments
//! at which they committed ([`moments`]): who wrote before whom, who read from whom, who read before
//! whom, who ended before whom began. An isolation level is a promise that these edges have no
//! cycle ([`judge`]); a cycle is shown as the shortest one, with the name that the literature gives
//! it ([`cycle`]). [`generate`] makes the random transactions.
//!
//! After Kingsbury and Alvaro, Elle: Inferring Isolation Anomalies from Experimental Observations
//! (VLDB 2020), and Adya, Weak Consistency (1999), whose start-ordered graph the moments are.
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
