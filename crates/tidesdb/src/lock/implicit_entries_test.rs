//! Entries made for implicit locks: their creation by others, the waits at them, and their removal. Scripts
//! as in `test_script`.

use expect_test::expect;

use super::test_script::check;

#[test]
fn an_unconfirmed_one_goes_after_those_who_wait_for_the_key() {
    // t5 waits for the range of t3, which keeps back no other applier. With the entry ahead of it t5 would wait for t1,
    // and t1 waits for t5.
    check(
        "t1 applier
         t3 applier
         t3 range a c
         t5 lock q X
         t5 lock a X
         t1 announce a q
         t1 confirm q a
         t4 lock a X
         show
         t3 unlock_all
         t5 unlock_all
         show
         t4 unlock_all
         t1 unlock_all",
        expect![[r#"
            t1 applier
            t3 applier
            t3 range a c: free
            t5 lock q X: new
            t5 lock a X: waits
            t1 announce a q
            t1 confirm q a: waits
            t4 lock a X: waits
            show
            1/table  t3:IS t5:IX t1:IX t4:IX
            1/[a,c) t3
            1/a      | t5:X t4:X
            1/q      t5:X | t1:X
            t3 unlock_all
                t5: new
            t5 unlock_all
                t4: new
            show
            1/table  t4:IX t1:IX
            1/a      t4:X | t1:X
            1/q      t1:X
            t4 unlock_all
                t1: confirmed
            t1 unlock_all
        "#]],
    );
}

#[test]
fn an_intent_that_does_not_wait_leaves_none() {
    check(
        "t1 lock a X
         t1 lock b X
         t1 store a b
         t2 lock x X
         t2 intent a
         t2 intent b
         show
         t2 unlock_all
         t2 intent a
         show
         t1 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t1 lock b X: new
            t1 store a b
            t2 lock x X: new
            t2 intent a: DEADLOCK
            t2 intent b: DEADLOCK
            show
            1/table  t1:IX t2:IX
            1/x      t2:X
            t2 unlock_all
            t2 intent a: waits
            show
            1/table  t1:IX t2:IX
            1/a      t1:X | t2:X*
            t1 unlock_all
                t2: new
        "#]],
    );
}

#[test]
fn those_that_nobody_waits_at_are_swept_away() {
    check(
        "t1 lock a X
         t1 lock b X
         t1 lock c X
         t1 lock d X
         t1 lock e X
         t1 lock f X
         t1 store a b c d e f
         t2 lock a X wait=10
         advance 10
         t2 lock b X wait=10
         advance 10
         t3 lock c X
         t2 range d e wait=10
         advance 10
         show
         t2 lock e X wait=10
         show
         advance 10
         t4 lock a X nowait
         t4 lock b S
         show
         t1 unlock_all
         show",
        expect![[r#"
            t1 lock a X: new
            t1 lock b X: new
            t1 lock c X: new
            t1 lock d X: new
            t1 lock e X: new
            t1 lock f X: new
            t1 store a b c d e f
            t2 lock a X wait=10: waits
            advance 10
                t2: TIMEOUT
            t2 lock b X wait=10: waits
            advance 10
                t2: TIMEOUT
            t3 lock c X: waits
            t2 range d e wait=10: waits
            advance 10
                t2: TIMEOUT
            show
            1/table  t1:IX t2:IX t3:IX
            1/a      t1:X
            1/b      t1:X
            1/c      t1:X | t3:X
            1/[d,e) t2
            1/d      t1:X
            t2 lock e X wait=10: waits
            show
            1/table  t1:IX t2:IX t3:IX
            1/c      t1:X | t3:X
            1/[d,e) t2
            1/e      t1:X | t2:X
            advance 10
                t2: TIMEOUT
            t4 lock a X nowait: TIMEOUT
            t4 lock b S: waits
            show
            1/table  t1:IX t2:IX t3:IX t4:IX
            1/b      t1:X | t4:S
            1/c      t1:X | t3:X
            1/[d,e) t2
            1/e      t1:X
            t1 unlock_all
                t3: new
                t4: new
            show
            1/table  t4:IX t2:IX t3:IX
            1/b      t4:S
            1/c      t3:X
            1/[d,e) t2
        "#]],
    );
}

#[test]
fn one_that_its_owner_locked_again_stays() {
    check(
        "t1 lock a X
         t1 lock b X
         t1 lock c X
         t1 lock d X
         t1 lock e X
         t1 store a b c d e
         t2 lock a X wait=10
         advance 10
         t1 lock a X
         t2 lock b X wait=10
         advance 10
         t2 lock c X wait=10
         advance 10
         t2 lock d X wait=10
         advance 10
         t2 lock e X wait=10
         advance 10
         show
         t1 unlock_all",
        expect![[r#"
            t1 lock a X: new
            t1 lock b X: new
            t1 lock c X: new
            t1 lock d X: new
            t1 lock e X: new
            t1 store a b c d e
            t2 lock a X wait=10: waits
            advance 10
                t2: TIMEOUT
            t1 lock a X: held
            t2 lock b X wait=10: waits
            advance 10
                t2: TIMEOUT
            t2 lock c X wait=10: waits
            advance 10
                t2: TIMEOUT
            t2 lock d X wait=10: waits
            advance 10
                t2: TIMEOUT
            t2 lock e X wait=10: waits
            advance 10
                t2: TIMEOUT
            show
            1/table  t1:IX t2:IX
            1/a      t1:X
            1/e      t1:X
            t1 unlock_all
        "#]],
    );
}
