//! Dates of moments: the names of runs, and the DATETIME values of loads.

/// A moment as the calendar has it, UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Utc {
    pub year: u64,
    pub month: u64,
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
}

impl Utc {
    /// Of a moment in seconds since 1970.
    pub fn of(unix_s: u64) -> Utc {
        let (days, of_day) = (unix_s / 86_400, unix_s % 86_400);
        // Days since 0000-03-01, by eras of 400 years (Howard Hinnant, "chrono-compatible date algorithms"): years that
        // begin in March have their leap day at the end.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Utc {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * from_march + 2) / 5 + 1,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (unix_s, (year, month, day, hour, minute, second)) in [
            (0, (1970, 1, 1, 0, 0, 0)),
            (951_782_400, (2000, 2, 29, 0, 0, 0)),
            (951_827_696, (2000, 2, 29, 12, 34, 56)),
            (1_709_251_199, (2024, 2, 29, 23, 59, 59)),
            (1_795_312_507, (2026, 11, 22, 1, 55, 7)),
            (4_107_542_400, (2100, 3, 1, 0, 0, 0)),
        ] {
            assert_eq!(Utc::of(unix_s), Utc { year, month, day, hour, minute, second });
        }
    }
}
