//! Transactions larger than memory, with bounds so small that nearly every transaction spills. Against a
//! model, through marks, snapshots, restarts and two-phase commits, alongside others, on a full disk.
//!
//! `SPILL_SEEDS` runs more random programs, `SPILL_SEED` repeats one.

mod sim;
mod spilled;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use sim::{begin, begin_as, env, open, rows, scan, seeds, Asked, Rng};
use spilled::{key, make, options, tables};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::{Cursor, Scan, Start};
use tidesdb::internal::txn::transaction::{Change, ChangeKind, LongValue, ReadMode, Transaction};
use tidesdb::{Compression, Error, FamilyOptions, Isolation, Options, SyncMode, TransactionOptions};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The store, its committed content, and transactions with a view of the content at their begin.
struct World {
    disk: FaultyDisk,
    options: Options,
    db: Db,
    families: Vec<Arc<Family>>,
    rng: Rng,
    committed: Vec<Map>,
    readers: Vec<(Transaction, Vec<Map>)>,
    spilled: u64,
}

impl World {
    fn value(&mut self) -> Vec<u8> {
        let len = self.rng.below(70) as usize;
        (0..len).map(|_| self.rng.next() as u8).collect()
    }

    fn check(&mut self, txn: &mut Transaction, own: &[Map], what: &str) {
        let at = self.rng.below(3) as usize;
        let family = &self.families[at];
        for _ in 0..3 {
            let key = key(self.rng.below(150));
            let mode = if what.contains("snapshot") { ReadMode::Snapshot } else { ReadMode::Latest };
            let found = txn.get(family, &key, mode).expect("reads");
            assert_eq!(found.as_ref(), own[at].get(&key), "{what}: {} in {at}", key.escape_ascii());
        }
        let forward = self.rng.one_in(2);
        let mut asked = Asked::all(forward);
        let from = key(self.rng.below(150));
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = own[at].clone().into_iter().collect();
        if self.rng.one_in(2) {
            asked.start = if forward { Start::AtOrAfter } else { Start::Before };
            asked.key.clone_from(&from);
            expected.retain(|(key, _)| if forward { *key >= from } else { *key < from });
        }
        if !forward {
            expected.reverse();
        }
        let seen = scan(&self.db, txn, family, &asked).expect("scans");
        assert_eq!(seen, expected, "{what}: scan of {at}, {asked:?}");
    }

    fn change(&mut self, txn: &mut Transaction, own: &mut [Map]) {
        let at = self.rng.below(3) as usize;
        let (key, value) = (key(self.rng.below(150)), self.value());
        let family = &self.families[at];
        match self.rng.below(10) {
            0..=4 => {
                txn.put(family, &key, &value).expect("puts");
                own[at].insert(key, value);
            }
            5..=7 => match txn.insert(family, &key, &value) {
                Ok(()) => {
                    let before = own[at].insert(key, value);
                    assert!(before.is_none(), "an insertion of a key that is there");
                }
                Err(Error::Duplicate) => assert!(own[at].contains_key(&key), "a duplicate of nothing"),
                Err(error) => panic!("insert: {error}"),
            },
            _ => {
                txn.single_delete(family, &key).expect("deletes");
                own[at].remove(&key);
            }
        }
    }

    /// One transaction of several statements, some undone, read while it is made; ended in one of the ways.
    fn transaction(&mut self) {
        let isolation =
            *self.rng.pick(&[Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot]);
        let mut txn = begin_as(&self.db, TransactionOptions { isolation, ..TransactionOptions::default() });
        let mut own = self.committed.clone();
        let first = own.clone();
        for _ in 0..1 + self.rng.below(4) {
            txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
            let before = own.clone();
            for _ in 0..self.rng.below(120) {
                self.change(&mut txn, &mut own);
                if self.rng.one_in(25) {
                    self.check(&mut txn, &own, "own changes");
                }
            }
            if self.rng.one_in(3) {
                txn.statement_rollback();
                own = before;
            } else {
                txn.statement_end();
            }
            txn.statement_begin(false, Duration::ZERO).expect("begins");
            self.check(&mut txn, &own, "after a statement");
        }
        self.look_back();
        match self.rng.below(6) {
            0 => txn.rollback().expect("rolls back"),
            1 | 2 if own != first => {
                txn.prepare(Some(b"xid")).expect("prepares");
                self.look_back();
                let commit = self.rng.one_in(2);
                if self.rng.one_in(2) {
                    drop(txn);
                    if self.rng.one_in(2) {
                        self.restart();
                    }
                    let known = match commit {
                        true => self.db.commit_by_xid(b"xid"),
                        false => self.db.rollback_by_xid(b"xid"),
                    };
                    assert!(known.expect("decides"), "it waited for its decision");
                } else if commit {
                    txn.finish(false).expect("commits");
                } else {
                    txn.rollback().expect("rolls back");
                }
                if commit {
                    self.committed = own;
                }
            }
            _ => {
                txn.commit().expect("commits");
                self.committed = own;
            }
        }
        self.look_back();
    }

