//! Model of a search: the answer of a query by reading all rows.
//!
//! Scores are BM25's (Robertson and Zaragoza, 2009): a row's score is the sum over the query's words of
//!
//! ```text
//! ln(1 + (N - n + 0.5) / (n + 0.5)) * f (k1 + 1) / (f + k1 (1 - b + b l / m))
//! ```
//!
//! with N rows, n rows that have the word, f times in the row, l different words of the row, m of a row in the mean.
//! Lengths are rounded down to four significant bits.

use std::collections::{BTreeMap, BTreeSet};

use super::grammar::{Body, Part, Sign};
use super::terms::{TermId, Terms};
use super::words::{runs_of_words, Rules, Word};

const K1: f64 = 1.2;
const B: f64 = 0.75;
/// A row that matches has no lower score.
const LEAST: f64 = 1e-6;
/// Words of two columns are so far apart.
const GAP: u64 = 1 << 40;

/// Figures of a table behind its scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) rows: f64,
    pub(super) entries: f64,
    /// True if beginnings of words have a weight of their own: rows with several count several times.
    pub(super) partitioned: bool,
}

impl Default for Figures {
    fn default() -> Self {
        Figures { rows: 1.0, entries: 1.0, partitioned: false }
    }
}

/// What an index has of a row: positions of each term.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    places: BTreeMap<TermId, Vec<u64>>,
}

impl Document {
    /// Of the columns of an index.
    pub(super) fn of<'a>(
        columns: impl Iterator<Item = Option<&'a str>>,
        rules: &Rules,
        terms: &Terms,
    ) -> Document {
        let mut document = Document::default();
        let mut base = 0;
        for column in columns {
            for word in rules.cut(column.unwrap_or_default()) {
                if let Some(term) = terms.kept(word.text, rules) {
                    document.places.entry(term).or_default().push(base + word.position);
                }
            }
            base += GAP;
        }
        document.places.values_mut().for_each(|places| places.sort_unstable());
        document
    }

    /// Different words, as scores count them.
    fn length(&self) -> f64 {
        let length = self.places.len() as u64;
        let lost = (64 - length.leading_zeros()).saturating_sub(4);
        (length >> lost << lost) as f64
    }
}

/// A query in terms.
#[derive(Clone, Debug)]
struct Wish {
    sign: Sign,
    boost: f64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Group(Vec<Wish>),
    /// Terms of which one is enough, and how often the query has them.
    AnyOf(Vec<TermId>, f64),
    /// Terms with their places from the phrase's beginning, and a distance or 0.
    Phrase(Vec<(TermId, u64)>, u64),
}

/// A row's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) matches: bool,
    pub(super) score: f64,
    /// False where the rules leave the score open.
    pub(super) is_exact: bool,
}

const NOTHING: Outcome = Outcome { matches: false, score: 0.0, is_exact: true };

/// A query over the rows of an index.
pub(super) struct Search<'a> {
    documents: &'a [Document],
    figures: Figures,
    root: Vec<Wish>,
}

impl<'a> Search<'a> {
    /// A query of natural mode: every word helps.
    pub(super) fn natural(
        text: &str,
        rules: &Rules,
        terms: &Terms,
        documents: &'a [Document],
        figures: Figures,
    ) -> Self {
        let mut times: BTreeMap<TermId, f64> = BTreeMap::new();
        for word in rules.cut(text) {
            if let Some(term) = terms.kept(word.text, rules) {
                *times.entry(term).or_default() += 1.0;
            }
        }
        let wish =
            |(term, times)| Wish { sign: Sign::Helps, boost: 1.0, kind: Kind::AnyOf(vec![term], times) };
        Search { documents, figures, root: times.into_iter().map(wish).collect() }
    }

    /// A query of boolean mode.
    pub(super) fn boolean(
        parts: &[Part],
        rules: &Rules,
        terms: &Terms,
        documents: &'a [Document],
        figures: Figures,
    ) -> Self {
        Search { documents, figures, root: wishes(parts, rules, terms) }
    }

