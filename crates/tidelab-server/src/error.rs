//! The errors of the laboratory. Every variant names the thing and, where there is one, the remedy: its
//! text is for the person at the terminal.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the laboratory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program or file for a run is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// The program or file.
        what: String,
        /// The command to bring it.
        remedy: String,
    },
    /// The request does not make sense.
    #[error("{0}")]
    Usage(String),
    /// The server uses another value than the one in its option file.
    #[error("the server does not use what was asked: {0}")]
    Setting(String),
    /// The server did not start, or ended.
    #[error("{what}; the end of {log}:\n{tail}")]
    Server {
        /// The system's error.
        what: String,
        /// The error log.
        log: String,
        /// Its last lines.
        tail: String,
    },
    /// A statement of the laboratory's own failed.
    #[error("{statement}: {message}")]
    Statement {
        /// The SQL.
        statement: String,
        /// The output of the client.
        message: String,
    },
    /// A program of the load (sysbench) failed or printed something unreadable.
    #[error("{what}: {message}")]
    Load {
        /// The run.
        what: String,
        /// The output of the program.
        message: String,
    },
    /// The system refused a call on a file or process.
    #[error("{what} {path}: {source}")]
    Io {
        /// The attempt.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A signal asked to end.
    #[error("interrupted")]
    Interrupted,
}

/// A result of the laboratory.
pub type Result<T> = std::result::Result<T, Error>;

/// Attaches the attempt and its file to an I/O error.
pub fn io_error(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
    let path = path.as_ref().to_path_buf();
    move |source| Error::Io { what, path, source }
}
