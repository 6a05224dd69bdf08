//! The parts of a store's directory, whose files have faults of their own.

use std::path::Path;

/// A part of the store's directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Area {
    /// Segments of the log, and their directory.
    Log,
    /// Tables.
    Table,
    /// Manifests, and the name of the one in force.
    Manifest,
    /// The directory and everything else.
    Directory,
}

impl Area {
    /// All of them.
    pub const ALL: [Area; 4] = [Area::Log, Area::Table, Area::Manifest, Area::Directory];

    /// That of a path.
    pub fn of(path: &Path) -> Area {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name {
            "wal" => Area::Log,
            name if name.ends_with(".wal") => Area::Log,
            name if name.ends_with(".sst") => Area::Table,
            name if name.starts_with("MANIFEST") || name.starts_with("CURRENT") => Area::Manifest,
            _ => Area::Directory,
        }
    }
}
