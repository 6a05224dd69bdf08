//! `sensitivity`: a check of the laboratory itself. It must find a planted difference and no other.
//!
//! Two equal tables of one engine are updated row by row. Before each row the server burns CPU time in a
//! trigger of the same text on both tables; some is burnt for every row. There are three experiments, in
//! rounds of short turns of each table in random order. Without a delay the tables must be called equal.
//! With a delay of 5 % of a statement's time on one, then on the other, the verdict must have the right
//! sign and the size must lie in the interval. Rounds go on until 5 % is resolved ([`Resolution`]).
//!
//! The delay's size is known from the CPU time of the connection's thread for very many of the same
//! loops. Telemetry is recorded alongside, and must have seen the updates.

use std::fs;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{Error, Result};
use tidelab_server::series::Series;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::Address;
use tidelab_server::server::settings;
use tidelab_server::statistics::{self, Ratio, Resolution};
use tidelab_server::telemetry::recorder::{Recorder, Recording};
use tidelab_server::telemetry::status::ServerStatus;

use super::session::Session;
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

/// The planted difference; in the short form as much as a few seconds can tell apart.
const PLANTED: f64 = 0.05;
const PLANTED_SHORT: f64 = 0.30;
/// One table's turn of updates: short, for both to see the same machine, and drawn anew for each pair.
///
/// With turns of a quarter of a second, an event of the machine once a second met the same table each time,
/// and equal tables differed by 13 %. With turns of 200 to 400 ms, a delay of 5 % was found on one table and
/// not on the other.
const TURN_MS: std::ops::Range<u64> = 8..16;
/// Turns of each table in a round.
const TURNS: u32 = 24;
/// A slice of the calibration.
const PILOT: Duration = Duration::from_millis(250);
/// Rows of each table.
const ROWS: u32 = 20_000;
/// By how much the planted size itself may be off: a statement's time is not one number on a machine with other work.
const TOLERANCE: f64 = 0.02;
/// Loops for measuring the cost of one.
const LOOPS: u32 = 100_000;
/// Loops of each row without a delay. The first ones of a statement meet cold caches and took twice the
/// measured time: 5 % more of them made a statement 12 % slower. Loops after these cost the measured time.
const EVERY_ROW: f64 = 200.0;

/// One of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    A,
    B,
}

/// A planted delay and its table.
#[derive(Clone, Copy, Debug)]
struct Plant {
    title: &'static str,
    delayed: Option<Table>,
    /// The expected verdict on b's rate against a's.
    wanted: statistics::Verdict,
}

const PLANTS: [Plant; 3] = [
    Plant { title: "no delay", delayed: None, wanted: statistics::Verdict::None },
    Plant { title: "a delay on b", delayed: Some(Table::B), wanted: statistics::Verdict::Lower },
    Plant { title: "a delay on a", delayed: Some(Table::A), wanted: statistics::Verdict::Higher },
];

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let planted = if lab.short { PLANTED_SHORT } else { PLANTED };
    let limit = Duration::from_secs(lab.seconds.unwrap_or(if lab.short { 20 } else { 180 }));
    let server = lab.start(&settings::comparison(&[Engine::TidesDb], 64, 20))?;
    let mut session = connect(&server)?;
    set_up(&mut session, &["CREATE DATABASE sensitivity", "USE sensitivity"])?;
    for table in ["a", "b"] {
        set_up(
            &mut session,
            &[
                &format!("CREATE TABLE {table} (id INT PRIMARY KEY, c INT NOT NULL, pad CHAR(60) NOT NULL, KEY (c)) ENGINE=TidesDB"),
                &format!("INSERT INTO {table} SELECT seq, seq % 100, MD5(seq) FROM seq_1_to_{ROWS}"),
                &format!("CREATE TRIGGER {table}_delay BEFORE UPDATE ON {table} FOR EACH ROW DO BENCHMARK(@delay_{table}, MD5('tide'))"),
            ],
        )?;
    }
    let address = Address::root(server.socket());
    let status = Box::new(ServerStatus::all(&address));
    let recorder = Recorder::start(Some(server.pid()), server.directory(), Some(status))?;
    let mut trial = Trial::new(session, server.pid(), lab)?;
    let (statement_us, loop_us) = trial.calibrate()?;
    let loops = (planted * statement_us / loop_us).round().max(1.0);
    let delay_us = loops * loop_us;
    progress(
        Check::Sensitivity,
        &format!("a statement takes {statement_us:.1} us, the delay {delay_us:.2} us ({loops:.0} loops)"),
    );
    let (mut lines, mut complaints) = (Vec::new(), Vec::new());
    for plant in PLANTS {
        trial.delay(plant.delayed, loops)?;
        let slices = trial.experiment(Resolution(planted), limit)?;
        // The pilot's statement was another second's: the delay is a share of a time that is measured
        // alongside it.
        let share = delay_us / slices.undelayed_us(plant.delayed);
        let line = format!("{}: {}", plant.title, slices.picture());
        progress(Check::Sensitivity, &line);
        complaints.extend(slices.complaints(plant, share, Resolution(planted)));
        lines.push(line);
    }
    let recording = recorder.stop();
    complaints.extend(telemetry_complaints(&recording));
    let seconds = recording.series.rows.len().max(1) as f64;
    let summary = format!(
        "{delay_us:.2} us planted in {statement_us:.1} us; b against a with {}; telemetry took {:.2} ms of CPU a second",
        lines.join("; "),
        recording.own_cpu_s / seconds * 1000.0
    );
    drop(trial);
    conclude(server, summary, complaints)
}

