//! The files of a TPC-C run: JSON with everything, and four tables as CSV.

use std::path::{Path, PathBuf};

use tidelab_server::error::Result;

use super::files::{csv_text, json_text, number, spread, warm_up, write_all};
use super::tpcc_table::{render, TpccResult};

/// Writes `NAME.json`, `NAME-summary.csv`, `NAME-transactions.csv`, `NAME-cells.csv`,
/// `NAME-seconds.csv` and `NAME.txt` into a folder and returns their paths.
pub fn write(run: &TpccResult, folder: &Path) -> Result<Vec<PathBuf>> {
    let contents = vec![
        (".json", json(run)?),
        ("-summary.csv", csv_text(&SUMMARY, summary_rows(run))?),
        ("-transactions.csv", csv_text(&TRANSACTIONS, transaction_rows(run))?),
        ("-cells.csv", csv_text(&CELLS, cell_rows(run))?),
        ("-seconds.csv", csv_text(&SECONDS, second_rows(run))?),
        (".txt", render(run, false)),
    ];
    write_all(folder, &run.name, contents)
}

/// A run as JSON.
pub fn json(run: &TpccResult) -> Result<String> {
    json_text(run)
}

const SUMMARY: [&str; 21] = [
    "engine",
    "rounds",
    "status",
    "nopm_median",
    "nopm_min",
    "nopm_max",
    "nopm_iqr",
    "tpm_median",
    "ratio_median",
    "ratio_low",
    "ratio_high",
    "verdict",
    "server_cpu_us_median",
    "server_cpu_us_min",
    "server_cpu_us_max",
    "after_cpu_us_median",
    "failed_percent_median",
    "resident_bytes",
    "space_bytes_median",
    "written_per_transaction_median",
    "other_cpus",
];

fn summary_rows(run: &TpccResult) -> Vec<Vec<String>> {
    run.summary
        .iter()
        .map(|l| {
            let (median, low, high, verdict) = l.ratio.map_or_else(Default::default, |r| {
                (number(r.median), number(r.low), number(r.high), format!("{:?}", r.verdict).to_lowercase())
            });
            vec![
                l.engine.name().to_string(),
                l.rounds.to_string(),
                if l.failures.is_empty() && l.rounds > 0 { "ok" } else { "failed" }.to_string(),
                spread(l.nopm, |s| s.median),
                spread(l.nopm, |s| s.min),
                spread(l.nopm, |s| s.max),
                spread(l.nopm, |s| s.iqr),
                spread(l.tpm, |s| s.median),
                median,
                low,
                high,
                verdict,
                spread(l.server_cpu_us, |s| s.median),
                spread(l.server_cpu_us, |s| s.min),
                spread(l.server_cpu_us, |s| s.max),
                spread(l.after_cpu_us, |s| s.median),
                spread(l.failed_percent, |s| s.median),
                l.resident_bytes.to_string(),
                spread(l.space_bytes, |s| s.median),
                spread(l.written_per_transaction, |s| s.median),
                number(l.other_cpus),
            ]
        })
        .collect()
}

const TRANSACTIONS: [&str; 15] = [
    "engine",
    "round",
    "status",
    "transaction",
    "calls",
    "min_ms",
    "average_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
    "sd_ms",
    "time_percent",
    "rolled_back",
    "failed",
];

fn transaction_rows(run: &TpccResult) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for cell in &run.record.cells {
        for t in cell.figures.iter().flat_map(|f| &f.transactions) {
            let l = &t.latency;
            let failed: Vec<String> =
                t.failed.iter().map(|(code, count)| format!("{code}:{count}")).collect();
            let mut row = vec![
                cell.engine.name().to_string(),
                cell.round.to_string(),
                if cell.counts() { "ok" } else { "failed" }.to_string(),
                t.transaction.name().to_string(),
                l.calls.to_string(),
            ];
            row.extend(
                [l.min_ms, l.average_ms, l.p50_ms, l.p95_ms, l.p99_ms, l.max_ms, l.sd_ms, t.time_percent]
                    .map(number),
            );
            row.extend([t.rolled_back.to_string(), failed.join(" ")]);
            rows.push(row);
        }
    }
    rows
}

const CELLS: [&str; 21] = [
    "engine",
    "round",
    "seed",
    "status",
    "failures",
    "seconds",
    "nopm",
    "tpm",
    "failed_percent",
    "server_cpu_us",
    "after_cpu_us",
    "other_cpus",
    "client_cpus",
    "resident_bytes",
    "written_bytes",
    "data_bytes",
    "log_bytes",
    "check_s",
    "order",
    "warm_up_s",
    "steady",
];

fn cell_rows(run: &TpccResult) -> Vec<Vec<String>> {
    let cells = run.record.cells.iter().enumerate();
    cells
        .map(|(order, cell)| {
            let mut row = vec![
                cell.engine.name().to_string(),
                cell.round.to_string(),
                cell.seed.to_string(),
                if cell.counts() { "ok" } else { "failed" }.to_string(),
                cell.failures.join("; "),
            ];
            if let Some(f) = &cell.figures {
                row.extend(
                    [
                        f.seconds,
                        f.nopm,
                        f.tpm,
                        f.failed_percent,
                        f.server_cpu_us,
                        f.after_cpu_us,
                        f.other_cpus,
                        f.client_cpus,
                    ]
                    .map(number),
                );
                let bytes = [f.resident_bytes, f.written_bytes, f.space.data_bytes, f.space.log_bytes];
                row.extend(bytes.map(|n| n.to_string()));
            }
            row.resize(CELLS.len() - 4, String::new());
            row.extend([number(cell.check_s), (order + 1).to_string()]);
            row.extend(warm_up(cell.warm_up));
            row
        })
        .collect()
}

