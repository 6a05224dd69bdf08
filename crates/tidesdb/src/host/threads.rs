//! Threads, and their loops of background work.
//!
//! A loop is a [`Step`]: one function does the work now due, the other waits for more. A thread calls them in turn
//! ([`run`]). A driver can call `step` of any loop at any time, to try every order.

#![allow(clippy::disallowed_methods)] // Here they are called, and nowhere else.

use std::fmt;
use std::io;
use std::thread::{available_parallelism, Builder, JoinHandle};

use crate::error::AbortOnPanic;
use crate::host::Instant;

/// The work of a thread.
pub type Work = Box<dyn FnOnce() + Send>;

/// A started thread.
pub trait Handle: Send + fmt::Debug {
    /// Whether its work has ended.
    fn is_finished(&self) -> bool;
    /// Returns when its work has ended.
    fn join(self: Box<Self>);
}

/// Starts threads, and knows their machine.
pub trait Spawn: Send + Sync + fmt::Debug {
    /// Starts a thread. A panic in it aborts the process: other threads share its data.
    fn spawn(&self, name: &str, work: Work) -> io::Result<Box<dyn Handle>>;
    /// Number of threads able to run at once, at least one.
    fn cores(&self) -> usize;
    /// Lowers the calling thread's priority, where the system allows it.
    fn yield_to_others(&self);
}

/// The operating system's threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemThreads;

impl Spawn for SystemThreads {
    fn spawn(&self, name: &str, work: Work) -> io::Result<Box<dyn Handle>> {
        let thread = Builder::new().name(name.to_string()).spawn(move || {
            let _guard = AbortOnPanic::new();
            work();
        })?;
        Ok(Box::new(thread))
    }

    fn cores(&self) -> usize {
        available_parallelism().map_or(1, |cores| cores.get())
    }

    fn yield_to_others(&self) {
        // SAFETY: changes the scheduling priority of the calling thread only; failure changes nothing.
        unsafe {
            let thread = libc::syscall(libc::SYS_gettid) as libc::id_t;
            libc::setpriority(libc::PRIO_PROCESS, thread, 5);
        }
    }
}

impl Handle for JoinHandle<()> {
    fn is_finished(&self) -> bool {
        JoinHandle::is_finished(self)
    }

    fn join(self: Box<Self>) {
        // A thread that panicked has aborted the process.
        let _ = JoinHandle::join(*self);
    }
}

/// The end of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// More may be due now.
    Again,
    /// Nothing is due before a change; the loop will be told of it.
    Wait,
    /// The same, or at the latest at this time.
    WaitUntil(Instant),
    /// The loop is over.
    End,
}

/// A loop of background work.
pub trait Step {
    /// Does the work due now. It waits for locks, for the disk and for memory, never for work.
    fn step(&mut self) -> Next;
    /// Returns when something may be due: at once if it is already, else when told, at the latest `until`. May return
    /// sooner.
    fn wait(&mut self, until: Option<Instant>);
}

/// Runs a loop to its end.
pub fn run(mut work: impl Step) {
    loop {
        match work.step() {
            Next::Again => {}
            Next::Wait => work.wait(None),
            Next::WaitUntil(time) => work.wait(Some(time)),
            Next::End => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Script(Vec<Next>, Vec<Option<Instant>>);

    impl Step for &mut Script {
        fn step(&mut self) -> Next {
            self.0.pop().unwrap_or(Next::End)
        }

        fn wait(&mut self, until: Option<Instant>) {
            self.1.push(until);
        }
    }

    #[test]
    fn a_thread_waits_as_each_step_says() {
        let time = Instant::from_nanos(7);
        let mut script =
            Script(vec![Next::Again, Next::WaitUntil(time), Next::Again, Next::Wait], Vec::new());
        run(&mut script);
        assert_eq!(script.1, [None, Some(time)]);
    }

    #[test]
    fn threads_are_started_and_joined() {
        let (told, heard) = std::sync::mpsc::channel();
        let thread =
            SystemThreads.spawn("tdb-test", Box::new(move || told.send(7).expect("heard"))).expect("starts");
        assert_eq!(heard.recv(), Ok(7));
        thread.join();
        assert!(SystemThreads.cores() >= 1);
    }
}
