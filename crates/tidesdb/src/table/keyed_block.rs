//! Keyed blocks, the common layout of data blocks, index partitions and the top index
//! (`docs/format/table.md`, "Keyed blocks"). [`KeyedBuilder`] writes one, [`KeyedBlock`] reads one.
//!
//! The layout serves the search. It compares the common prefix once, and then runs a binary search over a
//! dense array of eight-byte heads. It looks at the bytes after a head only if heads are equal. Reading
//! checks every length; damage is an error, never a panic.

use std::cmp::Ordering;
use std::mem;

use super::block::{DecodeError, LATER_KEYED};
use crate::format::coding::{get_len, pieces, put_varint, u32_at};

pub(super) const HEADER_LEN: usize = 16;
/// Array bytes for each key: head and body offset.
pub(super) const SLOT_LEN: usize = 12;

/// Size, in bytes, of a body too large for a second copy.
const LARGE_BODY: usize = 1 << 20;

const CUT_SHORT: DecodeError = DecodeError::damage("a keyed block is cut short");

/// The head of `key`, given without the common prefix.
#[inline]
pub(super) fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut padded = [0; 8];
            padded[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(padded)
        }
    }
}

/// Length of the longest common prefix.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Collects ascending keys, each with its body.
#[derive(Default)]
pub(super) struct KeyedBuilder {
    keys: Vec<u8>,
    /// For each key, its end in `keys` and the start of its body in `bodies`.
    slots: Vec<(usize, usize)>,
    bodies: Vec<u8>,
    prefix: usize,
}

impl KeyedBuilder {
    /// Bytes of allocated memory.
    pub fn capacity(&self) -> usize {
        self.keys.capacity() + self.bodies.capacity() + self.slots.capacity() * size_of::<(usize, usize)>()
    }

    /// Begins the next key. Bytes appended to [`KeyedBuilder::body`] until the next call are its body.
    pub fn push(&mut self, key: &[u8]) {
        self.prefix = self.prefix_with(key);
        self.keys.extend_from_slice(key);
        self.slots.push((self.keys.len(), self.bodies.len()));
    }

    /// The body of the last key.
    pub fn body(&mut self) -> &mut Vec<u8> {
        &mut self.bodies
    }

    fn prefix_with(&self, key: &[u8]) -> usize {
        match self.slots.first() {
            None => key.len(),
            Some(&(first, _)) => common_prefix(&self.keys[..first.min(self.prefix)], key),
        }
    }

    /// True without keys.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Approximate length of the payload with `body` more bytes, after one more key or (`None`) after the
    /// last one.
    pub fn len_with(&self, key: Option<&[u8]>, body: usize) -> usize {
        let (slots, keys, prefix) = match key {
            None => (self.slots.len(), self.keys.len(), self.prefix),
            Some(key) => (self.slots.len() + 1, self.keys.len() + key.len(), self.prefix_with(key)),
        };
        let rests = keys.saturating_sub(slots * (prefix + 8));
        HEADER_LEN + slots * (SLOT_LEN + 1) + prefix + rests + self.bodies.len() + body
    }

    /// Writes the payload into `out`, replacing its contents, and clears the builder.
    pub fn finish(&mut self, flags: u32, out: &mut Vec<u8>) {
        if self.slots.len() == 1 && self.bodies.len() >= LARGE_BODY {
            return self.finish_large(flags, out);
        }
        out.clear();
        let count = self.slots.len();
        out.extend_from_slice(&(count as u32).to_le_bytes());
        out.extend_from_slice(&(self.prefix as u32).to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let mut key_start = 0;
        for &(key_end, _) in &self.slots {
            let head = head_of(&self.keys[key_start + self.prefix..key_end]);
            out.extend_from_slice(&head.to_le_bytes());
            key_start = key_end;
        }
        let offsets = out.len();
        out.resize(offsets + 4 * count, 0);
        out.extend_from_slice(&self.keys[..self.prefix]);
        let mut key_start = 0;
        for (i, &(key_end, body)) in self.slots.iter().enumerate() {
            let at = (out.len() as u32).to_le_bytes();
            out[offsets + 4 * i..offsets + 4 * i + 4].copy_from_slice(&at);
            let suffix = &self.keys[key_start + self.prefix..key_end];
            put_varint(out, suffix.len() as u64);
            out.extend_from_slice(suffix.get(8..).unwrap_or_default());
            let body_end = self.slots.get(i + 1).map_or(self.bodies.len(), |next| next.1);
            out.extend_from_slice(&self.bodies[body..body_end]);
            key_start = key_end;
        }
        self.keys.clear();
        self.slots.clear();
        self.bodies.clear();
        self.prefix = 0;
    }
}

impl KeyedBuilder {
    /// Like [`KeyedBuilder::finish`], for one key with a large body. It makes the payload in the body's own
    /// memory, without a second copy.
    fn finish_large(&mut self, flags: u32, out: &mut Vec<u8>) {
        let mut body = mem::take(&mut self.bodies);
        // The same block without the body.
        self.finish(flags, out);
        let head = out.len();
        let end = body.len();
        body.reserve_exact(head);
        body.extend_from_slice(out);
        body.copy_within(..end, head);
        body[..head].copy_from_slice(out);
        *out = body;
    }
}

/// A keyed block's payload.
#[derive(Clone, Copy)]
pub(super) struct KeyedBlock<'a> {
    data: &'a [u8],
    /// One head for each key; not empty.
    heads: &'a [[u8; 8]],
    /// As many offsets as heads.
    offsets: &'a [[u8; 4]],
    prefix: &'a [u8],
    /// Flags of the header, with a meaning for each kind of block.
    pub flags: u32,
}

