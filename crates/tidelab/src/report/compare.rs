//! Two runs side by side: the worsened figures first. Combinations are matched by their labels. The rounds of
//! two runs are not pairs: [`unpaired`] gives the certainty of a ratio.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;
use tidelab_server::statistics::{Ratio, Spread, Verdict};

use super::groups::Summary;
use super::page::Kept;
use crate::measure::unpaired;
use crate::run::{Better, Metric};

/// A change below this many percent is no regression, unless another bound is named. Two runs of the
/// same binary, an hour apart on a shared machine, differ by some percent with no round overlapping.
pub const THRESHOLD_PERCENT: f64 = 5.0;
/// Raised when a field of the JSON changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// The verdict on a figure or a combination, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It counted in the first run and failed in the second.
    Broken,
    /// Worse beyond noise and threshold.
    Regression,
    /// A change beyond the threshold with one round on a side: the noise is unknown.
    OneRound,
    /// Better beyond noise and threshold.
    Improvement,
    /// It failed in the first run and counts in the second.
    Repaired,
    /// It failed in both.
    Failed,
    /// No difference beyond noise and threshold, or one neither good nor bad.
    Same,
}

/// One figure of one combination in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The metric's name; empty for a failed combination.
    pub metric: String,
    /// The verdict.
    pub outcome: Outcome,
    /// In the first run.
    pub a: Option<Spread>,
    /// In the second.
    pub b: Option<Spread>,
    /// Counted rounds in the first run, and in the second.
    pub rounds: [usize; 2],
    /// The second against the first.
    pub ratio: Option<Ratio>,
    /// Why it failed in the second run, or else in the first.
    pub failures: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Version of this form.
    pub schema_version: u32,
    /// The folder of the first run.
    pub a: String,
    /// The folder of the second.
    pub b: String,
    /// The least percent of a counted change.
    pub threshold_percent: f64,
    /// Lines by outcome, the greatest change first.
    pub lines: Vec<Line>,
    /// Combinations of the first run alone.
    pub only_a: Vec<BTreeMap<String, String>>,
    /// Combinations of the second run alone.
    pub only_b: Vec<BTreeMap<String, String>>,
    /// Obstacles to the comparison: another machine, other settings.
    pub differences: Vec<String>,
}

/// Compares two runs in their common metrics, as shown by a summary. `threshold`: percent; none for
/// [`THRESHOLD_PERCENT`], and then figures with one round are not judged.
pub fn compare(a: &Kept, b: &Kept, threshold: Option<f64>) -> Comparison {
    let (ours, theirs) = (combinations(a), combinations(b));
    let metrics: Vec<&Metric> = a
        .run
        .metrics
        .iter()
        .filter(|metric| metric.main && b.run.metrics.iter().any(|other| other.name == metric.name))
        .collect();
    let mut lines = Vec::new();
    for (labels, first) in &ours {
        let Some(second) = theirs.get(labels) else { continue };
        let failed = |of: &Sides| !of.failures.is_empty();
        let outcome = match (failed(first), failed(second)) {
            (false, false) => None,
            (false, true) => Some(Outcome::Broken),
            (true, false) => Some(Outcome::Repaired),
            (true, true) => Some(Outcome::Failed),
        };
        let rounds = [first.rounds, second.rounds];
        if let Some(outcome) = outcome {
            let failures = if failed(second) { &second.failures } else { &first.failures };
            let (labels, failures) = (labels.clone(), failures.clone());
            let metric = String::new();
            lines.push(Line { labels, metric, outcome, a: None, b: None, rounds, ratio: None, failures });
            continue;
        }
        for metric in &metrics {
            let (our, their) = (first.of(&metric.name), second.of(&metric.name));
            let ratio = unpaired::ratio(their, our);
            let enough = our.len().min(their.len());
            lines.push(Line {
                labels: labels.clone(),
                metric: metric.name.clone(),
                outcome: ratio.map_or(Outcome::Same, |ratio| judge(ratio, metric.better, enough, threshold)),
                a: Spread::of(our),
                b: Spread::of(their),
                rounds,
                ratio,
                failures: Vec::new(),
            });
        }
    }
    let weight = |line: &Line| line.ratio.map_or(0.0, |ratio| ratio.median.max(f64::MIN_POSITIVE).ln().abs());
    lines.sort_by(|x, y| x.outcome.cmp(&y.outcome).then(weight(y).total_cmp(&weight(x))));
    let only = |one: &Combinations, other: &Combinations| {
        one.keys().filter(|labels| !other.contains_key(*labels)).cloned().collect()
    };
    Comparison {
        schema_version: SCHEMA_VERSION,
        a: a.folder.display().to_string(),
        b: b.folder.display().to_string(),
        threshold_percent: threshold.unwrap_or(THRESHOLD_PERCENT),
        lines,
        only_a: only(&ours, &theirs),
        only_b: only(&theirs, &ours),
        differences: differences(a, b),
    }
}

