//! The footer, the fixed last bytes of a table (`docs/format/table.md`, "Footer").

use super::block::{BlockHandle, DecodeError, LATER_FEATURES, LATER_LAYOUT, LATER_VERSION};
use crate::format::checksum;
use crate::format::coding::{u32_at, u64_at};
use crate::types::FamilyId;

/// Bytes of a footer.
pub(super) const FOOTER_LEN: usize = 128;

const MAGIC: &[u8; 8] = b"TDBTABLE";
const VERSION: u32 = 1;
const CRC_32C: u8 = 1;
const TOP_IN_CACHE: u8 = 1;
const CRC_AT: usize = FOOTER_LEN - 4;
const RESERVED_AT: usize = 80;

/// The layout of a table's filter, stored as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum FilterLayout {
    /// No filter.
    None = 0,
    /// One filter for the table.
    Whole = 1,
    /// One filter for each index partition.
    Partitioned = 2,
}

/// The contents of a footer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Footer {
    pub family: FamilyId,
    /// 1: the only partition takes the top index's place. 2: there is a top index.
    pub index_levels: u8,
    pub filter_layout: FilterLayout,
    /// True if the top index is read through the cache.
    pub top_in_cache: bool,
    pub prefix_len: u32,
    pub table_len: u64,
    pub top: BlockHandle,
    pub properties: BlockHandle,
    /// All zero unless the layout is `Whole`.
    pub filter: BlockHandle,
}

impl Footer {
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut out = [0; FOOTER_LEN];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.family.to_le_bytes());
        out[16] = CRC_32C;
        out[17] = self.index_levels;
        out[18] = self.filter_layout as u8;
        out[19] = if self.top_in_cache { TOP_IN_CACHE } else { 0 };
        out[20..24].copy_from_slice(&self.prefix_len.to_le_bytes());
        out[24..32].copy_from_slice(&self.table_len.to_le_bytes());
        for (at, handle) in [(32, self.top), (48, self.properties), (64, self.filter)] {
            out[at..at + 8].copy_from_slice(&handle.offset.to_le_bytes());
            out[at + 8..at + 16].copy_from_slice(&handle.len.to_le_bytes());
        }
        let crc = checksum::crc(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads and checks the last bytes of a table.
    pub fn decode(bytes: &[u8]) -> Result<Footer, DecodeError> {
        let bytes: &[u8; FOOTER_LEN] =
            bytes.try_into().map_err(|_| DecodeError("a table shorter than its footer"))?;
        if &bytes[..8] != MAGIC {
            return Err(DecodeError("no table footer"));
        }
        // Bytes with the checksum of this version are whole.
        let is_whole = u32_at(bytes, CRC_AT) == Some(checksum::crc(&bytes[..CRC_AT]));
        if u32_at(bytes, 8) != Some(VERSION) {
            return Err(if is_whole {
                LATER_VERSION
            } else {
                DecodeError("another version of a table's footer")
            });
        }
        if !is_whole {
            return Err(DecodeError("footer checksum mismatch"));
        }
        let number = |at| u64_at(bytes, at).unwrap_or(0);
        let handle = |at| BlockHandle { offset: number(at), len: number(at + 8) };
        let filter_layout = match bytes[18] {
            0 => FilterLayout::None,
            1 => FilterLayout::Whole,
            2 => FilterLayout::Partitioned,
            _ => return Err(LATER_LAYOUT),
        };
        let known = bytes[16] == CRC_32C && matches!(bytes[17], 1 | 2) && bytes[19] & !TOP_IN_CACHE == 0;
        if !known || bytes[RESERVED_AT..CRC_AT].iter().any(|&byte| byte != 0) {
            return Err(LATER_FEATURES);
        }
        let footer = Footer {
            family: u32_at(bytes, 12).unwrap_or(0),
            index_levels: bytes[17],
            filter_layout,
            top_in_cache: bytes[19] & TOP_IN_CACHE != 0,
            prefix_len: u32_at(bytes, 20).unwrap_or(0),
            table_len: number(24),
            top: handle(32),
            properties: handle(48),
            filter: handle(64),
        };
        if (footer.filter_layout == FilterLayout::Whole) != (footer.filter.len != 0) {
            return Err(DecodeError("the filter's handle in a footer"));
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_round_trips_and_every_changed_bit_is_refused() {
        let footer = Footer {
            family: 7,
            index_levels: 2,
            filter_layout: FilterLayout::Whole,
            top_in_cache: true,
            prefix_len: 4,
            table_len: 123_456,
            top: BlockHandle { offset: 1, len: 2 },
            properties: BlockHandle { offset: 3, len: 4 },
            filter: BlockHandle { offset: 5, len: 6 },
        };
        let bytes = footer.encode();
        assert_eq!(Footer::decode(&bytes), Ok(footer));
        for bit in 0..FOOTER_LEN * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&bad).is_err(), "bit {bit}");
        }
        assert!(Footer::decode(&bytes[1..]).is_err());
    }
}
