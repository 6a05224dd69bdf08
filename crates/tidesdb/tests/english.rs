//! The English of doc comments, counted: few relative pronouns, as in the comments of other engines (1.2 to 1.7 in a
//! hundred words). `docs/style.md` has the rules that cannot be counted.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Most of these words in a hundred words of doc comments.
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

#[test]
fn doc_comments_have_few_relative_pronouns() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&top.join("crates"), &mut files);
    sources(&top.join("plugin"), &mut files);
    let (mut words, mut pronouns, mut worst) = (0, 0, (0.0, PathBuf::new()));
    for file in files {
        let (in_file, of_them) = count(&fs::read_to_string(&file).unwrap_or_default());
        let share = 100.0 * of_them as f64 / in_file.max(1) as f64;
        if in_file >= 100 && share > worst.0 {
            worst = (share, file);
        }
        (words, pronouns) = (words + in_file, pronouns + of_them);
    }
    let share = 100.0 * pronouns as f64 / words as f64;
    assert!(words > 50_000, "{words} words");
    let (of_worst, file) = worst;
    assert!(
        share <= MOST,
        "{share:.2} in a hundred words; the worst file has {of_worst:.1}: {}",
        file.display()
    );
}

#[test]
fn pronouns_count_in_doc_comments_alone() {
    assert_eq!(count("/// A row that fits.\n// what\nlet who = 1; //! that"), (4, 1));
    assert_eq!(count("    //! What it's: which?\n"), (3, 2));
}
