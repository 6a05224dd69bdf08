//! Three nodes with both engines: their start, the wait until all have the same, their end.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidelab_server::cluster::member::{ports, provider, Membership, Start};
use tidelab_server::cluster::state::{detached_session, Counters, Status};
use tidelab_server::cluster::transfer;
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::client::Client;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::{Failure, Session};
use tidelab_server::server::settings::{self, setting, Setting};
use tidelab_server::server::{Data, Server, Wanted};
use tidelab_server::telemetry::idle;

use super::design::{appliers_in_words, Options, NODES};
use crate::run::server_files::note_server;
use crate::run::{Folder, Paths, Run};

/// Each server has both, whichever is measured: the plugin takes part in the state transfer.
const ENGINES: [Engine; 2] = [Engine::TidesDb, Engine::InnoDb];
/// Limit of a node's way into the cluster, the state transfer included.
const JOIN_LIMIT: Duration = Duration::from_secs(120);
/// Limit of a wait for the last commit of a load.
const DRAIN_LIMIT: Duration = Duration::from_secs(300);
/// The pause between two looks at the nodes.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// No answer to SHOW STATUS takes longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The provider's cache of write sets is the same for all. Everything else is its default.
const PROVIDER_OPTIONS: &str = "gcache.size=128M";

/// A running node.
struct Node {
    server: Server,
    /// For its status.
    session: Session,
}

/// The cluster.
pub struct Nodes {
    all: Vec<Node>,
    /// The appliers of each node.
    pub appliers: u32,
    interrupt: Interrupt,
}

/// The place of a node's clients.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node's socket.
    pub socket: PathBuf,
    /// Its server's process.
    pub process: u32,
}

impl Nodes {
    /// Starts a cluster on empty data. The other nodes join the first one by a transfer of its state. The run gets the
    /// servers' facts. Errors: no provider is installed; a node does not join.
    pub fn start(
        options: &Options,
        appliers: u32,
        paths: Paths<'_>,
        run: &mut Run,
        folder: &Folder,
    ) -> Result<Nodes> {
        let (provider, ports) = (provider()?, ports(NODES)?);
        let membership = Membership {
            provider: &provider,
            ports: &ports,
            transfer: transfer::METHOD,
            options: PROVIDER_OPTIONS,
        };
        let environment = transfer::environment(&paths.data.join("transfers"), paths.prefix)?;
        let base = settings_of_all(options, appliers);
        let mut nodes = Nodes { all: Vec::new(), appliers, interrupt: paths.interrupt.clone() };
        for (number, ports) in ports.iter().enumerate() {
            let start = if number == 0 { Start::New } else { Start::Join };
            let mut settings = base.clone();
            settings.extend(membership.settings(number, &start));
            settings.push(ports.receives_state());
            eprintln!("node {} starts, {}", number + 1, appliers_in_words(appliers));
            let wanted = Wanted {
                environment: &environment,
                allocator: None,
                groups: &[],
                prefix: paths.prefix,
                engines: &ENGINES,
                plugin: Some(paths.plugin),
                directory: &paths.data.join(format!("node{}", number + 1)),
                data: Data::Empty,
                settings: &settings,
            };
            let server = Server::start(&wanted, paths.interrupt)?;
            let name = format!("node{}-appliers{appliers}", number + 1);
            run.servers.insert(name.clone(), paths.facts(&settings, &server));
            note_server(run, folder.path(), &name, &server)?;
            let session = detached_session(server.socket(), ANSWER_LIMIT).map_err(failed(number))?;
            nodes.all.push(Node { server, session });
            nodes.await_synced()?;
        }
        Ok(nodes)
    }

    /// The places of the clients, by node.
    pub fn places(&self) -> Vec<Place> {
        let place =
            |node: &Node| Place { socket: node.server.socket().to_path_buf(), process: node.server.pid() };
        self.all.iter().map(place).collect()
    }

    /// Clients for statements of the laboratory's own, by node.
    pub fn clients(&self) -> Vec<&Client> {
        self.all.iter().map(|node| node.server.client()).collect()
    }

