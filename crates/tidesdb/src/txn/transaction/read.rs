//! Reads of a key in a transaction: its own changes first, then others' visible versions.

use std::sync::Arc;

use super::{Found, PointRead, ReadMode, Transaction, GETS_PER_SAMPLE};
use crate::error::{Error, Result};
use crate::lock::{Granted, Mode};
use crate::mutant::{self, Mutant};
use crate::store::ascending_gets::AscendingGets;
use crate::store::family::Family;
use crate::store::super_version::KeyVersion;
use crate::types::{Entry, FamilyId, Seq};
use crate::value::{ReadParts, Seen};

/// Keys read between two looks at KILL.
const STEPS_BETWEEN_LOOKS: u32 = 256;

impl Transaction {
    /// The transaction's own latest change of a key.
    pub(crate) fn own(&self, family: FamilyId, key: &[u8]) -> Result<Option<KeyVersion<'_>>> {
        if self.batch.is_empty() {
            return Ok(None);
        }
        match self.batch.get(family, key) {
            Some(own) => Ok(Some(KeyVersion::Memory(own.entry()))),
            None => Ok(self.batch.runs().get(family, key)?.map(KeyVersion::Block)),
        }
    }

    /// The value of a key in this mode; `None` if there is none.
    pub fn get(&mut self, family: &Arc<Family>, key: &[u8], mode: ReadMode) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(family, key, PointRead::of(mode), &mut value)?.live.then_some(value))
    }

    /// Reads a key into `out`. In the locking modes the key is locked once.
    pub(crate) fn get_into(
        &mut self,
        family: &Arc<Family>,
        key: &[u8],
        PointRead { mode, skip_locked, on_missing, parts }: PointRead,
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
            let granted = self.lock_key(family.id(), key, lock, skip_locked)?.ok_or(Error::LockTimeout)?;
            newly_locked = granted == Granted::New;
        }
        let own = self.own(family.id(), key)?;
        let own =
            own.filter(|own| !own.entry().kind.is_tombstone() || !mutant::is(Mutant::OwnDeletionUnseen));
        if let Some(own) = own {
            let Seen { live, expiry, place_len } = self.resolve(&own.entry(), mode, parts, out)?;
            return Ok(Found { live, expiry, place_len, newly_locked });
        }
        self.gets = self.gets.wrapping_add(1);
        let found = self.newest_measured(family.id(), key, seq, |entry| {
            if locking {
                self.check_unchanged(entry.seq)?;
            }
            self.resolve(&entry, mode, parts, out)
        });
        let found = found.map_err(|error| family.unless_dropped(error))?;
        if found.is_none() {
            // A drop since the check above has marked the family, and then taken its tables away.
            family.check_live()?;
        }
        let missing = Seen { live: false, expiry: 0, place_len: 0 };
        let Seen { live, expiry, place_len } = found.unwrap_or(missing);
        if locking && !live {
            newly_locked = self.settle_missing(family.id(), key, lock, on_missing, newly_locked)?;
        }
        Ok(Found { live, expiry, place_len, newly_locked })
    }

    /// Reads `keys` in this mode, at a snapshot all of one moment. Calls `each` once for every key, in ascending order, with
    /// its place and its value, `None` if there is none. After RocksDB's MultiGet.
    pub fn get_many(
        &mut self,
        family: &Arc<Family>,
        keys: &[&[u8]],
        mode: ReadMode,
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.require_active()?;
        let mut order: Vec<usize> = (0..keys.len()).collect();
        // Neighbours share index and data blocks while these are in the processor's cache.
        order.sort_unstable_by_key(|place| keys[*place]);
        let (mut value, mut steps) = (Vec::new(), 0);
        if matches!(mode, ReadMode::Shared | ReadMode::Exclusive) {
            for place in order {
                let found = self.get_into(family, keys[place], PointRead::of(mode), &mut value)?;
                each(place, found.live.then_some(&value));
            }
            return Ok(());
        }
        let seq = self.read_seq(mode)?;
        self.check_family(family, seq)?;
        let super_version = self.store.super_version();
        // A drop since the check above has marked the family, and then taken its tables away.
        family.check_live()?;
        for place in order {
            self.look_for_kill(&mut steps)?;
            value.clear();
            let own = match mutant::is(Mutant::OwnUnseenInBatch) {
                true => None,
                false => self.own(family.id(), keys[place])?,
            };
            let version = match own {
                None => super_version.newest(family.id(), keys[place], seq)?,
                own => own,
            };
            let read =
                |version: KeyVersion<'_>| self.resolve(&version.entry(), mode, ReadParts::Both, &mut value);
            let seen = version.map(read).transpose();
            let seen = seen.map_err(|error| family.unless_dropped(error))?;
            each(place, seen.is_some_and(|seen| seen.live).then_some(&value));
        }
        Ok(())
    }

    /// A step of a read of many keys. An error when the owner was killed, asked now and then.
    pub(crate) fn look_for_kill(&self, steps: &mut u32) -> Result<()> {
        *steps += 1;
        match *steps % STEPS_BETWEEN_LOOKS == 0 && self.owner.is_killed() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// The newest version at or below `seq`, as `read` takes it; the time of the search is measured now and then.
    #[inline]
    fn newest_measured(
        &self,
        family: FamilyId,
        key: &[u8],
        seq: Seq,
        read: impl FnOnce(Entry<'_>) -> Result<Seen>,
    ) -> Result<Option<Seen>> {
        let begun = (self.gets % GETS_PER_SAMPLE == 0).then(|| self.store.env.clock.now());
        let found = self.store.newest(family, key, seq, read);
        if let Some(begun) = begun {
            self.store.stats.gets.add(self.store.env.clock.elapsed(begun));
        }
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
        let super_version = self.store.super_version();
        // A drop since the check above has marked the family, and then taken its tables away.
        family.check_live()?;
        let mut committed = AscendingGets::new(&super_version, family.id(), seq);
        let mut steps = 0;
        for key in keys {
            self.look_for_kill(&mut steps)?;
            let look = |entry: Entry<'_>| self.look(&entry, ReadMode::Latest);
            let seen = match self.own(family.id(), key)? {
                Some(own) => Some(look(own.entry())),
                None => committed.newest(key)?.map(look),
            };
            each(seen.filter(|seen| seen.live).map(|seen| seen.expiry));
        }
        Ok(())
    }
}
