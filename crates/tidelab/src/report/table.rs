//! The table at the end of a run, for a terminal.

use std::fmt::Write as _;

use tidelab_server::statistics::{Ratio, Resolution, Spread, Verdict};
use tidelab_server::telemetry::machine::Machine;

use super::result::RunResult;
use crate::measure::summary::{reference, Line};

/// More CPUs than these busy with other work make figures doubtful.
pub(super) const OTHER_CPUS: f64 = 0.2;

/// The table; with `color`, failures are red and differences that count are green or
/// yellow.
pub fn render(run: &RunResult, color: bool) -> String {
    let paint = Paint(color);
    let mut text = String::new();
    let mut line = |s: String| {
        text.push_str(s.trim_end());
        text.push('\n');
    };
    let load = &run.design.load;
    let versus = reference(&run.design.engines).map_or("", |e| e.name());
    line(format!(
        "{}, {} threads, {} x {} rows, {} s a run after {}, {} rounds interleaved{}",
        run.sysbench.split(" (").next().unwrap_or_default(),
        load.threads,
        load.tables,
        grouped(load.rows as f64),
        load.time_s,
        until_steady(load.warm_up_s, run.design.warm_up_limit_s),
        run.design.rounds,
        if run.design.update_s > 0 {
            format!(", {} s of updates before the reads", run.design.update_s)
        } else {
            String::new()
        }
    ));
    line(machine_line(&run.server.version, &run.machine));
    line(String::new());
    line(format!(
        "{:<17}{:<8} {:>27}   {:>22}   {:>15}  {:>15} {:>8}",
        "",
        "",
        "transactions/s",
        format!("ratio to {versus}"),
        "latency, ms",
        "CPU us/statement",
        ""
    ));
    line(format!(
        "{:<17}{:<8} {:>9} {:>17}   {:>6} {:>15}   {:>7} {:>7}  {:>8} {:>7} {:>8}",
        "workload",
        "engine",
        "median",
        "(min - max)",
        "median",
        "(98 % interval)",
        "p95",
        "p99",
        "during",
        "after",
        "retried"
    ));
    let mut workload = None;
    for l in &run.summary {
        let name = if workload == Some(l.workload) { "" } else { l.workload.name() };
        if workload.is_some() && !name.is_empty() {
            line(String::new());
        }
        workload = Some(l.workload);
        line(summary_line(name, l, &paint));
    }

    if !run.record.at_end.is_empty() {
        line(String::new());
        line(format!(
            "{:<17}{:>12} {:>10} {:>10} {:>13}",
            "disk at the end", "rows", "data, MB", "logs, MB", "together, MB"
        ));
        for end in &run.record.at_end {
            line(format!(
                "{:<17}{:>12} {:>10.1} {:>10.1} {:>13.1}",
                end.engine.name(),
                grouped(end.rows as f64),
                megabytes(end.space.data_bytes),
                megabytes(end.space.log_bytes),
                megabytes(end.space.data_bytes + end.space.log_bytes)
            ));
        }
    }
    let resident = run.record.cells.iter().filter_map(|c| c.figures.as_ref()).map(|f| f.resident_bytes).max();
    if let Some(resident) = resident {
        line(String::new());
        line(format!(
            "The server's process (all engines in one) took at most {:.0} MB of memory.",
            megabytes(resident)
        ));
    }
    if let Some(text) = rounds_line(run.summary.iter().filter_map(|l| Some((l.ratio?, l.rounds)))) {
        line(text);
    }
    let other = run.summary.iter().map(|l| l.other_cpus).fold(0.0, f64::max);
    if other > OTHER_CPUS {
        line(paint.yellow(&format!(
            "Other work took up to {other:.1} CPUs meanwhile: the ratios hold, the absolute figures are too low."
        )));
    }
    let unsteady = run.record.cells.iter().filter(|c| c.counts() && c.warm_up.is_unsteady());
    let names = unsteady.map(|c| format!("{} on {} (round {})", c.workload, c.engine, c.round));
    if let Some(text) = unsteady_line(names) {
        line(paint.yellow(&text));
    }
    for l in &run.summary {
        for failure in &l.failures {
            line(paint.red(&format!("FAILED {} on {}, {failure}", l.workload, l.engine)));
        }
    }
    if let Some(why) = &run.record.ended_early {
        line(paint.red(&format!("ENDED EARLY: {why}")));
    }
    if run.short_run {
        line(SHORT_RUN.to_string());
    }
    text
}

/// The last line of a demo.
pub(super) const SHORT_RUN: &str =
    "This is a short run, not a measurement: make bench and make bench-tpcc measure.";

/// The seconds of a warm-up: fixed, or from the least to the most.
pub(super) fn until_steady(at_least_s: u32, at_most_s: u32) -> String {
    if at_most_s <= at_least_s {
        return format!("{at_least_s} s");
    }
    format!("{at_least_s} to {at_most_s} s, until steady")
}

