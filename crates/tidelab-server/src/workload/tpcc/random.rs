//! The random values of the TPC-C specification, clauses 2.1.6 and 4.3: NURand, last names,
//! strings. Everything follows from a seed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The parts of a last name, clause 4.3.2.3.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// C of NURand for last names while loading.
const C_LAST_LOAD: i64 = 123;
/// The same for the run: clause 2.1.6.1 wants a difference in 65..=119, neither 96 nor 112.
const C_LAST_RUN: i64 = C_LAST_LOAD + 86;
/// C of NURand for customers.
const C_CUSTOMER: i64 = 259;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .";

/// A stream of random values.
#[derive(Debug)]
pub struct Random(StdRng);

impl Random {
    /// The stream of one user or part of a load; other streams of the same seed are
    /// independent of it.
    pub fn new(seed: u64, stream: u64) -> Random {
        // Any two pairs give different seeds as long as streams stay below 2^32.
        Random(StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(stream)))
    }

    /// A number of `low..=high`, each as likely as the other.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, percent: i64) -> bool {
        self.between(1, 100) <= percent
    }

    /// NURand(a, low, high) with the constant c, clause 2.1.6.
    pub fn nurand(&mut self, a: i64, low: i64, high: i64, c: i64) -> i64 {
        (((self.between(0, a) | self.between(low, high)) + c) % (high - low + 1)) + low
    }

    /// A customer of a district with so many.
    pub fn customer(&mut self, customers: i64) -> i64 {
        self.nurand(1023, 1, customers, C_CUSTOMER)
    }

    /// The number of a last name for a customer to load, of `names`.
    pub fn last_name_to_load(&mut self, names: i64) -> i64 {
        self.nurand(255, 0, names - 1, C_LAST_LOAD)
    }

    /// The number of a last name for a transaction's query, of `names`.
    pub fn last_name_to_find(&mut self, names: i64) -> i64 {
        self.nurand(255, 0, names - 1, C_LAST_RUN)
    }

    /// Appends a string of letters and digits of `low..=high` bytes, without a need for quoting.
    pub fn string(&mut self, low: i64, high: i64, to: &mut String) {
        let length = usize::try_from(self.between(low, high)).unwrap_or(0);
        let mut bytes = [0u8; 512];
        let bytes = &mut bytes[..length.min(512)];
        self.0.fill(&mut *bytes);
        to.extend(bytes.iter().map(|b| char::from(LETTERS[usize::from(b & 63)])));
    }

    /// Appends digits.
    pub fn digits(&mut self, length: usize, to: &mut String) {
        for _ in 0..length {
            to.push(char::from(b'0' + self.0.random_range(0..10u8)));
        }
    }

    /// Appends a string of 26 to 50 bytes; one of ten holds ORIGINAL, clause 4.3.3.1.
    pub fn item_data(&mut self, to: &mut String) {
        const MARK: &str = "ORIGINAL";
        if !self.percent(10) {
            return self.string(26, 50, to);
        }
        let room = self.between(26, 50) - MARK.len() as i64;
        let before = self.between(0, room);
        self.string(before, before, to);
        to.push_str(MARK);
        self.string(room - before, room - before, to);
    }

    /// The numbers `1..=n` in random order.
    pub fn permutation(&mut self, n: i64) -> Vec<i64> {
        let mut all: Vec<i64> = (1..=n).collect();
        for place in (1..all.len()).rev() {
            let other = self.0.random_range(0..=place);
            all.swap(place, other);
        }
        all
    }
}

/// The last name of a number below a thousand.
pub fn last_name(number: i64) -> String {
    let digit = |n: i64| SYLLABLES[usize::try_from(n % 10).unwrap_or(0)];
    [digit(number / 100), digit(number / 10), digit(number)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_made_of_three_digits() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    /// The distribution of NURand(a, low, high), from its definition: the number of pairs for each value.
    fn exact(a: i64, low: i64, high: i64, c: i64) -> Vec<f64> {
        let range = high - low + 1;
        let mut counts = vec![0u64; usize::try_from(range).unwrap()];
        for x in 0..=a {
            for y in low..=high {
                counts[usize::try_from(((x | y) + c) % range).unwrap()] += 1;
            }
        }
        let all = ((a + 1) * range) as f64;
        counts.into_iter().map(|n| n as f64 / all).collect()
    }

    #[test]
    fn nurand_is_distributed_as_the_specification_says() {
        const DRAWS: u32 = 400_000;
        for (a, low, high, c) in [(255, 0, 999, C_LAST_RUN), (1023, 1, 3000, C_CUSTOMER)] {
            let mut random = Random::new(17, 3);
            let mut counts = vec![0u32; usize::try_from(high - low + 1).unwrap()];
            for _ in 0..DRAWS {
                let value = random.nurand(a, low, high, c);
                assert!((low..=high).contains(&value));
                counts[usize::try_from(value - low).unwrap()] += 1;
            }
            let expected = exact(a, low, high, c);
            // Chi square over cells that are expected at least five times. It has as many degrees of
            // freedom as cells, and a standard deviation of sqrt(2 n).
            let (mut chi, mut cells) = (0.0, 0.0);
            for (count, share) in counts.iter().zip(&expected) {
                let wanted = share * f64::from(DRAWS);
                if wanted >= 5.0 {
                    chi += (f64::from(*count) - wanted).powi(2) / wanted;
                    cells += 1.0;
                } else {
                    assert!(*count < 40, "a value that is expected {wanted} times came {count} times");
                }
            }
            let deviations = (chi - cells) / (2.0f64 * cells).sqrt();
            assert!(deviations.abs() < 5.0, "chi square {chi} over {cells} cells");
            // It is not uniform: the most likely tenth takes far more than a tenth.
            let mut sorted = expected.clone();
            sorted.sort_by(|x, y| y.total_cmp(x));
            let top: f64 = sorted[..sorted.len() / 10].iter().sum();
            assert!(top > 0.3, "{top}");
        }
    }

    #[test]
    fn the_two_constants_of_last_names_differ_as_they_must() {
        let delta = (C_LAST_RUN - C_LAST_LOAD).abs();
        assert!((65..=119).contains(&delta) && delta != 96 && delta != 112);
        assert!((0..=255).contains(&C_LAST_RUN) && (0..=1023).contains(&C_CUSTOMER));
    }

    #[test]
    fn strings_have_their_lengths_and_need_no_quotes() {
        let mut random = Random::new(1, 1);
        let mut originals = 0;
        for _ in 0..2000 {
            let mut text = String::new();
            random.string(300, 500, &mut text);
            assert!((300..=500).contains(&text.len()) && !text.contains(['\'', '\\']), "{text}");
            let mut data = String::new();
            random.item_data(&mut data);
            assert!((26..=50).contains(&data.len()));
            originals += u32::from(data.contains("ORIGINAL"));
        }
        assert!((130..=270).contains(&originals), "{originals} of 2000");
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut numbers = Random::new(9, 9).permutation(3000);
        assert_ne!(numbers[..10], (1..=10).collect::<Vec<i64>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=3000).collect::<Vec<i64>>());
    }

    #[test]
    fn streams_are_reproducible_and_differ() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..5).map(|_| random.between(1, 1_000_000)).collect::<Vec<i64>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
