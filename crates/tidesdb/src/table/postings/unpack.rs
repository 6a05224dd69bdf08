//! Unpacking of payloads, whole or for one key.

use super::super::block::DecodeError;
use super::super::data_block::CONTINUED;
use super::super::keyed_block::{head_of, HEADER_LEN, SLOT_LEN};
use super::{tail_of, Header, CUT_SHORT, MOST_UNPACKED};
use crate::format::bits::BitReader;
use crate::format::coding::varint_len;
use crate::types::{Kind, Seq};

/// Length of the payload in a packed one, in bytes. Errors: damage, and lists of a later version.
pub fn unpacked_len(packed: &[u8]) -> Result<usize, DecodeError> {
    Header::read(packed).map(|(header, ..)| header.unpacked)
}

/// Unpacks into `out`, which has [`unpacked_len`] bytes. The result needs no further check. Errors: as there.
pub fn unpack(packed: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let (header, groups, bits) = Header::read(packed)?;
    if out.len() != header.unpacked {
        return Err(CUT_SHORT);
    }
    Unpacker::new(header, groups, bits, out).run().ok_or(CUT_SHORT)
}

struct Unpacker<'a> {
    header: Header,
    groups: &'a [u8],
    bits: BitReader<'a>,
    out: &'a mut [u8],
    /// Of the next body.
    at: usize,
    key: Vec<u8>,
    value: Vec<u8>,
    last_head: u64,
}

impl<'a> Unpacker<'a> {
    fn new(header: Header, groups: &'a [u8], bits: &'a [u8], out: &'a mut [u8]) -> Unpacker<'a> {
        let at = HEADER_LEN + SLOT_LEN * header.keys + header.prefix;
        let bits = BitReader::new(bits);
        Unpacker { header, groups, bits, out, at, key: Vec::new(), value: Vec::new(), last_head: 0 }
    }

    fn run(mut self) -> Option<()> {
        let fields = [self.header.keys as u32, self.header.prefix as u32, self.header.flags, 0];
        for (at, field) in fields.into_iter().enumerate() {
            self.out.get_mut(4 * at..4 * at + 4)?.copy_from_slice(&field.to_le_bytes());
        }
        let mut number = 0;
        let mut at = 0;
        while number < self.header.keys {
            let left = self.header.keys - number;
            let (keys, gaps) = self.header.read_group(self.groups, &mut at, left, &mut self.key)?;
            if number == 0 {
                let start = HEADER_LEN + SLOT_LEN * self.header.keys;
                let prefix = self.key.get(..self.header.prefix)?;
                self.out.get_mut(start..start + prefix.len())?.copy_from_slice(prefix);
            }
            self.group(number, keys, gaps)?;
            number += keys;
        }
        (at == self.groups.len() && self.at == self.out.len() && self.bits.is_at_end()).then_some(())
    }

    /// The keys from `number` on; the first is at hand.
    fn group(&mut self, number: usize, keys: usize, gaps: u32) -> Option<()> {
        let (first, len) = tail_of(&self.key);
        let before = self.key.len() - len;
        let mut tail = first;
        for at in 0..keys {
            if at > 0 {
                tail = tail.checked_add(self.bits.get_rice(gaps)?)?.checked_add(1)?;
                let bytes = tail.to_be_bytes();
                if bytes[..8 - len].iter().any(|byte| *byte != 0) {
                    return None;
                }
                self.key[before..].copy_from_slice(&bytes[8 - len..]);
            }
            self.entry(number + at)?;
        }
        // The next group shares bytes with this one's first key.
        self.key[before..].copy_from_slice(&first.to_be_bytes()[8 - len..]);
        Some(())
    }

    /// The entry of the key at hand.
    #[inline]
    fn entry(&mut self, number: usize) -> Option<()> {
        let most = self.out.len();
        let (seq, kind) = self.header.read_entry(&mut self.bits, &mut self.value, most)?;
        let header = &self.header;
        let suffix = self.key.get(header.prefix..)?;
        let head = head_of(suffix);
        if head < self.last_head {
            return None;
        }
        self.last_head = head;
        let heads = HEADER_LEN + 8 * number;
        let offsets = HEADER_LEN + 8 * header.keys + 4 * number;
        self.out.get_mut(heads..heads + 8)?.copy_from_slice(&head.to_le_bytes());
        self.out.get_mut(offsets..offsets + 4)?.copy_from_slice(&(self.at as u32).to_le_bytes());
        let rest = suffix.get(8..).unwrap_or_default();
        let lens = varint_len(suffix.len() as u64) + varint_len(seq) + varint_len(self.value.len() as u64);
        let body = self.out.get_mut(self.at..self.at + lens + rest.len() + 1 + self.value.len())?;
        self.at += body.len();
        let mut body = Body(body);
        body.varint(suffix.len() as u64);
        body.bytes(rest);
        body.bytes(&[kind.byte()]);
        body.varint(seq);
        body.varint(self.value.len() as u64);
        body.bytes(&self.value);
        Some(())
    }
}

/// The unwritten bytes of a body, with room for all.
struct Body<'a>(&'a mut [u8]);

impl Body<'_> {
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        let (now, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        now.copy_from_slice(bytes);
        self.0 = rest;
    }

    #[inline]
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes(&[number as u8 | 0x80]);
            number >>= 7;
        }
        self.bytes(&[number as u8]);
    }
}

/// An entry of a packed block.
#[derive(Debug, PartialEq, Eq)]
pub struct FoundEntry {
    pub seq: Seq,
    pub kind: Kind,
    pub value: Vec<u8>,
    /// True if its key is the last of the block, and further versions of it stand in the next one.
    pub goes_on: bool,
}

/// The entry of `key`, without the unpacking of others. Errors: as of [`unpack`], as far as the block is read.
pub fn find(packed: &[u8], key: &[u8]) -> Result<Option<FoundEntry>, DecodeError> {
    let (header, groups, bits) = Header::read(packed)?;
    find_in(&header, groups, BitReader::new(bits), key).ok_or(CUT_SHORT)
}

fn find_in(
    header: &Header,
    groups: &[u8],
    mut bits: BitReader<'_>,
    sought: &[u8],
) -> Option<Option<FoundEntry>> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let (sought_tail, len) = tail_of(sought);
    let before = &sought[..sought.len() - len];
    let (mut number, mut at) = (0, 0);
    while number < header.keys {
        let (keys, gaps) = header.read_group(groups, &mut at, header.keys - number, &mut key)?;
        if key.as_slice() > sought {
            return Some(None);
        }
        let (mut tail, tail_len) = tail_of(&key);
        let may_have_it = key.len() == sought.len() && key[..key.len() - tail_len] == *before;
        for place in 0..keys {
            if place > 0 {
                tail = tail.checked_add(bits.get_rice(gaps)?)?.checked_add(1)?;
            }
            if may_have_it && tail > sought_tail {
                return Some(None);
            }
            if may_have_it && tail == sought_tail {
                let (seq, kind) = header.read_entry(&mut bits, &mut value, MOST_UNPACKED)?;
                let goes_on = number + place + 1 == header.keys && header.flags & CONTINUED != 0;
                return Some(Some(FoundEntry { seq, kind, value, goes_on }));
            }
            header.skip_entry(&mut bits)?;
        }
        number += keys;
    }
    Some(None)
}
