//! A server's address and login, in the form of Go's MySQL driver:
//! `user:password@unix(/path)/database?name=value`, `user@tcp(host:3306)/database`.
//!
//! Parameters with a meaning here are followed: `timeout`, `readTimeout`, `writeTimeout`, `charset`,
//! `collation`, `maxAllowedPacket`. Parameters of the driver alone are refused by name. Any other is a
//! variable of the session; the driver sets it as well.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clock;

/// The driver's socket where none is named.
const DEFAULT_SOCKET: &str = "/tmp/mysql.sock";
/// The driver's host where none is named.
const DEFAULT_HOST: &str = "127.0.0.1";
/// The server's port where none is named.
const DEFAULT_PORT: u16 = 3306;

/// Parameters of Go's driver without a meaning for any other client.
const DRIVERS_OWN: [&str; 18] = [
    "allowAllFiles",
    "allowCleartextPasswords",
    "allowFallbackToPlaintext",
    "allowNativePasswords",
    "allowOldPasswords",
    "checkConnLiveness",
    "clientFoundRows",
    "columnsWithAlias",
    "compress",
    "connectionAttributes",
    "interpolateParams",
    "loc",
    "multiStatements",
    "parseTime",
    "rejectReadOnly",
    "serverPubKey",
    "timeTruncate",
    "tls",
];

/// The address of a listening server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket of this machine.
    Unix(PathBuf),
    /// A host and its port.
    Tcp {
        /// Name or number.
        host: String,
        /// Port.
        port: u16,
    },
}

/// A database, with its server and login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dsn {
    /// The user; empty for the server's default.
    pub user: String,
    /// The password; none for none.
    pub password: Option<String>,
    /// The server's address.
    pub endpoint: Endpoint,
    /// The database.
    pub database: String,
    /// The longest time until a connection over the network stands.
    pub connect_timeout: Option<Duration>,
    /// The longest wait for an answer.
    pub read_timeout: Option<Duration>,
    /// The longest wait until a statement is sent.
    pub write_timeout: Option<Duration>,
    /// The largest packet of the client, in bytes.
    pub max_packet: Option<usize>,
    /// The first statements of each connection.
    pub at_start: Vec<String>,
}

impl Dsn {
    /// Reads one. The error names the unsupported part.
    pub fn parse(text: &str) -> Result<Dsn, String> {
        // As the driver does: the last slash ends the address, the last @ before it the login.
        let (left, right) = text.rsplit_once('/').ok_or_else(|| {
            "it has no slash before the database: user:password@unix(/path/of/socket)/database".to_string()
        })?;
        let (login, address) = left.rsplit_once('@').unwrap_or(("", left));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password).filter(|p| !p.is_empty())),
            None => (login, None),
        };
        let (database, parameters) = right.split_once('?').unwrap_or((right, ""));
        let database = unescaped(database)?;
        if database.is_empty() {
            return Err("it names no database after its last slash".to_string());
        }
        let mut dsn = Dsn {
            user: user.to_string(),
            password: password.map(str::to_string),
            endpoint: endpoint(address)?,
            database,
            connect_timeout: None,
            read_timeout: None,
            write_timeout: None,
            max_packet: None,
            at_start: Vec::new(),
        };
        dsn.follow(parameters)?;
        Ok(dsn)
    }

    /// The way to a server of the laboratory's own: root over its socket, with database and
    /// parameters of this one.
    pub fn on_socket(&self, socket: &Path) -> Dsn {
        Dsn {
            user: "root".to_string(),
            password: None,
            endpoint: Endpoint::Unix(socket.to_path_buf()),
            ..self.clone()
        }
    }

    fn follow(&mut self, parameters: &str) -> Result<(), String> {
        let (mut charset, mut collation) = (None, None);
        let mut variables = Vec::new();
        for parameter in parameters.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = parameter
                .split_once('=')
                .ok_or_else(|| format!("its parameter '{parameter}' has no value"))?;
            let value = unescaped(value)?;
            let time = || clock::duration(&value).map(Some).map_err(|why| format!("its {name}: {why}"));
            match name {
                "timeout" => self.connect_timeout = time()?,
                "readTimeout" => self.read_timeout = time()?,
                "writeTimeout" => self.write_timeout = time()?,
                "maxAllowedPacket" => {
                    let bytes = value.parse().ok().filter(|n| *n >= 1024);
                    self.max_packet = Some(
                        bytes
                            .ok_or_else(|| format!("its maxAllowedPacket: '{value}' is no size in bytes"))?,
                    );
                }
                "charset" => charset = Some(word(name, &value)?),
                "collation" => collation = Some(word(name, &value)?),
                _ if DRIVERS_OWN.contains(&name) => {
                    return Err(format!("its parameter {name} steers Go's driver, and does nothing here"));
                }
                _ => variables.push(format!("SET {}={value}", word("a parameter", name)?)),
            }
        }
        self.at_start = match (charset, collation) {
            (Some(charset), Some(collation)) => vec![format!("SET NAMES {charset} COLLATE {collation}")],
            (Some(charset), None) => vec![format!("SET NAMES {charset}")],
            (None, Some(collation)) => vec![format!("SET collation_connection = {collation}")],
            (None, None) => Vec::new(),
        };
        self.at_start.extend(variables);
        Ok(())
    }
}

