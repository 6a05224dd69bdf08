//! Cycles of waits: each is found, and the right victim ends it. Scripts (see [`super::test_script`]).

use expect_test::expect;

use super::test_script::check;

#[test]
fn two_upgrades_are_a_deadlock() {
    check(
        "t1 lock a S
         t2 lock a S
         t1 lock a X
         t2 lock a X
         t2 unlock_all
         show
         stats",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t1 lock a X: waits
            t2 lock a X: DEADLOCK
            t2 unlock_all
                t1: new
            show
            1/table  t1:IX
            1/a      t1:X
            stats: waits 2 deadlocks 1 timeouts 0 kills 0 escalations 0 chain 2 held 2
        "#]],
    );
}

#[test]
fn two_upgrades_and_the_first_waiter_is_the_victim() {
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock a S
         t2 written 5
         t1 lock a X
         t2 lock a X
         show
         t1 unlock_all
         t3 unlock_all
         show",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock a S: new
            t2 written 5
            t1 lock a X: waits
            t2 lock a X: waits
                t1: DEADLOCK
            show
            1/table  t1:IX t2:IX t3:IS
            1/a      t1:S t2:S t3:S | t2:X
            t1 unlock_all
            t3 unlock_all
                t2: new
            show
            1/table  t2:IX
            1/a      t2:X
        "#]],
    );
}

