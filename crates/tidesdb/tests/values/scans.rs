//! The cost of scans over values in value files, in requests of the disk, and their failures.

use std::ops::Range;

use tidesdb::internal::txn::cursor::{Scan, Start};
use tidesdb::DirectReads;

use super::*;

type Row = (Vec<u8>, Vec<u8>);

const LEN: usize = 4000;

/// Rows of a loaded store.
const ROWS: u32 = 101;

/// The keys so that neighbours have four others between them in their file, or more.
const SCRAMBLED: u32 = 37;

/// A store opened anew, with nothing but index and entries in its cache.
struct Cold {
    disk: FaultyDisk,
    db: Db,
    family: Arc<Family>,
    rows: u32,
}

/// Half of a value can be compressed.
fn half_random(n: u32) -> Vec<u8> {
    let mut bytes = value(n, LEN / 2);
    bytes.resize(LEN, b'x');
    bytes
}

fn cold_options(cache: usize) -> Options {
    Options {
        write_buffer_size: 4 << 20,
        block_cache_size: cache,
        max_open_files: 100,
        direct_reads: DirectReads::On,
        ..options(SyncMode::None)
    }
}

impl Cold {
    /// With a row for each key in this order.
    fn new(compression: Compression, keys: impl ExactSizeIterator<Item = u32>, options: &Options) -> Cold {
        let disk = FaultyDisk::new(1);
        let db = open(&disk, options).expect("opens");
        let of = FamilyOptions { compression, block_size: 4096, ..family() };
        let of = db.create_family(b"t", of).expect("creates");
        let rows = keys.len() as u32;
        for n in keys {
            put(&db, &of, n, &half_random(n)).expect("puts");
        }
        db.flush().expect("flushes");
        db.compact(&of).expect("merges");
        drop((of, db));
        let db = open(&disk, options).expect("opens");
        let family = db.family(b"t").expect("is there");
        let cold = Cold { disk, db, family, rows };
        cold.warm_entries();
        cold
    }

    /// In the order of the keys.
    fn in_order() -> Cold {
        Cold::new(Compression::None, 0..ROWS, &cold_options(8 << 20))
    }

    fn scrambled() -> Cold {
        Cold::new(Compression::None, (0..ROWS).map(|n| n * SCRAMBLED % ROWS), &cold_options(8 << 20))
    }

    fn warm_entries(&self) {
        let keys: Vec<Vec<u8>> = (0..self.rows).map(key).collect();
        let mut txn = begin(&self.db);
        let mut found = 0;
        let keys = keys.iter().map(|key| &key[..]);
        txn.find_all(&self.family, keys, |entry| found += u32::from(entry.is_some())).expect("finds");
        assert_eq!(found, self.rows);
    }

    /// Reads `rows` rows of a scan, or as many as there are. `Err`: those before the failure.
    fn take(&self, scan: &Scan<'_>, rows: usize) -> Result<Vec<Row>, (Vec<Row>, Error)> {
        let mut txn = begin(&self.db);
        let mut cursor = self.db.cursor(&self.family);
        let mut taken: Vec<Row> = Vec::new();
        let mut found = cursor.seek(&mut txn, scan);
        let mut at = 0;
        loop {
            match found {
                Err(error) => return Err((taken, error)),
                Ok(false) => return Ok(taken),
                Ok(true) => {}
            }
            let (key, value) = cursor.row(at);
            taken.push((key.to_vec(), value.to_vec()));
            if taken.len() == rows {
                return Ok(taken);
            }
            if at + 1 < cursor.len() {
                at += 1;
            } else {
                found = cursor.fetch(&mut txn, at, scan.start.is_forward());
                at = 0;
            }
        }
    }

    /// Requests and bytes of a scan of these rows, which are compared.
    fn cost(&self, scan: &Scan<'_>, rows: impl ExactSizeIterator<Item = u32>) -> (u64, u64) {
        let before = self.db.stats();
        let taken = self.take(scan, rows.len()).expect("scans");
        assert!(taken == expected(rows));
        let after = self.db.stats();
        (after.table_reads - before.table_reads, after.table_read_bytes - before.table_read_bytes)
    }

