//! Cycles in the graph of moments: the shortest one of each strongly connected part, named and told for a
//! person to follow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{EdgeIndex, NodeIndex};
use petgraph::visit::EdgeRef;

use super::anomaly::{Anomaly, Class, Rung};
use super::moments::{Edge, Graph};
use super::record::{History, Key};

/// So many parts with cycles are told; one bug usually makes many.
const PARTS_TOLD: usize = 5;
/// The effort to find the cycle easiest to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// From a few moments of a part, of one part: its name is wanted.
    Name,
    /// From many moments of several parts: a person will look into this error.
    Explain,
}

/// The cycles of a graph; none: the promise was kept. `rung` is the promise.
pub fn find(graph: &Graph, history: &History, rung: Rung, effort: Effort) -> Vec<Anomaly> {
    let mut parts: Vec<Vec<NodeIndex>> =
        tarjan_scc(graph).into_iter().filter(|part| part.len() > 1).collect();
    parts.sort_by_key(|part| (part.len(), part.iter().min().copied()));
    let (told_parts, starts) = match effort {
        Effort::Name => (1, 4),
        Effort::Explain => (PARTS_TOLD, 100),
    };
    parts
        .iter()
        .take(told_parts)
        .filter_map(|part| lightest(graph, part, starts))
        .map(|edges| told(graph, history, rung, &edges))
        .collect()
}

/// The weight of an edge. The `rw` edges name a cycle, so a short one with many of them says less than a
/// long one with few.
fn weight(edge: Edge) -> u64 {
    match edge {
        Edge::Within => 0,
        Edge::Time => 1,
        Edge::Ww { .. } | Edge::Wr { .. } => 1 << 16,
        Edge::Rw { .. } => 1 << 32,
    }
}

/// The lightest cycle through one of the tried moments of a part.
fn lightest(graph: &Graph, part: &[NodeIndex], starts: usize) -> Option<Vec<EdgeIndex>> {
    let mut inside = vec![false; graph.node_count()];
    for node in part {
        inside[node.index()] = true;
    }
    let mut best: Option<(u64, Vec<EdgeIndex>)> = None;
    // Distance from the start of this round, and the edge by which the moment was reached.
    let mut reached: Vec<(u64, Option<EdgeIndex>)> = Vec::new();
    for start in part.iter().step_by(part.len().div_ceil(starts)) {
        let limit = best.as_ref().map_or(u64::MAX, |(weight, _)| *weight);
        reached.clear();
        reached.resize(graph.node_count(), (u64::MAX, None));
        reached[start.index()] = (0, None);
        let mut queue = BinaryHeap::from([(Reverse(0), *start)]);
        'search: while let Some((Reverse(distance), node)) = queue.pop() {
            if distance > reached[node.index()].0 {
                continue;
            }
            if distance >= limit {
                break;
            }
            for edge in graph.edges(node).filter(|edge| inside[edge.target().index()]) {
                let there = distance + weight(*edge.weight());
                let target = &mut reached[edge.target().index()];
                // The start has no way to it yet: the first that comes back closes the cycle.
                let closes = edge.target() == *start;
                if closes && there < limit {
                    let mut path = vec![edge.id()];
                    let mut at = node;
                    while let Some(by) = reached[at.index()].1 {
                        path.push(by);
                        at = graph.edge_endpoints(by)?.0;
                    }
                    path.reverse();
                    best = Some((there, path));
                    break 'search;
                }
                if there < target.0 {
                    *target = (there, Some(edge.id()));
                    queue.push((Reverse(there), edge.target()));
                }
            }
        }
    }
    best.map(|(_, path)| path)
}

