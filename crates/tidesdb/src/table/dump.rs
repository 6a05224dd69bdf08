//! Inspection of table files without a manifest: finds tables by their footers, and reports the facts in
//! footer, properties and index.

use std::sync::Arc;

use super::block::{BlockHandle, BlockKind};
use super::footer::{FilterLayout, Footer, FOOTER_LEN, MAX_FOOTER_LEN};
use super::index::IndexEntry;
use super::properties::Properties;
use super::reader::SsTable;
use super::{SsTableMeta, OLD_TABLE_ALIGN, TABLE_ALIGN};
use crate::cache::{BlockCache, CachePriority};
use crate::error::{Error, Result};
use crate::io::AlignedBuffer;
use crate::options::BlockCodec;
use crate::table::TableStore;
use crate::types::{FileNo, Seq};

/// The tables of a file.
#[derive(Debug, Default)]
pub struct FoundTables {
    /// Tables with a valid footer and valid properties, by offset.
    pub tables: Vec<Arc<SsTable>>,
    /// Damage that hides other tables.
    pub damage: Vec<Error>,
}

/// Footer and properties of a table. Offsets count from the table's first byte.
#[derive(Clone, Debug)]
pub struct TableFacts {
    /// Version of the table's format.
    pub version: u32,
    /// Bytes of padding between blocks.
    pub padding: u64,
    /// Levels of the index: 1 or 2.
    pub index_levels: u8,
    /// Layout of the filter: `none`, `whole` or `partitioned`.
    pub filter: &'static str,
    /// Length of the filtered key prefix; 0: none.
    pub prefix_len: u32,
    /// True if the top index is read through the cache.
    pub top_in_cache: bool,
    /// Offset and length of the top index.
    pub top_at: (u64, u64),
    /// Offset and length of the properties.
    pub properties_at: (u64, u64),
    /// Offset and length of the filter of the whole table; zeros without one.
    pub filter_at: (u64, u64),
    /// Least and greatest sequence number as stored.
    pub stored_seq: (Seq, Seq),
    /// Oldest and newest expiry in seconds since 1970, if any entry has one.
    pub expiry: Option<(u64, u64)>,
    /// Number of data blocks.
    pub data_blocks: u64,
    /// Bytes of the data blocks on disk.
    pub data_bytes: u64,
    /// Layout of the data blocks. (Builds that did not note it wrote plain ones.)
    pub block_codec: BlockCodec,
}

/// The facts of a data block in the index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFacts {
    /// A key at or above the block's last and below the next block's first.
    pub separator: Vec<u8>,
    /// Offset in the table, in bytes.
    pub offset: u64,
    /// Bytes on disk.
    pub len: u64,
    /// Number of entries before the block.
    pub before: u64,
    /// Tombstones in the block.
    pub tombstones: u64,
}

impl SsTable {
    /// Finds the tables in file `number` from its end. Each footer gives the start of its table. The table
    /// before ends less than `TABLE_ALIGN` before this start, or less than a page in a file of an earlier
    /// build.
    ///
    /// # Errors
    /// I/O. Damage is not an error but listed; it hides the tables before it.
    pub fn find_all(files: &Arc<TableStore>, cache: &Arc<BlockCache>, number: FileNo) -> Result<FoundTables> {
        let mut found = FoundTables::default();
        let file = files.get(number)?;
        let damage = |at: u64, what: &'static str| Error::corruption(files.path(number), at, what);
        let len = file.len()?;
        let (mut upto, mut is_last) = (len, true);
        let mut page = AlignedBuffer::default();
        while upto > 0 {
            // The last table ends the file; others end within a page, at the last footer in it.
            let earliest = if is_last { upto } else { (upto + 1).saturating_sub(OLD_TABLE_ALIGN) };
            let from = earliest.saturating_sub(MAX_FOOTER_LEN as u64);
            let bytes = page.read(&*file, from, (upto - from) as usize)?;
            let footer_at = |end: u64| Footer::decode(&bytes[..(end - from) as usize]);
            let footer =
                (earliest..=upto).rev().find_map(|end| footer_at(end).ok().map(|footer| (end, footer)));
            let Some((end, footer)) = footer else {
                let what = match footer_at(upto) {
                    Err(error) if is_last => error.what,
                    _ => "no table's footer ends in the page before: tables before this place are not found",
                };
                found.damage.push(damage(upto.saturating_sub(FOOTER_LEN as u64 * u64::from(is_last)), what));
                break;
            };
            let is_place = |start: &u64| start % TABLE_ALIGN == 0 && footer.table_len >= footer.len() as u64;
            let Some(start) = end.checked_sub(footer.table_len).filter(is_place) else {
                found
                    .damage
                    .push(damage(end - FOOTER_LEN as u64, "the footer's table begins where none can"));
                break;
            };
            match SsTable::alone(files, cache, number, start, &footer) {
                Ok(table) => found.tables.push(table),
                Err(error) if error.is_damage() => found.damage.push(error),
                Err(error) => return Err(error),
            }
            (upto, is_last) = (start, false);
        }
        if len == 0 {
            found.damage.push(damage(0, "the file is empty"));
        }
        found.tables.reverse();
        Ok(found)
    }

