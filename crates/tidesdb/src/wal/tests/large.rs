//! Records longer than the log's buffer: the wait for each of them ends. The record's last byte may fall
//! anywhere in a fragment, a frame, a segment, or among the buffered bytes.

use super::blocked_disk::{BlockedDisk, Gate};
use super::*;
use crate::wal::record::PreparedHead;

/// Number of start offsets tried for each length.
const STARTS: usize = 20;

/// Bytes of a commit's payload without its batch.
fn fixed() -> usize {
    payload_len(&commit(1, 0))
}

/// The length of a record, headers included, to move the log's end by `n` bytes within a frame.
fn filler(n: usize) -> usize {
    n.saturating_sub(fixed() + 16)
}

/// Waits for a record as a commit does, or as recovery does for a record logged again.
fn answered(wal: &Wal, ticket: Ticket, again: bool) {
    let answer = if again { wal.wait_written_unless_full(ticket) } else { wal.wait_written(ticket) };
    answer.unwrap_or_else(|error| panic!("ticket {ticket}: {error}"));
    assert!(wal.written_ticket() >= ticket);
}

/// Appends a record of `len` bytes, or the copy of a prepare as long.
fn one(wal: &Wal, seq: Seq, len: usize, again: bool) -> Ticket {
    let record = match again {
        false => commit(seq, len),
        true => Record::RewrittenPrepare {
            txn: seq,
            head: PreparedHead::default().into(),
            batch: put(b"rewritten", len),
        },
    };
    append(wal, record).unwrap()
}

/// Every length of `lengths` at each of `starts` offsets of a segment: alone, amid a group, and as the copy
/// of a prepare.
fn every_wait_ends(options: &WalOptions, lengths: impl Iterator<Item = usize> + Clone, starts: &[usize]) {
    let segment = options.segment_size as usize;
    for (again, group) in [(false, false), (false, true), (true, false)] {
        let disk = BlockedDisk { inner: FaultyDisk::new(7).shared(), gate: Arc::default() };
        let wal = Wal::create(Arc::new(disk), store(), 1, 1, LogFiles::default(), options.clone()).unwrap();
        let mut seq = 0;
        for (n, len) in lengths.clone().enumerate() {
            for start in starts.iter().map(|start| (start + n) % STARTS) {
                // The next record begins about there: at the same distance from the ends of frames each time.
                seq += 1;
                one(&wal, seq, filler((segment / STARTS * start) % (24 << 10).min(segment)), false);
                let lengths: &[usize] = if group { &[len / 7, len, 0, 40] } else { &[len] };
                for len in lengths {
                    seq += 1;
                    one(&wal, seq, *len, again);
                }
                answered(&wal, seq, again);
            }
            if n % 16 == 0 {
                // What is durable and released costs the test no memory.
                wal.sync_all().unwrap();
                wal.release_before(wal.written_lsn().segment());
            }
        }
        let last = wal.last_ticket();
        wal.sync_all().unwrap();
        assert_eq!((wal.durable_ticket(), wal.outstanding()), (last, 0));
    }
}

#[test]
fn every_wait_for_a_long_record_ends_whatever_its_length() {
    // All distances between a record's end and the bound of what is gathered, in small.
    let starts: Vec<usize> = (0..STARTS).collect();
    for (segment_size, write_at) in [(512, 700), (4096, 1000), (4096, 4096), (32 << 10, 2000)] {
        let options = WalOptions { write_at, ..options(segment_size) };
        every_wait_ends(&options, (0..3 * write_at).step_by(5), &starts);
    }
}

#[test]
fn every_wait_for_a_record_of_up_to_three_megabytes_ends() {
    // `LOG_STARTS=20` tries each length at all offsets, which takes minutes; else the offsets take turns.
    let starts = std::env::var("LOG_STARTS").map_or(1, |n| n.parse().unwrap());
    let starts: Vec<usize> = (0..starts).collect();
    every_wait_ends(&options(32 << 20), ((32 << 10)..(3 << 20)).step_by(1 << 10), &starts);
}

#[test]
fn a_wait_ends_at_a_shutdown_where_the_disk_does_not_answer() {
    let faulty = FaultyDisk::new(1);
    // A small write is done by each thread that waits for it: all are in the call then, and only its return ends them.
    for (len, durable) in [(200 << 10, false), (10, true)] {
        let gate = Arc::<Gate>::default();
        let disk = BlockedDisk { inner: faulty.shared(), gate: gate.clone() };
        let files = LogFiles::default();
        let wal = Wal::create(
            Arc::new(disk),
            store().join(format!("{len} {durable}")),
            1,
            1,
            files,
            options(1 << 20),
        );
        let wal = wal.unwrap();
        gate.set(true);
        append(&wal, commit(1, len)).unwrap();
        std::thread::scope(|scope| {
            // At most one for each part of the record is in the call that does not return, the others wait for them.
            let wait = || if durable { wal.wait_durable(1) } else { wal.wait_written(1) };
            let waits = [(); 8].map(|()| scope.spawn(wait));
            wal.end_waits();
            let mut rounds = 0;
            while wal.failed().is_none() && rounds < 600 {
                faulty.advance_clock(5_000_000);
                std::thread::sleep(Duration::from_millis(50));
                rounds += 1;
            }
            let reason = wal.failed();
            gate.set(false);
            let answers = waits.map(|wait| wait.join().unwrap());
            assert!(
                reason.as_ref().is_some_and(|reason| reason.contains("at a shutdown")),
                "{len} {durable}: {reason:?}"
            );
            assert!(answers.iter().all(|answer| matches!(answer, Err(Error::OutcomeUnknown))), "{answers:?}");
        });
    }
}
