//! One random program, many configurations, one answer: options of files, memory or threads must not change
//! the reads.
//!
//! `METAMORPHIC_SEED` repeats one program, `METAMORPHIC_SEEDS` runs more.

mod sim;

use std::sync::Arc;
use std::time::Duration;

use sim::{begin, open, scan, seeds, Asked, Rng};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::Start;
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Compression, FamilyOptions, Options, SyncMode};

/// Name and options of a store and its families.
fn configurations() -> Vec<(&'static str, Options, FamilyOptions)> {
    let (options, family) = (sim::tiny(SyncMode::None), sim::tiny_family());
    let big = Options { write_buffer_size: 4 << 20, block_cache_size: 1 << 20, ..options.clone() };
    let with = |change: &dyn Fn(&mut Options, &mut FamilyOptions)| {
        let (mut o, mut f) = (options.clone(), family.clone());
        change(&mut o, &mut f);
        (o, f)
    };
    let mut all = vec![("everything in memory", big, FamilyOptions::default())];
    let mut add = |name, (o, f)| all.push((name, o, f));
    add("tiny", (options.clone(), family.clone()));
    add("blocks of 1 KiB", with(&|_, f| f.block_size = 1024));
    add("blocks of 16 KiB, LZ4", with(&|_, f| (f.block_size, f.compression) = (16 << 10, Compression::Lz4)));
    add("no filters", with(&|_, f| f.bloom_filter = false));
    add("poor filters", with(&|_, f| f.bloom_fpr = 5000));
    add("prefix filters of 1", with(&|_, f| f.prefix_len = 1));
    add("prefix filters of 4", with(&|_, f| f.prefix_len = 4));
    add("pages of index through the cache", with(&|_, f| f.use_btree = true));
    add("many levels", with(&|o, f| (o.base_level_size, f.min_levels, f.level_size_ratio) = (2 << 10, 6, 2)));
    add("few levels", with(&|o, f| (o.base_level_size, f.level_size_ratio) = (1 << 30, 100)));
    add("merges at every flush", with(&|_, f| f.l0_compaction_trigger = 1));
    add("no merges", with(&|o, _| o.compaction_threads = 0));
    add(
        "tombstones hunted",
        with(&|_, f| {
            (f.tombstone_density_trigger, f.tombstone_density_min_entries) = (1000, 4);
        }),
    );
    add("no cache", with(&|o, _| o.block_cache_size = 0));
    add("write buffer of 4 KiB", with(&|o, _| o.write_buffer_size = 4 << 10));
    add("files of 1 KiB", with(&|o, _| o.target_file_size = 1 << 10));
    add("threads", with(&|o, _| o.compaction_threads = 4));
    add("interval", with(&|o, _| (o.sync_mode, o.sync_interval_us) = (SyncMode::Interval, 50)));
    add("full", with(&|o, _| o.sync_mode = SyncMode::Full));
    all
}

struct Player {
    rng: Rng,
    db: Db,
    families: Vec<Arc<Family>>,
    /// Snapshots open for a while.
    old: Vec<Transaction>,
    answers: Vec<u64>,
}

fn hash(rows: &[(Vec<u8>, Vec<u8>)]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for byte in bytes.len().to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    rows.iter().for_each(|(key, value)| (add(key), add(value)).0);
    hash
}

impl Player {
    fn key(&mut self) -> Vec<u8> {
        let n = self.rng.below(500);
        match n % 3 {
            0 => format!("{:03}", n).into_bytes(),
            1 => format!("{:02}-{n:05}", n % 20).into_bytes(),
            _ => [&n.to_be_bytes()[6..], b"suffix"].concat(),
        }
    }

    fn asked(&mut self) -> Asked {
        let start = *self.rng.pick(&[
            Start::First,
            Start::Last,
            Start::AtOrAfter,
            Start::After,
            Start::AtOrBefore,
            Start::Before,
        ]);
        let key = self.key();
        let keyed = !matches!(start, Start::First | Start::Last);
        let prefix = if keyed && self.rng.one_in(2) { 1 + self.rng.below(4) as usize } else { 0 };
        let bound = self.rng.one_in(3).then(|| self.key());
        Asked { start, key, prefix, bound, mode: ReadMode::Snapshot, expect: self.rng.below(40) as u32 }
    }

