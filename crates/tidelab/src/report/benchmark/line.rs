//! The rounds of one engine under one workload: one line of a benchmark.

use tidelab_server::statistics::{Ratio, Spread};

use crate::report::groups::{Group, Summary};
use crate::run::{Axis, Cell, Measured, Metric, Role, Run};

/// One line. An unmeasured combination has a line too.
pub struct Line<'a> {
    /// The axes and the values of this line, in the run's order.
    pub labels: Vec<(&'a Axis, &'a str)>,
    /// Counted rounds.
    pub rounds: usize,
    /// The reasons why other rounds do not count. A line with any has no figures.
    pub failures: &'a [String],
    group: Option<&'a Group>,
    metrics: &'a [Metric],
    /// The counted cells.
    cells: Vec<&'a Cell>,
}

impl<'a> Line<'a> {
    /// The lines of a run's measurements: by workload, then by engine, each in the order of its axis.
    pub(super) fn of(run: &'a Run, measured: &'a [Measured], summary: &'a Summary) -> Vec<Line<'a>> {
        let axes = &summary.axes;
        // The competitor's axis runs fastest.
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|at| axes[*at].role == Role::Competitor);
        let mut places: Vec<Vec<usize>> = vec![vec![0; axes.len()]];
        for at in order {
            let values = 0..axes[at].values.len();
            places = places
                .iter()
                .flat_map(|place| {
                    values.clone().map(move |value| {
                        let mut place = place.clone();
                        place[at] = value;
                        place
                    })
                })
                .collect();
        }
        places.iter().map(|place| Line::at(run, measured, summary, place)).collect()
    }

    fn at(run: &'a Run, measured: &'a [Measured], summary: &'a Summary, place: &[usize]) -> Line<'a> {
        let group = summary.groups.iter().find(|group| group.labels == place);
        let cells = group.map_or(&[][..], |group| group.cells.as_slice());
        Line {
            labels: summary
                .axes
                .iter()
                .zip(place)
                .map(|(axis, value)| (axis, axis.values[*value].as_str()))
                .collect(),
            rounds: group.map_or(0, |group| group.rounds),
            failures: group.map_or(&[], |group| group.failures.as_slice()),
            group,
            metrics: &run.metrics,
            cells: cells.iter().map(|at| &measured[*at].cell).filter(|cell| cell.counts()).collect(),
        }
    }

    /// The value of an axis; empty without such an axis.
    pub fn label(&self, axis: &str) -> &'a str {
        self.labels.iter().find(|(known, _)| known.name == axis).map_or("", |(_, value)| value)
    }

    /// The engine.
    pub fn engine(&self) -> &'a str {
        self.labels.iter().find(|(axis, _)| axis.role == Role::Competitor).map_or("", |(_, value)| value)
    }

    /// The labels but for the engine.
    pub fn workload(&self) -> Vec<&'a str> {
        let others = self.labels.iter().filter(|(axis, _)| axis.role != Role::Competitor);
        others.map(|(_, value)| *value).collect()
    }

    /// All labels in words: the engine, after the workload where there is one.
    pub fn words(&self) -> String {
        self.workload().into_iter().chain([self.engine()]).collect::<Vec<_>>().join(" on ")
    }

    /// True if figures may be shown.
    pub fn is_sound(&self) -> bool {
        self.failures.is_empty() && self.rounds > 0
    }

    fn place(&self, metric: &str) -> Option<usize> {
        self.metrics.iter().position(|known| known.name == metric)
    }

    /// The rounds' spread of a figure; none on a failed line.
    pub fn spread(&self, metric: &str) -> Option<Spread> {
        self.group?.figures[self.place(metric)?]
    }

    /// The median of a figure; 0 on a failed line.
    pub fn middle(&self, metric: &str) -> f64 {
        self.spread(metric).map_or(0.0, |spread| spread.median)
    }

    /// The ratio of a figure to the reference; none for the reference itself.
    pub fn ratio(&self, metric: &str) -> Option<Ratio> {
        self.group?.ratios[self.place(metric)?]
    }

    /// The ratio of the run's first metric.
    pub fn main_ratio(&self) -> Option<Ratio> {
        self.ratio(&self.metrics.first()?.name)
    }

    fn all<'s>(&'s self, figure: &'s str) -> impl Iterator<Item = f64> + 's {
        self.cells.iter().filter_map(move |cell| cell.figures.get(figure).copied())
    }

    /// The sum over the counted rounds.
    pub fn sum(&self, figure: &str) -> f64 {
        self.all(figure).sum()
    }

    /// The greatest of the counted rounds; 0 without any.
    pub fn greatest(&self, figure: &str) -> f64 {
        self.all(figure).fold(0.0, f64::max)
    }

    /// The sum of all figures with this beginning of the name, over the counted rounds.
    pub fn sum_of_all(&self, start: &str) -> f64 {
        let of = |cell: &&Cell| -> f64 {
            cell.figures.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, value)| value).sum()
        };
        self.cells.iter().map(of).sum()
    }
}
