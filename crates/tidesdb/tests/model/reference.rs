//! The model: committed versions; the transactions' changes, locks and gaps; transactions waiting for a
//! decision. It knows nothing of the store.

use std::collections::{BTreeMap, BTreeSet};

use tidesdb::{Error, Isolation};

pub(super) type Key = Vec<u8>;
pub(super) type Change = Option<Vec<u8>>;
pub(super) type Changes = BTreeMap<(u64, Key), Change>;

/// A family in the model.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelFamily {
    pub(super) created_seq: u64,
    /// Versions of each key, oldest first.
    pub(super) keys: BTreeMap<Key, Vec<(u64, Change)>>,
    /// Counters: the highest value handed out or raised to.
    pub(super) counters: BTreeMap<u32, u64>,
}

impl ModelFamily {
    pub(super) fn at(&self, key: &[u8], seq: u64) -> Option<&(u64, Change)> {
        self.keys.get(key)?.iter().rev().find(|(s, _)| *s <= seq)
    }
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) seq: u64,
    /// Live families by name, as numbers.
    pub(super) names: BTreeMap<Vec<u8>, u64>,
    pub(super) families: BTreeMap<u64, ModelFamily>,
    pub(super) next_family: u64,
    /// Owner and whether exclusive, of each locked key.
    pub(super) locks: BTreeMap<(u64, Key), BTreeMap<usize, bool>>,
    pub(super) gaps: Vec<Gap>,
    /// Prepared transactions left undecided by a restart: xid, changes, owner of the locks.
    pub(super) undecided: BTreeMap<Vec<u8>, (Changes, usize)>,
    pub(super) next_owner: usize,
}

/// The gap kept free by a locking read that found nothing.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) owner: usize,
    pub(super) family: u64,
    /// Between these, both excluded.
    pub(super) after: Option<Key>,
    pub(super) before: Option<Key>,
    /// It may be smaller: the store passes only a bounded number of deleted keys.
    pub(super) vague: bool,
}

#[derive(Debug)]
pub(super) struct ModelTxn {
    pub(super) owner: usize,
    pub(super) isolation: Isolation,
    pub(super) snapshot: Option<u64>,
    pub(super) statement: Option<u64>,
    pub(super) own: Changes,
    pub(super) mark: Changes,
    /// Sum of the written bytes: above the bound the store must refuse, far below it must not.
    pub(super) bytes: usize,
    pub(super) prepared: Option<Vec<u8>>,
    pub(super) ordered: bool,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Refusal {
    Conflict,
    Duplicate,
    Locked,
    Dropped,
    TooOld,
}

pub(super) fn refusal(error: &Error) -> Option<Refusal> {
    Some(match error {
        Error::Conflict => Refusal::Conflict,
        Error::Duplicate => Refusal::Duplicate,
        Error::LockTimeout => Refusal::Locked,
        Error::NoSuchFamily(_) => Refusal::Dropped,
        Error::SnapshotTooOld => Refusal::TooOld,
        _ => return None,
    })
}

impl Model {
    pub(super) fn lock_or_gap(
        &mut self,
        owner: usize,
        family: u64,
        key: &[u8],
        exclusive: bool,
    ) -> Result<bool, Refusal> {
        if exclusive && self.kept_out(owner, family, key) == Some(true) {
            return Err(Refusal::Locked);
        }
        self.lock(owner, family, key, exclusive)
    }

    pub(super) fn unlock(&mut self, owner: usize, family: u64, key: &[u8]) {
        if let Some(held) = self.locks.get_mut(&(family, key.to_vec())) {
            held.remove(&owner);
        }
        self.locks.retain(|_, held| !held.is_empty());
    }

    pub(super) fn lock(
        &mut self,
        owner: usize,
        family: u64,
        key: &[u8],
        exclusive: bool,
    ) -> Result<bool, Refusal> {
        let held = self.locks.entry((family, key.to_vec())).or_default();
        if held.iter().any(|(other, theirs)| *other != owner && (exclusive || *theirs)) {
            return Err(Refusal::Locked);
        }
        let before = held.get(&owner).copied();
        held.insert(owner, exclusive || before == Some(true));
        Ok(before.is_none())
    }

    /// The gap around a missing key, up to the next live keys and the keys locked by others.
    pub(super) fn keep_gap(&mut self, owner: usize, family: u64, key: &[u8]) {
        let ends = |known: &Key| {
            let newest = self.families[&family].at(known, u64::MAX);
            let live = newest.is_some_and(|(_, change)| change.is_some());
            let held = self.locks.get(&(family, known.clone()));
            live || held
                .is_some_and(|held| held.iter().any(|(other, exclusive)| *other != owner && *exclusive))
        };
        let mut keys: BTreeSet<Key> = self.families[&family].keys.keys().cloned().collect();
        let dead = keys.len();
        keys.extend(self.locks.keys().filter(|(of, _)| *of == family).map(|(_, key)| key.clone()));
        let after = keys.iter().rev().find(|known| known.as_slice() < key && ends(known)).cloned();
        let before = keys.iter().find(|known| known.as_slice() > key && ends(known)).cloned();
        self.gaps.push(Gap { owner, family, after, before, vague: dead > 64 });
    }

    /// True if another's gap keeps `owner` from a lock on `key`; `None`: perhaps.
    pub(super) fn kept_out(&self, owner: usize, family: u64, key: &[u8]) -> Option<bool> {
        let mine = self.locks.get(&(family, key.to_vec())).and_then(|held| held.get(&owner));
        if mine == Some(&true) {
            return Some(false);
        }
        let within = |gap: &&Gap| {
            gap.owner != owner
                && gap.family == family
                && gap.after.as_ref().is_none_or(|after| after.as_slice() < key)
                && gap.before.as_ref().is_none_or(|before| key < before.as_slice())
        };
        let mut met = self.gaps.iter().filter(within).peekable();
        match met.peek().is_some() {
            false => Some(false),
            true => met.any(|gap| !gap.vague).then_some(true),
        }
    }

    pub(super) fn unlock_all(&mut self, owner: usize) {
        self.gaps.retain(|gap| gap.owner != owner);
        for held in self.locks.values_mut() {
            held.remove(&owner);
        }
        self.locks.retain(|_, held| !held.is_empty());
    }

    pub(super) fn commit(&mut self, changes: &Changes) {
        if changes.is_empty() {
            return;
        }
        self.seq += 1;
        for ((family, key), change) in changes {
            // A family dropped since: its changes go nowhere.
            if let Some(family) = self.families.get_mut(family) {
                family.keys.entry(key.clone()).or_default().push((self.seq, change.clone()));
            }
        }
    }

    pub(super) fn create(&mut self, name: &[u8]) {
        self.seq += 1;
        self.next_family += 1;
        self.families
            .insert(self.next_family, ModelFamily { created_seq: self.seq, ..ModelFamily::default() });
        self.names.insert(name.to_vec(), self.next_family);
    }
}
