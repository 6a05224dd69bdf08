//! `replica`: `mariadb-dump --single-transaction --master-data --gtid` dumps a primary under eight
//! writers. A replica is made from the dump and follows with parallel optimistic workers, while it is
//! killed with SIGKILL several times. Then the writers end, the replica catches up, and every table must
//! be equal, row by row.
//!
//! Stops of the replica are of three kinds in turn. It is killed; it is killed and loses its unsynced
//! changes; a call on a file of its store fails, is torn or late, then it is shut down or killed. A replica
//! stopped by a failed call goes on after its restart.
//!
//! One table has a FULLTEXT index. Where both sides are TidesDB, writers change it by MATCH, in all formats of the binary
//! log: a statement repeated on the replica must find the same rows.
//!
//! The dump is looked at before the replica follows: two tables of different engines, changed together by
//! every transaction, must agree in it. If the snapshot were older or newer than the position in the dump,
//! transactions would be missing on the replica or come twice: the comparison shows it. Either side can be
//! TidesDB or InnoDB: the dump's tables are given the replica's engine.

mod load;
mod stop;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use load::Load;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::agreement::{self, Index};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{self, setting, Setting};
use tidelab_server::server::{program, Server};

use self::stop::Stop;
use super::preloaded::{self, Library};
use super::session::{Columns, Session};
use super::{connect, must, progress, set_up, Check, Lab, Verdict};

/// Workers of the replica.
const WORKERS: u32 = 8;
/// Longest time without a new position while the replica has to catch up.
const STILL_LIMIT: Duration = Duration::from_secs(60);

/// The engines of the primary's and the replica's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The primary's.
    pub primary: Engine,
    /// The replica's.
    pub replica: Engine,
}

impl Pair {
    const ALL: [Pair; 3] = [
        Pair { primary: Engine::TidesDb, replica: Engine::TidesDb },
        Pair { primary: Engine::TidesDb, replica: Engine::InnoDb },
        Pair { primary: Engine::InnoDb, replica: Engine::TidesDb },
    ];
}

impl Pair {
    /// True if both sides are TidesDB.
    fn is_tidesdb(self) -> bool {
        self == Pair::ALL[0]
    }
}

impl FromStr for Pair {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pair> {
        let pair = text.split_once(':').map(|(a, b)| (a.parse::<Engine>(), b.parse::<Engine>()));
        match pair {
            Some((Ok(primary), Ok(replica))) if ![primary, replica].contains(&Engine::RocksDb) => {
                Ok(Pair { primary, replica })
            }
            _ => Err(Error::Usage(format!(
                "'{text}' is no pair of engines: tidesdb:tidesdb, tidesdb:innodb and innodb:tidesdb are"
            ))),
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.primary, self.replica)
    }
}

/// Tables with their key columns, and the indexes to compare with the rows.
const TABLES: [(&str, &str, &[Index]); 7] = [
    (
        "torture.account",
        "id, COALESCE(grp, 'NULL'), name, token",
        &[
            Index { name: "by_grp", all_rows: "(grp IS NULL OR grp > -1)" },
            Index { name: "by_name", all_rows: "name > ''" },
        ],
    ),
    ("torture.bare", "a, b, c", &[]),
    ("torture.article", "id, body, hits", &[]),
    ("torture.journal", "n, writer", &[Index { name: "by_writer", all_rows: "writer > -1" }]),
    ("torture.shared", "id, n", &[]),
    ("torture.twin_tidesdb", "id, n", &[]),
    ("torture.twin_innodb", "id, n", &[]),
];

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let pairs = match lab.pair {
        Some(pair) => vec![pair],
        None if lab.short => vec![Pair::ALL[0]],
        None => Pair::ALL.to_vec(),
    };
    let mut random = StdRng::seed_from_u64(lab.seed);
    let mut verdict = Verdict::default();
    let mut lines = Vec::new();
    for pair in pairs {
        lab.interrupt.check()?;
        let one = follow(lab, pair, &mut random)?;
        lines.push(format!("{pair}: {}", one.summary));
        verdict.complaints.extend(one.complaints.into_iter().map(|c| format!("{pair}: {c}")));
        if !verdict.complaints.is_empty() {
            break; // the evidence is fresh
        }
    }
    verdict.summary = lines.join("; ");
    Ok(verdict)
}

