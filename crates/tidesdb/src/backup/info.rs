//! The file [`INFO`] makes a directory a backup: it names the point and lists the files. Text, one item a
//! line, readable by people; its last line is the checksum of the lines before.
//!
//! ```text
//! TidesDB backup, version 1
//! kind full                          or: links
//! sequence 1234                      the newest commit in it
//! log-end 7:81920                    where its log ends: segment, offset
//! begun 1763777000                   seconds since 1970, as is the next
//! finished 1763777030
//! note binlog_position 4711          name, then the rest of the line; any number of them
//! shared 65536                       bytes of files that it shares with the backup it is based on; none: no line
//! left-out store/000012.sst shop/t   a damaged file, then a family with tables in it, escaped; any number of them
//! file 65536 5f1a09c3 store/CURRENT  length, CRC-32C (links: `-`), path; any number of them
//! crc 1a2b3c4d                       CRC-32C of all lines before
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::checksum;
use crate::io::{read_at_most, Disk, OpenMode};
use crate::table::TableStore;
use crate::types::{FileNo, Lsn, Seq};

/// Name of the file.
pub const INFO: &str = "tidesdb_backup_info";

/// Directories of a backup: the store, and the owner's files.
pub(super) const STORE: &str = "store";
pub(super) const DATA: &str = "data";

const FIRST_LINE: &str = "TidesDB backup, version ";
const VERSION: &str = "1";

/// Longest file: some million names.
const MOST_BYTES: u64 = 256 << 20;

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Path in the backup, with `/`.
    pub name: String,
    /// Length in bytes.
    pub len: u64,
    /// CRC-32C of its content. `None` for hard-linked tables, whose blocks have checksums of their own.
    pub crc: Option<u32>,
}

/// A damaged file left out of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its path in the backup, where it would be.
    pub file: String,
    /// Name of a family with tables in it.
    pub family: String,
}

/// The content of the file [`INFO`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupInfo {
    /// Tables are links.
    pub links: bool,
    /// The newest commit in it.
    pub seq: Seq,
    /// End of its log.
    pub log_end: Lsn,
    /// Seconds since 1970.
    pub begun: u64,
    /// Seconds since 1970.
    pub finished: u64,
    /// Notes of the store's owner: names and values.
    pub notes: Vec<(String, String)>,
    /// Bytes of files shared, as hard links, with an earlier backup.
    pub shared_bytes: u64,
    /// Damaged files of the store, left out of the backup; one entry for each family in a file.
    pub left_out: Vec<LeftOut>,
    /// All files but this one.
    pub files: Vec<BackupFile>,
}

/// Refuses names outside the backup, and names a line cannot hold.
pub(super) fn check_name(name: &str) -> Result<()> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    match name.split('/').all(plain) && !name.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!("'{}' is not a name in a backup", name.escape_debug()))),
    }
}

pub(super) fn check_note(name: &str, value: &str) -> Result<()> {
    let one_line = |text: &str| !text.contains('\n');
    match !name.is_empty() && !name.contains(' ') && one_line(name) && one_line(value) {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!("the note '{}' is not one line", name.escape_debug()))),
    }
}

/// A family's name in a line: control characters and backslashes as `\u{H}`.
fn escaped(name: &str) -> String {
    let plain = |letter: char| !letter.is_control() && letter != '\\';
    let code = |letter: char| format!("\\u{{{:x}}}", u32::from(letter));
    name.chars().map(|letter| if plain(letter) { letter.to_string() } else { code(letter) }).collect()
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split("\\u{");
    let mut name = parts.next()?.to_string();
    for part in parts {
        let (code, rest) = part.split_once('}')?;
        name.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
        name.push_str(rest);
    }
    Some(name)
}

