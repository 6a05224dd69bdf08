//! A benchmark with sysbench's workloads.

use serde_json::{Map, Value};

use super::files::value;
use super::table::{megabytes, ratio, until_steady};
use super::{Benchmark, Line, Load, Names, Paint, Statistic};
use crate::measure::sysbench::{AtEnd, Design, Statistics};
use crate::report::quantity::grouped;
use crate::run::Run;

/// The load and its own facts.
pub struct Sysbench {
    /// sysbench's version.
    pub program: String,
    /// The design.
    pub design: Design,
    /// The engines' tables after the last round.
    pub at_end: Vec<AtEnd>,
    /// Each ANALYZE of an engine's tables.
    pub analyses: Vec<Statistics>,
}

const NAMES: Names = Names { fields: &FIELDS, summary: &SUMMARY, cells: &CELLS, checks: &[] };

const FIELDS: [(&str, Statistic); 10] = [
    ("transactions_per_s", Statistic::Spread),
    ("statements_per_s", Statistic::Spread),
    ("ratio", Statistic::Ratio("transactions_per_s")),
    ("p95_ms", Statistic::Spread),
    ("p99_ms", Statistic::Spread),
    ("server_cpu_us", Statistic::Spread),
    ("server_cpu_ratio", Statistic::Ratio("server_cpu_us")),
    ("after_cpu_us", Statistic::Spread),
    ("retried_errors", Statistic::Sum),
    ("other_cpus", Statistic::Greatest),
];

const SUMMARY: [&str; 20] = [
    "rounds",
    "status",
    "transactions_per_s_median",
    "transactions_per_s_min",
    "transactions_per_s_max",
    "transactions_per_s_iqr",
    "statements_per_s_median",
    "ratio_median",
    "ratio_low",
    "ratio_high",
    "verdict",
    "p95_ms_median",
    "p95_ms_min",
    "p95_ms_max",
    "p99_ms_median",
    "server_cpu_us_median",
    "server_cpu_us_min",
    "server_cpu_us_max",
    "after_cpu_us_median",
    "retried_errors",
];

const CELLS: [&str; 18] = [
    "seconds",
    "transactions",
    "statements",
    "transactions_per_s",
    "statements_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "average_ms",
    "max_ms",
    "retried_errors",
    "server_cpu_us",
    "after_cpu_us",
    "other_cpus",
    "resident_bytes",
    "written_bytes",
    "data_bytes",
    "log_bytes",
];

