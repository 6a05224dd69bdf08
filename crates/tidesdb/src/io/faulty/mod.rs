//! A disk in memory with the failures of disks and machines, reproducible from a seed.
//!
//! The page cache (the content for reads) and the platter (the content after a power cut) are kept apart.
//! File contents are pages of 4 KiB with every unsynced version of each. Directories are a list of unsynced
//! changes. [`FaultyDisk::crash`] makes the disk as found after the machine's death. Handles to the old one
//! stay valid and harmless, so threads of the dead machine cannot reach the new one.
//!
//! Every call is counted. [`FaultyDisk::crash_at`] lets all calls from the n-th on fail, so a driver can try
//! a crash at each. The clock is virtual and moves by a microsecond a call.

mod calls;
mod fault;
mod inode;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::fault::{Failure, Fault, Op};
use self::state::{apply, FaultyState, Names};
use super::Disk;
use crate::host::splitmix64;
use crate::sync::Mutex;

/// The fate of unsynced changes when the machine dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// Only the process dies: all written bytes stay, and unsynced ones are still unsynced.
    Kill,
    /// Power cut; nothing unsynced reached the disk.
    Drop,
    /// Power cut; everything did.
    Keep,
    /// Power cut; all changes up to one are durable (the last one, half of the time), and some pages of this
    /// one.
    Tear,
    /// Power cut; of each page some version did, directory changes up to some point.
    Reorder,
    /// Power cut; everything up to some change did, of all files and directories together.
    Prefix,
}

impl Crash {
    /// All of them.
    pub const ALL: [Crash; 6] =
        [Crash::Kill, Crash::Drop, Crash::Keep, Crash::Tear, Crash::Reorder, Crash::Prefix];
}

/// The disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    state: Arc<Mutex<FaultyState>>,
}

impl FaultyDisk {
    /// An empty disk (with a root directory); `seed` decides everything random about it.
    pub fn new(seed: u64) -> FaultyDisk {
        let mut rng = seed;
        splitmix64(&mut rng);
        FaultyDisk {
            state: Arc::new(Mutex::new(FaultyState {
                live: Names::new(),
                durable: Names::new(),
                pending: Vec::new(),
                inodes: BTreeMap::new(),
                handles: BTreeMap::new(),
                dirs: BTreeSet::from([PathBuf::from("/")]),
                locks: BTreeMap::new(),
                next_inode: 1,
                next_op: 0,
                history: Vec::new(),
                dies_at: u64::MAX,
                failing_calls: BTreeMap::new(),
                faults: Vec::new(),
                unreadable: Vec::new(),
                capacity: None,
                refuses_direct: false,
                refuses_holes: false,
                sector: 512,
                rng,
                clock: 1_000_000,
                wall_ahead: 0,
            })),
        }
    }

    /// As a shared trait object.
    pub fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Calls so far (clock, randomness and advice do not count).
    pub fn calls(&self) -> u64 {
        self.state.lock().history.len() as u64
    }

    /// The kind of every call so far; call `n` (from 1) is at index `n - 1`.
    pub fn history(&self) -> Vec<Op> {
        self.state.lock().history.clone()
    }

    /// From call `n` (from 1) on every call fails and has no effect, as if the machine had died.
    pub fn crash_at(&self, n: u64) {
        self.state.lock().dies_at = n;
    }

    /// Call `n` (from 1) fails.
    pub fn fail_call(&self, n: u64, failure: Failure) {
        self.state.lock().failing_calls.insert(n, failure);
    }

    /// Adds a rule; rules are tried in the order of their adding.
    pub fn fail(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    /// Reads fail that touch these bytes of a file whose path contains `path`, as those of a bad sector do.
    pub fn spoil(&self, path: &str, bytes: Range<u64>) {
        self.state.lock().unreadable.push((path.to_string(), bytes));
    }

    /// Forgets every rule, failing call, unreadable byte and planned crash.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        state.unreadable.clear();
        state.failing_calls.clear();
        state.dies_at = u64::MAX;
    }

    /// Reads past the page cache are refused from now on, as on a file system that cannot do them.
    pub fn refuse_direct(&self, refuses: bool) {
        self.state.lock().refuses_direct = refuses;
    }

    /// No part of a file is given back from now on, as on a file system that cannot do it.
    pub fn refuse_holes(&self, refuses: bool) {
        self.state.lock().refuses_holes = refuses;
    }

    /// Files opened past the page cache from now on are read in sectors of so many bytes: 512 at first, 4096 on other disks.
    pub fn set_sector(&self, bytes: usize) {
        self.state.lock().sector = bytes;
    }

    /// Bounds [`FaultyDisk::used`], in bytes; growing beyond is "no space".
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// The sum of all files' lengths without their holes, in bytes.
    pub fn used(&self) -> u64 {
        self.state.lock().used()
    }

    /// Sets the wall clock ahead or back; the monotonic clock stays.
    pub fn set_wall_clock(&self, seconds: i64) {
        self.state.lock().wall_ahead += seconds;
    }

