//! Forms of a search: places of MATCH in statements, each with the rows it must return.

use std::collections::BTreeMap;

use super::super::session::{Failure, Session};
use super::super::sql::Dice;
use super::model::Outcome;
use super::snapshot::{Question, Row, Snapshot};
use super::table::{quote, TABLE};

/// How rows must stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Any,
    /// The best first.
    ByScore,
    /// So many of the best.
    Best(usize),
}

/// Statements of which the last one returns rows: a number, and the score or 0.
struct Ask {
    statements: Vec<String>,
    /// For each number how often it comes, and the score if the statement returns it.
    expected: BTreeMap<i64, (usize, Option<Outcome>)>,
    order: Order,
}

/// Relative and absolute tolerance of scores.
const TOLERANCE: f64 = 1e-4;
/// The grammar's error.
const PARSE_ERROR: u16 = 1064;
/// Kinds of forms.
pub(super) const FORMS: usize = 19;

/// Forms that take locks.
pub(super) const LOCKING: [usize; 9] = [0, 1, 2, 3, 4, 5, 6, 12, 13];

/// Asks the server in a form. The complaint, if its answer is another one than the model's.
pub(super) fn ask(
    dice: &mut Dice,
    session: &mut Session,
    form: usize,
    snapshot: &Snapshot,
    questions: &[Question; 2],
    lock: &str,
    sorts: bool,
) -> Result<Option<String>, Asked> {
    let Some(answer) = &questions[0].answer else { return refused(dice, session, &questions[0]) };
    // (The second one may be refused.)
    let pair = [questions[0].clone(), questions[usize::from(questions[1].answer.is_some())].clone()];
    let answers = [answer.as_slice(), pair[1].answer.as_deref().unwrap_or(answer)];
    let (bound, limit) = (dice.number(0, 100), dice.count(1, 12));
    let ask = Form { snapshot, questions: &pair, answers, lock, sorts, bound, limit }.ask(dice, form);
    let (last, before) = ask.statements.split_last().expect("a form has a statement");
    let failed = |failure| Asked { statement: last.clone(), failure };
    for statement in before {
        session.run(statement).map_err(failed)?;
    }
    let rows = session.rows(last).map_err(failed)?;
    let number = |row: &Vec<String>, at: usize| row.get(at).and_then(|text| text.parse::<f64>().ok());
    let got: Vec<(i64, f64)> = rows
        .iter()
        .map(|row| (number(row, 0).unwrap_or(-1.0) as i64, number(row, 1).unwrap_or(f64::NAN)))
        .collect();
    Ok(difference(&ask, &got, snapshot.has_scores())
        .map(|difference| format!("{}: {difference}", ask.statements.join("; "))))
}

/// A statement of a form, and its failure.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) statement: String,
    pub(super) failure: Failure,
}

/// A query outside the grammar.
fn refused(dice: &mut Dice, session: &mut Session, question: &Question) -> Result<Option<String>, Asked> {
    let matches = question.expression("");
    let statement = match dice.number(0, 2) {
        0 => format!("SELECT tag FROM {TABLE} WHERE {matches}"),
        1 => format!("SELECT tag, {matches} FROM {TABLE}"),
        _ => format!("SELECT COUNT(*) FROM {TABLE} WHERE n > 5 OR {matches}"),
    };
    match session.rows(&statement) {
        Err(Failure::Sql { code: PARSE_ERROR, .. }) => Ok(None),
        Err(failure) => Err(Asked { statement, failure }),
        Ok(rows) => Ok(Some(format!("{statement}: {} rows, and the grammar refuses the query", rows.len()))),
    }
}

/// A form's ingredients.
struct Form<'a> {
    snapshot: &'a Snapshot,
    questions: &'a [Question; 2],
    answers: [&'a [Outcome]; 2],
    lock: &'a str,
    /// True if rows without an order come by their scores.
    sorts: bool,
    /// Rows below have a lower `n`.
    bound: i64,
    limit: usize,
}

type Expected = BTreeMap<i64, (usize, Option<Outcome>)>;

