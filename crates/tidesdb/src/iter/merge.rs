//! A merge of the runs of a family into one stream. Iterators are ordered newest first. Among equal keys the
//! newest iterator wins, regardless of the kind of run, because a newer run has only newer versions of a key.

use crate::cache::work;
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::mutant::{self, Mutant};
use crate::types::Entry;

/// A stream of each key's newest visible version over several iterators, tombstones included.
pub struct MergingIterator {
    iterators: Vec<Box<dyn InternalIterator>>,
    /// The iterator at the current key.
    current: Option<usize>,
    /// True if the others are exhausted in this direction. A step is then a step of the current one.
    alone: bool,
    /// Direction of the last move; a change of direction seeks the other iterators anew.
    forward: bool,
    /// The key before a step; the buffer is reused.
    passed: Vec<u8>,
}

impl MergingIterator {
    /// A merge over `iterators`, newest first. It is unpositioned until a seek.
    pub fn new(iterators: Vec<Box<dyn InternalIterator>>) -> MergingIterator {
        MergingIterator { iterators, current: None, alone: false, forward: true, passed: Vec::new() }
    }

    /// Index of the iterator at the current key.
    pub fn current_iter(&self) -> Option<usize> {
        self.current
    }

    fn pick(&mut self) {
        let mut best: Option<(usize, &[u8])> = None;
        let mut valid = 0;
        for (index, iter) in self.iterators.iter().enumerate() {
            if !iter.valid() {
                continue;
            }
            valid += 1;
            let key = iter.key();
            let better = match best {
                None => true,
                Some((_, found)) if mutant::is(Mutant::ReadOldestRun) && key == found => true,
                Some((_, found)) if self.forward => key < found,
                Some((_, found)) => key > found,
            };
            if better {
                best = Some((index, key));
            }
        }
        self.current = best.map(|(index, _)| index);
        self.alone = valid == 1;
    }

    fn step(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        if self.alone {
            let iter = &mut self.iterators[current];
            if self.forward {
                iter.next()?;
            } else {
                iter.prev()?;
            }
            self.current = iter.valid().then_some(current);
            return Ok(());
        }
        if self.iterators.len() > 1 {
            self.passed.clear();
            self.passed.extend_from_slice(self.iterators[current].key());
            for (index, iter) in self.iterators.iter_mut().enumerate() {
                if index != current && iter.valid() && iter.key() == self.passed {
                    work::note_passed(1);
                    if self.forward {
                        iter.next()?;
                    } else {
                        iter.prev()?;
                    }
                }
            }
        }
        let iter = &mut self.iterators[current];
        if self.forward {
            iter.next()?;
        } else {
            iter.prev()?;
        }
        self.pick();
        Ok(())
    }

    /// Copies the least key of the iterators except `current` into `passed`. For a forward merge with a valid
    /// one among them.
    fn note_least_of_others(&mut self, current: usize) {
        let others =
            self.iterators.iter().enumerate().filter(|(index, iter)| *index != current && iter.valid());
        let least = others.map(|(_, iter)| iter.key()).min().unwrap_or_default();
        self.passed.clear();
        self.passed.extend_from_slice(least);
    }

    /// Moves every iterator to the other side of the current key.
    fn turn(&mut self, forward: bool) -> Result<()> {
        let Some(current) = self.current else { return Ok(()) };
        self.passed.clear();
        self.passed.extend_from_slice(self.iterators[current].key());
        self.forward = forward;
        for iter in &mut self.iterators {
            if forward {
                iter.seek(&self.passed)?;
            } else {
                iter.seek_for_prev(&self.passed)?;
            }
        }
        self.pick();
        Ok(())
    }
}

impl InternalIterator for MergingIterator {
    fn seek_to_first(&mut self) -> Result<()> {
        self.current = None;
        self.forward = true;
        for iter in &mut self.iterators {
            iter.seek_to_first()?;
        }
        self.pick();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.current = None;
        self.forward = false;
        for iter in &mut self.iterators {
            iter.seek_to_last()?;
        }
        self.pick();
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.current = None;
        self.forward = true;
        for iter in &mut self.iterators {
            iter.seek(key)?;
        }
        self.pick();
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.current = None;
        self.forward = false;
        for iter in &mut self.iterators {
            iter.seek_for_prev(key)?;
        }
        self.pick();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if !self.forward {
            self.turn(true)?;
        }
        self.step()
    }

    fn prev(&mut self) -> Result<()> {
        if self.forward {
            self.turn(false)?;
        }
        self.step()
    }

    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn key(&self) -> &[u8] {
        self.current.map_or(&[], |current| self.iterators[current].key())
    }

