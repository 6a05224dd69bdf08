//! Other engines' part of a backup: by `mariadb-backup`, or as a dump.
//!
//! The dump has three parts. Users, and tables without transactions, are dumped from BACKUP STAGE BLOCK_DDL
//! on: nothing in them changes after it. The others are dumped in a snapshot begun in BLOCK_COMMIT: with its
//! start the stages end. A dump names no table of TidesDB: loaded after the restore it would drop it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;

use crate::connection::{Address, Connection};
use crate::output::Failure;
use crate::programs::{told, Programs};
use crate::store_backup::StoreBackup;

/// The other engines' part in the backup's directory.
pub const DUMP: &str = "rest.sql";
pub const FILES: &str = "rest";

/// The suffix of a backup in the making.
pub const UNFINISHED: &str = ".part";

/// Databases represented by the dump of users, servers and functions, or without rows of their own.
const NOT_DUMPED: &str = "('mysql', 'sys', 'information_schema', 'performance_schema')";

/// Seconds of each stage's wait for running statements; writers wait after it.
const LOCK_WAIT: u32 = 60;

/// Begins the first line of a dump after the start of its snapshot.
const SNAPSHOT_IS_THERE: &[u8] = b"-- Current Database:";

/// Lines of a failed program's output to print.
const TOLD_LINES: usize = 5;

pub fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::Other(format!("{}: {error}", path.display()))
}

/// The target, the server, and its programs.
pub struct Others<'a> {
    pub dir: &'a Path,
    pub address: &'a Address<'a>,
    pub programs: &'a Programs,
}

fn part(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

/// Copies the files. `look` is called again and again meanwhile, and ends it by an error.
pub fn by_mariadb_backup(
    others: &Others<'_>,
    look: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let program = program(others)?;
    let mut command = others.programs.connected(program, others.address)?;
    command.arg("--backup").arg(format!("--target-dir={}", others.dir.join(part(FILES)).display()));
    let mut running = spawn_logged(others, &mut command, program)?;
    let ended = loop {
        match running.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => break Ok(status),
            Err(error) => break Err(cannot(program, &error)),
        }
        if let Err(failure) = look() {
            break Err(failure);
        }
    };
    let _ = running.kill();
    let _ = running.wait();
    check(others, program, ended?.success())
}

/// Applies the log to the copied files, for copying them back.
pub fn prepare(others: &Others<'_>) -> Result<(), Failure> {
    let program = program(others)?;
    let mut command = Command::new(program);
    command.arg("--no-defaults").arg("--prepare");
    command.arg(format!("--target-dir={}", others.dir.join(part(FILES)).display()));
    let ended =
        spawn_logged(others, &mut command, program)?.wait().map_err(|error| cannot(program, &error))?;
    check(others, program, ended.success())?;
    sync(&others.dir.join(part(FILES)))
}

fn program<'a>(others: &Others<'a>) -> Result<&'a Path, Failure> {
    others.programs.backup.as_deref().ok_or_else(|| {
        let what = format!(
            "no mariadb-backup in bin of {}, the server's basedir; --with=mariadb-dump does without it",
            others.programs.base
        );
        Failure::Other(what)
    })
}

fn log_of(others: &Others<'_>) -> std::path::PathBuf {
    others.dir.join("mariadb-backup.log")
}

fn spawn_logged(others: &Others<'_>, command: &mut Command, program: &Path) -> Result<Child, Failure> {
    let path = log_of(others);
    let log = OpenOptions::new().create(true).append(true).open(&path);
    let log = log.and_then(|log| Ok((log.try_clone()?, log))).map_err(|error| cannot(&path, &error))?;
    command.stdin(Stdio::null()).stdout(log.0).stderr(log.1);
    command.spawn().map_err(|error| cannot(program, &error))
}

fn check(others: &Others<'_>, program: &Path, is_success: bool) -> Result<(), Failure> {
    if is_success {
        return Ok(());
    }
    let log = fs::read(log_of(others)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let mut last: Vec<&str> = log.lines().rev().take(TOLD_LINES).collect();
    last.reverse();
    Err(Failure::Other(format!("{} failed:\n{}", program.display(), last.join("\n"))))
}

/// Makes a directory's files durable.
fn sync(dir: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| cannot(dir, &error);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        match entry.file_type().map_err(failed)? {
            kind if kind.is_dir() => sync(&entry.path())?,
            kind if kind.is_file() => {
                File::open(entry.path()).and_then(|file| file.sync_all()).map_err(failed)?;
            }
            _ => {}
        }
    }
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)
}

