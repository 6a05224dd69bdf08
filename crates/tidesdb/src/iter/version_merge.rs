//! A merge of runs with every version: one [`VersionIterator`] from several. Keys ascend, versions of a key
//! are newest first. Among copies of one version (left by a crash between a flush and its edit) the newest
//! run's comes first.

use crate::error::Result;
use crate::iter::VersionIterator;
use crate::mutant::{self, Mutant};
use crate::types::Entry;

/// A tree of losers (Knuth, volume 3) over the iterators. A step costs one comparison a level, mostly of two
/// cached integers.
pub struct MergingVersionIterator<'a> {
    iterators: Vec<Box<dyn VersionIterator + 'a>>,
    /// The first eight bytes of each iterator's key, big-endian; unspecified for an exhausted iterator.
    heads: Vec<u64>,
    live: Vec<bool>,
    /// `tree[0]` is the winner; `tree[n]` lost the match at inner node n.
    tree: Vec<usize>,
}

impl<'a> MergingVersionIterator<'a> {
    /// An unpositioned merge of `iterators`, the newest run first.
    pub fn new(iterators: Vec<Box<dyn VersionIterator + 'a>>) -> MergingVersionIterator<'a> {
        let len = iterators.len();
        MergingVersionIterator {
            iterators,
            heads: vec![0; len],
            live: vec![false; len],
            tree: vec![0; len.max(1)],
        }
    }

    fn refresh(&mut self, at: usize) {
        let iter = &self.iterators[at];
        self.live[at] = iter.valid();
        if self.live[at] {
            let key = iter.key();
            let mut head = [0; 8];
            let len = key.len().min(8);
            head[..len].copy_from_slice(&key[..len]);
            self.heads[at] = u64::from_be_bytes(head);
        }
    }

    /// True if iterator `a` comes before iterator `b`.
    fn before(&self, a: usize, b: usize) -> bool {
        if !self.live[a] || !self.live[b] {
            return self.live[a];
        }
        if self.heads[a] != self.heads[b] {
            return self.heads[a] < self.heads[b];
        }
        let (x, y) = (&self.iterators[a], &self.iterators[b]);
        if mutant::is(Mutant::MergeOldestFirst) {
            return x.key().cmp(y.key()).then_with(|| x.entry().seq.cmp(&y.entry().seq)).is_lt();
        }
        x.key().cmp(y.key()).then_with(|| y.entry().seq.cmp(&x.entry().seq)).then(a.cmp(&b)).is_lt()
    }

    /// Replays the matches above leaf `at` after a change of its iterator, the winner of all of them.
    fn replay(&mut self, at: usize) {
        let mut winner = at;
        let mut node = (at + self.iterators.len()) / 2;
        while node > 0 {
            if self.before(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    /// Plays every match.
    fn build(&mut self) {
        let len = self.iterators.len();
        let mut winners = vec![0; 2 * len.max(1)];
        for at in 0..len {
            winners[len + at] = at;
        }
        for node in (1..len).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if self.before(b, a) { (b, a) } else { (a, b) };
            winners[node] = winner;
            self.tree[node] = loser;
        }
        self.tree[0] = if len > 1 { winners[1] } else { 0 };
    }
}

impl VersionIterator for MergingVersionIterator<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        for at in 0..self.iterators.len() {
            self.live[at] = false;
        }
        for at in 0..self.iterators.len() {
            self.iterators[at].seek(key)?;
            self.refresh(at);
        }
        self.build();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let at = self.tree[0];
        let stepped = self.iterators[at].next();
        if stepped.is_err() && mutant::is(Mutant::DamagedRunMerged) {
            self.live[at] = false;
            self.replay(at);
            return Ok(());
        }
        if stepped.is_err() {
            self.live.fill(false);
            return stepped;
        }
        self.refresh(at);
        if self.iterators.len() > 1 {
            self.replay(at);
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        self.live.get(self.tree[0]) == Some(&true)
    }

    fn key(&self) -> &[u8] {
        self.iterators[self.tree[0]].key()
    }

    fn entry(&self) -> Entry<'_> {
        self.iterators[self.tree[0]].entry()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iter::vec_iterator::VecVersionIterator;
    use crate::types::Kind;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn any_number_of_runs_comes_out_in_order() {
        for seed in 0..300u64 {
            let mut rng = StdRng::seed_from_u64(seed);
            let runs: usize = rng.gen_range(0..9);
            let mut all = Vec::new();
            let mut iterators: Vec<Box<dyn VersionIterator>> = Vec::new();
            for run in 0..runs {
                let mut entries = Vec::new();
                for _ in 0..rng.gen_range(0..40) {
                    let key = format!("commonprefix{}", rng.gen_range(0..30)).into_bytes();
                    entries.push((key, rng.gen_range(1..50), Kind::PUT, vec![run as u8]));
                }
                let iter = VecVersionIterator::new(entries);
                all.extend(iter.entries.iter().cloned());
                iterators.push(Box::new(iter));
            }
            all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.3.cmp(&b.3)));
            let mut merge = MergingVersionIterator::new(iterators);
            for from in ["", "commonprefix2", "z"] {
                merge.seek(from.as_bytes()).unwrap();
                for (key, seq, _, value) in all.iter().filter(|e| e.0.as_slice() >= from.as_bytes()) {
                    assert!(merge.valid(), "seed {seed}");
                    let entry = merge.entry();
                    assert_eq!(
                        (merge.key(), entry.seq, entry.stored()),
                        (&key[..], *seq, &value[..]),
                        "seed {seed}"
                    );
                    merge.next().unwrap();
                }
                assert!(!merge.valid(), "seed {seed}");
            }
        }
    }
}
