//! The nine tables as HammerDB makes them on MariaDB, and their indexes.

use crate::server::engine::Engine;
use crate::server::session::{Failure, Session};

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Columns and keys, as in CREATE TABLE.
    definition: &'static str,
    /// The names of all columns.
    pub columns: &'static str,
    /// Its indexes but the primary key, each with a condition met by every row.
    pub indexes: &'static [(&'static str, &'static str)],
}

/// All tables, in the order of making.
pub const TABLES: [Table; 9] = [
    Table {
        name: "warehouse",
        definition: "w_id INT NOT NULL, w_ytd DECIMAL(12,2), w_tax DECIMAL(4,4), w_name VARCHAR(10),
            w_street_1 VARCHAR(20), w_street_2 VARCHAR(20), w_city VARCHAR(20), w_state CHAR(2), w_zip CHAR(9),
            PRIMARY KEY (w_id)",
        columns: "w_id, w_ytd, w_tax, w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
        indexes: &[],
    },
    Table {
        name: "district",
        definition: "d_id INT NOT NULL, d_w_id INT NOT NULL, d_ytd DECIMAL(12,2), d_tax DECIMAL(4,4),
            d_next_o_id INT, d_name VARCHAR(10), d_street_1 VARCHAR(20), d_street_2 VARCHAR(20),
            d_city VARCHAR(20), d_state CHAR(2), d_zip CHAR(9), PRIMARY KEY (d_w_id, d_id)",
        columns: "d_id, d_w_id, d_ytd, d_tax, d_next_o_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
        indexes: &[],
    },
    Table {
        name: "customer",
        definition: "c_id INT NOT NULL, c_d_id INT NOT NULL, c_w_id INT NOT NULL,
            c_first VARCHAR(16) BINARY, c_middle CHAR(2) BINARY, c_last VARCHAR(16) BINARY,
            c_street_1 VARCHAR(20) BINARY, c_street_2 VARCHAR(20) BINARY, c_city VARCHAR(20) BINARY,
            c_state CHAR(2) BINARY, c_zip CHAR(9) BINARY, c_phone CHAR(16) BINARY, c_since DATETIME,
            c_credit CHAR(2) BINARY, c_credit_lim DECIMAL(12,2), c_discount DECIMAL(4,4),
            c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2), c_payment_cnt INT, c_delivery_cnt INT,
            c_data VARCHAR(500) BINARY,
            PRIMARY KEY (c_w_id, c_d_id, c_id), KEY customer_i2 (c_w_id, c_d_id, c_last, c_first)",
        columns: "c_id, c_d_id, c_w_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip,
            c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt,
            c_delivery_cnt, c_data",
        indexes: &[("customer_i2", "c_w_id > 0")],
    },
    Table {
        name: "history",
        definition: "h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT, h_date DATETIME,
            h_amount DECIMAL(6,2), h_data VARCHAR(24) BINARY",
        columns: "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data",
        indexes: &[],
    },
    Table {
        name: "new_order",
        definition: "no_w_id INT NOT NULL, no_d_id INT NOT NULL, no_o_id INT NOT NULL,
            PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
        columns: "no_w_id, no_d_id, no_o_id",
        indexes: &[],
    },
    Table {
        name: "orders",
        definition: "o_id INT NOT NULL, o_w_id INT NOT NULL, o_d_id INT NOT NULL, o_c_id INT, o_carrier_id INT,
            o_ol_cnt INT, o_all_local INT, o_entry_d DATETIME,
            PRIMARY KEY (o_w_id, o_d_id, o_id), KEY orders_i2 (o_w_id, o_d_id, o_c_id, o_id)",
        columns: "o_id, o_w_id, o_d_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local, o_entry_d",
        indexes: &[("orders_i2", "o_w_id > 0")],
    },
    Table {
        name: "order_line",
        definition: "ol_w_id INT NOT NULL, ol_d_id INT NOT NULL, ol_o_id INT NOT NULL, ol_number INT NOT NULL,
            ol_i_id INT, ol_delivery_d DATETIME, ol_amount DECIMAL(6,2), ol_supply_w_id INT, ol_quantity INT,
            ol_dist_info CHAR(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
        columns: "ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_delivery_d, ol_amount, ol_supply_w_id,
            ol_quantity, ol_dist_info",
        indexes: &[],
    },
    Table {
        name: "item",
        definition: "i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24) BINARY, i_price DECIMAL(5,2),
            i_data VARCHAR(50) BINARY, PRIMARY KEY (i_id)",
        columns: "i_id, i_im_id, i_name, i_price, i_data",
        indexes: &[],
    },
    Table {
        name: "stock",
        definition: "s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity INT,
            s_dist_01 CHAR(24) BINARY, s_dist_02 CHAR(24) BINARY, s_dist_03 CHAR(24) BINARY,
            s_dist_04 CHAR(24) BINARY, s_dist_05 CHAR(24) BINARY, s_dist_06 CHAR(24) BINARY,
            s_dist_07 CHAR(24) BINARY, s_dist_08 CHAR(24) BINARY, s_dist_09 CHAR(24) BINARY,
            s_dist_10 CHAR(24) BINARY, s_ytd BIGINT, s_order_cnt INT, s_remote_cnt INT,
            s_data VARCHAR(50) BINARY, PRIMARY KEY (s_w_id, s_i_id)",
        columns: "s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06,
            s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data",
        indexes: &[],
    },
];

