//! Runs compactions: the picker's choice, or all runs of a family for OPTIMIZE.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use crate::compaction::history::{Action, CompactionProgress, CompactionRecord};
use crate::compaction::job::{self, Compacted, JobContext};
use crate::compaction::picker::{Reason, Task};
use crate::compaction::sparse::{self, worth_rewriting};
use crate::compaction::{self};
use crate::db::maintenance::Maintenance;
use crate::error::{Error, Result};
use crate::flush::large_table_bound;
use crate::host::HashSet;
use crate::options::{FamilyOptions, FormatVersion, LogLevel};
use crate::store::family::Family;
use crate::sync::stage;
use crate::table::SsTableMeta;
use crate::types::{FamilyId, FileNo, MemtableId};
use crate::version::{FamilyLevels, TableHandle, Version};

/// Pause before a manual compaction checks again for other jobs in its family.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

impl Maintenance {
    /// Options of a family not excluded from merges.
    fn options_of_merged(&self, family: FamilyId) -> Option<FamilyOptions> {
        let waits = || {
            self.reservations.quarantine().holds_family(family)
                || self.store.pressure.no_space.holds(family, || self.store.free_space())
        };
        self.store.family_options(family).filter(|_| !waits())
    }

    /// Puts the cause of a failed merge of `files` in quarantine: the file named by the error, or the whole
    /// family. A transient error is no file's fault, so the family waits: another family's merge may need
    /// less. The close of the store puts nothing in quarantine.
    fn note_failed(&self, family: FamilyId, files: &[FileNo], error: &Error) {
        if matches!(error, Error::Interrupted) {
            return;
        }
        let unreadable = self.store.versions.unreadable_input(error, files).filter(|_| !error.is_transient());
        match unreadable {
            Some(file) => self.reservations.quarantine().note_table(family, file),
            None => self.reservations.quarantine().note_family(family),
        }
        self.forget_what_is_gone();
        self.shape_changed();
    }

    /// Forgets quarantined tables and families that no longer exist.
    fn forget_what_is_gone(&self) {
        let (files, _) = self.store.versions.live_files();
        let lives = |number: FileNo| files.binary_search_by_key(&number, |file| file.number).is_ok();
        self.reservations.quarantine().retain(&self.store.versions.current(), &lives);
    }

    /// Bytes still to compact.
    pub(crate) fn compaction_debt(&self) -> u64 {
        let version = self.store.versions.current();
        let failed = self.reservations.quarantine().failed_families();
        compaction::debt(
            &version,
            &self.store.options_now(),
            &|id| self.store.family_options(id).filter(|_| !failed.contains(&id)),
            self.store.snapshots.oldest_snapshot(),
        )
    }

