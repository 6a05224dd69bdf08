//! The last seconds of each competitor as small bars, below the line of the current measurement. On a
//! terminal a reader sees faster and stalled competitors at once.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// Seconds shown.
const SECONDS: usize = 40;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The competitors of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sparks {
    /// By name, in the order of their first measurement, with their last figures.
    competitors: Vec<(String, VecDeque<f64>)>,
}

impl Sparks {
    /// A competitor is measured anew: its old figures are gone.
    pub fn begins(&mut self, competitor: &str) {
        self.last(competitor).clear();
    }

    /// Its figure of one second. A non-finite number is no figure.
    pub fn second(&mut self, competitor: &str, value: f64) {
        if !value.is_finite() {
            return;
        }
        let last = self.last(competitor);
        if last.len() == SECONDS {
            last.pop_front();
        }
        last.push_back(value);
    }

    fn last(&mut self, competitor: &str) -> &mut VecDeque<f64> {
        let at = self.competitors.iter().position(|(name, _)| name == competitor).unwrap_or_else(|| {
            self.competitors.push((competitor.to_string(), VecDeque::new()));
            self.competitors.len() - 1
        });
        &mut self.competitors[at].1
    }

    /// A line for each competitor, to stand below others: it begins with a line's end, or is empty. All bars
    /// have one scale, from zero to the greatest figure shown; `unit` is the figures'.
    pub fn picture(&self, unit: &str) -> String {
        let greatest = self.competitors.iter().flat_map(|(_, last)| last).copied().fold(0.0, f64::max);
        let width = self.competitors.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut picture = String::new();
        for (name, last) in &self.competitors {
            let bars: String = last.iter().map(|value| bar(*value, greatest)).collect();
            let now = last.back().map_or("-".to_string(), |value| format!("{value:.0} {unit}"));
            let _ = write!(picture, "\n  {name:<width$} {bars:<SECONDS$} {now}");
        }
        picture
    }
}

/// A figure as a bar from zero.
fn bar(value: f64, greatest: f64) -> char {
    let share = if greatest > 0.0 { (value / greatest).max(0.0) } else { 0.0 };
    BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_on_zero_and_have_one_scale() {
        let mut sparks = Sparks::default();
        assert_eq!(sparks.picture("rows/s"), "");
        for value in [0.0, 50.0, 100.0, 12.5, 13.0, f64::NAN] {
            sparks.second("A", value);
        }
        sparks.second("Bcd", 200.0);
        let picture = sparks.picture("rows/s");
        let lines: Vec<&str> = picture.lines().collect();
        assert!(lines[0].is_empty() && lines[1].starts_with("  A   ▁▂▄▁▁ "), "{picture}");
        assert!(lines[1].ends_with(" 13 rows/s") && lines[2].starts_with("  Bcd █ "), "{picture}");
        sparks.begins("A");
        assert!(sparks.picture("rows/s").lines().nth(1).is_some_and(|line| line.ends_with(" -")));
    }

    #[test]
    fn the_last_seconds_are_kept() {
        let mut sparks = Sparks::default();
        (0..100).for_each(|second| sparks.second("A", f64::from(second)));
        assert_eq!((sparks.competitors[0].1.len(), sparks.competitors[0].1[0]), (SECONDS, 60.0));
    }
}
