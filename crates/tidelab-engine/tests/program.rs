//! The program: a run in its folder, its table, going on with an interrupted one, and messages about the
//! unmeasurable.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use tidelab::run::folder;
use tidelab_engine::store::Engine;
use tidelab_engine::stores::is_linked;

fn program(directory: &Path, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidelab-engine"))
        .args(["--data".as_ref(), directory.join("data").as_os_str()])
        .args(["--out".as_ref(), directory.join("runs").as_os_str()])
        .args(words.split_whitespace())
        .output()
        .unwrap()
}

const SMALL: &str = "--rows 2000 --rounds 2 --write-buffer 1 --engines tidesdb,lmdb";

#[test]
fn a_run_is_in_its_folder_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let done = program(directory.path(), SMALL);
    let (table, told) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{told}");
    for part in ["fill-sequential      TidesDB", "ratio to LMDB", "until quiet", "2 rounds interleaved"] {
        assert!(table.contains(part), "no '{part}' in\n{table}");
    }
    assert!(!table.contains("FAILED"), "{table}");
    // Engines take turns.
    let places: Vec<_> = ["TidesDB, round 1", "LMDB, round 1", "LMDB, round 2", "TidesDB, round 2"]
        .map(|title| told.find(title).unwrap_or_else(|| panic!("no '{title}' in {told}")))
        .to_vec();
    assert!(places.is_sorted(), "{told}");

    let folder = std::fs::canonicalize(directory.path().join("runs/latest")).unwrap();
    let (run, cells) = folder::read(&folder).unwrap();
    assert_eq!((cells.len(), run.kind.as_str()), (13 * 2 * 2, "engine"));
    assert_eq!(run.reference.as_deref(), Some("LMDB"));
    assert!(run.servers["LMDB"].version.starts_with("0.9") && run.ended_unix_s.is_some());
    assert_eq!(run.servers["TidesDB"].settings["sync"], "none");
    for cell in &cells {
        let series = folder.join("cells").join(cell.id.folder()).join(&cell.series[0]);
        assert!(series.exists(), "{}", series.display());
    }
    assert!(std::fs::read_dir(directory.path().join("data")).unwrap().next().is_none(), "stores are removed");

    // A cell is lost: its part is measured again, and only that.
    std::fs::remove_dir_all(folder.join("cells/LMDB-range-r2")).unwrap();
    let done = program(directory.path(), &format!("{SMALL} --resume {} --json", folder.display()));
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && told.contains("3 of 4 parts are measured already"), "{told}");
    assert!(told.contains("LMDB, round 2") && !told.contains("TidesDB, round"), "{told}");
    let cells: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(cells.as_array().map(Vec::len), Some(52));
    let other = program(directory.path(), &format!("{SMALL} --rows 99 --resume {}", folder.display()));
    assert!(!other.status.success(), "another design does not go on with it");
}

#[test]
fn a_store_that_cannot_be_made_ends_the_run() {
    let directory = tempfile::tempdir().unwrap();
    // A file lies where the stores belong.
    std::fs::write(directory.path().join("data"), "x").unwrap();
    let done = program(directory.path(), "--rows 10 --rounds 1 --engines lmdb");
    assert_eq!(done.status.code(), Some(1));
}

#[test]
fn an_engine_that_the_build_lacks_is_named() {
    if is_linked(Engine::RocksDb) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let done = program(directory.path(), "--engines rocksdb");
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && told.contains("make bench-engine"), "{told}");
}
