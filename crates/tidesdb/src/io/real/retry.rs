//! Interrupted system calls.

use std::io;

/// Repeats `call` while it is interrupted; -1 becomes the last OS error.
pub(super) fn retry(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
    loop {
        if call() != -1 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
