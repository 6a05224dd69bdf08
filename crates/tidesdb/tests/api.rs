//! The interface for embedding programs, used as such a program uses it: by the names at the crate's root
//! alone.

use std::ops::Bound;
use std::time::Duration;

use tempfile::TempDir;
use tidesdb::{Db, Error, Family, Isolation, KeyBounds, Options, SyncMode, TransactionOptions};

/// A store in a directory of its own; syncs cost time and are tested elsewhere.
fn store() -> (TempDir, Db) {
    let dir = tempfile::tempdir().expect("directory");
    let db = Db::open(dir.path(), options()).expect("opens");
    (dir, db)
}

fn options() -> Options {
    Options { sync_mode: SyncMode::None, ..Options::default() }
}

/// `fruit` with a row for each letter; the value is the letter twice.
fn letters(db: &Db, letters: &str) -> Family {
    let family = db.family("letters").expect("makes");
    for letter in letters.split_inclusive(|_: char| true) {
        family.put(letter, letter.repeat(2)).expect("puts");
    }
    family
}

fn keys<E: std::fmt::Debug>(rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), E>>) -> String {
    rows.map(|row| String::from_utf8(row.expect("reads").0).expect("text")).collect()
}

#[test]
fn single_operations_are_committed_when_they_return() {
    let (dir, db) = store();
    let fruit = db.family("fruit").expect("makes");
    fruit.put("apple", "red").expect("puts");
    fruit.put(String::from("apple"), [0u8, 1]).expect("puts over it");
    fruit.insert(b"banana", vec![b'y']).expect("inserts");
    assert!(matches!(fruit.insert("banana", "x"), Err(Error::Duplicate)));
    fruit.put("cherry", "").expect("puts an empty value");
    fruit.delete("nothing").expect("deletes what is not there");
    assert_eq!(fruit.get("apple").expect("gets"), Some(vec![0, 1]));
    assert_eq!(fruit.get("banana").expect("gets"), Some(b"y".to_vec()), "a failed insert changes nothing");
    assert_eq!(fruit.get("cherry").expect("gets"), Some(vec![]));
    assert_eq!(fruit.get("nothing").expect("gets"), None);
    fruit.delete("apple").expect("deletes");
    assert_eq!(fruit.get("apple").expect("gets"), None);
    drop((fruit, db));
    let db = Db::open(dir.path(), options()).expect("opens again, after no close");
    assert_eq!(keys(db.family("fruit").expect("opens").iter()).as_str(), "bananacherry");
}

#[test]
fn ranges_of_every_form_go_both_ways() {
    let (_dir, db) = store();
    let family = letters(&db, "abcdefgh");
    fn both(family: &Family, range: impl KeyBounds + Clone, expected: &str) {
        assert_eq!(keys(family.range(range.clone())), expected);
        assert_eq!(keys(family.range(range).rev()), expected.chars().rev().collect::<String>());
    }
    both(&family, .., "abcdefgh");
    both(&family, "c".., "cdefgh");
    both(&family, "bb".., "cdefgh");
    both(&family, .."c", "ab");
    both(&family, ..="c", "abc");
    both(&family, "c".."f", "cde");
    both(&family, "c"..="f", "cdef");
    both(&family, (Bound::Excluded("c"), Bound::Included("f")), "def");
    both(&family, "f".."c", "");
    both(&family, "c".."c", "");
    both(&family, "x".., "");
    both(&family, .."a", "");
    assert_eq!(keys((&family).into_iter()), "abcdefgh");
}

