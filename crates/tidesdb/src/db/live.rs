//! Changes of options while the store is open.

use std::sync::atomic::Ordering;

use crate::db::Db;
use crate::error::Result;
use crate::host::Spawn;
use crate::options::live::LiveOptions;
use crate::options::{LogLevel, SyncMode};
use crate::store::Store;

impl Db {
    /// The present values of the changeable options.
    pub fn live_options(&self) -> LiveOptions {
        self.store.live.get()
    }

    /// Changes options of the open store. Bounds as at the opening; an error changes nothing.
    ///
    /// A stricter sync mode holds for every commit not yet answered. Commits answered before are durable,
    /// too, once this returns with [`SyncMode::Full`]. A weaker mode does not apply to commits prepared under
    /// the stricter one.
    pub fn set_live_options(&self, to: &LiveOptions) -> Result<()> {
        self.set_live_options_with(to, &*self.store.env.spawn)
    }

    fn set_live_options_with(&self, to: &LiveOptions, spawn: &dyn Spawn) -> Result<()> {
        let store = &self.store;
        store.check_mode()?;
        let _one = store.live_change.lock();
        let before = store.live.get();
        to.over(&store.options).validate()?;
        // First all that can fail. To end threads cannot.
        let (had, wants) = (before.compaction_threads, to.compaction_threads);
        let mut done = Ok(());
        if wants > had {
            done = self.background.set_compaction_threads(wants, spawn);
        }
        if to.max_memory > 0 {
            done = done.and_then(|()| self.background.measure_memory(spawn));
        }
        done = done.and_then(|()| store.change_sync_mode(to.sync_mode));
        if wants > had && done.is_err() {
            self.background.set_compaction_threads(had, spawn)?;
        }
        done?;
        if wants < had {
            self.background.set_compaction_threads(wants, spawn)?;
        }
        store.live.set(to);
        store.choose_sync_interval();
        let buffer = to.write_buffer_size;
        store.arenas.set_limit(buffer * 2);
        store.wal.set_max_outstanding(crate::db::recovery::max_outstanding(buffer));
        self.transactions.locks.set_max_total(store.live.lock_bound());
        store.versions.table_files().set_max_open(to.max_open_files);
        store.versions.values().store().set_max_open(to.max_open_files);
        store.keep_memory_bound();
        // A store without a memory loop gives the memory of a smaller cache back, too.
        store.cache.move_together();
        // Wakes those who wait for a memtable's room, too.
        self.maintenance.shape_changed();
        let changes = to.changes(&before);
        if !changes.is_empty() {
            store.log(LogLevel::Info, &format!("options changed: {changes}"));
        }
        Ok(())
    }
}

