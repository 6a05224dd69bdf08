//! The door by which values leave the engine. An [`Entry`] holds a handle of its value; [`resolve`] alone makes the
//! caller's value of it. [`look`] decides for it, and for reads without values, if an entry has expired.
//!
//! The first eight bytes of the stored value of an entry with an expiry are its time in seconds since 1970; the handle
//! follows (`docs/format.md`, "Expiry"). The entry passes through log, memtables, runs and tables as bytes. Only reads and
//! rewrites look at the time.
//!
//! A value in a value file may have a first part in its entry. A read can take that part alone, and learn the place of the rest.
//!
//! An entry is live while its time is above the reader's ([`crate::store::ttl_clock`]).

use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};
use crate::types::{Entry, Kind, StoredValue};

/// What a read takes of a value that is in two parts: one in its entry, the rest in a value file. Other values are taken
/// whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadParts {
    /// Both.
    Both,
    /// Both, and then the place of the rest.
    BothAndPlace,
    /// The first, and then the place of the rest.
    FirstAndPlace,
}

/// The storage of values outside of entries: the store's value files.
pub(crate) trait SeparateValues {
    /// Appends these parts of the value of a pointer in its stored form. Returns the bytes of the place.
    ///
    /// Errors: I/O; damage, which names file and offset.
    fn read(&self, pointer: &[u8], parts: ReadParts, out: &mut Vec<u8>) -> Result<usize>;
}

/// Of families whose values are never outside of their entries.
pub(crate) struct NoSeparateValues;

impl SeparateValues for NoSeparateValues {
    fn read(&self, _pointer: &[u8], _parts: ReadParts, _out: &mut Vec<u8>) -> Result<usize> {
        Err(Error::corruption("a family of the engine", 0, "an entry with its value in a value file"))
    }
}

/// Bytes of the time in front of a value.
pub(crate) const EXPIRY_LEN: usize = 8;

/// An entry as a read finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// The key has a value: the entry is no tombstone, and its time has not come.
    pub live: bool,
    /// The second of its expiry; 0: never.
    pub expiry: u64,
    /// Bytes of the place of the value's rest, at the end of the bytes of a read. 0: the value is not in two parts, or the read
    /// did not ask.
    pub place_len: usize,
}

/// The time of an entry's expiry in seconds since 1970; 0: never.
#[inline]
pub(crate) fn expiry_of(entry: &Entry<'_>) -> u64 {
    match entry.stored().first_chunk() {
        Some(bytes) if entry.kind.has_expiry() => u64::from_le_bytes(*bytes),
        _ => 0,
    }
}

/// Looks at an entry without its value. `now`, in seconds since 1970, is called only for entries with an expiry.
#[inline]
pub(crate) fn look(entry: &Entry<'_>, now: impl FnOnce() -> u64) -> Seen {
    if !entry.kind.has_expiry() {
        let live = !entry.kind.is_tombstone() || mutant::is(Mutant::TombstoneShown);
        return Seen { live, expiry: 0, place_len: 0 };
    }
    let expiry = expiry_of(entry);
    let second = now();
    let live = expiry > second || (expiry == second && mutant::is(Mutant::LivesThroughSecond));
    Seen { live, expiry, place_len: 0 }
}

/// Looks at an entry ([`look`]), and appends the caller's value, or these parts of it, to `out` if it is live.
///
/// Errors are those of `values`, the value's storage. After one `out` may have a part of the value.
#[inline]
pub(crate) fn resolve(
    entry: &Entry<'_>,
    now: impl FnOnce() -> u64,
    values: &impl SeparateValues,
    parts: ReadParts,
    out: &mut Vec<u8>,
) -> Result<Seen> {
    let mut seen = look(entry, now);
    if seen.live {
        match entry.handle() {
            StoredValue::Inline(stored) => out.extend_from_slice(after_expiry(entry.kind, stored)),
            StoredValue::Pointer(stored) => {
                seen.place_len = values.read(after_expiry(entry.kind, stored), parts, out)?;
            }
        }
    }
    Ok(seen)
}

