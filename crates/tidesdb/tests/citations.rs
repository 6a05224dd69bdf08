//! Comments and documents name files and sections of documents: each of them exists.
//!
//! Covers the comments of code in `crates/`, `plugin/`, `scripts/` and `experiments/`, and the documents in
//! `docs/` and at the top. A path exists if a file or folder of the project has it: from the top, from the
//! citing file's folder, or as the end of a longer path. Code blocks of documents are not read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders at the top; a path beginning with one names a file or folder of the project.
const TOP: [&str; 5] = ["crates/", "docs/", "experiments/", "plugin/", "scripts/"];

/// A path with one of these endings names a file.
const ENDINGS: [&str; 10] = [".md", ".rs", ".cc", ".h", ".sh", ".pl", ".py", ".mjs", ".toml", ".mk"];

/// Folders without project files.
const NOT_OURS: [&str; 6] = [".git", "target", "build", ".run", "node_modules", "__pycache__"];

/// Files of the server's source, of Rust's and of made-up runs named in comments: they do not exist here.
const ELSEWHERE: [&str; 13] = [
    // Of a kept run, of a user, of SQLAlchemy.
    "rules/alignment.toml",
    "my.toml",
    "test_suite.py",
    "test_all.py",
    "sql/",
    "storage/",
    "tests/check_costs.pl",
    "ha_innodb.cc",
    "ha_rocksdb.cc",
    "mysqld.cc",
    "sql_table.cc",
    "debug/",
    "build/",
];

/// Paths out of the project.
const FORBIDDEN: [&str; 4] = ["/work/", "../shared", "shared/design", "house.md"];

/// The project's files, by path from the top; for documents the text too.
#[derive(Default)]
struct Tree {
    files: BTreeMap<String, String>,
    folders: BTreeSet<String>,
}

impl Tree {
    fn add(&mut self, path: &str, text: String) {
        let mut folder = path;
        while let Some((parent, _)) = folder.rsplit_once('/') {
            self.folders.insert(parent.to_string());
            folder = parent;
        }
        self.files.insert(path.to_string(), text);
    }

    fn read(root: &Path) -> Tree {
        let mut tree = Tree::default();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder)).expect("a folder can be listed") {
                let entry = entry.expect("a folder can be listed");
                let name = entry.file_name().into_string().expect("names are UTF-8");
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                let kind = entry.file_type().expect("a file has a type");
                if kind.is_dir() && !NOT_OURS.contains(&name.as_str()) {
                    folders.push(path);
                } else if kind.is_file() {
                    let text = String::from_utf8(fs::read(entry.path()).expect("a file can be read"));
                    tree.add(&path, text.unwrap_or_default());
                }
            }
        }
        tree
    }

    /// The file or folder meant by `path`, named in the file `from`.
    fn resolve(&self, path: &str, from: &str) -> Option<String> {
        let path = path.trim_end_matches('/');
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        let there =
            |path: String| (self.files.contains_key(&path) || self.folders.contains(&path)).then_some(path);
        let end = format!("/{}", path.trim_start_matches("./"));
        there(join(folder, path))
            .or_else(|| there(path.to_string()))
            .or_else(|| self.files.keys().find(|known| known.ends_with(&end)).cloned())
            .or_else(|| self.folders.iter().find(|known| known.ends_with(&end)).cloned())
            .or_else(|| self.decision(path))
    }

    /// True if a path is one from the top or from the citing file's folder, and not the end of a longer one.
    fn is_exact(&self, path: &str, from: &str) -> bool {
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.files.contains_key(path)
            || self.files.contains_key(&join(folder, path))
            || self.decision(path).is_some()
    }

    /// `docs/design/0012` means the file with this beginning.
    fn decision(&self, path: &str) -> Option<String> {
        let number = path.strip_prefix("docs/design/").filter(|n| n.len() == 4)?;
        number.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        self.files.keys().find(|known| known.starts_with(&format!("{path}-"))).cloned()
    }
}

