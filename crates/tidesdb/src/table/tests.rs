//! Tables against a model, and against damage.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

mod asked_filters;
mod formats;
mod read_ahead;
mod stored_copies;

use super::memory_disk::{MemoryDisk, MemoryFile};
use super::*;
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::io::{Disk, OpenMode};
use crate::iter::{InternalIterator, KeyRange, VersionIterator};
use crate::options::FormatVersion;
use crate::types::{Entry, Kind, Pieces, Seq, MAX_SEQ};

type Model = BTreeMap<(Vec<u8>, Reverse<Seq>), (Kind, Vec<u8>)>;

const FILE: u64 = 9;

struct Store {
    disk: Arc<MemoryDisk>,
    files: Arc<TableStore>,
    cache: Arc<BlockCache>,
    /// Version of the tables to write.
    format: FormatVersion,
}

impl Store {
    fn new(cache_bytes: usize) -> Store {
        let disk = Arc::new(MemoryDisk::default());
        let files = TableStore::new(Arc::clone(&disk) as Arc<dyn Disk>, "store", 8);
        Store { disk, files, cache: BlockCache::new(cache_bytes), format: FormatVersion::One }
    }

    fn write(&self, offset: u64, options: &SsTableOptions, model: &Model) -> Result<SsTableMeta> {
        let path = Path::new("store").join(TableStore::file_name(FILE));
        let mode = if self.disk.exists(&path)? { OpenMode::ReadWrite } else { OpenMode::Create };
        let writer = SsTableWriter::new(self.disk.open(&path, mode)?, offset, 3, options.clone());
        self.fill(writer.in_format(self.format), model)
    }

    fn fill(&self, mut writer: SsTableWriter, model: &Model) -> Result<SsTableMeta> {
        for ((key, Reverse(seq)), (kind, value)) in model {
            writer.add(key, Entry::new(*seq, *kind, value))?;
        }
        let estimate = writer.estimated_len();
        let meta = writer.finish()?;
        assert!(
            estimate <= meta.len * 3 + 2000 && meta.len <= estimate * 3 + 2000,
            "{estimate} {}",
            meta.len
        );
        Ok(meta)
    }

    fn open(&self, meta: SsTableMeta) -> Arc<SsTable> {
        SsTable::open(Arc::clone(&self.files), Arc::clone(&self.cache), FILE, meta)
    }

    fn file(&self) -> Arc<MemoryFile> {
        self.disk.file(&Path::new("store").join(TableStore::file_name(FILE)))
    }
}

fn table_of(options: &SsTableOptions, model: &Model) -> (Store, Arc<SsTable>) {
    let store = Store::new(1 << 20);
    let meta = store.write(0, options, model).unwrap();
    let table = store.open(meta);
    (store, table)
}

/// The rows visible to a snapshot: each key once.
fn seen(model: &Model, snapshot: Seq) -> Vec<(Vec<u8>, Seq, Kind, Vec<u8>)> {
    let mut out: Vec<(Vec<u8>, Seq, Kind, Vec<u8>)> = Vec::new();
    for ((key, Reverse(seq)), (kind, value)) in model {
        if *seq <= snapshot && out.last().is_none_or(|last| last.0 != *key) {
            out.push((key.clone(), *seq, *kind, value.clone()));
        }
    }
    out
}

fn random_key(rng: &mut StdRng, style: u32) -> Vec<u8> {
    match style {
        // Integers, as primary keys are.
        0 => rng.gen_range(0..400u64).to_be_bytes().to_vec(),
        // Prefixes of each other, zero bytes.
        1 => (0..rng.gen_range(0..7)).map(|_| [0u8, 1, 255][rng.gen_range(0..3)]).collect(),
        // Long common prefixes and equal heads.
        2 => format!("table/{:02}/aaaaaaaaaaaaaaaa/{:04}", rng.gen_range(0..4), rng.gen_range(0..100))
            .into_bytes(),
        // Any bytes, sometimes long.
        _ => {
            let len = if rng.gen_range(0..20) == 0 { rng.gen_range(0..3000) } else { rng.gen_range(1..20) };
            (0..len).map(|_| rng.gen()).collect()
        }
    }
}