    /// Earlier snapshots see their content.
    fn look_back(&mut self) {
        let mut readers = std::mem::take(&mut self.readers);
        for (txn, then) in &mut readers {
            self.check(txn, then, "an old snapshot");
        }
        self.readers = readers;
        let mut fresh = begin(&self.db);
        fresh.take_snapshot().expect("free slot");
        let now = self.committed.clone();
        self.check(&mut fresh, &now, "a fresh snapshot");
        if self.readers.len() < 3 {
            self.readers.push((fresh, now));
        } else if self.rng.one_in(3) {
            let at = self.rng.below(3) as usize;
            self.readers.swap_remove(at);
        }
    }

    fn restart(&mut self) {
        self.spilled += self.db.stats().spilled_runs;
        self.readers.clear();
        self.families.clear();
        let db =
            std::mem::replace(&mut self.db, open(&FaultyDisk::new(1), &self.options).expect("a stand-in"));
        db.close().expect("closes");
        (self.db, self.families) = make(&self.disk, &self.options);
    }

    /// A small transaction of another client, on keys also changed by the large ones.
    fn small(&mut self) {
        let mut txn = begin(&self.db);
        for _ in 0..1 + self.rng.below(3) {
            let mut own = std::mem::take(&mut self.committed);
            self.change(&mut txn, &mut own);
            self.committed = own;
        }
        txn.commit().expect("commits");
    }
}

fn random_program(seed: u64, compaction_threads: usize) -> u64 {
    let disk = FaultyDisk::new(seed);
    let options = Options { compaction_threads, ..options() };
    let (db, families) = make(&disk, &options);
    let committed = vec![Map::new(); 3];
    let mut world =
        World { disk, options, db, families, rng: Rng(seed), committed, readers: Vec::new(), spilled: 0 };
    for _ in 0..40 {
        match world.rng.below(12) {
            0 => world.db.flush().expect("flushes"),
            1 => {
                let family = world.rng.pick(&world.families).clone();
                world.db.compact(&family).expect("compacts");
                world.db.verify(&family).expect("verifies");
            }
            2 => world.restart(),
            3..=6 => world.small(),
            _ => world.transaction(),
        }
    }
    world.restart();
    for (family, expected) in world.families.iter().zip(&world.committed) {
        world.db.verify(family).expect("verifies");
        let seen: Map = rows(&world.db, family).expect("reads").into_iter().collect();
        assert_eq!(&seen, expected);
    }
    world.spilled
}

#[test]
fn random_programs_agree_with_the_model() {
    let mut spilled = 0;
    for seed in seeds("SPILL", 24) {
        println!("seed {seed}");
        spilled += random_program(seed, (seed % 2) as usize);
    }
    println!("{spilled} runs");
    assert!(spilled > 20 || env("SPILL_SEED", 0) > 0, "{spilled} runs");
}

/// Next row of an open cursor.
fn step(
    cursor: &mut Cursor,
    txn: &mut Transaction,
    at: &mut usize,
    forward: bool,
) -> Option<(Vec<u8>, Vec<u8>)> {
    // As the interface does: a row read ahead counts only while the transaction has changed nothing.
    let more = cursor.fetch(txn, *at, forward).expect("fetches");
    *at = 0;
    more.then(|| (cursor.row(0).0.to_vec(), cursor.row(0).1.to_vec()))
}

