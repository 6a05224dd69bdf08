//! Back-pressure: a delayed writer goes on once flush and compaction have caught up, or gets an error after
//! its patience. A stop without an end does not begin.

mod sim;

use std::time::Duration;

use sim::open;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::{FamilyOptions, Options, SyncMode};

/// The family's options stop writers before merging would begin: merging then begins at the stop.
#[test]
fn a_stop_before_the_trigger_ends() {
    let disk = FaultyDisk::new(1);
    let options =
        Options { write_buffer_size: 8 << 20, compaction_threads: 1, ..sim::normal(SyncMode::Full) };
    let db = open(&disk, &options).expect("opens");
    let wish = FamilyOptions { l0_compaction_trigger: 1024, l0_stall_threshold: 1, ..sim::tiny_family() };
    let family = db.create_family(b"f", wish).expect("creates");
    for round in 0..5u32 {
        let mut txn = sim::begin(&db);
        txn.statement_begin(true, Duration::from_secs(20)).expect("is not held back for 20 seconds");
        for n in 0..12_000u32 {
            txn.put(&family, &n.to_be_bytes(), &[round as u8; 100]).expect("puts");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    }
    assert_eq!(sim::rows(&db, &family).expect("reads").len(), 12_000);
}
