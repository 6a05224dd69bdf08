//! Block codec 1, lists of postings (`docs/format/table.md`): data blocks whose keys end in ascending numbers and whose
//! values are a byte and varints, as the entries of a full text index have them. [`PostingsPacker::pack`] turns the payload
//! of a keyed block into bits, [`unpack()`] gives the same payload back, byte for byte.
//!
//! The cache keeps the packed form, a quarter of the other. Readers unpack a block as they enter it.
//!
//! After J. Zobel and A. Moffat, "Inverted Files for Text Search Engines" (2006): gaps between rows, frequencies and
//! positions, each by the code that fits it.

mod pack;
#[cfg(test)]
mod tests;
mod unpack;

pub(super) use pack::PostingsPacker;
pub(super) use unpack::{find, unpack, unpacked_len};

use super::block::{DecodeError, LATER_KEYED, LATER_POSTINGS};
use super::data_block::{CONTINUED, CONTINUES};
use super::keyed_block::{HEADER_LEN, SLOT_LEN};
use crate::format::bits::{BitReader, MOST_BITS};
use crate::format::coding::{get_bytes, get_len, get_varint, put_bytes, put_varint};
use crate::mutant::{self, Mutant};
use crate::types::{Kind, Seq};

/// Largest payload to pack, in bytes.
pub(super) const MOST_UNPACKED: usize = 1 << 20;

/// Marks a packed payload: no keyed block has zero keys.
const MARK: [u8; 4] = [0; 4];

/// Stands for the operations where they differ; no operation has this number.
const MIXED: u8 = 0;

const CUT_SHORT: DecodeError = DecodeError::damage("a list of postings is cut short");

/// True for the payload of codec 1.
#[inline]
pub(super) fn is_packed(payload: &[u8]) -> bool {
    payload.starts_with(&MARK)
}

/// The last eight bytes of a key, or all of them, as a number; and how many they are.
#[inline]
fn tail_of(key: &[u8]) -> (u64, usize) {
    match key.last_chunk::<8>() {
        Some(tail) => (u64::from_be_bytes(*tail), 8),
        None => (key.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), key.len()),
    }
}

/// What stands before the groups and bits.
struct Header {
    keys: usize,
    flags: u32,
    unpacked: usize,
    prefix: usize,
    seq: u64,
    kind: Option<Kind>,
    seq_bits: u32,
    class: u64,
    class_bits: u32,
    first: u32,
    later: u32,
}

impl Header {
    /// Header and table of groups into `out`, replacing its contents.
    fn write(&self, groups: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&MARK);
        let numbers = [self.keys, self.flags as usize, self.unpacked, self.prefix];
        numbers.into_iter().for_each(|number| put_varint(out, number as u64));
        put_varint(out, self.seq);
        let widths = [self.seq_bits, self.class as u32, self.class_bits, self.first, self.later];
        out.push(self.kind.map_or(MIXED, Kind::byte));
        out.extend(widths.map(|width| width as u8));
        put_bytes(out, groups);
    }

    /// The header, the table of groups, and the bits.
    fn read(packed: &[u8]) -> Result<(Header, &[u8], &[u8]), DecodeError> {
        let parts = || -> Option<_> {
            packed.starts_with(&MARK).then_some(())?;
            let mut at = MARK.len();
            let keys = get_len(packed, &mut at)?;
            let flags = get_varint(packed, &mut at)?;
            let unpacked = get_len(packed, &mut at)?;
            let prefix = get_len(packed, &mut at)?;
            let seq = get_varint(packed, &mut at)?;
            let bytes: &[u8; 6] = packed.get(at..)?.first_chunk()?;
            at += bytes.len();
            let groups = get_bytes(packed, &mut at)?;
            Some((keys, flags, unpacked, prefix, seq, *bytes, groups, packed.get(at..)?))
        };
        let (keys, flags, unpacked, prefix, seq, bytes, groups, bits) = parts().ok_or(CUT_SHORT)?;
        let [kind, seq_bits, class, class_bits, first, later] = bytes;
        if flags & !u64::from(CONTINUES | CONTINUED) != 0 {
            return Err(LATER_KEYED);
        }
        let header = Header {
            keys,
            flags: flags as u32,
            unpacked,
            prefix,
            seq,
            kind: if kind == MIXED { None } else { Some(kind_of(kind).ok_or(LATER_POSTINGS)?) },
            seq_bits: seq_bits.into(),
            class: class.into(),
            class_bits: class_bits.into(),
            first: first.into(),
            later: later.into(),
        };
        let widths = [header.seq_bits, header.first, header.later];
        if unpacked > MOST_UNPACKED
            || header.class_bits > u8::BITS
            || widths.iter().any(|bits| *bits > MOST_BITS)
        {
            return Err(LATER_POSTINGS);
        }
        let least = HEADER_LEN.checked_add(keys.saturating_mul(SLOT_LEN));
        let fits = least.and_then(|least| least.checked_add(prefix)).is_some_and(|least| least < unpacked);
        match keys > 0 && fits && packed.len() < unpacked {
            true => Ok((header, groups, bits)),
            false => Err(CUT_SHORT),
        }
    }
}

impl Header {
    /// Reads the entry of a key, its value into `value`: at most `most` bytes.
    #[inline]
    fn read_entry(&self, bits: &mut BitReader<'_>, value: &mut Vec<u8>, most: usize) -> Option<(Seq, Kind)> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => kind_of(bits.get(u8::BITS)? as u8)?,
        };
        let after = bits.get(self.seq_bits)?;
        let seq = self.seq.checked_add(if mutant::is(Mutant::PackedSeqIsBase) { 0 } else { after })?;
        value.clear();
        if !kind.is_tombstone() {
            let class = self.class + bits.get(self.class_bits)?;
            value.push(u8::try_from(class).ok()?);
            let more = bits.get_rice(0)?;
            put_varint(value, bits.get_rice(self.first)?);
            for _ in 0..more {
                if value.len() > most {
                    return None;
                }
                put_varint(value, bits.get_rice(self.later)?);
            }
        }
        Some((seq, kind))
    }

    /// Reads over the entry of a key.
    #[inline]
    fn skip_entry(&self, bits: &mut BitReader<'_>) -> Option<()> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => kind_of(bits.get(u8::BITS)? as u8)?,
        };
        bits.get(self.seq_bits)?;
        if !kind.is_tombstone() {
            bits.get(self.class_bits)?;
            let more = bits.get_rice(0)?;
            bits.get_rice(self.first)?;
            for _ in 0..more {
                bits.get_rice(self.later)?;
            }
        }
        Some(())
    }

    /// Reads the next group of the table at `*at`, of at most `left` keys: their number, the parameter of their gaps, and the
    /// first key into `key`, after the first key of the group before.
    fn read_group(
        &self,
        groups: &[u8],
        at: &mut usize,
        left: usize,
        key: &mut Vec<u8>,
    ) -> Option<(usize, u32)> {
        let keys = get_len(groups, at)?;
        let mut gaps = 0;
        if keys > 1 {
            gaps = u32::from(*groups.get(*at)?);
            *at += 1;
        }
        let shared = get_len(groups, at)?;
        let rest = get_bytes(groups, at)?;
        if keys == 0 || keys > left || gaps > MOST_BITS || shared > key.len() {
            return None;
        }
        key.truncate(shared);
        key.extend_from_slice(rest);
        Some((keys, gaps))
    }
}

/// The kind of a packed entry: without an expiry or a pointer.
fn kind_of(byte: u8) -> Option<Kind> {
    Kind::from_byte(byte).filter(|kind| !kind.has_expiry() && !kind.has_pointer())
}
