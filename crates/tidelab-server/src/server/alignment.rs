//! The rules for comparable work of different servers: one readable file, applied to one server in one
//! situation. `configs/alignment.toml` is the file and describes its own language.
//!
//! The result is a list of [`Setting`]s for the option file, in the order of the rules, and a line with the
//! reason of each applied rule. The run prints and keeps these lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::engine::Engine;
use super::release::{Family, Release, Version};
use super::setting::{bytes, setting, Setting};
use crate::error::{Error, Result};

/// The laboratory's own rules.
pub const SHIPPED: &str = include_str!("../../configs/alignment.toml");

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// When it is on the disk.
    Full,
    /// Before: the system writes it later.
    Off,
}

/// A server and its task.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    /// The server.
    pub release: Release,
    /// The measured engine.
    pub engine: Engine,
    /// The tier: bytes of cache for the engine.
    pub memory: u64,
    /// Bytes of redo log.
    pub redo: u64,
    /// When a commit is answered.
    pub sync: Sync,
    /// True with a binary log.
    pub binary_log: bool,
    /// Required connections.
    pub connections: u64,
    /// Tables open in them together.
    pub open_tables: u64,
    /// CPUs.
    pub cpus: u64,
}

/// The result of the rules for a situation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aligned {
    /// The settings, in the order of their rules; the server may change some by itself, without a complaint.
    pub settings: Vec<Setting>,
    /// One line for each applied rule: its subject, its effect, its reason.
    pub applied: Vec<String>,
}

/// The rules.
#[derive(Clone, Debug)]
pub struct Alignment {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    written: Written,
    versions: Vec<(Option<Version>, Option<Version>)>,
    engines: Vec<Engine>,
    memory: Option<(Option<u64>, Option<u64>)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Written>,
}

/// A rule as it stands in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    aligns: String,
    why: String,
    #[serde(default)]
    family: OneOrMore<Family>,
    #[serde(default)]
    engine: OneOrMore<String>,
    #[serde(default)]
    versions: Vec<String>,
    memory: Option<String>,
    sync: Option<Sync>,
    binary_log: Option<bool>,
    // In alphabetical order: TOML's tables have no other here, and none is needed.
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    drop: Vec<String>,
    #[serde(default)]
    rename: BTreeMap<String, String>,
    #[serde(default)]
    server_decides: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        OneOrMore::More(Vec::new())
    }
}

impl<T> OneOrMore<T> {
    fn all(&self) -> &[T] {
        match self {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(more) => more,
        }
    }
}

/// A half-open range, `FROM..BEFORE`, either end left out.
fn range<T>(
    text: &str,
    end: impl Fn(&str) -> Option<T>,
) -> std::result::Result<(Option<T>, Option<T>), String> {
    let bad = || format!("'{text}' is no range: FROM..BEFORE, FROM.. or ..BEFORE");
    // Versions have dots of their own: the separator is the first pair of them.
    let (from, before) = text.split_once("..").ok_or_else(bad)?;
    let one = |text: &str| match text {
        "" => Ok(None),
        text => end(text).map(Some).ok_or_else(bad),
    };
    Ok((one(from)?, one(before)?))
}

fn within<T: PartialOrd + Copy>((from, before): (Option<T>, Option<T>), value: T) -> bool {
    from.is_none_or(|from| value >= from) && before.is_none_or(|before| value < before)
}

impl Alignment {
    /// The laboratory's own rules. Errors: none but a mistake in their file.
    pub fn shipped() -> Result<Alignment> {
        Alignment::parse(SHIPPED).map_err(|what| Error::Usage(format!("alignment.toml: {what}")))
    }

    /// Reads rules. Errors: the first part not understood.
    pub fn parse(text: &str) -> std::result::Result<Alignment, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        let rules = file.rule.into_iter().map(Rule::new).collect::<std::result::Result<_, _>>()?;
        Ok(Alignment { rules })
    }

    /// Applies the rules. Errors: a value unknown here.
    pub fn apply(&self, situation: &Situation) -> Result<Aligned> {
        let mut aligned = Aligned::default();
        for rule in self.rules.iter().filter(|rule| rule.applies(situation)) {
            rule.apply(situation, &mut aligned).map_err(|what| {
                Error::Usage(format!("the rule for {} ({}): {what}", rule.written.aligns, rule.written.why))
            })?;
        }
        Ok(aligned)
    }
}

