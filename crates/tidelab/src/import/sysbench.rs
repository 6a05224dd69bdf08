//! Logs of sysbench 1.x as a run: a cell for each log, with its lines of each interval. The log has the
//! number of threads; the file's name has competitor and workload.

use std::collections::BTreeMap;

use tidelab_server::error::Result;

use super::names::{self, FileLabels, Pattern, Words};
use super::source::{Files, InputFile};
use super::sysbench_log::{self, percentile_name, Log};
use super::{id, Imported, ImportedCell, Kind, NO_FIT};
use crate::run::{Better, Cell, Metric, Role};

/// The possible figures of a log.
pub(super) fn known_metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main("transactions_per_s", "Transactions", "1/s", Higher),
        Metric::main("statements_per_s", "Statements", "1/s", Higher),
        Metric::main("p95_ms", "Latency, 95th percentile", "ms", Lower),
        Metric::main("p99_ms", "Latency, 99th percentile", "ms", Lower),
        Metric::detail("p50_ms", "Latency, median", "ms", Lower),
        Metric::detail("p90_ms", "Latency, 90th percentile", "ms", Lower),
        Metric::detail("average_ms", "Latency, mean", "ms", Lower),
        Metric::detail("min_ms", "Latency, shortest", "ms", Lower),
        Metric::detail("max_ms", "Latency, longest", "ms", Lower),
        Metric::main("retried_errors", "Errors that were retried", "", Lower),
        Metric::detail("reconnects", "Connections that were lost", "", Lower),
        Metric::detail("transactions", "Transactions in all", "", Neither),
        Metric::detail("statements", "Statements in all", "", Neither),
        Metric::detail("reads", "Statements that read", "", Neither),
        Metric::detail("writes", "Statements that changed rows", "", Neither),
        Metric::detail("seconds_s", "Measured time", "s", Neither),
    ]
}

/// Puts a log's contents into a cell: figures, the histogram if it printed one, or the reason for none.
pub(super) fn figures(log: &Log, cell: &mut Cell) {
    cell.failures.extend(log.fatal.iter().cloned());
    let Some(report) = &log.report else { return };
    let measured = &report.measured;
    let seconds = report.seconds();
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let printed = &log.printed;
    cell.figure(
        "transactions_per_s",
        printed.transactions_per_s.unwrap_or(per_second(measured.transactions)),
    );
    cell.figure("statements_per_s", printed.statements_per_s.unwrap_or(per_second(measured.statements)));
    if !report.histogram.is_empty() {
        for percent in [50.0, 95.0, 99.0] {
            cell.figure(&percentile_name(percent), report.percentile(percent));
        }
        cell.histograms.insert("latency_ms".to_string(), report.histogram.clone());
    }
    if let Some((percent, value)) = printed.percentile {
        cell.figure(&percentile_name(percent), value);
    }
    if let Some(min) = printed.min_ms {
        cell.figure("min_ms", min);
    }
    cell.figure("average_ms", measured.average_ms);
    cell.figure("max_ms", measured.max_ms);
    for (name, count) in [
        ("retried_errors", measured.retried_errors),
        ("reconnects", measured.reconnects),
        ("transactions", measured.transactions),
        ("statements", measured.statements),
        ("reads", measured.reads),
        ("writes", measured.writes),
    ] {
        cell.figure(name, count as f64);
    }
    cell.figure("seconds_s", seconds);
    if measured.transactions == 0 && cell.failures.is_empty() {
        cell.failures.push("not one transaction came to its end".to_string());
    }
}

/// The labels of the names, by the pattern or guessed. Files outside of the pattern come back apart.
pub(super) fn labelled(
    files: Vec<InputFile>,
    pattern: Option<&Pattern>,
    words: &Words,
) -> (Vec<(InputFile, FileLabels)>, Vec<InputFile>) {
    match pattern {
        None => {
            let paths: Vec<&str> = files.iter().map(|f| f.path.as_str()).collect();
            let said = names::guess(&paths, words);
            (files.into_iter().zip(said).collect(), Vec::new())
        }
        Some(pattern) => {
            let mut fitting = Vec::new();
            let mut others = Vec::new();
            for file in files {
                match pattern.read(&file.path) {
                    Some(said) => fitting.push((file, said)),
                    None => others.push(file),
                }
            }
            (fitting, others)
        }
    }
}

