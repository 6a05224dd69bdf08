//! Groups of changes to the dictionary: atomic and durable, then visible in the catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::db::dictionary::{counter_key, family_key, FamilyEntry, MAX_NAME_LEN, NEXT_FAMILY};
use crate::db::maintenance::Maintenance;
use crate::error::{Error, Result};
use crate::options::{BlockCodec, FamilyOptions, FormatVersion, LogLevel};
use crate::store::catalog::syncs_at_intervals;
use crate::store::counter::Counter;
use crate::store::family::{Family, COUNTERS};
use crate::sync::{stage, ArcMutexGuard};
use crate::txn::write_batch::WriteBatch;
use crate::types::{FamilyId, Kind, Seq, DICTIONARY};
use crate::version::Edit;
use crate::wal::{Ddl as DdlKind, WaitLimit};

/// A name's meaning after the group.
#[derive(Clone, Debug)]
struct Planned {
    entry: FamilyEntry,
    /// The present family; `None` for a family made by the group.
    family: Option<Arc<Family>>,
    /// Counters set by the group.
    counters: Vec<(u32, u64)>,
    /// Older snapshots may not read the family from the group on.
    reborn: bool,
}

/// A group of dictionary changes: atomic and durable at [`Ddl::commit`], without effect if dropped before.
/// One group at a time is open in a store.
pub struct Ddl {
    maintenance: Arc<Maintenance>,
    /// Names changed by the group; `None`: the name will be free.
    names: BTreeMap<Vec<u8>, Option<Planned>>,
    dropped: Vec<Arc<Family>>,
    next_family: FamilyId,
    kind: Option<DdlKind>,
    _one: ArcMutexGuard<()>,
}

impl Maintenance {
    /// Begins a group of dictionary changes; waits for the end of another open group, but not for a full disk.
    pub(crate) fn ddl(self: &Arc<Self>) -> Result<Ddl> {
        self.store.check_writable()?;
        self.store.catalog.check_complete()?;
        let one = loop {
            // The group before may wait for room on a full disk, and no KILL reaches who waits for it.
            self.store.wal.check_room()?;
            if let Some(one) = self.ddl_lock.try_lock_arc_for(WaitLimit::STEP) {
                break one;
            }
        };
        let next_family = self.next_family.load(std::sync::atomic::Ordering::Acquire);
        Ok(Ddl {
            maintenance: self.clone(),
            names: BTreeMap::new(),
            dropped: Vec::new(),
            next_family,
            kind: None,
            _one: one,
        })
    }
}

impl Ddl {
    fn planned(&self, name: &[u8]) -> Option<Planned> {
        if let Some(planned) = self.names.get(name) {
            return planned.clone();
        }
        let family = self.maintenance.store.catalog.find(name)?;
        Some(Planned {
            entry: FamilyEntry {
                id: family.id(),
                options: (*family.options()).clone(),
                record: family.record().to_vec(),
            },
            family: Some(family),
            counters: Vec::new(),
            reborn: false,
        })
    }

    fn existing(&self, name: &[u8]) -> Result<Planned> {
        self.planned(name).ok_or_else(|| Error::NoSuchFamily(String::from_utf8_lossy(name).into_owned()))
    }

    fn free(&self, name: &[u8]) -> Result<()> {
        if name.is_empty() || name.len() > MAX_NAME_LEN {
            return Err(Error::InvalidArgument(format!(
                "a family's name has 1 to {MAX_NAME_LEN} bytes, not {}",
                name.len()
            )));
        }
        match self.planned(name) {
            Some(_) => Err(Error::FamilyExists(String::from_utf8_lossy(name).into_owned())),
            None => Ok(()),
        }
    }

    /// The record kind of a group: that of its steps, or the general one if they differ.
    fn is(&mut self, kind: DdlKind) {
        self.kind = match self.kind {
            None => Some(kind),
            Some(known) if known == kind => Some(kind),
            Some(_) => Some(DdlKind::Other),
        };
    }

    fn take_number(&mut self) -> Result<FamilyId> {
        let id = self.next_family;
        self.next_family = id
            .checked_add(1)
            .ok_or_else(|| Error::InvalidArgument("every family number has been given out".into()))?;
        Ok(id)
    }

