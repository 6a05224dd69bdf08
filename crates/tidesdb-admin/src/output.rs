//! The program's output: text or JSON, bytes in words, and the failures at its end.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use serde_json::{json, Map, Value};
use tidesdb::internal::types::{CountEffect, Kind, Op};
use tidesdb::Error;

/// Why the program ends early.
#[derive(Debug)]
pub enum Failure {
    /// The engine's reason.
    Engine(Error),
    /// Any other, with the remedy.
    Other(String),
    /// The reader of the output went away: no failure.
    ReaderGone,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Engine(error) => error.fmt(f),
            Failure::Other(text) => f.write_str(text),
            Failure::ReaderGone => f.write_str("the reader of the output went away"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::Other(format!("cannot write the output: {error}")),
        }
    }
}

/// Adds to a failure over a store in use how to go on.
pub fn with_remedy(error: Error, remedy: &str) -> Failure {
    match error {
        Error::Busy(what) => Failure::Other(format!("{what}; {remedy}")),
        other => Failure::Engine(other),
    }
}

/// Refuses a path where no store is.
pub fn check_store(path: &Path) -> Result<(), Failure> {
    match path.join("CURRENT").is_file() {
        true => Ok(()),
        false => Err(Failure::Other(format!(
            "there is no store in {}: a store's directory has a file CURRENT; a server's data directory will do, too",
            path.display()
        ))),
    }
}

/// The target of the output.
pub struct Out<'a> {
    to: &'a mut dyn Write,
    json: bool,
    /// Without a reader the command has nothing left to do.
    only_prints: bool,
    is_reader_gone: bool,
}

impl<'a> Out<'a> {
    /// `only_prints`: a reader gone away ends the command. Others do their work without one.
    pub fn new(to: &'a mut dyn Write, json: bool, only_prints: bool) -> Out<'a> {
        Out { to, json, only_prints, is_reader_gone: false }
    }

    fn write(&mut self, put: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        if self.is_reader_gone {
            return Ok(());
        }
        match put(self.to) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && !self.only_prints => {
                self.is_reader_gone = true;
                Ok(())
            }
            done => Ok(done?),
        }
    }

    /// Hands on the buffered output.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.write(|to| to.flush())
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// A line of text; in JSON nothing.
    pub fn line(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        self.write(|to| writeln!(to, "{text}"))
    }

    /// An object on a line of its own; in text nothing.
    pub fn object(&mut self, object: &Value) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        self.write(|to| writeln!(to, "{object}"))
    }

    /// Begins an object on a line of its own, whose last field is a list: [`Out::item`] adds to it, and [`Out::end_list`]
    /// ends both. So a list of any length is never in memory as a whole.
    pub fn begin_list(&mut self, fields: Map<String, Value>, name: &str) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        let text = Value::Object(fields).to_string();
        let open = text.strip_suffix('}').unwrap_or(&text);
        let comma = if open.len() > 1 { "," } else { "" };
        self.write(|to| write!(to, "{open}{comma}{}:[", Value::from(name)))
    }

    /// Adds to the list.
    pub fn item(&mut self, item: &Value, is_first: bool) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        self.write(|to| write!(to, "{}{item}", if is_first { "" } else { "," }))
    }

    /// Ends the list and its object.
    pub fn end_list(&mut self) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        self.write(|to| writeln!(to, "]}}"))
    }

    /// The one document; in text nothing.
    pub fn document(&mut self, document: &Value) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        self.write(|to| writeln!(to, "{document:#}"))
    }

    /// Bytes as they are, whatever the form.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write(|to| to.write_all(bytes))
    }
}

/// The display of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// In hexadecimal digits always.
    pub hex: bool,
    /// Most bytes in text; 0: all.
    pub width: usize,
}

impl Form {
    /// Bytes in quotes where all are printable and none is a quote or a backslash, else in hexadecimal digits.
    pub fn bytes(self, bytes: &[u8]) -> String {
        let shown = if self.width == 0 { bytes } else { &bytes[..bytes.len().min(self.width)] };
        let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\');
        let mut text = match !self.hex && shown.iter().all(plain) {
            true => format!("'{}'", String::from_utf8_lossy(shown)),
            false => format!("0x{}", hex(shown)),
        };
        if shown.len() < bytes.len() {
            text += &format!("... ({} bytes)", bytes.len());
        }
        text
    }
}

/// A family's name in one line: the plugin's names hold a NUL, shown as `\0`. Control characters and bytes
/// outside of UTF-8 are `\x` and two digits.
pub fn shown_name(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\0' => text += "\\0",
                '\\' => text += "\\\\",
                c if c.is_ascii_control() => text += &format!("\\x{:02x}", u32::from(c)),
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| text += &format!("\\x{byte:02x}"));
    }
    text
}

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Puts bytes into an object: `name_hex`, and `name` where they are text without control characters.
pub fn put_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    object.insert(format!("{name}_hex"), hex(bytes).into());
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control)) {
        object.insert(name.to_string(), text.into());
    }
}