fn random_model(rng: &mut StdRng) -> Model {
    let style = rng.gen_range(0..4);
    let keys = [1, 3, 30, 300, 1500][rng.gen_range(0..5)];
    let most_versions = [1, 1, 3, 60][rng.gen_range(0..4)];
    let most_value = [0, 10, 100, 400][rng.gen_range(0..4)];
    let mut model = Model::new();
    for _ in 0..keys {
        let key = random_key(rng, style);
        for _ in 0..rng.gen_range(1..=most_versions) {
            let kind = [Kind::PUT, Kind::PUT.marked_may_overwrite(), Kind::DELETE, Kind::SINGLE_DELETE]
                [rng.gen_range(0..4)];
            let len = if kind.is_tombstone() { 0 } else { rng.gen_range(0..=most_value) };
            let byte = if rng.gen() { Some(rng.gen()) } else { None };
            let value = (0..len).map(|_| byte.unwrap_or_else(|| rng.gen())).collect();
            let seq = if rng.gen_range(0..10) == 0 { 0 } else { rng.gen_range(1..500) };
            model.insert((key.clone(), Reverse(seq)), (kind, value));
        }
    }
    model
}

fn random_options(rng: &mut StdRng) -> SsTableOptions {
    SsTableOptions {
        compression: Compression::from_byte(rng.gen_range(0..5)).unwrap(),
        block_size: [128, 128, 256, 4096][rng.gen_range(0..4)],
        bits_per_key: [0, 4, 12][rng.gen_range(0..3)],
        prefix_len: [0, 2, 8][rng.gen_range(0..3)],
        use_btree: rng.gen(),
        block_codec: [BlockCodec::Plain, BlockCodec::Postings][rng.gen_range(0..2)],
    }
}

fn current(iter: &dyn InternalIterator) -> Option<(Vec<u8>, Seq, Kind, Vec<u8>)> {
    iter.valid().then(|| {
        let entry = iter.entry();
        (iter.key().to_vec(), entry.seq, entry.kind, entry.stored().to_vec())
    })
}

/// The rows of a walk that is refused after `most` rows.
fn walk(iter: &mut dyn InternalIterator, most: usize) -> Vec<(Vec<u8>, Seq, Kind, Vec<u8>)> {
    let mut taken = Vec::new();
    let mut takes = |key: &[u8], entry: Entry<'_>| {
        let takes = taken.len() < most;
        if takes {
            taken.push((key.to_vec(), entry.seq, entry.kind, entry.stored().to_vec()));
        }
        takes
    };
    iter.walk(&mut takes).unwrap();
    taken
}

