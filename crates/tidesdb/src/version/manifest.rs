//! The manifest, a log of checksummed [`Edit`]s, and `CURRENT`, the file with the name of the manifest in
//! force (`docs/format/manifest.md`). Writer and reader are next to each other.
//!
//! Guarantees: an edit is durable when [`ManifestWriter::append`] returns. Reading returns a prefix of the
//! appended edits with every durable edit in it, or an error with file and offset.
//!
//! A manifest reserves its blocks before its edits need them. The last [`RESERVE`] bytes are for urgent edits,
//! half of them also for flushes without output. A store on a full disk can therefore open, and drop a family
//! (`docs/protocols.md` 7.3).
//!
//! Data flow: [`super::VersionSet`] decides on the edits; this module writes them through the I/O trait.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::checksum;
use crate::io::{read_whole, Disk, File, OpenMode};
use crate::mutant::{self, Mutant};
use crate::options::FormatVersion;
use crate::types::FileNo;

use super::edit::Edit;

/// The file with the name of the manifest in force.
pub const CURRENT: &str = "CURRENT";
/// Temporary name of a new `CURRENT` before its rename.
pub const CURRENT_TMP: &str = "CURRENT.tmp";

const HEADER_MAGIC: &[u8; 8] = b"TDBMANIF";
/// Bytes of the header of version 1. That of version 2 begins with them.
const HEADER_LEN: usize = 24;
const LONG_HEADER_LEN: usize = 64;
const LONG_HEADER_CRC_AT: usize = LONG_HEADER_LEN - 4;
const EDIT_MAGIC: &[u8; 4] = b"EDIT";
const EDIT_HEADER_LEN: usize = 16;

/// Granularity of the reservation of blocks, in bytes.
const BLOCK: u64 = if cfg!(simulation) { 4 << 10 } else { 64 << 10 };
/// Reserved bytes beyond the reach of ordinary edits: room for some hundred drops of a family.
const RESERVE: u64 = if cfg!(simulation) { 2 << 10 } else { 16 << 10 };

/// File name of manifest `number`.
pub fn manifest_name(number: FileNo) -> String {
    format!("MANIFEST-{number:08}")
}

/// Parses a manifest's file name; `None` for any other name.
pub fn parse_manifest_name(name: &str) -> Option<FileNo> {
    let digits = name.strip_prefix("MANIFEST-")?;
    if digits.len() < 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn edit_checksum(manifest: FileNo, ordinal_and_len: &[u8], payload: &[u8]) -> u32 {
    let crc = checksum::crc(&manifest.to_le_bytes());
    checksum::extend(checksum::extend(crc, ordinal_and_len), payload)
}

/// An edit's claim on the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Most edits: no part of the reserve.
    Ordinary,
    /// The edit of a flush without output. It frees memory and log, and may use half of the reserve; flushes
    /// of short-lived rows would otherwise exhaust it.
    EmptyFlush,
    /// An edit needed on a full disk, for an epoch, a boundary or dropped families: all of the reserve.
    Urgent,
}

impl Need {
    /// Bytes of the reserve that the edit must leave.
    fn leaves(self) -> u64 {
        match self {
            Need::Ordinary => RESERVE,
            Need::EmptyFlush => RESERVE / 2,
            Need::Urgent => 0,
        }
    }
}

/// Appends edits to a manifest. An error after which [`ManifestWriter::failed`] is true leaves unknown
/// contents in the file: nothing more may be appended.
#[derive(Debug)]
pub struct ManifestWriter {
    file: Arc<dyn File>,
    number: FileNo,
    format: FormatVersion,
    ordinal: u32,
    len: u64,
    /// Allocated bytes of the file.
    allocated: u64,
    snapshot_len: u64,
    failed: bool,
}

/// Allocated size, in bytes, of a manifest with `len` bytes of edits.
fn reserved(len: u64) -> u64 {
    (len + RESERVE).next_multiple_of(BLOCK)
}

impl ManifestWriter {
    /// Writes a new manifest with `snapshot` as its first edit, and syncs it and its directory.
    /// [`set_current`] puts it in force.
    pub fn create(
        disk: &dyn Disk,
        dir: &Path,
        number: FileNo,
        format: FormatVersion,
        snapshot: &Edit,
    ) -> Result<ManifestWriter> {
        let file = disk.open(&dir.join(manifest_name(number)), OpenMode::Create)?;
        let mut bytes = header(number, format);
        frame(number, 0, snapshot, &mut bytes)?;
        let len = bytes.len() as u64;
        let allocated = reserved(len);
        file.allocate(allocated)?;
        file.write_at(&bytes, 0)?;
        let moves_unsynced = format == FormatVersion::Two && mutant::is(Mutant::MoveUnsynced);
        if !mutant::is(Mutant::NewManifestUnsynced) && !moves_unsynced {
            file.sync_data()?;
        }
        disk.sync_dir(dir)?;
        Ok(ManifestWriter {
            file,
            number,
            format,
            ordinal: 1,
            len,
            allocated,
            snapshot_len: len,
            failed: false,
        })
    }

