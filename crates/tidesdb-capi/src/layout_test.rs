//! The structs of the header and those of this crate are the same bytes, and its constants the same numbers: a C
//! program prints sizes, offsets and values, and they are compared with Rust's.

use std::mem::{offset_of, size_of};
use std::process::Command;

use crate::{
    error, CompactionInfoC, CursorHandle, DeadlockC, DeadlockWaitC, FamilyInfoC, FamilyOptionsC,
    FamilyStatsC, KeyPartC, LiveOptionsC, LockInfoC, MemoryPlanC, OpC, OptionsC, PositionC, ReadWorkC, RowC,
    SeekC, Slice, StatsC, TableInfoC, TxnInfoC, ValueFileInfoC, WaitObserverC, WatchC,
};

/// Checks one struct: C's name, Rust's, the fields with one name in both, then the renamed ones.
macro_rules! check {
    ($program:ident, $expected:ident, $c:literal, $rust:ty, [$($field:ident),* $(,)?] $(, $cname:literal = $rname:ident)*) => {
        $(
            $program.push(format!("offsetof({}, {})", $c, stringify!($field)));
            $expected.push(offset_of!($rust, $field));
        )*
        $(
            $program.push(format!("offsetof({}, {})", $c, $cname));
            $expected.push(offset_of!($rust, $rname));
        )*
    };
}

