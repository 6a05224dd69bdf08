//! One operation on an open store: several threads do their share of it, each call is timed, each answer
//! checked.
//!
//! Every nanosecond of a thread belongs to some call: a call's latency runs from the end of the one before to
//! its own end, so no stop falls between two measurements. It includes the cost of making keys and checking
//! answers, the same for all engines.
//!
//! Each row is written by one thread (row number modulo threads), so the expected value of a row is known at
//! any moment. A read must find at least the version committed at its beginning.

use std::time::Instant;

pub use tidelab::experiment::engine::{Load, Operation};

use crate::data::Data;
use crate::measured::Measured;
use crate::store::Store;
use crate::worker::Worker;

/// Runs an operation. The turn tells repetitions of one operation on one store apart.
pub fn run(store: &dyn Store, data: &Data, operation: Operation, load: &Load, turn: u64) -> Measured {
    let order = match operation {
        Operation::FillRandom => data.shuffled(turn),
        Operation::Delete => {
            let mut rows = data.shuffled(turn);
            rows.truncate(rows.len() / 2);
            rows
        }
        _ => Vec::new(),
    };
    let start = Instant::now();
    let parts = std::thread::scope(|scope| {
        let order = &order;
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| {
                scope
                    .spawn(move || Worker::new(data, load, operation, thread, turn, start).work(store, order))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| Measured {
                    failures: vec!["a thread of the load ended with a panic".to_string()],
                    ..Measured::default()
                })
            })
            .collect::<Vec<_>>()
    });
    let mut all = Measured { seconds: start.elapsed().as_secs_f64(), ..Measured::default() };
    for part in parts {
        all.count += part.count;
        all.latency.merge(&part.latency);
        all.user_bytes += part.user_bytes;
        all.steps.resize(all.steps.len().max(part.steps.len()), 0);
        for (sum, steps) in all.steps.iter_mut().zip(&part.steps) {
            *sum += steps;
        }
        all.failures.extend(part.failures);
    }
    all
}
