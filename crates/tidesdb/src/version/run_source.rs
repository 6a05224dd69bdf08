//! A run as one snapshot sees it, whoever drops the version that it was taken from.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::Source;
use crate::table::SegmentSource;
use crate::types::{Entry, Seq};

use super::{LiveFile, Run};

/// A scan of a run that keeps the run's file.
pub struct RunSource {
    source: SegmentSource,
    _file: Arc<LiveFile>,
}

impl Run {
    /// A scan of what `snapshot` sees, both ways, through the cache.
    pub fn source(&self, snapshot: Seq) -> RunSource {
        RunSource { source: self.segment.source(snapshot), _file: Arc::clone(&self.file) }
    }
}

impl Source for RunSource {
    fn seek_to_first(&mut self) -> Result<()> {
        self.source.seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.source.seek_to_last()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.source.seek(key)
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.source.seek_for_prev(key)
    }

    fn next(&mut self) -> Result<()> {
        self.source.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.source.prev()
    }

    fn valid(&self) -> bool {
        self.source.valid()
    }

    fn key(&self) -> &[u8] {
        self.source.key()
    }

    fn entry(&self) -> Entry<'_> {
        self.source.entry()
    }

    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        self.source.walk(visit)
    }
}