/// A body: the key's bytes beyond prefix and head, and the place of the rest.
pub(super) struct Body<'a> {
    suffix_len: usize,
    rest: &'a [u8],
    /// Start of the bytes after the key, in the payload.
    pub start: usize,
    /// End of these bytes.
    pub end: usize,
}

impl<'a> KeyedBlock<'a> {
    /// Reads the header.
    #[inline]
    pub fn parse(data: &'a [u8]) -> Result<KeyedBlock<'a>, DecodeError> {
        let header: &[u8; HEADER_LEN] = data.first_chunk().ok_or(CUT_SHORT)?;
        // Not by `map` of an array: the compiler calls the closure of each element.
        let field = |at| u32_at(header, at).unwrap_or(0);
        let (count, prefix, flags, reserved) = (field(0), field(4), field(8), field(12));
        if count == 0 || reserved != 0 {
            let is_later = reserved != 0;
            return Err(if is_later {
                LATER_KEYED
            } else {
                DecodeError::damage("a keyed block without keys")
            });
        }
        let offsets_start = HEADER_LEN + 8 * count as usize;
        let prefix_start = HEADER_LEN + SLOT_LEN * count as usize;
        let prefix = data.get(prefix_start..prefix_start + prefix as usize).ok_or(CUT_SHORT)?;
        let heads = pieces(&data[HEADER_LEN..offsets_start]);
        let offsets = pieces(&data[offsets_start..prefix_start]);
        Ok(KeyedBlock { data, heads, offsets, prefix, flags })
    }

    /// Number of keys; at least 1.
    #[inline]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// The prefix that all keys have in common.
    pub fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The payload.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    #[inline]
    fn head(&self, i: usize) -> u64 {
        u64::from_le_bytes(self.heads[i])
    }

    /// Body `i`, for `i` below [`KeyedBlock::len`].
    #[inline]
    pub fn body(&self, i: usize) -> Result<Body<'a>, DecodeError> {
        let mut start = u32::from_le_bytes(self.offsets[i]) as usize;
        let end = self.offsets.get(i + 1).map_or(self.data.len(), |&next| u32::from_le_bytes(next) as usize);
        let until_end = self.data.get(..end).ok_or(CUT_SHORT)?;
        let suffix_len = get_len(until_end, &mut start).ok_or(CUT_SHORT)?;
        let rest_end = start.checked_add(suffix_len.saturating_sub(8)).ok_or(CUT_SHORT)?;
        let rest = until_end.get(start..rest_end).ok_or(CUT_SHORT)?;
        Ok(Body { suffix_len, rest, start: rest_end, end })
    }

    /// Compares key `i` with a key of the same head; `suffix` is its part after the common prefix.
    #[inline]
    fn compare_after_equal_heads(&self, i: usize, suffix: &[u8]) -> Result<Ordering, DecodeError> {
        let body = self.body(i)?;
        if body.suffix_len <= 8 || suffix.len() <= 8 {
            return Ok(body.suffix_len.cmp(&suffix.len()));
        }
        Ok(body.rest.cmp(&suffix[8..]))
    }

