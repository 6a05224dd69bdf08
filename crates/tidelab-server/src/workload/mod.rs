//! The loads that a server is put under.

pub mod copying;
pub mod iibench;
pub mod steady;
pub mod sysbench;
pub mod sysbench_report;
pub mod tpcc;
