//! Merging of families while no server runs.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use tidesdb::internal::store::family::Family;
use tidesdb::{Db, Options};

use crate::names::Names;
use crate::output::{check_store, shown_name, with_remedy, Failure, Out};
use crate::DONE;

/// The way to merge in a store in use.
const IN_USE: &str = "stop that server first; while it runs, OPTIMIZE TABLE merges a table";

/// Between two looks at the figures for the line of progress.
const PACE: Duration = Duration::from_millis(200);

/// Tables and bytes of a family.
#[derive(Clone, Copy)]
struct Size {
    tables: usize,
    bytes: u64,
}

impl Size {
    fn of(db: &Db, family: &Family) -> Size {
        let tables = db.engine().tables();
        let own = tables.iter().filter(|table| table.family == family.id());
        Size { tables: own.clone().count(), bytes: own.map(|table| table.bytes).sum() }
    }

    fn json(self) -> Value {
        json!({ "tables": self.tables, "bytes": self.bytes })
    }
}

/// Merges one family. A line on `progress` tells how far it is.
fn merge(db: &Db, family: &Family, name: &str, progress: &mut Option<&mut dyn Write>) -> tidesdb::Result<()> {
    let Some(err) = progress else { return db.engine().compact(family) };
    let (done, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let result = db.engine().compact(family);
            done.store(true, Ordering::Release);
            result
        });
        while !done.load(Ordering::Acquire) && !work.is_finished() {
            let stats = db.engine().stats();
            let megabytes = |bytes: u64| bytes >> 20;
            let _ = write!(
                err,
                "\r\x1b[K{name}: {} MB read, {} MB written, {} s",
                megabytes(stats.compaction_bytes_read),
                megabytes(stats.compaction_bytes_written),
                begun.elapsed().as_secs()
            );
            let _ = err.flush();
            std::thread::park_timeout(PACE);
        }
        let _ = write!(err, "\r\x1b[K");
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// True if `wanted` is a family's displayed name, or the table of the plugin's family.
fn is_meant(name: &[u8], wanted: &str) -> bool {
    let is_of_table = |rest: &[u8]| rest.first() == Some(&0);
    shown_name(name) == wanted || name.strip_prefix(wanted.as_bytes()).is_some_and(is_of_table)
}

/// Refuses another user's store: the server could not read this program's files.
fn check_owner(store: &Path) -> Result<(), Failure> {
    // The directory of a process belongs to the user that it acts for.
    let user = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.uid());
    match (user(&store.join("CURRENT")), user(Path::new("/proc/self"))) {
        (Some(owner), Some(own)) if owner != own => Err(Failure::Other(format!(
            "{} belongs to the user number {owner}, whose server could not read files of the user number {own}: run this as \
             `sudo -u '#{owner}' tidesdb-admin compact ...`",
            store.display()
        ))),
        _ => Ok(()),
    }
}

/// Opens the store alone and merges the family, or all of them.
pub fn run(
    store: &Path,
    family: Option<&str>,
    out: &mut Out<'_>,
    mut progress: Option<&mut dyn Write>,
) -> Result<u8, Failure> {
    check_store(store)?;
    check_owner(store)?;
    // Nothing is merged but what is asked for.
    let options = Options {
        create_if_missing: false,
        compaction_threads: 0,
        flush_on_close: true,
        ..Options::default()
    };
    let db = Db::open(store, options).map_err(|error| with_remedy(error, IN_USE))?;
    let mut families: Vec<_> = db.engine().families().into_iter().map(|info| info.family).collect();
    let records: Vec<_> = families.iter().map(|family| (family.name(), family.record())).collect();
    let names = Names::of(records.iter().map(|(name, record)| (&name[..], &record[..])));
    if let Some(wanted) = family {
        families.retain(|family| is_meant(&family.name(), wanted));
        if families.is_empty() {
            let what = format!(
                "there is no family '{wanted}' in {}; `tidesdb-admin stats` lists them: a table as DATABASE/TABLE",
                store.display()
            );
            return Err(Failure::Other(what));
        }
    }
    let mut listed = Vec::new();
    for family in &families {
        let (name, words) = (shown_name(&family.name()), names.text(&family.name()));
        // The log's part is in tables too when the sizes are compared.
        db.flush()?;
        let (before, begun) = (Size::of(&db, family), Instant::now());
        merge(&db, family, &words, &mut progress)?;
        let (after, seconds) = (Size::of(&db, family), begun.elapsed().as_secs_f64());
        out.line(format_args!(
            "{words}: {} tables of {} bytes before, {} of {} after, {seconds:.1} s",
            before.tables, before.bytes, after.tables, after.bytes
        ))?;
        // The next family may take hours.
        out.flush()?;
        listed.push(json!({
            "name": name, "before": before.json(), "after": after.json(), "seconds": seconds,
        }));
    }
    out.document(&json!({ "store": store.to_string_lossy(), "families": listed }))?;
    drop(families);
    db.close()?;
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_named_as_it_is_shown_or_by_its_table() {
        assert!(is_meant(b"fruit", "fruit") && !is_meant(b"fruits", "fruit"));
        assert!(is_meant(b"shop/item\0p", "shop/item") && is_meant(b"shop/item\0p", "shop/item\\0p"));
        assert!(!is_meant(b"shop/items\0p", "shop/item") && !is_meant(b"shop/item", "shop/item\\0p"));
    }
}
