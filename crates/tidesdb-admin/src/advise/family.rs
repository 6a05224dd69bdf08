//! Families: tables linked by foreign keys, directly or over others. They convert together, because a key
//! takes both of its tables from one engine, and the server changes no engine of a table with keys.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::table::{quoted, State, Table, Verdict};

/// A key's table and its name, for messages and statements.
struct Link {
    child: usize,
    parent: usize,
    key: String,
}

/// Places of tables by database and name.
fn places(tables: &[(Table, Verdict)]) -> BTreeMap<(&str, &str), usize> {
    tables
        .iter()
        .enumerate()
        .map(|(at, (table, _))| ((table.schema.as_str(), table.name.as_str()), at))
        .collect()
}

/// Keys between tables of the list, those of a table to itself among them.
fn links(tables: &[(Table, Verdict)]) -> Vec<Link> {
    let places = places(tables);
    let mut links = Vec::new();
    for (child, (table, _)) in tables.iter().enumerate() {
        for key in &table.foreign_keys {
            if let Some(parent) = places.get(&(key.parent_schema.as_str(), key.parent.as_str())) {
                links.push(Link { child, parent: *parent, key: key.name.clone() });
            }
        }
    }
    links
}

/// The families of the list, each with its places in order; a table without keys is one of its own.
pub fn families(tables: &[(Table, Verdict)]) -> Vec<Vec<usize>> {
    let mut head: Vec<usize> = (0..tables.len()).collect();
    for link in links(tables) {
        let (from, to) = (head[link.child], head[link.parent]);
        head.iter_mut().filter(|at| **at == from).for_each(|at| *at = to);
    }
    let mut families: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, head) in head.iter().enumerate() {
        families.entry(*head).or_default().push(at);
    }
    families.into_values().collect()
}

fn stand(verdict: &mut Verdict, what: String, takes: String) {
    verdict.state = State::Cannot;
    verdict.against.push(what);
    verdict.takes.push(takes);
    verdict.notes.clear();
}

/// Keys from and to tables outside of the list.
fn judge_outside(tables: &mut [(Table, Verdict)]) {
    let known = |schema: &str, name: &str, names: &[(String, String)]| {
        names.iter().any(|(database, table)| database == schema && table == name)
    };
    let names: Vec<_> = tables.iter().map(|(table, _)| (table.schema.clone(), table.name.clone())).collect();
    let listed: Vec<_> = tables.iter().map(|(table, _)| table.quoted()).collect();
    for (table, verdict) in tables.iter_mut().filter(|(_, verdict)| verdict.state != State::Already) {
        for key in table.foreign_keys.iter().filter(|key| !known(&key.parent_schema, &key.parent, &names)) {
            let parent = format!("{}.{}", quoted(&key.parent_schema), quoted(&key.parent));
            stand(
                verdict,
                format!("foreign key {} to {parent}, which is not in this list", quoted(&key.name)),
                format!("both databases in one advice; or {}", drop_keys(table, [key.name.as_str()])),
            );
        }
        for (child, key) in table.referred_by.iter().filter(|(child, _)| !listed.contains(child)) {
            stand(
                verdict,
                format!("the foreign key {} of {child} refers to it, which is not in this list", quoted(key)),
                format!(
                    "both databases in one advice; or ALTER TABLE {child} DROP FOREIGN KEY {};",
                    quoted(key)
                ),
            );
        }
    }
}

/// Each table with its verdict: its own, then that of its family.
pub fn judged(tables: Vec<Table>, facts: &Facts) -> Vec<(Table, Verdict)> {
    let verdict_of = |table: Table| {
        let verdict = table.judge(facts);
        (table, verdict)
    };
    let mut tables: Vec<_> = tables.into_iter().map(verdict_of).collect();
    judge(&mut tables);
    tables
}

/// An unconverted member keeps the others.
fn judge(tables: &mut [(Table, Verdict)]) {
    judge_outside(tables);
    let links = links(tables);
    for family in families(tables) {
        let staying: Vec<usize> =
            family.iter().copied().filter(|at| tables[*at].1.state == State::Cannot).collect();
        let reasons: Vec<(String, String)> = staying
            .iter()
            .map(|at| {
                let stays = tables[*at].0.quoted();
                // Without these keys the others are free.
                let drops: Vec<_> = links
                    .iter()
                    .filter(|link| (link.child == *at) != (link.parent == *at))
                    .map(|link| drop_keys(&tables[link.child].0, [link.key.as_str()]))
                    .collect();
                (
                    format!("foreign keys link it with {stays}, which cannot become TidesDB"),
                    format!("what {stays} takes; or {} and the application checks it then", drops.join(" ")),
                )
            })
            .collect();
        for at in &family {
            let verdict = &mut tables[*at].1;
            if verdict.state == State::Can {
                for (what, takes) in &reasons {
                    stand(verdict, what.clone(), takes.clone());
                }
            }
        }
        note(tables, &family);
    }
}

fn note(tables: &mut [(Table, Verdict)], family: &[usize]) {
    let names: Vec<String> = family.iter().map(|at| tables[*at].0.quoted()).collect();
    for at in family {
        let (table, verdict) = &mut tables[*at];
        if verdict.state != State::Can {
            continue;
        }
        let others: Vec<&str> =
            names.iter().filter(|name| **name != table.quoted()).map(String::as_str).collect();
        if !others.is_empty() {
            verdict
                .notes
                .push(format!("foreign keys link it with {}: they convert together", others.join(", ")));
        }
        if !table.foreign_keys.is_empty() {
            verdict.notes.push(
                "its foreign keys are dropped before, and added afterwards, which looks up each row's parent"
                    .into(),
            );
        }
    }
}

