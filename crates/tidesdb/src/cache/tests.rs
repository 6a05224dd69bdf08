use std::panic::panic_any;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

fn filled(cache: &BlockCache, len: usize, byte: u8) -> BlockRef {
    let mut frame = cache.frame(len);
    frame.fill(byte);
    frame.freeze()
}

#[test]
fn a_kept_block_is_found_and_an_erased_file_is_gone() {
    let cache = BlockCache::new(1 << 20);
    for file in 1..=3u64 {
        for at in 0..20u64 {
            cache.insert(file, at * 4096, filled(&cache, 100, file as u8), CachePriority::High);
        }
    }
    assert_eq!(cache.entries(), 60);
    let held = cache.get(2, 4096).unwrap();
    assert!(cache.get(4, 0).is_none());
    assert_eq!((cache.hits(), cache.misses()), (1, 1));
    cache.erase_file(2);
    assert_eq!(cache.entries(), 40);
    assert!((0..20).all(|at| cache.get(2, at * 4096).is_none()));
    assert!((0..20).all(|at| cache.get(1, at * 4096).is_some() && cache.get(3, at * 4096).is_some()));
    assert!(held.iter().all(|&byte| byte == 2));
    cache.erase_files(&[1, 2, 4]);
    assert_eq!(cache.entries(), 20);
    assert!((0..20).all(|at| cache.get(1, at * 4096).is_none() && cache.get(3, at * 4096).is_some()));
    cache.erase_files(&[]);
    cache.erase_files(&[1, 3]);
    assert_eq!((cache.bytes(), cache.entries()), (0, 0));
}

#[test]
fn the_second_of_two_equal_inserts_gets_the_first_ones_block() {
    let cache = BlockCache::new(1 << 20);
    let first = cache.insert(1, 0, filled(&cache, 10, 1), CachePriority::High);
    let bytes = cache.bytes();
    let second = cache.insert(1, 0, filled(&cache, 10, 2), CachePriority::High);
    assert_eq!(first.as_ptr(), second.as_ptr());
    assert_eq!(cache.bytes(), bytes);
}

#[test]
fn a_used_block_outlives_unused_ones_and_a_held_one_is_never_evicted() {
    let cache = BlockCache::new(64 << 10);
    cache.insert(1, 0, filled(&cache, 1000, 1), CachePriority::Low);
    let held = cache.insert(2, 0, filled(&cache, 1000, 2), CachePriority::Low);
    for at in 0..1000u64 {
        assert!(cache.get(1, 0).is_some(), "used at every step, gone at {at}");
        cache.insert(3, at, filled(&cache, 1000, 3), CachePriority::Low);
        assert!(cache.bytes() <= 64 << 10);
    }
    assert_eq!(cache.get(2, 0).unwrap().as_ptr(), held.as_ptr());
}

#[test]
fn nothing_is_evicted_for_a_spare_block() {
    let cache = BlockCache::new(64 << 10);
    for at in 0..1000u64 {
        cache.insert(1, at, filled(&cache, 1000, 1), CachePriority::Low);
    }
    let (bytes, entries) = (cache.bytes(), cache.entries());
    cache.offer(2, 0, &[2; 1000]);
    assert_eq!(cache.insert(2, 1, filled(&cache, 1000, 2), CachePriority::NoEvict).len(), 1000);
    assert!(cache.get(2, 0).is_none() && cache.get(2, 1).is_none());
    assert_eq!((cache.bytes(), cache.entries()), (bytes, entries));
    // With room it is kept, and goes before what was used.
    cache.erase_file(1);
    cache.offer(2, 0, &[2; 1000]);
    cache.insert(2, 1, filled(&cache, 1000, 3), CachePriority::NoEvict);
    assert_eq!((cache.get(2, 0).unwrap()[999], cache.get(2, 1).unwrap()[0]), (2, 3));
    cache.offer(3, 0, &[3; 1000]);
    for at in 0..200u64 {
        assert!(cache.get(2, 0).is_some() && cache.get(2, 1).is_some());
        cache.insert(4, at, filled(&cache, 1000, 4), CachePriority::High);
    }
    assert!(cache.get(3, 0).is_none());
    cache.erase_file(2);
    cache.erase_file(4);
    assert_eq!((cache.bytes(), cache.entries()), (0, 0));
}

