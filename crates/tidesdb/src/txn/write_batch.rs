//! The private batch of a transaction: its changes in the order they were made and, for each family, in
//! the order of keys. Reads of the transaction look here first; `prepare` turns it into the immutable
//! batch that goes to the log and the memtable. Cutting back to a mark undoes a statement
//! (`protocols.md` 5.1).

use std::cmp::Ordering;

use crate::types::{FamilyId, Kind};

/// Ids in one chunk of a family's order; a full chunk is split in two. Bounds the memory moved by an
/// insertion in the middle to 2 KiB.
const CHUNK: usize = 512;

/// No entry.
const NONE: u32 = u32::MAX;

/// One change; key and value lie in the batch's bytes.
#[derive(Clone, Copy, Debug)]
struct Change {
    family: FamilyId,
    kind: Kind,
    key_len: u32,
    value_len: u32,
    start: usize,
    /// The change of the same key that this one replaced, for cutting back.
    replaced: u32,
}

/// Change ids of one family in the order of their keys, in chunks.
#[derive(Debug, Default)]
struct Order {
    family: FamilyId,
    chunks: Vec<Vec<u32>>,
}

/// A point in the history of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    changes: usize,
    bytes: usize,
}

/// A change as it is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnEntry<'a> {
    /// Key.
    pub key: &'a [u8],
    /// What the latest change of the key does.
    pub kind: Kind,
    /// Its value; empty for tombstones.
    pub value: &'a [u8],
}

/// The private batch.
#[derive(Debug, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    changes: Vec<Change>,
    orders: Vec<Order>,
    spare: Vec<Vec<u32>>,
}

