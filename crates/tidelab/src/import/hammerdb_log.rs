//! Output of HammerDB's CLI for TPROC-C, and the reports of its time profile `xtprof`.
//!
//! ```text
//! Vuser 1:Beginning rampup time of 1 minutes
//! Vuser 1:8 Active Virtual Users configured
//! Vuser 1:TEST RESULT : System achieved 69320 NOPM from 160779 MariaDB TPM
//!
//! >>>>> SUMMARY OF 8 ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : 120522ms
//! >>>>> PROC: NEWORD
//! CALLS: 3427  MIN: 1.730ms  AVG: 36.332ms  MAX: 1220.165ms  TOTAL: 124508.229ms
//! P99: 210.118ms  P95: 104.921ms  P50: 19.126ms  SD: 49663.1  RATIO: 48.963%
//! ```

use std::collections::BTreeMap;

/// One measured load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// New orders a minute.
    pub nopm: Option<f64>,
    /// Transactions a minute, as the server counts them.
    pub tpm: Option<f64>,
    /// Virtual users.
    pub users: Option<u64>,
    /// Minutes before the measured time, and it.
    pub rampup_min: Option<f64>,
    /// See `rampup_min`.
    pub duration_min: Option<f64>,
    /// Why it does not count.
    pub failures: Vec<String>,
    /// Its lines, as they are.
    pub text: String,
}

/// A summary of the time profile: figures by procedure and name, as `NEWORD`, `p99_ms`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Its number of virtual users.
    pub users: Option<u64>,
    /// The figures.
    pub procedures: BTreeMap<String, BTreeMap<String, f64>>,
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Loads in their order.
    pub measured: Vec<Measured>,
    /// Summaries in their order.
    pub profiles: Vec<Profile>,
}

/// True if a text is the output of HammerDB or of its time profile.
pub fn is_one(text: &str) -> bool {
    text.contains("TEST RESULT :")
        || text.contains("Beginning rampup time of")
        || text.contains(">>>>> PROC:")
}

/// Reads a text; lines of no interest are passed over.
pub fn read(text: &str) -> Log {
    let mut log = Log::default();
    let mut open: Option<Measured> = None;
    let mut profile: Option<(Profile, String)> = None;
    for line in text.lines() {
        let said = after_user(line);
        if profile_line(line, &mut profile, &mut log.profiles) {
            continue;
        }
        if let Some(rest) = said.strip_prefix("Beginning rampup time of ") {
            log.measured.extend(open.take());
            open = Some(Measured { rampup_min: first_number(rest), ..Measured::default() });
        }
        let is_result = said.contains("TEST RESULT :");
        if is_result && open.as_ref().is_some_and(|m| m.nopm.is_some()) {
            log.measured.extend(open.take());
        }
        if is_result && open.is_none() {
            open = Some(Measured::default());
        }
        if open.is_none() && said.ends_with("Active Virtual Users configured") {
            open = Some(Measured::default());
        }
        let Some(measured) = &mut open else { continue };
        measured.text.push_str(line);
        measured.text.push('\n');
        if is_result {
            (measured.nopm, measured.tpm) = result(said);
        } else if said.ends_with("Active Virtual Users configured") {
            measured.users = first_number(said).map(|n| n as u64);
        } else if let Some(rest) = said.strip_prefix("Timing test period of ") {
            measured.duration_min = first_number(rest);
        } else if said.contains("FINISHED FAILED") || said.starts_with("Error in Virtual User") {
            measured.failures.push(line.trim().to_string());
        }
    }
    log.measured.extend(open.take());
    log.profiles.extend(profile.take().map(|(profile, _)| profile));
    for measured in &mut log.measured {
        if measured.nopm.is_none() {
            measured.failures.push("it printed no result".to_string());
        }
    }
    log
}

