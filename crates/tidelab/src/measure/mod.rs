//! Measurements: the order of steps, the record of each load, the checks of a load.
//!
//! [`sysbench`] and [`tpcc`] carry a design out on servers. Both give
//! [`Measured`](crate::run::Measured) cells, whose rounds [`crate::report::groups`] combines.

pub mod check;
pub mod plan;
pub mod server_use;
pub mod sysbench;
pub mod tpcc;
pub mod unpaired;

use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;

/// The reference engine of ratios: InnoDB if it runs, else the first.
pub fn reference(engines: &[Engine]) -> Option<String> {
    engines.iter().find(|e| **e == Engine::InnoDb).or(engines.first()).map(Engine::to_string)
}

/// Passes on an error fatal to an experiment; an error fatal only to a cell is swallowed.
pub(crate) fn fatal(error: Error) -> Result<()> {
    match error {
        Error::Interrupted | Error::Io { .. } | Error::Missing { .. } => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_innodb_the_first_is_the_reference() {
        assert_eq!(reference(&[Engine::RocksDb, Engine::TidesDb]).as_deref(), Some("ROCKSDB"));
        assert_eq!(reference(&[Engine::TidesDb, Engine::InnoDb]).as_deref(), Some("InnoDB"));
        assert_eq!(reference(&[]), None);
    }

    #[test]
    fn a_load_that_fails_is_not_the_end() {
        assert!(fatal(Error::Load { what: String::new(), message: String::new() }).is_ok());
        assert!(fatal(Error::Interrupted).is_err());
    }
}
