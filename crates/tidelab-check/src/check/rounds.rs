//! Rounds with a seed each: the first one the check's, each later one the number after it.

use tidelab_server::error::Result;

use super::Lab;

/// Results of the rounds.
pub(super) struct Rounds {
    pub(super) done: u32,
    /// The faults found in the last one, with its seed.
    pub(super) complaints: Vec<String>,
}

/// Calls `round` with its number, from 0, and its seed, until one finds faults: the rest would fail for the same reason,
/// and the evidence is fresh. An error of a round is a fault as well. Errors: an interruption.
pub(super) fn run(
    lab: &Lab<'_>,
    rounds: u32,
    mut round: impl FnMut(u32, u64) -> Result<Vec<String>>,
) -> Result<Rounds> {
    let mut all = Rounds { done: 0, complaints: Vec::new() };
    for number in 0..rounds {
        lab.interrupt.check()?;
        let seed = lab.first_seed() + u64::from(number);
        let wrong = round(number, seed).unwrap_or_else(|error| vec![error.to_string()]);
        lab.interrupt.check()?;
        all.done += 1;
        all.complaints.extend(wrong.into_iter().map(|complaint| format!("seed {seed}: {complaint}")));
        if !all.complaints.is_empty() {
            break;
        }
    }
    Ok(all)
}
