//! A running server, not the laboratory's. It is queried, and never configured, started or stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::release::Release;
use super::session::{Address, Session};
use super::settings::{self, Setting};
use crate::error::{Error, Result};

/// Time limit for its version.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A running server, not the laboratory's.
#[derive(Clone, Debug)]
pub struct Existing {
    address: Address,
    release: Release,
    process: Option<u32>,
    variables: BTreeMap<String, String>,
}

impl Existing {
    /// Asks a server for its version. Errors: no connection, or an answer without a version.
    pub fn connect(address: Address) -> Result<Existing> {
        const QUERY: &str = "SHOW GLOBAL VARIABLES";
        let asked = Session::connect(&address, ANSWER_LIMIT).and_then(|mut session| session.rows(QUERY));
        let rows = asked.map_err(|failure| Error::Statement {
            statement: format!("{QUERY} on {}", address.socket.display()),
            message: failure.to_string(),
        })?;
        let variables: BTreeMap<String, String> =
            rows.into_iter().filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone()))).collect();
        let of = |name: &str| variables.get(name).map_or("", String::as_str);
        let release = Release::of_server(of("version"), of("version_comment")).ok_or_else(|| {
            let said = of("version");
            Error::Usage(format!("{}: '{said}' is no version of a server", address.socket.display()))
        })?;
        let process = process(&variables);
        Ok(Existing { address, release, process, variables })
    }

    /// Fails with every setting different from the asked one.
    pub fn check(&self, asked: &[Setting]) -> Result<()> {
        let differences = settings::differences(asked, &self.variables);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::Setting(differences.join("; ")))
    }

    /// Its address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The server's release.
    pub fn release(&self) -> Release {
        self.release
    }

    /// Its process, where it runs on this machine and its pid file can be read.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// Its global variables, as they were when it was asked.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }
}

fn process(variables: &BTreeMap<String, String>) -> Option<u32> {
    let (data, file) = (variables.get("datadir")?, variables.get("pid_file")?);
    let pid = std::fs::read_to_string(PathBuf::from(data).join(file)).ok()?.trim().parse().ok()?;
    Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::release::{Family, Version};
    use crate::server::settings::setting;

    #[test]
    fn what_it_does_not_use_as_asked_is_named() {
        let variables = [("innodb_buffer_pool_size", "134217728"), ("log_bin", "ON")];
        let existing = Existing {
            address: Address::root(Path::new("/s")),
            release: Release { family: Family::MySQL, version: Version(9, 7, 4) },
            process: None,
            variables: variables.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
        };
        assert!(existing.check(&[setting("innodb_buffer_pool_size", "128M")]).is_ok());
        let asked = [setting("innodb_buffer_pool_size", "2G"), setting("log_bin", "OFF")];
        let error = existing.check(&asked).unwrap_err().to_string();
        assert!(error.contains("innodb_buffer_pool_size = 2G was asked, it is 134217728"), "{error}");
        assert!(error.contains("log_bin = OFF was asked, it is ON"), "{error}");
    }

    #[test]
    fn a_pid_file_is_found_below_the_data_directory() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("host.pid"), format!("{}\n", std::process::id())).unwrap();
        let of = |file: &str| {
            let data = folder.path().to_string_lossy().into_owned();
            process(&[("datadir".to_string(), data), ("pid_file".to_string(), file.to_string())].into())
        };
        assert_eq!(of("host.pid"), Some(std::process::id()));
        assert_eq!(of("other.pid"), None);
    }
}
