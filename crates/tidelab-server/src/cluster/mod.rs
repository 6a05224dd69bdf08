//! Nodes of a Galera cluster on this machine.
//!
//! [`member`] has the provider, the ports and the settings of a node. [`state`] reads a node's place in the cluster and
//! its counters. [`transfer`] brings the script of state transfers to a server.
//!
//! The checker starts, kills and isolates such nodes, and the experiment `cluster` measures them: both start a server as
//! any other, with these settings among its own.

pub mod member;
pub mod state;
pub mod transfer;
