//! Files of a store record by record. They are only read; a store in use is read as it is, with a note.

mod manifest;
mod table;
pub mod wal;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidesdb::internal::backup::{family_records, lock_for_reading};
use tidesdb::internal::io::{DirectoryLock, Disk};
use tidesdb::internal::types::{FamilyId, DICTIONARY};

use crate::cli::{Dump, Shown};
use crate::home::store_at;
use crate::names::Names;
use crate::output::{shown_name, Failure, Form, Out};
use crate::{DAMAGED, DONE};

impl Shown {
    fn form(&self) -> Form {
        Form { hex: self.hex, width: self.width }
    }
}

/// The store around a file, for facts missing in the file alone.
struct Around {
    dir: Option<PathBuf>,
    names: BTreeMap<FamilyId, String>,
    /// The same as tables and indexes, where they are a server's.
    words: BTreeMap<FamilyId, String>,
    /// Keeps writers away meanwhile.
    _lock: Option<Box<dyn DirectoryLock>>,
}

impl Around {
    /// The store in `dir`, if there is one. A failure to lock it is noted on `err`.
    fn of(disk: &Arc<dyn Disk>, dir: &Path, err: &mut dyn Write) -> Around {
        if !dir.join("CURRENT").is_file() {
            return Around { dir: None, names: BTreeMap::new(), words: BTreeMap::new(), _lock: None };
        }
        let lock = match lock_for_reading(disk, dir) {
            Ok(lock) => Some(lock),
            Err(error) => {
                let _ = writeln!(err, "tidesdb-admin: note: {error}; the store may change during the dump");
                None
            }
        };
        // Without them the numbers do.
        let families = family_records(disk, dir).unwrap_or_default();
        let known = Names::of(families.values().map(|(name, record)| (&name[..], &record[..])));
        let words = families.iter().map(|(id, (name, _))| (*id, known.text(name))).collect();
        let names = families.into_iter().map(|(id, (name, _))| (id, shown_name(&name))).collect();
        Around { dir: Some(dir.to_path_buf()), names, words, _lock: lock }
    }

    /// A family in words.
    fn family(&self, id: FamilyId) -> String {
        match self.words.get(&id) {
            Some(words) => format!("{words} ({id})"),
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

/// Refuses a path other than a file's, before its name is looked at.
fn check_file(path: &Path) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(Failure::Other(format!("{} is not a file", path.display()))),
        Err(error) => Err(Failure::Other(format!("{}: {error}", path.display()))),
    }
}

/// The most listed places of damage. A file may have one in each of its blocks.
const MOST_LISTED: usize = 1000;

/// Damage, listed at a dump's end.
#[derive(Default)]
struct Damage {
    listed: Vec<String>,
    /// Places beyond [`MOST_LISTED`].
    more: u64,
}

impl Damage {
    /// Adds a place. The same one again does not count.
    fn add(&mut self, what: String) {
        if self.listed.contains(&what) {
            return;
        }
        match self.listed.len() < MOST_LISTED {
            true => self.listed.push(what),
            false => self.more += 1,
        }
    }

    fn count(&self) -> u64 {
        self.listed.len() as u64 + self.more
    }

    /// Tells damage, and the exit status.
    fn conclude(self, out: &mut Out<'_>) -> Result<u8, Failure> {
        let more = (self.more > 0).then(|| format!("{} more places", self.more));
        for line in self.listed.iter().chain(&more) {
            out.line(format_args!("damage: {line}"))?;
            out.object(&serde_json::json!({ "damage": line }))?;
        }
        Ok(if self.listed.is_empty() { DONE } else { DAMAGED })
    }
}

/// Runs a command.
pub fn run(
    disk: &Arc<dyn Disk>,
    command: Dump,
    out: &mut Out<'_>,
    err: &mut dyn Write,
) -> Result<u8, Failure> {
    match command {
        Dump::Manifest { path, from, shown } => manifest::run(disk, &store_at(path), from, &shown, out, err),
        Dump::Wal { path, from, shown } => wal::run(disk, &store_at(path), from, &shown, out, err),
        Dump::Table { file, from, to, no_entries, no_index, shown } => {
            let bounds = table::Bounds { from: from.map(|key| key.0), to: to.map(|key| key.0) };
            let parts = table::Parts { index: !no_index, entries: !no_entries };
            table::run(disk, &file, &bounds, parts, &shown, out, err)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_listed_once_and_its_list_is_bounded() {
        let mut damage = Damage::default();
        for n in 0..MOST_LISTED + 2 {
            damage.add(format!("place {n}"));
            damage.add("place 0".into());
        }
        let mut bytes = Vec::new();
        assert_eq!(damage.count(), MOST_LISTED as u64 + 2);
        let status = damage.conclude(&mut Out::new(&mut bytes, false, true)).expect("writes");
        let text = String::from_utf8(bytes).expect("text");
        assert_eq!((status, text.lines().count()), (DAMAGED, MOST_LISTED + 1));
        assert!(text.ends_with("damage: 2 more places\n"), "{text}");
    }
}
