//! A random table: stored columns, virtual ones computed from them, indexes, triggers.

use super::super::sql::Dice;
use super::NAME;

/// A stored column: its name, its type, and values for it.
pub(super) struct Stored {
    pub(super) name: &'static str,
    kind: &'static str,
    pub(super) values: &'static [&'static str],
}

const TEXTS: &[&str] = &[
    "NULL",
    "''",
    "'a'",
    "'A'",
    "'a\\nb'",
    "'axb'",
    "'AxB '",
    "'2020-01-01'",
    "'0000-00-00'",
    "'2020-00-10'",
    "'2020-02-31'",
    "'2020-01-01 23:59:59.7'",
    "'10:11:12.6'",
    "'-3'",
    "'12abc'",
    "'{\\\"a\\\": 1}'",
    "'é'",
    "'x y z'",
];
const NUMBERS: &[&str] = &["NULL", "0", "1", "2", "3", "7", "10", "100", "-1", "-7", "86399", "2147483647"];

/// All possible columns of a table; the primary key is `id`.
pub(super) const STORED: &[Stored] = &[
    Stored { name: "i", kind: "INT", values: NUMBERS },
    Stored { name: "u", kind: "INT UNSIGNED", values: &["NULL", "0", "1", "5", "11", "4294967295"] },
    Stored { name: "s", kind: "VARCHAR(40)", values: TEXTS },
    Stored { name: "ch", kind: "CHAR(6)", values: &["NULL", "''", "'a'", "'bb'", "'ccc'", "'dddddd'"] },
    Stored { name: "tx", kind: "TEXT", values: TEXTS },
    Stored {
        name: "ts",
        kind: "TIMESTAMP NULL",
        values: &[
            "NULL",
            "'2020-01-01 22:00:00'",
            "'2020-01-01 02:00:00'",
            "'2020-03-29 03:30:00'",
            "'2020-12-31 20:00:00'",
            "'1970-01-02 00:00:01'",
        ],
    },
    Stored {
        name: "tf",
        kind: "TIMESTAMP(3) NULL",
        values: &["NULL", "'2020-01-01 23:59:59.999'", "'2020-01-01 11:00:00.500'", "'2021-05-05 05:05:05'"],
    },
    Stored {
        name: "dt",
        kind: "DATETIME(2)",
        values: &[
            "NULL",
            "'2020-01-01 23:59:59.99'",
            "'2020-02-29 10:00:00'",
            "'2020-09-13 12:00:00.5'",
            "'1999-12-31'",
        ],
    },
    Stored {
        name: "d",
        kind: "DATE",
        values: &["NULL", "'2020-01-01'", "'2020-02-29'", "'2020-09-13'", "'1999-12-31'"],
    },
    Stored {
        name: "tm",
        kind: "TIME(1)",
        values: &["NULL", "'10:00:00'", "'00:00:00'", "'23:59:59.9'", "'-01:30:00'", "'48:00:00'"],
    },
    Stored { name: "dc", kind: "DECIMAL(10,3)", values: &["NULL", "0", "1.005", "-2.5", "1234.567"] },
    Stored { name: "f", kind: "DOUBLE", values: &["NULL", "0", "1.5", "-3e10", "0.1"] },
];

