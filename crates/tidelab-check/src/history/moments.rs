//! The graph of a history's moments.
//!
//! A transaction begins, reads at one or several moments, and commits at one. An edge from a to b: b comes
//! later.
//!
//! - `ww`: a's writer committed before b's writer did. When b reads at one moment only, a's writer committed
//!   before that moment: b writes nothing changed since;
//! - `wr`: a's writer committed before the moment of b's read;
//! - `rw`: the moment of a read comes before the commit of the next value; when the read locked, the reader's
//!   commit does;
//! - time: a transaction ended before another's beginning comes before it.
//!
//! A store's promise gives the number of reading moments of a transaction, and the relation of its reads to
//! its commit: at it, or also earlier. A kept promise makes no cycle: each edge then goes forward in the
//! store's own order of events.

use std::collections::hash_map::Entry;
use std::collections::HashMap;

use petgraph::graph::{DiGraph, NodeIndex};

use super::anomaly::Rung;
use super::record::{Element, Key, Outcome};
use super::versions::{Read, Versions};

/// The effect of a locking read of a missing key on other transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Nothing.
    Open,
    /// The very key, when it was asked for.
    Keys,
    /// Also every key of a range asked for.
    Ranges,
}

impl Gaps {
    /// True if the read's result, also a missing row, stays so until the reader ends.
    fn protects(self, read: &Read) -> bool {
        let absent = match self {
            Gaps::Open => false,
            Gaps::Keys => !read.range,
            Gaps::Ranges => true,
        };
        read.access.locks() && (read.version.is_some() || absent)
    }
}

/// A begin, a read or a commit: a node of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// The transaction's place in the history.
    pub of: usize,
}

/// Why one event comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Within one transaction.
    Within,
    /// `to` was written over `from`.
    Ww {
        /// The key.
        key: Key,
        /// The earlier element.
        from: Element,
        /// The later one.
        to: Element,
    },
    /// `element` was read.
    Wr {
        /// The key.
        key: Key,
        /// The value.
        element: Element,
    },
    /// The read value was replaced by `next`.
    Rw {
        /// The key.
        key: Key,
        /// The read value; none: the key was missing.
        seen: Option<Element>,
        /// The next value.
        next: Element,
        /// It was one key of a range.
        range: bool,
    },
    /// One ended before the other began.
    Time,
}

/// The graph.
pub type Graph = DiGraph<HistoryEvent, Edge>;

/// The owner of a reading moment: the transaction, a statement, or one row of a statement.
type Unit = (usize, Option<(usize, Option<Key>)>);

struct Builder<'v, 'h> {
    versions: &'v Versions<'h>,
    graph: Graph,
    begins: Vec<NodeIndex>,
    commits: Vec<Option<NodeIndex>>,
    units: HashMap<Unit, NodeIndex>,
}

/// The graph, without a cycle when the promise was kept.
pub fn graph(versions: &Versions<'_>, rung: Rung, gaps: Gaps) -> Graph {
    let mut builder = Builder {
        versions,
        graph: Graph::new(),
        begins: Vec::new(),
        commits: Vec::new(),
        units: HashMap::new(),
    };
    builder.add_transactions();
    builder.add_time();
    if rung >= Rung::Reads {
        builder.add_reads(rung, gaps);
    }
    builder.add_writes(rung);
    builder.graph
}

impl Builder<'_, '_> {
    fn add_transactions(&mut self) {
        for of in 0..self.versions.history.transactions.len() {
            let begin = self.graph.add_node(HistoryEvent { of });
            let commit = self.versions.committed[of].then(|| self.graph.add_node(HistoryEvent { of }));
            if let Some(commit) = commit {
                self.graph.add_edge(begin, commit, Edge::Within);
            }
            self.begins.push(begin);
            self.commits.push(commit);
        }
    }

