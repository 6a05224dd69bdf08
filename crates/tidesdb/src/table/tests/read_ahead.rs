//! Requests of the disk that reads cost.

use std::sync::atomic::AtomicUsize;

use super::super::block::BlockHandle;
use super::super::index::IndexEntry;
use super::super::keyed_block::KeyedBuilder;
use super::*;
use crate::io::{AlignedBuffer, FaultyDisk};

const ROWS: u64 = 20_000;

/// A table of rows of 200 bytes, nothing of it cached, read past the page cache unless the disk refuses.
struct Cold {
    files: Arc<TableStore>,
    cache: Arc<BlockCache>,
    table: Arc<SsTable>,
}

impl Cold {
    fn new(refuses: bool) -> Cold {
        let disk = FaultyDisk::new(7);
        disk.refuse_direct(refuses);
        Cold::on(&disk)
    }

    fn on(disk: &FaultyDisk) -> Cold {
        disk.shared().create_dir_all(Path::new("/s")).unwrap();
        let files = TableStore::new(disk.shared(), "/s", 8);
        files.set_direct(true);
        let options =
            SsTableOptions { compression: Compression::None, block_size: 4096, ..SsTableOptions::default() };
        let mut writer =
            SsTableWriter::new(files.create(FILE).unwrap(), 0, 3, options).in_format(FormatVersion::Two);
        for row in 0..ROWS {
            writer.add(&key(row), Entry::new(1, Kind::PUT, &[row as u8; 200])).unwrap();
        }
        let cache = BlockCache::new(8 << 20);
        let table = SsTable::open(Arc::clone(&files), Arc::clone(&cache), FILE, writer.finish().unwrap());
        // Footer, properties and top index are resident; the partitions of the index are cached.
        for row in (0..ROWS).step_by(50) {
            table.get(&key(row), hash_key(&key(row)), MAX_SEQ).unwrap().expect("is there");
        }
        let cold = Cold { files, cache, table };
        cold.forget_data();
        cold
    }

    /// Takes data blocks out of the cache, and leaves the index.
    fn forget_data(&self) {
        self.cache.erase_file(FILE);
        let mut index = super::super::iterator::IndexCursor::new(Some(crate::cache::CachePriority::High));
        let mut more = index.first(&self.table).unwrap();
        while more {
            more = index.next(&self.table).unwrap();
        }
    }

    /// Places of the data blocks, in order of their keys.
    fn blocks(&self) -> Vec<BlockFacts> {
        let mut blocks = Vec::new();
        self.table.each_block(&mut |block| {
            blocks.push(block.unwrap());
            true
        });
        blocks
    }

    /// Requests and bytes of `read`.
    fn cost(&self, read: impl FnOnce()) -> (u64, u64) {
        let before = (self.files.reads(), self.files.read_bytes());
        read();
        (self.files.reads() - before.0, self.files.read_bytes() - before.1)
    }

    fn scan(&self, range: Option<KeyRange>, from: u64, rows: u64, forward: bool) {
        let mut iter = match range {
            Some(range) => self.table.iter_within(MAX_SEQ, &Arc::new(range)),
            None => self.table.iter(MAX_SEQ),
        };
        if forward { iter.seek(&key(from)) } else { iter.seek_for_prev(&key(from)) }.unwrap();
        for step in 0..rows {
            let row = if forward { from + step } else { from - step };
            assert_eq!(iter.key(), key(row));
            assert_eq!(iter.entry().stored(), [row as u8; 200]);
            if forward { iter.next() } else { iter.prev() }.unwrap();
        }
    }
}

fn key(row: u64) -> [u8; 8] {
    row.to_be_bytes()
}

fn between(from: u64, to: u64) -> Option<KeyRange> {
    Some(KeyRange { lower: Some(key(from).to_vec()), upper: Some(key(to).to_vec()) })
}

#[test]
fn a_cold_point_read_is_one_request_of_a_block_and_its_sectors() {
    for refuses in [false, true] {
        let cold = Cold::new(refuses);
        assert_eq!(cold.files.is_direct(), !refuses);
        for row in [0, 77, 9_999, ROWS - 1] {
            let (reads, bytes) = cold.cost(|| {
                cold.table.get(&key(row), hash_key(&key(row)), MAX_SEQ).unwrap().expect("is there");
            });
            assert!(reads == 1 && bytes <= 5 << 10, "row {row}: {reads} requests, {bytes} bytes");
        }
    }
}

