//! One table of a backup, into a running server.
//!
//! Rows can be read by a server alone: types, collations and generated columns are its own. So a private
//! server is started over the table's part of the backup, in a directory of its own, with the programs of the
//! running server. Its dump of the table is loaded there. The loading is ordinary statements: it replicates,
//! and stops nobody.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use tidesdb::internal::backup::{restore_part, Part, Watch};
use tidesdb::internal::io::Disk;

use crate::connection::{literal, quoted, Address, Connection};
use crate::output::{Failure, Out};
use crate::programs::{told, Programs};
use crate::DONE;

/// Longest path of a socket.
const SOCKET_LENGTH: usize = 107;

/// A table by database and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    pub database: String,
    pub table: String,
}

impl std::str::FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<TableName, String> {
        match text.split_once('.') {
            Some((database, table)) if !database.is_empty() && !table.is_empty() => {
                Ok(TableName { database: database.into(), table: table.into() })
            }
            _ => Err("a table is named as DATABASE.TABLE".into()),
        }
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.database, self.table)
    }
}

impl TableName {
    fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.database), quoted(&self.table))
    }
}

/// The table to restore, and its target.
pub struct Wanted<'a> {
    pub backup: &'a Path,
    pub table: &'a TableName,
    pub new_name: &'a TableName,
    pub server: Address<'a>,
    pub scratch: Option<&'a Path>,
}

/// A directory removed with its owner.
struct Scratch(PathBuf);

impl Scratch {
    /// Next to the backup, unless another place is named: there tables need no copy.
    fn make(wanted: &Wanted<'_>) -> Result<Scratch, Failure> {
        let around = wanted.backup.canonicalize().ok().and_then(|path| path.parent().map(Path::to_path_buf));
        let around = wanted.scratch.map(Path::to_path_buf).or(around).unwrap_or_else(std::env::temp_dir);
        let path = around.join(format!(".tidesdb-restore-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            let what = format!("cannot make {}: {error}; --scratch names another place", path.display());
            Failure::Other(what)
        })?;
        let scratch = Scratch(path);
        for name in ["data", "tmp"] {
            fs::create_dir(scratch.0.join(name)).map_err(|error| in_the_way(&scratch.0, &error))?;
        }
        if scratch.socket().as_os_str().len() > SOCKET_LENGTH {
            let what = format!(
                "{} is longer than a socket's path may be ({SOCKET_LENGTH}); --scratch names a shorter one",
                scratch.socket().display()
            );
            return Err(Failure::Other(what));
        }
        Ok(scratch)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }

