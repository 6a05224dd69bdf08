//! Changes of options while the store is open.

use std::sync::atomic::Ordering;

use crate::db::Db;
use crate::error::Result;
use crate::options::live::LiveOptions;
use crate::options::{LogLevel, SyncMode};
use crate::store::Store;

impl Db {
    /// The values in force of the options that can change.
    pub fn live_options(&self) -> LiveOptions {
        self.store.live.get()
    }

    /// Changes options of the open store. Bounds are those of the opening; on an error nothing is changed.
    ///
    /// A stricter sync mode holds for every commit that is not answered yet. Those answered before are durable, too,
    /// once this returns with [`SyncMode::Full`]. A weaker one lets no commit go that was prepared under the stricter.
    pub fn set_live_options(&self, to: &LiveOptions) -> Result<()> {
        let store = &self.store;
        store.check_mode()?;
        let _one = store.live_change.lock();
        let before = store.live.get();
        to.over(&store.options).validate()?;
        if to.compaction_threads != before.compaction_threads {
            self.background.set_compaction_threads(to.compaction_threads)?;
        }
        if to.max_memory > 0 {
            self.background.measure_memory()?;
        }
        if let Err(error) = store.change_sync_mode(to.sync_mode) {
            self.background.set_compaction_threads(before.compaction_threads)?;
            return Err(error);
        }
        store.live.set(to);
        store.choose_sync_interval();
        let buffer = to.write_buffer_size;
        store.arenas.set_limit(buffer * 2);
        store.wal.set_max_outstanding(crate::db::recovery::max_outstanding(buffer));
        self.transactions.locks.set_max_total(store.live.lock_bound());
        store.versions.table_files().set_max_open(to.max_open_files);
        store.resize_cache();
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
            self.live.set_all_durable(true);
        } else if from != to {
            // Before the first commit that is answered unsynced.
            self.live.set_all_durable(false);
            self.live.set_sync_mode(to);
        }
        Ok(())
    }
}
