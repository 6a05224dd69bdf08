//! The design of a matrix, as its file has it, and the order of its measurements.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidelab_server::error::{Error, Result};
use tidelab_server::server::alignment::Sync;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::bytes;
use tidelab_server::server::source::Source;
use tidelab_server::workload::sysbench::Workload;

use crate::run::{Axis, CellId, Group, Role};

/// The most clients of sysbench.
const MOST_THREADS: u32 = 4096;

/// The work of the clients, and their way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// sysbench's read_only over the socket.
    ReadOnly,
    /// The same over TCP.
    NetworkReadOnly,
    /// sysbench's read_write over the socket.
    ReadWrite,
    /// The same over TCP.
    NetworkReadWrite,
}

impl Scenario {
    /// All, in measuring order: those without changes first.
    pub const ALL: [Scenario; 4] =
        [Scenario::ReadOnly, Scenario::NetworkReadOnly, Scenario::ReadWrite, Scenario::NetworkReadWrite];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::ReadOnly => "read_only",
            Scenario::NetworkReadOnly => "network_read_only",
            Scenario::ReadWrite => "read_write",
            Scenario::NetworkReadWrite => "network_read_write",
        }
    }

    /// sysbench's workload.
    pub fn workload(self) -> Workload {
        match self {
            Scenario::ReadOnly | Scenario::NetworkReadOnly => Workload::ReadOnly,
            Scenario::ReadWrite | Scenario::NetworkReadWrite => Workload::ReadWrite,
        }
    }

    /// True if clients connect over TCP.
    pub fn over_network(self) -> bool {
        matches!(self, Scenario::NetworkReadOnly | Scenario::NetworkReadWrite)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scenario {
    type Err = Error;

    fn from_str(name: &str) -> Result<Scenario> {
        Scenario::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| {
            let known = Scenario::ALL.map(Scenario::name).join(", ");
            Error::Usage(format!("there is no scenario '{name}': {known}"))
        })
    }
}

/// A server as the file names it: a source, or one with a name of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Named {
    /// Called as its source is written.
    Source(String),
    /// Called otherwise.
    As {
        /// The name in tables and files.
        name: String,
        /// The source.
        source: String,
    },
}

impl Named {
    /// The name in tables.
    pub fn name(&self) -> &str {
        match self {
            Named::Source(source) => source,
            Named::As { name, .. } => name,
        }
    }

    /// The source of its programs.
    pub fn source(&self) -> Result<Source> {
        match self {
            Named::Source(source) | Named::As { source, .. } => source.parse(),
        }
    }
}

/// Cells left out: those with all of these values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// A server's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// An engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// A tier, as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// A scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<Scenario>,
    /// Clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

impl FromStr for LeftOut {
    type Err = Error;

    /// `server=mysql-9.7,threads=512`.
    fn from_str(text: &str) -> Result<LeftOut> {
        let mut out = LeftOut::default();
        for part in text.split(',') {
            let bad = || Error::Usage(format!("'{part}': server=, engine=, tier=, scenario= or threads="));
            let (key, value) = part.split_once('=').ok_or_else(bad)?;
            match key {
                "server" => out.server = Some(value.to_string()),
                "engine" => out.engine = Some(value.parse()?),
                "tier" => out.tier = Some(value.to_string()),
                "scenario" => out.scenario = Some(value.parse()?),
                "threads" => out.threads = Some(value.parse().map_err(|_| bad())?),
                _ => return Err(bad()),
            }
        }
        Ok(out)
    }
}

impl LeftOut {
    fn holds(&self, competitor: &Competitor, tier: &str, scenario: Scenario, threads: u32) -> bool {
        self.server.as_ref().is_none_or(|name| *name == competitor.server)
            && self.engine.is_none_or(|engine| engine == competitor.engine)
            && self.tier.as_ref().is_none_or(|name| name == tier)
            && self.scenario.is_none_or(|s| s == scenario)
            && self.threads.is_none_or(|n| n == threads)
    }
}

