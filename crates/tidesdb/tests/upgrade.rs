//! Files that an earlier build wrote are opened by this one: all that is in them is read, what waits for a decision
//! is decided, and the store goes on. `fixtures/v1` is a store as a killed process left it, packed; what it holds
//! is said by the program that made it, [`v1`].
//!
//! A change of a format keeps `fixtures/v1` and `v1.rs` as they are and gets a directory and a program of its own,
//! written by `cargo test -p tidesdb --test upgrade make -- --ignored`, which makes those of the newest version.

mod sim;

#[path = "upgrade/content.rs"]
mod content;
#[path = "upgrade/v1.rs"]
mod v1;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use content::Content;
use tidesdb::options::{Options, SyncMode};

/// The packed store of a version.
fn packed(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version).join("store.tar.gz")
}

fn tar(arguments: &[&str], archive: &Path, directory: &Path) {
    let status =
        Command::new("tar").args(arguments).arg(archive).arg("-C").arg(directory).arg("store").status();
    assert!(status.expect("tar runs").success(), "tar {arguments:?} {}", archive.display());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("makes a directory");
    for entry in fs::read_dir(from).expect("lists") {
        let entry = entry.expect("lists");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("a kind").is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("copies")),
        }
    }
}

/// Options with which later servers open a store: those of small machines and the defaults.
fn ways_to_open() -> [Options; 2] {
    [Options { compaction_threads: 1, ..sim::tiny(SyncMode::Full) }, Options::default()]
}

/// Opens, compares everything, goes on, and looks once more behind a restart.
fn opens(directory: &Path, mut content: Content, options: &Options) {
    let db = tidesdb::Db::open(directory, options.clone()).expect("opens");
    content.compare(&db);
    content.decide(&db);
    content.compare(&db);
    content.go_on(&db);
    content.compare(&db);
    db.close().expect("closes");
    let db = tidesdb::Db::open(directory, options.clone()).expect("opens again");
    content.compare(&db);
    db.close().expect("closes");
}

#[test]
fn stores_of_version_1_are_opened_and_go_on() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        tar(&["-xzf"], &packed("v1"), directory.path());
        opens(&directory.path().join("store"), v1::content(), &options);
    }
}

/// What the program makes today is what it says: the test above compares with the right things.
#[test]
fn the_program_behind_version_1_makes_what_it_says() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        v1::make(&directory.path().join("live"), |live| copy(live, &directory.path().join("store")));
        opens(&directory.path().join("store"), v1::content(), &options);
    }
}

/// Writes the packed store of the newest version anew.
#[test]
#[ignore = "makes a file of the repository"]
fn make() {
    let directory = tempfile::tempdir().expect("directory");
    v1::make(&directory.path().join("live"), |live| copy(live, &directory.path().join("store")));
    tar(
        &["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"],
        &packed("v1"),
        directory.path(),
    );
    let bytes = fs::metadata(packed("v1")).expect("there").len();
    assert!(bytes < 300_000, "{bytes} bytes are too many for the repository");
}
