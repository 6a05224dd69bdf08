//! Iterators over a level below 0 as one sorted run. Tables open lazily, one after the other.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::{InternalIterator, KeyRange, VersionIterator};
use crate::table::{SsTableIterator, SsTableVersionIterator};
use crate::types::{Entry, Seq};

use super::{Level, TableHandle};

/// An iterator over a level at one snapshot. A seek finds the table by its key range; the next table opens
/// after the last key of the current one.
pub struct LevelIterator {
    level: Arc<Level>,
    snapshot: Seq,
    /// Of the scan.
    range: Arc<KeyRange>,
    /// Index of the table under `iter`.
    at: usize,
    iter: Option<SsTableIterator>,
}

impl LevelIterator {
    /// An unpositioned iterator over `level`.
    pub fn new(level: Arc<Level>, snapshot: Seq, range: Arc<KeyRange>) -> LevelIterator {
        LevelIterator { level, snapshot, range, at: 0, iter: None }
    }

    /// Opens the table `at` in `iter`, if there is one.
    fn open(&mut self, at: usize) -> Option<&mut SsTableIterator> {
        if self.iter.is_none() || self.at != at {
            self.iter = None;
            let table = self.level.tables().get(at)?;
            // The level keeps the file.
            self.iter = Some(table.table.iter_within(self.snapshot, &self.range));
            self.at = at;
        }
        self.iter.as_mut()
    }

    /// Completes a step forward: moves on to the next tables while the current one is exhausted.
    fn settle_forwards(&mut self) -> Result<()> {
        while self.iter.as_ref().is_some_and(|iter| !iter.valid()) {
            match self.open(self.at + 1) {
                Some(iter) => iter.seek_to_first()?,
                None => break,
            }
        }
        Ok(())
    }

    fn settle_backwards(&mut self) -> Result<()> {
        while self.iter.as_ref().is_some_and(|iter| !iter.valid()) {
            let Some(before) = self.at.checked_sub(1) else {
                self.iter = None;
                break;
            };
            if let Some(iter) = self.open(before) {
                iter.seek_to_last()?;
            }
        }
        Ok(())
    }
}

impl InternalIterator for LevelIterator {
    fn seek_to_first(&mut self) -> Result<()> {
        if let Some(iter) = self.open(0) {
            iter.seek_to_first()?;
        }
        self.settle_forwards()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        if let Some(iter) = self.open(self.level.tables().len().wrapping_sub(1)) {
            iter.seek_to_last()?;
        }
        self.settle_backwards()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if let Some(iter) = self.open(self.level.first_reaching(key)) {
            iter.seek(key)?;
        }
        self.settle_forwards()
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        // The last table that begins at or before the key.
        let tables = self.level.tables();
        let reaching = self.level.first_reaching(key);
        let starts = tables.get(reaching).is_some_and(|table| table.meta().min_key.as_slice() <= key);
        match if starts { Some(reaching) } else { reaching.checked_sub(1) } {
            Some(at) => {
                if let Some(iter) = self.open(at) {
                    iter.seek_for_prev(key)?;
                }
            }
            None => self.iter = None,
        }
        self.settle_backwards()
    }

    fn next(&mut self) -> Result<()> {
        if let Some(iter) = &mut self.iter {
            iter.next()?;
        }
        self.settle_forwards()
    }

    fn prev(&mut self) -> Result<()> {
        if let Some(iter) = &mut self.iter {
            iter.prev()?;
        }
        self.settle_backwards()
    }

    fn valid(&self) -> bool {
        self.iter.as_ref().is_some_and(|iter| iter.valid())
    }

    fn key(&self) -> &[u8] {
        self.iter.as_ref().expect("key is called on a valid iter").key()
    }

    fn entry(&self) -> Entry<'_> {
        self.iter.as_ref().expect("entry is called on a valid iter").entry()
    }

    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        while let Some(iter) = self.iter.as_mut().filter(|iter| iter.valid()) {
            iter.walk(visit)?;
            if iter.valid() {
                break;
            }
            self.settle_forwards()?;
        }
        Ok(())
    }
}

/// An iterator over every version in tables with ascending, disjoint key ranges, for compaction.
pub struct LevelVersionIterator {
    tables: Vec<TableHandle>,
    at: usize,
    iter: Option<SsTableVersionIterator>,
}

impl LevelVersionIterator {
    /// An unpositioned iterator over `tables`, in ascending order and without overlap.
    pub fn new(tables: Vec<TableHandle>) -> LevelVersionIterator {
        LevelVersionIterator { tables, at: 0, iter: None }
    }

    fn open(&mut self, at: usize, key: &[u8]) -> Result<()> {
        self.at = at;
        self.iter = None;
        while let Some(table) = self.tables.get(self.at) {
            let mut iter = table.version_iter();
            iter.seek(key)?;
            if iter.valid() {
                self.iter = Some(iter);
                break;
            }
            self.at += 1;
        }
        Ok(())
    }
}

impl VersionIterator for LevelVersionIterator {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let at = self.tables.partition_point(|table| table.meta().max_key.as_slice() < key);
        self.open(at, key)
    }

    fn next(&mut self) -> Result<()> {
        if let Some(iter) = &mut self.iter {
            iter.next()?;
            if !iter.valid() {
                return self.open(self.at + 1, &[]);
            }
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        self.iter.is_some()
    }

    fn key(&self) -> &[u8] {
        self.iter.as_ref().expect("key is called on a valid iter").key()
    }

    fn entry(&self) -> Entry<'_> {
        self.iter.as_ref().expect("entry is called on a valid iter").entry()
    }
}
