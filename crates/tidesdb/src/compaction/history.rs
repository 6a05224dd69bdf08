//! A history of compactions for diagnosing disk activity: all running ones, and the last [`KEPT`] finished
//! ones.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use super::job::Compacted;
use super::picker::{Reason, Task};
use crate::error::{Error, Result};
use crate::format::units::{Bytes, Micros};
use crate::sync::Mutex;
use crate::types::FamilyId;

/// Number of finished compactions kept.
pub const KEPT: usize = 256;

/// A compaction's outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompactionOutcome {
    /// Running.
    Running,
    /// Its outputs are installed.
    Done,
    /// Ended by an error; to be tried again.
    Failed,
    /// Ended because its requester went away or the store closes.
    Interrupted,
}

/// How a compaction treats its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Merges tables into new ones.
    Merge,
    /// Moves tables to another level without reading them.
    Move,
    /// Rewrites the live tables of a file shared by several families into a new file.
    Rewrite,
}

/// One compaction. Times are microseconds of the disk's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionRecord {
    /// Its number, counted since the store was opened.
    pub id: u64,
    /// Its family; `None` for several.
    pub family: Option<FamilyId>,
    /// Its treatment of the inputs.
    pub action: Action,
    /// Reason, in capitals.
    pub reason: &'static str,
    /// Level of the inputs; `None` for several.
    pub from: Option<u8>,
    /// Level of the outputs.
    pub to: Option<u8>,
    /// Tables read, or moved.
    pub tables_in: u64,
    /// Tables written, or moved.
    pub tables_out: u64,
    /// Bytes of `tables_in` on disk.
    pub bytes_in: u64,
    /// Bytes written to disk.
    pub bytes_out: u64,
    /// Bytes of keys and values merged so far.
    pub raw_bytes: u64,
    /// Entries read.
    pub entries_in: u64,
    /// Entries kept.
    pub entries_out: u64,
    /// Start.
    pub begun_us: u64,
    /// End.
    pub ended_us: Option<u64>,
    /// Its outcome.
    pub outcome: CompactionOutcome,
}

/// The compactions of a store since its opening.
#[derive(Debug, Default)]
pub struct History {
    state: Mutex<HistoryState>,
}

#[derive(Debug, Default)]
struct HistoryState {
    begun: u64,
    running: Vec<(CompactionRecord, Arc<AtomicU64>)>,
    over: VecDeque<CompactionRecord>,
}

/// A running compaction. Dropped without [`CompactionProgress::end`], it counts as interrupted.
#[derive(Debug)]
pub struct CompactionProgress<'a> {
    history: &'a History,
    id: u64,
    raw_bytes: Arc<AtomicU64>,
    ended: bool,
}

fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::Level0 => "LEVEL0",
        Reason::Level0Small => "LEVEL0_SMALL_RUNS",
        Reason::Level0Waiting => "LEVEL0_WAITING",
        Reason::LevelFull => "LEVEL_FULL",
        Reason::Tombstones => "TOMBSTONES",
        Reason::Expired => "EXPIRED",
        Reason::DeadVersions => "DEAD_VERSIONS",
        Reason::Manual => "MANUAL",
    }
}

impl History {
    /// Begins a compaction of a family, either picked or requested.
    pub fn begin(&self, family: FamilyId, task: &Task, now: u64) -> CompactionProgress<'_> {
        self.push(CompactionRecord {
            id: 0,
            family: Some(family),
            action: if task.moves { Action::Move } else { Action::Merge },
            reason: name(task.reason),
            from: Some(task.from),
            to: Some(task.to),
            tables_in: (task.inputs.len() + task.overlaps.len()) as u64,
            bytes_in: task.bytes,
            ..CompactionRecord::empty(now)
        })
    }

    /// Begins a rewrite of a shared file with live tables of these families.
    pub fn begin_rewrite(&self, families: &[FamilyId], now: u64) -> CompactionProgress<'_> {
        let family = (families.len() == 1).then(|| families[0]);
        self.push(CompactionRecord {
            family,
            tables_in: families.len() as u64,
            ..CompactionRecord::empty(now)
        })
    }

    fn push(&self, record: CompactionRecord) -> CompactionProgress<'_> {
        let raw_bytes = Arc::new(AtomicU64::new(0));
        let mut state = self.state.lock();
        state.begun += 1;
        let id = state.begun;
        state.running.push((CompactionRecord { id, ..record }, Arc::clone(&raw_bytes)));
        CompactionProgress { history: self, id, raw_bytes, ended: false }
    }

    /// Running compactions, then finished ones, each group newest first.
    pub fn records(&self) -> Vec<CompactionRecord> {
        let state = self.state.lock();
        let running = state.running.iter().rev();
        let running =
            running.map(|(record, raw)| CompactionRecord { raw_bytes: raw.load(Relaxed), ..record.clone() });
        running.chain(state.over.iter().cloned()).collect()
    }

    fn end(&self, id: u64, change: impl FnOnce(&mut CompactionRecord)) -> Option<CompactionRecord> {
        let mut state = self.state.lock();
        let at = state.running.iter().position(|(record, _)| record.id == id)?;
        let (mut record, raw_bytes) = state.running.remove(at);
        record.raw_bytes = raw_bytes.load(Relaxed);
        change(&mut record);
        state.over.push_front(record.clone());
        state.over.truncate(KEPT);
        Some(record)
    }
}

