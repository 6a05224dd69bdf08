//! The resident size of a server with caches of 64 MB each, under sysbench, with ten thousand tables, and
//! with 512 connections. The duration of its start with these tables counts too.

use std::time::Duration;

use tidelab_server::error::Result;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings;
use tidelab_server::server::Server;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::workload::sysbench::{Load, Sysbench, Workload};

use super::super::session::Session;
use super::super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};
use super::{loads, MEGABYTE};

/// Resident memory under load.
const LOAD_LIMIT: u64 = 400 * MEGABYTE;
/// Growth by the tables, after FLUSH TABLES.
const TABLES_LIMIT: u64 = 130 * MEGABYTE;
/// Time limit of the start with the tables.
const START_LIMIT: Duration = Duration::from_secs(10);
const TABLES: u32 = 10_000;
/// Connections after use of a table, and the memory of each: measured with the tables.
const CONNECTIONS: u32 = 512;
const CONNECTION_LIMIT: u64 = MEGABYTE;

/// Runs the check.
pub(super) fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let tables = if lab.short { TABLES / 20 } else { TABLES };
    let seconds = u32::try_from(lab.seconds.unwrap_or(if lab.short { 5 } else { 20 })).unwrap_or(u32::MAX);
    let settings = settings::comparison(&[Engine::TidesDb], 64, CONNECTIONS + 50);
    let mut server = lab.start(&settings)?;
    let mut complaints = Vec::new();

    let under_load = load(lab, &server, seconds)?;
    progress(Check::Memory, &format!("{} MB at most under sysbench", under_load / MEGABYTE));
    if under_load >= LOAD_LIMIT {
        complaints.push(format!("{} MB resident under sysbench", under_load / MEGABYTE));
    }

    let mut session = connect(&server)?;
    let before = after_flush(&server, &mut session)?;
    set_up(&mut session, &["CREATE DATABASE many", "USE many"])?;
    for number in 0..tables {
        lab.interrupt.check()?;
        set_up(
            &mut session,
            &[
                &format!("CREATE TABLE t{number} (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=TidesDB"),
                &format!("INSERT INTO t{number} VALUES ({number}, 'one row')"),
            ],
        )?;
        if (number + 1) % 1000 == 0 {
            let resident = process_use(server.pid()).resident_bytes;
            progress(Check::Memory, &format!("{} tables, {} MB", number + 1, resident / MEGABYTE));
        }
    }
    let growth = after_flush(&server, &mut session)?.saturating_sub(before);
    progress(Check::Memory, &format!("{} MB of growth after FLUSH TABLES", growth / MEGABYTE));
    if growth >= TABLES_LIMIT {
        complaints.push(format!("{tables} tables cost {} MB after FLUSH TABLES", growth / MEGABYTE));
    }

    server.shut_down()?;
    let start = server.restart(&settings, lab.interrupt)?;
    progress(Check::Memory, &format!("the server with them starts in {:.1} s", start.as_secs_f64()));
    if start >= START_LIMIT {
        complaints.push(format!("the server with {tables} tables starts in {:.1} s", start.as_secs_f64()));
    }
    let mut session = connect(&server)?;
    for number in [0, tables / 2, tables - 1] {
        let select = format!("SELECT id FROM many.t{number}");
        let id = must(&select, session.number(&select))?;
        if id != i64::from(number) {
            complaints.push(format!("table {number} has the row {id}"));
        }
    }
    let each = connections(&server)?;
    if each >= CONNECTION_LIMIT {
        complaints.push(format!("a connection costs {} KB", each / 1024));
    }
    let summary = format!(
        "{} MB under sysbench, {tables} tables cost {} MB, start with them in {:.1} s, each of {CONNECTIONS} connections {} KB",
        under_load / MEGABYTE,
        growth / MEGABYTE,
        start.as_secs_f64(),
        each / 1024
    );
    conclude(server, summary, complaints)
}

/// The most resident memory in any second of some sysbench runs, in bytes.
fn load(lab: &Lab<'_>, server: &Server, seconds: u32) -> Result<u64> {
    let engine = Engine::TidesDb;
    set_up(&mut connect(server)?, &[&format!("CREATE DATABASE {}", engine.database())])?;
    let sysbench = Sysbench {
        socket: server.socket(),
        server: server.pid(),
        load: Load { tables: 1, rows: 100_000, threads: 8, warm_up_s: 0, time_s: seconds },
        interrupt: lab.interrupt,
    };
    let seed = loads::sysbench_seed(lab);
    sysbench.prepare(engine, seed)?;
    let mut most = process_use(server.pid()).resident_bytes;
    for workload in [Workload::ReadWrite, Workload::UpdateIndex, Workload::PointSelect] {
        let mut of_run = 0;
        sysbench.run(engine, workload, seed, |_| {
            of_run = process_use(server.pid()).resident_bytes.max(of_run);
        })?;
        progress(Check::Memory, &format!("{workload}: {} MB", of_run / MEGABYTE));
        most = most.max(of_run);
    }
    Ok(most)
}

/// Resident bytes once no table is open and the background is quiet.
fn after_flush(server: &Server, session: &mut Session) -> Result<u64> {
    must("FLUSH TABLES", session.run("FLUSH TABLES"))?;
    std::thread::sleep(Duration::from_secs(2));
    Ok(process_use(server.pid()).resident_bytes)
}

/// Resident bytes for each of many connections after reads and writes.
fn connections(server: &Server) -> Result<u64> {
    let before = process_use(server.pid()).resident_bytes;
    let mut sessions = Vec::new();
    for number in 0..CONNECTIONS {
        let mut session = connect(server)?;
        set_up(
            &mut session,
            &[
                &format!("REPLACE INTO many.t1 VALUES ({number}, 'one row')"),
                "SELECT COUNT(*) FROM many.t1",
                "START TRANSACTION WITH CONSISTENT SNAPSHOT",
                "SELECT COUNT(*) FROM many.t2",
            ],
        )?;
        sessions.push(session);
    }
    let grown = process_use(server.pid()).resident_bytes.saturating_sub(before);
    Ok(grown / u64::from(CONNECTIONS))
}
