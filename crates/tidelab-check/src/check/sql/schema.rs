//! Tables: random ones, their definition in SQL, and the facts for statements on them.
//!
//! The model of a table is the definition accepted by the server. A definition refused by both engines
//! changes nothing here.

use super::dice::Dice;
use super::kinds::{Family, Kind};
use super::marks::{list, maybe, of};

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) null: bool,
    pub(super) default: Option<String>,
    pub(super) generated: Option<Generated>,
    pub(super) invisible: bool,
    pub(super) compressed: bool,
    pub(super) auto_increment: bool,
    pub(super) check: Option<String>,
}

/// The derivation of a column from others.
#[derive(Clone, Debug)]
pub(super) struct Generated {
    pub(super) expression: String,
    pub(super) stored: bool,
}

impl Column {
    /// A random column with values of its own.
    pub(super) fn random(dice: &mut Dice, name: String) -> Column {
        let kind = Kind::random(dice);
        let null = dice.one_in(2);
        let default = dice.one_in(2).then(|| default_of(dice, &kind, null)).flatten();
        let compressed = kind.can_be_compressed() && dice.one_in(10);
        let check = (kind.is_integer() && dice.one_in(8)).then(|| {
            let unlucky = dice.number(10, 20);
            format!("{name} <> {unlucky}")
        });
        Column {
            invisible: dice.one_in(15) && (null || default.is_some()),
            name,
            kind,
            null,
            default,
            generated: None,
            compressed,
            auto_increment: false,
            check,
        }
    }

    /// A column generated from another one.
    pub(super) fn generated(dice: &mut Dice, name: String, base: &Column) -> Column {
        let b = &base.name;
        let (kind, expression) = match &base.kind {
            k if k.is_integer() => {
                (Kind::Integer("BIGINT", 8, ""), format!("{b} % {} + 1", dice.number(2, 7)))
            }
            Kind::Char(_, c) | Kind::Varchar(_, c) | Kind::Text(_, c) => match dice.number(0, 3) {
                0 => (Kind::Integer("INT", 4, ""), format!("CHAR_LENGTH({b})")),
                1 => (Kind::Varchar(8, c), format!("LEFT({b}, 2)")),
                2 => (Kind::Varchar(100, c), format!("UPPER({b})")),
                _ => (Kind::Varchar(120, c), format!("CONCAT({b}, 'x')")),
            },
            Kind::Date | Kind::DateTime(_) => (Kind::Integer("INT", 4, ""), format!("YEAR({b})")),
            k if k.family() == Family::Bytes => (Kind::Integer("INT", 4, ""), format!("LENGTH({b})")),
            k if k.comparable() => (Kind::Integer("INT", 4, ""), format!("{b} IS NULL")),
            _ => (Kind::Integer("INT", 4, ""), "7".to_string()),
        };
        Column {
            name,
            kind,
            null: true,
            default: None,
            generated: Some(Generated { expression, stored: dice.one_in(3) }),
            invisible: dice.one_in(10),
            compressed: false,
            auto_increment: false,
            check: None,
        }
    }

    /// Its definition.
    pub(super) fn sql(&self) -> String {
        let mut text = format!("{} {}", self.name, self.kind.sql(self.compressed));
        if let Some(generated) = &self.generated {
            let how = if generated.stored { "STORED" } else { "VIRTUAL" };
            text.push_str(&format!(" AS ({}) {how}", generated.expression));
        } else {
            text.push_str(if self.null { " NULL" } else { " NOT NULL" });
        }
        if self.auto_increment {
            text.push_str(" AUTO_INCREMENT");
        }
        if let Some(default) = &self.default {
            text.push_str(&maybe(&format!(" DEFAULT {default}")));
        }
        if self.invisible {
            text.push_str(&maybe(" INVISIBLE"));
        }
        if let Some(check) = &self.check {
            text.push_str(&maybe(&format!(" CHECK ({check})")));
        }
        text
    }

    /// A value for INSERT or UPDATE.
    pub(super) fn value(&self, dice: &mut Dice) -> String {
        if self.auto_increment {
            return dice.number(1, 60).to_string();
        }
        match dice.number(0, 19) {
            0..=2 if self.null => "NULL".to_string(),
            0 if dice.one_in(6) => "NULL".to_string(),
            3 => "DEFAULT".to_string(),
            _ => self.kind.stored(dice),
        }
    }

    /// It is generated from the column of this name.
    pub(super) fn is_made_of(&self, name: &str) -> bool {
        let words =
            |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
        self.generated.as_ref().is_some_and(|generated| words(&generated.expression))
    }

    /// Values can be stored in it.
    pub(super) fn is_base(&self) -> bool {
        self.generated.is_none()
    }
}

