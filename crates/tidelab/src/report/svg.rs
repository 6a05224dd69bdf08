//! Charts of a kept run as SVG files, for README and documents. The same data give the same bytes.
//!
//! A file needs no other file. It has a surface of its own, so it can be read on a light and on a dark page,
//! and follows a viewer's wish for dark colours.
//!
//! A chart has a block for each combination of labels, and in it a bar for each competitor. The bar's
//! length is the median; the line across its end goes from the least to the greatest round. Each block
//! has its own scale, from 0 to the greatest round of the block, so bars are compared within a block.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;
use tidelab_server::error::{Error, Result};

use super::conditions;
use super::groups::{Group, Summary};
use super::html;
use super::page::Kept;
use super::quantity::quantity;
use super::run_table::{ratio_text, title};
use crate::run::{Better, Metric, Run};

/// Colours of competitors, in the order of their axis; the first eight can be told apart with any kind
/// of colour vision. Each also on a dark surface.
pub(super) const COLOURS: [(&str, &str); 8] = [
    ("#0b6fb8", "#58a9ee"),
    ("#d9730d", "#f09a4a"),
    ("#0f8a5f", "#3fc795"),
    ("#b0488f", "#e08cc6"),
    ("#7a5c00", "#d3b544"),
    ("#5b53c9", "#a29bf5"),
    ("#c0392b", "#f28374"),
    ("#4a7d8c", "#7fbccd"),
];
pub(super) const WIDTH: f64 = 860.0;
pub(super) const EDGE: f64 = 16.0;
/// The start of bars, and their length at most.
const BARS_AT: f64 = 150.0;
const LONGEST: f64 = 330.0;
const ROW: f64 = 22.0;
/// A line of the conditions below the bars, and how many letters fit into it.
pub(super) const FOOT_ROW: f64 = 15.0;
pub(super) const FOOT_LETTERS: usize = 140;
/// Letters of a note there.
const NOTE_LETTERS: usize = 160;
/// Letters of a reason in the place of a bar.
const REASON: usize = 90;
/// Combinations of a chart at most: a chart of more is unreadable.
const BLOCKS: usize = 24;

/// The choice of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// `throughput`, `p99`, or the name of a metric.
    pub metric: String,
    /// Required values of combinations, by axis.
    pub only: Vec<(String, String)>,
}

impl Chart {
    /// Errors: no combination has a required value.
    pub(super) fn check(&self, run: &Run, summary: &Summary) -> Result<()> {
        for (axis, value) in &self.only {
            let known = summary.axes.iter().find(|a| a.name == *axis);
            if !known.is_some_and(|a| a.values.contains(value)) {
                return Err(Error::Usage(format!("{} has no combination with {axis}={value}", run.name)));
            }
        }
        Ok(())
    }

    /// True of a combination with all required values.
    pub(super) fn takes(&self, summary: &Summary, group: &Group) -> bool {
        let words = summary.words(group);
        self.only.iter().all(|(axis, value)| {
            summary.axes.iter().zip(&words).any(|(a, word)| a.name == *axis && word == value)
        })
    }
}

/// The place of the metric named for a chart. `throughput` is the first main one with more as better. `p99`
/// is the first main one with the ending `p99_ms`, else any such one. Errors name the metrics of the run.
pub(super) fn metric(kept: &Kept, name: &str) -> Result<usize> {
    let metrics = &kept.run.metrics;
    let found = match name {
        "throughput" => metrics
            .iter()
            .position(|m| m.main && m.better == Better::Higher)
            .or_else(|| metrics.iter().position(|m| m.better == Better::Higher)),
        "p99" => {
            let is = |name: &str| name.ends_with("p99_ms") || name.ends_with("p99_us");
            metrics
                .iter()
                .position(|m| m.main && is(&m.name))
                .or_else(|| metrics.iter().position(|m| is(&m.name)))
        }
        name => metrics.iter().position(|m| m.name == name),
    };
    found.ok_or_else(|| {
        let all: Vec<&str> = metrics.iter().map(|m| m.name.as_str()).collect();
        Error::Usage(format!("{} has no figure '{name}': throughput, p99, {}", kept.run.name, all.join(", ")))
    })
}

