//! Block codec 1, lists of postings (`docs/format/table.md`): data blocks whose keys end in ascending numbers and whose
//! values are a byte and varints, as the entries of a full text index have them. [`PostingsPacker::pack`] turns the payload
//! of a keyed block into bits, [`unpack`] gives the same payload back, byte for byte.
//!
//! The cache keeps the packed form, a quarter of the other. Readers unpack a block as they enter it.
//!
//! After J. Zobel and A. Moffat, "Inverted Files for Text Search Engines" (2006): gaps between rows, frequencies and
//! positions, each by the code that fits it.

use super::block::{DecodeError, LATER_KEYED, LATER_POSTINGS};
use super::data_block::{read_version, CONTINUED, CONTINUES};
use super::keyed_block::{common_prefix, head_of, KeyedBlock, HEADER_LEN, SLOT_LEN};
use crate::format::bits::{bit_len, rice_parameter, BitReader, BitWriter, MOST_BITS};
use crate::format::coding::{get_bytes, get_len, get_varint, put_bytes, put_varint, varint_len};
use crate::mutant::{self, Mutant};
use crate::types::{Kind, Seq};

/// Largest payload that is packed, in bytes.
pub(super) const MOST_UNPACKED: usize = 1 << 20;

/// Gap between two numbers from which on the second key begins a group of its own: about the price of one.
const WIDEST_GAP: u64 = 1 << 24;

/// No keys: what tells a packed payload from a keyed block.
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

/// One entry of a payload that is being packed.
struct Entry {
    /// Distance to the number of the key before, without 1; of a group's first key unused.
    gap: u64,
    seq: u64,
    kind: u8,
    /// Where its value stands in the payload.
    value: (u32, u32),
}

/// Keys with one length and equal bytes before the number at their end.
struct Group {
    keys: usize,
    /// Lengths of the gaps, in bits.
    gap_bits: u64,
    /// Bytes of the first key equal to those of the group's before; the rest stands in `rests`.
    shared: usize,
    rest: usize,
}

/// Packs payloads; keeps its memory.
#[derive(Default)]
pub(super) struct PostingsPacker {
    entries: Vec<Entry>,
    groups: Vec<Group>,
    rests: Vec<u8>,
    key: Vec<u8>,
    first_of_group: Vec<u8>,
    table: Vec<u8>,
}

/// Bits that numbers take, and how many they are.
#[derive(Default)]
struct Lengths {
    bits: u64,
    numbers: u64,
}

impl Lengths {
    #[inline]
    fn add(&mut self, number: u64) {
        self.bits += u64::from(bit_len(number));
        self.numbers += 1;
    }

    fn parameter(&self) -> u32 {
        rice_parameter(self.bits, self.numbers)
    }
}

/// Smallest and largest of some numbers.
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    const NONE: Range = Range { least: u64::MAX, most: 0 };

    #[inline]
    fn add(&mut self, number: u64) {
        self.least = self.least.min(number);
        self.most = self.most.max(number);
    }

    /// The least number, and the bits of the largest distance from it.
    fn base(&self) -> (u64, u32) {
        if self.least > self.most {
            return (0, 0);
        }
        (self.least, bit_len(self.most - self.least))
    }
}

/// The numbers of a value: its positions.
fn numbers(value: &[u8]) -> impl Iterator<Item = Option<u64>> + '_ {
    let mut at = 1;
    std::iter::from_fn(move || (at < value.len()).then(|| get_varint(value, &mut at)))
}

impl PostingsPacker {
    /// Bytes of allocated memory.
    pub fn capacity(&self) -> usize {
        let bytes = self.rests.capacity() + self.key.capacity();
        bytes
            + self.first_of_group.capacity()
            + self.table.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.groups.capacity() * size_of::<Group>()
    }

    /// The packed form of a keyed block's payload into `out`, replacing its contents. False, with any contents: the block
    /// has entries of another form or would be no shorter, and stays as it is.
    pub fn pack(&mut self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        payload.len() <= MOST_UNPACKED && self.try_pack(payload, out).is_some() && out.len() < payload.len()
    }

    /// True if the last packed block has many groups: its keys end in no ascending numbers, and compression may do better.
    pub fn has_many_groups(&self) -> bool {
        self.groups.len() * 4 > self.entries.len()
    }

