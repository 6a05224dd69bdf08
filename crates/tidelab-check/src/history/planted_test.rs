//! The checker finds planted anomalies by their names, and passes right histories.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::anomaly::{Class, Rung};
use super::judge::{judge, Promise, Report};
use super::moments::Gaps;
use super::record::{Access, Element, History, Key, Kind, Outcome, Statement, Transaction};
use super::simulator::{Bug, Isolation, Simulator};

const SEEDS: u64 = 12;
const TRANSACTIONS: usize = 700;

fn promise(rung: Rung) -> Promise {
    Promise { rung, gaps: Gaps::Ranges }
}

fn rung_of(isolation: Isolation) -> Rung {
    match isolation {
        Isolation::ReadCommitted => Rung::Statements,
        Isolation::Snapshot => Rung::Snapshot,
        Isolation::Serializable => Rung::Serial,
    }
}

fn broken(report: &Report) -> Vec<Class> {
    let mut classes: Vec<Class> = report.broken.iter().map(|anomaly| anomaly.class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

fn texts(report: &Report) -> String {
    report.broken.iter().map(|anomaly| format!("{anomaly}\n")).collect()
}

#[test]
fn a_correct_store_passes_and_shows_what_its_level_allows() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
        let mut allowed = Vec::new();
        for seed in 0..2 * SEEDS {
            let history = Simulator::history(isolation, Bug::None, seed, TRANSACTIONS);
            let committed = history.transactions.iter().filter(|t| t.outcome == Outcome::Committed).count();
            assert!(committed > TRANSACTIONS / 5, "{isolation:?}, seed {seed}: {committed} commits");
            let report = judge(&history, promise(rung_of(isolation)));
            assert!(report.broken.is_empty(), "{isolation:?}, seed {seed}: {}", texts(&report));
            allowed.extend(report.allowed.into_keys());
        }
        let has = |classes: &[Class]| classes.iter().any(|class| allowed.contains(class));
        match isolation {
            Isolation::ReadCommitted => assert!(has(&[Class::GSingle, Class::LostUpdate]), "{allowed:?}"),
            Isolation::Snapshot => assert!(has(&[Class::G2Item, Class::G2]), "{allowed:?}"),
            Isolation::Serializable => assert!(allowed.is_empty(), "{allowed:?}"),
        }
    }
}

/// A good part of the histories show the bug, by one of these names.
fn planted(isolation: Isolation, bug: Bug, names: &[Class]) {
    planted_at(isolation, bug, rung_of(isolation), names);
}

fn planted_at(isolation: Isolation, bug: Bug, rung: Rung, names: &[Class]) {
    let mut named = 0;
    for seed in 0..SEEDS {
        let history = Simulator::history(isolation, bug, seed, TRANSACTIONS);
        let found = broken(&judge(&history, promise(rung)));
        named += u64::from(names.iter().any(|name| found.contains(name)));
    }
    assert!(named >= SEEDS / 3, "{isolation:?} with {bug:?}: {named} of {SEEDS} histories show {names:?}");
}

#[test]
fn dirty_reads_are_found() {
    planted(Isolation::ReadCommitted, Bug::DirtyReads, &[Class::G1a]);
    planted(Isolation::ReadCommitted, Bug::DirtyReads, &[Class::G1b, Class::G1c]);
}

#[test]
fn what_rolled_back_and_stays_is_found() {
    planted(Isolation::Snapshot, Bug::KeepsAborted, &[Class::G1a]);
}

#[test]
fn forgotten_commits_are_found() {
    planted(
        Isolation::Serializable,
        Bug::ForgetsCommits,
        &[Class::LostWrite, Class::Internal, Class::LostUpdate, Class::G1c, Class::GSingle],
    );
}

#[test]
fn commits_in_pieces_are_found() {
    planted(Isolation::ReadCommitted, Bug::CommitsInPieces, &[Class::GSingle, Class::GNonadjacent]);
    planted(Isolation::Snapshot, Bug::CommitsInPieces, &[Class::GSingle, Class::GNonadjacent]);
}

#[test]
fn mixed_writes_are_found() {
    planted_at(
        Isolation::ReadCommitted,
        Bug::MixesWrites,
        Rung::Writes,
        &[Class::G0, Class::Orders, Class::LostWrite],
    );
}

