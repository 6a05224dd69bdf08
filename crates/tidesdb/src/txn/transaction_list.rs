//! The list of all transaction objects, for monitoring. Each object has a [`TransactionEntry`], updated by
//! its thread. Reading one blocks nobody, and may meet a transaction between two steps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::*};
use std::sync::Arc;

use crate::lock::{HeldCounts, LockDump, LockOwner, LockOwnerId};
use crate::sync::Mutex;
use crate::txn::transaction::Isolation;
use crate::txn::Transactions;
use crate::types::Seq;

/// No snapshot.
const NONE: u64 = u64::MAX;

/// The activity of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionState {
    /// It runs, or waits for its next statement.
    Running,
    /// It waits for a lock.
    Waiting,
    /// It is prepared and waits for a decision.
    Prepared,
}

/// An open transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransactionInfo {
    /// Its number; also its owner's in lock dumps.
    pub id: u64,
    /// The embedding server's name of the session; 0: none (prepared, and the session is gone).
    pub session: u64,
    /// Its activity.
    pub state: TransactionState,
    /// Its begin, in microseconds of `Db::now_micros`; `None` without a session.
    pub begun_us: Option<u64>,
    /// The begin of its wait, if it waits.
    pub waits_since_us: Option<u64>,
    /// The owner it waits for.
    pub blocker: Option<LockOwnerId>,
    /// Its isolation level; `None` without a session.
    pub isolation: Option<Isolation>,
    /// True if it is optimistic.
    pub optimistic: bool,
    /// The sequence number of its snapshot, if it holds one now.
    pub snapshot: Option<Seq>,
    /// Number of its changes: a row, and each entry of an index, counts.
    pub changes: u64,
    /// Bytes of its changes in memory.
    pub batch_bytes: u64,
    /// Its locks; `None`: they were busy.
    pub held: Option<HeldCounts>,
    /// The identifier for its decision, if it has no session.
    pub xid: Option<Vec<u8>>,
}

/// A transaction object as seen by other threads.
#[derive(Debug)]
pub(crate) struct TransactionEntry {
    owner: Arc<LockOwner>,
    state: AtomicU8,
    isolation: AtomicU8,
    optimistic: AtomicBool,
    begun: AtomicU64,
    snapshot: AtomicU64,
    bytes: AtomicU64,
}

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const PREPARED: u8 = 2;

impl TransactionEntry {
    /// A transaction begins at `now`.
    pub(crate) fn begin(&self, isolation: Isolation, optimistic: bool, now: u64) {
        self.isolation.store(isolation as u8, Relaxed);
        self.optimistic.store(optimistic, Relaxed);
        self.begun.store(now, Relaxed);
        self.state.store(RUNNING, Release);
    }

    /// It is prepared.
    pub(crate) fn prepared(&self) {
        self.state.store(PREPARED, Release);
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        self.state.store(IDLE, Release);
    }

    /// It holds a snapshot now, or none.
    pub(crate) fn set_snapshot(&self, seq: Option<Seq>) {
        self.snapshot.store(seq.unwrap_or(NONE), Relaxed);
    }

    /// Bytes of its changes in memory.
    pub(crate) fn set_bytes(&self, bytes: usize) {
        self.bytes.store(bytes as u64, Relaxed);
    }

    /// The entries of a store.
    fn look(&self, blocker: impl FnOnce(&LockOwner) -> Option<LockOwnerId>) -> Option<TransactionInfo> {
        let (state, id) = (self.state.load(Acquire), self.owner.id());
        let waits_since_us = self.owner.waits_since();
        let info = TransactionInfo {
            id,
            session: self.owner.session(),
            state: match (state, waits_since_us) {
                (IDLE, _) => return None,
                (_, Some(_)) => TransactionState::Waiting,
                (PREPARED, None) => TransactionState::Prepared,
                _ => TransactionState::Running,
            },
            begun_us: Some(self.begun.load(Relaxed)),
            waits_since_us,
            blocker: waits_since_us.and_then(|_| blocker(&self.owner)),
            isolation: Isolation::from_number(self.isolation.load(Relaxed)),
            optimistic: self.optimistic.load(Relaxed),
            snapshot: Some(self.snapshot.load(Relaxed)).filter(|&seq| seq != NONE),
            changes: self.owner.written(),
            batch_bytes: self.bytes.load(Relaxed),
            held: self.owner.held(),
            xid: None,
        };
        // Another transaction began meanwhile: this one is over.
        (self.owner.id() == id && self.state.load(Acquire) != IDLE).then_some(info)
    }
}

/// The entries of a store.
#[derive(Debug, Default)]
pub(crate) struct TransactionList(Mutex<TransactionEntries>);

#[derive(Debug, Default)]
struct TransactionEntries {
    next: u64,
    taken: BTreeMap<u64, Arc<TransactionEntry>>,
}

/// An entry, removed together with its transaction object.
#[derive(Debug)]
pub(crate) struct Registered {
    number: u64,
    entry: Arc<TransactionEntry>,
    transaction_list: Arc<TransactionList>,
}