    /// Where the random half of a value is in its file.
    fn place(&self, n: u32) -> (String, Range<u64>) {
        let wanted = value(n, LEN / 2);
        let find = |name: String| {
            let bytes = self.disk.contents(&Path::new(DIR).join(&name)).expect("is there");
            let at = bytes.windows(64).position(|window| window == &wanted[..64])? as u64;
            Some((name, at..at + LEN as u64 / 2))
        };
        value_files(&self.disk).into_iter().find_map(find).expect("is in a file")
    }
}

fn expected(rows: impl Iterator<Item = u32>) -> Vec<Row> {
    rows.map(|n| (key(n), half_random(n))).collect()
}

fn from(n: &[u8], expect: u32) -> Scan<'_> {
    Scan { start: Start::AtOrAfter, key: n, expect, ..Scan::default() }
}

#[test]
fn a_scan_reads_the_values_of_the_expected_rows_and_no_others() {
    for (expect, rows, most) in [(10, 10, 10), (3, 3, 3), (1, 1, 1), (40, 40, 40), (0, 1, 1), (0, 10, 14)] {
        let cold = Cold::scrambled();
        let (requests, _) = cold.cost(&from(&key(20), expect), 20..20 + rows);
        assert!(requests <= most, "{rows} rows, {expect} expected: {requests}");
    }
    // Where more come than were expected, and where there are not as many.
    let cold = Cold::scrambled();
    cold.cost(&from(&key(0), 5), 0..ROWS);
    cold.cost(&from(&key(0), 500), 0..ROWS);
}

#[test]
fn the_value_of_a_row_past_the_end_is_not_read() {
    let (first, bound, last) = (key(20), key(25), key(30));
    for scan in [
        Scan { bound: Some(&bound), ..from(&first, 0) },
        Scan { prefix: 4, ..from(&first, 0) },
        Scan { start: Start::AtOrBefore, bound: Some(&bound), ..from(&last, 0) },
    ] {
        let cold = Cold::scrambled();
        let before = cold.db.stats().table_reads;
        let rows = cold.take(&scan, 100).expect("scans");
        assert_eq!(rows.len() as u64, cold.db.stats().table_reads - before, "{scan:?}");
    }
}

#[test]
fn neighbours_in_a_file_are_read_by_one_request() {
    for forward in [true, false] {
        let cold = Cold::in_order();
        let start = if forward { Start::AtOrAfter } else { Start::AtOrBefore };
        let first = key(50);
        let scan = Scan { start, key: &first, expect: 10, ..Scan::default() };
        let step = |n: u32| if forward { 50 + n } else { 50 - n };
        let (requests, bytes) = cold.cost(&scan, (0..10).map(step));
        assert_eq!(requests, 1, "{forward}");
        assert!(bytes <= 10 * (LEN as u64 + 100) + 1024, "{bytes}");
        // They are in the cache.
        assert_eq!(cold.cost(&scan, (0..10).map(step)).0, 0);
    }
    // A whole table, of which nobody knows how far it is read.
    let cold = Cold::in_order();
    let (requests, bytes) = cold.cost(&from(&key(0), 0), 0..ROWS);
    assert!((4..=9).contains(&requests), "{requests}");
    assert!(bytes <= u64::from(ROWS) * (LEN as u64 + 100) + 1024 * requests, "{bytes}");
    // A request has a bound, and so a scan's memory.
    assert!(bytes / requests < 256 << 10);
}

#[test]
fn cached_values_between_missing_ones_are_read_over() {
    let cold = Cold::in_order();
    for n in [22, 23, 27] {
        begin(&cold.db).get(&cold.family, &key(n), ReadMode::Snapshot).expect("reads");
    }
    let (requests, _) = cold.cost(&from(&key(20), 10), 20..30);
    assert_eq!(requests, 1);
}

