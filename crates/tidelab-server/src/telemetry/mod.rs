//! What the machine and the processes did, from `/proc` alone: no tool must be installed.
//! [`recorder`] writes it down each second, beside the load.

pub mod counters;
pub mod disk;
pub mod idle;
pub mod machine;
pub mod peak;
pub mod process;
pub mod recorder;
pub mod status;
