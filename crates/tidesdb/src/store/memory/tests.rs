use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::cache::CachePriority;
use crate::db::Db;
use crate::host::SystemClock;
use crate::io::faulty::{Failure, Fault, Op};
use crate::io::FaultyDisk;
use crate::lock::{LockManager, LockOwner};
use crate::options::machine::ProcessMemory;
use crate::options::{FamilyOptions, Options};
use crate::txn::transaction::TransactionOptions;

const MB: u64 = 1 << 20;

fn options() -> Options {
    Options {
        max_memory: 100 * MB,
        write_buffer_size: 20 * MB as usize,
        block_cache_size: 40 * MB as usize,
        ..Options::default()
    }
}

fn open(options: Options) -> Db {
    let disk = FaultyDisk::new(1);
    let db = Db::open_on(disk.shared(), "/s", options, None).expect("opens");
    // The tests measure themselves.
    db.stop_background();
    db
}

/// So many megabytes of other holders, and a process without a limit.
fn beside_cache(others: u64) -> Others {
    Others { bytes: others * MB, left: u64::MAX }
}

fn give_way(store: &Store, others: Others) {
    store.give_way(&mut store.memory_bound.cache.lock(), &store.live.get(), others);
}

fn fill(store: &Store) {
    for block in 0..10_000 {
        let _ = store.cache.insert(1, block, store.cache.frame(4096).freeze(), CachePriority::High);
    }
}

#[test]
fn the_cache_gives_way_to_large_rows_and_gets_its_size_back() {
    let db = open(options());
    let store = db.store();
    let capacity = || store.cache.capacity() as u64;
    fill(store);
    assert!(store.cache.bytes() as u64 > 20 * MB);
    let small = store.take_for_row(4 * MB as usize).expect("fits");
    assert_eq!(capacity(), 40 * MB, "there is room beside it");
    let large = store.take_for_row(13 * MB as usize).expect("fits");
    assert_eq!(capacity(), 9 * MB);
    assert!(store.cache.bytes() as u64 <= 9 * MB);
    let error = store.take_for_row(4 * MB as usize).expect_err("too much").to_string();
    assert!(error.contains("4194304") && error.contains("3145728"), "{error}");
    drop(large);
    drop(small);
    assert_eq!(capacity(), 40 * MB);
    assert!(store.take_for_row(21 * MB as usize).is_err(), "not even alone");
    let unbounded = open(Options { max_memory: 0, ..options() });
    unbounded.store().take_for_row(1 << 30).expect("no bound");
}

#[test]
fn a_row_beyond_a_bound_that_shrank_is_refused() {
    let db = open(options());
    let store = db.store();
    let large = store.take_for_row(13 * MB as usize).expect("fits");
    let mut smaller = store.live.get();
    (smaller.max_memory, smaller.block_cache_size) = (60 * MB, 8 * MB as usize);
    db.set_live_options(&smaller).expect("changes");
    let error = store.take_for_row(MB as usize).expect_err("less than nothing is left").to_string();
    assert!(error.contains(" 0 "), "{error}");
    drop(large);
    store.take_for_row(MB as usize).expect("fits");
}

#[test]
fn a_panic_while_a_large_row_is_written_keeps_none_of_its_memory() {
    let disk = FaultyDisk::new(1);
    let db = Db::open_on(disk.shared(), "/s", options(), None).expect("opens");
    db.stop_background();
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let row = vec![7; 13 * MB as usize];
    let write = || {
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
        txn.put(&family, b"k", &row)
    };
    write().expect("it fits");
    disk.fail(Fault { op: Some(Op::Write), path: "/s".into(), skip: 0, times: 1, failure: Failure::Panic });
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).expect_err("the disk panics");
    assert_eq!(db.store().memory_bound.cache.lock().rows, 0);
    write().expect("it fits again");
}

