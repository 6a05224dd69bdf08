//! The conditions of a run that decide its figures and that no axis shows: the way to the files, the moment at which a
//! commit is answered, caches, and what TidesDB does otherwise by option. All as the running servers said.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::Run;

/// Values by engine; an engine has several where competitors differ in them.
type ByEngine = BTreeMap<&'static str, BTreeSet<String>>;
type Variables = BTreeMap<String, String>;

const INNODB: &str = "InnoDB";
const MYROCKS: &str = "MyRocks";
const TIDESDB: &str = "TidesDB";

const CACHED: &str = "through the page cache";
const DIRECT: &str = "with O_DIRECT";

/// The sentences; none where the servers' variables are not known.
pub fn of(run: &Run) -> Vec<String> {
    let servers = servers(run);
    let by_engine = |value: fn(&'static str, &Variables) -> Option<String>| -> ByEngine {
        let mut all = ByEngine::new();
        for (engine, variables) in &servers {
            if let Some(value) = value(engine, variables) {
                all.entry(engine).or_default().insert(value);
            }
        }
        all
    };
    let mut said = Vec::new();
    said.extend(sentence(&by_engine(way), |way| format!("All files {way}."), "Files: "));
    said.extend(sentence(
        &by_engine(commit),
        |when| format!("A commit is answered {when}."),
        "A commit is answered: ",
    ));
    // Where the limit is on all memory, each engine has the cache that is best for it; where it is varied, an axis shows it.
    let limits = run.design.get("memory_limits_mb").and_then(|limits| limits.as_array());
    let caches = by_engine(cache);
    if limits.is_none_or(Vec::is_empty) && caches.values().all(|sizes| sizes.len() == 1) {
        said.extend(sentence(&caches, |size| format!("Caches of {size}."), "Caches: "));
    }
    if let Some(options) = by_engine(options).remove(TIDESDB) {
        said.push(format!("TidesDB: {}.", options.into_iter().collect::<Vec<_>>().join("; or ")));
    }
    said
}

/// The measured engines with the variables of their servers.
fn servers(run: &Run) -> Vec<(&'static str, &Variables)> {
    let mut all = Vec::new();
    let competitors = run.competitor_axis().map_or(&[][..], |axis| &axis.values);
    for (name, facts) in &run.servers {
        let has = |prefix: &str| facts.variables.keys().any(|variable| variable.starts_with(prefix));
        let plugins: Vec<_> = [(MYROCKS, "rocksdb_"), (TIDESDB, "tidesdb_")]
            .into_iter()
            .filter(|(_, prefix)| has(prefix))
            .collect();
        // Every server has InnoDB; it is measured where no other engine is, or where the server is that of all.
        if has("innodb_") && (plugins.is_empty() || !competitors.contains(name)) {
            all.push((INNODB, &facts.variables));
        }
        all.extend(plugins.into_iter().map(|(engine, _)| (engine, &facts.variables)));
    }
    all
}

fn is_on(variables: &Variables, name: &str) -> Option<bool> {
    variables.get(name).map(|value| matches!(value.to_ascii_uppercase().as_str(), "ON" | "1" | "TRUE"))
}

/// The way to the files of tables.
fn way(engine: &str, variables: &Variables) -> Option<String> {
    let direct = match engine {
        INNODB => match is_on(variables, "innodb_data_file_buffering") {
            Some(buffered) => !buffered,
            None => variables.get("innodb_flush_method")?.to_ascii_uppercase().contains("O_DIRECT"),
        },
        MYROCKS => ["rocksdb_use_direct_reads", "rocksdb_use_direct_io_for_flush_and_compaction"]
            .iter()
            .any(|name| is_on(variables, name) == Some(true)),
        _ => match variables.get("tidesdb_direct_reads").map(|way| way.to_ascii_uppercase()).as_deref() {
            Some("ON") => true,
            // The server's memory decides, and no variable tells how.
            Some("AUTO") => return None,
            // Earlier builds have no such variable, and no other way.
            _ => false,
        },
    };
    Some(if direct { DIRECT } else { CACHED }.to_string())
}

