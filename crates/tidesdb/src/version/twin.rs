//! The second copy of the dictionary's tables. Without the dictionary nobody knows which table a family is, so that each
//! table of family 0 stands in two files, byte for byte the same; a reader takes a block that one copy does not give from
//! the other. Written with the table by flushes, merges and rewrites; the manifest names both, and they go together.

use crate::error::Result;
use crate::io::File;
use crate::table::SsTableMeta;
use crate::types::{FamilyId, DICTIONARY};
use crate::version::{NewFile, VersionSet};

/// Bytes copied at once.
const CHUNK: u64 = 256 << 10;

/// Whether the tables of a family are kept twice.
fn is_kept_twice(family: FamilyId) -> bool {
    family == DICTIONARY
}

/// Writes the second copy of a table that was just written to `file`, if its family is kept twice, syncs it and notes it in
/// `meta`. Syncing the directory is the caller's. On an error nothing is left over.
pub(crate) fn write(
    versions: &VersionSet,
    file: &dyn File,
    meta: &mut SsTableMeta,
) -> Result<Option<NewFile>> {
    if !is_kept_twice(meta.family) {
        return Ok(None);
    }
    let number = versions.new_file_number();
    match copy(versions, number, file, meta) {
        Ok(()) => {
            meta.twin = number;
            Ok(Some(NewFile { number, len: meta.len }))
        }
        Err(error) => {
            versions.discard_file(number);
            Err(error)
        }
    }
}

fn copy(versions: &VersionSet, number: u64, file: &dyn File, meta: &SsTableMeta) -> Result<()> {
    let twin = versions.table_files().create(number)?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < meta.len {
        buffer.resize((meta.len - at).min(CHUNK) as usize, 0);
        file.read_exact_at(&mut buffer, meta.offset + at)?;
        twin.write_at(&buffer, at)?;
        at += buffer.len() as u64;
    }
    twin.sync_data()
}
