//! Signals for the end. They only set a flag. A waiting function looks at it, ends everything started by it,
//! and returns [`Error::Interrupted`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{io_error, Error, Result};

/// The flag. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT, SIGTERM and SIGHUP set the flag instead of ending the process.
    pub fn on_signals() -> Result<Interrupt> {
        let flag = Interrupt::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, flag.0.clone())
                .map_err(io_error("cannot handle a signal", "of this process"))?;
        }
        Ok(flag)
    }

    /// Fails once the flag is set.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }
}
