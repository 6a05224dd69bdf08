//! Bytes from one file to another: a megabyte at a time, with the sum of what was read, synced at a pace that keeps
//! each sync short, interrupted between two of them.

use std::path::Path;

use super::Watch;
use crate::error::{Error, Result};
use crate::format::checksum;
use crate::io::{Advice, Disk, OpenMode};

/// Bytes read and written at once.
const CHUNK: usize = 1 << 20;

/// Bytes after which a copy is synced, so that whoever ends it waits for no more than these.
const SYNC_EVERY: u64 = 8 << 20;

/// Copies files one after the other and counts.
pub(super) struct Copier<'a> {
    disk: &'a dyn Disk,
    watch: Watch<'a>,
    buffer: Vec<u8>,
    done: u64,
    /// Bytes that will be copied in all, for those who watch.
    pub(super) total: u64,
}

impl<'a> Copier<'a> {
    pub(super) fn new(disk: &'a dyn Disk, watch: Watch<'a>) -> Copier<'a> {
        Copier { disk, watch, buffer: Vec::new(), done: 0, total: 0 }
    }

    /// Copies the first `len` bytes and syncs them; returns their CRC-32C. A shorter source is damage.
    pub(super) fn synced(&mut self, from: &Path, to: &Path, len: u64) -> Result<u32> {
        self.copy(from, to, len, true)
    }

    /// Copies a small file as long as it is, without a sync; returns its length and CRC-32C.
    pub(super) fn unsynced(&mut self, from: &Path, to: &Path) -> Result<(u64, u32)> {
        let len = self.disk.open(from, OpenMode::Read)?.len()?;
        Ok((len, self.copy(from, to, len, false)?))
    }

    fn copy(&mut self, from: &Path, to: &Path, len: u64, sync: bool) -> Result<u32> {
        let source = self.disk.open(from, OpenMode::Read)?;
        let target = self.disk.open(to, OpenMode::Create)?;
        source.advise(0, len, Advice::Sequential);
        let (mut at, mut crc, mut unsynced) = (0, 0, 0);
        while at < len {
            self.watch.check()?;
            let n = usize::try_from(len - at).unwrap_or(CHUNK).min(CHUNK);
            self.buffer.resize(n, 0);
            source.read_exact_at(&mut self.buffer, at)?;
            crc = checksum::extend(crc, &self.buffer);
            target.write_at(&self.buffer, at)?;
            at += n as u64;
            unsynced += n as u64;
            if sync && unsynced >= SYNC_EVERY {
                target.sync_data()?;
                unsynced = 0;
            }
            self.done += n as u64;
            (self.watch.progress)(self.done, self.total.max(self.done));
        }
        if sync {
            target.sync_data()?;
            target.advise(0, len, Advice::DontNeed);
        }
        Ok(crc)
    }
}

/// Length and CRC-32C of a file.
pub(super) fn sum(disk: &dyn Disk, path: &Path, watch: Watch<'_>) -> Result<(u64, u32)> {
    let file = disk.open(path, OpenMode::Read)?;
    let len = file.len()?;
    let mut buffer = vec![0; usize::try_from(len).unwrap_or(CHUNK).min(CHUNK)];
    let (mut at, mut crc) = (0, 0);
    while at < len {
        watch.check()?;
        let n = usize::try_from(len - at).unwrap_or(CHUNK).min(CHUNK);
        file.read_exact_at(&mut buffer[..n], at)?;
        crc = checksum::extend(crc, &buffer[..n]);
        at += n as u64;
    }
    Ok((len, crc))
}

/// The whole of a small file.
pub(super) fn read_small(disk: &dyn Disk, path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let len = file.len()?;
    if len > most {
        return Err(Error::corruption(path, 0, format!("{len} bytes, where at most {most} are expected")));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
