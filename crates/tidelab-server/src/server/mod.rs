//! Servers: starts one, reads back its settings, ends it in order.
//!
//! [`Server`] owns a `mariadbd` process, everything in its directory, and the lock on this directory. A
//! server left there by a killed run is found by its option file and ended before a new one starts. The
//! checks also end one abruptly ([`Server::crash`]) and start it again on its data ([`Server::restart`]).

pub mod agreement;
pub mod alignment;
pub mod allocator;
pub mod analyze;
pub mod catalogue;
pub mod client;
pub mod cnf;
pub mod directory;
pub mod engine;
pub mod existing;
pub mod facts;
pub mod group;
mod process;
pub mod release;
pub mod session;
pub mod setting;
pub mod settings;
pub mod source;
mod wanted;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::Flock;
use nix::unistd::geteuid;

use crate::error::{io_error, Error, Result};
use crate::interrupt::Interrupt;
use allocator::Allocator;
use client::Client;
use directory::{
    bring, copy_folder, empty, end_leftover, forget_pages, link_plugins, make_data_directory, move_folder,
    socket_path, tail, write_back,
};
pub(crate) use directory::{end_leftovers_below, lock_directory};
use engine::Engine;
use group::joined;
use process::{end_process, end_process_within, STOP_LIMIT};
use release::{Installation, Release};
use settings::{Places, Setting};

pub use process::program;
pub use wanted::{Data, Wanted};

/// Time limit of a server's first answer after its start.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A running server of ours. Dropping it ends the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    client: Client,
    home: Home,
    engines: Vec<Engine>,
    variables: BTreeMap<String, String>,
    _lock: Flock<File>,
}

/// The directory of a server, running or not.
#[derive(Debug)]
struct Home {
    installation: Installation,
    directory: PathBuf,
    socket: PathBuf,
    socket_outside: bool,
    allocator: Option<Allocator>,
    groups: Vec<PathBuf>,
    /// Variables of the process, in addition to the laboratory's own.
    environment: Vec<(&'static str, PathBuf)>,
}

impl Home {
    /// Writes the option file and runs the program.
    fn launch(&self, engines: &[Engine], settings: &[Setting]) -> Result<Child> {
        let options = self.directory.join("my.cnf");
        let log = self.directory.join("error.log");
        let places = Places {
            family: self.installation.release.family,
            prefix: &self.installation.prefix,
            plugins: &self.directory.join("plugins"),
            data: &self.directory.join("data"),
            tidesdb: &self.directory.join("tidesdb_data"),
            tmp: &self.directory.join("tmp"),
            socket: &self.socket,
            log: &log,
            pid_file: &self.directory.join("mysqld.pid"),
            as_root: geteuid().is_root(),
        };
        let text = settings::option_file(&places, engines, settings);
        fs::write(&options, text).map_err(io_error("cannot write", &options))?;
        let output =
            || OpenOptions::new().create(true).append(true).open(&log).map_err(io_error("cannot open", &log));
        let mut command = joined(&self.groups, &self.installation.server);
        if let Some(allocator) = self.allocator {
            command.env("LD_PRELOAD", allocator.library()?);
        }
        command
            .envs(self.environment.iter().map(|(name, value)| (*name, value)))
            .arg(format!("--defaults-file={}", options.display()))
            .stdin(Stdio::null())
            .stdout(output()?)
            .stderr(output()?)
            .process_group(0)
            .spawn()
            .map_err(io_error("cannot run", &self.installation.server))
    }
}

impl Server {
    /// Starts a server on an empty data directory, waits until it answers, and reads back its settings.
    /// Errors: it lacks an engine, or a setting differs.
    pub fn start(wanted: &Wanted<'_>, interrupt: &Interrupt) -> Result<Server> {
        let installation = Installation::at(wanted.prefix)?;
        fs::create_dir_all(wanted.directory).map_err(io_error("cannot make", wanted.directory))?;
        let directory =
            fs::canonicalize(wanted.directory).map_err(io_error("cannot find", wanted.directory))?;
        let lock = lock_directory(&directory)?;
        let options = directory.join("my.cnf");
        end_leftover(&options)?;
        empty(&directory)?;

        let plugins = directory.join("plugins");
        link_plugins(wanted, &plugins)?;
        let (socket, socket_outside) = socket_path(&directory);
        let log = directory.join("error.log");
        let tmp = directory.join("tmp");
        fs::create_dir_all(&tmp).map_err(io_error("cannot make", &tmp))?;
        match wanted.data {
            Data::Empty => make_data_directory(&installation, &directory.join("data"), &log)?,
            Data::Copy(frozen) => bring(frozen, &directory, copy_folder)?,
            Data::Move(frozen) => bring(frozen, &directory, move_folder)?,
        }
        if wanted.data != Data::Empty {
            write_back(&directory)?;
        }
        if !wanted.groups.is_empty() {
            forget_pages(&directory)?;
        }
        let home = Home {
            installation,
            directory,
            socket,
            socket_outside,
            allocator: wanted.allocator,
            groups: wanted.groups.to_vec(),
            environment: wanted.environment.to_vec(),
        };
        let engines = wanted.engines.to_vec();
        let child = home.launch(&engines, wanted.settings)?;
        let client = Client::new(&home.installation.client, &home.socket);
        let variables = BTreeMap::new();
        let mut server = Server { child, client, home, engines, variables, _lock: lock };
        server.come_up(wanted.settings, interrupt)?;
        Ok(server)
    }

