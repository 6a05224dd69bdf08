//! Background work. One thread flushes sealed memtables in their order, some compact, one reserves blocks of
//! counters and seconds of the expiry clock. One purges the heap, and measures a bounded memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::compaction::picker::deepest_level;
use crate::db::counters::ReserveLoop;
use crate::db::loops::{CompactLoop, FlushLoop, MemoryLoop};
use crate::db::maintenance::Maintenance;
use crate::error::{Error, Result};
use crate::flush::{self, FlushInput, FlushSource};
use crate::format::units::{Bytes, Micros};
use crate::host::{self, Handle, Spawn, Step};
use crate::iter::VersionIterator;
use crate::memtable::Memtable;
use crate::mutant::{self, Mutant};
use crate::options::LogLevel;
use crate::store::memtables::Sealed;
use crate::store::sealed_runs::CommittedRuns;
use crate::sync::{note, stage, Mutex};
use crate::types::{FamilyId, MemtableId, RowCount};
use crate::version::Edit;
use crate::wal::FullFor;

/// The threads of a store.
#[derive(Debug)]
pub struct Background {
    maintenance: Weak<Maintenance>,
    threads: Mutex<Vec<Box<dyn Handle>>>,
    /// The memory thread runs.
    measures: AtomicBool,
}

impl Background {
    /// Starts the threads. On an error none of them runs.
    pub(crate) fn start(maintenance: &Arc<Maintenance>) -> Result<Background> {
        Background::start_with(maintenance, &*maintenance.store.env.spawn)
    }

    /// Changes the number of compaction threads. Surplus ones end at the end of their merge.
    pub(crate) fn set_compaction_threads(&self, asked: usize, spawn: &dyn Spawn) -> Result<()> {
        let Some(maintenance) = self.maintenance.upgrade() else { return Ok(()) };
        let mut threads = self.threads.lock();
        if maintenance.closing.load(Ordering::Acquire) {
            return Ok(());
        }
        threads.retain(|thread| !thread.is_finished());
        start_compactors(&maintenance, asked, spawn, &mut threads)?;
        maintenance.work_signal.call();
        Ok(())
    }

