//! The servers of Debian's suites: their list, and each one's prefix. `scripts/setup/servers.sh` brings them;
//! `scripts/setup/servers.list` names them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::release::Version;
use crate::error::{io_error, Error, Result};

/// The name of the default server of `make setup`.
const DEFAULT: &str = "default";
const LIST: &str = include_str!("../../../../scripts/setup/servers.list");

/// A server available from Debian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, as `mariadb-10.11`.
    pub name: &'static str,
    /// `mariadb` or `mysql`: the start of its prefix's name.
    pub family: &'static str,
    /// The beginning of the name's versions.
    pub series: &'static str,
    /// Its suite of Debian.
    pub suite: &'static str,
    /// Brought by `make setup`, with the headers for building the plugin.
    pub by_setup: bool,
}

/// All, in the order of the list.
pub fn entries() -> Vec<Entry> {
    LIST.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(Entry {
                name: words.next()?,
                family: words.next()?,
                series: words.next()?,
                suite: words.next()?,
                by_setup: words.next()? == "-",
            })
        })
        .collect()
}

/// The one of this name. Errors: there is none.
pub fn entry(name: &str) -> Result<Entry> {
    entries().into_iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = entries().iter().map(|entry| entry.name).collect();
        Error::Usage(format!("there is no server '{name}': {}", names.join(", ")))
    })
}

/// The folder shared by all clones: `TIDESDB_CACHE`, or `tidesdb` in the user's cache.
pub fn cache() -> PathBuf {
    let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("TIDESDB_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|path| path.join("tidesdb")))
        .or_else(|| from("HOME").map(|path| path.join(".cache/tidesdb")))
        .unwrap_or_else(|| PathBuf::from(".cache/tidesdb"))
}

/// The servers of `make setup`, with plugins built for them: the default one first.
pub fn setup_entries() -> impl Iterator<Item = Entry> {
    entries().into_iter().filter(|entry| entry.by_setup)
}

/// The finished prefix of the default server of `make setup`; none where there is none.
pub fn setup_prefix(cache: &Path) -> Option<PathBuf> {
    setup_entries().next()?.prefix(cache)
}

impl Entry {
    /// Its plugin from `make plugin`, by the default server's: `build/ha_tidesdb.so` has
    /// `build/10.11/ha_tidesdb.so` below it. None: no plugin is built for it.
    pub fn plugin(&self, of_default: &Path) -> Option<PathBuf> {
        if !self.by_setup {
            return None;
        }
        if self.name == DEFAULT {
            return Some(of_default.to_path_buf());
        }
        Some(of_default.parent()?.join(self.series).join(of_default.file_name()?))
    }

    /// The argument of `make setup` for it.
    pub fn make_argument(&self) -> String {
        if self.name == DEFAULT {
            String::new()
        } else {
            format!(" SERVER={}", self.series)
        }
    }

    /// Its finished prefix in a cache; none if it was not brought. For the server of `make setup` the one
    /// recorded as its choice, for the others the newest.
    pub fn prefix(&self, cache: &Path) -> Option<PathBuf> {
        if let Some(recorded) = self.recorded(cache) {
            return Some(recorded);
        }
        let mut found: Vec<(Version, u32, PathBuf)> = fs::read_dir(cache)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let (version, recipe) = self.version_in(&name)?;
                let path = entry.path();
                // The stamp is written last: without it the prefix is half made.
                (path.join("complete").is_file() && self.is_named_in(&path))
                    .then_some((version, recipe, path))
            })
            .collect();
        found.sort();
        found.pop().map(|(_, _, path)| path)
    }

    /// The prefix named by `server-11.8-amd64-1` in the cache: setup's record of its choice. An earlier recipe's
    /// record stays there: the newest counts.
    fn recorded(&self, cache: &Path) -> Option<PathBuf> {
        if !self.by_setup {
            return None;
        }
        let records = fs::read_dir(cache).into_iter().flatten().flatten().filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let place = name.strip_prefix("server-")?.strip_prefix(self.series)?;
            let recipe: u32 = place.rsplit('-').next()?.parse().ok()?;
            let said = fs::read_to_string(file.path()).ok()?;
            let version = said.lines().find_map(|line| line.strip_prefix("version="))?;
            let prefix = cache.join(format!("{}-{version}{place}", self.family));
            prefix.join("complete").is_file().then_some((recipe, prefix))
        });
        records.max().map(|(_, prefix)| prefix)
    }

    /// The version and recipe in a prefix's name, when it is of this series: `mariadb-11.8.6-amd64-1` of setup,
    /// `lab-mariadb-10.11.18-amd64-1` of the others.
    fn version_in(&self, name: &str) -> Option<(Version, u32)> {
        let name = if self.by_setup { name } else { name.strip_prefix("lab-")? };
        let mut parts = name.strip_prefix(self.family)?.strip_prefix('-')?.split('-');
        let (version, _arch, recipe) = (parts.next()?, parts.next()?, parts.next()?);
        let of_series =
            version.strip_prefix(self.series).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        if !of_series || parts.next().is_some() {
            return None;
        }
        Some((version.parse().ok()?, recipe.parse().ok()?))
    }

    /// Two names can stand for versions of one series; a prefix names its own.
    fn is_named_in(&self, prefix: &Path) -> bool {
        let said = fs::read_to_string(prefix.join("server")).ok();
        match said {
            Some(said) => said.lines().any(|line| line.strip_prefix("name=") == Some(self.name)),
            None => self.by_setup,
        }
    }
}