/// Types and expressions of virtual columns. `v` stands for an earlier virtual column.
const VIRTUAL: &[(&str, &str)] = &[
    ("DATE", "DATE(ts)"),
    ("DATE", "CAST(ts AS DATE)"),
    ("DATETIME", "ts"),
    ("DATETIME(3)", "tf"),
    ("DATETIME", "ts + INTERVAL 1 DAY"),
    ("TIMESTAMP NULL", "dt"),
    ("TIMESTAMP(2) NULL", "d"),
    ("INT", "HOUR(ts)"),
    ("INT", "EXTRACT(DAY FROM ts)"),
    ("VARCHAR(40)", "CONCAT('x', ts)"),
    ("VARCHAR(40)", "DATE_FORMAT(ts, '%Y-%m-%d %H', 'en_US')"),
    ("TEXT", "CONCAT(s, ts)"),
    ("INT", "ts > '2020-01-01 10:00:00'"),
    ("INT", "DATEDIFF(ts, d)"),
    ("TIME", "TIMEDIFF(ts, dt)"),
    ("TIME", "TIME(dt)"),
    ("TIME", "TIME(ts)"),
    ("TIME", "dt"),
    ("TIME", "s"),
    ("DATE", "s"),
    ("DATE", "CAST(s AS DATE)"),
    ("DATETIME", "CAST(s AS DATETIME)"),
    ("DATETIME", "CAST(tx AS DATETIME)"),
    ("INT", "YEAR(s)"),
    ("INT", "MONTH(tx)"),
    ("DATE", "LAST_DAY(s)"),
    ("DATETIME", "STR_TO_DATE(s, '%H:%i:%s')"),
    ("DATE", "STR_TO_DATE(s, '%Y-%m-%d')"),
    ("DATETIME", "CAST(tm AS DATETIME)"),
    ("DATETIME", "tm"),
    ("DATE", "tm"),
    ("TIMESTAMP NULL", "tm"),
    ("INT", "YEAR(tm)"),
    ("INT", "HOUR(tm)"),
    ("INT", "dt > tm"),
    ("DATETIME", "COALESCE(dt, tm)"),
    ("VARCHAR(30)", "COALESCE(tm, d)"),
    ("DATETIME", "LEAST(dt, ts)"),
    ("DATETIME", "IF(i > 1, dt, tm)"),
    ("DATETIME", "TIMESTAMP(d, tm)"),
    ("VARCHAR(30)", "ADDTIME(dt, tm)"),
    ("VARCHAR(30)", "ADDTIME(s, tm)"),
    ("TIME", "SEC_TO_TIME(i)"),
    ("DATETIME", "SEC_TO_TIME(i)"),
    ("DATE", "MAKEDATE(2020, i)"),
    ("DATE", "d + INTERVAL i DAY"),
    ("VARCHAR(30)", "d + INTERVAL i HOUR"),
    ("DATE", "FROM_DAYS(730000 + i)"),
    ("INT", "TO_DAYS(s)"),
    ("DATETIME", "dt"),
    ("DATETIME(1)", "CONVERT_TZ(dt, '+00:00', '+02:00')"),
    ("DATETIME", "CONVERT_TZ(dt, 'SYSTEM', '+02:00')"),
    ("VARCHAR(40)", "i / 3"),
    ("DOUBLE", "i / 7"),
    ("DECIMAL(30,12)", "dc / 3"),
    ("VARCHAR(60)", "dc / (i / 3)"),
    ("INT", "dc / 3 > 0.3333"),
    ("BIGINT", "u - 5"),
    ("BIGINT", "CAST(i AS SIGNED) - u"),
    ("INT", "s RLIKE 'a.b'"),
    ("INT", "tx REGEXP CONCAT('^', s)"),
    ("VARCHAR(60)", "REGEXP_REPLACE(s, 'A.', 'z')"),
    ("VARCHAR(60)", "REGEXP_SUBSTR(tx, 'x.*')"),
    ("INT", "LENGTH(ch)"),
    ("VARCHAR(20)", "CONCAT(ch, '|')"),
    ("CHAR(8)", "CONCAT(ch, i)"),
    ("INT", "ch LIKE 'a%'"),
    ("INT", "ch = 'a'"),
    ("TEXT", "CONCAT('x', i)"),
    ("TEXT", "REPEAT(s, 3)"),
    ("BLOB", "CONCAT(tx, '-', i)"),
    ("MEDIUMTEXT", "UPPER(tx)"),
    ("VARCHAR(20)", "JSON_VALUE(tx, '$.a')"),
    ("JSON", "JSON_OBJECT('k', s, 'i', i)"),
    ("TEXT", "JSON_SET('{}', '$.x', ts)"),
    ("VARCHAR(40)", "LOWER(s)"),
    ("VARCHAR(40) CHARACTER SET latin1", "CONVERT(s USING latin1)"),
    ("VARCHAR(40)", "CAST(s AS CHAR CHARACTER SET utf8mb4)"),
    ("INT", "CAST(s AS CHAR CHARACTER SET utf8mb4) = 'A'"),
    ("INT", "s = _utf8mb4'A'"),
    ("INT", "CONVERT(s USING latin1) = _latin1'AXB'"),
    ("INT", "STRCMP(s, 'A')"),
    ("VARCHAR(80)", "HEX(tx)"),
    ("VARCHAR(32)", "MD5(s)"),
    ("INT", "CAST(s AS SIGNED)"),
    ("DECIMAL(20,2)", "CAST(s AS DECIMAL(20,2))"),
    ("INT", "i % 5"),
    ("BIT(3)", "i & 7"),
    ("BIT(12)", "u & 4095"),
    ("DOUBLE", "f * 2"),
    ("INT", "ROUND(f)"),
    ("VARCHAR(40)", "f"),
    ("INT", "dc"),
    ("YEAR", "d"),
    ("YEAR", "ts"),
    ("TINYINT", "i"),
    ("VARCHAR(3)", "s"),
    ("ENUM('a','b','axb')", "s"),
    ("SET('a','b','x')", "i & 7"),
    ("VARCHAR(60)", "CONCAT(v, '!')"),
    ("INT", "LENGTH(v)"),
    ("TEXT", "CONCAT(v, i)"),
    ("DATE", "v"),
    ("DATETIME", "v"),
    ("INT", "v"),
];

