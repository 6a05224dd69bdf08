//! The memtable against a model, and under contention. Nodes are tiny here, so that a few hundred keys make a
//! deep tree. A failing random test names its seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::tree::Shape;
use super::{ArenaPool, Memtable};
use crate::iter::{InternalIterator, KeyRange, VersionIterator};
use crate::types::{Entry, FamilyId, Kind, Seq, MAX_KEY_LEN, MAX_SEQ};

pub(super) const TINY: Shape = Shape { first_leaf: 2, leaf: 4, inner: 3 };
pub(super) static NOT_DONE: AtomicBool = AtomicBool::new(false);

/// Repetitions: fewer under Miri.
pub(super) fn rounds(normal: usize, miri: usize) -> usize {
    if cfg!(miri) {
        miri
    } else {
        normal
    }
}

fn memtable(shape: Shape) -> Arc<Memtable> {
    Arc::new(Memtable::with_shape(1, ArenaPool::new(0), shape))
}

/// Runs `body` with each seed; a failure prints its seed on standard error first.
fn with_seeds(seeds: std::ops::Range<u64>, body: impl Fn(u64, &mut StdRng)) {
    for seed in seeds {
        struct Name(u64);
        impl Drop for Name {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    eprintln!("failed with seed {}", self.0);
                }
            }
        }
        let _name = Name(seed);
        body(seed, &mut StdRng::seed_from_u64(seed));
    }
}

type Versions = BTreeMap<Reverse<Seq>, (Kind, Vec<u8>)>;

#[derive(Default)]
struct Model {
    families: BTreeMap<FamilyId, BTreeMap<Vec<u8>, Versions>>,
}

impl Model {
    fn insert(&mut self, family: FamilyId, key: &[u8], seq: Seq, kind: Kind, value: &[u8]) {
        let versions = self.families.entry(family).or_default().entry(key.to_vec()).or_default();
        versions.entry(Reverse(seq)).or_insert((kind, value.to_vec()));
    }

    fn visible(versions: &Versions, snapshot: Seq) -> Option<Entry<'_>> {
        let (seq, (kind, value)) = versions.range(Reverse(snapshot)..).next()?;
        Some(Entry::new(seq.0, *kind, value))
    }

    fn get(&self, family: FamilyId, key: &[u8], snapshot: Seq) -> Option<Entry<'_>> {
        Self::visible(self.families.get(&family)?.get(key)?, snapshot)
    }

    fn scan(&self, family: FamilyId, snapshot: Seq) -> Vec<(&[u8], Entry<'_>)> {
        let keys = self.families.get(&family).into_iter().flatten();
        keys.filter_map(|(key, versions)| Some((&key[..], Self::visible(versions, snapshot)?))).collect()
    }
}

/// Keys with difficult prefixes and heads.
fn random_key(rng: &mut StdRng, known: &[Vec<u8>]) -> Vec<u8> {
    fn letters(rng: &mut StdRng, most: usize) -> Vec<u8> {
        let len = rng.gen_range(0..=most);
        (0..len).map(|_| *[0, 0, 1, b'a', 0xfe, 0xff].choose(rng).unwrap()).collect()
    }
    match rng.gen_range(0..100) {
        0..=29 => letters(rng, 20),
        30..=49 => {
            let len = *[1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40].choose(rng).unwrap();
            let mut key = vec![*[0, b'k', 0xff].choose(rng).unwrap(); len];
            key.extend(letters(rng, 10));
            key
        }
        50..=64 => u64::from(rng.gen_range(0..2000u32)).to_be_bytes().to_vec(),
        65..=74 if !known.is_empty() => {
            let key = known.choose(rng).unwrap();
            key[..rng.gen_range(0..=key.len())].to_vec()
        }
        75..=94 if !known.is_empty() => {
            let mut key = known.choose(rng).unwrap().clone();
            key.extend(letters(rng, 3));
            key.truncate(MAX_KEY_LEN);
            key
        }
        95 => {
            let mut key = vec![0xab; MAX_KEY_LEN];
            let at = rng.gen_range(0..3) * (MAX_KEY_LEN - 1) / 2;
            key[at] = rng.gen();
            key
        }
        _ => (0..rng.gen_range(0..=20)).map(|_| rng.gen()).collect(),
    }
}

