//! The shards of a version. A shard holds a part of the families, so that an edit copies few entries.

use std::sync::Arc;

use crate::types::FamilyId;

/// Number of shards. An edit copies this many pointers, and the entries of the shards it changes (40 each at
/// 10,000 families).
const SHARDS: usize = if cfg!(simulation) { 4 } else { 256 };

/// Shards without entries.
pub(super) fn empty_shards<T>() -> Box<[Arc<Vec<T>>]> {
    vec![Arc::default(); SHARDS].into()
}

/// The place of a family's shard.
#[inline]
pub(super) fn shard_of(family: FamilyId) -> usize {
    family as usize % SHARDS
}
