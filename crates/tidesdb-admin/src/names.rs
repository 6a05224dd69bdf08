//! Names of families in a person's words: the plugin's are `DATABASE/FILE`, a zero byte, and which part of the table. The
//! indexes' names stand in the record of the table's rows (docs/format/table-record.md).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::connection::quoted;
use crate::output::shown_name;

/// What the server puts between the file's name and a partition's.
const PARTITION: &str = "#P#";
/// What it puts between those of a partition and its subpartition.
const SUBPARTITION: &str = "#SP#";

/// A name of the server's files as statements have it. Letters that it writes in two characters stay as they are.
pub fn decoded(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('@') {
        out.push_str(before);
        let code = after.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code.and_then(char::from_u32) {
            Some(letter) => {
                out.push(letter);
                rest = &after[4..];
            }
            None => {
                out.push('@');
                rest = after;
            }
        }
    }
    out + rest
}

/// The part of a server's table that a family holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePart {
    pub database: String,
    pub table: String,
    /// The subpartition where there are some.
    pub partition: Option<String>,
    /// `PRIMARY`, `HIDDEN` for rows without a primary key, else the index's name, or its number where the record is lost.
    pub index: String,
}

impl TablePart {
    fn text(&self) -> String {
        let partition =
            self.partition.as_ref().map_or(String::new(), |name| format!(" partition {}", quoted(name)));
        let index = match self.index.as_str() {
            "PRIMARY" | "HIDDEN" => self.index.clone(),
            name => format!("index {}", quoted(name)),
        };
        format!("{}.{}{partition} {index}", quoted(&self.database), quoted(&self.table))
    }
}

/// Indexes of a table by number.
type Indexes = BTreeMap<u32, String>;

/// Families with the names of their tables' indexes.
#[derive(Default)]
pub struct Names {
    indexes: BTreeMap<Vec<u8>, Indexes>,
}

