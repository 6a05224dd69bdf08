//! Conditions: terms on columns of one table, and joins of two.

use super::dice::Dice;
use super::kinds::Kind;
use super::marks::list;
use super::schema::{Column, Table};

/// A condition on `table`, whose columns `alias` (with its dot, or empty) leads in.
pub(super) fn condition(dice: &mut Dice, table: &Table, alias: &str) -> String {
    let n = dice.count(1, 3);
    let mut terms: Vec<String> = Vec::new();
    for _ in 0..n {
        terms.push(term(dice, table, alias));
    }
    match dice.number(0, 4) {
        0 if terms.len() > 1 => format!("({})", list(" OR ", terms)),
        1 if terms.len() > 2 => {
            let last = terms.split_off(1);
            list(" AND ", [terms.remove(0), format!("({})", list(" OR ", last))])
        }
        _ => list(" AND ", terms),
    }
}

fn term(dice: &mut Dice, table: &Table, alias: &str) -> String {
    let columns = table.comparable();
    if columns.is_empty() {
        return "1 = 1".to_string();
    }
    // Columns that keys begin with: ranges are read by them.
    let leading: Vec<Column> = table
        .keys
        .iter()
        .map(|k| &k.parts[0])
        .chain(table.primary.iter().map(|p| &p[0]))
        .filter_map(|part| table.column(&part.column).cloned())
        .collect();
    let column =
        if leading.is_empty() || dice.one_in(3) { dice.pick(&columns) } else { dice.pick(&leading) }.clone();
    if dice.one_in(16) {
        let alike: Vec<&Column> =
            columns.iter().filter(|c| c.name != column.name && alike(&c.kind, &column.kind)).collect();
        if !alike.is_empty() {
            let other = dice.pick(&alike);
            let sign = dice.word(&["=", "<", ">=", "<>"]);
            return table
                .tagged(&column.name, &format!("{alias}{} {sign} {alias}{}", column.name, other.name));
        }
    }
    table.tagged(&column.name, &on_column(dice, &column, alias))
}

/// Their values are compared without a conversion.
pub(super) fn alike(one: &Kind, other: &Kind) -> bool {
    match (one, other) {
        (Kind::Integer(..), Kind::Integer(..) | Kind::Decimal(..))
        | (Kind::Decimal(..), Kind::Integer(..)) => true,
        (Kind::Float | Kind::Double, Kind::Float | Kind::Double) => true,
        (Kind::Date | Kind::DateTime(_), Kind::Date | Kind::DateTime(_)) => true,
        (Kind::Time(_), Kind::Time(_)) => true,
        _ => match (collation(one), collation(other)) {
            (Some(a), Some(b)) => a == b,
            (None, None) => one == other,
            _ => false,
        },
    }
}

fn collation(kind: &Kind) -> Option<&'static str> {
    match kind {
        Kind::Char(_, c) | Kind::Varchar(_, c) | Kind::Text(_, c) => Some(c),
        _ => None,
    }
}

/// A condition on one column.
pub(super) fn on_column(dice: &mut Dice, column: &Column, alias: &str) -> String {
    let n = format!("{alias}{}", column.name);
    let kind = &column.kind;
    match dice.number(0, 19) {
        0..=3 => format!("{n} = {}", kind.compared(dice)),
        4 => format!("{n} > {}", kind.compared(dice)),
        5 => format!("{n} >= {}", kind.compared(dice)),
        6 => format!("{n} < {}", kind.compared(dice)),
        7 => format!("{n} <= {}", kind.compared(dice)),
        8 | 9 => format!("{n} BETWEEN {} AND {}", kind.compared(dice), kind.compared(dice)),
        10 => format!("{n} IS NULL"),
        11 => format!("{n} IS NOT NULL"),
        12 | 13 => {
            let how = if dice.one_in(4) { "NOT IN" } else { "IN" };
            let values: Vec<String> = (0..dice.count(2, 5)).map(|_| kind.compared(dice)).collect();
            format!("{n} {how} ({})", list(", ", values))
        }
        14 => format!("{n} <> {}", kind.compared(dice)),
        15 => {
            let value = if column.null && dice.one_in(2) { "NULL".to_string() } else { kind.compared(dice) };
            format!("{n} <=> {value}")
        }
        16 | 17 if kind.is_text() => {
            let start = kind.compared(dice);
            let pattern = start.trim_matches('\'');
            let not = if dice.one_in(5) { "NOT " } else { "" };
            let (before, after) = *dice.pick(&[("", "%"), ("", "%"), ("%", ""), ("", "_"), ("", "")]);
            format!("{n} {not}LIKE '{before}{pattern}{after}'")
        }
        16 | 17 if kind.is_integer() => {
            format!("{n} % {} = {}", dice.number(2, 4), dice.number(0, 1))
        }
        // Not of texts: equal ones may have two lengths, and a loose index scan looks at one of a group.
        18 if kind.may_have_prefix() && !kind.equal_is_not_same() => {
            format!("LENGTH({n}) > {}", dice.number(0, 3))
        }
        _ => format!("({n} = {} OR {n} > {})", kind.compared(dice), kind.compared(dice)),
    }
}

