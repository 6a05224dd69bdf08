//! iibench, the insert benchmark: a queue of tasks in TOML ([`queue`]). A task loads a table of
//! purchases, reads it while it grows, or deletes at its low end as many rows as it inserts at its high
//! end.
//!
//! [`drive`] puts a task's clients on a server: writers with prepared statements of many rows ([`rows`],
//! [`schema`]), readers of four queries ([`queries`]), one deleting client. With a rate, operations begin on
//! a schedule ([`pace`]) and latencies are counted from it.
//!
//! [`counts`] collects, [`lines`] writes the files of the published benchmark, [`windows`] tells whether
//! latencies stayed the same. [`runner`] carries tasks out one after the other; a task fails when its
//! table lacks acknowledged rows ([`contents`]). [`alone`] measures the writers where nothing is kept.

pub mod alone;
pub mod clock;
pub mod connection;
pub mod contents;
pub mod counts;
pub mod drive;
pub mod dsn;
pub mod lines;
pub mod pace;
pub mod queries;
pub mod queue;
pub mod rows;
pub mod runner;
pub mod schema;
pub mod settings;
pub mod windows;
