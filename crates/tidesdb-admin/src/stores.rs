//! Whether a store is whole, a copy of what is left of it, and the end of a log that lost files.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tidesdb::internal::backup::{self, StoreCheck, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::Disk;

use crate::output::{Failure, Out};
use crate::{DONE, LEFT_OUT};

/// Prints what was found, and how to go on.
fn tell(store: &Path, check: &StoreCheck, none: &str, some: &str, out: &mut Out<'_>) -> Result<u8, Failure> {
    out.document(&json!({
        "store": store.to_string_lossy(), "tables": check.tables, "bytes": check.bytes, "damage": check.damage,
    }))?;
    out.line(format_args!("tables: {}, {} bytes", check.tables, check.bytes))?;
    if check.damage.is_empty() {
        out.line(none)?;
        return Ok(DONE);
    }
    out.line(some)?;
    for line in &check.damage {
        out.line(format_args!("  {line}"))?;
    }
    Ok(LEFT_OUT)
}

/// Lists what is damaged in a store.
pub fn verify(disk: &Arc<dyn Disk>, store: &Path, out: &mut Out<'_>) -> Result<u8, Failure> {
    let check = backup::verify_store(disk, store, Watch::NONE)?;
    let some = "damaged (`tidesdb-admin repair` copies the rest; a table can be dropped, or restored from a backup):";
    tell(store, &check, "whole", some, out)
}

/// Copies what can be read.
pub fn repair(disk: &Arc<dyn Disk>, from: &Path, to: &Path, out: &mut Out<'_>) -> Result<u8, Failure> {
    let check = backup::repair(disk, from, to, Watch::NONE)?;
    out.line(format_args!("{}: copied into {}", from.display(), to.display()))?;
    let some = "left out (rows in these places are missing, or as they were before their last changes):";
    tell(to, &check, "nothing is left out", some, out)
}

/// Ends the log before its first missing file.
pub fn give_up_log(disk: Arc<dyn Disk>, store: &Path, out: &mut Out<'_>) -> Result<u8, Failure> {
    let lost = Db::give_up_log(disk, store)?;
    let missing = lost.missing.iter().map(|segment| json!({ "file": segment.file, "segment": segment.id }));
    out.document(&json!({
        "store": store.to_string_lossy(),
        "missing": missing.collect::<Vec<_>>(),
        "not_read_any_more": lost.set_aside.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "kept_upto_segment": lost.kept_upto,
    }))?;
    for segment in &lost.missing {
        out.line(format_args!("missing: wal/{:06}.wal, segment {}", segment.file, segment.id))?;
    }
    for path in &lost.set_aside {
        out.line(format_args!("not read any more: {}", path.display()))?;
    }
    match lost.kept_upto {
        Some(id) => out.line(format_args!("{}: the log ends with segment {id}", store.display()))?,
        None => out.line(format_args!("{}: nothing of the log is kept", store.display()))?,
    }
    Ok(DONE)
}
