//! An open table: loads blocks through the cache and answers prefix lookups. Point reads are in
//! `point_read.rs`, scans in `iterator.rs`, estimates in `estimate.rs`. Flush and compaction read through
//! `version_iterator.rs`.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::block::{BlockHandle, BlockKind, DecodeError};
use super::filter::{self, hash_prefix};
use super::filter_benefit::FilterBenefit;
use super::footer::{FilterLayout, Footer, FOOTER_LEN, MAX_FOOTER_LEN};
use super::index::{partition_filter, IndexEntry};
use super::keyed_block::KeyedBlock;
use super::properties::Properties;
use super::{SsTableMeta, SsTableOptions};
use crate::cache::{BlockCache, BlockRef, Boarding, CachePriority, Reservation, SingleFlight};
use crate::error::{Error, Result};
use crate::io::{AlignedBuffer, File};
use crate::iter::KeyRange;
use crate::options::FamilyOptions;
use crate::sync::{note, Mutex};
use crate::table::TableStore;
use crate::types::{FileNo, Seq, MAX_SEQ};

/// Bytes at a table's end read at once by its opening: footer, properties and, in most tables, the top index.
const TAIL_READ: u64 = 8 << 10;

/// The footer and the resident parts of an open table.
pub(super) struct Opened {
    pub footer: Footer,
    pub properties: Properties,
    /// The uppermost index block, unless it is read through the cache.
    pub top: Option<BlockRef>,
    _reservation: Option<Reservation>,
    /// The filter of the whole table while lookups ask it, if the cache has room for it.
    filter: ArcSwapOption<KeptFilter>,
    /// Held by the thread that reads it.
    reading_filter: Mutex<()>,
    pub filter_benefit: FilterBenefit,
}

/// A filter in memory of its own.
struct KeptFilter {
    payload: BlockRef,
    _reservation: Reservation,
}

/// A table in a table file, shared by its readers. It reads nothing until the first lookup that the key
/// range does not answer.
pub struct SsTable {
    pub(super) files: Arc<TableStore>,
    cache: Arc<BlockCache>,
    pub(super) file: FileNo,
    meta: SsTableMeta,
    /// Its second copy.
    mirror: Option<Arc<SsTable>>,
    opened: OnceLock<Box<Opened>>,
    /// The read of the table's end that opens it, while it is under way.
    opening: SingleFlight<(), ()>,
    /// What figures have found out without opening it.
    form: OnceLock<Form>,
}

/// Which options a table was written under.
enum Form {
    /// These; `None`: it does not say.
    Known(Option<SsTableOptions>),
    /// Its end is damaged.
    Damaged,
}

/// A table's end as it was read.
struct End {
    file: Arc<dyn File>,
    /// The last bytes of the table, from this offset in it on.
    tail: AlignedBuffer,
    start: u64,
    footer: Footer,
    properties: Properties,
}

impl fmt::Debug for SsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SsTable({:08}.sst at {}, family {})", self.file, self.meta.offset, self.meta.family)
    }
}

impl SsTable {
    /// The table described by `meta` in `file`. Reads nothing.
    pub fn open(
        files: Arc<TableStore>,
        cache: Arc<BlockCache>,
        file: FileNo,
        meta: SsTableMeta,
    ) -> Arc<SsTable> {
        let mirror = (meta.mirror != 0).then(|| {
            let alone = SsTableMeta { offset: 0, mirror: 0, ..meta.clone() };
            SsTable::open(Arc::clone(&files), Arc::clone(&cache), meta.mirror, alone)
        });
        let (opened, opening, form) = (OnceLock::new(), SingleFlight::default(), OnceLock::new());
        Arc::new(SsTable { files, cache, file, meta, mirror, opened, opening, form })
    }

    /// The manifest's metadata of the table.
    pub fn meta(&self) -> &SsTableMeta {
        &self.meta
    }

