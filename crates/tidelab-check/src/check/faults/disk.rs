//! The last part of `faults`: the store on a small file system of its own, full first and then failing.
//!
//! Full: statements in need of space get 1021; reads and the server go on; a restart works too. With space
//! given back, writes go on by themselves. Failed: the store takes no more writes and asks for the restart;
//! RESET MASTER ends the server, and so does an orderly shutdown after FLUSH BINARY LOGS, in time. After each
//! of them, every acknowledged transaction is there, and none with a definite refusal.
//!
//! The file system is an ext4 image, mounted with `mount -o loop` on the store's directory. It is made to
//! fail by the file systems' own test ioctl. Where this is not permitted, the summary says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{self, Setting};
use tidelab_server::server::Server;

use super::super::session::{Failure, Session};
use super::super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

/// The store in a server's directory.
const STORE: &str = "tidesdb_data";
const WRITERS: i64 = 4;
/// Rows of each transaction.
const ROWS: i64 = 4;
/// Bytes of a row.
const ROW: usize = 8000;
const MEGABYTE: u64 = 1 << 20;
/// The file system's size; the log alone has 64 MB. Removing the file in it gives space back.
const DISK: u64 = 224 * MEGABYTE;
const BALLAST: usize = 32 << 20;
/// Rows of an idle table: its DROP frees as much as the log takes at a time.
const OTHER: i64 = 5000;
/// Errors in a row until a writer gives up.
const ERRORS_IN_A_ROW: u32 = 5;
/// Transactions of a writer lie above its number times this.
const TRANSACTIONS: i64 = 1_000_000;
/// Flush and compaction try again every five seconds.
const RECOVERS_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for filling the file system.
const FULL_WITHIN: Duration = Duration::from_secs(60);

nix::ioctl_read!(
    /// Linux's FS_IOC_SHUTDOWN, of ext4 and xfs.
    shut_down_file_system, b'X', 125, u32
);
/// The argument of the ioctl: nothing more reaches the disk.
const WITHOUT_FLUSH: u32 = 2;

/// A file system in a file, mounted until it is dropped.
struct SmallDisk {
    image: PathBuf,
    at: PathBuf,
}

impl SmallDisk {
    /// Makes and mounts one; the inner error is the reason for refusal here.
    fn make(image: PathBuf, at: &Path) -> Result<std::result::Result<SmallDisk, String>> {
        let file = File::create(&image).map_err(io_error("cannot make", &image))?;
        file.set_len(DISK).map_err(io_error("cannot size", &image))?;
        let made = call("mkfs.ext4", &["-q", "-m", "0", &image.to_string_lossy()]);
        if let Err(why) = made {
            return Ok(Err(why));
        }
        let disk = SmallDisk { image, at: at.to_path_buf() };
        Ok(disk.mount().map(|()| disk))
    }

    fn mount(&self) -> std::result::Result<(), String> {
        call("mount", &["-o", "loop", &self.image.to_string_lossy(), &self.at.to_string_lossy()])
    }

    /// From now on every call to the disk fails.
    fn fail(&self) -> Result<()> {
        let folder = File::open(&self.at).map_err(io_error("cannot open", &self.at))?;
        let mut how = WITHOUT_FLUSH;
        // SAFETY: the descriptor is open, and the call reads four bytes at the address.
        unsafe { shut_down_file_system(folder.as_raw_fd(), &mut how) }
            .map_err(|errno| io_error("cannot shut down", &self.at)(errno.into()))?;
        Ok(())
    }

    /// After a failure: mounts the image anew, as after a power cut.
    fn repair(&self) -> Result<()> {
        let again = unmount(&self.at).and_then(|()| self.mount());
        again.map_err(|message| Error::Load { what: "mount".to_string(), message })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A file system that is not mounted any more needs nothing.
        let _ = unmount(&self.at);
    }
}

/// Lazily: a dying process may hold it for a moment.
fn unmount(at: &Path) -> std::result::Result<(), String> {
    call("umount", &["-l", &at.to_string_lossy()])
}

