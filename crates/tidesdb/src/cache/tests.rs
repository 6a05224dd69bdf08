use std::panic::panic_any;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::compressed::{StoredCopy, COPY};
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
    cache.offer(2, 0, &[2; 1000], None);
    assert_eq!(cache.insert(2, 1, filled(&cache, 1000, 2), CachePriority::NoEvict).len(), 1000);
    assert!(cache.get(2, 0).is_none() && cache.get(2, 1).is_none());
    assert_eq!((cache.bytes(), cache.entries()), (bytes, entries));
    // With room it is kept, and goes before what was used.
    cache.erase_file(1);
    cache.offer(2, 0, &[2; 1000], None);
    cache.insert(2, 1, filled(&cache, 1000, 3), CachePriority::NoEvict);
    assert_eq!((cache.get(2, 0).unwrap()[999], cache.get(2, 1).unwrap()[0]), (2, 3));
    cache.offer(3, 0, &[3; 1000], None);
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

/// Merges: each erases a part of the blocks everywhere and offers new ones of other sizes, which no free slot suits.
#[test]
fn holes_of_erased_files_take_no_memory_on_top() {
    let capacity = 64 << 20;
    let cache = BlockCache::new(capacity);
    const FILES: u64 = 4;
    for at in 0..(capacity / 4200) as u64 {
        cache.insert(at % FILES, at, filled(&cache, 4000, 0), CachePriority::High);
    }
    for merge in 0..FILES {
        cache.erase_file(merge);
        cache.move_together();
        let payload = vec![1; 5000 + 1000 * merge as usize];
        let before = cache.entries();
        for at in 0..4000 {
            cache.offer(FILES + merge, at, &payload, None);
            let most = capacity + (1 << 20);
            assert!(cache.footprint() <= most, "merge {merge}: {} of {most}", cache.footprint());
        }
        assert!(
            cache.entries() > before + 1000,
            "merge {merge}: {} blocks entered",
            cache.entries() - before
        );
    }
    let slabs = cache.slab_bytes();
    assert!(slabs <= capacity + capacity / 8, "{slabs}");
}

#[test]
fn a_capacity_that_falls_in_steps_gives_its_memory_back() {
    let mut capacity = 64 << 20;
    let cache = BlockCache::new(capacity);
    let mut at = 0u64;
    while at < 40_000 {
        cache.insert(1, at, filled(&cache, 4000 + at as usize % 400, 0), CachePriority::High);
        at += 1;
    }
    let most = cache.slab_bytes();
    for step in 0..100 {
        capacity -= 200 << 10;
        cache.set_capacity(capacity);
        cache.move_together();
        for _ in 0..20 {
            at += 1;
            cache.insert(1, at, filled(&cache, 4000 + at as usize % 400, 0), CachePriority::High);
        }
        assert!(cache.footprint() <= capacity + (3 << 20), "{step}: {} of {capacity}", cache.footprint());
    }
    assert!(cache.slab_bytes() < most - (8 << 20), "{} of {most}", cache.slab_bytes());
}

