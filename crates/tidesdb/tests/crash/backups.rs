//! Backups on the faulty disk, taken after each step of the short programs. One has a crash at every call,
//! and one a failure of every call. Others run in a full file system, or are interrupted at every megabyte.
//! Then damage in backups.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb::internal::backup::{restore, verify, BackupOptions, Watch, INFO};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Crash, Failure, Fault};
use tidesdb::internal::io::{Disk, FaultyDisk, OpenMode};
use tidesdb::{Error, Options, SyncMode};

use super::programs::short_programs;
use super::recovery::{observe, recover};
use super::sim::{self, tiny_family};
use super::state::{Ids, State, Step};
use super::world::World;
use super::{attempt, constants, constants_of, separate_values};

const KINDS: [BackupOptions; 2] = [BackupOptions { links: false }, BackupOptions { links: true }];

fn of(disk: &FaultyDisk) -> Arc<dyn Disk> {
    disk.shared()
}

/// The content restored from a backup, on a copy of the disk. The backup verifies.
fn content(disk: &FaultyDisk, from: &Path, options: &Options, like: &State) -> State {
    let disk = disk.crash(Crash::Kill);
    verify(&of(&disk), from, Watch::NONE)
        .unwrap_or_else(|e| panic!("{} does not verify: {e}", from.display()));
    let to = Path::new("/restored");
    restore(&of(&disk), from, to, None, Watch::NONE).expect("restores");
    let disk = disk.crash(Crash::Drop);
    let options = Options { compaction_threads: 0, ..options.clone() };
    let db = Db::open_on(of(&disk), to, options, None).expect("the restored store opens");
    let seen = observe(&db, std::slice::from_ref(like), &Ids::new()).expect("the restored store reads");
    disk.crash_at(0);
    drop(db);
    seen
}

fn check(disk: &FaultyDisk, from: &Path, options: &Options, expected: &State) {
    let seen = content(disk, from, options, expected);
    assert!(
        seen == *expected,
        "{}\nexpected {}\nrestored {}",
        from.display(),
        expected.printed(),
        seen.printed()
    );
}

#[test]
fn backups_between_the_steps_of_short_programs_restore_to_their_moments() {
    let only = std::env::var("CRASH_PROGRAM").ok();
    let mut backups = 0;
    for (ordinal, (name, tiny, steps)) in short_programs().into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let (mut options, mut family) = constants_of(name, tiny, SyncMode::None);
        if ordinal % 2 == 1 {
            separate_values(&mut options, &mut family);
        }
        let disk = FaultyDisk::new(ordinal as u64);
        let mut world = World::new(disk.clone(), options.clone(), family).expect("opens");
        let mut taken: Vec<(PathBuf, State)> = Vec::new();
        // The long ones have a backup after some of their steps.
        let every = steps.len() / 30 + 1;
        for (at, step) in steps.iter().enumerate() {
            world.step(step).unwrap_or_else(|e| panic!("{name}, step {at}: {e}"));
            if (at + ordinal) % every != 0 && at + 1 < steps.len() {
                continue;
            }
            let to = PathBuf::from(format!("/backup-{at}"));
            world
                .db()
                .backup(&to, KINDS[at % 2], Watch::NONE)
                .unwrap_or_else(|e| panic!("{name}, {at}: {e}"));
            attempt(
                || format!("{name}, behind step {at}: {step:?}"),
                || check(&disk, &to, &options, world.expect.now()),
            );
            taken.push((to, world.expect.now().clone()));
        }
        backups += taken.len();
        // What the store did afterwards changes none of them.
        for (from, state) in &taken {
            attempt(|| format!("{name}, at its end"), || check(&disk, from, &options, state));
        }
        world.die();
    }
    assert!(only.is_some() || backups > 250, "{backups} backups");
}

/// Programs with most kinds of backup content at their end: files, a log, sealed memtables, prepared
/// transactions, runs.
fn rich_programs() -> Vec<(String, Vec<Step>)> {
    let wanted = |name: &str| name.contains("prepare") || name.contains("spilled") || name.contains("flush");
    let programs = short_programs().into_iter().filter(|(name, tiny, _)| *tiny && wanted(name));
    programs.map(|(name, _, steps)| (name.to_string(), steps)).collect()
}

