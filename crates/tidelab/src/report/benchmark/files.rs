//! The files of a benchmark: JSON with everything, and tables as CSV. `docs/run-format.md` has their fields.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Number, Value};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::statistics::{Ratio, Spread};
use tidelab_server::workload::steady::WarmUp;

use super::{render, Benchmark, FurtherTable, Line, Statistic, SCHEMA_VERSION};
use crate::report::csv_table;
use crate::run::{Cell, Measured};

/// Writes `NAME.json`, `NAME-summary.csv`, `NAME-cells.csv`, `NAME-seconds.csv`, `NAME.txt` and the load's
/// further table into a folder. Returns their paths.
pub fn write(benchmark: &Benchmark, folder: &Path) -> Result<Vec<PathBuf>> {
    let summary = benchmark.summary();
    let lines = benchmark.lines(&summary);
    let load = benchmark.load.as_ref();
    let mut contents = vec![
        (".json".to_string(), json(benchmark)?),
        ("-summary.csv".to_string(), summary_table(benchmark, &lines)?),
    ];
    if let Some(FurtherTable { ending, columns, rows }) = load.further_table(&benchmark.cells) {
        contents.push((format!("-{ending}"), csv_table::text(columns, rows)?));
    }
    contents.extend([
        ("-cells.csv".to_string(), cell_table(benchmark)?),
        ("-seconds.csv".to_string(), second_table(benchmark)?),
        (".txt".to_string(), render(benchmark, false)),
    ]);
    fs::create_dir_all(folder).map_err(io_error("cannot make", folder))?;
    let mut paths = Vec::new();
    for (ending, text) in contents {
        let path = folder.join(format!("{}{ending}", benchmark.run.name));
        fs::write(&path, text).map_err(io_error("cannot write", &path))?;
        paths.push(path);
    }
    Ok(paths)
}

/// `NAME.json`.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    name: &'a str,
    short_run: bool,
    tidelab: &'a str,
    started_unix_s: u64,
    took_s: f64,
    machine: Value,
    design: &'a Value,
    #[serde(flatten)]
    facts: Map<String, Value>,
    summary: Vec<Value>,
    cells: Vec<Value>,
    ended_early: Option<&'a str>,
}

/// A benchmark as JSON.
pub fn json(benchmark: &Benchmark) -> Result<String> {
    let run = &benchmark.run;
    let summary = benchmark.summary();
    let lines = benchmark.lines(&summary);
    let document = Document {
        schema_version: SCHEMA_VERSION,
        name: &run.name,
        short_run: benchmark.short_run,
        tidelab: &run.tidelab,
        started_unix_s: run.started_unix_s,
        took_s: benchmark.took_s,
        machine: value(&run.machine),
        design: &run.design,
        facts: benchmark.load.facts(run),
        summary: lines.iter().map(|line| line_value(benchmark, line)).collect(),
        cells: benchmark.cells.iter().map(|measured| cell_value(benchmark, measured)).collect(),
        ended_early: run.ended_early.as_deref(),
    };
    let text = serde_json::to_string_pretty(&document)
        .map_err(|e| Error::Usage(format!("the result cannot be written as JSON: {e}")))?;
    Ok(text + "\n")
}

/// Plain data as JSON: it cannot fail.
pub(super) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// A figure as JSON: counts and bytes are whole numbers, a non-finite number is null.
pub(super) fn figure(name: &str, of: f64) -> Value {
    const COUNTS: [&str; 6] =
        ["transactions", "statements", "retried_errors", "calls", "failed", "rolled_back"];
    let whole = COUNTS.contains(&name) || name.ends_with("_bytes");
    if whole && of >= 0.0 && of.is_finite() {
        return Value::from(of as u64);
    }
    Number::from_f64(of).map_or(Value::Null, Value::Number)
}

fn line_value(benchmark: &Benchmark, line: &Line<'_>) -> Value {
    let mut fields: Map<String, Value> =
        line.labels.iter().map(|(axis, label)| (axis.name.clone(), Value::from(*label))).collect();
    fields.insert("rounds".to_string(), line.rounds.into());
    fields.insert("failures".to_string(), value(&line.failures));
    for (name, statistic) in benchmark.load.names().fields {
        let of = match statistic {
            Statistic::Spread => value(&line.spread(name)),
            Statistic::Ratio(metric) => value(&line.ratio(metric)),
            Statistic::Sum => figure(name, line.sum(name)),
            Statistic::Greatest => figure(name, line.greatest(name)),
        };
        fields.insert((*name).to_string(), of);
    }
    fields.extend(benchmark.load.parts_of_line(line));
    Value::Object(fields)
}