    fn try_pack(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let block = KeyedBlock::parse(payload).ok()?;
        self.entries.clear();
        self.groups.clear();
        self.rests.clear();
        self.first_of_group.clear();
        let (mut seqs, mut classes) = (Range::NONE, Range::NONE);
        let (mut first, mut later) = (Lengths::default(), Lengths::default());
        let mut kind = None;
        let mut last_tail = 0;
        for i in 0..block.len() {
            let body = block.read_key(i, &mut self.key, i > 0).ok()?;
            let version = read_version(payload, body.start, body.end).ok()?;
            if version.more || version.kind.has_expiry() || version.kind.has_pointer() {
                return None;
            }
            let value = payload.get(version.value.clone())?;
            if version.kind.is_tombstone() {
                if !value.is_empty() {
                    return None;
                }
            } else {
                classes.add(u64::from(*value.first()?));
                let mut of = numbers(value);
                first.add(of.next()??);
                for number in of {
                    later.add(number?);
                }
            }
            seqs.add(version.seq);
            let byte = version.kind.byte();
            kind = Some(kind.map_or(byte, |all| if all == byte { byte } else { MIXED }));
            let gap = self.add_key(last_tail);
            last_tail = tail_of(&self.key).0;
            let value = (version.value.start as u32, version.value.end as u32);
            self.entries.push(Entry { gap, seq: version.seq, kind: byte, value });
        }
        let ((seq, seq_bits), (class, class_bits)) = (seqs.base(), classes.base());
        if seq_bits > MOST_BITS {
            return None;
        }
        let header = Header {
            keys: block.len(),
            flags: if mutant::is(Mutant::PackedSplitForgotten) { 0 } else { block.flags },
            unpacked: payload.len(),
            prefix: block.prefix().len(),
            seq,
            kind: Kind::from_byte(kind?),
            seq_bits,
            class,
            class_bits,
            first: first.parameter(),
            later: later.parameter(),
        };
        self.write_table();
        header.write(&self.table, out);
        let mut bits = BitWriter::after(std::mem::take(out));
        self.write_entries(payload, &header, &mut bits);
        *out = bits.finish();
        Some(())
    }

    fn write_entries(&self, payload: &[u8], header: &Header, bits: &mut BitWriter) {
        let mut entries = self.entries.iter();
        for group in &self.groups {
            let gaps = rice_parameter(group.gap_bits, group.keys as u64 - 1);
            for (at, entry) in entries.by_ref().take(group.keys).enumerate() {
                if at > 0 {
                    bits.put_rice(entry.gap, gaps);
                }
                if header.kind.is_none() {
                    bits.put(u64::from(entry.kind), u8::BITS);
                }
                bits.put(entry.seq - header.seq, header.seq_bits);
                let value = &payload[entry.value.0 as usize..entry.value.1 as usize];
                let Some(&of_value) = value.first() else { continue };
                bits.put(u64::from(of_value) - header.class, header.class_bits);
                // The last byte of a varint is below 0x80.
                let frequency = value[1..].iter().filter(|byte| **byte < 0x80).count() as u64;
                bits.put_rice(frequency - 1, 0);
                for (at, number) in numbers_of(value).enumerate() {
                    bits.put_rice(number, if at == 0 { header.first } else { header.later });
                }
            }
        }
    }

    /// Adds the key to the last group or to a new one; returns its gap.
    fn add_key(&mut self, last_tail: u64) -> u64 {
        let (tail, len) = tail_of(&self.key);
        let before = self.key.len() - len;
        let gap = tail.wrapping_sub(last_tail).wrapping_sub(1);
        let goes_on = gap < WIDEST_GAP
            && tail > last_tail
            && self.key.len() == self.first_of_group.len()
            && self.key[..before] == self.first_of_group[..before];
        match self.groups.last_mut() {
            Some(group) if goes_on => {
                group.keys += 1;
                group.gap_bits += u64::from(bit_len(gap));
            }
            _ => {
                let shared = common_prefix(&self.first_of_group, &self.key);
                let rest = self.key.len() - shared;
                self.rests.extend_from_slice(&self.key[shared..]);
                self.groups.push(Group { keys: 1, gap_bits: 0, shared, rest });
                self.first_of_group.clone_from(&self.key);
            }
        }
        gap
    }