impl Store {
    /// See [`Db::set_live_options`].
    fn change_sync_mode(&self, to: SyncMode) -> Result<()> {
        let from = self.live.sync_mode();
        if to == SyncMode::Full && from != to {
            self.live.set_sync_mode(to);
            // A record queued before this sync is covered by it, and a later one's commit sees the new mode.
            std::sync::atomic::fence(Ordering::SeqCst);
            if let Err(error) = self.wal.sync_all() {
                self.live.set_sync_mode(from);
                return Err(error);
            }
            // Whoever saw the weaker mode has published what it gave up by then.
            self.snapshots.between_scans(|| self.live.set_all_durable(true));
        } else if from != to {
            // Before the first commit that is answered unsynced.
            self.live.set_all_durable(false);
            self.live.set_sync_mode(to);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::host::{Handle, SystemThreads, Work};
    use crate::io::faulty::{Failure, Fault, Op};
    use crate::io::FaultyDisk;
    use crate::options::{FamilyOptions, Options};
    use crate::txn::transaction::TransactionOptions;
    use crate::types::Entry;
    use crate::value::{resolve, NoSeparateValues, ReadParts};

    /// A commit not covered by the sync of the change has let older versions go, and then the log fails.
    #[test]
    fn after_a_failed_log_a_reader_sees_no_less_than_the_weaker_mode_gave_up() {
        let disk = FaultyDisk::new(1);
        let options = Options { sync_mode: SyncMode::None, compaction_threads: 0, ..Options::default() };
        let db = Db::open_on(disk.shared(), "/s", options, None).expect("opens");
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let put = |value: &[u8]| {
            let mut txn = db.transaction();
            txn.begin(TransactionOptions::default()).expect("begins");
            txn.put(&family, b"k", value).expect("puts");
            txn.commit()
        };
        put(b"old").expect("commits");
        db.store.wal.sync_all().expect("syncs");
        put(b"new").expect("commits");
        let given_up = db.store.refresh_oldest_snapshot();
        assert!(given_up > db.store.wal.durable_seq(), "the sync does not cover the second commit");
        db.store.live.set_sync_mode(SyncMode::Full);
        db.store.snapshots.between_scans(|| db.store.live.set_all_durable(true));
        disk.fail(Fault { op: Some(Op::Sync), path: "wal".into(), skip: 0, times: 1, failure: Failure::Eio });
        put(b"lost").expect_err("the log fails");
        let snapshot = db.store.take_snapshot().expect("takes");
        assert_eq!(snapshot.seq(), given_up);
        let mut value = Vec::new();
        let read = |entry: Entry<'_>| {
            resolve(&entry, || 0, &NoSeparateValues, ReadParts::Both, &mut value).map(|_| entry.seq)
        };
        let found = db.store.newest(family.id(), b"k", snapshot.seq(), read).expect("reads");
        assert_eq!((found, &value[..]), (Some(given_up), &b"new"[..]));
        db.store.snapshots.release(snapshot);
    }

    /// A flush, at its begin, announces the visible sequence to all scanners. Commits the log can lose still
    /// hide no older version.
    #[test]
    fn the_oldest_snapshot_passes_nothing_that_the_log_can_lose() {
        let disk = FaultyDisk::new(2);
        let options = Options { sync_mode: SyncMode::None, compaction_threads: 0, ..Options::default() };
        let db = Db::open_on(disk.shared(), "/s", options, None).expect("opens");
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        db.set_live_options(&LiveOptions { sync_mode: SyncMode::Full, ..db.live_options() })
            .expect("changes");
        // As a commit stands before its sync.
        db.store.live.set_sync_mode(SyncMode::None);
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        txn.put(&family, b"k", b"v").expect("puts");
        txn.commit().expect("commits");
        let (durable, visible) = (db.store.wal.durable_seq(), db.store.pipeline.visible_seq());
        assert!(durable < visible);
        db.store.live_snapshots(visible);
        assert!(db.store.refresh_oldest_snapshot() <= durable);
    }

    /// A machine that starts one thread. Counts the attempts.
    #[derive(Debug, Default)]
    struct OneThread(AtomicUsize);

    impl Spawn for OneThread {
        fn spawn(&self, name: &str, work: Work) -> std::io::Result<Box<dyn Handle>> {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                return Err(std::io::Error::from_raw_os_error(libc::EAGAIN));
            }
            SystemThreads.spawn(name, work)
        }

        fn cores(&self) -> usize {
            4
        }

        fn yield_to_others(&self) {}
    }

    /// The thread that measures memory cannot be started: the one that compacts ends again.
    #[test]
    fn a_thread_that_cannot_be_started_leaves_the_options_and_the_threads_as_they_were() {
        let options = Options { compaction_threads: 0, ..Options::default() };
        let db = Db::open_on(FaultyDisk::new(1).shared(), "/s", options, None).expect("opens");
        let before = db.live_options();
        let mut to = db.live_options();
        (to.compaction_threads, to.max_memory) = (1, 1 << 30);
        let one = OneThread::default();
        let error = db.set_live_options_with(&to, &one).expect_err("no thread").to_string();
        assert!(error.contains("tdb-memory"), "{error}");
        assert_eq!((one.0.load(Ordering::Relaxed), db.live_options()), (2, before));
        assert_eq!(db.maintenance.compaction_threads.wanted(), 0);
        db.set_live_options(&to).expect("now it can");
        assert_eq!(db.maintenance.compaction_threads.wanted(), 1);
        to.compaction_threads = 0;
        db.set_live_options(&to).expect("to end one cannot fail");
        assert_eq!(db.maintenance.compaction_threads.wanted(), 0);
    }
}
