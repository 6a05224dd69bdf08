//! A statement with marks: the removable pieces, and the places of index hints.
//!
//! Generators put text together with `format!`; [`maybe`], [`list`] and [`of`] put nestable control
//! characters around pieces. [`Sentence`] reads the marks back. Each removable piece has a number;
//! [`Sentence::text`] writes the statement without the named pieces. The shrinker removes sets of such
//! numbers.
//!
//! A list without any item left takes the piece around it along: `KEY k (a)` without `a` is no key.

use std::collections::HashSet;

const OPEN_MAYBE: char = '\u{1}';
const OPEN_LIST: char = '\u{2}';
const NEXT: char = '\u{3}';
const CLOSE: char = '\u{4}';
const TAG: char = '\u{5}';
/// The place of an index hint.
pub(super) const HINT: char = '\u{6}';

/// An optional piece of a statement.
pub(super) fn maybe(text: &str) -> String {
    format!("{OPEN_MAYBE}{text}{CLOSE}")
}

/// Items with something between them; each can go. No items: an empty text.
pub(super) fn list(between: &str, items: impl IntoIterator<Item = String>) -> String {
    let mut text = format!("{OPEN_LIST}{between}");
    let before = text.len();
    for item in items {
        text.push(NEXT);
        text.push_str(&item);
    }
    if text.len() == before {
        return String::new();
    }
    text.push(CLOSE);
    text
}

/// An item of a list, removed with the column (`table.column`).
pub(super) fn of(table: &str, column: &str, text: &str) -> String {
    format!("{TAG}{table}.{column}{TAG}{text}")
}

#[cfg(test)]
/// The text without marks and without a hint.
pub(super) fn plain(marked: &str) -> String {
    Sentence::read(marked, &mut 0).text(&HashSet::new(), "")
}

/// A number of a removable piece.
pub(super) type Piece = usize;

#[derive(Debug)]
enum Node {
    Text(String),
    Hint,
    Maybe(Piece, Vec<Node>),
    List(String, Vec<Item>),
}

#[derive(Debug)]
struct Item {
    piece: Piece,
    tag: Option<String>,
    nodes: Vec<Node>,
}

/// A statement whose pieces have numbers.
#[derive(Debug)]
pub(super) struct Sentence(Vec<Node>);

impl Sentence {
    /// Reads the marks; pieces get the numbers from `next` on, outer ones before inner ones.
    pub(super) fn read(marked: &str, next: &mut Piece) -> Sentence {
        let mut chars = marked.chars().peekable();
        let mut nodes = Vec::new();
        while chars.peek().is_some() {
            nodes.extend(read_nodes(&mut chars, next));
            chars.next(); // a mark that closes nothing
        }
        Sentence(nodes)
    }

    /// The statement without these pieces, and with a hint; empty where nothing sensible is left.
    pub(super) fn text(&self, removed: &HashSet<Piece>, hint: &str) -> String {
        write_nodes(&self.0, removed, hint).unwrap_or_default()
    }