#[test]
fn a_bad_sector_costs_the_row_that_it_is_in() {
    for expect in [0, 1, 10, 32] {
        for cold in [Cold::in_order(), Cold::scrambled()] {
            let (name, place) = cold.place(25);
            cold.disk.spoil(&name, place.start + 10..place.start + 11);
            let (rows, error) = cold.take(&from(&key(20), expect), 50).expect_err("a bad sector");
            assert!(rows == expected(20..25), "{expect}: {} rows", rows.len());
            assert!(matches!(error, Error::Io { .. }), "{error}");
            assert!(cold.take(&from(&key(25), expect), 1).is_err());
            assert!(cold.take(&from(&key(26), expect), 10).expect("scans") == expected(26..36));
            let last = key(28);
            let backward = Scan { start: Start::AtOrBefore, ..from(&last, expect) };
            let (rows, _) = cold.take(&backward, 50).expect_err("a bad sector");
            assert!(rows == expected((26..=28).rev()), "{expect}: {} rows", rows.len());
            cold.disk.heal();
            assert!(cold.take(&from(&key(20), expect), 50).expect("scans") == expected(20..70));
        }
    }
}

#[test]
fn a_damaged_value_costs_its_row_and_is_named_among_others() {
    for cold in [Cold::in_order(), Cold::scrambled()] {
        let (name, place) = cold.place(25);
        assert!(cold.disk.flip_bit(&Path::new(DIR).join(&name), place.start + 100, 3));
        let (rows, error) = cold.take(&from(&key(20), 10), 10).expect_err("damage");
        assert!(rows == expected(20..25));
        assert!(matches!(&error, Error::Corruption { path, .. } if path.ends_with(&name)), "{error}");
        assert!(cold.take(&from(&key(26), 10), 10).expect("scans") == expected(26..36));
    }
}

#[test]
fn short_and_failing_reads_of_several_values_are_repeated() {
    for (failure, times) in [(Failure::ShortRead, 20), (Failure::Eio, 1)] {
        let cold = Cold::in_order();
        let fault = Fault { op: Some(Op::Read), path: ".val".into(), skip: 0, times, failure };
        cold.disk.fail(fault);
        assert!(cold.take(&from(&key(20), 10), 10).expect("scans") == expected(20..30), "{failure:?}");
    }
}

#[test]
fn own_changes_are_read_with_the_others() {
    let cold = Cold::in_order();
    let mut txn = begin(&cold.db);
    for n in [21, 24, 200] {
        txn.put(&cold.family, &key(n), &half_random(n + 1000)).expect("puts");
    }
    txn.delete(&cold.family, &key(22)).expect("deletes");
    let mut cursor = cold.db.cursor(&cold.family);
    assert!(cursor.seek(&mut txn, &from(&key(20), 5)).expect("seeks"));
    let rows: Vec<Row> =
        (0..cursor.len()).map(|at| cursor.row(at)).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    let of = |n: u32| (key(n), half_random(if n == 21 || n == 24 { n + 1000 } else { n }));
    assert!(rows == [20, 21, 23, 24, 25].map(of));
}

/// A full cache has values as their files have them: twice as many.
#[test]
fn a_cache_that_holds_the_values_compressed_reads_them_once() {
    // 2.4 MB of values, in half as many bytes.
    let rows = 600;
    let requests = |compression, direct_reads| {
        let keys = (0..rows).map(|n| n * SCRAMBLED % rows);
        let cold = Cold::new(compression, keys, &Options { direct_reads, ..cold_options(2 << 20) });
        let pass = |scans: bool| {
            let before = cold.db.stats().table_reads;
            for n in 0..rows {
                let n = n * 7 % rows;
                if scans {
                    cold.cost(&from(&key(n), 1), n..n + 1);
                } else {
                    let found =
                        begin(&cold.db).get(&cold.family, &key(n), ReadMode::Snapshot).expect("reads");
                    assert_eq!(found, Some(half_random(n)));
                }
            }
            cold.db.stats().table_reads - before
        };
        let first = pass(false);
        assert!(first >= u64::from(rows), "{first}");
        for _ in 0..5 {
            pass(false);
        }
        [pass(false), pass(true)]
    };
    for compression in [Compression::Lz4, Compression::Zstd] {
        let few = requests(compression, DirectReads::On);
        assert!(few.iter().all(|requests| *requests <= u64::from(rows) / 5), "{compression:?}: {few:?}");
    }
    // Without compression, and where the page cache has the values as they are stored.
    for (compression, reads) in [(Compression::None, DirectReads::On), (Compression::Lz4, DirectReads::Off)] {
        let many = requests(compression, reads);
        assert!(many.iter().all(|requests| *requests >= u64::from(rows) / 3), "{compression:?}: {many:?}");
    }
}
