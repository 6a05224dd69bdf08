//! The end of waits at a shutdown. A commit cannot be killed, so a log without progress would keep the server
//! from its end. Each waiting thread checks from time to time. The first to see no progress for [`LONGEST`]
//! after [`Core::end_waits`] stops the log, and all waits end with its failure.

use super::shared::Core;
use crate::error::Error;
use crate::wal::pending_writes::Ticket;

/// Longest time without progress at a shutdown, in microseconds. A disk recovering from an error may take
/// half of it.
const LONGEST: u64 = 60_000_000;

/// A waiting thread's last view of the log's progress, and its time.
#[derive(Default)]
pub(super) struct Stall {
    seen: Option<((Ticket, Ticket), u64)>,
}

impl Core {
    /// Stops the log if waits must end and there is no progress.
    pub(super) fn end_if_stuck(&self, stall: &mut Stall) {
        if !self.waits_end() || self.has_failed() {
            return;
        }
        let now = self.clock.now_micros();
        let place = (self.pending_writes.done(), self.syncs.done());
        match stall.seen {
            Some((seen, since)) if seen == place => {
                if now.saturating_sub(since) >= LONGEST {
                    self.fail(&Error::ReadOnly(format!(
                        "nothing was written or synced for {} s at a shutdown",
                        LONGEST / 1_000_000
                    )));
                }
            }
            _ => stall.seen = Some((place, now)),
        }
    }
}
