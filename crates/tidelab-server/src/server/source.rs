//! The source of a server, as a person writes it:
//!
//! - `mariadb-10.11`, `debian:mariadb-10.11`: from a Debian suite, in its cached prefix;
//! - `prefix:/data/mariadb`: any installed or built tree;
//! - `socket:/run/mysqld/mysqld.sock`, `socket:USER@PATH`: a running server. Nothing of it is started,
//!   stopped or configured. Its password comes from the environment, `TIDELAB_PASSWORD`;
//! - `container:IMAGE`, `remote:HOST`: known by name and refused.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use super::catalogue;
use super::existing::Existing;
use super::release::{Installation, Release};
use super::session::Address;
use crate::error::{Error, Result};

/// The variable of the environment with the password for a running server.
pub const PASSWORD: &str = "TIDELAB_PASSWORD";

/// A server as an experiment names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Of a Debian suite, by its name in the catalogue.
    Debian(String),
    /// In this directory.
    Prefix(PathBuf),
    /// A running one, and the laboratory's user on it.
    Socket {
        /// Its socket.
        path: PathBuf,
        /// The user.
        user: String,
    },
    /// An image.
    Container(String),
    /// On another machine.
    Remote(String),
}

/// The server found at a source.
#[derive(Debug)]
pub enum FoundServer {
    /// Programs for the laboratory to start.
    Installed(Installation),
    /// A running server.
    Running(Existing),
}

impl FoundServer {
    /// The server's release.
    pub fn release(&self) -> Release {
        match self {
            FoundServer::Installed(installation) => installation.release,
            FoundServer::Running(existing) => existing.release(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Debian(name) => f.write_str(name),
            Source::Prefix(path) => write!(f, "prefix:{}", path.display()),
            Source::Socket { path, user } => write!(f, "socket:{user}@{}", path.display()),
            Source::Container(image) => write!(f, "container:{image}"),
            Source::Remote(host) => write!(f, "remote:{host}"),
        }
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Source> {
        let bad = |what: &str| Err(Error::Usage(format!("the server '{text}': {what}")));
        let Some((kind, rest)) = text.split_once(':') else {
            return Ok(Source::Debian(catalogue::entry(text)?.name.to_string()));
        };
        if rest.is_empty() {
            return bad("nothing stands after the colon");
        }
        match kind {
            "debian" => Ok(Source::Debian(catalogue::entry(rest)?.name.to_string())),
            "prefix" => Ok(Source::Prefix(PathBuf::from(rest))),
            "socket" => {
                // A path has no @ before its first slash.
                let at = rest.find('/').unwrap_or(rest.len());
                let (user, path) = match rest[..at].split_once('@') {
                    Some((user, start)) => (user, format!("{start}{}", &rest[at..])),
                    None => ("root", rest.to_string()),
                };
                if user.is_empty() || !path.starts_with('/') {
                    return bad("socket:PATH or socket:USER@PATH, with a whole path, is meant");
                }
                Ok(Source::Socket { path: PathBuf::from(path), user: user.to_string() })
            }
            "container" => Ok(Source::Container(rest.to_string())),
            "remote" => Ok(Source::Remote(rest.to_string())),
            _ => bad("known are a name from Debian, prefix:PATH, socket:PATH, container:IMAGE, remote:HOST"),
        }
    }
}

impl Source {
    /// Looks for the server. Errors: it is missing, with the command to bring it; an unsupported kind.
    pub fn find(&self, cache: &Path) -> Result<FoundServer> {
        match self {
            Source::Debian(name) => {
                let prefix = catalogue::entry(name)?.prefix(cache).ok_or_else(|| Error::Missing {
                    what: format!("the server {name}"),
                    remedy: format!("tidelab server fetch {name} brings it"),
                })?;
                Installation::at(&prefix).map(FoundServer::Installed)
            }
            Source::Prefix(path) => Installation::at(path).map(FoundServer::Installed),
            Source::Socket { path, user } => {
                let password = env::var(PASSWORD).ok().filter(|password| !password.is_empty());
                let address = Address { socket: path.clone(), user: user.clone(), password };
                Existing::connect(address).map(FoundServer::Running)
            }
            Source::Container(image) => Err(Error::Usage(format!(
                "container:{image}: {}",
                match container_tool() {
                    Some(tool) => format!("{tool} works here, but servers in containers are not provided for; start it with --network host and a mounted socket, and name it with socket:PATH"),
                    None => "neither docker nor podman works on this machine".to_string(),
                }
            ))),
            Source::Remote(host) => Err(Error::Usage(format!(
                "remote:{host}: servers on other machines are not provided for; what a network costs is measured \
                 with the scenarios network_read_only and network_read_write on this one"
            ))),
        }
    }
}

/// The working tool for containers, if any.
fn container_tool() -> Option<&'static str> {
    ["docker", "podman"].into_iter().find(|tool| {
        let asked = Command::new(tool)
            .args(["ps", "--quiet"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_written_in_one_way_for_each_kind() {
        for (text, source) in [
            ("mariadb-10.11", Source::Debian("mariadb-10.11".into())),
            ("debian:mysql-9.7", Source::Debian("mysql-9.7".into())),
            ("prefix:/data/mariadb", Source::Prefix("/data/mariadb".into())),
            ("socket:/tmp/m.sock", Source::Socket { path: "/tmp/m.sock".into(), user: "root".into() }),
            (
                "socket:bench@/tmp/a@b:c.sock",
                Source::Socket { path: "/tmp/a@b:c.sock".into(), user: "bench".into() },
            ),
            ("container:mariadb:10.11", Source::Container("mariadb:10.11".into())),
            ("remote:db1", Source::Remote("db1".into())),
        ] {
            let read: Source = text.parse().unwrap();
            assert_eq!(read, source, "{text}");
            assert_eq!(read.to_string().parse::<Source>().unwrap(), source);
        }
        for bad in ["mariadb", "socket:relative.sock", "socket:@/s", "prefix:", "ftp:/x"] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused_by_name_with_what_would_help() {
        let cache = tempfile::tempdir().unwrap();
        for (text, said) in [
            ("mysql-9.7", "tidelab server fetch mysql-9.7"),
            ("prefix:/nowhere", "/nowhere/bin/mariadbd is missing"),
            ("socket:/nowhere/s", "/nowhere/s"),
            ("container:mariadb:10.11", "container:mariadb:10.11"),
            ("remote:db1", "remote:db1: servers on other machines are not provided for"),
        ] {
            let error = text.parse::<Source>().unwrap().find(cache.path()).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