fn default_of(dice: &mut Dice, kind: &Kind, null: bool) -> Option<String> {
    if null && dice.one_in(4) {
        return Some("NULL".to_string());
    }
    match kind {
        Kind::Point | Kind::Vector => None,
        Kind::DateTime(f) | Kind::Timestamp(f) if dice.one_in(2) => {
            let update =
                if dice.one_in(2) { format!(" ON UPDATE CURRENT_TIMESTAMP({f})") } else { String::new() };
            Some(format!("CURRENT_TIMESTAMP({f}){update}"))
        }
        Kind::Integer(..) if dice.one_in(3) => Some("(3 + 4)".to_string()),
        k if k.is_text() && dice.one_in(3) && k.characters() > 2 => Some("(CONCAT('d', 'e'))".to_string()),
        k => Some(k.compared(dice)),
    }
}

/// A part of a key.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) column: String,
    pub(super) length: Option<u16>,
    pub(super) descending: bool,
}

impl Part {
    fn sql(&self) -> String {
        let length = self.length.map(|n| format!("({n})")).unwrap_or_default();
        format!("{}{length}{}", self.column, if self.descending { " DESC" } else { "" })
    }
}

/// A secondary key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) parts: Vec<Part>,
    /// The server checks it by a hash of the whole value; no statement reads by it.
    pub(super) hash: bool,
    /// IGNORED: no statement reads by it.
    pub(super) ignored: bool,
}

/// A foreign key of a table.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) parent: String,
    pub(super) referred: Vec<String>,
    pub(super) delete: &'static str,
    pub(super) update: &'static str,
}

impl Link {
    /// Its definition, in CREATE TABLE of `child` and after ADD.
    pub(super) fn sql(&self, child: &Table) -> String {
        let action = |event: &str, action: &str| match action {
            "" => String::new(),
            action => format!(" ON {event} {action}"),
        };
        format!(
            "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}){}{}",
            self.name,
            list(", ", self.columns.iter().map(|c| child.tagged(c, c))),
            self.parent,
            list(", ", self.referred.iter().cloned()),
            action("DELETE", self.delete),
            action("UPDATE", self.update)
        )
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) primary: Option<Vec<Part>>,
    pub(super) keys: Vec<Key>,
    /// Its foreign keys.
    pub(super) links: Vec<Link>,
    /// Rows may be without their parents, after statements without checks.
    pub(super) orphans: bool,
    pub(super) partitions: Option<String>,
    pub(super) versioned: bool,
    /// Names of columns and keys given so far, for none to come twice.
    pub(super) names: u32,
}

impl Table {
    /// A random one.
    pub(super) fn random(dice: &mut Dice, name: &str) -> Table {
        let mut table = Table {
            name: name.to_string(),
            columns: Vec::new(),
            primary: None,
            keys: Vec::new(),
            links: Vec::new(),
            orphans: false,
            partitions: None,
            versioned: dice.one_in(25),
            names: 0,
        };
        for _ in 0..dice.count(2, 6) {
            let name = table.fresh("c");
            let column = Column::random(dice, name);
            table.columns.push(column);
        }
        if dice.one_in(3) {
            let base = dice.pick(&table.columns).clone();
            let name = table.fresh("g");
            table.columns.push(Column::generated(dice, name, &base));
        }
        table.choose_primary(dice);
        // The rows of a table with history have no other order than that of its key.
        if table.versioned && table.primary.is_none() {
            table.versioned = false;
        }
        if dice.one_in(12) && !table.versioned {
            table.choose_partitions(dice);
        }
        for _ in 0..dice.count(0, 4) {
            if let Some(key) = table.random_key(dice) {
                table.keys.push(key);
            }
        }
        table
    }

    fn choose_primary(&mut self, dice: &mut Dice) {
        match dice.number(0, 9) {
            0..=3 => {
                let name = self.fresh("id");
                let kind = Kind::Integer(dice.word(&["INT", "BIGINT"]), 4, dice.word(&["", " UNSIGNED"]));
                let column = Column {
                    name: name.clone(),
                    kind,
                    null: false,
                    default: None,
                    generated: None,
                    invisible: false,
                    compressed: false,
                    auto_increment: true,
                    check: None,
                };
                self.columns.insert(0, column);
                let part = Part { column: name.clone(), length: None, descending: dice.one_in(6) };
                if dice.one_in(6) {
                    // Not the primary key, which others may be then.
                    let name = self.fresh("k");
                    self.keys.push(Key {
                        name,
                        unique: dice.one_in(2),
                        parts: vec![part],
                        hash: false,
                        ignored: false,
                    });
                } else {
                    self.primary = Some(vec![part]);
                }
            }
            4 | 5 => {}
            _ => {
                let n = dice.count(1, 3);
                let parts = self.random_parts(dice, n, true);
                if !parts.is_empty() {
                    for part in &parts {
                        if let Some(column) = self.columns.iter_mut().find(|c| c.name == part.column) {
                            column.null = false;
                            column.default = column.default.take().filter(|d| d != "NULL");
                        }
                    }
                    self.primary = Some(parts);
                }
            }
        }
    }

