//! Memory for reads of any file: a file past the page cache wants whole sectors, in memory at a sector's address.

use super::{ends_early, File};
use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};

/// Short reads in a row, within the file, after which a read fails. Each of them is repeated from the last whole sector.
const MOST_SHORT: u32 = 100;

/// A buffer with the bytes of its last read.
#[derive(Default, Debug)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    /// Where the asked bytes begin in `memory`, and their number.
    start: usize,
    len: usize,
    /// Bytes of the last read, sectors around included; 0 if it failed.
    total: usize,
}

/// The sectors around a range of a file.
struct Sectors {
    /// Bytes of one.
    size: usize,
    /// Bytes of the first before the range.
    before: usize,
    /// Bytes of all.
    total: usize,
}

impl Sectors {
    fn around(file: &dyn File, offset: u64, len: usize) -> Sectors {
        let size = file.alignment().max(1);
        let before = (offset % size as u64) as usize;
        Sectors { size, before, total: (before + len).next_multiple_of(size) }
    }
}

impl AlignedBuffer {
    /// Makes room for a read, so that [`AlignedBuffer::capacity`] tells of it before. The bytes of the last read go.
    pub fn make_room(&mut self, file: &dyn File, offset: u64, len: usize) {
        self.make_room_for(&Sectors::around(file, offset, len));
    }

    fn make_room_for(&mut self, sectors: &Sectors) {
        (self.len, self.total) = (0, 0);
        let spare = sectors.size - 1;
        if self.memory.len() < sectors.total + spare {
            self.memory.resize(sectors.total + spare, 0);
        }
    }

    /// Reads `len` bytes at `offset` of `file`, with the sectors around them if the file wants whole ones. Replaces the
    /// bytes of the last read; after an error there are none.
    ///
    /// # Errors
    /// `Corruption` if the file is shorter; I/O.
    pub fn read(&mut self, file: &dyn File, offset: u64, len: usize) -> Result<&[u8]> {
        let sectors = Sectors::around(file, offset, len);
        self.make_room_for(&sectors);
        let Sectors { size: sector, before, total } = sectors;
        let first = offset - before as u64;
        // Of memory that may have moved.
        let misplaced = self.memory.as_ptr() as usize % sector;
        let base = (sector - misplaced) % sector;
        let wanted = before + len;
        let memory = &mut self.memory[base..base + total];
        let (mut done, mut short) = (0, 0);
        while done < wanted {
            let read = file.read_at(&mut memory[done..], first + done as u64)?;
            if done + read >= wanted || mutant::is(Mutant::ShortReadTaken) {
                break;
            }
            let whole = (done + read) / sector * sector;
            short += 1;
            if read == 0 || (whole == done && file.len()? < offset + len as u64) {
                let found = (done + read).saturating_sub(before);
                return Err(ends_early(file.path(), offset + found as u64, len - found));
            }
            if whole == done && short > MOST_SHORT {
                let source = std::io::Error::other(format!("{short} reads within a sector ended early"));
                return Err(Error::io("read", file.path(), source));
            }
            done = whole;
        }
        self.total = total;
        self.start = base + before;
        self.len = len;
        Ok(self.bytes())
    }

    /// The bytes of the last read.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// Bytes of the last read, with the sectors around those asked for; none after an error.
    pub fn read_bytes(&self) -> usize {
        self.total
    }

    /// Bytes of memory.
    pub fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// Keeps at most `most` bytes of memory for later reads. The bytes of the last one go.
    pub fn shrink(&mut self, most: usize) {
        self.len = 0;
        self.start = 0;
        if self.memory.capacity() > most {
            self.memory.truncate(most);
            self.memory.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::io::faulty::{Failure, Fault, Op};
    use crate::io::{Disk, FaultyDisk, OpenMode};

    fn disk() -> FaultyDisk {
        let disk = FaultyDisk::new(1);
        let bytes: Vec<u8> = (0..10_000u32).map(|n| (n / 7) as u8).collect();
        disk.open(Path::new("/f"), OpenMode::Create).unwrap().write_at(&bytes, 0).unwrap();
        disk
    }

    #[test]
    fn every_range_is_read_as_it_is_with_and_without_the_page_cache() {
        let disk = disk();
        let mut buffer = AlignedBuffer::default();
        for (mode, sector) in [(OpenMode::Read, 1), (OpenMode::ReadDirect, 512), (OpenMode::ReadDirect, 4096)]
        {
            disk.set_sector(sector);
            let file = disk.open(Path::new("/f"), mode).unwrap();
            assert_eq!(file.alignment(), sector);
            for (offset, len) in
                [(0, 1), (0, 10_000), (511, 2), (512, 512), (9_999, 1), (9_000, 1_000), (700, 0)]
            {
                let right: Vec<u8> = (offset..offset + len).map(|n: u32| (n / 7) as u8).collect();
                assert_eq!(
                    buffer.read(&*file, offset.into(), len as usize).unwrap(),
                    right,
                    "{mode:?} {offset} {len}"
                );
            }
        }
    }

    #[test]
    fn a_short_read_goes_on_from_a_whole_sector() {
        let disk = disk();
        for (mode, sector) in [(OpenMode::Read, 1), (OpenMode::ReadDirect, 512), (OpenMode::ReadDirect, 4096)]
        {
            disk.set_sector(sector);
            let file = disk.open(Path::new("/f"), mode).unwrap();
            let short = Fault {
                op: Some(Op::Read),
                path: String::new(),
                skip: 0,
                times: 20,
                failure: Failure::ShortRead,
            };
            disk.fail(short);
            let mut buffer = AlignedBuffer::default();
            let right: Vec<u8> = (100..9_100u32).map(|n| (n / 7) as u8).collect();
            assert_eq!(buffer.read(&*file, 100, 9_000).unwrap(), right, "{mode:?}");
            disk.heal();
        }
    }

    #[test]
    fn short_reads_without_end_are_an_error_of_the_disk_and_no_damage() {
        let disk = disk();
        let file = disk.open(Path::new("/f"), OpenMode::ReadDirect).unwrap();
        let (op, times, failure) = (Some(Op::Read), u64::MAX, Failure::ShortRead);
        disk.fail(Fault { op, path: String::new(), skip: 0, times, failure });
        let error = AlignedBuffer::default().read(&*file, 0, file.alignment()).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }

    #[test]
    fn a_read_past_the_end_is_damage_and_leaves_no_bytes() {
        let disk = disk();
        for (mode, sector) in [(OpenMode::Read, 1), (OpenMode::ReadDirect, 512), (OpenMode::ReadDirect, 4096)]
        {
            disk.set_sector(sector);
            let file = disk.open(Path::new("/f"), mode).unwrap();
            let mut buffer = AlignedBuffer::default();
            buffer.read(&*file, 0, 100).unwrap();
            for (offset, len) in [(9_999, 2), (9_728, 300), (10_000, 1), (20_000, 5)] {
                let error = buffer.read(&*file, offset, len).unwrap_err();
                assert!(matches!(error, Error::Corruption { .. }), "{error}");
                assert!(buffer.bytes().is_empty() && buffer.read_bytes() == 0);
            }
        }
    }

    #[test]
    fn memory_beyond_the_bound_goes() {
        let disk = disk();
        let file = disk.open(Path::new("/f"), OpenMode::ReadDirect).unwrap();
        let mut buffer = AlignedBuffer::default();
        buffer.read(&*file, 0, 10_000).unwrap();
        buffer.shrink(1_000);
        assert!(buffer.capacity() < 2_000 && buffer.bytes().is_empty());
    }
}
