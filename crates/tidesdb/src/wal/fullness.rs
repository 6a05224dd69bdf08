//! Tracks the fullness of the store's disk: reports its begin and its end in the log, once each, and counts
//! them. Logs, flushes, merges and writers of large values report here; each tries again by itself.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Relaxed};

use crate::format::units::Micros;
use crate::options::{LogLevel, LogSink};
use crate::sync::Mutex;

/// A writer that found no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FullFor {
    /// Ordered records: their commits wait.
    LogWrite = 1,
    /// Changes asking for a place in the log: they are refused.
    LogSpace = 2,
    /// A flush: its memtables stay in memory.
    Flush = 4,
    /// A compaction: it waits.
    Merge = 8,
    /// A statement's value: the statement is refused.
    Value = 16,
}

impl FullFor {
    fn consequence(self) -> &'static str {
        match self {
            FullFor::LogWrite => "commits under way wait until there is some, others are refused",
            FullFor::LogSpace => "changes are refused, and reads go on",
            FullFor::Flush => "memtables stay in memory, and changes are refused once it is used up",
            FullFor::Merge => "merges wait, and all else goes on",
            FullFor::Value => "statements with large values are refused, and reads go on",
        }
    }

    fn name(self) -> &'static str {
        match self {
            FullFor::LogWrite | FullFor::LogSpace => "the write-ahead log",
            FullFor::Flush => "a flush",
            FullFor::Merge => "a merge",
            FullFor::Value => "a large value",
        }
    }
}

#[derive(Debug, Default)]
struct State {
    begun_us: u64,
    /// Time of the last refusal of a place in the log, or of a value.
    refused_us: u64,
}

/// See the module's comment.
#[derive(Debug, Default)]
pub struct DiskFullness {
    log: Option<LogSink>,
    state: Mutex<State>,
    /// The present [`FullFor`] causes, as bits; changed under the latch.
    causes: AtomicU8,
    times: AtomicU64,
}

impl DiskFullness {
    /// Reports go to `log`.
    pub fn new(log: Option<LogSink>) -> DiskFullness {
        DiskFullness { log, ..DiskFullness::default() }
    }

    /// True if a writer finds no room.
    pub fn is_full(&self) -> bool {
        self.causes.load(Relaxed) != 0
    }

    /// Number of times the disk became full.
    pub fn times(&self) -> u64 {
        self.times.load(Relaxed)
    }

    /// True if this writer finds no room.
    pub(crate) fn holds(&self, whom: FullFor) -> bool {
        self.causes.load(Relaxed) & whom as u8 != 0
    }

    /// Microseconds since the last refusal of a place in the log, or of a value.
    pub(crate) fn since_refusal(&self, now: u64) -> u64 {
        now.saturating_sub(self.state.lock().refused_us)
    }

    /// Notes a call on a file that found no room; `what`: the call.
    pub(crate) fn found(&self, whom: FullFor, what: &str, now: u64) {
        let mut state = self.state.lock();
        let before = self.causes.fetch_or(whom as u8, Relaxed);
        if matches!(whom, FullFor::LogSpace | FullFor::Value) {
            state.refused_us = now;
        }
        if before == 0 {
            state.begun_us = now;
            self.times.fetch_add(1, Relaxed);
        }
        drop(state);
        if before & whom as u8 == 0 {
            self.tell(
                LogLevel::Error,
                &format!(
                    "the disk is full: no room for {} ({what}): {}; make room, nothing is lost and no restart is needed",
                    whom.name(),
                    whom.consequence()
                ),
            );
        }
    }

    /// Notes that this writer has room again.
    pub(crate) fn over(&self, whom: FullFor, now: u64) {
        if !self.holds(whom) {
            return;
        }
        let state = self.state.lock();
        let before = self.causes.fetch_and(!(whom as u8), Relaxed);
        let lasted = now.saturating_sub(state.begun_us);
        drop(state);
        if before == whom as u8 {
            self.tell(LogLevel::Warn, &format!("the disk has room again, after {}", Micros(lasted)));
        }
    }

    fn tell(&self, level: LogLevel, message: &str) {
        if let Some(log) = &self.log {
            log.write(level, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_full_disk_is_told_when_it_begins_and_when_it_ends() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        let log = LogSink::new(move |level, line| into.lock().push((level, line.to_string())));
        let disk = DiskFullness::new(Some(log));
        let told = || std::mem::take(&mut *lines.lock());
        disk.over(FullFor::Flush, 1);
        disk.found(FullFor::Merge, "write of 'x'", 1_000_000);
        disk.found(FullFor::Merge, "write of 'x'", 2_000_000);
        let [(LogLevel::Error, line)] = &told()[..] else { panic!("one line") };
        assert!(
            line.starts_with("the disk is full: no room for a merge (write of 'x'): merges wait"),
            "{line}"
        );
        disk.found(FullFor::LogSpace, "create", 2_500_000);
        assert!(told()[0].1.contains("changes are refused"));
        assert_eq!((disk.is_full(), disk.times(), disk.since_refusal(2_600_000)), (true, 1, 100_000));
        disk.over(FullFor::LogSpace, 3_000_000);
        assert_eq!((disk.is_full(), told()), (true, vec![]));
        disk.over(FullFor::Merge, 3_500_000);
        disk.over(FullFor::Merge, 3_500_000);
        assert_eq!(told(), [(LogLevel::Warn, "the disk has room again, after 2.5 s".to_string())]);
        disk.found(FullFor::Flush, "sync", 4_000_000);
        assert_eq!((disk.is_full(), disk.times()), (true, 2));
    }
}
