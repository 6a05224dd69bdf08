//! Tests of the hash index through the memtable's interface: against a model, alongside writers, and at its
//! creation and end. A failing random test names its seed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::tests::{rounds, NOT_DONE, TINY};
use super::tree::Shape;
use super::{ArenaPool, Memtable};
use crate::types::{Kind, Seq, MAX_SEQ};

const FAMILY: u32 = 6;

fn memtable(seed: u64) -> Memtable {
    let shape = if seed % 3 == 0 { Shape::NORMAL } else { TINY };
    Memtable::with_shape(1, ArenaPool::new(0), shape)
}

fn put(memtable: &Memtable, key: &[u8], seq: Seq) {
    memtable.insert(FAMILY, key, seq, Kind::PUT, key, &NOT_DONE, 0);
}

fn key(number: usize) -> Vec<u8> {
    // Of several lengths, not in the order of the numbers.
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [&mixed[..], &number.to_be_bytes()[8 - number % 8..]].concat()
}

fn whole(memtable: &Memtable) -> Option<bool> {
    memtable.tree(FAMILY).and_then(|tree| tree.has_whole_index())
}

#[test]
fn reads_and_inserts_in_any_order_agree_with_a_model() {
    for seed in 0..rounds(40, 1) as u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let memtable = memtable(seed);
        let mut model: BTreeMap<Vec<u8>, Vec<Seq>> = BTreeMap::new();
        let range = rng.gen_range(rounds(200, 150)..rounds(6000, 300));
        let writes = rng.gen_range(0.1..0.9);
        let mut seq = 0;
        for step in 0..rounds(12_000, 600) {
            let number = rng.gen_range(0..range);
            let key = key(number);
            if rng.gen_bool(writes) {
                seq += 1;
                // Sometimes again, as a helper does it.
                for _ in 0..rng.gen_range(1..3) {
                    put(&memtable, &key, seq);
                }
                model.entry(key).or_default().push(seq);
            } else {
                let snapshot = if rng.gen() { MAX_SEQ } else { rng.gen_range(0..=seq) };
                let found = memtable.get(FAMILY, &key, snapshot);
                let below = |seqs: &Vec<Seq>| seqs.iter().rev().find(|&&seq| seq <= snapshot).copied();
                let expected = model.get(&key).and_then(below);
                assert_eq!(found.map(|entry| entry.seq), expected, "seed {seed}, step {step}");
                assert!(found.is_none_or(|entry| entry.stored() == key), "seed {seed}, step {step}");
            }
        }
        assert_eq!(memtable.tree(FAMILY).map_or(0, |tree| tree.keys()), model.len() as u64, "seed {seed}");
        assert_eq!(memtable.entries(FAMILY), seq, "seed {seed}");
        // Reads in the order of keys would not count.
        let mut all: Vec<_> = model.iter().collect();
        all.shuffle(&mut rng);
        for (key, seqs) in all {
            let found = memtable.get(FAMILY, key, MAX_SEQ);
            assert_eq!(found.map(|entry| entry.seq), seqs.last().copied(), "seed {seed}");
        }
        if model.len() > 100 {
            assert!(whole(&memtable).is_some(), "seed {seed}: {} keys and no index", model.len());
        }
    }
}

#[test]
fn readers_miss_nothing_while_writers_make_the_index_grow() {
    for seed in 0..rounds(12, 1) as u64 {
        let memtable = &memtable(seed);
        let (writers, count) = (2, rounds(6000, 150));
        // How many of each writer's keys are certainly there.
        let published: &Vec<AtomicUsize> = &(0..writers).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for (writer, published) in published.iter().enumerate() {
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed * 10 + writer as u64);
                    for i in 0..count {
                        put(memtable, &key(i * writers + writer), 1);
                        published.store(i + 1, Ordering::Release);
                        if rng.gen_ratio(1, 4) {
                            // A second version, which finds the record by the index or by the tree.
                            put(memtable, &key(rng.gen_range(0..=i) * writers + writer), 2 + i as Seq);
                        }
                    }
                });
            }
            for reader in 0..2 {
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed * 10 + 5 + reader);
                    loop {
                        let there = published.iter().map(|p| p.load(Ordering::Acquire)).collect::<Vec<_>>();
                        for _ in 0..50 {
                            let writer = rng.gen_range(0..writers);
                            // The latest keys are those that a race could hide.
                            let back = if rng.gen() { 3 } else { count };
                            let low = there[writer].saturating_sub(back);
                            if low < there[writer] {
                                let number = rng.gen_range(low..there[writer]) * writers + writer;
                                let found = memtable.get(FAMILY, &key(number), 1);
                                assert!(
                                    found.is_some_and(|found| found.stored() == key(number)),
                                    "seed {seed}: key {number} of {there:?} is missing"
                                );
                            }
                            let absent = key(rng.gen_range(count * writers..3 * count * writers));
                            assert!(memtable.get(FAMILY, &absent, MAX_SEQ).is_none(), "seed {seed}");
                        }
                        if there.iter().all(|&there| there == count) {
                            break;
                        }
                    }
                });
            }
        });
        assert_eq!(
            memtable.tree(FAMILY).map_or(0, |tree| tree.keys()),
            (count * writers) as u64,
            "seed {seed}: a key twice"
        );
        for number in 0..count * writers {
            assert!(memtable.get(FAMILY, &key(number), 1).is_some(), "seed {seed}: key {number}");
        }
        assert!(whole(memtable).is_some(), "seed {seed}: no index");
    }
}

#[test]
fn an_index_comes_with_point_reads_and_goes_without() {
    let memtable = memtable(0);
    let count = rounds(3000, 300);
    (0..count).for_each(|i| put(&memtable, &key(i), 1));
    assert_eq!(whole(&memtable), None, "nobody read");
    let mut sorted: Vec<_> = (0..count).map(key).collect();
    sorted.sort();
    assert!(sorted.iter().all(|key| memtable.get(FAMILY, key, MAX_SEQ).is_some()));
    assert_eq!(whole(&memtable), None, "read in the order of keys");
    let before = memtable.bytes();
    for i in 0..count {
        assert!(memtable.get(FAMILY, &key(i), MAX_SEQ).is_some());
    }
    assert_eq!(whole(&memtable), Some(true));
    let index = memtable.bytes() - before;
    assert!(index >= count * 3 * 8 && index < count * 3 * 8 + (64 << 10), "{index} bytes for {count} keys");
    // Reads make it grow with the tree ...
    for i in count..4 * count {
        put(&memtable, &key(i), 1);
        assert!(memtable.get(FAMILY, &key(i), MAX_SEQ).is_some());
    }
    assert_eq!(whole(&memtable), Some(true));
    // ... and inserts alone do not, for ever.
    let mut i = 4 * count;
    while whole(&memtable).is_some() && i < 40 * count {
        put(&memtable, &key(i), 1);
        i += 1;
    }
    assert_eq!(whole(&memtable), None);
    let after = memtable.bytes();
    assert!((0..i).all(|i| memtable.get(FAMILY, &key(i), MAX_SEQ).is_some()));
    assert_eq!(whole(&memtable), Some(true), "it comes again");
    assert!(memtable.bytes() > after);
}

#[test]
fn looking_for_duplicates_before_inserts_asks_for_no_index() {
    let memtable = memtable(0);
    for i in 0..rounds(20_000, 500) {
        assert!(memtable.get(FAMILY, &key(i), MAX_SEQ).is_none());
        put(&memtable, &key(i), 1);
    }
    assert_eq!(whole(&memtable), None);
}
