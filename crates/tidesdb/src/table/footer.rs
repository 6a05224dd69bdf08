//! The footer, the fixed last bytes of a table (`docs/format/table.md`, "Footer"). In version 2 an extension stands
//! before it.

use super::block::{
    BlockHandle, DecodeError, LATER_BOUNDS, LATER_FEATURES, LATER_LAYOUT, LATER_VERSION, SEALED_TABLE,
};
use crate::format::checksum;
use crate::format::coding::{u32_at, u64_at};
use crate::mutant::{self, Mutant};
use crate::options::FormatVersion;
use crate::types::FamilyId;

/// Bytes of a footer, without its extension.
pub(super) const FOOTER_LEN: usize = 128;

/// Bytes of the extension of version 2.
const EXTENSION_LEN: usize = 64;

/// Most bytes of a footer with its extension.
pub(super) const MAX_FOOTER_LEN: usize = EXTENSION_LEN + FOOTER_LEN;

const MAGIC: &[u8; 8] = b"TDBTABLE";
const CRC_32C: u8 = 1;
const TOP_IN_CACHE: u8 = 1;
const CRC_AT: usize = FOOTER_LEN - 4;
const RESERVED_AT: usize = 80;
const EXTENSION_CRC_AT: usize = EXTENSION_LEN - 4;

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

/// The contents of the extension of version 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Extension {
    /// Number of blocks, of every kind.
    pub blocks: u64,
    /// Bytes of padding before blocks.
    pub padding: u64,
    /// Power of two at whose multiples blocks were aligned; 0: none was.
    pub align: u8,
}

impl Extension {
    /// The bytes of a stretch of padding are fewer than this.
    pub fn padding_below(&self) -> u64 {
        1 << self.align
    }

    fn encode(&self, footer: &[u8; FOOTER_LEN]) -> [u8; EXTENSION_LEN] {
        let mut out = [0; EXTENSION_LEN];
        out[16..24].copy_from_slice(&self.blocks.to_le_bytes());
        out[24..32].copy_from_slice(&self.padding.to_le_bytes());
        out[32] = self.align;
        let crc = extension_crc(&out, footer);
        out[EXTENSION_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], footer: &[u8; FOOTER_LEN]) -> Result<Extension, DecodeError> {
        let bytes: &[u8; EXTENSION_LEN] = bytes
            .try_into()
            .map_err(|_| DecodeError::damage("a table shorter than its footer's extension"))?;
        let is_whole = u32_at(bytes, EXTENSION_CRC_AT) == Some(extension_crc(bytes, footer));
        if !is_whole && !mutant::is(Mutant::ExtensionUnchecked) {
            return Err(DecodeError::damage("checksum mismatch in a footer's extension"));
        }
        if bytes[..16] != [0; 16] {
            return Err(SEALED_TABLE);
        }
        if bytes[33] != 0 {
            return Err(LATER_BOUNDS);
        }
        let align = bytes[32];
        if !(align == 0 || (9..=12).contains(&align))
            || bytes[34..EXTENSION_CRC_AT].iter().any(|&byte| byte != 0)
        {
            return Err(LATER_FEATURES);
        }
        let number = |at| u64_at(bytes, at).unwrap_or(0);
        Ok(Extension { blocks: number(16), padding: number(24), align })
    }
}

/// The extension's checksum covers the footer too, so that neither belongs to another. It ends before the footer's own:
/// bytes with their checksum after them change every checksum over them alike.
fn extension_crc(extension: &[u8; EXTENSION_LEN], footer: &[u8; FOOTER_LEN]) -> u32 {
    checksum::extend(checksum::crc(&extension[..EXTENSION_CRC_AT]), &footer[..CRC_AT])
}

/// Bytes of a footer in a version, with its extension.
pub(super) const fn footer_len(version: FormatVersion) -> usize {
    match version {
        FormatVersion::One => FOOTER_LEN,
        FormatVersion::Two => MAX_FOOTER_LEN,
    }
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
    /// `None` in version 1.
    pub extension: Option<Extension>,
}

impl Footer {
    /// The version of the table.
    pub fn version(&self) -> FormatVersion {
        match self.extension {
            None => FormatVersion::One,
            Some(_) => FormatVersion::Two,
        }
    }