#[test]
fn a_cold_range_with_a_known_end_is_one_request_in_both_directions() {
    for refuses in [false, true] {
        let cold = Cold::new(refuses);
        for from in [0, 1_234, 9_990, ROWS - 100] {
            for forward in [true, false] {
                cold.forget_data();
                let begin = if forward { from } else { from + 99 };
                let (reads, bytes) = cold.cost(|| cold.scan(between(from, from + 100), begin, 100, forward));
                // Two at the border of two partitions of the index.
                assert!(reads <= 2 && bytes <= 36 << 10, "{from} {forward}: {reads} requests, {bytes} bytes");
                let (reads, _) = cold.cost(|| cold.scan(between(from, from + 100), begin, 100, forward));
                assert_eq!(reads, 0, "all of it is cached");
            }
        }
        cold.forget_data();
        let ranges = (0..100).map(|n| n * 180);
        let reads: u64 =
            ranges.map(|from| cold.cost(|| cold.scan(between(from, from + 100), from, 100, true)).0).sum();
        assert!(reads <= 110, "{reads} requests for 100 ranges");
    }
}

#[test]
fn a_range_with_a_cached_block_in_the_middle_is_one_request_and_ends_at_the_last_missing_one() {
    let cold = Cold::new(false);
    let read = |row: u64| {
        cold.table.get(&key(row), hash_key(&key(row)), MAX_SEQ).unwrap().expect("is there");
    };
    let range = |forward: bool| {
        let begin = if forward { 5_000 } else { 5_099 };
        cold.cost(|| cold.scan(between(5_000, 5_100), begin, 100, forward))
    };
    let (_, whole) = range(true);
    for forward in [true, false] {
        cold.forget_data();
        read(5_050);
        assert_eq!(range(forward), (1, whole), "forward: {forward}");
        // The end that is cached is not read.
        cold.forget_data();
        read(if forward { 5_099 } else { 5_000 });
        let (reads, bytes) = range(forward);
        assert!(reads == 1 && bytes <= whole - (3 << 10), "{forward}: {reads} requests, {bytes} of {whole}");
        // More than a few are not read over.
        cold.forget_data();
        (5_020..5_120).for_each(read);
        (5_130..5_140).for_each(read);
        let all =
            cold.cost(|| cold.scan(between(5_000, 5_150), if forward { 5_000 } else { 5_149 }, 150, forward));
        assert!(all.0 >= 2 && all.1 <= 25 << 10, "{forward}: {all:?}");
    }
}

#[test]
fn a_scan_without_an_end_reads_little_at_first_and_long_stretches_later() {
    let cold = Cold::new(false);
    let (reads, bytes) = cold.cost(|| cold.scan(None, 5_000, 1, true));
    assert!(reads == 1 && bytes <= 5 << 10, "{reads} requests, {bytes} bytes");
    cold.forget_data();
    for forward in [true, false] {
        let begin = if forward { 0 } else { ROWS - 1 };
        let (reads, bytes) = cold.cost(|| cold.scan(None, begin, ROWS, forward));
        let all = cold.table.meta().len;
        assert!(reads < all / (100 << 10), "{reads} requests for {all} bytes");
        assert!(bytes < all + all / 8, "{bytes} of {all} bytes");
        cold.forget_data();
    }
}

#[test]
fn a_scan_that_is_given_up_before_its_known_end_has_read_no_more_than_the_first_stretch() {
    let cold = Cold::new(false);
    let (reads, bytes) = cold.cost(|| cold.scan(between(5_000, 15_000), 5_000, 1, true));
    assert!(reads == 1 && bytes <= 34 << 10, "{reads} requests, {bytes} bytes");
}

#[test]
fn a_bad_sector_costs_the_block_that_it_is_in_and_no_other() {
    let disk = FaultyDisk::new(7);
    let cold = Cold::on(&disk);
    let sector = crate::io::faulty::Fault {
        op: Some(crate::io::faulty::Op::Read),
        path: String::new(),
        skip: 0,
        times: 1,
        failure: crate::io::faulty::Failure::Eio,
    };
    disk.fail(sector);
    // The long read fails, and the first block alone is read.
    cold.scan(between(5_000, 5_100), 5_000, 5, true);
    disk.heal();
}

