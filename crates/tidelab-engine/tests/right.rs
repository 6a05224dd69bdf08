//! Every operation on every engine linked by this build gives the right answers, and wrong ones are found.
//! The store is compared with a plain map, and a lying store fails.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use tidelab::experiment::engine::Design;
use tidelab_engine::data::{Data, Shape};
use tidelab_engine::operation::{self, Load, Operation};
use tidelab_engine::sequence;
use tidelab_engine::store::{Change, Compression, Debt, Engine, Scan, Session, Settings, Store, Sync, Use};
use tidelab_engine::stores;
use tidelab_server::error::Result;

fn settings(sync: Sync) -> Settings {
    Settings {
        sync,
        compression: Compression::Lz4,
        cache_bytes: 1 << 20,
        // Small, so that a test flushes and compacts.
        write_buffer_bytes: 64 << 10,
        base_level_bytes: 128 << 10,
        file_bytes: 32 << 10,
        block_bytes: 1024,
        filter_bits: 10,
        flush_threads: 1,
        compaction_threads: 1,
        open_files: 64,
        map_bytes: 64 << 20,
    }
}

fn load(threads: u32, batch: u32) -> Load {
    Load {
        threads,
        calls: 2000,
        seconds: None,
        batch,
        passes: 2,
        range_rows: 20,
        read_batch: 7,
        read_share: 0.5,
        transaction_rows: 3,
    }
}