fn follow(lab: &Lab<'_>, pair: Pair, random: &mut StdRng) -> Result<Verdict> {
    let kills = lab.rounds.unwrap_or(if lab.short { 2 } else { 5 });
    let warm_up = Duration::from_secs(lab.seconds.unwrap_or(if lab.short { 1 } else { 5 }));
    let port = free_port()?;
    let primary = lab.start_in(&lab.directory.join("primary"), Engine::TidesDb, &primary_settings(port))?;
    load::make_tables(&mut connect(&primary)?, pair.primary)?;

    let load = Load::new(primary.socket(), random.random(), pair.is_tidesdb());
    let (replica, mut complaints, mut summary) = thread::scope(|scope| -> Result<_> {
        let _ends = load.start(scope);
        thread::sleep(warm_up);
        let dump = primary.directory().join("dump.sql");
        let position = take_dump(lab, &primary, &dump)?;
        progress(Check::Replica, &format!("{pair}: dumped at {position} after {} commits", load.commits()));
        let settings = replica_settings(pair.replica);
        let mut replica = lab.start_in(&lab.directory.join("replica"), Engine::TidesDb, &settings)?;
        restore(lab, &replica, &dump, pair)?;
        replica.shut_down()?;
        let library = Library::attach(&mut replica, true)?;
        replica.restart(&settings, lab.interrupt)?;
        let mut session = connect(&replica)?;
        let complaints = twins_differ(&mut session, "in the dump")?;
        set_up(
            &mut session,
            &[
                &format!("SET GLOBAL gtid_slave_pos = '{position}'"),
                &format!(
                    "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'follower',
                     MASTER_PASSWORD = 'follows', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos"
                ),
                "START SLAVE",
            ],
        )?;
        let mut retried = 0;
        for number in 1..=kills {
            lab.interrupt.check()?;
            thread::sleep(Duration::from_millis(random.random_range(500..2500)));
            let mut session = connect(&replica)?;
            if let Some(error) = applier_error(&mut session)? {
                return Ok((replica, vec![format!("before stop {number}: {error}")], String::new()));
            }
            retried += retries(&mut session)?;
            let position =
                must("position", session.rows("SELECT @@GLOBAL.gtid_slave_pos"))?.concat().concat();
            let stop = Stop::of(number, random);
            let how = match stop.make(&mut replica, &library, random)? {
                Ok(how) => how,
                Err(wrong) => return Ok((replica, vec![format!("stop {number}: {wrong}")], String::new())),
            };
            // The threads of the replica start by themselves.
            let took = replica.restart(&settings, lab.interrupt)?;
            progress(
                Check::Replica,
                &format!(
                    "{pair}: stop {number} of {kills} at {position}, {how}, up again in {:.1} s",
                    took.as_secs_f64()
                ),
            );
        }
        Ok((replica, complaints, format!("{kills} stops, {retried} transactions repeated")))
    })?;

    let began = Instant::now();
    complaints.extend(load.complaints());
    if complaints.is_empty() {
        complaints.extend(catch_up(lab, &primary, &replica)?);
    }
    let caught_up = began.elapsed();
    if complaints.is_empty() {
        complaints.extend(differences(&primary, &replica)?);
    }
    let commits = load.commits();
    complaints.extend(load.idle());
    summary = format!(
        "{commits} commits, {} changes by MATCH, {} refused, {summary}, caught up in {:.1} s",
        load.changed_by_match(),
        load.refused(),
        caught_up.as_secs_f64()
    );
    progress(Check::Replica, &format!("{pair}: {summary}, {} wrong", complaints.len()));
    replica.stop(!complaints.is_empty())?;
    primary.stop(!complaints.is_empty())?;
    Ok(Verdict { summary, complaints })
}

/// A free port of this machine.
fn free_port() -> Result<u16> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    Ok(port.map_err(io_error("cannot find a free port on", "127.0.0.1"))?.port())
}

fn primary_settings(port: u16) -> Vec<Setting> {
    let mut all = settings::checks(true);
    all.extend([
        setting("server_id", "1"),
        setting("skip_networking", "OFF"),
        setting("bind_address", "127.0.0.1"),
        setting("port", port.to_string()),
    ]);
    all
}

fn replica_settings(engine: Engine) -> Vec<Setting> {
    let mut all = settings::checks(true);
    all.extend(preloaded::settings());
    all.extend([
        setting("server_id", "2"),
        setting("log_slave_updates", "ON"),
        setting("relay_log_recovery", "ON"),
        setting("slave_parallel_threads", WORKERS.to_string()),
        setting("slave_parallel_mode", "optimistic"),
    ]);
    if engine == Engine::TidesDb {
        all.push(setting("gtid_pos_auto_engines", engine.name()));
    }
    all
}

