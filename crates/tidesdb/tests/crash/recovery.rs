//! Opening after a crash: compares the content with the allowed states, and goes on with the store.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use tidesdb::internal::cache::BlockCache;
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::table::TableStore;
use tidesdb::internal::types::FamilyId;
use tidesdb::internal::version::{OpenFor, VersionSet};
use tidesdb::{Options, Result, SyncMode};

use super::attempt;
use super::sim::{self, begin, open, Rng, DIR};
use super::state::{hash, key, value, Expect, Ids, Incarnation, State, Value};

/// The content of a store, with the incarnations of names from `like`. `ids` tells incarnations with equal
/// rows apart: prepared changes of one do not reach the other.
pub(super) fn observe(db: &Db, like: &[State], ids: &Ids) -> Result<State> {
    let mut seen = State::default();
    let mut found = BTreeMap::new();
    let mut rows = BTreeMap::new();
    for name in db.family_names(b"") {
        let family = db.family(&name)?;
        db.verify(&family)?;
        let content: BTreeMap<Vec<u8>, Value> =
            sim::rows(db, &family)?.into_iter().map(|(k, v)| (k, hash(&v))).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        found.insert(name.clone(), family.id());
        seen.names.insert(name.clone(), (0, family.record().to_vec()));
        rows.insert(name, content);
    }
    seen.position = db.position();
    seen.undecided = db.prepared().iter().map(|xid| String::from_utf8_lossy(xid).into_owned()).collect();
    let may_be = |incarnation: &Incarnation, id: FamilyId| match ids.get(incarnation) {
        Some(known) => *known == id,
        None => !ids.values().any(|other| *other == id),
    };
    let same = like.iter().rev().find(|state| {
        state.undecided == seen.undecided
            && state.position == seen.position
            && state.names.len() == seen.names.len()
            && state.names.iter().all(|(name, (id, record))| {
                seen.names.get(name).is_some_and(|(_, r)| r == record)
                    && state.rows[id] == rows[name]
                    && may_be(id, found[name])
            })
    });
    match same {
        Some(state) => Ok(state.clone()),
        None => {
            for (id, (name, content)) in rows.into_iter().enumerate() {
                if let Some(entry) = seen.names.get_mut(&name) {
                    entry.0 = id as u64 + 1_000_000;
                }
                seen.rows.insert(id as u64 + 1_000_000, content);
            }
            Ok(seen)
        }
    }
}

/// The engine's identities of the incarnations named in `state`.
pub(super) fn ids(db: &Db, state: &State) -> Ids {
    let id = |name: &String| db.family(name.as_bytes()).expect("there").id();
    state.names.iter().map(|(name, (incarnation, _))| (*incarnation, id(name))).collect()
}

/// Opens the store after a crash and compares; returns it with the state found.
pub(super) fn recover(disk: &FaultyDisk, options: &Options, expect: &Expect, crash: Crash) -> (Db, State) {
    let db = open(disk, options).unwrap_or_else(|e| panic!("after {crash:?} the store does not open: {e}"));
    let right = expect.right(crash);
    let seen =
        observe(&db, right, &expect.ids).unwrap_or_else(|e| panic!("after {crash:?} it does not read: {e}"));
    if !right.contains(&seen) {
        for (at, state) in expect.history.iter().enumerate().rev().take(6) {
            println!("right {at}: {}", state.printed());
        }
        println!("found: {}", seen.printed());
        let lost = expect.history.contains(&seen);
        panic!(
            "after {crash:?}: {} ({} written, {} durable of {})",
            if lost { "promised commits are lost" } else { "no prefix of the commit order" },
            expect.written,
            expect.durable,
            expect.history.len() - 1
        );
    }
    for (name, (id, _)) in &seen.names {
        let Some(handed) = expect.handed.get(id) else { continue };
        let family = db.family(name.as_bytes()).expect("there");
        let next = db.counter_peek(&family, 0).expect("peeks");
        assert!(
            next > *handed,
            "after {crash:?} the counter of {name} gives {next}; {handed} was handed out"
        );
    }
    (db, seen)
}

