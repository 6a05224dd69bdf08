//! The point of a backup: a place in the log between two commits, and the files of the backup.
//!
//! The steps in their order, each with its guarantee:
//! 1. No segment of the log is reused from here on.
//! 2. Edits of the manifest are held off, so the version does not change. A running edit is waited for
//!    here, where the wait holds up no commit.
//! 3. Between two commits, and while nothing is decided, a record of the backup's own is queued. The super
//!    version and the runs of prepared transactions are noted.
//!
//! A value is written before its record is queued, and its file is named before: the value files named at the point have all
//! values of the backup. They are held until they are copied.
//!
//! The manifest names only files from before the record. The log from the manifest's first live segment up to
//! the record names only files kept by the super version or by a prepared transaction. A committed and
//! installed run is in the version. A run rolled back before the record is not needed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::Watch;
use crate::error::{Error, Result};
use crate::host::HashMap;
use crate::options::FormatVersion;
use crate::store::super_version::Flushable;
use crate::store::Store;
use crate::sync::stage;
use crate::table::SsTable;
use crate::txn::Transactions;
use crate::types::{FileNo, Lsn, Seq};
use crate::value_holds::ValueFile;
use crate::version::{Edit, LiveFile, TableHandle, Version};
use crate::wal::{segment_path, BatchBuilder, Purpose, Record, RecyclingHold, Ticket, WaitLimit, WalBytes};

/// Longest wait for room in the log for the record of the point.
const SPACE_WAIT: Duration = Duration::from_secs(60);

/// The body of the record of the point: no changes. It keeps the record's place in the log.
struct Mark {
    body: Vec<u8>,
    end: AtomicU64,
}

impl WalBytes for Mark {
    fn bytes(&self) -> &[u8] {
        &self.body
    }

    fn placed(&self, _start: Lsn, end: Lsn) {
        self.end.store(end.0, Ordering::Release);
    }
}

/// A part of the log to copy.
pub(super) struct LogPart {
    /// Number of the physical file.
    pub number: FileNo,
    /// Bytes to copy, from the file's start.
    pub bytes: u64,
}

/// See the module's comment.
pub(super) struct BackupPoint {
    seq: Seq,
    mark: Arc<Mark>,
    ticket: Ticket,
    manifest: FileNo,
    snapshot: Edit,
    /// Keep their files. The super version is not kept: it would keep its memtables, as much memory again
    /// while the copying lasts.
    version: Arc<Version>,
    format: FormatVersion,
    runs: Vec<TableHandle>,
    run_files: Vec<Arc<LiveFile>>,
    values: Vec<Arc<ValueFile>>,
    log: Option<RecyclingHold>,
}

impl BackupPoint {
    pub(super) fn take(transactions: &Transactions, watch: Watch<'_>) -> Result<BackupPoint> {
        let store = &transactions.store;
        store.check_writable()?;
        let log = store.wal.hold_recycling();
        let body = BatchBuilder::new(Vec::new(), 0).finish();
        let wait_limit = WaitLimit { timeout: SPACE_WAIT, interrupted: watch.stop };
        let room = store.wal.reserve(body.len(), Purpose::Ordinary, &wait_limit)?;
        // Nobody decides this transaction: recovery drops its batch, which is empty.
        let txn = store.new_transaction_id();
        let mark = Arc::new(Mark { body, end: AtomicU64::new(0) });
        let record = Record::LargeBatch { txn, batch: mark.clone() };
        let manifest = store.versions.new_file_number();

        stage("stage: backup, log held");
        let no_files_end = store.versions.values().hold_changes();
        let no_edits = store.install_lock.lock();
        let (snapshot, version) = store.versions.capture();
        let values = store.versions.values().hold_all();
        drop(no_files_end);
        stage("stage: backup, version pinned");
        let (seq, ticket, super_version, prepared) = store.pipeline.between_commits(|seq| {
            let queue = || store.wal.enqueue(room, record);
            let (ticket, prepared) = transactions.prepared.at_backup_point(queue);
            (seq, ticket, store.super_version(), prepared)
        });
        drop(no_edits);
        stage("stage: backup, point taken");
        let mut point = BackupPoint {
            seq,
            mark,
            ticket,
            manifest,
            snapshot,
            version,
            format: store.versions.format(),
            runs: Vec::new(),
            run_files: Vec::new(),
            values,
            log: Some(log),
        };
        for flushable in &super_version.sealed {
            if let Flushable::Runs(runs) = flushable {
                point.runs.extend_from_slice(runs.all());
                point.run_files.extend_from_slice(runs.live_files());
            }
        }
        for runs in &prepared {
            point.runs.extend(runs.open_all(&store.versions));
            point.run_files.extend_from_slice(runs.live_files());
        }
        Ok(point)
    }

