//! The kinds of work that go on alongside the clients.

/// A kind of work alongside the clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    /// Changes of the dictionary.
    Changes,
    /// Families that are filled without locks.
    Loads,
    /// Backups, restored and opened.
    Backups,
    /// Snapshots held long.
    Watchers,
    /// Changes of options.
    Settings,
    /// Clocks that jump.
    Clocks,
    /// Decisions of what others left.
    Decisions,
    /// Transactions with priority.
    Appliers,
}

impl Work {
    /// All kinds.
    pub const ALL: [Work; 8] = [
        Work::Changes,
        Work::Loads,
        Work::Backups,
        Work::Watchers,
        Work::Settings,
        Work::Clocks,
        Work::Decisions,
        Work::Appliers,
    ];

    /// Its name in a list of parts.
    pub fn name(self) -> &'static str {
        match self {
            Work::Changes => "changes",
            Work::Loads => "loads",
            Work::Backups => "backups",
            Work::Watchers => "watchers",
            Work::Settings => "settings",
            Work::Clocks => "clocks",
            Work::Decisions => "decisions",
            Work::Appliers => "appliers",
        }
    }

    /// Whether it ends with an error where a call fails, and would be of no use.
    pub fn needs_sound_disk(self) -> bool {
        matches!(self, Work::Backups | Work::Decisions)
    }

    /// The kind with this name.
    pub fn by_name(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }
}

/// How much of each kind of work there is: so many workers, and so much for each; without workers none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amount {
    /// Coroutines.
    pub workers: u64,
    /// Of each.
    pub rounds: u64,
}