const TO: &str = "/backup";

/// The store at the end of a program, and the calls before and after a backup of it.
fn ready(seed: u64, steps: &[Step], options: &Options) -> World {
    let mut world = World::new(FaultyDisk::new(seed), options.clone(), tiny_family()).expect("opens");
    world.run(steps).expect("runs");
    world
}

#[test]
fn a_crash_at_every_call_of_a_backup_leaves_the_store_and_a_whole_backup_or_none() {
    let (mut crashes, mut whole, mut refused) = (0, 0, 0);
    for (ordinal, (name, steps)) in rich_programs().into_iter().enumerate() {
        let (options, _) = constants(true, SyncMode::Full);
        let kind = KINDS[ordinal % 2];
        let world = ready(ordinal as u64, &steps, &options);
        let before = world.disk.calls();
        world.db().backup(Path::new(TO), kind, Watch::NONE).expect("a backup");
        let calls = world.disk.calls() - before;
        world.die();
        let step = calls / 80 + 1;
        for n in (1..=calls + 1).step_by(step as usize).chain([calls, calls + 1]) {
            let world = ready(ordinal as u64, &steps, &options);
            let before = world.disk.calls();
            world.disk.crash_at(before + n);
            let done = world.db().backup(Path::new(TO), kind, Watch::NONE);
            let (dead, expect) = world.die();
            for crash in Crash::ALL {
                crashes += 1;
                let what = || format!("{name}, {kind:?}, call {n} of {calls}, {crash:?}");
                attempt(what, || {
                    let found = dead.crash(crash);
                    match verify(&of(&found), Path::new(TO), Watch::NONE) {
                        Ok(_) => {
                            whole += 1;
                            check(&found, Path::new(TO), &options, expect.now());
                        }
                        Err(error) => {
                            refused += 1;
                            assert!(done.is_err(), "the backup was answered, and then: {error}");
                            let to = restore(&of(&found), Path::new(TO), Path::new("/r"), None, Watch::NONE);
                            assert!(to.is_err() && !found.exists(Path::new("/r")).expect("exists"));
                        }
                    }
                    let (db, _) = recover(&found, &options, &expect, crash);
                    found.crash_at(0);
                    drop(db);
                });
            }
        }
    }
    println!("{crashes} crashes, {whole} whole backups, {refused} refused");
    assert!(whole > 10 && refused > 100, "{whole} whole, {refused} refused");
}

#[test]
fn a_failure_of_any_call_of_a_backup_removes_it_and_the_next_one_succeeds() {
    let mut failures = 0;
    for (ordinal, (name, steps)) in rich_programs().into_iter().enumerate() {
        let (options, _) = constants(true, SyncMode::Full);
        for failure in [Failure::Eio, Failure::Enospc] {
            let kind = KINDS[(ordinal + failure as usize) % 2];
            let world = ready(ordinal as u64, &steps, &options);
            let state = world.expect.now().clone();
            for skip in 0.. {
                let fault = Fault { op: None, path: TO.into(), skip, times: 1, failure };
                world.disk.fail(fault);
                let done = world.db().backup(Path::new(TO), kind, Watch::NONE);
                world.disk.heal();
                attempt(
                    || format!("{name}, {kind:?}, {failure:?} at its call {skip}: {done:?}"),
                    || match &done {
                        Ok(_) => check(&world.disk, Path::new(TO), &options, &state),
                        Err(error) => {
                            assert!(failure != Failure::Enospc || !matches!(error, Error::Corruption { .. }));
                            assert!(!world.disk.exists(Path::new(TO)).expect("exists"), "it is gone");
                        }
                    },
                );
                if done.is_ok() {
                    break;
                }
                failures += 1;
            }
            world.die();
        }
    }
    assert!(failures > 200, "{failures} failures");
}

