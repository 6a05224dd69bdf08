//! The live view of a run, for every conductor: how far it is, how long the rest takes, and for each
//! competitor the last figure with a sparkline. On a terminal a picture at its lower end; elsewhere a
//! line when a cell begins or ends. All of it goes to stderr.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::progress::{minutes, red, say};
use crate::run::Cell;

/// Seconds that a sparkline shows.
const SPARK: usize = 40;
/// How often the picture is drawn anew while nothing happens.
const TICK: Duration = Duration::from_millis(500);
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A competitor in the picture.
#[derive(Debug)]
struct Competitor {
    name: String,
    /// The last [`SPARK`] figures.
    last: VecDeque<f64>,
    cells: usize,
    failed: usize,
}

/// A run that is watched.
pub struct Live {
    bar: ProgressBar,
    /// What a figure is, as `transactions/s`.
    unit: String,
    cells: usize,
    over: usize,
    competitors: Vec<Competitor>,
    /// What is being measured, since when; none between cells.
    now: Option<(String, Instant)>,
    /// Time of the cells that are over.
    took: Duration,
}

impl Live {
    /// For a run of `cells` measurements that are still to be made; `unit` says what
    /// [`second`](Self::second) is given, as `transactions/s`.
    pub fn new(cells: usize, unit: &str) -> Live {
        let bar = ProgressBar::with_draw_target(Some(cells as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Live {
            bar,
            unit: unit.to_string(),
            cells,
            over: 0,
            competitors: Vec::new(),
            now: None,
            took: Duration::ZERO,
        }
    }

    /// Takes the picture away until the next cell begins, so that others can write to stderr, as
    /// [`conduct`](crate::run::conduct) does between groups.
    pub fn rest(&self) {
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }

    /// A cell begins; `title` says which, as `read_write on TidesDB, 8 threads, round 2`.
    pub fn cell_begins(&mut self, competitor: &str, title: &str) {
        self.competitor(competitor).last.clear();
        self.now = Some((title.to_string(), Instant::now()));
        if self.bar.is_finished() {
            self.bar.reset();
            self.bar.set_position(self.over as u64);
            self.bar.enable_steady_tick(TICK);
        }
        if self.bar.is_hidden() {
            say(&self.bar, &format!("[{}/{}] {title}", self.over + 1, self.cells));
        }
        self.show();
    }

    /// A competitor's figure of one second. One that is not finite is no figure.
    pub fn second(&mut self, competitor: &str, value: f64) {
        if !value.is_finite() {
            return;
        }
        let last = &mut self.competitor(competitor).last;
        if last.len() == SPARK {
            last.pop_front();
        }
        last.push_back(value);
        self.show();
    }

    /// The cell that began last ends. The line that stays has `figure`, as `1234 transactions/s`, or
    /// why the cell failed.
    pub fn cell_ends(&mut self, competitor: &str, cell: &Cell, figure: &str) {
        let counts = cell.counts();
        let known = self.competitor(competitor);
        known.cells += 1;
        known.failed += usize::from(!counts);
        self.over += 1;
        let title = match self.now.take() {
            Some((title, begun)) => {
                self.took += begun.elapsed();
                title
            }
            None => competitor.to_string(),
        };
        let head = format!("[{}/{}] {title}", self.over, self.cells);
        if counts {
            say(&self.bar, &format!("{head}: {figure}"));
        } else {
            say(&self.bar, &red(&format!("{head}: FAILED: {}", cell.failures.join("; "))));
        }
        self.bar.set_position(self.over as u64);
        self.show();
    }

    /// A line that stays.
    pub fn line(&self, text: &str) {
        say(&self.bar, text);
    }

    /// Takes the picture away.
    pub fn close(&self) {
        self.bar.finish_and_clear();
    }

    fn competitor(&mut self, name: &str) -> &mut Competitor {
        let at = self.competitors.iter().position(|known| known.name == name).unwrap_or_else(|| {
            let name = name.to_string();
            self.competitors.push(Competitor { name, last: VecDeque::new(), cells: 0, failed: 0 });
            self.competitors.len() - 1
        });
        &mut self.competitors[at]
    }

    fn show(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_message(self.picture());
        }
    }

    /// What is shown beside the bar and below it.
    fn picture(&self) -> String {
        let mut picture = match self.left() {
            Some(left) => format!("{} left", minutes(left.as_secs_f64())),
            None => "no estimate yet".to_string(),
        };
        if let Some((title, begun)) = &self.now {
            let _ = write!(picture, ", {title}, {} s", begun.elapsed().as_secs());
        }
        let width = self.competitors.iter().map(|known| known.name.chars().count()).max().unwrap_or(0);
        for known in &self.competitors {
            let values: Vec<f64> = known.last.iter().copied().collect();
            let last = values.last().map_or("-".to_string(), |value| format!("{value:.0} {}", self.unit));
            let _ = write!(picture, "\n  {:<width$} {:<SPARK$} {last}", known.name, sparkline(&values));
            if known.failed > 0 {
                let _ = write!(picture, ", {} of {} FAILED", known.failed, known.cells);
            }
        }
        picture
    }

    /// How long the cells that are not over take, if they take as long as those that are.
    fn left(&self) -> Option<Duration> {
        let over = u32::try_from(self.over).ok().filter(|over| *over > 0)?;
        let each = self.took / over;
        let open = u32::try_from(self.cells.saturating_sub(self.over)).unwrap_or(u32::MAX);
        let begun = self.now.as_ref().map_or(Duration::ZERO, |(_, begun)| begun.elapsed().min(each));
        Some(each.saturating_mul(open).saturating_sub(begun))
    }
}

/// Figures as bars from zero to the greatest of them.
fn sparkline(values: &[f64]) -> String {
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        let share = if greatest > 0.0 { (value / greatest).max(0.0) } else { 0.0 };
        BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CellId;

    fn cell(failure: Option<&str>) -> Cell {
        let mut cell = Cell::new(CellId::new([("engine", "A".to_string())], 1), 1);
        cell.figure("tps_per_s", 5.0);
        cell.failures.extend(failure.map(String::from));
        cell
    }

    #[test]
    fn bars_stand_on_zero() {
        assert_eq!(sparkline(&[0.0, 50.0, 100.0, 12.5, 13.0]), "▁▄█▁▂");
        assert_eq!((sparkline(&[]), sparkline(&[0.0, 0.0])), (String::new(), "▁▁".to_string()));
    }

    #[test]
    fn the_picture_has_a_line_for_each_competitor() {
        let mut live = Live::new(4, "rows/s");
        live.cell_begins("A", "insert on A");
        live.second("A", 100.0);
        live.second("A", f64::NAN);
        live.second("A", 200.0);
        let picture = live.picture();
        assert!(picture.starts_with("no estimate yet, insert on A, 0 s\n  A ▄█ "), "{picture}");
        assert!(picture.ends_with("200 rows/s"), "{picture}");
        live.cell_ends("A", &cell(None), "150 rows/s");
        live.rest();
        live.cell_begins("Bcd", "insert on Bcd");
        live.cell_ends("Bcd", &cell(Some("lost")), "");
        let lines: Vec<String> = live.picture().lines().map(String::from).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].ends_with(" left") && lines[1].starts_with("  A   ▄█"), "{lines:?}");
        assert!(lines[2].ends_with("-, 1 of 1 FAILED"), "{lines:?}");
    }

    #[test]
    fn the_rest_is_estimated_from_what_is_over() {
        let mut live = Live::new(10, "rows/s");
        (live.over, live.took) = (4, Duration::from_secs(40));
        assert_eq!(live.left(), Some(Duration::from_secs(60)));
        live.now = Some(("x".into(), Instant::now()));
        assert!(live.left().unwrap() <= Duration::from_secs(60));
    }

    #[test]
    fn a_sparkline_keeps_the_last_seconds() {
        let mut live = Live::new(1, "rows/s");
        (0..100).for_each(|second| live.second("A", f64::from(second)));
        assert_eq!((live.competitors[0].last.len(), live.competitors[0].last[0]), (SPARK, 60.0));
    }
}
