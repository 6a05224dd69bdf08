//! An iterator over a table at one snapshot, independent of the life of the version.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::{InternalIterator, KeyRange};
use crate::table::SsTableIterator;
use crate::types::{Entry, Seq};
use crate::value_holds::ValueFile;

use super::{LiveFile, TableHandle};

/// A scan of a table; it keeps the table's file alive, and the value files of its entries.
pub struct TableHandleIterator {
    iter: SsTableIterator,
    _file: Arc<LiveFile>,
    _values: Arc<[Arc<ValueFile>]>,
}

impl TableHandle {
    /// A scan at `snapshot` in both directions, through the cache.
    pub fn iter(&self, snapshot: Seq) -> TableHandleIterator {
        self.kept_by(self.table.iter(snapshot))
    }

    /// The same; it reads ahead within `range`.
    pub fn iter_within(&self, snapshot: Seq, range: &Arc<KeyRange>) -> TableHandleIterator {
        self.kept_by(self.table.iter_within(snapshot, range))
    }

    fn kept_by(&self, iter: SsTableIterator) -> TableHandleIterator {
        TableHandleIterator { iter, _file: Arc::clone(&self.file), _values: Arc::clone(&self.values) }
    }
}

impl InternalIterator for TableHandleIterator {
    fn seek_to_first(&mut self) -> Result<()> {
        self.iter.seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.iter.seek_to_last()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.iter.seek(key)
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.iter.seek_for_prev(key)
    }

    fn next(&mut self) -> Result<()> {
        self.iter.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.iter.prev()
    }

    fn valid(&self) -> bool {
        self.iter.valid()
    }

    fn key(&self) -> &[u8] {
        self.iter.key()
    }

    fn entry(&self) -> Entry<'_> {
        self.iter.entry()
    }

    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        self.iter.walk(visit)
    }
}