fn call(program: &str, arguments: &[&str]) -> std::result::Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// The model of a writer.
#[derive(Default)]
struct Writer {
    number: i64,
    next: i64,
    acknowledged: BTreeSet<i64>,
    /// Neither acknowledged nor refused: only the restart knows.
    in_doubt: BTreeSet<i64>,
    /// Error numbers met.
    errors: BTreeSet<u16>,
    /// The meaning of the error.
    refused: BTreeMap<i64, String>,
    complaint: Option<String>,
}

/// Unmounts a file system left by a killed run.
pub(super) fn clear(lab: &Lab<'_>) {
    // Most often there is none.
    let _ = unmount(&directory(lab).join(STORE));
}

/// The directory of the server, within that of the rounds' server.
fn directory(lab: &Lab<'_>) -> PathBuf {
    lab.directory.join("file_system")
}

/// The options of its tables.
const OPTIONS: &str = "ENGINE=TidesDB COMPRESSION='NONE' MIN_DISK_SPACE=0";

/// Runs the scenario.
pub(super) fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let mut settings = settings::checks(true);
    settings.retain(|setting| setting.name != "tidesdb_block_cache_size");
    settings.push(settings::setting("tidesdb_block_cache_size", "64M"));
    let mut server = lab.start_in(&directory(lab), Engine::TidesDb, &settings)?;
    let store = server.directory().join(STORE);
    let rows = format!("a BIGINT PRIMARY KEY, txn BIGINT NOT NULL, pad VARBINARY({ROW}) NOT NULL, KEY (txn)");
    let make = format!("CREATE TABLE disk.t ({rows}) {OPTIONS}");
    set_up(
        &mut connect(&server)?,
        &[
            "CREATE DATABASE disk",
            &make,
            &format!("CREATE TABLE disk.other ({rows}) {OPTIONS}"),
            &format!("CREATE TABLE disk.small (a INT PRIMARY KEY, b INT) {OPTIONS}"),
            "INSERT INTO disk.small VALUES (1, 10), (2, 20), (5, 50)",
            &format!("INSERT INTO disk.other SELECT seq, 0, REPEAT('o', {ROW}) FROM disk.seq_1_to_{OTHER}"),
        ],
    )?;
    server.shut_down()?;
    let disk = match move_to_small_disk(&server, &store)? {
        Ok(disk) => disk,
        Err(why) => {
            let summary = format!("no full file system: one cannot be mounted here ({why})");
            return conclude(server, summary, Vec::new());
        }
    };
    let writers = (1..=WRITERS).map(|number| Writer { number, ..Writer::default() }).collect();
    let mut scenario = Scenario { lab, settings, server, store, writers, complaints: Vec::new() };
    scenario.is_full_and_has_space_again()?;
    scenario.is_full_at_a_start()?;
    let full = scenario.has_space_for_a_new_table(&make)?;
    scenario.fails_under_writers(&disk)?;
    scenario.fails_before_a_shutdown(&disk)?;
    let Scenario { mut server, writers, complaints, .. } = scenario;
    let acknowledged = full + writers.iter().map(|writer| writer.acknowledged.len()).sum::<usize>();
    let in_doubt: usize = writers.iter().map(|writer| writer.in_doubt.len()).sum();
    let summary = format!(
        "a file system of {} MB full twice and failed twice, {acknowledged} acknowledged transactions, {in_doubt} that only the restart knew",
        DISK / MEGABYTE
    );
    server.shut_down()?;
    drop(disk);
    conclude(server, summary, complaints)
}

/// Moves the store of a stopped server to a small file system; the inner error is the reason for refusal here.
fn move_to_small_disk(server: &Server, store: &Path) -> Result<std::result::Result<SmallDisk, String>> {
    let aside = server.directory().join("aside");
    fs::rename(store, &aside).map_err(io_error("cannot move", store))?;
    fs::create_dir(store).map_err(io_error("cannot make", store))?;
    let disk = match SmallDisk::make(server.directory().join("disk.img"), store)? {
        Ok(disk) => disk,
        Err(why) => return Ok(Err(why)),
    };
    call("cp", &["-a", &format!("{}/.", aside.display()), &store.to_string_lossy()])
        .map_err(|message| Error::Load { what: "cp".to_string(), message })?;
    Ok(Ok(disk))
}

