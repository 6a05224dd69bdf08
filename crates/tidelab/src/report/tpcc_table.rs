//! The table at the end of a TPC-C run, and the run as it is written to JSON.

use serde::Serialize;
use tidelab_server::telemetry::machine::Machine;

use super::result::SCHEMA_VERSION;
use super::table::{
    grouped, machine_line, megabytes, middle, no_figures, ratio, rounds_line, unsteady_line, until_steady,
    Paint, OTHER_CPUS, SHORT_RUN,
};
use crate::measure::summary::reference;
use crate::measure::tpcc::{Design, Record};
use crate::measure::tpcc_summary::{lines, Line};

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct TpccResult {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What its files are called.
    pub name: String,
    /// The run is too short to be a measurement, as that of `make demo`.
    pub short_run: bool,
    /// The laboratory's version.
    pub tidelab: String,
    /// Seconds since 1970 at the start.
    pub started_unix_s: u64,
    /// How long it took.
    pub took_s: f64,
    /// The machine.
    pub machine: Machine,
    /// What was to be measured.
    pub design: Design,
    /// What the rounds say together.
    pub summary: Vec<Line>,
    /// Every load and run.
    #[serde(flatten)]
    pub record: Record,
}

impl TpccResult {
    /// From what was recorded; a measurement, until `short_run` says otherwise.
    pub fn new(
        name: &str,
        design: Design,
        record: Record,
        machine: Machine,
        started_unix_s: u64,
        took_s: f64,
    ) -> TpccResult {
        TpccResult {
            schema_version: SCHEMA_VERSION,
            name: name.to_string(),
            short_run: false,
            tidelab: env!("CARGO_PKG_VERSION").to_string(),
            started_unix_s,
            took_s,
            machine,
            summary: lines(&record.cells, &design.engines),
            design,
            record,
        }
    }

    /// Everything was measured and passed its checks.
    pub fn good(&self) -> bool {
        self.record.ended_early.is_none() && self.record.cells.iter().all(|c| c.counts())
    }
}

