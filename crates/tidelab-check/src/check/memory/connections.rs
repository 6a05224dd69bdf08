//! A thousand connections write large rows, at once and one after the other, and then sleep, alongside InnoDB
//! in the same container.
//!
//! A sleeping connection costs about what it costs InnoDB's server. The engine's own count keeps to its bound while all
//! write, nobody is killed, and the memory is the kernel's again soon after they have gone.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{setting, Setting};
use tidelab_server::server::Server;
use tidelab_server::telemetry::process::process_use;

use super::super::session::{Failure, Session};
use super::super::{conclude, connect, must, progress, set_up, Check, Verdict};
use super::agreement::TOTAL;
use super::container::Container;
use super::{lines, watch, MEGABYTE};

/// The container, and the engine's bound in it.
const LIMIT: u64 = 512;
const BOUND: u64 = 128 * MEGABYTE;
/// InnoDB's pool, filled by a few rows.
const POOL: u64 = 64 * MEGABYTE;
/// Bytes of a row written by few at a time, and of one written by all at once: the server itself has each
/// value twice meanwhile, and a thousand of 100,000 bytes kill it with InnoDB, too.
const ROW: u32 = 900_000;
const CROWD_ROW: u32 = 16_000;
/// The most bytes of a sleeping connection beyond one of InnoDB's server.
const SLEEPING: i64 = 64 << 10;
/// The engine's permitted excess over its bound for a moment: it measures ten times a second, and a thousand
/// writers come at once.
const BEYOND: u64 = 48 * MEGABYTE;
/// The most bytes left after the connections have gone, beyond those left by InnoDB's server.
const LEFT: i64 = 64 * MEGABYTE as i64;
/// Clients for the first rows, of all connections one after the other.
const CLIENTS: usize = 8;

/// The sights of one engine.
#[derive(Debug, Default)]
struct Sights {
    /// For each connection: open, after a small row, after a large one.
    open: i64,
    small: i64,
    large: i64,
    /// Of the container while all write, and the engine's count then.
    most: u64,
    counted: u64,
    rows: u64,
    /// Bytes left after all have gone, beyond those before.
    left: i64,
    killed: bool,
}

/// Runs the check.
pub(super) fn run(container: &Container<'_>) -> Result<Verdict> {
    let count = if container.lab.short { 200 } else { 1000 };
    let mut complaints = Vec::new();
    let mut seen = Vec::new();
    for engine in [Engine::InnoDb, Engine::TidesDb] {
        let sights = look(container, engine, count, &mut complaints)?;
        let told = told(engine, &sights);
        progress(Check::Memory, &told);
        seen.push((sights, told));
    }
    let [(innodb, _), (ours, _)] = &seen[..] else { return Ok(Verdict::default()) };
    for (what, ours, theirs) in [("small", ours.small, innodb.small), ("large", ours.large, innodb.large)] {
        if ours - theirs > SLEEPING {
            complaints.push(format!(
                "a connection that wrote a {what} row and sleeps costs {} KB, of InnoDB's server {} KB",
                ours / 1024,
                theirs / 1024
            ));
        }
    }
    if ours.killed {
        complaints.push(format!("killed in {LIMIT} MB by {count} connections"));
    }
    if ours.counted > BOUND + BEYOND {
        complaints.push(format!(
            "the engine counts {} MB under a bound of {}",
            ours.counted / MEGABYTE,
            BOUND / MEGABYTE
        ));
    }
    if ours.left > innodb.left.max(0) + LEFT {
        complaints.push(format!("{} MB stay when the connections have gone", ours.left / MEGABYTE as i64));
    }
    if ours.rows * 4 < innodb.rows {
        complaints.push(format!("{} rows where InnoDB writes {}", ours.rows, innodb.rows));
    }
    let summary = seen.into_iter().map(|(_, told)| told).collect::<Vec<_>>().join("; ");
    Ok(Verdict { summary: format!("{count} connections: {summary}"), complaints })
}

fn told(engine: Engine, sights: &Sights) -> String {
    format!(
        "{engine}: one costs {} KB, {} KB after a small row, {} KB after a large one; {} MB at most while all write{}, \
         {} rows{}; {:+} MB when they have gone",
        sights.open / 1024,
        sights.small / 1024,
        sights.large / 1024,
        sights.most / MEGABYTE,
        if engine == Engine::TidesDb { format!(" (counted {})", sights.counted / MEGABYTE) } else { String::new() },
        sights.rows,
        if sights.killed { ", KILLED" } else { "" },
        sights.left / MEGABYTE as i64,
    )
}

fn settings_of(engine: Engine, count: usize) -> Vec<Setting> {
    let mut settings = lines::settings(Some(engine));
    settings.retain(|known| known.name != "max_connections");
    settings.push(setting("max_connections", (count + 50).to_string()));
    settings.push(match engine {
        Engine::InnoDb => setting("innodb_buffer_pool_size", POOL.to_string()),
        _ => setting("tidesdb_max_memory_usage", BOUND.to_string()),
    });
    settings
}

