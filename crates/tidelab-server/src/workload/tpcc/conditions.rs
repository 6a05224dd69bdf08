//! The consistency conditions 1 to 12 of clause 3.3.2, and a thirteenth for the stock, checked on the
//! result of [`super::readout`]. A figure counts only if they hold.
//!
//! Condition 11 of the specification is written for a database just loaded; here the orders delivered since
//! then count too. The thirteenth condition compares stock and order lines: a lost update of a stock row
//! shows nowhere else.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Scale, DISTRICTS};

/// An amount of money in hundredths.
pub type Cents = i64;

/// A row of district.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct District {
    /// d_next_o_id.
    pub next_order: i64,
    /// d_ytd.
    pub ytd: Cents,
}

/// A row of orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// o_c_id.
    pub customer: i64,
    /// o_carrier_id is there.
    pub has_carrier: bool,
    /// o_ol_cnt.
    pub lines: i64,
}

/// The order lines of one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Their number.
    pub count: i64,
    /// The number without ol_delivery_d.
    pub undelivered: i64,
    /// The sum of ol_amount of those with one.
    pub delivered_amount: Cents,
    /// The sum of ol_quantity.
    pub quantity: i64,
    /// The number supplied by another warehouse.
    pub remote: i64,
}

/// A row of customer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Customer {
    /// c_balance.
    pub balance: Cents,
    /// c_ytd_payment.
    pub ytd_payment: Cents,
    /// c_delivery_cnt.
    pub deliveries: i64,
}

/// The sums of the history; it has no order of its own.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The sum of h_amount by (h_w_id, h_d_id): where it was paid.
    pub by_district: HashMap<(i64, i64), Cents>,
    /// The same by the paying customer: (h_c_w_id, h_c_d_id, h_c_id).
    pub by_customer: HashMap<(i64, i64, i64), Cents>,
    /// Rows.
    pub rows: u64,
}

/// The stock of all warehouses, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// The sum of s_ytd.
    pub ytd: i64,
    /// The sum of s_order_cnt.
    pub orders: i64,
    /// The sum of s_remote_cnt.
    pub remote: i64,
}

/// One warehouse with all of its rows. Keys are (district, number).
#[derive(Clone, Debug, Default)]
pub struct Warehouse {
    /// w_id.
    pub id: i64,
    /// w_ytd.
    pub ytd: Cents,
    /// By d_id.
    pub districts: BTreeMap<i64, District>,
    /// By (o_d_id, o_id).
    pub orders: BTreeMap<(i64, i64), Order>,
    /// (no_d_id, no_o_id).
    pub new_orders: BTreeSet<(i64, i64)>,
    /// By (ol_d_id, ol_o_id).
    pub lines: BTreeMap<(i64, i64), Lines>,
    /// By (c_d_id, c_id).
    pub customers: BTreeMap<(i64, i64), Customer>,
}

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The condition: 1 to 12 of clause 3.3.2, 13 for the stock, 0 where rows are missing.
    pub condition: u8,
    /// The contradiction.
    pub what: String,
}

/// Collects violations; of each condition the first few of a warehouse, and how many more.
#[derive(Default)]
struct Violations {
    shown: Vec<Violation>,
    more: BTreeMap<u8, usize>,
}

/// So many violations of a condition are described.
const SHOWN: usize = 3;

impl Violations {
    fn require(&mut self, holds: bool, condition: u8, what: impl FnOnce() -> String) {
        if holds {
            return;
        }
        if self.shown.iter().filter(|v| v.condition == condition).count() < SHOWN {
            self.shown.push(Violation { condition, what: what() });
        } else {
            *self.more.entry(condition).or_default() += 1;
        }
    }

    fn finish(mut self, of: &str) -> Vec<Violation> {
        for (condition, count) in self.more {
            self.shown.push(Violation { condition, what: format!("{of}: {count} more of this") });
        }
        self.shown.sort_by_key(|v| v.condition);
        self.shown
    }
}

/// The conditions on one warehouse.
pub fn of_warehouse(w: &Warehouse, history: &History, scale: Scale) -> Vec<Violation> {
    let mut found = Violations::default();
    let id = w.id;
    let count = w.districts.len() as i64;
    found.require(count == DISTRICTS, 0, || format!("warehouse {id} has {count} districts"));
    let customers = w.customers.len() as i64;
    let wanted = DISTRICTS * scale.customers;
    found.require(customers == wanted, 0, || {
        format!("warehouse {id} has {customers} customers, not {wanted}")
    });

    let of_districts: Cents = w.districts.values().map(|d| d.ytd).sum();
    found.require(w.ytd == of_districts, 1, || {
        format!("warehouse {id}: w_ytd is {}, its districts' d_ytd {}", money(w.ytd), money(of_districts))
    });
    let paid: Cents = (1..=DISTRICTS).filter_map(|d| history.by_district.get(&(id, d))).sum();
    found.require(w.ytd == paid, 8, || {
        format!("warehouse {id}: w_ytd is {}, history has {}", money(w.ytd), money(paid))
    });
    for (d, district) in &w.districts {
        of_district(w, *d, district, history, scale, &mut found);
    }
    of_orders(w, &mut found);
    of_customers(w, history, &mut found);
    found.finish(&format!("warehouse {id}"))
}

