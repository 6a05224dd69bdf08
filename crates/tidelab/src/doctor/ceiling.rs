//! The rates of a load if the engine took no time: driver and server alone.
//!
//! One file alongside the results holds them ([`Ceilings::load`]). The tables of results show how near
//! each result is to its ceiling.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use tidelab_server::error::{io_error, Error, Result};

use crate::run::folder::write_json;

/// Raised when a field of the file changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;
/// The file's name, in the directory of the results.
pub const FILE: &str = "ceiling.json";
/// A result above this share of its ceiling says more of driver and server than of the engine.
const NEAR: f64 = 0.8;

/// The program in charge of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// Debian's sysbench, prepared statements: the sysbench workloads.
    Sysbench,
    /// The laboratory's own client, statements as text: TPC-C.
    Client,
}

impl Driver {
    fn name(self) -> &'static str {
        match self {
            Driver::Sysbench => "sysbench",
            Driver::Client => "client",
        }
    }
}

/// One measured load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The driver.
    pub driver: Driver,
    /// The statement, or sysbench's workload.
    pub load: String,
    /// The engine of the tables; empty where there is no table.
    pub engine: String,
    /// Measured seconds.
    pub seconds: f64,
    /// Transactions a second; for a single statement the statements.
    pub transactions_per_s: f64,
    /// Statements a second.
    pub statements_per_s: f64,
    /// CPU time of the driver for a statement, in microseconds.
    pub driver_cpu_us: f64,
    /// CPU time of the server for a statement, in microseconds.
    pub server_cpu_us: f64,
    /// CPUs busy with neither, on average.
    pub other_cpus: f64,
}

/// All measurements of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Seconds since 1970.
    pub measured_unix_s: u64,
    /// The CPU's name.
    pub cpu: String,
    /// CPUs.
    pub cpus: usize,
    /// The server's version.
    pub server: String,
    /// Clients.
    pub threads: u32,
    /// The loads, each driver's trivial statement first.
    pub ceilings: Vec<Ceiling>,
}

