//! The bytes of a value file (`docs/format/values.md`): a header, and records.

use crate::format::checksum;
use crate::format::coding::{u32_at, u64_at};
use crate::format::value_pointer::ValuePointer;
use crate::options::Compression;
use crate::types::{FamilyId, FileNo, MAX_KEY_LEN};

/// Length of a file's header.
pub(super) const FILE_HEADER: u64 = 64;

/// Length of a record's header.
pub(super) const RECORD_HEADER: usize = 40;

/// Records begin at multiples of it.
const ALIGN: u64 = 8;

/// Records begin at a sector where that wastes little.
const SECTOR: u64 = 512;

/// Bytes of a record for each byte of padding before it, at least.
const LEAST_PER_PADDING: u64 = 32;

const MAGIC: [u8; 8] = *b"TDBVALUE";
const VERSION: u32 = 1;

/// The header of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileHeader {
    pub number: FileNo,
    pub epoch: u64,
}

impl FileHeader {
    pub(super) fn encode(self) -> [u8; FILE_HEADER as usize] {
        let mut bytes = [0; FILE_HEADER as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.epoch.to_le_bytes());
        let crc = checksum::crc(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// The header of a record, without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordHeader {
    pub stored_len: u32,
    pub raw_len: u32,
    pub key_len: u32,
    pub family: FamilyId,
    pub compression: Compression,
    /// Where the record was written.
    pub file: FileNo,
    pub offset: u64,
}

impl RecordHeader {
    /// The bytes of the header, with the checksum over them and `body`: the stored value, in pieces, and the key.
    pub(super) fn encode(&self, body: &[&[u8]]) -> [u8; RECORD_HEADER] {
        let mut bytes = [0; RECORD_HEADER];
        bytes[4..8].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.raw_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.key_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.family.to_le_bytes());
        bytes[20] = self.compression as u8;
        bytes[24..32].copy_from_slice(&self.file.to_le_bytes());
        bytes[32..].copy_from_slice(&self.offset.to_le_bytes());
        let crc = checksum::crc(&bytes[4..]);
        let crc = body.iter().fold(crc, |crc, part| checksum::extend(crc, part));
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Checks the lengths and the place in a record's header against the pointer that led to it.
    pub(super) fn check_place(header: &[u8], pointer: &ValuePointer) -> Result<(), &'static str> {
        let is = |at, expected| u32_at(header, at).map(u64::from) == Some(expected);
        let is_right = is(4, pointer.stored_len)
            && is(8, pointer.raw_len)
            && u32_at(header, 12).is_some_and(|key_len| key_len as usize <= MAX_KEY_LEN)
            && u64_at(header, 24) == Some(pointer.file)
            && u64_at(header, 32) == Some(pointer.offset);
        match is_right {
            true => Ok(()),
            false => Err("no record of the value that an entry points to"),
        }
    }

    /// Checks a record's header and stored bytes against the pointer that led to them, and returns the compression. The key
    /// after them is not needed.
    pub(super) fn check(
        header: &[u8],
        stored: &[u8],
        pointer: &ValuePointer,
    ) -> Result<Compression, &'static str> {
        RecordHeader::check_place(header, pointer)?;
        if checksum::crc(stored) != pointer.crc {
            return Err("the checksum of a value");
        }
        header.get(20).copied().and_then(Compression::from_byte).ok_or("the compression of a value")
    }

    /// Checks a whole record, its key too.
    pub(super) fn check_record(record: &[u8], pointer: &ValuePointer) -> Result<(), &'static str> {
        let (header, rest) = record.split_at_checked(RECORD_HEADER).ok_or("a record that is cut short")?;
        let stored_len = usize::try_from(pointer.stored_len).unwrap_or(usize::MAX);
        RecordHeader::check(header, rest.get(..stored_len).unwrap_or_default(), pointer)?;
        match u32_at(record, 0) == Some(checksum::crc(&record[4..])) {
            true => Ok(()),
            false => Err("the checksum of a record"),
        }
    }

    /// Length of the record with this header, in bytes.
    pub(super) fn record_len(header: &[u8]) -> usize {
        let field = |at| u32_at(header, at).unwrap_or(0) as usize;
        RECORD_HEADER + field(4) + field(12)
    }
}

/// The first place at or after `end` for a record of `len` bytes.
pub(super) fn place_after(end: u64, len: u64) -> u64 {
    let sector = end.next_multiple_of(SECTOR);
    match (sector - end) * LEAST_PER_PADDING <= len {
        true => sector,
        false => end.next_multiple_of(ALIGN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> (RecordHeader, ValuePointer, &'static [u8]) {
        let stored = b"value as stored";
        let header = RecordHeader {
            stored_len: stored.len() as u32,
            raw_len: 20,
            key_len: 3,
            family: 7,
            compression: Compression::Lz4,
            file: 9,
            offset: 512,
        };
        let crc = checksum::crc(stored);
        let pointer = ValuePointer {
            file: 9,
            offset: 512,
            stored_len: stored.len() as u64,
            raw_len: 20,
            crc,
            kept: false,
        };
        (header, pointer, stored)
    }

    #[test]
    fn a_record_is_read_by_its_own_pointer_alone() {
        let (header, pointer, stored) = record();
        let bytes = header.encode(&[stored, b"key"]);
        assert_eq!(RecordHeader::check(&bytes, stored, &pointer), Ok(Compression::Lz4));
        for other in [
            ValuePointer { file: 8, ..pointer },
            ValuePointer { offset: 520, ..pointer },
            ValuePointer { raw_len: 21, ..pointer },
            ValuePointer { stored_len: 14, ..pointer },
            ValuePointer { crc: pointer.crc ^ 1, ..pointer },
        ] {
            assert!(RecordHeader::check(&bytes, stored, &other).is_err(), "{other:?}");
        }
        assert!(RecordHeader::check(&bytes, b"value as stoned", &pointer).is_err());
        let mut whole = [&bytes[..], stored, b"key"].concat();
        assert_eq!(RecordHeader::check_record(&whole, &pointer), Ok(()));
        for cut in 0..whole.len() {
            assert!(RecordHeader::check_record(&whole[..cut], &pointer).is_err(), "{cut} bytes");
        }
        *whole.last_mut().expect("has a key") ^= 1;
        assert!(RecordHeader::check_record(&whole, &pointer).is_err());
        let mut later = bytes;
        later[20] = 200;
        assert!(RecordHeader::check(&later, stored, &pointer).is_err());
    }

    #[test]
    fn a_record_begins_at_a_sector_where_that_is_cheap() {
        assert_eq!(place_after(64, 20_000), 512);
        assert_eq!(place_after(64, 4_000), 64);
        assert_eq!(place_after(65, 4_000), 72);
        assert_eq!(place_after(1000, 4_000), 1024);
        assert_eq!(place_after(1024, 1), 1024);
    }
}
