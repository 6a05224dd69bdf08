//! Reads of a key in a transaction: its own changes first, then others' visible versions.

use std::sync::Arc;

use super::{Found, OnMissing, Own, ReadMode, Transaction, GETS_PER_SAMPLE};
use crate::error::{Error, Result};
use crate::lock::{Granted, Mode};
use crate::store::ascending_gets::AscendingGets;
use crate::store::family::Family;
use crate::ttl::{expiry_of, value_of, EXPIRY_LEN};
use crate::types::{FamilyId, Kind, Seq};

impl Transaction {
    /// The transaction's own latest change of a key.
    pub(crate) fn own(&self, family: FamilyId, key: &[u8]) -> Result<Option<Own<'_>>> {
        if self.batch.is_empty() {
            return Ok(None);
        }
        match self.batch.get(family, key) {
            Some(own) => Ok(Some(Own::Memory(own))),
            None => Ok(self.batch.runs().get(family, key)?.map(Own::Spilled)),
        }
    }

    /// The value of a key in this mode; `None` if there is none.
    pub fn get(&mut self, family: &Arc<Family>, key: &[u8], mode: ReadMode) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(family, key, mode, false, OnMissing::Keep, &mut value)?.live.then_some(value))
    }

    /// Reads a key into `out`. In the locking modes the key is locked once. [`Error::LockTimeout`] also when
    /// another owner has it and `skip` is set.
    pub(crate) fn get_into(
        &mut self,
        family: &Arc<Family>,
        key: &[u8],
        mode: ReadMode,
        skip: bool,
        on_missing: OnMissing,
        out: &mut Vec<u8>,
    ) -> Result<Found> {
        self.require_active()?;
        out.clear();
        let seq = self.read_seq(mode)?;
        self.check_family(family, seq)?;
        let lock = if mode == ReadMode::Shared { Mode::Shared } else { Mode::Exclusive };
        let locking = matches!(mode, ReadMode::Shared | ReadMode::Exclusive);
        let mut newly_locked = false;
        if locking {
            let granted = self.lock_key(family.id(), key, lock, skip)?.ok_or(Error::LockTimeout)?;
            newly_locked = granted == Granted::New;
        }
        if let Some(own) = self.own(family.id(), key)? {
            let (kind, stored) = own.stored();
            let live = self.sees(kind, stored, mode);
            if live {
                out.extend_from_slice(value_of(kind, stored));
            }
            return Ok(Found { live, expiry: expiry_of(kind, stored), newly_locked });
        }
        let mut expiry = 0;
        let live = match self.newest_measured(family.id(), key, seq, out)? {
            None => {
                // A drop since the check above has marked the family, and then taken its tables away.
                family.check_live()?;
                false
            }
            Some((seq, kind)) => {
                if locking {
                    self.check_unchanged(seq)?;
                }
                let live = self.sees(kind, out, mode);
                if kind.has_expiry() {
                    expiry = expiry_of(kind, out);
                    out.drain(..EXPIRY_LEN.min(out.len()));
                }
                live
            }
        };
        if locking && !live {
            newly_locked = self.settle_missing(family.id(), key, lock, on_missing, newly_locked)?;
        }
        Ok(Found { live, expiry, newly_locked })
    }

    /// The newest version at or below `seq`; the time of the search is measured now and then.
    #[inline]
    fn newest_measured(
        &mut self,
        family: FamilyId,
        key: &[u8],
        seq: Seq,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Seq, Kind)>> {
        self.gets = self.gets.wrapping_add(1);
        if self.gets % GETS_PER_SAMPLE != 0 {
            return self.store.newest(family, key, seq, Some(out));
        }
        let begun = self.store.env.clock.now();
        let found = self.store.newest(family, key, seq, Some(out));
        self.store.stats.gets.add(self.store.env.clock.elapsed(begun));
        found
    }

    /// Looks for the newest versions of `keys`, as [`ReadMode::Latest`] does. Calls `each` with the answers
    /// in the order of the keys: the entry's expiry (0: never), or `None` for a missing key. Ascending
    /// neighbours are cheap.
    pub fn find_all<'k>(
        &mut self,
        family: &Arc<Family>,
        keys: impl Iterator<Item = &'k [u8]>,
        mut each: impl FnMut(Option<u64>),
    ) -> Result<()> {
        self.require_active()?;
        let seq = self.read_seq(ReadMode::Latest)?;
        self.check_family(family, seq)?;
        let view = self.store.view();
        // A drop since the check above has marked the family, and then taken its tables away.
        family.check_live()?;
        let mut committed = AscendingGets::new(&view, family.id(), seq);
        for key in keys {
            let found = |kind, stored: &[u8]| {
                self.sees(kind, stored, ReadMode::Latest).then(|| expiry_of(kind, stored))
            };
            let own = self.own(family.id(), key)?;
            each(match own.as_ref().map(Own::stored) {
                Some((kind, stored)) => found(kind, stored),
                None => committed.newest(key)?.and_then(|entry| found(entry.kind, entry.value)),
            });
        }
        Ok(())
    }
}