    /// Makes a family.
    pub fn create(&mut self, name: &[u8], options: FamilyOptions, record: &[u8]) -> Result<()> {
        options.validate()?;
        self.free(name)?;
        let id = self.take_number()?;
        let options = self.fitting(options);
        let entry = FamilyEntry { id, options, record: record.to_vec() };
        let planned = Planned { entry, family: None, counters: Vec::new(), reborn: false };
        self.names.insert(name.to_vec(), Some(planned));
        self.is(DdlKind::Create);
        Ok(())
    }

    /// Drops a family.
    pub fn drop_family(&mut self, name: &[u8]) -> Result<()> {
        let planned = self.existing(name)?;
        self.names.insert(name.to_vec(), None);
        self.dropped.extend(planned.family);
        self.is(DdlKind::Drop);
        Ok(())
    }

    /// Gives a family another name; counters go along.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let planned = self.existing(from)?;
        self.free(to)?;
        self.names.insert(from.to_vec(), None);
        self.names.insert(to.to_vec(), Some(planned));
        self.is(DdlKind::Rename);
        Ok(())
    }

    /// Puts an empty family in the place of one; counters restart.
    pub fn truncate(&mut self, name: &[u8]) -> Result<()> {
        let mut planned = self.existing(name)?;
        planned.entry.id = self.take_number()?;
        planned.counters.clear();
        self.dropped.extend(planned.family.take());
        self.names.insert(name.to_vec(), Some(planned));
        self.is(DdlKind::Swap);
        Ok(())
    }

    /// Replaces a family's opaque record.
    pub fn set_record(&mut self, name: &[u8], record: &[u8]) -> Result<()> {
        let mut planned = self.existing(name)?;
        planned.entry.record = record.to_vec();
        self.names.insert(name.to_vec(), Some(planned));
        self.is(DdlKind::Alter);
        Ok(())
    }

    /// The options as the store can have them: earlier builds read a store of format version 1.
    fn fitting(&self, options: FamilyOptions) -> FamilyOptions {
        match self.maintenance.store.versions.format() {
            FormatVersion::One => FamilyOptions { block_codec: BlockCodec::Plain, ..options },
            FormatVersion::Two => options,
        }
    }

    /// Replaces a family's options.
    pub fn set_options(&mut self, name: &[u8], options: FamilyOptions) -> Result<()> {
        options.validate()?;
        let mut planned = self.existing(name)?;
        planned.entry.options = self.fitting(options);
        self.names.insert(name.to_vec(), Some(planned));
        self.is(DdlKind::Alter);
        Ok(())
    }

    /// Keeps snapshots older than the group out of the family, as if the group had made it. For content to be
    /// read by another definition, or filled in while such snapshots were taken.
    pub fn bump(&mut self, name: &[u8]) -> Result<()> {
        let mut planned = self.existing(name)?;
        planned.reborn = true;
        self.names.insert(name.to_vec(), Some(planned));
        self.is(DdlKind::Alter);
        Ok(())
    }

    /// Sets a counter's next value, also downwards.
    pub fn set_counter(&mut self, name: &[u8], counter: u32, next: u64) -> Result<()> {
        if counter >= COUNTERS {
            return Err(Error::InvalidArgument(format!("counter {counter} is not below {COUNTERS}")));
        }
        let mut planned = self.existing(name)?;
        planned.counters.retain(|(known, _)| *known != counter);
        planned.counters.push((counter, next));
        self.names.insert(name.to_vec(), Some(planned));
        self.is(DdlKind::Alter);
        Ok(())
    }

    /// The names that the group changes, each with its family's number afterwards; `None`: it will be free.
    #[cfg(simulation)]
    pub fn changes(&self) -> Vec<(Vec<u8>, Option<FamilyId>)> {
        let number = |planned: &Option<Planned>| planned.as_ref().map(|planned| planned.entry.id);
        self.names.iter().map(|(name, planned)| (name.clone(), number(planned))).collect()
    }

    /// Makes the group durable, then visible; unread files of dropped families are gone on return.
    pub fn commit(self) -> Result<()> {
        let (maintenance, drops) = (Arc::clone(&self.maintenance), !self.dropped.is_empty());
        self.commit_group()?;
        if drops {
            stage("stage: dictionary, before the unlinking");
            // Others may change the dictionary while large files are unlinked.
            maintenance.store.unlink_unused();
        }
        Ok(())
    }

    fn commit_group(self) -> Result<()> {
        let Some(kind) = self.kind else { return Ok(()) };
        let (store, transactions) = (&self.maintenance.store, &self.maintenance.transactions);
        let mut batch = WriteBatch::default();
        // Counters set here must not be overtaken by a ceiling that is being reserved.
        let mut set = Vec::new();
        for planned in self.names.values().flatten() {
            for (counter, next) in &planned.counters {
                let value = next.to_le_bytes();
                let put = Kind::PUT.marked_may_overwrite();
                batch.push(DICTIONARY, &counter_key(planned.entry.id, *counter), put, &value);
                if let Some(family) = &planned.family {
                    set.push((family.clone(), *counter, *next));
                }
            }
        }
        let mut writers = Vec::new();
        for (family, counter, _) in &set {
            writers.push(family.counters().ceilings[*counter as usize].lock());
        }
        for family in &self.dropped {
            // Nothing is reserved for a family that is gone.
            for (counter, ceiling) in (0u32..).zip(&family.counters().ceilings) {
                if !set.iter().any(|(known, n, _)| known.id() == family.id() && *n == counter) {
                    writers.push(ceiling.lock());
                }
            }
        }
        let mut guards = Vec::new();
        for (family, counter, _) in &set {
            guards.push(family.counters().counters[*counter as usize].lock());
        }
        for family in &self.dropped {
            for counter in 0..COUNTERS {
                batch.push(DICTIONARY, &counter_key(family.id(), counter), Kind::DELETE, &[]);
            }
        }
        for (name, planned) in &self.names {
            match planned {
                None => batch.push(DICTIONARY, &family_key(name), Kind::DELETE, &[]),
                Some(planned) => {
                    let put = Kind::PUT.marked_may_overwrite();
                    batch.push(DICTIONARY, &family_key(name), put, &planned.entry.encode());
                }
            }
        }
        let put = Kind::PUT.marked_may_overwrite();
        batch.push(DICTIONARY, NEXT_FAMILY, put, &u64::from(self.next_family).to_le_bytes());
        stage("stage: dictionary, before the log's record");
        let seq = transactions.commit_internal(&batch, Some(kind))?;
        stage("stage: dictionary, logged");
        self.maintenance.next_family.store(self.next_family, std::sync::atomic::Ordering::Release);
        for (guard, (_, _, next)) in guards.iter_mut().zip(&set) {
            **guard = Some(Counter::at(*next));
        }
        drop(guards);
        let mut intervals = self.dropped.iter().any(|family| syncs_at_intervals(&family.options()));
        for family in &self.dropped {
            family.set_dropped();
            store.catalog.remove(family);
            transactions.locks.forget_family(family.id());
        }
        drop(writers);
        stage("stage: dictionary, old families gone");
        intervals |= self.show(seq);
        if intervals {
            store.choose_sync_interval();
        }
        if self.names.values().flatten().any(|planned| planned.entry.options.value_threshold != 0) {
            store.ask_for_value_files();
        }
        if !self.dropped.is_empty() {
            let dropped_families = self.dropped.iter().map(|family| family.id()).collect();
            stage("stage: dictionary, before the drop's edit");
            // An opening that does not find the record must not take the families for empty ones.
            let durable_upto = Some(store.wal.durable_lsn());
            if let Err(error) = store.install(Edit { dropped_families, durable_upto, ..Edit::default() }) {
                // The log's record was the commit point: the families are gone, whatever the manifest
                // says, and the next opening takes their tables out of it.
                store.log(
                    LogLevel::Warn,
                    &format!("space of dropped families stays until a restart: {error}"),
                );
            }
        }
        Ok(())
    }

    /// Shows the families of the group as its commit `seq` leaves them. True if one syncs, or did, at intervals.
    fn show(&self, seq: Seq) -> bool {
        let store = &self.maintenance.store;
        let mut intervals = false;
        for (name, planned) in &self.names {
            let Some(planned) = planned else { continue };
            intervals |= syncs_at_intervals(&planned.entry.options);
            match &planned.family {
                Some(family) => {
                    intervals |= syncs_at_intervals(&family.options());
                    if *family.name() != name[..] {
                        store.catalog.rename(family, name);
                    }
                    if planned.reborn {
                        family.set_created_seq(seq);
                    }
                    family.set_record(&planned.entry.record);
                    family.set_options(planned.entry.options.clone());
                }
                None => {
                    let entry = &planned.entry;
                    let family = Family::new(entry.id, name, entry.options.clone(), &entry.record, seq);
                    for (counter, next) in &planned.counters {
                        *family.counters().counters[*counter as usize].lock() = Some(Counter::at(*next));
                    }
                    store.catalog.insert(family);
                }
            }
        }
        intervals
    }
}
