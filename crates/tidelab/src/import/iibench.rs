//! Tables of an insert benchmark as a run: a head, and a line with tabs for each interval.
//!
//! Two forms are read. One is the form of `tidelab iibench`. The other is the published tool's (elapsed
//! seconds, inserts, rates, percentiles, errors): its columns are told apart by the words in their names.
//!
//! A percentile of an interval says nothing exact about the whole phase. The cells have the mean and the
//! worst over the intervals, and the names say so.

use std::collections::BTreeMap;

use tidelab_server::error::Result;

use super::names::{FileLabels, Pattern, Words};
use super::source::{Files, InputFile};
use super::sysbench::{add_as_round, axes, competitor, labelled};
use super::{id, Imported, ImportedCell, Kind, NO_FIT};
use crate::run::{Better, Cell, Metric, Series};

/// A kind of operation with its own counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Insert,
    Query,
    Delete,
}

impl Group {
    const ALL: [Group; 3] = [Group::Insert, Group::Query, Group::Delete];

    fn name(self) -> &'static str {
        match self {
            Group::Insert => "insert",
            Group::Query => "query",
            Group::Delete => "delete",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Group::Insert => "inserts",
            Group::Query => "queries",
            Group::Delete => "deletes",
        }
    }
}

/// The contents of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    /// The number since the start.
    Total,
    /// The number since the line before.
    Interval,
    /// The number a second since the line before.
    Rate,
    /// A percentile of the interval, and the factor to milliseconds.
    Percentile(&'static str, f64),
    /// Errors since the start.
    ErrorsTotal,
    /// Errors since the line before.
    Errors,
}

/// The contents of a column by its name; none for another name.
fn meaning(column: &str) -> Option<(Group, Holds)> {
    let plain = column.trim().to_ascii_lowercase().replace(['-', ' ', '/'], "_").replace("p99.9", "p999");
    let words: Vec<&str> = plain.split('_').filter(|w| !w.is_empty()).collect();
    let has = |any: &[&str]| words.iter().any(|w| any.contains(w));
    if has(&["service", "given"]) {
        return None;
    }
    let query = has(&["q", "qry", "query", "queries", "qps"]);
    let delete = has(&["d", "del", "delete", "deletes", "dps"]);
    let insert = has(&["i", "ins", "insert", "inserts", "rows", "ips"]);
    let group = match (query, delete) {
        (true, false) => Group::Query,
        (false, true) => Group::Delete,
        (false, false) => Group::Insert,
        (true, true) => return None,
    };
    let millis = if has(&["us", "usec"]) {
        1e-3
    } else if words.last() == Some(&"s") && !has(&["per"]) {
        1e3
    } else {
        1.0
    };
    let percentile = ["p50", "p99", "p999"].into_iter().find(|p| words.contains(p));
    let whole = has(&["cum", "total", "all"]);
    let rate = has(&["per", "rate", "ips", "qps", "dps", "persec", "sec"]);
    let holds = if let Some(percentile) = percentile {
        Holds::Percentile(percentile, millis)
    } else if has(&["errors", "error", "errs", "err", "failed", "failures"]) {
        // Without a word that says since when, a count of errors is one of all so far.
        if has(&["int", "interval"]) || column.starts_with(group.plural()) && !whole {
            Holds::Errors
        } else {
            Holds::ErrorsTotal
        }
    } else if !(insert || query || delete) {
        return None;
    } else if rate {
        if whole || has(&["avg"]) {
            return None;
        }
        Holds::Rate
    } else if has(&["int", "interval"]) {
        Holds::Interval
    } else if has(&["max", "min", "mean", "avg", "ms", "us", "latency"]) {
        return None;
    } else {
        Holds::Total
    };
    Some((group, holds))
}

/// True if a text is a table of the benchmark, or its list of errors.
pub fn is_one(text: &str) -> bool {
    text.lines().next().is_some_and(|head| head.starts_with("elapsed") && head.contains('\t'))
}

/// True if a text is a table's list of errors.
fn is_errors(text: &str) -> bool {
    let head = text.lines().next().unwrap_or_default();
    head.contains("\tkind\tcode")
}