/// The text after `Vuser 1:`.
fn after_user(line: &str) -> &str {
    let line = line.trim();
    match line.strip_prefix("Vuser ").and_then(|rest| rest.split_once(':')) {
        Some((number, said)) if number.chars().all(|c| c.is_ascii_digit()) => said.trim(),
        _ => line,
    }
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// NOPM and TPM, in the words of version 4 (`N NOPM from M MariaDB TPM`) or 3 (`M MySQL TPM at N NOPM`).
fn result(said: &str) -> (Option<f64>, Option<f64>) {
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = |unit: &str| words.iter().position(|w| *w == unit);
    // The vendor's name stands between TPM and its number.
    let before = |unit: &str| {
        let end = at(unit)?;
        words[..end].iter().rev().take(3).find_map(|w| w.parse::<f64>().ok())
    };
    (before("NOPM"), before("TPM"))
}

/// Takes a line of a time profile. Only summaries are kept: those of single users are in the file.
fn profile_line(line: &str, open: &mut Option<(Profile, String)>, done: &mut Vec<Profile>) -> bool {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix(">>>>> ") {
        if let Some(rest) = rest.strip_prefix("SUMMARY OF ") {
            done.extend(open.take().map(|(profile, _)| profile));
            let users = first_number(rest).map(|n| n as u64);
            *open = Some((Profile { users, ..Profile::default() }, String::new()));
        } else if let Some(name) = rest.strip_prefix("PROC: ") {
            if let Some((_, procedure)) = open {
                *procedure = name.trim().to_ascii_uppercase();
            }
        } else {
            // A single user's part.
            done.extend(open.take().map(|(profile, _)| profile));
        }
        return true;
    }
    if !(line.starts_with("CALLS: ") || line.starts_with("P99: ")) {
        return line.starts_with("+-+-");
    }
    let Some((profile, procedure)) = open else { return true };
    let figures = profile.procedures.entry(procedure.clone()).or_default();
    for field in line.split(['\t']).flat_map(|f| f.split("  ")).filter(|f| !f.trim().is_empty()) {
        let Some((name, value)) = field.split_once(':') else { continue };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let number = |end: &str| value.strip_suffix(end).and_then(|v| v.parse::<f64>().ok());
        let (name, value) = match name.as_str() {
            "calls" => ("calls".to_string(), number("")),
            "ratio" => ("time_percent".to_string(), number("%")),
            "avg" => ("average_ms".to_string(), number("ms")),
            // Older ones print it without a unit: it is in microseconds.
            "sd" => ("sd_ms".to_string(), number("ms").or_else(|| number("").map(|us| us / 1000.0))),
            _ => (format!("{name}_ms"), number("ms")),
        };
        if let Some(value) = value {
            figures.insert(name, value);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = include_str!("../../testdata/import/hammerdb/tidesdb_4vu.log");
    const PROFILE: &str = include_str!("../../testdata/import/hammerdb/tidesdb_4vu_xtprof.log");

    #[test]
    fn a_log_gives_its_result() {
        let log = read(LOG);
        assert_eq!(log.measured.len(), 1);
        let one = &log.measured[0];
        assert_eq!((one.nopm, one.tpm, one.users), (Some(39_385.0), Some(88_099.0), Some(4)));
        assert_eq!((one.rampup_min, one.duration_min), (Some(1.0), Some(2.0)));
        assert_eq!(one.failures, Vec::<String>::new());
        assert!(one.text.contains("Active Virtual Users"));
    }

    #[test]
    fn both_wordings_of_a_result_are_understood() {
        let of = |text: &str| result(after_user(text));
        assert_eq!(
            of("Vuser 1:TEST RESULT : System achieved 69320 NOPM from 160779 MariaDB TPM"),
            (Some(69320.0), Some(160779.0))
        );
        assert_eq!(of("Vuser 1:TEST RESULT : System achieved 9 MySQL TPM at 4 NOPM"), (Some(4.0), Some(9.0)));
        assert_eq!(of("TEST RESULT : System achieved 5 NOPM from 9 SQL Server TPM"), (Some(5.0), Some(9.0)));
    }

    #[test]
    fn several_loads_in_one_log_are_told_apart_and_a_broken_one_fails() {
        let text = "Vuser 1:Beginning rampup time of 0 minutes\nVuser 1:1 Active Virtual Users configured\n\
            Vuser 1:TEST RESULT : System achieved 5 NOPM from 9 MariaDB TPM\nVuser 2:FINISHED SUCCESS\n\
            Vuser 1:Beginning rampup time of 0 minutes\nVuser 3:FINISHED FAILED\n\
            Vuser 1:2 Active Virtual Users configured\n\
            Vuser 1:TEST RESULT : System achieved 7 NOPM from 11 MariaDB TPM\n\
            Vuser 1:Beginning rampup time of 0 minutes\n";
        let log = read(text);
        let of: Vec<(Option<f64>, Option<u64>)> = log.measured.iter().map(|m| (m.nopm, m.users)).collect();
        assert_eq!(of, [(Some(5.0), Some(1)), (Some(7.0), Some(2)), (None, None)]);
        assert_eq!(log.measured[1].failures, ["Vuser 3:FINISHED FAILED"]);
        assert_eq!(log.measured[2].failures, ["it printed no result"]);
        let bare = "TEST RESULT : System achieved 5 NOPM from 9 MariaDB TPM\n".repeat(2);
        assert_eq!(read(&bare).measured.len(), 2);
    }

    #[test]
    fn only_the_summary_of_a_profile_counts() {
        let log = read(PROFILE);
        assert_eq!((log.measured.len(), log.profiles.len()), (0, 1));
        let profile = &log.profiles[0];
        assert_eq!(profile.users, Some(4));
        let names: Vec<&String> = profile.procedures.keys().collect();
        assert_eq!(names, ["DELIVERY", "NEWORD", "OSTAT", "PAYMENT", "SLEV"]);
        let neword = &profile.procedures["NEWORD"];
        assert_eq!((neword["calls"], neword["p99_ms"], neword["average_ms"]), (7972.0, 9.855, 3.591));
        assert_eq!((neword["sd_ms"], neword["time_percent"]), (1.9577, 59.987));
    }
}
