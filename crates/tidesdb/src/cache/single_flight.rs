//! Reads under way that several threads need, at most one for each thing: a block missing from the cache, the end of a table
//! to open. Other threads that need it wait for that read instead of repeating it (single flight). Only misses come here.
//!
//! The first reader leads. The end of its [`Lead`] wakes all that wait, with the thing, or without it after an error or a
//! panic (`docs/protocols.md` 8.4). Those then read for themselves: the error may be the leader's alone. A leader waits for
//! no other flight, and nobody waits twice, so waits form no circle and no chain.

use crate::mutant::{self, Mutant};
use crate::sync::{Arc, Condvar, Mutex};

/// The reads under way; `K` names a thing, `B` is one.
pub(crate) struct SingleFlight<K, B> {
    /// A few at most: one for each thread that waits for a disk.
    flights: Mutex<Vec<Flight<K, B>>>,
}

struct Flight<K, B> {
    key: K,
    /// Made by the first thread that waits.
    landing: Option<Arc<Landing<B>>>,
}

/// The place where threads wait for the end of a flight.
struct Landing<B> {
    outcome: Mutex<FlightOutcome<B>>,
    landed: Condvar,
}

enum FlightOutcome<B> {
    UnderWay,
    Landed(B),
    Failed,
}

/// The part of a thread in a read.
pub(crate) enum Boarding<'a, K: Copy + PartialEq, B: Clone> {
    /// It reads for all. First it looks once more whether the thing is there: a flight ends after that, so one that ended
    /// since the caller looked has left it there.
    Lead(Lead<'a, K, B>),
    /// Another has read the thing meanwhile.
    Landed(B),
    /// Another tried in vain: it reads for itself.
    Failed,
}

/// A flight under way. Dropped before it lands, it has failed.
pub(crate) struct Lead<'a, K: Copy + PartialEq, B: Clone> {
    of: &'a SingleFlight<K, B>,
    key: K,
    landed: bool,
}

impl<K, B> Default for SingleFlight<K, B> {
    fn default() -> SingleFlight<K, B> {
        SingleFlight { flights: Mutex::new(Vec::new()) }
    }
}

impl<K: Copy + PartialEq, B: Clone> SingleFlight<K, B> {
    /// Joins the read of a thing, or begins it. Waits if another thread is reading it.
    pub(crate) fn board(&self, key: K) -> Boarding<'_, K, B> {
        let mut flights = self.flights.lock();
        let is_same = |flight: &Flight<K, B>| flight.key == key || mutant::is(Mutant::FlightOfAnother);
        if let Some(flight) = flights.iter_mut().find(|flight| is_same(flight)) {
            let landing = Arc::clone(flight.landing.get_or_insert_with(|| Arc::new(Landing::new())));
            drop(flights);
            return landing.wait();
        }
        flights.push(Flight { key, landing: None });
        Boarding::Lead(Lead { of: self, key, landed: false })
    }

    /// Threads that wait for a read.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(crate) fn waiting(&self) -> usize {
        let flights = self.flights.lock();
        flights.iter().filter_map(|flight| flight.landing.as_ref()).map(|l| Arc::strong_count(l) - 1).sum()
    }
}

impl<B: Clone> Landing<B> {
    fn new() -> Landing<B> {
        Landing { outcome: Mutex::new(FlightOutcome::UnderWay), landed: Condvar::default() }
    }

    fn wait<'a, K: Copy + PartialEq>(&self) -> Boarding<'a, K, B> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                FlightOutcome::Landed(block) => return Boarding::Landed(block.clone()),
                FlightOutcome::Failed => return Boarding::Failed,
                FlightOutcome::UnderWay => self.landed.wait(&mut outcome),
            }
        }
    }

    fn tell(&self, end: FlightOutcome<B>) {
        let mut outcome = self.outcome.lock();
        *outcome = end;
        if !mutant::is(Mutant::FlightEndUntold) {
            self.landed.notify_all();
        }
    }
}

impl<K: Copy + PartialEq, B: Clone> Lead<'_, K, B> {
    /// Ends the flight with the thing, which is where others look for it, if there was room.
    pub(crate) fn land(mut self, thing: &B) {
        self.landed = true;
        self.end(|| FlightOutcome::Landed(thing.clone()));
    }

    fn end(&self, outcome: impl FnOnce() -> FlightOutcome<B>) {
        let mut flights = self.of.flights.lock();
        let at = flights.iter().position(|flight| flight.key == self.key);
        let landing = at.and_then(|at| flights.swap_remove(at).landing);
        drop(flights);
        // From here on nobody finds the flight: all that wait for it have their part in `landing`.
        if let Some(landing) = landing {
            landing.tell(outcome());
        }
    }
}

