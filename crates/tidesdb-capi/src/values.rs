//! Numbers from C as values of the engine.

use tidesdb::{DirectReads, Error, FormatVersion, SyncMode};

pub(crate) fn sync_mode(number: u8) -> Result<SyncMode, Error> {
    match number {
        0 => Ok(SyncMode::None),
        1 => Ok(SyncMode::Interval),
        2 => Ok(SyncMode::Full),
        other => Err(Error::InvalidArgument(format!("{other} is no sync mode"))),
    }
}

pub(crate) fn direct_reads(number: u8) -> Result<DirectReads, Error> {
    match number {
        0 => Ok(DirectReads::Auto),
        1 => Ok(DirectReads::On),
        2 => Ok(DirectReads::Off),
        other => Err(Error::InvalidArgument(format!("{other} says nothing about direct reads"))),
    }
}

pub(crate) fn format_version(number: u8) -> Result<FormatVersion, Error> {
    FormatVersion::from_number(number.into())
        .ok_or_else(|| Error::InvalidArgument(format!("{number} is no version of the formats: 1 and 2 are")))
}
