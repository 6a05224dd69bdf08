//! The container of the check's servers: a memory group with a limit, and programs of their own.
//!
//! A page is charged to its first reader: the limit never evicts somebody else's. Servers here run copies of
//! program and plugin, with their pages dropped before each start.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::directory::forget_file;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::group::MemoryGroup;
use tidelab_server::server::release::Installation;
use tidelab_server::server::settings::Setting;
use tidelab_server::server::{Data, Server, Wanted};

use super::super::Lab;
use super::MEGABYTE;

/// The plugin's name in servers; the file may have any.
const PLUGIN: &str = "ha_tidesdb.so";

/// The place of servers with a limit. One server is in it at a time.
#[derive(Debug)]
pub(super) struct Container<'a> {
    /// The parameters of the check.
    pub lab: &'a Lab<'a>,
    group: std::result::Result<MemoryGroup, String>,
    folder: PathBuf,
    program: PathBuf,
}

impl<'a> Container<'a> {
    /// Makes the group and the copies.
    pub(super) fn make(lab: &'a Lab<'a>) -> Result<Container<'a>> {
        let group = MemoryGroup::open(&format!("tidelab-check-{}", std::process::id()));
        let folder = lab.directory.with_extension("programs");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(io_error("cannot remove", &folder))?;
        }
        let program = copied_prefix(lab.prefix, &folder)?;
        copy_through(lab.plugin, &folder.join(PLUGIN))?;
        Ok(Container { lab, group, folder, program })
    }

    /// Why there is no limit here, if there is none.
    pub(super) fn missing(&self) -> Option<&str> {
        self.group.as_ref().err().map(String::as_str)
    }

    /// Starts a server with so many megabytes for itself and its page cache.
    pub(super) fn start(&self, megabytes: u64, engines: &[Engine], settings: &[Setting]) -> Result<Server> {
        self.start_in(&self.lab.directory, megabytes, engines, settings, &[])
    }

    /// The same in a directory of the caller's and in further groups, by their `cgroup.procs`.
    pub(super) fn start_in(
        &self,
        directory: &Path,
        megabytes: u64,
        engines: &[Engine],
        settings: &[Setting],
        further: &[PathBuf],
    ) -> Result<Server> {
        let plugin = self.folder.join(PLUGIN);
        let mut groups = further.to_vec();
        if let Ok(group) = &self.group {
            forget_file(&self.program)?;
            forget_file(&plugin)?;
            let refused = |message| Error::Load { what: "the limit of a memory group".to_string(), message };
            group.limit(Some(megabytes * MEGABYTE)).map_err(refused)?;
            groups.push(group.procs());
        }
        Server::start(
            &Wanted {
                environment: &[],
                prefix: &self.folder.join("prefix"),
                engines,
                plugin: Some(&plugin),
                directory,
                data: Data::Empty,
                settings,
                allocator: None,
                groups: &groups,
            },
            self.lab.interrupt,
        )
    }

    /// Servers killed by the kernel for want of memory, so far.
    pub(super) fn kills(&self) -> u64 {
        self.group.as_ref().map_or(0, MemoryGroup::kills)
    }

    /// The group in v2, where it can have limits of other kinds too.
    pub(super) fn unified(&self) -> Option<&Path> {
        self.group.as_ref().ok().and_then(MemoryGroup::unified)
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        // The next check removes what is left.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A prefix of links to another's content, with a copy of the server alone: its path.
fn copied_prefix(prefix: &Path, folder: &Path) -> Result<PathBuf> {
    let prefix = fs::canonicalize(prefix).map_err(io_error("cannot find", prefix))?;
    let server = Installation::at(&prefix)?.server;
    let (to, bin) = (folder.join("prefix"), folder.join("prefix/bin"));
    fs::create_dir_all(&bin).map_err(io_error("cannot make", &bin))?;
    link_all(&prefix, &to)?;
    link_all(&prefix.join("bin"), &bin)?;
    let copy = bin.join(server.file_name().unwrap_or_default());
    // `fs::copy` would write through the link.
    let _ = fs::remove_file(&copy);
    copy_through(&server, &copy)?;
    Ok(copy)
}

/// Copies a file to the disk: pages not written back stay in the page cache.
fn copy_through(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map_err(io_error("cannot copy", from))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(io_error("cannot write back", to))
}

/// Links to each entry of a folder except those already there.
fn link_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(io_error("cannot read", from))? {
        let entry = entry.map_err(io_error("cannot read", from))?;
        let link = to.join(entry.file_name());
        if !link.exists() {
            symlink(entry.path(), &link).map_err(io_error("cannot link", &link))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_leave_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for path in [&from.join("bin"), &from.join("share"), &to.join("bin")] {
            fs::create_dir_all(path).unwrap();
        }
        link_all(&from, &to).unwrap();
        assert!(!to.join("bin").is_symlink() && to.join("share").is_symlink());
    }

    #[test]
    fn a_forgotten_file_keeps_its_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "content").unwrap();
        forget_file(file.path()).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"content");
    }
}