/// Gives the complete part its name.
pub fn complete(others: &Others<'_>) -> Result<(), Failure> {
    for name in [FILES, DUMP] {
        let (from, to) = (others.dir.join(part(name)), others.dir.join(name));
        if from.exists() {
            fs::rename(&from, &to).map_err(|error| cannot(&to, &error))?;
        }
    }
    Ok(())
}

/// The tables to dump, and those to leave out.
struct Tables {
    databases: Vec<String>,
    /// Database and name of those without transactions.
    without: Vec<[String; 2]>,
    with: Vec<[String; 2]>,
    views: Vec<[String; 2]>,
    ours: Vec<[String; 2]>,
}

fn tables(server: &mut Connection) -> Result<Tables, Failure> {
    let of = |condition: &str| {
        format!(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES LEFT JOIN information_schema.ENGINES USING \
             (ENGINE) WHERE TABLE_SCHEMA NOT IN {NOT_DUMPED} AND {condition} ORDER BY 1, 2"
        )
    };
    let mut named = |condition: &str| -> Result<Vec<[String; 2]>, Failure> {
        let rows = server.rows(&of(condition))?;
        Ok(rows.into_iter().filter_map(|row| row.try_into().ok()).collect())
    };
    let others = "TABLE_TYPE <> 'VIEW' AND TABLE_TYPE <> 'TEMPORARY' AND COALESCE(ENGINE, '') <> 'TidesDB'";
    Ok(Tables {
        without: named(&format!("{others} AND COALESCE(TRANSACTIONS, 'NO') <> 'YES'"))?,
        with: named(&format!("{others} AND TRANSACTIONS = 'YES'"))?,
        views: named("TABLE_TYPE = 'VIEW'")?,
        ours: named("ENGINE = 'TidesDB'")?,
        databases: server
            .rows(&format!(
                "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN {NOT_DUMPED} ORDER BY 1"
            ))?
            .concat(),
    })
}

/// Dumps the rest. The backup of the store gets its moment.
pub fn by_dump(others: &Others<'_>, server: &mut Connection, store: &mut StoreBackup) -> Result<(), Failure> {
    let path = others.dir.join(part(DUMP));
    let mut file = File::create_new(&path).map_err(|error| cannot(&path, &error))?;
    let mut stages = Connection::open_without_limit(others.address)?;
    stages.rows(&format!("SET SESSION lock_wait_timeout = {LOCK_WAIT}"))?;
    for stage in ["START", "FLUSH", "BLOCK_DDL"] {
        stages.rows(&format!("BACKUP STAGE {stage}"))?;
    }
    let tables = tables(server)?;
    let mut nothing = || Ok(());
    let mut users = dump(others)?;
    users.args(["--system=users,servers,udfs", "--insert-ignore"]);
    copy(others, users, &path, &mut file, &mut nothing)?;
    if !tables.without.is_empty() {
        let mut databases: Vec<&String> = tables.without.iter().map(|[database, _]| database).collect();
        databases.dedup();
        let mut fixed = dump(others)?;
        fixed.arg("--skip-lock-tables").args(left_out(&[&tables.with, &tables.views, &tables.ours]));
        fixed.arg("--databases").args(databases);
        copy(others, fixed, &path, &mut file, &mut nothing)?;
    }

    stages.rows("BACKUP STAGE BLOCK_COMMIT")?;
    stages.rows("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS")?;
    if store.waits(server)? {
        return Err(Failure::Other("the backup of the store did not take its moment".into()));
    }
    let mut end = || stages.rows("BACKUP STAGE END").map(drop);
    if tables.databases.is_empty() {
        end()?;
    } else {
        let mut snapshot = dump(others)?;
        snapshot.args(["--single-transaction", "--routines", "--events"]);
        snapshot.args(left_out(&[&tables.without, &tables.ours]));
        snapshot.arg("--databases").args(&tables.databases);
        copy(others, snapshot, &path, &mut file, &mut end)?;
    }
    file.sync_all().map_err(|error| cannot(&path, &error))
}

