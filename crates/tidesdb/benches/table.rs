//! A table whose blocks are all cached: point reads (found, absent, of a few hot keys) and short scans.
//! `cargo bench -p tidesdb --bench table`.

#![allow(missing_docs)]

// What the disk in memory of the table room's tests names by `crate::`.
use tidesdb::internal::{error, host, io};

use tidesdb::internal::cache::BlockCache;
use tidesdb::internal::iter::{InternalIterator, VersionIterator};
use tidesdb::internal::table::{hash_key, SsTable, SsTableOptions, SsTableWriter, TableStore};
use tidesdb::internal::types::{Entry, Kind, MAX_SEQ};
use tidesdb::Compression;

#[path = "../src/table/memory_disk.rs"]
#[allow(dead_code, missing_docs)]
mod memory_disk;

mod sync {
    pub use parking_lot::{Mutex, RwLock};
}

use std::path::Path;
use std::sync::Arc;

use criterion::{criterion_group, criterion_main, Criterion};
use io::{Disk, OpenMode};

const ROWS: u64 = 300_000;

/// Keys of a table with an integer primary key: index number, then the number.
fn key(i: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&257u32.to_be_bytes());
    key[4..].copy_from_slice(&(i * 2).to_be_bytes());
    key
}

fn build_table(compression: Compression, bits_per_key: u32) -> Arc<SsTable> {
    let disk = Arc::new(memory_disk::MemoryDisk::default());
    let files = TableStore::new(Arc::clone(&disk) as Arc<dyn Disk>, "store", 8);
    let path = Path::new("store").join(TableStore::file_name(1));
    let file = disk.open(&path, OpenMode::Create).expect("a file in memory");
    let options = SsTableOptions { compression, bits_per_key, ..SsTableOptions::default() };
    let mut writer = SsTableWriter::new(file, 0, 1, options);
    for i in 0..ROWS {
        let value = [i as u8; 100];
        writer.add(&key(i), Entry::new(i + 1, Kind::PUT, &value)).expect("ascending keys");
    }
    let meta = writer.finish().expect("a table");
    SsTable::open(files, BlockCache::new(256 << 20), 1, meta)
}

fn benches(criterion: &mut Criterion) {
    let table = build_table(Compression::Lz4, 0);
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for i in 0..ROWS {
        let key = key(i);
        assert!(table.get(&key, hash_key(&key), MAX_SEQ).expect("no damage").is_some());
    }
    criterion.bench_function("get/any", |bench| {
        bench.iter(|| {
            let key = key(random(ROWS));
            table.get(&key, hash_key(&key), MAX_SEQ).expect("no damage").map(|hit| hit.stored()[0])
        });
    });
    criterion.bench_function("get/hot", |bench| {
        bench.iter(|| {
            let key = key(random(100) * 1000);
            table.get(&key, hash_key(&key), MAX_SEQ).expect("no damage").map(|hit| hit.stored()[0])
        });
    });
    for rows in [1, 10, 100] {
        criterion.bench_function(&format!("scan/{rows}"), |bench| {
            let mut iter = table.iter(MAX_SEQ);
            bench.iter(|| {
                let mut bytes = 0;
                iter.seek(&key(random(ROWS - 100))).expect("no damage");
                for step in 0..rows {
                    if step > 0 {
                        iter.next().expect("no damage");
                    }
                    bytes += iter.key().len() + iter.entry().stored().len();
                }
                bytes
            });
        });
    }
    criterion.bench_function("scan/all", |bench| {
        bench.iter(|| {
            let mut iter = table.iter(MAX_SEQ);
            iter.seek_to_first().expect("no damage");
            let mut rows = 0;
            while iter.valid() {
                rows += 1;
                iter.next().expect("no damage");
            }
            assert_eq!(rows, ROWS);
        });
    });
    criterion.bench_function("raw/all", |bench| {
        bench.iter(|| {
            let mut iter = table.version_iter();
            iter.seek(b"").expect("no damage");
            while iter.valid() {
                iter.next().expect("no damage");
            }
        });
    });
    let filtered = self::build_table(Compression::None, 11);
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
