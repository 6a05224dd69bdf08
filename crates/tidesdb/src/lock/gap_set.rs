//! The gap locks of one family: the intervals of keys that each owner keeps free of insertions.
//!
//! A gap lock is held until its transaction ends and conflicts with no other gap lock, so there is nothing to
//! queue for. The set has merged intervals for each owner, and answers whose interval has a key. Intervals
//! are half open, `from` included and `to` excluded (`None`: no end). A scan's interval and its next step
//! therefore touch and become one.
//!
//! Guarded by a leaf latch (see [`super::shard::FamilyLocks`]).

use std::sync::Arc;

use super::owner::LockOwner;

/// The keys from `from` on, below `to`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) from: Vec<u8>,
    /// `None`: no end.
    pub(super) to: Option<Vec<u8>>,
}

impl Span {
    fn has(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.to.as_ref().is_none_or(|to| key < to.as_slice())
    }

    /// True if the span ends before `key` and does not touch it.
    fn ends_before(&self, key: &[u8]) -> bool {
        self.to.as_ref().is_some_and(|to| to.as_slice() < key)
    }
}

/// True if an end `a` lies after an end `b`.
fn is_after(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(a), Some(b)) => a > b,
    }
}

/// One owner's spans, ascending; no two touch.
struct OwnSpans {
    owner: Arc<LockOwner>,
    spans: Vec<Span>,
}

/// All gap locks of a family.
#[derive(Default)]
pub(super) struct GapSet {
    owners: Vec<OwnSpans>,
}

/// The result of publishing.
pub(super) struct Published {
    /// True for the owner's first interval in this family.
    pub(super) first: bool,
    /// Change of the owner's number of intervals.
    pub(super) grown: isize,
    /// Owners with priority may be waiting in the family.
    pub(super) meets_priority: bool,
}

impl Published {
    fn of(first: bool, grown: isize) -> Published {
        Published { first, grown, meets_priority: false }
    }
}

/// Owners whose memory an empty set keeps.
const KEPT_OWNERS: usize = 8;

impl GapSet {
    fn of(&self, owner: &LockOwner) -> Option<usize> {
        self.owners.iter().position(|o| std::ptr::eq(&*o.owner, owner))
    }

    /// Adds `from..to`, not empty, to the owner's intervals.
    pub(super) fn publish(&mut self, owner: &Arc<LockOwner>, from: &[u8], to: Option<&[u8]>) -> Published {
        let (at, first) = match self.of(owner) {
            Some(at) => (at, false),
            None => {
                self.owners.push(OwnSpans { owner: owner.clone(), spans: Vec::new() });
                (self.owners.len() - 1, true)
            }
        };
        let spans = &mut self.owners[at].spans;
        let before = spans.len();
        let low = spans.partition_point(|s| s.ends_before(from));
        // Spans from `low` on that begin at or before the end touch the new one.
        let touching =
            spans[low..].iter().take_while(|s| to.is_none_or(|to| s.from.as_slice() <= to)).count();
        if touching == 0 {
            spans.insert(low, Span { from: from.to_vec(), to: to.map(<[u8]>::to_vec) });
            return Published::of(first, 1);
        }
        let covered = touching == 1 && spans[low].from.as_slice() <= from && {
            !is_after(to, spans[low].to.as_deref())
        };
        if covered {
            return Published::of(first, 0);
        }
        if touching > 1 {
            let last = spans.drain(low + 1..low + touching).next_back();
            if let Some(last) = last {
                spans[low].to = last.to;
            }
        }
        let span = &mut spans[low];
        if from < span.from.as_slice() {
            span.from.clear();
            span.from.extend_from_slice(from);
        }
        if is_after(to, span.to.as_deref()) {
            match (&mut span.to, to) {
                (Some(own), Some(to)) => {
                    own.clear();
                    own.extend_from_slice(to);
                }
                (own, to) => *own = to.map(<[u8]>::to_vec),
            }
        }
        Published::of(first, spans.len() as isize - before as isize)
    }

    /// True if the key is in an interval of the owner.
    pub(super) fn has(&self, owner: &LockOwner, key: &[u8]) -> bool {
        self.of(owner).is_some_and(|at| {
            let spans = &self.owners[at].spans;
            let at = spans.partition_point(|s| s.from.as_slice() <= key);
            at > 0 && spans[at - 1].has(key)
        })
    }

    /// True if all of `from..to` is in an interval of the owner.
    pub(super) fn has_all(&self, owner: &LockOwner, from: &[u8], to: Option<&[u8]>) -> bool {
        self.of(owner).is_some_and(|at| {
            let spans = &self.owners[at].spans;
            let at = spans.partition_point(|s| s.from.as_slice() <= from);
            at > 0 && spans[at - 1].has(from) && !is_after(to, spans[at - 1].to.as_deref())
        })
    }

