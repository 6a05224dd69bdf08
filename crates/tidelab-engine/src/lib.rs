//! The bare engine beside RocksDB and LMDB: the same operations on each, through one trait, in one
//! process of its own for each engine and round.
//!
//! [`store`] is what an engine must be able to do, [`stores`] has one file for each engine, [`data`] makes
//! keys and values and knows what each key must hold, [`operation`] runs one operation with several
//! threads and times it, [`sequence`] runs them one after the other on one engine and looks after each
//! what was put off, [`record`] is what is kept of it, [`round`] the process that does it for one engine
//! and round, and [`table`] shows it. What is measured, in which rounds, and statistics and histograms are those of
//! `tidelab` (its `experiment::engine`), which carries a run out and links none of the engines.
//!
//! A figure counts only where the answers were right: a read that misses what was written, a scan whose
//! rows are not those that there must be, or a store that holds something else in the end fails its cell.

pub mod cli;
pub mod cost;
pub mod data;
pub mod latency;
pub mod operation;
pub mod record;
pub mod round;
pub mod sequence;
pub mod store;
pub mod stores;
pub mod table;
mod worker;
