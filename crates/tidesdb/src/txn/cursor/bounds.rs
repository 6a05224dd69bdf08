//! The end of a scan.

use crate::iter::KeyRange;
use crate::txn::gap::successor;

/// The first key after every key with `prefix` as its start, into `out`; false if there is none.
pub(crate) fn successor_of_prefix(key: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    out.extend_from_slice(key);
    while let Some(last) = out.pop() {
        if last < 0xff {
            out.push(last + 1);
            return true;
        }
    }
    false
}

/// The keys within the end of a scan: those with `prefix`, up to `bound`.
///
/// Fixed by the seek. `bound` lies in the direction `forward` of the scan, and stays there when a step turns
/// back.
#[derive(Debug)]
pub(super) struct ScanBounds {
    /// Empty: any key.
    pub(super) prefix: Vec<u8>,
    /// First key past the end.
    bound: Option<Vec<u8>>,
    /// Direction of the scan.
    forward: bool,
}

impl ScanBounds {
    /// Bounds of a scan of everything, forward.
    pub(super) fn new() -> ScanBounds {
        ScanBounds { prefix: Vec::new(), bound: None, forward: true }
    }

    /// Takes over the end of a scan.
    pub(super) fn set(&mut self, prefix: &[u8], bound: Option<&[u8]>, forward: bool) {
        self.prefix.clear();
        self.prefix.extend_from_slice(prefix);
        match (&mut self.bound, bound) {
            (Some(own), Some(given)) => {
                own.clear();
                own.extend_from_slice(given);
            }
            (own, given) => *own = given.map(<[u8]>::to_vec),
        }
        self.forward = forward;
    }

    /// True if the scan ends before `key`.
    #[inline]
    pub(super) fn is_past_end(&self, key: &[u8]) -> bool {
        // A comparison with a vector that never had bytes is not free: its pointer leads nowhere, and glibc's `memcmp`
        // touches it by a masked load, 42 ns where AVX-512 is used.
        if !self.prefix.is_empty() && !key.starts_with(&self.prefix) {
            return true;
        }
        match self.bound.as_deref() {
            Some(bound) if self.forward => key >= bound,
            Some(bound) => key <= bound,
            None => false,
        }
    }

    /// Its keys, as far as the end tells them.
    pub(super) fn range(&self) -> KeyRange {
        KeyRange { lower: self.end(false), upper: self.end(true) }
    }

    /// The end for steps in the direction `forward`. Forward: the first key after all keys of the scan.
    /// Backward: the first key of the scan. `None`: the end of the family.
    pub(super) fn end(&self, forward: bool) -> Option<Vec<u8>> {
        let bound = self.bound.as_ref().filter(|_| forward == self.forward);
        if forward {
            let mut successor = Vec::new();
            let prefix_ends = !self.prefix.is_empty() && successor_of_prefix(&self.prefix, &mut successor);
            match (prefix_ends.then_some(successor), bound) {
                (Some(successor), Some(bound)) if successor > *bound => Some(bound.clone()),
                (successor, bound) => successor.or_else(|| bound.cloned()),
            }
        } else {
            let prefix = (!self.prefix.is_empty()).then(|| self.prefix.clone());
            prefix.max(bound.map(|bound| successor(bound)))
        }
    }
}
