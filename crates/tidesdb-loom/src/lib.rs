//! The small protocols between the engine's threads, run by loom in every interleaving.
//!
//! The files are the engine's own, at their places in its tree of modules. `build.rs` sets `cfg(loom)`. Under
//! it, `sync.rs` gives them loom's atomics, mutexes and threads, and their models (`cfg(all(test, loom))`, at
//! the end of each) become tests of this crate. Stubs here replace the other modules they name. So the models
//! are built alongside the engine, within its target directory and from its compiled dependencies, and belong
//! to `cargo test --workspace`.
//!
//! `LOOM_MAX_PREEMPTIONS` bounds a model's search, `LOOM_LOG=1` shows its steps (loom's documentation).
#![cfg(test)]
// Of each file only what its model uses is used.
#![allow(dead_code)]
// Bounds of waiting are 0 under loom.
#![allow(clippy::absurd_extreme_comparisons, clippy::reversed_empty_ranges)]

#[path = "../../tidesdb/src/mutant.rs"]
mod mutant;

#[path = "../../tidesdb/src/sync.rs"]
mod sync;

#[path = "../../tidesdb/src/types.rs"]
mod types;

/// A stub for `store::snapshot`.
mod iter {
    use crate::types::Seq;

    #[derive(Debug, Default, PartialEq)]
    pub struct LiveSnapshots {
        pub scan_bound: Seq,
        pub held: Vec<Seq>,
        pub expired_at: u64,
    }
}

#[path = "../../tidesdb/src/cache"]
mod cache {
    mod single_flight;
    pub mod work;
}

#[path = "../../tidesdb/src/lock"]
mod lock {
    mod wait_cell;
}

#[path = "../../tidesdb/src/memtable"]
mod memtable {
    mod arena;
    mod hash_index;
    mod node;
    mod record;
    mod version_chain;
}

#[path = "../../tidesdb/src/store"]
mod store {
    mod deleted_range_cache;
    mod snapshot;
    mod visible_seq;
}

#[path = "../../tidesdb/src/wal"]
mod wal {
    mod leader_queue;
    mod pending_writes;
}

/// A model in a file not named above would never run.
#[test]
fn every_file_with_a_model_is_here() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tidesdb/src");
    let mut folders = vec![sources.clone()];
    let mut models = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("lists") {
            let path = entry.expect("lists").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if !std::fs::read_to_string(&path).expect("reads").contains("cfg(all(test, loom))") {
                continue;
            }
            models += 1;
            let within = path.strip_prefix(&sources).expect("below").with_extension("");
            let folder = within.parent().expect("in a folder").display().to_string();
            let module = format!("    mod {};", within.file_name().expect("a name").to_string_lossy());
            let here = include_str!("lib.rs").split("\n}").any(|block| {
                block.contains(&format!("#[path = \"../../tidesdb/src/{folder}\"]"))
                    && block.contains(&module)
            });
            assert!(here, "{} has a model", path.display());
        }
    }
    assert!(models >= 8, "{models} files with models");
}
