//! Options changed while the store is open: bounds, effects, and no answered commit lost by a change.

mod sim;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sim::{begin, open, rows};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::options::LiveOptions;
use tidesdb::internal::store::family::Family;
use tidesdb::{FamilyOptions, Options, SyncMode};

const PATIENCE: Duration = Duration::from_secs(20);

fn put(db: &Db, family: &Arc<Family>, key: &str, value: &[u8]) {
    let mut txn = begin(db);
    txn.statement_begin(true, PATIENCE).expect("statement");
    txn.put(family, key.as_bytes(), value).expect("puts");
    txn.commit().expect("commits");
}

fn change(db: &Db, change: impl FnOnce(&mut LiveOptions)) -> tidesdb::Result<()> {
    let mut options = db.live_options();
    change(&mut options);
    db.set_live_options(&options)
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_value_outside_of_its_bounds_is_refused_by_name_and_changes_nothing() {
    let disk = FaultyDisk::new(1);
    let options = Options { max_memory: 64 << 20, block_cache_size: 4 << 20, ..sim::normal(SyncMode::Full) };
    let db = open(&disk, &options).expect("opens");
    let before = db.live_options();
    let refused = |edit: &dyn Fn(&mut LiveOptions), words: &[&str]| {
        let error = change(&db, |options| edit(options)).expect_err("refused").to_string();
        words.iter().for_each(|word| assert!(error.contains(word), "{word}: {error}"));
        assert_eq!(db.live_options(), before);
    };
    refused(&|o| o.write_buffer_size = 1, &["write_buffer_size", "4096"]);
    refused(&|o| o.compaction_threads = 65, &["compaction_threads", "65", "64"]);
    refused(&|o| o.sync_interval_us = 0, &["sync_interval_us", "0", "1"]);
    refused(&|o| o.max_open_files = 1, &["max_open_files", "4"]);
    refused(&|o| o.block_cache_size = 64 << 20, &["max_memory", "67108864", "block cache"]);
    refused(&|o| o.max_memory = 1, &["max_memory", "4194304"]);
}

#[test]
fn the_cache_has_its_new_size_when_the_change_returns() {
    let disk = FaultyDisk::new(1);
    for max_memory in [0, 64 << 20] {
        let options = Options { max_memory, block_cache_size: 4 << 20, ..sim::normal(SyncMode::None) };
        let db = open(&disk, &options).expect("opens");
        for size in [1 << 20, 8 << 20, 2 << 20] {
            change(&db, |options| options.block_cache_size = size).expect("changes");
            assert_eq!(db.stats().cache_capacity, size as u64, "bound {max_memory}");
        }
        db.close().expect("closes");
    }
}

#[test]
fn a_smaller_write_buffer_seals_the_memtable_at_the_next_commit() {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 8 << 20, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    for n in 0..20 {
        put(&db, &t, &format!("{n:02}"), &[7; 10_000]);
    }
    assert_eq!(db.stats().flush_count, 0);
    change(&db, |options| options.write_buffer_size = 64 << 10).expect("changes");
    put(&db, &t, "20", b"seals");
    until("the memtable is sealed", || db.stats().flush_count > 0);
    let flushes = db.stats().flush_count;
    change(&db, |options| options.write_buffer_size = 8 << 20).expect("changes");
    for n in 21..60 {
        put(&db, &t, &format!("{n:02}"), &[7; 10_000]);
    }
    until("nothing waits", || db.stats().immutable_memtables == 0);
    assert!(db.stats().flush_count <= flushes + 1, "the larger one holds them all");
    assert_eq!(rows(&db, &t).expect("reads").len(), 60);
}

/// Level 0 grows without a merging thread, and shrinks once there is one; then none is left again.
#[test]
fn compaction_threads_come_and_go() {
    let disk = FaultyDisk::new(1);
    let options =
        Options { write_buffer_size: 64 << 10, compaction_threads: 0, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let runs = FamilyOptions { l0_compaction_trigger: 2, ..FamilyOptions::default() };
    let t = db.create_family(b"t", runs).expect("creates");
    let fill = |round: usize| {
        for n in 0..300 {
            put(&db, &t, &format!("{n:05}"), &[round as u8; 1_000]);
        }
        db.flush().expect("flushes");
    };
    (0..4).for_each(fill);
    assert_eq!(db.stats().compaction_count, 0, "nobody merges");
    for threads in [1, 8, 1] {
        change(&db, |options| options.compaction_threads = threads).expect("changes");
        let before = db.stats().compaction_count;
        (4..8).for_each(fill);
        until("a thread merges", || db.stats().compaction_count > before);
    }
    change(&db, |options| options.compaction_threads = 0).expect("changes");
    until("they end", || db.stats().compaction_queue == 0);
    assert_eq!(rows(&db, &t).expect("reads").len(), 300);
    db.close().expect("closes");
}

/// Commits of some threads while the mode changes all the time, then a power cut without any unsynced bytes.
/// The phase is odd from the end of a change to FULL until the next change begins.
#[test]
fn no_commit_that_was_answered_as_durable_is_lost_at_a_change_of_the_mode() {
    for seed in 0..6 {
        let disk = FaultyDisk::new(seed);
        // An interval that does not end within the test.
        let options = Options { sync_interval_us: 3_600_000_000, ..sim::normal(SyncMode::None) };
        let db = open(&disk, &options).expect("opens");
        let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let (phase, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        // Answered commits, with the phase at the answer and whether they were durable by it.
        let answered: Mutex<Vec<(String, u64)>> = Mutex::default();
        let commits = AtomicU64::new(0);
        let left = std::thread::scope(|scope| {
            for thread in 0..3 {
                let (db, t, phase, stop, answered, commits) = (&db, &t, &phase, &stop, &answered, &commits);
                scope.spawn(move || {
                    for n in 0.. {
                        if stop.load(SeqCst) {
                            break;
                        }
                        let key = format!("{thread}-{n:06}");
                        put(db, t, &key, b"value");
                        // Under the latch, so that a look at the list has all that were answered in its phase.
                        let mut answered = answered.lock().expect("no panic");
                        answered.push((key, phase.load(SeqCst)));
                        commits.fetch_add(1, SeqCst);
                    }
                });
            }
            let some_more = || {
                let before = commits.load(SeqCst);
                until("they commit", || commits.load(SeqCst) >= before + 20);
            };
            for round in 0..8 {
                let weak = if round % 2 == 0 { SyncMode::None } else { SyncMode::Interval };
                change(&db, |options| options.sync_mode = weak).expect("changes");
                some_more();
                change(&db, |options| options.sync_mode = SyncMode::Full).expect("changes");
                // All that was answered until now is durable; so is what is answered until the next change.
                phase.fetch_add(1, SeqCst);
                if round >= seed {
                    some_more();
                    let durable = answered.lock().expect("no panic").clone();
                    let cut = disk.crash(Crash::Drop);
                    stop.store(true, SeqCst);
                    return (durable, cut);
                }
                some_more();
            }
            unreachable!("a round of each seed ends with the power cut");
        });
        let (durable, cut) = left;
        let db = open(&cut, &options).expect("opens again");
        let t = db.family(b"t").expect("there");
        let found: std::collections::HashSet<String> = rows(&db, &t)
            .expect("reads")
            .into_iter()
            .map(|(key, _)| String::from_utf8(key).expect("text"))
            .collect();
        assert!(durable.len() > 20);
        for (key, phase) in durable {
            assert!(found.contains(&key), "seed {seed}: {key} of phase {phase} was answered as durable");
        }
    }
}

/// The modes differ, so the test above can fail.
#[test]
fn a_weaker_mode_counts_from_the_change_on() {
    let disk = FaultyDisk::new(1);
    let options = Options { sync_interval_us: 3_600_000_000, ..sim::normal(SyncMode::Full) };
    let db = open(&disk, &options).expect("opens");
    let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    put(&db, &t, "durable", b"value");
    change(&db, |options| options.sync_mode = SyncMode::None).expect("changes");
    put(&db, &t, "lost", b"value");
    let left = |disk: &FaultyDisk| {
        let db = open(&disk.crash(Crash::Drop), &options).expect("opens");
        rows(&db, &db.family(b"t").expect("there")).expect("reads").len()
    };
    assert_eq!(left(&disk), 1);
    change(&db, |options| options.sync_interval_us = 1_000).expect("changes");
    change(&db, |options| options.sync_mode = SyncMode::Interval).expect("changes");
    until("the interval syncs what NONE left", || {
        disk.advance_clock(10_000);
        left(&disk) == 2
    });
}

#[test]
fn a_failed_change_to_full_leaves_the_mode_as_it_was() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &sim::normal(SyncMode::None)).expect("opens");
    let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    put(&db, &t, "a", b"value");
    disk.fail(Fault { op: Some(Op::Sync), path: "wal".into(), skip: 0, times: 1, failure: Failure::Eio });
    assert!(change(&db, |options| options.sync_mode = SyncMode::Full).is_err());
    assert_eq!(db.live_options().sync_mode, SyncMode::None);
    assert_eq!(rows(&db, &t).expect("reads").len(), 1, "what was answered is there");
}

/// Copies of XA-prepared transactions are more than the log lets be on its way under a smaller write buffer. Nobody but
/// their decisions ends them, so nobody waits for that.
#[test]
fn xa_prepared_transactions_are_in_no_writers_way_after_a_smaller_write_buffer() {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 16 << 20, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let mut prepared = Vec::new();
    for n in 0..40u8 {
        let mut txn = begin(&db);
        txn.put(&t, &[n], &[n; 100_000]).expect("puts");
        txn.prepare_xa(&[n]).expect("prepares");
        prepared.push(txn);
    }
    change(&db, |options| options.write_buffer_size = 64 << 10).expect("changes");
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| put(&db, &t, "k", b"v"));
        until("a commit waits for what only a decision ends", || writes.is_finished());
        writes.join().expect("commits");
    });
    for mut txn in prepared {
        txn.commit().expect("commits");
    }
    assert_eq!(rows(&db, &t).expect("reads").len(), 41);
}

/// The transaction is larger than what may be on its way now: it waits for nobody but itself.
#[test]
fn a_transaction_from_before_a_smaller_write_buffer_commits() {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 16 << 20, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let mut txn = begin(&db);
    for n in 0..30u8 {
        txn.put(&t, &[n], &[n; 100_000]).expect("puts");
    }
    change(&db, |options| options.write_buffer_size = 64 << 10).expect("changes");
    std::thread::scope(|scope| {
        let commits = scope.spawn(move || txn.commit());
        until("the commit waits for itself", || commits.is_finished());
        commits.join().expect("no panic").expect("commits");
    });
    assert_eq!(rows(&db, &t).expect("reads").len(), 30);
}
