//! From version to version: the releases of a family with one engine, compared with the oldest one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::release::{Family, Release};

use crate::run::{Cell, Run};

/// One engine of one family in one tier and scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Progression {
    /// The family.
    pub family: Family,
    /// The engine.
    pub engine: String,
    /// The tier.
    pub tier: String,
    /// The scenario.
    pub scenario: String,
    /// The releases, oldest first.
    pub releases: Vec<Release>,
    /// For each number of clients the transactions a second of each release: the median over the
    /// rounds; none where no cell counts.
    pub rows: Vec<(u32, Vec<Option<f64>>)>,
}

/// All progressions of a run with two releases or more to compare.
pub fn of(run: &Run, cells: &[Cell]) -> Vec<Progression> {
    // By family, engine, tier, scenario: by clients: by release: all rounds.
    type Rates = BTreeMap<u32, BTreeMap<Release, Vec<f64>>>;
    let mut all: BTreeMap<(Family, String, String, String), Rates> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.counts()) {
        let label = cell.id.label("server");
        let Some((_, engine)) = label.rsplit_once(' ') else { continue };
        let Some(release) = run.servers.get(label).and_then(ServerFacts::release) else { continue };
        let (Ok(threads), Some(rate)) =
            (cell.id.label("threads").parse(), cell.figures.get("transactions_per_s"))
        else {
            continue;
        };
        let key = (
            release.family,
            engine.to_string(),
            cell.id.label("tier").to_string(),
            cell.id.label("scenario").to_string(),
        );
        all.entry(key).or_default().entry(threads).or_default().entry(release).or_default().push(*rate);
    }
    all.into_iter()
        .filter_map(|((family, engine, tier, scenario), rates)| {
            let mut releases: Vec<Release> = rates.values().flat_map(|by| by.keys().copied()).collect();
            releases.sort_unstable();
            releases.dedup();
            if releases.len() < 2 {
                return None;
            }
            let rows = rates
                .into_iter()
                .map(|(threads, by)| {
                    (threads, releases.iter().map(|r| by.get(r).map(|v| median(v))).collect())
                })
                .collect();
            Some(Progression { family, engine, tier, scenario, releases, rows })
        })
        .collect()
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}

/// As a table for a terminal: rates, each followed by its ratio to the oldest release.
pub fn text(all: &[Progression]) -> String {
    let mut text = String::new();
    for one in all {
        let _ = writeln!(
            text,
            "\n{} with {}, {} of cache, {}: transactions/s, and against {}",
            one.family, one.engine, one.tier, one.scenario, one.releases[0].version
        );
        let _ = write!(text, "{:>8}", "clients");
        for release in &one.releases {
            let _ = write!(text, "{:>20}", release.version.to_string());
        }
        text.push('\n');
        for (threads, rates) in &one.rows {
            let _ = write!(text, "{threads:>8}");
            for (n, rate) in rates.iter().enumerate() {
                let shown = match (rate, rates[0]) {
                    (None, _) => "-".to_string(),
                    (Some(rate), Some(first)) if n > 0 && first > 0.0 => {
                        format!("{rate:.1} ({:.2})", rate / first)
                    }
                    (Some(rate), _) => format!("{rate:.1}"),
                };
                let _ = write!(text, "{shown:>20}");
            }
            text.push('\n');
        }
    }
    text
}

/// As CSV: a line for each rate.
pub fn csv(all: &[Progression]) -> String {
    let mut text = String::from("family,engine,tier,scenario,threads,version,transactions_per_s,ratio\n");
    for one in all {
        for (threads, rates) in &one.rows {
            for (release, rate) in one.releases.iter().zip(rates) {
                let Some(rate) = rate else { continue };
                let ratio = rates[0].filter(|first| *first > 0.0).map(|first| rate / first);
                let _ = writeln!(
                    text,
                    "{},{},{},{},{threads},{},{rate},{}",
                    one.family,
                    one.engine,
                    one.tier,
                    one.scenario,
                    release.version,
                    ratio.map(|r| r.to_string()).unwrap_or_default()
                );
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CellId;

    fn run(servers: &[(&str, &str)]) -> Run {
        let mut run = Run::new("t", "", "matrix");
        for (label, version) in servers {
            let variables = [("version".to_string(), version.to_string())].into();
            run.servers.insert(label.to_string(), ServerFacts::new("/p", &[], &variables));
        }
        run
    }

    fn cell(server: &str, threads: u32, round: u32, rate: f64) -> Cell {
        let labels = [
            ("server", server.to_string()),
            ("tier", "64M".to_string()),
            ("scenario", "read_only".to_string()),
            ("threads", threads.to_string()),
        ];
        let mut cell = Cell::new(CellId::new(labels, round), 1);
        cell.figure("transactions_per_s", rate);
        cell
    }

    #[test]
    fn releases_stand_in_their_order_beside_the_oldest() {
        let run = run(&[
            ("new InnoDB", "10.11.18-MariaDB"),
            ("old InnoDB", "10.5.23-MariaDB"),
            ("new ROCKSDB", "10.11.18-MariaDB"),
            ("my InnoDB", "9.7.4-2"),
        ]);
        let mut broken = cell("new InnoDB", 1, 3, 1.0);
        broken.failures.push("x".to_string());
        let cells = [
            cell("new InnoDB", 1, 1, 90.0),
            cell("new InnoDB", 1, 2, 110.0),
            broken,
            cell("old InnoDB", 1, 1, 50.0),
            cell("new InnoDB", 16, 1, 30.0),
            cell("new ROCKSDB", 1, 1, 1.0),
            cell("my InnoDB", 1, 1, 1.0),
        ];
        let all = of(&run, &cells);
        assert_eq!(all.len(), 1, "one release alone is no progression");
        let versions: Vec<String> = all[0].releases.iter().map(|r| r.version.to_string()).collect();
        assert_eq!(versions, ["10.5.23", "10.11.18"]);
        assert_eq!(
            all[0].rows,
            [(1, vec![Some(50.0), Some(100.0)]), (16, vec![None, Some(30.0)])],
            "medians over rounds, clients by number"
        );
        let text = text(&all);
        assert!(text.contains("MariaDB with InnoDB, 64M of cache, read_only"), "{text}");
        assert!(text.contains("100.0 (2.00)") && text.lines().any(|l| l.contains('-') && l.contains("30.0")));
        let csv = csv(&all);
        assert!(csv.contains("MariaDB,InnoDB,64M,read_only,1,10.11.18,100,2\n"), "{csv}");
        assert!(csv.contains("MariaDB,InnoDB,64M,read_only,16,10.11.18,30,\n"), "{csv}");
    }
}
