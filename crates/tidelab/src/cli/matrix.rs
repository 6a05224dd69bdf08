//! `tidelab matrix`: an experiment of kind `matrix` with options in the place of the file's.

use std::path::PathBuf;

use clap::Args;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::catalogue;
use tidelab_server::server::engine::Engine;
use toml::Value;

use super::{absolute, put};
use crate::experiment::{self, Described, Size};
use crate::matrix::design::{LeftOut, Scenario};
use crate::matrix::Matrix;
use crate::run::Paths;

/// The options of the experiment, and its directories.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The described experiment.
    #[arg(default_value = "experiments/matrix.toml", value_parser = absolute)]
    file: PathBuf,
    /// The size: the published one, or the one for two cores and 24 GiB.
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Servers instead of the file's, by commas: names of `tidelab server list`, prefix:PATH,
    /// socket:PATH.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    servers: Vec<String>,
    /// Engines instead of the file's.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    engines: Vec<Engine>,
    /// Tiers instead of the file's, as 2G.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tiers: Vec<String>,
    /// Numbers of clients instead of the file's.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Vec<u32>,
    /// Scenarios instead of the file's: read_only, read_write, network_read_only, network_read_write.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Rows of each table instead of the file's.
    #[arg(long)]
    rows: Option<u32>,
    /// Tables instead of the file's.
    #[arg(long)]
    tables: Option<u32>,
    /// Measured seconds of each cell instead of the file's.
    #[arg(long)]
    time: Option<u32>,
    /// Seconds of both warm-ups instead of the file's.
    #[arg(long)]
    warm_up: Option<u32>,
    /// Rounds instead of the file's.
    #[arg(long)]
    rounds: Option<u32>,
    /// Cells not to measure, as server=mysql-9.7,threads=512; several times.
    #[arg(long, value_name = "WHAT")]
    leave_out: Vec<LeftOut>,
    /// Go on with a run that was ended; it measures what is missing.
    #[arg(long, value_name = "FOLDER")]
    resume: Option<PathBuf>,
    /// Print the measurements in their order and the settings of their servers, without measuring.
    #[arg(long)]
    dry_run: bool,
    /// The TidesDB plugin.
    #[arg(long, value_name = "FILE", default_value = "build/ha_tidesdb.so", value_parser = absolute)]
    plugin: PathBuf,
    /// The directory of the servers and of prepared data.
    #[arg(long, value_name = "DIR", default_value = "build/experiments/matrix", value_parser = absolute)]
    data: PathBuf,
    /// The directory that gets the run's folder.
    #[arg(long, value_name = "DIR", default_value = "build/runs", value_parser = absolute)]
    out: PathBuf,
}

impl Options {
    /// The experiment at this size, with the options of the command line in the place of the file's.
    fn described(&self) -> Result<Described> {
        let mut described = experiment::read(&self.file)?;
        if described.kind != "matrix" {
            let kind = &described.kind;
            return Err(Error::Usage(format!("{}: the kind is {kind}, no matrix", self.file.display())));
        }
        let mut asked = described.options(self.size);
        fn list<T: ToString>(values: &[T]) -> Value {
            Value::Array(values.iter().map(|value| Value::String(value.to_string())).collect())
        }
        let lists = [
            ("servers", list(&self.servers)),
            ("engines", list(&self.engines)),
            ("tiers", list(&self.tiers)),
            ("threads", Value::Array(self.threads.iter().map(|n| Value::Integer(i64::from(*n))).collect())),
            ("scenarios", list(&self.scenarios)),
        ];
        for (name, value) in lists {
            if value.as_array().is_some_and(|values| !values.is_empty()) {
                asked.insert(name.to_string(), value);
            }
        }
        let numbers = [
            ("rows", self.rows),
            ("tables", self.tables),
            ("time_s", self.time),
            ("warm_up_read_s", self.warm_up),
            ("warm_up_write_s", self.warm_up),
            ("rounds", self.rounds),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                asked.insert(name.to_string(), Value::Integer(i64::from(number)));
            }
        }
        // The file's list of left-out cells may name servers and tiers that are not measured now.
        let replaced = !self.servers.is_empty() || !self.tiers.is_empty();
        let of_file = asked.remove("leave_out").filter(|_| !replaced);
        let mut left_out = of_file.and_then(|value| value.as_array().cloned()).unwrap_or_default();
        for out in &self.leave_out {
            left_out.push(Value::try_from(out).map_err(|error| Error::Usage(error.to_string()))?);
        }
        asked.insert("leave_out".to_string(), Value::Array(left_out));
        match self.size {
            Size::Full => described.full = asked,
            Size::Small => described.small = asked,
        }
        Ok(described)
    }
}