#[test]
fn holes_around_blocks_in_use_are_closed_after_their_use() {
    let capacity = 64 << 20;
    let cache = BlockCache::new(capacity);
    let fill = |from: u64| {
        (from..from + 15_000)
            .map(|at| cache.insert(1, at, filled(&cache, 4000, 0), CachePriority::High))
            .step_by(40)
            .collect::<Vec<BlockRef>>()
    };
    let held = fill(0);
    cache.set_capacity(capacity / 4);
    cache.move_together();
    assert!(cache.footprint() > capacity / 2, "blocks in use stay where they are");
    drop(held);
    for _ in 0..100 {
        cache.move_together();
    }
    assert!(cache.footprint() <= capacity / 4 + (2 << 20), "{}", cache.footprint());
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
        cache.read(1, 0, CachePriority::High, || read().map(|block| (block, CachePriority::High)))
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
                Ok::<_, ()>((filled(cache, 1000, 1), priorities[0]))
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

/// A round of the hand in each shard.
fn evict_all(cache: &BlockCache) {
    for shard in &cache.shards {
        cache.give_back(shard.evict(usize::MAX));
    }
}

/// A cache full of blocks of file 2 that nobody uses.
fn full() -> Arc<BlockCache> {
    let cache = BlockCache::new(256 << 10);
    for at in 0..1000 {
        cache.insert(2, at << 12, filled(&cache, 4000, 2), CachePriority::Low);
    }
    cache
}

#[test]
fn a_full_cache_takes_compressed_blocks_as_they_are_stored() {
    use CachePriority::{High, Low, NoEvict, Young};
    let cache = full();
    assert!(cache.stored_copy(1, 0, High).is_none());
    assert_eq!(
        cache.admit((1, 0), &[7; 1500], &filled(&cache, 4000, 1), High),
        Young,
        "the block itself goes soon"
    );
    let copy = cache.stored_copy(1, 0, High).expect("a copy");
    assert_eq!((&copy.bytes[..], copy.priority), (&[7; 1500][..], Young));
    assert!(cache.get(1, 0).is_none() && cache.holds_stored_copy(1, 0) && !cache.holds_stored_copy(1, 4096));
    assert_eq!((cache.hits(), cache.misses(), cache.copy_hits()), (1, 0, 1));
    let crossed = cache.stored_copy(1, 0, NoEvict).expect("a copy");
    assert_eq!(crossed.priority, NoEvict);
    // Hardly compressed, or crossed by a long scan.
    assert_eq!(cache.admit((1, 4096), &[7; 3900], &filled(&cache, 4000, 1), Low), Low);
    assert_eq!(cache.admit((1, 8192), &[7; 1500], &filled(&cache, 4000, 1), NoEvict), NoEvict);
    assert!(!cache.holds_stored_copy(1, 4096) && !cache.holds_stored_copy(1, 8192));
    assert_eq!(
        cache.admit((1, 8192), &vec![7; (1 << 20) + 1], &filled(&cache, 8 << 20, 1), Low),
        Low,
        "very large"
    );
    // With room for the block nothing is gained.
    let roomy = BlockCache::new(256 << 10);
    assert_eq!(roomy.admit((1, 0), &[7; 1500], &filled(&cache, 4000, 1), High), High);
    assert_eq!((roomy.entries(), roomy.bytes()), (0, 0));
    // A damaged one goes alone, and gives its memory back.
    let before = (cache.entries(), cache.bytes());
    cache.drop_stored_copy(1, 0);
    cache.drop_stored_copy(1, 0);
    assert!(!cache.holds_stored_copy(1, 0));
    assert_eq!(cache.entries(), before.0 - 1);
    assert!((1500..2500).contains(&(before.1 - cache.bytes())), "{before:?} {}", cache.bytes());
    cache.erase_files(&[1, 2]);
    assert_eq!((cache.entries(), cache.bytes()), (0, 0));
}

#[test]
fn a_cache_that_is_nearly_full_takes_copies() {
    let cache = BlockCache::new(16 << 20);
    let mut fill = 0..;
    let mut admitted_at = |sixteenths: usize| {
        while cache.bytes() < cache.capacity() / 16 * sixteenths {
            let at = fill.next().unwrap_or(0) << 12;
            cache.insert(2, at, filled(&cache, 4000, 2), CachePriority::High);
        }
        cache.admit((1, 0), &[7; 1500], &filled(&cache, 4000, 1), CachePriority::High)
    };
    assert!(admitted_at(13) == CachePriority::High && !cache.holds_stored_copy(1, 0), "with room to spare");
    assert_eq!(admitted_at(14), CachePriority::Young, "used bytes go up and down so far in a full cache");
    assert!(cache.holds_stored_copy(1, 0));
}

#[test]
fn a_copy_that_is_used_often_brings_its_block_and_the_hand_counts_anew() {
    let cache = full();
    cache.admit((1, 0), &[7; 1500], &filled(&cache, 4000, 1), CachePriority::High);
    let uses = |until: CachePriority| {
        (1..1000).find(|_| cache.stored_copy(1, 0, CachePriority::High).expect("a copy").priority == until)
    };
    assert_eq!(uses(CachePriority::Hot), Some(64));
    assert_eq!(uses(CachePriority::Hot), Some(63), "from the start, which was a use");
    assert!(uses(CachePriority::Young) == Some(1) && uses(CachePriority::NoEvict).is_none());
    // A round of the hand: the copy outlives it, and is cold.
    evict_all(&cache);
    assert_eq!(cache.entries(), 1);
    assert_eq!(uses(CachePriority::Hot), Some(64));
}

#[test]
fn a_block_with_a_copy_stays_for_a_while_and_others_of_its_kind_displace_it() {
    let cache = BlockCache::new(16 << 20);
    for at in 0..10_000 {
        cache.insert(2, at << 12, filled(&cache, 4000, 2), CachePriority::Low);
    }
    let held = cache.insert(1, 0, filled(&cache, 4000, 1), CachePriority::Young);
    for at in 1..=5000u64 {
        cache.insert(1, at << 12, filled(&cache, 4000, 1), CachePriority::Young);
        assert!(cache.bytes() <= cache.capacity());
        assert!(cache.holds(1, at << 12));
    }
    let young = (1..=5000u64).filter(|at| cache.holds(1, at << 12)).count();
    // A thirty-second would be 122; each shard has one at least, and room for no third one.
    assert!((64..=128).contains(&young), "{young}");
    let last = (4980..=5000u64).filter(|at| cache.holds(1, at << 12)).count();
    assert!(last >= 15, "{last} of the last 21");
    drop(held);
    assert!(cache.entries() > 3000, "others stay");
    cache.erase_files(&[1, 2]);
    assert_eq!((cache.entries(), cache.bytes()), (0, 0));
    // Places of blocks that went on other ways do no harm.
    for at in 0..1000u64 {
        cache.insert(3, at << 12, filled(&cache, 4000, 3), CachePriority::Young);
    }
    cache.erase_file(3);
    assert_eq!((cache.entries(), cache.bytes()), (0, 0));
}

#[test]
fn copies_that_nobody_uses_are_evicted_like_blocks() {
    let cache = full();
    for at in 0..1000u64 {
        cache.admit((1, at << 12), &[7; 1500], &filled(&cache, 4000, 1), CachePriority::High);
        assert!(cache.bytes() <= cache.capacity());
    }
    let copies = (0..1000u64).filter(|at| cache.holds_stored_copy(1, at << 12)).count();
    assert!((100..200).contains(&copies), "{copies}: more than there were blocks of 4000 bytes");
}

#[test]
fn a_waiter_takes_no_block_into_a_cache_that_has_its_copy() {
    let cache = full();
    let admit =
        |cache: &BlockCache| cache.admit((1, 0), &[7; 1500], &filled(cache, 4000, 1), CachePriority::High);
    let begun = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            cache.read(1, 0, CachePriority::High, || {
                begun.store(true, Ordering::SeqCst);
                while cache.waiting() == 0 {
                    thread::yield_now();
                }
                admit(&cache);
                // No room for the block.
                Ok::<_, ()>((filled(&cache, 4000, 1), CachePriority::NoEvict))
            })
        });
        while !begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let waited = cache.read(1, 0, CachePriority::High, || Err(()));
        assert_eq!(waited.map(|block| block[0]), Ok(1));
        reader.join().unwrap().unwrap();
    });
    assert!(cache.get(1, 0).is_none() && cache.holds_stored_copy(1, 0));
}