impl Rule {
    fn new(written: Written) -> std::result::Result<Rule, String> {
        let named = |what: String| format!("the rule for {} ({}): {what}", written.aligns, written.why);
        let versions = written
            .versions
            .iter()
            .map(|text| range(text, |v| v.parse().ok()))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(named)?;
        let engines = written
            .engine
            .all()
            .iter()
            .map(|name| name.parse().map_err(|e: Error| e.to_string()))
            .collect::<std::result::Result<Vec<Engine>, _>>()
            .map_err(named)?;
        let memory = written.memory.as_deref().map(|text| range(text, bytes)).transpose().map_err(named)?;
        let does = written.set.len() + written.drop.len() + written.rename.len();
        if written.why.is_empty() || does == 0 {
            return Err(named("it does nothing, or does not say why".to_string()));
        }
        Ok(Rule { written, versions, engines, memory })
    }

    fn applies(&self, to: &Situation) -> bool {
        let Rule { written, versions, engines, memory } = self;
        let families = written.family.all();
        (families.is_empty() || families.contains(&to.release.family))
            && (versions.is_empty() || versions.iter().any(|range| within(*range, to.release.version)))
            && (engines.is_empty() || engines.contains(&to.engine))
            && memory.is_none_or(|range| within(range, to.memory))
            && written.sync.is_none_or(|sync| sync == to.sync)
            && written.binary_log.is_none_or(|log| log == to.binary_log)
    }

    fn apply(&self, situation: &Situation, aligned: &mut Aligned) -> std::result::Result<(), String> {
        let mut did = String::new();
        for (name, value) in &self.written.set {
            let value = filled(value, situation)?;
            let _ = write!(did, " {name}={value}");
            match aligned.settings.iter_mut().find(|s| s.name == *name) {
                Some(there) => there.value = value,
                None => aligned.settings.push(setting(name.clone(), value)),
            }
        }
        for name in &self.written.drop {
            let before = aligned.settings.len();
            aligned.settings.retain(|s| s.name != *name);
            if aligned.settings.len() < before {
                let _ = write!(did, " no {name}");
            }
        }
        for (from, to) in &self.written.rename {
            if let Some(there) = aligned.settings.iter_mut().find(|s| s.name == *from) {
                there.name = to.clone().into();
                let _ = write!(did, " {from} is {to}");
            }
        }
        for setting in &mut aligned.settings {
            if self.written.server_decides.iter().any(|name| *name == setting.name) {
                setting.exact = false;
            }
        }
        // One that found nothing to leave out or rename is of no interest.
        if !did.is_empty() {
            aligned.applied.push(format!("{}:{did} ({})", self.written.aligns, self.written.why));
        }
        Ok(())
    }
}

