//! The working directory of a server: its lock, leftovers of earlier runs, links to plugins, data.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::fcntl::{posix_fadvise, Flock, FlockArg, PosixFadviseAdvice};
use nix::unistd::geteuid;

use super::engine::Engine;
use super::process::{end_process, process_runs, program};
use super::release::{Family, Installation};
use super::wanted::Wanted;
use crate::error::{io_error, Error, Result};

/// The longest path in a socket's address.
const SOCKET_PATH_LIMIT: usize = 107;
/// Marks a directory as the laboratory's own: it may be emptied again.
const MARKER: &str = "made-by-tidelab";
/// The data folders of a server's directory: the server's own and TidesDB's.
const DATA_FOLDERS: [&str; 2] = ["data", "tidesdb_data"];

/// One run at a time on a directory; the lock goes with the process.
pub(crate) fn lock_directory(directory: &Path) -> Result<Flock<File>> {
    let path = directory.join("lock");
    let file =
        OpenOptions::new().create(true).append(true).open(&path).map_err(io_error("cannot open", &path))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
        Error::Usage(format!(
            "another run works in {}: wait for it, or name another directory with --data",
            directory.display()
        ))
    })
}

/// Ends a server left by a killed run: the process with this option file in its command line.
pub(super) fn end_leftover(options: &Path) -> Result<()> {
    end_leftovers(|named| named == options)
}

/// Ends servers left by a killed run below a folder: those with their option file there.
pub(crate) fn end_leftovers_below(folder: &Path) -> Result<()> {
    end_leftovers(|named| named.starts_with(folder))
}

fn end_leftovers(is_left: impl Fn(&Path) -> bool) -> Result<()> {
    let processes = fs::read_dir("/proc").map_err(io_error("cannot read", "/proc"))?;
    for entry in processes.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        if words.any(|word| word.strip_prefix("--defaults-file=").is_some_and(|p| is_left(Path::new(p)))) {
            eprintln!("tidelab: ending the server that an earlier run left (process {pid})");
            end_process(pid, || !process_runs(pid));
        }
    }
    Ok(())
}

/// Removes an earlier run's files from a directory of ours, and marks it as ours. A directory with other
/// things in it is refused.
pub(super) fn empty(directory: &Path) -> Result<()> {
    let ours = directory.join(MARKER).exists();
    for entry in fs::read_dir(directory).map_err(io_error("cannot read", directory))? {
        let entry = entry.map_err(io_error("cannot read", directory))?;
        let path = entry.path();
        if entry.file_name() == MARKER || entry.file_name() == "lock" {
            continue;
        }
        if !ours {
            return Err(Error::Usage(format!(
                "{} holds things that tidelab did not make; name an empty directory with --data",
                directory.display()
            )));
        }
        let is_directory = entry.file_type().map_err(io_error("cannot read", &path))?.is_dir();
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(io_error("cannot remove", &path))?;
    }
    let marker = directory.join(MARKER);
    fs::write(&marker, "tidelab empties this directory when it starts a server in it\n")
        .map_err(io_error("cannot write", &marker))
}

/// A folder with links to the prefix's plugins and to TidesDB's. Installations share the prefix, so no
/// plugin of the laboratory may lie in it.
pub(super) fn link_plugins(wanted: &Wanted<'_>, folder: &Path) -> Result<()> {
    let shipped = ["lib/mysql/plugin", "lib/plugin"].map(|path| wanted.prefix.join(path));
    let shipped = shipped.iter().find(|path| path.is_dir()).unwrap_or(&shipped[0]);
    fs::create_dir_all(folder).map_err(io_error("cannot make", folder))?;
    for entry in fs::read_dir(shipped).map_err(io_error("cannot read", shipped))? {
        let entry = entry.map_err(io_error("cannot read", shipped))?;
        let link = folder.join(entry.file_name());
        symlink(entry.path(), &link).map_err(io_error("cannot link", &link))?;
    }
    for engine in wanted.engines {
        let Some(name) = engine.plugin() else { continue };
        let link = folder.join(name);
        if *engine == Engine::TidesDb {
            let plugin = wanted.plugin.ok_or_else(|| {
                Error::Usage("TidesDB is to be measured: name its plugin with --plugin".to_string())
            })?;
            let plugin = fs::canonicalize(plugin).map_err(|_| Error::Missing {
                what: plugin.display().to_string(),
                remedy: "make plugin builds it".to_string(),
            })?;
            // One that the prefix ships would be another version.
            let _ = fs::remove_file(&link);
            symlink(&plugin, &link).map_err(io_error("cannot link", &link))?;
        } else if !link.exists() {
            return Err(Error::Missing {
                what: shipped.join(name).display().to_string(),
                remedy: format!("make setup brings it; without {engine}: --engines"),
            });
        }
    }
    Ok(())
}

/// The socket's path; true if it is outside of the directory, because the directory's path is too long for a
/// socket.
pub(super) fn socket_path(directory: &Path) -> (PathBuf, bool) {
    let inside = directory.join("mysqld.sock");
    if inside.as_os_str().len() <= SOCKET_PATH_LIMIT {
        return (inside, false);
    }
    // A process has several servers, as the nodes of a cluster.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("tidelab-{}-{number}", std::process::id()));
    // When this fails, the server says so in its log.
    let _ = fs::create_dir_all(&folder);
    (folder.join("mysqld.sock"), true)
}

