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
/// A node answers after this time, with all that it lacked.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// See the module's comment.
pub(super) struct Cluster<'a> {
    pub(super) place: Place<'a>,
    pub(super) nodes: Vec<Node>,
    /// The longest return of a node so far.
    pub(super) slowest: Duration,
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
        let mut cluster = Cluster { place, nodes, slowest: Duration::ZERO };
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

    /// Starts a node that ended, at the position that its logs tell, and waits for its return.
    pub(super) fn bring_back(
        &mut self,
        number: usize,
        start: &Start,
        random: &mut StdRng,
    ) -> Result<Duration> {
        let began = Instant::now();
        let position = self.nodes[number].recover(self.place.lab)?;
        self.start_at(number, start, Some(&position), random)?;
        let took = began.elapsed();
        self.slowest = self.slowest.max(took);
        Ok(took)
    }

    /// The same without asking for the position: after an end in order its file has it.
    pub(super) fn start_at(
        &mut self,
        number: usize,
        start: &Start,
        position: Option<&str>,
        random: &mut StdRng,
    ) -> Result<()> {
        let took = self.nodes[number].restart(&self.place, start, position, random)?;
        in_time(&self.nodes[number], took)
    }

    /// After the end of all nodes: the one with the latest position makes a cluster, the others join it.
    pub(super) fn make_anew(&mut self, random: &mut StdRng) -> Result<String> {
        let mut latest = (0, -1);
        for (number, node) in self.nodes.iter().enumerate() {
            let position = seqno(&node.recover(self.place.lab)?).unwrap_or(-1);
            if position > latest.1 {
                latest = (number, position);
            }
        }
        self.nodes[latest.0].permit_new_cluster()?;
        self.bring_back(latest.0, &Start::New, random)?;
        for number in (0..NODES).filter(|number| *number != latest.0) {
            self.bring_back(number, &Start::Join, random)?;
        }
        Ok(format!("node {} made a cluster at {}", latest.0 + 1, latest.1))
    }

    /// After the end of all nodes: they start at once, and find their cluster again.
    pub(super) fn find_again(&mut self, random: &mut StdRng) -> Result<String> {
        let place = &self.place;
        let came = thread::scope(|scope| {
            let starts: Vec<_> = self
                .nodes
                .iter_mut()
                .map(|node| {
                    let mut random = StdRng::seed_from_u64(random.random());
                    scope.spawn(move || {
                        let position = node.recover(place.lab)?;
                        let took = node.restart(place, &Start::Join, Some(&position), &mut random)?;
                        in_time(node, took).map(|()| took)
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

fn in_time(node: &Node, took: Duration) -> Result<()> {
    if took <= ANSWERS_WITHIN {
        return Ok(());
    }
    Err(Error::Load {
        what: node.name(),
        message: format!(
            "answered {:.0} s after its start: {} s is the limit",
            took.as_secs_f64(),
            ANSWERS_WITHIN.as_secs()
        ),
    })
}
