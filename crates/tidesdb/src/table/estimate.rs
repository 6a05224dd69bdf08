//! Estimates from a table's index without its data: the number of entries in a range, and the key at a given
//! share.

use super::block::BlockKind;
use super::iterator::IndexCursor;
use super::keyed_block::common_prefix;
use super::reader::SsTable;
use crate::cache::CachePriority;
use crate::error::Result;
use crate::iter::KeyRange;

impl SsTable {
    /// Approximate number of entries in `range`, every version counted. With bounds at most about two blocks
    /// apart, it reads the data blocks at the bounds; a scan of the range would read them anyway. The result
    /// is then exact except for keys with several versions. Otherwise only index blocks are read, and the
    /// error is about a block at each bound. At least 1 if the range may have a key.
    pub fn estimate_range(&self, range: &KeyRange) -> Result<u64> {
        if !self.overlaps(range) || matches!((&range.lower, &range.upper), (Some(l), Some(u)) if l >= u) {
            return Ok(0);
        }
        let place = |key: &Option<Vec<u8>>, unbounded: u64| match key {
            None => Ok(IndexPlace::outside(unbounded)),
            Some(key) if *key <= self.meta().min_key => Ok(IndexPlace::outside(0)),
            Some(key) if *key > self.meta().max_key => Ok(IndexPlace::outside(self.meta().entries)),
            Some(key) => self.place(key),
        };
        let (lower, upper) = (place(&range.lower, 0)?, place(&range.upper, self.meta().entries)?);
        let between = upper.before.saturating_sub(lower.after);
        let is_short = between <= (lower.after - lower.before).max(upper.after - upper.before);
        let rank = |key: &Option<Vec<u8>>, place| match key {
            Some(key) if is_short => self.rank_in_block(key, place),
            Some(key) => self.rank_between_separators(key, place),
            None => Ok(place.before),
        };
        let (lower, upper) = (rank(&range.lower, lower)?, rank(&range.upper, upper)?);
        Ok(upper.saturating_sub(lower).clamp(1, self.meta().entries))
    }

    /// The block of `key`, a key in the key range, whether present or not.
    fn place(&self, key: &[u8]) -> Result<IndexPlace> {
        let mut index = IndexCursor::new(Some(CachePriority::High));
        if !index.seek(self, key)? {
            return Ok(IndexPlace::outside(self.meta().entries));
        }
        let before = index.entry(self)?.before;
        let mut next = index.clone();
        let after = if next.next(self)? { next.entry(self)?.before } else { self.meta().entries };
        Ok(IndexPlace { index: Some(index), before, after: after.max(before) })
    }

    /// Number of entries before `key`, from its data block.
    fn rank_in_block(&self, key: &[u8], place: IndexPlace) -> Result<u64> {
        let Some(index) = place.index else { return Ok(place.before) };
        let handle = index.entry(self)?.block;
        let block = self.load(handle, BlockKind::Data, Some(CachePriority::High))?;
        let block = self.keyed(block, handle)?;
        let keyed = self.parse(&block, handle)?;
        let (slot, _) = keyed.lower_bound(key).map_err(|damage| self.damage(handle, damage))?;
        let entries = u128::from(place.after - place.before);
        let below = entries * slot as u128 / keyed.len() as u128;
        Ok(place.before + u64::try_from(below).unwrap_or(0))
    }

    /// Approximate number of entries before `key`, interpolated between the separators of its block.
    fn rank_between_separators(&self, key: &[u8], place: IndexPlace) -> Result<u64> {
        let Some(mut index) = place.index else { return Ok(place.before) };
        let mut high = Vec::new();
        index.read_separator(self, &mut high)?;
        let mut low = self.meta().min_key.clone();
        if index.prev(self)? {
            index.read_separator(self, &mut low)?;
        }
        Ok(place.before + share_below(&low, &high, key, place.after - place.before))
    }

    /// A key after about this share (0 to 1) of the entries: the end of a block.
    pub fn key_at(&self, share: f64) -> Result<Vec<u8>> {
        let rank = (share.clamp(0.0, 1.0) * self.meta().entries as f64) as u64;
        let mut index = IndexCursor::new(Some(CachePriority::High));
        let mut key = Vec::new();
        if index.seek_rank(self, rank)? {
            index.read_separator(self, &mut key)?;
        }
        Ok(key)
    }
}

/// The place of a range's bound in a table.
struct IndexPlace {
    /// A cursor at the bound's block; `None` for a bound outside of all blocks.
    index: Option<IndexCursor>,
    /// Entries before the block.
    before: u64,
    /// Number of entries up to the end of the block; not below `before`.
    after: u64,
}

impl IndexPlace {
    fn outside(rank: u64) -> IndexPlace {
        IndexPlace { index: None, before: rank, after: rank }
    }
}

/// Number of keys below `key` among `count` keys spread evenly from `low` to `high`.
fn share_below(low: &[u8], high: &[u8], key: &[u8], count: u64) -> u64 {
    let prefix = common_prefix(low, high);
    let number = |key: &[u8]| {
        let mut head = [0; 8];
        let digits = key.get(prefix..).unwrap_or_default();
        let len = digits.len().min(8);
        head[..len].copy_from_slice(&digits[..len]);
        u128::from(u64::from_be_bytes(head))
    };
    let (low, high, key) = (number(low), number(high), number(key));
    if high <= low {
        return 0;
    }
    let key = key.clamp(low, high);
    u64::try_from((key - low) * u128::from(count) / (high - low)).unwrap_or(count)
}