/// The one client, with the state for its turns.
struct Trial<'a> {
    session: Session,
    /// The kernel's account of the connection's thread.
    schedstat: String,
    random: StdRng,
    lab: &'a Lab<'a>,
}

/// One turn of a table.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    statements: u64,
    seconds: f64,
    cpu_s: f64,
}

impl Slice {
    fn rate(self) -> f64 {
        self.statements as f64 / self.seconds
    }

    fn cpu_us(self) -> f64 {
        self.cpu_s * 1e6 / self.statements.max(1) as f64
    }

    fn add(&mut self, other: Slice) {
        self.statements += other.statements;
        self.seconds += other.seconds;
        self.cpu_s += other.cpu_s;
    }
}

impl<'a> Trial<'a> {
    fn new(mut session: Session, server: u32, lab: &'a Lab<'a>) -> Result<Trial<'a>> {
        let thread = must(
            "the connection's thread",
            session.number("SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"),
        )?;
        let schedstat = format!("/proc/{server}/task/{thread}/schedstat");
        Ok(Trial { session, schedstat, random: StdRng::seed_from_u64(lab.seed), lab })
    }

    /// CPU time of the connection's thread so far, in seconds.
    fn cpu_s(&self) -> Result<f64> {
        let text = fs::read_to_string(&self.schedstat).unwrap_or_default();
        let nanoseconds = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
        nanoseconds.map(|ns| ns / 1e9).ok_or_else(|| {
            Error::Usage(format!(
                "{} has no CPU time: the check needs a kernel that counts it",
                self.schedstat
            ))
        })
    }

    /// Microseconds of a statement without a delay, and of one loop of the delay; medians.
    fn calibrate(&mut self) -> Result<(f64, f64)> {
        self.delay(None, 0.0)?;
        let mut statements = Vec::new();
        for turn in 0..24 {
            let slice = self.slice(if turn % 2 == 0 { Table::A } else { Table::B }, PILOT)?;
            // The first ones meet what the load of the tables put off.
            if turn >= 8 {
                statements.push(1e6 / slice.rate());
            }
        }
        let mut loops = Vec::new();
        for _ in 0..9 {
            let before = self.cpu_s()?;
            let statement = format!("DO BENCHMARK({LOOPS}, MD5('tide'))");
            must(&statement, self.session.run(&statement))?;
            loops.push((self.cpu_s()? - before) * 1e6 / f64::from(LOOPS));
        }
        let median = |figures: &[f64]| statistics::Spread::of(figures).map_or(0.0, |s| s.median);
        match (median(&statements), median(&loops)) {
            (statement, one) if statement > 0.0 && one > 0.0 => Ok((statement, one)),
            other => Err(Error::Usage(format!("nothing could be calibrated: {other:?}"))),
        }
    }

    fn delay(&mut self, table: Option<Table>, loops: f64) -> Result<()> {
        let of = |this: Table| EVERY_ROW + if table == Some(this) { loops } else { 0.0 };
        let statement = format!("SET @delay_a = {:.0}, @delay_b = {:.0}", of(Table::A), of(Table::B));
        must(&statement, self.session.run(&statement)).map(|_| ())
    }

    /// Updates rows of one table, one a statement, for so long.
    fn slice(&mut self, table: Table, time: Duration) -> Result<Slice> {
        self.lab.interrupt.check()?;
        let name = if table == Table::A { "a" } else { "b" };
        let cpu = self.cpu_s()?;
        let start = Instant::now();
        let mut statements = 0;
        while start.elapsed() < time {
            let id = self.random.random_range(1..=ROWS);
            let statement = format!("UPDATE {name} SET c = (c + 7) % 100 WHERE id = {id}");
            if must(&statement, self.session.run(&statement))? != 1 {
                return Err(Error::Statement { statement, message: "no row was changed".to_string() });
            }
            statements += 1;
        }
        Ok(Slice { statements, seconds: start.elapsed().as_secs_f64(), cpu_s: self.cpu_s()? - cpu })
    }

    /// Rounds until the difference is resolved or the time is over.
    fn experiment(&mut self, resolution: Resolution, limit: Duration) -> Result<PairedSlices> {
        let start = Instant::now();
        let mut slices = PairedSlices::default();
        while !resolution.reached(&slices.pairs(Slice::rate)) && start.elapsed() < limit {
            let (mut a, mut b) = (Slice::default(), Slice::default());
            for _ in 0..TURNS {
                let time = Duration::from_millis(self.random.random_range(TURN_MS));
                if self.random.random() {
                    a.add(self.slice(Table::A, time)?);
                    b.add(self.slice(Table::B, time)?);
                } else {
                    b.add(self.slice(Table::B, time)?);
                    a.add(self.slice(Table::A, time)?);
                }
            }
            slices.rounds.push((a, b));
        }
        Ok(slices)
    }
}

