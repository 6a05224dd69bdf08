//! Segments of the log: the header, the frames, the fragments (`docs/format/wal.md`). Bytes only; the writer
//! and the reader do the I/O, in files next to this one.

use std::path::{Path, PathBuf};

use crate::format::checksum;
use crate::options::FormatVersion;
use crate::types::FileNo;

/// Bytes of a frame; no fragment crosses a multiple of it.
pub(super) const FRAME: u32 = 32 << 10;

/// Bytes of the segment header.
pub(super) const SEGMENT_HEADER: u32 = 64;

/// Bytes of a fragment's header.
pub(super) const FRAGMENT_HEADER: u32 = 8;

/// Least room in a frame for the start of a record: a fragment header, the record's header and its sequence
/// number. The first fragment alone then has them all.
pub(super) const RECORD_START: u32 = FRAGMENT_HEADER + super::record::HEADER as u32 + 8;

/// Least size of a segment (tests).
pub(super) const MIN_SEGMENT: u32 = 256;

const MAGIC: &[u8; 8] = b"TIDESWAL";

/// The flag of a sealed fragment.
const SEALED: u8 = 1;

/// The content of a segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHeader {
    /// Version of the segment's format.
    pub(super) version: FormatVersion,
    /// Segment id, never 0.
    pub(super) id: u32,
    /// The epoch of its writer.
    pub(super) epoch: u64,
    /// Bytes of the segment, this header included.
    pub(super) size: u32,
    /// Id of the epoch's first segment.
    pub(super) first: u32,
}

/// An unusable header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BadHeader {
    /// Not a header at all, or a damaged one.
    Invalid,
    /// A header of a later version, or with features unknown to this one.
    Unknown(&'static str),
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER as usize] {
        let mut out = [0; SEGMENT_HEADER as usize];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&self.version.number().to_le_bytes());
        out[12..16].copy_from_slice(&self.id.to_le_bytes());
        out[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        out[24..28].copy_from_slice(&self.size.to_le_bytes());
        out[28..32].copy_from_slice(&self.first.to_le_bytes());
        let crc = checksum::crc(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; SEGMENT_HEADER as usize]) -> Result<SegmentHeader, BadHeader> {
        if &bytes[..8] != MAGIC || u32_at(bytes, 60) != checksum::crc(&bytes[..60]) {
            return Err(BadHeader::Invalid);
        }
        let Some(version) = FormatVersion::from_number(u32_at(bytes, 8)) else {
            return Err(BadHeader::Unknown("a format version that this build does not know"));
        };
        if bytes[32..60].iter().any(|b| *b != 0) {
            return Err(BadHeader::Unknown("sealed fragments"));
        }
        let (low, high) = (u32_at(bytes, 16), u32_at(bytes, 20));
        let header = SegmentHeader {
            version,
            id: u32_at(bytes, 12),
            epoch: u64::from(high) << 32 | u64::from(low),
            size: u32_at(bytes, 24),
            first: u32_at(bytes, 28),
        };
        if header.id == 0 || header.first == 0 || header.first > header.id || !size_is_valid(header.size) {
            return Err(BadHeader::Invalid);
        }
        Ok(header)
    }
}