#[allow(clippy::too_many_lines, reason = "one check after the other")]
fn check_against_model(rng: &mut StdRng, table: &Arc<SsTable>, model: &Model, tag: &str) {
    let keys: Vec<Vec<u8>> = model.keys().map(|(key, _)| key.clone()).collect();
    let near = |rng: &mut StdRng| {
        let mut key = keys[rng.gen_range(0..keys.len())].clone();
        match rng.gen_range(0..5) {
            0 => key.push(rng.gen()),
            1 => drop(key.pop()),
            2 => key.truncate(rng.gen_range(0..=key.len())),
            3 if !key.is_empty() => {
                let at = rng.gen_range(0..key.len());
                key[at] = rng.gen();
            }
            _ => {}
        }
        key
    };
    for snapshot in [MAX_SEQ, 0, rng.gen_range(1..500), rng.gen_range(1..500)] {
        let rows = seen(model, snapshot);
        for _ in 0..60 {
            let key = near(rng);
            let expected = rows.binary_search_by(|row| row.0.cmp(&key)).ok().map(|at| rows[at].clone());
            let hit = table.get(&key, hash_key(&key), snapshot).unwrap();
            let found = hit.map(|hit| (key.clone(), hit.seq, hit.kind, hit.stored().to_vec()));
            assert_eq!(found, expected, "{tag} get {key:?} at {snapshot}");
        }
        let mut ends = [near(rng), near(rng)];
        ends.sort();
        let [lower, upper] = ends.map(|end| rng.gen::<bool>().then_some(end));
        let mut iter = table.iter_within(snapshot, &Arc::new(KeyRange { lower, upper }));
        iter.seek_to_first().unwrap();
        for row in &rows {
            assert_eq!(current(&iter).as_ref(), Some(row), "{tag} forward at {snapshot}");
            iter.next().unwrap();
        }
        assert!(!iter.valid());
        iter.seek_to_last().unwrap();
        for row in rows.iter().rev() {
            assert_eq!(current(&iter).as_ref(), Some(row), "{tag} backward at {snapshot}");
            iter.prev().unwrap();
        }
        assert!(!iter.valid());
        for _ in 0..60 {
            let key = near(rng);
            let mut at = if rng.gen() {
                iter.seek(&key).unwrap();
                rows.partition_point(|row| row.0 < key) as isize
            } else {
                iter.seek_for_prev(&key).unwrap();
                rows.partition_point(|row| row.0 <= key) as isize - 1
            };
            for _ in 0..rng.gen_range(1..12) {
                let expected = usize::try_from(at).ok().and_then(|at| rows.get(at));
                assert_eq!(current(&iter).as_ref(), expected, "{tag} at {snapshot} near {key:?}");
                if expected.is_none() {
                    break;
                }
                match rng.gen_range(0..4) {
                    0 => {
                        iter.prev().unwrap();
                        at -= 1;
                    }
                    1 => {
                        let most = rng.gen_range(0..40);
                        let taken = walk(&mut iter, most);
                        let rest = &rows[at as usize..];
                        assert_eq!(
                            taken,
                            rest[..most.min(rest.len())],
                            "{tag} walk at {snapshot} from {key:?}"
                        );
                        at += taken.len() as isize;
                    }
                    _ => {
                        iter.next().unwrap();
                        at += 1;
                    }
                }
            }
        }
    }
    let mut raw = table.version_iter();
    for seek in [Vec::new(), near(rng), near(rng)] {
        raw.seek(&seek).unwrap();
        for ((key, Reverse(seq)), (kind, value)) in model.range((seek.clone(), Reverse(Seq::MAX))..) {
            assert!(raw.valid(), "{tag} raw");
            assert_eq!((raw.key(), raw.entry()), (&key[..], Entry::new(*seq, *kind, value)), "{tag} raw");
            raw.next().unwrap();
        }
        assert!(!raw.valid(), "{tag} raw");
    }
    for _ in 0..40 {
        let key = near(rng);
        let prefix = &key[..rng.gen_range(0..=key.len())];
        let there = keys.iter().any(|key| key.starts_with(prefix));
        assert!(table.may_contain_prefix(prefix).unwrap() || !there, "{tag} prefix {prefix:?}");
    }
    let check = table.verify().unwrap_or_else(|error| panic!("{tag} {error}"));
    assert_eq!((check.entries, check.bytes), (model.len() as u64, table.meta().len), "{tag}");
}

#[test]
fn tables_agree_with_a_model() {
    for seed in 0..150u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let model = random_model(&mut rng);
        let options = random_options(&mut rng);
        let mut store = Store::new([0, 1000, 20_000, 1 << 20][rng.gen_range(0..4)]);
        store.format = [FormatVersion::One, FormatVersion::Two][(seed % 2) as usize];
        let offset = [0, 4096, 1 << 20][rng.gen_range(0..3)];
        let meta = store.write(offset, &options, &model).unwrap();
        assert_eq!((meta.entries, meta.offset), (model.len() as u64, offset));
        let table = store.open(meta);
        check_against_model(&mut rng, &table, &model, &format!("seed {seed} {options:?}"));
        assert!(store.cache.bytes() <= store.cache.capacity());
    }
}

#[test]
fn keys_of_64_kib_and_values_of_1_mb_fit() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut model = Model::new();
    for i in 0..12u8 {
        let mut key = vec![b'k'; 65_536 - usize::from(i % 3)];
        key[65_000] = i;
        model.insert((key.clone(), Reverse(5)), (Kind::PUT, vec![i; 1 << 20]));
        model.insert((key, Reverse(4)), (Kind::PUT, vec![i + 1; 10]));
        model.insert((vec![b'a', i], Reverse(9)), (Kind::PUT, (0..1 << 20).map(|_| rng.gen()).collect()));
    }
    for compression in (0..5).filter_map(Compression::from_byte) {
        let options = SsTableOptions { compression, ..SsTableOptions::default() };
        let (_store, table) = table_of(&options, &model);
        check_against_model(&mut rng, &table, &model, "large");
    }
    let store = Store::new(0);
    let file = store.disk.open(Path::new("x"), OpenMode::Create).unwrap();
    let mut writer = SsTableWriter::new(file, 0, 1, SsTableOptions::default());
    let entry = Entry::new(1, Kind::PUT, b"");
    assert!(matches!(writer.add(&vec![0; 65_537], entry), Err(Error::InvalidArgument(_))));
}

