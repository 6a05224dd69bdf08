//! The steady disk: ext4 on a loop device over a file in memory, with the same speed all the time.
//!
//! The disks of rented machines are fast for a while and then throttled: a figure taken on one tells how long
//! the burst lasted. This one is memory below a limit of the server's group ([`throttle`]), verified before
//! it counts ([`probe`]).
//!
//! The file's pages are allocated by the laboratory, from outside of any server's group: they are not
//! charged to a server's limit. The file system never gives blocks back to the device, because a block
//! written anew would be charged to its writer.
//!
//! [`SteadyDisk`] owns mounts and loop device and undoes them when it is dropped, also after Ctrl-C. After a
//! kill the next one finds them by the names of their files and undoes them. It needs root.

pub mod probe;
pub mod throttle;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::{fallocate, FallocateFlags, Flock};
use nix::unistd::geteuid;

use crate::error::{io_error, Error, Result};
use crate::server::{end_leftovers_below, lock_directory};

/// The file below the file system.
const IMAGE: &str = "tidelab-steady-disk.ext4";
/// Memory reserved for the machine itself and the clients.
const RESERVE: u64 = 1 << 30;
/// The file system around the image needs some pages of its own.
const AROUND: u64 = 16 << 20;
/// A process may hold a mount for a moment after its end.
const UNMOUNT_TRIES: u32 = 50;

/// A resource of this machine, or the reason for its lack.
pub type Had<T> = std::result::Result<T, String>;

/// A mounted steady disk.
#[derive(Debug)]
pub struct SteadyDisk {
    folder: PathBuf,
    bytes: u64,
    device: String,
    _lock: Flock<File>,
}

impl SteadyDisk {
    /// Makes one of `bytes` in `folder`, for a server and clients with `beside` bytes of memory. Leftovers of
    /// a killed run are undone first. The inner error is this machine's reason against one.
    pub fn make(folder: &Path, bytes: u64, beside: u64) -> Result<Had<SteadyDisk>> {
        if !geteuid().is_root() {
            return Ok(Err("only root can mount it".to_string()));
        }
        fs::create_dir_all(folder).map_err(io_error("cannot make", folder))?;
        let folder = fs::canonicalize(folder).map_err(io_error("cannot find", folder))?;
        let lock = lock_directory(&folder)?;
        end_leftovers_below(&folder)?;
        undo(&folder)?;
        if let Err(why) = fits(available(), bytes, beside) {
            return Ok(Err(why));
        }
        for name in ["memory", "disk"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(io_error("cannot make", &path))?;
        }
        let mut disk = SteadyDisk { folder, bytes, device: String::new(), _lock: lock };
        match disk.mount() {
            Ok(()) => Ok(Ok(disk)),
            // Dropping it undoes the part that was made.
            Err(Error::Load { what, message }) => Ok(Err(format!("{what}: {message}"))),
            Err(error) => Err(error),
        }
    }

    fn mount(&mut self) -> Result<()> {
        let (memory, image) = (self.folder.join("memory"), self.image());
        let size = format!("size={},mode=700", self.bytes + AROUND);
        run("mount", &["-t", "tmpfs", "-o", &size, "tidelab-steady-disk", &text(&memory)])?;
        File::create(&image).map_err(io_error("cannot make", &image))?;
        self.fill()?;
        // Nothing is put off to later, and no block is given back.
        let options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-F", "-m", "0", "-E", options, &text(&image)])?;
        self.fill()?;
        let device = run("losetup", &["--find", "--show", "--direct-io=on", &text(&image)])?;
        let device = device.trim();
        run("mount", &["-o", "noatime,nodiscard", device, &text(self.path_of("disk"))])?;
        let name = device.rsplit('/').next().unwrap_or_default();
        let numbers = PathBuf::from(format!("/sys/block/{name}/dev"));
        let numbers = fs::read_to_string(&numbers).map_err(io_error("cannot read", &numbers))?;
        self.device = numbers.trim().to_string();
        Ok(())
    }

    fn image(&self) -> PathBuf {
        self.folder.join("memory").join(IMAGE)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Allocates every missing page of the file, on the laboratory's account.
    pub fn fill(&self) -> Result<()> {
        let image = self.image();
        let file = File::options().write(true).open(&image).map_err(io_error("cannot open", &image))?;
        let length = i64::try_from(self.bytes).unwrap_or(i64::MAX);
        fallocate(&file, FallocateFlags::empty(), 0, length)
            .map_err(|errno| io_error("cannot allocate", &image)(errno.into()))
    }

    /// The mounted file system.
    pub fn path(&self) -> PathBuf {
        self.path_of("disk")
    }

    /// The block device, as `7:0`.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for SteadyDisk {
    fn drop(&mut self) {
        if let Err(error) = undo(&self.folder) {
            eprintln!("tidelab: the steady disk stays mounted, the next run removes it: {error}");
        }
    }
}

/// Checks that a disk of so many bytes fits next to other users of memory.
fn fits(available: u64, bytes: u64, beside: u64) -> Had<()> {
    let needed = bytes + beside + RESERVE;
    if needed <= available {
        return Ok(());
    }
    let mb = |bytes: u64| bytes >> 20;
    Err(format!(
        "a steady disk of {} MB, {} MB for the server and {} MB for the clients and the machine need {} MB of memory; \
         {} MB are free: a smaller steady_disk_mb, or a machine with more",
        mb(bytes),
        mb(beside),
        mb(RESERVE),
        mb(needed),
        mb(available)
    ))
}

/// Memory available without swapping, in bytes.
fn available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|n| n.parse::<u64>().ok())
        .map_or(0, |kb| kb << 10)
}

