//! Ranges of keys, as callers write them and as scans need them.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::txn::cursor::successor_of_prefix;

/// A range of keys: `..`, `"a"..`, `.."c"`, `"a".."c"`, `"a"..="c"`, `..="c"`, or a pair of [`Bound`]s.
///
/// A key is any byte string: `&str`, `String`, `&[u8]`, `[u8; 8]`, `Vec<u8>`. A trait of its own: the
/// standard library's `RangeBounds` leaves the type of the keys in `..` open.
pub trait KeyBounds {
    /// First and last key, each with or without the key itself.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyBounds for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyBounds for Range<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start.as_ref()), Bound::Excluded(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for RangeFrom<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start.as_ref()), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyBounds for RangeTo<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Excluded(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for RangeInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start().as_ref()), Bound::Included(self.end().as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for RangeToInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Included(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for (Bound<K>, Bound<K>) {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.0.as_ref().map(AsRef::as_ref), self.1.as_ref().map(AsRef::as_ref))
    }
}

/// A range of keys: at or after `lower`, before `upper`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ByteRange {
    /// First key; the empty key stands before all others.
    pub lower: Vec<u8>,
    /// First key after the range; `None`: the range has no end.
    pub upper: Option<Vec<u8>>,
    /// All keys of the range start with the first so many bytes of `lower`, and no others do. Scans then
    /// leave out tables whose prefix filter excludes it.
    pub prefix: usize,
}

/// The first key after `key`.
fn next_key(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

impl ByteRange {
    /// The range in the caller's form.
    pub fn of(keys: &impl KeyBounds) -> ByteRange {
        let (lower, upper) = keys.bounds();
        let lower = match lower {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => next_key(key),
        };
        let upper = match upper {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(next_key(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
        };
        ByteRange { lower, upper, prefix: 0 }
    }

    /// The range of all keys with this prefix.
    pub fn of_prefix(prefix: &[u8]) -> ByteRange {
        let mut upper = Vec::new();
        let ends = successor_of_prefix(prefix, &mut upper);
        ByteRange { lower: prefix.to_vec(), upper: ends.then_some(upper), prefix: prefix.len() }
    }

    /// True if a key lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.lower.as_slice() && self.upper.as_deref().is_none_or(|upper| key < upper)
    }

    /// True if no key lies in the range.
    pub fn is_empty(&self) -> bool {
        self.upper.as_deref().is_some_and(|upper| upper <= self.lower.as_slice())
    }

    /// A key before `lower` with hardly any key between them: a backward scan need not walk on to keys before
    /// it. `None`: no key stands before `lower`.
    ///
    /// Bytes have no greatest string before `"b"`: it would be `"a\xff\xff..."` without an end. A scan stops
    /// at the key given here, and its caller leaves out the keys between.
    pub(super) fn before_lower(&self) -> Option<Vec<u8>> {
        const FILL: usize = 16;
        let (last, head) = self.lower.split_last()?;
        let mut key = head.to_vec();
        if let Some(less) = last.checked_sub(1) {
            key.push(less);
            key.extend_from_slice(&[0xff; FILL]);
        }
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(keys: impl KeyBounds) -> (Vec<u8>, Option<Vec<u8>>) {
        let range = ByteRange::of(&keys);
        (range.lower, range.upper)
    }

    #[test]
    fn every_kind_of_range_is_a_first_key_and_an_end() {
        let (a, c) = (b"a".to_vec(), b"c".to_vec());
        assert_eq!(range(..), (vec![], None));
        assert_eq!(range("a"..), (a.clone(), None));
        assert_eq!(range(.."c"), (vec![], Some(c.clone())));
        assert_eq!(range("a".."c"), (a.clone(), Some(c.clone())));
        assert_eq!(range("a"..="c"), (a.clone(), Some(b"c\0".to_vec())));
        assert_eq!(range(..=c), (vec![], Some(b"c\0".to_vec())));
        assert_eq!(range([1u8, 2]..[3u8, 4]), (vec![1, 2], Some(vec![3, 4])));
        assert_eq!(range((Bound::Excluded(a), Bound::Unbounded)), (b"a\0".to_vec(), None));
    }

    #[test]
    fn a_prefix_is_the_range_of_its_keys() {
        let ap = ByteRange::of_prefix(b"ap");
        assert_eq!((ap.lower.as_slice(), ap.upper.as_deref()), (&b"ap"[..], Some(&b"aq"[..])));
        assert_eq!(ByteRange::of_prefix(b"a\xff").upper.as_deref(), Some(&b"b"[..]));
        assert_eq!(ByteRange::of_prefix(b"\xff\xff").upper, None);
        assert_eq!(ByteRange::of_prefix(b"").upper, None);
    }

    #[test]
    fn a_backward_scan_stops_before_the_range() {
        for lower in ["b", "b\0", "b\u{1}", "\0"] {
            let range = ByteRange { lower: lower.into(), ..ByteRange::default() };
            let before = range.before_lower().expect("a key stands before");
            assert!(before.as_slice() < lower.as_bytes(), "{lower:?}: {before:?}");
        }
        assert_eq!(ByteRange::default().before_lower(), None);
    }
}