/// Dumps the primary while it works; returns the position named in the dump.
fn take_dump(lab: &Lab<'_>, primary: &Server, path: &Path) -> Result<String> {
    let dumper = program(lab.prefix, "mariadb-dump")?;
    let output = Command::new(&dumper)
        .args(["--no-defaults", "--user=root", "--single-transaction", "--master-data=2", "--gtid"])
        .args(["--databases", "torture"])
        .arg(format!("--socket={}", primary.socket().display()))
        .stdin(Stdio::null())
        .stdout(File::create(path).map_err(io_error("cannot write", path))?)
        .stderr(Stdio::piped())
        .output()
        .map_err(io_error("cannot run", &dumper))?;
    ran("mariadb-dump", output.status.success(), &output.stderr)?;
    let text = fs::read(path).map_err(io_error("cannot read", path))?;
    position_of_dump(&String::from_utf8_lossy(&text)).ok_or_else(|| Error::Load {
        what: "mariadb-dump".to_string(),
        message: format!("no gtid_slave_pos in {}", path.display()),
    })
}

fn position_of_dump(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("gtid_slave_pos='")?;
    rest.split_once('\'').map(|(position, _)| position.to_string())
}

fn ran(what: &str, success: bool, stderr: &[u8]) -> Result<()> {
    if success {
        return Ok(());
    }
    let message = String::from_utf8_lossy(stderr).trim().to_string();
    Err(Error::Load { what: what.to_string(), message })
}

/// Loads the dump into the replica, with tables of its engine.
fn restore(lab: &Lab<'_>, replica: &Server, dump: &Path, pair: Pair) -> Result<()> {
    let text = fs::read(dump).map_err(io_error("cannot read", dump))?;
    let translated = replica.directory().join("restore.sql");
    fs::write(&translated, with_engine(&text, pair.replica))
        .map_err(io_error("cannot write", &translated))?;
    let client = program(lab.prefix, "mariadb")?;
    let output = Command::new(&client)
        .args(["--no-defaults", "--user=root", "--init-command=SET SESSION sql_log_bin = 0"])
        .arg(format!("--socket={}", replica.socket().display()))
        .stdin(File::open(&translated).map_err(io_error("cannot read", &translated))?)
        .output()
        .map_err(io_error("cannot run", &client))?;
    ran("mariadb (restore)", output.status.success(), &output.stderr)
}

