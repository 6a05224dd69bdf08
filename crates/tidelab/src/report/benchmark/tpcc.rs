//! A benchmark with TPC-C.

use serde_json::{Map, Value};
use tidelab_server::workload::tpcc::Transaction;

use super::files::{figure, number, status, value};
use super::table::{megabytes, ratio, until_steady};
use super::{Benchmark, FurtherTable, Line, Load, Names, Paint, Statistic};
use crate::measure::tpcc::figures::name;
use crate::measure::tpcc::run::CHECK;
use crate::measure::tpcc::{Design, Loaded, Record};
use crate::report::quantity::grouped;
use crate::run::{Better, Cell, Measured, Metric, Run};

/// The load and its own facts.
pub struct Tpcc {
    /// The design.
    pub design: Design,
    /// The load of each engine's tables.
    pub loads: Vec<Loaded>,
}

/// The engine's files with its logs.
const SPACE: &str = "space_bytes";
/// Bytes written to the device for each transaction.
const WRITTEN: &str = "written_per_transaction";

impl Tpcc {
    /// The benchmark of a record. `run` has name, machine and start.
    pub fn benchmark(mut run: Run, design: Design, record: Record, took_s: f64) -> Benchmark {
        run.design = value(&design);
        run.servers = record.servers.into_iter().map(|(engine, facts)| (engine.to_string(), facts)).collect();
        run.ended_early = record.ended_early;
        design.describe(&mut run);
        let metric = |name: &str| Metric::detail(name, name, "B", Better::Lower);
        run.metrics.extend([SPACE, WRITTEN].map(metric));
        let mut cells = record.cells;
        for Measured { cell, .. } in &mut cells {
            let Some([data, log, written, tpm, seconds]) =
                numbers(cell, ["data_bytes", "log_bytes", "written_bytes", "tpm", "seconds"])
            else {
                continue;
            };
            cell.figure(SPACE, data + log);
            cell.figure(WRITTEN, written / (tpm * seconds / 60.0).max(1.0));
        }
        let load = Box::new(Tpcc { design, loads: record.loads });
        Benchmark { run, cells, short_run: false, took_s, load }
    }
}

/// The figures of these names; none where one is missing.
fn numbers<const N: usize>(cell: &Cell, names: [&str; N]) -> Option<[f64; N]> {
    let found: Vec<f64> = names.iter().filter_map(|name| cell.figures.get(*name).copied()).collect();
    found.try_into().ok()
}

const NAMES: Names = Names { fields: &FIELDS, summary: &SUMMARY, cells: &CELLS, checks: &[CHECK] };

const FIELDS: [(&str, Statistic); 11] = [
    ("nopm", Statistic::Spread),
    ("tpm", Statistic::Spread),
    ("ratio", Statistic::Ratio("nopm")),
    ("server_cpu_us", Statistic::Spread),
    ("server_cpu_ratio", Statistic::Ratio("server_cpu_us")),
    ("after_cpu_us", Statistic::Spread),
    ("failed_percent", Statistic::Spread),
    ("resident_bytes", Statistic::Greatest),
    (SPACE, Statistic::Spread),
    (WRITTEN, Statistic::Spread),
    ("other_cpus", Statistic::Greatest),
];

const SUMMARY: [&str; 20] = [
    "rounds",
    "status",
    "nopm_median",
    "nopm_min",
    "nopm_max",
    "nopm_iqr",
    "tpm_median",
    "ratio_median",
    "ratio_low",
    "ratio_high",
    "verdict",
    "server_cpu_us_median",
    "server_cpu_us_min",
    "server_cpu_us_max",
    "after_cpu_us_median",
    "failed_percent_median",
    "resident_bytes",
    "space_bytes_median",
    "written_per_transaction_median",
    "other_cpus",
];

const CELLS: [&str; 13] = [
    "seconds",
    "nopm",
    "tpm",
    "failed_percent",
    "server_cpu_us",
    "after_cpu_us",
    "other_cpus",
    "client_cpus",
    "resident_bytes",
    "written_bytes",
    "data_bytes",
    "log_bytes",
    CHECK,
];