    /// Continues the manifest in force, written by an earlier process, on a disk without room for a new one.
    /// Its bytes may be in the page cache alone, and a sync proves nothing about another process's writes.
    /// Therefore they are written again in place; a torn tail becomes zeros.
    pub fn resume(disk: &dyn Disk, dir: &Path, number: FileNo) -> Result<ManifestWriter> {
        let path = dir.join(manifest_name(number));
        let mut bytes = read_whole(disk, &path)?;
        let found = parse(&path, number, &bytes)?;
        let file = disk.open(&path, OpenMode::ReadWrite)?;
        bytes[found.end..].fill(0);
        file.write_at(&bytes, 0)?;
        file.sync_data()?;
        Ok(ManifestWriter {
            file,
            number,
            format: found.format,
            ordinal: found.edits.len() as u32,
            len: found.end as u64,
            allocated: bytes.len() as u64,
            snapshot_len: found.snapshot_end as u64,
            failed: false,
        })
    }

    /// Appends an edit and syncs. `DiskFull` with [`ManifestWriter::failed`] false means that nothing was
    /// written.
    pub fn append(&mut self, edit: &Edit, need: Need) -> Result<()> {
        if self.failed {
            return Err(Error::ReadOnly(format!("{} failed before", self.file.path().display())));
        }
        let mut bytes = Vec::new();
        frame(self.number, self.ordinal, edit, &mut bytes)?;
        let end = self.len + bytes.len() as u64;
        if end + RESERVE > self.allocated {
            match self.file.allocate(reserved(end)) {
                Ok(()) => self.allocated = reserved(end),
                Err(Error::DiskFull(_)) if end + need.leaves() <= self.allocated => {}
                Err(error) => {
                    self.failed = !matches!(error, Error::DiskFull(_));
                    return Err(error);
                }
            }
        }
        self.failed = true;
        self.file.write_at(&bytes, self.len)?;
        if !mutant::is(Mutant::ManifestUnsynced) {
            self.file.sync_data()?;
        }
        self.failed = false;
        self.len += bytes.len() as u64;
        self.ordinal += 1;
        Ok(())
    }

    /// True if an error left the file in an unknown state.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Number of the manifest.
    pub fn number(&self) -> FileNo {
        self.number
    }

    /// Version of the manifest, and so of the store.
    pub fn format(&self) -> FormatVersion {
        self.format
    }

    /// Written bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Bytes of the header and the snapshot.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_len
    }
}

fn header(number: FileNo, format: FormatVersion) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LONG_HEADER_LEN);
    bytes.extend_from_slice(HEADER_MAGIC);
    bytes.extend_from_slice(&format.number().to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&checksum::crc(&bytes).to_le_bytes());
    if format == FormatVersion::Two {
        bytes.resize(LONG_HEADER_CRC_AT, 0);
        bytes.extend_from_slice(&checksum::crc(&bytes).to_le_bytes());
    }
    bytes
}

fn frame(manifest: FileNo, ordinal: u32, edit: &Edit, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.resize(start + EDIT_HEADER_LEN, 0);
    edit.encode(out);
    let len = u32::try_from(out.len() - start - EDIT_HEADER_LEN)
        .map_err(|_| Error::InvalidArgument("an edit of the manifest has more than 4 GiB".into()))?;
    out[start..start + 4].copy_from_slice(EDIT_MAGIC);
    out[start + 4..start + 8].copy_from_slice(&ordinal.to_le_bytes());
    out[start + 8..start + 12].copy_from_slice(&len.to_le_bytes());
    let crc = edit_checksum(manifest, &out[start + 4..start + 12], &out[start + EDIT_HEADER_LEN..]);
    out[start + 12..start + 16].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// Puts a manifest in force durably, by a new `CURRENT`. After an error either manifest may be in force.
pub fn set_current(disk: &dyn Disk, dir: &Path, number: FileNo) -> Result<()> {
    let name = manifest_name(number);
    let line = format!("{name} {:08x}\n", checksum::crc(name.as_bytes()));
    let temporary = dir.join(CURRENT_TMP);
    let file = disk.open(&temporary, OpenMode::Create)?;
    file.write_at(line.as_bytes(), 0)?;
    if !mutant::is(Mutant::CurrentUnsynced) {
        file.sync_data()?;
    }
    drop(file);
    disk.rename(&temporary, &dir.join(CURRENT))?;
    if mutant::is(Mutant::CurrentDirUnsynced) {
        return Ok(());
    }
    disk.sync_dir(dir)
}

/// Number of the manifest in force, or `None` without a `CURRENT`.
pub fn read_current(disk: &dyn Disk, dir: &Path) -> Result<Option<FileNo>> {
    let path = dir.join(CURRENT);
    if !disk.exists(&path)? {
        return Ok(None);
    }
    let line = read_whole(disk, &path)?;
    let number = std::str::from_utf8(&line).ok().and_then(|line| {
        let (name, crc) = line.strip_suffix('\n')?.split_once(' ')?;
        let number = parse_manifest_name(name)?;
        (crc == format!("{:08x}", checksum::crc(name.as_bytes()))).then_some(number)
    });
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(Error::corruption(path, 0, "this is not a manifest's name with its checksum")),
    }
}

