//! The events of the runs: a count of every kind, so a kind never hit is seen.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidesdb_simulated::internal::io::faulty::{Failure, Op};

use crate::area::Area;

/// Kinds of events of clients, upkeep and crashes.
const KINDS: &[&str] = &[
    "another's store refused",
    "backup",
    "backup opened beside its store",
    "backup stopped",
    "backup that shares files with another",
    "change of the dictionary refused",
    "commit",
    "commit by its user",
    "commit by xid",
    "commit in two phases",
    "commit in two phases, for a cluster",
    "commit with priority",
    "conflict",
    "count of rows",
    "crash in a recovery",
    "crash: drop",
    "crash: keep",
    "crash: kill",
    "crash: prefix",
    "crash: reorder",
    "crash: tear",
    "crash at a change of manifests",
    "crash in a recovery",
    "deadlock",
    "decision in a backup",
    "disk fills up",
    "disk with large sectors",
    "disk without direct reads",
    "document with its words",
    "duplicate",
    "excused by a fault",
    "family altered",
    "family copied",
    "family dropped",
    "family dropped and made",
    "family gone",
    "family made",
    "family renamed",
    "family replaced",
    "family truncated",
    "fault in a recovery",
    "files compared with the manifest",
    "flush",
    "flipped bit",
    "flush by hand",
    "format 2 from the begin",
    "held back for too long",
    "index built",
    "left to others",
    "lie noticed",
    "lie without consequence",
    "lock of a prepared transaction",
    "locking read after the log failed",
    "lock timeout",
    "locking scan",
    "load by tables",
    "load given up",
    "lock in an applier's way later",
    "locks of an undone statement given back",
    "locks traded for a table's",
    "log failed",
    "log file removed",
    "log synced by hand",
    "merge",
    "merge by hand",
    "move between transactions",
    "older copy refused",
    "opened for reading only",
    "options changed",
    "pair of put and deletion dropped",
    "position of a commit",
    "position without changes",
    "power cut after a failure of the log",
    "prepared after a crash",
    "prepared for later",
    "read",
    "read of several keys",
    "rollback",
    "rollback by xid",
    "rollback of a prepared transaction",
    "rolled back for an applier",
    "rows counted by a scan",
    "savepoint",
    "scan",
    "scan held open",
    "search for a word",
    "sleep in a transaction",
    "snapshot held long",
    "snapshot older than the family",
    "spilled transaction",
    "store checked after its end",
    "stricter sync mode",
    "table locked for a change",
    "time that passes at once",
    "too little memory",
    "too many locks",
    "too much prepared",
    "wall clock ahead",
    "wall clock back",
];

/// Kinds reported by the engine (`crate::sync::note` there).
const ENGINE: &[&str] = &[
    "cache: gives way",
    "cache: grows",
    "cache: measured by a writer",
    "cache: shared read",
    "cache: shared read that failed",
    "cache: stored copy",
    "cache: stored copy kept",
    "edit: count of rows",
    "edit: drops a family",
    "edit: epoch boundary",
    "edit: expiry clock",
    "edit: flush",
    "edit: flush without tables",
    "edit: forgets log",
    "edit: higher format",
    "edit: lists a log segment",
    "edit: merge",
    "edit: merge without tables",
    "edit: moves a table",
    "edit: new manifest",
    "edit: option",
    "edit: releases log",
    "edit: runs",
    "edit: value file",
    "edit: value file ends",
    "log: durable mark",
    "log: failed",
    "log: new segment",
    "log: prepared copied",
    "log: written again",
    "merge: dead versions",
    "merge: expired",
    "merge: file with dead tables",
    "merge: full level",
    "merge: level 0",
    "merge: level 0 relieved by a flush",
    "merge: level 0, small runs",
    "merge: level 0, way blocked",
    "merge: manual",
    "merge: small runs in a flush",
    "merge: tombstones",
    "recovery: epoch boundary on a full disk",
    "recovery: flush",
    "recovery: prepared",
    "recovery: runs",
    "recovery: torn tail",
    "recovery: torn value",
    "rotation: asked for",
    "rotation: full memtable",
    "rotation: long log",
    "rotation: many values",
    "rotation: runs",
    "run of a transaction",
    "runs of a transaction merged",
    "stage: backup, before a log file",
    "stage: backup, before a table file",
    "stage: backup, before a value file",
    "stage: backup, log held",
    "stage: backup, point given up",
    "stage: backup, point taken",
    "stage: backup, version pinned",
    "stage: dictionary, before the drop's edit",
    "stage: dictionary, before the log's record",
    "stage: dictionary, before the unlinking",
    "stage: dictionary, logged",
    "stage: dictionary, old families gone",
    "stage: edit, not yet shown",
    "stage: flush before its edit",
    "stage: flush begun",
    "stage: flush installed",
    "stage: flush written",
    "stage: flush, prepared copied",
    "stage: merge installed",
    "stage: merge picked",
    "stage: merge written",
    "stage: range not yet published",
    "stage: runs of a transaction, not yet logged",
    "stage: values to collect",
    "table: block read alone after an error",
    "table: blocks read together",
    "table: postings unpacked",
    "table: cached blocks read over",
    "table: filter asked",
    "table: filter no longer asked",
    "table: file opened past the page cache",
    "table: shared opening",
    "value unchanged",
    "values: files without holds",
    "values: moved out of entries",
    "values: new file",
    "values: rest kept",
    "values: space given back",
    "values: synced alongside the log",
];

