//! A level below 0 as one run: its segments one behind the other, each opened only when it is reached.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::{RawSource, Source};
use crate::table::{SegmentRawSource, SegmentSource};
use crate::types::{Entry, Seq};

use super::{Level, Run};

/// A level as one snapshot sees it. A seek finds the one segment by its fences; the next one is opened when
/// the last key of this one is passed.
pub struct LevelSource {
    level: Arc<Level>,
    snapshot: Seq,
    /// Index of the segment that `source` reads.
    at: usize,
    source: Option<SegmentSource>,
}

impl LevelSource {
    /// A source over `level` that stands nowhere.
    pub fn new(level: Arc<Level>, snapshot: Seq) -> LevelSource {
        LevelSource { level, snapshot, at: 0, source: None }
    }

    /// Makes `source` read the segment `at`, if there is one.
    fn open(&mut self, at: usize) -> Option<&mut SegmentSource> {
        if self.source.is_none() || self.at != at {
            self.source = None;
            let run = self.level.runs().get(at)?;
            // The level keeps the file.
            self.source = Some(run.segment.source(self.snapshot));
            self.at = at;
        }
        self.source.as_mut()
    }

    /// After a step forwards: goes on in the next segments while this one has nothing more to see.
    fn settle_forwards(&mut self) -> Result<()> {
        while self.source.as_ref().is_some_and(|source| !source.valid()) {
            match self.open(self.at + 1) {
                Some(source) => source.seek_to_first()?,
                None => break,
            }
        }
        Ok(())
    }

    fn settle_backwards(&mut self) -> Result<()> {
        while self.source.as_ref().is_some_and(|source| !source.valid()) {
            let Some(before) = self.at.checked_sub(1) else {
                self.source = None;
                break;
            };
            if let Some(source) = self.open(before) {
                source.seek_to_last()?;
            }
        }
        Ok(())
    }
}

impl Source for LevelSource {
    fn seek_to_first(&mut self) -> Result<()> {
        if let Some(source) = self.open(0) {
            source.seek_to_first()?;
        }
        self.settle_forwards()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        if let Some(source) = self.open(self.level.runs().len().wrapping_sub(1)) {
            source.seek_to_last()?;
        }
        self.settle_backwards()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if let Some(source) = self.open(self.level.first_reaching(key)) {
            source.seek(key)?;
        }
        self.settle_forwards()
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        // The last segment that begins at or before the key.
        let runs = self.level.runs();
        let reaching = self.level.first_reaching(key);
        let starts = runs.get(reaching).is_some_and(|run| run.meta().min_key.as_slice() <= key);
        match if starts { Some(reaching) } else { reaching.checked_sub(1) } {
            Some(at) => {
                if let Some(source) = self.open(at) {
                    source.seek_for_prev(key)?;
                }
            }
            None => self.source = None,
        }
        self.settle_backwards()
    }

    fn next(&mut self) -> Result<()> {
        if let Some(source) = &mut self.source {
            source.next()?;
        }
        self.settle_forwards()
    }

    fn prev(&mut self) -> Result<()> {
        if let Some(source) = &mut self.source {
            source.prev()?;
        }
        self.settle_backwards()
    }

    fn valid(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.valid())
    }

    fn key(&self) -> &[u8] {
        self.source.as_ref().expect("key is called on a valid source").key()
    }

    fn entry(&self) -> Entry<'_> {
        self.source.as_ref().expect("entry is called on a valid source").entry()
    }

    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        while let Some(source) = self.source.as_mut().filter(|source| source.valid()) {
            source.walk(visit)?;
            if source.valid() {
                break;
            }
            self.settle_forwards()?;
        }
        Ok(())
    }
}

/// Segments with ascending, separate key ranges as one run with every version, for compaction.
pub struct RawLevelSource {
    runs: Vec<Run>,
    at: usize,
    source: Option<SegmentRawSource>,
}

impl RawLevelSource {
    /// A source over `runs`, which ascend and do not overlap, that stands nowhere.
    pub fn new(runs: Vec<Run>) -> RawLevelSource {
        RawLevelSource { runs, at: 0, source: None }
    }

    fn open(&mut self, at: usize, key: &[u8]) -> Result<()> {
        self.at = at;
        self.source = None;
        while let Some(run) = self.runs.get(self.at) {
            let mut source = run.raw_source();
            source.seek(key)?;
            if source.valid() {
                self.source = Some(source);
                break;
            }
            self.at += 1;
        }
        Ok(())
    }
}

impl RawSource for RawLevelSource {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let at = self.runs.partition_point(|run| run.meta().max_key.as_slice() < key);
        self.open(at, key)
    }

    fn next(&mut self) -> Result<()> {
        if let Some(source) = &mut self.source {
            source.next()?;
            if !source.valid() {
                return self.open(self.at + 1, &[]);
            }
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        self.source.is_some()
    }

    fn key(&self) -> &[u8] {
        self.source.as_ref().expect("key is called on a valid source").key()
    }

    fn entry(&self) -> Entry<'_> {
        self.source.as_ref().expect("entry is called on a valid source").entry()
    }
}
