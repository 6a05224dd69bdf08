//! What the machine and the processes did, from `/proc` alone: no tool must be installed.

pub mod disk;
pub mod machine;
pub mod peak;
pub mod process;
