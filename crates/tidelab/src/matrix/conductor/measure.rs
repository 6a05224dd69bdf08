//! The measurement of a part: warm-ups, cells, and the check of the tables afterwards.

use std::fs;
use std::time::Duration;

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::alignment::Aligned;
use tidelab_server::server::analyze::Analyzed;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::session::Address;
use tidelab_server::server::source::FoundServer;
use tidelab_server::telemetry::disk;
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::telemetry::recorder::{Recorder, FILE};
use tidelab_server::workload::sysbench::{Extra, Workload};

use super::super::design::{Part, Planned};
use super::super::figures::{fill, say};
use super::super::measured_server::{
    connect, rows_of, run_statement, target, write_rows, MeasuredServer, Network,
};
use super::Matrix;
use crate::measure::check::{self, Expected};
use crate::measure::server_use::per_call_us;
use crate::run::conduct::failed;
use crate::run::folder::cell_folder;
use crate::run::{Cell, Folder, Run, Series};

impl Matrix<'_> {
    /// Runs a load whose figures count for nothing. By how much it changed the number of rows.
    fn warm_up(
        &self,
        running: &MeasuredServer<'_>,
        part: &Part,
        workload: Workload,
        seconds: u32,
    ) -> Result<(i64, i64)> {
        if seconds == 0 {
            return Ok((0, 0));
        }
        let address = running.address();
        let mut sysbench =
            self.sysbench(&address.socket, running.process(), self.design.warm_up_threads, seconds);
        sysbench.load.warm_up_s = 0;
        let options = self.options(&address, None);
        let extra = Extra { options: &options, log: None };
        let script = format!("oltp_{workload}");
        let what = format!("the warm-up with {workload} of {}", part.competitor.label());
        let target = target(&script, part.competitor.engine);
        let run = sysbench.run_with(target, &what, self.design.seed, extra, |_| {})?;
        Ok(workload.row_change(run.report.measured.writes, run.report.measured.retried_errors))
    }

    /// Measures one cell; returns the least and the greatest change of the number of rows, unless the cell
    /// has no figures.
    fn cell(
        &self,
        running: &mut MeasuredServer<'_>,
        network: Option<&Network>,
        part: &Part,
        planned: &Planned,
        folder: &Folder,
    ) -> Result<(Cell, (i64, i64))> {
        let files = folder.begin(&planned.id)?;
        let mut cell = Cell::new(planned.id.clone(), u64::from(planned.seed));
        let address = running.address();
        let mut keep = |name: &str| {
            cell.files.push(name.to_string());
            files.join(name)
        };
        write_rows(&address, "SHOW GLOBAL STATUS", &keep("status-before.tsv"))?;
        let log = keep("sysbench.txt");
        let network = network.filter(|_| planned.scenario.over_network());
        let options = self.options(&address, network);
        let extra = Extra { options: &options, log: Some(&log) };
        let sysbench = self.sysbench(&address.socket, running.process(), planned.threads, self.design.time_s);
        let recorder = Recorder::of_server(running.process(), &running.device(), &address)?;
        let workload = planned.scenario.workload();
        let script = format!("oltp_{workload}");
        let what = format!("sysbench {workload} on {}", part.competitor.label());
        let target = target(&script, part.competitor.engine);
        let result = sysbench.run_with(target, &what, planned.seed, extra, |_| {});
        recorder.stop().series.write(&files.join(FILE))?;
        cell.series.push(FILE.to_string());
        let run = match result {
            Ok(run) => run,
            Err(error @ (Error::Interrupted | Error::Io { .. } | Error::Missing { .. })) => {
                return Err(error)
            }
            Err(error) => {
                cell.failures.push(error.to_string());
                return Ok((cell, (0, 0)));
            }
        };
        write_rows(&address, "SHOW GLOBAL STATUS", &keep("status-after.tsv"))?;
        let engine_status = format!("SHOW ENGINE {} STATUS", part.competitor.engine.name());
        write_rows(&address, &engine_status, &keep("engine-status.tsv"))?;
        let mut seconds = Series::new(["transactions_per_s", "statements_per_s", "p95_ms", "errors_per_s"]);
        for (second, _) in &run.seconds {
            let rates =
                [second.transactions_per_s, second.statements_per_s, second.p95_ms, second.errors_per_s];
            seconds.rows.push(std::iter::once(second.at_s).chain(rates).collect());
        }
        seconds.write(&files.join("seconds.csv"))?;
        cell.series.insert(0, "seconds.csv".to_string());

        let before = running.process().map(|pid| process_use(pid).cpu_s);
        if let Some(process) = running.process() {
            idle::wait(process, Duration::from_secs(u64::from(self.design.settle_s)), self.paths.interrupt)?;
        }
        let space = running.directory().map(|d| disk::of_engine(d, part.competitor.engine));
        fill(&mut cell, &run, running.process(), space);
        if let (Some(process), Some(before)) = (running.process(), before) {
            let after = process_use(process).cpu_s - before;
            cell.figure("after_cpu_us", per_call_us(after, run.report.measured.statements));
        }
        cell.histograms.insert("transaction_ms".to_string(), run.report.histogram.clone());
        if run.report.measured.reconnects > 0 {
            cell.failures.push(format!("{} connections were lost", run.report.measured.reconnects));
        }
        if run.report.measured.transactions == 0 {
            cell.failures.push("not one transaction came to its end".to_string());
        }
        let parts = [run.report.warm_up.unwrap_or_default(), run.report.measured];
        let writes = parts.iter().map(|p| p.writes).sum();
        let errors = parts.iter().map(|p| p.retried_errors).sum();
        Ok((cell, workload.row_change(writes, errors)))
    }

    /// Warms a server up and measures the open cells of its part. Errors end the run.
    fn measure_on(
        &self,
        running: &mut MeasuredServer<'_>,
        network: Option<&Network>,
        part: &Part,
        folder: &mut Folder,
    ) -> Result<()> {
        let open: Vec<&Planned> = part.cells.iter().filter(|c| !folder.has(&c.id)).collect();
        let engine = part.competitor.engine;
        self.warm_up(running, part, Workload::ReadOnly, self.design.warm_up_read_s)?;
        let mut writing = false;
        let mut expected = Some(Expected::exactly(self.design.rows * u64::from(self.design.tables)));
        for planned in &open {
            let writes = planned.scenario.workload() == Workload::ReadWrite;
            if writes && !writing {
                let change = self.warm_up(running, part, Workload::ReadWrite, self.design.warm_up_write_s)?;
                expected = expected.map(|e| e.after(change));
                writing = true;
            }
            let (cell, change) = self.cell(running, network, part, planned, folder)?;
            expected = if cell.figures.is_empty() { None } else { expected.map(|e| e.after(change)) };
            say(&cell);
            let alive = running.check_alive();
            folder.finish(cell)?;
            if let Err(error) = alive {
                return self.give_up(part, folder, &error.to_string());
            }
        }
        let mut session = connect(&running.address())?;
        let complaints =
            match check::tables_by(&mut rows_of(&mut session), engine, self.design.tables, expected) {
                Ok(found) => found.complaints,
                Err(error) => vec![error.to_string()],
            };
        if !complaints.is_empty() {
            let text = format!("afterwards: {}", complaints.join("; "));
            eprintln!("      WRONG {text}");
            for planned in &open {
                blame(folder, &planned.id, &text)?;
            }
        }
        Ok(())
    }

    /// Fails the unmeasured cells of a part.
    fn give_up(&self, part: &Part, folder: &mut Folder, why: &str) -> Result<()> {
        eprintln!("      FAILED {why}");
        for planned in &part.cells {
            if !folder.has(&planned.id) {
                folder.finish(failed(&planned.id, why))?;
            }
        }
        Ok(())
    }

    /// Keeps the server's facts in the run's folder.
    fn keep_server(
        &self,
        running: &MeasuredServer<'_>,
        part: &Part,
        aligned: &Aligned,
        run: &mut Run,
        folder: &Folder,
    ) -> Result<()> {
        let place = format!("servers/{}-r{}", part.folder(), part.round);
        let path = folder.path().join(&place);
        fs::create_dir_all(&path).map_err(io_error("cannot make", &path))?;
        let mut keep = |name: &str, text: &str| {
            let file = path.join(name);
            let of_run = format!("{place}/{name}");
            if !run.files.contains(&of_run) {
                run.files.push(of_run);
            }
            fs::write(&file, text).map_err(io_error("cannot write", &file))
        };
        if let Some(directory) = running.directory() {
            let options = directory.join("my.cnf");
            let text = fs::read_to_string(&options).map_err(io_error("cannot read", &options))?;
            keep("my.cnf", &text)?;
        }
        let variables: Vec<String> =
            running.variables().iter().map(|(name, value)| format!("{name}\t{value}\n")).collect();
        keep("variables.tsv", &variables.concat())?;
        keep("alignment.txt", &(aligned.applied.join("\n") + "\n"))?;
        let prefix = match self.server(&part.competitor)? {
            FoundServer::Installed(installation) => installation.prefix.to_string_lossy().into_owned(),
            FoundServer::Running(existing) => existing.address().socket.to_string_lossy().into_owned(),
        };
        let facts = ServerFacts::new(&prefix, &aligned.settings, running.variables());
        let label = part.competitor.label();
        run.servers.entry(label.clone()).or_insert_with(|| facts.clone());
        run.servers.insert(format!("{label}, {}", part.tier), facts);
        Ok(())
    }

    /// Measures the open cells of a part. Errors end the run.
    pub(super) fn measure_part(&self, part: &Part, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let aligned = self.aligned(part)?;
        if part.round == 1 {
            for line in &aligned.applied {
                eprintln!("      {line}");
            }
        }
        let (mut running, network) = match self.measured_server(part, &aligned) {
            Ok(started) => started,
            // The server differs from the design: no figure of this run would be right.
            Err(error @ (Error::Setting(_) | Error::Usage(_))) => return Err(error),
            Err(error @ (Error::Interrupted | Error::Io { .. } | Error::Missing { .. })) => {
                return Err(error)
            }
            Err(error) => return self.give_up(part, folder, &error.to_string()),
        };
        eprintln!(
            "      {} settings read back as asked",
            aligned.settings.iter().filter(|s| s.exact).count()
        );
        self.keep_server(&running, part, &aligned, run, folder)?;
        run.note(Analyzed::note(&part.competitor.label()));
        let measured = self.measure_on(&mut running, network.as_ref(), part, folder);
        let ended = match running {
            MeasuredServer::Ours(server) => {
                let log = server.directory().join("error.log");
                let place = format!("servers/{}-r{}", part.folder(), part.round);
                // The log of a server that ended in order is of interest too. A log that cannot be copied
                // is no reason to lose figures.
                let _ = fs::copy(&log, folder.path().join(place).join("error.log"));
                server.stop(false)
            }
            MeasuredServer::Theirs(_) => {
                let database = part.competitor.engine.database();
                let dropped = connect(&self.address_of(part)?).and_then(|mut session| {
                    run_statement(&mut session, &format!("DROP DATABASE IF EXISTS {database}"))
                });
                dropped.map(|_| ())
            }
        };
        match measured {
            Ok(()) => ended,
            Err(error @ (Error::Interrupted | Error::Io { .. } | Error::Missing { .. })) => Err(error),
            // A load that failed outside of a cell: nothing of this part can be measured.
            Err(error) => self.give_up(part, folder, &error.to_string()),
        }
    }

    fn address_of(&self, part: &Part) -> Result<Address> {
        match self.server(&part.competitor)? {
            FoundServer::Running(existing) => Ok(existing.address().clone()),
            FoundServer::Installed(_) => {
                Err(Error::Usage(format!("{} does not run", part.competitor.server)))
            }
        }
    }
}

