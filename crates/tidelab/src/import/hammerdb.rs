//! HammerDB's results as a run.
//!
//! It reads the output of HammerDB's CLI ([`super::hammerdb_log`]), the reports of its time profile, and
//! tables with a column `nopm`. Such tables are those of the published runner, and `NAME-cells.csv` and
//! `NAME-transactions.csv` of this laboratory.

use std::collections::BTreeMap;

use tidelab_server::error::Result;

use super::hammerdb_log::{self, Log, Profile};
use super::names::{FileLabels, Pattern, Words};
use super::source::{Files, InputFile};
use super::sysbench::{add_as_round, axes, competitor, labelled};
use super::{id, Imported, ImportedCell, Kind, NO_FIT};
use crate::run::{Better, Cell, Metric};

/// The five transactions, as HammerDB names its procedures.
const PROCEDURES: [&str; 5] = ["NEWORD", "PAYMENT", "DELIVERY", "SLEV", "OSTAT"];

/// True if a text is in one of the forms.
pub fn is_one(text: &str) -> bool {
    hammerdb_log::is_one(text) || is_table(text)
}

/// A table whose head has a column `nopm`, or one with a line for each transaction.
fn is_table(text: &str) -> bool {
    let head = text.lines().next().unwrap_or_default().to_ascii_lowercase();
    let columns: Vec<&str> = head.split(',').map(|c| c.trim().trim_matches('"')).collect();
    columns.len() > 1
        && (columns.contains(&"nopm") || columns.contains(&"transaction") && columns.contains(&"calls"))
}

fn known_metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    let mut all = vec![
        Metric::main("nopm", "New orders", "1/min", Higher),
        Metric::main("tpm", "Transactions", "1/min", Higher),
    ];
    for name in PROCEDURES {
        all.push(Metric::main(&format!("{name}_p99_ms"), &format!("{name}, 99 %"), "ms", Lower));
    }
    for name in PROCEDURES {
        for (figure, title, unit, better) in [
            ("calls", "calls", "", Neither),
            ("min_ms", "shortest", "ms", Lower),
            ("average_ms", "mean", "ms", Lower),
            ("p25_ms", "25 %", "ms", Lower),
            ("p50_ms", "median", "ms", Lower),
            ("p75_ms", "75 %", "ms", Lower),
            ("p95_ms", "95 %", "ms", Lower),
            ("max_ms", "longest", "ms", Lower),
            ("sd_ms", "standard deviation", "ms", Lower),
            ("total_ms", "all calls", "ms", Neither),
            ("time_percent", "share of the time", "%", Neither),
        ] {
            all.push(Metric::detail(&format!("{name}_{figure}"), &format!("{name}, {title}"), unit, better));
        }
    }
    all.push(Metric::detail("rampup_min", "Time before the measured", "min", Neither));
    all.push(Metric::detail("duration_min", "Measured time", "min", Neither));
    all
}

/// Makes a run of the files.
pub fn import(files: Files, pattern: Option<&Pattern>) -> Result<Imported> {
    let mut imported = Imported::new("hammerdb", "Results of HammerDB", Kind::Hammerdb);
    imported.run.about = "TPROC-C as HammerDB ran it; its logs and tables as they are.".to_string();
    let (ours, others): (Vec<InputFile>, Vec<InputFile>) =
        files.files.into_iter().partition(|f| is_one(&f.text()));
    for file in others {
        imported.keep(file, "is no result of HammerDB");
    }
    let (ours, strangers) =
        labelled(ours, pattern, &Words { axis: "part", known: vec!["xtprof", "hdbxtprofile"] });
    for file in strangers {
        imported.keep(file, NO_FIT);
    }
    let mut profiles: Vec<(InputFile, FileLabels, Vec<Profile>)> = Vec::new();
    let mut tables: Vec<(InputFile, FileLabels)> = Vec::new();
    for (file, mut said) in ours {
        // Which part a file is its contents say.
        said.labels.remove("part");
        let text = file.text();
        if !hammerdb_log::is_one(&text) {
            tables.push((file, said));
            continue;
        }
        let log = hammerdb_log::read(&text);
        if log.measured.is_empty() {
            profiles.push((file, said, log.profiles));
        } else {
            take_log(file, said, log, &mut imported);
        }
    }
    for (file, said, of_file) in profiles {
        take_profile(file, &said, of_file, &mut imported);
    }
    for (file, said) in tables {
        take_table(file, &said, pattern.is_some(), &mut imported);
    }
    finish(pattern, &mut imported);
    Ok(imported)
}

