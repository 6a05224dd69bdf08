//! A library preloaded into a server: it makes the server's calls on files fail, and records changes for
//! taking back unsynced ones.
//!
//! The sources are C, in `preload/` of this crate, and are compiled where a check begins. [`Control`] arms faults
//! and reads counts while the server runs; [`PowerCut`] takes back after the server was killed.

mod control;
mod cut;
mod journal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidelab_server::error::{io_error, Error, Result};

pub use control::{Action, Control, Counts, Fault, Fired};
pub use cut::{Loss, PowerCut, TakenBack};

/// Names and texts of the sources.
const SOURCES: [(&str, &str); 5] = [
    ("preload.h", include_str!("../../preload/preload.h")),
    ("files.c", include_str!("../../preload/files.c")),
    ("control.c", include_str!("../../preload/control.c")),
    ("journal.c", include_str!("../../preload/journal.c")),
    ("calls.c", include_str!("../../preload/calls.c")),
];

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The store's write-ahead log.
    Log = 1,
    /// Its sorted tables.
    Table,
    /// Its manifests, and `CURRENT`.
    Manifest,
    /// Its directories.
    Directory,
    /// The binary log and its index.
    Binlog,
    /// InnoDB's redo log.
    Redo,
    /// InnoDB's data files.
    InnoDb,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Kind::Log, Kind::Table, Kind::Manifest, Kind::Directory, Kind::Binlog, Kind::Redo, Kind::InnoDb];

    /// True if the engine writes files of this kind, and not the server.
    pub fn is_store(self) -> bool {
        self <= Kind::Directory
    }

    fn of_number(number: u16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u16 == number)
    }

    /// The name in a line of progress.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Log => "log",
            Kind::Table => "table",
            Kind::Manifest => "manifest",
            Kind::Directory => "directory",
            Kind::Binlog => "binlog",
            Kind::Redo => "redo",
            Kind::InnoDb => "innodb",
        }
    }
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// open, openat.
    Open,
    /// The same with O_CREAT.
    Create,
    /// close.
    Close,
    /// read, pread, readv, preadv.
    Read,
    /// write, pwrite, writev, pwritev.
    Write,
    /// fsync, fdatasync.
    Sync,
    /// sync_file_range.
    Range,
    /// fallocate.
    Allocate,
    /// ftruncate.
    Truncate,
    /// rename.
    Rename,
    /// unlink.
    Unlink,
    /// link.
    Link,
    /// mkdir.
    Mkdir,
    /// mmap, shared and writable: the library does not see such writes.
    Map,
}

impl Call {
    /// All of them.
    pub const ALL: [Call; 14] = [
        Call::Open,
        Call::Create,
        Call::Close,
        Call::Read,
        Call::Write,
        Call::Sync,
        Call::Range,
        Call::Allocate,
        Call::Truncate,
        Call::Rename,
        Call::Unlink,
        Call::Link,
        Call::Mkdir,
        Call::Map,
    ];

    /// The name in a line of progress.
    pub fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Create => "create",
            Call::Close => "close",
            Call::Read => "read",
            Call::Write => "write",
            Call::Sync => "sync",
            Call::Range => "sync_range",
            Call::Allocate => "allocate",
            Call::Truncate => "truncate",
            Call::Rename => "rename",
            Call::Unlink => "unlink",
            Call::Link => "link",
            Call::Mkdir => "mkdir",
            Call::Map => "mmap",
        }
    }
}

/// The directories whose files have a kind.
#[derive(Clone, Debug)]
pub struct Roots {
    /// The store.
    pub store: PathBuf,
    /// The server's data.
    pub data: PathBuf,
}

/// Compiles the library into a directory and returns its path.
pub fn build(directory: &Path) -> Result<PathBuf> {
    let sources = directory.join("preload");
    fs::create_dir_all(&sources).map_err(io_error("cannot make", &sources))?;
    for (name, text) in SOURCES {
        let path = sources.join(name);
        fs::write(&path, text).map_err(io_error("cannot write", &path))?;
    }
    let library = sources.join("preload.so");
    let files = SOURCES.iter().map(|(name, _)| name).filter(|name| name.ends_with(".c"));
    let output = Command::new("cc")
        .current_dir(&sources)
        .args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"])
        .args(["-shared", "-fPIC", "-pthread", "-o"])
        .arg(&library)
        .args(files)
        .stdin(Stdio::null())
        .output()
        .map_err(|_| Error::Missing {
            what: "cc".to_string(),
            remedy: "make setup brings a C compiler".to_string(),
        })?;
    match output.status.success() {
        true => Ok(library),
        false => Err(Error::Load {
            what: "cc".to_string(),
            message: String::from_utf8_lossy(&output.stderr).trim().to_string(),
        }),
    }
}

/// The variables to load the library into a process. `side` is the directory of the control file and the
/// journal.
pub fn environment(library: &Path, side: &Path, roots: &Roots) -> Vec<(&'static str, PathBuf)> {
    vec![
        ("LD_PRELOAD", library.to_path_buf()),
        ("TIDELAB_PRELOAD", side.to_path_buf()),
        ("TIDELAB_PRELOAD_STORE", roots.store.clone()),
        ("TIDELAB_PRELOAD_DATA", roots.data.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_library() {
        let header = include_str!("../../preload/preload.h");
        let order = |names: &[String]| {
            let at: Vec<Option<usize>> = names.iter().map(|name| header.find(name.as_str())).collect();
            assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{names:?}: {at:?}");
        };
        order(&Kind::ALL.map(|kind| format!("KIND_{}", kind.name().to_uppercase())));
        order(&Call::ALL.map(|call| {
            format!("CALL_{}", call.name().to_uppercase().trim_start_matches("SYNC_").replace("MMAP", "MAP"))
        }));
        assert_eq!(
            (Kind::of_number(1), Kind::of_number(7), Kind::of_number(8)),
            (Some(Kind::Log), Some(Kind::InnoDb), None)
        );
    }
}
