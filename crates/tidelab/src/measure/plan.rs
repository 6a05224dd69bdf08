//! The order of a run's steps, as data.
//!
//! Competitors take turns within each workload, and the turn rotates from round to round (A B C, B C A, C
//! A B). A drift of the machine then hits all of them.
//!
//! Each round starts on new tables. A workload with another number of rows afterwards gets new ones again: no
//! engine works on a larger table because it was fast before.

use tidelab_server::server::engine::Engine;
use tidelab_server::workload::sysbench::Workload;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the tables of all engines anew.
    Prepare,
    /// Give the optimizer statistics of them.
    Analyze(Engine),
    /// Update rows without measuring, for the following reads to meet versions and runs.
    Update(Engine),
    /// A measured run.
    Measure(Engine, Workload),
    /// Check the contents of the tables.
    Check(Engine),
}

/// The engines in the order of their turns in a round, counted from 0.
pub fn turns(engines: &[Engine], round: u32) -> Vec<Engine> {
    rotated(engines, round)
}

/// Competitors in the order of their turns in a round, counted from 0.
pub fn rotated<T: Clone>(competitors: &[T], round: u32) -> Vec<T> {
    let mut turns = competitors.to_vec();
    if !turns.is_empty() {
        turns.rotate_left(round as usize % competitors.len());
    }
    turns
}

/// The steps of a round, counted from 0.
pub fn round(engines: &[Engine], workloads: &[Workload], round: u32, update_phase: bool) -> Vec<Step> {
    let turns = turns(engines, round);
    let new_tables = || [Step::Prepare].into_iter().chain(turns.iter().copied().map(Step::Analyze));
    let mut steps: Vec<Step> = new_tables().collect();
    for (index, workload) in workloads.iter().enumerate() {
        if workload.changes_row_count() && index > 0 {
            steps.extend(turns.iter().copied().map(Step::Check));
            steps.extend(new_tables());
        }
        for engine in &turns {
            if workload.only_reads() && update_phase {
                steps.push(Step::Update(*engine));
            }
            steps.push(Step::Measure(*engine, *workload));
        }
    }
    steps.extend(turns.iter().map(|e| Step::Check(*e)));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Engine = Engine::TidesDb;
    const B: Engine = Engine::InnoDb;
    const C: Engine = Engine::RocksDb;

    #[test]
    fn turns_rotate() {
        let of = |round| turns(&[A, B, C], round);
        assert_eq!(
            (of(0), of(1), of(2), of(3)),
            (vec![A, B, C], vec![B, C, A], vec![C, A, B], vec![A, B, C])
        );
        assert_eq!(turns(&[], 5), []);
        assert_eq!(turns(&[B], 5), [B]);
    }

    #[test]
    fn in_three_rounds_each_engine_is_once_in_each_place() {
        for place in 0..3 {
            let mut seen: Vec<Engine> = (0..3).map(|r| turns(&[A, B, C], r)[place]).collect();
            seen.sort();
            assert_eq!(seen, [A, B, C]);
        }
    }

    #[test]
    fn competitors_alternate_within_a_workload() {
        let steps = round(&[A, B], &[Workload::PointSelect, Workload::Insert], 1, false);
        assert_eq!(
            steps,
            [
                Step::Prepare,
                Step::Analyze(B),
                Step::Analyze(A),
                Step::Measure(B, Workload::PointSelect),
                Step::Measure(A, Workload::PointSelect),
                Step::Check(B),
                Step::Check(A),
                Step::Prepare,
                Step::Analyze(B),
                Step::Analyze(A),
                Step::Measure(B, Workload::Insert),
                Step::Measure(A, Workload::Insert),
                Step::Check(B),
                Step::Check(A),
            ]
        );
    }

    #[test]
    fn updates_come_right_before_the_reads_and_only_there() {
        let steps = round(&[A], &[Workload::ReadOnly, Workload::WriteOnly, Workload::Delete], 0, true);
        assert_eq!(
            steps,
            [
                Step::Prepare,
                Step::Analyze(A),
                Step::Update(A),
                Step::Measure(A, Workload::ReadOnly),
                Step::Measure(A, Workload::WriteOnly),
                Step::Check(A),
                Step::Prepare,
                Step::Analyze(A),
                Step::Measure(A, Workload::Delete),
                Step::Check(A),
            ]
        );
    }

    #[test]
    fn a_first_workload_that_changes_rows_uses_the_tables_of_the_round() {
        let steps = round(&[A], &[Workload::Insert], 0, true);
        assert_eq!(
            steps,
            [Step::Prepare, Step::Analyze(A), Step::Measure(A, Workload::Insert), Step::Check(A)]
        );
    }

    #[test]
    fn every_load_of_every_engine_is_followed_by_statistics() {
        let engines = [A, B, C];
        for r in 0..3 {
            let steps = round(&engines, &Workload::ALL, r, true);
            for (place, step) in steps.iter().enumerate() {
                if *step == Step::Prepare {
                    let analyzed = turns(&engines, r).into_iter().map(Step::Analyze);
                    assert!(steps[place + 1..].iter().copied().take(3).eq(analyzed));
                }
            }
            let of = |e: Engine| steps.iter().filter(|s| **s == Step::Analyze(e)).count();
            assert_eq!([of(A), of(B), of(C)], [3; 3], "the round's tables, those of insert, those of delete");
        }
    }

    #[test]
    fn whatever_is_measured_is_checked_before_its_tables_go() {
        let engines = [A, B, C];
        let steps: Vec<Step> = (0..5).flat_map(|r| round(&engines, &Workload::ALL, r, true)).collect();
        for engine in engines {
            let mut unchecked = false;
            for step in &steps {
                match *step {
                    Step::Prepare => assert!(!unchecked, "tables dropped unchecked"),
                    Step::Measure(e, _) | Step::Update(e) if e == engine => unchecked = true,
                    Step::Check(e) if e == engine => unchecked = false,
                    _ => {}
                }
            }
            assert!(!unchecked);
        }
        assert_eq!(steps.iter().filter(|s| matches!(s, Step::Measure(..))).count(), 8 * 3 * 5);
    }
}