fn random_kind(rng: &mut StdRng) -> Kind {
    *[Kind::PUT, Kind::PUT, Kind::PUT.marked_may_overwrite(), Kind::DELETE, Kind::SINGLE_DELETE]
        .choose(rng)
        .unwrap()
}

fn random_value(rng: &mut StdRng, kind: Kind) -> Vec<u8> {
    let len = if kind.is_tombstone() { 0 } else { rng.gen_range(0..40) };
    (0..len).map(|_| rng.gen()).collect()
}

fn forward(memtable: &Arc<Memtable>, family: FamilyId, snapshot: Seq) -> Vec<(Vec<u8>, Seq)> {
    let Some(mut iter) = memtable.iter(family, snapshot) else { return Vec::new() };
    let mut found = Vec::new();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.entry().seq));
        iter.next().unwrap();
    }
    found
}

fn backward(memtable: &Arc<Memtable>, family: FamilyId, snapshot: Seq) -> Vec<(Vec<u8>, Seq)> {
    let Some(mut iter) = memtable.iter(family, snapshot) else { return Vec::new() };
    let mut found = Vec::new();
    iter.seek_to_last().unwrap();
    while iter.valid() {
        found.push((iter.key().to_vec(), iter.entry().seq));
        iter.prev().unwrap();
    }
    found.reverse();
    found
}

fn raw(memtable: &Arc<Memtable>, family: FamilyId, from: &[u8]) -> Vec<(Vec<u8>, Seq, Kind, Vec<u8>)> {
    let Some(mut iter) = memtable.version_iter(family) else { return Vec::new() };
    let mut found = Vec::new();
    iter.seek(from).unwrap();
    while iter.valid() {
        let entry = iter.entry();
        found.push((iter.key().to_vec(), entry.seq, entry.kind, entry.stored().to_vec()));
        iter.next().unwrap();
    }
    found
}

/// Compares all reads of a family, with random snapshots and seeks, with the model.
fn assert_same(memtable: &Arc<Memtable>, model: &Model, family: FamilyId, rng: &mut StdRng, top: Seq) {
    for snapshot in [0, rng.gen_range(0..=top), MAX_SEQ] {
        let expected = model.scan(family, snapshot);
        let short: Vec<_> = expected.iter().map(|(key, entry)| (key.to_vec(), entry.seq)).collect();
        assert!(forward(memtable, family, snapshot) == short, "forward at {snapshot}");
        assert!(backward(memtable, family, snapshot) == short, "backward at {snapshot}");
        let Some(mut iter) = memtable.iter(family, snapshot) else { continue };
        let known: Vec<_> = model.families[&family].keys().cloned().collect();
        for _ in 0..rounds(20, 3) {
            let key = random_key(rng, &known);
            assert_eq!(memtable.get(family, &key, snapshot), model.get(family, &key, snapshot));
            let at = if rng.gen() {
                iter.seek(&key).unwrap();
                expected.partition_point(|(other, _)| *other < &key[..]) as i64
            } else {
                iter.seek_for_prev(&key).unwrap();
                expected.partition_point(|(other, _)| *other <= &key[..]) as i64 - 1
            };
            let mut at = at;
            for _ in 0..rng.gen_range(0..8) {
                match usize::try_from(at).ok().and_then(|at| expected.get(at)) {
                    None => {
                        assert!(!iter.valid());
                        break;
                    }
                    Some((key, entry)) => {
                        assert!(iter.valid() && iter.key() == *key);
                        assert_eq!(iter.entry(), *entry);
                    }
                }
                if rng.gen() {
                    iter.next().unwrap();
                    at += 1;
                } else {
                    iter.prev().unwrap();
                    at -= 1;
                }
            }
        }
    }
    let Some(keys) = model.families.get(&family) else { return };
    let from = random_key(rng, &[]);
    let expected: Vec<_> = keys
        .range(from.clone()..)
        .flat_map(|(key, versions)| versions.iter().map(|(s, (k, v))| (key.clone(), s.0, *k, v.clone())))
        .collect();
    assert!(raw(memtable, family, &from) == expected, "raw from {from:?}");
    let versions = || keys.values().flatten();
    let tree = memtable.tree(family).expect("the family has entries");
    assert_eq!(tree.keys(), keys.len() as u64);
    assert_eq!(tree.entries(), versions().count() as u64);
    assert_eq!(tree.tombstones(), versions().filter(|(_, v)| v.0.is_tombstone()).count() as u64);
    let raw_bytes = keys.iter().flat_map(|(key, versions)| versions.values().map(|v| key.len() + v.1.len()));
    assert_eq!(tree.raw_bytes(), raw_bytes.sum::<usize>() as u64);
}

