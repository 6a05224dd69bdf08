//! Counters of memory by kind of holder, in the whole process.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Stretches of files that scans and merges read ahead.
pub(crate) static READ_AHEAD: MemoryGauge = MemoryGauge::new();

/// Tables that are being written: blocks, index and filter until they are in the file.
pub(crate) static TABLE_WRITERS: MemoryGauge = MemoryGauge::new();

/// Bytes that holders of one kind have now.
#[derive(Debug)]
pub struct MemoryGauge(AtomicUsize);

/// Sorts of the program around, for the tables that it builds.
pub static SORTS: MemoryGauge = MemoryGauge::new();

impl MemoryGauge {
    const fn new() -> MemoryGauge {
        MemoryGauge(AtomicUsize::new(0))
    }

    /// Bytes now.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Adds `bytes`, or takes away what was added.
    pub fn add(&self, bytes: isize) {
        // Modulo the word: what is taken away was added before.
        self.0.fetch_add(bytes as usize, Relaxed);
    }
}

/// One holder's part of a gauge; gone when it is dropped.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    gauge: &'static MemoryGauge,
    bytes: usize,
}

impl HeldMemory {
    /// Nothing yet.
    pub(crate) fn none(gauge: &'static MemoryGauge) -> HeldMemory {
        HeldMemory { gauge, bytes: 0 }
    }

    /// The holder has `bytes` now.
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
