//! Table locks together with point locks. Scripts (see [`super::test_script`]).

use expect_test::expect;

use super::test_script::{check, check_with};
use super::*;

#[test]
fn table_locks_and_row_locks_meet() {
    check(
        "t1 lock a X
         show
         t2 table S
         t3 table IS
         t4 table IX
         t5 table X wait=10
         t1 table S nowait
         show
         advance 10
         t1 unlock_all
         t2 lock z S
         t2 lock z X wait=10
         advance 10
         t2 unlock_all
         show",
        expect![[r#"
            t1 lock a X: new
            show
            1/table  t1:IX
            1/a      t1:X
            t2 table S: waits
            t3 table IS: new
            t4 table IX: waits
            t5 table X wait=10: waits
            t1 table S nowait: new
            show
            1/table  t1:SIX t3:IS | t2:S t4:IX t5:X
            1/a      t1:X
            advance 10
                t5: TIMEOUT
            t1 unlock_all
                t2: new
            t2 lock z S: held
            t2 lock z X wait=10: new
            advance 10
            t2 unlock_all
                t4: new
            show
            1/table  t3:IS t4:IX
        "#]],
    );
}

#[test]
fn an_exclusive_table_lock_makes_row_locks_needless() {
    check(
        "t1 table X
         t1 lock a X
         t1 unlock a X
         t2 lock a S skip
         t2 lock a S nowait
         t2 locked a S
         t1 unlock_all
         t2 lock a S",
        expect![[r#"
            t1 table X: new
            t1 lock a X: held
            t1 unlock a X
            t2 lock a S skip: skipped
            t2 lock a S nowait: TIMEOUT
            t2 locked a S: true
            t1 unlock_all
            t2 lock a S: new
        "#]],
    );
}

#[test]
fn locks_of_an_index_come_under_the_lock_of_its_table() {
    check(
        "attach 2 1
         attach 2 1
         attach 3 2
         t1 lock 2/i X
         show
         t2 table 1:S nowait
         t2 table 2:X nowait
         attach 1 5
         attach 9 9",
        expect![[r#"
            attach 2 1: Ok(())
            attach 2 1: Ok(())
            attach 3 2: Err(InvalidArgument("family 2 cannot be the table of family 3"))
            t1 lock 2/i X: new
            show
            1/table  t1:IX
            2/i      t1:X
            t2 table 1:S nowait: TIMEOUT
            t2 table 2:X nowait: TIMEOUT
            attach 1 5: Err(InvalidArgument("family 1 is in use and cannot be attached to 5"))
            attach 9 9: Err(InvalidArgument("family 9 cannot be the table of family 9"))
        "#]],
    );
}

#[test]
#[allow(clippy::too_many_lines, reason = "one script")]
fn row_locks_escalate_to_a_table_lock() {
    check_with(
        LockOptions { max_locks: 3, max_total: 0, max_advisory: 0, escalate: true, shards: 2 },
        "attach 2 1
         t1 lock a X
         t1 lock 2/b S
         t1 lock 3/c S
         show
         t2 lock z S
         t1 lock d X
         show
         t2 unlock_all
         show
         t1 lock d X
         t1 lock 3/e S
         t1 lock 3/f S
         t2 lock 3/e S
         t1 lock 3/g S
         show
         stats",
        expect![[r#"
            attach 2 1: Ok(())
            t1 lock a X: new
            t1 lock 2/b S: new
            t1 lock 3/c S: new
            show
            1/table  t1:IX
            1/a      t1:X
            2/b      t1:S
            3/table  t1:IS
            3/c      t1:S
            t2 lock z S: new
            t1 lock d X: waits
            show
            1/table  t1:IX t2:IS | t1:X
            1/a      t1:X
            1/z      t2:S
            2/b      t1:S
            3/table  t1:IS
            3/c      t1:S
            t2 unlock_all
                t1: held
            show
            1/table  t1:X
            3/table  t1:IS
            3/c      t1:S
            t1 lock d X: held
            t1 lock 3/e S: new
            t1 lock 3/f S: new
            t2 lock 3/e S: new
            t1 lock 3/g S: held
            show
            1/table  t1:X
            3/table  t1:S t2:IS
            3/e      t2:S
            stats: waits 1 deadlocks 0 timeouts 0 kills 0 escalations 2 chain 0 held 4
        "#]],
    );
    check_with(
        LockOptions { max_locks: 2, max_total: 0, max_advisory: 0, escalate: true, shards: 2 },
        "t1 lock a S
         t1 lock b S
         t2 lock x X
         t1 lock c S nowait
         t1 lock c S wait=10
         advance 10
         show",
        expect![[r#"
            t1 lock a S: new
            t1 lock b S: new
            t2 lock x X: new
            t1 lock c S nowait: more than the 2 key locks that a transaction may hold, and others use the column family: commit more often
            t1 lock c S wait=10: waits
            advance 10
                t1: more than the 2 key locks that a transaction may hold, and others use the column family: commit more often
            show
            1/table  t1:IS t2:IX
            1/a      t1:S
            1/b      t1:S
            1/x      t2:X
        "#]],
    );
    check_with(
        LockOptions { max_locks: 2, max_total: 0, max_advisory: 0, escalate: false, shards: 2 },
        "t1 lock a S
         t1 lock b X
         t1 lock b X
         t1 lock c S
         t1 unlock a S
         t1 lock c S",
        expect![[r#"
            t1 lock a S: new
            t1 lock b X: new
            t1 lock b X: held
            t1 lock c S: more than the 2 key locks that a transaction may hold, and others use the column family: commit more often
            t1 unlock a S
            t1 lock c S: new
        "#]],
    );
}

#[test]
fn an_intent_of_an_owner_that_holds_something_waits_for_no_table() {
    check_with(
        LockOptions { max_locks: 2, max_total: 0, max_advisory: 0, escalate: true, shards: 2 },
        "t1 table 2:X
         t2 intent 2/a wait=5
         advance 5
         t2 intent a
         t2 intent 2/a
         t2 intent 2/a nowait
         t2 intent 2/a skip
         t3 lock x X
         t2 intent b
         t2 intent c
         t2 lock c X wait=5
         advance 5
         t3 unlock_all
         t2 intent c
         show",
        expect![[r#"
            t1 table 2:X: new
            t2 intent 2/a wait=5: waits
            advance 5
                t2: TIMEOUT
            t2 intent a: new
            t2 intent 2/a: DEADLOCK
            t2 intent 2/a nowait: TIMEOUT
            t2 intent 2/a skip: skipped
            t3 lock x X: new
            t2 intent b: new
            t2 intent c: DEADLOCK
            t2 lock c X wait=5: waits
            advance 5
                t2: more than the 2 key locks that a transaction may hold, and others use the column family: commit more often
            t3 unlock_all
            t2 intent c: held
            show
            1/table  t2:X
            2/table  t1:X
        "#]],
    );
}
