//! Gap locks. Scripts (see [`super::test_script`]).

use std::sync::Arc;

use expect_test::expect;

use super::test_script::{check, check_with};
use super::*;
use crate::error::Error;
use crate::host::SystemClock;

#[test]
fn a_range_keeps_others_from_insertions_and_not_its_owner() {
    check(
        "t1 range b d
         t1 lock b X
         t2 lock a X
         t2 lock c S
         t2 lock d X
         t3 lock c X
         t4 lock cc X nowait
         t4 lock cc X skip
         t4 locked cc X
         t4 locked cc S
         show
         t2 unlock_all
         t1 unlock_all
         show",
        expect![[r#"
            t1 range b d: free
            t1 lock b X: new
            t2 lock a X: new
            t2 lock c S: new
            t2 lock d X: new
            t3 lock c X: waits
            t4 lock cc X nowait: TIMEOUT
            t4 lock cc X skip: skipped
            t4 locked cc X: true
            t4 locked cc S: false
            show
            1/table  t1:IX t2:IX t3:IX t4:IX
            1/a      t2:X
            1/[b,d) t1
            1/b      t1:X
            1/c      t2:S | t3:X
            1/d      t2:X
            t2 unlock_all
            t1 unlock_all
                t3: new
            show
            1/table  t3:IX t4:IX
            1/c      t3:X
        "#]],
    );
}

#[test]
fn ranges_do_not_conflict_and_grow() {
    check(
        "t1 range b d
         t2 range c f
         t1 range d g
         t1 range x .
         t1 range . b
         show
         t3 lock e X
         t2 unlock_all
         show
         t1 unlock_all
         heard",
        expect![[r#"
            t1 range b d: free
            t2 range c f: free
            t1 range d g: free
            t1 range x .: free
            t1 range . b: free
            show
            1/table  t1:IS t2:IS
            1/[,g) t1
            1/[c,f) t2
            1/[x,..) t1
            t3 lock e X: waits
            t2 unlock_all
            show
            1/table  t1:IS t3:IX
            1/[,g) t1
            1/e      | t3:X
            1/[x,..) t1
            t1 unlock_all
                t3: new
            heard: ["t3 for [100, 200]", "t3 ended"]
        "#]],
    );
}

#[test]
fn a_range_waits_for_what_was_granted_and_for_nothing_else() {
    check(
        "t4 lock z S
         t1 lock c X
         t2 lock c X
         t3 lock d S
         t4 range b e
         show
         t5 lock bb X
         t1 unlock_all
         show
         t4 unlock_all
         t2 unlock_all",
        expect![[r#"
            t4 lock z S: new
            t1 lock c X: new
            t2 lock c X: waits
            t3 lock d S: new
            t4 range b e: waits
            show
            1/table  t4:IS t1:IX t2:IX t3:IS
            1/[b,e) t4
            1/c      t1:X | t4:GAP t2:X
            1/d      t3:S
            1/z      t4:S
            t5 lock bb X: waits
            t1 unlock_all
                t4: free
            show
            1/table  t4:IS t5:IX t2:IX t3:IS
            1/[b,e) t4
            1/bb     | t5:X
            1/c      | t2:X
            1/d      t3:S
            1/z      t4:S
            t4 unlock_all
                t2: new
                t5: new
            t2 unlock_all
        "#]],
    );
}

#[test]
fn a_range_waits_for_one_holder_after_another() {
    check(
        "t1 lock b X
         t2 lock c X
         t3 lock d X
         t3 lock h S
         t4 range a e
         t2 unlock_all
         t1 unlock_all
         t3 unlock_all
         stats",
        expect![[r#"
            t1 lock b X: new
            t2 lock c X: new
            t3 lock d X: new
            t3 lock h S: new
            t4 range a e: waits
            t2 unlock_all
            t1 unlock_all
            t3 unlock_all
                t4: free
            stats: waits 3 deadlocks 0 timeouts 0 kills 0 escalations 0 chain 0 held 1
        "#]],
    );
}

#[test]
fn a_range_that_timed_out_waits_again_when_it_is_asked_for_again() {
    check(
        "t1 lock c X
         t2 range a e wait=10
         advance 10
         t2 range b d nowait
         t2 range a e
         t1 unlock_all
         t2 range a e nowait
         show",
        expect![[r#"
            t1 lock c X: new
            t2 range a e wait=10: waits
            advance 10
                t2: TIMEOUT
            t2 range b d nowait: TIMEOUT
            t2 range a e: waits
            t1 unlock_all
                t2: free
            t2 range a e nowait: free
            show
            1/table  t2:IS
            1/[a,e) t2
        "#]],
    );
}

#[test]
fn insertions_into_each_others_ranges_are_a_deadlock() {
    check(
        "t1 range a c
         t2 range b d
         t1 written 3
         t2 written 1
         t1 lock bb X
         t2 lock b X
         t2 unlock_all
         show
         stats",
        expect![[r#"
            t1 range a c: free
            t2 range b d: free
            t1 written 3
            t2 written 1
            t1 lock bb X: waits
            t2 lock b X: DEADLOCK
            t2 unlock_all
                t1: new
            show
            1/table  t1:IX
            1/[a,c) t1
            1/bb     t1:X
            stats: waits 2 deadlocks 1 timeouts 0 kills 0 escalations 0 chain 2 held 2
        "#]],
    );
}

#[test]
fn a_deadlock_through_a_range_that_waits() {
    check(
        "t1 lock a X
         t2 lock c X
         t2 written 5
         t1 range b d
         t2 lock a X
         t1 unlock_all
         show",
        expect![[r#"
            t1 lock a X: new
            t2 lock c X: new
            t2 written 5
            t1 range b d: waits
            t2 lock a X: waits
                t1: DEADLOCK
            t1 unlock_all
                t2: new
            show
            1/table  t2:IX
            1/a      t2:X
            1/c      t2:X
        "#]],
    );
}

#[test]
fn a_deadlock_of_a_waiter_and_a_range_behind_it_in_the_queue() {
    check(
        "t1 range a c
         t3 lock x S
         t2 lock y X
         t2 lock b X
         t3 lock b X
         t1 lock y X
         t2 unlock_all
         t1 unlock_all
         show",
        expect![[r#"
            t1 range a c: free
            t3 lock x S: new
            t2 lock y X: new
            t2 lock b X: waits
            t3 lock b X: waits
            t1 lock y X: waits
                t2: DEADLOCK
            t2 unlock_all
                t1: new
            t1 unlock_all
                t3: new
            show
            1/table  t3:IX
            1/b      t3:X
            1/x      t3:S
        "#]],
    );
}

#[test]
fn an_upgrade_stays_out_of_a_range() {
    check(
        "t1 lock b S
         t2 range a c
         t1 lock b X
         t3 lock b S
         t2 unlock_all
         t1 unlock_all
         show",
        expect![[r#"
            t1 lock b S: new
            t2 range a c: free
            t1 lock b X: waits
            t3 lock b S: waits
            t2 unlock_all
                t1: new
            t1 unlock_all
                t3: new
            show
            1/table  t3:IS
            1/b      t3:S
        "#]],
    );
}

#[test]
fn who_holds_nothing_goes_behind_the_insertions_that_wait() {
    check(
        "t1 range a c
         t2 lock b X
         t3 range a d
         t4 lock bb X
         show
         t1 unlock_all
         show
         t2 unlock_all
         t4 unlock_all",
        expect![[r#"
            t1 range a c: free
            t2 lock b X: waits
            t3 range a d: waits
            t4 lock bb X: waits
            show
            1/table  t1:IS t2:IX t3:IS t4:IX
            1/[a,c) t1
            1/b      | t2:X t3:GAP
            1/bb     | t4:X
            t1 unlock_all
                t2: new
                t4: new
            show
            1/table  t4:IX t2:IX t3:IS
            1/b      t2:X | t3:GAP
            1/bb     t4:X
            t2 unlock_all
            t4 unlock_all
                t3: free
        "#]],
    );
}

#[test]
fn who_holds_something_passes_over_an_insertion_a_few_times() {
    check(
        "t1 range a c
         t2 lock b X
         t3 lock z S
         t4 lock z S
         t5 lock z S
         t6 lock z S
         t7 lock z S
         t8 lock z S
         t9 lock z S
         t10 lock z S
         t11 lock z S
         t3 range a d
         t4 range a d
         t5 range a d
         t6 range a d
         t7 range a d
         t8 range a d
         t9 range a d
         t10 range a d
         t11 range a d
         t3 unlock_all
         t4 unlock_all
         t5 unlock_all
         t6 unlock_all
         t7 unlock_all
         t8 unlock_all
         t9 unlock_all
         t10 unlock_all
         t1 unlock_all
         t2 unlock_all",
        expect![[r#"
            t1 range a c: free
            t2 lock b X: waits
            t3 lock z S: new
            t4 lock z S: new
            t5 lock z S: new
            t6 lock z S: new
            t7 lock z S: new
            t8 lock z S: new
            t9 lock z S: new
            t10 lock z S: new
            t11 lock z S: new
            t3 range a d: free
            t4 range a d: free
            t5 range a d: free
            t6 range a d: free
            t7 range a d: free
            t8 range a d: free
            t9 range a d: free
            t10 range a d: free
            t11 range a d: waits
            t3 unlock_all
            t4 unlock_all
            t5 unlock_all
            t6 unlock_all
            t7 unlock_all
            t8 unlock_all
            t9 unlock_all
            t10 unlock_all
            t1 unlock_all
                t2: new
            t2 unlock_all
                t11: free
        "#]],
    );
}

#[test]
fn who_is_waited_for_does_not_wait_for_those_behind_it() {
    let mut script = String::from("t1 range a c\n t1 lock d X\n t2 lock b X\n t3 lock d X\n");
    let mut expected = String::from("t1 range a c: free\nt1 lock d X: new\n");
    expected += "t2 lock b X: waits\nt3 lock d X: waits\n";
    for end in ["c", "e"] {
        for _ in 0..12 {
            script += &format!("t1 range a {end}\n");
            expected += &format!("t1 range a {end}: free\n");
        }
    }
    script += "t1 unlock_all\n";
    expected += "t1 unlock_all\n    t2: new\n    t3: new\n";
    check(&script, expect_test::Expect { data: expected.leak(), ..expect![[""]] });
}

#[test]
fn readers_go_behind_an_insertion_that_a_range_keeps_out() {
    check(
        "t1 range a c
         t2 lock b X
         t3 lock b S
         t1 unlock_all
         t2 unlock_all",
        expect![[r#"
            t1 range a c: free
            t2 lock b X: waits
            t3 lock b S: waits
            t1 unlock_all
                t2: new
            t2 unlock_all
                t3: new
        "#]],
    );
}

#[test]
fn the_gap_of_a_missing_key_is_cut_at_others_locks_and_waits_for_none() {
    check(
        "t1 lock c X
         t1 lock k X
         t2 lock f X
         t2 gap f a m
         show
         t3 lock d X nowait
         t3 lock b X
         t3 lock l X",
        expect![[r#"
            t1 lock c X: new
            t1 lock k X: new
            t2 lock f X: new
            t2 gap f a m
            show
            1/table  t1:IX t2:IX
            1/c      t1:X
            1/[c\x00,k) t2
            1/f      t2:X
            1/k      t1:X
            t3 lock d X nowait: TIMEOUT
            t3 lock b X: new
            t3 lock l X: new
        "#]],
    );
}

#[test]
fn a_lock_on_the_table_makes_ranges_needless() {
    check(
        "t1 table S
         t1 range a c
         show
         t1 unlock_all
         t1 range a c
         t2 table X nowait
         t2 table S
         show",
        expect![[r#"
            t1 table S: new
            t1 range a c: free
            show
            1/table  t1:S
            t1 unlock_all
            t1 range a c: free
            t2 table X nowait: TIMEOUT
            t2 table S: new
            show
            1/table  t1:IS t2:S
            1/[a,c) t1
        "#]],
    );
}

#[test]
fn ranges_count_and_go_with_an_escalation() {
    check_with(
        LockOptions { max_locks: 3, max_total: 0, max_advisory: 0, escalate: true, shards: 2 },
        "t1 range a b
         t1 range c d
         t1 lock a S
         t1 range x y
         show
         t2 lock x X nowait
         t1 lock m X
         show",
        expect![[r#"
            t1 range a b: free
            t1 range c d: free
            t1 lock a S: new
            t1 range x y: free
            show
            1/table  t1:S
            t2 lock x X nowait: TIMEOUT
            t1 lock m X: new
            show
            1/table  t1:SIX
            1/m      t1:X
        "#]],
    );
}

#[test]
fn ranges_and_insertions_of_appliers_whose_order_is_fixed_do_not_conflict() {
    check(
        "t1 applier
         t2 applier
         t3 applier
         t1 range a c
         t3 lock b X
         t1 range a d
         t2 lock bb X nowait
         t5 lock bb X nowait
         show",
        expect![[r#"
            t1 applier
            t2 applier
            t3 applier
            t1 range a c: free
            t3 lock b X: new
            t1 range a d: free
            t2 lock bb X nowait: new
            t5 lock bb X nowait: TIMEOUT
            show
            1/table  t1:IS t3:IX t2:IX t5:IX
            1/[a,d) t1
            1/b      t3:X
            1/bb     t2:X
        "#]],
    );
}

#[test]
fn an_optimistic_intent_meets_a_range() {
    check(
        "t1 range a c
         t2 intent x
         t2 intent b
         t2 unlock_all
         t3 intent b
         t1 unlock_all",
        expect![[r#"
            t1 range a c: free
            t2 intent x: new
            t2 intent b: DEADLOCK
            t2 unlock_all
            t3 intent b: waits
            t1 unlock_all
                t3: new
        "#]],
    );
}

#[test]
fn a_kill_ends_the_wait_of_a_range() {
    check(
        "t1 lock b X
         t2 range a c
         t2 kill
         t2 unlock_all
         t1 unlock_all
         stats",
        expect![[r#"
            t1 lock b X: new
            t2 range a c: waits
            t2 kill
                t2: KILLED
            t2 unlock_all
            t1 unlock_all
            stats: waits 1 deadlocks 0 timeouts 0 kills 1 escalations 0 chain 0 held 0
        "#]],
    );
}

#[test]
fn an_appliers_own_range_goes_before_who_waits_for_it() {
    // As a session's; another applier, whom the range does not keep back, keeps its place.
    check(
        "t1 applier
         t3 applier
         t1 range a c
         t2 lock b X
         t4 lock b X
         t1 lock b X
         t1 unlock_all
         t2 unlock_all
         t4 unlock_all
         t1 applier
         t1 lock q X
         t5 lock b S
         t3 lock b X
         t2 lock b X
         t1 range a c
         t1 lock b X
         show
         t5 unlock_all
         t3 unlock_all
         t1 unlock_all",
        expect![[r#"
            t1 applier
            t3 applier
            t1 range a c: free
            t2 lock b X: waits
            t4 lock b X: waits
            t1 lock b X: new
            t1 unlock_all
                t2: new
            t2 unlock_all
                t4: new
            t4 unlock_all
            t1 applier
            t1 lock q X: new
            t5 lock b S: new
            t3 lock b X: waits
            t2 lock b X: waits
            t1 range a c: free
            t1 lock b X: waits
            show
            1/table  t1:IX t5:IS t3:IX t2:IX
            1/[a,c) t1
            1/b      t5:S | t3:X t1:X t2:X
            1/q      t1:X
            t5 unlock_all
                t3: new
            t3 unlock_all
                t1: new
            t1 unlock_all
                t2: new
        "#]],
    );
}

#[test]
fn many_locks_of_all_owners_escalate_where_that_needs_no_wait() {
    let options = LockOptions { max_locks: 0, max_total: 1500, max_advisory: 0, escalate: true, shards: 2 };
    let locks = LockManager::with_options(None, Arc::new(SystemClock), options);
    let (small, large, third) = (LockOwner::new(1), LockOwner::new(2), LockOwner::new(3));
    let lock = |owner: &Arc<LockOwner>, family, i: u32| {
        locks.lock_point(owner, family, &i.to_be_bytes(), Mode::Exclusive, Policy::NoWait)
    };
    lock(&small, 1, 0).unwrap();
    for i in 1..=2500 {
        lock(&large, 1, i).unwrap();
    }
    assert_eq!(locks.stats().escalations, 0, "another is in the table");
    locks.unlock_all(&small);
    for i in 2501..=5000 {
        lock(&large, 1, i).unwrap();
    }
    assert_eq!((locks.stats().escalations, locks.stats().held), (1, 1));
    // What one owner gave back is there for the next.
    for i in 0..1400 {
        lock(&third, 2, i).unwrap();
    }
    assert_eq!(locks.stats().escalations, 1);
    locks.unlock_all(&large);
    locks.unlock_all(&third);

    // Twice the bound, and the table is not to be had.
    lock(&small, 1, 0).unwrap();
    let failed = (1..10_000).find_map(|i| lock(&large, 1, i).err());
    assert!(matches!(failed, Some(Error::TooManyLocks { bound: 1500 })), "{failed:?}");
    assert!(locks.stats().held < 5000);
    locks.unlock_all(&large);
    locks.unlock_all(&small);
    for i in 0..1000 {
        lock(&third, 1, i).unwrap();
    }
    assert_eq!(locks.stats().held, 1001);
    locks.unlock_all(&third);
    assert_eq!(locks.stats().held, 0);
}
