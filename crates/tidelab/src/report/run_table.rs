//! A kept run as a table for a terminal.
//!
//! Below each combination of labels stands a line for each competitor, with the main figures, ratios and
//! their intervals. The rates of driver and server without an engine follow, then the run's notes.

use std::fmt::Write as _;

use tidelab_server::statistics::{Ratio, Verdict, FEWEST_FOR_A_VERDICT};

use super::conditions;
use super::driver::{self, NEAR};
use super::groups::{Group, Summary};
use super::page::Kept;
use super::quantity::quantity;
use crate::run::{Metric, Run};

/// Figures of a line at most, for the width.
const FIGURES: usize = 6;

/// The table.
pub fn render(kept: &Kept) -> String {
    let Kept { run, cells, .. } = kept;
    let summary = Summary::of(run, cells);
    let mut text = format!("{}\n", run.title);
    if let Some(why) = &run.ended_early {
        let _ = writeln!(text, "ENDED EARLY: {why}");
    }
    let rounds = summary.rounds;
    let _ = writeln!(
        text,
        "medians of {rounds} round{}{}",
        if rounds == 1 { "" } else { "s, least to greatest" },
        match (summary.competitor, summary.reference) {
            (Some(axis), Some(at)) if summary.axes[axis].values.len() > 1 => format!(
                "; ratios to {} with {}",
                summary.axes[axis].values[at],
                if rounds == 1 { "no interval: one round has none" } else { "their 98 % intervals" }
            ),
            _ => String::new(),
        }
    );
    let conditions = conditions::of(run);
    if !conditions.is_empty() {
        let _ = writeln!(text, "{}", conditions.join(" "));
    }
    let mut head = None;
    let mut shown = Vec::new();
    for group in ordered(&summary) {
        let title = title(&summary, group);
        if head.as_ref() != Some(&title) {
            let _ = writeln!(text, "\n{}", if title.is_empty() { "all" } else { &title });
            shown = main_figures(run, &summary, &title);
            head = Some(title);
        }
        let name =
            summary.competitor.map_or("", |axis| summary.axes[axis].values[group.labels[axis]].as_str());
        if !group.failures.is_empty() {
            let _ = writeln!(text, "  {name:<22} FAILED {}", group.failures.join("; "));
            continue;
        }
        let mut begin = format!("  {name:<22}");
        for at in &shown {
            let _ = writeln!(text, "{begin} {}", figure(run, group, *at).trim_end());
            begin = format!("  {:<22}", "");
        }
    }
    text + &bottlenecks(run, &summary, kept) + &notes(run)
}

/// The main figures of any competitor under this title: another phase has others.
fn main_figures(run: &Run, summary: &Summary, head: &str) -> Vec<usize> {
    let groups: Vec<&Group> = summary.groups.iter().filter(|group| title(summary, group) == head).collect();
    (0..run.metrics.len())
        .filter(|at| run.metrics[*at].main)
        .filter(|at| groups.iter().any(|group| group.figures[*at].is_some()))
        .take(FIGURES)
        .collect()
}

/// Competitors under each other where all else is equal.
fn ordered(summary: &Summary) -> Vec<&Group> {
    let mut groups: Vec<&Group> = summary.groups.iter().collect();
    groups.sort_by_key(|group| {
        let others: Vec<usize> = (0..group.labels.len())
            .filter(|axis| Some(*axis) != summary.competitor)
            .map(|axis| group.labels[axis])
            .collect();
        (others, group.labels.clone())
    });
    groups
}

/// The distinguishing labels, without the competitor's.
pub(super) fn title(summary: &Summary, group: &Group) -> String {
    title_of(summary, &group.labels)
}

fn title_of(summary: &Summary, labels: &[usize]) -> String {
    let said: Vec<String> = summary
        .axes
        .iter()
        .zip(labels)
        .enumerate()
        .filter(|(at, (axis, _))| Some(*at) != summary.competitor && axis.values.len() > 1)
        .map(|(_, (axis, at))| match axis.role {
            crate::run::Role::Number => format!("{} {}", axis.title.to_lowercase(), axis.values[*at]),
            _ => axis.values[*at].clone(),
        })
        .collect();
    said.join(", ")
}

fn figure(run: &Run, group: &Group, at: usize) -> String {
    let metric = &run.metrics[at];
    let Some(spread) = group.figures[at] else { return format!("{:<28} -", short(metric)) };
    let range = match spread.min < spread.max {
        true => format!("{} to {}", quantity(spread.min, ""), quantity(spread.max, "")),
        false => String::new(),
    };
    let range = if metric.unit == "B" { String::new() } else { range };
    let ratio = group.ratios[at].map_or(String::new(), |ratio| ratio_text(&ratio, group.rounds));
    format!("{:<28} {:>14} {range:<22} {ratio}", short(metric), quantity(spread.median, &metric.unit))
}

fn short(metric: &Metric) -> String {
    metric.title.chars().take(28).collect()
}

