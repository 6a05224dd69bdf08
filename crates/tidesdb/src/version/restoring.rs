//! The mark of a restore that has not finished. It stands in a store's directory from before the first file is
//! copied until after the last one is synced; a store that has it is not opened.

use std::path::Path;

use crate::error::{Error, Result};
use crate::io::Disk;

/// The name of the file.
pub(crate) const RESTORING: &str = "RESTORING";

/// Refuses a store whose restore has not finished.
pub(crate) fn check_restored(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.exists(&dir.join(RESTORING))? {
        true => Err(Error::InvalidArgument(format!(
            "a restore into {} did not finish: remove the directory and restore again",
            dir.display()
        ))),
        false => Ok(()),
    }
}