const TRANSACTIONS: [&str; 15] = [
    "engine",
    "round",
    "status",
    "transaction",
    "calls",
    "min_ms",
    "average_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
    "sd_ms",
    "time_percent",
    "rolled_back",
    "failed",
];

/// The fields of a transaction, with the figure of each in a cell.
const PARTS: [(&str, &str); 10] = [
    ("calls", "calls"),
    ("min_ms", "min_ms"),
    ("average_ms", "avg_ms"),
    ("p50_ms", "p50_ms"),
    ("p95_ms", "p95_ms"),
    ("p99_ms", "p99_ms"),
    ("max_ms", "max_ms"),
    ("sd_ms", "sd_ms"),
    ("time_percent", "percent"),
    ("rolled_back", "rolled_back"),
];

/// The failed transactions, by their errors' numbers.
fn failed(cell: &Cell, transaction: Transaction) -> Vec<(String, u64)> {
    let start = name(transaction, "failed_");
    let of = |(name, count): (&String, &f64)| Some((name.strip_prefix(&start)?.to_string(), *count as u64));
    cell.figures.iter().filter_map(of).collect()
}

/// The fields of one transaction on one engine: sums and medians over the rounds.
fn transaction_of_line(line: &Line<'_>, transaction: Transaction) -> Value {
    let of = |figure: &str| name(transaction, figure);
    let mut fields = Map::from_iter([
        ("transaction".to_string(), Value::from(transaction.name())),
        ("calls".to_string(), figure("calls", line.sum(&of("calls")))),
        ("failed".to_string(), figure("failed", line.sum_of_all(&of("failed_")))),
        ("max_ms".to_string(), Value::from(line.greatest(&of("max_ms")))),
        ("p99_ratio".to_string(), value(&line.ratio(&of("p99_ms")))),
    ]);
    for (field, figure) in PARTS.iter().filter(|(field, _)| MEDIANS.contains(field)) {
        fields.insert((*field).to_string(), Value::from(line.middle(&of(figure))));
    }
    Value::Object(fields)
}

/// The fields of a transaction shown as medians over the rounds.
const MEDIANS: [&str; 6] = ["average_ms", "p50_ms", "p95_ms", "p99_ms", "sd_ms", "time_percent"];

impl Load for Tpcc {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn facts(&self, run: &Run) -> Map<String, Value> {
        [("loads", value(&self.loads)), ("servers", value(&run.servers))]
            .map(|(name, value)| (name.to_string(), value))
            .into_iter()
            .collect()
    }

    fn parts_of_line(&self, line: &Line<'_>) -> Map<String, Value> {
        let all: Vec<Value> = match line.is_sound() {
            true => Transaction::ALL.map(|transaction| transaction_of_line(line, transaction)).to_vec(),
            false => Vec::new(),
        };
        Map::from_iter([("transactions".to_string(), Value::from(all))])
    }

    fn parts_of_cell(&self, cell: &Cell) -> Map<String, Value> {
        let of = |transaction: Transaction| -> Value {
            let mut fields = Map::from_iter([
                ("transaction".to_string(), Value::from(transaction.name())),
                ("failed".to_string(), failed(cell, transaction).into_iter().collect()),
            ]);
            for (field, of_cell) in PARTS {
                let number = cell.figures.get(&name(transaction, of_cell)).copied().unwrap_or(f64::NAN);
                fields.insert(field.to_string(), figure(field, number));
            }
            Value::Object(fields)
        };
        Map::from_iter([("transactions".to_string(), Value::from(Transaction::ALL.map(of).to_vec()))])
    }

    fn further_table(&self, cells: &[Measured]) -> Option<FurtherTable> {
        let mut rows = Vec::new();
        for cell in cells.iter().map(|measured| &measured.cell).filter(|cell| !cell.figures.is_empty()) {
            for transaction in Transaction::ALL {
                let mut row = vec![
                    cell.id.label("engine").to_string(),
                    cell.id.round.to_string(),
                    status(cell.counts()),
                    transaction.name().to_string(),
                ];
                let figures = PARTS.iter().map(|(_, figure)| cell.figures.get(&name(transaction, figure)));
                row.extend(figures.map(|figure| figure.map_or(String::new(), |value| number(*value))));
                let failed: Vec<String> =
                    failed(cell, transaction).iter().map(|(code, count)| format!("{code}:{count}")).collect();
                row.push(failed.join(" "));
                rows.push(row);
            }
        }
        Some(FurtherTable { ending: "transactions.csv", columns: &TRANSACTIONS, rows })
    }

