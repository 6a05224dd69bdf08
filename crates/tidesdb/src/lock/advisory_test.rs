//! Advisory locks: their conflicts and waits, and the owner's list of them. Scripts (see
//! [`super::test_script`]).

use expect_test::expect;

use super::test_script::{check, check_with};
use super::LockOptions;

#[test]
fn shared_ones_go_together_and_an_exclusive_one_goes_alone() {
    check(
        "t1 advisory a S
         t2 advisory a S
         t3 advisory a X nowait
         t3 advisory b X
         t1 advisory b S wait=0
         t1 advisory b X skip
         t1 advisory c X
         t4 advisory a X
         show
         t1 unlock_all
         t2 unlock_all
         t5 advisory a S
         t4 unlock_all
         t5 advises",
        expect![[r#"
            t1 advisory a S: locked
            t2 advisory a S: locked
            t3 advisory a X nowait: TIMEOUT
            t3 advisory b X: locked
            t1 advisory b S wait=0: TIMEOUT
            t1 advisory b X skip: TIMEOUT
            t1 advisory c X: locked
            t4 advisory a X: waits
            show
            1/table  t1:IX t2:IS t3:IX t4:IX
            1/a      t1:S t2:S | t4:X
            1/b      t3:X
            1/c      t1:X
            t1 unlock_all
            t2 unlock_all
                t4: locked
            t5 advisory a S: waits
            t4 unlock_all
                t5: locked
            t5 advises: 1/a:S
        "#]],
    );
}

#[test]
fn a_shared_one_is_raised_when_the_others_are_gone() {
    check(
        "t1 advisory a S
         t1 advisory a X
         t1 advisory a S
         t1 advises
         t1 unlock_all
         t1 advises
         t1 advisory a S
         t2 advisory a S
         t2 advisory a X nowait
         t2 advises
         t2 advisory a X
         t3 advisory a S nowait
         t1 unlock_all
         t2 advises",
        expect![[r#"
            t1 advisory a S: locked
            t1 advisory a X: locked
            t1 advisory a S: locked
            t1 advises: 1/a:X
            t1 unlock_all
            t1 advises
            t1 advisory a S: locked
            t2 advisory a S: locked
            t2 advisory a X nowait: TIMEOUT
            t2 advises: 1/a:S
            t2 advisory a X: waits
            t3 advisory a S nowait: TIMEOUT
            t1 unlock_all
                t2: locked
            t2 advises: 1/a:X
        "#]],
    );
}

#[test]
fn two_who_raise_the_same_lock_are_a_deadlock() {
    check(
        "t1 advisory a S
         t2 advisory a S
         t1 written 5
         t1 advisory a X
         t2 advisory a X
         t2 unlock_all
         t1 advises
         stats",
        expect![[r#"
            t1 advisory a S: locked
            t2 advisory a S: locked
            t1 written 5
            t1 advisory a X: waits
            t2 advisory a X: DEADLOCK
            t2 unlock_all
                t1: locked
            t1 advises: 1/a:X
            stats: waits 2 deadlocks 1 timeouts 0 kills 0 escalations 0 chain 2 held 2
        "#]],
    );
}

#[test]
fn a_deadlock_over_rows_and_advisory_locks_is_found() {
    check(
        "t1 advisory 2/p S
         t2 intent 1/r
         t2 written 1
         t2 advisory 2/p X
         t1 lock 1/r S
         t1 unlock_all
         t2 advises",
        expect![[r#"
            t1 advisory 2/p S: locked
            t2 intent 1/r: new
            t2 written 1
            t2 advisory 2/p X: waits
            t1 lock 1/r S: DEADLOCK
            t1 unlock_all
                t2: locked
            t2 advises: 2/p:X
        "#]],
    );
}

#[test]
fn waits_end_by_time_and_by_kill() {
    check(
        "t1 advisory a X
         t2 advisory a S wait=100
         t3 advisory a X
         advance 100
         t3 kill
         t3 advises
         t1 unlock_all
         t2 advisory a X",
        expect![[r#"
            t1 advisory a X: locked
            t2 advisory a S wait=100: waits
            t3 advisory a X: waits
            advance 100
                t2: TIMEOUT
            t3 kill
                t3: KILLED
            t3 advises
            t1 unlock_all
            t2 advisory a X: locked
        "#]],
    );
}

#[test]
fn an_owner_names_its_advisory_locks_and_no_others() {
    check(
        "t1 lock 1/row X
         t1 advisory 2/a S
         t1 advisory 3/d S
         t1 advisory 3/e S
         t1 advisory 3/d X
         t2 lock 2/b S
         show
         t1 advises
         t1 unlock_all
         t1 lock 2/b S
         t1 advises",
        expect![[r#"
            t1 lock 1/row X: new
            t1 advisory 2/a S: locked
            t1 advisory 3/d S: locked
            t1 advisory 3/e S: locked
            t1 advisory 3/d X: locked
            t2 lock 2/b S: new
            show
            1/table  t1:IX
            1/row    t1:X
            2/table  t1:IS t2:IS
            2/a      t1:S
            2/b      t2:S
            3/table  t1:IX
            3/d      t1:X
            3/e      t1:S
            t1 advises: 2/a:S 3/d:X 3/e:S
            t1 unlock_all
            t1 lock 2/b S: new
            t1 advises
        "#]],
    );
}

#[test]
fn beyond_the_bound_they_become_a_table_lock() {
    check_with(
        LockOptions { max_locks: 3, ..LockOptions::default() },
        "t1 advisory 2/a S
         t1 advisory 2/b S
         t1 advisory 2/c S
         t1 lock 1/row X
         t1 advisory 2/d S
         show
         t1 advises
         t2 advisory 2/e S
         t2 advisory 2/f X nowait",
        expect![[r#"
            t1 advisory 2/a S: locked
            t1 advisory 2/b S: locked
            t1 advisory 2/c S: locked
            t1 lock 1/row X: new
            t1 advisory 2/d S: locked
            show
            1/table  t1:IX
            1/row    t1:X
            2/table  t1:S
            t1 advises
            t2 advisory 2/e S: locked
            t2 advisory 2/f X nowait: TIMEOUT
        "#]],
    );
}

#[test]
fn very_many_shared_ones_become_a_lock_on_the_family() {
    check_with(
        LockOptions { max_locks: 0, max_total: 0, max_advisory: 3, escalate: true, shards: 2 },
        "t1 advisory a S
         t1 advisory b S
         t2 advisory c S
         t1 advisory c S
         show
         t1 advisory d S
         t1 advises
         t3 advisory z X nowait
         t2 unlock_all
         t1 unlock_all
         t3 advisory z X
         t1 advisory a S
         t1 advisory b S
         t1 advisory c S
         show
         t3 unlock_all
         t1 unlock_all
         t1 advisory a X
         t1 advisory b S
         t1 advisory c S
         show",
        expect![[r#"
            t1 advisory a S: locked
            t1 advisory b S: locked
            t2 advisory c S: locked
            t1 advisory c S: locked
            show
            1/table  t1:S t2:IS
            1/c      t2:S
            t1 advisory d S: locked
            t1 advises
            t3 advisory z X nowait: TIMEOUT
            t2 unlock_all
            t1 unlock_all
            t3 advisory z X: locked
            t1 advisory a S: locked
            t1 advisory b S: locked
            t1 advisory c S: locked
            show
            1/table  t3:IX t1:IS
            1/a      t1:S
            1/b      t1:S
            1/c      t1:S
            1/z      t3:X
            t3 unlock_all
            t1 unlock_all
            t1 advisory a X: locked
            t1 advisory b S: locked
            t1 advisory c S: locked
            show
            1/table  t1:IX
            1/a      t1:X
            1/b      t1:S
            1/c      t1:S
        "#]],
    );
}

#[test]
fn a_lock_on_the_family_goes_after_who_waits_there() {
    check_with(
        LockOptions { max_locks: 0, max_total: 0, max_advisory: 2, escalate: true, shards: 2 },
        "t1 advisory a S
         t1 advisory b S
         t2 advisory z X
         t3 advisory c S
         t3 advisory d S
         show
         t1 unlock_all
         t2 unlock_all
         t3 unlock_all",
        expect![[r#"
            t1 advisory a S: locked
            t1 advisory b S: locked
            t2 advisory z X: waits
            t3 advisory c S: locked
            t3 advisory d S: locked
            show
            1/table  t1:S t3:IS | t2:IX
            1/c      t3:S
            1/d      t3:S
            t1 unlock_all
                t2: locked
            t2 unlock_all
            t3 unlock_all
        "#]],
    );
}