#[test]
fn a_block_that_could_have_a_copy_stays_only_if_it_is_used_often() {
    for (stored_len, uses, stays) in [(1500, 15, false), (1500, 16, true), (3900, 1, true), (3900, 0, false)]
    {
        let cache = BlockCache::new(256 << 10);
        let block = filled(&cache, 4000, 1);
        assert_eq!(cache.admit((1, 0), &vec![7; stored_len], &block, CachePriority::Low), CachePriority::Low);
        drop(cache.insert(1, 0, block, CachePriority::Low));
        cache.offer(1, 4096, &[1; 4000], Some(stored_len));
        for _ in 0..uses {
            assert!(cache.get(1, 0).is_some() && cache.get(1, 4096).is_some());
        }
        // Their frames may move meanwhile.
        cache.shards.iter().for_each(|shard| shard.move_together(usize::MAX));
        evict_all(&cache);
        assert_eq!((cache.holds(1, 0), cache.holds(1, 4096)), (stays, stays), "{stored_len} {uses}");
        evict_all(&cache);
        assert_eq!((cache.entries(), cache.bytes()), (0, 0), "one round for each");
    }
}

#[test]
fn a_young_block_that_comes_twice_is_noted_once() {
    let cache = BlockCache::new(16 << 20);
    // All of one shard.
    let home = shard_of(shard::hash(1, 0));
    let here: Vec<u64> = (0..100_000u64).filter(|&at| shard_of(shard::hash(1, at)) == home).take(3).collect();
    let most = cache.capacity() / YOUNG_SHARE / SHARDS;
    let len = most / 4;
    for &at in &here {
        for _ in 0..10 {
            cache.insert(1, at, filled(&cache, len, 1), CachePriority::Young);
        }
    }
    assert!(here.iter().all(|&at| cache.holds(1, at)));
}

