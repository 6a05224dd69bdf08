//! The engines, one file each, and how one is opened by its name.

use std::path::Path;

use tidelab_server::error::Result;

use crate::store::{Engine, Settings, Store, Use};

pub mod lmdb;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod tides;

/// Opens the engine's store in a directory, made if missing.
pub fn open(engine: Engine, directory: &Path, settings: &Settings, purpose: Use) -> Result<Box<dyn Store>> {
    match engine {
        Engine::TidesDb => tides::open(directory, settings),
        Engine::Lmdb => lmdb::open(directory, settings),
        #[cfg(feature = "rocksdb")]
        Engine::RocksDb => rocks::open(directory, settings, purpose),
        #[cfg(not(feature = "rocksdb"))]
        Engine::RocksDb => {
            let _ = purpose;
            Err(tidelab_server::error::Error::Missing {
                what: "RocksDB in this build".to_string(),
                remedy: "make bench-engine builds with it".to_string(),
            })
        }
    }
}

/// True if this build links an engine.
pub fn is_linked(engine: Engine) -> bool {
    engine != Engine::RocksDb || cfg!(feature = "rocksdb")
}

/// The engines linked by this build.
pub fn linked() -> Vec<Engine> {
    Engine::ALL.into_iter().filter(|engine| is_linked(*engine)).collect()
}