    /// Edges from ended transactions to those begun later. Redundant edges are left out, so each transaction
    /// has at most as many as there are clients.
    fn add_time(&mut self) {
        let transactions = &self.versions.history.transactions;
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (of, transaction) in transactions.iter().enumerate() {
            // At one time beginnings come first: only who ended earlier comes before.
            events.push((transaction.began, false, of));
            if transaction.outcome == Outcome::Committed {
                events.push((transaction.ended, true, of));
            }
        }
        events.sort_unstable();
        let mut ended: Vec<usize> = Vec::new();
        let mut before: HashMap<usize, Vec<usize>> = HashMap::new();
        for (_, end, of) in events {
            if end {
                let covered = before.remove(&of).unwrap_or_default();
                ended.retain(|earlier| !covered.contains(earlier));
                ended.push(of);
            } else {
                for earlier in &ended {
                    if let Some(commit) = self.commits[*earlier] {
                        self.graph.add_edge(commit, self.begins[of], Edge::Time);
                    }
                }
                before.insert(of, ended.clone());
            }
        }
    }

    fn add_writes(&mut self, rung: Rung) {
        for (key, (by, from), (next_by, to)) in self.versions.successions() {
            let (Some(earlier), Some(commit)) = (self.commits[by], self.commits[next_by]) else { continue };
            let unit = self.units.get(&(next_by, None)).filter(|_| rung >= Rung::Snapshot);
            if by != next_by {
                self.graph.add_edge(earlier, unit.copied().unwrap_or(commit), Edge::Ww { key, from, to });
            }
        }
    }

    fn add_reads(&mut self, rung: Rung, gaps: Gaps) {
        let mut statement_before: Option<(usize, NodeIndex)> = None;
        for read in &self.versions.reads {
            let commit = self.commits[read.by];
            let protected = gaps.protects(read);
            let unit = match rung {
                Rung::Writes | Rung::Reads | Rung::Locks => None,
                Rung::Rows => Some((read.by, Some((read.statement, Some(read.key))))),
                Rung::Statements if !read.access.locks() => Some((read.by, Some((read.statement, None)))),
                Rung::Snapshot | Rung::Serial if !read.access.locks() || protected => Some((read.by, None)),
                Rung::Statements | Rung::Snapshot | Rung::Serial => {
                    Some((read.by, Some((read.statement, Some(read.key)))))
                }
            };
            let moment = unit.map(|unit| self.moment(unit));
            if let (Rung::Statements, Some(moment), false) = (rung, moment, read.access.locks()) {
                if let Some((of, earlier)) = statement_before {
                    if of == read.by && earlier != moment {
                        self.graph.update_edge(earlier, moment, Edge::Within);
                    }
                }
                statement_before = Some((read.by, moment));
            }
            if let Some(element) = read.version {
                let writer = self.versions.writer(read.key, element).filter(|written| written.by != read.by);
                let from = writer.and_then(|written| self.commits[written.by]);
                if let (Some(from), Some(to)) = (from, moment.or(commit)) {
                    self.graph.add_edge(from, to, Edge::Wr { key: read.key, element });
                }
            }
            // The order after its own write is a matter of writes.
            if rung < Rung::Locks || read.own {
                continue;
            }
            let held = commit.filter(|_| protected || rung == Rung::Serial);
            for (by, next) in self.versions.next(read.key, read.version) {
                let Some(to) = self.commits[by].filter(|_| by != read.by) else { continue };
                let edge = Edge::Rw { key: read.key, seen: read.version, next, range: read.range };
                if let Some(moment) = moment {
                    self.graph.add_edge(moment, to, edge);
                }
                if let Some(held) = held {
                    self.graph.add_edge(held, to, edge);
                }
            }
        }
    }

    fn moment(&mut self, unit: Unit) -> NodeIndex {
        match self.units.entry(unit) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let of = unit.0;
                let moment = *entry.insert(self.graph.add_node(HistoryEvent { of }));
                self.graph.add_edge(self.begins[of], moment, Edge::Within);
                if let Some(commit) = self.commits[of] {
                    self.graph.add_edge(moment, commit, Edge::Within);
                }
                moment
            }
        }
    }
}