#[test]
fn old_snapshots_are_found_by_the_time() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        planted(
            isolation,
            Bug::OldSnapshots,
            &[Class::GSingle, Class::GNonadjacent, Class::G1c, Class::LostUpdate],
        );
    }
}

#[test]
fn moving_snapshots_are_found() {
    planted(Isolation::Snapshot, Bug::MovingSnapshots, &[Class::GSingle, Class::GNonadjacent]);
}

#[test]
fn lost_updates_are_found() {
    planted(Isolation::Snapshot, Bug::MissesConflicts, &[Class::LostUpdate]);
}

#[test]
fn reads_that_lock_nothing_are_found_at_every_level() {
    planted_at(
        Isolation::ReadCommitted,
        Bug::ReadsWithoutLocks,
        Rung::Locks,
        &[Class::LostUpdate, Class::GSingle],
    );
}

#[test]
fn write_skews_are_found() {
    planted(Isolation::Serializable, Bug::MissesReads, &[Class::G2Item, Class::G2]);
    planted(Isolation::Serializable, Bug::MissesGaps, &[Class::G2]);
}

#[test]
fn hidden_own_writes_are_found() {
    planted(Isolation::ReadCommitted, Bug::HidesOwnWrites, &[Class::Internal]);
}

/// One read of a correct history becomes impossible: the checker sees it.
#[test]
fn every_corruption_of_a_serializable_history_is_found() {
    let mut done = [0; 5];
    for seed in 0..120 {
        let mut history = Simulator::history(Isolation::Serializable, Bug::None, seed, 300);
        let mut random = StdRng::seed_from_u64(seed);
        let way = random.random_range(0..done.len());
        if !corrupt(&mut history, way, &mut random) {
            continue;
        }
        done[way] += 1;
        let report = judge(&history, promise(Rung::Serial));
        assert!(!report.broken.is_empty(), "seed {seed}, way {way}");
    }
    assert!(done.iter().all(|times| *times > 5), "{done:?}");
}

fn corrupt(history: &mut History, way: usize, random: &mut StdRng) -> bool {
    let from = random.random_range(0..history.transactions.len());
    let ended: Vec<(Element, u64)> = history
        .transactions
        .iter()
        .filter(|t| t.outcome == Outcome::Committed)
        .flat_map(|t| t.writes().map(|(_, element)| (element, t.ended)))
        .collect();
    for transaction in history.transactions.iter_mut().skip(from) {
        if transaction.outcome != Outcome::Committed {
            continue;
        }
        if way == 0 {
            // An acknowledged commit was rolled back: another transaction read it, if it is a list.
            let lists = transaction.writes().any(|(key, _)| key.kind == Kind::List);
            if lists {
                transaction.outcome = Outcome::Aborted;
                return true;
            }
            continue;
        }
        let began = transaction.began;
        let own: Vec<Element> = transaction.writes().map(|(_, element)| element).collect();
        for statement in &mut transaction.statements {
            let Statement::Read { seen, .. } = statement else { continue };
            for (key, elements) in seen.iter_mut() {
                if elements.iter().any(|element| own.contains(element)) {
                    continue;
                }
                let Some(last) = elements.last().copied() else { continue };
                let old = ended.iter().any(|(element, ended)| *element == last && *ended < began);
                match way {
                    // Does not see a commit that came before its begin.
                    1 if old => {
                        elements.pop();
                        return true;
                    }
                    2 if key.kind == Kind::List && elements.len() > 2 => {
                        elements.swap(0, 1);
                        return true;
                    }
                    3 => {
                        elements.push(1 << 60);
                        return true;
                    }
                    4 if key.kind == Kind::List && elements.len() > 1 => {
                        elements.remove(0);
                        return true;
                    }
                    _ => {}
                }
            }
        }
    }
    false
}

// --- histories made by hand ---

fn list(id: u32) -> Key {
    Key { kind: Kind::List, id }
}

fn register(id: u32) -> Key {
    Key { kind: Kind::Register, id }
}

fn write(key: Key, element: Element) -> Statement {
    Statement::Write { key, element }
}

