//! Nodes of the ordered index: layout, latch, search, and the changes under a latch.
//!
//! A node has sorted records. An inner node also has one child more than records: child `i` has the keys
//! below record `i` and at or above record `i - 1`. Next to each record is its *head*: the eight bytes of its
//! key after the common prefix of the node's keys, big-endian, zero-padded. Heads are in the order of the
//! keys or equal; the records decide between equal heads.
//!
//! Reads are optimistic, as in optimistic lock coupling (Leis et al., 2016): they load the version, read, and
//! load the version again. Every mutable field is an atomic, so a race with a change gives nonsense but no
//! undefined behaviour. Pointers are null or lead to finished records and nodes with the arena's lifetime;
//! the node's constant capacity bounds indices. Nonsense ends in [`Restart`] or fails [`NodeRef::validate`].
//! Nodes are never freed while the arena lives.

use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::arena::Arena;
use super::record::{Record, RecordRef};
use crate::sync::SpinWait;

/// Bytes of the common prefix in the node itself. The rest of a longer prefix is compared with a key's bytes.
const INLINE_PREFIX: usize = 24;
const PREFIX_WORDS: usize = INLINE_PREFIX / 8;

/// Inconsistent reads, caused by a concurrent change of the node: start again at the root.
#[derive(Debug)]
pub(super) struct Restart;

/// The eight bytes from `at` on, big-endian, zero-padded.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(word) => u64::from_be_bytes(*word),
        None => short_word_at(bytes, at),
    }
}

#[inline]
fn short_word_at(bytes: &[u8], at: usize) -> u64 {
    let tail = bytes.get(at..).unwrap_or_default();
    tail.iter().take(8).enumerate().fold(0, |word, (i, &byte)| word | u64::from(byte) << (56 - 8 * i))
}

/// Length of the common prefix.
fn shared_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Prefetches the cache lines of the `len` bytes at `start`, an arbitrary address. Most of a search's cost is
/// waiting for memory, and lines requested together arrive together.
#[inline]
pub(super) fn prefetch<T>(start: *const T, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in (0..len).step_by(64) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: a hint; it reads nothing and the address is not followed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.cast::<i8>().wrapping_add(line)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (start, len);
}

/// Heads to prefetch before a search: those of a full-size node.
const SEARCHED: usize = 64;

/// Bytes of a record worth a prefetch: header, a usual key, version and the value's start.
const RECORD_AHEAD: usize = 128;

/// Prefetches the record at an address.
#[inline]
pub(super) fn prefetch_record(record: *const Record) {
    prefetch(record, RECORD_AHEAD);
}

/// A search key, with its first words ready for comparison with inline prefixes.
pub(super) struct SearchKey<'k> {
    pub(super) bytes: &'k [u8],
    words: [u64; PREFIX_WORDS],
}

impl<'k> SearchKey<'k> {
    #[inline]
    pub(super) fn new(bytes: &'k [u8]) -> SearchKey<'k> {
        SearchKey { bytes, words: std::array::from_fn(|i| word_at(bytes, 8 * i)) }
    }
}

/// Fixed part of a node. `capacity` heads, `capacity` records and, in an inner node, `capacity + 1` children
/// follow.
#[repr(C, align(64))]
pub(super) struct Header {
    /// Bit 0 is the latch. Every change adds two.
    version: AtomicU64,
    /// The leaf to the right.
    next: AtomicPtr<Header>,
    /// A record whose key begins with the common prefix.
    prefix_of: AtomicPtr<Record>,
    /// The first bytes of the common prefix, in the form of [`SearchKey`], zero-padded.
    prefix_words: [AtomicU64; PREFIX_WORDS],
    prefix_len: AtomicU32,
    count: AtomicU16,
    capacity: u16,
    /// 0 for leaves.
    level: u8,
}

/// A reference to a node with lifetime `'a`.
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'a> {
    node: NonNull<Header>,
    arena: PhantomData<&'a Arena>,
}

impl PartialEq for NodeRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

