//! The short programs, with a crash at every call to the disk.

use tidesdb::SyncMode;

use super::state::{Step, Write};

fn put(family: &'static str, n: u32, seed: u64) -> Write {
    (family, n, Some((10 + (seed % 50) as usize, seed)))
}

fn commit(writes: &[Write]) -> Step {
    Step::Commit(None, writes.to_vec())
}

fn full(writes: &[Write]) -> Step {
    Step::Commit(Some(SyncMode::Full), writes.to_vec())
}

/// Commits of about `bytes` bytes in log and memtable.
fn filling(family: &'static str, count: u32, bytes: usize, seed: u64) -> Vec<Step> {
    (0..count).map(|n| commit(&[(family, n % 17, Some((bytes, seed + u64::from(n))))])).collect()
}

fn large(family: &'static str, seed: u64) -> Vec<Write> {
    (0..40u32).map(|n| (family, n, Some((28_000, seed + u64::from(n))))).collect()
}

/// The short programs: a name, whether the constants are tiny, the steps.
#[expect(clippy::too_many_lines, reason = "a table of programs")]
pub(super) fn short_programs() -> Vec<(&'static str, bool, Vec<Step>)> {
    use Step::*;
    let a = |n, seed| put("a", n, seed);
    let mut all: Vec<(&'static str, bool, Vec<Step>)> = vec![
        ("an empty store", true, vec![]),
        ("one commit", true, vec![Create("a"), commit(&[a(1, 1)])]),
        (
            "commits of many keys",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1), a(2, 2), put("b", 1, 3)]),
                commit(&[a(1, 4), ("a", 2, None), put("b", 2, 5)]),
                commit(&[("b", 1, None), ("b", 2, None), a(3, 6)]),
            ],
        ),
        (
            "commits of mixed modes",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                commit(&[a(2, 1)]),
                full(&[a(3, 1)]),
                commit(&[a(1, 2)]),
                commit(&[a(2, 2)]),
                Step::Commit(Some(SyncMode::Interval), vec![a(4, 2)]),
                full(&[a(3, 2)]),
                commit(&[a(1, 3)]),
            ],
        ),
        (
            "a sync of the log",
            true,
            vec![Create("a"), commit(&[a(1, 1)]), commit(&[a(2, 1)]), SyncLog, commit(&[a(3, 1)])],
        ),
        (
            "prepare and commit",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Prepare("x1", vec![a(2, 2), a(3, 2)]),
                Decide("x1", true),
                commit(&[a(2, 3)]),
            ],
        ),
        (
            "prepare and roll back",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Prepare("x1", vec![a(1, 2), a(3, 2)]),
                Decide("x1", false),
                commit(&[a(1, 3)]),
            ],
        ),
        (
            "prepared ones beside each other",
            true,
            vec![
                Create("a"),
                Prepare("x1", vec![a(1, 1)]),
                commit(&[a(7, 1)]),
                Prepare("x2", vec![a(2, 2), ("a", 7, None)]),
                Prepare("x3", vec![a(3, 3)]),
                Decide("x2", true),
                commit(&[a(8, 8)]),
                Decide("x1", false),
                commit(&[a(9, 8)]),
            ],
        ),
        (
            "prepared over a flush",
            true,
            vec![
                Create("a"),
                Prepare("x1", vec![a(1, 1)]),
                commit(&[a(2, 1)]),
                Flush,
                commit(&[a(3, 1)]),
                Decide("x1", true),
                Flush,
                commit(&[a(4, 4)]),
            ],
        ),
        (
            "rolled back over a flush",
            true,
            vec![
                Create("a"),
                Prepare("x1", vec![a(1, 1)]),
                commit(&[a(2, 1)]),
                Flush,
                Decide("x1", false),
                Flush,
                commit(&[a(1, 4)]),
                Flush,
            ],
        ),
        (
            "create, drop, create",
            true,
            vec![Create("a"), commit(&[a(1, 1)]), Drop("a"), Create("a"), commit(&[a(2, 2)]), Drop("a")],
        ),
        (
            "drop over a flush",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1), put("b", 1, 1)]),
                Flush,
                Drop("a"),
                commit(&[put("b", 2, 2)]),
                Flush,
                Create("a"),
                commit(&[a(3, 3)]),
            ],
        ),
        (
            "rename",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Rename("a", "b"),
                commit(&[put("b", 2, 2)]),
                Flush,
                Rename("b", "c"),
                commit(&[put("c", 1, 3)]),
            ],
        ),
        (
            "truncate",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1), a(2, 1)]),
                Truncate("a"),
                commit(&[a(2, 2)]),
                Flush,
                Truncate("a"),
                commit(&[a(3, 3)]),
            ],
        ),
        (
            "exchange",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1), put("b", 1, 2)]),
                Exchange("a", "b"),
                commit(&[a(2, 3)]),
                Flush,
                Exchange("a", "b"),
            ],
        ),
        (
            "records",
            true,
            vec![Create("a"), Record("a", 5), commit(&[a(1, 1)]), Flush, Record("a", 6), Record("a", 7)],
        ),
        (
            "a drop with a prepared transaction on it",
            true,
            vec![
                Create("a"),
                Create("b"),
                Prepare("x1", vec![a(1, 1), put("b", 1, 1)]),
                Drop("a"),
                commit(&[put("b", 2, 2)]),
                Flush,
                Decide("x1", true),
                commit(&[put("b", 3, 2)]),
            ],
        ),
        (
            "counters",
            true,
            vec![
                Create("a"),
                Take("a", 1),
                Take("a", 5),
                commit(&[a(1, 1)]),
                Take("a", 200),
                Raise("a", 10_000),
                Take("a", 1),
                Flush,
                Take("a", 3),
                Take("a", 500),
            ],
        ),
        (
            "counters of a truncated and a renamed family",
            true,
            vec![
                Create("a"),
                Take("a", 100),
                Rename("a", "b"),
                Take("b", 100),
                Truncate("b"),
                Take("b", 7),
                Flush,
                Take("b", 7),
            ],
        ),
        (
            "counters over restarts",
            true,
            vec![Create("a"), Take("a", 10), Reopen, Take("a", 10), Reopen, Take("a", 200), Reopen],
        ),
        (
            "restarts",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Reopen,
                commit(&[a(2, 2)]),
                Prepare("x1", vec![a(3, 3)]),
                Reopen,
                commit(&[a(4, 4)]),
                Reopen,
            ],
        ),
        (
            "flushes",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1), a(2, 1)]),
                Flush,
                commit(&[a(1, 2), ("a", 2, None)]),
                Flush,
                commit(&[a(3, 3)]),
                Flush,
            ],
        ),
        (
            "flushes of several families",
            true,
            vec![
                Create("a"),
                Create("b"),
                Create("c"),
                commit(&[a(1, 1), put("b", 1, 1), put("c", 1, 1)]),
                Flush,
                commit(&[put("b", 1, 2)]),
                Flush,
                commit(&[a(1, 3), put("c", 1, 3)]),
                Flush,
            ],
        ),
        (
            "a compaction",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1), a(2, 1), a(3, 1)]),
                Flush,
                commit(&[a(1, 2), ("a", 2, None)]),
                Compact("a"),
                commit(&[a(4, 4)]),
                Compact("a"),
            ],
        ),
        ("compactions of several files", true, {
            let mut steps = vec![Create("a")];
            steps.extend(filling("a", 60, 300, 1));
            steps.push(Compact("a"));
            steps.extend(filling("a", 30, 300, 100));
            steps.push(Compact("a"));
            steps
        }),
    ];
    let mut recycling = vec![Create("a")];
    recycling.extend(filling("a", 40, 3_000, 1));
    recycling.push(Flush);
    recycling.extend(filling("a", 30, 3_000, 100));
    all.push(("recycling of the log", true, recycling));
    let mut held = vec![Create("a"), Prepare("x1", vec![a(100, 1)])];
    held.extend(filling("a", 40, 3_000, 1));
    held.push(Flush);
    held.extend([Decide("x1", true), commit(&[a(101, 1)])]);
    held.extend(filling("a", 25, 3_000, 100));
    all.push(("a prepared transaction holds the log", true, held));
    let mut rolled = vec![Create("a"), Prepare("x1", vec![a(100, 1)])];
    rolled.extend(filling("a", 40, 3_000, 1));
    rolled.extend([Decide("x1", false), commit(&[a(100, 2)])]);
    rolled.extend(filling("a", 25, 3_000, 100));
    all.push(("a rolled back transaction held the log", true, rolled));
    all.push((
        "a large batch",
        false,
        vec![
            Create("a"),
            commit(&[a(1, 1)]),
            commit(&large("a", 100)),
            commit(&[a(2, 2)]),
            Flush,
            commit(&[a(3, 3)]),
        ],
    ));
    all.push((
        "a large batch, prepared",
        false,
        vec![
            Create("a"),
            Prepare("x1", large("a", 100)),
            commit(&[a(50, 1)]),
            Decide("x1", true),
            commit(&[a(2, 2)]),
        ],
    ));
    all.extend(spilled_programs());
    all.extend(loads());
    all.extend(positions());
    all
}

