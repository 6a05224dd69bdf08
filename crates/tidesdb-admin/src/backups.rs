//! Backups: shown, verified, restored.

use std::path::Path;
use std::sync::Arc;

use serde_json::{json, Map, Value};
use tidesdb::internal::backup::{restore, verify, BackupInfo, Watch};
use tidesdb::internal::io::Disk;
use tidesdb::Error;

use crate::cli::{Backup, OneTable};
use crate::home::store_of;
use crate::moment::utc;
use crate::one_table::{self, TableName, Wanted};
use crate::output::{Failure, Out};
use crate::DONE;

fn describe(info: &BackupInfo, restored: Option<&Path>, out: &mut Out<'_>) -> Result<(), Failure> {
    let notes = info.notes.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
    let mut document = json!({
        "tables": if info.links { "links" } else { "copies" },
        "sequence": info.seq,
        "files": info.files.len(),
        "bytes": info.bytes(),
        "begun": info.begun,
        "finished": info.finished,
        "notes": notes.collect::<Map<_, _>>(),
    });
    if let Some(store) = restored {
        document["store"] = store.to_string_lossy().into();
    }
    out.document(&document)?;
    out.line(format_args!("tables: {}", if info.links { "links" } else { "copies" }))?;
    out.line(format_args!("sequence: {}", info.seq))?;
    out.line(format_args!("files: {}, {} bytes", info.files.len(), info.bytes()))?;
    out.line(format_args!("begun: {}, finished: {}", utc(info.begun), utc(info.finished)))?;
    for (name, value) in &info.notes {
        out.line(format_args!("{name}: {value}"))?;
    }
    Ok(())
}

fn restore_table(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    table: &TableName,
    one: &OneTable,
    out: &mut Out<'_>,
) -> Result<u8, Failure> {
    let wanted = Wanted {
        backup: dir,
        table,
        new_name: one.new_name.as_ref().unwrap_or(table),
        server: one.login.address(),
        scratch: one.scratch.as_deref(),
    };
    one_table::run(disk, &wanted, out)
}

/// Runs a command.
pub fn run(disk: &Arc<dyn Disk>, command: Backup, out: &mut Out<'_>) -> Result<u8, Failure> {
    match command {
        Backup::Show { dir } => describe(&BackupInfo::read(&**disk, &dir)?, None, out)?,
        Backup::Verify { dir } => {
            let info = verify(disk, &dir, Watch::NONE)?;
            out.line(format_args!("{}: whole", dir.display()))?;
            describe(&info, None, out)?;
        }
        Backup::Restore { dir, store, data_dir, one } => {
            if let Some(table) = &one.table {
                return restore_table(disk, &dir, table, &one, out);
            }
            let store = match (store, &data_dir) {
                (Some(store), _) => store,
                (None, Some(data)) => store_of(data)?,
                (None, None) => {
                    return Err(Error::InvalidArgument("neither --store nor --data-dir".into()).into())
                }
            };
            let info = restore(disk, &dir, &store, data_dir.as_deref(), Watch::NONE)?;
            out.line(format_args!("{}: restored into {}", dir.display(), store.display()))?;
            describe(&info, Some(&store), out)?;
        }
    }
    Ok(DONE)
}
