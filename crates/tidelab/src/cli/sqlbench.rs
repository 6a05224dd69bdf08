//! `tidelab sqlbench`: the experiment of a published shell script, called with the script's variables.

use std::path::{Path, PathBuf};

use clap::Args;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::statistics::{Verdict, FEWEST_FOR_A_VERDICT};
use tidelab_server::telemetry::machine;
use tidelab_server::workload::sysbench;

use super::{put, Installed};
use crate::experiment;
use crate::experiment::sqlbench::{Conductor, Options as Variables};
use crate::report::groups::{Group, Summary};
use crate::run::{folder, Cell, Paths, Run};

/// The script's variables, of the environment: DATA_DIR, TABLE_SIZES, TABLES, THREAD_COUNTS, TIME, WARMUP,
/// ENGINES, WORKLOADS, ITERATIONS, TIDESDB_SYNC_MODE, TIDESDB_COMPRESSION, TIDESDB_BLOCK_CACHE,
/// INNODB_FLUSH, INNODB_BUFFER_POOL, INNODB_COMPRESSION.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    installed: Installed,
    /// The directory that gets the folder of the run.
    #[arg(long, value_name = "DIR", default_value = "build/runs", value_parser = super::absolute)]
    out: PathBuf,
    /// Go on with this run, which was begun with the same variables.
    #[arg(long, value_name = "RUN", value_parser = super::absolute)]
    resume: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let lookup = |name: &str| std::env::var(name).ok();
    let asked = Variables::from_variables(lookup)?;
    // A folder of ours below it: it may hold things that are not to be emptied.
    let data = PathBuf::from(lookup("DATA_DIR").unwrap_or_else(|| "build".to_string())).join("sqlbench");
    let data = std::path::absolute(&data).map_err(io_error("cannot find", &data))?;
    let sysbench = sysbench::version()?;
    let interrupt = Interrupt::on_signals()?;
    std::fs::create_dir_all(&data).map_err(io_error("cannot make", &data))?;
    let mut run =
        Run::new("sqlbench", "sqlbench: sysbench's workloads by table size and threads", "sqlbench");
    run.about = format!("As the published script sqlbench asks for it, by {sysbench}, rounds interleaved.");
    run.design = serde_json::to_value(&asked).map_err(|error| Error::Usage(error.to_string()))?;
    run.machine = Some(machine::describe(&data));
    let paths = Paths {
        prefix: &options.installed.prefix,
        plugin: &options.installed.plugin,
        data: &data,
        file_folder: Path::new("."),
        interrupt: &interrupt,
    };
    let mut conductor = Conductor::open(asked, paths, &mut run)?;
    let (path, good) = experiment::make(run, &mut conductor, paths, &options.out, options.resume.as_deref())?;
    let (run, cells) = folder::read(&path)?;
    put(&table(&run, &cells));
    eprintln!("Written: {}", path.display());
    Ok(good)
}

/// A line for each engine, below each workload, table size and number of threads. It has medians over the
/// iterations, the ratio to the reference, and the space on disk.
fn table(run: &Run, cells: &[Cell]) -> String {
    let values =
        |axis: &str| run.axes.iter().find(|a| a.name == axis).map(|a| a.values.clone()).unwrap_or_default();
    let summary = Summary::of(run, cells);
    let mut text = String::new();
    for rows in values("table_size") {
        for threads in values("threads") {
            text.push_str(&format!(
                "\n{rows} rows, {threads} threads{:>22} {:>12} {:>9} {:>9}  {:>7} {:>17}  {:>9}\n",
                "", "tps", "p95 ms", "p99 ms", "ratio", "98 % interval", "MB"
            ));
            for workload in values("workload") {
                for engine in values("engine") {
                    let labels = [
                        ("engine", engine.as_str()),
                        ("workload", workload.as_str()),
                        ("table_size", rows.as_str()),
                        ("threads", threads.as_str()),
                    ];
                    let group = summary.group(&labels);
                    let figures = group.and_then(|group| figures(run, group)).unwrap_or_else(|| {
                        let why = group.map_or(String::new(), |group| group.failures.join("; "));
                        format!("FAILED {}", if why.is_empty() { "there are no figures" } else { &why })
                    });
                    text.push_str(&format!("  {workload:28} {engine:8} {figures}\n"));
                }
            }
        }
    }
    text
}

/// The figures of a line; none where one of its iterations failed.
fn figures(run: &Run, group: &Group) -> Option<String> {
    let at = |name: &str| run.metrics.iter().position(|metric| metric.name == name);
    let middle = |name: &str| Some(group.figures[at(name)?]?.median);
    let tps = middle("transactions_per_s")?;
    let against = match group.ratios[at("transactions_per_s")?] {
        // One round has no interval, and two decide nothing.
        Some(r) if group.rounds < 2 => format!("{:>7.2} {:>17}", r.median, ""),
        Some(r) => {
            let told = match r.verdict {
                Verdict::None if group.rounds < FEWEST_FOR_A_VERDICT => " ?",
                Verdict::None => " =",
                _ => "",
            };
            format!("{:>7.2} {:>17}", r.median, format!("{:.2} to {:.2}{told}", r.low, r.high))
        }
        None => format!("{:>7} {:>17}", "", ""),
    };
    let shown = |name: &str, divisor: f64| middle(name).map_or(0.0, |value| value / divisor);
    Some(format!(
        "{tps:>12.0} {:>9.2} {:>9.2}  {against}  {:>9.1}",
        shown("p95_ms", 1.0),
        shown("p99_ms", 1.0),
        // Rows may still be in the log alone.
        shown("data_bytes", f64::from(1 << 20)) + shown("log_bytes", f64::from(1 << 20))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sysbench::figures::metrics;
    use crate::run::{Axis, CellId, Role};

    #[test]
    fn the_table_has_medians_ratios_and_space() {
        let mut run = Run::new("t", "T", "sqlbench");
        let axis = |name: &str, values: &[&str]| Axis::new(name, name, Role::Category, values);
        run.metrics = metrics();
        run.axes = vec![
            Axis::new("engine", "Engine", Role::Competitor, &["TidesDB", "InnoDB"]),
            axis("workload", &["insert", "delete"]),
            axis("table_size", &["10"]),
            axis("threads", &["8"]),
        ];
        run.reference = Some("InnoDB".into());
        let mut cells = Vec::new();
        for (engine, tps) in [("TidesDB", 300.0), ("InnoDB", 100.0)] {
            for round in 1..=3 {
                let labels = [
                    ("engine", engine.to_string()),
                    ("workload", "insert".to_string()),
                    ("table_size", "10".to_string()),
                    ("threads", "8".to_string()),
                ];
                let mut cell = Cell::new(CellId::new(labels, round), 1);
                cell.figure("transactions_per_s", tps);
                cell.figure("data_bytes", f64::from(3 << 20));
                cells.push(cell);
            }
        }
        let text = table(&run, &cells);
        let line = text.lines().find(|l| l.contains("insert") && l.contains("TidesDB")).unwrap();
        assert!(line.contains("300") && line.contains("3.00") && line.ends_with("3.0"), "{text}");
        assert!(text.lines().any(|l| l.contains("delete") && l.contains("FAILED")), "{text}");
    }
}