/// A chart of a run. Errors: no such figure, nothing or too much to be drawn.
pub fn draw(kept: &Kept, chart: &Chart) -> Result<String> {
    let run = &kept.run;
    let summary = Summary::of(run, &kept.cells);
    let at = metric(kept, &chart.metric)?;
    chart.check(run, &summary)?;
    let blocks = blocks(&summary, at, chart);
    if blocks.is_empty() {
        return Err(Error::Usage(format!("{} has no figure {} to draw", run.name, run.metrics[at].name)));
    }
    if blocks.len() > BLOCKS {
        return Err(Error::Usage(format!(
            "{} has {} combinations, a chart holds {BLOCKS}: --only AXIS=VALUE picks some",
            run.name,
            blocks.len()
        )));
    }
    Ok(picture(kept, &summary, at, &blocks))
}

/// Groups of combinations differing in the competitor alone, in their order.
fn blocks<'a>(summary: &'a Summary, at: usize, chart: &Chart) -> Vec<(String, Vec<&'a Group>)> {
    let mut blocks: Vec<(String, Vec<&Group>)> = Vec::new();
    for group in &summary.groups {
        let has = group.figures[at].is_some() || !group.failures.is_empty();
        if !chart.takes(summary, group) || !has {
            continue;
        }
        let title = title(summary, group);
        match blocks.iter_mut().find(|(known, _)| *known == title) {
            Some((_, groups)) => groups.push(group),
            None => blocks.push((title, vec![group])),
        }
    }
    // A combination of which nothing is known is none.
    blocks.retain(|(_, groups)| groups.iter().any(|g| g.figures[at].is_some()));
    let place = |groups: &[&Group]| -> Vec<usize> {
        let of = groups[0].labels.iter().enumerate();
        of.filter(|(axis, _)| Some(*axis) != summary.competitor).map(|(_, at)| *at).collect()
    };
    blocks.sort_by_key(|(_, groups)| place(groups));
    blocks
}

fn picture(kept: &Kept, summary: &Summary, at: usize, blocks: &[(String, Vec<&Group>)]) -> String {
    let run = &kept.run;
    let metric = &run.metrics[at];
    let titled = blocks.len() > 1 || !blocks[0].0.is_empty();
    let rows: usize = blocks.iter().map(|(_, groups)| groups.len()).sum();
    let foot = lines_of(&foot(kept, summary), FOOT_LETTERS);
    let height = 84.0
        + rows as f64 * ROW
        + blocks.len() as f64 * if titled { 32.0 } else { 10.0 }
        + 19.0
        + foot.len() as f64 * FOOT_ROW;
    let mut body = String::new();
    let mut y = heading(&mut body, run, metric);
    for (name, groups) in blocks {
        if titled {
            y += 24.0;
            text(&mut body, EDGE, y, "block", "start", name);
            y += 8.0;
        } else {
            y += 10.0;
        }
        let greatest = groups
            .iter()
            .filter_map(|g| g.figures[at])
            .map(|s| s.max)
            .fold(0.0, f64::max)
            .max(f64::MIN_POSITIVE);
        for group in groups {
            row(&mut body, summary, group, at, &metric.unit, greatest, y);
            y += ROW;
        }
    }
    footing(&mut body, &foot, y + 24.0);
    framed(height, &format!("{}: {}", run.title, metric.title), &body)
}

