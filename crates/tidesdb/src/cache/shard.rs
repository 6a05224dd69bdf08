//! One shard of the block cache: an open-addressed table with linear probing, at the same time the ring of
//! CLOCK.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use super::compressed::COPY;
use super::frame::BlockRef;
use super::single_flight::SingleFlight;
use crate::sync::RwLock;
use crate::types::FileNo;

/// Slots that a walk visits under one hold of the lock: at most a megabyte of usual blocks is copied.
const MOVED_AT_ONCE: usize = 256;

/// Bytes charged for a block in addition to its frame: its slot, in a table at half load on average.
pub(super) const ENTRY_OVERHEAD: usize = 2 * std::mem::size_of::<Option<CacheSlot>>();

/// Hash of a block's key, the same for its stored copy; its upper bits choose the shard, its lower ones the slot.
#[inline]
pub(super) fn hash(file: FileNo, offset: u64) -> u64 {
    let mixed = (file & !COPY ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ offset;
    let product = u128::from(mixed) * 0xa076_1d64_78bd_642f_u128;
    (product as u64) ^ ((product >> 64) as u64)
}

pub(super) struct CacheSlot {
    file: FileNo,
    offset: u64,
    block: BlockRef,
}

impl CacheSlot {
    fn charge(&self) -> usize {
        self.block.footprint() + ENTRY_OVERHEAD
    }
}

/// Invariant: an occupied slot is reachable from its hash's home slot without an empty one between. The
/// length is zero or a power of two, and at least one slot is empty.
#[derive(Default)]
struct SlotTable {
    slots: Vec<Option<CacheSlot>>,
    entries: usize,
    hand: usize,
    /// The same for blocks with copies, when one of them makes room for another.
    hot_hand: usize,
    /// Position at which the next frames are compacted.
    mover: usize,
    /// Young blocks in the order of their insertion, with their charges; some may have gone. Then the sum of the charges.
    young: VecDeque<(FileNo, u64, usize)>,
    young_bytes: usize,
}

/// A shard. The alignment keeps locks and counters of two shards off one cache line.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Shard {
    table: RwLock<SlotTable>,
    /// Its missing blocks that a thread is reading.
    pub(super) reads: SingleFlight<(FileNo, u64), BlockRef>,
    hits: AtomicU64,
    misses: AtomicU64,
    copy_hits: AtomicU64,
}