fn read(key: Key, elements: &[Element]) -> Statement {
    Statement::Read { access: Access::Plain, range: false, seen: vec![(key, elements.to_vec())] }
}

/// Transactions all at once: only their reads order them.
fn at_once(all: &[&[Statement]]) -> History {
    let transaction = |(client, statements): (usize, &&[Statement])| Transaction {
        client: u32::try_from(client).unwrap(),
        began: 1,
        ended: 2,
        outcome: Outcome::Committed,
        statements: statements.to_vec(),
    };
    History { transactions: all.iter().enumerate().map(transaction).collect() }
}

fn only(history: &History, rung: Rung) -> Class {
    let report = judge(history, promise(Rung::Serial));
    assert_eq!(report.broken.len(), 1, "{}", texts(&report));
    assert_eq!(report.broken[0].rung, rung, "{}", texts(&report));
    report.broken[0].class
}

#[test]
fn each_cycle_has_its_name() {
    let (x, y) = (list(1), list(2));
    let g0 = at_once(&[
        &[write(x, 1), write(y, 2)],
        &[write(x, 3), write(y, 4)],
        &[read(x, &[1, 3])],
        &[read(y, &[4, 2])],
    ]);
    assert_eq!(only(&g0, Rung::Writes), Class::G0);
    let g1c = at_once(&[&[write(x, 1), read(y, &[2])], &[write(y, 2), read(x, &[1])]]);
    assert_eq!(only(&g1c, Rung::Reads), Class::G1c);
    let skew = at_once(&[&[read(x, &[]), read(y, &[2])], &[write(x, 1), write(y, 2)], &[read(x, &[1])]]);
    assert_eq!(only(&skew, Rung::Snapshot), Class::GSingle);
    let lost = at_once(&[&[read(x, &[]), write(x, 1)], &[read(x, &[]), write(x, 2)], &[read(x, &[1, 2])]]);
    assert_eq!(only(&lost, Rung::Snapshot), Class::LostUpdate);
    let lost = at_once(&[
        &[read(register(1), &[]), write(register(1), 1)],
        &[read(register(1), &[]), write(register(1), 2)],
    ]);
    assert!(broken(&judge(&lost, promise(Rung::Snapshot))).contains(&Class::LostUpdate));
    assert!(judge(&lost, promise(Rung::Statements)).broken.is_empty());
    let phantom = at_once(&[
        &[read(x, &[]), write(y, 1)],
        &[read(y, &[]), write(x, 2)],
        &[read(x, &[2]), read(y, &[1])],
    ]);
    assert_eq!(only(&phantom, Rung::Serial), Class::G2);
    let write_skew = at_once(&[
        &[write(x, 1), write(y, 2)],
        &[read(x, &[1]), write(y, 3)],
        &[read(y, &[2]), write(x, 4)],
        &[read(x, &[1, 4]), read(y, &[2, 3])],
    ]);
    assert_eq!(only(&write_skew, Rung::Serial), Class::G2Item);
    // A long fork: two readers see two independent writes in different orders.
    let fork = at_once(&[
        &[write(x, 1)],
        &[write(y, 2)],
        &[read(x, &[1]), read(y, &[])],
        &[read(x, &[]), read(y, &[2])],
    ]);
    assert_eq!(only(&fork, Rung::Snapshot), Class::GNonadjacent);
}

#[test]
fn what_needs_no_cycle_has_its_name_too() {
    let (x, y) = (list(1), list(2));
    let after = |second: Statement| {
        let history = at_once(&[&[write(x, 1), write(x, 2)], &[second]]);
        broken(&judge(&history, promise(Rung::Serial)))
    };
    assert_eq!(after(read(x, &[1, 2])), []);
    assert_eq!(after(read(x, &[])), []);
    assert_eq!(after(read(x, &[1])), [Class::G1b]);
    assert!(after(read(x, &[1, 2, 7])).contains(&Class::Garbage));
    assert!(after(read(y, &[1])).contains(&Class::Garbage));
    assert!(after(read(x, &[1, 2, 1])).contains(&Class::Duplicate));
    let own = at_once(&[&[write(x, 1), read(x, &[])]]);
    assert_eq!(only(&own, Rung::Writes), Class::Internal);
    let own = at_once(&[&[write(register(1), 1), write(register(1), 2), read(register(1), &[1])]]);
    assert_eq!(only(&own, Rung::Writes), Class::Internal);
    let orders = at_once(&[&[write(x, 1)], &[write(x, 2)], &[read(x, &[1, 2])], &[read(x, &[2])]]);
    assert!(broken(&judge(&orders, promise(Rung::Writes))).contains(&Class::Orders));
    let mut aborted = at_once(&[&[write(x, 1)], &[read(x, &[1])]]);
    aborted.transactions[0].outcome = Outcome::Aborted;
    assert_eq!(only(&aborted, Rung::Reads), Class::G1a);
}