/// The options of the file. `docs/experiments/matrix.md` has a table of the fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// The servers.
    pub servers: Vec<Named>,
    /// The engines: each is measured on the servers with it.
    pub engines: Vec<Engine>,
    /// Bytes of cache, as `2G`.
    pub tiers: Vec<String>,
    /// Clients.
    pub threads: Vec<u32>,
    /// The work of the clients.
    pub scenarios: Vec<Scenario>,
    /// Tables.
    pub tables: u32,
    /// Rows of each.
    pub rows: u64,
    /// Seconds of reads before the first measurement of a server.
    pub warm_up_read_s: u32,
    /// Seconds of reads and writes before the first writing one.
    pub warm_up_write_s: u32,
    /// Clients of the warm-up.
    pub warm_up_threads: u32,
    /// Seconds of each measurement.
    pub time_s: u32,
    /// Uncounted seconds before them.
    #[serde(default)]
    pub ramp_s: u32,
    /// Seconds at most to wait until the server is idle after one.
    pub settle_s: u32,
    /// Rounds; competitors take turns.
    pub rounds: u32,
    /// When a commit is answered.
    pub sync: Sync,
    /// True with a binary log.
    pub binary_log: bool,
    /// Bytes of redo log, as `4G`.
    pub redo: String,
    /// sysbench's distribution of keys.
    pub distribution: String,
    /// The seed of random values.
    pub seed: u32,
    /// Combinations left out.
    #[serde(default)]
    pub leave_out: Vec<LeftOut>,
    /// Rules of one's own instead of the laboratory's: a path below the experiment's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<String>,
}

/// A server with one of its engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Competitor {
    /// The server's name in the design.
    pub server: String,
    /// The engine.
    pub engine: Engine,
}

impl Competitor {
    /// The value of the axis `server`.
    pub fn label(&self) -> String {
        format!("{} {}", self.server, self.engine)
    }

    /// The same as the name of a folder.
    pub fn folder(&self) -> String {
        let kept = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
        self.label().chars().map(kept).collect()
    }
}

/// A measurement to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its name.
    pub id: CellId,
    /// The work of the clients.
    pub scenario: Scenario,
    /// The number of clients.
    pub threads: u32,
    /// sysbench's seed: the same for all competitors of a round.
    pub seed: u32,
}

/// One start of one competitor in one tier, with the cells measured on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The title for people.
    pub title: String,
    /// The competitor.
    pub competitor: Competitor,
    /// The tier as it is written.
    pub tier: String,
    /// Its bytes.
    pub memory: u64,
    /// The round.
    pub round: u32,
    /// The measurements in their order.
    pub cells: Vec<Planned>,
}

impl Part {
    /// The name of folders for its competitor in its tier.
    pub fn folder(&self) -> String {
        format!("{}-{}", self.competitor.folder(), self.tier)
    }

    /// As the conductor of runs wants it.
    pub fn group(&self) -> Group {
        Group { title: self.title.clone(), cells: self.cells.iter().map(|c| c.id.clone()).collect() }
    }
}

