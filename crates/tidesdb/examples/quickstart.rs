//! A tour of the engine: `cargo run -p tidesdb --example quickstart [directory]`.
//!
//! Opens a store, writes and reads, iterates both ways, and groups changes into transactions. Shows a
//! snapshot, a conflict and a lock, loads an empty family, takes a backup, and opens the store again. Without
//! a directory it works in a temporary one.
//!
//! `cargo test --examples` runs it too.

use std::path::Path;

use tidesdb::{Compression, Db, Error, FamilyOptions, Options, Result};

fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(dir) => tour(Path::new(&dir)),
        None => in_temporary_directory(),
    }
}

fn in_temporary_directory() -> Result<()> {
    let dir = tempfile::tempdir().map_err(|e| Error::io("make", std::env::temp_dir(), e))?;
    tour(dir.path())
}

fn tour(dir: &Path) -> Result<()> {
    // A store is a directory. SyncMode::Full, the default, makes a commit durable before it returns.
    let db = Db::open(dir.join("store"), Options::default())?;

    // A column family is an ordered map of its own; keys sort as bytes. Options count for one that is made here.
    let options = FamilyOptions { compression: Compression::Zstd, ..FamilyOptions::default() };
    let planets = db.family_with("planets", options)?;

    // Single operations are transactions of their own.
    for (name, moons) in [("earth", "1"), ("jupiter", "95"), ("mars", "2"), ("saturn", "146")] {
        planets.put(name, moons)?;
    }
    println!("mars has {} moons", text(planets.get("mars")?));

    // Ranges, from both ends, at one moment each.
    print!("from j to n:");
    for row in planets.range("j".."n") {
        let (name, moons) = row?;
        print!(" {}={}", text(Some(name)), text(Some(moons)));
    }
    println!();
    let last = planets.iter().next_back().transpose()?;
    println!("the last one is {}", text(last.map(|(name, _)| name)));
    println!("{} planet starts with ma", planets.prefix("ma").count());

    // A transaction is there whole or not at all, over any number of families. It sees its own changes.
    let log = db.family("log")?;
    let txn = db.begin()?;
    txn.put(&planets, "neptune", "16")?;
    txn.put(&log, "1", "neptune found")?;
    println!("inside there are {} planets, outside {}", txn.iter(&planets).count(), planets.iter().count());
    let savepoint = txn.savepoint()?;
    txn.delete(&planets, "earth")?;
    txn.rollback_to(savepoint)?;
    txn.commit()?;
    println!("after the commit there are {}", planets.iter().count());

    // The first read took the snapshot: others' commits do not move it.
    let txn = db.begin()?;
    txn.get(&planets, "mars")?;
    planets.put("mars", "3")?;
    println!(
        "the snapshot has mars={}, newest is {}",
        text(txn.get(&planets, "mars")?),
        text(planets.get("mars")?)
    );

    // Writing over a version that the snapshot does not show would lose the other's update: a conflict.
    match txn.put(&planets, "mars", "4") {
        Err(Error::Conflict) => println!("writing mars from that snapshot: conflict"),
        unexpected => println!("writing mars from that snapshot: {unexpected:?}"),
    }
    drop(txn); // rolled back

    // A locking read waits for others, reads the newest value, and keeps it from changing.
    let txn = db.begin()?;
    let moons = text(txn.get_for_update(&planets, "mars")?);
    txn.put(&planets, "mars", format!("{moons}?"))?;
    txn.commit()?;

    // A transaction may change rows while it iterates over them.
    let txn = db.begin()?;
    for row in txn.prefix(&planets, "ma") {
        let (name, _) = row?;
        txn.put(&planets, name, "2")?;
    }
    txn.commit()?;
    println!("mars has {} moons again", text(planets.get("mars")?));

    // Many rows for an empty family: straight into sorted files, all visible at once.
    let stars = db.family("stars")?;
    if stars.iter().next().is_none() {
        let mut load = db.ingest()?;
        for number in 0..10_000u32 {
            load.add(&stars, number.to_be_bytes(), "not visited yet")?;
        }
        load.finish()?;
    }
    println!("{} stars", stars.iter().count());

    // A copy of the whole store, while others may write. It becomes a store by Db::restore.
    let copy = dir.join("copy");
    if !copy.exists() {
        db.backup(&copy)?;
    }

    // Handles that are left keep the directory locked.
    drop((planets, log, stars));
    db.close()?;
    let db = Db::open(dir.join("store"), Options::default())?;
    println!("opened again: {} families", db.family_names().len());
    db.close()
}

fn text(bytes: Option<Vec<u8>>) -> String {
    bytes.map_or_else(|| "nothing".into(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn the_tour_ends_well() {
    in_temporary_directory().expect("every step works");
}
