//! Cost of memtable operations: 300,000 16-byte keys with 100-byte values in random order (the setting of
//! `docs/results/README.md`), the same in ascending order, and scans.
//!
//! `cargo bench --bench memtable`; single-threaded, except for inserts named otherwise. It measures the CPU
//! time of the process, all threads together, so a shared machine disturbs it less.

#![allow(clippy::unwrap_used)]
#![allow(missing_docs)] // What criterion's macros make has none.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use tidesdb::internal::iter::InternalIterator;
use tidesdb::internal::memtable::{ArenaPool, Memtable};
use tidesdb::internal::types::{Kind, MAX_SEQ};

/// CPU time of the process.
struct CpuTime;

impl CpuTime {
    fn now() -> Duration {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the clock exists and the pointer is valid.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) }, 0);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        Self::now()
    }

    fn end(&self, start: Duration) -> Duration {
        Self::now() - start
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

const KEYS: usize = 300_000;
const VALUE: [u8; 100] = [7; 100];
static NOT_DONE: AtomicBool = AtomicBool::new(false);

/// Random keys: four bytes shared by all (an index number), four of little variety, eight random.
fn random_keys(seed: u64) -> Vec<[u8; 16]> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..KEYS)
        .map(|_| {
            let mut key = [0; 16];
            key[..4].copy_from_slice(&259u32.to_be_bytes());
            key[4..8].copy_from_slice(&rng.gen_range(0..1000u32).to_be_bytes());
            key[8..].copy_from_slice(&rng.gen::<u64>().to_be_bytes());
            key
        })
        .collect()
}

fn ascending_keys() -> Vec<[u8; 16]> {
    (0..KEYS as u128).map(|i| (0x0103_u128 << 96 | i).to_be_bytes()).collect()
}

/// A pool with the touched chunks of an earlier memtable, as a store in use has.
fn pool() -> ArenaPool {
    let pool = ArenaPool::new(256 << 20);
    drop(fill(&pool, &random_keys(0)));
    pool
}

fn fill(pool: &ArenaPool, keys: &[[u8; 16]]) -> Arc<Memtable> {
    let memtable = Arc::new(Memtable::new(1, pool.clone()));
    for (i, key) in keys.iter().enumerate() {
        memtable.insert(1, key, i as u64 + 1, Kind::PUT, &VALUE, &NOT_DONE, i as u64);
    }
    memtable
}

fn inserts(c: &mut Criterion<CpuTime>) {
    let pool = pool();
    let mut group = c.benchmark_group("insert");
    group.sample_size(10).throughput(Throughput::Elements(KEYS as u64));
    for (name, keys) in [("random", random_keys(1)), ("ascending", ascending_keys())] {
        group.bench_function(name, |b| {
            b.iter_batched(|| (), |()| fill(&pool, &keys), BatchSize::PerIteration)
        });
        // As a statement does it that looks for a duplicate first.
        group.bench_function(format!("{name}, each looked for before"), |b| {
            b.iter_batched(
                || (),
                |()| {
                    let memtable = Memtable::new(1, pool.clone());
                    for (i, key) in keys.iter().enumerate() {
                        assert!(memtable.get(1, key, MAX_SEQ).is_none());
                        memtable.insert(1, key, i as u64 + 1, Kind::PUT, &VALUE, &NOT_DONE, i as u64);
                    }
                    memtable
                },
                BatchSize::PerIteration,
            )
        });
    }
    let keys = random_keys(1);
    for threads in [1, 2] {
        group.bench_function(format!("random, {threads} threads"), |b| {
            b.iter(|| {
                let memtable = Memtable::new(1, pool.clone());
                std::thread::scope(|scope| {
                    for chunk in keys.chunks(KEYS.div_ceil(threads)) {
                        let memtable = &memtable;
                        scope.spawn(move || {
                            for (i, key) in chunk.iter().enumerate() {
                                memtable.insert(1, key, i as u64 + 1, Kind::PUT, &VALUE, &NOT_DONE, i as u64);
                            }
                        });
                    }
                });
            });
        });
    }
    group.finish();
}