/// The title and what is drawn; returns the height so far.
pub(super) fn heading(body: &mut String, run: &Run, metric: &Metric) -> f64 {
    let better = match metric.better {
        Better::Higher => ", more is better",
        Better::Lower => ", less is better",
        Better::Neither => "",
    };
    let unit = match metric.unit.as_str() {
        "" | "B" => String::new(),
        unit => format!(", {unit}"),
    };
    text(body, EDGE, EDGE + 18.0, "title", "start", &run.title);
    text(body, EDGE, EDGE + 38.0, "soft", "start", &format!("{}{unit}{better}", metric.title));
    EDGE + 48.0
}

/// The lines of the conditions from a height on.
pub(super) fn footing(body: &mut String, lines: &[String], mut y: f64) {
    for line in lines {
        text(body, EDGE, y, "foot", "start", line);
        y += FOOT_ROW;
    }
}

/// A whole picture of this height.
pub(super) fn framed(height: f64, label: &str, body: &str) -> String {
    let mut colours = String::new();
    let mut dark = String::new();
    for (n, (light, of_dark)) in COLOURS.iter().enumerate() {
        let _ = write!(colours, ".c{n}{{fill:{light}}}");
        let _ = write!(dark, ".c{n}{{fill:{of_dark}}}");
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{label}\">\n\
         <style>text{{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#16202a}}\
         .title{{font-size:16px;font-weight:600}}.block{{font-weight:600}}.soft,.foot{{fill:#566370}}\
         .foot{{font-size:11px}}.surface{{fill:#fff;stroke:#d8dee4}}.line{{stroke:#16202a;stroke-width:1.5}}\
         .bad{{fill:#c01c28}}{colours}\
         @media (prefers-color-scheme:dark){{text{{fill:#e4e9ee}}.soft,.foot{{fill:#9aa7b3}}\
         .surface{{fill:#12171c;stroke:#303a44}}.line{{stroke:#e4e9ee}}.bad{{fill:#ff7b72}}{dark}}}</style>\n\
         <rect class=\"surface\" x=\"0.5\" y=\"0.5\" width=\"{w}\" height=\"{h:.0}\" rx=\"8\"/>\n{body}</svg>\n",
        label = escape(label),
        w = WIDTH - 1.0,
        h = height - 1.0,
    )
}

fn row(body: &mut String, summary: &Summary, group: &Group, at: usize, unit: &str, greatest: f64, y: f64) {
    let place = summary.competitor.map_or(0, |axis| group.labels[axis]);
    let name = summary.competitor.map_or("", |axis| summary.axes[axis].values[place].as_str());
    let middle = y + ROW / 2.0;
    text(body, BARS_AT - 8.0, middle + 4.5, "name", "end", name);
    let Some(spread) = group.figures[at] else {
        let why = group.failures.first().map_or("there are no figures", String::as_str);
        let mut said: String = format!("failed: {why}").chars().take(REASON).collect();
        if said.chars().count() == REASON {
            said.push('\u{2026}');
        }
        text(body, BARS_AT, middle + 4.5, "bad", "start", &said);
        return;
    };
    let length = |value: f64| (value.max(0.0) / greatest * LONGEST * 10.0).round() / 10.0;
    let _ = writeln!(
        body,
        "<rect class=\"c{}\" x=\"{BARS_AT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"2\"/>",
        place % COLOURS.len(),
        middle - 7.0,
        length(spread.median).max(1.0)
    );
    if spread.min < spread.max {
        let (from, to) = (BARS_AT + length(spread.min), BARS_AT + length(spread.max));
        let _ = writeln!(
            body,
            "<path class=\"line\" fill=\"none\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v8M{to:.1} {:.1}v8\"/>",
            middle - 4.0,
            middle - 4.0
        );
    }
    let mut said = quantity(spread.median, unit);
    if let Some(ratio) = group.ratios[at] {
        // Three spaces would be one.
        let _ = write!(said, "\u{2003}{}", ratio_text(&ratio, group.rounds));
    }
    text(body, BARS_AT + LONGEST + 12.0, middle + 4.5, "value", "start", &said);
}