impl Load for Sysbench {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn facts(&self, run: &Run) -> Map<String, Value> {
        [
            ("sysbench", Value::from(self.program.as_str())),
            ("server", value(&run.servers.values().next())),
            ("at_end", value(&self.at_end)),
            ("analyses", value(&self.analyses)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into_iter()
        .collect()
    }

    fn heading(&self) -> Vec<String> {
        let load = &self.design.load;
        let updates = match self.design.update_s {
            0 => String::new(),
            seconds => format!(", {seconds} s of updates before the reads"),
        };
        vec![format!(
            "{}, {} threads, {} x {} rows, {} s a run after {}, {} rounds interleaved{updates}",
            self.program.split(" (").next().unwrap_or_default(),
            load.threads,
            load.tables,
            grouped(load.rows as f64),
            load.time_s,
            until_steady(load.warm_up_s, self.design.warm_up_limit_s),
            self.design.rounds,
        )]
    }

    fn columns(&self, reference: &str) -> [String; 2] {
        [
            format!(
                "{:<17}{:<8} {:>27}   {:>22}   {:>15}  {:>15} {:>8}",
                "",
                "",
                "transactions/s",
                format!("ratio to {reference}"),
                "latency, ms",
                "CPU us/statement",
                ""
            ),
            format!(
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
            ),
        ]
    }

    fn label(&self, line: &Line<'_>, first: bool) -> String {
        let workload = if first { line.label("workload") } else { "" };
        format!("{workload:<17}{:<8}", line.engine())
    }

    fn figures(&self, line: &Line<'_>, paint: &Paint) -> String {
        let Some(rate) = line.spread("transactions_per_s") else { return String::new() };
        format!(
            " {:>9} {:>17}   {}   {:>7.2} {:>7.2}  {:>8.1} {:>7.1} {:>8}",
            grouped(rate.median),
            format!("({} - {})", grouped(rate.min), grouped(rate.max)),
            ratio(line.main_ratio(), line.rounds, paint),
            line.middle("p95_ms"),
            line.middle("p99_ms"),
            line.middle("server_cpu_us"),
            line.middle("after_cpu_us"),
            grouped(line.sum("retried_errors"))
        )
    }

    fn sections(&self, benchmark: &Benchmark, _: &[Line<'_>], needed: Option<String>) -> Vec<String> {
        let mut all = Vec::new();
        if !self.at_end.is_empty() {
            all.push(String::new());
            all.push(format!(
                "{:<17}{:>12} {:>10} {:>10} {:>13}",
                "disk at the end", "rows", "data, MB", "logs, MB", "together, MB"
            ));
        }
        for end in &self.at_end {
            let (data, log) = (end.space.data_bytes as f64, end.space.log_bytes as f64);
            all.push(format!(
                "{:<17}{:>12} {:>10.1} {:>10.1} {:>13.1}",
                end.engine.name(),
                grouped(end.rows as f64),
                megabytes(data),
                megabytes(log),
                megabytes(data + log)
            ));
        }
        let resident = benchmark.cells.iter().filter_map(|c| c.cell.figures.get("resident_bytes"));
        if let Some(resident) = resident.copied().reduce(f64::max) {
            all.push(String::new());
            all.push(format!(
                "The server's process (all engines in one) took at most {:.0} MB of memory.",
                megabytes(resident)
            ));
        }
        all.extend(needed);
        all
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tidelab_server::server::analyze::Analyzed;
    use tidelab_server::server::engine::Engine;
    use tidelab_server::server::facts::ServerFacts;
    use tidelab_server::telemetry::disk::Space;
    use tidelab_server::telemetry::machine::Machine;
    use tidelab_server::workload::steady::WarmUp;
    use tidelab_server::workload::sysbench::{Load as Size, Workload};

    use super::super::files::tests::same_as_before;
    use super::super::{render, write};
    use super::*;
    use crate::measure::sysbench::figures::SECONDS;
    use crate::run::{CellId, Measured};

    /// A machine.
    pub(crate) fn machine() -> Machine {
        Machine {
            cpu: "A CPU".to_string(),
            cpus: 2,
            memory_bytes: 8 << 30,
            kernel: "6.1".to_string(),
            system: "Debian".to_string(),
            file_system: "ext2/ext3".to_string(),
            free_bytes: 10 << 30,
            load_before: 0.1,
        }
    }

    /// The facts of a server.
    pub(crate) fn server() -> ServerFacts {
        ServerFacts {
            version: "11.8.6-MariaDB".to_string(),
            prefix: "/p".to_string(),
            settings: Default::default(),
            read_back: Default::default(),
            variables: Default::default(),
        }
    }

    fn measured(engine: Engine, round: u32, rate: f64) -> Measured {
        let labels = [("engine", engine.to_string()), ("workload", Workload::PointSelect.to_string())];
        let mut measured = Measured::new(CellId::new(labels, round), 7, SECONDS);
        measured.warm_up = WarmUp { seconds: 11.0, steady: Some(true) };
        measured.cell.add([
            ("seconds", 10.0),
            ("transactions", rate * 10.0),
            ("statements", rate * 10.0),
            ("transactions_per_s", rate),
            ("statements_per_s", rate),
            ("p50_ms", 0.5),
            ("p95_ms", 1.5),
            ("p99_ms", 2.5),
            ("average_ms", 0.6),
            ("max_ms", 9.0),
            ("retried_errors", 2.0),
            ("server_cpu_us", 1e6 / rate),
            ("after_cpu_us", 0.25),
            ("other_cpus", 0.1),
            ("resident_bytes", f64::from(300 << 20)),
            ("written_bytes", f64::from(1 << 20)),
            ("data_bytes", f64::from(20 << 20)),
            ("log_bytes", f64::from(5 << 20)),
        ]);
        measured
    }

    fn load(update_s: u32) -> Sysbench {
        let design = Design {
            engines: vec![Engine::TidesDb, Engine::InnoDb],
            workloads: vec![Workload::PointSelect],
            rounds: 2,
            load: Size { tables: 1, rows: 100_000, threads: 8, warm_up_s: 2, time_s: 10 },
            warm_up_limit_s: 30,
            update_s,
            settle_s: 5,
        };
        let space = Space { data_bytes: 24 << 20, log_bytes: 96 << 20 };
        let at_end = design.engines.iter().map(|e| AtEnd { engine: *e, rows: 100_000, space }).collect();
        let analyzed = Analyzed { tables: 1, seconds: 0.25 };
        let analyses = vec![Statistics { engine: Engine::TidesDb, round: 1, analyzed }];
        Sysbench { program: "sysbench 1.0.20".to_string(), design, at_end, analyses }
    }

    fn benchmark(load: Sysbench) -> Benchmark {
        let mut run = Run::new("demo", "", "sysbench");
        run.started_unix_s = 1_790_000_000;
        run.machine = Some(machine());
        run.servers.insert("server".to_string(), server());
        run.design = value(&load.design);
        load.design.describe(&mut run);
        Benchmark {
            run,
            cells: vec![
                measured(Engine::TidesDb, 1, 9000.0),
                measured(Engine::InnoDb, 1, 10000.0),
                measured(Engine::InnoDb, 2, 10000.0),
                measured(Engine::TidesDb, 2, 9400.0),
            ],
            short_run: false,
            took_s: 61.0,
            load: Box::new(load),
        }
    }

    /// A small benchmark of two rounds.
    pub(crate) fn sample() -> Benchmark {
        benchmark(load(0))
    }

    #[test]
    fn a_failed_cell_or_an_early_end_is_not_good() {
        let mut run = sample();
        assert!(run.good());
        run.cells[1].cell.failures.push("x".to_string());
        assert!(!run.good());
        let mut run = sample();
        run.run.ended_early = Some("interrupted".to_string());
        assert!(!run.good());
    }

    #[test]
    fn files_are_those_of_earlier_versions() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = |measured: &mut Measured| {
            for at in [1.5, 2.5] {
                let second = vec![at, 1234.56789, 5000.0, 1.25, 0.0, 1.5, f64::from(300 << 20)];
                measured.seconds.rows.push(second);
            }
        };
        let mut run = sample();
        run.cells.iter_mut().for_each(seconds);
        same_as_before("sysbench", &write(&run, &folder.path().join("a")).unwrap());

        let mut run = benchmark(load(4));
        run.cells.iter_mut().for_each(seconds);
        run.cells[3].cell.failures.push("a \"b\", c".to_string());
        run.cells[3].cell.figures.clear();
        run.cells[3].seconds.rows.clear();
        run.cells[0].warm_up.steady = Some(false);
        run.cells[1].warm_up.steady = None;
        run.cells[1].cell.figure("other_cpus", 0.75);
        run.run.ended_early = Some("the server ended".to_string());
        run.short_run = true;
        same_as_before("sysbench-failed", &write(&run, &folder.path().join("b")).unwrap());
    }

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
}