/// One engine's server from its start to its end.
fn look(
    container: &Container<'_>,
    engine: Engine,
    count: usize,
    complaints: &mut Vec<String>,
) -> Result<Sights> {
    let kills = container.kills();
    let server = container.start(LIMIT, &[engine], &settings_of(engine, count))?;
    let mut sights = Sights::default();
    let mut session = connect(&server)?;
    set_up(
        &mut session,
        &[
            "CREATE DATABASE crowd",
            &format!(
                "CREATE TABLE crowd.rows (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB) ENGINE={}",
                engine.name()
            ),
        ],
    )?;
    let large = format!("INSERT INTO crowd.rows (v) VALUES (REPEAT('x', {ROW}))");
    let crowded = format!("INSERT INTO crowd.rows (v) VALUES (REPEAT('x', {CROWD_ROW}))");
    let anonymous = || process_use(server.pid()).anonymous_bytes as i64;
    // Pool, cache and write buffers are as full as they get.
    let mut few = open(&server, CLIENTS)?;
    for _ in 0..200 / CLIENTS {
        each(&mut few, CLIENTS, &large)?;
    }
    rest(&mut session)?;
    let before = anonymous();
    let mut sessions = open(&server, count)?;
    let mut cost = |sessions: &mut Vec<Session>, statement: &str| {
        container.lab.interrupt.check()?;
        each(sessions, CLIENTS, statement)?;
        rest(&mut session)?;
        Ok::<_, Error>((anonymous() - before) / count as i64)
    };
    sights.open = cost(&mut sessions, "DO 1")?;
    sights.small = cost(&mut sessions, "INSERT INTO crowd.rows (v) VALUES ('x')")?;
    sights.large = cost(&mut sessions, &large)?;

    let (counted, written) = (AtomicU64::new(0), AtomicU64::new(0));
    let seconds = container.lab.seconds.unwrap_or(if container.lab.short { 5 } else { 20 });
    let pid = AtomicU32::new(server.pid());
    let (failures, watched) =
        watch::during(&pid, || crowd(&mut session, engine, sessions, &crowded, seconds, &counted, &written));
    (sights.most, sights.counted, sights.rows) =
        (watched.anonymous, counted.into_inner(), written.into_inner());
    sights.killed = container.kills() > kills;
    if sights.killed {
        return Ok(sights);
    }
    if engine == Engine::TidesDb {
        complaints.extend(failures.into_iter().take(3).map(|failure| format!("while all write: {failure}")));
    }
    rest(&mut session)?;
    sights.left = anonymous() - before;
    drop((session, few));
    conclude(server, String::new(), Vec::new())?;
    Ok(sights)
}

fn open(server: &Server, count: usize) -> Result<Vec<Session>> {
    (0..count).map(|_| connect(server)).collect()
}

/// Time for memory given back within a second, and for the flush of the written rows.
fn rest(session: &mut Session) -> Result<()> {
    thread::sleep(Duration::from_secs(3));
    must("a look", session.run("DO 1")).map(drop)
}

/// Runs a statement once in each session, by so many clients.
fn each(sessions: &mut Vec<Session>, clients: usize, statement: &str) -> Result<()> {
    let waiting = Mutex::new(std::mem::take(sessions));
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let run = || loop {
            let next = waiting.lock().expect("no client panics").pop();
            let Some(mut session) = next else { return Ok(()) };
            must(statement, session.run(statement))?;
            done.lock().expect("no client panics").push(session);
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(run)).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
    })?;
    *sessions = done.into_inner().expect("no client panics");
    Ok(())
}

/// All sessions write at once for some seconds, and close. Returns the failures.
fn crowd(
    session: &mut Session,
    engine: Engine,
    sessions: Vec<Session>,
    statement: &str,
    seconds: u64,
    counted: &AtomicU64,
    written: &AtomicU64,
) -> Vec<String> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        let write = |mut session: Session| -> std::result::Result<(), Failure> {
            while !stop.load(Ordering::Relaxed) {
                session.run(statement)?;
                written.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let clients: Vec<_> =
            sessions.into_iter().map(|session| scope.spawn(move || write(session))).collect();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds) {
            thread::sleep(Duration::from_millis(100));
            if engine == Engine::TidesDb {
                let now = session.number(TOTAL).unwrap_or(0);
                counted.fetch_max(u64::try_from(now).unwrap_or(0), Ordering::Relaxed);
            }
        }
        stop.store(true, Ordering::Relaxed);
        let failures = clients.into_iter().filter_map(|client| client.join().expect("no panic").err());
        failures.map(|failure| failure.to_string()).collect()
    })
}
