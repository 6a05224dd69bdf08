//! Point reads of many ascending keys, in one super version. Each run keeps its place from one key to the
//! next. Neighbouring keys share a table's block, located once for all of them.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::InternalIterator;
use crate::memtable::{Memtable, TreeRef};
use crate::store::super_version::{Flushable, SuperVersion};
use crate::table::SsTableIterator;
use crate::types::{Entry, FamilyId, Seq};
use crate::version::{Level, TableHandle};

/// A run of the family, and the place of the last search.
enum Run<'v> {
    Memtable(TreeRef<'v>),
    Table(&'v TableHandle, Option<SsTableIterator>),
    /// With the number of the open table.
    Level(&'v Level, usize, Option<SsTableIterator>),
}

impl Run<'_> {
    fn newest(&mut self, key: &[u8], snapshot: Seq) -> Result<Option<Entry<'_>>> {
        let (table, place) = match self {
            Run::Memtable(tree) => return Ok(tree.get(key, snapshot)),
            // Another run may have the key, so that a read of a block is worth a look at the filter.
            Run::Table(table, place) if table.may_contain(key)? => (*table, place),
            Run::Table(..) => return Ok(None),
            Run::Level(level, open, place) => {
                let at = level.first_reaching(key);
                let Some(table) = level.tables().get(at).filter(|table| table.covers(key)) else {
                    return Ok(None);
                };
                if at != *open {
                    (*open, *place) = (at, None);
                }
                (table, place)
            }
        };
        // The super version keeps the file.
        let place = place.get_or_insert_with(|| table.table.iter(snapshot));
        Ok(if place.find(key)? { Some(place.entry()) } else { None })
    }
}

/// See the module.
pub(crate) struct AscendingGets<'v> {
    /// Newest first.
    runs: Vec<Run<'v>>,
    snapshot: Seq,
}

impl<'v> AscendingGets<'v> {
    /// Reads of a family in `super_version`, at `snapshot`.
    pub fn new(super_version: &'v SuperVersion, family: FamilyId, snapshot: Seq) -> AscendingGets<'v> {
        let tree = |memtable: &'v Arc<Memtable>| memtable.tree(family).map(Run::Memtable);
        let mut runs: Vec<Run<'v>> = tree(&super_version.active).into_iter().collect();
        for flushable in &super_version.sealed {
            runs.extend(flushable.memtable().and_then(tree));
            runs.extend(Flushable::tables(flushable, family).iter().map(|table| Run::Table(table, None)));
        }
        if let Some(levels) = super_version.version.family(family) {
            runs.extend(levels.l0.iter().map(|table| Run::Table(table, None)));
            runs.extend(levels.levels.iter().map(|level| Run::Level(level, 0, None)));
        }
        AscendingGets { runs, snapshot }
    }

    /// The newest version of a key at or below the snapshot, tombstones included. Keys in another order than
    /// ascending are found too, and take longer.
    pub fn newest(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>> {
        for run in &mut self.runs {
            if let Some(entry) = run.newest(key, self.snapshot)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}
