//! Rows of the table as one statement read them, and the model's answers over them.

use std::collections::BTreeMap;

use super::super::session::{Failure, Session};
use super::super::sql::Dice;
use super::grammar;
use super::model::{expanded, Document, Figures, Outcome, Search};
use super::table::{quote, Table};
use super::terms::Terms;
use super::vocabulary::Vocabulary;
use super::wording;

/// The terms of all collations, and a connection of their own.
pub(super) struct Oracle {
    pub(super) session: Session,
    collations: BTreeMap<&'static str, Terms>,
}

impl Oracle {
    pub(super) fn open(mut session: Session) -> Result<Oracle, Failure> {
        session.run("SET NAMES utf8mb4")?;
        session.run("CREATE OR REPLACE DATABASE search_words")?;
        Ok(Oracle { session, collations: BTreeMap::new() })
    }

    /// The collation's terms, with these words among them.
    fn terms<'a>(
        &mut self,
        table: &Table,
        texts: impl Iterator<Item = &'a str>,
        beginnings: bool,
    ) -> Result<&Terms, Failure> {
        let terms = match self.collations.entry(table.collation) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                new.insert(Terms::open(&mut self.session, table.collation)?)
            }
        };
        terms.take_stopwords(&mut self.session, &table.rules)?;
        let words = texts.flat_map(|text| table.rules.asked(text, beginnings));
        terms.learn(&mut self.session, words)?;
        Ok(terms)
    }
}

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) tag: i64,
    pub(super) n: i64,
    texts: Vec<Option<String>>,
}

/// All rows, and what each index has of them.
pub(super) struct Snapshot {
    pub(super) rows: Vec<Row>,
    documents: Vec<Vec<Document>>,
    /// Figures behind the scores of each index, where they are known.
    figures: Option<Vec<Figures>>,
}

impl Snapshot {
    /// Reads all rows by this statement.
    pub(super) fn read(
        session: &mut Session,
        oracle: &mut Oracle,
        table: &Table,
        statement: &str,
    ) -> Result<Snapshot, Failure> {
        let answer = session.ask(statement)?;
        let text = |value: Option<Vec<u8>>| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let number = |value: Option<String>| value.and_then(|text| text.parse().ok()).unwrap_or(-1);
        let rows: Vec<Row> = answer
            .rows
            .into_iter()
            .map(|row| {
                let mut values = row.into_iter().map(text);
                let tag = number(values.next().flatten());
                let n = number(values.next().flatten());
                Row { tag, n, texts: values.collect() }
            })
            .collect();
        let texts = rows.iter().flat_map(|row| row.texts.iter().flatten().map(String::as_str));
        let terms = oracle.terms(table, texts, false)?;
        let of_index = |columns: &Vec<usize>| {
            let document = |row: &Row| {
                Document::of(columns.iter().map(|column| row.texts[*column].as_deref()), &table.rules, terms)
            };
            rows.iter().map(document).collect()
        };
        let documents = table.indexes.iter().map(|index| of_index(&index.columns)).collect();
        Ok(Snapshot { rows, documents, figures: None })
    }

    /// Reads the store's figures. Nobody else may be at work, and nothing be uncommitted.
    pub(super) fn read_figures(&mut self, session: &mut Session, table: &Table) -> Result<(), Failure> {
        let of = |index: &str| {
            format!(
                "SELECT CAST(SUM(entries) AS INT) FROM information_schema.tidesdb_column_families \
                 WHERE table_schema = 'search' AND table_name = 't' AND (index_name {index})"
            )
        };
        // (The rows' family has the primary key's name, or none.)
        let rows = session.number(&of("NOT IN ('f', 'g', 'x', 'n') OR index_name IS NULL"))? as f64;
        let mut figures = Vec::new();
        for index in &table.indexes {
            let entries = session.number(&of(&format!("= '{}'", index.name)))? as f64;
            figures.push(Figures { rows, entries, partitioned: table.partitions != 0 });
        }
        self.figures = Some(figures);
        Ok(())
    }

    /// Tells the model of twice as many rows.
    pub(super) fn double_figures(&mut self) {
        self.figures.iter_mut().flatten().for_each(|figures| figures.rows *= 2.0);
    }

    /// True if it knows scores.
    pub(super) fn has_scores(&self) -> bool {
        self.figures.is_some()
    }

