//! Entries with an expiry. The first eight bytes of the stored value are the time of expiry in seconds since
//! 1970; the caller's value follows (`docs/format.md`, "Expiry"). The entry passes through log, memtables,
//! runs and tables as bytes. Only reads and rewrites look at the time.
//!
//! An entry is live while its time is above the reader's ([`crate::store::ttl_clock`]).

use crate::types::{Entry, Kind};

/// Bytes of the time in front of a value.
pub(crate) const EXPIRY_LEN: usize = 8;

/// The time of an entry's expiry in seconds since 1970; 0: never.
pub(crate) fn expiry_of(kind: Kind, stored: &[u8]) -> u64 {
    match stored.first_chunk() {
        Some(bytes) if kind.has_expiry() => u64::from_le_bytes(*bytes),
        _ => 0,
    }
}

/// The caller's value in a stored one.
pub(crate) fn value_of(kind: Kind, stored: &[u8]) -> &[u8] {
    match stored.get(EXPIRY_LEN..) {
        Some(value) if kind.has_expiry() => value,
        _ => stored,
    }
}

/// True if an entry exists at `now`, in seconds since 1970. `now` is called only for entries with an expiry.
pub(crate) fn is_live(kind: Kind, stored: &[u8], now: impl FnOnce() -> u64) -> bool {
    if !kind.has_expiry() {
        return !kind.is_tombstone();
    }
    expiry_of(kind, stored) > now()
}

/// The entry, or its tombstone if it has expired for every reader: older versions stay hidden. The flag is
/// true for a tombstone made here.
pub(crate) fn buried<'a>(entry: Entry<'a>, expired_at: u64) -> (Entry<'a>, bool) {
    if entry.kind.has_expiry() && expiry_of(entry.kind, entry.value) <= expired_at {
        return (Entry { seq: entry.seq, kind: Kind::DELETE, value: &[] }, true);
    }
    (entry, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_lives_until_its_second() {
        let stored = [&9u64.to_le_bytes()[..], b"row"].concat();
        let kind = Kind::PUT.with_expiry();
        assert_eq!((expiry_of(kind, &stored), value_of(kind, &stored)), (9, &b"row"[..]));
        assert!(is_live(kind, &stored, || 8) && !is_live(kind, &stored, || 9));
        assert_eq!((expiry_of(Kind::PUT, &stored), value_of(Kind::PUT, b"row")), (0, &b"row"[..]));
        assert!(is_live(Kind::PUT, b"", || unreachable!("no clock for entries without an expiry")));
        let entry = Entry { seq: 5, kind, value: &stored };
        assert_eq!(buried(entry, 8), (entry, false));
        assert_eq!(buried(entry, 9), (Entry { seq: 5, kind: Kind::DELETE, value: &[] }, true));
    }
}