    /// The clock, in microseconds.
    pub fn now_micros(&self) -> u64 {
        self.state.lock().clock
    }

    /// The wall clock, in seconds since 1970.
    pub fn unix_seconds(&self) -> u64 {
        let state = self.state.lock();
        (1_760_000_000 + state.clock / 1_000_000).saturating_add_signed(state.wall_ahead)
    }

    /// Moves the clock.
    pub fn advance_clock(&self, micros: u64) {
        self.state.lock().clock += micros;
    }

    /// Flips a bit of a file, in the cache and on the platter. False if there is no such byte.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> bool {
        let mut state = self.state.lock();
        match state.live.get(path).copied() {
            Some(id) if offset < state.inode(id).len() => {
                state.inode(id).damage(offset, |byte| byte ^ (1 << (bit & 7)));
                true
            }
            _ => false,
        }
    }

    /// Overwrites bytes of a file, in the cache and on the platter. False if there is no such file.
    pub fn overwrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        let Some(id) = state.live.get(path).copied() else { return false };
        for (i, new) in bytes.iter().enumerate() {
            state.inode(id).damage(offset + i as u64, |_| *new);
        }
        true
    }

    /// A file's bytes as reads see them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        self.part(path, |len| 0..len)
    }

    /// The bytes of a file in a range, chosen by the file's length.
    pub fn part(&self, path: &Path, of: impl FnOnce(u64) -> Range<u64>) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let id = state.live.get(path).copied()?;
        let inode = state.inode(id);
        let Range { start, end } = of(inode.len());
        let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
        let read = inode.read(&mut bytes, start);
        bytes.truncate(read);
        Some(bytes)
    }

    /// Paths of all files as reads see them.
    pub fn files(&self) -> Vec<PathBuf> {
        self.state.lock().live.keys().cloned().collect()
    }

    /// The disk as found after the machine's (or the process's) death at this moment. It shares nothing with
    /// this one, has no faults, and its calls are counted from 0. Repeated crashes of one disk draw different
    /// numbers.
    pub fn crash(&self, mode: Crash) -> FaultyDisk {
        let mut state = self.state.lock();
        let seed = splitmix64(&mut state.rng);
        let mut rng = seed;
        let mut ops: Vec<u64> = state.pending.iter().map(|p| p.op).collect();
        ops.extend(state.inodes.values().flat_map(|i| i.pending_ops()));
        ops.sort_unstable();
        ops.dedup();
        // Changes below `whole` persist, those above not; `torn` itself by pages.
        let (whole, torn) = match mode {
            Crash::Drop => (0, None),
            Crash::Kill | Crash::Keep | Crash::Reorder => (u64::MAX, None),
            Crash::Prefix => match splitmix64(&mut rng) as usize % (ops.len() + 1) {
                n if n == ops.len() => (u64::MAX, None),
                n => (ops[n], None),
            },
            Crash::Tear if ops.is_empty() => (u64::MAX, None),
            Crash::Tear => {
                let pick = splitmix64(&mut rng) as usize;
                let op = if pick & 1 == 0 { ops[ops.len() - 1] } else { ops[(pick >> 1) % ops.len()] };
                (op, Some(op))
            }
        };
        let mut live = state.durable.clone();
        let mut durable = state.durable.clone();
        let mut pending = Vec::new();
        match mode {
            Crash::Kill => {
                live = state.live.clone();
                pending.clone_from(&state.pending);
            }
            _ => {
                let end = match mode {
                    Crash::Reorder => splitmix64(&mut rng) as usize % (state.pending.len() + 1),
                    _ => state.pending.iter().take_while(|p| p.op < whole).count(),
                };
                for change in &state.pending[..end] {
                    apply(&mut live, &change.change);
                }
                durable.clone_from(&live);
            }
        }
        let inodes = state
            .inodes
            .iter()
            .map(|(id, inode)| {
                let inode = match mode {
                    Crash::Kill => inode.clone(),
                    Crash::Reorder => inode.after_reordering(&mut || splitmix64(&mut rng)),
                    _ => inode.after_cut(whole, torn, &mut || splitmix64(&mut rng)),
                };
                (*id, inode)
            })
            .collect();
        let mut next = FaultyState {
            live,
            durable,
            pending,
            inodes,
            handles: BTreeMap::new(),
            dirs: state.dirs.clone(),
            locks: BTreeMap::new(),
            next_inode: state.next_inode,
            next_op: state.next_op,
            history: Vec::new(),
            dies_at: u64::MAX,
            failing_calls: BTreeMap::new(),
            faults: Vec::new(),
            unreadable: Vec::new(),
            capacity: state.capacity,
            refuses_direct: state.refuses_direct,
            refuses_holes: state.refuses_holes,
            sector: state.sector,
            rng,
            clock: state.clock + 1_000_000,
            wall_ahead: state.wall_ahead,
        };
        next.collect();
        FaultyDisk { state: Arc::new(Mutex::new(next)) }
    }
}
