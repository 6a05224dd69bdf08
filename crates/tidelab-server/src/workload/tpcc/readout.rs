//! Reads the tables after a run, one warehouse after the other with several connections, and has the
//! conditions checked. Nothing may change meanwhile.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use mysql::Value;

use super::conditions::{
    of_stock, of_warehouse, taken, Cents, Customer, District, History, Lines, Order, Stock, Violation,
    Warehouse,
};
use super::Scale;
use crate::error::{Error, Result};
use crate::server::session::{Address, Failure, Session};

/// Reading a whole table may take long on a slow disk.
const ANSWER_LIMIT: Duration = Duration::from_secs(900);

/// The contents of the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readout {
    /// The violations.
    pub violations: Vec<Violation>,
    /// New orders since the load: the growth of the sum of d_next_o_id.
    pub new_orders: i64,
    /// New rows of history since the load.
    pub payments: i64,
    /// Orders delivered since the load.
    pub deliveries: i64,
}

impl Readout {
    /// The violations, a line each.
    pub fn complaints(&self) -> Vec<String> {
        self.violations.iter().map(|v| format!("condition {}: {}", v.condition, v.what)).collect()
    }
}

/// Reads the tables with so many connections and checks the conditions.
pub fn check(address: &Address, database: &str, scale: Scale, connections: u32) -> Result<Readout> {
    read(address, database, scale, connections).map_err(|failure| Error::Statement {
        statement: format!("reading the tables of {database}"),
        message: failure.to_string(),
    })
}

type Answer<T> = std::result::Result<T, Failure>;

fn open(address: &Address, database: &str) -> Answer<Session> {
    let mut session = Session::connect(address, ANSWER_LIMIT)?;
    session.run(&format!("USE {database}"))?;
    Ok(session)
}

fn read(address: &Address, database: &str, scale: Scale, connections: u32) -> Answer<Readout> {
    let mut session = open(address, database)?;
    let history = history(&mut session)?;
    let warehouses = session.number("SELECT COUNT(*) FROM warehouse")?;
    let items = session.number("SELECT COUNT(*) FROM item")?;
    let of_load = i64::try_from(history.rows).unwrap_or(0) - 10 * scale.customers * scale.warehouses;
    let all =
        Mutex::new((Readout { payments: of_load, ..Readout::default() }, Stock::default(), Stock::default()));
    let next = AtomicI64::new(1);
    let work = || -> Answer<()> {
        let mut session = open(address, database)?;
        loop {
            let id = next.fetch_add(1, Ordering::Relaxed);
            if id > scale.warehouses {
                return Ok(());
            }
            let w = warehouse(&mut session, id)?;
            let in_stock = stock(&mut session, id)?;
            let violations = of_warehouse(&w, &history, scale);
            let took = taken(&w, scale);
            let (readout, stock, out) = &mut *all.lock().expect("no reader panics");
            readout.violations.extend(violations);
            readout.new_orders +=
                w.districts.values().map(|d| d.next_order - 1 - scale.customers).sum::<i64>();
            readout.deliveries += w.customers.values().map(|c| c.deliveries).sum::<i64>();
            for (sum, one) in [(stock, in_stock), (out, took)] {
                sum.ytd += one.ytd;
                sum.orders += one.orders;
                sum.remote += one.remote;
            }
        }
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..connections.max(1)).map(|_| scope.spawn(work)).collect();
        readers.into_iter().try_for_each(|r| r.join().expect("a reader does not panic"))
    })?;
    let (mut readout, stock, out) = all.into_inner().expect("no reader panics");
    readout.violations.extend(of_stock(stock, out));
    for (what, found, wanted) in [("warehouses", warehouses, scale.warehouses), ("items", items, scale.items)]
    {
        if found != wanted {
            let what = format!("{found} {what} are there, not {wanted}");
            readout.violations.push(Violation { condition: 0, what });
        }
    }
    readout.violations.sort_by_key(|v| v.condition);
    Ok(readout)
}

fn history(session: &mut Session) -> Answer<History> {
    let mut history = History::default();
    session.each_row("SELECT h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount FROM history", |row| {
        let n = |place: usize| number(&row[place]);
        let amount = cents(&row[5]);
        *history.by_district.entry((n(0), n(1))).or_default() += amount;
        *history.by_customer.entry((n(2), n(3), n(4))).or_default() += amount;
        history.rows += 1;
    })?;
    Ok(history)
}

