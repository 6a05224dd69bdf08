//! The owner of a store: it knows the store again that it opened last. Another's store is refused, and so are older copies
//! of its own.

use std::sync::{Arc, Mutex, PoisonError};

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::{Options, RememberedStore, StoreIdentity};

/// What an owner knows of its store, from the last opening on.
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

    /// What is known now, for a copy of the store that goes on by itself.
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

    /// The owner takes on the store that is there.
    pub fn forget(&self) {
        self.with(|mark| *mark = None);
    }
}
