//! The paths that an experiment works with, and the interrupt that ends it.

use std::path::{Path, PathBuf};

use tidelab_server::interrupt::Interrupt;

/// The paths of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    /// The installed MariaDB.
    pub prefix: &'a Path,
    /// The TidesDB plugin.
    pub plugin: &'a Path,
    /// Where servers work; emptied.
    pub data: &'a Path,
    /// Paths in the experiment's file are below this: the file's folder.
    pub file_folder: &'a Path,
    /// What asks to end.
    pub interrupt: &'a Interrupt,
}

impl Paths<'_> {
    /// A path that the experiment's file names.
    pub fn named(&self, path: &str) -> PathBuf {
        self.file_folder.join(path)
    }
}
