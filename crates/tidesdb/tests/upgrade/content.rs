//! The content of a fixture's store, and its comparison with the content found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::{Error, FamilyOptions};

use super::sim::{self, begin};

/// Keys and values.
pub(super) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A family: its definition and its content.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) options: FamilyOptions,
    pub(super) record: Vec<u8>,
    pub(super) rows: Rows,
    /// The least next value of each counter.
    pub(super) counters: BTreeMap<u32, u64>,
}

/// A transaction waiting for its decision.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) xid: &'static str,
    pub(super) commit: bool,
    pub(super) puts: Vec<(&'static str, Vec<u8>, Vec<u8>)>,
    pub(super) deletes: Vec<(&'static str, Vec<u8>)>,
}

impl Prepared {
    fn keys(&self) -> impl Iterator<Item = (&'static str, &Vec<u8>)> {
        let puts = self.puts.iter().map(|(family, key, _)| (*family, key));
        puts.chain(self.deletes.iter().map(|(family, key)| (*family, key)))
    }
}

/// The content of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) families: BTreeMap<&'static str, Family>,
    pub(super) prepared: Vec<Prepared>,
}

impl Content {
    /// All content is readable and unchanged; prepared transactions keep others out.
    pub(super) fn compare(&self, db: &Db) {
        let names: BTreeSet<Vec<u8>> = db.family_names(b"").iter().map(|name| name.to_vec()).collect();
        let expected: BTreeSet<Vec<u8>> = self.families.keys().map(|name| name.as_bytes().to_vec()).collect();
        assert_eq!(names, expected, "the families");
        for (name, expected) in &self.families {
            let family = db.family(name.as_bytes()).expect("there");
            db.verify(&family).unwrap_or_else(|error| panic!("{name} does not verify: {error}"));
            assert_eq!(*family.options(), expected.options, "options of {name}");
            assert_eq!(&family.record()[..], expected.record, "record of {name}");
            let rows: Rows = sim::rows(db, &family).expect("reads").into_iter().collect();
            assert_eq!(rows.len(), expected.rows.len(), "rows of {name}");
            for (key, value) in &expected.rows {
                assert!(rows.get(key) == Some(value), "{name}: {}", key.escape_ascii());
            }
            for (counter, least) in &expected.counters {
                let next = db.counter_peek(&family, *counter).expect("peeks");
                assert!(next >= *least, "counter {counter} of {name} gives {next}, and gave {least} before");
            }
        }
        let found: BTreeSet<Vec<u8>> = db.prepared().into_iter().collect();
        let expected: BTreeSet<Vec<u8>> = self.prepared.iter().map(|p| p.xid.as_bytes().to_vec()).collect();
        assert_eq!(found, expected, "prepared transactions");
        for prepared in &self.prepared {
            for (name, key) in prepared.keys().step_by(50) {
                let mut txn = begin(db);
                txn.set_lock_timeout(Some(Duration::ZERO));
                let refused = txn.put(&db.family(name.as_bytes()).expect("there"), key, b"another's");
                assert!(
                    matches!(refused, Err(Error::LockTimeout)),
                    "{} in {name}: {refused:?}",
                    prepared.xid
                );
            }
        }
    }

    /// Every family is counted, and right.
    pub(super) fn compare_counts(&self, db: &Db) {
        for (name, content) in &self.families {
            let stats = db.family_stats(&db.family(name.as_bytes()).expect("there")).expect("there");
            assert_eq!(
                (stats.counted, stats.entries),
                (true, content.rows.len() as u64),
                "{name}: {stats:?}"
            );
        }
    }

    /// The counted families.
    pub(super) fn counted(&self, db: &Db) -> BTreeSet<&'static str> {
        let counted = |name: &str| {
            let family = db.family(name.as_bytes()).expect("there");
            db.family_stats(&family).expect("there").counted
        };
        self.families.keys().copied().filter(|name| counted(name)).collect()
    }

    /// Decides the prepared transactions.
    pub(super) fn decide(&mut self, db: &Db) {
        for prepared in std::mem::take(&mut self.prepared) {
            let xid = prepared.xid.as_bytes();
            let known = match prepared.commit {
                true => db.commit_by_xid(xid),
                false => db.rollback_by_xid(xid),
            };
            assert!(known.expect("decides"), "{} is known", prepared.xid);
            if prepared.commit {
                for (family, key, value) in prepared.puts {
                    self.rows(family).insert(key, value);
                }
                for (family, key) in prepared.deletes {
                    self.rows(family).remove(&key);
                }
            }
        }
    }

    /// Changes every family, by commits of all kinds and by definitions, and merges it.
    pub(super) fn go_on(&mut self, db: &Db) {
        for (name, content) in &mut self.families {
            let family = db.family(name.as_bytes()).expect("there");
            let old: Vec<Vec<u8>> = content.rows.keys().step_by(3).cloned().collect();
            let mut txn = begin(db);
            for (n, key) in old.iter().enumerate() {
                let value = format!("written by a later build {n}").into_bytes();
                if n % 2 == 0 {
                    txn.update(&family, key, &value).expect("puts");
                    content.rows.insert(key.clone(), value);
                } else {
                    txn.delete(&family, key).expect("deletes");
                    content.rows.remove(key);
                }
            }
            txn.insert(&family, b"new", name.as_bytes()).expect("inserts");
            content.rows.insert(b"new".to_vec(), name.as_bytes().to_vec());
            txn.commit().expect("commits");
            let taken = db.counter_take(&family, 0, 7, 1, 1, u64::MAX).expect("takes");
            let least = content.counters.entry(0).or_insert(1);
            assert!(taken >= *least, "{taken} was handed out before: {least}");
            *least = taken + 7;
        }
        db.flush().expect("flushes");
        for name in self.families.keys() {
            db.compact(&db.family(name.as_bytes()).expect("there")).expect("merges");
        }
        let options = FamilyOptions::default();
        db.create_family(b"made later", options.clone()).expect("creates");
        let made = Family { options, record: Vec::new(), rows: Rows::new(), counters: BTreeMap::new() };
        self.families.insert("made later", made);
    }

    pub(super) fn rows(&mut self, family: &str) -> &mut Rows {
        &mut self.families.get_mut(family).expect("a family of the content").rows
    }
}
