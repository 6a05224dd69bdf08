//! A node: a server with a provider, its ports, and its ways to end and to come back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::RngExt;
pub(super) use tidelab_server::cluster::member::Start;
use tidelab_server::cluster::member::{ports, provider, Membership, Ports};
use tidelab_server::cluster::state::{self, Status};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::release::{Installation, Version};
use tidelab_server::server::settings::{self, hint, setting, Setting};
use tidelab_server::server::{program, Data, Server, Wanted};

use super::super::preloaded::{self, Library};
use super::super::session::{Failure, Session};
use super::super::{must, Lab};
use super::transfer;
use crate::preload::{Loss, TakenBack};

/// A node is in the cluster again after this time, on a busy machine too.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// A shutdown takes no longer.
const DOWN_WITHIN: Duration = Duration::from_secs(60);
/// The provider's file.
const SAVED_STATE: &str = "data/grastate.dat";
/// Patience of a node with silent others: short, for rounds to be short. A new group may take more attempts than three on a busy
/// machine, after which the provider ends its node.
const GROUP: &str = "evs.suspect_timeout=PT1.5S;evs.inactive_timeout=PT8S;evs.inactive_check_period=PT0.3S;\
    evs.keepalive_period=PT0.3S;evs.install_timeout=PT7S;evs.max_install_timeouts=12;\
    evs.join_retrans_period=PT0.3S;gcache.size=64M";

/// See the module's comment.
pub(super) struct Node {
    /// From 0.
    pub(super) number: usize,
    pub(super) server: Server,
    /// The error log's length when the round began.
    log_from: u64,
    /// It records changes, to take back unsynced ones, from the next start on.
    library: Option<Library>,
}

/// Everything for a node's settings.
pub(super) struct Place<'a> {
    pub(super) lab: &'a Lab<'a>,
    provider: PathBuf,
    ports: Vec<Ports>,
    environment: Vec<(&'static str, PathBuf)>,
    /// Values of `innodb_flush_log_at_trx_commit`.
    flushes: &'static [&'static str],
}

impl<'a> Place<'a> {
    /// For so many nodes.
    pub(super) fn of(lab: &'a Lab<'a>, nodes: usize) -> Result<Place<'a>> {
        let release = Installation::at(lab.prefix)?.release;
        // An older InnoDB does not sync its log where a commit of the store waits for it, unless it does always.
        let flushes: &[&str] = if release.version < Version(11, 0, 0) { &["1"] } else { &["0", "1", "2"] };
        let environment =
            tidelab_server::cluster::transfer::environment(&lab.directory.join("transfers"), lab.prefix)?;
        Ok(Place { lab, provider: provider()?, ports: ports(nodes)?, environment, flushes })
    }

    /// True if InnoDB's log may lack an answered commit.
    pub(super) fn flushes_late(&self) -> bool {
        self.flushes.contains(&"0")
    }
}

impl Place<'_> {
    /// The settings of a node; those free to differ from node to node are drawn.
    fn settings(&self, number: usize, start: &Start, random: &mut StdRng) -> Vec<Setting> {
        // One node has the binary log: always the same, as it decides on transactions after a crash.
        let mut all = settings::checks(number == 1);
        let ours = [
            "tidesdb_unified_memtable_sync_mode",
            "tidesdb_default_sync_mode",
            "innodb_flush_log_at_trx_commit",
            "binlog_format",
        ];
        all.retain(|setting| !ours.contains(&&*setting.name));
        let one_of = |choices: &[&str], random: &mut StdRng| {
            choices[random.random_range(0..choices.len())].to_string()
        };
        let membership = Membership {
            provider: &self.provider,
            ports: &self.ports,
            transfer: tidelab_server::cluster::transfer::METHOD,
            options: GROUP,
        };
        all.extend([
            setting(
                "tidesdb_unified_memtable_sync_mode",
                one_of(&["FULL", "FULL", "INTERVAL", "NONE"], random),
            ),
            // Else the tables' own mode, the strictest, would count.
            setting("tidesdb_default_sync_mode", "NONE"),
            setting("innodb_flush_log_at_trx_commit", one_of(self.flushes, random)),
            setting("wsrep_slave_threads", one_of(&["1", "2", "4", "8"], random)),
            hint("log_slave_updates", "ON"),
            // Of TidesDB too: of a deadlock over both engines neither knows.
            setting("innodb_lock_wait_timeout", "2"),
            hint("gtid_domain_id", "0"),
        ]);
        all.extend(membership.settings(number, start));
        all.push(self.ports[number].receives_state());
        all
    }

    /// Starts a node on these data.
    pub(super) fn start(
        &self,
        number: usize,
        start: &Start,
        data: Data<'_>,
        random: &mut StdRng,
    ) -> Result<Node> {
        let settings = self.settings(number, start, random);
        let server = Server::start(
            &Wanted {
                environment: &self.environment,
                allocator: None,
                groups: &[],
                prefix: self.lab.prefix,
                engines: &[Engine::TidesDb],
                plugin: Some(self.lab.plugin),
                directory: &self.lab.directory.join(format!("node{}", number + 1)),
                data,
                settings: &settings,
            },
            self.lab.interrupt,
        )?;
        Ok(Node { number, server, log_from: 0, library: None })
    }
}

