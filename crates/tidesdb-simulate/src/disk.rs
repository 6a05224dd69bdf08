//! A disk whose calls are places where another coroutine may go on, and which take time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidesdb_simulated::internal::host::{Clock, Random};
use tidesdb_simulated::internal::io::{Advice, Disk, File, OpenMode};
use tidesdb_simulated::simulation;
use tidesdb_simulated::Result;

use crate::host::{SimulatedClock, SimulatedRandom};

/// A call waits for the disk in one of so many cases: then all who can go on do.
const SLOW_ONE_IN: u64 = 16;

/// Longest time of a call, in microseconds.
const SLOWEST_US: u64 = 3_000;

/// See the module's comment.
#[derive(Debug)]
pub struct SwitchingDisk {
    below: Arc<dyn Disk>,
}

#[derive(Debug)]
struct SwitchingFile {
    below: Arc<dyn File>,
}

/// The disk takes a call.
fn call() {
    if !simulation::is_running() {
        return;
    }
    if simulation::random() % SLOW_ONE_IN == 0 {
        simulation::sleep(Duration::from_micros(1 + simulation::random() % SLOWEST_US));
    } else {
        simulation::switch();
    }
}

impl SwitchingDisk {
    /// Over `below`.
    pub fn over(below: Arc<dyn Disk>) -> Arc<dyn Disk> {
        Arc::new(SwitchingDisk { below })
    }
}

impl Disk for SwitchingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        call();
        Ok(Arc::new(SwitchingFile { below: self.below.open(path, mode)? }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        call();
        self.below.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        call();
        self.below.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        call();
        self.below.sync_dir(dir)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SimulatedClock)
    }

    fn random(&self) -> Arc<dyn Random> {
        Arc::new(SimulatedRandom)
    }

    tidesdb_simulated::pass_on!(
        to below: link remove_dir resolve exists list create_dir_all lock lock_shared free_space
    );
}

impl File for SwitchingFile {
    fn path(&self) -> &Path {
        self.below.path()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        call();
        self.below.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        call();
        self.below.write_at(buf, offset)
    }

    fn sync_data(&self) -> Result<()> {
        call();
        let done = self.below.sync_data();
        call();
        done
    }

    fn len(&self) -> Result<u64> {
        self.below.len()
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.below.allocate(len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.below.set_len(len)
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        self.below.advise(offset, len, advice);
    }
}
