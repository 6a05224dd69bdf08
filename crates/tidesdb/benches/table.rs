//! A segment whose blocks are all cached: point reads (found, absent, of a few hot keys) and short scans.
//! `cargo bench -p tidesdb --bench table`.

#![allow(missing_docs)]

// What the disk in memory of the table room's tests names by `crate::`.
use tidesdb::{error, io};

#[path = "../src/table/memory_disk.rs"]
#[allow(dead_code, missing_docs)]
mod memory_disk;

use std::path::Path;
use std::sync::Arc;

use criterion::{criterion_group, criterion_main, Criterion};
use io::{table_path, Disk, OpenMode};
use tidesdb::cache::{BlockCache, FileCache};
use tidesdb::iter::{RawSource, Source};
use tidesdb::options::Compression;
use tidesdb::table::{hash_key, Segment, SegmentOptions, SegmentWriter};
use tidesdb::types::{Entry, Kind, MAX_SEQ};

const ROWS: u64 = 300_000;

/// Keys as a table with an integer primary key has them: index number, then the number.
fn key(i: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&257u32.to_be_bytes());
    key[4..].copy_from_slice(&(i * 2).to_be_bytes());
    key
}

fn segment(compression: Compression, bits_per_key: u32) -> Arc<Segment> {
    let disk = Arc::new(memory_disk::MemoryDisk::default());
    let files = FileCache::new(Arc::clone(&disk) as Arc<dyn Disk>, "store", 8);
    let path = table_path(Path::new("store"), 1);
    let file = disk.open(&path, OpenMode::Create).expect("a file in memory");
    let options = SegmentOptions { compression, bits_per_key, ..SegmentOptions::default() };
    let mut writer = SegmentWriter::new(file, 0, 1, options);
    for i in 0..ROWS {
        let value = [i as u8; 100];
        writer.add(&key(i), Entry { seq: i + 1, kind: Kind::PUT, value: &value }).expect("ascending keys");
    }
    let meta = writer.finish().expect("a segment");
    Segment::open(files, BlockCache::new(256 << 20), 1, meta)
}

fn benches(criterion: &mut Criterion) {
    let segment = segment(Compression::Lz4, 0);
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for i in 0..ROWS {
        let key = key(i);
        assert!(segment.get(&key, hash_key(&key), MAX_SEQ).expect("no damage").is_some());
    }
    criterion.bench_function("get/any", |bench| {
        bench.iter(|| {
            let key = key(random(ROWS));
            segment.get(&key, hash_key(&key), MAX_SEQ).expect("no damage").map(|hit| hit.value()[0])
        });
    });
    criterion.bench_function("get/hot", |bench| {
        bench.iter(|| {
            let key = key(random(100) * 1000);
            segment.get(&key, hash_key(&key), MAX_SEQ).expect("no damage").map(|hit| hit.value()[0])
        });
    });
    for rows in [1, 10, 100] {
        criterion.bench_function(&format!("scan/{rows}"), |bench| {
            let mut source = segment.source(MAX_SEQ);
            bench.iter(|| {
                let mut bytes = 0;
                source.seek(&key(random(ROWS - 100))).expect("no damage");
                for step in 0..rows {
                    if step > 0 {
                        source.next().expect("no damage");
                    }
                    bytes += source.key().len() + source.entry().value.len();
                }
                bytes
            });
        });
    }
    criterion.bench_function("scan/all", |bench| {
        bench.iter(|| {
            let mut source = segment.source(MAX_SEQ);
            source.seek_to_first().expect("no damage");
            let mut rows = 0;
            while source.valid() {
                rows += 1;
                source.next().expect("no damage");
            }
            assert_eq!(rows, ROWS);
        });
    });
    criterion.bench_function("raw/all", |bench| {
        bench.iter(|| {
            let mut source = segment.raw_source();
            source.seek(b"").expect("no damage");
            while source.valid() {
                source.next().expect("no damage");
            }
        });
    });
    let filtered = self::segment(Compression::None, 11);
    criterion.bench_function("get/absent", |bench| {
        bench.iter(|| {
            let mut key = key(random(ROWS));
            key[11] |= 1;
            filtered.get(&key, hash_key(&key), MAX_SEQ).expect("no damage").is_some()
        });
    });
}

criterion_group!(table, benches);
criterion_main!(table);
