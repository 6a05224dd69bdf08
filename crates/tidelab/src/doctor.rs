//! The machine's missing prerequisites for a run, and the cost of its drivers ([`driver`], [`ceiling`]).

pub mod ceiling;
pub mod driver;

use std::path::Path;

use serde::Serialize;

use tidelab_server::server::program;
use tidelab_server::telemetry::machine;
use tidelab_server::workload::sysbench;

/// Disk space of a run of the usual size.
const SPACE_BYTES: u64 = 2 << 30;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name and its state.
    pub text: String,
    /// A run cannot do without it.
    pub lacking: bool,
}

/// True if the ceilings can be measured: sysbench and the server are there. Nothing else is needed.
pub fn can_measure(prefix: &Path) -> bool {
    sysbench::version().is_ok() && ["mariadbd", "mariadb"].iter().all(|name| program(prefix, name).is_ok())
}

/// Looks at programs, plugins, space and load.
pub fn examine(prefix: Option<&Path>, plugin: &Path, data: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |lacking: bool, text: String| findings.push(Finding { text, lacking });
    match sysbench::version() {
        Ok(version) => note(false, version),
        Err(error) => note(true, error.to_string()),
    }
    match prefix {
        None => note(true, "no MariaDB was named: --prefix \"$(make -s prefix)\"".to_string()),
        Some(prefix) => {
            for name in ["mariadbd", "mariadb"] {
                match program(prefix, name) {
                    Ok(path) => note(false, path.display().to_string()),
                    Err(error) => note(true, error.to_string()),
                }
            }
            let rocksdb = prefix.join("lib/mysql/plugin/ha_rocksdb.so");
            if rocksdb.is_file() {
                note(false, rocksdb.display().to_string());
            } else {
                note(true, format!("{} is missing: make setup brings it", rocksdb.display()));
            }
        }
    }
    if plugin.is_file() {
        note(false, plugin.display().to_string());
    } else {
        note(true, format!("{} is missing: make plugin builds it", plugin.display()));
    }
    let free = machine::free_bytes(data);
    note(
        free < SPACE_BYTES,
        format!("{:.1} GB free at {}", free as f64 / f64::from(1 << 30), data.display()),
    );
    let machine = machine::describe(data);
    note(false, format!("{}, {} CPUs, file system {}", machine.cpu, machine.cpus, machine.file_system));
    let busy = machine.load_before > 0.5;
    note(
        false,
        format!(
            "load average {:.1}{}",
            machine.load_before,
            if busy { ": other work runs here and will show in the figures" } else { "" }
        ),
    );
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let findings =
            examine(Some(Path::new("/nowhere")), Path::new("/nowhere/ha_tidesdb.so"), Path::new("."));
        let lacking: Vec<&str> = findings.iter().filter(|f| f.lacking).map(|f| f.text.as_str()).collect();
        assert!(lacking.iter().any(|t| t.contains("mariadbd") && t.contains("make setup")), "{lacking:?}");
        assert!(
            lacking.iter().any(|t| t.contains("ha_tidesdb.so") && t.contains("make plugin")),
            "{lacking:?}"
        );
    }
}
