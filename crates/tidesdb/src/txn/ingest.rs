//! Loads: finished tables of empty families enter the store in one commit, past log and memtable
//! (`docs/protocols.md` 5.5).
//!
//! Entries in the order of their keys go straight into tables, each as large as an output of a merge, and in
//! large loads larger. The first one out of order ends that for its family. From then on its entries are sorted like the changes of a
//! large transaction ([`spill`](crate::txn::spill)): in memory up to its bound, then in runs. The end merges
//! them with the tables written before.
//!
//! The commit is one of runs. The log names the files, the marker is the commit point, and one edit of the
//! manifest makes them tables of the last level. A family that got entries of others meanwhile takes them as
//! runs of level 0: more to read, and as right.
//!
//! Guarantees: rows are visible from the commit's sequence number on, all together. They are durable when
//! [`Ingest::finish`] returns, in every sync mode. Before it, nothing names the files; a load that ends
//! otherwise unlinks them, and an opening does so after a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::units::Bytes;
use crate::io::File;
use crate::iter::version_merge::MergingVersionIterator;
use crate::iter::VersionIterator;
use crate::lock::{LockOwner, TableMode};
use crate::mutant::{self, Mutant};
use crate::options::{FamilyOptions, LogLevel, SyncMode};
use crate::store::commit_batch::CommitBatch;
use crate::store::family::Family;
use crate::store::sealed_runs::{SealedRuns, SealedTable};
use crate::store::Store;
use crate::table::{SsTableMeta, SsTableOptions};
use crate::txn::commit::SPACE_WAIT;
use crate::txn::spill::runs::KILL_STEPS;
use crate::txn::transaction::{check_key, check_value_len, Isolation, Transaction, TransactionOptions};
use crate::txn::write_batch::{LargeValue, WriteBatch};
use crate::txn::Transactions;
use crate::types::{CountEffect, Entry, FamilyId, Kind, Pieces, MAX_KEY_LEN};
use crate::value_holds::ValueHolds;
use crate::values::MovedValues;
use crate::version::table_output::TableOutput;
use crate::version::{LevelVersionIterator, LiveFile};
use crate::wal::WaitLimit;

/// Bytes of a value above which it is written from the caller's memory, without a copy.
const LARGE_VALUE: usize = 1 << 20;

/// Bytes of a value that [`Ingest::add_ascending`] leaves to [`Ingest::add`].
const LONG_VALUE: usize = 1 << 10;

/// Tables after which those that follow are twice as large, up to `MOST_DOUBLINGS` times. The log names all
/// tables of a load in one record, and until its edit a scan reads each as a run.
const TABLES_BEFORE_LARGER: usize = 64;

/// See [`TABLES_BEFORE_LARGER`].
const MOST_DOUBLINGS: u32 = 5;

/// The options of a load.
#[derive(Clone, Copy, Debug, Default)]
pub struct IngestOptions {
    /// No locks: for families without other users. Until the load has finished nobody else may write there, or
    /// deleted rows can come back.
    pub unlocked: bool,
}

/// A load of empty families. Dropped before [`Ingest::finish`], it leaves nothing.
///
/// Used by one thread at a time. From its first entry on, a family is locked as a whole against other writers
/// and locking readers; snapshots read on, and see the family empty.
#[derive(Debug)]
pub struct Ingest {
    store: Arc<Store>,
    transactions: Arc<Transactions>,
    /// Holds the locks on the families, and changes nothing. `None` only while the load ends.
    locks: Option<Transaction>,
    owner: Arc<LockOwner>,
    families: BTreeMap<FamilyId, FamilyLoad>,
    /// The entries of the families that are not `sorted`, apart from those in their tables.
    unsorted: WriteBatch,
    /// A call failed part-way: nothing can be committed any more.
    failed: bool,
    /// Scratch.
    stored: Vec<u8>,
}

/// The load of one family.
#[derive(Debug)]
struct FamilyLoad {
    family: Arc<Family>,
    tables: LoadTables,
    /// Every entry so far came in order; then `last_key` is the last one, if there is any.
    sorted: bool,
    last_key: Option<Vec<u8>>,
}

