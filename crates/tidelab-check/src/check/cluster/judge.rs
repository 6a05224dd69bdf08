//! The comparison of the nodes at rest, and the conditions of their tables.

use std::collections::BTreeMap;
use std::thread;

use tidelab_server::error::Result;
use tidelab_server::server::engine::Engine;

use super::super::must;
use super::super::session::{Columns, Failure, Session};
use super::ledger::{Found, Items};
use super::nodes::Cluster;
use super::tables::{name, ENGINES};
use super::transaction::item_columns;
use super::writer::Writer;

/// Rows shown of a difference, of each side.
const ROWS_SHOWN: usize = 3;

/// A session with all answered commits of all nodes in sight.
pub(super) fn session(cluster: &Cluster<'_>, number: usize) -> Result<Session> {
    let mut session = cluster.nodes[number].session()?;
    must("wait for the cluster", session.run("SET SESSION wsrep_sync_wait = 15"))?;
    Ok(session)
}

/// Every fault of the nodes at rest; `chosen` is the node for the look at conditions, once all are equal.
pub(super) fn look(cluster: &Cluster<'_>, writers: &mut [Writer], chosen: usize) -> Result<Vec<String>> {
    let mut wrong = unequal(cluster)?;
    let mut session = session(cluster, chosen)?;
    wrong.extend(must("the conditions", conditions(&mut session))?);
    let mut found = must("the tokens", tokens(&mut session))?;
    for writer in &mut *writers {
        // Its writes reached the others' table in another order than the answers, if it was alone.
        let was_cut_off = cluster.nodes[writer.node].log().contains("NON_PRIM");
        let faults = writer.ledger.settle(&mut found, was_cut_off);
        let (number, node) = (writer.number, writer.node + 1);
        wrong.extend(faults.into_iter().map(|fault| format!("writer {number} of node {node}: {fault}")));
    }
    wrong.extend(
        found
            .keys()
            .next()
            .map(|token| format!("{} transactions of nobody are there, {token} the first", found.len())),
    );
    wrong.extend(must("the items", strange_items(&mut session, writers))?);
    wrong.extend(unsound(cluster)?);
    Ok(wrong)
}

/// How often each token is in the tables.
fn tokens(session: &mut Session) -> std::result::Result<Found, Failure> {
    let mut found = Found::new();
    for (place, engine) in ENGINES.into_iter().enumerate() {
        for row in session.numbers(&format!("SELECT token FROM {}", name("token", engine)))? {
            found.entry(row[0]).or_default()[place] += 1;
        }
    }
    Ok(found)
}

/// The conditions kept by each transaction.
fn conditions(session: &mut Session) -> std::result::Result<Vec<String>, Failure> {
    let mut wrong = Vec::new();
    let twins =
        "SELECT a.id, a.n, b.n FROM torture.twin_t a JOIN torture.twin_i b USING (id) WHERE a.n <> b.n";
    let mut all = vec![("twins differ", twins.to_string())];
    for engine in ENGINES {
        let of = |table: &str| name(table, engine);
        all.push((
            "a hot row is not the sum of its transactions",
            format!(
                "SELECT id, n, sum FROM {} LEFT JOIN (SELECT hot, SUM(amount) sum FROM {} GROUP BY hot) t ON hot = id
                 WHERE n <> COALESCE(sum, 0)",
                of("hot"),
                of("token")
            ),
        ));
        all.push((
            "a parent counts other children than it has",
            format!(
                "SELECT id, children, has FROM {} LEFT JOIN (SELECT parent, COUNT(*) has FROM {} GROUP BY parent) c
                 ON parent = id WHERE children <> COALESCE(has, 0)",
                of("parent"),
                of("child")
            ),
        ));
        for table in ["child", "ward"] {
            all.push((
                "a child is without its parent",
                format!(
                    "SELECT c.n, c.parent FROM {} c LEFT JOIN {} p ON p.id = c.parent
                     WHERE c.parent IS NOT NULL AND p.id IS NULL",
                    of(table),
                    of("parent")
                ),
            ));
        }
    }
    for (what, query) in all {
        let rows = session.rows(&query)?;
        if !rows.is_empty() {
            wrong.push(format!("{what}: {} rows of {query}: {}", rows.len(), pictures(&rows)));
        }
    }
    Ok(wrong)
}