/// An UPDATE that moves rows ahead of itself and after: the open cursor sees changes spilled meanwhile.
#[test]
fn an_open_cursor_sees_what_was_spilled_since() {
    for forward in [true, false] {
        let disk = FaultyDisk::new(5);
        let (db, families) = make(&disk, &options());
        let a = &families[0];
        let mut expected = Map::new();
        let mut txn = begin(&db);
        for n in 0..100 {
            txn.put(a, &key(n * 10), b"old").expect("puts");
            expected.insert(key(n * 10), b"old".to_vec());
            if n % 20 == 19 {
                txn.commit().expect("commits");
                txn.begin(TransactionOptions::default()).expect("begins");
            }
        }
        let mut cursor = db.cursor(a);
        let start = if forward { Start::First } else { Start::Last };
        assert!(cursor
            .seek(&mut txn, &Scan { start, mode: ReadMode::Exclusive, ..Scan::default() })
            .expect("seeks"));
        let mut row = Some((cursor.row(0).0.to_vec(), cursor.row(0).1.to_vec()));
        let (mut at, mut seen, mut n) = (0, Vec::new(), 0);
        while let Some((found, value)) = row {
            assert_eq!(expected.get(&found), Some(&value), "{}", found.escape_ascii());
            let number: u64 = String::from_utf8_lossy(&found[1..]).parse().expect("a number");
            if number % 10 == 0 {
                // One ahead of the cursor that it will meet, one after, and the row itself.
                let ahead = if forward { number + 5 } else { number.saturating_sub(5) };
                for new in [ahead, 2_000 + n, number] {
                    let value = vec![n as u8; 40];
                    txn.put(a, &key(new), &value).expect("puts");
                    expected.insert(key(new), value);
                }
            }
            seen.push(found);
            n += 1;
            if n > 250 {
                break;
            }
            row = step(&mut cursor, &mut txn, &mut at, forward);
        }
        let mut sorted = seen.clone();
        sorted.sort();
        if !forward {
            sorted.reverse();
        }
        assert_eq!(seen, sorted, "in order, nothing twice");
        let tens = seen.iter().filter(|k| k.ends_with(b"0") && k[..] < key(1_000)[..]).count();
        let fives = seen.iter().filter(|k| k.ends_with(b"5") && k[..] < key(1_000)[..]).count();
        assert_eq!((tens, fives), (100, if forward { 100 } else { 99 }), "rows ahead are met");
        assert!(db.stats().spilled_runs > 3);
        txn.commit().expect("commits");
        assert_eq!(rows(&db, a).expect("reads").into_iter().collect::<Map>(), expected);
    }
}