impl Ingest {
    pub(crate) fn begin(transactions: &Arc<Transactions>, options: IngestOptions) -> Result<Ingest> {
        transactions.store.check_writable()?;
        let mut locks = Transaction::new(Arc::clone(transactions));
        let (isolation, unlocked) = (Isolation::ReadCommitted, options.unlocked);
        locks.begin(TransactionOptions { isolation, unlocked, ..TransactionOptions::default() })?;
        Ok(Ingest {
            store: Arc::clone(&transactions.store),
            transactions: Arc::clone(transactions),
            owner: Arc::clone(locks.owner()),
            locks: Some(locks),
            families: BTreeMap::new(),
            unsorted: WriteBatch::default(),
            failed: false,
            stored: Vec::new(),
        })
    }

    /// The owner of its locks; kills go there ([`crate::db::Db::kill`]).
    pub fn owner(&self) -> &Arc<LockOwner> {
        &self.owner
    }

    /// Longest wait for the lock on a family; `None`: no limit.
    pub fn set_lock_timeout(&mut self, timeout: Option<std::time::Duration>) {
        if let Some(locks) = &mut self.locks {
            locks.set_lock_timeout(timeout);
        }
    }

    /// Adds an entry; it counts as a row. `expiry`: the second since 1970 from which on the key does not
    /// exist; 0: none.
    ///
    /// # Errors
    /// `InvalidArgument` for a family with entries, or with deleted ones that no merge has dropped yet;
    /// `Duplicate` for a key added before, perhaps only by [`Ingest::finish`]; `NoSuchFamily`, those of a wait
    /// for a lock, `Interrupted`; `TooLittleMemory` for an entry that no transaction could write. After `Deadlock`, `DiskFull` and `Io` the load can only be dropped.
    pub fn add(&mut self, family: &Arc<Family>, key: &[u8], value: Pieces<'_>, expiry: u64) -> Result<()> {
        self.add_in_parts(family, key, (value, 0), expiry)
    }

