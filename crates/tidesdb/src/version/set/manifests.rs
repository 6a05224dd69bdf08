//! Writes of edits into the manifest, and the switch from one manifest to the next.

use std::sync::atomic::Ordering;

use super::obsolete::Obsolete;
use super::{VersionSet, Writer};
use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};
use crate::options::{FormatVersion, LogLevel};
use crate::sync::note;
use crate::types::FileNo;
use crate::version::edit::{Edit, NewFile, NewTable};
use crate::version::manifest::{self, ManifestWriter, Need};

/// A manifest longer than this, and than `ROTATE_FACTOR` times its snapshot, is rewritten. The cost of
/// rewriting is at most a quarter of the appended bytes.
const ROTATE_LEN: u64 = if cfg!(simulation) { 4 << 10 } else { 1 << 20 };
const ROTATE_FACTOR: u64 = 4;

/// The failed write of an edit.
pub(super) struct WriteError {
    pub error: Error,
    /// True if a manifest may hold the edit despite the error.
    pub begun: bool,
}

impl VersionSet {
    /// Writes an edit durably.
    pub(super) fn write(&self, writer: &mut Writer, edit: &Edit) -> std::result::Result<(), WriteError> {
        let full = |m: &ManifestWriter| m.bytes() > ROTATE_LEN.max(m.snapshot_bytes() * ROTATE_FACTOR);
        if writer.manifest.as_ref().is_none_or(full) {
            match self.begin_manifest(writer) {
                // A long manifest is as good as a new one.
                Err(error @ Error::DiskFull(_)) if writer.manifest.is_some() => {
                    // The full disk has a line of its own.
                    let what = format!("no room for a new manifest, the present one goes on: {error}");
                    self.tables.log(LogLevel::Debug, &what);
                }
                done => done.map_err(|error| WriteError { error, begun: false })?,
            }
        }
        // Edits that add nothing: an opening's epoch and boundary, dropped families, released segments. The
        // count of a scan can wait, that of a flush comes with it. Seconds of the expiry clock can wait too.
        let counted = !edit.row_counts.is_empty() && edit.last_generation.is_none();
        let waits = counted || edit.expiry_reserved.is_some();
        let values = !edit.value_files.is_empty();
        let adds = !edit.new_tables.is_empty() || !edit.new_files.is_empty() || values || waits;
        let need = match (adds, edit.last_generation) {
            (true, _) => Need::Ordinary,
            (false, Some(_)) => Need::EmptyFlush,
            (false, None) => Need::Urgent,
        };
        let manifest = writer.manifest.as_mut().expect("begin_manifest sets it or fails");
        let done = manifest.append(edit, need);
        let begun = manifest.failed();
        if begun {
            writer.stale_manifests.push(manifest.number());
            writer.manifest = None;
        }
        done.map_err(|error| WriteError { error, begun })
    }

    /// Writes the state, with the epoch of this opening, to a new manifest. Without room for one, appends the
    /// epoch to the manifest in force.
    pub(super) fn take_over(&self, writer: &mut Writer, current: Option<FileNo>) -> Result<()> {
        let error = match (self.begin_manifest(writer), current) {
            (Err(error @ Error::DiskFull(_)), Some(_)) => error,
            (done, _) => return done,
        };
        if manifest::read_current(&*self.disk, &self.dir)? != current {
            // The new one may be in force, now or after a power cut.
            return Err(error);
        }
        let Some(number) = current else { return Err(error) };
        let what = format!("no room for a new manifest, the one in force goes on: {error}");
        self.tables.log(LogLevel::Warn, &what);
        // A killed opening's `CURRENT` may be in the page cache alone, and a power cut would bring the manifest before
        // it back: perhaps one of a lower version, which does not know of what this opening writes.
        self.disk.sync_dir(&self.dir)?;
        let mut resumed = ManifestWriter::resume(&*self.disk, &self.dir, number)?;
        let epoch = Edit { epoch: Some(writer.state.epoch), ..Edit::default() };
        resumed.append(&epoch, Need::Urgent)?;
        // What the attempt left takes up space; `CURRENT` names none of it.
        for name in self.disk.list(&self.dir)? {
            let attempt = manifest::parse_manifest_name(&name).is_some_and(|n| n >= self.first_new_file);
            if attempt || name == manifest::CURRENT_TMP {
                self.disk.remove(&self.dir.join(&name))?;
            }
        }
        writer.stale_manifests.clear();
        // Without a new manifest the store stays in its version.
        writer.format = resumed.format();
        writer.manifest = Some(resumed);
        Ok(())
    }

