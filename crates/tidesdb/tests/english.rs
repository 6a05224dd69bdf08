//! The English of doc comments, counted: few relative pronouns, as in the comments of other engines (1.2 to 1.7 in a
//! hundred words). `docs/style.md` has the rules that cannot be counted.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Most of these words in a hundred words of a room's doc comments.
const MOST: f64 = 2.2;

const PRONOUNS: [&str; 4] = ["that", "which", "what", "who"];

/// Source files below a directory, without those of builds.
fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ["rs", "cc", "h"].iter().any(|of| ending == *of)) {
            into.push(path);
        }
    }
}

/// Words and pronouns of the lines that begin with `///` or `//!`.
fn count(text: &str) -> (usize, usize) {
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let words = comments.flat_map(|line| line.split(|c: char| !c.is_ascii_alphabetic() && c != '\''));
    words.filter(|word| !word.is_empty()).fold((0, 0), |(words, pronouns), word| {
        (words + 1, pronouns + usize::from(PRONOUNS.iter().any(|of| word.eq_ignore_ascii_case(of))))
    })
}

/// The room of a source file: its folder. A module's own file counts in the module's folder.
fn room_of(file: &Path) -> PathBuf {
    let own = file.with_extension("");
    if own.is_dir() {
        return own;
    }
    file.parent().unwrap().to_path_buf()
}

/// Words and pronouns of the doc comments, by room.
fn rooms(top: &Path) -> BTreeMap<PathBuf, (usize, usize)> {
    let mut files = Vec::new();
    sources(&top.join("crates"), &mut files);
    sources(&top.join("plugin"), &mut files);
    let mut rooms = BTreeMap::new();
    for file in files {
        let (words, pronouns) = count(&fs::read_to_string(&file).unwrap_or_default());
        let room: &mut (usize, usize) = rooms.entry(room_of(&file)).or_default();
        *room = (room.0 + words, room.1 + pronouns);
    }
    rooms
}

#[test]
fn doc_comments_of_each_room_have_few_relative_pronouns() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rooms = rooms(&top);
    let words: usize = rooms.values().map(|(words, _)| words).sum();
    assert!(words > 50_000, "{words} words");
    let share = |&(words, pronouns): &(usize, usize)| 100.0 * pronouns as f64 / words.max(1) as f64;
    let over: Vec<String> = rooms
        .iter()
        .filter(|(_, counted)| share(counted) > MOST)
        .map(|(room, counted)| {
            format!("{}: {:.2}", room.strip_prefix(&top).unwrap().display(), share(counted))
        })
        .collect();
    assert!(over.is_empty(), "more than {MOST} in a hundred words: {over:#?}");
}

#[test]
fn pronouns_count_in_doc_comments_alone() {
    assert_eq!(count("/// A row that fits.\n// what\nlet who = 1; //! that"), (4, 1));
    assert_eq!(count("    //! What it's: which?\n"), (3, 2));
}
