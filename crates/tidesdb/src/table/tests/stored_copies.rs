//! Compressed tables larger than the cache.

use super::*;
use crate::cache::CachePriority;
use crate::io::FaultyDisk;

const ROWS: u64 = 20_000;

/// Requests of point reads of all rows, and of scans, in the fourth to the ninth pass, with a cache of `capacity`, past the page
/// cache or not.
fn requests(compression: Compression, capacity: usize, is_direct: bool) -> [u64; 2] {
    let disk = FaultyDisk::new(7);
    disk.shared().create_dir_all(Path::new("/s")).unwrap();
    let files = TableStore::new(disk.shared(), "/s", 8);
    files.set_direct(is_direct);
    let options = SsTableOptions { compression, block_size: 4096, ..SsTableOptions::default() };
    let mut writer =
        SsTableWriter::new(files.create(FILE).unwrap(), 0, 3, options).in_format(FormatVersion::Two);
    for row in 0..ROWS {
        writer.add(&key(row), Entry::new(1, Kind::PUT, &value(row))).unwrap();
    }
    let cache = BlockCache::new(capacity);
    let table = SsTable::open(Arc::clone(&files), Arc::clone(&cache), FILE, writer.finish().unwrap());
    let cost = |read: &dyn Fn()| {
        let before = files.reads();
        read();
        assert!(cache.bytes() <= cache.capacity());
        files.reads() - before
    };
    let points = || {
        for row in 0..ROWS {
            // No order of the file.
            let row = row * 7_919 % ROWS;
            let got = table.get(&key(row), hash_key(&key(row)), MAX_SEQ).unwrap().expect("is there");
            assert_eq!(got.entry().stored(), value(row));
        }
    };
    let scans = || {
        for from in (0..ROWS).step_by(100) {
            let range = KeyRange { lower: Some(key(from).to_vec()), upper: Some(key(from + 100).to_vec()) };
            let mut iter = table.iter_within(MAX_SEQ, &Arc::new(range));
            iter.seek(&key(from)).unwrap();
            for row in from..from + 100 {
                assert_eq!((iter.key(), iter.entry().stored()), (&key(row)[..], &value(row)[..]));
                iter.next().unwrap();
            }
        }
    };
    let passes = (0..9).map(|_| [cost(&points), cost(&scans)]);
    passes.skip(3).fold([0, 0], |sum, pass| [sum[0] + pass[0], sum[1] + pass[1]])
}

fn key(row: u64) -> [u8; 8] {
    row.to_be_bytes()
}

/// Digits in half of the row.
fn value(row: u64) -> Vec<u8> {
    let mut value = row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string().into_bytes();
    value.resize(200, b' ');
    value
}

#[test]
fn a_cache_that_holds_a_table_compressed_reads_it_once() {
    // Raw 4.2 MB, compressed less than 1.
    let [points, scans] = requests(Compression::Zstd, 2 << 20, true);
    // Blocks that came while there was room have no copy at first.
    assert!(points <= 1000 && scans <= 20, "{points} {scans}");
    // Without compression, and where the page cache has the blocks as they are stored.
    for (compression, is_direct) in [(Compression::None, true), (Compression::Zstd, false)] {
        let [points, scans] = requests(compression, 2 << 20, is_direct);
        assert!(points > 6 * 5_000 && scans > 6 * 100, "{points} {scans}");
    }
}

#[test]
fn a_damaged_copy_is_dropped_and_the_file_answers() {
    let options = SsTableOptions { compression: Compression::Zstd, ..SsTableOptions::default() };
    let model: Model =
        (0..1000).map(|row| ((key(row).to_vec(), Reverse(1)), (Kind::PUT, value(row)))).collect();
    let (store, table) = table_of(&options, &model);
    store.files.set_direct(true);
    let read = || {
        let before = store.files.reads();
        let got = table.get(&key(0), hash_key(&key(0)), MAX_SEQ).unwrap().expect("is there");
        assert_eq!(got.entry().stored(), value(0));
        store.files.reads() - before
    };
    // In a cache full of blocks that nobody uses.
    for at in 0..1000 {
        store.cache.insert(FILE + 1, at << 12, store.cache.frame(4000).freeze(), CachePriority::Low);
    }
    assert!(read() > 0);
    assert!(store.cache.holds(FILE, 0) && store.cache.holds_stored_copy(FILE, 0), "the block, for a while");
    let forget = || {
        for at in 0..1000 {
            store.cache.insert(FILE + 2, at << 12, store.cache.frame(4000).freeze(), CachePriority::Young);
        }
        assert!(!store.cache.holds(FILE, 0));
    };
    forget();
    store.cache.drop_stored_copy(FILE, 0);
    store.cache.admit((FILE, 0), &[7; 100], &store.cache.frame(4000).freeze(), CachePriority::High);
    assert_eq!(read(), 1, "the file answers");
    assert!(store.cache.holds_stored_copy(FILE, 0), "a good copy is in the place of the damaged one");
    forget();
    assert_eq!(read(), 0);
    assert_eq!(store.cache.copy_hits(), 2);
}