fn drop_keys<'a>(table: &Table, keys: impl IntoIterator<Item = &'a str>) -> String {
    let drops: Vec<_> = keys.into_iter().map(|key| format!("DROP FOREIGN KEY {}", quoted(key))).collect();
    format!("ALTER TABLE {} {};", table.quoted(), drops.join(", "))
}

/// Statements to convert the tables of a family, in this order: no key is there while an engine changes.
pub fn statements(family: &[&Table], convert: impl Fn(&Table) -> String) -> Vec<String> {
    let children: Vec<&&Table> = family.iter().filter(|table| !table.foreign_keys.is_empty()).collect();
    let drops =
        children.iter().map(|table| drop_keys(table, table.foreign_keys.iter().map(|key| key.name.as_str())));
    let adds = children.iter().map(|table| {
        let keys: Vec<_> = table.foreign_keys.iter().map(|key| key.definition()).collect();
        format!("ALTER TABLE {} {};", table.quoted(), keys.join(", "))
    });
    drops.chain(family.iter().map(|table| convert(table))).chain(adds).collect()
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::{key_to, table};
    use super::*;

    fn named(name: &str, parents: &[&str]) -> Table {
        table(|table| {
            table.name = name.into();
            table.foreign_keys = parents.iter().map(|parent| key_to(parent)).collect();
        })
    }

    fn judged(tables: Vec<Table>) -> Vec<(Table, Verdict)> {
        super::judged(tables, &Facts::default())
    }

    fn states(tables: &[(Table, Verdict)]) -> Vec<State> {
        tables.iter().map(|(_, verdict)| verdict.state).collect()
    }

    #[test]
    fn tables_are_linked_over_others_and_in_rings() {
        let tables = judged(vec![
            named("a", &["b"]),
            named("alone", &[]),
            named("b", &["a", "c"]),
            named("c", &[]),
            named("self", &["self"]),
        ]);
        assert_eq!(families(&tables), [vec![1], vec![0, 2, 3], vec![4]]);
        assert_eq!(states(&tables), [State::Can; 5]);
        assert!(tables[0].1.notes[0].contains("`shop`.`b`, `shop`.`c`"), "{:?}", tables[0].1);
        assert!(tables[4].1.notes[0].contains("dropped before"), "{:?}", tables[4].1);
        assert!(tables[1].1.notes.is_empty());
    }

    #[test]
    fn a_member_that_stays_keeps_its_family_and_is_named() {
        let mut places = named("places", &[]);
        places.indexes.push(("p".into(), "SPATIAL".into()));
        let tables = judged(vec![
            places,
            named("child", &["places"]),
            named("grandchild", &["child"]),
            named("other", &[]),
        ]);
        assert_eq!(states(&tables), [State::Cannot, State::Cannot, State::Cannot, State::Can]);
        assert_eq!(tables[0].1.against.len(), 1);
        for at in [1, 2] {
            let verdict = &tables[at].1;
            assert!(verdict.against[0].contains("with `shop`.`places`, which cannot"), "{verdict:?}");
            let drop = "ALTER TABLE `shop`.`child` DROP FOREIGN KEY `to_places`;";
            assert!(verdict.takes[0].contains(drop), "{verdict:?}");
        }
    }

    #[test]
    fn a_member_that_is_not_in_the_list_keeps_its_family() {
        let mut parent = named("parent", &[]);
        parent.referred_by.push(("`far`.`child`".into(), "k".into()));
        let tables = judged(vec![parent, named("child", &["parent"]), named("lost", &["nowhere"])]);
        assert_eq!(states(&tables), [State::Cannot; 3]);
        assert!(tables[0].1.against[0].contains("`k` of `far`.`child`"), "{:?}", tables[0].1);
        assert!(tables[1].1.against[0].contains("`shop`.`parent`"), "{:?}", tables[1].1);
        assert!(tables[2].1.against[0].contains("`shop`.`nowhere`"), "{:?}", tables[2].1);
    }

    #[test]
    fn keys_of_all_children_go_first_and_come_last() {
        let (parent, child) = (named("parent", &["child"]), named("child", &["parent", "child"]));
        let key = |to: &str| {
            format!(
                "ADD CONSTRAINT `to_{to}` FOREIGN KEY (`a`, `b`) REFERENCES `shop`.`{to}` (`x`, `y`) ON DELETE RESTRICT \
                 ON UPDATE CASCADE"
            )
        };
        assert_eq!(
            statements(&[&parent, &child], Table::forth),
            [
                "ALTER TABLE `shop`.`parent` DROP FOREIGN KEY `to_child`;".to_string(),
                "ALTER TABLE `shop`.`child` DROP FOREIGN KEY `to_parent`, DROP FOREIGN KEY `to_child`;"
                    .into(),
                "ALTER TABLE `shop`.`parent` ENGINE=TidesDB;".into(),
                "ALTER TABLE `shop`.`child` ENGINE=TidesDB;".into(),
                format!("ALTER TABLE `shop`.`parent` {};", key("child")),
                format!("ALTER TABLE `shop`.`child` {}, {};", key("parent"), key("child")),
            ]
        );
    }
}
