//! The files of a run: JSON with everything, and three tables as CSV.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::statistics::Spread;
use tidelab_server::workload::steady::WarmUp;

use super::result::RunResult;
use super::table;

/// Writes `NAME.json`, `NAME-summary.csv`, `NAME-cells.csv`, `NAME-seconds.csv` and
/// `NAME.txt` into a folder and returns their paths.
pub fn write(run: &RunResult, folder: &Path) -> Result<Vec<PathBuf>> {
    let contents = vec![
        (".json", json(run)?),
        ("-summary.csv", csv_text(&SUMMARY, summary_rows(run))?),
        ("-cells.csv", csv_text(&CELLS, cell_rows(run))?),
        ("-seconds.csv", csv_text(&SECONDS, second_rows(run))?),
        (".txt", table::render(run, false)),
    ];
    write_all(folder, &run.name, contents)
}

/// Writes files that are called NAME and an ending, and returns their paths.
pub(super) fn write_all(folder: &Path, name: &str, contents: Vec<(&str, String)>) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).map_err(io_error("cannot make", folder))?;
    let mut paths = Vec::new();
    for (ending, text) in contents {
        let path = folder.join(format!("{name}{ending}"));
        fs::write(&path, text).map_err(io_error("cannot write", &path))?;
        paths.push(path);
    }
    Ok(paths)
}

/// A run as JSON.
pub fn json(run: &RunResult) -> Result<String> {
    json_text(run)
}

/// Anything as JSON that ends with a line's end.
pub(super) fn json_text<T: Serialize>(run: &T) -> Result<String> {
    let text = serde_json::to_string_pretty(run)
        .map_err(|e| Error::Usage(format!("the result cannot be written as JSON: {e}")))?;
    Ok(text + "\n")
}

const SUMMARY: [&str; 22] = [
    "workload",
    "engine",
    "rounds",
    "status",
    "transactions_per_s_median",
    "transactions_per_s_min",
    "transactions_per_s_max",
    "transactions_per_s_iqr",
    "statements_per_s_median",
    "ratio_median",
    "ratio_low",
    "ratio_high",
    "verdict",
    "p95_ms_median",
    "p95_ms_min",
    "p95_ms_max",
    "p99_ms_median",
    "server_cpu_us_median",
    "server_cpu_us_min",
    "server_cpu_us_max",
    "after_cpu_us_median",
    "retried_errors",
];

fn summary_rows(run: &RunResult) -> Vec<Vec<String>> {
    run.summary
        .iter()
        .map(|l| {
            let verdict = l.ratio.map_or(String::new(), |r| format!("{:?}", r.verdict).to_lowercase());
            let ratio = |part: f64| if l.ratio.is_some() { number(part) } else { String::new() };
            let (median, low, high) = l.ratio.map_or((0.0, 0.0, 0.0), |r| (r.median, r.low, r.high));
            vec![
                l.workload.name().to_string(),
                l.engine.name().to_string(),
                l.rounds.to_string(),
                if l.failures.is_empty() && l.rounds > 0 { "ok" } else { "failed" }.to_string(),
                spread(l.transactions_per_s, |s| s.median),
                spread(l.transactions_per_s, |s| s.min),
                spread(l.transactions_per_s, |s| s.max),
                spread(l.transactions_per_s, |s| s.iqr),
                spread(l.statements_per_s, |s| s.median),
                ratio(median),
                ratio(low),
                ratio(high),
                verdict,
                spread(l.p95_ms, |s| s.median),
                spread(l.p95_ms, |s| s.min),
                spread(l.p95_ms, |s| s.max),
                spread(l.p99_ms, |s| s.median),
                spread(l.server_cpu_us, |s| s.median),
                spread(l.server_cpu_us, |s| s.min),
                spread(l.server_cpu_us, |s| s.max),
                spread(l.after_cpu_us, |s| s.median),
                l.retried_errors.to_string(),
            ]
        })
        .collect()
}