    /// Removes all intervals of the owner.
    pub(super) fn remove(&mut self, owner: &LockOwner) -> Vec<Span> {
        match self.of(owner) {
            Some(at) => {
                let spans = self.owners.swap_remove(at).spans;
                if self.owners.is_empty() && self.owners.capacity() > KEPT_OWNERS {
                    self.owners = Vec::new();
                }
                spans
            }
            None => Vec::new(),
        }
    }

    /// Calls `each` for the owners other than `owner` with the key in an interval.
    pub(super) fn others_with(&self, owner: &LockOwner, key: &[u8], mut each: impl FnMut(&Arc<LockOwner>)) {
        for other in self.owners.iter().filter(|o| !std::ptr::eq(&*o.owner, owner)) {
            let at = other.spans.partition_point(|s| s.from.as_slice() <= key);
            if at > 0 && other.spans[at - 1].has(key) {
                each(&other.owner);
            }
        }
    }

    /// All intervals with their owners.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<LockOwner>, &Span)> {
        self.owners.iter().flat_map(|o| o.spans.iter().map(move |s| (&o.owner, s)))
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let span = |s: &Span| s.from.capacity() + s.to.as_ref().map_or(0, Vec::capacity);
        self.owners.capacity() * size_of::<OwnSpans>()
            + self
                .owners
                .iter()
                .map(|o| o.spans.capacity() * size_of::<Span>() + o.spans.iter().map(span).sum::<usize>())
                .sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{rngs::StdRng, Rng, SeedableRng};

    fn drawn(ranges: &GapSet) -> String {
        let show = |key: &[u8]| key.escape_ascii().to_string();
        let spans = ranges.iter().map(|(owner, s)| {
            format!("t{}[{},{})", owner.id(), show(&s.from), s.to.as_deref().map_or("..".into(), show))
        });
        spans.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_scan_that_grows_is_one_interval() {
        let (mut ranges, a) = (GapSet::default(), LockOwner::new(1));
        assert!(ranges.publish(&a, b"b", Some(b"d")).first);
        assert_eq!(ranges.publish(&a, b"d", Some(b"f")).grown, 0);
        assert_eq!(ranges.publish(&a, b"m", None).grown, 1);
        assert_eq!(drawn(&ranges), "t1[b,f) t1[m,..)");
        assert!(ranges.has_all(&a, b"c", Some(b"f")) && !ranges.has_all(&a, b"c", Some(b"g")));
        assert_eq!(ranges.publish(&a, b"c", Some(b"f")).grown, 0);
        assert_eq!(ranges.publish(&a, b"", Some(b"b")).grown, 0);
        assert_eq!(ranges.publish(&a, b"e", Some(b"n")).grown, -1);
        assert_eq!(drawn(&ranges), "t1[,..)");
        assert_eq!(ranges.remove(&a).len(), 1);
        assert_eq!(drawn(&ranges), "");
    }

    /// Intervals of some owners against a table of (owner, key).
    #[test]
    fn ranges_are_sets_of_keys() {
        const KEYS: u8 = 24;
        for seed in 0..60 {
            let mut rng = StdRng::seed_from_u64(seed);
            let owners: Vec<_> = (0..3).map(LockOwner::new).collect();
            let mut ranges = GapSet::default();
            let mut model = vec![[false; KEYS as usize]; owners.len()];
            for step in 0..200 {
                let n = rng.gen_range(0..owners.len());
                if rng.gen_bool(0.05) {
                    ranges.remove(&owners[n]);
                    model[n] = [false; KEYS as usize];
                    continue;
                }
                let from = rng.gen_range(0..KEYS);
                let to = rng.gen_range(from + 1..=KEYS);
                let end = (to < KEYS).then_some([to]);
                ranges.publish(&owners[n], &[from], end.as_ref().map(|e| &e[..]));
                (from..to).for_each(|k| model[n][k as usize] = true);
                for key in 0..KEYS {
                    let mut found = Vec::new();
                    ranges.others_with(&owners[0], &[key], |o| found.push(o.id()));
                    found.sort_unstable();
                    let expected: Vec<u64> =
                        (1..owners.len()).filter(|&o| model[o][key as usize]).map(|o| o as u64).collect();
                    assert_eq!(found, expected, "seed {seed} step {step} key {key}");
                }
                let key = rng.gen_range(0..KEYS);
                assert_eq!(ranges.has(&owners[n], &[key]), model[n][key as usize], "seed {seed} step {step}");
                if let Some(end) = &end {
                    assert_eq!(ranges.has_all(&owners[n], &[key], Some(&[key + 1])), model[n][key as usize]);
                    assert!(ranges.has_all(&owners[n], &[from], Some(end)));
                }
                for own in &ranges.owners {
                    for pair in own.spans.windows(2) {
                        assert!(pair[0].ends_before(&pair[1].from), "seed {seed}: {}", drawn(&ranges));
                    }
                }
            }
        }
    }
}
