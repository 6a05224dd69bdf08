//! One user: a connection, a home warehouse, and the input values of transactions, clauses 2.4 to 2.8.

use std::time::Duration;

use super::random::{last_name, Random};
use super::{Scale, Transaction, DISTRICTS};
use crate::server::session::{Address, Failure, Session};

/// No transaction takes this long: a longer wait is a hang.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// The end of a transaction without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was committed.
    Committed,
    /// A new order with an unused item: rolled back, as it must be.
    RolledBack,
}

/// A user.
pub struct User {
    session: Session,
    random: Random,
    scale: Scale,
    home: i64,
}

impl User {
    /// Connects a user. Home warehouse and all values follow from seed and number.
    pub fn connect(
        address: &Address,
        database: &str,
        scale: Scale,
        seed: u64,
        number: u32,
    ) -> Result<User, Failure> {
        let mut session = Session::connect(address, ANSWER_LIMIT)?;
        session.run(&format!("USE {database}"))?;
        let mut random = Random::new(seed, u64::from(number));
        let home = random.between(1, scale.warehouses);
        Ok(User { session, random, scale, home })
    }

    /// Draws the next transaction.
    pub fn draw(&mut self) -> Transaction {
        Transaction::draw(&mut self.random)
    }

    /// Gives the next transaction a number, for procedures with tokens.
    pub fn set_token(&mut self, token: i64) -> Result<(), Failure> {
        self.session.run(&format!("SET @token = {token}")).map(|_| ())
    }

    /// Undoes the changes of a failed transaction.
    pub fn roll_back(&mut self) -> Result<(), Failure> {
        self.session.run("ROLLBACK").map(|_| ())
    }

    /// Runs one transaction and fetches its results. After an error it is to be rolled back;
    /// it is not tried again.
    pub fn run(&mut self, transaction: Transaction) -> Result<Outcome, Failure> {
        let call = self.call(transaction);
        self.session.run(&call)?;
        let results = match transaction {
            Transaction::NewOrder => "SELECT @o_id, @discount, @last, @credit, @d_tax, @w_tax",
            Transaction::Payment => {
                "SELECT @c_id, @last, @w_name, @d_name, @credit, @discount, @balance, @data"
            }
            Transaction::Delivery => "SELECT @delivered",
            Transaction::StockLevel => "SELECT @low",
            Transaction::OrderStatus => {
                "SELECT @c_id, @last, @first, @middle, @balance, @o_id, @entry, @carrier, @lines"
            }
        };
        let rows = self.session.rows(results)?;
        let first = rows.first().and_then(|row| row.first()).map_or("", String::as_str);
        match (transaction, first) {
            (Transaction::NewOrder, "0") => Ok(Outcome::RolledBack),
            (_, "" | "NULL") => Err(Failure::Sql { code: 0, message: format!("{call}: no result") }),
            _ => Ok(Outcome::Committed),
        }
    }

    /// The statement to call a procedure.
    fn call(&mut self, transaction: Transaction) -> String {
        let random = &mut self.random;
        let (w, warehouses) = (self.home, self.scale.warehouses);
        let d = random.between(1, DISTRICTS);
        match transaction {
            Transaction::NewOrder => {
                let customer = random.customer(self.scale.customers);
                let lines = random.between(5, 15);
                format!("CALL NEWORD({w},{warehouses},{d},{customer},{lines},@discount,@last,@credit,@d_tax,@w_tax,@o_id,NOW())")
            }
            Transaction::Payment => {
                let (c_w, c_d) = if warehouses > 1 && random.percent(15) {
                    (other(random, w, warehouses), random.between(1, DISTRICTS))
                } else {
                    (w, d)
                };
                let amount = random.between(100, 500_000);
                let (by_name, customer) = self.customer();
                format!(
                    "BEGIN NOT ATOMIC {customer} CALL PAYMENT({w},{d},{c_w},{c_d},@c_id,{by_name},{}.{:02},@last,@w_name,@d_name,@credit,@discount,@balance,@data,NOW()); END",
                    amount / 100,
                    amount % 100
                )
            }
            Transaction::Delivery => {
                let carrier = random.between(1, 10);
                format!("CALL DELIVERY({w},{carrier},NOW(),@delivered)")
            }
            Transaction::StockLevel => {
                let threshold = random.between(10, 20);
                format!("CALL SLEV({w},{d},{threshold},@low)")
            }
            Transaction::OrderStatus => {
                let (by_name, customer) = self.customer();
                format!("BEGIN NOT ATOMIC {customer} CALL OSTAT({w},{d},@c_id,{by_name},@last,@first,@middle,@balance,@o_id,@entry,@carrier,@lines); END")
            }
        }
    }

    /// A customer: six of ten times by last name. The statement to set the INOUT parameters.
    fn customer(&mut self) -> (u32, String) {
        if self.random.percent(60) {
            let name = last_name(self.random.last_name_to_find(self.scale.last_names()));
            (1, format!("SET @c_id = NULL, @last = '{name}';"))
        } else {
            let id = self.random.customer(self.scale.customers);
            (0, format!("SET @c_id = {id}, @last = NULL;"))
        }
    }
}

/// Another warehouse than this one.
fn other(random: &mut Random, w: i64, warehouses: i64) -> i64 {
    let other = random.between(1, warehouses - 1);
    other + i64::from(other >= w)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_warehouse_is_any_but_this_one() {
        let mut random = Random::new(2, 2);
        let mut seen = [0u32; 6];
        for _ in 0..5000 {
            seen[usize::try_from(other(&mut random, 3, 5)).unwrap()] += 1;
        }
        assert_eq!((seen[0], seen[3]), (0, 0));
        assert!([1, 2, 4, 5].iter().all(|w| (1050..1450).contains(&seen[*w])), "{seen:?}");
    }
}
