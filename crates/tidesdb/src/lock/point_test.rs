//! Point locks: the order and length of waits, counts, intents. Scripts (see [`super::test_script`]).

use std::sync::Arc;

use expect_test::expect;

use super::test_script::check;
use super::{LockManager, LockOptions, LockOwner, Mode, Policy};
use crate::error::Error;
use crate::host::SystemClock;

#[test]
fn shared_locks_share_and_exclusive_ones_wait() {
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock a X
         t1 lock b X
         show
         t1 unlock_all
         t2 unlock_all
         show
         heard",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock a X: waits
            t1 lock b X: new
            show
            1/table  t1:IX t2:IS t3:IX
            1/a      t1:S t2:S | t3:X
            1/b      t1:X
            t1 unlock_all
            t2 unlock_all
                t3: new
            show
            1/table  t3:IX
            1/a      t3:X
            heard: ["t3 for [100, 200]", "t3 ended"]
        "#]],
    );
}

#[test]
fn a_reader_does_not_overtake_a_writer_that_waits() {
    check(
        "t1 lock a S
         t2 lock a X
         t3 lock a S
         t4 lock a S
         t5 lock a X
         show
         t6 locked a S
         t6 locked a X
         t1 unlock_all
         t2 unlock_all
         show
         t4 unlock_all
         t3 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock a X: waits
            t3 lock a S: waits
            t4 lock a S: waits
            t5 lock a X: waits
            show
            1/table  t1:IS t2:IX t3:IS t4:IS t5:IX
            1/a      t1:S | t2:X t3:S t4:S t5:X
            t6 locked a S: false
            t6 locked a X: true
            t1 unlock_all
                t2: new
            t2 unlock_all
                t3: new
                t4: new
            show
            1/table  t5:IX t4:IS t3:IS
            1/a      t3:S t4:S | t5:X
            t4 unlock_all
            t3 unlock_all
                t5: new
        "#]],
    );
}

#[test]
fn an_upgrade_goes_before_all_that_wait() {
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock a X
         t1 lock a X
         show
         t2 unlock_all
         show
         t1 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock a X: waits
            t1 lock a X: waits
            show
            1/table  t1:IX t2:IS t3:IX
            1/a      t1:S t2:S | t1:X t3:X
            t2 unlock_all
                t1: new
            show
            1/table  t1:IX t3:IX
            1/a      t1:X | t3:X
            t1 unlock_all
                t3: new
        "#]],
    );
}

