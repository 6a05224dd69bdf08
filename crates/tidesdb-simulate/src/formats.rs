//! The formats of a store in a program, and the rules of its files: none is of a version above the manifest's, and a
//! flipped bit of a table is found.

use std::ops::Range;
use std::path::{Path, PathBuf};

use tidesdb_simulated::internal::cache::BlockCache;
use tidesdb_simulated::internal::io::faulty::Crash;
use tidesdb_simulated::internal::io::FaultyDisk;
use tidesdb_simulated::internal::table::{SsTable, TableStore};
use tidesdb_simulated::FormatVersion;

use crate::random::Random;

/// Bytes of a footer.
const FOOTER: usize = 128;

/// Bytes of a footer with its extension.
const LONG_FOOTER: u64 = 192;

/// Versions of a store's formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Formats {
    /// Version 1.
    One,
    /// Version 2 from the begin on; later openings do not ask for it.
    Two,
    /// Version 1, and version 2 from a later opening on.
    Move,
}

impl Formats {
    /// Those of a seed.
    pub fn of(random: &mut Random) -> Formats {
        random.pick(&[Formats::One, Formats::One, Formats::Two, Formats::Move, Formats::Move])
    }

    /// The store's first version.
    pub fn first(self) -> FormatVersion {
        if self == Formats::Two {
            FormatVersion::Two
        } else {
            FormatVersion::One
        }
    }

    /// The least version for later openings.
    pub fn later(self) -> FormatVersion {
        if self == Formats::Move {
            FormatVersion::Two
        } else {
            FormatVersion::One
        }
    }

    /// The version after a later opening on a disk with room.
    pub fn reached(self) -> FormatVersion {
        self.first().max(self.later())
    }
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Where the last table of a file has its footer.
fn footer(len: u64) -> Range<u64> {
    len.saturating_sub(FOOTER as u64)..len
}

/// Whether that is the footer of a table; no: the file is not finished.
fn is_footer(bytes: &[u8]) -> bool {
    bytes.len() == FOOTER && bytes.starts_with(b"TDBTABLE")
}

/// A log segment's header, as far as its version.
fn header(len: u64) -> Range<u64> {
    0..len.min(12)
}

/// The store's files with such names, and a part of each. A disk lists them in any order.
fn files(disk: &FaultyDisk, extension: &str, part: fn(u64) -> Range<u64>) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = disk.files();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths.into_iter().filter_map(|path| Some((path.clone(), disk.part(&path, part)?))).collect()
}

/// The bytes of the manifest in force.
fn manifest(disk: &FaultyDisk, dir: &Path) -> Result<Vec<u8>, String> {
    let read = |name: &str| disk.contents(&dir.join(name)).ok_or_else(|| format!("there is no {name}"));
    let current = String::from_utf8_lossy(&read("CURRENT")?).into_owned();
    read(current.split(' ').next().unwrap_or_default())
}

/// True if the manifest in force has the wish of a store with a family with a threshold.
pub fn asks_for_two(disk: &FaultyDisk, dir: &Path) -> Result<bool, String> {
    let wish = b"next_format";
    Ok(manifest(disk, dir)?.windows(wish.len()).any(|bytes| bytes == wish))
}

/// The version of the manifest in force. No table and no segment of the log may have a higher one.
pub fn check(disk: &FaultyDisk, dir: &Path) -> Result<u32, String> {
    let manifest = number_at(&manifest(disk, dir)?, 8);
    let above = |(path, version): (PathBuf, u32)| match version > manifest {
        true => Err(format!("{} has version {version}, the manifest {manifest}", path.display())),
        false => Ok(()),
    };
    let tables = files(disk, "sst", footer).into_iter().filter(|(_, bytes)| is_footer(bytes));
    let log = files(disk, "wal", header).into_iter().filter(|(_, bytes)| bytes.starts_with(b"TIDESWAL"));
    // A restored store next to this one may be in another version.
    let own = tables.chain(log).filter(|(path, _)| path.starts_with(dir));
    own.map(|(path, bytes)| (path, number_at(&bytes, 8))).try_for_each(above)?;
    Ok(manifest)
}

/// Flips a bit of a table on a copy of the disk: whoever reads all of the table finds it. False: there is no table.
pub fn damage(disk: &FaultyDisk, random: &mut Random) -> Result<bool, String> {
    let disk = disk.crash(Crash::Kill);
    let mut tables = files(&disk, "sst", footer);
    tables.retain(|(_, bytes)| is_footer(bytes));
    if tables.is_empty() {
        return Ok(false);
    }
    let (path, footer) = &tables[random.below(tables.len() as u64) as usize];
    let len = disk.contents(path).map_or(0, |bytes| bytes.len()) as u64;
    let table_len = u64::from(number_at(footer, 24)).min(len);
    // Half of them in the footer, which tells of all the rest.
    let most = if random.one_in(2) { table_len.min(LONG_FOOTER) } else { table_len };
    let at = len - 1 - random.below(most);
    let bit = random.below(8) as u8;
    disk.flip_bit(path, at, bit);
    let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
    let number = number.ok_or_else(|| format!("{} has no number", path.display()))?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    let files = TableStore::new(disk.shared(), dir, 8);
    let found = SsTable::find_all(&files, &BlockCache::new(64 << 10), number);
    let is_whole = found.is_ok_and(|found| {
        found.damage.is_empty() && found.tables.iter().all(|table| table.verify().is_ok())
    });
    match is_whole {
        true => Err(format!("nobody finds that bit {bit} at {at} of {} is flipped", path.display())),
        false => Ok(true),
    }
}