    /// As [`Ingest::add`]; of the value so many bytes, of its first piece, stay in the entry when the rest goes to a value file.
    pub fn add_in_parts(
        &mut self,
        family: &Arc<Family>,
        key: &[u8],
        (value, first_part): (Pieces<'_>, usize),
        expiry: u64,
    ) -> Result<()> {
        self.check_usable()?;
        check_key(key)?;
        check_value_len(value.len())?;
        self.open_family(family)?;
        let mut kind = Kind::PUT.marked_may_overwrite();
        let expiry = if mutant::is(Mutant::ExpiryLostByLoad) { 0 } else { expiry };
        if expiry != 0 {
            self.store.begin_expiries()?;
            kind = kind.with_expiry();
        }
        let Some(load) = self.families.get_mut(&family.id()) else { return Ok(()) };
        let before = load.last_key.as_deref();
        if before == Some(key) || (!load.sorted && self.unsorted.get(family.id(), key).is_some()) {
            return Err(Error::Duplicate);
        }
        let is_large = value.len() > self.store.live.spill_bound();
        let _memory = is_large.then(|| self.store.take_for_row(value.len())).transpose()?;
        load.sorted &= before.is_none_or(|before| before < key);
        // A panic counts, too.
        self.failed = true;
        // Also of an entry out of order: a sort need not write the value twice.
        let pointer = load.tables.separate(key, (value, first_part))?;
        let (value, kind) = match &pointer {
            Some(pointer) => (Pieces::new(pointer, &[]), kind.with_pointer()),
            None => (value, kind),
        };
        let added = match load.sorted {
            true => {
                let last = load.last_key.get_or_insert_with(Vec::new);
                last.clear();
                last.extend_from_slice(key);
                let (value, more) = stored(value, expiry, &mut self.stored);
                load.tables.add(key, Entry::new(0, kind, value), more)
            }
            false => self.add_unsorted(family.id(), key, kind, value, expiry),
        };
        self.failed = added.is_err();
        added
    }

    /// Adds entries as [`Ingest::add`] does, faster: it looks once at all that does not change between them. Ends before the
    /// first that comes out of order or has a long value: that one is for [`Ingest::add`]. Returns how many entries it
    /// added, and the failure of the one after them.
    pub fn add_ascending<'a>(
        &mut self,
        family: &Arc<Family>,
        entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> (usize, Result<()>) {
        let opened = self.check_usable().and_then(|()| self.open_family(family));
        let load = match (opened, self.families.get_mut(&family.id())) {
            (Ok(()), Some(load)) if load.sorted => load,
            (opened, _) => return (0, opened),
        };
        let threshold = load.tables.family_options.value_threshold as usize;
        let longest = if threshold == 0 { LONG_VALUE } else { LONG_VALUE.min(threshold) };
        let kind = Kind::PUT.marked_may_overwrite();
        let (mut count, mut last, mut done) = (0, None, Ok(()));
        self.failed = true;
        for (key, value) in entries {
            let before = last.or(load.last_key.as_deref());
            if value.len() >= longest || key.len() > MAX_KEY_LEN || before.is_some_and(|before| before >= key)
            {
                break;
            }
            done = load.tables.add(key, Entry::new(0, kind, value), Pieces::default());
            if done.is_err() {
                break;
            }
            last = Some(key);
            count += 1;
        }
        self.failed = done.is_err();
        if let Some(key) = last {
            let last = load.last_key.get_or_insert_with(Vec::new);
            last.clear();
            last.extend_from_slice(key);
        }
        (count, done)
    }

    fn add_unsorted(
        &mut self,
        family: FamilyId,
        key: &[u8],
        kind: Kind,
        value: Pieces<'_>,
        expiry: u64,
    ) -> Result<()> {
        let is_large = value.len() > LARGE_VALUE;
        let bytes = if is_large { Pieces::default() } else { value };
        let expiry = kind.has_expiry().then_some(expiry);
        self.unsorted.push_in_pieces(family, key, kind, expiry, bytes, CountEffect::Counts);
        if is_large {
            let change = (self.unsorted.len() - 1) as u32;
            return self.spill(&[LargeValue { change, value }]);
        }
        match self.unsorted.size() > self.store.live.spill_bound() {
            true => self.spill(&[]),
            false => Ok(()),
        }
    }

    /// Moves the unsorted entries in memory to a run.
    fn spill(&mut self, large: &[LargeValue<'_>]) -> Result<()> {
        self.unsorted.write_run(&self.store, &self.owner, large)?;
        self.unsorted.forget_written();
        let merged = self.unsorted.merge_runs(&self.store, &self.owner);
        self.store.unlink_unused();
        merged
    }

    /// Commits the load, durably; without entries it does nothing. After an error nothing of it is left.
    ///
    /// # Errors
    /// `Duplicate` for a key added twice; `InvalidArgument` when others have written to a family meanwhile,
    /// `NoSuchFamily` when one was dropped; `Interrupted`, `DiskFull`, `Io`. `ReadOnly` and `OutcomeUnknown`
    /// after a failure of the log: only a restart shows whether the load is there.
    pub fn finish(mut self) -> Result<()> {
        self.check_usable()?;
        let (runs, values) = self.seal()?;
        if runs.tables.is_empty() {
            return Ok(());
        }
        // A sync takes its time: others may have come in, if the load has no locks.
        self.store.reach(self.store.pipeline.last_ordered());
        for load in self.families.values() {
            load.family.check_live()?;
            check_empty(&self.store, &load.family)?;
        }
        let (tables, bytes) = (runs.tables.len(), runs.live_files().iter().map(|file| file.len()).sum());
        let owner = &self.owner;
        let until_killed = WaitLimit { timeout: SPACE_WAIT, interrupted: &|| owner.is_killed() };
        let batch = Arc::new(CommitBatch::spilled(runs).holding(values, ValueHolds::default()));
        let mut reserved = self.transactions.reserve_batch(batch, None, SyncMode::Full, &until_killed)?;
        self.transactions.order(&mut reserved);
        self.transactions.finish(reserved, false)?;
        let families: Vec<String> = self.families.keys().map(|&family| self.store.label(family)).collect();
        let what = format!("load of {}: {tables} tables, {}", families.join(", "), Bytes(bytes));
        self.store.log(LogLevel::Info, &what);
        Ok(())
    }

    fn check_usable(&self) -> Result<()> {
        self.store.check_writable()?;
        if self.failed {
            return Err(Error::InvalidArgument("an earlier call of this load failed: begin another".into()));
        }
        if self.owner.is_killed() {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Locks a family at its first entry, and looks whether it is empty.
    fn open_family(&mut self, family: &Arc<Family>) -> Result<()> {
        if self.families.contains_key(&family.id()) {
            return Ok(());
        }
        family.check_live()?;
        let known = self.store.catalog.by_id(family.id());
        if !known.is_some_and(|known| Arc::ptr_eq(&known, family)) {
            return Err(Error::InvalidArgument("the family and the load are of two stores".into()));
        }
        if let Some(locks) = &mut self.locks {
            let locked = locks.lock_table(family, TableMode::Exclusive);
            locked.inspect_err(|error| self.failed |= matches!(error, Error::Deadlock))?;
        }
        self.store.reach(self.store.pipeline.last_ordered());
        check_empty(&self.store, family)?;
        let tables = LoadTables::new(&self.store, family.id(), (*family.options()).clone());
        let load = FamilyLoad { family: Arc::clone(family), tables, sorted: true, last_key: None };
        self.families.insert(family.id(), load);
        Ok(())
    }

    /// The finished tables, durable, not yet named anywhere, and holds on the value files of their entries.
    fn seal(&mut self) -> Result<(SealedRuns, ValueHolds)> {
        let mut values = ValueHolds::default();
        let unsorted = std::mem::take(&mut self.unsorted);
        let mut runs = SealedRuns { files: Vec::new(), tables: Vec::new(), unproven: false, loaded: true };
        for load in self.families.values_mut() {
            if !load.sorted {
                load.sort(&self.store, &self.owner, &unsorted)?;
            }
            load.tables.end_table()?;
            load.tables.moved.finish()?.iter().for_each(|file| values.add(Arc::clone(file)));
            for ((file, meta), ordinal) in std::mem::take(&mut load.tables.done).into_iter().zip(1..) {
                runs.files.push(Arc::clone(&file));
                let rows = Some(meta.entries as i64);
                runs.tables.push(SealedTable { file, ordinal, meta, rows });
            }
        }
        if !runs.files.is_empty() {
            self.store.versions.table_files().sync()?;
        }
        Ok((runs, values))
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        let had_files = !self.families.is_empty();
        self.families.clear();
        self.unsorted.clear();
        // Ends the transaction, and with it the locks.
        drop(self.locks.take());
        if had_files {
            self.store.unlink_unused();
        }
    }
}

impl FamilyLoad {
    /// Writes the tables anew, with the entries that came out of order.
    fn sort(&mut self, store: &Arc<Store>, owner: &LockOwner, unsorted: &WriteBatch) -> Result<()> {
        self.tables.end_table()?;
        // The options stay those of the begin: the first tables may have pointers.
        let mut again = LoadTables::new(store, self.family.id(), self.tables.family_options.clone());
        again.moved = MovedValues::holding(self.tables.moved.finish()?);
        let first = std::mem::replace(&mut self.tables, again);
        let open =
            |(file, meta): &(Arc<LiveFile>, SsTableMeta)| store.versions.open_table(file, meta.clone(), 0);
        let mut iterators = unsorted.version_iters(self.family.id());
        iterators.push(Box::new(LevelVersionIterator::new(first.done.iter().map(open).collect())));
        let mut merged = MergingVersionIterator::new(iterators);
        merged.seek(&[])?;
        let (mut steps, mut last) = (0u64, None::<Vec<u8>>);
        while merged.valid() {
            steps += 1;
            if steps % KILL_STEPS == 0 && owner.is_killed() {
                return Err(Error::Interrupted);
            }
            if last.as_deref() == Some(merged.key()) {
                return Err(Error::Duplicate);
            }
            let last = last.get_or_insert_with(Vec::new);
            last.clear();
            last.extend_from_slice(merged.key());
            self.tables.add(merged.key(), merged.entry().with_seq(0), merged.more())?;
            merged.next()?;
        }
        Ok(())
    }
}

/// The tables of a family in the order of their keys, each in a file of its own. Dropping it unlinks all.
struct LoadTables {
    store: Arc<Store>,
    family: FamilyId,
    family_options: FamilyOptions,
    options: SsTableOptions,
    /// Bytes from which on one of the first tables ends.
    cut_at: u64,
    writing: Option<TableOutput>,
    /// Synced.
    done: Vec<(Arc<LiveFile>, SsTableMeta)>,
    /// The long values of the entries.
    moved: MovedValues,
}

impl std::fmt::Debug for LoadTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadTables({}, {} done)", self.family, self.done.len())
    }
}

impl LoadTables {
    fn new(store: &Arc<Store>, family: FamilyId, family_options: FamilyOptions) -> LoadTables {
        LoadTables {
            store: Arc::clone(store),
            family,
            options: SsTableOptions::of_family(&family_options, true),
            family_options,
            cut_at: store.options.target_file_size,
            writing: None,
            done: Vec::new(),
            moved: MovedValues::default(),
        }
    }

    fn add(&mut self, key: &[u8], entry: Entry<'_>, more: Pieces<'_>) -> Result<()> {
        let doublings = ((self.done.len() / TABLES_BEFORE_LARGER) as u32).min(MOST_DOUBLINGS);
        let cut_at = self.cut_at.saturating_mul(1 << doublings);
        if self.writing.as_ref().is_some_and(|output| output.writer.estimated_len() >= cut_at) {
            self.end_table()?;
        }
        let output = match &mut self.writing {
            Some(output) => output,
            None => {
                let output = TableOutput::create(&self.store.versions, self.family, &self.options)?;
                self.writing.insert(output)
            }
        };
        output.writer.add_in_pieces(key, entry, more)
    }

    /// Moves a long value to a value file, and returns its pointer.
    fn separate(&mut self, key: &[u8], value: (Pieces<'_>, usize)) -> Result<Option<Vec<u8>>> {
        match self.store.versions.separation(&self.family_options, &*self.store) {
            Some(separation) => separation.take(self.family, key, value, &mut self.moved),
            None => Ok(None),
        }
    }

    fn synced(&self, file: &dyn File) -> Result<()> {
        file.sync_data()?;
        self.store.versions.table_files().written(file);
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        let Some(output) = self.writing.take() else { return Ok(()) };
        let number = output.number;
        let finished = output.finish().and_then(|(file, meta)| self.synced(&*file).map(|()| meta));
        let versions = &self.store.versions;
        let meta = finished.inspect_err(|_| versions.discard_file(number))?;
        self.done.push((versions.private_file(number, meta.len), meta));
        Ok(())
    }
}

impl Drop for LoadTables {
    fn drop(&mut self) {
        if let Some(output) = self.writing.take() {
            self.store.versions.discard_file(output.number);
        }
    }
}

/// Error unless the family has no entry, not even a tombstone.
fn check_empty(store: &Store, family: &Family) -> Result<()> {
    let (super_version, id) = (store.super_version(), family.id());
    let in_memory: u64 = super_version.memtables().map(|memtable| memtable.entries(id)).sum();
    let in_runs = super_version.sealed.iter().any(|sealed| !sealed.tables(id).is_empty());
    if in_memory == 0 && !in_runs && super_version.version.family(id).is_none() {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "{} has entries, or deleted ones: a load fills empty families; truncate it first, or write to it in \
         transactions",
        store.label(id)
    )))
}

/// The stored form of a value: in one piece in `scratch`, or with large pieces of its own after it.
fn stored<'a>(value: Pieces<'a>, expiry: u64, scratch: &'a mut Vec<u8>) -> (&'a [u8], Pieces<'a>) {
    scratch.clear();
    if expiry != 0 {
        scratch.extend_from_slice(&expiry.to_le_bytes());
    }
    if value.len() > LARGE_VALUE {
        return (scratch, value);
    }
    value.iter().for_each(|piece| scratch.extend_from_slice(piece));
    (scratch, Pieces::default())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::db::Db;
    use crate::io::faulty::{Crash, Failure, Fault, Op};
    use crate::io::FaultyDisk;
    use crate::options::{FamilyOptions, Options};
    use crate::txn::transaction::ReadMode;

