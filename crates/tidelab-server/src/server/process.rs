//! The programs of an installation, and the end of their processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::error::{Error, Result};

/// Time limit of a server's end, until it is killed.
///
/// A B+tree writes all changed pages at its end: it takes a while after a load.
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(300);

/// The program of this name in the prefix: packages, tarballs and built trees have it in different
/// places.
pub fn program(prefix: &Path, name: &str) -> Result<PathBuf> {
    let path = prefix.join("bin").join(name);
    for folder in ["bin", "sbin", "libexec", "scripts"] {
        let path = prefix.join(folder).join(name);
        if path.is_file() {
            return Ok(path);
        }
    }
    let remedy = "make setup brings it; --prefix names the directory whose bin/ has it".to_string();
    Err(Error::Missing { what: path.display().to_string(), remedy })
}

/// True for an existing process, not a zombie.
pub(super) fn process_runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
}

/// Asks a process to end and waits until `ended`; kills it after [`STOP_LIMIT`]. True when
/// it ended by itself.
pub(super) fn end_process(pid: u32, ended: impl FnMut() -> bool) -> bool {
    end_process_within(pid, STOP_LIMIT, ended)
}

pub(super) fn end_process_within(pid: u32, limit: Duration, mut ended: impl FnMut() -> bool) -> bool {
    if ended() {
        return true;
    }
    let target = Pid::from_raw(pid as i32);
    // An error means that it is gone already, which `ended` will say.
    let _ = kill(target, Signal::SIGTERM);
    let start = Instant::now();
    while !ended() {
        if start.elapsed() > limit {
            let _ = kill(target, Signal::SIGKILL);
            while !ended() && start.elapsed() < limit + STOP_LIMIT {
                sleep(Duration::from_millis(50));
            }
            return false;
        }
        sleep(Duration::from_millis(50));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_the_remedy() {
        let text = program(Path::new("/nowhere"), "mariadbd").unwrap_err().to_string();
        assert!(text.contains("/nowhere/bin/mariadbd") && text.contains("make setup"), "{text}");
    }
}
