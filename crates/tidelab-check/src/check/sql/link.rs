//! Foreign keys of random tables, and the tables reached by an action.
//!
//! A table refers to itself and to those before it, so no ring is longer than one table. Rows of a statement
//! meet each other by actions too: where they can, statements have a total order ([`reached`],
//! [`meets_itself`]).

use super::dice::Dice;
use super::kinds::Kind;
use super::schema::{Column, Key, Link, Part, Table};

const ACTIONS: [&str; 6] = ["", "RESTRICT", "NO ACTION", "CASCADE", "CASCADE", "SET NULL"];

/// A random one to a parent, without its columns.
fn random_link(dice: &mut Dice, t: &mut Table, parent: &Table, referred: Vec<String>) -> Link {
    let number = t.fresh("fk");
    Link {
        name: format!("{}_{number}", t.name),
        columns: Vec::new(),
        parent: parent.name.clone(),
        referred,
        delete: dice.word(&ACTIONS),
        update: dice.word(&ACTIONS),
    }
}

/// Tables with partitions or history have no foreign keys, and are not referred to. Nor are those with a key
/// unique by a hash: InnoDB refuses there to change an unreferenced part of the primary key (1451).
pub(super) fn may_be_linked(t: &Table) -> bool {
    t.partitions.is_none() && !t.versioned && !t.keys.iter().any(|key| key.hash)
}

/// True if rows may refer to the table. With an index over a virtual column, InnoDB takes this column for
/// another one, and refuses changes of unreferenced values (1451).
fn may_be_parent(t: &Table) -> bool {
    may_be_linked(t) && !t.columns.iter().any(|c| t.has_virtual_in_key(&c.name))
}

/// True if the table has a foreign key to the same parent over one of the columns. The action of one would
/// change the row read by the other, in another order in InnoDB (1452).
fn is_twin(link: &Link, t: &Table) -> bool {
    t.links.iter().any(|other| {
        other.parent == link.parent && other.columns.iter().any(|column| link.columns.contains(column))
    })
}

/// Types on which both engines have foreign keys. Without those compared byte by byte in InnoDB although
/// equal values may have other bytes, and without CHAR of fixed two or four bytes a character: where one
/// changes, InnoDB refuses CASCADE (1451).
fn may_refer(column: &Column) -> bool {
    let is_wide = |collation: &str| ["ucs2", "utf16", "utf32"].iter().any(|set| collation.starts_with(set));
    let wide_char = matches!(&column.kind, Kind::Char(_, collation) if is_wide(collation));
    !wide_char
        && column.is_base()
        && !column.compressed
        && !column.kind.needs_prefix()
        && column.kind.keyable()
}

/// The referable columns of a key: its first ones, as many as are whole.
fn leading(t: &Table, parts: &[Part]) -> Vec<String> {
    parts
        .iter()
        .take_while(|part| part.length.is_none() && t.column(&part.column).is_some_and(may_refer))
        .map(|part| part.column.clone())
        .collect()
}

/// Columns for a foreign key to refer to together.
///
/// Of its own only those of the primary key: InnoDB looks for a row's parent before the entries of further
/// keys are there, and refuses a row with a reference to itself by one of them.
fn referable(dice: &mut Dice, t: &Table, own: bool) -> Option<Vec<String>> {
    let keys = t.keys.iter().filter(|key| !own && !key.hash && !key.ignored).map(|key| &key.parts);
    let all: Vec<Vec<String>> =
        keys.chain(&t.primary).map(|parts| leading(t, parts)).filter(|columns| !columns.is_empty()).collect();
    if all.is_empty() {
        return None;
    }
    let mut columns = dice.pick(&all).clone();
    columns.truncate(dice.count(1, columns.len()));
    Some(columns)
}

/// Gives a new table foreign keys to `others` and to itself.
pub(super) fn link_up(dice: &mut Dice, t: &mut Table, others: &[Table]) {
    if !may_be_linked(t) {
        return;
    }
    for _ in 0..dice.count(if others.is_empty() { 0 } else { 1 }, 2) {
        let parents: Vec<&Table> = others.iter().filter(|p| may_be_parent(p)).collect();
        let own = parents.is_empty() || dice.one_in(6);
        // Rows of a table that refers to itself are told apart by a key that no action changes. It does so once: with a
        // second way InnoDB finds a row in a ring that is going already, and refuses (1451).
        if own && (t.primary.is_none() || meets_itself(t)) {
            continue;
        }
        let parent = if own { t.clone() } else { (*dice.pick(&parents)).clone() };
        let Some(referred) = referable(dice, &parent, own) else { continue };
        let mut link = random_link(dice, t, &parent, referred);
        for name in &link.referred {
            let Some(column) = parent.column(name) else { continue };
            link.columns.push(child_column(dice, t, column, &link.columns, own));
        }
        if is_twin(&link, t) {
            continue;
        }
        if !dice.one_in(4) {
            let part =
                |column: &String| Part { column: column.clone(), length: None, descending: dice.one_in(8) };
            let parts = link.columns.iter().map(part).collect();
            let name = t.fresh("k");
            t.keys.push(Key { name, unique: dice.one_in(8), parts, hash: false, ignored: false });
        }
        t.links.push(link);
    }
    // InnoDB gives numbers of rows that lack their parents once more, when an ALTER in place has read the table anew.
    if !t.links.is_empty() {
        t.columns.iter_mut().for_each(|column| column.auto_increment = false);
    }
}

