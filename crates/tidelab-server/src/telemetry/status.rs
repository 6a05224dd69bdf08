//! The server's status counters (`SHOW GLOBAL STATUS`) as numbers: some chosen ones, or all.

use std::time::Duration;

use crate::server::session::{Address, Session};

/// An answer later than this belongs to another second.
const ANSWER_LIMIT: Duration = Duration::from_millis(900);

/// The counters of each second in a kept run; a server's missing ones are left out.
pub const CHOSEN: [&str; 26] = [
    "Questions",
    "Com_commit",
    "Handler_read_key",
    "Handler_read_next",
    "Handler_write",
    "Handler_update",
    "Handler_delete",
    "Threads_running",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_pages_flushed",
    "Innodb_data_fsyncs",
    "Innodb_os_log_written",
    "Rocksdb_block_cache_miss",
    "Rocksdb_compact_write_bytes",
    "Tidesdb_cache_hits",
    "Tidesdb_cache_misses",
    "Tidesdb_memtable_bytes",
    "Tidesdb_memory_pressure",
    "Tidesdb_flush_bytes_written",
    "Tidesdb_compaction_bytes_written",
    "Tidesdb_compaction_debt_bytes",
    "Tidesdb_wal_bytes_written",
    "Tidesdb_total_sstables",
    "Tidesdb_total_tombstones",
    "Tidesdb_backpressure_waits",
    "Tidesdb_lock_waits",
];

/// The source of status counters.
pub trait StatusSource: Send {
    /// The counters now, by name; none when the server did not answer in time.
    fn read(&mut self) -> Option<Vec<(String, f64)>>;

    /// True if constant counters are wanted too: they were asked for by name.
    fn keeps_constants(&self) -> bool;
}

/// The status counters of a server, over a connection of their own.
pub struct ServerStatus {
    address: Address,
    statement: String,
    named: bool,
    session: Option<Session>,
}

impl ServerStatus {
    /// All numeric counters. The server sums most of them over its connections when it is asked.
    pub fn all(address: &Address) -> ServerStatus {
        ServerStatus {
            address: address.clone(),
            statement: "SHOW GLOBAL STATUS".to_string(),
            named: false,
            session: None,
        }
    }

    /// These, by their names as `Com_commit`; names of any other form match nothing.
    pub fn of<'a>(address: &Address, names: impl IntoIterator<Item = &'a str>) -> ServerStatus {
        let plain = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let list: Vec<String> = names.into_iter().filter(plain).map(|name| format!("'{name}'")).collect();
        let condition = if list.is_empty() {
            "FALSE".to_string()
        } else {
            format!("Variable_name IN ({})", list.join(", "))
        };
        let statement = format!("SHOW GLOBAL STATUS WHERE {condition}");
        ServerStatus { address: address.clone(), statement, named: true, session: None }
    }
}

impl StatusSource for ServerStatus {
    fn read(&mut self) -> Option<Vec<(String, f64)>> {
        if self.session.is_none() {
            self.session = Session::connect(&self.address, ANSWER_LIMIT).ok();
        }
        match self.session.as_mut()?.rows(&self.statement) {
            Ok(rows) => Some(rows.iter().filter_map(|row| counter(row)).collect()),
            // The connection may be in the middle of an answer: the next second gets a new one.
            Err(_) => {
                self.session = None;
                None
            }
        }
    }

    fn keeps_constants(&self) -> bool {
        self.named
    }
}

/// A row of the answer, if it is a changeable number.
fn counter(row: &[String]) -> Option<(String, f64)> {
    let [name, value] = row else { return None };
    if name.starts_with("Uptime") {
        return None;
    }
    Some((name.clone(), value.parse().ok().filter(|v: &f64| v.is_finite())?))
}

/// True if a counter is an amount and not a count of events. An amount is shown as it is, a count of events
/// as its growth in a second.
pub fn is_level(name: &str) -> bool {
    const BEGINNINGS: [&str; 12] = [
        "threads_",
        "open_",
        "max_",
        "memory_used",
        "key_blocks_",
        "innodb_buffer_pool_bytes_",
        "innodb_buffer_pool_pages_",
        "innodb_history_list_length",
        "innodb_checkpoint_",
        "innodb_mem_",
        "tidesdb_unified_",
        "rocksdb_num_",
    ];
    const ENDS: [&str; 22] = [
        "_pending",
        "_queue",
        "_ratio",
        "_rate",
        "_limit",
        "_pressure",
        "_current_waits",
        "_pending_fsyncs",
        "_pending_reads",
        "_pending_writes",
        "_held",
        "_max",
        "_families",
        "_sstables",
        "_memtables",
        "_memtable_bytes",
        "_memory_bytes",
        "_size_bytes",
        "_debt_bytes",
        "_tombstones",
        "_partitions",
        "_entries",
    ];
    const OTHERS: [&str; 4] =
        ["tidesdb_cache_bytes", "tidesdb_memtable_bytes", "innodb_num_open_files", "queries_running"];
    const COUNTERS: [&str; 3] =
        ["threads_created", "innodb_buffer_pool_pages_flushed", "innodb_buffer_pool_pages_lru_flushed"];
    let name = name.to_ascii_lowercase();
    if COUNTERS.iter().any(|c| name == *c) || name.starts_with("innodb_buffer_pool_pages_made_") {
        return false;
    }
    BEGINNINGS.iter().any(|b| name.starts_with(b))
        || ENDS.iter().any(|e| name.ends_with(e))
        || OTHERS.iter().any(|o| name == *o)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn levels_and_counters_are_told_apart() {
        for level in [
            "Threads_running",
            "Innodb_buffer_pool_pages_dirty",
            "Tidesdb_memory_pressure",
            "Tidesdb_compaction_debt_bytes",
            "Tidesdb_cache_hit_rate",
            "Innodb_row_lock_current_waits",
        ] {
            assert!(is_level(level), "{level}");
        }
        for counter in [
            "Com_commit",
            "Threads_created",
            "Innodb_buffer_pool_pages_flushed",
            "Tidesdb_commits",
            "Tidesdb_wal_bytes_written",
            "Innodb_data_written",
            "Handler_read_key",
        ] {
            assert!(!is_level(counter), "{counter}");
        }
    }

    #[test]
    fn only_numbers_count() {
        let row = |name: &str, value: &str| counter(&[name.to_string(), value.to_string()]);
        assert_eq!(row("Com_commit", "17"), Some(("Com_commit".to_string(), 17.0)));
        assert_eq!(row("Tidesdb_cache_hit_rate", "0.5"), Some(("Tidesdb_cache_hit_rate".to_string(), 0.5)));
        assert_eq!(
            (row("Rpl_status", "AUTH_MASTER"), row("Ssl_cipher", ""), row("Uptime", "5")),
            (None, None, None)
        );
    }

    #[test]
    fn names_cannot_become_sql() {
        let address = Address::root(Path::new("/nowhere"));
        let chosen = ServerStatus::of(&address, ["Com_commit", "x' OR 1=1 -- "]);
        assert_eq!(chosen.statement, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_commit')");
        assert_eq!(ServerStatus::of(&address, []).statement, "SHOW GLOBAL STATUS WHERE FALSE");
    }

    #[test]
    fn a_server_that_is_not_there_has_no_status() {
        assert!(ServerStatus::all(&Address::root(Path::new("/nowhere/s.sock"))).read().is_none());
    }
}
