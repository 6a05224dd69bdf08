//! A whole log of sysbench 1.x, with any interval and any percentile.
//!
//! [`tidelab_server::workload::sysbench_report`] reads the counters, as it does while a load of the
//! laboratory runs. This module reads the parts found only in logs of others.

use tidelab_server::workload::sysbench_report::{Reader, Report};

use crate::run::Series;

/// A log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The program, as `1.0.20`.
    pub version: String,
    /// Its number of threads.
    pub threads: Option<u64>,
    /// The lines of a running load, a row for each interval.
    pub series: Series,
    /// The final report; none if it ended earlier.
    pub report: Option<Report>,
    /// The figures of the final report beyond [`Report`].
    pub printed: Printed,
    /// Why it ended, where it says so; a sentence each.
    pub fatal: Vec<String>,
    /// Tolerable oddities.
    pub strange: Vec<String>,
}

/// Figures as the final report prints them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Printed {
    /// Transactions a second.
    pub transactions_per_s: Option<f64>,
    /// Statements a second.
    pub statements_per_s: Option<f64>,
    /// The shortest latency in milliseconds.
    pub min_ms: Option<f64>,
    /// The requested percentile, and its value in milliseconds.
    pub percentile: Option<(f64, f64)>,
}

/// The columns of a series, but for the latency, whose name says the percentile.
const COLUMNS: [&str; 9] = [
    "threads",
    "transactions_per_s",
    "statements_per_s",
    "reads_per_s",
    "writes_per_s",
    "others_per_s",
    "latency_ms",
    "errors_per_s",
    "reconnects_per_s",
];
/// The latency's place among all columns, `at_s` counted.
const LATENCY: usize = 7;

/// True if a text is a log of sysbench.
pub fn is_one(text: &str) -> bool {
    text.trim_start().starts_with("sysbench ") || text.contains("\nThreads started!")
}

/// The name of a percentile's figure: `p95_ms`, `p99.9_ms`.
pub fn percentile_name(percent: f64) -> String {
    format!("p{percent}_ms")
}

/// Reads a log. Never fails: an incomplete one has a reason in [`Log::fatal`].
pub fn read(text: &str) -> Log {
    let mut log = Log { series: Series::new(COLUMNS), ..Log::default() };
    if text.trim().is_empty() {
        log.fatal.push("the file is empty".to_string());
        return log;
    }
    let mut reader = Reader::default();
    let mut percent = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(rest) = trimmed.strip_prefix("sysbench ") {
            if log.version.is_empty() {
                log.version = rest.split(['-', ' ', ':']).next().unwrap_or_default().to_string();
            }
        } else if let Some(rest) = trimmed.strip_prefix("Number of threads:") {
            log.threads = rest.trim().parse().ok();
        } else if trimmed.starts_with('[') && trimmed.contains(" thds: ") {
            match interval(trimmed) {
                Some((row, of)) => {
                    percent = percent.or(of);
                    log.series.rows.push(row);
                }
                None => log.strange.push(format!("it has a line that cannot be read: {trimmed}")),
            }
        } else if trimmed.starts_with('[') && trimmed.contains("threads: ") {
            log.fatal.push("it is of sysbench 0.5, whose lines are not read".to_string());
            return log;
        } else {
            printed(trimmed, &mut log.printed);
        }
        reader.line(line);
    }
    if let Some(percent) = percent.filter(|p| *p > 0.0) {
        log.series.columns[LATENCY] = percentile_name(percent);
    }
    match reader.finish() {
        Ok(report) => {
            log.fatal.extend(report.fatal.iter().cloned());
            log.report = Some(report);
        }
        Err(tidelab_server::error::Error::Load { message, .. }) => log.fatal.push(message),
        Err(other) => log.fatal.push(other.to_string()),
    }
    log.strange.extend(gaps(&log));
    log
}

/// `[ 3s ] thds: 8 tps: 461.05 qps: 9520.06 (r/w/o: 1.0/2.0/3.0) lat (ms,95%): 45.79 err/s: 19.00 reconn/s: 0.00`
fn interval(line: &str) -> Option<(Vec<f64>, Option<f64>)> {
    let after = |label: &str| -> Option<&str> {
        line.split_once(label).and_then(|(_, rest)| rest.split_whitespace().next())
    };
    let number = |label: &str| after(label).and_then(|word| word.parse::<f64>().ok());
    let at = line.trim_start_matches('[').split_whitespace().next()?.trim_end_matches('s').parse().ok()?;
    let kinds: Vec<f64> = after("(r/w/o: ")
        .map(|word| word.trim_end_matches(')').split('/').filter_map(|n| n.parse().ok()).collect())
        .unwrap_or_default();
    let kind = |at: usize| kinds.get(at).copied().unwrap_or(f64::NAN);
    let latency = line.split_once("lat (ms,").and_then(|(_, rest)| rest.split_once("%): "));
    let percent = latency.and_then(|(percent, _)| percent.parse().ok());
    let value = latency.and_then(|(_, rest)| rest.split_whitespace().next()).and_then(|w| w.parse().ok());
    let row = vec![
        at,
        number("thds: ")?,
        number("tps: ")?,
        number("qps: ")?,
        kind(0),
        kind(1),
        kind(2),
        value.unwrap_or(f64::NAN),
        number("err/s: ").unwrap_or(f64::NAN),
        number("reconn/s: ").unwrap_or(f64::NAN),
    ];
    Some((row, percent))
}

