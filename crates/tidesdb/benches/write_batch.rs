//! Cost of a change in a transaction's private batch: rows in key order, as in a load. With them, the entries
//! of three secondary indexes in random order, and searches for own changes. A statement over millions of
//! rows spends most of its time here, where every change is put in the order of keys.

#![allow(missing_docs)] // criterion's macro makes a public function

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use tidesdb::internal::txn::write_batch::WriteBatch;
use tidesdb::internal::types::Kind;

/// Rows in a batch: with three indexes about the content of a write buffer of 64 MB.
const ROWS: u64 = 100_000;

fn scattered(i: u64, salt: u64) -> u64 {
    (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(salt as u32 * 7) ^ salt
}

/// A row of 100 bytes, and an entry in each of `indexes` indexes.
fn push_row(batch: &mut WriteBatch, i: u64, indexes: u64) {
    batch.push(1, &i.to_be_bytes(), Kind::PUT, &[7; 100]);
    for index in 1..=indexes {
        let mut key = [0; 12];
        key[..4].copy_from_slice(&(scattered(i, index) as u32).to_be_bytes());
        key[4..].copy_from_slice(&i.to_be_bytes());
        batch.push(1 + index as u32, &key, Kind::PUT, &[]);
    }
}

fn filled(indexes: u64) -> WriteBatch {
    let mut batch = WriteBatch::default();
    (0..ROWS).for_each(|i| push_row(&mut batch, i, indexes));
    batch
}

fn push(c: &mut Criterion) {
    let mut group = c.benchmark_group("push");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10);
    for indexes in [0, 3] {
        group.bench_function(format!("rows in key order, {indexes} indexes"), |b| {
            b.iter_batched(|| (), |()| filled(indexes), BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn read(c: &mut Criterion) {
    let batch = filled(3);
    let mut i = 0;
    c.bench_function("get, random", |b| {
        b.iter(|| {
            i += 1;
            batch
                .get(1, black_box(&(scattered(i, 0) % ROWS).to_be_bytes()))
                .map(|own| own.entry().stored().len())
        });
    });
}

criterion_group!(benches, push, read);
criterion_main!(benches);
