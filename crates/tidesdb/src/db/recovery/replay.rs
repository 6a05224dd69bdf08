//! Replay: turns the part of the log not in files into flushables for the version, and into undecided
//! transactions. Used by [`open`](crate::db::recovery::open); reads the log's records in their order and
//! writes nothing.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::cluster_position::ClusterPosition;
use crate::host::{HashMap, HashSet};
use crate::memtable::{ArenaPool, Memtable};
use crate::mutant::{self, Mutant};
use crate::store::commit_batch::CommitBatch;
use crate::store::sealed_runs::SealedRuns;
use crate::store::super_version::Flushable;
use crate::types::{FileNo, MemtableId, Seq};
use crate::value::{pointer_of, stored_without_expiry};
use crate::value_holds::ValueHolds;
use crate::values::ValueFiles;
use crate::version::VersionSet;
use crate::wal::{without_proofs, BatchReader, PreparedHead, RecordRef};

/// A batch in the log without a decision yet.
struct Pending {
    /// `None`: a large one-phase batch, dropped if no marker follows.
    xid: Option<Vec<u8>>,
    locks: Vec<u8>,
    body: Vec<u8>,
}

/// The end of a transaction with its batch in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Committed; its batch was met before.
    Committed,
    /// Committed with this number; its batch was not met before.
    Missing(Seq),
    /// Rolled back.
    RolledBack,
}

/// The end of a flushable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Its last commit.
    pub last_seq: Seq,
    /// The cluster's position as of that commit.
    pub position: Option<ClusterPosition>,
}

/// A part of the log's content, in its order.
enum Piece {
    Memtable(Arc<Memtable>),
    /// A commit of runs: its number, the names of its runs, and the memtable number of the first.
    Runs(Seq, Vec<u8>, MemtableId),
}

/// A prepared transaction without a decision.
pub(crate) type ReplayedPrepare = (u64, Arc<PreparedHead>, Arc<CommitBatch>);

/// A log's content.
pub(crate) struct Replayed {
    /// The newest commit in the log.
    pub newest: Seq,
    /// The highest transaction id in the log.
    pub newest_transaction: u64,
    /// The first memtable number free of replayed content.
    pub next_memtable_id: MemtableId,
    /// Commits not in files, oldest first.
    pub flushables: Vec<Flushable>,
    /// Of each of them.
    pub ends: Vec<End>,
    /// The cluster's position as of the newest commit.
    pub position: Option<ClusterPosition>,
    /// By transaction.
    pub prepared: Vec<ReplayedPrepare>,
    /// Files of `flushables` and `prepared`.
    pub run_files: HashSet<FileNo>,
    /// Files of transactions with a replayed rollback. The rollback may be only in the page cache until this
    /// opening's own edit is durable, and another opening would then need them.
    pub rolled_back_files: HashSet<FileNo>,
}

/// The state of a replay.
pub(crate) struct Replay {
    values: Option<Arc<ValueFiles>>,
    arenas: ArenaPool,
    write_buffer: usize,
    /// See [`Replay::of_repaired_store`]; 0: of no such store.
    repaired_upto: Seq,
    position: Option<ClusterPosition>,
    /// Commits up to here are in files.
    flushed: Seq,
    newest: Seq,
    newest_transaction: u64,
    next_memtable_id: MemtableId,
    /// Oldest first; the last takes the next records if it is a memtable.
    pieces: Vec<Piece>,
    /// Of each piece.
    ends: Vec<End>,
    pending: BTreeMap<u64, Pending>,
    /// Names of runs by transaction, until it is decided.
    names: BTreeMap<u64, Vec<u8>>,
    /// Those of rolled back transactions.
    rolled_back_names: Vec<Vec<u8>>,
    /// One decision counts for every copy of a batch, before or after it.
    decided: HashMap<u64, Decision>,
}

impl Replay {
    /// Commits up to `flushed` are in files; new memtables get the numbers from `next_memtable_id` on.
    pub(crate) fn new(
        arenas: ArenaPool,
        write_buffer: usize,
        flushed: Seq,
        next_memtable_id: MemtableId,
    ) -> Replay {
        Replay {
            values: None,
            arenas,
            write_buffer,
            repaired_upto: 0,
            position: None,
            flushed,
            newest: flushed,
            newest_transaction: 0,
            next_memtable_id,
            pieces: Vec::new(),
            ends: Vec::new(),
            pending: BTreeMap::new(),
            names: BTreeMap::new(),
            rolled_back_names: Vec::new(),
            decided: HashMap::default(),
        }
    }

