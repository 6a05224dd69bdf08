//! What a read looks at: the memtables and the segments of one moment, newest first.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::{KeyRange, Source};
use crate::memtable::Generation;
use crate::table::hash_key;
use crate::txn::spill::CommittedRuns;
use crate::types::{FamilyId, GenerationId, Kind, Seq, Tally};
use crate::version::{LevelSource, Run, Version};

/// What stands between the active memtable and the files.
#[derive(Clone, Debug)]
pub(crate) enum Layer {
    /// A memtable that takes no more writes.
    Memtable(Arc<Generation>),
    /// The runs of a spilled transaction that is ordered.
    Runs(Arc<CommittedRuns>),
}

impl Layer {
    /// Its generation; of several the highest.
    pub fn id(&self) -> GenerationId {
        match self {
            Layer::Memtable(memtable) => memtable.id(),
            Layer::Runs(runs) => runs.id(),
        }
    }

    /// The memtable, if it is one.
    pub fn memtable(&self) -> Option<&Arc<Generation>> {
        match self {
            Layer::Memtable(memtable) => Some(memtable),
            Layer::Runs(_) => None,
        }
    }

    /// Its runs of a family, newest first; none of a memtable.
    pub fn runs(&self, family: FamilyId) -> &[Run] {
        match self {
            Layer::Memtable(_) => &[],
            Layer::Runs(runs) => runs.of(family),
        }
    }
}

/// Memtables and segments of one moment. Immutable; a newer view holds everything that an older one did.
#[derive(Debug)]
pub struct ReadView {
    /// Takes writes.
    pub active: Arc<Generation>,
    /// Sealed and not yet named by the manifest, newest first.
    pub(crate) sealed: Vec<Layer>,
    /// Files.
    pub version: Arc<Version>,
}

impl ReadView {
    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Generation>> {
        std::iter::once(&self.active).chain(self.sealed.iter().filter_map(Layer::memtable))
    }

    /// Bytes of the sealed memtables.
    pub fn sealed_bytes(&self) -> usize {
        self.memtables().skip(1).map(|memtable| memtable.bytes()).sum()
    }

    /// The newest version of a key at or below `snapshot`, its value appended to `out`.
    pub fn newest(
        &self,
        family: FamilyId,
        key: &[u8],
        snapshot: Seq,
        out: Option<&mut Vec<u8>>,
    ) -> Result<Option<(Seq, Kind)>> {
        let mut out = out;
        let mut copy = |value: &[u8]| {
            if let Some(out) = &mut out {
                out.extend_from_slice(value);
            }
        };
        if let Some(entry) = self.active.get(family, key, snapshot) {
            copy(entry.value);
            return Ok(Some((entry.seq, entry.kind)));
        }
        for layer in &self.sealed {
            if let Layer::Memtable(memtable) = layer {
                if let Some(entry) = memtable.get(family, key, snapshot) {
                    copy(entry.value);
                    return Ok(Some((entry.seq, entry.kind)));
                }
            }
            for run in layer.runs(family) {
                if let Some(hit) = run.get(key, hash_key(key), snapshot)? {
                    copy(hit.value());
                    return Ok(Some((hit.seq, hit.kind)));
                }
            }
        }
        let Some(levels) = self.version.family(family) else { return Ok(None) };
        let hash = hash_key(key);
        let deeper = levels.levels.iter().filter_map(|level| level.find(key));
        for run in levels.l0.iter().chain(deeper) {
            if let Some(hit) = run.get(key, hash, snapshot)? {
                copy(hit.value());
                return Ok(Some((hit.seq, hit.kind)));
            }
        }
        Ok(None)
    }

    /// The runs of a family as `snapshot` sees them, newest first. Runs of level 0 whose filter knows
    /// that no key starts with `prefix` are left out (an empty prefix leaves out none). They keep what they read,
    /// memory and files, also when the view is dropped.
    pub fn sources(&self, family: FamilyId, snapshot: Seq, prefix: &[u8]) -> Result<Vec<Box<dyn Source>>> {
        let mut sources: Vec<Box<dyn Source>> = Vec::with_capacity(4);
        if let Some(source) = self.active.source(family, snapshot) {
            sources.push(Box::new(source));
        }
        for layer in &self.sealed {
            let memtable = layer.memtable().and_then(|memtable| memtable.source(family, snapshot));
            sources.extend(memtable.map(|source| Box::new(source) as Box<dyn Source>));
            for run in layer.runs(family) {
                if prefix.is_empty() || run.may_contain_prefix(prefix)? {
                    sources.push(Box::new(run.source(snapshot)));
                }
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

    /// The count of a family's rows: what is in files, in commits of runs, and in memtables.
    pub fn tally(&self, family: FamilyId) -> Tally {
        let mut tally = self.version.tally(family);
        tally += self.active.tally(family);
        for layer in &self.sealed {
            tally += match layer {
                Layer::Memtable(memtable) => memtable.tally(family),
                Layer::Runs(runs) => runs.tally(family),
            };
        }
        tally
    }

    /// A key of a family at one of its places: of all entries, versions counted, memtables and files one behind the other,
    /// about so large a share (0 to 1) stands before it. Places that are evenly apart are a fair sample of the entries;
    /// their keys are not in order. None where there are no entries.
    pub fn key_at(&self, family: FamilyId, share: f64) -> Result<Option<Vec<u8>>> {
        let sealed = self.sealed.iter().flat_map(|layer| layer.runs(family));
        let levels = self.version.family(family);
        let runs =
            || sealed.clone().chain(levels.iter().flat_map(|levels| levels.runs().map(|(_, run)| run)));
        let entries = self.memtables().map(|memtable| memtable.entries(family)).sum::<u64>()
            + runs().map(|run| run.meta().entries).sum::<u64>();
        let mut before = share.clamp(0.0, 1.0) * entries as f64;
        for memtable in self.memtables() {
            let own = memtable.entries(family) as f64;
            if before < own {
                return Ok(memtable.key_at(family, before / own));
            }
            before -= own;
        }
        for run in runs() {
            let own = run.meta().entries as f64;
            if before < own {
                return run.key_at(before / own).map(Some);
            }
            before -= own;
        }
        Ok(None)
    }

    /// Entries of a family in a range, from index blocks and memtable counts.
    pub fn estimate(&self, family: FamilyId, range: &KeyRange) -> Result<u64> {
        let mut rows: u64 = self.memtables().map(|memtable| memtable.estimate_range(family, range)).sum();
        for run in self.sealed.iter().flat_map(|layer| layer.runs(family)) {
            rows += run.estimate_range(range)?;
        }
        if let Some(levels) = self.version.family(family) {
            for (_, run) in levels.runs() {
                rows += run.estimate_range(range)?;
            }
        }
        Ok(rows)
    }
}
