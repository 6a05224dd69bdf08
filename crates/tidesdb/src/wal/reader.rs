//! Recovery's side of the log. It finds the segments, reads the valid records in order, and tells a torn tail
//! from damage (`docs/protocols.md` 1.3, `docs/format/wal.md` "Recovery").
//!
//! [`recover`] changes nothing on the disk; called again it gives the same answer. It streams: one
//! record and [`CHUNK`] bytes of log are in memory at a time.

mod dump;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::dump::{dump_segment, has_torn_tail, segment_formats, SegmentDump, SegmentFacts};
use super::files::LogFiles;
use super::record::{is_later, peek, EpochBoundary, RecordRef};
use super::segment::{
    file_number, file_path, frame_end, log_dir, record_start, BadHeader, Fragment, Part, Seal, SegmentHeader,
    FRAGMENT_HEADER, FRAME, SEGMENT_HEADER,
};
use crate::error::{Error, Result};
use crate::io::{Advice, Disk, File, OpenMode};
use crate::options::FormatVersion;
use crate::types::{FileNo, LogSegment, Lsn, Seq};

/// Bytes read at once; whole frames.
const CHUNK: usize = 8 * FRAME as usize;

/// The result of recovery's reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveredSummary {
    /// End of the last valid record (or the start of the log, if there is none).
    pub end: Lsn,
    /// The epoch of `end`; 0 when no segment of it was found.
    pub epoch: u64,
    /// First segment id of the next epoch: above every id ever seen.
    pub next_segment: u32,
    /// Highest `durable_upto` seen, the manifest's included.
    pub max_durable_seen: Lsn,
    /// Highest sequence number seen, in discarded records too; 0: none.
    pub max_seq_seen: Seq,
    /// Records given to the visitor.
    pub records: u64,
    /// Valid records, or starts of records, after the end; discarded.
    pub discarded: u64,
    /// The log's files, for [`super::Wal::create`].
    pub files: LogFiles,
    /// The position without a valid record, and why.
    pub stop: (Lsn, String),
}

impl RecoveredSummary {
    /// The boundary between the recovered epoch and the next. `known_seq` is the highest sequence number
    /// known from elsewhere (manifest, table files).
    pub fn boundary(&self, known_seq: Seq) -> EpochBoundary {
        EpochBoundary {
            at: self.end,
            epoch: self.epoch,
            next_segment: self.next_segment,
            next_seq: self.max_seq_seen.max(known_seq) + 1,
        }
    }
}

