//! Connections of the benchmark's clients, over a socket or the network, with prepared statements.

use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Params, Row, Statement, Value};

use super::dsn::{Dsn, Endpoint};
use crate::server::session::{Failure, Session};

/// The limit of an answer where the data source has none: a longer wait is a hang.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// The error number of an operation without an answer: the clients' own number for a lost connection.
pub const LOST: u16 = 2013;

/// A client's connection.
pub struct Connection(Conn);

fn open(dsn: &Dsn, limit: Option<Duration>) -> Result<Conn, Failure> {
    let options = OptsBuilder::new()
        // A connection asked for over the network goes over the network, to this machine too.
        .prefer_socket(false)
        .user(Some(dsn.user.as_str()).filter(|user| !user.is_empty()))
        .pass(dsn.password.as_deref())
        .db_name(Some(dsn.database.as_str()))
        .tcp_connect_timeout(dsn.connect_timeout)
        .read_timeout(limit)
        .write_timeout(dsn.write_timeout.or(limit))
        .max_allowed_packet(dsn.max_packet)
        .init(dsn.at_start.clone());
    let options = match &dsn.endpoint {
        Endpoint::Unix(path) => options.socket(Some(path.to_string_lossy())),
        Endpoint::Tcp { host, port } => options.ip_or_hostname(Some(host.as_str())).tcp_port(*port),
    };
    Ok(Conn::new(options)?)
}

/// A session for the statements before and after a load: none of them is cut short.
pub fn session(dsn: &Dsn) -> Result<Session, Failure> {
    Ok(Session::over(open(dsn, None)?))
}

impl Connection {
    /// Connects as the data source says.
    pub fn open(dsn: &Dsn) -> Result<Connection, Failure> {
        open(dsn, Some(dsn.read_timeout.unwrap_or(ANSWER_LIMIT))).map(Connection)
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, text: &str) -> Result<Statement, Failure> {
        Ok(self.0.prep(text)?)
    }

    /// Runs a prepared statement without rows as its answer. Returns the number of changed rows, and the
    /// first AUTO_INCREMENT value given out, 0 for none.
    pub fn run(&mut self, statement: &Statement, values: Vec<Value>) -> Result<(u64, u64), Failure> {
        self.0.exec_drop(statement, parameters(values))?;
        Ok((self.0.affected_rows(), self.0.last_insert_id()))
    }

    /// Runs a prepared statement and returns its rows.
    pub fn rows(&mut self, statement: &Statement, values: Vec<Value>) -> Result<Vec<Row>, Failure> {
        Ok(self.0.exec(statement, parameters(values))?)
    }
}

fn parameters(values: Vec<Value>) -> Params {
    if values.is_empty() {
        Params::Empty
    } else {
        Params::Positional(values)
    }
}
