//! Times as the queue writes them, and as rows hold them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mysql::Value;

use crate::calendar::Utc;

/// A duration as Go writes it: `20m`, `1h30m`, `1.5s`, `250ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no duration: 20m, 10s, 1h30m, 250ms");
    let mut rest = text;
    let mut nanoseconds = 0.0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match &rest[..unit] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return Err(wrong()),
        };
        nanoseconds += number * factor;
        rest = &rest[unit..];
    }
    // A year: longer than any load, and far below the limit of a Duration.
    if text.is_empty() || nanoseconds > 365.0 * 86_400e9 {
        return Err(wrong());
    }
    Ok(Duration::from_nanos(nanoseconds.round() as u64))
}

/// A duration as Go writes it.
pub fn text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() > 0 || seconds == 0 {
        return format!("{}ms", duration.as_secs_f64() * 1e3);
    }
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect()
}

/// Microseconds since 1970, UTC.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// A moment as a value of a DATETIME(6).
pub fn datetime(us: u64) -> Value {
    let utc = Utc::of(us / 1_000_000);
    Value::Date(
        utc.year as u16,
        utc.month as u8,
        utc.day as u8,
        utc.hour as u8,
        utc.minute as u8,
        utc.second as u8,
        (us % 1_000_000) as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let ms = |text: &str| duration(text).map(|d| d.as_millis());
        assert_eq!(ms("20m"), Ok(1_200_000));
        assert_eq!(ms("10s"), Ok(10_000));
        assert_eq!(ms("1h30m"), Ok(5_400_000));
        assert_eq!(ms("1.5s"), Ok(1500));
        assert_eq!(ms("250ms"), Ok(250));
        assert_eq!(ms("1s500us"), Ok(1000));
        for wrong in ["", "20", "m", "20 m", "2d", "-1s", "1.2.3s", "99999h", "s5"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text_of in ["20m", "10s", "1h30m", "2h5s", "250ms", "1500ms"] {
            assert_eq!(text(duration(text_of).unwrap()), text_of);
        }
    }

    #[test]
    fn a_moment_is_a_datetime_with_its_microseconds() {
        assert_eq!(datetime(951_782_400_000_017), Value::Date(2000, 2, 29, 0, 0, 0, 17));
    }
}