#[test]
fn with_everything_held_blocks_are_handed_out_without_being_kept() {
    let cache = BlockCache::new(8 << 10);
    let held: Vec<BlockRef> =
        (0..100).map(|at| cache.insert(1, at, filled(&cache, 1000, at as u8), CachePriority::High)).collect();
    assert!(cache.bytes() <= 8 << 10);
    assert!(cache.entries() < 10);
    for (at, block) in held.iter().enumerate() {
        assert!(block.iter().all(|&byte| byte == at as u8));
    }
    let huge = cache.insert(1, 1000, filled(&cache, 9 << 10, 7), CachePriority::High);
    assert_eq!(huge.len(), 9 << 10);
    assert!(cache.get(1, 1000).is_none());
}

#[test]
fn resident_pieces_share_the_budget_up_to_half_of_it() {
    let cache = BlockCache::new(10_000);
    for at in 0..20 {
        cache.insert(1, at, filled(&cache, 500, 0), CachePriority::Low);
    }
    let reservation = cache.reserve(5_000).unwrap();
    assert!(cache.bytes() <= 10_000 && cache.resident_bytes() == 5_000);
    assert!(cache.reserve(1).is_none());
    drop(reservation);
    assert_eq!(cache.resident_bytes(), 0);
    assert!(cache.reserve(1).is_some());
}

#[test]
fn a_lower_capacity_holds_at_once() {
    let cache = BlockCache::new(1 << 20);
    for at in 0..500 {
        cache.insert(1, at, filled(&cache, 1000, 0), CachePriority::High);
    }
    cache.set_capacity(100_000);
    assert!(cache.bytes() <= 100_000 && cache.entries() > 0);
    cache.set_capacity(0);
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn random_operations_agree_with_a_map_that_never_evicts() {
    use rand::{Rng, SeedableRng};
    for seed in 0..8u64 {
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        let cache = BlockCache::new(1 << 30);
        let mut model = std::collections::HashMap::new();
        for _ in 0..5_000 {
            let (file, at) = (rng.gen_range(1..8u64), rng.gen_range(0..300u64) * 64);
            match rng.gen_range(0..20) {
                0 => {
                    cache.erase_file(file);
                    model.retain(|&(other, _), _| other != file);
                }
                1..=9 => {
                    let byte: u8 = rng.gen();
                    let kept = cache.insert(file, at, filled(&cache, 8, byte), CachePriority::Low)[0];
                    assert_eq!(kept, *model.entry((file, at)).or_insert(byte), "seed {seed}");
                }
                _ => {
                    let found = cache.get(file, at).map(|block| block[0]);
                    assert_eq!(found, model.get(&(file, at)).copied(), "seed {seed}");
                }
            }
        }
        assert_eq!(cache.entries(), model.len(), "seed {seed}");
    }
}

#[test]
fn under_concurrent_load_it_stays_within_its_budget_and_gives_the_right_bytes() {
    use rand::{Rng, SeedableRng};
    const CAPACITY: usize = 256 << 10;
    let cache = BlockCache::new(CAPACITY);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4u64)
            .map(|seed| {
                let cache = &cache;
                scope.spawn(move || {
                    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
                    let mut held = Vec::new();
                    for step in 0..20_000 {
                        let (file, at) = (rng.gen_range(1..5u64), rng.gen_range(0..200u64));
                        let expected = (file * 50 + at) as u8;
                        let block = cache.get(file, at).unwrap_or_else(|| {
                            let len = rng.gen_range(1..8000);
                            cache.insert(file, at, filled(cache, len, expected), CachePriority::High)
                        });
                        assert!(block.iter().all(|&byte| byte == expected), "seed {seed}");
                        held.push(block);
                        if held.len() > 8 {
                            held.swap_remove(rng.gen_range(0..8));
                        }
                        if step % 5_000 == 4_999 {
                            cache.erase_file(file);
                        }
                    }
                })
            })
            .collect();
        let (cache, done) = (&cache, &done);
        let watcher = scope.spawn(move || {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(cache.bytes());
                std::thread::yield_now();
            }
            most
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(watcher.join().unwrap() <= CAPACITY);
    });
    for file in 1..5 {
        cache.erase_file(file);
    }
    assert_eq!((cache.bytes(), cache.entries()), (0, 0));
}

/// A read's result; the error is the number of the read.
type Read = Result<BlockRef, usize>;

