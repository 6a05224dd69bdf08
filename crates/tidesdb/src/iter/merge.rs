//! Merges the runs of a family into one stream. Sources stand newest first; of equal keys the newest
//! source wins, whatever kind of run it is, because a newer run holds only newer versions of a key.

use crate::error::Result;
use crate::iter::Source;
use crate::types::Entry;

/// A stream of each key's newest visible version over several sources, tombstones included.
pub struct Merge {
    sources: Vec<Box<dyn Source>>,
    /// The source that the merge stands on.
    current: Option<usize>,
    /// The others have nothing more in this direction: a step is a step of the current one.
    alone: bool,
    /// Direction of the last move; turning round seeks the other sources anew.
    forward: bool,
    /// The key stood on before a step, reused.
    passed: Vec<u8>,
}

impl Merge {
    /// A merge over `sources`, newest first. It stands nowhere until a seek.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Merge {
        Merge { sources, current: None, alone: false, forward: true, passed: Vec::new() }
    }

    /// Which of the sources the merge stands on.
    pub fn current_source(&self) -> Option<usize> {
        self.current
    }

    fn pick(&mut self) {
        let mut best: Option<(usize, &[u8])> = None;
        let mut valid = 0;
        for (index, source) in self.sources.iter().enumerate() {
            if !source.valid() {
                continue;
            }
            valid += 1;
            let key = source.key();
            let better = match best {
                None => true,
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
            let source = &mut self.sources[current];
            if self.forward {
                source.next()?;
            } else {
                source.prev()?;
            }
            self.current = source.valid().then_some(current);
            return Ok(());
        }
        if self.sources.len() > 1 {
            self.passed.clear();
            self.passed.extend_from_slice(self.sources[current].key());
            for (index, source) in self.sources.iter_mut().enumerate() {
                if index != current && source.valid() && source.key() == self.passed {
                    if self.forward {
                        source.next()?;
                    } else {
                        source.prev()?;
                    }
                }
            }
        }
        let source = &mut self.sources[current];
        if self.forward {
            source.next()?;
        } else {
            source.prev()?;
        }
        self.pick();
        Ok(())
    }

    /// Copies the least key of the sources beside `current` into `passed`. Going forward, with one that is valid.
    fn note_least_of_others(&mut self, current: usize) {
        let others =
            self.sources.iter().enumerate().filter(|(index, source)| *index != current && source.valid());
        let least = others.map(|(_, source)| source.key()).min().unwrap_or_default();
        self.passed.clear();
        self.passed.extend_from_slice(least);
    }

    /// Brings every source to the other side of the current key.
    fn turn(&mut self, forward: bool) -> Result<()> {
        let Some(current) = self.current else { return Ok(()) };
        self.passed.clear();
        self.passed.extend_from_slice(self.sources[current].key());
        self.forward = forward;
        for source in &mut self.sources {
            if forward {
                source.seek(&self.passed)?;
            } else {
                source.seek_for_prev(&self.passed)?;
            }
        }
        self.pick();
        Ok(())
    }
}

impl Source for Merge {
    fn seek_to_first(&mut self) -> Result<()> {
        self.current = None;
        self.forward = true;
        for source in &mut self.sources {
            source.seek_to_first()?;
        }
        self.pick();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.current = None;
        self.forward = false;
        for source in &mut self.sources {
            source.seek_to_last()?;
        }
        self.pick();
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.current = None;
        self.forward = true;
        for source in &mut self.sources {
            source.seek(key)?;
        }
        self.pick();
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.current = None;
        self.forward = false;
        for source in &mut self.sources {
            source.seek_for_prev(key)?;
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
        self.current.map_or(&[], |current| self.sources[current].key())
    }

    fn entry(&self) -> Entry<'_> {
        match self.current {
            Some(current) => self.sources[current].entry(),
            None => Entry { seq: 0, kind: crate::types::Kind::DELETE, value: &[] },
        }
    }

    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        if !self.forward {
            self.turn(true)?;
        }
        while let Some(current) = self.current.take() {
            if self.alone {
                let source = &mut self.sources[current];
                source.walk(visit)?;
                self.current = source.valid().then_some(current);
                break;
            }
            self.note_least_of_others(current);
            let (source, others) = (&mut self.sources[current], self.passed.as_slice());
            if source.key() == others {
                // The others have older versions of this key, which a step passes.
                let taken = visit(source.key(), source.entry());
                self.current = Some(current);
                if !taken {
                    break;
                }
                self.step()?;
                continue;
            }
            source.walk(&mut |key, entry| key < others && visit(key, entry))?;
            if source.valid() && source.key() < others {
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
    pub(crate) struct VecSource {
        rows: Vec<(Vec<u8>, u64)>,
        at: Option<usize>,
    }

    impl VecSource {
        pub(crate) fn new(rows: Vec<(Vec<u8>, u64)>) -> VecSource {
            VecSource { rows, at: None }
        }
    }

    impl Source for VecSource {
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
            Entry { seq: self.rows[self.at.expect("valid")].1, kind: Kind::PUT, value: &[] }
        }
    }

    proptest! {
        #[test]
        fn walks_like_a_map_of_the_newest_versions(
            runs in prop::collection::vec(prop::collection::btree_set(0..30u8, 0..12), 0..5),
            moves in prop::collection::vec((0..7u8, 0..32u8), 1..60),
        ) {
            let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let mut sources: Vec<Box<dyn Source>> = Vec::new();
            for (age, run) in runs.iter().enumerate() {
                let seq = 100 - age as u64;
                let rows: Vec<_> = run.iter().map(|&k| (vec![k], seq)).collect();
                for (key, seq) in &rows {
                    model.entry(key.clone()).or_insert(*seq);
                }
                sources.push(Box::new(VecSource::new(rows)));
            }
            let rows: Vec<(Vec<u8>, u64)> = model.into_iter().collect();
            let mut expected = VecSource::new(rows);
            let mut merge = Merge::new(sources);
            for (what, key) in moves {
                let key = [key];
                let mut walked = [Vec::new(), Vec::new()];
                for (source, walked) in [&mut merge as &mut dyn Source, &mut expected].into_iter().zip(&mut walked) {
                    match what {
                        0 => source.seek(&key)?,
                        1 => source.seek_for_prev(&key)?,
                        2 => source.seek_to_first()?,
                        3 => source.seek_to_last()?,
                        4 => if source.valid() { source.next()? },
                        5 => source.walk(&mut |at, entry| {
                            let takes = walked.len() < usize::from(key[0]) / 4;
                            if takes {
                                walked.push((at.to_vec(), entry.seq));
                            }
                            takes
                        })?,
                        _ => if source.valid() { source.prev()? },
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
