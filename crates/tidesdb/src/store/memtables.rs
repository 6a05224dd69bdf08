//! The active memtable, the sealed ones, and their claim on the log (`docs/protocols.md` 1.4, 7.1). Decides
//! the rotation, the waits of writers, and the first log segment still needed by recovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::cluster_position::ClusterPosition;
use crate::memtable::Memtable;
use crate::mutant::{self, Mutant};
use crate::store::super_version::{Flushable, SuperVersion};
use crate::store::Store;
use crate::sync::{note, Condvar, Mutex};
use crate::types::{MemtableId, Seq};
use crate::wal::WaitLimit;

/// Number of sealed memtables that may wait for their flush: with the active one, twice the write buffer.
const MAX_SEALED: usize = 1;

/// The active memtable is sealed, however full, once it holds so many write buffers (at least as many
/// segments) of log.
const LONG_LOG: u64 = 4;

/// A sealed memtable, or the runs of a spilled commit: to be made part of the version, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub flushable: Flushable,
    /// Its last commit.
    pub last_seq: Seq,
    /// The cluster's position as of that commit.
    pub position: Option<ClusterPosition>,
}

/// Why a flush failed.
#[derive(Clone, Debug)]
pub(crate) enum Stuck {
    /// For want of space.
    DiskFull(String),
    /// For another reason.
    Failed(String),
}

impl Stuck {
    pub(crate) fn of(error: &Error) -> Stuck {
        match error {
            Error::DiskFull(what) => Stuck::DiskFull(what.clone()),
            other => Stuck::Failed(other.to_string()),
        }
    }

    /// The error for a caller in need of the flush.
    pub(crate) fn error(&self, store: &Store) -> Error {
        match self {
            Stuck::DiskFull(what) => Error::DiskFull(what.clone()),
            Stuck::Failed(what) => Error::io("flush", &store.dir, std::io::Error::other(what.clone())),
        }
    }
}

/// Sealed memtables, and the log needed by them and the active one.
#[derive(Debug, Default)]
pub(crate) struct MemtableState {
    /// Oldest first.
    pub sealed: Vec<Sealed>,
    /// Bytes in value files when the active memtable began.
    pub values_before: u64,
    /// First log segment needed by each unflushed memtable.
    pub min_segment: BTreeMap<MemtableId, u32>,
    /// The reason of the last flush's failure; it is tried again, but no thread waits for that.
    pub stuck: Option<Stuck>,
    /// Number of flushes begun; `stuck` refers to the last one, unless it is under way.
    pub attempts: u64,
    /// A thread waits for another attempt: ends the pause before it.
    pub hurry: bool,
    pub closing: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Memtables {
    pub state: Mutex<MemtableState>,
    /// Something was sealed, flushed, or the store closes.
    pub changed: Condvar,
    /// First segments with batches that were prepared before a memtable and committed into it.
    pub min_prepared_segment: Mutex<BTreeMap<MemtableId, u32>>,
}

impl Store {
    /// Waits until the active memtable has room for `bytes`; seals it when it is full. Part of `prepare`.
    pub(crate) fn make_room(&self, bytes: usize, wait_limit: &WaitLimit<'_>) -> Result<()> {
        self.wait_for_room(bytes, wait_limit)?;
        self.give_way_to_memtables(|| {
            let super_version = self.super_version.load();
            (super_version.active.bytes() + super_version.sealed_bytes() + bytes) as u64
        });
        Ok(())
    }

    fn wait_for_room(&self, bytes: usize, wait_limit: &WaitLimit<'_>) -> Result<()> {
        let fits = || {
            // Whoever waits goes by the size that is in force now.
            let buffer = self.write_buffer_in_force();
            let super_version = self.super_version.load();
            let (used, sealed) = (super_version.active.bytes(), super_version.sealed_bytes());
            // The commit of a spilled transaction seals early: all of them together stay below two buffers.
            let limit = buffer.min((2 * buffer).saturating_sub(sealed));
            used + bytes <= limit || (used == 0 && sealed <= buffer)
        };
        let mut begun = None;
        loop {
            if fits() {
                return Ok(());
            }
            let mut state = self.memtables.state.lock();
            if fits() {
                return Ok(());
            }
            if state.closing {
                return Err(Error::ReadOnly("the store is being closed".into()));
            }
            let memtables =
                state.sealed.iter().filter(|sealed| sealed.flushable.memtable().is_some()).count();
            if memtables < MAX_SEALED {
                note("rotation: full memtable");
                self.seal_active(&mut state);
                continue;
            }
            if let Some(stuck) = &state.stuck {
                return Err(stuck.error(self));
            }
            self.wal_alive()?;
            if (wait_limit.interrupted)() {
                return Err(Error::Interrupted);
            }
            let begun = *begun.get_or_insert_with(|| self.env.clock.now());
            if self.env.clock.elapsed(begun) >= wait_limit.timeout {
                return Err(Error::BackpressureTimeout);
            }
            self.stats.count_backpressure(&*self.env.clock, || {
                // A short step, so that a failure of the log is noticed.
                self.memtables.changed.wait_for(&mut state, WaitLimit::STEP);
            });
        }
    }