#[test]
fn a_cycle_of_two_takes_the_one_with_fewer_keys_written() {
    check(
        "t1 lock a X
         t2 lock b X
         t1 written 1
         t2 written 9
         t1 lock b X
         t2 lock a X
         show
         t1 unlock_all
         show",
        expect![[r#"
            t1 lock a X: new
            t2 lock b X: new
            t1 written 1
            t2 written 9
            t1 lock b X: waits
            t2 lock a X: waits
                t1: DEADLOCK
            show
            1/table  t1:IX t2:IX
            1/a      t1:X | t2:X
            1/b      t2:X
            t1 unlock_all
                t2: new
            show
            1/table  t2:IX
            1/a      t2:X
            1/b      t2:X
        "#]],
    );
}

#[test]
fn a_cycle_of_three_takes_the_youngest_of_equals() {
    check(
        "t1 lock a X
         t2 lock b X
         t3 lock c X
         t2 lock c X
         t3 lock a X
         t1 lock b X
         t3 unlock_all
         t2 unlock_all
         stats",
        expect![[r#"
            t1 lock a X: new
            t2 lock b X: new
            t3 lock c X: new
            t2 lock c X: waits
            t3 lock a X: waits
            t1 lock b X: waits
                t3: DEADLOCK
            t3 unlock_all
                t2: new
            t2 unlock_all
                t1: new
            stats: waits 3 deadlocks 1 timeouts 0 kills 0 escalations 0 chain 3 held 3
        "#]],
    );
}

#[test]
fn a_cycle_of_five_takes_whom_the_server_prefers() {
    check(
        "t1 lock a X
         t2 lock b X
         t3 lock c X
         t4 lock d X
         t5 lock e X
         t3 prefer 1
         t3 written 1000
         t1 lock b X
         t2 lock c X
         t3 lock d S
         t4 lock e S
         t5 lock a X
         show
         stats
         t3 unlock_all
         t2 unlock_all
         t1 unlock_all
         t5 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t2 lock b X: new
            t3 lock c X: new
            t4 lock d X: new
            t5 lock e X: new
            t3 prefer 1
            t3 written 1000
            t1 lock b X: waits
            t2 lock c X: waits
            t3 lock d S: waits
            t4 lock e S: waits
            t5 lock a X: waits
                t3: DEADLOCK
            show
            1/table  t1:IX t2:IX t3:IX t4:IX t5:IX
            1/a      t1:X | t5:X
            1/b      t2:X | t1:X
            1/c      t3:X | t2:X
            1/d      t4:X
            1/e      t5:X | t4:S
            stats: waits 5 deadlocks 1 timeouts 0 kills 0 escalations 0 chain 5 held 10
            t3 unlock_all
                t2: new
            t2 unlock_all
                t1: new
            t1 unlock_all
                t5: new
            t5 unlock_all
                t4: new
        "#]],
    );
}

#[test]
fn one_wait_can_close_two_cycles() {
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock b X
         t1 lock b X
         t2 lock b X
         t3 written 9
         t3 lock a X
         stats
         t1 unlock_all
         t2 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock b X: new
            t1 lock b X: waits
            t2 lock b X: waits
            t3 written 9
            t3 lock a X: waits
                t1: DEADLOCK
                t2: DEADLOCK
            stats: waits 3 deadlocks 2 timeouts 0 kills 0 escalations 0 chain 2 held 6
            t1 unlock_all
            t2 unlock_all
                t3: new
        "#]],
    );
}

#[test]
fn a_cycle_through_a_place_in_a_queue_is_found() {
    check(
        "t1 lock a S
         t2 lock b X
         t2 lock a X
         t3 lock b S wait=50
         t4 lock c X
         t4 lock a S
         t1 lock c S
         show
         t4 unlock_all
         advance 60
         t1 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock b X: new
            t2 lock a X: waits
            t3 lock b S wait=50: waits
            t4 lock c X: new
            t4 lock a S: waits
            t1 lock c S: waits
                t4: DEADLOCK
            show
            1/table  t1:IS t2:IX t3:IS t4:IX
            1/a      t1:S | t2:X
            1/b      t2:X | t3:S
            1/c      t4:X | t1:S
            t4 unlock_all
                t1: new
            advance 60
                t3: TIMEOUT
            t1 unlock_all
                t2: new
        "#]],
    );
}

#[test]
fn a_cycle_through_an_upgrade_before_the_last_waiter_is_found() {
    // The search starts at an exclusive conversion; what stands before it waits for its shared lock.
    check(
        "t1 lock a S
         t2 lock a S
         t3 lock a S
         t1 written 3
         t2 written 2
         t3 written 1
         t2 lock a X
         t1 lock a X
         t3 unlock_all
         t2 unlock_all",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t3 lock a S: new
            t1 written 3
            t2 written 2
            t3 written 1
            t2 lock a X: waits
            t1 lock a X: waits
                t2: DEADLOCK
            t3 unlock_all
            t2 unlock_all
                t1: new
        "#]],
    );
}

#[test]
fn a_table_lock_and_a_row_lock_can_deadlock() {
    check(
        "t1 lock a X
         t2 table 2:X
         t2 table 1:X
         t1 lock 2/q S
         t2 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t2 table 2:X: new
            t2 table 1:X: waits
            t1 lock 2/q S: waits
                t2: DEADLOCK
            t2 unlock_all
                t1: new
        "#]],
    );
}

#[test]
fn a_deadlock_is_told_with_locks_holders_and_the_reason() {
    check(
        "t1 lock a X
         t2 lock 2/q X
         t1 written 3
         t1 lock 2/q S
         advance 1500
         t2 lock a X
         t2 unlock_all
         deadlocks
         t1 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t2 lock 2/q X: new
            t1 written 3
            t1 lock 2/q S: waits
            advance 1500
            t2 lock a X: DEADLOCK
            t2 unlock_all
                t1: new
            deadlocks: [t2 waits X 1/a for 0 us, t1 has X 1/a], [t1 waits S 2/q for 1499999 us, t2 has X 2/q]: t2, FewestKeys
            t1 unlock_all
        "#]],
    );
}

#[test]
fn a_deadlock_over_ranges_names_them() {
    check(
        "t1 range a f
         t2 range m .
         t1 lock n X
         t2 lock b X
         t2 unlock_all
         deadlocks
         t1 unlock_all",
        expect![[r#"
            t1 range a f: free
            t2 range m .: free
            t1 lock n X: waits
            t2 lock b X: DEADLOCK
            t2 unlock_all
                t1: new
            deadlocks: [t2 waits X 1/b for 0 us, t1 has GAP 1/a..f], [t1 waits X 1/n for 0 us, t2 has GAP 1/m..]: t2, Youngest
            t1 unlock_all
        "#]],
    );
}

#[test]
fn a_deadlock_over_a_queue_names_the_earlier_wait() {
    check(
        "t1 lock a S
         t3 lock b X
         t2 lock a X
         t3 lock a S
         t1 lock b X
         t3 unlock_all
         t1 unlock_all
         t2 unlock_all
         deadlocks",
        expect![[r#"
            t1 lock a S: new
            t3 lock b X: new
            t2 lock a X: waits
            t3 lock a S: waits
            t1 lock b X: waits
                t3: DEADLOCK
            t3 unlock_all
                t1: new
            t1 unlock_all
                t2: new
            t2 unlock_all
            deadlocks: [t1 waits X 1/b for 0 us, t3 has X 1/b], [t3 waits S 1/a for 0 us, t2 waits X 1/a], [t2 waits X 1/a for 0 us, t1 has S 1/a]: t3, Youngest
        "#]],
    );
}
