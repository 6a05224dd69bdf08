//! Gives the space of dead values back, from value files that have needed ones too (`docs/protocols.md` 9.6). Files without any are
//! [`Store::end_value_files`](crate::store::Store)'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use crate::db::maintenance::Maintenance;
use crate::error::{Error, Result};
use crate::iter::VersionIterator;
use crate::mutant::{self, Mutant};
use crate::options::LogLevel;
use crate::sync::stage;
use crate::table::ValueUse;
use crate::types::FileNo;
use crate::values::NeededValues;
use crate::version::{TableHandle, Version};

/// Microseconds between two looks for dead values. A look goes before merges when it is late.
const PAUSE_US: u64 = if cfg!(simulation) { 5_000 } else { 200_000 };
const LATE_US: u64 = 4 * PAUSE_US;
/// After an error, and where all that could be given back is held.
const PAUSE_AFTER_ERROR_US: u64 = 300 * PAUSE_US;
const PAUSE_OF_HELD_US: u64 = 10 * PAUSE_US;

/// Needed values of a pass: their places are in memory meanwhile, 16 bytes each.
const MOST_VALUES: u64 = 1 << 20;

/// In the place of the time of the next look: one is under way.
const UNDER_WAY: u64 = u64::MAX;

/// A pause is at least so many times as long as the look before it, where at most so many per cent of what tables need could be
/// given back; else it is over at once.
const PAUSES_PER_LOOK: [(u64, u64); 2] = [(25, 4), (50, 1)];

/// When dead values are looked for, in microseconds of the disk's clock.
#[derive(Debug)]
pub(crate) struct LookTimes {
    /// The next look where nothing else is due; `UNDER_WAY`.
    due_at: AtomicU64,
    /// The next look at the earliest: as soon as many values were written since the last one.
    earliest: AtomicU64,
    /// Bytes of values written before the last look.
    written: AtomicU64,
    /// What could be given back at the last look, in per cent of what tables need.
    excess: AtomicU64,
}

impl LookTimes {
    /// A look is due at `now`.
    pub(crate) fn new(now: u64) -> LookTimes {
        LookTimes {
            due_at: AtomicU64::new(now),
            earliest: AtomicU64::new(now),
            written: AtomicU64::new(0),
            excess: AtomicU64::new(0),
        }
    }
}

/// Says when the next look comes, once it is dropped.
struct NextLook<'a> {
    times: &'a LookTimes,
    at: u64,
    earliest: u64,
}

impl Drop for NextLook<'_> {
    fn drop(&mut self) {
        self.times.earliest.store(self.earliest, Relaxed);
        self.times.due_at.store(self.at, Relaxed);
    }
}

/// The result of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// Too little has died.
    Nothing,
    /// Somebody may need what has died.
    Held,
    /// Bytes.
    Freed(u64),
}

/// A value file that tables of a version point into.
pub(crate) struct FileUse {
    pub needed: ValueUse,
    /// Tables with a hold on the file.
    pub tables: usize,
}

/// The tables of a version with values outside.
fn tables_with_values(version: &Version) -> impl Iterator<Item = (u8, &TableHandle)> {
    version.families().flat_map(|(_, levels)| levels.tables()).filter(|(_, table)| !table.values.is_empty())
}

/// Those of them with values in these files.
fn tables_of<'v>(
    version: &'v Version,
    uses: &'v BTreeMap<FileNo, FileUse>,
) -> impl Iterator<Item = (u8, &'v TableHandle)> {
    tables_with_values(version)
        .filter(|(_, table)| table.meta().values.iter().any(|of| uses.contains_key(&of.file)))
}

/// The value files of a version's tables.
pub(crate) fn uses_of(version: &Version) -> BTreeMap<FileNo, FileUse> {
    let mut uses: BTreeMap<FileNo, FileUse> = BTreeMap::new();
    for (_, table) in tables_with_values(version) {
        let of_file = |file| FileUse { needed: ValueUse { file, values: 0, bytes: 0 }, tables: 0 };
        for of in &table.meta().values {
            let needed = &mut uses.entry(of.file).or_insert_with(|| of_file(of.file)).needed;
            needed.values += of.values;
            needed.bytes += of.bytes;
        }
        for file in table.values.iter() {
            uses.entry(file.number()).or_insert_with(|| of_file(file.number())).tables += 1;
        }
    }
    uses
}

