//! Servers for the laboratory: starts them, puts them under load, watches them.
//!
//! The benchmarks (`tidelab`) and the checker (`tidelab-check`) both stand on this crate. The program
//! `tidelab` runs the checker, so neither of the two can hold the common parts.
//!
//! * [`server`] starts a server, reads back its settings, and runs statements on it.
//! * [`cluster`] makes servers nodes of a Galera cluster.
//! * [`workload`] holds the loads: sysbench, TPC-C, the insert benchmark, large copies, and the rule for the
//!   end of a warm-up.
//! * [`disk`] is a disk in memory whose speed stays the same, for measurements.
//! * [`telemetry`] reads the counters of machine and processes from `/proc` and `/sys`.
//! * [`latency`], [`series`] and [`statistics`] hold figures: histograms, columns by second, ratios with
//!   their intervals.
//! * [`calendar`] has the dates of moments.
//!
//! Nothing here links the engine: a load gets the same as any client of the server.

pub mod calendar;
pub mod cluster;
pub mod disk;
pub mod error;
pub mod interrupt;
pub mod latency;
pub mod series;
pub mod server;
pub mod statistics;
pub mod telemetry;
pub mod workload;