/// The conditions for a reader's judgement.
pub(super) fn foot(kept: &Kept, summary: &Summary) -> String {
    let mut said = match summary.rounds {
        1 => "One round: no interval.".to_string(),
        rounds => format!("Medians of {rounds} rounds; lines: least to greatest round."),
    };
    if let (Some(axis), Some(at)) = (summary.competitor, summary.reference) {
        if summary.axes[axis].values.len() > 1 {
            let reference = &summary.axes[axis].values[at];
            let how = match summary.rounds {
                1 => "",
                2 => " (two rounds decide nothing)",
                _ => " with 98 % intervals",
            };
            let _ = write!(said, " x: ratio to {reference}{how}.");
        }
    }
    if let Some(machine) = &kept.run.machine {
        let _ = write!(
            said,
            " {}, {} CPUs, {:.0} GB, {}, {}.",
            machine.cpu,
            machine.cpus,
            machine.memory_bytes as f64 / f64::from(1 << 30),
            machine.system,
            machine.file_system
        );
    }
    let versions: BTreeSet<&str> = kept.run.servers.values().map(|server| server.version.as_str()).collect();
    if !versions.is_empty() {
        let _ = write!(said, " Server {}.", versions.into_iter().collect::<Vec<_>>().join(", "));
    }
    let mut design = Vec::new();
    scalars("", &kept.run.design, &mut design);
    if !design.is_empty() {
        let _ = write!(said, " {}.", design.join(", "));
    }
    for sentence in conditions::of(&kept.run) {
        let _ = write!(said, " {sentence}");
    }
    said + &notes(kept, summary)
}

/// The run's notes of all competitors, cut where they are long. Those of one are events of its cells: an unsteady
/// warm-up is counted, others stay out of a picture.
fn notes(kept: &Kept, summary: &Summary) -> String {
    let mut said = String::new();
    let names = summary.competitor.map_or(&[][..], |axis| &summary.axes[axis].values);
    let is_of_one = |note: &str| {
        let rest = names.iter().find_map(|name| note.strip_prefix(name.as_str()));
        rest.is_some_and(|rest| rest.starts_with([':', ',', ' ']))
    };
    for note in kept.run.notes.iter().filter(|note| !is_of_one(note)) {
        let cut: String = note.chars().take(NOTE_LETTERS).collect();
        let end = match cut.len() < note.len() {
            true => "\u{2026}",
            false if cut.ends_with('.') => "",
            false => ".",
        };
        let _ = write!(said, " {}{end}", cut.trim());
    }
    let unsteady = kept.run.notes.iter().filter(|note| note.contains(": not steady")).count();
    if unsteady > 0 {
        let _ = write!(
            said,
            " {unsteady} of {} measurements began before the rate was steady.",
            kept.cells.len()
        );
    }
    said
}

/// Numbers and words of a run's design, each after its name and that of its group. Lists, places, what the chart says
/// already, and what is not set are left out.
fn scalars(group: &str, design: &Value, found: &mut Vec<String>) {
    let Value::Object(fields) = design else { return };
    for (name, value) in
        fields.iter().filter(|(name, _)| !matches!(name.as_str(), "rounds" | "reference" | "seed"))
    {
        let name = if group.is_empty() { name.clone() } else { format!("{group} {name}") };
        match value {
            Value::Object(_) => scalars(&name, value, found),
            Value::Number(number) => found.push(format!("{name} {number}")),
            Value::String(word) if !word.contains('/') => found.push(format!("{name} {word}")),
            Value::Bool(true) => found.push(name),
            _ => {}
        }
    }
}

