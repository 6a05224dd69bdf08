//! Delta debugging: removes parts of a program while the difference stays.
//!
//! The order is: statements, columns in all statements at once, rows, terms, keys and everything else marked.
//! Halves are tried first, then quarters and so on down to single ones, until nothing goes or the time is
//! over.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::marks::Piece;
use super::program::Program;

/// Shrinking takes no longer.
const LIMIT: Duration = Duration::from_secs(60);

/// The pieces without an effect on the difference. `differs` runs the program without some pieces and returns
/// the statement at which it differs. An error ends the search with the result so far.
pub(super) fn shrink<E>(
    program: &Program,
    at: usize,
    mut differs: impl FnMut(&HashSet<Piece>) -> Result<Option<usize>, E>,
) -> HashSet<Piece> {
    let mut search = Search { program, removed: HashSet::new(), start: Instant::now(), over: false };
    search.cut_behind(at);
    let mut test = |removed: &HashSet<Piece>| differs(removed).map_err(drop);
    loop {
        let before = search.removed.len();
        let statements: Vec<Vec<Piece>> = program.loose_statements().into_iter().map(|s| vec![s]).collect();
        search.without(statements, &mut test);
        search.without(program.columns(), &mut test);
        let inner = program.inner(&search.removed).into_iter().map(|p| vec![p]).collect();
        search.without(inner, &mut test);
        if search.removed.len() == before || search.over {
            return search.removed;
        }
    }
}

struct Search<'a> {
    program: &'a Program,
    removed: HashSet<Piece>,
    start: Instant,
    over: bool,
}

impl Search<'_> {
    /// Statements after the difference do nothing for it.
    fn cut_behind(&mut self, at: usize) {
        self.removed.extend(self.program.statements().into_iter().skip(at + 1));
    }

    /// Takes groups of pieces out, many at a time first.
    fn without(
        &mut self,
        groups: Vec<Vec<Piece>>,
        differs: &mut impl FnMut(&HashSet<Piece>) -> Result<Option<usize>, ()>,
    ) {
        let mut left: Vec<Vec<Piece>> =
            groups.into_iter().filter(|g| g.iter().any(|p| !self.removed.contains(p))).collect();
        let mut size = left.len().div_ceil(2);
        while size > 0 && !left.is_empty() {
            let mut kept = Vec::new();
            for chunk in left.chunks(size) {
                if self.over || self.start.elapsed() > LIMIT {
                    self.over = true;
                    return;
                }
                let mut candidate = self.removed.clone();
                candidate.extend(chunk.iter().flatten());
                if candidate.len() == self.removed.len() {
                    continue; // it went with another one
                }
                match differs(&candidate) {
                    Ok(Some(at)) => {
                        self.removed = candidate;
                        self.cut_behind(at);
                    }
                    Ok(None) => kept.extend_from_slice(chunk),
                    Err(()) => self.over = true,
                }
            }
            left = kept;
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::marks::{list, of};
    use super::super::program::{Sort, Step};
    use super::*;

    fn program() -> Program {
        let create = list(", ", ["a", "b", "c"].map(|c| of("t", c, &format!("{c} INT"))));
        let row =
            |n: u32| format!("({})", list(", ", ["a", "b", "c"].map(|c| of("t", c, &format!("n{n}n")))));
        let mut steps = vec![Step::new(Sort::Definition, format!("CREATE TABLE t ({create})"))];
        for n in 0..40 {
            let rows = list(", ", (0..5).map(|i| row(n * 5 + i)));
            steps.push(Step::new(Sort::Change, format!("INSERT INTO t VALUES {rows}")));
        }
        steps.push(Step::new(Sort::Query, "SELECT b FROM t"));
        Program::new(steps)
    }

    #[test]
    fn what_matters_is_left() {
        let program = program();
        let mut runs = 0;
        // The difference needs the table with column b, the row 77, and the query.
        let texts = |removed: &HashSet<Piece>| -> Vec<String> {
            (0..program.steps.len()).filter_map(|i| program.text(i, removed, "")).collect()
        };
        let removed = shrink(&program, 41, |removed| {
            runs += 1;
            let texts = texts(removed);
            let has = |what: &str| texts.iter().any(|t| t.contains(what));
            let differs = has("b INT") && has("n77n") && has("SELECT b");
            Ok::<_, ()>(differs.then_some(41))
        });
        assert_eq!(
            texts(&removed),
            ["CREATE TABLE t (b INT)", "INSERT INTO t VALUES (n77n)", "SELECT b FROM t"]
        );
        assert!(runs < 200, "{runs} runs");
    }

    #[test]
    fn a_statement_that_stays_is_left() {
        let mut program = program();
        program.steps[7].stays = true;
        let removed = shrink(&program, 41, |_| Ok::<_, ()>(Some(41)));
        let left: Vec<usize> =
            (0..42).filter(|step| !removed.contains(&program.statements()[*step])).collect();
        assert_eq!(left, [7]);
    }

    #[test]
    fn what_stands_behind_goes_at_once_and_an_error_ends_it() {
        let program = program();
        let removed = shrink(&program, 3, |_| Err(()));
        let left = (0..program.steps.len()).filter(|i| program.text(*i, &removed, "").is_some()).count();
        assert_eq!(left, 4);
    }
}