/// A line of the final report. A checkpoint's report prints the same: the last one counts.
fn printed(line: &str, printed: &mut Printed) {
    let Some((label, value)) = line.split_once(':') else { return };
    let rate = || {
        let inner = value.split_once('(')?.1;
        inner.split_whitespace().next()?.parse::<f64>().ok()
    };
    let first = || value.split_whitespace().next().and_then(|w| w.parse::<f64>().ok());
    match label {
        "transactions" => printed.transactions_per_s = rate(),
        "queries" => printed.statements_per_s = rate(),
        "min" => printed.min_ms = first(),
        _ => {
            let percent = ["th percentile", "st percentile", "nd percentile", "rd percentile"]
                .iter()
                .find_map(|end| label.strip_suffix(end))
                .and_then(|p| p.parse::<f64>().ok());
            if let (Some(percent), Some(value)) = (percent, first()) {
                printed.percentile = Some((percent, value));
            }
        }
    }
}

/// Missing and duplicate intervals, and threads with an early end.
fn gaps(log: &Log) -> Vec<String> {
    let mut said = Vec::new();
    let at: Vec<f64> = log.series.rows.iter().map(|row| row[0]).collect();
    let steps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut sorted = steps.clone();
    sorted.sort_by(f64::total_cmp);
    if let Some(step) = sorted.get(sorted.len() / 2).copied().filter(|s| *s > 0.0) {
        // sysbench prints whole seconds: a difference of one to the interval is rounding.
        let missing: f64 = steps.iter().map(|s| ((s / step).round() - 1.0).max(0.0)).sum();
        let places = steps.iter().filter(|s| (**s / step).round() > 1.0).count();
        if missing > 0.0 {
            said.push(format!("{missing:.0} intervals are missing at {places} places"));
        }
        if steps.iter().any(|s| *s <= 0.0) {
            said.push("intervals come twice or not in their order".to_string());
        }
    }
    let fewer = log.series.rows.iter().filter(|row| log.threads.is_some_and(|n| row[1] < n as f64)).count();
    if fewer > 0 {
        said.push(format!("in {fewer} intervals fewer threads ran than asked for"));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_with_checkpoint_gives_what_is_measured_after_it() {
        let log = read(include_str!("../../../tidelab-server/testdata/read_write_checkpoint.txt"));
        assert_eq!(log.fatal, Vec::<String>::new());
        assert_eq!(log.series.rows.len(), 4);
        assert_eq!(log.series.column("transactions_per_s").unwrap()[0], 495.47);
        assert_eq!(log.series.column("p95_ms").unwrap()[0], 36.24);
        assert!(log.printed.transactions_per_s.is_some() && log.printed.percentile.is_some());
        assert_eq!(log.report.unwrap().measured.transactions, 849);
    }

    #[test]
    fn each_percentile_and_interval_is_understood() {
        let text = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\nNumber of threads: 4\n\
            [ 10s ] thds: 4 tps: 10.00 qps: 20.00 (r/w/o: 14.00/4.00/2.00) lat (ms,99%): 5.50 err/s: 1.00 reconn/s: 0.50\n\
            [ 20s ] thds: 3 tps: 11.00 qps: 22.00 (r/w/o: 15.00/5.00/2.00) lat (ms,99%): 6.50 err/s: 0.00 reconn/s: 0.00\n\
            [ 50s ] thds: 4 tps: 11.00 qps: 22.00 (r/w/o: 15.00/5.00/2.00) lat (ms,99%): 6.50 err/s: 0.00 reconn/s: 0.00\n\
            [ 60s ] thds: 4 tps: 11.00 qps: 22.00 (r/w/o: 15.00/5.00/2.00) lat (ms,99%): 6.50 err/s: 0.00 reconn/s: 0.00\n";
        let log = read(text);
        assert_eq!((log.version.as_str(), log.threads), ("1.0.20", Some(4)));
        assert_eq!(log.series.rows[0], [10.0, 4.0, 10.0, 20.0, 14.0, 4.0, 2.0, 5.5, 1.0, 0.5]);
        assert_eq!(log.series.columns[7], "p99_ms");
        assert_eq!(log.fatal, ["it printed no final report"]);
        assert_eq!(
            log.strange,
            ["2 intervals are missing at 1 places", "in 1 intervals fewer threads ran than asked for"]
        );
        assert_eq!(percentile_name(99.9), "p99.9_ms");
    }

    #[test]
    fn what_is_no_whole_log_says_why() {
        assert_eq!(read(" \n").fatal, ["the file is empty"]);
        let old =
            "sysbench 0.5:  multi-threaded system evaluation benchmark\n[  10s] threads: 4, tps: 1.00\n";
        assert!(read(old).fatal[0].contains("0.5"));
        assert!(is_one(old) && !is_one("elapsed_s\tinserts\n"));
        let fatal = read(include_str!("../../../tidelab-server/testdata/duplicate_key.txt")).fatal.join("; ");
        assert!(fatal.contains("Duplicate entry '4711'"), "{fatal}");
        let torn = "[ 1s ] thds: x tps: 1\n";
        assert!(read(torn).strange[0].contains("cannot be read"));
    }
}
