//! Curves of a kept run as SVG files: how a figure changes with a number, as rows, clients or minutes.
//!
//! A chart has a field for each combination of the other labels, and in it a line for each competitor, through
//! its medians. Each field has scales of its own: the figure's from 0 up, the number's by powers where its
//! values lie far apart.

use std::fmt::Write as _;

use tidelab_server::error::{Error, Result};

use super::groups::{Group, Summary};
use super::page::Kept;
use super::quantity::quantity;
use super::svg::{
    foot, footing, framed, heading, lines_of, metric, text, Chart, COLOURS, EDGE, FOOT_LETTERS, FOOT_ROW,
    WIDTH,
};
use crate::run::Role;

/// Values of the number from which on a curve says more than bars.
const LEAST: usize = 4;
/// Fields of a chart at most.
const FIELDS: usize = 8;
/// The plot within a field.
const LEFT: f64 = 96.0;
const RIGHT: f64 = WIDTH - 150.0;
const HIGH: f64 = 130.0;
/// A field with its title and the numbers below.
const FIELD: f64 = HIGH + 62.0;
/// The largest number is so many times the least: the scale is one of powers.
const FAR_APART: f64 = 16.0;

/// A line: the competitor's place, and its points.
type Line = (usize, Vec<(f64, f64)>);

/// A field: its title, and its lines.
struct Field {
    title: String,
    lines: Vec<Line>,
}

/// True if a run has a number with enough values for curves.
pub fn applies(kept: &Kept) -> bool {
    let Some(number) = kept.run.axes.iter().find(|axis| axis.role == Role::Number) else { return false };
    let mut values: Vec<&str> = kept.cells.iter().map(|cell| cell.id.label(&number.name)).collect();
    values.sort_unstable();
    values.dedup();
    values.len() >= LEAST
}

/// Curves of a run. Errors: no such figure, nothing or too much to be drawn.
pub fn draw(kept: &Kept, chart: &Chart) -> Result<String> {
    let run = &kept.run;
    let summary = Summary::of(run, &kept.cells);
    let at = metric(kept, &chart.metric)?;
    chart.check(run, &summary)?;
    let fields = fields(&summary, at, chart);
    if fields.is_empty() {
        return Err(Error::Usage(format!("{} has no figure {} to draw", run.name, run.metrics[at].name)));
    }
    if fields.len() > FIELDS {
        return Err(Error::Usage(format!(
            "{} has {} combinations, a chart of curves holds {FIELDS}: --only AXIS=VALUE picks some",
            run.name,
            fields.len()
        )));
    }
    let metric = &run.metrics[at];
    let foot = lines_of(&foot(kept, &summary), FOOT_LETTERS);
    let height = 70.0 + fields.len() as f64 * FIELD + foot.len() as f64 * FOOT_ROW + 24.0;
    let mut body = style();
    let mut y = heading(&mut body, run, metric);
    for field in &fields {
        plot(&mut body, &summary, field, &metric.unit, y);
        y += FIELD;
    }
    footing(&mut body, &foot, y + 22.0);
    Ok(framed(height, &format!("{}: {}", run.title, metric.title), &body))
}

/// The colours of lines, on a light and on a dark surface.
fn style() -> String {
    let of = |pick: fn(&(&'static str, &'static str)) -> &'static str| -> String {
        COLOURS.iter().enumerate().map(|(n, pair)| format!(".l{n}{{stroke:{}}}", pick(pair))).collect()
    };
    format!(
        "<style>.curve{{fill:none;stroke-width:2}}.grid{{stroke:#d8dee4}}.tick{{font-size:11px}}{}\
         @media (prefers-color-scheme:dark){{.grid{{stroke:#303a44}}{}}}</style>\n",
        of(|pair| pair.0),
        of(|pair| pair.1)
    )
}

fn fields(summary: &Summary, at: usize, chart: &Chart) -> Vec<Field> {
    let Some(number) = summary.axes.iter().position(|axis| axis.role == Role::Number) else {
        return Vec::new();
    };
    let mut fields: Vec<(Vec<usize>, Field)> = Vec::new();
    for group in &summary.groups {
        let words = summary.words(group);
        let Some(point) = point(summary, group, number, at).filter(|_| chart.takes(summary, group)) else {
            continue;
        };
        let is_other = |axis: &usize| *axis != number && Some(*axis) != summary.competitor;
        let others: Vec<usize> = (0..summary.axes.len()).filter(is_other).collect();
        let key: Vec<usize> = others.iter().map(|axis| group.labels[*axis]).collect();
        let place = summary.competitor.map_or(0, |axis| group.labels[axis]);
        let field = match fields.iter().position(|(known, _)| *known == key) {
            Some(known) => known,
            None => {
                let title: Vec<&str> = others.iter().map(|axis| words[*axis]).collect();
                fields.push((key, Field { title: title.join(", "), lines: Vec::new() }));
                fields.len() - 1
            }
        };
        let lines = &mut fields[field].1.lines;
        match lines.iter_mut().find(|(known, _)| *known == place) {
            Some((_, points)) => points.push(point),
            None => lines.push((place, vec![point])),
        }
    }
    for (_, points) in fields.iter_mut().flat_map(|(_, field)| &mut field.lines) {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields.into_iter().map(|(_, field)| field).collect()
}

fn point(summary: &Summary, group: &Group, number: usize, at: usize) -> Option<(f64, f64)> {
    let x = summary.axes[number].values[group.labels[number]].parse().ok()?;
    Some((x, group.figures[at]?.median))
}

/// A scale from values to places.
struct Scale {
    from: f64,
    to: f64,
    is_of_powers: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let from = values.clone().fold(f64::INFINITY, f64::min);
        let to = values.fold(f64::NEG_INFINITY, f64::max);
        Scale { from, to, is_of_powers: from > 0.0 && to / from >= FAR_APART }
    }

    /// From 0 for the first value to 1 for the last.
    fn share(&self, value: f64) -> f64 {
        let of = |v: f64| if self.is_of_powers { v.ln() } else { v };
        let span = of(self.to) - of(self.from);
        if span > 0.0 {
            (of(value) - of(self.from)) / span
        } else {
            0.0
        }
    }
}

