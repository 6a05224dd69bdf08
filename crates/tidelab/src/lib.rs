//! tidelab, the laboratory's program and its benchmarks.
//!
//! The layers, from the bottom up; each uses those above it in this list:
//!
//! * `tidelab_server`, a crate of its own: servers, loads, telemetry.
//! * [`run`] is the form of kept results.
//! * [`measure`] decides the order of the steps, records them, checks the data afterwards, and
//!   combines the rounds.
//! * [`report`] shows results; [`import`] turns results of other programs into runs.
//! * [`experiment`], [`matrix`] and [`doctor`] carry out described experiments, compare servers of many
//!   versions, and measure the drivers' own cost.
//! * [`cli`] is the command line. It also runs the checks of `tidelab_check`.

pub mod cli;
pub mod doctor;
pub mod experiment;
pub mod import;
pub mod matrix;
pub mod measure;
pub mod report;
pub mod run;
