//! Random programs of writes, snapshots, flushes, compactions, drops and reopenings alongside a model. Every
//! live snapshot reads the same before and after, and the picker comes to rest.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::test_store::{open, TestStore, DIR};
use crate::io::faulty::{Crash, FaultyDisk};
use crate::options::Compression;
use crate::types::MAX_SEQ;
use crate::version::OpenFor;

fn random_write(store: &mut TestStore, rng: &mut StdRng) {
    let family = 1 + rng.gen_range(0..4u32) * rng.gen_range(0..2u32);
    if store.dropped.contains(&family) {
        return;
    }
    let key = format!("key{:04}", rng.gen_range(0..if family == 1 { 400 } else { 20 }));
    let value = vec![b'v'; rng.gen_range(0..60)];
    let value = [store.seq.to_string().into_bytes(), value].concat();
    let put = rng.gen_bool(0.75);
    store.write(family, key.as_bytes(), put.then_some(&value));
}

/// Rows of several clients: the last row but one of each run comes with the next one.
#[test]
fn appended_runs_are_merged_with_the_end_of_their_level_alone() {
    let mut store = TestStore::new(FaultyDisk::new(1));
    (store.options.target_file_size, store.options.base_level_size) = (64 << 10, 1 << 20);
    store.family_options.compression = Compression::None;
    let runs = 60;
    for run in 0..runs {
        for at in (run * 50..run * 50 + 50).filter(|at| at % 50 != 48).chain((run > 0).then(|| run * 50 - 2))
        {
            store.write(1, format!("{at:08}").as_bytes(), Some(&[b'v'; 100]));
        }
        store.seal();
        store.flush(1).unwrap();
        while store.compact().unwrap().is_some() {}
    }
    store.check("at the end");
    let data = runs * 50 * 108;
    assert!(store.written > data / 2 && store.written < data * 9 / 4, "{} for {data}", store.written);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a random test with its model")]
fn every_live_snapshot_reads_the_same_before_and_after_flush_and_compaction() {
    let mut tasks = std::collections::BTreeSet::new();
    let mut cancelled = 0;
    for seed in 0..40u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut store = TestStore::new(FaultyDisk::new(seed));
        store.family_options.tombstone_density_trigger = if seed % 3 == 0 { 3000 } else { 0 };
        store.family_options.tombstone_density_min_entries = 10;
        store.family_options.min_levels = 1 + (seed % 4) as u32;
        for step in 0..rng.gen_range(100..400) {
            let what = format!("seed {seed} step {step}");
            match rng.gen_range(0..20) {
                0..=5 => (0..rng.gen_range(0..80)).for_each(|_| random_write(&mut store, &mut rng)),
                6 => store.live.push(store.seq),
                7 | 8 => {
                    if !store.live.is_empty() {
                        store.live.swap_remove(rng.gen_range(0..store.live.len()));
                    }
                }
                9..=11 => {
                    store.seal();
                    if rng.gen_bool(0.8) {
                        store.flush(rng.gen_range(1..=store.sealed.len())).unwrap();
                        store.check(&what);
                    }
                }
                12..=17 => {
                    if let Some(task) = store.compact().unwrap() {
                        let words: Vec<&str> = task.split_whitespace().collect();
                        tasks.insert(format!("{} {}", words[2], words[4]));
                        store.check(&format!("{what} {task}"));
                    }
                }
                18 => {
                    if store.rewrite_sparse(true).unwrap() {
                        tasks.insert("sparse".into());
                        store.check(&what);
                    }
                }
                _ if rng.gen_bool(0.3) => {
                    store.drop_family(rng.gen_range(2..5)).unwrap();
                    store.check(&what);
                }
                _ => {
                    store.versions.delete_obsolete().unwrap();
                    let epoch = store.versions.state().epoch;
                    store.disk = store.disk.crash(Crash::Drop);
                    store.versions = open(&store.disk, OpenFor::Write).unwrap();
                    assert!(store.versions.remove_unknown_files(&Default::default()).is_empty());
                    assert_eq!(store.versions.state().epoch, epoch + 1);
                    store.check(&what);
                }
            }
            assert!(store.reservations.is_empty());
        }

        // At rest: nothing is due, nothing is left over, old versions are gone.
        store.live.clear();
        store.seal();
        store.flush(store.sealed.len()).unwrap();
        let mut rest = 0;
        while store.compact().unwrap().is_some() || store.rewrite_sparse(true).unwrap() {
            rest += 1;
            assert!(rest < 1000, "seed {seed}: compaction does not end\n{}", store.versions.current());
        }
        store.check("at rest");
        cancelled += store.cancelled;
        for family in store.model.keys() {
            let expected = store.expected(*family, MAX_SEQ);
            for i in 0..400 {
                let key = format!("key{i:04}").into_bytes();
                assert_eq!(store.get(*family, &key, MAX_SEQ).as_ref(), expected.get(&key), "seed {seed}");
            }
        }
        let version = store.versions.current();
        for (family, levels) in version.families() {
            assert!(levels.l0.len() < 3, "seed {seed} family {family}\n{levels}");
        }
        store.versions.delete_obsolete().unwrap();
        let (live, _) = store.versions.live_files();
        let on_disk = store.disk.files().iter().filter(|p| p.extension().is_some_and(|e| e == "sst")).count();
        assert_eq!(on_disk, live.len(), "seed {seed}: files left over in {DIR}");
    }
    assert!(cancelled > 100, "{cancelled} pairs cancelled");
    let tasks: Vec<String> = tasks.into_iter().collect();
    for kind in ["Level0 merge", "LevelFull merge", "LevelFull move", "Tombstones merge", "sparse"] {
        assert!(tasks.iter().any(|task| task.starts_with(kind)), "{kind} was never run: {tasks:?}");
    }
}

#[test]
fn a_stopped_job_leaves_nothing_behind() {
    let mut store = TestStore::new(FaultyDisk::new(1));
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..3 {
        (0..600).for_each(|_| random_write(&mut store, &mut rng));
        store.seal();
        store.flush(1).unwrap();
    }
    store.versions.delete_obsolete().unwrap();
    let files = store.disk.files();
    store.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(store.compact().is_err());
    (0..600).for_each(|_| random_write(&mut store, &mut rng));
    store.seal();
    assert!(store.flush(1).is_err());
    store.versions.delete_obsolete().unwrap();
    assert_eq!(store.disk.files(), files);
    assert!(store.reservations.is_empty());
    store.stop.store(false, std::sync::atomic::Ordering::Relaxed);
    store.flush(1).unwrap();
    while store.compact().unwrap().is_some() {}
    store.check("after the stop");
}
