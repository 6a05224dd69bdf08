//! Any MariaDB option file as settings for a server of the laboratory.
//!
//! Paths and plugins are left out, and so are the variables of absent engines. Sizes of memory can be scaled
//! to another machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::engine::Engine;
use super::settings::{bytes, setting, Setting};
use crate::error::{io_error, Error, Result};

/// Groups of an option file read by a server.
const GROUPS: [&str; 5] = ["mysqld", "mariadbd", "server", "mariadb", "mariadb-11.8"];

/// Options for places and plugins: the laboratory's business.
const PLACES: [&str; 19] = [
    "basedir",
    "datadir",
    "socket",
    "port",
    "bind_address",
    "skip_networking",
    "user",
    "pid_file",
    "log_error",
    "tmpdir",
    "plugin_dir",
    "plugin_load",
    "plugin_load_add",
    "plugin_maturity",
    "slow_query_log_file",
    "general_log_file",
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "tidesdb_data_home_dir",
];

/// Sizes of memory, and variables growing with them.
const SCALED: [&str; 6] = [
    "innodb_buffer_pool_size",
    "innodb_log_buffer_size",
    "innodb_log_file_size",
    "tidesdb_block_cache_size",
    "tidesdb_unified_memtable_write_buffer_size",
    "tidesdb_default_write_buffer_size",
];

/// Of these, the caches of tables.
const CACHES: [&str; 2] = ["innodb_buffer_pool_size", "tidesdb_block_cache_size"];

/// The largest share of the machine's memory for a cache.
const CACHE_SHARE: f64 = 0.4;
/// No size is scaled below this.
const LEAST_BYTES: u64 = 8 << 20;
/// The pool of InnoDB where another engine is measured: the server has it in any case.
const IDLE_POOL: u64 = 64 << 20;
/// All of TidesDB's memory as a multiple of cache and write buffer: the cache, the active memtable, three
/// memtables being flushed, and the buffers of reads and merges.
const MEMTABLES: u64 = 4;

/// The options of a file for a server, in the order of their last occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name, with underscores, and value.
    pub values: Vec<(String, String)>,
}

/// Reads an option file.
pub fn read(path: &Path) -> Result<Options> {
    let text = fs::read_to_string(path).map_err(io_error("cannot read", path))?;
    parse(&text).map_err(|what| Error::Usage(format!("{}: {what}", path.display())))
}

/// Reads the text of an option file.
fn parse(text: &str) -> std::result::Result<Options, String> {
    let mut values: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut ours = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('!') {
            return Err(format!("line {}: {line}: includes are not followed", number + 1));
        }
        if let Some(group) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            ours = GROUPS.contains(&group);
            continue;
        }
        if !ours {
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name, unquoted(value.split(" #").next().unwrap_or_default().trim())),
            None => (line, "ON"),
        };
        let name = name.trim().to_ascii_lowercase().replace('-', "_");
        let (name, value) = match name.strip_prefix("skip_") {
            Some("log_bin") => ("log_bin", "OFF"),
            _ => (name.strip_prefix("loose_").unwrap_or(&name), value),
        };
        values.insert(name.to_string(), (number, value.to_string()));
    }
    let mut values: Vec<_> =
        values.into_iter().map(|(name, (number, value))| (number, name, value)).collect();
    values.sort();
    Ok(Options { values: values.into_iter().map(|(_, name, value)| (name, value)).collect() })
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

impl Options {
    /// The factor to bring the largest cache down to a machine with so much memory; 1 if the memory is
    /// enough.
    pub fn scale_for(&self, memory_bytes: u64) -> f64 {
        let largest = CACHES.iter().filter_map(|name| self.bytes(name)).max().unwrap_or(0);
        let bound = memory_bytes as f64 * CACHE_SHARE;
        if largest as f64 <= bound {
            return 1.0;
        }
        bound / largest as f64
    }

