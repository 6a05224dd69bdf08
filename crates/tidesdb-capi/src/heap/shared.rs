//! Pieces of ten kilobytes to megabytes, in one heap for all threads.
//!
//! mimalloc gives each thread pages of its own. A freed piece stays with its first thread until this thread
//! allocates again, also when another one freed it: a sleeping connection kept a megabyte or two. Here a
//! freed piece is the next one of any thread.
//!
//! Memory is reserved in regions and handed out in runs of slices, first fit. [`purge`] gives back pieces not
//! taken again between two of its calls; until then [`kept_bytes`] counts it. One mutex guards all: such
//! pieces are made a few times a statement at most.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Pieces are rounded up to this.
const SLICE: usize = 4 << 10;
/// Address space reserved at once, at a multiple of itself.
const REGION: usize = 256 << 20;
/// Slices made writable at once: a kernel without overcommitment counts writable memory as used.
const STEP: usize = (4 << 20) / SLICE;
const SLICES: usize = REGION / SLICE;
const WORDS: usize = SLICES / 64;
/// Slices of the head.
const HEAD: usize = size_of::<Region>().div_ceil(SLICE);
/// A terabyte of regions.
const REGIONS: usize = 4096;

/// The largest piece.
pub(super) const MOST: usize = REGION / 8;
/// The largest alignment.
pub(super) const ALIGN: usize = SLICE;

/// A bit for each slice of a region.
#[derive(Clone, Copy)]
struct Slices([u64; WORDS]);

impl Slices {
    /// The words of `len` slices from `at` on, each with the mask of those slices.
    fn words(at: usize, len: usize) -> impl Iterator<Item = (usize, u64)> {
        let end = at + len;
        (at / 64..end.div_ceil(64)).map(move |word| {
            let from = at.saturating_sub(word * 64);
            let to = (end - word * 64).min(64);
            (word, (u64::MAX << from) & (u64::MAX >> (64 - to)))
        })
    }

    fn set(&mut self, at: usize, len: usize) {
        Self::words(at, len).for_each(|(word, mask)| self.0[word] |= mask);
    }

    /// Clears them; returns how many were set.
    fn clear(&mut self, at: usize, len: usize) -> usize {
        let clear = |(word, mask): (usize, u64)| {
            let set = self.0[word] & mask;
            self.0[word] ^= set;
            set.count_ones() as usize
        };
        Self::words(at, len).map(clear).sum()
    }

    fn all_set(&self, at: usize, len: usize) -> bool {
        Self::words(at, len).all(|(word, mask)| self.0[word] & mask == mask)
    }

    /// The first slice set, or clear, from `at` on; the number of slices if none is.
    fn next(&self, at: usize, set: bool) -> usize {
        let wanted = |word: usize| if set { self.0[word] } else { !self.0[word] };
        let mut word = at / 64;
        if word >= WORDS {
            return SLICES;
        }
        let mut bits = wanted(word) & (u64::MAX << (at % 64));
        while bits == 0 {
            word += 1;
            if word == WORDS {
                return SLICES;
            }
            bits = wanted(word);
        }
        word * 64 + bits.trailing_zeros() as usize
    }

    /// The first run of `len` set slices; else the length of the longest.
    fn run(&self, len: usize) -> Result<usize, usize> {
        let (mut at, mut longest) = (self.next(0, true), 0);
        while at < SLICES {
            let end = self.next(at, false);
            if end - at >= len {
                return Ok(at);
            }
            longest = longest.max(end - at);
            at = self.next(end, true);
        }
        Err(longest)
    }
}

/// The head of a region, in its first slices.
///
/// A `fresh` or `old` slice is free and has bytes of an earlier piece; a slice in `free` alone has zeros and
/// takes no memory.
struct Region {
    free: Slices,
    /// Given back after the last call of `purge`.
    fresh: Slices,
    /// Given back before it.
    old: Slices,
    /// No run of free slices is longer.
    longest: usize,
    /// The slices before this one are writable.
    writable: usize,
}

/// A piece.
pub(super) struct Piece {
    pub(super) at: *mut u8,
    /// It is all zeros.
    pub(super) is_zero: bool,
}

struct Regions {
    list: [*mut Region; REGIONS],
    count: usize,
}

// SAFETY: the pointers are to memory that stays, and the mutex around guards what is there.
unsafe impl Send for Regions {}

static ALL: Mutex<Regions> = Mutex::new(Regions { list: [ptr::null_mut(); REGIONS], count: 0 });
/// Fresh and old slices.
static KEPT: AtomicUsize = AtomicUsize::new(0);

fn lock() -> MutexGuard<'static, Regions> {
    // Nothing below panics halfway.
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn slices(size: usize) -> usize {
    size.div_ceil(SLICE)
}

