//! A backup of a running server, all engines at one moment.
//!
//! TidesDB's tables become files, as by `SET GLOBAL tidesdb_backup_dir`. The rest goes the way of
//! `mariadb-backup`, or into a dump. Both have one moment: BACKUP STAGE BLOCK_COMMIT, a barrier to writers.
//! The server's backup of the store waits for this stage of another connection, and takes its point while
//! nobody commits.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{chown, DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::cli::{Rest, Take};
use crate::connection::{literal, Address, Connection};
use crate::output::{Failure, Out};
use crate::programs::Programs;
use crate::rest::{self, Others};
use crate::DONE;

/// In the backup's directory: TidesDB's backup, and the other engines'.
pub const OURS: &str = "tidesdb";
pub const DUMP: &str = "rest.sql";
pub const FILES: &str = "rest";

/// The suffix of a backup in the making.
pub const UNFINISHED: &str = ".part";

/// Interval between two looks at the running backup.
const LOOK: Duration = Duration::from_millis(100);

/// The server's state of a backup in wait for its moment.
const WAITS: &str = "TidesDB: waiting for BACKUP STAGE";

/// Seconds of the server's backup in wait for the stage.
const STAGE_WAIT: u32 = 7 * 86_400;

pub fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::Other(format!("{}: {error}", path.display()))
}

/// The directory of TidesDB's part, of a backup of all engines; any other path as it is.
pub fn store_part(dir: &Path) -> PathBuf {
    let ours = dir.join(OURS);
    let name = tidesdb::internal::backup::INFO;
    match !dir.join(name).exists() && ours.join(name).exists() {
        true => ours,
        false => dir.to_path_buf(),
    }
}

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

/// The server's backup of the store, in a connection and a thread of its own.
pub struct StoreBackup {
    id: String,
    answer: Receiver<Result<Vec<String>, Failure>>,
    ended: Option<Result<Vec<String>, Failure>>,
}

impl StoreBackup {
    fn start(wanted: &Take, at_stage: bool, address: &Address<'_>) -> Result<StoreBackup, Failure> {
        let mut own = Connection::open_without_limit(address)?;
        let id = own.rows("SELECT CONNECTION_ID()")?.concat().concat();
        let options = [(at_stage, "AT_STAGE"), (wanted.leave_out_damaged, "WITHOUT_DAMAGED")];
        let options: Vec<&str> =
            options.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
        let base = wanted.base.as_deref().map(store_part).unwrap_or_default();
        own.rows(&format!(
            "SET SESSION tidesdb_backup_options = '{}', tidesdb_backup_rate = {}, tidesdb_backup_base = {}",
            options.join(","),
            wanted.rate.unwrap_or(0).saturating_mul(1_000_000),
            literal(&base.to_string_lossy())
        ))?;
        if at_stage {
            own.rows(&format!("SET SESSION lock_wait_timeout = {STAGE_WAIT}"))?;
        }
        let to = literal(&wanted.dir.join(OURS).to_string_lossy());
        let variable = if wanted.links { "tidesdb_checkpoint_dir" } else { "tidesdb_backup_dir" };
        let statement = format!("SET GLOBAL {variable} = {to}");
        let (tell, answer) = channel();
        thread::spawn(move || {
            let taken = own.rows(&statement).and_then(|_| {
                let warnings = own.rows("SHOW WARNINGS")?;
                let graver = warnings.into_iter().filter(|row| row[0] != "Note");
                Ok(graver.map(|mut row| row.remove(2)).collect())
            });
            // Nobody listens any more where the backup was given up.
            let _ = tell.send(taken);
        });
        Ok(StoreBackup { id, answer, ended: None })
    }

    /// Waits for a moment. An error from the backup's end is returned here.
    fn pause(&mut self) -> Result<(), Failure> {
        if self.ended.is_none() {
            match self.answer.recv_timeout(LOOK) {
                Ok(ended) => self.ended = Some(ended),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Other("the backup of the store was given up".into()))
                }
            }
        } else {
            thread::sleep(LOOK);
        }
        match self.ended.take_if(|ended| ended.is_err()) {
            Some(Err(failure)) => Err(failure),
            _ => Ok(()),
        }
    }

    fn state(&self, server: &mut Connection) -> Result<[String; 2], Failure> {
        let rows = server.rows(&format!(
            "SELECT STATE, PROGRESS FROM information_schema.PROCESSLIST WHERE ID = {}",
            self.id
        ))?;
        Ok(rows.into_iter().next().and_then(|row| row.try_into().ok()).unwrap_or_default())
    }

    /// True while it has no moment.
    pub fn waits(&self, server: &mut Connection) -> Result<bool, Failure> {
        Ok(self.ended.is_none() && self.state(server)?[0].starts_with(WAITS))
    }

    fn wait_until_it_waits(&mut self, server: &mut Connection) -> Result<(), Failure> {
        while !self.waits(server)? {
            self.pause()?;
        }
        Ok(())
    }

    fn refuse_without_moment(&mut self, server: &mut Connection) -> Result<(), Failure> {
        match self.waits(server)? {
            true => Err(Failure::Other(
                "mariadb-backup ended without FLUSH ENGINE LOGS in BACKUP STAGE BLOCK_COMMIT: there is no one moment; \
                 --with=mariadb-dump takes a dump in its place"
                    .into(),
            )),
            false => Ok(()),
        }
    }

    /// Waits for a moment, and shows how far it is.
    pub fn look(
        &mut self,
        server: &mut Connection,
        progress: &mut Option<&mut dyn Write>,
    ) -> Result<(), Failure> {
        self.pause()?;
        let Some(progress) = progress.as_mut().filter(|_| self.ended.is_none()) else { return Ok(()) };
        let [state, done] = self.state(server)?;
        // A terminal that goes away changes nothing.
        let _ = write!(progress, "\r\x1b[K{state}: {done} %");
        let _ = progress.flush();
        Ok(())
    }

    fn finish(
        mut self,
        server: &mut Connection,
        progress: &mut Option<&mut dyn Write>,
    ) -> Result<Vec<String>, Failure> {
        loop {
            if let Some(ended) = self.ended.take() {
                return ended;
            }
            self.look(server, progress)?;
        }
    }

    /// Ends it before its time. The server removes its files.
    fn end(&mut self, server: &mut Connection) {
        if self.ended.is_none() && server.rows(&format!("KILL QUERY {}", self.id)).is_ok() {
            let _ = self.answer.recv();
        }
    }
}
