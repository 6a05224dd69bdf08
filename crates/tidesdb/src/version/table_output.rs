//! A table on its way into a file of its own: an output of a merge, or a table of a load.

use std::sync::Arc;

use crate::error::Result;
use crate::io::File;
use crate::table::{SsTableMeta, SsTableOptions, SsTableWriter};
use crate::types::{FamilyId, FileNo};
use crate::version::VersionSet;

/// A file with one table, open for writing. Its owner discards the file ([`VersionSet::discard_file`]) when it gives the
/// table up.
pub(crate) struct TableOutput {
    /// The file's number.
    pub number: FileNo,
    file: Arc<dyn File>,
    /// Takes the entries.
    pub writer: SsTableWriter,
}

impl TableOutput {
    /// Creates the file. After an error nothing is left over.
    pub fn create(versions: &VersionSet, family: FamilyId, options: &SsTableOptions) -> Result<TableOutput> {
        let number = versions.new_file_number();
        let file = versions.table_files().create(number);
        let file = file.inspect_err(|_| versions.discard_file(number))?;
        let writer = SsTableWriter::new(Arc::clone(&file), 0, family, options.clone())
            .in_format(versions.format())
            .caching(versions.cache(), number, versions.table_files().is_direct());
        Ok(TableOutput { number, file, writer })
    }

    /// Ends the table. The caller syncs the file.
    pub fn finish(self) -> Result<(Arc<dyn File>, SsTableMeta)> {
        let meta = self.writer.finish()?;
        Ok((self.file, meta))
    }
}