impl Maintenance {
    /// Gives dead values' space back if it is time to look and there is enough of it. For a compaction thread, `idle` without a merge
    /// that is due. A failure is told in the log: nothing but space depends on it.
    pub(crate) fn collect_values_in_time(&self, idle: bool) {
        let (now, times, values) = (self.store.now_micros(), &self.looks, self.store.versions.values());
        let (due, written) = (times.due_at.load(Relaxed), values.statement_bytes());
        let since = written.saturating_sub(times.written.load(Relaxed));
        // Half a memtable's values: the look after each flush finds those that it shows to be dead.
        let is_urgent =
            due != UNDER_WAY && since >= values.most_unflushed() / 2 && now >= times.earliest.load(Relaxed);
        if !is_urgent && now < due.saturating_add(if idle { 0 } else { LATE_US }) {
            return;
        }
        if times.due_at.compare_exchange(due, UNDER_WAY, Relaxed, Relaxed).is_err() {
            return;
        }
        times.written.store(written, Relaxed);
        // A look that panics is followed by another, too.
        let later = now + PAUSE_AFTER_ERROR_US;
        let mut next = NextLook { times, at: later, earliest: later };
        let pause = match self.look_for_values() {
            Ok(Look::Nothing) => PAUSE_US,
            Ok(Look::Freed(bytes)) if bytes > 0 => PAUSE_US,
            Ok(Look::Held | Look::Freed(_)) => PAUSE_OF_HELD_US,
            Err(error) => {
                if !self.closing.load(Relaxed) {
                    let what = "some space of dead values stays for now, tried again in a minute";
                    self.store.log(LogLevel::Warn, &format!("{what}: {error}"));
                }
                PAUSE_AFTER_ERROR_US
            }
        };
        // Most of the time is for merges.
        let ended = self.store.now_micros();
        let excess = times.excess.load(Relaxed);
        let pauses =
            PAUSES_PER_LOOK.iter().find(|(most, _)| excess <= *most).map_or(0, |(_, pauses)| *pauses);
        let least = pauses * ended.saturating_sub(now);
        next.at = ended + pause.max(least);
        // Where nothing came back, writes hasten the next look less.
        next.earliest = match pause {
            PAUSE_AFTER_ERROR_US => next.at,
            PAUSE_OF_HELD_US => ended + least.max(PAUSE_US),
            _ => ended + least,
        };
    }

    /// Gives the space of dead values back in the files with the most of them, and returns the bytes.
    ///
    /// Errors: I/O; the log has failed.
    pub(crate) fn collect_values(&self) -> Result<u64> {
        match self.look_for_values()? {
            Look::Freed(bytes) => Ok(bytes),
            Look::Nothing | Look::Held => Ok(0),
        }
    }

    fn look_for_values(&self) -> Result<Look> {
        if !self.store.versions.values().gives_parts_back() || self.store.check_writable().is_err() {
            return Ok(Look::Nothing);
        }
        let version = self.store.versions.current();
        let mut uses = uses_of(&version);
        let needed: u64 = uses.values().map(|of| of.needed.bytes).sum();
        let worth = self.leave_files_with_enough(&mut uses);
        if worth.is_empty() {
            self.looks.excess.store(0, Relaxed);
            return Ok(Look::Nothing);
        }
        self.leave_files_of_tables_alone(&version, &mut uses);
        let dead: u64 =
            worth.iter().filter(|(_, number)| uses.contains_key(number)).map(|(dead, _)| dead).sum();
        self.looks.excess.store(dead.saturating_mul(100) / needed.max(1), Relaxed);
        let read: u64 = tables_of(&version, &uses).map(|(_, table)| table.meta().len).sum();
        // The simulation's values are hardly longer than their entries.
        if read > dead && !uses.is_empty() && !cfg!(simulation) {
            return Ok(Look::Nothing);
        }
        drop(version);
        if uses.is_empty() {
            return Ok(Look::Held);
        }
        // No record with a pointer into these files follows any more. With the sync those of rolled back transactions are known as such
        // by a recovery, which looks for no value of theirs. A rollback that is not written yet keeps its files: the disk may be full.
        self.store.wal.sync_written()?;
        stage("stage: values to collect");
        let version = self.store.versions.current();
        let before: BTreeSet<FileNo> = uses.keys().copied().collect();
        let mut uses = uses_of(&version);
        uses.retain(|number, _| before.contains(number));
        self.leave_files_of_tables_alone(&version, &mut uses);
        self.free_values(&version, &uses).map(Look::Freed)
    }