    /// Ends the process with SIGKILL and waits until it is gone. Its files stay as they are.
    pub fn crash(&mut self) -> Result<()> {
        // `kill` of a process that ended already is no error; `wait` says how it ended.
        self.child.kill().map_err(io_error("cannot kill", &self.home.installation.server))?;
        self.child.wait().map_err(io_error("cannot wait for", &self.home.installation.server))?;
        Ok(())
    }

    /// Ends the process in order; its files stay, for [`Server::restart`].
    pub fn shut_down(&mut self) -> Result<()> {
        if end_process(self.child.id(), || !matches!(self.child.try_wait(), Ok(None))) {
            return Ok(());
        }
        let limit = STOP_LIMIT.as_secs();
        Err(self.failure(format!("the server did not end within {limit} s and was killed")))
    }

    /// As [`Server::shut_down`], with a limit of the caller's: false when the process had to be killed.
    pub fn shut_down_within(&mut self, limit: Duration) -> bool {
        end_process_within(self.child.id(), limit, || !matches!(self.child.try_wait(), Ok(None)))
    }

    /// Gives the process these variables as well from the next start on.
    pub fn add_environment(&mut self, variables: Vec<(&'static str, PathBuf)>) {
        self.home.environment.extend(variables);
    }

    /// Gives the process these variables and no others from the next start on.
    pub fn set_environment(&mut self, variables: Vec<(&'static str, PathBuf)>) {
        self.home.environment = variables;
    }

    /// Starts it again, after [`Server::crash`] or [`Server::shut_down`], on the existing data, with these
    /// settings, and waits until it answers. Returns the time until then.
    pub fn restart(&mut self, settings: &[Setting], interrupt: &Interrupt) -> Result<Duration> {
        let start = Instant::now();
        self.child = self.home.launch(&self.engines, settings)?;
        self.come_up(settings, interrupt)?;
        Ok(start.elapsed())
    }

    /// Starts it on the existing data and kills it after `delay`, answering or not: a crash in the middle of
    /// recovery.
    pub fn crash_while_starting(&mut self, settings: &[Setting], delay: Duration) -> Result<()> {
        self.crash_while_starting_after(settings, || sleep(delay))
    }

    /// The same, killed after `moment` returns.
    pub fn crash_while_starting_after(&mut self, settings: &[Setting], moment: impl FnOnce()) -> Result<()> {
        self.child = self.home.launch(&self.engines, settings)?;
        moment();
        self.crash()
    }

    fn come_up(&mut self, settings: &[Setting], interrupt: &Interrupt) -> Result<()> {
        self.wait_until_it_answers(interrupt)?;
        self.check_engines(&self.engines)?;
        self.read_back(settings)
    }

    /// A client for it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.home.socket
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The directory of everything of its own.
    pub fn directory(&self) -> &Path {
        &self.home.directory
    }

    /// The server's release.
    pub fn release(&self) -> Release {
        self.home.installation.release
    }

    /// Its global variables, as they were after the start.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// Fails when the process has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.failure(format!("the server ended ({status})"))),
            Err(e) => Err(self.failure(format!("the server cannot be watched ({e})"))),
        }
    }