/// The join of two tables: columns whose values can be equal without a conversion.
pub(super) fn joining(dice: &mut Dice, left: &Table, x: &str, right: &Table, y: &str) -> Option<String> {
    joining_by(alike, dice, left, x, right, y)
}

/// The same for a change, with texts of one length. A lookup by a key cuts the value to the key's length. It
/// then misses rows equal by an expansion (`ss` and a CHAR(1) of `ß`), so the changed rows would depend on
/// the plan.
pub(super) fn joining_for_change(
    dice: &mut Dice,
    left: &Table,
    x: &str,
    right: &Table,
    y: &str,
) -> Option<String> {
    joining_by(|a, b| alike(a, b) && (!a.is_text() || a == b), dice, left, x, right, y)
}

fn joining_by(
    fits: impl Fn(&Kind, &Kind) -> bool,
    dice: &mut Dice,
    left: &Table,
    x: &str,
    right: &Table,
    y: &str,
) -> Option<String> {
    let mut pairs = Vec::new();
    for a in left.comparable() {
        for b in right.comparable() {
            if fits(&a.kind, &b.kind) {
                pairs.push((a.clone(), b));
            }
        }
    }
    // The first column of a key makes a join that looks rows up.
    let keyed: Vec<(Column, Column)> = pairs
        .iter()
        .filter(|(_, b)| {
            right.keys.iter().any(|k| k.parts[0].column == b.name)
                || right.primary.as_ref().is_some_and(|p| p[0].column == b.name)
        })
        .cloned()
        .collect();
    let from = if keyed.is_empty() || dice.one_in(4) { &pairs } else { &keyed };
    if from.is_empty() {
        return None;
    }
    let (a, b) = dice.pick(from);
    Some(format!("{x}{} = {y}{}", a.name, b.name))
}

/// A condition met by every row, for reading an index on the column.
pub(super) fn every_row(dice: &mut Dice, table: &Table, key_column: &str) -> Option<String> {
    let column = table.column(key_column)?;
    let n = &column.name;
    let value = column.kind.compared(dice);
    Some(format!("({n} < {value} OR {n} >= {value} OR {n} IS NULL)"))
}

#[cfg(test)]
mod tests {
    use super::super::marks::plain;
    use super::*;

    #[test]
    fn texts_are_alike_in_one_collation_and_numbers_with_numbers() {
        let text = |c| Kind::Varchar(9, c);
        assert!(alike(&text("latin1_bin"), &Kind::Char(1, "latin1_bin")));
        assert!(!alike(&text("latin1_bin"), &text("utf8mb4_bin")));
        assert!(!alike(&text("latin1_bin"), &Kind::Blob("BLOB")));
        assert!(alike(&Kind::Integer("INT", 4, ""), &Kind::Decimal(9, 2, "")));
        assert!(!alike(&Kind::Integer("INT", 4, ""), &Kind::Double));
        assert!(alike(&Kind::Uuid, &Kind::Uuid) && !alike(&Kind::Uuid, &Kind::Inet4));
    }

    #[test]
    fn conditions_are_balanced() {
        for seed in 0..300 {
            let mut dice = Dice::new(seed);
            let table = Table::random(&mut dice, "t");
            let text = plain(&condition(&mut dice, &table, "x."));
            assert!(!text.is_empty());
            assert_eq!(text.matches('(').count(), text.matches(')').count(), "{text}");
        }
    }
}
