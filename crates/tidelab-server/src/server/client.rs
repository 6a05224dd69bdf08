//! Statements of the laboratory's own, through the client program of the server's prefix:
//! a process each, as root over the socket. For set-up and checks, never for load.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{io_error, Error, Result};

/// The address of a server.
#[derive(Clone, Debug)]
pub struct Client {
    program: PathBuf,
    socket: PathBuf,
}

impl Client {
    /// This client program for the server on this socket.
    pub fn new(program: &Path, socket: &Path) -> Client {
        Client { program: program.to_path_buf(), socket: socket.to_path_buf() }
    }

    /// Runs statements and returns their rows, split into columns.
    pub fn query(&self, statement: &str) -> Result<Vec<Vec<String>>> {
        let output = Command::new(&self.program)
            .arg("--no-defaults")
            .args(["--user=root", "--batch", "--skip-column-names", "--connect-timeout=5"])
            .arg(format!("--socket={}", self.socket.display()))
            .args(["--execute", statement])
            .stdin(Stdio::null())
            // The terminal's Ctrl-C is for the laboratory, which ends this in order.
            .process_group(0)
            .output()
            .map_err(io_error("cannot run", &self.program))?;
        if !output.status.success() {
            return Err(Error::Statement {
                statement: statement.to_string(),
                message: String::from_utf8_lossy(&output.stderr).trim().to_string(),
            });
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect())
    }

    /// Runs a statement with one value as its answer.
    pub fn value(&self, statement: &str) -> Result<String> {
        let rows = self.query(statement)?;
        rows.into_iter().next().and_then(|row| row.into_iter().next()).ok_or_else(|| Error::Statement {
            statement: statement.to_string(),
            message: "no row came back".to_string(),
        })
    }
}