/// Undoes mounts and loop devices in a folder, whoever made them.
fn undo(folder: &Path) -> Result<()> {
    // The file system first, then the device below it, then the memory below that.
    unmount(&folder.join("disk"))?;
    let image = folder.join("memory").join(IMAGE);
    for device in loop_devices(&image) {
        run("losetup", &["--detach", &device])?;
    }
    unmount(&folder.join("memory"))
}

/// The loop devices over a file.
fn loop_devices(image: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    let over = |path: &Path| {
        let file = fs::read_to_string(path.join("loop/backing_file")).unwrap_or_default();
        Path::new(file.trim_end_matches('\n')) == image
    };
    entries
        .flatten()
        .filter(|entry| over(&entry.path()))
        .map(|entry| format!("/dev/{}", entry.file_name().to_string_lossy()))
        .collect()
}

/// Unmounts everything at a path, one upon the other.
fn unmount(at: &Path) -> Result<()> {
    let mut tries = 0;
    while is_mounted(at) {
        match run("umount", &[&text(at)]) {
            Ok(_) => {}
            Err(error) if tries >= UNMOUNT_TRIES => return Err(error),
            Err(_) => {
                tries += 1;
                sleep(Duration::from_millis(100));
            }
        }
    }
    Ok(())
}

fn is_mounted(at: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut points = mount_points(&table);
    points.any(|point| Path::new(&point) == at)
}

/// The mount points of a `/proc/self/mountinfo`.
fn mount_points(table: &str) -> impl Iterator<Item = String> + '_ {
    table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped)
}

/// A field of the table; blanks and backslashes are octal numbers there.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_string(), |text, (code, plain)| text.replace(code, plain))
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

/// Runs a tool; its output.
fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let failed = |message: String| Error::Load { what: program.to_string(), message };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_does_not_fit_is_refused_with_the_sum() {
        const GB: u64 = 1 << 30;
        assert!(fits(8 * GB, 6 * GB, GB).is_ok());
        let why = fits(8 * GB, 7 * GB, GB).unwrap_err();
        assert!(
            why.contains("9216 MB") && why.contains("8192 MB") && why.contains("steady_disk_mb"),
            "{why}"
        );
    }

    #[test]
    fn mount_points_with_blanks_are_found() {
        let table =
            "26 1 0:24 / /sys rw - sysfs sysfs rw\n27 1 7:0 / /a\\040b/disk rw - ext4 /dev/loop0 rw\n";
        assert_eq!(mount_points(table).collect::<Vec<_>>(), ["/sys", "/a b/disk"]);
    }

    /// Counts of mounts and of loop devices with a folder in their path.
    fn traces(folder: &Path) -> (usize, usize) {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounted = mount_points(&table).filter(|p| Path::new(p).starts_with(folder)).count();
        (mounted, loop_devices(&folder.join("memory").join(IMAGE)).len())
    }

    #[test]
    #[ignore = "mounts, loop devices, control groups: as root, `cargo test -p tidelab-server disk -- --ignored`"]
    fn a_disk_leaves_nothing_and_the_next_one_removes_what_a_kill_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        let disk = match SteadyDisk::make(&path, 64 << 20, 0).unwrap() {
            Ok(disk) => disk,
            Err(why) => return eprintln!("not here: {why}"),
        };
        assert_eq!(traces(&path), (2, 1));
        assert!(SteadyDisk::make(&path, 64 << 20, 0).is_err(), "one run at a time");
        fs::write(disk.path().join("x"), [1; 100_000]).unwrap();
        // As a kill leaves it.
        let kept = std::mem::ManuallyDrop::new(disk);
        // SAFETY: the lock is read once, and the original is never dropped.
        drop(unsafe { std::ptr::read(&raw const kept._lock) });
        let again = SteadyDisk::make(&path, 64 << 20, 0).unwrap().unwrap();
        assert!(!again.path().join("x").exists());
        assert_eq!(traces(&path), (2, 1));
        drop(again);
        assert_eq!(traces(&path), (0, 0));
    }
}
