//! A connection to a running server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row, Value};

use crate::output::Failure;

/// The socket of Debian's server.
pub const DEBIAN: &str = "/run/mysqld/mysqld.sock";

/// information_schema opens every table for its sizes.
const ANSWER_LIMIT: Duration = Duration::from_secs(3600);

/// A server's address, and the user to log in as.
#[derive(Clone, Debug)]
pub struct Address<'a> {
    /// `None`: by host and port, or Debian's where no host is named.
    pub socket: Option<&'a Path>,
    pub host: Option<&'a str>,
    pub port: u16,
    pub user: &'a str,
    /// A file whose first line is the password.
    pub password_file: Option<&'a Path>,
}

impl Address<'_> {
    /// The socket to take; `None`: a host is named.
    pub fn local(&self) -> Result<Option<PathBuf>, Failure> {
        match (self.socket, self.host) {
            (Some(socket), _) => Ok(Some(socket.to_path_buf())),
            (None, Some(_)) => Ok(None),
            (None, None) if Path::new(DEBIAN).exists() => Ok(Some(PathBuf::from(DEBIAN))),
            (None, None) => {
                let what = format!("no server is named: --socket FILE or --host NAME (there is no {DEBIAN})");
                Err(Failure::Other(what))
            }
        }
    }

    /// The password in the file, if one is named.
    pub fn password(&self) -> Result<Option<String>, Failure> {
        let Some(file) = self.password_file else { return Ok(None) };
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::Other(format!("cannot read {}: {error}", file.display())))?;
        Ok(Some(text.lines().next().unwrap_or_default().to_string()))
    }
}

/// A connection.
pub struct Connection {
    inner: Conn,
    /// Socket, or host and port.
    pub place: String,
}

fn text(value: Value) -> String {
    match value {
        Value::NULL => String::new(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => other.as_sql(true),
    }
}

/// An error without the names of the library's types.
fn in_words(error: &mysql::Error) -> String {
    match error {
        mysql::Error::DriverError(inner) => inner.to_string(),
        mysql::Error::MySqlError(inner) => inner.to_string(),
        mysql::Error::IoError(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

impl Connection {
    /// Connects.
    pub fn open(address: &Address<'_>) -> Result<Connection, Failure> {
        Connection::with_limit(address, Some(ANSWER_LIMIT))
    }

    /// For statements as long as a backup.
    pub fn open_without_limit(address: &Address<'_>) -> Result<Connection, Failure> {
        Connection::with_limit(address, None)
    }

    fn with_limit(address: &Address<'_>, limit: Option<Duration>) -> Result<Connection, Failure> {
        let socket = address.local()?;
        let place = match &socket {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", address.host.unwrap_or_default(), address.port),
        };
        let builder = OptsBuilder::new()
            .user(Some(address.user))
            .pass(address.password()?)
            .prefer_socket(false)
            .read_timeout(limit)
            .write_timeout(Some(ANSWER_LIMIT));
        let builder = match &socket {
            Some(socket) => builder.socket(Some(socket.to_string_lossy())),
            None => builder.ip_or_hostname(address.host).tcp_port(address.port),
        };
        let inner = Conn::new(builder).map_err(|error| {
            Failure::Other(format!(
                "cannot connect to {place} as {}: {}; see --socket, --host, --user, --password-file",
                address.user,
                in_words(&error)
            ))
        })?;
        Ok(Connection { inner, place })
    }

    /// Runs a statement; its rows as text, NULL as nothing.
    pub fn rows(&mut self, statement: &str) -> Result<Vec<Vec<String>>, Failure> {
        let rows: Result<Vec<Row>, _> = self.inner.query(statement);
        let told = |error| Failure::Other(format!("{}: {} in {statement}", self.place, in_words(&error)));
        let rows = rows.map_err(told)?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
    }
}

/// A name for a statement.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Text for a statement of a session with any `sql_mode`.
pub fn literal(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
    format!("CONVERT(X'{digits}' USING utf8mb4)")
}
