//! The world of a store: its disk, its time, its threads and its chance, all given to it at the opening.

use std::sync::Arc;

use crate::host::{Clock, Random, Spawn, SystemThreads};
use crate::io::Disk;

/// See the module's comment. Clones are the same world.
#[derive(Clone, Debug)]
pub struct Env {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time. The disk's own clock ([`Disk::clock`]), or one in step with it.
    pub clock: Arc<dyn Clock>,
    /// Threads.
    pub spawn: Arc<dyn Spawn>,
    /// Chance.
    pub random: Arc<dyn Random>,
}

impl From<Arc<dyn Disk>> for Env {
    /// The world of a disk: the machine's threads, and the disk's own time and chance.
    fn from(disk: Arc<dyn Disk>) -> Env {
        let (clock, random) = (disk.clock(), disk.random());
        Env { disk, clock, spawn: Arc::new(SystemThreads), random }
    }
}

impl<D: Disk + 'static> From<Arc<D>> for Env {
    fn from(disk: Arc<D>) -> Env {
        Env::from(disk as Arc<dyn Disk>)
    }
}
