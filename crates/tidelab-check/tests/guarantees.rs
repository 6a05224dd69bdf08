//! `docs/guarantees.md` names a test for each promise: each of them exists and runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidelab_check::check::Check;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Promise, or fault, and tests of each line of the tables of these; the lines after their heading.
fn promises(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut columns = 0;
    for line in text.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        if line.starts_with("| promised |") || line.starts_with("| fault |") {
            columns = cells.len();
        } else if !line.starts_with('|') {
            columns = 0;
        } else if columns > 0 && !line.starts_with("|---") {
            assert_eq!(cells.len(), columns, "{columns} columns: {line}");
            out.push((cells[0].to_string(), cells[columns - 1].to_string()));
        }
    }
    out
}

/// The texts between backquotes.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// True if a source file has this function, as a test not ignored.
fn is_rust_test(source: &str, function: &str) -> bool {
    let declared = format!("fn {function}(");
    source.match_indices(&declared).any(|(at, _)| {
        let above = source[..at].rfind('\n').map_or("", |end| &source[..end]);
        let attributes: Vec<&str> =
            above.lines().rev().take_while(|line| line.trim_start().starts_with("#[")).collect();
        attributes.iter().any(|line| line.trim() == "#[test]")
            && !attributes.iter().any(|line| line.contains("ignore"))
    })
}

/// The reason if the name is not a test's.
fn complaint(name: &str, file: &mut String, sources: &mut BTreeMap<String, String>) -> Option<String> {
    if let Some(check) = name.strip_prefix("check ") {
        return check.parse::<Check>().err().map(|error| error.to_string());
    }
    if name.starts_with("scripts/test/") {
        return (!root().join(name).exists()).then(|| "there is no such script".to_string());
    }
    if let Some((path, function)) = name.split_once("::") {
        if !path.is_empty() {
            *file = path.to_string();
        }
        if !sources.contains_key(file.as_str()) {
            match read(&root().join("crates").join(&file)) {
                Some(source) => sources.insert(file.clone(), source),
                None => return Some(format!("there is no crates/{file}")),
            };
        }
        let there = is_rust_test(&sources[file.as_str()], function);
        return (!there).then(|| format!("crates/{file} has no test {function}"));
    }
    let Some((suite, test)) = name.split_once('.') else {
        return Some("neither a function, nor suite.test, nor a check".to_string());
    };
    let folder = root().join("plugin/mysql-test/suite").join(suite).join("t");
    if !folder.join(format!("{test}.test")).exists() {
        return Some(format!("there is no {test}.test in {}", folder.display()));
    }
    let disabled = read(&folder.join("disabled.def")).unwrap_or_default();
    let off = disabled.lines().any(|line| line.split([' ', ':']).next() == Some(test));
    off.then(|| "it is disabled".to_string())
}

#[test]
fn every_test_that_is_named_exists() {
    let text = read(&root().join("docs/guarantees.md")).expect("docs/guarantees.md is there");
    let promises = promises(&text);
    assert!(promises.len() > 40, "the tables were found: {} lines", promises.len());
    let mut sources = BTreeMap::new();
    let mut wrong = Vec::new();
    for (promise, tests) in &promises {
        let mut file = String::new();
        let names = names(tests);
        if names.is_empty() {
            wrong.push(format!("{promise}: no test"));
        }
        for name in names {
            if let Some(why) = complaint(name, &mut file, &mut sources) {
                wrong.push(format!("{promise}: `{name}`: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    let mut sources = BTreeMap::new();
    let mut ask = |name: &str| complaint(name, &mut String::new(), &mut sources).is_some();
    assert!(!ask("tidelab/src/cli.rs::the_command_line_is_consistent"));
    assert!(ask("tidelab/src/cli.rs::check"), "a function that is no test");
    assert!(ask("tidelab/src/cli.rs::no_such_function"));
    assert!(ask("tidelab/src/no_such_file.rs::the_command_line_is_consistent"));
    assert!(!ask("tidesdb/src/wal/leader_queue.rs::loom_two_committers"), "tidesdb-loom runs it");
    assert!(!ask("tidesdb.trx_savepoint"));
    assert!(ask("tidesdb.no_such_test"));
    assert!(!ask("check kill"));
    assert!(ask("check nothing"));
    assert!(ask("anything"));
}
