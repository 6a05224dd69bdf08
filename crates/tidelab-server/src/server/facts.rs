//! The facts of a server, kept with results: version, settings asked for and read back, variables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::release::Release;
use super::settings::Setting;

/// The measured server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerFacts {
    /// Its version.
    pub version: String,
    /// The directory of the installation.
    pub prefix: String,
    /// The settings asked for.
    pub settings: BTreeMap<String, String>,
    /// The values of these settings in the running server. A variable missing in it is left out.
    #[serde(default)]
    pub read_back: BTreeMap<String, String>,
    /// All variables of the engines and those relevant to the comparison, as read back.
    pub variables: BTreeMap<String, String>,
}

impl ServerFacts {
    /// From the settings asked for and the server's variables.
    pub fn new(prefix: &str, asked: &[Setting], variables: &BTreeMap<String, String>) -> ServerFacts {
        const PREFIXES: [&str; 4] = ["tidesdb_", "innodb_", "rocksdb_", "version"];
        const NAMES: [&str; 6] = [
            "character_set_server",
            "collation_server",
            "tx_isolation",
            "table_open_cache",
            "sync_binlog",
            "log_bin",
        ];
        ServerFacts {
            version: variables.get("version").cloned().unwrap_or_default(),
            prefix: prefix.to_string(),
            settings: asked.iter().map(|s| (s.name.to_string(), s.value.clone())).collect(),
            read_back: asked
                .iter()
                .filter_map(|s| Some((s.name.to_string(), variables.get(s.name.as_ref())?.clone())))
                .collect(),
            variables: variables
                .iter()
                .filter(|(name, _)| {
                    PREFIXES.iter().any(|p| name.starts_with(p)) || NAMES.contains(&name.as_str())
                })
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }

    /// The server's release; none if unknown from its version.
    pub fn release(&self) -> Option<Release> {
        let comment = self.variables.get("version_comment").map_or("", String::as_str);
        Release::of_server(&self.version, comment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_stands_beside_what_the_server_says() {
        use super::super::settings::setting;
        let asked = [setting("max_connections", "151"), setting("innodb_buffer_pool_size", "64M")];
        let said = [("innodb_buffer_pool_size", "67108864"), ("hostname", "h")]
            .map(|(n, v)| (n.to_string(), v.to_string()));
        let facts = ServerFacts::new("/p", &asked, &BTreeMap::from(said));
        assert_eq!(facts.settings["innodb_buffer_pool_size"], "64M");
        assert_eq!(facts.read_back["innodb_buffer_pool_size"], "67108864");
        assert!(!facts.read_back.contains_key("max_connections"), "the server says nothing of it");
        assert!(!facts.variables.contains_key("hostname"));
    }
}