    /// Leaves the files with the most to give back, and returns the bytes of each.
    fn leave_files_with_enough(&self, uses: &mut BTreeMap<FileNo, FileUse>) -> Vec<(u64, FileNo)> {
        let values = self.store.versions.values();
        let mut files: Vec<(u64, FileNo)> = Vec::new();
        for (&number, of) in &*uses {
            // A file that cannot be asked stays as it is: who reads its values is told.
            let dead = values.dead_bytes(number, &of.needed).unwrap_or(None);
            files.extend(dead.map(|dead| (dead, number)));
        }
        files.sort_unstable_by(|a, b| b.cmp(a));
        let mut places = 0;
        files.retain(|(_, number)| {
            let values = uses[number].needed.values;
            let fits = places == 0 || places + values <= MOST_VALUES;
            places += if fits { values } else { 0 };
            fits
        });
        let within: BTreeSet<FileNo> = files.iter().map(|(_, number)| *number).collect();
        uses.retain(|number, _| within.contains(number));
        files
    }

    /// Leaves the files that nobody holds but tables of this version, if it is the current one.
    fn leave_files_of_tables_alone(&self, version: &Arc<Version>, uses: &mut BTreeMap<FileNo, FileUse>) {
        let values = self.store.versions.values();
        uses.retain(|&number, of| mutant::is(Mutant::HeldValueFreed) || values.is_held_by(number, of.tables));
        // Else holds may have been counted that are of another version's tables.
        if !Arc::ptr_eq(version, &self.store.versions.current()) {
            uses.clear();
        }
    }

    /// The places of the needed values. A file stays as it is when a table of its values cannot be read; the last such error.
    fn needed_values(
        &self,
        version: &Version,
        uses: &BTreeMap<FileNo, FileUse>,
    ) -> (NeededValues, Option<Error>) {
        let values = self.store.versions.values();
        let (mut needed, mut failure) = (NeededValues::in_files(uses.keys().copied()), None);
        for (level, table) in tables_of(version, uses) {
            if mutant::is(Mutant::NeededValueFreed) && level == 0 {
                continue;
            }
            let mut add = || -> Result<()> {
                let mut entries = table.version_iter();
                entries.seek(b"")?;
                while entries.valid() && !self.closing.load(Relaxed) {
                    needed.add(values, entries.key().len(), &entries.entry())?;
                    entries.next()?;
                }
                Ok(())
            };
            if let Err(error) = add() {
                failure = Some(error);
                table.meta().values.iter().for_each(|of| needed.leave_out(of.file));
            }
            if self.closing.load(Relaxed) {
                return (NeededValues::default(), None);
            }
        }
        (needed, failure)
    }

    fn free_values(&self, version: &Version, uses: &BTreeMap<FileNo, FileUse>) -> Result<u64> {
        let values = self.store.versions.values();
        let stop = || self.closing.load(Relaxed);
        let (needed, mut failure) = self.needed_values(version, uses);
        let (mut freed, mut files) = (0, 0);
        for (number, places) in needed.into_files() {
            // The directory may be another store's by now.
            self.store.check_lock()?;
            match values.free_all_but(&uses[&number].needed, places, &stop) {
                Ok(bytes) => (freed, files) = (freed + bytes, files + u32::from(bytes > 0)),
                // The others' space is given back all the same.
                Err(error) => failure = Some(error),
            }
        }
        self.store.stats.value_bytes_freed.fetch_add(freed, Relaxed);
        if files > 0 {
            let what = format!("gave {freed} bytes of dead values back, of {files} files");
            self.store.log(LogLevel::Info, &what);
        }
        failure.map_or(Ok(freed), Err)
    }
}
