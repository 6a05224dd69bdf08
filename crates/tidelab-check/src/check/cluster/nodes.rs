//! Three nodes of a cluster on this machine: their first start on equal data, their return after an end.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::Data;

use super::super::Lab;
use super::node::{seqno, Node, Place, Start};
use super::tables;

/// The nodes.
pub(super) const NODES: usize = 3;

/// See the module's comment.
pub(super) struct Cluster<'a> {
    pub(super) place: Place<'a>,
    pub(super) nodes: Vec<Node>,
    /// The longest return of a node so far.
    pub(super) slowest: Duration,
    /// Nodes with the state of another one.
    pub(super) states_taken: u32,
    /// A joiner was killed within a state transfer since the round began: its donor's log says so.
    pub(super) broke_transfer: bool,
}

impl<'a> Cluster<'a> {
    /// Makes the tables on one node, ends it, and starts all of them on copies of its data: so no state transfer is
    /// needed.
    pub(super) fn start(lab: &'a Lab<'a>, random: &mut StdRng) -> Result<Cluster<'a>> {
        let place = Place::of(lab, NODES)?;
        fs::create_dir_all(&lab.directory).map_err(io_error("cannot make", &lab.directory))?;
        let first = place.start(0, &Start::New, Data::Empty, random)?;
        tables::make(&mut first.session()?)?;
        let frozen = lab.directory.join("equal-data");
        first.server.freeze(&frozen)?;
        let mut nodes = vec![place.start(0, &Start::New, Data::Copy(&frozen), random)?];
        let joined = thread::scope(|scope| {
            let starts: Vec<_> = (1..NODES)
                .map(|number| {
                    let (place, frozen) = (&place, &frozen);
                    let mut random = StdRng::seed_from_u64(random.random());
                    scope.spawn(move || place.start(number, &Start::Join, Data::Copy(frozen), &mut random))
                })
                .collect();
            starts.into_iter().map(|start| start.join().expect("a start does not panic")).collect::<Vec<_>>()
        });
        for node in joined {
            nodes.push(node?);
        }
        fs::remove_dir_all(&frozen).map_err(io_error("cannot remove", &frozen))?;
        let mut cluster =
            Cluster { place, nodes, slowest: Duration::ZERO, states_taken: 0, broke_transfer: false };
        cluster.await_synced()?;
        Ok(cluster)
    }

    /// The nodes' sockets.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|node| node.server.socket().to_path_buf()).collect()
    }

    /// Waits until all nodes are in one cluster and have the same.
    pub(super) fn await_synced(&mut self) -> Result<()> {
        let lab = self.place.lab;
        for node in &mut self.nodes {
            node.await_synced(NODES, lab)?;
        }
        Ok(())
    }

    /// Starts a node after its end, at the position of its logs, and waits for its return. One killed within
    /// a definition or a state transfer takes another's state.
    pub(super) fn bring_back(&mut self, number: usize, random: &mut StdRng) -> Result<String> {
        self.return_of(number, false, random)
    }

    /// The same after a power cut: a node that does not know its position takes another's state, too.
    pub(super) fn bring_back_from_power_cut(&mut self, number: usize, random: &mut StdRng) -> Result<String> {
        let is_unknown = self.nodes[number].recover(self.place.lab)?.is_none();
        self.return_of(number, is_unknown, random)
    }

    fn return_of(&mut self, number: usize, is_unknown: bool, random: &mut StdRng) -> Result<String> {
        let began = Instant::now();
        let node = &self.nodes[number];
        if node.has_half_a_state() {
            // InnoDB may not even start with it.
            if let Ok(Some(position)) = node.recover(self.place.lab) {
                let message = format!("it has half a state, and says that its position is {position}");
                return Err(Error::Load { what: node.name(), message });
            }
        }
        let needs_state = is_unknown || node.lost_its_state()?;
        let position = match needs_state {
            true => None,
            false => Some(self.nodes[number].known_position(self.place.lab)?),
        };
        self.start_at(number, &Start::Join, position.as_deref(), random)?;
        let took = began.elapsed();
        self.slowest = self.slowest.max(took);
        self.states_taken += u32::from(needs_state);
        let way = if needs_state { " with another's state" } else { "" };
        Ok(format!("back in {:.1} s{way}", took.as_secs_f64()))
    }

    /// Starts a node at a position, or where its own file says.
    pub(super) fn start_at(
        &mut self,
        number: usize,
        start: &Start,
        position: Option<&str>,
        random: &mut StdRng,
    ) -> Result<()> {
        self.nodes[number].restart(&self.place, start, position, random).map(drop)
    }

    /// After the end of all nodes: the one with the latest position makes a cluster, the others join it.
    pub(super) fn make_anew(&mut self, random: &mut StdRng) -> Result<String> {
        let mut latest: Option<(usize, String)> = None;
        for (number, node) in self.nodes.iter().enumerate() {
            if node.lost_its_state()? {
                continue;
            }
            let position = node.known_position(self.place.lab)?;
            if latest.as_ref().is_none_or(|(_, best)| seqno(best) < seqno(&position)) {
                latest = Some((number, position));
            }
        }
        let Some((first, position)) = latest else {
            return Err(Error::Usage("all nodes were killed within definitions".to_string()));
        };
        self.nodes[first].permit_new_cluster()?;
        self.start_at(first, &Start::New, Some(&position), random)?;
        let mut others = Vec::new();
        for number in (0..NODES).filter(|number| *number != first) {
            others.push(self.bring_back(number, random)?);
        }
        Ok(format!("node {} made a cluster at {position}, the others {}", first + 1, others.join(", ")))
    }

    /// After the end of all nodes: they start at once, and find their cluster again. All have their state.
    pub(super) fn find_again(&mut self, random: &mut StdRng) -> Result<String> {
        let place = &self.place;
        let came = thread::scope(|scope| {
            let starts: Vec<_> = self
                .nodes
                .iter_mut()
                .map(|node| {
                    let mut random = StdRng::seed_from_u64(random.random());
                    scope.spawn(move || {
                        let position = node.known_position(place.lab)?;
                        node.restart(place, &Start::Join, Some(&position), &mut random)
                    })
                })
                .collect();
            starts.into_iter().map(|start| start.join().expect("a start does not panic")).collect::<Vec<_>>()
        });
        for took in came {
            self.slowest = self.slowest.max(took?);
        }
        Ok("all found each other".to_string())
    }
}