const CELLS: [&str; 27] = [
    "workload",
    "engine",
    "round",
    "seed",
    "status",
    "failures",
    "seconds",
    "transactions",
    "statements",
    "transactions_per_s",
    "statements_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "average_ms",
    "max_ms",
    "retried_errors",
    "server_cpu_us",
    "after_cpu_us",
    "other_cpus",
    "resident_bytes",
    "written_bytes",
    "data_bytes",
    "log_bytes",
    "order",
    "warm_up_s",
    "steady",
];

fn cell_rows(run: &RunResult) -> Vec<Vec<String>> {
    let cells = run.record.cells.iter().enumerate();
    cells
        .map(|(order, cell)| {
            let mut row = vec![
                cell.workload.name().to_string(),
                cell.engine.name().to_string(),
                cell.round.to_string(),
                cell.seed.to_string(),
                if cell.counts() { "ok" } else { "failed" }.to_string(),
                cell.failures.join("; "),
            ];
            match &cell.figures {
                Some(f) => row.extend([
                    number(f.seconds),
                    f.transactions.to_string(),
                    f.statements.to_string(),
                    number(f.transactions_per_s),
                    number(f.statements_per_s),
                    number(f.p50_ms),
                    number(f.p95_ms),
                    number(f.p99_ms),
                    number(f.average_ms),
                    number(f.max_ms),
                    f.retried_errors.to_string(),
                    number(f.server_cpu_us),
                    number(f.after_cpu_us),
                    number(f.other_cpus),
                    f.resident_bytes.to_string(),
                    f.written_bytes.to_string(),
                    f.space.data_bytes.to_string(),
                    f.space.log_bytes.to_string(),
                ]),
                None => row.resize(CELLS.len() - 3, String::new()),
            }
            row.push((order + 1).to_string());
            row.extend(warm_up(cell.warm_up));
            row
        })
        .collect()
}

const SECONDS: [&str; 10] = [
    "workload",
    "engine",
    "round",
    "at_s",
    "transactions_per_s",
    "statements_per_s",
    "p95_ms",
    "errors_per_s",
    "server_cpus",
    "resident_bytes",
];

fn second_rows(run: &RunResult) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for cell in &run.record.cells {
        for s in &cell.seconds {
            rows.push(vec![
                cell.workload.name().to_string(),
                cell.engine.name().to_string(),
                cell.round.to_string(),
                number(s.at_s),
                number(s.transactions_per_s),
                number(s.statements_per_s),
                number(s.p95_ms),
                number(s.errors_per_s),
                number(s.server_cpus),
                s.resident_bytes.to_string(),
            ]);
        }
    }
    rows
}

/// The columns of a warm-up: seconds, and `yes`, `no` or nothing for one of a fixed length.
pub(super) fn warm_up(of: WarmUp) -> [String; 2] {
    let steady = of.steady.map_or("", |steady| if steady { "yes" } else { "no" });
    [number(of.seconds), steady.to_string()]
}

/// A number with as many places as a measurement bears.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A part of a spread; nothing where nothing was measured.
pub(super) fn spread(spread: Option<Spread>, part: fn(&Spread) -> f64) -> String {
    spread.map_or(String::new(), |s| number(part(&s)))
}

