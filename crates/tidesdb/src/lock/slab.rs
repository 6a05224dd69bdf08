//! A vector in chunks. It grows without moving its contents, and exceeds them by at most a chunk. A doubling
//! vector in one piece takes three times its contents during the move. Its former places leave holes, which
//! enlarge a server's memory ever after.

use std::ops::{Index, IndexMut};

/// Elements of a full chunk.
const CHUNK: usize = 512;

/// Elements by number, in the order of their addition; none is ever removed.
#[derive(Default)]
pub(super) struct Slab<T> {
    /// All but the last are full. Small slabs are common: the first chunk starts small.
    chunks: Vec<Vec<T>>,
}

impl<T: Default> Slab<T> {
    /// Adds a default element; returns its number.
    pub(super) fn add(&mut self) -> u32 {
        match self.chunks.last() {
            // One: a family's lock on the table, or that on the only row that is written.
            None => self.chunks.push(Vec::with_capacity(1)),
            Some(last) if last.len() == CHUNK => self.chunks.push(Vec::with_capacity(CHUNK)),
            Some(_) => {}
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let last = self.chunks.last_mut().expect("one was pushed where none was");
        last.push(T::default());
        (before + last.len() - 1) as u32
    }
}

impl<T> Slab<T> {
    pub(super) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Bytes of the chunks, without memory owned by the elements.
    pub(super) fn heap_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Vec<T>>()
            + self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum::<usize>()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_find_their_elements_across_chunks() {
        let mut slab = Slab::<u64>::default();
        for value in 0..3 * CHUNK as u64 + 7 {
            let number = slab.add();
            assert_eq!(u64::from(number), value);
            assert_eq!(slab.len() as u64, value + 1);
            slab[number] = value * 3;
        }
        assert!((0..3 * CHUNK as u32 + 7).all(|number| slab[number] == u64::from(number) * 3));
        assert!(slab.iter().copied().eq((0..3 * CHUNK as u64 + 7).map(|value| value * 3)));
    }

    #[test]
    fn takes_at_most_a_chunk_more_than_it_holds() {
        let mut slab = Slab::<u64>::default();
        for count in 1..=20 * CHUNK {
            slab.add();
            let spare = slab.heap_bytes() - count * size_of::<u64>();
            assert!(spare <= CHUNK * size_of::<u64>() + 64 * size_of::<Vec<u64>>(), "{spare} for {count}");
        }
    }
}