    /// The table at `offset` as its own properties describe it.
    fn alone(
        files: &Arc<TableStore>,
        cache: &Arc<BlockCache>,
        number: FileNo,
        offset: u64,
        footer: &Footer,
    ) -> Result<Arc<SsTable>> {
        let mut meta = SsTableMeta {
            family: footer.family,
            offset,
            len: footer.table_len,
            min_key: Vec::new(),
            max_key: Vec::new(),
            min_seq: 0,
            max_seq: 0,
            entries: 0,
            tombstones: 0,
            keys: 0,
            raw_bytes: 0,
            commit_seq: 0,
            expiry: None,
            mirror: 0,
            values: Vec::new(),
        };
        let unknown = SsTable::open(files.clone(), cache.clone(), number, meta.clone());
        let block = unknown.read_uncached(footer.properties, BlockKind::Properties)?;
        let properties = Properties::decode(&block, footer.version())
            .map_err(|damage| unknown.damage(footer.properties, damage))?;
        meta.entries = properties.entries;
        meta.tombstones = properties.tombstones;
        meta.keys = properties.keys;
        meta.raw_bytes = properties.raw_bytes;
        (meta.min_seq, meta.max_seq) = (properties.min_seq, properties.max_seq);
        (meta.min_key, meta.max_key) = (properties.min_key, properties.max_key);
        meta.values = properties.values;
        Ok(SsTable::open(files.clone(), cache.clone(), number, meta))
    }

    /// Facts from footer and properties.
    pub fn facts(&self) -> Result<TableFacts> {
        let opened = self.opened()?;
        let (footer, properties) = (&opened.footer, &opened.properties);
        let place = |handle: BlockHandle| (handle.offset, handle.len);
        Ok(TableFacts {
            version: footer.version().number(),
            padding: footer.extension.map_or(0, |extension| extension.padding),
            index_levels: footer.index_levels,
            filter: match footer.filter_layout {
                FilterLayout::None => "none",
                FilterLayout::Whole => "whole",
                FilterLayout::Partitioned => "partitioned",
            },
            prefix_len: footer.prefix_len,
            top_in_cache: footer.top_in_cache,
            top_at: place(footer.top),
            properties_at: place(footer.properties),
            filter_at: place(footer.filter),
            stored_seq: (properties.min_seq, properties.max_seq),
            expiry: properties.expiry,
            data_blocks: properties.data_blocks,
            data_bytes: properties.data_bytes,
            block_codec: properties.options.as_ref().map_or(BlockCodec::Plain, |options| options.block_codec),
        })
    }

    /// Visits the data blocks in order of the index, until `visit` returns false. An unreadable part of the
    /// index is visited as an error in its place.
    pub fn each_block(&self, visit: &mut dyn FnMut(Result<BlockFacts>) -> bool) {
        let walk = || -> Result<Vec<(IndexEntry, Vec<u8>)>> {
            let opened = self.opened()?;
            self.index_entries(&self.load_top(opened, Some(CachePriority::High))?, opened.footer.top)
        };
        let index_levels = self.opened().map_or(1, |opened| opened.footer.index_levels);
        let facts = |(entry, separator): (IndexEntry, Vec<u8>)| BlockFacts {
            separator,
            offset: entry.block.offset,
            len: entry.block.len,
            before: entry.before,
            tombstones: entry.tombstones,
        };
        let top = match walk() {
            Ok(top) => top,
            Err(error) => {
                visit(Err(error));
                return;
            }
        };
        for (entry, separator) in top {
            if index_levels == 1 {
                if !visit(Ok(facts((entry, separator)))) {
                    return;
                }
                continue;
            }
            let leaf = self
                .read_uncached(entry.block, BlockKind::Index)
                .and_then(|leaf| self.index_entries(&leaf, entry.block));
            match leaf {
                Ok(blocks) => {
                    for block in blocks {
                        if !visit(Ok(facts(block))) {
                            return;
                        }
                    }
                }
                Err(error) => {
                    if !visit(Err(error)) {
                        return;
                    }
                }
            }
        }
    }

    fn index_entries(&self, payload: &[u8], at: BlockHandle) -> Result<Vec<(IndexEntry, Vec<u8>)>> {
        let index = self.parse(payload, at)?;
        let damage = |damage| self.damage(at, damage);
        let mut separator = Vec::new();
        (0..index.len())
            .map(|i| {
                let (entry, _, _) = IndexEntry::read(&index, i).map_err(damage)?;
                index.read_key(i, &mut separator, false).map_err(damage)?;
                Ok((entry, separator.clone()))
            })
            .collect()
    }
}