/// Reads the log of the store in `store`.
///
/// `first_live_segment`, `boundaries` and `manifest_durable_upto` come from the manifest. `visit` gets every
/// valid record in order, with the position of its first byte; durable marks are left out. After an error the
/// visited records are a prefix of the log's content, and must not be used.
///
/// Errors: `Corruption` with file and offset, for a hole in the durable part or a valid record that cannot be
/// decoded. `LaterVersion` for segments and records of a later format. I/O errors; the visitor's.
pub fn recover(
    disk: &Arc<dyn Disk>,
    store: &Path,
    first_live_segment: u32,
    boundaries: &[EpochBoundary],
    manifest_durable_upto: Lsn,
    visit: &mut dyn FnMut(Lsn, RecordRef<'_>) -> Result<()>,
) -> Result<RecoveredSummary> {
    recover_before(Lsn(u64::MAX), disk, store, first_live_segment, boundaries, manifest_durable_upto, visit)
}

/// As [`recover`], of a log that ends before the record at `torn`: what it refers to is not whole.
pub fn recover_before(
    torn: Lsn,
    disk: &Arc<dyn Disk>,
    store: &Path,
    first_live_segment: u32,
    boundaries: &[EpochBoundary],
    manifest_durable_upto: Lsn,
    visit: &mut dyn FnMut(Lsn, RecordRef<'_>) -> Result<()>,
) -> Result<RecoveredSummary> {
    let found = survey(disk, store)?;
    let mut summary = RecoveredSummary {
        end: Lsn::new(first_live_segment, SEGMENT_HEADER),
        epoch: 0,
        next_segment: first_live_segment,
        max_durable_seen: manifest_durable_upto,
        max_seq_seen: 0,
        records: 0,
        discarded: 0,
        files: LogFiles::default(),
        stop: (Lsn::ZERO, String::new()),
    };
    if let Some((last, _)) = found.segments.last_key_value() {
        let next = last.checked_add(1).ok_or_else(|| Error::ReadOnly("segment ids are used up".into()))?;
        summary.next_segment = next.max(first_live_segment);
    }
    let mut reader = LogReader { disk, store, found: &found, torn, open: None };
    let mut used: Vec<u32> = Vec::new();
    let mut first = first_live_segment;
    let mut before: Option<(Lsn, u64)> = None;
    loop {
        let log_epoch = LogEpoch::of(&found, first);
        let boundary =
            log_epoch.and_then(|log_epoch| boundaries.iter().find(|c| c.epoch == log_epoch.epoch)).copied();
        let known = (summary.records, summary.discarded);
        let stop = reader.read_epoch(first, log_epoch, boundary, &mut summary, visit)?;
        let Some(boundary) = boundary else {
            reader.judge_end(log_epoch, &stop, &mut summary)?;
            summary.stop = (stop.at, stop.why);
            match before {
                // An epoch that wrote nothing: the log still ends where the one before it ended.
                Some(end) if known == (summary.records, summary.discarded) => {
                    (summary.end, summary.epoch) = end;
                }
                _ => used.extend(first..=summary.end.segment()),
            }
            break;
        };
        used.extend(first..=summary.end.segment());
        before = Some((summary.end, summary.epoch));
        if boundary.next_segment <= first {
            return Err(Error::corruption(
                log_dir(store),
                0,
                format!("the manifest lists {boundary:?} at {first}"),
            ));
        }
        first = boundary.next_segment;
    }
    reader.sort_files(first_live_segment, &used, &mut summary)?;
    Ok(summary)
}

/// The files of the directory, according to their headers.
pub(super) struct Found {
    pub(super) segments: BTreeMap<u32, (FileNo, SegmentHeader)>,
    pub(super) headless: Vec<FileNo>,
}

pub(super) fn survey(disk: &Arc<dyn Disk>, store: &Path) -> Result<Found> {
    let mut found = Found { segments: BTreeMap::new(), headless: Vec::new() };
    let dir = log_dir(store);
    if !disk.exists(&dir)? {
        return Ok(found);
    }
    for number in disk.list(&dir)?.iter().filter_map(|name| file_number(name)) {
        let path = file_path(store, number);
        let file = disk.open(&path, OpenMode::Read)?;
        let mut bytes = [0; SEGMENT_HEADER as usize];
        read_up_to(&*file, &mut bytes, 0)?;
        match SegmentHeader::decode(&bytes) {
            Ok(header) => {
                if let Some((other, before)) = found.segments.insert(header.id, (number, header)) {
                    match before.epoch.cmp(&header.epoch) {
                        // The header of a free file was half replaced, so its id was given to another file. Then a power
                        // cut brought the old header back. Only a file without records was free.
                        Ordering::Less => found.headless.push(other),
                        Ordering::Greater => {
                            found.segments.insert(before.id, (other, before));
                            found.headless.push(number);
                        }
                        Ordering::Equal => {
                            let what = format!("segment {} is in file {other:06}.wal too", header.id);
                            return Err(Error::corruption(path, 0, what));
                        }
                    }
                }
            }
            Err(BadHeader::Invalid) => found.headless.push(number),
            Err(BadHeader::Unknown(what)) => return Err(Error::later_version(path, what)),
        }
    }
    Ok(found)
}

/// Reads until `buf` is full or the file ends, over any number of short reads.
fn read_up_to(file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// The identity of an epoch, the same in all its segments.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LogEpoch {
    epoch: u64,
    first: u32,
}

impl LogEpoch {
    /// The epoch with segment `id`. If that segment is missing: the epoch of later segments, if it began at
    /// or before `id`.
    fn of(found: &Found, id: u32) -> Option<LogEpoch> {
        let of =
            |(_, header): &(FileNo, SegmentHeader)| LogEpoch { epoch: header.epoch, first: header.first };
        match found.segments.get(&id) {
            Some(segment) => Some(of(segment)),
            None => found.segments.range(id..).map(|(_, s)| of(s)).find(|log_epoch| log_epoch.first <= id),
        }
    }

    fn has(self, header: &SegmentHeader) -> bool {
        header.epoch == self.epoch && header.first == self.first
    }
}

/// The reason and the place of the end of reading.
struct Stop {
    at: Lsn,
    why: String,
}

struct OpenSegment {
    header: SegmentHeader,
    path: PathBuf,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file; a multiple of `CHUNK`.
    start: u64,
}

impl OpenSegment {
    fn new(disk: &Arc<dyn Disk>, store: &Path, number: FileNo, header: SegmentHeader) -> Result<OpenSegment> {
        let path = file_path(store, number);
        let file = disk.open(&path, OpenMode::Read)?;
        file.advise(0, u64::from(header.size), Advice::Sequential);
        Ok(OpenSegment { header, path, file, buffer: Vec::new(), start: u64::MAX })
    }

    /// A file with an invalid header, read as the segment `id`; `None` if it is too short for one.
    fn headless(
        disk: &dyn Disk,
        store: &Path,
        number: FileNo,
        id: u32,
        log_epoch: LogEpoch,
    ) -> Result<Option<OpenSegment>> {
        let path = file_path(store, number);
        let file = disk.open(&path, OpenMode::Read)?;
        let size = match u32::try_from(file.len()?) {
            Ok(size) if size > SEGMENT_HEADER && size < u32::MAX - FRAME => size,
            _ => return Ok(None),
        };
        let (LogEpoch { epoch, first }, version) = (log_epoch, FormatVersion::One);
        let header = SegmentHeader { version, id, epoch, size, first };
        Ok(Some(OpenSegment { header, path, file, buffer: Vec::new(), start: u64::MAX }))
    }

    fn seal(&self) -> Seal {
        Seal::new(self.header.id, self.header.epoch)
    }

    /// The bytes from `offset` to the end of its frame; zeros where the file is too short.
    fn rest_of_frame(&mut self, offset: u32) -> Result<&[u8]> {
        let chunk = u64::from(offset) / CHUNK as u64 * CHUNK as u64;
        if self.start != chunk {
            self.start = u64::MAX;
            let len = (u64::from(self.header.size) - chunk).min(CHUNK as u64) as usize;
            self.buffer.clear();
            self.buffer.resize(len, 0);
            read_up_to(&*self.file, &mut self.buffer, chunk)?;
            self.start = chunk;
        }
        let end = u64::from(frame_end(offset, self.header.size));
        Ok(&self.buffer[(u64::from(offset) - chunk) as usize..(end - chunk) as usize])
    }
}

struct LogReader<'a> {
    disk: &'a Arc<dyn Disk>,
    store: &'a Path,
    found: &'a Found,
    /// The log ends before this record.
    torn: Lsn,
    open: Option<OpenSegment>,
}

enum Step {
    /// A record: its first byte, the byte after its last; its bytes are in the scratch buffer.
    Record(Lsn, Lsn),
    Stop(Stop),
}

impl LogReader<'_> {
    /// The segment `id` of `log_epoch`, open; `None` if there is no such segment.
    fn enter(&mut self, id: u32, log_epoch: Option<LogEpoch>) -> Result<Option<&mut OpenSegment>> {
        if self.open.as_ref().is_none_or(|open| open.header.id != id) {
            let Some((number, header)) = self.found.segments.get(&id) else { return Ok(None) };
            if !log_epoch.is_some_and(|log_epoch| log_epoch.has(header)) {
                return Ok(None);
            }
            self.open = Some(OpenSegment::new(self.disk, self.store, *number, *header)?);
        }
        Ok(self.open.as_mut())
    }

    /// Reads the epoch from segment `first` on (its first live one) up to its boundary or its end, and moves
    /// the summary's end there.
    fn read_epoch(
        &mut self,
        first: u32,
        log_epoch: Option<LogEpoch>,
        boundary: Option<EpochBoundary>,
        summary: &mut RecoveredSummary,
        visit: &mut dyn FnMut(Lsn, RecordRef<'_>) -> Result<()>,
    ) -> Result<Stop> {
        summary.end = Lsn::new(first, SEGMENT_HEADER);
        summary.epoch = log_epoch.map_or(0, |log_epoch| log_epoch.epoch);
        let limit = boundary.map_or(Lsn(u64::MAX), |boundary| boundary.at);
        let mut scratch = Vec::new();
        let mut step = Ok(None);
        if summary.end < limit && log_epoch.is_some_and(|log_epoch| log_epoch.first < first) {
            step = self.skip_tail(first, log_epoch).map(|result| match result {
                Ok(end) => {
                    summary.end = end;
                    None
                }
                Err(stop) => Some(stop),
            });
        }
        let mut stop = step?;
        while stop.is_none() && summary.end < limit {
            match self.next_record(summary.end, log_epoch, &mut scratch)? {
                Step::Record(at, _) if at >= self.torn => {
                    stop = Some(Stop { at, why: "a record whose value is not whole".into() });
                }
                Step::Record(start, end) => {
                    if end > limit {
                        let what = format!("a record reaches over the boundary at {limit:?}");
                        return Err(self.damage(start, what));
                    }
                    let (durable, record) =
                        RecordRef::decode(&scratch).map_err(|what| match is_later(what) {
                            true => self.of_later_version(start, what),
                            false => {
                                self.damage(start, format!("a record that verifies does not decode: {what}"))
                            }
                        })?;
                    summary.max_durable_seen = summary.max_durable_seen.max(durable);
                    summary.max_seq_seen = summary.max_seq_seen.max(record.seq().unwrap_or(0));
                    if record != RecordRef::DurableMark {
                        summary.records += 1;
                        visit(start, record)?;
                    }
                    summary.end = end;
                }
                Step::Stop(why) => stop = Some(why),
            }
        }
        match (stop, boundary) {
            (Some(stop), Some(_)) => {
                Err(self.damage(stop.at, format!("{}, before the boundary at {limit:?}", stop.why)))
            }
            (Some(stop), None) => Ok(stop),
            // Only a boundary ends the loop without a stop.
            (None, _) => Ok(Stop { at: summary.end, why: "the boundary".into() }),
        }
    }

    /// Skips the rest of a record begun before the first live segment.
    fn skip_tail(&mut self, first: u32, log_epoch: Option<LogEpoch>) -> Result<Result<Lsn, Stop>> {
        let mut at = Lsn::new(first, SEGMENT_HEADER);
        loop {
            match self.fragment(at, log_epoch)? {
                Ok((Part::Full | Part::First, _, _)) => return Ok(Ok(at)),
                Ok((Part::Last, _, end)) => return Ok(Ok(end)),
                Ok((Part::Middle, _, end)) => at = self.continuation(end),
                Err(why) => return Ok(Err(Stop { at, why })),
            }
        }
    }

    /// The place of a record's next fragment, after a fragment with the end `end`, the end of its frame.
    fn continuation(&self, end: Lsn) -> Lsn {
        match &self.open {
            Some(open) if end.offset() < open.header.size => end,
            _ => Lsn::new(end.segment() + 1, SEGMENT_HEADER),
        }
    }

    /// The fragment at `at`: its part, its payload, its end. A fragment that neither ends a record nor fills
    /// its frame is invalid.
    #[allow(clippy::type_complexity)] // two kinds of failure: of the disk, and of the bytes
    fn fragment(
        &mut self,
        at: Lsn,
        log_epoch: Option<LogEpoch>,
    ) -> Result<Result<(Part, &[u8], Lsn), String>> {
        let Some(open) = self.enter(at.segment(), log_epoch)? else {
            return Ok(Err(format!("segment {} is missing", at.segment())));
        };
        let (seal, path) = (open.seal(), open.path.clone());
        let rest = open.rest_of_frame(at.offset())?;
        match seal.open(at.offset(), rest) {
            Fragment::Valid(part, payload) => {
                let end = Lsn::new(at.segment(), at.offset() + FRAGMENT_HEADER + payload.len() as u32);
                if !part.ends() && payload.len() + (FRAGMENT_HEADER as usize) < rest.len() {
                    return Ok(Err("a part of a record does not fill its frame".into()));
                }
                Ok(Ok((part, payload, end)))
            }
            Fragment::Invalid(why) => Ok(Err(format!("no valid record: {why}"))),
            Fragment::Unknown(what) => {
                Err(Error::later_version(path, format!("at offset {}: {what}", at.offset())))
            }
        }
    }

    /// The record after the end `end` of another.
    fn next_record(&mut self, end: Lsn, log_epoch: Option<LogEpoch>, scratch: &mut Vec<u8>) -> Result<Step> {
        scratch.clear();
        let size = match self.enter(end.segment(), log_epoch)? {
            Some(open) => open.header.size,
            None => u32::MAX,
        };
        let start = match record_start(end.offset(), size) {
            Some(offset) => Lsn::new(end.segment(), offset),
            None => Lsn::new(end.segment() + 1, SEGMENT_HEADER),
        };
        let mut at = start;
        loop {
            match self.fragment(at, log_epoch)? {
                Ok((part, _, _)) if part.starts() != (at == start) => {
                    let why = "parts of records out of order".into();
                    return Ok(Step::Stop(Stop { at, why }));
                }
                Ok((part, payload, end)) => {
                    scratch.extend_from_slice(payload);
                    if part.ends() {
                        return Ok(Step::Record(start, end));
                    }
                    at = self.continuation(end);
                }
                Err(why) => return Ok(Step::Stop(Stop { at, why })),
            }
        }
    }

    fn damage(&self, at: Lsn, what: String) -> Error {
        match self.found.segments.get(&at.segment()) {
            Some((number, _)) => Error::corruption(file_path(self.store, *number), at.offset().into(), what),
            None => Error::corruption(log_dir(self.store), at.offset().into(), what),
        }
    }

    /// The error for a valid record of a kind unknown to this version.
    fn of_later_version(&self, at: Lsn, what: &str) -> Error {
        let path = match self.found.segments.get(&at.segment()) {
            Some((number, _)) => file_path(self.store, *number),
            None => log_dir(self.store),
        };
        Error::later_version(path, format!("at offset {}: {what}", at.offset()))
    }

    /// Decides whether the last epoch ended at a torn tail or at a hole (1.3 a).
    fn judge_end(
        &self,
        log_epoch: Option<LogEpoch>,
        stop: &Stop,
        summary: &mut RecoveredSummary,
    ) -> Result<()> {
        let end = summary.end;
        let mut last = end.segment();
        for (id, (number, header)) in self.found.segments.range(end.segment()..) {
            if log_epoch.is_some_and(|log_epoch| log_epoch.has(header)) {
                last = *id;
                let from = if *id == end.segment() { end.offset() } else { SEGMENT_HEADER };
                let mut open = OpenSegment::new(self.disk, self.store, *number, *header)?;
                let seen = search(&mut open, from)?;
                summary.note(&seen);
                summary.max_durable_seen = summary.max_durable_seen.max(seen.durable);
            }
        }
        // A segment whose header was lost still proves what its fragments say.
        let missing: Vec<u32> =
            (end.segment()..=last + 1).filter(|id| !self.found.segments.contains_key(id)).collect();
        if let (Some(log_epoch), false) = (log_epoch, self.found.headless.is_empty()) {
            for number in &self.found.headless {
                for id in &missing {
                    let Some(mut open) = self.open_headless(*number, *id, log_epoch)? else { continue };
                    let seen = search(&mut open, SEGMENT_HEADER)?;
                    summary.note(&seen);
                    summary.max_durable_seen = summary.max_durable_seen.max(seen.durable);
                    if summary.max_durable_seen > end && seen.records > 0 {
                        let what = format!(
                            "the header of segment {id} does not verify, and the log is durable up to {:?}",
                            summary.max_durable_seen
                        );
                        return Err(Error::corruption(open.path, 0, what));
                    }
                }
            }
        }
        if summary.max_durable_seen > end {
            let what = format!("{}, and the log is durable up to {:?}", stop.why, summary.max_durable_seen);
            return Err(self.damage(stop.at, what));
        }
        Ok(())
    }

    fn open_headless(&self, number: FileNo, id: u32, log_epoch: LogEpoch) -> Result<Option<OpenSegment>> {
        OpenSegment::headless(&**self.disk, self.store, number, id, log_epoch)
    }

    /// Sorts every file into "has content, keep until released" and "free".
    fn sort_files(&self, first_live: u32, used: &[u32], summary: &mut RecoveredSummary) -> Result<()> {
        let mut files = LogFiles { old: Vec::new(), free: self.found.headless.clone() };
        for (id, (number, header)) in &self.found.segments {
            if *id < first_live {
                files.free.push(*number);
                continue;
            }
            if used.contains(id) {
                files.old.push((*id, *number));
                continue;
            }
            // After the end, or of a recovery that did not finish. The new epoch's numbers must be
            // above those in there too.
            let mut open = OpenSegment::new(self.disk, self.store, *number, *header)?;
            let seen = search(&mut open, SEGMENT_HEADER)?;
            if seen.records > 0 || seen.fragments {
                summary.max_seq_seen = summary.max_seq_seen.max(seen.seq);
                files.old.push((*id, *number));
            } else {
                files.free.push(*number);
            }
        }
        summary.files = files;
        Ok(())
    }
}

impl RecoveredSummary {
    fn note(&mut self, seen: &Seen) {
        self.max_seq_seen = self.max_seq_seen.max(seen.seq);
        self.discarded += seen.records;
    }
}

/// The content of valid starts of records, anywhere in a part of a segment.
#[derive(Default)]
struct Seen {
    records: u64,
    /// A valid fragment at the start of a frame, of any part.
    fragments: bool,
    durable: Lsn,
    seq: Seq,
}

/// True if losing a file with an invalid header is no loss: it is as long as a segment, and no record of the
/// segment begins in it.
pub(super) fn holds_nothing(disk: &dyn Disk, store: &Path, segment: &LogSegment) -> Result<bool> {
    let log_epoch = LogEpoch { epoch: segment.epoch, first: 0 };
    match OpenSegment::headless(disk, store, segment.file, segment.id, log_epoch)? {
        Some(mut open) => search(&mut open, SEGMENT_HEADER).map(|seen| seen.records == 0 && !seen.fragments),
        None => Ok(false),
    }
}

/// Searches for starts of records at every byte from `from` on.
fn search(open: &mut OpenSegment, from: u32) -> Result<Seen> {
    let mut seen = Seen::default();
    let (seal, size, id) = (open.seal(), open.header.size, open.header.id);
    let life_start = Lsn::new(open.header.first, 0);
    let mut frame = from;
    while frame < size {
        let end = frame_end(frame, size);
        let bytes = open.rest_of_frame(frame)?;
        if !all_zero(bytes) {
            if frame == SEGMENT_HEADER || frame % FRAME == 0 {
                seen.fragments |= matches!(seal.open(frame, bytes), Fragment::Valid(..));
            }
            let mut at = 0;
            while at + (FRAGMENT_HEADER as usize) < bytes.len() {
                // The type and the flags first: they rule out nearly everything that is no fragment.
                let starts = matches!(bytes[at + 6], 1 | 2) && bytes[at + 7] == 0;
                if !starts {
                    at += 1;
                    continue;
                }
                // Then a position that this segment can know of, before a checksum is computed.
                let start = peek(&bytes[at + FRAGMENT_HEADER as usize..]);
                let plausible = start.filter(|(lsn, _)| *lsn >= life_start && lsn.segment() <= id);
                match plausible.map(|start| (start, seal.open(frame + at as u32, &bytes[at..]))) {
                    Some(((durable, seq), Fragment::Valid(_, payload))) => {
                        seen.records += 1;
                        seen.durable = seen.durable.max(durable);
                        seen.seq = seen.seq.max(seq.unwrap_or(0));
                        at += FRAGMENT_HEADER as usize + payload.len();
                    }
                    _ => at += 1,
                }
            }
        }
        frame = end;
    }
    Ok(seen)
}

fn all_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|chunk| chunk.iter().fold(0, |a, b| a | b) == 0)
}
