//! After the rounds of `faults`: copies of a table until memory is full, as nothing can be flushed. The rows of a
//! copy are in one transaction, committed where the copy ends: it gets 1021, while the change of definitions after it
//! still has room. The server looks at the answer of neither copy's end here: the statement must fail all the same.

use nix::errno::Errno;
use tidelab_server::error::Result;

use super::super::preloaded::{Bench, Health};
use super::super::session::{Failure, Session};
use super::super::{connect, must, set_up};
use crate::preload::{Action, Call, Fault, Kind};

/// The server throws the answer of a partition's end of a copy away, and a copy with IGNORE has no such end.
const COPIES: [&str; 2] = [
    "ALTER TABLE torture.copied REBUILD PARTITION ALL",
    "ALTER IGNORE TABLE torture.copied FORCE, ALGORITHM=COPY",
];
/// Rows of 1,000 bytes: less than a chunk of a copy.
const ROWS: i64 = 40;
/// Copies that fill memory several times over.
const ENOUGH: u32 = 500;
/// The server's number for a full disk.
const DISK_FULL: u16 = 1021;

/// Returns the faults found.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<String>> {
    let mut session = connect(&bench.server)?;
    set_up(
        &mut session,
        &[
            "CREATE TABLE torture.copied (a INT PRIMARY KEY, pad VARCHAR(1000) NOT NULL) ENGINE=TidesDB MIN_DISK_SPACE=0 \
             PARTITION BY HASH (a) PARTITIONS 2",
            &format!("INSERT INTO torture.copied SELECT seq, REPEAT('c', 1000) FROM torture.seq_1_to_{ROWS}"),
        ],
    )?;
    let mut wrong = Vec::new();
    for copy in COPIES {
        bench.library.control.arm(&Fault {
            kind: Kind::Table,
            call: Call::Write,
            first: 1,
            times: u64::MAX,
            action: Action::Fail(Errno::ENOSPC),
        })?;
        let refused = until_refused(&mut session, copy);
        bench.library.control.disarm()?;
        wrong.extend(refused?);
        if let Health::Wrong(why) = bench.health() {
            wrong.push(format!("after {copy} on a full disk: {why}"));
        }
    }
    must("DROP TABLE", session.run("DROP TABLE torture.copied"))?;
    Ok(wrong)
}

/// Copies the table until one is refused. Returns what is wrong.
fn until_refused(session: &mut Session, copy: &str) -> Result<Option<String>> {
    for _ in 0..ENOUGH {
        let answer = session.run(copy);
        let count = "SELECT COUNT(*) FROM torture.copied FORCE INDEX (PRIMARY)";
        let rows = must(count, session.number(count))?;
        if rows != ROWS {
            return Ok(Some(format!("{rows} of {ROWS} rows are left after {copy}: {answer:?}")));
        }
        match answer {
            Ok(_) => {}
            Err(Failure::Sql { code: DISK_FULL, .. }) => return Ok(None),
            Err(other) => return Ok(Some(format!("{copy} on a full disk: {other}"))),
        }
    }
    Ok(Some(format!("{ENOUGH} times {copy} met no full disk")))
}
