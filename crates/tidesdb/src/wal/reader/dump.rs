//! Reads the log for inspection: one segment by itself, up to its last valid record, and whether a log's tail
//! is torn. Changes nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{
    all_zero, file_number, is_later, log_dir, record_start, search, survey, BadHeader, Found, LogEpoch,
    LogReader, OpenSegment, RecordRef, RecoveredSummary, SegmentHeader, Step, Stop, SEGMENT_HEADER,
};
use crate::error::{Error, Result};
use crate::io::{Disk, OpenMode};
use crate::options::FormatVersion;
use crate::types::{LogSegment, Lsn};

/// A segment and the version of its format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentFacts {
    /// Id, epoch and number of the file.
    pub segment: LogSegment,
    /// The version in the segment's header; `None`: the header does not verify.
    pub format: Option<FormatVersion>,
}

/// The content of a segment's file.
#[derive(Clone, Debug)]
pub struct SegmentDump {
    /// The segment.
    pub facts: SegmentFacts,
    /// Bytes of the segment.
    pub size: u32,
    /// End of the last valid record.
    pub end: Lsn,
    /// The position without a valid record, and why.
    pub stop: (Lsn, String),
    /// The tail is torn: bytes other than a record of this segment follow. An interrupted write leaves such
    /// bytes, and so does an earlier segment in the same file.
    pub is_torn: bool,
    /// Number of valid records after the stop. Not 0: the stop is damage.
    pub records_after: u64,
}

/// Visits the records of the one segment in the file at `path`, durable marks left out. A record begun in the
/// previous segment is skipped; one that goes on in the next is the stop.
///
/// # Errors
/// `InvalidArgument` for a file with another name; `Corruption` for a damaged header, or a valid record that
/// does not decode; `LaterVersion`; I/O; the visitor's.
pub fn dump_segment(
    disk: &Arc<dyn Disk>,
    path: &Path,
    visit: &mut dyn FnMut(&SegmentFacts, Lsn, RecordRef<'_>) -> Result<()>,
) -> Result<SegmentDump> {
    let Some(number) = path.file_name().and_then(|name| name.to_str()).and_then(file_number) else {
        let what = format!("{} has not the name of a file of the log, 000001.wal", path.display());
        return Err(Error::InvalidArgument(what));
    };
    let file = disk.open(path, OpenMode::Read)?;
    let mut bytes = [0; SEGMENT_HEADER as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let header = SegmentHeader::decode(&bytes).map_err(|bad| match bad {
        BadHeader::Invalid => Error::corruption(path, 0, "the segment's header does not verify"),
        BadHeader::Unknown(what) => Error::later_version(path, what),
    })?;
    let log_epoch = LogEpoch { epoch: header.epoch, first: header.first };
    let segment = LogSegment { id: header.id, epoch: header.epoch, file: number };
    let facts = SegmentFacts { segment, format: Some(header.version) };
    let open = OpenSegment { header, path: path.to_path_buf(), file, buffer: Vec::new(), start: u64::MAX };
    let found = Found { segments: [(header.id, (number, header))].into(), headless: Vec::new() };
    let mut reader = LogReader { disk, store: path, found: &found, torn: Lsn(u64::MAX), open: Some(open) };
    let mut end = Lsn::new(header.id, SEGMENT_HEADER);
    let mut scratch = Vec::new();
    let first = match header.first < header.id {
        true => reader.skip_tail(header.id, Some(log_epoch))?,
        false => Ok(end),
    };
    let stop = match first {
        Err(stop) => stop,
        Ok(at) => {
            end = at;
            loop {
                match reader.next_record(end, Some(log_epoch), &mut scratch)? {
                    Step::Stop(stop) => break stop,
                    Step::Record(start, after) => {
                        let (_, record) =
                            RecordRef::decode(&scratch).map_err(|what| match is_later(what) {
                                true => Error::later_version(
                                    path,
                                    format!("at offset {}: {what}", start.offset()),
                                ),
                                false => {
                                    let what = format!("a record that verifies does not decode: {what}");
                                    Error::corruption(path, start.offset().into(), what)
                                }
                            })?;
                        if record != RecordRef::DurableMark {
                            visit(&facts, start, record)?;
                        }
                        end = after;
                    }
                }
            }
        }
    };
    let is_torn = reader.is_torn(end, &stop, log_epoch)?;
    let records_after = match reader.enter(header.id, Some(log_epoch))? {
        Some(open) if stop.at.segment() == header.id => {
            search(open, stop.at.offset().max(SEGMENT_HEADER))?.records
        }
        _ => 0,
    };
    Ok(SegmentDump { facts, size: header.size, end, stop: (stop.at, stop.why), is_torn, records_after })
}

/// Versions of the formats of the segments of `store`, by their ids and headers.
pub fn segment_formats(disk: &Arc<dyn Disk>, store: &Path) -> Result<BTreeMap<u32, FormatVersion>> {
    let found = survey(disk, store)?;
    Ok(found.segments.iter().map(|(id, (_, header))| (*id, header.version)).collect())
}

/// True if bytes other than a record follow the end of the log of `store`: see [`SegmentDump::is_torn`].
pub fn has_torn_tail(disk: &Arc<dyn Disk>, store: &Path, summary: &RecoveredSummary) -> Result<bool> {
    if !disk.exists(&log_dir(store))? {
        return Ok(false);
    }
    let found = survey(disk, store)?;
    let Some((_, header)) = found.segments.get(&summary.end.segment()) else { return Ok(false) };
    let log_epoch = LogEpoch { epoch: header.epoch, first: header.first };
    let stop = Stop { at: summary.stop.0, why: String::new() };
    LogReader { disk, store, found: &found, torn: Lsn(u64::MAX), open: None }.is_torn(
        summary.end,
        &stop,
        log_epoch,
    )
}

impl LogReader<'_> {
    /// True if parts of a record, or other bytes, lie between the end of the last record and the stop, or at
    /// the stop.
    fn is_torn(&mut self, end: Lsn, stop: &Stop, log_epoch: LogEpoch) -> Result<bool> {
        let size = match self.enter(end.segment(), Some(log_epoch))? {
            Some(open) => open.header.size,
            None => return Ok(false),
        };
        let next = match record_start(end.offset(), size) {
            Some(offset) => Lsn::new(end.segment(), offset),
            None => Lsn::new(end.segment() + 1, SEGMENT_HEADER),
        };
        if stop.at != next {
            return Ok(stop.at > next);
        }
        Ok(match self.enter(next.segment(), Some(log_epoch))? {
            Some(open) if next.offset() < open.header.size => !all_zero(open.rest_of_frame(next.offset())?),
            _ => false,
        })
    }
}
