//! The state transfer of the nodes: the product's, `wsrep_sst_tidesdb`, with the server's scripts and rsync. The provider
//! runs it for incremental transfers too, on both sides.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// In the joiner's store, from before the first file until after the last.
const MARK: &str = "tidesdb_data/RESTORING";

/// True for a node with half a state.
pub(super) fn is_half(directory: &Path) -> bool {
    directory.join(MARK).exists()
}

/// Waits until the node in this directory has half a state; false if it does not come to that.
pub(super) fn await_half(directory: &Path, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if is_half(directory) {
            return true;
        }
        sleep(Duration::from_millis(2));
    }
    false
}
