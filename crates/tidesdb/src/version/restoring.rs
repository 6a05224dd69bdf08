//! The marker file of an unfinished restore. It is in a store's directory from before the copy of the first
//! file until after the sync of the last. A store with the marker does not open.

use std::path::Path;

use crate::error::{Error, Result};
use crate::io::Disk;

/// The name of the file.
pub(crate) const RESTORING: &str = "RESTORING";

/// Refuses a store with an unfinished restore.
pub(crate) fn check_restored(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.exists(&dir.join(RESTORING))? {
        true => Err(Error::InvalidArgument(format!(
            "a restore into {} did not finish: remove the directory and restore again",
            dir.display()
        ))),
        false => Ok(()),
    }
}
