//! The marker file of an unfinished restore or state transfer. It is in a store's directory from before the
//! copy of the first file until after the sync of the last. A store with the marker does not open.

use std::path::Path;

use crate::error::{Error, Result};
use crate::io::{read_whole, Disk};

/// The name of the file.
pub(crate) const RESTORING: &str = "RESTORING";

/// The first bytes of a marker that a state transfer of a cluster writes.
const STATE_TRANSFER: &[u8] = b"state transfer";

/// Refuses a store with an unfinished restore or state transfer.
pub(crate) fn check_restored(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let marker = dir.join(RESTORING);
    if !disk.exists(&marker)? {
        return Ok(());
    }
    let dir = dir.display();
    Err(Error::InvalidArgument(match read_whole(disk, &marker)?.starts_with(STATE_TRANSFER) {
        true => format!(
            "a state transfer into {dir} did not finish: start the server in its cluster, which begins another one, or \
             remove the directory and restore a backup"
        ),
        false => format!("a restore into {dir} did not finish: remove the directory and restore again"),
    }))
}
