//! The rounds of a run combined: median, spread and ratio to the reference of every figure, for each
//! combination of labels.
//!
//! Report, comparison, exports and benchmarks all take their figures from here. A combination with a failed
//! cell has reasons instead of figures.

use std::collections::BTreeMap;

use tidelab_server::statistics::{Ratio, Spread};

use crate::run::{Axis, Buckets, Cell, Role, Run};

/// All rounds of one combination of labels.
#[derive(Clone, Debug)]
pub struct Group {
    /// For each axis of [`Summary::axes`] the place of its value there.
    pub labels: Vec<usize>,
    /// Its cells, as places in the given list, by round.
    pub cells: Vec<usize>,
    /// The number of counted ones.
    pub rounds: usize,
    /// Why others do not, each with its round. With any there are no figures.
    pub failures: Vec<String>,
    /// For each metric of the run its middle and spread over the rounds.
    pub figures: Vec<Option<Spread>>,
    /// For each metric the ratio to the reference, round by round; none for the reference itself and
    /// where the reference failed.
    pub ratios: Vec<Option<Ratio>>,
}

/// The groups of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The run's axes, with every value in the cells.
    pub axes: Vec<Axis>,
    /// The place of the competitors' axis; none in a run without one.
    pub competitor: Option<usize>,
    /// The reference competitor of ratios, as a place in its axis.
    pub reference: Option<usize>,
    /// The most rounds of any combination.
    pub rounds: usize,
    /// In the order of the axes' values, the last axis running fastest.
    pub groups: Vec<Group>,
}

impl Summary {
    /// Of a run and its cells.
    pub fn of(run: &Run, cells: &[Cell]) -> Summary {
        let axes = complete(&run.axes, cells);
        let competitor = axes.iter().position(|axis| axis.role == Role::Competitor);
        let reference = competitor.and_then(|at| {
            let values = &axes[at].values;
            let named = run.reference.as_ref().and_then(|name| values.iter().position(|v| v == name));
            named.or(if values.is_empty() { None } else { Some(0) })
        });
        let place = |cell: &Cell| -> Vec<usize> {
            axes.iter()
                .map(|axis| axis.values.iter().position(|v| v == cell.id.label(&axis.name)).unwrap_or(0))
                .collect()
        };
        let mut by_labels: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for (at, cell) in cells.iter().enumerate() {
            by_labels.entry(place(cell)).or_default().push(at);
        }
        for members in by_labels.values_mut() {
            members.sort_by_key(|at| cells[*at].id.round);
        }
        let groups: Vec<Group> = by_labels
            .iter()
            .map(|(labels, members)| {
                let against = reference.zip(competitor).and_then(|(reference, at)| {
                    let mut theirs = labels.clone();
                    theirs[at] = reference;
                    if theirs == *labels {
                        return None;
                    }
                    by_labels.get(&theirs)
                });
                group(run, cells, labels, members, against)
            })
            .collect();
        let rounds = groups.iter().map(|group| group.cells.len()).max().unwrap_or(0);
        Summary { axes, competitor, reference, rounds, groups }
    }

    /// The group with these values, named by their axes; none if no measured one has them all.
    pub fn group(&self, labels: &[(&str, &str)]) -> Option<&Group> {
        let has = |group: &&Group, (axis, value): &(&str, &str)| {
            let words = self.axes.iter().zip(self.words(group));
            words.into_iter().any(|(known, word)| known.name == *axis && word == *value)
        };
        self.groups.iter().find(|group| labels.iter().all(|label| has(group, label)))
    }

    /// The labels of a group in words.
    pub fn words<'a>(&'a self, group: &Group) -> Vec<&'a str> {
        self.axes.iter().zip(&group.labels).map(|(axis, at)| axis.values[*at].as_str()).collect()
    }
}

