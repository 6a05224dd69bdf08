//! Planted faults for `make mutants`, one at a time. Each breaks a rule of `docs/protocols.md`, and the simulation or a
//! model of loom has to notice it. All other builds lack `cfg(mutants)`: [`is`] is the constant false there.

#[cfg(all(mutants, not(any(simulation, loom))))]
compile_error!("planted faults are for the simulation and for the models alone");

macro_rules! mutants {
    ($($name:ident: $what:literal,)*) => {
        /// A planted fault.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant {
            $(#[doc = $what] $name,)*
        }

        /// All of them, each with its fault.
        #[cfg(mutants)]
        pub const MUTANTS: &[(Mutant, &str)] = &[$((Mutant::$name, $what),)*];
    };
}

mutants! {
    // Log.
    LogUnsynced: "a group's sync of the log does nothing",
    OldSegmentUnsynced: "a group's sync leaves out all dirty segments but the last",
    SyncCoversLater: "a sync counts for records written after its begin",
    SegmentUnsynced: "a new log segment's header is not synced",
    LogDirUnsynced: "the directory entry of a new log segment is not synced",
    TicketBeforeBytes: "a log write carries the ticket of a record that it begins",
    CommitAnsweredUnsynced: "a FULL commit is answered once its record is written",
    CommitAnsweredUnwritten: "a commit is answered while its record is queued",
    CheckpointTooHigh: "a flush gives up log that the active memtable needs",
    RotationForgetsLog: "a rotation holds the log from the segment after the present one",
    UndecidedHoldsNoLog: "a flush gives up log with undecided batches",
    LogReleasedBeforeEdit: "log segments are reused before the edit that gives them up",
    InstallBeforeLog: "an edit makes commits reachable that the log may still lose",
    LogRoomGivenBackTwice: "an unused reservation of log room is given back twice",
    LogSyncErrorIgnored: "a failed sync of the log counts as one",
    LogWriteErrorIgnored: "a failed write of the log counts as one",
    SyncFollowersNotWoken: "the leader of a sync wakes nobody",
    // Manifest and files.
    ManifestUnsynced: "an edit of the manifest is not synced",
    NewManifestUnsynced: "a new manifest is not synced before it is in force",
    CurrentUnsynced: "CURRENT is renamed into place before it is synced",
    CurrentDirUnsynced: "the new name of CURRENT is not synced",
    MoveUnsynced: "a new manifest of version 2 is not synced before it is in force",
    FilesBeforeManifest: "tables and log of version 2 come under a manifest of version 1",
    MovesBack: "an opening that does not ask for version 2 takes a store back to version 1",
    UnlinkedBeforeEdit: "inputs of a merge are unlinked before the edit without them",
    FlushUnsynced: "the table files of a flush are not synced",
    FlushSyncErrorIgnored: "a failed sync of a flush's table file counts as one",
    FlushDirUnsynced: "the directory entries of a flush's table files are not synced",
    MergeUnsynced: "the table files of a merge are not synced",
    MergeDirUnsynced: "the directory entries of a merge's table files are not synced",
    RunUnsynced: "the runs of a spilled transaction are not synced by its prepare",
    RunDirUnsynced: "the directory entries of a spilled transaction's runs are not synced",
    // Positions in a cluster's order.
    PositionForgottenByFlush: "the edit of a flush leaves the cluster's position out",
    PositionForgottenByReplay: "recovery takes no position from the log",
    PositionIsMaximum: "a position replaces lower ones alone",
    PositionOfLaterCommit: "the edit of a flush has the position of a commit after its last one",
    // Value files.
    PointerReturned: "a read returns an entry's pointer as its value",
    ValuesUnsynced: "value files are not synced before the log says that their records are durable",
    ValuesLeftBehind: "the log does not wait for the sync of value files alongside its own",
    MovedValuesUnsynced: "values that a merge or a load has moved out of entries are not synced before its edit or commit",
    ValueFileUnheld: "a memtable does not hold the value files of its entries",
    TornValueTaken: "recovery takes a record whose value is not whole",
    HeldValueFreed: "the space of a value that a snapshot needs is given back",
    KeptValueFreed: "the space of a value is given back once only updates of other parts need it",
    SameLengthUnchanged: "a value of the old one's length counts as unchanged",
    NeededValueFreed: "the space of values of tables in level 0 is given back",
    ValueNotRewritten: "recovery trusts a sync with values of an earlier epoch",
    // Tables.
    PaddingCounted: "padding counts as bytes of data blocks",
    PackedSplitForgotten: "a packed block does not say that versions of a key stand in another block",
    PackedSeqIsBase: "a packed block gives all its entries the lowest of their sequence numbers",
    ExtensionUnchecked: "the checksum of a footer's extension is not looked at",
    FailedStretchTaken: "a block is taken from a read of several blocks that failed",
    FailedValueTaken: "a scan gives a row whose value could not be read, with zeros in its place",
    RowsLostByFailure: "a scan gives the rows before one that cannot be read, and goes on after that one",
    ShortReadTaken: "a read that ended within its sectors counts as whole",
    // Recovery.
    ReplaySkipsFirst: "recovery takes the first commit after the flushed ones for a flushed one",
    ReplayLosesRuns: "recovery unlinks the runs that the log names",
    // Flush and merge.
    FlushBeforeCommits: "a flush does not wait for ordered commits of its memtable",
    FlushNotTold: "a rotation tells the flush nothing",
    FlushDropsTombstones: "a flush drops tombstones over runs below",
    MergeDropsTombstones: "a merge drops tombstones over runs below",
    SmallRunForgotten: "a flush removes a small run that it did not merge",
    HeldVersionPruned: "flush and merge drop versions that a snapshot needs",
    HeldTombstonePruned: "flush and merge drop a tombstone above the oldest snapshot",
    SnapshotsUnseenByFlush: "flush and merge see no held snapshot",
    DamagedRunMerged: "a merge goes on without the rest of a run that it cannot read",
    MergeOldestFirst: "a merge takes a key's oldest version for its newest",
    // Reads.
    ReadOldestRun: "a scan takes the older of two runs with one key",
    SealedUnread: "a point read leaves out the newest sealed memtable",
    NewestRunUnread: "a spilled transaction's read leaves out the newest of its runs",
    OwnRowTwice: "a scan gives the committed version after the own one",
    FilterSaysNo: "a filter says no for one key of 64",
    OwnDeletionUnseen: "a read passes over the transaction's own deletion",
    TombstoneShown: "a tombstone is a live row without bytes to all that look at it",
    FlightOfAnother: "a reader waits for the read of another block and takes that block",
    CopyOfAnother: "a stored copy enters the cache under the place of another block",
    FlightEndUntold: "the end of a read wakes nobody of those that wait for it",
    FailedFlightStays: "a read that fails stays the one that others wait for",
    DeadRangeKeepsRow: "a key put into a range of deleted keys does not end it",
    // Expiry.
    LivesThroughSecond: "a row is still there in the second of its expiry",
    ExpiryUnseenByScan: "a scan without locks takes a row with an expiry for one without",
    ExpiryLostByRewrite: "flush and merge keep a row without its expiry",
    ExpiryLostByUpdate: "a second change of a key in a transaction has no expiry",
    ExpiryLostByLoad: "a load by tables forgets expiries",
    ExpiryLostByReplay: "recovery gives the rows of the log no expiry",
    ExpiredVersionDropped: "flush and merge drop an expired version, which then hides no older one",
    ExpiredUnderView: "flush and merge drop rows that an open view still sees",
    ExpiredTooEarly: "flush and merge drop rows that expire in the next second",
    ExpiredTableDropped: "a merge takes a table for empty once its last expiry is over",
    ExpiredRowTakesPlace: "an insertion takes an expired row for a live one",
    ExpiringRowTakesNone: "an insertion takes a row with an expiry for an expired one",
    SecondByStatement: "the view of a transaction's snapshot gets a new second with each statement",
    OldestViewIsNew: "a build of an index reads at the present second, not at that of the oldest view",
    ExpiryClockGoesBack: "the expiry clock goes back with the wall clock",
    ExpiryClockForgotten: "an opening does not go on from the second that the expiry clock had reached",
    ExpiryClockUnsettled: "a close does not record the second that the expiry clock has reached",
    ExpiriesUnrecorded: "the manifest does not say that there are rows with an expiry",
    // Commit and snapshots.
    VisibleBeforeDone: "the visible sequence passes a commit that is not in its memtable",
    AnsweredBeforeVisible: "a commit is answered before it is visible",
    DeletedRowCounted: "a count of a scan's rows counts a deleted one",
    OwnUnseenInBatch: "a read of several keys passes over the transaction's own changes",
    RefusedCommitRead: "a locking read finds the changes of a commit that a failure of the log refused",
    UnlockedBeforeEnd: "a commit's locks go before it is in its memtable",
    FloorAfterScan: "a scanner of snapshots announces its bound after it has read the slots",
    SlotNotAskedAgain: "a taker of a snapshot does not look at the scanner's bound",
    OldestIgnoresSlots: "the oldest snapshot is the newest commit",
    FloorPastLog: "the oldest snapshot passes what the log may still lose",
    ChainCutUnderSnapshot: "a chain is cut after its newest version",
    SnapshotConflictUnseen: "a version newer than the snapshot is no conflict",
    DuplicateUnseen: "an insertion does not look for a live committed row",
    SavepointKeepsChanges: "a rollback to a savepoint undoes nothing",
    StatementKeepsChanges: "a failed statement's changes stay",
    RollbackKeepsRuns: "a rollback undoes nothing in runs",
    // Prepared transactions.
    PreparedUnlocked: "a prepare gives back the locks that must stay to the decision",
    RecoveredUnlocked: "recovery gives prepared transactions no locks",
    // Memory.
    BatchGivenBackTwice: "the end of a transaction gives the memory of its changes back twice",
    PartGivenBackTwice: "the changes of a commit under way leave their count of memory twice",
    RowGivenBackTwice: "the memory for writing a large row is given back twice",
    CacheKeepsLent: "a cache that grew does not give way to others",
    // Locks.
    WriteWithoutLock: "a change takes no lock on its key",
    SecondExclusive: "an exclusive lock is granted next to others",
    WaiterNotWoken: "a granted waiter is not woken",
    DecisionUnseen: "a waiter sleeps without a look at a decision that is there",
    DeadlockUnseen: "no deadlock is looked for",
    DeadlineIgnored: "a wait for a lock has no end",
    MissingKeyNotKept: "a locking read of a missing key keeps nothing",
    RangeNotKept: "a locking scan keeps no range",
    RangeNotAsked: "an exclusive lock is granted under another's range",
    PriorityQueuesLast: "an owner with priority queues as any other",
    PriorityIsVictim: "an owner with priority is a deadlock's victim as any other",
    NewBlockerUnreported: "an owner with priority does not report those that come into its way while it waits",
}

/// The environment variable with the name of the planted fault.
#[cfg(mutants)]
pub const VARIABLE: &str = "TIDESDB_MUTANT";

/// True if this fault is planted in this process.
#[cfg(mutants)]
pub(crate) fn is(mutant: Mutant) -> bool {
    static PLANTED: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
    let planted = PLANTED.get_or_init(|| {
        let name = std::env::var(VARIABLE).ok()?;
        let found = MUTANTS.iter().find(|(mutant, _)| format!("{mutant:?}") == name);
        Some(found.unwrap_or_else(|| panic!("{VARIABLE}={name}: there is no such fault")).0)
    });
    *planted == Some(mutant)
}

/// What goes on after an error where this fault is planted, and with the error elsewhere.
pub(crate) fn pass<E>(mutant: Mutant) -> impl FnOnce(E) -> Result<(), E> {
    move |error| if is(mutant) { Ok(()) } else { Err(error) }
}

/// False: this build has no planted faults.
#[cfg(not(mutants))]
#[inline(always)]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}
