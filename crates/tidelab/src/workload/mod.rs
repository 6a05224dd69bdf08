//! The loads that a server is put under.

pub mod iibench;
pub mod copying;
pub mod sysbench;
pub mod sysbench_report;
pub mod tpcc;
