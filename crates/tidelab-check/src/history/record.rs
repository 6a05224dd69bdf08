//! A history as the clients recorded it.

use std::fmt;

/// The kind of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Everything ever written to it, in order: a write appends.
    List,
    /// The last written value: a write overwrites.
    Register,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// List or register.
    pub kind: Kind,
    /// Its number among those of its kind.
    pub id: u32,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::List => write!(f, "L{}", self.id),
            Kind::Register => write!(f, "R{}", self.id),
        }
    }
}

/// A written value: a number unique in the history. Never 0.
pub type Element = u64;

/// The way of a statement's reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// A plain SELECT.
    Plain,
    /// LOCK IN SHARE MODE.
    Shared,
    /// FOR UPDATE.
    Exclusive,
}

impl Access {
    /// True if the rows read stay unchanged until the reader ends.
    pub fn locks(self) -> bool {
        self != Access::Plain
    }
}

/// The values returned by a statement, one for each key of it: a list's elements, a register's one. Empty for
/// a missing key.
pub type Seen = Vec<(Key, Vec<Element>)>;

/// An answered statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Appended to a list, or wrote a register.
    Write {
        /// The key.
        key: Key,
        /// The value.
        element: Element,
    },
    /// Read.
    Read {
        /// The way of reading.
        access: Access,
        /// It asked for all keys between two, rather than for one.
        range: bool,
        /// The result.
        seen: Seen,
    },
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// COMMIT was answered.
    Committed,
    /// It rolled back, or was refused.
    Aborted,
    /// COMMIT was sent and not answered.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The client.
    pub client: u32,
    /// Before its first statement was sent, on the clients' shared clock.
    pub began: u64,
    /// After its last answer came.
    pub ended: u64,
    /// Its end.
    pub outcome: Outcome,
    /// Its answered statements, in order.
    pub statements: Vec<Statement>,
}

impl Transaction {
    /// Its writes, in order.
    pub fn writes(&self) -> impl Iterator<Item = (Key, Element)> + '_ {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Write { key, element } => Some((*key, *element)),
            Statement::Read { .. } => None,
        })
    }
}

impl Transaction {
    /// Its statements in one line; of reads of many keys only those in `keys`.
    pub fn told(&self, keys: &[Key]) -> String {
        let mut text = format!("client {}", self.client);
        text.push_str(match self.outcome {
            Outcome::Committed => ":",
            Outcome::Aborted => " (rolled back):",
            Outcome::Unknown => " (outcome unknown):",
        });
        for (number, statement) in self.statements.iter().enumerate() {
            text.push_str(if number == 0 { " " } else { "; " });
            match statement {
                Statement::Write { key, element } => {
                    let verb = if key.kind == Kind::List { "append" } else { "write" };
                    text.push_str(&format!("{verb} {element} to {key}"));
                }
                Statement::Read { access, range, seen } => {
                    text.push_str(if *range { "read range" } else { "read" });
                    text.push_str(match access {
                        Access::Plain => "",
                        Access::Shared => " share mode",
                        Access::Exclusive => " for update",
                    });
                    let all = seen.len() <= KEYS_SHOWN;
                    for (key, elements) in seen.iter().filter(|(key, _)| all || keys.contains(key)) {
                        text.push_str(&format!(" {key}={}", shortened(elements)));
                    }
                    if !all {
                        text.push_str(&format!(" ({} keys)", seen.len()));
                    }
                }
            }
        }
        text
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(&[]))
    }
}

/// Of a read of more keys only the relevant ones are printed.
const KEYS_SHOWN: usize = 8;
/// So many elements at the end of a long list are printed.
const ELEMENTS_SHOWN: usize = 6;

/// A list for people: only its end matters.
pub fn shortened(elements: &[Element]) -> String {
    let from = elements.len().saturating_sub(ELEMENTS_SHOWN);
    let shown: Vec<String> = elements[from..].iter().map(Element::to_string).collect();
    format!("[{}{}]", if from > 0 { "... " } else { "" }, shown.join(" "))
}

/// The records of all clients of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The transactions, in any order.
    pub transactions: Vec<Transaction>,
}
