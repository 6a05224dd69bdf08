//! Cost of an uncontended lock: taking and releasing one key of 8 and of 16 bytes, in an empty and in a full
//! lock table. Also a transaction of ten keys. Budget: 120 ns for lock and unlock.

#![allow(missing_docs)] // criterion's macro makes a public function

use std::hint::black_box;
use std::sync::Arc;

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use tidesdb::internal::host::SystemClock;
use tidesdb::internal::lock::{LockManager, LockOwner, Mode, Policy, TableMode};

fn manager() -> LockManager {
    LockManager::new(None, Arc::new(SystemClock))
}

fn key16(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&7u32.to_be_bytes());
    key[8..].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// One lock on a key after the other, released at once.
fn measure(c: &mut Criterion, name: &str, locks: &LockManager, owner: &Arc<LockOwner>) {
    locks.lock_table(owner, 1, TableMode::IntentExclusive, Policy::NoWait).expect("IX is free");
    let mut i = 0u64;
    c.bench_function(name, |b| {
        b.iter(|| {
            i += 2;
            let key = key16(i);
            let got = locks.lock_point(owner, 1, black_box(&key), Mode::Exclusive, Policy::NoWait);
            locks.unlock_point(owner, 1, &key, Mode::Exclusive);
            got
        });
    });
    locks.unlock_all(owner);
}

fn lock_and_unlock(c: &mut Criterion) {
    for (name, background) in [("empty", 0u64), ("1000 held", 1000), ("100000 held", 100_000)] {
        let locks = manager();
        let others = LockOwner::new(1);
        for i in 0..background {
            locks
                .lock_point(&others, 1, &key16(i * 2 + 1), Mode::Exclusive, Policy::NoWait)
                .expect("nobody else locks");
        }
        let owner = LockOwner::new(2);
        measure(c, &format!("lock and unlock, 16 bytes, {name}"), &locks, &owner);
        locks.unlock_all(&others);
    }
}

fn transactions(c: &mut Criterion) {
    let mut group = c.benchmark_group("transaction");
    for keys in [1u64, 10, 100] {
        let locks = manager();
        let owner = LockOwner::new(1);
        let mut i = 0u64;
        group.throughput(Throughput::Elements(keys));
        group.bench_function(format!("IX, {keys} keys of 8 bytes, unlock_all"), |b| {
            b.iter(|| {
                locks.lock_table(&owner, 1, TableMode::IntentExclusive, Policy::NoWait).expect("IX is free");
                for _ in 0..keys {
                    i += 1;
                    let key = i.to_be_bytes();
                    black_box(
                        locks
                            .lock_point(&owner, 1, &key, Mode::Exclusive, Policy::NoWait)
                            .expect("nobody else locks"),
                    );
                }
                locks.unlock_all(&owner);
            });
        });
    }
    group.bench_function("a new owner, 10 keys", |b| {
        let locks = manager();
        b.iter_batched(
            || LockOwner::new(1),
            |owner| {
                for i in 0..10u64 {
                    locks
                        .lock_point(&owner, 1, &i.to_be_bytes(), Mode::Exclusive, Policy::NoWait)
                        .expect("nobody else locks");
                }
                locks.unlock_all(&owner);
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// Cost of ranges: a lock on a key next to others' ranges, and a scan that grows its own range.
fn ranges(c: &mut Criterion) {
    for others in [1u64, 16] {
        let locks = manager();
        let holders: Vec<_> = (0..others).map(LockOwner::new).collect();
        for holder in &holders {
            for i in 0..10u64 {
                let (from, to) = (key16(i * 2 + 1), key16(i * 2 + 1));
                let to = [&to[..], &[0]].concat();
                locks
                    .lock_range(holder, 1, &from, Some(&to), Policy::NoWait)
                    .expect("ranges do not conflict");
            }
        }
        let owner = LockOwner::new(100);
        measure(c, &format!("lock and unlock beside 10 ranges of {others} others"), &locks, &owner);
        holders.iter().for_each(|holder| locks.unlock_all(holder));
    }
    let locks = manager();
    let owner = LockOwner::new(1);
    let mut i = 0u64;
    c.bench_function("a scan's range grows by a row", |b| {
        b.iter(|| {
            i += 1;
            let (from, to) = ((i - 1).to_be_bytes(), i.to_be_bytes());
            locks.lock_range(&owner, 1, black_box(&from), Some(&to), Policy::NoWait).expect("nobody else");
        });
    });
    locks.unlock_all(&owner);
}

criterion_group!(benches, lock_and_unlock, transactions, ranges);
criterion_main!(benches);