/// The pointer of an entry with its value in a value file, in its stored form.
pub(crate) fn pointer_of(kind: Kind, stored: &[u8]) -> Option<&[u8]> {
    kind.has_pointer().then(|| after_expiry(kind, stored))
}

/// The same of an entry.
pub(crate) fn pointer_of_entry<'a>(entry: &Entry<'a>) -> Option<&'a [u8]> {
    pointer_of(entry.kind, entry.stored())
}

/// The time of expiry of a stored value, as bytes, and the value, or its pointer.
pub(crate) fn expiry_and_value(kind: Kind, stored: &[u8]) -> (&[u8], &[u8]) {
    stored.split_at(stored.len() - after_expiry(kind, stored).len())
}

/// A stored value without the time of expiry.
#[inline]
fn after_expiry(kind: Kind, stored: &[u8]) -> &[u8] {
    match stored.get(EXPIRY_LEN..) {
        Some(value) if kind.has_expiry() => value,
        _ => stored,
    }
}

/// The entry as one without an expiry, for planted faults.
pub(crate) fn without_expiry(entry: Entry<'_>) -> Entry<'_> {
    let (kind, stored) = stored_without_expiry(entry.kind, entry.stored());
    Entry::new(entry.seq, kind, stored)
}

/// The same of an entry in its parts.
pub(crate) fn stored_without_expiry(kind: Kind, stored: &[u8]) -> (Kind, &[u8]) {
    match kind.has_expiry() {
        true if kind.has_pointer() => {
            (Kind::PUT.marked_may_overwrite().with_pointer(), after_expiry(kind, stored))
        }
        true => (Kind::PUT.marked_may_overwrite(), after_expiry(kind, stored)),
        false => (kind, stored),
    }
}

/// The entry, or its tombstone if it has expired for every reader: older versions stay hidden. The flag is
/// true for a tombstone made here.
pub(crate) fn tombstone_if_expired<'a>(entry: Entry<'a>, expired_at: u64) -> (Entry<'a>, bool) {
    if entry.kind.has_expiry() && !look(&entry, || expired_at).live {
        return (Entry::new(entry.seq, Kind::DELETE, &[]), true);
    }
    (entry, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_lives_until_its_second() {
        let stored = [&9u64.to_le_bytes()[..], b"row"].concat();
        let entry = Entry::new(5, Kind::PUT.with_expiry(), &stored);
        let mut out = b"before ".to_vec();
        assert_eq!(
            resolve(&entry, || 8, &NoSeparateValues, ReadParts::Both, &mut out).unwrap(),
            Seen { live: true, expiry: 9, place_len: 0 }
        );
        assert_eq!(out, b"before row");
        assert_eq!(
            resolve(&entry, || 9, &NoSeparateValues, ReadParts::Both, &mut out).unwrap(),
            Seen { live: false, expiry: 9, place_len: 0 }
        );
        assert_eq!(out, b"before row", "nothing of an expired row");
        assert_eq!(tombstone_if_expired(entry, 8), (entry, false));
        assert_eq!(tombstone_if_expired(entry, 9), (Entry::new(5, Kind::DELETE, &[]), true));
    }

    #[test]
    fn an_entry_without_an_expiry_asks_no_clock() {
        let no_clock = || unreachable!("no clock for entries without an expiry");
        let mut out = Vec::new();
        for (kind, live) in [(Kind::PUT, true), (Kind::DELETE, false), (Kind::SINGLE_DELETE, false)] {
            out.clear();
            let entry = Entry::new(1, kind, if live { b"a longer row" } else { b"" });
            assert_eq!(look(&entry, no_clock), Seen { live, expiry: 0, place_len: 0 });
            assert_eq!(
                resolve(&entry, no_clock, &NoSeparateValues, ReadParts::Both, &mut out).unwrap(),
                Seen { live, expiry: 0, place_len: 0 }
            );
            assert_eq!(out, entry.stored());
            assert_eq!(tombstone_if_expired(entry, u64::MAX), (entry, false));
        }
    }
}
