//! `kill`: a server in FULL is killed with SIGKILL under eight writers and started again, several times
//! on the same data. The first rounds run without a binary log, the others with one.
//!
//! The writers are those of [`super::accounts`]: each knows exactly its expected rows.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;
use tidelab_server::server::settings;
use tidelab_server::server::Server;

use super::accounts::{self, Conduct, Writer};
use super::killing::{load_until_killed, Killed};
use super::{binary_log, conclude, connect, progress, set_up, Check, Lab, Verdict};

/// No statement takes this long: a longer wait is a hang.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { 3 } else { 5 });
    // The last rounds have the binary log: two of five.
    let with_log = rounds.div_ceil(3);
    let mut random = StdRng::seed_from_u64(lab.seed);
    let mut server = lab.start(&settings::checks(false))?;
    accounts::make_tables(&server)?;
    let mut writers = accounts::writers();
    let mut complaints = Vec::new();
    let (mut in_doubt, mut happened) = (0, 0);
    let mut logged_from: Option<BTreeSet<i64>> = None;
    for round in 1..=rounds {
        lab.interrupt.check()?;
        let binary_log = round > rounds - with_log;
        if binary_log && logged_from.is_none() {
            server.shut_down()?;
            server.restart(&settings::checks(true), lab.interrupt)?;
            logged_from = Some(accounts::tokens(&mut connect(&server)?)?);
        }
        let settings = settings::checks(binary_log);
        // Both lock modes in turn, before the writers begin.
        let pessimistic = format!("SET GLOBAL tidesdb_pessimistic_locking = {}", round % 2);
        set_up(&mut connect(&server)?, &[&pessimistic])?;
        let (before, _) = accounts::done(&writers);
        let delay = Duration::from_millis(random.random_range(300..2500));
        load(&mut server, &mut writers, delay, &mut random)?;
        if round % 2 == 0 {
            // In the middle of recovery, once more.
            let delay = Duration::from_millis(random.random_range(100..700));
            server.crash_while_starting(&settings, delay)?;
        }
        let took = server.restart(&settings, lab.interrupt)?;
        let mut session = connect(&server)?;
        let there = accounts::tokens(&mut session)?;
        in_doubt += writers.iter().filter(|w| w.in_doubt().is_some()).count();
        let mut wrong = Vec::new();
        for writer in &mut writers {
            happened += u32::from(writer.in_doubt().is_some_and(|token| there.contains(&token)));
            writer.settle(&there, &mut session)?;
            wrong.append(&mut writer.complaints);
        }
        wrong.extend(accounts::strangers(&writers, &there));
        wrong.extend(accounts::tables_disagree(&mut session, &there)?);
        if let Some(earlier) = &logged_from {
            let since = there.difference(earlier).copied().collect();
            wrong.extend(binary_log::compare(&binary_log::tokens(lab, &server, 0)?, &since));
        }
        let (acknowledged, _) = accounts::done(&writers);
        progress(
            Check::Kill,
            &format!(
                "round {round} of {rounds}{}: {} transactions, killed after {} ms, up again in {:.1} s, {} wrong",
                if binary_log { " (binary log)" } else { "" },
                acknowledged - before,
                delay.as_millis(),
                took.as_secs_f64(),
                wrong.len()
            ),
        );
        complaints.extend(wrong.into_iter().map(|complaint| format!("round {round}: {complaint}")));
        if !complaints.is_empty() {
            // The rest would fail for the same reason, and the evidence is fresh.
            break;
        }
    }
    let (acknowledged, refused) = accounts::done(&writers);
    if acknowledged == 0 {
        complaints.push("no transaction was acknowledged".to_string());
    }
    let summary = format!(
        "{rounds} kills, {acknowledged} acknowledged transactions, {refused} refused, {in_doubt} in doubt of which {happened} happened"
    );
    conclude(server, summary, complaints)
}

/// Puts all writers on the server and kills it after a while.
fn load(server: &mut Server, writers: &mut [Writer], delay: Duration, random: &mut StdRng) -> Result<()> {
    let socket = server.socket().to_path_buf();
    let stop = AtomicBool::new(false);
    let conduct = Conduct { stop: &stop, faults: false, innodb: false, limit: ANSWER_LIMIT };
    let clients = writers.iter_mut().map(|writer| {
        let (socket, random) = (&socket, StdRng::seed_from_u64(random.random()));
        move |killed: &Killed| {
            if let Some(failure) = killed.unexplained(writer.work(socket, random, conduct)) {
                writer.complain(&failure);
            }
        }
    });
    load_until_killed(server, delay, clients)
}
