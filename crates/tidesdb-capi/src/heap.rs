//! The heap of the engine, by the size of a piece: mimalloc, one heap for all threads, the kernel itself.
//!
//! mimalloc keeps a thread's freed pages for its next allocation of their size: fast, but nobody gives the
//! memory back while the thread sleeps. So only small pieces are there. From [`SHARED`] bytes on pieces are
//! in [`shared`]: one thread's freed piece is the next one's. A value of hundreds of megabytes, copied a few
//! times on its way to disk, left an unused gigabyte. Pieces from [`MAPPED`] bytes on are mappings of their
//! own: freed they are gone, and growing moves their pages and copies nothing.

mod shared;

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_long;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// Bytes from which an allocation is a mapping of its own. Short-lived buffers, such as a transaction's, are
/// smaller.
const MAPPED: usize = 16 << 20;

/// Bytes from which a piece is in the threads' shared heap: about where mimalloc begins to take half a
/// megabyte of addresses for each size and thread.
const SHARED: usize = 10 << 10;
const _: () = assert!(MAPPED <= shared::MOST);

/// The least page of any processor of the kernel: no mapping is aligned to less.
const PAGE: usize = 4096;

/// Counters of bytes in use, by thread as far as their stacks tell: one for all would be a cache line written
/// by all cores.
const COUNTERS: usize = 64;
static IN_USE: [Counter; COUNTERS] = [const { Counter(AtomicUsize::new(0)) }; COUNTERS];

/// Milliseconds of mimalloc's hold on freed pages. The default is a second: short-lived values of 16 KB then
/// leave 30 MB not counted by anybody. Pages given back at once cost a fault each when the next value comes.
const KEPT_MS: c_long = 100;
/// mimalloc's option of that time: `mi_option_purge_delay` in its header, without a name in the crate.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// A counter on a cache line of its own; a thread may free another's piece, so only the sum counts.
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

/// Gives memory back to the kernel if it was freed a while ago and not taken again. One thread calls it ten
/// times a second.
pub(crate) fn purge() {
    shared::purge();
    // SAFETY: any thread may call it. Of mimalloc's pages those that no thread has any more go, whoever freed them.
    unsafe { libmimalloc_sys::mi_collect(false) };
}

/// mimalloc's reserve for a thread asleep after a few statements, in bytes: 45 to 55 KB were seen.
const KEPT_BY_THREAD: usize = 48 << 10;

/// A transaction of the C interface: a connection of a server has one, and a thread of its own.
#[derive(Debug)]
pub(crate) struct Connection(());

static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

impl Connection {
    pub(crate) fn new() -> Connection {
        CONNECTIONS.fetch_add(1, Relaxed);
        Connection(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        CONNECTIONS.fetch_sub(1, Relaxed);
    }
}

/// Bytes of all pieces in use, of [`shared`]'s freed pieces still in memory, and an estimate of mimalloc's
/// reserve for threads. None of its own figures falls when it gives pages back.
pub(crate) fn heap_bytes() -> u64 {
    let sum = IN_USE.iter().fold(0usize, |sum, counter| sum.wrapping_add(counter.0.load(Relaxed)));
    let kept = shared::kept_bytes() + CONNECTIONS.load(Relaxed) * KEPT_BY_THREAD;
    // Added up while pieces come and go, it may pass below zero.
    (sum as isize).max(0) as u64 + kept as u64
}

/// The size of a small piece. mimalloc has pages of each size for each thread, and a connection's touched
/// pages stay with it while it sleeps, some 6 KB of each: an insertion takes pieces of seventeen of its
/// sizes, and of seven of these.
#[inline]
const fn room(size: usize) -> usize {
    match size {
        0..=32 => 32,
        33..=256 => size.next_power_of_two(),
        _ => size,
    }
}

/// The layout with its [`room`].
#[inline]
fn roomy(layout: Layout) -> Layout {
    // SAFETY: the alignment is one, and the rounded size is no more than 256 unless it is the caller's.
    unsafe { Layout::from_size_align_unchecked(room(layout.size()), layout.align()) }
}

/// The allocator for pieces of a size and alignment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Maker {
    MiMalloc,
    Shared,
    Kernel,
}

