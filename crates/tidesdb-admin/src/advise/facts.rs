//! Facts about a server, relevant to all of its tables.

/// The facts.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub version: String,
    /// The plugin is loaded.
    pub has_engine: bool,
    pub data_directory: String,
    /// Free bytes there, if this program can look.
    pub free: Option<u64>,
    pub binary_log: bool,
    pub is_replica: Option<bool>,
    pub gtid_pos_engines: String,
    pub encrypts_tables: bool,
    pub encrypts_aria: bool,
    pub galera: bool,
    /// `sql_mode` has NO_ENGINE_SUBSTITUTION.
    pub refuses_unknown_engines: bool,
    /// Tables of the server's own databases.
    pub system_tables: u64,
    /// Judged for a move by dump, which makes tables anew.
    pub by_dump: bool,
    /// Why sizes of files were not read, where they were not.
    pub unread_sizes: Option<String>,
    /// Why dropped foreign keys were not read, where they were not.
    pub unread_keys: Option<String>,
}

impl Facts {
    /// ALTER by copy lets others write since 11.2.
    pub fn copies_online(&self) -> bool {
        let mut parts = self.version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next(), parts.next()) >= (Some(11), Some(2))
    }
}
