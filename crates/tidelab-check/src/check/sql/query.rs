//! Random SELECTs, each with a known order or none, and nothing left to the plan in their answers.
//!
//! A group of equal but not identical texts has no text of its own, so groups show counts and sums. LIMIT
//! stands after a total order. Sums are over integers and decimals.

use super::condition::{alike, condition, joining, on_column};
use super::dice::Dice;
use super::kinds::Kind;
use super::marks::{list, maybe, HINT};
use super::program::{Sort, Step};
use super::schema::{Column, Table};

/// A query over some of the tables.
pub(super) fn query(dice: &mut Dice, tables: &[Table]) -> Step {
    let t = dice.pick(tables).clone();
    let step = match dice.number(0, 21) {
        0..=7 => simple(dice, &t),
        8..=11 => join(dice, &t, tables).unwrap_or_else(|| simple(dice, &t)),
        12 | 13 => grouped(dice, &t),
        14 => distinct(dice, &t),
        15 | 16 => extremes(dice, &t),
        17 | 18 => subquery(dice, &t, tables).unwrap_or_else(|| simple(dice, &t)),
        19 => union(dice, &t, tables),
        _ => window(dice, &t),
    };
    step.keys(t.readable_keys())
}

fn filter(dice: &mut Dice, table: &Table, alias: &str) -> String {
    if dice.one_in(8) {
        return String::new();
    }
    maybe(&format!(" WHERE {}", condition(dice, table, alias)))
}

fn locking(dice: &mut Dice) -> String {
    let how =
        dice.word(&["", "", "", "", "", "", " FOR UPDATE", " LOCK IN SHARE MODE", " FOR UPDATE SKIP LOCKED"]);
    if how.is_empty() {
        String::new()
    } else {
        maybe(how)
    }
}

fn shown(dice: &mut Dice, table: &Table, alias: &str) -> String {
    if dice.one_in(2) {
        return table.all_columns(alias);
    }
    let n = dice.count(1, 3);
    let some = dice.some(&table.columns, n);
    list(", ", some.iter().map(|c| table.tagged(&c.name, &format!("{alias}{}", c.name))))
}

fn simple(dice: &mut Dice, t: &Table) -> Step {
    let history = if t.versioned && dice.one_in(2) { " FOR SYSTEM_TIME ALL" } else { "" };
    let select =
        format!("SELECT {} FROM {}{history}{HINT}{}", shown(dice, t, ""), t.name, filter(dice, t, ""));
    if !history.is_empty() || dice.one_in(2) {
        return Step::new(Sort::Query, format!("{select}{}", locking(dice)));
    }
    // In the order of a column that a key may begin with, then of all.
    let mut order = t.total_order(dice, "");
    let sortable: Vec<Column> = t.comparable();
    if !sortable.is_empty() && dice.one_in(2) {
        order = format!("{}{}, {order}", dice.pick(&sortable).name, dice.word(&["", " DESC"]));
    }
    let limit = match dice.number(0, 3) {
        0 => format!(" LIMIT {}", dice.number(1, 12)),
        1 => format!(" LIMIT {} OFFSET {}", dice.number(1, 9), dice.number(0, 9)),
        _ => String::new(),
    };
    let text = format!("{select} ORDER BY {order}{limit}{}", locking(dice));
    Step::new(Sort::Query, text).ordered(true)
}

fn join(dice: &mut Dice, t: &Table, tables: &[Table]) -> Option<Step> {
    let u = dice.pick(tables).clone();
    let on = joining(dice, t, "x.", &u, "y.")?;
    let how = dice.word(&["JOIN", "JOIN", "STRAIGHT_JOIN", "LEFT JOIN", "RIGHT JOIN"]);
    let extra =
        if dice.one_in(2) { maybe(&format!(" AND {}", condition(dice, &u, "y."))) } else { String::new() };
    // Such a join reads by the second table's key.
    let keys = u.readable_keys();
    let hint = if keys.is_empty() || dice.one_in(2) {
        String::new()
    } else {
        maybe(&format!(" FORCE INDEX ({})", dice.pick(&keys)))
    };
    let columns = match dice.number(0, 2) {
        0 => "COUNT(*)".to_string(),
        _ => format!("{}, {}", shown(dice, t, "x."), shown(dice, &u, "y.")),
    };
    let text = format!(
        "SELECT {columns} FROM {} x{HINT} {how} {} y{hint} ON {on}{extra}{}",
        t.name,
        u.name,
        filter(dice, t, "x.")
    );
    Some(Step::new(Sort::Query, text))
}