    fn with_context(
        &self,
        interrupted: &dyn Fn() -> bool,
        progress: CompactionProgress<'_>,
        run: impl FnOnce(&JobContext<'_>) -> Result<Compacted>,
    ) -> Result<Compacted> {
        let visible_seq = self.store.pipeline.visible_seq();
        let live = self.store.live_snapshots(visible_seq);
        let stop = || self.closing.load(Relaxed) || interrupted();
        let pace = |bytes| progress.tick(bytes);
        let begun = self.store.env.clock.now();
        let mut result = run(&JobContext {
            versions: &self.store.versions,
            live: &live,
            stop: &stop,
            pace: &pace,
            large_table: large_table_bound(&self.store.options_now()),
            new_value_files: Some(&*self.store),
        });
        if let Ok(done) = &mut result {
            self.store.stats.merge_times.add(self.store.env.clock.elapsed(begun));
            done.edit.expiry_clock = (done.counts.expired > 0).then_some(live.expired_at);
        }
        let record = progress.end(&result, self.store.now_micros());
        if let Some(record) = record {
            self.tell_merge(&record, result.as_ref().err());
        }
        result
    }

    /// Logs the end of a merge. A full disk, and the close of the store, have lines of their own.
    fn tell_merge(&self, record: &CompactionRecord, error: Option<&Error>) {
        let family = record.family.map_or("several tables".to_string(), |family| self.store.label(family));
        match error {
            None if record.action == Action::Move => {
                self.store.log(LogLevel::Debug, &format!("move of {family}: {record}"));
            }
            None => self.store.log(LogLevel::Info, &format!("merge of {family}: {record}")),
            Some(Error::DiskFull(_) | Error::Interrupted) => {}
            Some(error) => {
                let what = match error.is_transient() {
                    true => "is tried again after a pause",
                    false => "is tried again without what cannot be read",
                };
                self.store.log(LogLevel::Error, &format!("a merge of {family} failed and {what}: {error}"));
            }
        }
    }

    fn account(&self, done: &Compacted) {
        self.store.stats.compactions.fetch_add(1, Relaxed);
        self.store.stats.compaction_read.fetch_add(done.bytes_read, Relaxed);
        self.store.stats.compaction_written.fetch_add(done.bytes_written, Relaxed);
        self.store.stats.cancelled_pairs.fetch_add(done.counts.cancelled, Relaxed);
    }

    /// Runs the most urgent compaction, or rewrites a file with dead tables; false if nothing is due.
    fn compact_once(&self, settled: bool) -> Result<bool> {
        if self.store.wal.failed().is_some() {
            return Ok(false);
        }
        let oldest_snapshot = self.store.refresh_oldest_snapshot();
        let options = |id| self.options_of_merged(id);
        let picked = compaction::pick(
            &self.reservations,
            &self.store.versions,
            &self.store.options_now(),
            None,
            &options,
            (oldest_snapshot, self.store.expired_at()),
        );
        if let Some(picked) = picked {
            stage("stage: merge picked");
            let now = self.store.now_micros();
            let progress = self.history.begin(picked.family, &picked.task, now);
            // Of this moment: on a disk that fills within a second an older answer would hold the merge back
            // until there is more space than it needs.
            let free = self.store.free_space_now();
            // A move reads nothing, and takes no time.
            let merge = (!picked.task.moves).then(|| self.store.pressure.compaction_rate.begin());
            let done = self.with_context(&|| false, progress, |context| {
                job::compact(
                    context,
                    &picked.levels,
                    picked.family,
                    &picked.options,
                    self.store.options.target_file_size,
                    &picked.task,
                )
            });
            let files = picked.task.held().files;
            let no_space = &self.store.pressure.no_space;
            let note_full = |error: &Error| {
                if let Error::DiskFull(call) = error {
                    no_space.note(picked.family, picked.task.bytes, free, call);
                }
            };
            let done = done.inspect_err(|error| match error {
                Error::DiskFull(_) => note_full(error),
                error => self.note_failed(picked.family, &files, error),
            })?;
            self.account(&done);
            if let Some(merge) = merge {
                merge.finish(done.bytes_read);
            }
            stage("stage: merge written");
            self.store.install(done.edit).inspect_err(note_full)?;
            stage("stage: merge installed");
            no_space.forget(picked.family);
            if !picked.task.moves {
                self.reservations.quarantine().merged(picked.family, &files);
            }
            drop(picked);
            self.after_compaction();
            return Ok(true);
        }
        self.rewrite_sparse(settled)
    }

    /// True if there was no write for a while, and no job runs: tables dead now are not left to the next
    /// merge.
    fn is_settled(&self) -> bool {
        let quiet_for = self.store.now_micros().saturating_sub(self.flushed_at.load(Relaxed));
        quiet_for >= sparse::SETTLED_AFTER_US && self.reservations.is_empty()
    }

    /// Rewrites the file of the greatest benefit, if there is one.
    fn rewrite_sparse(&self, settled: bool) -> Result<bool> {
        let options = |id| self.options_of_merged(id);
        let files = self.store.versions.file_uses();
        let mut sparse = worth_rewriting(files, settled, self.store.free_space());
        // Of a file whose families are all in quarantine, or dropped a moment ago, nothing would be
        // rewritten.
        sparse.retain(|file| {
            let quarantined = self.reservations.quarantine().holds_file(file.number);
            !quarantined && file.families.iter().any(|&id| options(id).is_some())
        });
        let Some(task) = job::pick_sparse(&self.reservations, &self.store.versions, &sparse) else {
            // Nothing to do: what refused prepares left on a full disk goes too, without a flush.
            self.transactions.give_up_withdrawn();
            self.store.versions.delete_obsolete()?;
            return Ok(false);
        };
        stage("stage: merge picked");
        let progress = self.history.begin_rewrite(&task.families(), self.store.now_micros());
        let done =
            self.with_context(&|| false, progress, |context| job::rewrite_sparse(context, &task, &options));
        let done = done.inspect_err(|error| {
            if !matches!(error, Error::DiskFull(_) | Error::Interrupted) {
                self.reservations.quarantine().note_file(task.file);
            }
        })?;
        self.account(&done);
        stage("stage: merge written");
        self.store.install(done.edit)?;
        stage("stage: merge installed");
        drop(task);
        self.after_compaction();
        Ok(true)
    }

    /// One step of a compaction thread; false if nothing is due.
    pub(crate) fn compact_next(&self) -> Result<bool> {
        self.collect_values_in_time(false);
        let done = self.compact_once(self.is_settled())?;
        if !done {
            self.collect_values_in_time(true);
        }
        Ok(done)
    }

    /// Flushes and compacts until nothing is due.
    pub(crate) fn finish_compactions(&self) -> Result<()> {
        self.store.flush(&|| false)?;
        loop {
            // The threads' jobs may leave more to do.
            if !self.compact_once(true)? && self.reservations.is_empty() {
                return Ok(());
            }
            self.store.env.clock.sleep(BUSY_PAUSE);
        }
    }

    fn after_compaction(&self) {
        self.shape_changed();
        if let Err(error) = self.store.versions.delete_obsolete() {
            self.store.log(LogLevel::Warn, &format!("an old file stays for now: {error}"));
        }
    }

    /// Bytes of the family's tables written under other options than its present ones.
    pub(crate) fn old_form_bytes(&self, family: &Family) -> u64 {
        let (version, options) = (self.store.versions.current(), family.options());
        let levels = version.family(family.id());
        let tables = levels.iter().flat_map(|levels| levels.tables()).map(|(_, table)| table);
        tables.filter(|table| table.shows_old_form(&options)).map(|table| table.meta().len).sum()
    }

    /// Files of the family's last level written under other options than its present ones. Omits damaged
    /// ones: they cannot be rewritten.
    fn old_tables(&self, family: &Family) -> HashSet<FileNo> {
        let (version, options) = (self.store.versions.current(), family.options());
        let old =
            last_level(&version, family).filter(|table| table.is_in_old_form(&options).unwrap_or(false));
        old.map(|table| table.file.number()).collect()
    }

    /// Files of the family's last level with old versions or tombstones that a merge kept for a snapshot, and
    /// that no snapshot needs any more.
    fn superseded_tables(&self, family: &Family) -> HashSet<FileNo> {
        let (oldest, version) = (self.store.refresh_oldest_snapshot(), self.store.versions.current());
        let is_superseded = |table: &&TableHandle| {
            let meta = table.meta();
            meta.max_seq <= oldest && (meta.entries > meta.keys || meta.tombstones > 0)
        };
        last_level(&version, family).filter(is_superseded).map(|table| table.file.number()).collect()
    }

    /// Files of the family's last level with values that are long by now, in their entries.
    fn tables_with_long_values(&self, family: &Family) -> HashSet<FileNo> {
        let (version, threshold) = (self.store.versions.current(), u64::from(family.value_threshold()));
        if threshold == 0 || self.store.versions.format() != FormatVersion::Two {
            return HashSet::default();
        }
        // A table of an earlier build may have one: all of its entries are long, as far as is known.
        let is_long_on_average =
            |meta: &SsTableMeta| meta.values.is_empty() && meta.raw_bytes / meta.entries.max(1) >= threshold;
        let has_long = |table: &&TableHandle| match table.properties().map(|known| known.longest_value) {
            Ok(Some(longest)) => longest >= threshold,
            Ok(None) => is_long_on_average(table.meta()),
            // Damage: it cannot be rewritten.
            Err(_) => false,
        };
        last_level(&version, family).filter(has_long).map(|table| table.file.number()).collect()
    }

    /// Merges all present runs of a family into its last level. Rewrites tables there with expired or superseded
    /// entries, and tables written under other options. An interruption keeps the merges done so far.
    pub(crate) fn compact_family(&self, family: &Family, interrupted: &dyn Fn() -> bool) -> Result<()> {
        let expired_at = self.store.expired_at();
        // Later runs of level 0 are not waited for: under writes there is always one more.
        let version = self.store.versions.current();
        let newest = version.family(family.id()).and_then(|levels| levels.l0.first());
        let upto = newest.map_or(0, |run| run.generation);
        drop(version);
        // Once: what the merges below leave, a snapshot needs, or is long by its keys.
        let mut superseded = self.superseded_tables(family);
        superseded.extend(self.tables_with_long_values(family));
        loop {
            family.check_live()?;
            let mut due = self.old_tables(family);
            due.extend(&superseded);
            let picked = self.reservations.with(&self.store.versions, |version, reservations| {
                let levels = version.family(family.id())?;
                let from = first_level(levels, upto)?;
                if reservations.held(family.id()).next().is_some() {
                    return Some(None);
                }
                let deepest = levels.levels.len().max(1) as u8;
                let task = if from == deepest {
                    in_last_level(levels, deepest, expired_at, &due)?
                } else {
                    let below = |level: &u8| levels.level(*level).is_some();
                    whole_level(levels, upto, from, (from + 1..=deepest).find(below).unwrap_or(deepest))
                };
                let reservation = reservations.reserve(family.id(), task.held());
                Some(Some((Arc::clone(levels), task, reservation)))
            });
            let (levels, task, reservation) = match picked {
                None => return Ok(()),
                Some(None) => {
                    if self.closing.load(Relaxed) || interrupted() {
                        return Err(Error::Interrupted);
                    }
                    self.store.env.clock.sleep(BUSY_PAUSE);
                    continue;
                }
                Some(Some(picked)) => picked,
            };
            stage("stage: merge picked");
            let progress = self.history.begin(family.id(), &task, self.store.now_micros());
            let done = self.with_context(interrupted, progress, |context| {
                let (options, size) = (family.options(), self.store.options.target_file_size);
                job::compact(context, &levels, family.id(), &options, size, &task)
            });
            // Files that it has begun are nobody's.
            let done = done.inspect_err(|_| self.after_compaction())?;
            self.account(&done);
            stage("stage: merge written");
            self.store.install(done.edit)?;
            stage("stage: merge installed");
            self.store.pressure.no_space.forget(family.id());
            self.reservations.quarantine().merged(family.id(), &task.held().files);
            drop((levels, reservation));
            self.after_compaction();
        }
    }
}

/// The tables but those of level 0 after generation `upto`.
fn tables_upto(levels: &FamilyLevels, upto: MemtableId) -> impl Iterator<Item = (u8, &TableHandle)> {
    levels.tables().filter(move |(level, table)| *level > 0 || table.generation <= upto)
}

/// The tables of a family's last level.
fn last_level<'v>(version: &'v Version, family: &Family) -> impl Iterator<Item = &'v TableHandle> {
    version
        .family(family.id())
        .and_then(|levels| levels.levels.last())
        .into_iter()
        .flat_map(|level| level.tables())
}

