//! The column families in memory, by name and by number.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::host::HashMap;
use crate::options::{FamilyOptions, SyncMode};
use crate::store::family::Family;
use crate::store::Store;
use crate::sync::RwLock;
use crate::types::{FamilyId, DICTIONARY};

/// The families of a store.
#[derive(Debug, Default)]
pub struct Catalog {
    inner: RwLock<Inner>,
    /// Damage of the dictionary, with families possibly missing here.
    damage: OnceLock<String>,
}

#[derive(Debug, Default)]
struct Inner {
    by_name: BTreeMap<Arc<[u8]>, Arc<Family>>,
    by_id: HashMap<FamilyId, Arc<Family>>,
}

impl Catalog {
    /// The family with this name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<Family>> {
        self.inner.read().by_name.get(name).cloned()
    }

    /// The family with this number.
    pub fn by_id(&self, id: FamilyId) -> Option<Arc<Family>> {
        self.inner.read().by_id.get(&id).cloned()
    }

    /// True if a family of this number exists. The dictionary always does, and in a damaged one any may.
    pub fn is_live(&self, id: FamilyId) -> bool {
        id == DICTIONARY || self.is_incomplete() || self.inner.read().by_id.contains_key(&id)
    }

    /// Notes that families may be missing here, because of damage reported by `error`.
    pub(crate) fn set_incomplete(&self, error: &Error) {
        let _ = self.damage.set(error.to_string());
    }

    /// True if families with tables may be missing here.
    pub fn is_incomplete(&self) -> bool {
        self.damage.get().is_some()
    }

    /// Error if families or counters may be missing here. A seemingly free name may be taken, and a counter
    /// may be far above its known value.
    pub(crate) fn check_complete(&self) -> Result<()> {
        match self.damage.get() {
            None => Ok(()),
            Some(damage) => Err(Error::corruption(
                "dictionary",
                0,
                format!(
                    "both copies are damaged ({damage}): it is not known which families there are, and no definition \
                     and no counter can be changed; copy what is left with `tidesdb-admin repair`, or restore a backup"
                ),
            )),
        }
    }

    /// The sync mode of a family, beyond the store's.
    pub fn sync_mode(&self, id: FamilyId) -> Option<SyncMode> {
        self.inner.read().by_id.get(&id)?.options().sync_mode
    }

    /// Number of families.
    pub fn len(&self) -> usize {
        self.inner.read().by_name.len()
    }

    /// Names with this prefix, in order.
    pub fn names(&self, prefix: &[u8]) -> Vec<Arc<[u8]>> {
        let inner = self.inner.read();
        let from = (std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded);
        inner
            .by_name
            .range::<[u8], _>(from)
            .map(|(name, _)| name.clone())
            .take_while(|name| name.starts_with(prefix))
            .collect()
    }

    /// Every family, in order of names.
    pub fn all(&self) -> Vec<Arc<Family>> {
        self.inner.read().by_name.values().cloned().collect()
    }

    pub(crate) fn insert(&self, family: Arc<Family>) {
        let mut inner = self.inner.write();
        inner.by_id.insert(family.id(), family.clone());
        inner.by_name.insert(family.name(), family);
    }

    pub(crate) fn remove(&self, family: &Arc<Family>) {
        let mut inner = self.inner.write();
        inner.by_id.remove(&family.id());
        let name = family.name();
        if inner.by_name.get(&name).is_some_and(|now| now.id() == family.id()) {
            inner.by_name.remove(&name);
        }
    }

    pub(crate) fn rename(&self, family: &Arc<Family>, to: &[u8]) {
        let mut inner = self.inner.write();
        let old = family.name();
        if inner.by_name.get(&old).is_some_and(|now| now.id() == family.id()) {
            inner.by_name.remove(&old);
        }
        family.set_name(to);
        inner.by_name.insert(family.name(), family.clone());
    }
}

/// True if a family needs syncs of the log at intervals.
pub(crate) fn syncs_at_intervals(options: &FamilyOptions) -> bool {
    options.sync_mode == Some(SyncMode::Interval)
}

impl Store {
    /// Sets the log's sync interval to the shortest one of the store and all families.
    pub(crate) fn choose_sync_interval(&self) {
        let _one = self.sync_choice.lock();
        let live = self.live.get();
        let of_store = live.sync_interval_us;
        let families = self.catalog.all();
        let asked = families.iter().map(|family| family.options()).filter(|o| syncs_at_intervals(o));
        let shortest = asked
            .map(|options| if options.sync_interval_us == 0 { of_store } else { options.sync_interval_us })
            .chain((live.sync_mode == SyncMode::Interval).then_some(of_store))
            .min();
        self.wal.set_sync_interval(shortest.map(Duration::from_micros));
    }
}