const SECONDS: [&str; 8] =
    ["engine", "round", "at_s", "nopm", "tpm", "failed_per_s", "server_cpus", "resident_bytes"];

fn second_rows(run: &TpccResult) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for cell in &run.record.cells {
        for s in &cell.seconds {
            let mut row = vec![cell.engine.name().to_string(), cell.round.to_string()];
            row.extend([s.at_s, s.nopm, s.tpm, s.failed_per_s, s.server_cpus].map(number));
            row.push(s.resident_bytes.to_string());
            rows.push(row);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::super::tpcc_table::tests::sample;
    use super::*;

    #[test]
    fn the_files_are_those_of_earlier_versions() {
        let folder = tempfile::tempdir().unwrap();
        let golden = super::super::files::tests::golden;
        let mut run = sample();
        for cell in &mut run.record.cells {
            for at in 1..=2 {
                cell.seconds.push(crate::measure::tpcc::SecondUse {
                    at_s: f64::from(at) + 0.5,
                    nopm: 20_000.5,
                    tpm: 44_000.0,
                    failed_per_s: 0.25,
                    server_cpus: 1.5,
                    resident_bytes: 300 << 20,
                });
            }
        }
        let facts = tidelab_server::server::facts::ServerFacts {
            version: "11.8.6-MariaDB".to_string(),
            prefix: "/p".to_string(),
            settings: BTreeMap::new(),
            read_back: BTreeMap::new(),
            variables: BTreeMap::new(),
        };
        run.record.servers.insert(tidelab_server::server::engine::Engine::TidesDb, facts);
        golden("tpcc", &write(&run, &folder.path().join("a")).unwrap());
        run.record.cells[3].failures.push("condition 1: x".to_string());
        run.record.cells[3].figures = None;
        run.record.cells[3].check_s = 0.0;
        run.record.cells[0].failures.push("condition 3: y".to_string());
        run.record.cells[1].warm_up.steady = None;
        run.record.cells[2].warm_up.steady = Some(false);
        run.record.cells[1].figures.as_mut().unwrap().other_cpus = 0.75;
        run.record.cells[1].figures.as_mut().unwrap().transactions[1].failed.insert(1205, 2);
        run.record.ended_early = Some("the server ended".to_string());
        run.design.memory_scale = 0.6;
        run.design.options = None;
        run.short_run = true;
        run.summary = crate::measure::tpcc_summary::lines(&run.record.cells, &run.design.engines);
        golden("tpcc-failed", &write(&run, &folder.path().join("b")).unwrap());
    }

    fn records(path: &Path) -> Vec<BTreeMap<String, String>> {
        csv::Reader::from_path(path).unwrap().deserialize().map(|r| r.unwrap()).collect()
    }

    #[test]
    fn the_files_hold_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = sample();
        run.record.cells[3].failures.push("condition 1: x".to_string());
        run.record.cells[3].figures = None;
        let paths = write(&run, &folder.path().join("deep")).unwrap();
        assert_eq!(paths.len(), 6);
        let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&paths[0]).unwrap()).unwrap();
        assert_eq!(json["cells"][0]["figures"]["nopm"], 20_000.0);
        assert_eq!(json["cells"][0]["figures"]["transactions"][0]["transaction"], "NEWORD");
        assert_eq!(json["cells"][0]["figures"]["transactions"][0]["p95_ms"], 4.0);
        assert_eq!(json["design"]["scale"]["warehouses"], 40);
        assert_eq!(json["loads"][0]["engine"], "TidesDB");
        assert_eq!(json["loads"][0]["analyzed"]["tables"], 9);

        let summary = records(&paths[1]);
        assert_eq!((summary[0]["engine"].as_str(), summary[0]["ratio_median"].as_str()), ("TidesDB", "1.9"));
        assert_eq!(summary[1]["verdict"], "");
        let transactions = records(&paths[2]);
        assert_eq!(transactions.len(), 15, "five of each run that came to its end");
        assert_eq!(transactions[4]["transaction"], "OSTAT");
        assert_eq!(transactions[0]["failed"], "1213:3");
        let cells = records(&paths[3]);
        assert_eq!((cells[0]["nopm"].as_str(), cells[0]["order"].as_str()), ("20000", "1"));
        assert_eq!((cells[3]["status"].as_str(), cells[3]["nopm"].as_str()), ("failed", ""));
        assert_eq!(cells[3]["check_s"], "3");
        assert_eq!((cells[3]["warm_up_s"].as_str(), cells[3]["steady"].as_str()), ("70", "yes"));
        assert_eq!(
            (&json["cells"][0]["warm_up"]["seconds"], &json["short_run"]),
            (&70.0.into(), &false.into())
        );
    }
}
