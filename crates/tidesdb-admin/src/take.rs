//! A backup of a running server, all engines at one moment.
//!
//! TidesDB's tables become files, as by `SET GLOBAL tidesdb_backup_dir`. The rest goes the way of
//! `mariadb-backup`, or into a dump. Both have one moment: BACKUP STAGE BLOCK_COMMIT, a barrier to writers.
//! The server's backup of the store waits for this stage of another connection, and takes its point while
//! nobody commits.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{chown, DirBuilderExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::cli::{Rest, Take};
use crate::connection::{Address, Connection};
use crate::output::{Failure, Out};
use crate::programs::Programs;
use crate::rest::{self, cannot, Others, DUMP, FILES};
use crate::store_backup::{StoreBackup, OURS};
use crate::DONE;

/// Takes the backup into a new directory.
pub fn run(wanted: &Take, out: &mut Out<'_>, mut progress: Option<&mut dyn Write>) -> Result<u8, Failure> {
    if wanted.stream && io::stdout().is_terminal() {
        return Err(Failure::Other("--stream writes an archive, and standard output is a terminal".into()));
    }
    let address = wanted.login.address();
    let mut server = Connection::open(&address)?;
    let programs = Programs::of(&mut server)?;
    let rest = wanted.with.unwrap_or(match programs.backup {
        Some(_) => Rest::MariadbBackup,
        None => Rest::MariadbDump,
    });
    make_directory(&wanted.dir, &mut server)?;
    let taken = take(wanted, rest, &address, &programs, &mut server, &mut progress);
    if let Some(progress) = progress.as_mut() {
        let _ = write!(progress, "\r\x1b[K");
    }
    let warnings = taken.inspect_err(|_| {
        let _ = fs::remove_dir_all(&wanted.dir);
    })?;
    if wanted.stream {
        return stream(&wanted.dir);
    }
    tell(wanted, rest, &warnings, out)
}

/// Writes the directory to standard output, and removes it.
fn stream(dir: &Path) -> Result<u8, Failure> {
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--directory").arg(dir).arg(".").stdin(Stdio::null());
    let written = tar.status();
    let _ = fs::remove_dir_all(dir);
    match written {
        Ok(status) if status.success() => Ok(DONE),
        Ok(status) => Err(Failure::Other(format!("tar: {status}"))),
        Err(error) => Err(Failure::Other(format!("tar: {error}"))),
    }
}

fn tell(wanted: &Take, rest: Rest, warnings: &[String], out: &mut Out<'_>) -> Result<u8, Failure> {
    let ours = wanted.dir.join(OURS);
    let (path, what) = match rest {
        Rest::MariadbBackup => (Some(wanted.dir.join(FILES)), "the other engines' files, by mariadb-backup"),
        Rest::MariadbDump => {
            (Some(wanted.dir.join(DUMP)), "the other engines' tables, users, routines, events")
        }
        Rest::Nothing => (None, ""),
    };
    out.document(&json!({
        "backup": ours.to_string_lossy(), "rest": path.as_ref().map(|path| path.to_string_lossy()), "warnings": warnings,
    }))?;
    out.line(format_args!("{}: the tables of TidesDB", ours.display()))?;
    if let Some(path) = path {
        out.line(format_args!("{}: {what}", path.display()))?;
    }
    for warning in warnings {
        out.line(format_args!("warning: {warning}"))?;
    }
    Ok(DONE)
}

/// The server's user writes into it.
fn make_directory(dir: &Path, server: &mut Connection) -> Result<(), Failure> {
    if !dir.is_absolute() {
        return Err(Failure::Other(format!("{} is not an absolute path", dir.display())));
    }
    fs::DirBuilder::new().mode(0o700).create(dir).map_err(|error| cannot(dir, &error))?;
    let data = server.rows("SELECT @@datadir")?.concat().concat();
    let (ours, theirs) = (fs::metadata(dir), fs::metadata(&data));
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return Ok(()) };
    if ours.uid() == theirs.uid() {
        return Ok(());
    }
    chown(dir, Some(theirs.uid()), Some(theirs.gid())).map_err(|error| {
        let _ = fs::remove_dir(dir);
        let what = format!(
            "{} cannot be given to the server's user: {error}; run this as root, or as that user",
            dir.display()
        );
        Failure::Other(what)
    })
}

/// The server's warnings about its backup.
fn take(
    wanted: &Take,
    rest: Rest,
    address: &Address<'_>,
    programs: &Programs,
    server: &mut Connection,
    progress: &mut Option<&mut dyn Write>,
) -> Result<Vec<String>, Failure> {
    let mut store = StoreBackup::start(wanted, rest != Rest::Nothing, address)?;
    let others = Others { dir: &wanted.dir, address, programs };
    let taken = match rest {
        Rest::Nothing => Ok(()),
        Rest::MariadbBackup => store
            .wait_until_it_waits(server)
            .and_then(|()| rest::by_mariadb_backup(&others, &mut || store.look(server, progress)))
            .and_then(|()| store.refuse_without_moment(server))
            .and_then(|()| rest::prepare(&others)),
        Rest::MariadbDump => {
            store.wait_until_it_waits(server).and_then(|()| rest::by_dump(&others, server, &mut store))
        }
    };
    if taken.is_err() {
        store.end(server);
    }
    taken?;
    let warnings = store.finish(server, progress)?;
    rest::complete(&others)?;
    File::open(&wanted.dir).and_then(|dir| dir.sync_all()).map_err(|error| cannot(&wanted.dir, &error))?;
    Ok(warnings)
}
