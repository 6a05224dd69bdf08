//! Backups: shown, verified, restored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{json, Map, Value};
use tidesdb::internal::backup::{restore, verify, BackupInfo, Watch};
use tidesdb::internal::io::Disk;
use tidesdb::Error;

use crate::cli::Backup;
use crate::moment::utc;
use crate::output::{Failure, Out};
use crate::DONE;

/// Name of a store's directory in a server's data directory, and next to one.
const INSIDE: &str = "#tidesdb";
const BESIDE: &str = "tidesdb_data";

/// Where a server on `data` without `tidesdb_data_home_dir` has its store.
fn store_of(data: &Path) -> tidesdb::Result<PathBuf> {
    let data = data.canonicalize().map_err(|e| Error::io("realpath", data, e))?;
    let inside = data.join(INSIDE);
    Ok(match (inside.is_dir(), data.parent()) {
        (false, Some(parent)) => parent.join(BESIDE),
        _ => inside,
    })
}

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

/// Runs a command.
pub fn run(disk: &Arc<dyn Disk>, command: Backup, out: &mut Out<'_>) -> Result<u8, Failure> {
    match command {
        Backup::Show { dir } => describe(&BackupInfo::read(&**disk, &dir)?, None, out)?,
        Backup::Verify { dir } => {
            let info = verify(disk, &dir, Watch::NONE)?;
            out.line(format_args!("{}: whole", dir.display()))?;
            describe(&info, None, out)?;
        }
        Backup::Restore { dir, store, data_dir } => {
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
