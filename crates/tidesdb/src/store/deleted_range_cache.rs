//! Ranges of deleted keys, found by scans, so the next scan does not pass the same tombstones again. In a
//! queue, rows are inserted at one end and deleted at the other. With this cache, finding the first row takes
//! no longer than without deletions; InnoDB's purge does the same for its B-trees.
//!
//! A scan that passed many deleted keys in a row, and nothing else, [adds](DeletedRangeCache::learn) their
//! range. At first the range is a candidate. A commit ordered before may have looked for ranges in its
//! absence, and may have put a key into it, unseen by the scan. All such commits are at or below the last
//! sequence number given out *after* the candidate was published. A later scan that sees all of them, and
//! finds the range dead again, confirms it. Later commits find the candidate. Each commit looks up the keys
//! of its puts, after its order and before any of them is in a memtable. It [removes](DeletedRangeCache::put)
//! the ranges around them.
//!
//! Invariant: a snapshot at or above a range's `since` sees no live key in it, for as long as the range can
//! be found. A reader sees a put once the visible sequence has passed its commit, and the range was removed
//! before.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::RwLock;
use crate::types::{FamilyId, Seq, MAX_SEQ};

/// Families are divided into shards, by number; one bit each tells whether a shard has ranges.
const SHARDS: usize = if cfg!(loom) { 2 } else { 64 };

/// Number of ranges kept for a family, candidates included.
const RANGES_OF_FAMILY: usize = 16;

/// Families with ranges in a shard.
const FAMILIES_OF_SHARD: usize = 4;

/// Longer keys are not kept.
const LONGEST_KEY: usize = 4 << 10;

/// A range of keys, from `from` to before `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// First key.
    pub from: Vec<u8>,
    /// First key after.
    pub to: Vec<u8>,
}

impl Bounds {
    fn has(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && key < self.to.as_slice()
    }

    fn covers(&self, other: &Bounds) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

#[derive(Debug)]
struct DeletedRange {
    bounds: Bounds,
    /// Snapshots from this one on see no key in it; `None` for a candidate.
    since: Option<Seq>,
    /// For a candidate: commits up to this one may have put a key into it without finding it.
    ordered: Seq,
    /// Keys passed to find it, less one for each new range it kept out of the cache.
    worth: u32,
    /// Tells candidates apart.
    id: u64,
}

/// A scan's finding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// All commits up to this one were visible to it.
    pub upto: Seq,
    /// The newest of the tombstones it passed and of the `since` of ranges it jumped over.
    pub newest: Seq,
    /// Keys it passed one by one.
    pub steps: u32,
}

impl Seen {
    /// The first snapshot without a key in the range, if the scan saw none.
    fn since(self) -> Seq {
        self.upto.max(self.newest)
    }
}

/// The ranges of one family.
#[derive(Debug)]
struct OfFamily {
    family: FamilyId,
    ranges: Vec<DeletedRange>,
}

type Shard = Vec<OfFamily>;

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct DeletedRangeCache {
    /// Shards with ranges, as bits: a put checks these first.
    armed: CachePadded<AtomicU64>,
    shards: Box<[CachePadded<RwLock<Shard>>]>,
    next_id: AtomicU64,
}

impl Default for DeletedRangeCache {
    fn default() -> DeletedRangeCache {
        DeletedRangeCache {
            armed: CachePadded::new(AtomicU64::new(0)),
            shards: (0..SHARDS).map(|_| CachePadded::new(RwLock::new(Shard::new()))).collect(),
            next_id: AtomicU64::new(0),
        }
    }
}

fn ranges_of(shard: &Shard, family: FamilyId) -> Option<&Vec<DeletedRange>> {
    shard.iter().find(|of| of.family == family).map(|of| &of.ranges)
}

fn ranges_of_mut(shard: &mut Shard, family: FamilyId) -> Option<&mut Vec<DeletedRange>> {
    shard.iter_mut().find(|of| of.family == family).map(|of| &mut of.ranges)
}

impl DeletedRangeCache {
    /// Called for each key put by a commit, after the commit was ordered and before the key is in a memtable.
    pub(crate) fn put(&self, family: FamilyId, key: &[u8]) {
        if self.may_have(family) {
            self.remove(family, |bounds| bounds.has(key));
        }
    }

    /// As [`DeletedRangeCache::put`], without the keys: removes all ranges of the family.
    pub(crate) fn put_any(&self, family: FamilyId) {
        if self.may_have(family) {
            self.remove(family, |_| true);
        }
    }

    fn bit(family: FamilyId) -> u64 {
        1 << (family as usize % SHARDS)
    }

    fn may_have(&self, family: FamilyId) -> bool {
        // Relaxed: a commit ordered after a candidate's number has the lock of the order after its maker had it.
        self.armed.load(Ordering::Relaxed) & Self::bit(family) != 0
    }

