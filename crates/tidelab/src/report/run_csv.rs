//! A kept run as tables for other programs: `summary.csv`, `cells.csv`, `seconds.csv` and
//! `summary.json`. `docs/run-format.md` has the columns.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::statistics::{Ratio, Spread};

use super::csv_table::CsvFile;
use super::groups::Summary;
use super::page::Kept;
use crate::run::{folder, Cell, Metric, Series};

/// Raised when a field of `summary.json` changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// `summary.json`.
#[derive(Debug, Serialize)]
struct SummaryFile<'a> {
    schema_version: u32,
    name: &'a str,
    title: &'a str,
    /// The reference competitor of ratios.
    reference: Option<&'a str>,
    metrics: &'a [Metric],
    combinations: Vec<Combination<'a>>,
}

#[derive(Debug, Serialize)]
struct Combination<'a> {
    labels: BTreeMap<&'a str, &'a str>,
    rounds: usize,
    failures: &'a [String],
    figures: BTreeMap<&'a str, Spread>,
    ratios: BTreeMap<&'a str, Ratio>,
}

/// Writes the three CSV files into the run's folder and returns their paths. Errors: those of files.
pub fn write_csv(kept: &Kept) -> Result<Vec<PathBuf>> {
    let summary = Summary::of(&kept.run, &kept.cells);
    let mut written = write_figures(kept, &kept.folder)?;
    if kept.cells.iter().any(|cell| !cell.series.is_empty()) {
        let path = kept.folder.join("seconds.csv");
        write_seconds(&path, kept, &summary)?;
        written.push(path);
    }
    Ok(written)
}

/// Writes `summary.csv` and `cells.csv` into a folder and returns their paths. Errors: those of files.
pub fn write_figures(kept: &Kept, folder: &Path) -> Result<Vec<PathBuf>> {
    let summary = Summary::of(&kept.run, &kept.cells);
    let written = vec![folder.join("summary.csv"), folder.join("cells.csv")];
    write_rows(&written[0], &summary_rows(kept, &summary))?;
    write_rows(&written[1], &cell_rows(kept, &summary))?;
    Ok(written)
}

/// Writes `summary.json` into the run's folder and returns its path. Errors: those of the file.
pub fn write_json(kept: &Kept) -> Result<PathBuf> {
    let summary = Summary::of(&kept.run, &kept.cells);
    let metrics = &kept.run.metrics;
    let reference =
        summary.competitor.zip(summary.reference).map(|(axis, at)| summary.axes[axis].values[at].as_str());
    let combinations = summary
        .groups
        .iter()
        .map(|group| {
            let names = || metrics.iter().map(|metric| metric.name.as_str());
            Combination {
                labels: summary
                    .axes
                    .iter()
                    .map(|axis| axis.name.as_str())
                    .zip(summary.words(group))
                    .collect(),
                rounds: group.rounds,
                failures: &group.failures,
                figures: names().zip(&group.figures).filter_map(|(n, f)| Some((n, (*f)?))).collect(),
                ratios: names().zip(&group.ratios).filter_map(|(n, r)| Some((n, (*r)?))).collect(),
            }
        })
        .collect();
    let (name, title) = (&kept.run.name, &kept.run.title);
    let file = SummaryFile { schema_version: SCHEMA_VERSION, name, title, reference, metrics, combinations };
    let path = kept.folder.join("summary.json");
    let text = serde_json::to_string_pretty(&file)
        .map_err(|error| Error::Usage(format!("{}: {error}", path.display())))?;
    fs::write(&path, text + "\n").map_err(io_error("cannot write", &path))?;
    Ok(path)
}

fn axes(summary: &Summary) -> Vec<String> {
    summary.axes.iter().map(|axis| axis.name.clone()).collect()
}

fn summary_rows(kept: &Kept, summary: &Summary) -> Vec<Vec<String>> {
    let mut head = axes(summary);
    head.extend(["rounds", "status", "failures"].map(String::from));
    for metric in &kept.run.metrics {
        for what in ["median", "min", "max", "ratio", "ratio_low", "ratio_high", "verdict"] {
            head.push(format!("{}_{what}", metric.name));
        }
    }
    let mut rows = vec![head];
    for group in &summary.groups {
        let mut row: Vec<String> = summary.words(group).into_iter().map(String::from).collect();
        let status = if group.failures.is_empty() { "ok" } else { "failed" };
        row.extend([group.rounds.to_string(), status.into(), group.failures.join("; ")]);
        for (figure, ratio) in group.figures.iter().zip(&group.ratios) {
            row.extend(fields(figure.map(|f| [f.median, f.min, f.max])));
            row.extend(fields(ratio.map(|r| [r.median, r.low, r.high])));
            row.push(ratio.map_or(String::new(), |r| format!("{:?}", r.verdict).to_lowercase()));
        }
        rows.push(row);
    }
    rows
}