impl<K: Copy + PartialEq, B: Clone> Drop for Lead<'_, K, B> {
    fn drop(&mut self) {
        if !self.landed && !mutant::is(Mutant::FailedFlightStays) {
            self.end(|| FlightOutcome::Failed);
        }
    }
}

/// Readers of one block in every interleaving: `cargo test -p tidesdb-loom cache::single_flight`.
#[cfg(all(test, loom))]
mod loom_model {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    /// The cache of one block, and its disk.
    struct OneBlock {
        flights: SingleFlight<u32, u32>,
        cached: Mutex<Option<u32>>,
        reads: AtomicUsize,
        failures: AtomicUsize,
    }

    impl OneBlock {
        fn new(failures: usize) -> Arc<OneBlock> {
            Arc::new(OneBlock {
                flights: SingleFlight::default(),
                cached: Mutex::new(None),
                reads: AtomicUsize::new(0),
                failures: AtomicUsize::new(failures),
            })
        }

        /// As the cache does it. `room`: the block stays in the cache.
        fn get(&self, room: bool) -> Option<u32> {
            if let Some(block) = *self.cached.lock() {
                return Some(block);
            }
            let lead = match self.flights.board(4096) {
                Boarding::Landed(block) => return Some(block),
                Boarding::Lead(lead) => Some(lead),
                Boarding::Failed => None,
            };
            let cached = *self.cached.lock();
            let block = match cached {
                Some(block) => block,
                None => self.read(room)?,
            };
            if let Some(lead) = lead {
                lead.land(&block);
            }
            Some(block)
        }

        fn read(&self, room: bool) -> Option<u32> {
            let read = self.reads.fetch_add(1, Ordering::Relaxed);
            if read < self.failures.load(Ordering::Relaxed) {
                return None;
            }
            if room {
                *self.cached.lock() = Some(7);
            }
            Some(7)
        }
    }

    /// The results of so many threads, and the number of reads.
    fn get_in(threads: usize, failures: usize, room: bool) -> (Vec<Option<u32>>, usize) {
        let block = OneBlock::new(failures);
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let block = block.clone();
                thread::spawn(move || block.get(room))
            })
            .collect();
        let mut got = vec![block.get(room)];
        got.extend(others.into_iter().map(|other| other.join().unwrap()));
        assert!(block.flights.flights.lock().is_empty());
        (got, block.reads.load(Ordering::Relaxed))
    }

    /// Two threads in every interleaving, three in those with at most two preemptions.
    fn check(test: fn(usize)) {
        loom::model(move || test(2));
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || test(3));
    }

    #[test]
    fn one_reads_for_all() {
        check(|threads| assert_eq!(get_in(threads, 0, true), (vec![Some(7); threads], 1)));
    }

    #[test]
    fn without_room_all_get_a_block_and_nobody_waits_for_ever() {
        check(|threads| {
            let (got, reads) = get_in(threads, 0, false);
            assert_eq!(got, vec![Some(7); threads]);
            assert!((1..=threads).contains(&reads));
        });
    }

    #[test]
    fn after_a_failure_the_others_read() {
        check(|threads| {
            let (got, reads) = get_in(threads, 1, true);
            assert_eq!(got.iter().filter(|got| got.is_none()).count(), 1);
            assert!((2..=threads).contains(&reads));
        });
    }

    #[test]
    fn readers_of_two_things_get_each_its_own() {
        loom::model(|| {
            let flights = Arc::new(SingleFlight::<u32, u32>::default());
            let read = |flights: &SingleFlight<u32, u32>, key: u32| match flights.board(key) {
                Boarding::Lead(lead) => {
                    lead.land(&(key * 10));
                    key * 10
                }
                Boarding::Landed(thing) => thing,
                Boarding::Failed => 0,
            };
            let other = {
                let flights = flights.clone();
                thread::spawn(move || read(&flights, 1))
            };
            assert_eq!(read(&flights, 2), 20);
            assert_eq!(other.join().unwrap(), 10);
        });
    }
}
