//! What a prepare record says of the locks that its transaction holds beside its written keys
//! (`docs/format/wal.md`, "locks"): recovery takes them again, so that a prepared transaction keeps others
//! out after a restart as before it.
//!
//! Sections by tag, so that more kinds of locks can be told later. A reader that meets a tag it does not
//! know refuses the record: a lock must not be forgotten.

use crate::format::coding::put_varint;
use crate::format::reader::{Malformed, Reader};
use crate::lock::{Range, TableMode};
use crate::types::FamilyId;

/// The version of the encoding.
const VERSION: u8 = 1;

/// Table locks: for each family a varint and the modes' bits in one byte.
const TABLES: u8 = 1;

/// Ranges, at SERIALIZABLE: for each the family as a varint, the first key, and either 0 (no end) or 1 and the
/// first key after it.
const RANGES: u8 = 2;

const MODES: [(TableMode, u8); 4] = [
    (TableMode::IntentShared, 1),
    (TableMode::IntentExclusive, 2),
    (TableMode::Shared, 4),
    (TableMode::Exclusive, 8),
];

/// Table locks and ranges.
pub(crate) type Held = (Vec<(FamilyId, TableMode)>, Vec<Range>);

/// The bytes that tell these locks; empty when there is none.
pub(super) fn encode(tables: &[(FamilyId, TableMode)], ranges: &[Range]) -> Vec<u8> {
    if tables.is_empty() && ranges.is_empty() {
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
    if !ranges.is_empty() {
        section.clear();
        for range in ranges {
            put_varint(&mut section, range.family.into());
            put_key(&mut section, &range.from);
            section.push(u8::from(range.to.is_some()));
            if let Some(to) = &range.to {
                put_key(&mut section, to);
            }
        }
        out.push(RANGES);
        put_key(&mut out, &section);
    }
    out
}

fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    put_varint(out, key.len() as u64);
    out.extend_from_slice(key);
}

/// The table locks and ranges that `bytes` tell.
pub(crate) fn decode(bytes: &[u8]) -> Result<Held, Malformed> {
    let (mut tables, mut ranges) = (Vec::new(), Vec::new());
    if bytes.is_empty() {
        return Ok((tables, ranges));
    }
    let mut cursor = Reader { rest: bytes };
    if cursor.u8()? != VERSION {
        return Err("locks in an encoding that this build does not know");
    }
    while !cursor.rest.is_empty() {
        let (tag, section) = (cursor.u8()?, cursor.bytes()?);
        match tag {
            TABLES => {
                let mut section = Reader { rest: section };
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
            RANGES => {
                let mut section = Reader { rest: section };
                while !section.rest.is_empty() {
                    let family = section.varint()?;
                    let family = FamilyId::try_from(family).map_err(|_| "a family number is too big")?;
                    let from = section.bytes()?.to_vec();
                    let to = match section.u8()? {
                        0 => None,
                        1 => Some(section.bytes()?.to_vec()),
                        _ => return Err("an end of a range that this build does not know"),
                    };
                    ranges.push(Range { family, from, to });
                }
            }
            _ => return Err("locks of a kind that this build does not know"),
        }
    }
    Ok((tables, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_back() {
        let ranges = [
            Range { family: 7, from: Vec::new(), to: None },
            Range { family: 300, from: b"a".to_vec(), to: Some(b"bc".to_vec()) },
        ];
        let bytes = encode(&[(7, TableMode::IntentShared)], &ranges);
        assert_eq!(bytes, b"\x01\x01\x02\x07\x01\x02\x0b\x07\x00\x00\xac\x02\x01a\x01\x02bc");
        let (tables, seen) = decode(&bytes).expect("decodes");
        assert_eq!((tables.len(), &seen[..]), (1, &ranges[..]));
        assert_eq!(decode(&encode(&[], &ranges)).expect("decodes").1, ranges);
    }

    #[test]
    fn table_locks_come_back_and_the_unknown_is_refused() {
        assert_eq!(encode(&[], &[]), Vec::<u8>::new());
        let tables = [
            (7, TableMode::IntentShared),
            (300, TableMode::Exclusive),
            (7, TableMode::IntentExclusive),
            (9, TableMode::Shared),
        ];
        let bytes = encode(&tables, &[]);
        assert_eq!(bytes, [1, 1, 7, 7, 3, 0xac, 2, 8, 9, 4]);
        let mut seen = decode(&bytes).expect("decodes").0;
        let mut all = tables.to_vec();
        for list in [&mut seen, &mut all] {
            list.sort_by_key(|(family, mode)| (*family, format!("{mode:?}")));
        }
        assert_eq!(seen, all);
        assert_eq!(decode(&[]), Ok((vec![], vec![])));
        for bad in [
            &[2u8][..],
            &[1, 2, 1, 7],
            &[1, 2, 4, 7, 1, 9, 2],
            &[1, 9, 0],
            &[1, 1, 2, 7],
            &[1, 1, 2, 7, 16],
            &[1, 1, 5, 7, 1],
        ] {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
    }
}
