//! Many keys are found, and read, in one call as one by one: in memtables, tables of all levels, and the transaction's
//! own changes in memory and in runs. With deletions, several versions and expiring entries.
//!
//! `FIND_ALL_SEEDS` is the number of programs, `FIND_ALL_SEED` repeats one.

mod sim;

use std::sync::Arc;

use sim::{begin, seeds, Rng};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Error, Options, SyncMode};

const KEYS: u64 = 400;

/// A spill at about 25 changes.
fn options() -> Options {
    Options { write_buffer_size: 4 << 10, ..sim::tiny(SyncMode::None) }
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

/// Ascending keys with gaps, now and then in another order and twice.
fn asked(rng: &mut Rng) -> Vec<Vec<u8>> {
    let step = 1 + rng.below(20);
    let mut keys: Vec<_> = (0..KEYS).filter(|_| rng.one_in(step)).map(key).collect();
    if rng.one_in(4) && !keys.is_empty() {
        for _ in 0..5 {
            let (from, to) = (rng.below(keys.len() as u64) as usize, rng.below(keys.len() as u64) as usize);
            keys[to] = keys[from].clone();
        }
    }
    keys
}

/// Returns the number of keys found.
fn compare(txn: &mut Transaction, family: &Arc<Family>, keys: &[Vec<u8>], seed: u64) -> usize {
    let mut answers = Vec::new();
    txn.find_all(family, keys.iter().map(Vec::as_slice), |answer| answers.push(answer)).expect("looks");
    assert_eq!(answers.len(), keys.len());
    for (key, answer) in keys.iter().zip(&answers) {
        let alone = txn.get(family, key, ReadMode::Latest).expect("reads");
        assert_eq!(answer.is_some(), alone.is_some(), "seed {seed}: {}", key.escape_ascii());
    }
    for mode in [ReadMode::Latest, ReadMode::Snapshot, ReadMode::Shared] {
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut values = vec![None; keys.len()];
        let each = |place: usize, value: Option<&[u8]>| {
            let twice = values[place].replace(value.map(<[u8]>::to_vec));
            assert!(twice.is_none(), "seed {seed}: {place} is answered twice");
        };
        txn.get_many(family, &asked, mode, each).expect("reads");
        for (key, value) in keys.iter().zip(values) {
            let alone = txn.get(family, key, mode).expect("reads");
            assert_eq!(value, Some(alone), "seed {seed}, {mode:?}: {}", key.escape_ascii());
        }
    }
    answers.iter().flatten().count()
}

/// Random changes, each committed or the open transaction's own.
fn change(txn: &mut Transaction, family: &Arc<Family>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(60) {
        let key = key(rng.below(KEYS));
        match rng.below(5) {
            0 | 1 => txn.delete(family, &key).expect("deletes"),
            2 => txn.put_expiring(family, &key, b"expires", u64::MAX / 2).expect("puts"),
            _ => txn.put(family, &key, &vec![b'v'; rng.below(40) as usize]).expect("puts"),
        }
    }
}

fn run(seed: u64) -> usize {
    let mut rng = Rng(seed);
    let disk = FaultyDisk::new(seed);
    let db: Db = sim::open(&disk, &options()).expect("opens");
    db.create_family(b"a", sim::tiny_family()).expect("creates");
    db.create_family(b"b", sim::tiny_family()).expect("creates");
    let (family, other) = (db.family(b"a").expect("there"), db.family(b"b").expect("there"));
    let mut found = 0;
    for _ in 0..20 {
        let mut txn = begin(&db);
        change(&mut txn, &family, &mut rng);
        if rng.one_in(3) {
            change(&mut txn, &other, &mut rng);
        }
        found += compare(&mut txn, &family, &asked(&mut rng), seed);
        if rng.one_in(4) {
            txn.rollback().expect("rolls back");
        } else {
            txn.commit().expect("commits");
        }
        if rng.one_in(4) {
            db.flush().expect("flushes");
        }
        let mut reader = begin(&db);
        found += compare(&mut reader, &family, &asked(&mut rng), seed);
        reader.rollback().expect("rolls back");
    }
    found
}

#[test]
fn keys_are_found_as_one_by_one() {
    let found: usize = seeds("FIND_ALL", 60).into_iter().map(run).sum();
    assert!(found > 1000, "{found}");
}

#[test]
fn times_of_expiry_and_dropped_families_are_told() {
    let disk = FaultyDisk::new(1);
    let db: Db = sim::open(&disk, &options()).expect("opens");
    db.create_family(b"a", sim::tiny_family()).expect("creates");
    let family = db.family(b"a").expect("there");
    let mut txn = begin(&db);
    txn.put_expiring(&family, b"b", b"v", u64::MAX / 2).expect("puts");
    txn.put(&family, b"c", b"v").expect("puts");
    txn.commit().expect("commits");
    txn.begin(Default::default()).expect("begins");
    let mut answers = Vec::new();
    let keys = [&b"a"[..], b"b", b"c", b"d"];
    txn.find_all(&family, keys.into_iter(), |answer| answers.push(answer)).expect("looks");
    assert_eq!(answers, [None, Some(u64::MAX / 2), Some(0), None]);
    let mut ddl = db.ddl().expect("begins");
    ddl.drop_family(b"a").expect("drops");
    ddl.commit().expect("drops");
    assert!(matches!(txn.find_all(&family, keys.into_iter(), |_| {}), Err(Error::NoSuchFamily(_))));
}

#[test]
fn a_read_of_many_keys_can_be_killed() {
    let disk = FaultyDisk::new(1);
    let db: Db = sim::open(&disk, &options()).expect("opens");
    db.create_family(b"a", sim::tiny_family()).expect("creates");
    let family = db.family(b"a").expect("there");
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut txn = begin(&db);
    txn.find_all(&family, asked.iter().copied(), |_| {}).expect("looks");
    txn.get_many(&family, &asked, ReadMode::Snapshot, |_, _| {}).expect("reads");
    db.kill(txn.owner());
    let found = txn.find_all(&family, asked.iter().copied(), |_| {});
    assert!(matches!(found, Err(Error::Interrupted)), "{found:?}");
    let read = txn.get_many(&family, &asked, ReadMode::Snapshot, |_, _| {});
    assert!(matches!(read, Err(Error::Interrupted)), "{read:?}");
}
