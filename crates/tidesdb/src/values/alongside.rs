//! The sync of value files at the same time as the log's: a commit waits for the longer of both, not for one after the other. The
//! file system then often writes its journal once for both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::ValueFiles;
use crate::env::Env;
use crate::error::Result;
use crate::sync::{note, Mutex};
use crate::wal::PendingSync;

/// Microseconds of a sync of value files from which on the next one gets a thread of its own: less is over before the thread
/// has begun.
const WORTH_A_THREAD_US: u64 = 200;

/// Syncs the value files of a store for its log.
#[derive(Debug)]
pub struct SyncAlongside {
    values: Arc<ValueFiles>,
    env: Env,
    /// Of the last sync with unsynced values, in microseconds.
    took_us: AtomicU64,
}

impl SyncAlongside {
    /// Of these files.
    pub fn new(values: Arc<ValueFiles>, env: Env) -> Arc<SyncAlongside> {
        Arc::new(SyncAlongside { values, env, took_us: AtomicU64::new(0) })
    }

    /// Begins to make durable every value written before the call. The returned function waits for the end, and is to be called:
    /// the thread must not outlive the store.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> PendingSync {
        let is_worth_it =
            self.took_us.load(Ordering::Relaxed) >= WORTH_A_THREAD_US && self.values.has_unsynced();
        if is_worth_it {
            let (this, synced) = (Arc::clone(self), Arc::new(Mutex::new(None)));
            let answer = Arc::clone(&synced);
            let work = move || *answer.lock() = Some(this.sync());
            // Without a thread it is done here.
            if let Ok(thread) = self.env.spawn.spawn("tdb-values", Box::new(work)) {
                note("values: synced alongside the log");
                return Box::new(move || {
                    thread.join();
                    synced.lock().take().expect("the thread has ended")
                });
            }
        }
        let synced = self.sync();
        Box::new(move || synced)
    }

    fn sync(&self) -> Result<()> {
        let (has_unsynced, begun) = (self.values.has_unsynced(), self.env.clock.now_micros());
        let synced = self.values.sync();
        if has_unsynced {
            self.took_us.store(self.env.clock.now_micros().saturating_sub(begun), Ordering::Relaxed);
        }
        synced
    }
}