/// `x 1.31 (1.22 to 1.40), higher`; one round has neither an interval nor a verdict, two have no verdict.
pub(super) fn ratio_text(ratio: &Ratio, rounds: usize) -> String {
    let bound = |value: f64| match value {
        value if value < 0.01 => "< 0.01".to_string(),
        value if value > 100.0 => "> 100".to_string(),
        value => format!("{value:.2}"),
    };
    if rounds < 2 {
        return format!("x {:.2}", ratio.median);
    }
    let verdict = match ratio.verdict {
        _ if rounds < FEWEST_FOR_A_VERDICT => "two rounds decide nothing",
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
        Verdict::None => "no difference",
    };
    format!("x {:.2} ({} to {}), {verdict}", ratio.median, bound(ratio.low), bound(ratio.high))
}

fn bottlenecks(run: &Run, summary: &Summary, kept: &Kept) -> String {
    let lines = driver::lines(run, summary, &kept.cells);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nIs the driver the bottleneck? Yes where the best competitor reaches more than {:.0} % of what driver and\n\
         server reach without an engine.\n",
        NEAR * 100.0
    );
    for line in &lines {
        let best =
            summary.competitor.map_or("", |axis| summary.axes[axis].values[line.labels[axis]].as_str());
        let unit = &run.metrics[line.metric].unit;
        let _ = write!(
            text,
            "  {:<28} {:<3} best {best} {}",
            title_of(summary, &line.labels),
            if line.driver { "YES" } else { "no" },
            quantity(line.figure, unit)
        );
        for (what, value, share) in &line.bounds {
            let _ = write!(text, "; {:.0} % of {} ({what})", share * 100.0, quantity(*value, unit));
        }
        text.push('\n');
    }
    text
}

fn notes(run: &Run) -> String {
    let lines: String = run.notes.iter().map(|note| format!("  {note}\n")).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\nNotes\n{lines}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::tests::bound;
    use super::super::groups::tests::{cell, run};
    use super::*;
    use crate::run::Better;
    use std::path::PathBuf;

    #[test]
    fn figures_ratios_failures_and_what_the_driver_reaches() {
        let mut run = run();
        run.notes = vec!["a note".to_string()];
        run.axes[1].values.push("16".to_string());
        run.bounds = vec![bound("BLACKHOLE", "8", 125.0)];
        let mut cells = Vec::new();
        for round in 1..=3 {
            cells.push(cell("A", "8", round, 120.0 + f64::from(round)));
            cells.push(cell("B", "8", round, 60.0 + f64::from(round)));
            cells.push(cell("A", "16", round, 10.0));
            let mut lost = cell("B", "16", round, 10.0);
            lost.failures.push("a row is missing".to_string());
            cells.push(lost);
        }
        let text = render(&Kept { folder: PathBuf::new(), run, cells });
        for part in [
            "A test\nmedians of 3 rounds, least to greatest; ratios to B with their 98 % intervals\n",
            "\nthreads 8\n  A ",
            " 122 1/s 121 to 123 ",
            ", higher\n",
            "\nthreads 16\n  A ",
            "FAILED round 1: a row is missing;",
            "threads 8                    YES best A 122 1/s; 98 % of 125 1/s (BLACKHOLE)\n",
            "\nNotes\n  a note\n",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }

    #[test]
    fn an_interval_that_says_nothing_is_not_spelled_out() {
        let ratio = Ratio { median: 1.5, low: 1e-9, high: 1e12, verdict: Verdict::None };
        assert_eq!(ratio_text(&ratio, 3), "x 1.50 (< 0.01 to > 100), no difference");
        assert_eq!(ratio_text(&ratio, 2), "x 1.50 (< 0.01 to > 100), two rounds decide nothing");
        assert_eq!(ratio_text(&ratio, 1), "x 1.50");
    }

    #[test]
    fn each_block_has_the_figures_that_its_lines_have() {
        let mut run = run();
        run.axes[1].values.push("16".to_string());
        run.metrics.push(Metric::main("reads_per_s", "Reads", "1/s", Better::Higher));
        let mut reading = cell("A", "16", 1, 0.0);
        reading.figures.clear();
        reading.figure("reads_per_s", 7.0);
        let cells = vec![cell("A", "8", 1, 120.0), reading];
        let text = render(&Kept { folder: PathBuf::new(), run, cells });
        let (writes, reads) = text.split_once("threads 16").expect("two blocks");
        assert!(!writes.contains("Reads") && writes.contains("120 1/s"), "{text}");
        assert!(reads.contains("Reads") && !reads.contains("120 1/s"), "{text}");
        assert!(!text.contains(" -\n"), "{text}");
    }

    #[test]
    fn one_round_has_no_interval() {
        let cells = vec![cell("A", "8", 1, 120.0), cell("B", "8", 1, 60.0)];
        let text = render(&Kept { folder: PathBuf::new(), run: run(), cells });
        assert!(text.contains("no interval: one round has none") && text.contains("x 2.00\n"), "{text}");
    }
}
