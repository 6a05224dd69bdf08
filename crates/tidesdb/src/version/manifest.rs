//! The manifest file: a log of checksummed [`Edit`]s, and `CURRENT`, which names the one in force
//! (`docs/format/manifest.md`). Writer and reader beside each other. Guarantees: an edit is durable when
//! [`ManifestWriter::append`] returns; reading gives a prefix of what was appended that holds every
//! durable edit, or an error that names file and offset.
//!
//! Stands between the I/O trait and [`super::VersionSet`], which decides what to write.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::{Disk, File, OpenMode};
use crate::types::FileNo;

use super::edit::Edit;

/// Name of the file that names the manifest in force.
pub const CURRENT: &str = "CURRENT";
/// Name under which `CURRENT` is written before it is renamed.
pub const CURRENT_TMP: &str = "CURRENT.tmp";

const FORMAT_VERSION: u32 = 1;
const HEADER_MAGIC: &[u8; 8] = b"TDBMANIF";
const HEADER_LEN: usize = 24;
const EDIT_MAGIC: &[u8; 4] = b"EDIT";
const EDIT_HEADER_LEN: usize = 16;

/// Name of the manifest with a number.
pub fn manifest_name(number: FileNo) -> String {
    format!("MANIFEST-{number:08}")
}

/// The number in a manifest's name, if it is one.
pub fn parse_manifest_name(name: &str) -> Option<FileNo> {
    let digits = name.strip_prefix("MANIFEST-")?;
    if digits.len() < 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn edit_checksum(manifest: FileNo, ordinal_and_len: &[u8], payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&manifest.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(crc, ordinal_and_len), payload)
}

/// Appends edits to a new manifest. After an error nothing more may be appended: what the file holds is
/// unknown.
#[derive(Debug)]
pub struct ManifestWriter {
    file: Arc<dyn File>,
    number: FileNo,
    ordinal: u32,
    len: u64,
    snapshot_len: u64,
    failed: bool,
}

impl ManifestWriter {
    /// Writes a new manifest whose first edit is `snapshot`, and syncs it and its directory. It is in force
    /// only after [`set_current`].
    pub fn create(disk: &dyn Disk, dir: &Path, number: FileNo, snapshot: &Edit) -> Result<ManifestWriter> {
        let file = disk.open(&dir.join(manifest_name(number)), OpenMode::Create)?;
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend_from_slice(HEADER_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        frame(number, 0, snapshot, &mut bytes)?;
        file.write_at(&bytes, 0)?;
        file.sync_data()?;
        disk.sync_dir(dir)?;
        let len = bytes.len() as u64;
        Ok(ManifestWriter { file, number, ordinal: 1, len, snapshot_len: len, failed: false })
    }

    /// Appends an edit and syncs.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        if self.failed {
            return Err(Error::ReadOnly(format!("{} failed before", self.file.path().display())));
        }
        let mut bytes = Vec::new();
        frame(self.number, self.ordinal, edit, &mut bytes)?;
        self.failed = true;
        self.file.write_at(&bytes, self.len)?;
        self.file.sync_data()?;
        self.failed = false;
        self.len += bytes.len() as u64;
        self.ordinal += 1;
        Ok(())
    }

    /// The number in its name.
    pub fn number(&self) -> FileNo {
        self.number
    }

    /// Bytes written.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Bytes of header and snapshot.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_len
    }
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

/// Makes `CURRENT` name a manifest, durably. On an error either name may be in force.
pub fn set_current(disk: &dyn Disk, dir: &Path, number: FileNo) -> Result<()> {
    let name = manifest_name(number);
    let line = format!("{name} {:08x}\n", crc32c::crc32c(name.as_bytes()));
    let temporary = dir.join(CURRENT_TMP);
    let file = disk.open(&temporary, OpenMode::Create)?;
    file.write_at(line.as_bytes(), 0)?;
    file.sync_data()?;
    drop(file);
    disk.rename(&temporary, &dir.join(CURRENT))?;
    disk.sync_dir(dir)
}

/// The manifest that `CURRENT` names, or `None` if there is no `CURRENT`.
pub fn read_current(disk: &dyn Disk, dir: &Path) -> Result<Option<FileNo>> {
    let path = dir.join(CURRENT);
    if !disk.exists(&path)? {
        return Ok(None);
    }
    let line = read_all(disk, &path)?;
    let number = std::str::from_utf8(&line).ok().and_then(|line| {
        let (name, crc) = line.strip_suffix('\n')?.split_once(' ')?;
        let number = parse_manifest_name(name)?;
        (crc == format!("{:08x}", crc32c::crc32c(name.as_bytes()))).then_some(number)
    });
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(Error::corruption(path, 0, "this is not a manifest's name with its checksum")),
    }
}

/// Reads a manifest: its edits in order, the first a snapshot. A torn tail is dropped.
pub fn read_manifest(disk: &dyn Disk, dir: &Path, number: FileNo) -> Result<Vec<Edit>> {
    let path = dir.join(manifest_name(number));
    let bytes = read_all(disk, &path)?;
    parse(&path, number, &bytes)
}