#[test]
#[expect(clippy::too_many_lines, reason = "one line for each field of the header")]
fn structs_agree_with_the_header() {
    let (mut c, mut rust) = (Vec::new(), Vec::new());
    check!(c, rust, "tidesdb_slice", Slice, [data, size]);
    check!(c, rust, "tidesdb_watch", WatchC, [context, stop, progress]);
    check!(
        c,
        rust,
        "tidesdb_wait_observer",
        WaitObserverC,
        [context, wait_begins, wait_ends, gaps_conflict, deadlock, wait_goes_on]
    );
    check!(c, rust, "tidesdb_deadlock_wait", DeadlockWaitC, [cookie, written, waited_us, wants, in_the_way]);
    check!(c, rust, "tidesdb_deadlock", DeadlockC, [waits, wait_count, victim, reason]);
    check!(
        c,
        rust,
        "tidesdb_memory_plan",
        MemoryPlanC,
        [
            max_memory,
            block_cache_size,
            write_buffer_size,
            available,
            max_memory_is_set,
            block_cache_is_set,
            write_buffer_is_set,
            cache_grows,
        ]
    );
    check!(
        c,
        rust,
        "tidesdb_options",
        OptionsC,
        [
            struct_size,
            owner,
            remembered,
            write_buffer_size,
            block_cache_size,
            max_memory,
            sync_interval_us,
            max_open_files,
            compaction_threads,
            sync_mode,
            direct_reads,
            create_if_missing,
            read_only,
            finish_compactions_on_close,
            flush_on_close,
            cache_grows,
            new_format,
            least_format,
            log_level,
            log,
            log_context,
            write_buffer_variable,
            observer,
            family_label,
        ]
    );
    check!(
        c,
        rust,
        "tidesdb_position",
        PositionC,
        [uuid, number, has_gtid, gtid_domain, gtid_server, gtid_number]
    );
    check!(
        c,
        rust,
        "tidesdb_live_options",
        LiveOptionsC,
        [
            write_buffer_size,
            block_cache_size,
            max_memory,
            sync_interval_us,
            max_open_files,
            compaction_threads,
            log_level,
            sync_mode,
            finish_compactions_on_close,
            flush_on_close,
            cache_grows,
        ]
    );
    check!(
        c,
        rust,
        "tidesdb_family_options",
        FamilyOptionsC,
        [
            struct_size,
            compression,
            sync_mode,
            bloom_filter,
            use_btree,
            bloom_fpr,
            block_size,
            prefix_len,
            l0_compaction_trigger,
            l0_stall_threshold,
            level_size_ratio,
            min_levels,
            tombstone_density_trigger,
            value_threshold,
            block_codec,
            tombstone_density_min_entries,
            sync_interval_us,
        ]
    );
    check!(c, rust, "tidesdb_op", OpC, [family, key, value, kind, flags, first_size, expiry]);
    check!(c, rust, "tidesdb_row", RowC, [key, value, key_size, value_size, expiry, place_size]);
    check!(
        c,
        rust,
        "tidesdb_cursor",
        CursorHandle,
        [rows, count, position, changes, changes_seen, direction, expiry, place_size]
    );
    check!(c, rust, "tidesdb_read_work", ReadWorkC, [blocks, blocks_read, read_time, passed, units]);
    check!(
        c,
        rust,
        "tidesdb_seek",
        SeekC,
        [key, key_size, prefix_size, bound, bound_size, mode, batch_hint],
        "where" = start
    );
    check!(
        c,
        rust,
        "tidesdb_family_stats",
        FamilyStatsC,
        [
            struct_size,
            entries,
            tombstones,
            data_bytes,
            value_bytes,
            memtable_bytes,
            mean_row_bytes,
            runs,
            levels,
            counted
        ]
    );
    check!(
        c,
        rust,
        "tidesdb_stats",
        StatsC,
        [
            struct_size,
            column_families,
            global_sequence,
            memtable_bytes,
            txn_memory_bytes,
            memory_limit,
            total_sstables,
            open_sstables,
            data_size_bytes,
            immutable_memtables,
            flush_pending,
            flush_queue,
            compaction_queue,
            cache_entries,
            cache_bytes,
            cache_hits,
            cache_misses,
            cache_compressed_hits,
            cache_partitions,
            table_reads,
            table_read_bytes,
            value_files,
            value_bytes,
            value_bytes_written,
            value_bytes_freed,
            total_tombstones,
            total_entries,
            backpressure_waits,
            backpressure_wait_us,
            lock_waits,
            lock_wait_us,
            lock_deadlocks,
            lock_timeouts,
            lock_held,
            lock_entries,
            lock_chain_max,
            wal_generation,
            wal_bytes_written,
            flush_bytes_written,
            compaction_bytes_written,
            compaction_bytes_read,
            user_bytes_written,
            flush_count,
            compaction_count,
            compaction_debt_bytes,
            is_flushing,
            wal_syncs,
            wal_groups,
            commits,
            spilled_runs,
            lock_waiting,
            lock_escalations,
            lock_entry_recycles,
            conflicts,
            snapshots,
            max_tombstones_per_million,
            max_tombstones_level,
            expiry_clock_lag_seconds,
            wal_full,
            memory_total,
            memory_block_cache,
            memory_memtables,
            memory_spare_memtables,
            memory_transactions,
            memory_locks,
            memory_read_ahead,
            memory_table_writers,
            memory_sorts,
            memory_rest,
            memory_shortage,
            cache_capacity,
            memory_background_waits,
            memory_writer_waits,
            get_samples,
            get_sample_us,
            commit_samples,
            commit_sample_us,
            wal_sync_us,
            flush_us,
            compaction_us,
            flush_failures,
            compaction_failures,
            damage_met,
            set_aside_families,
            missing_files,
            read_only,
            oldest_snapshot_seconds,
            free_space_bytes,
            disk_full,
            disk_full_count,
        ]
    );
    check!(c, rust, "tidesdb_key_part", KeyPartC, [bytes, size]);
    check!(
        c,
        rust,
        "tidesdb_family_info",
        FamilyInfoC,
        [name, options, stats, created_seq, old_form_bytes, id]
    );
    check!(
        c,
        rust,
        "tidesdb_table_info",
        TableInfoC,
        [
            name, min_key, max_key, file, file_bytes, offset, bytes, entries, tombstones, keys, raw_bytes,
            min_seq, max_seq, family, level,
        ]
    );
    check!(
        c,
        rust,
        "tidesdb_value_file_info",
        ValueFileInfoC,
        [file, bytes, values, value_bytes, sstables, other_holds, takes_values]
    );
    check!(
        c,
        rust,
        "tidesdb_lock_info",
        LockInfoC,
        [
            name,
            mode,
            key,
            range_end,
            txn,
            session,
            blocking_txn,
            blocking_session,
            family,
            kind,
            waiting,
            intent,
        ]
    );
    check!(
        c,
        rust,
        "tidesdb_txn_info",
        TxnInfoC,
        [
            xid,
            id,
            session,
            begun_us,
            waits_since_us,
            blocking_txn,
            blocking_session,
            snapshot,
            changes,
            batch_bytes,
            locks,
            tables,
            state,
            isolation,
            optimistic,
        ]
    );
    check!(
        c,
        rust,
        "tidesdb_compaction_info",
        CompactionInfoC,
        [
            name,
            reason,
            id,
            tables_in,
            tables_out,
            bytes_in,
            bytes_out,
            raw_bytes,
            entries_in,
            entries_out,
            begun_us,
            ended_us,
            family,
            action,
            outcome,
            from,
            to,
        ]
    );
    let sizes = [
        ("tidesdb_key_part", size_of::<KeyPartC>()),
        ("tidesdb_family_info", size_of::<FamilyInfoC>()),
        ("tidesdb_table_info", size_of::<TableInfoC>()),
        ("tidesdb_value_file_info", size_of::<ValueFileInfoC>()),
        ("tidesdb_lock_info", size_of::<LockInfoC>()),
        ("tidesdb_txn_info", size_of::<TxnInfoC>()),
        ("tidesdb_compaction_info", size_of::<CompactionInfoC>()),
        ("tidesdb_slice", size_of::<Slice>()),
        ("tidesdb_wait_observer", size_of::<WaitObserverC>()),
        ("tidesdb_deadlock_wait", size_of::<DeadlockWaitC>()),
        ("tidesdb_read_work", size_of::<ReadWorkC>()),
        ("tidesdb_deadlock", size_of::<DeadlockC>()),
        ("tidesdb_options", size_of::<OptionsC>()),
        ("tidesdb_memory_plan", size_of::<MemoryPlanC>()),
        ("tidesdb_live_options", size_of::<LiveOptionsC>()),
        ("tidesdb_family_options", size_of::<FamilyOptionsC>()),
        ("tidesdb_op", size_of::<OpC>()),
        ("tidesdb_position", size_of::<PositionC>()),
        ("tidesdb_row", size_of::<RowC>()),
        ("tidesdb_seek", size_of::<SeekC>()),
        ("tidesdb_family_stats", size_of::<FamilyStatsC>()),
        ("tidesdb_stats", size_of::<StatsC>()),
        ("tidesdb_watch", size_of::<WatchC>()),
    ];
    for (name, size) in sizes {
        c.push(format!("sizeof({name})"));
        rust.push(size);
    }

    let numbers = [
        ("TIDESDB_MAX_KEY_SIZE", tidesdb::MAX_KEY_LEN),
        ("TIDESDB_MAX_FAMILY_NAME", tidesdb::internal::db::dictionary::MAX_NAME_LEN),
        ("TIDESDB_MAX_XID_SIZE", crate::txn::MAX_XID),
        ("TIDESDB_MARK_SIZE", crate::store::MARK_SIZE),
        ("TIDESDB_COUNTERS", tidesdb::internal::store::family::COUNTERS as usize),
        ("TIDESDB_KEY_PART_SIZE", tidesdb::internal::lock::KEY_PREFIX_BYTES),
        ("TIDESDB_COMPACTIONS_KEPT", tidesdb::internal::compaction::history::KEPT),
        ("TIDESDB_NO_TIMEOUT", usize::MAX),
        ("TIDESDB_UNKNOWN", usize::MAX),
    ];
    for (name, number) in numbers {
        c.push(name.to_string());
        rust.push(number);
    }
    let statuses = [
        ("OK", error::OK),
        ("NOT_FOUND", error::NOT_FOUND),
        ("SKIPPED", error::SKIPPED),
        ("PEEKED", error::PEEKED),
        ("UNCHANGED", error::UNCHANGED),
        ("DUPLICATE", error::DUPLICATE),
        ("CONFLICT", error::CONFLICT),
        ("DEADLOCK", error::DEADLOCK),
        ("LOCK_TIMEOUT", error::LOCK_TIMEOUT),
        ("INTERRUPTED", error::INTERRUPTED),
        ("TOO_LARGE", error::TOO_LARGE),
        ("SNAPSHOT_TOO_OLD", error::SNAPSHOT_TOO_OLD),
        ("BACKPRESSURE", error::BACKPRESSURE),
        ("TOO_MANY_LOCKS", error::TOO_MANY_LOCKS),
        ("NO_SUCH_FAMILY", error::NO_SUCH_FAMILY),
        ("FAMILY_EXISTS", error::FAMILY_EXISTS),
        ("INVALID", error::INVALID),
        ("IO", error::IO),
        ("CORRUPTION", error::CORRUPTION),
        ("READ_ONLY", error::READ_ONLY),
        ("BUSY", error::BUSY),
        ("DISK_FULL", error::DISK_FULL),
        ("OUTCOME_UNKNOWN", error::OUTCOME_UNKNOWN),
        ("PANIC", error::PANIC),
    ];
    for (name, status) in statuses {
        c.push(format!("TIDESDB_{name}"));
        rust.push(status as usize);
    }

    let mut program = String::from("#include \"tidesdb.h\"\n#include <stdio.h>\nint main(void) {\n");
    for what in &c {
        program.push_str(&format!("  printf(\"%zu\\n\", (size_t){what});\n"));
    }
    program.push_str("  return 0;\n}\n");
    let dir = tempfile::tempdir().expect("directory");
    let (source, binary) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&source, program).expect("writes");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let compiled =
        Command::new("cc").args(["-std=c11", "-I", include, "-o"]).arg(&binary).arg(&source).status();
    assert!(compiled.expect("cc starts").success());
    let output = Command::new(&binary).output().expect("runs").stdout;
    let numbers: Vec<usize> =
        String::from_utf8_lossy(&output).lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(numbers.len(), c.len());
    for ((what, c), rust) in c.iter().zip(numbers).zip(rust) {
        assert_eq!(c, rust, "{what} in C and in Rust");
    }
}
