//! Files with tables of several families. A large table has its own file; small tables share one. A file is
//! unlinked with its last live table. In a shared file a large table would keep its space after its merge for
//! as long as any small one lives; a file for each small table would cost a file operation each.

use std::sync::Arc;

use crate::error::Result;
use crate::io::File;
use crate::iter::prune::{rewrite, Counts, Rewrite};
use crate::iter::{LiveSnapshots, VersionIterator};
use crate::mutant::{self, Mutant};
use crate::table::{next_table_offset, SsTableMeta, SsTableOptions, SsTableWriter};
use crate::types::{Entry, FamilyId, FileNo, Seq};
use crate::version::{mirror, NewFile, VersionSet};

/// Table files under construction, one table after the other. The first entry of a table creates its file.
/// Dropping them before [`TableFiles::finish`] unlinks all.
pub(crate) struct TableFiles<'a> {
    versions: &'a VersionSet,
    /// Tables of at least about this size, in bytes, get their own file.
    large: u64,
    /// The file of small tables, and the end of its last table.
    shared: Option<(NewFile, Arc<dyn File>)>,
    /// The files of large tables. The last one may be without a table.
    own: Vec<(NewFile, Arc<dyn File>)>,
    /// Second copies of tables.
    mirrors: Vec<NewFile>,
}

/// The sequence number to store with an entry; `None` drops the entry.
pub(crate) type NumberEntry<'a> = dyn FnMut(&[u8], Entry<'_>) -> Result<Option<Seq>> + 'a;

/// Parameters of a rewrite into a table.
pub(crate) struct TableRules<'a> {
    /// Family of the table.
    pub family: FamilyId,
    /// The table's options.
    pub options: SsTableOptions,
    /// Approximate size in bytes.
    pub bytes: u64,
    /// True if a run below may hold the key.
    pub below: &'a mut dyn FnMut(&[u8]) -> bool,
    /// See [`Rewrite::tick`].
    pub tick: &'a mut dyn FnMut(u64) -> Result<()>,
}