    /// Seals the active memtable and puts an empty one in its place.
    pub(crate) fn seal_active(&self, state: &mut MemtableState) {
        let fresh = Arc::new(Memtable::new(self.new_memtable_id(), self.arenas.clone()));
        state.values_before = self.versions.values().statement_bytes();
        // All records of the fresh one are written after this.
        let min_segment =
            self.wal.written_lsn().segment() + u32::from(mutant::is(Mutant::RotationForgetsLog));
        self.pipeline.rotate(fresh.clone(), |sealed, last_seq, position| {
            state.min_segment.insert(fresh.id(), min_segment);
            let flushable = Flushable::Memtable(sealed.clone());
            self.push_sealed(state, &fresh, vec![Sealed { flushable, last_seq, position }]);
        });
        if mutant::is(Mutant::FlushNotTold) {
            return;
        }
        self.memtables.changed.notify_all();
    }

    /// Puts an empty memtable in the place of the active one, and `sealed`, oldest first, after it. Runs
    /// under the order lock.
    pub(crate) fn push_sealed(&self, state: &mut MemtableState, fresh: &Arc<Memtable>, sealed: Vec<Sealed>) {
        self.swap_super_version(|super_version| SuperVersion {
            active: fresh.clone(),
            sealed: sealed
                .iter()
                .rev()
                .map(|s| s.flushable.clone())
                .chain(super_version.sealed.iter().cloned())
                .collect(),
            version: super_version.version.clone(),
        });
        state.sealed.extend(sealed);
    }

    /// Seals the active memtable when its log has grown long without it. Prepares with a later rollback, and
    /// positions alone, leave nothing in memtables, so no flush would release their segments.
    pub(crate) fn seal_for_long_log(&self) {
        let mut state = self.memtables.state.lock();
        let active = self.super_version.load().active.id();
        let Some(&from) = state.min_segment.get(&active) else { return };
        let segments = u64::from(self.wal.written_lsn().segment().saturating_sub(from));
        let bytes = segments * u64::from(self.options.wal_segment_size);
        let long = (self.live.write_buffer_size() as u64 * LONG_LOG)
            .max(u64::from(self.options.wal_segment_size) * LONG_LOG);
        if bytes >= long && state.sealed.len() < MAX_SEALED && !state.closing {
            note("rotation: long log");
            self.seal_active(&mut state);
        }
    }

    /// Seals the active memtable when its entries point to many bytes in value files: it is small, and until its flush no
    /// overwritten value of these files gives its space back.
    pub(crate) fn seal_for_many_values(&self) {
        let values = self.versions.values();
        let mut state = self.memtables.state.lock();
        let bytes = values.statement_bytes().saturating_sub(state.values_before);
        let is_empty = self.super_version.load().active.bytes() == 0;
        if bytes >= values.most_unflushed() && !is_empty && state.sealed.len() < MAX_SEALED && !state.closing
        {
            note("rotation: many values");
            self.seal_active(&mut state);
        }
    }

    /// The first log segment needed by memtables after `flushed`, without regard to undecided transactions.
    pub(crate) fn memtables_min_segment(&self, flushed: MemtableId) -> u32 {
        let mut from = u32::MAX;
        let state = self.memtables.state.lock();
        for (&generation, &segment) in
            state.min_segment.iter().chain(self.memtables.min_prepared_segment.lock().iter())
        {
            if generation > flushed {
                from = from.min(segment);
            }
        }
        from
    }

    /// Seals the active memtable, unless there is nothing to flush, and waits until everything sealed is in files. An
    /// interruption ends the wait; the flush goes on.
    pub(crate) fn flush(&self, interrupted: &dyn Fn() -> bool) -> Result<()> {
        self.check_writable()?;
        let mut state = self.memtables.state.lock();
        let last = self.super_version.load().active.id();
        if self.super_version.load().active.bytes() > 0 || self.pipeline.has_unsealed_position() {
            note("rotation: asked for");
            self.seal_active(&mut state);
        }
        // Why an earlier attempt failed does not count: there may be space again.
        let before = state.attempts;
        while state.sealed.iter().any(|sealed| sealed.flushable.id() <= last) {
            match &state.stuck {
                Some(stuck) if state.attempts > before => return Err(stuck.error(self)),
                Some(_) if !state.hurry => {
                    state.hurry = true;
                    self.memtables.changed.notify_all();
                }
                _ => {}
            }
            self.wal_alive()?;
            // A close through another handle ends the thread that flushes.
            self.check_open()?;
            if interrupted() {
                return Err(Error::Interrupted);
            }
            self.memtables.changed.wait_for(&mut state, WaitLimit::STEP);
        }
        Ok(())
    }
}
