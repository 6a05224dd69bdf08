//! The order of a shard's locked keys: a sorted directory of sorted chunks of (head, entry number). Two
//! binary searches over packed integers find a key. Inserting and removing move at most a chunk. The
//! directory has the first head of each chunk. A search through the chunks themselves would wait for memory
//! at each step: a sixth of a large INSERT into a table with foreign keys. Allocates only when the number of
//! keys reaches a new high.

use std::cmp::Ordering;

use super::key::Probe;

/// Keys in a full chunk: 64 heads are 1 KiB, moved in about 20 ns.
const CHUNK: usize = 64;
/// Two neighbours are merged if together they have fewer keys than this. The next split then needs some
/// inserts.
const MERGE: usize = CHUNK * 3 / 4;
/// Emptied chunks kept for reuse.
const SPARE: usize = 8;

struct Chunk {
    len: usize,
    heads: [u128; CHUNK],
    ids: [u32; CHUNK],
}

impl Chunk {
    fn boxed() -> Box<Chunk> {
        Box::new(Chunk { len: 0, heads: [0; CHUNK], ids: [0; CHUNK] })
    }

    fn insert(&mut self, at: usize, head: u128, id: u32) {
        self.heads.copy_within(at..self.len, at + 1);
        self.ids.copy_within(at..self.len, at + 1);
        self.heads[at] = head;
        self.ids[at] = id;
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        self.heads.copy_within(at + 1..self.len, at);
        self.ids.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }
}

/// Position of a key: chunk, place in the chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    chunk: usize,
    at: usize,
}

/// Entry numbers in the order of their keys. The keys themselves are with the entries: callers pass
/// `after_head(id, probe)`, the order of entry `id`'s key against `probe` for equal heads.
///
/// Invariant: chunks are never empty, and their concatenation is strictly ascending; `firsts` has the first
/// head of each.
#[derive(Default)]
pub(super) struct OrderedIndex {
    firsts: Vec<u128>,
    #[allow(clippy::vec_box)] // moved between the two lists, and a directory insert moves pointers only
    chunks: Vec<Box<Chunk>>,
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Chunk>>,
}