#[test]
fn a_range_ends_where_it_says_among_keys_close_to_its_ends() {
    let (_dir, db) = store();
    let family = db.family("close").expect("makes");
    let near = [
        &b"a"[..],
        b"a\xff",
        b"a\xff\xff",
        &[b'a', 255, 255, 255, 255, 255, 255],
        b"b",
        b"b\0",
        b"b\0\0",
        b"b\x01",
    ];
    let long = [&b"a"[..], &[0xff; 40]].concat();
    for key in near.iter().copied().chain([long.as_slice()]) {
        family.put(key, "").expect("puts");
    }
    let all: Vec<_> = family.iter().map(|row| row.expect("reads").0).collect();
    assert_eq!(all.len(), 9);
    for from in 0..all.len() {
        for to in from..all.len() {
            let range = || family.range(all[from].as_slice()..all[to].as_slice());
            let forward: Vec<_> = range().map(|row| row.expect("reads").0).collect();
            let mut backward: Vec<_> = range().rev().map(|row| row.expect("reads").0).collect();
            backward.reverse();
            assert_eq!(forward, all[from..to], "{from}..{to}");
            assert_eq!(backward, all[from..to], "{from}..{to} from its end");
        }
    }
}

#[test]
fn both_ends_of_an_iterator_meet_once() {
    let (_dir, db) = store();
    let text = "abcdefghijklmnopqrstuvwxyz";
    let family = letters(&db, text);
    for front in 0..=text.len() {
        let mut rows = family.iter();
        let mut seen = keys(rows.by_ref().take(front));
        let mut tail = keys(rows.by_ref().rev());
        assert!(rows.next().is_none() && rows.next_back().is_none(), "an iterator that ended stays so");
        tail = tail.chars().rev().collect();
        seen.push_str(&tail);
        assert_eq!(seen, text, "{front} from the front, the others from the back");
    }
    let mut rows = family.range("b".."g");
    let mut turns = String::new();
    loop {
        let next = if turns.len() % 2 == 0 { rows.next() } else { rows.next_back() };
        let Some(row) = next else { break };
        turns.push(row.expect("reads").0[0] as char);
    }
    assert_eq!(turns, "bfced");
}

#[test]
fn prefixes_take_their_keys_and_no_others() {
    let (_dir, db) = store();
    let family = db.family("prefixes").expect("makes");
    for key in ["a", "ap", "apple", "apricot", "aq", "b"] {
        family.put(key, "").expect("puts");
    }
    family.put(b"\xff\xff", "").expect("puts");
    family.put(b"\xff\xff\xff", "").expect("puts");
    let count = |prefix: &[u8]| (family.prefix(prefix).count(), family.prefix(prefix).rev().count());
    assert_eq!(keys(family.prefix("ap")), "apappleapricot");
    assert_eq!(keys(family.prefix("ap").rev()), "apricotappleap");
    assert_eq!(count(b"ax"), (0, 0));
    assert_eq!(count(b"\xff\xff"), (2, 2), "a prefix with no key after it");
    assert_eq!(count(b""), (8, 8));
}

#[test]
fn a_transaction_is_there_whole_or_not_at_all() {
    let (_dir, db) = store();
    let (one, two) = (db.family("one").expect("makes"), db.family("two").expect("makes"));
    let txn = db.begin().expect("begins");
    txn.put(&one, "key", "1").expect("puts");
    txn.put(&two, "key", "2").expect("puts");
    assert_eq!(txn.get(&one, "key").expect("gets").as_deref(), Some(&b"1"[..]), "its own change");
    assert_eq!(one.get("key").expect("gets"), None, "others see nothing yet");
    txn.commit().expect("commits");
    assert_eq!(two.get("key").expect("gets").as_deref(), Some(&b"2"[..]));

    let txn = db.begin().expect("begins");
    txn.delete(&one, "key").expect("deletes");
    drop(txn);
    assert_eq!(one.get("key").expect("gets").as_deref(), Some(&b"1"[..]), "dropped, it is rolled back");

    let txn = db.begin().expect("begins");
    txn.put(&one, "kept", "").expect("puts");
    let savepoint = txn.savepoint().expect("sets");
    txn.put(&one, "undone", "").expect("puts");
    txn.rollback_to(savepoint).expect("rolls back");
    txn.commit().expect("commits");
    assert_eq!(keys(one.iter()), "keptkey");
    assert_eq!(one.get("undone").expect("gets"), None);
}

