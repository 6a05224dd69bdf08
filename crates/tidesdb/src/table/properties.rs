//! Properties of a table: counts and extremes collected while it is written (`docs/format/table.md`,
//! "Properties").

use super::block::{DecodeError, LATER_PROPERTY};
use super::{SsTableOptions, ValueUse};
use crate::format::coding::{get_bytes, get_varint, put_bytes, put_varint};
use crate::format::value_pointer::ValuePointer;
use crate::options::{BlockCodec, Compression, FormatVersion};
use crate::types::Seq;

/// Lowest tag that readers of version 2 skip when they do not know it.
const FIRST_HINT: u64 = 64;

/// A table's description of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Properties {
    /// Entries, every version counted.
    pub entries: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Smallest key.
    pub min_key: Vec<u8>,
    /// Largest key.
    pub max_key: Vec<u8>,
    /// Smallest sequence number.
    pub min_seq: Seq,
    /// Largest sequence number.
    pub max_seq: Seq,
    /// Bytes of keys and values before compression.
    pub raw_bytes: u64,
    /// Oldest and newest expiry in seconds since 1970, if any entry has one.
    pub expiry: Option<(u64, u64)>,
    /// Number of data blocks.
    pub data_blocks: u64,
    /// Bytes of data blocks on disk, trailers included.
    pub data_bytes: u64,
    /// The options of the table when it was written. `None`: an earlier build did not record them.
    pub options: Option<SsTableOptions>,
    /// The values of the entries in value files, by file, ascending.
    pub values: Vec<ValueUse>,
    /// Bytes of the longest value in an entry; 0 without any. `None`: an earlier build did not record it.
    pub longest_value: Option<u64>,
}

/// Its tag: how the table is read does not depend on it.
const LONGEST_VALUE: u64 = FIRST_HINT;

impl Properties {
    /// An entry has its value in a value file.
    pub(super) fn count_value(&mut self, pointer: &ValuePointer) {
        let values = &mut self.values;
        let at = values.binary_search_by_key(&pointer.file, |of| of.file).unwrap_or_else(|at| {
            values.insert(at, ValueUse { file: pointer.file, values: 0, bytes: 0 });
            at
        });
        values[at].values += 1;
        values[at].bytes += pointer.stored_len;
    }

    /// An entry has its value of `len` bytes itself.
    pub(super) fn count_inline(&mut self, len: usize) {
        self.longest_value = self.longest_value.max(Some(len as u64));
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |tag: u64, value: &[u8]| {
            put_varint(&mut out, tag);
            put_bytes(&mut out, value);
        };
        let number = |value| {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            bytes
        };
        put(1, &number(self.entries));
        put(2, &number(self.keys));
        put(3, &number(self.tombstones));
        put(4, &self.min_key);
        put(5, &self.max_key);
        put(6, &number(self.min_seq));
        put(7, &number(self.max_seq));
        put(8, &number(self.raw_bytes));
        if let Some((oldest, newest)) = self.expiry {
            put(9, &number(oldest));
            put(10, &number(newest));
        }
        put(11, &number(self.data_blocks));
        put(12, &number(self.data_bytes));
        if let Some(options) = &self.options {
            put(13, &encode_options(options));
        }
        if !self.values.is_empty() {
            let mut values = Vec::new();
            ValueUse::put_all(&self.values, &mut values);
            put(14, &values);
        }
        if let Some(longest) = self.longest_value {
            put(LONGEST_VALUE, &number(longest));
        }
        out
    }

    /// Decodes the properties of a table of `version`. Version 2 has tags that must not be skipped.
    pub(super) fn decode(bytes: &[u8], version: FormatVersion) -> Result<Properties, DecodeError> {
        const CUT_SHORT: DecodeError = DecodeError::damage("properties are cut short");
        let mut properties = Properties::default();
        let mut at = 0;
        let mut last_tag = 0;
        while at < bytes.len() {
            let tag = get_varint(bytes, &mut at).ok_or(CUT_SHORT)?;
            let value = get_bytes(bytes, &mut at).ok_or(CUT_SHORT)?;
            if tag <= last_tag {
                return Err(DecodeError::damage("properties are out of order"));
            }
            last_tag = tag;
            let number = || {
                let mut end = 0;
                let number = get_varint(value, &mut end);
                number
                    .filter(|_| end == value.len())
                    .ok_or(DecodeError::damage("a number among the properties"))
            };
            match tag {
                1 => properties.entries = number()?,
                2 => properties.keys = number()?,
                3 => properties.tombstones = number()?,
                4 => properties.min_key = value.to_vec(),
                5 => properties.max_key = value.to_vec(),
                6 => properties.min_seq = number()?,
                7 => properties.max_seq = number()?,
                8 => properties.raw_bytes = number()?,
                9 => properties.expiry = Some((number()?, u64::MAX)),
                10 => {
                    let oldest =
                        properties.expiry.ok_or(DecodeError::damage("a newest expiry without an oldest"))?.0;
                    properties.expiry = Some((oldest, number()?));
                }
                11 => properties.data_blocks = number()?,
                12 => properties.data_bytes = number()?,
                13 => properties.options = decode_options(value),
                14 if version == FormatVersion::Two => {
                    properties.values = decode_values(value).ok_or(CUT_SHORT)?;
                }
                LONGEST_VALUE => properties.longest_value = Some(number()?),
                0..FIRST_HINT if version == FormatVersion::Two => return Err(LATER_PROPERTY),
                _ => {}
            }
        }
        Ok(properties)
    }
}

