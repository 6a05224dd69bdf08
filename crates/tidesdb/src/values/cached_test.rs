//! The forms of values in the cache.

use std::path::Path;
use std::sync::Arc;

use super::{NewValue, ValueFiles};
use crate::cache::{BlockCache, CachePriority};
use crate::format::value_pointer::ValuePointer;
use crate::io::FaultyDisk;
use crate::options::Compression;
use crate::table::TableStore;
use crate::types::Pieces;
use crate::value::{ReadParts, SeparateValues};

const LEN: usize = 4000;

struct Cached {
    cache: Arc<BlockCache>,
    files: Arc<ValueFiles>,
}

impl Cached {
    fn new(is_direct: bool) -> Cached {
        Cached::of(is_direct, 2 << 20)
    }

    fn with_cache(capacity: usize) -> Cached {
        Cached::of(true, capacity)
    }

    fn of(is_direct: bool, capacity: usize) -> Cached {
        let disk = FaultyDisk::new(1);
        disk.shared().create_dir_all(Path::new("/s")).unwrap();
        let tables = TableStore::new(disk.shared(), "/s", 8);
        tables.set_direct(is_direct);
        let cache = BlockCache::new(capacity);
        let files = ValueFiles::new(tables.value_files(), Arc::clone(&cache));
        files.set_file_size(16 << 20);
        Cached { cache, files }
    }

    /// Full of unused blocks.
    fn fill(&self, file: u64) {
        for at in 0..1000 {
            self.cache.insert(file, at << 12, self.cache.frame(LEN).freeze(), CachePriority::Low);
        }
    }

    fn write(&self, value: &[u8], compression: Compression, priority: CachePriority) -> ValuePointer {
        let (rest, unless_at) = (Pieces::new(value, &[]), None);
        let value = NewValue { family: 1, key: b"key", first: b"", rest, compression, unless_at };
        let begin = || {
            self.files.create(1, 1)?;
            self.files.note_named(1);
            Ok(1)
        };
        let written = self.files.write(&value, priority, begin).unwrap();
        ValuePointer::decode(&written.pointer).unwrap().1
    }

    /// Whether the cache has the value as it is, and as its file has it.
    fn forms(&self, at: &ValuePointer) -> (bool, bool) {
        (self.cache.holds(at.file, at.offset), self.cache.holds_stored_copy(at.file, at.offset))
    }

    /// Reads a value, and compares it. Returns the number of requests.
    fn read(&self, at: &ValuePointer, value: &[u8]) -> u64 {
        let (mut pointer, mut out) = (Vec::new(), b"before".to_vec());
        at.encode(b"", &mut pointer);
        let before = self.files.store().reads();
        self.files.read(&pointer, ReadParts::Both, &mut out).unwrap();
        assert!(out == [b"before", value].concat());
        self.files.store().reads() - before
    }
}

/// Digits in half of the value.
fn value(n: u64) -> Vec<u8> {
    let digits = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string();
    let mut value: Vec<u8> = (0..).flat_map(|at| digits(n * 1000 + at).into_bytes()).take(LEN / 2).collect();
    value.resize(LEN, b' ');
    value
}

#[test]
fn a_full_cache_has_a_written_value_as_its_file_has_it() {
    use CachePriority::{Low, NoEvict};
    for (what, is_direct, compression, is_full, priority, forms) in [
        ("room", true, Compression::Lz4, false, Low, (true, false)),
        ("full", true, Compression::Lz4, true, Low, (false, true)),
        ("full, an insertion", true, Compression::Lz4, true, NoEvict, (false, false)),
        ("not compressed", true, Compression::None, true, Low, (true, false)),
        ("through the page cache", false, Compression::Lz4, true, Low, (true, false)),
    ] {
        let cached = Cached::new(is_direct);
        if is_full {
            cached.fill(100);
        }
        let at = cached.write(&value(1), compression, priority);
        assert_eq!(cached.forms(&at), forms, "{what}");
        let in_cache = forms != (false, false);
        assert_eq!(cached.read(&at, &value(1)), u64::from(!in_cache), "{what}");
        assert_eq!(cached.read(&at, &value(1)), 0, "{what}");
    }
}

#[test]
fn a_value_read_into_a_full_cache_leaves_a_copy_and_stays_itself_for_a_while() {
    let cached = Cached::new(true);
    cached.fill(100);
    let at = cached.write(&value(1), Compression::Zstd, CachePriority::NoEvict);
    cached.cache.erase_file(at.file);
    cached.fill(200);
    assert_eq!(cached.read(&at, &value(1)), 1);
    assert_eq!(cached.forms(&at), (true, true));
    for other in 0..1000 {
        cached.cache.insert(300, other << 12, cached.cache.frame(LEN).freeze(), CachePriority::Young);
    }
    assert_eq!(cached.forms(&at), (false, true));
    // Read so often that it is worth its memory.
    for _ in 0..100 {
        assert_eq!(cached.read(&at, &value(1)), 0);
    }
    assert_eq!(cached.forms(&at), (true, true));
}

#[test]
fn a_damaged_copy_is_dropped_and_the_file_of_values_answers() {
    let cached = Cached::new(true);
    cached.fill(100);
    let at = cached.write(&value(1), Compression::Lz4, CachePriority::NoEvict);
    let other = cached.write(&value(2), Compression::Lz4, CachePriority::NoEvict);
    for bytes in [vec![7; 100], vec![7; 10], vec![7; 2100]] {
        let block = cached.cache.frame(LEN).freeze();
        cached.cache.admit((at.file, at.offset), &bytes, &block, CachePriority::Low);
        assert_eq!(cached.read(&at, &value(1)), 1, "{} bytes", bytes.len());
        cached.cache.erase_file(at.file);
        cached.fill(100);
    }
    assert_eq!(cached.read(&other, &value(2)), 1);
}

/// What enters as it is while there is room has to be read again once there is none.
#[test]
fn a_cache_too_small_for_all_values_has_them_as_their_files_do_from_the_first_on() {
    for (number, capacity, most) in [(1500u64, 5 << 20, 1.05), (1500, 16 << 20, 1.0)] {
        let cached = Cached::with_cache(capacity);
        let value = |n: u64| value(n);
        let write = |n| cached.write(&value(n), Compression::Lz4, CachePriority::NoEvict);
        let places: Vec<ValuePointer> = (0..number).map(write).collect();
        cached.cache.erase_file(places[0].file);
        let mut requests = 0;
        for round in 0..3 {
            for n in 0..number {
                let n = (n * 7 + round) % number;
                requests += cached.read(&places[n as usize], &value(n));
            }
        }
        assert!(requests as f64 <= number as f64 * most, "{requests} requests with {capacity} bytes");
        let copies = places.iter().filter(|at| cached.forms(at).1).count() as u64;
        assert_eq!(copies, if capacity > 8 << 20 { 0 } else { number });
    }
}
