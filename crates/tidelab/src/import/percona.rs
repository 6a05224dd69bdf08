//! The data set of Percona's "MySQL Ecosystem Performance Benchmark Report 2026"
//! (github.com/Percona-Lab-results/2026-interactive-metrics), and others of its layout:
//!
//! ```text
//! FOLDER/FAMILY/VERSION/TierNG_RW_Tth.sysbench.txt   a measurement of 15 minutes, T threads
//! FOLDER/FAMILY/VERSION/TierNG_RW_Tth.iostat.txt     telemetry alongside: dstat, vmstat, mpstat too
//! FOLDER/FAMILY/VERSION/TierNG.cnf.txt               of the server: vars, status, the summary of pt-mysql-summary
//! ```
//!
//! FOLDER is `benchmark_logs`, with `_remote` where the client was another host, and `_read_only` at its
//! end for reads. Names of files keep `RW` there, so the folder decides.

use std::collections::BTreeMap;

use tidelab_server::error::Result;
use tidelab_server::server::facts::ServerFacts;

use super::source::{Files, InputFile};
use super::sysbench::{figures, known_metrics};
use super::sysbench_log::{self, Log};
use super::{id, percona_tables, Imported, ImportedCell, Kind};
use crate::run::{Cell, Role};

/// The scenarios in the report's order, by the folders of their files.
pub const SCENARIOS: [(&str, &str); 4] = [
    ("benchmark_logs", "read-write local"),
    ("benchmark_logs_read_only", "read-only local"),
    ("benchmark_remote_logs", "read-write network"),
    ("benchmark_remote_logs_read_only", "read-only network"),
];

/// The families in the report's order, as folders spell them and as people do.
const FAMILIES: [(&str, &str); 4] = [
    ("mariadb", "MariaDB"),
    ("mysql", "MySQL"),
    ("custom-mysql", "custom MySQL"),
    ("percona-server", "Percona Server"),
];

const REPORT: &str = "sysbench.txt";

/// True if a path is one of a measurement in this layout.
pub fn is_one(path: &str) -> bool {
    Place::of(path).is_some_and(|place| place.threads.is_some() && place.kind == REPORT)
}

/// The parts of a path of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    scenario: &'static str,
    family: String,
    version: String,
    tier_gb: u64,
    threads: Option<u64>,
    /// The kind of file: `sysbench.txt`, `vars.txt`.
    kind: String,
}

impl Place {
    fn of(path: &str) -> Option<Place> {
        let parts: Vec<&str> = path.split('/').collect();
        let [folder, family, version, name] = parts.get(parts.len().checked_sub(4)?..)? else { return None };
        let scenario = SCENARIOS.iter().find(|(f, _)| f == folder)?.1;
        let rest = name.strip_prefix("Tier")?;
        let (tier, rest) = rest.split_once('G')?;
        let (threads, kind) = match rest.strip_prefix("_RW_").or(rest.strip_prefix("_RO_")) {
            Some(rest) => {
                let (threads, kind) = rest.split_once("th.")?;
                (Some(threads.parse().ok()?), kind)
            }
            None => (None, rest.strip_prefix(['.', '-'])?),
        };
        Some(Place {
            scenario,
            family: family.to_string(),
            version: version.to_string(),
            tier_gb: tier.parse().ok()?,
            threads,
            kind: kind.to_string(),
        })
    }

    fn server(&self) -> Server {
        let place = FAMILIES.iter().position(|(folder, _)| *folder == self.family).unwrap_or(FAMILIES.len());
        let family = FAMILIES.get(place).map_or(self.family.as_str(), |(_, title)| title).to_string();
        let version = self.version.split("-MariaDB").next().unwrap_or_default().to_string();
        let numbers = version.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        Server { place, family, numbers, version }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("server".to_string(), self.server().name()),
            ("scenario".to_string(), self.scenario.to_string()),
            ("tier".to_string(), tier(self.tier_gb)),
            ("threads".to_string(), self.threads.unwrap_or(0).to_string()),
        ])
    }
}

/// A server, ordered by family, then by its version's numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Server {
    place: usize,
    family: String,
    numbers: Vec<u64>,
    version: String,
}

impl Server {
    fn name(&self) -> String {
        format!("{} {}", self.family, self.version)
    }
}

fn tier(gb: u64) -> String {
    format!("{gb} GB")
}

