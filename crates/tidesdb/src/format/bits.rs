//! Numbers of bits, and Rice codes (`docs/format/table.md`, "Lists of postings"). The first bit is the lowest
//! of the first byte. After R. F. Rice, "Some Practical Universal Noiseless Coding Techniques" (1979).

/// Zero bytes after the last bit: a read takes eight bytes at once.
pub const PADDING: usize = 8;

/// Most bits of one number, and largest parameter of a Rice code.
pub const MOST_BITS: u32 = 32;

/// Quotients from here on are escaped: so many zeros, a one, and all 64 bits of the number.
const ESCAPE: u32 = 23;

/// Appends bits.
#[derive(Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    held: u64,
    /// Bits in `held`; below 8 between calls.
    bits: u32,
}

impl BitWriter {
    /// Appends to the bytes of `out`.
    pub fn after(out: Vec<u8>) -> BitWriter {
        BitWriter { bytes: out, held: 0, bits: 0 }
    }

    /// Appends the lowest `bits` bits of `value`, which has no others; at most [`MOST_BITS`].
    #[inline]
    pub fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= MOST_BITS && value >> bits == 0);
        self.held |= value << self.bits;
        self.bits += bits;
        while self.bits >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.bits -= 8;
        }
    }

    /// Appends the Rice code of `value` with the parameter `low`, at most [`MOST_BITS`].
    #[inline]
    pub fn put_rice(&mut self, value: u64, low: u32) {
        let quotient = value >> low;
        if quotient < u64::from(ESCAPE) {
            self.put(1 << quotient, quotient as u32 + 1);
            self.put(value & ((1 << low) - 1), low);
        } else {
            self.put(1 << ESCAPE, ESCAPE + 1);
            self.put(value & u64::from(u32::MAX), 32);
            self.put(value >> 32, 32);
        }
    }

    /// The bytes, with [`PADDING`].
    pub fn finish(mut self) -> Vec<u8> {
        if self.bits > 0 {
            self.bytes.push(self.held as u8);
        }
        self.bytes.extend_from_slice(&[0; PADDING]);
        self.bytes
    }
}

/// Reads what a [`BitWriter`] wrote. `None`: the bytes end, or have a code that no writer makes.
#[derive(Clone)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// Of the next bit.
    at: usize,
}

impl<'a> BitReader<'a> {
    /// From the first bit of `bytes`, which end with [`PADDING`].
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, at: 0 }
    }

    /// The next 57 bits or more, without moving on.
    #[inline]
    fn peek(&self) -> Option<u64> {
        let eight = self.bytes.get(self.at / 8..)?.first_chunk()?;
        Some(u64::from_le_bytes(*eight) >> (self.at % 8))
    }

    /// The next `bits` bits, at most [`MOST_BITS`].
    #[inline]
    pub fn get(&mut self, bits: u32) -> Option<u64> {
        let value = self.peek()? & ((1 << bits) - 1);
        self.at += bits as usize;
        Some(value)
    }

    /// The next number in a Rice code with the parameter `low`, at most [`MOST_BITS`].
    #[inline]
    pub fn get_rice(&mut self, low: u32) -> Option<u64> {
        let next = self.peek()?;
        let quotient = next.trailing_zeros();
        if quotient < ESCAPE {
            let rest = next >> (quotient + 1) & ((1 << low) - 1);
            self.at += (quotient + 1 + low) as usize;
            return Some(u64::from(quotient) << low | rest);
        }
        self.get_escaped(quotient, low)
    }

    #[cold]
    fn get_escaped(&mut self, quotient: u32, low: u32) -> Option<u64> {
        if quotient != ESCAPE {
            return None;
        }
        self.at += ESCAPE as usize + 1;
        let value = self.get(32)? | self.get(32)? << 32;
        // One code a number.
        (value >> low >= u64::from(ESCAPE)).then_some(value)
    }

    /// True if nothing follows but zero bits of the last byte and the padding.
    pub fn is_at_end(&self) -> bool {
        let end = self.at.div_ceil(8);
        let rest = self.bytes.get(self.at / 8).map_or(0, |byte| u32::from(*byte) >> (self.at % 8));
        (self.at % 8 == 0 || rest == 0) && self.bytes.get(end..).is_some_and(|rest| rest == [0; PADDING])
    }
}

/// The parameter of a Rice code for numbers whose lengths in bits add up to `bits`: near the best one where they fall off
/// as gaps between rows do, and not led astray by a few large ones.
pub fn rice_parameter(bits: u64, numbers: u64) -> u32 {
    let tenths = (bits * 10).checked_div(numbers).unwrap_or(0);
    (((tenths + 3) / 10) as u32).saturating_sub(u32::from(tenths < 10)).min(MOST_BITS)
}

/// Length of a number in bits; 0 for 0.
#[inline]
pub fn bit_len(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_few_codes_by_hand() {
        let mut bits = BitWriter::default();
        bits.put(0b101, 3);
        bits.put_rice(5, 1); // quotient 2: 0, 0, 1; then 1
        bits.put(1, 1);
        assert_eq!(bits.finish(), [0b1110_0101, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_parameter_costs_at_most_a_tenth_more_than_the_best() {
        let cost = |numbers: &[u64], low: u32| -> u64 {
            numbers.iter().map(|number| (number >> low).min(88) + 1 + u64::from(low)).sum()
        };
        for mean in [1u64, 2, 3, 5, 9, 30, 140, 1000, 70_000] {
            // Gaps of a row in `mean`: geometric, by a fixed sequence.
            let numbers: Vec<u64> = (1..2000u64)
                .map(|i| {
                    let share = i as f64 / 2000.0;
                    (-share.ln() * mean as f64) as u64
                })
                .collect();
            let bits = numbers.iter().map(|number| u64::from(bit_len(*number))).sum();
            let chosen = cost(&numbers, rice_parameter(bits, numbers.len() as u64));
            let best = (0..MOST_BITS).map(|low| cost(&numbers, low)).min().unwrap();
            assert!(chosen * 10 <= best * 11, "mean {mean}: {chosen} for {best}");
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(
            numbers in prop::collection::vec((any::<u64>(), 0..64u32, 0..=MOST_BITS, any::<bool>()), 0..200)
        ) {
            let mut writer = BitWriter::after(vec![7]);
            for &(number, shift, low, rice) in &numbers {
                let number = number >> shift;
                if rice {
                    writer.put_rice(number, low);
                } else {
                    writer.put(number & ((1 << low) - 1), low);
                }
            }
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes[1..]);
            for &(number, shift, low, rice) in &numbers {
                let number = number >> shift;
                if rice {
                    prop_assert_eq!(reader.get_rice(low), Some(number));
                } else {
                    prop_assert_eq!(reader.get(low), Some(number & ((1 << low) - 1)));
                }
            }
            prop_assert!(reader.is_at_end());
        }

        #[test]
        fn arbitrary_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..60), low in 0..=MOST_BITS) {
            let mut reader = BitReader::new(&bytes);
            let mut numbers = 0;
            while reader.get_rice(low).is_some() {
                numbers += 1;
            }
            prop_assert!(numbers <= bytes.len() * 8);
        }
    }
}