/// Without the password.
impl fmt::Display for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}@", self.user, if self.password.is_some() { ":***" } else { "" })?;
        match &self.endpoint {
            Endpoint::Unix(path) => write!(f, "unix({})", path.display())?,
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "tcp([{host}]:{port})")?,
            Endpoint::Tcp { host, port } => write!(f, "tcp({host}:{port})")?,
        }
        write!(f, "/{}", self.database)
    }
}

/// `unix(/path)`, `tcp(host:port)`, with the driver's defaults for missing parts.
fn endpoint(address: &str) -> Result<Endpoint, String> {
    let (protocol, place) = match address.split_once('(') {
        Some((protocol, rest)) => {
            let place =
                rest.strip_suffix(')').ok_or_else(|| format!("its address '{address}' does not end in )"))?;
            (protocol, place)
        }
        None => (address, ""),
    };
    match protocol {
        "unix" => Ok(Endpoint::Unix(PathBuf::from(if place.is_empty() { DEFAULT_SOCKET } else { place }))),
        "tcp" | "" => tcp(place),
        _ => Err(format!("its protocol '{protocol}' is neither unix nor tcp")),
    }
}

fn tcp(place: &str) -> Result<Endpoint, String> {
    let number = |port: &str| {
        port.parse::<u16>().ok().filter(|n| *n > 0).ok_or_else(|| format!("'{port}' in '{place}' is no port"))
    };
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, DEFAULT_PORT),
        Some((host, rest)) => (host, number(rest.trim_start_matches(':'))?),
        None => match place.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err(format!("the IPv6 address '{place}' needs brackets: tcp([{place}]:3306)"));
            }
            Some((host, port)) => (host, number(port)?),
            None => (place, DEFAULT_PORT),
        },
    };
    let host = if host.is_empty() { DEFAULT_HOST } else { host };
    Ok(Endpoint::Tcp { host: host.to_string(), port })
}

/// A name for use in statements without quotes.
fn word(name: &str, value: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '@');
    if value.is_empty() || !value.chars().all(fits) {
        return Err(format!("'{value}' as {name} is no name"));
    }
    Ok(value.to_string())
}

