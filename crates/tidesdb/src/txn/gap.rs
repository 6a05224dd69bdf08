//! The gap around a missing key: its live neighbours in the store.

use crate::error::Result;
use crate::iter::merge::MergingIterator;
use crate::iter::{InternalIterator, KeyRange};
use crate::store::Store;
use crate::types::{FamilyId, MAX_SEQ};

/// The gap around a missing key: from just after the live key before it up to the next live key. Passes a
/// bounded number of deleted keys; beyond the bound, the gap is smaller than it could be.
pub(crate) fn gap_around(store: &Store, family: FamilyId, key: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    const DEAD_KEYS: usize = 8;
    let mut merge =
        MergingIterator::new(store.super_version().iterators(family, MAX_SEQ, &[], &KeyRange::default)?);
    merge.seek(key)?;
    let mut steps = 0;
    while merge.valid() && merge.entry().kind.is_tombstone() && steps < DEAD_KEYS {
        merge.next()?;
        steps += 1;
    }
    let to = merge.valid().then(|| merge.key().to_vec());
    let to = to.filter(|to| to.as_slice() > key);
    merge.seek_for_prev(key)?;
    let mut steps = 0;
    while merge.valid() && merge.entry().kind.is_tombstone() && steps < DEAD_KEYS {
        merge.prev()?;
        steps += 1;
    }
    let from = if merge.valid() { successor(merge.key()) } else { Vec::new() };
    Ok((from, to))
}

/// The first key after `key`.
pub(super) fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}
