//! The loads of the lines, each in stretches with a rate of their own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::Setting;
use tidelab_server::server::Server;
use tidelab_server::workload::sysbench::{Load, Sysbench, Workload};

use super::super::session::{Failure, Session};
use super::super::{connect, set_up, Lab};

/// Clients of every load.
const CLIENTS: u32 = 8;
/// An incompressible value of 16 KB.
fn value() -> String {
    format!("CONCAT({})", ["RANDOM_BYTES(1024)"; 16].join(", "))
}

/// The load of a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Four tables of so many rows: updates, then inserts.
    Sysbench {
        /// Rows of each table.
        rows: u64,
    },
    /// Small rows at random keys, then values of 16 KB.
    RandomThenLarge,
    /// Values of 16 KB are written anew.
    UpdateLarge,
    /// Values of 16 KB, then rows with three indexes.
    LargeThenIndexes,
    /// Values of 16 KB are being merged when the server starts again.
    StartUnderMerge,
}

/// The circumstances of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    pub lab: &'a Lab<'a>,
    pub engine: Engine,
    pub settings: &'a [Setting],
    /// Of each stretch.
    pub seconds: u64,
    /// The server's process.
    pub pid: &'a AtomicU32,
    pub short: bool,
}

/// A part of a load and its progress.
#[derive(Clone, Debug)]
pub(super) struct LoadProgress {
    pub name: &'static str,
    /// Statements a second.
    pub per_s: f64,
}

/// The next statement of a client.
pub(super) type Statement<'a> = &'a (dyn Fn(&mut StdRng) -> String + Sync);

/// Runs a load; an error when a client or the server ends.
pub(super) fn run(scene: &Scene<'_>, server: &mut Server, work: Work) -> Result<Vec<LoadProgress>> {
    if let Work::Sysbench { rows } = work {
        return sysbench(scene, server, rows);
    }
    make_tables(server, scene.engine.name())?;
    let rows = if scene.short { 6_000 } else { 60_000 };
    let update = |random: &mut StdRng| update_large(random, rows);
    let stretch = |server: &Server, name, statement: Statement<'_>| {
        clients(scene.lab, scene.seconds, server.socket(), name, statement)
    };
    match work {
        Work::RandomThenLarge => {
            Ok(vec![stretch(server, "random keys", &random_keys)?, stretch(server, "16 KB values", &large)?])
        }
        Work::UpdateLarge => {
            fill(scene.lab, server, rows)?;
            Ok(vec![stretch(server, "UPDATE", &update)?])
        }
        Work::LargeThenIndexes => {
            Ok(vec![stretch(server, "16 KB values", &large)?, stretch(server, "three indexes", &indexes)?])
        }
        Work::StartUnderMerge => {
            fill(scene.lab, server, rows)?;
            let mut stretches = Vec::new();
            for _ in 0..if scene.short { 1 } else { 3 } {
                let before = stretch(server, "before", &update)?;
                server.shut_down()?;
                server.restart(scene.settings, scene.lab.interrupt)?;
                scene.pid.store(server.pid(), Ordering::Relaxed);
                let after = stretch(server, "after the start", &update)?;
                stretches.extend([before, after]);
            }
            Ok(stretches)
        }
        Work::Sysbench { .. } => Ok(Vec::new()),
    }
}

/// The tables of the statements below.
pub(super) fn make_tables(server: &Server, engine: &str) -> Result<()> {
    set_up(
        &mut connect(server)?,
        &[
            "CREATE DATABASE memory",
            "USE memory",
            &format!("CREATE TABLE k (id BIGINT PRIMARY KEY, v VARBINARY(100) NOT NULL) ENGINE={engine}"),
            &format!("CREATE TABLE v (id BIGINT AUTO_INCREMENT PRIMARY KEY, v MEDIUMBLOB NOT NULL) ENGINE={engine}"),
            &format!(
                "CREATE TABLE i (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL,
                 c VARCHAR(40) NOT NULL, pad VARBINARY(200) NOT NULL, KEY (a), KEY (b, c), KEY (c)) ENGINE={engine}"
            ),
        ],
    )
}

