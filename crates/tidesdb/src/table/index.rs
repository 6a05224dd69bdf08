//! Index entries and separators (`docs/format/table.md`, "Index"): the bodies of index partitions and of the
//! top index.

use super::block::{BlockHandle, DecodeError};
use super::keyed_block::{common_prefix, KeyedBlock};
use crate::format::coding::{get_varint, put_varint};

/// The index's entry for a data block, or the top index's entry for a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct IndexEntry {
    /// The place of the block.
    pub block: BlockHandle,
    /// Number of the table's entries before the block.
    pub before: u64,
    /// Tombstones in the block.
    pub tombstones: u64,
}

impl IndexEntry {
    pub fn put(&self, body: &mut Vec<u8>) {
        for value in [self.block.offset, self.block.len, self.before, self.tombstones] {
            put_varint(body, value);
        }
    }

    /// Reads entry `i` of an index partition or of the top index, with the range of the bytes after it.
    #[inline]
    pub fn read(index: &KeyedBlock<'_>, i: usize) -> Result<(IndexEntry, usize, usize), DecodeError> {
        let body = index.body(i)?;
        let bytes = index.data().get(..body.end).unwrap_or_default();
        let mut at = body.start;
        let mut next =
            || get_varint(bytes, &mut at).ok_or(DecodeError::damage("an index entry is cut short"));
        let block = BlockHandle { offset: next()?, len: next()? };
        let entry = IndexEntry { block, before: next()?, tombstones: next()? };
        Ok((entry, at, body.end))
    }
}

/// The filter's handle after entry `i` of the top index; `None`: no filter.
#[inline]
pub(super) fn partition_filter(
    top: &KeyedBlock<'_>,
    at: usize,
    end: usize,
) -> Result<Option<BlockHandle>, DecodeError> {
    const CUT_SHORT: DecodeError = DecodeError::damage("a filter handle is cut short");
    let bytes = top.data().get(..end).ok_or(CUT_SHORT)?;
    let mut at = at;
    let offset = get_varint(bytes, &mut at).ok_or(CUT_SHORT)?;
    let len = get_varint(bytes, &mut at).ok_or(CUT_SHORT)?;
    Ok((len != 0).then_some(BlockHandle { offset, len }))
}

/// Writes a short key into `out`, at or above `last` and, if the two differ, below `next`. `last` must not be
/// above `next`.
pub(super) fn separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let same = common_prefix(last, next);
    let (Some(&low), Some(&high)) = (last.get(same), next.get(same)) else {
        // `last` is a prefix of `next` (or equal to it).
        out.extend_from_slice(last);
        return;
    };
    out.extend_from_slice(&last[..same]);
    if high - low > 1 {
        out.push(low + 1);
    } else if next.len() > same + 1 {
        out.push(high);
    } else {
        // The two are neighbours in this byte and `next` ends there: raise a later byte of `last`.
        out.push(low);
        let rest = &last[same + 1..];
        let raise = rest.iter().position(|&byte| byte < 0xff).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..raise]);
        if let Some(byte) = rest.get(raise) {
            out.push(byte + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn separators_are_short() {
        let mut out = Vec::new();
        for (last, next, expected) in [
            (&b"apple"[..], &b"orange"[..], &b"b"[..]),
            (b"apple", b"banana", b"b"),
            (b"apple", b"b", b"aq"),
            (b"app", b"apple", b"app"),
            (b"abc", b"abc", b"abc"),
            (b"a\xff\xffx", b"b", b"a\xff\xffy"),
            (b"a\xff", b"b", b"a\xff"),
            (b"", b"b", b""),
        ] {
            separator(last, next, &mut out);
            assert_eq!(out, expected, "{last:?} {next:?}");
        }
    }

    proptest! {
        #[test]
        fn separators_separate(
            a in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 254, 255]), 0..6),
            b in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 254, 255]), 0..6)
        ) {
            let (last, next) = if a <= b { (a, b) } else { (b, a) };
            let mut out = Vec::new();
            separator(&last, &next, &mut out);
            prop_assert!(last <= out);
            prop_assert!(out < next || last == next);
            prop_assert!(out.len() <= last.len().max(next.len()));
        }
    }
}