fn design(engine: Engine, threads: u32, batch: u32, sync: Sync) -> Design {
    Design {
        engines: vec![engine],
        operations: Operation::ALL.to_vec(),
        rounds: 1,
        rows: 3001,
        key_bytes: 16,
        value_bytes: 60,
        compressible: 0.5,
        seed: 11,
        load: load(threads, batch),
        settings: settings(sync),
        quiet_limit_s: 60,
    }
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn rows_of(session: &mut dyn Session, scan: &Scan<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let count = session.scan(scan, &mut |key, value| rows.push((key.to_vec(), value.to_vec()))).unwrap();
    assert_eq!(count as usize, rows.len());
    rows
}

fn compare(session: &mut dyn Session, map: &Map) {
    let all = |forward| Scan { from: None, forward, limit: u64::MAX };
    let mut wanted: Vec<_> = map.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(rows_of(session, &all(true)), wanted);
    wanted.reverse();
    assert_eq!(rows_of(session, &all(false)), wanted);
    // Between two keys, at one, before the first and after the last.
    for from in [&b"k0150!"[..], b"k0150", b"a", b"z"] {
        let forward = Scan { from: Some(from), forward: true, limit: 7 };
        let wanted: Vec<_> =
            map.range(from.to_vec()..).take(7).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(rows_of(session, &forward), wanted, "from {from:?}");
        let back = Scan { from: Some(from), forward: false, limit: 7 };
        let wanted: Vec<_> =
            map.range(..=from.to_vec()).rev().take(7).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(rows_of(session, &back), wanted, "back from {from:?}");
    }
    for (key, value) in map {
        let mut found = None;
        assert!(session.get(key, &mut |value| found = Some(value.to_vec())).unwrap());
        assert_eq!(found.as_ref(), Some(value));
    }
    assert!(!session.get(b"k0150!", &mut |_| panic!("it is not there")).unwrap());
    // In no order, a missing one among them, one twice.
    let keys = [&b"k0200"[..], b"k0003", b"k0150!", b"k0007", b"k0200"];
    let mut found = vec![None; keys.len()];
    session
        .get_many(&keys, &mut |place, value| {
            assert!(found[place].is_none(), "{place} twice");
            found[place] = Some(value.map(<[u8]>::to_vec));
        })
        .unwrap();
    let wanted: Vec<_> = keys.iter().map(|key| Some(map.get(*key).cloned())).collect();
    assert_eq!(found, wanted);
}

/// Puts, batches, deletions and transactions through the trait, before and after a flush and an opening.
fn follows_a_map(engine: Engine, directory: &Path) {
    let mut map = Map::new();
    let store = stores::open(engine, directory, &settings(Sync::None), Use::Plain).unwrap();
    let mut session = store.session().unwrap();
    let key = |n: u32| format!("k{n:04}").into_bytes();
    for n in 0..300 {
        let value = vec![n as u8; 200];
        session.put(&[(&key(n), &value)]).unwrap();
        map.insert(key(n), value);
    }
    compare(session.as_mut(), &map);
    store.flush().unwrap();
    session.put(&[(&key(3), b"new"), (&key(500), b"more"), (&key(3), b"newest")]).unwrap();
    map.insert(key(3), b"newest".to_vec());
    map.insert(key(500), b"more".to_vec());
    session.delete(&[&key(7)]).unwrap();
    session.delete(&[&key(8), &key(9), &key(9999)]).unwrap();
    for n in 7..=9 {
        map.remove(&key(n));
    }
    compare(session.as_mut(), &map);
    drop(session);
    assert!(!store.version().is_empty() && store.version() != "unknown");
    assert!(!store.counters().unwrap().is_empty() && store.debt().unwrap().runs > 0);
    store.close().unwrap();

    let store = stores::open(engine, directory, &settings(Sync::Commit), Use::Transactions).unwrap();
    let mut session = store.session().unwrap();
    compare(session.as_mut(), &map);
    let keys = [key(1), key(7), key(500)];
    let mut seen = Vec::new();
    session
        .transact(&keys.each_ref().map(Vec::as_slice), &mut |place, old, new| {
            seen.push((place, old.map(<[u8]>::to_vec)));
            new.extend_from_slice(format!("by {place}").as_bytes());
        })
        .unwrap();
    let before: Vec<_> = keys.iter().enumerate().map(|(n, key)| (n, map.get(key).cloned())).collect();
    assert_eq!(seen, before);
    for (place, key) in keys.iter().enumerate() {
        map.insert(key.clone(), format!("by {place}").into_bytes());
    }
    compare(session.as_mut(), &map);
    drop(session);
    store.flush().unwrap();
    store.close().unwrap();

    let store = stores::open(engine, directory, &settings(Sync::None), Use::Plain).unwrap();
    compare(store.session().unwrap().as_mut(), &map);
    store.close().unwrap();
}

#[test]
fn every_engine_follows_a_map() {
    for engine in stores::linked() {
        follows_a_map(engine, tempfile::tempdir().unwrap().path());
    }
}

/// A round of all operations: each cell counts, has its expected count, and its expected figures.
fn round(engine: Engine, threads: u32, batch: u32, sync: Sync) {
    let directory = tempfile::tempdir().unwrap();
    let mut design = design(engine, threads, batch, sync);
    if sync == Sync::Commit {
        design.load.calls = 200;
    }
    let calls = design.load.calls as u32;
    let mut cells = Vec::new();
    let store = directory.path().join("store");
    sequence::run(&design, engine, 1, &store, &mut |round| {
        cells = round.cells.clone();
        Ok(())
    })
    .unwrap();
    assert_eq!(cells.len(), Operation::ALL.len());
    for ((cell, series), operation) in cells.iter().zip(Operation::ALL) {
        let what = format!("{engine}, {operation}, {threads} threads, {batch} rows a commit");
        assert!(cell.counts(), "{what}: {:?}", cell.failures);
        let figure = |name: &str| cell.figures.get(name).copied().unwrap_or(f64::NAN);
        let in_whole = |batch: u32| -> u32 {
            let share = |thread: u32| calls * (thread + 1) / threads - calls * thread / threads;
            (0..threads).map(|thread| share(thread).next_multiple_of(batch)).sum()
        };
        let wanted = match operation {
            Operation::FillSequential | Operation::FillRandom => 3001,
            Operation::Delete => 1500,
            // Two passes of each thread.
            operation if operation.is_scan() => 3001 * 2 * threads,
            Operation::Overwrite => in_whole(batch),
            Operation::ReadBatch => in_whole(7),
            Operation::Transactions => calls.div_ceil(3),
            _ => calls,
        };
        assert_eq!(figure("count"), f64::from(wanted), "{what}");
        assert!(figure("rate_per_s") > 0.0 && figure("max_us") >= figure("p50_us"), "{what}");
        let timed: u64 = cell.histograms["latency_us"].iter().map(|(_, count)| count).sum();
        assert!(timed > 0 && timed <= wanted.into(), "{what}: {timed} latencies");
        assert!(!series.rows.is_empty(), "{what}");
        if operation.writes() {
            // Everything that was committed reached a file when all is quiet; half of it compresses.
            assert!(figure("settled_write_amplification") > 0.3, "{what}: {cell:?}");
            assert!(figure("space_amplification") > 0.3 && figure("quiet_s") > 0.0, "{what}: {cell:?}");
            assert!(figure("settled_rate_per_s") < figure("rate_per_s"), "{what}");
        }
    }
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 0, "the store is removed");
}

#[test]
fn every_operation_is_right_on_every_engine() {
    for engine in stores::linked() {
        round(engine, 1, 1, Sync::None);
        round(engine, 3, 7, Sync::None);
    }
}

#[test]
fn commits_can_wait_for_the_disk() {
    for engine in stores::linked() {
        round(engine, 2, 100, Sync::Commit);
    }
}

#[test]
fn seconds_end_an_operation() {
    let data = Data::new(Shape { rows: 100, key_bytes: 16, value_bytes: 20, compressible: 0.0, seed: 1 });
    let directory = tempfile::tempdir().unwrap();
    let store = stores::open(Engine::TidesDb, directory.path(), &settings(Sync::None), Use::Plain).unwrap();
    let load = Load { seconds: Some(0.2), calls: 1, ..load(2, 5) };
    for operation in [Operation::FillRandom, Operation::Overwrite, Operation::ReadRandom] {
        let done = operation::run(store.as_ref(), &data, operation, &load, 0);
        assert!(done.failures.is_empty() && done.count >= 100, "{operation}: {:?}", done.failures);
        let in_time = operation == Operation::FillRandom || (0.2..20.0).contains(&done.seconds);
        assert!(in_time, "{operation}: {}", done.seconds);
    }
    store.close().unwrap();
}

