//! The data of the page, as one JSON value: runs with their cells, the figures of `groups`, series with
//! fewer points, percentile curves.
//!
//! Only `assets/report/data.js` reads it, so its form may change with any version. Statistics are made
//! here; the page only picks and draws.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Component, Path, PathBuf};

use serde_json::{json, Value};
use tidelab_server::error::{io_error, Result};
use tidelab_server::statistics::{Ratio, Spread};

use super::compact;
use super::conditions;
use super::downsample::downsample;
use super::driver;
use super::groups::{merged, percentile_curve, Group, Summary};
use crate::run::{folder, now_unix_s, Buckets, Cell, Run, Series};

/// Points of a drawn series at most: about one for each pixel of a chart.
const POINTS: usize = 600;
/// Values of all series of a page at most, four bytes each; beyond, series have fewer points.
const VALUES: usize = 6_000_000;
/// The least points of a series, however many series there are.
const LEAST_POINTS: usize = 100;
/// A file of a run is shown in the page up to this size, and all together up to [`ALL_TEXT`].
const TEXT: u64 = 64 << 10;
/// Bytes of all files of one run in the page.
const ALL_TEXT: u64 = 1 << 20;

/// A run read from its folder.
#[derive(Debug)]
pub struct Kept {
    /// Its folder, without symbolic links.
    pub folder: PathBuf,
    /// The head.
    pub run: Run,
    /// The cells by the time of their measurement.
    pub cells: Vec<Cell>,
}

impl Kept {
    /// Reads a folder. Errors: it is no run, or not of this format.
    pub fn read(path: &Path) -> Result<Kept> {
        let (run, cells) = folder::read(path)?;
        let folder = path.canonicalize().map_err(io_error("cannot read", path))?;
        Ok(Kept { folder, run, cells })
    }
}

/// The page's data for these runs; `directory` (absolute, without symbolic links) is where the page
/// will be: its links to raw files start there.
pub fn data(runs: &[Kept], directory: &Path) -> Value {
    let points = points(runs);
    let runs: Vec<Value> = runs.iter().map(|kept| view(kept, directory, points)).collect();
    json!({
        "tidelab": env!("CARGO_PKG_VERSION"),
        "written_unix_s": now_unix_s(),
        "points": points,
        "runs": runs,
    })
}

/// Points for each series, with all of them within [`VALUES`].
fn points(runs: &[Kept]) -> usize {
    let columns = |path: &Path| -> usize {
        let Ok(file) = fs::File::open(path) else { return 0 };
        let mut head = String::new();
        match BufReader::new(file).read_line(&mut head) {
            Ok(_) => head.split(',').count(),
            Err(_) => 0,
        }
    };
    let all: usize = runs
        .iter()
        .flat_map(|kept| kept.cells.iter().map(move |cell| (kept, cell)))
        .flat_map(|(kept, cell)| {
            cell.series.iter().map(|name| columns(&folder::cell_folder(&kept.folder, &cell.id).join(name)))
        })
        .sum();
    (VALUES / all.max(1)).clamp(LEAST_POINTS, POINTS)
}

fn view(kept: &Kept, directory: &Path, points: usize) -> Value {
    let Kept { folder, run, cells } = kept;
    let summary = Summary::of(run, cells);
    let mut places = vec![0; cells.len()];
    for (place, group) in summary.groups.iter().enumerate() {
        for at in &group.cells {
            places[*at] = place;
        }
    }
    let mut problems = Vec::new();
    let mut series = Vec::new();
    let mut lines = Vec::new();
    for (cell, place) in cells.iter().zip(&places) {
        let mut own = Vec::new();
        for name in &cell.series {
            match Series::read(&folder::cell_folder(folder, &cell.id).join(name)) {
                Ok(read) => {
                    own.push(series.len());
                    series.push(drawn(name, &read, points));
                }
                Err(error) => problems.push(error.to_string()),
            }
        }
        let figures: Vec<Option<f64>> =
            run.metrics.iter().map(|metric| cell.figures.get(&metric.name).copied()).collect();
        lines.push(json!({
            "l": summary.groups[*place].labels,
            "r": cell.id.round,
            "seed": cell.seed,
            "o": cell.order,
            "t": cell.ended_unix_s,
            "f": cell.failures,
            "v": figures,
            "d": cell.id.folder(),
            "x": cell.files,
            "sn": cell.series,
            "s": own,
        }));
    }
    json!({
        "folder": folder.file_name().map(|name| name.to_string_lossy()),
        "link": relative(directory, folder),
        "name": run.name,
        "title": run.title,
        "about": run.about,
        "kind": run.kind,
        "tidelab": run.tidelab,
        "started_unix_s": run.started_unix_s,
        "ended_unix_s": run.ended_unix_s,
        "ended_early": run.ended_early,
        "machine": run.machine,
        "servers": run.servers,
        "design": run.design,
        "axes": summary.axes,
        "competitor": summary.competitor,
        "reference": summary.reference,
        "rounds": summary.rounds,
        "metrics": run.metrics,
        "files": run.files,
        "texts": texts(folder, &run.files),
        "conditions": conditions::of(run),
        "notes": run.notes,
        "problems": problems,
        "cells": lines,
        "driver": driver::lines(run, &summary, cells),
        "near": driver::NEAR,
        "groups": summary.groups.iter().map(|group| combination(group, cells)).collect::<Vec<Value>>(),
        "series": series,
    })
}

