//! The facts of the machine: figures without them mean nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU's name.
    pub cpu: String,
    /// CPUs available to this process.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The file system of the data directory.
    pub file_system: String,
    /// Free bytes there.
    pub free_bytes: u64,
    /// The load average over one minute before the run.
    pub load_before: f64,
}

/// The machine, with the file system of `directory`.
pub fn describe(directory: &Path) -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, label: &str, separator: char| {
        text.lines()
            .find(|line| line.starts_with(label))
            .and_then(|line| line.split_once(separator))
            .map(|(_, value)| value.trim().trim_matches('"').to_string())
            .unwrap_or_else(|| "unknown".to_string())
    };
    let memory = value(&read("/proc/meminfo"), "MemTotal", ':');
    Machine {
        cpu: value(&read("/proc/cpuinfo"), "model name", ':'),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
        system: value(&read("/etc/os-release"), "PRETTY_NAME", '='),
        file_system: file_system(directory),
        free_bytes: free_bytes(directory),
        load_before: load(),
    }
}

/// The load average over one minute.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// Free bytes for us on the file system of a directory or of its nearest parent.
pub fn free_bytes(directory: &Path) -> u64 {
    existing(directory)
        .and_then(|path| nix::sys::statvfs::statvfs(path).ok())
        .map_or(0, |s| s.blocks_available() * s.fragment_size())
}

fn file_system(directory: &Path) -> String {
    existing(directory)
        .and_then(|path| Command::new("stat").args(["--file-system", "--format=%T"]).arg(path).output().ok())
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string())
        .unwrap_or_else(|| "unknown".to_string())
}

/// The directory, or the nearest existing one above it.
fn existing(directory: &Path) -> Option<&Path> {
    let start = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    start.ancestors().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p }).find(|p| p.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cpus_memory_and_space() {
        let machine = describe(Path::new("not/yet/made"));
        assert!(machine.cpus > 0 && machine.memory_bytes > 1 << 24 && machine.free_bytes > 0, "{machine:?}");
        assert_ne!(machine.file_system, "unknown");
    }
}