/// Conditions 2, 3, 4, 9 and 11.
fn of_district(
    w: &Warehouse,
    d: i64,
    district: &District,
    history: &History,
    scale: Scale,
    found: &mut Violations,
) {
    let name = format!("district {d} of warehouse {}", w.id);
    let whole = (d, i64::MIN)..=(d, i64::MAX);
    let last = w.orders.range(whole.clone()).next_back().map_or(0, |((_, o), _)| *o);
    let newest = w.new_orders.range(whole.clone()).next_back().map(|(_, o)| *o);
    let oldest = w.new_orders.range(whole.clone()).next().map(|(_, o)| *o);
    let next = district.next_order;
    // After the delivery of all orders there is no newest one to compare with.
    found.require(next - 1 == last && newest.is_none_or(|n| n == last), 2, || {
        format!("{name}: d_next_o_id is {next}, the last order {last}, the last new order {newest:?}")
    });
    let waiting = w.new_orders.range(whole.clone()).count() as i64;
    let span = newest.zip(oldest).map_or(0, |(n, o)| n - o + 1);
    found.require(span == waiting, 3, || {
        format!("{name}: {waiting} new orders from {oldest:?} to {newest:?}: there are gaps")
    });
    let announced: i64 = w.orders.range(whole.clone()).map(|(_, o)| o.lines).sum();
    let there: i64 = w.lines.range(whole.clone()).map(|(_, l)| l.count).sum();
    found.require(announced == there, 4, || {
        format!("{name}: o_ol_cnt says {announced} order lines, there are {there}")
    });
    let paid = history.by_district.get(&(w.id, d)).copied().unwrap_or(0);
    found.require(district.ytd == paid, 9, || {
        format!("{name}: d_ytd is {}, history has {}", money(district.ytd), money(paid))
    });
    let orders = w.orders.range(whole.clone()).count() as i64;
    let since: i64 = w.customers.range(whole).map(|(_, c)| c.deliveries).sum();
    let delivered = scale.delivered();
    found.require(orders - waiting == delivered + since, 11, || {
        format!("{name}: {orders} orders less {waiting} new ones are not {delivered} and the {since} delivered since")
    });
}

/// Conditions 5, 6 and 7.
fn of_orders(w: &Warehouse, found: &mut Violations) {
    let name = |key: &(i64, i64)| format!("order {} of district {} of warehouse {}", key.1, key.0, w.id);
    for (key, order) in &w.orders {
        let waits = w.new_orders.contains(key);
        found.require(order.has_carrier != waits, 5, || {
            let (carrier, row) = (if order.has_carrier { "a" } else { "no" }, if waits { "a" } else { "no" });
            format!("{} has {carrier} carrier and {row} row in new_order", name(key))
        });
        let lines = w.lines.get(key).copied().unwrap_or_default();
        found.require(order.lines == lines.count, 6, || {
            format!("{} announces {} lines, there are {}", name(key), order.lines, lines.count)
        });
        let wanted = if order.has_carrier { 0 } else { lines.count };
        found.require(lines.undelivered == wanted, 7, || {
            let (carrier, n) = (if order.has_carrier { "a" } else { "no" }, lines.undelivered);
            format!("{} has {carrier} carrier, {n} of {} lines are not delivered", name(key), lines.count)
        });
    }
    for key in w.new_orders.iter().filter(|key| !w.orders.contains_key(key)) {
        found.require(false, 5, || format!("{} is in new_order and not in orders", name(key)));
    }
    for key in w.lines.keys().filter(|key| !w.orders.contains_key(key)) {
        found.require(false, 6, || format!("{} has lines and is not in orders", name(key)));
    }
}

