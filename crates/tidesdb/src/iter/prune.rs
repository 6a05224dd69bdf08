//! Decides which versions a flush or compaction keeps: those that some snapshot can still read. The rules are
//! those of `docs/protocols.md` 3.2 and 3.5.
//!
//! - A version hidden from every snapshot by its successor is dropped. The survivor before it is marked: a
//!   put "may overwrite"; a single delete becomes a plain delete, because its put is gone.
//! - A single delete at or below the oldest snapshot is dropped together with the put next below it. The put
//!   must not be marked "may overwrite": the key then does not exist below the pair either. Inputs of a
//!   rewrite are neighbours in age, so the next version in the rewrite is the next of all.
//! - A tombstone at or below the oldest snapshot is dropped if no run below has its key. It hides all older
//!   versions in this rewrite, and a conflict check looks only above the oldest snapshot.
//! - A put that has expired for every reader becomes a tombstone of its sequence number: older versions stay
//!   hidden. Every rewrite does this alike, so none of a key's versions comes back.
//! - Any other entry at or below the oldest snapshot loses its sequence number (0) if no run below has its
//!   key.
//! - A repeated entry (same key, same sequence number) is written once.

use crate::error::Result;
use crate::iter::{LiveSnapshots, VersionIterator};
use crate::mutant::{self, Mutant};
use crate::types::{proves, Entry, Kind, Op, Seq};
use crate::value::{tombstone_if_expired, without_expiry};

/// Entries between two calls of [`Rewrite::tick`].
pub const TICK: u64 = 256;

/// The receiver of a rewrite's surviving entries.
pub trait Rewrite {
    /// True if a run below the rewritten ones may have `key`. Called with ascending keys, and not for every
    /// key.
    fn below(&mut self, key: &[u8]) -> bool;
    /// Takes a surviving entry.
    fn keep(&mut self, key: &[u8], entry: Entry<'_>) -> Result<()>;
    /// Called every [`TICK`] entries with the bytes read since the last call. May wait; an error ends the
    /// rewrite.
    fn tick(&mut self, bytes: u64) -> Result<()>;
}

/// Counts of a rewrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries read.
    pub read: u64,
    /// Bytes of keys and values read.
    pub bytes: u64,
    /// Entries kept.
    pub kept: u64,
    /// Entries hidden from every snapshot, or repeated.
    pub hidden: u64,
    /// Dropped tombstones, with nothing left to hide.
    pub tombstones: u64,
    /// Single deletes dropped with the put below them; these puts count as hidden.
    pub cancelled: u64,
    /// Puts expired for every reader.
    pub expired: u64,
    /// Greatest sequence number read.
    pub max_seq: Seq,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.read += other.read;
        self.bytes += other.bytes;
        self.kept += other.kept;
        self.hidden += other.hidden;
        self.tombstones += other.tombstones;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.max_seq = self.max_seq.max(other.max_seq);
    }
}

