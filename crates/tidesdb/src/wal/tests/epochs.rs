//! Several epochs: boundaries, unfinished recoveries, recycled files.

use super::super::segment::{file_path, SEGMENT_HEADER};
use super::*;
use crate::options::FormatVersion;

/// Opens the next epoch as the store does: recover, new epoch, then (if `finish`) the boundary.
struct Store {
    disk: FaultyDisk,
    epoch: u64,
    first_live: u32,
    boundaries: Vec<EpochBoundary>,
}

impl Store {
    fn open(&mut self, size: u32, finish: bool) -> (Vec<Seq>, Wal) {
        self.epoch += 1;
        let (found, summary) = seqs(&self.disk, self.first_live, &self.boundaries, Lsn::ZERO).unwrap();
        let first = summary.next_segment;
        let boundary = summary.boundary(0);
        let wal = Wal::create(
            self.disk.shared(),
            store(),
            self.epoch,
            first,
            summary.files,
            WalOptions { segment_size: size, ..super::options(size) },
        )
        .unwrap();
        if finish {
            self.boundaries.push(boundary);
        }
        (found, wal)
    }
}

/// The bytes of a segment's file after its header.
fn after_header(disk: &FaultyDisk, number: u64) -> Vec<u8> {
    disk.contents(&file_path(&store(), number)).unwrap()[SEGMENT_HEADER as usize..].to_vec()
}

/// Segments of version 2 have the bytes of version 1 but for their headers, and one log may have both.
#[test]
fn epochs_of_both_versions_are_one_log() {
    let [first, second] = [FormatVersion::One, FormatVersion::Two].map(|format| {
        let disk = FaultyDisk::new(9);
        let options = WalOptions { format, ..super::options(1024) };
        let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
        fill(&wal, 1..=20);
        assert_eq!(seqs(&disk, 1, &[], wal.durable_lsn()).unwrap().0, dense(20));
        drop(wal);
        disk
    });
    assert_eq!(after_header(&first, 1), after_header(&second, 1));
    for (disk, before, after) in [(first, 1, FormatVersion::Two), (second, 2, FormatVersion::One)] {
        let (_, summary) = seqs(&disk, 1, &[], Lsn::ZERO).unwrap();
        let (next, boundary) = (summary.next_segment, summary.boundary(21));
        let options = WalOptions { format: after, ..super::options(1024) };
        let wal = Wal::create(disk.shared(), store(), 2, next, summary.files, options).unwrap();
        fill(&wal, 21..=40);
        assert_eq!(seqs(&disk, 1, &[boundary], wal.durable_lsn()).unwrap().0, dense(40));
        let version = |number| disk.contents(&file_path(&store(), number)).unwrap()[8];
        let numbers: Vec<u64> = wal.live_segments().into_iter().map(|(_, number)| number).collect();
        let versions: Vec<u8> = numbers.into_iter().map(version).collect();
        assert_eq!(versions[0], before);
        assert_eq!(versions.last().copied().map(u32::from), Some(after.number()));
    }
}

fn fill(wal: &Wal, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        append(wal, commit(seq, 100)).unwrap();
    }
    wal.sync_all().unwrap();
}

#[test]
fn lives_are_joined_by_boundaries() {
    let mut s = Store { disk: FaultyDisk::new(9), epoch: 0, first_live: 1, boundaries: Vec::new() };
    let (found, wal) = s.open(512, false);
    assert_eq!(found, []);
    fill(&wal, 1..=10);
    // What is enqueued and not written does not survive.
    append(&wal, commit(11, 10)).unwrap();
    let (found, wal) = s.open(1024, true);
    assert_eq!(found, dense(10));
    fill(&wal, 11..=15);
    let (found, wal) = s.open(MIN_SEGMENT, true);
    assert_eq!(found, dense(15));
    fill(&wal, 16..=20);
    let (found, _) = seqs(&s.disk, 1, &s.boundaries, wal.durable_lsn()).unwrap();
    assert_eq!(found, dense(20));
    assert!(s.boundaries[0].next_segment < s.boundaries[1].next_segment);
    // Without the boundaries only the first epoch is there.
    assert_eq!(seqs(&s.disk, 1, &[], Lsn::ZERO).unwrap().0, dense(10));
    // Damage below a boundary is damage although nothing else says so.
    s.disk.flip_bit(&s.disk.files()[0], 100, 0);
    assert!(matches!(seqs(&s.disk, 1, &s.boundaries, Lsn::ZERO), Err(Error::Corruption { .. })));
}

#[test]
fn a_recovery_that_did_not_finish_is_forgotten() {
    let mut s = Store { disk: FaultyDisk::new(9), epoch: 0, first_live: 1, boundaries: Vec::new() };
    let (_, wal) = s.open(512, false);
    fill(&wal, 1..=10);
    let mut last_first = 1;
    for _ in 0..3 {
        // Each begins an epoch, rewrites a prepare, and dies before the boundary.
        let (found, wal) = s.open(512, false);
        assert_eq!(found, dense(10));
        let first = wal.written_lsn().segment();
        assert!(first > last_first);
        last_first = first;
        append(&wal, Record::RewrittenPrepare { txn: 1, head: Arc::default(), batch: put(b"x", 700) })
            .unwrap();
        wal.sync_all().unwrap();
        append(&wal, commit(500, 10)).unwrap();
        wal.sync_all().unwrap();
    }
    let (found, summary) = seqs(&s.disk, 1, &[], Lsn::ZERO).unwrap();
    assert_eq!((found, summary.max_seq_seen), (dense(10), 500));
    let (_, wal) = s.open(512, true);
    fill(&wal, 501..=505);
    let (found, _) = seqs(&s.disk, 1, &s.boundaries, Lsn::ZERO).unwrap();
    assert_eq!(found, [dense(10), (501..=505).collect()].concat());
}