/// When a commit is answered.
fn commit(engine: &str, variables: &Variables) -> Option<String> {
    let waits = match engine {
        TIDESDB => variables.get("tidesdb_unified_memtable_sync_mode")?.eq_ignore_ascii_case("FULL"),
        _ => {
            let name = if engine == INNODB { "innodb" } else { "rocksdb" };
            matches!(variables.get(&format!("{name}_flush_log_at_trx_commit"))?.as_str(), "1" | "3")
        }
    };
    Some(if waits { "when it is on the disk" } else { "without a wait for the disk" }.to_string())
}

/// The size of the cache.
fn cache(engine: &str, variables: &Variables) -> Option<String> {
    let name = match engine {
        INNODB => "innodb_buffer_pool_size",
        MYROCKS => "rocksdb_block_cache_size",
        _ => "tidesdb_block_cache_size",
    };
    let bytes: u64 = variables.get(name)?.parse().ok()?;
    Some(format!("{} MB", bytes >> 20))
}

/// How TidesDB works by option.
fn options(engine: &str, variables: &Variables) -> Option<String> {
    if engine != TIDESDB {
        return None;
    }
    let compression = match variables.get("tidesdb_default_compression")?.as_str() {
        "NONE" => "no compression".to_string(),
        kind => format!("compression {kind}"),
    };
    let locking = match is_on(variables, "tidesdb_pessimistic_locking")? {
        true => "row locks",
        false => "optimistic mode",
    };
    Some(format!("{compression}, {locking}"))
}