#[test]
fn behaves_as_the_model() {
    let shapes = [
        TINY,
        Shape { first_leaf: 2, leaf: 2, inner: 3 },
        Shape { first_leaf: 4, leaf: 7, inner: 5 },
        Shape::NORMAL,
    ];
    with_seeds(0..rounds(60, 2) as u64, |seed, rng| {
        let memtable = memtable(shapes[seed as usize % shapes.len()]);
        let mut model = Model::default();
        let mut known = Vec::new();
        let mut seqs = BTreeSet::new();
        let families = [0, 7, u32::MAX];
        for _ in 0..rng.gen_range(1..rounds(1500, 60)) {
            let family = *families.choose(rng).unwrap();
            let key = random_key(rng, &known);
            known.push(key.clone());
            let (seq, kind) = (rng.gen_range(1..300), random_kind(rng));
            let value = random_value(rng, kind);
            // The same sequence number on the same key again must change nothing, whatever comes with it.
            memtable.insert(family, &key, seq, kind, &value, &NOT_DONE, 0);
            model.insert(family, &key, seq, kind, &value);
            seqs.insert(seq);
        }
        for family in families {
            assert_same(&memtable, &model, family, rng, 300);
        }
        let written: Vec<_> = model.families.keys().copied().collect();
        assert_eq!(memtable.families(), written);
        assert_eq!(Some(&memtable.min_seq()), seqs.first());
        assert_eq!(Some(&memtable.max_seq()), seqs.last());
        assert!(memtable.iter(1, MAX_SEQ).is_none() && memtable.get(1, b"", MAX_SEQ).is_none());
    });
}

#[test]
fn ordered_inserts_in_either_direction_and_in_clusters() {
    let count = rounds(3000, 100) as u32;
    for shape in [TINY, Shape::NORMAL] {
        let orders: [Box<dyn Fn(u32) -> [u8; 8]>; 3] = [
            Box::new(|i| (0x1000_0000_0000 + u64::from(i)).to_be_bytes()),
            Box::new(|i| u64::from(u32::MAX - i).to_be_bytes()),
            Box::new(|i| (u64::from(i % 7) << 40 | u64::from(i / 7)).to_be_bytes()),
        ];
        for order in &orders {
            let memtable = memtable(shape);
            let mut keys = BTreeSet::new();
            for i in 0..count {
                memtable.insert(3, &order(i), u64::from(i) + 1, Kind::PUT, b"v", &NOT_DONE, 0);
                keys.insert(order(i).to_vec());
            }
            let keys: Vec<_> = keys.into_iter().collect();
            let found: Vec<_> = forward(&memtable, 3, MAX_SEQ).into_iter().map(|f| f.0).collect();
            assert!(found == keys);
            let found: Vec<_> = backward(&memtable, 3, MAX_SEQ).into_iter().map(|f| f.0).collect();
            assert!(found == keys);
            for key in &keys {
                assert!(memtable.get(3, key, MAX_SEQ).is_some());
            }
        }
    }
}

