//! Measurements of machine and processes, from `/proc` alone: no tool must be installed. [`recorder`]
//! samples them each second, alongside the load.

pub mod counters;
pub mod disk;
pub mod idle;
pub mod machine;
pub mod peak;
pub mod process;
pub mod recorder;
pub mod status;
