//! The store's expiry clock: what ties it to the disk's wall clock, to flushes and merges, and to the manifest.

use crate::error::Result;
use crate::iter::LiveSnapshots;
use crate::store::Store;
use crate::types::Seq;
use crate::version::Edit;

impl Store {
    fn wall(&self) -> u64 {
        self.versions.disk().unix_seconds()
    }

    /// The present second of the expiry clock.
    pub(crate) fn expiry_second(&self) -> u64 {
        self.ttl_clock.read(self.wall())
    }

    /// The second up to which merges may bury entries; 0 in a store that has none with an expiry.
    pub(crate) fn expired_at(&self) -> u64 {
        match self.ttl_clock.is_used() {
            true => self.ttl_clock.bury(self.wall()),
            false => 0,
        }
    }

    /// What a flush or a merge that begins now must keep.
    pub(crate) fn live_snapshots(&self, visible_seq: Seq) -> LiveSnapshots {
        LiveSnapshots { expired_at: self.expired_at(), ..self.snapshots.capture(visible_seq) }
    }

    /// The first entry with an expiry is about to be written: the manifest says so before anything else on disk
    /// does. An older build refuses such a manifest by the field's tag, and so never takes the time in front of a
    /// value for a part of it.
    pub(crate) fn begin_expiries(&self) -> Result<()> {
        if self.ttl_clock.is_used() {
            return Ok(());
        }
        self.check_writable()?;
        self.install(Edit { expiry_clock: Some(self.expiry_second()), ..Edit::default() })?;
        self.ttl_clock.set_used();
        Ok(())
    }
}
