//! A program: the statements of one round, in order, with the known facts of each answer.

use std::collections::{BTreeMap, HashSet};

use super::marks::{Piece, Sentence};

/// The kind of a statement: decides the comparison of its two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// SELECT: also run in other ways, with the same rows.
    Query,
    /// It changes rows.
    Change,
    /// It changes definitions. Its warnings and counts tell how it was done.
    Definition,
    /// BEGIN, COMMIT, SET and the like; HANDLER.
    Control,
    /// CHECK, CHECKSUM, SHOW CREATE: rows with names of the database and the engine.
    Look,
    /// The answer is the engine's own (ANALYZE, OPTIMIZE).
    Quiet,
}

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Its text, with marks.
    pub(super) text: String,
    pub(super) sort: Sort,
    /// The order of its rows, or of its changes, is total: answers are equal in order.
    pub(super) ordered: bool,
    /// Keys for reading the table at the hint.
    pub(super) keys: Vec<String>,
    /// The end of InnoDB's statement: its way of doing an ALTER, without an effect on the table.
    pub(super) innodb: &'static str,
    /// Warnings come as often as the engine computes a virtual column: no promise.
    pub(super) virtuals: bool,
    /// For an inspection of the state, not a statement of the program.
    pub(super) looks: bool,
    /// Without it the engines may differ later as they promise: it stays when a program is shrunk.
    pub(super) stays: bool,
}

impl Step {
    pub(super) fn new(sort: Sort, text: impl Into<String>) -> Step {
        Step {
            text: text.into(),
            sort,
            ordered: false,
            keys: Vec::new(),
            innodb: "",
            virtuals: false,
            looks: false,
            stays: false,
        }
    }

    pub(super) fn ordered(mut self, ordered: bool) -> Step {
        self.ordered = ordered;
        self
    }

    pub(super) fn virtuals(mut self, virtuals: bool) -> Step {
        self.virtuals = virtuals;
        self
    }

    pub(super) fn keys(mut self, keys: Vec<String>) -> Step {
        self.keys = keys;
        self
    }

    /// InnoDB does it by a copy.
    pub(super) fn innodb_copies(mut self) -> Step {
        self.innodb = ", ALGORITHM=COPY";
        self
    }

    pub(super) fn look(mut self) -> Step {
        self.looks = true;
        self
    }

    pub(super) fn stays(mut self) -> Step {
        self.stays = true;
        self
    }
}

/// Statements whose pieces have numbers over the whole program; a statement is a piece too.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    sentences: Vec<(Piece, Sentence)>,
}

impl Program {
    pub(super) fn new(steps: Vec<Step>) -> Program {
        let mut next = 0;
        let sentences = steps
            .iter()
            .map(|step| {
                let whole = next;
                next += 1;
                (whole, Sentence::read(&step.text, &mut next))
            })
            .collect();
        Program { steps, sentences }
    }

    /// A statement's text without these pieces; none where it goes as a whole.
    pub(super) fn text(&self, step: usize, removed: &HashSet<Piece>, hint: &str) -> Option<String> {
        let (whole, sentence) = &self.sentences[step];
        if removed.contains(whole) {
            return None;
        }
        let text = sentence.text(removed, hint);
        (!text.is_empty()).then_some(text)
    }

    /// The pieces for whole statements.
    pub(super) fn statements(&self) -> Vec<Piece> {
        self.sentences.iter().map(|(whole, _)| *whole).collect()
    }

    /// Those that may go when the program is shrunk.
    pub(super) fn loose_statements(&self) -> Vec<Piece> {
        let loose = |(step, (whole, _)): (&Step, &(Piece, Sentence))| (!step.stays).then_some(*whole);
        self.steps.iter().zip(&self.sentences).filter_map(loose).collect()
    }

    /// For each column all of its pieces.
    pub(super) fn columns(&self) -> Vec<Vec<Piece>> {
        let mut by_tag: BTreeMap<&str, Vec<Piece>> = BTreeMap::new();
        for (_, sentence) in &self.sentences {
            for (piece, tag) in sentence.pieces() {
                if let Some(tag) = tag {
                    by_tag.entry(tag).or_default().push(piece);
                }
            }
        }
        by_tag.into_values().collect()
    }

    /// The pieces within the remaining statements.
    pub(super) fn inner(&self, removed: &HashSet<Piece>) -> Vec<Piece> {
        self.sentences
            .iter()
            .filter(|(whole, _)| !removed.contains(whole))
            .flat_map(|(_, sentence)| sentence.pieces())
            .map(|(piece, _)| piece)
            .filter(|piece| !removed.contains(piece))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::marks::{list, of};
    use super::*;

    #[test]
    fn a_column_goes_from_all_statements() {
        let columns = || list(", ", [of("t", "a", "a"), of("t", "b", "b")]);
        let program = Program::new(vec![
            Step::new(Sort::Definition, format!("CREATE TABLE t ({})", columns())),
            Step::new(Sort::Query, format!("SELECT {} FROM t", columns())),
        ]);
        let tagged = program.columns();
        assert_eq!(tagged.len(), 2);
        let removed: HashSet<Piece> = tagged[0].iter().copied().collect();
        assert_eq!(program.text(1, &removed, "").as_deref(), Some("SELECT b FROM t"));
        assert_eq!(program.inner(&removed).len(), 2);
        let gone = HashSet::from([program.statements()[1]]);
        assert_eq!(program.text(1, &gone, ""), None);
    }
}