impl<'a> TableFiles<'a> {
    /// Starts without files. See [`crate::flush::large_table_bound`] for `large`.
    pub fn new(versions: &'a VersionSet, large: u64) -> TableFiles<'a> {
        TableFiles { versions, large, shared: None, own: Vec::new(), mirrors: Vec::new() }
    }

    /// Writes the versions of `iter` needed by `live` as one table. Returns the table with its file, or
    /// `None` if no entry survives.
    pub fn table(
        &mut self,
        iter: &mut dyn VersionIterator,
        live: &LiveSnapshots,
        rules: TableRules<'_>,
    ) -> Result<(Option<(FileNo, SsTableMeta)>, Counts)> {
        let mut into = IntoTable { files: self, rules, writing: None };
        let counts = rewrite(iter, live, &mut into)?;
        let Some((place, writer)) = into.writing else {
            return Ok((None, counts));
        };
        let mut meta = writer.finish()?;
        self.set_end(&place, &meta);
        self.mirrors.extend(mirror::write(self.versions, &*place.file, &mut meta)?);
        Ok((Some((place.number, meta)), counts))
    }

    /// Writes `iter`, a transaction's changes of about `bytes` bytes, as one table. `number` gives each entry
    /// its sequence number or drops it. `None` if no entry is left.
    pub fn copy(
        &mut self,
        family: FamilyId,
        (options, bytes): (&SsTableOptions, u64),
        iter: &mut dyn VersionIterator,
        number: &mut NumberEntry<'_>,
    ) -> Result<Option<(FileNo, SsTableMeta)>> {
        let mut writing = None;
        iter.seek(&[])?;
        while iter.valid() {
            let entry = iter.entry();
            if let Some(seq) = number(iter.key(), entry)? {
                let (_, writer) = match &mut writing {
                    Some(writing) => writing,
                    none => {
                        let place = self.place(bytes)?;
                        let file = Arc::clone(&place.file);
                        let writer = SsTableWriter::new(file, place.offset, family, options.clone())
                            .in_format(self.versions.format())
                            .counted_by(self.versions.cache());
                        none.insert((place, writer))
                    }
                };
                writer.add_in_pieces(iter.key(), entry.with_seq(seq), iter.more())?;
            }
            iter.next()?;
        }
        let Some((place, writer)) = writing else { return Ok(None) };
        let meta = writer.finish()?;
        self.set_end(&place, &meta);
        Ok(Some((place.number, meta)))
    }

    /// Syncs the files, tables first and second copies after them. The caller syncs the directory.
    pub fn finish(mut self) -> Result<Vec<NewFile>> {
        for (_, file) in self.shared.iter().chain(&self.own).filter(|_| !mutant::is(Mutant::FlushUnsynced)) {
            file.sync_data().or_else(mutant::pass(Mutant::FlushSyncErrorIgnored))?;
            self.versions.table_files().written(&**file);
        }
        let mirrors = std::mem::take(&mut self.mirrors);
        Ok(self.finish_unsynced().into_iter().map(|(new, _)| new).chain(mirrors).collect())
    }

    /// Like [`TableFiles::finish`], for files synced later or never. None has a second copy.
    pub fn finish_unsynced(mut self) -> Vec<(NewFile, Arc<dyn File>)> {
        self.shared.take().into_iter().chain(std::mem::take(&mut self.own)).collect()
    }

    /// The place of a table of about so many bytes.
    fn place(&mut self, bytes: u64) -> Result<Place> {
        if bytes >= self.large {
            let (new, file) = self.create()?;
            self.own.push((new, Arc::clone(&file)));
            return Ok(Place { number: new.number, file, offset: 0 });
        }
        if self.shared.is_none() {
            self.shared = Some(self.create()?);
        }
        let (new, file) = self.shared.as_ref().expect("it was made above");
        Ok(Place { number: new.number, file: Arc::clone(file), offset: next_table_offset(new.len) })
    }

    fn set_end(&mut self, place: &Place, meta: &SsTableMeta) {
        let files = self.shared.iter_mut().chain(&mut self.own);
        for (new, _) in files.filter(|(new, _)| new.number == place.number) {
            new.len = meta.offset + meta.len;
        }
    }

    fn create(&self) -> Result<(NewFile, Arc<dyn File>)> {
        let number = self.versions.new_file_number();
        let file = self.versions.table_files().create(number)?;
        Ok((NewFile { number, len: 0 }, file))
    }
}

impl Drop for TableFiles<'_> {
    fn drop(&mut self) {
        let files = self.shared.take().into_iter().chain(std::mem::take(&mut self.own));
        let written = files.map(|(new, _)| new);
        written.chain(self.mirrors.drain(..)).for_each(|new| self.versions.discard_file(new.number));
    }
}

/// A table's place.
struct Place {
    number: FileNo,
    file: Arc<dyn File>,
    offset: u64,
}

struct IntoTable<'s, 'a, 'r> {
    files: &'s mut TableFiles<'a>,
    rules: TableRules<'r>,
    writing: Option<(Place, SsTableWriter)>,
}

impl Rewrite for IntoTable<'_, '_, '_> {
    fn below(&mut self, key: &[u8]) -> bool {
        (self.rules.below)(key)
    }

    fn keep(&mut self, key: &[u8], entry: Entry<'_>) -> Result<()> {
        let (_, writer) = match &mut self.writing {
            Some(writing) => writing,
            none => {
                let place = self.files.place(self.rules.bytes)?;
                let (file, options) = (Arc::clone(&place.file), self.rules.options.clone());
                let writer = SsTableWriter::new(file, place.offset, self.rules.family, options);
                let versions = self.files.versions;
                let has_copies = versions.table_files().is_direct();
                let writer = writer.in_format(versions.format());
                let writer = writer.caching(versions.cache(), place.number, has_copies);
                none.insert((place, writer))
            }
        };
        writer.add(key, entry)
    }

    fn tick(&mut self, bytes: u64) -> Result<()> {
        (self.rules.tick)(bytes)
    }
}
