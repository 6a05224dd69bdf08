//! Copies bytes from one file to another, a megabyte at a time, and sums them. It syncs often enough to keep
//! each sync short, and can be interrupted between two of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Watch;
use crate::error::Result;
use crate::format::checksum;
use crate::host::Clock;
use crate::io::{Advice, Disk, File, OpenMode};
use crate::table::TableStore;

/// Bytes read and written at once.
const CHUNK: usize = 1 << 20;

/// Bytes of a block of zeros that is not written, where holes stay holes.
const BLOCK: usize = 4096;

/// Bytes between two syncs of a copy. They bound the wait of a caller for the end of an interrupted copy.
const SYNC_EVERY: u64 = 8 << 20;

/// Longest sleep of a paced copy between two checks for interruption, in microseconds.
const LONGEST_SLEEP: u64 = 50_000;

/// A paced copy catches up on at most so many microseconds after the disk was slow.
const MADE_UP: u64 = 1_000_000;

/// Copies files one after the other and counts.
pub(super) struct Copier<'a> {
    disk: &'a dyn Disk,
    clock: Arc<dyn Clock>,
    watch: Watch<'a>,
    buffer: Vec<u8>,
    done: u64,
    /// Bytes to copy in all, for progress reports.
    pub(super) total: u64,
    /// Bytes a second; 0: no limit.
    pub(super) rate: u64,
    /// Start of the pacing, in microseconds, and the bytes since then.
    begun: u64,
    paced: u64,
}

impl<'a> Copier<'a> {
    pub(super) fn new(disk: &'a dyn Disk, watch: Watch<'a>) -> Copier<'a> {
        let clock = disk.clock();
        Copier {
            begun: clock.now_micros(),
            disk,
            clock,
            watch,
            buffer: Vec::new(),
            done: 0,
            total: 0,
            rate: 0,
            paced: 0,
        }
    }

    /// Copies the first `len` bytes and syncs them; returns their CRC-32C. A shorter source is damage.
    pub(super) fn synced(&mut self, from: &Path, to: &Path, len: u64) -> Result<u32> {
        self.copy(from, to, len, true)
    }

    /// Copies a small file in its full length, without a sync; returns its length and CRC-32C.
    pub(super) fn unsynced(&mut self, from: &Path, to: &Path) -> Result<(u64, u32)> {
        let len = self.disk.open(from, OpenMode::Read)?.len()?;
        Ok((len, self.copy(from, to, len, false)?))
    }

    fn copy(&mut self, from: &Path, to: &Path, len: u64, sync: bool) -> Result<u32> {
        let source = self.disk.open(from, OpenMode::Read)?;
        let target = self.disk.open(to, OpenMode::Create)?;
        // Other files have no holes, and are not to get any: the log is written again in place.
        let keeps_holes = TableStore::is_value_file(to);
        let mut unsynced = 0;
        let crc = self.read_through(&*source, len, |at, bytes| {
            match keeps_holes {
                true => write_but_zeros(&*target, at, bytes)?,
                false => target.write_at(bytes, at)?,
            }
            unsynced += bytes.len() as u64;
            if sync && unsynced >= SYNC_EVERY {
                target.sync_data()?;
                unsynced = 0;
            }
            Ok(())
        })?;
        if keeps_holes && target.len()? < len {
            target.set_len(len)?;
        }
        if sync {
            target.sync_data()?;
            target.advise(0, len, Advice::DontNeed);
        }
        Ok(crc)
    }

    /// Reads the first `len` bytes at the pace of a copy; their CRC-32C.
    pub(super) fn read(&mut self, from: &Path, len: u64) -> Result<u32> {
        let source = self.disk.open(from, OpenMode::Read)?;
        self.read_through(&*source, len, |_, _| Ok(()))
    }

    /// The same with each piece and its place given to `take`.
    fn read_through(
        &mut self,
        source: &dyn File,
        len: u64,
        mut take: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<u32> {
        source.advise(0, len, Advice::Sequential);
        let (mut at, mut crc) = (0, 0);
        while at < len {
            self.watch.check()?;
            let n = usize::try_from(len - at).unwrap_or(CHUNK).min(CHUNK);
            self.buffer.resize(n, 0);
            source.read_exact_at(&mut self.buffer, at)?;
            crc = checksum::extend(crc, &self.buffer);
            take(at, &self.buffer)?;
            at += n as u64;
            self.count(n as u64)?;
        }
        Ok(crc)
    }

    /// Counts finished bytes, and waits until the rate allows more.
    fn count(&mut self, bytes: u64) -> Result<()> {
        self.done += bytes;
        (self.watch.progress)(self.done, self.total.max(self.done));
        if self.rate == 0 {
            return Ok(());
        }
        self.paced += bytes;
        let due = u128::from(self.paced) * 1_000_000 / u128::from(self.rate);
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        loop {
            let gone = self.clock.now_micros().saturating_sub(self.begun);
            let Some(left) = due.checked_sub(gone).filter(|left| *left > 0) else {
                self.begun += gone.saturating_sub(due).saturating_sub(MADE_UP);
                return Ok(());
            };
            self.watch.check()?;
            self.clock.sleep(Duration::from_micros(left.min(LONGEST_SLEEP)));
        }
    }
}

/// Length and CRC-32C of a file. Its bytes are not counted as progress.
pub(super) fn sum(disk: &dyn Disk, path: &Path, watch: Watch<'_>) -> Result<(u64, u32)> {
    let len = disk.open(path, OpenMode::Read)?.len()?;
    let silent = Watch { progress: &|_, _| {}, ..watch };
    Ok((len, Copier::new(disk, silent).read(path, len)?))
}

/// Writes bytes to a new file but for whole blocks of zeros: a hole of a value file stays one.
fn write_but_zeros(target: &dyn File, at: u64, bytes: &[u8]) -> Result<()> {
    let is_zero = |block: &&[u8]| block.iter().all(|byte| *byte == 0);
    let mut from = 0;
    for run in bytes.chunks(BLOCK).collect::<Vec<_>>().chunk_by(|a, b| is_zero(a) == is_zero(b)) {
        let len: usize = run.iter().map(|block| block.len()).sum();
        if !is_zero(&run[0]) {
            target.write_at(&bytes[from..from + len], at + from as u64)?;
        }
        from += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::RealDisk;

    #[test]
    fn blocks_of_zeros_stay_holes_and_all_else_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = RealDisk.open(&dir.path().join("a"), OpenMode::Create).expect("opens");
        let mut bytes = vec![0; 20 * BLOCK + 100];
        for at in [0, 3 * BLOCK + 7, 4 * BLOCK - 1, 4 * BLOCK, 20 * BLOCK + 99] {
            bytes[at] = 1;
        }
        write_but_zeros(&*file, 0, &bytes).expect("writes");
        file.sync_data().expect("syncs");
        let mut read = vec![9; bytes.len()];
        file.read_exact_at(&mut read, 0).expect("reads");
        assert!(read == bytes);
        assert!(file.allocated().expect("knows") <= 8 * BLOCK as u64);
    }
}