/// Each load of a log becomes a cell; its profiles are theirs when there are as many.
fn take_log(file: InputFile, said: FileLabels, log: Log, imported: &mut Imported) {
    let profiles = if log.profiles.len() == log.measured.len() { log.profiles } else { Vec::new() };
    for (at, measured) in log.measured.into_iter().enumerate() {
        let mut labels = said.labels.clone();
        labels.insert("users".to_string(), measured.users.map_or("unknown".to_string(), |n| n.to_string()));
        let mut cell = Cell::new(id(&labels, said.round.unwrap_or(1)), 0);
        let figures = [
            ("nopm", measured.nopm),
            ("tpm", measured.tpm),
            ("rampup_min", measured.rampup_min),
            ("duration_min", measured.duration_min),
        ];
        // One without a result has no figures.
        for (name, value) in figures.into_iter().filter(|_| measured.nopm.is_some()) {
            cell.figure(name, value.unwrap_or(f64::NAN));
        }
        if let Some(profile) = profiles.get(at) {
            put_profile(profile, &mut cell);
        }
        imported
            .run
            .notes
            .extend(measured.failures.iter().map(|why| format!("{} does not count: {why}", file.path)));
        cell.failures = measured.failures;
        let files = vec![("hammerdb.txt".to_string(), measured.text.into_bytes())];
        add_as_round(ImportedCell { cell, series: Vec::new(), files }, imported);
    }
    imported.files.push((file.path, file.bytes));
}

fn put_profile(profile: &Profile, cell: &mut Cell) {
    for (procedure, figures) in &profile.procedures {
        for (name, value) in figures {
            cell.figure(&format!("{procedure}_{name}"), *value);
        }
    }
}

/// A profile in a file of its own belongs to the one load with its labels and users.
fn take_profile(file: InputFile, said: &FileLabels, profiles: Vec<Profile>, imported: &mut Imported) {
    let mut placed = 0;
    for profile in &profiles {
        let users = profile.users.map(|n| n.to_string());
        let has_none =
            |cell: &Cell| !cell.figures.keys().any(|name| PROCEDURES.iter().any(|p| name.starts_with(p)));
        let of_users: Vec<usize> = (0..imported.cells.len())
            .filter(|at| {
                let cell = &imported.cells[*at].cell;
                cell.counts()
                    && has_none(cell)
                    && users.as_deref().is_none_or(|n| cell.id.label("users") == n)
            })
            .collect();
        let same_name: Vec<usize> = of_users
            .iter()
            .copied()
            .filter(|at| {
                let id = &imported.cells[*at].cell.id;
                said.labels.iter().all(|(name, value)| id.label(name) == value)
                    && said.round.is_none_or(|round| round == id.round)
            })
            .collect();
        let chosen = match (same_name.as_slice(), of_users.as_slice()) {
            ([one], _) | ([], [one]) => *one,
            _ => continue,
        };
        put_profile(profile, &mut imported.cells[chosen].cell);
        placed += 1;
    }
    if profiles.is_empty() {
        return imported.keep(file, "has no summary of all users");
    }
    if placed < profiles.len() {
        imported.run.notes.push(format!("{}: which load it belongs to is not clear; it is kept", file.path));
    }
    imported.files.push((file.path, file.bytes));
}

/// The label of a column, by its usual names.
fn label_of(column: &str) -> Option<&'static str> {
    Some(match column {
        "engine" | "storage_engine" => "engine",
        "users" | "vu" | "vus" | "virtual_users" | "tpcc_vu" => "users",
        "warehouses" | "warehouse" => "warehouses",
        _ => return None,
    })
}

/// Columns besides labels and figures.
const ASIDE: [&str; 9] =
    ["seed", "order", "status", "failures", "failed", "timestamp", "date", "transaction", "round"];

