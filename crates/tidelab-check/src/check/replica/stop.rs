//! Ways to stop the replica.

use std::thread::sleep;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::RngExt;
use tidelab_server::error::Result;
use tidelab_server::server::Server;

use crate::check::faults::plan;
use crate::check::preloaded::{Library, LIMIT};
use crate::preload::{Fault, Loss};

/// A way to stop it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// By SIGKILL.
    Kill,
    /// The same, and unsynced changes are taken back.
    PowerCut(Loss),
    /// A call on a file of the store fails; some time later it is shut down or killed.
    Fault { fault: Fault, after: Duration, in_order: bool },
}

impl Stop {
    /// The kinds come in turn, the power cut first.
    pub(super) fn of(number: u32, random: &mut StdRng) -> Stop {
        match number % 3 {
            1 => Stop::PowerCut(Loss::ALL[random.random_range(0..Loss::ALL.len())]),
            2 => Stop::Fault {
                fault: plan::of_store(random),
                after: Duration::from_millis(random.random_range(200..1500)),
                in_order: random.random_bool(0.5),
            },
            _ => Stop::Kill,
        }
    }

    /// Stops it. Returns a text for the progress, or the complaint.
    pub(super) fn make(
        self,
        replica: &mut Server,
        library: &Library,
        random: &mut StdRng,
    ) -> Result<std::result::Result<String, String>> {
        match self {
            Stop::Kill => {
                replica.crash()?;
                Ok(Ok("killed".to_string()))
            }
            Stop::PowerCut(loss) => {
                replica.crash()?;
                let taken = library.cut_power(loss, random)?;
                Ok(Ok(format!("{} of {} unsynced changes taken back", taken.changes, taken.unsynced)))
            }
            Stop::Fault { fault, after, in_order } => {
                library.control.arm(&fault)?;
                sleep(after);
                let mut wrong =
                    replica.check_alive().is_err().then(|| "the server ended by itself".to_string());
                match in_order {
                    true if !replica.shut_down_within(LIMIT) => {
                        wrong = Some(format!("a shutdown did not end within {} s", LIMIT.as_secs()));
                    }
                    true => {}
                    false => replica.crash()?,
                }
                let met = if library.control.fired()?.is_some() { "met" } else { "not met" };
                library.control.disarm()?;
                let end = if in_order { "shut down" } else { "killed" };
                let how = format!("{fault}, {met}, {end}");
                Ok(match wrong {
                    Some(wrong) => Err(format!("{how}: {wrong}")),
                    None => Ok(how),
                })
            }
        }
    }
}