/// A key's place in a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    /// Number of smaller keys in the node.
    pub(super) below: usize,
    /// True if the node's next key is equal.
    pub(super) exact: bool,
}

impl Rank {
    /// Number of smaller or equal keys in the node.
    pub(super) fn through(self) -> usize {
        self.below + usize::from(self.exact)
    }
}

impl<'a> NodeRef<'a> {
    /// A new empty node, unlatched.
    pub(super) fn new(arena: &'a Arena, level: u8, capacity: usize) -> NodeRef<'a> {
        let children = if level > 0 { capacity + 1 } else { 0 };
        let size = size_of::<Header>() + 8 * (2 * capacity + children);
        let start = arena.alloc(size, align_of::<Header>());
        // SAFETY: the memory is this thread's alone, aligned and of this size. All zeros are a valid
        // header and valid atomics (null, 0).
        unsafe {
            start.as_ptr().write_bytes(0, size);
            let node = start.cast::<Header>();
            (*node.as_ptr()).capacity = u16::try_from(capacity).expect("fan-outs are small constants");
            (*node.as_ptr()).level = level;
            NodeRef::from_raw(node)
        }
    }

    /// # Safety
    /// The node was made by [`NodeRef::new`] in an arena with lifetime `'a`, and its construction happens
    /// before this call.
    pub(super) unsafe fn from_raw(node: NonNull<Header>) -> NodeRef<'a> {
        NodeRef { node, arena: PhantomData }
    }

    pub(super) fn as_raw(self) -> NonNull<Header> {
        self.node
    }