fn cell_value(benchmark: &Benchmark, measured: &Measured) -> Value {
    let Measured { cell, warm_up, seconds, .. } = measured;
    let load = benchmark.load.as_ref();
    let mut fields: Map<String, Value> =
        cell.id.labels.iter().map(|(axis, label)| (axis.clone(), Value::from(label.as_str()))).collect();
    fields.insert("round".to_string(), cell.id.round.into());
    fields.insert("seed".to_string(), cell.seed.into());
    fields.insert("warm_up".to_string(), value(warm_up));
    fields.insert("failures".to_string(), value(&cell.failures));
    for name in load.names().checks {
        fields.insert((*name).to_string(), figure(name, cell.figures.get(*name).copied().unwrap_or(0.0)));
    }
    fields.insert("figures".to_string(), figures_value(benchmark, cell));
    let row = |row: &Vec<f64>| -> Value {
        seconds.columns.iter().zip(row).map(|(name, of)| (name.clone(), figure(name, *of))).collect()
    };
    fields.insert("seconds".to_string(), seconds.rows.iter().map(row).collect());
    Value::Object(fields)
}

/// The figures of a cell; null for an unfinished load.
fn figures_value(benchmark: &Benchmark, cell: &Cell) -> Value {
    /// The figures of `space`.
    const SPACE: [&str; 2] = ["data_bytes", "log_bytes"];
    if cell.figures.is_empty() {
        return Value::Null;
    }
    let load = benchmark.load.as_ref();
    let of = |name: &str| Some((name.to_string(), figure(name, *cell.figures.get(name)?)));
    let shown = |name: &&&str| !SPACE.contains(name) && !load.names().checks.contains(name);
    let mut fields: Map<String, Value> =
        load.names().cells.iter().filter(shown).filter_map(|name| of(name)).collect();
    fields.insert("space".to_string(), SPACE.iter().filter_map(|name| of(name)).collect());
    fields.extend(load.parts_of_cell(cell));
    Value::Object(fields)
}