/// Programs with loads: of several tables in a family, in order and not, in the middle of commits.
fn loads() -> Vec<(&'static str, bool, Vec<Step>)> {
    use Step::*;
    let a = |n, seed| put("a", n, seed);
    let ascending = |family, count| (0..count).map(move |n| put(family, n, 700 + u64::from(n)));
    let both: Vec<Write> = ascending("a", 220).chain(ascending("b", 20)).collect();
    let mixed: Vec<Write> = ascending("b", 60).chain((60..150).rev().map(|n| put("b", n, 5))).collect();
    vec![
        (
            "a load and a flush",
            true,
            vec![
                Create("a"),
                Create("b"),
                Create("c"),
                commit(&[put("c", 1, 1)]),
                Load(both),
                commit(&[a(2, 2), ("a", 3, None), put("c", 2, 1)]),
                Flush,
                commit(&[a(300, 3)]),
                Compact("a"),
            ],
        ),
        (
            "loads over restarts",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1)]),
                Load(mixed),
                Truncate("a"),
                Load(ascending("a", 90).collect()),
                commit(&[a(2, 2), put("b", 3, 3)]),
                Reopen,
                commit(&[a(4, 4)]),
            ],
        ),
    ]
}

/// Writes larger than half of the tiny write buffer: `count` keys from `first` on, every fifth deleted. About
/// 50 of them fill it once.
fn spilling(family: &'static str, first: u32, count: u32, seed: u64) -> Vec<Write> {
    let write = |n| match n % 5 {
        4 => (family, n, None),
        _ => put(family, n, seed + u64::from(n)),
    };
    (first..first + count).map(write).collect()
}

