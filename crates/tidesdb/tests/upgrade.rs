//! Files of an earlier build are opened by this one: all content is read, prepared transactions are decided,
//! and the store goes on. `fixtures/v1` is a packed store, as left by a killed process; its content is given
//! by its program, [`v1`]. So it is with [`v2`], the first to count rows. [`v3`] is the first to list the
//! files of its log and to keep its dictionary twice. These three are of version 1 of the formats; `format2` is
//! the content of [`v3`] in version 2.
//!
//! A change of a format keeps these fixtures and programs unchanged and gets a directory and a program of its
//! own. `cargo test -p tidesdb --test upgrade make -- --ignored` writes the store of the newest version.

mod sim;

#[path = "upgrade/content.rs"]
mod content;
#[path = "upgrade/long_prepare.rs"]
mod long_prepare;
#[path = "upgrade/v1.rs"]
mod v1;
#[path = "upgrade/v2.rs"]
mod v2;
#[path = "upgrade/v3.rs"]
mod v3;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use content::Content;
use tidesdb::internal::backup::{repair, restore, BackupOptions, Watch};
use tidesdb::internal::io::RealDisk;
use tidesdb::{FormatVersion, Options, SyncMode};

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

/// Options of later servers for a store: those of small machines and the defaults.
fn ways_to_open() -> [Options; 2] {
    [Options { compaction_threads: 1, ..sim::tiny(SyncMode::Full) }, Options::default()]
}

/// Opens, compares everything, goes on, and compares again after a restart.
fn opens(directory: &Path, mut content: Content, options: &Options) {
    let db = tidesdb::internal::db::Db::open(directory, options.clone()).expect("opens");
    content.compare(&db);
    content.decide(&db);
    content.compare(&db);
    content.go_on(&db);
    content.compare(&db);
    db.close().expect("closes");
    let db = tidesdb::internal::db::Db::open(directory, options.clone()).expect("opens again");
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

/// The program's present result equals its declared content: the test above compares with the right content.
#[test]
fn the_program_behind_version_1_makes_what_it_says() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        v1::make(&directory.path().join("live"), |live| copy(live, &directory.path().join("store")));
        opens(&directory.path().join("store"), v1::content(), &options);
    }
}

/// As [`opens`], and the counts of rows are right at every step.
fn opens_counted(directory: &Path, mut content: Content, options: &Options) {
    let db = tidesdb::internal::db::Db::open(directory, options.clone()).expect("opens");
    content.compare(&db);
    content.compare_counts(&db);
    content.decide(&db);
    content.compare_counts(&db);
    content.go_on(&db);
    content.compare(&db);
    content.compare_counts(&db);
    db.close().expect("closes");
    let db = tidesdb::internal::db::Db::open(directory, options.clone()).expect("opens again");
    content.compare(&db);
    content.compare_counts(&db);
    db.close().expect("closes");
}

#[test]
fn stores_of_version_2_are_opened_with_their_counts() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        tar(&["-xzf"], &packed("v2"), directory.path());
        opens_counted(&directory.path().join("store"), v2::content(), &options);
    }
}

#[test]
fn the_program_behind_version_2_makes_what_it_says() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        v2::make(&directory.path().join("live"), |live| copy(live, &directory.path().join("store")));
        opens_counted(&directory.path().join("store"), v2::content(), &options);
    }
}

#[test]
fn stores_of_version_3_are_opened_and_have_the_fields_of_their_manifest() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        tar(&["-xzf"], &packed("v3"), directory.path());
        let store = directory.path().join("store");
        let tags = tags_of_manifest(&store);
        assert!((20..=26).all(|tag| tags.contains(&tag)), "{tags:?}");
        opens_counted(&store, v3::content(), &options);
    }
}

#[test]
fn the_program_behind_version_3_makes_what_it_says() {
    let [options, _] = ways_to_open();
    let directory = tempfile::tempdir().expect("directory");
    v3::make(&directory.path().join("live"), |live| copy(live, &directory.path().join("store")));
    opens_counted(&directory.path().join("store"), v3::content(), &options);
}

/// The versions of a store's files, by the kind of file.
fn formats(store: &Path) -> BTreeMap<&'static str, BTreeSet<u8>> {
    let mut formats: BTreeMap<_, BTreeSet<u8>> = BTreeMap::new();
    for path in files(store) {
        let bytes = fs::read(&path).expect("reads");
        let footer = bytes.len().saturating_sub(128);
        if bytes.starts_with(b"TDBMANIF") {
            formats.entry("manifest").or_default().insert(bytes[8]);
        } else if bytes.starts_with(b"TIDESWAL") {
            formats.entry("log").or_default().insert(bytes[8]);
        } else if bytes[footer..].starts_with(b"TDBTABLE") {
            formats.entry("table").or_default().insert(bytes[footer + 8]);
        }
    }
    formats
}

