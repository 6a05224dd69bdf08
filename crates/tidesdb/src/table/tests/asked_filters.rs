//! Lookups with and without a look into filters.

use super::*;
use crate::cache::CachePriority;
use crate::options::FamilyOptions;
use crate::table::block::{BlockHandle, BlockKind};

/// Lookups of present keys read no filter. The first absent key makes the next ones ask, until many present keys in a row.
#[test]
fn lookups_ask_a_filter_where_it_pays() {
    let mut model = Model::new();
    for i in 0..300_000u64 {
        model.insert(((2 * i).to_be_bytes().to_vec(), Reverse(1)), (Kind::PUT, vec![1; 20]));
    }
    let options = SsTableOptions { bits_per_key: 10, ..SsTableOptions::default() };
    let store = Store::new(64 << 20);
    let table = store.open(store.write(0, &options, &model).unwrap());
    // An index partition, perhaps the partition's filter, and a data block.
    let looked_up = |key: u64| {
        let (key, before) = (key.to_be_bytes(), store.cache.hits() + store.cache.misses());
        let found = table.get(&key, hash_key(&key), MAX_SEQ).unwrap();
        (found.is_some(), store.cache.hits() + store.cache.misses() - before)
    };
    assert_eq!(looked_up(2_000), (true, 2));
    assert_eq!(looked_up(2_001), (false, 2), "nothing speaks for the filter yet");
    let past = (1..1_000).filter(|i| looked_up(2 * i + 1).1 > 1).count();
    assert!(past < 30, "{past} of 1,000 absent keys went past the filter");
    assert_eq!(looked_up(2_000), (true, 3));
    let found: Vec<u64> = (1..2_000).map(|i| looked_up(2 * i).1).collect();
    assert_eq!((found[0], found[1_998]), (3, 2));
    assert!(found.is_sorted_by(|earlier, later| earlier >= later), "{found:?}");
}

/// A filter for the whole table is read at the first lookup with a question for it. It stays until no lookup asks it, and is not
/// the cache's own copy of it, which is to be evicted like other blocks.
#[test]
fn the_filter_of_a_small_table_is_in_memory_while_it_is_asked() {
    let mut model = Model::new();
    for i in 0..20_000u64 {
        model.insert(((2 * i).to_be_bytes().to_vec(), Reverse(1)), (Kind::PUT, vec![1; 20]));
    }
    let store = Store::new(64 << 20);
    let table = store.open(store.write(0, &SsTableOptions::default(), &model).unwrap());
    let get = |key: u64| table.get(&key.to_be_bytes(), hash_key(&key.to_be_bytes()), MAX_SEQ).unwrap();
    let (offset, len) = table.facts().unwrap().filter_at;
    drop(table.load(BlockHandle { offset, len }, BlockKind::Filter, Some(CachePriority::High)).unwrap());
    assert!(get(2_000).is_some());
    let without = store.cache.resident_bytes();
    (0..3).for_each(|i| assert!(get(2_001 + 2 * i).is_none()));
    let with = store.cache.resident_bytes();
    assert!(with >= without + 20_000, "{without} and {with} bytes");
    assert!(get(2_007).is_none());
    assert_eq!(store.cache.resident_bytes(), with);
    store.cache.set_capacity(0);
    assert_eq!(store.cache.entries(), 0, "no block of the cache is in use");
    (0..2_000).for_each(|i| assert!(get(2 * i).is_some()));
    assert_eq!(store.cache.resident_bytes(), without);
}

/// A filter that cannot be read answers "perhaps": the lookup goes on to the data block.
#[test]
fn a_lookup_does_without_a_filter_that_cannot_be_read() {
    for rows in [20_000, 300_000u64] {
        let mut model = Model::new();
        for i in 0..rows {
            model.insert(((2 * i).to_be_bytes().to_vec(), Reverse(1)), (Kind::PUT, vec![1; 20]));
        }
        let store = Store::new(64 << 20);
        let table = store.open(store.write(0, &SsTableOptions::default(), &model).unwrap());
        let get = |key: u64| table.get(&key.to_be_bytes(), hash_key(&key.to_be_bytes()), MAX_SEQ);
        assert!(get(2_000).unwrap().is_some() && get(2_001).unwrap().is_none());
        let file = store.file();
        let whole = file.bytes.read().clone();
        file.bytes.write().clear();
        for key in 0..4 {
            assert!(get(2_001 + 2 * key % 4).unwrap().is_none());
        }
        assert!(get(2_000).unwrap().is_some());
        *file.bytes.write() = whole;
        (0..100).for_each(|i| assert!(get(2_001 + 2 * i).unwrap().is_none()));
    }
}

/// Earlier releases gave the last level no filters. Their tables are not to be rewritten for it.
#[test]
fn a_table_without_a_filter_has_the_present_form() {
    for prefix_len in [0, 8] {
        let family = FamilyOptions { prefix_len, ..FamilyOptions::default() };
        let of = |bottom| SsTableOptions::of_family(&family, bottom);
        assert!(of(true).bits_per_key > 0);
        for bits_per_key in [of(false).bits_per_key, of(true).bits_per_key, 0] {
            assert!(SsTableOptions { bits_per_key, ..of(true) }.are_of(&family));
        }
        assert!(!SsTableOptions { bits_per_key: 30, ..of(true) }.are_of(&family));
        assert!(!SsTableOptions { block_size: 1 << 20, bits_per_key: 0, ..of(true) }.are_of(&family));
    }
}
