//! Readers of one block that is missing from the cache, on a disk that counts its reads.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::memory_disk::{MemoryDisk, MemoryFile};
use super::*;
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::io::{Disk, FaultyDisk, OpenMode};
use crate::iter::VersionIterator;
use crate::options::LogSink;
use crate::types::{Entry, Kind, MAX_SEQ};

const FILE: u64 = 9;
const ROWS: u32 = 100;

struct Store {
    file: Arc<MemoryFile>,
    cache: Arc<BlockCache>,
    table: Arc<SsTable>,
}

/// A table of several blocks, not opened, and nothing of its blocks in the cache.
fn store() -> Store {
    store_with(&SsTableOptions { block_size: 256, ..SsTableOptions::default() }, 0, None)
}

/// The same. With a second copy in the file `mirror`, unless that is 0, and with a log.
fn store_with(options: &SsTableOptions, mirror: u64, log: Option<LogSink>) -> Store {
    let disk = Arc::new(MemoryDisk::default());
    let path = |number| Path::new("store").join(TableStore::file_name(number));
    let mut written = None;
    for number in [FILE, mirror].into_iter().filter(|number| *number != 0) {
        let file = disk.open(&path(number), OpenMode::Create).unwrap();
        let mut writer = SsTableWriter::new(file, 0, 3, options.clone());
        for row in 0..ROWS {
            writer.add(&row.to_be_bytes(), Entry::new(1, Kind::PUT, &row.to_le_bytes())).unwrap();
        }
        written = Some(SsTableMeta { mirror, ..writer.finish().unwrap() });
    }
    let cache = BlockCache::new(1 << 20);
    let files = TableStore::telling(Arc::clone(&disk) as Arc<dyn Disk>, "store", 8, log);
    let table = SsTable::open(files, Arc::clone(&cache), FILE, written.unwrap());
    Store { file: disk.file(&path(FILE)), cache, table }
}

/// A fault ends the test.
fn wait_until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody came");
        thread::yield_now();
    }
}

fn in_threads<T: Send>(threads: usize, call: impl Fn() -> T + Sync) -> Vec<thread::Result<T>> {
    thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(&call)).collect();
        spawned.into_iter().map(thread::ScopedJoinHandle::join).collect()
    })
}