    /// The counters now, by node. Errors: a node is not in the cluster.
    pub fn counters(&mut self) -> Result<Vec<Counters>> {
        let size = self.all.len();
        let mut counters = Vec::new();
        for (number, status) in self.status()?.iter().enumerate() {
            if let Some(lack) = status.lack(size) {
                return Err(self.left(number, &lack));
            }
            counters.push(status.counters());
        }
        Ok(counters)
    }

    /// Waits until all nodes have the last commit. Returns the time of it. No client may write meanwhile.
    pub fn drain(&mut self) -> Result<Duration> {
        let start = Instant::now();
        loop {
            self.interrupt.check()?;
            let counters = self.counters()?;
            if have_the_same(&counters) {
                return Ok(start.elapsed());
            }
            if start.elapsed() > DRAIN_LIMIT {
                let message = format!("not after {} s: {counters:?}", DRAIN_LIMIT.as_secs());
                return Err(Error::Load {
                    what: "waiting until all nodes have the last commit".to_string(),
                    message,
                });
            }
            sleep(LOOK_EVERY);
        }
    }

    /// Waits until the servers are idle, at most so long for each.
    pub fn settle(&self, limit: Duration) -> Result<()> {
        self.all.iter().try_for_each(|node| idle::wait(node.server.pid(), limit, &self.interrupt))
    }

    /// Ends all nodes and removes their files.
    pub fn stop(mut self) -> Result<()> {
        // The first is the last: the others need no other one then.
        while let Some(node) = self.all.pop() {
            node.server.stop(false)?;
        }
        Ok(())
    }

    fn await_synced(&mut self) -> Result<()> {
        let start = Instant::now();
        let size = self.all.len();
        loop {
            self.interrupt.check()?;
            let lacks = self.status()?.into_iter().map(|status| status.lack(size)).enumerate();
            let Some((number, lack)) = lacks.into_iter().find_map(|(n, lack)| Some((n, lack?))) else {
                return Ok(());
            };
            if start.elapsed() > JOIN_LIMIT {
                return Err(self.left(number, &lack));
            }
            sleep(Duration::from_millis(100));
        }
    }

    fn status(&mut self) -> Result<Vec<Status>> {
        let mut all = Vec::new();
        for (number, node) in self.all.iter_mut().enumerate() {
            node.server.check_alive()?;
            all.push(Status::read(&mut node.session).map_err(failed(number))?);
        }
        Ok(all)
    }

    fn left(&self, number: usize, lack: &str) -> Error {
        let log = self.all[number].server.directory().join("error.log");
        Error::Load {
            what: format!("node {} is not in the cluster", number + 1),
            message: format!("{lack}; its error log is {}", log.display()),
        }
    }
}

/// True if all have the latest commit of any, and nothing is on its way.
fn have_the_same(counters: &[Counters]) -> bool {
    let latest = counters.iter().map(|node| node.last_committed).max();
    counters.iter().all(|node| Some(node.last_committed) == latest && node.to_apply == 0)
}

/// The settings of all nodes alike: those of the comparison on one server, with appliers.
fn settings_of_all(options: &Options, appliers: u32) -> Vec<Setting> {
    let mut all = settings::comparison(&ENGINES, options.cache_mb, options.threads + 20);
    all.extend([
        setting("wsrep_slave_threads", appliers.to_string()),
        setting("wsrep_sync_wait", "0"),
        setting("wsrep_retry_autocommit", "1"),
    ]);
    all
}

fn failed(number: usize) -> impl Fn(Failure) -> Error {
    move |failure| Error::Statement {
        statement: format!("the status of node {}", number + 1),
        message: failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_over_when_the_last_node_has_the_last_commit() {
        let at = |last_committed, to_apply| Counters { last_committed, to_apply, ..Counters::default() };
        assert!(have_the_same(&[at(7, 0), at(7, 0), at(7, 0)]));
        assert!(!have_the_same(&[at(7, 0), at(6, 0), at(7, 0)]));
        assert!(!have_the_same(&[at(7, 0), at(7, 3), at(7, 0)]), "all may lag behind the group alike");
    }
}
