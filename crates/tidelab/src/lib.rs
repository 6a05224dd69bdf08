//! tidelab, the laboratory: drives real servers, records what they do, compares, reports.
//!
//! Four rooms. [`server`] starts one and knows what it really uses; [`workload`] puts it
//! under load; [`telemetry`] reads what machine and processes did meanwhile; [`measure`]
//! says in which order all that happens, checks that the data are right afterwards, and what
//! the figures say together. [`report`] shows it; [`run`] is the form in which
//! it is kept, and [`import`] brings results of others into it. Beside them [`check`] breaks servers and looks
//! whether what they promised holds; [`history`] judges what clients saw of each other. Nothing
//! here links the engine: what is
//! measured is what a client of the server gets.

pub mod check;
pub mod cli;
pub mod doctor;
pub mod error;
pub mod experiment;
pub mod history;
pub mod import;
pub mod interrupt;
pub mod matrix;
pub mod measure;
pub mod report;
pub mod run;
pub mod server;
pub mod telemetry;
pub mod workload;