fn known_metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    let mut all = Vec::new();
    for group in Group::ALL {
        let (name, plural) = (group.name(), group.plural());
        let what = match group {
            Group::Insert => "Rows inserted",
            Group::Query => "Queries",
            Group::Delete => "Rows deleted",
        };
        all.push(Metric::main(&format!("{plural}_per_s"), what, "1/s", Higher));
        for (figure, title, is_main) in [
            ("p50_mean_ms", "median, mean of the intervals", true),
            ("p99_mean_ms", "99 %, mean of the intervals", false),
            ("p99_median_ms", "99 %, median of the intervals", true),
            ("p99_worst_ms", "99 %, worst interval", true),
            ("p999_worst_ms", "99.9 %, worst interval", false),
        ] {
            let make = if is_main { Metric::main } else { Metric::detail };
            all.push(make(&format!("{name}_{figure}"), &format!("{name}, {title}"), "ms", Lower));
        }
        all.push(Metric::detail(&format!("{name}_failed"), &format!("{name}, failed"), "", Lower));
        all.push(Metric::detail(plural, &format!("{what} in all"), "", Neither));
        let least = format!("{plural}_least_per_s");
        all.push(Metric::detail(&least, &format!("{what}, slowest interval"), "1/s", Higher));
    }
    all.push(Metric::detail("seconds_s", "Duration", "s", Neither));
    all
}

/// Makes a run of the tables. A list of errors goes into the cell of its table.
pub fn import(files: Files, pattern: Option<&Pattern>) -> Result<Imported> {
    let mut imported = Imported::new("iibench", "Results of an insert benchmark", Kind::Iibench);
    imported.run.about = "Tables by interval as they are. Percentiles are those of intervals: their mean, \
        median or worst, as the names say."
        .to_string();
    let mut tables = Vec::new();
    let mut errors: BTreeMap<String, InputFile> = BTreeMap::new();
    for file in files.files {
        let text = file.text();
        if is_one(&text) && is_errors(&text) {
            errors.insert(super::names::stem(&file.path).to_string(), file);
        } else if is_one(&text) {
            tables.push(file);
        } else {
            imported.keep(file, "is no table of an insert benchmark");
        }
    }
    let (tables, strangers) = labelled(tables, pattern, &phases());
    for file in strangers {
        imported.keep(file, NO_FIT);
    }
    let labels: Vec<BTreeMap<String, String>> = tables.iter().map(|(_, said)| said.labels.clone()).collect();
    let competitor = competitor(pattern, &labels.iter().collect::<Vec<_>>(), &["phase"]);
    for (file, mut said) in tables {
        said.labels.entry(competitor.clone()).or_insert_with(|| "all".to_string());
        let own_errors = errors.remove(super::names::stem(&file.path));
        take(file, said, own_errors, &mut imported);
    }
    for (_, file) in errors {
        imported.run.notes.push(format!("{} belongs to no table: it is kept", file.path));
        imported.files.push((file.path, file.bytes));
    }
    axes(&mut imported, &competitor);
    imported.metrics(known_metrics());
    Ok(imported)
}

fn phases() -> Words {
    Words { axis: "phase", known: vec!["load", "mixed", "delete", "query"] }
}

fn take(file: InputFile, said: FileLabels, errors: Option<InputFile>, imported: &mut Imported) {
    let path = file.path.clone();
    let mut cell = Cell::new(id(&said.labels, said.round.unwrap_or(1)), 0);
    let mut series = Vec::new();
    match read(&file.text()) {
        Ok((table, strange)) => {
            figures(&table, &mut cell);
            imported.run.notes.extend(strange.into_iter().map(|what| format!("{path}: {what}")));
            series.push(("intervals.csv".to_string(), table));
        }
        Err(why) => cell.failures.push(why),
    }
    let mut files = vec![("table.tsv".to_string(), file.bytes)];
    if let Some(errors) = errors {
        let codes = codes(&errors.text());
        if !codes.is_empty() {
            let said: Vec<String> =
                codes.iter().map(|((kind, code), n)| format!("{n} of {kind} with {code}")).collect();
            imported.run.notes.push(format!("{path}: errors: {}", said.join(", ")));
        }
        files.push(("errcodes.tsv".to_string(), errors.bytes));
    }
    imported.run.notes.extend(cell.failures.iter().map(|why| format!("{path} does not count: {why}")));
    add_as_round(ImportedCell { cell, series, files }, imported);
}

