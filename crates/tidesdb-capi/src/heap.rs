//! The heap of the engine: mimalloc, and the kernel itself for what is large.
//!
//! mimalloc keeps freed pages for the next allocation of their size. A value of hundreds of megabytes, which
//! is copied a few times on its way to disk, then left a gigabyte that nobody used. Pieces from [`MAPPED`] bytes on
//! are mappings of their own: freed they are gone, and growing moves their pages and copies nothing.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_long;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// Bytes from which an allocation is a mapping of its own. Buffers that are made and freed all the time, such as a
/// transaction's, are smaller.
const MAPPED: usize = 16 << 20;

/// The least page of any processor that the kernel runs on: no mapping is aligned to less.
const PAGE: usize = 4096;

/// Counters of bytes in use, by thread as far as their stacks tell: one for all would be a line that all cores write.
const COUNTERS: usize = 64;
static IN_USE: [Counter; COUNTERS] = [const { Counter(AtomicUsize::new(0)) }; COUNTERS];

/// Milliseconds that mimalloc keeps freed pages: by default a second, in which values of 16 KB that come and go leave
/// 30 MB that nobody counts. Pages given back at once cost a fault each when the next value comes.
const KEPT_MS: c_long = 100;
/// mimalloc's option of that time: `mi_option_purge_delay` in its header, which the crate does not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// A counter on a cache line of its own; a thread may free what another took, so that only the sum counts.
#[repr(align(128))]
struct Counter(AtomicUsize);

/// Adds to the bytes in use, modulo the word.
#[inline]
fn count(bytes: usize) {
    let on_stack = 0u8;
    let thread = (ptr::from_ref(&on_stack).addr() >> 16).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    IN_USE[thread % COUNTERS].0.fetch_add(bytes, Relaxed);
}

/// The allocator.
pub struct Heap;

/// Has mimalloc give freed pages back to the kernel soon.
pub(crate) fn give_back_soon() {
    // SAFETY: the option is a word that mimalloc reads at each use.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, KEPT_MS) };
}

/// Bytes of all pieces in use. What mimalloc keeps for the next ones is not among them: it tells no figure that falls when
/// it gives pages back.
pub(crate) fn heap_bytes() -> u64 {
    let sum = IN_USE.iter().fold(0usize, |sum, counter| sum.wrapping_add(counter.0.load(Relaxed)));
    // Added up while pieces come and go, it may pass below zero.
    (sum as isize).max(0) as u64
}

fn is_mapped(size: usize, align: usize) -> bool {
    size >= MAPPED && align <= PAGE
}

fn map(size: usize) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let at = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        ptr::null_mut()
    } else {
        count(size);
        at.cast()
    }
}

// SAFETY: size and alignment, which the caller gives back unchanged, alone decide whose a piece is, so each goes back to
// its maker. A mapping is aligned to pages and, new, full of zeros.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout.size(), layout.align()) {
            return map(layout.size());
        }
        count(layout.size());
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout.size(), layout.align()) {
            return map(layout.size());
        }
        count(layout.size());
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if is_mapped(layout.size(), layout.align()) {
            // SAFETY: `map` or `mremap` made it with this size, and the caller no longer uses it.
            unsafe { libc::munmap(at.cast(), layout.size()) };
            count(layout.size().wrapping_neg());
            return;
        }
        count(layout.size().wrapping_neg());
        // SAFETY: the caller's promise, and mimalloc made it.
        unsafe { MiMalloc.dealloc(at, layout) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match (is_mapped(layout.size(), layout.align()), is_mapped(size, layout.align())) {
            (false, false) => {
                // SAFETY: the caller's promise, and mimalloc made it.
                let moved = unsafe { MiMalloc.realloc(at, layout, size) };
                if !moved.is_null() {
                    count(size.wrapping_sub(layout.size()));
                }
                moved
            }
            (true, true) => {
                // SAFETY: the whole of a mapping that `map` or `mremap` made; on failure it stays as it is.
                let moved = unsafe { libc::mremap(at.cast(), layout.size(), size, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED {
                    ptr::null_mut()
                } else {
                    count(size.wrapping_sub(layout.size()));
                    moved.cast()
                }
            }
            _ => {
                // SAFETY: the caller's promise: with this alignment, `size` is no overflow and not zero.
                let to = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
                if !to.is_null() {
                    // SAFETY: two pieces, each as long as the smaller size at least; the old one is given back once.
                    unsafe {
                        ptr::copy_nonoverlapping(at, to, layout.size().min(size));
                        self.dealloc(at, layout);
                    }
                }
                to
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> bool {
        bytes.iter().enumerate().all(|(at, &byte)| byte == (at / 1000) as u8)
    }

    /// What the heap says that is in use is what the process grows by; what was freed is not in use at once.
    fn pieces_of_threads_are_counted(resident: &dyn Fn() -> usize) {
        let (before, counted) = (resident(), heap_bytes() as usize);
        let both_grew =
            || (resident().saturating_sub(before), (heap_bytes() as usize).saturating_sub(counted));
        let pieces = |thread: usize| -> Vec<Vec<u8>> {
            (0..16_000).map(|piece| vec![1; 500 + 97 * ((piece + thread) % 13)]).collect()
        };
        let mut threads: Vec<Vec<Vec<u8>>> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..4).map(|thread| scope.spawn(move || pieces(thread))).collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let (grew, told) = both_grew();
        assert!(grew > 60 << 20, "{grew}");
        assert!(told.abs_diff(grew) < grew / 10, "{told} told, {grew} resident");
        threads.truncate(1);
        let large = vec![1u8; 2 * MAPPED];
        let left = told / 4 + large.len();
        let (_, told) = both_grew();
        assert!(told.abs_diff(left) < left / 20, "{told} told, {left} in use");
        drop((threads, large));
        assert!(both_grew().1 < 1 << 20);
    }

    /// The number of the option is mimalloc's own: another version may have another.
    #[test]
    fn the_option_is_the_one_that_holds_a_second_by_default() {
        let (before, option) = (std::env::var_os("MIMALLOC_PURGE_DELAY"), PURGE_DELAY);
        assert!(before.is_none(), "unset MIMALLOC_PURGE_DELAY for this test");
        // SAFETY: it reads a word.
        let kept = || unsafe { libmimalloc_sys::mi_option_get(option) };
        assert_eq!(kept(), 1000);
        give_back_soon();
        assert_eq!(kept(), KEPT_MS);
    }

    /// The test program has this heap as its own; one test, since it looks at the size of the process.
    #[test]
    fn content_stays_over_the_border_of_the_two_and_large_pieces_are_gone_once_freed() {
        let sizes = [1000, MAPPED - 1, MAPPED, 3 * MAPPED, MAPPED + 1, MAPPED - 1, 10, 2 * MAPPED];
        let mut bytes: Vec<u8> = Vec::new();
        for size in sizes {
            bytes.truncate(size);
            bytes.shrink_to(size);
            bytes.reserve_exact(size - bytes.len());
            bytes.extend((bytes.len()..size).map(|at| (at / 1000) as u8));
            assert_eq!(bytes.len(), size);
            assert!(content(&bytes), "{size}");
        }
        assert!(vec![0u8; 2 * MAPPED].iter().all(|&byte| byte == 0));
        drop(bytes);

        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
            statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * PAGE
        };
        pieces_of_threads_are_counted(&resident);

        let before = resident();
        for _ in 0..4 {
            let piece = vec![1u8; 128 << 20];
            assert!(resident() >= before + (100 << 20));
            drop(std::hint::black_box(piece));
            assert!(resident() < before + (64 << 20), "too much stays");
        }
    }
}
