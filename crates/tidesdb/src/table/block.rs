//! The block on disk: a payload and a trailer with compression, flags and checksum
//! (`docs/format/table.md`, "Blocks"). Writing encodes a payload, reading checks and decodes it.

use crate::format::coding::u32_at;
use crate::format::{checksum, compression};
use crate::options::Compression;

/// Bytes of a trailer.
pub(super) const TRAILER_LEN: usize = 16;

/// Longest payload of a block, in bytes.
pub(super) const MAX_PAYLOAD: usize = u32::MAX as usize;

/// The reason that stored bytes do not decode. Becomes [`crate::Error::Corruption`] once the file is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DecodeError(pub &'static str);

/// Error for a footer of a later version.
pub(super) const LATER_VERSION: DecodeError =
    DecodeError("a table format version that this build does not know");
/// Error for a filter of a later version.
pub(super) const LATER_LAYOUT: DecodeError = DecodeError("a filter layout that this build does not know");
/// Error for features of a later version.
pub(super) const LATER_FEATURES: DecodeError =
    DecodeError("reserved bytes of a footer are in use (encryption?)");

impl DecodeError {
    /// True if the bytes are intact but of a later version.
    pub(super) fn is_later(&self) -> bool {
        [LATER_VERSION, LATER_LAYOUT, LATER_FEATURES].contains(self)
    }
}

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
}

fn block_crc(stored: &[u8], trailer: &[u8], offset: u64) -> u32 {
    end_crc(checksum::crc(stored), trailer, offset)
}

/// The checksum of a block, from `crc` over its stored bytes.
fn end_crc(crc: u32, trailer: &[u8], offset: u64) -> u32 {
    checksum::extend(checksum::extend(crc, trailer), &offset.to_le_bytes())
}

/// The trailer of a block as [`encode`] makes it; `crc` covers the stored bytes.
fn trailer(
    method: Compression,
    kind: BlockKind,
    payload_len: usize,
    crc: u32,
    offset: u64,
) -> [u8; TRAILER_LEN] {
    let mut trailer = [0; TRAILER_LEN];
    trailer[0] = method as u8;
    trailer[2] = kind as u8;
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
    trailer(Compression::None, kind, len, crc, offset)
}

/// Encodes `payload`, for a block at `offset` of its table. Compresses it with `method` if this pays.
/// `packed` is scratch space and may receive the stored bytes. Returns the stored bytes and the trailer to
/// follow them.
pub(super) fn encode<'a>(
    payload: &'a [u8],
    kind: BlockKind,
    method: Compression,
    offset: u64,
    packed: &'a mut Vec<u8>,
) -> (&'a [u8], [u8; TRAILER_LEN]) {
    let method = compression::compress(method, payload, packed);
    let stored = if method == Compression::None { payload } else { packed };
    (stored, trailer(method, kind, payload.len(), checksum::crc(stored), offset))
}

/// A block with a verified checksum.
pub(super) struct EncodedBlock<'a> {
    stored: &'a [u8],
    compression: Compression,
    /// Length of the payload in bytes.
    pub raw_len: usize,
}

/// Verifies a whole block read from `offset` of its table.
pub(super) fn check(block: &[u8], kind: BlockKind, offset: u64) -> Result<EncodedBlock<'_>, DecodeError> {
    let split =
        block.len().checked_sub(TRAILER_LEN).ok_or(DecodeError("a block shorter than its trailer"))?;
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
        return Err(DecodeError("block checksum mismatch"));
    }
    if trailer[1] != 0 {
        return Err(DecodeError("block flags that this version does not know (encryption?)"));
    }
    if trailer[2] != kind as u8 {
        return Err(DecodeError("a block of another kind than expected"));
    }
    if trailer[3] != 0 || trailer[4..8] != [0; 4] {
        return Err(DecodeError("reserved bytes of a block trailer are in use (compression dictionary?)"));
    }
    let compression =
        Compression::from_byte(trailer[0]).ok_or(DecodeError("a compression that this build lacks"))?;
    let raw_len = u32_at(trailer, 8).unwrap_or(0) as usize;
    if compression == Compression::None && raw_len != stored.len() {
        return Err(DecodeError("length of an uncompressed block"));
    }
    Ok(EncodedBlock { stored, compression, raw_len })
}

impl EncodedBlock<'_> {
    /// Decodes into `payload`, a buffer of [`EncodedBlock::raw_len`] bytes.
    pub fn decode(&self, payload: &mut [u8]) -> Result<(), DecodeError> {
        compression::decompress(self.compression, self.stored, payload)
            .map_err(|_| DecodeError("a block that does not decompress"))
    }
}