#[test]
fn uses_of_a_block_keep_its_copy() {
    let cache = BlockCache::new(256 << 10);
    let copy = |at: u64| drop(cache.insert(1 | COPY, at, filled(&cache, 1500, 7), CachePriority::Low));
    let block = |at: u64| {
        let copy = StoredCopy { bytes: filled(&cache, 1500, 7), priority: CachePriority::Low };
        cache.insert_from_copy(1, at, filled(&cache, 4000, 1), &copy);
    };
    // The hand comes first to the one that was inserted first.
    copy(0);
    block(0);
    block(4096);
    copy(4096);
    copy(8192);
    block(8192);
    copy(12_288);
    assert!(cache.get(1, 0).is_some() && cache.get(1, 4096).is_some());
    evict_all(&cache);
    let left = [0, 4096, 8192, 12_288].map(|at| (cache.holds(1, at), cache.holds_stored_copy(1, at)));
    assert_eq!(left, [(false, true), (false, true), (false, false), (false, false)]);
    (0..2).for_each(|_| evict_all(&cache));
    assert_eq!((cache.entries(), cache.bytes()), (0, 0));
}

#[test]
fn a_hot_block_takes_the_place_of_another_with_a_copy_and_of_no_other() {
    let cache = full();
    let copy = |priority| StoredCopy { bytes: filled(&cache, 1500, 7), priority };
    // All of one shard.
    let home = shard_of(shard::hash(1, 0));
    let here: Vec<u64> = (0..100_000u64).filter(|&at| shard_of(shard::hash(1, at)) == home).take(3).collect();
    let hot =
        |at: u64| drop(cache.insert_from_copy(1, at, filled(&cache, 4000, 1), &copy(CachePriority::Hot)));
    let (entries, others) =
        (cache.entries(), |cache: &BlockCache| (0..1000u64).filter(|at| cache.holds(2, at << 12)).count());
    let before = others(&cache);
    // None has a copy: it comes young, and the next one displaces it.
    hot(here[0]);
    assert!(cache.holds(1, here[0]));
    let with_one = others(&cache);
    assert!(with_one < before && cache.entries() <= entries, "{with_one} of {before}");
    hot(here[1]);
    assert_eq!(here[..2].iter().map(|&at| cache.holds(1, at)).collect::<Vec<_>>(), [false, true]);
    // One that is used often stays.
    (0..16).for_each(|_| assert!(cache.get(1, here[1]).is_some()));
    assert!(!cache.make_room_among_copied(5000, home));
    assert!(cache.holds(1, here[1]));
    assert_eq!(others(&cache), with_one);
}

#[test]
fn a_lower_capacity_takes_hot_blocks_and_their_copies_at_once() {
    let cache = BlockCache::new(256 << 10);
    // All of one shard.
    let home = shard_of(shard::hash(1, 0));
    for at in (0..10_000u64).filter(|&at| shard_of(shard::hash(1, at << 12)) == home).take(20) {
        // The hand comes first to the copy, or to the block.
        let copy = || drop(cache.insert(1 | COPY, at << 12, filled(&cache, 1500, 7), CachePriority::Low));
        let made_of = StoredCopy { bytes: filled(&cache, 1500, 7), priority: CachePriority::Low };
        let block = || drop(cache.insert_from_copy(1, at << 12, filled(&cache, 4000, 1), &made_of));
        if at % 2 == 0 {
            copy();
            block();
        } else {
            block();
            copy();
        }
        (0..16).for_each(|_| assert!(cache.get(1, at << 12).is_some()));
    }
    cache.set_capacity(0);
    assert_eq!((cache.entries(), cache.bytes()), (0, 0));
}