/// The results of `threads` threads that read one row at once, and the number of reads of the disk. The first read ends
/// with `first`, after every other thread waits for it or reads too.
fn read_at_once(
    store: &Store,
    threads: usize,
    first: fn() -> Result<()>,
) -> (Vec<thread::Result<Result<Option<Hit>>>>, usize) {
    store.table.properties().unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let (count, cache) = (Arc::clone(&reads), Arc::clone(&store.cache));
    store.file.on_read.set(move || {
        if count.fetch_add(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        wait_until(|| cache.waiting() + count.load(Ordering::SeqCst) >= threads);
        first()
    });
    let key = 50u32.to_be_bytes();
    let got = in_threads(threads, || store.table.get(&key, hash_key(&key), MAX_SEQ));
    (got, reads.load(Ordering::SeqCst))
}

fn found(got: &[thread::Result<Result<Option<Hit>>>]) -> usize {
    let value = 50u32.to_le_bytes();
    got.iter().filter(|got| matches!(got, Ok(Ok(Some(hit))) if hit.stored() == value)).count()
}

#[test]
fn readers_of_one_missing_block_read_the_disk_once() {
    let store = store();
    let (got, reads) = read_at_once(&store, 8, || Ok(()));
    assert_eq!((found(&got), reads), (8, 1));
    assert_eq!(store.cache.entries(), 1);
}

#[test]
fn the_error_of_the_first_reader_is_its_own() {
    let store = store();
    let (got, reads) = read_at_once(&store, 5, || Err(Error::InvalidArgument("a bad moment".into())));
    assert_eq!(found(&got), 4);
    // Late ones may find it in the cache.
    assert!((2..=5).contains(&reads), "{reads}");
    let errors =
        got.iter().filter(|got| matches!(got, Ok(Err(error)) if error.to_string().contains("a bad moment")));
    assert_eq!(errors.count(), 1);
}

#[test]
fn the_panic_of_the_first_reader_leaves_nobody_waiting() {
    let store = store();
    let (got, reads) = read_at_once(&store, 5, || panic!("in the middle of the first read"));
    assert_eq!(found(&got), 4);
    assert!((2..=5).contains(&reads), "{reads}");
    assert_eq!(got.iter().filter(|got| got.is_err()).count(), 1);
    assert_eq!(store.cache.waiting(), 0);
}

#[test]
fn threads_that_open_a_table_at_once_read_its_end_once() {
    let store = store();
    let begun = Arc::new(AtomicUsize::new(0));
    let reads = Arc::new(AtomicUsize::new(0));
    let (others, count) = (Arc::clone(&begun), Arc::clone(&reads));
    store.file.on_read.set(move || {
        count.fetch_add(1, Ordering::SeqCst);
        wait_until(|| others.load(Ordering::SeqCst) == 6);
        Ok(())
    });
    let opened = in_threads(6, || {
        begun.fetch_add(1, Ordering::SeqCst);
        store.table.properties().unwrap().entries
    });
    assert!(opened.iter().all(|entries| matches!(entries, Ok(entries) if *entries == u64::from(ROWS))));
    assert_eq!(reads.load(Ordering::SeqCst), 1);
}

/// A queue of failing reads would take as many times as long as one: each of the others begins its own before any ends.
#[test]
fn after_a_failed_opening_the_others_read_at_once_and_not_in_turn() {
    const THREADS: usize = 6;
    let store = store();
    let reads = Arc::new(AtomicUsize::new(0));
    let (count, table) = (Arc::clone(&reads), Arc::clone(&store.table));
    store.file.on_read.set(move || {
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let is_time = || match is_first {
            true => table.waiting_to_open() == THREADS - 1,
            false => count.load(Ordering::SeqCst) == THREADS,
        };
        wait_until(is_time);
        Err(Error::InvalidArgument("a bad moment".into()))
    });
    let opened = in_threads(THREADS, || store.table.properties().is_err());
    assert!(opened.iter().all(|failed| matches!(failed, Ok(true))));
    store.file.on_read.set(|| Ok(()));
    assert_eq!(store.table.properties().unwrap().entries, u64::from(ROWS));
}

/// Client and merge read the same of a table: neither waits for the other. With `use_btree` its uppermost index block, too,
/// is read through the cache.
#[test]
fn a_merge_shares_no_read() {
    for use_btree in [false, true] {
        let options = SsTableOptions { block_size: 256, use_btree, ..SsTableOptions::default() };
        for opened_before in [false, true] {
            let store = store_with(&options, 0, None);
            if opened_before {
                store.table.properties().unwrap();
            }
            let (begun, merged) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (count, done) = (Arc::clone(&begun), Arc::clone(&merged));
            // The client's read lasts until the merge has read all.
            store.file.on_read.set(move || {
                if count.fetch_add(1, Ordering::SeqCst) == 0 {
                    wait_until(|| done.load(Ordering::SeqCst) > 0);
                }
                Ok(())
            });
            let key = 0u32.to_be_bytes();
            thread::scope(|scope| {
                let client = scope.spawn(|| store.table.get(&key, hash_key(&key), MAX_SEQ));
                wait_until(|| begun.load(Ordering::SeqCst) > 0);
                let mut merge = store.table.version_iter();
                let mut rows = 0;
                merge.seek(&key).unwrap();
                while merge.valid() {
                    rows += 1;
                    merge.next().unwrap();
                }
                merged.store(1, Ordering::SeqCst);
                assert_eq!(rows, ROWS);
                assert!(client.join().unwrap().unwrap().is_some());
            });
        }
    }
}

/// A program's log may read what it is told of.
#[test]
fn the_log_is_told_of_damage_when_nobody_waits() {
    static TABLE: OnceLock<Arc<SsTable>> = OnceLock::new();
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let get = |table: &SsTable| {
        let key = 50u32.to_be_bytes();
        table.get(&key, hash_key(&key), MAX_SEQ).unwrap().is_some()
    };
    let log = LogSink::new(move |_, _| {
        TOLD.fetch_add(1, Ordering::SeqCst);
        assert!(TABLE.get().is_some_and(|table| get(table)));
    });
    let options = SsTableOptions { block_size: 256, ..SsTableOptions::default() };
    let store = store_with(&options, FILE + 1, Some(log));
    TABLE.set(Arc::clone(&store.table)).unwrap();
    store.table.properties().unwrap();
    let opened = store.file.bytes.read().clone();
    store.file.bytes.write()[..2000].fill(0xff);
    assert_ne!(*store.file.bytes.read(), opened, "its first blocks are damaged");
    assert!(get(&store.table));
    assert_eq!(TOLD.load(Ordering::SeqCst), 1);
}

/// The same where the file system refuses direct reads: it says so in the read of a table's end, or of a block.
#[test]
fn the_log_is_told_of_refused_direct_reads_when_nobody_waits() {
    let get = |table: &SsTable| {
        let key = 50u32.to_be_bytes();
        table.get(&key, hash_key(&key), MAX_SEQ).unwrap().is_some()
    };
    for opened_before in [false, true] {
        let disk = FaultyDisk::new(1);
        disk.refuse_direct(true);
        disk.shared().create_dir_all(Path::new("/s")).unwrap();
        let (read, told) = (Arc::new(OnceLock::<Arc<SsTable>>::new()), Arc::new(AtomicUsize::new(0)));
        let (table, count) = (Arc::clone(&read), Arc::clone(&told));
        let log = LogSink::new(move |_, _| {
            let table = Arc::clone(table.get().unwrap());
            let other = thread::spawn(move || get(&table));
            wait_until(|| other.is_finished());
            assert!(other.join().unwrap());
            count.fetch_add(1, Ordering::SeqCst);
        });
        let files = TableStore::telling(disk.shared(), "/s", 8, Some(log));
        let options = SsTableOptions { block_size: 256, ..SsTableOptions::default() };
        let mut writer = SsTableWriter::new(files.create(FILE).unwrap(), 0, 3, options);
        for row in 0..ROWS {
            writer.add(&row.to_be_bytes(), Entry::new(1, Kind::PUT, &row.to_le_bytes())).unwrap();
        }
        let cache = BlockCache::new(1 << 20);
        let table = SsTable::open(Arc::clone(&files), cache, FILE, writer.finish().unwrap());
        read.set(Arc::clone(&table)).unwrap();
        if opened_before {
            table.properties().unwrap();
            files.forget(FILE);
        }
        files.set_direct(true);
        assert!(get(&table));
        assert_eq!(told.load(Ordering::SeqCst), 1);
        assert!(!files.is_direct());
    }
}
