//! Kills a server while clients are at work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidelab_server::error::Result;
use tidelab_server::server::Server;

use super::session::Failure;

/// True after the kill.
pub(super) struct Killed(AtomicBool);

impl Killed {
    /// A client's error, if the kill does not explain it.
    pub(super) fn unexplained(&self, done: std::result::Result<(), Failure>) -> Option<Failure> {
        done.err().filter(|failure| !(self.0.load(Ordering::SeqCst) && matches!(failure, Failure::Lost(_))))
    }
}

/// Runs each of `clients` in a thread of its own and kills the server with SIGKILL after `delay`. Returns
/// when all have ended: they do when the server is gone.
pub(super) fn load_until_killed<C: FnOnce(&Killed) + Send>(
    server: &mut Server,
    delay: Duration,
    clients: impl Iterator<Item = C>,
) -> Result<()> {
    let killed = Killed(AtomicBool::new(false));
    thread::scope(|scope| {
        for client in clients {
            let killed = &killed;
            scope.spawn(move || client(killed));
        }
        thread::sleep(delay);
        let alive = server.check_alive();
        killed.0.store(true, Ordering::SeqCst);
        alive.and(server.crash())
    })
}