impl BackupInfo {
    pub(super) fn begin(links: bool, now: u64) -> BackupInfo {
        BackupInfo {
            links,
            seq: 0,
            log_end: Lsn::ZERO,
            begun: now,
            finished: 0,
            notes: Vec::new(),
            shared_bytes: 0,
            left_out: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The value of a note.
    pub fn find_note(&self, name: &str) -> Option<&str> {
        self.notes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Numbers of the damaged files left out.
    pub(super) fn left_out_files(&self) -> BTreeSet<FileNo> {
        let name =
            |left_out: &LeftOut| TableStore::number_of_any(Path::new(&left_out.file).file_name()?.to_str()?);
        self.left_out.iter().filter_map(name).collect()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.len))
    }

    fn text(&self) -> String {
        let mut out = format!("{FIRST_LINE}{VERSION}\n");
        let mut line = |what: std::fmt::Arguments<'_>| {
            // A string takes everything.
            let _ = writeln!(out, "{what}");
        };
        line(format_args!("kind {}", if self.links { "links" } else { "full" }));
        line(format_args!("sequence {}", self.seq));
        line(format_args!("log-end {}:{}", self.log_end.segment(), self.log_end.offset()));
        line(format_args!("begun {}", self.begun));
        line(format_args!("finished {}", self.finished));
        for (name, value) in &self.notes {
            line(format_args!("note {name} {value}"));
        }
        if self.shared_bytes > 0 {
            line(format_args!("shared {}", self.shared_bytes));
        }
        for left_out in &self.left_out {
            line(format_args!("left-out {} {}", left_out.file, escaped(&left_out.family)));
        }
        for file in &self.files {
            let crc = file.crc.map_or("-".to_string(), |crc| format!("{crc:08x}"));
            line(format_args!("file {} {crc} {}", file.len, file.name));
        }
        let crc = checksum::crc(out.as_bytes());
        let _ = writeln!(out, "crc {crc:08x}");
        out
    }

    /// Writes the file as a whole, durably, name included.
    pub(super) fn write(&self, disk: &dyn Disk, path: &Path) -> Result<()> {
        let temporary = path.with_extension("tmp");
        let written = disk.open(&temporary, OpenMode::Create).and_then(|file| {
            file.write_at(self.text().as_bytes(), 0)?;
            file.sync_data()
        });
        if let Err(error) = written.and_then(|()| disk.rename(&temporary, path)) {
            let _ = disk.remove(&temporary);
            return Err(error);
        }
        disk.sync_dir(path.parent().unwrap_or(Path::new("/")))
    }

    /// Reads the file of the backup in `dir`.
    ///
    /// # Errors
    /// `InvalidArgument` if it is missing: no backup, or an unfinished one. `Corruption`, with the line, if
    /// it is damaged or of a later version.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<BackupInfo> {
        let path = dir.join(INFO);
        if !disk.exists(&path)? {
            return Err(Error::InvalidArgument(format!(
                "{} is not a finished backup: it has no {INFO}, which is written last",
                dir.display()
            )));
        }
        let bytes = read_at_most(disk, &path, MOST_BYTES)?;
        parse(&bytes).map_err(|(line, what)| Error::corruption(&path, 0, format!("line {line}: {what}")))
    }
}

type Fault = (usize, String);

fn parse(bytes: &[u8]) -> std::result::Result<BackupInfo, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| (1, "not UTF-8".to_string()))?;
    let version = text.strip_prefix(FIRST_LINE).and_then(|rest| rest.lines().next());
    match version {
        None => return Err((1, "this is not the description of a backup".into())),
        Some(VERSION) => {}
        Some(other) => {
            return Err((1, format!("version {other} of the format; this build knows {VERSION}")));
        }
    }
    let last = text.trim_end_matches('\n').rfind('\n').map_or(0, |end| end + 1);
    let lines = text.lines().count();
    let crc = text[last..].strip_prefix("crc ").map(|crc| crc.trim_end_matches('\n'));
    if crc != Some(format!("{:08x}", checksum::crc(&bytes[..last])).as_str()) || !text.ends_with('\n') {
        return Err((lines, "the sum of the file is missing or wrong".into()));
    }
    let mut info = BackupInfo::begin(false, 0);
    for (at, line) in text[..last].lines().enumerate().skip(1) {
        info.take(line).ok_or_else(|| (at + 1, format!("'{}' is not understood", line.escape_debug())))?;
    }
    Ok(info)
}