#[test]
fn statements_of_read_committed_see_whole_transactions() {
    let (x, y) = (list(1), list(2));
    let range = |a: &[Element], b: &[Element]| Statement::Read {
        access: Access::Plain,
        range: true,
        seen: vec![(x, a.to_vec()), (y, b.to_vec())],
    };
    let torn = at_once(&[&[write(x, 1), write(y, 2)], &[range(&[1], &[])], &[read(y, &[2])]]);
    assert_eq!(broken(&judge(&torn, promise(Rung::Statements))), [Class::GSingle]);
    assert!(judge(&torn, promise(Rung::Rows)).broken.is_empty());
    let moved = at_once(&[&[write(x, 1), write(y, 2)], &[range(&[], &[]), range(&[1], &[2])]]);
    assert!(judge(&moved, promise(Rung::Statements)).broken.is_empty());
    assert_eq!(broken(&judge(&moved, promise(Rung::Snapshot))), [Class::GSingle]);
    let back = at_once(&[&[write(x, 1), write(y, 2)], &[range(&[1], &[2]), range(&[], &[])]]);
    assert_eq!(broken(&judge(&back, promise(Rung::Statements))), [Class::GSingle]);
}

#[test]
fn locking_reads_of_what_is_not_there_count_as_the_level_says() {
    let x = list(1);
    let lock = |range| Statement::Read { access: Access::Exclusive, range, seen: vec![(x, vec![])] };
    let both =
        |range| at_once(&[&[lock(range), write(x, 1)], &[lock(range), write(x, 2)], &[read(x, &[1, 2])]]);
    let with = |range, gaps| judge(&both(range), Promise { rung: Rung::Snapshot, gaps }).broken.is_empty();
    assert!(with(false, Gaps::Open) && with(true, Gaps::Open) && with(true, Gaps::Keys));
    assert!(!with(false, Gaps::Keys) && !with(true, Gaps::Ranges));
}

#[test]
fn an_unknown_outcome_may_be_either() {
    let x = list(1);
    let mut history = at_once(&[&[write(x, 1)], &[read(x, &[1])]]);
    history.transactions[0].outcome = Outcome::Unknown;
    assert!(judge(&history, promise(Rung::Serial)).broken.is_empty());
    let mut history = at_once(&[&[write(x, 1)], &[read(x, &[])]]);
    history.transactions[0].outcome = Outcome::Unknown;
    history.transactions[1].began = 5;
    history.transactions[1].ended = 6;
    assert!(judge(&history, promise(Rung::Serial)).broken.is_empty());
    history.transactions[0].outcome = Outcome::Committed;
    assert_eq!(broken(&judge(&history, promise(Rung::Writes))), [Class::LostWrite]);
}

#[test]
fn a_cycle_is_told_so_that_one_can_follow_it() {
    let (x, y) = (list(1), list(2));
    let skew = at_once(&[&[read(x, &[]), read(y, &[2])], &[write(x, 1), write(y, 2)], &[read(x, &[1])]]);
    let report = judge(&skew, promise(Rung::Serial));
    assert_eq!(
        report.broken[0].to_string(),
        "G-single (read skew): 2 transactions
    T1 = client 0: read L1=[]; read L2=[2]
    T2 = client 1: append 1 to L1; append 2 to L2
    T1 before T2 (rw): T1 did not find L1, which T2 made with 1
    T2 before T1 (wr): T1 read 2 in L2, which T2 wrote"
    );
}
