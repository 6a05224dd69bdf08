//! Carries a matrix out, part by part: prepares tables or takes prepared ones, starts the server on them,
//! reads back its settings, warms it up, and measures the part's cells.
//!
//! Tables are loaded once for each competitor and tier. The server is ended in order, and its data are
//! set aside. Every round starts on a copy, the last one on the data themselves.
//!
//! A run that was killed goes on with the cells that are not in its folder. It takes prepared data that
//! were prepared in the same way.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::alignment::{Aligned, Alignment, Situation, SHIPPED};
use tidelab_server::server::analyze::{self, Analyzed};
use tidelab_server::server::catalogue::{self, Entry};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::release::{Installation, Release};
use tidelab_server::server::session::Address;
use tidelab_server::server::settings::{bytes, setting, Setting};
use tidelab_server::server::source::{FoundServer, Source};
use tidelab_server::server::{Data, Server};
use tidelab_server::telemetry::disk;
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::machine;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::telemetry::recorder::{Recorder, FILE};
use tidelab_server::workload::sysbench::{self, Extra, Load, Sysbench, Workload};

use super::design::{Competitor, Design, Part, Planned};
use super::figures::{fill, metrics, say};
use super::measured_server::{
    connect, free_port, open_network, password, refuse_strangers, rows_of, run_statement, target, write_rows,
    MeasuredServer, Network, LOOPBACK, NETWORK_USER,
};
use super::progression;
use crate::measure::check::{self, Expected};
use crate::measure::server_use::per_call_us;
use crate::run::bound::{Driven, Unbounded};
use crate::run::conduct::failed;
use crate::run::folder::cell_folder;
use crate::run::Paths;
use crate::run::{Cell, Conductor, Folder, Group, Run, Series};

/// The largest share of the machine's memory that a tier may have.
const MEMORY_SHARE: f64 = 0.8;
/// Connections beyond those of the load: the laboratory's own.
const OWN_CONNECTIONS: u64 = 20;
/// Tables of the server's own that are open.
const OWN_TABLES: u64 = 400;
/// Seconds at most to wait until a server is idle after its tables were loaded.
const LOAD_SETTLE_S: u64 = 120;
/// The file with the recipe of a folder of prepared data; written last.
const PREPARED: &str = "prepared.json";

/// A matrix that is carried out.
#[derive(Debug)]
pub struct Matrix<'a> {
    design: Design,
    paths: Paths<'a>,
    cache: PathBuf,
    alignment: Alignment,
    /// Their text.
    rules: String,
    sources: Vec<(String, Source)>,
    /// Looked for before the first measurement: a matrix can be planned without its servers.
    found: BTreeMap<String, FoundServer>,
    looked: bool,
    parts: Vec<Part>,
}

