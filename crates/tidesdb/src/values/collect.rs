//! The space of values that nobody needs, in files with others that somebody needs: holes, which the file system gives back
//! (`fallocate`, as WiscKey's collection at a file's head). Nothing is copied, and pointers stay right (`docs/protocols.md` 9.6).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::format::{FILE_HEADER, RECORD_HEADER};
use super::ValueFiles;
use crate::error::Result;
use crate::format::value_pointer::ValuePointer;
use crate::mutant::{self, Mutant};
use crate::options::LogLevel;
use crate::sync::note;
use crate::table::ValueUse;
use crate::types::{Entry, FileNo};
use crate::value::pointer_of_entry;

/// Holes begin and end at multiples of it: the blocks of most file systems. The simulation's values are short.
const BLOCK: u64 = if cfg!(simulation) { 64 } else { 4096 };

/// Of a file's values that much must have died since its last holes, one part in so many; and of a whole file.
const PARTS: u64 = 8;
const PARTS_OF_FILE: u64 = 64;

/// The places of needed values in some files.
#[derive(Debug, Default)]
pub struct NeededValues(BTreeMap<FileNo, Vec<Range<u64>>>);

impl NeededValues {
    /// No value of these files is needed, as far as is known.
    pub fn in_files(files: impl Iterator<Item = FileNo>) -> NeededValues {
        NeededValues(files.map(|file| (file, Vec::new())).collect())
    }

    /// The value of an entry, of a key of `key_len` bytes, is needed.
    ///
    /// Errors: damage, an entry whose pointer is none.
    pub fn add(&mut self, values: &ValueFiles, key_len: usize, entry: &Entry<'_>) -> Result<()> {
        let Some(stored) = pointer_of_entry(entry) else { return Ok(()) };
        let (_, pointer) = ValuePointer::decode(stored).ok_or_else(|| values.no_pointer())?;
        if pointer.kept && mutant::is(Mutant::KeptValueFreed) {
            return Ok(());
        }
        if let Some(places) = self.0.get_mut(&pointer.file) {
            let len = RECORD_HEADER as u64 + pointer.stored_len + key_len as u64;
            places.push(pointer.offset..pointer.offset + len);
        }
        Ok(())
    }

    /// The file stays as it is.
    pub fn leave_out(&mut self, file: FileNo) {
        self.0.remove(&file);
    }

    /// The files, with the places.
    pub fn into_files(self) -> impl Iterator<Item = (FileNo, Vec<Range<u64>>)> {
        self.0.into_iter()
    }
}

/// The whole blocks of a file of `len` bytes outside of the needed places.
fn holes(mut needed: Vec<Range<u64>>, len: u64) -> Vec<Range<u64>> {
    needed.sort_unstable_by_key(|place| place.start);
    let mut holes = Vec::new();
    let mut end = FILE_HEADER;
    for place in needed.into_iter().chain(std::iter::once(len..len)) {
        let hole = end.next_multiple_of(BLOCK)..place.start / BLOCK * BLOCK;
        if !hole.is_empty() {
            holes.push(hole);
        }
        end = end.max(place.end);
    }
    holes
}

impl ValueFiles {
    /// True unless the file system refused to give a part of a file back.
    pub fn gives_parts_back(&self) -> bool {
        !self.refuses_holes.load(Ordering::Relaxed)
    }

    /// True if nobody holds a file but `holders`, and nobody writes to it: from now on a pointer into it comes from theirs.
    pub fn is_held_by(&self, number: FileNo, holders: usize) -> bool {
        let Some(file) = self.hold(number) else { return false };
        // The manifest's and this one.
        !self.takes_values(&file) && Arc::strong_count(&file) == 2 + holders
    }

    /// Bytes to give back of a file with these needed values. `None`: too few, or the file has another name. A linked
    /// backup may need all of it.
    ///
    /// Errors: I/O.
    pub fn dead_bytes(&self, number: FileNo, needed: &ValueUse) -> Result<Option<u64>> {
        let Some(file) = self.hold(number) else { return Ok(None) };
        if self.takes_values(&file) {
            return Ok(None);
        }
        let taken = file.taken();
        let dead = taken.saturating_sub(space_of(needed));
        let least = (taken / PARTS).max((self.most_of_file() / PARTS_OF_FILE).min(taken / 2));
        Ok((dead > 0 && dead >= least && self.store.get(number)?.links()? == 1).then_some(dead))
    }

    /// Gives back the space of a file outside of the `places` of its `needed` values, and returns the bytes; `stop` ends it early.
    ///
    /// Errors: I/O.
    pub fn free_all_but(
        &self,
        needed: &ValueUse,
        places: Vec<Range<u64>>,
        stop: &dyn Fn() -> bool,
    ) -> Result<u64> {
        let number = needed.file;
        let Some(hold) = self.hold(number) else { return Ok(0) };
        let file = self.store.open_to_write(number)?;
        // A linked backup may have come and gone since `dead_bytes`.
        if file.links()? > 1 {
            return Ok(0);
        }
        let before = file.allocated()?;
        for hole in holes(places, file.len()?) {
            if stop() {
                break;
            }
            if !file.punch_hole(hole.start, hole.end - hole.start)? {
                self.refuses_holes.store(true, Ordering::Relaxed);
                let what = "the file system gives no parts of files back: the space of a large value comes back with the \
                            last value of its file";
                self.store.log(LogLevel::Warn, what);
                return Ok(0);
            }
        }
        note("values: space given back");
        let left = file.allocated()?;
        // Several versions may need one value.
        hold.set_taken(space_of(needed).min(left));
        Ok(before.saturating_sub(left))
    }
}

/// Bytes of a file that values take, with headers, keys and padding, about.
fn space_of(values: &ValueUse) -> u64 {
    values.bytes + values.bytes / 32 + values.values * (RECORD_HEADER as u64 + 24)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn holes_are_whole_blocks_between_needed_places() {
        assert_eq!(holes(vec![], 100), []);
        assert_eq!(holes(vec![], 3 * BLOCK), [BLOCK..3 * BLOCK]);
        let places = vec![5 * BLOCK + 1..6 * BLOCK + 1, 2 * BLOCK..3 * BLOCK];
        assert_eq!(
            holes(places, 9 * BLOCK + 7),
            [BLOCK..2 * BLOCK, 3 * BLOCK..5 * BLOCK, 7 * BLOCK..9 * BLOCK]
        );
    }

    proptest! {
        #[test]
        fn no_hole_touches_a_needed_place_and_no_free_block_stays(
            places in proptest::collection::vec((64u64..300_000, 1u64..20_000), 0..30),
            more in 0u64..50_000,
        ) {
            let needed: Vec<_> = places.iter().map(|&(start, len)| start..start + len).collect();
            let len = needed.iter().map(|place| place.end).max().unwrap_or(64) + more;
            let holes = holes(needed.clone(), len);
            for block in 0..len / BLOCK {
                let (start, end) = (block * BLOCK, (block + 1) * BLOCK);
                let is_needed = block == 0 || needed.iter().any(|place| place.start < end && start < place.end);
                let is_free = holes.iter().any(|hole| hole.start <= start && end <= hole.end);
                prop_assert_ne!(is_needed, is_free, "block {}", block);
            }
            prop_assert!(holes.iter().all(|hole| hole.start % BLOCK == 0 && hole.end <= len));
        }
    }
}