    /// Writes the state to a new manifest and puts it in force, durably. After `DiskFull` writing continues
    /// in the manifest in force, if this process had it open and `CURRENT` still names it.
    fn begin_manifest(&self, writer: &mut Writer) -> Result<()> {
        note("edit: new manifest");
        let number = self.new_file_number();
        let snapshot = self.snapshot(writer);
        let format = if mutant::is(Mutant::FilesBeforeManifest) { FormatVersion::One } else { writer.format };
        let created = ManifestWriter::create(&*self.disk, &self.dir, number, format, &snapshot);
        let is_unnamed = created.is_err();
        let made =
            created.and_then(|made| manifest::set_current(&*self.disk, &self.dir, number).map(|()| made));
        let before = writer.manifest.take();
        let manifest = match made {
            Ok(manifest) => manifest,
            Err(error @ Error::DiskFull(_)) if before.is_some() => {
                let now = manifest::read_current(&*self.disk, &self.dir)?;
                if now == before.as_ref().map(ManifestWriter::number) {
                    self.obsolete.queue.lock().push(Obsolete::Manifest(number));
                    writer.manifest = before;
                } else {
                    writer.stale_manifests.extend(before.map(|old| old.number()));
                    writer.stale_manifests.push(number);
                }
                return Err(error);
            }
            Err(error) => {
                // Out of force, this one too, at the next success; what `CURRENT` never named goes at once.
                writer.stale_manifests.extend(before.map(|old| old.number()));
                match is_unnamed {
                    true => self.obsolete.queue.lock().push(Obsolete::Manifest(number)),
                    false => writer.stale_manifests.push(number),
                }
                return Err(error);
            }
        };
        writer.stale_manifests.extend(before.map(|old| old.number()));
        let mut queue = self.obsolete.queue.lock();
        queue.extend(writer.stale_manifests.drain(..).map(Obsolete::Manifest));
        queue.append(&mut writer.in_doubt);
        writer.manifest = Some(manifest);
        Ok(())
    }

    /// The whole state as one edit.
    pub(super) fn snapshot(&self, writer: &Writer) -> Edit {
        let version = self.current.load();
        let state = &writer.state;
        let mut edit = Edit {
            epoch: Some(state.epoch),
            next_file: Some(self.next_file.load(Ordering::Relaxed)),
            first_live_segment: Some(state.first_live_segment),
            boundaries: state.boundaries.clone(),
            durable_upto: Some(state.durable_upto),
            last_seq: Some(state.last_seq),
            last_generation: Some(state.last_generation),
            transaction_ceiling: Some(state.transaction_ceiling),
            expiry_clock: state.expiry_clock,
            expiry_reserved: state.expiry_reserved,
            log_segments: state.log_segments.values().copied().collect(),
            proven_from: state.proven_from,
            unproven_upto: Some(state.unproven_upto).filter(|&seq| seq != 0),
            options: state.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            counted_from: version.counted_from(),
            row_counts: version.row_counts().collect(),
            value_files: state.value_files.iter().copied().collect(),
            position: state.position,
            ..Edit::default()
        };
        edit.row_counts.sort_by_key(|(family, _)| *family);
        for record in writer.files.values() {
            edit.new_files.push(NewFile { number: record.file.number(), len: record.file.len() });
        }
        edit.new_files.sort_by_key(|file| file.number);
        let mut families: Vec<_> = version.families().collect();
        families.sort_by_key(|(id, _)| *id);
        for (family, levels) in families {
            for (level, table) in levels.tables() {
                let meta = table.meta().clone();
                let (file, generation) = (table.file.number(), table.generation);
                edit.new_tables.push(NewTable { file, level, generation, meta });
            }
            let cursors = levels.cursors.iter().map(|(level, key)| (family, *level, key.clone()));
            edit.cursors.extend(cursors);
        }
        edit
    }
}
