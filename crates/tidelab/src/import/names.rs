//! Competitor, workload and round from the name of a result's file.
//!
//! A person gives a pattern, as `{engine}_{workload}_{threads}th_r{round}`. Without one they are guessed: the
//! competitor is the differing part of names, apart from workload, threads and round.

use std::collections::BTreeMap;
use std::str::FromStr;

use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::workload::sysbench::Workload;

/// The labels in a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLabels {
    /// Labels by axis.
    pub labels: BTreeMap<String, String>,
    /// The round; none where it says nothing of one.
    pub round: Option<u32>,
}

/// A pattern for names: text, and fields in braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    slashes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(String),
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pattern> {
        let bad = |what: &str| Err(Error::Usage(format!("the pattern of names '{text}' {what}")));
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((field, after)) = after.split_once('}') else {
                return bad("has a brace that is not closed");
            };
            let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if field.is_empty() || !field.chars().all(named) {
                return bad("has a field that is no name of small letters");
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_string()));
            } else if matches!(parts.last(), Some(Part::Field(_))) {
                return bad("has two fields with nothing between them");
            }
            if parts.contains(&Part::Field(field.to_string())) {
                return bad(&format!("has {{{field}}} twice"));
            }
            parts.push(Part::Field(field.to_string()));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_string()));
        }
        if !parts.iter().any(|part| matches!(part, Part::Field(f) if f != "round")) {
            return bad("has no field as {engine}");
        }
        Ok(Pattern { parts, slashes: text.matches('/').count() })
    }
}

impl Pattern {
    /// The fields, but for the round, in their order.
    pub fn fields(&self) -> Vec<&str> {
        let of = |part: &'_ Part| match part {
            Part::Field(name) if name != "round" => Some(name.clone()),
            _ => None,
        };
        self.parts
            .iter()
            .filter(|part| of(part).is_some())
            .map(|part| match part {
                Part::Field(name) | Part::Text(name) => name.as_str(),
            })
            .collect()
    }

    /// The labels of a file's path by this pattern. The pattern stands for the path's last parts and for
    /// the name without its ending. None where it does not fit.
    pub fn read(&self, path: &str) -> Option<FileLabels> {
        let parts: Vec<&str> = path.split('/').collect();
        let tail = parts.get(parts.len().checked_sub(self.slashes + 1)?..)?.join("/");
        let mut values = Vec::new();
        let fits = [stem(&tail), tail.as_str()].iter().any(|text| {
            values.clear();
            fit(&self.parts, text, &mut values)
        });
        if !fits {
            return None;
        }
        let mut said = FileLabels::default();
        for (name, value) in values {
            if name == "round" {
                said.round = Some(value.parse().ok().filter(|n| *n > 0)?);
            } else {
                said.labels.insert(name, value);
            }
        }
        Some(said)
    }
}

/// Fields with a number.
const NUMBERS: [&str; 3] = ["threads", "users", "round"];

/// Matches the whole text; a field takes as little as it can, never a slash, and digits alone where it
/// is a number.
fn fit(parts: &[Part], text: &str, values: &mut Vec<(String, String)>) -> bool {
    match parts.split_first() {
        None => text.is_empty(),
        Some((Part::Text(literal), rest)) => {
            text.strip_prefix(literal.as_str()).is_some_and(|t| fit(rest, t, values))
        }
        Some((Part::Field(name), rest)) => {
            let number = NUMBERS.contains(&name.as_str());
            let fits = |c: char| if number { c.is_ascii_digit() } else { c != '/' };
            let ends =
                text.char_indices().map(|(at, c)| (at + c.len_utf8(), c)).take_while(|(_, c)| fits(*c));
            for (end, _) in ends {
                values.push((name.clone(), text[..end].to_string()));
                if fit(rest, &text[end..], values) {
                    return true;
                }
                values.pop();
            }
            false
        }
    }
}

/// A file's name without the marks of a log.
pub fn stem(name: &str) -> &str {
    const ENDINGS: [&str; 7] = [".txt", ".log", ".out", ".tsv", ".csv", ".sysbench", ".errcodes"];
    let mut stem = name;
    while let Some(shorter) = ENDINGS.iter().find_map(|end| stem.strip_suffix(end)) {
        stem = shorter;
    }
    stem
}

