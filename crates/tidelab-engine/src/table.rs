//! The table at the end of a run, for a terminal.

use std::fmt::Write as _;

use tidelab::experiment::engine::{self, cell_id, Design, Engine, Operation};
use tidelab::run::{Cell, Run};
use tidelab_server::statistics::{Ratio, Spread, Verdict};

/// Medians over rounds, with their spread; ratios are taken within rounds.
pub fn render(run: &Run, design: &Design, cells: &[Cell]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(run, design, cells, &mut text);
    text
}

fn write(run: &Run, design: &Design, cells: &[Cell], out: &mut String) -> std::fmt::Result {
    let load = &design.load;
    let reference = engine::reference(&design.engines);
    writeln!(
        out,
        "{} rows of {} + {} bytes, {:.0} % of values compressible, {} threads, {} rows a commit, sync {:?}, \
         compression {:?}, cache {} MB, {} rounds interleaved",
        grouped(design.rows as f64),
        design.key_bytes,
        design.value_bytes,
        design.compressible * 100.0,
        load.threads,
        load.batch,
        design.settings.sync,
        design.settings.compression,
        design.settings.cache_bytes >> 20,
        design.rounds
    )?;
    if let Some(machine) = &run.machine {
        let memory = machine.memory_bytes as f64 / f64::from(1 << 30);
        writeln!(
            out,
            "{}, {} CPUs, {memory:.0} GB, {}, {}",
            machine.cpu, machine.cpus, machine.system, machine.file_system
        )?;
    }
    let versions: Vec<String> =
        run.servers.iter().map(|(name, facts)| format!("{name} {}", facts.version)).collect();
    writeln!(out, "{}\n", versions.join(", "))?;
    let versus = reference.map_or("", Engine::name);
    writeln!(
        out,
        "{:<21}{:<8} {:>33}   {:>22}   {:>17}  {:>7}",
        "",
        "",
        "per second",
        format!("ratio to {versus}"),
        "latency, us",
        "CPU us"
    )?;
    writeln!(
        out,
        "{:<21}{:<8} {:>11} {:>21}   {:>6} {:>15}   {:>8} {:>8}  {:>7}",
        "operation", "engine", "median", "(min - max)", "median", "(98 % interval)", "p50", "p99", "a call"
    )?;
    for &operation in &design.operations {
        for (place, &engine) in design.engines.iter().enumerate() {
            let name = if place == 0 { operation.name() } else { "" };
            let of = Figures { cells, engine, operation };
            write!(out, "{name:<21}{engine:<8} ")?;
            let (Some(rate), false) = (of.spread("rate_per_s"), of.failed()) else {
                writeln!(out, "{:>11}", if of.failed() { "FAILED, see below" } else { "not measured" })?;
                continue;
            };
            let versus = reference.filter(|reference| *reference != engine);
            writeln!(
                out,
                "{:>11} {:>21}   {}   {:>8.2} {:>8.2}  {:>7.2}",
                grouped(rate.median),
                format!("({} - {})", grouped(rate.min), grouped(rate.max)),
                ratio(versus.and_then(|reference| of.ratio("rate_per_s", reference)), of.rounds()),
                of.middle("p50_us"),
                of.middle("p99_us"),
                of.middle("cpu_us")
            )?;
        }
    }
    deferred(design, cells, out)?;
    for cell in cells.iter().filter(|cell| !cell.counts()) {
        for failure in &cell.failures {
            writeln!(out, "FAILED {}: {failure}", cell.id.folder())?;
        }
    }
    if let Some(why) = &run.ended_early {
        writeln!(out, "ENDED EARLY: {why}")?;
    }
    Ok(())
}

/// The deferred work at the end of each writing operation, and its cost.
fn deferred(design: &Design, cells: &[Cell], out: &mut String) -> std::fmt::Result {
    let is_told = |operation: &Operation| operation.writes() || *operation == Operation::ScanAfterOverwrite;
    if !design.operations.iter().any(is_told) {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<21}{:<8} {:>22}   {:>23}   {:>13}   {:>17}   {:>9}",
        "", "", "put off at the end, MB", "until quiet", "per s with it", "bytes written for", "on disk"
    )?;
    writeln!(
        out,
        "{:<21}{:<8} {:>11} {:>10}   {:>11} {:>11}   {:>13}   {:>8} {:>8}   {:>9}",
        "after", "engine", "in memory", "to compact", "s", "MB written", "", "one then", "in all", "for one"
    )?;
    for &operation in design.operations.iter().filter(|operation| is_told(operation)) {
        for (place, &engine) in design.engines.iter().enumerate() {
            let of = Figures { cells, engine, operation };
            if of.failed() || of.spread("quiet_s").is_none() {
                continue;
            }
            let name = if place == 0 { operation.name() } else { "" };
            let megabytes = |name: &str| of.middle(name) / f64::from(1 << 20);
            writeln!(
                out,
                "{name:<21}{engine:<8} {:>11.1} {:>10.1}   {:>11.2} {:>11.1}   {:>13}   {:>8.2} {:>8.2}   {:>9.2}",
                megabytes("unflushed_bytes"),
                megabytes("compaction_debt_bytes"),
                of.middle("quiet_s"),
                megabytes("quiet_written_bytes"),
                grouped(of.middle("settled_rate_per_s")),
                of.middle("write_amplification"),
                of.middle("settled_write_amplification"),
                of.middle("space_amplification")
            )?;
        }
    }
    writeln!(out)
}