/// The only whole manifest of a directory, for a store without its `CURRENT`. `None` if there is none, or if
/// there are several: the newest is then unknown (a switch prevented by a full disk leaves one over).
pub fn find_only(disk: &dyn Disk, dir: &Path) -> Result<Option<FileNo>> {
    if !disk.exists(dir)? {
        return Ok(None);
    }
    let mut whole = Vec::new();
    for number in disk.list(dir)?.iter().filter_map(|name| parse_manifest_name(name)) {
        match read_manifest(disk, dir, number) {
            Ok(_) => whole.push(number),
            Err(Error::Corruption { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(if let [only] = whole[..] { Some(only) } else { None })
}

/// Reads a manifest: its version, and its edits in order, first a snapshot. A torn tail is dropped.
pub fn read_manifest(disk: &dyn Disk, dir: &Path, number: FileNo) -> Result<(FormatVersion, Vec<Edit>)> {
    let path = dir.join(manifest_name(number));
    let bytes = read_whole(disk, &path)?;
    let found = parse(&path, number, &bytes)?;
    Ok((found.format, found.edits))
}

/// The readable part of a manifest, for inspection.
#[derive(Debug)]
pub struct ManifestDump {
    /// The manifest's version, where the header is whole.
    pub format: FormatVersion,
    /// The edits in order, first a snapshot, each with the offset of its first byte.
    pub edits: Vec<(u64, Edit)>,
    /// End of the last edit, an offset.
    pub end: u64,
    /// Length of the file in bytes.
    pub len: u64,
    /// Nonzero bytes follow the last edit, from an interrupted write.
    pub is_torn: bool,
    /// The damage at which reading ended.
    pub damage: Option<Error>,
}

/// Reads the manifest at `path`, complete or damaged.
///
/// # Errors
/// `InvalidArgument` for a path with another file name; I/O.
pub fn dump(disk: &dyn Disk, path: &Path) -> Result<ManifestDump> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(number) = name.and_then(parse_manifest_name) else {
        let what = format!("{} has not the name of a manifest, MANIFEST-00000001", path.display());
        return Err(Error::InvalidArgument(what));
    };
    let bytes = read_whole(disk, path)?;
    let (found, damage) = scan(path, number, &bytes);
    let is_torn = damage.is_none() && bytes[found.end..].iter().any(|byte| *byte != 0);
    let starts = found.starts.iter().map(|start| *start as u64);
    let (len, end, format) = (bytes.len() as u64, found.end as u64, found.format);
    Ok(ManifestDump { format, edits: starts.zip(found.edits).collect(), end, len, is_torn, damage })
}

/// The parsed contents of a manifest.
#[derive(Debug, Default)]
struct Parsed {
    format: FormatVersion,
    edits: Vec<Edit>,
    /// Offset of each edit.
    starts: Vec<usize>,
    /// End of the snapshot and end of the last valid edit, as offsets.
    snapshot_end: usize,
    end: usize,
}

fn parse(path: &Path, number: FileNo, bytes: &[u8]) -> Result<Parsed> {
    match scan(path, number, bytes) {
        (parsed, None) => Ok(parsed),
        (_, Some(error)) => Err(error),
    }
}

/// The edits before the first damage, and the damage.
fn scan(path: &Path, number: FileNo, bytes: &[u8]) -> (Parsed, Option<Error>) {
    let mut found = Parsed::default();
    let damage = check_header(path, number, bytes).and_then(|format| {
        found.format = format;
        scan_edits(path, number, bytes, &mut found)
    });
    (found, damage.err())
}

fn header_len(format: FormatVersion) -> usize {
    match format {
        FormatVersion::One => HEADER_LEN,
        FormatVersion::Two => LONG_HEADER_LEN,
    }
}

fn check_header(path: &Path, number: FileNo, bytes: &[u8]) -> Result<FormatVersion> {
    let damage = |at: u64, what: String| Error::corruption(path, at, what);
    if bytes.len() < HEADER_LEN || &bytes[..8] != HEADER_MAGIC {
        return Err(damage(0, "this is not a manifest".into()));
    }
    let version = u32::from_le_bytes(array(&bytes[8..12]));
    if checksum::crc(&bytes[..20]) != u32::from_le_bytes(array(&bytes[20..24])) {
        return Err(damage(0, "the header's checksum is wrong".into()));
    }
    let Some(format) = FormatVersion::from_number(version) else {
        let newest = FormatVersion::Two.number();
        let what = format!("manifest format version {version}; this engine knows {newest}");
        return Err(match version > newest {
            true => Error::later_version(path, what),
            false => damage(8, what),
        });
    };
    if u64::from_le_bytes(array(&bytes[12..20])) != number {
        return Err(damage(12, "the header has the number of another manifest".into()));
    }
    if format == FormatVersion::Two {
        check_long_header(path, bytes)?;
    }
    Ok(format)
}

/// Checks the bytes that version 2 adds to the header.
fn check_long_header(path: &Path, bytes: &[u8]) -> Result<()> {
    let header = bytes.get(..LONG_HEADER_LEN).filter(|header| {
        let (covered, crc) = header.split_at(LONG_HEADER_CRC_AT);
        checksum::crc(covered) == u32::from_le_bytes(array(crc))
    });
    let Some(header) = header else {
        return Err(Error::corruption(
            path,
            HEADER_LEN as u64,
            "the checksum of the header's second part is wrong",
        ));
    };
    let later = |what: &str| Err(Error::later_version(path, what.to_string()));
    if header[24..52].iter().any(|byte| *byte != 0) {
        return later("sealed edits");
    }
    if header[52..LONG_HEADER_CRC_AT].iter().any(|byte| *byte != 0) {
        return later("reserved bytes of a manifest's header are in use");
    }
    Ok(())
}

fn scan_edits(path: &Path, number: FileNo, bytes: &[u8], found: &mut Parsed) -> Result<()> {
    let damage = |at: usize, what: String| Error::corruption(path, at as u64, what);
    let begin = header_len(found.format);
    found.end = begin;
    while let Some(payload) = edit_at(bytes, found.end, number, found.edits.len() as u32) {
        let start = found.end + EDIT_HEADER_LEN;
        let edit = Edit::decode(payload).map_err(|e| match e.later {
            true => Error::later_version(path, e.what),
            false => damage(start + e.at, e.what),
        })?;
        found.edits.push(edit);
        found.starts.push(found.end);
        found.end = start + payload.len();
        if found.edits.len() == 1 {
            found.snapshot_end = found.end;
        }
    }
    if found.edits.is_empty() {
        return Err(damage(begin, "the snapshot at the manifest's begin is not valid".into()));
    }
    // A torn tail unless a whole edit of this manifest stands after it.
    let (at, known) = (found.end, found.edits.len());
    for after in at + 1..bytes.len().saturating_sub(EDIT_HEADER_LEN - 1) {
        if &bytes[after..after + 4] != EDIT_MAGIC {
            continue;
        }
        let ordinal = u32::from_le_bytes(array(&bytes[after + 4..after + 8]));
        if ordinal > known as u32 && edit_at(bytes, after, number, ordinal).is_some() {
            return Err(damage(at, format!("edit {known} is not valid, but edit {ordinal} is")));
        }
    }
    Ok(())
}

/// Payload of edit `ordinal` at offset `at`, if it is valid.
fn edit_at(bytes: &[u8], at: usize, manifest: FileNo, ordinal: u32) -> Option<&[u8]> {
    let header = bytes.get(at..at + EDIT_HEADER_LEN)?;
    if &header[..4] != EDIT_MAGIC || u32::from_le_bytes(array(&header[4..8])) != ordinal {
        return None;
    }
    let len = u32::from_le_bytes(array(&header[8..12])) as usize;
    let start = at + EDIT_HEADER_LEN;
    let payload = bytes.get(start..start.checked_add(len)?)?;
    (edit_checksum(manifest, &header[4..12], payload) == u32::from_le_bytes(array(&header[12..16])))
        .then_some(payload)
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

#[cfg(test)]
mod tests;