fn take_table(file: InputFile, said: &FileLabels, by_pattern: bool, imported: &mut Imported) {
    let path = file.path.clone();
    let mut reader =
        csv::ReaderBuilder::new().flexible(false).trim(csv::Trim::All).from_reader(file.bytes.as_slice());
    let head: Vec<String> = match reader.headers() {
        Ok(head) => head.iter().map(|c| c.to_ascii_lowercase().replace([' ', '-'], "_")).collect(),
        Err(error) => {
            imported.run.notes.push(format!("{path}: {error}"));
            imported.files.push((file.path, file.bytes));
            return;
        }
    };
    let mut explicit_rounds: BTreeMap<(BTreeMap<String, String>, u32), usize> = BTreeMap::new();
    for (number, record) in reader.records().enumerate() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                imported.run.notes.push(format!("{path}, line {}: {error}", number + 2));
                continue;
            }
        };
        let fields: BTreeMap<&str, &str> = head.iter().map(String::as_str).zip(record.iter()).collect();
        let mut labels = if by_pattern { said.labels.clone() } else { BTreeMap::new() };
        for (column, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            if let Some(label) = label_of(column) {
                labels.insert(label.to_string(), value.to_string());
            }
        }
        if labels.is_empty() || !labels.contains_key("engine") && !by_pattern {
            labels.extend(said.labels.clone());
        }
        let round =
            fields.get("round").or(fields.get("run")).and_then(|r| r.parse::<u32>().ok()).filter(|n| *n > 0);
        let key = (labels.clone(), round.or(said.round).unwrap_or(1));
        // Lines of one table with the same round are of one load: those of its transactions.
        let known = imported.cells.iter().position(|c| c.cell.id.labels == key.0 && c.cell.id.round == key.1);
        let transaction = fields.get("transaction").map(|t| t.to_ascii_uppercase());
        let at = match (known.or(explicit_rounds.get(&key).copied()), &transaction) {
            (Some(at), Some(_)) => at,
            _ => {
                let cell = Cell::new(id(&key.0, key.1), 0);
                let one = ImportedCell { cell, series: Vec::new(), files: Vec::new() };
                add_as_round(one, imported);
                let at = imported.cells.len() - 1;
                explicit_rounds.insert(key, at);
                at
            }
        };
        let cell = &mut imported.cells[at].cell;
        for (column, value) in &fields {
            let Ok(value) = value.parse::<f64>() else { continue };
            if label_of(column).is_none() && !ASIDE.contains(column) && *column != "run" {
                cell.figure(&figure_name(column, transaction.as_deref()), value);
            }
        }
        let status = fields.get("status").copied().unwrap_or("ok");
        if !["", "ok", "OK", "success", "complete"].contains(&status) {
            let why = fields.get("failures").filter(|w| !w.is_empty()).copied().unwrap_or(status);
            if !cell.failures.iter().any(|f| f == why) {
                cell.failures.push(why.to_string());
            }
        }
    }
    imported.files.push((file.path, file.bytes));
}

/// The name of a column's figure: `neword_p99` is `NEWORD_p99_ms`, as all times of HammerDB are in ms.
fn figure_name(column: &str, transaction: Option<&str>) -> String {
    let named = PROCEDURES.iter().find_map(|p| {
        let rest = column.strip_prefix(&format!("{}_", p.to_ascii_lowercase()))?;
        Some((p.to_string(), rest))
    });
    let (procedure, rest) = match (named, transaction) {
        (Some((procedure, rest)), _) => (procedure, rest),
        (None, Some(transaction)) => (transaction.to_string(), column),
        (None, None) => return column.to_string(),
    };
    let rest = rest.trim_end_matches("_ms");
    match rest {
        "calls" | "time_percent" | "rolled_back" => format!("{procedure}_{rest}"),
        "ratio" | "ratio_pct" | "ratio_percent" => format!("{procedure}_time_percent"),
        "avg" => format!("{procedure}_average_ms"),
        _ => format!("{procedure}_{rest}_ms"),
    }
}