impl BackupInfo {
    fn take(&mut self, line: &str) -> Option<()> {
        let (what, rest) = line.split_once(' ')?;
        match what {
            "kind" => {
                self.links = match rest {
                    "full" => false,
                    "links" => true,
                    _ => return None,
                }
            }
            "sequence" => self.seq = rest.parse().ok()?,
            "log-end" => {
                let (segment, offset) = rest.split_once(':')?;
                self.log_end = Lsn::new(segment.parse().ok()?, offset.parse().ok()?);
            }
            "begun" => self.begun = rest.parse().ok()?,
            "finished" => self.finished = rest.parse().ok()?,
            "note" => {
                let (name, value) = rest.split_once(' ')?;
                self.notes.push((name.to_string(), value.to_string()));
            }
            "shared" => self.shared_bytes = rest.parse().ok()?,
            "left-out" => {
                let (file, family) = rest.split_once(' ')?;
                check_name(file).ok()?;
                self.left_out.push(LeftOut { file: file.to_string(), family: unescaped(family)? });
            }
            "file" => {
                let (len, rest) = rest.split_once(' ')?;
                let (crc, name) = rest.split_once(' ')?;
                check_name(name).ok()?;
                let crc = match crc {
                    "-" => None,
                    crc => Some(u32::from_str_radix(crc, 16).ok()?),
                };
                self.files.push(BackupFile { name: name.to_string(), len: len.parse().ok()?, crc });
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> BackupInfo {
        let file = |name: &str, crc| BackupFile { name: name.into(), len: 77, crc };
        BackupInfo {
            links: true,
            seq: 12,
            log_end: Lsn::new(3, 4096),
            begun: 100,
            finished: 200,
            notes: vec![("gtid".into(), "0-1-2,1-1-3".into()), ("empty".into(), String::new())],
            shared_bytes: 77,
            left_out: vec![LeftOut { file: "store/000012.sst".into(), family: "a \\u/ö\0p".into() }],
            files: vec![file("store/CURRENT", Some(0xab)), file("data/a b/t.frm", None)],
        }
    }

    #[test]
    fn it_round_trips_and_every_changed_bit_is_refused() {
        let text = info().text();
        assert_eq!(parse(text.as_bytes()).expect("parses"), info());
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert!(parse(&bytes).is_err(), "bit {bit} of byte {at}");
            }
            assert!(parse(&text.as_bytes()[..at]).is_err(), "cut at {at}");
        }
    }

    /// Lengths are checked against the files only later: a wrong length is refused then, not here.
    #[test]
    fn lengths_beyond_all_bounds_are_summed_without_overflow() {
        let mut huge = info();
        huge.files[0].len = u64::MAX;
        let read = parse(huge.text().as_bytes()).expect("parses");
        assert_eq!(read.bytes(), u64::MAX);
    }

    #[test]
    fn a_later_version_and_names_that_lead_out_are_refused() {
        let later = info().text().replacen("version 1", "version 2", 1);
        assert!(parse(later.as_bytes()).expect_err("refused").1.contains("version 2"));
        for name in ["../x", "/x", "a//b", "a/./b", "a\nb", "", "a/.."] {
            assert!(check_name(name).is_err(), "{name:?}");
            let mut leading = info();
            leading.files[0].name = name.into();
            assert!(parse(leading.text().as_bytes()).is_err(), "{name:?}");
        }
        assert!(check_note("two words", "x").is_err() && check_note("x", "a\nb").is_err());
    }
}