    /// A random query with the model's answer.
    pub(super) fn question(
        &self,
        dice: &mut Dice,
        oracle: &mut Oracle,
        table: &Table,
        vocabulary: &Vocabulary,
    ) -> Result<Question, Failure> {
        let index = dice.count(0, table.indexes.len() - 1);
        let boolean = !dice.one_in(4);
        let text =
            if boolean { wording::boolean(dice, vocabulary) } else { wording::natural(dice, vocabulary) };
        let mut question = self.question_of(oracle, table, index, boolean, &text)?;
        // (Of a partitioned table each partition has best rows of its own.)
        if !boolean && table.partitions == 0 && dice.one_in(2) {
            self.expand(&mut question, index);
        }
        if dice.one_in(3) {
            question.columns.reverse();
        }
        Ok(question)
    }

    /// A query with the model's answer.
    pub(super) fn question_of(
        &self,
        oracle: &mut Oracle,
        table: &Table,
        index: usize,
        boolean: bool,
        text: &str,
    ) -> Result<Question, Failure> {
        let columns =
            table.indexes[index].columns.iter().map(|column| table.columns[*column].name.clone()).collect();
        let mut question =
            Question { columns, boolean, expands: false, text: text.to_string(), answer: None };
        question.answer = self.answer(oracle, table, index, &question)?;
        Ok(question)
    }

    fn answer(
        &self,
        oracle: &mut Oracle,
        table: &Table,
        index: usize,
        question: &Question,
    ) -> Result<Option<Vec<Outcome>>, Failure> {
        let text = question.text.as_str();
        let (rules, documents) = (&table.rules, &self.documents[index]);
        let figures = self.figures.as_ref().map_or(Figures::default(), |figures| figures[index]);
        let parts = if question.boolean {
            let Some(parts) = grammar::read(text, &rules.blend) else { return Ok(None) };
            Some(parts)
        } else {
            None
        };
        // (Words of a boolean query are among these, or are parts of them.)
        let mut texts = vec![text.to_string()];
        parts.iter().for_each(|parts| grammar::texts(parts, &mut texts));
        let terms = oracle.terms(table, texts.iter().map(String::as_str), true)?;
        let search = match &parts {
            Some(parts) => Search::boolean(parts, rules, terms, documents, figures),
            None => Search::natural(text, rules, terms, documents, figures),
        };
        Ok(Some(search.outcomes()))
    }

    /// Turns a query of natural mode into one WITH QUERY EXPANSION, where the rules say which words it takes: all of a few
    /// rows.
    fn expand(&self, question: &mut Question, index: usize) {
        let Some(answer) = &mut question.answer else { return };
        if let Some(found) = expanded(&self.documents[index], answer) {
            *answer = found;
            question.expands = true;
        }
    }

    /// The rows of a question's answer that match, with their outcomes.
    pub(super) fn zip<'a>(&'a self, answer: &'a [Outcome]) -> impl Iterator<Item = (&'a Row, Outcome)> {
        self.rows.iter().zip(answer.iter().copied())
    }
}

/// A query and the model's answer over a snapshot.
#[derive(Clone, Debug)]
pub(super) struct Question {
    columns: Vec<String>,
    pub(super) boolean: bool,
    /// WITH QUERY EXPANSION.
    pub(super) expands: bool,
    pub(super) text: String,
    /// For each row of the snapshot; none if the grammar refuses the query.
    pub(super) answer: Option<Vec<Outcome>>,
}

impl Question {
    /// Columns of MATCH.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The expression, over the table by this name.
    pub(super) fn expression(&self, table: &str) -> String {
        self.expression_of(table, &quote(&self.text))
    }

    /// The expression with a query that is written so.
    pub(super) fn expression_of(&self, table: &str, text: &str) -> String {
        let dot = if table.is_empty() { "" } else { "." };
        let names: Vec<String> = self.columns.iter().map(|name| format!("{table}{dot}{name}")).collect();
        let mode = match (self.boolean, self.expands) {
            (true, _) => " IN BOOLEAN MODE",
            (_, true) => " WITH QUERY EXPANSION",
            _ => "",
        };
        format!("MATCH ({}) AGAINST ({text}{mode})", names.join(", "))
    }
}
