//! The kind `tpcc`: TPC-C on each competitor, loaded once, rounds interleaved, conditions checked.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::allocator::Allocator;
use tidelab_server::server::cnf;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{self, Setting};
use tidelab_server::telemetry::machine;
use tidelab_server::workload::tpcc::Scale;

use crate::measure::plan::rotated;
use crate::measure::tpcc::figures::metrics;
use crate::measure::tpcc::{Design, Experiment, Place};
use crate::report::progress::tpcc::Progress;
use crate::report::sparks::Sparks;
use crate::run::bound::{Driven, Unbounded};
use crate::run::{self, Axis, CellId, Folder, Group, Paths, Role, Run};

/// The options of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The competitors.
    competitors: Vec<Competitor>,
    /// The reference competitor of ratios.
    reference: String,
    warehouses: i64,
    users: u32,
    build_users: u32,
    ramp_up_s: u32,
    /// Seconds at most until the rate is steady; not there: the ramp-up is fixed.
    #[serde(default)]
    ramp_up_limit_s: u32,
    duration_s: u32,
    settle_s: u32,
    rounds: u32,
    /// An option file in the same folder; without it the laboratory's settings with caches of `cache_mb`.
    cnf: Option<String>,
    cache_mb: Option<u64>,
    #[serde(default = "one")]
    seed: u64,
}

fn one() -> u64 {
    1
}

/// One competitor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Competitor {
    /// The name in results.
    name: String,
    /// Its engine.
    engine: Engine,
    /// Another plugin than the one named on the command line, as `build/at/REVISION/ha_tidesdb.so` of `make
    /// plugin-at`.
    plugin: Option<String>,
    /// Left out, with a note in the run, where its plugin is not there.
    #[serde(default)]
    optional: bool,
    /// Its servers' allocator, where it is not the C library's.
    allocator: Option<Allocator>,
    /// An option file of its own.
    cnf: Option<String>,
    /// Further variables.
    #[serde(default)]
    set: BTreeMap<String, String>,
}

/// Measures.
pub struct Conductor<'a> {
    options: Options,
    paths: Paths<'a>,
    designs: BTreeMap<String, (Design, Vec<Setting>)>,
    /// The source files of settings, by name.
    rules: Vec<(String, String)>,
    /// The terminal's bars of the rounds before.
    sparks: Sparks,
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics. Errors: something named by the options is
    /// missing or makes no sense.
    pub fn open(mut options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        run.notes.extend(leave_out_missing(&mut options.competitors, paths));
        if options.competitors.is_empty()
            || options.rounds == 0
            || options.warehouses < 1
            || options.users == 0
        {
            return Err(Error::Usage(format!(
                "{}: competitors, rounds, warehouses and users must be there and more than 0",
                run.name
            )));
        }
        if !options.competitors.iter().any(|c| c.name == options.reference) {
            let name = &options.reference;
            return Err(Error::Usage(format!("{}: no competitor is the reference '{name}'", run.name)));
        }
        let names: Vec<&str> = options.competitors.iter().map(|c| c.name.as_str()).collect();
        run.axes = vec![Axis::new("competitor", "Competitor", Role::Competitor, &names)];
        run.reference = Some(options.reference.clone());
        run.metrics = metrics();
        let mut designs = BTreeMap::new();
        for competitor in &options.competitors {
            let (settings, scale, file) = settings_of(&options, competitor, paths)?;
            if scale < 1.0 {
                run.notes.push(format!(
                    "{}: memory sizes are {scale:.3} of those in {}, for this machine has less",
                    competitor.name,
                    file.as_deref().unwrap_or("the option file")
                ));
            }
            let design = Design {
                engines: vec![competitor.engine],
                rounds: options.rounds,
                scale: Scale::full(options.warehouses),
                users: options.users,
                build_users: options.build_users,
                ramp_up_s: options.ramp_up_s,
                ramp_up_limit_s: options.ramp_up_limit_s,
                duration_s: options.duration_s.max(1),
                settle_s: options.settle_s,
                seed: options.seed,
                options: file,
                memory_scale: scale,
            };
            if designs.insert(competitor.name.clone(), (design, settings)).is_some() {
                let name = &competitor.name;
                return Err(Error::Usage(format!("{}: two competitors are called '{name}'", run.name)));
            }
        }
        let rules = rules(&options, paths)?;
        Ok(Conductor { options, paths, designs, rules, sparks: Sparks::default() })
    }

    fn id(&self, competitor: &str, round: u32) -> CellId {
        CellId::new([("competitor", competitor.to_string())], round)
    }
}

/// Leaves out optional competitors whose plugin is not there, and says so.
fn leave_out_missing(competitors: &mut Vec<Competitor>, paths: Paths<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    competitors.retain(|competitor| {
        let missing =
            competitor.plugin.as_ref().filter(|path| competitor.optional && !paths.named(path).exists());
        notes.extend(missing.map(|path| format!("{}: left out, for {path} is not there", competitor.name)));
        missing.is_none()
    });
    notes
}

/// The source files of settings: named option files, or the comparison's rules.
fn rules(options: &Options, paths: Paths<'_>) -> Result<Vec<(String, String)>> {
    let mut rules: Vec<(String, String)> = Vec::new();
    for competitor in &options.competitors {
        let (name, text) = match competitor.cnf.as_ref().or(options.cnf.as_ref()) {
            None => ("comparison.toml".to_string(), settings::COMPARISON.to_string()),
            Some(name) => {
                let path = paths.named(name);
                let text = std::fs::read_to_string(&path).map_err(io_error("cannot read", &path))?;
                let file = path.file_name().map_or(name.clone(), |file| file.to_string_lossy().into_owned());
                (file, text)
            }
        };
        if !rules.iter().any(|(known, _)| *known == name) {
            rules.push((name, text));
        }
    }
    Ok(rules)
}

