//! The end of a program: all is merged and verified, rows are counted, and nothing is left over: no file, lock, snapshot,
//! transaction or byte of memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidesdb_simulated::internal::backup::{verify_store, Watch};
use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::io::{Disk, FaultyDisk};
use tidesdb_simulated::internal::table::TableStore;
use tidesdb_simulated::internal::types::{FileNo, DICTIONARY};
use tidesdb_simulated::internal::version::manifest::{dump, manifest_name, read_current};
use tidesdb_simulated::simulation;

use crate::events::{hit, hit_times};
use crate::history::History;
use crate::model::{shown, Content};
use crate::world::content_of;

/// The conditions at the end.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    /// Clients told of each change whether its row is new: the counts are exact.
    pub counted: bool,
    /// Rows expire: counts and scans are of different moments.
    pub expiring: bool,
    /// The disk had no faults.
    pub sound: bool,
}

/// Merges all families, reads every block, and compares the rows before and after.
pub fn settle(db: &Db, history: &History, promises: Promises) -> Result<(), String> {
    let Promises { counted, expiring, sound } = promises;
    let at_end = |what: String| format!("at the end: {what}");
    let content = content_of(db)?;
    history.compare(&content).map_err(at_end)?;
    let families = || db.families().into_iter().map(|info| info.family);
    if counted {
        check_counts(db, &content).map_err(|what| format!("the rows were counted wrong: {what}"))?;
    }
    for family in families() {
        let what = |error| format!("end of family {}: {error}", shown(&family.name()));
        db.compact(&family).map_err(what)?;
        db.verify(&family).map_err(what)?;
        if !expiring {
            db.count_rows(&family, &|| false).map_err(what)?;
        }
    }
    let content = content_of(db)?;
    history.compare(&content).map_err(|what| format!("after compaction: {what}"))?;
    if !expiring {
        check_counts(db, &content)
            .map_err(|what| format!("after a scan the rows are counted wrong: {what}"))?;
    }
    let stats = db.stats();
    hit_times("flush", stats.flush_count);
    hit_times("merge", stats.compaction_count);
    hit_times("locks traded for a table's", stats.locks.escalations);
    hit_times("pair of put and deletion dropped", stats.cancelled_pairs);
    if let Some(damaged) = Some(stats.corruptions + stats.missing_files).filter(|n| sound && *n > 0) {
        return Err(format!("background work met damage {damaged} times"));
    }
    Ok(())
}

/// The counts of rows are those of their scans.
fn check_counts(db: &Db, content: &Content) -> Result<(), String> {
    for info in db.families() {
        let name = info.family.name();
        let rows = content.families.get(&name[..]).map_or(0, |(_, found)| found.rows.len() as u64);
        if !info.stats.counted || info.stats.entries != rows {
            return Err(format!("family {} has {rows} rows, counted: {:?}", shown(&name), info.stats));
        }
    }
    Ok(())
}

/// Waits for merges under way: they hold files of their own.
fn rest(db: &Db, sound: bool) -> Result<(), String> {
    let mut idle = check_idle(db, sound);
    for _ in 0..400 {
        if idle.is_ok() {
            break;
        }
        simulation::sleep(Duration::from_millis(5));
        idle = check_idle(db, sound);
    }
    idle
}

/// Whether a store without open transactions holds nothing for one. Prepared ones are decided before.
fn check_idle(db: &Db, sound: bool) -> Result<(), String> {
    let open = db.transactions();
    if !open.is_empty() {
        return Err(format!("transactions are left: {open:?}"));
    }
    let locks = db.locks(10);
    let stats = db.stats();
    if !locks.locks.is_empty() || stats.locks.held != 0 || stats.locks.waiting != 0 || stats.locks.ranges != 0
    {
        return Err(format!("locks are left: {:?}; {:?}", stats.locks, locks.locks));
    }
    if stats.snapshots != 0 {
        return Err(format!("{} snapshots are left", stats.snapshots));
    }
    let memory = stats.memory;
    let left = [memory.transactions, memory.read_ahead, memory.table_writers];
    if left != [0; 3] {
        return Err(format!("memory is counted for nobody: {memory:?}"));
    }
    if let Some(left) = db.store().counted_for_transactions().iter().find(|(_, count)| *count != 0) {
        return Err(format!("memory is counted for no transaction: {left:?}"));
    }
    if !sound {
        // Tables of families that a failing edit did not drop go with the next opening.
        return Ok(());
    }
    let names: BTreeSet<_> = db.families().iter().map(|info| info.family.id()).collect();
    if let Some(of_none) = db.tables().iter().find(|t| t.family != DICTIONARY && !names.contains(&t.family)) {
        return Err(format!("a table of a dropped family is left: {of_none:?}"));
    }
    Ok(())
}

/// Closes the store. Nothing of it stays in memory. `decided`: no prepared transaction has files named only by the log,
/// so the directory holds the files of the manifest, and no more.
pub fn close(db: Arc<Db>, disk: &FaultyDisk, dir: &str, decided: bool, sound: bool) -> Result<(), String> {
    if decided {
        db.flush().map_err(|error| format!("flush at the end: {error}"))?;
        rest(&db, sound)?;
    }
    let store = Arc::downgrade(db.store());
    let db = Arc::try_unwrap(db).map_err(|_| "somebody still has the store".to_string())?;
    db.close().map_err(|error| format!("close: {error}"))?;
    // Threads that were told to end do so.
    for _ in 0..20 {
        if store.strong_count() > 0 {
            simulation::sleep(Duration::from_millis(50));
        }
    }
    if store.strong_count() > 0 {
        return Err(format!("{} still hold the store after its end", store.strong_count()));
    }
    let shared: Arc<dyn Disk> = disk.shared();
    if decided {
        check_files(disk, &*shared, Path::new(dir)).map_err(|what| format!("files after the end: {what}"))?;
    }
    // It reads all again.
    if simulation::random() % 4 > 0 {
        return Ok(());
    }
    let checked = verify_store(&shared, Path::new(dir), Watch::NONE);
    let checked = checked.map_err(|error| format!("check of the store after its end: {error}"))?;
    hit("store checked after its end");
    match checked.damage.is_empty() && !checked.is_log_cut {
        true => Ok(()),
        false => Err(format!("check of the store after its end: {checked:?}")),
    }
}

/// A file of tables missing in the manifest was left over; the log names the runs of prepared transactions.
fn check_files(faulty: &FaultyDisk, disk: &dyn Disk, dir: &Path) -> Result<(), String> {
    let told = |error: tidesdb_simulated::Error| error.to_string();
    let number = read_current(disk, dir).map_err(told)?.ok_or("there is no manifest")?;
    let manifest = dump(disk, &dir.join(manifest_name(number))).map_err(told)?;
    let mut named: BTreeSet<FileNo> = BTreeSet::new();
    for (_, edit) in &manifest.edits {
        named.extend(edit.new_files.iter().map(|file| file.number));
        named.retain(|number| !edit.deleted_files.contains(number));
    }
    let files = faulty.files();
    let tables = files.iter().filter(|file| file.parent() == Some(dir));
    let there: BTreeSet<FileNo> =
        tables.filter_map(|file| TableStore::number_of(file.file_name()?.to_str()?)).collect();
    hit("files compared with the manifest");
    match there == named {
        true => Ok(()),
        false => Err(format!("{there:?} are there, and the manifest names {named:?}")),
    }
}
