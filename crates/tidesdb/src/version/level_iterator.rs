//! A level below 0 as one run: its tables one after the other, each opened only when it is reached.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::{InternalIterator, VersionIterator};
use crate::table::{SsTableIterator, SsTableVersionIterator};
use crate::types::{Entry, Seq};

use super::{Level, TableHandle};

/// A level as one snapshot sees it. A seek finds the one table by its fences; the next one is opened when
/// the last key of this one is passed.
pub struct LevelIterator {
    level: Arc<Level>,
    snapshot: Seq,
    /// Index of the table that `iter` reads.
    at: usize,
    iter: Option<SsTableIterator>,
}

impl LevelIterator {
    /// An iterator over `level` that stands nowhere.
    pub fn new(level: Arc<Level>, snapshot: Seq) -> LevelIterator {
        LevelIterator { level, snapshot, at: 0, iter: None }
    }

    /// Makes `iter` read the table `at`, if there is one.
    fn open(&mut self, at: usize) -> Option<&mut SsTableIterator> {
        if self.iter.is_none() || self.at != at {
            self.iter = None;
            let table = self.level.tables().get(at)?;
            // The level keeps the file.
            self.iter = Some(table.table.iter(self.snapshot));
            self.at = at;
        }
        self.iter.as_mut()
    }

    /// After a step forwards: goes on in the next tables while this one has nothing more to see.
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

/// Tables with ascending, separate key ranges as one run with every version, for compaction.
pub struct LevelVersionIterator {
    tables: Vec<TableHandle>,
    at: usize,
    iter: Option<SsTableVersionIterator>,
}

impl LevelVersionIterator {
    /// An iterator over `tables`, which ascend and do not overlap, that stands nowhere.
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