/// The settings of a competitor's server, by how much memory was scaled, and the file's name.
fn settings_of(
    options: &Options,
    competitor: &Competitor,
    paths: Paths<'_>,
) -> Result<(Vec<Setting>, f64, Option<String>)> {
    let connections = options.users.max(options.build_users) + 20;
    let (mut settings, scale, file) =
        match (competitor.cnf.as_ref().or(options.cnf.as_ref()), options.cache_mb) {
            (Some(name), None) => {
                let file = cnf::read(&paths.named(name))?;
                let scale = file.scale_for(machine::describe(paths.data).memory_bytes);
                (file.settings(competitor.engine, scale, connections), scale, Some(name.clone()))
            }
            (None, Some(cache_mb)) => {
                (settings::comparison(&[competitor.engine], cache_mb, connections), 1.0, None)
            }
            _ => {
                return Err(Error::Usage("either cnf or cache_mb says how large the caches are".to_string()))
            }
        };
    for (name, value) in &competitor.set {
        settings.retain(|s| s.name != name.as_str());
        settings.push(settings::setting(name.clone(), value.clone()));
    }
    Ok((settings, scale, file))
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let names: Vec<&str> = self.options.competitors.iter().map(|c| c.name.as_str()).collect();
        let mut groups = Vec::new();
        for round in 1..=self.options.rounds {
            for name in rotated(&names, round - 1) {
                groups.push(Group {
                    title: format!("round {round}: {name}"),
                    cells: vec![self.id(name, round)],
                });
            }
        }
        groups
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        for id in &group.cells {
            let name = id.label("competitor");
            let (Some((design, settings)), Some(competitor)) =
                (self.designs.get(name), self.options.competitors.iter().find(|c| c.name == name))
            else {
                return Err(Error::Usage(format!("there is no competitor '{name}'")));
            };
            let plugin = competitor.plugin.as_ref().map(|path| self.paths.named(path));
            let directory = self.paths.data.join(name);
            let making = folder.begin(id)?;
            let place = Place {
                prefix: self.paths.prefix,
                plugin: plugin.as_deref().unwrap_or(self.paths.plugin),
                allocator: competitor.allocator,
                groups: &[],
                directory: &directory,
                kept: Some(&making),
            };
            let mut progress = Progress::of_one(design, name, std::mem::take(&mut self.sparks));
            let settings = BTreeMap::from([(competitor.engine, settings.clone())]);
            let experiment = Experiment::new(design, place, &settings, self.paths.interrupt, &mut progress);
            let record = experiment.one(competitor.engine, id.round);
            self.sparks = progress.close();
            let record = record?;
            for (_, facts) in record.servers {
                run.servers.insert(name.to_string(), facts);
            }
            for loaded in record.loads {
                run.notes.push(format!(
                    "{name}: {} rows were loaded in {:.0} s, ANALYZE of {} tables took {:.1} s; with {:.0} s CPU of the \
                     server in all, and they take {:.0} MB",
                    loaded.rows,
                    loaded.seconds,
                    loaded.analyzed.tables,
                    loaded.analyzed.seconds,
                    loaded.server_cpu_s,
                    (loaded.space.data_bytes + loaded.space.log_bytes) as f64 / 1e6
                ));
            }
            for measured in record.cells {
                if measured.warm_up.is_unsteady() {
                    let (round, seconds) = (id.round, measured.warm_up.seconds);
                    run.note(format!("{name}, round {round}: not steady after {seconds:.0} s of ramp-up"));
                }
                let mut cell = measured.kept(id, &run.metrics, &making)?;
                cell.files.clone_from(&record.files);
                folder.finish(cell)?;
            }
        }
        Ok(())
    }

    fn rules(&self) -> Vec<(String, String)> {
        self.rules.clone()
    }

    fn unbounded(&self) -> Vec<Unbounded> {
        vec![Unbounded::new([], Driven::Call, self.options.users)]
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidelab_server::interrupt::Interrupt;

    use super::*;

    #[test]
    fn an_optional_competitor_without_its_plugin_is_left_out_and_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there.so"), "").unwrap();
        let interrupt = Interrupt::default();
        let path = folder.path();
        let paths =
            Paths { prefix: path, plugin: path, data: path, file_folder: path, interrupt: &interrupt };
        #[derive(Deserialize)]
        struct All {
            competitors: Vec<Competitor>,
        }
        let all: All = toml::from_str(
            r#"competitors = [
                { name = "new", engine = "TidesDB" },
                { name = "there", engine = "TidesDB", plugin = "there.so", optional = true },
                { name = "gone", engine = "TidesDB", plugin = "gone.so", optional = true },
                { name = "needed", engine = "TidesDB", plugin = "gone.so", allocator = "jemalloc" },
            ]"#,
        )
        .unwrap();
        let mut competitors = all.competitors;
        let notes = leave_out_missing(&mut competitors, paths);
        let names: Vec<&str> = competitors.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["new", "there", "needed"]);
        assert_eq!(notes, ["gone: left out, for gone.so is not there"]);
        assert_eq!(competitors[2].allocator, Some(Allocator::Jemalloc));
    }
}
