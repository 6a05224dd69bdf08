//! A server to start.

use std::path::{Path, PathBuf};

use super::allocator::Allocator;
use super::engine::Engine;
use super::settings::Setting;

/// The server to start.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The installed server: the directory whose `bin/` has its programs.
    pub prefix: &'a Path,
    /// Its required engines.
    pub engines: &'a [Engine],
    /// The TidesDB plugin to load, if this engine is among them.
    pub plugin: Option<&'a Path>,
    /// The directory for everything of the server; emptied first.
    pub directory: &'a Path,
    /// The data to start on.
    pub data: Data<'a>,
    /// Its required settings.
    pub settings: &'a [Setting],
    /// Its allocator, where it is not the C library's.
    pub allocator: Option<Allocator>,
    /// The groups to join before its first page, by their `cgroup.procs`.
    pub groups: &'a [PathBuf],
    /// Variables of the process, in addition to the laboratory's own.
    pub environment: &'a [(&'static str, PathBuf)],
}

/// The contents of a server's data directory at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Nothing but the system's own tables.
    Empty,
    /// A copy of the data put there by [`super::Server::freeze`].
    Copy(&'a Path),
    /// These data themselves: they are gone from there.
    Move(&'a Path),
}