    fn log(&self) -> PathBuf {
        self.0.join("error.log")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left has a name that says whose it is.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn in_the_way(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Other(format!("{}: {error}", path.display()))
}

/// The private server. Its data are thrown away, so it is ended without ceremony.
struct PrivateServer(Child);

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl PrivateServer {
    fn start(programs: &Programs, scratch: &Scratch) -> Result<PrivateServer, Failure> {
        let log = File::create(scratch.log()).map_err(|error| in_the_way(&scratch.log(), &error))?;
        let errors = log.try_clone().map_err(|error| in_the_way(&scratch.log(), &error))?;
        let place = |name: &str| scratch.0.join(name).display().to_string();
        let mut command = Command::new(&programs.server);
        command.args([
            "--no-defaults".to_string(),
            format!("--basedir={}", programs.base),
            format!("--plugin-dir={}", programs.plugins),
            format!("--datadir={}", place("data")),
            format!("--tmpdir={}", place("tmp")),
            format!("--socket={}", scratch.socket().display()),
            format!("--pid-file={}", place("pid")),
            format!("--lower-case-table-names={}", programs.lower_case),
            format!("--tidesdb-data-home-dir={}", place("store")),
        ]);
        command.args([
            "--plugin-load-add=ha_tidesdb",
            "--plugin-maturity=unknown",
            "--skip-networking",
            "--skip-grant-tables",
            "--skip-log-bin",
            "--skip-slave-start",
            "--skip-innodb",
            "--default-storage-engine=Aria",
            "--max-allowed-packet=1G",
            "--loose-tidesdb-unified-memtable-write-buffer-size=64M",
        ]);
        // A server that root starts names its user. Nobody else comes into the directory.
        if fs::metadata(&scratch.0).is_ok_and(|made| made.uid() == 0) {
            command.arg("--user=root");
        }
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let started = command.spawn().map_err(|error| in_the_way(&programs.server, &error))?;
        Ok(PrivateServer(started))
    }

    /// Recovery of the backup's log may take its time: as long as the server lives, it is waited for.
    fn connect(&mut self, scratch: &Scratch) -> Result<Connection, Failure> {
        let socket = scratch.socket();
        let address =
            Address { socket: Some(&socket), host: None, port: 0, user: "root", password_file: None };
        loop {
            if let Ok(connection) = Connection::open(&address) {
                return Ok(connection);
            }
            if let Ok(Some(status)) = self.0.try_wait() {
                let log = fs::read_to_string(scratch.log()).unwrap_or_default();
                let mut last: Vec<&str> = log.lines().rev().take(10).collect();
                last.reverse();
                let what = format!("the server over the backup ended ({status}):\n{}", last.join("\n"));
                return Err(Failure::Other(what));
            }
            sleep(Duration::from_millis(50));
        }
    }
}

/// Restores the table.
pub fn run(disk: &Arc<dyn Disk>, wanted: &Wanted<'_>, out: &mut Out<'_>) -> Result<u8, Failure> {
    let mut server = Connection::open(&wanted.server)?;
    let programs = Programs::of(&mut server)?;
    refuse_target(&mut server, wanted)?;
    let [database, table] = names_of_files(&mut server, wanted.table)?;
    let scratch = Scratch::make(wanted)?;
    take_part(disk, wanted, &scratch, &database, &table)?;

    let mut private = PrivateServer::start(&programs, &scratch)?;
    let mut over_backup = private.connect(&scratch)?;
    let dropped = match wanted.table.table == wanted.new_name.table {
        true => Vec::new(),
        false => rename(&mut over_backup, wanted)?,
    };
    drop(over_backup);
    load(&programs, wanted, &scratch)?;

    out.document(&json!({
        "table": wanted.table.to_string(), "restored_as": wanted.new_name.to_string(), "left_out": dropped,
    }))?;
    out.line(format_args!("{}: restored as {}", wanted.table, wanted.new_name))?;
    for what in dropped {
        out.line(format_args!("left out: {what}"))?;
    }
    Ok(DONE)
}

/// An existing table is not written over.
fn refuse_target(server: &mut Connection, wanted: &Wanted<'_>) -> Result<(), Failure> {
    let name = wanted.new_name;
    let place = server.place.clone();
    let database = literal(&name.database);
    let known =
        server.rows(&format!("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {database}"))?;
    if known.is_empty() {
        let what = format!("{place}: there is no database {}; make it first", name.database);
        return Err(Failure::Other(what));
    }
    let there = server.rows(&format!(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {database} AND TABLE_NAME = {}",
        literal(&name.table)
    ))?;
    match there.is_empty() {
        true => Ok(()),
        false => Err(Failure::Other(format!(
            "{place}: the table {name} is there; drop or rename it first, or give the restored one another name by --as"
        ))),
    }
}

/// Names as the server's files have them.
fn names_of_files(server: &mut Connection, name: &TableName) -> Result<[String; 2], Failure> {
    let of = |text: &str| format!("CONVERT(CONVERT({} USING filename) USING binary)", literal(text));
    let rows = server.rows(&format!("SELECT {}, {}", of(&name.database), of(&name.table)))?;
    let names = rows.into_iter().next().and_then(|row| row.try_into().ok());
    names.ok_or_else(|| Failure::Other(format!("{}: no names of files for {name}", server.place)))
}

/// Takes the table's part of the backup: its families and those of its partitions, and its definition.
fn take_part(
    disk: &Arc<dyn Disk>,
    wanted: &Wanted<'_>,
    scratch: &Scratch,
    database: &str,
    table: &str,
) -> Result<(), Failure> {
    let path = format!("{database}/{table}");
    let family = |name: &[u8]| {
        let rest = name.strip_prefix(path.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"\0") || rest.starts_with(b"#P#"))
    };
    let own = [".frm", ".par", ".TRG"].map(|extension| format!("{path}{extension}"));
    let options = format!("{database}/db.opt");
    let file = |name: &str| {
        let trigger = name.starts_with(&format!("{database}/")) && name.ends_with(".TRN");
        name == "tidesdb_identity" || name == options || trigger || own.iter().any(|known| known == name)
    };
    let (store, data) = (scratch.0.join("store"), scratch.0.join("data"));
    let part = Part { family: &family, file: &file };
    let taken = restore_part(disk, wanted.backup, &store, &data, &part, Watch::NONE);
    let info = taken.map_err(|error| match error {
        tidesdb::Error::InvalidArgument(what) => Failure::Other(format!("{}: {what}", wanted.table)),
        other => other.into(),
    })?;
    if let Some(damaged) = info.left_out.iter().find(|damaged| family(damaged.family.as_bytes())) {
        let what = format!(
            "{} was damaged when the backup {} was taken, which left out its file {}; take an earlier backup",
            wanted.table,
            wanted.backup.display(),
            damaged.file
        );
        return Err(Failure::Other(what));
    }
    match data.join(&own[0]).is_file() {
        true => Ok(()),
        false => {
            let what =
                format!("the backup {} has no definition of {}", wanted.backup.display(), wanted.table);
            Err(Failure::Other(what))
        }
    }
}

/// Gives the table its new name. Taken names of its foreign keys and triggers are lost: returns these.
fn rename(server: &mut Connection, wanted: &Wanted<'_>) -> Result<Vec<String>, Failure> {
    let TableName { database, table } = wanted.table;
    let mut left_out = Vec::new();
    let (of_database, of_table) = (literal(database), literal(table));
    for row in server.rows(&format!(
        "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = {of_database} \
         AND EVENT_OBJECT_TABLE = {of_table} ORDER BY 1"
    ))? {
        server.rows(&format!("DROP TRIGGER {}.{}", quoted(database), quoted(&row[0])))?;
        left_out.push(format!("trigger {}", row[0]));
    }
    for row in server.rows(&format!(
        "SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = {of_database} \
         AND TABLE_NAME = {of_table} AND CONSTRAINT_TYPE = 'FOREIGN KEY' ORDER BY 1"
    ))? {
        server.rows(&format!("ALTER TABLE {} DROP FOREIGN KEY {}", wanted.table.quoted(), quoted(&row[0])))?;
        left_out.push(format!("foreign key {}", row[0]));
    }
    let new = TableName { database: database.clone(), table: wanted.new_name.table.clone() };
    server.rows(&format!("RENAME TABLE {} TO {}", wanted.table.quoted(), new.quoted()))?;
    Ok(left_out)
}

/// Dumps the table, and loads it.
fn load(programs: &Programs, wanted: &Wanted<'_>, scratch: &Scratch) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error: std::io::Error| in_the_way(&path, &error)
    };
    // Under LOCK TABLES a default of NEXTVAL finds its sequence not locked (1100).
    let mut dump = Command::new(&programs.dump)
        .args([
            "--no-defaults",
            "--user=root",
            "--single-transaction",
            "--skip-add-drop-table",
            "--skip-add-locks",
        ])
        .args(["--hex-blob", "--default-character-set=utf8mb4", "--max-allowed-packet=1G", "--dump-history"])
        .arg(format!("--socket={}", scratch.socket().display()))
        .args([&wanted.table.database, &wanted.new_name.table])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed(&programs.dump))?;
    let Some(statements) = dump.stdout.take() else {
        return Err(Failure::Other(format!("{} gives no output", programs.dump.display())));
    };
    let mut client = programs.connected(&programs.client, &wanted.server)?;
    client
        .args(["--default-character-set=utf8mb4", "--max-allowed-packet=1G"])
        .arg(&wanted.new_name.database)
        .stdin(statements)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let loaded = client.spawn().and_then(Child::wait_with_output).map_err(failed(&programs.client))?;
    // The client has its pipe no more: a dump that it left ends too.
    drop(client);
    let dumped = dump.wait_with_output().map_err(failed(&programs.dump))?;
    let why = match (loaded.status.success(), dumped.status.success()) {
        (true, true) => return Ok(()),
        (false, _) => told(loaded.status, &loaded.stderr),
        (true, false) => told(dumped.status, &dumped.stderr),
    };
    Err(Failure::Other(format!(
        "{why}; if the table {} is there, rows are missing in it: drop it and begin again",
        wanted.new_name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_with_its_database() {
        let name: TableName = "shop.account".parse().expect("a name");
        assert_eq!(name.quoted(), "`shop`.`account`");
        assert_eq!("a.b.c".parse::<TableName>().expect("a name").table, "b.c");
        for text in ["account", ".account", "shop.", ""] {
            assert!(text.parse::<TableName>().is_err(), "{text:?}");
        }
    }
}