/// Conditions 10 and 12.
fn of_customers(w: &Warehouse, history: &History, found: &mut Violations) {
    let mut bought: BTreeMap<(i64, i64), Cents> = BTreeMap::new();
    for ((d, o), order) in &w.orders {
        let amount = w.lines.get(&(*d, *o)).map_or(0, |l| l.delivered_amount);
        *bought.entry((*d, order.customer)).or_default() += amount;
    }
    for ((d, c), customer) in &w.customers {
        let bought = bought.get(&(*d, *c)).copied().unwrap_or(0);
        let paid = history.by_customer.get(&(w.id, *d, *c)).copied().unwrap_or(0);
        let name = || format!("customer {c} of district {d} of warehouse {}", w.id);
        found.require(customer.balance == bought - paid, 10, || {
            let balance = money(customer.balance);
            format!("{}: balance {balance}, delivered {}, paid {}", name(), money(bought), money(paid))
        });
        found.require(customer.balance + customer.ytd_payment == bought, 12, || {
            let (balance, ytd) = (money(customer.balance), money(customer.ytd_payment));
            format!("{}: balance {balance} and c_ytd_payment {ytd}, delivered {}", name(), money(bought))
        });
    }
}

/// The amounts taken from the stock by a warehouse's order lines since the load.
pub fn taken(w: &Warehouse, scale: Scale) -> Stock {
    let mut sum = Stock::default();
    for ((_, order), lines) in &w.lines {
        if *order > scale.customers {
            sum.ytd += lines.quantity;
            sum.orders += lines.count;
            sum.remote += lines.remote;
        }
    }
    sum
}

/// The thirteenth: all stock rows together lost exactly the amounts of the order lines.
pub fn of_stock(stock: Stock, taken: Stock) -> Vec<Violation> {
    if stock == taken {
        return Vec::new();
    }
    let what = format!(
        "stock says (quantity, lines, remote) = ({}, {}, {}), the order lines ({}, {}, {})",
        stock.ytd, stock.orders, stock.remote, taken.ytd, taken.orders, taken.remote
    );
    vec![Violation { condition: 13, what }]
}