/// A store with wrong answers of one kind.
struct Liar<'a> {
    honest: &'a dyn Store,
    lie: Lie,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// Point reads find nothing.
    Misses,
    /// Point reads find everything.
    Invents,
    /// Scans leave out the 50th row.
    SkipsOne,
    /// Scans give the 50th row twice.
    Doubles,
    /// Every eighth row keeps its first version.
    LosesWrites,
}

impl Store for Liar<'_> {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LyingSession { honest: self.honest.session()?, lie: self.lie }))
    }
    fn debt(&self) -> Result<Debt> {
        self.honest.debt()
    }
    fn flush(&self) -> Result<()> {
        self.honest.flush()
    }
    fn is_busy(&self) -> Result<bool> {
        self.honest.is_busy()
    }
    fn version(&self) -> String {
        self.honest.version()
    }
    fn counters(&self) -> Result<Vec<(String, u64)>> {
        self.honest.counters()
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct LyingSession<'a> {
    honest: Box<dyn Session + 'a>,
    lie: Lie,
}

impl Session for LyingSession<'_> {
    fn put(&mut self, rows: &[(&[u8], &[u8])]) -> Result<()> {
        // A value begins with its row and version.
        let lost = |value: &[u8]| self.lie == Lie::LosesWrites && value[7] % 8 == 5 && value[11] > 1;
        let kept: Vec<_> = rows.iter().copied().filter(|(_, value)| !lost(value)).collect();
        if kept.is_empty() {
            Ok(())
        } else {
            self.honest.put(&kept)
        }
    }
    fn delete(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.honest.delete(keys)
    }
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match self.lie {
            Lie::Misses => Ok(false),
            Lie::Invents => {
                self.honest.get(key, found)?;
                Ok(true)
            }
            _ => self.honest.get(key, found),
        }
    }
    fn get_many(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let lie = self.lie;
        self.honest.get_many(keys, &mut |place, value| match lie {
            Lie::Misses => found(place, None),
            Lie::SkipsOne if place == 3 => {}
            _ => found(place, value),
        })
    }
    fn scan(&mut self, scan: &Scan<'_>, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let (mut seen, mut given, lie) = (0, 0, self.lie);
        self.honest.scan(scan, &mut |key, value| {
            seen += 1;
            let times = match lie {
                Lie::SkipsOne if seen == 50 => 0,
                Lie::Doubles if seen == 50 => 2,
                _ => 1,
            };
            (0..times).for_each(|_| row(key, value));
            given += times;
        })?;
        Ok(given)
    }
    fn transact(&mut self, keys: &[&[u8]], change: &mut Change<'_>) -> Result<()> {
        self.honest.transact(keys, change)
    }
}

#[test]
fn lies_are_found() {
    let cases = [
        (Lie::Misses, Operation::ReadRandom),
        (Lie::Invents, Operation::ReadMissing),
        (Lie::Misses, Operation::ReadBatch),
        (Lie::SkipsOne, Operation::ReadBatch),
        (Lie::LosesWrites, Operation::ReadBatch),
        (Lie::SkipsOne, Operation::ScanForward),
        (Lie::SkipsOne, Operation::ScanBack),
        (Lie::Doubles, Operation::ScanForward),
        (Lie::Doubles, Operation::ScanAfterOverwrite),
        (Lie::LosesWrites, Operation::ReadRandom),
        (Lie::LosesWrites, Operation::ScanForward),
        (Lie::LosesWrites, Operation::Range),
        (Lie::LosesWrites, Operation::Transactions),
        (Lie::LosesWrites, Operation::Mixed),
    ];
    for (lie, operation) in cases {
        let data = Data::new(Shape { rows: 500, key_bytes: 16, value_bytes: 60, compressible: 0.5, seed: 3 });
        let directory = tempfile::tempdir().unwrap();
        let store =
            stores::open(Engine::TidesDb, directory.path(), &settings(Sync::None), Use::Plain).unwrap();
        let liar = Liar { honest: store.as_ref(), lie };
        for preparation in [Operation::FillRandom, Operation::Overwrite] {
            let done = operation::run(&liar, &data, preparation, &load(1, 1), 0);
            assert!(done.failures.is_empty(), "{lie:?}: {:?}", done.failures);
        }
        let done = operation::run(&liar, &data, operation, &load(1, 1), 0);
        assert!(!done.failures.is_empty(), "{lie:?} in {operation} was believed");
        assert!(done.failures.len() <= 4, "a sentence for each of many rows: {}", done.failures.len());
        store.close().unwrap();
    }
}
