//! The matrix: servers and engines, tiers of memory, numbers of clients and scenarios. Each combination
//! is measured with sysbench.
//!
//! [`design`] holds the options and the order of measurements. [`conductor`] carries it out, with a
//! [`crate::run::Group`] for each round, tier and competitor. [`progression`] compares versions.
//! `docs/experiments/matrix.md` compares this matrix with the published one.

pub mod conductor;
pub mod design;
mod figures;
mod measured_server;
pub mod progression;

pub use conductor::Matrix;
pub use design::Design;
