//! TidesDB's part of a backup of a running server: the server's own backup of the store.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::cli::Take;
use crate::connection::{literal, Address, Connection};
use crate::output::Failure;

/// TidesDB's backup in the directory of a backup.
pub const OURS: &str = "tidesdb";

/// Interval between two looks at the running backup.
const LOOK: Duration = Duration::from_millis(100);

/// The server's state of a backup in wait for its moment.
const WAITS: &str = "TidesDB: waiting for BACKUP STAGE";

/// Seconds of the server's backup in wait for the stage.
const STAGE_WAIT: u32 = 7 * 86_400;

/// The directory of TidesDB's part, of a backup of all engines; any other path as it is.
pub fn store_part(dir: &Path) -> PathBuf {
    let ours = dir.join(OURS);
    let name = tidesdb::internal::backup::INFO;
    match !dir.join(name).exists() && ours.join(name).exists() {
        true => ours,
        false => dir.to_path_buf(),
    }
}

/// The server's backup of the store, in a connection and a thread of its own.
pub struct StoreBackup {
    id: String,
    answer: Receiver<Result<Vec<String>, Failure>>,
    ended: Option<Result<Vec<String>, Failure>>,
}

impl StoreBackup {
    pub fn start(wanted: &Take, at_stage: bool, address: &Address<'_>) -> Result<StoreBackup, Failure> {
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

    pub fn wait_until_it_waits(&mut self, server: &mut Connection) -> Result<(), Failure> {
        while !self.waits(server)? {
            self.pause()?;
        }
        Ok(())
    }

    pub fn refuse_without_moment(&mut self, server: &mut Connection) -> Result<(), Failure> {
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

    pub fn finish(
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
    pub fn end(&mut self, server: &mut Connection) {
        if self.ended.is_none() && server.rows(&format!("KILL QUERY {}", self.id)).is_ok() {
            let _ = self.answer.recv();
        }
    }
}