/// Reads integers and texts from a record.
struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.bytes(bytes)?;
        Some(taken.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn count(&mut self) -> Option<usize> {
        self.number(2).and_then(|count| usize::try_from(count).ok())
    }

    fn text(&mut self) -> Option<String> {
        let size = self.count()?;
        self.bytes(size).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The names of a table's indexes, of its record. `None`: a version that this program does not know, or damage.
fn indexes_of(record: &[u8]) -> Option<Indexes> {
    let mut record = Record(record);
    if !(2..=4).contains(&record.number(1)?) {
        return None;
    }
    let has_primary = record.number(1)? & 1 != 0;
    // Table, creation, row layout, the next index, rows; then the definition and the next column.
    record.bytes(8 + 8 + 8 + 4 + 8)?;
    record.text()?;
    record.bytes(4)?;
    for _ in 0..record.count()? {
        record.bytes(4 + 1 + 1 + 4)?;
        record.text()?;
    }
    let mut indexes = Indexes::from([(0, if has_primary { "PRIMARY" } else { "HIDDEN" }.to_string())]);
    for _ in 0..record.count()? {
        let id = u32::try_from(record.number(4)?).ok()?;
        record.bytes(1)?;
        let name = record.text()?;
        let statistics = record.count()?;
        record.bytes(statistics * 8)?;
        if id != 0 {
            indexes.insert(id, name);
        }
    }
    Some(indexes)
}

impl Names {
    /// Of families' names and records.
    pub fn of<'a>(families: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Names {
        let mut names = Names::default();
        for (name, record) in families {
            let Some(path) = name.strip_suffix(b"\0p") else { continue };
            names.indexes.extend(indexes_of(record).map(|indexes| (path.to_vec(), indexes)));
        }
        names
    }

    /// The table that a family is a part of. `None`: no server's, or a temporary one.
    pub fn part(&self, name: &[u8]) -> Option<TablePart> {
        let zero = name.iter().position(|byte| *byte == 0)?;
        let (path, kind) = (&name[..zero], &name[zero + 1..]);
        let (database, file) = std::str::from_utf8(path).ok()?.split_once('/')?;
        if database.starts_with('#') {
            return None;
        }
        let known = self.indexes.get(path);
        let index = match kind {
            b"p" => known.and_then(|indexes| indexes.get(&0)).map_or("PRIMARY", String::as_str).to_string(),
            [b'i', id @ ..] => {
                let id = u32::from_be_bytes(id.try_into().ok()?);
                let name = known.and_then(|indexes| indexes.get(&id)).cloned();
                name.unwrap_or_else(|| format!("number {id}"))
            }
            _ => return None,
        };
        let (table, partition) = match file.split_once(PARTITION) {
            Some((table, rest)) => (table, Some(rest.split_once(SUBPARTITION).map_or(rest, |(_, sub)| sub))),
            None => (file, None),
        };
        let partition = partition.map(decoded);
        Some(TablePart { database: decoded(database), table: decoded(table), partition, index })
    }

    /// A family in words: its table and index, else its name in quotes.
    pub fn text(&self, name: &[u8]) -> String {
        self.part(name).map_or_else(|| format!("'{}'", shown_name(name)), |part| part.text())
    }

    /// Puts the table and index of a family into an object.
    pub fn put(&self, object: &mut Map<String, Value>, name: &[u8]) {
        let Some(part) = self.part(name) else { return };
        object.insert("database".into(), part.database.into());
        object.insert("table".into(), part.table.into());
        object.extend(part.partition.map(|name| ("partition".to_string(), Value::from(name))));
        object.insert("index".into(), part.index.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with two columns, a primary key or none, and an index 7 `by``name`.
    fn record(version: u8, has_primary: bool) -> Vec<u8> {
        let text = |text: &str| {
            let size = u16::try_from(text.len()).expect("a short text");
            [&size.to_le_bytes()[..], text.as_bytes()].concat()
        };
        let column = |name: &str| [&[0; 10][..], &text(name)].concat();
        let index = |id: u32, name: &str, statistics: u16| {
            let counts = vec![0; usize::from(statistics) * 8];
            [&id.to_le_bytes()[..], &[0], &text(name), &statistics.to_le_bytes(), &counts].concat()
        };
        [
            &[version, u8::from(has_primary)][..],
            &[0; 36],
            &text("0123456789abcdef"),
            &[0; 4],
            &[2, 0],
            &column("id"),
            &column("größe"),
            &[2, 0],
            &index(0, "PRIMARY", 1),
            &index(7, "by`name", 2),
            b"and more",
        ]
        .concat()
    }

    #[test]
    fn families_are_told_by_table_and_index() {
        let (with, without) = (record(2, true), record(4, false));
        let names = Names::of([
            (&b"shop/it@0020em\0p"[..], &with[..]),
            (b"shop/parts#P#p0#SP#s1\0p", &without),
            (b"shop/new\0p", b"\x09"),
        ]);
        for (family, text) in [
            (&b"shop/it@0020em\0p"[..], "`shop`.`it em` PRIMARY"),
            (b"shop/it@0020em\0i\0\0\0\x07", "`shop`.`it em` index `by``name`"),
            (b"shop/it@0020em\0i\0\0\0\x08", "`shop`.`it em` index `number 8`"),
            (b"shop/parts#P#p0#SP#s1\0p", "`shop`.`parts` partition `s1` HIDDEN"),
            (b"shop/new\0p", "`shop`.`new` PRIMARY"),
            (b"#temporary/x\0p", "'#temporary/x\\0p'"),
            (b"fruit", "'fruit'"),
            (b"shop/t\0q", "'shop/t\\0q'"),
            (b"shop/t\0i\x01", "'shop/t\\0i\\x01'"),
        ] {
            assert_eq!(names.text(family), text);
        }
    }

    #[test]
    fn a_record_cut_anywhere_gives_no_names() {
        let whole = record(3, true);
        for end in 0..whole.len() - b"and more".len() {
            assert_eq!(indexes_of(&whole[..end]), None, "{end}");
        }
        assert_eq!(indexes_of(&record(5, true)), None);
    }
}
