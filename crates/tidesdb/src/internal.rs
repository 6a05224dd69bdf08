//! The engine's own parts, for the C interface, the laboratory, the integration tests and the benchmarks of this
//! project. They may change with every version: an embedding program uses the types at the crate's root.
//!
//! One module for each layer, with only the items used from outside.

#[doc(hidden)]
pub mod api {
    pub use crate::api::{ByteRange, RangeCursor, SnapshotCursor};
}

#[doc(hidden)]
pub mod backup {
    pub use crate::backup::{
        family_records, lock_for_reading, read_log, repair, restore, restore_part, tables_of_file, verify,
        verify_store, Backup, BackupInfo, BackupOptions, LogRead, Part, StoreCheck, Watch, INFO,
    };
}

#[doc(hidden)]
pub mod cache {
    pub use crate::cache::work::{counted, ReadWork};
    pub use crate::cache::{BlockCache, CachePriority};
}

#[doc(hidden)]
pub mod compaction {
    pub mod history {
        pub use crate::compaction::history::{Action, CompactionOutcome, KEPT};
    }
}

#[doc(hidden)]
pub mod db {
    pub use crate::db::Db;
    pub mod ddl {
        pub use crate::db::ddl::Ddl;
    }
    pub mod dictionary {
        pub use crate::db::dictionary::MAX_NAME_LEN;
    }
    pub mod introspection {
        pub use crate::db::introspection::TableInfo;
    }
    pub mod stats {
        pub use crate::db::stats::{FamilyStats, StoreStats};
    }
}

#[doc(hidden)]
pub mod error {
    pub use crate::error::{Error, Result};
}

#[doc(hidden)]
pub mod format {
    pub use crate::format::cluster_position::{ClusterPosition, Gtid};
    pub mod compression {
        pub use crate::format::compression::{compress, decompress};
    }
}

#[doc(hidden)]
pub mod env {
    pub use crate::env::Env;
}

#[doc(hidden)]
pub mod host {
    pub use crate::host::{
        run, splitmix64, Clock, Handle, HashMap, HashSet, Instant, Next, Random, Spawn, Step, SystemClock,
        SystemRandom, SystemThreads, Work,
    };
}

#[doc(hidden)]
pub mod io {
    pub use crate::io::{Advice, DirectoryLock, Disk, FaultyDisk, File, OpenMode, RealDisk};
    pub mod faulty {
        pub use crate::io::faulty::{Crash, Failure, Fault, Op};
    }
}

#[doc(hidden)]
pub mod iter {
    pub use crate::iter::{InternalIterator, KeyRange, VersionIterator};
}

#[doc(hidden)]
pub mod lock {
    pub use crate::lock::{
        Deadlock, DumpedLock, Granted, KeyPrefix, LockManager, LockOwner, Mode, Policy, TableMode,
        VictimReason, WaitObserver, KEY_PREFIX_BYTES,
    };
}

#[doc(hidden)]
pub mod memtable {
    pub use crate::memtable::{ArenaPool, Memtable};
}

#[doc(hidden)]
pub mod options {
    pub use crate::options::budget::{Available, FittedPlan, MemoryPlan, Size};
    pub use crate::options::live::LiveOptions;
    pub use crate::options::machine::{available_memory, memory_limit, ProcessMemory};
}

#[doc(hidden)]
pub mod store {
    pub mod family {
        pub use crate::store::family::{Family, COUNTERS};
    }
}

#[doc(hidden)]
pub mod table {
    pub use crate::table::{
        hash_key, BlockFacts, FoundTables, SsTable, SsTableMeta, SsTableOptions, SsTableWriter, TableFacts,
        TableStore,
    };
}

#[doc(hidden)]
pub mod txn {
    pub mod ingest {
        pub use crate::txn::ingest::{Ingest, IngestOptions};
    }
    pub mod cursor {
        pub use crate::txn::cursor::{Cursor, Scan, Start};
    }
    pub mod transaction_list {
        pub use crate::txn::transaction_list::TransactionState;
    }
    pub mod transaction {
        pub use crate::txn::transaction::{
            Change, ChangeKind, LongValue, OnMissing, PointRead, ReadMode, SavepointId, Transaction,
        };
    }
    pub mod write_batch {
        pub use crate::txn::write_batch::WriteBatch;
    }
}

#[doc(hidden)]
pub mod types {
    pub use crate::types::{
        CountEffect, Entry, FamilyId, FileNo, Kind, LogSegment, Lsn, Op, Pieces, Seq, DICTIONARY, MAX_SEQ,
    };
}

#[doc(hidden)]
pub mod value {
    pub use crate::value::ReadParts;
}

#[doc(hidden)]
pub mod version {
    pub use crate::version::{Edit, NewTable, OpenFor, VersionSet};
    pub mod manifest {
        pub use crate::version::manifest::{dump, manifest_name, read_current, ManifestDump};
    }
}

#[doc(hidden)]
pub mod wal {
    pub use crate::wal::{dump_segment, BatchReader, Ddl, RecordRef, SegmentDump, SegmentFacts};
}