/// The scenario's parts, in their order.
struct Scenario<'a> {
    lab: &'a Lab<'a>,
    settings: Vec<Setting>,
    server: Server,
    store: PathBuf,
    writers: Vec<Writer>,
    complaints: Vec<String>,
}

impl Scenario<'_> {
    fn fill(&self) -> Result<()> {
        let ballast = self.store.join("ballast");
        match fs::write(&ballast, vec![0; BALLAST]) {
            // The store may have taken a part of the space since.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Ok(()),
            done => done.map_err(io_error("cannot write", &ballast)),
        }
    }

    fn empty(&self) -> Result<()> {
        let ballast = self.store.join("ballast");
        fs::remove_file(&ballast).map_err(io_error("cannot remove", &ballast))
    }

    fn restart(&mut self) -> Result<()> {
        self.server.restart(&self.settings, self.lab.interrupt).map(|_| ())
    }

    fn told(&self, what: &str) {
        progress(Check::Faults, &format!("file system: {what}: {} wrong", self.complaints.len()));
    }

    fn write_until_full(&mut self) -> Result<()> {
        write_until_refused(&self.server, &mut self.writers, || Ok(()))?;
        self.complaints.extend(refused_with(&mut self.writers, &[1021]));
        Ok(())
    }

    /// Full, and space comes back while the server runs.
    fn is_full_and_has_space_again(&mut self) -> Result<()> {
        self.fill()?;
        self.restart()?;
        self.write_until_full()?;
        self.complaints.extend(on_full_disk(&self.server, &self.writers)?);
        self.complaints.extend(tells(&self.server, true)?);
        self.empty()?;
        self.complaints.extend(goes_on(&self.server, "with space again")?);
        self.complaints.extend(tells(&self.server, false)?);
        self.told("full, and space again");
        Ok(())
    }

    /// Full, killed, started again while it is full; DROP TABLE gives space back.
    fn is_full_at_a_start(&mut self) -> Result<()> {
        self.fill()?;
        self.write_until_full()?;
        self.server.crash()?;
        self.restart()?;
        self.complaints.extend(on_full_disk(&self.server, &self.writers)?);
        set_up(&mut connect(&self.server)?, &["DROP TABLE disk.other"])?;
        self.complaints.extend(goes_on(&self.server, "after a restart on the full disk")?);
        self.told("restarted on the full disk");
        Ok(())
    }

    /// The file system is to fail under writers, and not to be full as well: they begin with a new table. Returns
    /// the number of transactions acknowledged so far.
    fn has_space_for_a_new_table(&mut self, make: &str) -> Result<usize> {
        self.empty()?;
        set_up(&mut connect(&self.server)?, &["DROP TABLE disk.t"])?;
        self.complaints.extend(space_comes_back(&self.store)?);
        make_soon(&mut connect(&self.server)?, make)?;
        self.complaints.extend(goes_on(&self.server, "to a new table")?);
        let full = self.writers.iter().map(|writer| writer.acknowledged.len()).sum();
        self.writers.iter_mut().for_each(|writer| writer.acknowledged.clear());
        Ok(full)
    }

    /// Repaired, and started: every acknowledged transaction is there.
    fn comes_back(&mut self, disk: &SmallDisk, after: &str) -> Result<()> {
        disk.repair()?;
        self.restart()?;
        self.complaints.extend(compare(&mut connect(&self.server)?, &self.writers)?);
        self.complaints.extend(goes_on(&self.server, after)?);
        Ok(())
    }

    fn fails_under_writers(&mut self, disk: &SmallDisk) -> Result<()> {
        self.complaints.extend(fail_under_writers(&self.server, disk, &mut self.writers)?);
        self.told("after the failure");
        self.complaints.extend(ends_at_reset_master(&mut self.server)?);
        self.comes_back(disk, "after the restart")
    }

    /// It fails once more, and the server is told to shut down. The start after that takes no answer from a user.
    fn fails_before_a_shutdown(&mut self, disk: &SmallDisk) -> Result<()> {
        self.complaints.extend(fail_under_writers(&self.server, disk, &mut self.writers)?);
        self.complaints.extend(shuts_down_in_time(&mut self.server)?);
        self.comes_back(disk, "after the shutdown")?;
        self.told("after a shutdown with a failed log");
        Ok(())
    }
}