/// The plan-independent parts of a group.
fn aggregate(dice: &mut Dice, t: &Table) -> String {
    let column = dice.pick(&t.columns).clone();
    let n = &column.name;
    let text = match &column.kind {
        Kind::Integer(..) | Kind::Decimal(..) => {
            format!("{}({n})", dice.word(&["SUM", "MIN", "MAX", "AVG", "COUNT", "BIT_XOR"]))
        }
        Kind::Date
        | Kind::DateTime(_)
        | Kind::Time(_)
        | Kind::Double
        | Kind::Inet4
        | Kind::Inet6
        | Kind::Uuid => {
            format!("{}({n})", dice.word(&["MIN", "MAX", "COUNT"]))
        }
        kind if kind.comparable() => format!("COUNT({}{n})", dice.word(&["", "DISTINCT "])),
        _ => format!("COUNT({n})"),
    };
    // BIT_XOR is of 64 bits: a decimal would be converted.
    let text = if matches!(column.kind, Kind::Decimal(..)) { text.replace("BIT_XOR", "MAX") } else { text };
    t.tagged(n, &text)
}

fn grouped(dice: &mut Dice, t: &Table) -> Step {
    let columns = t.comparable();
    let n = dice.count(1, 2);
    let by = dice.some(&columns, n);
    if by.is_empty() {
        return simple(dice, t);
    }
    let mut items = vec!["COUNT(*)".to_string()];
    items.extend(by.iter().filter(|c| !c.kind.equal_is_not_same()).map(|c| t.tagged(&c.name, &c.name)));
    for _ in 0..dice.count(0, 2) {
        items.push(aggregate(dice, t));
    }
    let having = if dice.one_in(4) { maybe(" HAVING COUNT(*) > 1") } else { String::new() };
    let text = format!(
        "SELECT {} FROM {}{HINT}{} GROUP BY {}{having}",
        list(", ", items),
        t.name,
        filter(dice, t, ""),
        list(", ", by.iter().map(|c| t.tagged(&c.name, &c.name)))
    );
    Step::new(Sort::Query, text)
}

fn distinct(dice: &mut Dice, t: &Table) -> Step {
    let columns: Vec<Column> = t.comparable();
    let n = dice.count(1, 2);
    let some = dice.some(&columns, n);
    if some.is_empty() {
        return simple(dice, t);
    }
    let names = list(", ", some.iter().map(|c| t.tagged(&c.name, &c.name)));
    let select = format!("SELECT DISTINCT {names} FROM {}{HINT}{}", t.name, filter(dice, t, ""));
    if some.iter().any(|c| c.kind.equal_is_not_same()) {
        return Step::new(Sort::Query, format!("SELECT COUNT(*) FROM ({select}) d"));
    }
    Step::new(Sort::Query, select)
}

fn extremes(dice: &mut Dice, t: &Table) -> Step {
    let mut items = vec!["COUNT(*)".to_string()];
    for _ in 0..dice.count(1, 3) {
        items.push(aggregate(dice, t));
    }
    let text = format!("SELECT {} FROM {}{HINT}{}", list(", ", items), t.name, filter(dice, t, ""));
    Step::new(Sort::Query, text)
}