fn money(cents: Cents) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { warehouses: 1, customers: 10, items: 20 };

    /// A warehouse after loading, one more order, one delivery and one payment in district 3.
    fn sound() -> (Warehouse, History) {
        let mut w = Warehouse { id: 1, ytd: 100_000, ..Warehouse::default() };
        let mut history = History::default();
        for d in 1..=DISTRICTS {
            w.districts.insert(d, District { next_order: 11, ytd: 10_000 });
            for n in 1..=10 {
                w.customers.insert((d, n), Customer { balance: -1000, ytd_payment: 1000, deliveries: 0 });
                *history.by_district.entry((1, d)).or_default() += 1000;
                history.by_customer.insert((1, d, n), 1000);
                let delivered = n <= SCALE.delivered();
                w.orders.insert((d, n), Order { customer: 11 - n, has_carrier: delivered, lines: 6 });
                let undelivered = if delivered { 0 } else { 6 };
                w.lines.insert((d, n), Lines { count: 6, undelivered, quantity: 30, ..Lines::default() });
                if !delivered {
                    w.new_orders.insert((d, n));
                }
            }
        }
        // The order.
        w.districts.get_mut(&3).unwrap().next_order = 12;
        w.orders.insert((3, 11), Order { customer: 4, has_carrier: false, lines: 5 });
        let lines = Lines { count: 5, undelivered: 5, quantity: 17, remote: 1, ..Lines::default() };
        w.lines.insert((3, 11), lines);
        w.new_orders.insert((3, 11));
        // The delivery of order 8, which customer 3 placed.
        w.new_orders.remove(&(3, 8));
        w.orders.get_mut(&(3, 8)).unwrap().has_carrier = true;
        let lines = w.lines.get_mut(&(3, 8)).unwrap();
        (lines.undelivered, lines.delivered_amount) = (0, 4321);
        let customer = w.customers.get_mut(&(3, 3)).unwrap();
        (customer.balance, customer.deliveries) = (3321, 1);
        // The payment of customer 5.
        w.ytd += 777;
        w.districts.get_mut(&3).unwrap().ytd += 777;
        *history.by_district.get_mut(&(1, 3)).unwrap() += 777;
        *history.by_customer.get_mut(&(1, 3, 5)).unwrap() += 777;
        let customer = w.customers.get_mut(&(3, 5)).unwrap();
        (customer.balance, customer.ytd_payment) = (-1777, 1777);
        (w, history)
    }

    fn violated(change: impl FnOnce(&mut Warehouse, &mut History)) -> BTreeSet<u8> {
        let (mut w, mut history) = sound();
        change(&mut w, &mut history);
        of_warehouse(&w, &history, SCALE).iter().map(|v| v.condition).collect()
    }

    #[test]
    fn a_sound_database_has_no_violation() {
        assert_eq!(violated(|_, _| {}), BTreeSet::new());
    }

    /// For each condition its smallest violation, and all conditions broken by it.
    #[test]
    fn each_planted_violation_is_found() {
        type Plant = fn(&mut Warehouse, &mut History);
        let plants: [(u8, &[u8], Plant); 14] = [
            // Half of a payment: the warehouse did not get it.
            (1, &[1, 8], |w, _| w.ytd -= 777),
            // A district that forgot that it gave a number out.
            (2, &[2], |w, _| w.districts.get_mut(&3).unwrap().next_order = 11),
            // The last order waits no more although its lines do: also a gap to its carrier.
            (2, &[2, 5, 11], |w, _| {
                w.new_orders.remove(&(3, 11));
            }),
            // A hole in the queue.
            (3, &[3, 5, 11], |w, _| {
                w.new_orders.remove(&(3, 10));
            }),
            // A line too few.
            (4, &[4, 6, 7], |w, _| w.lines.get_mut(&(3, 11)).unwrap().count = 4),
            // A carrier and still in the queue.
            (5, &[5, 7], |w, _| w.orders.get_mut(&(2, 9)).unwrap().has_carrier = true),
            // Lines exchanged between orders: the district's sum hides it.
            (6, &[6], |w, _| {
                w.orders.get_mut(&(4, 1)).unwrap().lines = 5;
                w.orders.get_mut(&(4, 2)).unwrap().lines = 7;
            }),
            // One line of a delivered order was not delivered.
            (7, &[7], |w, _| w.lines.get_mut(&(1, 1)).unwrap().undelivered = 1),
            // A lost row of history.
            (8, &[8, 9, 10], |_, h| {
                *h.by_district.get_mut(&(1, 3)).unwrap() -= 777;
                *h.by_customer.get_mut(&(1, 3, 5)).unwrap() -= 777;
            }),
            // Money that moved between districts.
            (9, &[9], |w, _| {
                w.districts.get_mut(&1).unwrap().ytd += 5;
                w.districts.get_mut(&2).unwrap().ytd -= 5;
            }),
            // History names another customer.
            (10, &[10], |_, h| {
                *h.by_customer.get_mut(&(1, 3, 5)).unwrap() -= 777;
                *h.by_customer.get_mut(&(1, 3, 6)).unwrap() += 777;
            }),
            // A delivery that was not counted.
            (11, &[11], |w, _| w.customers.get_mut(&(3, 3)).unwrap().deliveries = 0),
            // A payment that the customer's sum does not have.
            (12, &[12], |w, _| w.customers.get_mut(&(3, 5)).unwrap().ytd_payment -= 777),
            // A lost update of a balance.
            (12, &[10, 12], |w, _| w.customers.get_mut(&(3, 3)).unwrap().balance = -1000),
        ];
        for (condition, all, plant) in plants {
            let found = violated(plant);
            assert!(found.contains(&condition), "{condition}: {found:?}");
            assert_eq!(found, all.iter().copied().collect(), "planted for {condition}");
        }
        let tested: BTreeSet<u8> = plants.iter().map(|(condition, ..)| *condition).collect();
        assert_eq!(tested, (1..=12).collect());
    }

    #[test]
    fn missing_rows_and_orphans_are_found() {
        assert!(violated(|w, _| {
            w.districts.remove(&7);
        })
        .contains(&0));
        assert!(violated(|w, _| {
            w.customers.remove(&(1, 1));
        })
        .contains(&0));
        assert!(violated(|w, _| {
            w.orders.remove(&(1, 10));
        })
        .is_superset(&BTreeSet::from([2, 4, 5, 6])));
    }

    #[test]
    fn the_stock_must_agree_with_the_lines() {
        let (w, _) = sound();
        let taken = taken(&w, SCALE);
        assert_eq!(taken, Stock { ytd: 17, orders: 5, remote: 1 }, "only what came since the load");
        assert_eq!(of_stock(taken, taken), []);
        let lost = Stock { ytd: 10, ..taken };
        assert_eq!(of_stock(lost, taken)[0].condition, 13);
    }

    #[test]
    fn a_queue_that_is_empty_is_no_violation() {
        let found = violated(|w, _| {
            for (_, o) in w.new_orders.clone().into_iter().filter(|(d, _)| *d == 1) {
                w.new_orders.remove(&(1, o));
                w.orders.get_mut(&(1, o)).unwrap().has_carrier = true;
                w.lines.get_mut(&(1, o)).unwrap().undelivered = 0;
                w.customers.get_mut(&(1, 11 - o)).unwrap().deliveries += 1;
            }
        });
        assert_eq!(found, BTreeSet::new());
    }

    #[test]
    fn many_of_a_kind_are_counted() {
        let (mut w, history) = sound();
        for customer in w.customers.values_mut() {
            customer.ytd_payment += 1;
        }
        let found = of_warehouse(&w, &history, SCALE);
        assert_eq!(found.len(), SHOWN + 1);
        assert!(found[SHOWN].what.contains("97 more"), "{found:?}");
    }
}