impl OrderedIndex {
    /// Position of the key (`Ok`), or position for its insertion (`Err`).
    pub(super) fn search(
        &self,
        probe: &Probe<'_>,
        after_head: impl Fn(u32, &Probe<'_>) -> Ordering,
    ) -> Result<Position, Position> {
        let order = |chunk: &Chunk, at: usize| {
            chunk.heads[at].cmp(&probe.head).then_with(|| after_head(chunk.ids[at], probe))
        };
        if self.chunks.is_empty() {
            return Err(Position { chunk: 0, at: 0 });
        }
        let (mut chunk, mut end) = (0, self.chunks.len());
        while end - chunk > 1 {
            let middle = (chunk + end) / 2;
            let first = self.firsts[middle].cmp(&probe.head);
            match first.then_with(|| after_head(self.chunks[middle].ids[0], probe)) {
                Ordering::Greater => end = middle,
                _ => chunk = middle,
            }
        }
        let c = &*self.chunks[chunk];
        let (mut low, mut high) = (0, c.len);
        while low < high {
            let middle = (low + high) / 2;
            match order(c, middle) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Position { chunk, at: middle }),
            }
        }
        Err(Position { chunk, at: low })
    }

    /// The entry number at a position from `search`.
    pub(super) fn id(&self, position: Position) -> u32 {
        self.chunks[position.chunk].ids[position.at]
    }

    /// Inserts at an `Err` position of `search`, without a change in between.
    pub(super) fn insert(&mut self, position: Position, head: u128, id: u32) {
        let Position { mut chunk, mut at } = position;
        if self.chunks.is_empty() {
            let fresh = self.fresh();
            self.chunks.push(fresh);
            self.firsts.push(head);
        }
        if self.chunks[chunk].len == CHUNK {
            let mut upper = self.fresh();
            let lower = &mut self.chunks[chunk];
            // Keys that only grow fill chunks to the end instead of leaving halves.
            let keep = if at == CHUNK { CHUNK - CHUNK / 8 } else { CHUNK / 2 };
            upper.len = CHUNK - keep;
            upper.heads[..CHUNK - keep].copy_from_slice(&lower.heads[keep..]);
            upper.ids[..CHUNK - keep].copy_from_slice(&lower.ids[keep..]);
            lower.len = keep;
            self.firsts.insert(chunk + 1, upper.heads[0]);
            self.chunks.insert(chunk + 1, upper);
            if at > keep {
                at -= keep;
                chunk += 1;
            }
        }
        self.chunks[chunk].insert(at, head, id);
        self.firsts[chunk] = self.chunks[chunk].heads[0];
    }

    /// Removes the key at an `Ok` position of `search`, without a change in between.
    pub(super) fn remove(&mut self, position: Position) {
        let Position { chunk, at } = position;
        self.chunks[chunk].remove(at);
        self.firsts[chunk] = self.chunks[chunk].heads[0];
        let len = self.chunks[chunk].len;
        if len >= CHUNK / 4 {
            return;
        }
        if len == 0 {
            self.retire(chunk);
        } else if chunk + 1 < self.chunks.len() && len + self.chunks[chunk + 1].len < MERGE {
            self.merge(chunk);
        } else if chunk > 0 && self.chunks[chunk - 1].len + len < MERGE {
            self.merge(chunk - 1);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Entry numbers in key order, from a position of `search`.
    pub(super) fn iter_from(&self, position: Position) -> impl Iterator<Item = u32> + '_ {
        let Position { chunk, at } = position;
        let first = self.chunks.get(chunk).map_or(&[][..], |c| &c.ids[at.min(c.len)..c.len]);
        let others = self.chunks.iter().skip(chunk + 1).flat_map(|c| c.ids[..c.len].iter());
        first.iter().chain(others).copied()
    }

    /// Entry numbers in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.iter().flat_map(|c| c.ids[..c.len].iter().copied())
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        (self.chunks.len() + self.spare.len()) * size_of::<Chunk>()
            + (self.chunks.capacity() + self.spare.capacity()) * size_of::<usize>()
            + self.firsts.capacity() * size_of::<u128>()
    }

    fn merge(&mut self, chunk: usize) {
        let (left, right) = self.chunks.split_at_mut(chunk + 1);
        let (left, right) = (&mut left[chunk], &right[0]);
        let len = left.len;
        left.heads[len..len + right.len].copy_from_slice(&right.heads[..right.len]);
        left.ids[len..len + right.len].copy_from_slice(&right.ids[..right.len]);
        left.len += right.len;
        self.retire(chunk + 1);
    }

    fn retire(&mut self, chunk: usize) {
        let mut gone = self.chunks.remove(chunk);
        self.firsts.remove(chunk);
        gone.len = 0;
        if self.spare.len() < SPARE {
            self.spare.push(gone);
        }
    }

    fn fresh(&mut self) -> Box<Chunk> {
        self.spare.pop().unwrap_or_else(Chunk::boxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{rngs::StdRng, Rng, SeedableRng};
    use std::collections::BTreeMap;

    /// The index against a `BTreeMap`, with keys whose heads are often equal.
    fn run(seed: u64, universe: usize, steps: usize) {
        let mut rng = StdRng::seed_from_u64(seed);
        let keys: Vec<Vec<u8>> = (0..universe)
            .map(|i| {
                let mut key = vec![b'p'; if i % 3 == 0 { 20 } else { 2 }];
                key.extend_from_slice(&(i as u32 / 2).to_be_bytes());
                key.truncate(key.len() - (i % 2) * 3);
                key.push(i as u8);
                key
            })
            .collect();
        let after_head = |id: u32, probe: &Probe<'_>| {
            let mut stored = super::super::key::StoredKey::default();
            stored.set(&Probe::new(&keys[id as usize]));
            stored.cmp_after_head(probe)
        };
        let mut index = OrderedIndex::default();
        let mut model: BTreeMap<&[u8], u32> = BTreeMap::new();
        for step in 0..steps {
            let id = rng.gen_range(0..universe);
            let probe = Probe::new(&keys[id]);
            let grow = (step / universe) % 2 == 0;
            match index.search(&probe, after_head) {
                Ok(position) => {
                    assert_eq!(model.get(&*keys[id]), Some(&index.id(position)), "seed {seed}");
                    if !grow || rng.gen_bool(0.1) {
                        index.remove(position);
                        model.remove(&*keys[id]);
                    }
                }
                Err(position) => {
                    assert!(!model.contains_key(&*keys[id]), "seed {seed}");
                    if grow || rng.gen_bool(0.1) {
                        index.insert(position, probe.head, id as u32);
                        model.insert(&keys[id], id as u32);
                    }
                }
            }
            if step % 97 == 0 {
                assert!(index.iter().eq(model.values().copied()), "seed {seed}, step {step}");
                assert!(index.chunks.iter().all(|c| c.len > 0), "seed {seed}");
                assert!(
                    index.chunks.iter().map(|c| c.heads[0]).eq(index.firsts.iter().copied()),
                    "seed {seed}"
                );
            }
        }
        assert!(index.iter().eq(model.values().copied()), "seed {seed}");
    }

    #[test]
    fn index_is_an_ordered_map() {
        for seed in 0..20 {
            run(seed, 1 + seed as usize * 60, 8000);
        }
    }

    #[test]
    fn ascending_keys_fill_their_chunks() {
        let mut index = OrderedIndex::default();
        for i in 0..6400u32 {
            let bytes = i.to_be_bytes();
            let probe = Probe::new(&bytes);
            let position = index.search(&probe, |_, _| Ordering::Equal).unwrap_err();
            index.insert(position, probe.head, i);
        }
        assert!(index.iter().eq(0..6400));
        assert!(index.chunks.len() < 6400 / CHUNK * 5 / 4, "{} chunks", index.chunks.len());
    }
}
