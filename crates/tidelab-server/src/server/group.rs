//! A memory group: a cgroup, v1 or v2, with a limit on all memory of a server, its page cache included.
//!
//! A server joins before its first page ([`joined`]), so nothing of it is charged elsewhere. The group has no
//! swap. It goes when it is dropped; one left by a killed run is used again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use nix::unistd::geteuid;

/// The v1 limit of a group without one; the kernel rounds it to its own.
const V1_NO_LIMIT: &str = "-1";

/// A memory group.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    is_v1: bool,
}

impl MemoryGroup {
    /// Makes a group without a limit below the root of the hierarchy. The error is why there is none here.
    pub fn open(name: &str) -> Result<MemoryGroup, String> {
        if !geteuid().is_root() {
            return Err("only root can make a memory group".to_string());
        }
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if let Some(root) = v1_root(&table, "memory") {
            let folder = root.join(name);
            fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            return Ok(MemoryGroup { folder, is_v1: true });
        }
        let root = v2_root(&table).ok_or("no cgroup hierarchy is mounted")?;
        let known = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if !known.split_whitespace().any(|controller| controller == "memory") {
            return Err(format!("{} has no memory controller", root.display()));
        }
        let control = root.join("cgroup.subtree_control");
        fs::write(&control, "+memory").map_err(|e| format!("{} <- +memory: {e}", control.display()))?;
        let folder = root.join(name);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(MemoryGroup { folder, is_v1: false })
    }

    /// Limits the empty group, and forgets its peak; none: no limit.
    pub fn limit(&self, bytes: Option<u64>) -> Result<(), String> {
        let put = |file: &str, value: &str| {
            let path = self.folder.join(file);
            fs::write(&path, value).map_err(|e| format!("{} <- {value}: {e}", path.display()))
        };
        let value = |none: &str| bytes.map_or(none.to_string(), |bytes| bytes.to_string());
        if self.is_v1 {
            // Not below the other's value: first both without limit. Kernels without swap have no second one.
            let swap = self.folder.join("memory.memsw.limit_in_bytes").exists();
            if swap {
                put("memory.memsw.limit_in_bytes", V1_NO_LIMIT)?;
            }
            // What an earlier server of the group left in the page cache.
            let _ = put("memory.force_empty", "0");
            put("memory.limit_in_bytes", &value(V1_NO_LIMIT))?;
            if swap {
                put("memory.memsw.limit_in_bytes", &value(V1_NO_LIMIT))?;
            }
            return put("memory.max_usage_in_bytes", "0");
        }
        put("memory.max", &value("max"))?;
        // A kernel without swap has no such file.
        let _ = put("memory.swap.max", "0");
        Ok(())
    }

    /// The file for the number of a joining process.
    pub fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Its folder in v2, where it can have limits of other kinds too.
    pub fn unified(&self) -> Option<&Path> {
        (!self.is_v1).then_some(&self.folder)
    }

    /// Processes of the group killed by the kernel for want of memory, so far.
    pub fn kills(&self) -> u64 {
        let file = if self.is_v1 { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        oom_kills(&text)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that just ended may hold it for a moment; one that stays is used by the next run.
        for _ in 0..20 {
            match fs::remove_dir(&self.folder) {
                Ok(()) => return,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
                Err(_) => sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// The count in a v1 `memory.oom_control` or a v2 `memory.events`.
fn oom_kills(text: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))
        .and_then(|n| n.trim().parse().ok())
        .unwrap_or(0)
}

/// A command joining groups, by their `cgroup.procs`, before its first page.
pub fn joined(groups: &[PathBuf], program: &Path) -> Command {
    if groups.is_empty() {
        return Command::new(program);
    }
    let script =
        "n=$1; shift; while [ \"$n\" -gt 0 ]; do echo $$ >\"$1\" || exit 126; shift; n=$((n-1)); done; \
                  exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", &groups.len().to_string()]).args(groups).arg(program);
    command
}

/// The root of the v1 hierarchy with a controller, by a `/proc/self/mountinfo`.
pub fn v1_root(table: &str, controller: &str) -> Option<PathBuf> {
    root(table, |kind, options| kind == "cgroup" && options.split(',').any(|option| option == controller))
}

fn v2_root(table: &str) -> Option<PathBuf> {
    root(table, |kind, _| kind == "cgroup2")
}

fn root(table: &str, is_it: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    table.lines().find_map(|line| {
        let (mount, rest) = line.split_once(" - ")?;
        let mut rest = rest.split(' ');
        let (kind, options) = (rest.next()?, rest.nth(1)?);
        is_it(kind, options).then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                         36 25 0:32 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                         39 25 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn hierarchies_are_found_by_version_and_controller() {
        assert_eq!(v1_root(TABLE, "blkio"), Some(PathBuf::from("/sys/fs/cgroup/blkio")));
        assert_eq!(v1_root(TABLE, "io"), None);
        assert_eq!(v2_root(TABLE), Some(PathBuf::from("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn kills_are_counted_in_both_versions() {
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(oom_kills("low 0\noom 4\noom_kill 2\noom_group_kill 0\n"), 2);
        assert_eq!(oom_kills(""), 0);
    }

    #[test]
    fn a_program_is_killed_at_its_group_s_limit_and_lives_below_it() {
        let group = match MemoryGroup::open(&format!("tidelab-test-memory-{}", std::process::id())) {
            Ok(group) => group,
            Err(why) => return eprintln!("not here: {why}"),
        };
        group.limit(Some(64 << 20)).unwrap();
        let run = |block: &str| {
            let words = ["if=/dev/zero", "of=/dev/null", "count=1", block];
            let mut command = joined(&[group.procs()], Path::new("dd"));
            command.args(words).stderr(std::process::Stdio::null()).status().unwrap()
        };
        assert!(run("bs=16M").success());
        assert_eq!(group.kills(), 0);
        assert!(!run("bs=256M").success());
        assert_eq!(group.kills(), 1);
        let folder = group.folder.clone();
        drop(group);
        assert!(!folder.exists());
    }
}
