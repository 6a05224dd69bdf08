//! The table of a benchmark for a terminal, and pieces for the loads' own sections.

use tidelab_server::statistics::{Ratio, Resolution, Verdict, FEWEST_FOR_A_VERDICT};
use tidelab_server::telemetry::machine::Machine;

use super::paint::Paint;
use super::{Benchmark, Line};
use crate::report::conditions;
use crate::run::{Measured, Role};

/// More CPUs than these busy with other work make figures doubtful.
const OTHER_CPUS: f64 = 0.2;
/// The last line of a short run.
const SHORT_RUN: &str = "This is a short run, not a measurement: make bench and make bench-tpcc measure.";

/// The table. With `color`, failures are red, and differences beyond the noise green or yellow.
pub fn render(benchmark: &Benchmark, color: bool) -> String {
    let paint = Paint(color);
    let load = benchmark.load.as_ref();
    let summary = benchmark.summary();
    let lines = benchmark.lines(&summary);
    let reference = summary
        .competitor
        .zip(summary.reference)
        .map_or("", |(axis, at)| summary.axes[axis].values[at].as_str());
    let mut all = load.heading();
    all.extend(machine_line(benchmark));
    all.extend(Some(conditions::of(&benchmark.run).join(" ")).filter(|said| !said.is_empty()));
    all.push(String::new());
    all.extend(load.columns(reference));
    let mut above: Option<Vec<&str>> = None;
    for line in &lines {
        let workload = line.workload();
        let first = above.as_ref() != Some(&workload);
        if above.is_some() && first {
            all.push(String::new());
        }
        let label = load.label(line, first);
        above = Some(workload);
        all.push(match line.is_sound() {
            true => format!("{label}{}", load.figures(line, &paint)),
            false => format!("{label}{}", no_figures(line, &paint)),
        });
    }
    let ratios = lines.iter().filter_map(|line| Some((line.main_ratio()?, line.rounds)));
    let told = rounds_line(ratios).or_else(|| few_rounds(&lines));
    all.extend(load.sections(benchmark, &lines, told));
    all.extend(doubts(benchmark, &lines, &paint));
    let mut text = String::new();
    for line in all {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Reasons for doubtful or void figures, a line each: other work, unsteady warm-ups, failures.
fn doubts(benchmark: &Benchmark, lines: &[Line<'_>], paint: &Paint) -> Vec<String> {
    let mut all = Vec::new();
    let other = lines.iter().map(|line| line.greatest("other_cpus")).fold(0.0, f64::max);
    if other > OTHER_CPUS {
        all.push(paint.yellow(&format!(
            "Other work took up to {other:.1} CPUs meanwhile: the ratios hold, the absolute figures are too low."
        )));
    }
    let unsteady = benchmark.cells.iter().filter(|c| c.counts() && c.warm_up.is_unsteady());
    all.extend(unsteady_line(unsteady.map(|c| words(benchmark, c))).map(|text| paint.yellow(&text)));
    for line in lines {
        for failure in line.failures {
            all.push(paint.red(&format!("FAILED {}, {failure}", line.words())));
        }
    }
    all.extend(benchmark.run.ended_early.iter().map(|why| paint.red(&format!("ENDED EARLY: {why}"))));
    if benchmark.short_run {
        all.push(SHORT_RUN.to_string());
    }
    all
}

/// A measurement in words: `point_select on InnoDB (round 1)`.
fn words(benchmark: &Benchmark, measured: &Measured) -> String {
    let id = &measured.cell.id;
    let mut axes: Vec<_> = benchmark.run.axes.iter().collect();
    axes.sort_by_key(|axis| axis.role == Role::Competitor);
    let labels: Vec<&str> = axes.iter().map(|axis| id.label(&axis.name)).collect();
    format!("{} (round {})", labels.join(" on "), id.round)
}

/// The seconds of a warm-up: fixed, or from the least to the most.
pub(super) fn until_steady(at_least_s: u32, at_most_s: u32) -> String {
    if at_most_s <= at_least_s {
        return format!("{at_least_s} s");
    }
    format!("{at_least_s} to {at_most_s} s, until steady")
}

/// Names the runs whose warm-up ended at its limit; none where all became steady.
fn unsteady_line(runs: impl Iterator<Item = String>) -> Option<String> {
    const NAMED: usize = 6;
    let mut names: Vec<String> = runs.collect();
    if names.is_empty() {
        return None;
    }
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("Not steady at the limit of the warm-up: {}{rest}.", names.join(", ")))
}

/// The text in the place of a line's figures.
fn no_figures(line: &Line<'_>, paint: &Paint) -> String {
    let text = if line.failures.is_empty() { "not measured" } else { "FAILED, see below" };
    format!(" {}", paint.red(&format!("{text:>9}")))
}

/// Server and machine; none where the machine is not known.
fn machine_line(benchmark: &Benchmark) -> Option<String> {
    let version = benchmark.run.servers.values().next().map_or("", |server| server.version.as_str());
    let Machine { cpu, cpus, memory_bytes, system, file_system, .. } = benchmark.run.machine.as_ref()?;
    let memory = *memory_bytes as f64 / f64::from(1 << 30);
    Some(format!("MariaDB {version}; {cpu}, {cpus} CPUs, {memory:.0} GB, {system}, {file_system}"))
}

/// A ratio in 22 columns; the colour says whether it is beyond the noise. One round has no interval.
pub(super) fn ratio(ratio: Option<Ratio>, rounds: usize, paint: &Paint) -> String {
    let Some(r) = ratio else { return format!("{:>22}", "") };
    let interval = if rounds < 2 { String::new() } else { format!("({:.2} - {:.2})", r.low, r.high) };
    let text = format!("{:>6.2} {interval:>15}", r.median);
    match r.verdict {
        Verdict::Higher => paint.green(&text),
        Verdict::Lower => paint.yellow(&text),
        Verdict::None => text,
    }
}

/// The number of rounds to tell 5 % apart at the noise of these ratios; none after one round.
fn rounds_line(ratios: impl Iterator<Item = (Ratio, usize)>) -> Option<String> {
    let five = Resolution(0.05);
    let mut needed: Vec<usize> =
        ratios.filter_map(|(r, rounds)| five.rounds_needed_after(&r, rounds)).collect();
    needed.sort_unstable();
    let (least, most) = (needed.first()?, needed.last()?);
    let rounds = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Some(format!("At the noise of these rounds it takes about {rounds} of them to tell 5 % apart."))
}

/// What the ratios of one or two rounds do not tell; none where there are more, or no ratios.
fn few_rounds(lines: &[Line<'_>]) -> Option<String> {
    let rounds = lines.iter().filter(|line| line.main_ratio().is_some()).map(|line| line.rounds).max()?;
    match rounds {
        1 => Some("One round: ratios have no interval, so nobody knows which differences are noise.".into()),
        rounds if rounds < FEWEST_FOR_A_VERDICT => {
            Some("Two rounds: nobody knows which differences are noise.".into())
        }
        _ => None,
    }
}

pub(super) fn megabytes(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::super::sysbench::tests::sample;
    use super::*;

    #[test]
    fn the_rounds_that_are_missing_are_named() {
        let ratio =
            |spread: f64| Ratio::of(&[(100.0 - spread, 100.0), (100.0, 100.0), (100.0 + spread, 100.0)]);
        let line = |spreads: &[f64]| rounds_line(spreads.iter().filter_map(|s| Some((ratio(*s)?, 3))));
        let text = line(&[0.1, 8.0]).unwrap();
        assert!(text.starts_with("At the noise of these rounds it takes about 8 to 53 of them"), "{text}");
        assert_eq!(line(&[]), None);
    }

    #[test]
    fn one_round_shows_no_interval_and_says_so() {
        let mut run = sample();
        run.cells.retain(|measured| measured.cell.id.round == 1);
        let text = render(&run, false);
        assert!(text.contains("One round: ratios have no interval") && !text.contains(" - 1."), "{text}");
        let one = Ratio::of(&[(188.0, 100.0)]);
        assert_eq!(super::ratio(one, 1, &Paint(false)), format!("{:>6.2} {:>15}", 1.88, ""));
    }

    #[test]
    fn a_warm_up_is_fixed_or_goes_on_until_it_is_steady() {
        assert_eq!([until_steady(2, 0), until_steady(2, 2)], ["2 s", "2 s"]);
        assert_eq!(until_steady(2, 30), "2 to 30 s, until steady");
    }

    #[test]
    fn runs_that_did_not_become_steady_are_named() {
        let mut run = sample();
        assert!(!render(&run, false).contains("Not steady"));
        run.cells[1].warm_up.steady = Some(false);
        let text = render(&run, false);
        assert!(text.contains("limit of the warm-up: point_select on InnoDB (round 1).\n"), "{text}");
        let many = unsteady_line((1..=9).map(|n| format!("r{n}"))).unwrap();
        assert!(many.ends_with("r5, r6 and 3 more."), "{many}");
    }

    #[test]
    fn a_short_run_ends_with_the_line_that_it_is_no_measurement() {
        let mut run = sample();
        assert!(!render(&run, false).contains("short run"));
        run.short_run = true;
        let text = render(&run, false);
        assert!(text.lines().last().unwrap().starts_with("This is a short run, not a measurement"), "{text}");
    }

    #[test]
    fn failures_are_shown_and_red() {
        let mut run = sample();
        run.cells[0].cell.failures.push("afterwards: 5 rows, expected 6".to_string());
        run.run.ended_early = Some("the server ended".to_string());
        let text = render(&run, true);
        assert!(text.contains("\x1b[31mFAILED, see below"), "{text}");
        assert!(text.contains("FAILED point_select on TidesDB, round 1: afterwards: 5 rows, expected 6"));
        assert!(text.contains("ENDED EARLY: the server ended"));
        assert!(!text.contains("9,200"), "a failed line shows no figures");
    }

    #[test]
    fn a_combination_without_a_measurement_has_a_line() {
        let mut run = sample();
        run.cells.retain(|measured| measured.cell.id.label("engine") == "InnoDB");
        let text = render(&run, false);
        assert!(text.contains("point_select     TidesDB  not measured\n"), "{text}");
    }
}
