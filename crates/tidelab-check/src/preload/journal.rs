//! Reader of the library's journal (`preload/journal.c`).

use std::ops::Range;
use std::path::{Path, PathBuf};

use tidelab_server::error::{io_error, Error, Result};

use super::Kind;

const MAGIC: u32 = u32::from_be_bytes(*b"LNRJ");
const HEADER: usize = 48;

/// A change, or a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Bytes were written; the length was `length_before`.
    Write { offset: u64, size: u64, length_before: u64 },
    /// A length was set.
    Length { length: u64, length_before: u64 },
    /// Changes of the file before this position are durable.
    Sync { upto: u64 },
    /// Changes of the file before this position are clean, and durable or not.
    FailedSync { upto: u64 },
    /// A name was made.
    Create(PathBuf),
    /// A name was taken away.
    Unlink(PathBuf),
    /// A rename. `replaced`: the inode formerly named `to`; 0: none.
    Rename { from: PathBuf, to: PathBuf, replaced: u64 },
    /// A further name was made.
    Link(PathBuf),
    /// A directory was made.
    MakeDirectory(PathBuf),
    /// A directory was removed.
    RemoveDirectory(PathBuf),
    /// Changes of the directory before this position are durable.
    SyncDirectory { directory: PathBuf, upto: u64 },
}

/// A record.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its position in the journal.
    pub(super) position: u64,
    pub(super) kind: Kind,
    pub(super) inode: u64,
    pub(super) change: Change,
    /// Bytes of the journal with the old bytes of the file.
    pub(super) old: Range<usize>,
}

/// A journal in memory.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

impl Journal {
    /// Reads it. The last record may be cut off: its change was not made.
    pub(super) fn read(path: &Path) -> Result<Journal> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(io_error("cannot read", path))?,
        };
        let mut entries = Vec::new();
        let mut at = 0;
        while let Some((entry, end)) = Entry::read(&bytes, at).map_err(|message| Error::Load {
            what: format!("{} at {at}", path.display()),
            message: message.to_string(),
        })? {
            entries.push(entry);
            at = end;
        }
        Ok(Journal { bytes, entries })
    }
}

impl Entry {
    /// The record at a position and the position after it; none at the end.
    fn read(bytes: &[u8], at: usize) -> std::result::Result<Option<(Entry, usize)>, &'static str> {
        let Some(header) = bytes.get(at..at + HEADER) else { return Ok(None) };
        let word = |from: usize| u64::from_ne_bytes(std::array::from_fn(|i| header[from + i]));
        let short = |from: usize| u16::from_ne_bytes([header[from], header[from + 1]]);
        if u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) != MAGIC {
            return Err("no record begins here");
        }
        let (inode, position, size, extra) = (word(8), word(16), word(24), word(32));
        let payload = usize::try_from(word(40)).map_err(|_| "a record too long")?;
        let start = at + HEADER;
        let end = start.saturating_add(payload);
        let Some(payload) = bytes.get(start..end) else { return Ok(None) };
        let path = |bytes: &[u8]| PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
        let mut old = start..start;
        let change = match short(4) {
            1 => {
                old = start..end;
                Change::Write { offset: position, size, length_before: extra }
            }
            2 => {
                old = start..end;
                Change::Length { length: position, length_before: extra }
            }
            3 => Change::Sync { upto: extra },
            4 => Change::FailedSync { upto: extra },
            5 => Change::Create(path(payload)),
            6 => Change::Unlink(path(payload)),
            7 => {
                let middle =
                    payload.iter().position(|byte| *byte == 0).ok_or("a rename without two names")?;
                let (from, to) = (path(&payload[..middle]), path(&payload[middle + 1..]));
                Change::Rename { from, to, replaced: extra }
            }
            8 => Change::Link(path(payload)),
            9 => Change::MakeDirectory(path(payload)),
            10 => Change::RemoveDirectory(path(payload)),
            11 => Change::SyncDirectory { directory: path(payload), upto: extra },
            _ => return Err("an unknown record"),
        };
        let kind = Kind::of_number(short(6)).ok_or("an unknown kind of file")?;
        Ok(Some((Entry { position: at as u64, kind, inode, change, old }, end)))
    }
}