#[test]
fn the_cache_gives_way_to_others_then_compactions_wait_then_writers() {
    let db = open(options());
    let store = db.store();
    fill(store);
    let beside = |others: u64| {
        give_way(store, beside_cache(others));
        (store.cache.capacity() as u64, store.memory_bound.shortage())
    };
    assert_eq!(beside(40), (40 * MB, Shortage::None));
    // An eighth of the bound, 12.5 MB, is for what others take next.
    let cache = 20 * MB / 2 - 5 * MB / 2;
    assert_eq!(beside(80), (cache, Shortage::Cache));
    assert!(store.cache.bytes() as u64 <= cache);
    assert_eq!(beside(79), (cache, Shortage::Cache), "up in steps");
    assert_eq!(beside(77), (cache + 3 * MB, Shortage::Cache));
    let least = 40 * MB / CACHE_SHARE;
    assert_eq!(beside(115), (least, Shortage::Background));
    let begun = Instant::now();
    store.wait_for_memory(&AtomicBool::new(true));
    assert!(begun.elapsed() < LONGEST_WAIT, "a store that closes does not wait");
    assert_eq!(store.memory_bound.background_waits.load(Relaxed), 1);
    assert_eq!(beside(130), (least, Shortage::Writers));
    assert_eq!(beside(40), (40 * MB, Shortage::None), "all of it comes back");
    store.wait_for_memory(&AtomicBool::new(false));
    assert_eq!(store.memory_bound.background_waits.load(Relaxed), 1);
}

/// Measurements until the cache has grown, if it may.
const CALM: usize = 10;

fn growing() -> Options {
    Options { cache_grows: true, ..options() }
}

#[test]
fn a_cache_that_grows_has_what_others_leave_and_gives_it_back_at_once() {
    let db = open(growing());
    let store = db.store();
    let beside = |others: u64| {
        give_way(store, beside_cache(others));
        (store.cache.capacity() as u64, store.memory_bound.shortage())
    };
    let headroom = 25 * MB / 2;
    // Its own loop may have looked once.
    store.memory_bound.cache.lock().growth = CacheGrowth::default();
    for _ in 1..CALM {
        assert_eq!(beside(10), (40 * MB, Shortage::None), "it waits for more calm");
    }
    assert_eq!(beside(10), (90 * MB - headroom, Shortage::None), "memory of idle write buffers is lent");
    fill(store);
    assert!(store.cache.bytes() as u64 > 38 * MB, "of 40,000 KB");
    assert_eq!(beside(60), (40 * MB - headroom, Shortage::Cache), "the others have it now");
    assert!(store.cache.bytes() as u64 <= 40 * MB - headroom);
    assert_eq!(beside(40), (40 * MB - headroom, Shortage::Cache));
    assert_eq!(beside(130), (5 * MB / 2, Shortage::Writers), "its least stays");
}

#[test]
fn a_cache_that_grows_gives_way_to_large_rows_and_to_the_rest_of_the_process() {
    let process = ProcessMemory { limit: || Some(128 * MB), held: || 60 * MB };
    let db = open(Options { process: Some(process), ..growing() });
    let store = db.store();
    let capacity = || store.cache.capacity() as u64;
    for _ in 0..CALM {
        store.keep_memory_bound();
    }
    // The process leaves 32 MB free, and holds 60 without a block in the cache.
    assert_eq!(capacity(), 36 * MB, "less than it begins with");
    let row = store.take_for_row(10 * MB as usize).expect("fits");
    assert_eq!(capacity(), 6 * MB, "three copies");
    drop(row);
    for _ in 0..CALM {
        store.keep_memory_bound();
    }
    assert_eq!(capacity(), 36 * MB);
}

/// The loop has stopped: nobody measures but the writers.
#[test]
fn memtables_get_lent_memory_back_before_the_next_measurement() {
    let db = open(growing());
    let store = db.store();
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    for _ in 0..CALM {
        store.keep_memory_bound();
    }
    assert!(store.cache.capacity() as u64 > 80 * MB);
    let memtables = || store.memory(0).memtables;
    for number in 0..340u32 {
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        for part in 0..100u32 {
            txn.put(&family, &(number * 100 + part).to_be_bytes(), &[1; 1000]).expect("puts");
        }
        txn.commit().expect("commits");
        let sum = store.cache.capacity() as u64 + memtables();
        assert!(sum <= 100 * MB, "{sum} with {} of memtables", memtables());
    }
    assert!(memtables() > 34 * MB, "two of them");
    // Measured once for each half of an eighth of the bound, and not for each commit.
    assert!(store.cache.capacity() as u64 > 40 * MB);
}