/// Brings servers; the script's output goes to the terminal. Errors: it cannot be run, or one of them cannot
/// be had; the script has printed the reason.
pub fn fetch(names: &[String]) -> Result<()> {
    for name in names {
        entry(name)?;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup/servers.sh");
    if !script.is_file() {
        return Err(Error::Missing {
            what: script.display().to_string(),
            remedy: "the sources that this program was built from are gone; run make servers in a clone"
                .to_string(),
        });
    }
    let status = Command::new(&script).args(names).status().map_err(io_error("cannot run", &script))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Usage("not all servers could be brought; what stands above says why".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(cache: &Path, folder: &str, name: Option<&str>, complete: bool) {
        let path = cache.join(folder);
        fs::create_dir_all(&path).unwrap();
        if let Some(name) = name {
            fs::write(path.join("server"), format!("name={name}\nversion=x\n")).unwrap();
        }
        if complete {
            fs::write(path.join("complete"), "").unwrap();
        }
    }

    #[test]
    fn the_list_has_the_promised_servers() {
        let names: Vec<&str> = entries().iter().map(|e| e.name).collect();
        assert_eq!(names, ["default", "mariadb-10.5", "mariadb-10.11", "mariadb-11.8", "mysql-9.7"]);
        assert_eq!(entry("mysql-9.7").unwrap().suite, "sid");
        assert!(entry("default").unwrap().by_setup && !entry("mariadb-10.5").unwrap().by_setup);
        let plugin = |name: &str| entry(name).unwrap().plugin(Path::new("/b/ha_tidesdb.so"));
        assert_eq!(plugin("default").unwrap(), Path::new("/b/ha_tidesdb.so"));
        assert_eq!(plugin("mariadb-10.11").unwrap(), Path::new("/b/10.11/ha_tidesdb.so"));
        assert_eq!(plugin("mariadb-11.8"), None, "a newer one than that of setup");
        assert!(entry("mysql-5.7").unwrap_err().to_string().contains("mariadb-10.11"));
    }

    #[test]
    fn a_name_finds_its_own_newest_whole_prefix() {
        let cache = tempfile::tempdir().unwrap();
        let at = |folder: &str| Some(cache.path().join(folder));
        make(cache.path(), "mariadb-11.8.6-amd64-1", None, true);
        make(cache.path(), "lab-mariadb-11.8.9-amd64-1", Some("mariadb-11.8"), true);
        make(cache.path(), "lab-mariadb-11.8.10-amd64-1", Some("mariadb-11.8"), true);
        make(cache.path(), "lab-mariadb-11.8.11-amd64-1", Some("mariadb-11.8"), false);
        make(cache.path(), "lab-mariadb-10.5.23-amd64-1", Some("mariadb-10.5"), true);
        make(cache.path(), "downloads-mariadb-10.5-amd64", None, true);
        let find = |name: &str| entry(name).unwrap().prefix(cache.path());
        assert_eq!(find("mariadb-11.8"), at("lab-mariadb-11.8.10-amd64-1"));
        assert_eq!(find("default"), at("mariadb-11.8.6-amd64-1"));
        // Setup's record decides, not the newest; a record of a prefix that is gone does not count.
        make(cache.path(), "mariadb-11.8.7-amd64-1", None, true);
        assert_eq!(find("default"), at("mariadb-11.8.7-amd64-1"));
        let record = cache.path().join("server-11.8-amd64-1");
        fs::write(&record, "version=11.8.6\npackage=1:11.8.6-1\nway=pool\n").unwrap();
        assert_eq!(setup_prefix(cache.path()), at("mariadb-11.8.6-amd64-1"));
        // Of two recipes' records the newer one, in whatever order the directory has them.
        for recipe in [2, 9, 10] {
            make(cache.path(), &format!("mariadb-11.8.6-amd64-{recipe}"), None, true);
            fs::write(cache.path().join(format!("server-11.8-amd64-{recipe}")), "version=11.8.6\n").unwrap();
            assert_eq!(find("default"), at(&format!("mariadb-11.8.6-amd64-{recipe}")));
        }
        for recipe in [2, 9, 10] {
            fs::remove_file(cache.path().join(format!("server-11.8-amd64-{recipe}"))).unwrap();
        }
        fs::write(&record, "version=11.8.5\n").unwrap();
        assert_eq!(find("default"), at("mariadb-11.8.7-amd64-1"));
        assert_eq!(find("mariadb-10.5"), at("lab-mariadb-10.5.23-amd64-1"));
        assert_eq!(find("mysql-9.7"), None);
        make(cache.path(), "mariadb-10.11.18-amd64-1", None, true);
        assert_eq!(find("mariadb-10.11"), at("mariadb-10.11.18-amd64-1"));
        assert_eq!(setup_prefix(cache.path()), at("mariadb-11.8.7-amd64-1"), "the default one");
    }
}