/// Reads `iter` from its first entry to its last and passes on the entries needed by `live`.
pub fn rewrite(iter: &mut dyn VersionIterator, live: &LiveSnapshots, to: &mut dyn Rewrite) -> Result<Counts> {
    let oldest_snapshot = live.oldest_snapshot();
    let mut counts = Counts::default();
    let mut last_tick = 0;
    // The newest version of the key that is not handed on yet; its key; the sequence number read last.
    let mut pending: Option<(Seq, Kind)> = None;
    let mut key: Vec<u8> = Vec::new();
    let mut value: Vec<u8> = Vec::new();
    let mut newer = 0;
    // The entry read last was the put of a cancelled pair: `pending` is empty, and `key` is still its key.
    let mut cancelled = false;

    iter.seek(&[])?;
    while iter.valid() {
        let (entry, expired) = tombstone_if_expired(iter.entry(), live.expired_at);
        let same_key = (pending.is_some() || cancelled) && iter.key() == key.as_slice();
        counts.read += 1;
        counts.expired += u64::from(expired);
        counts.bytes += (iter.key().len() + iter.entry().stored().len()) as u64;
        counts.max_seq = counts.max_seq.max(entry.seq);
        let mut dropped = same_key && entry.seq == newer;
        dropped |= expired && mutant::is(Mutant::ExpiredVersionDropped);
        if let (true, false, Some((seq, kind))) = (same_key, dropped, &mut pending) {
            if live.hidden(entry.seq, newer) || mutant::is(Mutant::HeldVersionPruned) {
                dropped = true;
                if *seq <= oldest_snapshot
                    && kind.cancels(entry.kind)
                    && proves(entry.seq, live.unproven_upto)
                {
                    counts.cancelled += 1;
                    cancelled = true;
                    pending = None;
                } else {
                    *kind = over_dropped(*kind);
                }
            }
        }
        newer = entry.seq;
        if dropped {
            counts.hidden += 1;
        } else {
            if let Some((seq, kind)) = pending {
                if same_key {
                    counts.kept += 1;
                    to.keep(&key, Entry::new(seq, kind, &value))?;
                } else {
                    finish_key(&key, Entry::new(seq, kind, &value), oldest_snapshot, to, &mut counts)?;
                }
            }
            // The cancelled put was a proven insertion (`docs/design/0020-single-deletes.md`).
            debug_assert!(
                !(cancelled && same_key) || entry.kind.is_tombstone(),
                "a row below a proven insertion"
            );
            if !same_key {
                key.clear();
                key.extend_from_slice(iter.key());
            }
            value.clear();
            value.extend_from_slice(entry.stored());
            pending = Some((entry.seq, entry.kind));
            cancelled = false;
        }
        if counts.read % TICK == 0 {
            to.tick(counts.bytes - last_tick)?;
            last_tick = counts.bytes;
        }
        iter.next()?;
    }
    if let Some((seq, kind)) = pending {
        finish_key(&key, Entry::new(seq, kind, &value), oldest_snapshot, to, &mut counts)?;
    }
    to.tick(counts.bytes - last_tick)?;
    Ok(counts)
}

/// The kind of a survivor with a dropped version below it.
fn over_dropped(kind: Kind) -> Kind {
    match kind.op() {
        Op::Put => kind.marked_may_overwrite(),
        Op::Delete => kind,
        Op::SingleDelete => Kind::DELETE,
    }
}