impl Maker {
    #[inline]
    fn of(layout: Layout) -> Maker {
        if layout.size() < SHARED {
            Maker::MiMalloc
        } else if layout.size() < MAPPED {
            if layout.align() <= shared::ALIGN {
                Maker::Shared
            } else {
                Maker::MiMalloc
            }
        } else if layout.align() <= PAGE {
            Maker::Kernel
        } else {
            Maker::MiMalloc
        }
    }
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

/// A piece of the shared heap.
fn share(size: usize) -> shared::Piece {
    let piece = shared::take(size);
    if !piece.at.is_null() {
        count(size);
    }
    piece
}

// SAFETY: size and alignment, which the caller gives back unchanged, alone decide whose a piece is, so each goes back to
// its maker. A mapping is aligned to pages and, new, full of zeros.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Maker::of(layout) {
            Maker::MiMalloc => {
                count(room(layout.size()));
                // SAFETY: the caller's promise.
                unsafe { MiMalloc.alloc(roomy(layout)) }
            }
            Maker::Shared => share(layout.size()).at,
            Maker::Kernel => map(layout.size()),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match Maker::of(layout) {
            Maker::MiMalloc => {
                count(room(layout.size()));
                // SAFETY: the caller's promise.
                unsafe { MiMalloc.alloc_zeroed(roomy(layout)) }
            }
            Maker::Shared => {
                let piece = share(layout.size());
                if !piece.at.is_null() && !piece.is_zero {
                    // SAFETY: the piece has so many bytes.
                    unsafe { piece.at.write_bytes(0, layout.size()) };
                }
                piece.at
            }
            Maker::Kernel => map(layout.size()),
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        match Maker::of(layout) {
            // SAFETY: the caller's promise, and mimalloc made it.
            Maker::MiMalloc => unsafe { MiMalloc.dealloc(at, roomy(layout)) },
            // SAFETY: `share` or `resize` made it with this size, and the caller no longer uses it.
            Maker::Shared => unsafe { shared::give_back(at, layout.size()) },
            // SAFETY: `map` or `mremap` made it with this size, and the caller no longer uses it.
            Maker::Kernel => unsafe {
                libc::munmap(at.cast(), layout.size());
            },
        }
        count(room(layout.size()).wrapping_neg());
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise: with this alignment, `size` is no overflow and not zero.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let moved = match (Maker::of(layout), Maker::of(wanted)) {
            (Maker::MiMalloc, Maker::MiMalloc) => {
                // SAFETY: the caller's promise, and mimalloc made it.
                unsafe { MiMalloc.realloc(at, roomy(layout), room(size)) }
            }
            (Maker::Kernel, Maker::Kernel) => {
                // SAFETY: the whole of a mapping that `map` or `mremap` made; on failure it stays as it is.
                let moved = unsafe { libc::mremap(at.cast(), layout.size(), size, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED {
                    return ptr::null_mut();
                }
                moved.cast()
            }
            // SAFETY: `share` or `resize` made it with this size.
            (Maker::Shared, Maker::Shared) if unsafe { shared::resize(at, layout.size(), size) } => at,
            _ => {
                // SAFETY: the caller's promise.
                let to = unsafe { self.alloc(wanted) };
                if !to.is_null() {
                    // SAFETY: two pieces, each as long as the smaller size at least; the old one is given back once.
                    unsafe {
                        ptr::copy_nonoverlapping(at, to, layout.size().min(size));
                        self.dealloc(at, layout);
                    }
                }
                return to;
            }
        };
        if !moved.is_null() {
            count(room(size).wrapping_sub(room(layout.size())));
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    fn content(bytes: &[u8]) -> bool {
        bytes.iter().enumerate().all(|(at, &byte)| byte == (at / 1000) as u8)
    }

    /// The process grows by the heap's bytes in use; freed bytes are not in use at once.
    fn pieces_of_threads_are_counted(resident: &dyn Fn() -> usize) {
        purge();
        purge();
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
        purge();
        purge();
        let (grew, told) = both_grew();
        assert!(grew > 60 << 20, "{grew}");
        assert!(told.abs_diff(grew) < grew / 10, "{told} told, {grew} resident");
        threads.truncate(1);
        let large = vec![1u8; 2 * MAPPED];
        let left = told / 4 + large.len();
        purge();
        purge();
        let (_, told) = both_grew();
        assert!(told.abs_diff(left) < left / 20, "{told} told, {left} in use");
        drop((threads, large));
        purge();
        purge();
        assert!(both_grew().1 < 1 << 20);
    }

    /// Memory freed by threads before they sleep is counted until it is the kernel's, after two calls of
    /// `purge`.
    fn freed_pieces_are_counted_and_then_given_back(resident: &dyn Fn() -> usize) {
        const SLEEPERS: usize = 64;
        purge();
        purge();
        let (before, counted) = (resident(), heap_bytes());
        let (freed, awake) = (Barrier::new(SLEEPERS + 1), Barrier::new(SLEEPERS + 1));
        std::thread::scope(|scope| {
            for thread in 0..SLEEPERS {
                let (freed, awake) = (&freed, &awake);
                scope.spawn(move || {
                    // As a buffer grows, whose last form another thread frees.
                    let mut bytes = Vec::new();
                    (0..900_000 + thread).for_each(|_| bytes.push(1u8));
                    std::thread::spawn(move || drop(bytes)).join().expect("no panic");
                    freed.wait();
                    awake.wait();
                });
            }
            freed.wait();
            let grew = || resident().saturating_sub(before);
            let kept = heap_bytes() - counted;
            assert!(grew() < kept as usize + (8 << 20), "{} resident, {kept} told", grew());
            purge();
            purge();
            let left = grew();
            awake.wait();
            // Without this 900,000 bytes each. mimalloc keeps pages of small pieces with a sleeping thread.
            assert!(left < SLEEPERS * (96 << 10), "{left} resident while {SLEEPERS} threads sleep");
        });
    }

    /// Pages kept by the kernel are not taken for zeros.
    fn locked_pages_are_cleared() {
        let layout = Layout::from_size_align(SHARED, 8).expect("a layout");
        // SAFETY: a piece of that size, written, locked and given back.
        let at = unsafe {
            let at = Heap.alloc(layout);
            at.write_bytes(1, SHARED);
            assert_eq!(libc::mlock(at.cast(), SHARED), 0, "mlock of {SHARED} bytes: ulimit -l");
            Heap.dealloc(at, layout);
            at
        };
        purge();
        purge();
        let zeroed: Vec<Vec<u8>> = (0..64).map(|_| vec![0; SHARED]).collect();
        assert!(zeroed.iter().flatten().all(|&byte| byte == 0));
        // SAFETY: the memory is still mapped.
        unsafe { libc::munlock(at.cast(), SHARED) };
    }

    /// Random pieces of several threads, freed by others: each has its content to the end.
    fn pieces_of_all_sizes_keep_their_content() {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
        let exchange = Mutex::new(Vec::<(u8, Vec<u8>)>::new());
        std::thread::scope(|scope| {
            for thread in 0..threads as u64 {
                let exchange = &exchange;
                scope.spawn(move || {
                    let mut state = thread + 1;
                    let mut next = |below: usize| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (state >> 33) as usize % below
                    };
                    for step in 0..3000 {
                        let fill = next(256) as u8;
                        let len = 1 << (10 + next(12));
                        let len = len + next(len);
                        let mut piece = if next(4) == 0 { vec![0; len] } else { Vec::with_capacity(len) };
                        assert!(piece.iter().all(|&byte| byte == 0), "zeros are zeros");
                        piece.fill(fill);
                        piece.resize(len / 2, fill);
                        piece.shrink_to_fit();
                        piece.resize(len / 2 + next(3 * len), fill);
                        let mut others = exchange.lock().expect("no panic");
                        others.push((fill, piece));
                        let taken = (others.len() > 40).then(|| {
                            let at = next(others.len());
                            others.swap_remove(at)
                        });
                        drop(others);
                        if let Some((fill, piece)) = taken {
                            assert!(piece.iter().all(|&byte| byte == fill), "thread {thread}, step {step}");
                        }
                        if step % 500 == 0 {
                            purge();
                        }
                    }
                });
            }
        });
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
    fn content_stays_over_the_border_of_the_makers_and_freed_pieces_go() {
        let sizes = [
            1000,
            MAPPED - 1,
            MAPPED,
            3 * MAPPED,
            SHARED,
            3 * SHARED,
            SHARED + 1,
            MAPPED + 1,
            SHARED - 1,
            MAPPED - 1,
            10,
            2 * MAPPED,
        ];
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
            // (statm lags by some pages of each thread.)
            let told = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux tells");
            let line = told.lines().find(|line| line.starts_with("Rss:")).expect("a line");
            line.split_whitespace().nth(1).and_then(|kb| kb.parse::<usize>().ok()).expect("a number") << 10
        };
        pieces_of_all_sizes_keep_their_content();
        locked_pages_are_cleared();
        pieces_of_threads_are_counted(&resident);
        freed_pieces_are_counted_and_then_given_back(&resident);

        let before = resident();
        for _ in 0..4 {
            let piece = vec![1u8; 128 << 20];
            assert!(resident() >= before + (100 << 20));
            drop(std::hint::black_box(piece));
            assert!(resident() < before + (64 << 20), "too much stays");
        }
    }
}
