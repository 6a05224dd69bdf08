//! A frame: one heap buffer with its reference count in front, so that a hit touches one line before the
//! block. One owner writes it as a [`FrameBuf`] and freezes it into a [`BlockRef`]; it never changes again.
//!
//! Frames are slots of [slabs](super::slab), the largest ones plain heap buffers. Their alignment is 64
//! bytes, so filter lines never straddle two cache lines.

use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicU8, AtomicUsize, Ordering};
use std::sync::Arc;

use super::slab::{self, Slab, Slabs};

#[repr(C, align(64))]
struct Header {
    /// Number of `BlockRef`s.
    refs: AtomicUsize,
    /// Length of the bytes after the header.
    len: usize,
    /// Uses since the last pass of CLOCK's hand, counted up to `enough`; those of a stored copy up to 255.
    used: AtomicU8,
    /// Uses in a round of the hand that keep the frame in the cache.
    enough: AtomicU8,
    /// The frame's slab; none for the largest frames.
    slab: Option<NonNull<Slab>>,
}

/// Lines of the header and of some forty heads and offsets.
#[cfg(target_arch = "x86_64")]
const PREFETCH_LINES: usize = 8;

/// Bytes of a frame in addition to its payload.
pub const FRAME_HEADER: usize = std::mem::size_of::<Header>();

fn layout(len: usize) -> Layout {
    let size = len.checked_add(FRAME_HEADER);
    let layout = size.and_then(|size| Layout::from_size_align(size, std::mem::align_of::<Header>()).ok());
    layout.expect("a frame is as long as a block that is in memory or was bounded by its table's length")
}

/// Makes a frame of `len` zeroed bytes with one reference.
fn allocate(slabs: &Arc<Slabs>, len: usize) -> NonNull<Header> {
    let layout = layout(len);
    let (raw, slab) = if layout.size() <= slab::LARGEST {
        let (raw, slab) = slabs.allocate(layout.size());
        (raw.cast::<Header>(), Some(slab))
    } else {
        // SAFETY: the layout's size is at least that of the header, hence not zero.
        let raw = unsafe { alloc(layout) }.cast::<Header>();
        let Some(raw) = NonNull::new(raw) else { handle_alloc_error(layout) };
        (raw, None)
    };
    // SAFETY: `raw` points to `FRAME_HEADER + len` writable bytes, aligned for a header.
    unsafe {
        raw.write(Header {
            refs: AtomicUsize::new(1),
            len,
            used: AtomicU8::new(0),
            enough: AtomicU8::new(1),
            slab,
        });
        raw.add(1).cast::<u8>().write_bytes(0, len);
    }
    raw
}

/// A frame being filled: one owner, writable.
pub struct FrameBuf(BlockRef);

impl FrameBuf {
    /// A zeroed frame of `len` bytes.
    pub(super) fn new(slabs: &Arc<Slabs>, len: usize) -> FrameBuf {
        FrameBuf(BlockRef(allocate(slabs, len)))
    }

    /// A frame with a copy of `bytes`.
    pub(super) fn copy_of(slabs: &Arc<Slabs>, bytes: &[u8]) -> FrameBuf {
        let mut frame = FrameBuf::new(slabs, bytes.len());
        frame.copy_from_slice(bytes);
        frame
    }

    /// Ends the filling.
    pub fn freeze(self) -> BlockRef {
        self.0
    }
}

impl Deref for FrameBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for FrameBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let header = self.0 .0;
        // SAFETY: `len` bytes after the header belong to the frame and are initialised; the frame's only
        // reference is inside of `self`, which is borrowed mutably, so nobody else reads them.
        unsafe { std::slice::from_raw_parts_mut(header.as_ptr().add(1).cast(), header.as_ref().len) }
    }
}

/// A block in memory. Cloning counts a reference and copies nothing. The bytes stay valid and unchanged while
/// a clone lives, even after the block has left the cache.
///
/// Invariant: the pointer is to a live frame made by `allocate`, and this value owns one of the frame's
/// references.
pub struct BlockRef(NonNull<Header>);

// SAFETY: a frame is immutable once it is shared; its counts are atomics.
unsafe impl Send for BlockRef {}
// SAFETY: as above.
unsafe impl Sync for BlockRef {}

impl BlockRef {
    fn header(&self) -> &Header {
        // SAFETY: the type's invariant.
        unsafe { self.0.as_ref() }
    }

    /// Bytes of memory for the frame, header and unused end of its slot included.
    pub fn footprint(&self) -> usize {
        slab::slot_size(self.header().len + FRAME_HEADER)
    }

