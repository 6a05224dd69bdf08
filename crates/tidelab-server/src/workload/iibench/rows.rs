//! The rows: random by the benchmark's rules, the same for the same seed and client. Only their time is the
//! current one.
//!
//! Cash registers, customers and products are uniform. The price of a row follows from a random number
//! and its customer, as in the first insert benchmark, without its cents. A character field begins with
//! random letters and ends with as many `a` as its compressible share.

use mysql::Value;

use super::clock;
use super::schema::Shape;

/// Cash registers.
pub const REGISTERS: u64 = 1000;
/// Customers.
pub const CUSTOMERS: u64 = 100_000;
/// Products.
pub const PRODUCTS: u64 = 10_000;
/// The highest random part of a price.
const MAX_PRICE: u64 = 500;

/// A stream of random numbers (SplitMix64): one multiplication less than a row costs a server.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a client.
    pub fn new(seed: u64, client: u64) -> Random {
        let mut random =
            Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ client.wrapping_mul(0xd1b5_4a32_d192_ed03));
        // Neighbouring clients must not begin on neighbouring states.
        let state = random.bits() ^ client;
        Random(state)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a bound above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A price, given its customer.
    pub fn price(&mut self, customer: u64) -> u64 {
        (self.below(MAX_PRICE) + customer) / 100
    }
}

/// Makes a client's rows.
#[derive(Clone, Debug)]
pub struct Rows {
    random: Random,
    shape: Shape,
    last_us: u64,
}

/// Rows of one statement.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Their values, row after row.
    pub values: Vec<Value>,
    /// The sum of all their numbers, to verify them.
    pub sum: u64,
}

impl Rows {
    /// Those of a client.
    pub fn new(seed: u64, client: u64, shape: Shape) -> Rows {
        Rows { random: Random::new(seed, client), shape, last_us: 0 }
    }

    /// The next rows, the first stamped with `now_us` (microseconds since 1970). Each is a microsecond
    /// after the one before, and none before one of an earlier batch.
    pub fn batch(&mut self, rows: u32, now_us: u64) -> Batch {
        let mut values = Vec::with_capacity(rows as usize * self.shape.columns());
        let mut sum = 0;
        let first = now_us.max(self.last_us + 1);
        for n in 0..u64::from(rows) {
            self.last_us = first + n;
            values.push(clock::datetime(self.last_us));
            let customer = self.random.below(CUSTOMERS);
            let numbers = [
                self.random.below(REGISTERS),
                customer,
                self.random.below(PRODUCTS),
                self.random.price(customer),
            ];
            sum += numbers.iter().sum::<u64>();
            values.extend(numbers.map(Value::UInt));
            for _ in 0..self.shape.char_fields {
                values.push(Value::Bytes(self.field()));
            }
        }
        Batch { values, sum }
    }

    fn field(&mut self) -> Vec<u8> {
        let length = self.shape.char_length as usize;
        let random = length - length * self.shape.percent_compressible as usize / 100;
        let mut field = Vec::with_capacity(length.next_multiple_of(8));
        while field.len() < random {
            // Eight letters of 64 bits: each byte times 26 over 256. No letter is more than a
            // ninth likelier than another.
            let bytes = self.random.bits().to_le_bytes();
            field.extend(bytes.map(|byte| b'a' + ((u16::from(byte) * 26) >> 8) as u8));
        }
        field.truncate(random);
        field.resize(length, b'a');
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape =
        Shape { secondary_indexes: 3, char_fields: 4, char_length: 100, percent_compressible: 30 };

    fn numbers(batch: &Batch, shape: &Shape, column: usize) -> Vec<u64> {
        batch
            .values
            .chunks(shape.columns())
            .map(|row| match row[column] {
                Value::UInt(number) => number,
                ref other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn the_same_seed_and_client_make_the_same_rows() {
        let of = |seed, client| Rows::new(seed, client, SHAPE).batch(50, 1_000_000).values;
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(1, 1));
        assert_ne!(of(1, 0), of(2, 0));
        // Rows do not depend on how they are cut into statements.
        let mut rows = Rows::new(1, 0, SHAPE);
        let mut cut = rows.batch(20, 1_000_000).values;
        cut.extend(rows.batch(30, 0).values);
        assert_eq!(cut, of(1, 0), "nor does time go back");
    }

    #[test]
    fn numbers_are_in_their_ranges_and_reach_them() {
        let batch = Rows::new(7, 3, SHAPE).batch(5000, 0);
        for (column, bound) in [(1, REGISTERS), (2, CUSTOMERS), (3, PRODUCTS), (4, 1005)] {
            let all = numbers(&batch, &SHAPE, column);
            let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            assert!(
                *most < bound && *most > bound * 9 / 10 && *least < bound / 10,
                "{column}: {least} {most}"
            );
        }
        let sum: u64 = (1..=4).map(|column| numbers(&batch, &SHAPE, column).iter().sum::<u64>()).sum();
        assert_eq!(batch.sum, sum);
    }

    #[test]
    fn each_row_is_a_microsecond_later() {
        let mut rows = Rows::new(1, 1, SHAPE);
        let first = rows.batch(3, 5_000_000);
        // The clock stood still, or went back.
        let second = rows.batch(2, 5_000_000);
        let times: Vec<&Value> =
            [&first, &second].iter().flat_map(|b| b.values.iter().step_by(SHAPE.columns())).collect();
        let wanted: Vec<Value> = (0..5).map(|n| clock::datetime(5_000_000 + n)).collect();
        assert_eq!(times, wanted.iter().collect::<Vec<_>>());
    }

    #[test]
    fn so_much_of_a_field_compresses_as_was_asked() {
        for percent in [0, 30, 75, 100] {
            let shape = Shape { percent_compressible: percent, ..SHAPE };
            let batch = Rows::new(3, 9, shape).batch(500, 0);
            let fields: Vec<&Vec<u8>> = batch
                .values
                .iter()
                .filter_map(|value| match value {
                    Value::Bytes(bytes) => Some(bytes),
                    _ => None,
                })
                .collect();
            assert_eq!(fields.len(), 2000);
            let random = 100 - percent as usize;
            let mut letters = [0u32; 26];
            for field in &fields {
                assert!(field.len() == 100 && field[random..].iter().all(|c| *c == b'a'));
                field[..random].iter().for_each(|c| letters[usize::from(c - b'a')] += 1);
            }
            // The rest is random: every letter comes, and none much more often than others.
            let mean = (2000 * random / 26) as u32;
            assert!(letters.iter().all(|n| *n >= mean * 4 / 5 && *n <= mean * 6 / 5), "{letters:?}");
        }
    }
}