/// Text as lines of so many letters at most, broken between words.
pub(super) fn lines_of(text: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("one line at least");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > letters {
            lines.push(word.to_string());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

fn escape(text: &str) -> String {
    html::escape(&text.replace(char::is_control, " "))
}

pub(super) fn text(body: &mut String, x: f64, y: f64, class: &str, anchor: &str, said: &str) {
    let anchor = if anchor == "start" { String::new() } else { format!(" text-anchor=\"{anchor}\"") };
    let _ =
        writeln!(body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{}</text>", escape(said));
}

#[cfg(test)]
mod tests {
    use super::super::groups::tests::{cell, run};
    use super::*;
    use std::path::PathBuf;

    fn kept() -> Kept {
        let mut run = run();
        run.title = "A & <b>".to_string();
        let mut cells = Vec::new();
        for round in 1..=3 {
            for threads in ["8", "16"] {
                cells.push(cell("A", threads, round, 100.0 + f64::from(round)));
                cells.push(cell("B", threads, round, 50.0));
            }
        }
        cells.iter_mut().for_each(|c| c.figure("p99_ms", 2.0));
        Kept { folder: PathBuf::new(), run, cells }
    }

    fn chart(metric: &str, only: &[(&str, &str)]) -> Chart {
        let only = only.iter().map(|(a, v)| (a.to_string(), v.to_string())).collect();
        Chart { metric: metric.to_string(), only }
    }

    #[test]
    fn each_combination_is_a_block_with_a_bar_for_each_competitor() {
        let svg = draw(&kept(), &chart("throughput", &[])).unwrap();
        assert_eq!(svg.matches("height=\"14\"").count(), 4, "{svg}");
        assert_eq!(svg.matches("class=\"line\"").count(), 2, "A's rounds differ, B's do not: {svg}");
        for part in [
            ">threads 8<",
            ">threads 16<",
            ">102 1/s\u{2003}x 2.04 (",
            "Medians of 3 rounds",
            "98 %",
            "A &amp; &lt;b&gt;",
        ] {
            assert!(svg.contains(part), "no {part:?} in {svg}");
        }
        // A's longest round has the whole length, B half of it.
        assert!(svg.contains("width=\"326.8\"") && svg.contains("width=\"160.2\""), "{svg}");
        assert_eq!(svg, draw(&kept(), &chart("tps_per_s", &[])).unwrap(), "the same bytes each time");
    }

    #[test]
    fn a_choice_leaves_the_rest_out_and_what_is_not_there_is_refused() {
        let svg = draw(&kept(), &chart("p99", &[("threads", "8")])).unwrap();
        assert_eq!(svg.matches("height=\"14\"").count(), 2);
        assert!(svg.contains("less is better") && svg.contains(">2 ms"), "{svg}");
        let said = |c: Chart| draw(&kept(), &c).unwrap_err().to_string();
        assert!(said(chart("nopm", &[])).contains("tps_per_s, p99_ms"));
        assert!(said(chart("p99", &[("threads", "9")])).contains("threads=9"));
    }

    #[test]
    fn the_conditions_stand_below_the_bars() {
        let mut kept = kept();
        kept.run.design =
            serde_json::json!({ "load": { "threads": 8, "only": [] }, "cache_bytes": 64, "options": null });
        kept.run.design["rules"] = "a/place".into();
        kept.run.notes = [
            "The memory was scaled by 0.5. ".repeat(8),
            "A: loaded in 3 s".to_string(),
            "B, round 2: not steady after 20 s".to_string(),
        ]
        .to_vec();
        let svg = draw(&kept, &chart("throughput", &[])).unwrap();
        for part in ["load threads 8", "cache_bytes 64", "scaled by 0.5", "1 of 12 measurements began before"]
        {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
        assert!(svg.matches("class=\"foot\"").count() >= 3, "several lines: {svg}");
        assert!(!svg.contains("a/place") && !svg.contains("loaded in 3 s"), "{svg}");
    }

    #[test]
    fn what_failed_has_no_bar() {
        let mut kept = kept();
        kept.cells[0].failures.push("lost".to_string());
        let svg = draw(&kept, &chart("throughput", &[])).unwrap();
        assert!(
            svg.contains(">failed: round 1: lost<") && svg.matches("height=\"14\"").count() == 3,
            "{svg}"
        );
    }
}