/// The table; with `color`, failures are red and differences that count green or yellow.
pub fn render(run: &TpccResult, color: bool) -> String {
    let paint = Paint(color);
    let mut text = String::new();
    let mut line = |s: String| {
        text.push_str(s.trim_end());
        text.push('\n');
    };
    let design = &run.design;
    line(format!(
        "TPC-C after HammerDB: {} warehouses, {} users, {} s after a ramp-up of {}, {} round{} interleaved",
        design.scale.warehouses,
        design.users,
        design.duration_s,
        until_steady(design.ramp_up_s, design.ramp_up_limit_s),
        design.rounds,
        if design.rounds == 1 { "" } else { "s" }
    ));
    let scaled = if design.memory_scale < 1.0 {
        format!(", memory scaled by {:.2}", design.memory_scale)
    } else {
        String::new()
    };
    line(format!(
        "Settings: {}{scaled}; a server for each engine",
        design.options.as_deref().unwrap_or("tidelab's")
    ));
    let version = run.record.servers.values().next().map_or("", |s| s.version.as_str());
    line(machine_line(version, &run.machine));
    line(String::new());
    let versus = reference(&design.engines).map_or("", |e| e.name());
    line(format!(
        "{:<8} {:>27}   {:>22} {:>9}  {:>16} {:>7} {:>8} {:>8} {:>8}",
        "",
        "new orders/min (NOPM)",
        format!("ratio to {versus}"),
        "",
        "CPU us/transact.",
        "failed",
        "memory",
        "files",
        "written"
    ));
    line(format!(
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
    ));
    for l in &run.summary {
        line(engine_line(l, &paint));
    }
    if let Some(text) = rounds_line(run.summary.iter().filter_map(|l| Some((l.ratio?, l.rounds)))) {
        line(text);
    }
    line(String::new());
    line(format!(
        "{:<11}{:<8} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   {:>22}",
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
        format!("p99, ratio to {versus}")
    ));
    for transaction in tidelab_server::workload::tpcc::Transaction::ALL {
        let mut name = transaction.name();
        for l in &run.summary {
            let Some(t) = l.transactions.get(transaction.index()) else { continue };
            line(format!(
                "{name:<11}{:<8} {:>9} {:>7} {:>7.1} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.1} {:>9.2}   {}",
                l.engine,
                grouped(t.calls as f64),
                grouped(t.failed as f64),
                t.time_percent,
                t.average_ms,
                t.p50_ms,
                t.p95_ms,
                t.p99_ms,
                t.max_ms,
                t.sd_ms,
                // A lower latency is the better one: no colours that say the opposite.
                ratio(t.p99_ratio, &Paint(false))
            ));
            name = "";
        }
    }
    if !run.record.loads.is_empty() {
        line(String::new());
        for l in &run.record.loads {
            line(format!(
                "loaded {:<8} {:>11} rows in {:>6.1} s ({:>9} rows/s, {:.1} us CPU a row), {:.0} MB, \
                 ANALYZE TABLE {:.1} s",
                l.engine,
                grouped(l.rows as f64),
                l.seconds,
                grouped(l.rows as f64 / l.seconds.max(1e-3)),
                l.server_cpu_s * 1e6 / (l.rows as f64).max(1.0),
                megabytes(l.space.data_bytes + l.space.log_bytes),
                l.analyzed.seconds
            ));
        }
    }
    let checked = run.record.cells.iter().filter(|c| c.counts()).count();
    if checked > 0 {
        line(String::new());
        line(format!(
            "After each of {checked} runs conditions 1 to 12 hold, stock and order lines agree, and the order \
             numbers given out are the new orders that clients were told of."
        ));
    }
    let other = run.summary.iter().map(|l| l.other_cpus).fold(0.0, f64::max);
    if other > OTHER_CPUS {
        line(paint.yellow(&format!(
            "Other work took up to {other:.1} CPUs meanwhile: the ratios hold, the absolute figures are too low."
        )));
    }
    let unsteady = run.record.cells.iter().filter(|c| c.counts() && c.warm_up.is_unsteady());
    if let Some(text) = unsteady_line(unsteady.map(|c| format!("{} (round {})", c.engine, c.round))) {
        line(paint.yellow(&text));
    }
    for l in &run.summary {
        for failure in &l.failures {
            line(paint.red(&format!("FAILED {}, {failure}", l.engine)));
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

fn engine_line(l: &Line, paint: &Paint) -> String {
    let (Some(nopm), Some(tpm)) = (l.nopm, l.tpm) else {
        return format!("{:<8} {}", l.engine, no_figures(&l.failures, paint));
    };
    format!(
        "{:<8} {:>9} {:>17}   {} {:>9}  {:>8.0} {:>7.0} {:>7.2} {:>8.0} {:>8.0} {:>8.1}",
        l.engine,
        grouped(nopm.median),
        format!("({} - {})", grouped(nopm.min), grouped(nopm.max)),
        ratio(l.ratio, paint),
        grouped(tpm.median),
        middle(l.server_cpu_us),
        middle(l.after_cpu_us),
        middle(l.failed_percent),
        megabytes(l.resident_bytes),
        middle(l.space_bytes) / f64::from(1 << 20),
        middle(l.written_per_transaction) / 1024.0
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use tidelab_server::server::analyze::Analyzed;
    use tidelab_server::server::engine::Engine;
    use tidelab_server::telemetry::disk::Space;
    use tidelab_server::workload::tpcc::Scale;

    use super::*;
    use crate::measure::tpcc::Loaded;
    use crate::measure::tpcc_summary::tests::cell;

    /// A small run of two rounds.
    pub(crate) fn sample() -> TpccResult {
        let engines = vec![Engine::TidesDb, Engine::InnoDb];
        let design = Design {
            engines,
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
        };
        let space = Space { data_bytes: 3 << 30, log_bytes: 0 };
        let analyzed = Analyzed { tables: 9, seconds: 1.5 };
        let loaded = Loaded {
            engine: Engine::TidesDb,
            rows: 20_000_000,
            seconds: 100.0,
            analyzed,
            server_cpu_s: 150.0,
            space,
        };
        let record = Record {
            loads: vec![loaded],
            cells: vec![
                cell(Engine::TidesDb, 1, 20_000.0),
                cell(Engine::InnoDb, 1, 10_000.0),
                cell(Engine::InnoDb, 2, 10_000.0),
                cell(Engine::TidesDb, 2, 18_000.0),
            ],
            servers: BTreeMap::new(),
            files: Vec::new(),
            ended_early: None,
        };
        let machine = crate::report::result::tests::machine();
        TpccResult::new("tpcc", design, record, machine, 1_790_000_000, 500.0)
    }

    #[test]
    fn the_table_of_a_small_run() {
        let text = render(&sample(), false);
        for part in [
            "TPC-C after HammerDB: 40 warehouses, 8 users, 60 s after a ramp-up of 30 to 180 s, until steady, 2 rounds interleaved",
            "Settings: tpcc-small-64M.cnf; a server for each engine",
            "TidesDB     19,000 (18,000 - 20,000)     1.90   (0.68 - 5.26)    41,800",
            "NEWORD     TidesDB      2,000       6    20.0      2.00      1.50      4.00",
            "           InnoDB",
            "OSTAT      TidesDB",
            "loaded TidesDB   20,000,000 rows in  100.0 s (  200,000 rows/s, 7.5 us CPU a row), 3072 MB, ANALYZE TABLE 1.5 s",
            "After each of 4 runs conditions 1 to 12 hold",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
        assert!(!text.contains("FAILED") && !text.contains('\x1b') && !text.contains("scaled by"));
    }

    #[test]
    fn a_short_run_and_runs_that_were_not_steady_are_named() {
        let mut run = sample();
        let text = render(&run, false);
        assert!(!text.contains("short run") && !text.contains("Not steady"), "{text}");
        run.record.cells[2].warm_up.steady = Some(false);
        run.short_run = true;
        let text = render(&run, false);
        assert!(text.contains("Not steady at the limit of the warm-up: InnoDB (round 2)."), "{text}");
        assert!(text.lines().last().unwrap().starts_with("This is a short run, not a measurement"), "{text}");
    }

    #[test]
    fn a_run_that_failed_shows_no_figures() {
        let mut run = sample();
        run.record.cells[0].failures.push("condition 3: district 1: there are gaps".to_string());
        run.design.memory_scale = 0.6;
        let run = TpccResult::new("tpcc", run.design, run.record, run.machine, 0, 1.0);
        assert!(!run.good());
        let text = render(&run, true);
        assert!(text.contains("\x1b[31mFAILED, see below"), "{text}");
        assert!(text.contains("FAILED TidesDB, round 1: condition 3"));
        assert!(!text.contains("19,000") && text.contains("scaled by 0.60"));
    }
}
