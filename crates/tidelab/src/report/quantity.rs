//! Numbers for people, as the page has them (`assets/report/units.js`): at least three digits, fitting units.

use std::fmt::Write as _;

/// A number with a unit; sizes in the fitting unit. Not finite: a dash.
pub fn quantity(value: f64, unit: &str) -> String {
    if unit == "B" {
        for (bound, name) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            let bound = (1u64 << bound) as f64;
            if value.abs() >= bound {
                return format!("{} {name}", number(value / bound));
            }
        }
    }
    if unit.is_empty() {
        number(value)
    } else {
        format!("{} {unit}", number(value))
    }
}

fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_string();
    }
    let size = value.abs();
    if size >= 999.5 {
        return grouped(value);
    }
    let places = match size {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        0.0 => 0,
        _ => 3,
    };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A whole number with its thousands apart.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    if number < 0.0 {
        text.push('-');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        // Digits are one byte each.
        let _ = write!(text, "{digit}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_tell() {
        let all = [0.0, 0.0312, 1.5, 12.34, 987.6, 999.7, 1234567.0, -2500.0, f64::NAN];
        assert_eq!(
            all.map(number),
            ["0", "0.031", "1.5", "12.3", "988", "1,000", "1,234,567", "-2,500", "-"]
        );
    }

    #[test]
    fn sizes_are_in_the_unit_that_fits() {
        let mib = f64::from(1 << 20);
        assert_eq!(quantity(24.0 * mib, "B"), "24 MiB");
        assert_eq!(
            (quantity(12.0, "B"), quantity(3.5, "ms"), quantity(7.0, "")),
            ("12 B".into(), "3.5 ms".into(), "7".into())
        );
    }

    #[test]
    fn thousands_are_apart() {
        let of: Vec<String> = [0.0, 999.4, 1000.0, 1234567.0, -5000.0].map(grouped).to_vec();
        assert_eq!(of, ["0", "999", "1,000", "1,234,567", "-5,000"]);
    }
}