    /// Marks the store as repaired. The repair may have lost the proofs of the puts of prepared
    /// transactions: these commit after everything it found (`docs/design/0020-single-deletes.md`).
    /// Transactions prepared after the repair are not told apart. `upto` is the newest commit that the repair found;
    /// 0: the store is not repaired. Positions up to there are those of a store that lost nothing.
    pub(crate) fn of_repaired_store(self, upto: Seq) -> Replay {
        Replay { repaired_upto: upto, ..self }
    }

    /// The cluster's position as of the flushed commits.
    pub(crate) fn with_position(self, position: Option<ClusterPosition>) -> Replay {
        Replay { position, ..self }
    }

    /// Takes the position of a commit that is not in files. In the log's order, so that a later one is the newest,
    /// whatever its number.
    fn note_position(&mut self, seq: Seq, position: Option<ClusterPosition>) {
        let is_new = seq > self.flushed.max(self.repaired_upto);
        if is_new && !mutant::is(Mutant::PositionForgottenByReplay) {
            self.position = position.or(self.position);
        }
    }

    /// A commit is in the last piece.
    fn note_end(&mut self, seq: Seq) {
        if let Some(end) = self.ends.last_mut() {
            *end = End { last_seq: end.last_seq.max(seq), position: self.position };
        }
    }

    fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
        self.ends.push(End { last_seq: 0, position: None });
    }

    /// Entries may have their values in these files.
    pub(crate) fn with_values(self, values: &Arc<ValueFiles>) -> Replay {
        Replay { values: Some(Arc::clone(values)), ..self }
    }

    fn apply(&mut self, seq: Seq, body: &[u8]) -> Result<()> {
        self.newest = self.newest.max(seq);
        if seq <= self.flushed + u64::from(mutant::is(Mutant::ReplaySkipsFirst)) {
            return Ok(());
        }
        let memtable = match self.pieces.last() {
            Some(Piece::Memtable(last)) if last.bytes() <= self.write_buffer => last.clone(),
            _ => {
                let fresh = Arc::new(Memtable::new(self.next_memtable_id, self.arenas.clone()));
                self.next_memtable_id += 1;
                self.push(Piece::Memtable(fresh.clone()));
                fresh
            }
        };
        let open = AtomicBool::new(false);
        for entry in BatchReader::new(body).map_err(malformed)? {
            let entry = entry.map_err(malformed)?;
            // Nobody reads yet: only the newest version of a key counts.
            let tree = memtable.tree_or_create(entry.family);
            let (kind, value) = match mutant::is(Mutant::ExpiryLostByReplay) {
                true => stored_without_expiry(entry.kind, entry.value),
                false => (entry.kind, entry.value),
            };
            if let (Some(pointer), Some(values)) = (pointer_of(kind, value), &self.values) {
                // One that is not there any more costs its rows, not the opening.
                values.hold_of(pointer).into_iter().for_each(|file| memtable.hold(&file));
            }
            tree.insert_counted(entry.key, seq, (kind, entry.effect), value, &open, seq);
        }
        self.note_end(seq);
        Ok(())
    }

    /// Applies a commit of runs: they lie between earlier and later replayed content.
    fn apply_runs(&mut self, seq: Seq, names: Vec<u8>) -> Result<()> {
        if seq > self.flushed {
            let generations = SealedRuns::named_generations(&names)?;
            self.push(Piece::Runs(seq, names, self.next_memtable_id));
            self.next_memtable_id += generations as MemtableId;
            self.note_end(seq);
        }
        Ok(())
    }

    /// The next record of the log.
    pub(crate) fn record(&mut self, record: RecordRef<'_>) -> Result<()> {
        self.newest_transaction = self.newest_transaction.max(transaction_of(&record));
        if let Some(seq) = record.seq() {
            self.note_position(seq, record.position());
        }
        match record {
            RecordRef::Commit { seq, batch, .. } | RecordRef::Ddl { seq, batch, .. } => {
                self.apply(seq, batch)?;
            }
            RecordRef::Prepared { txn, xid, locks, batch }
            | RecordRef::RewrittenPrepare { txn, xid, locks, batch } => {
                let body = match self.repaired_upto != 0 {
                    true => without_proofs(batch).map_err(malformed)?,
                    false => batch.to_vec(),
                };
                let pending = Pending { xid: Some(xid.to_vec()), locks: locks.to_vec(), body };
                self.copy(txn, pending)?;
            }
            RecordRef::LargeBatch { txn, batch } => {
                let pending = Pending { xid: None, locks: Vec::new(), body: batch.to_vec() };
                self.copy(txn, pending)?;
            }
            RecordRef::Marker { txn, seq, .. } => {
                self.newest = self.newest.max(seq);
                let decision = match (self.pending.remove(&txn), self.names.remove(&txn)) {
                    // All changes are in the runs: the batch is empty.
                    (Some(_), Some(names)) => {
                        self.apply_runs(seq, names)?;
                        Decision::Committed
                    }
                    (Some(pending), None) => {
                        self.apply(seq, &pending.body)?;
                        Decision::Committed
                    }
                    // Its batch stood in a segment that was released, because the commit is in files.
                    (None, _) if seq <= self.flushed => Decision::Committed,
                    (None, _) => Decision::Missing(seq),
                };
                self.decided.insert(txn, decision);
            }
            RecordRef::Rollback { txn } => {
                self.pending.remove(&txn);
                self.rolled_back_names.extend(self.names.remove(&txn));
                self.decided.insert(txn, Decision::RolledBack);
            }
            RecordRef::RunNames { txn, names } => match self.decided.get(&txn) {
                None => {
                    self.names.insert(txn, names.to_vec());
                }
                // Runs have their place among the commits: names after it come too late.
                Some(Decision::Missing(seq)) => {
                    let what = format!("the runs of commit {seq} are named after it");
                    return Err(Error::corruption("wal", 0, what));
                }
                Some(Decision::RolledBack) => self.rolled_back_names.push(names.to_vec()),
                Some(Decision::Committed) => {}
            },
            RecordRef::DurableMark | RecordRef::EpochBoundary(_) => {}
            RecordRef::Ceiling { .. } => {
                return Err(Error::corruption(
                    "wal",
                    0,
                    format!("the log holds a record that this build does not write: {record:?}"),
                ));
            }
        }
        Ok(())
    }

    /// The end of the log.
    pub(crate) fn finish(self, versions: &VersionSet) -> Result<Replayed> {
        self.check_complete()?;
        let Replay { newest, newest_transaction, next_memtable_id, ends, position, mut names, .. } = self;
        let mut run_files = HashSet::default();
        let mut flushables = Vec::new();
        for piece in self.pieces {
            flushables.push(match piece {
                Piece::Memtable(memtable) => Flushable::Memtable(memtable),
                Piece::Runs(seq, names, first) => {
                    let runs = named_runs(versions, &names)?;
                    run_files.extend(runs.files());
                    Flushable::Runs(Arc::new(runs.commit(versions, seq, first)))
                }
            });
        }
        let mut prepared = Vec::new();
        for (txn, pending) in self.pending {
            let Some(xid) = pending.xid else { continue };
            let head = Arc::new(PreparedHead { xid, locks: pending.locks });
            let runs = names.remove(&txn).map(|names| named_runs(versions, &names)).transpose()?;
            run_files.extend(runs.iter().flat_map(SealedRuns::files));
            let batch = CommitBatch::from_body(pending.body).map_err(malformed)?.with_runs(runs);
            let batch = hold_values(versions.values(), batch);
            prepared.push((txn, head, Arc::new(batch)));
        }
        let mut rolled_back_files = HashSet::default();
        for names in &self.rolled_back_names {
            rolled_back_files.extend(SealedRuns::named_files(names)?);
        }
        Ok(Replayed {
            newest,
            newest_transaction,
            next_memtable_id,
            flushables,
            ends,
            position,
            prepared,
            run_files,
            rolled_back_files,
        })
    }

    /// A batch, or another copy of one.
    fn copy(&mut self, txn: u64, pending: Pending) -> Result<()> {
        match self.decided.get(&txn) {
            None => {
                self.pending.insert(txn, pending);
            }
            Some(Decision::Missing(seq)) => {
                let seq = *seq;
                self.apply(seq, &pending.body)?;
                self.decided.insert(txn, Decision::Committed);
            }
            Some(Decision::Committed | Decision::RolledBack) => {}
        }
        Ok(())
    }

    /// Error for a commit without its batch.
    fn check_complete(&self) -> Result<()> {
        for (txn, decision) in &self.decided {
            if let Decision::Missing(seq) = decision {
                let what = format!("commit {seq} of transaction {txn} has no batch");
                return Err(Error::corruption("wal", 0, what));
            }
        }
        Ok(())
    }
}

