//! Reasons against measuring an engine on a server.

use tidelab_server::error::Result;
use tidelab_server::server::catalogue::{self, Entry};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::release::Installation;
use tidelab_server::server::source::FoundServer;

use super::super::measured_server::{connect, rows_of};

/// Why an engine cannot be measured on a server from Debian's suites; none: it can.
pub(super) fn lacks_by_name(entry: &Entry, engine: Engine) -> Option<String> {
    match engine {
        Engine::TidesDb if !entry.by_setup => {
            let names: Vec<&str> = catalogue::setup_entries().map(|entry| entry.name).collect();
            Some(format!("its plugin is for {} and is refused by any other", names.join(" and ")))
        }
        Engine::RocksDb if entry.family == "mysql" => Some("Debian's MySQL has no MyRocks".to_string()),
        _ => None,
    }
}

/// The server of `make setup` with this one's release: both take the same plugin.
pub(super) fn setup_server(installation: &Installation) -> Result<Option<Entry>> {
    let cache = catalogue::cache();
    for entry in catalogue::setup_entries() {
        let Some(prefix) = entry.prefix(&cache) else { continue };
        if Installation::at(&prefix)?.release == installation.release {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Why an engine cannot be measured on a server; none: it can.
pub(super) fn lacks(server: &FoundServer, engine: Engine) -> Result<Option<String>> {
    match (server, engine) {
        (FoundServer::Installed(_), Engine::InnoDb) => Ok(None),
        (FoundServer::Installed(installation), Engine::TidesDb) => {
            let found = setup_server(installation)?.is_some();
            Ok((!found).then(|| {
                "its plugin is for the servers of make setup and is refused by any other".to_string()
            }))
        }
        (FoundServer::Installed(installation), Engine::RocksDb) => {
            let plugin = engine.plugin().unwrap_or_default();
            let has = ["lib/mysql/plugin", "lib/plugin"]
                .iter()
                .any(|folder| installation.prefix.join(folder).join(plugin).exists());
            let why = || format!("there is no {plugin} in {}", installation.prefix.display());
            Ok((!has).then(why))
        }
        (FoundServer::Running(existing), _) => {
            let mut session = connect(existing.address())?;
            let query = format!(
                "SELECT COUNT(*) FROM information_schema.ENGINES WHERE ENGINE = '{}' AND SUPPORT IN ('YES', 'DEFAULT')",
                engine.name()
            );
            let has =
                rows_of(&mut session)(&query)?.first().and_then(|row| row.first()).is_some_and(|n| n == "1");
            Ok((!has).then(|| "it says that it has none".to_string()))
        }
    }
}
