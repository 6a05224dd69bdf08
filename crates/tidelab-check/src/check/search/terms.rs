//! Terms: words that a collation finds equal. The server says so: words are compared in a table of InnoDB.

use std::collections::{BTreeMap, BTreeSet};

use super::super::session::{Failure, Session};
use super::words::{parts, Rules};

/// A word equal to the others of its term: the first one that was asked for.
pub(super) type TermId = usize;

/// Characters of the longest word that is compared.
const LONGEST: usize = 300;
/// Words of one INSERT.
const BATCH: usize = 200;
/// Levels of a collation's weights.
const LEVELS: usize = 3;

/// Known words of a collation.
pub(super) struct Terms {
    collation: &'static str,
    words: BTreeMap<String, Known>,
    /// Weights of each term, by level.
    weights: BTreeMap<TermId, [String; LEVELS]>,
    stopwords: BTreeSet<TermId>,
}

struct Known {
    /// None for words without a weight in the first level, as a mark that stands alone as an ngram.
    term: Option<TermId>,
}

impl Terms {
    /// Makes the table of the collation's words.
    pub(super) fn open(session: &mut Session, collation: &'static str) -> Result<Terms, Failure> {
        session.run(&format!(
            "CREATE OR REPLACE TABLE search_words.{collation} (id INT PRIMARY KEY, w VARCHAR({LONGEST}) \
             COLLATE {collation} NOT NULL, KEY (w)) ENGINE=InnoDB"
        ))?;
        Ok(Terms { collation, words: BTreeMap::new(), weights: BTreeMap::new(), stopwords: BTreeSet::new() })
    }

    /// Takes the stopwords of an index.
    pub(super) fn take_stopwords(&mut self, session: &mut Session, rules: &Rules) -> Result<(), Failure> {
        let words = rules.stopwords();
        self.learn(session, words.iter().copied())?;
        self.stopwords = words.iter().filter_map(|word| self.words[*word].term).collect();
        Ok(())
    }

    /// Asks for the terms of new words.
    pub(super) fn learn<'a>(
        &mut self,
        session: &mut Session,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        let fits = |word: &&str| !self.words.contains_key(*word) && word.chars().count() <= LONGEST;
        let new: BTreeSet<&str> = words.into_iter().filter(fits).collect();
        let new: Vec<&str> = new.into_iter().collect();
        for batch in new.chunks(BATCH) {
            let first = self.words.len();
            // Words are letters, digits, marks, `_` and characters that blend.
            let quote = |word: &str| word.replace('\\', "\\\\").replace('\'', "\\'");
            let rows: Vec<String> = batch
                .iter()
                .enumerate()
                .map(|(i, word)| format!("({}, '{}')", first + i, quote(word)))
                .collect();
            let table = format!("search_words.{}", self.collation);
            session.run(&format!("INSERT INTO {table} VALUES {}", rows.join(",")))?;
            let answer = session.rows(&format!(
                "SELECT MIN(b.id), a.w = '', HEX(WEIGHT_STRING(a.w LEVEL 1)), HEX(WEIGHT_STRING(a.w LEVEL 2)), \
                 HEX(WEIGHT_STRING(a.w LEVEL 3)) FROM {table} a JOIN {table} b ON a.w = b.w \
                 WHERE a.id >= {first} GROUP BY a.id ORDER BY a.id"
            ))?;
            for (word, row) in batch.iter().zip(answer) {
                let term = row[0].parse().ok().filter(|_| row[1] == "0" && !row[2].is_empty());
                if let Some(term) = term {
                    self.weights
                        .entry(term)
                        .or_insert_with(|| [row[2].clone(), row[3].clone(), row[4].clone()]);
                }
                self.words.insert((*word).to_string(), Known { term });
            }
        }
        Ok(())
    }

    /// The term of a word in an index with these rules; none if the index leaves it out. The word must be known.
    pub(super) fn kept(&self, word: &str, rules: &Rules) -> Option<TermId> {
        if !rules.keeps_length(word) {
            return None;
        }
        let is_stopword = |word: &str| {
            self.words
                .get(word)
                .and_then(|known| known.term)
                .is_some_and(|term| self.stopwords.contains(&term))
        };
        // An ngram is left out if a part of it is a stopword.
        let is_out = match rules.ngram {
            0 => is_stopword(word),
            _ => !self.stopwords.is_empty() && parts(word).into_iter().any(is_stopword),
        };
        self.words.get(word)?.term.filter(|_| !is_out)
    }

    /// Terms of words that begin so, under the collation; none for a word without weight.
    pub(super) fn beginning_with(&self, word: &str) -> Option<Vec<TermId>> {
        let wanted = &self.weights[&self.words.get(word)?.term?];
        let begins =
            |all: &[String; LEVELS]| all.iter().zip(wanted).all(|(all, part)| all.starts_with(part.as_str()));
        Some(self.weights.iter().filter(|(_, weights)| begins(weights)).map(|(term, _)| *term).collect())
    }
}