    fn store(disk: &FaultyDisk) -> (Db, Arc<Family>) {
        let options = Options {
            write_buffer_size: 4 << 10,
            block_cache_size: 4 << 10,
            target_file_size: 4 << 10,
            compaction_threads: 0,
            ..Options::default()
        };
        let db = Db::open_on(disk.shared(), Path::new("/s"), options, None).expect("opens");
        let family = match db.family(b"a") {
            Ok(family) => family,
            Err(_) => {
                let small = FamilyOptions { block_size: 128, ..FamilyOptions::default() };
                db.create_family(b"a", small).expect("creates")
            }
        };
        (db, family)
    }

    fn load(db: &Db, family: &Arc<Family>, keys: u32) -> Ingest {
        let mut load = db.ingest(IngestOptions { unlocked: true }).expect("begins");
        for n in 0..keys {
            let value = n.to_be_bytes().repeat(20);
            load.add(family, &n.to_be_bytes(), Pieces::new(&value, &[]), 0).expect("adds");
        }
        load
    }

    fn levels(db: &Db, family: &Family) -> (usize, usize) {
        let version = db.store().versions.current();
        let levels = version.family(family.id()).expect("it has tables");
        (levels.l0.len(), levels.levels.iter().map(|level| level.tables().len()).sum())
    }