    fn choose_partitions(&mut self, dice: &mut Dice) {
        let Some(part) = self.primary.as_ref().and_then(|parts| parts.first()).cloned() else { return };
        let Some(column) = self.column(&part.column) else { return };
        if part.length.is_some() || !self.keys.is_empty() {
            return;
        }
        let name = &column.name;
        self.partitions = match &column.kind {
            Kind::Integer(..) if dice.one_in(2) => Some(format!(
                "PARTITION BY RANGE ({name}) (PARTITION p0 VALUES LESS THAN (5), \
                 PARTITION p1 VALUES LESS THAN (12), PARTITION p2 VALUES LESS THAN MAXVALUE)"
            )),
            Kind::Integer(..) => Some(format!("PARTITION BY HASH ({name}) PARTITIONS 3")),
            k if k.is_text() || matches!(k, Kind::Date | Kind::Varbinary(_)) => {
                Some(format!("PARTITION BY KEY ({name}) PARTITIONS 3"))
            }
            _ => None,
        };
    }

    /// True for a virtual column in a key. InnoDB may take its value from the key, and find there another
    /// row's value, or an older one, equal by its collation. Rows written by such a value are no oracle.
    pub(super) fn has_virtual_in_key(&self, column: &str) -> bool {
        self.column(column).is_some_and(|c| c.generated.as_ref().is_some_and(|g| !g.stored))
            && self.keys.iter().any(|key| key.parts.iter().any(|part| part.column == column))
    }

    /// The table for conditions without such columns.
    pub(super) fn without_virtual_in_keys(&self) -> Table {
        let mut table = self.clone();
        table.columns.retain(|column| !self.has_virtual_in_key(&column.name));
        table
    }

    /// A name new to the table's columns and keys.
    pub(super) fn fresh(&mut self, letter: &str) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    /// A random key, accepted by the server in nearly all cases.
    pub(super) fn random_key(&mut self, dice: &mut Dice) -> Option<Key> {
        let unique = dice.one_in(4) && self.partitions.is_none();
        let name = self.fresh("k");
        // InnoDB's copy of a table takes numbers back that refused rows were given: LAST_INSERT_ID would differ.
        let numbered = self.columns.iter().any(|c| c.auto_increment);
        if unique && dice.one_in(5) && self.links.is_empty() && !numbered {
            let long: Vec<&Column> =
                self.columns.iter().filter(|c| c.is_base() && c.kind.needs_prefix()).collect();
            if !long.is_empty() {
                let column = dice.pick(&long).name.clone();
                let part = Part { column, length: None, descending: false };
                return Some(Key { name, unique: true, parts: vec![part], hash: true, ignored: false });
            }
        }
        let n = dice.count(1, 3);
        let parts = self.random_parts(dice, n, false);
        (!parts.is_empty()).then_some(Key { name, unique, parts, hash: false, ignored: false })
    }