/// `path` seen from `folder`, without `.` and `..`.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return format!("../{path}");
                }
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Text of one comment or paragraph in one line, and its first line in the file.
struct Block {
    line: usize,
    text: String,
}

/// Collects neighbouring lines into blocks.
#[derive(Default)]
struct Blocks {
    done: Vec<Block>,
    open: Option<Block>,
}

impl Blocks {
    fn add(&mut self, line: usize, text: &str) {
        match &mut self.open {
            Some(block) => {
                block.text.push(' ');
                block.text.push_str(text.trim());
            }
            None => self.open = Some(Block { line, text: text.trim().to_string() }),
        }
    }

    fn end(&mut self) {
        self.done.extend(self.open.take());
    }
}

/// The comments of a source file; `marks` begin a comment up to the line's end.
fn comments(source: &str, marks: &[&str], blocks_too: bool) -> Vec<Block> {
    let mut blocks = Blocks::default();
    let mut inside = false;
    for (number, line) in (1..).zip(source.lines()) {
        let trimmed = line.trim_start();
        if inside || blocks_too && trimmed.contains("/*") {
            let begin = if inside { 0 } else { trimmed.find("/*").map_or(0, |at| at + 2) };
            let end = trimmed[begin..].find("*/").map(|at| begin + at);
            blocks.add(number, &trimmed[begin..end.unwrap_or(trimmed.len())]);
            inside = end.is_none();
            if !inside {
                blocks.end();
            }
            continue;
        }
        let whole = marks.iter().find_map(|mark| trimmed.strip_prefix(mark));
        let behind =
            || marks.iter().find_map(|mark| line.split_once(&format!(" {} ", mark.trim())).map(|(_, t)| t));
        match whole {
            Some(text) => blocks.add(number, text.trim_start_matches(['/', '!', '#'])),
            None => {
                blocks.end();
                if let Some(text) = behind() {
                    blocks.add(number, text);
                    blocks.end();
                }
            }
        }
    }
    blocks.end();
    blocks.done
}

/// The paragraphs of a document, without its blocks of code.
fn paragraphs(document: &str) -> Vec<Block> {
    let mut blocks = Blocks::default();
    let (mut fenced, mut indented) = (false, true);
    for (number, line) in (1..).zip(document.lines()) {
        let fence = line.trim_start().starts_with("```");
        let empty = line.trim().is_empty();
        // Indented text after an empty line is code, unless it goes on in a list.
        indented = line.starts_with("    ") && (indented || blocks.open.is_none()) || empty && indented;
        if fence || fenced || empty || indented && blocks.open.is_none() || line.starts_with('|') {
            blocks.end();
        }
        if !fence && !fenced && !empty && !indented {
            blocks.add(number, line);
        }
        fenced ^= fence;
    }
    blocks.end();
    blocks.done
}

fn blocks_of(path: &str, text: &str) -> Vec<Block> {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending {
        "md" => paragraphs(text),
        "rs" => comments(text, &["//"], false),
        "cc" | "h" | "c" | "mjs" => comments(text, &["//"], true),
        "sh" | "pl" | "py" | "toml" | "mk" | "test" | "inc" | "list" | "known" => {
            comments(text, &["# "], false)
        }
        _ => Vec::new(),
    }
}

/// A path with the section or title cited after it.
#[derive(Debug, PartialEq)]
struct Citation {
    path: String,
    anchor: Option<String>,
    /// `3`, or `3.2`.
    sections: Vec<String>,
    /// A heading, in quotes.
    title: Option<String>,
}

fn is_path_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./{},#".contains(c)
}

/// A path with a list in braces, as one path for each of the list.
fn alternatives(path: &str) -> Vec<String> {
    let Some((head, rest)) = path.split_once('{') else { return vec![path.to_string()] };
    let Some((middle, tail)) = rest.split_once('}') else { return Vec::new() };
    middle.split(',').flat_map(|one| alternatives(&format!("{head}{one}{tail}"))).collect()
}

