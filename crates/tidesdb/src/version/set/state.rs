//! The manifest's state apart from files and tables.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::cluster_position::ClusterPosition;
use crate::options::FormatVersion;
use crate::types::{FileNo, LogSegment, Lsn, MemtableId, Seq};
use crate::version::edit::Edit;
use crate::wal::EpochBoundary;

/// The manifest's state apart from files and tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreState {
    /// Number of openings for writing, this one included.
    pub epoch: u64,
    /// First live segment of the write-ahead log; recovery ignores lower ones.
    pub first_live_segment: u32,
    /// Boundaries between epochs of the log.
    pub boundaries: Vec<EpochBoundary>,
    /// Existing segments of the log, by id; none below the first live one.
    pub log_segments: BTreeMap<u32, LogSegment>,
    /// Log position below which the log was durable.
    pub durable_upto: Lsn,
    /// The newest commit in a table.
    pub last_seq: Seq,
    /// The newest generation whose tables are all in the manifest.
    pub last_generation: MemtableId,
    /// Lower bound of the transaction ids never given out.
    pub transaction_ceiling: u64,
    /// The expiry clock's durable lower bound, in seconds. `None`: no entry with an expiry was ever written.
    pub expiry_clock: Option<u64>,
    /// The expiry clock's upper bound, in seconds. `None`: an earlier build recorded none.
    pub expiry_reserved: Option<u64>,
    /// First epoch with unmarked puts. `None`: every put is marked "may overwrite".
    pub proven_from: Option<u64>,
    /// Puts up to this sequence number prove nothing; 0 in a store without repairs.
    pub unproven_upto: Seq,
    /// Remembered options, by name.
    pub options: BTreeMap<String, String>,
    /// The value files.
    pub value_files: BTreeSet<FileNo>,
    /// The cluster's position as of `last_seq`; `None`: no commit up to there has one.
    pub position: Option<ClusterPosition>,
}

/// Name of an option of the manifest: the version of the formats to which the store moves when it is opened next.
const NEXT_FORMAT: &str = "next_format";

/// The manifest's option by which a store asks for a version of its formats from its next opening on.
pub(crate) fn next_format(version: FormatVersion) -> (String, String) {
    (NEXT_FORMAT.to_string(), version.number().to_string())
}

impl StoreState {
    /// The version that the store has asked for.
    pub(crate) fn next_format(&self) -> FormatVersion {
        let number = self.options.get(NEXT_FORMAT).and_then(|number| number.parse().ok());
        number.and_then(FormatVersion::from_number).unwrap_or_default()
    }

    pub(super) fn apply(&mut self, edit: &Edit) {
        self.epoch = edit.epoch.unwrap_or(self.epoch);
        self.first_live_segment = self.first_live_segment.max(edit.first_live_segment.unwrap_or(0));
        let above = edit.log_forgotten_above.unwrap_or(u32::MAX);
        self.log_segments.retain(|&id, _| id <= above);
        self.log_segments.extend(edit.log_segments.iter().map(|segment| (segment.id, *segment)));
        self.log_segments.retain(|&id, _| id >= self.first_live_segment);
        self.boundaries.retain(|boundary| !edit.boundaries_removed.contains(&boundary.at.segment()));
        self.boundaries.extend(&edit.boundaries);
        self.durable_upto = self.durable_upto.max(edit.durable_upto.unwrap_or_default());
        self.last_seq = self.last_seq.max(edit.last_seq.unwrap_or(0));
        self.last_generation = self.last_generation.max(edit.last_generation.unwrap_or(0));
        self.transaction_ceiling = self.transaction_ceiling.max(edit.transaction_ceiling.unwrap_or(0));
        self.expiry_clock = self.expiry_clock.max(edit.expiry_clock);
        self.expiry_reserved = edit.expiry_reserved.or(self.expiry_reserved);
        self.proven_from = self.proven_from.or(edit.proven_from);
        self.position = edit.position.or(self.position);
        self.unproven_upto = self.unproven_upto.max(edit.unproven_upto.unwrap_or(0));
        self.value_files.extend(&edit.value_files);
        self.value_files.retain(|file| !edit.ended_value_files.contains(file));
        for (name, value) in &edit.options {
            if value.is_empty() {
                self.options.remove(name);
            } else {
                self.options.insert(name.clone(), value.clone());
            }
        }
    }
}