    /// Bytes of the footer, with its extension.
    pub fn len(&self) -> usize {
        footer_len(self.version())
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = [0; FOOTER_LEN];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&self.version().number().to_le_bytes());
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
        match &self.extension {
            None => out.to_vec(),
            Some(extension) => [&extension.encode(&out)[..], &out].concat(),
        }
    }

    /// Reads and checks a footer from bytes that end with the table: at least [`MAX_FOOTER_LEN`] of them, unless the
    /// table has fewer.
    pub fn decode(table_end: &[u8]) -> Result<Footer, DecodeError> {
        let (before, bytes) = table_end
            .split_last_chunk::<FOOTER_LEN>()
            .ok_or(DecodeError::damage("a table shorter than its footer"))?;
        if &bytes[..8] != MAGIC {
            return Err(DecodeError::damage("no table footer"));
        }
        // Bytes with the checksum of this version are whole.
        let is_whole = u32_at(bytes, CRC_AT) == Some(checksum::crc(&bytes[..CRC_AT]));
        let version = FormatVersion::from_number(u32_at(bytes, 8).unwrap_or(0));
        let (Some(version), true) = (version, is_whole) else {
            return Err(match (version, is_whole) {
                (None, true) => LATER_VERSION,
                (None, false) => DecodeError::damage("another version of a table's footer"),
                (Some(_), _) => DecodeError::damage("footer checksum mismatch"),
            });
        };
        let number = |at| u64_at(bytes, at).unwrap_or(0);
        let handle = |at| BlockHandle { offset: number(at), len: number(at + 8) };
        let filter_layout = match bytes[18] {
            0 => FilterLayout::None,
            1 => FilterLayout::Whole,
            2 => FilterLayout::Partitioned,
            _ => return Err(LATER_LAYOUT),
        };
        let known = bytes[16] == CRC_32C && matches!(bytes[17], 1 | 2) && bytes[19] & !TOP_IN_CACHE == 0;
        if !known {
            return Err(LATER_FEATURES);
        }
        if bytes[RESERVED_AT..CRC_AT].iter().any(|&byte| byte != 0) {
            return Err(if version == FormatVersion::One { LATER_FEATURES } else { SEALED_TABLE });
        }
        let extension = match version {
            FormatVersion::One => None,
            FormatVersion::Two => {
                let at = before.len().saturating_sub(EXTENSION_LEN);
                Some(Extension::decode(&before[at..], bytes)?)
            }
        };
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
            extension,
        };
        if (footer.filter_layout == FilterLayout::Whole) != (footer.filter.len != 0) {
            return Err(DecodeError::damage("the filter's handle in a footer"));
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer(extension: Option<Extension>) -> Footer {
        Footer {
            family: 7,
            index_levels: 2,
            filter_layout: FilterLayout::Whole,
            top_in_cache: true,
            prefix_len: 4,
            table_len: 123_456,
            top: BlockHandle { offset: 1, len: 2 },
            properties: BlockHandle { offset: 3, len: 4 },
            filter: BlockHandle { offset: 5, len: 6 },
            extension,
        }
    }

    /// The footer with byte `at` changed and its checksums made right.
    fn mended(bytes: &[u8], at: usize, value: u8) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        let start = bytes.len() - FOOTER_LEN;
        let crc = checksum::crc(&bytes[start..start + CRC_AT]);
        bytes[start + CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        if start == EXTENSION_LEN {
            let (extension, footer) = bytes.split_at(start);
            let crc = checksum::extend(checksum::crc(&extension[..EXTENSION_CRC_AT]), &footer[..CRC_AT]);
            bytes[EXTENSION_CRC_AT..EXTENSION_LEN].copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn it_round_trips_and_every_changed_bit_is_refused() {
        let extension = Extension { blocks: 77, padding: 300, align: 9 };
        for footer in [footer(None), footer(Some(extension)), footer(Some(Extension::default()))] {
            let bytes = footer.encode();
            assert_eq!(bytes.len(), footer.len());
            assert_eq!(Footer::decode(&[&[9; 50], &bytes[..]].concat()), Ok(footer.clone()));
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(Footer::decode(&bad).is_err(), "bit {bit}");
            }
            assert!(Footer::decode(&bytes[1..]).is_err());
        }
    }

    #[test]
    fn the_bytes_of_both_versions_stay() {
        let first = footer(None).encode();
        assert_eq!(first[..24], *b"TDBTABLE\x01\0\0\0\x07\0\0\0\x01\x02\x01\x01\x04\0\0\0");
        assert_eq!(first[80..124], [0; 44]);
        assert_eq!(first[124..], checksum::crc(&first[..124]).to_le_bytes());
        let second = footer(Some(Extension { blocks: 0x0102, padding: 0x0304, align: 9 })).encode();
        let mut expected = vec![0; 16];
        expected.extend_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 9]);
        expected.resize(60, 0);
        let crc = checksum::extend(checksum::crc(&expected), &second[64..188]);
        expected.extend_from_slice(&crc.to_le_bytes());
        assert_eq!(second[..64], expected);
        assert_eq!(second[64..72], first[..8]);
        assert_eq!(second[72], 2);
        assert_eq!(second[76..188], first[12..124]);
    }

    #[test]
    fn each_reserved_byte_in_use_is_refused_as_a_later_versions() {
        let bytes = footer(Some(Extension::default())).encode();
        let reserved = (0..16).chain(32..60).chain((80..124).map(|at| EXTENSION_LEN + at));
        for at in reserved {
            let error = Footer::decode(&mended(&bytes, at, 0x40)).expect_err("refused");
            assert!(error.later, "{at}: {error:?}");
            let expected = match at {
                0..16 | 64.. => SEALED_TABLE,
                33 => LATER_BOUNDS,
                _ => LATER_FEATURES,
            };
            assert_eq!(error, expected, "{at}");
        }
        let bytes = footer(None).encode();
        for at in 80..124 {
            assert_eq!(Footer::decode(&mended(&bytes, at, 1)), Err(LATER_FEATURES));
        }
        // An extension of another footer.
        let mut other = footer(Some(Extension::default()));
        other.family += 1;
        let own = footer(Some(Extension::default()));
        let mixed = [&other.encode()[..EXTENSION_LEN], &own.encode()[EXTENSION_LEN..]];
        assert!(Footer::decode(&mixed.concat()).is_err_and(|error| !error.later));
        assert_eq!(Footer::decode(&mended(&bytes, 8, 3)), Err(LATER_VERSION));
    }
}