/// The citations in a block of text.
fn citations(text: &str) -> Vec<Citation> {
    // A list in braces may go over the end of a line.
    let text = text.replace(", ", ",\u{1} ");
    let text = glue_braces(&text).replace('\u{1}', "");
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find(is_path_character).map(|n| at + n) {
        let end = text[begin..].find(|c| !is_path_character(c)).map_or(text.len(), |n| begin + n);
        at = end;
        let before = &text[..begin];
        let is_address = before.ends_with(':') && text[begin..].starts_with("//") || before.ends_with('~');
        let token = text[begin..end].trim_end_matches(['.', ',', '#']);
        if is_address || token.is_empty() {
            continue;
        }
        let (path, anchor) = match token.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_string())),
            None => (token, None),
        };
        let path = path.split_once("::").map_or(path, |(path, _)| path).trim_end_matches(',');
        let behind = text[begin + token.len()..].trim_start_matches(['`', ')', ']']);
        for path in alternatives(path) {
            let named = ENDINGS.iter().any(|ending| path.ends_with(ending) && path.len() > ending.len());
            if !named && !TOP.iter().any(|top| path.starts_with(top) && path.len() > top.len()) {
                continue;
            }
            let document = path.ends_with(".md");
            let sections = if document { sections_behind(behind) } else { Vec::new() };
            let title = if document { title_behind(behind) } else { None };
            found.push(Citation { path, anchor: anchor.clone(), sections, title });
        }
    }
    found
}

/// Takes the spaces out of lists in braces.
fn glue_braces(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ' ' | '\u{1}' if depth > 0 => continue,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// The numbers in `section 3`, `sections 2, 5 and 7`, `3.2 and 3.5`.
fn sections_behind(text: &str) -> Vec<String> {
    let mut rest = text.trim_start();
    let worded = rest.starts_with("section");
    if worded {
        rest = rest.trim_start_matches("sections").trim_start_matches("section").trim_start();
    }
    let mut out = Vec::new();
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = rest[..end].trim_end_matches('.');
        let parts: Vec<&str> = number.split('.').collect();
        let is_number = parts.iter().all(|part| !part.is_empty());
        if !is_number || parts.len() > 2 || (parts.len() == 1 && !worded) {
            return out;
        }
        out.push(number.to_string());
        rest = &rest[number.len()..];
        match [", ", " and ", " to ", ",", " "].iter().find_map(|between| rest.strip_prefix(between)) {
            Some(next) => rest = next,
            None => return out,
        }
    }
}

/// The heading, or the term defined in the document, in `"Recovery"`, `, "Recovery"` or `("Recovery")`.
fn title_behind(text: &str) -> Option<String> {
    let text = text.trim_start_matches([',', ' ', '(']);
    let (title, _) = text.strip_prefix('"')?.split_once('"')?;
    Some(title.to_string())
}

/// Headings of a document: as written, and as the web makes anchors of them.
fn headings(document: &str) -> Vec<(String, String)> {
    let mut fenced = false;
    let mut out = Vec::new();
    for line in document.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().replace('`', "");
        let kept = title
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>();
        out.push((title, kept.replace(' ', "-")));
    }
    out
}

/// True if a document has section `3`, or item 2 of it for `3.2`.
fn has_section(document: &str, section: &str) -> bool {
    let (number, item) = section.split_once('.').map_or((section, None), |(n, m)| (n, Some(m)));
    let mut inside = false;
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            inside = heading.split([' ', '.']).next() == Some(number);
            if inside && item.is_none() {
                return true;
            }
        } else if inside
            && item.is_some_and(|item| line.strip_prefix(item).is_some_and(|l| l.starts_with(". ")))
        {
            return true;
        }
    }
    false
}

