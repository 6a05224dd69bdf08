//! A store's parts, as lists: families, tables, compactions. Each list is copied from an immutable version or
//! under a short latch, and is the caller's.

use std::sync::Arc;

use crate::compaction::history::CompactionRecord;
use crate::db::collector::uses_of;
use crate::db::stats::FamilyStats;
use crate::db::Db;
use crate::error::Result;
use crate::lock::{KeyPrefix, LockDump};
use crate::store::family::Family;
use crate::txn::transaction_list::TransactionInfo;
use crate::types::{FamilyId, FileNo, Seq, DICTIONARY};
use crate::value_holds::ValueFile;

/// A family with its figures, known without reading data.
#[derive(Clone, Debug)]
pub struct FamilyInfo {
    /// The family.
    pub family: Arc<Family>,
    /// Its figures.
    pub stats: FamilyStats,
    /// See [`Db::old_form_bytes`].
    pub old_form_bytes: u64,
}

/// A table: one family's part of a table file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableInfo {
    /// Number of the file.
    pub file: FileNo,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// The table's offset in it, in bytes.
    pub offset: u64,
    /// Bytes of the table.
    pub bytes: u64,
    /// Its family.
    pub family: FamilyId,
    /// Name of the family; empty for the dictionary, and for a family dropped a moment ago.
    pub name: Arc<[u8]>,
    /// Its level.
    pub level: u8,
    /// Entries, every version counted.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Bytes of keys and values as they came in.
    pub raw_bytes: u64,
    /// Smallest sequence number.
    pub min_seq: Seq,
    /// Largest sequence number.
    pub max_seq: Seq,
    /// Smallest key.
    pub min_key: KeyPrefix,
    /// Largest key.
    pub max_key: KeyPrefix,
}

/// A value file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueFileInfo {
    /// Its number.
    pub file: FileNo,
    /// Bytes that it takes on disk, about.
    pub bytes: u64,
    /// Values that tables point to, every version counted.
    pub values: u64,
    /// Their bytes as stored.
    pub value_bytes: u64,
    /// Tables that point to it.
    pub tables: u64,
    /// Its other holders: memtables, transactions, tables of versions that a reader or a merge still has, backups. While there
    /// is one, no space of its dead values comes back.
    pub other_holds: u64,
    /// Values are being written to it.
    pub takes_values: bool,
}

impl Db {
    /// The families, by number.
    pub fn families(&self) -> Vec<FamilyInfo> {
        let mut all = self.store().catalog.all();
        all.sort_by_key(|family| family.id());
        // One that is dropped meanwhile is left out.
        let with_stats = |family: Arc<Family>| {
            let stats = self.family_stats(&family).ok()?;
            let old_form_bytes = self.old_form_bytes(&family).unwrap_or(0);
            Some(FamilyInfo { family, stats, old_form_bytes })
        };
        all.into_iter().filter_map(with_stats).collect()
    }

    /// Bytes in files written under other options than the family's present ones, or by an earlier build
    /// without a record of its options. [`Db::compact`] rewrites them. Omits damaged files. Reads the end of
    /// each file once.
    pub fn old_form_bytes(&self, family: &Family) -> Result<u64> {
        self.store().check_open()?;
        family.check_live()?;
        Ok(self.maintenance.old_form_bytes(family))
    }

    /// The name of a family; empty when there is none of this number.
    pub fn family_name(&self, family: FamilyId) -> Arc<[u8]> {
        self.store().catalog.by_id(family).map_or_else(|| Arc::from(&b""[..]), |family| family.name())
    }

    /// Every table, by family, level and key; the dictionary's first.
    pub fn tables(&self) -> Vec<TableInfo> {
        let version = self.store().versions.current();
        let mut families: Vec<_> = version.families().collect();
        families.sort_by_key(|(id, _)| (*id != DICTIONARY, *id));
        let mut out = Vec::new();
        for (family, levels) in families {
            let name = self.family_name(family);
            out.extend(levels.tables().map(|(level, table)| {
                let meta = table.meta();
                TableInfo {
                    file: table.file.number(),
                    file_bytes: table.file.len(),
                    offset: meta.offset,
                    bytes: meta.len,
                    family,
                    name: Arc::clone(&name),
                    level,
                    entries: meta.entries,
                    tombstones: meta.tombstones,
                    keys: meta.keys,
                    raw_bytes: meta.raw_bytes,
                    min_seq: meta.min_seq,
                    max_seq: meta.max_seq,
                    min_key: KeyPrefix::of(&meta.min_key),
                    max_key: KeyPrefix::of(&meta.max_key),
                }
            }));
        }
        out
    }