#[test]
fn a_refusal_of_direct_reads_is_told_once_and_costs_nothing_else() {
    let lines = Arc::new(crate::sync::Mutex::new(Vec::new()));
    let sink = crate::options::LogSink::new({
        let lines = Arc::clone(&lines);
        move |_, line: &str| lines.lock().push(line.to_string())
    });
    let disk = FaultyDisk::new(7);
    disk.shared().create_dir_all(Path::new("/s")).unwrap();
    disk.refuse_direct(true);
    let files = TableStore::telling(disk.shared(), "/s", 8, Some(sink));
    files.set_direct(true);
    for number in [1, 2] {
        files.create(number).unwrap().write_at(b"bytes", 0).unwrap();
        assert_eq!(files.get(number).unwrap().alignment(), 1);
    }
    assert_eq!(lines.lock().len(), 1, "{:?}", lines.lock());
    assert!(lines.lock()[0].contains("through the page cache"));
}

#[test]
fn a_bad_sector_at_its_begin_keeps_no_file_from_being_opened() {
    let disk = FaultyDisk::new(7);
    disk.shared().create_dir_all(Path::new("/s")).unwrap();
    let files = TableStore::new(disk.shared(), "/s", 8);
    files.create(1).unwrap().write_at(&[7; 20_000], 0).unwrap();
    disk.spoil("/s/", 0..512);
    files.set_direct(true);
    let file = files.get(1).unwrap();
    assert!(file.alignment() > 1 && files.is_direct());
    let mut buffer = AlignedBuffer::default();
    assert_eq!(buffer.read(&*file, 10_000, 3).unwrap(), [7; 3]);
    assert!(buffer.read(&*file, 0, 1).is_err());
}

/// Reads of the disk by `read`.
fn requests(disk: &FaultyDisk, read: impl FnOnce()) -> usize {
    let reads = || disk.history().iter().filter(|op| **op == crate::io::faulty::Op::Read).count();
    let before = reads();
    read();
    reads() - before
}

#[test]
fn a_bad_sector_costs_a_scan_up_to_it_one_long_read_in_vain() {
    let disk = FaultyDisk::new(7);
    let cold = Cold::on(&disk);
    let all = cold.blocks();
    // Near the end of the longest stretch.
    const BEFORE: usize = 112;
    for forward in [true, false] {
        cold.forget_data();
        let bad = &all[if forward { BEFORE } else { all.len() - 1 - BEFORE }];
        disk.spoil("/s/", bad.offset + 2000..bad.offset + 2001);
        let reads = requests(&disk, || {
            let mut iter = cold.table.iter_within(MAX_SEQ, &Arc::new(between(0, ROWS).unwrap()));
            let mut step = if forward { iter.seek_to_first() } else { iter.seek_to_last() };
            let mut rows = 0;
            while step.is_ok() && iter.valid() {
                rows += 1;
                step = if forward { iter.next() } else { iter.prev() };
            }
            step.expect_err("the block is bad");
            let good = if forward { bad.before } else { ROWS - all[all.len() - BEFORE].before };
            assert_eq!(rows, good);
        });
        disk.heal();
        assert!(reads <= BEFORE + 2, "{forward}: {reads} reads of {BEFORE} blocks and a bad one");
    }
}

#[test]
fn a_bad_sector_costs_a_merge_one_long_read_in_vain() {
    let disk = FaultyDisk::new(7);
    let cold = Cold::on(&disk);
    let all = cold.blocks();
    let bad = &all[55];
    disk.spoil("/s/", bad.offset + 2000..bad.offset + 2001);
    let (mut rows, mut errors) = (0, 0);
    let reads = requests(&disk, || {
        let mut iter = cold.table.version_iter();
        let mut step = iter.seek(&[]);
        loop {
            match step {
                Ok(()) if !iter.valid() => break,
                Ok(()) => {
                    rows += 1;
                    step = iter.next();
                }
                Err(_) => {
                    errors += 1;
                    step = iter.skip();
                }
            }
        }
    });
    assert_eq!((rows, errors), (ROWS - (all[56].before - bad.before), 1));
    // The index by partitions, the blocks of one stretch alone, and stretches.
    assert!(reads < 100, "{reads} reads");
}

