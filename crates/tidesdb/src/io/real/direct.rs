//! Reads past the page cache (`O_DIRECT`): whether a file can be read so, and in which units.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

/// Bytes of a sector where the kernel does not tell: no device wants more.
const UNKNOWN: usize = 4096;

/// Bytes of a sector of `file`, open with `O_DIRECT`: in these units, at these addresses in memory.
///
/// # Errors
/// `EINVAL` if the file system says that it cannot do it (Linux 6.1 and later).
pub(super) fn alignment(file: &fs::File) -> io::Result<usize> {
    // SAFETY: all-zero is a value of this structure of numbers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let fd = file.as_raw_fd();
    // SAFETY: the path is an empty string, so the call is about `fd`, open as long as `file`; the kernel fills `found`.
    let done =
        unsafe { libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &raw mut found) };
    if done != 0 || found.stx_mask & libc::STATX_DIOALIGN == 0 {
        return Ok(UNKNOWN);
    }
    let sector = found.stx_dio_offset_align.max(found.stx_dio_mem_align) as usize;
    match sector.is_power_of_two() {
        true => Ok(sector),
        false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}
