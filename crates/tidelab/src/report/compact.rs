//! Columns of numbers as short text for the page: four characters a value.
//!
//! Each value is a 32-bit float without its last eight bits: five digits are right. It is three bytes,
//! big-endian, in base64; all ones is no value. `assets/report/data.js` reads it.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NONE: u32 = 0x00FF_FFFF;

/// The text of some values.
pub fn text(values: impl IntoIterator<Item = f64>) -> String {
    let mut text = String::new();
    for value in values {
        let bits = three_bytes(value);
        for shift in [18, 12, 6, 0] {
            text.push(char::from(DIGITS[(bits >> shift & 63) as usize]));
        }
    }
    text
}

fn three_bytes(value: f64) -> u32 {
    let value = value as f32;
    if !value.is_finite() {
        return NONE;
    }
    // To the nearest; the largest would round up to infinity, which is far beyond any figure.
    (value.to_bits() >> 8) + (value.to_bits() >> 7 & 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(text: &str) -> Vec<f64> {
        let digit = |c: u8| DIGITS.iter().position(|d| *d == c).unwrap() as u32;
        let number = |four: &[u8]| four.iter().fold(0, |sum, c| sum << 6 | digit(*c));
        text.as_bytes().chunks(4).map(number).map(|bits| f64::from(f32::from_bits(bits << 8))).collect()
    }

    #[test]
    fn five_digits_come_back() {
        let values = [0.0, 1.0, -2.5, 13_385.21, 1e-6, 4.2e12, 1800.0, 65_535.0];
        let text = text(values);
        assert_eq!(text.len(), 4 * values.len());
        for (value, read) in values.iter().zip(back(&text)) {
            assert!((value - read).abs() <= value.abs() * 2e-5, "{value} {read}");
        }
    }

    #[test]
    fn no_value_is_none() {
        assert_eq!(text([f64::NAN, f64::INFINITY]), "////////");
        assert!(back("////")[0].is_nan());
    }
}