/// A key on the command line: text, or `0x` and hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(pub Vec<u8>);

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Key, String> {
        let Some(digits) = text.strip_prefix("0x") else { return Ok(Key(text.as_bytes().to_vec())) };
        let wrong = || format!("{text} is not 0x and an even number of hexadecimal digits");
        if digits.len() % 2 != 0 || !digits.is_ascii() {
            return Err(wrong());
        }
        let pairs = (0..digits.len()).step_by(2);
        if digits.contains('+') {
            return Err(wrong());
        }
        let bytes = pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong()));
        bytes.collect::<Result<_, _>>().map(Key)
    }
}

/// A change of a key: its kind, its key, its value without the expiry in front.
pub struct Change<'a> {
    pub kind: Kind,
    pub effect: Option<CountEffect>,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl Change<'_> {
    fn op(&self) -> &'static str {
        match self.kind.op() {
            Op::Put => "put",
            Op::Delete => "delete",
            Op::SingleDelete => "single delete",
        }
    }

    /// The expiry and the value after it.
    fn parts(&self) -> (Option<u64>, &[u8]) {
        match (self.kind.has_expiry(), self.value.split_first_chunk::<8>()) {
            (true, Some((expiry, value))) => (Some(u64::from_le_bytes(*expiry)), value),
            _ => (None, self.value),
        }
    }

    /// In words.
    pub fn text(&self, form: Form) -> String {
        let (expiry, value) = self.parts();
        let mut text = format!("{} {}", self.op(), form.bytes(self.key));
        if !self.kind.is_tombstone() {
            text += &format!(" = {}", form.bytes(value));
        }
        if let Some(expiry) = expiry {
            text += &format!(", expires {}", crate::moment::utc(expiry));
        }
        if self.kind.may_overwrite() {
            text += ", may overwrite";
        }
        text
    }

    /// As fields of an object.
    pub fn fields(&self, object: &mut Map<String, Value>) {
        let (expiry, value) = self.parts();
        object.insert("op".into(), self.op().into());
        put_bytes(object, "key", self.key);
        if !self.kind.is_tombstone() {
            put_bytes(object, "value", value);
        }
        if let Some(expiry) = expiry {
            object.insert("expiry".into(), expiry.into());
        }
        object.insert("may_overwrite".into(), self.kind.may_overwrite().into());
        if let Some(effect) = self.effect {
            let effect = match effect {
                CountEffect::Unknown => json!("unknown"),
                CountEffect::Unchanged => json!("unchanged"),
                CountEffect::Counts => json!("counts"),
            };
            object.insert("row_count".into(), effect);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_where_they_can_be() {
        let form = Form { hex: false, width: 6 };
        for (bytes, expected) in [
            (&b"apple"[..], "'apple'"),
            (b"", "''"),
            (b"it's", "0x69742773"),
            (b"a\\b", "0x615c62"),
            (b"\x00\xff", "0x00ff"),
            (b"seven..", "'seven.'... (7 bytes)"),
        ] {
            assert_eq!(form.bytes(bytes), expected);
        }
        assert_eq!(Form { hex: true, width: 0 }.bytes(b"ab"), "0x6162");
    }

    #[test]
    fn a_list_in_pieces_is_one_object() {
        for count in 0..3 {
            let mut bytes = Vec::new();
            let mut out = Out::new(&mut bytes, true, true);
            let fields = if count == 0 { Map::new() } else { Map::from_iter([("a".into(), json!("}"))]) };
            out.begin_list(fields, "list").expect("writes");
            for n in 0..count {
                out.item(&json!({ "n": n }), n == 0).expect("writes");
            }
            out.end_list().expect("writes");
            let read: Value = serde_json::from_slice(&bytes).expect("JSON");
            assert_eq!(read["list"].as_array().map(Vec::len), Some(count));
            assert_eq!(read.get("a").is_some(), count > 0);
        }
    }

    #[test]
    fn names_are_shown_in_one_line() {
        assert_eq!(shown_name("shop/größe\0p".as_bytes()), "shop/größe\\0p");
        assert_eq!(shown_name(b"a\\b\n\xff"), "a\\\\b\\x0a\\xff");
    }

    #[test]
    fn keys_are_text_or_digits() {
        assert_eq!("apple".parse(), Ok(Key(b"apple".to_vec())));
        assert_eq!("0x00fF".parse(), Ok(Key(vec![0, 255])));
        assert_eq!("0x".parse(), Ok(Key(Vec::new())));
        for wrong in ["0x0", "0xgg", "0xé"] {
            assert!(wrong.parse::<Key>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn changes_are_told_in_words_and_fields() {
        let value = [&7u64.to_le_bytes()[..], b"red"].concat();
        let kind = Kind::PUT.with_expiry().marked_may_overwrite();
        let change = Change { kind, effect: Some(CountEffect::Counts), key: b"apple", value: &value };
        let form = Form { hex: false, width: 0 };
        assert_eq!(change.text(form), "put 'apple' = 'red', expires 1970-01-01 00:00:07 UTC, may overwrite");
        let mut object = Map::new();
        change.fields(&mut object);
        assert_eq!(object["value"], "red");
        assert_eq!(object["key_hex"], "6170706c65");
        assert_eq!((&object["expiry"], &object["row_count"]), (&json!(7), &json!("counts")));
        let delete = Change { kind: Kind::DELETE, effect: None, key: &[1], value: &[] };
        assert_eq!(delete.text(form), "delete 0x01");
    }
}