fn all_in(versions: &[u8]) -> BTreeMap<&'static str, BTreeSet<u8>> {
    ["manifest", "log", "table"].map(|kind| (kind, versions.iter().copied().collect())).into()
}

#[test]
fn stores_of_format_2_are_opened_and_stay_in_it() {
    for options in ways_to_open() {
        assert_eq!(options.least_format, FormatVersion::One);
        let directory = tempfile::tempdir().expect("directory");
        tar(&["-xzf"], &packed("format2"), directory.path());
        let store = directory.path().join("store");
        assert_eq!(formats(&store), all_in(&[2]));
        opens_counted(&store, v3::content(), &options);
        assert_eq!(formats(&store), all_in(&[2]));
    }
}

#[test]
fn the_program_behind_format_2_makes_what_it_says() {
    let [options, _] = ways_to_open();
    let directory = tempfile::tempdir().expect("directory");
    let live = directory.path().join("live");
    v3::make_in(FormatVersion::Two, &live, |live| copy(live, &directory.path().join("store")));
    opens_counted(&directory.path().join("store"), v3::content(), &options);
}

/// A store is written in version 1 until it is asked for version 2. After that it stays there, and tables and segments
/// of both are read.
#[test]
fn a_store_moves_to_format_2_when_asked_and_never_back() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        tar(&["-xzf"], &packed("v3"), directory.path());
        let store = directory.path().join("store");
        let mut content = v3::content();
        let again = |content: &mut Content, least_format| {
            let options = Options { least_format, ..options.clone() };
            let db = tidesdb::internal::db::Db::open(&store, options).expect("opens");
            content.compare(&db);
            content.decide(&db);
            for name in ["plain", "expiring"] {
                let family = db.family(name.as_bytes()).expect("there");
                let mut txn = sim::begin(&db);
                for (key, value) in content.rows(name).iter_mut().step_by(2) {
                    value.push(least_format.number() as u8);
                    txn.update(&family, key, value).expect("updates");
                }
                txn.commit().expect("commits");
                db.flush().expect("flushes");
            }
            content.compare(&db);
            content.compare_counts(&db);
            db.close().expect("closes");
            formats(&store)
        };
        assert_eq!(again(&mut content, FormatVersion::One), all_in(&[1]));
        let moved = again(&mut content, FormatVersion::Two);
        assert!(moved["manifest"].contains(&2) && moved["log"].contains(&2), "{moved:?}");
        assert!(moved["table"].contains(&2), "{moved:?}");
        let stays = again(&mut content, FormatVersion::One);
        assert_eq!(stays["manifest"], BTreeSet::from([2]));
        assert!(stays["table"].contains(&2), "{stays:?}");
    }
}

/// Backups, what is restored from them, and repaired copies have the version of their store.
#[test]
fn copies_of_a_store_of_format_2_stay_in_it() {
    let [options, _] = ways_to_open();
    let directory = tempfile::tempdir().expect("directory");
    tar(&["-xzf"], &packed("format2"), directory.path());
    let at = |name: &str| directory.path().join(name);
    let disk = RealDisk::shared();
    repair(&disk, &at("store"), &at("repaired"), Watch::NONE).expect("repairs");
    let db = tidesdb::internal::db::Db::open(at("store"), options.clone()).expect("opens");
    let mut backup = db.begin_backup(&at("backup"), BackupOptions { links: false }).expect("begins");
    backup.take_point(Watch::NONE).expect("a point");
    backup.finish(Watch::NONE).expect("finishes");
    db.close().expect("closes");
    assert_eq!(formats(&at("backup")), all_in(&[2]));
    restore(&disk, &at("backup"), &at("restored"), None, Watch::NONE).expect("restores");
    for copy in ["repaired", "restored"] {
        assert_eq!(formats(&at(copy)), all_in(&[2]), "{copy}");
        opens_counted(&at(copy), v3::content(), &options);
        assert_eq!(formats(&at(copy)), all_in(&[2]), "{copy}");
    }
}

/// All puts of earlier builds in families of users are marked "may overwrite": no single delete cancels with
/// one of them.
#[test]
fn puts_of_earlier_builds_never_cancel() {
    for (version, mut content) in [("v1", v1::content()), ("v2", v2::content())] {
        let directory = tempfile::tempdir().expect("directory");
        tar(&["-xzf"], &packed(version), directory.path());
        let [options, _] = ways_to_open();
        let db = tidesdb::internal::db::Db::open(directory.path().join("store"), options).expect("opens");
        content.decide(&db);
        for again in [false, true] {
            for (name, expected) in &content.families {
                let family = db.family(name.as_bytes()).expect("there");
                for key in expected.rows.keys() {
                    let mut txn = sim::begin(&db);
                    if again {
                        txn.insert(&family, key, b"of this build").expect("inserts");
                        txn.commit().expect("commits");
                        txn.begin(Default::default()).expect("begins");
                    }
                    txn.single_delete(&family, key).expect("deletes");
                    txn.commit().expect("commits");
                }
                db.compact(&family).expect("merges");
                assert!(sim::rows(&db, &family).expect("reads").is_empty(), "{name}");
            }
            assert_eq!(db.stats().cancelled_pairs > 0, again, "{version}");
        }
        db.close().expect("closes");
    }
}