impl Writer {
    /// Runs transactions until some in a row met an error.
    fn work(&mut self, socket: &Path, until: Instant) -> std::result::Result<(), Failure> {
        let mut session = Session::open(socket)?;
        let mut in_a_row = 0;
        while in_a_row < ERRORS_IN_A_ROW && Instant::now() < until {
            self.next += 1;
            let txn = self.number * TRANSACTIONS + self.next;
            match transaction(&mut session, txn) {
                Ok(()) => {
                    self.acknowledged.insert(txn);
                    in_a_row = 0;
                }
                Err((Failure::Sql { code, message }, at_commit)) => {
                    self.errors.insert(code);
                    if at_commit && message.contains("known only after a restart") {
                        self.in_doubt.insert(txn);
                    }
                    self.refused.insert(txn, message);
                    in_a_row += 1;
                    session.run("ROLLBACK")?;
                }
                Err((lost, _)) => return Err(lost),
            }
        }
        Ok(())
    }
}

/// One transaction; an error, and whether it came at COMMIT.
fn transaction(session: &mut Session, txn: i64) -> std::result::Result<(), (Failure, bool)> {
    let mut run = |statement: &str, at_commit| session.run(statement).map_err(|failure| (failure, at_commit));
    run("BEGIN", false)?;
    for row in 0..ROWS {
        let insert = "INSERT INTO disk.t VALUES";
        run(&format!("{insert} ({}, {txn}, REPEAT('{}', {ROW}))", txn * ROWS + row, txn % 10), false)?;
    }
    run("COMMIT", true).map(|_| ())
}

/// All writers at work until each has met some errors in a row; `meanwhile` runs alongside them.
fn write_until_refused(
    server: &Server,
    writers: &mut [Writer],
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let until = Instant::now() + FULL_WITHIN;
    thread::scope(|scope| {
        for writer in writers.iter_mut() {
            let socket = server.socket();
            scope.spawn(move || {
                if let Err(failure) = writer.work(socket, until) {
                    writer.complaint = Some(format!("writer {}: {failure}", writer.number));
                }
            });
        }
        meanwhile()
    })
}

/// Each writer met errors, and these alone.
fn refused_with(writers: &mut [Writer], codes: &[u16]) -> Vec<String> {
    let mut complaints = Vec::new();
    for writer in writers {
        complaints.extend(writer.complaint.take());
        let errors = std::mem::take(&mut writer.errors);
        if errors.is_empty() || !errors.iter().all(|code| codes.contains(code)) {
            complaints.push(format!("writer {} met {errors:?}, must be {codes:?}", writer.number));
        }
    }
    complaints
}

/// Reads go on, changes get 1021, a transaction goes on after it.
fn on_full_disk(server: &Server, writers: &[Writer]) -> Result<Vec<String>> {
    let mut session = connect(server)?;
    let mut complaints = compare(&mut session, writers)?;
    let other = "SELECT COUNT(*) FROM disk.other WHERE pad LIKE 'o%'";
    let count = must(other, session.number(other))?;
    if count != OTHER {
        complaints.push(format!("{count} rows of the other table are there while the disk is full"));
    }
    Ok(complaints)
}

/// A number of the global status.
fn figure(session: &mut Session, name: &str) -> Result<i64> {
    let query = format!(
        "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status WHERE variable_name = '{name}'"
    );
    must(&query, session.number(&query))
}