/// Adds labels missing in some cells, axes and metrics.
fn finish(pattern: Option<&Pattern>, imported: &mut Imported) {
    let labels: Vec<BTreeMap<String, String>> =
        imported.cells.iter().map(|c| c.cell.id.labels.clone()).collect();
    let all: Vec<&BTreeMap<String, String>> = labels.iter().collect();
    let competitor = competitor(pattern, &all, &["users", "warehouses"]);
    let mut names: Vec<&String> = labels.iter().flat_map(|l| l.keys()).collect();
    names.sort();
    names.dedup();
    for one in &mut imported.cells {
        let id = &mut one.cell.id;
        let engine = id.labels.get("engine").cloned();
        for name in &names {
            id.labels.entry(name.to_string()).or_insert_with(|| "unknown".to_string());
        }
        if id.label(&competitor).is_empty() || id.label(&competitor) == "unknown" {
            id.labels.insert(competitor.clone(), engine.unwrap_or_else(|| "all".to_string()));
        }
    }
    axes(imported, &competitor);
    let mut known = known_metrics();
    let mut others: Vec<String> =
        imported.cells.iter().flat_map(|c| c.cell.figures.keys().cloned()).collect();
    others.sort();
    others.dedup();
    for name in others.into_iter().filter(|n| !known.iter().any(|m| m.name == *n)).collect::<Vec<_>>() {
        let units =
            [("_ms", "ms"), ("_us", "us"), ("_s", "s"), ("_bytes", "B"), ("_percent", "%"), ("_min", "min")];
        let unit = units.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit);
        known.push(Metric::detail(&name, &name.replace('_', " "), unit, Better::Neither));
    }
    imported.metrics(known);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, files};
    use super::*;

    const LOG: &str = include_str!("../../testdata/import/hammerdb/tidesdb_4vu.log");
    const PROFILE: &str = include_str!("../../testdata/import/hammerdb/tidesdb_4vu_xtprof.log");

    #[test]
    fn a_log_and_its_profile_are_one_cell() {
        let other = LOG.replace("39385", "2000");
        let imported = import(
            files(&[
                ("d/innodb_4vu.log", &other),
                ("d/tidesdb_4vu.log", LOG),
                ("d/tidesdb_4vu_xtprof.log", PROFILE),
                ("d/x.md", "hello"),
            ]),
            None,
        )
        .unwrap();
        assert_eq!(imported.cells.len(), 2);
        let tidesdb = &cell(&imported, "engine", "TidesDB").cell;
        assert_eq!((tidesdb.figures["nopm"], tidesdb.figures["NEWORD_p99_ms"]), (39_385.0, 9.855));
        let innodb = &cell(&imported, "engine", "InnoDB").cell;
        assert_eq!((innodb.figures["nopm"], innodb.figures.get("NEWORD_p99_ms")), (2000.0, None));
        assert_eq!(innodb.id.label("users"), "4");
        assert_eq!(imported.run.notes, ["d/x.md is no result of HammerDB: it is kept and not read"]);
        assert_eq!(imported.files.len(), 4, "all raw files stay with the run");
        assert_eq!(imported.run.metrics[0].name, "nopm");
    }

    #[test]
    fn a_profile_that_could_be_of_two_is_named() {
        let imported = import(files(&[("a.log", LOG), ("b.log", LOG), ("c.log", PROFILE)]), None).unwrap();
        assert!(imported
            .run
            .notes
            .iter()
            .any(|n| n.contains("c.log: which load it belongs to is not clear")));
        assert!(imported.cells.iter().all(|c| !c.cell.figures.contains_key("NEWORD_p99_ms")));
    }

    #[test]
    fn tables_with_wide_and_long_forms_of_transactions() {
        let wide = "engine,VU,NOPM,TPM,neword_avg,neword_p99_ms,neword_ratio\nTidesDB,8,100,230,3.7,5.9,54\n\
            InnoDB,8,50,120,8.1,16.4,60\nTidesDB,8,110,240,3.6,5.8,54\n";
        let imported = import(files(&[("hammerdb_results_20260423_181701.csv", wide)]), None).unwrap();
        let ids: Vec<(&str, u32)> =
            imported.cells.iter().map(|c| (c.cell.id.label("engine"), c.cell.id.round)).collect();
        assert_eq!(ids, [("TidesDB", 1), ("InnoDB", 1), ("TidesDB", 2)], "a line more is a round more");
        let first = &imported.cells[0].cell.figures;
        assert_eq!(
            (first["nopm"], first["NEWORD_average_ms"], first["NEWORD_p99_ms"], first["NEWORD_time_percent"]),
            (100.0, 3.7, 5.9, 54.0)
        );
        let ours = import(
            files(&[
                ("demo-tpcc-cells.csv", include_str!("../../testdata/import/hammerdb/demo-tpcc-cells.csv")),
                (
                    "demo-tpcc-transactions.csv",
                    include_str!("../../testdata/import/hammerdb/demo-tpcc-transactions.csv"),
                ),
            ]),
            None,
        )
        .unwrap();
        assert_eq!(ours.run.notes, Vec::<String>::new());
        assert_eq!(ours.cells.len(), 3);
        let tidesdb = &cell(&ours, "engine", "TidesDB").cell;
        assert_eq!((tidesdb.figures["nopm"], tidesdb.figures["NEWORD_p99_ms"]), (39_384.750_7, 9.855));
        let cells = "engine,round,status,failures,nopm,tpm,resident_bytes\nTidesDB,1,ok,,100,230,7\n\
            TidesDB,2,failed,a row is missing,90,200,7\n";
        let transactions = "engine,round,status,transaction,calls,p99_ms\nTidesDB,1,ok,NEWORD,9,5.5\n\
            TidesDB,2,failed,NEWORD,8,5.6\n";
        let ours =
            import(files(&[("a-cells.csv", cells), ("a-transactions.csv", transactions)]), None).unwrap();
        assert_eq!(ours.cells.len(), 2);
        assert_eq!(ours.cells[0].cell.figures["NEWORD_p99_ms"], 5.5);
        assert_eq!(ours.cells[0].cell.figures["resident_bytes"], 7.0);
        assert_eq!(ours.cells[1].cell.failures[0], "a row is missing");
    }
}
