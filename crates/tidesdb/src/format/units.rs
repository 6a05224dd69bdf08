//! Sizes and times in readable units, for reports and the log.

use std::fmt;

/// A number of bytes: `17 bytes`, `3.5 KiB`, `1.2 GiB`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

/// A time in microseconds: `17 us`, `3.5 ms`, `1.2 s`.
#[derive(Clone, Copy, Debug)]
pub struct Micros(pub u64);

fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, step: f64, units: &[&str]) -> fmt::Result {
    let (mut scaled, mut unit) = (value as f64, 0);
    // As rounded below: 1023.99 KiB are a MiB.
    while scaled >= step - 0.05 && unit + 1 < units.len() {
        scaled /= step;
        unit += 1;
    }
    match unit {
        0 => write!(f, "{value} {}", units[0]),
        _ => write!(f, "{scaled:.1} {}", units[unit]),
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, 1024.0, &["bytes", "KiB", "MiB", "GiB", "TiB"])
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, 1000.0, &["us", "ms", "s"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_makes_them_short() {
        let bytes = |n| Bytes(n).to_string();
        assert_eq!(
            (bytes(0), bytes(1023), bytes(1536)),
            ("0 bytes".into(), "1023 bytes".into(), "1.5 KiB".into())
        );
        assert_eq!((bytes((1 << 20) - 1), bytes(5 << 30)), ("1.0 MiB".into(), "5.0 GiB".into()));
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        let time = |n| Micros(n).to_string();
        assert_eq!(
            (time(999), time(1500), time(90_000_000)),
            ("999 us".into(), "1.5 ms".into(), "90.0 s".into())
        );
    }
}