/// The measurements of an experiment: in each round a's slice and b's.
#[derive(Clone, Debug, Default)]
struct PairedSlices {
    rounds: Vec<(Slice, Slice)>,
}

impl PairedSlices {
    /// b's figure and a's, by rounds.
    fn pairs(&self, figure: impl Fn(Slice) -> f64) -> Vec<(f64, f64)> {
        self.rounds.iter().map(|(a, b)| (figure(*b), figure(*a))).collect()
    }

    /// The median microseconds of a statement on a table without a delay.
    fn undelayed_us(&self, delayed: Option<Table>) -> f64 {
        let other = |(a, b): &(Slice, Slice)| if delayed == Some(Table::A) { *b } else { *a };
        let times: Vec<f64> = self.rounds.iter().map(|round| 1e6 / other(round).rate()).collect();
        statistics::Spread::of(&times).map_or(f64::NAN, |s| s.median)
    }

    fn ratio(&self) -> Option<Ratio> {
        Ratio::of(&self.pairs(Slice::rate))
    }

    fn picture(&self) -> String {
        let shown = |ratio: Option<Ratio>| {
            ratio.map_or("none".to_string(), |r| {
                format!("{:.3} ({:.3} - {:.3}), {:?}", r.median, r.low, r.high, r.verdict)
            })
        };
        format!(
            "rate {}; CPU {}; {} rounds",
            shown(self.ratio()),
            shown(Ratio::of(&self.pairs(Slice::cpu_us))),
            self.rounds.len()
        )
    }

    /// The faults of an experiment, given the planted delay as a share of a statement's time.
    fn complaints(&self, plant: Plant, share: f64, resolution: Resolution) -> Vec<String> {
        let Some(ratio) = self.ratio() else { return vec![format!("{}: no rounds", plant.title)] };
        let pairs = self.pairs(Slice::rate);
        let mut complaints = Vec::new();
        if !resolution.reached(&pairs) {
            let needed = resolution.rounds_needed(&pairs).unwrap_or(0);
            complaints.push(format!(
                "{}: {} rounds were not enough on this machine, about {needed} would be",
                plant.title,
                pairs.len()
            ));
        }
        // Two real tables are not the same to a thousandth, and rounds of short turns can tell that.
        let equal = plant.delayed.is_none() && ratio.low > 1.0 - TOLERANCE && ratio.high < 1.0 + TOLERANCE;
        if ratio.verdict != plant.wanted && !equal {
            complaints.push(format!("{}: found {}", plant.title, self.picture()));
        }
        let planted = match plant.delayed {
            None => 1.0,
            Some(Table::B) => 1.0 / (1.0 + share),
            Some(Table::A) => 1.0 + share,
        };
        if ratio.low > planted + TOLERANCE || ratio.high < planted - TOLERANCE {
            complaints.push(format!("{}: {planted:.3} was planted, found {}", plant.title, self.picture()));
        }
        complaints
    }
}

