//! Tests of spilling batches, cut back to marks of any age, against a map.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use crate::db::Db;
use crate::io::FaultyDisk;
use crate::iter::merge::MergingIterator;
use crate::iter::InternalIterator;
use crate::lock::LockOwner;
use crate::options::{FamilyOptions, Options};
use crate::store::sealed_runs::{SealedRuns, MAX_RUNS};
use crate::txn::transaction::TransactionOptions;
use crate::txn::write_batch::{Mark, WriteBatch};
use crate::types::{FamilyId, Kind};

type Model = BTreeMap<(FamilyId, Vec<u8>), (Kind, Vec<u8>)>;

fn store() -> Db {
    let options = Options { write_buffer_size: 4 << 10, block_cache_size: 4 << 10, ..Options::default() };
    let db = Db::open_on(FaultyDisk::new(1).shared(), Path::new("/s"), options, None).expect("opens");
    let small = FamilyOptions { block_size: 128, ..FamilyOptions::default() };
    for name in [&b"a"[..], b"b"] {
        db.create_family(name, small.clone()).expect("creates");
    }
    db
}

#[test]
fn a_load_does_not_count_as_what_a_commit_brings_into_memory() {
    let db = store();
    let family = db.family(b"a").expect("there");
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default()).expect("begins");
    for n in 0..1000u32 {
        txn.put(&family, &n.to_be_bytes(), &[1; 200]).expect("puts");
    }
    txn.commit().expect("commits");
    let stats = db.stats();
    assert!(stats.spilled_runs > 0 && stats.user_bytes_written > 200_000, "{stats:?}");
    assert!(db.store().mean_commit() < 1000, "{} bytes", db.store().mean_commit());
}

/// Spills like a transaction.
fn spill(batch: &mut WriteBatch, db: &Db, owner: &LockOwner) {
    batch.write_run(db.store(), owner, &[]).expect("writes");
    batch.forget_written();
    batch.merge_runs(db.store(), owner).expect("merges");
}

/// Everything in the batch, memory over runs; point reads and both directions of a scan agree.
fn content(batch: &WriteBatch) -> Model {
    let mut seen = Model::new();
    for family in 1..3 {
        let mut merge = MergingIterator::new(batch.runs().iterators(family, &[]).expect("iterators"));
        let mut backwards = Vec::new();
        merge.seek_to_last().expect("seeks");
        while merge.valid() {
            backwards.push((merge.key().to_vec(), merge.entry().kind));
            merge.prev().expect("steps");
        }
        let mut forwards = Vec::new();
        merge.seek_to_first().expect("seeks");
        while merge.valid() {
            let (key, entry) = (merge.key().to_vec(), merge.entry());
            let hit = batch.runs().get(family, &key).expect("reads").expect("it is there");
            assert_eq!((hit.kind, hit.stored()), (entry.kind, entry.stored()));
            forwards.push((key.clone(), entry.kind));
            seen.insert((family, key), (entry.kind, entry.stored().to_vec()));
            merge.next().expect("steps");
        }
        backwards.reverse();
        assert_eq!(forwards, backwards);
    }
    for (family, entries) in batch.families() {
        for entry in entries {
            seen.insert((family, entry.key.to_vec()), (entry.kind, entry.entry().stored().to_vec()));
        }
    }
    seen
}

/// The content a commit would show.
fn sealed(db: &Db, batch: &WriteBatch, owner: &LockOwner) -> Model {
    let runs = batch.seal(db.store(), owner).expect("seals");
    let names = runs.encode();
    let read = SealedRuns::decode(&db.store().versions, &names).expect("decodes");
    assert_eq!(read.encode(), names);
    let committed = runs.commit(&db.store().versions, 77, 100);
    let mut seen = Model::new();
    for family in 1..3 {
        let tables = committed.of(family);
        assert!(tables.len() <= MAX_RUNS);
        for table in tables {
            table.verify().expect("verifies");
            let mut before = table.iter(76);
            before.seek_to_first().expect("seeks");
            assert!(!before.valid(), "older snapshots see nothing");
            assert!(table
                .get(&table.meta().min_key, crate::table::hash_key(&table.meta().min_key), 76)
                .expect("reads")
                .is_none());
        }
        let iterators =
            tables.iter().map(|table| Box::new(table.iter(77)) as Box<dyn InternalIterator>).collect();
        let mut merge = MergingIterator::new(iterators);
        merge.seek_to_first().expect("seeks");
        while merge.valid() {
            let entry = merge.entry();
            assert_eq!(entry.seq, 77);
            seen.insert((family, merge.key().to_vec()), (entry.kind, entry.stored().to_vec()));
            merge.next().expect("steps");
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Marks are kept, forgotten and cut back to in any order of age, as savepoints are.
    #[test]
    fn agrees_with_a_map_through_spills_and_cuts(
        steps in prop::collection::vec((0..24u8, 1..3u32, 0..40u8, 0..30usize), 1..300)
    ) {
        let db = store();
        let owner: Arc<LockOwner> = LockOwner::new(1);
        let mut batch = WriteBatch::default();
        let mut model = Model::new();
        let mut marks: Vec<(Mark, Model)> = Vec::new();
        for (what, family, key, len) in steps {
            let at = (family, vec![b'k', key]);
            match what {
                0 => marks.push((batch.mark(), model.clone())),
                1 => if !marks.is_empty() {
                    // To a mark of any age; it stays, those after it go.
                    let to = key as usize % marks.len();
                    marks.truncate(to + 1);
                    batch.cut_back(marks[to].0);
                    model = marks[to].1.clone();
                },
                2..=4 => spill(&mut batch, &db, &owner),
                5 => if !batch.is_empty() {
                    prop_assert_eq!(&sealed(&db, &batch, &owner), &model);
                },
                6..=9 => {
                    batch.push(family, &at.1, Kind::DELETE, &[]);
                    model.insert(at, (Kind::DELETE, vec![]));
                }
                _ => {
                    let value = vec![what; len];
                    batch.push(family, &at.1, Kind::PUT, &value);
                    model.insert(at, (Kind::PUT, value));
                }
            }
            prop_assert_eq!(batch.is_empty(), model.is_empty());
        }
        prop_assert_eq!(&content(&batch), &model);
        spill(&mut batch, &db, &owner);
        prop_assert_eq!(&content(&batch), &model);
        for (mark, then) in marks.into_iter().rev() {
            batch.cut_back(mark);
            prop_assert_eq!(&content(&batch), &then);
        }
        batch.clear();
        prop_assert!(batch.is_empty() && content(&batch).is_empty());
        db.store().unlink_unused();
    }
}
