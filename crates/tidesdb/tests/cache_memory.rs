//! Memory of the block cache as the kernel counts it; in a process of its own.

use std::fs;
use std::sync::Arc;

use tidesdb::internal::cache::{BlockCache, CachePriority};

const MB: usize = 1 << 20;
const CAPACITY: usize = 96 * MB;
const THREADS: u64 = 4;

/// Resident bytes of this process.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// Threads put in twice the capacity, in blocks of about `size` bytes; most of `file`'s are read again.
fn fill(cache: &Arc<BlockCache>, file: u64, size: usize) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = Arc::clone(cache);
            scope.spawn(move || {
                let blocks = (2 * CAPACITY / size) as u64 / THREADS;
                for block in 0..blocks {
                    let len = size + (block.wrapping_mul(0x9e37_79b9) % 200) as usize;
                    let mut frame = cache.frame(len);
                    frame.fill(1);
                    let _ = cache.insert(file, block * THREADS + thread, frame.freeze(), CachePriority::High);
                    let _ = cache.get(file, block.wrapping_mul(7) % blocks);
                }
            });
        }
    });
}

#[test]
fn a_cache_takes_its_size_also_when_blocks_of_other_sizes_come_or_it_shrinks() {
    let before = resident();
    let cache = BlockCache::new(CAPACITY);
    for (file, size) in [(1, 4200), (2, 5400), (3, 16_500), (4, 9000), (5, 4200)] {
        fill(&cache, file, size);
        let taken = resident().saturating_sub(before);
        assert!(cache.bytes() <= CAPACITY);
        assert!(taken < CAPACITY + CAPACITY / 3, "{} MB with blocks of {size} bytes", taken / MB);
        assert!(cache.bytes() > CAPACITY / 2, "{} MB in use with blocks of {size} bytes", cache.bytes() / MB);
    }
    cache.set_capacity(CAPACITY / 4);
    cache.move_together();
    let left = resident().saturating_sub(before);
    assert!(cache.bytes() > CAPACITY / 8);
    assert!(left < CAPACITY / 8 * 5, "{} MB stay of a cache that was made a quarter", left / MB);
}
