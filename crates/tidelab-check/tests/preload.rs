//! The preloaded library, in a small program instead of a server: faults hit the named calls, and a power cut
//! takes back unsynced changes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rand::rngs::StdRng;
use rand::SeedableRng;
use tidelab_check::preload::{self, Action, Call, Control, Fault, Kind, Loss, PowerCut, Roots, TakenBack};

/// The library and the program, compiled once.
fn programs() -> &'static (PathBuf, PathBuf) {
    static PROGRAMS: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload-test");
        fs::create_dir_all(&directory).unwrap();
        let library = preload::build(&directory).unwrap();
        let program = directory.join("exercise");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload/exercise.c");
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(source)
            .status();
        assert!(compiled.unwrap().success());
        (library, program)
    })
}

/// A store, the server's data and the side directory.
struct Bench {
    folder: tempfile::TempDir,
    roots: Roots,
    control: Control,
}

impl Bench {
    fn new(record: bool) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let roots = Roots { store: place("store"), data: place("data") };
        fs::create_dir_all(roots.store.join("wal")).unwrap();
        fs::create_dir_all(&roots.data).unwrap();
        let control = Control::create(&place("side"), record, Some(Duration::ZERO)).unwrap();
        Bench { folder, roots, control }
    }

    fn side(&self) -> PathBuf {
        self.folder.path().join("side")
    }

    fn store(&self, name: &str) -> PathBuf {
        self.roots.store.join(name)
    }

    /// Runs the program in the server's data with calls of one line; its answers.
    fn run(&self, calls: &str) -> Vec<String> {
        let (library, program) = programs();
        let output = Command::new(program)
            .args(calls.split_whitespace())
            .current_dir(&self.roots.data)
            .envs(preload::environment(library, &self.side(), &self.roots))
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(error, "", "{calls}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
    }

    fn arm(&self, kind: Kind, call: Call, first: u64, action: Action) {
        self.control.arm(&Fault { kind, call, first, times: 1, action }).unwrap();
    }

    fn cut(&self, loss: Loss, seed: u64) -> TakenBack {
        let (side, roots) = (&self.side(), &self.roots);
        PowerCut { side, roots, loss }.make(&mut StdRng::seed_from_u64(seed)).unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.store(name)).unwrap()
    }
}

#[test]
fn a_fault_hits_the_call_that_it_names_and_no_other() {
    let bench = Bench::new(false);
    bench.arm(Kind::Log, Call::Write, 2, Action::Fail(Errno::EIO));
    let calls = "create ../store/wal/000001.wal create ../store/000002.sst \
        pwrite 1 0 other pwrite 0 0 first pwrite 0 5 second pwrite 0 5 third fsync 0 dir ../store/wal fsync 2";
    assert_eq!(bench.run(calls), ["0", "0", "5", "5", "EIO", "5", "0", "0", "0"]);
    assert_eq!(bench.text("wal/000001.wal"), "firstthird");
    let fired = bench.control.fired().unwrap().unwrap();
    assert_eq!((fired.calls, fired.offset, fired.size), (1, 5, 6));
    assert!(fired.path.ends_with("store/wal/000001.wal"), "{fired:?}");
    let counts = bench.control.counts().unwrap();
    for (kind, call, count) in [
        (Kind::Log, Call::Create, 1),
        (Kind::Log, Call::Write, 3),
        (Kind::Log, Call::Sync, 1),
        (Kind::Table, Call::Create, 1),
        (Kind::Table, Call::Write, 1),
        (Kind::Directory, Call::Open, 1),
        (Kind::Directory, Call::Sync, 1),
        (Kind::Manifest, Call::Write, 0),
    ] {
        assert_eq!(counts.of(kind, call), count, "{kind:?} {call:?} in {counts}");
    }
}