/// Rows as CSV below a header.
pub(super) fn csv_text(header: &[&str], rows: Vec<Vec<String>>) -> Result<String> {
    let failed = |e: String| Error::Usage(format!("the result cannot be written as CSV: {e}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header).map_err(|e| failed(e.to_string()))?;
    for row in rows {
        writer.write_record(&row).map_err(|e| failed(e.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|e| failed(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::result::tests::sample;
    use super::*;

    /// Compares files with those that an earlier version wrote for the same measurements.
    pub(in crate::report) fn golden(name: &str, paths: &[PathBuf]) {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/results").join(name);
        for path in paths {
            let file = kept.join(path.file_name().unwrap());
            let now = fs::read_to_string(path).unwrap();
            let then = fs::read_to_string(&file).unwrap();
            if path.extension().is_some_and(|e| e == "json") {
                let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
                assert_eq!(value(&now), value(&then), "{}", file.display());
            } else {
                assert_eq!(now, then, "{}", file.display());
            }
        }
    }

    #[test]
    fn the_files_are_those_of_earlier_versions() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = sample();
        for cell in &mut run.record.cells {
            for at in 1..=2 {
                cell.seconds.push(crate::measure::cell::SecondUse {
                    at_s: f64::from(at) + 0.5,
                    transactions_per_s: 1234.56789,
                    statements_per_s: 5000.0,
                    p95_ms: 1.25,
                    errors_per_s: 0.0,
                    server_cpus: 1.5,
                    resident_bytes: 300 << 20,
                });
            }
        }
        golden("sysbench", &write(&run, &folder.path().join("a")).unwrap());
        run.record.cells[3].failures.push("a \"b\", c".to_string());
        run.record.cells[3].figures = None;
        run.record.cells[3].seconds.clear();
        run.record.cells[0].warm_up.steady = Some(false);
        run.record.cells[1].warm_up.steady = None;
        run.record.cells[1].figures.as_mut().unwrap().other_cpus = 0.75;
        run.record.ended_early = Some("the server ended".to_string());
        run.short_run = true;
        run.design.update_s = 4;
        run.summary =
            crate::measure::summary::lines(&run.record.cells, &run.design.workloads, &run.design.engines);
        golden("sysbench-failed", &write(&run, &folder.path().join("b")).unwrap());
    }

    fn records(path: &Path) -> Vec<std::collections::BTreeMap<String, String>> {
        csv::Reader::from_path(path).unwrap().deserialize().map(|r| r.unwrap()).collect()
    }

    #[test]
    fn the_files_hold_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = sample();
        run.record.cells[3].failures.push("a \"b\", c".to_string());
        run.record.cells[3].figures = None;
        let paths = write(&run, &folder.path().join("deep")).unwrap();
        let names: Vec<_> =
            paths.iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(
            names,
            ["demo.json", "demo-summary.csv", "demo-cells.csv", "demo-seconds.csv", "demo.txt"]
        );

        let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&paths[0]).unwrap()).unwrap();
        assert_eq!(json["schema_version"], 1);
        assert_eq!(json["cells"][0]["figures"]["transactions_per_s"], 9000.0);
        assert_eq!(json["cells"][0]["engine"], "TidesDB");
        assert_eq!(json["summary"][0]["ratio"]["verdict"], "none", "two rounds cannot tell 8 % apart");
        assert_eq!(json["design"]["load"]["rows"], 100_000);
        assert_eq!(json["at_end"][1]["space"]["data_bytes"], 24 << 20);

        assert_eq!(json["analyses"][0]["engine"], "TidesDB");
        assert_eq!(
            (&json["analyses"][0]["tables"], &json["analyses"][0]["seconds"]),
            (&1.into(), &0.25.into())
        );

        let summary = records(&paths[1]);
        assert_eq!(summary.len(), 2);
        assert_eq!(summary[0]["ratio_median"], "0.92");
        assert_eq!((summary[1]["engine"].as_str(), summary[1]["ratio_median"].as_str()), ("InnoDB", ""));

        let cells = records(&paths[2]);
        assert_eq!((cells[0]["status"].as_str(), cells[0]["p95_ms"].as_str()), ("ok", "1.5"));
        assert_eq!((cells[3]["status"].as_str(), cells[3]["failures"].as_str()), ("failed", "a \"b\", c"));
        assert_eq!((cells[3]["p95_ms"].as_str(), cells[3]["order"].as_str()), ("", "4"));
        assert_eq!((cells[3]["warm_up_s"].as_str(), cells[3]["steady"].as_str()), ("11", "yes"));
        assert_eq!(
            (&json["cells"][0]["warm_up"]["steady"], &json["short_run"]),
            (&true.into(), &false.into())
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([number(10.0), number(0.5), number(1.23456), number(0.0)], ["10", "0.5", "1.2346", "0"]);
    }
}
