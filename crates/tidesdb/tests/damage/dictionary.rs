//! Damage of the dictionary, kept twice. One copy is enough for everything. Without either the store opens,
//! loses nothing, and names the remedy.

use super::*;
use tidesdb::internal::io::faulty::Crash;

/// A place in a file.
type Place = (PathBuf, u64);

const NAMES: [&[u8]; 3] = [b"one", b"two", b"three"];

/// A store of three families with rows and a counter; returns the begin of its dictionary's two copies.
fn kept_twice(disk: &FaultyDisk) -> [Place; 2] {
    let db = open(disk, &options()).expect("opens");
    for (at, name) in (0..).zip(NAMES) {
        let family = db.create_family(name, sim::tiny_family()).expect("creates");
        fill(&db, &family, at * 100, 50);
        assert_eq!(db.counter_take(&family, 0, 10, 1, 1, u64::MAX).expect("has values"), 1);
    }
    db.flush().expect("flushes");
    // It writes counters: a file with the dictionary alone.
    db.close().expect("closes");
    let db = open(disk, &options()).expect("opens");
    let places = copies(disk, &db);
    db.close().expect("closes");
    places
}

/// The begin of the only table of the dictionary, and of its second copy.
fn copies(disk: &FaultyDisk, db: &Db) -> [Place; 2] {
    let tables = db.tables();
    let mut of_dictionary = tables.iter().filter(|table| table.family == 0);
    let table = of_dictionary.next().expect("one table");
    assert!(of_dictionary.next().is_none(), "one table");
    let path = Path::new(DIR).join(format!("{:08}.sst", table.file));
    let from = table.offset as usize;
    let bytes = disk.contents(&path).expect("there")[from..from + table.bytes as usize].to_vec();
    let mirror =
        files(disk).into_iter().find(|other| *other != path && disk.contents(other).as_ref() == Some(&bytes));
    [(path, table.offset), (mirror.expect("a second file with the same bytes"), 0)]
}

fn flip(disk: &FaultyDisk, (path, offset): &Place) {
    assert!(disk.flip_bit(path, offset + 20, 3), "in the first block");
}

fn is_whole(db: &Db) {
    for (at, name) in (0..).zip(NAMES) {
        let family = db.family(name).expect("there");
        let rows = rows(db, &family).expect("reads");
        assert_eq!((rows.len(), &rows[0].0[..]), (50, &(at * 100u32).to_be_bytes()[..]));
        assert!(db.counter_peek(&family, 0).expect("reads") >= 11);
    }
}

#[test]
fn one_damaged_or_missing_copy_costs_nothing() {
    for which in 0..2 {
        for missing in [false, true] {
            let disk = FaultyDisk::new(1);
            let places = kept_twice(&disk);
            let damaged = &places[which];
            match missing {
                true => disk.remove(&damaged.0).expect("unlinks"),
                false => flip(&disk, damaged),
            }
            let db = open(&disk, &options()).expect("opens with the other copy");
            is_whole(&db);
            // The next change writes both anew.
            db.create_family(b"four", sim::tiny_family()).expect("creates");
            db.flush().expect("flushes");
            let healed = copies(&disk, &db);
            assert!(!healed.contains(damaged), "{healed:?}");
            db.close().expect("closes");
            for place in &healed {
                flip(&disk, place);
                let db = open(&disk, &options()).expect("opens");
                is_whole(&db);
                db.family(b"four").expect("there");
                db.close().expect("closes");
                flip(&disk, place);
            }
        }
    }
}

/// Nothing is dropped, no definition and no counter is changed, and both are back with the first readable
/// block.
#[test]
fn without_either_copy_the_store_opens_and_loses_nothing() {
    let disk = FaultyDisk::new(1);
    let places = kept_twice(&disk);
    // What the log holds of the families is not dropped either.
    let unflushed = Options { flush_on_close: false, ..options() };
    let db = open(&disk, &unflushed).expect("opens");
    fill(&db, &db.family(b"one").expect("there"), 40, 20);
    let disk = disk.crash(Crash::Keep);
    drop(db);
    places.iter().for_each(|place| flip(&disk, place));
    for _ in 0..2 {
        let (log, told) = told();
        let db = open(&disk, &Options { log: Some(log), ..options() }).expect("opens");
        let told = told.lock().expect("whole").join("\n");
        assert!(told.contains("both copies") && told.contains("tidesdb-admin repair"), "{told}");
        let hidden = db.family(b"one").map(drop).expect_err("nobody knows which table it is");
        assert!(matches!(hidden, Error::Corruption { .. }), "it may exist: {hidden}");
        let refused = db.create_family(b"one", sim::tiny_family()).expect_err("the name may be taken");
        assert!(refused.to_string().contains("tidesdb-admin repair"), "{refused}");
        assert_eq!(db.tables().iter().filter(|table| table.family != 0).count(), 3, "with that of the log");
        db.close().expect("closes");
    }
    places.iter().for_each(|place| flip(&disk, place));
    let db = open(&disk, &options()).expect("opens");
    let one = db.family(b"one").expect("there");
    assert_eq!(rows(&db, &one).expect("reads").len(), 60);
    assert!(db.counter_take(&one, 0, 1, 1, 1, u64::MAX).expect("has values") >= 11);
    for name in &NAMES[1..] {
        assert_eq!(rows(&db, &db.family(name).expect("there")).expect("reads").len(), 50);
    }
    drop(one);
    db.close().expect("closes");
}

/// A family whose entry is certain keeps its rows readable, and its counters are not guessed.
#[test]
fn what_is_certain_is_there_and_no_counter_restarts() {
    let disk = FaultyDisk::new(1);
    let places = kept_twice(&disk);
    // In a crash the newer entries are in the log alone.
    let db = open(&disk, &options()).expect("opens");
    let four = db.create_family(b"four", sim::tiny_family()).expect("creates");
    fill(&db, &four, 0, 10);
    assert_eq!(db.counter_take(&four, 0, 1, 1, 1, u64::MAX).expect("has values"), 1);
    let disk = disk.crash(Crash::Keep);
    drop((four, db));
    places.iter().for_each(|place| flip(&disk, place));
    let db = open(&disk, &options()).expect("opens");
    let four = db.family(b"four").expect("the log has its entry");
    assert_eq!(rows(&db, &four).expect("reads").len(), 10);
    fill(&db, &four, 10, 10);
    let refused = db.counter_take(&four, 0, 1, 1, 1, u64::MAX).expect_err("it may be above what is known");
    assert!(matches!(refused, Error::Corruption { .. }), "{refused}");
    db.flush().expect("flushes");
    assert_eq!(rows(&db, &four).expect("reads").len(), 20);
    drop(four);
    db.close().expect("closes");
}