fn group(
    run: &Run,
    cells: &[Cell],
    labels: &[usize],
    members: &[usize],
    against: Option<&Vec<usize>>,
) -> Group {
    let ours: Vec<&Cell> = members.iter().map(|at| &cells[*at]).collect();
    let failures: Vec<String> = ours
        .iter()
        .filter(|cell| !cell.counts())
        .flat_map(|cell| {
            let why = if cell.failures.is_empty() {
                vec!["there are no figures".to_string()]
            } else {
                cell.failures.clone()
            };
            why.into_iter().map(|why| format!("round {}: {why}", cell.id.round))
        })
        .collect();
    let theirs: Option<Vec<&Cell>> = against
        .map(|places| places.iter().map(|at| &cells[*at]).collect::<Vec<&Cell>>())
        .filter(|theirs| theirs.iter().all(|cell| cell.counts()));
    let (mut figures, mut ratios) = (Vec::new(), Vec::new());
    for metric in &run.metrics {
        if !failures.is_empty() {
            figures.push(None);
            ratios.push(None);
            continue;
        }
        let of = |cell: &Cell| cell.figures.get(&metric.name).copied();
        figures.push(Spread::of(&ours.iter().filter_map(|cell| of(cell)).collect::<Vec<f64>>()));
        ratios.push(theirs.as_ref().and_then(|theirs| {
            let pair = |cell: &&Cell| {
                let their = theirs.iter().find(|their| their.id.round == cell.id.round)?;
                Some((of(cell)?, of(their)?))
            };
            Ratio::of(&ours.iter().filter_map(pair).collect::<Vec<(f64, f64)>>())
        }));
    }
    Group {
        labels: labels.to_vec(),
        cells: members.to_vec(),
        rounds: ours.iter().filter(|cell| cell.counts()).count(),
        failures,
        figures,
        ratios,
    }
}

/// The axes with further values from the cells: numbers by size, others in order of appearance. A cell's
/// label outside of the run's axes is ignored.
fn complete(axes: &[Axis], cells: &[Cell]) -> Vec<Axis> {
    let mut axes = axes.to_vec();
    for axis in &mut axes {
        let mut more: Vec<String> = Vec::new();
        for cell in cells {
            let value = cell.id.label(&axis.name);
            if !axis.values.iter().chain(&more).any(|known| known == value) {
                more.push(value.to_string());
            }
        }
        if axis.role == Role::Number {
            let number = |text: &String| text.parse::<f64>().unwrap_or(f64::INFINITY);
            more.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        axis.values.extend(more);
    }
    axes
}

/// One histogram of several with the same unit: equal buckets are added up.
pub fn merged<'a>(histograms: impl IntoIterator<Item = &'a Buckets>) -> Buckets {
    let mut all: Vec<(f64, u64)> = histograms.into_iter().flatten().copied().collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Buckets = Vec::new();
    for (bound, count) in all {
        match merged.last_mut() {
            Some(last) if last.0 == bound => last.1 += count,
            _ => merged.push((bound, count)),
        }
    }
    merged
}

/// Points of a percentile curve, equally far from each other at 90 %, 99 %, 99.9 %.
///
/// Point k is the least upper bound of a share of 1 - 2^(-k/4), for k = 0, 1, ... as long as at least one is
/// left out. The last point is the greatest value. Empty for an empty histogram.
pub fn percentile_curve(histogram: &Buckets) -> Vec<f64> {
    let total: u64 = histogram.iter().map(|(_, count)| count).sum();
    let Some((greatest, _)) = histogram.last().filter(|_| total > 0) else { return Vec::new() };
    let mut curve = Vec::new();
    let (mut at, mut below) = (0, 0);
    for k in 0.. {
        let left_out = total as f64 * 0.5f64.powf(f64::from(k) / 4.0);
        if left_out < 1.0 {
            break;
        }
        let wanted = ((total as f64 - left_out).ceil() as u64).clamp(1, total);
        while below + histogram[at].1 < wanted {
            below += histogram[at].1;
            at += 1;
        }
        curve.push(histogram[at].0);
    }
    curve.push(*greatest);
    curve
}

#[cfg(test)]
pub(super) mod tests {
    use tidelab_server::statistics::Verdict;

    use super::*;
    use crate::run::{Better, CellId, Metric};

    pub(crate) fn run() -> Run {
        let axis = |name: &str, role, values: &[&str]| Axis {
            name: name.into(),
            title: name.into(),
            role,
            values: values.iter().map(|v| v.to_string()).collect(),
        };
        let mut run = Run::new("t", "A test", "sweep");
        run.axes = vec![axis("engine", Role::Competitor, &["A", "B"]), axis("threads", Role::Number, &["8"])];
        run.metrics = vec![
            Metric::main("tps_per_s", "Transactions", "1/s", Better::Higher),
            Metric::detail("p99_ms", "p99", "ms", Better::Lower),
        ];
        run.reference = Some("B".into());
        run
    }

