//! Decides whether figures are the driver's rather than an engine's.
//!
//! Combinations of a kept run also measured without an engine ([`Bound`]) have a line here: the best
//! competitor's figure as a share of the rate of driver and server alone.
//!
//! The rule: the driver is the bottleneck where the best competitor reaches more than [`NEAR`] of the
//! highest of these rates. MEMORY locks whole tables, so engines with row locks can be faster than it. It
//! is shown, and decides nothing where BLACKHOLE goes faster.

use serde::Serialize;

use super::groups::{Group, Summary};
use crate::run::{Better, Bound, Cell, Run};

/// A figure above this share of the rate without an engine says more of driver and server than of the
/// engine.
pub const NEAR: f64 = 0.8;

/// A combination, without its competitor, alongside its rates without an engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Places in the summary's axes; the competitor's is the best one's.
    pub labels: Vec<usize>,
    /// The metric's place in the run.
    pub metric: usize,
    /// The best competitor's median.
    pub figure: f64,
    /// The rates without an engine: name, figure, the best competitor's share of it.
    pub bounds: Vec<(String, f64, f64)>,
    /// CPU time of the driver for a statement where it was fastest, in microseconds, and the server's.
    pub cpu_us: (f64, f64),
    /// True if the driver is the bottleneck.
    pub driver: bool,
}

/// All combinations also measured without an engine, in the summary's order.
pub fn lines(run: &Run, summary: &Summary, cells: &[Cell]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for group in &summary.groups {
        let Some(cell) = group.cells.first().map(|at| &cells[*at]) else { continue };
        let bounds: Vec<&Bound> = run.bounds.iter().filter(|bound| bound.applies_to(&cell.id)).collect();
        for (metric, known) in run.metrics.iter().enumerate() {
            let of_it: Vec<&Bound> =
                bounds.iter().copied().filter(|b| b.metric == known.name && b.value > 0.0).collect();
            let Some(figure) = group.figures[metric].map(|spread| spread.median) else { continue };
            // More is better for all that is measured without an engine.
            if of_it.is_empty() || known.better != Better::Higher {
                continue;
            }
            let line = line(group, metric, figure, &of_it);
            match lines
                .iter_mut()
                .find(|l| l.metric == metric && without(summary, l) == without(summary, &line))
            {
                Some(known) if known.figure < figure => *known = line,
                Some(_) => {}
                None => lines.push(line),
            }
        }
    }
    lines
}

fn line(group: &Group, metric: usize, figure: f64, known: &[&Bound]) -> Line {
    let bounds = known.iter().map(|b| (b.what.clone(), b.value, figure / b.value)).collect();
    let fastest = known.iter().copied().reduce(|a, b| if b.value > a.value { b } else { a });
    Line {
        labels: group.labels.clone(),
        metric,
        figure,
        bounds,
        cpu_us: fastest.map_or((0.0, 0.0), |b| (b.driver_cpu_us, b.server_cpu_us)),
        driver: fastest.is_some_and(|b| figure / b.value > NEAR),
    }
}

/// The labels but for the competitor's.
fn without(summary: &Summary, line: &Line) -> Vec<usize> {
    let kept = |(axis, _): &(usize, &usize)| Some(*axis) != summary.competitor;
    line.labels.iter().enumerate().filter(kept).map(|(_, at)| *at).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::groups::tests::{cell, run};
    use super::*;
    use std::collections::BTreeMap;

    pub(crate) fn bound(what: &str, threads: &str, value: f64) -> Bound {
        Bound {
            labels: BTreeMap::from([("threads".to_string(), threads.to_string())]),
            metric: "tps_per_s".to_string(),
            what: what.to_string(),
            value,
            driver_cpu_us: 10.0,
            server_cpu_us: 20.0,
        }
    }

    #[test]
    fn the_best_competitor_is_held_against_the_fastest_of_them() {
        let mut run = run();
        run.bounds = vec![
            bound("BLACKHOLE", "8", 200.0),
            bound("MEMORY", "8", 100.0),
            bound("BLACKHOLE", "16", 140.0),
        ];
        let cells = [
            cell("A", "8", 1, 120.0),
            cell("B", "8", 1, 110.0),
            cell("A", "16", 1, 90.0),
            cell("B", "16", 1, 115.0),
            cell("A", "32", 1, 1.0),
        ];
        let summary = Summary::of(&run, &cells);
        let lines = lines(&run, &summary, &cells);
        assert_eq!(lines.len(), 2, "nothing is known of 32 threads: {lines:?}");
        assert_eq!((lines[0].figure, lines[0].driver), (120.0, false), "60 % of BLACKHOLE; MEMORY is slower");
        assert_eq!(lines[0].bounds[1], ("MEMORY".to_string(), 100.0, 1.2));
        assert_eq!((lines[1].figure, lines[1].driver), (115.0, true));
        assert_eq!(lines[1].labels[0], 1, "B is the best there");
    }

    #[test]
    fn what_failed_is_not_held_against_anything() {
        let mut run = run();
        run.bounds = vec![bound("BLACKHOLE", "8", 200.0)];
        let mut bad = cell("A", "8", 1, 190.0);
        bad.failures.push("lost".to_string());
        let cells = [bad, cell("B", "8", 1, 100.0)];
        let lines = lines(&run, &Summary::of(&run, &cells), &cells);
        assert_eq!((lines.len(), lines[0].figure, lines[0].driver), (1, 100.0, false));
    }
}
