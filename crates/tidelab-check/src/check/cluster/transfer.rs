//! The state transfer of the nodes. The provider runs its script for incremental transfers too, on both sides.
//!
//! This one serves nothing else: a node in need of the whole state takes a copy of another's data, while both stand still
//! (`Cluster::take_state`). One that asks for it by itself fails the check.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidelab_server::error::{io_error, Result};

/// `wsrep_sst_method`: the engine refuses methods with InnoDB's tables alone.
pub(super) const METHOD: &str = "increments";
/// True for a method with the whole state: it is started then, and asks for it.
pub(super) const BRINGS_STATE: bool = false;

/// Joiner and donor meet in a file of the script's folder, named by the joiner's address. In the server's protocol each
/// line on standard output is a step. A joiner whose server was killed ends.
const SCRIPT: &str = r#"#!/bin/sh
meetings=$(dirname "$0")
while [ $# -gt 0 ]; do
  case $1 in
    --role) role=$2 ;;
    --gtid) position=$2 ;;
    --address) address=$2 ;;
    --parent) parent=$2 ;;
    --bypass) bypass=1 ;;
  esac
  shift
done
if [ "$role" = joiner ]; then
  number=$(($$ % 60000 + 1))
  rm -f "$meetings/$number"
  echo "ready 127.0.0.1:$number/increments"
  until [ -s "$meetings/$number" ]; do
    kill -0 "$parent" 2>/dev/null || exit 1
    sleep 0.05
  done
  cat "$meetings/$number"
  exit
fi
# The server writes to it, and calls a script that ends before a failure.
cat >/dev/null
[ -n "$bypass" ] || exit 1
number=${address#*:}
number=${number%%/*}
echo continue
echo "$position" >"$meetings/$number.new" && mv "$meetings/$number.new" "$meetings/$number"
echo "done $position"
"#;

/// Writes the script into a folder; returns the variables of a server that finds it.
pub(super) fn environment(folder: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    fs::create_dir_all(folder).map_err(io_error("cannot make", folder))?;
    let script = folder.join(format!("wsrep_sst_{METHOD}"));
    fs::write(&script, SCRIPT).map_err(io_error("cannot write", &script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .map_err(io_error("cannot write", &script))?;
    let mut path = folder.as_os_str().to_os_string();
    if let Some(others) = std::env::var_os("PATH") {
        path.push(":");
        path.push(others);
    }
    Ok(vec![("PATH", PathBuf::from(path))])
}