/// The axis of the competitors: the pattern's first field without another use, or the guessed one.
pub(super) fn competitor(
    pattern: Option<&Pattern>,
    said: &[&BTreeMap<String, String>],
    others: &[&str],
) -> String {
    let first =
        pattern.and_then(|p| p.fields().into_iter().find(|f| !others.contains(f)).map(str::to_string));
    match first {
        Some(first) => first,
        None if said.iter().all(|labels| labels.contains_key("engine")) => "engine".to_string(),
        None => "label".to_string(),
    }
}

/// Makes a run of the logs among the files; others are kept and named.
pub fn import(files: Files, pattern: Option<&Pattern>) -> Result<Imported> {
    let mut imported = Imported::new("sysbench", "Logs of sysbench", Kind::Sysbench);
    let (logs, others): (Vec<InputFile>, Vec<InputFile>) =
        files.files.into_iter().partition(|f| f.bytes.is_empty() || sysbench_log::is_one(&f.text()));
    let (mut logs, strangers) = labelled(logs, pattern, &Words::workloads());
    for file in others {
        imported.keep(file, "is no log of sysbench");
    }
    for file in strangers {
        imported.keep(file, NO_FIT);
    }
    let all: Vec<&BTreeMap<String, String>> = logs.iter().map(|(_, said)| &said.labels).collect();
    let competitor = competitor(pattern, &all, &["workload", "threads"]);
    for (_, said) in &mut logs {
        said.labels.entry(competitor.clone()).or_insert_with(|| "all".to_string());
    }
    let mut read: Vec<(InputFile, FileLabels, Log)> = logs
        .into_iter()
        .map(|(file, said)| {
            let log = sysbench_log::read(&file.text());
            (file, said, log)
        })
        .collect();
    read.sort_by(|(a, said, log), (b, other, theirs)| {
        (&said.labels, log.threads, said.round, &a.path).cmp(&(
            &other.labels,
            theirs.threads,
            other.round,
            &b.path,
        ))
    });
    let mut versions: Vec<String> = Vec::new();
    for (file, mut said, log) in read {
        let path = file.path.clone();
        let mut failures = Vec::new();
        let ran = log.threads.map(|n| n.to_string());
        if let (Some(named), Some(ran)) = (said.labels.get("threads"), &ran) {
            if named != ran {
                failures.push(format!("its name says {named} threads, its log {ran}"));
            }
        }
        if let Some(ran) = ran {
            said.labels.insert("threads".to_string(), ran);
        }
        said.labels.entry("threads".to_string()).or_insert_with(|| "unknown".to_string());
        let mut cell = Cell::new(id(&said.labels, said.round.unwrap_or(1)), 0);
        figures(&log, &mut cell);
        cell.failures.extend(failures);
        imported.run.notes.extend(log.strange.iter().map(|what| format!("{path}: {what}")));
        imported.run.notes.extend(cell.failures.iter().map(|why| format!("{path} does not count: {why}")));
        if !log.version.is_empty() && !versions.contains(&log.version) {
            versions.push(log.version.clone());
        }
        let mut series = Vec::new();
        if !log.series.rows.is_empty() {
            series.push(("seconds.csv".to_string(), log.series));
        }
        let files = vec![("sysbench.txt".to_string(), file.bytes)];
        let one = ImportedCell { cell, series, files };
        // Without a round in their names logs of the same are its rounds.
        match said.round {
            Some(_) => imported.add(one, &path),
            None => add_as_round(one, &mut imported),
        }
    }
    imported.run.about = format!("Logs of sysbench {}, as they are.", versions.join(", "));
    axes(&mut imported, &competitor);
    imported.metrics(known_metrics());
    Ok(imported)
}

/// Adds a cell in the next free round of its labels.
pub(super) fn add_as_round(mut one: ImportedCell, imported: &mut Imported) {
    while imported.cells.iter().any(|c| c.cell.id == one.cell.id) {
        one.cell.id.round += 1;
    }
    imported.cells.push(one);
}

/// The axes of all labels in the cells, the competitor's first.
pub(super) fn axes(imported: &mut Imported, competitor: &str) {
    let mut names: Vec<String> =
        imported.cells.iter().flat_map(|c| c.cell.id.labels.keys().cloned()).collect();
    names.sort();
    names.dedup();
    imported.axis(competitor, &title(competitor), Role::Competitor, None);
    for name in names.iter().filter(|n| n.as_str() != competitor) {
        let numbers = imported.cells.iter().all(|c| c.cell.id.label(name).parse::<f64>().is_ok());
        let role = if numbers { Role::Number } else { Role::Category };
        let order =
            (name == "workload").then(|| Words::workloads().known.iter().map(|w| w.to_string()).collect());
        imported.axis(name, &title(name), role, order);
    }
}

