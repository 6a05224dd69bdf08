//! The rates of driver and server without an engine, for one run. [`crate::doctor::driver`] measures them
//! once, before the run's first cell.

use std::collections::BTreeMap;

use tidelab_server::error::{Error, Result};

use crate::doctor::ceiling::{Ceiling, Ceilings, Driver};
use crate::doctor::driver::{self, Effort, Loads, BLACKHOLE, CALL, MEMORY};
use crate::run::bound::Driven;
use crate::run::Paths;
use crate::run::{Bound, Run, Unbounded};

/// Measured seconds of each load; one before them does not count.
const SECONDS: u32 = 2;

/// Measures the wanted loads and puts them into the run. A failed load is a note of the run and ends nothing:
/// the cells are right without it. Errors: an interrupt, those of files.
pub fn measure(wanted: &[Unbounded], paths: Paths<'_>, run: &mut Run) -> Result<()> {
    if wanted.is_empty() || !run.bounds.is_empty() {
        return Ok(());
    }
    for (clients, loads) in by_clients(wanted) {
        eprintln!("what driver and server reach without an engine, {clients} clients");
        let effort = Effort { threads: clients, seconds: SECONDS };
        let directory = paths.data.join("server");
        match driver::measure(paths.prefix, &directory, effort, &loads, paths.interrupt, |_| {}) {
            Ok(measured) => run.bounds.extend(bounds(wanted, &measured)),
            Err(error @ (Error::Interrupted | Error::Io { .. })) => return Err(error),
            Err(error) => {
                let text =
                    format!("how fast {clients} clients go without an engine was not measured: {error}");
                eprintln!("{text}");
                if !run.notes.contains(&text) {
                    run.notes.push(text);
                }
            }
        }
    }
    Ok(())
}

/// One server for each number of clients, upwards.
fn by_clients(wanted: &[Unbounded]) -> BTreeMap<u32, Loads> {
    let mut all = BTreeMap::new();
    for one in wanted {
        let none = || Loads { statements: false, calls: false, workloads: Vec::new(), inserts: Vec::new() };
        let loads: &mut Loads = all.entry(one.clients).or_insert_with(none);
        match one.driven {
            Driven::Call => loads.calls = true,
            Driven::Sysbench(workload) if !loads.workloads.contains(&workload) => {
                loads.workloads.push(workload);
            }
            Driven::Inserts(inserts) if !loads.inserts.contains(&inserts) => loads.inserts.push(inserts),
            Driven::Sysbench(_) | Driven::Inserts(_) => {}
        }
    }
    all
}

fn bounds(wanted: &[Unbounded], measured: &Ceilings) -> Vec<Bound> {
    let clients = measured.threads;
    let mut all = Vec::new();
    for one in wanted.iter().filter(|one| one.clients == clients) {
        let bound = |ceiling: &Ceiling, metric: &str, what: String, value: f64| Bound {
            labels: one.labels.clone(),
            metric: metric.to_string(),
            what,
            value,
            driver_cpu_us: ceiling.driver_cpu_us,
            server_cpu_us: ceiling.server_cpu_us,
        };
        match one.driven {
            Driven::Call => all.extend(measured.of(Driver::Client, CALL, "").map(|found| {
                let what = format!("calls of an empty procedure, {clients} clients");
                bound(found, "tpm", what, found.transactions_per_s * 60.0)
            })),
            Driven::Inserts(inserts) => {
                all.extend(measured.of(Driver::Client, &inserts.to_string(), BLACKHOLE).map(|found| {
                    let what = format!("{inserts} on {BLACKHOLE}, {clients} clients");
                    let rows_per_s = found.statements_per_s * f64::from(inserts.rows);
                    bound(found, "inserts_per_s", what, rows_per_s)
                }));
            }
            Driven::Sysbench(workload) => {
                for engine in [BLACKHOLE, MEMORY] {
                    all.extend(measured.of(Driver::Sysbench, workload.name(), engine).map(|found| {
                        let what = format!("sysbench {workload} on {engine}, {clients} clients");
                        bound(found, "transactions_per_s", what, found.transactions_per_s)
                    }));
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use tidelab_server::workload::iibench::alone::Inserts;
    use tidelab_server::workload::iibench::schema::Shape;
    use tidelab_server::workload::sysbench::Workload;

    use super::*;
    use crate::doctor::ceiling::tests::ceilings;

    #[test]
    fn each_load_is_measured_once_for_each_number_of_clients() {
        let of = |rows: &str, workload, clients| {
            Unbounded::new([("table_size", rows.to_string())], Driven::Sysbench(workload), clients)
        };
        let wanted = [
            of("10", Workload::PointSelect, 8),
            of("20", Workload::PointSelect, 8),
            of("10", Workload::Insert, 1),
            Unbounded::new([], Driven::Call, 8),
        ];
        let all = by_clients(&wanted);
        assert_eq!(all.keys().copied().collect::<Vec<u32>>(), [1, 8]);
        assert_eq!((all[&8].workloads.as_slice(), all[&8].calls), (&[Workload::PointSelect][..], true));
        assert_eq!((all[&1].workloads.as_slice(), all[&1].calls), (&[Workload::Insert][..], false));
        // The sample's ceilings are those of 8 clients.
        let bounds = bounds(&wanted, &ceilings());
        let told: Vec<(&str, f64)> = bounds.iter().map(|b| (b.what.as_str(), b.value)).collect();
        assert_eq!(
            told,
            [
                ("sysbench point_select on BLACKHOLE, 8 clients", 50_000.0),
                ("sysbench point_select on MEMORY, 8 clients", 40_000.0),
                ("sysbench point_select on BLACKHOLE, 8 clients", 50_000.0),
                ("sysbench point_select on MEMORY, 8 clients", 40_000.0),
            ]
        );
        assert_eq!(bounds[2].labels["table_size"], "20");
    }

    #[test]
    fn the_insert_benchmark_is_told_in_rows() {
        let shape = Shape { secondary_indexes: 3, char_fields: 1, char_length: 15, percent_compressible: 50 };
        let inserts = Inserts { shape, rows: 50 };
        let of = |phase: &str| Unbounded::new([("phase", phase.to_string())], Driven::Inserts(inserts), 8);
        let wanted = [of("load"), of("delete")];
        assert_eq!(by_clients(&wanted)[&8].inserts, [inserts], "once for both");
        let mut measured = ceilings();
        let found = Ceiling {
            driver: Driver::Client,
            load: inserts.to_string(),
            engine: BLACKHOLE.to_string(),
            statements_per_s: 2_000.0,
            ..measured.ceilings[0].clone()
        };
        measured.ceilings.push(found);
        let bounds = bounds(&wanted, &measured);
        let told: Vec<_> = bounds.iter().map(|b| (&*b.labels["phase"], &*b.metric, b.value)).collect();
        assert_eq!(told, [("load", "inserts_per_s", 100_000.0), ("delete", "inserts_per_s", 100_000.0)]);
        assert_eq!(
            bounds[0].what,
            "inserts of 50 rows, 3 indexes, 1 x 15 characters on BLACKHOLE, 8 clients"
        );
    }
}