    /// A copy in another slab; `None` if this frame's slab is not to leave. The caller must be the frame's only owner.
    pub(super) fn moved(&self) -> Option<BlockRef> {
        let slab = self.header().slab?;
        let len = self.header().len;
        // SAFETY: this frame is a slot of the slab, of that size.
        let (to, slab) = unsafe { slab::allocate_elsewhere(layout(len).size(), slab) }?;
        let to = to.cast::<Header>();
        let used = AtomicU8::new(self.header().used.load(Ordering::Relaxed));
        let enough = AtomicU8::new(self.header().enough.load(Ordering::Relaxed));
        // SAFETY: `to` points to `FRAME_HEADER + len` writable bytes of nobody else, aligned for a header, and the
        // payload is `len` bytes after this frame's header.
        unsafe {
            to.write(Header { refs: AtomicUsize::new(1), len, used, enough, slab: Some(slab) });
            to.add(1).cast::<u8>().copy_from_nonoverlapping(self.0.add(1).cast::<u8>(), len);
        }
        Some(BlockRef(to))
    }

    /// Prefetches the header and the first lines of the payload for a search. The cache misses then overlap
    /// instead of following each other.
    #[inline]
    pub(super) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in 0..PREFETCH_LINES {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            let at = self.0.as_ptr().wrapping_add(line).cast();
            // SAFETY: a prefetch of any address has no effect but on caches.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
        }
    }

    /// True if `self` is the only reference. It stays the only one if no other thread can make a reference
    /// meanwhile.
    pub(super) fn is_unshared(&self) -> bool {
        self.header().refs.load(Ordering::Acquire) == 1
    }

    /// The hand keeps the frame after `uses` in a round, in place of one.
    pub(super) fn keep_after(&self, uses: u8) {
        self.header().enough.store(uses, Ordering::Relaxed);
    }

    /// Marks the frame as used so often that the hand keeps it.
    pub(super) fn mark_used(&self) {
        self.header().used.store(self.header().enough.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Marks a frame as used that was not.
    pub(super) fn mark_used_once(&self) {
        if !self.is_used() {
            self.header().used.store(1, Ordering::Relaxed);
        }
    }

    /// Counts a use, as far as the hand asks. Uses at once may count as one.
    #[inline]
    pub(super) fn note_use(&self) {
        let Header { used, enough, .. } = self.header();
        let uses = used.load(Ordering::Relaxed);
        if uses < enough.load(Ordering::Relaxed) {
            used.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Counts a use, up to 255, and returns their number since the hand's last pass. Uses at once may count as one.
    pub(super) fn count_use(&self) -> u8 {
        let used = &self.header().used;
        let uses = used.load(Ordering::Relaxed).saturating_add(1);
        used.store(uses, Ordering::Relaxed);
        uses
    }

    /// Counts a copy's uses anew: it has one.
    pub(super) fn restart_uses(&self) {
        self.header().used.store(1, Ordering::Relaxed);
    }

    /// True if the frame has to be used more than once in a round to stay.
    pub(super) fn has_to_be_hot(&self) -> bool {
        self.header().enough.load(Ordering::Relaxed) > 1
    }

    /// True if it was used in this round.
    pub(super) fn is_used(&self) -> bool {
        self.header().used.load(Ordering::Relaxed) != 0
    }

    /// Counts uses anew. True if the former ones keep the frame.
    pub(super) fn take_used(&self) -> bool {
        let Header { used, enough, .. } = self.header();
        let uses = used.load(Ordering::Relaxed);
        if uses != 0 {
            used.store(0, Ordering::Relaxed);
        }
        uses >= enough.load(Ordering::Relaxed)
    }
}

impl Clone for BlockRef {
    #[inline]
    fn clone(&self) -> BlockRef {
        // As `Arc`: a new reference is made from one that is held, so nothing needs ordering. An overflow
        // would take 2^63 leaked clones.
        self.header().refs.fetch_add(1, Ordering::Relaxed);
        BlockRef(self.0)
    }
}

impl Drop for BlockRef {
    #[inline]
    fn drop(&mut self) {
        if self.header().refs.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        let (len, slab) = (self.header().len, self.header().slab);
        // SAFETY: this was the last reference (the fence orders every other use before), and `allocate`
        // made the frame in this slab, or with this layout. The header needs no drop.
        unsafe {
            match slab {
                Some(slab) => slab::free(self.0.cast(), slab),
                None => dealloc(self.0.as_ptr().cast(), layout(len)),
            }
        }
    }
}

impl Deref for BlockRef {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes follow the header; they are not written while shared.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(1).cast(), self.header().len) }
    }
}

impl fmt::Debug for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockRef({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_keeps_its_bytes_until_the_last_clone_is_gone() {
        for len in [0, 1, 63, 64, 4096, 1 << 20] {
            let mut frame = FrameBuf::new(&Slabs::new(), len);
            assert!(frame.iter().all(|&byte| byte == 0));
            frame.fill(9);
            let block = frame.freeze();
            assert_eq!(block.as_ptr() as usize % 64, 0);
            let clone = block.clone();
            assert!(!clone.is_unshared());
            drop(block);
            assert!(clone.is_unshared());
            let held = std::thread::spawn(move || clone).join().unwrap();
            assert_eq!((held.len(), held.iter().all(|&byte| byte == 9)), (len, true));
        }
    }
}
