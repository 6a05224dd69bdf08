//! The settings of the insert benchmark's servers: the alignment of the published run, at a given size.

use crate::server::engine::Engine;
use crate::server::settings::{ruled, Setting, COMPARISON};

/// The rules on top of [`COMPARISON`]: runs keep and show this file.
pub const RULES: &str = include_str!("../../../configs/iibench.toml");

/// The settings of a server with these engines: a cache of the same size for each, READ-COMMITTED, no
/// binary log, no doublewrite buffer, LZ4, eight background threads at most. Logs are written about once
/// a second instead of at each commit. [`RULES`] has the reasons.
pub fn of_server(engines: &[Engine], cache_mb: u64, connections: u32) -> Vec<Setting> {
    ruled(&[COMPARISON, RULES], engines, cache_mb, connections)
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
        assert_eq!(value("rocksdb_max_background_jobs").as_deref(), Some("8"));
        assert_eq!(value("tidesdb_compaction_threads").as_deref(), Some("4"));
        let innodb = of_server(&[Engine::InnoDb], 64, 40);
        assert!(innodb.iter().all(|s| !s.name.contains("rocksdb") && !s.name.contains("tidesdb")));
    }
}