fn judge(ratio: Ratio, better: Better, rounds: usize, threshold: Option<f64>) -> Outcome {
    let percent = (ratio.median - 1.0).abs() * 100.0;
    if better == Better::Neither || percent < threshold.unwrap_or(THRESHOLD_PERCENT) {
        return Outcome::Same;
    }
    let higher = match ratio.verdict {
        _ if rounds < 2 && threshold.is_none() => return Outcome::OneRound,
        _ if rounds < 2 => ratio.median > 1.0,
        Verdict::Higher => true,
        Verdict::Lower => false,
        Verdict::None => return Outcome::Same,
    };
    if higher == (better == Better::Higher) {
        Outcome::Improvement
    } else {
        Outcome::Regression
    }
}

/// One run's side of a combination.
struct Sides {
    rounds: usize,
    failures: Vec<String>,
    figures: BTreeMap<String, Vec<f64>>,
}

impl Sides {
    fn of(&self, metric: &str) -> &[f64] {
        self.figures.get(metric).map_or(&[], Vec::as_slice)
    }
}

type Combinations = BTreeMap<BTreeMap<String, String>, Sides>;

fn combinations(kept: &Kept) -> Combinations {
    let summary = Summary::of(&kept.run, &kept.cells);
    let side = |group: &super::groups::Group| {
        let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (name, value) in group.cells.iter().flat_map(|at| &kept.cells[*at].figures) {
            figures.entry(name.clone()).or_default().push(*value);
        }
        Sides { rounds: group.rounds, failures: group.failures.clone(), figures }
    };
    let labels = |group| {
        let names = summary.axes.iter().map(|axis| axis.name.clone());
        names.zip(summary.words(group).into_iter().map(String::from)).collect()
    };
    summary.groups.iter().map(|group| (labels(group), side(group))).collect()
}

fn differences(a: &Kept, b: &Kept) -> Vec<String> {
    let mut found = Vec::new();
    if a.run.kind != b.run.kind {
        found.push(format!("the kinds differ: {} and {}", a.run.kind, b.run.kind));
    }
    if let (Some(one), Some(other)) = (&a.run.machine, &b.run.machine) {
        let facts = [
            ("CPU", &one.cpu, &other.cpu),
            ("kernel", &one.kernel, &other.kernel),
            ("file system", &one.file_system, &other.file_system),
        ];
        for (what, one, other) in facts.iter().filter(|(_, one, other)| one != other) {
            found.push(format!("the machines' {what} differs: {one} and {other}"));
        }
        if (one.cpus, one.memory_bytes) != (other.cpus, other.memory_bytes) {
            found.push(format!("the machines have {} and {} CPUs, or other memory", one.cpus, other.cpus));
        }
    }
    for (name, one) in &a.run.servers {
        let Some(other) = b.run.servers.get(name) else { continue };
        if one.version != other.version {
            found.push(format!("{name}: version {} and {}", one.version, other.version));
        }
        let names: BTreeSet<&String> = one.settings.keys().chain(other.settings.keys()).collect();
        for setting in names {
            let (ours, theirs) = (one.settings.get(setting), other.settings.get(setting));
            if ours != theirs {
                let said = |value: Option<&String>| value.map_or("not set".to_string(), String::clone);
                found.push(format!("{name}: {setting} = {} and {}", said(ours), said(theirs)));
            }
        }
    }
    if a.run.kind == b.run.kind && a.run.design != b.run.design {
        found.push("the designs differ".to_string());
    }
    found
}

