//! A dictionary with a block damaged in both copies: finds the entries still certain, so operations limited
//! to these go on. Used by [`open`](crate::db::recovery::open).

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::store::super_version::SuperVersion;
use crate::types::{Kind, Seq, DICTIONARY, MAX_SEQ};
use crate::value::{resolve, NoSeparateValues, ReadParts};

/// Entries by key: the newest version, a tombstone included.
pub(crate) type Entries = BTreeMap<Vec<u8>, (Seq, Kind, Vec<u8>)>;

/// A range of keys in an unreadable place: those after the first, up to the second.
struct Unknown {
    after: Vec<u8>,
    upto: Vec<u8>,
}

/// Reads the newest version of each key unless a newer one may be lost; also returns the first error, if any.
/// An older entry of a lost key is no answer: the family may have been dropped, renamed or truncated since.
///
/// Errors: I/O; a missing file counts as damage instead.
pub(crate) fn certain_entries(super_version: &SuperVersion) -> Result<(Entries, Option<Error>)> {
    let mut entries = Entries::new();
    let mut unknown: Vec<Unknown> = Vec::new();
    let mut first_error = None;
    let mut take = |iter: &mut dyn InternalIterator, max_key: &[u8]| -> Result<()> {
        let mut last = Vec::new();
        let mut read = || -> Result<()> {
            iter.seek_to_first()?;
            while iter.valid() {
                last.clear();
                last.extend_from_slice(iter.key());
                let is_lost = |lost: &Unknown| last > lost.after && last <= lost.upto;
                if !entries.contains_key(&last) && !unknown.iter().any(is_lost) {
                    let (entry, mut value) = (iter.entry(), Vec::new());
                    // None of them expires.
                    resolve(&entry, || 0, &NoSeparateValues, ReadParts::Both, &mut value)?;
                    entries.insert(last.clone(), (entry.seq, entry.kind, value));
                }
                iter.next()?;
            }
            Ok(())
        };
        match read() {
            Err(error) if error.is_damage() => {
                unknown.push(Unknown { after: last, upto: max_key.to_vec() });
                first_error.get_or_insert(error);
                Ok(())
            }
            done => done,
        }
    };
    for memtable in super_version.memtables() {
        if let Some(mut iter) = memtable.iter(DICTIONARY, MAX_SEQ) {
            take(&mut iter, &[])?;
        }
    }
    for (_, table) in super_version.version.family(DICTIONARY).iter().flat_map(|levels| levels.tables()) {
        take(&mut table.iter(MAX_SEQ), &table.meta().max_key)?;
    }
    Ok((entries, first_error))
}
