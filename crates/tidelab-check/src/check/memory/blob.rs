//! A large value, written and read: its cost in memory, and its refusal where the bound forbids it.

use std::time::Duration;

use tidelab_server::error::Result;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::setting;
use tidelab_server::server::Server;
use tidelab_server::telemetry::process::{forget_peak, peak_resident};

use super::super::session::{Address, Failure, Session};
use super::super::{conclude, connect, must, set_up, Verdict};
use super::container::Container;
use super::{lines, MEGABYTE};

/// Room for the value's copies in server and engine.
const ROOMY: u64 = 6_000;
/// The most memory of a value, as a multiple of its size, in engine and plugin together.
const TIMES: f64 = 1.2;
/// Bytes not explained by copies: buffers of engine and server first touched by a large row. Up to 58 MB
/// seen.
const BESIDE: u64 = 80 * MEGABYTE;
/// Time limit of one statement.
const PATIENCE: Duration = Duration::from_secs(600);

/// Writes and reads a value of 500 MB, 64 MB in the short form.
pub(super) fn run(container: &Container<'_>) -> Result<Verdict> {
    let megabytes = if container.lab.short { 64 } else { 500 };
    let kills = container.kills();
    let server = container.start(ROOMY, &[Engine::TidesDb], &lines::settings(Some(Engine::TidesDb)))?;
    let mut session = open(&server)?;
    let mut told = Vec::new();
    let mut complaints = Vec::new();
    let insert = insert(megabytes);
    // The server's own memory for the same value.
    let alone = growth(&server, &mut session, &format!("DO MD5({})", value(megabytes)))?;
    let size = megabytes * MEGABYTE;
    // An UPDATE by CONCAT takes three times the value with Aria, which keeps one of them.
    for (name, statement, in_server) in [
        ("write", insert.as_str(), alone.1),
        ("read", "DO (SELECT MD5(b) FROM blobs.b WHERE id = 1)", alone.1),
        ("update", "UPDATE blobs.b SET b = CONCAT('x', b) WHERE id = 1", 2 * size),
    ] {
        container.lab.interrupt.check()?;
        let (answer, grown) = growth(&server, &mut session, statement)?;
        if let Err(failure) = answer {
            complaints.push(format!("a BLOB of {megabytes} MB, {name}: {failure}"));
            break;
        }
        let times = grown.saturating_sub(in_server) as f64 / size as f64;
        told.push(format!("{name} {} MB, {times:.1} times", grown / MEGABYTE));
        if times > TIMES + BESIDE as f64 / size as f64 {
            complaints
                .push(format!("a BLOB of {megabytes} MB, {name}: {times:.1} times in engine and plugin"));
        }
    }
    if container.kills() > kills {
        complaints.push(format!("a BLOB of {megabytes} MB: killed in {ROOMY} MB"));
    }
    let summary = format!(
        "a BLOB of {megabytes} MB ({} MB in the server alone): {}",
        alone.1 / MEGABYTE,
        told.join(", ")
    );
    conclude(server, summary, complaints)
}

/// A row beyond the engine's bound: the statement fails, connection and server live.
pub(super) fn refused(container: &Container<'_>) -> Result<Verdict> {
    const LARGE: u64 = 300;
    let kills = container.kills();
    let mut settings = lines::settings(Some(Engine::TidesDb));
    settings.push(setting("tidesdb_max_memory_usage", "256M"));
    let server = container.start(2_000, &[Engine::TidesDb], &settings)?;
    let mut session = open(&server)?;
    let mut complaints = Vec::new();
    let (answer, grown) = growth(&server, &mut session, &insert(LARGE))?;
    let title = format!("a BLOB of {LARGE} MB under a bound of 256 MB");
    if container.kills() > kills {
        let complaint = format!("{title}: the server was killed");
        return Ok(Verdict { summary: format!("{title}: killed"), complaints: vec![complaint] });
    }
    let text = match answer {
        Err(Failure::Sql { message, .. }) if message.contains("tidesdb_max_memory_usage") => message,
        other => {
            complaints.push(format!("{title} is not refused for the bound: {other:?}"));
            "not refused for the bound".to_string()
        }
    };
    match session.number("SELECT COUNT(*) FROM blobs.b") {
        Ok(0) => {}
        other => complaints.push(format!("{title}: afterwards the connection says {other:?} rows")),
    }
    must("a row after it", session.run("REPLACE INTO blobs.b VALUES (2, 'small')"))?;
    conclude(server, format!("{title}: {text} ({} MB of growth)", grown / MEGABYTE), complaints)
}

fn open(server: &Server) -> Result<Session> {
    set_up(
        &mut connect(server)?,
        &[
            "CREATE DATABASE blobs",
            "CREATE TABLE blobs.b (id INT PRIMARY KEY, b LONGBLOB) ENGINE=TidesDB",
            "SET GLOBAL max_allowed_packet = 1073741824",
        ],
    )?;
    must("connect", Session::connect(&Address::root(server.socket()), PATIENCE))
}

fn value(megabytes: u64) -> String {
    format!("REPEAT(RANDOM_BYTES(1024), {})", megabytes * 1024)
}

fn insert(megabytes: u64) -> String {
    format!("INSERT INTO blobs.b VALUES (1, {})", value(megabytes))
}

/// The growth of the resident size by a statement, at its highest: the kernel tells it, since a statement may be over
/// before anyone looks twice.
fn growth(
    server: &Server,
    session: &mut Session,
    statement: &str,
) -> Result<(std::result::Result<(), Failure>, u64)> {
    let pid = server.pid();
    forget_peak(pid)?;
    let before = peak_resident(pid);
    let answer = session.run(statement).map(drop);
    Ok((answer, peak_resident(pid).saturating_sub(before)))
}