/// A column for references to `parent`: mostly a new one, now and then an existing one. It may be NULL where
/// its parent may, or is its own table: ON UPDATE CASCADE could bring NULL, always refused by TidesDB, and
/// mostly by InnoDB.
fn child_column(dice: &mut Dice, t: &mut Table, parent: &Column, used: &[String], own: bool) -> String {
    let fits =
        |c: &&Column| may_hold(t, c, parent) && !used.contains(&c.name) && (c.null || !(own || parent.null));
    let fitting: Vec<&Column> = t.columns.iter().filter(fits).collect();
    if !fitting.is_empty() && dice.one_in(3) {
        return dice.pick(&fitting).name.clone();
    }
    let name = t.fresh("f");
    t.columns.push(Column {
        name: name.clone(),
        // Now and then shorter than its parent's.
        kind: match &parent.kind {
            Kind::Varchar(n, collation) if dice.one_in(4) => Kind::Varchar(n.div_ceil(2).max(1), collation),
            kind => kind.clone(),
        },
        null: own || parent.null || !dice.one_in(6),
        default: None,
        generated: None,
        invisible: false,
        compressed: false,
        auto_increment: false,
        check: None,
    });
    name
}

/// True if the table's column can be in a foreign key to `parent`.
fn may_hold(t: &Table, column: &Column, parent: &Column) -> bool {
    let in_primary = t.primary.iter().flatten().any(|part| part.column == column.name);
    may_refer(column) && column.kind == parent.kind && !column.auto_increment && !in_primary
}

/// A foreign key over existing columns, for ADD. Without the word RESTRICT: InnoDB keeps it as NO ACTION when
/// it adds in place.
pub(super) fn new_link(dice: &mut Dice, t: &mut Table, tables: &[Table], index: usize) -> Option<Link> {
    let parents: Vec<&Table> = tables.iter().take(index).filter(|p| may_be_parent(p)).collect();
    let numbered = t.columns.iter().any(|column| column.auto_increment);
    if parents.is_empty() || numbered || !may_be_linked(t) {
        return None;
    }
    let parent = (*dice.pick(&parents)).clone();
    let referred = referable(dice, &parent, false)?;
    let mut link = random_link(dice, t, &parent, referred);
    for action in [&mut link.delete, &mut link.update].into_iter().filter(|action| **action == "RESTRICT") {
        *action = "";
    }
    for name in &link.referred {
        let wanted = parent.column(name)?;
        let free = |c: &&Column| may_hold(t, c, wanted) && !link.columns.contains(&c.name);
        let fits = |c: &&Column| free(c) && (c.null || !wanted.null);
        let fitting: Vec<&Column> = t.columns.iter().filter(fits).collect();
        if fitting.is_empty() {
            return None;
        }
        let column = dice.pick(&fitting).name.clone();
        link.columns.push(column);
    }
    (!is_twin(&link, t)).then_some(link)
}

/// True if other tables, or itself, refer to the table.
pub(super) fn is_parent(t: &Table, tables: &[Table]) -> bool {
    tables.iter().chain([t]).any(|child| child.links.iter().any(|link| link.parent == t.name))
}

/// Names of the tables whose rows an action can change when rows of `t` go or change, with `t` where it refers to itself.
pub(super) fn reached(t: &Table, tables: &[Table]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut from = vec![t.name.clone()];
    while let Some(parent) = from.pop() {
        for child in tables.iter().filter(|c| c.links.iter().any(|link| link.parent == parent)) {
            if !found.contains(&child.name) {
                found.push(child.name.clone());
                from.push(child.name.clone());
            }
        }
    }
    found
}

/// An action of one row can change another one of the same table.
pub(super) fn meets_itself(t: &Table) -> bool {
    t.links.iter().any(|link| link.parent == t.name)
}