/// The table as it is, its first column as `at_s`, and its oddities.
fn read(text: &str) -> std::result::Result<(Series, Vec<String>), String> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let names: Vec<String> = head.split('\t').map(|c| c.trim().replace([',', '"'], "_")).collect();
    if !names.iter().any(|n| matches!(meaning(n), Some((_, Holds::Total | Holds::Interval | Holds::Rate)))) {
        return Err(format!("no column says how many rows were inserted: {}", names.join(", ")));
    }
    let mut table = Series::new(names[1..].iter().map(String::as_str));
    let mut strange = Vec::new();
    for (at, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row: Vec<f64> = line.split('\t').map(|f| f.trim().parse().unwrap_or(f64::NAN)).collect();
        // A table that was being written when its tool ended may lack the end of its last line.
        if row.len() != names.len() || row[0].is_nan() {
            strange.push(format!(
                "line {} has {} fields of {}: it is not read",
                at + 2,
                row.len(),
                names.len()
            ));
            continue;
        }
        if table.rows.last().is_some_and(|before| before[0] >= row[0]) {
            strange.push(format!("line {} goes back in time", at + 2));
        }
        table.rows.push(row);
    }
    if table.rows.is_empty() {
        return Err("it has no interval".to_string());
    }
    Ok((table, strange))
}

fn figures(table: &Series, cell: &mut Cell) {
    let seconds = table.rows.last().map_or(0.0, |row| row[0]);
    cell.figure("seconds_s", seconds);
    let column = |group: Group, holds: &dyn Fn(Holds) -> bool| -> Option<Vec<f64>> {
        let name = table.columns.iter().find(|c| meaning(c).is_some_and(|(g, h)| g == group && holds(h)))?;
        table.column(name)
    };
    let sum = |values: Vec<f64>| values.iter().filter(|v| v.is_finite()).sum::<f64>();
    for group in Group::ALL {
        let (name, plural) = (group.name(), group.plural());
        let steps: Vec<f64> = table
            .rows
            .iter()
            .scan(0.0, |before, row| Some(row[0] - std::mem::replace(before, row[0])))
            .collect();
        let rates = column(group, &|h| h == Holds::Rate);
        let intervals = column(group, &|h| h == Holds::Interval).or_else(|| {
            let rates = rates.as_ref()?;
            Some(rates.iter().zip(&steps).map(|(rate, s)| rate * s).collect())
        });
        let totals = column(group, &|h| h == Holds::Total);
        let total = totals.as_ref().and_then(|t| t.last().copied()).or_else(|| intervals.clone().map(sum));
        let Some(total) = total.filter(|n| *n > 0.0) else { continue };
        cell.figure(plural, total);
        cell.figure(&format!("{plural}_per_s"), total / seconds);
        let rates = rates.or_else(|| {
            let intervals = intervals.as_ref()?;
            Some(intervals.iter().zip(&steps).map(|(n, s)| n / s).collect())
        });
        let least = rates.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        cell.figure(&format!("{plural}_least_per_s"), least);
        for percentile in ["p50", "p99", "p999"] {
            let of = column(group, &|h| matches!(h, Holds::Percentile(p, _) if p == percentile));
            let factor = table.columns.iter().find_map(|c| match meaning(c) {
                Some((g, Holds::Percentile(p, factor))) if g == group && p == percentile => Some(factor),
                _ => None,
            });
            let mut values: Vec<f64> = of.into_iter().flatten().filter(|v| *v > 0.0).collect();
            values.iter_mut().for_each(|v| *v *= factor.unwrap_or(1.0));
            values.sort_by(f64::total_cmp);
            if let (Some(worst), Some(median)) = (values.last(), values.get(values.len() / 2)) {
                cell.figure(
                    &format!("{name}_{percentile}_mean_ms"),
                    values.iter().sum::<f64>() / values.len() as f64,
                );
                cell.figure(&format!("{name}_{percentile}_median_ms"), *median);
                cell.figure(&format!("{name}_{percentile}_worst_ms"), *worst);
            }
        }
        let failed = column(group, &|h| h == Holds::ErrorsTotal).and_then(|t| t.last().copied());
        let failed = failed.or_else(|| column(group, &|h| h == Holds::Errors).map(sum));
        cell.figure(&format!("{name}_failed"), failed.unwrap_or(f64::NAN));
    }
    if !cell.figures.keys().any(|k| k.ends_with("_per_s")) {
        cell.failures.push("nothing was inserted, asked or deleted".to_string());
    }
}