#[test]
fn a_first_life_that_died_at_once_leaves_an_empty_log() {
    for n in 1..30 {
        let disk = FaultyDisk::new(n);
        disk.crash_at(n);
        let made = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options(4096));
        for mode in Crash::ALL {
            let after = disk.crash(mode);
            let (found, summary) = seqs(&after, 1, &[], Lsn::ZERO).unwrap();
            assert_eq!((found, summary.end), (vec![], Lsn::new(1, 64)));
            // The next epoch follows, dies before its boundary, and is forgotten too.
            let wal = Wal::create(
                after.shared(),
                store(),
                2,
                summary.next_segment.max(2),
                summary.files,
                options(4096),
            )
            .unwrap();
            fill(&wal, 1..=3);
            assert_eq!(seqs(&after, 1, &[], Lsn::ZERO).unwrap().0, [], "call {n}, {mode:?}");
        }
        if made.is_ok() {
            return;
        }
    }
    panic!("the log is made in less than 30 calls");
}

#[test]
fn recycled_segments_never_give_old_content() {
    let disk = FaultyDisk::new(4);
    let wal = create(&disk, 512);
    let mut rng = StdRng::seed_from_u64(4);
    let mut first_live = 1;
    let mut below = 0;
    let mut firsts = std::collections::BTreeMap::new();
    for seq in 1..=400u64 {
        let before = wal.written_lsn();
        append(&wal, commit(seq, rng.gen_range(0..300))).unwrap();
        wal.sync_all().unwrap();
        firsts.insert(seq, before);
        if rng.gen_bool(0.2) {
            // Everything but the last few records is flushed: release what lies before them.
            below = seq - rng.gen_range(0..3).min(seq - 1);
            first_live = firsts[&below].segment().max(first_live);
            wal.release_before(first_live);
        }
        wal.tick();
        let (found, summary) = seqs(&disk.crash(Crash::Drop), first_live, &[], wal.durable_lsn()).unwrap();
        assert!(found.last() == Some(&seq) && found[0] <= below.max(1), "{found:?} at {seq}");
        assert!(found.windows(2).all(|w| w[0] + 1 == w[1]), "{found:?}");
        assert!(summary.end >= wal.durable_lsn());
    }
    let files = disk.files().len();
    assert!(files < 14 && wal.written_lsn().segment() > 100, "{files} files for 400 records");
}

/// Files go round until all were used; then those that are ready have no record yet.
#[test]
fn a_used_file_is_cleared_after_few_syncs() {
    for syncs_each in [false, true] {
        let disk = FaultyDisk::new(4);
        let options = WalOptions { sync_mode: SyncMode::None, ..options(512) };
        let wal = Wal::create(disk.shared(), store(), 1, 1, LogFiles::default(), options).unwrap();
        let mut cleared = 0;
        for seq in 1..=400 {
            let ticket = append(&wal, commit(seq, 60)).unwrap();
            wal.wait_written(ticket).unwrap();
            if syncs_each {
                wal.sync_all().unwrap();
            }
            if seq % 10 > 0 {
                continue;
            }
            wal.release_before(wal.written_lsn().segment());
            wal.tick();
            if seq > 200 {
                let contents = disk.files().into_iter().map(|path| disk.contents(&path).unwrap());
                let is_clear =
                    |bytes: &Vec<u8>| bytes[SEGMENT_HEADER as usize..].iter().all(|&byte| byte == 0);
                cleared += contents.filter(is_clear).count();
            }
        }
        assert_eq!(cleared > 0, !syncs_each, "{syncs_each}: {cleared}");
    }
}

#[test]
fn held_segments_are_neither_reused_nor_removed() {
    let disk = FaultyDisk::new(4);
    let wal = create(&disk, 512);
    fill(&wal, 1..=20);
    let hold = wal.hold_recycling();
    let held: Vec<_> = disk.files().into_iter().map(|p| (disk.contents(&p).unwrap(), p)).collect();
    let live = wal.live_segments().len();
    wal.release_before(wal.written_lsn().segment());
    assert_eq!(wal.live_segments().len(), 1);
    fill(&wal, 21..=60);
    wal.tick();
    for (bytes, path) in &held[..live - 1] {
        assert_eq!(disk.contents(path).as_ref(), Some(bytes), "{}", path.display());
    }
    let files = disk.files().len();
    drop(hold);
    wal.tick();
    fill(&wal, 61..=70);
    assert!(disk.files().len() < files);
    assert!(held[..live - 1].iter().any(|(bytes, path)| disk.contents(path).as_ref() != Some(bytes)));
}

#[test]
fn a_segment_id_stays_with_its_file_when_preparing_fails() {
    // Preparing fails at each call in turn; a later attempt succeeds, and no two files carry one id.
    for n in 1..40 {
        let disk = FaultyDisk::new(n);
        let wal = create(&disk, MIN_SEGMENT);
        fill(&wal, 1..=2);
        wal.release_before(wal.written_lsn().segment());
        disk.fail_call(disk.calls() + n, Failure::Eio);
        let mut seq = 2;
        while seq < 12 {
            match append(&wal, commit(seq + 1, 100)) {
                Ok(_) => seq += 1,
                Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
            }
        }
        if wal.sync_all().is_ok() {
            for mode in [Crash::Drop, Crash::Kill] {
                let (found, _) = seqs(&disk.crash(mode), 1 + (n > 1000) as u32, &[], Lsn::ZERO)
                    .or_else(|_| seqs(&disk.crash(mode), wal.live_segments()[0].0, &[], Lsn::ZERO))
                    .unwrap();
                assert_eq!(found.last(), Some(&12), "call {n}");
            }
        }
    }
}