/// A value with its expressions in braces computed.
fn filled(value: &str, situation: &Situation) -> std::result::Result<String, String> {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('{') {
        let (inner, after) =
            after.split_once('}').ok_or_else(|| format!("'{value}': a brace is not closed"))?;
        text.push_str(before);
        text.push_str(&computed(inner, situation)?.to_string());
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

fn computed(inner: &str, situation: &Situation) -> std::result::Result<u64, String> {
    let at = inner.find(['*', '/', '+']).unwrap_or(inner.len());
    let (name, operation) = inner.split_at(at);
    let base = match name.trim() {
        "memory" => situation.memory,
        "redo" => situation.redo,
        "connections" => situation.connections,
        "open_tables" => situation.open_tables,
        "cpus" => situation.cpus,
        other => return Err(format!("{{{other}}} is not known")),
    };
    if operation.is_empty() {
        return Ok(base);
    }
    let (sign, operand) = operation.split_at(1);
    let bad = || format!("{{{inner}}} cannot be computed");
    let operand = bytes(operand.trim()).ok_or_else(bad)?;
    match sign {
        "*" => base.checked_mul(operand),
        "/" => base.checked_div(operand),
        _ => base.checked_add(operand),
    }
    .ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(family: Family, version: &str) -> Release {
        Release { family, version: version.parse().unwrap() }
    }

    fn situation(family: Family, version: &str, engine: Engine) -> Situation {
        Situation {
            release: release(family, version),
            engine,
            memory: 2 << 30,
            redo: 4 << 30,
            sync: Sync::Full,
            binary_log: true,
            connections: 532,
            open_tables: 2448,
            cpus: 2,
        }
    }

    fn shipped(situation: &Situation) -> Aligned {
        Alignment::shipped().unwrap().apply(situation).unwrap()
    }

    fn value<'a>(aligned: &'a Aligned, name: &str) -> Option<&'a str> {
        aligned.settings.iter().find(|s| s.name == name).map(|s| s.value.as_str())
    }

    #[test]
    fn the_redo_log_is_as_large_in_every_version() {
        type Case = (Family, &'static str, &'static [(&'static str, Option<&'static str>)]);
        let cases: [Case; 8] = [
            (
                Family::MariaDB,
                "10.4.34",
                &[("innodb_log_file_size", Some("2147483648")), ("innodb_log_files_in_group", Some("2"))],
            ),
            (
                Family::MariaDB,
                "10.5.0",
                &[("innodb_log_file_size", Some("4294967296")), ("innodb_log_files_in_group", None)],
            ),
            (Family::MariaDB, "12.1.2", &[("innodb_log_file_size", Some("4294967296"))]),
            (
                Family::MySQL,
                "8.0.29",
                &[("innodb_log_file_size", Some("2147483648")), ("innodb_redo_log_capacity", None)],
            ),
            (
                Family::MySQL,
                "8.0.30",
                &[
                    ("innodb_log_file_size", None),
                    ("innodb_log_files_in_group", None),
                    ("innodb_redo_log_capacity", Some("4294967296")),
                ],
            ),
            (Family::MySQL, "9.7.4", &[("innodb_redo_log_capacity", Some("4294967296"))]),
            (Family::Percona, "5.7.44", &[("innodb_log_files_in_group", Some("2"))]),
            (Family::Percona, "8.4.7", &[("innodb_redo_log_capacity", Some("4294967296"))]),
        ];
        for (family, version, expected) in cases {
            let aligned = shipped(&situation(family, version, Engine::InnoDb));
            for (name, wanted) in expected {
                assert_eq!(value(&aligned, name), *wanted, "{family} {version} {name}");
            }
        }
    }

    #[test]
    fn what_a_version_does_not_know_is_left_out_by_a_rule() {
        for (family, version, name, known) in [
            (Family::MariaDB, "10.4.34", "innodb_buffer_pool_instances", true),
            (Family::MariaDB, "10.5.23", "innodb_buffer_pool_instances", false),
            (Family::MySQL, "9.7.4", "innodb_buffer_pool_instances", true),
            (Family::MariaDB, "10.11.18", "innodb_change_buffering", true),
            (Family::MariaDB, "11.8.6", "innodb_change_buffering", false),
            (Family::MariaDB, "11.8.6", "query_cache_size", true),
            (Family::MySQL, "5.7.44", "query_cache_type", true),
            (Family::MySQL, "8.0.45", "query_cache_type", false),
            (Family::MySQL, "9.7.4", "query_cache_size", false),
            (Family::MariaDB, "10.5.23", "tx_isolation", true),
            (Family::MySQL, "9.7.4", "tx_isolation", false),
            (Family::MySQL, "9.7.4", "transaction_isolation", true),
            (Family::MySQL, "5.7.44", "transaction_isolation", false),
            (Family::MariaDB, "10.5.23", "innodb_snapshot_isolation", false),
            (Family::MariaDB, "10.11.7", "innodb_snapshot_isolation", false),
            (Family::MariaDB, "10.11.8", "innodb_snapshot_isolation", true),
            (Family::MariaDB, "11.4.1", "innodb_snapshot_isolation", false),
            (Family::MariaDB, "11.8.9", "innodb_snapshot_isolation", true),
            (Family::MySQL, "9.7.4", "innodb_snapshot_isolation", false),
        ] {
            let aligned = shipped(&situation(family, version, Engine::InnoDb));
            assert_eq!(value(&aligned, name).is_some(), known, "{family} {version} {name}");
        }
    }

    #[test]
    fn each_engine_gets_the_tier_s_memory_as_its_cache() {
        let of = |engine| shipped(&situation(Family::MariaDB, "11.8.6", engine));
        let innodb = of(Engine::InnoDb);
        assert_eq!(value(&innodb, "innodb_buffer_pool_size"), Some("2147483648"));
        let rocksdb = of(Engine::RocksDb);
        assert_eq!(value(&rocksdb, "rocksdb_block_cache_size"), Some("2147483648"));
        assert_eq!(value(&rocksdb, "innodb_buffer_pool_size"), Some("64M"), "idle");
        let tidesdb = of(Engine::TidesDb);
        assert_eq!(value(&tidesdb, "tidesdb_block_cache_size"), Some("2147483648"));
        assert_eq!(
            value(&tidesdb, "tidesdb_max_memory_usage"),
            Some(((2u64 << 30) + (256 << 20)).to_string().as_str())
        );
        for (aligned, other) in [(&innodb, "rocksdb_"), (&innodb, "tidesdb_"), (&rocksdb, "tidesdb_")] {
            assert!(!aligned.settings.iter().any(|s| s.name.starts_with(other)), "{other}");
        }
    }

    #[test]
    fn instances_follow_the_tier() {
        for (memory, wanted) in [(2u64 << 30, "1"), ((8 << 30) - 1, "1"), (8 << 30, "8"), (32 << 30, "8")] {
            let mut situation = situation(Family::MySQL, "8.4.8", Engine::InnoDb);
            situation.memory = memory;
            assert_eq!(value(&shipped(&situation), "innodb_buffer_pool_instances"), Some(wanted), "{memory}");
        }
    }

    #[test]
    fn commits_and_binary_log_are_what_was_asked() {
        for (sync, log, engine, expected) in [
            (
                Sync::Full,
                true,
                Engine::TidesDb,
                [("tidesdb_default_sync_mode", Some("FULL")), ("sync_binlog", Some("1"))],
            ),
            (
                Sync::Off,
                true,
                Engine::TidesDb,
                [("tidesdb_unified_memtable_sync_mode", Some("NONE")), ("sync_binlog", Some("0"))],
            ),
            (
                Sync::Full,
                false,
                Engine::RocksDb,
                [("rocksdb_flush_log_at_trx_commit", Some("1")), ("sync_binlog", None)],
            ),
            (
                Sync::Off,
                false,
                Engine::InnoDb,
                [("innodb_flush_log_at_trx_commit", Some("0")), ("log_bin", Some("OFF"))],
            ),
        ] {
            let mut situation = situation(Family::MariaDB, "11.8.6", engine);
            (situation.sync, situation.binary_log) = (sync, log);
            let aligned = shipped(&situation);
            for (name, wanted) in expected {
                assert_eq!(value(&aligned, name), wanted, "{sync:?} {log} {engine} {name}");
            }
        }
    }

    #[test]
    fn each_rule_that_did_something_is_told_with_its_reason() {
        let aligned = shipped(&situation(Family::MySQL, "9.7.4", Engine::InnoDb));
        let told = |text: &str| aligned.applied.iter().any(|line| line.contains(text));
        assert!(told("log: innodb_log_file_size is innodb_redo_log_capacity (MySQL's name"));
        assert!(told("limits: no query_cache_type no query_cache_size"));
        assert!(!told("10.6.18") && !told("MyRocks"), "{:?}", aligned.applied);
        let free: Vec<&str> = aligned.settings.iter().filter(|s| !s.exact).map(|s| s.name.as_ref()).collect();
        assert_eq!(free, ["table_open_cache_instances"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (rule, said) in [
            ("set = { a = \"1\" }\nversion = [\"1..\"]", "version"),
            ("set = { a = \"1\" }\nversions = [\"10.5\"]", "no range"),
            ("set = { a = \"1\" }\nengine = \"Aria\"", "no engine"),
            ("set = { a = \"1\" }\nfamily = \"Oracle\"", "family"),
            ("sync = \"full\"", "does nothing"),
        ] {
            let text = format!("[[rule]]\naligns = \"x\"\nwhy = \"y\"\n{rule}\n");
            let error = Alignment::parse(&text).unwrap_err();
            assert!(error.contains(said), "{rule}: {error}");
        }
        let alignment =
            Alignment::parse("[[rule]]\naligns = \"x\"\nwhy = \"y\"\nset = { a = \"{rows}\" }\n").unwrap();
        let error = alignment.apply(&situation(Family::MySQL, "8.4", Engine::InnoDb)).unwrap_err();
        assert!(error.to_string().contains("{rows} is not known"), "{error}");
    }

    #[test]
    fn values_are_computed() {
        let situation = situation(Family::MariaDB, "10.5", Engine::InnoDb);
        for (value, wanted) in [
            ("64M", "64M"),
            ("{cpus}", "2"),
            ("{cpus*3}", "6"),
            ("{memory/4}", "536870912"),
            ("{memory+64M}", "2214592512"),
            ("a={connections};b={cpus}", "a=532;b=2"),
        ] {
            assert_eq!(filled(value, &situation).unwrap(), wanted);
        }
        for bad in ["{cpus", "{cpus*x}", "{memory/0}"] {
            assert!(filled(bad, &situation).is_err(), "{bad}");
        }
    }
}
