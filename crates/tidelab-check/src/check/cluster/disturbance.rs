//! What happens to nodes while the writers are at work.

use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::RngExt;
use tidelab_server::error::{Error, Result};

use super::super::must;
use super::node::Start;
use super::nodes::{Cluster, NODES};
use super::writer::Scene;

/// A disturbance; each is over when all nodes are in the cluster again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Disturbance {
    /// SIGKILL of a node.
    Kill,
    /// SIGSTOP, then SIGCONT.
    Pause,
    /// SIGKILL of all.
    KillAll,
    /// The network between a node and the others is cut.
    CutOff,
    /// A shutdown in order.
    Restart,
    /// SIGKILL, and again while it comes back.
    KillTwice,
    /// SIGKILL, with the loss of all unsynced bytes.
    PowerCut,
    /// An end, with the loss of its state: it takes another's, and may be killed within the transfer.
    Transfer,
}

impl Disturbance {
    /// All of them.
    pub(super) const ALL: [Disturbance; 8] = [
        Disturbance::Transfer,
        Disturbance::KillTwice,
        Disturbance::PowerCut,
        Disturbance::Pause,
        Disturbance::Restart,
        Disturbance::Kill,
        Disturbance::CutOff,
        Disturbance::KillAll,
    ];

    /// The one of a name: that of its variant, in small letters.
    pub(super) fn named(name: &str) -> Result<Disturbance> {
        let all = Disturbance::ALL.map(|of| (format!("{of:?}").to_lowercase(), of));
        all.iter().find(|(own, _)| own == name).map(|(_, of)| *of).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(own, _)| own.as_str()).collect();
            Error::Usage(format!("{name} is no disturbance: {}", names.join(", ")))
        })
    }

    /// A round's, by its seed: the kinds come in turn, in the long form with more of them after it.
    pub(super) fn plan(seed: u64, short: bool, random: &mut StdRng) -> Vec<Disturbance> {
        let of = |number: u64| Disturbance::ALL[(number % Disturbance::ALL.len() as u64) as usize];
        let more = if short { 0 } else { random.random_range(0..=2) };
        let mut plan = vec![of(seed)];
        plan.extend((0..more).map(|_| of(random.random())));
        plan
    }

    /// Makes it, and waits for the return of all nodes. Returns a text for the progress.
    pub(super) fn make(
        self,
        cluster: &mut Cluster<'_>,
        scene: &Scene,
        random: &mut StdRng,
    ) -> Result<String> {
        scene.note_disturbance();
        let number = random.random_range(0..NODES);
        let name = cluster.nodes[number].name();
        let text = match self {
            Disturbance::Kill => {
                cluster.nodes[number].server.crash()?;
                away(cluster, random);
                format!("{name} killed, {}", cluster.bring_back(number, random)?)
            }
            Disturbance::KillTwice => {
                cluster.nodes[number].server.crash()?;
                away(cluster, random);
                let delay = Duration::from_millis(random.random_range(100..2500));
                let position = match cluster.nodes[number].lost_its_state()? {
                    true => None,
                    false => Some(cluster.nodes[number].known_position(cluster.place.lab)?),
                };
                cluster.broke_transfer |= position.is_none();
                let (place, node) = (&cluster.place, &mut cluster.nodes[number]);
                node.crash_while_starting(place, position.as_deref(), delay, random)?;
                format!(
                    "{name} killed, and again {} ms after its start, {}",
                    delay.as_millis(),
                    cluster.bring_back(number, random)?
                )
            }
            Disturbance::Restart => {
                cluster.nodes[number].shut_down()?;
                away(cluster, random);
                if random.random_bool(0.5) {
                    cluster.bring_back(number, random)?;
                } else {
                    cluster.start_at(number, &Start::Join, None, random)?;
                }
                format!("{name} shut down and started")
            }
            Disturbance::Pause => {
                let time = break_of(cluster, random);
                cluster.nodes[number].signal(Signal::SIGSTOP)?;
                sleep(time);
                cluster.nodes[number].signal(Signal::SIGCONT)?;
                format!("{name} stopped for {} ms", time.as_millis())
            }
            Disturbance::CutOff => {
                let time = break_of(cluster, random);
                cut_off(cluster, number, time)?;
                format!("{name} cut off for {} ms", time.as_millis())
            }
            Disturbance::PowerCut => {
                let load = Duration::from_millis(random.random_range(300..2000));
                format!("{name} {}", cut_power(cluster, number, load, random)?)
            }
            Disturbance::Transfer => format!("{name} {}", take_state(cluster, number, random)?),
            Disturbance::KillAll => kill_all(cluster, scene, random)?,
        };
        cluster.await_synced()?;
        Ok(text)
    }
}