fn filled(disk: &FaultyDisk) -> Db {
    let options =
        Options { write_buffer_size: 64 << 10, compaction_threads: 0, ..sim::normal(SyncMode::None) };
    let db = sim::open(disk, &options).expect("opens");
    let family = db.create_family(b"t", tiny_family()).expect("creates");
    for n in 0..400u32 {
        let mut txn = sim::begin(&db);
        txn.put(&family, &n.to_be_bytes(), &[7; 1000]).expect("puts");
        txn.commit().expect("commits");
    }
    db
}

#[test]
fn a_full_disk_and_an_interruption_leave_nothing_behind() {
    let disk = FaultyDisk::new(3);
    let db = filled(&disk);
    let used: u64 = disk.files().iter().filter_map(|path| disk.contents(path)).map(|c| c.len() as u64).sum();
    for more in [0, 1 << 10, 100 << 10, 300 << 10] {
        disk.set_capacity(Some(used + more));
        let full = db.backup(Path::new(TO), KINDS[0], Watch::NONE).expect_err("no room");
        assert!(matches!(&full, Error::DiskFull(what) if what.contains(TO)), "{full}");
        assert!(!disk.exists(Path::new(TO)).expect("exists"));
    }
    disk.set_capacity(None);
    let asked = Cell::new(0);
    // Each of the first questions, then ever fewer: one is asked for each record of the log.
    let mut after = 0;
    loop {
        asked.set(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > after
        };
        let watch = Watch { stop: &stop, progress: &|_, _| {} };
        match db.backup(Path::new(TO), KINDS[after % 2], watch) {
            Err(Error::Interrupted) => assert!(!disk.exists(Path::new(TO)).expect("exists")),
            Err(other) => panic!("{other}"),
            Ok(_) => {
                assert!(after > 5, "it asks {after} times");
                break;
            }
        }
        after += 1 + after / 8;
    }
    verify(&of(&disk), Path::new(TO), Watch::NONE).expect("verifies");
}