/// Rows of version 1 are not counted, and its prepared transaction leaves the change uncounted at its commit.
#[test]
fn rows_of_an_earlier_build_are_counted_by_a_scan() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        tar(&["-xzf"], &packed("v1"), directory.path());
        let directory = directory.path().join("store");
        let mut content = v1::content();
        for life in 0..2 {
            let db = tidesdb::internal::db::Db::open(&directory, options.clone()).expect("opens");
            assert!(
                content.counted(&db).is_empty(),
                "none is counted in life {life}: {:?}",
                content.counted(&db)
            );
            let made = format!("made in life {life}").into_bytes();
            let family = db.create_family(&made, Default::default()).expect("creates");
            let mut txn = sim::begin(&db);
            txn.put(&family, b"k", b"v").expect("puts");
            txn.commit().expect("commits");
            for life in 0..=life {
                let family = db.family(format!("made in life {life}").as_bytes()).expect("there");
                let stats = db.family_stats(&family).expect("there");
                assert_eq!((stats.counted, stats.entries), (true, 1), "one that was made since");
            }
            db.close().expect("closes");
        }
        let db = tidesdb::internal::db::Db::open(&directory, options.clone()).expect("opens");
        let count = |content: &Content| {
            for (name, family) in &content.families {
                let rows =
                    db.count_rows(&db.family(name.as_bytes()).expect("there"), &|| false).expect("counts");
                assert_eq!(rows, family.rows.len() as u64, "{name}");
            }
        };
        count(&content);
        content.compare_counts(&db);
        content.decide(&db);
        let uncounted = |db: &tidesdb::internal::db::Db| {
            let counted = content.counted(db);
            content.families.keys().copied().filter(|name| !counted.contains(name)).collect::<Vec<_>>()
        };
        assert_eq!(uncounted(&db), ["large", "lz4", "prefix"], "those of which version 1 prepared changes");
        db.flush().expect("flushes");
        assert_eq!(uncounted(&db), ["large", "lz4", "prefix"], "in files too");
        count(&content);
        content.compare_counts(&db);
        content.go_on(&db);
        content.compare_counts(&db);
        db.close().expect("closes");
        let db = tidesdb::internal::db::Db::open(&directory, options.clone()).expect("opens");
        content.compare_counts(&db);
    }
}

/// Logging a prepared transaction again ends, for any length: also with segments larger than it.
#[test]
fn a_store_with_a_long_prepared_transaction_is_opened() {
    for options in ways_to_open() {
        let directory = tempfile::tempdir().expect("directory");
        tar(&["-xzf"], &packed("long_prepare"), directory.path());
        let store = directory.path().join("store");
        for _life in 0..2 {
            let db = tidesdb::internal::db::Db::open(&store, options.clone()).expect("opens");
            assert_eq!(db.prepared().len(), 1);
            db.close().expect("closes");
        }
        opens(&store, long_prepare::content(), &options);
    }
}

/// Packs the store left by `make`, in place of the one with this name.
fn pack(name: &str, make: impl FnOnce(&Path, &dyn Fn(&Path))) {
    let directory = tempfile::tempdir().expect("directory");
    make(&directory.path().join("live"), &|live| copy(live, &directory.path().join("store")));
    tar(
        &["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"],
        &packed(name),
        directory.path(),
    );
    let bytes = fs::metadata(packed(name)).expect("there").len();
    assert!(bytes < 300_000, "{bytes} bytes are too many for the repository");
}

/// Writes the packed store of the newest version anew.
#[test]
#[ignore = "makes a file of the repository"]
fn make() {
    pack("v3", |live, killed| v3::make(live, killed));
}

/// The same of version 2 of the formats.
#[test]
#[ignore = "makes a file of the repository"]
fn make_format2() {
    pack("format2", |live, killed| v3::make_in(FormatVersion::Two, live, killed));
}

/// The same of the long prepared transaction.
#[test]
#[ignore = "makes a file of the repository"]
fn make_long_prepare() {
    pack("long_prepare", |live, killed| long_prepare::make(live, killed));
}

/// The files of a directory and of those in it.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("lists").map(|entry| entry.expect("lists").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// A change of a file's bytes to those of a version to come, whole by their checksums; false for other files.
type Later = fn(&mut Vec<u8>) -> bool;