impl Node {
    /// Its name in texts.
    pub(super) fn name(&self) -> String {
        format!("node {}", self.number + 1)
    }

    /// A session on it, in the cluster.
    pub(super) fn session(&self) -> Result<Session> {
        must(&format!("connect to {}", self.name()), Session::open(self.server.socket()))
    }

    /// A session for SHOW and SET, in the cluster or not.
    pub(super) fn detached_session(&self) -> std::result::Result<Session, Failure> {
        state::detached_session(self.server.socket(), BACK_WITHIN)
    }

    /// Waits until it is in a cluster of so many nodes and has all their commits.
    pub(super) fn await_synced(&mut self, nodes: usize, lab: &Lab<'_>) -> Result<Duration> {
        let start = Instant::now();
        loop {
            lab.interrupt.check()?;
            self.server.check_alive()?;
            let status = self.detached_session().and_then(|mut session| Status::read(&mut session));
            let lack = match status.map(|status| status.lack(nodes)) {
                Ok(None) => return Ok(start.elapsed()),
                Ok(Some(lack)) => lack,
                Err(failure) => failure.to_string(),
            };
            if start.elapsed() > BACK_WITHIN {
                let what = format!("{} is not back after {} s: {lack}", self.name(), BACK_WITHIN.as_secs());
                return Err(Error::Load { what, message: self.log_tail() });
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Asks InnoDB and the store for the position, as the distribution's service does before each start. None: unknown.
    pub(super) fn recover(&self, lab: &Lab<'_>) -> Result<Option<String>> {
        let log = self.directory().join("recover.log");
        let _ = fs::remove_file(&log);
        let server = program(lab.prefix, "mariadbd")?;
        let status = Command::new(&server)
            .arg(format!("--defaults-file={}", self.directory().join("my.cnf").display()))
            .arg("--wsrep-recover")
            .arg(format!("--log-error={}", log.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(io_error("cannot run", &server))?;
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        match text.lines().rev().find_map(|line| line.split_once("Recovered position: ")) {
            Some((_, position)) => {
                let position = position.trim().to_string();
                Ok((seqno(&position) >= Some(0)).then_some(position))
            }
            None => {
                let what = format!("the recovery of {} tells no position ({status})", self.name());
                Err(Error::Load { what, message: text })
            }
        }
    }

    /// The position of a node not cut from power: it always knows it.
    pub(super) fn known_position(&self, lab: &Lab<'_>) -> Result<String> {
        self.recover(lab)?.ok_or_else(|| Error::Load {
            what: self.name(),
            message: "it does not know its position, and only its process had ended".to_string(),
        })
    }

    /// Starts it again, at a position or where its own files say. Returns the time until it answers.
    pub(super) fn restart(
        &mut self,
        place: &Place<'_>,
        start: &Start,
        position: Option<&str>,
        random: &mut StdRng,
    ) -> Result<Duration> {
        let mut settings = self.settings_at(place, start, position, random);
        if self.library.is_some() {
            settings.extend(preloaded::settings());
        }
        let took = self.server.restart(&settings, place.lab.interrupt)?;
        if took > BACK_WITHIN {
            let (what, seconds) = (self.name(), took.as_secs_f64());
            let message =
                format!("answered {seconds:.0} s after its start, the limit is {} s", BACK_WITHIN.as_secs());
            return Err(Error::Load { what, message });
        }
        Ok(took)
    }

    /// Starts it and kills it after the delay.
    pub(super) fn crash_while_starting(
        &mut self,
        place: &Place<'_>,
        position: Option<&str>,
        delay: Duration,
        random: &mut StdRng,
    ) -> Result<()> {
        let settings = self.settings_at(place, &Start::Join, position, random);
        self.server.crash_while_starting(&settings, delay)
    }

    fn settings_at(
        &self,
        place: &Place<'_>,
        start: &Start,
        position: Option<&str>,
        random: &mut StdRng,
    ) -> Vec<Setting> {
        let mut settings = place.settings(self.number, start, random);
        if let Some(position) = position {
            settings.push(hint("wsrep_start_position", position));
        }
        settings
    }

    /// Ends it in order, within the limit.
    pub(super) fn shut_down(&mut self) -> Result<()> {
        match self.server.shut_down_within(DOWN_WITHIN) {
            true => Ok(()),
            false => Err(Error::Load {
                what: format!("{} did not end within {} s", self.name(), DOWN_WITHIN.as_secs()),
                message: self.log_tail(),
            }),
        }
    }

    /// Sends a signal to its process.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.server.pid() as i32), signal)
            .map_err(|errno| io_error("cannot signal", self.server.directory())(errno.into()))
    }

    /// From the next start on its changes are recorded, and a sync takes up to 1 ms.
    pub(super) fn record_changes(&mut self, random: &mut StdRng) -> Result<()> {
        let library = Library::attach(&mut self.server, true)?;
        library.control.set_sync(Some(Duration::from_micros(random.random_range(0..1000))))?;
        self.library = Some(library);
        Ok(())
    }

    /// SIGKILL, with the loss of all unsynced bytes. The machine's next boot has another number, and no recorder.
    pub(super) fn cut_power(&mut self, place: &Place<'_>, random: &mut StdRng) -> Result<TakenBack> {
        self.server.crash()?;
        let Some(library) = self.library.take() else {
            return Err(Error::Usage(format!("{} does not record its changes", self.name())));
        };
        let loss = Loss::ALL[random.random_range(0..Loss::ALL.len())];
        let taken = library.cut_power(loss, random)?;
        self.server.set_environment(place.environment.clone());
        let end = self.directory().join("tidesdb_data/cluster-end");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if fs::read_to_string(&end).is_ok_and(|text| text == boot) {
            fs::write(&end, "another boot\n").map_err(io_error("cannot write", &end))?;
        }
        Ok(taken)
    }

    /// True for a node killed within a definition or a state transfer: the provider takes none of its data for
    /// the cluster's.
    pub(super) fn lost_its_state(&self) -> Result<bool> {
        if self.has_half_a_state() || !self.directory().join(SAVED_STATE).exists() {
            return Ok(true);
        }
        Ok(self.saved_state()?.contains("00000000-0000-0000-0000-000000000000"))
    }

    fn saved_state(&self) -> Result<String> {
        let path = self.directory().join(SAVED_STATE);
        fs::read_to_string(&path).map_err(io_error("cannot read", &path))
    }

    /// True for a node killed within a state transfer.
    pub(super) fn has_half_a_state(&self) -> bool {
        transfer::is_half(self.directory())
    }

    /// Starts it without a state, and kills it once it has half of another one's. False if it does not come to that.
    pub(super) fn crash_in_transfer(&mut self, place: &Place<'_>, random: &mut StdRng) -> Result<bool> {
        let settings = self.settings_at(place, &Start::Join, None, random);
        let directory = self.directory().to_path_buf();
        // A file after the first one, or the last.
        let later = Duration::from_millis(random.random_range(0..400));
        let mut is_half = false;
        self.server.crash_while_starting_after(&settings, || {
            is_half = transfer::await_half(&directory, BACK_WITHIN);
            sleep(later);
        })?;
        Ok(is_half)
    }

    /// Takes its state from it, after its end: the provider's file, or all of its data.
    pub(super) fn lose_state(&self, all: bool) -> Result<()> {
        if !all {
            let path = self.directory().join(SAVED_STATE);
            return fs::remove_file(&path).map_err(io_error("cannot remove", &path));
        }
        for folder in ["data", "tidesdb_data"] {
            let folder = self.directory().join(folder);
            fs::remove_dir_all(&folder).map_err(io_error("cannot remove", &folder))?;
            fs::create_dir(&folder).map_err(io_error("cannot make", &folder))?;
        }
        Ok(())
    }

    /// Lets it make a cluster, though it may not have been the last one of the old.
    pub(super) fn permit_new_cluster(&self) -> Result<()> {
        let path = self.directory().join(SAVED_STATE);
        fs::write(&path, self.saved_state()?.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"))
            .map_err(io_error("cannot write", &path))
    }

    /// From here on [`Node::log`] reads.
    pub(super) fn mark_log(&mut self) {
        self.log_from = fs::metadata(self.log_path()).map_or(0, |metadata| metadata.len());
    }

    /// Its error log since the mark.
    pub(super) fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        let from = usize::try_from(self.log_from).unwrap_or(0).min(bytes.len());
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.server.directory().join("error.log")
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Its directory.
    pub(super) fn directory(&self) -> &Path {
        self.server.directory()
    }
}

/// The number of a position, `UUID:number` or `UUID:number,GTID`.
pub(super) fn seqno(position: &str) -> Option<i64> {
    let (_, rest) = position.split_once(':')?;
    rest.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_position() {
        assert_eq!(seqno("6e1d-01:17"), Some(17));
        assert_eq!(seqno("6e1d-01:17,0-1-9"), Some(17));
        assert_eq!(seqno("00000000-0000-0000-0000-000000000000:-1"), Some(-1));
        assert_eq!(seqno("nothing"), None);
    }
}