fn plot(body: &mut String, summary: &Summary, field: &Field, unit: &str, top: f64) {
    let all = || field.lines.iter().flat_map(|(_, points)| points.iter());
    let scale = Scale::of(all().map(|point| point.0).collect::<Vec<_>>().into_iter());
    let greatest = all().map(|point| point.1).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let (upper, lower) = (top + 34.0, top + 34.0 + HIGH);
    let x = |value: f64| LEFT + scale.share(value) * (RIGHT - LEFT);
    let y = |value: f64| lower - value.max(0.0) / greatest * HIGH;
    text(body, EDGE, top + 20.0, "block", "start", &field.title);
    for share in [0.0, 0.5, 1.0] {
        let level = y(share * greatest);
        let _ = writeln!(body, "<path class=\"grid\" d=\"M{LEFT} {level:.1}H{RIGHT}\"/>");
        text(body, LEFT - 8.0, level + 4.0, "tick soft", "end", &quantity(share * greatest, unit));
    }
    for value in numbers(field) {
        text(body, x(value), lower + 16.0, "tick soft", "middle", &format!("{value}"));
    }
    let mut ends: Vec<f64> = Vec::new();
    for (place, points) in &field.lines {
        let colour = place % COLOURS.len();
        let at = |(n, (a, b)): (usize, &(f64, f64))| {
            format!("{}{:.1} {:.1}", if n == 0 { "M" } else { "L" }, x(*a), y(*b))
        };
        let path: String = points.iter().enumerate().map(at).collect();
        let _ = writeln!(body, "<path class=\"curve l{colour}\" d=\"{path}\"/>");
        for (a, b) in points {
            let _ = writeln!(
                body,
                "<circle class=\"c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                x(*a),
                y(*b)
            );
        }
        let Some((last, value)) = points.last() else { continue };
        let name = summary.competitor.map_or("", |axis| summary.axes[axis].values[*place].as_str());
        let mut end = y(*value) + 4.0;
        // Names of lines that end together stand one below the other.
        while let Some(near) = ends.iter().find(|other| (**other - end).abs() < 13.0) {
            end = near + 13.5;
        }
        ends.push(end.min(upper + HIGH + 12.0));
        text(
            body,
            x(*last) + 9.0,
            end,
            &format!("tick c{colour}"),
            "start",
            &format!("{name} {}", quantity(*value, unit)),
        );
    }
}

/// The numbers to name below a field: all that have room.
fn numbers(field: &Field) -> Vec<f64> {
    let mut all: Vec<f64> =
        field.lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.0)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let every = all.len().div_ceil(12).max(1);
    let last = all.len().saturating_sub(1);
    all.iter()
        .enumerate()
        .filter(|(n, _)| n % every == every - 1 || *n == 0 || *n == last)
        .map(|(_, v)| *v)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::groups::tests::{cell, run};
    use super::*;

    fn kept(threads: &[&str]) -> Kept {
        let mut cells = Vec::new();
        for (n, count) in threads.iter().enumerate() {
            cells.push(cell("A", count, 1, 100.0 + n as f64 * 100.0));
            cells.push(cell("B", count, 1, 50.0));
        }
        let mut run = run();
        run.axes[1].role = Role::Number;
        Kept { folder: PathBuf::new(), run, cells }
    }

    fn drawn(kept: &Kept, metric: &str) -> Result<String> {
        draw(kept, &Chart { metric: metric.to_string(), only: Vec::new() })
    }

    #[test]
    fn a_line_for_each_competitor_through_all_numbers() {
        let kept = kept(&["1", "8", "64", "512"]);
        assert!(applies(&kept));
        let svg = drawn(&kept, "throughput").unwrap();
        assert_eq!((svg.matches("class=\"curve l").count(), svg.matches("<circle").count()), (2, 8), "{svg}");
        // 1 to 512 is a scale of powers: equal factors are equal distances.
        let step = (RIGHT - LEFT) / 3.0;
        for n in 0..4 {
            assert!(svg.contains(&format!("cx=\"{:.1}\"", LEFT + step * f64::from(n))), "{n}: {svg}");
        }
        for part in [">A 400 1/s<", ">B 50 1/s<", ">512<", "more is better"] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
        assert_eq!(svg, drawn(&kept, "throughput").unwrap(), "the same bytes each time");
    }

    #[test]
    fn few_numbers_are_bars_and_near_ones_an_even_scale() {
        assert!(!applies(&kept(&["1", "8", "64"])));
        let svg = drawn(&kept(&["1", "2", "3", "4", "5"]), "throughput").unwrap();
        assert!(svg.contains(&format!("cx=\"{:.1}\"", LEFT + (RIGHT - LEFT) / 4.0)), "{svg}");
    }

    #[test]
    fn a_failed_number_is_a_gap_and_an_unknown_figure_is_refused() {
        let mut kept = kept(&["1", "8", "64", "512"]);
        kept.cells[2].failures.push("killed".to_string());
        let svg = drawn(&kept, "throughput").unwrap();
        assert_eq!(svg.matches("<circle").count(), 7, "{svg}");
        assert!(drawn(&kept, "nopm").unwrap_err().to_string().contains("tps_per_s"));
    }
}
