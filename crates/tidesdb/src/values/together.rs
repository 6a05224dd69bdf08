//! Values of several rows, read together: a scan copies a batch of rows first, and leaves room for the values missing from
//! the cache. Then one request reads all values near each other in a file. So a range whose rows were written
//! one after the other costs a few requests, and not one for each row.
//!
//! A longer read is nobody else's (`docs/protocols.md` 8.4), and after its error its values are read alone: a bad sector costs
//! its own row alone.

use std::cell::RefCell;

use crate::cache::CachePriority;
use crate::error::{Error, Result};
use crate::format::value_pointer::ValuePointer;
use crate::io::AlignedBuffer;
use crate::memory_gauge::HeldMemory;
use crate::mutant::{self, Mutant};
use crate::sync::note;
use crate::value::{ReadParts, SeparateValues};

use super::read::{record_len, MOST_CACHED};
use super::ValueFiles;

/// The longest read, in bytes.
const LONGEST: u64 = 256 << 10;

/// The longest gap between two values of a read, in bytes: to read over it costs less than one more request.
const MOST_READ_OVER: u64 = 16 << 10;

/// Memory for reads, kept by a cursor between two batches, in bytes.
const KEPT: usize = 16 << 10;

/// The missing values of a batch's rows. Empty between batches.
#[derive(Debug, Default)]
pub(crate) struct ValuesTogether {
    missing: RefCell<Vec<MissingValue>>,
    buffer: AlignedBuffer,
    held: HeldMemory,
}

/// A value to be read into the bytes of the rows, from `at` on.
#[derive(Debug)]
struct MissingValue {
    pointer: ValuePointer,
    at: usize,
}

/// The first unreadable value in the order of the rows, and its place in their bytes.
#[derive(Debug)]
pub(crate) struct FailedValue {
    pub at: usize,
    pub error: Error,
}

/// Takes values from the cache, and leaves room for the others.
struct CachedValues<'a> {
    files: &'a ValueFiles,
    missing: &'a RefCell<Vec<MissingValue>>,
}

impl SeparateValues for CachedValues<'_> {
    fn read(&self, stored: &[u8], parts: ReadParts, out: &mut Vec<u8>) -> Result<usize> {
        self.files.read_parts(stored, parts, out, |pointer, out| {
            // The length of a longer one is believed once its record has been read.
            if !(1..=MOST_CACHED).contains(&pointer.raw_len) {
                return self.files.read_rest(&pointer, out);
            }
            if !self.files.read_cached(&pointer, out)? {
                let at = out.len();
                out.resize(at + pointer.raw_len as usize, 0);
                self.missing.borrow_mut().push(MissingValue { pointer, at });
            }
            Ok(())
        })
    }
}

impl ValuesTogether {
    /// For the copying of rows: values missing from the cache are zeros until [`ValuesTogether::read`].
    pub(crate) fn cached<'a>(&'a self, files: &'a ValueFiles) -> impl SeparateValues + 'a {
        CachedValues { files, missing: &self.missing }
    }

    /// Reads the missing values of the rows in `bytes`. Until then the caller holds the files.
    ///
    /// Errors: the first row without its value; all before it have theirs.
    pub(crate) fn read(&mut self, files: &ValueFiles, bytes: &mut [u8]) -> Result<(), FailedValue> {
        let mut missing = self.missing.take();
        missing.sort_unstable_by_key(|value| (value.pointer.file, value.pointer.offset));
        let mut failed: Option<FailedValue> = None;
        let mut rest = &missing[..];
        while !rest.is_empty() {
            let (near, after) = rest.split_at(number_near(rest));
            rest = after;
            if near.len() > 1 && self.read_near(files, near, bytes).is_ok() {
                continue;
            }
            for value in near {
                let to = &mut bytes[value.at..][..value.pointer.raw_len as usize];
                let read = files.load(&value.pointer).map(|block| to.copy_from_slice(&block));
                if let Err(error) = read.or_else(mutant::pass(Mutant::FailedValueTaken)) {
                    if failed.as_ref().is_none_or(|failed| value.at < failed.at) {
                        failed = Some(FailedValue { at: value.at, error });
                    }
                }
            }
        }
        missing.clear();
        self.missing.replace(missing);
        self.buffer.shrink(KEPT);
        self.held.clear();
        failed.map_or(Ok(()), Err)
    }

