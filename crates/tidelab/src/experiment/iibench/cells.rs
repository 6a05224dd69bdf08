//! Measured tasks in the form of kept runs.

use std::collections::BTreeMap;
use std::path::Path;

use tidelab_server::error::Result;
use tidelab_server::telemetry::disk::Space;
use tidelab_server::workload::iibench::counts::{Group, Kind};
use tidelab_server::workload::iibench::lines::counted;
use tidelab_server::workload::iibench::queries::Query;
use tidelab_server::workload::iibench::queue::Task;
use tidelab_server::workload::iibench::runner::Measured;
use tidelab_server::workload::iibench::windows::{Flatness, WINDOW_S};

use crate::run::{Axis, Better, Cell, Metric, Role, Series};

/// The phase of a task, a value of the axis of phases.
pub fn phase(task: &Task) -> &'static str {
    if task.writers.delete && task.writers.threads > 0 {
        "delete"
    } else if task.queries.threads == 0 {
        "load"
    } else if task.writers.threads == 0 {
        "query"
    } else {
        "mixed"
    }
}

/// The labels of the cells.
pub fn axes<T: ToString>(engines: &[T], phases: &[&str]) -> Vec<Axis> {
    vec![
        Axis::new("engine", "Engine", Role::Competitor, engines),
        Axis::new("phase", "Phase", Role::Category, phases),
    ]
}

/// The figures of the cells.
pub fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    let mut all = vec![
        Metric::main("inserts_per_s", "Rows inserted", "1/s", Higher),
        Metric::main("insert_p50_ms", "Insert, median", "ms", Lower),
        Metric::main("insert_p99_ms", "Insert, 99 %", "ms", Lower),
        Metric::main("queries_per_s", "Queries", "1/s", Higher),
        Metric::main("query_p50_ms", "Query, median", "ms", Lower),
        Metric::main("query_p99_ms", "Query, 99 %", "ms", Lower),
        Metric::main("deletes_per_s", "Rows deleted", "1/s", Higher),
        Metric::main("delete_p99_ms", "Delete, 99 %", "ms", Lower),
        Metric::main("delete_windows_ratio", "Worst window of deletes against the median", "", Lower),
        Metric::main("server_cpu_us", "Server CPU for an inserted row", "us", Lower),
        Metric::detail("seconds_s", "Duration", "s", Neither),
        Metric::detail("analyze_s", "ANALYZE TABLE after the load", "s", Neither),
        Metric::detail("delete_p50_ms", "Delete, median", "ms", Lower),
    ];
    for (name, title) in [("insert", "Insert"), ("query", "Query"), ("delete", "Delete")] {
        for (figure, what, unit, better) in [
            ("p999_ms", "99.9 %", "ms", Lower),
            ("max_ms", "longest", "ms", Lower),
            ("service_p50_ms", "median from its real begin", "ms", Lower),
            ("service_p99_ms", "99 % from its real begin", "ms", Lower),
            ("given_up", "slots given up", "", Lower),
            ("failed", "failed", "", Lower),
        ] {
            all.push(Metric::detail(&format!("{name}_{figure}"), &format!("{title}, {what}"), unit, better));
        }
    }
    for query in Query::ALL.map(Query::name) {
        all.push(Metric::detail(&format!("{query}_p50_ms"), &format!("{query}, median"), "ms", Lower));
        all.push(Metric::detail(&format!("{query}_p99_ms"), &format!("{query}, 99 %"), "ms", Lower));
    }
    for (name, title) in [("insert", "inserts"), ("delete", "deletes")] {
        let metric = |figure: &str, what: &str, unit: &str| {
            Metric::detail(&format!("{name}_{figure}"), &format!("{what} of {title}"), unit, Lower)
        };
        all.push(metric("median_window_ms", "Median of the worst of each ten seconds", "ms"));
        all.push(metric("worst_window_ms", "Worst of all", "ms"));
        if name == "insert" {
            all.push(metric("windows_ratio", "Worst window against the median", ""));
        }
        all.push(Metric::detail(
            &format!("{name}s_slowest_window_per_s"),
            &format!("Slowest ten seconds of {title}"),
            "1/s",
            Higher,
        ));
    }
    all.extend([
        Metric::detail("after_cpu_us", "Server CPU for an inserted row after the load", "us", Lower),
        Metric::detail("server_cpus", "CPUs that the server took", "", Lower),
        Metric::detail("client_cpus", "CPUs that the clients took", "", Neither),
        Metric::detail("other_cpus", "CPUs that neither took", "", Neither),
        Metric::detail("resident_bytes", "Resident memory, largest", "B", Lower),
        Metric::detail("written_bytes", "Written to the device", "B", Lower),
        Metric::detail("data_bytes", "Tables on the disk", "B", Lower),
        Metric::detail("log_bytes", "Logs on the disk", "B", Lower),
    ]);
    all
}

