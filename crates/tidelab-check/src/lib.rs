//! The checker of servers: breaks them, and judges whether their promises hold.
//!
//! [`check`] has the checks. Each starts servers of its own, puts clients on them, kills or disturbs them,
//! and compares the clients' records with the tables. [`history`] judges records of concurrent transactions:
//! it builds the graph of dependencies and looks for cycles forbidden by an isolation level. [`preload`]
//! makes a server's calls on files fail, and takes unsynced changes back. The program `tidelab` runs the
//! checks (`tidelab check`).

pub mod check;
pub mod history;
pub mod preload;
