//! A disk with calls as places for another coroutine to go on; they take time, and fail by a seed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidesdb_simulated::internal::host::{Clock, Random};
use tidesdb_simulated::internal::io::faulty::{Fault, Op};
use tidesdb_simulated::internal::io::{Advice, Disk, FaultyDisk, File, OpenMode};
use tidesdb_simulated::simulation;
use tidesdb_simulated::Result;

use crate::faults::Faults;
use crate::host::{SimulatedClock, SimulatedRandom};

/// The store's directory.
pub const DIR: &str = "/store";

/// A call waits for the disk in one of so many cases: then all who can go on do.
const SLOW_ONE_IN: u64 = 16;

/// Longest time of a call, in microseconds.
const SLOWEST_US: u64 = 3_000;

/// See the module's comment.
#[derive(Clone, Debug)]
pub struct SwitchingDisk {
    disk: FaultyDisk,
    below: Arc<dyn Disk>,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct SwitchingFile {
    below: Arc<dyn File>,
    disk: SwitchingDisk,
}

/// The disk takes its time.
fn pass() {
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
    /// Over `disk`, with these faults.
    pub fn over(disk: &FaultyDisk, faults: &Arc<Faults>) -> Arc<dyn Disk> {
        Arc::new(SwitchingDisk { disk: disk.clone(), below: disk.shared(), faults: Arc::clone(faults) })
    }

    /// The next call fails if a fault is due. Nobody comes in between: it takes no time.
    fn fail(&self, op: Op, path: &Path) {
        if let Some(failure) = self.faults.due(op, path) {
            let path = path.to_string_lossy().into_owned();
            self.disk.fail(Fault { op: Some(op), path, skip: 0, times: 1, failure });
        }
    }

    /// A call of this kind begins.
    fn call(&self, op: Op, path: &Path) {
        pass();
        self.faults.call(op, path);
        self.fail(op, path);
    }
}

impl Disk for SwitchingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.call(if mode == OpenMode::Create { Op::Create } else { Op::Open }, path);
        Ok(Arc::new(SwitchingFile { below: self.below.open(path, mode)?, disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(Op::Rename, from);
        self.below.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.call(Op::Remove, path);
        self.below.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.call(Op::SyncDir, dir);
        self.below.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.fail(Op::Exists, path);
        self.below.exists(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.fail(Op::List, dir);
        self.below.list(dir)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SimulatedClock)
    }

    fn random(&self) -> Arc<dyn Random> {
        Arc::new(SimulatedRandom)
    }

    tidesdb_simulated::pass_on!(
        to below: link remove_dir resolve create_dir_all lock lock_shared free_space
    );
}

impl SwitchingFile {
    fn call(&self, op: Op) {
        self.disk.call(op, self.below.path());
    }
}

impl File for SwitchingFile {
    fn path(&self) -> &Path {
        self.below.path()
    }

    fn alignment(&self) -> usize {
        self.below.alignment()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.call(Op::Read);
        self.below.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.call(Op::Write);
        self.below.write_at(buf, offset)
    }

    fn sync_data(&self) -> Result<()> {
        self.call(Op::Sync);
        let done = self.below.sync_data();
        pass();
        done
    }

    fn len(&self) -> Result<u64> {
        self.disk.fail(Op::Len, self.below.path());
        self.below.len()
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.disk.fail(Op::Allocate, self.below.path());
        self.below.allocate(len)
    }

    fn clear(&self, len: u64) {
        self.disk.fail(Op::Allocate, self.below.path());
        self.below.clear(len);
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        self.call(Op::Allocate);
        self.below.punch_hole(offset, len)
    }

    fn links(&self) -> Result<u64> {
        self.disk.fail(Op::Len, self.below.path());
        self.below.links()
    }

    fn allocated(&self) -> Result<u64> {
        self.disk.fail(Op::Len, self.below.path());
        self.below.allocated()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.disk.fail(Op::SetLen, self.below.path());
        self.below.set_len(len)
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        self.below.advise(offset, len, advice);
    }
}