#[test]
fn an_empty_generation_takes_no_memory_and_a_family_little() {
    let memtable = memtable(Shape::NORMAL);
    assert_eq!(memtable.bytes(), 0);
    assert!(memtable.families().is_empty() && memtable.get(5, b"k", MAX_SEQ).is_none());
    assert_eq!((memtable.min_seq(), memtable.max_seq()), (MAX_SEQ, 0));
    let families = rounds(5000, 100) as u32;
    for family in 0..families {
        memtable.insert(family * 3, b"key", 1, Kind::PUT, b"value", &NOT_DONE, 0);
    }
    let each = memtable.bytes() / families as usize;
    assert!(each < 400, "{each} bytes for a family with one row");
    assert_eq!(memtable.families(), (0..families).map(|f| f * 3).collect::<Vec<_>>());
    for family in 0..families * 3 {
        assert_eq!(memtable.get(family, b"key", 1).is_some(), family % 3 == 0);
    }
}

#[test]
fn done_means_hands_off() {
    let memtable = memtable(TINY);
    let done = AtomicBool::new(true);
    memtable.insert(1, b"new", 5, Kind::PUT, b"x", &done, 0);
    assert!(memtable.families().is_empty() && memtable.get(1, b"new", MAX_SEQ).is_none());
    assert_eq!((memtable.min_seq(), memtable.max_seq()), (MAX_SEQ, 0));
    memtable.insert(1, b"old", 5, Kind::PUT, b"x", &NOT_DONE, 0);
    memtable.insert(1, b"old", 6, Kind::PUT, b"y", &done, 0);
    assert_eq!(memtable.get(1, b"old", MAX_SEQ).unwrap().seq, 5);
    assert_eq!((memtable.entries(1), memtable.max_seq()), (1, 5));
}

#[test]
fn large_keys_and_values() {
    let memtable = memtable(Shape::NORMAL);
    let value: Vec<u8> = (0..rounds(9 << 20, 300 << 10)).map(|i| (i % 251) as u8).collect();
    let mut keys = vec![vec![7; MAX_KEY_LEN]; 5];
    keys[1][MAX_KEY_LEN - 1] = 6;
    keys[2].truncate(MAX_KEY_LEN - 1);
    keys[3][24] = 8;
    keys[4][0] = 0;
    for (i, key) in keys.iter().enumerate() {
        memtable.insert(2, key, i as u64 + 1, Kind::PUT, &value[i..], &NOT_DONE, 0);
    }
    for (i, key) in keys.iter().enumerate() {
        assert!(memtable.get(2, key, MAX_SEQ).unwrap().stored() == &value[i..]);
    }
    keys.sort();
    assert!(forward(&memtable, 2, MAX_SEQ).into_iter().map(|f| f.0).eq(keys));
    assert!(memtable.bytes() >= 5 * (value.len() + MAX_KEY_LEN) - 20);
}

