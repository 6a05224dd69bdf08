//! The locks in a prepare record besides those on written keys (`docs/format/wal.md`, "locks"). Recovery
//! takes them again, so a prepared transaction excludes others after a restart as before it.
//!
//! Sections have tags, for further kinds of locks. A reader refuses a record with an unknown tag: no lock may
//! be forgotten.

use crate::format::coding::put_varint;
use crate::format::reader::{Malformed, Reader};
use crate::lock::{AdvisoryLock, Mode, Range, TableMode};
use crate::types::FamilyId;

/// The version of the encoding.
const VERSION: u8 = 1;

/// Table locks: for each family a varint and the modes' bits in one byte.
const TABLES: u8 = 1;

/// Ranges, at SERIALIZABLE: for each the family as a varint and the first key. Then either 0 (no end), or 1
/// and the first key after it.
const RANGES: u8 = 2;

/// Advisory locks: for each the family as a varint, the mode in one byte, and the key.
const ADVISORY: u8 = 3;

const SHARED: u8 = 4;
const EXCLUSIVE: u8 = 8;

const MODES: [(TableMode, u8); 4] = [
    (TableMode::IntentShared, 1),
    (TableMode::IntentExclusive, 2),
    (TableMode::Shared, SHARED),
    (TableMode::Exclusive, EXCLUSIVE),
];

/// The locks of a prepared transaction besides its written keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoggedLocks {
    /// Table locks, one for each mode.
    pub tables: Vec<(FamilyId, TableMode)>,
    /// Ranges read by the transaction.
    pub ranges: Vec<Range>,
    /// Locks on keys without a write.
    pub advisory: Vec<AdvisoryLock>,
}

/// The encoding of these locks; empty if there are none.
pub(super) fn encode(locks: &LoggedLocks) -> Vec<u8> {
    let LoggedLocks { tables, ranges, advisory } = locks;
    if tables.is_empty() && ranges.is_empty() && advisory.is_empty() {
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
    if !advisory.is_empty() {
        section.clear();
        for lock in advisory {
            put_varint(&mut section, lock.family.into());
            section.push(if lock.mode == Mode::Exclusive { EXCLUSIVE } else { SHARED });
            put_key(&mut section, &lock.key);
        }
        out.push(ADVISORY);
        put_key(&mut out, &section);
    }
    out
}

fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    put_varint(out, key.len() as u64);
    out.extend_from_slice(key);
}

/// The locks encoded in `bytes`.
pub(crate) fn decode(bytes: &[u8]) -> Result<LoggedLocks, Malformed> {
    let mut locks = LoggedLocks::default();
    if bytes.is_empty() {
        return Ok(locks);
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
                    let family = family(&mut section)?;
                    let bits = section.u8()?;
                    if bits & !15 != 0 {
                        return Err("a mode of a table lock that this build does not know");
                    }
                    let modes = MODES.iter().filter(|(_, bit)| bits & bit != 0);
                    locks.tables.extend(modes.map(|(mode, _)| (family, *mode)));
                }
            }
            RANGES => {
                let mut section = Reader { rest: section };
                while !section.rest.is_empty() {
                    let family = family(&mut section)?;
                    let from = section.bytes()?.to_vec();
                    let to = match section.u8()? {
                        0 => None,
                        1 => Some(section.bytes()?.to_vec()),
                        _ => return Err("an end of a range that this build does not know"),
                    };
                    locks.ranges.push(Range { family, from, to });
                }
            }
            ADVISORY => {
                let mut section = Reader { rest: section };
                while !section.rest.is_empty() {
                    let family = family(&mut section)?;
                    let mode = match section.u8()? {
                        SHARED => Mode::Shared,
                        EXCLUSIVE => Mode::Exclusive,
                        _ => return Err("a mode of an advisory lock that this build does not know"),
                    };
                    locks.advisory.push(AdvisoryLock { family, mode, key: section.bytes()?.to_vec() });
                }
            }
            _ => return Err("locks of a kind that this build does not know"),
        }
    }
    Ok(locks)
}

fn family(section: &mut Reader<'_>) -> Result<FamilyId, Malformed> {
    FamilyId::try_from(section.varint()?).map_err(|_| "a family number is too big")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(tables: &[(FamilyId, TableMode)]) -> LoggedLocks {
        LoggedLocks { tables: tables.to_vec(), ..LoggedLocks::default() }
    }

    #[test]
    fn ranges_come_back() {
        let ranges = vec![
            Range { family: 7, from: Vec::new(), to: None },
            Range { family: 300, from: b"a".to_vec(), to: Some(b"bc".to_vec()) },
        ];
        let locks = LoggedLocks { ranges: ranges.clone(), ..tables(&[(7, TableMode::IntentShared)]) };
        let bytes = encode(&locks);
        assert_eq!(bytes, b"\x01\x01\x02\x07\x01\x02\x0b\x07\x00\x00\xac\x02\x01a\x01\x02bc");
        assert_eq!(decode(&bytes), Ok(locks));
        let alone = LoggedLocks { ranges, ..LoggedLocks::default() };
        assert_eq!(decode(&encode(&alone)), Ok(alone));
    }

    #[test]
    fn advisory_locks_come_back_in_their_modes() {
        let advisory = vec![
            AdvisoryLock { family: 7, mode: Mode::Shared, key: b"ab".to_vec() },
            AdvisoryLock { family: 300, mode: Mode::Exclusive, key: Vec::new() },
        ];
        let locks = LoggedLocks { advisory, ..tables(&[(7, TableMode::IntentShared)]) };
        let bytes = encode(&locks);
        assert_eq!(bytes, b"\x01\x01\x02\x07\x01\x03\x09\x07\x04\x02ab\xac\x02\x08\x00");
        assert_eq!(decode(&bytes), Ok(locks));
        for cut in 1..9 {
            // A cut leaves whole entries only at the end of the first one.
            let mut torn = bytes[..bytes.len() - cut].to_vec();
            torn[6] = 9 - cut as u8;
            assert_eq!(decode(&torn).is_ok(), cut == 4, "{cut}: {torn:?}");
        }
        for mode in [0, 1, 2, 12, 16] {
            assert!(decode(&[1, 3, 3, 7, mode, 0]).is_err(), "mode {mode}");
        }
    }

    #[test]
    fn table_locks_come_back_and_the_unknown_is_refused() {
        assert_eq!(encode(&LoggedLocks::default()), Vec::<u8>::new());
        let locks = tables(&[
            (7, TableMode::IntentShared),
            (300, TableMode::Exclusive),
            (7, TableMode::IntentExclusive),
            (9, TableMode::Shared),
        ]);
        let bytes = encode(&locks);
        assert_eq!(bytes, [1, 1, 7, 7, 3, 0xac, 2, 8, 9, 4]);
        let mut seen = decode(&bytes).expect("decodes").tables;
        let mut all = locks.tables;
        for list in [&mut seen, &mut all] {
            list.sort_by_key(|(family, mode)| (*family, format!("{mode:?}")));
        }
        assert_eq!(seen, all);
        assert_eq!(decode(&[]), Ok(LoggedLocks::default()));
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
