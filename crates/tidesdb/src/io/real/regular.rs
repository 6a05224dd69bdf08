//! Only regular files are opened. Opening a FIFO would hang, and a device may do anything. A symbolic link
//! leads out of the store: to a file of another program, to be overwritten.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Error, Result};

/// Opens `path` with these options, if it is a regular file. `Error::Corruption` for anything else in its
/// place; opening it does not wait, whatever it is. `flags` as of `open(2)`, in addition.
pub(super) fn open(path: &Path, options: &mut fs::OpenOptions, flags: libc::c_int) -> Result<fs::File> {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | flags);
    let found = match options.open(path) {
        Ok(file) => {
            let kind = file.metadata().map_err(|e| Error::io("stat", path, e))?.file_type();
            if kind.is_file() {
                return Ok(file);
            }
            kind
        }
        Err(error) => match fs::symlink_metadata(path) {
            // A link, a FIFO without a reader and a socket are not opened at all.
            Ok(found) if !found.is_file() && error.kind() != io::ErrorKind::PermissionDenied => {
                found.file_type()
            }
            _ => return Err(Error::io("open", path, error)),
        },
    };
    let what = format!(
        "{} has this name, and only regular files are opened: remove it, and put the file itself here",
        name_of(found)
    );
    Err(Error::corruption(path, 0, what))
}

fn name_of(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::io::{Disk, OpenMode, RealDisk};

    pub(super) fn fifo(path: &Path) {
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_by_its_kind_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("target"), "untouched").unwrap();
        symlink(at("target"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        fifo(&at("fifo"));
        fs::create_dir(at("directory")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (name, kind) in [
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("fifo", "a FIFO"),
            ("directory", "a directory"),
            ("socket", "a socket"),
        ] {
            assert!(RealDisk.exists(&at(name)).unwrap(), "{name}: its name is taken");
            for mode in [OpenMode::Read, OpenMode::ReadWrite, OpenMode::Create] {
                let refused = RealDisk.open(&at(name), mode).unwrap_err();
                assert!(matches!(refused, Error::Corruption { .. }), "{name}, {mode:?}: {refused}");
                assert!(refused.to_string().contains(kind), "{name}, {mode:?}: {refused}");
            }
            for refused in [RealDisk.lock(&at(name)), RealDisk.lock_shared(&at(name))] {
                assert!(refused.is_err_and(|error| error.to_string().contains(kind)), "{name}");
            }
        }
        assert_eq!(fs::read(at("target")).unwrap(), b"untouched");
        assert!(!at("nowhere").exists());
    }
}