/// True if segments may have this size: whole frames, or less than one.
pub(super) fn size_is_valid(size: u32) -> bool {
    (MIN_SEGMENT..=1 << 30).contains(&size) && (size <= FRAME || size % FRAME == 0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The part of a record in a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Part {
    /// All of it.
    Full = 1,
    /// The start.
    First = 2,
    /// Neither start nor end.
    Middle = 3,
    /// The end.
    Last = 4,
}

impl Part {
    pub(super) fn new(first: bool, last: bool) -> Part {
        match (first, last) {
            (true, true) => Part::Full,
            (true, false) => Part::First,
            (false, false) => Part::Middle,
            (false, true) => Part::Last,
        }
    }

    pub(super) fn starts(self) -> bool {
        matches!(self, Part::Full | Part::First)
    }

    pub(super) fn ends(self) -> bool {
        matches!(self, Part::Full | Part::Last)
    }
}

/// Offset of the end of the frame around `offset`, in a segment of `size` bytes.
pub(super) fn frame_end(offset: u32, size: u32) -> u32 {
    (offset / FRAME + 1).saturating_mul(FRAME).min(size)
}

/// The start of the next record after a record with the end `offset`; `None`: in the next segment.
pub(super) fn record_start(offset: u32, size: u32) -> Option<u32> {
    let end = frame_end(offset, size);
    if offset < size && end - offset >= RECORD_START {
        Some(offset)
    } else if end < size {
        Some(end)
    } else {
        None
    }
}

/// Most log space of a record of `len` bytes: fragment headers, padding and segment headers included,
/// wherever it begins.
pub(super) fn footprint(len: usize, segment_size: u32) -> u64 {
    let overhead = u64::from(FRAGMENT_HEADER + RECORD_START + SEGMENT_HEADER);
    let room = u64::from(FRAME.min(segment_size)) - overhead;
    let len = len as u64;
    len + (len / room + 2) * overhead
}

/// A running checksum for fragments of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal {
    id: u32,
    epoch: u64,
}

impl Seal {
    pub(super) fn new(id: u32, epoch: u64) -> Seal {
        Seal { id, epoch }
    }

    /// Checksum of the fragment at `offset`: over its bytes from the length on, `head` and `payload`.
    fn crc(&self, offset: u32, head: [u8; 4], payload: &[u8]) -> u32 {
        let mut start = [0; 20];
        start[..4].copy_from_slice(&self.id.to_le_bytes());
        start[4..12].copy_from_slice(&self.epoch.to_le_bytes());
        start[12..16].copy_from_slice(&offset.to_le_bytes());
        start[16..].copy_from_slice(&head);
        checksum::extend(checksum::crc(&start), payload)
    }

    /// The header of a fragment at `offset`. `payload` fits into a frame.
    pub(super) fn header(&self, offset: u32, part: Part, payload: &[u8]) -> [u8; 8] {
        let [low, high] = (payload.len() as u16).to_le_bytes();
        let head = [low, high, part as u8, 0];
        let [a, b, c, d] = self.crc(offset, head, payload).to_le_bytes();
        [a, b, c, d, low, high, part as u8, 0]
    }

    /// The fragment at the start of `bytes`, the bytes from `offset` to the end of its frame.
    pub(super) fn open<'a>(&self, offset: u32, bytes: &'a [u8]) -> Fragment<'a> {
        let Some((head, rest)) = bytes.split_at_checked(FRAGMENT_HEADER as usize) else {
            return Fragment::Invalid("its header is cut off");
        };
        let len = usize::from(u16::from_le_bytes([head[4], head[5]]));
        if head.iter().all(|b| *b == 0) {
            return Fragment::Invalid("nothing was written here");
        }
        let Some(payload) = rest.get(..len) else {
            return Fragment::Invalid("it is longer than its frame");
        };
        if u32_at(head, 0) != self.crc(offset, [head[4], head[5], head[6], head[7]], payload) {
            return Fragment::Invalid("its checksum is wrong");
        }
        if head[7] == SEALED {
            return Fragment::Unknown("a sealed fragment");
        }
        if head[7] != 0 {
            return Fragment::Unknown("fragment flags of a later version");
        }
        let part = match head[6] {
            1 => Part::Full,
            2 => Part::First,
            3 => Part::Middle,
            4 => Part::Last,
            _ => return Fragment::Unknown("a fragment type of a later version"),
        };
        Fragment::Valid(part, payload)
    }
}

