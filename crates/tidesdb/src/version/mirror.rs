//! Mirrors: second copies of the dictionary's tables. Without the dictionary no table could be assigned to its
//! family. Each table of family 0 is therefore in two files, byte for byte the same. A reader takes an
//! unreadable block of one copy from the other. Flushes, merges and rewrites write the mirror with the table.
//! The manifest names both, and they are removed together.

use crate::error::Result;
use crate::io::File;
use crate::table::SsTableMeta;
use crate::types::{FamilyId, DICTIONARY};
use crate::version::{NewFile, VersionSet};

/// Bytes for each read and write of the copy.
const CHUNK: u64 = 256 << 10;

/// True if a family's tables have second copies.
fn is_kept_twice(family: FamilyId) -> bool {
    family == DICTIONARY
}

/// Writes, syncs and notes in `meta` the second copy of a table just written to `file`, if its family has
/// copies. The caller syncs the directory. After an error nothing is left over.
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
            meta.mirror = number;
            Ok(Some(NewFile { number, len: meta.len }))
        }
        Err(error) => {
            versions.discard_file(number);
            Err(error)
        }
    }
}

fn copy(versions: &VersionSet, number: u64, file: &dyn File, meta: &SsTableMeta) -> Result<()> {
    let mirror = versions.table_files().create(number)?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < meta.len {
        buffer.resize((meta.len - at).min(CHUNK) as usize, 0);
        file.read_exact_at(&mut buffer, meta.offset + at)?;
        mirror.write_at(&buffer, at)?;
        at += buffer.len() as u64;
    }
    mirror.sync_data()
}
