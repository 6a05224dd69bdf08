//! The settings of a server, as an option file, and their check against the running server.
//!
//! The settings are those of the comparison with synchronous commits off: every engine's defaults, a cache of
//! the same size for each, and no wait for the disk at commit. Every one is read back from the running
//! server. A different one ends the run, because its figures would be those of another experiment.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::alignment::{Alignment, Situation, Sync};
use super::engine::Engine;
use super::release::{Family, Release, Version};
pub use super::setting::{bytes, hint, setting, Setting};

/// The binary log's files in the data directory begin with this.
pub const BINARY_LOG: &str = "binlog";

/// The rules of the comparison with synchronous commits off: runs keep and show this file.
pub const COMPARISON: &str = include_str!("../../configs/comparison.toml");

/// The settings of [`COMPARISON`] for these engines, with caches of `cache_mb` megabytes each, for
/// `connections` clients.
pub fn comparison(engines: &[Engine], cache_mb: u64, connections: u32) -> Vec<Setting> {
    ruled(&[COMPARISON], engines, cache_mb, connections)
}

/// The settings of compiled-in rule files for one server with these engines, later files last. Without an
/// engine, only the rules without an engine apply.
pub fn ruled(files: &[&str], engines: &[Engine], cache_mb: u64, connections: u32) -> Vec<Setting> {
    const GOOD: &str = "the files are compiled in, and tests apply them for every engine";
    let mut all: Vec<Setting> = Vec::new();
    for file in files {
        let rules = Alignment::parse(file).expect(GOOD);
        // Every server has InnoDB, so rules for all engines hold for InnoDB too.
        let innodb = [Engine::InnoDb];
        for engine in if engines.is_empty() { &innodb } else { engines } {
            let situation = Situation {
                release: Release { family: Family::MariaDB, version: Version(11, 8, 6) },
                engine: *engine,
                memory: cache_mb << 20,
                redo: 0,
                sync: Sync::Off,
                binary_log: false,
                connections: u64::from(connections.max(151)),
                open_tables: 0,
                cpus: 1,
            };
            for said in rules.apply(&situation).expect(GOOD).settings {
                match all.iter_mut().find(|s| s.name == said.name) {
                    Some(there) => *there = said,
                    None => all.push(said),
                }
            }
        }
    }
    all
}

/// The settings of the checks: small memtables, for flushes and compactions all the time. Every commit is
/// durable. The binary log is on or off.
pub fn checks(binary_log: bool) -> Vec<Setting> {
    let mut all = vec![
        setting("performance_schema", "OFF"),
        setting("log_bin", if binary_log { "ON" } else { "OFF" }),
        setting("query_cache_type", "OFF"),
        setting("tx_isolation", "REPEATABLE-READ"),
        setting("max_connections", "300"),
        setting("innodb_buffer_pool_size", "16M"),
        setting("tidesdb_block_cache_size", "8M"),
        setting("tidesdb_unified_memtable_write_buffer_size", "1M"),
        setting("tidesdb_unified_memtable_sync_mode", "FULL"),
        setting("tidesdb_default_sync_mode", "FULL"),
    ];
    if binary_log {
        all.extend([setting("sync_binlog", "1"), setting("binlog_format", "ROW")]);
    }
    all
}

/// For checks against lost updates at REPEATABLE READ: the default of 11.8, and not of 10.11.
pub fn snapshot_isolation() -> [Setting; 2] {
    ["tidesdb_snapshot_conflicts", "innodb_snapshot_isolation"].map(|name| setting(name, "ON"))
}

/// The directories of a server.
#[derive(Clone, Debug)]
pub struct Places<'a> {
    /// The server's family.
    pub family: Family,
    /// The directory of the installation.
    pub prefix: &'a Path,
    /// The folder with the plugins, or links to them.
    pub plugins: &'a Path,
    /// The data directory.
    pub data: &'a Path,
    /// TidesDB's directory.
    pub tidesdb: &'a Path,
    /// Files of running statements.
    pub tmp: &'a Path,
    /// The socket; there is a TCP port only where the settings name one.
    pub socket: &'a Path,
    /// The error log.
    pub log: &'a Path,
    /// The pid file.
    pub pid_file: &'a Path,
    /// The server refuses to run as root unless it is named.
    pub as_root: bool,
}