/// A virtual column.
#[derive(Clone)]
pub(super) struct Virtual {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) expression: String,
}

impl Virtual {
    fn is_long(&self) -> bool {
        ["TEXT", "BLOB", "MEDIUMTEXT", "JSON"].contains(&self.kind)
    }

    /// As a part of an index.
    pub(super) fn part(&self) -> String {
        let name = &self.name;
        if self.is_long() {
            format!("{name}(9)")
        } else {
            name.clone()
        }
    }

    /// The definition.
    pub(super) fn text(&self) -> String {
        format!("{} {} AS ({}) VIRTUAL", self.name, self.kind, self.expression)
    }
}

/// The table's parts beyond columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Versioned,
    /// Versioned, with partitions by time.
    ByTime,
    Period,
    Partitioned,
}

/// A table, to be made twice.
pub(super) struct Table {
    pub(super) form: Form,
    pub(super) stored: Vec<&'static Stored>,
    pub(super) virtuals: Vec<Virtual>,
    pub(super) keys: Vec<String>,
    triggers: Vec<String>,
}

/// Draws tables until one is accepted.
pub(super) fn make(dice: &mut Dice, mut accepts: impl FnMut(&[String]) -> bool) -> Option<Table> {
    for _ in 0..20 {
        let mut table = draw(dice);
        // Not every expression may be in an index, or be computed from every value.
        let mut taken = Vec::new();
        for column in std::mem::take(&mut table.virtuals) {
            table.virtuals = taken.clone();
            table.virtuals.push(column.clone());
            table.keys = vec![format!("KEY vk0 ({})", column.part())];
            table.triggers.clear();
            if accepts(&[table.create()]) {
                taken.push(column);
            }
        }
        table.virtuals = taken;
        if table.virtuals.is_empty() {
            continue;
        }
        table.draw_keys(dice);
        table.draw_triggers(dice);
        let mut all = vec![table.create(), table.create_log()];
        all.extend(table.triggers.clone());
        if accepts(&all) {
            return Some(table);
        }
    }
    None
}

fn draw(dice: &mut Dice) -> Table {
    let form = *dice.pick(&[
        Form::Plain,
        Form::Plain,
        Form::Versioned,
        Form::ByTime,
        Form::Period,
        Form::Partitioned,
        Form::Plain,
    ]);
    let virtuals = dice.count(1, 4);
    let mut columns: Vec<Virtual> = Vec::new();
    for number in 0..virtuals {
        let (kind, expression) = *dice.pick(VIRTUAL);
        let expression = match columns.last() {
            Some(earlier) => with_earlier(expression, &earlier.name),
            None if expression == "v" || expression.contains("v,") || expression.contains("(v") => {
                "i".to_string()
            }
            None => expression.to_string(),
        };
        columns.push(Virtual { name: format!("v{number}"), kind, expression });
    }
    Table { form, stored: STORED.iter().collect(), virtuals: columns, keys: Vec::new(), triggers: Vec::new() }
}

/// The expression with another virtual column for `v`.
fn with_earlier(expression: &str, name: &str) -> String {
    match expression {
        "v" => name.to_string(),
        _ => expression.replace("(v", &format!("({name}")),
    }
}