fn subquery(dice: &mut Dice, t: &Table, tables: &[Table]) -> Option<Step> {
    let u = dice.pick(tables).clone();
    let columns = shown(dice, t, "x.");
    let inner = condition(dice, &u, "y.");
    let found = if dice.one_in(2) {
        let how = dice.word(&["EXISTS", "NOT EXISTS"]);
        let on = joining(dice, t, "x.", &u, "y.")?;
        format!("{how} (SELECT 1 FROM {} y WHERE {on}{})", u.name, maybe(&format!(" AND {inner}")))
    } else {
        let mut pairs = Vec::new();
        for a in t.comparable() {
            pairs.extend(
                u.comparable().into_iter().filter(|b| alike(&a.kind, &b.kind)).map(|b| (a.clone(), b)),
            );
        }
        if pairs.is_empty() {
            return None;
        }
        let (a, b) = dice.pick(&pairs);
        let how = dice.word(&["IN", "IN", "NOT IN"]);
        format!(
            "x.{} {how} (SELECT y.{} FROM {} y{})",
            a.name,
            b.name,
            u.name,
            maybe(&format!(" WHERE {inner}"))
        )
    };
    let more =
        if dice.one_in(2) { maybe(&format!(" AND {}", condition(dice, t, "x."))) } else { String::new() };
    let text = format!("SELECT {columns} FROM {} x{HINT} WHERE {found}{more}", t.name);
    Some(Step::new(Sort::Query, text))
}

fn union(dice: &mut Dice, t: &Table, tables: &[Table]) -> Step {
    let u = dice.pick(tables).clone();
    let how = dice.word(&["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]);
    let number = |table: &Table, dice: &mut Dice| {
        let numbers: Vec<Column> =
            table.columns.iter().filter(|c| matches!(c.kind, Kind::Integer(..))).cloned().collect();
        if numbers.is_empty() {
            "COUNT(*)".to_string()
        } else {
            dice.pick(&numbers).name.clone()
        }
    };
    let (a, b) = (number(t, dice), number(&u, dice));
    let text = format!(
        "SELECT {a} FROM {}{HINT}{} {how} SELECT {b} FROM {}{}",
        t.name,
        filter(dice, t, ""),
        u.name,
        filter(dice, &u, "")
    );
    Step::new(Sort::Query, text)
}

fn window(dice: &mut Dice, t: &Table) -> Step {
    let columns = t.comparable();
    let by = if columns.is_empty() || dice.one_in(3) {
        String::new()
    } else {
        format!("PARTITION BY {} ", dice.pick(&columns).name)
    };
    let order = t.total_order(dice, "");
    let function = match dice.number(0, 3) {
        0 => "ROW_NUMBER()".to_string(),
        1 => "COUNT(*)".to_string(),
        2 => "RANK()".to_string(),
        _ => {
            let numbers: Vec<&Column> = t.columns.iter().filter(|c| c.kind.is_integer()).collect();
            if numbers.is_empty() {
                "NTILE(3)".to_string()
            } else {
                format!("SUM({})", dice.pick(&numbers).name)
            }
        }
    };
    let text = format!(
        "SELECT {}, {function} OVER ({by}ORDER BY {order}) FROM {}{HINT}{}",
        shown(dice, t, ""),
        t.name,
        filter(dice, t, "")
    );
    Step::new(Sort::Query, text)
}

/// A query with a parameter, for EXECUTE IMMEDIATE; none where the table has no column for it.
pub(super) fn with_parameter(dice: &mut Dice, t: &Table) -> Option<Step> {
    let columns = t.comparable();
    if columns.is_empty() {
        return None;
    }
    let column = dice.pick(&columns).clone();
    let sign = dice.word(&["=", ">", "<=", "<=>"]);
    let all = t.all_columns("");
    let more = on_column(dice, &column, "").replace('\'', "''");
    let text = format!(
        "EXECUTE IMMEDIATE 'SELECT {all} FROM {}{HINT} WHERE {} {sign} ? OR {more}' USING {}",
        t.name,
        column.name,
        column.kind.compared(dice)
    );
    Some(Step::new(Sort::Query, text).keys(t.readable_keys()))
}

#[cfg(test)]
mod tests {
    use super::super::marks::plain;
    use super::*;

    #[test]
    fn a_limit_stands_behind_an_order_and_groups_show_no_texts() {
        for seed in 0..2000 {
            let mut dice = Dice::new(seed);
            let tables = [Table::random(&mut dice, "t0"), Table::random(&mut dice, "t1")];
            let step = query(&mut dice, &tables);
            let text = plain(&step.text);
            assert_eq!(text.matches('(').count(), text.matches(')').count(), "{text}");
            assert!(!text.contains("LIMIT") || step.ordered && text.contains("ORDER BY"), "{text}");
        }
    }
}
