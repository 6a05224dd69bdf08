//! The state transfer of nodes that start on empty data: the plugin's own script, around the server's rsync.

use std::env::{join_paths, split_paths, var_os};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{io_error, Error, Result};
use crate::server::program;

/// `wsrep_sst_method`.
pub const METHOD: &str = "tidesdb";

const SCRIPT: &str = include_str!("../../../../plugin/sst/wsrep_sst_tidesdb");
/// Of the server, in one folder with its others.
const SERVERS_SCRIPT: &str = "wsrep_sst_rsync";

/// Writes the script into a folder. Returns the variables of a server that finds it and the scripts of its own
/// installation. Errors: those of files; rsync is missing.
pub fn environment(folder: &Path, prefix: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let path = var_os("PATH").unwrap_or_default();
    if !split_paths(&path).any(|place| place.join("rsync").is_file()) {
        return Err(Error::Missing {
            what: "rsync, for the nodes' state transfer,".to_string(),
            remedy: "scripts/setup/packages.sh galera brings it".to_string(),
        });
    }
    fs::create_dir_all(folder).map_err(io_error("cannot make", folder))?;
    let script = folder.join(format!("wsrep_sst_{METHOD}"));
    fs::write(&script, SCRIPT).map_err(io_error("cannot write", &script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .map_err(io_error("cannot write", &script))?;
    let folder = fs::canonicalize(folder).map_err(io_error("cannot find", folder))?;
    let servers = program(prefix, SERVERS_SCRIPT)?;
    let places = [folder, servers.parent().map(PathBuf::from).unwrap_or_default()];
    let path = join_paths(places.into_iter().chain(split_paths(&path)))
        .map_err(|error| Error::Usage(format!("PATH with the script of state transfers: {error}")))?;
    Ok(vec![("PATH", PathBuf::from(path))])
}
