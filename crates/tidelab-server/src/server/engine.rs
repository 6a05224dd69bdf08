//! The competitors: a storage engine's name, its plugin, its tables and files.

use std::fmt;
use std::str::FromStr;

use serde::{de, Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;

/// A storage engine for a server to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// This project's.
    TidesDb,
    /// The server's own B+tree engine; the reference for the others.
    InnoDb,
    /// MyRocks.
    RocksDb,
}

impl Engine {
    /// All, in the order of tables.
    pub const ALL: [Engine; 3] = [Engine::TidesDb, Engine::InnoDb, Engine::RocksDb];

    /// The name in `ENGINE=` and in `SHOW ENGINES`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::TidesDb => "TidesDB",
            Engine::InnoDb => "InnoDB",
            Engine::RocksDb => "ROCKSDB",
        }
    }

    /// Its plugin for the server to load.
    pub fn plugin(self) -> Option<&'static str> {
        match self {
            Engine::TidesDb => Some("ha_tidesdb.so"),
            Engine::InnoDb => None,
            Engine::RocksDb => Some("ha_rocksdb.so"),
        }
    }

    /// The database of its tables; no two engines share one.
    pub fn database(self) -> &'static str {
        match self {
            Engine::TidesDb => "lab_tidesdb",
            Engine::InnoDb => "lab_innodb",
            Engine::RocksDb => "lab_rocksdb",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(name: &str) -> Result<Engine, Error> {
        Engine::ALL.into_iter().find(|e| e.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            Error::Usage(format!("there is no engine '{name}': TidesDB, InnoDB and ROCKSDB are known"))
        })
    }
}

impl Serialize for Engine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Engine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Engine, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