#[test]
fn cutting_tails_changes_nothing_at_or_above_the_oldest_snapshot() {
    with_seeds(0..rounds(40, 2) as u64, |_, rng| {
        let memtable = memtable(TINY);
        let mut model = Model::default();
        let mut oldest_snapshot = 0;
        let keys: Vec<Vec<u8>> = (0..6u8).map(|i| vec![i; 3]).collect();
        let top = rounds(600, 60) as u64;
        // Sequence numbers arrive a little out of order, as from concurrent committers.
        let mut seqs: Vec<Seq> = (1..=top).collect();
        for window in seqs.chunks_mut(5) {
            window.shuffle(rng);
        }
        for (i, seq) in seqs.iter().enumerate() {
            // The oldest snapshot is never above the visible sequence, below which every sequence number is inserted.
            if rng.gen_ratio(1, 4) {
                oldest_snapshot = oldest_snapshot.max(rng.gen_range(0..=(i as u64 / 5 * 5)));
            }
            let (key, kind) = (keys.choose(rng).unwrap(), random_kind(rng));
            let value = random_value(rng, kind);
            memtable.insert(9, key, *seq, kind, &value, &NOT_DONE, oldest_snapshot);
            model.insert(9, key, *seq, kind, &value);
        }
        for snapshot in oldest_snapshot..=top + 1 {
            for key in &keys {
                assert_eq!(memtable.get(9, key, snapshot), model.get(9, key, snapshot), "at {snapshot}");
            }
        }
        let kept = raw(&memtable, 9, b"");
        assert!(kept.len() as u64 <= memtable.entries(9));
        if oldest_snapshot > top / 2 {
            assert!(
                (kept.len() as u64) < top * 3 / 4,
                "{} kept of {top} with oldest snapshot {oldest_snapshot}",
                kept.len()
            );
        }
        // With every version below the oldest snapshot, one insert leaves itself and the one below it.
        for key in &keys {
            memtable.insert(9, key, top + 10, OVER, b"", &NOT_DONE, top);
            memtable.insert(9, key, top + 11, OVER, b"", &NOT_DONE, top + 10);
        }
    });
}

/// A put over a put.
const OVER: Kind = Kind::PUT.marked_may_overwrite();

#[test]
fn a_put_that_is_known_to_lie_on_a_tombstone_keeps_it() {
    let left = |kinds: &[Kind]| {
        let memtable = memtable(TINY);
        for (seq, kind) in (1..).zip(kinds) {
            memtable.insert(1, b"k", seq, *kind, b"", &NOT_DONE, seq - 1);
        }
        raw(&memtable, 1, b"").iter().map(|version| version.1).collect::<Vec<_>>()
    };
    assert_eq!(left(&[OVER, Kind::DELETE, OVER, OVER]), [4, 3]);
    assert_eq!(left(&[OVER, Kind::DELETE, Kind::PUT, OVER]), [4, 3, 2], "of 1 some file may have more");
    assert_eq!(left(&[OVER, Kind::DELETE, Kind::PUT, Kind::SINGLE_DELETE]), [4, 3, 2]);
    assert_eq!(left(&[OVER, Kind::DELETE, Kind::PUT, Kind::SINGLE_DELETE, Kind::PUT]), [5, 4]);
    assert_eq!(left(&[Kind::PUT, OVER]), [2, 1]);
}

#[test]
fn a_short_chain_is_cut_at_once_and_a_long_one_in_the_end() {
    let memtable = memtable(TINY);
    for seq in 1..=5 {
        memtable.insert(1, b"k", seq, OVER, b"", &NOT_DONE, seq - 1);
        assert!(raw(&memtable, 1, b"").len() <= 2);
    }
    assert_eq!(raw(&memtable, 1, b"").iter().map(|v| v.1).collect::<Vec<_>>(), [5, 4]);
    let many = rounds(100_000, 200) as u64;
    for seq in 6..many {
        memtable.insert(1, b"k", seq, OVER, b"", &NOT_DONE, 5);
    }
    assert_eq!(
        raw(&memtable, 1, b"").len() as u64,
        many - 5,
        "all above the oldest snapshot, and the one at it"
    );
    for seq in many..3 * many {
        memtable.insert(1, b"k", seq, OVER, b"", &NOT_DONE, seq - 1);
    }
    assert_eq!(raw(&memtable, 1, b"").len(), 2);
    assert_eq!(memtable.entries(1), 3 * many - 1);
}

fn value_of(key: &[u8], seq: Seq) -> Vec<u8> {
    let mut value = seq.to_be_bytes().to_vec();
    value.extend(key.iter().rev());
    value
}