    fn entry(&self) -> Entry<'_> {
        match self.current {
            Some(current) => self.iterators[current].entry(),
            None => Entry::new(0, crate::types::Kind::DELETE, &[]),
        }
    }

    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        if !self.forward {
            self.turn(true)?;
        }
        while let Some(current) = self.current.take() {
            if self.alone {
                let iter = &mut self.iterators[current];
                iter.walk(visit)?;
                self.current = iter.valid().then_some(current);
                break;
            }
            self.note_least_of_others(current);
            let (iter, others) = (&mut self.iterators[current], self.passed.as_slice());
            if iter.key() == others {
                // The others have older versions of this key, which a step passes.
                let taken = visit(iter.key(), iter.entry());
                self.current = Some(current);
                if !taken {
                    break;
                }
                self.step()?;
                continue;
            }
            iter.walk(&mut |key, entry| key < others && visit(key, entry))?;
            if iter.valid() && iter.key() < others {
                self.current = Some(current);
                break;
            }
            self.pick();
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::types::Kind;

    /// A run held in a sorted vector.
    pub(crate) struct VecIterator {
        rows: Vec<(Vec<u8>, u64)>,
        at: Option<usize>,
    }

    impl VecIterator {
        pub(crate) fn new(rows: Vec<(Vec<u8>, u64)>) -> VecIterator {
            VecIterator { rows, at: None }
        }
    }

    impl InternalIterator for VecIterator {
        fn seek_to_first(&mut self) -> Result<()> {
            self.at = (!self.rows.is_empty()).then_some(0);
            Ok(())
        }
        fn seek_to_last(&mut self) -> Result<()> {
            self.at = self.rows.len().checked_sub(1);
            Ok(())
        }
        fn seek(&mut self, key: &[u8]) -> Result<()> {
            let at = self.rows.partition_point(|row| row.0.as_slice() < key);
            self.at = (at < self.rows.len()).then_some(at);
            Ok(())
        }
        fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
            self.at = self.rows.partition_point(|row| row.0.as_slice() <= key).checked_sub(1);
            Ok(())
        }
        fn next(&mut self) -> Result<()> {
            self.at = self.at.map(|at| at + 1).filter(|&at| at < self.rows.len());
            Ok(())
        }
        fn prev(&mut self) -> Result<()> {
            self.at = self.at.and_then(|at| at.checked_sub(1));
            Ok(())
        }
        fn valid(&self) -> bool {
            self.at.is_some()
        }
        fn key(&self) -> &[u8] {
            &self.rows[self.at.expect("valid")].0
        }
        fn entry(&self) -> Entry<'_> {
            Entry::new(self.rows[self.at.expect("valid")].1, Kind::PUT, &[])
        }
    }

    proptest! {
        #[test]
        fn walks_like_a_map_of_the_newest_versions(
            runs in prop::collection::vec(prop::collection::btree_set(0..30u8, 0..12), 0..5),
            moves in prop::collection::vec((0..7u8, 0..32u8), 1..60),
        ) {
            let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let mut iterators: Vec<Box<dyn InternalIterator>> = Vec::new();
            for (age, run) in runs.iter().enumerate() {
                let seq = 100 - age as u64;
                let rows: Vec<_> = run.iter().map(|&k| (vec![k], seq)).collect();
                for (key, seq) in &rows {
                    model.entry(key.clone()).or_insert(*seq);
                }
                iterators.push(Box::new(VecIterator::new(rows)));
            }
            let rows: Vec<(Vec<u8>, u64)> = model.into_iter().collect();
            let mut expected = VecIterator::new(rows);
            let mut merge = MergingIterator::new(iterators);
            for (what, key) in moves {
                let key = [key];
                let mut walked = [Vec::new(), Vec::new()];
                for (iter, walked) in [&mut merge as &mut dyn InternalIterator, &mut expected].into_iter().zip(&mut walked) {
                    match what {
                        0 => iter.seek(&key)?,
                        1 => iter.seek_for_prev(&key)?,
                        2 => iter.seek_to_first()?,
                        3 => iter.seek_to_last()?,
                        4 => if iter.valid() { iter.next()? },
                        5 => iter.walk(&mut |at, entry| {
                            let takes = walked.len() < usize::from(key[0]) / 4;
                            if takes {
                                walked.push((at.to_vec(), entry.seq));
                            }
                            takes
                        })?,
                        _ => if iter.valid() { iter.prev()? },
                    }
                }
                prop_assert_eq!(&walked[0], &walked[1]);
                prop_assert_eq!(merge.valid(), expected.valid());
                if expected.valid() {
                    prop_assert_eq!(merge.key(), expected.key());
                    prop_assert_eq!(merge.entry().seq, expected.entry().seq);
                }
            }
        }
    }
}
