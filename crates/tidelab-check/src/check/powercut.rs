//! `powercut`: a server whose unsynced changes are taken back after a kill, under writers of TidesDB tables and of both
//! engines, with the binary log off and on.
//!
//! The preloaded library keeps a journal of every change of a file and of a directory. After SIGKILL the
//! unsynced changes are lost: all of them, those after a moment, or some, page by page
//! ([`crate::preload::PowerCut`]). In every third round the recovery is cut off as well. In every fourth a
//! sync fails before the cut. After each start every acknowledged transaction is there, and the rest holds as
//! in `faults`.
//!
//! At the end the syncs of the log lie, and a cut must be seen to lose transactions: else the check sees nothing. The
//! rounds' seeds are the check's and the numbers after it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;

use super::preloaded::{binary_log_of, Bench};
use super::rounds::{self, Rounds};
use super::{accounts, conclude, progress, Check, Lab, Verdict};
use crate::preload::{Action, Call, Fault, Kind, Loss, TakenBack};

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { 8 } else { 100 });
    let mut bench = Bench::start(lab, true)?;
    let mut sum = TakenBack::default();
    let Rounds { done, mut complaints } = rounds::run(lab, rounds, |number, seed| {
        run_round(&mut bench, binary_log_of(seed), seed, (number + 1, rounds), &mut sum)
    })?;
    let (acknowledged, refused) = accounts::done(&bench.writers);
    if acknowledged == 0 {
        complaints.push("no transaction was acknowledged".to_string());
    }
    if complaints.is_empty() {
        if sum.changes == 0 || sum.lengths == 0 {
            complaints.push(format!("nothing was taken back in {done} rounds: {sum:?}"));
        }
        complaints.extend(lies_are_missed(&mut bench, lab.first_seed())?);
    }
    let summary = format!(
        "{done} rounds from seed {}, {acknowledged} acknowledged transactions, {refused} refused in a conflict; of {} \
         changes of pages that no sync covered {} were lost, of {} names {}; {} files got another length",
        lab.first_seed(), sum.unsynced, sum.changes, sum.unsynced_names, sum.names, sum.lengths
    );
    conclude(bench.server, summary, complaints)
}

/// One round; returns the faults found.
fn run_round(
    bench: &mut Bench<'_>,
    binary_log: bool,
    seed: u64,
    (number, rounds): (u32, u32),
    sum: &mut TakenBack,
) -> Result<Vec<String>> {
    let mut random = StdRng::seed_from_u64(seed);
    bench.set_binary_log(binary_log)?;
    bench.mark_error_log()?;
    let (before, _) = accounts::done(&bench.writers);
    bench.library.control.set_sync(Some(Duration::from_micros(random.random_range(0..3000))))?;
    let load = Duration::from_millis(random.random_range(200..1500));
    let fault = random.random_bool(0.25).then(|| failing_sync(&mut random));
    if let Some(fault) = &fault {
        bench.library.control.arm(fault)?;
    }
    let (died, _) = bench.under_load(&mut random, |server, _| {
        let start = Instant::now();
        while start.elapsed() < load && server.check_alive().is_ok() {
            sleep(Duration::from_millis(5));
        }
        let died = server.check_alive().is_err();
        server.crash()?;
        Ok(died)
    })?;
    let mut wrong = Vec::new();
    if died {
        wrong.push("the server ended by itself".to_string());
    }
    let met = bench.library.control.fired()?.is_some() && fault.is_some();
    bench.library.control.disarm()?;
    let mut taken = cut(bench, &mut random)?;
    if random.random_bool(0.33) {
        // In the middle of recovery, once more.
        let delay = Duration::from_millis(random.random_range(50..700));
        bench.crash_while_starting(delay)?;
        add(&mut taken, cut(bench, &mut random)?);
    }
    let took = bench.restart()?;
    wrong.extend(bench.judge()?);
    add(sum, taken);
    let (acknowledged, _) = accounts::done(&bench.writers);
    progress(
        Check::PowerCut,
        &format!(
            "seed {seed} ({number} of {rounds}){}: {} transactions, cut after {} ms{}, {} of {} changes lost, {} of {} \
             names, up again in {:.1} s, {} wrong",
            if binary_log { " (binary log)" } else { "" },
            acknowledged - before,
            load.as_millis(),
            fault.filter(|_| met).map_or(String::new(), |fault| format!(" and {fault}")),
            taken.changes,
            taken.unsynced,
            taken.names,
            taken.unsynced_names,
            took.as_secs_f64(),
            wrong.len()
        ),
    );
    Ok(wrong)
}

/// A failed sync of the store: the kernel keeps its pages and calls them clean.
fn failing_sync(random: &mut StdRng) -> Fault {
    let kinds = [Kind::Log, Kind::Log, Kind::Table, Kind::Manifest];
    let kind = kinds[random.random_range(0..kinds.len())];
    let most = if kind == Kind::Log { 100 } else { 4 };
    let first = random.random_range(1..=most);
    Fault { kind, call: Call::Sync, first, times: 1, action: Action::Fail(Errno::EIO) }
}

fn cut(bench: &Bench<'_>, random: &mut StdRng) -> Result<TakenBack> {
    let loss = Loss::ALL[random.random_range(0..Loss::ALL.len())];
    bench.library.cut_power(loss, random)
}

fn add(sum: &mut TakenBack, taken: TakenBack) {
    sum.unsynced += taken.unsynced;
    sum.changes += taken.changes;
    sum.lengths += taken.lengths;
    sum.unsynced_names += taken.unsynced_names;
    sum.names += taken.names;
}

/// False syncs of the log lose acknowledged transactions in a cut: the judgement must say so.
fn lies_are_missed(bench: &mut Bench<'_>, seed: u64) -> Result<Vec<String>> {
    let mut random = StdRng::seed_from_u64(seed);
    bench.set_binary_log(false)?;
    let lie = Fault { kind: Kind::Log, call: Call::Sync, first: 1, times: u64::MAX, action: Action::Lie };
    bench.library.control.arm(&lie)?;
    bench.under_load(&mut random, |server, _| {
        sleep(Duration::from_millis(500));
        server.crash()
    })?;
    bench.library.control.disarm()?;
    bench.library.cut_power(Loss::All, &mut random)?;
    let missed = match bench.restart() {
        Ok(_) => {
            bench.judge()?.iter().any(|complaint| complaint.contains("acknowledged transactions are lost"))
        }
        // The log has less than the manifest says.
        Err(_) => true,
    };
    Ok(match missed {
        true => Vec::new(),
        false => vec!["the log's syncs lied, and nothing was missed after a cut".to_string()],
    })
}