impl TransactionList {
    /// An entry for a transaction object with this owner.
    pub(crate) fn register(self: &Arc<TransactionList>, owner: &Arc<LockOwner>) -> Registered {
        let entry = Arc::new(TransactionEntry {
            owner: Arc::clone(owner),
            state: AtomicU8::new(IDLE),
            isolation: AtomicU8::new(0),
            optimistic: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            snapshot: AtomicU64::new(NONE),
            bytes: AtomicU64::new(0),
        });
        let mut entries = self.0.lock();
        let number = entries.next;
        entries.next += 1;
        entries.taken.insert(number, Arc::clone(&entry));
        Registered { number, entry, transaction_list: Arc::clone(self) }
    }

    fn entries(&self) -> Vec<Arc<TransactionEntry>> {
        self.0.lock().taken.values().cloned().collect()
    }
}

impl std::ops::Deref for Registered {
    type Target = TransactionEntry;

    fn deref(&self) -> &TransactionEntry {
        &self.entry
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.transaction_list.0.lock().taken.remove(&self.number);
    }
}

impl Transactions {
    /// The open transactions, then the prepared ones without a session.
    pub(crate) fn infos(&self) -> Vec<TransactionInfo> {
        let entries = self.list.entries();
        let blocker = |owner: &LockOwner| self.locks.blocker(owner);
        let mut out: Vec<TransactionInfo> = entries.iter().filter_map(|entry| entry.look(blocker)).collect();
        out.extend(self.detached_infos());
        out
    }

    /// Interrupts waits and scans of every open transaction, at the close of the store.
    pub(crate) fn interrupt_all(&self) {
        for entry in self.list.entries() {
            self.locks.kill(&entry.owner);
        }
    }

    /// A dump of the locks, of at most `limit` grants and waits: `Db::locks`.
    pub(crate) fn dump_locks(&self, limit: usize) -> LockDump {
        let owners: Vec<Arc<LockOwner>> =
            self.list.entries().iter().map(|entry| Arc::clone(&entry.owner)).collect();
        self.locks.dump(&owners, limit)
    }
}

#[cfg(test)]
mod tests {
    use crate::db::Db;
    use crate::io::FaultyDisk;
    use crate::options::{FamilyOptions, Options};
    use crate::txn::transaction::{Change, ChangeKind, Isolation, TransactionOptions};
    use crate::txn::transaction_list::TransactionState;

    #[test]
    fn transactions_are_listed_from_begin_to_end_and_as_detached_after() {
        let disk = FaultyDisk::new(1);
        let db = Db::open_on(disk.shared(), "/s", Options::default(), None).expect("opens");
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let mut txn = db.transaction();
        txn.owner().set_session(42);
        assert!(db.transactions().is_empty(), "nothing has begun");
        txn.begin(TransactionOptions { isolation: Isolation::Snapshot, ..TransactionOptions::default() })
            .expect("begins");
        txn.take_snapshot().expect("takes");
        let kind = ChangeKind::Put(b"value");
        txn.write(&[Change {
            family: &family,
            key: b"k",
            kind,
            lock: true,
            count_unchanged: false,
            expiry: 0,
        }])
        .expect("writes");
        let seen = db.transactions();
        assert_eq!(seen.len(), 1);
        let (info, now) = (&seen[0], db.now_micros());
        assert_eq!((info.session, info.state, info.changes), (42, TransactionState::Running, 1));
        assert_eq!((info.isolation, info.optimistic), (Some(Isolation::Snapshot), false));
        assert!(info.snapshot.is_some() && info.batch_bytes > 0 && info.begun_us <= Some(now));
        assert_eq!(info.held.map(|held| (held.points, held.tables)), Some((1, 1)));
        assert_eq!(db.locks(10).locks.iter().filter(|lock| lock.owner.session == 42).count(), 2);

        txn.prepare_xa(b"xid").expect("prepares");
        assert_eq!(db.transactions()[0].state, TransactionState::Prepared);
        assert_eq!(db.transactions()[0].snapshot, None);
        drop(txn);
        let seen = db.transactions();
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].session, seen[0].state), (0, TransactionState::Prepared));
        assert_eq!((seen[0].xid.as_deref(), seen[0].changes), (Some(&b"xid"[..]), 1));
        assert!(db.rollback_by_xid(b"xid").expect("decides"));
        assert!(db.transactions().is_empty() && db.locks(10).locks.is_empty());
    }

    /// The victim of a deadlock is the transaction with fewer changes; undone changes do not count.
    #[test]
    fn changes_that_were_undone_do_not_count() {
        let disk = FaultyDisk::new(1);
        let db = Db::open_on(disk.shared(), "/s", Options::default(), None).expect("opens");
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        txn.put(&family, b"a", b"").expect("puts");
        txn.statement_end();
        let savepoint = txn.savepoint_set().expect("sets");
        for undo_statement in [true, false] {
            txn.put(&family, b"b", b"").and_then(|()| txn.put(&family, b"c", b"")).expect("puts");
            assert_eq!(db.transactions()[0].changes, 3);
            if undo_statement {
                txn.statement_rollback();
            } else {
                txn.savepoint_rollback(savepoint).expect("rolls back");
            }
            assert_eq!(db.transactions()[0].changes, 1, "statement {undo_statement}");
        }
    }
}
