//! A tour of the engine: `cargo run --example quickstart [directory]`.
//!
//! Opens a store, writes and reads in transactions, scans both ways, shows what a snapshot and a
//! conflict are, and opens the store again. Without a directory it works in a temporary one.

use std::path::Path;
use std::sync::Arc;

use tidesdb::{
    Cursor, Db, Error, Family, FamilyOptions, Options, ReadMode, Result, Scan, Start, Transaction,
    TransactionOptions,
};

fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(dir) => tour(Path::new(&dir)),
        None => {
            let dir = tempfile::tempdir().map_err(|e| Error::io("make", std::env::temp_dir(), e))?;
            tour(dir.path())
        }
    }
}

fn tour(dir: &Path) -> Result<()> {
    // A store is a directory. SyncMode::Full, the default, makes a commit durable before it returns.
    let db = Db::open(dir, Options::default())?;
    println!("opened {}", dir.display());

    // A column family is an ordered map of its own; keys sort as bytes.
    let planets = match db.family(b"planets") {
        Ok(family) => family,
        Err(Error::NoSuchFamily(_)) => db.create_family(b"planets", FamilyOptions::default())?,
        Err(other) => return Err(other),
    };

    // All of a transaction or nothing, over any number of families.
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default())?;
    for (name, moons) in [("earth", "1"), ("jupiter", "95"), ("mars", "2"), ("saturn", "146")] {
        txn.put(&planets, name.as_bytes(), moons.as_bytes())?;
    }
    txn.commit()?;
    println!("committed four planets");

    txn.begin(TransactionOptions::default())?;
    let mars = txn.get(&planets, b"mars", ReadMode::Snapshot)?;
    println!("mars has {} moons", text(mars.as_deref().unwrap_or(b"no known")));
    print!("forward: ");
    scan(&db, &planets, &mut txn, &Scan { start: Start::First, ..Scan::default() })?;
    print!("backward from n, down to f: ");
    let down = Scan { start: Start::AtOrBefore, key: b"n", bound: Some(b"f"), ..Scan::default() };
    scan(&db, &planets, &mut txn, &down)?;

    // The first plain read took the snapshot: others' commits do not move it.
    let mut other = db.transaction();
    other.begin(TransactionOptions::default())?;
    other.put(&planets, b"mars", b"3")?;
    other.commit()?;
    let seen = txn.get(&planets, b"mars", ReadMode::Snapshot)?.unwrap_or_default();
    let newest = txn.get(&planets, b"mars", ReadMode::Latest)?.unwrap_or_default();
    println!("another transaction wrote mars: the snapshot has {}, newest is {}", text(&seen), text(&newest));

    // Writing over what the snapshot does not show would lose the other's update: a conflict.
    match txn.put(&planets, b"mars", b"4") {
        Err(Error::Conflict) => println!("writing mars from that snapshot: conflict, rolled back"),
        unexpected => println!("writing mars from that snapshot: {unexpected:?}"),
    }
    txn.rollback()?;

    // A locking read waits for others instead, reads the newest, and keeps it from changing.
    txn.begin(TransactionOptions::default())?;
    let moons = txn.get(&planets, b"mars", ReadMode::Exclusive)?.unwrap_or_default();
    txn.put(&planets, b"mars", &[&moons[..], b"?"].concat())?;
    txn.commit()?;
    println!("read mars with a lock, wrote it, committed");

    drop((txn, other, planets));
    db.close()?;

    let db = Db::open(dir, Options::default())?;
    let planets = db.family(b"planets")?;
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default())?;
    print!("opened again: ");
    scan(&db, &planets, &mut txn, &Scan { start: Start::First, ..Scan::default() })?;
    drop((txn, planets));
    db.close()
}

/// Prints the rows of a scan. A cursor holds a batch of rows; `fetch` goes on behind one of them.
fn scan(db: &Db, family: &Arc<Family>, txn: &mut Transaction, scan: &Scan<'_>) -> Result<()> {
    let mut cursor: Cursor = db.cursor(family);
    let mut found = cursor.seek(txn, scan)?;
    while found {
        for index in 0..cursor.len() {
            let (key, value) = cursor.row(index);
            print!("{}={} ", text(key), text(value));
        }
        found = cursor.fetch(txn, cursor.len() - 1, scan.start.is_forward())?;
    }
    println!();
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