fn reads(c: &mut Criterion<CpuTime>) {
    let pool = pool();
    let keys = random_keys(1);
    let memtable = fill(&pool, &keys);
    let mut order = keys.clone();
    order.shuffle(&mut StdRng::seed_from_u64(2));
    let mut group = c.benchmark_group("read");
    group.sample_size(20);
    let mut next = order.iter().cycle();
    group.bench_function("get, random", |b| {
        b.iter(|| memtable.get(1, black_box(next.next().unwrap()), MAX_SEQ))
    });
    let absent = random_keys(3);
    let mut next = absent.iter().cycle();
    group.bench_function("get, absent", |b| {
        b.iter(|| memtable.get(1, black_box(next.next().unwrap()), MAX_SEQ))
    });
    // The 16 MB of a smaller write buffer, keys of 8 bytes.
    let short: Vec<[u8; 8]> = (0..70_000u64).map(|i| ((2 * i) | (259 << 32)).to_be_bytes()).collect();
    let small = Memtable::new(1, pool.clone());
    for (i, key) in short.iter().enumerate() {
        small.insert(1, key, i as u64 + 1, Kind::PUT, &VALUE, &NOT_DONE, i as u64);
    }
    let mut rng = StdRng::seed_from_u64(4);
    group.bench_function("get, random, 70,000 short keys", |b| {
        b.iter(|| small.get(1, &short[rng.gen_range(0..short.len())], MAX_SEQ))
    });
    group.bench_function("get, absent, 70,000 short keys", |b| {
        b.iter(|| {
            let odd = (2 * rng.gen_range(0..70_000u64) + 1) | (259 << 32);
            small.get(1, &odd.to_be_bytes(), MAX_SEQ)
        })
    });
    let mut next = order.iter().cycle();
    group.bench_function("seek and ten steps, random", |b| {
        let mut iter = memtable.iter(1, MAX_SEQ).unwrap();
        b.iter(|| {
            iter.seek(next.next().unwrap()).unwrap();
            let mut bytes = 0;
            for _ in 0..10 {
                if !iter.valid() {
                    break;
                }
                bytes += iter.entry().stored().len();
                iter.next().unwrap();
            }
            bytes
        });
    });
    let ascending = fill(&pool, &ascending_keys());
    group.throughput(Throughput::Elements(KEYS as u64));
    for (name, memtable) in [("scan, inserted at random", &memtable), ("scan, inserted in order", &ascending)]
    {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut iter = memtable.iter(1, MAX_SEQ).unwrap();
                iter.seek_to_first().unwrap();
                let mut rows = 0;
                while iter.valid() {
                    rows += black_box(iter.entry().stored()).len();
                    iter.next().unwrap();
                }
                rows
            });
        });
    }
    group.bench_function("scan backwards, inserted at random", |b| {
        b.iter(|| {
            let mut iter = memtable.iter(1, MAX_SEQ).unwrap();
            iter.seek_to_last().unwrap();
            let mut rows = 0;
            while iter.valid() {
                rows += black_box(iter.entry().stored()).len();
                iter.prev().unwrap();
            }
            rows
        });
    });
    group.finish();
}

fn updates(c: &mut Criterion<CpuTime>) {
    let pool = pool();
    let keys = random_keys(1);
    let mut group = c.benchmark_group("update");
    group.sample_size(10).throughput(Throughput::Elements(KEYS as u64));
    for (name, read) in
        [("every key once more, random", false), ("every key read and once more, random", true)]
    {
        group.bench_function(name, |b| {
            let mut order = keys.clone();
            order.shuffle(&mut StdRng::seed_from_u64(2));
            b.iter_batched(
                || fill(&pool, &keys),
                |memtable| {
                    let mut seq = KEYS as u64;
                    for key in &order {
                        seq += 1;
                        if read {
                            black_box(memtable.get(1, key, MAX_SEQ));
                        }
                        memtable.insert(1, key, seq, Kind::PUT, &VALUE, &NOT_DONE, seq - 1);
                    }
                    memtable
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = inserts, reads, updates
}
criterion_main!(benches);