fn combination(group: &Group, cells: &[Cell]) -> Value {
    let spread = |s: &Option<Spread>| s.map(|s| json!([s.median, s.min, s.max]));
    let ratio = |r: &Option<Ratio>| r.map(|r| json!([r.median, r.low, r.high, r.verdict]));
    let mut curves: BTreeMap<&str, Value> = BTreeMap::new();
    if group.failures.is_empty() {
        let mut histograms: BTreeMap<&str, Vec<&Buckets>> = BTreeMap::new();
        for (name, buckets) in group.cells.iter().flat_map(|at| &cells[*at].histograms) {
            histograms.entry(name).or_default().push(buckets);
        }
        for (name, of_rounds) in histograms {
            let all = merged(of_rounds);
            let count: u64 = all.iter().map(|(_, count)| count).sum();
            curves.insert(name, json!([count, compact::text(percentile_curve(&all))]));
        }
    }
    json!({
        "l": group.labels,
        "c": group.cells,
        "n": group.rounds,
        "f": group.failures,
        "s": group.figures.iter().map(spread).collect::<Vec<Option<Value>>>(),
        "q": group.ratios.iter().map(ratio).collect::<Vec<Option<Value>>>(),
        "h": curves,
    })
}

/// A series with its columns as text; a column of one value is this number.
fn drawn(name: &str, series: &Series, points: usize) -> Value {
    let fewer = downsample(series, points);
    let column = |at: usize| fewer.rows.iter().map(move |row| row.get(at).copied().unwrap_or(f64::NAN));
    let values: Vec<Value> = (1..fewer.columns.len())
        .map(|at| match column(at).next() {
            Some(first) if column(at).all(|v| v == first) => json!(first),
            _ => json!(compact::text(column(at))),
        })
        .collect();
    json!({
        "n": name,
        "rows": series.rows.len(),
        "columns": fewer.columns.get(1..).unwrap_or_default(),
        "at": compact::text(column(0)),
        "v": values,
    })
}

/// The run's text files small enough to be read in the page.
fn texts(folder: &Path, files: &[String]) -> BTreeMap<String, String> {
    let mut left = ALL_TEXT;
    let mut texts = BTreeMap::new();
    for name in files {
        let path = folder.join(name);
        let size = fs::metadata(&path).map_or(u64::MAX, |facts| facts.len());
        if size > TEXT.min(left) {
            continue;
        }
        // A file that is not UTF-8 is not for reading; the link to it stays.
        if let Ok(text) = fs::read_to_string(&path) {
            left -= size;
            texts.insert(name.clone(), text);
        }
    }
    texts
}

/// The way from one directory to another, both absolute, with slashes; empty for none.
pub fn relative(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<Component>, Vec<Component>) =
        (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_string(), from.len() - shared);
    let down = to[shared..].iter().map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<String>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::groups::tests::{cell, run};
    use crate::run::Folder;

    #[test]
    fn the_way_between_directories() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(way("/a/b", "/a/b"), "");
        assert_eq!(way("/a/b", "/a/b/c/d"), "c/d");
        assert_eq!(way("/a/x/y", "/a/b"), "../../b");
    }

    #[test]
    fn a_run_becomes_what_the_page_reads() {
        let parent = tempfile::tempdir().unwrap();
        let mut head = run();
        head.files = vec!["rules.toml".into(), "dump.bin".into()];
        let mut folder = Folder::create(parent.path(), &head).unwrap();
        fs::write(folder.path().join("rules.toml"), "cache = 64").unwrap();
        fs::write(folder.path().join("dump.bin"), [0xFF, 0xFE]).unwrap();
        for (engine, tps) in [("A", 120.0), ("B", 100.0)] {
            let mut cell = cell(engine, "8", 1, tps);
            let mut series = Series::new(["tps_per_s", "errors"]);
            series.rows = (0..900).map(|at| vec![f64::from(at), f64::from(at % 5), 0.0]).collect();
            series.write(&folder.begin(&cell.id).unwrap().join("seconds.csv")).unwrap();
            cell.series = vec!["seconds.csv".into(), "lost.csv".into()];
            cell.histograms.insert("all_us".into(), vec![(10.0, 99), (20.0, 1)]);
            folder.finish(cell).unwrap();
        }
        let kept = Kept::read(folder.path()).unwrap();
        let page = data(&[kept], parent.path());
        let run = &page["runs"][0];
        assert_eq!(run["link"], run["folder"]);
        assert_eq!(run["texts"], json!({"rules.toml": "cache = 64"}));
        assert_eq!(run["problems"].as_array().unwrap().len(), 2, "lost.csv of both: {}", run["problems"]);
        assert_eq!(run["groups"][0]["s"][0], json!([120.0, 120.0, 120.0]));
        assert_eq!(run["groups"][0]["q"][0], json!([1.2, 1.2, 1.2, "none"]));
        assert_eq!(run["groups"][0]["h"]["all_us"][0], 100);
        let series = &run["series"][0];
        assert_eq!((&series["rows"], &series["v"][1]), (&json!(900), &json!(0.0)), "a column of one value");
        assert_eq!(series["at"].as_str().unwrap().len(), 4 * POINTS);
        assert_eq!(run["cells"][1]["l"], json!([1, 0]));
    }
}
