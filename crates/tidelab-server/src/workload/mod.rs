//! The loads for a server.

pub mod copying;
pub mod iibench;
pub mod steady;
pub mod sysbench;
pub mod sysbench_report;
pub mod tpcc;
