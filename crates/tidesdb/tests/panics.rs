//! A panic of a background thread ends the process: the next start recovers, whereas writers would wait for
//! ever.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Failure, Fault, Op};
use tidesdb::internal::io::FaultyDisk;
use tidesdb::{LogLevel, LogSink, Options};

const CHILD: &str = "PANICS_TEST_CHILD";

/// The child of the test: its flush fails, and the sink of this message panics.
#[test]
fn other_process() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let disk = FaultyDisk::new(1);
    let sink = |level: LogLevel, message: &str| {
        assert!(level != LogLevel::Error, "a sink that panics at: {message}");
    };
    let options = Options { log: Some(LogSink::new(sink)), ..Options::default() };
    let db = Db::open_on(disk.shared(), Path::new("/s"), options, None).expect("opens");
    let fault =
        Fault { op: Some(Op::Write), path: "sst".into(), skip: 0, times: u64::MAX, failure: Failure::Eio };
    disk.fail(fault);
    db.create_family(b"t", tidesdb::FamilyOptions::default()).expect("creates");
    // Without the end of the process this wait would have none.
    std::thread::spawn(move || db.flush());
    std::thread::sleep(Duration::from_secs(10));
    std::process::exit(0);
}

#[test]
fn a_panic_of_the_flush_thread_ends_the_process() {
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "other_process", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("a sink that panics at: flush failed"), "{said}");
    assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{:?}", child.status);
}