#[test]
fn timeouts_nowait_and_skip() {
    check(
        "t1 lock a X
         t2 lock a X nowait
         t2 lock a S skip
         t2 lock a X wait=0
         t2 lock a X wait=100
         t3 lock a X wait=50
         t4 lock a S
         advance 49
         advance 1
         advance 49
         show
         advance 1
         show
         t1 unlock_all
         stats",
        expect![[r#"
            t1 lock a X: new
            t2 lock a X nowait: TIMEOUT
            t2 lock a S skip: skipped
            t2 lock a X wait=0: TIMEOUT
            t2 lock a X wait=100: waits
            t3 lock a X wait=50: waits
            t4 lock a S: waits
            advance 49
            advance 1
                t3: TIMEOUT
            advance 49
            show
            1/table  t1:IX t2:IX t3:IX t4:IS
            1/a      t1:X | t2:X t4:S
            advance 1
                t2: TIMEOUT
            show
            1/table  t1:IX t2:IX t3:IX t4:IS
            1/a      t1:X | t4:S
            t1 unlock_all
                t4: new
            stats: waits 3 deadlocks 0 timeouts 2 kills 0 escalations 0 chain 2 held 4
        "#]],
    );
}

#[test]
fn a_waiter_that_goes_lets_compatible_ones_pass() {
    check(
        "t1 lock a S
         t2 lock a X wait=50
         t3 lock a S
         advance 50
         show",
        expect![[r#"
            t1 lock a S: new
            t2 lock a X wait=50: waits
            t3 lock a S: waits
            advance 50
                t2: TIMEOUT
                t3: new
            show
            1/table  t1:IS t2:IX t3:IS
            1/a      t1:S t3:S
        "#]],
    );
}

#[test]
fn kill_ends_a_wait_and_stays() {
    check(
        "t1 lock a X
         t2 lock a X
         t2 kill
         t2 lock a X
         t2 lock b X
         t2 clear_kill
         t2 lock a X wait=10
         advance 10
         heard
         stats",
        expect![[r#"
            t1 lock a X: new
            t2 lock a X: waits
            t2 kill
                t2: KILLED
            t2 lock a X: KILLED
            t2 lock b X: new
            t2 clear_kill
            t2 lock a X wait=10: waits
            advance 10
                t2: TIMEOUT
            heard: ["t2 for [100]", "t2 ended", "t2 for [100]", "t2 ended"]
            stats: waits 2 deadlocks 0 timeouts 1 kills 1 escalations 0 chain 0 held 4
        "#]],
    );
}

#[test]
fn locks_are_counted() {
    check(
        "t1 lock a S
         t1 lock a X
         show
         t2 lock a S
         t1 unlock a X
         show
         t1 unlock a S
         show
         t1 lock b X
         t1 lock b S
         t1 unlock b X
         show
         t1 unlock b S
         t1 unlock b S
         t1 lock c X
         t1 lock c X
         t1 unlock c X
         show",
        expect![[r#"
            t1 lock a S: new
            t1 lock a X: new
            show
            1/table  t1:IX
            1/a      t1:X
            t2 lock a S: waits
            t1 unlock a X
                t2: new
            show
            1/table  t1:IX t2:IS
            1/a      t1:S t2:S
            t1 unlock a S
            show
            1/table  t1:IX t2:IS
            1/a      t2:S
            t1 lock b X: new
            t1 lock b S: held
            t1 unlock b X
            show
            1/table  t1:IX t2:IS
            1/a      t2:S
            1/b      t1:S
            t1 unlock b S
            t1 unlock b S
            t1 lock c X: new
            t1 lock c X: held
            t1 unlock c X
            show
            1/table  t1:IX t2:IS
            1/a      t2:S
            1/c      t1:X
        "#]],
    );
}

#[test]
fn intents_wait_only_for_owners_without_anything() {
    check(
        "t1 intent a
         t2 intent a
         t3 intent b
         t3 holds
         t3 intent a
         t3 unlock_all
         t4 table IX
         t4 holds
         t4 intent a skip
         t5 lock a X
         show
         t1 unlock_all
         t2 unlock_all
         t2 holds
         t1 intent a wait=5
         advance 5",
        expect![[r#"
            t1 intent a: new
            t2 intent a: waits
            t3 intent b: new
            t3 holds: true
            t3 intent a: DEADLOCK
            t3 unlock_all
            t4 table IX: new
            t4 holds: false
            t4 intent a skip: skipped
            t5 lock a X: waits
            show
            1/table  t1:IX t2:IX t4:IX t5:IX
            1/a      t1:X* | t2:X* t5:X
            t1 unlock_all
                t2: new
            t2 unlock_all
                t5: new
            t2 holds: false
            t1 intent a wait=5: waits
            advance 5
                t1: TIMEOUT
        "#]],
    );
}

/// Ten thousand tables with a row each: idle ones free their memory, and held locks stay.
#[test]
fn families_in_which_nothing_is_locked_give_their_memory_back() {
    let options = LockOptions { shards: 4, ..LockOptions::default() };
    let locks = LockManager::with_options(None, Arc::new(SystemClock), options);
    let (owner, other) = (LockOwner::new(1), LockOwner::new(2));
    let take = |owner: &Arc<LockOwner>, family| {
        locks
            .lock_point(owner, family, b"k", Mode::Exclusive, Policy::NoWait)
            .map(|granted| granted.is_some())
    };
    for family in 1..1000 {
        assert!(take(&owner, family).expect("nobody has it"));
        locks.unlock_all(&owner);
    }
    assert!(take(&owner, 1000).expect("nobody has it"));
    let used = locks.stats().bytes;
    locks.give_back_idle();
    assert_eq!(locks.stats().bytes, used, "they were in use a moment ago");
    assert!(take(&other, 7).expect("nobody has it"));
    locks.unlock_all(&other);
    locks.give_back_idle();
    let left = locks.stats().bytes;
    assert!(left * 5 < used * 3, "{left} of {used}");
    assert!(left < 1200 * 1000, "{left} bytes of a thousand families");
    assert!(matches!(take(&other, 1000), Err(Error::LockTimeout)), "it is held");
    locks.unlock_all(&owner);
    assert!(take(&other, 1000).expect("nobody has it"));
    assert!(take(&other, 8).expect("nobody has it"));
    locks.unlock_all(&other);
    locks.check();
}