/// A data directory without users but root, copied from the prefix's template or made.
pub(super) fn make_data_directory(installation: &Installation, data: &Path, log: &Path) -> Result<()> {
    let prefix = &installation.prefix;
    let template = prefix.join("template");
    if template.join("mysql").is_dir() {
        return copy_folder(&template, data);
    }
    let mut command = match installation.release.family {
        Family::MariaDB => {
            let mut command = Command::new(program(prefix, "mariadb-install-db")?);
            command.args(["--no-defaults", "--skip-test-db", "--skip-name-resolve"]);
            command.arg("--auth-root-authentication-method=normal");
            command
        }
        Family::MySQL | Family::Percona => {
            let mut command = Command::new(&installation.server);
            command.args(["--no-defaults", "--initialize-insecure", "--secure-file-priv="]);
            command
        }
    };
    command.arg(format!("--basedir={}", prefix.display())).arg(format!("--datadir={}", data.display()));
    if geteuid().is_root() {
        command.arg("--user=root");
    }
    let output =
        command.stdin(Stdio::null()).process_group(0).output().map_err(io_error("cannot make", data))?;
    if output.status.success() {
        return Ok(());
    }
    fs::write(log, [output.stdout, output.stderr].concat()).map_err(io_error("cannot write", log))?;
    Err(Error::Server {
        what: format!("the data directory {} could not be made", data.display()),
        tail: tail(log),
        log: log.display().to_string(),
    })
}

/// Copies or moves the data of a server from one directory to another.
pub(super) fn bring(from: &Path, to: &Path, one: fn(&Path, &Path) -> Result<()>) -> Result<()> {
    for name in DATA_FOLDERS {
        let source = from.join(name);
        if source.is_dir() {
            one(&source, &to.join(name))?;
        }
    }
    Ok(())
}

pub(super) fn move_folder(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(io_error("cannot move", from))
}

pub(super) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("cp");
    // The folder itself may be a link: its content is wanted.
    command.args(["-a", "-H", "--reflink=auto", "--sparse=always"]).arg(from).arg(to);
    run_tool(command, "copying", from)
}

/// Waits until the files of a directory are on the device, to keep a copy's writes out of measured time.
pub(super) fn write_back(directory: &Path) -> Result<()> {
    let mut command = Command::new("sync");
    command.arg("--file-system").arg(directory);
    run_tool(command, "writing back", directory)
}

/// Takes a directory's files, already written back, out of the page cache. Their pages are charged to the
/// copying process, and a server in a group would read them for nothing.
pub(super) fn forget_pages(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(io_error("cannot read", directory))? {
        let entry = entry.map_err(io_error("cannot read", directory))?;
        let (path, kind) = (entry.path(), entry.file_type());
        let kind = kind.map_err(io_error("cannot read", &path))?;
        if kind.is_dir() {
            forget_pages(&path)?;
        } else if kind.is_file() {
            forget_file(&path)?;
        }
    }
    Ok(())
}

/// Takes a file, already written back, out of the page cache: the next reader is charged for its pages.
pub fn forget_file(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(io_error("cannot open", path))?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
        .map_err(|errno| io_error("cannot forget the pages of", path)(errno.into()))
}

fn run_tool(mut command: Command, what: &str, path: &Path) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .map_err(io_error("cannot run a tool on", path))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(Error::Load { what: format!("{what} {}", path.display()), message: text })
}

/// The last lines of a log.
pub(super) fn tail(log: &Path) -> String {
    const LINES: usize = 30;
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_directory_of_ours_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let stranger = folder.path().join("thesis.tex");
        fs::write(&stranger, "x").unwrap();
        assert!(empty(folder.path()).unwrap_err().to_string().contains("did not make"));
        assert!(stranger.exists());

        fs::remove_file(&stranger).unwrap();
        empty(folder.path()).unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("my.cnf"), "x").unwrap();
        empty(folder.path()).unwrap();
        assert!(!folder.path().join("data").exists() && !folder.path().join("my.cnf").exists());
    }

    #[test]
    fn a_second_run_on_a_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock_directory(folder.path()).unwrap();
        assert!(lock_directory(folder.path()).unwrap_err().to_string().contains("--data"));
        drop(first);
        lock_directory(folder.path()).unwrap();
    }

    #[test]
    fn a_leftover_process_is_found_by_its_option_file() {
        let folder = tempfile::tempdir().unwrap();
        let options = folder.path().join("my.cnf");
        let mut process = Command::new("sh")
            .args(["-c", "read line", "mariadbd", &format!("--defaults-file={}", options.display())])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        sleep(Duration::from_millis(100));
        end_leftover(&options).unwrap();
        assert!(process.wait().unwrap().code().is_none(), "ended by a signal");
    }

    #[test]
    fn frozen_data_are_copied_as_often_as_wanted_and_moved_once() {
        let folder = tempfile::tempdir().unwrap();
        let (frozen, first, second) =
            (folder.path().join("frozen"), folder.path().join("first"), folder.path().join("second"));
        for path in [&frozen.join("data/db"), &frozen.join("tidesdb_data"), &first, &second] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(frozen.join("data/db/t.frm"), "x").unwrap();
        bring(&frozen, &first, copy_folder).unwrap();
        assert!(first.join("data/db/t.frm").exists() && frozen.join("data/db/t.frm").exists());
        bring(&frozen, &second, move_folder).unwrap();
        assert!(second.join("data/db/t.frm").exists() && second.join("tidesdb_data").exists());
        assert!(!frozen.join("data").exists());
        assert!(copy_folder(Path::new("/nowhere/at/all"), &first).is_err());
    }

    #[test]
    fn a_long_path_moves_the_socket() {
        let (inside, moved) = socket_path(Path::new("/short"));
        assert_eq!((inside.as_path(), moved), (Path::new("/short/mysqld.sock"), false));
        let (outside, moved) = socket_path(&Path::new("/").join("x".repeat(100)));
        assert!(moved && outside.as_os_str().len() <= SOCKET_PATH_LIMIT);
        fs::remove_dir_all(outside.parent().unwrap()).unwrap();
    }
}