/// Rows of `item` without a writer, and missing ones.
fn strange_items(session: &mut Session, writers: &[Writer]) -> std::result::Result<Vec<String>, Failure> {
    let mut wrong = Vec::new();
    let mut expected = Items::new();
    writers.iter().for_each(|writer| expected.extend(&writer.ledger.items));
    for engine in ENGINES {
        let table = name("item", engine);
        let rows = session.rows(&format!("SELECT id, grp, name, token, pad FROM {table}"))?;
        for row in rows {
            let id = row[0].parse().unwrap_or(-1);
            let token = expected.remove(&(engine, id));
            if token.is_none_or(|token| row[1..] != item_columns(id, token)) {
                wrong
                    .push(format!("{table} has {} where transaction {token:?} wrote last", pictures(&[row])));
            }
        }
    }
    wrong.extend(
        expected.iter().map(|((engine, id), token)| {
            format!("{} lacks {id} of transaction {token}", name("item", *engine))
        }),
    );
    Ok(wrong)
}

/// A node's tables: definition and sums of the rows, by name.
type Contents = BTreeMap<String, (String, Columns)>;

fn contents(session: &mut Session) -> std::result::Result<Contents, Failure> {
    let mut all = Contents::new();
    let list = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'torture'";
    for table in session.rows(list)?.into_iter().flatten() {
        let definition = session.rows(&format!("SHOW CREATE TABLE torture.{table}"))?.concat().pop();
        let row = row_text(session, &table)?;
        let sums = format!(
            "SELECT COUNT(*), COALESCE(SUM(CAST(CONV(LEFT(MD5({row}), 15), 16, 10) AS UNSIGNED)), 0) FROM torture.{table}"
        );
        let sums = session.rows(&sums)?.concat();
        all.insert(table, (without_counter(&definition.unwrap_or_default()), sums));
    }
    Ok(all)
}

/// An expression of all columns.
fn row_text(session: &mut Session, table: &str) -> std::result::Result<String, Failure> {
    let columns = session.rows(&format!(
        "SELECT CONCAT('QUOTE(`', column_name, '`)') FROM information_schema.columns
         WHERE table_schema = 'torture' AND table_name = '{table}' ORDER BY ordinal_position"
    ))?;
    Ok(format!("CONCAT_WS(',', {})", columns.concat().join(", ")))
}

/// A definition but for the next value of its counter: nodes may have used more or less of it.
fn without_counter(definition: &str) -> String {
    let kept = definition.split(' ').filter(|word| !word.starts_with("AUTO_INCREMENT="));
    kept.collect::<Vec<_>>().join(" ")
}

/// The tables with differences between nodes.
fn unequal(cluster: &Cluster<'_>) -> Result<Vec<String>> {
    let mut sessions =
        (0..cluster.nodes.len()).map(|number| session(cluster, number)).collect::<Result<Vec<_>>>()?;
    let all: Vec<Contents> = thread::scope(|scope| {
        let reads: Vec<_> =
            sessions.iter_mut().map(|session| scope.spawn(move || contents(session))).collect();
        reads
            .into_iter()
            .map(|read| must("read", read.join().expect("a reader does not panic")))
            .collect::<Result<_>>()
    })?;
    let (first_session, others) = sessions.split_at_mut(1);
    let mut wrong = Vec::new();
    for (number, there) in all.iter().enumerate().skip(1) {
        for (table, (definition, sums)) in &all[0] {
            let pair = format!("torture.{table} of node 1 and of node {}", number + 1);
            match there.get(table) {
                None => wrong.push(format!("torture.{table} is on node 1 and not on node {}", number + 1)),
                Some((other, _)) if other != definition => {
                    wrong.push(format!("{pair}: the definitions differ: {definition} {other}"));
                }
                Some((_, other)) if other != sums => {
                    let rows =
                        must("compare", rows_apart(&mut first_session[0], &mut others[number - 1], table))?;
                    wrong.push(format!(
                        "{pair}: the rows differ, (count, sum) {sums:?} and {other:?}: {rows}"
                    ));
                }
                Some(_) => {}
            }
        }
        let only = there.keys().filter(|table| !all[0].contains_key(*table));
        wrong
            .extend(only.map(|table| format!("torture.{table} is on node {} and not on node 1", number + 1)));
    }
    Ok(wrong)
}

