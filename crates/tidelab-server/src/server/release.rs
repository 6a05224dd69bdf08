//! The release of a server: its family and version, read from the text of the program or of the running
//! server. All differences between families hang on this.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{io_error, Error, Result};

/// A family of servers; all speak one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// MariaDB.
    MariaDB,
    /// Oracle's.
    MySQL,
    /// Percona Server for MySQL.
    Percona,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::MariaDB => "MariaDB",
            Family::MySQL => "MySQL",
            Family::Percona => "Percona Server",
        })
    }
}

/// A version: three numbers, compared in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl FromStr for Version {
    type Err = Error;

    /// `10.11.18`; missing numbers are 0.
    fn from_str(text: &str) -> Result<Version> {
        let bad = || Error::Usage(format!("'{text}' is no version: 10.11 or 10.11.18 would be one"));
        let mut numbers = [0; 3];
        let mut parts = text.split('.');
        for (n, part) in parts.by_ref().take(3).enumerate() {
            numbers[n] = part.parse().map_err(|_| bad())?;
        }
        if parts.next().is_some() {
            return Err(bad());
        }
        Ok(Version(numbers[0], numbers[1], numbers[2]))
    }
}

/// A family and a version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The family.
    pub family: Family,
    /// The version.
    pub version: Version,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family, self.version)
    }
}

impl Release {
    /// From a running server's `version` and `version_comment`. None: it cannot be read.
    pub fn of_server(version: &str, comment: &str) -> Option<Release> {
        // Old replicas are told 5.5.5- before the version.
        let version = version.strip_prefix("5.5.5-").unwrap_or(version);
        let family = if version.contains("MariaDB") {
            Family::MariaDB
        } else if comment.starts_with("Percona") {
            Family::Percona
        } else {
            Family::MySQL
        };
        Some(Release { family, version: leading_version(version)? })
    }

    /// From a server program's answer to `--version`, as `mariadbd  Ver 10.5.23-MariaDB-0+deb11u1 for
    /// debian-linux-gnu on x86_64 (Debian 11)`.
    pub fn of_program(answer: &str) -> Option<Release> {
        let (_, rest) = answer.split_once("Ver ")?;
        let version = rest.split_whitespace().next()?;
        let comment = rest.find('(').map_or("", |at| rest[at..].trim_start_matches('('));
        Release::of_server(version, comment)
    }
}

/// The numbers at a text's start: two or three of them.
fn leading_version(text: &str) -> Option<Version> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let numbers = text[..end].trim_end_matches('.');
    if !numbers.contains('.') {
        return None;
    }
    numbers.parse().ok()
}

/// An installed server: its place, its programs, its release.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The directory whose `bin/` has the programs.
    pub prefix: PathBuf,
    /// The server.
    pub server: PathBuf,
    /// The client.
    pub client: PathBuf,
    /// Its release.
    pub release: Release,
}

impl Installation {
    /// The server in a prefix. Errors: there is none, or its version cannot be read.
    pub fn at(prefix: &Path) -> Result<Installation> {
        let mysql = !prefix.join("bin/mariadbd").is_file() && prefix.join("bin/mysqld").is_file();
        let (server, client) = if mysql { ("mysqld", "mysql") } else { ("mariadbd", "mariadb") };
        let server = super::process::program(prefix, server)?;
        let client = super::process::program(prefix, client)?;
        let output = Command::new(&server)
            .args(["--no-defaults", "--version"])
            .stdin(Stdio::null())
            .output()
            .map_err(io_error("cannot run", &server))?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let release = Release::of_program(&answer).ok_or_else(|| {
            let said = format!("{answer}{}", String::from_utf8_lossy(&output.stderr));
            Error::Usage(format!("{} does not say its version: {}", server.display(), said.trim()))
        })?;
        Ok(Installation { prefix: prefix.to_path_buf(), server, client, release })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_known_by_what_it_says() {
        for (answer, said) in [
            (
                "/p/mariadbd  Ver 10.5.23-MariaDB-0+deb11u1 for debian-linux-gnu on x86_64 (Debian 11)",
                "MariaDB 10.5.23",
            ),
            (
                "mariadbd  Ver 11.8.9-MariaDB-4 from Debian for debian-linux-gnu on x86_64 (-- Please help)",
                "MariaDB 11.8.9",
            ),
            ("/p/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", "MySQL 9.7.4"),
            (
                "mysqld  Ver 8.0.45-36 for Linux on x86_64 (Percona Server (GPL), Release 36)",
                "Percona Server 8.0.45",
            ),
            ("mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))", "MySQL 5.7.44"),
        ] {
            assert_eq!(Release::of_program(answer).map(|r| r.to_string()).as_deref(), Some(said), "{answer}");
        }
        assert_eq!(Release::of_program("bash: mysqld: not found"), None);
        let release = Release::of_server("5.5.5-10.11.16-MariaDB-ubu2204", "mariadb.org binary distribution");
        assert_eq!(release.map(|r| r.to_string()).as_deref(), Some("MariaDB 10.11.16"));
        let release = Release::of_server("8.4.7-7", "Percona Server (GPL), Release 7").unwrap();
        assert_eq!(release, Release { family: Family::Percona, version: Version(8, 4, 7) });
    }

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("10.5.23") < version("10.11.0") && version("10.11") == version("10.11.0"));
        assert!(version("9.7.4") < version("10.5"));
        for bad in ["", "10.x", "1.2.3.4"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }
}
