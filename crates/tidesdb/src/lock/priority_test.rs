//! Owners with priority, and the owners in their way. Scripts (see [`super::test_script`]).

use expect_test::expect;

use super::test_script::{check, check_with};
use super::*;

#[test]
fn priority_precedes_conversions_and_waits() {
    check(
        "t1 table S
         t2 table IS
         t2 table X
         t3 table IX
         t9 priority
         t9 table IX
         show
         t1 unlock_all
         show
         t9 unlock_all
         t2 unlock_all
         heard",
        expect![[r#"
            t1 table S: new
            t2 table IS: new
            t2 table X: waits
            t3 table IX: waits
            t9 priority
            t9 table IX: waits
            show
            1/table  t1:S t2:IS | t9:IX t2:X t3:IX
            t1 unlock_all
                t9: new
            show
            1/table  t2:IS t9:IX | t2:X t3:IX
            t9 unlock_all
                t2: new
            t2 unlock_all
                t3: new
            heard: ["t2 for [100]", "t3 for [100, 200]", "t9 for [100]", "t9 ended", "t2 ended", "t3 ended"]
        "#]],
    );
}

#[test]
fn a_conversion_goes_after_priority_and_is_the_victim() {
    check(
        "t1 lock a S
         t2 lock a S
         t1 written 9
         t9 priority
         t9 lock a X
         t1 lock a X
         t1 unlock_all
         t3 lock a S
         show
         t2 unlock_all
         t9 unlock_all
         heard",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t1 written 9
            t9 priority
            t9 lock a X: waits
            t1 lock a X: DEADLOCK
            t1 unlock_all
            t3 lock a S: waits
            show
            1/table  t9:IX t2:IS t3:IS
            1/a      t2:S | t9:X t3:S
            t2 unlock_all
                t9: new
            t9 unlock_all
                t3: new
            heard: ["t9 for [100, 200]", "t3 for [900]", "t9 ended", "t3 ended"]
        "#]],
    );
}

#[test]
fn a_waiting_conversion_is_the_victim_of_priority() {
    check(
        "t1 lock a S
         t2 lock a S
         t2 written 9
         t2 lock a X
         t9 priority
         t9 lock a X
         show
         t2 unlock_all
         t1 unlock_all
         show",
        expect![[r#"
            t1 lock a S: new
            t2 lock a S: new
            t2 written 9
            t2 lock a X: waits
            t9 priority
            t9 lock a X: waits
                t2: DEADLOCK
            show
            1/table  t1:IS t2:IX t9:IX
            1/a      t1:S t2:S | t9:X
            t2 unlock_all
            t1 unlock_all
                t9: new
            show
            1/table  t9:IX
            1/a      t9:X
        "#]],
    );
}

#[test]
fn requests_without_a_conflict_go_on() {
    check(
        "t1 table S
         t9 priority
         t9 table IX
         t2 table IS
         t3 table S nowait
         t2 table S nowait
         t1 unlock_all
         t2 lock a S
         t9 lock a X
         t3 lock a S skip
         t2 unlock_all
         t9 unlock_all",
        expect![[r#"
            t1 table S: new
            t9 priority
            t9 table IX: waits
            t2 table IS: new
            t3 table S nowait: TIMEOUT
            t2 table S nowait: TIMEOUT
            t1 unlock_all
                t9: new
            t2 lock a S: new
            t9 lock a X: waits
            t3 lock a S skip: skipped
            t2 unlock_all
                t9: new
            t9 unlock_all
        "#]],
    );
}

#[test]
fn of_two_with_priority_the_later_one_waits() {
    check(
        "t8 priority
         t9 priority
         t1 lock a S
         t8 lock a X
         t9 lock a X
         t2 lock a X
         show
         t1 unlock_all
         t8 unlock_all
         t9 unlock_all
         heard",
        expect![[r#"
            t8 priority
            t9 priority
            t1 lock a S: new
            t8 lock a X: waits
            t9 lock a X: waits
            t2 lock a X: waits
            show
            1/table  t1:IS t8:IX t9:IX t2:IX
            1/a      t1:S | t8:X t9:X t2:X
            t1 unlock_all
                t8: new
            t8 unlock_all
                t9: new
            t9 unlock_all
                t2: new
            heard: ["t8 for [100]", "t9 for [100, 800]", "t2 for [100, 800, 900]", "t8 ended", "t9 ended", "t2 ended"]
        "#]],
    );
}

#[test]
fn a_conversion_with_priority_precedes_other_waits_with_priority() {
    check(
        "t7 priority
         t8 priority
         t9 priority
         t1 lock a S
         t8 lock a S
         t7 lock a X
         t9 lock a S
         t8 lock a X
         show
         heard t9
         t1 unlock_all
         t8 unlock_all
         t7 unlock_all",
        expect![[r#"
            t7 priority
            t8 priority
            t9 priority
            t1 lock a S: new
            t8 lock a S: new
            t7 lock a X: waits
            t9 lock a S: waits
            t8 lock a X: waits
            show
            1/table  t1:IS t8:IX t7:IX t9:IS
            1/a      t1:S t8:S | t8:X t7:X t9:S
            heard t9: ["t9 for [700]", "t9 goes on for [800]"]
            t1 unlock_all
                t8: new
            t8 unlock_all
                t7: new
            t7 unlock_all
                t9: new
        "#]],
    );
}

#[test]
fn a_granted_conversion_with_priority_is_reported_to_those_that_wait() {
    check(
        "t8 priority
         t9 priority
         t1 table IX
         t8 table IS
         t9 table S
         heard
         t8 table IX
         heard
         t8 table IX
         t1 unlock_all
         t8 unlock_all
         heard",
        expect![[r#"
            t8 priority
            t9 priority
            t1 table IX: new
            t8 table IS: new
            t9 table S: waits
            heard: ["t9 for [100]"]
            t8 table IX: new
            heard: ["t9 goes on for [800]"]
            t8 table IX: held
            t1 unlock_all
            t8 unlock_all
                t9: new
            heard: ["t9 ended"]
        "#]],
    );
}

#[test]
fn a_granted_conversion_at_a_key_is_reported_to_those_that_wait() {
    check(
        "t7 priority
         t8 priority
         t9 priority
         t8 lock a S
         t7 lock a X
         t9 lock a S
         t8 lock a X
         heard
         t8 unlock_all
         t7 unlock_all
         t9 unlock_all",
        expect![[r#"
            t7 priority
            t8 priority
            t9 priority
            t8 lock a S: new
            t7 lock a X: waits
            t9 lock a S: waits
            t8 lock a X: new
            heard: ["t7 for [800]", "t9 for [700]", "t9 goes on for [800]"]
            t8 unlock_all
                t7: new
            t7 unlock_all
                t9: new
            t9 unlock_all
        "#]],
    );
}

#[test]
fn an_applier_goes_after_priority_also_if_it_waits_for_its_gap_lock() {
    check(
        "t2 applier
         t2 range a c
         t9 priority
         t9 lock b X
         t2 lock b X
         t2 unlock_all
         t9 unlock_all",
        expect![[r#"
            t2 applier
            t2 range a c: free
            t9 priority
            t9 lock b X: waits
            t2 lock b X: DEADLOCK
            t2 unlock_all
                t9: new
            t9 unlock_all
        "#]],
    );
}

#[test]
fn a_range_waits_for_priority_also_if_its_owner_holds_locks() {
    check(
        "t1 range a c
         t9 priority
         t9 lock b X
         t2 lock z S
         t2 range a d
         t3 range bb d
         show
         t1 unlock_all
         t9 unlock_all
         show
         heard",
        expect![[r#"
            t1 range a c: free
            t9 priority
            t9 lock b X: waits
            t2 lock z S: new
            t2 range a d: waits
            t3 range bb d: free
            show
            1/table  t1:IS t9:IX t2:IS t3:IS
            1/[a,c) t1
            1/b      | t9:X t2:GAP
            1/[bb,d) t3
            1/z      t2:S
            t1 unlock_all
                t9: new
            t9 unlock_all
                t2: free
            show
            1/table  t3:IS t2:IS
            1/[a,d) t2
            1/[bb,d) t3
            1/z      t2:S
            heard: ["t9 for [100]", "t2 for [900]", "t9 ended", "t2 ended"]
        "#]],
    );
}

#[test]
fn a_range_waits_for_each_owner_with_priority() {
    check(
        "t1 range a c
         t4 lock d X
         t8 priority
         t9 priority
         t8 lock b X
         t9 lock d X
         t2 lock z S
         t2 range a f
         show
         t1 unlock_all
         t8 unlock_all
         show
         t4 unlock_all
         t9 unlock_all",
        expect![[r#"
            t1 range a c: free
            t4 lock d X: new
            t8 priority
            t9 priority
            t8 lock b X: waits
            t9 lock d X: waits
            t2 lock z S: new
            t2 range a f: waits
            show
            1/table  t1:IS t4:IX t8:IX t9:IX t2:IS
            1/[a,c) t1
            1/b      | t8:X t2:GAP
            1/d      t4:X | t9:X
            1/z      t2:S
            t1 unlock_all
                t8: new
            t8 unlock_all
            show
            1/table  t2:IS t4:IX t9:IX
            1/d      t4:X | t9:X t2:GAP
            1/z      t2:S
            t4 unlock_all
                t9: new
            t9 unlock_all
                t2: free
        "#]],
    );
}

#[test]
fn a_range_does_not_wait_for_priority_that_waits_for_its_owner() {
    check(
        "t1 lock b S
         t2 range a c
         t9 priority
         t9 lock b X
         t1 range a c
         t2 range a d
         t1 unlock_all
         t2 unlock_all
         heard",
        expect![[r#"
            t1 lock b S: new
            t2 range a c: free
            t9 priority
            t9 lock b X: waits
            t1 range a c: free
            t2 range a d: free
            t1 unlock_all
            t2 unlock_all
                t9: new
            heard: ["t9 for [100, 200]", "t9 ended"]
        "#]],
    );
}

#[test]
fn a_gap_is_cut_at_keys_wanted_with_priority() {
    check(
        "t1 range b c
         t9 priority
         t9 lock b X
         t3 lock d X
         t8 priority
         t8 lock d X
         t3 gap d a f
         t4 lock a X
         t4 gap a . .
         t4 lock x S
         show
         t1 unlock_all
         t3 unlock_all
         heard",
        expect![[r#"
            t1 range b c: free
            t9 priority
            t9 lock b X: waits
            t3 lock d X: new
            t8 priority
            t8 lock d X: waits
            t3 gap d a f
            t4 lock a X: new
            t4 gap a . .
            t4 lock x S: new
            show
            1/table  t1:IS t9:IX t3:IX t8:IX t4:IX
            1/[,b) t4
            1/a      t4:X
            1/[b,c) t1
            1/b      | t9:X
            1/[b\x00,f) t3
            1/d      t3:X | t8:X
            1/x      t4:S
            t1 unlock_all
                t9: new
            t3 unlock_all
                t8: new
            heard: ["t9 for [100]", "t8 for [300]", "t9 ended", "t8 ended"]
        "#]],
    );
}

#[test]
fn a_gap_lock_that_slips_in_is_reported_once() {
    check(
        "t1 range a c
         t9 priority
         t9 lock b X
         t2 lock b X
         t4 restore c e
         heard
         t4 restore a c
         heard
         t4 restore a d
         t5 restore a .
         heard
         t1 unlock_all
         t4 unlock_all
         t5 unlock_all
         heard
         t9 unlock_all",
        expect![[r#"
            t1 range a c: free
            t9 priority
            t9 lock b X: waits
            t2 lock b X: waits
            t4 restore c e
            heard: ["t9 for [100]", "t2 for [900, 100]"]
            t4 restore a c
            heard: ["t9 goes on for [400]"]
            t4 restore a d
            t5 restore a .
            heard: ["t9 goes on for [500]"]
            t1 unlock_all
            t4 unlock_all
            t5 unlock_all
                t9: new
            heard: ["t9 ended"]
            t9 unlock_all
                t2: new
        "#]],
    );
}

#[test]
fn the_time_limit_goes_on_over_reports() {
    check(
        "t1 lock b X
         t9 priority
         t9 lock b X wait=10
         advance 6
         t2 restore a c
         heard
         advance 4
         heard",
        expect![[r#"
            t1 lock b X: new
            t9 priority
            t9 lock b X wait=10: waits
            advance 6
            t2 restore a c
            heard: ["t9 for [100]", "t9 goes on for [200]"]
            advance 4
                t9: TIMEOUT
            heard: ["t9 ended"]
        "#]],
    );
}

#[test]
fn a_published_range_waits_next_to_priority() {
    check(
        "t1 lock b X
         t2 range a c
         t9 priority
         t9 lock b X
         show
         t1 unlock_all
         t2 unlock_all
         heard",
        expect![[r#"
            t1 lock b X: new
            t2 range a c: waits
            t9 priority
            t9 lock b X: waits
            show
            1/table  t1:IX t2:IS t9:IX
            1/[a,c) t2
            1/b      t1:X | t2:GAP t9:X
            t1 unlock_all
                t2: free
            t2 unlock_all
                t9: new
            heard: ["t2 for [100]", "t9 for [100, 200]", "t2 ended", "t9 ended"]
        "#]],
    );
}

#[test]
fn ranges_with_priority_pass_over_others_and_not_over_their_own_kind() {
    check(
        "t1 range a c
         t2 lock b X
         t9 priority
         t9 range a d
         t8 priority
         t8 lock bb X
         t7 priority
         t7 range a d
         t3 lock bb X
         show
         t1 unlock_all
         t9 unlock_all
         t8 unlock_all
         t2 unlock_all
         t3 unlock_all
         t7 unlock_all",
        expect![[r#"
            t1 range a c: free
            t2 lock b X: waits
            t9 priority
            t9 range a d: free
            t8 priority
            t8 lock bb X: waits
            t7 priority
            t7 range a d: waits
            t3 lock bb X: waits
            show
            1/table  t1:IS t2:IX t9:IS t8:IX t7:IS t3:IX
            1/[a,c) t1
            1/[a,d) t9
            1/b      | t2:X
            1/bb     | t8:X t7:GAP t3:X
            t1 unlock_all
            t9 unlock_all
                t2: new
                t8: new
            t8 unlock_all
                t3: new
            t2 unlock_all
            t3 unlock_all
                t7: free
            t7 unlock_all
        "#]],
    );
}

#[test]
fn a_cycle_takes_one_without_priority() {
    check(
        "t1 lock a X
         t1 written 9
         t1 prefer -1
         t9 priority
         t9 lock b X
         t1 lock b X
         t9 lock a X
         t1 unlock_all
         t2 lock c X
         t9 lock c X
         t2 written 9
         t2 lock a X
         t2 unlock_all
         deadlocks",
        expect![[r#"
            t1 lock a X: new
            t1 written 9
            t1 prefer -1
            t9 priority
            t9 lock b X: new
            t1 lock b X: waits
            t9 lock a X: waits
                t1: DEADLOCK
            t1 unlock_all
                t9: new
            t2 lock c X: new
            t9 lock c X: waits
            t2 written 9
            t2 lock a X: DEADLOCK
            t2 unlock_all
                t9: new
            deadlocks: [t9 waits X 1/a for 0 us, t1 has X 1/a], [t1 waits X 1/b for 0 us, t9 has X 1/b]: t1, Preference; [t2 waits X 1/a for 0 us, t9 has X 1/a], [t9 waits X 1/c for 0 us, t2 has X 1/c]: t2, Preference
        "#]],
    );
}

#[test]
fn a_cycle_of_priority_alone_takes_one_as_any_other() {
    check(
        "t8 priority
         t9 priority
         t8 lock a X
         t8 written 1
         t9 lock b X
         t9 written 2
         t9 lock a X
         t8 lock b X
         t8 unlock_all",
        expect![[r#"
            t8 priority
            t9 priority
            t8 lock a X: new
            t8 written 1
            t9 lock b X: new
            t9 written 2
            t9 lock a X: waits
            t8 lock b X: DEADLOCK
            t8 unlock_all
                t9: new
        "#]],
    );
}

#[test]
fn priority_has_no_bound_on_locks() {
    let script = "t1 lock a X
         t1 lock b X
         t1 lock c X
         t9 priority
         t9 lock d X
         t9 lock e X
         t9 lock f X
         t9 range g h
         t9 lock i X
         show
         stats";
    let options = LockOptions { max_locks: 2, escalate: false, ..LockOptions::default() };
    check_with(
        LockOptions { shards: 2, ..options },
        script,
        expect![[r#"
        t1 lock a X: new
        t1 lock b X: new
        t1 lock c X: more than the 2 key locks that a transaction may hold, and others use the column family: commit more often
        t9 priority
        t9 lock d X: new
        t9 lock e X: new
        t9 lock f X: new
        t9 range g h: free
        t9 lock i X: new
        show
        1/table  t1:IX t9:IX
        1/a      t1:X
        1/b      t1:X
        1/d      t9:X
        1/e      t9:X
        1/f      t9:X
        1/[g,h) t9
        1/i      t9:X
        stats: waits 0 deadlocks 0 timeouts 0 kills 0 escalations 0 chain 0 held 8
    "#]],
    );
    let options = LockOptions { escalate: true, shards: 2, ..options };
    let script = "t9 priority
         t9 lock d X
         t9 lock e X
         t9 lock f X
         t1 lock a X
         t1 lock b X
         t1 lock c X wait=0
         stats";
    check_with(
        options,
        script,
        expect![[r#"
        t9 priority
        t9 lock d X: new
        t9 lock e X: new
        t9 lock f X: new
        t1 lock a X: new
        t1 lock b X: new
        t1 lock c X wait=0: more than the 2 key locks that a transaction may hold, and others use the column family: commit more often
        stats: waits 0 deadlocks 0 timeouts 0 kills 0 escalations 0 chain 0 held 7
    "#]],
    );
    let advisory = "t9 priority
         t9 advisory a S
         t9 advisory b S
         t9 advisory c S
         t9 advises";
    check_with(
        LockOptions { max_advisory: 2, shards: 2, ..LockOptions::default() },
        advisory,
        expect![[r#"
            t9 priority
            t9 advisory a S: locked
            t9 advisory b S: locked
            t9 advisory c S: locked
            t9 advises: 1/a:S 1/b:S 1/c:S
        "#]],
    );
}

#[test]
fn a_killed_holder_withdraws_and_leaves_with_its_end() {
    check(
        "t1 lock a X
         t2 lock b X
         t1 lock b X
         t3 lock b X
         t9 priority
         t9 lock a X
         heard
         t1 kill
         t2 kill
         t4 lock a X
         t2 lock c X
         t2 lock a X
         t2 unlock_all
         t1 unlock_all
         show
         t9 unlock_all
         t3 unlock_all
         heard",
        expect![[r#"
            t1 lock a X: new
            t2 lock b X: new
            t1 lock b X: waits
            t3 lock b X: waits
            t9 priority
            t9 lock a X: waits
            heard: ["t1 for [200]", "t3 for [200, 100]", "t9 for [100]"]
            t1 kill
                t1: KILLED
            t2 kill
            t4 lock a X: waits
            t2 lock c X: new
            t2 lock a X: KILLED
            t2 unlock_all
                t3: new
            t1 unlock_all
                t9: new
            show
            1/table  t9:IX t4:IX t3:IX
            1/a      t9:X | t4:X
            1/b      t3:X
            t9 unlock_all
                t4: new
            t3 unlock_all
            heard: ["t1 ended", "t4 for [100, 900]", "t3 ended", "t9 ended", "t4 ended"]
        "#]],
    );
}

#[test]
fn an_announced_key_is_not_taken_before_priority() {
    check(
        "t1 lock k S
         t9 priority
         t9 lock k X
         t1 announce k
         t3 lock k S
         show
         t1 confirm k
         t1 unlock_all
         t9 unlock_all
         heard",
        expect![[r#"
            t1 lock k S: new
            t9 priority
            t9 lock k X: waits
            t1 announce k
            t3 lock k S: waits
            show
            1/table  t1:IS t9:IX t3:IS
            1/k      t1:S | t9:X t3:S
            t1 confirm k: DEADLOCK
            t1 unlock_all
                t9: new
            t9 unlock_all
                t3: new
            heard: ["t9 for [100]", "t3 for [900]", "t9 ended", "t3 ended"]
        "#]],
    );
}

#[test]
fn a_stored_key_is_reported_when_the_wait_begins() {
    check(
        "t1 lock k X
         t1 store k
         t2 lock k S skip
         t9 priority
         t9 lock k X
         show
         t3 lock k X
         heard
         t1 unlock_all
         t9 unlock_all
         t3 unlock_all",
        expect![[r#"
            t1 lock k X: new
            t1 store k
            t2 lock k S skip: skipped
            t9 priority
            t9 lock k X: waits
            show
            1/table  t1:IX t2:IS t9:IX
            1/k      t1:X | t9:X
            t3 lock k X: waits
            heard: ["t9 for [100]", "t3 for [100, 900]"]
            t1 unlock_all
                t9: new
            t9 unlock_all
                t3: new
            t3 unlock_all
        "#]],
    );
}

#[test]
fn a_new_transaction_has_no_priority() {
    let owner = LockOwner::new(1);
    owner.set_priority(true);
    assert!(owner.has_priority());
    owner.restart(2);
    assert!(!owner.has_priority());
}