impl Form<'_> {
    /// Rows whose `n` and match this takes; with their scores if the statement returns them.
    fn rows(&self, takes: impl Fn(&Row, bool) -> bool, scores: bool) -> Expected {
        let taken = self.snapshot.zip(self.answers[0]).filter(|(row, outcome)| takes(row, outcome.matches));
        taken.map(|(row, outcome)| (row.tag, (1, scores.then_some(outcome)))).collect()
    }

    fn matching(&self, scores: bool) -> Expected {
        self.rows(|_, matches| matches, scores)
    }

    fn matching_below(&self) -> Expected {
        self.rows(|row, matches| matches && row.n < self.bound, true)
    }

    fn ask(&self, dice: &mut Dice, form: usize) -> Ask {
        match form {
            0..=6 | 11..=13 | 17 => self.simple(form),
            9 => self.prepared(dice),
            _ => self.compound(form),
        }
    }

    /// SELECT of one table, some with locks.
    fn simple(&self, form: usize) -> Ask {
        let (t, lock, bound, limit) = (TABLE, self.lock, self.bound, self.limit);
        let m = self.questions[0].expression("");
        let mut order = Order::Any;
        let (statement, expected) = match form {
            0 => (format!("SELECT tag, 0 FROM {t} WHERE {m}{lock}"), self.matching(false)),
            1 => {
                if self.sorts {
                    order = Order::ByScore;
                }
                (format!("SELECT tag, {m} FROM {t} WHERE {m}{lock}"), self.matching(true))
            }
            2 => (format!("SELECT tag, {m} FROM {t}{lock}"), self.rows(|_, _| true, true)),
            3 => {
                order = Order::Best(limit);
                let best =
                    format!("SELECT tag, {m} AS s FROM {t} WHERE {m} ORDER BY s DESC LIMIT {limit}{lock}");
                (best, self.matching(true))
            }
            4 => (format!("SELECT tag, {m} FROM {t} WHERE {m} AND n < {bound}{lock}"), self.matching_below()),
            5 => {
                let statement = format!("SELECT tag, {m} FROM {t} WHERE n < {bound} OR {m}{lock}");
                (statement, self.rows(|row, matches| matches || row.n < bound, true))
            }
            6 => {
                let statement = format!("SELECT tag, 0 FROM {t} WHERE NOT {m}{lock}");
                (statement, self.rows(|_, matches| !matches, false))
            }
            11 => (format!("SELECT tag, {m} AS s FROM {t} HAVING s > 0"), self.matching(true)),
            17 => {
                order = Order::Best(limit);
                let best = format!("SELECT tag, {m} AS s FROM {t} ORDER BY s DESC LIMIT {limit}");
                (best, self.rows(|_, _| true, true))
            }
            _ => {
                let operator = if form == 12 { "AND" } else { "OR" };
                let other = self.questions[1].expression("");
                let statement = format!("SELECT tag, {m} FROM {t} WHERE {m} {operator} {other}{lock}");
                (statement, self.of_both(form == 12))
            }
        };
        Ask { statements: vec![statement], expected, order }
    }

    /// Rows that match both queries, or one of them.
    fn of_both(&self, both: bool) -> Expected {
        let others = self.snapshot.zip(self.answers[1]);
        let pairs = self.snapshot.zip(self.answers[0]).zip(others);
        let takes = |one: bool, two: bool| if both { one && two } else { one || two };
        pairs
            .filter(|((_, one), (_, two))| takes(one.matches, two.matches))
            .map(|((row, one), _)| (row.tag, (1, Some(one))))
            .collect()
    }

    /// A prepared statement, executed once or twice.
    fn prepared(&self, dice: &mut Dice) -> Ask {
        let question = &self.questions[0];
        let prepared = format!("SELECT tag, 0 FROM {TABLE} WHERE {}", question.expression_of("", "?"));
        let mut statements = vec![
            format!("SET @q = {}", quote(&question.text)),
            format!("PREPARE s FROM {}", quote(&prepared)),
        ];
        let execute = "EXECUTE s USING @q".to_string();
        statements.extend(vec![execute; dice.count(1, 2)]);
        Ask { statements, expected: self.matching(false), order: Order::Any }
    }

    /// Subqueries, joins, unions, groups.
    fn compound(&self, form: usize) -> Ask {
        let (t, bound) = (TABLE, self.bound);
        let m = self.questions[0].expression("");
        let (of_a, of_b) = (self.questions[0].expression("a"), self.questions[0].expression("b"));
        let (statement, expected) = match form {
            7 => {
                let inner = format!("SELECT b.tag FROM {t} b WHERE {of_b}");
                (format!("SELECT tag, 0 FROM {t} WHERE tag IN ({inner})"), self.matching(false))
            }
            8 => {
                let tables = format!("{t} a JOIN {t} b ON a.tag = b.tag");
                (
                    format!("SELECT a.tag, {of_a} FROM {tables} WHERE {of_a} AND b.n < {bound}"),
                    self.matching_below(),
                )
            }
            10 => {
                let count = self.matching(false).len() as i64;
                (format!("SELECT COUNT(*), 0 FROM {t} WHERE {m}"), BTreeMap::from([(count, (1, None))]))
            }
            14 => {
                let inner = format!("SELECT tag, {m} AS s FROM {t} WHERE {m}");
                (format!("SELECT tag, s FROM ({inner}) d"), self.matching(true))
            }
            15 => {
                let inner = format!("SELECT 1 FROM {t} b WHERE b.tag = a.tag AND {of_b}");
                (format!("SELECT a.tag, 0 FROM {t} a WHERE EXISTS ({inner})"), self.matching(false))
            }
            16 => {
                let half =
                    |operator: &str| format!("SELECT tag, {m} FROM {t} WHERE {m} AND n {operator} {bound}");
                (format!("{} UNION ALL {}", half("<"), half(">=")), self.matching(true))
            }
            _ => {
                let mut groups: BTreeMap<i64, i64> = BTreeMap::new();
                let matching = self.snapshot.zip(self.answers[0]).filter(|(_, outcome)| outcome.matches);
                matching.for_each(|(row, _)| *groups.entry(row.n).or_default() += 1);
                let expected = groups.into_iter().map(|(n, count)| (n * 10_000 + count, (1, None))).collect();
                (format!("SELECT n * 10000 + COUNT(*), 0 FROM {t} WHERE {m} GROUP BY n"), expected)
            }
        };
        Ask { statements: vec![statement], expected, order: Order::Any }
    }
}