    fn shard(&self, family: FamilyId) -> &RwLock<Shard> {
        &self.shards[family as usize % SHARDS]
    }

    fn remove(&self, family: FamilyId, hit: impl Fn(&Bounds) -> bool) {
        let shard = self.shard(family);
        let is_hit = |ranges: &Vec<DeletedRange>| ranges.iter().any(|range| hit(&range.bounds));
        if !ranges_of(&shard.read(), family).is_some_and(is_hit) {
            return;
        }
        let mut shard = shard.write();
        if let Some(ranges) = ranges_of_mut(&mut shard, family) {
            ranges.retain(|range| !hit(&range.bounds));
            shard.retain(|of| !of.ranges.is_empty());
            if shard.is_empty() {
                // Bits change under the lock of their shard.
                self.armed.fetch_and(!Self::bit(family), Ordering::Relaxed);
            }
        }
    }

    /// The confirmed range around `key`, dead for a snapshot at `seq`, into `out`; returns its `since`.
    pub(crate) fn around(&self, family: FamilyId, key: &[u8], seq: Seq, out: &mut Bounds) -> Option<Seq> {
        if !self.may_have(family) {
            return None;
        }
        let shard = self.shard(family).read();
        let fits =
            |range: &&DeletedRange| range.since.is_some_and(|since| since <= seq) && range.bounds.has(key);
        let range = ranges_of(&shard, family)?.iter().rev().find(fits)?;
        out.from.clone_from(&range.bounds.from);
        out.to.clone_from(&range.bounds.to);
        range.since
    }

    /// Adds `bounds`, in which a scan saw only deleted keys. `last_ordered` returns the last sequence number
    /// given out, under the lock of the order.
    pub(crate) fn learn(
        &self,
        family: FamilyId,
        bounds: &Bounds,
        seen: Seen,
        last_ordered: impl FnOnce() -> Seq,
    ) {
        if bounds.from.len().max(bounds.to.len()) > LONGEST_KEY {
            return;
        }
        let Some(id) = self.add_candidate(family, bounds, seen) else { return };
        let ordered = last_ordered();
        let mut shard = self.shard(family).write();
        let ranges = ranges_of_mut(&mut shard, family);
        if let Some(range) = ranges.and_then(|ranges| ranges.iter_mut().find(|range| range.id == id)) {
            range.ordered = ordered;
            // Nothing was ordered since the scan began.
            if ordered <= seen.upto {
                range.since = Some(seen.since());
            }
        }
    }

    /// The place for a new range: that of its oldest part, or of a range worth much less.
    fn place_for(ranges: &mut [DeletedRange], bounds: &Bounds, steps: u32) -> Option<usize> {
        let mut parts = (0..ranges.len()).filter(|&at| bounds.covers(&ranges[at].bounds));
        // The newest part is jumped over until the whole is confirmed.
        if let (Some(oldest), Some(_)) = (parts.next(), parts.next()) {
            return Some(oldest);
        }
        let least = (0..ranges.len()).min_by_key(|&at| ranges[at].worth)?;
        if ranges[least].worth < steps / 2 {
            return Some(least);
        }
        // It may be of no use any more.
        ranges[least].worth = ranges[least].worth.saturating_sub(1);
        None
    }

