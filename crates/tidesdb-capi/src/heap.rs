//! The heap of the engine: mimalloc, and the kernel itself for what is large.
//!
//! mimalloc keeps freed pages for the next allocation of their size. A value of hundreds of megabytes, which
//! is copied a few times on its way to disk, then left a gigabyte that nobody used. Pieces from [`MAPPED`] bytes on
//! are mappings of their own: freed they are gone, and growing moves their pages and copies nothing.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// Bytes from which an allocation is a mapping of its own. Buffers that are made and freed all the time, such as a
/// transaction's, are smaller.
const MAPPED: usize = 16 << 20;

/// The least page of any processor that the kernel runs on: no mapping is aligned to less.
const PAGE: usize = 4096;

/// Bytes of the mappings.
static MAPPED_BYTES: AtomicUsize = AtomicUsize::new(0);

extern "C" {
    /// mimalloc's; a null pointer: not asked for.
    fn mi_process_info(
        elapsed_ms: *mut usize,
        user_ms: *mut usize,
        system_ms: *mut usize,
        resident: *mut usize,
        peak_resident: *mut usize,
        committed: *mut usize,
        peak_committed: *mut usize,
        page_faults: *mut usize,
    );
}

/// The allocator.
pub struct Heap;

/// Bytes that the heap has from the kernel: pieces in use, and free pages that mimalloc keeps.
pub(crate) fn heap_bytes() -> u64 {
    let (mut committed, none) = (0, ptr::null_mut());
    // SAFETY: a place for the answer, which any thread may ask for.
    unsafe { mi_process_info(none, none, none, none, none, &mut committed, none, none) };
    (committed + MAPPED_BYTES.load(Relaxed)) as u64
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
        MAPPED_BYTES.fetch_add(size, Relaxed);
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
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout.size(), layout.align()) {
            return map(layout.size());
        }
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if is_mapped(layout.size(), layout.align()) {
            // SAFETY: `map` or `mremap` made it with this size, and the caller no longer uses it.
            unsafe { libc::munmap(at.cast(), layout.size()) };
            MAPPED_BYTES.fetch_sub(layout.size(), Relaxed);
            return;
        }
        // SAFETY: the caller's promise, and mimalloc made it.
        unsafe { MiMalloc.dealloc(at, layout) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match (is_mapped(layout.size(), layout.align()), is_mapped(size, layout.align())) {
            // SAFETY: the caller's promise, and mimalloc made it.
            (false, false) => unsafe { MiMalloc.realloc(at, layout, size) },
            (true, true) => {
                // SAFETY: the whole of a mapping that `map` or `mremap` made; on failure it stays as it is.
                let moved = unsafe { libc::mremap(at.cast(), layout.size(), size, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED {
                    ptr::null_mut()
                } else {
                    MAPPED_BYTES.fetch_add(size.wrapping_sub(layout.size()), Relaxed);
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

    /// What the heap says that it has is what the process grows and shrinks by.
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
        let (grew, told) = both_grew();
        assert!(told + (8 << 20) > grew && told.abs_diff(grew) < 24 << 20, "{told} told, {grew} resident");
        drop((threads, large));
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