#[expect(clippy::ptr_arg, reason = "one type for all")]
fn later_manifest(bytes: &mut Vec<u8>) -> bool {
    if !bytes.starts_with(b"TDBMANIF") {
        return false;
    }
    bytes[8] = 99;
    let crc = crc32c::crc32c(&bytes[..20]);
    bytes[20..24].copy_from_slice(&crc.to_le_bytes());
    true
}

/// The places of the payloads of a manifest's edits.
fn edits_of(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut at, mut edits) = (24, Vec::new());
    while bytes[at..].starts_with(b"EDIT") && bytes[at + 4..at + 8] == (edits.len() as u32).to_le_bytes() {
        let len: [u8; 4] = bytes[at + 8..at + 12].try_into().expect("four bytes");
        edits.push(at + 16..at + 16 + u32::from_le_bytes(len) as usize);
        at = edits[edits.len() - 1].end;
    }
    edits
}

/// The tags of all fields in a store's manifest.
fn tags_of_manifest(store: &Path) -> BTreeSet<u64> {
    let manifest = files(store).into_iter().find(|path| path.to_string_lossy().contains("MANIFEST-"));
    let bytes = fs::read(manifest.expect("there is one")).expect("reads");
    let mut tags = BTreeSet::new();
    for edit in edits_of(&bytes) {
        let mut at = edit.start;
        let number = |at: &mut usize| {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let byte = bytes[*at];
                *at += 1;
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            value
        };
        while at < edit.end {
            tags.insert(number(&mut at));
            let len = number(&mut at);
            at += len as usize;
        }
    }
    tags
}

/// Adds an edit with an unknown field.
fn later_field(bytes: &mut Vec<u8>) -> bool {
    if !bytes.starts_with(b"TDBMANIF") {
        return false;
    }
    let edits = edits_of(bytes);
    let (at, ordinal) = (edits.last().map_or(24, |edit| edit.end), edits.len() as u32);
    let payload = [99u8, 0];
    let head = [ordinal.to_le_bytes(), (payload.len() as u32).to_le_bytes()].concat();
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&bytes[12..20]), &head), &payload);
    let edit = [&b"EDIT"[..], &head, &crc.to_le_bytes(), &payload].concat();
    bytes.resize(bytes.len().max(at + edit.len()), 0);
    bytes[at..at + edit.len()].copy_from_slice(&edit);
    true
}

#[expect(clippy::ptr_arg, reason = "one type for all")]
fn later_log(bytes: &mut Vec<u8>) -> bool {
    if !bytes.starts_with(b"TIDESWAL") {
        return false;
    }
    bytes[8] = 99;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    true
}

#[expect(clippy::ptr_arg, reason = "one type for all")]
fn later_table(bytes: &mut Vec<u8>) -> bool {
    let Some(at) = bytes.len().checked_sub(128).filter(|at| bytes[*at..].starts_with(b"TDBTABLE")) else {
        return false;
    };
    bytes[at + 8] = 99;
    let crc = crc32c::crc32c(&bytes[at..at + 124]);
    bytes[at + 124..].copy_from_slice(&crc.to_le_bytes());
    true
}

/// A store of a later version is not taken for a damaged one: the message says so, with the file.
#[test]
fn a_store_of_a_later_version_is_refused_as_one() {
    let changes: [(&str, Later); 4] =
        [("manifest", later_manifest), ("field", later_field), ("log", later_log), ("table", later_table)];
    let directory = tempfile::tempdir().expect("directory");
    let [options, _] = ways_to_open();
    let made = directory.path().join("made");
    let db = tidesdb::internal::db::Db::open(&made, options.clone()).expect("opens");
    let family = db.create_family(b"t", Default::default()).expect("creates");
    let mut txn = sim::begin(&db);
    txn.put(&family, b"k", b"v").expect("puts");
    txn.commit().expect("commits");
    db.flush().expect("flushes");
    drop((txn, family));
    db.close().expect("closes");
    for (what, change) in changes {
        let store = directory.path().join(what);
        copy(&made, &store);
        let mut changed = Vec::new();
        for path in files(&store) {
            let mut bytes = fs::read(&path).expect("reads");
            if change(&mut bytes) {
                fs::write(&path, bytes).expect("writes");
                changed.push(path);
            }
        }
        assert!(!changed.is_empty(), "{what}");
        let opened = tidesdb::internal::db::Db::open(&store, options.clone()).and_then(|db| {
            let family = db.family(b"t")?;
            db.verify(&family)
        });
        let error = opened.expect_err(what).to_string();
        assert!(error.contains("made by a later version of TidesDB"), "{what}: {error}");
        let names = changed.iter().filter_map(|path| path.file_name()?.to_str());
        assert!(names.into_iter().any(|name| error.contains(name)), "{what}: {error}");
        assert!(!error.contains("damage"), "{what}: {error}");
    }
}