/// The figures of one engine's cells of an operation.
struct Figures<'a> {
    cells: &'a [Cell],
    engine: Engine,
    operation: Operation,
}

impl Figures<'_> {
    fn cell_of(&self, engine: Engine, round: u32) -> Option<&Cell> {
        let id = cell_id(engine, self.operation, round);
        self.cells.iter().find(|cell| cell.id == id && cell.counts())
    }

    fn own(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| {
            cell.id.label(engine::ENGINE) == self.engine.name()
                && cell.id.label(engine::OPERATION) == self.operation.name()
        })
    }

    /// True with a failed cell. It takes the others with it: it is shown, not averaged away.
    fn failed(&self) -> bool {
        self.own().any(|cell| !cell.counts())
    }

    fn rounds(&self) -> usize {
        self.own().filter(|cell| cell.counts()).count()
    }

    fn spread(&self, name: &str) -> Option<Spread> {
        let figures: Vec<f64> = self.own().filter_map(|cell| cell.figures.get(name).copied()).collect();
        Spread::of(&figures)
    }

    fn middle(&self, name: &str) -> f64 {
        self.spread(name).map_or(0.0, |spread| spread.median)
    }

    fn ratio(&self, name: &str, reference: Engine) -> Option<Ratio> {
        let pairs: Vec<(f64, f64)> = self
            .own()
            .filter_map(|cell| {
                let other = self.cell_of(reference, cell.id.round)?;
                Some((*cell.figures.get(name)?, *other.figures.get(name)?))
            })
            .collect();
        Ratio::of(&pairs)
    }
}

/// A ratio in 22 columns and a mark: `+` and `-` beyond the noise, nothing inside. One round has no interval.
fn ratio(ratio: Option<Ratio>, rounds: usize) -> String {
    let Some(ratio) = ratio else { return format!("{:>22}", "") };
    let mark = match ratio.verdict {
        Verdict::Higher => '+',
        Verdict::Lower => '-',
        Verdict::None => ' ',
    };
    let interval = if rounds < 2 { String::new() } else { format!("({:.2} - {:.2})", ratio.low, ratio.high) };
    format!("{:>5.2}{mark} {interval:>15}", ratio.median)
}

/// A whole number with its thousands apart.
fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Options;
    use clap::Parser;

    fn cell(engine: Engine, round: u32, rate: f64) -> Cell {
        let mut cell = Cell::new(cell_id(engine, Operation::ReadRandom, round), 1);
        cell.figure("rate_per_s", rate);
        cell.figure("p99_us", 3.25);
        cell
    }

    fn design() -> Design {
        let words =
            ["tidelab-engine", "--engines", "tidesdb,lmdb", "--operations", "read-random", "--rounds", "3"];
        Options::parse_from(words).design().unwrap()
    }

    #[test]
    fn medians_and_ratios_within_rounds() {
        let cells: Vec<Cell> = [(1, 100_000.0), (2, 300_000.0), (3, 200_000.0)]
            .into_iter()
            .flat_map(|(round, rate)| {
                [cell(Engine::TidesDb, round, rate * 2.0), cell(Engine::Lmdb, round, rate)]
            })
            .collect();
        let text = render(&engine::head("t", &design()), &design(), &cells);
        for part in [
            "ratio to LMDB",
            "read-random          TidesDB      400,000   (200,000 - 600,000)    2.00+   (2.00 - 2.00)",
            "                     LMDB         200,000   (100,000 - 300,000)",
            "3.25",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
        assert!(!text.contains("FAILED") && !text.contains("until quiet"), "{text}");
    }

    #[test]
    fn a_failure_in_one_round_is_no_figure() {
        let mut cells = vec![cell(Engine::TidesDb, 1, 5e5), cell(Engine::TidesDb, 2, 5e5)];
        cells[1].failures.push("row 3 was missed".to_string());
        let text = render(&engine::head("t", &design()), &design(), &cells);
        assert!(text.contains("FAILED, see below") && text.contains("r2: row 3 was missed"), "{text}");
        assert!(!text.contains("500,000") && text.contains("not measured"), "{text}");
    }
}