    /// The same tables come of both; a key again, one out of order and a long value are left to the other.
    #[test]
    fn entries_that_ascend_go_through_together() {
        let read = |db: &Db, family: &Arc<Family>, n: u32| {
            let mut txn = db.transaction();
            txn.begin(TransactionOptions::default()).expect("begins");
            let value = txn.get(family, &n.to_be_bytes(), ReadMode::Latest).expect("reads");
            txn.rollback().expect("rolls back");
            value
        };
        let mut shapes = Vec::new();
        for together in [false, true] {
            let disk = FaultyDisk::new(1);
            let (db, family) = store(&disk);
            let mut loading = db.ingest(IngestOptions { unlocked: true }).expect("begins");
            let keys: Vec<[u8; 4]> = (0..4000u32).map(u32::to_be_bytes).collect();
            let values: Vec<Vec<u8>> = keys.iter().map(|key| key.repeat(20)).collect();
            for (keys, values) in keys.chunks(300).zip(values.chunks(300)) {
                let entries = || keys.iter().zip(values).map(|(key, value)| (&key[..], &value[..]));
                if together {
                    let (count, done) = loading.add_ascending(&family, entries());
                    done.expect("adds");
                    assert_eq!(count, keys.len());
                    assert_eq!(loading.add_ascending(&family, entries()).0, 0, "they are there");
                } else {
                    for (key, value) in entries() {
                        loading.add(&family, key, Pieces::new(value, &[]), 0).expect("adds");
                    }
                }
            }
            let (long, after) = (vec![7; LONG_VALUE], 9000u32.to_be_bytes());
            let (later, last) = (9002u32.to_be_bytes(), 9001u32.to_be_bytes());
            let entries = [(&after[..], &b"a"[..]), (&later, &long), (&last, b"b")];
            if together {
                let (count, done) = loading.add_ascending(&family, entries.into_iter());
                done.expect("adds");
                assert_eq!(count, 1, "the long value is left");
                let again = loading.add(&family, &after, Pieces::new(b"c", &[]), 0);
                assert!(matches!(again, Err(Error::Duplicate)), "{again:?}");
            } else {
                loading.add(&family, &after, Pieces::new(b"a", &[]), 0).expect("adds");
            }
            loading.add(&family, &later, Pieces::new(&long, &[]), 0).expect("adds");
            if together {
                assert_eq!(loading.add_ascending(&family, entries[2..].iter().copied()).0, 0, "out of order");
            }
            loading.add(&family, &last, Pieces::new(b"b", &[]), 0).expect("adds");
            if together {
                let more = 9003u32.to_be_bytes();
                let unsorted = loading.add_ascending(&family, [(&more[..], &b"d"[..])].into_iter());
                assert_eq!(unsorted.0, 0, "the load is out of order");
            }
            loading.finish().expect("finishes");
            db.flush().expect("flushes");
            for n in [0, 1, 299, 300, 3999] {
                assert_eq!(read(&db, &family, n), Some(n.to_be_bytes().repeat(20)));
            }
            assert_eq!(read(&db, &family, 9000), Some(b"a".to_vec()));
            assert_eq!(read(&db, &family, 9001), Some(b"b".to_vec()));
            assert_eq!(read(&db, &family, 9002), Some(long));
            assert_eq!(read(&db, &family, 9003), None);
            shapes.push(levels(&db, &family));
        }
        assert_eq!(shapes[0], shapes[1]);
    }