/// Passes on the oldest surviving version of a key.
fn finish_key(
    key: &[u8],
    mut entry: Entry<'_>,
    oldest_snapshot: Seq,
    to: &mut dyn Rewrite,
    counts: &mut Counts,
) -> Result<()> {
    let is_held = entry.seq > oldest_snapshot && !mutant::is(Mutant::HeldTombstonePruned);
    if !is_held && !to.below(key) {
        if entry.kind.is_tombstone() {
            counts.tombstones += 1;
            return Ok(());
        }
        entry.seq = 0;
    }
    if mutant::is(Mutant::ExpiryLostByRewrite) {
        entry = without_expiry(entry);
    }
    counts.kept += 1;
    to.keep(key, entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iter::vec_iterator::{OwnedVersion, VecVersionIterator};

    #[derive(Default)]
    struct Kept {
        below: bool,
        entries: Vec<OwnedVersion>,
    }

    impl Rewrite for Kept {
        fn below(&mut self, _: &[u8]) -> bool {
            self.below
        }
        fn keep(&mut self, key: &[u8], e: Entry<'_>) -> Result<()> {
            self.entries.push((key.to_vec(), e.seq, e.kind, e.stored().to_vec()));
            Ok(())
        }
        fn tick(&mut self, _: u64) -> Result<()> {
            Ok(())
        }
    }

    /// The second of expiry for puts marked `x` below.
    const EXPIRED_AT: u64 = 100;

    /// "9P 7D 3S" is the chain of one key: sequence number and P(ut), D(elete), S(ingle delete). `+` marks
    /// "may overwrite", `Px` is a put expired at [`EXPIRED_AT`], `Py` one with an expiry a second later.
    fn rewritten(chain: &str, scan_bound: Seq, held: &[Seq], below: bool) -> String {
        let entries = chain.split_whitespace().map(|word| {
            let (number, rest) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap());
            let (mut value, expires) = (Vec::new(), u64::from(rest == "Py"));
            if rest.len() > 1 && rest != "P+" {
                value = (EXPIRED_AT + expires).to_le_bytes().to_vec();
            }
            let kind = match rest {
                "Px" | "Py" => Kind::PUT.with_expiry(),
                "P" => Kind::PUT,
                "P+" => Kind::PUT.marked_may_overwrite(),
                "D" => Kind::DELETE,
                _ => Kind::SINGLE_DELETE,
            };
            (b"k".to_vec(), number.parse().unwrap(), kind, value)
        });
        let mut kept = Kept { below, ..Kept::default() };
        let live =
            LiveSnapshots { scan_bound, held: held.to_vec(), expired_at: EXPIRED_AT, unproven_upto: 0 };
        rewrite(&mut VecVersionIterator::new(entries.collect()), &live, &mut kept).unwrap();
        let words = kept.entries.iter().map(|(_, seq, kind, _)| {
            let letter = match kind.op() {
                Op::Put => "P",
                Op::Delete => "D",
                Op::SingleDelete => "S",
            };
            let expires = if kind.has_expiry() { "y" } else { "" };
            format!("{seq}{letter}{}{expires}", if kind.may_overwrite() { "+" } else { "" })
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn table_of_chains() {
        let above = [
            // chain, scan bound, held, with runs below
            ("9P", 10, &[][..], "9P"),
            ("9P 7P 3P", 10, &[], "9P+"),
            ("9P 7P 3P", 10, &[8], "9P 7P+"),
            ("9P 7P 3P", 10, &[3], "9P+ 3P"),
            ("9P 7P 3P", 8, &[], "9P 7P+"),
            ("9P 7P 3P", 2, &[], "9P 7P 3P"),
            ("9D 7P", 10, &[], "9D"),
            ("9S 7P", 10, &[], ""),
            ("9S 7P+", 10, &[], "9D"),
            ("9S 7P", 8, &[], "9S 7P"),
            ("9S 7P", 10, &[8], "9S 7P"),
            ("9S 7P", 10, &[7], "9S 7P"),
            ("9S 7P", 10, &[9], ""),
            ("9S 7P", 10, &[5], "9D"),
            ("9S 7P 5D", 10, &[], "5D"),
            ("9S 7P 5D 3P", 10, &[], "5D"),
            ("9S 7P 5S 3P", 10, &[], ""),
            ("9S 7P 5S 3P+", 10, &[], "5D"),
            ("9S 7P 5S 3P", 10, &[4], "9D 3P"),
            ("12P 9S 7P", 12, &[10], "12P"),
            ("12P 9S 7P", 12, &[], "12P+"),
            ("9D 7P", 10, &[], "9D"),
            ("9S 7Px", 10, &[], "9D"),
            ("9S 7Py", 10, &[], ""),
            ("9P 7S 3P", 10, &[], "9P+"),
            ("9P 7S 3P", 10, &[7], "9P"),
            ("9P 7S 3P+", 10, &[7], "9P 7D"),
            ("9P 7D", 10, &[], "9P+"),
            ("9Px", 10, &[], "9D"),
            ("9Py", 10, &[], "9Py"),
            ("9Px 7P", 10, &[], "9D"),
            ("9Px 7P", 10, &[8], "9D 7P"),
            ("9Px 7P", 8, &[], "9D 7P"),
            ("9P 7Px 3P", 10, &[7], "9P 7D"),
        ];
        for (chain, scan_bound, held, expected) in above {
            assert_eq!(
                rewritten(chain, scan_bound, held, true),
                expected,
                "{chain} at {scan_bound} {held:?}"
            );
        }
        let bottom = [
            ("9P", 10, &[][..], "0P"),
            ("9P", 8, &[], "9P"),
            ("9D", 10, &[], ""),
            ("9D", 8, &[], "9D"),
            ("9D 7P", 10, &[], ""),
            ("9D 7P", 10, &[8], "9D 0P"),
            ("9D 7D 3P", 10, &[8], "9D"),
            ("9P 7D 3P", 10, &[7], "9P"),
            ("9P 7S 3P", 10, &[6], "9P+ 0P"),
            ("9P 7P", 8, &[], "9P 0P"),
            ("9P 7P", 10, &[5], "9P+"),
            ("9Px", 10, &[], ""),
            ("9Px 7P", 10, &[], ""),
            ("9Px 7P", 10, &[8], "9D 0P"),
            ("9Px", 8, &[], "9D"),
            ("9Py", 10, &[], "0Py"),
            ("9P 7Px", 10, &[7], "9P"),
        ];
        for (chain, scan_bound, held, expected) in bottom {
            assert_eq!(
                rewritten(chain, scan_bound, held, false),
                expected,
                "bottom: {chain} at {scan_bound} {held:?}"
            );
        }
    }
}