/// Kinds that the engine makes good and tells of, and that no fault of the disk excuses.
pub const NEVER: &[&str] = &["cache: stored copy damaged"];

/// A fault at a kind of call, as a name.
fn name_of_fault(failure: Failure, op: Op, area: Area) -> String {
    format!("fault: {failure:?} {op:?} {area:?}").to_lowercase()
}

/// Faults of the engine's calls.
fn faults() -> Vec<String> {
    let mut names = Vec::new();
    let mut add = |failure: Failure, area: Area, ops: &[Op]| {
        names.extend(ops.iter().map(|op| name_of_fault(failure, *op, area)));
    };
    let (eio, files) = (Failure::Eio, [Op::Open, Op::Create, Op::Read, Op::Write, Op::Sync]);
    for area in [Area::Log, Area::Table, Area::Manifest] {
        add(eio, area, &files);
        add(eio, area, &[Op::Remove]);
        add(Failure::Emfile, area, &[Op::Open]);
        add(Failure::ShortRead, area, &[Op::Read]);
        add(Failure::Lie, area, &[Op::Sync]);
        add(Failure::Enospc, area, &[Op::Create, Op::Write]);
    }
    add(eio, Area::Log, &[Op::Allocate, Op::Len, Op::List, Op::SyncDir]);
    add(eio, Area::Manifest, &[Op::Allocate, Op::Len, Op::Rename, Op::Exists]);
    add(eio, Area::Values, &[Op::Read]);
    add(Failure::ShortRead, Area::Values, &[Op::Read]);
    add(eio, Area::Directory, &[Op::List, Op::SyncDir]);
    add(Failure::Lie, Area::Directory, &[Op::SyncDir]);
    add(Failure::Enospc, Area::Log, &[Op::Allocate]);
    add(Failure::Enospc, Area::Manifest, &[Op::Allocate, Op::Rename]);
    names
}

static EVENTS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn events() -> MutexGuard<'static, BTreeMap<String, u64>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One more.
pub fn hit(kind: &'static str) {
    hit_times(kind, 1);
}

/// So many more.
pub fn hit_times(kind: &'static str, times: u64) {
    debug_assert!(KINDS.contains(&kind), "{kind}");
    add(kind, times);
}

/// The engine tells of so many.
pub fn told(kind: &'static str, times: u64) {
    debug_assert!(ENGINE.contains(&kind), "{kind}");
    add(kind, times);
}

/// A call fails.
pub fn fault(failure: Failure, op: Op, area: Area) {
    add(&name_of_fault(failure, op, area), 1);
}

fn add(kind: &str, times: u64) {
    let mut events = events();
    match events.get_mut(kind) {
        Some(count) => *count += times,
        None => drop(events.insert(kind.to_string(), times)),
    }
}

/// Each kind and its count; 0: never hit.
pub fn counts() -> Vec<(String, u64)> {
    let mut counts = events().clone();
    for kind in KINDS.iter().chain(ENGINE) {
        counts.entry((*kind).to_string()).or_default();
    }
    for kind in faults() {
        counts.entry(kind).or_default();
    }
    counts.into_iter().collect()
}
