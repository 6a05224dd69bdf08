//! The location of a server's store, from its data directory.
//!
//! The server records the place in the data directory's file `tidesdb_store`. A copied data directory has the
//! original's record: it counts only while the store there names this data directory as its own.

use std::fs;
use std::path::{Path, PathBuf};

use tidesdb::Error;

/// Name of a store's directory in a server's data directory, and next to one.
const INSIDE: &str = "#tidesdb";
const BESIDE: &str = "tidesdb_data";

/// The server's record: an identity, the store's place, and parts of no account here.
const RECORD: &str = "tidesdb_store";
const IDENTITY: &str = "tidesdb_identity";
/// The store's: an identity, and the data directory's place.
const OWNER: &str = "OWNER";

fn line(path: &Path, number: usize) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().nth(number).filter(|line| !line.is_empty()).map(str::to_string)
}

/// The recorded place, if it is this data directory's.
fn recorded(data: &Path) -> Option<PathBuf> {
    let record = data.join(RECORD);
    let identity = line(&data.join(IDENTITY), 0);
    if identity.is_some_and(|identity| line(&record, 0) != Some(identity)) {
        return None;
    }
    let place = PathBuf::from(line(&record, 1)?);
    let owner = line(&place.join(OWNER), 1);
    let is_ours = owner.is_none_or(|owner| Path::new(&owner) == data);
    (place.is_absolute() && is_ours).then_some(place)
}

/// The store's place of the server on the data directory `data`, made yet or not.
pub fn store_of(data: &Path) -> tidesdb::Result<PathBuf> {
    let data = data.canonicalize().map_err(|error| Error::io("realpath", data, error))?;
    if let Some(place) = recorded(&data) {
        return Ok(place);
    }
    let inside = data.join(INSIDE);
    Ok(match (inside.is_dir(), data.parent()) {
        (false, Some(parent)) => parent.join(BESIDE),
        _ => inside,
    })
}

/// The store at a path: a store's directory or a server's data directory. Any other path is left as it is.
pub fn store_at(path: PathBuf) -> PathBuf {
    let is_data = [RECORD, IDENTITY, INSIDE].iter().any(|name| path.join(name).exists());
    match store_of(&path) {
        Ok(store) if is_data && !path.join("CURRENT").exists() && store.is_dir() => store,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
        fs::write(path, text).expect("writes");
    }

    #[test]
    fn a_data_directory_tells_where_its_store_is() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path().canonicalize().expect("a path");
        let (data, fast) = (root.join("mysql"), root.join("fast"));
        fs::create_dir_all(&data).expect("makes");
        assert_eq!(store_at(data.clone()), data, "no data directory of ours");
        assert_eq!(store_of(&data).expect("a place"), root.join(BESIDE));
        fs::create_dir_all(data.join(INSIDE)).expect("makes");
        assert_eq!(store_at(data.clone()), data.join(INSIDE));

        write(data.join(IDENTITY), "a1\n");
        write(data.join(RECORD), &format!("a1\n{}\nmade\nmark\n", fast.display()));
        assert_eq!(store_of(&data).expect("a place"), fast, "it is to be restored");
        write(fast.join(OWNER), &format!("a1\n{}\n", data.display()));
        assert_eq!(store_at(data.clone()), fast);
        assert_eq!(store_at(fast.clone()), fast, "a store");
        write(fast.join(OWNER), "a1\n/elsewhere\n");
        assert_eq!(store_at(data.clone()), data.join(INSIDE), "the record of the original of a copy");
        write(fast.join(OWNER), &format!("a1\n{}\n", data.display()));
        write(data.join(IDENTITY), "b2\n");
        assert_eq!(store_at(data.clone()), data.join(INSIDE), "the record of another identity");
    }
}