/// Puts the measurements into a cell, and its series into the cell's folder.
pub fn fill(cell: &mut Cell, measured: &Measured, space: Option<Space>, folder: &Path) -> Result<()> {
    let outcome = &measured.outcome;
    let seconds = outcome.seconds.max(1e-3);
    cell.failures.extend(measured.failures.iter().cloned());
    cell.figure("seconds_s", outcome.seconds);
    if let Some(analyzed) = measured.analyzed {
        cell.figure("analyze_s", analyzed.seconds);
    }
    for group in Group::ALL {
        let counts = outcome.total.group(group);
        let number = counted(group, &counts);
        if counts.latencies.count() == 0 && counts.failed() == 0 {
            continue;
        }
        let name = group.name();
        let plural = match group {
            Group::Insert => "inserts",
            Group::Query => "queries",
            Group::Delete => "deletes",
        };
        cell.figure(&format!("{plural}_per_s"), number as f64 / seconds);
        for (figure, share) in [("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)] {
            cell.figure(&format!("{name}_{figure}"), counts.latencies.within_ms(share));
        }
        cell.figure(&format!("{name}_max_ms"), counts.latencies.figures().max_ms);
        cell.figure(&format!("{name}_service_p50_ms"), counts.service.within_ms(0.5));
        cell.figure(&format!("{name}_service_p99_ms"), counts.service.within_ms(0.99));
        cell.figure(&format!("{name}_given_up"), counts.given_up as f64);
        cell.figure(&format!("{name}_failed"), counts.failed() as f64);
        cell.histograms.insert(format!("{name}_us"), counts.latencies.kept());
        cell.histograms.insert(format!("{name}_service_us"), counts.service.kept());
    }
    for query in Query::ALL {
        if let Some(counts) = outcome.total.get(Kind::Query(query)) {
            cell.figure(&format!("{}_p50_ms", query.name()), counts.latencies.within_ms(0.5));
            cell.figure(&format!("{}_p99_ms", query.name()), counts.latencies.within_ms(0.99));
            cell.histograms.insert(format!("{}_us", query.name()), counts.latencies.kept());
        }
    }
    for (group, name) in [(Group::Insert, "insert"), (Group::Delete, "delete")] {
        let flatness = flatness(measured, group);
        if let Some(flatness) = flatness {
            cell.figure(&format!("{name}_median_window_ms"), flatness.median_ms);
            cell.figure(&format!("{name}_worst_window_ms"), flatness.worst_ms);
            cell.figure(&format!("{name}_windows_ratio"), flatness.ratio);
        }
        let rates = measured.rates.get(&group).map_or(&[][..], Vec::as_slice);
        if let Some(slowest) = rates.iter().map(|(_, rate)| *rate).reduce(f64::min).filter(|r| *r > 0.0) {
            cell.figure(&format!("{name}s_slowest_window_per_s"), slowest);
        }
    }
    let (begin, end) = (&outcome.begin, &outcome.end);
    let client = outcome.client_cpu_s / seconds;
    cell.figure("client_cpus", client);
    // Without a process of the server there is nothing to say of it.
    if end.server.resident_bytes > 0 {
        let rows = outcome.total.group(Group::Insert).rows as f64;
        let server = end.server.cpu_s - begin.server.cpu_s;
        let machine = end.machine_cpu_s - begin.machine_cpu_s;
        cell.figure("server_cpus", server / seconds);
        cell.figure("other_cpus", (machine / seconds - server / seconds - client).max(0.0));
        cell.figure("server_cpu_us", server * 1e6 / rows);
        cell.figure("after_cpu_us", measured.after_cpu_s.unwrap_or(f64::NAN) * 1e6 / rows);
        cell.figure("resident_bytes", outcome.resident_bytes as f64);
        cell.figure(
            "written_bytes",
            end.server.written_bytes.saturating_sub(begin.server.written_bytes) as f64,
        );
    }
    if let Some(space) = space {
        cell.figure("data_bytes", space.data_bytes as f64);
        cell.figure("log_bytes", space.log_bytes as f64);
    }
    measured.series.write(&folder.join("seconds.csv"))?;
    windows(measured).write(&folder.join("windows.csv"))?;
    cell.series.extend(["seconds.csv", "windows.csv"].map(str::to_string));
    Ok(())
}

/// The flatness of a group's latencies over a task.
pub fn flatness(measured: &Measured, group: Group) -> Option<Flatness> {
    Flatness::of(measured.windows.get(&group)?, measured.outcome.seconds)
}

/// The worst latency and the rate of each ten seconds, as a table.
fn windows(measured: &Measured) -> Series {
    let mut series = Series::new([
        "insert_worst_ms",
        "query_worst_ms",
        "delete_worst_ms",
        "inserts_per_s",
        "queries_per_s",
        "deletes_per_s",
    ]);
    let count = (measured.outcome.seconds / WINDOW_S).ceil() as usize;
    for n in 1..=count {
        let end = n as f64 * WINDOW_S;
        let of = |windows: &BTreeMap<Group, Vec<(f64, f64)>>, group: Group| {
            let windows = windows.get(&group).map_or(&[][..], Vec::as_slice);
            windows.iter().find(|(at, _)| *at == end).map_or(f64::NAN, |(_, value)| *value)
        };
        let worst = Group::ALL.map(|group| of(&measured.windows, group));
        let rates = Group::ALL.map(|group| of(&measured.rates, group));
        if worst.iter().any(|value| value.is_finite()) {
            series.rows.push([&[end][..], &worst, &rates].concat());
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_one_name_that_ends_with_its_unit() {
        let metrics = metrics();
        let mut names: Vec<&str> = metrics.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        for metric in &metrics {
            let ending = match metric.unit.as_str() {
                "ms" => "_ms",
                "us" => "_us",
                "s" => "_s",
                "1/s" => "_per_s",
                "B" => "_bytes",
                _ => "",
            };
            assert!(metric.name.ends_with(ending), "{}", metric.name);
        }
    }
}
