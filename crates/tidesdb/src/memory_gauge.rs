//! Gauges of memory in the whole process, one for each kind of holder.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Read-ahead buffers of scans and merges.
pub(crate) static READ_AHEAD: MemoryGauge = MemoryGauge::new();

/// Tables being written: blocks, index and filter not yet in the file.
pub(crate) static TABLE_WRITERS: MemoryGauge = MemoryGauge::new();

/// Bytes now held by holders of one kind.
#[derive(Debug)]
pub struct MemoryGauge(AtomicUsize);

/// Sorts in the embedding program, of rows that it will write.
pub static SORTS: MemoryGauge = MemoryGauge::new();

impl MemoryGauge {
    const fn new() -> MemoryGauge {
        MemoryGauge(AtomicUsize::new(0))
    }

    /// The gauge's bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Adds `bytes`; a negative number subtracts.
    pub fn add(&self, bytes: isize) {
        // Modulo the word: what is taken away was added before.
        self.0.fetch_add(bytes as usize, Relaxed);
    }
}

/// One holder's part of a gauge; subtracted on drop.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    gauge: &'static MemoryGauge,
    bytes: usize,
}

impl HeldMemory {
    /// A part of zero bytes.
    pub(crate) fn none(gauge: &'static MemoryGauge) -> HeldMemory {
        HeldMemory { gauge, bytes: 0 }
    }

    /// Sets the holder's part to `bytes`.
    pub(crate) fn set(&mut self, bytes: usize) {
        // Most holders of read-ahead never have any: they leave the shared line alone.
        if bytes != self.bytes {
            self.gauge.add(bytes.wrapping_sub(self.bytes) as isize);
            self.bytes = bytes;
        }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_the_sum_of_those_that_live() {
        static GAUGE: MemoryGauge = MemoryGauge::new();
        let (mut one, mut two) = (HeldMemory::none(&GAUGE), HeldMemory::none(&GAUGE));
        one.set(100);
        two.set(50);
        one.set(30);
        assert_eq!(GAUGE.bytes(), 80);
        drop(one);
        assert_eq!(GAUGE.bytes(), 50);
        drop(two);
        assert_eq!(GAUGE.bytes(), 0);
    }
}