fn summary_table(benchmark: &Benchmark, lines: &[Line<'_>]) -> Result<String> {
    let columns = benchmark.load.names().summary;
    let rows = lines
        .iter()
        .map(|line| {
            // The workload first, then the engine.
            let mut row: Vec<String> = line.workload().into_iter().map(String::from).collect();
            row.push(line.engine().to_string());
            row.extend(columns.iter().map(|column| line_column(benchmark, line, column)));
            row
        })
        .collect();
    csv_table::text(&with_labels(benchmark, columns), rows)
}

/// The columns after those of the labels, the engine's last.
fn with_labels<'a>(benchmark: &'a Benchmark, columns: &[&'a str]) -> Vec<&'a str> {
    let competitor = benchmark.run.competitor_axis().map(|axis| axis.name.as_str());
    let others = benchmark.run.axes.iter().map(|axis| axis.name.as_str());
    others.filter(|name| Some(*name) != competitor).chain(competitor).chain(columns.iter().copied()).collect()
}

/// A column of `NAME-summary.csv` by its name: a field of the line, or a part of one.
fn line_column(benchmark: &Benchmark, line: &Line<'_>, column: &str) -> String {
    let ratio = |part: fn(&Ratio) -> f64| line.main_ratio().map_or(String::new(), |r| number(part(&r)));
    match column {
        "rounds" => return line.rounds.to_string(),
        "status" => return status(line.is_sound()),
        "ratio_median" => return ratio(|r| r.median),
        "ratio_low" => return ratio(|r| r.low),
        "ratio_high" => return ratio(|r| r.high),
        "verdict" => {
            return line.main_ratio().map_or(String::new(), |r| format!("{:?}", r.verdict).to_lowercase())
        }
        _ => {}
    }
    type Part = fn(&Spread) -> f64;
    let parts: [(&str, Part); 4] =
        [("_median", |s| s.median), ("_min", |s| s.min), ("_max", |s| s.max), ("_iqr", |s| s.iqr)];
    for (ending, part) in parts {
        if let Some(metric) = column.strip_suffix(ending) {
            return line.spread(metric).map_or(String::new(), |spread| number(part(&spread)));
        }
    }
    match benchmark.load.names().fields.iter().find(|(name, _)| *name == column) {
        Some((name, Statistic::Sum)) => number(line.sum(name)),
        _ => number(line.greatest(column)),
    }
}

fn cell_table(benchmark: &Benchmark) -> Result<String> {
    const FIRST: [&str; 4] = ["round", "seed", "status", "failures"];
    const LAST: [&str; 3] = ["order", "warm_up_s", "steady"];
    let columns = benchmark.load.names().cells;
    let rows = benchmark.cells.iter().enumerate().map(|(order, measured)| {
        let cell = &measured.cell;
        let mut row = labels(benchmark, cell);
        row.extend([cell.seed.to_string(), status(cell.counts()), cell.failures.join("; ")]);
        let of = |name: &&str| match cell.figures.get(*name) {
            Some(value) => number(*value),
            None if benchmark.load.names().checks.contains(name) => number(0.0),
            None => String::new(),
        };
        row.extend(columns.iter().map(of));
        row.push((order + 1).to_string());
        row.extend(warm_up(measured.warm_up));
        row
    });
    let columns: Vec<&str> = FIRST.iter().chain(columns).chain(&LAST).copied().collect();
    csv_table::text(&with_labels(benchmark, &columns), rows.collect())
}

fn second_table(benchmark: &Benchmark) -> Result<String> {
    let mut rows = Vec::new();
    for Measured { cell, seconds, .. } in &benchmark.cells {
        for second in &seconds.rows {
            let mut row = labels(benchmark, cell);
            row.extend(second.iter().map(|value| number(*value)));
            rows.push(row);
        }
    }
    // All measurements of a load have the same columns.
    let seconds = benchmark.cells.first().map_or(&[][..], |measured| &measured.seconds.columns);
    let columns: Vec<&str> = std::iter::once("round").chain(seconds.iter().map(String::as_str)).collect();
    csv_table::text(&with_labels(benchmark, &columns), rows)
}

/// The labels of a cell in the order of the columns, and its round.
fn labels(benchmark: &Benchmark, cell: &Cell) -> Vec<String> {
    let axes = with_labels(benchmark, &[]);
    let values = axes.into_iter().map(|axis| cell.id.label(axis).to_string());
    values.chain([cell.id.round.to_string()]).collect()
}

/// The column `status`.
pub(super) fn status(counts: bool) -> String {
    if counts { "ok" } else { "failed" }.to_string()
}

/// The columns of a warm-up: its seconds, then `yes`, `no`, or nothing for a fixed length.
fn warm_up(of: WarmUp) -> [String; 2] {
    let steady = of.steady.map_or("", |steady| if steady { "yes" } else { "no" });
    [number(of.seconds), steady.to_string()]
}

/// A number with at most four decimal places.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::sysbench::tests::sample;
    use super::*;

    /// Compares files with an earlier version's for the same measurements.
    pub(in super::super) fn same_as_before(name: &str, paths: &[PathBuf]) {
        let before = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/results").join(name);
        for path in paths {
            let before = before.join(path.file_name().unwrap());
            let now = fs::read_to_string(path).unwrap();
            let then = fs::read_to_string(&before).unwrap();
            if path.extension().is_some_and(|e| e == "json") {
                let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
                assert_eq!(parsed(&now), parsed(&then), "{}", before.display());
            } else {
                assert_eq!(now, then, "{}", before.display());
            }
        }
        assert_eq!(paths.len(), fs::read_dir(before).unwrap().count(), "{name}");
    }

    #[test]
    fn a_folder_is_made_for_files_of_the_comparison_s_name() {
        let folder = tempfile::tempdir().unwrap();
        let paths = write(&sample(), &folder.path().join("deep")).unwrap();
        let names: Vec<_> =
            paths.iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(
            names,
            ["demo.json", "demo-summary.csv", "demo-cells.csv", "demo-seconds.csv", "demo.txt"]
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([number(10.0), number(0.5), number(1.23456), number(0.0)], ["10", "0.5", "1.2346", "0"]);
    }

    #[test]
    fn counts_are_whole_and_what_is_no_number_is_null() {
        assert_eq!(figure("retried_errors", 3.0).to_string(), "3");
        assert_eq!(figure("nopm", 3.0).to_string(), "3.0");
        assert_eq!(figure("nopm", f64::NAN), Value::Null);
    }
}