fn told(graph: &Graph, history: &History, rung: Rung, cycle: &[EdgeIndex]) -> Anomaly {
    let mut steps: Vec<(usize, usize, Edge)> = cycle
        .iter()
        .filter_map(|edge| {
            let (from, to) = graph.edge_endpoints(*edge)?;
            Some((graph[from].of, graph[to].of, graph[*edge]))
        })
        .filter(|(_, _, edge)| *edge != Edge::Within)
        .collect();
    // Time needs no steps between.
    let mut place = 0;
    while steps.len() > 1 && place < steps.len() {
        let next = (place + 1) % steps.len();
        if steps[place].2 == Edge::Time && steps[next].2 == Edge::Time {
            steps[place].1 = steps[next].1;
            steps.remove(next);
            place = place.min(steps.len() - 1);
        } else {
            place += 1;
        }
    }
    // Begins with its smallest transaction, wherever the search began.
    if let Some(first) = (0..steps.len()).min_by_key(|place| steps[*place].0) {
        steps.rotate_left(first);
    }
    let mut names: Vec<usize> = Vec::new();
    for (from, _, _) in &steps {
        if !names.contains(from) {
            names.push(*from);
        }
    }
    let name = |of: usize| names.iter().position(|n| *n == of).map_or(0, |place| place + 1);
    let keys: Vec<Key> = steps.iter().filter_map(|(_, _, edge)| key_of(*edge)).collect();
    let mut text = format!("{} transactions", names.len());
    for of in &names {
        text.push_str(&format!("\n    T{} = {}", name(*of), history.transactions[*of].told(&keys)));
    }
    for (from, to, edge) in &steps {
        let (from, to) = (name(*from), name(*to));
        text.push_str("\n    ");
        text.push_str(&match edge {
            Edge::Within => continue,
            Edge::Ww { key, from: a, to: b } => {
                format!("T{from} before T{to} (ww): T{from} wrote {a} to {key}, T{to} wrote {b} over it")
            }
            Edge::Wr { key, element } => {
                format!("T{from} before T{to} (wr): T{to} read {element} in {key}, which T{from} wrote")
            }
            Edge::Rw { key, seen: Some(seen), next, .. } => {
                format!("T{from} before T{to} (rw): T{from} read {key} at {seen}, not yet T{to}'s {next}")
            }
            Edge::Rw { key, seen: None, next, .. } => {
                format!("T{from} before T{to} (rw): T{from} did not find {key}, which T{to} made with {next}")
            }
            Edge::Time => format!("T{from} before T{to} (time): it had ended before T{to} began"),
        });
    }
    let (class, by_time) = classify(&steps);
    Anomaly { class, rung, by_time, text }
}

/// The name of a cycle, and whether it needs the clock.
fn classify(steps: &[(usize, usize, Edge)]) -> (Class, bool) {
    let by_time = steps.iter().any(|(_, _, edge)| *edge == Edge::Time);
    let rw = |edge: &Edge| matches!(edge, Edge::Rw { .. });
    let count = steps.iter().filter(|(_, _, edge)| rw(edge)).count();
    let keys: Vec<Option<Key>> = steps.iter().map(|(_, _, edge)| key_of(*edge)).collect();
    let writes = |edge: &Edge| matches!(edge, Edge::Ww { .. });
    let one_key = keys.windows(2).all(|two| two[0] == two[1]) && keys.first().is_some_and(Option::is_some);
    let adjacent = (0..steps.len()).any(|i| rw(&steps[i].2) && rw(&steps[(i + 1) % steps.len()].2));
    let phantom = steps.iter().any(|(_, _, edge)| matches!(edge, Edge::Rw { seen: None, .. }));
    let class = match count {
        0 if steps.iter().all(|(_, _, edge)| writes(edge) || *edge == Edge::Time) => Class::G0,
        0 => Class::G1c,
        1 if steps.len() == 2 && one_key && steps.iter().any(|(_, _, edge)| writes(edge)) => {
            Class::LostUpdate
        }
        1 => Class::GSingle,
        _ if !adjacent => Class::GNonadjacent,
        _ if phantom => Class::G2,
        _ => Class::G2Item,
    };
    (class, by_time)
}

fn key_of(edge: Edge) -> Option<Key> {
    match edge {
        Edge::Ww { key, .. } | Edge::Wr { key, .. } | Edge::Rw { key, .. } => Some(key),
        Edge::Within | Edge::Time => None,
    }
}
