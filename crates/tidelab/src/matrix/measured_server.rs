//! A server under measurement, started here or found running, and the laboratory's own statements to it.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::existing::Existing;
use tidelab_server::server::session::{Address, Failure, Session};
use tidelab_server::server::Server;
use tidelab_server::workload::sysbench::Target;

/// Statements of the laboratory's own may scan all tables.
const STATEMENT_LIMIT: Duration = Duration::from_secs(3600);
/// The address of clients over TCP.
pub(super) const LOOPBACK: &str = "127.0.0.1";
/// The user of clients over TCP; its password is random.
pub(super) const NETWORK_USER: &str = "lab";

/// A server while it is measured.
pub(super) enum MeasuredServer<'a> {
    Ours(Box<Server>),
    Theirs(&'a Existing),
}

impl MeasuredServer<'_> {
    pub(super) fn address(&self) -> Address {
        match self {
            MeasuredServer::Ours(server) => Address::root(server.socket()),
            MeasuredServer::Theirs(existing) => existing.address().clone(),
        }
    }

    pub(super) fn process(&self) -> Option<u32> {
        match self {
            MeasuredServer::Ours(server) => Some(server.pid()),
            MeasuredServer::Theirs(existing) => existing.process(),
        }
    }

    pub(super) fn variables(&self) -> &BTreeMap<String, String> {
        match self {
            MeasuredServer::Ours(server) => server.variables(),
            MeasuredServer::Theirs(existing) => existing.variables(),
        }
    }

    /// The directory of its files, for a server started here.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            MeasuredServer::Ours(server) => Some(server.directory()),
            MeasuredServer::Theirs(_) => None,
        }
    }

    /// A directory on the device of its writes, as far as is known.
    pub(super) fn device(&self) -> PathBuf {
        match self {
            MeasuredServer::Ours(server) => server.directory().to_path_buf(),
            MeasuredServer::Theirs(existing) => {
                existing.variables().get("datadir").map(PathBuf::from).unwrap_or_default()
            }
        }
    }

    pub(super) fn check_alive(&mut self) -> Result<()> {
        match self {
            MeasuredServer::Ours(server) => server.check_alive(),
            MeasuredServer::Theirs(existing) => Existing::connect(existing.address().clone()).map(|_| ()),
        }
    }
}

/// The way of clients to the server over TCP.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// The port.
    pub(super) port: u16,
    /// The password of the user.
    pub(super) password: String,
}

pub(super) fn connect(address: &Address) -> Result<Session> {
    Session::connect(address, STATEMENT_LIMIT).map_err(statement_error("connecting"))
}

pub(super) fn statement_error(statement: &str) -> impl FnOnce(Failure) -> Error {
    let statement = statement.to_string();
    move |failure| Error::Statement { statement, message: failure.to_string() }
}

pub(super) fn run_statement(session: &mut Session, statement: &str) -> Result<u64> {
    session.run(statement).map_err(statement_error(statement))
}

/// Runs statements for the checks.
pub(super) fn rows_of(session: &mut Session) -> impl FnMut(&str) -> Result<Vec<Vec<String>>> + '_ {
    move |statement| session.rows(statement).map_err(statement_error(statement))
}

/// Writes the result of a statement, a line for each row.
pub(super) fn write_rows(address: &Address, statement: &str, path: &Path) -> Result<()> {
    let mut session = connect(address)?;
    let rows = rows_of(&mut session)(statement)?;
    let lines: Vec<String> = rows.iter().map(|row| row.join("\t") + "\n").collect();
    fs::write(path, lines.concat()).map_err(io_error("cannot write", path))
}

/// The database is made anew. A database with other tables than sysbench's belongs to a user of the
/// server.
pub(super) fn refuse_strangers(session: &mut Session, database: &str) -> Result<()> {
    let query = format!(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{database}' \
         AND TABLE_NAME NOT LIKE 'sbtest%'"
    );
    match session.number(&query).map_err(statement_error(&query))? {
        0 => Ok(()),
        _ => Err(Error::Usage(format!(
            "the database {database} holds tables that are not sysbench's; it would be dropped"
        ))),
    }
}

/// The target of sysbench on an engine.
pub(super) fn target(script: &str, engine: Engine) -> Target<'_> {
    Target { script, database: engine.database(), engine: engine.name() }
}

/// Makes a user for clients over TCP, with their rights in one database.
pub(super) fn open_network(server: &Server, engine: Engine, network: &Network) -> Result<()> {
    let mut session = connect(&Address::root(server.socket()))?;
    let Network { password, .. } = network;
    for statement in [
        format!("DROP USER IF EXISTS '{NETWORK_USER}'@'%'"),
        format!("CREATE USER '{NETWORK_USER}'@'%' IDENTIFIED BY '{password}'"),
        format!("GRANT ALL ON {}.* TO '{NETWORK_USER}'@'%'", engine.database()),
    ] {
        run_statement(&mut session, &statement)?;
    }
    // MySQL asks for the password itself once, which the socket may carry, and for a proof later.
    let address = Address {
        socket: server.socket().to_path_buf(),
        user: NETWORK_USER.to_string(),
        password: Some(password.clone()),
    };
    connect(&address).map(|_| ())
}

/// A currently free port.
pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((LOOPBACK, 0)).map_err(io_error("no port is free at", LOOPBACK))?;
    Ok(listener.local_addr().map_err(io_error("no port is free at", LOOPBACK))?.port())
}

pub(super) fn password() -> String {
    format!("{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_differ_and_need_no_quoting() {
        let (one, other) = (password(), password());
        assert!(one != other && one.len() == 32 && one.chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
