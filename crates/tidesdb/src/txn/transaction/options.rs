//! The options of a transaction, the modes of its reads, and its changes.

use std::sync::Arc;

use crate::store::family::Family;
use crate::types::Kind;
use crate::value::ReadParts;

/// A transaction's view of others' changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Isolation {
    /// The newest committed version at each read; no snapshot.
    ReadUncommitted,
    /// A snapshot for each statement.
    ReadCommitted,
    /// One snapshot, taken by the first plain read.
    #[default]
    RepeatableRead,
    /// One snapshot, taken by the first statement of any kind.
    Snapshot,
    /// As repeatable read; the caller reads with shared locks.
    Serializable,
}

impl Isolation {
    /// The level with a number, as after a cast; `None` beyond the last.
    pub fn from_number(number: u8) -> Option<Isolation> {
        Some(match number {
            0 => Isolation::ReadUncommitted,
            1 => Isolation::ReadCommitted,
            2 => Isolation::RepeatableRead,
            3 => Isolation::Snapshot,
            4 => Isolation::Serializable,
            _ => return None,
        })
    }
}

/// The options of a transaction, fixed when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    /// Its view of others' changes.
    pub isolation: Isolation,
    /// Intents instead of waiting locks (`docs/protocols.md` 4.8).
    pub optimistic: bool,
    /// No locks and no checks: bulk load into a family without other users. Until it has committed nobody
    /// else may write there, or deleted rows can come back. Its commits do not wait for a sync:
    /// [`crate::db::Db::flush_log`] ends the load.
    pub unlocked: bool,
    /// A replica's applier: every conflict is a wait.
    pub ordered_waits: bool,
    /// Its locks have priority ([`LockOwner::set_priority`](crate::lock::LockOwner::set_priority)): for an
    /// applier of a cluster. It waits for locks also with `optimistic`.
    pub priority: bool,
    /// Reads see expired entries while they exist: a replica's applier finds rows changed by its primary
    /// before they expired. Checks for duplicates do not see them.
    pub sees_expired: bool,
    /// Reads see expiries at the second of the oldest view in the store. Building an index needs it: every
    /// row still visible in some view gets an entry.
    pub oldest_view: bool,
    /// One statement and its commit: either may fail for want of a lock on an entry of an index. With more
    /// statements a commit never fails so.
    pub single_statement: bool,
}

/// A read's treatment of others' changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadMode {
    /// At the snapshot of the isolation level.
    Snapshot,
    /// The newest committed version, without a lock.
    Latest,
    /// Takes a shared lock, then reads the newest version.
    Shared,
    /// Takes an exclusive lock, then reads the newest version.
    Exclusive,
    /// The newest version without a lock on its key. Scans keep the gaps between keys free, as those of
    /// `Shared` and `Exclusive` do. For index entries with rows locked by the caller.
    Gap,
}

impl ReadMode {
    /// True if scans in this mode keep gaps free if the transaction does.
    pub(crate) fn may_keep_gaps(self) -> bool {
        matches!(self, ReadMode::Shared | ReadMode::Exclusive | ReadMode::Gap)
    }
}

/// One change of a row.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Its family.
    pub family: &'a Arc<Family>,
    /// Its key.
    pub key: &'a [u8],
    /// Its operation.
    pub kind: ChangeKind<'a>,
    /// Take an exclusive lock on the key first, and check it against the transaction's snapshot.
    pub lock: bool,
    /// The number of rows stays: a put of an existing key, or the deletion of a missing one. Otherwise a put
    /// counts as a new row, and a deletion as one less. The former state of a key is the one visible to the
    /// transaction, its own changes included. Nobody checks it; [`crate::db::Db::count_rows`] corrects
    /// mistakes.
    pub count_unchanged: bool,
    /// Second since 1970 from which a put key no longer exists; 0: it does not expire.
    pub expiry: u64,
}

/// The operation of a change.
#[derive(Clone, Copy, Debug)]
pub enum ChangeKind<'a> {
    /// The key has this value, whether it exists or not.
    Put(&'a [u8]),
    /// The key has this value; an error if a live entry of it exists.
    Insert(&'a [u8]),
    /// As `Put`, for an entry of an index with a locked row. A lock on the entry keeps it out of others'
    /// ranges. The entry is not compared with the snapshot, as the row was.
    PutEntry(&'a [u8]),
    /// The entry's present, committed value: an entry of a row locked by the transaction. It takes no lock,
    /// as nobody else changes the entry meanwhile. For a transaction that [went
    /// past](super::Transaction::passed_snapshot) its snapshot: its row has this entry, and the snapshot may not
    /// show it.
    KeepEntry(&'a [u8]),
    /// The key does not exist.
    Delete,
    /// As `Delete`; a compaction may drop the deletion together with its put. This needs a proof: the key is
    /// locked and unchanged by this transaction so far, and its newest version is an
    /// [`Insert`](ChangeKind::Insert) without an earlier value. Without it a plain deletion is written.
    SingleDelete,
}

impl<'a> ChangeKind<'a> {
    /// The kind of its entry that needs no proof.
    pub(super) fn unproven(self) -> Kind {
        match self {
            ChangeKind::Put(_)
            | ChangeKind::Insert(_)
            | ChangeKind::PutEntry(_)
            | ChangeKind::KeepEntry(_) => Kind::PUT.marked_may_overwrite(),
            ChangeKind::Delete | ChangeKind::SingleDelete => Kind::DELETE,
        }
    }

    /// The value; empty of a deletion.
    pub(super) fn value(self) -> &'a [u8] {
        match self {
            ChangeKind::Put(value)
            | ChangeKind::Insert(value)
            | ChangeKind::PutEntry(value)
            | ChangeKind::KeepEntry(value) => value,
            ChangeKind::Delete | ChangeKind::SingleDelete => &[],
        }
    }
}

/// More of the value of one of several changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongValue<'a> {
    /// Index of the change.
    pub change: usize,
    /// The pieces that follow the change's own bytes.
    pub pieces: &'a [&'a [u8]],
    /// Of the change's own bytes, those that stay in the entry when the rest goes to a value file: reads can take them alone.
    /// 0: all go there.
    pub first_part: usize,
    /// The rest stays as it is: the change's own bytes after the first part are the [place](crate::txn::cursor::Cursor::rest_place)
    /// that a read of this version had. [`Error::Conflict`](crate::Error::Conflict) when the key has another version by now.
    pub keeps_rest: bool,
    /// The place of the rest of the value that the key has. [`Error::Unchanged`](crate::Error::Unchanged) when the new rest has
    /// that one's lengths and checksum: no read tells, and nearly always it has the same bytes.
    pub unless_at: Option<&'a [u8]>,
}

/// The parameters of a point read.
#[derive(Clone, Copy, Debug)]
pub struct PointRead {
    /// The treatment of others' changes.
    pub mode: ReadMode,
    /// [`Error::LockTimeout`](crate::Error::LockTimeout) at once when another owner has the key.
    pub skip_locked: bool,
    /// The locks on a missing key.
    pub on_missing: OnMissing,
    /// The parts of a value in two.
    pub parts: ReadParts,
}

impl PointRead {
    /// Of the whole value, in this mode.
    pub fn of(mode: ReadMode) -> PointRead {
        PointRead { mode, skip_locked: false, on_missing: OnMissing::Keep, parts: ReadParts::Both }
    }
}

/// The locks kept by a locking read of a missing key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnMissing {
    /// From REPEATABLE READ on the lock on the key, and for exclusive reads the gap around it.
    Keep,
    /// Nothing: the key came from an entry of an index, and the range there covers a new one.
    Forget,
}