/// Waits until `tidesdb_disk_full` says so; returns its last value. The end is told once nobody has been
/// refused for a second, and flushes and merges found room.
fn wait_until_full(session: &mut Session, full: bool) -> Result<i64> {
    let start = Instant::now();
    loop {
        let now = figure(session, "tidesdb_disk_full")?;
        if now == i64::from(full) || start.elapsed() > RECOVERS_WITHIN {
            return Ok(now);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The error log, the engine's log and the status report a full disk, or room again.
fn tells(server: &Server, full: bool) -> Result<Vec<String>> {
    let line = if full { "the disk is full: no room for " } else { "the disk has room again, after " };
    let mut session = connect(server)?;
    let now = wait_until_full(&mut session, full)?;
    let mut complaints = Vec::new();
    let times = figure(&mut session, "tidesdb_disk_full_count")?;
    if now != i64::from(full) || times == 0 {
        complaints
            .push(format!("full: {full}, but tidesdb_disk_full is {now}, tidesdb_disk_full_count {times}"));
    }
    for log in ["error.log", "data/tidesdb.log"] {
        let path = server.directory().join(log);
        let text = fs::read(&path).map_err(io_error("cannot read", &path))?;
        if !String::from_utf8_lossy(&text).contains(line) {
            complaints.push(format!("{log} has no line '{line}...'"));
        }
    }
    Ok(complaints)
}

/// Within one retry interval of the background, changes succeed in a row, more than the memtables hold.
fn goes_on(server: &Server, when: &str) -> Result<Vec<String>> {
    let mut session = connect(server)?;
    let change = format!("REPLACE INTO disk.t SELECT -seq, 0, REPEAT('g', {ROW}) FROM disk.seq_1_to_100");
    let start = Instant::now();
    let mut in_a_row = 0;
    while in_a_row < 4 {
        match session.run(&change) {
            Ok(_) => in_a_row += 1,
            Err(failure) if start.elapsed() > RECOVERS_WITHIN => {
                return Ok(vec![format!("no writes {when}: {failure}")]);
            }
            Err(Failure::Sql { .. }) => {
                in_a_row = 0;
                thread::sleep(Duration::from_millis(100));
            }
            Err(lost) => return Ok(vec![format!("no answer {when}: {lost}")]),
        }
    }
    Ok(Vec::new())
}

/// A definition succeeds within one retry interval of the background.
fn make_soon(session: &mut Session, make: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        match session.run(make) {
            Err(Failure::Sql { .. }) if start.elapsed() < RECOVERS_WITHIN => {
                thread::sleep(Duration::from_millis(100));
            }
            done => return must(make, done).map(|_| ()),
        }
    }
}

/// The files of dropped tables are removed in the background.
fn space_comes_back(store: &Path) -> Result<Vec<String>> {
    let start = Instant::now();
    loop {
        let free = statvfs(store).map_err(|errno| io_error("cannot ask", store)(errno.into()))?;
        let free = free.blocks_available() * free.fragment_size();
        if free >= 2 * BALLAST as u64 {
            return Ok(Vec::new());
        }
        if start.elapsed() > RECOVERS_WITHIN {
            return Ok(vec![format!("only {} MB are free after DROP TABLE", free / MEGABYTE)]);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The file system fails while writers are at work. They get errors, soon and only errors; reads without a
/// file go on; the store names the remedy.
fn fail_under_writers(server: &Server, disk: &SmallDisk, writers: &mut [Writer]) -> Result<Vec<String>> {
    let mut session = connect(server)?;
    let mut complaints = Vec::new();
    // A merge that found no room may wait for a table that was dropped, and its writers meet 1021 until that is seen.
    if wait_until_full(&mut session, false)? != 0 {
        complaints.push("there is room, and tidesdb_disk_full is still 1".to_string());
    }
    let read = "SELECT SUM(b) FROM disk.small";
    write_until_refused(server, writers, || {
        thread::sleep(Duration::from_millis(300));
        // Into the cache.
        must(read, session.number(read))?;
        disk.fail()
    })?;
    for writer in writers.iter_mut() {
        complaints.extend(writer.complaint.take());
        let errors = std::mem::take(&mut writer.errors);
        if !errors.contains(&1296) {
            complaints.push(format!("writer {} met {errors:?} when the disk failed", writer.number));
        }
    }
    // The first may be the one that meets the failure: it changes nothing that the sum shows.
    let mut answers = Vec::new();
    for statement in ["REPLACE INTO disk.small VALUES (3, 0)", "REPLACE INTO disk.small VALUES (4, 0)"] {
        answers.push(session.run(statement));
    }
    let says = |part: &str, answer: &std::result::Result<u64, Failure>| matches!(answer, Err(Failure::Sql { message, .. }) if message.contains(part));
    if !answers.iter().all(|answer| says("after a restart", answer) || says("restart to recover", answer))
        || !answers.last().is_some_and(|answer| says("restart to recover", answer))
    {
        complaints.push(format!("two changes on the failed disk: {answers:?}"));
    }
    // Definitions too name cause and remedy.
    for statement in [
        "CREATE TABLE disk.late (a INT PRIMARY KEY) ENGINE=TidesDB",
        "ALTER TABLE disk.small ADD KEY late (b)",
        "TRUNCATE TABLE disk.small",
    ] {
        match session.run(statement) {
            Err(Failure::Sql { code: 1036, message }) if message.contains("restart to recover") => {}
            other => complaints.push(format!("{statement} on the failed disk: {other:?}")),
        }
    }
    let log = server.directory().join("error.log");
    let text = fs::read(&log).map_err(io_error("cannot read", &log))?;
    let line = "the store takes no changes: mend the disk, restart to recover";
    if !String::from_utf8_lossy(&text).contains(line) {
        complaints.push(format!("the error log does not say: {line}"));
    }
    match session.number(read) {
        Ok(80) => {}
        other => complaints.push(format!("{read} on the failed disk: {other:?}")),
    }
    Ok(complaints)
}

/// RESET MASTER after the failure would remove the files for recovery.
fn ends_at_reset_master(server: &mut Server) -> Result<Vec<String>> {
    let mut session = connect(server)?;
    let answer = session.run("RESET MASTER");
    let start = Instant::now();
    while server.check_alive().is_ok() && start.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(50));
    }
    let mut complaints = Vec::new();
    if server.check_alive().is_ok() {
        complaints.push(format!("RESET MASTER after the failure: {answer:?}, and the server lives"));
        server.crash()?;
    }
    let log = server.directory().join("error.log");
    let text = fs::read(&log).map_err(io_error("cannot read", &log))?;
    let line = "the server ends here, a restart recovers, and then RESET MASTER can be repeated";
    if !String::from_utf8_lossy(&text).contains(line) {
        complaints.push(format!("the error log does not say: {line}"));
    }
    Ok(complaints)
}

/// FLUSH BINARY LOGS and a shutdown after the failure end, and the error log gives the reason.
fn shuts_down_in_time(server: &mut Server) -> Result<Vec<String>> {
    let mut session = connect(server)?;
    // The rotation is no promise of the engine's; it shall not keep the server from ending.
    let _ = session.run("FLUSH BINARY LOGS");
    server.shut_down()?;
    let log = server.directory().join("error.log");
    let text = fs::read(&log).map_err(io_error("cannot read", &log))?;
    let line = "the server ends here without closing the binary log, and the next start recovers by it";
    Ok(match String::from_utf8_lossy(&text).contains(line) {
        true => Vec::new(),
        false => vec![format!("the error log does not say: {line}")],
    })
}

/// Compares rows with the writers' models, and checks the indexes.
fn compare(session: &mut Session, writers: &[Writer]) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    let select =
        "SELECT txn, COUNT(*), SUM(LENGTH(pad) = 8000 AND a DIV 4 = txn) FROM disk.t FORCE INDEX (PRIMARY)
                  WHERE txn > 0 GROUP BY txn";
    let found = must(select, session.numbers(select))?;
    let there: BTreeSet<i64> = found.iter().map(|row| row[0]).collect();
    for row in found.iter().filter(|row| row[1] != ROWS || row[2] != ROWS) {
        complaints.push(format!("transaction {} has {} rows, {} of them right", row[0], row[1], row[2]));
    }
    let mut known = BTreeSet::new();
    for writer in writers {
        let lost: Vec<&i64> = writer.acknowledged.difference(&there).collect();
        if let Some(first) = lost.first() {
            complaints.push(format!("{} acknowledged transactions are lost, the first {first}", lost.len()));
        }
        known.extend(writer.acknowledged.union(&writer.in_doubt));
    }
    for txn in there.difference(&known) {
        let error = writers.iter().find_map(|writer| writer.refused.get(txn));
        complaints.push(format!("transaction {txn} is there and was answered with {error:?}"));
    }
    let by_index = "SELECT COUNT(*) FROM disk.t FORCE INDEX (txn) WHERE txn > 0";
    let count = must(by_index, session.number(by_index))?;
    if usize::try_from(count) != Ok(there.len() * ROWS as usize) {
        complaints
            .push(format!("{count} rows by the index, {} by the primary key", there.len() * ROWS as usize));
    }
    Ok(complaints)
}
