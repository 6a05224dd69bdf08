//! Fills the tables, clause 4.3.3, with several users at once: one statement inserts many rows and
//! commits by itself. The users take warehouses from one queue; items are loaded first.
//!
//! The rows follow from seed and scale alone: every engine gets the same ones.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::random::{last_name, Random};
use super::{Scale, DISTRICTS};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::server::session::{Address, Failure, Session};

/// The error of a user stopped because another failed.
const TOLD_TO_STOP: &str = "the load was told to stop";
/// A statement is sent when it has so many bytes: far below max_allowed_packet's default.
const STATEMENT_BYTES: usize = 256 << 10;
/// Time limit of a statement of the load: a server may be busy with earlier work.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// The interval of calls to the caller's progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// The load and its target.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The server.
    pub address: &'a Address,
    /// The database; its tables are there and empty.
    pub database: &'a str,
    /// The size.
    pub scale: Scale,
    /// Users loading at once.
    pub users: u32,
    /// The seed of all random values.
    pub seed: u64,
    /// Statements for each connection before it loads (`SET sql_log_bin = 0`).
    pub session: &'a [&'a str],
    /// Asks to end.
    pub interrupt: &'a Interrupt,
}

impl Load<'_> {
    /// Loads everything. `progress` is told the loaded rows and the seconds since the start. Returns the
    /// number of rows.
    pub fn run(&self, mut progress: impl FnMut(u64, f64)) -> Result<u64> {
        let (rows, next, stop) = (AtomicU64::new(0), AtomicI64::new(0), AtomicBool::new(false));
        let start = Instant::now();
        let failure = thread::scope(|scope| {
            let users: Vec<_> =
                (0..self.users).map(|_| scope.spawn(|| self.user(&rows, &next, &stop))).collect();
            while users.iter().any(|user| !user.is_finished()) {
                thread::sleep(Duration::from_millis(20));
                if self.interrupt.check().is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                let elapsed = start.elapsed();
                if elapsed.as_millis() % PROGRESS_EVERY.as_millis() < 25 {
                    progress(rows.load(Ordering::Relaxed), elapsed.as_secs_f64());
                }
            }
            let results: Vec<_> =
                users.into_iter().map(|u| u.join().expect("a loading user does not panic")).collect();
            // The failure that made the others stop.
            let mut failures: Vec<Failure> =
                results.into_iter().filter_map(std::result::Result::err).collect();
            failures.sort_by_key(|failure| matches!(failure, Failure::Lost(why) if why == TOLD_TO_STOP));
            failures.into_iter().next()
        });
        self.interrupt.check()?;
        if let Some(failure) = failure {
            let what = format!("loading TPC-C into {}", self.database);
            return Err(Error::Load { what, message: failure.to_string() });
        }
        progress(rows.load(Ordering::Relaxed), start.elapsed().as_secs_f64());
        Ok(rows.into_inner())
    }

    /// Loads the next part (0: the items) until nothing is left or another user failed.
    fn user(
        &self,
        rows: &AtomicU64,
        next: &AtomicI64,
        stop: &AtomicBool,
    ) -> std::result::Result<(), Failure> {
        let work = || {
            let mut session = Session::connect(self.address, ANSWER_LIMIT)?;
            session.run(&format!("USE {}", self.database))?;
            for statement in self.session {
                session.run(statement)?;
            }
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part > self.scale.warehouses {
                    return Ok(());
                }
                let random = Random::new(self.seed, part as u64);
                let mut filler = Filler { session: &mut session, random, scale: self.scale, rows, stop };
                match part {
                    0 => filler.items()?,
                    w => filler.warehouse(w)?,
                }
            }
        };
        work().inspect_err(|_| stop.store(true, Ordering::Relaxed))
    }
}

/// Rows of one table on their way into it.
struct Insert {
    head: String,
    text: String,
    rows: u64,
}

impl Insert {
    fn into(table: &str) -> Insert {
        Insert {
            head: format!("INSERT INTO {table} VALUES "),
            text: String::with_capacity(STATEMENT_BYTES + 4096),
            rows: 0,
        }
    }

    /// Begins the next row, up to its opening bracket.
    fn row(&mut self) -> &mut String {
        self.text.push_str(if self.rows == 0 { &self.head } else { "," });
        self.rows += 1;
        self.text.push('(');
        &mut self.text
    }
}

/// Fills one warehouse, or the items.
struct Filler<'a> {
    session: &'a mut Session,
    random: Random,
    scale: Scale,
    rows: &'a AtomicU64,
    stop: &'a AtomicBool,
}

/// Writing to a String does not fail.
macro_rules! put {
    ($to:expr, $($what:tt)*) => {{ let _ = write!($to, $($what)*); }};
}