#[test]
fn verification_reads_by_long_requests() {
    for refuses in [false, true] {
        let disk = FaultyDisk::new(7);
        disk.refuse_direct(refuses);
        let cold = Cold::on(&disk);
        let mut counted = 0;
        let reads =
            requests(&disk, || counted = cold.cost(|| assert_eq!(cold.table.verify().unwrap().keys, ROWS)).0);
        let len = cold.table.meta().len;
        assert!(reads as u64 <= 2 * len / (256 << 10) + 20, "{reads} requests for {len} bytes");
        assert!(counted > len / (256 << 10) && counted <= reads as u64, "{counted} of {reads} requests");
    }
}

#[test]
fn a_read_that_failed_counts_for_nothing() {
    let disk = FaultyDisk::new(7);
    let cold = Cold::on(&disk);
    disk.spoil("/s/", 0..u64::MAX);
    let get = || cold.table.get(&key(77), hash_key(&key(77)), MAX_SEQ);
    assert_eq!(cold.cost(|| drop(get().unwrap_err())), (0, 0));
    disk.heal();
    let (reads, bytes) = cold.cost(|| drop(get().unwrap().expect("is there")));
    assert!(reads == 1 && bytes <= 5 << 10, "{reads} requests, {bytes} bytes");
}

#[test]
fn memory_of_read_ahead_counts_while_the_disk_is_read() {
    let row = |row: u64| ((key(row).to_vec(), Reverse(1)), (Kind::PUT, vec![row as u8; 200]));
    let model: Model = (0..2_000).map(row).collect();
    let options = SsTableOptions { compression: Compression::None, ..SsTableOptions::default() };
    let (store, table) = table_of(&options, &model);
    table.properties().unwrap();
    let most = Arc::new(AtomicUsize::new(0));
    let (cache, seen) = (Arc::clone(&store.cache), Arc::clone(&most));
    store.file().on_read.set(move || {
        seen.fetch_max(cache.read_ahead.bytes(), Ordering::Relaxed);
        Ok(())
    });
    table.version_iter().seek(&[]).unwrap();
    assert!(most.load(Ordering::Relaxed) >= 256 << 10, "{most:?}");
}

/// Puts another first partition of the index into the cache.
fn forge_index(cold: &Cold, entries: &[(u64, Vec<u8>)]) {
    let opened = cold.table.opened().unwrap();
    let top = cold.table.load_top(opened, None).unwrap();
    let index = cold.table.parse(&top, opened.footer.top).unwrap();
    let leaf = IndexEntry::read(&index, 0).unwrap().0.block;
    let (mut builder, mut payload) = (KeyedBuilder::default(), Vec::new());
    for (row, body) in entries {
        builder.push(&key(*row));
        builder.body().extend_from_slice(body);
    }
    builder.finish(0, &mut payload);
    cold.cache.erase_file(FILE);
    let mut frame = cold.cache.frame(payload.len());
    frame.copy_from_slice(&payload);
    cold.cache.insert(FILE, leaf.offset, frame.freeze(), crate::cache::CachePriority::High);
}

#[test]
fn damage_of_the_index_after_a_block_is_no_error_of_the_block() {
    let cold = Cold::new(false);
    let blocks = cold.blocks();
    let body = |offset: u64, len: u64| {
        let mut body = Vec::new();
        IndexEntry { block: BlockHandle { offset, len }, ..IndexEntry::default() }.put(&mut body);
        body
    };
    let cut_short = vec![0xff];
    forge_index(&cold, &[(9, body(blocks[0].offset, blocks[0].len)), (20, cut_short)]);
    cold.scan(between(0, ROWS), 0, 5, true);
    forge_index(&cold, &[(9, body(blocks[0].offset, u64::MAX - 7)), (20, body(0, 5))]);
    let mut iter = cold.table.iter_within(MAX_SEQ, &Arc::new(between(0, ROWS).unwrap()));
    let error = iter.seek(&key(0)).unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
}