    /// The newest commit before it.
    pub(super) fn seq(&self) -> Seq {
        self.seq
    }

    /// The state at the point, for a log with the end `log_end`.
    pub(super) fn snapshot(&self, log_end: Lsn) -> Edit {
        let mut snapshot = self.snapshot.clone();
        // The store has prepared segments that the backup does not copy.
        snapshot.log_segments.retain(|segment| segment.id <= log_end.segment());
        snapshot
    }

    /// Version of the store's formats.
    pub(super) fn format(&self) -> FormatVersion {
        self.format
    }

    /// A number free of files in the store.
    pub(super) fn manifest_number(&self) -> FileNo {
        self.manifest
    }

    /// Numbers and lengths of the files of tables, ascending.
    pub(super) fn tables(&self) -> Vec<(FileNo, u64)> {
        let mut files: BTreeMap<FileNo, u64> =
            self.snapshot.new_files.iter().map(|file| (file.number, file.len)).collect();
        files.extend(self.run_files.iter().map(|file| (file.number(), file.len())));
        files.into_iter().collect()
    }

    /// The value files, ascending by number. Each has the values that the tables and the part of the log point to.
    pub(super) fn values(&self) -> Vec<Arc<ValueFile>> {
        self.values.clone()
    }

    /// The tables of the version and of runs.
    pub(super) fn handles(&self) -> Vec<TableHandle> {
        let installed =
            self.version.families().flat_map(|(_, levels)| levels.tables()).map(|(_, table)| table);
        installed.chain(&self.runs).cloned().collect()
    }

    /// The tables in each of the files.
    pub(super) fn tables_by_file(&self) -> HashMap<FileNo, Vec<Arc<SsTable>>> {
        let mut by_file: HashMap<FileNo, Vec<Arc<SsTable>>> = HashMap::default();
        let installed =
            self.version.families().flat_map(|(_, levels)| levels.tables()).map(|(_, table)| table);
        for table in installed.chain(&self.runs) {
            for copy in table.copies() {
                by_file.entry(copy.file_no()).or_default().push(copy.clone());
            }
        }
        by_file
    }

    /// End of the log, just after the mark. Waits until the mark is written.
    pub(super) fn log_end(&self, store: &Store) -> Result<Lsn> {
        store.wal.wait_written_unless_full(self.ticket)?;
        Ok(Lsn(self.mark.end.load(Ordering::Acquire)))
    }

    /// The backup's parts of the log, oldest first.
    pub(super) fn segments(&self, store: &Store) -> Result<Vec<LogPart>> {
        let end = self.log_end(store)?;
        let first = self.snapshot.first_live_segment.unwrap_or(0);
        let mut parts = Vec::new();
        for (id, number) in store.wal.kept_segments() {
            if id < first || id > end.segment() {
                continue;
            }
            let bytes = match id == end.segment() {
                true => end.offset().into(),
                false => {
                    let path = segment_path(&store.dir, number);
                    store.versions.disk().open(&path, crate::io::OpenMode::Read)?.len()?
                }
            };
            parts.push(LogPart { number, bytes });
        }
        if parts.is_empty() {
            return Err(Error::InvalidArgument("the log has no segment".into()));
        }
        Ok(parts)
    }

    /// Lets the log's segments be reused, after the log is copied.
    pub(super) fn release_log(&mut self) {
        self.log = None;
    }
}
