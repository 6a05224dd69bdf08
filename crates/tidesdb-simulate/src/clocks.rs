//! Jumping clocks: the wall clock goes ahead and back, and time passes at once, as for a suspended machine.

use std::time::Duration;

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::simulation;

use crate::events::hit;
use crate::host;
use crate::random::Random;
use crate::world::{sleep_below, World};

/// So many jumps. The clock of expiries never goes back, and is never ahead of all that the wall clock ever showed.
pub fn work(world: &World, seed: u64, jumps: u64) -> Result<(), String> {
    let mut random = Random::new(seed, 800);
    let (mut shown, mut second) = (host::wall(), world.db.expiry_second());
    for _ in 0..jumps {
        let begun = host::monotonic_seconds();
        sleep_below(&mut random, 15_000);
        match random.below(4) {
            0 | 1 => {
                host::set_wall(random.pick(&[1, 3, 30, 3_000]));
                hit("wall clock ahead");
            }
            2 => {
                host::set_wall(-random.pick(&[1, 2, 50, 10_000]));
                hit("wall clock back");
            }
            _ => {
                simulation::leap(Duration::from_millis(random.pick(&[1_500, 10_000, 90_000])));
                hit("time that passes at once");
            }
        }
        shown = host::wall().max(shown + host::monotonic_seconds() - begun + 1);
        let now = world.db.expiry_second();
        if now < second || now > shown {
            return Err(format!(
                "the clock of expiries went from {second} to {now}; the wall clock showed {shown}"
            ));
        }
        second = now;
    }
    Ok(())
}

/// Before the store's end, in half of the cases: the wall clock was ahead, the clock of expiries followed it, and nothing
/// that is written afterwards says so.
pub fn lag(db: &Db, seed: u64) {
    let mut random = Random::new(seed, 801);
    if random.one_in(2) {
        return;
    }
    let (ahead, back) = random.pick(&[(1, 1), (3, 1), (3, 2), (30, 2), (30, 30), (3_000, 50)]);
    host::set_wall(ahead);
    hit("wall clock ahead");
    db.expiry_second();
    host::set_wall(-back);
    hit("wall clock back");
}