    /// A failure says how many entries are in the load, which can only be dropped.
    #[test]
    fn a_failure_ends_entries_that_ascend() {
        let disk = FaultyDisk::new(1);
        let (db, family) = store(&disk);
        let mut loading = db.ingest(IngestOptions { unlocked: true }).expect("begins");
        let keys: Vec<[u8; 4]> = (0..40_000u32).map(u32::to_be_bytes).collect();
        let failure = Failure::Enospc;
        disk.fail(Fault { op: Some(Op::Write), path: ".sst".into(), skip: 2, times: u64::MAX, failure });
        let (count, done) = loading.add_ascending(&family, keys.iter().map(|key| (&key[..], &[1; 80][..])));
        assert!(matches!(done, Err(Error::DiskFull(_))), "{done:?}");
        assert!(count > 0 && count < keys.len(), "{count}");
        let again = loading.add_ascending(&family, std::iter::empty());
        assert!(matches!(again, (0, Err(Error::InvalidArgument(_)))), "{again:?}");
    }

    /// A transaction could never change it.
    #[test]
    fn an_entry_beyond_the_bound_on_memory_is_refused_and_the_load_goes_on() {
        let disk = FaultyDisk::new(1);
        let options = Options {
            write_buffer_size: 64 << 10,
            max_memory: 4 << 20,
            block_cache_size: 1 << 20,
            compaction_threads: 0,
            ..Options::default()
        };
        let db = Db::open_on(disk.shared(), Path::new("/s"), options, None).expect("opens");
        let family = db.create_family(b"a", FamilyOptions::default()).expect("creates");
        let mut loading = db.ingest(IngestOptions { unlocked: true }).expect("begins");
        let (large, too_large) = (vec![1; 1 << 20], vec![2; 3 << 20]);
        loading.add(&family, b"1", Pieces::new(&large, &[]), 0).expect("there is room");
        let refused = loading.add(&family, b"2", Pieces::new(&too_large, &[]), 0);
        assert!(matches!(refused, Err(Error::TooLittleMemory { .. })), "{refused:?}");
        loading.add(&family, b"3", Pieces::new(&large, &[]), 0).expect("the memory is free again");
        loading.finish().expect("finishes");
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        assert_eq!(txn.get(&family, b"2", ReadMode::Latest).expect("reads"), None);
        assert_eq!(txn.get(&family, b"3", ReadMode::Latest).expect("reads"), Some(large));
        txn.rollback().expect("rolls back");
    }

