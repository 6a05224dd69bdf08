//! Values that a load brings, or that a merge finds in entries, and that go to value files. So a threshold takes the old values of
//! a family, too, as merges come by. (Transactions write theirs by [`ValueFiles::write`].)
//!
//! Each merge and each load has files of its own: a commit's sync does not wait for their bytes, and their failed sync is
//! nobody else's.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::format::{place_after, FILE_HEADER};
use super::writer::{NewRecord, NewValue};
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

/// Bytes of the longest first part.
const MOST_INLINE: usize = 64 << 10;

/// The bytes to leave in the entry of a value of `len` bytes, best `first_part`; the rest is for a value file. `None`: all
/// stay. A long first part goes along, and so does one with a short rest.
#[inline]
pub fn inline_part(threshold: usize, len: usize, first_part: usize) -> Option<usize> {
    let is_apart = first_part < threshold.min(MOST_INLINE) && len.saturating_sub(first_part) >= threshold;
    (threshold != 0 && len >= threshold).then_some(if is_apart { first_part } else { 0 })
}

/// Moves long values to value files.
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

    /// Adds an entry of `family` to a table. A long value goes to a value file.
    ///
    /// Errors: I/O, disk full; the store takes no changes.
    pub fn add(
        &self,
        to: &mut SsTableWriter,
        (family, key): (FamilyId, &[u8]),
        entry: Entry<'_>,
        moved: &mut MovedValues,
    ) -> Result<()> {
        let (expiry, value) = expiry_and_value(entry.kind, entry.stored());
        if entry.kind.is_tombstone() || entry.kind.has_pointer() {
            return to.add(key, entry);
        }
        match self.take(family, key, (Pieces::new(value, &[]), 0), moved)? {
            Some(pointer) => {
                let stored = [expiry, &pointer].concat();
                to.add(key, Entry::new(entry.seq, entry.kind.with_pointer(), &stored))
            }
            None => to.add(key, entry),
        }
    }

    /// Moves a long value without its first part, of this length. Returns its pointer in its stored form.
    ///
    /// Errors: as [`Separation::add`].
    pub fn take(
        &self,
        family: FamilyId,
        key: &[u8],
        (value, first_part): (Pieces<'_>, usize),
        moved: &mut MovedValues,
    ) -> Result<Option<Vec<u8>>> {
        let Some(inline) = inline_part(self.threshold, value.len(), first_part) else { return Ok(None) };
        let (first, rest) = value.split_at(inline);
        let value = NewValue { family, key, first, rest, compression: self.compression, unless_at: None };
        let WrittenValue { pointer, file } = self.write(&value, moved)?;
        note("values: moved out of entries");
        moved.holds.add(file);
        Ok(Some(pointer))
    }

    fn write(&self, value: &NewValue<'_>, moved: &mut MovedValues) -> Result<WrittenValue> {
        let record = NewRecord::new(value)?;
        let len = record.len();
        let fits = |(of, end): &(OwnFile, u64)| place_after(*end, len) + len <= of.most;
        if !moved.current.as_ref().is_some_and(fits) {
            // As it is filled: descriptors and the last sync would grow without a bound.
            moved.end_file()?;
            moved.current = Some((self.begin()?, FILE_HEADER));
        }
        let (of, end) = moved.current.as_mut().expect("made above");
        let offset = place_after(*end, len);
        let written = record.write(&*of.file, of.hold.number(), offset)?;
        *end = offset + len;
        of.hold.add_taken(len);
        self.files.writer.moved.fetch_add(len, Ordering::Relaxed);
        let pointer = record.pointer_to(&written.at);
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
