//! Values that go to value files, and the files' names in the manifest.

use crate::error::Result;
use crate::options::FormatVersion;
use crate::store::family::Family;
use crate::store::Store;
use crate::sync::note;
use crate::types::{FileNo, Kind, Pieces};
use crate::values::WrittenValue;
use crate::version::Edit;

impl Store {
    /// True if a value of `len` bytes in a family's entry of this kind goes to a value file.
    #[inline]
    pub(crate) fn separates(&self, family: &Family, kind: Kind, len: usize) -> bool {
        let threshold = family.value_threshold();
        threshold != 0
            && len >= threshold as usize
            && !kind.is_tombstone()
            && self.versions.format() == FormatVersion::Two
    }

    /// Writes a value to a value file.
    ///
    /// Errors: I/O, disk full; the store takes no changes.
    pub(crate) fn write_value(&self, family: &Family, key: &[u8], value: Pieces<'_>) -> Result<WrittenValue> {
        let (values, method) = (self.versions.values(), family.options().compression);
        let mut begins = false;
        let written = values.write(family.id(), key, value, method, || {
            begins = true;
            self.begin_value_file()
        })?;
        if begins {
            // The files before it. Else they, their descriptors and the next sync would grow without a bound while the log idles.
            values.sync()?;
            // Recovery reads the values of records that no sync of the log covers.
            self.wal.ask_for_sync();
            self.seal_for_many_values();
        }
        Ok(written)
    }

    /// Makes a value file and names it in the manifest: recovery unlinks the others.
    fn begin_value_file(&self) -> Result<FileNo> {
        self.check_writable()?;
        let number = self.versions.new_file_number();
        if let Err(error) = self.versions.values().create(number, self.versions.state().epoch) {
            self.versions.discard_value_file(number);
            return Err(error);
        }
        self.install(Edit { value_files: vec![number], ..Edit::default() })?;
        Ok(number)
    }

    /// Gives up the value files that nobody needs, and returns their number. For a background thread.
    pub(crate) fn end_value_files(&self) -> Result<usize> {
        self.versions.values().end_unheld(|ended_value_files| {
            // A failed log leaves batches that nobody has any more, and that a recovery may find.
            self.check_writable()?;
            note("values: files without holds");
            self.install(Edit { ended_value_files, ..Edit::default() })
        })
    }
}
