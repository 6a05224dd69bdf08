//! The page, the exports and the comparison of kept runs, from the command line. The runs are made
//! up by [`samples`]; `TIDELAB_SAMPLES=DIR` keeps them there with their pages, for the test in a
//! browser (`scripts/test/report-browser.mjs`).

#![allow(clippy::unwrap_used)]

mod samples;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn tidelab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidelab")).args(arguments).output().unwrap()
}

fn good(arguments: &[&str]) -> String {
    let output = tidelab(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A directory for samples: the requested one, emptied, or a temporary one.
struct Place {
    path: PathBuf,
    _own: Option<tempfile::TempDir>,
}

fn place(name: &str) -> Place {
    match std::env::var_os("TIDELAB_SAMPLES") {
        Some(parent) => {
            let path = PathBuf::from(parent).join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Place { path, _own: None }
        }
        None => {
            let own = tempfile::tempdir().unwrap();
            Place { path: own.path().to_path_buf(), _own: Some(own) }
        }
    }
}

/// The JSON in a page.
fn data_of(page: &Path) -> serde_json::Value {
    let page = fs::read_to_string(page).unwrap();
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn one_run_becomes_a_page_and_tables() {
    let place = place("engines");
    let folder = samples::engines(&place.path, 1.0);
    let said = good(&["report", text(&folder), "--csv", "--json"]);
    let expected = ["summary.csv", "cells.csv", "seconds.csv", "summary.json", "report.html"];
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    for name in expected {
        assert!(folder.join(name).metadata().unwrap().len() > 0, "{name}");
    }
    let data = data_of(&folder.join("report.html"));
    let run = &data["runs"][0];
    assert_eq!(run["link"], "", "its raw files are in its folder");
    assert_eq!(run["title"], samples::EVIL_TITLE);
    assert!(run["texts"]["rules.toml"].as_str().unwrap().contains("cache"));
    assert!(!fs::read_to_string(folder.join("report.html")).unwrap().contains("<script>window.pwned"));

    let lines = fs::read_to_string(folder.join("summary.csv")).unwrap();
    let rows: Vec<Vec<String>> =
        csv::Reader::from_reader(lines.as_bytes()).into_deserialize().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), samples::ENGINES.len() * samples::WORKLOADS.len() * samples::THREADS.len());
    let failed: Vec<&Vec<String>> = rows.iter().filter(|row| row[4] == "failed").collect();
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|row| row[6..].iter().all(String::is_empty)), "no figure of what failed");
    let cells = fs::read_to_string(folder.join("cells.csv")).unwrap();
    assert_eq!(
        csv::Reader::from_reader(cells.as_bytes()).records().count(),
        rows.len() * samples::ROUNDS as usize
    );
    let seconds = fs::read_to_string(folder.join("seconds.csv")).unwrap();
    let mut seconds = csv::Reader::from_reader(seconds.as_bytes());
    let head: Vec<String> = seconds.headers().unwrap().iter().map(String::from).collect();
    assert_eq!(head[..7], ["engine", "workload", "threads", "round", "series", "at_s", "transactions_per_s"]);
    let records: Vec<csv::StringRecord> = seconds.records().collect::<Result<_, _>>().unwrap();
    let (load, telemetry) = (&records[0], &records[60]);
    assert_eq!((&load[4], &load[5], &telemetry[4], &telemetry[6]), ("seconds.csv", "1", "telemetry.csv", ""));
    assert_eq!(records.len(), rows.len() * samples::ROUNDS as usize * 2 * 60);
}

#[test]
fn charts_are_files_of_their_own_and_the_table_says_who_is_the_bottleneck() {
    let place = place("charts");
    let folder = samples::engines(&place.path, 1.0);
    let chart = |name: &str| place.path.join(name);
    let (all, one, again) = (chart("throughput.svg"), chart("p99.svg"), chart("again.svg"));
    let pair = |name: &str, path: &Path| format!("{name}={}", text(path));
    let said = good(&[
        "report",
        text(&folder),
        "--svg",
        &pair("throughput", &all),
        "--svg",
        &pair("p99", &one),
        "--only",
        "threads=16",
        "--table",
    ]);
    assert!(said.contains("threads 16") && said.contains("no  best "), "{said}");
    assert!(said.contains("YES best "), "{said}");
    for path in [&all, &one] {
        let svg = fs::read_to_string(path).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(!svg.contains("<script>window.pwned"), "a title stays text: {svg}");
        assert_eq!(svg.matches("class=\"block\"").count(), samples::WORKLOADS.len(), "{svg}");
    }
    good(&["report", text(&folder), "--svg", &pair("throughput", &again), "--only", "threads=16"]);
    assert_eq!(fs::read(&all).unwrap(), fs::read(&again).unwrap());
    let many = tidelab(&["report", text(&folder), "--svg", &pair("throughput", &all), "--only", "threads=9"]);
    assert!(String::from_utf8_lossy(&many.stderr).contains("threads=9"));
    let out = place.path.join("results");
    let published =
        tidelab(&["publish", text(&folder), "sample", "--out", text(&out), "--only", "threads=16"]);
    assert_eq!(published.status.code(), Some(1), "two combinations of the sample failed");
    for name in ["summary.txt", "summary.csv", "cells.csv", "throughput.svg", "p99.svg", "run.tar.xz"] {
        assert!(out.join("sample").join(name).exists(), "no {name}");
    }
    assert!(out.join("sample/run.tar.xz").metadata().unwrap().len() <= 300 << 10);
}

#[test]
fn several_runs_become_one_page() {
    let place = place("several");
    let engines = samples::engines(&place.path, 1.0);
    let versions = samples::versions(&place.path, 900);
    let out = place.path.join("both.html");
    good(&["report", text(&engines), text(&versions), "--out", text(&out)]);
    let data = data_of(&out);
    assert_eq!(data["runs"].as_array().unwrap().len(), 2);
    for run in data["runs"].as_array().unwrap() {
        let cell = run["cells"][0]["d"].as_str().unwrap();
        assert!(place.path.join(run["link"].as_str().unwrap()).join("cells").join(cell).exists());
    }
    let series = &data["runs"][1]["series"][0];
    assert_eq!((series["rows"].as_u64(), series["at"].as_str().unwrap().len()), (Some(900), 4 * 600));
}

#[test]
fn a_slower_run_is_found_by_its_exit_status() {
    let place = place("compared");
    let before = samples::engines(&place.path.join("before"), 1.0);
    let same = samples::engines(&place.path.join("same"), 1.0);
    let slower = samples::engines(&place.path.join("slower"), 0.8);
    let output = tidelab(&["compare", text(&before), text(&slower)]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Worse in B\n  TidesDB, "), "{said}");
    assert!(!said.contains("Worse in B\n  InnoDB"), "{said}");
    good(&["compare", text(&before), text(&same)]);
    let json = good(&["compare", text(&slower), text(&before), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["lines"][0]["outcome"], "improvement");
    let nothing = tidelab(&["compare", text(&before), "/nowhere"]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("no run is here"));
    let bad = tidelab(&["compare", text(&before), text(&same), "--threshold", "-1"]);
    assert_eq!(bad.status.code(), Some(2));
}

/// As large as an import of a published data set: `cargo test --test report -- --ignored large`.
#[test]
#[ignore = "984 cells of 1,800 seconds: half a minute and 300 MB"]
fn large_runs_stay_small_enough_for_a_browser() {
    let place = place("large");
    let folder = samples::large(&place.path);
    good(&["report", text(&folder)]);
    let bytes = folder.join("report.html").metadata().unwrap().len();
    assert!(bytes < 40 << 20, "{bytes}");
}
