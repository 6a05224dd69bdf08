//! How figures come about: in which order things run, what is recorded of each run, which
//! checks a run must pass, and what the figures of several rounds say together.

pub mod cell;
pub mod check;
pub mod experiment;
pub mod plan;
pub mod summary;
pub mod tpcc;
pub mod tpcc_summary;
pub mod unpaired;