/// The table of tokens, added by the crash check: a row for each changing transaction. It has the client's
/// number for it, and its kind.
pub const TOKEN: Table = Table {
    name: "token",
    definition: "token BIGINT NOT NULL, kind INT NOT NULL, w INT NOT NULL, d INT NOT NULL, n BIGINT NOT NULL,
        PRIMARY KEY (token), KEY token_i2 (kind, w, d, n)",
    columns: "token, kind, w, d, n",
    indexes: &[("token_i2", "kind > -1")],
};

impl Table {
    /// The statement to make it in a database.
    pub fn create(&self, database: &str, engine: Engine) -> String {
        format!("CREATE TABLE {database}.{} ({}) ENGINE={}", self.name, self.definition, engine.name())
    }
}

/// Makes the database and all tables, empty. Earlier contents of the database are gone.
pub fn make(session: &mut Session, database: &str, engine: Engine, tokens: bool) -> Result<(), Failure> {
    session.run(&format!("DROP DATABASE IF EXISTS {database}"))?;
    session.run(&format!("CREATE DATABASE {database}"))?;
    for table in TABLES.iter().chain(tokens.then_some(&TOKEN)) {
        session.run(&table.create(database, engine))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_definition() {
        for table in TABLES.iter().chain([&TOKEN]) {
            // Commas within brackets belong to types and keys.
            let mut depth = 0;
            let flat: String = table
                .definition
                .chars()
                .filter(|c| {
                    depth += i32::from(*c == '(') - i32::from(*c == ')');
                    depth == 0
                })
                .collect();
            let names: Vec<&str> = flat
                .split(',')
                .map(|part| part.split_whitespace().next().unwrap())
                .filter(|name| !["PRIMARY", "KEY"].contains(name))
                .collect();
            let listed: Vec<&str> = table.columns.split(',').map(str::trim).collect();
            assert_eq!(names, listed, "{}", table.name);
            for (index, _) in table.indexes {
                assert!(table.definition.contains(&format!("KEY {index} (")), "{index}");
            }
        }
    }

    #[test]
    fn tables_name_their_engine() {
        let text = TABLES[3].create("db", Engine::RocksDb);
        assert!(text.starts_with("CREATE TABLE db.history (") && text.ends_with("ENGINE=ROCKSDB"), "{text}");
    }
}
