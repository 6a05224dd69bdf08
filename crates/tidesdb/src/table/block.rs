//! The block on disk: a payload and a trailer with compression, flags and checksum
//! (`docs/format/table.md`, "Blocks"). Writing encodes a payload, reading checks and decodes it.

use crate::format::coding::u32_at;
use crate::format::{checksum, compression};
use crate::options::Compression;

/// Bytes of a trailer.
pub(super) const TRAILER_LEN: usize = 16;

/// The flag of a sealed block: a tag stands between payload and trailer.
const SEALED: u8 = 1;

/// Codec 0: the layout of the block's kind.
const PLAIN: u8 = 0;
/// Codec 1: lists of postings, in data blocks.
const POSTINGS: u8 = 1;

/// Longest payload of a block, in bytes.
pub(super) const MAX_PAYLOAD: usize = u32::MAX as usize;

/// The reason that stored bytes do not decode. Becomes [`crate::Error::Corruption`] once the file is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DecodeError {
    /// The reason.
    pub what: &'static str,
    /// True if the bytes are intact, but of a later version.
    pub later: bool,
}

impl DecodeError {
    /// Damaged bytes.
    pub(super) const fn damage(what: &'static str) -> DecodeError {
        DecodeError { what, later: false }
    }

    /// Intact bytes of a later version.
    const fn later(what: &'static str) -> DecodeError {
        DecodeError { what, later: true }
    }
}

/// Error for a footer of a later version.
pub(super) const LATER_VERSION: DecodeError =
    DecodeError::later("a table format version that this build does not know");
/// Error for a filter of a later version.
pub(super) const LATER_LAYOUT: DecodeError =
    DecodeError::later("a filter layout that this build does not know");
/// Error for features of a later version.
pub(super) const LATER_FEATURES: DecodeError =
    DecodeError::later("reserved bytes of a footer are in use (encryption?)");
/// Error for sealed tables.
pub(super) const SEALED_TABLE: DecodeError = DecodeError::later("a sealed table");
/// Error for sealed blocks.
pub(super) const SEALED_BLOCK: DecodeError = DecodeError::later("a sealed block");
/// Error for other flags of a block.
const LATER_FLAGS: DecodeError = DecodeError::later("block flags that this build does not know");
/// Error for compression with a dictionary.
const DICTIONARY: DecodeError = DecodeError::later("a block compressed with a dictionary");
/// Errors for block codecs.
pub(super) const LATER_POSTINGS: DecodeError =
    DecodeError::later("lists of postings in a form that this build does not know");
const LATER_CODEC: DecodeError = DecodeError::later("a block codec with a number above 1");
/// Error for bounds of blocks in the index.
pub(super) const LATER_BOUNDS: DecodeError = DecodeError::later("bounds of blocks in a table's index");
/// Error for reserved flags and bytes of a keyed block.
pub(super) const LATER_KEYED: DecodeError =
    DecodeError::later("flags or reserved bytes of a keyed block that this build does not know");
/// Error for reserved bytes of a filter.
pub(super) const LATER_FILTER: DecodeError = DecodeError::later("reserved bytes of a filter are in use");
/// Error for a property that must not be skipped.
pub(super) const LATER_PROPERTY: DecodeError =
    DecodeError::later("a property of a table that this build does not know");

/// The kind of a block, stored as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum BlockKind {
    /// Keys and versions.
    Data = 1,
    /// Bloom filter lines.
    Filter = 2,
    /// Separators of data blocks.
    Index = 3,
    /// Separators of index partitions.
    TopIndex = 4,
    /// Properties.
    Properties = 5,
}

/// Largest sector that data blocks may be aligned to, in bytes: padding between two of them is below it.
const LARGEST_SECTOR: u64 = 4096;

/// The place of a block in its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BlockHandle {
    /// Offset from the start of the table, in bytes.
    pub offset: u64,
    /// Length in bytes, trailer included.
    pub len: u64,
}

impl BlockHandle {
    /// Offset of the first byte after the block; `None` on overflow.
    pub fn end(self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }

    /// Both blocks and the bytes between them; `None` if those are more than padding.
    pub fn joined(self, other: BlockHandle) -> Option<BlockHandle> {
        let (first, second) = if self.offset <= other.offset { (self, other) } else { (other, self) };
        let padding = second.offset.checked_sub(first.end()?)?;
        let len = second.end()? - first.offset;
        (padding < LARGEST_SECTOR).then_some(BlockHandle { offset: first.offset, len })
    }
}

/// The form of a block's stored bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StoredAs {
    /// The layout of its kind, compressed.
    Plain(Compression),
    /// Lists of postings.
    Postings,
}

fn block_crc(stored: &[u8], trailer: &[u8], offset: u64) -> u32 {
    end_crc(checksum::crc(stored), trailer, offset)
}

/// The checksum of a block, from `crc` over its stored bytes.
fn end_crc(crc: u32, trailer: &[u8], offset: u64) -> u32 {
    checksum::extend(checksum::extend(crc, trailer), &offset.to_le_bytes())
}