impl CompactionRecord {
    fn empty(now: u64) -> CompactionRecord {
        CompactionRecord {
            id: 0,
            family: None,
            action: Action::Rewrite,
            reason: "SPARSE_FILE",
            from: None,
            to: None,
            tables_in: 0,
            tables_out: 0,
            bytes_in: 0,
            bytes_out: 0,
            raw_bytes: 0,
            entries_in: 0,
            entries_out: 0,
            begun_us: now,
            ended_us: None,
            outcome: CompactionOutcome::Running,
        }
    }
}

impl CompactionProgress<'_> {
    /// Adds to the merged bytes of keys and values.
    pub fn tick(&self, raw_bytes: u64) {
        self.raw_bytes.fetch_add(raw_bytes, Relaxed);
    }

    /// Ends the compaction with a result; returns its record in the history.
    pub fn end(mut self, result: &Result<Compacted>, now: u64) -> Option<CompactionRecord> {
        self.ended = true;
        self.history.end(self.id, |record| {
            record.ended_us = Some(now);
            record.outcome = match result {
                Ok(_) => CompactionOutcome::Done,
                Err(Error::Interrupted) => CompactionOutcome::Interrupted,
                Err(_) => CompactionOutcome::Failed,
            };
            if let Ok(done) = result {
                record.tables_out = done.edit.new_tables.len() as u64;
                record.bytes_out = done.bytes_written;
                record.entries_in = done.counts.read;
                record.entries_out = done.counts.kept;
                if record.action == Action::Rewrite {
                    record.bytes_in = done.bytes_read;
                }
            }
        })
    }
}

impl fmt::Display for CompactionRecord {
    /// The figures of a finished compaction, for the log. The caller adds the family's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = |level: Option<u8>| level.map_or("?".to_string(), |level| level.to_string());
        match self.action {
            Action::Merge | Action::Move => write!(f, "level {} to {}", level(self.from), level(self.to))?,
            Action::Rewrite => f.write_str("rewrite of a file")?,
        }
        write!(
            f,
            " ({}): {} tables of {} into {} of {}, {} entries into {}, in {}",
            self.reason,
            self.tables_in,
            Bytes(self.bytes_in),
            self.tables_out,
            Bytes(self.bytes_out),
            self.entries_in,
            self.entries_out,
            Micros(self.ended_us.unwrap_or(self.begun_us).saturating_sub(self.begun_us))
        )
    }
}

impl Drop for CompactionProgress<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.history.end(self.id, |record| record.outcome = CompactionOutcome::Interrupted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_listed_first_and_only_the_last_ones_are_kept() {
        let history = History::default();
        for now in 0..KEPT as u64 + 10 {
            let job = history.begin_rewrite(&[1, 2], now);
            job.tick(5);
            job.end(&Ok(Compacted { bytes_read: 7, bytes_written: 3, ..Compacted::default() }), now + 2);
        }
        let failed = history.begin_rewrite(&[1], 1000);
        failed.end(&Err(Error::DiskFull("x".into())), 1001);
        drop(history.begin_rewrite(&[1], 1002));
        let runs = history.begin_rewrite(&[9], 1003);
        runs.tick(11);
        let records = history.records();
        assert_eq!(records.len(), KEPT + 1);
        assert_eq!((records[0].outcome, records[0].family), (CompactionOutcome::Running, Some(9)));
        assert_eq!((records[0].raw_bytes, records[0].ended_us), (11, None));
        assert_eq!(records[1].outcome, CompactionOutcome::Interrupted);
        assert_eq!((records[2].outcome, records[2].ended_us), (CompactionOutcome::Failed, Some(1001)));
        let done = &records[3];
        assert_eq!((done.outcome, done.family, done.raw_bytes), (CompactionOutcome::Done, None, 5));
        assert_eq!((done.bytes_in, done.bytes_out, done.tables_in), (7, 3, 2));
        assert_eq!(done.ended_us, Some(done.begun_us + 2));
        assert!(records[1..].windows(2).all(|pair| pair[0].id > pair[1].id));
    }
}
