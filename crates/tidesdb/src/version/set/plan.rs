//! Plans: the effects of an edit on versions and files. Also the replay of a manifest's edits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::obsolete::ObsoleteFiles;
use super::StoreState;
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::host::HashMap;
use crate::io::Disk;
use crate::options::FormatVersion;
use crate::table::{SsTable, TableStore};
use crate::types::{FamilyId, FileNo};
use crate::values::ValueFiles;
use crate::version::edit::Edit;
use crate::version::manifest;
use crate::version::{Change, LiveFile, TableHandle, Version};

/// A live file.
pub(super) struct FileRecord {
    pub(super) file: Arc<LiveFile>,
    /// Bytes of each family's table.
    pub(super) tables: BTreeMap<FamilyId, u64>,
}

/// The checked effects of an edit on versions and files, not yet installed.
pub(super) struct Plan {
    pub(super) version: Version,
    new_files: Vec<Arc<LiveFile>>,
    /// Tables removed from files, then tables added to files.
    removed: Vec<(FileNo, FamilyId)>,
    added: Vec<(FileNo, FamilyId, u64)>,
    /// Files without a live table after the edit.
    pub(super) dead: Vec<FileNo>,
}

impl Plan {
    pub(super) fn install(&self, files: &mut HashMap<FileNo, FileRecord>) {
        for file in &self.new_files {
            files.insert(file.number(), FileRecord { file: Arc::clone(file), tables: BTreeMap::new() });
        }
        for (number, family) in &self.removed {
            if let Some(record) = files.get_mut(number) {
                record.tables.remove(family);
            }
        }
        for (number, family, len) in &self.added {
            if let Some(record) = files.get_mut(number) {
                record.tables.insert(*family, *len);
            }
        }
        for number in &self.dead {
            if let Some(record) = files.remove(number) {
                record.file.set_obsolete();
            }
        }
    }
}

/// The parts needed to open the files and tables of an edit.
pub(super) struct Opening<'a> {
    pub(super) pinned: &'a HashMap<FileNo, Arc<LiveFile>>,
    pub(super) tables: &'a Arc<TableStore>,
    pub(super) values: &'a Arc<ValueFiles>,
    pub(super) cache: &'a Arc<BlockCache>,
    pub(super) obsolete: &'a Arc<ObsoleteFiles>,
}

