//! A column family in memory: its dictionary entry and its counters.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::options::FamilyOptions;
use crate::store::counter::Counter;
use crate::sync::{Mutex, RwLock};
use crate::types::{FamilyId, Seq};

/// Counters of a family are numbered below this.
pub const COUNTERS: u32 = 16;

/// The counters of a family.
#[derive(Debug, Default)]
pub(crate) struct CounterSet {
    pub counters: [Mutex<Option<Counter>>; COUNTERS as usize],
    /// Each is held while a ceiling of that counter is made durable; taken before the counter itself.
    pub ceilings: [Mutex<()>; COUNTERS as usize],
}

/// A column family.
#[derive(Debug)]
pub struct Family {
    id: FamilyId,
    name: RwLock<Arc<[u8]>>,
    options: RwLock<Arc<FamilyOptions>>,
    /// [`FamilyOptions::value_threshold`], for every write.
    value_threshold: AtomicU32,
    record: RwLock<Arc<[u8]>>,
    created_seq: AtomicU64,
    dropped: AtomicBool,
    /// Made on first use: few families have any.
    counters: OnceLock<Box<CounterSet>>,
    /// Held while the rows are counted by a scan.
    pub(crate) counting: Mutex<()>,
}

impl Family {
    pub(crate) fn new(
        id: FamilyId,
        name: &[u8],
        options: FamilyOptions,
        record: &[u8],
        created_seq: Seq,
    ) -> Arc<Family> {
        Arc::new(Family {
            id,
            name: RwLock::new(name.into()),
            value_threshold: AtomicU32::new(options.value_threshold),
            options: RwLock::new(Arc::new(options)),
            record: RwLock::new(record.into()),
            created_seq: AtomicU64::new(created_seq),
            dropped: AtomicBool::new(false),
            counters: OnceLock::new(),
            counting: Mutex::new(()),
        })
    }

    /// Its counters.
    pub(crate) fn counters(&self) -> &CounterSet {
        self.counters.get_or_init(Box::default)
    }

    /// Its counters, if any was used since the store was opened.
    pub(crate) fn used_counters(&self) -> Option<&CounterSet> {
        self.counters.get().map(|set| &**set)
    }

    /// Number of the family; never reused.
    pub fn id(&self) -> FamilyId {
        self.id
    }

    /// Its name now.
    pub fn name(&self) -> Arc<[u8]> {
        self.name.read().clone()
    }

    /// Its options now.
    pub fn options(&self) -> Arc<FamilyOptions> {
        self.options.read().clone()
    }

    /// Its [`FamilyOptions::value_threshold`] now.
    pub(crate) fn value_threshold(&self) -> u32 {
        self.value_threshold.load(Ordering::Relaxed)
    }

    /// The opaque record of its owner.
    pub fn record(&self) -> Arc<[u8]> {
        self.record.read().clone()
    }

    /// Sequence number of the DDL that made or bumped it; older snapshots may not read it.
    pub fn created_seq(&self) -> Seq {
        self.created_seq.load(Ordering::Acquire)
    }

    /// True if it was dropped or replaced by a truncation.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Error when it was dropped.
    pub fn check_live(&self) -> Result<()> {
        if self.is_dropped() {
            return Err(Error::NoSuchFamily(String::from_utf8_lossy(&self.name()).into_owned()));
        }
        Ok(())
    }

    /// The error of a read, or that the family is dropped: its value files go with its tables, before memtables lose its entries.
    pub(crate) fn unless_dropped(&self, error: Error) -> Error {
        self.check_live().err().unwrap_or(error)
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    pub(crate) fn set_created_seq(&self, created_seq: Seq) {
        self.created_seq.store(created_seq, Ordering::Release);
    }

    pub(crate) fn set_name(&self, name: &[u8]) {
        *self.name.write() = name.into();
    }

    pub(crate) fn set_options(&self, options: FamilyOptions) {
        self.value_threshold.store(options.value_threshold, Ordering::Relaxed);
        *self.options.write() = Arc::new(options);
    }

    pub(crate) fn set_record(&self, record: &[u8]) {
        *self.record.write() = record.into();
    }
}
