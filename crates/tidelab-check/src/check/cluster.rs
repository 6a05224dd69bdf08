//! `cluster`: three nodes of a Galera cluster on this machine, with writers on each of them, while nodes are killed,
//! stopped, cut off and shut down, and definitions come in between.
//!
//! The writers change TidesDB tables, InnoDB tables, and both in a transaction: hot rows, rows of their own, parents and
//! children, rows without a key. Each transaction has a token; its answer is kept outside of the servers
//! ([`ledger`]). After each round all nodes are in the cluster again and equal, table by table. No acknowledged
//! transaction is lost, none happened twice, none is half there, and the conditions of the tables hold ([`judge`]).
//!
//! A node comes back by an incremental transfer: it is never too far behind. One that was killed within a definition needs
//! another's state, by the provider's rules, and so does one that lost its own: the product's state transfer brings it
//! while the writers go on ([`transfer`]). At the end faults are planted, and each
//! must be found ([`plants`]). The rounds' seeds are the check's and the numbers after it.

mod definer;
mod disturbance;
mod judge;
mod ledger;
mod node;
mod nodes;
mod plants;
mod tables;
mod transaction;
mod transfer;
mod writer;

use std::collections::BTreeMap;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;

use self::definer::Definer;
use self::disturbance::Disturbance;
use self::nodes::{Cluster, NODES};
use self::writer::{Scene, Writer};
use super::rounds::{self, Rounds};
use super::{progress, Check, Lab, Verdict};

const ROUNDS: u32 = 40;
/// Two less than there are kinds of disturbances: from the short form's seed on, no node is killed twice or cut from power,
/// which takes longest.
const ROUNDS_SHORT: u32 = 6;
/// Writers of each node.
const WRITERS: usize = 3;
/// Each node commits at least so many transactions in a round, on average.
const FLOOR: u64 = 20;
/// So many numbers of AUTO_INCREMENT are taken on two nodes in a round, on average, at most.
const NUMBERS_TWICE: u64 = 5;
/// The tables are emptied when they have so many tokens.
const MOST_TOKENS: u64 = 40_000;
/// Lines of an error log that say what must not happen to a sound node.
const ALARMS: [&str; 5] = [
    "got signal",
    "Inconsistency detected",
    "Node consistency compromised",
    "Slave SQL: Could not execute",
    BROKEN_TRANSFER,
];
/// Of the donor too, if the joiner was killed.
const BROKEN_TRANSFER: &str = "Process completed with error: wsrep_sst";

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { ROUNDS_SHORT } else { ROUNDS });
    let mut cluster = Cluster::start(lab, &mut StdRng::seed_from_u64(lab.first_seed()))?;
    let mut clients = Clients::new();
    let Rounds { done, mut complaints } = rounds::run(lab, rounds, |number, seed| {
        run_round(&mut cluster, &mut clients, seed, (number + 1, rounds))
    })?;
    if complaints.is_empty() {
        complaints.extend(clients.too_little(done));
        complaints.extend(plants::complaints(&cluster, &mut clients.writers)?);
    }
    let summary = format!(
        "{}; the slowest return of a node {:.1} s, {} with another's state",
        clients.summary(lab, done),
        cluster.slowest.as_secs_f64(),
        cluster.states_taken
    );
    let is_wrong = !complaints.is_empty();
    for mut node in cluster.nodes {
        if !is_wrong {
            // Nobody looks at its files any more.
            node.server.crash()?;
        }
        node.server.stop(is_wrong)?;
    }
    Ok(Verdict { summary, complaints })
}

/// The clients, across the rounds.
struct Clients {
    writers: Vec<Writer>,
    definer: Definer,
    /// Transactions since the tables were emptied.
    tokens: u64,
}

impl Clients {
    fn new() -> Clients {
        let writers =
            (0..NODES * WRITERS).map(|number| Writer::new(number % NODES, number as i64 + 1)).collect();
        Clients { writers, definer: Definer::default(), tokens: 0 }
    }

    fn acknowledged(&self) -> u64 {
        self.writers.iter().map(|writer| writer.ledger.acknowledged).sum()
    }

    /// Puts all on the nodes while `meanwhile` runs.
    fn under_load<T>(
        &mut self,
        scene: &Scene,
        random: &mut StdRng,
        meanwhile: impl FnOnce(&mut StdRng) -> T,
    ) -> T {
        let seed = |random: &mut StdRng| StdRng::seed_from_u64(random.random());
        thread::scope(|scope| {
            let _ends = scene.ends();
            for writer in &mut self.writers {
                let random = seed(random);
                scope.spawn(move || writer.work(scene, random));
            }
            let (definer, of_definer) = (&mut self.definer, seed(random));
            scope.spawn(move || definer.work(scene, of_definer));
            meanwhile(random)
        })
    }

