//! The programs of the running server.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::connection::{Address, Connection};
use crate::output::Failure;

/// Their places, and the needs of a second server of this kind.
pub struct Programs {
    pub server: PathBuf,
    pub client: PathBuf,
    pub dump: PathBuf,
    /// Its path, if installed.
    pub backup: Option<PathBuf>,
    pub base: String,
    pub plugins: String,
    pub lower_case: String,
}

impl Programs {
    /// Those of the connection's server: it has the engine and runs on this machine.
    pub fn of(server: &mut Connection) -> Result<Programs, Failure> {
        let rows = server.rows(
            "SELECT @@basedir, @@plugin_dir, @@lower_case_table_names FROM information_schema.ENGINES \
             WHERE ENGINE = 'TidesDB' AND SUPPORT IN ('YES', 'DEFAULT')",
        )?;
        let row: Option<[String; 3]> = rows.into_iter().next().and_then(|row| row.try_into().ok());
        let Some([base, plugins, lower_case]) = row else {
            return Err(Failure::Other(format!("{}: the server has no engine TidesDB", server.place)));
        };
        let find = |names: [&str; 2]| {
            let directories = ["bin", "sbin"].map(|name| Path::new(&base).join(name));
            let mut paths =
                directories.iter().flat_map(|directory| names.iter().map(|name| directory.join(name)));
            paths.find(|path| path.is_file()).ok_or_else(|| {
                let what = format!("no program {} in bin and sbin of {base}, the server's basedir", names[0]);
                Failure::Other(what)
            })
        };
        Ok(Programs {
            server: find(["mariadbd", "mysqld"])?,
            client: find(["mariadb", "mysql"])?,
            dump: find(["mariadb-dump", "mysqldump"])?,
            backup: find(["mariadb-backup", "mariabackup"]).ok(),
            base: base.clone(),
            plugins,
            lower_case,
        })
    }

    /// A client to connect to the server. Nobody sees the password in a list of processes.
    pub fn connected(&self, program: &Path, server: &Address<'_>) -> Result<Command, Failure> {
        let mut command = Command::new(program);
        command.arg("--no-defaults").arg(format!("--user={}", server.user));
        if let Some(socket) = server.local()? {
            command.arg(format!("--socket={}", socket.display()));
        }
        if let Some(password) = server.password()? {
            command.env("MYSQL_PWD", password);
        }
        Ok(command)
    }
}

/// Why a program failed, in its own words where it has some.
pub fn told(status: ExitStatus, errors: &[u8]) -> String {
    match String::from_utf8_lossy(errors).trim() {
        "" => status.to_string(),
        errors => errors.to_string(),
    }
}
