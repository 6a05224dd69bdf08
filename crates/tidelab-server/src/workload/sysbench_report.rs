//! Reads the output of sysbench 1.0, line by line while it runs.
//!
//! A run has a checkpoint at the end of its warm-up: sysbench prints its counters there and starts them
//! anew. The final report is then of the measured time alone. Both are kept, because rows are counted
//! over both.

use serde::Serialize;

use crate::error::{Error, Result};

/// One second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Seconds since the start, warm-up included.
    pub at_s: f64,
    /// Transactions a second.
    pub transactions_per_s: f64,
    /// Statements a second.
    pub statements_per_s: f64,
    /// 95th percentile of the transactions' latency, in milliseconds.
    pub p95_ms: f64,
    /// Errors a second retried by sysbench.
    pub errors_per_s: f64,
}

/// The counters of a part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Statements with rows as their answer.
    pub reads: u64,
    /// Statements with changed rows.
    pub writes: u64,
    /// BEGIN, COMMIT, and changes without a matching row.
    pub others: u64,
    /// All statements.
    pub statements: u64,
    /// Events, each a transaction.
    pub transactions: u64,
    /// Errors answered by a retry of the event (deadlock, conflict, timeout).
    pub retried_errors: u64,
    /// Lost connections.
    pub reconnects: u64,
    /// Seconds since the start of the run.
    pub until_s: f64,
    /// Latency of the transactions in milliseconds.
    pub average_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// The whole output of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The part before the checkpoint, when there was one.
    pub warm_up: Option<Counters>,
    /// The measured part.
    pub measured: Counters,
    /// Latency in milliseconds and how many transactions had it, ascending.
    pub histogram: Vec<(f64, u64)>,
    /// Fatal errors of the run, one line each.
    pub fatal: Vec<String>,
}

impl Report {
    /// Seconds of the measured part.
    pub fn seconds(&self) -> f64 {
        self.measured.until_s - self.warm_up.map_or(0.0, |w| w.until_s)
    }

    /// The upper bound of the latencies of `percent` of the transactions, in milliseconds; 0 for none.
    pub fn percentile(&self, percent: f64) -> f64 {
        let total: u64 = self.histogram.iter().map(|(_, n)| n).sum();
        let needed = (total as f64 * percent / 100.0).floor().max(1.0) as u64;
        let mut seen = 0;
        for (value, count) in &self.histogram {
            seen += count;
            if seen >= needed {
                return *value;
            }
        }
        0.0
    }
}

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A second is over.
    Second(Second),
    /// The warm-up is over, the measured part begins here.
    Checkpoint,
    /// The load has ended, the final report begins.
    End,
}

/// The reader's place in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Running,
    Histogram,
    Counters,
}

/// Takes the lines of one run.
#[derive(Debug)]
pub struct Reader {
    part: Part,
    in_checkpoint: bool,
    ended: bool,
    counters: Counters,
    warm_up: Option<Counters>,
    measured: Option<Counters>,
    histogram: Vec<(f64, u64)>,
    fatal: Vec<String>,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            part: Part::Running,
            in_checkpoint: false,
            ended: false,
            counters: Counters::default(),
            warm_up: None,
            measured: None,
            histogram: Vec::new(),
            fatal: Vec::new(),
        }
    }
}

impl Reader {
    /// Takes a line; lines of no interest give nothing.
    pub fn line(&mut self, line: &str) -> Option<Event> {
        let text = line.trim();
        if text.starts_with("FATAL:") || text.starts_with("ALERT:") || text.starts_with("PANIC:") {
            self.fatal.push(text.to_string());
            return None;
        }
        if text.starts_with('[') && text.contains("Checkpoint report") {
            self.in_checkpoint = true;
            self.part = Part::Running;
            return Some(Event::Checkpoint);
        }
        if text.starts_with('[') && text.contains(" thds: ") {
            return second(text).map(Event::Second);
        }
        if text.starts_with("Latency histogram") {
            self.part = Part::Histogram;
            // A checkpoint prints its own; only the final one counts.
            self.histogram.clear();
            return self.end_unless_checkpoint();
        }
        if text == "SQL statistics:" {
            self.part = Part::Counters;
            self.counters = Counters::default();
            return self.end_unless_checkpoint();
        }
        match self.part {
            Part::Running => {}
            Part::Histogram => {
                let mut words = text.split('|');
                let value = words.next().and_then(|w| w.trim().parse().ok());
                let count =
                    words.next().and_then(|w| w.split_whitespace().last()).and_then(|w| w.parse().ok());
                if let (Some(value), Some(count)) = (value, count) {
                    self.histogram.push((value, count));
                }
            }
            Part::Counters => self.counter(text),
        }
        None
    }

    fn end_unless_checkpoint(&mut self) -> Option<Event> {
        if self.in_checkpoint || self.ended {
            return None;
        }
        self.ended = true;
        Some(Event::End)
    }