    /// The complaints of a check that did nothing, and of numbers that came twice too often.
    fn too_little(&self, rounds: u32) -> Vec<String> {
        let floor = FLOOR * u64::from(rounds);
        let mut complaints = Vec::new();
        for node in 0..NODES {
            let of_node = self.writers.iter().filter(|writer| writer.node == node);
            let commits: u64 = of_node.map(|writer| writer.ledger.acknowledged).sum();
            if commits < floor {
                complaints.push(format!("{commits} commits on node {}, the floor is {floor}", node + 1));
            }
        }
        let twice = self.errors().get(&1062).copied().unwrap_or(0);
        if twice > NUMBERS_TWICE * u64::from(rounds) {
            complaints.push(format!("AUTO_INCREMENT gave {twice} numbers that were there already"));
        }
        if self.errors().get(&1213).is_none_or(|times| *times < u64::from(rounds)) {
            complaints.push("the writers hardly met each other".to_string());
        }
        if self.definer.done.values().sum::<u64>() < u64::from(rounds) {
            complaints.push(format!("too few definitions: {:?}", self.definer.done));
        }
        complaints
    }

    fn errors(&self) -> BTreeMap<u16, u64> {
        let mut all = BTreeMap::new();
        for (code, times) in self.writers.iter().flat_map(|writer| &writer.errors) {
            *all.entry(*code).or_default() += times;
        }
        all
    }

    fn summary(&self, lab: &Lab<'_>, rounds: u32) -> String {
        let of = |figure: fn(&Writer) -> u64| self.writers.iter().map(figure).sum::<u64>();
        let errors: Vec<String> =
            self.errors().iter().map(|(code, times)| format!("{times} x {code}")).collect();
        format!(
            "{rounds} rounds from seed {}, {} commits, {} refused at COMMIT, {} in doubt of which {} happened; errors {}; \
             {} definitions",
            lab.first_seed(),
            self.acknowledged(),
            of(|writer| writer.ledger.refused),
            of(|writer| writer.ledger.in_doubt),
            of(|writer| writer.ledger.happened),
            errors.join(", "),
            self.definer.done.values().sum::<u64>()
        )
    }
}

/// One round; returns the faults found.
fn run_round(
    cluster: &mut Cluster<'_>,
    clients: &mut Clients,
    seed: u64,
    (number, rounds): (u32, u32),
) -> Result<Vec<String>> {
    let mut random = StdRng::seed_from_u64(seed);
    let lab = cluster.place.lab;
    let plan = match lab.part {
        Some(name) => vec![Disturbance::named(name)?],
        None => Disturbance::plan(seed, lab.short, &mut random),
    };
    let before = clients.acknowledged();
    cluster.nodes.iter_mut().for_each(|node| node.mark_log());
    cluster.broke_transfer = false;
    let start = Instant::now();
    let scene = Scene::new(cluster.sockets());
    let done = clients.under_load(&scene, &mut random, |random| -> Result<Vec<String>> {
        let mut done = Vec::new();
        for disturbance in plan {
            sleep(Duration::from_millis(random.random_range(300..1200)));
            done.push(disturbance.make(cluster, &scene, random)?);
        }
        sleep(Duration::from_millis(random.random_range(200..800)));
        Ok(done)
    });
    let load = start.elapsed();
    let mut wrong: Vec<String> = Vec::new();
    clients.writers.iter_mut().for_each(|writer| wrong.append(&mut writer.complaints));
    wrong.append(&mut clients.definer.complaints);
    wrong.extend(alarms(cluster));
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            // The clients' complaints, too: they may tell why.
            wrong.push(error.to_string());
            return Ok(wrong);
        }
    };
    cluster.await_synced()?;
    wrong.extend(judge::look(cluster, &mut clients.writers, random.random_range(0..NODES))?);
    let commits = clients.acknowledged() - before;
    progress(
        Check::Cluster,
        &format!(
            "seed {seed} ({number} of {rounds}): {}; {commits} commits in {:.1} s, looked at in {:.1} s, {} wrong",
            done.join("; "),
            load.as_secs_f64(),
            (start.elapsed() - load).as_secs_f64(),
            wrong.len()
        ),
    );
    clients.tokens += commits;
    if wrong.is_empty() && clients.tokens > MOST_TOKENS {
        judge::tidy(cluster, &mut clients.writers)?;
        clients.tokens = 0;
    }
    Ok(wrong)
}

/// Lines of the nodes' error logs that no disturbance explains.
fn alarms(cluster: &Cluster<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let is_told = |line: &str, alarm: &str| {
        line.contains(alarm) && !(cluster.broke_transfer && alarm == BROKEN_TRANSFER)
    };
    for node in &cluster.nodes {
        let log = node.log();
        let lines = log.lines().filter(|line| ALARMS.iter().any(|alarm| is_told(line, alarm)));
        found.extend(
            lines.take(3).map(|line| format!("{}: {line} ({})", node.name(), node.directory().display())),
        );
    }
    found
}