    /// All pieces: each with its column.
    pub(super) fn pieces(&self) -> Vec<(Piece, Option<&str>)> {
        let mut all = Vec::new();
        collect(&self.0, &mut all);
        all
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Nodes up to their closing mark, left unread.
fn read_nodes(chars: &mut Chars<'_>, next: &mut Piece) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut text = String::new();
    let flush = |text: &mut String, nodes: &mut Vec<Node>| {
        if !text.is_empty() {
            nodes.push(Node::Text(std::mem::take(text)));
        }
    };
    while let Some(&c) = chars.peek() {
        if c == NEXT || c == CLOSE {
            break;
        }
        chars.next();
        match c {
            OPEN_MAYBE => {
                flush(&mut text, &mut nodes);
                let piece = number(next);
                let inner = read_nodes(chars, next);
                chars.next();
                nodes.push(Node::Maybe(piece, inner));
            }
            OPEN_LIST => {
                flush(&mut text, &mut nodes);
                let between: String = take_until(chars, |c| c == NEXT || c == CLOSE);
                let mut items = Vec::new();
                while chars.next() == Some(NEXT) {
                    let piece = number(next);
                    let tag = (chars.peek() == Some(&TAG)).then(|| {
                        chars.next();
                        let tag = take_until(chars, |c| c == TAG);
                        chars.next();
                        tag
                    });
                    items.push(Item { piece, tag, nodes: read_nodes(chars, next) });
                }
                nodes.push(Node::List(between, items));
            }
            HINT => {
                flush(&mut text, &mut nodes);
                nodes.push(Node::Hint);
            }
            c => text.push(c),
        }
    }
    flush(&mut text, &mut nodes);
    nodes
}

fn number(next: &mut Piece) -> Piece {
    *next += 1;
    *next - 1
}

fn take_until(chars: &mut Chars<'_>, end: impl Fn(char) -> bool) -> String {
    let mut text = String::new();
    while let Some(c) = chars.next_if(|c| !end(*c)) {
        text.push(c);
    }
    text
}

/// None when a list in it lost its last item.
fn write_nodes(nodes: &[Node], removed: &HashSet<Piece>, hint: &str) -> Option<String> {
    let mut text = String::new();
    for node in nodes {
        match node {
            Node::Text(t) => text.push_str(t),
            Node::Hint => text.push_str(hint),
            Node::Maybe(piece, inner) => {
                if !removed.contains(piece) {
                    text.push_str(&write_nodes(inner, removed, hint).unwrap_or_default());
                }
            }
            Node::List(between, items) => {
                let left: Vec<String> = items
                    .iter()
                    .filter(|item| !removed.contains(&item.piece))
                    .filter_map(|item| write_nodes(&item.nodes, removed, hint))
                    .collect();
                if left.is_empty() {
                    return None;
                }
                text.push_str(&left.join(between));
            }
        }
    }
    Some(text)
}

fn collect<'a>(nodes: &'a [Node], all: &mut Vec<(Piece, Option<&'a str>)>) {
    for node in nodes {
        match node {
            Node::Text(_) | Node::Hint => {}
            Node::Maybe(piece, inner) => {
                all.push((*piece, None));
                collect(inner, all);
            }
            Node::List(_, items) => {
                for item in items {
                    all.push((item.piece, item.tag.as_deref()));
                    collect(&item.nodes, all);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert() -> String {
        let row = |a: &str, b: &str| format!("({})", list(", ", [of("t", "a", a), of("t", "b", b)]));
        format!(
            "INSERT INTO t ({}) VALUES {}{}",
            list(", ", [of("t", "a", "a"), of("t", "b", "b")]),
            list(", ", [row("1", "2"), row("3", "4")]),
            maybe(" RETURNING a")
        )
    }

    #[test]
    fn without_marks_it_is_the_statement() {
        assert_eq!(plain(&insert()), "INSERT INTO t (a, b) VALUES (1, 2), (3, 4) RETURNING a");
        assert_eq!(plain(&format!("SELECT 1 FROM t{HINT} WHERE 1")), "SELECT 1 FROM t WHERE 1");
        assert_eq!(list(", ", []), "");
    }

    #[test]
    fn a_column_goes_from_the_list_and_from_every_row() {
        let mut next = 7;
        let sentence = Sentence::read(&insert(), &mut next);
        let pieces = sentence.pieces();
        assert_eq!(pieces.len(), next - 7, "each has a number");
        let of =
            |tag| pieces.iter().filter(|(_, t)| *t == Some(tag)).map(|(p, _)| *p).collect::<HashSet<_>>();
        assert_eq!(of("t.a").len(), 3);
        assert_eq!(sentence.text(&of("t.a"), ""), "INSERT INTO t (b) VALUES (2), (4) RETURNING a");
        let rest: HashSet<Piece> = pieces.iter().filter(|(_, tag)| tag.is_none()).map(|(p, _)| *p).collect();
        assert_eq!(sentence.text(&rest, ""), "", "without rows it is no statement");
    }

    #[test]
    fn what_lost_its_last_item_goes_as_a_whole() {
        let key =
            |name: &str, column: &str| format!("KEY {name} ({})", list(", ", [of("t", column, column)]));
        let marked = format!(
            "CREATE TABLE t ({}){}",
            list(", ", [of("t", "a", "a INT"), of("t", "b", "b INT"), key("x", "a"), key("y", "b")]),
            maybe(&format!(" WHERE {}", list(" AND ", [of("t", "a", "a = 1")])))
        );
        let sentence = Sentence::read(&marked, &mut 0);
        let removed: HashSet<Piece> =
            sentence.pieces().into_iter().filter(|(_, t)| *t == Some("t.a")).map(|(p, _)| p).collect();
        assert_eq!(sentence.text(&removed, ""), "CREATE TABLE t (b INT, KEY y (b))");
    }

    #[test]
    fn the_hint_stands_where_it_belongs() {
        let sentence = Sentence::read(&format!("SELECT a FROM t x{HINT} JOIN t y"), &mut 0);
        let removed = HashSet::new();
        assert_eq!(sentence.text(&removed, " FORCE INDEX (k)"), "SELECT a FROM t x FORCE INDEX (k) JOIN t y");
    }
}
