//! The tables of a part: loaded once for each competitor and tier, set aside, and put under the measured
//! server.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidelab_server::error::{io_error, Result};
use tidelab_server::server::alignment::Aligned;
use tidelab_server::server::analyze;
use tidelab_server::server::session::Address;
use tidelab_server::server::settings::{setting, Setting};
use tidelab_server::server::source::FoundServer;
use tidelab_server::server::{Data, Server};
use tidelab_server::telemetry::idle;
use tidelab_server::workload::sysbench::{Extra, Load, Sysbench};

use super::super::design::Part;
use super::super::measured_server::{
    connect, free_port, open_network, password, refuse_strangers, run_statement, target, MeasuredServer,
    Network, LOOPBACK, NETWORK_USER,
};
use super::Matrix;
use crate::run::Paths;

/// Seconds at most to wait until a server is idle after its tables were loaded.
const LOAD_SETTLE_S: u64 = 120;
/// The file with the recipe of a folder of prepared data; written last.
const PREPARED: &str = "prepared.json";

impl Matrix<'_> {
    fn prepared_folder(&self, part: &Part) -> PathBuf {
        self.paths.data.join("prepared").join(part.folder())
    }

    /// The recipe of a part's tables. Data of another recipe are made anew.
    fn recipe(&self, part: &Part, settings: &[Setting]) -> Result<String> {
        let settings: BTreeMap<&str, &str> =
            settings.iter().map(|s| (s.name.as_ref(), s.value.as_str())).collect();
        let recipe = serde_json::json!({
            "server": self.server(&part.competitor)?.release().to_string(),
            "engine": part.competitor.engine,
            "tables": self.design.tables,
            "rows": self.design.rows,
            "seed": self.design.seed,
            "analyzed": true,
            "settings": settings,
        });
        Ok(format!("{recipe:#}\n"))
    }

    pub(super) fn sysbench<'b>(
        &'b self,
        socket: &'b Path,
        process: Option<u32>,
        threads: u32,
        time_s: u32,
    ) -> Sysbench<'b> {
        let load = Load {
            tables: self.design.tables,
            rows: self.design.rows,
            threads,
            warm_up_s: if time_s == self.design.time_s { self.design.ramp_s } else { 0 },
            time_s,
        };
        Sysbench { socket, server: process.unwrap_or(0), load, interrupt: self.paths.interrupt }
    }

    pub(super) fn options(&self, address: &Address, network: Option<&Network>) -> Vec<String> {
        let mut options = vec![format!("--rand-type={}", self.design.distribution)];
        match network {
            Some(network) => options.extend([
                format!("--mysql-host={LOOPBACK}"),
                format!("--mysql-port={}", network.port),
                format!("--mysql-user={NETWORK_USER}"),
                format!("--mysql-password={}", network.password),
            ]),
            None => {
                options.push(format!("--mysql-user={}", address.user));
                options.extend(address.password.iter().map(|p| format!("--mysql-password={p}")));
            }
        }
        options
    }

    /// Makes the database and fills the tables, on a running server.
    fn load(&self, running: &MeasuredServer<'_>, part: &Part) -> Result<()> {
        let address = running.address();
        let database = part.competitor.engine.database();
        let mut session = connect(&address)?;
        refuse_strangers(&mut session, database)?;
        run_statement(&mut session, &format!("DROP DATABASE IF EXISTS {database}"))?;
        run_statement(&mut session, &format!("CREATE DATABASE {database}"))?;
        let sysbench = self.sysbench(&address.socket, running.process(), self.design.tables, 0);
        let options = self.options(&address, None);
        let extra = Extra { options: &options, log: None };
        sysbench.prepare_with(target("oltp_read_write", part.competitor.engine), self.design.seed, extra)?;
        eprintln!("      ANALYZE TABLE");
        let analyzed = analyze::through_session(&mut session, database)?;
        eprintln!("      {} tables have statistics ({:.1} s)", analyzed.tables, analyzed.seconds);
        if let Some(process) = running.process() {
            idle::wait(process, Duration::from_secs(LOAD_SETTLE_S), self.paths.interrupt)?;
        }
        Ok(())
    }

    /// Makes the data of a part in their folder, unless they are there.
    fn prepare(&self, part: &Part, prefix: &Path, settings: &[Setting]) -> Result<PathBuf> {
        let folder = self.prepared_folder(part);
        let recipe = self.recipe(part, settings)?;
        if fs::read_to_string(folder.join(PREPARED)).is_ok_and(|made| made == recipe) {
            return Ok(folder);
        }
        let (tables, rows) = (self.design.tables, self.design.rows);
        eprintln!("      loading {tables} tables of {rows} rows");
        let server = self.start(part, prefix, Data::Empty, settings)?;
        let running = MeasuredServer::Ours(Box::new(server));
        self.load(&running, part)?;
        if let MeasuredServer::Ours(server) = running {
            server.freeze(&folder)?;
        }
        let marker = folder.join(PREPARED);
        fs::write(&marker, recipe).map_err(io_error("cannot write", &marker))?;
        Ok(folder)
    }

    fn start(&self, part: &Part, prefix: &Path, data: Data<'_>, settings: &[Setting]) -> Result<Server> {
        let plugin = self.plugin(&part.competitor)?;
        Paths { prefix, plugin: &plugin, ..self.paths }.start(&[part.competitor.engine], settings, data)
    }

    /// The server of a part, with its tables, as it is measured.
    pub(super) fn measured_server(
        &self,
        part: &Part,
        aligned: &Aligned,
    ) -> Result<(MeasuredServer<'_>, Option<Network>)> {
        let installation = match self.server(&part.competitor)? {
            FoundServer::Installed(installation) => installation,
            FoundServer::Running(existing) => {
                existing.check(&aligned.settings)?;
                let running = MeasuredServer::Theirs(existing);
                self.load(&running, part)?;
                return Ok((running, None));
            }
        };
        let folder = self.prepare(part, &installation.prefix, &aligned.settings)?;
        let later =
            |p: &&Part| p.round > part.round && p.tier == part.tier && p.competitor == part.competitor;
        let again = self.parts.iter().any(|p| later(&p));
        if !again {
            // From here on the folder is not whole.
            let marker = folder.join(PREPARED);
            fs::remove_file(&marker).map_err(io_error("cannot remove", &marker))?;
        }
        let data = if again { Data::Copy(&folder) } else { Data::Move(&folder) };
        let mut settings = aligned.settings.clone();
        let mut network = None;
        if part.cells.iter().any(|c| c.scenario.over_network()) {
            let chosen = Network { port: free_port()?, password: password() };
            settings.push(setting("port", chosen.port.to_string()));
            settings.push(setting("bind_address", LOOPBACK));
            network = Some(chosen);
        }
        let server = self.start(part, &installation.prefix, data, &settings)?;
        if !again {
            let _ = fs::remove_dir_all(&folder);
        }
        if let Some(network) = &network {
            open_network(&server, part.competitor.engine, network)?;
        }
        Ok((MeasuredServer::Ours(Box::new(server)), network))
    }
}