impl WriteBatch {
    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of keys and values, with a constant for each change: what the bound on transactions counts.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.changes.len() * std::mem::size_of::<Change>()
    }

    /// Number of changes made (a key changed twice counts twice).
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Where the batch stands now.
    pub fn mark(&self) -> Mark {
        Mark { changes: self.changes.len(), bytes: self.bytes.len() }
    }

    /// Adds a change; a later change of a key hides the earlier one.
    pub fn push(&mut self, family: FamilyId, key: &[u8], kind: Kind, value: &[u8]) {
        let id = self.changes.len() as u32;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let order = self.order_of(family);
        let (chunk, place) = self.search(order, key);
        let ids = &mut self.orders[order].chunks;
        let replaced = match place {
            Ok(at) => std::mem::replace(&mut ids[chunk][at], id),
            Err(at) => {
                if ids.is_empty() {
                    ids.push(self.spare.pop().unwrap_or_default());
                }
                ids[chunk].insert(at, id);
                if ids[chunk].len() > CHUNK {
                    // A batch in key order leaves full chunks behind; any other splits in the middle.
                    let cut = if at == CHUNK { CHUNK } else { CHUNK / 2 };
                    let mut right = self.spare.pop().unwrap_or_default();
                    right.extend(ids[chunk].drain(cut..));
                    ids.insert(chunk + 1, right);
                }
                NONE
            }
        };
        self.changes.push(Change {
            family,
            kind,
            key_len: key.len() as u32,
            value_len: value.len() as u32,
            start,
            replaced,
        });
    }

    /// Undoes every change made after `mark`.
    pub fn cut_back(&mut self, mark: Mark) {
        while self.changes.len() > mark.changes {
            let id = self.changes.len() - 1;
            let change = self.changes[id];
            let order = self.order_of(change.family);
            let (chunk, place) = {
                let key = &self.bytes[change.start..change.start + change.key_len as usize];
                self.search(order, key)
            };
            if let Ok(at) = place {
                let ids = &mut self.orders[order].chunks;
                if change.replaced == NONE {
                    ids[chunk].remove(at);
                    if ids[chunk].is_empty() {
                        let empty = ids.remove(chunk);
                        self.spare.push(empty);
                    }
                } else {
                    ids[chunk][at] = change.replaced;
                }
            }
            self.changes.pop();
        }
        self.bytes.truncate(mark.bytes);
    }

    /// Forgets everything; memory beyond a megabyte is given back.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.bytes.clear();
        if self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
            self.changes = Vec::new();
            self.orders.clear();
            self.spare.clear();
            return;
        }
        for order in self.orders.drain(..) {
            for mut chunk in order.chunks {
                if self.spare.len() < 8 {
                    chunk.clear();
                    self.spare.push(chunk);
                }
            }
        }
    }

    /// Whether the family has changes.
    pub fn touches(&self, family: FamilyId) -> bool {
        self.touched().any(|touched| touched == family)
    }

    /// Families that have changes, in no order.
    pub fn touched(&self) -> impl Iterator<Item = FamilyId> + '_ {
        self.orders.iter().filter(|order| !order.chunks.is_empty()).map(|order| order.family)
    }

    /// The latest change of a key.
    pub fn get(&self, family: FamilyId, key: &[u8]) -> Option<OwnEntry<'_>> {
        let order = self.orders.iter().position(|order| order.family == family)?;
        let (chunk, place) = self.search(order, key);
        place.ok().map(|at| self.entry(self.orders[order].chunks[chunk][at]))
    }

    /// The first changed key at or after `key` (`after`: strictly after).
    pub fn first_from(&self, family: FamilyId, key: &[u8], after: bool) -> Option<OwnEntry<'_>> {
        let order = self.orders.iter().position(|order| order.family == family)?;
        let (chunk, place) = self.search(order, key);
        let chunks = &self.orders[order].chunks;
        let at = match place {
            Ok(at) if after => at + 1,
            Ok(at) | Err(at) => at,
        };
        let id = chunks.get(chunk)?.get(at).or_else(|| chunks.get(chunk + 1)?.first())?;
        Some(self.entry(*id))
    }

    /// The last changed key at or before `key` (`before`: strictly before); `None` for `key` is the end.
    pub fn last_to(&self, family: FamilyId, key: Option<&[u8]>, before: bool) -> Option<OwnEntry<'_>> {
        let order = self.orders.iter().position(|order| order.family == family)?;
        let chunks = &self.orders[order].chunks;
        let Some(key) = key else {
            return chunks.last()?.last().map(|&id| self.entry(id));
        };
        let (chunk, place) = self.search(order, key);
        let past = match place {
            Ok(at) if !before => at + 1,
            Ok(at) | Err(at) => at,
        };
        let id = match past.checked_sub(1) {
            Some(at) => chunks.get(chunk)?.get(at),
            None => chunks.get(chunk.checked_sub(1)?)?.last(),
        };
        id.map(|&id| self.entry(id))
    }

    /// Families that have changes, ascending, each with its latest changes in the order of keys.
    pub fn families(&self) -> impl Iterator<Item = (FamilyId, impl Iterator<Item = OwnEntry<'_>> + '_)> + '_ {
        let mut places: Vec<usize> =
            (0..self.orders.len()).filter(|&at| !self.orders[at].chunks.is_empty()).collect();
        places.sort_unstable_by_key(|&at| self.orders[at].family);
        places.into_iter().map(|at| {
            let order = &self.orders[at];
            (order.family, order.chunks.iter().flatten().map(|&id| self.entry(id)))
        })
    }

    /// Number of keys with changes in a family.
    pub fn keys(&self, family: FamilyId) -> usize {
        let order = self.orders.iter().find(|order| order.family == family);
        order.map_or(0, |order| order.chunks.iter().map(Vec::len).sum())
    }

    fn entry(&self, id: u32) -> OwnEntry<'_> {
        let change = &self.changes[id as usize];
        let (key, value) = self.bytes[change.start..][..(change.key_len + change.value_len) as usize]
            .split_at(change.key_len as usize);
        OwnEntry { key, kind: change.kind, value }
    }

    fn key(&self, id: u32) -> &[u8] {
        let change = &self.changes[id as usize];
        &self.bytes[change.start..change.start + change.key_len as usize]
    }

    fn order_of(&mut self, family: FamilyId) -> usize {
        match self.orders.iter().position(|order| order.family == family) {
            Some(at) => at,
            None => {
                self.orders.push(Order { family, chunks: Vec::new() });
                self.orders.len() - 1
            }
        }
    }

    /// The chunk where `key` is or belongs, and its place there.
    fn search(&self, order: usize, key: &[u8]) -> (usize, Result<usize, usize>) {
        let chunks = &self.orders[order].chunks;
        let after = chunks.partition_point(|chunk| chunk.first().is_some_and(|&id| self.key(id) <= key));
        let chunk = after.saturating_sub(1);
        let place = match chunks.get(chunk) {
            None => Err(0),
            Some(ids) => {
                // Batches are mostly made in key order: look at the end first.
                match ids.last().map(|&id| self.key(id).cmp(key)) {
                    Some(Ordering::Less) => Err(ids.len()),
                    _ => ids.binary_search_by(|&id| self.key(id).cmp(key)),
                }
            }
        };
        (chunk, place)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Model = BTreeMap<(FamilyId, Vec<u8>), (Kind, Vec<u8>)>;

    fn check(batch: &WriteBatch, model: &Model) {
        let seen: Model = batch
            .families()
            .flat_map(|(family, entries)| {
                entries
                    .map(move |e| ((family, e.key.to_vec()), (e.kind, e.value.to_vec())))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(&seen, model);
        for probe in 0..40u8 {
            for family in 1..3 {
                let key = vec![probe; 2];
                let at = (family, key.clone());
                assert_eq!(
                    batch.get(family, &key).map(|e| (e.kind, e.value.to_vec())),
                    model.get(&at).cloned()
                );
                let next =
                    model.range(at.clone()..).find(|((f, _), _)| *f == family).map(|((_, k), _)| k.clone());
                assert_eq!(batch.first_from(family, &key, false).map(|e| e.key.to_vec()), next);
                let next = model
                    .range((std::ops::Bound::Excluded(at.clone()), std::ops::Bound::Unbounded))
                    .find(|((f, _), _)| *f == family)
                    .map(|((_, k), _)| k.clone());
                assert_eq!(batch.first_from(family, &key, true).map(|e| e.key.to_vec()), next);
                let back = |inclusive: bool| {
                    model
                        .iter()
                        .rev()
                        .find(|((f, k), _)| *f == family && (k < &key || (inclusive && k == &key)))
                        .map(|((_, k), _)| k.clone())
                };
                assert_eq!(batch.last_to(family, Some(&key), false).map(|e| e.key.to_vec()), back(true));
                assert_eq!(batch.last_to(family, Some(&key), true).map(|e| e.key.to_vec()), back(false));
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_map_through_changes_and_cuts(
            steps in prop::collection::vec((0..10u8, 1..3u32, 0..40u8, 0..4usize), 1..200)
        ) {
            let mut batch = WriteBatch::default();
            let mut model = Model::new();
            let mut marks: Vec<(Mark, Model)> = Vec::new();
            for (what, family, key, len) in steps {
                let key = vec![key; 2];
                match what {
                    0 => marks.push((batch.mark(), model.clone())),
                    1 => if let Some((mark, then)) = marks.pop() {
                        batch.cut_back(mark);
                        model = then;
                    },
                    2..=3 => {
                        batch.push(family, &key, Kind::DELETE, &[]);
                        model.insert((family, key), (Kind::DELETE, vec![]));
                    }
                    _ => {
                        let value = vec![7; len];
                        batch.push(family, &key, Kind::PUT, &value);
                        model.insert((family, key), (Kind::PUT, value));
                    }
                }
            }
            check(&batch, &model);
            batch.clear();
            prop_assert!(batch.is_empty() && batch.families().next().is_none());
        }
    }

    #[test]
    fn many_keys_split_chunks_and_stay_in_order() {
        for stride in [1u32, 7919] {
            let mut batch = WriteBatch::default();
            for i in 0..5000u32 {
                batch.push(1, &(i.wrapping_mul(stride) % 5003).to_be_bytes(), Kind::PUT, b"v");
            }
            let keys: Vec<Vec<u8>> =
                batch.families().flat_map(|(_, e)| e.map(|e| e.key.to_vec()).collect::<Vec<_>>()).collect();
            assert!(keys.windows(2).all(|w| w[0] < w[1]));
            assert_eq!(keys.len(), 5000);
            let first = batch.first_from(1, &[], false).map(|e| e.key.to_vec());
            assert_eq!(first.as_ref(), keys.first());
            assert_eq!(batch.last_to(1, None, false).map(|e| e.key.to_vec()).as_ref(), keys.last());
        }
    }
}
