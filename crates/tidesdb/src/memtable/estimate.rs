//! Estimates of the number of keys in a range of a [`Tree`].
//!
//! A range of few leaves is counted. For a larger one, the paths to its bounds give the number of whole
//! subtrees between them. The nodes on the paths and a few samples give the size of such a subtree.

use std::ops::Range;

use super::node::{NodeRef, Restart, SearchKey};
use super::tree::{Tree, Way};

/// Ranges of at most so many leaves are counted.
const EXACT_LEAVES: usize = 4;

/// Number of sampled subtrees.
const SAMPLES: usize = 8;

/// A node on the path to a bound.
struct Waypoint<'a> {
    node: NodeRef<'a>,
    /// Number of its parts wholly before the bound.
    before: usize,
}

/// Number of children of an inner node, or of keys of a leaf.
fn parts(node: NodeRef<'_>) -> usize {
    node.count() + usize::from(node.level() > 0)
}

/// Numbers of parts of the visited nodes at one depth.
#[derive(Clone, Default)]
struct Fill {
    nodes: usize,
    parts: usize,
}

impl Fill {
    fn add(&mut self, node: NodeRef<'_>) {
        self.nodes += 1;
        self.parts += parts(node);
    }

    fn mean(&self) -> f64 {
        self.parts as f64 / self.nodes.max(1) as f64
    }
}

/// Samples some children of `node` in `range`. Descends straight from each child by another branch, and adds
/// the visited nodes to the fills of the depths below.
fn sample(node: NodeRef<'_>, range: Range<usize>, fills: &mut [Fill]) {
    let stride = range.len().div_ceil(SAMPLES).max(1);
    for (turn, index) in range.step_by(stride).enumerate() {
        let mut child = node.child(index);
        for fill in &mut *fills {
            // Not validated: a torn read spoils one sample of an estimate.
            let Ok(at) = child else { break };
            fill.add(at);
            if at.level() > 0 {
                child = at.child((at.count() + 1) * turn / SAMPLES);
            }
        }
    }
}

impl Tree {
    /// A key after about this share (0 to 1) of the keys, by the shape of the tree; none if no key comes
    /// after.
    pub(super) fn key_at(&self, share: f64) -> Option<Vec<u8>> {
        let found = Self::retry(|| {
            let (mut node, mut version) = self.root();
            let mut share = share.clamp(0.0, 1.0);
            loop {
                let place = share * parts(node) as f64;
                let index = (place as usize).min(parts(node).saturating_sub(1));
                share = (place - index as f64).clamp(0.0, 1.0);
                if node.level() == 0 {
                    return Self::at_or_right(node, version, index);
                }
                let child = node.child(index)?;
                let child_version = child.read_version();
                if !node.validate(version) {
                    return Err(Restart);
                }
                (node, version) = (child, child_version);
            }
        });
        found.map(|position| position.record.key().to_vec())
    }

    /// The path from the root to a bound.
    fn bound_path(&self, way: Way<'_, '_>) -> Vec<Waypoint<'_>> {
        Self::retry(|| {
            let mut path = Vec::new();
            let (mut node, mut version) = self.root();
            loop {
                let inner = node.level() > 0;
                let before = match way {
                    Way::First => 0,
                    Way::Last => node.count(),
                    Way::To(key) if inner => node.rank(key)?.through(),
                    Way::To(key) | Way::Below(key) => node.rank(key)?.below,
                };
                path.push(Waypoint { node, before });
                if inner {
                    (node, version) = Self::step(node, version, way)?;
                } else if node.validate(version) {
                    return Ok(path);
                } else {
                    return Err(Restart);
                }
            }
        })
    }

    /// Approximate number of keys between two bounds, from the fills of the nodes on the two paths and of
    /// some nodes between them.
    fn keys_between(&self, lower: Way<'_, '_>, upper: Way<'_, '_>) -> f64 {
        let (low, high) = loop {
            let (low, high) = (self.bound_path(lower), self.bound_path(upper));
            if low.len() == high.len() {
                break (low, high);
            }
            // The tree grew a level in between.
        };
        let leaves = low.len() - 1;
        let apart = (0..leaves).find(|&depth| low[depth].before != high[depth].before).unwrap_or(leaves);
        let mut fills = vec![Fill::default(); low.len()];
        // For each depth the children that lie wholly between the bounds; those that a way goes through
        // are counted further down. In leaves: keys, and none is gone through.
        let mut whole = vec![0; low.len()];
        for depth in apart..low.len() {
            let past = low[depth].before + usize::from(depth < leaves);
            let (low, high) = (low[depth].node, &high[depth]);
            let ranges = if depth == apart {
                [(low, past..high.before), (low, 0..0)]
            } else {
                [(low, past..parts(low)), (high.node, 0..high.before)]
            };
            for (node, range) in ranges {
                whole[depth] += range.len();
                if depth < leaves {
                    sample(node, range, &mut fills[depth + 1..]);
                }
            }
        }
        let mut keys = 0.0;
        // Keys of one part of the nodes at this depth.
        let mut part = 1.0;
        for depth in (apart..low.len()).rev() {
            keys += part * whole[depth] as f64;
            if fills[depth].nodes == 0 {
                fills[depth].add(low[depth].node);
                fills[depth].add(high[depth].node);
            }
            part *= fills[depth].mean();
        }
        keys
    }

    /// Approximate number of keys at or above `lower` and below `upper`. Exact for a few leaves, otherwise by
    /// the shape of the tree. At least 1 if there is one.
    pub(super) fn estimate(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> u64 {
        if let (Some(lower), Some(upper)) = (lower, upper) {
            if lower >= upper {
                return 0;
            }
        }
        let start = match lower {
            Some(lower) => self.seek(lower, false),
            None => self.first(),
        };
        let Some(start) = start else { return 0 };
        let upper_key = upper.map(SearchKey::new);
        let mut counted = 0;
        let mut leaf = start.leaf;
        let mut from = start.slot;
        for _ in 0..EXACT_LEAVES {
            // How many of the leaf's keys are below the upper bound.
            let (end, count, next) = Self::retry(|| {
                let version = leaf.read_version();
                let count = leaf.count();
                let end =
                    upper_key.as_ref().map_or(Ok(count), |key| leaf.rank(key).map(|rank| rank.below))?;
                let next = leaf.next();
                if leaf.validate(version) {
                    Ok((end, count, next))
                } else {
                    Err(Restart)
                }
            });
            counted += end.saturating_sub(from) as u64;
            match next {
                Some(next) if end == count => leaf = next,
                _ => return counted,
            }
            from = 0;
        }
        let lower_key = lower.map(SearchKey::new);
        let between = match (&lower_key, &upper_key) {
            (None, None) => return self.keys().max(counted),
            (lower, upper) => {
                let lower = lower.as_ref().map_or(Way::First, Way::To);
                let upper = upper.as_ref().map_or(Way::Last, Way::To);
                self.keys_between(lower, upper)
            }
        };
        (between as u64).clamp(counted, self.keys().max(counted))
    }
}
