//! Gauges of memory, one for each kind of holder.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// Bytes now held by holders of one kind.
#[derive(Debug, Default)]
pub(crate) struct MemoryGauge(AtomicUsize);

impl MemoryGauge {
    /// The gauge's bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Adds `bytes`; a negative number subtracts.
    pub(crate) fn add(&self, bytes: isize) {
        // Modulo the word: what is taken away was added before.
        self.0.fetch_add(bytes as usize, Relaxed);
    }
}

/// One holder's part of a gauge; subtracted on drop.
#[derive(Debug, Default)]
pub(crate) struct HeldMemory {
    /// The gauge that has `bytes`. Most holders of read-ahead never have any: they leave the shared line alone.
    counted: Option<Arc<MemoryGauge>>,
    bytes: usize,
}

impl HeldMemory {
    /// The holder has `bytes` now; `gauge` counts them, the same each time.
    pub(crate) fn set(&mut self, bytes: usize, gauge: &Arc<MemoryGauge>) {
        if bytes != self.bytes {
            let counted = self.counted.get_or_insert_with(|| Arc::clone(gauge));
            counted.add(bytes.wrapping_sub(self.bytes) as isize);
            self.bytes = bytes;
        }
    }

    /// The holder has nothing any more.
    pub(crate) fn clear(&mut self) {
        if let Some(counted) = self.counted.take() {
            counted.add((self.bytes as isize).wrapping_neg());
            self.bytes = 0;
        }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_the_sum_of_those_that_live() {
        let gauge = Arc::new(MemoryGauge::default());
        let (mut one, mut two) = (HeldMemory::default(), HeldMemory::default());
        one.set(100, &gauge);
        two.set(50, &gauge);
        one.set(30, &gauge);
        assert_eq!(gauge.bytes(), 80);
        drop(one);
        assert_eq!(gauge.bytes(), 50);
        two.clear();
        assert_eq!(gauge.bytes(), 0);
        two.set(7, &gauge);
        assert_eq!(gauge.bytes(), 7);
        drop(two);
        assert_eq!(gauge.bytes(), 0);
    }
}
