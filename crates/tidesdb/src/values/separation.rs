//! Values that a merge or a load finds in entries, and moves to value files. (Transactions separate theirs before they are in
//! entries.) So a threshold takes the old values of a family, too, as merges come by.
//!
//! Each merge and each load has files of its own: a commit's sync does not wait for their bytes, and their failed sync is
//! nobody else's.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::format::{place_after, FILE_HEADER};
use super::writer::NewRecord;
use super::{ValueFiles, WrittenValue};
use crate::error::Result;
use crate::io::File;
use crate::mutant::{self, Mutant};
use crate::options::{Compression, FamilyOptions};
use crate::sync::note;
use crate::table::{SsTableWriter, TableStore};
use crate::types::{Entry, FamilyId, FileNo, Pieces};
use crate::value::expiry_and_value;
use crate::value_holds::{ValueFile, ValueHolds, ValueWrite};

/// The making of value files.
pub trait NewFiles {
    /// Makes a file that nothing names yet. It is durable.
    ///
    /// Errors: I/O, disk full; nothing is left over.
    fn create(&self) -> Result<FileNo>;

    /// Names it in the manifest.
    ///
    /// Errors: I/O, disk full; the file is gone, now or after the next edit.
    fn name(&self, number: FileNo) -> Result<()>;
}

/// Moves long values of entries to value files.
pub struct Separation<'a> {
    files: &'a ValueFiles,
    threshold: usize,
    compression: Compression,
    new: &'a dyn NewFiles,
}

/// What a merge or a load has moved so far.
#[derive(Default)]
pub struct MovedValues {
    /// The file that takes values, and its end. Those before it are synced.
    current: Option<(OwnFile, u64)>,
    /// Holds on the files.
    holds: ValueHolds,
}

/// A file of this merge or load alone. It counts as one that takes values until it is synced.
struct OwnFile {
    hold: Arc<ValueFile>,
    file: Arc<dyn File>,
    store: Arc<TableStore>,
    most: u64,
    _writes: ValueWrite,
}

impl MovedValues {
    /// Nothing yet, but with holds on files that the entries to come point into.
    pub fn holding(holds: ValueHolds) -> MovedValues {
        MovedValues { current: None, holds }
    }

    /// Makes the values durable, and gives the holds on their files to the caller: they are needed until tables in a
    /// version have theirs.
    ///
    /// Errors: I/O.
    pub fn finish(&mut self) -> Result<ValueHolds> {
        self.end_file()?;
        Ok(std::mem::take(&mut self.holds))
    }

    fn end_file(&mut self) -> Result<()> {
        let Some((of, _)) = self.current.take() else { return Ok(()) };
        if !mutant::is(Mutant::MovedValuesUnsynced) {
            of.file.sync_data()?;
            of.store.written(&*of.file);
        }
        Ok(())
    }
}

impl<'a> Separation<'a> {
    /// Of a family with these options; `None`: its values stay in their entries.
    pub fn of_family(
        files: &'a ValueFiles,
        options: &FamilyOptions,
        new: &'a dyn NewFiles,
    ) -> Option<Separation<'a>> {
        let (threshold, compression) = (options.value_threshold as usize, options.compression);
        (threshold != 0).then_some(Separation { files, threshold, compression, new })
    }

    /// Adds an entry of `family` to a table; its stored value goes on with `more`. A long value goes to a value file.
    ///
    /// Errors: I/O, disk full; the store takes no changes.
    pub fn add(
        &self,
        to: &mut SsTableWriter,
        (family, key): (FamilyId, &[u8]),
        entry: Entry<'_>,
        more: Pieces<'_>,
        moved: &mut MovedValues,
    ) -> Result<()> {
        let (expiry, value) = expiry_and_value(entry.kind, entry.stored());
        let is_long = value.len() + more.len() >= self.threshold;
        if !is_long || entry.kind.is_tombstone() || entry.kind.has_pointer() {
            return to.add_in_pieces(key, entry, more);
        }
        let rest: Vec<&[u8]> = more.iter().collect();
        let WrittenValue { pointer, file } = self.write(family, key, Pieces::new(value, &rest), moved)?;
        note("values: moved out of entries");
        moved.holds.add(file);
        let stored = [expiry, &pointer].concat();
        to.add(key, Entry::new(entry.seq, entry.kind.with_pointer(), &stored))
    }

    fn write(
        &self,
        family: FamilyId,
        key: &[u8],
        value: Pieces<'_>,
        moved: &mut MovedValues,
    ) -> Result<WrittenValue> {
        let record = NewRecord::new(family, key, value, self.compression)?;
        let len = record.len();
        let fits = |(of, end): &(OwnFile, u64)| place_after(*end, len) + len <= of.most;
        if !moved.current.as_ref().is_some_and(fits) {
            // As it is filled: descriptors and the last sync would grow without a bound.
            moved.end_file()?;
            moved.current = Some((self.begin()?, FILE_HEADER));
        }
        let (of, end) = moved.current.as_mut().expect("made above");
        let offset = place_after(*end, len);
        let pointer = record.write(&*of.file, of.hold.number(), offset)?;
        *end = offset + len;
        of.hold.add_taken(len);
        self.files.writer.moved.fetch_add(len, Ordering::Relaxed);
        Ok(WrittenValue { pointer, file: Arc::clone(&of.hold) })
    }

    fn begin(&self) -> Result<OwnFile> {
        let number = self.new.create()?;
        let store = self.files.store();
        let hold = {
            // A new file is nobody's, and nothing ends it meanwhile.
            let _no_changes = self.files.hold_changes();
            self.new.name(number)?;
            self.files.hold(number).ok_or_else(|| store.damage(number, "a new file has no name"))?
        };
        let (file, most) = (store.open_to_write(number)?, self.files.most_of_file());
        let _writes = hold.begin_write();
        Ok(OwnFile { hold, file, store: Arc::clone(store), most, _writes })
    }
}