fn decode_values(bytes: &[u8]) -> Option<Vec<ValueUse>> {
    let mut values = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        values.push(ValueUse::take(|| get_varint(bytes, &mut at).ok_or(())).ok()?);
    }
    Some(values)
}

fn encode_options(options: &SsTableOptions) -> Vec<u8> {
    let mut out = Vec::new();
    let numbers = [
        options.compression as u64,
        options.block_size.into(),
        options.bits_per_key.into(),
        options.prefix_len.into(),
        options.use_btree.into(),
    ];
    // As builds before the codec wrote them, where there is none.
    let codec = (options.block_codec != BlockCodec::Plain).then_some(options.block_codec as u64);
    numbers.into_iter().chain(codec).for_each(|number| put_varint(&mut out, number));
    out
}

/// `None` for options of a later build with unknown fields.
fn decode_options(bytes: &[u8]) -> Option<SsTableOptions> {
    let mut at = 0;
    let mut number = || u32::try_from(get_varint(bytes, &mut at)?).ok();
    let options = SsTableOptions {
        compression: Compression::from_byte(u8::try_from(number()?).ok()?)?,
        block_size: number()?,
        bits_per_key: number()?,
        prefix_len: number()?,
        use_btree: number()? != 0,
        block_codec: BlockCodec::Plain,
    };
    let block_codec = match at < bytes.len() {
        true => BlockCodec::from_byte(u8::try_from(get_varint(bytes, &mut at)?).ok()?)?,
        false => BlockCodec::Plain,
    };
    let options = SsTableOptions { block_codec, ..options };
    (at == bytes.len()).then_some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_round_trip_and_cuts_are_damage_or_fewer_properties() {
        let properties = Properties {
            entries: 1000,
            keys: 900,
            tombstones: 5,
            min_key: b"a".to_vec(),
            max_key: vec![0xff; 300],
            min_seq: 1,
            max_seq: 1 << 50,
            raw_bytes: 123_456_789,
            expiry: Some((7, 9)),
            data_blocks: 3,
            data_bytes: 12_000,
            options: Some(SsTableOptions { prefix_len: 300, ..SsTableOptions::default() }),
            values: vec![
                ValueUse { file: 7, values: 3, bytes: 50_000 },
                ValueUse { file: 900, values: 1, bytes: 1 << 32 },
            ],
            longest_value: Some(70_000),
        };
        let decode = |bytes: &[u8], version| Properties::decode(bytes, version);
        let bytes = properties.encode();
        // Version 1 has no value files.
        let inline = Properties { values: Vec::new(), ..properties.clone() };
        assert_eq!(decode(&bytes, FormatVersion::One), Ok(inline.clone()));
        for (version, properties) in [(FormatVersion::One, &inline), (FormatVersion::Two, &properties)] {
            let bytes = properties.encode();
            assert_eq!(decode(&bytes, version), Ok(properties.clone()));
            for cut in 0..bytes.len() {
                assert_ne!(decode(&bytes[..cut], version), Ok(properties.clone()));
            }
        }
        let known = Properties { longest_value: None, ..properties.clone() };
        for (tag, is_skipped_by_2) in [(15, false), (63, false), (65, true), (99, true), (1 << 40, true)] {
            let mut later = known.encode();
            put_varint(&mut later, tag);
            put_bytes(&mut later, b"unknown");
            assert_eq!(
                decode(&later, FormatVersion::One),
                Ok(Properties { longest_value: None, ..inline.clone() })
            );
            let expected = if is_skipped_by_2 { Ok(known.clone()) } else { Err(LATER_PROPERTY) };
            assert_eq!(decode(&later, FormatVersion::Two), expected, "{tag}");
        }
    }
}