fn fields(numbers: Option<[f64; 3]>) -> [String; 3] {
    numbers.map_or_else(Default::default, |numbers| numbers.map(|number| number.to_string()))
}

fn cell_rows(kept: &Kept, summary: &Summary) -> Vec<Vec<String>> {
    let mut head = axes(summary);
    head.extend(["round", "order", "seed", "status", "failures", "folder"].map(String::from));
    head.extend(kept.run.metrics.iter().map(|metric| metric.name.clone()));
    let mut rows = vec![head];
    for cell in &kept.cells {
        let mut row: Vec<String> = summary.axes.iter().map(|axis| cell.id.label(&axis.name).into()).collect();
        let status = if cell.counts() { "ok" } else { "failed" };
        let folder = format!("cells/{}", cell.id.folder());
        row.extend([cell.id.round.to_string(), cell.order.to_string(), cell.seed.to_string()]);
        row.extend([status.into(), cell.failures.join("; "), folder]);
        let figure = |metric: &Metric| cell.figures.get(&metric.name).map_or(String::new(), f64::to_string);
        row.extend(kept.run.metrics.iter().map(figure));
        rows.push(row);
    }
    rows
}

/// All series under each other; a column for each name in any of them. They are written one after the other:
/// a run with hundreds of them does not fit into memory as text.
fn write_seconds(path: &Path, kept: &Kept, summary: &Summary) -> Result<()> {
    let all = || kept.cells.iter().flat_map(|cell| cell.series.iter().map(move |name| (cell, name)));
    let read =
        |cell: &Cell, name: &str| Series::read(&folder::cell_folder(&kept.folder, &cell.id).join(name));
    let mut columns: Vec<String> = Vec::new();
    for (cell, name) in all() {
        for column in read(cell, name)?.columns.into_iter().skip(1) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    let mut head = axes(summary);
    head.extend(["round", "series", "at_s"].map(String::from));
    head.extend(columns.iter().cloned());
    let mut table = CsvFile::begin(path, &head)?;
    let text = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
    for (cell, name) in all() {
        let series = read(cell, name)?;
        let places: Vec<Option<usize>> =
            columns.iter().map(|column| series.columns.iter().position(|own| own == column)).collect();
        let mut first: Vec<String> =
            summary.axes.iter().map(|axis| cell.id.label(&axis.name).into()).collect();
        first.extend([cell.id.round.to_string(), name.clone()]);
        for values in &series.rows {
            let mut row = first.clone();
            row.push(text(values[0]));
            row.extend(places.iter().map(|at| at.map_or(String::new(), |at| text(values[at]))));
            table.row(&row)?;
        }
    }
    table.end()
}

fn write_rows(path: &Path, rows: &[Vec<String>]) -> Result<()> {
    let Some((head, rows)) = rows.split_first() else { return Ok(()) };
    let mut table = CsvFile::begin(path, head)?;
    for row in rows {
        table.row(row)?;
    }
    table.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::groups::tests::{cell, run};

    fn kept() -> Kept {
        let mut cells = vec![cell("A", "8", 1, 120.0), cell("B", "8", 1, 100.0), cell("A", "9", 1, 1.0)];
        cells[2].failures.push("lost, \"all\" of it".into());
        Kept { folder: PathBuf::from("/nowhere"), run: run(), cells }
    }

    #[test]
    fn a_line_for_each_combination_with_figures_and_ratios() {
        let kept = kept();
        let rows = summary_rows(&kept, &Summary::of(&kept.run, &kept.cells));
        let of = |row: usize, column: &str| {
            let at = rows[0].iter().position(|name| name == column).unwrap();
            rows[row][at].as_str()
        };
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row.len() == rows[0].len()));
        assert_eq!((of(1, "engine"), of(1, "threads"), of(1, "status")), ("A", "8", "ok"));
        assert_eq!(
            (of(1, "tps_per_s_median"), of(1, "tps_per_s_ratio"), of(1, "tps_per_s_verdict")),
            ("120", "1.2", "none")
        );
        assert_eq!((of(2, "status"), of(2, "tps_per_s_median")), ("failed", ""));
        assert_eq!(of(2, "failures"), "round 1: lost, \"all\" of it");
        assert_eq!((of(3, "engine"), of(3, "tps_per_s_ratio")), ("B", ""));
    }

    #[test]
    fn a_line_for_each_cell() {
        let kept = kept();
        let rows = cell_rows(&kept, &Summary::of(&kept.run, &kept.cells));
        assert_eq!(
            rows[0],
            [
                "engine",
                "threads",
                "round",
                "order",
                "seed",
                "status",
                "failures",
                "folder",
                "tps_per_s",
                "p99_ms"
            ]
        );
        assert_eq!(rows[1], ["A", "8", "1", "0", "1", "ok", "", "cells/A-8-r1", "120", ""]);
    }
}