/// The transaction of a record; 0: none.
fn transaction_of(record: &RecordRef<'_>) -> u64 {
    match *record {
        RecordRef::Prepared { txn, .. }
        | RecordRef::RewrittenPrepare { txn, .. }
        | RecordRef::LargeBatch { txn, .. }
        | RecordRef::Marker { txn, .. }
        | RecordRef::Rollback { txn }
        | RecordRef::RunNames { txn, .. } => txn,
        RecordRef::Commit { .. }
        | RecordRef::Ddl { .. }
        | RecordRef::DurableMark
        | RecordRef::Ceiling { .. }
        | RecordRef::EpochBoundary(_) => 0,
    }
}

fn malformed(what: &str) -> Error {
    Error::corruption("wal", 0, format!("a batch {what}"))
}

/// The batch with holds on the value files of its changes.
fn hold_values(values: &ValueFiles, batch: CommitBatch) -> CommitBatch {
    let mut holds = ValueHolds::default();
    batch.pointers().filter_map(|pointer| values.hold_of(pointer)).for_each(|file| holds.add(file));
    let runs = batch.runs().into_iter().flat_map(|runs| &runs.tables);
    for of in runs.flat_map(|table| &table.meta.values) {
        values.hold(of.file).into_iter().for_each(|file| holds.add(file));
    }
    batch.holding(holds, ValueHolds::default())
}

