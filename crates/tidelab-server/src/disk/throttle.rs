//! The throttle of a group of processes on one block device: cgroup v1 (`blkio.throttle.*`) or v2
//! (`io.max`).
//!
//! A v1 group does not see the writes of the kernel's own flusher: they belong to the root group. The
//! throttle sets the same limits there, for this device alone: such writes have a budget of their own, as
//! large as the group's.

use std::fs;
use std::path::{Path, PathBuf};

use super::Had;
use crate::server::group::v1_root;

/// Requests and bytes a second, for reads and for writes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests a second.
    pub iops: u64,
    /// Bytes a second.
    pub bytes_per_s: u64,
}

/// The limits of the measurements on equal memory.
pub const STEADY: Limits = Limits { iops: 20_000, bytes_per_s: 400_000_000 };

impl Limits {
    /// A tenth: every machine is faster, so it tests if a throttle works at all.
    pub fn tenth(self) -> Limits {
        Limits { iops: self.iops / 10, bytes_per_s: self.bytes_per_s / 10 }
    }
}

/// The limit in a file.
type Held = fn(Limits) -> u64;

/// The files of v1.
const V1: [(&str, Held); 4] = [
    ("blkio.throttle.read_bps_device", |limits| limits.bytes_per_s),
    ("blkio.throttle.write_bps_device", |limits| limits.bytes_per_s),
    ("blkio.throttle.read_iops_device", |limits| limits.iops),
    ("blkio.throttle.write_iops_device", |limits| limits.iops),
];

/// A group with limits on a device. Dropping it takes them away, and a group of its own with them.
#[derive(Debug)]
pub struct Throttle {
    device: String,
    /// The group; one of our own in v1.
    group: PathBuf,
    v1_root: Option<PathBuf>,
}

impl Throttle {
    /// For `device`, as `7:0`. In v1 it is a group of its own, `name`; in v2 the limits are those of
    /// `unified`, a group below the root of v2. No limit is set yet. The inner error is why there is none
    /// here.
    pub fn open(name: &str, device: &str, unified: Option<&Path>) -> Had<Throttle> {
        if let Some(root) = hierarchy("blkio") {
            let group = root.join(name);
            // One that a killed run left is used.
            fs::create_dir_all(&group).map_err(|e| format!("{}: {e}", group.display()))?;
            return Ok(Throttle { device: device.to_string(), group, v1_root: Some(root) });
        }
        let group = unified.ok_or("there is no group to throttle")?;
        let parent = group.parent().unwrap_or(group).join("cgroup.subtree_control");
        fs::write(&parent, "+io").map_err(|e| format!("{}: {e}", parent.display()))?;
        if !group.join("io.max").exists() {
            return Err(format!("{} has no io.max", group.display()));
        }
        Ok(Throttle { device: device.to_string(), group: group.to_path_buf(), v1_root: None })
    }

    /// Sets the limits; none takes them away. Errors name the refusing file.
    pub fn set(&self, limits: Option<Limits>) -> Had<()> {
        let put = |path: PathBuf, line: String| {
            fs::write(&path, &line).map_err(|e| format!("{} <- {line}: {e}", path.display()))
        };
        let device = &self.device;
        let Some(root) = &self.v1_root else {
            return put(self.group.join("io.max"), v2_line(device, limits));
        };
        for folder in [&self.group, root] {
            for (file, of) in V1 {
                put(folder.join(file), format!("{device} {}", limits.map_or(0, of)))?;
            }
        }
        Ok(())
    }

    /// The file for a process's number, to be throttled; none if its other group is it.
    pub fn procs(&self) -> Option<PathBuf> {
        self.v1_root.as_ref().map(|_| self.group.join("cgroup.procs"))
    }

    /// The mechanism, for people.
    pub fn name(&self) -> &'static str {
        if self.v1_root.is_some() {
            "blkio.throttle (cgroup v1)"
        } else {
            "io.max (cgroup v2)"
        }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // The device goes with the disk, and its limits with it; a group that is in use stays until the
        // next run.
        let _ = self.set(None);
        if self.v1_root.is_some() {
            let _ = fs::remove_dir(&self.group);
        }
    }
}

fn v2_line(device: &str, limits: Option<Limits>) -> String {
    match limits {
        Some(Limits { iops, bytes_per_s }) => {
            format!("{device} rbps={bytes_per_s} wbps={bytes_per_s} riops={iops} wiops={iops}")
        }
        None => format!("{device} rbps=max wbps=max riops=max wiops=max"),
    }
}

/// The root of the v1 hierarchy with a controller.
fn hierarchy(controller: &str) -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    v1_root(&table, controller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_has_one_line() {
        let limits = Limits { iops: 20, bytes_per_s: 400 };
        assert_eq!(v2_line("7:0", Some(limits)), "7:0 rbps=400 wbps=400 riops=20 wiops=20");
        assert_eq!(v2_line("7:0", None), "7:0 rbps=max wbps=max riops=max wiops=max");
    }
}
