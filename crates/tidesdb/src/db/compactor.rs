//! Running compactions: what the picker chose, or, for OPTIMIZE, everything of a family.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::compaction::history::Job;
use crate::compaction::job::{self, Compacted, JobContext};
use crate::compaction::picker::{Reason, Task};
use crate::compaction::{self};
use crate::db::maintenance::Maintenance;
use crate::error::{Error, Result};
use crate::options::FamilyOptions;
use crate::store::family::Family;
use crate::types::{FamilyId, FileNo, MemtableId};
use crate::version::{FamilyLevels, TableHandle};

/// Pause before a manual compaction looks again whether others have left its family.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// How long a family whose merge failed, or a file whose rewrite failed, is passed over.
const SET_ASIDE: Duration = Duration::from_secs(60);

/// Families that merges pass over for a while because one of theirs failed, and shared files whose rewrite failed: a
/// damaged file of one does not keep the others from being merged (`docs/protocols.md` 7.3).
#[derive(Debug, Default)]
pub(crate) struct CompactionBackoff {
    families: Mutex<HashMap<FamilyId, Instant>>,
    files: Mutex<HashMap<FileNo, Instant>>,
}

impl CompactionBackoff {
    /// A merge of the family failed; true: not because the disk is full or the store closes, it is set aside.
    fn note(&self, family: FamilyId, error: &Error) -> bool {
        note_in(&self.families, family, error)
    }

    /// The rewrite of a shared file failed.
    fn note_file(&self, file: FileNo, error: &Error) {
        note_in(&self.files, file, error);
    }

    /// Whether nothing of the family is merged for now.
    pub(crate) fn holds(&self, family: FamilyId) -> bool {
        self.families.lock().get(&family).is_some_and(|end| *end > Instant::now())
    }

    fn holds_file(&self, file: FileNo) -> bool {
        self.files.lock().get(&file).is_some_and(|end| *end > Instant::now())
    }
}

fn note_in<T: Eq + Hash>(until: &Mutex<HashMap<T, Instant>>, what: T, error: &Error) -> bool {
    let aside = !matches!(error, Error::DiskFull(_) | Error::Interrupted);
    if aside {
        let (mut until, now) = (until.lock(), Instant::now());
        until.retain(|_, end| *end > now);
        until.insert(what, now + SET_ASIDE);
    }
    aside
}

impl Maintenance {
    /// Options of a family that merges do not pass over.
    fn options_of_merged(&self, family: FamilyId) -> Option<FamilyOptions> {
        self.store.family_options(family).filter(|_| !self.backoff.holds(family))
    }

    /// Bytes still to compact.
    pub(crate) fn compaction_debt(&self) -> u64 {
        let version = self.store.versions.current();
        compaction::debt(
            &version,
            &self.store.options,
            &|id| self.options_of_merged(id),
            self.store.snapshots.oldest_snapshot(),
        )
    }

