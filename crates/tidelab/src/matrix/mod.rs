//! The matrix: servers and engines, tiers of memory, numbers of clients and scenarios, each
//! combination measured with sysbench.
//!
//! [`design`] is what is asked for and the order in which it is measured; [`conductor`] carries it
//! out, a [`crate::run::Group`] for each round, tier and competitor; [`progression`] says what came
//! of it from version to version. `docs/experiments/matrix.md` compares it with the published one.

pub mod conductor;
pub mod design;
mod figures;
mod measured_server;
pub mod progression;

pub use conductor::Matrix;
pub use design::Design;