/// Makes a run of the files. Each `.sysbench.txt` becomes a cell, an empty or broken one as failed.
pub fn import(files: Files) -> Result<Imported> {
    let title = "Percona's MySQL ecosystem benchmark 2026, its published data set";
    let mut imported = Imported::new("percona-2026", title, Kind::Percona);
    imported.run.about = "sysbench OLTP on servers of several families and versions, 1 to 512 threads, three sizes \
        of the buffer pool over the same tables, 15 minutes each, one run a cell: the published reports as they are. \
        Latency is the 95th percentile that sysbench printed; there is no other."
        .to_string();
    let mut reports: Vec<(Place, InputFile)> = Vec::new();
    let mut others: Vec<(Place, InputFile)> = Vec::new();
    for file in files.files {
        match Place::of(&file.path) {
            Some(place) if place.threads.is_some() && place.kind == REPORT => reports.push((place, file)),
            Some(place) => others.push((place, file)),
            None => imported.keep(file, "is not of the layout"),
        }
    }
    let order = |p: &Place| {
        let scenario = SCENARIOS.iter().position(|(_, name)| *name == p.scenario);
        (scenario, p.tier_gb, p.threads, p.server())
    };
    reports.sort_by_key(|(place, _)| order(place));
    same_contents(&mut reports, &mut imported);
    let mut facts = Facts::default();
    let places: Vec<Place> = reports.iter().map(|(place, _)| place.clone()).collect();
    for (place, file) in reports {
        let path = file.path.clone();
        let cell = measurement(&place, file, &mut imported.run.notes);
        imported.add(cell, &path);
    }
    for (place, file) in others {
        facts.take(&place, &file);
        put_with_server(&place, file, &mut imported);
    }
    describe(places, facts, &mut imported);
    imported.tables = percona_tables::render(&imported);
    Ok(imported)
}

/// Names reports with the same contents; of two with the same labels too, one is left out.
fn same_contents(reports: &mut Vec<(Place, InputFile)>, imported: &mut Imported) {
    let mut at = 1;
    while at < reports.len() {
        let (before, rest) = reports.split_at(at);
        let (place, file) = &rest[0];
        let twin = before.iter().find(|(_, f)| !file.bytes.is_empty() && f.bytes == file.bytes);
        let Some((other, twin)) = twin else {
            at += 1;
            continue;
        };
        let same = format!("{} and {} have the same contents, byte for byte", twin.path, file.path);
        if other == place {
            imported.run.notes.push(format!("{same}: they are one measurement"));
            reports.remove(at);
        } else {
            imported.run.notes.push(format!("{same}: one of them is no measurement of what its name says"));
            at += 1;
        }
    }
}

/// A cell of a report.
fn measurement(place: &Place, file: InputFile, notes: &mut Vec<String>) -> ImportedCell {
    let log = sysbench_log::read(&file.text());
    let mut cell = Cell::new(id(&place.labels(), 1), 0);
    figures(&log, &mut cell);
    cell.failures.extend(contradictions(place, &log));
    notes.extend(log.strange.iter().map(|what| format!("{}: {what}", file.path)));
    notes.extend(cell.failures.iter().map(|why| format!("{} does not count: {why}", file.path)));
    let mut series = Vec::new();
    if !log.series.rows.is_empty() {
        series.push(("seconds.csv".to_string(), log.series));
    }
    ImportedCell { cell, series, files: vec![(REPORT.to_string(), file.bytes)] }
}

/// Contradictions between a report and its path.
fn contradictions(place: &Place, log: &Log) -> Vec<String> {
    let mut said = Vec::new();
    if let (Some(named), Some(ran)) = (place.threads, log.threads) {
        if named != ran {
            said.push(format!("its name says {named} threads, its report {ran}"));
        }
    }
    if let Some(report) = &log.report {
        let only_reads = place.scenario.starts_with("read-only");
        let writes = report.measured.writes;
        if only_reads && writes > 0 {
            said.push(format!("its folder says read-only, its report counts {writes} writes"));
        } else if !only_reads && writes == 0 {
            said.push("its folder says read-write, its report counts no write".to_string());
        }
    }
    said
}