#[test]
fn a_conflict_keeps_the_transaction_from_committing() {
    let (_dir, db) = store();
    let family = letters(&db, "ab");
    let txn = db.begin().expect("begins");
    assert!(txn.get(&family, "a").expect("gets").is_some());
    family.put("a", "another's").expect("puts");
    assert_eq!(txn.get(&family, "a").expect("gets").as_deref(), Some(&b"aa"[..]), "its snapshot stays");
    txn.put(&family, "b", "mine").expect("puts");
    assert!(matches!(txn.put(&family, "a", "mine"), Err(Error::Conflict)));
    assert!(matches!(txn.put(&family, "c", "mine"), Err(Error::Conflict)));
    assert!(matches!(txn.get(&family, "c"), Err(Error::Conflict)));
    assert!(matches!(txn.iter(&family).next(), Some(Err(Error::Conflict))));
    assert!(matches!(txn.commit(), Err(Error::Conflict)), "what follows an ignored error is not committed");
    assert_eq!(family.get("a").expect("gets").as_deref(), Some(&b"another's"[..]));
    assert_eq!(family.get("b").expect("gets").as_deref(), Some(&b"bb"[..]));
}

#[test]
fn a_locked_key_makes_others_wait() {
    let (_dir, db) = store();
    let family = letters(&db, "a");
    let first = db.begin().expect("begins");
    assert!(first.get_for_update(&family, "a").expect("locks").is_some());
    let second = db.begin().expect("begins");
    second.set_lock_timeout(Some(Duration::from_millis(20)));
    assert!(matches!(second.put(&family, "a", "2"), Err(Error::LockTimeout)));
    second.put(&family, "b", "2").expect("goes on with another key");
    second.commit().expect("commits");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| family.put("a", "after"));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished(), "a single operation waits too");
        first.put(&family, "a", "before").expect("puts");
        first.commit().expect("commits");
        waiting.join().expect("no panic").expect("puts");
    });
    assert_eq!(family.get("a").expect("gets").as_deref(), Some(&b"after"[..]));
    // The object with the short timeout went back to the pool without it.
    let holder = db.begin().expect("begins");
    holder.put(&family, "a", "held").expect("puts");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| family.delete("a"));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        holder.rollback().expect("rolls back");
        waiting.join().expect("no panic").expect("deletes");
    });
}

#[test]
fn a_transaction_changes_rows_while_it_iterates() {
    let (_dir, db) = store();
    let family = letters(&db, "abcdefghijklmnopqrstuvwxyz");
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let txn = db.begin_with(TransactionOptions { isolation, ..Default::default() }).expect("begins");
        let mut seen = String::new();
        for row in txn.range(&family, "b"..) {
            let (key, _) = row.expect("reads");
            seen.push(key[0] as char);
            txn.delete(&family, &key).expect("deletes");
            if key == b"y" {
                txn.delete(&family, "z").expect("deletes what comes next");
            }
        }
        assert_eq!(seen, "bcdefghijklmnopqrstuvwxy", "{isolation:?}");
        assert_eq!(keys(txn.iter(&family)), "a", "{isolation:?}");
        assert_eq!(keys(txn.prefix(&family, "a").rev()), "a");
    }
}

#[test]
fn an_iterator_reads_at_one_moment() {
    let (_dir, db) = store();
    let family = letters(&db, "ace");
    let rows = family.iter();
    family.put("b", "").expect("puts");
    family.delete("e").expect("deletes");
    db.flush().expect("flushes");
    family.compact().expect("compacts");
    assert_eq!(keys(rows), "ace", "made before the changes, stepped after them");
    assert_eq!(keys(family.iter()), "abc");
    family.verify().expect("is whole");
}

#[test]
fn read_committed_sees_what_was_committed_between_its_operations() {
    let (_dir, db) = store();
    let family = letters(&db, "a");
    let committed = TransactionOptions { isolation: Isolation::ReadCommitted, ..Default::default() };
    let txn = db.begin_with(committed).expect("begins");
    assert_eq!(txn.get(&family, "a").expect("gets").as_deref(), Some(&b"aa"[..]));
    family.put("a", "new").expect("puts");
    assert_eq!(txn.get(&family, "a").expect("gets").as_deref(), Some(&b"new"[..]));
}