/// A recovered store goes on: prepared ones are decided, commits follow, and a power cut loses nothing.
pub(super) fn goes_on(
    disk: &FaultyDisk,
    options: &Options,
    expect: &Expect,
    (db, seen): (Db, State),
    seed: u64,
) {
    let mut rng = Rng(seed);
    let mut state = seen;
    let mut handed = expect.handed.clone();
    for xid in state.undecided.clone() {
        let commit = rng.one_in(2);
        let known = match commit {
            true => db.commit_by_xid(xid.as_bytes()),
            false => db.rollback_by_xid(xid.as_bytes()),
        };
        assert!(known.expect("decides"), "{xid} waits for its decision");
        state.undecided.remove(&xid);
        if commit {
            state.apply(&expect.prepared[&xid]);
        }
    }
    for (name, (id, _)) in state.names.clone() {
        let family = db.family(name.as_bytes()).expect("there");
        let taken = db.counter_take(&family, 0, 3, 1, 1, u64::MAX).expect("takes");
        let highest = handed.entry(id).or_default();
        assert!(taken > *highest, "{taken} was handed out before ({highest})");
        *highest = taken + 2;
        let mut txn = begin(&db);
        txn.set_sync(Some(SyncMode::Full));
        let value = value(30, rng.next());
        txn.put(&family, &key(999), &value).expect("puts");
        txn.commit().expect("commits");
        state.apply(&vec![(id, key(999), Some(hash(&value)))]);
    }
    let ids = ids(&db, &state);
    let next = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop(db);
    let all = Expect { history: vec![state.clone()], handed, ids: ids.clone(), ..expect.clone() };
    let all = Expect { written: 0, durable: 0, ..all };
    let (db, _) = recover(&next, options, &all, Crash::Drop);
    // And a clean restart leaves no file that nothing names.
    db.close().expect("closes");
    let quiet = Options { compaction_threads: 0, ..options.clone() };
    let db = open(&next, &quiet).expect("opens");
    no_orphans(&next.crash(Crash::Kill));
    let seen = observe(&db, std::slice::from_ref(&state), &ids).expect("reads");
    assert_eq!(seen, state, "after a clean restart");
}

pub(super) fn no_orphans(disk: &FaultyDisk) {
    let dir = Path::new(DIR);
    let tables = TableStore::new(disk.shared(), dir, 8);
    let cache = BlockCache::new(0);
    let set = VersionSet::open(disk.shared(), dir, tables, cache, OpenFor::Read).expect("the manifest reads");
    let (files, manifest) = set.live_files();
    let named: HashSet<String> = files.iter().map(|file| format!("{:08}.sst", file.number)).collect();
    let names = disk.list(dir).expect("lists");
    let tables: HashSet<String> = names.iter().filter(|name| name.ends_with(".sst")).cloned().collect();
    assert_eq!(tables, named, "tables on disk, and tables in the manifest {manifest:?}");
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST")).count();
    assert_eq!(manifests, 1, "one manifest: {names:?}");
    let logs = disk.list(&dir.join("wal")).expect("lists").len();
    assert!(logs <= 24, "{logs} files of the log");
}

/// Crashes the recovery of `found` at every one of its calls; the next recovery must find a right state.
pub(super) fn crash_inside_recovery(
    found: &FaultyDisk,
    options: &Options,
    expect: &Expect,
    crash: Crash,
    seed: u64,
) -> u64 {
    let dry = found.crash(Crash::Kill);
    drop(open(&dry, options).expect("opens"));
    let calls = dry.calls();
    let mut crashes = 0;
    for n in 1..=calls {
        let again = found.crash(Crash::Kill);
        if !dry.history()[n as usize - 1].changes() {
            continue;
        }
        again.crash_at(n);
        drop(open(&again, options));
        let second = Crash::ALL[((n + seed) % 6) as usize];
        let disk = again.crash(second);
        // Of two crashes the weaker promise counts.
        let worst = if crash == Crash::Kill { second } else { crash };
        attempt(
            || format!("and inside recovery at call {n} of {calls}, {second:?}"),
            || {
                let (db, _) = recover(&disk, options, expect, worst);
                disk.crash_at(0);
                drop(db);
            },
        );
        crashes += 1;
    }
    crashes
}
