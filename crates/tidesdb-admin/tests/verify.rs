//! `verify` and `repair`: exit status and lines, on a real directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tidesdb::{Compression, Db, FamilyOptions, Options};

fn admin(words: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidesdb-admin")).args(words).output().expect("runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(directory).expect("lists").map(|entry| entry.expect("lists").path());
    let mut files: Vec<_> = paths.filter(|path| path.is_file()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).expect("reads"))).collect()
}

/// 0 for a whole store, 3 with a list for a damaged one and for an incomplete copy, 1 if nothing can be done.
#[test]
fn the_exit_status_says_whether_something_is_damaged() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, copy) = (&directory.path().join("store"), &directory.path().join("copy"));
    let db = Db::open(store, Options { flush_on_close: true, ..Options::default() }).expect("opens");
    let options = FamilyOptions { compression: Compression::None, ..FamilyOptions::default() };
    let fruit = db.family_with("fruit", options).expect("makes");
    for n in 0..200u8 {
        fruit.put([n], [n; 100]).expect("puts");
    }
    drop(fruit);
    db.close().expect("closes");
    let whole = admin(&["verify".as_ref(), store]);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole));

    let row = |bytes: &[u8]| bytes.windows(50).position(|part| part == [7; 50]);
    let (damaged, mut bytes) = files(store)
        .into_iter()
        .find(|(path, bytes)| path.extension().is_some() && row(bytes).is_some())
        .expect("rows");
    let at = row(&bytes).expect("a row");
    bytes[at] ^= 1;
    fs::write(&damaged, bytes).expect("writes");
    let before = files(store);
    let name = damaged.file_name().and_then(|name| name.to_str()).expect("a name");
    let found = admin(&["verify".as_ref(), store]);
    assert_eq!(found.status.code(), Some(3), "{}", text(&found));
    assert!(text(&found).contains(name) && text(&found).contains("'fruit'"), "{}", text(&found));
    let repaired = admin(&["repair".as_ref(), store, "--to".as_ref(), copy]);
    assert_eq!(repaired.status.code(), Some(3), "{}", text(&repaired));
    assert!(text(&repaired).contains(name) && text(&repaired).contains("left out"), "{}", text(&repaired));
    assert!(files(store) == before, "the store was written to");
    let copied = admin(&["verify".as_ref(), copy]);
    assert_eq!(copied.status.code(), Some(0), "{}", text(&copied));

    for manifest in
        files(store).iter().map(|(path, _)| path).filter(|path| path.to_string_lossy().contains("MANIFEST"))
    {
        fs::remove_file(manifest).expect("unlinks");
    }
    for words in [
        vec!["verify".as_ref(), store.as_path()],
        vec!["repair".as_ref(), store, "--to".as_ref(), &copy.join("x")],
    ] {
        let refused = admin(&words);
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
        assert!(text(&refused).contains("MANIFEST-"), "{}", text(&refused));
    }
}

/// Builds before 26 November 2026 never came to the end of opening this store, and neither did these commands.
#[test]
fn a_store_with_a_long_prepared_transaction_is_served_within_a_minute() {
    let directory = tempfile::tempdir().expect("directory");
    let packed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tidesdb/tests/fixtures/long_prepare/store.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(directory.path()).status();
    assert!(unpacked.expect("tar runs").success());
    let (store, copy) = (&directory.path().join("store"), &directory.path().join("copy"));
    let commands: [&[&Path]; 6] = [
        &["verify".as_ref(), store],
        &["repair".as_ref(), store, "--to".as_ref(), copy],
        &["stats".as_ref(), copy],
        &["stats".as_ref(), store],
        &["compact".as_ref(), store],
        &["verify".as_ref(), store],
    ];
    for words in commands {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidesdb-admin")).args(words).spawn().expect("runs");
        let begun = std::time::Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("waits") {
                break status;
            }
            if begun.elapsed().as_secs() >= 60 {
                child.kill().expect("kills");
                panic!("{words:?} has not ended");
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        assert_eq!(status.code(), Some(0), "{words:?}");
    }
}
