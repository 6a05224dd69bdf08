//! The stored form of a value in a value file: its first part, and a pointer to the rest (`docs/format.md`, "Entries"). It
//! stands after the time of expiry, where an inline value would. After WiscKey (Lu et al., FAST 2016) and Pebble's blob
//! handles.

use super::coding::{get_bytes, get_len, get_varint, put_bytes, put_varint};
use crate::types::FileNo;

/// The version of the form, where the value was written for this entry.
const WRITTEN: u8 = 1;

/// The same, of a value that an older version of the key has too.
const KEPT: u8 = 2;

/// The place of a value in a value file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValuePointer {
    /// The value file in which the value was written.
    pub file: FileNo,
    /// Offset of the value's record in it, in bytes.
    pub offset: u64,
    /// Bytes as stored, perhaps compressed.
    pub stored_len: u64,
    /// Bytes of the value.
    pub raw_len: u64,
    /// CRC-32C of the stored bytes.
    pub crc: u32,
    /// An older version of the key has the value too: it was committed before the entry was made.
    pub kept: bool,
}

impl ValuePointer {
    /// Appends the form with `first` as the value's first part.
    pub fn encode(&self, first: &[u8], out: &mut Vec<u8>) {
        put_bytes(out, first);
        out.push(if self.kept { KEPT } else { WRITTEN });
        for number in [self.file, self.offset, self.stored_len, self.raw_len] {
            put_varint(out, number);
        }
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    /// Reads the form: the first part and the pointer. `None` for bytes that are none.
    pub fn decode(bytes: &[u8]) -> Option<(&[u8], ValuePointer)> {
        let (first, place) = ValuePointer::split(bytes)?;
        Some((first, ValuePointer::decode_place(place)?))
    }

    /// The first part, and the bytes that say where the rest is.
    pub fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let mut at = 0;
        let first = get_bytes(bytes, &mut at)?;
        Some((first, &bytes[at..]))
    }

    /// True if both are of the same record.
    pub fn has_place_of(&self, other: &ValuePointer) -> bool {
        *self == ValuePointer { kept: self.kept, ..*other }
    }

    /// Reads the bytes after the first part.
    pub fn decode_place(bytes: &[u8]) -> Option<ValuePointer> {
        let (&version, mut at) = (bytes.first()?, 1);
        if version != WRITTEN && version != KEPT {
            return None;
        }
        let file = get_varint(bytes, &mut at)?;
        let offset = get_varint(bytes, &mut at)?;
        let stored_len = get_len(bytes, &mut at)? as u64;
        let raw_len = get_len(bytes, &mut at)? as u64;
        let crc = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        let pointer = ValuePointer { file, offset, stored_len, raw_len, crc, kept: version == KEPT };
        (at + 4 == bytes.len() && stored_len <= raw_len).then_some(pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pointers_round_trip_and_no_cut_of_one_is_another(
            first in proptest::collection::vec(any::<u8>(), 0..20),
            (file, offset, crc, kept) in any::<(u64, u64, u32, bool)>(),
            (stored_len, more) in (0..1u64 << 40, 0..1u64 << 40),
        ) {
            let pointer = ValuePointer { file, offset, stored_len, raw_len: stored_len + more, crc, kept };
            let mut bytes = Vec::new();
            pointer.encode(&first, &mut bytes);
            prop_assert_eq!(ValuePointer::decode(&bytes), Some((&first[..], pointer)));
            for end in 0..bytes.len() {
                prop_assert_eq!(ValuePointer::decode(&bytes[..end]), None, "{} bytes", end);
            }
            bytes.push(0);
            prop_assert_eq!(ValuePointer::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = ValuePointer::decode(&bytes);
        }
    }

    #[test]
    fn another_version_is_no_pointer() {
        let pointer = ValuePointer { file: 7, offset: 64, stored_len: 3, raw_len: 3, crc: 9, kept: false };
        let mut bytes = Vec::new();
        pointer.encode(b"", &mut bytes);
        assert_eq!(bytes[1], WRITTEN);
        bytes[1] = KEPT + 1;
        assert_eq!(ValuePointer::decode(&bytes), None);
    }
}
