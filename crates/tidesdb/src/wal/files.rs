//! The physical files of the log: files of live segments, reusable files, and files prepared for the next
//! segments.
//!
//! A file goes round. It is *ready* (header written and synced, no record yet), *live*, and *released* (while
//! recycling is held back, or a thread may still write its old content again). Then it is *free*, and ready
//! again under a new segment id. A segment id is tried in one file only, however often its preparation fails,
//! so no two files carry one id.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::segment::{file_path, log_dir, SegmentHeader, SEGMENT_HEADER};
use crate::error::{Error, Result};
use crate::io::{Disk, File, OpenMode};
use crate::mutant::{self, Mutant};
use crate::sync::Mutex;
use crate::types::{FileNo, LogSegment};

/// Number of free files kept for reuse; more are removed.
const KEEP_FREE: usize = 4;

/// Files are cleared while the disk has room for so many more.
const CLEAR_WITH_ROOM_FOR: u64 = 16;

/// The files of a log directory as recovery found them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogFiles {
    /// Segments with content of earlier epochs, and their files, oldest first. They are kept until
    /// [`super::Wal::release_before`] passes them.
    pub old: Vec<(u32, FileNo)>,
    /// Files without valid content.
    pub free: Vec<FileNo>,
}

/// A file with a segment of the present epoch.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: u32,
    number: FileNo,
    pub(super) file: Arc<dyn File>,
}

/// A segment with present or former content.
#[derive(Debug)]
struct Live {
    id: u32,
    number: FileNo,
    /// Its possible writers; none for segments of earlier epochs.
    writers: Weak<Segment>,
}

#[derive(Debug)]
struct LogFilesState {
    next_id: u32,
    next_number: FileNo,
    ready: VecDeque<Arc<Segment>>,
    live: VecDeque<Live>,
    released: Vec<Live>,
    free: Vec<FileNo>,
    holds: usize,
}

/// Lists a segment in the manifest, durably.
pub type ListSegment = Box<dyn Fn(LogSegment) -> Result<()> + Send + Sync>;

/// The segment in preparation. The mutex around it lets one thread at a time do the I/O.
struct Preparing {
    /// The file already tried for the next id.
    begun: Option<FileNo>,
    /// A file's directory entry may not be durable yet.
    unsynced_entry: bool,
    /// Lists each segment once it is ready, before its first record.
    list: Option<ListSegment>,
}

impl fmt::Debug for Preparing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preparing").field("begun", &self.begun).finish_non_exhaustive()
    }
}

/// See the module's comment.
#[derive(Debug)]
pub(super) struct Files {
    disk: Arc<dyn Disk>,
    store: PathBuf,
    /// The header of the epoch's segments, but for the id.
    kind: SegmentHeader,
    /// Files are cleared before they are used again. Their old pages are on the disk and no longer in memory: the kernel
    /// would read each one before a commit's bytes go into it, with the file's lock held, and all committers would wait.
    clears: AtomicBool,
    preparing: Mutex<Preparing>,
    state: Mutex<LogFilesState>,
}