/// The first rows of only one of them.
fn rows_apart(
    first: &mut Session,
    second: &mut Session,
    table: &str,
) -> std::result::Result<String, Failure> {
    let select = format!("SELECT * FROM torture.{table}");
    let mut counts: BTreeMap<Columns, i64> = BTreeMap::new();
    for row in first.rows(&select)? {
        *counts.entry(row).or_default() += 1;
    }
    for row in second.rows(&select)? {
        *counts.entry(row).or_default() -= 1;
    }
    let only = |sign: i64| -> Vec<Columns> {
        counts.iter().filter(|(_, count)| count.signum() == sign).map(|(row, _)| row.clone()).collect()
    };
    Ok(format!("only the first has {}; only the second has {}", pictures(&only(1)), pictures(&only(-1))))
}

/// The answers of CHECK TABLE on each node, but OK.
fn unsound(cluster: &Cluster<'_>) -> Result<Vec<String>> {
    let found = thread::scope(|scope| {
        let checks: Vec<_> = (0..cluster.nodes.len())
            .map(|number| {
                scope.spawn(move || -> Result<Vec<String>> {
                    let mut session = session(cluster, number)?;
                    let list = "SELECT GROUP_CONCAT('torture.', table_name SEPARATOR ', ') \
                                FROM information_schema.tables WHERE table_schema = 'torture'";
                    let tables = must(list, session.rows(list))?.concat().concat();
                    let check = format!("CHECK TABLE {tables} EXTENDED");
                    let rows = must(&check, session.rows(&check))?;
                    let bad = rows.iter().filter(|row| row.get(3).is_none_or(|text| text != "OK"));
                    Ok(bad
                        .map(|row| format!("node {}: CHECK TABLE: {}", number + 1, row.join(" ")))
                        .collect())
                })
            })
            .collect();
        checks
            .into_iter()
            .map(|check| check.join().expect("a look does not panic"))
            .collect::<Result<Vec<_>>>()
    });
    Ok(found?.concat())
}

/// Empties the growing tables, and forgets their tokens: comparisons stay short.
pub(super) fn tidy(cluster: &Cluster<'_>, writers: &mut [Writer]) -> Result<()> {
    let mut session = session(cluster, 0)?;
    for engine in [Engine::TidesDb, Engine::InnoDb] {
        let of = |table: &str| name(table, engine);
        for statement in [
            format!("TRUNCATE {}", of("token")),
            format!("UPDATE {} SET n = 0", of("hot")),
            format!("DELETE FROM {}", of("child")),
            format!("DELETE FROM {}", of("ward")),
            format!("UPDATE {} SET children = 0", of("parent")),
            format!("TRUNCATE {}", of("bare")),
            format!("TRUNCATE {}", of("claim")),
        ] {
            must(&statement, session.run(&statement))?;
        }
    }
    writers.iter_mut().for_each(|writer| writer.ledger.forget());
    Ok(())
}

/// The first of some rows, long columns cut.
fn pictures(rows: &[Columns]) -> String {
    let row = |row: &Columns| {
        let columns: Vec<String> = row.iter().map(|c| c.chars().take(24).collect()).collect();
        format!("({})", columns.join(", "))
    };
    let shown: Vec<String> = rows.iter().take(ROWS_SHOWN).map(row).collect();
    let more = rows.len().saturating_sub(ROWS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    if rows.is_empty() {
        "nothing".to_string()
    } else {
        format!("{}{more}", shown.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_no_part_of_a_definition() {
        let text = "CREATE TABLE `t` (\n) ENGINE=TidesDB AUTO_INCREMENT=17 DEFAULT CHARSET=x";
        assert_eq!(without_counter(text), "CREATE TABLE `t` (\n) ENGINE=TidesDB DEFAULT CHARSET=x");
    }

    #[test]
    fn the_first_rows_are_shown() {
        let rows: Vec<Columns> = (0..5).map(|n| vec![n.to_string(), "x".repeat(100)]).collect();
        let text = pictures(&rows);
        assert!(text.starts_with("(0, xxx") && text.ends_with("and 2 more") && text.len() < 120, "{text}");
        assert_eq!(pictures(&[]), "nothing");
    }
}