/// Large enough for several index partitions, with filters for each.
#[test]
fn large_tables_have_partitions_and_keep_every_promise() {
    let mut model = Model::new();
    for i in 0..250_000u64 {
        let mut key = (i / 50).to_be_bytes().to_vec();
        key.extend_from_slice(&(i * 7).to_be_bytes());
        model.insert((key, Reverse(i + 1)), (Kind::PUT, i.to_le_bytes().to_vec()));
    }
    let options = SsTableOptions { bits_per_key: 12, prefix_len: 8, ..SsTableOptions::default() };
    let (store, table) = table_of(&options, &model);
    let mut rng = StdRng::seed_from_u64(1);
    table.verify().unwrap();
    for ((key, Reverse(seq)), (_, value)) in model.iter().step_by(37) {
        let hit = table.get(key, hash_key(key), MAX_SEQ).unwrap().unwrap();
        assert_eq!((hit.seq, hit.stored()), (*seq, &value[..]));
        assert!(table.may_contain_prefix(&key[..8]).unwrap());
        assert!(table.may_contain_prefix(&key[..12]).unwrap());
    }
    let mut wrong = 0;
    for _ in 0..20_000 {
        let mut key = rng.gen_range(0..5_000u64).to_be_bytes().to_vec();
        key.extend_from_slice(&(rng.gen_range(0..1_700_000u64) | 1).to_be_bytes());
        if model.contains_key(&(key.clone(), Reverse(1))) {
            continue;
        }
        let before = store.cache.hits() + store.cache.misses();
        if table.get(&key, hash_key(&key), MAX_SEQ).unwrap().is_none() {
            // Filter only, or filter, leaf and data block.
            wrong += usize::from(store.cache.hits() + store.cache.misses() - before > 1);
        }
    }
    assert!(wrong < 20_000 / 50, "{wrong} of 20000 absent keys went past the filter");
    let absent = (0..2_000u64).filter(|i| {
        let prefix = [&(i % 4_000).to_be_bytes()[..7], &[0xee][..]].concat();
        !model.keys().any(|(key, _)| key.starts_with(&prefix)) && table.may_contain_prefix(&prefix).unwrap()
    });
    assert!(absent.take(200).count() < 200);
    for _ in 0..200 {
        let (a, b) = (rng.gen_range(0..250_000u64), rng.gen_range(0..250_000u64));
        let (low, high) = (a.min(b), a.max(b));
        let bound = |i: u64| Some([(i / 50).to_be_bytes(), (i * 7).to_be_bytes()].concat());
        let range = KeyRange { lower: bound(low), upper: bound(high) };
        let estimate = table.estimate_range(&range).unwrap();
        assert!(estimate.abs_diff(high - low) <= 120, "{low}..{high}: {estimate}");
    }
    // Short ranges are counted in their blocks.
    for _ in 0..2_000 {
        let low = rng.gen_range(0..249_900u64);
        let high = low + rng.gen_range(1..60);
        let bound = |i: u64| Some([(i / 50).to_be_bytes(), (i * 7).to_be_bytes()].concat());
        let range = KeyRange { lower: bound(low), upper: bound(high) };
        assert_eq!(table.estimate_range(&range).unwrap(), high - low, "{low}..{high}");
    }
    for place in 0..=50 {
        let share = f64::from(place) / 50.0;
        let before = KeyRange { lower: None, upper: Some(table.key_at(share).unwrap()) };
        let rank = table.estimate_range(&before).unwrap();
        assert!(rank.abs_diff((share * 250_000.0) as u64) <= 250, "{share}: {rank}");
    }
    let all = KeyRange::default();
    assert_eq!(table.estimate_range(&all).unwrap(), 250_000);
    let (hits, misses) = (store.cache.hits(), store.cache.misses());
    let entries = store.cache.entries();
    let mut raw = table.version_iter();
    raw.seek(b"").unwrap();
    while raw.valid() {
        raw.next().unwrap();
    }
    assert_eq!(store.cache.entries(), entries, "a raw scan leaves the cache alone");
    assert!(store.cache.hits() + store.cache.misses() - hits - misses < 200);
}