    fn heading(&self) -> Vec<String> {
        let design = &self.design;
        let scaled = if design.memory_scale < 1.0 {
            format!(", memory scaled by {:.2}", design.memory_scale)
        } else {
            String::new()
        };
        vec![
            format!(
                "TPC-C after HammerDB: {} warehouses, {} users, {} s after a ramp-up of {}, {} round{} interleaved",
                design.scale.warehouses,
                design.users,
                design.duration_s,
                until_steady(design.ramp_up_s, design.ramp_up_limit_s),
                design.rounds,
                if design.rounds == 1 { "" } else { "s" }
            ),
            format!(
                "Settings: {}{scaled}; a server for each engine",
                design.options.as_deref().unwrap_or("tidelab's")
            ),
        ]
    }

    fn columns(&self, reference: &str) -> [String; 2] {
        [
            format!(
                "{:<8} {:>27}   {:>22} {:>9}  {:>16} {:>7} {:>8} {:>8} {:>8}",
                "",
                "new orders/min (NOPM)",
                format!("ratio to {reference}"),
                "",
                "CPU us/transact.",
                "failed",
                "memory",
                "files",
                "written"
            ),
            format!(
                "{:<8} {:>9} {:>17}   {:>6} {:>15} {:>9}  {:>8} {:>7} {:>7} {:>8} {:>8} {:>8}",
                "engine",
                "median",
                "(min - max)",
                "median",
                "(98 % interval)",
                "TPM",
                "during",
                "after",
                "%",
                "MB",
                "MB",
                "KB/tr."
            ),
        ]
    }

    fn label(&self, line: &Line<'_>, _: bool) -> String {
        format!("{:<8}", line.engine())
    }

    fn figures(&self, line: &Line<'_>, paint: &Paint) -> String {
        let Some(nopm) = line.spread("nopm") else { return String::new() };
        format!(
            " {:>9} {:>17}   {} {:>9}  {:>8.0} {:>7.0} {:>7.2} {:>8.0} {:>8.0} {:>8.1}",
            grouped(nopm.median),
            format!("({} - {})", grouped(nopm.min), grouped(nopm.max)),
            ratio(line.main_ratio(), line.rounds, paint),
            grouped(line.middle("tpm")),
            line.middle("server_cpu_us"),
            line.middle("after_cpu_us"),
            line.middle("failed_percent"),
            megabytes(line.greatest("resident_bytes")),
            megabytes(line.middle(SPACE)),
            line.middle(WRITTEN) / 1024.0
        )
    }

