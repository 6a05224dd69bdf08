//! The state of background work: reservations, signals between threads, and the latch of dictionary
//! changes.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use crate::compaction::history::History;
use crate::db::collector::LookTimes;
use crate::db::signals::{CloseSignal, CompactionThreads, CounterRefill, WorkSignal};
use crate::error::Result;
use crate::store::Store;
use crate::sync::Mutex;
use crate::txn::Transactions;
use crate::types::DICTIONARY;
use crate::version::reservations::CompactionReservations;
use crate::version::Edit;

/// See the module's comment. Shared by the handles and threads of a store.
#[derive(Debug)]
pub(crate) struct Maintenance {
    pub store: Arc<Store>,
    pub transactions: Arc<Transactions>,
    pub ddl_lock: Arc<Mutex<()>>,
    pub next_family: AtomicU32,
    pub reservations: Arc<CompactionReservations>,
    pub history: History,
    pub work_signal: WorkSignal,
    pub compaction_threads: CompactionThreads,
    pub counter_refill: CounterRefill,
    pub close_signal: CloseSignal,
    pub closing: AtomicBool,
    /// Time of the last flush, by the disk's clock; the opening counts.
    pub flushed_at: AtomicU64,
    /// When dead values are looked for.
    pub looks: LookTimes,
    /// A backup is being taken.
    pub backup_runs: AtomicBool,
}

impl Maintenance {
    pub(crate) fn new(
        transactions: Arc<Transactions>,
        reservations: Arc<CompactionReservations>,
    ) -> Maintenance {
        let now = transactions.store.now_micros();
        Maintenance {
            store: transactions.store.clone(),
            transactions,
            ddl_lock: Arc::new(Mutex::new(())),
            next_family: AtomicU32::new(DICTIONARY + 1),
            reservations,
            history: History::default(),
            work_signal: WorkSignal::default(),
            compaction_threads: CompactionThreads::default(),
            counter_refill: CounterRefill::default(),
            close_signal: CloseSignal::default(),
            closing: AtomicBool::new(false),
            flushed_at: AtomicU64::new(now),
            looks: LookTimes::new(now),
            backup_runs: AtomicBool::new(false),
        }
    }

    /// Called when the store is closed. If everything in the log is in files too, the next opening does not
    /// miss the log's files.
    pub(crate) fn forget_log(&self) -> Result<()> {
        let state = self.store.versions.state();
        let needed = self.store.pipeline.last_ordered() > state.last_seq
            || self.transactions.prepared.first_segment().is_some()
            || !self.transactions.detached.lock().is_empty();
        match needed || state.log_segments.is_empty() {
            true => Ok(()),
            false => self.store.install(Edit { log_forgotten_above: Some(0), ..Edit::default() }),
        }
    }

    /// Called when runs came or went, or a family was put in quarantine: measures level 0 and debt, and wakes
    /// compaction. A family with a failed merge holds up no writer until one succeeds, even after its pause
    /// has ended: the wait might have no end.
    pub(crate) fn shape_changed(&self) {
        let version = self.store.versions.current();
        let failed = self.reservations.quarantine().failed_families();
        let (mut runs, mut stop) = (0, 0);
        for (family, levels) in version.families() {
            let here = levels.l0.len() as u64;
            if here == 0 || failed.contains(&family) {
                continue;
            }
            let limit = self.store.family_options(family).map_or(0, |o| u64::from(o.l0_stall_threshold));
            if limit > 0 && here * stop.max(1) >= runs * limit {
                (runs, stop) = (here, limit);
            }
        }
        if self.store.live.get().compaction_threads == 0 {
            // Nobody would end a stop.
            (runs, stop) = (0, 0);
        }
        self.store.pressure.l0_runs.store(runs, Relaxed);
        self.store.pressure.l0_stop.store(stop, Relaxed);
        let debt = self.compaction_debt();
        self.store.pressure.debt.store(debt, Relaxed);
        self.store.pressure.compaction_rate.look(self.store.stats.user_bytes.load(Relaxed), debt);
        self.work_signal.call();
        self.store.memtables.changed.notify_all();
    }
}
