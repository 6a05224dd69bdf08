//! The reads of a client's transaction: at its snapshot, and of the newest rows, under locks that keep them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb_simulated::internal::store::family::Family;
use tidesdb_simulated::internal::txn::cursor::Scan;
use tidesdb_simulated::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb_simulated::{Error, Isolation, TransactionOptions};

use crate::client::{key_of, Client, Failed};
use crate::events::hit;
use crate::model::{Found, Place, Range, Seen};
use crate::world::{read_rows, scan_from};

impl Client<'_> {
    fn expect_own(&self, place: &Place, got: &Seen) -> Result<bool, Failed> {
        match self.own.get(place) {
            None => Ok(false),
            Some(own) if got.is(own.as_ref()) => Ok(true),
            Some(own) => Err(Failed::Wrong(format!(
                "it read {:?} of {} after it wrote {:?}",
                got.value.as_ref().map(|value| value.len()),
                place.1.escape_ascii(),
                own.as_ref().map(|row| (row.value.len(), row.expiry, got.second))
            ))),
        }
    }

    fn read(
        &self,
        txn: &mut Transaction,
        family: &Arc<Family>,
        key: &[u8],
        mode: ReadMode,
    ) -> Result<Seen, Error> {
        hit("read");
        let value = txn.get(family, key, mode)?.map(Arc::from);
        Ok(Seen { value, second: self.world.second(txn, mode) })
    }

    /// Whether the log had failed before a locking read begins: the newest rows may be those of refused commits.
    pub(crate) fn must_refuse(&self) -> bool {
        let failed = self.world.faults.were_told() && self.world.db.stats().is_read_only;
        if failed {
            hit("locking read after the log failed");
        }
        failed
    }

    pub(crate) fn get(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        if txn.plain_read_mode() != ReadMode::Snapshot && self.random.one_in(2) {
            return self.locking_get(txn);
        }
        let (family, place) = self.place()?;
        let got = self.read(txn, &family, &place.1, ReadMode::Snapshot)?;
        self.check_second(txn)?;
        if self.expect_own(&place, &got)? {
            return Ok(());
        }
        if let Some(seq) = self.snapshot(txn)? {
            self.world.history.read(&self.name(), seq, place, got);
        }
        Ok(())
    }

    /// Several keys of a family by one call, each judged as [`Client::get`] judges one.
    pub(crate) fn get_many(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("read of several keys");
        let (family, first) = self.place()?;
        let others = (0..self.random.below(8)).map(|_| key_of(self.random.below(self.world.program.keys)));
        let keys: Vec<Vec<u8>> = std::iter::once(first.1).chain(others).collect();
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut values = vec![None; keys.len()];
        txn.get_many(&family, &asked, ReadMode::Snapshot, |place, value| {
            values[place] = value.map(Arc::from);
        })?;
        let second = self.world.second(txn, ReadMode::Snapshot);
        self.check_second(txn)?;
        for (key, value) in keys.into_iter().zip(values) {
            let (place, got) = ((family.id(), key), Seen { value, second });
            if self.expect_own(&place, &got)? {
                continue;
            }
            if let Some(seq) = self.snapshot(txn)? {
                self.world.history.read(&self.name(), seq, place, got);
            }
        }
        Ok(())
    }

    pub(crate) fn locking_get(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        let (family, place) = self.place()?;
        self.locking_get_of(txn, &family, &place).map(drop)
    }

    /// Whether the key exists.
    pub(crate) fn locking_get_of(
        &mut self,
        txn: &mut Transaction,
        family: &Arc<Family>,
        place: &Place,
    ) -> Result<bool, Failed> {
        let must_refuse = self.must_refuse();
        let got = self.read(txn, family, &place.1, ReadMode::Exclusive)?;
        if must_refuse {
            return Err(Failed::Wrong("a locking read after the log failed is answered".into()));
        }
        let exists = got.value.is_some();
        // Below REPEATABLE READ nothing keeps a missing key free.
        let is_kept = exists || self.options.isolation >= Isolation::RepeatableRead;
        if !self.expect_own(place, &got)? && is_kept {
            self.locked.entry(place.clone()).or_insert(got);
        }
        Ok(exists)
    }

    pub(crate) fn scan(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("scan");
        let (family, (life, from)) = self.place()?;
        let scan = scan_from(&from, ReadMode::Snapshot, 0);
        let rows = read_rows(&self.world.db, txn, &family, &scan, || {})?;
        self.check_second(txn)?;
        if !rows.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Failed::Wrong(format!("a scan of {} is not in order", from.escape_ascii())));
        }
        self.count(txn, &family, &scan, rows.len())?;
        if let Some(seq) = self.snapshot(txn)? {
            let found = Found { rows, second: self.world.second(txn, ReadMode::Snapshot) };
            let range = Range { life, from, to: None, found, unknown: BTreeSet::new() };
            self.world.history.scanned(&self.name(), seq, range, self.own.clone());
        }
        Ok(())
    }

    /// Counts the rows that a scan has just found, at the same snapshot.
    fn count(
        &self,
        txn: &mut Transaction,
        family: &Arc<Family>,
        scan: &Scan<'_>,
        found: usize,
    ) -> Result<(), Failed> {
        let (seq, second) = (txn.snapshot_seq(), self.world.second(txn, ReadMode::Snapshot));
        let mut cursor = self.world.db.cursor(family);
        let rows = if cursor.seek(txn, scan)? { cursor.count(txn, 0)? } else { 0 };
        // At READ UNCOMMITTED others may have come and gone, at a later second rows may have expired.
        if seq.is_none() || second != self.world.second(txn, ReadMode::Snapshot) {
            return Ok(());
        }
        hit("count of rows");
        match rows == found as u64 {
            true => Ok(()),
            false => Err(Failed::Wrong(format!("it counts {rows} rows, and a scan finds {found}"))),
        }
    }

    /// The snapshot of plain reads now. It has all commits answered before the transaction began.
    pub(crate) fn snapshot(&self, txn: &Transaction) -> Result<Option<u64>, Failed> {
        match txn.snapshot_seq() {
            Some(seq) if seq < self.floor => Err(Failed::Wrong(format!(
                "it reads at {seq}, and commit {} was answered before it began",
                self.floor
            ))),
            seq => Ok(seq),
        }
    }

    /// Rows unchanged until the transaction ends, and gaps still free.
    pub(crate) fn locking_scan(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("locking scan");
        let (family, (life, from)) = self.place()?;
        let to = key_of(self.random.below(self.world.program.keys));
        let own = self.own.keys().filter(|(of, _)| *of == life).map(|(_, key)| key.clone());
        let unknown = own.collect();
        let mode = self.random.pick(&[ReadMode::Shared, ReadMode::Exclusive]);
        let mut scan = scan_from(&from, mode, 0);
        scan.bound = Some(&to).filter(|to| **to > from).map(|to| &to[..]);
        let must_refuse = self.must_refuse();
        let rows = read_rows(&self.world.db, txn, &family, &scan, || {})?;
        if must_refuse {
            return Err(Failed::Wrong("a locking scan after the log failed is answered".into()));
        }
        if !rows.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Failed::Wrong(format!("a locking scan of {} is not in order", from.escape_ascii())));
        }
        let second = self.world.second(txn, mode);
        if self.keeps_gaps() {
            let to = scan.bound.map(<[u8]>::to_vec);
            self.kept.push(Range { life, from, to, found: Found { rows, second }, unknown });
        }
        Ok(())
    }

    /// Whether a locking scan keeps others from the gaps that it passes.
    pub(crate) fn keeps_gaps(&self) -> bool {
        let TransactionOptions { isolation, optimistic, .. } = self.options;
        match optimistic {
            true => isolation == Isolation::Serializable,
            false => isolation >= Isolation::RepeatableRead,
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("client {}", self.number)
    }
}