fn dump(others: &Others<'_>) -> Result<Command, Failure> {
    let mut command = others.programs.connected(&others.programs.dump, others.address)?;
    command
        .args(["--comments", "--hex-blob", "--default-character-set=utf8mb4", "--max-allowed-packet=1G"])
        // Under LOCK TABLES a default of NEXTVAL finds its sequence not locked (1100).
        .args(["--dump-history", "--skip-add-locks"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

fn left_out(lists: &[&Vec<[String; 2]>]) -> Vec<String> {
    let named = |[database, table]: &[String; 2]| format!("--ignore-table={database}.{table}");
    lists.iter().flat_map(|list| list.iter().map(named)).collect()
}

fn all_of(mut errors: ChildStderr) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = errors.read_to_end(&mut bytes);
    bytes
}

/// Appends a dump to the file. Tells when its snapshot is there.
fn copy(
    others: &Others<'_>,
    mut command: Command,
    path: &Path,
    file: &mut File,
    snapshot_is_there: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let program = &others.programs.dump;
    let failed = |error: io::Error| cannot(path, &error);
    let mut dumping = command.spawn().map_err(|error| cannot(program, &error))?;
    let (Some(rows), Some(errors)) = (dumping.stdout.take(), dumping.stderr.take()) else {
        return Err(Failure::Other(format!("{} gives no output", program.display())));
    };
    let errors = thread::spawn(move || all_of(errors));
    let copied = (|| {
        let mut rows = BufReader::with_capacity(1 << 20, rows);
        let mut line = Vec::new();
        while !line.starts_with(SNAPSHOT_IS_THERE) {
            line.clear();
            if rows.read_until(b'\n', &mut line).map_err(failed)? == 0 {
                break;
            }
            file.write_all(&line).map_err(failed)?;
        }
        snapshot_is_there()?;
        io::copy(&mut rows, file).map_err(failed)
    })();
    if copied.is_err() {
        let _ = dumping.kill();
    }
    let status = dumping.wait().map_err(|error| cannot(program, &error))?;
    let errors = errors.join().unwrap_or_default();
    copied?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::Other(format!("{}: {}", program.display(), told(status, &errors)))),
    }
}

/// Verifies that the other engines' part is complete; returns its name. `None`: there is none.
pub fn verify(dir: &Path) -> Result<Option<&'static str>, Failure> {
    let (dump, files) = (dir.join(DUMP), dir.join(FILES));
    if dump.exists() {
        return match last_bytes(&dump).map_err(|error| cannot(&dump, &error))?.contains("-- Dump completed") {
            true => Ok(Some(DUMP)),
            false => Err(Failure::Other(format!("{}: its end is missing", dump.display()))),
        };
    }
    if !files.exists() {
        return Ok(None);
    }
    let names = ["mariadb_backup_checkpoints", "xtrabackup_checkpoints"];
    let texts = names.iter().filter_map(|name| fs::read_to_string(files.join(name)).ok());
    let text = texts.collect::<String>();
    match ["log-applied", "full-prepared"].iter().any(|state| text.contains(state)) {
        true => Ok(Some(FILES)),
        false => Err(Failure::Other(format!(
            "{}: mariadb-backup has not prepared it (mariadb-backup --prepare --target-dir={0})",
            files.display()
        ))),
    }
}

fn last_bytes(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(200);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Copies the files of a prepared backup into a data directory, empty or missing so far.
pub fn copy_back(files: &Path, data: &Path) -> Result<(), Failure> {
    let mut command = Command::new("mariadb-backup");
    command.args(["--no-defaults", "--copy-back"]);
    command.arg(format!("--target-dir={}", files.display())).arg(format!("--datadir={}", data.display()));
    let by_hand = "mariadb-backup --copy-back --target-dir=";
    let done = command.stdin(Stdio::null()).output().map_err(|error| {
        Failure::Other(format!(
            "mariadb-backup: {error}; copy the files back first: {by_hand}{}",
            files.display()
        ))
    })?;
    match done.status.success() {
        true => Ok(()),
        false => {
            Err(Failure::Other(format!("{by_hand}{}: {}", files.display(), told(done.status, &done.stderr))))
        }
    }
}