#[test]
fn nothing_is_read_before_the_key_range_and_the_sequence_are_asked() {
    let mut model = Model::new();
    model.insert((b"d".to_vec(), Reverse(10)), (Kind::PUT, b"1".to_vec()));
    model.insert((b"f".to_vec(), Reverse(12)), (Kind::PUT, b"2".to_vec()));
    let (store, table) = table_of(&SsTableOptions::default(), &model);
    let opens = store.disk.opens.load(Ordering::Relaxed);
    for key in [&b"c"[..], b"g", b""] {
        assert!(table.get(key, hash_key(key), MAX_SEQ).unwrap().is_none());
    }
    assert!(table.get(b"d", hash_key(b"d"), 9).unwrap().is_none());
    assert!(!table.may_contain_prefix(b"a").unwrap() && !table.may_contain_prefix(b"fa").unwrap());
    let range = KeyRange { lower: Some(b"g".to_vec()), upper: None };
    assert_eq!(table.estimate_range(&range).unwrap(), 0);
    assert_eq!(store.disk.opens.load(Ordering::Relaxed), opens);
    assert_eq!(table.get(b"d", hash_key(b"d"), 10).unwrap().unwrap().stored(), b"1");
    assert_eq!(store.disk.opens.load(Ordering::Relaxed), opens + 1);
    let reads = store.file().reads.load(Ordering::Relaxed);
    assert!(table.get(b"d", hash_key(b"d"), 10).unwrap().is_some());
    assert_eq!(store.file().reads.load(Ordering::Relaxed), reads, "the second read is cached");
}

#[test]
fn two_tables_share_a_file() {
    let mut rng = StdRng::seed_from_u64(3);
    let (first, second) = (random_model(&mut rng), random_model(&mut rng));
    let store = Store::new(1 << 20);
    let options = SsTableOptions::default();
    let first_meta = store.write(0, &options, &first).unwrap();
    let at = next_table_offset(first_meta.len);
    let second_meta = store.write(at, &options, &second).unwrap();
    assert_eq!(second_meta.offset, at);
    check_against_model(&mut rng, &store.open(first_meta), &first, "first");
    check_against_model(&mut rng, &store.open(second_meta), &second, "second");
    let misplaced = store.write(at + 1, &options, &second);
    assert!(matches!(misplaced, Err(Error::InvalidArgument(_))));
}

#[test]
fn wrong_order_is_refused() {
    let store = Store::new(0);
    let file = store.disk.open(Path::new("x"), OpenMode::Create).unwrap();
    let mut writer = SsTableWriter::new(file.clone(), 0, 1, SsTableOptions::default());
    let put = |seq| Entry::new(seq, Kind::PUT, b"v");
    writer.add(b"b", put(5)).unwrap();
    writer.add(b"b", put(4)).unwrap();
    for (key, seq) in [(&b"b"[..], 4), (b"b", 5), (b"a", 9), (b"", 1), (b"c", MAX_SEQ + 1)] {
        assert!(matches!(writer.add(key, put(seq)), Err(Error::InvalidArgument(_))), "{key:?} {seq}");
    }
    writer.add(b"c", put(5)).unwrap();
    assert_eq!(writer.finish().unwrap().entries, 3);
    let empty = SsTableWriter::new(file, 0, 1, SsTableOptions::default());
    assert!(matches!(empty.finish(), Err(Error::InvalidArgument(_))));
}

#[test]
fn expiry_bounds_are_known() {
    let kind = Kind::from_byte(0b1_0001).unwrap();
    let mut model = Model::new();
    for (i, expiry) in [500u64, 100, 900].into_iter().enumerate() {
        let value = [&expiry.to_le_bytes()[..], b"row"].concat();
        model.insert((vec![i as u8], Reverse(1)), (kind, value));
    }
    let (_store, table) = table_of(&SsTableOptions::default(), &model);
    assert_eq!(table.properties().unwrap().expiry, Some((100, 900)));
    table.verify().unwrap();
}

fn damage_model() -> Model {
    let mut model = Model::new();
    for i in 0..12u8 {
        for seq in [3, 7] {
            let value = vec![i.wrapping_mul(31).wrapping_add(seq as u8); 11];
            model.insert((vec![b'k', i * 2], Reverse(seq)), (Kind::PUT, value));
        }
    }
    model
}

/// `count` rows with values of 100 bytes, all of sequence number 1.
fn rows_of(count: u32) -> Model {
    (0..count).map(|i| ((i.to_be_bytes().to_vec(), Reverse(1)), (Kind::PUT, vec![i as u8; 100]))).collect()
}

fn scan_all(table: &Arc<SsTable>) -> usize {
    let mut iter = table.iter(MAX_SEQ);
    iter.seek_to_first().unwrap();
    let mut rows = 0;
    while iter.valid() {
        rows += 1;
        iter.next().unwrap();
    }
    rows
}

