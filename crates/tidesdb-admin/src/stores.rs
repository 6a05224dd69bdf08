//! Verification of a store, a copy of its readable rest, and the end of a log with lost files.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tidesdb::internal::backup::{self, StoreCheck, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::Disk;

use crate::connection::quoted;
use crate::names::Names;
use crate::output::{Failure, Out};
use crate::{DONE, LEFT_OUT};

/// Prints the findings, and the way to go on.
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

/// Lists the damage of a store.
pub fn verify(disk: &Arc<dyn Disk>, store: &Path, out: &mut Out<'_>) -> Result<u8, Failure> {
    let check = backup::verify_store(disk, store, Watch::NONE)?;
    let some = "damaged (`tidesdb-admin repair` copies the rest; a table can be dropped, or restored from a backup):";
    tell(store, &check, "whole", some, out)
}

/// Copies the readable parts.
pub fn repair(disk: &Arc<dyn Disk>, from: &Path, to: &Path, out: &mut Out<'_>) -> Result<u8, Failure> {
    let check = backup::repair(disk, from, to, Watch::NONE)?;
    out.line(format_args!("{}: copied into {}", from.display(), to.display()))?;
    let some = "left out (rows in these places are missing, or as they were before their last changes):";
    let status = tell(to, &check, "nothing is left out", some, out)?;
    for line in after_repair(&check) {
        out.line(line)?;
    }
    Ok(status)
}

/// The next steps of the server's owner with the copy. A row's entries in indexes are in other families than
/// the row.
fn after_repair(check: &StoreCheck) -> Vec<String> {
    let tables: BTreeSet<String> = check.families.iter().filter_map(|family| table_of(family)).collect();
    let mut lines = Vec::new();
    if !tables.is_empty() {
        lines.push("then, on the server with the copy (indexes may not fit the rows before):".to_string());
        lines.extend(tables.into_iter().map(|table| format!("  REPAIR TABLE {table};")));
    }
    if check.is_log_cut {
        lines.push(
            "the log is cut: any table may lack changes that its indexes have, or have them alone;".into(),
        );
        lines.push("  on the server with the copy: mariadb-check --all-databases --auto-repair".into());
    }
    lines
}

/// The server's table of a family, as named in a statement. `None`: no server's, or one in the making by an
/// ALTER.
fn table_of(family: &str) -> Option<String> {
    let part = Names::default().part(family.as_bytes()).filter(|part| !part.table.starts_with("#sql"))?;
    Some(format!("{}.{}", quoted(&part.database), quoted(&part.table)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_names_the_tables_whose_indexes_may_not_fit() {
        let families =
            ["shop/t\0p", "shop/t\0i\0\0\0\x01", "shop/a@0020b@002d#P#p0\0p", "shop/#sql-1\0p", "fruit"];
        let check = StoreCheck { families: families.map(String::from).into(), ..StoreCheck::default() };
        let lines = after_repair(&check);
        assert_eq!(lines[1..], ["  REPAIR TABLE `shop`.`a b-`;", "  REPAIR TABLE `shop`.`t`;"]);
        assert!(after_repair(&StoreCheck::default()).is_empty());
        let cut = after_repair(&StoreCheck { is_log_cut: true, ..StoreCheck::default() });
        assert!(cut[1].contains("--auto-repair"), "{cut:?}");
    }
}