fn warehouse(session: &mut Session, id: i64) -> Answer<Warehouse> {
    let mut w = Warehouse { id, ..Warehouse::default() };
    session
        .each_row(&format!("SELECT w_ytd FROM warehouse WHERE w_id = {id}"), |row| w.ytd = cents(&row[0]))?;
    session.each_row(
        &format!("SELECT d_id, d_next_o_id, d_ytd FROM district WHERE d_w_id = {id}"),
        |row| {
            let district = District { next_order: number(&row[1]), ytd: cents(&row[2]) };
            w.districts.insert(number(&row[0]), district);
        },
    )?;
    let orders = format!(
        "SELECT o_d_id, o_id, o_c_id, o_carrier_id IS NOT NULL, o_ol_cnt FROM orders FORCE INDEX (PRIMARY) WHERE o_w_id = {id}"
    );
    session.each_row(&orders, |row| {
        let n = |place: usize| number(&row[place]);
        w.orders.insert((n(0), n(1)), Order { customer: n(2), has_carrier: n(3) == 1, lines: n(4) });
    })?;
    session.each_row(&format!("SELECT no_d_id, no_o_id FROM new_order WHERE no_w_id = {id}"), |row| {
        w.new_orders.insert((number(&row[0]), number(&row[1])));
    })?;
    // Along the primary key: no temporary table.
    let lines = format!(
        "SELECT ol_d_id, ol_o_id, COUNT(*), SUM(ol_delivery_d IS NULL),
           COALESCE(SUM(IF(ol_delivery_d IS NULL, 0, ol_amount)), 0), SUM(ol_quantity), SUM(ol_supply_w_id <> ol_w_id)
         FROM order_line FORCE INDEX (PRIMARY) WHERE ol_w_id = {id} GROUP BY ol_w_id, ol_d_id, ol_o_id"
    );
    session.each_row(&lines, |row| {
        let n = |place: usize| number(&row[place]);
        let lines = Lines {
            count: n(2),
            undelivered: n(3),
            delivered_amount: cents(&row[4]),
            quantity: n(5),
            remote: n(6),
        };
        w.lines.insert((n(0), n(1)), lines);
    })?;
    let customers = format!(
        "SELECT c_d_id, c_id, c_balance, c_ytd_payment, c_delivery_cnt FROM customer FORCE INDEX (PRIMARY) WHERE c_w_id = {id}"
    );
    session.each_row(&customers, |row| {
        let customer =
            Customer { balance: cents(&row[2]), ytd_payment: cents(&row[3]), deliveries: number(&row[4]) };
        w.customers.insert((number(&row[0]), number(&row[1])), customer);
    })?;
    Ok(w)
}

fn stock(session: &mut Session, id: i64) -> Answer<Stock> {
    let mut stock = Stock::default();
    let sums =
        format!("SELECT SUM(s_ytd), SUM(s_order_cnt), SUM(s_remote_cnt) FROM stock WHERE s_w_id = {id}");
    session.each_row(&sums, |row| {
        stock = Stock { ytd: number(&row[0]), orders: number(&row[1]), remote: number(&row[2]) };
    })?;
    Ok(stock)
}

fn text(value: &Value) -> &str {
    match value {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        // Statements without parameters answer in text.
        _ => "",
    }
}

/// A whole number; a NULL becomes a number foreign to any row.
fn number(value: &Value) -> i64 {
    text(value).parse().unwrap_or(i64::MIN / 4)
}

/// An amount with two places, as hundredths.
fn cents(value: &Value) -> Cents {
    parse_cents(text(value)).unwrap_or(i64::MIN / 4)
}

fn parse_cents(text: &str) -> Option<Cents> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let part: i64 = match part.len() {
        1 => part.parse::<i64>().ok()? * 10,
        2 => part.parse().ok()?,
        _ => return None,
    };
    Some(sign * (whole.parse::<i64>().ok()? * 100 + part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        let of = |text: &str| parse_cents(text);
        assert_eq!(
            [of("-10.00"), of("0.07"), of("-0.50"), of("12345.6"), of("3")],
            [Some(-1000), Some(7), Some(-50), Some(1_234_560), Some(300)]
        );
        assert_eq!([of(""), of("x.10"), of("1.234")], [None, None, None]);
    }

    #[test]
    fn violations_name_their_condition() {
        let violations = vec![Violation { condition: 4, what: "a line too few".to_string() }];
        let readout = Readout { violations, ..Readout::default() };
        assert_eq!(readout.complaints(), ["condition 4: a line too few"]);
    }
}
