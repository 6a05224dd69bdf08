//! `tidelab sqlbench`: the second document's script, called with its variables.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::statistics::{Ratio, Spread, Verdict};
use tidelab_server::telemetry::machine;
use tidelab_server::workload::sysbench;

use crate::experiment::prepare_run;
use crate::experiment::sqlbench::{Conductor, Options as Asked};
use crate::run::conduct::folder_for;
use crate::run::Paths;
use crate::run::{conduct, folder, Cell, Run};

/// The script's variables, of the environment: DATA_DIR, TABLE_SIZES, TABLES, THREAD_COUNTS, TIME, WARMUP,
/// ENGINES, WORKLOADS, ITERATIONS, TIDESDB_SYNC_MODE, TIDESDB_COMPRESSION, TIDESDB_BLOCK_CACHE,
/// INNODB_FLUSH, INNODB_BUFFER_POOL, INNODB_COMPRESSION.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The installed MariaDB: the directory whose bin/ has mariadbd (make -s prefix).
    #[arg(long, value_name = "DIR", value_parser = super::absolute)]
    prefix: PathBuf,
    /// The TidesDB plugin.
    #[arg(long, value_name = "FILE", default_value = "build/ha_tidesdb.so", value_parser = super::absolute)]
    plugin: PathBuf,
    /// Where the folder of the run goes.
    #[arg(long, value_name = "DIR", default_value = "build/runs", value_parser = super::absolute)]
    out: PathBuf,
    /// Go on with this run, which was begun with the same variables.
    #[arg(long, value_name = "RUN", value_parser = super::absolute)]
    resume: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let lookup = |name: &str| std::env::var(name).ok();
    let asked = Asked::from_variables(lookup)?;
    // A folder of ours below it: it may hold things that are not to be emptied.
    let data = PathBuf::from(lookup("DATA_DIR").unwrap_or_else(|| "build".to_string())).join("sqlbench");
    let data = std::path::absolute(&data).map_err(tidelab_server::error::io_error("cannot find", &data))?;
    let sysbench = sysbench::version()?;
    let interrupt = Interrupt::on_signals()?;
    std::fs::create_dir_all(&data).map_err(tidelab_server::error::io_error("cannot make", &data))?;
    let mut run =
        Run::new("sqlbench", "sqlbench: sysbench's workloads by table size and threads", "sqlbench");
    run.about = format!("As the second document's script asks for it, by {sysbench}, rounds interleaved.");
    run.design = serde_json::to_value(&asked).map_err(|error| Error::Usage(error.to_string()))?;
    run.machine = Some(machine::describe(&data));
    let paths = Paths {
        prefix: &options.prefix,
        plugin: &options.plugin,
        data: &data,
        file_folder: Path::new("."),
        interrupt: &interrupt,
    };
    let mut conductor = Conductor::open(asked, paths, &mut run)?;
    let mut folder = folder_for(&mut run, &options.out, options.resume.as_deref())?;
    let path = folder.path().to_path_buf();
    prepare_run(&conductor, paths, &mut run, &folder)?;
    let good = conduct(&mut conductor, &mut run, &mut folder, &interrupt)?;
    let (run, cells) = folder::read(&path)?;
    let mut stdout = std::io::stdout();
    // A reader that went away (`| head`) is no failure of the run.
    let _ = stdout.write_all(table(&run, &cells).as_bytes()).and_then(|()| stdout.flush());
    eprintln!("Written: {}", path.display());
    Ok(good)
}

/// A line for each engine below each workload, size and number of threads: medians over the iterations,
/// the ratio to the reference within them, and the space on the disk.
fn table(run: &Run, cells: &[Cell]) -> String {
    let values =
        |axis: &str| run.axes.iter().find(|a| a.name == axis).map(|a| a.values.clone()).unwrap_or_default();
    let reference = run.reference.clone().or_else(|| values("engine").first().cloned()).unwrap_or_default();
    let mut text = String::new();
    for rows in values("table_size") {
        for threads in values("threads") {
            text.push_str(&format!(
                "\n{rows} rows, {threads} threads{:>22} {:>12} {:>9} {:>9}  {:>7} {:>17}  {:>9}\n",
                "", "tps", "p95 ms", "p99 ms", "ratio", "98 % interval", "MB"
            ));
            for workload in values("workload") {
                for engine in values("engine") {
                    let of = |engine: &str, figure: &str| -> BTreeMap<u32, f64> {
                        let mine = cells.iter().filter(|c| {
                            let wanted = [
                                ("engine", engine),
                                ("workload", &workload),
                                ("table_size", &rows),
                                ("threads", &threads),
                            ];
                            c.counts() && wanted.iter().all(|(axis, value)| c.id.label(axis) == *value)
                        });
                        mine.filter_map(|c| Some((c.id.round, *c.figures.get(figure)?))).collect()
                    };
                    let middle = |figure: &str| {
                        let all: Vec<f64> = of(&engine, figure).into_values().collect();
                        Spread::of(&all).map(|s| s.median)
                    };
                    let name = format!("  {workload:28} {engine:8}");
                    let Some(tps) = middle("transactions_per_s") else {
                        text.push_str(&format!("{name} FAILED\n"));
                        continue;
                    };
                    let theirs = of(&reference, "transactions_per_s");
                    let pairs: Vec<(f64, f64)> = of(&engine, "transactions_per_s")
                        .into_iter()
                        .filter_map(|(round, mine)| theirs.get(&round).map(|other| (mine, *other)))
                        .collect();
                    let against = match Ratio::of(&pairs).filter(|_| engine != reference) {
                        Some(r) => {
                            let told = if r.verdict == Verdict::None { " =" } else { "" };
                            format!(
                                "{:>7.2} {:>17}",
                                r.median,
                                format!("{:.2} to {:.2}{told}", r.low, r.high)
                            )
                        }
                        None => format!("{:>7} {:>17}", "", ""),
                    };
                    let shown = |figure: &str, divisor: f64| middle(figure).map_or(0.0, |v| v / divisor);
                    text.push_str(&format!(
                        "{name} {tps:>12.0} {:>9.2} {:>9.2}  {against}  {:>9.1}\n",
                        shown("p95_ms", 1.0),
                        shown("p99_ms", 1.0),
                        shown("data_bytes", f64::from(1 << 20))
                    ));
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Axis, CellId, Role};

    #[test]
    fn the_table_has_medians_ratios_and_space() {
        let mut run = Run::new("t", "T", "sqlbench");
        let axis = |name: &str, values: &[&str]| Axis {
            name: name.into(),
            title: name.into(),
            role: Role::Category,
            values: values.iter().map(|v| v.to_string()).collect(),
        };
        run.axes = vec![
            axis("engine", &["TidesDB", "InnoDB"]),
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