/// Does it. True: every cell was measured and passed its checks.
pub(super) fn run(options: &Options) -> Result<bool> {
    let described = options.described()?;
    let interrupt = Interrupt::on_signals()?;
    // The server for the rates without an engine. Without it, the run has a note in their place.
    let setup = catalogue::setup_prefix(&catalogue::cache());
    let paths = Paths {
        prefix: setup.as_deref().unwrap_or(&options.data),
        plugin: &options.plugin,
        data: &options.data,
        file_folder: options.file.parent().unwrap_or(&options.data),
        interrupt: &interrupt,
    };
    if options.dry_run {
        return show(&described, options.size, paths);
    }
    let (path, whole) =
        experiment::carry_out(&described, options.size, paths, &options.out, options.resume.as_deref())?;
    let progression = path.join("progression.txt");
    let text = std::fs::read_to_string(&progression).map_err(io_error("cannot read", &progression))?;
    put(&format!("{text}\n{} {}\n", if whole { "ok    " } else { "FAILED" }, path.display()));
    Ok(whole)
}

fn show(described: &Described, size: Size, paths: Paths<'_>) -> Result<bool> {
    let mut run = described.run(size, paths.data)?;
    let mut matrix = Matrix::open(experiment::options(&run, described.options(size))?, paths, &mut run)?;
    matrix.look(&run)?;
    let mut text = String::new();
    for note in &run.notes {
        text += &format!("{note}\n");
    }
    for (n, part) in matrix.parts().iter().enumerate() {
        let cells: Vec<String> =
            part.cells.iter().map(|cell| format!("{} {}", cell.scenario, cell.threads)).collect();
        text += &format!("{}\n  {}\n", part.title, cells.join(", "));
        let told = matrix.parts()[..n].iter().any(|before| before.folder() == part.folder());
        for line in if told { Vec::new() } else { matrix.aligned(part)?.applied } {
            text += &format!("  {line}\n");
        }
    }
    put(&text);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;
    use super::*;
    use crate::matrix::Design;

    fn design(words: &str) -> Result<Design> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/matrix.toml");
        let words = words.replace("FILE", file);
        match parse(&words).unwrap().command {
            Some(Command::Matrix(options)) => {
                let described = options.described()?;
                let run = described.run(options.size, &options.data)?;
                let design: Design = experiment::options(&run, described.options(options.size))?;
                design.check().map(|()| design)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_take_the_place_of_the_file_s() {
        for size in ["small", "full"] {
            let design = design(&format!(
                "tidelab matrix FILE --size {size} --servers mariadb-10.5,mysql-9.7 --engines innodb --threads 1,512 \
                 --tiers 128M --scenarios read_only --time 5 --warm-up 1 --leave-out server=mysql-9.7,threads=512"
            )
            .replace("                 ", ""))
            .unwrap();
            assert_eq!(design.servers.len(), 2);
            assert_eq!(
                (design.engines, design.threads, design.time_s),
                (vec![Engine::InnoDb], vec![1, 512], 5)
            );
            assert_eq!((design.warm_up_read_s, design.warm_up_write_s, design.leave_out.len()), (1, 1, 1));
            assert_eq!(design.leave_out[0].threads, Some(512));
        }
        let error = design("tidelab matrix FILE --servers mariadb-9").unwrap_err().to_string();
        assert!(error.contains("mariadb-9"), "{error}");
    }
}