#[test]
fn the_end_of_the_bound_is_the_end_of_all_that_it_decided() {
    let db = open(growing());
    let store = db.store();
    give_way(store, beside_cache(130));
    store.choose_write_buffer(&store.live.get(), 90 * MB);
    let bound = || {
        (store.memory_bound.shortage(), store.cache.capacity() as u64, store.write_buffer_in_force() as u64)
    };
    assert_eq!(bound(), (Shortage::Writers, 5 * MB / 2, 5 * MB));
    db.set_live_options(&LiveOptions { max_memory: 0, ..db.live_options() }).expect("changes");
    assert_eq!(bound(), (Shortage::None, 40 * MB, 20 * MB));
    // A measurement begun under the bound ends after it.
    store.keep_memory_bound();
    assert_eq!(bound(), (Shortage::None, 40 * MB, 20 * MB));
}

#[test]
fn a_size_that_is_set_ends_the_growth() {
    let db = open(growing());
    for _ in 0..CALM {
        db.store().keep_memory_bound();
    }
    assert!(db.store().cache.capacity() as u64 > 80 * MB);
    let set = LiveOptions { cache_grows: false, block_cache_size: 30 * MB as usize, ..db.live_options() };
    db.set_live_options(&set).expect("changes");
    for _ in 0..2 * CALM {
        assert_eq!(db.store().cache.capacity() as u64, 30 * MB);
        db.store().keep_memory_bound();
    }
    db.set_live_options(&LiveOptions { max_memory: 0, cache_grows: true, ..set }).expect("changes");
    assert_eq!(db.store().cache.capacity() as u64, 30 * MB, "nothing to grow into without a bound");
}

