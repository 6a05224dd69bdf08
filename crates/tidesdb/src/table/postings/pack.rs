//! Packing of payloads.

use super::super::data_block::read_version;
use super::super::keyed_block::{common_prefix, KeyedBlock};
use super::{tail_of, Header, MIXED, MOST_UNPACKED};
use crate::format::bits::{bit_len, rice_parameter, BitWriter, MOST_BITS};
use crate::format::coding::{get_varint, put_bytes, put_varint};
use crate::mutant::{self, Mutant};
use crate::types::Kind;

/// Least gap between two numbers for a new group at the second: about the price of a group.
const WIDEST_GAP: u64 = 1 << 24;

/// One entry of a payload under packing.
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
pub struct PostingsPacker {
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

/// The numbers of a checked value.
fn numbers_of(value: &[u8]) -> impl Iterator<Item = u64> + '_ {
    numbers(value).map_while(|number| number)
}
