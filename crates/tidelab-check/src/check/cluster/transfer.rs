//! The state transfer of the nodes: the product's, `wsrep_sst_tidesdb`, with the server's scripts and rsync. The provider
//! runs it for incremental transfers too, on both sides.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::program;

/// `wsrep_sst_method`.
pub(super) const METHOD: &str = "tidesdb";
const SCRIPT: &str = include_str!("../../../../../plugin/sst/wsrep_sst_tidesdb");
/// Of the server, in one folder.
const SERVERS_SCRIPT: &str = "wsrep_sst_rsync";
/// In the joiner's store, from before the first file until after the last.
const MARK: &str = "tidesdb_data/RESTORING";

/// Writes the script into a folder; returns the variables of a server that finds it, the server's own and rsync.
pub(super) fn environment(folder: &Path, prefix: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let others = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&others).any(|folder| folder.join("rsync").is_file()) {
        return Err(Error::Missing {
            what: "rsync, for state transfers,".to_string(),
            remedy: "scripts/setup/packages.sh galera brings it".to_string(),
        });
    }
    fs::create_dir_all(folder).map_err(io_error("cannot make", folder))?;
    let script = folder.join(format!("wsrep_sst_{METHOD}"));
    fs::write(&script, SCRIPT).map_err(io_error("cannot write", &script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .map_err(io_error("cannot write", &script))?;
    let folder = fs::canonicalize(folder).map_err(io_error("cannot find", folder))?;
    let mut path = folder.into_os_string();
    let servers = program(prefix, SERVERS_SCRIPT)?;
    for part in [servers.parent().map(OsString::from).unwrap_or_default(), others] {
        path.push(":");
        path.push(part);
    }
    Ok(vec![("PATH", PathBuf::from(path))])
}

/// True for a node with half a state.
pub(super) fn is_half(directory: &Path) -> bool {
    directory.join(MARK).exists()
}

/// Waits until the node in this directory has half a state; false if it does not come to that.
pub(super) fn await_half(directory: &Path, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if is_half(directory) {
            return true;
        }
        sleep(Duration::from_millis(2));
    }
    false
}