/// Adds a failure to a cell already in the folder; its files stay.
fn blame(folder: &mut Folder, id: &crate::run::CellId, why: &str) -> Result<()> {
    let there = cell_folder(folder.path(), id);
    let head = there.join("cell.json");
    let text = fs::read_to_string(&head).map_err(io_error("cannot read", &head))?;
    let mut cell: Cell =
        serde_json::from_str(&text).map_err(|error| Error::Usage(format!("{}: {error}", head.display())))?;
    cell.failures.push(why.to_string());
    let making = folder.begin(id)?;
    for name in cell.files.iter().chain(&cell.series) {
        let from = there.join(name);
        fs::copy(&from, making.join(name)).map_err(io_error("cannot copy", &from))?;
    }
    folder.finish(cell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CellId;

    #[test]
    fn a_cell_is_blamed_and_keeps_its_files() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = Folder::create(parent.path(), &Run::new("t", "", "matrix")).unwrap();
        let mut cell = Cell::new(CellId::new([("server", "a".to_string())], 1), 1);
        cell.figure("transactions_per_s", 5.0);
        cell.files.push("sysbench.txt".to_string());
        fs::write(folder.begin(&cell.id).unwrap().join("sysbench.txt"), "raw").unwrap();
        let id = cell.id.clone();
        folder.finish(cell).unwrap();
        blame(&mut folder, &id, "a row is missing").unwrap();
        let (_, cells) = crate::run::folder::read(folder.path()).unwrap();
        assert_eq!(cells[0].failures, ["a row is missing"]);
        assert!(!cells[0].counts());
        let kept = fs::read_to_string(cell_folder(folder.path(), &id).join("sysbench.txt")).unwrap();
        assert_eq!(kept, "raw");
    }
}