#[test]
fn every_action_does_what_it_is_called() {
    let run = |call, action, calls: &str| {
        let bench = Bench::new(false);
        fs::write(bench.store("MANIFEST-00000001"), "0123456789").unwrap();
        bench.arm(Kind::Manifest, call, 1, action);
        let answers = bench.run(&format!("open ../store/MANIFEST-00000001 {calls}"));
        assert!(bench.control.fired().unwrap().is_some());
        (answers.last().cloned().unwrap(), bench.text("MANIFEST-00000001"))
    };
    let tear = Action::Tear(Errno::ENOSPC);
    let fail = Action::Fail(Errno::EDQUOT);
    let is = |answer: &str, text: &str| (answer.to_string(), text.to_string());
    assert_eq!(run(Call::Write, tear, "pwrite 0 0 abcd"), is("ENOSPC", "ab23456789"));
    assert_eq!(run(Call::Write, tear, "write 0 abcd"), is("ENOSPC", "ab23456789"));
    assert_eq!(run(Call::Write, Action::Short, "pwrite 0 0 abcd"), is("2", "ab23456789"));
    assert_eq!(run(Call::Read, Action::Short, "pread 0 0 4"), is("01 2", "0123456789"));
    assert_eq!(run(Call::Read, fail, "pread 0 0 4"), is("EDQUOT", "0123456789"));
    assert_eq!(run(Call::Sync, fail, "fdatasync 0"), is("EDQUOT", "0123456789"));
    assert_eq!(run(Call::Sync, Action::Lie, "fsync 0"), is("0", "0123456789"));
    assert_eq!(run(Call::Range, fail, "range 0"), is("EDQUOT", "0123456789"));
    assert_eq!(run(Call::Allocate, fail, "allocate 0 100"), is("EDQUOT", "0123456789"));
    assert_eq!(run(Call::Truncate, fail, "truncate 0 1"), is("EDQUOT", "0123456789"));
    assert_eq!(run(Call::Close, fail, "close 0"), is("EDQUOT", "0123456789"));
    assert_eq!(run(Call::Unlink, fail, "unlink ../store/MANIFEST-00000001"), is("EDQUOT", "0123456789"));
    let rename = "rename ../store/MANIFEST-00000001 ../store/CURRENT";
    assert_eq!(run(Call::Rename, fail, rename), is("EDQUOT", "0123456789"));
    let link = "link ../store/MANIFEST-00000001 ../store/MANIFEST-00000002";
    assert_eq!(run(Call::Link, fail, link), is("EDQUOT", "0123456789"));
    let start = Instant::now();
    let delay = Action::Delay(Duration::from_millis(120));
    assert_eq!(run(Call::Write, delay, "pwrite 0 0 ab"), is("2", "ab23456789"));
    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[test]
fn files_of_the_server_have_kinds_under_relative_names_too() {
    let bench = Bench::new(false);
    fs::create_dir(bench.roots.data.join("db")).unwrap();
    bench.run(
        "create ./binlog.000001 create binlog.index create ib_logfile0 create ./db/t.ibd create ibdata1 \
         create db/t.frm create ../store/OWNER mkdir ../store/wal mkdir other",
    );
    let counts = bench.control.counts().unwrap();
    let of = |kind| counts.of(kind, Call::Create);
    assert_eq!((of(Kind::Binlog), of(Kind::Redo), of(Kind::InnoDb)), (2, 1, 2), "{counts}");
    assert_eq!(
        (of(Kind::Manifest), of(Kind::Table), counts.of(Kind::Directory, Call::Mkdir)),
        (0, 0, 1),
        "{counts}"
    );
}

#[test]
fn unsynced_bytes_are_lost_and_synced_ones_stay() {
    let bench = Bench::new(true);
    let file = "../store/wal/000001.wal";
    bench.run(&format!(
        "create {file} dir ../store/wal fsync 1 pwrite 0 0 synced fdatasync 0 pwrite 0 3 XYZ pwrite 0 6 tail kill"
    ));
    assert_eq!(bench.text("wal/000001.wal"), "synXYZtail");
    let taken = bench.cut(Loss::All, 1);
    assert_eq!(bench.text("wal/000001.wal"), "synced");
    assert_eq!((taken.unsynced, taken.changes, taken.lengths, taken.names), (2, 2, 1, 0));
    // What is left is durable.
    assert_eq!(bench.cut(Loss::All, 1), TakenBack::default());
}

#[test]
fn a_sync_covers_its_own_file_alone() {
    let bench = Bench::new(true);
    bench.run(
        "create ../store/000001.sst create ../store/000002.sst dir ../store fsync 2 \
         pwrite 0 0 one pwrite 1 0 two fsync 1 kill",
    );
    bench.cut(Loss::All, 1);
    assert_eq!((bench.text("000001.sst").as_str(), bench.text("000002.sst").as_str()), ("", "two"));
}

#[test]
fn a_lie_loses_what_it_promised() {
    let bench = Bench::new(true);
    bench.arm(Kind::Log, Call::Sync, 2, Action::Lie);
    let answers = bench.run(
        "create ../store/wal/000001.wal dir ../store/wal fsync 1 \
         pwrite 0 0 one fsync 0 pwrite 0 3 two fsync 0 kill",
    );
    assert_eq!(answers.last().map(String::as_str), Some("0"));
    bench.cut(Loss::All, 1);
    assert_eq!(bench.text("wal/000001.wal"), "one");
}

#[test]
fn each_page_keeps_the_first_of_its_changes() {
    let seen: Vec<(char, char)> = (0..60)
        .map(|seed| {
            let bench = Bench::new(true);
            bench.run(
                "create ../store/000001.sst dir ../store fsync 1 fill 0 0 8192 a fsync 0 \
                 fill 0 0 8192 b fill 0 0 8192 c kill",
            );
            bench.cut(Loss::Some, seed);
            let bytes = fs::read(bench.store("000001.sst")).unwrap();
            assert_eq!(bytes.len(), 8192);
            assert!(
                bytes.chunks(4096).all(|page| page.iter().all(|byte| *byte == page[0])),
                "a page is torn"
            );
            (char::from(bytes[0]), char::from(bytes[4096]))
        })
        .collect();
    for pair in [('a', 'a'), ('a', 'c'), ('c', 'a'), ('c', 'c'), ('b', 'a'), ('c', 'b')] {
        assert!(seen.contains(&pair), "{pair:?} of {seen:?}");
    }
}

#[test]
fn a_disk_that_writes_in_order_loses_an_end() {
    let mut seen = [0; 4];
    for seed in 0..80 {
        let bench = Bench::new(true);
        bench.run(
            "create ../store/000001.sst dir ../store fsync 1 fill 0 0 12288 a fsync 0 \
             fill 0 0 4096 b fill 0 4096 4096 b fill 0 8192 4096 b kill",
        );
        bench.cut(Loss::Late, seed);
        let bytes = fs::read(bench.store("000001.sst")).unwrap();
        let pages: Vec<bool> = bytes.chunks(4096).map(|page| page[0] == b'b').collect();
        assert!(pages.windows(2).all(|pair| pair[0] || !pair[1]), "{pages:?}");
        seen[pages.iter().filter(|new| **new).count()] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn a_failed_sync_leaves_pages_that_later_syncs_do_not_cover() {
    let bench = Bench::new(true);
    bench.arm(Kind::Log, Call::Sync, 2, Action::Fail(Errno::EIO));
    let answers = bench.run(
        "create ../store/wal/000001.wal dir ../store/wal fsync 1 fill 0 0 8192 a fsync 0 \
         fill 0 0 8192 b fsync 0 pwrite 0 4096 c fsync 0 kill",
    );
    assert_eq!(answers[6..], ["EIO", "1", "0"]);
    bench.cut(Loss::All, 1);
    let bytes = fs::read(bench.store("wal/000001.wal")).unwrap();
    // The second page changed again, and the whole of it was written.
    assert_eq!((bytes[0], &bytes[4096..4098]), (b'a', &b"cb"[..]));
}

#[test]
fn lengths_come_back_with_their_bytes() {
    let bench = Bench::new(true);
    fs::write(bench.store("000001.sst"), "0123456789").unwrap();
    fs::write(bench.store("000002.sst"), "0123456789").unwrap();
    fs::write(bench.store("000003.sst"), "0123456789").unwrap();
    bench.run(
        "open ../store/000001.sst truncate 0 4 open ../store/000002.sst allocate 1 9000 \
         create ../store/000003.sst pwrite 2 0 new kill",
    );
    assert_eq!(fs::metadata(bench.store("000002.sst")).unwrap().len(), 9000);
    bench.cut(Loss::All, 1);
    for name in ["000001.sst", "000002.sst", "000003.sst"] {
        assert_eq!(bench.text(name), "0123456789", "{name}");
    }
}

#[test]
fn names_without_a_sync_of_their_directory_come_and_go() {
    let bench = Bench::new(true);
    for (name, text) in [("CURRENT", "old"), ("000001.sst", "table"), ("000002.sst", "kept out")] {
        fs::write(bench.store(name), text).unwrap();
    }
    bench.run(
        "create ../store/CURRENT.tmp pwrite 0 0 new fsync 0 \
         unlink ../store/000002.sst dir ../store fsync 1 \
         rename ../store/CURRENT.tmp ../store/CURRENT unlink ../store/000001.sst \
         link ../store/CURRENT ../store/000009.sst create ../store/wal/000001.wal pwrite 2 0 x fsync 2 kill",
    );
    assert_eq!(bench.text("CURRENT"), "new");
    let taken = bench.cut(Loss::All, 1);
    // The sync of the log's file is none of its directory.
    assert_eq!((taken.unsynced_names, taken.names), (4, 4));
    assert_eq!((bench.text("CURRENT"), bench.text("CURRENT.tmp")), ("old".to_string(), "new".to_string()));
    assert_eq!(bench.text("000001.sst"), "table");
    for gone in ["000002.sst", "000009.sst", "wal/000001.wal"] {
        assert!(!bench.store(gone).exists(), "{gone}");
    }
    assert_eq!(fs::read_dir(bench.side().join("trash")).unwrap().count(), 0);
}

#[test]
fn the_binary_log_ends_before_the_first_byte_that_is_lost() {
    let mut lengths = Vec::new();
    for seed in 0..60 {
        let bench = Bench::new(true);
        bench.run(
            "create binlog.000001 fill 0 0 3000 a fsync 0 fill 0 3000 3000 b fill 0 6000 3000 c fill 0 9000 6000 d kill",
        );
        bench.cut(Loss::Some, seed);
        let bytes = fs::read(bench.roots.data.join("binlog.000001")).unwrap();
        assert!(bytes.len() >= 3000 && bytes.is_sorted() && bytes[0] == b'a', "a hole");
        lengths.push(bytes.len());
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.len() > 3 && lengths.contains(&3000), "{lengths:?}");
}

#[test]
fn changes_of_several_lives_are_taken_back_together() {
    let bench = Bench::new(true);
    bench.run(
        "create ../store/wal/000001.wal dir ../store/wal fsync 1 pwrite 0 0 one fsync 0 pwrite 0 3 two kill",
    );
    bench.run("open ../store/wal/000001.wal pwrite 0 6 three kill");
    assert_eq!(bench.text("wal/000001.wal"), "onetwothree");
    bench.cut(Loss::All, 1);
    assert_eq!(bench.text("wal/000001.wal"), "one");
}

#[test]
fn a_record_that_the_kill_cut_off_counts_as_none() {
    let bench = Bench::new(true);
    bench.run(
        "create ../store/wal/000001.wal dir ../store/wal fsync 1 pwrite 0 0 one fsync 0 pwrite 0 0 two kill",
    );
    let journal = bench.side().join("journal");
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, [&bytes[..], &bytes[..30]].concat()).unwrap();
    bench.cut(Loss::All, 1);
    assert_eq!(bench.text("wal/000001.wal"), "one");
}

#[test]
fn a_record_that_the_kill_cut_off_does_not_hide_those_of_the_next_life() {
    let bench = Bench::new(true);
    bench.run("create ../store/wal/000001.wal dir ../store/wal fsync 1 pwrite 0 0 one fsync 0 kill");
    let journal = bench.side().join("journal");
    let bytes = fs::read(&journal).unwrap();
    for part in [30, 53] {
        fs::write(&journal, [&bytes[..], &bytes[..part]].concat()).unwrap();
        bench.run("open ../store/wal/000001.wal pwrite 0 3 two kill");
        bench.cut(Loss::All, 1);
        assert_eq!(bench.text("wal/000001.wal"), "one");
        fs::write(&journal, &bytes).unwrap();
    }
}