/// The others go on alone for a while.
fn away(cluster: &Cluster<'_>, random: &mut StdRng) {
    let most = if cluster.place.lab.short { 500 } else { 2000 };
    sleep(Duration::from_millis(random.random_range(0..most)));
}

/// For a moment, or until the others have given the node up.
fn break_of(cluster: &Cluster<'_>, random: &mut StdRng) -> Duration {
    let most = if cluster.place.lab.short { 2500 } else { 6000 };
    Duration::from_millis(random.random_range(100..most))
}

/// The provider closes its connections and takes no new one.
fn cut_off(cluster: &Cluster<'_>, number: usize, time: Duration) -> Result<()> {
    let node = &cluster.nodes[number];
    let isolate = |value: u32| -> Result<()> {
        let set = format!("SET GLOBAL wsrep_provider_options = 'gmcast.isolate={value}'");
        must(&set, node.detached_session().and_then(|mut session| session.run(&set))).map(drop)
    };
    isolate(1)?;
    sleep(time);
    isolate(0)
}

/// The node is started with a recorder of its changes, works for a while, and is cut from power.
fn cut_power(
    cluster: &mut Cluster<'_>,
    number: usize,
    load: Duration,
    random: &mut StdRng,
) -> Result<String> {
    cluster.nodes[number].shut_down()?;
    cluster.nodes[number].record_changes(random)?;
    cluster.start_at(number, &Start::Join, None, random)?;
    sleep(load);
    let taken = cluster.nodes[number].cut_power(&cluster.place, random)?;
    Ok(format!(
        "cut from power after {} ms, {} of {} unsynced changes lost, {}",
        load.as_millis(),
        taken.changes,
        taken.unsynced,
        cluster.bring_back_from_power_cut(number, random)?
    ))
}

/// The node ends, loses its state, and takes another's while the others go on.
fn take_state(cluster: &mut Cluster<'_>, number: usize, random: &mut StdRng) -> Result<String> {
    let node = &mut cluster.nodes[number];
    let end = if random.random_bool(0.5) { "killed" } else { "shut down" };
    match end {
        "killed" => node.server.crash()?,
        _ => node.shut_down()?,
    }
    let all = random.random_bool(0.3);
    node.lose_state(all)?;
    let lost = if all { "all of its data" } else { "its state" };
    let mut again = "";
    if random.random_bool(0.5) {
        let (place, node) = (&cluster.place, &mut cluster.nodes[number]);
        if !node.crash_in_transfer(place, random)? {
            return Err(Error::Load {
                what: node.name(),
                message: "no state transfer began, and it has no state".to_string(),
            });
        }
        cluster.broke_transfer = true;
        again = ", killed within a state transfer";
    }
    Ok(format!("{end} and without {lost}{again}, {}", cluster.bring_back(number, random)?))
}

/// Each node keeps its answered commits: InnoDB's log must be written for it. No definition is under way, as the provider takes
/// the state of no node killed within one for the cluster's.
fn kill_all(cluster: &mut Cluster<'_>, scene: &Scene, random: &mut StdRng) -> Result<String> {
    let _none = scene.no_definitions();
    // Those that others have answered end meanwhile, and InnoDB writes once a second what earlier commits left.
    if cluster.place.flushes_late() {
        for node in &cluster.nodes {
            let set = "SET GLOBAL innodb_flush_log_at_trx_commit = 2";
            must(set, node.detached_session().and_then(|mut session| session.run(set)))?;
        }
    }
    sleep(Duration::from_millis(1500));
    let first = random.random_range(0..NODES);
    for number in 0..NODES {
        cluster.nodes[(first + number) % NODES].server.crash()?;
        sleep(Duration::from_millis(random.random_range(0..15)));
    }
    let mut all_have_state = true;
    for node in &cluster.nodes {
        all_have_state &= !node.lost_its_state()?;
    }
    let how = match random.random_bool(0.5) && all_have_state {
        true => cluster.find_again(random)?,
        false => cluster.make_anew(random)?,
    };
    Ok(format!("all killed, {how}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_disturbance_has_a_name() {
        assert_eq!(Disturbance::named("killall").unwrap(), Disturbance::KillAll);
        assert!(Disturbance::named("rain").is_err());
    }

    #[test]
    fn as_many_rounds_as_there_are_kinds_have_each_of_them() {
        let mut random = StdRng::seed_from_u64(1);
        let kinds: BTreeSet<Disturbance> =
            (6003..6011).flat_map(|seed| Disturbance::plan(seed, true, &mut random)).collect();
        assert_eq!(kinds.len(), Disturbance::ALL.len());
    }
}
