//! Tests of the picker by printed shapes, with the expected task below each, and at random: concurrent tasks
//! stay apart, levels stay sorted, and picking ends.

use std::fmt::Write;

use expect_test::{expect, Expect};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::table::Expiries;

use super::picker::{debt, pick, Bounds, FamilyShape, TableShape, Task};
use crate::version::reservations::Output;

fn bounds() -> Bounds {
    Bounds {
        trigger: 4,
        stop: 100,
        base_level_size: 100,
        small_run: 5,
        target_file_size: 20,
        ratio: 10,
        min_levels: 1,
        tombstone_density: 0,
        tombstone_min_entries: 10,
        oldest_snapshot: 1000,
        expired_at: 0,
    }
}

/// A shape from lines such as `L0 9:a-f=30 8:b-c=2!`: file, least and greatest key, bytes. Suffixes: `!` held
/// by a job, `w20` bytes of values in value files, `t5` tombstones, `v50` dead versions, `e60` entries expiring from second 50 to 150, `s` for a
/// place in a much longer file. Further lines: `cursor L5 m`, `output L6 a-f`. Each table has 100 entries.
fn shape(text: &str) -> FamilyShape<'_> {
    let mut shape = FamilyShape::default();
    let mut cursors = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap();
        let level = |word: &str| word[1..].parse::<u8>().unwrap();
        match first {
            "cursor" => {
                let l = level(words.next().unwrap());
                cursors.push((l, words.next().unwrap().as_bytes().to_vec()));
            }
            "output" => {
                let l = level(words.next().unwrap());
                let (min, max) = words.next().unwrap().split_once('-').unwrap();
                shape.outputs.push(Output { level: l, min_key: min.into(), max_key: max.into() });
            }
            _ => {
                let runs = words.map(|word| {
                    let (file, rest) = word.split_once(':').unwrap();
                    let (keys, rest) = rest.split_once('=').unwrap();
                    let (min, max) = keys.split_once('-').unwrap();
                    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                    let len: u64 = rest[..digits].parse().unwrap();
                    let flags = &rest[digits..];
                    let number = |flag: char| {
                        let at = flags.find(flag)? + 1;
                        let end =
                            flags[at..].find(|c: char| !c.is_ascii_digit()).map_or(flags.len(), |e| at + e);
                        flags[at..end].parse::<u64>().ok()
                    };
                    TableShape {
                        file: file.parse().unwrap(),
                        len,
                        value_len: number('w').unwrap_or(0),
                        file_len: if flags.contains('s') { len * 10 } else { len },
                        min_key: min.as_bytes(),
                        max_key: max.as_bytes(),
                        entries: 100 + number('v').unwrap_or(0),
                        keys: 100,
                        tombstones: number('t').unwrap_or(0),
                        max_seq: 500,
                        expiry: number('e').map(|entries| Expiries { oldest: 50, newest: 150, entries }),
                        busy: flags.contains('!'),
                    }
                });
                match level(first) as usize {
                    0 => shape.l0 = runs.collect(),
                    l => {
                        if shape.levels.len() < l {
                            shape.levels.resize_with(l, Vec::new);
                        }
                        shape.levels[l - 1] = runs.collect();
                    }
                }
            }
        }
    }
    shape.cursors = Box::leak(cursors.into_boxed_slice());
    shape
}

fn check(bounds: &Bounds, cases: &[&str], expected: Expect) {
    let mut out = String::new();
    for case in cases {
        let shape = shape(case);
        let task = pick(&shape, bounds).map_or("nothing".to_string(), |task| task.to_string());
        let one_line: Vec<&str> = case.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        writeln!(out, "{}\n    {task}", one_line.join(" | ")).unwrap();
    }
    expected.assert_eq(&out);
}