/// Words with a label of their own.
#[derive(Clone, Debug)]
pub struct Words {
    /// The label, as `workload`.
    pub axis: &'static str,
    /// The words, as `read_only`; also with `-` in them, and `oltp_` before them.
    pub known: Vec<&'static str>,
}

impl Words {
    /// sysbench's workloads.
    pub fn workloads() -> Words {
        Words { axis: "workload", known: Workload::ALL.iter().map(|w| w.name()).collect() }
    }
}

/// The labels of these files, from all names together. Each file has the label `engine` if it is known for
/// all of them, else `label`. Each has the label of the words if one of the names has one of them.
pub fn guess(paths: &[&str], words: &Words) -> Vec<FileLabels> {
    let mut parts: Vec<NameParts> = paths.iter().map(|path| NameParts::of(path, words)).collect();
    let common: Vec<String> = match parts.split_first() {
        Some((first, others)) if !others.is_empty() => {
            first.rest.iter().filter(|t| others.iter().all(|o| o.rest.contains(t))).cloned().collect()
        }
        _ => Vec::new(),
    };
    for one in &mut parts {
        let differing: Vec<String> = one.rest.iter().filter(|t| !common.contains(t)).cloned().collect();
        // A name without anything of its own keeps the parts that all names have.
        if !differing.is_empty() || paths.len() > 1 {
            one.rest = differing;
        }
    }
    let engine = |one: &NameParts| one.rest.iter().find_map(|t| known_engine(t));
    let engines = parts.iter().all(|one| one.rest.len() == 1 && engine(one).is_some());
    let any_word = parts.iter().any(|one| one.word.is_some());
    parts
        .iter()
        .map(|one| {
            let mut said = FileLabels { round: one.round, ..FileLabels::default() };
            let label = if one.rest.is_empty() { common.join(" ") } else { one.rest.join(" ") };
            let label = if label.is_empty() { "all".to_string() } else { label };
            match engine(one).filter(|_| engines) {
                Some(engine) => said.labels.insert("engine".to_string(), engine),
                None => said.labels.insert("label".to_string(), label),
            };
            if any_word {
                said.labels.insert(words.axis.to_string(), one.word.unwrap_or("unknown").to_string());
            }
            said
        })
        .collect()
}

/// An engine by its usual names.
fn known_engine(word: &str) -> Option<String> {
    let word = word.to_ascii_lowercase();
    let name = match word.as_str() {
        "tides" | "tidesdb" => Engine::TidesDb.name(),
        "inno" | "innodb" => Engine::InnoDb.name(),
        "rocks" | "rocksdb" | "myrocks" => Engine::RocksDb.name(),
        _ => return None,
    };
    Some(name.to_string())
}

/// A name in its parts.
#[derive(Debug)]
struct NameParts {
    word: Option<&'static str>,
    round: Option<u32>,
    rest: Vec<String>,
}

impl NameParts {
    fn of(path: &str, words: &Words) -> NameParts {
        let mut text = stem(path).replace(['/', ' '], "_");
        let mut found_word = None;
        // Longer ones first: a shorter one may be part of them.
        let mut known = words.known.clone();
        known.sort_by_key(|w| std::cmp::Reverse(w.len()));
        for one in known {
            let spelled = [one.to_string(), one.replace('_', "-")];
            let found = spelled.iter().find_map(|name| word_at(&text, name).map(|at| (at, name.len())));
            if let Some((at, length)) = found {
                let start = text[..at].strip_suffix("oltp_").or(text[..at].strip_suffix("oltp-"));
                let start = start.map_or(at, str::len);
                text.replace_range(start..at + length, "_");
                found_word = Some(one);
                break;
            }
        }
        let words: Vec<&str> = text.split(['_', '-']).filter(|w| !w.is_empty()).collect();
        let mut parts = NameParts { word: found_word, round: None, rest: Vec::new() };
        let mut at = 0;
        while at < words.len() {
            let (word, next) = (words[at], words.get(at + 1).copied().unwrap_or_default());
            let plain = word.to_ascii_lowercase();
            let number = |w: &str| w.parse::<u32>().ok();
            at += 1;
            if ["threads", "thr", "th", "thds"].contains(&plain.as_str()) && number(next).is_some() {
                at += 1;
            } else if ["round", "run", "iter", "iteration", "rep"].contains(&plain.as_str())
                && number(next).is_some()
            {
                parts.round = number(next).filter(|n| *n > 0);
                at += 1;
            } else if let Some(round) = numbered(&plain, &["round", "run", "iter", "iteration", "rep", "r"]) {
                parts.round = Some(round).filter(|n| *n > 0);
            } else if !are_threads(&plain) {
                parts.rest.push(word.to_string());
            }
        }
        parts
    }
}

