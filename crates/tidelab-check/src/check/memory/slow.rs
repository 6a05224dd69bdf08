//! A slow disk: the laboratory's steady one, throttled to a tenth. Merges fall behind, and memtables wait.

use std::path::PathBuf;

use tidelab_server::disk::throttle::{Throttle, STEADY};
use tidelab_server::disk::{Had, SteadyDisk};
use tidelab_server::error::Result;

use super::container::Container;
use super::MEGABYTE;

/// Room for sysbench's four tables while they are merged.
const SIZE: u64 = 6_000 * MEGABYTE;

/// The disk and its limits. Dropping it takes the limits away, then the disk.
#[derive(Debug)]
pub(super) struct SlowDisk {
    // In this order they go.
    throttle: Throttle,
    disk: SteadyDisk,
}

impl SlowDisk {
    /// Makes one for a server of so many megabytes. The inner error is why this machine cannot have one.
    pub(super) fn make(container: &Container<'_>, megabytes: u64) -> Result<Had<SlowDisk>> {
        let folder = container.lab.directory.with_extension("disk");
        let disk = match SteadyDisk::make(&folder, SIZE, megabytes * MEGABYTE)? {
            Ok(disk) => disk,
            Err(why) => return Ok(Err(why)),
        };
        let name = format!("tidelab-check-disk-{}", std::process::id());
        let throttled = Throttle::open(&name, disk.device(), container.unified())
            .and_then(|throttle| throttle.set(Some(STEADY.tenth())).map(|()| throttle));
        Ok(throttled.map(|throttle| SlowDisk { throttle, disk }))
    }

    /// The directory of a server on it.
    pub(super) fn directory(&self) -> PathBuf {
        self.disk.path().join("server")
    }

    /// The groups joined by a server on it, alongside its memory group.
    pub(super) fn groups(&self) -> Vec<PathBuf> {
        self.throttle.procs().into_iter().collect()
    }
}
