//! TPC-C the way HammerDB runs it on MariaDB.
//!
//! It has nine tables, a loader with several users, and five transactions as stored procedures. Clients
//! have no think time and stay with one home warehouse. The specification's consistency conditions are
//! checked.
//!
//! [`schema`] and [`procedures`] are the SQL, [`random`] the specification's random values. [`loader`]
//! fills the tables, [`client`] is one user, [`drive`] puts many on a server. [`readout`] reads the
//! tables afterwards, and [`conditions`] finds the faults in them.

pub mod client;
pub mod conditions;
pub mod drive;
pub mod loader;
pub mod procedures;
pub mod random;
pub mod readout;
pub mod schema;

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::Error;
use crate::server::engine::Engine;
use crate::server::session::{Address, Failure, Session};
use random::Random;

/// One of the five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transaction {
    /// An order of 5 to 15 lines.
    NewOrder,
    /// A customer pays.
    Payment,
    /// The oldest order of each district of a warehouse is delivered.
    Delivery,
    /// The number of recently sold items low in stock.
    StockLevel,
    /// A customer's last order.
    OrderStatus,
}

impl Transaction {
    /// All, in the order of HammerDB's reports.
    pub const ALL: [Transaction; 5] = [
        Transaction::NewOrder,
        Transaction::Payment,
        Transaction::Delivery,
        Transaction::StockLevel,
        Transaction::OrderStatus,
    ];

    /// HammerDB's name, also the procedure's.
    pub fn name(self) -> &'static str {
        match self {
            Transaction::NewOrder => "NEWORD",
            Transaction::Payment => "PAYMENT",
            Transaction::Delivery => "DELIVERY",
            Transaction::StockLevel => "SLEV",
            Transaction::OrderStatus => "OSTAT",
        }
    }

    /// The number of this kind in a hundred transactions.
    pub fn share(self) -> u32 {
        match self {
            Transaction::NewOrder => 45,
            Transaction::Payment => 43,
            Transaction::Delivery | Transaction::StockLevel | Transaction::OrderStatus => 4,
        }
    }

    /// The next of the mix.
    pub fn draw(random: &mut Random) -> Transaction {
        let mut place = random.between(1, 100) as u32;
        for transaction in Transaction::ALL {
            if place <= transaction.share() {
                return transaction;
            }
            place -= transaction.share();
        }
        unreachable!("the shares add up to a hundred")
    }

    /// Its place in [`Transaction::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Transaction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Districts of a warehouse; the stock table has a column for each.
pub const DISTRICTS: i64 = 10;

/// The size of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: i64,
    /// Customers of a district, and its orders at the beginning.
    pub customers: i64,
    /// Items, and rows of a warehouse's stock.
    pub items: i64,
}

impl Scale {
    /// As the specification has it.
    pub fn full(warehouses: i64) -> Scale {
        Scale { warehouses, customers: 3000, items: 100_000 }
    }

    /// A tenth of each warehouse, for short checks; nothing is measured on it.
    pub fn tenth(warehouses: i64) -> Scale {
        Scale { warehouses, customers: 300, items: 10_000 }
    }

    /// Orders of a district delivered at the beginning: seven of ten.
    pub fn delivered(self) -> i64 {
        self.customers * 7 / 10
    }

    /// Last names in use: a thousand where there are so many customers.
    pub fn last_names(self) -> i64 {
        self.customers.min(1000)
    }

    /// Rows of all tables after loading; those of order_line are their mean.
    pub fn rows(self) -> u64 {
        let of_district = self.customers * 13 + self.customers - self.delivered();
        // In a district customers, their history, orders and ten lines each, new orders.
        let of_warehouse = 1 + DISTRICTS * (1 + of_district) + self.items;
        u64::try_from(self.items + self.warehouses * of_warehouse).unwrap_or(0)
    }
}

/// Makes database, tables and procedures.
pub fn make_tables(
    address: &Address,
    database: &str,
    engine: Engine,
    scale: Scale,
    tokens: bool,
) -> crate::error::Result<()> {
    let make = || -> std::result::Result<(), Failure> {
        let mut session = Session::connect(address, Duration::from_secs(60))?;
        schema::make(&mut session, database, engine, tokens)?;
        procedures::make(&mut session, database, scale, tokens)
    };
    make().map_err(|failure| Error::Statement {
        statement: format!("making the tables of {database}"),
        message: failure.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_45_43_4_4_4() {
        let mut random = Random::new(5, 1);
        let mut counts = [0u32; 5];
        const DRAWS: u32 = 200_000;
        for _ in 0..DRAWS {
            counts[Transaction::draw(&mut random).index()] += 1;
        }
        for transaction in Transaction::ALL {
            let percent = 100.0 * f64::from(counts[transaction.index()]) / f64::from(DRAWS);
            let wanted = f64::from(transaction.share());
            // Five standard deviations of a binomial are below 0.6.
            assert!((percent - wanted).abs() < 0.6, "{transaction}: {percent} %");
        }
        assert_eq!(Transaction::ALL.iter().map(|t| t.share()).sum::<u32>(), 100);
    }

    #[test]
    fn the_specification_s_sizes() {
        let scale = Scale::full(40);
        assert_eq!((scale.delivered(), scale.last_names()), (2100, 1000));
        // 100,000 stock, 30,000 each of customers, history, orders, 300,000 lines, 9,000 new
        // orders, 10 districts, itself.
        assert_eq!(scale.rows(), 100_000 + 40 * 499_011);
        assert_eq!((Scale::tenth(1).delivered(), Scale::tenth(1).last_names()), (210, 300));
    }
}