/// Undoes `%41` and `+`.
fn unescaped(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let code = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
                let byte = code.and_then(|two| u8::from_str_radix(two, 16).ok());
                bytes.push(byte.ok_or_else(|| format!("'{text}' has a % without two digits"))?);
                rest = &rest[2..];
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("'{text}' is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(path: &str) -> Endpoint {
        Endpoint::Unix(PathBuf::from(path))
    }

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.to_string(), port }
    }

    #[test]
    fn the_published_one() {
        let dsn = Dsn::parse("iibench:iibench@unix(/tmp/mariadb.sock)/iibench").unwrap();
        assert_eq!((dsn.user.as_str(), dsn.password.as_deref()), ("iibench", Some("iibench")));
        assert_eq!((&dsn.endpoint, dsn.database.as_str()), (&unix("/tmp/mariadb.sock"), "iibench"));
        assert_eq!(dsn.to_string(), "iibench:***@unix(/tmp/mariadb.sock)/iibench");
    }

    #[test]
    fn addresses() {
        let of = |address: &str| Dsn::parse(&format!("u@{address}/d")).unwrap().endpoint;
        assert_eq!(of("tcp(db.example:3307)"), tcp("db.example", 3307));
        assert_eq!(of("tcp(db.example)"), tcp("db.example", 3306));
        assert_eq!(of("tcp([::1]:3310)"), tcp("::1", 3310));
        assert_eq!(of("tcp([::1])"), tcp("::1", 3306));
        assert_eq!(of("tcp(:3310)"), tcp("127.0.0.1", 3310));
        assert_eq!(of("tcp"), tcp("127.0.0.1", 3306));
        assert_eq!(of(""), tcp("127.0.0.1", 3306));
        assert_eq!(of("unix"), unix("/tmp/mysql.sock"));
        assert_eq!(Dsn::parse("/d").unwrap().endpoint, tcp("127.0.0.1", 3306));
        assert_eq!(Dsn::parse("u@tcp([::1]:3310)/d").unwrap().to_string(), "u@tcp([::1]:3310)/d");
    }

    #[test]
    fn passwords_may_hold_what_separates_elsewhere() {
        let dsn = Dsn::parse("u:a@b:c/d(e@tcp(h)/d").unwrap();
        assert_eq!((dsn.user.as_str(), dsn.password.as_deref()), ("u", Some("a@b:c/d(e")));
        assert_eq!(dsn.endpoint, tcp("h", 3306));
        assert_eq!(Dsn::parse("u:@/d").unwrap().password, None);
        assert_eq!(Dsn::parse("u@/my%20db").unwrap().database, "my db");
    }

    #[test]
    fn parameters_are_followed() {
        let dsn = Dsn::parse(
            "u@/d?charset=utf8mb4&collation=utf8mb4_bin&timeout=3s&readTimeout=1m&writeTimeout=500ms\
             &maxAllowedPacket=4194304&tx_isolation=%27READ-COMMITTED%27&sort_buffer_size=65536",
        )
        .unwrap();
        assert_eq!(dsn.connect_timeout, Some(Duration::from_secs(3)));
        assert_eq!(dsn.read_timeout, Some(Duration::from_secs(60)));
        assert_eq!(dsn.write_timeout, Some(Duration::from_millis(500)));
        assert_eq!(dsn.max_packet, Some(4 << 20));
        assert_eq!(
            dsn.at_start,
            [
                "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
                "SET tx_isolation='READ-COMMITTED'",
                "SET sort_buffer_size=65536"
            ]
        );
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        for (text, part) in [
            ("u@tcp(h)", "no slash"),
            ("u@tcp(h)/", "no database"),
            ("u@pipe(x)/d", "pipe"),
            ("u@tcp(h:99999)/d", "99999"),
            ("u@tcp(h/d", "does not end in )"),
            ("u@tcp(::1:3306)/d", "brackets"),
            ("u@/d?parseTime=true", "parseTime"),
            ("u@/d?tls=true", "tls"),
            ("u@/d?charset", "no value"),
            ("u@/d?readTimeout=10", "readTimeout"),
            ("u@/d?charset=utf8mb4,latin1", "utf8mb4,latin1"),
            ("u@/d?a;b=1", "a;b"),
            ("u@/d?x=%4", "two digits"),
        ] {
            let error = Dsn::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_server_of_our_own_keeps_database_and_parameters() {
        let dsn = Dsn::parse("a:b@tcp(h)/d?charset=utf8mb4").unwrap().on_socket(Path::new("/x/s"));
        assert_eq!(dsn.to_string(), "root@unix(/x/s)/d");
        assert_eq!(dsn.at_start, ["SET NAMES utf8mb4"]);
    }
}