/// A scan in either direction: strictly ordered, whole values, every stable key once.
fn check_scan(memtable: &Arc<Memtable>, stable: &BTreeSet<Vec<u8>>, ascending: bool, snapshot: Seq) {
    let mut iter = memtable.iter(4, snapshot).unwrap();
    let mut expected: Box<dyn Iterator<Item = &Vec<u8>>> =
        if ascending { Box::new(stable.iter()) } else { Box::new(stable.iter().rev()) };
    let mut awaited = expected.next();
    let mut last: Option<Vec<u8>> = None;
    if ascending {
        iter.seek_to_first().unwrap();
    } else {
        iter.seek_to_last().unwrap();
    }
    while iter.valid() {
        let key = iter.key().to_vec();
        assert!(iter.entry().stored() == value_of(&key, iter.entry().seq) && iter.entry().seq <= snapshot);
        if let Some(last) = &last {
            assert!(if ascending { *last < key } else { *last > key }, "out of order or repeated");
        }
        if awaited == Some(&key) {
            awaited = expected.next();
        }
        last = Some(key);
        if ascending {
            iter.next().unwrap();
        } else {
            iter.prev().unwrap();
        }
    }
    assert_eq!(awaited, None, "a key that was there all the time was missed");
}

#[test]
fn iterators_neither_miss_nor_repeat_while_writers_insert() {
    with_seeds(0..rounds(12, 1) as u64, |seed, rng| {
        let memtable = memtable(if seed % 3 == 2 { Shape::NORMAL } else { TINY });
        let mut known = Vec::new();
        let mut stable = BTreeSet::new();
        for _ in 0..rounds(300, 15) {
            let mut key = random_key(rng, &known);
            key.truncate(60);
            known.push(key.clone());
            memtable.insert(4, &key, 1, Kind::PUT, &value_of(&key, 1), &NOT_DONE, 0);
            stable.insert(key);
        }
        let writers = AtomicUsize::new(3);
        std::thread::scope(|scope| {
            for writer in 0..3u64 {
                let (memtable, known, writers) = (&memtable, &known, &writers);
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed * 100 + writer);
                    for round in 0..rounds(2500, 25) as u64 {
                        let mut key = random_key(&mut rng, known);
                        key.truncate(60);
                        // Every writer has sequence numbers of its own.
                        let seq = 2 + round * 3 + writer;
                        memtable.insert(4, &key, seq, Kind::PUT, &value_of(&key, seq), &NOT_DONE, 1);
                        assert!(memtable.get(4, &key, seq).unwrap().seq == seq);
                    }
                    writers.fetch_sub(1, Ordering::Release);
                });
            }
            for reader in 0..2 {
                let (memtable, stable, writers) = (&memtable, &stable, &writers);
                scope.spawn(move || {
                    let mut scans = 0u64;
                    while writers.load(Ordering::Acquire) > 0 || scans < 2 {
                        let snapshot = if scans % 4 < 2 { MAX_SEQ } else { 1 };
                        check_scan(memtable, stable, (scans + reader) % 2 == 0, snapshot);
                        for key in stable.iter().step_by(7) {
                            assert_eq!(memtable.get(4, key, 1).unwrap().seq, 1);
                        }
                        scans += 1;
                    }
                });
            }
        });
        // In the end nothing is lost either.
        let mut model = Model::default();
        for key in &stable {
            model.insert(4, key, 1, Kind::PUT, &value_of(key, 1));
        }
        for writer in 0..3u64 {
            let mut rng = StdRng::seed_from_u64(seed * 100 + writer);
            for round in 0..rounds(2500, 25) as u64 {
                let mut key = random_key(&mut rng, &known);
                key.truncate(60);
                let seq = 2 + round * 3 + writer;
                model.insert(4, &key, seq, Kind::PUT, &value_of(&key, seq));
            }
        }
        assert_same(&memtable, &model, 4, rng, 8000);
    });
}

