//! `tidelab sweep`: one variable over a list of values, from the command line.

use std::path::{Path, PathBuf};

use clap::Args;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;
use tidelab_server::telemetry::machine;

use super::{put, Installed};
use crate::experiment;
use crate::experiment::sweep::{Conductor, OneOrMany, Options as Design, Sweep};
use crate::report::groups::Summary;
use crate::run::{folder, Cell, Paths, Run};

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The variable: of the server, or rows_per_transaction, threads, rows.
    #[arg(long, value_name = "NAME")]
    variable: String,
    /// Its values, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    values: Vec<String>,
    /// The work at each value: insert_select, add_index, or one of sysbench's workloads.
    #[arg(long, value_name = "NAME")]
    workload: String,
    /// Engines, separated by commas; the variable of one engine is swept on that one alone.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "TidesDB")]
    engines: Vec<Engine>,
    /// Rounds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Rows of a table.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: u64,
    /// Tables of sysbench's workloads.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tables: u32,
    /// Clients of sysbench's workloads.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Measured seconds of sysbench's workloads.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    time: u32,
    /// Seconds before them.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    warm_up: u32,
    /// Seconds at most to wait until the server is idle.
    #[arg(long, default_value_t = 5)]
    settle: u32,
    /// Megabytes of each engine's cache.
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=1_048_576))]
    cache: u64,
    #[command(flatten)]
    installed: Installed,
    /// The directory of the servers; emptied at each start.
    #[arg(long, value_name = "DIR", default_value = "build/sweep", value_parser = super::absolute)]
    data: PathBuf,
    /// The directory that gets the folder of the run.
    #[arg(long, value_name = "DIR", default_value = "build/runs", value_parser = super::absolute)]
    out: PathBuf,
    /// Go on with this run, which was begun with the same options.
    #[arg(long, value_name = "RUN", value_parser = super::absolute)]
    resume: Option<PathBuf>,
}

impl Options {
    fn design(&self) -> Design {
        Design {
            engines: self.engines.clone(),
            rounds: self.rounds,
            rows: self.rows,
            cache_mb: self.cache,
            threads: self.threads,
            tables: self.tables,
            time_s: self.time,
            warm_up_s: self.warm_up,
            settle_s: self.settle,
            set: Default::default(),
            sweep: OneOrMany::One(Sweep {
                variable: self.variable.clone(),
                values: self.values.iter().cloned().map(toml::Value::String).collect(),
                workload: self.workload.clone(),
            }),
        }
    }
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let design = options.design();
    let interrupt = Interrupt::on_signals()?;
    let data = &options.data;
    std::fs::create_dir_all(data).map_err(io_error("cannot make", data))?;
    let title = format!("{} by {}", options.workload, options.variable);
    let mut run = Run::new("sweep", &title, "sweep");
    run.design = serde_json::to_value(&design).map_err(|error| Error::Usage(error.to_string()))?;
    run.machine = Some(machine::describe(data));
    let paths = Paths {
        prefix: &options.installed.prefix,
        plugin: &options.installed.plugin,
        data,
        file_folder: Path::new("."),
        interrupt: &interrupt,
    };
    let mut conductor = Conductor::open(design, paths, &mut run)?;
    let (path, good) = experiment::make(run, &mut conductor, paths, &options.out, options.resume.as_deref())?;
    let (run, cells) = folder::read(&path)?;
    put(&table(&run, &cells));
    eprintln!("Written: {}", path.display());
    Ok(good)
}

/// A line for each value and engine: the main figures' medians over the rounds.
fn table(run: &Run, cells: &[Cell]) -> String {
    let values =
        |name: &str| run.axes.iter().find(|a| a.name == name).map(|a| a.values.clone()).unwrap_or_default();
    let summary = Summary::of(run, cells);
    let mut text = String::new();
    for workload in values("workload") {
        text.push_str(&format!("\n{workload}\n  {:>12} {:8}", "value", "engine"));
        for metric in run.metrics.iter().filter(|m| m.main) {
            let unit = if metric.unit == "B" { "MB" } else { &metric.unit };
            let title: String = metric.name.trim_end_matches("_bytes").to_string();
            text.push_str(&format!(" {:>24}", format!("{title} ({unit})")));
        }
        text.push('\n');
        for value in values("value") {
            for engine in values("engine") {
                let labels =
                    [("workload", workload.as_str()), ("value", value.as_str()), ("engine", engine.as_str())];
                let Some(group) = summary.group(&labels) else { continue };
                text.push_str(&format!("  {value:>12} {engine:8}"));
                if !group.failures.is_empty() {
                    text.push_str(" FAILED\n");
                    continue;
                }
                for (metric, spread) in run.metrics.iter().zip(&group.figures).filter(|(m, _)| m.main) {
                    let scale = if metric.unit == "B" { f64::from(1 << 20) } else { 1.0 };
                    let shown = spread.map_or("-".to_string(), |s| format!("{:.2}", s.median / scale));
                    text.push_str(&format!(" {shown:>24}"));
                }
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;
    use super::*;
    use crate::run::{Axis, Better, CellId, Metric, Role};

    #[test]
    fn options_are_a_sweep() {
        let words = "tidelab sweep --prefix /p --variable tidesdb_block_cache_size --values 8M,64M \
                     --workload point_select --rows 7 --cache 32";
        let words: Vec<&str> = words.split_whitespace().collect();
        let Some(Command::Sweep(options)) = parse(&words.join(" ")).unwrap().command else { panic!() };
        let design = options.design();
        assert_eq!((design.rows, design.cache_mb, design.rounds), (7, 32, 3));
        let OneOrMany::One(sweep) = design.sweep else { panic!() };
        assert_eq!(sweep.values.len(), 2);
        assert!(parse("tidelab sweep --prefix /p --variable x --workload insert").is_err(), "no values");
    }

    #[test]
    fn the_table_shows_a_failed_value_as_failed() {
        let mut run = Run::new("t", "T", "sweep");
        let axis = |name: &str, values: &[&str]| Axis::new(name, name, Role::Category, values);
        run.axes =
            vec![axis("engine", &["TidesDB"]), axis("workload", &["w"]), axis("value", &["1", "2", "3"])];
        run.metrics = vec![Metric::main("peak_bytes", "Peak", "B", Better::Lower)];
        let cell = |value: &str, round: u32, peak: f64| {
            let labels = [
                ("engine", "TidesDB".to_string()),
                ("workload", "w".to_string()),
                ("value", value.to_string()),
            ];
            let mut cell = Cell::new(CellId::new(labels, round), 1);
            cell.figure("peak_bytes", peak * f64::from(1 << 20));
            cell
        };
        let mut bad = cell("2", 1, 1.0);
        bad.failures.push("x".into());
        let text = table(&run, &[cell("1", 1, 2.0), cell("1", 2, 4.0), bad]);
        assert!(text.lines().any(|l| l.ends_with(" 3.00")), "{text}");
        assert!(text.lines().any(|l| l.ends_with("FAILED")), "{text}");
        assert!(!text.contains("  3 TidesDB"), "{text}");
    }
}