/// One sentence where all engines are equal, else the engines of each value after `head`.
fn sentence(values: &ByEngine, of_all: impl Fn(&str) -> String, head: &str) -> Option<String> {
    let different: BTreeSet<&String> = values.values().flatten().collect();
    match different.len() {
        0 => None,
        1 => different.first().map(|value| of_all(value)),
        _ => {
            let engines_of = |value: &String| -> String {
                let engines = values.iter().filter(|(_, own)| own.contains(value)).map(|(engine, _)| *engine);
                engines.collect::<Vec<_>>().join(" and ")
            };
            let parts: Vec<String> =
                different.iter().map(|value| format!("{} {value}", engines_of(value))).collect();
            Some(format!("{head}{}.", parts.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidelab_server::server::alignment::{Alignment, Situation, Sync};
    use tidelab_server::server::engine::Engine;
    use tidelab_server::server::release::Release;
    use tidelab_server::server::{cnf, settings};

    use super::super::benchmark::sysbench::tests::server;
    use super::super::groups::tests::run;
    use super::*;
    use crate::experiment::confined;

    fn with(servers: &[(&str, &[(&str, &str)])]) -> Run {
        let mut run = run();
        run.axes[0].values = ["InnoDB", "MyRocks", "TidesDB"].map(String::from).to_vec();
        for (name, variables) in servers {
            let mut facts = server();
            let pairs = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            facts.variables = pairs.collect();
            run.servers.insert(name.to_string(), facts);
        }
        run
    }

    const TIDES: [(&str, &str); 6] = [
        ("innodb_data_file_buffering", "OFF"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("tidesdb_block_cache_size", "67108864"),
        ("tidesdb_default_compression", "NONE"),
        ("tidesdb_pessimistic_locking", "OFF"),
        ("tidesdb_unified_memtable_sync_mode", "NONE"),
    ];

    #[test]
    fn engines_that_differ_are_named() {
        let innodb = [
            ("innodb_data_file_buffering", "OFF"),
            ("innodb_flush_method", "fsync"),
            ("innodb_flush_log_at_trx_commit", "0"),
            ("innodb_buffer_pool_size", "134217728"),
        ];
        let rocks = [
            ("innodb_data_file_buffering", "OFF"),
            ("rocksdb_use_direct_reads", "OFF"),
            ("rocksdb_block_cache_size", "67108864"),
            ("rocksdb_flush_log_at_trx_commit", "0"),
        ];
        let mut run = with(&[("InnoDB", &innodb), ("MyRocks", &rocks), ("TidesDB", &TIDES)]);
        assert_eq!(
            of(&run),
            [
                "Files: MyRocks and TidesDB through the page cache, InnoDB with O_DIRECT.",
                "A commit is answered without a wait for the disk.",
                "Caches: InnoDB 128 MB, MyRocks and TidesDB 64 MB.",
                "TidesDB: no compression, optimistic mode.",
            ]
        );
        run.design = serde_json::json!({ "memory_limits_mb": [512] });
        assert!(!of(&run).iter().any(|said| said.starts_with("Caches")), "each has its best one");
    }

    #[test]
    fn a_server_of_all_engines_has_one_way() {
        let mut all = TIDES.to_vec();
        all[0].1 = "ON";
        all[1].1 = "0";
        all.push(("innodb_flush_method", "O_DIRECT"));
        let said = of(&with(&[("server", &all)]));
        assert_eq!(said[0], "All files through the page cache.", "the later variable counts");
        assert_eq!(said[1], "A commit is answered without a wait for the disk.");
    }

    #[test]
    fn the_shipped_settings_give_all_engines_the_same_way() {
        let releases = ["10.11.18-MariaDB", "11.8.6-MariaDB", "9.7.0"];
        let rules = Alignment::shipped().unwrap();
        for engine in Engine::ALL {
            let mut all = vec![settings::comparison(&[engine], 64, 8)];
            for file in ["tpcc-small-64M.cnf", "tpcc-large-16G.cnf"] {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs").join(file);
                all.push(cnf::read(&path).unwrap().settings(engine, 1.0, 8));
            }
            for release in releases {
                let situation = Situation {
                    release: Release::of_server(release, "MySQL Community Server").unwrap(),
                    engine,
                    memory: 1 << 30,
                    redo: 1 << 30,
                    sync: Sync::Full,
                    binary_log: true,
                    connections: 8,
                    open_tables: 8,
                    cpus: 2,
                };
                all.push(rules.apply(&situation).unwrap().settings);
            }
            let name = if engine == Engine::RocksDb { MYROCKS } else { engine.name() };
            for settings in all {
                let variables = settings.into_iter().map(|one| (one.name.into_owned(), one.value)).collect();
                assert_eq!(way(name, &variables).as_deref(), Some(CACHED), "{name}: {variables:?}");
            }
        }
    }

    #[test]
    fn within_a_limit_each_engine_has_its_default_way() {
        let expected =
            [(Engine::TidesDb, None), (Engine::InnoDb, Some(DIRECT)), (Engine::RocksDb, Some(CACHED))];
        for (engine, expected) in expected {
            let settings = settings::ruled(&[settings::COMPARISON, confined::RULES], &[engine], 64, 8);
            let variables = settings.into_iter().map(|one| (one.name.into_owned(), one.value)).collect();
            let name = if engine == Engine::RocksDb { MYROCKS } else { engine.name() };
            assert_eq!(way(name, &variables).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_server_that_decides_by_its_memory_says_nothing_of_the_way() {
        let of_tides = |direct| way(TIDESDB, &[("tidesdb_direct_reads".to_string(), direct)].into());
        assert_eq!(of_tides("AUTO".to_string()), None);
        assert_eq!(of_tides("ON".to_string()).as_deref(), Some(DIRECT));
        assert_eq!(of_tides("OFF".to_string()).as_deref(), Some(CACHED));
    }

    #[test]
    fn an_older_server_says_it_by_its_method_and_an_unknown_one_nothing() {
        for (method, way) in
            [("O_DIRECT", "All files with O_DIRECT."), ("fsync", "All files through the page cache.")]
        {
            assert_eq!(of(&with(&[("InnoDB", &[("innodb_flush_method", method)])])), [way]);
        }
        assert_eq!(of(&with(&[("InnoDB", &[])])), Vec::<String>::new());
    }
}
