//! The options of the kind, and its tasks.

use serde::{Deserialize, Serialize};
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;

use super::documents::word;
use crate::measure::plan::turns;
use crate::run::{CellId, Group};

/// The axis of engines.
pub const ENGINE: &str = "engine";
/// The axis of tasks.
pub const TASK: &str = "task";
/// The axis of caches.
pub const CACHE: &str = "cache_mb";

/// One measured task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// ALTER TABLE ... ADD FULLTEXT on the filled table.
    Build,
    /// INSERTs of a document each, committed one by one.
    Insert,
    /// One INSERT ... SELECT of many documents.
    InsertSelect,
    /// All rows with a word.
    OneWord,
    /// Rows with both of two words.
    And,
    /// Rows with two words one after the other.
    Phrase,
    /// The ten best rows of a word.
    Top10,
    /// The number of rows with a word.
    Count,
}

impl Task {
    /// All of them, in the order of a round: the index is built before it is searched, and searched before it grows.
    pub const ALL: [Task; 8] = [
        Task::Build,
        Task::OneWord,
        Task::And,
        Task::Phrase,
        Task::Top10,
        Task::Count,
        Task::Insert,
        Task::InsertSelect,
    ];

    /// The value of [`TASK`].
    pub fn name(self) -> &'static str {
        match self {
            Task::Build => "build",
            Task::Insert => "insert",
            Task::InsertSelect => "insert_select",
            Task::OneWord => "one_word",
            Task::And => "and",
            Task::Phrase => "phrase",
            Task::Top10 => "top_10",
            Task::Count => "count",
        }
    }

    /// The task of a cell.
    pub fn of(id: &CellId) -> Result<Task> {
        let name = id.label(TASK);
        let found = Task::ALL.into_iter().find(|task| task.name() == name);
        found.ok_or_else(|| Error::Usage(format!("there is no task '{name}' of full text")))
    }

    /// Its queries, the same for every engine: of words that few, some, many and most documents have. None for tasks that
    /// ask nothing.
    pub fn queries(self) -> Vec<String> {
        /// Ranks of words.
        const RANKS: [u32; 4] = [2, 20, 200, 2000];
        let matching = |text: &str| format!("MATCH (body) AGAINST ('{text}' IN BOOLEAN MODE)");
        let pairs = [(2, 20), (2, 200), (20, 200), (20, 2000)];
        let of_words =
            |query: &dyn Fn(&str) -> String| RANKS.iter().map(|rank| query(&word(*rank))).collect();
        let of_pairs = |query: &dyn Fn(&str, &str) -> String| {
            pairs.iter().map(|(a, b)| query(&word(*a), &word(*b))).collect()
        };
        match self {
            Task::Build | Task::Insert | Task::InsertSelect => Vec::new(),
            Task::OneWord => of_words(&|word| format!("SELECT SUM(id) FROM doc WHERE {}", matching(word))),
            Task::And => of_pairs(&|a, b| {
                format!("SELECT COUNT(*) FROM doc WHERE {}", matching(&format!("+{a} +{b}")))
            }),
            Task::Phrase => of_pairs(&|a, b| {
                format!("SELECT COUNT(*) FROM doc WHERE {}", matching(&format!("\"{a} {b}\"")))
            }),
            Task::Top10 => of_words(&|word| {
                let score = format!("MATCH (body) AGAINST ('{word}')");
                format!("SELECT id FROM doc WHERE {score} ORDER BY {score} DESC LIMIT 10")
            }),
            Task::Count => of_words(&|word| format!("SELECT COUNT(*) FROM doc WHERE {}", matching(word))),
        }
    }

    /// True if every engine has to give the same answers: all but ranks.
    pub fn is_defined(self) -> bool {
        self != Task::Top10
    }
}

/// The options of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub(super) engines: Vec<Engine>,
    pub(super) rounds: u32,
    /// Caches: a server for each.
    pub(super) caches_mb: Vec<u64>,
    /// Documents of the table.
    pub(super) documents: u64,
    /// Words of a document on average.
    pub(super) words: u32,
    /// Different words.
    pub(super) vocabulary: u32,
    /// Documents inserted one by one.
    pub(super) inserts: u64,
    /// Documents inserted by one statement.
    pub(super) bulk: u64,
    /// Times that each query is asked, after one that does not count.
    pub(super) repeats: u32,
    /// Seconds at most until the server is idle before a task.
    pub(super) settle_s: u32,
    #[serde(default = "one")]
    pub(super) seed: u64,
}

fn one() -> u64 {
    1
}

impl Options {
    /// Refuses options without sense; `name` is the experiment's.
    pub fn check(&self, name: &str) -> Result<()> {
        let wrong = |what: &str| Err(Error::Usage(format!("{name}: {what}")));
        if self.engines.is_empty() || self.caches_mb.is_empty() {
            return wrong("engines and caches_mb must be there");
        }
        if self.engines.contains(&Engine::RocksDb) {
            return wrong("ROCKSDB has no FULLTEXT indexes");
        }
        let numbers = [self.rounds, self.words, self.vocabulary, self.repeats];
        if numbers.contains(&0) || self.caches_mb.contains(&0) {
            return wrong("rounds, caches_mb, words, vocabulary and repeats must be more than 0");
        }
        if [self.documents, self.inserts, self.bulk, self.seed].contains(&0) {
            return wrong("documents, inserts, bulk and seed must be more than 0");
        }
        match self.bulk <= self.documents {
            true => Ok(()),
            false => wrong("bulk must be at most documents: it copies rows of the table"),
        }
    }

    /// A group for each cache, round and engine; engines take turns.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for cache in &self.caches_mb {
            for round in 1..=self.rounds {
                for engine in turns(&self.engines, round - 1) {
                    let id = |task: Task| {
                        let labels = [
                            (ENGINE, engine.to_string()),
                            (TASK, task.name().to_string()),
                            (CACHE, cache.to_string()),
                        ];
                        CellId::new(labels, round)
                    };
                    let title = format!("cache of {cache} MB, round {round}: {engine}");
                    groups.push(Group { title, cells: Task::ALL.into_iter().map(id).collect() });
                }
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(more: &str) -> Options {
        let text = format!(
            "engines = ['TidesDB', 'InnoDB']\nrounds = 2\ncaches_mb = [64, 512]\ndocuments = 100\nwords = 10\n\
             vocabulary = 50\ninserts = 5\nrepeats = 2\nsettle_s = 0\n{more}"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_group_is_an_engine_s_part_of_a_round() {
        let groups = options("bulk = 10").groups();
        assert_eq!(groups.len(), 8);
        assert_eq!(groups[0].title, "cache of 64 MB, round 1: TidesDB");
        assert_eq!(groups[2].title, "cache of 64 MB, round 2: InnoDB", "turns rotate");
        assert_eq!(groups[7].cells.len(), 8);
        assert_eq!(Task::of(&groups[7].cells[4]).unwrap(), Task::Top10);
    }

    #[test]
    fn options_without_sense_are_named() {
        let said = |more: &str| options(more).check("t").unwrap_err().to_string();
        assert!(said("bulk = 101").contains("at most documents"));
        assert!(said("bulk = 0").contains("bulk"));
        assert!(options("bulk = 100").check("t").is_ok());
    }

    #[test]
    fn queries_of_a_task_are_four_and_differ() {
        for task in Task::ALL {
            let queries = task.queries();
            assert!(queries.is_empty() || queries.len() == 4, "{}", task.name());
            assert!(queries.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}