    fn header(self) -> &'a Header {
        // SAFETY: `from_raw`; what changes in it is atomic.
        unsafe { &*self.node.as_ptr() }
    }

    /// The eight-byte cell `index` after the header.
    ///
    /// # Safety
    /// `T` is an eight-byte atomic, `index` is inside the node.
    unsafe fn cell<T>(self, index: usize) -> &'a T {
        debug_assert!(size_of::<T>() == 8);
        // SAFETY: promised by the caller; the node's memory was zeroed, which is a valid atomic.
        unsafe { &*self.node.as_ptr().add(1).cast::<T>().add(index) }
    }

    fn head_cell(self, slot: usize) -> &'a AtomicU64 {
        debug_assert!(slot < self.capacity());
        // SAFETY: heads are the first `capacity` cells.
        unsafe { self.cell(slot) }
    }

    fn record_cell(self, slot: usize) -> &'a AtomicPtr<Record> {
        assert!(slot < self.capacity());
        // SAFETY: records are the second `capacity` cells.
        unsafe { self.cell(self.capacity() + slot) }
    }

    fn child_cell(self, index: usize) -> &'a AtomicPtr<Header> {
        assert!(index <= self.capacity() && self.level() > 0);
        // SAFETY: children are the `capacity + 1` cells after, in inner nodes.
        unsafe { self.cell(2 * self.capacity() + index) }
    }

    pub(super) fn capacity(self) -> usize {
        usize::from(self.header().capacity)
    }

    pub(super) fn level(self) -> u8 {
        self.header().level
    }

    /// Number of records; never above the capacity.
    pub(super) fn count(self) -> usize {
        usize::from(self.header().count.load(Ordering::Relaxed)).min(self.capacity())
    }

    pub(super) fn is_full(self) -> bool {
        self.count() == self.capacity()
    }

    /// Prefetches the lines of a search in a full-size node.
    #[inline]
    pub(super) fn prefetch_search(self) {
        prefetch(self.node.as_ptr(), size_of::<Header>() + 8 * SEARCHED);
    }

    /// Prefetches the record in `slot`, if there is one.
    #[inline]
    pub(super) fn prefetch_record(self, slot: usize) {
        if slot < self.capacity() {
            prefetch_record(self.record_cell(slot).load(Ordering::Relaxed));
        }
    }

    // --- latch ---

    /// The version for validating reads; waits while the node is latched.
    #[inline]
    pub(super) fn read_version(self) -> u64 {
        let version = self.header().version.load(Ordering::Acquire);
        if version & 1 == 0 {
            return version;
        }
        self.wait_unlatched()
    }

    #[cold]
    fn wait_unlatched(self) -> u64 {
        let wait = SpinWait::default();
        loop {
            let version = self.header().version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
            wait.turn();
        }
    }

    /// True if everything read since `version` was loaded belongs to it.
    #[inline]
    pub(super) fn validate(self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.header().version.load(Ordering::Relaxed) == version
    }

    /// Takes the latch if the node has not changed since `version`.
    pub(super) fn try_latch(self, version: u64) -> bool {
        // What was read before belongs to `version` if the exchange succeeds, as in `validate`.
        fence(Ordering::Acquire);
        let taken = self
            .header()
            .version
            .compare_exchange(version, version | 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        // Pairs with the fence in `validate`: who reads a store made under the latch sees the latch.
        fence(Ordering::Release);
        taken
    }

    /// Releases the latch after changes.
    pub(super) fn unlatch(self) {
        let version = self.header().version.load(Ordering::Relaxed);
        debug_assert!(version & 1 == 1);
        self.header().version.store(version + 1, Ordering::Release);
    }

    /// Releases the latch of an unchanged node.
    pub(super) fn unlatch_unchanged(self) {
        let version = self.header().version.load(Ordering::Relaxed);
        debug_assert!(version & 1 == 1);
        self.header().version.store(version - 1, Ordering::Release);
    }

    // --- reading ---

    /// The leaf to the right.
    pub(super) fn next(self) -> Option<NodeRef<'a>> {
        // SAFETY: links lead only to finished nodes; Acquire pairs with the Release of the link.
        NonNull::new(self.header().next.load(Ordering::Acquire))
            .map(|node| unsafe { NodeRef::from_raw(node) })
    }

    /// The record in `slot`, which must be below the capacity.
    pub(super) fn record(self, slot: usize) -> Result<RecordRef<'a>, Restart> {
        let record = NonNull::new(self.record_cell(slot).load(Ordering::Acquire)).ok_or(Restart)?;
        // SAFETY: cells hold only finished records; Acquire pairs with the Release that put it there.
        Ok(unsafe { RecordRef::from_raw(record) })
    }

    /// The child at `index`, which must not exceed the capacity.
    pub(super) fn child(self, index: usize) -> Result<NodeRef<'a>, Restart> {
        let child = NonNull::new(self.child_cell(index).load(Ordering::Acquire)).ok_or(Restart)?;
        // SAFETY: as in `record`.
        Ok(unsafe { NodeRef::from_raw(child) })
    }

    #[inline]
    fn head(self, slot: usize) -> u64 {
        self.head_cell(slot).load(Ordering::Relaxed)
    }

    fn prefix_len(self) -> usize {
        self.header().prefix_len.load(Ordering::Relaxed) as usize
    }

    /// A key with the common prefix.
    fn prefix_key(self) -> Result<&'a [u8], Restart> {
        let record = NonNull::new(self.header().prefix_of.load(Ordering::Acquire)).ok_or(Restart)?;
        // SAFETY: as in `record`.
        Ok(unsafe { RecordRef::from_raw(record) }.key())
    }

    /// Compares the key with all keys of the common prefix; equal if the key has the prefix too.
    #[inline]
    fn compare_prefix(self, key: &SearchKey<'_>, len: usize) -> Result<Order, Restart> {
        let mut left = len.min(INLINE_PREFIX);
        for (mine, theirs) in self.header().prefix_words.iter().zip(key.words) {
            if left == 0 {
                break;
            }
            let mask = if left >= 8 { u64::MAX } else { !(u64::MAX >> (8 * left)) };
            let order = (theirs & mask).cmp(&mine.load(Ordering::Relaxed));
            if order != Order::Equal {
                return Ok(order);
            }
            left = left.saturating_sub(8);
        }
        if len <= INLINE_PREFIX || key.bytes.len() < INLINE_PREFIX {
            // Equal up to the padding; a key that ends inside of the prefix is below it.
            return Ok(if key.bytes.len() < len { Order::Less } else { Order::Equal });
        }
        let prefix = self.prefix_key()?.get(INLINE_PREFIX..len).ok_or(Restart)?;
        Ok(key.bytes[INLINE_PREFIX..key.bytes.len().min(len)].cmp(prefix))
    }

    /// Number of heads below `head` among the first `count`.
    #[inline]
    fn heads_below(self, head: u64, count: usize) -> usize {
        let mut base = 0;
        let mut left = count;
        while left > 1 {
            let half = left / 2;
            base += usize::from(self.head(base + half - 1) < head) * half;
            left -= half;
        }
        base + usize::from(left == 1 && self.head(base) < head)
    }

    /// The key's rank, to be validated.
    #[inline]
    pub(super) fn rank(self, key: &SearchKey<'_>) -> Result<Rank, Restart> {
        let count = self.count();
        let prefix = self.prefix_len();
        match self.compare_prefix(key, prefix)? {
            Order::Less => return Ok(Rank { below: 0, exact: false }),
            Order::Greater => return Ok(Rank { below: count, exact: false }),
            Order::Equal => {}
        }
        let head = word_at(key.bytes, prefix);
        let mut low = self.heads_below(head, count);
        if low == count || self.head(low) != head {
            return Ok(Rank { below: low, exact: false });
        }
        // Records low.. have the same head, nearly always one; after `high` none has.
        let mut high = low + 1;
        if high < count && self.head(high) == head {
            high = head.checked_add(1).map_or(count, |above| self.heads_below(above, count)).max(high);
        }
        let rest = key.bytes.get(prefix..).ok_or(Restart)?;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.record(middle)?.key().get(prefix..).ok_or(Restart)?.cmp(rest) {
                Order::Less => low = middle + 1,
                Order::Equal => return Ok(Rank { below: middle, exact: true }),
                Order::Greater => high = middle,
            }
        }
        Ok(Rank { below: low, exact: false })
    }

    // --- changing: only by the latch holder, or before the node is published ---

    fn latched_record(self, slot: usize) -> RecordRef<'a> {
        self.record(slot).expect("slots below the count hold records, and the latch keeps them")
    }

    /// Sets the common prefix to the first `len` bytes of `record`'s key. The caller sets the heads.
    fn set_prefix(self, record: RecordRef<'a>, len: usize) {
        let header = self.header();
        let prefix = &record.key()[..len];
        for (i, word) in header.prefix_words.iter().enumerate() {
            word.store(word_at(prefix, 8 * i), Ordering::Relaxed);
        }
        header.prefix_of.store(record.as_raw().as_ptr(), Ordering::Release);
        header
            .prefix_len
            .store(u32::try_from(len).expect("keys are at most MAX_KEY_LEN long"), Ordering::Relaxed);
    }

    /// Recomputes prefix and heads from the records.
    fn refresh_prefix(self) {
        let count = self.count();
        if count == 0 {
            return;
        }
        let first = self.latched_record(0);
        let len = shared_len(first.key(), self.latched_record(count - 1).key());
        if len != self.prefix_len() {
            self.rewrite_heads(len);
        }
        self.set_prefix(first, len);
    }

    fn rewrite_heads(self, prefix: usize) {
        for slot in 0..self.count() {
            self.head_cell(slot).store(word_at(self.latched_record(slot).key(), prefix), Ordering::Relaxed);
        }
    }

    /// Puts `record` at `slot` and, in an inner node, `right` after it. The node must not be full.
    pub(super) fn insert(self, slot: usize, record: RecordRef<'a>, right: Option<NodeRef<'a>>) {
        let count = self.count();
        assert!(slot <= count && count < self.capacity());
        let key = record.key();
        let mut prefix = self.prefix_len();
        if count == 0 {
            prefix = key.len();
            self.set_prefix(record, prefix);
        } else {
            let of = self.latched_prefix_record();
            let shared = shared_len(key, &of.key()[..prefix]);
            if shared < prefix {
                prefix = shared;
                self.rewrite_heads(prefix);
                self.set_prefix(of, prefix);
            }
        }
        for to in (slot + 1..=count).rev() {
            self.copy_slot(self, to - 1, to);
        }
        self.head_cell(slot).store(word_at(key, prefix), Ordering::Relaxed);
        self.record_cell(slot).store(record.as_raw().as_ptr(), Ordering::Release);
        if let Some(right) = right {
            for to in (slot + 2..=count + 1).rev() {
                let child = self.child_cell(to - 1).load(Ordering::Relaxed);
                self.child_cell(to).store(child, Ordering::Release);
            }
            self.child_cell(slot + 1).store(right.as_raw().as_ptr(), Ordering::Release);
        }
        self.set_count(count + 1);
    }

    fn latched_prefix_record(self) -> RecordRef<'a> {
        let record = NonNull::new(self.header().prefix_of.load(Ordering::Relaxed));
        // SAFETY: as in `record`; the latch orders this thread after who put it there.
        unsafe { RecordRef::from_raw(record.expect("a node with records has a prefix")) }
    }

    fn set_count(self, count: usize) {
        self.header().count.store(count as u16, Ordering::Relaxed);
    }

    /// Copies head and record, with release order: a reader of the copy sees the record's contents.
    #[inline]
    fn copy_slot(self, target: NodeRef<'a>, from: usize, to: usize) {
        target.head_cell(to).store(self.head(from), Ordering::Relaxed);
        target.record_cell(to).store(self.record_cell(from).load(Ordering::Relaxed), Ordering::Release);
    }

    /// Makes `child` the first child of an empty inner node.
    pub(super) fn set_first_child(self, child: NodeRef<'a>) {
        self.child_cell(0).store(child.as_raw().as_ptr(), Ordering::Release);
    }

    /// A copy of this leaf with another capacity.
    pub(super) fn grown(self, arena: &'a Arena, capacity: usize) -> NodeRef<'a> {
        let copy = NodeRef::new(arena, self.level(), capacity);
        self.move_tail(copy, 0);
        copy.refresh_prefix();
        copy
    }

    /// Copies records `from..`, and the prefix of their heads, to the empty node `target`.
    fn move_tail(self, target: NodeRef<'a>, from: usize) {
        let count = self.count();
        for slot in from..count {
            self.copy_slot(target, slot, slot - from);
        }
        target.set_count(count - from);
        if count > from {
            target.set_prefix(self.latched_prefix_record(), self.prefix_len());
        }
    }

    /// Splits a full node: moves its upper records to a new node on the right. Returns the separating record
    /// (in a leaf also the right node's first) and the new node. `slot` is the place of the insert. For an
    /// insert at either end the split leaves this end nearly empty, because such inserts come in rows.
    pub(super) fn split(self, arena: &'a Arena, slot: usize) -> (RecordRef<'a>, NodeRef<'a>) {
        let count = self.count();
        let margin = (count / 10).max(1);
        let middle = match slot {
            0 => margin,
            _ if slot == count => count - margin,
            _ => count / 2,
        };
        let right = NodeRef::new(arena, self.level(), self.capacity());
        let separator;
        if self.level() == 0 {
            separator = self.latched_record(middle);
            self.move_tail(right, middle);
            let next = self.header().next.load(Ordering::Relaxed);
            right.header().next.store(next, Ordering::Release);
            self.set_count(middle);
            self.header().next.store(right.as_raw().as_ptr(), Ordering::Release);
        } else {
            // The separator moves up; both sides keep a record.
            let middle = middle.min(count - 2);
            separator = self.latched_record(middle);
            self.move_tail(right, middle + 1);
            for index in middle + 1..=count {
                let child = self.child_cell(index).load(Ordering::Relaxed);
                right.child_cell(index - middle - 1).store(child, Ordering::Release);
            }
            self.set_count(middle);
        }
        right.refresh_prefix();
        self.refresh_prefix();
        (separator, right)
    }
}