/// Sums over all accounts, while spilling and small transactions move amounts between them.
#[test]
fn transfers_beside_small_ones_keep_the_sum() {
    const ACCOUNTS: u64 = 60;
    let disk = FaultyDisk::new(9);
    let (db, families) = make(&disk, &options());
    let a = &families[0];
    let number = |bytes: &[u8]| i64::from_le_bytes(bytes[..8].try_into().expect("a number"));
    let stored = |n: i64| [&n.to_le_bytes()[..], &[7; 40]].concat();
    let mut txn = begin(&db);
    for n in 0..ACCOUNTS {
        txn.put(a, &key(n), &stored(100)).expect("puts");
    }
    txn.commit().expect("commits");
    let stop = AtomicBool::new(false);
    let transfer = |seed: u64, moves: u64, rounds: u64| {
        let mut rng = Rng(seed);
        let mut done = 0;
        let mut txn = db.transaction();
        txn.set_lock_timeout(Some(Duration::from_millis(200)));
        for _ in 0..rounds {
            let options =
                TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() };
            txn.begin(options).expect("begins");
            let mut run = || -> tidesdb::Result<()> {
                for _ in 0..moves {
                    txn.statement_begin(true, Duration::from_secs(20))?;
                    let amount = 1 + rng.below(5) as i64;
                    for (account, amount) in [(rng.below(ACCOUNTS), amount), (rng.below(ACCOUNTS), -amount)] {
                        let key = key(account);
                        let value = txn.get(a, &key, ReadMode::Exclusive)?.expect("there");
                        txn.put(a, &key, &stored(number(&value) + amount))?;
                    }
                    txn.statement_end();
                }
                txn.commit()
            };
            match run() {
                Ok(()) => done += 1,
                Err(Error::Deadlock | Error::LockTimeout) => txn.rollback().expect("rolls back"),
                Err(error) => panic!("transfer: {error}"),
            }
        }
        done
    };
    std::thread::scope(|scope| {
        let large: Vec<_> = (0..2).map(|n| scope.spawn(move || transfer(n, 60, 12))).collect();
        let small: Vec<_> = (2..4).map(|n| scope.spawn(move || transfer(n, 1, 150))).collect();
        let reader = scope.spawn(|| {
            let mut sums = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut txn = begin(&db);
                for forward in [true, false] {
                    let rows = scan(&db, &mut txn, a, &Asked::all(forward)).expect("scans");
                    assert_eq!(rows.len() as u64, ACCOUNTS);
                    let sum: i64 = rows.iter().map(|(_, value)| number(value)).sum();
                    assert_eq!(sum, 100 * ACCOUNTS as i64, "a transfer by half");
                    sums += 1;
                }
                txn.rollback().expect("rolls back");
            }
            sums
        });
        let large: u64 = large.into_iter().map(|thread| thread.join().expect("large")).sum();
        let small: u64 = small.into_iter().map(|thread| thread.join().expect("small")).sum();
        stop.store(true, Ordering::Relaxed);
        let sums = reader.join().expect("reader");
        println!("{large} large, {small} small, {sums} sums");
        assert!(large > 2 && small > 20 && sums > 2);
    });
    assert!(db.stats().spilled_runs > 10);
    let sum: i64 = rows(&db, a).expect("reads").iter().map(|(_, value)| number(value)).sum();
    assert_eq!(sum, 100 * ACCOUNTS as i64);
}

/// A hundred times the write buffer: memory stays in the budget, and a rollback leaves no file.
#[test]
fn memory_is_bounded_and_a_rollback_leaves_nothing() {
    let disk = FaultyDisk::new(3);
    let options =
        Options { write_buffer_size: 256 << 10, compaction_threads: 0, ..sim::tiny(SyncMode::None) };
    let (db, families) = make(&disk, &options);
    let before = tables(&disk);
    let mut txn = begin(&db);
    for end in ["statement", "transaction"] {
        txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
        let mut most = 0;
        for n in 0..60_000u64 {
            let family = &families[(n % 3) as usize];
            txn.insert(family, &(n * 7919 % 60_013).to_be_bytes(), &[n as u8; 100]).expect("inserts");
            if n % 1000 == 0 {
                let stats = db.stats();
                most = most.max(stats.txn_memory_bytes + stats.memtable_bytes);
            }
        }
        assert!(most <= 256 << 10, "{most} bytes of memory");
        assert!(tables(&disk) > before);
        match end {
            "statement" => txn.statement_rollback(),
            _ => txn.rollback().expect("rolls back"),
        }
        assert_eq!(tables(&disk), before, "after the rollback of the {end}");
    }
    assert_eq!(db.stats().txn_memory_bytes, 0);
    for family in &families {
        assert_eq!(rows(&db, family).expect("reads").len(), 0);
    }
}

/// A large write buffer is no reason to search a large private batch.
#[test]
fn what_a_transaction_keeps_in_memory_does_not_grow_with_the_write_buffer() {
    for (write_buffer_size, bound) in [(4 << 20, 2), (64 << 20, 4), (256 << 20, 8)] {
        let disk = FaultyDisk::new(5);
        let (db, families) = make(&disk, &Options { write_buffer_size, ..options() });
        let mut txn = begin(&db);
        let mut most = 0;
        for n in 0..2500u64 {
            txn.put(&families[0], &n.to_be_bytes(), &[1; 4000]).expect("puts");
            most = most.max(db.stats().txn_memory_bytes);
        }
        let expected = (bound << 20) - (64 << 10)..(bound << 20) + (64 << 10);
        assert!(expected.contains(&most), "{most} bytes in memory of a write buffer of {write_buffer_size}");
        txn.commit().expect("commits");
        assert_eq!(rows(&db, &families[0]).expect("reads").len(), 2500);
    }
}