    /// Number of its file.
    pub fn file_no(&self) -> FileNo {
        self.file
    }

    /// The table's properties; opens the table.
    pub fn properties(&self) -> Result<&Properties> {
        Ok(&self.opened()?.properties)
    }

    /// True if it was written under other options than the present ones of `family`, or by an earlier build
    /// without recorded options. Opens the table.
    pub fn is_in_old_form(&self, family: &FamilyOptions) -> Result<bool> {
        Ok(is_old(&self.properties()?.options, family))
    }

    /// The same for figures, which are asked for again and again: of a table that nobody has opened its end is read
    /// once, and nothing of it stays. False where it cannot be read.
    pub fn shows_old_form(&self, family: &FamilyOptions) -> bool {
        if let Some(opened) = self.opened.get() {
            return is_old(&opened.properties.options, family);
        }
        let form = match self.form.get() {
            Some(form) => form,
            None => match self.or_mirror(self.read_end(), SsTable::read_end) {
                Ok(end) => self.form.get_or_init(|| Form::Known(end.properties.options)),
                Err(Error::Corruption { .. }) => self.form.get_or_init(|| Form::Damaged),
                // Another time perhaps.
                Err(_) => return false,
            },
        };
        match form {
            Form::Known(options) => is_old(options, family),
            Form::Damaged => false,
        }
    }

