//! The settings that make a server a node: provider, ports, addresses of the others.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::server::settings::{hint, setting, Setting};

/// The first port to try: below the system's own for connections, else one of them might have it when a node
/// comes back.
const FIRST_PORT: u16 = 21_000;
const PORTS: u16 = 9_000;
/// More than a cluster has.
const EACH: u16 = 20;

/// The provider, by the variable of `make`, or in the place of Debian's package. Errors: it is not there.
pub fn provider() -> Result<PathBuf> {
    let named = std::env::var_os("WSREP_PROVIDER").filter(|path| !path.is_empty()).map(PathBuf::from);
    existing(named.unwrap_or_else(|| PathBuf::from("/usr/lib/galera/libgalera_smm.so")))
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    match path.is_file() {
        true => Ok(path),
        false => Err(Error::Missing {
            what: format!("Galera's provider {}", path.display()),
            remedy: "scripts/setup/packages.sh galera brings it and prints its path, for WSREP_PROVIDER"
                .to_string(),
        }),
    }
}

/// The ports of a node.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    sql: u16,
    /// Of the group; that of incremental transfers is the next one.
    group: u16,
    incremental: u16,
    /// Of transfers of the whole state.
    state: u16,
}

impl Ports {
    /// The setting of a node with a transfer method that listens on a port.
    pub fn receives_state(self) -> Setting {
        hint("wsrep_sst_receive_address", format!("127.0.0.1:{}", self.state))
    }
}

/// Free ports for so many nodes.
pub fn ports(nodes: usize) -> Result<Vec<Ports>> {
    // Processes that begin at once have numbers next to each other.
    let start = (std::process::id() % u32::from(PORTS / EACH) * u32::from(EACH)) as u16;
    let mut free = (0..PORTS)
        .map(|n| FIRST_PORT + (start + n) % PORTS)
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let mut next = || free.next().ok_or_else(|| Error::Usage("no port of 127.0.0.1 is free".to_string()));
    (0..nodes)
        .map(|_| Ok(Ports { sql: next()?, group: next()?, incremental: next()?, state: next()? }))
        .collect()
}

/// The way a node starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// It makes a cluster.
    New,
    /// It joins the others.
    Join,
}

/// The cluster of a node.
#[derive(Clone, Copy, Debug)]
pub struct Membership<'a> {
    /// The provider's library.
    pub provider: &'a Path,
    /// The ports of all nodes.
    pub ports: &'a [Ports],
    /// `wsrep_sst_method`.
    pub transfer: &'a str,
    /// Options of the provider beyond the addresses, with `;` between them.
    pub options: &'a str,
}

impl Membership<'_> {
    /// The settings of a node, counted from 0. The server may show other values for addresses and switches of the start.
    pub fn settings(&self, number: usize, start: &Start) -> Vec<Setting> {
        let ports = self.ports[number];
        let others = match start {
            Start::New => String::new(),
            Start::Join => {
                let all: Vec<String> = self.ports.iter().map(|p| format!("127.0.0.1:{}", p.group)).collect();
                all.join(",")
            }
        };
        let mut all = vec![
            setting("tidesdb_cluster", "ON"),
            setting("binlog_format", "ROW"),
            setting("innodb_autoinc_lock_mode", "2"),
            setting("skip_networking", "OFF"),
            setting("bind_address", "127.0.0.1"),
            setting("port", ports.sql.to_string()),
            hint("tidesdb", "FORCE".to_string()),
            hint("server_id", (number + 1).to_string()),
            setting("wsrep_on", "ON"),
            // It would make the provider's options read-only, and comes with plugins of its maturity.
            hint("loose-plugin-wsrep-provider", "OFF".to_string()),
            setting("wsrep_provider", self.provider.to_string_lossy()),
            setting("wsrep_cluster_name", "tidelab"),
            hint("wsrep_cluster_address", format!("gcomm://{others}")),
            hint("wsrep_node_name", format!("node{}", number + 1)),
            hint("wsrep_node_address", format!("127.0.0.1:{}", ports.group)),
            hint("wsrep_node_incoming_address", format!("127.0.0.1:{}", ports.sql)),
            setting("wsrep_sst_method", self.transfer),
            hint(
                "wsrep_provider_options",
                format!(
                    "gmcast.listen_addr=tcp://127.0.0.1:{};ist.recv_addr=127.0.0.1:{};{}",
                    ports.group, ports.incremental, self.options
                ),
            ),
        ];
        if *start == Start::New {
            all.push(hint("wsrep_new_cluster", "ON".to_string()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_missing_provider_names_its_remedy() {
        let said = existing(PathBuf::from("/nowhere/libgalera_smm.so")).unwrap_err().to_string();
        assert!(said.contains("/nowhere/libgalera_smm.so") && said.contains("packages.sh galera"), "{said}");
    }

    #[test]
    fn nodes_have_ports_of_their_own_and_one_address_of_the_cluster() {
        let ports = ports(3).unwrap();
        let all: HashSet<u16> = ports.iter().flat_map(|p| [p.sql, p.group, p.incremental, p.state]).collect();
        assert_eq!(all.len(), 12);
        let cluster =
            Membership { provider: Path::new("/p.so"), ports: &ports, transfer: "m", options: "a=1" };
        let value = |settings: &[Setting], name: &str| {
            settings.iter().find(|s| s.name == name).map(|s| s.value.clone()).unwrap_or_default()
        };
        let first = cluster.settings(0, &Start::New);
        assert_eq!(value(&first, "wsrep_cluster_address"), "gcomm://");
        assert_eq!(value(&first, "wsrep_new_cluster"), "ON");
        let (second, third) = (cluster.settings(1, &Start::Join), cluster.settings(2, &Start::Join));
        assert_eq!(value(&second, "wsrep_cluster_address"), value(&third, "wsrep_cluster_address"));
        assert!(value(&third, "wsrep_cluster_address").ends_with(&format!(":{}", ports[2].group)));
        assert!(value(&third, "wsrep_provider_options").ends_with(";a=1"));
        assert_eq!(value(&third, "wsrep_new_cluster"), "");
    }
}