impl Comparison {
    /// Nothing became worse beyond noise and threshold, and nothing counted before fails.
    pub fn good(&self) -> bool {
        !self.lines.iter().any(|line| matches!(line.outcome, Outcome::Broken | Outcome::Regression))
    }

    /// For a terminal; in colours if asked. Lines without a change are counted, not shown.
    pub fn text(&self, colours: bool) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "A: {}\nB: {}", self.a, self.b);
        for difference in &self.differences {
            let _ = writeln!(text, "note: {difference}");
        }
        let mut before = None;
        for line in self.lines.iter().filter(|line| line.outcome != Outcome::Same) {
            if before != Some(line.outcome) {
                let head = heading(line.outcome);
                let code = match line.outcome {
                    Outcome::Broken | Outcome::Regression => "31",
                    Outcome::Improvement | Outcome::Repaired => "32",
                    _ => "1",
                };
                let head = if colours { format!("\x1b[{code}m{head}\x1b[0m") } else { head.to_string() };
                let _ = writeln!(text, "\n{head}");
                before = Some(line.outcome);
            }
            let _ = writeln!(text, "  {}", said(line));
        }
        for (which, only) in [("A", &self.only_a), ("B", &self.only_b)] {
            if !only.is_empty() {
                let _ = writeln!(text, "\nOnly {which} has");
            }
            for labels in only {
                let _ = writeln!(text, "  {}", words(labels));
            }
        }
        let count = |outcome| self.lines.iter().filter(|line| line.outcome == outcome).count();
        let _ = writeln!(
            text,
            "\n{} worse, {} broken, {} better, {} without a difference beyond noise and {} %, {} with one round \
             that may differ",
            count(Outcome::Regression),
            count(Outcome::Broken),
            count(Outcome::Improvement) + count(Outcome::Repaired),
            count(Outcome::Same),
            self.threshold_percent,
            count(Outcome::OneRound),
        );
        text
    }
}

fn heading(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Broken => "Fails in B, counted in A",
        Outcome::Regression => "Worse in B",
        Outcome::OneRound => "Changed, with one round on a side (--threshold judges these)",
        Outcome::Improvement => "Better in B",
        Outcome::Repaired => "Failed in A, counts in B",
        Outcome::Failed => "Fails in both",
        Outcome::Same => "No difference",
    }
}

fn words(labels: &BTreeMap<String, String>) -> String {
    labels.values().map(String::as_str).collect::<Vec<&str>>().join(", ")
}

fn said(line: &Line) -> String {
    let what = words(&line.labels);
    let (Some(a), Some(b), Some(ratio)) = (line.a, line.b, line.ratio) else {
        return format!("{what}: {}", line.failures.join("; "));
    };
    let interval = if line.rounds.iter().all(|rounds| *rounds > 1) {
        format!(" ({:.3} to {:.3})", ratio.low, ratio.high)
    } else {
        String::new()
    };
    let percent = (ratio.median - 1.0) * 100.0;
    let rounds = format!("{} and {} rounds", line.rounds[0], line.rounds[1]);
    format!(
        "{what}: {} {} -> {}, {percent:+.1} %, ratio {:.3}{interval}, {rounds}",
        line.metric,
        short(a.median),
        short(b.median),
        ratio.median
    )
}