    fn counter(&mut self, text: &str) {
        let Some((label, value)) = text.split_once(':') else { return };
        let word = value.split_whitespace().next().unwrap_or_default();
        let count = || word.parse::<u64>().unwrap_or(0);
        let real = || word.trim_end_matches('s').parse::<f64>().unwrap_or(0.0);
        let counters = &mut self.counters;
        match label {
            "read" => counters.reads = count(),
            "write" => counters.writes = count(),
            "other" => counters.others = count(),
            "total" => counters.statements = count(),
            "transactions" => counters.transactions = count(),
            "ignored errors" => counters.retried_errors = count(),
            "reconnects" => counters.reconnects = count(),
            "total time" => counters.until_s = real(),
            "avg" => counters.average_ms = real(),
            "max" => counters.max_ms = real(),
            // The last line of the counters' latencies: this part is complete.
            "sum" => {
                if self.in_checkpoint {
                    self.warm_up = Some(*counters);
                    self.in_checkpoint = false;
                } else {
                    self.measured = Some(*counters);
                }
                self.part = Part::Running;
            }
            _ => {}
        }
    }

    /// The report, once all lines were taken.
    pub fn finish(self) -> Result<Report> {
        let Some(measured) = self.measured else {
            let message = if self.fatal.is_empty() {
                "it printed no final report".to_string()
            } else {
                self.fatal.join("; ")
            };
            return Err(Error::Load { what: "sysbench".to_string(), message });
        };
        Ok(Report { warm_up: self.warm_up, measured, histogram: self.histogram, fatal: self.fatal })
    }
}

/// `[ 3s ] thds: 8 tps: 461.05 qps: 9520.06 (r/w/o: ...) lat (ms,95%): 45.79 err/s: 19.00 reconn/s: 0.00`
fn second(text: &str) -> Option<Second> {
    let after = |label: &str| {
        text.split_once(label)
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .and_then(|w| w.parse::<f64>().ok())
    };
    let at = text.trim_start_matches('[').split_whitespace().next()?.trim_end_matches('s').parse().ok()?;
    Some(Second {
        at_s: at,
        transactions_per_s: after("tps: ")?,
        statements_per_s: after("qps: ")?,
        p95_ms: after("lat (ms,95%): ").unwrap_or(0.0),
        errors_per_s: after("err/s: ").unwrap_or(0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Event>, Result<Report>) {
        let mut reader = Reader::default();
        let events = text.lines().filter_map(|line| reader.line(line)).collect();
        (events, reader.finish())
    }

    #[test]
    fn a_run_with_checkpoint_and_histogram() {
        let (events, report) = read(include_str!("../../testdata/read_write_checkpoint.txt"));
        let kinds: Vec<&str> = events
            .iter()
            .map(|e| match e {
                Event::Second(_) => "second",
                Event::Checkpoint => "checkpoint",
                Event::End => "end",
            })
            .collect();
        assert_eq!(kinds, ["second", "checkpoint", "second", "second", "second", "end"]);
        let Event::Second(first) = events[0] else { panic!("{events:?}") };
        assert_eq!(
            first,
            Second {
                at_s: 1.0,
                transactions_per_s: 495.47,
                statements_per_s: 10189.03,
                p95_ms: 36.24,
                errors_per_s: 12.99
            }
        );

        let report = report.unwrap();
        let warm_up = report.warm_up.unwrap();
        assert_eq!((warm_up.writes, warm_up.statements, warm_up.transactions), (3689, 18850, 913));
        assert_eq!(
            report.measured,
            Counters {
                reads: 12365,
                writes: 3436,
                others: 1731,
                statements: 17532,
                transactions: 849,
                retried_errors: 40,
                reconnects: 0,
                until_s: 5.0597,
                average_ms: 28.68,
                max_ms: 305.0
            }
        );
        assert!((report.seconds() - (5.0597 - 2.0009)).abs() < 1e-9);
        assert_eq!(report.fatal, Vec::<String>::new());
        assert_eq!(report.histogram.iter().map(|(_, n)| n).sum::<u64>(), 20);
        assert_eq!(report.histogram.len(), 4);
    }

    #[test]
    fn percentiles_are_those_of_the_histogram() {
        let report = Report { histogram: vec![(1.0, 90), (2.0, 5), (3.0, 4), (9.0, 1)], ..Report::default() };
        assert_eq!(report.percentile(50.0), 1.0);
        assert_eq!(report.percentile(95.0), 2.0);
        assert_eq!(report.percentile(99.0), 3.0);
        assert_eq!(report.percentile(100.0), 9.0);
        assert_eq!(Report::default().percentile(95.0), 0.0);
    }

    #[test]
    fn a_run_without_checkpoint_is_all_measured() {
        let (events, report) = read(include_str!("../../testdata/point_select_plain.txt"));
        assert_eq!(events, [Event::End]);
        let report = report.unwrap();
        assert_eq!(report.warm_up, None);
        assert_eq!((report.measured.statements, report.seconds()), (21034, 1.0003));
    }

    #[test]
    fn a_run_that_cannot_connect_says_why() {
        let (_, report) = read(include_str!("../../testdata/no_connection.txt"));
        let text = report.unwrap_err().to_string();
        assert!(text.contains("Can't connect to local server"), "{text}");
    }

    #[test]
    fn an_error_in_the_middle_is_kept() {
        let (_, report) = read(include_str!("../../testdata/duplicate_key.txt"));
        let text = report.unwrap_err().to_string();
        assert!(text.contains("Duplicate entry '4711'"), "{text}");
    }

    #[test]
    fn half_of_an_output_is_no_report() {
        let whole = include_str!("../../testdata/read_write_checkpoint.txt");
        let cut = whole.rfind("Latency (ms)").unwrap();
        assert!(read(&whole[..cut]).1.unwrap_err().to_string().contains("no final report"));
    }
}