impl Files {
    /// The files of an epoch with segments of this kind; the header's id does not count. With `clears` they are cleared
    /// before they are used again.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        store: PathBuf,
        kind: SegmentHeader,
        clears: bool,
        found: LogFiles,
    ) -> Files {
        let next_number =
            found.old.iter().map(|(_, n)| *n).chain(found.free.iter().copied()).max().unwrap_or(0) + 1;
        let state = LogFilesState {
            next_id: kind.first,
            next_number,
            ready: VecDeque::new(),
            live: found.old.iter().map(|&(id, number)| Live { id, number, writers: Weak::new() }).collect(),
            released: Vec::new(),
            free: found.free,
            holds: 0,
        };
        Files {
            disk,
            store,
            kind,
            clears: AtomicBool::new(clears),
            // A killed process may have left files behind whose entries never became durable.
            preparing: Mutex::new(Preparing { begun: None, unsynced_entry: true, list: None }),
            state: Mutex::new(state),
        }
    }

    /// Number of ready segments.
    pub(super) fn ready(&self) -> usize {
        self.state.lock().ready.len()
    }

    /// Prepares one more segment, unless `enough` are ready already. False if so.
    pub(super) fn prepare(&self, enough: usize) -> Result<bool> {
        let mut preparing = self.preparing.lock();
        let (id, number) = {
            let mut state = self.state.lock();
            if state.ready.len() >= enough {
                return Ok(false);
            }
            let number = match preparing.begun.or_else(|| state.free.pop()) {
                Some(number) => number,
                None => {
                    state.next_number += 1;
                    state.next_number - 1
                }
            };
            (state.next_id, number)
        };
        preparing.begun = Some(number);
        if id == u32::MAX {
            return Err(Error::ReadOnly("the log has used up its segment ids".into()));
        }
        let path = file_path(&self.store, number);
        let size = u64::from(self.kind.size);
        let file = if self.disk.exists(&path)? {
            self.disk.open(&path, OpenMode::ReadWrite)?
        } else {
            preparing.unsynced_entry = true;
            self.disk.open(&path, OpenMode::Create)?
        };
        let len = file.len()?;
        if len > size {
            file.set_len(size)?;
        }
        let clears = len > 0 && self.clears.load(Ordering::Relaxed) && self.has_room_to_clear();
        if clears {
            file.clear(size);
        }
        if clears || len < size {
            file.allocate(size)?;
        }
        let header = SegmentHeader { id, ..self.kind };
        file.write_at(&header.encode(), 0)?;
        if !mutant::is(Mutant::SegmentUnsynced) {
            file.sync_data()?;
        }
        if preparing.unsynced_entry && !mutant::is(Mutant::LogDirUnsynced) {
            self.disk.sync_dir(&log_dir(&self.store))?;
            preparing.unsynced_entry = false;
        }
        if let Some(list) = &preparing.list {
            list(LogSegment { id, epoch: self.kind.epoch, file: number })?;
        }
        preparing.begun = None;
        let mut state = self.state.lock();
        state.next_id += 1;
        state.ready.push_back(Arc::new(Segment { id, number, file }));
        Ok(true)
    }

    /// True if the disk is far from full: the room of a used file is the log's, and stays so.
    fn has_room_to_clear(&self) -> bool {
        let least = CLEAR_WITH_ROOM_FOR * u64::from(self.kind.size);
        self.disk.free_space(&self.store).is_ok_and(|free| free >= least)
    }

    /// Whether files are cleared from now on.
    pub(super) fn set_clears(&self, clears: bool) {
        self.clears.store(clears, Ordering::Relaxed);
    }

    /// The ready and live segments of this epoch, oldest first.
    pub(super) fn made(&self) -> Vec<LogSegment> {
        let state = self.state.lock();
        let live = state.live.iter().map(|live| (live.id, live.number));
        let ready = state.ready.iter().map(|ready| (ready.id, ready.number));
        let of_epoch = live.chain(ready).filter(|(id, _)| *id >= self.kind.first);
        of_epoch.map(|(id, file)| LogSegment { id, epoch: self.kind.epoch, file }).collect()
    }

    /// Lists present segments missing in `listed` at once, and from now on each new one, through `list`.
    pub(super) fn list_segments(&self, listed: &[LogSegment], list: ListSegment) -> Result<()> {
        let mut preparing = self.preparing.lock();
        self.made().into_iter().filter(|made| !listed.contains(made)).try_for_each(&list)?;
        preparing.list = Some(list);
        Ok(())
    }

    /// Takes the next ready segment and makes it live.
    pub(super) fn take_ready(&self) -> Option<Arc<Segment>> {
        let mut state = self.state.lock();
        let segment = state.ready.pop_front()?;
        let writers = Arc::downgrade(&segment);
        state.live.push_back(Live { id: segment.id, number: segment.number, writers });
        Some(segment)
    }

    /// Bytes for records in one segment.
    pub(super) fn room_per_segment(&self) -> u64 {
        u64::from(self.kind.size - SEGMENT_HEADER)
    }

    /// Lets live segments with ids below `segment` be reused.
    pub(super) fn release_before(&self, segment: u32) {
        let mut state = self.state.lock();
        while state.live.front().is_some_and(|live| live.id < segment) {
            let released = state.live.pop_front();
            state.released.extend(released);
        }
        Self::recycle(&mut state);
    }

    /// Frees released files, except those with a possible late writer.
    fn recycle(state: &mut LogFilesState) {
        if state.holds == 0 {
            let LogFilesState { released, free, .. } = state;
            released.retain(|live| {
                let held = live.writers.strong_count() > 0;
                if !held {
                    free.push(live.number);
                }
                held
            });
        }
    }

    /// Removes files beyond the number kept for reuse. `log` hears of a file that stays.
    pub(super) fn trim(&self, log: &dyn Fn(&str)) {
        loop {
            let number = {
                let mut state = self.state.lock();
                Self::recycle(&mut state);
                if state.free.len() <= KEEP_FREE || state.holds > 0 {
                    return;
                }
                state.free.pop()
            };
            let Some(number) = number else { return };
            let path = file_path(&self.store, number);
            if let Err(error) = self.disk.remove(&path) {
                log(&format!("a file of the write-ahead log that is not needed stays for now: {error}"));
            }
        }
    }

    /// Ids and file numbers of live segments, oldest first.
    #[cfg(test)]
    pub(super) fn live(&self) -> Vec<(u32, FileNo)> {
        self.state.lock().live.iter().map(|live| (live.id, live.number)).collect()
    }

    /// Ids and file numbers of live segments, and of released ones not yet free, oldest first.
    pub(super) fn kept(&self) -> Vec<(u32, FileNo)> {
        let state = self.state.lock();
        let mut kept: Vec<_> =
            state.live.iter().chain(&state.released).map(|live| (live.id, live.number)).collect();
        kept.sort_unstable();
        kept
    }
}

/// A guard: while it exists no log segment is recycled or removed.
#[derive(Debug)]
pub struct RecyclingHold {
    files: Arc<Files>,
}

impl RecyclingHold {
    pub(super) fn new(files: Arc<Files>) -> RecyclingHold {
        files.state.lock().holds += 1;
        RecyclingHold { files }
    }
}

impl Drop for RecyclingHold {
    fn drop(&mut self) {
        let mut state = self.files.state.lock();
        state.holds -= 1;
        Files::recycle(&mut state);
    }
}