/// Columns of the table's foreign keys, and referenced ones.
pub(super) fn linked_columns(t: &Table, tables: &[Table]) -> Vec<String> {
    let own = t.links.iter().flat_map(|link| link.columns.clone());
    let others = tables
        .iter()
        .chain([t])
        .flat_map(|child| &child.links)
        .filter(|link| link.parent == t.name)
        .flat_map(|link| link.referred.clone());
    let mut columns: Vec<String> = own.chain(others).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// True if another value of the column changes an entry in an index of one of the table's foreign keys. The
/// column is none of the foreign key's own.
pub(super) fn renews_a_link(t: &Table, column: &str) -> bool {
    let has = |parts: &[Part], name: &str| parts.iter().any(|part| part.column == name);
    let linked = |name: &str| t.links.iter().any(|link| link.columns.iter().any(|c| c == name));
    let beside = |parts: &[Part]| has(parts, column) && parts.iter().any(|part| linked(&part.column));
    // Without a primary key a unique one over NOT NULL columns is InnoDB's.
    let primary = match &t.primary {
        Some(parts) => has(parts, column),
        None => t.keys.iter().any(|key| key.unique && has(&key.parts, column)),
    };
    !t.links.is_empty() && !linked(column) && (primary || t.keys.iter().any(|key| beside(&key.parts)))
}

/// The table for conditions without the columns changed by actions of the table itself.
pub(super) fn without_links(t: &Table) -> Table {
    let mut seen = t.clone();
    if meets_itself(t) {
        let changed: Vec<&String> = t.links.iter().flat_map(|link| &link.columns).collect();
        let is_made = |c: &Column| changed.iter().any(|name| c.name == **name || c.is_made_of(name));
        seen.columns.retain(|c| !is_made(c));
    }
    seen
}

/// The join of a child and its parent by a foreign key over one column, unique there.
pub(super) fn by_link(t: &Table, u: &Table) -> Option<String> {
    let unique = |name: &String| {
        let whole =
            |parts: &[Part]| parts.len() == 1 && parts[0].column == *name && parts[0].length.is_none();
        t.primary.as_deref().is_some_and(whole)
            || t.keys.iter().any(|k| k.unique && !k.hash && whole(&k.parts))
    };
    let link = u.links.iter().find(|link| link.parent == t.name && link.columns.len() == 1)?;
    let is_alone = u.links.iter().filter(|other| other.parent == t.name).count() == 1;
    (is_alone && unique(&link.referred[0])).then(|| format!("x.{} = y.{}", link.referred[0], link.columns[0]))
}

#[cfg(test)]
mod tests {
    use super::super::marks::plain;
    use super::*;

    fn family(seed: u64) -> Vec<Table> {
        let mut dice = Dice::new(seed);
        let mut tables = Vec::new();
        for index in 0..4 {
            let mut table = Table::random(&mut dice, &format!("t{index}"));
            link_up(&mut dice, &mut table, &tables);
            tables.push(table);
        }
        tables
    }

    #[test]
    fn foreign_keys_refer_to_columns_of_their_own_types() {
        let (mut links, mut own, mut several) = (0, 0, 0);
        for seed in 0..300 {
            let tables = family(seed);
            for (at, child) in tables.iter().enumerate() {
                for link in &child.links {
                    let parent = tables[..=at].iter().find(|t| t.name == link.parent).unwrap();
                    assert_eq!(link.columns.len(), link.referred.len());
                    for (column, referred) in link.columns.iter().zip(&link.referred) {
                        let (c, p) = (child.column(column).unwrap(), parent.column(referred).unwrap());
                        let same = std::mem::discriminant(&c.kind) == std::mem::discriminant(&p.kind);
                        assert!(same && c.is_base() && p.is_base(), "{}", plain(&child.create()));
                    }
                    links += 1;
                    own += u32::from(link.parent == child.name);
                    several += u32::from(link.columns.len() > 1);
                }
            }
        }
        assert!(
            links > 300 && own > 20 && several > 20,
            "{links} links, {own} to itself, {several} of several"
        );
    }

    #[test]
    fn what_actions_reach_is_known_over_generations() {
        let mut deep = 0;
        for seed in 0..300 {
            let tables = family(seed);
            for t in &tables {
                let below = reached(t, &tables);
                assert_eq!(below.is_empty(), !is_parent(t, &tables));
                assert_eq!(below.contains(&t.name), meets_itself(t));
                deep += u32::from(below.len() > 1);
                if meets_itself(t) {
                    let seen = without_links(t);
                    let hidden = |link: &Link| link.columns.iter().all(|c| seen.column(c).is_none());
                    assert!(t.links.iter().all(hidden));
                }
            }
        }
        assert!(deep > 30);
    }
}