/// Four digits, or all before the point.
fn short(value: f64) -> String {
    let decimals = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 6) };
    format!("{value:.*}", decimals as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::groups::tests::{cell, run};
    use std::path::PathBuf;

    fn kept(name: &str, figures: &[(&str, &[f64])]) -> Kept {
        let cells = figures
            .iter()
            .flat_map(|(engine, rounds)| {
                (1..).zip(*rounds).map(|(round, tps)| cell(engine, "8", round, *tps))
            })
            .collect();
        Kept { folder: PathBuf::from(name), run: run(), cells }
    }

    const BEFORE: [f64; 5] = [100.0, 101.0, 99.0, 102.0, 98.0];
    const SLOWER: [f64; 5] = [90.0, 91.0, 89.0, 92.0, 88.0];

    fn outcomes(comparison: &Comparison) -> Vec<(&str, Outcome)> {
        comparison.lines.iter().map(|line| (line.labels["engine"].as_str(), line.outcome)).collect()
    }

    #[test]
    fn what_became_worse_comes_first_and_is_no_success() {
        let a = kept("a", &[("A", &BEFORE), ("B", &BEFORE), ("C", &SLOWER)]);
        let b = kept("b", &[("A", &BEFORE), ("B", &SLOWER), ("C", &BEFORE), ("D", &BEFORE)]);
        let comparison = compare(&a, &b, None);
        let expected = [("B", Outcome::Regression), ("C", Outcome::Improvement), ("A", Outcome::Same)];
        assert_eq!(outcomes(&comparison), expected);
        assert!(!comparison.good());
        assert_eq!((comparison.only_a.len(), comparison.only_b.len()), (0, 1));
        let text = comparison.text(false);
        assert!(text.contains("B, 8: tps_per_s 100.0 -> 90.00, -10.0 %, ratio 0.900 ("), "{text}");
        assert!(text.contains("Only B has\n  D, 8\n"), "{text}");
        assert!(text.contains("1 worse, 0 broken, 1 better, 1 without"), "{text}");
        assert!(compare(&b, &b, None).good());
    }

    #[test]
    fn noise_and_threshold_both_count() {
        let a = kept("a", &[("A", &BEFORE)]);
        let noisy = kept("b", &[("A", &[60.0, 90.0, 104.0, 120.0, 80.0])]);
        assert_eq!(outcomes(&compare(&a, &noisy, None)), [("A", Outcome::Same)], "10 % inside the noise");
        let little = kept("b", &[("A", &[95.1, 95.9, 95.5, 95.2, 95.8])]);
        assert_eq!(outcomes(&compare(&a, &little, None)), [("A", Outcome::Same)], "4.5 % are below 5 %");
        assert_eq!(outcomes(&compare(&a, &little, Some(2.0))), [("A", Outcome::Regression)]);
    }

    #[test]
    fn less_is_better_where_the_metric_says_so() {
        let mut a = kept("a", &[("A", &BEFORE)]);
        a.run.metrics[0].better = Better::Lower;
        let mut b = kept("b", &[("A", &SLOWER)]);
        b.run.metrics[0].better = Better::Lower;
        assert_eq!(outcomes(&compare(&a, &b, None)), [("A", Outcome::Improvement)]);
        a.run.metrics[0].better = Better::Neither;
        assert_eq!(outcomes(&compare(&a, &b, None)), [("A", Outcome::Same)]);
    }

    #[test]
    fn one_round_is_judged_only_by_a_named_threshold() {
        let (a, b) = (kept("a", &[("A", &[100.0])]), kept("b", &[("A", &[80.0])]));
        let comparison = compare(&a, &b, None);
        assert_eq!((outcomes(&comparison), comparison.good()), (vec![("A", Outcome::OneRound)], true));
        assert!(!compare(&a, &b, Some(10.0)).good());
    }

    #[test]
    fn a_failure_is_worse_than_any_figure() {
        let a = kept("a", &[("A", &BEFORE)]);
        let mut b = kept("b", &[("A", &BEFORE)]);
        b.cells[3].failures.push("rows are missing".into());
        let comparison = compare(&a, &b, None);
        assert_eq!((outcomes(&comparison), comparison.good()), (vec![("A", Outcome::Broken)], false));
        assert!(comparison.text(false).contains("A, 8: round 4: rows are missing"));
        assert_eq!(outcomes(&compare(&b, &a, None)), [("A", Outcome::Repaired)]);
    }
}