#[test]
fn spare_memory_of_memtables_is_lent_once_nobody_writes() {
    for (grows, options) in [(false, options()), (true, growing())] {
        let db = Db::open_on(FaultyDisk::new(1).shared(), "/s", options, None).expect("opens");
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        for number in 0..3000u32 {
            txn.put(&family, &number.to_be_bytes(), &[1; 1000]).expect("puts");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
        db.stop_background();
        let store = db.store();
        let spare = || store.memory(0).spare_memtables;
        assert!(spare() > 2 * MB, "{}", spare());
        for _ in 0..100 {
            store.keep_memory_bound();
        }
        assert_eq!(spare() == 0, grows);
    }
}

#[test]
fn a_store_measures_itself() {
    let db = open(Options { heap_bytes: Some(|| 110 * MB), ..options() });
    let memory = db.store().memory(0);
    assert!(memory.total >= 110 * MB && memory.rest() >= 60 * MB, "{memory:?}");
    db.store().keep_memory_bound();
    assert!(db.store().memory_bound.shortage() >= Shortage::Cache);
    assert!((db.store().cache.capacity() as u64) < 40 * MB);
}

#[test]
fn the_sum_of_the_holders_is_the_total() {
    let db = open(options());
    fill(db.store());
    let memory = db.store().memory(0);
    assert_eq!(memory.total, memory.known());
    assert_eq!(memory.rest(), 0);
    assert!(memory.cache > 30 * MB);
}

#[test]
fn sorts_count_for_their_store_alone() {
    let (one, other) = (open(options()), open(options()));
    one.count_sort_memory(30 << 20);
    assert_eq!((one.store().memory(0).sorts, other.store().memory(0).sorts), (30 * MB, 0));
    one.count_sort_memory(-(30 << 20));
    assert_eq!(one.store().memory(0).sorts, 0);
}

proptest! {
    #[test]
    fn cache_and_others_stay_within_the_bound(
        cache in 1u64..200, buffer in 1u64..50, bound in 1u64..400, rows in 0u64..100, others in 0u64..400,
    ) {
        let options = LiveOptions::of(&Options {
            max_memory: bound * MB,
            write_buffer_size: (buffer * MB) as usize,
            block_cache_size: (cache * MB) as usize,
            ..Options::default()
        });
        let size = cache_size(&options, rows * MB, beside_cache(others));
        prop_assert!(size <= cache * MB);
        prop_assert!(size + others * MB <= options.max_memory || size <= least_cache(&options));
        prop_assert!(size + rows * MB + 2 * buffer * MB <= options.max_memory || size == 0);
        let waits = shortage(&options, others * MB, size) >= Shortage::Background;
        prop_assert!(!waits || others + cache / 16 + 1 > bound, "nobody waits while all fits");
    }

    #[test]
    fn a_cache_that_grows_and_others_stay_within_the_bound(
        buffer in 1u64..50, bound in 1u64..400, rows in 0u64..100, others in 0u64..400, left in 0u64..400,
    ) {
        let options = LiveOptions::of(&Options {
            cache_grows: true,
            max_memory: bound * MB,
            write_buffer_size: (buffer * MB) as usize,
            block_cache_size: MB as usize,
            ..Options::default()
        });
        let size = cache_size(&options, rows * MB, Others { bytes: others * MB, left: left * MB });
        prop_assert!(size + (others + rows) * MB <= options.max_memory || size == least_cache(&options));
        prop_assert!(size + rows * MB <= left * MB || size == least_cache(&options));
    }
}

#[test]
fn a_statement_waits_while_commits_have_much_memory() {
    let db = open(options());
    let (store, owner) = (db.store(), LockOwner::new(1));
    let committing = &store.stats.committing_bytes;
    let patience = Duration::from_secs(20);
    store.throttle(patience, &owner).expect("nobody commits");
    committing.store(100 * MB, Relaxed);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            committing.store(0, Relaxed);
        });
        store.throttle(patience, &owner).expect("they end");
    });
    assert!(begun.elapsed() >= Duration::from_millis(100) && begun.elapsed() < patience);
    committing.store(100 * MB, Relaxed);
    let begun = Instant::now();
    store.throttle(Duration::from_millis(50), &owner).expect("the statement goes on");
    assert!(begun.elapsed() >= Duration::from_millis(50));
    let begun = Instant::now();
    store.throttle(patience, &owner).expect("it goes on though nobody gives memory back");
    assert!(begun.elapsed() < patience);
    // Those that commit may wait for an applier's turn.
    let begun = Instant::now();
    let applier = LockOwner::new(2);
    applier.set_applier(true);
    store.throttle(patience, &applier).expect("an applier goes on");
    assert!(begun.elapsed() < Duration::from_secs(1));
    LockManager::new(None, Arc::new(SystemClock)).kill(&owner);
    assert!(matches!(store.throttle(patience, &owner), Err(Error::Interrupted)));
    committing.store(0, Relaxed);
}

#[test]
fn where_memory_stands_still_not_every_row_waits() {
    let db = open(options());
    let (store, owner) = (db.store(), LockOwner::new(1));
    let begun = Instant::now();
    for _ in 0..50 {
        let reserved = store.wait_for_transactions(Duration::from_secs(20), &owner, || false);
        assert!(!reserved.expect("nobody kills it"));
    }
    assert!(begun.elapsed() >= Duration::from_millis(100), "the first waits");
    assert!(begun.elapsed() < Duration::from_secs(4), "each waited: {:?}", begun.elapsed());
    assert!(store.wait_for_transactions(Duration::ZERO, &owner, || true).expect("nobody kills it"));
}

#[test]
fn write_buffers_give_way_where_the_cache_is_at_its_least() {
    let db = open(options());
    let store = db.store();
    let beside = |fixed: u64| store.choose_write_buffer(&store.live.get(), fixed);
    beside(30 * MB);
    assert_eq!(store.write_buffer_in_force(), 20 * MB as usize, "there is room");
    beside(60 * MB);
    let smaller = store.write_buffer_in_force() as u64;
    assert!((10 * MB..14 * MB).contains(&smaller), "{smaller}");
    beside(61 * MB);
    assert_eq!(store.write_buffer_in_force() as u64, smaller, "a megabyte changes nothing");
    beside(1 << 40);
    assert_eq!(store.write_buffer_in_force(), 5 * MB as usize, "a quarter stays");
    beside(0);
    assert_eq!(store.write_buffer_in_force(), 20 * MB as usize);
}