/// A label as a title: its first letter is a capital.
fn title(name: &str) -> String {
    let mut letters = name.replace('_', " ");
    if let Some(first) = letters.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, files};
    use super::*;

    const WITH_HISTOGRAM: &str = include_str!("../../testdata/import/sysbench/innodb_read_write_4th_r1.log");
    const PLAIN: &str = include_str!("../../testdata/import/sysbench/tidesdb_read_write_4th_r1.log");

    #[test]
    fn logs_of_our_own_runs_become_a_run() {
        let imported = import(
            files(&[
                ("d/innodb_read_write_4th_r1.log", WITH_HISTOGRAM),
                ("d/tidesdb_read_write_4th_r1.log", PLAIN),
                ("d/notes.md", "hello"),
            ]),
            None,
        )
        .unwrap();
        let axes: Vec<(&str, Role)> = imported.run.axes.iter().map(|a| (a.name.as_str(), a.role)).collect();
        assert_eq!(
            axes,
            [("engine", Role::Competitor), ("threads", Role::Number), ("workload", Role::Category)]
        );
        assert_eq!(imported.run.notes, ["d/notes.md is no log of sysbench: it is kept and not read"]);
        let of_innodb = cell(&imported, "engine", "InnoDB");
        let log = sysbench_log::read(WITH_HISTOGRAM);
        assert_eq!(of_innodb.cell.id.label("threads"), "4");
        assert_eq!(of_innodb.cell.figures["transactions_per_s"], log.printed.transactions_per_s.unwrap());
        assert!(
            of_innodb.cell.counts() && of_innodb.cell.figures.contains_key("p99_ms"),
            "from the histogram"
        );
        assert!(!of_innodb.cell.histograms["latency_ms"].is_empty());
        let of_tidesdb = &cell(&imported, "engine", "TidesDB").cell;
        assert!(of_tidesdb.figures["p95_ms"] > 0.0 && !of_tidesdb.figures.contains_key("p50_ms"));
        let (name, series) = &of_innodb.series[0];
        assert_eq!((name.as_str(), series.rows.len()), ("seconds.csv", log.series.rows.len()));
        let names: Vec<&str> = imported.run.metrics.iter().map(|m| m.name.as_str()).collect();
        assert!(
            names.starts_with(&["transactions_per_s", "statements_per_s", "p95_ms", "p99_ms"]),
            "{names:?}"
        );
    }

    #[test]
    fn logs_of_the_same_are_rounds_and_broken_ones_fail() {
        let imported = import(
            files(&[
                ("a.log", PLAIN),
                ("b/a.log", PLAIN),
                ("b/c.log", ""),
                ("d.log", &PLAIN[..PLAIN.len() / 2]),
            ]),
            Some(&"{file}".parse().unwrap()),
        )
        .unwrap();
        let ids: Vec<(&str, u32)> =
            imported.cells.iter().map(|c| (c.cell.id.label("file"), c.cell.id.round)).collect();
        assert_eq!(ids, [("a", 1), ("a", 2), ("c", 1), ("d", 1)]);
        assert_eq!(cell(&imported, "file", "c").cell.failures, ["the file is empty"]);
        let half = cell(&imported, "file", "d");
        assert!(!half.cell.counts() && half.cell.figures.is_empty() && !half.series[0].1.rows.is_empty());
        assert!(imported.run.notes.iter().any(|n| n == "b/c.log does not count: the file is empty"));
    }

    #[test]
    fn a_name_that_lies_about_threads_fails() {
        let pattern = "{engine}_{threads}th".parse().unwrap();
        let imported = import(files(&[("x_8th.log", PLAIN), ("y.log", PLAIN)]), Some(&pattern)).unwrap();
        assert_eq!(imported.cells.len(), 1);
        assert_eq!(imported.cells[0].cell.failures, ["its name says 8 threads, its log 4"]);
        assert_eq!(imported.cells[0].cell.id.label("threads"), "4");
        assert!(imported.run.notes.iter().any(|n| n.starts_with("y.log does not fit the pattern")));
    }
}