    /// Rows written between the last look and the commit, and in the same step before a restart: the tables
    /// become runs of level 0, above what is older.
    #[test]
    fn tables_of_a_family_that_was_written_to_become_runs() {
        for restart in [false, true] {
            let disk = FaultyDisk::new(1);
            let (mut db, mut family) = store(&disk);
            let mut loading = load(&db, &family, 400);
            let (runs, _values) = loading.seal().expect("seals");
            let tables = runs.tables.len();
            assert!(tables > 3);
            let mut txn = db.transaction();
            txn.begin(TransactionOptions::default()).expect("begins");
            txn.put(&family, &7u32.to_be_bytes(), b"older").expect("puts");
            txn.put(&family, &9000u32.to_be_bytes(), b"other").expect("puts");
            txn.commit().expect("commits");
            if restart {
                // Nothing is flushed in this life.
                db.stop_background();
            }
            let batch = Arc::new(CommitBatch::spilled(runs));
            let limit = WaitLimit::of(SPACE_WAIT);
            let mut prepared =
                loading.transactions.reserve_batch(batch, None, SyncMode::Full, &limit).expect("prepares");
            loading.transactions.order(&mut prepared);
            loading.transactions.finish(prepared, false).expect("finishes");
            drop(loading);
            match restart {
                false => db.flush().expect("flushes"),
                true => {
                    drop((txn, db));
                    (db, family) = store(&disk.crash(Crash::Kill));
                    txn = db.transaction();
                }
            }
            assert_eq!(levels(&db, &family), (tables + 1, 0), "restart: {restart}");
            for merged in [false, true] {
                if merged {
                    db.compact(&family).expect("compacts");
                }
                txn.begin(TransactionOptions::default()).expect("begins");
                let newer = txn.get(&family, &7u32.to_be_bytes(), ReadMode::Latest).expect("reads");
                assert_eq!(newer, Some(7u32.to_be_bytes().repeat(20)));
                let other = txn.get(&family, &9000u32.to_be_bytes(), ReadMode::Latest).expect("reads");
                assert_eq!(other, Some(b"other".to_vec()));
                txn.rollback().expect("rolls back");
            }
        }
    }