impl Table {
    fn draw_keys(&mut self, dice: &mut Dice) {
        self.keys.clear();
        for (number, column) in self.virtuals.iter().enumerate() {
            let parts = match dice.number(0, 4) {
                0 => format!("{}, i", column.part()),
                1 => format!("i, {}", column.part()),
                2 => format!("{}, {}", column.part(), dice.pick(&self.virtuals).part()),
                _ => column.part(),
            };
            let name = &column.name;
            let twice = parts.matches(name.as_str()).count() > 1;
            let parts = if twice { column.part() } else { parts };
            self.keys.push(format!("KEY vk{number} ({parts})"));
        }
    }

    fn draw_triggers(&mut self, dice: &mut Dice) {
        self.triggers.clear();
        let before = [
            "SET NEW.i = NEW.i + 1",
            "SET NEW.s = CONCAT('t', LEFT(NEW.s, 8))",
            "SET NEW.ts = '2020-06-06 23:00:00'",
            "SET NEW.tm = '12:00:00', NEW.dt = NULL",
        ];
        for event in ["INSERT", "UPDATE"] {
            if dice.one_in(3) {
                let body = dice.word(&before);
                self.triggers.push(format!(
                    "CREATE TRIGGER b{event}_{NAME} BEFORE {event} ON {NAME} FOR EACH ROW {body}"
                ));
            }
        }
        let column = &self.virtuals[0].name;
        for (event, row) in [("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD")] {
            if dice.one_in(4) {
                let value = if event == "UPDATE" {
                    format!("CONCAT_WS(' ', OLD.id, HEX(OLD.{column}), HEX(NEW.{column}))")
                } else {
                    format!("CONCAT_WS(' ', {row}.id, HEX({row}.{column}))")
                };
                self.triggers.push(format!(
                    "CREATE TRIGGER a{event}_{NAME} AFTER {event} ON {NAME} FOR EACH ROW INSERT INTO log_{NAME} VALUES ('{event}', {value})"
                ));
            }
        }
        if dice.one_in(4) {
            self.triggers.push(format!(
                "CREATE TRIGGER bDELETE_{NAME} BEFORE DELETE ON {NAME} FOR EACH ROW SET @deleted = CONCAT(OLD.id, OLD.{column})"
            ));
        }
    }

    fn create_log(&self) -> String {
        format!("CREATE TABLE log_{NAME} (what VARCHAR(10), value TEXT)")
    }

    fn create(&self) -> String {
        let end = match self.form {
            Form::Plain | Form::Period => "",
            Form::Versioned => "WITH SYSTEM VERSIONING",
            Form::ByTime => {
                "WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME (PARTITION h HISTORY, PARTITION n CURRENT)"
            }
            Form::Partitioned => "PARTITION BY HASH (id) PARTITIONS 3",
        };
        format!("CREATE TABLE {NAME} ({}) {end}", self.columns())
    }

    /// A table that partitions are exchanged with.
    fn create_exchanged(&self) -> String {
        format!("CREATE TABLE x_{NAME} ({})", self.columns())
    }

    fn columns(&self) -> String {
        let mut columns = vec!["id INT NOT NULL".to_string()];
        columns.extend(self.stored.iter().map(|column| format!("{} {}", column.name, column.kind)));
        columns.extend(self.virtuals.iter().map(Virtual::text));
        columns.push(match self.form {
            Form::Period => {
                "ps DATE NOT NULL, pe DATE NOT NULL, PERIOD FOR p (ps, pe), KEY idk (id)".to_string()
            }
            _ => "PRIMARY KEY (id)".to_string(),
        });
        columns.extend(self.keys.clone());
        columns.join(", ")
    }

    /// The statements to make the table. The optimizer ignores the copy's indexes.
    pub(super) fn definitions(&self) -> Vec<(String, String)> {
        let plain = Table {
            form: self.form,
            stored: self.stored.clone(),
            virtuals: self.virtuals.clone(),
            // The server computes the columns of an index when it writes a row, and may refuse the row for their values.
            keys: self.keys.iter().map(|key| format!("{key} IGNORED")).collect(),
            triggers: Vec::new(),
        };
        let mut all = vec![(self.create(), plain.create()), (self.create_log(), self.create_log())];
        if self.form == Form::Partitioned {
            all.push((self.create_exchanged(), plain.create_exchanged()));
        }
        all.extend(self.triggers.iter().map(|text| (text.clone(), text.clone())));
        all
    }
}