/// Programs with transactions in runs.
#[allow(clippy::too_many_lines, reason = "a table of programs")]
fn spilled_programs() -> Vec<(&'static str, bool, Vec<Step>)> {
    use Step::*;
    let a = |n, seed| put("a", n, seed);
    let mut both = spilling("a", 0, 80, 300);
    both.extend(spilling("b", 20, 80, 400));
    both.extend(spilling("a", 30, 70, 500));
    vec![
        (
            "a spilled commit",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1), a(2, 1), a(95, 1)]),
                commit(&spilling("a", 0, 90, 100)),
                commit(&[a(2, 2), a(4, 4)]),
                Flush,
                commit(&[a(3, 3)]),
            ],
        ),
        (
            "a spilled commit, merged, of two families",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1), put("b", 21, 1)]),
                commit(&both),
                commit(&[a(31, 2), put("b", 22, 2)]),
                commit(&spilling("a", 25, 180, 600)),
                Compact("a"),
                commit(&[a(3, 3)]),
            ],
        ),
        (
            "spilled commits over restarts",
            true,
            vec![
                Create("a"),
                commit(&spilling("a", 0, 90, 100)),
                commit(&[a(1, 2)]),
                commit(&spilling("a", 10, 90, 200)),
                Reopen,
                commit(&[a(2, 2)]),
                commit(&spilling("a", 20, 180, 300)),
                Reopen,
                commit(&[a(3, 2)]),
            ],
        ),
        (
            "spilled, prepared and committed",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1)]),
                Prepare("x1", spilling("a", 0, 90, 100)),
                commit(&[put("b", 1, 1)]),
                Flush,
                Decide("x1", true),
                commit(&[a(2, 2)]),
                Flush,
                commit(&[a(3, 2)]),
            ],
        ),
        (
            "spilled, prepared and rolled back",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1)]),
                Prepare("x1", both),
                Decide("x1", false),
                commit(&[put("b", 1, 1), a(7, 7)]),
                Flush,
                commit(&[a(2, 2)]),
            ],
        ),
        (
            "a drop with a spilled and prepared transaction on it",
            true,
            vec![
                Create("a"),
                Create("b"),
                Prepare("x1", spilling("a", 0, 90, 100)),
                Drop("a"),
                commit(&[put("b", 2, 2)]),
                Flush,
                Decide("x1", true),
                commit(&[put("b", 3, 2)]),
            ],
        ),
    ]
}

/// Positions in a cluster's order; [`super::constants_of`] knows them by their name.
fn positions() -> Vec<(&'static str, bool, Vec<Step>)> {
    use Step::*;
    let a = |n, seed| put("a", n, seed);
    vec![
        (
            "positions without changes",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Position(5),
                Flush,
                Position(3),
                Reopen,
                commit(&[a(2, 1)]),
                Position(1),
                Flush,
                commit(&[a(3, 1)]),
                Position(9),
                Reopen,
                Position(8),
            ],
        ),
        (
            "positions of every form of commit",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Prepare("x1", vec![a(2, 2)]),
                commit(&spilling("a", 100, 90, 100)),
                Decide("x1", true),
                Flush,
                Prepare("x2", spilling("a", 300, 90, 100)),
                commit(&[a(4, 2)]),
                Decide("x2", true),
                commit(&[a(5, 2)]),
                Flush,
                commit(&[a(6, 2)]),
                commit(&[a(7, 2)]),
            ],
        ),
    ]
}