/// True if a missing path is a placeholder for many, as in `results/NAME`.
fn is_placeholder(path: &str) -> bool {
    let mut run = 0;
    path.chars().any(|c| {
        run = if c.is_ascii_uppercase() { run + 1 } else { 0 };
        run >= 3
    }) && !["README", "CHANGELOG", "CONTRIBUTING", "LICENSE"].iter().any(|name| path.contains(name))
}

/// The fault of a citation in `from`, if it has one.
fn complaint(tree: &Tree, from: &str, citation: &Citation) -> Option<String> {
    let Citation { path, anchor, sections, title } = citation;
    if ELSEWHERE.iter().any(|prefix| path.starts_with(prefix)) {
        return None;
    }
    let Some(file) = tree.resolve(path, from) else {
        return (!is_placeholder(path)).then(|| format!("there is no {path}"));
    };
    if file.starts_with("docs/")
        && file.ends_with(".md")
        && !from.ends_with(".md")
        && !tree.is_exact(path, from)
    {
        return Some(format!("{path} is {file}: code names documents from the top"));
    }
    let document = tree.files.get(&file).map_or("", String::as_str);
    if let Some(section) = sections.iter().find(|section| !has_section(document, section)) {
        return Some(format!("{file} has no section {section}"));
    }
    let known = headings(document);
    if let Some(anchor) = anchor.as_ref().filter(|_| file.ends_with(".md")) {
        if !known.iter().any(|(_, slug)| slug == anchor) {
            return Some(format!("{file} has no anchor {anchor}"));
        }
    }
    let title = title.as_ref()?;
    let unnumbered = |heading: &str| heading.trim_start_matches(|c: char| c.is_ascii_digit()).to_lowercase();
    let bare = |heading: &str| unnumbered(heading).trim_start_matches(". ").to_string();
    let begins = |heading: &str| {
        heading.strip_prefix(&title.to_lowercase()).is_some_and(|h| h.is_empty() || h.starts_with(':'))
    };
    let there = known.iter().any(|(heading, _)| begins(&bare(heading)))
        || ["**", "*", "`"].iter().any(|mark| document.contains(&format!("{mark}{title}{mark}")));
    (!there).then(|| format!("{file} has no heading {title:?}"))
}

/// All faults of a file.
fn complaints(tree: &Tree, path: &str, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for block in blocks_of(path, text) {
        for word in FORBIDDEN.iter().filter(|word| block.text.contains(**word)) {
            out.push(format!("{path}:{}: {word:?} leads out of the project", block.line));
        }
        for citation in citations(&block.text) {
            out.extend(complaint(tree, path, &citation).map(|why| format!("{path}:{}: {why}", block.line)));
        }
    }
    out
}

fn is_read(path: &str) -> bool {
    let document = path.ends_with(".md");
    TOP.iter().any(|top| path.starts_with(top)) || document && !path.contains('/')
}

