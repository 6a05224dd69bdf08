//! Another allocator for a server than its C library's, brought in by `LD_PRELOAD`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};

/// The distributions' directories for libraries. The first two may have a folder for each architecture.
const LIBRARIES: [&str; 5] = ["/usr/lib", "/lib", "/usr/lib64", "/usr/local/lib", "/opt/lib"];

/// An allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// jemalloc 5.
    Jemalloc,
}

impl Allocator {
    /// The start of the variable `version_malloc_library` in a server with it.
    pub fn name(self) -> &'static str {
        match self {
            Allocator::Jemalloc => "jemalloc",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Allocator::Jemalloc => "libjemalloc.so.2",
        }
    }

    /// The library on this machine. Errors: it is not installed.
    pub fn library(self) -> Result<PathBuf> {
        LIBRARIES.iter().find_map(|folder| find(Path::new(folder), self.file())).ok_or_else(|| {
            Error::Missing {
                what: self.file().to_string(),
                remedy: format!("Debian's package lib{}2 has it", self.name()),
            }
        })
    }
}

/// The file in the folder or one folder deeper.
fn find(folder: &Path, file: &str) -> Option<PathBuf> {
    let here = folder.join(file);
    if here.exists() {
        return Some(here);
    }
    let mut folders: Vec<PathBuf> =
        folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path().join(file))).collect();
    folders.sort();
    folders.into_iter().find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_beside_and_one_folder_deeper() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find(folder.path(), "lib.so.2"), None);
        let deeper = folder.path().join("x86_64-linux-gnu");
        std::fs::create_dir(&deeper).unwrap();
        std::fs::write(deeper.join("lib.so.2"), "").unwrap();
        assert_eq!(find(folder.path(), "lib.so.2"), Some(deeper.join("lib.so.2")));
        std::fs::write(folder.path().join("lib.so.2"), "").unwrap();
        assert_eq!(find(folder.path(), "lib.so.2"), Some(folder.path().join("lib.so.2")));
        assert_eq!(find(Path::new("/nowhere/at/all"), "lib.so.2"), None);
    }
}