/// The runs named by a record of the log. A missing one is noted: reading its families fails.
fn named_runs(versions: &VersionSet, names: &[u8]) -> Result<SealedRuns> {
    let mut runs = SealedRuns::decode(versions, names)?;
    let files: Vec<FileNo> = runs.files().collect();
    for number in files {
        if !versions.table_files().exists(number)? {
            let tables = runs.tables.iter().filter(|table| table.file.number() == number);
            versions.note_missing(number, tables.map(|table| table.meta.family));
        }
    }
    runs.find_expiries(versions);
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{CountEffect, Kind};
    use crate::wal::{BatchBuilder, Ddl};

    fn replay() -> Replay {
        Replay::new(ArenaPool::new(1 << 20), 1 << 20, 4, 1)
    }

    fn entries_of(piece: &Piece) -> u64 {
        match piece {
            Piece::Memtable(memtable) => memtable.entries(7),
            Piece::Runs(..) => 0,
        }
    }

    fn body() -> Vec<u8> {
        let mut body = BatchBuilder::new(Vec::new(), 1);
        body.group(7, 1);
        body.entry(Kind::PUT, CountEffect::Counts, b"k", b"v");
        body.finish()
    }

    fn replayed(records: &[RecordRef<'_>]) -> (Replay, Result<()>) {
        let mut replay = replay();
        for record in records {
            replay.record(*record).expect("replays");
        }
        let complete = replay.check_complete();
        (replay, complete)
    }

    #[test]
    fn one_decision_counts_for_every_copy_before_and_after_it() {
        let body = body();
        let first = RecordRef::Prepared { txn: 1, xid: b"x", locks: b"", batch: &body };
        let copy = RecordRef::RewrittenPrepare { txn: 1, xid: b"x", locks: b"", batch: &body };
        let (marker, rollback) =
            (RecordRef::Marker { txn: 1, seq: 5, position: None }, RecordRef::Rollback { txn: 1 });
        for records in [
            vec![first, marker],
            vec![first, copy, marker],
            vec![copy, marker],
            vec![first, marker, copy],
            vec![marker, copy],
            vec![marker, copy, copy],
        ] {
            let (replay, complete) = replayed(&records);
            complete.expect("complete");
            assert!(replay.pending.is_empty(), "{records:?}");
            let entries: u64 = replay.pieces.iter().map(entries_of).sum();
            assert_eq!((entries, replay.newest), (1, 5), "{records:?}");
        }
        for records in [vec![first, rollback], vec![first, copy, rollback], vec![rollback, copy]] {
            let (replay, complete) = replayed(&records);
            complete.expect("complete");
            assert!(replay.pending.is_empty() && replay.pieces.is_empty(), "{records:?}");
        }
        let (replay, complete) = replayed(&[first, copy]);
        complete.expect("complete");
        assert_eq!(replay.pending.len(), 1, "undecided, once");
        let (_, complete) = replayed(&[marker]);
        assert!(complete.is_err(), "a commit without its batch is damage");
        let (_, complete) = replayed(&[RecordRef::Marker { txn: 1, seq: 4, position: None }]);
        complete.expect("that one is in files");
    }

    /// The log's order decides, and each piece has the position of its own last commit.
    #[test]
    fn the_newest_position_is_that_of_the_last_record_with_one() {
        let body = body();
        let empty = BatchBuilder::new(Vec::new(), 0).finish();
        let at = |number| Some(ClusterPosition { uuid: [7; 16], number, gtid: None });
        let commit = |seq, number| RecordRef::Commit { seq, position: at(number), batch: &body };
        let plain = |seq| RecordRef::Commit { seq, position: None, batch: &body };
        let ddl = |seq, number| RecordRef::Ddl { ddl: Ddl::Other, seq, position: at(number), batch: &body };
        let marker = |txn, seq, number| RecordRef::Marker { txn, seq, position: at(number) };
        let large = RecordRef::LargeBatch { txn: 1, batch: &body };
        let names = RecordRef::RunNames { txn: 2, names: b"names" };
        let runs = RecordRef::LargeBatch { txn: 2, batch: &empty };
        let alone = |seq, number| RecordRef::Commit { seq, position: at(number), batch: &empty };
        for (records, last) in [
            (vec![commit(5, 9), commit(6, 3)], 3),
            (vec![commit(5, 3), plain(6)], 3),
            (vec![ddl(5, 2), commit(6, 9), ddl(7, 4)], 4),
            (vec![large, commit(5, 9), marker(1, 6, 8)], 8),
            (vec![large, marker(1, 5, 8), plain(6)], 8),
            // Commits up to 4 are in files, and their position is 100.
            (vec![commit(3, 1), commit(4, 2)], 100),
            (vec![marker(9, 4, 1), plain(5)], 100),
            (vec![commit(4, 2), alone(5, -1)], -1),
            (vec![names, runs, commit(5, 7), marker(2, 6, 6)], 6),
        ] {
            let mut replay = replay().with_position(at(100));
            records.iter().for_each(|record| replay.record(*record).expect("replays"));
            assert_eq!(replay.position, at(last), "{records:?}");
            assert_eq!(replay.ends.len(), replay.pieces.len());
            if let Some(end) = replay.ends.last() {
                assert_eq!((end.position, end.last_seq), (at(last), replay.newest), "{records:?}");
            }
        }
        let mut replay = replay().with_position(at(100));
        for record in [names, runs, commit(5, 7), plain(6), marker(2, 7, 6), plain(8), alone(9, 5)] {
            replay.record(record).expect("replays");
        }
        let ends: Vec<_> = replay.ends.iter().map(|end| (end.last_seq, end.position)).collect();
        assert_eq!(ends, [(6, at(7)), (7, at(6)), (9, at(5))]);
        let mut repaired = super::tests::replay().of_repaired_store(6);
        for record in [commit(5, 1), commit(6, 2)] {
            repaired.record(record).expect("replays");
            assert_eq!(repaired.position, None, "the repair lost commits before it");
        }
        repaired.record(commit(7, 3)).expect("replays");
        assert_eq!(repaired.position, at(3));
    }

    #[test]
    fn runs_take_their_place_where_they_are_decided() {
        let (body, empty) = (body(), BatchBuilder::new(Vec::new(), 0).finish());
        let names = RecordRef::RunNames { txn: 1, names: b"names" };
        let prepared = RecordRef::Prepared { txn: 1, xid: b"x", locks: b"", batch: &empty };
        let copy = RecordRef::RewrittenPrepare { txn: 1, xid: b"x", locks: b"", batch: &empty };
        let large = RecordRef::LargeBatch { txn: 1, batch: &empty };
        let (marker, rollback) =
            (RecordRef::Marker { txn: 1, seq: 6, position: None }, RecordRef::Rollback { txn: 1 });
        let commit = |seq| RecordRef::Commit { seq, position: None, batch: &body };
        for records in [
            vec![names, prepared, commit(5), marker, commit(7)],
            vec![names, large, commit(5), marker, commit(7)],
            vec![names, prepared, names, copy, commit(5), marker, commit(7)],
            vec![commit(5), names, prepared, marker, names, copy, commit(7)],
        ] {
            let (replay, complete) = replayed(&records);
            complete.expect("complete");
            assert!(replay.pending.is_empty() && replay.names.is_empty(), "{records:?}");
            let kinds: Vec<bool> =
                replay.pieces.iter().map(|piece| matches!(piece, Piece::Runs(6, ..))).collect();
            assert_eq!(kinds, [false, true, false], "{records:?}");
        }
        let (replay, complete) = replayed(&[names, prepared, rollback, names, copy]);
        complete.expect("complete");
        assert!(replay.pending.is_empty() && replay.names.is_empty() && replay.pieces.is_empty());
        let (replay, _) = replayed(&[names, prepared]);
        assert_eq!((replay.pending.len(), replay.names.len()), (1, 1), "undecided, with its runs");
        let mut late = super::tests::replay();
        late.record(marker).expect("replays");
        assert!(late.record(names).is_err(), "after its place");
    }
}
