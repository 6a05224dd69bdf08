//! The dictionary's entries, to bytes and back (`docs/format/dictionary.md`). They are ordinary keys of the
//! system family, so log, memtable, files and recovery treat them like other data.

use crate::error::{Error, Result};
use crate::options::{BlockCodec, Compression, FamilyOptions, SyncMode};
use crate::types::FamilyId;

/// Version of the entry format.
const VERSION: u8 = 1;

/// Key of the next family number.
pub(crate) const NEXT_FAMILY: &[u8] = b"n";

/// Longest name of a family in bytes.
pub const MAX_NAME_LEN: usize = 1024;

/// A family's entry in the dictionary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FamilyEntry {
    pub id: FamilyId,
    pub options: FamilyOptions,
    pub record: Vec<u8>,
}

pub(crate) fn family_key(name: &[u8]) -> Vec<u8> {
    [b"f", name].concat()
}

/// The name in a key made by [`family_key`].
pub(crate) fn family_name(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(b"f")
}

pub(crate) fn counter_key(family: FamilyId, counter: u32) -> Vec<u8> {
    let mut key = vec![b'c'];
    key.extend_from_slice(&family.to_be_bytes());
    key.push(counter as u8);
    key
}

pub(crate) fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}

impl FamilyEntry {
    /// The bytes of the entry.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let o = &self.options;
        let mut fields: Vec<(u8, u64)> = vec![
            (1, o.compression as u64),
            (2, o.block_size.into()),
            (3, o.bloom_filter.into()),
            (4, o.bloom_fpr.into()),
            (5, o.prefix_len.into()),
            (6, o.use_btree.into()),
            (7, o.l0_compaction_trigger.into()),
            (8, o.l0_stall_threshold.into()),
            (9, o.level_size_ratio.into()),
            (10, o.min_levels.into()),
            (11, o.tombstone_density_trigger.into()),
            (12, o.tombstone_density_min_entries),
        ];
        if let Some(mode) = o.sync_mode {
            fields.push((13, mode as u64));
        }
        if o.sync_interval_us != 0 {
            fields.push((14, o.sync_interval_us));
        }
        if o.value_threshold != 0 {
            fields.push((15, o.value_threshold.into()));
        }
        if o.block_codec != BlockCodec::Plain {
            fields.push((16, o.block_codec as u64));
        }
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.id.to_le_bytes());
        out.push(fields.len() as u8);
        for (tag, value) in fields {
            out.push(tag);
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.record);
        out
    }

    /// Decodes an entry; the error describes the fault.
    pub(crate) fn decode(bytes: &[u8]) -> Result<FamilyEntry> {
        let damage = |what: &str| Error::corruption("dictionary", 0, format!("a family's entry {what}"));
        let later = |what: &str| Error::later_version("the dictionary", format!("a family's entry {what}"));
        let (&version, rest) = bytes.split_first().ok_or_else(|| damage("is empty"))?;
        if version != VERSION {
            return Err(later(&format!("has version {version}; this build knows {VERSION}")));
        }
        let (id, rest) = rest.split_first_chunk::<4>().ok_or_else(|| damage("ends early"))?;
        let (&count, mut rest) = rest.split_first().ok_or_else(|| damage("ends early"))?;
        let mut o = FamilyOptions::default();
        for _ in 0..count {
            let (&tag, after) = rest.split_first().ok_or_else(|| damage("ends early"))?;
            let (value, after) = after.split_first_chunk::<8>().ok_or_else(|| damage("ends early"))?;
            let value = u64::from_le_bytes(*value);
            rest = after;
            let small = u32::try_from(value).map_err(|_| damage("has an option out of range"));
            match tag {
                1 => {
                    o.compression = u8::try_from(value)
                        .ok()
                        .and_then(Compression::from_byte)
                        .ok_or_else(|| later("names a compression that this build lacks"))?;
                }
                2 => o.block_size = small?,
                3 => o.bloom_filter = value != 0,
                4 => o.bloom_fpr = small?,
                5 => o.prefix_len = small?,
                6 => o.use_btree = value != 0,
                7 => o.l0_compaction_trigger = small?,
                8 => o.l0_stall_threshold = small?,
                9 => o.level_size_ratio = small?,
                10 => o.min_levels = small?,
                11 => o.tombstone_density_trigger = small?,
                12 => o.tombstone_density_min_entries = value,
                13 => {
                    o.sync_mode = Some(match value {
                        0 => SyncMode::None,
                        1 => SyncMode::Interval,
                        2 => SyncMode::Full,
                        _ => return Err(later("has an unknown sync mode")),
                    });
                }
                14 => o.sync_interval_us = value,
                15 => o.value_threshold = small?,
                16 => {
                    o.block_codec = u8::try_from(value)
                        .ok()
                        .and_then(BlockCodec::from_byte)
                        .ok_or_else(|| later("names a block codec that this build lacks"))?;
                }
                other => return Err(later(&format!("has the unknown option number {other}"))),
            }
        }
        Ok(FamilyEntry { id: FamilyId::from_le_bytes(*id), options: o, record: rest.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_damage_is_named() {
        let entry = FamilyEntry {
            id: 77,
            options: FamilyOptions {
                compression: Compression::None,
                prefix_len: 5,
                sync_mode: Some(SyncMode::Interval),
                sync_interval_us: 5000,
                value_threshold: 4096,
                block_codec: BlockCodec::Postings,
                ..FamilyOptions::default()
            },
            record: b"opaque".to_vec(),
        };
        let bytes = entry.encode();
        assert_eq!(FamilyEntry::decode(&bytes).expect("decodes"), entry);
        for end in 0..bytes.len() - entry.record.len() {
            assert!(FamilyEntry::decode(&bytes[..end]).is_err(), "a cut at {end} is refused");
        }
        let mut wrong = bytes;
        wrong[0] = 9;
        let message = FamilyEntry::decode(&wrong).expect_err("refused").to_string();
        assert!(message.contains("later version") && message.contains("version 9"), "{message}");
    }

    #[test]
    fn keys_of_families_and_counters_keep_apart() {
        assert_eq!(family_name(&family_key(b"db/t")), Some(&b"db/t"[..]));
        assert_eq!(counter_key(258, 3), b"c\0\0\x01\x02\x03");
        assert_eq!(family_name(&counter_key(258, 3)), None);
    }
}