    /// True if `key` lies in the key range.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        key >= self.meta.min_key.as_slice() && key <= self.meta.max_key.as_slice()
    }

    /// `snapshot` translated for comparison with stored sequence numbers. `None`: the snapshot sees no entry
    /// of the table.
    #[inline]
    pub(super) fn stored_snapshot(&self, snapshot: Seq) -> Option<Seq> {
        match self.meta.commit_seq {
            0 => Some(snapshot),
            commit if snapshot < commit => None,
            _ => Some(MAX_SEQ),
        }
    }

    /// The sequence number of an entry stored with `stored`.
    #[inline]
    pub(super) fn seq_of(&self, stored: Seq) -> Seq {
        match self.meta.commit_seq {
            0 => stored,
            commit => commit,
        }
    }

    /// True if a key of `range` may lie in the key range.
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        range.lower.as_ref().is_none_or(|lower| *lower <= self.meta.max_key)
            && range.upper.as_ref().is_none_or(|upper| *upper > self.meta.min_key)
    }

    /// False if the filter of the whole table rules the hash out. True also while another thread reads the filter.
    pub(super) fn passes_whole_filter(&self, opened: &Opened, hash: u64) -> Result<bool> {
        match &*opened.filter.load() {
            Some(filter) => self.may_contain_hash(&filter.payload, opened.footer.filter, hash),
            None => self.passes_missing_filter(opened, hash),
        }
    }

    /// The same for a filter that is not in memory. It stays there until [`SsTable::forget_filter`], if the cache has room for
    /// it; else it comes through the cache each time.
    #[cold]
    fn passes_missing_filter(&self, opened: &Opened, hash: u64) -> Result<bool> {
        let handle = opened.footer.filter;
        // All clients of a cold table come here at once: one of them reads, and the others have their block sooner.
        let Some(_alone) = opened.reading_filter.try_lock() else { return Ok(true) };
        if opened.filter.load().is_some() {
            return self.passes_whole_filter(opened, hash);
        }
        let Some(reservation) = self.cache.reserve(self.bounded(handle)?) else {
            let filter = self.load(handle, BlockKind::Filter, Some(CachePriority::High))?;
            return self.may_contain_hash(&filter, handle, hash);
        };
        // Not the cache's own copy, if it has one: a block in use is never evicted.
        let payload = self.or_mirror(self.read_uncached(handle, BlockKind::Filter), |mirror| {
            mirror.read_uncached(handle, BlockKind::Filter)
        })?;
        let passes = self.may_contain_hash(&payload, handle, hash)?;
        opened.filter.store(Some(Arc::new(KeptFilter { payload, _reservation: reservation })));
        Ok(passes)
    }

    /// False if the filter at `handle` rules the hash out.
    #[inline]
    pub(super) fn may_contain_hash(&self, filter: &[u8], handle: BlockHandle, hash: u64) -> Result<bool> {
        filter::may_contain(filter, hash).map_err(|damage| self.damage(handle, damage))
    }

    /// A filter's answer to a lookup, and "perhaps" of one that cannot be read: the data block may be in the cache, or
    /// elsewhere on the disk. CHECK TABLE reports it.
    #[inline]
    pub(super) fn or_perhaps(&self, opened: &Opened, answer: Result<bool>) -> bool {
        answer.unwrap_or_else(|_| {
            opened.filter_benefit.give_up();
            true
        })
    }

    /// Gives the memory of the whole table's filter back: lookups ask it no longer.
    #[cold]
    pub(super) fn forget_filter(&self, opened: &Opened) {
        opened.filter.store(None);
    }

    /// False if the key range or a filter of the whole table rule `key` out.
    pub fn may_contain(&self, key: &[u8]) -> Result<bool> {
        if !self.covers(key) {
            return Ok(false);
        }
        let opened = self.opened()?;
        Ok(opened.footer.filter_layout != FilterLayout::Whole
            || self.passes_whole_filter(opened, filter::hash_key(key))?)
    }

    /// False only if the table has no key with `prefix`. The key range rules out any prefix. Filters rule out
    /// prefixes of at least the table's prefix length.
    pub fn may_contain_prefix(&self, prefix: &[u8]) -> Result<bool> {
        if prefix > self.meta.max_key.as_slice()
            || (prefix < self.meta.min_key.as_slice() && !self.meta.min_key.starts_with(prefix))
        {
            return Ok(false);
        }
        let opened = self.opened()?;
        let prefix_len = opened.footer.prefix_len as usize;
        let filtered = match prefix.get(..prefix_len) {
            Some(filtered) if prefix_len > 0 => filtered,
            _ => return Ok(true),
        };
        let hash = hash_prefix(filtered);
        match opened.footer.filter_layout {
            FilterLayout::None => Ok(true),
            FilterLayout::Whole => self.passes_whole_filter(opened, hash),
            FilterLayout::Partitioned => self.partitions_may_contain(opened, prefix, hash),
        }
    }

    /// Asks the filters of all partitions with possible keys of `prefix`.
    fn partitions_may_contain(&self, opened: &Opened, prefix: &[u8], hash: u64) -> Result<bool> {
        let top_at = opened.footer.top;
        let top = self.load_top(opened, Some(CachePriority::High))?;
        let index = self.parse(&top, top_at)?;
        let ask = |damage| self.damage(top_at, damage);
        let first = index.lower_bound(prefix).map_err(ask)?.0;
        let mut separator = Vec::new();
        for at in first..index.len() {
            let (_, after, end) = IndexEntry::read(&index, at).map_err(ask)?;
            let Some(handle) = partition_filter(&index, after, end).map_err(ask)? else { return Ok(true) };
            let filter = self.load(handle, BlockKind::Filter, Some(CachePriority::High))?;
            if self.may_contain_hash(&filter, handle, hash)? {
                return Ok(true);
            }
            index.read_key(at, &mut separator, false).map_err(ask)?;
            if !separator.starts_with(prefix) {
                break;
            }
        }
        Ok(false)
    }

    /// Footer, properties and resident parts; read at first use.
    #[inline]
    pub(super) fn opened(&self) -> Result<&Opened> {
        match self.opened.get() {
            Some(opened) => Ok(opened),
            None => self.or_mirror(self.open_with_others(), SsTable::opened),
        }
    }

    /// The same for a merge: no client waits for a thread of low priority, nor the other way round.
    pub(super) fn opened_by_merge(&self) -> Result<&Opened> {
        match self.opened.get() {
            Some(opened) => Ok(opened),
            None => self.or_mirror(self.read_tail(), SsTable::opened_by_merge),
        }
    }

    /// Reads the table's end, once for all threads that need it now. After an error each of the others reads it itself.
    #[cold]
    fn open_with_others(&self) -> Result<&Opened> {
        let opening = self.opening.board(());
        if !matches!(opening, Boarding::Lead(_)) {
            note("table: shared opening");
        }
        let opened = match self.opened.get() {
            Some(opened) => opened,
            None => self.read_tail()?,
        };
        if let Boarding::Lead(lead) = opening {
            lead.land(&());
        }
        Ok(opened)
    }

    /// Threads that wait for another to open it.
    #[cfg(test)]
    pub(super) fn waiting_to_open(&self) -> usize {
        self.opening.waiting()
    }

    /// The second copy.
    pub(super) fn mirror(&self) -> Option<&Arc<SsTable>> {
        self.mirror.as_ref()
    }

    /// The table, and its second copy if it has one.
    pub fn copies(self: &Arc<SsTable>) -> impl Iterator<Item = &Arc<SsTable>> {
        std::iter::once(self).chain(self.mirror())
    }

    /// The result `first`, or, if it is an error, the result of `again` on the second copy. If both fail,
    /// returns the first error. The copies are equal byte for byte, so a handle is valid in both.
    pub(super) fn or_mirror<'t, T>(
        &'t self,
        first: Result<T>,
        again: impl FnOnce(&'t SsTable) -> Result<T>,
    ) -> Result<T> {
        let mut damage = None;
        let read = self.or_mirror_unlogged(first, again, &mut damage);
        self.tell(damage);
        read
    }

    /// The same, where the program's log must not be called: damage that the second copy made good is left in `damage`.
    pub(super) fn or_mirror_unlogged<'t, T>(
        &'t self,
        first: Result<T>,
        again: impl FnOnce(&'t SsTable) -> Result<T>,
        damage: &mut Option<Error>,
    ) -> Result<T> {
        match (first, &self.mirror) {
            (Err(error), Some(mirror)) => match again(mirror) {
                Ok(read) => {
                    *damage = Some(error);
                    Ok(read)
                }
                Err(_) => Err(error),
            },
            (done, _) => done,
        }
    }

    /// Tells the log, after a read, of damage of this copy, if there is some, and of refused direct reads.
    pub(super) fn tell(&self, damage: Option<Error>) {
        self.files.tell_refusal();
        if let Some(damage) = damage {
            self.files.tell_damage(self.file, &damage);
        }
    }

    /// The table's footer and properties, checked.
    #[cold]
    fn read_end(&self) -> Result<End> {
        let len = self.meta.len;
        let no_handle = BlockHandle::default();
        if len < FOOTER_LEN as u64 || self.meta.offset.checked_add(len).is_none() {
            return Err(self.damage(no_handle, DecodeError::damage("a table shorter than its footer")));
        }
        let file = self.files.get_untold(self.file)?;
        let tail_len = len.min(TAIL_READ);
        let tail_start = len - tail_len;
        let mut tail = AlignedBuffer::default();
        tail.read(&*file, self.meta.offset + tail_start, tail_len as usize)?;
        let bytes = tail.bytes();
        let footer_at = BlockHandle { offset: len - FOOTER_LEN as u64, len: FOOTER_LEN as u64 };
        let footer = Footer::decode(&bytes[bytes.len().saturating_sub(MAX_FOOTER_LEN)..])
            .map_err(|damage| self.damage(footer_at, damage))?;
        if footer.table_len != len || footer.family != self.meta.family {
            return Err(self.damage(footer_at, DecodeError::damage("another table than the manifest names")));
        }
        let mut end = End { file, tail, start: tail_start, footer, properties: Properties::default() };
        let at = end.footer.properties;
        let properties = self.block_at_end(&end, at, BlockKind::Properties)?;
        end.properties = Properties::decode(&properties, end.footer.version())
            .map_err(|damage| self.damage(at, damage))?;
        if !self.meta.describes(&end.properties) {
            return Err(self.damage(footer_at, DecodeError::damage("another table than the manifest names")));
        }
        Ok(end)
    }

    /// A block; one that was read with the table's end is opened from there.
    fn block_at_end(&self, end: &End, handle: BlockHandle, kind: BlockKind) -> Result<BlockRef> {
        let stored = handle.offset.checked_sub(end.start).and_then(|start| {
            let upto = handle.end()?.checked_sub(end.start)?;
            end.tail.bytes().get(usize::try_from(start).ok()?..usize::try_from(upto).ok()?)
        });
        match stored {
            Some(stored) => self.decode_block(stored, handle, kind),
            None => self.read_of(&*end.file, handle, kind, |_, block| block),
        }
    }

    #[cold]
    fn read_tail(&self) -> Result<&Opened> {
        let end = self.read_end()?;
        let footer = &end.footer;
        let top_len = usize::try_from(footer.top.len).unwrap_or(usize::MAX);
        let reservation = if footer.top_in_cache { None } else { self.cache.reserve(top_len) };
        let top = match reservation {
            Some(_) => Some(self.block_at_end(&end, footer.top, top_kind(footer))?),
            None => None,
        };
        let opened = Opened {
            footer: end.footer,
            properties: end.properties,
            top,
            _reservation: reservation,
            filter: ArcSwapOption::empty(),
            reading_filter: Mutex::default(),
            filter_benefit: FilterBenefit::default(),
        };
        Ok(self.opened.get_or_init(|| Box::new(opened)))
    }

    /// The uppermost index block; `priority` as for [`SsTable::load`].
    pub(super) fn load_top(&self, opened: &Opened, priority: Option<CachePriority>) -> Result<BlockRef> {
        match &opened.top {
            Some(top) => Ok(top.clone()),
            None => self.load(opened.footer.top, top_kind(&opened.footer), priority),
        }
    }

    /// The cache of the table's blocks.
    pub(super) fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// Checks that a handle lies before the footer, and returns its length.
    pub(super) fn bounded(&self, handle: BlockHandle) -> Result<usize> {
        let most = self.meta.len.saturating_sub(FOOTER_LEN as u64);
        match (handle.end(), usize::try_from(handle.len)) {
            (Some(end), Ok(len)) if end <= most => Ok(len),
            _ => {
                Err(self.damage(handle, DecodeError::damage("a handle that points past the table's blocks")))
            }
        }
    }

    /// A view of a keyed block.
    #[inline]
    pub(super) fn parse<'a>(&self, payload: &'a [u8], handle: BlockHandle) -> Result<KeyedBlock<'a>> {
        KeyedBlock::parse(payload).map_err(|damage| self.damage(handle, damage))
    }

    /// The file, for readers with buffers of their own.
    pub(super) fn file(&self) -> Result<Arc<dyn File>> {
        self.files.get(self.file)
    }

    /// The error for damage at a block of the table.
    #[cold]
    pub(super) fn damage(&self, at: BlockHandle, damage: DecodeError) -> Error {
        let offset = self.meta.offset.saturating_add(at.offset);
        if damage.later {
            return Error::later_version(
                self.files.path(self.file),
                format!("at offset {offset}: {}", damage.what),
            );
        }
        Error::corruption(self.files.path(self.file), offset, damage.what)
    }
}

fn is_old(written: &Option<SsTableOptions>, now: &FamilyOptions) -> bool {
    !written.as_ref().is_some_and(|options| options.are_of(now))
}

/// Kind of the uppermost index block.
pub(super) fn top_kind(footer: &Footer) -> BlockKind {
    if footer.index_levels == 1 {
        BlockKind::Index
    } else {
        BlockKind::TopIndex
    }
}