/// The content at an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fragment<'a> {
    /// A fragment of this segment and epoch, with its payload.
    Valid(Part, &'a [u8]),
    /// Nothing of this segment and epoch; why.
    Invalid(&'static str),
    /// A fragment of this segment and epoch, in a format unknown to this build.
    Unknown(&'static str),
}

/// The log's directory in a store's directory.
pub(crate) fn log_dir(store: &Path) -> PathBuf {
    store.join("wal")
}

/// Path of a physical file of the log.
pub(crate) fn file_path(store: &Path, number: FileNo) -> PathBuf {
    log_dir(store).join(format!("{number:06}.wal"))
}

/// The number in a name made by [`file_path`].
pub(super) fn file_number(name: &str) -> Option<FileNo> {
    let digits = name.strip_suffix(".wal")?;
    if digits.len() < 6 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_every_bit_counts() {
        for version in [FormatVersion::One, FormatVersion::Two] {
            let header = SegmentHeader { version, id: 7, epoch: 1 << 40, size: 64 << 10, first: 5 };
            let bytes = header.encode();
            assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
            for bit in 0..512 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(SegmentHeader::decode(&flipped), Err(BadHeader::Invalid));
            }
            let mended = |at: usize, value| {
                let mut bytes = bytes;
                bytes[at] = value;
                let crc = checksum::crc(&bytes[..60]);
                bytes[60..].copy_from_slice(&crc.to_le_bytes());
                SegmentHeader::decode(&bytes)
            };
            for at in 32..60 {
                assert_eq!(mended(at, 1), Err(BadHeader::Unknown("sealed fragments")), "byte {at}");
            }
            assert!(matches!(mended(8, 3), Err(BadHeader::Unknown(what)) if what.contains("version")));
        }
    }

    #[test]
    fn the_bytes_of_both_versions_stay() {
        for (version, number) in [(FormatVersion::One, 1), (FormatVersion::Two, 2)] {
            let header = SegmentHeader { version, id: 0x0102, epoch: 3, size: 64 << 10, first: 4 };
            let mut expected = b"TIDESWAL".to_vec();
            expected.extend_from_slice(&[
                number, 0, 0, 0, 2, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0,
            ]);
            expected.resize(60, 0);
            expected.extend_from_slice(&checksum::crc(&expected).to_le_bytes());
            assert_eq!(header.encode()[..], expected);
        }
    }

    #[test]
    fn each_flag_of_a_fragment_is_refused_by_name() {
        let seal = Seal::new(3, 9);
        for flags in 1..=255 {
            let head = [7, 0, Part::Full as u8, flags];
            let crc = seal.crc(100, head, b"payload");
            let bytes = [&crc.to_le_bytes()[..], &head, b"payload"].concat();
            let expected = if flags == 1 { "a sealed fragment" } else { "fragment flags of a later version" };
            assert_eq!(seal.open(100, &bytes), Fragment::Unknown(expected));
        }
    }

    #[test]
    fn a_fragment_is_valid_at_one_place_of_one_life_only() {
        let seal = Seal::new(3, 9);
        let mut bytes = seal.header(100, Part::First, b"payload").to_vec();
        bytes.extend_from_slice(b"payload, and what follows");
        assert_eq!(seal.open(100, &bytes), Fragment::Valid(Part::First, b"payload"));
        for (id, epoch, offset) in [(4, 9, 100), (3, 8, 100), (3, 9, 101)] {
            assert!(matches!(Seal::new(id, epoch).open(offset, &bytes), Fragment::Invalid(_)));
        }
        assert!(matches!(seal.open(100, &bytes[..14]), Fragment::Invalid(_)));
        for bit in 0..15 * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(seal.open(100, &flipped), Fragment::Valid(..)), "bit {bit}");
        }
    }

    #[test]
    fn records_start_where_their_header_fits() {
        let size = 2 * FRAME;
        assert_eq!(record_start(64, size), Some(64));
        assert_eq!(record_start(FRAME - RECORD_START, size), Some(FRAME - RECORD_START));
        assert_eq!(record_start(FRAME - RECORD_START + 1, size), Some(FRAME));
        assert_eq!(record_start(FRAME, size), Some(FRAME));
        assert_eq!(record_start(size - RECORD_START, size), Some(size - RECORD_START));
        assert_eq!(record_start(size - 1, size), None);
        assert_eq!(record_start(size, size), None);
        assert_eq!(record_start(250, 256), None);
    }

    #[test]
    fn file_names() {
        let path = file_path(Path::new("/db"), 12);
        assert_eq!(path, Path::new("/db/wal/000012.wal"));
        assert_eq!(file_number("000012.wal"), Some(12));
        assert_eq!(file_number("1234567.wal"), Some(1_234_567));
        assert_eq!(
            (file_number("12.wal"), file_number("00001a.wal"), file_number("000001.sst")),
            (None, None, None)
        );
    }
}
