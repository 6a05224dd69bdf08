//! The paths of an experiment, and its interrupt.

use std::path::{Path, PathBuf};

use tidelab_server::error::Result;
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::settings::Setting;
use tidelab_server::server::{Data, Server, Wanted};

use super::server_files::note_server;
use super::{Folder, Run};

/// The paths of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    /// The installed MariaDB.
    pub prefix: &'a Path,
    /// The TidesDB plugin.
    pub plugin: &'a Path,
    /// The directory of the servers; emptied.
    pub data: &'a Path,
    /// Paths in the experiment's file are below this: the file's folder.
    pub file_folder: &'a Path,
    /// The request to end.
    pub interrupt: &'a Interrupt,
}

impl Paths<'_> {
    /// A path named by the experiment's file.
    pub fn named(&self, path: &str) -> PathBuf {
        self.file_folder.join(path)
    }

    /// Starts a server with these engines and settings, in `server` below the data directory.
    pub fn start(&self, engines: &[Engine], settings: &[Setting], data: Data<'_>) -> Result<Server> {
        self.start_in(engines, settings, data, &[])
    }

    /// The same in groups, by their `cgroup.procs`.
    pub fn start_in(
        &self,
        engines: &[Engine],
        settings: &[Setting],
        data: Data<'_>,
        groups: &[PathBuf],
    ) -> Result<Server> {
        let wanted = Wanted {
            environment: &[],
            allocator: None,
            groups,
            prefix: self.prefix,
            engines,
            plugin: Some(self.plugin),
            directory: &self.data.join("server"),
            data,
            settings,
        };
        Server::start(&wanted, self.interrupt)
    }

    /// The facts of a server started with these settings.
    pub fn facts(&self, settings: &[Setting], server: &Server) -> ServerFacts {
        ServerFacts::new(&self.prefix.to_string_lossy(), settings, server.variables())
    }

    /// Starts a server on an empty data directory. The run gets its facts, the folder its files, both
    /// under `name`.
    pub fn start_noted(
        &self,
        name: &str,
        engines: &[Engine],
        settings: &[Setting],
        run: &mut Run,
        folder: &Folder,
    ) -> Result<Server> {
        let server = self.start(engines, settings, Data::Empty)?;
        run.servers.insert(name.to_string(), self.facts(settings, &server));
        note_server(run, folder.path(), name, &server)?;
        Ok(server)
    }
}