#[test]
fn several_keys_are_read_by_one_call() {
    let (_dir, db) = store();
    let family = letters(&db, "abc");
    let texts = |values: Vec<Option<Vec<u8>>>| -> Vec<String> {
        values.into_iter().map(|value| String::from_utf8(value.unwrap_or_default()).expect("text")).collect()
    };
    assert_eq!(texts(family.get_many(&["c", "x", "a", "c"]).expect("reads")), ["cc", "", "aa", "cc"]);
    let txn = db.begin().expect("begins");
    assert_eq!(texts(txn.get_many(&family, &["b"]).expect("reads")), ["bb"]);
    txn.put(&family, "x", "own").expect("puts");
    txn.delete(&family, "c").expect("deletes");
    family.put("a", "later").expect("puts");
    assert_eq!(texts(txn.get_many(&family, &["x", "c", "b", "a"]).expect("reads")), ["own", "", "bb", "aa"]);
    txn.rollback().expect("rolls back");
    assert_eq!(texts(family.get_many(&["x", "a"]).expect("reads")), ["", "later"]);
    let none: [&str; 0] = [];
    assert_eq!(family.get_many(&none).expect("reads"), Vec::<Option<Vec<u8>>>::new());
}

#[test]
fn serializable_reads_keep_writers_out() {
    let (_dir, db) = store();
    let family = letters(&db, "ac");
    let serializable = TransactionOptions { isolation: Isolation::Serializable, ..Default::default() };
    let reader = db.begin_with(serializable).expect("begins");
    assert_eq!(keys(reader.range(&family, "a".."d")), "ac");
    let writer = db.begin().expect("begins");
    writer.set_lock_timeout(Some(Duration::from_millis(20)));
    assert!(matches!(writer.put(&family, "b", ""), Err(Error::LockTimeout)), "the gap is kept free");
    reader.commit().expect("commits");
    writer.put(&family, "b", "").expect("puts");
}

#[test]
fn families_are_made_found_renamed_and_dropped() {
    let (_dir, db) = store();
    assert!(db.find_family("fruit").expect("looks").is_none());
    let fruit = db.family("fruit").expect("makes");
    fruit.put("apple", "red").expect("puts");
    db.rename_family("fruit", "food").expect("renames");
    assert_eq!(fruit.name(), b"food");
    assert_eq!(fruit.get("apple").expect("gets").as_deref(), Some(&b"red"[..]));
    db.family("stone").expect("makes");
    assert_eq!(db.family_names(), [b"food".to_vec(), b"stone".to_vec()]);
    db.drop_family("food").expect("drops");
    assert!(matches!(fruit.get("apple"), Err(Error::NoSuchFamily(_))));
    assert!(matches!(fruit.put("apple", ""), Err(Error::NoSuchFamily(_))));
    assert!(matches!(fruit.iter().next(), Some(Err(Error::NoSuchFamily(_)))));
    assert!(matches!(db.family(""), Err(Error::InvalidArgument(_))));
}

#[test]
fn two_stores_are_kept_apart() {
    let ((_one, db), (_two, other)) = (store(), store());
    let family = letters(&other, "a");
    let txn = db.begin().expect("begins");
    assert!(matches!(txn.get(&family, "a"), Err(Error::InvalidArgument(_))));
    assert!(matches!(txn.put(&family, "a", ""), Err(Error::InvalidArgument(_))));
    assert!(matches!(txn.iter(&family).next(), Some(Err(Error::InvalidArgument(_)))));
    txn.commit().expect("commits nothing");
}