    pub(crate) fn cell(engine: &str, threads: &str, round: u32, tps: f64) -> Cell {
        let id = CellId::new([("engine", engine.to_string()), ("threads", threads.to_string())], round);
        let mut cell = Cell::new(id, 1);
        cell.figure("tps_per_s", tps);
        cell
    }

    #[test]
    fn rounds_become_middles_and_ratios_within_rounds() {
        let cells = [
            cell("B", "8", 1, 100.0),
            cell("A", "8", 2, 240.0),
            cell("A", "8", 1, 120.0),
            cell("B", "8", 2, 200.0),
            cell("A", "8", 3, 125.0),
            cell("B", "8", 3, 100.0),
        ];
        let summary = Summary::of(&run(), &cells);
        assert_eq!((summary.rounds, summary.groups.len(), summary.reference), (3, 2, Some(1)));
        let a = summary.group(&[("threads", "8"), ("engine", "A")]).unwrap();
        assert!(summary.group(&[("threads", "9"), ("engine", "A")]).is_none());
        assert_eq!((summary.words(a), &a.cells[..]), (vec!["A", "8"], &[2, 1, 4][..]));
        let spread = a.figures[0].unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (125.0, 120.0, 240.0));
        let ratio = a.ratios[0].unwrap();
        assert_eq!((ratio.median, ratio.verdict), (1.2, Verdict::Higher));
        assert_eq!(a.figures[1], None, "no cell has it");
        assert_eq!(summary.groups[1].ratios[0], None, "the reference has no ratio to itself");
    }

    #[test]
    fn what_failed_has_reasons_and_no_figures() {
        let mut cells = vec![
            cell("A", "8", 1, 1.0),
            cell("A", "8", 2, 2.0),
            cell("B", "8", 1, 1.0),
            cell("B", "8", 2, 1.0),
        ];
        cells[1].failures.push("a row is missing".into());
        let summary = Summary::of(&run(), &cells);
        let a = &summary.groups[0];
        assert_eq!((a.rounds, a.figures[0], a.ratios[0]), (1, None, None));
        assert_eq!(a.failures, ["round 2: a row is missing"]);
        assert_eq!(summary.groups[1].figures[0].unwrap().median, 1.0);
        // The reference failed: the other has figures, and nothing to be held against.
        cells[1].failures.clear();
        cells[2].figures.clear();
        let summary = Summary::of(&run(), &cells);
        assert_eq!(summary.groups[1].failures, ["round 1: there are no figures"]);
        assert!(summary.groups[0].figures[0].is_some() && summary.groups[0].ratios[0].is_none());
    }

    #[test]
    fn values_that_only_cells_have_come_after_the_run_s() {
        let cells = [cell("C", "16", 1, 1.0), cell("A", "2", 1, 1.0), cell("A", "8", 1, 1.0)];
        let summary = Summary::of(&run(), &cells);
        assert_eq!(summary.axes[0].values, ["A", "B", "C"]);
        assert_eq!(summary.axes[1].values, ["8", "2", "16"]);
        let words: Vec<Vec<&str>> = summary.groups.iter().map(|g| summary.words(g)).collect();
        assert_eq!(words, [["A", "8"], ["A", "2"], ["C", "16"]]);
    }

    #[test]
    fn histograms_add_up_and_their_curve_ends_with_the_greatest() {
        let all = merged([&vec![(1.0, 500), (2.0, 300)], &vec![(1.0, 100), (8.0, 100)]]);
        assert_eq!(all, [(1.0, 600), (2.0, 300), (8.0, 100)]);
        let curve = percentile_curve(&all);
        // k = 4: 50 %; k = 8: 75 %; k = 14: 91.2 %, which is beyond the 90 % that stay within 2.
        assert_eq!((curve[4], curve[8], curve[13], curve[14]), (1.0, 2.0, 2.0, 8.0));
        assert_eq!(*curve.last().unwrap(), 8.0);
        assert_eq!(curve.len(), 41, "k = 0 to 39 leave out at least one of 1000");
        assert!(percentile_curve(&Vec::new()).is_empty());
    }
}
