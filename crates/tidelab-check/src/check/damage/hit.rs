//! Changes of a file, and their undoing.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::RngExt;
use tidelab_server::error::{io_error, Result};

/// The kind of change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A bit is another one.
    Flip,
    /// The end is gone.
    Cut,
    /// Some bytes are zero.
    Zero,
    /// The file is gone.
    Remove,
    /// It and another one of its kind have changed places.
    Swap,
}

/// The most bytes set to zero.
const ZEROS: u64 = 16 << 10;

/// One table's part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The table; empty: the dictionary.
    pub(super) table: String,
    /// Its first byte.
    pub(super) from: u64,
    /// The byte after its last.
    pub(super) to: u64,
}

/// A possible target: a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The file's path.
    pub(super) path: PathBuf,
    /// The tables in it; none in files of other kinds.
    pub(super) parts: Vec<Part>,
    /// The byte after the last one in use, of a file where others may follow from an earlier use: a running server
    /// writes there. `None`: the bytes in use end with the last one that is not zero.
    pub(super) used: Option<u64>,
}

/// A finished hit.
#[derive(Debug)]
pub(super) struct Hit {
    /// In words.
    pub(super) what: String,
    /// The files touched.
    pub(super) paths: Vec<PathBuf>,
    /// The tables possibly affected.
    pub(super) tables: Vec<String>,
    undo: Undo,
}

#[derive(Debug)]
enum Undo {
    /// These bytes were there, and the file had this length.
    Bytes { path: PathBuf, from: u64, bytes: Vec<u8>, len: u64 },
    /// The files are kept under the first names.
    Names(Vec<(PathBuf, PathBuf)>),
}

/// Makes a hit. `others` are files of the same kind; `keep` is a directory on the same file system. A file
/// without a changeable byte is not hit.
pub(super) fn make(
    way: Way,
    place: &Place,
    others: &[Place],
    keep: &Path,
    random: &mut StdRng,
) -> Result<Option<Hit>> {
    let path = &place.path;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let whole = |place: &Place| place.parts.iter().map(|part| part.table.clone()).collect::<Vec<_>>();
    match way {
        Way::Remove => {
            let kept = keep_name(path, keep)?;
            fs::remove_file(path).map_err(io_error("cannot remove", path))?;
            Ok(Some(Hit {
                what: format!("{name} is removed"),
                paths: vec![path.clone()],
                tables: whole(place),
                undo: Undo::Names(vec![(kept, path.clone())]),
            }))
        }
        Way::Swap => {
            let Some(other) = others.get(random.random_range(0..others.len().max(1))) else {
                return Ok(None);
            };
            let kept = [keep_name(path, keep)?, keep_name(&other.path, keep)?];
            let between = keep.join("between");
            for (from, to) in [(path, &between), (&other.path, path), (&between, &other.path)] {
                fs::rename(from, to).map_err(io_error("cannot rename", from))?;
            }
            let [one, two] = kept;
            Ok(Some(Hit {
                what: format!("{name} and {} have changed places", other.path.display()),
                paths: vec![path.clone(), other.path.clone()],
                tables: [whole(place), whole(other)].concat(),
                undo: Undo::Names(vec![(one, path.clone()), (two, other.path.clone())]),
            }))
        }
        Way::Flip | Way::Cut | Way::Zero => {
            let saved = fs::read(path).map_err(io_error("cannot read", path))?;
            let Some(last) = saved.iter().rposition(|byte| *byte != 0) else { return Ok(None) };
            let end = place.used.unwrap_or(last as u64 + 1);
            let part = match place.parts.len() {
                0 => (0, end),
                parts => {
                    let part = &place.parts[random.random_range(0..parts)];
                    (part.from, part.to.min(end))
                }
            };
            if part.0 >= part.1 {
                return Ok(None);
            }
            let from = random.random_range(part.0..part.1);
            let to = match way {
                Way::Flip => from + 1,
                Way::Zero => part.1.min(from + random.random_range(1..=ZEROS)),
                _ => end,
            };
            let bytes = saved[from as usize..to as usize].to_vec();
            let file = OpenOptions::new().write(true).open(path).map_err(io_error("cannot open", path))?;
            let (what, done) = match way {
                Way::Flip => {
                    let bit = random.random_range(0..8u8);
                    let done = file.write_all_at(&[bytes[0] ^ 1 << bit], from);
                    (format!("bit {bit} of byte {from} of {name} is flipped"), done)
                }
                Way::Zero => {
                    if bytes.iter().all(|byte| *byte == 0) {
                        return Ok(None);
                    }
                    let done = file.write_all_at(&vec![0; bytes.len()], from);
                    (format!("bytes {from} to {to} of {name} are zero"), done)
                }
                _ => (format!("{name} of {} bytes is cut to {from}", saved.len()), file.set_len(from)),
            };
            done.map_err(io_error("cannot change", path))?;
            let is_touched = |part: &&Part| part.from < to && part.to > from;
            Ok(Some(Hit {
                what,
                paths: vec![path.clone()],
                tables: place.parts.iter().filter(is_touched).map(|part| part.table.clone()).collect(),
                undo: Undo::Bytes { path: path.clone(), from, bytes, len: saved.len() as u64 },
            }))
        }
    }
}

impl Hit {
    /// Restores the old bytes; later writes to other bytes of the file stay. The server is down.
    pub(super) fn undo(&self) -> Result<()> {
        match &self.undo {
            Undo::Names(names) => {
                for (kept, path) in names {
                    // Two names of one file: a rename of one to the other would leave both.
                    let _ = fs::remove_file(path);
                    fs::rename(kept, path).map_err(io_error("cannot rename", kept))?;
                }
                Ok(())
            }
            Undo::Bytes { path, .. } if !path.exists() => Ok(()),
            Undo::Bytes { path, from, bytes, len } => {
                let file =
                    OpenOptions::new().write(true).open(path).map_err(io_error("cannot open", path))?;
                let now = file.metadata().map_err(io_error("cannot size", path))?.len();
                file.set_len(now.max(*len)).map_err(io_error("cannot size", path))?;
                file.write_all_at(bytes, *from).map_err(io_error("cannot write", path))
            }
        }
    }
}

/// Another name for a file: it includes writes by a server with the file open.
fn keep_name(path: &Path, keep: &Path) -> Result<PathBuf> {
    let kept = keep.join(path.file_name().unwrap_or_default());
    let _ = fs::remove_file(&kept);
    fs::hard_link(path, &kept).map_err(io_error("cannot link", path))?;
    Ok(kept)
}
