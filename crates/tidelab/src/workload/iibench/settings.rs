//! What the servers of the insert benchmark are asked to use: the alignment of the published run,
//! at a size that is asked for.

use crate::server::engine::Engine;
use crate::server::settings::{comparison, setting, Setting};

/// The settings of a server with these engines: a cache of the same size for each, READ-COMMITTED,
/// no binary log, no doublewrite buffer, LZ4, logs written about once a second instead of at each
/// commit, eight background threads at most.
pub fn of_server(engines: &[Engine], cache_mb: u64, connections: u32) -> Vec<Setting> {
    let mut all = comparison(engines, cache_mb, connections);
    let mut ask = |name: &'static str, value: &str| {
        all.retain(|other| other.name != name);
        all.push(setting(name, value));
    };
    ask("tx_isolation", "READ-COMMITTED");
    ask("innodb_doublewrite", "OFF");
    for engine in engines {
        match engine {
            Engine::InnoDb => {
                ask("innodb_read_io_threads", "4");
                ask("innodb_write_io_threads", "4");
            }
            Engine::RocksDb => {
                ask("rocksdb_max_background_jobs", "8");
                ask(
                    "rocksdb_default_cf_options",
                    "compression=kLZ4Compression;bottommost_compression=kLZ4Compression",
                );
                // In a small cache, cut into shards, the indexes of large files would never stay.
                ask("rocksdb_cache_index_and_filter_blocks", "OFF");
            }
            Engine::TidesDb => {
                ask("tidesdb_flush_threads", "4");
                ask("tidesdb_compaction_threads", "4");
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_asked_for_once() {
        let all = of_server(&Engine::ALL, 64, 40);
        let mut names: Vec<&str> = all.iter().map(|s| s.name.as_ref()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let value = |name: &str| all.iter().find(|s| s.name == name).map(|s| s.value.clone());
        assert_eq!(value("tx_isolation").as_deref(), Some("READ-COMMITTED"));
        let innodb = of_server(&[Engine::InnoDb], 64, 40);
        assert!(innodb.iter().all(|s| !s.name.contains("rocksdb") && !s.name.contains("tidesdb")));
    }
}