#[test]
fn a_writer_with_a_cache_leaves_readers_nothing_to_read() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let model = if seed == 0 { rows_of(20_000) } else { random_model(&mut rng) };
        let options = random_options(&mut rng);
        let store = Store::new(64 << 20);
        let path = Path::new("store").join(TableStore::file_name(FILE));
        let file = store.disk.open(&path, OpenMode::Create).unwrap();
        let offset = TABLE_ALIGN * rng.gen_range(0..3);
        let writer = SsTableWriter::new(file, offset, 3, options).caching(&store.cache, FILE, false);
        let table = store.open(store.fill(writer, &model).unwrap());
        check_against_model(&mut rng, &table, &model, &format!("seed {seed}"));
        assert_eq!(store.cache.misses(), 0, "seed {seed}");
        store.cache.erase_file(FILE);
        check_against_model(&mut rng, &table, &model, &format!("seed {seed}, from the file"));
        assert!(store.cache.misses() > 0, "seed {seed}");
    }
}

#[test]
fn a_long_scan_fills_room_and_evicts_nothing() {
    let model = rows_of(50_000);
    let options = SsTableOptions::default();
    let roomy = Store::new(64 << 20);
    let table = roomy.open(roomy.write(0, &options, &model).unwrap());
    assert_eq!(scan_all(&table), 50_000);
    let misses = roomy.cache.misses();
    assert!(misses > 1000);
    assert_eq!(scan_all(&table), 50_000);
    assert_eq!(roomy.cache.misses(), misses, "all of it was kept");

    let small = Store::new(1 << 20);
    let table = small.open(small.write(0, &options, &model).unwrap());
    let hot = |i: u32| (i * 50).to_be_bytes();
    let read_hot =
        || (0..100).for_each(|i| assert!(table.get(&hot(i), hash_key(&hot(i)), 1).unwrap().is_some()));
    read_hot();
    for _ in 0..3 {
        assert_eq!(scan_all(&table), 50_000);
    }
    let misses = small.cache.misses();
    read_hot();
    assert_eq!(small.cache.misses(), misses, "what is read by key stayed");
}

/// Reads everything in every way; errors are fine, wrong answers are not.
fn read_all_ways(table: &Arc<SsTable>, model: &Model, tag: &str) {
    let rows = seen(model, MAX_SEQ);
    for row in &rows {
        if let Ok(found) = table.get(&row.0, hash_key(&row.0), MAX_SEQ) {
            let hit = found.unwrap_or_else(|| panic!("{tag}: {row:?} is lost"));
            assert_eq!((hit.seq, hit.stored()), (row.1, &row.3[..]), "{tag}");
        }
    }
    let mut iter = table.iter(MAX_SEQ);
    let mut step = iter.seek_to_first();
    for row in &rows {
        if step.is_err() {
            break;
        }
        assert_eq!(current(&iter).as_ref(), Some(row), "{tag}");
        step = iter.next();
    }
    let mut raw = table.version_iter();
    let mut step = raw.seek(b"");
    for ((key, Reverse(seq)), (kind, value)) in model {
        if step.is_err() {
            break;
        }
        assert!(raw.valid(), "{tag}");
        assert_eq!((raw.key(), raw.entry()), (&key[..], Entry::new(*seq, *kind, value)), "{tag}");
        step = raw.next();
    }
    let _ = table.estimate_range(&KeyRange { lower: Some(vec![b'k', 5]), upper: None });
    assert!(table.may_contain_prefix(b"k\x04").unwrap_or(true), "{tag}");
}

#[test]
fn every_flipped_byte_gives_an_error_or_the_right_answer_and_verify_finds_it() {
    let model = damage_model();
    for (use_btree, format) in
        [(false, FormatVersion::One), (true, FormatVersion::One), (false, FormatVersion::Two)]
    {
        let options =
            SsTableOptions { block_size: 128, use_btree, prefix_len: 2, ..SsTableOptions::default() };
        let store = Store { format, ..Store::new(1 << 20) };
        let meta = store.write(0, &options, &model).unwrap();
        let file = store.file();
        for at in 0..meta.len as usize {
            for mask in [0x01, 0x80, 0xff] {
                file.bytes.write()[at] ^= mask;
                store.cache.erase_file(FILE);
                let damaged = store.open(meta.clone());
                read_all_ways(&damaged, &model, &format!("byte {at} mask {mask:02x}"));
                match damaged.verify() {
                    Err(Error::Corruption { path, .. }) => assert_eq!(path, store.files.path(FILE)),
                    other => panic!("byte {at} mask {mask:02x}: {other:?}"),
                }
                file.bytes.write()[at] ^= mask;
            }
        }
        store.cache.erase_file(FILE);
        store.open(meta).verify().unwrap();
    }
}