/// The option file for a server with these places, engines and settings.
pub fn option_file(places: &Places<'_>, engines: &[Engine], settings: &[Setting]) -> String {
    let group = if places.family == Family::MariaDB { "mariadbd" } else { "mysqld" };
    let mut text = format!("# Written by tidelab at each start. Changes here do not last.\n[{group}]\n");
    let mut line = |name: &str, value: &str| {
        // The server treats backslashes in an option file as C does.
        let value = value.replace('\\', "\\\\");
        writeln!(text, "{name} = \"{value}\"").expect("writing to a String does not fail");
    };
    line("basedir", &places.prefix.to_string_lossy());
    line("plugin-dir", &places.plugins.to_string_lossy());
    line("datadir", &places.data.to_string_lossy());
    line("tmpdir", &places.tmp.to_string_lossy());
    line("socket", &places.socket.to_string_lossy());
    line("log-error", &places.log.to_string_lossy());
    line("pid-file", &places.pid_file.to_string_lossy());
    if !settings.iter().any(|s| s.name == "port") {
        line("skip-networking", "ON");
    }
    if places.as_root {
        line("user", "root");
    }
    if places.family == Family::MariaDB {
        line("plugin-maturity", "experimental");
    } else {
        // Its second protocol would take a port and a socket that others share.
        line("mysqlx", "OFF");
        // The default is a directory that a package makes for the system's own server.
        line("secure-file-priv", "");
    }
    for engine in engines {
        if let Some(plugin) = engine.plugin() {
            line("plugin-load-add", plugin);
        }
        if *engine == Engine::TidesDb {
            line("tidesdb-data-home-dir", &places.tidesdb.to_string_lossy());
        }
    }
    for setting in settings {
        match setting.name.as_ref() {
            // The variable shows whether there is a log; the option of that name asks for one.
            "log_bin" if canonical(&setting.value) == "0" => line("skip-log-bin", "ON"),
            "log_bin" => line("log-bin", BINARY_LOG),
            "tx_isolation" => line("transaction-isolation", &setting.value),
            name => line(name, &setting.value),
        }
    }
    text
}

/// Variables set by the server itself in spite of the option file. It has at most one instance of the table
/// cache for each CPU, and its undo tablespaces are those of the data directory's creation.
const SERVER_DECIDES: [&str; 2] = ["table_open_cache_instances", "innodb_undo_tablespaces"];

/// The settings not in use, by the server's global variables: a line each, empty when all agree.
pub fn differences(settings: &[Setting], variables: &BTreeMap<String, String>) -> Vec<String> {
    settings
        .iter()
        .filter(|asked| asked.exact && !SERVER_DECIDES.contains(&asked.name.as_ref()))
        .filter_map(|asked| match variables.get(asked.name.as_ref()) {
            None => {
                Some(format!("{} = {} was asked, the server has no such variable", asked.name, asked.value))
            }
            Some(found) if canonical(found) == canonical(&asked.value) => None,
            Some(found) => Some(format!("{} = {} was asked, it is {found}", asked.name, asked.value)),
        })
        .collect()
}

