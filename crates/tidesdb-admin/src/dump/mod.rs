//! Files of a store record by record. They are only read; a store in use is read as it is, with a note.

mod manifest;
mod table;
pub mod wal;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb::internal::backup::{family_names, lock_for_reading};
use tidesdb::internal::io::{DirectoryLock, Disk};
use tidesdb::internal::types::{FamilyId, DICTIONARY};

use crate::cli::{Dump, Shown};
use crate::output::{shown_name, Failure, Form, Out};
use crate::{DAMAGED, DONE};

impl Shown {
    fn form(&self) -> Form {
        Form { hex: self.hex, width: self.width }
    }
}

/// The store around a file, for what the file alone does not tell.
struct Around {
    dir: Option<PathBuf>,
    names: BTreeMap<FamilyId, String>,
    /// Keeps writers away meanwhile.
    _lock: Option<Box<dyn DirectoryLock>>,
}

impl Around {
    /// The store in `dir`, if there is one. One in use is noted on `err`.
    fn of(disk: &Arc<dyn Disk>, dir: &Path, err: &mut dyn Write) -> Around {
        if !dir.join("CURRENT").is_file() {
            return Around { dir: None, names: BTreeMap::new(), _lock: None };
        }
        let lock = match lock_for_reading(disk, dir) {
            Ok(lock) => Some(lock),
            Err(error) => {
                let _ = writeln!(err, "tidesdb-admin: note: {error}; what is read changes meanwhile");
                None
            }
        };
        let names = match &lock {
            Some(_) => {
                let names = family_names(disk, dir).unwrap_or_default();
                names.into_iter().map(|(id, name)| (id, shown_name(name.as_bytes()))).collect()
            }
            None => BTreeMap::new(),
        };
        Around { dir: Some(dir.to_path_buf()), names, _lock: lock }
    }

    /// A family in words.
    fn family(&self, id: FamilyId) -> String {
        match self.names.get(&id) {
            Some(name) => format!("'{name}' ({id})"),
            None if id == DICTIONARY => "the dictionary".into(),
            None => format!("family {id}"),
        }
    }

    fn name(&self, id: FamilyId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }
}

/// The directory of a file, `.` for a bare name.
fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Tells damage, and the exit status.
fn conclude(damage: &[String], out: &mut Out<'_>) -> Result<u8, Failure> {
    for line in damage {
        out.line(format_args!("damage: {line}"))?;
        out.object(&serde_json::json!({ "damage": line }))?;
    }
    Ok(if damage.is_empty() { DONE } else { DAMAGED })
}

/// Runs a command.
pub fn run(
    disk: &Arc<dyn Disk>,
    command: Dump,
    out: &mut Out<'_>,
    err: &mut dyn Write,
) -> Result<u8, Failure> {
    match command {
        Dump::Manifest { path, from, shown } => manifest::run(disk, &path, from, &shown, out, err),
        Dump::Wal { path, from, shown } => wal::run(disk, &path, from, &shown, out, err),
        Dump::Table { file, from, to, no_entries, no_index, shown } => {
            let bounds = table::Bounds { from: from.map(|key| key.0), to: to.map(|key| key.0) };
            let parts = table::Parts { index: !no_index, entries: !no_entries };
            table::run(disk, &file, &bounds, parts, &shown, out, err)
        }
    }
}