    fn sections(&self, benchmark: &Benchmark, lines: &[Line<'_>], needed: Option<String>) -> Vec<String> {
        let mut all: Vec<String> = needed.into_iter().collect();
        all.push(String::new());
        all.extend(latencies(&benchmark.run, lines));
        if !self.loads.is_empty() {
            all.push(String::new());
        }
        for l in &self.loads {
            let rows = l.rows as f64;
            all.push(format!(
                "loaded {:<8} {:>11} rows in {:>6.1} s ({:>9} rows/s, {:.1} us CPU a row), {:.0} MB, \
                 ANALYZE TABLE {:.1} s",
                l.engine,
                grouped(rows),
                l.seconds,
                grouped(rows / l.seconds.max(1e-3)),
                l.server_cpu_s * 1e6 / rows.max(1.0),
                megabytes((l.space.data_bytes + l.space.log_bytes) as f64),
                l.analyzed.seconds
            ));
        }
        let checked = benchmark.cells.iter().filter(|c| c.counts()).count();
        if checked > 0 {
            all.push(String::new());
            all.push(format!(
                "After each of {checked} runs conditions 1 to 12 hold, stock and order lines agree, and the order \
                 numbers given out are the new orders that clients were told of."
            ));
        }
        all
    }
}

/// The latencies of each transaction, an engine below the other.
fn latencies(run: &Run, lines: &[Line<'_>]) -> Vec<String> {
    let mut all = vec![format!(
        "{:<12}{:<8} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   {:>22}",
        "latency, ms",
        "engine",
        "calls",
        "failed",
        "time %",
        "avg",
        "p50",
        "p95",
        "p99",
        "max",
        "sd",
        format!("p99, ratio to {}", run.reference.as_deref().unwrap_or_default())
    )];
    for transaction in Transaction::ALL {
        let of = |figure: &str| name(transaction, figure);
        let mut label = transaction.name();
        for line in lines.iter().filter(|line| line.is_sound()) {
            all.push(format!(
                "{label:<12}{:<8} {:>9} {:>7} {:>7.1} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.1} {:>9.2}   {}",
                line.engine(),
                grouped(line.sum(&of("calls"))),
                grouped(line.sum_of_all(&of("failed_"))),
                line.middle(&of("percent")),
                line.middle(&of("avg_ms")),
                line.middle(&of("p50_ms")),
                line.middle(&of("p95_ms")),
                line.middle(&of("p99_ms")),
                line.greatest(&of("max_ms")),
                line.middle(&of("sd_ms")),
                // A lower latency is the better one: no colours that say the opposite.
                ratio(line.ratio(&of("p99_ms")), line.rounds, &Paint(false))
            ));
            label = "";
        }
    }
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use tidelab_server::server::analyze::Analyzed;
    use tidelab_server::server::engine::Engine;
    use tidelab_server::telemetry::disk::Space;
    use tidelab_server::workload::steady::WarmUp;
    use tidelab_server::workload::tpcc::Scale;

    use super::super::files::tests::same_as_before;
    use super::super::sysbench::tests::{machine, server};
    use super::super::{render, write};
    use super::*;
    use crate::measure::tpcc::measurement;

    fn measured(engine: Engine, round: u32, nopm: f64) -> Measured {
        let mut measured = measurement(engine, round, 1);
        measured.warm_up = WarmUp { seconds: 70.0, steady: Some(true) };
        let cell = &mut measured.cell;
        cell.add([
            ("seconds", 60.0),
            ("nopm", nopm),
            ("tpm", 2.2 * nopm),
            ("failed_percent", 0.1),
            ("server_cpu_us", 1e7 / nopm),
            ("after_cpu_us", 3.0),
            ("other_cpus", 0.05),
            ("client_cpus", 0.2),
            ("resident_bytes", f64::from(300 << 20)),
            ("written_bytes", f64::from(1 << 30)),
            ("data_bytes", (4u64 << 30) as f64),
            ("log_bytes", f64::from(100 << 20)),
            (CHECK, 3.0),
        ]);
        for transaction in Transaction::ALL {
            let figures = [
                ("calls", 1000.0),
                ("min_ms", 0.5),
                ("avg_ms", 2.0),
                ("p50_ms", 1.5),
                ("p95_ms", 4.0),
                ("p99_ms", 1e5 / nopm),
                ("max_ms", 50.0 + f64::from(round)),
                ("sd_ms", 1.0),
                ("percent", 20.0),
                ("rolled_back", 10.0),
                ("failed_1213", 3.0),
            ];
            cell.add(figures.map(|(figure, value)| (name(transaction, figure), value)));
        }
        measured
    }

    fn design() -> Design {
        Design {
            engines: vec![Engine::TidesDb, Engine::InnoDb],
            rounds: 2,
            scale: Scale::full(40),
            users: 8,
            build_users: 8,
            ramp_up_s: 30,
            ramp_up_limit_s: 180,
            duration_s: 60,
            settle_s: 5,
            seed: 1,
            options: Some("tpcc-small-64M.cnf".to_string()),
            memory_scale: 1.0,
        }
    }

    fn benchmark(design: Design, change: impl FnOnce(&mut Record)) -> Benchmark {
        let loaded = Loaded {
            engine: Engine::TidesDb,
            rows: 20_000_000,
            seconds: 100.0,
            analyzed: Analyzed { tables: 9, seconds: 1.5 },
            server_cpu_s: 150.0,
            space: Space { data_bytes: 3 << 30, log_bytes: 0 },
        };
        let mut record = Record {
            loads: vec![loaded],
            cells: vec![
                measured(Engine::TidesDb, 1, 20_000.0),
                measured(Engine::InnoDb, 1, 10_000.0),
                measured(Engine::InnoDb, 2, 10_000.0),
                measured(Engine::TidesDb, 2, 18_000.0),
            ],
            ..Record::default()
        };
        change(&mut record);
        let mut run = Run::new("tpcc", "", "tpcc");
        run.started_unix_s = 1_790_000_000;
        run.machine = Some(machine());
        Tpcc::benchmark(run, design, record, 500.0)
    }

    #[test]
    fn files_are_those_of_earlier_versions() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = |record: &mut Record| {
            record.servers.insert(Engine::TidesDb, server());
            for measured in &mut record.cells {
                for at in [1.5, 2.5] {
                    let second = vec![at, 20_000.5, 44_000.0, 0.25, 1.5, f64::from(300 << 20)];
                    measured.seconds.rows.push(second);
                }
            }
        };
        let run = benchmark(design(), seconds);
        same_as_before("tpcc", &write(&run, &folder.path().join("a")).unwrap());

        let other = Design { memory_scale: 0.6, options: None, ..design() };
        let mut run = benchmark(other, |record| {
            seconds(record);
            let cells = &mut record.cells;
            cells[3].cell.failures.push("condition 1: x".to_string());
            cells[3].cell.figures.clear();
            cells[0].cell.failures.push("condition 3: y".to_string());
            cells[1].warm_up.steady = None;
            cells[2].warm_up.steady = Some(false);
            cells[1].cell.add([("other_cpus", 0.75), ("PAYMENT_failed_1205", 2.0)]);
            record.ended_early = Some("the server ended".to_string());
        });
        run.short_run = true;
        same_as_before("tpcc-failed", &write(&run, &folder.path().join("b")).unwrap());
    }

    #[test]
    fn the_table_of_a_small_run() {
        let text = render(&benchmark(design(), |_| {}), false);
        for part in [
            "TPC-C after HammerDB: 40 warehouses, 8 users, 60 s after a ramp-up of 30 to 180 s, until steady, 2 rounds interleaved",
            "Settings: tpcc-small-64M.cnf; a server for each engine",
            "TidesDB     19,000 (18,000 - 20,000)     1.90   (0.68 - 5.26)    41,800",
            "NEWORD      TidesDB      2,000       6    20.0      2.00      1.50      4.00",
            "           InnoDB",
            "OSTAT       TidesDB",
            "loaded TidesDB   20,000,000 rows in  100.0 s (  200,000 rows/s, 7.5 us CPU a row), 3072 MB, ANALYZE TABLE 1.5 s",
            "After each of 4 runs conditions 1 to 12 hold",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
        assert!(!text.contains("FAILED") && !text.contains('\x1b') && !text.contains("scaled by"));
    }

    #[test]
    fn a_run_that_was_not_steady_is_named_by_its_engine() {
        let run = benchmark(design(), |record| record.cells[2].warm_up.steady = Some(false));
        let text = render(&run, false);
        assert!(text.contains("Not steady at the limit of the warm-up: InnoDB (round 2)."), "{text}");
    }

    #[test]
    fn a_violation_takes_the_figures_of_its_engine() {
        let run = benchmark(Design { memory_scale: 0.6, ..design() }, |record| {
            record.cells[0].cell.failures.push("condition 3: district 1: there are gaps".to_string());
        });
        assert!(!run.good());
        let text = render(&run, true);
        assert!(text.contains("\x1b[31mFAILED, see below"), "{text}");
        assert!(text.contains("FAILED TidesDB, round 1: condition 3"));
        assert!(!text.contains("19,000") && text.contains("scaled by 0.60"));
        let summary = run.summary();
        let lines = run.lines(&summary);
        assert_eq!(lines[0].failures, ["round 1: condition 3: district 1: there are gaps"]);
        assert!(lines[0].spread("nopm").is_none() && lines[1].spread("nopm").is_some());
    }
}