/// The place of a word, with no letter before or after it.
fn word_at(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let is_border = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
        is_border(text[..*at].chars().next_back()) && is_border(text[at + word.len()..].chars().next())
    })
}

/// `r3`, `round3`.
fn numbered(word: &str, starts: &[&str]) -> Option<u32> {
    starts.iter().find_map(|start| word.strip_prefix(start)?.parse().ok())
}

/// `16th`, `16threads`, `t16`.
fn are_threads(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let ends = ["th", "thr", "thds", "thread", "threads", "t"];
    (digits.len() < word.len() && ends.contains(&digits))
        || numbered(word, &["threads", "thr", "th", "t"]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    fn guess(paths: &[&str]) -> Vec<FileLabels> {
        super::guess(paths, &Words::workloads())
    }

    fn labels(said: &FileLabels) -> Vec<String> {
        said.labels.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_pattern_takes_a_name_apart() {
        let p = pattern("{server}/{engine}_{workload}_{threads}th_r{round}");
        assert_eq!(p.fields(), ["server", "engine", "workload", "threads"]);
        let said = p.read("a/b/MariaDB 11.8/InnoDB_read_write_16th_r2.log").unwrap();
        assert_eq!(
            labels(&said),
            ["engine=InnoDB", "server=MariaDB 11.8", "threads=16", "workload=read_write"]
        );
        assert_eq!(said.round, Some(2));
        assert_eq!(p.read("InnoDB_read_write_16th_r2.log"), None, "the server's folder is missing");
        assert_eq!(p.read("s/InnoDB_16th_r2.log"), None);
        assert_eq!(p.read("s/InnoDB_w_16th_rx.log"), None, "a round is a number");
    }

    #[test]
    fn a_pattern_that_says_nothing_is_refused() {
        for (text, said) in [
            ("{engine", "not closed"),
            ("{Engine}", "small letters"),
            ("{a}{b}", "nothing between"),
            ("{a}-{a}", "twice"),
            ("x{round}", "no field"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn names_say_engine_workload_and_round() {
        let said = guess(&[
            "out/tidesdb_oltp_read_write_8t_r1.log",
            "out/innodb_oltp_read_write_8t_r1.log",
            "out/innodb-oltp_point_select-threads-16-run2.txt",
        ]);
        assert_eq!(labels(&said[0]), ["engine=TidesDB", "workload=read_write"]);
        assert_eq!(labels(&said[1]), ["engine=InnoDB", "workload=read_write"]);
        assert_eq!(labels(&said[2]), ["engine=InnoDB", "workload=point_select"]);
        assert_eq!(said.iter().map(|s| s.round).collect::<Vec<_>>(), [Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn what_differs_is_the_label() {
        let said = guess(&["v1/mine_16th.log", "v2/mine_16th.log", "v2/mine_32th.log"]);
        assert_eq!(said.iter().flat_map(labels).collect::<Vec<_>>(), ["label=v1", "label=v2", "label=v2"]);
        let said = guess(&["mine_a.log", "mine.log"]);
        assert_eq!(said.iter().flat_map(labels).collect::<Vec<_>>(), ["label=a", "label=mine"]);
        let alone = guess(&["5.7.44-48_insertion.log"]);
        assert_eq!(labels(&alone[0]), ["label=5.7.44 48 insertion"]);
        assert_eq!(labels(&guess(&["16th.log"])[0]), ["label=all"]);
    }

    #[test]
    fn other_words_can_be_asked_for() {
        let words = Words { axis: "phase", known: vec!["load", "mixed"] };
        let said = super::guess(&["innodb_load.tsv", "tidesdb_mixed.tsv"], &words);
        let said: Vec<String> = said.iter().flat_map(labels).collect();
        assert_eq!(said, ["engine=InnoDB", "phase=load", "engine=TidesDB", "phase=mixed"]);
    }

    #[test]
    fn endings_are_no_part_of_a_name() {
        assert_eq!(stem("Tier2G_RW_4th.sysbench.txt"), "Tier2G_RW_4th");
        assert_eq!(stem("10.11.16"), "10.11.16");
    }
}