#[test]
fn level_0() {
    check(
        &bounds(),
        &[
            "L0 1:a-z=50",
            // Cheap: nothing below, or little.
            "L0 2:a-f=10 1:a-z=10",
            "L0 2:a-f=10 1:a-z=10\nL6 3:a-k=20 4:l-z=20",
            // Not cheap, below the trigger.
            "L0 2:a-f=10 1:a-z=10\nL6 3:a-k=30 4:l-z=30",
            // The trigger.
            "L0 5:a-f=10 4:a-b=10 3:a-c=10 2:a-f=10\nL6 3:a-k=50 4:l-z=48",
            // The bottom is full: the base level is above it.
            "L0 5:a-f=10 4:a-b=10 3:a-c=10 2:a-f=10\nL6 3:a-k=50 4:l-z=60",
            // Small runs above a large base.
            "L0 5:a-f=1 4:a-b=1 3:a-c=1 2:a-f=1\nL6 3:a-k=50 4:l-z=48",
            // Apart from each other and from the base: moved.
            "L0 4:m-n=10 3:i-k=10 2:e-g=10 1:a-c=10\nL6 9:o-z=50",
            // ... not when they stand in shared files, nor with tombstones into the last level.
            "L0 4:m-n=10 3:i-k=10s 2:e-g=10 1:a-c=10\nL6 9:o-z=50",
            "L0 4:m-n=10 3:i-k=10t3 2:e-g=10 1:a-c=10\nL6 9:o-z=50",
        ],
        expect![[r#"
            L0 1:a-z=50
                nothing
            L0 2:a-f=10 1:a-z=10
                Level0 1000: merge L0 [2, 1] to L6 [a..z]
            L0 2:a-f=10 1:a-z=10 | L6 3:a-k=20 4:l-z=20
                Level0 1000: merge L0 [2, 1] with L6 [3, 4] to L6 [a..z]
            L0 2:a-f=10 1:a-z=10 | L6 3:a-k=30 4:l-z=30
                nothing
            L0 5:a-f=10 4:a-b=10 3:a-c=10 2:a-f=10 | L6 3:a-k=50 4:l-z=48
                Level0 1000: merge L0 [5, 4, 3, 2] with L6 [3] to L6 [a..k]
            L0 5:a-f=10 4:a-b=10 3:a-c=10 2:a-f=10 | L6 3:a-k=50 4:l-z=60
                Level0 1000: merge L0 [5, 4, 3, 2] with L6 [3] to L6 [a..k]
            L0 5:a-f=1 4:a-b=1 3:a-c=1 2:a-f=1 | L6 3:a-k=50 4:l-z=48
                Level0Small 1000: merge L0 [5, 4, 3, 2] to L0 [a..f]
            L0 4:m-n=10 3:i-k=10 2:e-g=10 1:a-c=10 | L6 9:o-z=50
                Level0 1000: move L0 [4, 3, 2, 1] to L6 [a..n]
            L0 4:m-n=10 3:i-k=10s 2:e-g=10 1:a-c=10 | L6 9:o-z=50
                Level0 1000: merge L0 [4, 3, 2, 1] to L6 [a..n]
            L0 4:m-n=10 3:i-k=10t3 2:e-g=10 1:a-c=10 | L6 9:o-z=50
                Level0 1000: merge L0 [4, 3, 2, 1] to L6 [a..n]
        "#]],
    );
}

/// Values count in the sizes of levels, and the bytes of tables alone in what a merge costs.
#[test]
fn values_in_value_files() {
    check(
        &bounds(),
        &[
            // An eighth of the values below, and of the base level's size.
            "L0 2:a-f=1w10 1:a-f=1w5\nL6 3:a-z=20w80",
            "L0 2:a-f=1w6 1:a-f=1w5\nL6 3:a-z=20w80",
            "L0 2:a-f=1w10 1:a-f=1w5\nL6 3:a-z=20w480",
            // One run hides no more than a flush.
            "L0 1:a-f=1w50\nL6 3:a-z=20w80",
            // A level that is full of values.
            "L0 1:a-f=1\nL5 2:a-f=5w200\nL6 3:a-k=20w900 4:l-z=20w900",
        ],
        expect![[r#"
            L0 2:a-f=1w10 1:a-f=1w5 | L6 3:a-z=20w80
                Level0 1250: merge L0 [2, 1] with L6 [3] to L6 [a..z]
            L0 2:a-f=1w6 1:a-f=1w5 | L6 3:a-z=20w80
                nothing
            L0 2:a-f=1w10 1:a-f=1w5 | L6 3:a-z=20w480
                Level0 1000: merge L0 [2, 1] to L5 [a..f]
            L0 1:a-f=1w50 | L6 3:a-z=20w80
                nothing
            L0 1:a-f=1 | L5 2:a-f=5w200 | L6 3:a-k=20w900 4:l-z=20w900
                LevelFull 1114: merge L5 [2] with L6 [3] to L6 [a..k]
        "#]],
    );
    let full = shape("L0 1:a-f=1\nL5 2:a-f=5w200\nL6 3:a-k=20w900 4:l-z=20w900");
    assert!(debt(&full, &bounds()) < 20, "a part of the tables: {}", debt(&full, &bounds()));
}

/// Both are due, and the level below is the fuller one.
#[test]
fn level_0_comes_first_where_the_next_run_stops_writers() {
    let both =
        "L0 8:a-f=9 7:a-f=9 6:a-f=9 5:a-f=9\nL5 9:a-f=90 10:g-k=90 11:l-p=90\nL6 12:a-k=999 13:l-z=999";
    for (stop, first) in [(6, "LevelFull"), (5, "Level0")] {
        let shape = shape(both);
        let task = pick(&shape, &Bounds { stop, ..bounds() }).unwrap();
        assert_eq!(format!("{:?}", task.reason), first, "stop at {stop}: {task}");
    }
}

#[test]
fn level_0_beside_running_jobs() {
    check(
        &bounds(),
        &[
            // The oldest is on its way down: the newer ones merge among themselves.
            "L0 6:a-f=9 5:a-f=9 4:a-b=8 3:a-c=10! 2:a-f=10!\nL6 7:a-k=50!",
            // The base is held.
            "L0 6:a-f=9 5:a-f=9 4:a-b=8 3:a-c=8\nL6 7:a-k=50!",
            // Nobody holds a table, but a job puts one there.
            "L0 6:a-f=9 5:a-f=9 4:a-b=8 3:a-c=8\noutput L6 f-k",
            "L0 6:a-f=9 5:a-f=9 4:a-b=8 3:a-c=8\noutput L6 g-k",
            // A flush holds the newest run.
            "L0 6:a-f=9! 5:a-f=9 4:a-b=8 3:a-c=8 2:a-c=8",
            // Nothing can be done.
            "L0 6:a-f=9 5:a-f=9! 4:a-b=8 3:a-c=8!",
            // Long runs wait, as long as they are few; before they stop writers they merge too.
            "L0 8:a-f=30 7:a-f=30 6:a-f=30 5:a-f=30!\nL6 4:a-k=50!",
            "L0 9:a-f=30 8:a-f=30 7:a-f=30 6:a-f=30 5:a-f=30!\nL6 4:a-k=50!",
            "L0 10:a-f=1 9:a-f=30 8:a-f=30 7:a-f=30 6:a-f=30 5:a-f=30!\nL6 4:a-k=50!",
        ],
        expect![[r#"
            L0 6:a-f=9 5:a-f=9 4:a-b=8 3:a-c=10! 2:a-f=10! | L6 7:a-k=50!
                Level0Waiting 1000: merge L0 [6, 5, 4] to L0 [a..f]
            L0 6:a-f=9 5:a-f=9 4:a-b=8 3:a-c=8 | L6 7:a-k=50!
                Level0Waiting 1000: merge L0 [6, 5, 4, 3] to L0 [a..f]
            L0 6:a-f=9 5:a-f=9 4:a-b=8 3:a-c=8 | output L6 f-k
                Level0Waiting 1000: merge L0 [6, 5, 4, 3] to L0 [a..f]
            L0 6:a-f=9 5:a-f=9 4:a-b=8 3:a-c=8 | output L6 g-k
                Level0 1000: merge L0 [6, 5, 4, 3] to L6 [a..f]
            L0 6:a-f=9! 5:a-f=9 4:a-b=8 3:a-c=8 2:a-c=8
                Level0 1000: merge L0 [5, 4, 3, 2] to L6 [a..f]
            L0 6:a-f=9 5:a-f=9! 4:a-b=8 3:a-c=8!
                nothing
            L0 8:a-f=30 7:a-f=30 6:a-f=30 5:a-f=30! | L6 4:a-k=50!
                nothing
            L0 9:a-f=30 8:a-f=30 7:a-f=30 6:a-f=30 5:a-f=30! | L6 4:a-k=50!
                Level0Waiting 1200: merge L0 [9, 8, 7, 6] to L0 [a..f]
            L0 10:a-f=1 9:a-f=30 8:a-f=30 7:a-f=30 6:a-f=30 5:a-f=30! | L6 4:a-k=50!
                Level0Waiting 1250: merge L0 [9, 8, 7, 6] to L0 [a..f]
        "#]],
    );
}

#[test]
fn levels() {
    check(
        &bounds(),
        &[
            // Level 5 may hold a tenth of level 6.
            "L5 1:a-c=10 2:d-f=10\nL6 3:a-k=150 4:l-z=150",
            "L5 1:a-c=20 2:d-f=20\nL6 3:a-k=150 4:l-z=150",
            "L5 1:a-c=20 2:d-f=20\nL6 3:a-k=150 4:l-z=150\ncursor L5 c",
            "L5 1:a-c=20 2:d-f=20\nL6 3:a-k=150 4:l-z=150\ncursor L5 f",
            // Neighbours over the same overlap come along.
            "L5 1:a-c=10 2:d-f=10 5:m-n=20\nL6 3:a-k=150 4:l-z=150",
            // No overlap: moved, unless the target is held or a job puts something there.
            "L5 1:a-c=20 2:l-m=20\nL6 3:d-k=150 4:m-z=150",
            "L5 1:a-c=20 2:l-l=20\nL6 3:d-k=150 4:m-z=150!\noutput L6 a-b",
            // Held: the next one.
            "L5 1:a-c=40! 2:l-p=20 7:q-r=25\nL6 3:a-k=150! 4:l-z=150",
            "L5 1:a-c=20 2:d-f=20\nL6 3:a-k=150! 4:l-z=150",
            // What stands above the base level after much was deleted goes down.
            "L3 1:a-c=20\nL6 3:a-k=50",
        ],
        expect![[r#"
            L5 1:a-c=10 2:d-f=10 | L6 3:a-k=150 4:l-z=150
                nothing
            L5 1:a-c=20 2:d-f=20 | L6 3:a-k=150 4:l-z=150
                LevelFull 1333: merge L5 [1] with L6 [3] to L6 [a..k]
            L5 1:a-c=20 2:d-f=20 | L6 3:a-k=150 4:l-z=150 | cursor L5 c
                LevelFull 1333: merge L5 [2] with L6 [3] to L6 [a..k]
            L5 1:a-c=20 2:d-f=20 | L6 3:a-k=150 4:l-z=150 | cursor L5 f
                LevelFull 1333: merge L5 [1] with L6 [3] to L6 [a..k]
            L5 1:a-c=10 2:d-f=10 5:m-n=20 | L6 3:a-k=150 4:l-z=150
                LevelFull 1333: merge L5 [1, 2] with L6 [3] to L6 [a..k]
            L5 1:a-c=20 2:l-m=20 | L6 3:d-k=150 4:m-z=150
                LevelFull 1333: move L5 [1] to L6 [a..c]
            L5 1:a-c=20 2:l-l=20 | L6 3:d-k=150 4:m-z=150! | output L6 a-b
                LevelFull 1333: move L5 [2] to L6 [l..l]
            L5 1:a-c=40! 2:l-p=20 7:q-r=25 | L6 3:a-k=150! 4:l-z=150
                LevelFull 1500: merge L5 [2] with L6 [4] to L6 [l..z]
            L5 1:a-c=20 2:d-f=20 | L6 3:a-k=150! 4:l-z=150
                nothing
            L3 1:a-c=20 | L6 3:a-k=50
                LevelFull 20000: move L3 [1] to L4 [a..c]
        "#]],
    );
}

#[test]
fn tables_half_of_which_has_expired() {
    let half = Bounds { expired_at: 100, ..bounds() };
    let early = Bounds { oldest_snapshot: 400, ..half.clone() };
    let cases = [
        "L0 2:a-f=10e100",
        "L5 2:a-f=5e100\nL6 3:a-k=120",
        "L6 3:a-k=50 4:l-z=50e100",
        "L6 3:a-k=50e98",
        "L6 3:a-k=50e100!",
    ];
    check(
        &half,
        &cases,
        expect![[r#"
        L0 2:a-f=10e100
            Expired 400: merge L0 [2] to L6 [a..f]
        L5 2:a-f=5e100 | L6 3:a-k=120
            Expired 400: merge L5 [2] with L6 [3] to L6 [a..k]
        L6 3:a-k=50 4:l-z=50e100
            Expired 400: merge L6 [4] to L6 [l..z]
        L6 3:a-k=50e98
            nothing
        L6 3:a-k=50e100!
            nothing
        "#]],
    );
    check(
        &early,
        &cases[2..3],
        expect![[r#"
        L6 3:a-k=50 4:l-z=50e100
            nothing
        "#]],
    );
    check(
        &bounds(),
        &cases[2..3],
        expect![[r#"
        L6 3:a-k=50 4:l-z=50e100
            nothing
        "#]],
    );
}

#[test]
fn tombstones_and_dead_versions() {
    let dense = Bounds { tombstone_density: 2000, ..bounds() };
    let early = Bounds { oldest_snapshot: 400, ..dense.clone() };
    let cases = [
        "L0 2:a-f=10t20\nL6 3:a-k=50",
        "L5 2:a-f=5t20\nL6 3:a-k=120",
        "L5 2:a-f=5t19\nL6 3:a-k=120",
        "L6 3:a-k=50 4:l-z=50t30",
        "L6 3:a-k=50 4:l-z=50t30!",
        "L6 3:a-k=50v200",
        "L6 3:a-k=50v50",
    ];
    check(
        &dense,
        &cases,
        expect![[r#"
        L0 2:a-f=10t20 | L6 3:a-k=50
            Tombstones 900: merge L0 [2] with L6 [3] to L6 [a..k]
        L5 2:a-f=5t20 | L6 3:a-k=120
            Tombstones 900: merge L5 [2] with L6 [3] to L6 [a..k]
        L5 2:a-f=5t19 | L6 3:a-k=120
            nothing
        L6 3:a-k=50 4:l-z=50t30
            Tombstones 900: merge L6 [4] to L6 [l..z]
        L6 3:a-k=50 4:l-z=50t30!
            nothing
        L6 3:a-k=50v200
            DeadVersions 500: merge L6 [3] to L6 [a..k]
        L6 3:a-k=50v50
            nothing
    "#]],
    );
    check(
        &early,
        &cases,
        expect![[r#"
        L0 2:a-f=10t20 | L6 3:a-k=50
            Tombstones 900: merge L0 [2] with L6 [3] to L6 [a..k]
        L5 2:a-f=5t20 | L6 3:a-k=120
            Tombstones 900: merge L5 [2] with L6 [3] to L6 [a..k]
        L5 2:a-f=5t19 | L6 3:a-k=120
            nothing
        L6 3:a-k=50 4:l-z=50t30
            nothing
        L6 3:a-k=50 4:l-z=50t30!
            nothing
        L6 3:a-k=50v200
            nothing
        L6 3:a-k=50v50
            nothing
    "#]],
    );
}

#[test]
fn targets_follow_the_bottom() {
    let mut out = String::new();
    for (text, least) in [
        ("", 1),
        ("L6 3:a-k=100", 1),
        ("L6 3:a-k=101", 1),
        ("L6 3:a-k=5000", 1),
        ("L6 3:a-k=900000000", 1),
        ("L4 1:a-b=1\nL6 3:a-k=5000", 1),
        ("L2 1:a-b=1\nL6 3:a-k=5000", 1),
        ("", 3),
        ("", 8),
        ("L0 1:a-b=50 2:a-b=50 3:a-b=50 4:a-b=50\nL5 5:a-b=60\nL6 3:a-k=101", 1),
    ] {
        let shape = shape(text);
        let bounds = Bounds { min_levels: least, ..bounds() };
        let targets = shape.targets(&bounds);
        let levels = &targets.bytes[targets.base as usize..];
        let text = text.replace('\n', " | ");
        let debt = debt(&shape, &bounds);
        writeln!(out, "{text:<30} L{}..L{} {levels:?} debt {debt}", targets.base, targets.bottom).unwrap();
    }
    expect![[r#"
                                       L6..L6 [100] debt 0
        L6 3:a-k=100                   L6..L6 [100] debt 0
        L6 3:a-k=101                   L5..L6 [10, 101] debt 0
        L6 3:a-k=5000                  L4..L6 [50, 500, 5000] debt 0
        L6 3:a-k=900000000             L1..L6 [9000, 90000, 900000, 9000000, 90000000, 900000000] debt 0
        L4 1:a-b=1 | L6 3:a-k=5000     L4..L6 [50, 500, 5000] debt 0
        L2 1:a-b=1 | L6 3:a-k=5000     L2..L6 [1, 5, 50, 500, 5000] debt 0
                                       L4..L6 [1, 10, 100] debt 0
                                       L1..L8 [1, 1, 1, 1, 1, 1, 10, 100] debt 0
        L0 1:a-b=50 2:a-b=50 3:a-b=50 4:a-b=50 | L5 5:a-b=60 | L6 3:a-k=101 L5..L6 [10, 101] debt 607
    "#]]
    .assert_eq(&out);
}

/// A table of the simulation.
#[derive(Clone, Debug)]
struct Sim {
    file: u64,
    generation: u64,
    keys: std::collections::BTreeMap<u32, (u64, bool)>,
    min: Vec<u8>,
    max: Vec<u8>,
    entries: u64,
}

impl Sim {
    fn new(file: u64, generation: u64, keys: std::collections::BTreeMap<u32, (u64, bool)>) -> Sim {
        let name = |key: &u32| format!("{key:06}").into_bytes();
        let (min, max) = (name(keys.keys().next().unwrap()), name(keys.keys().next_back().unwrap()));
        let entries = keys.len() as u64;
        Sim { file, generation, keys, min, max, entries }
    }

    fn shape(&self, busy: bool) -> TableShape<'_> {
        TableShape {
            file: self.file,
            len: self.entries * 10,
            value_len: 0,
            file_len: self.entries * 10,
            min_key: &self.min,
            max_key: &self.max,
            entries: self.entries,
            keys: self.entries,
            tombstones: self.keys.values().filter(|(_, dead)| *dead).count() as u64,
            max_seq: 0,
            expiry: None,
            busy,
        }
    }
}

#[derive(Default)]
struct SimStore {
    l0: Vec<Sim>,
    levels: Vec<Vec<Sim>>,
    cursors: Vec<(u8, Vec<u8>)>,
    running: Vec<Task>,
    next_file: u64,
    model: std::collections::BTreeMap<u32, (u64, bool)>,
}

impl SimStore {
    fn with_shape<R>(&self, look: impl FnOnce(&FamilyShape<'_>) -> R) -> R {
        let busy = |file: u64| self.running.iter().any(|task| task.held().files.contains(&file));
        let shape = FamilyShape {
            l0: self.l0.iter().map(|run| run.shape(busy(run.file))).collect(),
            levels: self
                .levels
                .iter()
                .map(|level| level.iter().map(|run| run.shape(busy(run.file))).collect())
                .collect(),
            cursors: &self.cursors,
            outputs: self.running.iter().filter_map(|task| task.held().output).collect(),
        };
        look(&shape)
    }

    fn take(&mut self, level: u8, files: &[u64]) -> Vec<Sim> {
        let runs = if level == 0 { &mut self.l0 } else { &mut self.levels[level as usize - 1] };
        let taken: Vec<Sim> = runs.iter().filter(|run| files.contains(&run.file)).cloned().collect();
        assert_eq!(taken.len(), files.len(), "inputs are where the task says");
        runs.retain(|run| !files.contains(&run.file));
        taken
    }

    /// Ends the running task `at`; merges, newer entries over older ones.
    fn finish(&mut self, at: usize, bounds: &Bounds) {
        let task = self.running.remove(at);
        let inputs = self.take(task.from, &task.inputs);
        let overlaps = if task.overlaps.is_empty() { Vec::new() } else { self.take(task.to, &task.overlaps) };
        if let Some(cursor) = &task.cursor {
            self.cursors.retain(|(level, _)| *level != task.from);
            self.cursors.push((task.from, cursor.clone()));
        }
        let generation = inputs.iter().map(|run| run.generation).max().unwrap();
        let mut outputs = Vec::new();
        if task.moves {
            assert!(task.overlaps.is_empty());
            outputs = inputs;
        } else {
            let mut keys = std::collections::BTreeMap::new();
            for run in inputs.iter().chain(&overlaps) {
                for (key, entry) in &run.keys {
                    keys.entry(*key).or_insert(*entry);
                }
            }
            let below = |key: &u32| {
                let holds = |run: &Sim| run.keys.contains_key(key);
                let older = self.l0.iter().filter(|run| run.generation < generation);
                (task.to == 0 && older.clone().any(holds))
                    || self.levels.iter().skip(task.to as usize).flatten().any(holds)
            };
            keys.retain(|key, (_, dead)| !*dead || below(key));
            let all: Vec<_> = keys.into_iter().collect();
            let per_file =
                if task.to == 0 { usize::MAX } else { (bounds.target_file_size / 10).max(1) as usize };
            for part in all.chunks(per_file.min(all.len().max(1))) {
                self.next_file += 1;
                outputs.push(Sim::new(self.next_file, generation, part.iter().copied().collect()));
            }
        }
        let runs = match task.to {
            0 => &mut self.l0,
            level => {
                let level = level as usize;
                if self.levels.len() < level {
                    self.levels.resize_with(level, Vec::new);
                }
                &mut self.levels[level - 1]
            }
        };
        runs.extend(outputs);
        if task.to == 0 {
            self.l0.sort_by_key(|run| std::cmp::Reverse(run.generation));
        } else {
            runs.sort_by(|a, b| a.min.cmp(&b.min));
            for pair in runs.windows(2) {
                assert!(pair[0].max < pair[1].min, "level {} overlaps after {task}", task.to);
            }
        }
        while self.levels.last().is_some_and(Vec::is_empty) {
            self.levels.pop();
        }
    }

    fn check(&self) {
        let mut seen = std::collections::BTreeMap::new();
        for run in self.l0.iter().chain(self.levels.iter().flatten()) {
            for (key, entry) in &run.keys {
                seen.entry(*key).or_insert(*entry);
            }
        }
        seen.retain(|_, (_, dead)| !*dead);
        let mut model = self.model.clone();
        model.retain(|_, (_, dead)| !*dead);
        assert_eq!(seen, model);
    }
}

#[test]
fn tasks_at_the_same_time_stay_apart_and_picking_ends() {
    let mut together = 0;
    for seed in 0..150u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let bounds = Bounds {
            trigger: rng.gen_range(1..6),
            base_level_size: rng.gen_range(50..2000),
            small_run: rng.gen_range(1..200),
            target_file_size: rng.gen_range(20..400),
            ratio: rng.gen_range(2..8),
            min_levels: rng.gen_range(1..5),
            tombstone_density: [0, 3000][rng.gen_range(0..2)],
            ..bounds()
        };
        let space = [60, 400, 3000][rng.gen_range(0..3)];
        let sequential = rng.gen_bool(0.2);
        let mut store = SimStore::default();
        let (mut generation, mut seq) = (0, 0);
        for _ in 0..rng.gen_range(50..400) {
            match rng.gen_range(0..4) {
                0 => {
                    let mut keys = std::collections::BTreeMap::new();
                    let from = rng.gen_range(0..space);
                    for _ in 0..rng.gen_range(1..40) {
                        seq += 1;
                        let key = if sequential { seq as u32 } else { (from + rng.gen_range(0..50)) % space };
                        keys.insert(key, (seq, rng.gen_bool(0.2)));
                    }
                    store.model.extend(keys.clone());
                    (generation, store.next_file) = (generation + 1, store.next_file + 1);
                    store.l0.insert(0, Sim::new(store.next_file, generation, keys));
                }
                1 | 2 if store.running.len() < 4 => {
                    if let Some(task) = store.with_shape(|shape| pick(shape, &bounds)) {
                        for other in &store.running {
                            let files = other.held().files;
                            assert!(
                                task.held().files.iter().all(|file| !files.contains(file)),
                                "seed {seed}"
                            );
                            let apart = task.max_key < other.min_key || other.max_key < task.min_key;
                            assert!(
                                task.to == 0 || task.to != other.to || apart,
                                "seed {seed}\n{task}\n{other}"
                            );
                        }
                        together += usize::from(!store.running.is_empty());
                        store.running.push(task);
                    }
                }
                _ if !store.running.is_empty() => {
                    store.finish(rng.gen_range(0..store.running.len()), &bounds);
                    store.check();
                }
                _ => {}
            }
        }
        while !store.running.is_empty() {
            store.finish(0, &bounds);
        }
        for round in 0.. {
            let Some(task) = store.with_shape(|shape| pick(shape, &bounds)) else { break };
            assert!(round < 2000, "seed {seed} does not end: {task}");
            store.running.push(task);
            store.finish(0, &bounds);
        }
        store.check();
        assert!((store.l0.len() as u64) < bounds.trigger.max(2), "seed {seed}");
    }
    assert!(together > 100, "{together} tasks ran beside another");
}
