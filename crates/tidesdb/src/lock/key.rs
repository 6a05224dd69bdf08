//! Keys of the lock table. One integer has the first 16 bytes. Keys of up to 16 bytes are therefore compared,
//! hashed and stored without access to other memory.

use std::cmp::Ordering;

/// Bytes of a key in its head.
pub(super) const HEAD_LEN: usize = 16;

/// A search key. The order by (`head`, `rest`, `len`) is the order of the bytes.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    /// The first 16 bytes, big-endian, padded with zeros.
    pub(super) head: u128,
    /// The bytes after the head.
    pub(super) rest: &'a [u8],
    /// Length of the whole key; it distinguishes keys made equal by the padding.
    pub(super) len: u32,
}

impl<'a> Probe<'a> {
    pub(super) fn new(key: &'a [u8]) -> Probe<'a> {
        let (head, rest) = match key.split_first_chunk::<HEAD_LEN>() {
            Some((head, rest)) => (u128::from_be_bytes(*head), rest),
            None => {
                let mut head = [0; HEAD_LEN];
                head[..key.len()].copy_from_slice(key);
                (u128::from_be_bytes(head), &key[key.len()..])
            }
        };
        Probe { head, rest, len: key.len() as u32 }
    }

    /// A hash whose upper bits are well mixed.
    pub(super) fn hash(&self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut h = (self.head as u64).wrapping_mul(ODD) ^ ((self.head >> 64) as u64);
        if !self.rest.is_empty() {
            h ^= xxhash_rust::xxh3::xxh3_64(self.rest);
        }
        (h ^ (h >> 29) ^ u64::from(self.len)).wrapping_mul(ODD)
    }
}

/// A stored key. The next key in the same place reuses the buffer for the rest.
#[derive(Default)]
pub(super) struct StoredKey {
    head: u128,
    len: u32,
    rest: Vec<u8>,
}

/// Largest buffer kept without its key, in bytes.
const KEEP_REST: usize = 256;

impl StoredKey {
    pub(super) fn set(&mut self, probe: &Probe<'_>) {
        self.head = probe.head;
        self.len = probe.len;
        self.rest.clear();
        self.rest.extend_from_slice(probe.rest);
    }

    pub(super) fn clear(&mut self) {
        if self.rest.capacity() > KEEP_REST {
            self.rest = Vec::new();
        } else {
            self.rest.clear();
        }
    }

    pub(super) fn as_probe(&self) -> Probe<'_> {
        Probe { head: self.head, rest: &self.rest, len: self.len }
    }

    /// Order of this key's bytes against those of `probe`, for equal heads.
    pub(super) fn cmp_after_head(&self, probe: &Probe<'_>) -> Ordering {
        self.rest.as_slice().cmp(probe.rest).then(self.len.cmp(&probe.len))
    }

    /// Order of this key's bytes against those of `probe`.
    pub(super) fn cmp(&self, probe: &Probe<'_>) -> Ordering {
        self.head.cmp(&probe.head).then_with(|| self.cmp_after_head(probe))
    }

    /// The bytes of the key.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len as usize);
        self.copy_to(&mut out);
        out
    }

    /// Copies the bytes of the key into `out`, replacing its contents.
    pub(super) fn copy_to(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.head.to_be_bytes()[..HEAD_LEN.min(self.len as usize)]);
        out.extend_from_slice(&self.rest);
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.rest.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(a: &[u8], b: &[u8]) -> Ordering {
        let mut stored = StoredKey::default();
        stored.set(&Probe::new(a));
        assert_eq!(stored.to_vec(), a);
        let b = Probe::new(b);
        stored.as_probe().head.cmp(&b.head).then_with(|| stored.cmp_after_head(&b))
    }

    #[test]
    fn padding_is_told_from_zero_bytes() {
        let zeros = [0u8; 40];
        for a in 0..zeros.len() {
            for b in 0..zeros.len() {
                assert_eq!(order(&zeros[..a], &zeros[..b]), a.cmp(&b));
            }
        }
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_bytes(
            a in proptest::collection::vec(0u8..3, 0..40),
            b in proptest::collection::vec(0u8..3, 0..40),
        ) {
            prop_assert_eq!(order(&a, &b), a.cmp(&b));
        }
    }
}