    /// The outcome for each row.
    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        let one = |document: &Document| {
            let outcome = self.group(&self.root, document);
            Outcome { score: if outcome.matches { outcome.score.max(LEAST) } else { 0.0 }, ..outcome }
        };
        self.documents.iter().map(one).collect()
    }

    fn group(&self, wishes: &[Wish], document: &Document) -> Outcome {
        let mut all = NOTHING;
        let mut refused = false;
        for wish in wishes {
            let outcome = self.wish(wish, document);
            refused |= outcome.matches == (wish.sign == Sign::Excluded)
                && matches!(wish.sign, Sign::Excluded | Sign::Required);
            if outcome.matches && wish.sign != Sign::Excluded {
                all.matches |= wish.sign != Sign::Lowers;
                all.is_exact &= outcome.is_exact;
                all.score += if wish.sign == Sign::Lowers { -outcome.score } else { outcome.score };
            }
        }
        if refused {
            NOTHING
        } else {
            all
        }
    }

    fn wish(&self, wish: &Wish, document: &Document) -> Outcome {
        let mut outcome = match &wish.kind {
            Kind::Group(wishes) => self.group(wishes, document),
            Kind::AnyOf(terms, times) => {
                let frequency: usize =
                    terms.iter().filter_map(|term| document.places.get(term)).map(Vec::len).sum();
                if frequency == 0 {
                    return NOTHING;
                }
                Outcome {
                    matches: true,
                    score: times * self.bm25(self.weight(terms), frequency, document),
                    is_exact: terms.len() == 1 || !self.figures.partitioned,
                }
            }
            Kind::Phrase(words, distance) => {
                let Some((count, is_exact)) = occurrences(words, *distance, document) else { return NOTHING };
                let weight = words.iter().map(|(term, _)| self.weight(&[*term])).sum();
                Outcome { matches: true, score: self.bm25(weight, count, document), is_exact }
            }
        };
        outcome.score *= wish.boost;
        outcome
    }

    /// The rarer, the heavier.
    fn weight(&self, terms: &[TermId]) -> f64 {
        let has = |document: &&Document| terms.iter().any(|term| document.places.contains_key(term));
        let n = self.documents.iter().filter(has).count() as f64;
        let rows = self.figures.rows.max(n);
        (1.0 + (rows - n + 0.5) / (n + 0.5)).ln()
    }

    fn bm25(&self, weight: f64, frequency: usize, document: &Document) -> f64 {
        let Figures { rows, entries, .. } = self.figures;
        let mean = if rows > 0.0 && entries > 0.0 { entries / rows } else { 1.0 };
        let frequency = frequency as f64;
        weight * frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * document.length() / mean))
    }
}

/// Most rows whose words an expanded query takes, and most of these words.
const BEST: usize = 20;
const EXPANSION: usize = 200;

/// The answer after the words of all matching rows came to the query; none if the index would take some of them alone.
pub(super) fn expanded(documents: &[Document], answer: &[Outcome]) -> Option<Vec<Outcome>> {
    let matching: Vec<&Document> = documents
        .iter()
        .zip(answer)
        .filter(|(_, outcome)| outcome.matches)
        .map(|(document, _)| document)
        .collect();
    let terms: BTreeSet<TermId> =
        matching.iter().flat_map(|document| document.places.keys().copied()).collect();
    if matching.len() > BEST || terms.len() > EXPANSION {
        return None;
    }
    let one = |document: &Document| {
        let matches = document.places.keys().any(|term| terms.contains(term));
        // (The weight of a row depends on how often the words come.)
        Outcome { matches, score: 0.0, is_exact: !matches }
    };
    Some(documents.iter().map(one).collect())
}

