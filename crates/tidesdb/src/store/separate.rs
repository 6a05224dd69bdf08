//! Values that go to value files, and the files' names in the manifest.

use std::sync::atomic::Ordering::Relaxed;

use crate::cache::CachePriority;
use crate::error::{Error, Result};
use crate::format::value_pointer::ValuePointer;
use crate::options::{FormatVersion, LogLevel};
use crate::store::family::Family;
use crate::store::Store;
use crate::sync::note;
use crate::types::{FileNo, Kind, Pieces};
use crate::values::{inline_part, NewFiles, NewValue, WrittenValue};
use crate::version::{next_format, Edit, VersionSet};
use crate::wal::FullFor;

/// Least time without a refused value, in microseconds, and least free bytes beyond twice the last one's, after which the disk has
/// room for values again.
const REFUSAL_PAUSE_US: u64 = 1_000_000;
const LEAST_ROOM: u64 = 1 << 20;

impl Store {
    /// Bytes of a value of `len` bytes in a family's entry of this kind that stay there when the rest goes to a value file, best
    /// `first_part`; `None`: all of them stay.
    #[inline]
    pub(crate) fn inline_part(
        &self,
        family: &Family,
        kind: Kind,
        len: usize,
        first_part: usize,
    ) -> Option<usize> {
        let inline = inline_part(family.value_threshold() as usize, len, first_part)?;
        (!kind.is_tombstone() && self.versions.format() == FormatVersion::Two).then_some(inline)
    }

    /// Writes a value to a value file but for its `first` part, and gives it to the cache with this priority.
    ///
    /// Errors: I/O, disk full; the store takes no changes; the rest seems to be the one at `unless_at`.
    pub(crate) fn write_value(
        &self,
        (family, key): (&Family, &[u8]),
        (first, rest): (&[u8], Pieces<'_>),
        unless_at: Option<ValuePointer>,
        priority: CachePriority,
    ) -> Result<WrittenValue> {
        let (values, compression) = (self.versions.values(), family.options().compression);
        let value = NewValue { family: family.id(), key, first, rest, compression, unless_at };
        let mut begins = false;
        let written = values.write(&value, priority, || {
            begins = true;
            let number = self.create()?;
            self.name(number).map(|()| number)
        });
        let written = written.inspect_err(|error| {
            if let Error::DiskFull(what) = error {
                self.refused_value.store(rest.len() as u64, Relaxed);
                self.wal.fullness().found(FullFor::Value, what, self.now_micros());
            }
        });
        if begins {
            // Without the value, too: no other begins this file.
            self.sync_values_before()?;
        }
        written
    }

    /// For a writer that has begun a value file: makes the values of those before it durable.
    fn sync_values_before(&self) -> Result<()> {
        // Else they, their descriptors and the next sync would grow without a bound while the log idles.
        self.versions.values().sync()?;
        // Recovery reads the values of records that no sync of the log covers.
        self.wal.ask_for_sync();
        self.seal_for_many_values();
        Ok(())
    }

    /// Some families have a threshold. Value files need version 2 of the formats: a store of version 1 asks for it, and
    /// moves when it is opened next. Where that cannot be written, the next opening asks.
    pub(crate) fn ask_for_value_files(&self) {
        let asked_for = |versions: &VersionSet| versions.format().max(versions.state().next_format());
        if self.options.read_only || asked_for(&self.versions) == FormatVersion::Two {
            return;
        }
        let edit = Edit { options: vec![next_format(FormatVersion::Two)], ..Edit::default() };
        let (level, what) = match self.install(edit) {
            Ok(()) => (LogLevel::Info, String::new()),
            Err(error) => (LogLevel::Warn, format!(", if that opening can note it: {error}")),
        };
        let when = "large values go to files of their own from the next opening on, which moves the store to format \
                    version 2: older builds open it no more";
        self.log(level, &format!("{when}{what}"));
    }

    /// After a value without room: looks whether there is some again. Others may fit meanwhile, so it takes a while without a
    /// refusal. For a background thread.
    pub(crate) fn look_for_room_for_values(&self) {
        let (fullness, now) = (self.wal.fullness(), self.now_micros());
        let needed = self.refused_value.load(Relaxed).saturating_mul(2) + LEAST_ROOM;
        if fullness.holds(FullFor::Value)
            && fullness.since_refusal(now) >= REFUSAL_PAUSE_US
            && self.free_space_now() >= needed
        {
            fullness.over(FullFor::Value, now);
        }
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

impl NewFiles for Store {
    fn create(&self) -> Result<FileNo> {
        self.check_writable()?;
        let number = self.versions.new_file_number();
        let created = self.versions.values().create(number, self.versions.state().epoch);
        created.inspect_err(|_| self.versions.discard_value_file(number)).map(|()| number)
    }

    /// Recovery unlinks files that the manifest does not name.
    fn name(&self, number: FileNo) -> Result<()> {
        self.install(Edit { value_files: vec![number], ..Edit::default() })
    }
}
