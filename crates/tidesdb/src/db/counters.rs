//! Counters: values that are never handed out twice. A ceiling is durable before a value at or above the
//! last one is given out (`protocols.md` 6.3); the counter's lock is held meanwhile, so that ceilings
//! reach the log in the order in which they grow.

use crate::db::dictionary::{counter_key, number};
use crate::db::family::{Counter, Family, COUNTERS};
use crate::db::Store;
use crate::error::{Error, Result};
use crate::txn::write_batch::WriteBatch;
use crate::types::{Kind, DICTIONARY, MAX_SEQ};

impl Store {
    /// Takes `count` values; see `tidesdb_counter_take` in the C interface for their form.
    pub(crate) fn counter_take(
        &self,
        family: &Family,
        counter: u32,
        count: u64,
        offset: u64,
        increment: u64,
        limit: u64,
    ) -> Result<u64> {
        self.with_counter(family, counter, |state| {
            let range = state.range(count, offset, increment, limit);
            let (first, next) = range.ok_or_else(|| {
                Error::InvalidArgument(format!("the counter has no {count} values up to {limit} left"))
            })?;
            Ok((first, next))
        })
    }

    /// The next value is above `value` from now on.
    pub(crate) fn counter_raise(&self, family: &Family, counter: u32, value: u64) -> Result<()> {
        self.with_counter(family, counter, |state| Ok(((), state.next.max(value.saturating_add(1)))))
    }

    /// The next value that would be handed out.
    pub(crate) fn counter_peek(&self, family: &Family, counter: u32) -> Result<u64> {
        self.with_counter(family, counter, |state| Ok((state.next.max(1), state.next)))
    }

    fn with_counter<T>(
        &self,
        family: &Family,
        counter: u32,
        change: impl FnOnce(&Counter) -> Result<(T, u64)>,
    ) -> Result<T> {
        let slot = family
            .counters
            .get(counter as usize)
            .ok_or_else(|| Error::InvalidArgument(format!("counter {counter} is not below {COUNTERS}")))?;
        family.check_live()?;
        let mut slot = slot.lock();
        let state = match &mut *slot {
            Some(state) => state,
            None => slot.insert(Counter::at(self.stored_counter(family, counter)?)),
        };
        let (answer, next) = change(state)?;
        if next > state.ceiling {
            let ceiling = state.ceiling_for(next);
            let mut batch = WriteBatch::default();
            let key = counter_key(family.id(), counter);
            batch.push(DICTIONARY, &key, Kind::PUT.marked_may_overwrite(), &ceiling.to_le_bytes());
            self.commit_internal(&batch, None)?;
            state.ceiling = ceiling;
        }
        state.next = next;
        Ok(answer)
    }

    fn stored_counter(&self, family: &Family, counter: u32) -> Result<u64> {
        let mut value = Vec::new();
        let key = counter_key(family.id(), counter);
        match self.newest(DICTIONARY, &key, MAX_SEQ, Some(&mut value))? {
            Some((_, kind)) if !kind.is_tombstone() => number(&value)
                .ok_or_else(|| Error::corruption("dictionary", 0, "a counter's entry is not 8 bytes long")),
            _ => Ok(1),
        }
    }

    /// Writes the next values themselves, so that a clean restart leaves no gap.
    pub(crate) fn settle_counters(&self) -> Result<()> {
        let mut batch = WriteBatch::default();
        for family in self.catalog.all() {
            for (counter, slot) in (0u32..).zip(&family.counters) {
                if let Some(state) = slot.lock().as_mut().filter(|state| state.ceiling != state.next) {
                    let key = counter_key(family.id(), counter);
                    batch.push(DICTIONARY, &key, Kind::PUT.marked_may_overwrite(), &state.next.to_le_bytes());
                    state.ceiling = state.next;
                }
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.commit_internal(&batch, None).map(|_| ())
    }
}