    /// The value files, by number.
    pub fn value_files(&self) -> Vec<ValueFileInfo> {
        let (values, version) = (self.store().versions.values(), self.store().versions.current());
        let uses = uses_of(&version);
        let files = values.hold_all();
        let info = |file: &Arc<ValueFile>| {
            let of = uses.get(&file.number());
            let (needed, tables) = of.map_or((None, 0), |of| (Some(of.needed), of.tables));
            let takes_values = values.takes_values(file);
            // The manifest's and this list's; while values are written, their writers have some.
            let ours = if takes_values { usize::MAX } else { 2 + tables };
            ValueFileInfo {
                file: file.number(),
                bytes: file.taken(),
                values: needed.map_or(0, |needed| needed.values),
                value_bytes: needed.map_or(0, |needed| needed.bytes),
                tables: tables as u64,
                other_holds: Arc::strong_count(file).saturating_sub(ours) as u64,
                takes_values,
            }
        };
        files.iter().map(info).collect()
    }

    /// The clock of `begun_us` and similar fields: microseconds from an arbitrary start, never going back.
    pub fn now_micros(&self) -> u64 {
        self.store().now_micros()
    }

    /// The open transactions, then the prepared ones without a session.
    pub fn transactions(&self) -> Vec<TransactionInfo> {
        self.transactions.infos()
    }

    /// A dump of the locks, of at most `limit` grants and waits; see `lock::LockDump`.
    pub fn locks(&self, limit: usize) -> LockDump {
        self.transactions.dump_locks(limit)
    }

    /// The running compactions, then the last finished ones.
    pub fn compactions(&self) -> Vec<CompactionRecord> {
        self.maintenance.history.records()
    }
}

#[cfg(test)]
mod tests {
    use crate::compaction::history::CompactionOutcome;
    use crate::db::Db;
    use crate::io::FaultyDisk;
    use crate::options::{FamilyOptions, Options};
    use crate::txn::transaction::{Change, ChangeKind, TransactionOptions};

    #[test]
    fn tables_and_compactions_are_listed_as_they_come_and_go() {
        let disk = FaultyDisk::new(1);
        let db = Db::open_on(disk.shared(), "/s", Options::default(), None).expect("opens");
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let own = |db: &Db| db.tables().into_iter().filter(|s| &s.name[..] == b"t").collect::<Vec<_>>();
        let mut txn = db.transaction();
        for value in [&b"old"[..], b"new"] {
            txn.begin(TransactionOptions::default()).expect("begins");
            for key in [&b"a"[..], b"b"] {
                let change = Change {
                    family: &family,
                    key,
                    kind: ChangeKind::Put(value),
                    lock: true,
                    count_unchanged: false,
                    expiry: 0,
                };
                txn.write(&[change]).expect("writes");
            }
            txn.commit().expect("commits");
        }
        assert!(own(&db).is_empty(), "all is in memory");
        assert_eq!(db.families().iter().filter(|f| &f.family.name()[..] == b"t").count(), 1);
        db.flush().expect("flushes");
        let tables = own(&db);
        assert_eq!(tables.len(), 1);
        let table = &tables[0];
        assert_eq!((table.level, table.keys, table.tombstones), (0, 2, 0));
        assert_eq!((&table.min_key.bytes[..], &table.max_key.bytes[..]), (&b"a"[..], &b"b"[..]));
        assert!(table.bytes > 0 && table.file_bytes >= table.offset + table.bytes);
        assert!(table.min_seq <= table.max_seq);

        db.compact(&family).expect("compacts");
        assert!(own(&db).iter().all(|table| table.level > 0));
        let record = &db.compactions()[0];
        assert_eq!((record.family, record.reason), (Some(family.id()), "MANUAL"));
        assert_eq!((record.outcome, record.tables_in), (CompactionOutcome::Done, 1));
        assert!(record.bytes_in > 0 && record.bytes_out > 0 && record.entries_out == 2);
        assert!(record.ended_us >= Some(record.begun_us));
    }
}
