//! The prepared transactions of a run, and what a store must say of them after a crash or in a backup.

use std::collections::BTreeMap;

use crate::model::{shown, Place, Value};

/// How far a prepared transaction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Its prepare was not answered yet, or refused: the log may have it.
    Begun,
    /// Its prepare was answered.
    Prepared,
    /// Its decision was asked for.
    Committing,
    /// Its decision was asked for, or was its owner's.
    RollingBack,
    /// It was committed, at its place.
    Committed,
    /// Its rollback was answered.
    RolledBack,
}

/// One of them.
#[derive(Clone, Debug)]
struct Branch {
    stage: Stage,
    /// Its prepare survives a power cut.
    synced: bool,
    writes: BTreeMap<Place, Value>,
    /// Its place, once it is ordered.
    seq: Option<u64>,
}

/// All of a run, by xid. A copy shows how they stood.
#[derive(Clone, Debug, Default)]
pub struct Branches(BTreeMap<Vec<u8>, Branch>);

impl Branches {
    /// It is about to be prepared, and that synced or not.
    pub fn begin(&mut self, xid: &[u8], writes: &BTreeMap<Place, Value>, synced: bool) {
        let branch = Branch { stage: Stage::Begun, synced, writes: writes.clone(), seq: None };
        self.0.insert(xid.to_vec(), branch);
    }

    /// It has come so far.
    pub fn reach(&mut self, xid: &[u8], stage: Stage) {
        if let Some(branch) = self.0.get_mut(xid) {
            branch.stage = stage;
        }
    }

    /// Its commit has a place.
    pub fn ordered(&mut self, xid: &[u8], seq: u64) {
        if let Some(branch) = self.0.get_mut(xid) {
            branch.seq = Some(seq);
        }
    }

    /// A crash has left these as prepared, and no others.
    pub fn keep(&mut self, listed: &[Vec<u8>]) {
        self.0.retain(|xid, _| listed.contains(xid));
        self.0.values_mut().for_each(|branch| (branch.stage, branch.seq) = (Stage::Prepared, None));
    }

    /// Its changes.
    pub fn writes(&self, xid: &[u8]) -> Option<&BTreeMap<Place, Value>> {
        self.0.get(xid).map(|branch| &branch.writes)
    }

    /// A store holds all commits up to a place within `first..=last`. Whether it lists the right ones as prepared, if they
    /// had come as far as `before` says when it was cut off, and as `after` says a moment later. `self`: as they ended.
    pub fn check(
        &self,
        listed: &[Vec<u8>],
        (first, last): (u64, u64),
        before: &Branches,
        after: &Branches,
    ) -> Result<(), String> {
        for xid in listed {
            let Some(then) = after.0.get(xid) else {
                return Err(format!("{} is listed as prepared, and nobody prepared it", shown(xid)));
            };
            let seq = self.0.get(xid).and_then(|branch| branch.seq);
            if seq.is_some_and(|seq| seq <= first) {
                return Err(format!("{} is listed as prepared, and was committed at {seq:?}", shown(xid)));
            }
            if before.0.get(xid).is_some_and(|branch| branch.stage == Stage::RolledBack && branch.synced) {
                return Err(format!("{} is listed as prepared, and was rolled back ({then:?})", shown(xid)));
            }
        }
        for (xid, then) in &before.0 {
            let seq = self.0.get(xid).and_then(|branch| branch.seq);
            let stage = after.0.get(xid).map_or(then.stage, |branch| branch.stage);
            let is_owed = match then.stage {
                Stage::Begun | Stage::RollingBack | Stage::RolledBack => false,
                // Its decision may have come between the two moments.
                Stage::Prepared => match stage {
                    Stage::Prepared => true,
                    Stage::Committing | Stage::Committed => seq.is_none_or(|seq| seq > last),
                    _ => false,
                },
                Stage::Committing | Stage::Committed => seq.is_none_or(|seq| seq > last),
            };
            if is_owed && then.synced && !listed.contains(xid) {
                return Err(format!(
                    "{} was prepared ({:?}, place {seq:?}) and is not listed",
                    shown(xid),
                    then.stage
                ));
            }
        }
        Ok(())
    }
}