impl SlotTable {
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// The slot of the key (`Ok`), or the empty slot for it (`Err`). The table must have slots.
    #[inline]
    fn find(&self, hash: u64, file: FileNo, offset: u64) -> Result<usize, usize> {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        loop {
            match &self.slots[at] {
                None => return Err(at),
                Some(slot) if slot.offset == offset && slot.file == file => return Ok(at),
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    /// The slot of the key, in a table that may have no slots.
    #[inline]
    fn place_of(&self, hash: u64, file: FileNo, offset: u64) -> Option<usize> {
        if self.entries == 0 {
            None
        } else {
            self.find(hash, file, offset).ok()
        }
    }

    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(8);
        let old = std::mem::replace(&mut self.slots, (0..len).map(|_| None).collect());
        (self.hand, self.hot_hand) = (0, 0);
        for slot in old.into_iter().flatten() {
            let (Ok(at) | Err(at)) = self.find(hash(slot.file, slot.offset), slot.file, slot.offset);
            self.slots[at] = Some(slot);
        }
    }

    /// A use of a block counts for its copy too, which must be there when the block goes. Slot `at` is one of the two, and the
    /// hand comes to it.
    fn keep_copy(&self, at: usize) {
        let Some(slot) = &self.slots[at] else { return };
        let is_copy = slot.file & COPY != 0;
        if !is_copy && !slot.block.has_to_be_hot() {
            return;
        }
        let other = self.find(hash(slot.file, slot.offset), slot.file ^ COPY, slot.offset).ok();
        let Some(other) = other.and_then(|at| self.slots[at].as_ref()) else { return };
        let (block, copy) = if is_copy { (other, slot) } else { (slot, other) };
        if block.block.is_used() {
            copy.block.mark_used_once();
        }
    }

    /// Empties slot `at` and moves displaced entries closer to their home.
    fn remove(&mut self, at: usize) -> Option<CacheSlot> {
        let removed = self.slots[at].take()?;
        self.entries -= 1;
        let mask = self.mask();
        let mut gap = at;
        let mut next = (at + 1) & mask;
        while let Some(slot) = &self.slots[next] {
            let home = hash(slot.file, slot.offset) as usize & mask;
            // Movable when its home is not strictly between the gap and itself, going round.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(gap) & mask) {
                self.slots[gap] = self.slots[next].take();
                gap = next;
            }
            next = (next + 1) & mask;
        }
        Some(removed)
    }
}

impl Shard {
    #[inline]
    pub(super) fn get(&self, hash: u64, file: FileNo, offset: u64) -> Option<BlockRef> {
        let found = self.peek(hash, file, offset);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// The block, if it is there, without a count of the lookup.
    #[inline]
    pub(super) fn peek(&self, hash: u64, file: FileNo, offset: u64) -> Option<BlockRef> {
        let table = self.table.read();
        let slot = table.place_of(hash, file, offset);
        slot.and_then(|at| table.slots[at].as_ref()).map(|slot| {
            slot.block.prefetch();
            slot.block.note_use();
            slot.block.clone()
        })
    }

    /// The stored copy, if it is there. The caller counts its use.
    pub(super) fn find_copy(&self, hash: u64, file: FileNo, offset: u64) -> Option<BlockRef> {
        let table = self.table.read();
        let slot = table.place_of(hash, file, offset);
        let found = slot.and_then(|at| table.slots[at].as_ref()).map(|slot| slot.block.clone())?;
        self.copy_hits.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// True if the block is there; no use of it.
    pub(super) fn holds(&self, hash: u64, file: FileNo, offset: u64) -> bool {
        let table = self.table.read();
        table.place_of(hash, file, offset).is_some()
    }

    /// Inserts the block (`Ok`), or returns the one already under the key (`Err`).
    pub(super) fn insert(
        &self,
        hash: u64,
        file: FileNo,
        offset: u64,
        block: BlockRef,
    ) -> Result<BlockRef, BlockRef> {
        let mut table = self.table.write();
        if (table.entries + 1) * 4 > table.slots.len() * 3 {
            table.grow();
        }
        match table.find(hash, file, offset) {
            Ok(at) => Err(table.slots[at].as_ref().map_or(block, |slot| slot.block.clone())),
            Err(at) => {
                table.slots[at] = Some(CacheSlot { file, offset, block: block.clone() });
                table.entries += 1;
                Ok(block)
            }
        }
    }

    /// Notes a young block of `charge` bytes that comes, and takes the oldest ones out until all young ones have at most `most`
    /// bytes. Those in use stay like other blocks. No effect if the block is there already. Returns the bytes freed, as they
    /// were charged.
    pub(super) fn retire_for(&self, (file, offset): (FileNo, u64), charge: usize, most: usize) -> usize {
        let mut retired = Vec::new();
        let mut table = self.table.write();
        if table.place_of(hash(file, offset), file, offset).is_some() {
            return 0;
        }
        while table.young_bytes + charge > most {
            let Some((file, offset, charge)) = table.young.pop_front() else { break };
            table.young_bytes -= charge;
            // New references are made under the lock, which is held here.
            if let Some(at) = table.place_of(hash(file, offset), file, offset) {
                table.keep_copy(at);
                if table.slots[at].as_ref().is_some_and(|slot| slot.block.is_unshared()) {
                    retired.extend(table.remove(at));
                }
            }
        }
        table.young.push_back((file, offset, charge));
        table.young_bytes += charge;
        drop(table);
        retired.iter().map(CacheSlot::charge).sum()
    }

    /// Moves the hand at most one round and evicts frames neither in use nor used since the last round, until
    /// `bytes` are free. Returns the bytes freed, as they were charged.
    pub(super) fn evict(&self, bytes: usize) -> usize {
        self.evict_by(|table| &mut table.hand, |_| true, bytes)
    }

    /// Like [`Shard::evict`], of blocks with copies alone, by a hand of its own: one of them takes the place of another, and
    /// no copy goes.
    pub(super) fn evict_copied(&self, bytes: usize) -> usize {
        self.evict_by(|table| &mut table.hot_hand, BlockRef::has_to_be_hot, bytes)
    }

    /// Moves `hand` over the frames that `goes` names.
    fn evict_by(
        &self,
        hand: impl Fn(&mut SlotTable) -> &mut usize,
        goes: impl Fn(&BlockRef) -> bool,
        bytes: usize,
    ) -> usize {
        let mut freed = 0;
        // Frames are released after the lock.
        let mut evicted = Vec::new();
        let mut table = self.table.write();
        let mut steps = table.slots.len();
        while freed < bytes && steps > 0 && table.entries > 0 {
            let at = *hand(&mut table) & table.mask();
            // New references are made under the lock (held here) or from a reference that somebody holds.
            let victim = table.slots[at].as_ref().is_some_and(|slot| {
                goes(&slot.block) && {
                    table.keep_copy(at);
                    slot.block.is_unshared() && !slot.block.take_used()
                }
            });
            if victim {
                // Removal may move another slot here, so the hand stays.
                if let Some(slot) = table.remove(at) {
                    freed += slot.charge();
                    evicted.push(slot);
                }
            } else {
                *hand(&mut table) = (at + 1) & table.mask();
                steps -= 1;
            }
        }
        drop(table);
        freed
    }

    /// Like [`Shard::move_together`], of all slots; readers come in between.
    pub(super) fn move_all_together(&self) {
        let slots = self.table.read().slots.len();
        for _ in 0..slots.div_ceil(MOVED_AT_ONCE) {
            self.move_together(MOVED_AT_ONCE);
        }
    }

    /// Visits the next `steps` slots and moves unused frames out of slabs that are to leave.
    pub(super) fn move_together(&self, steps: usize) {
        let mut left = Vec::new();
        let mut table = self.table.write();
        for _ in 0..steps.min(table.slots.len()) {
            let at = table.mover & table.mask();
            table.mover = (at + 1) & table.mask();
            // New references are made under the lock, which is held here.
            let Some(slot) = table.slots[at].as_mut().filter(|slot| slot.block.is_unshared()) else {
                continue;
            };
            if let Some(moved) = slot.block.moved() {
                left.push(std::mem::replace(&mut slot.block, moved));
            }
        }
        drop(table);
    }

    /// Takes the block out, in use or not. Returns the bytes freed, as they were charged.
    pub(super) fn drop_block(&self, hash: u64, file: FileNo, offset: u64) -> usize {
        let mut table = self.table.write();
        let at = table.place_of(hash, file, offset);
        let removed = at.and_then(|at| table.remove(at));
        drop(table);
        removed.map_or(0, |slot| slot.charge())
    }

    /// Erases all blocks of `files`, in ascending order. Returns the bytes freed, as they were charged.
    pub(super) fn erase(&self, files: &[FileNo]) -> usize {
        let mut removed = Vec::new();
        let mut table = self.table.write();
        let mut at = 0;
        // A removal moves later slots of the chain towards it: into this place, which is looked at again, or
        // round the table's end among slots that were looked at before.
        while at < table.slots.len() {
            if table.slots[at].as_ref().is_some_and(|slot| files.binary_search(&(slot.file & !COPY)).is_ok())
            {
                removed.extend(table.remove(at));
            } else {
                at += 1;
            }
        }
        drop(table);
        removed.iter().map(CacheSlot::charge).sum()
    }

    pub(super) fn entries(&self) -> usize {
        self.table.read().entries
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(super) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    pub(super) fn copy_hits(&self) -> u64 {
        self.copy_hits.load(Ordering::Relaxed)
    }
}
