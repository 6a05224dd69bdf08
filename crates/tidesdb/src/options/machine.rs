//! The memory available to this process: the machine's, or less in a container with a control group (cgroup
//! v1 or v2); and the memory that it has. It reads the kernel's files past the `Disk`: they are no part of a store.

#![allow(clippy::disallowed_methods)] // An exception of docs/architecture.md.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of memory available to this process: the least of the machine's memory and the limits of the control
/// groups above the process. `None` if `/proc` does not have it.
pub fn available_memory() -> Option<u64> {
    let root = Path::new("/");
    [machine_memory(root), group_limit(root)].into_iter().flatten().min()
}

/// The limit of the control groups above this process. `None` if they leave it all memory of the machine.
pub fn memory_limit() -> Option<u64> {
    limit_in(Path::new("/"))
}

fn limit_in(root: &Path) -> Option<u64> {
    group_limit(root).filter(|&limit| machine_memory(root).is_none_or(|memory| limit < memory))
}

/// The memory of a whole process, the store's parts among it.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    /// The most that it may have now, in bytes. `None`: there is no limit.
    pub limit: fn() -> Option<u64>,
    /// Bytes that it has now, without the pages of its program and other files: the kernel takes those back itself.
    pub held: fn() -> u64,
}

impl ProcessMemory {
    /// This process, and the limit of its control groups.
    pub fn of_this_one() -> ProcessMemory {
        ProcessMemory { limit: memory_limit, held: || held_in(Path::new("/")).unwrap_or(0) }
    }
}

fn held_in(root: &Path) -> Option<u64> {
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    // Linux tells the parts from 4.5 on.
    match (kilobytes(&status, "RssAnon:"), kilobytes(&status, "RssShmem:")) {
        (Some(anonymous), Some(shared)) => Some(anonymous + shared),
        _ => kilobytes(&status, "VmRSS:"),
    }
}

fn machine_memory(root: &Path) -> Option<u64> {
    kilobytes(&fs::read_to_string(root.join("proc/meminfo")).ok()?, "MemTotal:")
}

/// Bytes of the line with this name.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The least memory limit of the process's control groups and those above them.
fn group_limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    mounts.lines().filter_map(|line| Mount::parse(line)?.limit(root, &groups)).min()
}

/// A mounted hierarchy with the memory controller.
struct Mount<'a> {
    /// The mounted part of the hierarchy.
    top: &'a str,
    point: PathBuf,
    is_v2: bool,
}

impl<'a> Mount<'a> {
    /// A line of `mountinfo`: number, parent, device, root, mount point, options, optional fields, "-", type,
    /// source, options of the file system.
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (top, point) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let is_v2 = match file_system.next()? {
            "cgroup2" => true,
            "cgroup" if file_system.nth(1)?.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        // Spaces in paths are written in octal.
        Some(Mount { top, point: PathBuf::from(point.replace("\\040", " ")), is_v2 })
    }

    /// The least limit on the way from the process's group to the mount point.
    fn limit(&self, root: &Path, groups: &str) -> Option<u64> {
        // Number of the hierarchy, its controllers, the group; v2 has the number 0 and no controllers.
        let group = groups.lines().find_map(|line| {
            let (_, line) = line.split_once(':')?;
            let (controllers, group) = line.split_once(':')?;
            let is_this = match self.is_v2 {
                true => controllers.is_empty(),
                false => controllers.split(',').any(|name| name == "memory"),
            };
            is_this.then_some(group)
        })?;
        let point = root.join(self.point.strip_prefix("/").unwrap_or(&self.point));
        // A container may see a group of the host's hierarchy, of which only its own part is mounted.
        let below = Path::new(group).strip_prefix(self.top).unwrap_or(Path::new(""));
        let name = if self.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let limit = |below: &Path| -> Option<u64> {
            fs::read_to_string(point.join(below).join(name)).ok()?.trim().parse().ok()
        };
        below.ancestors().filter_map(limit).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root directory with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("makes a folder");
            fs::write(path, text).expect("writes");
        }
        root
    }

    const V1: &str = "30 25 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                      31 25 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                      32 25 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const V2: &str = "25 1 0:22 / / rw - ext4 /dev/vda rw\n\
                      30 25 0:26 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn this_machine_tells() {
        let available = available_memory().expect("Linux tells");
        assert!((64 << 20..1 << 50).contains(&available), "{available}");
    }

    #[test]
    fn this_process_tells_its_memory() {
        let held = held_in(Path::new("/")).expect("Linux tells");
        assert!((1 << 14..1 << 40).contains(&held), "{held}");
        let older = "Name:\tmariadbd\nVmHWM:\t  99 kB\nVmRSS:\t  1234 kB\n";
        let parts = "RssAnon:\t  1000 kB\nRssFile:\t  200 kB\nRssShmem:\t  34 kB\n";
        let held_with = |status: &str| held_in(root(&[("proc/self/status", status)]).path());
        assert_eq!(held_with(older), Some(1234 * 1024));
        assert_eq!(held_with(&(older.to_string() + parts)), Some(1034 * 1024));
    }

    #[test]
    fn a_limit_above_the_machine_is_none() {
        let limit_with = |limit: &str| {
            let root = root(&[
                ("proc/meminfo", "MemTotal:       1048576 kB\n"),
                ("proc/self/cgroup", "0::/db\n"),
                ("proc/self/mountinfo", V2),
                ("sys/fs/cgroup/db/memory.max", limit),
            ]);
            limit_in(root.path())
        };
        assert_eq!(limit_with("536870912\n"), Some(512 << 20));
        assert_eq!(limit_with("1073741824\n"), None);
        assert_eq!(limit_with("max\n"), None);
    }

    #[test]
    fn the_memory_of_the_machine_is_in_meminfo() {
        let root = root(&[("proc/meminfo", "MemTotal:       24563804 kB\nMemFree:  1 kB\n")]);
        assert_eq!(machine_memory(root.path()), Some(24_563_804 * 1024));
    }

    #[test]
    fn the_least_limit_up_the_hierarchy_counts() {
        let of_v2 = root(&[
            ("proc/self/cgroup", "0::/user/db\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/user/db/memory.max", "max\n"),
            ("sys/fs/cgroup/user/memory.max", "536870912\n"),
        ]);
        assert_eq!(group_limit(of_v2.path()), Some(512 << 20), "the root of v2 has no such file");
        let of_v1 = root(&[
            ("proc/self/cgroup", "4:memory:/user/db\n3:cpu:/other\n0::/\n"),
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/memory/user/db/memory.limit_in_bytes", "805306368\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu/other/memory.limit_in_bytes", "1\n"),
        ]);
        assert_eq!(group_limit(of_v1.path()), Some(768 << 20));
    }

    #[test]
    fn in_a_container_the_mounted_part_is_the_group() {
        // As Docker mounts it, with the host's name of the group and without a namespace for it.
        let mounts = "40 39 0:27 /docker/4f1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        for group in ["4:memory:/docker/4f1\n", "4:memory:/elsewhere\n"] {
            let root = root(&[
                ("proc/self/cgroup", group),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
            ]);
            assert_eq!(group_limit(root.path()), Some(1 << 30), "{group}");
        }
    }

    #[test]
    fn without_a_limit_or_groups_there_is_none() {
        let unlimited = root(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/memory.max", "max\n"),
        ]);
        assert_eq!(group_limit(unlimited.path()), None);
        assert_eq!(group_limit(root(&[]).path()), None);
    }
}