#[test]
fn truncated_files_are_errors() {
    let model = damage_model();
    let options = SsTableOptions { block_size: 128, ..SsTableOptions::default() };
    let store = Store { format: FormatVersion::Two, ..Store::new(1 << 20) };
    let meta = store.write(0, &options, &model).unwrap();
    let whole = store.file().bytes.read().clone();
    for len in 0..meta.len as usize {
        *store.file().bytes.write() = whole[..len].to_vec();
        store.cache.erase_file(FILE);
        let cut = store.open(meta.clone());
        read_all_ways(&cut, &model, &format!("cut at {len}"));
        assert!(matches!(cut.verify(), Err(Error::Corruption { .. })), "cut at {len}");
        // A manifest that names a shorter table.
        let shorter = SsTableMeta { len: len as u64, ..meta.clone() };
        let shorter = store.open(shorter);
        assert!(matches!(shorter.verify(), Err(Error::Corruption { .. })), "length {len}");
        assert!(shorter.get(b"k\x02", hash_key(b"k\x02"), MAX_SEQ).is_err());
    }
}

#[test]
fn a_manifest_that_says_otherwise_is_found_out() {
    let (store, table) = table_of(&SsTableOptions::default(), &damage_model());
    let meta = table.meta();
    let wrong: [SsTableMeta; 6] = [
        SsTableMeta { entries: meta.entries + 1, ..meta.clone() },
        SsTableMeta { keys: meta.keys + 1, ..meta.clone() },
        SsTableMeta { max_seq: meta.max_seq + 1, ..meta.clone() },
        SsTableMeta { min_key: b"a".to_vec(), ..meta.clone() },
        SsTableMeta { family: meta.family + 1, ..meta.clone() },
        SsTableMeta { offset: 4096, ..meta.clone() },
    ];
    for meta in wrong {
        assert!(matches!(store.open(meta.clone()).verify(), Err(Error::Corruption { .. })), "{meta:?}");
    }
}

/// Random bytes as payloads, under valid checksums.
#[test]
fn sealed_nonsense_never_panics() {
    use super::block::{trailer_of, BlockKind, StoredAs};
    let model = damage_model();
    let options =
        SsTableOptions { compression: Compression::None, block_size: 128, ..SsTableOptions::default() };
    let (store, table) = table_of(&options, &model);
    let whole = store.file().bytes.read().clone();
    let meta = table.meta().clone();
    // Data blocks, the filter, the index and the properties, as the index names them.
    let mut handles = Vec::new();
    let mut cursor = iterator::IndexCursor::new(None);
    let mut more = cursor.first(&table).unwrap();
    while more {
        handles.push((cursor.entry(&table).unwrap().block, BlockKind::Data));
        more = cursor.next(&table).unwrap();
    }
    let footer = &table.opened().unwrap().footer;
    handles.push((footer.top, BlockKind::Index));
    handles.push((footer.filter, BlockKind::Filter));
    handles.push((footer.properties, BlockKind::Properties));
    for seed in 0..3_000u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (handle, kind) = handles[rng.gen_range(0..handles.len())];
        let (start, end) = (handle.offset as usize, (handle.offset + handle.len) as usize);
        let mut payload = whole[start..end - 16].to_vec();
        for _ in 0..rng.gen_range(1..4) {
            let at = rng.gen_range(0..payload.len());
            payload[at] = [0, 1, 0x7f, 0x80, 0xff, rng.gen()][rng.gen_range(0..6)];
        }
        let trailer =
            trailer_of((&payload, StoredAs::Plain(Compression::None)), kind, payload.len(), handle.offset);
        let encoded = [&payload[..], &trailer].concat();
        let mut bytes = whole.clone();
        bytes[start..end].copy_from_slice(&encoded);
        *store.file().bytes.write() = bytes;
        store.cache.erase_file(FILE);
        let table = store.open(meta.clone());
        for (key, _) in model.keys() {
            let _ = table.get(key, hash_key(key), 5);
        }
        let mut iter = table.iter(5);
        let mut steps = 0;
        let mut step = iter.seek_to_first();
        while step.is_ok() && iter.valid() && steps < 100 {
            let _ = (iter.key(), iter.entry());
            step = iter.next();
            steps += 1;
        }
        let mut step = iter.seek_for_prev(b"k\x0b");
        while step.is_ok() && iter.valid() && steps < 200 {
            step = iter.prev();
            steps += 1;
        }
        let _ = table.estimate_range(&KeyRange { lower: Some(vec![b'k', 5]), upper: Some(vec![b'k', 9]) });
        let _ = table.verify();
        let mut raw = table.version_iter();
        let mut step = raw.seek(b"");
        while step.is_ok() && raw.valid() && steps < 400 {
            step = raw.next();
            steps += 1;
        }
    }
}