    /// Reads values near each other by one request.
    ///
    /// Errors: some of them may be read.
    fn read_near(&mut self, files: &ValueFiles, near: &[MissingValue], bytes: &mut [u8]) -> Result<()> {
        note("values: read together");
        let (first, last) = (&near[0].pointer, &near[near.len() - 1].pointer);
        let len = (last.offset - first.offset + record_len(last)) as usize;
        let file = files.store.get(first.file)?;
        self.buffer.make_room(&*file, first.offset, len);
        // Others measure it while the disk is read.
        self.held.set(self.buffer.capacity(), &files.cache.read_ahead);
        let stretch = self.buffer.read(&*file, first.offset, len)?;
        for MissingValue { pointer, at } in near {
            let from = (pointer.offset - first.offset) as usize;
            let record = &stretch[from..from + record_len(pointer) as usize];
            let to = &mut bytes[*at..][..pointer.raw_len as usize];
            files.read_record(pointer, record, to)?;
            files.keep(pointer, &[record], &[to], CachePriority::Low);
        }
        files.store.note_read(self.buffer.read_bytes());
        Ok(())
    }

    /// Forgets values of rows no longer wanted.
    pub(crate) fn clear(&mut self) {
        self.missing.get_mut().clear();
    }

    /// Frees the memory of reads.
    pub(crate) fn release(&mut self) {
        *self = ValuesTogether::default();
    }
}

/// The number of values, at least one, in one read from the first on. They ascend by file and offset.
fn number_near(values: &[MissingValue]) -> usize {
    let end_of = |pointer: &ValuePointer| pointer.offset.checked_add(record_len(pointer));
    let near = |first: &ValuePointer, pair: &[MissingValue]| {
        let (before, next) = (&pair[0].pointer, &pair[1].pointer);
        let gap = next.offset.checked_sub(end_of(before)?)?;
        let len = end_of(next)? - first.offset;
        (next.file == first.file && gap <= MOST_READ_OVER && len <= LONGEST).then_some(())
    };
    let Some(first) = values.first() else { return 0 };
    1 + values.windows(2).take_while(|pair| near(&first.pointer, pair).is_some()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(places: &[(u64, u64, u64)]) -> Vec<MissingValue> {
        let missing = |&(file, offset, stored_len): &(u64, u64, u64)| {
            let pointer = ValuePointer { file, offset, stored_len, raw_len: stored_len, crc: 0, kept: false };
            MissingValue { pointer, at: 0 }
        };
        places.iter().map(missing).collect()
    }

    #[test]
    fn values_are_near_within_a_gap_a_length_and_a_file() {
        let gap = MOST_READ_OVER;
        for (what, places, number) in [
            ("one", &[(1, 64, 4000)][..], 1),
            ("neighbours", &[(1, 64, 4000), (1, 4104, 4000), (1, 8144, 4000)], 3),
            ("of two files", &[(1, 64, 4000), (2, 4104, 4000)], 1),
            ("the longest gap", &[(1, 0, 960), (1, 1000 + gap, 960)], 2),
            ("a longer gap", &[(1, 0, 960), (1, 1001 + gap, 960)], 1),
            ("the longest read", &[(1, 0, 131_032), (1, 131_072, 131_032)], 2),
            ("a longer read", &[(1, 0, 131_032), (1, 131_072, 131_033)], 1),
            ("the same value twice", &[(1, 64, 4000), (1, 64, 4000)], 1),
            ("no places of a file", &[(1, u64::MAX - 9, 4000), (1, u64::MAX, 4000)], 1),
        ] {
            assert_eq!(number_near(&values(places)), number, "{what}");
        }
    }
}
