//! A run in a vector, for tests.

use crate::error::Result;
use crate::iter::VersionIterator;
use crate::types::{Entry, Kind, Seq};

/// Key, sequence number, kind, value.
pub(crate) type OwnedVersion = (Vec<u8>, Seq, Kind, Vec<u8>);

pub(crate) struct VecVersionIterator {
    pub(crate) entries: Vec<OwnedVersion>,
    at: usize,
}

impl VecVersionIterator {
    /// A run of these entries in their order, each version once.
    pub(crate) fn new(mut entries: Vec<OwnedVersion>) -> VecVersionIterator {
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
        let at = entries.len();
        VecVersionIterator { entries, at }
    }
}

impl VersionIterator for VecVersionIterator {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.entries.partition_point(|entry| entry.0.as_slice() < key);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn valid(&self) -> bool {
        self.at < self.entries.len()
    }

    fn key(&self) -> &[u8] {
        &self.entries[self.at].0
    }

    fn entry(&self) -> Entry<'_> {
        let (_, seq, kind, value) = &self.entries[self.at];
        Entry::new(*seq, *kind, value)
    }
}