/// Puts a file other than a report in its place: telemetry into its cell, the rest to the run.
fn put_with_server(place: &Place, file: InputFile, imported: &mut Imported) {
    const TELEMETRY: [&str; 4] = ["iostat.txt", "vmstat.txt", "mpstat.txt", "dstat.txt"];
    const OF_SERVERS: [&str; 4] = ["cnf.txt", "vars.txt", "status.txt", "pt-mysql-summary.txt"];
    let known = if place.threads.is_some() { TELEMETRY } else { OF_SERVERS }.contains(&place.kind.as_str());
    let labels = place.labels();
    let cell = imported.cells.iter_mut().find(|c| place.threads.is_some() && c.cell.id.labels == labels);
    match cell {
        Some(cell) if known && !cell.files.iter().any(|(name, _)| *name == place.kind) => {
            cell.files.push((place.kind.clone(), file.bytes));
        }
        _ => {
            if !known {
                imported.run.notes.push(format!("{}: what it is is not known; it is kept", file.path));
            } else if place.threads.is_some() {
                imported.run.notes.push(format!("{} belongs to no report; it is kept", file.path));
            }
            if imported.files.iter().any(|(name, _)| *name == file.path) {
                imported.run.notes.push(format!("{} is there twice; the first is kept", file.path));
            } else {
                imported.files.push((file.path, file.bytes));
            }
        }
    }
}

/// Options and variables of a server, by tier.
#[derive(Debug, Default)]
struct Facts {
    settings: BTreeMap<String, ByTier>,
    variables: BTreeMap<String, ByTier>,
    /// The machine's name and CPUs, as iostat's first line has them.
    machines: Vec<String>,
}

/// Values by name, then by tier in GB.
type ByTier = BTreeMap<String, BTreeMap<u64, String>>;

impl Facts {
    fn take(&mut self, place: &Place, file: &InputFile) {
        let server = place.server().name();
        let pairs = |split: char| -> Vec<(String, String)> {
            file.text()
                .lines()
                .filter_map(|line| line.split_once(split))
                .map(|(name, value)| (name.trim().to_string(), value.trim().to_string()))
                .collect()
        };
        let (all, pairs) = match place.kind.as_str() {
            "cnf.txt" => (&mut self.settings, pairs('=')),
            "vars.txt" => (&mut self.variables, pairs('\t')),
            "iostat.txt" => {
                let text = file.text();
                let first = text.lines().next().unwrap_or_default().replace('\t', " ");
                if first.starts_with("Linux ") && !self.machines.contains(&first) {
                    self.machines.push(first);
                }
                return;
            }
            _ => return,
        };
        let values = all.entry(server).or_default();
        for (name, value) in pairs {
            values.entry(name).or_default().insert(place.tier_gb, value);
        }
    }
}

/// One value for all tiers, or each with its tier.
fn merged(values: &ByTier) -> BTreeMap<String, String> {
    let one = |of: &BTreeMap<u64, String>| {
        let mut different: Vec<&String> = of.values().collect();
        different.dedup();
        match different.as_slice() {
            [value] => value.to_string(),
            _ => of.iter().map(|(gb, v)| format!("{v} at {}", tier(*gb))).collect::<Vec<_>>().join(", "),
        }
    };
    values.iter().map(|(name, of)| (name.clone(), one(of))).collect()
}

/// The head of the run.
fn describe(places: Vec<Place>, facts: Facts, imported: &mut Imported) {
    let mut servers: Vec<Server> = places.iter().map(Place::server).collect();
    servers.sort();
    servers.dedup();
    let names: Vec<String> = servers.iter().map(Server::name).collect();
    let mut families: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for server in &servers {
        families.entry(server.family.clone()).or_default().push(server.name());
        let of = |all: &BTreeMap<String, ByTier>| all.get(&server.name()).map(merged).unwrap_or_default();
        let known = ServerFacts {
            version: server.version.clone(),
            prefix: String::new(),
            settings: of(&facts.settings),
            read_back: BTreeMap::new(),
            variables: of(&facts.variables),
        };
        imported.run.servers.insert(server.name(), known);
    }
    if let Some(design) = imported.run.design.as_object_mut() {
        design.insert("families".to_string(), serde_json::json!(families));
    }
    let mut tiers: Vec<u64> = places.iter().map(|p| p.tier_gb).collect();
    tiers.sort_unstable();
    let tiers: Vec<String> = tiers.into_iter().map(tier).collect();
    let scenarios = SCENARIOS.iter().map(|(_, name)| name.to_string()).collect();
    imported.axis("server", "Server", Role::Competitor, Some(names));
    imported.axis("scenario", "Scenario", Role::Category, Some(scenarios));
    imported.axis("tier", "Buffer pool", Role::Category, Some(tiers));
    imported.axis("threads", "Threads", Role::Number, None);
    imported.metrics(known_metrics());
    for machine in facts.machines {
        imported.run.notes.push(format!("the machine, as iostat names it: {machine}"));
    }
}

#[cfg(test)]
#[path = "percona_test.rs"]
mod tests;
