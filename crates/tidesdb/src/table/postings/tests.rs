//! Round trips, damage, and sizes.

use proptest::prelude::*;

use super::super::data_block::{put_version, CONTINUED, CONTINUES};
use super::super::keyed_block::{KeyedBlock, KeyedBuilder};
use super::unpack::FoundEntry;
use super::*;
use crate::types;

type Version = (u64, Kind, Vec<u8>);

fn payload_of(keys: &[(Vec<u8>, Version)], flags: u32) -> Vec<u8> {
    let mut builder = KeyedBuilder::default();
    for (key, (seq, kind, value)) in keys {
        builder.push(key);
        put_version(builder.body(), &types::Entry::new(*seq, *kind, value), None);
    }
    let mut payload = Vec::new();
    builder.finish(flags, &mut payload);
    payload
}

fn packed(payload: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![1, 2, 3];
    PostingsPacker::default().pack(payload, &mut out).then_some(out)
}

fn unpacked(packed: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = vec![0xff; unpacked_len(packed)?];
    unpack(packed, &mut out)?;
    Ok(out)
}

fn value(class: u8, numbers: &[u64]) -> Vec<u8> {
    let mut value = vec![class];
    numbers.iter().for_each(|number| put_varint(&mut value, *number));
    value
}

/// Rows with a word, each with one or two positions.
fn list(term: &[u8], rows: impl Iterator<Item = u32>) -> Vec<(Vec<u8>, Version)> {
    rows.map(|row| {
        let numbers = [u64::from(row * 7 % 140), u64::from(row % 40)];
        let value = value(40 + (row % 9) as u8, &numbers[..1 + usize::from(row % 5 == 0)]);
        ([term, &row.to_be_bytes()].concat(), (0, Kind::PUT, value))
    })
    .collect()
}

#[test]
fn a_list_takes_a_sixth_of_its_keyed_block() {
    let keys: Vec<_> =
        [list(b"common\0\x01", (0..2000).step_by(3)), list(b"rare\0\x01", (5..90_000).step_by(4001))]
            .concat();
    let payload = payload_of(&keys, 0);
    let packed = packed(&payload).unwrap();
    assert_eq!(unpacked(&packed).unwrap(), payload);
    assert!(packed.len() * 6 < payload.len(), "{} of {}", packed.len(), payload.len());
    // Bytes for each entry: gap, class, number of positions, and they.
    assert!(packed.len() < keys.len() * 4, "{} for {}", packed.len(), keys.len());
}

#[test]
fn other_entries_stay_as_they_are() {
    let put = |value: &[u8]| vec![(b"k".to_vec(), (1, Kind::PUT, value.to_vec()))];
    // No number, a varint that is cut short, and one that is longer than it has to be.
    for value in [&[][..], &[3], &[3, 0x80], &[3, 0x80, 0]] {
        assert!(packed(&payload_of(&put(value), 0)).is_none(), "{value:?}");
    }
    let expiry = vec![(b"k".to_vec(), (1, Kind::PUT.with_expiry(), vec![1; 10]))];
    assert!(packed(&payload_of(&expiry, 0)).is_none());
    let far =
        [(b"a".to_vec(), (0, Kind::PUT, vec![1, 1])), (b"b".to_vec(), (1 << 40, Kind::PUT, vec![1, 1]))];
    assert!(packed(&payload_of(&far, 0)).is_none());
    let mut two = KeyedBuilder::default();
    two.push(b"k");
    let newer = put_version(two.body(), &types::Entry::new(2, Kind::PUT, &[1, 1]), None);
    put_version(two.body(), &types::Entry::new(1, Kind::PUT, &[1, 1]), Some(newer));
    let mut payload = Vec::new();
    two.finish(0, &mut payload);
    assert!(packed(&payload).is_none());
}

#[test]
fn a_large_payload_stays_as_it_is() {
    let payload = payload_of(&list(b"t", 0..60_000), 0);
    assert!(payload.len() > MOST_UNPACKED && packed(&payload).is_none());
}

fn keys() -> impl Strategy<Value = Vec<(Vec<u8>, Version)>> {
    let key = (
        prop::sample::select(vec!["", "a", "ab", "b\0\x01", "long long long term"]),
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..12),
            any::<u16>().prop_map(|row| u32::from(row).to_be_bytes().to_vec()),
            any::<u8>().prop_map(|row| u64::from(row).to_be_bytes().to_vec()),
            prop::sample::select(vec![0, 1, u64::MAX - 1, u64::MAX])
                .prop_map(|row| row.to_be_bytes().to_vec()),
        ],
    );
    let numbers = prop::collection::vec(prop_oneof![0..200u64, any::<u64>()], 1..6);
    let version =
        (0..1u64 << 31, 0..8u8, any::<u8>(), numbers).prop_map(|(seq, kind, class, numbers)| match kind {
            0 => (seq, Kind::DELETE, Vec::new()),
            1 => (seq, Kind::SINGLE_DELETE, Vec::new()),
            2 => (seq, Kind::PUT.marked_may_overwrite(), value(class, &numbers)),
            _ => (0, Kind::PUT, value(class, &numbers)),
        });
    prop::collection::btree_map(key.prop_map(|(term, row)| [term.as_bytes(), &row].concat()), version, 1..80)
        .prop_map(|keys| keys.into_iter().collect())
}

proptest! {
    #[test]
    fn payloads_come_back_byte_for_byte(keys in keys(), flags in 0..4u32) {
        let payload = payload_of(&keys, flags);
        let Some(packed) = packed(&payload) else {
            // Few keys, of which each has a group.
            prop_assert!(keys.len() < 40);
            return Ok(());
        };
        prop_assert!(is_packed(&packed) && !is_packed(&payload));
        prop_assert_eq!(unpacked(&packed), Ok(payload));
        for (place, (key, (seq, kind, value))) in keys.iter().enumerate() {
            let goes_on = place + 1 == keys.len() && flags & CONTINUED != 0;
            let entry = FoundEntry { seq: *seq, kind: *kind, value: value.clone(), goes_on };
            prop_assert_eq!(find(&packed, key), Ok(Some(entry)));
            for other in [[&key[..], b"\0"].concat(), key[..key.len() / 2].to_vec()] {
                let is_there = keys.iter().any(|(key, _)| *key == other);
                prop_assert_eq!(find(&packed, &other).map(|found| found.is_some()), Ok(is_there));
            }
        }
    }

    #[test]
    fn damage_never_panics(keys in keys(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0..40usize) {
        let Some(mut packed) = packed(&payload_of(&keys, 0)) else { return Ok(()) };
        packed.truncate(packed.len().saturating_sub(cut / 2));
        let at = at.index(packed.len());
        packed[at] = byte;
        for (key, _) in &keys {
            let _ = find(&packed, key);
        }
        if let Ok(payload) = unpacked(&packed) {
            // Other numbers, in a block that is whole.
            KeyedBlock::parse(&payload).unwrap().check(CONTINUES | CONTINUED).unwrap();
        }
    }
}
