//! A round's choices: the kind of file, the change to it, and the moment.

use rand::rngs::StdRng;
use rand::RngExt;

use super::hit::Way;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A file of tables.
    Tables,
    /// One of the dictionary's copies.
    Dictionary,
    /// A run of a prepared transaction.
    Run,
    /// A segment of the log.
    Log,
    /// The manifest in force ...
    Manifest,
    /// ... and the file with its name.
    Current,
    /// The store's owner.
    Owner,
    /// The data directory's identity, named by the owner.
    Identity,
    /// The data directory's record of its store.
    Record,
}

/// The state of the server at the hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It goes on.
    Running,
    /// By SIGKILL.
    Killed,
    /// In order.
    Stopped,
}

/// A round's choices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The kind of file.
    pub(super) kind: Kind,
    /// The change to the file.
    pub(super) way: Way,
    /// When.
    pub(super) state: State,
}

/// Rounds of the short form: one for each kind of loss.
pub(super) const SHORT: [Plan; 5] = [
    Plan { kind: Kind::Tables, way: Way::Flip, state: State::Running },
    Plan { kind: Kind::Tables, way: Way::Remove, state: State::Killed },
    Plan { kind: Kind::Log, way: Way::Zero, state: State::Killed },
    Plan { kind: Kind::Dictionary, way: Way::Cut, state: State::Stopped },
    Plan { kind: Kind::Manifest, way: Way::Flip, state: State::Stopped },
];

impl Plan {
    /// Choices of the long form.
    pub(super) fn draw(random: &mut StdRng) -> Plan {
        const KINDS: [Kind; 14] = [
            Kind::Tables,
            Kind::Tables,
            Kind::Tables,
            Kind::Tables,
            Kind::Dictionary,
            Kind::Run,
            Kind::Log,
            Kind::Log,
            Kind::Log,
            Kind::Manifest,
            Kind::Current,
            Kind::Owner,
            Kind::Identity,
            Kind::Record,
        ];
        const WAYS: [Way; 5] = [Way::Flip, Way::Cut, Way::Zero, Way::Remove, Way::Swap];
        const STATES: [State; 3] = [State::Running, State::Killed, State::Stopped];
        let kind = KINDS[random.random_range(0..KINDS.len())];
        // Of the others there is one file.
        let ways =
            if matches!(kind, Kind::Tables | Kind::Log | Kind::Run) { WAYS.len() } else { WAYS.len() - 1 };
        let way = WAYS[random.random_range(0..ways)];
        Plan { kind, way, state: STATES[random.random_range(0..STATES.len())] }
    }
}