impl<'a> Matrix<'a> {
    /// For this design; the run gets its axes, metrics and notes. Servers that run and trees that are
    /// named by their path are looked at, those from Debian when something is measured. Errors: a
    /// design that cannot be measured.
    pub fn open(design: Design, paths: Paths<'a>, run: &mut Run) -> Result<Matrix<'a>> {
        design.check()?;
        let cache = catalogue::cache();
        let (alignment, rules) = match design.alignment.as_deref().map(|path| paths.named(path)) {
            None => (Alignment::shipped()?, SHIPPED.to_string()),
            Some(path) => {
                let text = fs::read_to_string(&path).map_err(io_error("cannot read", &path))?;
                let said = |what| Error::Usage(format!("{}: {what}", path.display()));
                (Alignment::parse(&text).map_err(said)?, text)
            }
        };
        let mut sources = Vec::new();
        let mut found = BTreeMap::new();
        let mut competitors = Vec::new();
        for named in &design.servers {
            let (name, source) = (named.name().to_string(), named.source()?);
            if !matches!(source, Source::Debian(_)) {
                found.insert(name.clone(), source.find(&cache)?);
            }
            for engine in &design.engines {
                let why = match (&source, found.get(&name)) {
                    (Source::Debian(entry), _) => lacks_by_name(&catalogue::entry(entry)?, *engine),
                    (_, Some(server)) => lacks(server, *engine)?,
                    (_, None) => None,
                };
                match why {
                    None => competitors.push(Competitor { server: name.clone(), engine: *engine }),
                    Some(why) => run.notes.push(format!("{name} without {engine}: {why}")),
                }
            }
            sources.push((name, source));
        }
        let parts = design.parts(&competitors);
        if parts.is_empty() {
            return Err(Error::Usage(format!("nothing can be measured: {}", run.notes.join("; "))));
        }
        for part in &parts {
            let over_network = part.cells.iter().any(|c| c.scenario.over_network());
            if over_network && matches!(found.get(&part.competitor.server), Some(FoundServer::Running(_))) {
                return Err(Error::Usage(format!(
                    "{} runs already: it gets no user for TCP from here; leave the network scenarios out",
                    part.competitor.server
                )));
            }
        }
        run.axes = design.axes(&competitors);
        run.metrics = metrics();
        if design.scenarios.iter().any(|s| s.over_network()) {
            let how = "network: TCP over the loopback interface of this machine, not over a wire";
            run.notes.push(how.to_string());
        }
        Ok(Matrix { design, paths, cache, alignment, rules, sources, found, looked: false, parts })
    }

    /// The parts in their order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Looks once for all servers and for everything else that a measurement needs. Errors: a server is
    /// missing, or is another release than in the cells of the run; the machine lacks the memory for a
    /// tier.
    pub fn look(&mut self, run: &Run) -> Result<()> {
        if self.looked {
            return Ok(());
        }
        sysbench::version()?;
        let memory = machine::describe(self.paths.data).memory_bytes;
        for part in &self.parts {
            if part.memory as f64 > memory as f64 * MEMORY_SHARE {
                let has = memory >> 20;
                let tier = &part.tier;
                return Err(Error::Usage(format!("the tier {tier} does not fit: this machine has {has} MB")));
            }
            if part.competitor.engine == Engine::TidesDb && !self.paths.plugin.is_file() {
                let what = self.paths.plugin.display().to_string();
                return Err(Error::Missing { what, remedy: "make plugin builds it".to_string() });
            }
        }
        for (name, source) in &self.sources {
            if !self.found.contains_key(name) {
                self.found.insert(name.clone(), source.find(&self.cache)?);
            }
        }
        for part in &self.parts {
            let Some(facts) = run.servers.get(&part.competitor.label()) else { continue };
            let now = self.server(&part.competitor)?.release();
            let then = facts.release();
            if then.is_some_and(|then| then != now) {
                return Err(Error::Usage(format!(
                    "the run was begun with {}, {} is {now} now: begin another one",
                    facts.version, part.competitor.server
                )));
            }
        }
        self.looked = true;
        Ok(())
    }

    /// The settings that the rules give a part.
    pub fn aligned(&self, part: &Part) -> Result<Aligned> {
        let release = self.server(&part.competitor)?.release();
        self.alignment.apply(&self.design.situation(release, part.competitor.engine, part.memory))
    }

    fn server(&self, competitor: &Competitor) -> Result<&FoundServer> {
        self.found
            .get(&competitor.server)
            .ok_or_else(|| Error::Usage(format!("there is no server {}", competitor.server)))
    }

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

    fn sysbench<'b>(
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

    fn options(&self, address: &Address, network: Option<&Network>) -> Vec<String> {
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

    /// Makes the database and fills the tables, on a server that runs.
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

    /// Sees to it that data for a part lie in their folder.
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
        Paths { prefix, ..self.paths }.start(&[part.competitor.engine], settings, data)
    }

    /// The server of a part, with its tables, as it is measured.
    fn measured_server(
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

    /// Runs a load whose figures count for nothing. By how much it changed the number of rows.
    fn warm_up(
        &self,
        running: &MeasuredServer<'_>,
        part: &Part,
        workload: Workload,
        seconds: u32,
    ) -> Result<(i64, i64)> {
        if seconds == 0 {
            return Ok((0, 0));
        }
        let address = running.address();
        let mut sysbench =
            self.sysbench(&address.socket, running.process(), self.design.warm_up_threads, seconds);
        sysbench.load.warm_up_s = 0;
        let options = self.options(&address, None);
        let extra = Extra { options: &options, log: None };
        let script = format!("oltp_{workload}");
        let what = format!("the warm-up with {workload} of {}", part.competitor.label());
        let target = target(&script, part.competitor.engine);
        let run = sysbench.run_with(target, &what, self.design.seed, extra, |_| {})?;
        Ok(workload.row_change(run.report.measured.writes, run.report.measured.retried_errors))
    }

    /// Measures one cell; the number of rows changes by at least and at most what is returned, unless
    /// the cell has no figures.
    fn cell(
        &self,
        running: &mut MeasuredServer<'_>,
        network: Option<&Network>,
        part: &Part,
        planned: &Planned,
        folder: &Folder,
    ) -> Result<(Cell, (i64, i64))> {
        let files = folder.begin(&planned.id)?;
        let mut cell = Cell::new(planned.id.clone(), u64::from(planned.seed));
        let address = running.address();
        let mut keep = |name: &str| {
            cell.files.push(name.to_string());
            files.join(name)
        };
        write_rows(&address, "SHOW GLOBAL STATUS", &keep("status-before.tsv"))?;
        let log = keep("sysbench.txt");
        let network = network.filter(|_| planned.scenario.over_network());
        let options = self.options(&address, network);
        let extra = Extra { options: &options, log: Some(&log) };
        let sysbench = self.sysbench(&address.socket, running.process(), planned.threads, self.design.time_s);
        let recorder = Recorder::of_server(running.process(), &running.device(), &address)?;
        let workload = planned.scenario.workload();
        let script = format!("oltp_{workload}");
        let what = format!("sysbench {workload} on {}", part.competitor.label());
        let target = target(&script, part.competitor.engine);
        let result = sysbench.run_with(target, &what, planned.seed, extra, |_| {});
        recorder.stop().series.write(&files.join(FILE))?;
        cell.series.push(FILE.to_string());
        let run = match result {
            Ok(run) => run,
            Err(error @ (Error::Interrupted | Error::Io { .. } | Error::Missing { .. })) => {
                return Err(error)
            }
            Err(error) => {
                cell.failures.push(error.to_string());
                return Ok((cell, (0, 0)));
            }
        };
        write_rows(&address, "SHOW GLOBAL STATUS", &keep("status-after.tsv"))?;
        let engine_status = format!("SHOW ENGINE {} STATUS", part.competitor.engine.name());
        write_rows(&address, &engine_status, &keep("engine-status.tsv"))?;
        let mut seconds = Series::new(["transactions_per_s", "statements_per_s", "p95_ms", "errors_per_s"]);
        for (second, _) in &run.seconds {
            let rates =
                [second.transactions_per_s, second.statements_per_s, second.p95_ms, second.errors_per_s];
            seconds.rows.push(std::iter::once(second.at_s).chain(rates).collect());
        }
        seconds.write(&files.join("seconds.csv"))?;
        cell.series.insert(0, "seconds.csv".to_string());

        let before = running.process().map(|pid| process_use(pid).cpu_s);
        if let Some(process) = running.process() {
            idle::wait(process, Duration::from_secs(u64::from(self.design.settle_s)), self.paths.interrupt)?;
        }
        let space = running.directory().map(|d| disk::of_engine(d, part.competitor.engine));
        fill(&mut cell, &run, running.process(), space);
        if let (Some(process), Some(before)) = (running.process(), before) {
            let after = process_use(process).cpu_s - before;
            cell.figure("after_cpu_us", per_call_us(after, run.report.measured.statements));
        }
        cell.histograms.insert("transaction_ms".to_string(), run.report.histogram.clone());
        if run.report.measured.reconnects > 0 {
            cell.failures.push(format!("{} connections were lost", run.report.measured.reconnects));
        }
        if run.report.measured.transactions == 0 {
            cell.failures.push("not one transaction came to its end".to_string());
        }
        let parts = [run.report.warm_up.unwrap_or_default(), run.report.measured];
        let writes = parts.iter().map(|p| p.writes).sum();
        let errors = parts.iter().map(|p| p.retried_errors).sum();
        Ok((cell, workload.row_change(writes, errors)))
    }

    /// Warms a server up and measures the open cells of its part. Errors end the run.
    fn measure_on(
        &self,
        running: &mut MeasuredServer<'_>,
        network: Option<&Network>,
        part: &Part,
        folder: &mut Folder,
    ) -> Result<()> {
        let open: Vec<&Planned> = part.cells.iter().filter(|c| !folder.has(&c.id)).collect();
        let engine = part.competitor.engine;
        self.warm_up(running, part, Workload::ReadOnly, self.design.warm_up_read_s)?;
        let mut writing = false;
        let mut expected = Some(Expected::exactly(self.design.rows * u64::from(self.design.tables)));
        for planned in &open {
            let writes = planned.scenario.workload() == Workload::ReadWrite;
            if writes && !writing {
                let change = self.warm_up(running, part, Workload::ReadWrite, self.design.warm_up_write_s)?;
                expected = expected.map(|e| e.after(change));
                writing = true;
            }
            let (cell, change) = self.cell(running, network, part, planned, folder)?;
            expected = if cell.figures.is_empty() { None } else { expected.map(|e| e.after(change)) };
            say(&cell);
            let alive = running.check_alive();
            folder.finish(cell)?;
            if let Err(error) = alive {
                return self.give_up(part, folder, &error.to_string());
            }
        }
        let mut session = connect(&running.address())?;
        let complaints =
            match check::tables_by(&mut rows_of(&mut session), engine, self.design.tables, expected) {
                Ok(found) => found.complaints,
                Err(error) => vec![error.to_string()],
            };
        if !complaints.is_empty() {
            let text = format!("afterwards: {}", complaints.join("; "));
            eprintln!("      WRONG {text}");
            for planned in &open {
                blame(folder, &planned.id, &text)?;
            }
        }
        Ok(())
    }

    /// The cells of a part that are not measured have failed.
    fn give_up(&self, part: &Part, folder: &mut Folder, why: &str) -> Result<()> {
        eprintln!("      FAILED {why}");
        for planned in &part.cells {
            if !folder.has(&planned.id) {
                folder.finish(failed(&planned.id, why))?;
            }
        }
        Ok(())
    }

    /// Keeps what the server was in the run's folder.
    fn keep_server(
        &self,
        running: &MeasuredServer<'_>,
        part: &Part,
        aligned: &Aligned,
        run: &mut Run,
        folder: &Folder,
    ) -> Result<()> {
        let place = format!("servers/{}-r{}", part.folder(), part.round);
        let path = folder.path().join(&place);
        fs::create_dir_all(&path).map_err(io_error("cannot make", &path))?;
        let mut keep = |name: &str, text: &str| {
            let file = path.join(name);
            let of_run = format!("{place}/{name}");
            if !run.files.contains(&of_run) {
                run.files.push(of_run);
            }
            fs::write(&file, text).map_err(io_error("cannot write", &file))
        };
        if let Some(directory) = running.directory() {
            let options = directory.join("my.cnf");
            let text = fs::read_to_string(&options).map_err(io_error("cannot read", &options))?;
            keep("my.cnf", &text)?;
        }
        let variables: Vec<String> =
            running.variables().iter().map(|(name, value)| format!("{name}\t{value}\n")).collect();
        keep("variables.tsv", &variables.concat())?;
        keep("alignment.txt", &(aligned.applied.join("\n") + "\n"))?;
        let prefix = match self.server(&part.competitor)? {
            FoundServer::Installed(installation) => installation.prefix.to_string_lossy().into_owned(),
            FoundServer::Running(existing) => existing.address().socket.to_string_lossy().into_owned(),
        };
        let facts = ServerFacts::new(&prefix, &aligned.settings, running.variables());
        let label = part.competitor.label();
        run.servers.entry(label.clone()).or_insert_with(|| facts.clone());
        run.servers.insert(format!("{label}, {}", part.tier), facts);
        Ok(())
    }
}

impl Conductor for Matrix<'_> {
    fn groups(&self) -> Vec<Group> {
        self.parts.iter().map(Part::group).collect()
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(part) = self.parts.iter().find(|part| part.title == group.title).cloned() else {
            return Err(Error::Usage(format!("{} is not of this matrix", group.title)));
        };
        self.look(run)?;
        let measured = self.measure_part(&part, run, folder);
        note_progression(run, folder)?;
        measured
    }

    fn rules(&self) -> Vec<(String, String)> {
        vec![("alignment.toml".to_string(), self.rules.clone())]
    }

    fn unbounded(&self) -> Vec<Unbounded> {
        let mut all: Vec<Unbounded> = Vec::new();
        // The cost of the network is not the driver's.
        for cell in self.parts.iter().flat_map(|p| &p.cells).filter(|c| !c.scenario.over_network()) {
            let labels = [("scenario", cell.scenario.to_string()), ("threads", cell.threads.to_string())];
            let one = Unbounded::new(labels, Driven::Sysbench(cell.scenario.workload()), cell.threads);
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Matrix<'_> {
    fn measure_part(&self, part: &Part, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let aligned = self.aligned(part)?;
        if part.round == 1 {
            for line in &aligned.applied {
                eprintln!("      {line}");
            }
        }
        let (mut running, network) = match self.measured_server(part, &aligned) {
            Ok(started) => started,
            // The server differs from the design: no figure of this run would be right.
            Err(error @ (Error::Setting(_) | Error::Usage(_))) => return Err(error),
            Err(error @ (Error::Interrupted | Error::Io { .. } | Error::Missing { .. })) => {
                return Err(error)
            }
            Err(error) => return self.give_up(part, folder, &error.to_string()),
        };
        eprintln!(
            "      {} settings read back as asked",
            aligned.settings.iter().filter(|s| s.exact).count()
        );
        self.keep_server(&running, part, &aligned, run, folder)?;
        run.note(Analyzed::note(&part.competitor.label()));
        let measured = self.measure_on(&mut running, network.as_ref(), part, folder);
        let ended = match running {
            MeasuredServer::Ours(server) => {
                let log = server.directory().join("error.log");
                let place = format!("servers/{}-r{}", part.folder(), part.round);
                // The log of a server that ended in order is of interest too. A log that cannot be copied
                // is no reason to lose figures.
                let _ = fs::copy(&log, folder.path().join(place).join("error.log"));
                server.stop(false)
            }
            MeasuredServer::Theirs(_) => {
                let database = part.competitor.engine.database();
                let dropped = connect(&self.address_of(part)?).and_then(|mut session| {
                    run_statement(&mut session, &format!("DROP DATABASE IF EXISTS {database}"))
                });
                dropped.map(|_| ())
            }
        };
        match measured {
            Ok(()) => ended,
            Err(error @ (Error::Interrupted | Error::Io { .. } | Error::Missing { .. })) => Err(error),
            // A load that failed outside of a cell: nothing of this part can be measured.
            Err(error) => self.give_up(part, folder, &error.to_string()),
        }
    }

    fn address_of(&self, part: &Part) -> Result<Address> {
        match self.server(&part.competitor)? {
            FoundServer::Running(existing) => Ok(existing.address().clone()),
            FoundServer::Installed(_) => {
                Err(Error::Usage(format!("{} does not run", part.competitor.server)))
            }
        }
    }
}

impl Design {
    /// The situation that the rules are asked about.
    pub fn situation(&self, release: Release, engine: Engine, memory: u64) -> Situation {
        let threads = u64::from(self.most_threads());
        Situation {
            release,
            engine,
            memory,
            redo: bytes(&self.redo).unwrap_or(0),
            sync: self.sync,
            binary_log: self.binary_log,
            connections: (threads + OWN_CONNECTIONS).max(151),
            // Each client opens each table at most once at a time.
            open_tables: threads * u64::from(self.tables) + OWN_TABLES,
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        }
    }
}

/// Writes what came of it so far from version to version.
fn note_progression(run: &mut Run, folder: &Folder) -> Result<()> {
    let (_, cells) = crate::run::folder::read(folder.path())?;
    let all = progression::of(run, &cells);
    for (name, text) in
        [("progression.txt", progression::text(&all)), ("progression.csv", progression::csv(&all))]
    {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(io_error("cannot write", &path))?;
        if !run.files.iter().any(|file| file == name) {
            run.files.push(name.to_string());
        }
    }
    Ok(())
}

/// Why an engine cannot be measured on a server from Debian's suites; none: it can.
fn lacks_by_name(entry: &Entry, engine: Engine) -> Option<String> {
    match engine {
        Engine::TidesDb if !entry.by_setup => Some(
            "its plugin is for the server of make setup ('default') and is refused by any other".to_string(),
        ),
        Engine::RocksDb if entry.family == "mysql" => Some("Debian's MySQL has no MyRocks".to_string()),
        _ => None,
    }
}

/// Why an engine cannot be measured on a server; none: it can.
fn lacks(server: &FoundServer, engine: Engine) -> Result<Option<String>> {
    match (server, engine) {
        (FoundServer::Installed(_), Engine::InnoDb) => Ok(None),
        (FoundServer::Installed(installation), Engine::TidesDb) => {
            let built_for = match catalogue::setup_prefix(&catalogue::cache()) {
                Some(prefix) => Installation::at(&prefix)?.release,
                None => {
                    return Ok(Some("make setup has brought no server that its plugin is for".to_string()))
                }
            };
            Ok((installation.release != built_for)
                .then(|| format!("its plugin is for {built_for} and is refused by any other")))
        }
        (FoundServer::Installed(installation), Engine::RocksDb) => {
            let plugin = engine.plugin().unwrap_or_default();
            let has = ["lib/mysql/plugin", "lib/plugin"]
                .iter()
                .any(|folder| installation.prefix.join(folder).join(plugin).exists());
            let why = || format!("there is no {plugin} in {}", installation.prefix.display());
            Ok((!has).then(why))
        }
        (FoundServer::Running(existing), _) => {
            let mut session = connect(existing.address())?;
            let query = format!(
                "SELECT COUNT(*) FROM information_schema.ENGINES WHERE ENGINE = '{}' AND SUPPORT IN ('YES', 'DEFAULT')",
                engine.name()
            );
            let has =
                rows_of(&mut session)(&query)?.first().and_then(|row| row.first()).is_some_and(|n| n == "1");
            Ok((!has).then(|| "it says that it has none".to_string()))
        }
    }
}

/// Adds a failure to a cell that is in the folder already; its files stay.
fn blame(folder: &mut Folder, id: &crate::run::CellId, why: &str) -> Result<()> {
    let there = cell_folder(folder.path(), id);
    let head = there.join("cell.json");
    let text = fs::read_to_string(&head).map_err(io_error("cannot read", &head))?;
    let mut cell: Cell =
        serde_json::from_str(&text).map_err(|error| Error::Usage(format!("{}: {error}", head.display())))?;
    cell.failures.push(why.to_string());
    let making = folder.begin(id)?;
    for name in cell.files.iter().chain(&cell.series) {
        let from = there.join(name);
        fs::copy(&from, making.join(name)).map_err(io_error("cannot copy", &from))?;
    }
    folder.finish(cell)
}

#[cfg(test)]
mod tests {
    use tidelab_server::interrupt::Interrupt;
    use tidelab_server::server::release::{Family, Version};

    use super::*;
    use crate::matrix::design::tests::{parsed, TEXT};
    use crate::run::CellId;

    #[test]
    fn limits_follow_the_largest_number_of_clients() {
        let mut design = parsed(TEXT).unwrap();
        let release = Release { family: Family::MySQL, version: Version(9, 7, 4) };
        let situation = design.situation(release, Engine::InnoDb, 5);
        assert_eq!((situation.connections, situation.open_tables), (151, 408));
        design.threads = vec![1, 512];
        let situation = design.situation(release, Engine::InnoDb, 5);
        assert_eq!((situation.connections, situation.open_tables, situation.memory), (532, 1424, 5));
    }

    #[test]
    fn a_cell_is_blamed_and_keeps_its_files() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = Folder::create(parent.path(), &Run::new("t", "", "matrix")).unwrap();
        let mut cell = Cell::new(CellId::new([("server", "a".to_string())], 1), 1);
        cell.figure("transactions_per_s", 5.0);
        cell.files.push("sysbench.txt".to_string());
        fs::write(folder.begin(&cell.id).unwrap().join("sysbench.txt"), "raw").unwrap();
        let id = cell.id.clone();
        folder.finish(cell).unwrap();
        blame(&mut folder, &id, "a row is missing").unwrap();
        let (_, cells) = crate::run::folder::read(folder.path()).unwrap();
        assert_eq!(cells[0].failures, ["a row is missing"]);
        assert!(!cells[0].counts());
        let kept = fs::read_to_string(cell_folder(folder.path(), &id).join("sysbench.txt")).unwrap();
        assert_eq!(kept, "raw");
    }

    fn paths<'a>(data: &'a Path, interrupt: &'a Interrupt) -> Paths<'a> {
        Paths { prefix: data, plugin: data, data, file_folder: data, interrupt }
    }

    #[test]
    fn a_matrix_is_planned_without_its_servers_and_measured_only_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let mut design = parsed(TEXT).unwrap();
        design.servers = ["mariadb-10.5", "mysql-9.7", "default"]
            .map(|name| crate::matrix::design::Named::Source(name.to_string()))
            .to_vec();
        design.engines = vec![Engine::InnoDb, Engine::TidesDb, Engine::RocksDb];
        let mut run = Run::new("t", "", "matrix");
        let mut matrix = Matrix::open(design.clone(), paths(folder.path(), &interrupt), &mut run).unwrap();
        assert_eq!(
            run.axes[0].values,
            [
                "mariadb-10.5 InnoDB",
                "mariadb-10.5 ROCKSDB",
                "mysql-9.7 InnoDB",
                "default InnoDB",
                "default TidesDB",
                "default ROCKSDB"
            ]
        );
        assert!(run.notes.iter().any(|n| n.starts_with("mysql-9.7 without ROCKSDB")), "{:?}", run.notes);
        assert_eq!(matrix.groups().len(), 6 * 2 * 2);
        let error = matrix.look(&run).unwrap_err();
        assert!(error.to_string().contains("make plugin"), "{error}");

        design.engines = vec![Engine::InnoDb];
        let mut matrix = Matrix::open(design.clone(), paths(folder.path(), &interrupt), &mut run).unwrap();
        matrix.cache = folder.path().to_path_buf();
        let error = matrix.look(&run).unwrap_err();
        assert!(error.to_string().contains("server fetch mariadb-10.5"), "{error}");
        design.tiers = vec!["9999G".to_string()];
        let mut matrix = Matrix::open(design, paths(folder.path(), &interrupt), &mut run).unwrap();
        let error = matrix.look(&run).unwrap_err();
        assert!(error.to_string().contains("9999G does not fit"), "{error}");
    }

    #[test]
    fn what_nobody_has_cannot_be_measured() {
        let folder = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let mut design = parsed(TEXT).unwrap();
        design.servers = vec![crate::matrix::design::Named::Source("mysql-9.7".to_string())];
        design.engines = vec![Engine::TidesDb];
        let mut run = Run::new("t", "", "matrix");
        let error = Matrix::open(design, paths(folder.path(), &interrupt), &mut run).unwrap_err();
        assert!(error.to_string().contains("nothing can be measured: mysql-9.7 without TidesDB"), "{error}");
    }
}