    fn with_context(
        &self,
        interrupted: &dyn Fn() -> bool,
        told: Job<'_>,
        run: impl FnOnce(&JobContext<'_>) -> Result<Compacted>,
    ) -> Result<Compacted> {
        let visible_seq = self.store.pipeline.visible_seq();
        let live = self.store.live_snapshots(visible_seq);
        let stop = || self.closing.load(Relaxed) || interrupted();
        let pace = |bytes| told.tick(bytes);
        let mut result =
            run(&JobContext { versions: &self.store.versions, live: &live, stop: &stop, pace: &pace });
        if let Ok(done) = &mut result {
            done.edit.expiry_clock = (done.counts.expired > 0).then_some(live.expired_at);
        }
        told.end(&result, self.store.versions.disk().now_micros());
        result
    }

    fn account(&self, done: &Compacted) {
        self.store.stats.compactions.fetch_add(1, Relaxed);
        self.store.stats.compaction_read.fetch_add(done.bytes_read, Relaxed);
        self.store.stats.compaction_written.fetch_add(done.bytes_written, Relaxed);
        self.store.stats.cancelled_pairs.fetch_add(done.counts.cancelled, Relaxed);
    }

    /// Runs the most urgent compaction, or rewrites a file that is mostly dead; false when nothing is due.
    pub(crate) fn compact_once(&self) -> Result<bool> {
        if self.store.wal.failed().is_some() {
            return Ok(false);
        }
        let oldest_snapshot = self.store.refresh_oldest_snapshot();
        let options = |id| self.options_of_merged(id);
        let picked = compaction::pick(
            &self.reservations,
            &self.store.versions,
            &self.store.options,
            None,
            &options,
            (oldest_snapshot, self.store.expired_at()),
        );
        if let Some(picked) = picked {
            let now = self.store.versions.disk().now_micros();
            let told = self.history.begin(picked.family, &picked.task, now);
            let done = self.with_context(&|| false, told, |context| {
                job::compact(
                    context,
                    &picked.version,
                    picked.family,
                    &picked.options,
                    self.store.options.target_file_size,
                    &picked.task,
                )
            });
            let done = done.inspect_err(|error| {
                if self.backoff.note(picked.family, error) {
                    self.shape_changed();
                }
            })?;
            self.account(&done);
            self.store.install(done.edit)?;
            drop(picked);
            self.after_compaction();
            return Ok(true);
        }
        let mut sparse = self.store.versions.sparse_files();
        // Of a file whose families are all set aside, or dropped a moment ago, nothing would be rewritten.
        sparse.retain(|file| {
            !self.backoff.holds_file(file.number) && file.families.iter().any(|&id| options(id).is_some())
        });
        let Some(task) = job::pick_sparse(&self.reservations, &self.store.versions, &sparse) else {
            self.store.versions.delete_obsolete()?;
            return Ok(false);
        };
        let told = self.history.begin_rewrite(&task.families, self.store.versions.disk().now_micros());
        let done =
            self.with_context(&|| false, told, |context| job::rewrite_sparse(context, &task, &options));
        let done = done.inspect_err(|error| self.backoff.note_file(task.file, error))?;
        self.account(&done);
        self.store.install(done.edit)?;
        drop(task);
        self.after_compaction();
        Ok(true)
    }

    /// Flushes and compacts until nothing is due.
    pub(crate) fn finish_compactions(&self) -> Result<()> {
        self.store.flush(&|| false)?;
        loop {
            // The threads' jobs may leave more to do.
            if !self.compact_once()? && self.reservations.is_empty() {
                return Ok(());
            }
            std::thread::sleep(BUSY_PAUSE);
        }
    }

    fn after_compaction(&self) {
        self.shape_changed();
        if let Err(error) = self.store.versions.delete_obsolete() {
            self.store.log(crate::options::LogLevel::Warn, &format!("an old file stays for now: {error}"));
        }
    }

    /// Merges all runs of a family that are there now into its last level, and rewrites those of it with entries that
    /// have expired; when interrupted, what was merged so far stays so.
    pub(crate) fn compact_family(&self, family: &Family, interrupted: &dyn Fn() -> bool) -> Result<()> {
        let expired_at = self.store.expired_at();
        // Later runs of level 0 are not waited for: under writes there is always one more.
        let version = self.store.versions.current();
        let newest = version.family(family.id()).and_then(|levels| levels.l0.first());
        let upto = newest.map_or(0, |run| run.generation);
        drop(version);
        loop {
            family.check_live()?;
            let picked = self.reservations.with(&self.store.versions, |version, reservations| {
                let levels = version.family(family.id())?;
                let from = first_level(levels, upto)?;
                if reservations.held(family.id()).next().is_some() {
                    return Some(None);
                }
                let deepest = levels.levels.len().max(1) as u8;
                let task = if from == deepest {
                    in_last_level(levels, deepest, expired_at)?
                } else {
                    let below = |level: &u8| levels.level(*level).is_some();
                    whole_level(levels, upto, from, (from + 1..=deepest).find(below).unwrap_or(deepest))
                };
                let reservation = reservations.reserve(family.id(), task.held());
                Some(Some((version.clone(), task, reservation)))
            });
            let (version, task, reservation) = match picked {
                None => return Ok(()),
                Some(None) => {
                    if self.closing.load(Relaxed) || interrupted() {
                        return Err(Error::Interrupted);
                    }
                    std::thread::sleep(BUSY_PAUSE);
                    continue;
                }
                Some(Some(picked)) => picked,
            };
            let told = self.history.begin(family.id(), &task, self.store.versions.disk().now_micros());
            let done = self.with_context(interrupted, told, |context| {
                let (options, size) = (family.options(), self.store.options.target_file_size);
                job::compact(context, &version, family.id(), &options, size, &task)
            });
            // Files that it has begun are nobody's.
            let done = done.inspect_err(|_| self.after_compaction())?;
            self.account(&done);
            self.store.install(done.edit)?;
            drop(reservation);
            self.after_compaction();
        }
    }
}

/// The tables but those of level 0 after generation `upto`.
fn tables_upto(levels: &FamilyLevels, upto: MemtableId) -> impl Iterator<Item = (u8, &TableHandle)> {
    levels.tables().filter(move |(level, table)| *level > 0 || table.generation <= upto)
}

/// The uppermost level with tables.
fn first_level(levels: &FamilyLevels, upto: MemtableId) -> Option<u8> {
    tables_upto(levels, upto).map(|(level, _)| level).min()
}

/// The rewrite of a table of the last level with entries that have expired; it has none after that.
fn in_last_level(levels: &FamilyLevels, level: u8, expired_at: u64) -> Option<Task> {
    let has_expired =
        |table: &&TableHandle| table.meta().expiry.is_some_and(|expiry| expiry.oldest <= expired_at);
    let table = levels.level(level)?.tables().iter().find(has_expired)?;
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

/// The merge of a whole level into a deeper one; of level 0 the tables up to generation `upto`, which are the oldest.
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
