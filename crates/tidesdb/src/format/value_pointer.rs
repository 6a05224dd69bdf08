//! The stored form of a value in a value file: its first part, and a pointer to the rest (`docs/format.md`, "Entries"). It
//! stands after the time of expiry, where an inline value would. After WiscKey (Lu et al., FAST 2016) and Pebble's blob
//! handles.

use super::coding::{get_bytes, get_len, get_varint, put_bytes, put_varint};
use crate::types::FileNo;

/// The version of the form.
const VERSION: u8 = 1;

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
}

impl ValuePointer {
    /// Appends the form with `first` as the value's first part.
    pub fn encode(&self, first: &[u8], out: &mut Vec<u8>) {
        put_bytes(out, first);
        out.push(VERSION);
        for number in [self.file, self.offset, self.stored_len, self.raw_len] {
            put_varint(out, number);
        }
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    /// Reads the form: the first part and the pointer. `None` for bytes that are none.
    pub fn decode(bytes: &[u8]) -> Option<(&[u8], ValuePointer)> {
        let mut at = 0;
        let first = get_bytes(bytes, &mut at)?;
        if *bytes.get(at)? != VERSION {
            return None;
        }
        at += 1;
        let file = get_varint(bytes, &mut at)?;
        let offset = get_varint(bytes, &mut at)?;
        let stored_len = get_len(bytes, &mut at)? as u64;
        let raw_len = get_len(bytes, &mut at)? as u64;
        let crc = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        let pointer = ValuePointer { file, offset, stored_len, raw_len, crc };
        (at + 4 == bytes.len() && stored_len <= raw_len).then_some((first, pointer))
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
            (file, offset, crc) in any::<(u64, u64, u32)>(),
            (stored_len, more) in (0..1u64 << 40, 0..1u64 << 40),
        ) {
            let pointer = ValuePointer { file, offset, stored_len, raw_len: stored_len + more, crc };
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
        let pointer = ValuePointer { file: 7, offset: 64, stored_len: 3, raw_len: 3, crc: 9 };
        let mut bytes = Vec::new();
        pointer.encode(b"", &mut bytes);
        assert_eq!(bytes[1], VERSION);
        bytes[1] = 2;
        assert_eq!(ValuePointer::decode(&bytes), None);
    }
}
