//! The batch: a transaction's changes in the form of a log record (`docs/format/wal.md`). [`BatchBuilder`]
//! writes a batch, [`BatchReader`] walks one. The reader borrows, is as cheap to copy as two pointers and can
//! be resumed. Several threads may therefore share the work of one batch.
//!
//! ```text
//! groups: varint, then per group  family: varint, entries: varint
//!   per entry  kind and effect: u8, key: bytes, [value: bytes if put]
//! ```

use crate::format::coding::put_varint;
use crate::format::reader::{Malformed, Reader};
use crate::types::{CountEffect, FamilyId, Kind, MAX_KEY_LEN};

/// The error for a kind of entry of a later version.
pub(super) const UNKNOWN_ENTRY: Malformed = "an unknown kind of entry";

/// Writes a batch. The numbers of groups, and of entries of each group, are given beforehand, because they
/// precede the counted parts.
#[derive(Debug)]
pub struct BatchBuilder {
    out: Vec<u8>,
    groups: usize,
    entries: usize,
}

impl BatchBuilder {
    /// A batch of `groups` groups, written after the present content of `out`.
    pub fn new(mut out: Vec<u8>, groups: usize) -> BatchBuilder {
        put_varint(&mut out, groups as u64);
        BatchBuilder { out, groups, entries: 0 }
    }

    /// Begins the group of `family`, of `entries` entries.
    ///
    /// # Panics
    /// Panics if the previous group is incomplete, or all announced groups are complete.
    pub fn group(&mut self, family: FamilyId, entries: usize) {
        assert!(self.entries == 0 && self.groups > 0, "groups have the entries that were announced");
        self.groups -= 1;
        self.entries = entries;
        put_varint(&mut self.out, family.into());
        put_varint(&mut self.out, entries as u64);
    }

    /// Appends an entry to the present group; `value` is stored when the kind is a put. One with an
    /// expiry begins with it (8 bytes), as everywhere.
    ///
    /// # Panics
    /// Panics if the group already has its announced entries, or the key is too long.
    pub fn entry(&mut self, kind: Kind, effect: CountEffect, key: &[u8], value: &[u8]) {
        assert!(self.entries > 0, "groups have the entries that were announced");
        assert!(key.len() <= MAX_KEY_LEN, "a key of {} bytes", key.len());
        self.entries -= 1;
        self.out.push(effect.log_byte(kind));
        put_varint(&mut self.out, key.len() as u64);
        self.out.extend_from_slice(key);
        if !kind.is_tombstone() {
            put_varint(&mut self.out, value.len() as u64);
            self.out.extend_from_slice(value);
        }
    }

    /// Bytes written so far, the buffer's earlier content included.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// The bytes.
    ///
    /// # Panics
    /// Panics if groups or entries are missing.
    pub fn finish(self) -> Vec<u8> {
        assert!(self.entries == 0 && self.groups == 0, "batches have the groups that were announced");
        self.out
    }
}

/// A copy of the batch in `bytes` with every put marked "may overwrite": the proof of its puts may be
/// lost.
pub fn without_proofs(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let entries: Vec<BatchEntry<'_>> = BatchReader::new(bytes)?.collect::<Result<_, _>>()?;
    let groups = || entries.chunk_by(|a, b| a.family == b.family);
    let mut builder = BatchBuilder::new(Vec::with_capacity(bytes.len()), groups().count());
    for group in groups() {
        builder.group(group[0].family, group.len());
        for BatchEntry { kind, effect, key, value, .. } in group.iter().copied() {
            builder.entry(kind.marked_may_overwrite(), effect, key, value);
        }
    }
    Ok(builder.finish())
}

/// One change of a batch, borrowed from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchEntry<'a> {
    /// Its family.
    pub family: FamilyId,
    /// Its operation.
    pub kind: Kind,
    /// Its effect on the number of rows.
    pub effect: CountEffect,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty for tombstones.
    pub value: &'a [u8],
}

/// Walks a batch. After an error it ends.
#[derive(Clone, Debug)]
pub struct BatchReader<'a> {
    cursor: Reader<'a>,
    groups: u64,
    family: FamilyId,
    entries: u64,
}

impl<'a> BatchReader<'a> {
    /// A reader at the start of the batch in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<BatchReader<'a>, Malformed> {
        let mut cursor = Reader { rest: bytes };
        let groups = cursor.varint()?;
        Ok(BatchReader { cursor, groups, family: 0, entries: 0 })
    }

    fn step(&mut self) -> Result<Option<BatchEntry<'a>>, Malformed> {
        while self.entries == 0 {
            if self.groups == 0 {
                self.cursor.end()?;
                return Ok(None);
            }
            self.groups -= 1;
            self.family = u32::try_from(self.cursor.varint()?).map_err(|_| "a family number is too big")?;
            self.entries = self.cursor.varint()?;
        }
        self.entries -= 1;
        let byte = self.cursor.u8()?;
        let (kind, effect) = CountEffect::from_log_byte(byte).ok_or(UNKNOWN_ENTRY)?;
        let key = self.cursor.bytes()?;
        if key.len() > MAX_KEY_LEN {
            return Err("a key is too long");
        }
        let value = if kind.is_tombstone() { &[] } else { self.cursor.bytes()? };
        if kind.has_expiry() && value.len() < 8 {
            return Err("an entry with an expiry has none");
        }
        Ok(Some(BatchEntry { family: self.family, kind, effect, key, value }))
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = Result<BatchEntry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            (self.cursor.rest, self.groups, self.entries) = (&[], 0, 0);
        }
        step.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Owned = (u32, Vec<(u8, Vec<u8>, Vec<u8>)>);

    fn groups() -> impl Strategy<Value = Vec<Owned>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        let known = (0..=u8::MAX).filter(|byte| CountEffect::from_log_byte(*byte).is_some());
        let kind = proptest::sample::select(known.collect::<Vec<u8>>());
        let entry = (kind, bytes(), bytes()).prop_filter("an expiry is there", |(kind, _, value)| {
            let (kind, _) = CountEffect::from_log_byte(*kind).unwrap();
            !kind.has_expiry() || (!kind.is_tombstone() && value.len() >= 8)
        });
        proptest::collection::vec((any::<u32>(), proptest::collection::vec(entry, 0..6)), 0..5)
    }

    proptest! {
        #[test]
        fn batches_round_trip_and_no_prefix_of_one_is_whole(groups in groups()) {
            let mut builder = BatchBuilder::new(b"before".to_vec(), groups.len());
            let mut expected = Vec::new();
            for (family, entries) in &groups {
                builder.group(*family, entries.len());
                for (kind, key, value) in entries {
                    let (kind, effect) = CountEffect::from_log_byte(*kind).unwrap();
                    builder.entry(kind, effect, key, value);
                    expected.push(BatchEntry {
                        family: *family,
                        kind,
                        effect,
                        key,
                        value: if kind.is_tombstone() { &[] } else { value },
                    });
                }
            }
            let bytes = builder.finish();
            let bytes = &bytes[6..];
            let read: Result<Vec<_>, _> = BatchReader::new(bytes).unwrap().collect();
            prop_assert_eq!(read.unwrap(), expected);
            for end in 0..bytes.len() {
                let whole = BatchReader::new(&bytes[..end]).map(|mut r| r.all(|e| e.is_ok()));
                prop_assert!(whole != Ok(true), "prefix of {end} bytes");
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(reader) = BatchReader::new(&bytes) {
                let _ = reader.take(1000).count();
            }
        }
    }
}