#[test]
fn helpers_that_insert_the_same_batch_insert_it_once() {
    with_seeds(0..rounds(30, 2) as u64, |_, rng| {
        let memtable = memtable(TINY);
        let mut known = Vec::new();
        let batches: Vec<Vec<(FamilyId, Vec<u8>)>> = (0..rounds(20, 3))
            .map(|_| {
                let mut batch = BTreeSet::new();
                for _ in 0..rng.gen_range(1..30) {
                    let mut key = random_key(rng, &known);
                    key.truncate(40);
                    known.push(key.clone());
                    batch.insert((rng.gen_range(0..3), key));
                }
                batch.into_iter().collect()
            })
            .collect();
        let done: Vec<AtomicBool> = batches.iter().map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for (number, batch) in batches.iter().enumerate() {
                        let seq = number as u64 + 1;
                        for (family, key) in batch {
                            let value = value_of(key, seq);
                            memtable.insert(*family, key, seq, Kind::PUT, &value, &done[number], seq - 1);
                        }
                        // Whoever comes here first has seen every entry in its place.
                        done[number].store(true, Ordering::Release);
                        for (family, key) in batch {
                            // Faster helpers may be further on and have cut what is below their oldest snapshot.
                            let entry = memtable.get(*family, key, MAX_SEQ).unwrap();
                            assert!(entry.seq >= seq && entry.stored() == value_of(key, entry.seq));
                        }
                    }
                });
            }
        });
        let mut counts: BTreeMap<FamilyId, u64> = BTreeMap::new();
        batches.iter().flatten().for_each(|(family, _)| *counts.entry(*family).or_default() += 1);
        for (family, count) in counts {
            assert_eq!(memtable.entries(family), count);
        }
    });
}

#[test]
fn estimates_are_exact_when_small_and_within_a_factor_when_large() {
    let memtable = memtable(Shape::NORMAL);
    let count = rounds(20_000, 300) as u64;
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for i in 0..count {
        memtable.insert(1, &key(i), 1, Kind::PUT, b"", &NOT_DONE, 0);
    }
    let mut keys: Vec<_> = (0..count).map(key).collect();
    keys.sort_unstable();
    let estimate = |lower: Option<&[u8]>, upper: Option<&[u8]>| {
        let range = KeyRange { lower: lower.map(<[u8]>::to_vec), upper: upper.map(<[u8]>::to_vec) };
        memtable.estimate_range(1, &range)
    };
    with_seeds(0..200, |_, rng| {
        let low = rng.gen_range(0..keys.len());
        let high = rng.gen_range(low..keys.len().min(low + 60));
        assert_eq!(estimate(Some(&keys[low]), Some(&keys[high])), (high - low) as u64);
        let high = rng.gen_range(low..keys.len());
        let (found, exact) = (estimate(Some(&keys[low]), Some(&keys[high])) as f64, (high - low) as f64);
        assert!(found < 100.0 + exact * 2.0 && found > exact / 2.0 - 100.0, "{found} for {exact}");
    });
    assert_eq!(estimate(Some(b"b"), Some(b"a")), 0);
    assert_eq!(estimate(None, Some(b"")), 0);
    let all = estimate(None, None);
    assert!(all >= count * 9 / 10 && all <= count, "{all}");
    assert_eq!(memtable.estimate_range(2, &KeyRange::default()), 0);
    // Places evenly apart are about evenly apart in the order of the keys, too.
    for place in 0..20 {
        let share = f64::from(place) / 20.0;
        let found = memtable.key_at(1, share).unwrap();
        let rank = keys.binary_search_by(|key| key.as_slice().cmp(&found)).unwrap() as f64;
        assert!((rank - share * count as f64).abs() < 100.0 + count as f64 / 5.0, "{share}: {rank}");
    }
    assert_eq!(memtable.key_at(1, 0.0).unwrap(), keys[0]);
    assert_eq!(memtable.key_at(2, 0.5), None);
}
