//! One connection of the laboratory's own client, for checks and TPC-C. Statements go as text over the
//! socket, rows come as text. Failures are told apart: the server refused, or it is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row, Value};

/// No statement of a check takes this long: a longer wait is a hang.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// The address of a server: its socket, and the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The socket's path.
    pub socket: PathBuf,
    /// The user.
    pub user: String,
    /// The password; none for none.
    pub password: Option<String>,
}

impl Address {
    /// root without a password, as in the laboratory's own servers.
    pub fn root(socket: &Path) -> Address {
        Address { socket: socket.to_path_buf(), user: "root".to_string(), password: None }
    }
}

/// The reason for a statement's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server answered with an error.
    Sql {
        /// Its number.
        code: u16,
        /// Its text.
        message: String,
    },
    /// No answer: the connection ended or none came within the limit.
    Lost(String),
}

impl Failure {
    /// True for the three errors of a transaction refused under contention: 1213 (deadlock or conflict), 1205
    /// (timeout), 1020 (the row is newer than the snapshot).
    pub fn is_conflict(&self) -> bool {
        matches!(self, Failure::Sql { code: 1213 | 1205 | 1020, .. })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Sql { code, message } => write!(f, "error {code} ({message})"),
            Failure::Lost(what) => write!(f, "no answer ({what})"),
        }
    }
}

impl From<mysql::Error> for Failure {
    fn from(error: mysql::Error) -> Failure {
        match error {
            // 1053 (shutdown), 1927 (connection killed): the server says good-bye.
            mysql::Error::MySqlError(e) if e.code != 1053 && e.code != 1927 => {
                Failure::Sql { code: e.code, message: e.message }
            }
            other => Failure::Lost(other.to_string()),
        }
    }
}

/// A row's columns as text; NULL is the word.
pub type Columns = Vec<String>;

/// The whole answer to a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its rows; each column as it was sent, none for NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The number of changed rows.
    pub affected: u64,
    /// LAST_INSERT_ID, 0 for none.
    pub last_insert_id: u64,
    /// The number of warnings for SHOW WARNINGS to list.
    pub warnings: u16,
    /// The text printed by the client after the number of rows.
    pub info: String,
}

/// A connection.
pub struct Session(Conn);

impl Session {
    /// A session over an open connection.
    pub fn over(connection: Conn) -> Session {
        Session(connection)
    }

    /// Connects as root, over the socket.
    pub fn open(socket: &Path) -> Result<Session, Failure> {
        Session::connect(&Address::root(socket), ANSWER_LIMIT)
    }

    /// Connects; no statement may take longer than `limit`.
    pub fn connect(address: &Address, limit: Duration) -> Result<Session, Failure> {
        let options = OptsBuilder::new()
            .socket(Some(address.socket.to_string_lossy()))
            .user(Some(address.user.as_str()))
            .pass(address.password.as_deref())
            .read_timeout(Some(limit))
            .write_timeout(Some(limit));
        Ok(Session(Conn::new(options)?))
    }

    /// Runs a statement and drops its rows. Returns the number of changed rows.
    pub fn run(&mut self, statement: &str) -> Result<u64, Failure> {
        self.0.query_drop(statement)?;
        Ok(self.0.affected_rows())
    }

    /// Runs a statement and returns its rows.
    pub fn rows(&mut self, statement: &str) -> Result<Vec<Columns>, Failure> {
        let rows: Vec<Row> = self.0.query(statement)?;
        Ok(rows.into_iter().map(|row| row.unwrap().iter().map(text).collect()).collect())
    }

    /// Runs a statement and returns its first row by the columns' names.
    pub fn named(&mut self, statement: &str) -> Result<Option<BTreeMap<String, String>>, Failure> {
        let row: Option<Row> = self.0.query_first(statement)?;
        Ok(row.map(|row| {
            let names: Vec<String> = row.columns_ref().iter().map(|c| c.name_str().into_owned()).collect();
            names.into_iter().zip(row.unwrap().iter().map(text)).collect()
        }))
    }

    /// Runs a statement and returns the whole answer.
    pub fn ask(&mut self, statement: &str) -> Result<Reply, Failure> {
        let rows: Vec<Row> = self.0.query(statement)?;
        let bytes = |value| match value {
            Value::NULL => None,
            Value::Bytes(bytes) => Some(bytes),
            other => Some(other.as_sql(true).into_bytes()),
        };
        Ok(Reply {
            rows: rows.into_iter().map(|row| row.unwrap().into_iter().map(bytes).collect()).collect(),
            affected: self.0.affected_rows(),
            last_insert_id: self.0.last_insert_id(),
            warnings: self.0.warnings(),
            info: self.0.info_str().into_owned(),
        })
    }

    /// Runs a statement and shows each of its rows, keeping none: for tables too large to be held.
    pub fn each_row(&mut self, statement: &str, mut look: impl FnMut(&[Value])) -> Result<(), Failure> {
        for row in self.0.query_iter(statement)? {
            look(&row?.unwrap());
        }
        Ok(())
    }

    /// Runs a statement with rows of numbers as its answer; a NULL among them is 0.
    pub fn numbers(&mut self, statement: &str) -> Result<Vec<Vec<i64>>, Failure> {
        let rows = self.rows(statement)?;
        Ok(rows.iter().map(|row| row.iter().map(|column| column.parse().unwrap_or(0)).collect()).collect())
    }

    /// Runs a statement with one number as its answer.
    pub fn number(&mut self, statement: &str) -> Result<i64, Failure> {
        let rows = self.numbers(statement)?;
        match rows.first().and_then(|row| row.first()) {
            Some(number) => Ok(*number),
            None => Err(Failure::Lost(format!("{statement}: no row"))),
        }
    }

    /// A numeric status variable of the server.
    pub fn status(&mut self, name: &str) -> Result<i64, Failure> {
        self.number(&format!(
            "SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{name}'"
        ))
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::NULL => "NULL".to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        // Only prepared statements return other kinds, and none is used.
        other => other.as_sql(true),
    }
}
