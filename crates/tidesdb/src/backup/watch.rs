//! Progress and interruption of long operations.

use crate::error::{Error, Result};

/// Callbacks by which a caller follows and stops a long operation.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Called before each megabyte and during waits; true ends the operation with `Error::Interrupted`.
    pub stop: &'a dyn Fn() -> bool,
    /// Called with the bytes done and the bytes in all.
    pub progress: &'a dyn Fn(u64, u64),
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl Watch<'static> {
    /// No progress reports, no interruption.
    pub const NONE: Watch<'static> = Watch { stop: &|| false, progress: &|_, _| {} };
}

impl Watch<'_> {
    pub(super) fn check(&self) -> Result<()> {
        match (self.stop)() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }
}