#[test]
fn files_beyond_the_bound_are_closed_and_opened_again() {
    let disk = Arc::new(MemoryDisk::default());
    for number in 0..20 {
        let path = Path::new("store").join(TableStore::file_name(number));
        disk.open(&path, OpenMode::Create).unwrap().write_at(&[number as u8], 0).unwrap();
    }
    let files = TableStore::new(Arc::clone(&disk) as Arc<dyn Disk>, "store", 4);
    for round in 0..3 {
        for number in 0..20 {
            let mut byte = [0];
            files.get(number).unwrap().read_exact_at(&mut byte, 0).unwrap();
            assert_eq!((u64::from(byte[0]), files.open_files() <= 4), (number, true), "round {round}");
        }
    }
    let opens = disk.opens.load(Ordering::Relaxed);
    files.get(19).unwrap();
    assert_eq!(disk.opens.load(Ordering::Relaxed), opens);
    files.forget(19);
    files.get(19).unwrap();
    assert_eq!(disk.opens.load(Ordering::Relaxed), opens + 1);
    assert!(files.get(99).is_err());
}

/// The sync at the end finds little to write: each byte but the last few is on its way to the disk, once.
#[test]
fn a_table_goes_to_the_disk_while_it_is_written() {
    let mut rng = StdRng::seed_from_u64(11);
    let random = |rng: &mut StdRng| (0..10_000).map(|_| rng.gen()).collect::<Vec<u8>>();
    let model: Model = (0..500u64)
        .map(|key| ((key.to_be_bytes().to_vec(), Reverse(1)), (Kind::PUT, random(&mut rng))))
        .collect();
    let store = Store::new(1 << 20);
    let meta = store.write(TABLE_ALIGN, &SsTableOptions::default(), &model).unwrap();
    let file = store.file();
    let early = file.written_early.lock();
    let mut end = TABLE_ALIGN;
    for &(offset, len) in early.iter() {
        assert_eq!(offset, end, "{early:?}");
        end += len;
    }
    assert!(early.len() >= 3, "{early:?}");
    assert!(TABLE_ALIGN + meta.len - end < 2 << 20, "{early:?} of {}", meta.len);
}

#[test]
fn read_ahead_gives_back_the_room_of_a_large_block() {
    let large = vec![7u8; 8 << 20];
    let options = SsTableOptions { compression: Compression::None, ..SsTableOptions::default() };
    let model: Model = (1..=100u64)
        .map(|key| (if key == 1 { large.clone() } else { vec![0; 1000] }, key))
        .map(|(value, key)| ((key.to_be_bytes().to_vec(), Reverse(1)), (Kind::PUT, value)))
        .collect();
    let (_store, table) = table_of(&options, &model);
    let mut window = super::read_ahead::Window::default();
    let handle = |offset, len| super::block::BlockHandle { offset, len };
    window.block(&table, handle(0, 8 << 20), handle(0, 8 << 20)).unwrap();
    assert!(window.capacity() >= 8 << 20);
    window.block(&table, handle(8 << 20, 4096), handle(8 << 20, 1 << 16)).unwrap();
    assert!(window.capacity() < 1 << 20, "{}", window.capacity());

    // A merge has a large value once, and not while it goes through others.
    let mut versions = table.version_iter();
    versions.seek(b"").unwrap();
    assert_eq!(versions.entry().stored(), large);
    assert!(versions.memory() < 9 << 20, "{}", versions.memory());
    versions.next().unwrap();
    assert!(versions.valid() && versions.memory() < 1 << 20, "{}", versions.memory());
}