    fn bytes(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(n, _)| n == name).and_then(|(_, value)| bytes(value))
    }

    /// The settings of a server for measuring one engine, with memory scaled.
    ///
    /// Where the file says nothing of MyRocks, MyRocks gets TidesDB's values: cache, threads, no wait for
    /// the disk. Its indexes of files lie in addition to the cache. Its write buffer stays at its
    /// default, 64 MB.
    pub fn settings(&self, engine: Engine, scale: f64, connections: u32) -> Vec<Setting> {
        let scaled = |n: u64| {
            if scale >= 1.0 {
                return n;
            }
            // Whole megabytes: the server rounds sizes down to its pages.
            (((n as f64 * scale) as u64) >> 20 << 20).max(LEAST_BYTES.min(n))
        };
        let mut all: Vec<Setting> = Vec::new();
        for (name, value) in &self.values {
            let of_other = |prefix: &str, its: Engine| name.starts_with(prefix) && engine != its;
            if PLACES.contains(&name.as_str())
                || of_other("tidesdb_", Engine::TidesDb)
                || of_other("rocksdb_", Engine::RocksDb)
            {
                continue;
            }
            let value = match bytes(value).filter(|_| SCALED.contains(&name.as_str())) {
                Some(size) if name == "innodb_buffer_pool_size" && engine != Engine::InnoDb => {
                    scaled(size).min(IDLE_POOL).to_string()
                }
                Some(size) => scaled(size).to_string(),
                None => value.clone(),
            };
            all.push(setting(name.clone(), value));
        }
        let cache = self.bytes("tidesdb_block_cache_size").map(scaled);
        let buffer = self.bytes("tidesdb_unified_memtable_write_buffer_size").map(scaled);
        let threads = |kind: &str| {
            let name = format!("tidesdb_{kind}_threads");
            self.values.iter().find(|(n, _)| *n == name).and_then(|(_, v)| v.parse::<u32>().ok()).unwrap_or(0)
        };
        let mut derived = vec![setting("max_connections", connections.max(151).to_string())];
        match engine {
            Engine::InnoDb => {}
            Engine::TidesDb => {
                if let (Some(cache), Some(buffer)) = (cache, buffer) {
                    derived
                        .push(setting("tidesdb_max_memory_usage", (cache + MEMTABLES * buffer).to_string()));
                }
            }
            Engine::RocksDb => {
                derived.push(setting("rocksdb_flush_log_at_trx_commit", "0"));
                // A cache of 64 MB has 64 shards. A loaded file has an index block larger than one of
                // them, so each read would bring in the whole index again.
                derived.push(setting("rocksdb_cache_index_and_filter_blocks", "OFF"));
                if let Some(cache) = cache {
                    derived.push(setting("rocksdb_block_cache_size", cache.to_string()));
                }
                let jobs = threads("flush") + threads("compaction");
                if jobs > 0 {
                    derived.push(setting("rocksdb_max_background_jobs", jobs.to_string()));
                }
            }
        }
        for setting in derived {
            if !all.iter().any(|s| s.name == setting.name) {
                all.push(setting);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[client]\nport = 3306\n[mysqld]\ndatadir = /data/mariadb\nplugin_load_add = ha_tidesdb.so\n\
        sort_buffer_size = 4M\ninnodb_buffer_pool_size = 16G\n#innodb_x = 1\nskip-log-bin\n\
        innodb_log_buffer_size = 512M\ntidesdb_block_cache_size = \"16G\"\n\
        tidesdb_unified_memtable_write_buffer_size=512M\ntidesdb_flush_threads = 8\ntidesdb_compaction_threads = 8\n\
        sort_buffer_size=32K\ncharacter-set-server = utf8mb4\n[mysqldump]\nquick\n";

    fn value(settings: &[Setting], name: &str) -> Option<String> {
        settings.iter().find(|s| s.name == name).map(|s| s.value.clone())
    }

    #[test]
    fn the_last_value_counts_and_places_are_ours() {
        let settings = parse(TEXT).unwrap().settings(Engine::InnoDb, 1.0, 20);
        assert_eq!(value(&settings, "sort_buffer_size").as_deref(), Some("32K"));
        assert_eq!(value(&settings, "log_bin").as_deref(), Some("OFF"));
        assert_eq!(value(&settings, "character_set_server").as_deref(), Some("utf8mb4"));
        assert_eq!(value(&settings, "innodb_buffer_pool_size").as_deref(), Some("17179869184"));
        for gone in ["datadir", "plugin_load_add", "quick", "port", "tidesdb_block_cache_size"] {
            assert_eq!(value(&settings, gone), None, "{gone}");
        }
    }

    #[test]
    fn memory_is_scaled_by_one_factor() {
        let options = parse(TEXT).unwrap();
        let scale = options.scale_for(20 << 30);
        assert!((scale - 0.5).abs() < 1e-9, "8 of 20 GB");
        assert_eq!(options.scale_for(128 << 30), 1.0);
        let settings = options.settings(Engine::TidesDb, scale, 20);
        assert_eq!(value(&settings, "tidesdb_block_cache_size").as_deref(), Some("8589934592"));
        assert_eq!(value(&settings, "innodb_log_buffer_size").as_deref(), Some("268435456"));
        assert_eq!(value(&settings, "innodb_buffer_pool_size").as_deref(), Some("67108864"), "idle");
        assert_eq!(
            value(&settings, "tidesdb_max_memory_usage"),
            Some(((8u64 << 30) + 4 * (256 << 20)).to_string())
        );
        assert_eq!(value(&settings, "sort_buffer_size").as_deref(), Some("32K"));
    }

    #[test]
    fn myrocks_gets_what_tidesdb_has() {
        let settings = parse(TEXT).unwrap().settings(Engine::RocksDb, 0.5, 300);
        assert_eq!(value(&settings, "rocksdb_block_cache_size").as_deref(), Some("8589934592"));
        assert_eq!(value(&settings, "rocksdb_max_background_jobs").as_deref(), Some("16"));
        assert_eq!(value(&settings, "max_connections").as_deref(), Some("300"));
        assert_eq!(value(&settings, "tidesdb_flush_threads"), None);
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        assert!(parse("[mysqld]\n!include /etc/other.cnf\n").unwrap_err().contains("line 2"));
        assert!(read(Path::new("/nowhere/x.cnf")).is_err());
    }
}