/// Names the runs whose warm-up ended at its limit; none where all became steady.
pub(super) fn unsteady_line(runs: impl Iterator<Item = String>) -> Option<String> {
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

fn summary_line(name: &str, l: &Line, paint: &Paint) -> String {
    let Some(rate) = l.transactions_per_s else {
        return format!("{name:<17}{:<8} {}", l.engine, no_figures(&l.failures, paint));
    };
    format!(
        "{name:<17}{:<8} {:>9} {:>17}   {}   {:>7.2} {:>7.2}  {:>8.1} {:>7.1} {:>8}",
        l.engine,
        grouped(rate.median),
        format!("({} - {})", grouped(rate.min), grouped(rate.max)),
        ratio(l.ratio, paint),
        middle(l.p95_ms),
        middle(l.p99_ms),
        middle(l.server_cpu_us),
        middle(l.after_cpu_us),
        grouped(l.retried_errors as f64)
    )
}

/// The median; 0 where nothing was measured.
pub(super) fn middle(spread: Option<Spread>) -> f64 {
    spread.map_or(0.0, |s| s.median)
}

/// What stands in the place of a line's figures.
pub(super) fn no_figures(failures: &[String], paint: &Paint) -> String {
    let what = if failures.is_empty() { "not measured" } else { "FAILED, see below" };
    paint.red(&format!("{what:>9}"))
}

/// What server and machine were.
pub(super) fn machine_line(version: &str, machine: &Machine) -> String {
    format!(
        "MariaDB {version}; {}, {} CPUs, {:.0} GB, {}, {}",
        machine.cpu,
        machine.cpus,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.system,
        machine.file_system
    )
}

/// A ratio in 22 columns; the mark says whether it is beyond the noise.
pub(super) fn ratio(ratio: Option<Ratio>, paint: &Paint) -> String {
    let Some(r) = ratio else { return format!("{:>22}", "") };
    let text = format!("{:>6.2} {:>15}", r.median, format!("({:.2} - {:.2})", r.low, r.high));
    match r.verdict {
        Verdict::Higher => paint.green(&text),
        Verdict::Lower => paint.yellow(&text),
        Verdict::None => text,
    }
}

/// How many rounds would tell 5 % apart at the noise of these ratios; none where one round was run.
pub(super) fn rounds_line(ratios: impl Iterator<Item = (Ratio, usize)>) -> Option<String> {
    let five = Resolution(0.05);
    let mut needed: Vec<usize> =
        ratios.filter_map(|(r, rounds)| five.rounds_needed_after(&r, rounds)).collect();
    needed.sort_unstable();
    let (least, most) = (needed.first()?, needed.last()?);
    let rounds = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Some(format!("At the noise of these rounds it takes about {rounds} of them to tell 5 % apart."))
}

/// A whole number with its thousands apart.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    if number < 0.0 {
        text.push('-');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        // Digits are one byte each.
        let _ = write!(text, "{digit}");
    }
    text
}

pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Colours, or none.
pub(super) struct Paint(pub(super) bool);

impl Paint {
    fn with(&self, code: u8, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }
    pub(super) fn red(&self, text: &str) -> String {
        self.with(31, text)
    }
    pub(super) fn green(&self, text: &str) -> String {
        self.with(32, text)
    }
    pub(super) fn yellow(&self, text: &str) -> String {
        self.with(33, text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::tests::sample;
    use super::*;
    use crate::measure::summary::lines;

    #[test]
    fn the_table_of_a_small_run() {
        let text = render(&sample(), false);
        for part in [
            "sysbench 1.0.20, 8 threads, 1 x 100,000 rows, 10 s a run after 2 to 30 s, until steady, 2 rounds interleaved\n",
            "ratio to InnoDB",
            "point_select     TidesDB      9,200   (9,000 - 9,400)     0.92   (0.60 - 1.40)      1.50    2.50",
            "                 InnoDB      10,000 (10,000 - 10,000)",
            "TidesDB               100,000       24.0       96.0         120.0",
            "at most 300 MB",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
        assert!(!text.contains("FAILED") && !text.contains('\x1b'));
        assert!(!text.contains("tell 5 % apart"), "two rounds know nothing of the noise");
    }

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
    fn a_warm_up_is_fixed_or_goes_on_until_it_is_steady() {
        assert_eq!([until_steady(2, 0), until_steady(2, 2)], ["2 s", "2 s"]);
        assert_eq!(until_steady(2, 30), "2 to 30 s, until steady");
    }

    #[test]
    fn runs_that_did_not_become_steady_are_named() {
        let mut run = sample();
        assert!(!render(&run, false).contains("Not steady"));
        run.record.cells[1].warm_up.steady = Some(false);
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
        run.record.cells[0].failures.push("afterwards: 5 rows, expected 6".to_string());
        run.summary = lines(&run.record.cells, &run.design.workloads, &run.design.engines);
        run.record.ended_early = Some("the server ended".to_string());
        let text = render(&run, true);
        assert!(text.contains("\x1b[31mFAILED, see below"), "{text}");
        assert!(text.contains("FAILED point_select on TidesDB, round 1: afterwards: 5 rows, expected 6"));
        assert!(text.contains("ENDED EARLY: the server ended"));
        assert!(!text.contains("9,200"), "a failed line shows no figures");
    }

    #[test]
    fn thousands_are_apart() {
        let of: Vec<String> = [0.0, 999.4, 1000.0, 1234567.0, -5000.0].map(grouped).to_vec();
        assert_eq!(of, ["0", "999", "1,000", "1,234,567", "-5,000"]);
    }
}