impl Filler<'_> {
    /// Ends the row and sends the statement when it is large enough.
    fn end_row(&mut self, insert: &mut Insert) -> std::result::Result<(), Failure> {
        insert.text.push(')');
        if insert.text.len() >= STATEMENT_BYTES {
            return self.send(insert);
        }
        Ok(())
    }

    fn send(&mut self, insert: &mut Insert) -> std::result::Result<(), Failure> {
        if insert.rows > 0 {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Lost(TOLD_TO_STOP.to_string()));
            }
            self.session.run(&insert.text)?;
            self.rows.fetch_add(insert.rows, Ordering::Relaxed);
            insert.text.clear();
            insert.rows = 0;
        }
        Ok(())
    }

    fn items(&mut self) -> std::result::Result<(), Failure> {
        let mut insert = Insert::into("item");
        for id in 1..=self.scale.items {
            let image = self.random.between(1, 10_000);
            let text = insert.row();
            put!(text, "{id},{image},'");
            self.random.string(14, 24, text);
            put!(text, "',{},'", cents(self.random.between(100, 10_000)));
            self.random.item_data(text);
            text.push('\'');
            self.end_row(&mut insert)?;
        }
        self.send(&mut insert)
    }

    fn warehouse(&mut self, w: i64) -> std::result::Result<(), Failure> {
        self.stock(w)?;
        // The payments of customers at the beginning, ten each: conditions 1, 8 and 9.
        let of_district = 1000 * self.scale.customers;
        let mut insert = Insert::into("warehouse");
        let text = insert.row();
        put!(text, "{w},{},", cents(of_district * DISTRICTS));
        let tax = self.random.between(0, 2000);
        put!(text, "0.{tax:04},");
        self.name_and_address(text);
        self.end_row(&mut insert)?;
        self.send(&mut insert)?;
        let mut districts = Insert::into("district");
        for d in 1..=DISTRICTS {
            let text = districts.row();
            put!(text, "{d},{w},{},", cents(of_district));
            let tax = self.random.between(0, 2000);
            put!(text, "0.{tax:04},{},", self.scale.customers + 1);
            self.name_and_address(text);
            self.end_row(&mut districts)?;
        }
        self.send(&mut districts)?;
        for d in 1..=DISTRICTS {
            self.customers(w, d)?;
        }
        for d in 1..=DISTRICTS {
            self.orders(w, d)?;
        }
        Ok(())
    }

    fn name_and_address(&mut self, text: &mut String) {
        text.push('\'');
        self.random.string(6, 10, text);
        text.push_str("',");
        self.address(text);
    }

    /// Two streets, city, state and zip.
    fn address(&mut self, text: &mut String) {
        for (low, high) in [(10, 20), (10, 20), (10, 20), (2, 2)] {
            text.push('\'');
            self.random.string(low, high, text);
            text.push_str("',");
        }
        text.push('\'');
        self.random.digits(4, text);
        text.push_str("11111'");
    }

    fn stock(&mut self, w: i64) -> std::result::Result<(), Failure> {
        let mut insert = Insert::into("stock");
        for id in 1..=self.scale.items {
            let quantity = self.random.between(10, 100);
            let text = insert.row();
            put!(text, "{id},{w},{quantity}");
            for _ in 0..DISTRICTS {
                text.push_str(",'");
                self.random.string(24, 24, text);
                text.push('\'');
            }
            text.push_str(",0,0,0,'");
            self.random.item_data(text);
            text.push('\'');
            self.end_row(&mut insert)?;
        }
        self.send(&mut insert)
    }

    fn customers(&mut self, w: i64, d: i64) -> std::result::Result<(), Failure> {
        let mut customers = Insert::into("customer");
        let mut history = Insert::into("history");
        for id in 1..=self.scale.customers {
            let names = self.scale.last_names();
            let name = if id <= names { id - 1 } else { self.random.last_name_to_load(names) };
            let text = customers.row();
            put!(text, "{id},{d},{w},'");
            self.random.string(8, 16, text);
            put!(text, "','OE','{}',", last_name(name));
            self.address(text);
            text.push_str(",'");
            self.random.digits(16, text);
            let credit = if self.random.percent(10) { "BC" } else { "GC" };
            let discount = self.random.between(0, 5000);
            put!(text, "',NOW(),'{credit}',50000,0.{discount:04},-10,10,1,0,'");
            self.random.string(300, 500, text);
            text.push('\'');
            self.end_row(&mut customers)?;
            let text = history.row();
            put!(text, "{id},{d},{w},{d},{w},NOW(),10,'");
            self.random.string(12, 24, text);
            text.push('\'');
            self.end_row(&mut history)?;
        }
        self.send(&mut customers)?;
        self.send(&mut history)
    }

    fn orders(&mut self, w: i64, d: i64) -> std::result::Result<(), Failure> {
        let mut orders = Insert::into("orders");
        let mut lines = Insert::into("order_line");
        let mut new_orders = Insert::into("new_order");
        let buyers = self.random.permutation(self.scale.customers);
        for (id, buyer) in (1..).zip(buyers) {
            let delivered = id <= self.scale.delivered();
            let count = self.random.between(5, 15);
            let text = orders.row();
            put!(text, "{id},{w},{d},{buyer},");
            match delivered {
                true => put!(text, "{}", self.random.between(1, 10)),
                false => text.push_str("NULL"),
            }
            put!(text, ",{count},1,NOW()");
            self.end_row(&mut orders)?;
            for number in 1..=count {
                let item = self.random.between(1, self.scale.items);
                let text = lines.row();
                put!(text, "{w},{d},{id},{number},{item},");
                match delivered {
                    true => text.push_str("NOW(),0"),
                    false => put!(text, "NULL,{}", cents(self.random.between(1, 999_999))),
                }
                put!(text, ",{w},5,'");
                self.random.string(24, 24, text);
                text.push('\'');
                self.end_row(&mut lines)?;
            }
            if !delivered {
                put!(new_orders.row(), "{w},{d},{id}");
                self.end_row(&mut new_orders)?;
            }
        }
        self.send(&mut orders)?;
        self.send(&mut lines)?;
        self.send(&mut new_orders)
    }
}

/// An amount with two places.
fn cents(amount: i64) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_two_places() {
        assert_eq!([cents(1), cents(100), cents(999_999)], ["0.01", "1.00", "9999.99"]);
    }

    #[test]
    fn rows_are_joined_into_one_statement() {
        let mut insert = Insert::into("t");
        insert.row().push('1');
        insert.text.push(')');
        insert.row().push('2');
        insert.text.push(')');
        assert_eq!(insert.text, "INSERT INTO t VALUES (1),(2)");
        assert_eq!(insert.rows, 2);
    }
}
