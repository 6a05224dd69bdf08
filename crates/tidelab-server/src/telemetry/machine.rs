//! The facts of the machine: figures without them mean nothing.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
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
    /// The file system of the data directory, and the one below it where it lies on a loop device.
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
    let Some(path) = existing(directory) else { return "unknown".to_string() };
    let device = fs::metadata(path).map_or(0, |found| found.dev());
    let own = kind(path);
    match behind_loop(Path::new("/sys/dev/block"), device) {
        Some(file) if file.exists() => format!("{own} on a loop device over {}", kind(&file)),
        Some(_) => format!("{own} on a loop device"),
        None => own,
    }
}

/// The kind of the file system that holds a path.
fn kind(path: &Path) -> String {
    Command::new("stat")
        .args(["--file-system", "--format=%T"])
        .arg(path)
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map_or_else(
            || "unknown".to_string(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_string(),
        )
}

/// The file of a loop device, which may be out of sight here; none for another device.
fn behind_loop(devices: &Path, device: u64) -> Option<PathBuf> {
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let name = fs::read_to_string(devices.join(format!("{major}:{minor}/loop/backing_file"))).ok()?;
    Some(PathBuf::from(name.trim_end_matches('\n')))
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

    #[test]
    fn the_file_of_a_loop_device_is_found_by_its_number() {
        let devices = tempfile::tempdir().unwrap();
        let place = devices.path().join("7:3/loop");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("backing_file"), "/mem/disk\n").unwrap();
        let of = |major, minor| behind_loop(devices.path(), nix::sys::stat::makedev(major, minor));
        assert_eq!(of(7, 3), Some("/mem/disk".into()));
        assert_eq!(of(8, 3), None);
    }
}
