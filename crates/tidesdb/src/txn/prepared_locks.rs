//! What a prepare record says of the locks that its transaction holds beside its written keys
//! (`docs/format/wal.md`, "locks"): recovery takes them again, so that a prepared transaction keeps others
//! out after a restart as before it.
//!
//! Sections by tag, so that more kinds of locks can be told later. A reader that meets a tag it does not
//! know refuses the record: a lock must not be forgotten.

use crate::lock::TableMode;
use crate::types::FamilyId;
use crate::wal::{put_varint, Cursor, Malformed};

/// The version of the encoding.
const VERSION: u8 = 1;

/// Table locks: for each family a varint and the modes' bits in one byte.
const TABLES: u8 = 1;

/// Kept for ranges (SERIALIZABLE): not written by this version, refused by it.
const RANGES: u8 = 2;

const MODES: [(TableMode, u8); 4] = [
    (TableMode::IntentShared, 1),
    (TableMode::IntentExclusive, 2),
    (TableMode::Shared, 4),
    (TableMode::Exclusive, 8),
];

/// The bytes that tell these table locks; empty when there is none.
pub(super) fn encode(tables: &[(FamilyId, TableMode)]) -> Vec<u8> {
    if tables.is_empty() {
        return Vec::new();
    }
    let mut families: Vec<(FamilyId, u8)> = Vec::new();
    for (family, mode) in tables {
        let bit = MODES.iter().find(|(known, _)| known == mode).map_or(0, |(_, bit)| *bit);
        match families.iter_mut().find(|(known, _)| known == family) {
            Some((_, bits)) => *bits |= bit,
            None => families.push((*family, bit)),
        }
    }
    let mut section = Vec::new();
    for (family, bits) in families {
        put_varint(&mut section, family.into());
        section.push(bits);
    }
    let mut out = vec![VERSION, TABLES];
    put_varint(&mut out, section.len() as u64);
    out.extend_from_slice(&section);
    out
}

/// The table locks that `bytes` tell.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(FamilyId, TableMode)>, Malformed> {
    let mut tables = Vec::new();
    if bytes.is_empty() {
        return Ok(tables);
    }
    let mut cursor = Cursor { rest: bytes };
    if cursor.u8()? != VERSION {
        return Err("locks in an encoding that this build does not know");
    }
    while !cursor.rest.is_empty() {
        let (tag, section) = (cursor.u8()?, cursor.bytes()?);
        match tag {
            TABLES => {
                let mut section = Cursor { rest: section };
                while !section.rest.is_empty() {
                    let family = section.varint()?;
                    let family = FamilyId::try_from(family).map_err(|_| "a family number is too big")?;
                    let bits = section.u8()?;
                    if bits & !15 != 0 {
                        return Err("a mode of a table lock that this build does not know");
                    }
                    let modes = MODES.iter().filter(|(_, bit)| bits & bit != 0);
                    tables.extend(modes.map(|(mode, _)| (family, *mode)));
                }
            }
            RANGES => return Err("range locks, which this build does not take again"),
            _ => return Err("locks of a kind that this build does not know"),
        }
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_locks_come_back_and_the_unknown_is_refused() {
        assert_eq!(encode(&[]), Vec::<u8>::new());
        let tables = [
            (7, TableMode::IntentShared),
            (300, TableMode::Exclusive),
            (7, TableMode::IntentExclusive),
            (9, TableMode::Shared),
        ];
        let bytes = encode(&tables);
        assert_eq!(bytes, [1, 1, 7, 7, 3, 0xac, 2, 8, 9, 4]);
        let mut seen = decode(&bytes).expect("decodes");
        let mut all = tables.to_vec();
        for list in [&mut seen, &mut all] {
            list.sort_by_key(|(family, mode)| (*family, format!("{mode:?}")));
        }
        assert_eq!(seen, all);
        assert_eq!(decode(&[]), Ok(vec![]));
        for bad in [&[2u8][..], &[1, 2, 0], &[1, 9, 0], &[1, 1, 2, 7], &[1, 1, 2, 7, 16], &[1, 1, 5, 7, 1]] {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
    }
}