    /// The names of all stand in one record of the log.
    #[test]
    fn the_tables_of_a_large_load_grow() {
        let disk = FaultyDisk::new(1);
        let (db, family) = store(&disk);
        let mut loading = load(&db, &family, 20_000);
        let (runs, _values) = loading.seal().expect("seals");
        let lens: Vec<u64> = runs.live_files().iter().map(|file| file.len()).collect();
        let longest = |tables: &[u64]| tables.iter().max().copied().unwrap_or(0);
        let (first, later) = (longest(&lens[..TABLES_BEFORE_LARGER]), longest(&lens));
        assert!(
            lens.len() > 2 * TABLES_BEFORE_LARGER && later > 3 * first,
            "{}: {first}, {later}",
            lens.len()
        );
    }

    /// The files are gone at once: the disk may be full of them.
    #[test]
    fn a_load_whose_names_find_no_room_in_the_log_leaves_nothing() {
        let disk = FaultyDisk::new(1);
        let (db, family) = store(&disk);
        let tables =
            || disk.files().into_iter().filter(|file| file.extension().is_some_and(|end| end == "sst"));
        let before = tables().count();
        let loading = load(&db, &family, 4000);
        let failure = Failure::Enospc;
        let (op, times) = (Some(Op::Write), u64::MAX);
        disk.fail(Fault { op, path: ".wal".into(), skip: 0, times, failure });
        let done = loading.finish();
        assert!(matches!(done, Err(Error::DiskFull(_))), "{done:?}");
        assert_eq!(tables().count(), before);
        disk.heal();
        drop((db, family));
        let (db, family) = store(&disk.crash(Crash::Kill));
        load(&db, &family, 40).finish().expect("there is room again");
    }

    #[test]
    fn a_load_found_by_recovery_goes_to_the_last_level() {
        let disk = FaultyDisk::new(1);
        let (db, family) = store(&disk);
        let loading = load(&db, &family, 400);
        db.stop_background();
        loading.finish().expect("finishes");
        assert!(db.store().versions.current().family(family.id()).is_none(), "nobody flushes");
        drop(db);
        let (db, family) = store(&disk.crash(Crash::Kill));
        let (runs, deeper) = levels(&db, &family);
        assert!(runs == 0 && deeper > 3, "{runs} runs, {deeper} tables");
    }

    #[test]
    fn the_names_of_a_load_are_read_back_and_others_are_refused() {
        let disk = FaultyDisk::new(1);
        let (db, family) = store(&disk);
        let mut loading = load(&db, &family, 400);
        let (runs, _values) = loading.seal().expect("seals");
        let names = runs.encode();
        let generations = SealedRuns::named_generations(&names).expect("a head");
        assert_eq!(generations, runs.tables.len() as u64);
        let versions = &db.store().versions;
        let read = SealedRuns::decode(versions, &names).expect("decodes");
        assert!(read.loaded && read.tables.len() == runs.tables.len());
        assert_eq!(read.encode(), names);
        read.give_up(versions);
        for cut in 0..names.len() {
            let read = SealedRuns::decode(versions, &names[..cut]);
            assert!(matches!(read, Err(Error::Corruption { .. })), "{cut}");
        }
        let mut later = names.clone();
        later[0] = 6;
        assert!(matches!(SealedRuns::decode(versions, &later), Err(Error::LaterVersion { .. })));
        // An ordinal above the one in the head.
        let mut low = names;
        low[1] = 1;
        assert!(matches!(SealedRuns::decode(versions, &low), Err(Error::Corruption { .. })));
    }
}
