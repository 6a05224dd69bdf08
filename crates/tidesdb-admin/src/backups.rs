//! Backups: shown, verified, restored. `take` takes them.

use std::fs;
use std::path::{Path, PathBuf};
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
use crate::rest::{self, DUMP, FILES};
use crate::store_backup::store_part;
use crate::take;
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
        "shared_bytes": info.shared_bytes,
        "left_out": info.left_out.iter().map(|left_out| json!({
            "file": left_out.file, "family": left_out.family,
        })).collect::<Vec<_>>(),
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
    if info.shared_bytes > 0 {
        out.line(format_args!("shared with an earlier backup: {} bytes", info.shared_bytes))?;
    }
    for left_out in &info.left_out {
        let family = left_out.family.escape_debug();
        out.line(format_args!("damaged, and left out: {}, of '{family}'", left_out.file))?;
    }
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

/// Restores everything.
fn restore_all(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    store: Option<PathBuf>,
    data: Option<&Path>,
    out: &mut Out<'_>,
) -> Result<(), Failure> {
    let ours = store_part(dir);
    let others = rest::verify(dir)?;
    let files = dir.join(FILES);
    if let (Some(FILES), Some(data)) = (others, data) {
        let is_free = fs::read_dir(data).map_or(true, |mut entries| entries.next().is_none());
        if is_free {
            rest::copy_back(&files, data)?;
            out.line(format_args!("{}: copied into {}", files.display(), data.display()))?;
        }
        if !data.join("mysql").is_dir() {
            return Err(Failure::Other(format!(
                "{} has no `mysql`: the other engines' files come first. An empty directory gets them by this command, \
                 any other one by mariadb-backup --copy-back --target-dir={}",
                data.display(),
                files.display()
            )));
        }
    }
    let store = match (store, data) {
        (Some(store), _) => store,
        (None, Some(data)) => store_of(data)?,
        (None, None) => return Err(Error::InvalidArgument("neither --store nor --data-dir".into()).into()),
    };
    let info = restore(disk, &ours, &store, data, Watch::NONE)?;
    out.line(format_args!("{}: restored into {}", ours.display(), store.display()))?;
    describe(&info, Some(&store), out)?;
    if others == Some(DUMP) {
        out.line(format_args!("then, with the server started: mariadb < {}", dir.join(DUMP).display()))?;
    }
    Ok(())
}

/// Runs a command.
pub fn run(disk: &Arc<dyn Disk>, command: Backup, out: &mut Out<'_>) -> Result<u8, Failure> {
    match command {
        // It needs a server: `take`.
        Backup::Take(wanted) => return take::run(&wanted, out, None),
        Backup::Show { dir } => describe(&BackupInfo::read(&**disk, &store_part(&dir))?, None, out)?,
        Backup::Verify { dir } => {
            let ours = store_part(&dir);
            let others = rest::verify(&dir)?;
            let info = verify(disk, &ours, Watch::NONE)?;
            if let Some(name) = others {
                out.line(format_args!("{}: complete", dir.join(name).display()))?;
            }
            let but = if info.left_out.is_empty() { "" } else { ", but for damaged tables" };
            out.line(format_args!("{}: whole{but}", ours.display()))?;
            describe(&info, None, out)?;
        }
        Backup::Restore { dir, store, data_dir, one } => match &one.table {
            Some(table) => return restore_table(disk, &store_part(&dir), table, &one, out),
            None => restore_all(disk, &dir, store, data_dir.as_deref(), out)?,
        },
    }
    Ok(DONE)
}