    pub(super) fn random_parts(&self, dice: &mut Dice, n: usize, primary: bool) -> Vec<Part> {
        let usable: Vec<Column> = self
            .columns
            .iter()
            .filter(|c| c.kind.keyable() && !c.compressed && (!primary || c.is_base()))
            .filter(|c| !c.kind.needs_prefix() || c.kind.prefix_sorts_alike())
            .cloned()
            .collect();
        let mut parts = Vec::new();
        for column in dice.some(&usable, n) {
            let whole = column.kind.characters();
            let cut = column.kind.needs_prefix()
                || (column.kind.may_have_prefix()
                    && column.kind.prefix_sorts_alike()
                    && column.is_base()
                    && whole > 2
                    && dice.one_in(5));
            parts.push(Part {
                length: cut.then(|| u16::try_from(dice.number(1, i64::from(whole.min(5)) - 1)).unwrap_or(1)),
                descending: dice.one_in(5),
                column: column.name,
            });
        }
        parts
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Columns with values of their own.
    pub(super) fn base(&self) -> Vec<Column> {
        self.columns.iter().filter(|c| c.is_base()).cloned().collect()
    }

    /// Columns for conditions.
    pub(super) fn comparable(&self) -> Vec<Column> {
        self.columns.iter().filter(|c| c.kind.comparable()).cloned().collect()
    }

    /// Names of the keys for a forced read.
    pub(super) fn readable_keys(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.keys.iter().filter(|k| !k.hash && !k.ignored).map(|k| k.name.clone()).collect();
        if self.primary.is_some() {
            names.push("PRIMARY".to_string());
        }
        names
    }

    /// A text marked as a column's.
    pub(super) fn tagged(&self, column: &str, text: &str) -> String {
        of(&self.name, column, text)
    }

    /// All columns, for a select list. `alias` ends with a dot or is empty.
    pub(super) fn all_columns(&self, alias: &str) -> String {
        list(", ", self.columns.iter().map(|c| self.tagged(&c.name, &format!("{alias}{}", c.name))))
    }

    /// An order without two equal rows; each item with a direction.
    pub(super) fn total_order(&self, dice: &mut Dice, alias: &str) -> String {
        let mut items = Vec::new();
        match &self.primary {
            Some(parts) => {
                for part in parts {
                    let n = format!("{alias}{}", part.column);
                    if part.length.is_some() {
                        // Texts that differ within the prefix may be equal as a whole (ß and ss).
                        items.push(format!("{}, HEX({n})", directed(dice, &n)));
                    } else {
                        items.push(directed(dice, &n));
                    }
                }
            }
            None => {
                for column in &self.columns {
                    let n = format!("{alias}{}", column.name);
                    let exact = match column.kind.family() {
                        Family::Number | Family::Temporal => n,
                        _ => format!("HEX({n})"),
                    };
                    items.push(directed(dice, &exact));
                }
            }
        }
        items.join(", ")
    }

    /// Rows may be refused only for an AUTO_INCREMENT number given before. TidesDB does not give again the
    /// number of a row refused for another key or a foreign key; InnoDB does.
    pub(super) fn may_number(&self) -> bool {
        let numbered =
            |parts: &[Part]| parts.iter().any(|p| self.column(&p.column).is_some_and(|c| c.auto_increment));
        self.links.is_empty()
            && self.primary.as_deref().is_none_or(numbered)
            && self.keys.iter().all(|k| !k.unique || numbered(&k.parts))
    }

    /// A change of the column can make a row meet another one in a unique key.
    pub(super) fn decides_uniqueness(&self, column: &str) -> bool {
        let generated = self.columns.iter().any(|c| !c.is_base());
        let within = |parts: &[Part]| generated || parts.iter().any(|p| p.column == column);
        self.primary.as_deref().is_some_and(within) || self.keys.iter().any(|k| k.unique && within(&k.parts))
    }

    /// Its CREATE TABLE, without an engine: the session's default applies.
    pub(super) fn create(&self) -> String {
        let mut items: Vec<String> = self.columns.iter().map(|c| self.tagged(&c.name, &c.sql())).collect();
        if let Some(parts) = &self.primary {
            items.push(format!("PRIMARY KEY ({})", self.parts_sql(parts)));
        }
        items.extend(self.keys.iter().map(|key| self.key_sql(key)));
        items.extend(self.links.iter().map(|link| link.sql(self)));
        let versioned = if self.versioned { " WITH SYSTEM VERSIONING" } else { "" };
        let partitions = self.partitions.as_ref().map(|p| maybe(&format!(" {p}"))).unwrap_or_default();
        format!(
            "CREATE TABLE {} ({}) CHARACTER SET utf8mb4{versioned}{partitions}",
            self.name,
            list(", ", items)
        )
    }

    /// The definition of a key, in CREATE TABLE and after ADD.
    pub(super) fn key_sql(&self, key: &Key) -> String {
        let kind = if key.unique { "UNIQUE " } else { "" };
        let hash = if key.hash { " USING HASH" } else { "" };
        format!("{kind}KEY {} ({}){hash}", key.name, self.parts_sql(&key.parts))
    }

    pub(super) fn parts_sql(&self, parts: &[Part]) -> String {
        list(", ", parts.iter().map(|p| self.tagged(&p.column, &p.sql())))
    }
}

fn directed(dice: &mut Dice, item: &str) -> String {
    format!("{item}{}", if dice.one_in(4) { " DESC" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::super::marks::plain;
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_table_and_names_are_given_once() {
        for seed in 0..200 {
            let table = Table::random(&mut Dice::new(seed), "t");
            assert_eq!(plain(&table.create()), plain(&Table::random(&mut Dice::new(seed), "t").create()));
            let mut names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            names.extend(table.keys.iter().map(|k| k.name.as_str()));
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{names:?}");
        }
    }

    #[test]
    fn columns_of_a_primary_key_decide_uniqueness() {
        let mut seen = 0;
        for seed in 0..100 {
            let table = Table::random(&mut Dice::new(seed), "t");
            let Some(parts) = &table.primary else { continue };
            assert!(table.decides_uniqueness(&parts[0].column));
            assert!(!table.total_order(&mut Dice::new(1), "").is_empty());
            seen += 1;
        }
        assert!(seen > 30);
    }
}