/// Rows with values of 16 KB; the long form has more than a container holds.
fn fill(lab: &Lab<'_>, server: &Server, rows: u32) -> Result<()> {
    const AT_ONCE: u32 = 500;
    let mut session = connect(server)?;
    for first in (1..=rows).step_by(AT_ONCE as usize) {
        lab.interrupt.check()?;
        let last = rows.min(first + AT_ONCE - 1);
        // Their keys are known: an UPDATE finds each.
        let fill = format!("INSERT INTO memory.v SELECT seq, {} FROM memory.seq_{first}_to_{last}", value());
        set_up(&mut session, &[&fill])?;
    }
    Ok(())
}

pub(super) fn random_keys(random: &mut StdRng) -> String {
    let rows: Vec<String> =
        (0..20).map(|_| format!("({}, RANDOM_BYTES(100))", random.random::<i64>())).collect();
    format!("INSERT IGNORE INTO memory.k VALUES {}", rows.join(", "))
}

pub(super) fn large(_: &mut StdRng) -> String {
    let value = value();
    format!("INSERT INTO memory.v (v) VALUES ({value}), ({value})")
}

/// A new value for any of the first `rows` rows.
pub(super) fn update_large(random: &mut StdRng, rows: u32) -> String {
    format!("UPDATE memory.v SET v = {} WHERE id = {}", value(), random.random_range(1..=rows))
}

pub(super) fn indexes(random: &mut StdRng) -> String {
    let rows: Vec<String> = (0..20)
        .map(|_| {
            let (a, b, c) = (random.random::<i32>(), random.random::<i32>(), random.random::<u64>());
            format!("({a}, {b}, 'c{c}', RANDOM_BYTES(200))")
        })
        .collect();
    format!("INSERT INTO memory.i (a, b, c, pad) VALUES {}", rows.join(", "))
}

/// Clients running statements until the time is over.
pub(super) fn clients(
    lab: &Lab<'_>,
    seconds: u64,
    socket: &Path,
    name: &'static str,
    statement: Statement<'_>,
) -> Result<LoadProgress> {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let failures: Vec<Failure> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (stop, done) = (&stop, &done);
                let random = StdRng::seed_from_u64(lab.seed.wrapping_add(u64::from(number)));
                scope.spawn(move || {
                    let result = client(socket, random, statement, stop, done);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result.err()
                })
            })
            .collect();
        let time = Duration::from_secs(seconds);
        while start.elapsed() < time && !stop.load(Ordering::Relaxed) && lab.interrupt.check().is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().filter_map(|client| client.join().ok().flatten()).collect()
    });
    lab.interrupt.check()?;
    match failures.first() {
        Some(failure) => Err(Error::Load { what: name.to_string(), message: failure.to_string() }),
        None => {
            let per_s = done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
            Ok(LoadProgress { name, per_s })
        }
    }
}

fn client(
    socket: &Path,
    mut random: StdRng,
    statement: Statement<'_>,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> std::result::Result<(), Failure> {
    let mut session = Session::open(socket)?;
    while !stop.load(Ordering::Relaxed) {
        match session.run(&statement(&mut random)) {
            Ok(_) => {
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(failure) if failure.is_conflict() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// sysbench takes small seeds, and 0 for none.
pub(super) fn sysbench_seed(lab: &Lab<'_>) -> u32 {
    u32::try_from(lab.seed % 1_000_000).unwrap_or(1) + 1
}

fn sysbench(scene: &Scene<'_>, server: &Server, rows: u64) -> Result<Vec<LoadProgress>> {
    let engine = scene.engine;
    set_up(&mut connect(server)?, &[&format!("CREATE DATABASE {}", engine.database())])?;
    let time_s = u32::try_from(scene.seconds).unwrap_or(u32::MAX);
    let sysbench = Sysbench {
        socket: server.socket(),
        server: server.pid(),
        load: Load { tables: 4, rows, threads: CLIENTS, warm_up_s: 0, time_s },
        interrupt: scene.lab.interrupt,
    };
    let seed = sysbench_seed(scene.lab);
    sysbench.prepare(engine, seed)?;
    let mut stretches = Vec::new();
    for (name, workload) in [
        ("update_index", Workload::UpdateIndex),
        ("update_non_index", Workload::UpdateNonIndex),
        ("insert", Workload::Insert),
    ] {
        let run = sysbench.run(engine, workload, seed, |_| {})?;
        let seconds = run.seconds.iter().map(|(second, _)| second.statements_per_s);
        let per_s = seconds.sum::<f64>() / run.seconds.len().max(1) as f64;
        stretches.push(LoadProgress { name, per_s });
    }
    Ok(stretches)
}
