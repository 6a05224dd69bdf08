//! What a read looks at: the memtables and the segments of one moment, newest first.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::{KeyRange, Source};
use crate::memtable::Generation;
use crate::table::hash_key;
use crate::types::{FamilyId, Kind, Seq};
use crate::version::{LevelSource, Version};

/// Memtables and segments of one moment. Immutable; a newer view holds everything that an older one did.
#[derive(Debug)]
pub struct ReadView {
    /// Takes writes.
    pub active: Arc<Generation>,
    /// Sealed and not yet in files, newest first.
    pub sealed: Vec<Arc<Generation>>,
    /// Files.
    pub version: Arc<Version>,
}

impl ReadView {
    fn memtables(&self) -> impl Iterator<Item = &Arc<Generation>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// The newest version of a key at or below `snapshot`, its value appended to `out`.
    pub fn newest(
        &self,
        family: FamilyId,
        key: &[u8],
        snapshot: Seq,
        out: Option<&mut Vec<u8>>,
    ) -> Result<Option<(Seq, Kind)>> {
        for memtable in self.memtables() {
            if let Some(entry) = memtable.get(family, key, snapshot) {
                if let Some(out) = out {
                    out.extend_from_slice(entry.value);
                }
                return Ok(Some((entry.seq, entry.kind)));
            }
        }
        let Some(levels) = self.version.family(family) else { return Ok(None) };
        let hash = hash_key(key);
        let deeper = levels.levels.iter().filter_map(|level| level.find(key));
        for run in levels.l0.iter().chain(deeper) {
            if let Some(hit) = run.get(key, hash, snapshot)? {
                if let Some(out) = out {
                    out.extend_from_slice(hit.value());
                }
                return Ok(Some((hit.seq, hit.kind)));
            }
        }
        Ok(None)
    }

    /// The runs of a family as `snapshot` sees them, newest first. Runs of level 0 whose filter knows
    /// that no key starts with `prefix` are left out (an empty prefix leaves out none).
    pub fn sources(&self, family: FamilyId, snapshot: Seq, prefix: &[u8]) -> Result<Vec<Box<dyn Source>>> {
        let mut sources: Vec<Box<dyn Source>> = Vec::with_capacity(4);
        for memtable in self.memtables() {
            if let Some(source) = memtable.source(family, snapshot) {
                sources.push(Box::new(source));
            }
        }
        if let Some(levels) = self.version.family(family) {
            for run in &levels.l0 {
                if prefix.is_empty() || run.may_contain_prefix(prefix)? {
                    sources.push(Box::new(run.source(snapshot)));
                }
            }
            for level in levels.levels.iter().filter(|level| !level.runs().is_empty()) {
                sources.push(Box::new(LevelSource::new(level.clone(), snapshot)));
            }
        }
        Ok(sources)
    }

    /// Entries of a family in a range, from index blocks and memtable counts.
    pub fn estimate(&self, family: FamilyId, range: &KeyRange) -> Result<u64> {
        let mut rows: u64 = self.memtables().map(|memtable| memtable.estimate_range(family, range)).sum();
        if let Some(levels) = self.version.family(family) {
            for (_, run) in levels.runs() {
                rows += run.estimate_range(range)?;
            }
        }
        Ok(rows)
    }
}