    /// Index of the first key at or above `key` (or [`KeyedBlock::len`]), and true if the two are equal. Keys
    /// may repeat: blocks filled by one key's versions have equal separators.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> Result<(usize, bool), DecodeError> {
        let Some(suffix) = key.strip_prefix(self.prefix) else {
            // With the prefix a proper extension of `key`, `key` is below it in slice order, too.
            return Ok((if key < self.prefix { 0 } else { self.len() }, false));
        };
        let target = head_of(suffix);
        let first = self.first_head(target);
        if first == self.len() || self.head(first) != target {
            return Ok((first, false));
        }
        match self.compare_after_equal_heads(first, suffix)? {
            Ordering::Less => {}
            order => return Ok((first, order == Ordering::Equal)),
        }
        self.lower_bound_among_equal_heads(first + 1, target, suffix)
    }

    /// Index of the first head at or above `target`. The number of steps depends only on the number of heads,
    /// and each is a conditional move without a branch to mispredict.
    #[inline]
    fn first_head(&self, target: u64) -> usize {
        let mut heads = self.heads;
        let mut first = 0;
        while heads.len() > 1 {
            let half = heads.len() / 2;
            first += if u64::from_le_bytes(heads[half]) < target { half } else { 0 };
            heads = &self.heads[first..first + (heads.len() - half)];
        }
        first + usize::from(u64::from_le_bytes(heads[0]) < target)
    }

    #[cold]
    fn lower_bound_among_equal_heads(
        &self,
        first: usize,
        target: u64,
        suffix: &[u8],
    ) -> Result<(usize, bool), DecodeError> {
        let (mut low, mut high) = (first, self.len());
        let mut exact = false;
        while low < high {
            let middle = low + (high - low) / 2;
            let order = if self.head(middle) > target {
                Ordering::Greater
            } else {
                self.compare_after_equal_heads(middle, suffix)?
            };
            if order == Ordering::Less {
                low = middle + 1;
            } else {
                // What is at `high` when the loop ends was compared last among those that became `high`.
                exact = order == Ordering::Equal;
                high = middle;
            }
        }
        Ok((low, exact))
    }

    /// Reads key `i` into `key`. `same` means that `key` already has another key of this block; the common
    /// prefix is then not copied.
    #[inline]
    pub fn read_key(&self, i: usize, key: &mut Vec<u8>, same: bool) -> Result<Body<'a>, DecodeError> {
        let body = self.body(i)?;
        if same && key.len() >= self.prefix.len() {
            key.truncate(self.prefix.len());
        } else {
            key.clear();
            key.extend_from_slice(self.prefix);
        }
        let head = self.head(i).to_be_bytes();
        key.extend_from_slice(&head[..body.suffix_len.min(8)]);
        key.extend_from_slice(body.rest);
        Ok(body)
    }

    /// Completes the checks of [`KeyedBlock::parse`]: no flags but `known`, heads and offsets ascend, and offsets
    /// lie after the prefix. A block is checked once, when it is read.
    pub fn check(&self, known: u32) -> Result<(), DecodeError> {
        if self.flags & !known != 0 {
            return Err(LATER_KEYED);
        }
        let mut least = HEADER_LEN + SLOT_LEN * self.len() + self.prefix.len();
        let mut last_head = 0;
        for i in 0..self.len() {
            let at = u32::from_le_bytes(self.offsets[i]) as usize;
            if at < least || at >= self.data.len() {
                return Err(DecodeError::damage("offsets of a keyed block"));
            }
            least = at + 1;
            let head = self.head(i);
            if head < last_head {
                return Err(DecodeError::damage("heads of a keyed block are out of order"));
            }
            last_head = head;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn build(keys: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = KeyedBuilder::default();
        for key in keys {
            builder.push(key);
            builder.body().extend_from_slice(&key.len().to_le_bytes());
        }
        let mut payload = Vec::new();
        builder.finish(3, &mut payload);
        payload
    }

    #[test]
    fn a_large_body_gives_the_same_block_as_a_small_one() {
        let body: Vec<u8> = (0..LARGE_BODY + 17).map(|at| at as u8).collect();
        let (mut builder, mut payload) = (KeyedBuilder::default(), vec![1, 2, 3]);
        builder.push(b"a key");
        builder.body().extend_from_slice(&body);
        builder.finish(5, &mut payload);
        assert!(builder.is_empty() && builder.body().is_empty());
        builder.push(b"a key");
        builder.body().extend_from_slice(&body[..LARGE_BODY - 1]);
        let mut small = Vec::new();
        builder.finish(5, &mut small);
        assert!(payload.starts_with(&small));
        let block = KeyedBlock::parse(&payload).unwrap();
        block.check(u32::MAX).unwrap();
        assert_eq!(block.lower_bound(b"a key").unwrap(), (0, true));
        let found = block.body(0).unwrap();
        assert!(payload[found.start..found.end] == body[..]);
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        // Few distinct bytes, zero among them: equal heads, zero padding, keys that are prefixes of others.
        prop::collection::vec(prop::sample::select(vec![0u8, 0, 1, 255]), 0..20)
    }

    proptest! {
        #[test]
        fn searching_agrees_with_a_sorted_vector(
            keys in prop::collection::vec(key(), 1..60), probes in prop::collection::vec(key(), 30)
        ) {
            let mut keys = keys;
            keys.sort();
            let payload = build(&keys);
            let block = KeyedBlock::parse(&payload).unwrap();
            block.check(3).unwrap();
            prop_assert_eq!((block.len(), block.flags), (keys.len(), 3));
            let mut read = Vec::new();
            for (i, key) in keys.iter().enumerate() {
                let body = block.read_key(i, &mut read, i > 0).unwrap();
                prop_assert_eq!(&read, key);
                prop_assert_eq!(&payload[body.start..body.end], key.len().to_le_bytes());
            }
            for probe in probes.iter().chain(&keys) {
                let expected = (keys.partition_point(|key| key < probe), keys.contains(probe));
                prop_assert_eq!(block.lower_bound(probe).unwrap(), expected);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), probe in key()) {
            let mut bytes = bytes;
            for header in [false, true] {
                if header && bytes.len() > 16 {
                    bytes[..16].copy_from_slice(&[5, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                }
                if let Ok(block) = KeyedBlock::parse(&bytes) {
                    let _ = block.check(3);
                    let _ = block.lower_bound(&probe);
                    for i in 0..block.len() {
                        let _ = block.read_key(i, &mut Vec::new(), false);
                    }
                }
            }
        }
    }
}