#[test]
fn a_store_is_closed_when_nothing_is_open_in_it() {
    let (dir, db) = store();
    let family = letters(&db, "a");
    let txn = db.begin().expect("begins");
    let message = db.clone().close().expect_err("a transaction is open").to_string();
    assert!(message.starts_with("1 transactions or iterators are open"), "{message}");
    drop(txn);
    let rows = family.iter();
    assert!(matches!(db.clone().close(), Err(Error::Busy(_))), "an iterator is open");
    drop(rows);
    family.put("b", "").expect("the store is still open");
    db.clone().close().expect("closes");
    for result in
        [family.put("c", ""), family.get("a").map(drop), db.begin().map(drop), db.flush(), db.sync()]
    {
        assert!(
            matches!(&result, Err(Error::InvalidArgument(why)) if why == "the store is closed"),
            "{result:?}"
        );
    }
    assert!(family.iter().next().expect("an item").is_err());
    assert!(matches!(Db::open(dir.path(), options()), Err(Error::Busy(_))), "a handle is left");
    drop((family, db));
    let db = Db::open(dir.path(), options()).expect("opens again");
    assert_eq!(keys(db.family("letters").expect("opens").iter()), "ab");
}

#[test]
fn closing_from_two_threads_has_one_answer() {
    let (_dir, db) = store();
    let txn = db.begin().expect("begins");
    let close_often = || (0..2000).all(|_| matches!(db.clone().close(), Err(Error::Busy(_))));
    std::thread::scope(|scope| {
        let other = scope.spawn(close_often);
        let readers = scope.spawn(|| (0..2000).all(|_| db.find_family("none").is_ok() && db.begin().is_ok()));
        assert!(close_often(), "a transaction is open");
        assert!(readers.join().expect("no panic"), "a refused closing disturbs nobody");
        assert!(other.join().expect("no panic"), "a transaction is open for the other thread too");
    });
    txn.rollback().expect("rolls back");
    db.close().expect("closes");
}

#[test]
fn a_backup_becomes_a_store() {
    let (_dir, db) = store();
    letters(&db, "abc");
    let place = tempfile::tempdir().expect("directory");
    let (copy, store) = (place.path().join("copy"), place.path().join("store"));
    db.backup(&copy).expect("copies");
    db.family("letters").expect("opens").put("d", "").expect("puts");
    Db::restore(&copy, &store).expect("restores");
    let restored = Db::open(&store, options()).expect("opens");
    assert_eq!(keys(restored.family("letters").expect("opens").iter()), "abc");
}

#[test]
fn keys_expire() {
    let (_dir, db) = store();
    let family = db.family("short").expect("makes");
    family.put_expiring("gone", "", 1).expect("puts");
    family.put_expiring("there", "", u64::from(u32::MAX)).expect("puts");
    assert_eq!(keys(family.iter()), "there");
    assert_eq!(family.get("gone").expect("gets"), None);
}

#[test]
fn many_threads_use_one_store() {
    let (_dir, db) = store();
    let (counters, moved) = (db.family("counters").expect("makes"), db.family("moved").expect("makes"));
    counters.put("n", 0u64.to_be_bytes()).expect("puts");
    let (threads, rounds) = (4u64, 50u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (db, counters, moved) = (&db, &counters, &moved);
            scope.spawn(move || {
                for round in 0..rounds {
                    moved.put([thread as u8, round as u8], "").expect("puts");
                    let txn = db.begin().expect("begins");
                    let old = txn.get_for_update(counters, "n").expect("locks").expect("is there");
                    let old = u64::from_be_bytes(old.try_into().expect("eight bytes"));
                    txn.put(counters, "n", (old + 1).to_be_bytes()).expect("puts");
                    txn.commit().expect("commits");
                }
            });
        }
    });
    let sum = counters.get("n").expect("gets").expect("is there");
    assert_eq!(u64::from_be_bytes(sum.try_into().expect("eight bytes")), threads * rounds);
    assert_eq!(moved.iter().count() as u64, threads * rounds);
}

#[test]
fn handles_cross_threads() {
    fn any_thread<T: Send + Sync + 'static>() {}
    fn one_thread<T: Send + 'static>() {}
    any_thread::<Db>();
    any_thread::<Family>();
    one_thread::<tidesdb::Transaction>();
    one_thread::<tidesdb::Iter>();
}