/// Level 0 gets one file from a transaction just beyond the bound, two from a much larger one.
#[test]
fn a_small_commit_of_runs_is_one_run() {
    for (changes, runs) in [(1200u64, 1), (2400, 1), (4500, 1), (12_100, 2)] {
        let disk = FaultyDisk::new(5);
        let options = Options { compaction_threads: 0, write_buffer_size: 256 << 10, ..options() };
        let (db, families) = make(&disk, &options);
        let mut txn = begin(&db);
        for n in 0..changes {
            txn.put(&families[0], &(n * 7919 % 20_011).to_be_bytes(), &[n as u8; 100]).expect("puts");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
        let in_files = db.family_stats(&families[0]).expect("is live").runs - 1;
        assert_eq!(in_files, runs, "{changes} changes in {} runs", db.stats().spilled_runs);
        assert_eq!(rows(&db, &families[0]).expect("reads").len(), changes as usize);
    }
}

/// Transactions on one table, large only together, spill without holding up each other.
#[test]
fn a_crowd_on_one_table_commits() {
    let disk = FaultyDisk::new(9);
    let (db, families) = make(&disk, &Options { write_buffer_size: 512 << 10, ..options() });
    let mut crowd: Vec<Transaction> = (0..5).map(|_| begin(&db)).collect();
    for n in 0..400u64 {
        for (who, txn) in crowd.iter_mut().enumerate() {
            txn.set_lock_timeout(Some(Duration::ZERO));
            txn.put(&families[0], format!("{who} {n}").as_bytes(), &[who as u8; 300]).expect("puts");
        }
    }
    let stats = db.stats();
    assert!(stats.spilled_runs > 0 && stats.txn_memory_bytes <= 520 << 10, "{stats:?}");
    for txn in &mut crowd {
        txn.commit().expect("commits");
    }
    assert_eq!(sim::rows(&db, &families[0]).expect("reads").len(), 5 * 400);
}

/// A kill ends the writing of runs; rollback leaves nothing.
#[test]
fn a_kill_ends_it() {
    let disk = FaultyDisk::new(3);
    let (db, families) = make(&disk, &Options { write_buffer_size: 512 << 10, ..options() });
    let before = tables(&disk);
    let mut txn = begin(&db);
    let owner = txn.owner().clone();
    for n in 0..20_000u64 {
        txn.put(&families[0], &n.to_be_bytes(), &[1; 60]).expect("puts");
    }
    db.kill(&owner);
    let mut failed = 0;
    for n in 0..20_000u64 {
        match txn.put(&families[0], &n.to_be_bytes(), &[2; 60]) {
            Ok(()) => {}
            Err(Error::Interrupted) => failed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(failed > 0, "a kill is noticed");
    assert!(matches!(txn.commit(), Err(Error::Interrupted)));
    txn.rollback().expect("rolls back");
    assert_eq!(rows(&db, &families[0]).expect("reads").len(), 0);
    drop(txn);
    assert_eq!(tables(&disk), before);
}

/// A full disk during the writing of a run: the statement fails, the transaction goes on.
#[test]
fn a_full_disk_fails_the_statement_and_no_more() {
    let disk = FaultyDisk::new(3);
    let (db, families) = make(&disk, &Options { compaction_threads: 0, ..options() });
    let mut expected = Map::new();
    let mut txn = begin(&db);
    let mut failures = 0;
    for round in 0..12u64 {
        txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
        if round % 3 == 1 {
            let what = Fault {
                op: Some(Op::Write),
                path: ".sst".into(),
                skip: round,
                times: 1,
                failure: Failure::Enospc,
            };
            disk.fail(what);
        }
        let mut then = expected.clone();
        let mut write = || -> tidesdb::Result<()> {
            for n in 0..90 {
                txn.put(&families[0], &key(round * 20 + n), &[round as u8; 50])?;
                then.insert(key(round * 20 + n), vec![round as u8; 50]);
            }
            Ok(())
        };
        match write() {
            Ok(()) => {
                txn.statement_end();
                expected = then;
            }
            Err(Error::DiskFull(_)) => {
                txn.statement_rollback();
                failures += 1;
            }
            Err(error) => panic!("{error}"),
        }
        let seen = scan(&db, &mut txn, &families[0], &Asked::all(true)).expect("scans");
        assert_eq!(seen.into_iter().collect::<Map>(), expected, "round {round}");
    }
    assert!(failures > 0, "the disk was full");
    txn.commit().expect("commits");
    assert_eq!(rows(&db, &families[0]).expect("reads").into_iter().collect::<Map>(), expected);
}

/// An unwritable run leaves nothing, whatever becomes of the transaction.
#[test]
fn a_run_that_fails_leaves_no_file() {
    let disk = FaultyDisk::new(3);
    let (db, families) = make(&disk, &Options { compaction_threads: 0, ..options() });
    let before = tables(&disk);
    let mut txn = begin(&db);
    let full =
        Fault { op: Some(Op::Write), path: ".sst".into(), skip: 0, times: 1, failure: Failure::Enospc };
    disk.fail(full.clone());
    let failed = (0..200).find_map(|n| txn.put(&families[0], &key(n), &[1; 50]).err());
    assert!(matches!(failed, Some(Error::DiskFull(_))), "{failed:?}");
    assert_eq!(tables(&disk), before);
    // Nor does the one that a commit makes.
    for n in 0..60 {
        txn.put(&families[0], &key(n), &[2; 50]).expect("there is room");
    }
    let kept = tables(&disk);
    assert!(kept > before);
    disk.fail(full);
    let failed = txn.prepare(None);
    assert!(matches!(failed, Err(Error::DiskFull(_))), "{failed:?}");
    assert_eq!(tables(&disk), kept);
    txn.commit().expect("there is room");
    assert_eq!(rows(&db, &families[0]).expect("reads").len(), 60);
}

/// Values in pieces, compressed and not. Their keys were changed before in the transaction, in the row itself
/// or not, and are changed after. They are read, cut away, committed and recovered like others.
#[test]
fn a_large_row_is_written_from_where_it_is() {
    for compression in [Compression::None, Compression::Lz4] {
        let disk = FaultyDisk::new(3);
        let db = open(&disk, &Options { compaction_threads: 0, ..options() }).expect("opens");
        let family = FamilyOptions { compression, ..FamilyOptions::default() };
        let family = db.create_family(b"pieces", family).expect("creates");
        let change = |key: &'static [u8], value| Change {
            family: &family,
            key,
            kind: ChangeKind::Put(value),
            lock: true,
            count_unchanged: false,
            expiry: 0,
        };
        let [one, two, three] = [vec![1; 9 << 10], vec![2; 20 << 10], vec![3; 30_001]];
        let pieces: [&[u8]; 4] = [&one, b"", &two, &three];
        let whole = [b"head".to_vec(), one.clone(), two.clone(), three.clone()].concat();
        let mut txn = begin(&db);
        txn.put(&family, b"a", b"before").expect("puts");
        txn.put(&family, b"b", b"earlier").expect("puts");
        txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
        let changes = [change(b"b", b"head"), change(b"c", b"entry"), change(b"d", &two), change(b"e", &one)];
        txn.write_long(&changes, Some(LongValue { pieces: &pieces, ..LongValue::default() }))
            .expect("writes");
        assert_eq!(db.stats().txn_memory_bytes, 0, "nothing of it is in memory");
        let expect = |txn: &mut Transaction, expected: &[(&[u8], &[u8])]| {
            let seen = scan(&db, txn, &family, &Asked::all(true)).expect("scans");
            let expected: Vec<_> =
                expected.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            assert!(seen == expected, "{compression:?}");
        };
        expect(&mut txn, &[(b"a", b"before"), (b"b", &whole), (b"c", b"entry"), (b"d", &two), (b"e", &one)]);
        txn.statement_rollback();
        expect(&mut txn, &[(b"a", b"before"), (b"b", b"earlier")]);
        // Twice in one row, and then once more.
        let changes =
            [change(b"a", &one), change(b"a", b"head"), change(b"f", &three), change(b"f", b"last")];
        txn.write_long(&changes, Some(LongValue { change: 1, pieces: &pieces, ..LongValue::default() }))
            .expect("writes");
        expect(&mut txn, &[(b"a", &whole), (b"b", b"earlier"), (b"f", b"last")]);
        txn.put(&family, b"b", &whole).expect("puts");
        txn.put(&family, b"b", b"small").expect("puts");
        txn.commit().expect("commits");
        let expected = [(&b"a"[..], &whole[..]), (b"b", b"small"), (b"f", b"last")];
        expect(&mut begin(&db), &expected);
        db.flush().expect("flushes");
        db.compact(&family).expect("merges");
        expect(&mut begin(&db), &expected);
        db.verify(&family).expect("is whole");
    }
}

/// Above their common bound, each open transaction has little in memory.
#[test]
fn many_large_transactions_share_memory() {
    const BUFFER: usize = 1 << 20;
    let disk = FaultyDisk::new(3);
    let (db, families) =
        make(&disk, &Options { write_buffer_size: BUFFER, compaction_threads: 0, ..options() });
    let mut open = Vec::new();
    for n in 0..100u64 {
        let mut txn = begin(&db);
        txn.put(&families[0], &key(n), &[n as u8; 100 << 10]).expect("puts");
        open.push(txn);
    }
    let held = db.stats().txn_memory_bytes;
    assert!(held < 2 * BUFFER as u64, "{held} bytes of open transactions");
    for mut txn in open {
        txn.commit().expect("commits");
    }
    assert_eq!(db.stats().txn_memory_bytes, 0);
    assert_eq!(rows(&db, &families[0]).expect("reads").len(), 100);
}

/// A row larger than the transaction's share of memory and refused at its writing is undone. Its statement
/// may be one of several whose failure somebody catches.
#[test]
fn a_large_row_that_cannot_be_written_is_undone() {
    let disk = FaultyDisk::new(3);
    let (db, families) = make(&disk, &Options { compaction_threads: 0, ..options() });
    let mut txn = begin(&db);
    txn.put(&families[0], &key(1), &[1; 50]).expect("there is room");
    let full =
        Fault { op: Some(Op::Write), path: ".sst".into(), skip: 0, times: 1, failure: Failure::Enospc };
    let large = [2; 3 << 10];
    for attempt in 0..2 {
        disk.fail(full.clone());
        let failed = txn.put(&families[0], &key(2), &large);
        assert!(matches!(failed, Err(Error::DiskFull(_))), "{failed:?}");
        let seen = scan(&db, &mut txn, &families[0], &Asked::all(true)).expect("scans");
        assert_eq!(seen, [(key(1), vec![1; 50])], "attempt {attempt}");
    }
    txn.put(&families[0], &key(3), &large).expect("there is room");
    txn.commit().expect("commits");
    let expected = [(key(1), vec![1; 50]), (key(3), large.to_vec())];
    assert_eq!(rows(&db, &families[0]).expect("reads"), expected);
}

/// After a failed sync the bytes count as clean, and are not there: the next `prepare` writes them again.
#[test]
fn a_run_whose_sync_failed_is_written_again() {
    let disk = FaultyDisk::new(3);
    let options = Options { sync_mode: SyncMode::Full, compaction_threads: 0, ..options() };
    let (db, families) = make(&disk, &options);
    let mut txn = begin(&db);
    let mut count = 0;
    // As many runs as are merged: one file, which `prepare` takes as it is.
    while db.stats().spilled_runs < 12 {
        txn.put(&families[0], &key(count), &[1; 50]).expect("puts");
        count += 1;
    }
    let before = tables(&disk);
    disk.fail(Fault { op: Some(Op::Sync), path: ".sst".into(), skip: 0, times: 1, failure: Failure::Eio });
    let failed = txn.prepare(None);
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    assert_eq!(tables(&disk), before, "it has written no other");
    txn.commit().expect("commits");
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop((txn, families, db));
    let db = open(&found, &options).expect("opens again");
    let family = db.family(b"a").expect("there");
    assert_eq!(rows(&db, &family).expect("reads").len() as u64, count);
}