    /// Confirms the candidates confirmed by the scan. Returns the number of a new candidate, unless an equal
    /// one exists or others are worth more.
    fn add_candidate(&self, family: FamilyId, bounds: &Bounds, seen: Seen) -> Option<u64> {
        let mut shard = self.shard(family).write();
        let known = shard.iter().any(|of| of.family == family);
        if !known {
            if shard.len() == FAMILIES_OF_SHARD {
                shard.remove(0);
            }
            shard.push(OfFamily { family, ranges: Vec::new() });
            self.armed.fetch_or(Self::bit(family), Ordering::Relaxed);
        }
        let ranges = ranges_of_mut(&mut shard, family)?;
        for range in ranges.iter_mut() {
            if range.since.is_none() && range.ordered <= seen.upto && bounds.covers(&range.bounds) {
                range.since = Some(seen.since());
            }
        }
        // What lies within a confirmed one says nothing more, unless it is for older snapshots.
        for at in (0..ranges.len()).rev() {
            let range = &ranges[at];
            let within = |by: &DeletedRange| {
                by.id != range.id
                    && by.since.is_some_and(|by| range.since.is_none_or(|since| by <= since))
                    && by.bounds.covers(&range.bounds)
            };
            if ranges.iter().any(within) {
                ranges.remove(at);
            }
        }
        // Of candidates only the same: a larger one is not confirmed by scans that see less.
        let says_as_much = |range: &DeletedRange| {
            range.bounds == *bounds || (range.since.is_some() && range.bounds.covers(bounds))
        };
        if ranges.iter().any(says_as_much) {
            return None;
        }
        if ranges.len() == RANGES_OF_FAMILY {
            let place = Self::place_for(ranges, bounds, seen.steps)?;
            ranges.remove(place);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let worth = seen.steps;
        ranges.push(DeletedRange { bounds: bounds.clone(), since: None, ordered: MAX_SEQ, worth, id });
        Some(id)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const FAMILY: FamilyId = 3;

    fn bounds(from: &str, to: &str) -> Bounds {
        Bounds { from: from.as_bytes().to_vec(), to: to.as_bytes().to_vec() }
    }

    fn seen(upto: Seq) -> Seen {
        Seen { upto, newest: 1, steps: 100 }
    }

    fn around(ranges: &DeletedRangeCache, key: &str, seq: Seq) -> Option<(Bounds, Seq)> {
        let mut out = Bounds::default();
        ranges.around(FAMILY, key.as_bytes(), seq, &mut out).map(|since| (out, since))
    }

    #[test]
    fn a_range_is_known_when_a_scan_saw_all_that_may_have_missed_it() {
        let ranges = DeletedRangeCache::default();
        ranges.learn(FAMILY, &bounds("b", "d"), seen(10), || 12);
        assert_eq!(around(&ranges, "c", MAX_SEQ), None, "commits 11 and 12 may have put a key into it");
        ranges.learn(FAMILY, &bounds("b", "d"), seen(11), || 13);
        assert_eq!(around(&ranges, "c", MAX_SEQ), None);
        ranges.learn(FAMILY, &bounds("bb", "d"), seen(12), || 13);
        assert_eq!(around(&ranges, "c", MAX_SEQ), None, "the scan did not see all of it");
        ranges.learn(FAMILY, &bounds("a", "d"), seen(12), || 13);
        assert_eq!(around(&ranges, "c", MAX_SEQ), Some((bounds("b", "d"), 12)));
        assert_eq!(around(&ranges, "c", 11), None, "an older snapshot may see what was deleted since");
        assert_eq!(around(&ranges, "d", MAX_SEQ), None, "the end does not belong to it");
        assert_eq!(around(&ranges, "a", MAX_SEQ), None, "the larger one is a candidate");
    }

    #[test]
    fn a_tombstone_newer_than_the_scan_counts() {
        let ranges = DeletedRangeCache::default();
        ranges.learn(FAMILY, &bounds("b", "d"), Seen { newest: 14, ..seen(10) }, || 10);
        assert_eq!(around(&ranges, "c", 13), None);
        assert_eq!(around(&ranges, "c", 14), Some((bounds("b", "d"), 14)));
    }

    #[test]
    fn a_scan_behind_which_nothing_was_ordered_confirms_its_own() {
        let ranges = DeletedRangeCache::default();
        ranges.learn(FAMILY, &bounds("b", "d"), seen(10), || 10);
        assert_eq!(around(&ranges, "c", 10), Some((bounds("b", "d"), 10)));
    }

    #[test]
    fn a_large_candidate_does_not_stand_in_the_way_of_smaller_ones() {
        let ranges = DeletedRangeCache::default();
        ranges.learn(FAMILY, &bounds("a", "z"), seen(10), || 12);
        for _ in 0..2 {
            ranges.learn(FAMILY, &bounds("c", "e"), seen(12), || 13);
            ranges.learn(FAMILY, &bounds("c", "e"), seen(13), || 13);
        }
        assert_eq!(around(&ranges, "d", 13), Some((bounds("c", "e"), 13)));
    }

    #[test]
    fn an_older_snapshot_keeps_the_smaller_range_that_it_may_jump_over() {
        let ranges = DeletedRangeCache::default();
        ranges.learn(FAMILY, &bounds("b", "d"), seen(10), || 10);
        ranges.learn(FAMILY, &bounds("b", "f"), seen(20), || 20);
        assert_eq!(around(&ranges, "c", 15), Some((bounds("b", "d"), 10)));
        assert_eq!(around(&ranges, "c", 20), Some((bounds("b", "f"), 20)));
    }

    #[test]
    fn a_put_ends_the_ranges_that_it_is_in() {
        let ranges = DeletedRangeCache::default();
        for (from, to) in [("b", "d"), ("f", "h")] {
            ranges.learn(FAMILY, &bounds(from, to), seen(10), || 10);
        }
        ranges.put(FAMILY, b"d");
        ranges.put(FAMILY + 64, b"c");
        assert!(around(&ranges, "c", 10).is_some(), "a key behind it; a family of the same bit");
        ranges.put(FAMILY, b"b");
        assert_eq!(around(&ranges, "c", 10), None);
        assert!(around(&ranges, "g", 10).is_some());
        ranges.put_any(FAMILY);
        assert_eq!(around(&ranges, "g", 10), None);
        assert_eq!(ranges.armed.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_candidate_that_a_put_met_is_never_confirmed() {
        let ranges = DeletedRangeCache::default();
        ranges.learn(FAMILY, &bounds("b", "d"), seen(10), || 12);
        ranges.put(FAMILY, b"c");
        ranges.learn(FAMILY, &bounds("b", "d"), seen(12), || 13);
        assert_eq!(around(&ranges, "c", MAX_SEQ), None);
    }

    #[test]
    fn a_range_that_grows_takes_the_place_of_its_parts() {
        let ranges = DeletedRangeCache::default();
        for end in 1..1000u32 {
            let bounds = Bounds { from: vec![0], to: end.to_be_bytes().to_vec() };
            ranges.learn(FAMILY, &bounds, seen(end.into()), || end.into());
        }
        let found = around(&ranges, "\0\0", MAX_SEQ).expect("is known").0;
        assert_eq!(found.to, 999u32.to_be_bytes());
        let oldest = around(&ranges, "\0\0", 990).expect("is known").0;
        assert!(oldest.to >= 980u32.to_be_bytes().to_vec(), "the small ones went first");
    }

    #[test]
    fn many_runs_keep_some_and_not_the_last_ones() {
        let ranges = DeletedRangeCache::default();
        let scan = || {
            for run in 0..100u8 {
                let bounds = Bounds { from: vec![run, 0], to: vec![run, 1] };
                ranges.learn(FAMILY, &bounds, seen(1), || 1);
            }
        };
        scan();
        let known = |run: u8| ranges.around(FAMILY, &[run, 0], 1, &mut Bounds::default()).is_some();
        assert_eq!((0..100).filter(|&run| known(run)).count(), RANGES_OF_FAMILY);
        assert!((0..RANGES_OF_FAMILY as u8 / 2).any(known), "the first ones are not always driven out");
    }

    #[test]
    fn ranges_and_families_are_bounded() {
        let ranges = DeletedRangeCache::default();
        for family in 0..1000 {
            for at in 0..100u8 {
                ranges.learn(family, &Bounds { from: vec![at, 0], to: vec![at, 1] }, seen(1), || 1);
            }
        }
        for shard in &ranges.shards {
            let shard = shard.read();
            assert!(shard.len() <= FAMILIES_OF_SHARD);
            assert!(shard.iter().all(|of| of.ranges.len() <= RANGES_OF_FAMILY));
        }
        let long = Bounds { from: vec![0], to: vec![1; LONGEST_KEY + 1] };
        ranges.learn(2000, &long, seen(1), || 1);
        assert!(ranges.around(2000, &[1], 1, &mut Bounds::default()).is_none());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    const FAMILY: FamilyId = 3;
    const KEY: &[u8] = b"c";

    /// A store of one key: the order, the commits of puts of the key, and the visible sequence.
    struct Store {
        next: Mutex<Seq>,
        puts: Mutex<Vec<Seq>>,
        visible_seq: AtomicU64,
        ranges: DeletedRangeCache,
    }

    impl Store {
        fn commit(&self) {
            let seq = {
                let mut next = self.next.lock().expect("lives");
                *next += 1;
                *next - 1
            };
            self.ranges.put(FAMILY, KEY);
            self.puts.lock().expect("lives").push(seq);
            self.visible_seq.store(seq, Ordering::Release);
        }

        fn sees_put(&self, at: Seq) -> bool {
            self.puts.lock().expect("lives").iter().any(|&seq| seq <= at)
        }

        fn scan(&self) {
            let at = self.visible_seq.load(Ordering::Acquire);
            let mut out = Bounds::default();
            if self.ranges.around(FAMILY, KEY, at, &mut out).is_some() {
                assert!(!self.sees_put(at), "a snapshot at {at} jumps over a key that it sees");
            } else if !self.sees_put(at) {
                let bounds = Bounds { from: b"b".to_vec(), to: b"d".to_vec() };
                let last_ordered = || *self.next.lock().expect("lives") - 1;
                self.ranges.learn(FAMILY, &bounds, Seen { upto: at, newest: 1, steps: 100 }, last_ordered);
            }
        }
    }

    /// For any scan, and any time of the put: a scan that sees the key does not jump over it.
    #[test]
    fn nobody_jumps_over_a_key_that_it_sees() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let store = Arc::new(Store {
                next: Mutex::new(2),
                puts: Mutex::new(Vec::new()),
                visible_seq: AtomicU64::new(1),
                ranges: DeletedRangeCache::default(),
            });
            let committer = store.clone();
            let committer = thread::spawn(move || committer.commit());
            let scanner = store.clone();
            let scanner = thread::spawn(move || (0..2).for_each(|_| scanner.scan()));
            (0..2).for_each(|_| store.scan());
            committer.join().expect("committer");
            scanner.join().expect("scanner");
            store.scan();
        });
    }
}