    /// Ends it in order and removes its files, or keeps them.
    pub fn stop(mut self, keep_files: bool) -> Result<()> {
        self.shut_down()?;
        if !keep_files {
            empty(&self.home.directory)?;
        }
        Ok(())
    }

    /// Ends it in order and puts its data into a new folder, to start other servers on with [`Data::Copy`] or
    /// [`Data::Move`].
    pub fn freeze(mut self, folder: &Path) -> Result<()> {
        self.shut_down()?;
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(io_error("cannot remove", folder))?;
        }
        fs::create_dir_all(folder).map_err(io_error("cannot make", folder))?;
        bring(&self.home.directory, folder, move_folder)?;
        empty(&self.home.directory)
    }

    fn wait_until_it_answers(&mut self, interrupt: &Interrupt) -> Result<()> {
        let start = Instant::now();
        loop {
            interrupt.check()?;
            self.check_alive()?;
            match self.client.query("DO 0") {
                Ok(_) => return Ok(()),
                Err(e @ Error::Io { .. }) => return Err(e),
                Err(e) if start.elapsed() > START_LIMIT => {
                    return Err(self.failure(format!("no answer within {} s ({e})", START_LIMIT.as_secs())));
                }
                Err(_) => sleep(Duration::from_millis(100)),
            }
        }
    }

    fn check_engines(&self, engines: &[Engine]) -> Result<()> {
        for engine in engines {
            let supported = self.client.value(&format!(
                "SELECT COUNT(*) FROM information_schema.ENGINES WHERE ENGINE = '{}' AND SUPPORT IN ('YES', 'DEFAULT')",
                engine.name()
            ))?;
            if supported != "1" {
                return Err(self.failure(format!("the server came up without {engine}")));
            }
        }
        Ok(())
    }

    fn read_back(&mut self, asked: &[Setting]) -> Result<()> {
        self.variables = self
            .client
            .query("SHOW GLOBAL VARIABLES")?
            .into_iter()
            .map(|row| {
                let mut columns = row.into_iter();
                (columns.next().unwrap_or_default(), columns.next().unwrap_or_default())
            })
            .collect();
        let differences = settings::differences(asked, &self.variables);
        if !differences.is_empty() {
            return Err(Error::Setting(differences.join("; ")));
        }
        let allocator = self.variables.get("version_malloc_library").map_or("unknown", String::as_str);
        match self.home.allocator {
            Some(wanted) if !allocator.starts_with(wanted.name()) => Err(Error::Setting(format!(
                "the server's allocator is to be {}, and version_malloc_library is {allocator}",
                wanted.name()
            ))),
            _ => Ok(()),
        }
    }

    fn failure(&self, what: String) -> Error {
        let log = self.home.directory.join("error.log");
        Error::Server { what, tail: tail(&log), log: log.display().to_string() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end_process(self.child.id(), || !matches!(self.child.try_wait(), Ok(None)));
        if self.home.socket_outside {
            if let Some(folder) = self.home.socket.parent() {
                // Nothing but the socket is in it; what is left over is empty and harmless.
                let _ = fs::remove_dir_all(folder);
            }
        }
    }
}
