//! A store with most transactions larger than memory.

use std::path::Path;
use std::sync::Arc;

use tidesdb::internal::db::Db;
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::store::family::Family;
use tidesdb::{Options, SyncMode};

pub const FAMILIES: [&str; 3] = ["a", "b", "c"];

/// A spill at about 25 changes.
pub fn options() -> Options {
    Options { write_buffer_size: 4 << 10, ..crate::sim::tiny(SyncMode::None) }
}

pub fn key(n: u64) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

pub fn make(disk: &FaultyDisk, options: &Options) -> (Db, Vec<Arc<Family>>) {
    let db = crate::sim::open(disk, options).expect("opens");
    for name in FAMILIES {
        if db.family(name.as_bytes()).is_err() {
            db.create_family(name.as_bytes(), crate::sim::tiny_family()).expect("creates");
        }
    }
    let families = FAMILIES.iter().map(|name| db.family(name.as_bytes()).expect("there")).collect();
    (db, families)
}

/// Files with tables.
pub fn tables(disk: &FaultyDisk) -> usize {
    disk.list(Path::new(crate::sim::DIR)).expect("lists").iter().filter(|name| name.ends_with(".sst")).count()
}
