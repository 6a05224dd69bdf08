//! A table file with a page-aligned table for each of several families.

use std::sync::Arc;

use crate::error::Result;
use crate::io::{File, OpenMode};
use crate::iter::prune::{rewrite, Counts, Rewrite};
use crate::iter::{LiveSnapshots, VersionIterator};
use crate::table::{next_table_offset, SsTableMeta, SsTableOptions, SsTableWriter};
use crate::types::{Entry, FamilyId, FileNo, Seq};
use crate::version::{twin, NewFile, VersionSet};

/// A file that is being written, one table after the other. Made on disk with the first entry; unlinked
/// when dropped before [`SharedFile::finish`].
pub(crate) struct SharedFile<'a> {
    versions: &'a VersionSet,
    open: Option<(FileNo, Arc<dyn File>)>,
    end: u64,
    /// Second copies of its tables.
    twins: Vec<NewFile>,
}

/// The sequence number to store with an entry; `None` leaves it out.
pub(crate) type NumberEntry<'a> = dyn FnMut(&[u8], Entry<'_>) -> Result<Option<Seq>> + 'a;

/// Tells a rewrite into a table what it asks.
pub(crate) struct TableRules<'a> {
    /// Family of the table.
    pub family: FamilyId,
    /// Its shape.
    pub options: SsTableOptions,
    /// Whether a run below may hold a key.
    pub below: &'a mut dyn FnMut(&[u8]) -> bool,
    /// See [`Rewrite::tick`].
    pub tick: &'a mut dyn FnMut(u64) -> Result<()>,
}

impl<'a> SharedFile<'a> {
    pub fn new(versions: &'a VersionSet) -> SharedFile<'a> {
        SharedFile { versions, open: None, end: 0, twins: Vec::new() }
    }

    /// The number of the file, once it has a table.
    pub fn number(&self) -> Option<FileNo> {
        self.open.as_ref().map(|(number, _)| *number)
    }

    /// Writes what `live` needs of `iter` as one table; `None` if that is nothing.
    pub fn table(
        &mut self,
        iter: &mut dyn VersionIterator,
        live: &LiveSnapshots,
        rules: TableRules<'_>,
    ) -> Result<(Option<SsTableMeta>, Counts)> {
        let mut into = IntoTable { shared: self, rules, writer: None };
        let counts = rewrite(iter, live, &mut into)?;
        let Some(writer) = into.writer else {
            return Ok((None, counts));
        };
        let mut meta = writer.finish()?;
        self.end = meta.offset + meta.len;
        let (_, file) = self.file()?;
        self.twins.extend(twin::write(self.versions, &*file, &mut meta)?);
        Ok((Some(meta), counts))
    }

    /// Writes `iter` as one table, each entry with the sequence number that `number` gives it; those
    /// without one are left out. `None` if nothing is left.
    pub fn copy(
        &mut self,
        family: FamilyId,
        options: &SsTableOptions,
        iter: &mut dyn VersionIterator,
        number: &mut NumberEntry<'_>,
    ) -> Result<Option<SsTableMeta>> {
        let mut writer = None;
        iter.seek(&[])?;
        while iter.valid() {
            let entry = iter.entry();
            if let Some(seq) = number(iter.key(), entry)? {
                let writer = match &mut writer {
                    Some(writer) => writer,
                    none => {
                        let ((_, file), offset) = (self.file()?, next_table_offset(self.end));
                        none.insert(SsTableWriter::new(file, offset, family, options.clone()))
                    }
                };
                writer.add(iter.key(), Entry { seq, ..entry })?;
            }
            iter.next()?;
        }
        let Some(writer) = writer else { return Ok(None) };
        let meta = writer.finish()?;
        self.end = meta.offset + meta.len;
        Ok(Some(meta))
    }

    /// Syncs the file; `None` if it has no table. Syncing the directory is the caller's.
    pub fn finish(self) -> Result<Option<NewFile>> {
        if let Some((_, file)) = &self.open {
            file.sync_data()?;
        }
        Ok(self.finish_unsynced().map(|(new, _)| new))
    }

    /// As [`SharedFile::finish`]; the file, then the second copies of its tables.
    pub fn finish_all(mut self) -> Result<Vec<NewFile>> {
        if let Some((_, file)) = &self.open {
            file.sync_data()?;
        }
        let twins = std::mem::take(&mut self.twins);
        Ok(self.finish_unsynced().map(|(new, _)| new).into_iter().chain(twins).collect())
    }

    /// As [`SharedFile::finish`], for a file that is synced later, or never.
    pub fn finish_unsynced(mut self) -> Option<(NewFile, Arc<dyn File>)> {
        let (number, file) = self.open.take()?;
        Some((NewFile { number, len: self.end }, file))
    }

    fn file(&mut self) -> Result<(FileNo, Arc<dyn File>)> {
        if let Some(open) = &self.open {
            return Ok(open.clone());
        }
        let number = self.versions.new_file_number();
        let file = self.versions.disk().open(&self.versions.table_files().path(number), OpenMode::Create)?;
        self.open = Some((number, Arc::clone(&file)));
        Ok((number, file))
    }
}

impl Drop for SharedFile<'_> {
    fn drop(&mut self) {
        if let Some((number, file)) = self.open.take() {
            drop(file);
            self.versions.discard_file(number);
        }
        self.twins.iter().for_each(|twin| self.versions.discard_file(twin.number));
    }
}

struct IntoTable<'s, 'a, 'r> {
    shared: &'s mut SharedFile<'a>,
    rules: TableRules<'r>,
    writer: Option<SsTableWriter>,
}

impl Rewrite for IntoTable<'_, '_, '_> {
    fn below(&mut self, key: &[u8]) -> bool {
        (self.rules.below)(key)
    }

    fn keep(&mut self, key: &[u8], entry: Entry<'_>) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let ((number, file), offset) = (self.shared.file()?, next_table_offset(self.shared.end));
                let options = self.rules.options.clone();
                let writer = SsTableWriter::new(file, offset, self.rules.family, options);
                none.insert(writer.caching(self.shared.versions.cache(), number))
            }
        };
        writer.add(key, entry)
    }

    fn tick(&mut self, bytes: u64) -> Result<()> {
        (self.rules.tick)(bytes)
    }
}