    fn write_table(&mut self) {
        self.table.clear();
        let mut at = 0;
        for group in &self.groups {
            put_varint(&mut self.table, group.keys as u64);
            if group.keys > 1 {
                self.table.push(rice_parameter(group.gap_bits, group.keys as u64 - 1) as u8);
            }
            put_varint(&mut self.table, group.shared as u64);
            put_bytes(&mut self.table, &self.rests[at..at + group.rest]);
            at += group.rest;
        }
    }
}

/// The numbers of a value that has been looked at.
fn numbers_of(value: &[u8]) -> impl Iterator<Item = u64> + '_ {
    numbers(value).map_while(|number| number)
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
    /// Reads the entry of a key, its value into `value`, which must not have more than `most` bytes.
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
    /// first key into `key`, which has the first key of the group before.
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

/// An entry of a packed block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundEntry {
    pub seq: Seq,
    pub kind: Kind,
    pub value: Vec<u8>,
    /// True if its key is the last of the block, and further versions of it stand in the next one.
    pub goes_on: bool,
}

/// The entry of `key`, without the unpacking of others. Errors: as of [`unpack`], as far as the block is read.
pub(super) fn find(packed: &[u8], key: &[u8]) -> Result<Option<FoundEntry>, DecodeError> {
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

/// The kind of an entry that is packed: without an expiry or a pointer.
fn kind_of(byte: u8) -> Option<Kind> {
    Kind::from_byte(byte).filter(|kind| !kind.has_expiry() && !kind.has_pointer())
}

/// Length of the payload in a packed one, in bytes. Errors: damage, and lists of a later version.
pub(super) fn unpacked_len(packed: &[u8]) -> Result<usize, DecodeError> {
    Header::read(packed).map(|(header, ..)| header.unpacked)
}

/// Unpacks into `out`, which has [`unpacked_len`] bytes. The result needs no further check. Errors: as there.
pub(super) fn unpack(packed: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
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

    /// The keys from `number` on, of which the first is at hand.
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

/// The bytes of a body that are not written yet; it has room for all of them.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::data_block::put_version;
    use super::super::keyed_block::KeyedBuilder;
    use super::*;
    use crate::types;

    type Version = (u64, Kind, Vec<u8>);

    fn payload_of(keys: &[(Vec<u8>, Version)], flags: u32) -> Vec<u8> {
        let mut builder = KeyedBuilder::default();
        for (key, (seq, kind, value)) in keys {
            builder.push(key);
            put_version(builder.body(), &types::Entry::new(*seq, *kind, value), None);
        }
        let mut payload = Vec::new();
        builder.finish(flags, &mut payload);
        payload
    }

    fn packed(payload: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![1, 2, 3];
        PostingsPacker::default().pack(payload, &mut out).then_some(out)
    }

    fn unpacked(packed: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut out = vec![0xff; unpacked_len(packed)?];
        unpack(packed, &mut out)?;
        Ok(out)
    }

    fn value(class: u8, numbers: &[u64]) -> Vec<u8> {
        let mut value = vec![class];
        numbers.iter().for_each(|number| put_varint(&mut value, *number));
        value
    }

    /// Rows with a word, each with one or two positions.
    fn list(term: &[u8], rows: impl Iterator<Item = u32>) -> Vec<(Vec<u8>, Version)> {
        rows.map(|row| {
            let numbers = [u64::from(row * 7 % 140), u64::from(row % 40)];
            let value = value(40 + (row % 9) as u8, &numbers[..1 + usize::from(row % 5 == 0)]);
            ([term, &row.to_be_bytes()].concat(), (0, Kind::PUT, value))
        })
        .collect()
    }

    #[test]
    fn a_list_takes_a_sixth_of_its_keyed_block() {
        let keys: Vec<_> =
            [list(b"common\0\x01", (0..2000).step_by(3)), list(b"rare\0\x01", (5..90_000).step_by(4001))]
                .concat();
        let payload = payload_of(&keys, 0);
        let packed = packed(&payload).unwrap();
        assert_eq!(unpacked(&packed).unwrap(), payload);
        assert!(packed.len() * 6 < payload.len(), "{} of {}", packed.len(), payload.len());
        // Bytes for each entry: gap, class, number of positions, and they.
        assert!(packed.len() < keys.len() * 4, "{} for {}", packed.len(), keys.len());
    }

    #[test]
    fn other_entries_stay_as_they_are() {
        let put = |value: &[u8]| vec![(b"k".to_vec(), (1, Kind::PUT, value.to_vec()))];
        // No number, a varint that is cut short, and one that is longer than it has to be.
        for value in [&[][..], &[3], &[3, 0x80], &[3, 0x80, 0]] {
            assert!(packed(&payload_of(&put(value), 0)).is_none(), "{value:?}");
        }
        let expiry = vec![(b"k".to_vec(), (1, Kind::PUT.with_expiry(), vec![1; 10]))];
        assert!(packed(&payload_of(&expiry, 0)).is_none());
        let far =
            [(b"a".to_vec(), (0, Kind::PUT, vec![1, 1])), (b"b".to_vec(), (1 << 40, Kind::PUT, vec![1, 1]))];
        assert!(packed(&payload_of(&far, 0)).is_none());
        let mut two = KeyedBuilder::default();
        two.push(b"k");
        let newer = put_version(two.body(), &types::Entry::new(2, Kind::PUT, &[1, 1]), None);
        put_version(two.body(), &types::Entry::new(1, Kind::PUT, &[1, 1]), Some(newer));
        let mut payload = Vec::new();
        two.finish(0, &mut payload);
        assert!(packed(&payload).is_none());
    }

    #[test]
    fn a_large_payload_stays_as_it_is() {
        let payload = payload_of(&list(b"t", 0..60_000), 0);
        assert!(payload.len() > MOST_UNPACKED && packed(&payload).is_none());
    }

    fn keys() -> impl Strategy<Value = Vec<(Vec<u8>, Version)>> {
        let key = (
            prop::sample::select(vec!["", "a", "ab", "b\0\x01", "long long long term"]),
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..12),
                any::<u16>().prop_map(|row| u32::from(row).to_be_bytes().to_vec()),
                any::<u8>().prop_map(|row| u64::from(row).to_be_bytes().to_vec()),
                prop::sample::select(vec![0, 1, u64::MAX - 1, u64::MAX])
                    .prop_map(|row| row.to_be_bytes().to_vec()),
            ],
        );
        let numbers = prop::collection::vec(prop_oneof![0..200u64, any::<u64>()], 1..6);
        let version = (0..1u64 << 31, 0..8u8, any::<u8>(), numbers).prop_map(
            |(seq, kind, class, numbers)| match kind {
                0 => (seq, Kind::DELETE, Vec::new()),
                1 => (seq, Kind::SINGLE_DELETE, Vec::new()),
                2 => (seq, Kind::PUT.marked_may_overwrite(), value(class, &numbers)),
                _ => (0, Kind::PUT, value(class, &numbers)),
            },
        );
        prop::collection::btree_map(
            key.prop_map(|(term, row)| [term.as_bytes(), &row].concat()),
            version,
            1..80,
        )
        .prop_map(|keys| keys.into_iter().collect())
    }

    proptest! {
        #[test]
        fn payloads_come_back_byte_for_byte(keys in keys(), flags in 0..4u32) {
            let payload = payload_of(&keys, flags);
            let Some(packed) = packed(&payload) else {
                // Few keys, of which each has a group.
                prop_assert!(keys.len() < 40);
                return Ok(());
            };
            prop_assert!(is_packed(&packed) && !is_packed(&payload));
            prop_assert_eq!(unpacked(&packed), Ok(payload));
            for (place, (key, (seq, kind, value))) in keys.iter().enumerate() {
                let goes_on = place + 1 == keys.len() && flags & CONTINUED != 0;
                let entry = FoundEntry { seq: *seq, kind: *kind, value: value.clone(), goes_on };
                prop_assert_eq!(find(&packed, key), Ok(Some(entry)));
                for other in [[&key[..], b"\0"].concat(), key[..key.len() / 2].to_vec()] {
                    let is_there = keys.iter().any(|(key, _)| *key == other);
                    prop_assert_eq!(find(&packed, &other).map(|found| found.is_some()), Ok(is_there));
                }
            }
        }

        #[test]
        fn damage_never_panics(keys in keys(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0..40usize) {
            let Some(mut packed) = packed(&payload_of(&keys, 0)) else { return Ok(()) };
            packed.truncate(packed.len().saturating_sub(cut / 2));
            let at = at.index(packed.len());
            packed[at] = byte;
            for (key, _) in &keys {
                let _ = find(&packed, key);
            }
            if let Ok(payload) = unpacked(&packed) {
                // Other numbers, in a block that is whole.
                KeyedBlock::parse(&payload).unwrap().check(CONTINUES | CONTINUED).unwrap();
            }
        }
    }
}