    /// Starts the memory thread, unless it runs.
    pub(crate) fn measure_memory(&self, spawn: &dyn Spawn) -> Result<()> {
        let Some(measurer) = self.maintenance.upgrade() else { return Ok(()) };
        let mut threads = self.threads.lock();
        if measurer.closing.load(Ordering::Acquire) || self.measures.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        match start(spawn, MEASURER, MemoryLoop::new(measurer)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                self.measures.store(false, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    fn start_with(maintenance: &Arc<Maintenance>, spawn: &dyn Spawn) -> Result<Background> {
        // Dropped after an error, it stops and joins those that were started: the store is about to go.
        let background = Background {
            maintenance: Arc::downgrade(maintenance),
            threads: Mutex::new(Vec::new()),
            measures: AtomicBool::new(false),
        };
        let mut threads = background.threads.lock();
        let started = background.start_all(maintenance, spawn, &mut threads);
        drop(threads);
        started.map(|()| background)
    }

    fn start_all(
        &self,
        maintenance: &Arc<Maintenance>,
        spawn: &dyn Spawn,
        threads: &mut Vec<Box<dyn Handle>>,
    ) -> Result<()> {
        threads.push(start(spawn, "tdb-flush", FlushLoop::new(maintenance.clone()))?);
        threads.push(start(spawn, "tdb-counter", ReserveLoop::new(maintenance.clone()))?);
        let options = &maintenance.store.options;
        if options.max_memory > 0 || options.purge_heap.is_some() {
            threads.push(start(spawn, MEASURER, MemoryLoop::new(maintenance.clone()))?);
            self.measures.store(true, Ordering::Relaxed);
        }
        start_compactors(maintenance, options.compaction_threads, spawn, threads)
    }

    /// Stops and joins the threads; their work is finished or given up.
    pub(crate) fn stop(&self) {
        let Some(maintenance) = self.maintenance.upgrade() else { return };
        // Threads and committers that wait for room in the log end with its failure.
        maintenance.store.wal.end_waits();
        maintenance.closing.store(true, Ordering::Release);
        maintenance.store.memtables.state.lock().closing = true;
        maintenance.store.memtables.changed.notify_all();
        maintenance.work_signal.call();
        maintenance.counter_refill.wake();
        maintenance.close_signal.call();
        for thread in self.threads.lock().drain(..) {
            thread.join();
        }
        maintenance.store.memtables.state.lock().closing = false;
    }
}

const MEASURER: &str = "tdb-memory";

/// Starts the thread of a loop.
fn start(spawn: &dyn Spawn, name: &str, work: impl Step + Send + 'static) -> Result<Box<dyn Handle>> {
    let work = Box::new(move || host::run(work));
    spawn.spawn(name, work).map_err(|e| Error::io("start of a thread", name, e))
}

/// Starts compaction threads up to `asked`, but no more than half of the cores.
fn start_compactors(
    maintenance: &Arc<Maintenance>,
    asked: usize,
    spawn: &dyn Spawn,
    threads: &mut Vec<Box<dyn Handle>>,
) -> Result<()> {
    let cores = spawn.cores();
    let wanted = asked.min((cores / 2).max(1));
    if wanted < asked {
        let what =
            format!("compaction_threads={asked}: {wanted} of them run, at most half of the cores ({cores})");
        maintenance.store.log(LogLevel::Info, &what);
    }
    let missing = maintenance.compaction_threads.want(wanted);
    for started in 0..missing {
        let (compactor, host) = (CompactLoop::new(maintenance.clone()), maintenance.store.env.spawn.clone());
        let work = Box::new(move || {
            // Threads that serve clients go first.
            host.yield_to_others();
            host::run(compactor);
        });
        let thread = spawn.spawn("tdb-compact", work);
        let thread = thread.map_err(|e| Error::io("start of a thread", "tdb-compact", e));
        threads.push(thread.inspect_err(|_| maintenance.compaction_threads.ended(missing - started))?);
    }
    Ok(())
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Maintenance {
    pub(super) fn tell_failed_flush(&self, error: &Error) {
        match error {
            Error::DiskFull(what) => {
                self.store.wal.fullness().found(FullFor::Flush, what, self.store.now_micros())
            }
            error => self.store.log(LogLevel::Error, &format!("flush failed, will be tried again: {error}")),
        }
    }

    /// Notes room for merges, or the want of it.
    pub(super) fn note_room_for_merges(&self, result: &Result<bool>) {
        let fullness = self.store.wal.fullness();
        match result {
            Err(Error::DiskFull(what)) => fullness.found(FullFor::Merge, what, self.store.now_micros()),
            // Others may have fitted.
            Ok(_) if !self.store.merges_lack_space() => {
                fullness.over(FullFor::Merge, self.store.now_micros())
            }
            _ => {}
        }
    }

    /// Writes sealed memtables, oldest first, to files and makes them part of the version.
    pub(super) fn flush_sealed(&self, sealed: &[Sealed]) -> Result<()> {
        let Some(last) = sealed.last() else { return Ok(()) };
        // Before a table is written that would have to wait for the log.
        self.store.wal.check_room()?;
        if !mutant::is(Mutant::FlushBeforeCommits) {
            self.store.pipeline.help_until(last.last_seq, self.store.snapshots.oldest_snapshot());
        }
        let snapshots = self.store.live_snapshots(self.store.pipeline.visible_seq());
        let (begun, begun_us) = (self.store.env.clock.now(), self.store.now_micros());
        stage("stage: flush begun");
        let memtables: Vec<MemtableSource<'_>> = memtables_of(sealed).map(MemtableSource::new).collect();
        let memtables: Vec<&dyn FlushSource> = memtables.iter().map(|m| m as &dyn FlushSource).collect();
        let flushed = flush::flush(&FlushInput {
            versions: &self.store.versions,
            reservations: &self.reservations,
            memtables: &memtables,
            oldest: true,
            options: &self.store.options_now(),
            live: &snapshots,
            family: &|family| self.store.family_options(family),
            stop: &self.closing,
        })?;
        stage("stage: flush written");
        for error in &flushed.unreadable {
            self.store.log(LogLevel::Error, &unread_run(error));
        }
        // Before those who wait for the flush are told: they may look at the counters.
        self.store.stats.flushes.fetch_add(1, Ordering::Relaxed);
        self.store.stats.flush_bytes.fetch_add(flushed.bytes_written, Ordering::Relaxed);
        self.store.stats.cancelled_pairs.fetch_add(flushed.counts.cancelled, Ordering::Relaxed);
        if let Err(error) = self.log_before_install(last.flushable.id()) {
            // The next attempt writes another: these would fill the disk.
            flushed.edit.new_files.iter().for_each(|file| self.store.versions.discard_file(file.number));
            return Err(error);
        }
        self.install_sealed(flushed.edit.clone(), last)?;
        let took = self.store.env.clock.elapsed(begun);
        self.store.stats.flush_times.add(took);
        let memory: usize = memtables_of(sealed).map(|memtable| memtable.bytes()).sum();
        self.store.log(
            LogLevel::Info,
            &format!(
                "flush: {} memtables of {} into {} files of {} in {}",
                sealed.len(),
                Bytes(memory as u64),
                flushed.edit.new_files.len(),
                Bytes(flushed.bytes_written),
                Micros(self.store.now_micros().saturating_sub(begun_us))
            ),
        );
        if memory >= self.store.live.write_buffer_size() / 8 {
            // A smaller one, sealed early, says how long a file takes, and not a byte.
            self.store.pressure.flushed(memory as u64, self.store.env.clock.elapsed(begun));
        }
        self.shape_changed();
        Ok(())
    }

    /// The first log segment needed by recovery once the memtables up to `flushed` are in files.
    pub(crate) fn min_segment_to_keep(&self, flushed: MemtableId) -> u32 {
        // Undecided batches first: a batch that is decided meanwhile is held by its memtable before it
        // leaves that list.
        let undecided = self.transactions.prepared.first_segment();
        let prepared = undecided.filter(|_| !mutant::is(Mutant::UndecidedHoldsNoLog)).unwrap_or(u32::MAX);
        if mutant::is(Mutant::CheckpointTooHigh) {
            return self.store.wal.written_lsn().segment();
        }
        prepared.min(self.store.memtables_min_segment(flushed))
    }

    /// Makes the runs of a commit part of the version. Everything older is in it. `sealed` has the runs.
    pub(crate) fn install_runs(&self, runs: &CommittedRuns, sealed: &Sealed) -> Result<()> {
        let live = |family| self.store.catalog.is_live(family);
        self.log_before_install(runs.id())?;
        // This thread alone gives a family its first table.
        let version = self.store.versions.current();
        let deepest = |family| {
            let options = self.store.family_options(family)?;
            version.family(family).is_none().then(|| deepest_level(&options))
        };
        note("edit: runs");
        self.install_sealed(runs.edit(&live, &deepest), sealed)?;
        self.shape_changed();
        Ok(())
    }

    /// Makes the log durable as far as an edit up to memtable `upto` relies on it. Copies the prepared
    /// transactions the edit would release.
    fn log_before_install(&self, upto: MemtableId) -> Result<()> {
        // Before anything is copied that would wait.
        self.store.wal.check_room()?;
        // What the edit makes reachable must be in the log first (`docs/protocols.md` 1.6).
        let copies = self.transactions.rewrite_prepared(self.store.memtables_min_segment(upto));
        if !copies.is_empty() {
            note("log: prepared copied");
            stage("stage: flush, prepared copied");
        }
        if !mutant::is(Mutant::InstallBeforeLog) {
            self.store.wal.sync_all()?;
        }
        self.transactions.prepared_rewritten(&copies);
        if self.transactions.give_up_withdrawn() {
            self.store.unlink_unused();
        }
        Ok(())
    }

    /// Makes everything sealed up to `last` part of the version, and releases its log. All older memtables are in
    /// the version, and [`Maintenance::log_before_install`] has run.
    fn install_sealed(&self, mut edit: Edit, last: &Sealed) -> Result<()> {
        let upto = last.flushable.id();
        edit.last_seq = Some(last.last_seq);
        // The log that is released has it in a record.
        edit.position = last.position.filter(|_| !mutant::is(Mutant::PositionForgottenByFlush));
        edit.expiry_clock = self.store.ttl_clock.is_used().then(|| self.store.expiry_second());
        edit.last_generation = Some(upto);
        let needed_from = self.min_segment_to_keep(upto);
        edit.set_first_live_segment(needed_from, &self.store.versions.state().boundaries);
        if mutant::is(Mutant::LogReleasedBeforeEdit) {
            self.store.wal.release_before(needed_from);
        }
        stage("stage: flush before its edit");
        if mutant::is(Mutant::PositionOfLaterCommit) {
            edit.position = self.store.pipeline.position();
        }
        self.store.install_with(edit, |generation| generation > upto)?;
        stage("stage: flush installed");
        {
            let mut state = self.store.memtables.state.lock();
            state.sealed.retain(|sealed| sealed.flushable.id() > upto);
            state.min_segment.retain(|&generation, _| generation > upto);
            self.store.memtables.min_prepared_segment.lock().retain(|&generation, _| generation > upto);
            state.stuck = None;
        }
        self.flushed_at.store(self.store.now_micros(), Ordering::Relaxed);
        self.store.memtables.changed.notify_all();
        self.store.wal.release_before(needed_from);
        Ok(())
    }
}

/// The log's line about a run unreadable for a flush.
pub(crate) fn unread_run(error: &Error) -> String {
    format!(
        "a flush left out a run that cannot be read: {error}; its table can be dropped, or restored from a backup, and \
         `tidesdb-admin repair` copies the rest of the store"
    )
}

/// The memtables among sealed flushables.
fn memtables_of(sealed: &[Sealed]) -> impl Iterator<Item = &Arc<Memtable>> {
    sealed.iter().filter_map(|sealed| sealed.flushable.memtable())
}

/// A sealed memtable as a flush reads it.
pub(crate) struct MemtableSource<'a> {
    memtable: &'a Arc<Memtable>,
    /// Bytes and entries of all families together: the memtable does not count them by family.
    bytes: u64,
    entries: u64,
}

impl<'a> MemtableSource<'a> {
    pub(crate) fn new(memtable: &'a Arc<Memtable>) -> MemtableSource<'a> {
        let entries = memtable.families().into_iter().map(|family| memtable.entries(family)).sum();
        MemtableSource { memtable, bytes: memtable.bytes() as u64, entries }
    }
}

impl FlushSource for MemtableSource<'_> {
    fn id(&self) -> MemtableId {
        self.memtable.id()
    }

    fn families(&self) -> Vec<FamilyId> {
        self.memtable.families()
    }

    fn bytes(&self, family: FamilyId) -> u64 {
        self.bytes.saturating_mul(self.memtable.entries(family)) / self.entries.max(1)
    }

    fn row_count(&self, family: FamilyId) -> RowCount {
        self.memtable.row_count(family)
    }

    fn version_iter(&self, family: FamilyId) -> Option<Box<dyn VersionIterator + '_>> {
        let iter = self.memtable.version_iter(family)?;
        Some(Box::new(iter))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::db::Db;
    use crate::format::cluster_position::ClusterPosition;
    use crate::host::{SystemThreads, Work};
    use crate::io::FaultyDisk;
    use crate::options::{FamilyOptions, FormatVersion, Options};
    use crate::store::super_version::Flushable;
    use crate::txn::transaction::TransactionOptions;

    /// A machine that starts so many threads.
    #[derive(Debug)]
    struct TwoThreads(AtomicUsize);

    impl Spawn for TwoThreads {
        fn spawn(&self, name: &str, work: Work) -> std::io::Result<Box<dyn Handle>> {
            if self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
            {
                return Err(std::io::Error::from_raw_os_error(libc::EAGAIN));
            }
            SystemThreads.spawn(name, work)
        }

        fn cores(&self) -> usize {
            2
        }

        fn yield_to_others(&self) {}
    }

    /// Commits go on while a memtable waits for its flush, and a power cut may take them.
    #[test]
    fn a_flush_names_the_position_of_its_own_last_commit() {
        let disk = FaultyDisk::new(1);
        let options = Options {
            least_format: FormatVersion::Two,
            write_buffer_size: 64 << 10,
            wal_segment_size: 64 << 10,
            ..Options::default()
        };
        let db = Db::open_on(disk.shared(), "/s", options, None).expect("opens");
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        db.background.stop();
        db.maintenance.closing.store(false, Ordering::Release);
        let at = |number| ClusterPosition { uuid: [7; 16], number, gtid: None };
        let commit = |number, rows: u32| {
            let mut txn = db.transaction();
            txn.begin(TransactionOptions::default()).expect("begins");
            for n in 0..rows {
                txn.put(&family, &n.to_be_bytes(), &[1; 200]).expect("puts");
            }
            txn.set_position(Some(&at(number))).expect("takes it");
            txn.commit().expect("commits");
        };
        commit(9, 1);
        db.store.seal_active(&mut db.store.memtables.state.lock());
        commit(5, 1);
        // In runs: the memtable before them has an end of its own.
        commit(7, 400);
        commit(3, 1);
        let sealed = db.store.memtables.state.lock().sealed.clone();
        let ends: Vec<_> = sealed.iter().map(|sealed| sealed.position.map(|found| found.number)).collect();
        assert_eq!(ends, [Some(9), Some(5), Some(7)]);
        assert_eq!(db.position(), Some(at(3)));
        for (upto, expected) in sealed.iter().zip([9, 5, 7]) {
            match &upto.flushable {
                Flushable::Runs(runs) => db.maintenance.install_runs(runs, upto).expect("installs"),
                Flushable::Memtable(_) => {
                    db.maintenance.flush_sealed(std::slice::from_ref(upto)).expect("flushes");
                }
            }
            let state = db.store.versions.state();
            assert_eq!((state.position, state.last_seq), (Some(at(expected)), upto.last_seq));
        }
    }

    #[test]
    fn after_a_thread_that_cannot_be_started_none_runs() {
        let disk = FaultyDisk::new(1);
        let db = Db::open_on(disk.shared(), "/s", Options::default(), None).expect("opens");
        db.background.stop();
        db.maintenance.closing.store(false, Ordering::Release);
        let handles = Arc::strong_count(&db.maintenance);
        let started = Background::start_with(&db.maintenance, &TwoThreads(AtomicUsize::new(2)));
        assert!(matches!(started, Err(Error::Io { .. })), "{started:?}");
        assert_eq!(Arc::strong_count(&db.maintenance), handles, "a thread still has the store");
    }
}