/// The first difference of an answer from the expected one.
fn difference(ask: &Ask, got: &[(i64, f64)], scored: bool) -> Option<String> {
    let mut seen: BTreeMap<i64, usize> = BTreeMap::new();
    got.iter().for_each(|(number, _)| *seen.entry(*number).or_default() += 1);
    let times = |number: &i64| ask.expected.get(number).map_or(0, |(times, _)| *times);
    let too_many: Vec<i64> =
        seen.iter().filter(|(number, n)| **n > times(number)).map(|(number, _)| *number).collect();
    let missing = |number: &&i64| seen.get(*number).copied().unwrap_or(0) < times(number);
    let missing: Vec<i64> = ask.expected.keys().filter(missing).copied().collect();
    let most = if let Order::Best(most) = ask.order { most } else { usize::MAX };
    let wanted = ask.expected.len().min(most);
    if !too_many.is_empty() || (most == usize::MAX && !missing.is_empty()) || got.len() != wanted {
        return Some(format!(
            "{} rows instead of {wanted}; too many: {:?}, missing: {:?}",
            got.len(),
            &too_many[..too_many.len().min(8)],
            &missing[..missing.len().min(8)]
        ));
    }
    for (number, score) in got {
        let Some((_, Some(outcome))) = ask.expected.get(number) else { continue };
        let differs = if !outcome.matches {
            *score != 0.0
        } else if scored && outcome.is_exact {
            (score - outcome.score).abs() > TOLERANCE * outcome.score.abs().max(1.0)
        } else {
            score.is_nan() || *score <= 0.0
        };
        if differs {
            return Some(format!("row {number} has the score {score} instead of {outcome:?}"));
        }
    }
    if ask.order == Order::Any {
        return None;
    }
    if let Some(pair) = got.windows(2).find(|pair| pair[0].1 < pair[1].1) {
        return Some(format!(
            "row {} with {} stands before row {} with {}",
            pair[0].0, pair[0].1, pair[1].0, pair[1].1
        ));
    }
    let worst = got.last().map_or(0.0, |(_, score)| *score);
    let better = |number: &&i64| match ask.expected[*number].1 {
        Some(Outcome { score, is_exact: true, .. }) => {
            scored && score > worst + TOLERANCE * score.abs().max(1.0)
        }
        _ => false,
    };
    missing.iter().find(better).map(|number| format!("row {number} is missing among the best"))
}
