//! The disk space of an engine's files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::server::engine::Engine;

/// Allocated space, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Tables and indexes.
    pub data_bytes: u64,
    /// Logs written before the tables: redo, undo, write-ahead.
    pub log_bytes: u64,
}

/// The current size of an engine's files, in a server's directory of the laboratory's layout.
///
/// InnoDB's system tablespace (`ibdata1`) and undo count as log: they hold no rows of the load.
pub fn of_engine(directory: &Path, engine: Engine) -> Space {
    let data = directory.join("data");
    match engine {
        Engine::InnoDb => {
            let mut space = of(&data.join(engine.database()), &|_| false);
            for entry in fs::read_dir(&data).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if ["ib_logfile", "ibdata", "undo"].iter().any(|start| name.starts_with(start)) {
                    space.log_bytes += entry.metadata().map(|m| m.blocks() * 512).unwrap_or(0);
                }
            }
            space
        }
        Engine::RocksDb => of(&data.join("#rocksdb"), &|name| name.ends_with(".log")),
        Engine::TidesDb => of(&directory.join("tidesdb_data"), &is_tidesdb_log),
    }
}

/// A write-ahead log of TidesDB, by its name.
fn is_tidesdb_log(name: &str) -> bool {
    name.starts_with("wal") || name.ends_with(".wal") || name.ends_with(".log")
}

/// The space of a directory and all below it, split by the files' names into logs and others. Files removed
/// meanwhile count nothing.
pub fn of(directory: &Path, is_log: &dyn Fn(&str) -> bool) -> Space {
    let mut space = Space::default();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let below = of(&entry.path(), is_log);
            space.data_bytes += below.data_bytes;
            space.log_bytes += below.log_bytes;
        } else if is_log(&entry.file_name().to_string_lossy()) {
            space.log_bytes += metadata.blocks() * 512;
        } else {
            space.data_bytes += metadata.blocks() * 512;
        }
    }
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_data_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let rocks = folder.path().join("data/#rocksdb/deep");
        fs::create_dir_all(&rocks).unwrap();
        fs::write(rocks.join("000001.sst"), vec![1u8; 10_000]).unwrap();
        fs::write(rocks.join("000002.log"), vec![1u8; 50_000]).unwrap();
        let space = of_engine(folder.path(), Engine::RocksDb);
        assert!((10_000..30_000).contains(&space.data_bytes), "{space:?}");
        assert!((50_000..80_000).contains(&space.log_bytes), "{space:?}");
        assert_eq!(of_engine(folder.path(), Engine::TidesDb), Space::default());
    }
}
