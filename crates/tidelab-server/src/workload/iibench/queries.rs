//! The four queries, in turn. Each reads some rows of an index from a random place on, and each row must lie
//! after the place.

use mysql::{Row, Value};

use super::rows::{Random, CUSTOMERS, REGISTERS};
use super::{clock, schema::Shape};

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Query {
    /// Along the primary key.
    Pk,
    /// Along (price, dateandtime, customerid).
    Pdc,
    /// Along (price, customerid).
    MarketSegment,
    /// Along (cashregisterid, price, customerid).
    RegisterSegment,
}

/// The range of a query's possible beginnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least key.
    pub low: u64,
    /// The greatest key.
    pub high: u64,
    /// The first row's time, in microseconds since 1970.
    pub from_us: u64,
    /// The last row's.
    pub to_us: u64,
}

/// A place in an index: the values of its columns.
pub type Place = Vec<u64>;

impl Query {
    /// All, in their running order.
    pub const ALL: [Query; 4] = [Query::Pk, Query::Pdc, Query::MarketSegment, Query::RegisterSegment];

    /// The name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Query::Pk => "pk",
            Query::Pdc => "pdc",
            Query::MarketSegment => "marketsegment",
            Query::RegisterSegment => "registersegment",
        }
    }

    /// Those with an index in the table.
    pub fn possible(shape: &Shape) -> Vec<Query> {
        let has = |query: &Query| {
            *query == Query::Pk || shape.indexes().iter().any(|(name, _, _)| *name == query.name())
        };
        Query::ALL.into_iter().filter(has).collect()
    }

    /// The columns of its index.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Query::Pk => &["transactionid"],
            Query::Pdc => &["price", "dateandtime", "customerid"],
            Query::MarketSegment => &["price", "customerid"],
            Query::RegisterSegment => &["cashregisterid", "price", "customerid"],
        }
    }

    /// Its text, with placeholders for the values of [`Query::values`].
    pub fn statement(self, table: &str, limit: u32) -> String {
        let columns = self.columns();
        if self == Query::Pk {
            return format!("SELECT transactionid FROM `{table}` WHERE transactionid >= ? LIMIT {limit}");
        }
        // (a = ? AND b = ? AND c >= ?) OR (a = ? AND b > ?) OR (a > ?), as the first insert benchmark
        // asks: the place itself or any after it.
        let after: Vec<String> = (0..columns.len())
            .rev()
            .map(|last| {
                let mut parts: Vec<String> = columns[..last].iter().map(|c| format!("{c} = ?")).collect();
                let sign = if last + 1 == columns.len() { ">=" } else { ">" };
                parts.push(format!("{} {sign} ?", columns[last]));
                format!("({})", parts.join(" AND "))
            })
            .collect();
        format!(
            "SELECT {} FROM `{table}` FORCE INDEX ({}) WHERE {} LIMIT {limit}",
            columns.join(", "),
            self.name(),
            after.join(" OR ")
        )
    }

    /// A random place.
    pub fn place(self, random: &mut Random, range: &Range) -> Place {
        let customer = random.below(CUSTOMERS);
        let price = random.price(customer);
        match self {
            Query::Pk => vec![range.low + random.below(range.high.saturating_sub(range.low) + 1)],
            Query::MarketSegment => vec![price, customer],
            Query::RegisterSegment => vec![random.below(REGISTERS), price, customer],
            Query::Pdc => {
                let span = range.to_us.saturating_sub(range.from_us) + 1;
                vec![price, range.from_us + random.below(span), customer]
            }
        }
    }

    /// The values of the placeholders.
    pub fn values(self, place: &[u64]) -> Vec<Value> {
        let value = |column: usize| match self.columns()[column] {
            "dateandtime" => clock::datetime(place[column]),
            _ => Value::UInt(place[column]),
        };
        (0..place.len()).rev().flat_map(|last| (0..=last).map(value)).collect()
    }

    /// True if a row lies at the place or after it.
    pub fn is_behind(self, place: &[u64], row: &Row) -> bool {
        for (column, wanted) in place.iter().enumerate() {
            let order = match row.as_ref(column) {
                Some(Value::Int(number)) => number.cmp(&(*wanted as i64)),
                Some(Value::UInt(number)) => number.cmp(wanted),
                Some(date @ Value::Date(..)) => moment(date).cmp(&moment(&clock::datetime(*wanted))),
                _ => return false,
            };
            if order.is_ne() {
                return order.is_gt();
            }
        }
        true
    }
}

/// The parts of a DATETIME; they sort as the moments do.
fn moment(value: &Value) -> [u32; 7] {
    match *value {
        Value::Date(year, month, day, hour, minute, second, us) => {
            [u32::from(year), month.into(), day.into(), hour.into(), minute.into(), second.into(), us]
        }
        _ => [0; 7],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_benchmark() {
        assert_eq!(
            Query::Pk.statement("t", 10),
            "SELECT transactionid FROM `t` WHERE transactionid >= ? LIMIT 10"
        );
        assert_eq!(
            Query::RegisterSegment.statement("t", 5),
            "SELECT cashregisterid, price, customerid FROM `t` FORCE INDEX (registersegment) WHERE \
             (cashregisterid = ? AND price = ? AND customerid >= ?) OR (cashregisterid = ? AND price > ?) OR \
             (cashregisterid > ?) LIMIT 5"
        );
        for query in Query::ALL {
            let place: Place = (1..=query.columns().len() as u64).collect();
            assert_eq!(query.statement("t", 1).matches('?').count(), query.values(&place).len(), "{query:?}");
        }
        let values = Query::MarketSegment.values(&[7, 9]);
        assert_eq!(values, [Value::UInt(7), Value::UInt(9), Value::UInt(7)]);
    }

    #[test]
    fn only_what_has_an_index_is_asked() {
        let shape = |secondary_indexes| Shape {
            secondary_indexes,
            char_fields: 0,
            char_length: 1,
            percent_compressible: 0,
        };
        assert_eq!(Query::possible(&shape(3)), Query::ALL);
        assert_eq!(Query::possible(&shape(1)), [Query::Pk, Query::MarketSegment]);
        assert_eq!(Query::possible(&shape(0)), [Query::Pk]);
    }

    #[test]
    fn places_lie_in_the_table() {
        let range = Range { low: 50, high: 60, from_us: 1_000_000, to_us: 2_000_000 };
        let mut random = Random::new(1, 1);
        let mut seen = [0u32; 11];
        for _ in 0..1000 {
            let place = Query::Pk.place(&mut random, &range);
            seen[(place[0] - 50) as usize] += 1;
            let place = Query::Pdc.place(&mut random, &range);
            assert!((1_000_000..=2_000_000).contains(&place[1]) && place[2] < CUSTOMERS);
        }
        assert!(seen.iter().all(|n| *n > 50), "{seen:?}");
    }
}
