//! A node's place in its cluster, and the provider's counters.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mysql::{Conn, OptsBuilder};

use crate::server::session::{Failure, Session};

/// A session for SHOW and SET, in the cluster or not. No answer takes longer than `limit`.
pub fn detached_session(socket: &Path, limit: Duration) -> Result<Session, Failure> {
    let options = OptsBuilder::new()
        .socket(Some(socket.to_string_lossy()))
        .user(Some("root"))
        .read_timeout(Some(limit))
        // Else the client asks for it, and a detached node refuses to tell.
        .max_allowed_packet(Some(16 << 20));
    Ok(Session::over(Conn::new(options)?))
}

/// A node's status variables of the cluster.
pub struct Status(BTreeMap<String, String>);

impl Status {
    /// The status now.
    pub fn read(session: &mut Session) -> Result<Status, Failure> {
        let rows = session.rows("SHOW GLOBAL STATUS LIKE 'wsrep_%'")?;
        let pairs = rows.into_iter().filter_map(|row| <[String; 2]>::try_from(row).ok());
        Ok(Status(pairs.map(|[name, value]| (name, value)).collect()))
    }

    /// The reason why the node is not synced in a cluster of so many nodes; none when it is.
    pub fn lack(&self, nodes: usize) -> Option<String> {
        let wanted = [
            ("wsrep_ready", "ON".to_string()),
            ("wsrep_cluster_status", "Primary".to_string()),
            ("wsrep_cluster_size", nodes.to_string()),
            ("wsrep_local_state_comment", "Synced".to_string()),
        ];
        wanted.iter().find_map(|(name, value)| {
            let found = self.0.get(*name).map_or("unknown", String::as_str);
            (found != value).then(|| format!("{name} is {found}"))
        })
    }

    /// The counters; 0 for those not known.
    pub fn counters(&self) -> Counters {
        let number = |name: &str| self.0.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        Counters {
            last_committed: number("wsrep_last_committed"),
            to_apply: number("wsrep_local_recv_queue"),
            paused_ns: number("wsrep_flow_control_paused_ns"),
            certification_failures: number("wsrep_local_cert_failures"),
            brute_force_aborts: number("wsrep_local_bf_aborts"),
        }
    }
}

/// Counters of a node at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of the last transaction of the cluster it has committed.
    pub last_committed: u64,
    /// Write sets received and not applied yet.
    pub to_apply: u64,
    /// Nanoseconds of pause by flow control so far.
    pub paused_ns: u64,
    /// Own transactions refused at certification so far.
    pub certification_failures: u64,
    /// Own transactions ended by an applier so far.
    pub brute_force_aborts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pairs: &[(&str, &str)]) -> Status {
        Status(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn the_first_lack_is_named() {
        let mut found = status(&[
            ("wsrep_ready", "ON"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_cluster_size", "2"),
            ("wsrep_local_state_comment", "Synced"),
        ]);
        assert_eq!(found.lack(3).as_deref(), Some("wsrep_cluster_size is 2"));
        assert_eq!(found.lack(2), None);
        found.0.remove("wsrep_ready");
        assert_eq!(found.lack(2).as_deref(), Some("wsrep_ready is unknown"));
    }

    #[test]
    fn counters_are_read_by_name() {
        let found = status(&[
            ("wsrep_last_committed", "17"),
            ("wsrep_flow_control_paused_ns", "5000000000"),
            ("wsrep_local_bf_aborts", "3"),
        ]);
        let counters = found.counters();
        assert_eq!((counters.last_committed, counters.paused_ns), (17, 5_000_000_000));
        assert_eq!((counters.brute_force_aborts, counters.certification_failures), (3, 0));
    }
}