fn read_all(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn parse(path: &Path, number: FileNo, bytes: &[u8]) -> Result<Vec<Edit>> {
    let damage = |at: usize, what: String| Error::corruption(path, at as u64, what);
    if bytes.len() < HEADER_LEN || &bytes[..8] != HEADER_MAGIC {
        return Err(damage(0, "this is not a manifest".into()));
    }
    let version = u32::from_le_bytes(array(&bytes[8..12]));
    if crc32c::crc32c(&bytes[..20]) != u32::from_le_bytes(array(&bytes[20..24])) {
        return Err(damage(0, "the header's checksum is wrong".into()));
    }
    if version != FORMAT_VERSION {
        return Err(damage(
            8,
            format!("manifest format version {version}; this engine knows {FORMAT_VERSION}"),
        ));
    }
    if u64::from_le_bytes(array(&bytes[12..20])) != number {
        return Err(damage(12, "the header has the number of another manifest".into()));
    }
    let mut edits = Vec::new();
    let mut at = HEADER_LEN;
    while let Some(payload) = edit_at(bytes, at, number, edits.len() as u32) {
        let start = at + EDIT_HEADER_LEN;
        edits.push(Edit::decode(payload).map_err(|e| damage(start + e.at, e.what))?);
        at = start + payload.len();
    }
    if edits.is_empty() {
        return Err(damage(HEADER_LEN, "the snapshot at the manifest's begin is not valid".into()));
    }
    // A torn tail unless a whole edit of this manifest stands behind it.
    for behind in at + 1..bytes.len().saturating_sub(EDIT_HEADER_LEN - 1) {
        if &bytes[behind..behind + 4] != EDIT_MAGIC {
            continue;
        }
        let ordinal = u32::from_le_bytes(array(&bytes[behind + 4..behind + 8]));
        if ordinal > edits.len() as u32 && edit_at(bytes, behind, number, ordinal).is_some() {
            return Err(damage(at, format!("edit {} is not valid, but edit {ordinal} is", edits.len())));
        }
    }
    Ok(edits)
}

/// The payload of the valid edit `ordinal` that begins at `at`.
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
mod tests {
    use super::*;

    /// The bytes of a manifest with these edits, and where each ends.
    fn manifest(number: FileNo, edits: &[Edit]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(HEADER_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let mut ends = Vec::new();
        for (i, edit) in edits.iter().enumerate() {
            frame(number, i as u32, edit, &mut bytes).unwrap();
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn edits() -> Vec<Edit> {
        (0..5)
            .map(|i| Edit {
                next_file: Some(100 + i),
                last_seq: Some(i * 1000),
                options: vec![("name".into(), "x".repeat(i as usize * 7))],
                ..Edit::default()
            })
            .collect()
    }

    fn parsed(bytes: &[u8]) -> Result<Vec<String>> {
        Ok(parse(Path::new("m"), 7, bytes)?.iter().map(|e| format!("{e:?}")).collect())
    }

    #[test]
    fn every_truncation_is_a_prefix_and_none_of_the_snapshot_is_damage() {
        let (bytes, ends) = manifest(7, &edits());
        let all: Vec<String> = edits().iter().map(|e| format!("{e:?}")).collect();
        for len in 0..=bytes.len() {
            let whole = ends.iter().filter(|&&end| end <= len).count();
            match parsed(&bytes[..len]) {
                Ok(read) => assert_eq!(read, all[..whole], "cut at {len}"),
                Err(_) => assert_eq!(whole, 0, "cut at {len}"),
            }
        }
    }

    #[test]
    fn every_bit_flip_is_an_error_or_takes_only_the_last_edit() {
        let (bytes, ends) = manifest(7, &edits());
        let all: Vec<String> = edits().iter().map(|e| format!("{e:?}")).collect();
        let last = ends[ends.len() - 2];
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match parsed(&damaged) {
                Ok(read) => {
                    assert!(bit / 8 >= last, "a flip of bit {bit} was not noticed");
                    assert_eq!(read, all[..all.len() - 1]);
                }
                Err(Error::Corruption { .. }) => assert!(bit / 8 < last, "bit {bit} of the tail"),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn a_tail_of_zeros_or_of_another_manifest_is_dropped() {
        let (mut bytes, _) = manifest(7, &edits());
        let (other, ends) = manifest(6, &edits());
        bytes.extend_from_slice(&[0; 5000]);
        assert_eq!(parsed(&bytes).unwrap().len(), 5);
        bytes.extend_from_slice(&other[ends[3]..]);
        assert_eq!(parsed(&bytes).unwrap().len(), 5);
    }

    #[test]
    fn a_newer_format_version_is_named() {
        let (mut bytes, _) = manifest(7, &edits());
        bytes[8] = 9;
        let crc = crc32c::crc32c(&bytes[..20]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        assert!(parsed(&bytes).unwrap_err().to_string().contains("format version 9"));
    }

    #[test]
    fn names_round_trip() {
        assert_eq!(parse_manifest_name(&manifest_name(12)), Some(12));
        assert_eq!(parse_manifest_name(&manifest_name(123_456_789_012)), Some(123_456_789_012));
        for wrong in ["MANIFEST-1", "MANIFEST-0000000x", "manifest-00000001", "MANIFEST-+0000001"] {
            assert_eq!(parse_manifest_name(wrong), None);
        }
    }
}