impl Design {
    /// Refuses the unmeasurable, by name.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::Usage(what));
        let counts = [
            ("servers", self.servers.len()),
            ("engines", self.engines.len()),
            ("tiers", self.tiers.len()),
            ("threads", self.threads.len()),
            ("scenarios", self.scenarios.len()),
            ("tables", self.tables as usize),
            ("rows", usize::try_from(self.rows).unwrap_or(usize::MAX)),
            ("time_s", self.time_s as usize),
            ("rounds", self.rounds as usize),
            ("warm_up_threads", self.warm_up_threads as usize),
            ("seed", self.seed as usize),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, n)| *n == 0) {
            return bad(format!("{name}: nothing, or 0"));
        }
        if let Some(n) = self.threads.iter().find(|n| **n == 0 || **n > MOST_THREADS) {
            return bad(format!("threads: {n} is not within 1 and {MOST_THREADS}"));
        }
        for (what, text) in self.tiers.iter().map(|t| ("tiers", t)).chain([("redo", &self.redo)]) {
            if bytes(text).is_none_or(|n| n < 1 << 20) {
                return bad(format!(
                    "{what}: '{text}' is no size of a megabyte or more; 64M or 2G would be one"
                ));
            }
        }
        const DISTRIBUTIONS: [&str; 5] = ["special", "uniform", "gaussian", "pareto", "zipfian"];
        if !DISTRIBUTIONS.contains(&self.distribution.as_str()) {
            return bad(format!("distribution: '{}': {}", self.distribution, DISTRIBUTIONS.join(", ")));
        }
        let mut names: Vec<&str> = Vec::new();
        for server in &self.servers {
            server.source()?;
            // Files are called after servers: other punctuation alone does not tell two apart.
            let plain =
                |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric() && !"._".contains(c), "-");
            if names.iter().any(|name| plain(name) == plain(server.name())) {
                return bad(format!("servers: {} is named twice", server.name()));
            }
            names.push(server.name());
        }
        for out in &self.leave_out {
            if *out == LeftOut::default() {
                return bad("leave_out: an entry that names nothing would leave out all".to_string());
            }
            if out.server.as_deref().is_some_and(|name| !names.contains(&name)) {
                return bad(format!(
                    "leave_out: no server is called {}",
                    out.server.as_deref().unwrap_or("")
                ));
            }
            if out.tier.as_ref().is_some_and(|tier| !self.tiers.contains(tier)) {
                return bad(format!("leave_out: there is no tier {}", out.tier.as_deref().unwrap_or("")));
            }
        }
        Ok(())
    }

    /// The largest number of clients.
    pub fn most_threads(&self) -> u32 {
        self.threads.iter().copied().chain([self.warm_up_threads, self.tables]).max().unwrap_or(1)
    }

    /// All parts for these competitors, in their order.
    ///
    /// Rounds contain tiers, tiers contain competitors. The first competitor moves on by one each round: A B
    /// C, B C A. Within a part, scenarios without changes come first, and few clients before many.
    pub fn parts(&self, competitors: &[Competitor]) -> Vec<Part> {
        let mut parts = Vec::new();
        for round in 1..=self.rounds {
            for tier in &self.tiers {
                for n in 0..competitors.len() {
                    let competitor = &competitors[(n + round as usize - 1) % competitors.len()];
                    let cells = self.cells(competitor, tier, round);
                    if cells.is_empty() {
                        continue;
                    }
                    parts.push(Part {
                        title: format!("{}, {tier}, round {round}", competitor.label()),
                        competitor: competitor.clone(),
                        tier: tier.clone(),
                        memory: bytes(tier).unwrap_or(0),
                        round,
                        cells,
                    });
                }
            }
        }
        parts
    }

    fn cells(&self, competitor: &Competitor, tier: &str, round: u32) -> Vec<Planned> {
        let mut cells = Vec::new();
        for scenario in Scenario::ALL.into_iter().filter(|s| self.scenarios.contains(s)) {
            for &threads in &self.sorted_threads() {
                if self.leave_out.iter().any(|out| out.holds(competitor, tier, scenario, threads)) {
                    continue;
                }
                let labels = [
                    ("server", competitor.label()),
                    ("tier", tier.to_string()),
                    ("scenario", scenario.to_string()),
                    ("threads", threads.to_string()),
                ];
                let place = scenario as u32 * MOST_THREADS + threads;
                let seed = self.seed.wrapping_add(round.wrapping_mul(100_000)).wrapping_add(place).max(1);
                cells.push(Planned { id: CellId::new(labels, round), scenario, threads, seed });
            }
        }
        cells
    }

    fn sorted_threads(&self) -> Vec<u32> {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// The axes of the run.
    pub fn axes(&self, competitors: &[Competitor]) -> Vec<Axis> {
        let labels: Vec<String> = competitors.iter().map(Competitor::label).collect();
        let scenarios: Vec<Scenario> =
            Scenario::ALL.into_iter().filter(|s| self.scenarios.contains(s)).collect();
        vec![
            Axis::new("server", "Server", Role::Competitor, &labels),
            Axis::new("threads", "Clients", Role::Number, &self.sorted_threads()),
            Axis::new("scenario", "Scenario", Role::Category, &scenarios),
            Axis::new("tier", "Cache", Role::Category, &self.tiers),
        ]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const TEXT: &str = r#"
servers = ["mariadb-10.5", { name = "mine", source = "prefix:/data/mariadb" }]
engines = ["InnoDB", "ROCKSDB"]
tiers = ["64M", "1G"]
threads = [4, 1]
scenarios = ["read_write", "read_only"]
tables = 2
rows = 1000
warm_up_read_s = 1
warm_up_write_s = 1
warm_up_threads = 4
time_s = 2
settle_s = 1
rounds = 2
sync = "full"
binary_log = true
redo = "1G"
distribution = "uniform"
seed = 7
"#;

    pub(crate) fn parsed(text: &str) -> Result<Design> {
        let design: Design = toml::from_str(text).map_err(|error| Error::Usage(error.to_string()))?;
        design.check().map(|()| design)
    }

    fn competitors() -> Vec<Competitor> {
        [("mariadb-10.5", Engine::InnoDb), ("mariadb-10.5", Engine::RocksDb), ("mine", Engine::InnoDb)]
            .map(|(server, engine)| Competitor { server: server.to_string(), engine })
            .to_vec()
    }

    #[test]
    fn competitors_take_turns_and_reads_come_before_writes() {
        let design = parsed(TEXT).unwrap();
        let parts = design.parts(&competitors());
        let order: Vec<String> = parts.iter().map(|p| p.title.clone()).collect();
        assert_eq!(
            order,
            [
                "mariadb-10.5 InnoDB, 64M, round 1",
                "mariadb-10.5 ROCKSDB, 64M, round 1",
                "mine InnoDB, 64M, round 1",
                "mariadb-10.5 InnoDB, 1G, round 1",
                "mariadb-10.5 ROCKSDB, 1G, round 1",
                "mine InnoDB, 1G, round 1",
                "mariadb-10.5 ROCKSDB, 64M, round 2",
                "mine InnoDB, 64M, round 2",
                "mariadb-10.5 InnoDB, 64M, round 2",
                "mariadb-10.5 ROCKSDB, 1G, round 2",
                "mine InnoDB, 1G, round 2",
                "mariadb-10.5 InnoDB, 1G, round 2",
            ]
        );
        let cells: Vec<String> =
            parts[0].cells.iter().map(|c| format!("{} {}", c.scenario, c.threads)).collect();
        assert_eq!(cells, ["read_only 1", "read_only 4", "read_write 1", "read_write 4"]);
        assert_eq!(parts, design.parts(&competitors()), "the same each time");
        assert_eq!(parts[3].memory, 1 << 30);
    }

    #[test]
    fn every_cell_has_a_folder_of_its_own_and_competitors_share_seeds() {
        let parts = parsed(TEXT).unwrap().parts(&competitors());
        let mut folders: Vec<String> = parts.iter().flat_map(|p| &p.cells).map(|c| c.id.folder()).collect();
        let all = folders.len();
        folders.sort();
        folders.dedup();
        assert_eq!((all, folders.len()), (48, 48));
        let seeds = |part: &Part| part.cells.iter().map(|c| c.seed).collect::<Vec<_>>();
        assert_eq!(seeds(&parts[0]), seeds(&parts[1]));
        assert_ne!(seeds(&parts[0]), seeds(&parts[6]), "another round");
        let distinct: std::collections::BTreeSet<u32> = seeds(&parts[0]).into_iter().collect();
        assert_eq!(distinct.len(), 4);
    }

    #[test]
    fn cells_can_be_left_out() {
        let mut design = parsed(TEXT).unwrap();
        design.leave_out = vec![
            "server=mine,tier=1G".parse().unwrap(),
            "engine=rocksdb,threads=4".parse().unwrap(),
            "scenario=read_only,threads=1".parse().unwrap(),
        ];
        design.check().unwrap();
        let parts = design.parts(&competitors());
        assert!(!parts.iter().any(|p| p.competitor.server == "mine" && p.tier == "1G"));
        for part in &parts {
            let cells: Vec<String> =
                part.cells.iter().map(|c| format!("{} {}", c.scenario, c.threads)).collect();
            if part.competitor.engine == Engine::RocksDb {
                assert_eq!(cells, ["read_write 1"]);
            } else {
                assert_eq!(cells, ["read_only 4", "read_write 1", "read_write 4"]);
            }
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        for (from, to, said) in [
            ("threads = [4, 1]", "threads = [4, 0]", "threads: 0"),
            ("threads = [4, 1]", "threads = []", "threads: nothing"),
            ("\"64M\"", "\"64\"", "'64' is no size"),
            ("\"mariadb-10.5\"", "\"mariadb-9\"", "mariadb-9"),
            ("\"ROCKSDB\"", "\"Aria\"", "Aria"),
            ("\"read_only\"", "\"reads\"", "reads"),
            ("seed = 7", "seed = 7\nsped = 1", "sped"),
            ("seed = 7", "seed = 7\nleave_out = [{}]", "leave out all"),
            ("seed = 7", "seed = 7\nleave_out = [{ server = \"x\" }]", "no server is called x"),
            ("\"uniform\"", "\"flat\"", "flat"),
            ("name = \"mine\"", "name = \"mariadb-10.5\"", "named twice"),
        ] {
            let error = parsed(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(said), "{to}: {error}");
        }
        assert!("threads=many".parse::<LeftOut>().is_err() && "512".parse::<LeftOut>().is_err());
    }
}