/// A value in its canonical form, one for all spellings: bytes for sizes with a suffix, 0 and 1 for switches,
/// upper case for names.
fn canonical(value: &str) -> String {
    let value = value.trim().to_ascii_uppercase();
    match value.as_str() {
        "ON" | "TRUE" | "YES" => return "1".to_string(),
        "OFF" | "FALSE" | "NO" => return "0".to_string(),
        _ => {}
    }
    match (bytes(&value), value.parse::<f64>()) {
        (Some(bytes), _) => bytes.to_string(),
        (None, Ok(number)) => number.to_string(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }

    #[test]
    fn sizes_and_switches_are_equal_in_any_spelling() {
        let asked = [
            setting("a", "64M"),
            setting("b", "OFF"),
            setting("c", "none"),
            setting("d", "1"),
            setting("e", "0.1"),
        ];
        let found =
            variables(&[("a", "67108864"), ("b", "0"), ("c", "NONE"), ("d", "1.000000"), ("e", "0.100000")]);
        assert_eq!(differences(&asked, &found), Vec::<String>::new());
    }

    #[test]
    fn what_differs_or_is_missing_is_named() {
        let asked = [setting("a", "64M"), setting("b", "0"), setting("c", "LZ4")];
        let found = variables(&[("a", "8388608"), ("c", "LZ4_FAST")]);
        assert_eq!(
            differences(&asked, &found),
            [
                "a = 64M was asked, it is 8388608",
                "b = 0 was asked, the server has no such variable",
                "c = LZ4 was asked, it is LZ4_FAST",
            ]
        );
    }

    #[test]
    fn a_word_that_ends_like_a_size_is_a_word() {
        assert_eq!(canonical("warm"), "WARM");
        assert_eq!(canonical("99999999999999999999G"), "99999999999999999999G");
    }

    fn file(engines: &[Engine]) -> String {
        file_of(Family::MariaDB, engines, &comparison(engines, 64, 16))
    }

    fn file_of(family: Family, engines: &[Engine], settings: &[Setting]) -> String {
        let places = Places {
            family,
            prefix: Path::new("/p"),
            plugins: Path::new("/d/plugins"),
            data: Path::new("/d/data"),
            tidesdb: Path::new("/d/tidesdb_data"),
            tmp: Path::new("/d/tmp"),
            socket: Path::new("/d/s"),
            log: Path::new("/d/e\\rr"),
            pid_file: Path::new("/d/pid"),
            as_root: true,
        };
        option_file(&places, engines, settings)
    }

    #[test]
    fn another_family_has_options_of_its_own() {
        let settings = [setting("log_bin", "ON"), setting("transaction_isolation", "REPEATABLE-READ")];
        let text = file_of(Family::MySQL, &[Engine::InnoDb], &settings);
        for line in [
            "[mysqld]",
            "mysqlx = \"OFF\"",
            "secure-file-priv = \"\"",
            "skip-networking = \"ON\"",
            "log-bin = \"binlog\"",
            "transaction_isolation = \"REPEATABLE-READ\"",
        ] {
            assert!(text.lines().any(|l| l == line), "no line {line} in\n{text}");
        }
        assert!(!text.contains("maturity"), "{text}");
    }

    #[test]
    fn a_port_opens_the_network() {
        let text = file_of(Family::MariaDB, &[Engine::InnoDb], &[setting("port", "7000")]);
        assert!(text.contains("port = \"7000\"") && !text.contains("skip-networking"), "{text}");
    }

    #[test]
    fn what_the_server_may_change_is_not_held_against_it() {
        let mut free = setting("a", "64");
        free.exact = false;
        let found = variables(&[("a", "4"), ("b", "4")]);
        assert_eq!(differences(&[free, setting("b", "64")], &found), ["b = 64 was asked, it is 4"]);
    }

    #[test]
    fn the_option_file_has_every_setting_of_the_engines_that_run() {
        let text = file(&Engine::ALL);
        for line in [
            "datadir = \"/d/data\"",
            "log-error = \"/d/e\\\\rr\"",
            "user = \"root\"",
            "skip-networking = \"ON\"",
            "skip-log-bin = \"ON\"",
            "plugin-load-add = \"ha_tidesdb.so\"",
            "plugin-load-add = \"ha_rocksdb.so\"",
            "tidesdb-data-home-dir = \"/d/tidesdb_data\"",
            "innodb_buffer_pool_size = \"67108864\"",
            "innodb_flush_log_at_trx_commit = \"0\"",
            "rocksdb_block_cache_size = \"67108864\"",
            "rocksdb_flush_log_at_trx_commit = \"0\"",
            "tidesdb_block_cache_size = \"67108864\"",
            "tidesdb_unified_memtable_write_buffer_size = \"67108864\"",
            "tidesdb_max_memory_usage = \"335544320\"",
            "tidesdb_unified_memtable_sync_mode = \"NONE\"",
            "tidesdb_default_sync_mode = \"NONE\"",
            "tidesdb_default_compression = \"LZ4\"",
        ] {
            assert!(text.lines().any(|l| l == line), "no line {line} in\n{text}");
        }
    }

    #[test]
    fn an_engine_that_does_not_run_leaves_no_trace() {
        let text = file(&[Engine::InnoDb]);
        assert!(
            !text.contains("tidesdb-") && !text.contains("tidesdb_block") && !text.contains("rocksdb"),
            "{text}"
        );
    }

    #[test]
    fn many_clients_get_their_connections() {
        let of = |clients| {
            comparison(&[], 64, clients).into_iter().find(|s| s.name == "max_connections").map(|s| s.value)
        };
        assert_eq!(of(8).as_deref(), Some("151"));
        assert_eq!(of(530).as_deref(), Some("530"));
    }
}