/// The trailer of a block; `crc` covers the stored bytes.
fn trailer(form: StoredAs, kind: BlockKind, payload_len: usize, crc: u32, offset: u64) -> [u8; TRAILER_LEN] {
    let mut trailer = [0; TRAILER_LEN];
    let (method, codec) = match form {
        StoredAs::Plain(method) => (method, PLAIN),
        StoredAs::Postings => (Compression::None, POSTINGS),
    };
    trailer[0] = method as u8;
    trailer[2] = kind as u8;
    trailer[3] = codec;
    trailer[8..12].copy_from_slice(&(payload_len as u32).to_le_bytes());
    let crc = end_crc(crc, &trailer[..12], offset);
    trailer[12..].copy_from_slice(&crc.to_le_bytes());
    trailer
}

/// The trailer of an uncompressed block at `offset` of its table, stored as consecutive pieces.
pub(super) fn trailer_of_pieces<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    kind: BlockKind,
    offset: u64,
) -> [u8; TRAILER_LEN] {
    let add = |(len, crc), piece: &[u8]| (len + piece.len(), checksum::extend(crc, piece));
    let (len, crc) = pieces.fold((0, 0), add);
    trailer(StoredAs::Plain(Compression::None), kind, len, crc, offset)
}

/// Compresses `payload` with `method` if this pays. `packed` is scratch space and may receive the stored bytes.
/// Returns the bytes to store and their compression.
pub(super) fn pack<'a>(
    payload: &'a [u8],
    method: Compression,
    packed: &'a mut Vec<u8>,
) -> (&'a [u8], Compression) {
    let method = compression::compress(method, payload, packed);
    (if method == Compression::None { payload } else { packed }, method)
}

/// The trailer of a block at `offset` of its table, with the bytes of [`pack`] and `payload_len` bytes of payload.
pub(super) fn trailer_of(
    (stored, form): (&[u8], StoredAs),
    kind: BlockKind,
    payload_len: usize,
    offset: u64,
) -> [u8; TRAILER_LEN] {
    trailer(form, kind, payload_len, checksum::crc(stored), offset)
}

/// A block with a verified checksum.
pub(super) struct EncodedBlock<'a> {
    /// As they stand in the file, without the trailer.
    pub stored: &'a [u8],
    compression: Compression,
    /// True for lists of postings.
    pub is_postings: bool,
    /// Length of the payload in bytes.
    pub raw_len: usize,
}

/// Verifies a whole block read from `offset` of its table.
pub(super) fn check(block: &[u8], kind: BlockKind, offset: u64) -> Result<EncodedBlock<'_>, DecodeError> {
    let split = block
        .len()
        .checked_sub(TRAILER_LEN)
        .ok_or(DecodeError::damage("a block shorter than its trailer"))?;
    let (stored, trailer) = block.split_at(split);
    check_stored(stored, trailer, kind, offset)
}

/// True for the trailer of an uncompressed block.
pub(super) fn is_stored_plain(trailer: &[u8; TRAILER_LEN]) -> bool {
    trailer[0] == Compression::None as u8
}

/// Like [`check`], with the trailer ([`TRAILER_LEN`] bytes) apart from the bytes before it.
pub(super) fn check_stored<'a>(
    stored: &'a [u8],
    trailer: &[u8],
    kind: BlockKind,
    offset: u64,
) -> Result<EncodedBlock<'a>, DecodeError> {
    if u32_at(trailer, 12) != Some(block_crc(stored, &trailer[..12], offset)) {
        return Err(DecodeError::damage("block checksum mismatch"));
    }
    if trailer[1] != 0 {
        return Err(if trailer[1] == SEALED { SEALED_BLOCK } else { LATER_FLAGS });
    }
    if trailer[2] != kind as u8 {
        return Err(DecodeError::damage("a block of another kind than expected"));
    }
    match trailer[3] {
        PLAIN | POSTINGS if trailer[4..8] == [0; 4] => {}
        PLAIN => return Err(DICTIONARY),
        POSTINGS => return Err(LATER_POSTINGS),
        _ => return Err(LATER_CODEC),
    }
    let compression = Compression::from_byte(trailer[0])
        .ok_or(DecodeError::damage("a compression that this build lacks"))?;
    let raw_len = u32_at(trailer, 8).unwrap_or(0) as usize;
    if compression == Compression::None && raw_len != stored.len() {
        return Err(DecodeError::damage("length of an uncompressed block"));
    }
    let is_postings = trailer[3] == POSTINGS;
    if is_postings && (kind != BlockKind::Data || compression != Compression::None) {
        return Err(LATER_POSTINGS);
    }
    Ok(EncodedBlock { stored, compression, is_postings, raw_len })
}

impl EncodedBlock<'_> {
    /// Decodes into `payload`, a buffer of [`EncodedBlock::raw_len`] bytes.
    pub fn decode(&self, payload: &mut [u8]) -> Result<(), DecodeError> {
        compression::decompress(self.compression, self.stored, payload)
            .map_err(|_| DecodeError::damage("a block that does not decompress"))
    }
}
