//! The bare engine alongside RocksDB and LMDB: the same operations on each, through one trait, in one
//! process of its own for each engine and round.
//!
//! * [`store`] is the trait of an engine, and [`stores`] has one file for each engine.
//! * [`data`] makes keys and values and knows the expected value of each key.
//! * [`operation`] runs one operation with several threads and times it.
//! * [`sequence`] runs the operations one after the other on one engine, and after each waits for the
//!   deferred work.
//! * [`record`] makes the cells, [`round`] is the process for one engine and round, [`table`] shows
//!   results.
//!
//! Design, rounds, statistics and histograms are those of `tidelab` (its `experiment::engine`), `tidelab`
//! carries a run out and links none of the engines.
//!
//! A figure counts only where the answers were right. A cell fails when a read misses a written value, a
//! scan has other rows than expected, or the store holds something else in the end.

pub mod cli;
pub mod cost;
pub mod data;
pub mod latency;
pub mod measured;
pub mod operation;
pub mod record;
pub mod round;
pub mod sequence;
pub mod store;
pub mod stores;
pub mod table;
mod worker;