/// Complaints about updates missed by the telemetry.
fn telemetry_complaints(recording: &Recording) -> Vec<String> {
    let series: &Series = &recording.series;
    let most = |name: &str| series.column(name).unwrap_or_default().into_iter().fold(f64::NAN, f64::max);
    [
        "server_user_cpus",
        "server_resident_bytes",
        "cpu_idle_cpus",
        "status.Com_update_per_s",
        "status.Tidesdb_commits_per_s",
    ]
    .into_iter()
    // The first three are there on any machine; idle may be 0, which is a value too.
    .filter(|name| most(name).is_nan() || (most(name) <= 0.0 && *name != "cpu_idle_cpus"))
    .map(|name| format!("telemetry has nothing in {name}"))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(rates: &[(f64, f64)]) -> PairedSlices {
        let slice = |rate: f64| Slice { statements: (rate * 0.25) as u64, seconds: 0.25, cpu_s: 0.1 };
        PairedSlices { rounds: rates.iter().map(|(a, b)| (slice(*a), slice(*b))).collect() }
    }

    fn rounds(ratio: f64) -> PairedSlices {
        slices(
            &(0..12).map(|i| (10_000.0, 10_000.0 * ratio + f64::from(i % 3 - 1) * 40.0)).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn what_was_planted_must_be_found() {
        let five = Resolution(0.05);
        assert!(rounds(1.0).complaints(PLANTS[0], 0.05, five).is_empty());
        assert!(rounds(0.95).complaints(PLANTS[1], 0.05, five).is_empty());
        assert!(rounds(1.05).complaints(PLANTS[2], 0.05, five).is_empty());
        let near = rounds(1.006);
        assert_eq!(near.ratio().map(|ratio| ratio.verdict), Some(statistics::Verdict::Higher));
        assert!(near.complaints(PLANTS[0], 0.05, five).is_empty(), "equal as far as two tables are");
        let missed = rounds(1.0).complaints(PLANTS[1], 0.05, five);
        assert_eq!(missed.len(), 2, "no difference, and not of that size: {missed:?}");
        let wrong = rounds(0.95).complaints(PLANTS[0], 0.05, five);
        assert!(wrong[0].contains("no delay: found rate 0.95"), "{wrong:?}");
        let size = rounds(0.80).complaints(PLANTS[1], 0.05, five);
        assert!(size.len() == 1 && size[0].contains("0.952 was planted"), "{size:?}");
    }

    #[test]
    fn too_few_rounds_are_no_answer() {
        let few = slices(&[(10_000.0, 9_000.0), (10_000.0, 11_000.0), (10_000.0, 10_000.0)]);
        let complaints = few.complaints(PLANTS[0], 0.05, Resolution(0.05));
        assert!(
            complaints.len() == 1 && complaints[0].contains("3 rounds were not enough"),
            "{complaints:?}"
        );
        assert_eq!(
            PairedSlices::default().complaints(PLANTS[0], 0.05, Resolution(0.05)),
            ["no delay: no rounds"]
        );
    }

    #[test]
    fn telemetry_that_saw_nothing_is_told() {
        assert_eq!(telemetry_complaints(&Recording::default()).len(), 5);
    }

    #[test]
    fn the_time_without_delay_is_the_other_table_s() {
        let slices = slices(&[(10_000.0, 5_000.0)]);
        assert!((slices.undelayed_us(Some(Table::B)) - 100.0).abs() < 1e-6);
        assert!((slices.undelayed_us(Some(Table::A)) - 200.0).abs() < 1e-6);
    }
}
