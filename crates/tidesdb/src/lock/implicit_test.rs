//! Locks without entries. Scripts as in `test_script`; random programs with them are in `stress_test` and
//! `implicit_random_test`.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;

use super::test_script::check;
use super::*;
use crate::error::{Error, Result};
use crate::host::SystemClock;
use crate::sync::Mutex;

/// Stands for the keys in files.
pub(super) struct Keys(pub(super) BTreeSet<Vec<u8>>);

impl LockedKeys for Keys {
    fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.contains(key))
    }

    fn first_in(&self, from: &[u8], to: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let first = self.0.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).next();
        Ok(first.filter(|key| to.is_none_or(|to| key.as_slice() < to)).cloned())
    }
}

/// Unreadable keys.
struct Unreadable;

impl LockedKeys for Unreadable {
    fn contains(&self, _: &[u8]) -> Result<bool> {
        Err(Error::corruption("7.tdb", 0, "a damaged block"))
    }

    fn first_in(&self, _: &[u8], _: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        Err(Error::corruption("7.tdb", 0, "a damaged block"))
    }
}

#[test]
fn they_keep_others_out_as_entries_do() {
    check(
        "t1 lock a X
         t1 lock b X
         t1 lock c S
         t1 store a b
         show
         t1 holds
         t2 lock a X nowait
         t2 lock a S skip
         t2 locked a S
         t2 lock x X
         t2 intent b
         show
         t1 unlock_all
         t2 lock a X nowait",
        expect![[r#"
            t1 lock a X: new
            t1 lock b X: new
            t1 lock c S: new
            t1 store a b
            show
            1/table  t1:IX
            1/c      t1:S
            t1 holds: true
            t2 lock a X nowait: TIMEOUT
            t2 lock a S skip: skipped
            t2 locked a S: true
            t2 lock x X: new
            t2 intent b: DEADLOCK
            show
            1/table  t1:IX t2:IX
            1/c      t1:S
            1/x      t2:X
            t1 unlock_all
            t2 lock a X nowait: new
        "#]],
    );
}

#[test]
fn who_waits_for_one_gets_it_at_the_end() {
    check(
        "t1 lock a X
         t1 store a
         t2 lock a S wait
         t3 lock a X wait=100
         heard
         show
         advance 100
         t1 unlock_all
         show",
        expect![[r#"
            t1 lock a X: new
            t1 store a
            t2 lock a S wait: waits
            t3 lock a X wait=100: waits
            heard: ["t2 for [100]", "t3 for [100, 200]"]
            show
            1/table  t1:IX t2:IS t3:IX
            1/a      t1:X | t2:S t3:X
            advance 100
                t3: TIMEOUT
            t1 unlock_all
                t2: new
            show
            1/table  t3:IX t2:IS
            1/a      t2:S
        "#]],
    );
}

#[test]
fn an_entry_that_somebody_waits_for_stays() {
    check(
        "t1 lock a X
         t1 lock b X
         t2 lock a X
         t1 store a b
         show
         t1 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t1 lock b X: new
            t2 lock a X: waits
            t1 store a b
            show
            1/table  t1:IX t2:IX
            1/a      t1:X | t2:X
            t1 unlock_all
                t2: new
        "#]],
    );
}

#[test]
fn its_owner_meets_no_lock_of_its_own() {
    check(
        "t1 lock a X
         t1 lock b X
         t1 store a b
         t1 lock a S
         t2 lock a S nowait
         t1 unlock a S
         t1 lock a X
         t1 unlock a X
         t2 lock a S skip
         t2 range . . wait=10
         t1 lock b X
         advance 10
         t1 store a b
         show
         t1 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t1 lock b X: new
            t1 store a b
            t1 lock a S: new
            t2 lock a S nowait: TIMEOUT
            t1 unlock a S
            t1 lock a X: new
            t1 unlock a X
            t2 lock a S skip: skipped
            t2 range . . wait=10: waits
            t1 lock b X: held
            advance 10
                t2: TIMEOUT
            t1 store a b
            show
            1/table  t1:IX t2:IS
            1/[,..) t2
            1/a      t1:X
            1/b      t1:X
            t1 unlock_all
        "#]],
    );
}

#[test]
fn they_are_found_in_deadlocks() {
    check(
        "t1 lock a X
         t1 store a
         t1 written 9
         t2 lock b X
         t2 store b
         t2 written 3
         t2 lock a X
         t1 lock b X
         t2 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t1 store a
            t1 written 9
            t2 lock b X: new
            t2 store b
            t2 written 3
            t2 lock a X: waits
            t1 lock b X: waits
                t2: DEADLOCK
            t2 unlock_all
                t1: new
        "#]],
    );
}

#[test]
fn ranges_wait_for_those_in_them_and_for_no_others() {
    check(
        "t1 lock b X
         t1 lock f X
         t1 store b f
         t2 range c f
         t2 range a c nowait
         t2 range a c
         t1 lock d X nowait
         t1 unlock_all
         t3 lock b X nowait",
        expect![[r#"
            t1 lock b X: new
            t1 lock f X: new
            t1 store b f
            t2 range c f: free
            t2 range a c nowait: TIMEOUT
            t2 range a c: waits
            t1 lock d X nowait: TIMEOUT
            t1 unlock_all
                t2: free
            t3 lock b X nowait: TIMEOUT
        "#]],
    );
}

#[test]
fn the_gap_of_a_missing_key_is_cut_at_them() {
    check(
        "t1 lock c X
         t1 lock k X
         t1 store c k
         t2 lock f X
         t2 gap f a m
         show
         t3 lock d X nowait
         t3 lock g X nowait
         t3 lock l X nowait",
        expect![[r#"
            t1 lock c X: new
            t1 lock k X: new
            t1 store c k
            t2 lock f X: new
            t2 gap f a m
            show
            1/table  t1:IX t2:IX
            1/[f,k) t2
            1/f      t2:X
            t3 lock d X nowait: new
            t3 lock g X nowait: TIMEOUT
            t3 lock l X nowait: new
        "#]],
    );
}

#[test]
fn of_appliers_whose_order_is_fixed_ranges_do_not_wait_for_them() {
    check(
        "t1 applier
         t3 applier
         t1 lock b X
         t1 store b
         t3 range a c nowait
         t2 range a c nowait",
        expect![[r#"
            t1 applier
            t3 applier
            t1 lock b X: new
            t1 store b
            t3 range a c nowait: free
            t2 range a c nowait: TIMEOUT
        "#]],
    );
}

#[test]
fn an_unconfirmed_implicit_lock_waits_for_whom_it_finds_and_counts_where_nobody_is() {
    check(
        "t1 table IX
         t2 lock a S
         t3 range m p
         t1 announce a b n
         t4 lock b X
         t7 lock x X nowait
         t5 lock a S
         t1 confirm a b n
         t2 unlock_all
         t5 unlock_all
         t6 lock a X nowait
         t3 unlock_all
         t6 lock n X nowait
         t1 unlock_all",
        expect![[r#"
            t1 table IX: new
            t2 lock a S: new
            t3 range m p: free
            t1 announce a b n
            t4 lock b X: waits
            t7 lock x X nowait: new
            t5 lock a S: new
            t1 confirm a b n: waits
            t2 unlock_all
            t5 unlock_all
            t6 lock a X nowait: TIMEOUT
            t3 unlock_all
                t1: confirmed
            t6 lock n X nowait: TIMEOUT
            t1 unlock_all
                t4: new
        "#]],
    );
}

/// A search finds the key taken. Before the wait for it, the key becomes free and a third owner makes the
/// entry of the implicit lock.
#[test]
fn the_owner_of_an_unconfirmed_implicit_lock_does_not_wait_for_itself() {
    let locks = LockManager::new(None, Arc::new(SystemClock));
    let (owner, other) = (LockOwner::new(1), LockOwner::new(2));
    let soon = SOON;
    locks.lock_table(&owner, 1, TableMode::IntentExclusive, soon).unwrap();
    locks.announce_implicit(&owner, 1, Arc::new(Keys(BTreeSet::from([b"k".to_vec()]))));
    let met = locks.lock_point(&other, 1, b"k", Mode::Exclusive, soon);
    assert!(matches!(met, Err(Error::LockTimeout)), "{met:?}");

    let family = locks.all_families().into_iter().find(|family| family.family == 1).unwrap();
    let wanted = super::wait::Wanted {
        shard: family.shard_of_key(b"k"),
        locks: &family,
        key: b"k",
        mode: Mode::Exclusive.into(),
        intent: false,
        looked: Some(family.implicit.change_count()),
    };
    let got = locks.wait(&owner, wanted, Policy::Wait(Some(std::time::Duration::from_secs(5)))).unwrap();
    assert!(matches!(got, Some((_, false))), "it has the key and waited for it");
    assert_eq!(locks.stats().waiting, 0);
    locks.unlock_all(&owner);
    assert!(locks.lock_point(&other, 1, b"k", Mode::Exclusive, soon).unwrap().is_some());
    locks.unlock_all(&other);
    assert_eq!(locks.stats().held, 0);
}

/// Keys as the function says.
struct Asking<F: Fn() -> bool + Send + Sync>(F);

impl<F: Fn() -> bool + Send + Sync> LockedKeys for Asking<F> {
    fn contains(&self, _: &[u8]) -> Result<bool> {
        Ok((self.0)())
    }

    fn first_in(&self, _: &[u8], _: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

fn keys(all: &[&[u8]]) -> BTreeSet<Vec<u8>> {
    all.iter().map(|key| key.to_vec()).collect()
}

const SOON: Policy = Policy::Wait(Some(std::time::Duration::from_millis(1)));
const LATE: Policy = Policy::Wait(Some(std::time::Duration::from_secs(20)));

/// A gap lock keeps an unconfirmed implicit lock's owner out of a key, and an insertion too. The insertion is
/// granted the key after the gap lock. All of it follows the owner's first look at the key.
#[test]
fn an_unconfirmed_implicit_lock_looks_again_when_it_was_contested() {
    let locks = LockManager::new(None, Arc::new(SystemClock));
    let (owner, other, ranger) = (LockOwner::new(1), LockOwner::new(2), LockOwner::new(3));
    locks.lock_range(&ranger, 1, b"a", Some(b"m"), SOON).unwrap();
    locks.lock_table(&owner, 1, TableMode::IntentExclusive, SOON).unwrap();
    locks.announce_implicit(&owner, 1, Arc::new(Keys(keys(&[b"k", b"z"]))));
    let fresh: [&[u8]; 2] = [b"k", b"z"];
    let confirmed = std::thread::scope(|scope| {
        let (inserting, hooked) = (Mutex::new(None), AtomicBool::new(false));
        let behind_the_first = |key: &&[u8]| {
            if *key != b"z" || hooked.swap(true, SeqCst) {
                return;
            }
            let got = scope.spawn(|| locks.lock_point(&other, 1, b"k", Mode::Exclusive, LATE));
            while locks.stats().waiting == 0 {
                std::thread::yield_now();
            }
            locks.unlock_all(&ranger);
            *inserting.lock() = Some(got);
        };
        let all = || fresh.iter().copied().inspect(&behind_the_first);
        let confirmed = locks.confirm(&owner, 1, all, SOON);
        let inserting = inserting.lock().take().expect("the second key was looked at");
        assert!(inserting.join().unwrap().unwrap().is_some());
        confirmed
    });
    assert!(matches!(confirmed, Err(Error::LockTimeout)), "{confirmed:?}: both have the key");
    for owner in [&owner, &other, &ranger] {
        locks.unlock_all(owner);
    }
    assert_eq!(locks.stats().held, 0);
}

/// As before, with an insertion already waiting for the gap lock when the implicit lock is made.
#[test]
fn an_unconfirmed_implicit_lock_sees_who_waited_before_it() {
    let locks = LockManager::new(None, Arc::new(SystemClock));
    let (owner, other, ranger) = (LockOwner::new(1), LockOwner::new(2), LockOwner::new(3));
    locks.lock_range(&ranger, 1, b"a", Some(b"m"), SOON).unwrap();
    locks.lock_table(&owner, 1, TableMode::IntentExclusive, SOON).unwrap();
    let fresh: [&[u8]; 2] = [b"k", b"z"];
    let confirmed = std::thread::scope(|scope| {
        let inserting = scope.spawn(|| locks.lock_point(&other, 1, b"k", Mode::Exclusive, LATE));
        while locks.stats().waiting == 0 {
            std::thread::yield_now();
        }
        locks.announce_implicit(&owner, 1, Arc::new(Keys(keys(&fresh))));
        let range_ends_behind_the_first = || {
            fresh.iter().copied().inspect(|key| {
                if *key == b"z" {
                    locks.unlock_all(&ranger);
                }
            })
        };
        let confirmed = locks.confirm(&owner, 1, range_ends_behind_the_first, SOON);
        locks.unlock_all(&ranger);
        assert!(inserting.join().unwrap().unwrap().is_some());
        confirmed
    });
    assert!(matches!(confirmed, Err(Error::LockTimeout)), "{confirmed:?}: both have the key");
    for owner in [&owner, &other, &ranger] {
        locks.unlock_all(owner);
    }
    assert_eq!(locks.stats().held, 0);
}

/// An insertion finds an unconfirmed implicit lock while a gap lock keeps its owner out. Before it asks for
/// the key, the gap lock goes and the implicit lock is confirmed.
#[test]
fn what_a_look_at_implicit_locks_found_does_not_outlive_the_range_behind_it() {
    let locks = Arc::new(LockManager::new(None, Arc::new(SystemClock)));
    let (owner, second, other) = (LockOwner::new(1), LockOwner::new(2), LockOwner::new(3));
    let ranger = LockOwner::new(4);
    locks.lock_range(&ranger, 1, b"a", Some(b"m"), SOON).unwrap();
    for owner in [&owner, &second] {
        locks.lock_table(owner, 1, TableMode::IntentExclusive, SOON).unwrap();
    }
    locks.announce_implicit(&owner, 1, Arc::new(Keys(keys(&[b"k"]))));
    // The insertion finds the key in a second implicit lock, once, and asks that one whether it is locked when it is
    // done with the first.
    let (all, of, gone) = (Arc::clone(&locks), owner.clone(), ranger.clone());
    let asks = AtomicU64::new(0);
    let asked = Asking(move || {
        if asks.fetch_add(1, SeqCst) != 1 {
            return false; // For their order.
        }
        all.unlock_all(&gone);
        all.confirm(&of, 1, || [&b"k"[..]].into_iter(), SOON).unwrap();
        false
    });
    let looks = AtomicU64::new(0);
    let found = Asking(move || looks.fetch_add(1, SeqCst) == 0);
    locks.lock_implicitly(&second, 1, Arc::new(asked));
    locks.announce_implicit(&second, 1, Arc::new(found));

    let got = locks.lock_point(&other, 1, b"k", Mode::Exclusive, SOON);
    assert!(matches!(got, Err(Error::LockTimeout)), "{got:?}: both have the key");
    for owner in [&owner, &second, &other, &ranger] {
        locks.unlock_all(owner);
    }
    assert_eq!(locks.stats().held, 0);
}

/// One owner finds an unconfirmed lock while a third has the key and keeps the lock's owner out, as a gap
/// lock does. The third goes, the owner finds the key free, and then the searching one is granted the key.
#[test]
fn what_a_look_at_implicit_locks_found_does_not_outlive_the_holder_behind_it() {
    let locks = LockManager::new(None, Arc::new(SystemClock));
    let (owner, second, other, holder) =
        (LockOwner::new(1), LockOwner::new(2), LockOwner::new(3), LockOwner::new(4));
    locks.lock_point(&holder, 1, b"k", Mode::Shared, SOON).unwrap();
    for owner in [&owner, &second] {
        locks.lock_table(owner, 1, TableMode::IntentExclusive, SOON).unwrap();
    }
    locks.announce_implicit(&owner, 1, Arc::new(Keys(keys(&[b"k", b"z"]))));
    // As above: between the look at the first implicit lock and the request.
    let (looked, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (say, wait) = (Arc::clone(&looked), Arc::clone(&goes_on));
    let asks = AtomicU64::new(0);
    let asked = Asking(move || {
        if asks.fetch_add(1, SeqCst) != 1 {
            return false; // For their order.
        }
        say.store(true, SeqCst);
        while !wait.load(SeqCst) {
            std::thread::yield_now();
        }
        false
    });
    let looks = AtomicU64::new(0);
    let found = Asking(move || looks.fetch_add(1, SeqCst) == 0);
    locks.lock_implicitly(&second, 1, Arc::new(asked));
    locks.announce_implicit(&second, 1, Arc::new(found));

    let fresh: [&[u8]; 2] = [b"k", b"z"];
    let (confirmed, got) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| locks.lock_point(&other, 1, b"k", Mode::Exclusive, SOON));
        while !looked.load(SeqCst) {
            std::thread::yield_now();
        }
        locks.unlock_all(&holder);
        locks.unlock_all(&second);
        let reading = Mutex::new(Some(reading));
        let got = Mutex::new(None);
        let behind_the_first = |key: &&[u8]| {
            if let Some(reading) = reading.lock().take_if(|_| *key == b"z") {
                goes_on.store(true, SeqCst);
                *got.lock() = Some(reading.join().unwrap());
            }
        };
        let confirmed = locks.confirm(&owner, 1, || fresh.iter().copied().inspect(&behind_the_first), SOON);
        (confirmed, got.into_inner().expect("the second key was looked at"))
    });
    let both = confirmed.is_ok() && matches!(got, Ok(Some(_)));
    assert!(!both, "{confirmed:?}, {got:?}: both have the key");
    locks.unlock_all(&owner);
    locks.unlock_all(&other);
    assert_eq!(locks.stats().held, 0);
}

/// A key in an unconfirmed lock and in a confirmed one without its entry: a search of both makes this entry
/// again.
#[test]
fn an_unconfirmed_lock_does_not_get_what_another_has_implicitly() {
    check(
        "t1 table IX
         t2 lock k X
         t1 announce k z
         t2 store k
         t3 lock k X wait=100
         show
         t1 confirm k z
         advance 100
         t2 unlock_all
         t1 unlock_all",
        expect![[r#"
            t1 table IX: new
            t2 lock k X: new
            t1 announce k z
            t2 store k
            t3 lock k X wait=100: waits
            show
            1/table  t1:IX t2:IX t3:IX
            1/k      t2:X | t3:X
            t1 confirm k z: waits
            advance 100
                t3: TIMEOUT
            t2 unlock_all
                t1: confirmed
            t1 unlock_all
        "#]],
    );
}

/// As before, with a search by the owner of the confirmed one itself: for a lock, and for a gap lock.
#[test]
fn an_unconfirmed_lock_does_not_get_what_the_owner_that_looks_has_implicitly() {
    check(
        "t1 table IX
         t2 lock k X
         t1 announce k
         t2 store k
         t2 lock k S
         t2 lock k X nowait
         t2 range a z nowait
         t1 confirm k
         t2 unlock_all
         t1 unlock_all",
        expect![[r#"
            t1 table IX: new
            t2 lock k X: new
            t1 announce k
            t2 store k
            t2 lock k S: held
            t2 lock k X nowait: held
            t2 range a z nowait: free
            t1 confirm k: waits
            t2 unlock_all
                t1: confirmed
            t1 unlock_all
        "#]],
    );
}

#[test]
fn a_range_published_before_an_unconfirmed_implicit_lock_is_confirmed_keeps_it_out() {
    check(
        "t1 table IX
         t1 announce b
         t2 range a c
         t2 range a d nowait
         t1 confirm b
         t2 unlock_all
         t2 range a c nowait
         t1 unlock_all",
        expect![[r#"
            t1 table IX: new
            t1 announce b
            t2 range a c: free
            t2 range a d nowait: free
            t1 confirm b: waits
            t2 unlock_all
                t1: confirmed
            t2 range a c nowait: TIMEOUT
            t1 unlock_all
        "#]],
    );
}

#[test]
fn what_cannot_be_read_is_an_error_and_counts_as_locked() {
    let locks = LockManager::new(None, Arc::new(SystemClock));
    let (a, b) = (LockOwner::new(1), LockOwner::new(2));
    locks.lock_table(&a, 1, TableMode::IntentExclusive, Policy::NoWait).unwrap();
    locks.lock_implicitly(&a, 1, Arc::new(Unreadable));
    let corrupt = |error: Error| assert!(matches!(error, Error::Corruption { .. }), "{error}");
    corrupt(locks.lock_point(&b, 1, b"k", Mode::Shared, Policy::Wait(None)).unwrap_err());
    corrupt(locks.lock_range(&b, 1, b"a", None, Policy::Wait(None)).unwrap_err());
    assert!(locks.is_locked_by_other(&b, 1, b"k", Mode::Shared));
    locks.unlock_all(&a);
    assert!(locks.lock_point(&b, 1, b"k", Mode::Exclusive, Policy::NoWait).is_ok());
    locks.unlock_all(&b);
    assert_eq!(locks.stats().held, 0);
}

#[test]
fn entries_given_back_make_room_for_others() {
    let options = LockOptions { max_locks: 0, max_total: 3000, max_advisory: 0, escalate: true, shards: 2 };
    let locks = LockManager::with_options(None, Arc::new(SystemClock), options);
    let (large, other) = (LockOwner::new(1), LockOwner::new(2));
    locks.lock_point(&other, 1, b"x", Mode::Exclusive, Policy::NoWait).unwrap();
    let mut stored = BTreeSet::new();
    let mut times = 0;
    for i in 0..20_000u32 {
        let key = i.to_be_bytes();
        locks.lock_point(&large, 1, &key, Mode::Exclusive, Policy::NoWait).unwrap();
        stored.insert(key.to_vec());
        if locks.is_scarce(&large) {
            times += 1;
            locks.lock_implicitly(&large, 1, Arc::new(Keys(stored.clone())));
            locks.release_to_implicit(&large, &mut |_, key, _| stored.contains(key));
        }
    }
    let stats = locks.stats();
    assert!(times > 3 && stats.held < 4000 && stats.escalations == 0, "{times}: {stats:?}");
    for key in [0u32, 9_999, 19_999] {
        let got = locks.lock_point(&other, 1, &key.to_be_bytes(), Mode::Shared, Policy::Skip);
        assert_eq!(got.unwrap(), None, "{key}");
    }
    locks.unlock_all(&large);
    locks.unlock_all(&other);
    assert_eq!((locks.stats().held, locks.stats().entries), (0, 0));
}

#[test]
fn memory_of_many_locks_goes_with_them() {
    let options = LockOptions { shards: 2, ..LockOptions::default() };
    let locks = LockManager::with_options(None, Arc::new(SystemClock), options);
    let owner = LockOwner::new(1);
    let lock = |keys: std::ops::Range<u32>| {
        for key in keys {
            locks.lock_point(&owner, 1, &key.to_be_bytes(), Mode::Exclusive, Policy::NoWait).unwrap();
        }
        locks.stats().bytes
    };
    let none = lock(0..0);
    let many = lock(0..50_000);
    locks.unlock_all(&owner);
    let after = locks.stats().bytes;
    assert!(many > 4 << 20 && after < 1 << 20, "{many} bytes with, {after} after");
    // Few ones keep theirs, for the next.
    let few = lock(0..500);
    locks.unlock_all(&owner);
    assert!(locks.stats().bytes >= few);
    assert_eq!((locks.stats().held, locks.stats().entries), (0, 0));
    // Nor do they when nobody locks for a while.
    locks.give_back_idle();
    assert!(locks.stats().bytes >= few, "used a moment ago");
    lock(0..1);
    locks.give_back_idle();
    locks.give_back_idle();
    assert!(lock(0..0) > none, "somebody has a lock");
    locks.unlock_all(&owner);
    locks.give_back_idle();
    assert!(locks.stats().bytes > 10 << 10, "locked a moment ago");
    locks.give_back_idle();
    let left = locks.stats().bytes;
    assert!(left < 10 << 10, "{left} of {few} bytes in an unused table");
}

#[test]
fn memory_of_waits_and_of_many_holders_goes_with_them() {
    let locks = Arc::new(LockManager::new(None, Arc::new(SystemClock)));
    let round = |keys: std::ops::Range<u32>| {
        std::thread::scope(|scope| {
            for thread in 0..20u64 {
                let (locks, keys) = (&locks, keys.clone());
                scope.spawn(move || {
                    let owner = LockOwner::new(thread + 1);
                    for key in keys {
                        for mode in [Mode::Shared, Mode::Exclusive] {
                            let key = key.to_be_bytes();
                            let policy = Policy::Wait(None);
                            locks.lock_point(&owner, 1, &key, mode, policy).unwrap();
                            std::thread::sleep(Duration::from_micros(20));
                            locks.unlock_all(&owner);
                        }
                    }
                });
            }
        });
        (0..2).for_each(|_| locks.give_back_idle());
        locks.stats()
    };
    let (few, many) = (round(0..1), round(0..40));
    assert!(many.waits > 20, "{many:?}");
    assert_eq!((many.bytes, many.held), (few.bytes, 0));
}

#[test]
fn an_owners_list_of_many_locks_goes_with_them() {
    let locks = LockManager::new(None, Arc::new(SystemClock));
    let owner = LockOwner::new(1);
    for key in 0..50_000u32 {
        locks.lock_point(&owner, 1, &key.to_be_bytes(), Mode::Exclusive, Policy::NoWait).unwrap();
    }
    locks.unlock_all(&owner);
    let places = owner.holdings.lock().held.capacity();
    assert!(places <= 4096, "{places} places are kept for a connection that may never need them again");
}
