//! Session settings with an effect on the values of expressions.

use super::super::sql::Dice;

const SQL_MODES: [&str; 10] = [
    "STRICT_TRANS_TABLES",
    "STRICT_ALL_TABLES",
    "NO_ZERO_DATE",
    "NO_ZERO_IN_DATE",
    "ALLOW_INVALID_DATES",
    "PAD_CHAR_TO_FULL_LENGTH",
    "NO_UNSIGNED_SUBTRACTION",
    "TIME_ROUND_FRACTIONAL",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "EMPTY_STRING_IS_NULL",
];
const ZONES: [&str; 6] = ["+00:00", "+05:00", "-08:30", "+13:00", "SYSTEM", "+00:00"];
const DAYS: [u64; 5] = [1_600_000_000, 1_600_040_000, 1_600_090_000, 1_700_000_000, 1_600_000_001];

/// A statement to change one, or to bring them all back; and true if open tables keep the old setting.
pub(super) fn change(dice: &mut Dice) -> (String, bool) {
    let text = match dice.number(0, 11) {
        0 | 1 => return (format!("SET time_zone = '{}'", dice.word(&ZONES)), false),
        2 | 3 => {
            let count = dice.count(0, 4);
            format!("SET sql_mode = '{}'", dice.some(&SQL_MODES, count).join(","))
        }
        4 => {
            let mode = dice.word(&["", "ZERO_DATE_TIME_CAST", "UTF8_IS_UTF8MB3"]);
            return (format!("SET old_mode = '{mode}'"), false);
        }
        5 => format!("SET div_precision_increment = {}", dice.pick(&[0, 2, 4, 4, 8, 30])),
        6 => {
            let flags = dice.word(&["", "DOTALL", "EXTENDED", "MULTILINE", "UNGREEDY", "DOTALL,MULTILINE"]);
            format!("SET default_regex_flags = '{flags}'")
        }
        7 => {
            let map = dice.word(&["", "utf8mb4=utf8mb4_bin", "latin1=latin1_bin,utf8mb4=utf8mb4_general_ci"]);
            format!("SET character_set_collations = '{map}'")
        }
        8 => return (format!("SET timestamp = {}", dice.pick(&DAYS)), false),
        9 => {
            let names = dice.word(&["utf8mb4", "latin1", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb4"]);
            return (format!("SET NAMES {names}"), false);
        }
        10 => {
            let other =
                dice.word(&["lc_time_names = 'de_DE'", "default_week_format = 3", "lc_time_names = 'en_US'"]);
            return (format!("SET {other}"), false);
        }
        _ => DEFAULTS.to_string(),
    };
    (text, true)
}

/// The session's settings at the making of the first indexes.
pub(super) const DEFAULTS: &str =
    "SET time_zone = '+00:00', timestamp = 1600000000, sql_mode = 'STRICT_TRANS_TABLES', \
     old_mode = DEFAULT, div_precision_increment = DEFAULT, default_regex_flags = DEFAULT";
