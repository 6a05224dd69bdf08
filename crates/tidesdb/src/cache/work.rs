//! The work of one thread's reads: blocks, blocks missing from the cache, skipped versions. Counted only
//! inside of [`counted`]. Elsewhere each place costs a test of one flag of the thread, and no clock is read.

use std::cell::Cell;

/// Work of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadWork {
    /// Blocks of files visited.
    pub blocks: u64,
    /// Blocks among these read from files, by this thread or by another that it waited for.
    pub blocks_read: u64,
    /// Microseconds of these reads and waits.
    pub read_us: u64,
    /// Skipped old versions, and deleted and expired rows.
    pub passed: u64,
}

struct Counting {
    is_asked: Cell<bool>,
    work: Cell<ReadWork>,
}

thread_local! {
    static COUNTING: Counting = const {
        Counting {
            is_asked: Cell::new(false),
            work: Cell::new(ReadWork { blocks: 0, blocks_read: 0, read_us: 0, passed: 0 }),
        }
    };
}

/// Ends the counting on drop, also after a panic.
struct Asked;

impl Drop for Asked {
    fn drop(&mut self) {
        COUNTING.with(|counting| counting.is_asked.set(false));
    }
}

/// The result of `read`, and its work in this thread. Must not be nested.
pub fn counted<T>(read: impl FnOnce() -> T) -> (T, ReadWork) {
    COUNTING.with(|counting| {
        counting.work.set(ReadWork::default());
        counting.is_asked.set(true);
    });
    let asked = Asked;
    let got = read();
    drop(asked);
    (got, COUNTING.with(|counting| counting.work.get()))
}

#[inline]
fn add(to: impl FnOnce(&mut ReadWork)) {
    COUNTING.with(|counting| {
        if counting.is_asked.get() {
            let mut work = counting.work.get();
            to(&mut work);
            counting.work.set(work);
        }
    });
}

/// Counts a visited block.
#[inline]
pub(crate) fn note_block() {
    add(|work| work.blocks += 1);
}

/// Counts skipped versions, or deleted rows.
#[inline]
pub(crate) fn note_passed(versions: u64) {
    add(|work| work.passed += versions);
}

/// Reads a block missing from the cache. `now` is a clock in microseconds, called only while work is counted.
pub(crate) fn block_read<T>(now: impl Fn() -> u64, read: impl FnOnce() -> T) -> T {
    if !COUNTING.with(|counting| counting.is_asked.get()) {
        return read();
    }
    let begun = now();
    let got = read();
    let time = now().saturating_sub(begun);
    add(|work| {
        work.blocks_read += 1;
        work.read_us += time;
    });
    got
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_for_who_asks_and_for_nobody_else() {
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 5);
            clock.get()
        };
        let read = || {
            note_block();
            note_passed(3);
            block_read(now, || 7)
        };
        assert_eq!(read(), 7);
        assert_eq!(clock.get(), 0, "no time is taken");
        let (got, work) = counted(read);
        assert_eq!((got, work), (7, ReadWork { blocks: 1, blocks_read: 1, read_us: 5, passed: 3 }));
        read();
        assert_eq!(counted(|| ()).1, ReadWork::default());
    }
}
