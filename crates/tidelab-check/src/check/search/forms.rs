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
    let ask = match (&questions[0].answer, &questions[1].answer) {
        (Some(answer), Some(other)) => form_of(dice, form, snapshot, questions, [answer, other], lock, sorts),
        (Some(answer), None) => {
            let questions = [questions[0].clone(), questions[0].clone()];
            form_of(dice, form, snapshot, &questions, [answer, answer], lock, sorts)
        }
        (None, _) => return refused(dice, session, &questions[0]),
    };
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

#[allow(clippy::too_many_lines, reason = "a table of forms")]
fn form_of(
    dice: &mut Dice,
    form: usize,
    snapshot: &Snapshot,
    questions: &[Question; 2],
    answers: [&[Outcome]; 2],
    lock: &str,
    sorts: bool,
) -> Ask {
    let m = questions[0].expression("");
    let (of_a, of_b) = (questions[0].expression("a"), questions[0].expression("b"));
    let bound = dice.number(0, 100);
    let limit = dice.count(1, 12);
    let rows = |takes: &dyn Fn(&Row, bool) -> bool, scores: bool| {
        let mut expected = BTreeMap::new();
        for (row, outcome) in snapshot.zip(answers[0]) {
            if takes(row, outcome.matches) {
                expected.insert(row.tag, (1, scores.then_some(outcome)));
            }
        }
        expected
    };
    let matching = |_: &Row, matches: bool| matches;
    let all = |_: &Row, _: bool| true;
    let count = snapshot.zip(answers[0]).filter(|(_, outcome)| outcome.matches).count();
    let mut statements = Vec::new();
    let mut order = Order::Any;
    let t = TABLE;
    let (statement, expected) = match form {
        0 => (format!("SELECT tag, 0 FROM {t} WHERE {m}{lock}"), rows(&matching, false)),
        1 => {
            if sorts {
                order = Order::ByScore;
            }
            (format!("SELECT tag, {m} FROM {t} WHERE {m}{lock}"), rows(&matching, true))
        }
        2 => (format!("SELECT tag, {m} FROM {t}{lock}"), rows(&all, true)),
        3 => {
            order = Order::Best(limit);
            let statement =
                format!("SELECT tag, {m} AS s FROM {t} WHERE {m} ORDER BY s DESC LIMIT {limit}{lock}");
            (statement, rows(&matching, true))
        }
        4 => {
            let statement = format!("SELECT tag, {m} FROM {t} WHERE {m} AND n < {bound}{lock}");
            (statement, rows(&|row, matches| matches && row.n < bound, true))
        }
        5 => {
            let statement = format!("SELECT tag, {m} FROM {t} WHERE n < {bound} OR {m}{lock}");
            (statement, rows(&|row, matches| matches || row.n < bound, true))
        }
        6 => (format!("SELECT tag, 0 FROM {t} WHERE NOT {m}{lock}"), rows(&|_, matches| !matches, false)),
        7 => {
            let statement =
                format!("SELECT tag, 0 FROM {t} WHERE tag IN (SELECT b.tag FROM {t} b WHERE {of_b})");
            (statement, rows(&matching, false))
        }
        8 => {
            let statement = format!(
                "SELECT a.tag, {of_a} FROM {t} a JOIN {t} b ON a.tag = b.tag WHERE {of_a} AND b.n < {bound}"
            );
            (statement, rows(&|row, matches| matches && row.n < bound, true))
        }
        9 => {
            let prepared = format!("SELECT tag, 0 FROM {t} WHERE {}", questions[0].expression_of("", "?"));
            statements.push(format!("SET @q = {}", quote(&questions[0].text)));
            statements.push(format!("PREPARE s FROM {}", quote(&prepared)));
            if dice.one_in(2) {
                statements.push("EXECUTE s USING @q".to_string());
            }
            ("EXECUTE s USING @q".to_string(), rows(&matching, false))
        }
        10 => {
            let statement = format!("SELECT COUNT(*), 0 FROM {t} WHERE {m}");
            (statement, BTreeMap::from([(count as i64, (1, None))]))
        }
        11 => (format!("SELECT tag, {m} AS s FROM {t} HAVING s > 0"), rows(&matching, true)),
        12 | 13 => {
            let other = questions[1].expression("");
            let (operator, is_and) = if form == 12 { ("AND", true) } else { ("OR", false) };
            let mut expected = BTreeMap::new();
            for ((row, one), (_, two)) in snapshot.zip(answers[0]).zip(snapshot.zip(answers[1])) {
                if if is_and { one.matches && two.matches } else { one.matches || two.matches } {
                    expected.insert(row.tag, (1, Some(one)));
                }
            }
            (format!("SELECT tag, {m} FROM {t} WHERE {m} {operator} {other}{lock}"), expected)
        }
        14 => {
            let statement = format!("SELECT tag, s FROM (SELECT tag, {m} AS s FROM {t} WHERE {m}) d");
            (statement, rows(&matching, true))
        }
        15 => {
            let statement =
                format!("SELECT a.tag, 0 FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.tag = a.tag AND {of_b})");
            (statement, rows(&matching, false))
        }
        16 => {
            let statement = format!(
                "SELECT tag, {m} FROM {t} WHERE {m} AND n < {bound} UNION ALL SELECT tag, {m} FROM {t} WHERE {m} AND n >= {bound}"
            );
            (statement, rows(&matching, true))
        }
        17 => {
            order = Order::Best(limit);
            (format!("SELECT tag, {m} AS s FROM {t} ORDER BY s DESC LIMIT {limit}"), rows(&all, true))
        }
        _ => {
            let mut groups: BTreeMap<i64, i64> = BTreeMap::new();
            snapshot.zip(answers[0]).filter(|(_, outcome)| outcome.matches).for_each(|(row, _)| {
                *groups.entry(row.n).or_default() += 1;
            });
            let expected = groups.into_iter().map(|(n, count)| (n * 10_000 + count, (1, None))).collect();
            (format!("SELECT n * 10000 + COUNT(*), 0 FROM {t} WHERE {m} GROUP BY n"), expected)
        }
    };
    statements.push(statement);
    Ask { statements, expected, order }
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