pub(super) fn plan(
    current: &Version,
    files: &HashMap<FileNo, FileRecord>,
    edit: &Edit,
    open: &Opening<'_>,
) -> std::result::Result<Plan, String> {
    let mut changes: BTreeMap<FamilyId, Change> = BTreeMap::new();
    let mut removed = Vec::new();
    for &family in &edit.dropped_families {
        changes.entry(family).or_default().dropped = true;
        let levels = current.family(family);
        let files = levels.iter().flat_map(|l| l.tables()).flat_map(|(_, table)| table.files());
        removed.extend(files.map(|file| (file, family)));
    }
    for &(family, file) in &edit.removed_tables {
        changes.entry(family).or_default().removed.push(file);
        let levels = current.family(family);
        let table = levels.iter().flat_map(|l| l.tables()).find(|(_, table)| table.file.number() == file);
        match table {
            Some((_, table)) => removed.extend(table.files().map(|file| (file, family))),
            None => removed.push((file, family)),
        }
    }
    let mut new_files = HashMap::default();
    for file in &edit.new_files {
        let pinned = open.pinned.get(&file.number).cloned();
        let live = pinned.unwrap_or_else(|| LiveFile::new(file.number, file.len, open.obsolete));
        if files.contains_key(&file.number) || new_files.insert(file.number, live).is_some() {
            return Err(format!("file {} is added twice", file.number));
        }
    }
    let mut added = Vec::new();
    for new in &edit.new_tables {
        let file = |number: FileNo| {
            let file = files.get(&number).map(|record| &record.file).or_else(|| new_files.get(&number));
            file.cloned().ok_or_else(|| format!("there is no file {number}"))
        };
        let mirror = Some(new.meta.mirror).filter(|&mirror| mirror != 0).map(file).transpose()?;
        let file = file(new.file)?;
        if let Some(mirror) = &mirror {
            if mirror.len() != new.meta.len {
                return Err(format!(
                    "file {} is no copy of a table of family {}",
                    mirror.number(),
                    new.meta.family
                ));
            }
            added.push((mirror.number(), new.meta.family, new.meta.len));
        }
        if new.meta.offset + new.meta.len > file.len() {
            return Err(format!("a table of family {} ends past file {}", new.meta.family, new.file));
        }
        // A file that the manifest does not name costs its values, which a reader is told.
        let values = new.meta.values.iter().filter_map(|of| open.values.hold(of.file)).collect();
        let table =
            SsTable::open(Arc::clone(open.tables), Arc::clone(open.cache), new.file, new.meta.clone());
        added.push((new.file, new.meta.family, new.meta.len));
        let change = changes.entry(new.meta.family).or_default();
        let handle = TableHandle { table, file, mirror, generation: new.generation, values };
        change.added.push((new.level, handle));
    }
    for (family, level, key) in &edit.cursors {
        changes.entry(*family).or_default().cursors.push((*level, key.clone()));
    }
    let version = current.edited(changes, edit)?;

    let mut live: HashMap<FileNo, i64> = HashMap::default();
    removed.iter().for_each(|(file, _)| *live.entry(*file).or_default() -= 1);
    added.iter().for_each(|(file, _, _)| *live.entry(*file).or_default() += 1);
    let tables = |file: &FileNo| files.get(file).map_or(0, |record| record.tables.len() as i64);
    let mut dead: Vec<FileNo> =
        live.iter().filter(|(file, change)| tables(file) + **change <= 0).map(|(file, _)| *file).collect();
    dead.sort_unstable();
    Ok(Plan { version, new_files: new_files.into_values().collect(), removed, added, dead })
}

/// A manifest in replay, before it becomes the state of a version set.
pub(super) struct Replay<'a> {
    pub(super) version: Version,
    pub(super) state: StoreState,
    pub(super) files: HashMap<FileNo, FileRecord>,
    pub(super) next_file: FileNo,
    pub(super) tables: &'a Arc<TableStore>,
    pub(super) values: &'a Arc<ValueFiles>,
    pub(super) cache: &'a Arc<BlockCache>,
    pub(super) obsolete: &'a Arc<ObsoleteFiles>,
}

impl Replay<'_> {
    /// Applies all edits of a manifest, and returns the version of its format.
    pub(super) fn read(&mut self, disk: &dyn Disk, dir: &Path, number: FileNo) -> Result<FormatVersion> {
        let path = dir.join(manifest::manifest_name(number));
        let (format, edits) = manifest::read_manifest(disk, dir, number)?;
        for (ordinal, edit) in edits.iter().enumerate() {
            self.apply(edit)
                .map_err(|e| Error::corruption(&path, 0, format!("edit {ordinal} does not fit: {e}")))?;
        }
        Ok(format)
    }

    fn apply(&mut self, edit: &Edit) -> std::result::Result<(), String> {
        let (tables, values, cache, obsolete) = (self.tables, self.values, self.cache, self.obsolete);
        edit.value_files.iter().for_each(|&number| values.note_named(number));
        let open = Opening { pinned: &HashMap::default(), tables, values, cache, obsolete };
        let plan = plan(&self.version, &self.files, edit, &open)?;
        if plan.dead != edit.deleted_files {
            return Err(format!("it deletes {:?} and leaves {:?} empty", edit.deleted_files, plan.dead));
        }
        // What an earlier epoch unlinked is not queued again: files are taken out before they are obsolete.
        for number in &plan.dead {
            self.files.remove(number);
        }
        plan.install(&mut self.files);
        edit.ended_value_files.iter().for_each(|&number| values.note_ended(number));
        self.state.apply(edit);
        self.next_file = self.next_file.max(edit.next_file.unwrap_or(0));
        self.version = plan.version;
        self.version.number = 0;
        Ok(())
    }
}