impl Ceilings {
    /// Reads them from a directory of results; none when they were not measured. Errors: those of the file, a
    /// foreign file, one of another form.
    pub fn load(directory: &Path) -> Result<Option<Ceilings>> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(io_error("cannot read", &path))?;
        let stored: Ceilings = serde_json::from_str(&text)
            .map_err(|error| Error::Usage(format!("{}: {error}; tidelab doctor makes it", path.display())))?;
        if stored.schema_version != SCHEMA_VERSION {
            return Err(Error::Usage(format!(
                "{} is of version {}, this tidelab reads {SCHEMA_VERSION}; tidelab doctor makes it anew",
                path.display(),
                stored.schema_version
            )));
        }
        Ok(Some(stored))
    }

    /// Writes them into a directory of results, whole or not at all. Errors: those of the file.
    pub fn store(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).map_err(io_error("cannot make", directory))?;
        write_json(&directory.join(FILE), self)
    }

    /// True if they apply to a run with so many clients on a machine with this CPU.
    pub fn fits(&self, cpu: &str, cpus: usize, threads: u32) -> bool {
        (self.cpu.as_str(), self.cpus, self.threads) == (cpu, cpus, threads)
    }

    /// The ceiling of a load over tables of this engine; of none for a trivial statement.
    pub fn of(&self, driver: Driver, load: &str, engine: &str) -> Option<&Ceiling> {
        self.ceilings
            .iter()
            .find(|c| (c.driver, c.load.as_str(), c.engine.as_str()) == (driver, load, engine))
    }

    /// The lines below a table of sysbench's results. Each workload's best rate, in transactions a
    /// second, is shown as a share of the rates on BLACKHOLE and MEMORY. Empty where none of them is
    /// known.
    pub fn shares(&self, best: &[(&str, f64)]) -> String {
        let mut text = String::new();
        let mut near = false;
        for (workload, rate) in best {
            let share = |engine: &str| {
                let ceiling = self.of(Driver::Sysbench, workload, engine)?.transactions_per_s;
                (ceiling > 0.0).then_some((ceiling, rate / ceiling))
            };
            let (blackhole, memory) = (share("BLACKHOLE"), share("MEMORY"));
            if blackhole.or(memory).is_none() {
                continue;
            }
            let cell = |found: Option<(f64, f64)>| {
                found.map_or(format!("{:>20}", ""), |(ceiling, share)| {
                    format!("{:>12.0} {:>6.0} %", ceiling, share * 100.0)
                })
            };
            near |= [blackhole, memory].into_iter().flatten().any(|(_, share)| share > NEAR);
            let _ = writeln!(text, "{workload:<17}{rate:>12.0} {} {}", cell(blackhole), cell(memory));
        }
        if text.is_empty() {
            return text;
        }
        let head = format!(
            "{:<17}{:>12} {:>21} {:>21}\n",
            "ceiling, tr./s", "best engine", "BLACKHOLE, reached", "MEMORY, reached"
        );
        if near {
            let _ = writeln!(
                text,
                "Above {:.0} % of a ceiling a result says more of driver and server than of the engine.",
                NEAR * 100.0
            );
        }
        head + &text
    }

    /// All ceilings as a table for people, with an explanation.
    pub fn render(&self) -> String {
        let mut text = format!(
            "What the driver costs, and how fast it goes where no engine is in the way ({} clients, {} CPUs, MariaDB {})\n\n",
            self.threads, self.cpus, self.server
        );
        let _ = writeln!(
            text,
            "{:<9} {:<17} {:<10} {:>14} {:>12} {:>11} {:>11} {:>10}",
            "driver", "load", "engine", "transactions/s", "statements/s", "driver us", "server us", "driver"
        );
        for c in &self.ceilings {
            let both = c.driver_cpu_us + c.server_cpu_us;
            let share = if both > 0.0 { c.driver_cpu_us / both * 100.0 } else { 0.0 };
            let _ = writeln!(
                text,
                "{:<9} {:<17} {:<10} {:>14.0} {:>12.0} {:>11.1} {:>11.1} {:>8.0} %",
                c.driver.name(),
                c.load,
                if c.engine.is_empty() { "-" } else { &c.engine },
                c.transactions_per_s,
                c.statements_per_s,
                c.driver_cpu_us,
                c.server_cpu_us,
                share
            );
        }
        text.push_str(
            "\nCPU time for a statement of the driver and of the server, and the driver's share of both. \
             An engine adds\nto the server's; what is above the rates of BLACKHOLE and MEMORY cannot be measured \
             on this machine.\n",
        );
        let other = self.ceilings.iter().map(|c| c.other_cpus).fold(0.0, f64::max);
        if other > 0.2 {
            let _ = writeln!(
                text,
                "Other work took up to {other:.1} CPUs meanwhile: the rates are too low, CPU times hold."
            );
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ceilings() -> Ceilings {
        let of = |driver, load: &str, engine: &str, rate: f64| Ceiling {
            driver,
            load: load.to_string(),
            engine: engine.to_string(),
            seconds: 2.0,
            transactions_per_s: rate,
            statements_per_s: rate * 2.0,
            driver_cpu_us: 5.0,
            server_cpu_us: 15.0,
            other_cpus: 0.0,
        };
        Ceilings {
            schema_version: SCHEMA_VERSION,
            measured_unix_s: 1,
            cpu: "A CPU".to_string(),
            cpus: 2,
            server: "11.8.6".to_string(),
            threads: 8,
            ceilings: vec![
                of(Driver::Sysbench, "DO 1", "", 90_000.0),
                of(Driver::Client, "DO 1", "", 80_000.0),
                of(Driver::Sysbench, "point_select", "BLACKHOLE", 50_000.0),
                of(Driver::Sysbench, "point_select", "MEMORY", 40_000.0),
                of(Driver::Sysbench, "read_only", "BLACKHOLE", 4_000.0),
            ],
        }
    }

    #[test]
    fn what_is_stored_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("results");
        assert_eq!(Ceilings::load(&directory).unwrap(), None);
        ceilings().store(&directory).unwrap();
        assert_eq!(Ceilings::load(&directory).unwrap(), Some(ceilings()));
        Ceilings { schema_version: 9, ..ceilings() }.store(&directory).unwrap();
        assert!(Ceilings::load(&directory).unwrap_err().to_string().contains("version 9"));
        fs::write(directory.join(FILE), "{}").unwrap();
        assert!(Ceilings::load(&directory).unwrap_err().to_string().contains("tidelab doctor"));
    }

    #[test]
    fn they_are_of_one_machine_and_number_of_clients() {
        let ours = ceilings();
        assert!(ours.fits("A CPU", 2, 8));
        assert!(!ours.fits("A CPU", 2, 9) && !ours.fits("A CPU", 4, 8) && !ours.fits("Another", 2, 8));
    }

    #[test]
    fn results_stand_beside_their_ceiling() {
        let text = ceilings().shares(&[("point_select", 36_000.0), ("read_only", 1_000.0), ("insert", 5.0)]);
        assert!(
            text.contains("point_select            36000        50000     72 %        40000     90 %"),
            "{text}"
        );
        assert!(text.contains("read_only                1000         4000     25 %"), "{text}");
        assert!(!text.contains("insert"), "nothing is known of it: {text}");
        assert!(text.contains("Above 80 %"), "{text}");
        assert!(!ceilings().shares(&[("read_only", 1_000.0)]).contains("Above"));
        assert_eq!(ceilings().shares(&[("insert", 5.0)]), "");
    }

    #[test]
    fn the_table_says_whose_time_it_is() {
        let text = ceilings().render();
        assert!(text.contains("8 clients, 2 CPUs, MariaDB 11.8.6"), "{text}");
        assert!(
            text.contains("client    DO 1              -                   80000       160000         5.0        15.0       25 %"),
            "{text}"
        );
        assert!(!text.contains("Other work"));
    }
}
