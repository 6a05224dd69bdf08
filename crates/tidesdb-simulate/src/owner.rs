//! The owner of a store: it recognises its last opened store. It refuses another owner's store, and older copies of its
//! own.

use std::sync::{Arc, Mutex, PoisonError};

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::{Options, RememberedStore, StoreIdentity};

/// The owner's knowledge of its store, from the last opening on.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Option<String>>>);

fn identity(name: &str) -> Option<StoreIdentity> {
    Some(StoreIdentity { identity: name.into(), place: format!("/{name}") })
}

/// Options of an owner to whom the store does not belong.
pub fn another(options: &Options) -> Options {
    Options { identity: identity("another"), ..options.clone() }
}

impl Memory {
    fn with<T>(&self, use_it: impl FnOnce(&mut Option<String>) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The present knowledge, for a copy of the store with a life of its own.
    pub fn of_copy(&self) -> Memory {
        Memory(Arc::new(Mutex::new(self.with(|mark| mark.clone()))))
    }

    /// The owner's options.
    pub fn given_to(&self, options: Options) -> Options {
        let remembered = self.with(|mark| mark.clone());
        let remembered = remembered.map(|mark| RememberedStore { mark, place: "/owner/store".into() });
        Options { identity: identity("owner"), remembered, ..options }
    }

    /// The store is open.
    pub fn note(&self, db: &Db) {
        self.with(|mark| *mark = db.mark());
    }

    /// The owner takes on the store in the directory.
    pub fn forget(&self) {
        self.with(|mark| *mark = None);
    }
}