#[test]
fn every_file_and_section_that_is_named_exists() {
    let tree = Tree::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let wrong: Vec<String> = tree
        .files
        .iter()
        .filter(|(path, _)| is_read(path))
        .flat_map(|(path, text)| complaints(&tree, path, text))
        .collect();
    assert!(wrong.is_empty(), "{} wrong citations:\n{}", wrong.len(), wrong.join("\n"));
    let read: usize = tree
        .files
        .iter()
        .filter(|(path, _)| is_read(path))
        .flat_map(|(path, text)| blocks_of(path, text))
        .map(|block| citations(&block.text).len())
        .sum();
    assert!(read > 500, "citations were found: {read}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        let rules = "# Rules\n\n## 1. Log\n\n1. One.\n2. Two.\n\n## 2. Commit `now`\n\n1. One.\n";
        tree.add("docs/rules.md", rules.to_string());
        tree.add("docs/design/0007-rows.md", "# 0007: rows\n".to_string());
        tree.add("crates/a/src/log/mod.rs", String::new());
        tree.add("crates/a/src/log/read.rs", String::new());
        tree
    }

    fn wrong(path: &str, text: &str) -> Vec<String> {
        complaints(&tree(), path, text)
    }

    #[test]
    fn what_exists_is_no_complaint() {
        for text in [
            "`docs/rules.md`",
            "docs/rules.md section 2, and more",
            "`docs/rules.md` sections 1 and 2.",
            "(`docs/rules.md` 1.2, 2.1)",
            "`docs/rules.md` \"Commit now\"",
            "[the rules](docs/rules.md#1-log)",
            "`docs/rules.md` 64 bytes",
            "`log/{mod,read}.rs`",
            "`crates/a/src/log`",
            "docs/design/0007",
            "`docs/results/NAME`",
            "sql/handler.cc",
            "https://example.org/x/y.md",
        ] {
            assert_eq!(wrong("README.md", text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(wrong("docs/other.md", "[rules](rules.md#2-commit-now)"), Vec::<String>::new());
        assert_eq!(wrong("docs/design/0007-rows.md", "[rules](../rules.md)"), Vec::<String>::new());
    }

    #[test]
    fn what_does_not_exist_is_found() {
        for (text, why) in [
            ("`docs/rule.md`", "there is no docs/rule.md"),
            ("docs/rules.md section 3", "docs/rules.md has no section 3"),
            ("`docs/rules.md` 1.3", "docs/rules.md has no section 1.3"),
            ("`docs/rules.md` 1.2 and 2.2", "docs/rules.md has no section 2.2"),
            ("`docs/rules.md` sections 1, 2 and 3", "docs/rules.md has no section 3"),
            ("`docs/rules.md` (\"Recovery\")", "docs/rules.md has no heading \"Recovery\""),
            ("[the rules](docs/rules.md#2-commit)", "docs/rules.md has no anchor 2-commit"),
            ("`log/{mod,write}.rs`", "there is no log/write.rs"),
            ("`read.cc`", "there is no read.cc"),
            ("`crates/a/src/lock`", "there is no crates/a/src/lock"),
            ("docs/design/0008", "there is no docs/design/0008"),
        ] {
            assert_eq!(wrong("README.md", text), [format!("README.md:1: {why}")], "{text}");
        }
        assert!(!wrong("docs/x.md", "see ../../shared/design/x").is_empty(), "out of the project");
        assert_eq!(wrong("docs/x.md", "one\n\ntwo /work/x").first().map(|w| &w[..11]), Some("docs/x.md:3"));
    }

    #[test]
    fn only_comments_of_code_are_read_and_all_of_them() {
        // `@` stands for what begins a comment: these lines are read as well.
        let rust = "@! `docs/no.md`\nlet a = \"docs/code.md\"; @ docs/side.md\n@/ docs/rules.md\n@/ 1.9\n";
        let why = ["crates/x.rs:1: there is no docs/no.md", "crates/x.rs:2: there is no docs/side.md"];
        let section = "crates/x.rs:3: docs/rules.md has no section 1.9";
        assert_eq!(wrong("crates/x.rs", &rust.replace('@', "//")), [why[0], why[1], section]);
        assert_eq!(wrong("crates/x.rs", "//! `rules.md` 1.2\n").len(), 1, "not from the top");
        let c = "/* docs/one.md\n   docs/two.md */ int d;\nchar *s = \"docs/four.md\";\n/*\n  docs/rules.md\n  section 4 */\n";
        let found = wrong("plugin/x.cc", c);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[2].ends_with("has no section 4"), "{found:?}");
        assert_eq!(wrong("scripts/x.sh", "# docs/no.md\ncat docs/code.md\n").len(), 1);
    }

    #[test]
    fn code_in_documents_is_not_read() {
        let text =
            "Text `docs/a.md`.\n\n    cat docs/b.md\n\n```sh\ncat docs/c.md\n```\n\n- item\n  `docs/d.md`\n";
        assert_eq!(
            wrong("README.md", text),
            ["README.md:1: there is no docs/a.md", "README.md:9: there is no docs/d.md"]
        );
    }
}
