//! Unlinking of obsolete files: those without a version, and those without any name in the manifest or the
//! log.

use std::sync::Arc;

use super::VersionSet;
use crate::error::Result;
use crate::host::HashSet;
use crate::sync::Mutex;
use crate::types::FileNo;
use crate::version::manifest::{self, ManifestWriter};

/// Files to unlink.
#[derive(Default)]
pub(in crate::version) struct ObsoleteFiles {
    pub(super) queue: Mutex<Vec<Obsolete>>,
    /// Number of pauses; the lock is held while files are unlinked.
    pauses: Mutex<usize>,
}

#[derive(Clone, Copy)]
pub(super) enum Obsolete {
    Table(FileNo),
    Values(FileNo),
    Manifest(FileNo),
}

impl ObsoleteFiles {
    pub(in crate::version) fn push_table(&self, number: FileNo) {
        self.push(Obsolete::Table(number));
    }

    pub(super) fn push(&self, file: Obsolete) {
        self.queue.lock().push(file);
    }
}

/// Blocks all unlinking in the store while it lives (a backup copies the files of a manifest).
pub struct DeletionPause(Arc<ObsoleteFiles>);

impl Drop for DeletionPause {
    fn drop(&mut self) {
        *self.0.pauses.lock() -= 1;
    }
}

impl VersionSet {
    /// Unlinks files no longer in any version and returns their number. For a background thread. A file that
    /// cannot be unlinked is tried again at the next call.
    pub fn delete_obsolete(&self) -> Result<usize> {
        let pauses = self.obsolete.pauses.lock();
        self.delete_unpaused(*pauses)
    }

    /// The same. Waits for no other thread that unlinks: none.
    pub fn delete_obsolete_if_free(&self) -> Option<Result<usize>> {
        let pauses = self.obsolete.pauses.try_lock()?;
        Some(self.delete_unpaused(*pauses))
    }

    /// The mutex of the pauses is held.
    fn delete_unpaused(&self, pauses: usize) -> Result<usize> {
        if pauses > 0 || self.read_only {
            return Ok(0);
        }
        // In another directory these names are another store's.
        self.check_lock()?;
        let queue = std::mem::take(&mut *self.obsolete.queue.lock());
        let cached = queue.iter().filter_map(|item| match item {
            Obsolete::Table(number) | Obsolete::Values(number) => Some(*number),
            Obsolete::Manifest(_) => None,
        });
        let mut cached: Vec<FileNo> = cached.collect();
        cached.sort_unstable();
        self.cache.erase_files(&cached);
        let mut failed = None;
        let mut unlinked = 0;
        for item in queue {
            let removed = match item {
                Obsolete::Table(number) => self.tables.remove(number),
                Obsolete::Values(number) => self.values.store().remove(number),
                Obsolete::Manifest(number) => self.remove_manifest(number),
            };
            match removed {
                Ok(()) => unlinked += 1,
                Err(error) => {
                    self.obsolete.queue.lock().push(item);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(unlinked), Err)
    }

    /// Blocks all unlinking until the returned value is dropped.
    pub fn pause_deletions(&self) -> DeletionPause {
        *self.obsolete.pauses.lock() += 1;
        DeletionPause(Arc::clone(&self.obsolete))
    }

    /// Unlinks unnamed tables and manifests of earlier epochs. Returns a warning for each file that could not
    /// be unlinked or stays on purpose. To be called once, after replay of the log (`docs/protocols.md` 5.2);
    /// `keep` are the tables named by the log.
    ///
    /// All tables stay while a named file is missing. The manifest's last edit may have rotted and look like
    /// a torn tail. If that edit was a merge, its inputs are gone and its outputs are unknown here.
    pub fn remove_unknown_files(&self, keep: &HashSet<FileNo>) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.read_only {
            return warnings;
        }
        let writer = self.writer.lock();
        let in_force = writer.manifest.as_ref().map(ManifestWriter::number);
        let listed = self
            .tables
            .list()
            .and_then(|tables| Ok((tables, self.values.store().list()?, self.disk.list(&self.dir)?)));
        let (tables, values, names) = listed.unwrap_or_else(|error| {
            warnings.push(format!("files that nothing names stay: {error}"));
            Default::default()
        });
        let is_of_past = |number: FileNo| number < self.first_new_file;
        let is_whole = self.missing.lock().is_empty()
            && writer.state.value_files.iter().all(|file| values.contains(file));
        let tables =
            tables.iter().filter(|number| !writer.files.contains_key(number) && !keep.contains(number));
        let values = values.iter().filter(|number| !writer.state.value_files.contains(number));
        let unnamed = tables.map(|number| (&self.tables, *number));
        let unnamed = unnamed.chain(values.map(|number| (self.values.store(), *number)));
        for (files, number) in unnamed.filter(|(_, number)| is_of_past(*number)) {
            if !is_whole {
                let name = files.name(number);
                warnings.push(format!("{name} stays: nothing names it, and a named file is missing"));
            } else if let Err(error) = files.remove(number) {
                warnings.push(format!("a file that nothing names stays: {error}"));
            }
        }
        let manifests = names.iter().filter_map(|name| manifest::parse_manifest_name(name));
        for number in manifests.filter(|&number| is_of_past(number) && in_force != Some(number)) {
            if let Err(error) = self.remove_manifest(number) {
                warnings.push(format!("a file that nothing names stays: {error}"));
            }
        }
        warnings
    }

    fn remove_manifest(&self, number: FileNo) -> Result<()> {
        let path = self.dir.join(manifest::manifest_name(number));
        match self.disk.exists(&path)? {
            true => self.disk.remove(&path),
            false => Ok(()),
        }
    }
}
