//! The parts of a store's directory, whose files have faults of their own.

use std::path::Path;

/// A part of the store's directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Area {
    /// Segments of the log, and their directory.
    Log,
    /// Tables.
    Table,
    /// Value files. Faults of the directory's other files come to these, too.
    Values,
    /// Manifests, and the name of the one in force.
    Manifest,
    /// The directory and everything else.
    Directory,
}

impl Area {
    /// Areas of faults by chance; those of the directory are among value files, too.
    pub const ALL: [Area; 4] = [Area::Log, Area::Table, Area::Manifest, Area::Directory];

    /// That of a path.
    pub fn of(path: &Path) -> Area {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name {
            "wal" => Area::Log,
            name if name.ends_with(".wal") => Area::Log,
            name if name.ends_with(".sst") => Area::Table,
            name if name.ends_with(".val") => Area::Values,
            name if name.starts_with("MANIFEST") || name.starts_with("CURRENT") => Area::Manifest,
            _ => Area::Directory,
        }
    }

    /// Whether faults of this area come to a file of another.
    pub fn has(self, of_file: Area) -> bool {
        self == of_file || (self == Area::Directory && of_file == Area::Values)
    }
}
