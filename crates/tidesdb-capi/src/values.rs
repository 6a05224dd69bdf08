//! Numbers from C as values of the engine.

use tidesdb::{Error, SyncMode};

pub(crate) fn sync_mode(number: u8) -> Result<SyncMode, Error> {
    match number {
        0 => Ok(SyncMode::None),
        1 => Ok(SyncMode::Interval),
        2 => Ok(SyncMode::Full),
        other => Err(Error::InvalidArgument(format!("{other} is no sync mode"))),
    }
}
