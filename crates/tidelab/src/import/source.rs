//! The input of an import: single files, folders with all below them, and archives (`.tar`, `.tar.gz`,
//! `.tar.xz`, `.tar.zst`).
//!
//! Archives are read as they are, without unpacking them to disk. Compressed ones go through the system's
//! `gzip`, `xz` or `zstd`.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tidelab_server::error::{io_error, Error, Result};

/// A whole file of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Its path below the named one, with `/`.
    pub path: String,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl InputFile {
    /// The part after the last `/`.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The part before it; empty for none.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// As text; invalid bytes stand as U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The files of all named paths, and a sentence for everything else in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// In the order of their paths.
    pub files: Vec<InputFile>,
    /// Notes of entries other than files, and of duplicates.
    pub notes: Vec<String>,
}

/// The compression by the ending of an archive's name, and the program to undo it.
const COMPRESSED: [(&str, &str); 6] = [
    (".tar.xz", "xz"),
    (".txz", "xz"),
    (".tar.gz", "gzip"),
    (".tgz", "gzip"),
    (".tar.zst", "zstd"),
    (".tar", ""),
];

/// Reads everything below these paths. Nothing is left out silently: links and devices stand in the notes,
/// and a path held twice by an archive is there twice.
pub fn read(paths: &[std::path::PathBuf]) -> Result<Files> {
    let mut all = Files::default();
    for path in paths {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        // Of several paths each keeps its own name before those of its files.
        let before = if paths.len() > 1 { format!("{name}/") } else { String::new() };
        if path.is_dir() {
            folder(path, &before, &mut all)?;
        } else if let Some((_, program)) = COMPRESSED.iter().find(|(end, _)| name.ends_with(end)) {
            archive(path, program, &before, &mut all)?;
        } else {
            let bytes = fs::read(path).map_err(io_error("cannot read", path))?;
            let parent = path.parent().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
            let path = match parent {
                Some(parent) if paths.len() > 1 => format!("{parent}/{name}"),
                _ => name,
            };
            all.files.push(InputFile { path, bytes });
        }
    }
    all.files.sort_by(|a, b| a.path.cmp(&b.path));
    if all.files.is_empty() {
        let named: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        return Err(Error::Usage(format!("there is no file in {}", named.join(", "))));
    }
    Ok(all)
}

fn folder(path: &Path, before: &str, all: &mut Files) -> Result<()> {
    for entry in fs::read_dir(path).map_err(io_error("cannot read", path))? {
        let entry = entry.map_err(io_error("cannot read", path))?;
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(io_error("cannot read", entry.path()))?;
        if kind.is_dir() {
            folder(&entry.path(), &format!("{name}/"), all)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).map_err(io_error("cannot read", entry.path()))?;
            all.files.push(InputFile { path: name, bytes });
        } else {
            all.notes.push(format!("{name} is no file: it is not followed"));
        }
    }
    Ok(())
}

fn archive(path: &Path, program: &str, before: &str, all: &mut Files) -> Result<()> {
    let file = File::open(path).map_err(io_error("cannot read", path))?;
    if program.is_empty() {
        return entries(file, path, before, all);
    }
    let mut child = Command::new(program)
        .args(["--decompress", "--stdout"])
        .stdin(Stdio::from(file))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|_| Error::Missing {
            what: program.to_string(),
            remedy: format!(
                "{} is compressed with it; Debian's packages are xz-utils, gzip, zstd",
                path.display()
            ),
        })?;
    let read = match child.stdout.take() {
        Some(pipe) => entries(pipe, path, before, all),
        None => Ok(()),
    };
    let ended = wait(&mut child, program, path);
    // An archive that ends in its middle is the program's complaint first.
    ended.and(read)
}

fn wait(child: &mut Child, program: &str, path: &Path) -> Result<()> {
    let status = child.wait().map_err(io_error("cannot wait for", program))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Load {
        what: format!("{program} --decompress {}", path.display()),
        message: format!("it ended with {status}: the archive is not whole"),
    })
}

fn entries(tar: impl Read, path: &Path, before: &str, all: &mut Files) -> Result<()> {
    let bad =
        |error: std::io::Error| Error::Load { what: path.display().to_string(), message: error.to_string() };
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let inside = entry.path().map_err(bad)?.to_string_lossy().into_owned();
        let name = format!("{before}{}", inside.trim_start_matches("./"));
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            continue;
        }
        if !kind.is_file() && !kind.is_contiguous() {
            all.notes.push(format!("{name} is no file: it is not followed"));
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(bad)?;
        all.files.push(InputFile { path: name, bytes });
    }
    // Bytes after the archive's end are read too, or the program that writes them would fail.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(bad)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, text) in [("./d/b.txt", "two"), ("a.txt", "one"), ("a.txt", "other")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, "link", "/etc/passwd").unwrap();
        tar.into_inner().unwrap()
    }

    fn listed(files: &Files) -> Vec<(&str, String)> {
        files.files.iter().map(|f| (f.path.as_str(), f.text())).collect()
    }

    #[test]
    fn an_archive_gives_all_its_files_also_those_that_are_there_twice() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("x.tar");
        fs::write(&plain, packed()).unwrap();
        let files = read(std::slice::from_ref(&plain)).unwrap();
        let expected = [("a.txt", "one".into()), ("a.txt", "other".into()), ("d/b.txt", "two".into())];
        assert_eq!(listed(&files), expected);
        assert_eq!(files.notes, ["link is no file: it is not followed"]);
        assert_eq!((files.files[2].name(), files.files[2].folder()), ("b.txt", "d"));
    }

    #[test]
    fn a_compressed_archive_is_read_and_half_of_one_refused() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("x.tar");
        fs::write(&plain, packed()).unwrap();
        assert!(Command::new("gzip").arg("-k").arg(&plain).status().unwrap().success());
        let packed = folder.path().join("x.tar.gz");
        assert_eq!(read(std::slice::from_ref(&packed)).unwrap(), read(&[plain]).unwrap());
        let bytes = fs::read(&packed).unwrap();
        fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
        let error = read(&[packed]).unwrap_err().to_string();
        assert!(error.contains("not whole"), "{error}");
    }

    #[test]
    fn folders_and_files_keep_what_tells_them_apart() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("log.txt"), name).unwrap();
        }
        let both = read(&[folder.path().join("one"), folder.path().join("two")]).unwrap();
        let expected = [("one/log.txt", "one".into()), ("two/log.txt", "two".into())];
        assert_eq!(listed(&both), expected);
        let files = read(&[folder.path().join("one/log.txt"), folder.path().join("two/log.txt")]).unwrap();
        assert_eq!(listed(&files), expected);
        assert_eq!(listed(&read(&[folder.path().join("one/log.txt")]).unwrap()), [("log.txt", "one".into())]);
        fs::create_dir(folder.path().join("empty")).unwrap();
        let error = read(&[folder.path().join("empty")]).unwrap_err().to_string();
        assert!(error.contains("there is no file in"), "{error}");
    }
}
