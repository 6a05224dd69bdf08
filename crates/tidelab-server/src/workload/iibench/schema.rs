//! The table of the insert benchmark, its statements, and the check of an existing table.
//!
//! Columns and indexes are those of the published run. The key is a bigint: a long queue does not end at
//! 2^31. The time has microseconds, because rows are stamped with microseconds.

use serde::Serialize;

use crate::server::session::{Failure, Session};

/// No row is longer than this with all its character fields: the server's limit.
const ROW_CHARACTERS: u32 = 16_000;

/// The columns and indexes of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Secondary indexes, in the order of [`INDEXES`].
    pub secondary_indexes: u32,
    /// Character fields.
    pub char_fields: u32,
    /// The length of each.
    pub char_length: u32,
    /// The compressible share of each, in percent.
    pub percent_compressible: u32,
}

/// Name, columns, and a condition on the first column, met by all rows.
pub const INDEXES: [(&str, &str, &str); 3] = [
    ("marketsegment", "price, customerid", "price >= 0"),
    ("registersegment", "cashregisterid, price, customerid", "cashregisterid >= 0"),
    ("pdc", "price, dateandtime, customerid", "price >= 0"),
];

/// The columns of a row other than character fields, without the key.
const COLUMNS: [&str; 5] = ["dateandtime", "cashregisterid", "customerid", "productid", "price"];

impl Shape {
    /// Refuses impossible tables.
    pub fn check(&self) -> Result<(), String> {
        if self.secondary_indexes as usize > INDEXES.len() {
            return Err(format!(
                "num_secondary_indexes = {}: there are {}",
                self.secondary_indexes,
                INDEXES.len()
            ));
        }
        if self.percent_compressible > 100 {
            return Err(format!("percent_compressible = {} is above 100", self.percent_compressible));
        }
        if self.char_fields > 0 && self.char_length == 0 {
            return Err("length_char_fields is 0".to_string());
        }
        if u64::from(self.char_fields) * u64::from(self.char_length) > u64::from(ROW_CHARACTERS) {
            return Err(format!(
                "num_char_fields x length_char_fields is above {ROW_CHARACTERS}, which no row can hold"
            ));
        }
        Ok(())
    }

    /// The number of columns in an insert.
    pub fn columns(&self) -> usize {
        COLUMNS.len() + self.char_fields as usize
    }

    /// The statement to make the table.
    pub fn create(&self, table: &str, options: &str) -> String {
        let mut parts = vec![
            "transactionid BIGINT NOT NULL AUTO_INCREMENT".to_string(),
            "dateandtime DATETIME(6) NOT NULL".to_string(),
        ];
        parts.extend(COLUMNS[1..].iter().map(|column| format!("{column} INT NOT NULL")));
        parts.extend(
            (1..=self.char_fields).map(|n| format!("charfield{n} VARCHAR({}) NOT NULL", self.char_length)),
        );
        parts.push("PRIMARY KEY (transactionid)".to_string());
        parts.extend(self.indexes().iter().map(|(name, columns, _)| format!("KEY {name} ({columns})")));
        format!("CREATE TABLE `{table}` ({}) {options}", parts.join(", "))
    }

    /// The indexes of the table.
    pub fn indexes(&self) -> &'static [(&'static str, &'static str, &'static str)] {
        &INDEXES[..self.secondary_indexes as usize]
    }

    /// The statement to insert so many rows, with placeholders.
    pub fn insert(&self, table: &str, rows: u32) -> String {
        let mut columns: Vec<String> = COLUMNS.iter().map(|column| column.to_string()).collect();
        columns.extend((1..=self.char_fields).map(|n| format!("charfield{n}")));
        let row = format!("({})", vec!["?"; columns.len()].join(","));
        format!(
            "INSERT INTO `{table}` ({}) VALUES {}",
            columns.join(", "),
            vec![row; rows as usize].join(",")
        )
    }
}

/// The engine and the names of the secondary indexes of a table; none where there is no table.
pub fn look(session: &mut Session, table: &str) -> Result<Option<(String, Vec<String>)>, Failure> {
    let engines = session.rows(&format!(
        "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}'"
    ))?;
    let Some(engine) = engines.into_iter().flatten().next() else { return Ok(None) };
    let names = session.rows(&format!(
        "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE()
         AND TABLE_NAME = '{table}' AND INDEX_NAME <> 'PRIMARY' ORDER BY INDEX_NAME"
    ))?;
    Ok(Some((engine, names.into_iter().flatten().collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: Shape =
        Shape { secondary_indexes: 3, char_fields: 2, char_length: 100, percent_compressible: 30 };

    #[test]
    fn the_table_has_the_columns_and_indexes_of_the_published_run() {
        assert_eq!(
            PUBLISHED.create("p", "ENGINE=TidesDB"),
            "CREATE TABLE `p` (transactionid BIGINT NOT NULL AUTO_INCREMENT, dateandtime DATETIME(6) NOT NULL, \
             cashregisterid INT NOT NULL, customerid INT NOT NULL, productid INT NOT NULL, price INT NOT NULL, \
             charfield1 VARCHAR(100) NOT NULL, charfield2 VARCHAR(100) NOT NULL, PRIMARY KEY (transactionid), \
             KEY marketsegment (price, customerid), KEY registersegment (cashregisterid, price, customerid), \
             KEY pdc (price, dateandtime, customerid)) ENGINE=TidesDB"
        );
        let bare = Shape { secondary_indexes: 1, char_fields: 0, ..PUBLISHED };
        assert!(bare.create("p", "").ends_with("KEY marketsegment (price, customerid)) "));
    }

    #[test]
    fn an_insert_has_a_placeholder_for_each_value() {
        let text = PUBLISHED.insert("p", 3);
        assert_eq!(text.matches('?').count(), 3 * PUBLISHED.columns());
        assert!(text.starts_with(
            "INSERT INTO `p` (dateandtime, cashregisterid, customerid, productid, price, charfield1, charfield2) VALUES (?,"
        ));
    }

    #[test]
    fn impossible_tables_are_refused() {
        assert!(PUBLISHED.check().is_ok());
        assert!(Shape { char_length: 0, ..PUBLISHED }.check().is_err());
        assert!(Shape { char_length: 9000, ..PUBLISHED }.check().is_err());
    }
}