/// How often a row has a phrase, and whether the rules say so exactly; none: not once.
fn occurrences(words: &[(TermId, u64)], distance: u64, document: &Document) -> Option<(usize, bool)> {
    let places: Vec<&Vec<u64>> =
        words.iter().map(|(term, _)| document.places.get(term)).collect::<Option<_>>()?;
    if distance == 0 {
        let first = words[0].1;
        let stands = |at: &&u64| {
            words.iter().zip(&places).all(|((_, offset), places)| {
                (**at + offset).checked_sub(first).is_some_and(|place| places.binary_search(&place).is_ok())
            })
        };
        let count = places[0].iter().filter(stands).count();
        return (count > 0).then_some((count, true));
    }
    // Windows, by the place of their first word.
    let mut beginnings: Vec<u64> = places.iter().flat_map(|places| places.iter().copied()).collect();
    let all = beginnings.len();
    beginnings.sort_unstable();
    beginnings.dedup();
    let distinct = beginnings.len() == all;
    let fits = |begin: &u64| {
        places.iter().all(|places| {
            let next = places.partition_point(|place| place < begin);
            places.get(next).is_some_and(|place| place - begin < distance)
        })
    };
    let count = beginnings.into_iter().filter(fits).count();
    (count > 0).then_some((count, distinct))
}

fn is_nothing(kind: &Kind) -> bool {
    matches!(kind, Kind::Group(wishes) if wishes.is_empty())
}

fn phrase(text: &str, distance: u64, rules: &Rules, terms: &Terms) -> Kind {
    let kept = |word: Word<'_>| Some((terms.kept(word.text, rules)?, word.position));
    let words: Vec<(TermId, u64)> = rules.cut(text).into_iter().filter_map(kept).collect();
    match words.as_slice() {
        [] => Kind::Group(Vec::new()),
        [(term, _)] => Kind::AnyOf(vec![*term], 1.0),
        _ => Kind::Phrase(words, distance),
    }
}

/// Parts without words neither help nor hinder.
fn wishes(parts: &[Part], rules: &Rules, terms: &Terms) -> Vec<Wish> {
    let mut all = Vec::new();
    for part in parts {
        // Of words without an operator between them + and - ask for all.
        let sign = match part.sign {
            Sign::Required | Sign::Excluded => Sign::Required,
            _ => Sign::Helps,
        };
        let any_of = |terms| Wish { sign, boost: 1.0, kind: Kind::AnyOf(terms, 1.0) };
        let kind = match &part.body {
            Body::Group(parts) => Kind::Group(wishes(parts, rules, terms)),
            Body::Text(text) | Body::Start(text) if rules.ngram > 0 => {
                let is_start = matches!(&part.body, Body::Start(_));
                let wish = |(at, run): (usize, &str)| {
                    if is_start && at + run.len() == text.len() && rules.is_short(run) {
                        return terms.beginning_with(run).map(any_of);
                    }
                    let kind = phrase(run, 0, rules, terms);
                    (!is_nothing(&kind)).then_some(Wish { sign, boost: 1.0, kind })
                };
                Kind::Group(runs_of_words(text).into_iter().filter_map(wish).collect())
            }
            Body::Text(text) => {
                let kept = rules.cut(text).into_iter().filter_map(|word| terms.kept(word.text, rules));
                Kind::Group(kept.map(|term| any_of(vec![term])).collect())
            }
            Body::Start(text) => {
                let start = |word: Word<'_>| {
                    if word.is_last {
                        terms.beginning_with(word.text).map(any_of)
                    } else {
                        terms.kept(word.text, rules).map(|term| any_of(vec![term]))
                    }
                };
                Kind::Group(rules.cut(text).into_iter().filter_map(start).collect())
            }
            Body::Phrase(text, distance) => phrase(text, *distance, rules, terms),
        };
        if !is_nothing(&kind) {
            all.push(Wish { sign: part.sign, boost: part.boost, kind });
        }
    }
    all
}