fn refusal(result: tidesdb::Result<impl std::fmt::Debug>) -> String {
    match result.expect_err("refused") {
        Error::InvalidArgument(what) | Error::Busy(what) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_backup_cannot_be_taken_into_or_restored_from_is_refused_by_name() {
    let disk = FaultyDisk::new(4);
    let db = filled(&disk);
    for inside in [sim::DIR, "/store/wal", "/store/new", "/"] {
        assert!(refusal(db.backup(Path::new(inside), KINDS[0], Watch::NONE)).contains(sim::DIR));
    }
    disk.create_dir_all(Path::new("/full")).expect("makes");
    disk.open(Path::new("/full/x"), OpenMode::Create).expect("makes");
    assert!(refusal(db.backup(Path::new("/full"), KINDS[0], Watch::NONE)).contains("not empty"));
    let first = db.begin_backup(Path::new(TO), KINDS[0]).expect("begins");
    assert!(refusal(db.begin_backup(Path::new("/other"), KINDS[1])).contains("one at a time"));
    assert!(refusal(verify(&of(&disk), Path::new(TO), Watch::NONE)).contains(INFO));
    assert!(refusal(first.finish(Watch::NONE)).contains("point"));
    assert!(!disk.exists(Path::new(TO)).expect("exists"), "a backup that is dropped is gone");

    // An empty directory will do, and stays when the backup does not succeed.
    disk.create_dir_all(Path::new(TO)).expect("makes");
    drop(db.begin_backup(Path::new(TO), KINDS[0]).expect("begins"));
    assert!(disk.list(Path::new(TO)).expect("lists").is_empty());
    db.backup(Path::new(TO), KINDS[1], Watch::NONE).expect("a backup");
    assert!(refusal(db.backup(Path::new(TO), KINDS[0], Watch::NONE)).contains("not empty"));

    let restore_to = |to: &str| restore(&of(&disk), Path::new(TO), Path::new(to), None, Watch::NONE);
    assert!(refusal(restore_to("/full")).contains("not empty"));
    assert!(refusal(restore_to("/backup/new")).contains(TO));
    assert!(refusal(restore_to(sim::DIR)).contains("not empty"));
    restore_to("/r").expect("restores");

    // Remains of a backup, and of a restore.
    disk.remove(&Path::new(TO).join(INFO)).expect("removes");
    assert!(refusal(db.backup(Path::new(TO), KINDS[0], Watch::NONE)).contains("did not finish"));
    assert!(refusal(restore_to("/r2")).contains(INFO));
    disk.open(Path::new("/r/RESTORING"), OpenMode::Create).expect("makes");
    let open = Db::open_on(of(&disk), Path::new("/r"), sim::normal(SyncMode::None), None);
    assert!(refusal(open).contains("did not finish"));
}

#[test]
fn a_crash_at_every_call_of_a_restore_leaves_a_store_that_is_whole_or_refused() {
    let disk = FaultyDisk::new(5);
    let options = constants(true, SyncMode::Full).0;
    let (_, steps) = rich_programs().into_iter().next().expect("there are some");
    let mut world = World::new(disk.clone(), options.clone(), tiny_family()).expect("opens");
    world.run(&steps).expect("runs");
    world.db().backup(Path::new(TO), KINDS[0], Watch::NONE).expect("a backup");
    let (dead, expect) = world.die();
    let to = Path::new("/r");
    let (mut whole, mut refused, mut nothing) = (0, 0, 0);
    for call in 1.. {
        let disk = dead.crash(Crash::Drop);
        disk.crash_at(call);
        let done = restore(&of(&disk), Path::new(TO), to, None, Watch::NONE).is_ok();
        for crash in Crash::ALL {
            let found = disk.crash(crash);
            let existing = Options { create_if_missing: false, ..options.clone() };
            match Db::open_on(of(&found), to, existing, None) {
                Ok(db) => {
                    whole += 1;
                    let seen = observe(&db, std::slice::from_ref(expect.now()), &expect.ids).expect("reads");
                    assert!(seen == *expect.now(), "call {call}, {crash:?}");
                    found.crash_at(0);
                }
                Err(error) => {
                    assert!(!done, "call {call}, {crash:?}: {error}");
                    match error.to_string().contains("did not finish") {
                        true => refused += 1,
                        false => nothing += 1,
                    }
                }
            }
        }
        if done {
            break;
        }
    }
    assert!(whole > 0 && refused > 50 && nothing > 0, "{whole} {refused} {nothing}");
}

#[test]
fn verify_finds_every_kind_of_damage() {
    for kind in KINDS {
        let disk = FaultyDisk::new(6);
        let options = constants(true, SyncMode::Full).0;
        let (_, steps) = rich_programs().into_iter().find(|(name, _)| name.contains("spilled")).expect("one");
        let mut world = World::new(disk.clone(), options.clone(), tiny_family()).expect("opens");
        world.run(&steps).expect("runs");
        world.db().backup(Path::new(TO), kind, Watch::NONE).expect("a backup");
        let (dead, expect) = world.die();
        let files: Vec<PathBuf> = dead.files().into_iter().filter(|path| path.starts_with(TO)).collect();
        assert!(files.len() > 4, "{files:?}");
        let mut found = 0;
        for path in &files {
            let len = dead.contents(path).expect("there").len() as u64;
            for at in (0..len).step_by((len / 40 + 1) as usize) {
                let disk = dead.crash(Crash::Kill);
                assert!(disk.flip_bit(path, at, (at % 8) as u8));
                match verify(&of(&disk), Path::new(TO), Watch::NONE) {
                    // Space between the tables of a file has no checksum of its own where the file is a link.
                    Ok(_) => {
                        assert!(kind.links && path.extension().is_some_and(|e| e == "sst"), "{path:?} {at}");
                        check(&disk, Path::new(TO), &options, expect.now());
                    }
                    Err(_) => found += 1,
                }
            }
            let disk = dead.crash(Crash::Kill);
            let file = disk.open(path, OpenMode::ReadWrite).expect("opens");
            file.set_len(len - 1).expect("cuts");
            assert!(verify(&of(&disk), Path::new(TO), Watch::NONE).is_err(), "{path:?} cut");
            disk.remove(path).expect("removes");
            assert!(verify(&of(&disk), Path::new(TO), Watch::NONE).is_err(), "{path:?} missing");
        }
        assert!(found > 100, "{found}");
    }
}
