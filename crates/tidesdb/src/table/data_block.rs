//! Data blocks: keyed blocks with the versions of a key, newest first, as bodies (`docs/format/table.md`,
//! "Data blocks").

use std::ops::Range;

use super::block::DecodeError;
use crate::cache::work;
use crate::format::coding::{get_len, get_varint, put_varint, varint_len};
use crate::types::{Entry, Kind, Seq};

/// Flag: newer versions of the first key are in the block before.
pub(super) const CONTINUES: u32 = 1;
/// Flag: older versions of the last key are in the next block.
pub(super) const CONTINUED: u32 = 2;

/// Bit of a tag: an older version follows in this body.
const MORE: u8 = 0x80;

/// Most bytes of a tag and a sequence number together.
const VERSION_OVERHEAD: usize = 1 + 8;

/// Appends a version and returns the position of its tag. `newer` is the tag's position of the next newer
/// version of the same key, if this body has one.
pub(super) fn put_version(body: &mut Vec<u8>, entry: &Entry<'_>, newer: Option<usize>) -> usize {
    put_large_version(body, entry, newer, 0)
}

/// Like [`put_version`], for a value with `more` further bytes, appended later by the caller.
pub(super) fn put_large_version(
    body: &mut Vec<u8>,
    entry: &Entry<'_>,
    newer: Option<usize>,
    more: usize,
) -> usize {
    if let Some(tag) = newer.and_then(|at| body.get_mut(at)) {
        *tag |= MORE;
    }
    let at = body.len();
    body.push(entry.kind.byte());
    put_varint(body, entry.seq);
    put_varint(body, (entry.stored().len() + more) as u64);
    body.extend_from_slice(entry.stored());
    at
}

/// Approximate encoded length of a version.
pub(super) fn version_len(entry: &Entry<'_>) -> usize {
    VERSION_OVERHEAD + varint_len(entry.stored().len() as u64) + entry.stored().len()
}

/// One version as stored in a payload.
#[derive(Clone, Debug)]
pub(super) struct BlockVersion {
    /// Sequence number.
    pub seq: Seq,
    /// Operation and flags.
    pub kind: Kind,
    /// Position of the value in the payload.
    pub value: Range<usize>,
    /// True if an older version follows at `value.end`.
    pub more: bool,
}

/// Reads the version at `at`, in a body up to `end`.
#[inline]
pub(super) fn read_version(payload: &[u8], at: usize, end: usize) -> Result<BlockVersion, DecodeError> {
    const CUT_SHORT: DecodeError = DecodeError::damage("a version is cut short");
    let body = payload.get(..end).ok_or(CUT_SHORT)?;
    let tag = *body.get(at).ok_or(CUT_SHORT)?;
    let kind = Kind::from_byte(tag & !MORE).ok_or(DecodeError::damage("the kind of an entry"))?;
    let mut at = at + 1;
    let seq = get_varint(body, &mut at).ok_or(CUT_SHORT)?;
    let len = get_len(body, &mut at).ok_or(CUT_SHORT)?;
    let value_end = at.checked_add(len).filter(|&value_end| value_end <= end).ok_or(CUT_SHORT)?;
    let more = tag & MORE != 0;
    if !more && value_end != end {
        return Err(DecodeError::damage("bytes after the last version of a key"));
    }
    Ok(BlockVersion { seq, kind, value: at..value_end, more })
}

/// The newest version at or below `snapshot` in the body from `at` to `end`.
#[inline]
pub(super) fn find_version(
    payload: &[u8],
    mut at: usize,
    end: usize,
    snapshot: Seq,
) -> Result<Option<BlockVersion>, DecodeError> {
    loop {
        let version = read_version(payload, at, end)?;
        if version.seq <= snapshot {
            return Ok(Some(version));
        }
        if !version.more {
            return Ok(None);
        }
        work::note_passed(1);
        at = version.value.end;
    }
}
