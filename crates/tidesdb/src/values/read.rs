//! Reads of values, through the cache. Values up to [`MOST_CACHED`] are kept there, one to a frame: as they are, or, in a
//! full cache that is the only one (`docs/design/0026-compressed-copies-in-the-cache.md`), as their files have them.

use crate::cache::{BlockRef, CachePriority, CachedForm};
use crate::error::{Error, Result};
use crate::format::compression::decompress;
use crate::format::value_pointer::ValuePointer;
use crate::io::AlignedBuffer;
use crate::mutant::{self, Mutant};
use crate::options::Compression;
use crate::sync::note;
use crate::value::{ReadParts, SeparateValues};

use super::format::{RecordHeader, RECORD_HEADER};
use super::ValueFiles;

/// Bytes of the longest value kept in the cache.
pub(super) const MOST_CACHED: u64 = 1 << 20;

/// Bytes of a record, without its key.
pub(super) fn record_len(pointer: &ValuePointer) -> u64 {
    pointer.stored_len.saturating_add(RECORD_HEADER as u64)
}

impl ValueFiles {
    /// Reads the record of a pointer, without its key. The log of the program is not called: others may wait for the read.
    fn record<'b>(&self, pointer: &ValuePointer, buffer: &'b mut AlignedBuffer) -> Result<&'b [u8]> {
        let file = self.store.get_untold(pointer.file)?;
        let len = usize::try_from(record_len(pointer)).map_err(|_| self.no_pointer())?;
        buffer.read(&*file, pointer.offset, len)?;
        self.store.note_read(buffer.read_bytes());
        Ok(buffer.bytes())
    }

    /// Checks a record without its key: the bytes as stored.
    fn check<'r>(&self, pointer: &ValuePointer, record: &'r [u8]) -> Result<(Compression, &'r [u8])> {
        let (header, stored) = record.split_at_checked(RECORD_HEADER).unwrap_or_default();
        let checked = RecordHeader::check(header, stored, pointer);
        checked.map(|compression| (compression, stored)).map_err(|what| self.damage(pointer, what))
    }

    /// Unpacks a checked record into memory of the value's length.
    fn unpack(
        &self,
        pointer: &ValuePointer,
        (compression, stored): (Compression, &[u8]),
        raw: &mut [u8],
    ) -> Result<()> {
        decompress(compression, stored, raw)
            .map_err(|_| self.damage(pointer, "a value that cannot be decompressed"))
    }

    /// Both.
    pub(super) fn read_record(&self, pointer: &ValuePointer, record: &[u8], raw: &mut [u8]) -> Result<()> {
        self.unpack(pointer, self.check(pointer, record)?, raw)
    }

    fn damage(&self, pointer: &ValuePointer, what: &str) -> Error {
        Error::corruption(self.store.path(pointer.file), pointer.offset, what)
    }

    /// Appends the value of a pointer.
    pub(super) fn read_rest(&self, pointer: &ValuePointer, out: &mut Vec<u8>) -> Result<()> {
        if pointer.raw_len <= MOST_CACHED {
            if !self.read_cached(pointer, out)? {
                out.extend_from_slice(&self.load(pointer)?);
            }
            return Ok(());
        }
        let mut buffer = AlignedBuffer::default();
        let checked = self.check(pointer, self.record(pointer, &mut buffer)?)?;
        let start = out.len();
        out.resize(start + pointer.raw_len as usize, 0);
        self.unpack(pointer, checked, &mut out[start..])
    }

    /// Appends the value of a pointer if the cache has it.
    ///
    /// Errors: the cache has a value of another length at its place.
    pub(super) fn read_cached(&self, pointer: &ValuePointer, out: &mut Vec<u8>) -> Result<bool> {
        let &ValuePointer { file, offset, .. } = pointer;
        match self.cache.get(file, offset) {
            Some(block) => out.extend_from_slice(&self.of_right_len(pointer, block)?),
            None => return Ok(self.read_copy(pointer, out)),
        }
        Ok(true)
    }

    /// Appends the value of a pointer from its copy in the cache, if there is one.
    fn read_copy(&self, pointer: &ValuePointer, out: &mut Vec<u8>) -> bool {
        let &ValuePointer { file, offset, .. } = pointer;
        if !self.copy_pays(pointer) {
            return false;
        }
        let Some(copy) = self.cache.stored_copy(file, offset, CachePriority::Low) else { return false };
        let start = out.len();
        out.resize(start + pointer.raw_len as usize, 0);
        if self.read_record(pointer, &copy.bytes, &mut out[start..]).is_err() {
            // Memory that changed: the file has the value.
            note("values: copy damaged");
            self.cache.drop_stored_copy(file, offset);
            out.truncate(start);
            return false;
        }
        if copy.priority == CachePriority::Hot {
            let mut frame = self.cache.frame(out.len() - start);
            frame.copy_from_slice(&out[start..]);
            self.cache.insert_from_copy(file, offset, frame.freeze(), &copy);
        }
        true
    }

    /// The value of a pointer, missing from the cache: one thread reads it for all in need of it now.
    pub(super) fn load(&self, pointer: &ValuePointer) -> Result<BlockRef> {
        let block = self.cache.read(pointer.file, pointer.offset, CachePriority::Low, || {
            let mut buffer = AlignedBuffer::default();
            let record = self.record(pointer, &mut buffer)?;
            let mut frame = self.cache.frame(pointer.raw_len as usize);
            self.read_record(pointer, record, &mut frame)?;
            let block = frame.freeze();
            let priority = self.admit(pointer, record, &block);
            Ok((block, priority))
        });
        self.store.tell_refusal();
        self.of_right_len(pointer, block?)
    }

    /// Takes a copy of a value just read, if this pays. Returns the priority of the value itself.
    fn admit(&self, pointer: &ValuePointer, record: &[u8], block: &BlockRef) -> CachePriority {
        let priority = CachePriority::Low;
        match self.copy_pays(pointer) {
            true => {
                let at = (pointer.file, pointer.offset);
                self.cache.admit_among(at, record, block, priority, self.all_fit(pointer))
            }
            false => priority,
        }
    }

    /// True if the cache may have a copy of the value as its file has it. Files read through the page cache have theirs
    /// there.
    fn copy_pays(&self, pointer: &ValuePointer) -> bool {
        pointer.stored_len < pointer.raw_len && self.store.is_direct()
    }

    /// True if the cache may have room for all values as they are, if others are compressed as this one.
    fn all_fit(&self, pointer: &ValuePointer) -> bool {
        let raw =
            u128::from(self.bytes()) * u128::from(pointer.raw_len) / u128::from(pointer.stored_len.max(1));
        raw <= self.cache.capacity() as u128
    }

    /// Gives a value, just written or read, to the cache. `record` is in pieces, without its key, and so is `value`.
    pub(super) fn keep(
        &self,
        pointer: &ValuePointer,
        record: &[&[u8]],
        value: &[&[u8]],
        priority: CachePriority,
    ) {
        let &ValuePointer { file, offset, raw_len, .. } = pointer;
        let len = |pieces: &[&[u8]]| pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let form = match self.copy_pays(pointer) {
            true => self.cache.form_of(len(record), raw_len as usize, self.all_fit(pointer)),
            false => CachedForm::Block,
        };
        let pieces = if form == CachedForm::Copy { record } else { value };
        let mut frame = self.cache.frame(len(pieces));
        let mut rest = &mut frame[..];
        for piece in pieces {
            let (to, after) = rest.split_at_mut(piece.len());
            to.copy_from_slice(piece);
            rest = after;
        }
        self.cache.insert_as(form, (file, offset), frame.freeze(), priority);
    }

    /// A block of the cache has the length in its own reader's pointer.
    fn of_right_len(&self, pointer: &ValuePointer, block: BlockRef) -> Result<BlockRef> {
        match block.len() as u64 == pointer.raw_len {
            true => Ok(block),
            false => Err(self.no_pointer()),
        }
    }

    /// Checks the value of a pointer in its stored form, on disk.
    ///
    /// Errors: I/O; damage, which names file and offset.
    pub fn verify(&self, pointer: &[u8]) -> Result<()> {
        let (_, pointer) = ValuePointer::decode(pointer).ok_or_else(|| self.no_pointer())?;
        let mut buffer = AlignedBuffer::default();
        let checked = self.check(&pointer, self.record(&pointer, &mut buffer)?)?;
        self.unpack(&pointer, checked, &mut vec![0; pointer.raw_len as usize])
    }

    /// Appends these parts of a value in its stored form; `rest` appends the one outside of the entry. Returns the bytes of
    /// the place.
    pub(super) fn read_parts(
        &self,
        stored: &[u8],
        parts: ReadParts,
        out: &mut Vec<u8>,
        rest: impl FnOnce(ValuePointer, &mut Vec<u8>) -> Result<()>,
    ) -> Result<usize> {
        let (first, place) = ValuePointer::split(stored).ok_or_else(|| self.no_pointer())?;
        out.extend_from_slice(first);
        if mutant::is(Mutant::PointerReturned) {
            out.extend_from_slice(stored);
            return Ok(0);
        }
        let place = if first.is_empty() { &[] } else { place };
        if place.is_empty() || parts != ReadParts::FirstAndPlace {
            rest(ValuePointer::decode(stored).ok_or_else(|| self.no_pointer())?.1, out)?;
        }
        if parts == ReadParts::Both {
            return Ok(0);
        }
        out.extend_from_slice(place);
        Ok(place.len())
    }
}

impl SeparateValues for ValueFiles {
    fn read(&self, stored: &[u8], parts: ReadParts, out: &mut Vec<u8>) -> Result<usize> {
        self.read_parts(stored, parts, out, |pointer, out| self.read_rest(&pointer, out))
    }
}