impl Region {
    /// Reserves a region; null when the kernel has none.
    fn reserve() -> *mut Region {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), 2 * REGION, libc::PROT_NONE, kind, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        let before = mapped.addr().next_multiple_of(REGION) - mapped.addr();
        // SAFETY: all of it lies in the new mapping, of which one aligned region is left; the head is in its first slices,
        // which are writable and aligned. Of two calls with a length of zero one fails, which is as well.
        unsafe {
            let start = mapped.cast::<u8>().add(before);
            libc::munmap(mapped, before);
            libc::munmap(start.add(REGION).cast(), REGION - before);
            // A huge page would be in memory whole for a slice of it.
            libc::madvise(start.cast(), REGION, libc::MADV_NOHUGEPAGE);
            if !make_writable(start, STEP) {
                libc::munmap(start.cast(), REGION);
                return ptr::null_mut();
            }
            let region = start.cast::<Region>();
            region.write(Region {
                free: Slices([u64::MAX; WORDS]),
                fresh: Slices([0; WORDS]),
                old: Slices([0; WORDS]),
                longest: SLICES - HEAD,
                writable: STEP,
            });
            (*region).free.clear(0, HEAD);
            region
        }
    }

    /// The slice's address.
    fn address(&mut self, slice: usize) -> *mut u8 {
        ptr::from_mut(self).cast::<u8>().wrapping_add(slice * SLICE)
    }

    /// Makes the first `end` slices writable, if they are not. False: the kernel has no memory for them.
    fn make_writable(&mut self, end: usize) -> bool {
        if end > self.writable {
            let len = (end - self.writable).next_multiple_of(STEP);
            // SAFETY: the slices are the region's and not in use.
            if !unsafe { make_writable(self.address(self.writable), len) } {
                return false;
            }
            self.writable += len;
        }
        true
    }

    fn take(&mut self, at: usize, len: usize) -> Piece {
        self.free.clear(at, len);
        let used = self.fresh.clear(at, len) + self.old.clear(at, len);
        KEPT.fetch_sub(used, Relaxed);
        Piece { at: self.address(at), is_zero: used == 0 }
    }

    fn give_back(&mut self, at: usize, len: usize) {
        self.free.set(at, len);
        self.fresh.set(at, len);
        KEPT.fetch_add(len, Relaxed);
        self.longest = SLICES;
    }

    /// Takes a run of old slices.
    fn take_old(&mut self) -> Option<(usize, usize)> {
        let at = self.old.next(0, true);
        (at < SLICES).then(|| {
            let len = self.old.next(at, false) - at;
            self.take(at, len);
            (at, len)
        })
    }
}

/// Makes slices from an address on writable. False: the kernel has no memory for them.
///
/// # Safety
/// They are a region's, and not in use.
unsafe fn make_writable(start: *mut u8, slices: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::mprotect(start.cast(), slices * SLICE, libc::PROT_READ | libc::PROT_WRITE) == 0 }
}

/// Bytes of the kernel's pages.
fn page() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: a question to the library.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(SLICE)
    })
}

/// The slices of a run in whole pages: the kernel takes pages, and parts of one may be others'.
fn whole_pages(at: usize, len: usize, page: usize) -> Range<usize> {
    let slices = page.div_ceil(SLICE);
    let start = at.next_multiple_of(slices);
    start..((at + len) / slices * slices).max(start)
}

/// The region of a piece and the piece's first slice there.
///
/// # Safety
/// The caller has the lock, and `at` is a piece's.
unsafe fn region_of(_: &mut Regions, at: *mut u8) -> (&mut Region, usize) {
    let offset = at.addr() % REGION;
    // SAFETY: a region is aligned to its size, and pieces lie in it.
    (unsafe { &mut *at.wrapping_sub(offset).cast::<Region>() }, offset / SLICE)
}

/// A piece of `size` bytes, at most [`MOST`], aligned to [`ALIGN`]; a null pointer where there is no memory.
pub(super) fn take(size: usize) -> Piece {
    let len = slices(size);
    let mut all = lock();
    for number in 0..REGIONS {
        if number == all.count {
            let region = Region::reserve();
            if region.is_null() {
                break;
            }
            all.list[number] = region;
            all.count += 1;
        }
        // SAFETY: regions stay, and the lock is held.
        let region = unsafe { &mut *all.list[number] };
        if region.longest >= len {
            match region.free.run(len) {
                Ok(at) if region.make_writable(at + len) => return region.take(at, len),
                Ok(_) => break,
                Err(longest) => region.longest = longest,
            }
        }
    }
    Piece { at: ptr::null_mut(), is_zero: false }
}

/// Gives a piece back.
///
/// # Safety
/// [`take`] or [`resize`] made it with this size, and nobody uses it any more.
pub(super) unsafe fn give_back(at: *mut u8, size: usize) {
    let mut all = lock();
    // SAFETY: the lock is held, and the piece is one.
    let (region, slice) = unsafe { region_of(&mut all, at) };
    region.give_back(slice, slices(size));
}

/// Makes a piece of `size` bytes one of `wanted`, where it is. False: others stand in the way.
///
/// # Safety
/// As [`give_back`], but for the use.
pub(super) unsafe fn resize(at: *mut u8, size: usize, wanted: usize) -> bool {
    let (has, needs) = (slices(size), slices(wanted));
    if has == needs {
        return true;
    }
    let mut all = lock();
    // SAFETY: the lock is held, and the piece is one.
    let (region, slice) = unsafe { region_of(&mut all, at) };
    if needs < has {
        region.give_back(slice + needs, has - needs);
    } else if slice + needs <= SLICES
        && region.free.all_set(slice + has, needs - has)
        && region.make_writable(slice + needs)
    {
        region.take(slice + has, needs - has);
    } else {
        return false;
    }
    true
}