/// Errors by kind and code, the last cumulative count of each.
fn codes(text: &str) -> BTreeMap<(String, String), u64> {
    let fields = |line: &str| line.split('\t').map(str::to_string).collect::<Vec<String>>();
    text.lines()
        .skip(1)
        .map(fields)
        .filter_map(|f| Some(((f.get(1)?.clone(), f.get(2)?.clone()), f.get(4)?.trim().parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, files};
    use super::*;

    const OURS: &str = include_str!("../../testdata/import/iibench/innodb_mixed.tsv");

    #[test]
    fn columns_are_told_by_their_words() {
        use Holds::*;
        for (column, meant) in [
            ("inserts", Some((Group::Insert, Total))),
            ("inserts_total", Some((Group::Insert, Total))),
            ("cum_inserts", Some((Group::Insert, Total))),
            ("int_inserts", Some((Group::Insert, Interval))),
            ("inserts_int_per_s", Some((Group::Insert, Rate))),
            ("int_ips", Some((Group::Insert, Rate))),
            ("inserts_cum_per_s", None),
            ("cum_qps", None),
            ("queries_int", Some((Group::Query, Interval))),
            ("q_p99_ms", Some((Group::Query, Percentile("p99", 1.0)))),
            ("p99.9_us", Some((Group::Insert, Percentile("p999", 1e-3)))),
            ("inserts_errors", Some((Group::Insert, Errors))),
            ("query_errors", Some((Group::Query, ErrorsTotal))),
            ("inserts_service_p99_ms", None),
            ("inserts_max_ms", None),
            ("deletes_total", Some((Group::Delete, Total))),
            ("elapsed_s", None),
        ] {
            assert_eq!(meaning(column), meant, "{column}");
        }
    }

    #[test]
    fn a_table_of_ours_becomes_a_cell() {
        let imported = import(
            files(&[
                ("runs/innodb_mixed.tsv", OURS),
                (
                    "runs/innodb_mixed.errcodes.tsv",
                    "elapsed_s\tkind\tcode\tint_count\tcum_count\n2.0\tinsert\t1205\t1\t3\n",
                ),
                ("runs/tidesdb_mixed.tsv", OURS),
                ("runs/other.errcodes.tsv", "elapsed_s\tkind\tcode\tint_count\tcum_count\n"),
                ("runs/queue.toml", "[defaults]"),
            ]),
            None,
        )
        .unwrap();
        let axes: Vec<&str> = imported.run.axes.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(axes, ["engine", "phase"]);
        let one = cell(&imported, "engine", "InnoDB");
        assert!(one.cell.counts(), "{:?}", one.cell);
        assert_eq!(one.cell.id.label("phase"), "mixed");
        let rows = &one.series[0].1.rows;
        let at = |name: &str| one.series[0].1.column(name).unwrap();
        let (total, last) = (*at("inserts_total").last().unwrap(), rows.last().unwrap()[0]);
        assert_eq!(one.cell.figures["inserts_per_s"], total / last);
        let worst = at("inserts_p99_ms").into_iter().fold(0.0, f64::max);
        assert_eq!(one.cell.figures["insert_p99_worst_ms"], worst);
        assert!(one.cell.figures.contains_key("query_p99_median_ms"));
        assert_eq!(one.files.len(), 2);
        assert_eq!(
            imported.run.notes,
            [
                "runs/queue.toml is no table of an insert benchmark: it is kept and not read",
                "runs/innodb_mixed.tsv: errors: 3 of insert with 1205",
                "runs/other.errcodes.tsv belongs to no table: it is kept",
            ]
        );
    }

    #[test]
    fn another_tool_s_table_and_a_torn_one() {
        let text = "elapsed_s\tinserts\tint_ips\tcum_ips\tins_p50_us\tins_p99_us\terrors\n\
            10\t1000\t100\t100\t2000\t9000\t0\n20\t3000\t200\t150\t1000\t5000\t2\n30\t40";
        let imported = import(files(&[("x_load.tsv", text)]), None).unwrap();
        let one = &imported.cells[0].cell;
        assert_eq!((one.figures["inserts"], one.figures["inserts_per_s"]), (3000.0, 150.0));
        assert_eq!((one.figures["insert_p99_worst_ms"], one.figures["insert_p50_mean_ms"]), (9.0, 1.5));
        assert_eq!((one.figures["insert_failed"], one.figures["inserts_least_per_s"]), (2.0, 100.0));
        assert_eq!(imported.run.notes, ["x_load.tsv: line 4 has 2 fields of 7: it is not read"]);
        let bad = import(files(&[("a_load.tsv", "elapsed_s\tfoo\n1\t2\n")]), None).unwrap();
        assert!(bad.cells[0].cell.failures[0].contains("no column says how many"));
    }
}