/// The results of `threads` threads that miss one block at once, and the number of their reads. The first read ends with
/// `first`, after every other thread waits for it or reads too.
fn miss_at_once(
    cache: &BlockCache,
    threads: usize,
    first: fn(&BlockCache) -> Read,
) -> (Vec<thread::Result<Read>>, usize) {
    let reads = AtomicUsize::new(0);
    let read = || match reads.fetch_add(1, Ordering::SeqCst) {
        0 => {
            while cache.waiting() + reads.load(Ordering::SeqCst) < threads {
                thread::yield_now();
            }
            first(cache)
        }
        _ => Ok(filled(cache, 1000, 2)),
    };
    let miss = || {
        assert!(cache.get(1, 0).is_none());
        cache.read(1, 0, CachePriority::High, read)
    };
    let got = thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(miss)).collect();
        spawned.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    assert_eq!(cache.waiting(), 0);
    (got, reads.into_inner())
}

#[test]
fn threads_that_miss_one_block_read_it_once() {
    let cache = BlockCache::new(1 << 20);
    let (got, reads) = miss_at_once(&cache, 8, |cache| Ok(filled(cache, 1000, 1)));
    assert_eq!(reads, 1);
    assert!(got.iter().all(|got| matches!(got, Ok(Ok(block)) if block[999] == 1)));
    assert_eq!((cache.entries(), cache.hits(), cache.misses()), (1, 0, 8));
    let missed_before = cache.read(1, 0, CachePriority::Low, || Err(0));
    assert_eq!(missed_before.map(|block| block[0]), Ok(1), "it came into the cache since the lookup");
}

#[test]
fn a_block_without_room_in_the_cache_is_shared_too() {
    let cache = BlockCache::new(64 << 10);
    let mut held = Vec::new();
    for at in 0..1000 {
        held.push(cache.insert(2, at, filled(&cache, 1000, 2), CachePriority::High));
    }
    let before = cache.entries();
    let (got, reads) = miss_at_once(&cache, 4, |cache| Ok(filled(cache, 1000, 1)));
    assert_eq!(reads, 1);
    let blocks: Vec<&BlockRef> = got.iter().flatten().flatten().collect();
    assert!(blocks.len() == 4 && blocks.iter().all(|block| block.as_ptr() == blocks[0].as_ptr()));
    assert_eq!((cache.entries(), cache.get(1, 0).is_none()), (before, true));
}

#[test]
fn after_a_failed_read_the_threads_that_waited_read_themselves() {
    let failures: [fn(&BlockCache) -> Read; 2] =
        [|_| Err(0), |_| panic_any("a panic in the middle of the first read")];
    for first in failures {
        let cache = BlockCache::new(1 << 20);
        let (got, reads) = miss_at_once(&cache, 6, first);
        // Late ones may find it in the cache.
        assert!((2..=6).contains(&reads), "{reads}");
        let good = got.iter().filter(|got| matches!(got, Ok(Ok(block)) if block[0] == 2)).count();
        assert_eq!((good, cache.entries()), (5, 1));
        cache.erase_file(1);
        let (got, reads) = miss_at_once(&cache, 3, |cache| Ok(filled(cache, 1000, 3)));
        assert_eq!((got.len(), reads), (3, 1), "the failed flight is over");
    }
}

/// The block of one thread that reads it with the first priority and of one that waits for it with the second.
fn read_and_wait(cache: &BlockCache, priorities: [CachePriority; 2]) -> [BlockRef; 2] {
    let begun = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            cache.read(1, 0, priorities[0], || {
                begun.store(true, Ordering::SeqCst);
                while cache.waiting() == 0 {
                    thread::yield_now();
                }
                Ok::<_, ()>(filled(cache, 1000, 1))
            })
        });
        while !begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let waited = cache.read(1, 0, priorities[1], || Err(()));
        [reader.join().unwrap().unwrap(), waited.unwrap()]
    })
}

#[test]
fn a_waiter_keeps_the_block_that_its_reader_does_not() {
    use CachePriority::{High, Low, NoEvict};
    for (waiter, is_kept) in [(High, true), (Low, true), (NoEvict, false)] {
        let cache = BlockCache::new(64 << 10);
        for at in 0..1000 {
            cache.insert(2, at, filled(&cache, 1000, 2), High);
        }
        let [read, waited] = read_and_wait(&cache, [NoEvict, waiter]);
        assert_eq!(read.as_ptr(), waited.as_ptr(), "one block");
        assert_eq!(cache.get(1, 0).is_some(), is_kept, "{waiter:?}");
        assert!(cache.bytes() <= 64 << 10);
    }
}