/// The dump with `engine` in every table's definition; rows are left as they are.
fn with_engine(dump: &[u8], engine: Engine) -> Vec<u8> {
    let mut out = Vec::with_capacity(dump.len());
    for line in dump.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b") ENGINE=") {
            Some(rest) => {
                let end = rest.iter().position(|byte| b" ;\n".contains(byte)).unwrap_or(rest.len());
                out.extend_from_slice(b") ENGINE=");
                out.extend_from_slice(engine.name().as_bytes());
                out.extend_from_slice(&rest[end..]);
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

/// Every transaction changes both tables alike or none.
fn twins_differ(session: &mut Session, when: &str) -> Result<Vec<String>> {
    let differ =
        "SELECT COUNT(*) FROM torture.twin_tidesdb a JOIN torture.twin_innodb b USING (id) WHERE a.n <> b.n";
    let count = must(differ, session.number(differ))?;
    Ok(if count == 0 { Vec::new() } else { vec![format!("{count} rows of the twin tables differ {when}")] })
}

/// The last error of the replica's applier or receiver.
fn applier_error(session: &mut Session) -> Result<Option<String>> {
    // 10.11 has no information_schema.SLAVE_STATUS, and columns at other places than 11.8.
    let show = "SHOW SLAVE STATUS";
    let Some(status) = must(show, session.named(show))? else { return Ok(None) };
    let [number, text, running] = ["Last_SQL_Errno", "Last_SQL_Error", "Slave_SQL_Running"]
        .map(|name| status.get(name).map_or("", String::as_str));
    Ok((number != "0").then(|| format!("the replica stopped: {number} {text} {running}")))
}

fn retries(session: &mut Session) -> Result<i64> {
    let status = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'SLAVE_RETRIED_TRANSACTIONS'";
    must(status, session.number(status))
}

/// Waits until the replica has the primary's whole log.
fn catch_up(lab: &Lab<'_>, primary: &Server, replica: &Server) -> Result<Vec<String>> {
    let of = |server: &Server, variable: &str| -> Result<String> {
        let select = format!("SELECT @@GLOBAL.{variable}");
        Ok(must(&select, connect(server)?.rows(&select))?.concat().concat())
    };
    let target = of(primary, "gtid_binlog_pos")?;
    let (mut last, mut since) = (String::new(), Instant::now());
    loop {
        lab.interrupt.check()?;
        let position = of(replica, "gtid_slave_pos")?;
        if position == target {
            return Ok(Vec::new());
        }
        if let Some(error) = applier_error(&mut connect(replica)?)? {
            return Ok(vec![format!("at {position} of {target}: {error}")]);
        }
        if position != last {
            (last, since) = (position, Instant::now());
        } else if since.elapsed() > STILL_LIMIT {
            let list =
                "SELECT ID, STATE, TIME FROM information_schema.PROCESSLIST WHERE USER = 'system user'";
            let workers = must(list, connect(replica)?.rows(list))?;
            return Ok(vec![format!(
                "the replica stands still at {position} of {target}: {}",
                workers.iter().map(|w| w.join(" ")).collect::<Vec<_>>().join("; ")
            )]);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Rows on one side only, and indexes out of step with their rows.
fn differences(primary: &Server, replica: &Server) -> Result<Vec<String>> {
    let (mut first, mut second) = (connect(primary)?, connect(replica)?);
    let mut complaints = twins_differ(&mut second, "on the replica")?;
    for (table, columns, indexes) in TABLES {
        let select = format!("SELECT * FROM {table}");
        let here = counted(must(&select, first.rows(&select))?);
        let there = counted(must(&select, second.rows(&select))?);
        for (row, times) in &here {
            let found = there.get(row).copied().unwrap_or(0);
            if found < *times {
                complaints.push(format!("{table}: the replica lacks {}", picture(row)));
            }
        }
        for (row, times) in &there {
            if *times > here.get(row).copied().unwrap_or(0) {
                complaints.push(format!("{table}: only the replica has {}", picture(row)));
            }
        }
        for (side, session) in [("primary", &mut first), ("replica", &mut second)] {
            let wrong = must("agree", agreement::complaints(session, table, columns, indexes))?;
            complaints.extend(wrong.into_iter().map(|c| format!("{side}: {c}")));
        }
    }
    Ok(complaints)
}

fn counted(rows: Vec<Columns>) -> BTreeMap<Columns, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row).or_default() += 1;
    }
    counts
}

/// A row, long columns cut.
fn picture(row: &Columns) -> String {
    let columns: Vec<String> = row.iter().map(|c| c.chars().take(30).collect()).collect();
    format!("({})", columns.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_written() {
        let pair: Pair = "tidesdb:InnoDB".parse().unwrap();
        assert_eq!(pair, Pair { primary: Engine::TidesDb, replica: Engine::InnoDb });
        assert_eq!(pair.to_string(), "TidesDB to InnoDB");
        for wrong in ["tidesdb", "tidesdb:rocksdb", "a:b", ""] {
            assert!(wrong.parse::<Pair>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_position_and_the_engines_of_a_dump() {
        let dump = "-- CHANGE MASTER TO MASTER_USE_GTID=slave_pos;\n-- SET GLOBAL gtid_slave_pos='0-1-17';\n\
                    CREATE TABLE `t` (\n  `a` int\n) ENGINE=TidesDB DEFAULT CHARSET=x;\nCREATE TABLE `u` (\n) ENGINE=InnoDB;\n\
                    INSERT INTO `t` VALUES\n(') ENGINE=TidesDB');\n";
        assert_eq!(position_of_dump(dump).as_deref(), Some("0-1-17"));
        assert_eq!(position_of_dump("-- nothing"), None);
        let text = String::from_utf8(with_engine(dump.as_bytes(), Engine::InnoDb)).unwrap();
        assert!(
            text.contains("\n) ENGINE=InnoDB DEFAULT CHARSET=x;\n") && text.contains("\n) ENGINE=InnoDB;\n")
        );
        assert!(text.ends_with("(') ENGINE=TidesDB');\n"), "{text}");
    }

    #[test]
    fn rows_without_a_key_are_counted() {
        let row = |text: &str| vec![text.to_string()];
        let counts = counted(vec![row("a"), row("b"), row("a")]);
        assert_eq!(counts, BTreeMap::from([(row("a"), 2), (row("b"), 1)]));
    }
}
