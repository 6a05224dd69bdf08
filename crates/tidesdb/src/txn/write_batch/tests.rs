//! The batch against a map, its chunks, and its memory.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn a_family_whose_changes_were_undone_has_no_first_change() {
    let mut batch = WriteBatch::default();
    batch.push(2, b"a", Kind::PUT, b"stays");
    let mark = batch.mark();
    batch.push(1, b"a", Kind::PUT, b"goes");
    batch.cut_back(mark);
    assert_eq!(batch.first_change(1, b"a"), None);
    assert_eq!(batch.first_change(2, b"a"), Some(mark));
}

#[test]
fn a_large_row_that_is_cut_gives_its_memory_back() {
    let mut batch = WriteBatch::default();
    batch.push(1, b"a", Kind::PUT, b"small");
    let mark = batch.mark();
    batch.push(1, b"b", Kind::PUT, &vec![1; KEPT_AFTER_CUT + 1]);
    assert!(batch.bytes.capacity() > KEPT_AFTER_CUT);
    batch.cut_back(mark);
    assert!(batch.bytes.capacity() <= KEPT_AFTER_CUT / 2);
    assert_eq!(batch.get(1, b"a").map(|entry| entry.stored), Some(&b"small"[..]));
    assert!(batch.get(1, b"b").is_none());
}

type Model = BTreeMap<(FamilyId, Vec<u8>), (Kind, Vec<u8>)>;

fn check(batch: &WriteBatch, model: &Model) {
    let seen: Model = batch
        .families()
        .flat_map(|(family, entries)| {
            entries.map(move |e| ((family, e.key.to_vec()), (e.kind, e.stored.to_vec()))).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(&seen, model);
    for order in &batch.orders {
        let firsts = order.chunks.iter().map(|chunk| chunk[0].prefix);
        assert!(firsts.eq(order.firsts.iter().copied()));
    }
    for probe in 0..40u8 {
        for family in 1..3 {
            let key = vec![probe; 2];
            let at = (family, key.clone());
            assert_eq!(batch.get(family, &key).map(|e| (e.kind, e.stored.to_vec())), model.get(&at).cloned());
            let next =
                model.range(at.clone()..).find(|((f, _), _)| *f == family).map(|((_, k), _)| k.clone());
            assert_eq!(batch.first_from(family, &key, false).map(|e| e.key.to_vec()), next);
            let next = model
                .range((std::ops::Bound::Excluded(at.clone()), std::ops::Bound::Unbounded))
                .find(|((f, _), _)| *f == family)
                .map(|((_, k), _)| k.clone());
            assert_eq!(batch.first_from(family, &key, true).map(|e| e.key.to_vec()), next);
            let back = |inclusive: bool| {
                model
                    .iter()
                    .rev()
                    .find(|((f, k), _)| *f == family && (k < &key || (inclusive && k == &key)))
                    .map(|((_, k), _)| k.clone())
            };
            assert_eq!(batch.last_to(family, Some(&key), false).map(|e| e.key.to_vec()), back(true));
            assert_eq!(batch.last_to(family, Some(&key), true).map(|e| e.key.to_vec()), back(false));
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_a_map_through_changes_and_cuts(
        steps in prop::collection::vec((0..10u8, 1..3u32, 0..40u8, 0..4usize), 1..200)
    ) {
        let mut batch = WriteBatch::default();
        let mut model = Model::new();
        let mut marks: Vec<(Mark, Model)> = Vec::new();
        for (what, family, key, len) in steps {
            let key = vec![key; 2];
            match what {
                0 => marks.push((batch.mark(), model.clone())),
                1 => if let Some((mark, then)) = marks.pop() {
                    batch.cut_back(mark);
                    model = then;
                },
                2..=3 => {
                    batch.push(family, &key, Kind::DELETE, &[]);
                    model.insert((family, key), (Kind::DELETE, vec![]));
                }
                _ => {
                    let value = vec![7; len];
                    batch.push(family, &key, Kind::PUT, &value);
                    model.insert((family, key), (Kind::PUT, value));
                }
            }
        }
        check(&batch, &model);
        batch.clear();
        prop_assert!(batch.is_empty() && batch.families().next().is_none());
    }
}

#[test]
fn an_empty_batch_keeps_little_memory() {
    let mut batch = WriteBatch::default();
    let small = |batch: &mut WriteBatch| {
        for family in 1..4u32 {
            (0..4u32).for_each(|i| batch.push(family, &i.to_be_bytes(), Kind::PUT, &[7; 200]));
        }
    };
    small(&mut batch);
    let memory = batch.bytes.as_ptr();
    batch.clear();
    small(&mut batch);
    assert_eq!(batch.bytes.as_ptr(), memory, "an ordinary transaction allocates nothing");
    for (changes, len) in [(1, 900_000), (60, 16_000), (50_000, 10), (5000, 100)] {
        for i in 0..changes {
            batch.push(i % 20, &i.to_be_bytes(), Kind::PUT, &vec![7; len]);
        }
        assert!(batch.is_large());
        batch.clear();
        assert!(!batch.is_large() && batch.memory() < 32 << 10, "{} for {changes}", batch.memory());
    }
}

#[test]
fn many_keys_split_chunks_and_stay_in_order() {
    for stride in [1u32, 7919] {
        let mut batch = WriteBatch::default();
        for i in 0..5000u32 {
            batch.push(1, &(i.wrapping_mul(stride) % 5003).to_be_bytes(), Kind::PUT, b"v");
        }
        let keys: Vec<Vec<u8>> =
            batch.families().flat_map(|(_, e)| e.map(|e| e.key.to_vec()).collect::<Vec<_>>()).collect();
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(keys.len(), 5000);
        let first = batch.first_from(1, &[], false).map(|e| e.key.to_vec());
        assert_eq!(first.as_ref(), keys.first());
        assert_eq!(batch.last_to(1, None, false).map(|e| e.key.to_vec()).as_ref(), keys.last());
    }
}
