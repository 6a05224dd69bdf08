//! Shared parts of the random tests: a generator of numbers, stores with big and tiny constants, and reading
//! a store from outside.

#![allow(dead_code)] // Each test binary uses a part.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::internal::host::splitmix64;
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::{Scan, Start};
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Compression, FamilyOptions, Options, Result, SyncMode, TransactionOptions};

/// The store's directory on a faulty disk.
pub const DIR: &str = "/store";

/// Number of table files on a disk.
pub fn tables(disk: &FaultyDisk) -> usize {
    disk.files().iter().filter(|path| path.extension().is_some_and(|e| e == "sst")).count()
}

pub type Row = (Vec<u8>, Vec<u8>);

/// splitmix64.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// A number from the environment, to make a run longer or to repeat one.
pub fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Seeds of random programs: the one in the variable `NAME_SEED`, to repeat it, else 1 to `NAME_SEEDS`, or to
/// `usual`.
pub fn seeds(name: &str, usual: u64) -> Vec<u64> {
    match env(&format!("{name}_SEED"), 0) {
        0 => (1..=env(&format!("{name}_SEEDS"), usual)).collect(),
        seed => vec![seed],
    }
}

/// A store with everything as small as it may be: every transition happens within a few hundred rows.
pub fn tiny(sync_mode: SyncMode) -> Options {
    Options {
        write_buffer_size: 8 << 10,
        block_cache_size: 4 << 10,
        wal_segment_size: 64 << 10,
        sync_mode,
        max_open_files: 8,
        target_file_size: 4 << 10,
        base_level_size: 16 << 10,
        deleted_run: 2,
        ..Options::default()
    }
}

pub fn normal(sync_mode: SyncMode) -> Options {
    Options { write_buffer_size: 1 << 20, wal_segment_size: 1 << 20, sync_mode, ..Options::default() }
}

pub fn tiny_family() -> FamilyOptions {
    FamilyOptions {
        compression: Compression::None,
        block_size: 128,
        l0_compaction_trigger: 2,
        l0_stall_threshold: 64,
        level_size_ratio: 2,
        ..FamilyOptions::default()
    }
}

pub fn open(disk: &FaultyDisk, options: &Options) -> Result<Db> {
    let disk: Arc<dyn Disk> = disk.shared();
    Db::open_on(disk, Path::new(DIR), options.clone(), None)
}

pub fn begin(db: &Db) -> Transaction {
    begin_as(db, TransactionOptions::default())
}

pub fn begin_as(db: &Db, options: TransactionOptions) -> Transaction {
    let mut txn = db.transaction();
    txn.begin(options).expect("begins");
    txn
}

/// The parameters of a scan, owned.
#[derive(Clone, Debug)]
pub struct Asked {
    pub start: Start,
    pub key: Vec<u8>,
    pub prefix: usize,
    pub bound: Option<Vec<u8>>,
    pub mode: ReadMode,
    pub expect: u32,
}

impl Asked {
    pub fn all(forward: bool) -> Asked {
        Asked {
            start: if forward { Start::First } else { Start::Last },
            key: Vec::new(),
            prefix: 0,
            bound: None,
            mode: ReadMode::Snapshot,
            expect: 0,
        }
    }

    pub fn scan(&self) -> Scan<'_> {
        Scan {
            start: self.start,
            key: &self.key,
            prefix: self.prefix,
            bound: self.bound.as_deref(),
            mode: self.mode,
            expect: self.expect,
            ..Scan::default()
        }
    }
}

/// The rows of a scan, in its direction.
pub fn scan(db: &Db, txn: &mut Transaction, family: &Arc<Family>, asked: &Asked) -> Result<Vec<Row>> {
    let mut cursor = db.cursor(family);
    let mut out = Vec::new();
    let mut found = cursor.seek(txn, &asked.scan())?;
    while found {
        for index in 0..cursor.len() {
            let (key, value) = cursor.row(index);
            out.push((key.to_vec(), value.to_vec()));
        }
        found = cursor.fetch(txn, cursor.len() - 1, asked.start.is_forward())?;
    }
    Ok(out)
}

/// Every committed row of a family, read in both directions with the same result.
pub fn rows(db: &Db, family: &Arc<Family>) -> Result<Vec<Row>> {
    let mut txn = begin(db);
    txn.statement_begin(false, Duration::ZERO)?;
    let forward = scan(db, &mut txn, family, &Asked::all(true))?;
    let mut backward = scan(db, &mut txn, family, &Asked::all(false))?;
    backward.reverse();
    assert_eq!(forward, backward, "forward and backward disagree in family {}", family.id());
    txn.rollback()?;
    Ok(forward)
}