/// Bytes given back and still in memory.
pub(super) fn kept_bytes() -> usize {
    KEPT.load(Relaxed) * SLICE
}

/// Gives slices to the kernel if they were given back before the last call. One thread calls it ten times a
/// second.
pub(super) fn purge() {
    let mut number = 0;
    loop {
        let mut all = lock();
        if number == all.count {
            return;
        }
        // SAFETY: regions stay, and the lock is held.
        let region = unsafe { &mut *all.list[number] };
        let Some((at, len)) = region.take_old() else {
            region.old = std::mem::replace(&mut region.fresh, Slices([0; WORDS]));
            number += 1;
            continue;
        };
        let whole = whole_pages(at, len, page());
        let start = region.address(at);
        let first = region.address(whole.start);
        drop(all);
        // The slices are nobody else's meanwhile, and the lock is free.
        // SAFETY: they lie in the region, and nobody uses them.
        let is_gone = !whole.is_empty()
            && unsafe { libc::madvise(first.cast(), whole.len() * SLICE, libc::MADV_DONTNEED) } == 0;
        let mut all = lock();
        // SAFETY: the lock is held, and the slices are taken like a piece.
        let (region, _) = unsafe { region_of(&mut all, start) };
        if is_gone {
            region.give_back(at, whole.start - at);
            region.free.set(whole.start, whole.len());
            region.give_back(whole.end, at + len - whole.end);
            region.longest = SLICES;
        } else {
            // Pages that are locked (`--memlock`) stay, with what is in them.
            region.give_back(at, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_set_and_cleared_at_every_offset() {
        let mut slices = Slices([0; WORDS]);
        for at in [0, 1, 63, 64, 65, 1000, SLICES - 130] {
            for len in [1, 2, 63, 64, 65, 128, 130] {
                slices.set(at, len);
                assert_eq!(slices.run(len), Ok(at), "{at} {len}");
                assert_eq!(slices.run(len + 1), Err(len), "{at} {len}");
                assert!(slices.all_set(at, len) && (at + len == SLICES || !slices.all_set(at, len + 1)));
                assert_eq!(slices.next(at, false), at + len);
                assert_eq!(slices.clear(at, len), len);
                assert_eq!(slices.run(1), Err(0));
            }
        }
        slices.set(3, 4);
        slices.set(100, 5);
        assert_eq!((slices.run(5), slices.run(6)), (Ok(100), Err(5)));
    }

    const CHILD: &str = "SHARED_HEAP_TEST_CHILD";

    fn writable_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
        let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).expect("there");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// The child of the test: the kernel counts what is writable against a bound, as it does without overcommitment.
    #[test]
    fn other_process() {
        const PIECE: usize = 1 << 20;
        if std::env::var(CHILD).is_err() {
            return;
        }
        let before = writable_bytes();
        assert!(!Region::reserve().is_null());
        assert!(writable_bytes() - before < REGION / 2, "a region is not writable as a whole");
        let most = (writable_bytes() + (32 << 20)) as libc::rlim_t;
        let bound = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the kernel reads the bound.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &bound) }, 0);
        let mut pieces = Vec::new();
        while pieces.len() < 100 {
            let piece = take(PIECE);
            if piece.at.is_null() {
                break;
            }
            // SAFETY: the piece has so many bytes.
            unsafe { piece.at.write_bytes(7, PIECE) };
            pieces.push(piece.at);
        }
        assert!((20..40).contains(&pieces.len()), "{} pieces of 32", pieces.len());
        // SAFETY: they are pieces of this size.
        pieces.into_iter().for_each(|at| unsafe { give_back(at, PIECE) });
        assert!(!take(16 * PIECE).at.is_null(), "they are there for others");
        std::process::exit(99);
    }

    #[test]
    fn a_kernel_without_overcommitment_gives_what_is_used_and_no_more() {
        let child = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "heap::shared::tests::other_process", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .output()
            .expect("runs");
        assert_eq!(child.status.code(), Some(99), "{}", String::from_utf8_lossy(&child.stderr));
    }

    #[test]
    fn only_whole_pages_of_a_run_are_given_to_the_kernel() {
        for page in [4096, SLICE, 4 * SLICE, 64 * SLICE] {
            let slices = page.div_ceil(SLICE);
            for at in 0..70 {
                for len in 1..140 {
                    let whole = whole_pages(at, len, page);
                    assert!(
                        whole.is_empty() || (at <= whole.start && whole.end <= at + len),
                        "{page} {at} {len}"
                    );
                    assert!(whole.is_empty() || (whole.start % slices, whole.end % slices) == (0, 0));
                    assert!(whole.len() + 2 * slices > len, "{page} {at} {len}: most of it");
                }
            }
        }
        assert_eq!(whole_pages(3, 5, 4096), 3..8);
    }
}