    fn read(&mut self, txn: &mut Transaction) {
        let asked = self.asked();
        let family = self.rng.pick(&self.families).clone();
        let rows = scan(&self.db, txn, &family, &asked).expect("scans");
        self.answers.push(hash(&rows));
        for _ in 0..3 {
            let key = self.key();
            let value = txn.get(&family, &key, ReadMode::Snapshot).expect("reads");
            self.answers.push(value.map_or(0, |value| hash(&[(key, value)])));
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..=11 => {
                let mut txn = begin(&self.db);
                txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
                for _ in 0..1 + self.rng.below(12) {
                    let (key, len) = (self.key(), self.rng.below(80) as usize);
                    let family = self.rng.pick(&self.families).clone();
                    match self.rng.below(3) {
                        0 => txn.delete(&family, &key).expect("deletes"),
                        _ => {
                            let value = vec![(self.rng.next() % 256) as u8; len];
                            txn.put(&family, &key, &value).expect("puts");
                        }
                    }
                }
                if self.rng.one_in(3) {
                    self.read(&mut txn);
                }
                match self.rng.one_in(10) {
                    true => txn.rollback().expect("rolls back"),
                    false => txn.commit().expect("commits"),
                }
            }
            12..=15 => {
                let mut txn = begin(&self.db);
                self.read(&mut txn);
                txn.rollback().expect("ends");
            }
            16 => {
                if self.old.len() > 2 {
                    self.old.remove(0);
                }
                let mut txn = begin(&self.db);
                txn.take_snapshot().expect("takes");
                self.old.push(txn);
            }
            17..=18 => {
                if let Some(mut txn) = self.old.pop() {
                    self.read(&mut txn);
                    self.old.push(txn);
                }
            }
            _ => {
                let family = self.rng.pick(&self.families).clone();
                match self.rng.below(3) {
                    0 => self.db.flush().expect("flushes"),
                    1 => self.db.compact(&family).expect("compacts"),
                    _ => self.db.verify(&family).expect("verifies"),
                }
            }
        }
    }
}

fn play(seed: u64, options: &Options, family: &FamilyOptions, steps: u64) -> Vec<u64> {
    let disk = FaultyDisk::new(seed);
    let mut answers = Vec::new();
    // Two lives: what is in files at the end of the first differs, what is read does not.
    for life in 0..2 {
        let db = open(&disk, options).expect("opens");
        for name in [b"a", b"b"] {
            if life == 0 {
                db.create_family(name, family.clone()).expect("creates");
            }
        }
        let families = [b"a", b"b"].iter().map(|name| db.family(*name).expect("there")).collect();
        let rng = Rng(seed * 2 + life);
        let mut player = Player { rng, db: db.clone(), families, old: Vec::new(), answers };
        for _ in 0..steps {
            player.step();
        }
        for family in player.families.clone() {
            player.answers.push(hash(&sim::rows(&db, &family).expect("reads")));
        }
        answers = std::mem::take(&mut player.answers);
        drop(player);
        db.close().expect("closes");
    }
    answers
}

#[test]
fn one_program_has_one_answer_under_every_configuration() {
    for seed in seeds("METAMORPHIC", 3) {
        let mut right: Option<Vec<u64>> = None;
        for (name, options, family) in configurations() {
            let answers = play(seed, &options, &family, 500);
            let right = right.get_or_insert_with(|| answers.clone());
            let differs = right.iter().zip(&answers).position(|(a, b)| a != b);
            assert_eq!(differs, None, "METAMORPHIC_SEED={seed}: answer under '{name}' differs");
            assert_eq!(right.len(), answers.len(), "METAMORPHIC_SEED={seed}: '{name}'");
        }
    }
}