/// The uppermost level with tables.
fn first_level(levels: &FamilyLevels, upto: MemtableId) -> Option<u8> {
    tables_upto(levels, upto).map(|(level, _)| level).min()
}

/// The rewrite of a table of the last level with expired entries, or one of `due`.
fn in_last_level(levels: &FamilyLevels, level: u8, expired_at: u64, due: &HashSet<FileNo>) -> Option<Task> {
    let has_expired =
        |table: &&TableHandle| table.meta().expiry.is_some_and(|expiry| expiry.oldest <= expired_at);
    let is_due = |table: &&TableHandle| has_expired(table) || due.contains(&table.file.number());
    let table = levels.level(level)?.tables().iter().find(is_due)?;
    Some(Task {
        reason: Reason::Manual,
        score: 0,
        from: level,
        to: level,
        inputs: vec![table.file.number()],
        overlaps: Vec::new(),
        min_key: table.meta().min_key.clone(),
        max_key: table.meta().max_key.clone(),
        moves: false,
        cursor: None,
        bytes: table.meta().len,
    })
}

/// The merge of a whole level into a deeper one; of level 0, the tables up to generation `upto`, its oldest.
fn whole_level(levels: &FamilyLevels, upto: MemtableId, from: u8, to: u8) -> Task {
    let of_level = tables_upto(levels, upto).filter(|(level, _)| *level == from);
    let tables: Vec<&TableHandle> = of_level.map(|(_, table)| table).collect();
    let least = |tables: &[&TableHandle]| {
        tables.iter().map(|table| table.meta().min_key.clone()).min().unwrap_or_default()
    };
    let most = |tables: &[&TableHandle]| {
        tables.iter().map(|table| table.meta().max_key.clone()).max().unwrap_or_default()
    };
    let (min_key, max_key) = (least(&tables), most(&tables));
    let overlaps: Vec<&TableHandle> = levels
        .level(to)
        .map_or_else(Vec::new, |level| level.overlapping(&min_key, &max_key).iter().collect());
    let all: Vec<&TableHandle> = tables.iter().chain(&overlaps).copied().collect();
    Task {
        reason: Reason::Manual,
        score: 0,
        from,
        to,
        inputs: tables.iter().map(|table| table.file.number()).collect(),
        overlaps: overlaps.iter().map(|table| table.file.number()).collect(),
        min_key: least(&all),
        max_key: most(&all),
        moves: false,
        cursor: None,
        bytes: all.iter().map(|table| table.meta().len).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Instant;

    use super::*;
    use crate::db::Db;
    use crate::io::{Disk, FaultyDisk};
    use crate::options::Options;
    use crate::txn::transaction::TransactionOptions;

    fn fill(db: &Db, family: &std::sync::Arc<Family>) {
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        txn.statement_begin(true, Duration::from_secs(20)).expect("nobody waits");
        for n in 0..6_000u32 {
            txn.put(family, &n.to_be_bytes(), &[n as u8; 100]).expect("puts");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    }

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Level 0 is at the stop, and only a merge with a damaged run would shorten it. The end of a pause, here
    /// as short as possible, stops no writer.
    #[test]
    fn a_pause_that_ends_stops_no_writer() {
        let disk = FaultyDisk::new(1);
        let options = Options {
            compaction_threads: 1,
            block_cache_size: 4 << 10,
            write_buffer_size: 8 << 20,
            wal_segment_size: 1 << 20,
            ..Options::default()
        };
        let two = FamilyOptions {
            compression: crate::options::Compression::None,
            l0_compaction_trigger: 2,
            l0_stall_threshold: 2,
            ..FamilyOptions::default()
        };
        let db = Db::open_on(disk.shared(), "/s", options, None).expect("opens");
        let quarantine = db.maintenance.reservations.quarantine();
        quarantine.set_pauses(Duration::from_micros(1), Duration::from_micros(1));
        let bad = db.create_family(b"bad", two).expect("creates");
        // The dictionary has files of its own.
        db.flush().expect("flushes");
        fill(&db, &bad);
        let names = disk.list(std::path::Path::new("/s")).expect("lists");
        let file =
            names.iter().rfind(|name| name.ends_with(".sst")).map(|name| PathBuf::from("/s").join(name));
        let file = file.expect("one file");
        assert!(disk.flip_bit(&file, 100_000, 3));
        fill(&db, &bad);
        until("no merge meets the damage", || quarantine.failed_families().contains(&bad.id()));
        for _ in 0..200 {
            db.maintenance.shape_changed();
            let pressure = &db.store.pressure;
            let (runs, stop) = (pressure.l0_runs.load(Relaxed), pressure.l0_stop.load(Relaxed));
            assert!(stop == 0 || runs < stop, "a stop at {runs} runs that nobody ends");
            std::thread::sleep(Duration::from_millis(1));
        }
        fill(&db, &bad);
        // It was the cable: the next try succeeds, and the family counts again.
        assert!(disk.flip_bit(&file, 100_000, 3));
        until("nothing is merged", || quarantine.failed_families().is_empty());
        db.maintenance.shape_changed();
        drop(bad);
        db.close().expect("closes");
    }
}
